"""The embedded services: they run a fresh clone on one machine with only Python and Java installed.

Pinned jars, the Java to run them with, a class data archive for faster JVM starts, a Kafka broker and an Airflow home, each
in a git-ignored folder of the project. None of this is needed with an existing Spark, Kafka and Airflow.
"""
