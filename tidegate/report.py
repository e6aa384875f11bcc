"""What a job hands back: the run report, versioned JSON that needs no Spark to write or to read.

The driver writes it to ``reports/<dag_id>/<run_key>/<attempt>/report.json`` after every step worth telling; Airflow's
tasks, the command line and the pages read it. A report that is missing means that the job crashed, never "no rows".
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import pendulum

from tidegate import atomic, identity
from tidegate.errors import EX_SOFTWARE, LakeVersionError, TidegateError

FORMAT = 1
"""Raised when a reader of the old format would misread the new one."""

FlowState = Literal["waiting", "running", "done", "idle", "refused", "failed", "skipped"]
"""``idle``: nothing was new. ``refused``: a gate refused a batch. ``skipped``: a flow above it did not get through."""

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True, kw_only=True)
class ExpectationResult:
    """What one expectation said of one batch."""

    expectation: str
    """GX's type, for example ``expect_column_values_to_be_between``."""
    rule: str
    """The short name that quarantined rows carry, for example ``between(dep_delay)``."""
    severity: Severity
    success: bool
    """Whether GX, with the expectation's ``mostly``, is satisfied."""
    evaluated: int | None = None
    """Rows in its domain; None for an expectation about the table."""
    unexpected: int | None = None
    """Rows in its domain that break it; None for an expectation about the table."""
    mostly: float | None = None
    observed: float | None = None
    """What a rule that compares batches, or tells an age, observed: an aggregate, never a value of a row."""
    note: str = ""
    """What such a rule says of it, in a phrase."""
    sentence: str = ""
    """The expectation in Great Expectations' own words; it quotes the suite, never the data."""

    def told(self) -> str:
        """One phrase for people; never a data value."""
        if self.unexpected is None:
            return f"{self.rule} ({self.note})" if self.note else self.rule
        needed = "" if self.mostly is None else f", mostly {self.mostly:g}"
        return f"{self.rule} ({self.unexpected:,} of {self.evaluated:,} rows break it{needed})"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a gate said of one batch, once per attempt."""

    flow: str
    batch_id: int
    app_id: str = ""
    """The transaction under which ``batch_id`` counts: a replay's numbers are not those of batches
    (`tidegate.identity`). Empty in reports of older versions."""
    suite: str
    suite_fingerprint: str
    code_fingerprint: str
    """Of the flow's transform module, so that ``plan`` knows when judging again may end otherwise."""
    outcome: Literal["passed", "split", "refused"]
    """``split``: some rows were quarantined, the rest passed."""
    results: tuple[ExpectationResult, ...] = ()

    @property
    def called(self) -> str:
        """``batch 3``, ``replay 3``."""
        return identity.called(self.app_id, self.batch_id)

    @property
    def is_batch(self) -> bool:
        """Whether it is about a batch of the stream, which waits when it is refused; a replay does not."""
        return identity.is_stream(self.app_id)

    def refusing(self) -> tuple[ExpectationResult, ...]:
        """The expectations that refused the batch: critical and not met."""
        return tuple(result for result in self.results if result.severity == "critical" and not result.success)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class BatchRecord:
    """One micro-batch's line in the ledger. Counts are source rows (distinct ``_row_id``) unless they say otherwise.

    ``read = written + quarantined + sum(filtered) + deduplicated + superseded + already_read`` for a flow over rows,
    ``groups = upserted + deleted + unchanged`` for a flow that recomputes groups, and for the keys that a replay derives
    anew (kind ``rederive``, whose rows balance as well), and
    ``files_listed = files_opened + files_quarantined + files_already_read`` for a landing folder. A decision about
    quarantined entries (kinds ``waive``, ``expire``, ``retire``) has ``read = closed``.
    """

    flow: str
    batch_id: int
    app_id: str
    kind: Literal[
        "append",
        "upsert",
        "recompute",
        "swap",
        "rederive",
        "replay",
        "waive",
        "expire",
        "retire",
        "retire_waived",
        "gap",
    ]
    """``replay``: ``read`` are entries that a replay took in hand, ``quarantined`` those that came back. ``waive``,
    ``expire``, ``retire``: ``read`` are the open entries that it was about, and ``rules`` what they had broken. ``gap``: ``read``
    are offsets of a topic that a person gave up, ``filtered`` names them."""
    read: int = 0
    written: int = 0
    quarantined: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    """By the name of the rule that set them aside."""
    deduplicated: int = 0
    superseded: int = 0
    already_read: int = 0
    groups: int = 0
    upserted: int = 0
    deleted: int = 0
    unchanged: int = 0
    files_listed: int = 0
    files_opened: int = 0
    files_quarantined: int = 0
    files_already_read: int = 0
    closed: int = 0
    """Quarantined entries that a decision closed, by the table's own commit."""
    rules: Mapping[str, int] = field(default_factory=dict)
    """Quarantined rows by the rule they broke; a row that broke two rules counts in both."""
    target_version: int | None = None
    """The Delta version that this batch made, if it made one."""
    seconds: float = 0.0

    def imbalance(self) -> int:
        """Rows, groups or files that went in and have no fate (0 when the line balances)."""
        rows = self.read - (
            self.written
            + self.quarantined
            + sum(self.filtered.values())
            + self.deduplicated
            + self.superseded
            + self.already_read
        )
        groups = self.groups - (self.upserted + self.deleted + self.unchanged)
        files = self.files_listed - (self.files_opened + self.files_quarantined + self.files_already_read)
        if identity.is_decision(self.kind):
            return abs(self.read - self.closed)
        if self.kind in ("recompute", "swap"):
            return abs(groups)
        return abs(rows) + abs(files) + abs(groups)

    @property
    def is_batch(self) -> bool:
        """Whether it is a batch of the stream; a swap, a replay and a decision are none."""
        return self.kind in ("append", "upsert", "recompute") and identity.is_stream(self.app_id)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**dataclasses.asdict(self), "filtered": dict(self.filtered), "rules": dict(self.rules)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """The reverse of `to_json`; fields that a newer writer added are left out, those that an older one lacked are 0.

        A line of the ledger will do: a map that Arrow tells as pairs becomes one.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        told = {name: value for name, value in plain.items() if name in known and value is not None}
        return cls(**told | {name: dict(told[name]) for name in ("filtered", "rules") if name in told})


@dataclass(kw_only=True)
class FlowReport:
    """How one flow fared in one attempt."""

    flow: str
    target: str
    checkpoint_version: int
    refresh: int = 0
    state: FlowState = "waiting"
    batches: list[BatchRecord] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    lag_before: dict[str, Any] | None = None
    """Rows and bytes behind the source when the flow began, as `tidegate.status.lag` tells them."""
    lag_after: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    """``kind``, ``message``, ``transient``, ``exit_code`` and the error's attributes."""
    target_version: int | None = None
    """The target's Delta version when the flow ended."""
    dry_run: bool = False
    """The batches tell what would happen; nothing was written."""
    notes: list[str] = field(default_factory=list)
    """What else is worth telling, for example that a batch brought a new field, and what became of it."""
    docs: str | None = None
    """The page of the flow's last batch in this attempt, relative to the lake; from it links lead to all others."""
    seconds: float = 0.0

    def total(self, count: str) -> int:
        """One count of the ledger, over all batches of this attempt (``filtered`` by all rules together)."""
        values = (
            getattr(batch, count) for batch in self.batches if batch.kind != "swap" or count in ("upserted", "deleted")
        )
        return sum(sum(value.values()) if isinstance(value, Mapping) else value for value in values)

    def rules(self) -> dict[str, int]:
        """Quarantined rows by rule, over all batches of this attempt."""
        totals: dict[str, int] = {}
        for batch in self.batches:
            for rule, rows in batch.rules.items():
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
    """Seconds by part: ``preflight``, ``session``, ``gx_import`` (beside the session), ``gx_wait``, ``flows``, ``total``."""
    notes: list[str] = field(default_factory=list)
    """Facts about how it ran, for example whether the AppCDS archive was used."""
    application: str | None = None
    """Spark's own id of the application, by which a history server finds it."""
    error: dict[str, Any] | None = None
    """An error of the whole application, in the form of `FlowReport.error`."""
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

    def to_json(self) -> str:
        """As JSON, stable in order so that two reports can be compared by a person."""
        return json.dumps(dataclasses.asdict(self), indent=1, default=str)

    def write(self, path: Path) -> None:
        """Write so that a reader sees the old report or the new one, never half of one."""
        atomic.write_text(path, self.to_json())

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The report at ``path``; None when there is none, which means that the job did not get that far.

        Raises:
            LakeVersionError: A newer Tidegate wrote it.
        """
        try:
            plain = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        if plain["format"] > FORMAT:
            raise LakeVersionError(
                f"{path.name} has format {plain['format']}; this Tidegate reads up to {FORMAT}: upgrade it"
            )
        flows = [_flow_report(flow) for flow in plain.pop("flows")]
        known = {f.name for f in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in plain.items() if name in known}, flows=flows)


def now() -> str:
    """The instant, in UTC, as ISO 8601."""
    return pendulum.now("UTC").to_iso8601_string()


def describe_error(error: BaseException) -> dict[str, Any]:
    """An error as the report holds it; one that is not ours is terminal and keeps its type's name."""
    if isinstance(error, TidegateError):
        return {
            "kind": type(error).__name__,
            "message": error.message,
            "transient": error.transient,
            "exit_code": error.exit_code,
            **error.attributes(),
        }
    return {
        "kind": type(error).__name__,
        "message": str(error).splitlines()[0][:500] if str(error) else type(error).__name__,
        "transient": False,
        "exit_code": EX_SOFTWARE,
    }


def _flow_report(plain: dict[str, Any]) -> FlowReport:
    batches = [BatchRecord.from_json(batch) for batch in plain.pop("batches")]
    verdicts = [_verdict(verdict) for verdict in plain.pop("verdicts")]
    known = {f.name for f in dataclasses.fields(FlowReport)}
    return FlowReport(
        **{name: value for name, value in plain.items() if name in known}, batches=batches, verdicts=verdicts
    )


def _verdict(plain: dict[str, Any]) -> Verdict:
    results = tuple(ExpectationResult(**result) for result in plain.pop("results"))
    return Verdict(**plain, results=results)
