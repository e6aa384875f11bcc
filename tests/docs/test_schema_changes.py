"""The guide on schema changes does what it says, line by line, in a project that `tidegate new` made."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.jvm

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "schema-changes.md"


def commands() -> Iterator[tuple[str, int]]:
    """Every command of the guide's console blocks with the exit code that it promises."""
    for block in re.findall(r"^```console\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for shown in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, code = shown.partition("\nexit code ")
            yield command.strip(), int(code or 0)


class Reader:
    """Types the commands. A run happens in this process's Spark, which is there already; all else in a shell."""

    def __init__(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project = project
        self.monkeypatch = monkeypatch
        known = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.variables = {"TIDEGATE_PROJECT": str(project)}
        self.shell = {**known, **self.variables, "PATH": path}
        for package in ("pipelines", "spark_jobs"):
            module = importlib.import_module(package)
            monkeypatch.setattr(module, "__path__", [*module.__path__, str(project / package)])

    def type(self, command: str) -> int:
        if command == "tidegate run orders":
            return self.run()
        if "DRIFT" in command:
            from tidegate import evolution, registry

            (drift,) = evolution.waiting(self.layout(), registry.load("orders"))
            command = command.replace("DRIFT", drift)
        done = subprocess.run(
            command, shell=True, cwd=self.project, env=self.shell, capture_output=True, text=True, check=False
        )
        print(command, done.stdout, done.stderr, sep="\n")
        return done.returncode

    def run(self) -> int:
        from tidegate import registry
        from tidegate.cli.outcome import exit_code
        from tidegate.environment import Environment
        from tidegate.request import RunRequest, fresh_id
        from tidegate.spark.job import run_job

        for name in ("pipelines.orders", "spark_jobs.orders"):
            self.monkeypatch.delitem(sys.modules, name, raising=False)
        for cached in self.project.rglob("__pycache__/*.pyc"):
            cached.unlink()
        importlib.invalidate_caches()
        # Gold reads what silver wrote; leaving it out saves a third of the time.
        request = RunRequest.check(registry.load("orders"), fresh_id("guide"), {"flows": ["bronze", "silver"]})
        report = run_job(Environment.read(self.variables), request, fresh_id("a"))
        print([(flow.flow, flow.state, flow.error) for flow in report.flows])
        return exit_code(report, 0)

    def layout(self) -> Any:
        from tidegate.environment import Environment
        from tidegate.layout import Layout

        return Layout.of(Environment.read(self.variables))


def test_the_guide_can_be_run_line_by_line(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltalake import DeltaTable

    from tidegate import evolution

    project = tmp_path / "project"
    (project / "pipelines").mkdir(parents=True)
    (project / "pipelines" / "__init__.py").touch()
    for name in ("jars", "jars.lock.json"):
        (project / name).symlink_to(ROOT / name)
    reader = Reader(project, monkeypatch)

    wrong = [(command, code) for command, promised in commands() if (code := reader.type(command)) != promised]

    assert wrong == []
    rows = DeltaTable(str(reader.layout().table("silver.orders"))).to_pyarrow_table().to_pylist()
    silver = {row["order_id"]: (row["channel"], row["coupon"], row["_rescued"]) for row in rows}
    assert silver["B-2"] == ("phone", None, None)
    assert silver["C-1"] == ("web", "SPRING", None)
    assert silver["A-1"] == (None, None, None)
    told = [
        (line.event, line.change.field, line.decision, line.decided_by)
        for line in evolution.read(reader.layout(), "orders")
    ]
    assert told == [
        ("observed", "channel", "rescue", ""),
        ("declared", "channel", "new_version", ""),
        ("refused", "coupon", "freeze", ""),
        ("answered", "coupon", "evolve", "ada"),
        ("observed", "coupon", "evolve", ""),
    ]
