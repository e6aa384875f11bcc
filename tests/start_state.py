"""Start states of tests: lakes that several tests begin with, built once per worker and copied back for each test.

A lake holds absolute paths (in bronze, in Spark's source logs), so it is always restored where it was built. File times
are kept, because the file source remembers them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.deployment import Deployment

Build = Callable[[Deployment], None]


class StartStates:
    """Builds each start state once, at one fixed path, and restores it there."""

    def __init__(self, folder: Path, project: Path, spark: Any) -> None:
        self.place = folder / "place"
        self._kept = folder / "kept"
        self._project = project
        self._spark = spark
        self._built: dict[Build, Path] = {}

    def restore(self, build: Build) -> Deployment:
        """A deployment as ``build`` left it. What the test before did to it is gone.

        Args:
            build: Gets an empty deployment. It is called once per worker, so it must not depend on the test.
        """
        if build not in self._built:
            self._clear()
            build(Deployment.make(self.place, self._project))
            kept = self._kept / str(len(self._built))
            shutil.copytree(self.place, kept, symlinks=True)
            self._built[build] = kept
        else:
            self._clear()
            shutil.copytree(self._built[build], self.place, symlinks=True)
        self._forget_tables()
        return Deployment.of(self.place, self._project)

    def _clear(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        self._forget_tables()

    def _forget_tables(self) -> None:
        """Delta remembers the log of each path in the JVM."""
        self._spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
