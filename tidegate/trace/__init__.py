"""Follows rows through the tables of a lake: from gold to the record that made it, and from a record to gold. No JVM."""
