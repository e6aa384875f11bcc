"""What the processes that a test starts inherit from the process of all tests, and what each test leaves as it was."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

_NAMES = ("AIRFLOW_HOME", "HOME", "PATH", "PYTHONPATH")
_PREFIXES = ("AIRFLOW__", "TIDEGATE_")


@dataclass(frozen=True)
class Inherited:
    """The working folder, and the variables that decide what a child process imports and runs with."""

    folder: str
    variables: dict[str, str]

    @classmethod
    def read(cls) -> Inherited:
        named = {name: value for name, value in os.environ.items() if name in _NAMES or name.startswith(_PREFIXES)}
        return cls(str(Path.cwd()), named)

    def restore(self) -> list[str]:
        """Undo all changes since; returns what had changed."""
        now = Inherited.read()
        changed = sorted(
            name for name in {*self.variables, *now.variables} if self.variables.get(name) != now.variables.get(name)
        )
        for name in changed:
            os.environ.pop(name, None)
        os.environ.update({name: self.variables[name] for name in changed if name in self.variables})
        if self.folder == now.folder:
            return changed
        os.chdir(self.folder)
        return [*changed, "the working folder"]


def slow_parts() -> dict[str, str]:
    """What this process has that takes seconds: the marker of tests that need it, by name."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    has_jvm = getattr(context, "_gateway", None) is not None
    return ({"Great Expectations": "gx"} if "great_expectations" in sys.modules else {}) | (
        {"a JVM": "jvm"} if has_jvm else {}
    )
