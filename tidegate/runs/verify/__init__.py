"""Verifications: a table, compared with what its source makes."""
