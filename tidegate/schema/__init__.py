"""What a source may bring, and how that changes."""
