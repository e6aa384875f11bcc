"""Proposes a suite from the profile of a table. Starts no JVM."""
