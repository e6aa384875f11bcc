"""Full snapshots of a table, each an interval of landed files."""
