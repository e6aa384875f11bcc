"""What is to be read of a source, before a JVM starts: one module per kind of source."""
