"""Delta tables: writes, each one DML, and reads of their versions and transactions."""
