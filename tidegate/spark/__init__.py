"""Runs one increment of a pipeline on Spark. Only this package imports pyspark."""

from tidegate.errors import extras

extras.expect("pyspark")
