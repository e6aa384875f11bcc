"""One increment of a pipeline on Spark: the only part of Tidegate that imports pyspark."""
