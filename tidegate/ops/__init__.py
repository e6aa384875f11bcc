"""The platform's own small Delta tables, ``_ops/<pipeline>/`` in the lake, and how they are read; no JVM."""
