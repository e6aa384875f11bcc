"""Formats what a flow did as lines for the command line and the logs of tasks: counts and rule names, never a data value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import SimpleNamespace

from tidegate import formatting
from tidegate.lake import identity
from tidegate.reports.ledger_line import FILES, GROUPS, RESULTS, ROWS, Balance
from tidegate.reports.report import FlowReport, LagReport


def flow_lines(flow: FlowReport) -> Iterator[tuple[str, str]]:
    """The result of one flow as pairs of label and text; the first label is empty."""
    batches = formatting.count(len(flow.batches), "batch", "batches")
    yield "", f"{flow.flow} -> {flow.target}: {flow.state}, {batches}, {flow.seconds:.1f} s"
    if flow.error is not None:
        yield flow.error.kind, " ".join(str(flow.error.message).split())
    if flow.total("files_listed"):
        yield "files", _balance(flow, FILES, "listed")
    dispositions = any(flow.total(name) for name in ROWS.parts) and not flow.total("results")
    yield from _undone(flow)
    if any(batch.kind == "snapshot" for batch in flow.batches):
        yield "keys", _balance(flow, GROUPS, "compared")
    elif flow.total("groups"):
        # A backfill has dispositions of rows as well; the rows of an increment of groups only name the groups.
        named_by = "" if dispositions else f", named by {formatting.count(flow.total('read'), 'changed row')}"
        yield "groups", _balance(flow, GROUPS, "recomputed") + named_by
    if flow.total("results"):
        yield "results", f"{_balance(flow, RESULTS, 'made')}, from {formatting.count(flow.total('read'), 'row')}"
    if any(batch.kind == "replay" for batch in flow.batches):
        balance = _balance(flow, ROWS, "replayed").replace(" quarantined", " refused again")
        yield "rows", f"would be: {balance}" if flow.dry_run else balance
    elif dispositions or (flow.total("read") and not flow.total("groups") and not flow.total("results")):
        yield "rows", _balance(flow, ROWS, "read")
    if flow.impact is not None:
        yield "impact", ("would be: " if flow.dry_run else "") + flow.impact.summary()
    if flow.verification is not None:
        yield "verified", flow.verification.summary()
    if broken := flow.rules():
        yield "quarantined", _by_rule(broken)
    if filtered := _filtered(flow):
        yield "filtered", _by_rule(filtered)
    for note in flow.notes:
        yield "note", note
    if flow.lag_before is not None or flow.lag_after is not None:
        yield "lag", f"{_lag(flow.lag_before)} -> {_lag(flow.lag_after)}"


def requests_line(requests: Mapping[str, int]) -> str:
    """What an attempt asked of object stores: ``530 requests: platform 120 (GET 40, LIST 80), spark 410 (…)``."""
    by: dict[str, Counter[str]] = {}
    for kind, number in requests.items():
        who, method, _ = kind.split(" ", 2)
        by.setdefault(who, Counter())[method] += number
    parts = (
        f"{who} {sent.total():,} ({', '.join(f'{method} {number:,}' for method, number in sorted(sent.items()))})"
        for who, sent in by.items()
    )
    return f"{formatting.count(sum(requests.values()), 'request')} to object stores: {', '.join(parts)}"


def _undone(flow: FlowReport) -> Iterator[tuple[str, str]]:
    would = "would be: " if flow.dry_run else ""
    for undo in flow.batches:
        if undo.kind == identity.UNDO:
            changed = formatting.count(undo.groups, "changed row")
            put_back = f"{undo.upserted + undo.deleted:,} put back ({undo.deleted:,} deleted)"
            yield "undone", f"{would}{changed} = {put_back} + {undo.unchanged:,} left, run {undo.undoes}"
            if undo.quarantined or undo.closed:
                yield "entries", f"{would}{undo.quarantined:,} open again, {undo.closed:,} closed"


def log_lines(flow: FlowReport) -> Iterator[str]:
    """The result of one flow as text, with what a log has in addition: its table's version and all verdicts."""
    for label, text in flow_lines(flow):
        yield f"{label}: {text}" if label else text
    if flow.target_version is not None:
        yield f"{flow.target} is at Delta version {flow.target_version}"
    for verdict in flow.verdicts:
        for result in verdict.results:
            if not result.success or result.unexpected:
                yield f"{verdict.label}, {result.severity}: {result.summary()}"
        yield f"{verdict.label}: {verdict.outcome} by {verdict.judge}"


def _balance(flow: FlowReport, balance: Balance, verb: str) -> str:
    totals = SimpleNamespace(**{name: flow.total(name) for name in (balance.total, *balance.parts)})
    parts = " + ".join(f"{number:,} {name}" for name, number in balance.lines(totals)) or "0"
    return f"{balance.amount(totals):,} {verb} = {parts}"


def _filtered(flow: FlowReport) -> dict[str, int]:
    totals: dict[str, int] = {}
    for batch in flow.batches:
        for rule, rows in batch.filtered.items():
            totals[rule] = totals.get(rule, 0) + rows
    return totals


def _by_rule(rows_by_rule: Mapping[str, int]) -> str:
    most_first = sorted(rows_by_rule.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{rule} {rows:,}" for rule, rows in most_first)


def _lag(lag: LagReport | None) -> str:
    if lag is None:
        return "unknown"
    rows = "? rows" if lag.rows is None else formatting.approximate(formatting.count(lag.rows, "row"), lag.rows_exact)
    size = "?" if lag.bytes is None else formatting.approximate(formatting.size(lag.bytes), lag.bytes_exact)
    return f"{rows} ({size})"
