"""What is derived or read once more: windows, quarantined entries, whole tables."""
