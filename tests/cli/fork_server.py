"""A process that has imported the command line and forks for each command, because imports dominate a short command.

Reads one request per line (JSON: ``arguments, environment, folder, out, err``) and answers with the exit code. It starts
no thread and opens no file itself, so that a forked child behaves like a new process.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import sys
from typing import Any

IMPORTED = (
    *("confluent_kafka.admin", "croniter", "deltalake", "duckdb", "pendulum.locales.en.locale", "pyarrow"),
    *("pyarrow.dataset", "pydantic.fields", "rich.console", "rich.table"),
    *(f"tidegate.cli.{name}" for name in ("alerts", "checkpoint", "contract", "docs", "expectations", "flow", "lag")),
    *(f"tidegate.cli.{name}" for name in ("ledger", "new", "quarantine", "query", "replay", "trace", "version")),
    *("tidegate.quarantine.decision", "tidegate.status.status_cache"),
)


def serve() -> None:
    """Serve requests until standard input is closed."""
    for module in (*IMPORTED, *sys.argv[1:]):
        importlib.import_module(module)
    # Otherwise a child's garbage collector would copy memory pages of all imported modules.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _run_command(request)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run_command(request: dict[str, Any]) -> None:
    """Run the command in this child process and exit with its exit code."""
    null, out, err = (
        os.open(os.devnull, os.O_RDONLY),
        os.open(request["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        os.open(request["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    )
    for number, descriptor in enumerate((null, out, err)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # A crash of native code leaves the stacks of all threads.
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["tidegate", *request["arguments"]]
    # Python's exit code for an unhandled exception.
    code = 1
    try:
        from tidegate.cli import main

        main()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve()
