"""A temporary project for tests: declarations, a real lake written without a JVM, and the installed command."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow

from tests import places
from tests.spark_files import address_of, leave_note
from tidegate.checkpoints import checkpoint
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace, Place
from tidegate.ops import ledger
from tidegate.ops.metrics import QueryProgress
from tidegate.reports.ledger_line import LedgerLine
from tidegate.requests.request import RunRequest
from tidegate.spec import ChangeFeed, FileSource, Flow, Gate, KafkaSource, Pipeline, State, Table, Watermark
from tidegate.store import Address

if TYPE_CHECKING:
    pass

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).parent / "tidegate"

DECLARATION = '''"""A declaration of a test."""

from tidegate.spec import AfterTables, ChangeFeed, Contract, Dialect, FileSource, Flow, Formats, Gate, Intervals
from tidegate.spec import KafkaSink, KafkaSource, Pipeline, Resources, RewriteLimits, State, Statistic, Table, Thresholds
from tidegate.spec import TimeWindows, Watermark

pipeline = {pipeline!r}
'''


_HEAVY = {"expectations": ("great_expectations", "tidegate.spark.gate")}
"""Slow imports of some commands, by command."""


@dataclass(frozen=True)
class Result:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    def row(self, *cells: str) -> str:
        """The one line of the output that contains all of these texts."""
        matches = [line for line in self.out.splitlines() if all(cell in line for cell in cells)]
        assert len(matches) == 1, f"{len(matches)} lines contain {cells}:\n{self.out}\n{self.err}"
        return matches[0]

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@functools.cache
def _fork_server(*imported: str) -> subprocess.Popen[str]:
    """A process that forks commands, shared by all tests of this process; it ends when its standard input is closed.

    Args:
        imported: Modules to import in addition to those of most commands.
    """
    return subprocess.Popen(
        [sys.executable, Path(__file__).with_name("fork_server.py"), *imported],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")},
    )


@dataclass(frozen=True)
class Project:
    """The folder and the Kafka address of one test."""

    folder: Path
    kafka: str

    @classmethod
    def make(cls, folder: Path, kafka: str = "127.0.0.1:9") -> Project:
        for package in ("pipelines", "spark_jobs"):
            (folder / package).mkdir(parents=True)
            (folder / package / "__init__.py").touch()
        (folder / "landing").mkdir()
        return cls(folder, kafka)

    @classmethod
    def scaffolded(cls, folder: Path) -> Project:
        """A copy of the real project with a new pipeline `sample` that can run on Spark."""
        folder.mkdir()
        for name in ("pipelines", "spark_jobs", "expectations", "dags"):
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        (folder / ".cache").symlink_to(ROOT / ".cache")
        (folder / "landing").mkdir()
        project = cls(folder, "127.0.0.1:9")
        result = project.run("new", "sample")
        assert result.code == 0, result.err
        return project

    @property
    def environment(self) -> Environment:
        return Environment.read(self.variables)

    @property
    def variables(self) -> dict[str, str]:
        return {
            "TIDEGATE_PROJECT": str(self.folder),
            "TIDEGATE_LAKE": str(self.folder / "lake"),
            "TIDEGATE_LANDING": str(self.folder / "landing"),
            "TIDEGATE_KAFKA": self.kafka,
        }

    @property
    def layout(self) -> Layout:
        return Layout.of(self.environment)

    @property
    def child_environment(self) -> dict[str, str]:
        """The environment of a shell that is configured for this project only."""
        other = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        return {**other, **self.variables}

    def run(self, *arguments: str, **variables: str) -> Result:
        """Run the command in a new process, from a folder outside the project.

        Commands with a deadline get a longer one, because the machine may be busy with other tests.
        """
        if arguments[0] in ("status", "lag") and "--timeout" not in arguments:
            arguments = (*arguments, "--timeout", "30")
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            request = {
                "arguments": arguments,
                "environment": {**self.child_environment, **variables},
                "folder": str(self.folder.parent),
                "out": str(out),
                "err": str(err),
            }
            fork_server = _fork_server(*_HEAVY.get(arguments[0], ()))
            assert fork_server.stdin is not None and fork_server.stdout is not None
            fork_server.stdin.write(json.dumps(request) + "\n")
            fork_server.stdin.flush()
            code = int(fork_server.stdout.readline())
            result = Result(code, out.read_text(), err.read_text())
        assert "Traceback" not in result.err, result.err
        return result

    def declare(self, pipeline: Pipeline) -> Pipeline:
        """Write the declaration, with a transform and a suite for each flow that names one that does not exist."""
        for flow in pipeline.flows:
            module, _, function = (flow.transform or "").partition(":")
            code = self.folder / "spark_jobs" / f"{module}.py"
            if module and f"def {function}(" not in (code.read_text() if code.exists() else ""):
                with code.open("a") as file:
                    file.write(f"def {function}(rows):\n    return rows\n")
            if flow.gate is not None:
                self.suite(flow.gate.suite)
        (self.folder / "pipelines" / f"{pipeline.name}.py").write_text(DECLARATION.format(pipeline=pipeline))
        return pipeline

    def suite(self, name: str) -> None:
        """Write a suite unless there is one of that name."""
        path = self.folder / "expectations" / f"{name}.json"
        if not path.exists():
            rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "order_id"}}
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"name": name, "expectations": [rule]}))

    def land(self, name: str, content: str, folder: str = "orders") -> Path:
        path = self.folder / "landing" / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def table(self, name: str, rows: list[dict[str, Any]]) -> str:
        """Append rows to a Delta table without a JVM; returns the table's id."""
        return append(self.layout.table(name), rows)

    def checkpoint(self, pipeline: Pipeline, flow: Flow) -> Checkpoint:
        checkpoint.write_sidecar(places.of(self.layout, pipeline, flow), flow)
        folder = Place(self.layout, pipeline.name, flow.name, flow.checkpoint_version, 0).checkpoint
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder / "metadata").write_text('{"id":"0b7e6f0e-6d5a-4a55-9a35-0d8a9b5b6c11"}')
        return Checkpoint(Path(folder))

    def record(self, pipeline: Pipeline, record: LedgerLine, **params: Any) -> None:
        """Add a ledger line as a job does; ``params`` are fields of the run's request if it is not an increment."""
        request = RunRequest(dag_id=pipeline.name, run_id="run-1", **params)
        origin = ledger.RunOrigin(
            run_key="run-1",
            mode=request.mode,
            requested_by=request.requested_by or None,
            attempt="a1",
            checkpoint_version=1,
            refresh=0,
        )
        ledger.record(PipelinePlace(self.layout, pipeline.name), record, origin)

    def copy_of_real(self, name: str) -> None:
        """Copy one of the real project's pipelines."""
        for file in (f"pipelines/{name}.py", f"spark_jobs/{name}.py"):
            shutil.copy(ROOT / file, self.folder / file)
        shutil.copytree(ROOT / "expectations" / name, self.folder / "expectations" / name)


@dataclass(frozen=True)
class Checkpoint:
    """Writes a checkpoint in Spark's format."""

    folder: Path

    def plan(self, batch_id: int, *offsets: dict[str, Any] | None) -> Checkpoint:
        """Log the position in each source; None for one of which nothing was read."""
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1_767_607_200_000, "conf": {}}
        leave_note(address_of(self.folder), batch_id)
        lines = ["-" if offset is None else json.dumps(offset) for offset in offsets]
        self._write("offsets", batch_id, "v1", json.dumps(metadata), *lines)
        return self

    def commit(self, batch_id: int) -> Checkpoint:
        self._write("commits", batch_id, "v1", '{"nextBatchWatermarkMs":0}')
        return self

    def listed(self, batch_id: int, *files: Path) -> Checkpoint:
        entries = [
            json.dumps({"path": file.as_uri(), "timestamp": int(file.stat().st_mtime * 1000), "batchId": batch_id})
            for file in files
        ]
        self._write("sources/0", batch_id, "v1", *entries)
        return self

    def _write(self, folder: str, batch_id: int, *lines: str) -> None:
        path = self.folder / folder / str(batch_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines))


_EMPTY = {
    "changed_by": pyarrow.string(),
    "changed_at": pyarrow.timestamp("us", tz="UTC"),
    "reason": pyarrow.string(),
    "_replay": pyarrow.int64(),
    "_in_hand": pyarrow.string(),
}
"""Types of columns that may only contain NULL."""


def append(path: Address, rows: list[dict[str, Any]]) -> str:
    """Append rows to a Delta table and return its id."""
    from deltalake import DeltaTable, write_deltalake

    path.parent.make_folder()
    table = pyarrow.Table.from_pylist(rows)
    for position, column in enumerate(table.schema):
        if column.name in _EMPTY:
            table = table.set_column(position, column.name, table[column.name].cast(_EMPTY[column.name]))
    write_deltalake(str(path), table, mode="append")
    return str(DeltaTable(str(path)).metadata().id)


def orders(*, topic: str = "", version: int = 1) -> Pipeline:
    """A pipeline from files (or a topic) to bronze, silver and gold."""
    schema = "order_id STRING NOT NULL, amount DOUBLE"
    landing = (
        KafkaSource(topic=topic, schema=schema) if topic else FileSource(path="orders", format="csv", schema=schema)
    )
    name = topic or "orders"
    return Pipeline(
        name=name,
        flows=(
            Flow(name="bronze", source=landing, target=Table(f"bronze.{name}")),
            Flow(
                name="silver",
                source=ChangeFeed(f"bronze.{name}"),
                transform=f"{name}:clean",
                target=Table(f"silver.{name}", keys=("order_id",), sequence_by=("amount",), event_time="day"),
                gate=Gate(f"{name}/silver"),
                checkpoint_version=version,
            ),
            Flow(
                name="gold",
                source=ChangeFeed(f"silver.{name}"),
                transform=f"{name}:totals",
                target=Table(f"gold.{name}", keys=("day",)),
            ),
        ),
    )


def stateful_orders() -> Pipeline:
    """`orders` with a flow ``parsed``, which has a watermark, and the stateful flow ``silver``, which reads its table."""
    bronze, silver, gold = orders().flows
    parsed = Flow(
        name="parsed",
        source=ChangeFeed("bronze.orders"),
        transform="orders:clean",
        target=Table("silver.parsed", event_time="at"),
        watermark=Watermark(delay="10 minutes"),
    )
    kept = replace(
        silver,
        source=ChangeFeed("silver.parsed"),
        transform="orders:totals",
        target=Table("silver.orders", keys=("order_id",)),
        gate=None,
        state=State(),
    )
    return Pipeline(name="orders", flows=(bronze, parsed, kept, gold))


def state_progress(batch_id: int = 0, **changed: Any) -> QueryProgress:
    """Spark's progress of one batch of that stateful flow: 7 rows of state, and a watermark an hour before the batch."""
    started = datetime(2026, 1, 5, 10, batch_id, tzinfo=UTC)
    line = QueryProgress(
        flow="silver", app_id="orders/silver/v1/0", batch_id=batch_id, run_key="r1", attempt="a1", mode="incremental",
        started_at=started, input_rows=10, input_rows_per_second=None, processed_rows_per_second=None, trigger_ms=2000,
        duration_ms={}, start_offset=None, end_offset=None, offsets_behind=None, recorded_at=started,
        state_operator="stateStoreSave", state_rows=7, state_bytes=4_096, state_memory_bytes=8_192,
        watermark=started - timedelta(hours=1), watermark_lag_seconds=3600.0,
    )  # fmt: skip
    return replace(line, **changed)


def quarantined(
    row_id: str, rules: list[str], source: dict[str, Any], record: str, state: str = "open", **other: Any
) -> dict[str, Any]:
    """A row of a quarantine table, as a job writes it."""
    return {
        "_row_id": row_id,
        "level": "row",
        "rules": rules,
        "record": record,
        "source": json.dumps(source),
        "suite": "orders/silver",
        "suite_fingerprint": "0123456789abcdef",
        "state": state,
        "quarantined_at": datetime(2026, 1, 5, 10, tzinfo=UTC),
        "attempts": 0,
        "changed_by": None,
        "changed_at": None,
        "reason": None,
        "_replay": None,
        "_in_hand": None,
        "_app_id": "orders/silver/v1/0",
        "_checkpoint_version": 1,
        "_refresh": 0,
        "_batch_id": 0,
        **other,
    }
