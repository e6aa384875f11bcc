"""An empty database of the installed Airflow version. The migration takes seconds, so the result is cached."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
from pathlib import Path

from devstack import airflow_home

PROJECT = Path(__file__).parents[1]


def migrated_home(project_root: Path) -> None:
    """Make the Airflow home of a project, as an earlier start leaves it."""
    home = airflow_home.folder(project_root)
    home.mkdir(parents=True, mode=0o700)
    shutil.copyfile(migrated_database(), home / "airflow.db")
    (home / "migrated.txt").write_text(importlib.metadata.version("apache-airflow-core"))
    assert airflow_home.is_ready(project_root)


def migrated_database() -> Path:
    """The path of the database; copy it before use."""
    migrated = PROJECT / ".cache/tests" / f"airflow-{importlib.metadata.version('apache-airflow')}.db"
    if not migrated.exists():
        migrated.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            airflow_home.ensure(Path(folder))
            # Replaced atomically, because several test workers may do this at the same time.
            draft = migrated.with_suffix(f".{os.getpid()}")
            shutil.copyfile(airflow_home.folder(Path(folder)) / "airflow.db", draft)
            draft.replace(migrated)
    return migrated
