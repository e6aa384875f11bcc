"""Reads the current state of sources without a JVM: landing folders, Kafka topics, Delta tables.

Client libraries are imported inside the functions that need them, so that importing a probe is cheap.
"""
