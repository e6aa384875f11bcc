"""Landing flows of messages."""
