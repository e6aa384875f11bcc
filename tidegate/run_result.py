"""What a run's report means for the command line and for Airflow: its exit code, and where to find more about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tidegate.errors import EX_DATAERR, EX_SOFTWARE
from tidegate.report import RunReport

_LAST_LINES = 15
_CAUSES = {
    52: "Spark was out of memory",
    56: "the process stood still, because it or its machine was suspended, or had no CPU time, for longer than Spark waits for "
    "its own heartbeat; run again: a rerun continues where it ended, and writes nothing twice",
    -9: "SIGKILL, possibly by the kernel because memory ran out",
    137: "SIGKILL, possibly by the kernel because memory ran out",
}
"""Why a JVM ends with an exit code: `SparkExitCode` and `ExecutorExitCode` of Spark, and the numbers of signals."""


def exit_code(report: RunReport | None, returned: int) -> int:
    """The exit code of `tidegate run`, and of Airflow's task when it fails.

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


def is_of_spark(returned: int) -> bool:
    """Whether a process ended with an exit code that explains more than its report, which it wrote while its JVM was gone."""
    return returned in _CAUSES


def describe_exit(returned: int) -> str:
    """How the job's process ended: its exit code, with what that means where it is not Tidegate's own."""
    cause = _CAUSES.get(returned)
    return f"exit code {returned} ({cause})" if cause else f"exit code {returned}"


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


def next_commands(report: RunReport) -> Iterator[str]:
    """The commands that show more: the quarantine, and the pages about the batches."""
    pipeline = report.dag_id
    quarantined = [flow.flow for flow in report.flows if flow.total("quarantined") or flow.total("files_quarantined")]
    if quarantined:
        yield f"quarantine ({', '.join(quarantined)}): tidegate quarantine list {pipeline}"
    if any(each.can_be_undone for flow in report.flows if not flow.dry_run for each in flow.batches):
        yield f"undo: tidegate undo {report.run_key}"
    if any(flow.batches or flow.verdicts or flow.state == "refused" for flow in report.flows):
        yield f"pages: tidegate docs {pipeline}"
