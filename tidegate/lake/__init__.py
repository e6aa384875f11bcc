"""The lake: its addresses, what files and transactions are identified by, and the history of its tables."""
