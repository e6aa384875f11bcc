"""Landing flows of files."""
