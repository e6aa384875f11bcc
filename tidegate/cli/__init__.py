"""The command line ``tidegate``. Commands that start a JVM say so in their help."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import traceback
from typing import NoReturn

import typer

from tidegate.cli import lazy
from tidegate.errors import EX_SOFTWARE, EX_USAGE, StoppedError, TidegateError, UnexpectedError, classify
from tidegate.errors.error import EX_BROKEN_PIPE
from tidegate.processes import exit_now

_EX_TYPER_USAGE = 2

app = typer.Typer(
    name="tidegate",
    help="Files and Kafka topics into bronze, silver and gold Delta tables, one bounded increment at a time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_COMMANDS = {
    "status": "Show the status of every flow.",
    "lag": "Show how far every flow is behind its source.",
    "alerts": "Evaluate the alert rules of every flow now.",
    "plan": "Show what a run would do, and why.",
    "run": "Run one increment of each flow of a pipeline.",
    "verify": "Compare the table of a flow with what its sources make.",
    "snapshots": "Show how snapshots beside the changes of a flow differed from its table.",
    "diff": "Compare tables of this environment with those of another one.",
    "recover": "Derive again what damage of tables or checkpoints has reached.",
    "undo": "Put back the rows that a backfill or a replay changed.",
    "cancel": "End a run whose driver is on a cluster.",
    "init": "Lay out a project that runs.",
    "new": "Create a pipeline that is ready to run.",
    "checkpoint": "Show every checkpoint of a pipeline.",
    "ledger": "Show the last ledger lines.",
    "query": "Query the tables of the lake with SQL.",
    "trace": "Follow a row to the records that made it, or a record to every table.",
    "state": "Show what a stateful flow remembers between batches.",
    "docs": "Export the pages about a pipeline's batches.",
    "config": "Show every setting that holds, and where it comes from.",
    "claim": "Record that the lake belongs to this project and environment from now on.",
    "doctor": "Check what runs of this deployment need, before the first one.",
    "setup": "Prepare this machine for the jobs of the project: jars, bytecode of the packages, class data archive.",
    "upgrade": "Show what this version of Tidegate changes in lake and project.",
    "version": "Show the versions of Tidegate and its main dependencies.",
    "quarantine": "Quarantine entries: list them, replay them through today's rules, or close them.",
    "expectations": "Propose a suite from a table, check suites, measure what a suite does not catch.",
    "watermark": "Measure how late rows come, and propose the delay of a watermark.",
    "contract": "Show how schemas changed, answer a schema change that waits, or see how to promote a field to a column.",
    "flow": "Switch a flow off or on, skip a file that stops it, accept lost messages, keep what it left; who, when and why is recorded.",
    "landing": "Accept that the files of a landing zone were moved, copied or restored.",
}
"""What the list of commands says."""


@app.callback()
def _select(environment: lazy.EnvironmentOption = None) -> None:
    lazy.select(environment)


for _name, _text in _COMMANDS.items():
    lazy.add(app, _name, _text)


def main() -> NoReturn:
    """Run the command line and exit the process; an error is printed as one line without a traceback."""
    code = _run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = EX_BROKEN_PIPE
    except OSError as error:
        code = code or _print(classify(error, "the output is incomplete"))
    exit_now(code)


def _run() -> int:
    try:
        app(prog_name="tidegate")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else EX_SOFTWARE
        return EX_USAGE if code == _EX_TYPER_USAGE else code
    except KeyboardInterrupt:
        return _print(StoppedError(signal.SIGINT))
    except BaseException as error:  # delta-rs raises its panics as a BaseException
        return _print(classify(error), error)
    return 0


def _print(error: TidegateError, raised: BaseException | None = None) -> int:
    """Print an error, if anyone can still read it, and return its exit code."""
    where = ""
    if isinstance(error, UnexpectedError) and raised is not None and raised is not error:
        where = f" This is a bug in Tidegate; report it{_traceback(raised)}."
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        print(f"tidegate: {' '.join((error.message + where).split())}", file=sys.stderr, flush=True)
    return error.exit_code


def _traceback(error: BaseException) -> str:
    """Write the traceback to a file, because it may quote data; the words that name the file."""
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="tidegate-", suffix=".txt", delete=False) as file:
            file.write(text)
    except OSError:
        return ""
    return f" with {file.name}"
