"""Formats the report of a run as text, flow by flow, and derives the exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate import formatting
from tidegate.environment import Environment
from tidegate.errors import EX_DATAERR, EX_SOFTWARE
from tidegate.report import FlowReport, RunReport

_DISPOSITIONS = ("written", "quarantined", "filtered", "deduplicated", "superseded", "already_read")
_GROUPS = ("upserted", "deleted", "unchanged")
_FILES = ("files_opened", "files_quarantined", "files_already_read")
_LAST_LINES = 15


def exit_code(report: RunReport | None, returned: int) -> int:
    """The exit code of the command.

    In order of precedence: an error of the whole application, a permanent error of a flow, a refusal, a transient error.

    Args:
        report: The last report; None if there is none.
        returned: The exit code of the job's process.
    """
    if crashed(report):
        return EX_SOFTWARE
    assert report is not None
    if report.error is not None:
        return int(report.error["exit_code"])
    errors = [flow.error for flow in report.flows if flow.state == "failed" and flow.error is not None]
    codes = [int(error["exit_code"]) for error in errors if not error["transient"]]
    codes += [EX_DATAERR for flow in report.flows if flow.state == "refused"]
    codes += [int(error["exit_code"]) for error in errors if error["transient"]]
    return next(iter(codes), EX_SOFTWARE if returned else 0)


def crashed(report: RunReport | None) -> bool:
    """Whether the job ended without a final report."""
    return report is None or report.ended_at is None


def failed(report: RunReport) -> bool:
    """Whether the report has a refusal or an error."""
    return report.error is not None or any(flow.state in ("refused", "failed") for flow in report.flows)


def log_tail(log: Path) -> list[str]:
    """The last lines of the job's log; empty if there is no log."""
    try:
        with log.open("rb") as raw:
            raw.seek(max(log.stat().st_size - 64 * 1024, 0))
            return raw.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
    except FileNotFoundError:
        return []


def flow_lines(flow: FlowReport) -> Iterator[tuple[str, str]]:
    """The result of one flow as pairs of label and text; the first label is empty."""
    batches = formatting.count(len(flow.batches), "batch", "batches")
    yield "", f"{flow.flow} -> {flow.target}: {flow.state}, {batches}, {flow.seconds:.1f} s"
    if flow.error is not None:
        yield flow.error["kind"], " ".join(str(flow.error["message"]).split())
    if flow.total("files_listed"):
        yield "files", _balance(flow, "files_listed", "listed", _FILES)
    if flow.total("groups"):
        yield (
            "groups",
            f"{_balance(flow, 'groups', 'recomputed', _GROUPS)}, named by {flow.total('read'):,} changed rows",
        )
    elif any(batch.kind == "replay" for batch in flow.batches):
        balance = _balance(flow, "read", "replayed", _DISPOSITIONS).replace(" quarantined", " refused again")
        yield "rows", f"would be: {balance}" if flow.dry_run else balance
    elif flow.total("read"):
        yield "rows", _balance(flow, "read", "read", _DISPOSITIONS)
    if broken := flow.rules():
        yield "quarantined", _by_rule(broken)
    if filtered := _filtered(flow):
        yield "filtered", _by_rule(filtered)
    for note in flow.notes:
        yield "schema", note
    if flow.lag_before is not None or flow.lag_after is not None:
        yield "lag", f"{_lag(flow.lag_before)} -> {_lag(flow.lag_after)}"


def location_lines(environment: Environment, report: RunReport) -> Iterator[str]:
    """Where to find more: the quarantine command, and the page of each flow's last batch."""
    pipeline = report.dag_id
    quarantined = [flow.flow for flow in report.flows if flow.total("quarantined") or flow.total("files_quarantined")]
    if quarantined:
        yield f"quarantine ({', '.join(quarantined)}): tidegate quarantine list {pipeline}"
    for flow in report.flows:
        if flow.docs is not None:
            yield f"report ({flow.flow}): {environment.lake / flow.docs}"


def _balance(flow: FlowReport, total: str, verb: str, columns: Sequence[str]) -> str:
    counts = ((flow.total(name), name.removeprefix("files_").replace("_", " ")) for name in columns)
    parts = " + ".join(f"{count:,} {name}" for count, name in counts if count) or "0"
    return f"{flow.total(total):,} {verb} = {parts}"


def _filtered(flow: FlowReport) -> dict[str, int]:
    totals: dict[str, int] = {}
    for batch in flow.batches:
        for rule, rows in batch.filtered.items():
            totals[rule] = totals.get(rule, 0) + rows
    return totals


def _by_rule(rows_by_rule: Mapping[str, int]) -> str:
    most_first = sorted(rows_by_rule.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{rule} {rows:,}" for rule, rows in most_first)


def _lag(lag: Mapping[str, Any] | None) -> str:
    if lag is None or "rows" not in lag:
        return "unknown"
    rows = "?" if lag["rows"] is None else formatting.approximate(f"{lag['rows']:,}", lag["rows_exact"])
    size = "?" if lag["bytes"] is None else formatting.approximate(formatting.size(lag["bytes"]), lag["bytes_exact"])
    return f"{rows} rows ({size})"
