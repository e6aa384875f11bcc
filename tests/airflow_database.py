"""An empty database of the installed Airflow. Migrating takes seconds, so it is done once on this machine."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
from pathlib import Path

from tidegate.embedded import airflow_home, places

PROJECT = Path(__file__).parents[1]


def migrated_database() -> Path:
    """The database; it is not to be written to."""
    migrated = PROJECT / ".cache/tests" / f"airflow-{importlib.metadata.version('apache-airflow')}.db"
    if not migrated.exists():
        migrated.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            airflow_home.ensure(Path(folder))
            # It appears whole, also while another worker does the same.
            draft = migrated.with_suffix(f".{os.getpid()}")
            shutil.copyfile(places.airflow_home(Path(folder)) / "airflow.db", draft)
            draft.replace(migrated)
    return migrated
