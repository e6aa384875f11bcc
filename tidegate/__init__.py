"""Tidegate: files and Kafka topics into Delta tables, one bounded increment at a time."""

__version__ = "0.1.0"


def provider_info() -> dict[str, str]:
    """What Airflow shows of this package among its providers, by the entry point ``apache_airflow_provider``.

    Airflow asks while it reads its configuration, so that nothing of Airflow can be imported for it.
    """
    return {
        "package-name": "tidegate",
        "name": "Tidegate",
        "description": "Files and Kafka topics into Delta tables, one bounded increment at a time.",
    }
