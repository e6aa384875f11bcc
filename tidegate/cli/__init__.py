"""The command ``tidegate``: what is behind, why, run it now, and what became of it. A command that starts a JVM says so.

Exit codes (``sysexits.h``)::

    0    all is well, or nothing was new
    1    whoever read the output went away (``| head``)
    64   the command was called in a wrong way: unknown pipeline, flow or option
    65   a gate or a contract refused a batch (the target is untouched and the same batch waits), or a source lost what comes next
    70   a job crashed without a report, or a fault of Tidegate itself
    75   it may heal by waiting: a source is away, another run holds the lease
    78   a declaration, a checkpoint, a source or this machine needs a person
    130  stopped with Ctrl-C (143 and 129 for SIGTERM and SIGHUP)
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import typer

from tidegate.cli import (
    alerts,
    checkpoint,
    contract,
    docs,
    expectations,
    flow,
    lag,
    ledger,
    new,
    plan,
    quarantine,
    run,
    status,
    version,
)
from tidegate.ending import leave
from tidegate.errors import EX_SOFTWARE, EX_USAGE, TidegateError

_EX_TYPER_USAGE = 2
_EX_NO_READER = 1
"""What Typer, too, ends with then."""

app = typer.Typer(
    name="tidegate",
    help="Files and Kafka topics into bronze, silver and gold Delta tables, one bounded increment at a time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(status.status)
app.command()(lag.lag)
app.command()(alerts.alerts)
app.command()(plan.plan)
app.command()(run.run)
app.command()(new.new)
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(expectations.app, name="expectations")
app.add_typer(contract.app, name="contract")
app.add_typer(flow.app, name="flow")
app.command()(checkpoint.checkpoint)
app.command()(ledger.ledger)
app.command()(docs.docs)
app.command()(version.version)


def main() -> NoReturn:
    """Run the command line and end the process with its exit code; errors of ours are one line, never a traceback."""
    code = _run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _EX_NO_READER
    leave(code)


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
