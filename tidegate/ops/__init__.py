"""Reads and writes Tidegate's own small Delta tables, ``_ops/<pipeline>/`` in the lake. Starts no JVM."""
