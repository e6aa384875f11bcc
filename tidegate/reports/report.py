"""The run report of a job: versioned JSON, written and read without Spark.

The driver writes it to ``reports/<dag_id>/<run_key>/<attempt>/report.json`` after each step; Airflow's tasks, the command
line and the pages read it. A missing report means that the job crashed, never "no rows".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import pendulum

from tidegate import json_codec
from tidegate.advice import OutsideAct
from tidegate.errors import (
    EX_SOFTWARE,
    ContractRefusedError,
    DamagedFileError,
    LakeVersionError,
    TidegateError,
    UnexpectedError,
    classify,
)
from tidegate.formatting import count
from tidegate.lake import identity
from tidegate.reports import ledger_line
from tidegate.reports.impact import Impact
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.verdict import Verdict
from tidegate.store import Address

FORMAT = 1
"""Incremented when a reader of the old format would misread the new one."""

FlowState = Literal["waiting", "running", "done", "idle", "refused", "failed", "skipped"]
"""``idle``: there was no new input. ``refused``: a batch was (`tidegate.errors.RefusedError`). ``skipped``: an upstream flow failed."""


@dataclass(frozen=True, kw_only=True)
class ErrorReport:
    """An error in a report, a plan or a status."""

    kind: str
    """The name of its class."""
    message: str
    transient: bool
    exit_code: int
    schema_change_id: str | None = None
    """The schema change that a person has to answer; None for every error but `tidegate.errors.ContractRefusedError`."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """All public attributes of the error as JSON values, for programs that read the report."""

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Describe an error. One that is neither a `TidegateError` nor of the machine is terminal; ``kind`` is its type."""
        if isinstance(error, TidegateError):
            return cls(
                kind=type(error).__name__,
                message=error.message,
                transient=error.transient,
                exit_code=error.exit_code,
                schema_change_id=error.schema_change_id if isinstance(error, ContractRefusedError) else None,
                attributes=json.loads(json_codec.encode(error.attributes())),
            )
        if not isinstance(cause := classify(error), UnexpectedError):
            return cls.of(cause)
        return cls(
            kind=type(error).__name__,
            message=str(error).splitlines()[0][:500] if str(error) else type(error).__name__,
            transient=False,
            exit_code=EX_SOFTWARE,
        )

    def to_json(self) -> dict[str, Any]:
        """The error as commands print it, with its attributes beside the rest."""
        values = ("kind", "message", "transient", "exit_code")
        return {name: getattr(self, name) for name in values} | dict(self.attributes)

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, kw_only=True)
class LagReport:
    """What a flow has still to read at one moment (`tidegate.status.source.Backlog`)."""

    rows: int | None
    """None if unknown."""
    bytes: int | None
    """None if unknown."""
    rows_exact: bool = True
    bytes_exact: bool = True
    behind: int
    """How many files, messages or versions of a table."""


@dataclass(kw_only=True)
class FlowReport:
    """The result of one flow in one attempt."""

    flow: str
    target: str
    checkpoint_version: int
    refresh: int = 0
    state: FlowState = "waiting"
    batches: list[LedgerLine] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    lag_before: LagReport | None = None
    """The flow's lag when it started."""
    lag_after: LagReport | None = None
    """The flow's lag when it had ended; None if it could not be measured."""
    error: ErrorReport | None = None
    target_version: int | None = None
    """The target's Delta version when the flow ended."""
    dry_run: bool = False
    """Whether this was a preview: ``batches`` and ``impact`` are what a run would write; nothing was written."""
    impact: Impact | None = None
    """What the backfill or swap of this attempt does to the table; None without one."""
    verification: Verification | None = None
    """How the table compares with its sources; None unless this attempt verified it."""
    notes: list[str] = field(default_factory=list)
    """Messages for people, for example that a batch had a new field and how the contract treated it."""
    seconds: float = 0.0

    def total(self, name: str) -> int:
        """The sum of one of the ledger's counts over all batches of this attempt (``filtered`` over all rules), without undos."""
        own = (batch for batch in self.batches if batch.kind != identity.UNDO)
        counted = (batch for batch in own if batch.kind != "swap" or name in ("upserted", "deleted"))
        return sum(ledger_line.count(batch, name) for batch in counted)

    def changed_rows(self) -> int:
        """Rows of the target that this attempt wrote or deleted, without undos."""
        return sum(batch.changed_rows for batch in self.batches if batch.kind != identity.UNDO)

    def rules(self) -> dict[str, int]:
        """Quarantined rows by rule, summed over all batches of this attempt, without undos."""
        totals: dict[str, int] = {}
        for batch in self.batches:
            for rule, rows in batch.rules.items() if batch.kind != identity.UNDO else ():
                totals[rule] = totals.get(rule, 0) + rows
        return totals


@dataclass(kw_only=True)
class RunReport:
    """One attempt at one run of a pipeline."""

    dag_id: str
    run_key: str
    attempt: str
    started_at: str
    ended_at: str | None = None
    flows: list[FlowReport] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    """Seconds by part: ``preflight``, ``session``, ``gx_import`` (parallel to the session), ``gx_wait``, ``flows``, ``total``."""
    notes: list[str] = field(default_factory=list)
    """Messages about the run as a whole, for example whether the AppCDS archive was used."""
    requests: dict[str, int] = field(default_factory=dict)
    """Requests to object stores, by ``<who> <method> <kind of object>`` (`tidegate.ops.attempts`)."""
    application: str | None = None
    """Spark's application id, which identifies it in a history server."""
    error: ErrorReport | None = None
    """An error of the whole application."""
    format: int = FORMAT

    def flow(self, name: str) -> FlowReport:
        """The report of one flow.

        Raises:
            KeyError: The run has no flow of that name.
        """
        for flow in self.flows:
            if flow.flow == name:
                return flow
        raise KeyError(name)

    def write(self, address: Address) -> None:
        """Replace the report atomically: a reader sees the old one or the new one."""
        json_codec.write(address, self)

    @classmethod
    def read(cls, address: Address) -> Self | None:
        """The report at an address; None when there is none, because the job stopped before it wrote one.

        Raises:
            LakeVersionError: A newer Tidegate wrote it.
            DamagedFileError: It does not have the content of a report.
        """
        try:
            report = json_codec.read(address, cls, _REPAIR)
        except DamagedFileError:
            _check_format(json_codec.read(address, _Version, _REPAIR), address)
            raise
        _check_format(report, address)
        return report


@dataclass(frozen=True)
class _Version:
    format: int


def _check_format(report: RunReport | _Version | None, address: Address) -> None:
    if report is not None and report.format > FORMAT:
        raise LakeVersionError(
            f"{address.name} has format {report.format}; this Tidegate reads formats up to {FORMAT}",
            OutsideAct("upgrade Tidegate"),
        )


_REPAIR = OutsideAct("remove it: the tables and the ledger have what the run wrote")


def now() -> str:
    """The current time in UTC, as ISO 8601, always with microseconds: such texts are in the order of the times."""
    return pendulum.now("UTC").strftime("%Y-%m-%dT%H:%M:%S.%fZ")


Effect = Literal["missing", "unexpected", "different"]
"""``missing``: the source makes the row, the table does not have it. ``unexpected``: the reverse. ``different``: a column differs."""
EFFECTS: tuple[Effect, ...] = ("missing", "unexpected", "different")


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The counts of one verification. All versions were read before the first row."""

    version: int
    """The version of the table that was compared."""
    source: str
    """What it was compared with, for example ``bronze.orders at version 4``."""
    equal: int
    missing: int
    unexpected: int
    different: int
    not_compared: Mapping[str, int] = field(default_factory=dict)
    """Rows of the table that could not be compared, by the reason."""

    @property
    def differs(self) -> bool:
        """Whether a row is missing, unexpected or different."""
        return bool(self.missing or self.unexpected or self.different)

    def summary(self) -> str:
        """All counts in one line."""
        compared = count(self.equal + self.missing + self.unexpected + self.different, "row")
        result = f"{self.missing:,} missing, {self.unexpected:,} unexpected, {self.different:,} different"
        left = "".join(f"; not compared: {count(rows, 'row')} {reason}" for reason, rows in self.not_compared.items())
        return f"version {self.version} against {self.source}: {compared}, {self.equal:,} equal, {result}{left}"


@dataclass(frozen=True, kw_only=True)
class DifferingRow:
    """One row that differs. The key is a value of the data, so no report and no log has it."""

    effect: Effect
    key: str
    """As a JSON object."""
    columns: tuple[str, ...] = ()
    """The names of the columns that differ; empty unless ``effect`` is ``different``."""
