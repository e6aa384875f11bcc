"""Start states: lakes that several tests start with, built once per worker and restored for each test.

A lake has absolute paths (in bronze, in Spark's source logs), so it is always restored to the folder where it was built.
Modification times are preserved, because the file source records them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.deployment import Deployment
from tests.lakes_in_buckets import lakes_in_buckets

BUCKET = "bucket"
Build = Callable[[Deployment], None]


class StartStates:
    """Builds each start state once, at one fixed path, and restores it to that path."""

    def __init__(self, folder: Path, project: Path, spark: Any) -> None:
        self.path = folder / "deployment"
        self._copies = folder / "copies"
        self._project = project
        self._spark = spark
        self._built: dict[Build, Path] = {}

    def restore(self, build: Build) -> Deployment:
        """A deployment in the state that ``build`` creates, without any change by other tests.

        Args:
            build: Called with an empty deployment, once per worker; it must not depend on the test.
        """
        if build not in self._built:
            self._clear()
            build(Deployment.make(self.path, self._project))
            copy = self._copies / str(len(self._built))
            shutil.copytree(self.path, copy, symlinks=True)
            if (bucket := self._bucket) is not None:
                shutil.copytree(bucket, copy / BUCKET, symlinks=True)
            self._built[build] = copy
        else:
            self._clear()
            shutil.copytree(self._built[build], self.path, symlinks=True)
            if (bucket := self._bucket) is not None:
                (self.path / BUCKET).rename(bucket)
        self._clear_table_cache()
        return Deployment.of(self.path, self._project)

    @property
    def _bucket(self) -> Path | None:
        """The folder of the lake's bucket, if it is in one."""
        lakes = lakes_in_buckets()
        return None if lakes is None else lakes.of(self.path).parent

    def _clear(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if (bucket := self._bucket) is not None:
            shutil.rmtree(bucket, ignore_errors=True)
        self._clear_table_cache()

    def _clear_table_cache(self) -> None:
        """Clear Delta's cache, which has the log of each path in the JVM."""
        self._spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
