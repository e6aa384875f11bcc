"""How a flow fared, in lines for a task's log; counts and rule names only, never a data value."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.report import FlowReport, Verdict

_FATES = ("written", "quarantined", "filtered", "deduplicated", "superseded", "already_read")
_GROUPS = ("upserted", "deleted", "unchanged")


def tell(report: FlowReport) -> Iterator[str]:
    """The lines, the verdict last."""
    yield f"{report.flow}: {report.state} after {_batches(len(report.batches))} in {report.seconds:.1f} s"
    if read := report.total("read"):
        yield f"rows: {read:,} read, {_counts(report, _FATES)}"
    if groups := report.total("groups"):
        yield f"groups: {groups:,} recomputed, {_counts(report, _GROUPS)}"
    if broken := report.rules():
        told = ", ".join(f"{rule} {rows:,}" for rule, rows in sorted(broken.items(), key=lambda item: -item[1]))
        yield f"quarantined by rule (a row may break several): {told}"
    if report.target_version is not None:
        yield f"{report.target} is at Delta version {report.target_version}"
    if report.docs is not None:
        yield f"report, in the lake: {report.docs}"
    yield from report.notes
    for verdict in report.verdicts:
        yield from _verdict(verdict)


def _verdict(verdict: Verdict) -> Iterator[str]:
    for result in verdict.results:
        if not result.success or result.unexpected:
            yield f"{verdict.called}, {result.severity}: {result.told()}"
    yield f"{verdict.called}: {verdict.outcome} by suite {verdict.suite}"


def _counts(report: FlowReport, names: tuple[str, ...]) -> str:
    counts = ((report.total(name), name.replace("_", " ")) for name in names)
    return ", ".join(f"{count:,} {name}" for count, name in counts if count) or "nothing kept"


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"
