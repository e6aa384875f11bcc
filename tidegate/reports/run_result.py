"""What a run's report means for the command line and for Airflow: its exit code, and where to find more about it."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.advice import with_advice
from tidegate.errors import EX_CONFIG, EX_DATAERR, EX_SOFTWARE, EX_TEMPFAIL, EX_USAGE, TidegateError
from tidegate.errors import error as exit_codes
from tidegate.errors.classification import cause_in
from tidegate.reports.report import RunReport
from tidegate.store import Address

_LAST_LINES = 15
_SEARCHED_LINES = 200
_OF_JOB = (EX_USAGE, EX_DATAERR, EX_TEMPFAIL, EX_CONFIG)


def exit_code(report: RunReport | None, returned: int, log: Address | None = None) -> int:
    """The exit code of `tidegate run`, and of Airflow's task when it fails.

    In order of precedence: an error of the whole application, a permanent error of a flow, a refusal, a transient error. A job that
    could not write its report, for example because the disk is full, still has an exit code, which is passed on unchanged.

    Args:
        report: The last report; None if there is none.
        returned: The exit code of the job's process.
        log: The job's log, which may name the cause of a crash.
    """
    if crashed(report):
        cause = machine_cause(returned, log)
        return _of_job(returned) if cause is None else cause.exit_code
    assert report is not None
    if report.error is not None:
        return int(report.error.exit_code)
    errors = [flow.error for flow in report.flows if flow.state == "failed" and flow.error is not None]
    codes = [int(error.exit_code) for error in errors if not error.transient]
    codes += [EX_DATAERR for flow in report.flows if flow.state == "refused"]
    codes += [int(error.exit_code) for error in errors if error.transient]
    return next(iter(codes), _of_job(returned) if returned else 0)


def _of_job(returned: int) -> int:
    """An exit code of Tidegate's job; any other, of a shell or a JVM, is a crash."""
    return returned if returned in _OF_JOB else EX_SOFTWARE


def machine_cause(returned: int, log: Address | None) -> TidegateError | None:
    """Why the machine ended a job that has no report, by the last lines of its log; None where they do not say it."""
    if log is None or _of_job(returned) != EX_SOFTWARE:
        return None
    return cause_in("\n".join(log_tail(log, _SEARCHED_LINES)), "the job")


def describe_crash(returned: int, log: Address) -> str:
    """Why there is no final report, and the next step."""
    if (cause := machine_cause(returned, log)) is not None:
        return f"{cause.message} The job's log: {log}"
    own = exit_codes.of_tidegate(returned)
    if own is not None and returned in _OF_JOB:
        step = "" if own.next_step is None else f" Next: {own.next_step.text}."
        return (
            f"the job ended with exit code {returned}, but could not write its report ({own.meaning}).{step} "
            f"Its log, unless the same prevented it: {log}"
        )
    return f"the job crashed: it ended without a final report and with {describe_exit(returned)}. Its log: {log}"


def crashed(report: RunReport | None) -> bool:
    """Whether the job ended without a final report."""
    return report is None or report.ended_at is None


def is_of_spark(returned: int) -> bool:
    """Whether a process ended with an exit code that explains more than its report, which it wrote while its JVM was gone."""
    return exit_codes.of_jvm(returned) is not None


def describe_exit(returned: int) -> str:
    """How the job's process ended: its exit code, with what that means where it is not Tidegate's own."""
    jvm = exit_codes.of_jvm(returned)
    return (
        f"exit code {returned}" if jvm is None else f"exit code {returned} ({with_advice(jvm.meaning, jvm.next_step)})"
    )


def failed(report: RunReport) -> bool:
    """Whether the report has a refusal or an error."""
    return report.error is not None or any(flow.state in ("refused", "failed") for flow in report.flows)


def log_tail(log: Address, lines: int = _LAST_LINES) -> list[str]:
    """The last lines of the job's log; empty if there is no log, or it cannot be read."""
    try:
        with log.open() as raw:
            raw.seek(max(log.stat().size - 64 * 1024, 0))
            return raw.read().decode(errors="replace").splitlines()[-lines:]
    except OSError:
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
