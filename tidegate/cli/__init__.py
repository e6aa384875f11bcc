"""The command line ``tidegate``. Commands that start a JVM say so in their help.

Exit codes (``sysexits.h``)::

    0    success, or nothing to do
    1    the reader of the output closed the pipe (``| head``)
    3    `tidegate verify` found a row that differs
    64   usage error: unknown pipeline, flow or option
    65   a gate or a contract refused a batch (the target is unchanged and the batch waits), a rewrite would delete or quarantine
         too many rows, or a source lost unread data
    70   a job crashed without a report, or a bug in Tidegate
    75   transient: a source is unavailable, or another run holds the lease
    78   needs a person: a wrong declaration, checkpoint, source or machine setup
    130  stopped with Ctrl-C (143 and 129 for SIGTERM and SIGHUP)
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import typer

from tidegate.cli import lazy
from tidegate.errors import EX_SOFTWARE, EX_USAGE, TidegateError
from tidegate.process_exit import exit_now

_EX_TYPER_USAGE = 2
_EX_BROKEN_PIPE = 1
"""The same code as Typer's for a closed pipe."""

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
    "undo": "Put back the rows that a backfill or a replay changed.",
    "new": "Create a pipeline that is ready to run.",
    "checkpoint": "Show every checkpoint of a pipeline.",
    "ledger": "Show the last ledger lines.",
    "query": "Query the tables of the lake with SQL.",
    "trace": "Follow a row to the records that made it, or a record to every table.",
    "state": "Show what a stateful flow remembers between batches.",
    "docs": "Export the pages about a pipeline's batches.",
    "version": "Show the versions of Tidegate and its main dependencies.",
    "quarantine": "Quarantine entries: list them, replay them through today's rules, or close them.",
    "expectations": "Propose a suite from a table, check suites, measure what a suite does not catch.",
    "watermark": "Measure how late rows come, and propose the delay of a watermark.",
    "contract": "Show how schemas changed, answer a schema change that waits, or see how to promote a field to a column.",
    "flow": "Switch a flow off or on, skip a file that stops it, accept lost messages; who, when and why is recorded.",
}
"""What the list of commands says."""

for _name, _text in _COMMANDS.items():
    lazy.add(app, _name, _text)


def main() -> NoReturn:
    """Run the command line and exit the process; a `TidegateError` is printed as one line without a traceback."""
    code = _run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise Python prints another error when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _EX_BROKEN_PIPE
    exit_now(code)


def _run() -> int:
    try:
        app(prog_name="tidegate")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else EX_SOFTWARE
        return EX_USAGE if code == _EX_TYPER_USAGE else code
    except TidegateError as error:
        sys.stdout.flush()
        print(f"tidegate: {' '.join(error.message.split())}", file=sys.stderr)
        return error.exit_code
    return 0
