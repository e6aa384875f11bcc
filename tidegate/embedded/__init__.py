"""The embedded default: all that makes a fresh clone run on one machine, with nothing installed but Python and Java.

Pinned jars, the Java to run them with, a class data archive for quick starts, a Kafka broker and an Airflow home, each
in a git-ignored folder of the project. Nothing here is needed where Spark, Kafka and Airflow are run by somebody else.
"""
