"""What became of a run: its report told flow by flow, and the exit code that it ends with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import wording
from tidegate.errors import EX_DATAERR, EX_SOFTWARE

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.report import FlowReport, RunReport

_FATES = ("written", "quarantined", "filtered", "deduplicated", "superseded", "already_read")
_GROUPS = ("upserted", "deleted", "unchanged")
_FILES = ("files_opened", "files_quarantined", "files_already_read")
_LAST_LINES = 15


def exit_code(report: RunReport | None, returned: int) -> int:
    """The exit code of the command.

    What needs a person comes before what heals by waiting: an error of the whole application, of a flow, a refusal,
    then a transient error.

    Args:
        report: The last report; None when there is none.
        returned: What the job's process returned.
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
    """Whether the job ended without a last word."""
    return report is None or report.ended_at is None


def failed(report: RunReport) -> bool:
    """Whether the report itself tells of a refusal or an error."""
    return report.error is not None or any(flow.state in ("refused", "failed") for flow in report.flows)


def last_words(log: Path) -> list[str]:
    """The last lines of the job's raw log; none when there is no log."""
    try:
        with log.open("rb") as raw:
            raw.seek(max(log.stat().st_size - 64 * 1024, 0))
            return raw.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
    except FileNotFoundError:
        return []


def tell_flow(flow: FlowReport) -> Iterator[tuple[str, str]]:
    """What one flow did, as labels and texts; the first label is empty."""
    batches = wording.count(len(flow.batches), "batch", "batches")
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
        told = _balance(flow, "read", "replayed", _FATES).replace(" quarantined", " came back")
        yield "rows", f"would be: {told}" if flow.dry_run else told
    elif flow.total("read"):
        yield "rows", _balance(flow, "read", "read", _FATES)
    if broken := flow.rules():
        yield "quarantined", _by_rule(broken)
    if filtered := _filtered(flow):
        yield "filtered", _by_rule(filtered)
    for note in flow.notes:
        yield "schema", note
    if flow.lag_before is not None or flow.lag_after is not None:
        yield "lag", f"{_lag(flow.lag_before)} -> {_lag(flow.lag_after)}"


def tell_places(environment: Environment, report: RunReport) -> Iterator[str]:
    """Where to look next: the quarantine, and the page of each flow's last batch."""
    pipeline = report.dag_id
    held = [flow.flow for flow in report.flows if flow.total("quarantined") or flow.total("files_quarantined")]
    if held:
        yield f"quarantine ({', '.join(held)}): tidegate quarantine list {pipeline}"
    for flow in report.flows:
        if flow.docs is not None:
            yield f"report ({flow.flow}): {environment.lake / flow.docs}"


def _balance(flow: FlowReport, total: str, verb: str, fates: Sequence[str]) -> str:
    counts = ((flow.total(name), name.removeprefix("files_").replace("_", " ")) for name in fates)
    told = " + ".join(f"{count:,} {name}" for count, name in counts if count) or "0"
    return f"{flow.total(total):,} {verb} = {told}"


def _filtered(flow: FlowReport) -> dict[str, int]:
    totals: dict[str, int] = {}
    for batch in flow.batches:
        for rule, rows in batch.filtered.items():
            totals[rule] = totals.get(rule, 0) + rows
    return totals


def _by_rule(rows_by_rule: Mapping[str, int]) -> str:
    most_first = sorted(rows_by_rule.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{rule} {rows:,}" for rule, rows in most_first)


def _lag(told: Mapping[str, Any] | None) -> str:
    if told is None or "rows" not in told:
        return "unknown"
    rows = "?" if told["rows"] is None else wording.marked(f"{told['rows']:,}", told["rows_exact"])
    size = "?" if told["bytes"] is None else wording.marked(wording.size(told["bytes"]), told["bytes_exact"])
    return f"{rows} rows ({size})"
