"""The driver's JVM: session, leases, the listener for progress, translation of exceptions."""
