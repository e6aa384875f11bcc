"""Registers Tidegate's pages in an Airflow whose environment was made before Tidegate had an entry point for them.

Airflow reports a plugin that is registered twice as an error.
"""

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="tidegate"):
    from tidegate.airflow.plugin import TidegatePlugin

    __all__ = ["TidegatePlugin"]
