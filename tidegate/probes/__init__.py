"""What the sources hold now, asked without a JVM: landing folders, Kafka topics, Delta tables.

Each client is imported inside the functions that need it, so that whoever imports a probe pays for nothing.
"""
