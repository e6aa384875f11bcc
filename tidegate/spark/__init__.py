"""Runs one increment of a pipeline on Spark. Only this package imports pyspark."""
