"""The preview of a run: what it would read and write. Starts no JVM."""
