"""Alert rules, and the episodes of alerts."""
