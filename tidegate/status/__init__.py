"""Where every flow stands now: progress against source, freshness, leases; no JVM."""
