"""The life of what was set aside."""
