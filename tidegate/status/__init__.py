"""The current status of every flow: progress against its source, freshness, leases. Starts no JVM."""
