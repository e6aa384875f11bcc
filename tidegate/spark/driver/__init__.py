"""The driver's JVM around a flow: session, leases, listener, failures."""
