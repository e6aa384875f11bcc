"""The development stack: it sets up and runs a fresh clone on one machine with only Python installed.

It prepares the machine as ``tidegate setup`` does, and runs a Kafka broker and an Airflow in git-ignored folders of the project.
None of this is needed with an existing Kafka and Airflow, and the platform never imports it.
"""
