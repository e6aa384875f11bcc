"""Lines about the result of one flow for a task's log: counts and rule names, never a data value."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.report import FlowReport, Verdict

_DISPOSITIONS = ("written", "quarantined", "filtered", "deduplicated", "superseded", "already_read")
_GROUP_COUNTS = ("upserted", "deleted", "unchanged")


def flow_lines(report: FlowReport) -> Iterator[str]:
    """The log lines of a flow's report, the verdicts last."""
    yield f"{report.flow}: {report.state} after {_batches(len(report.batches))} in {report.seconds:.1f} s"
    if read := report.total("read"):
        yield f"rows: {read:,} read, {_counts(report, _DISPOSITIONS)}"
    if groups := report.total("groups"):
        yield f"groups: {groups:,} recomputed, {_counts(report, _GROUP_COUNTS)}"
    if rules := report.rules():
        counts = ", ".join(f"{rule} {rows:,}" for rule, rows in sorted(rules.items(), key=lambda item: -item[1]))
        yield f"quarantined by rule (a row may break several): {counts}"
    if report.target_version is not None:
        yield f"{report.target} is at Delta version {report.target_version}"
    if report.docs is not None:
        yield f"data quality report, path in the lake: {report.docs}"
    yield from report.notes
    for verdict in report.verdicts:
        yield from _verdict_lines(verdict)


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    for result in verdict.results:
        if not result.success or result.unexpected:
            yield f"{verdict.label}, {result.severity}: {result.summary()}"
    yield f"{verdict.label}: {verdict.outcome} by suite {verdict.suite}"


def _counts(report: FlowReport, names: tuple[str, ...]) -> str:
    counts = ((report.total(name), name.replace("_", " ")) for name in names)
    return ", ".join(f"{count:,} {name}" for count, name in counts if count) or "none written"


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"
