"""The development stack: it sets up and runs a fresh clone on one machine with only Python and Java installed.

It fetches the pinned jars, trains the class data archive, and runs a Kafka broker and an Airflow, each in a git-ignored
folder of the project. None of this is needed with an existing Kafka and Airflow, and the platform never imports it.
"""
