"""A process that has imported the command line already, and forks once for each command: most of a short one is imports.

Reads a request per line (JSON: ``arguments, environment, folder, out, err``) and answers with the exit code. It starts no
thread and opens nothing itself, so that a child is as fresh as a process of its own.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from typing import Any

IMPORTED = (
    *("confluent_kafka.admin", "croniter", "deltalake", "duckdb", "pendulum.locales.en.locale", "pyarrow"),
    *("pyarrow.dataset", "pydantic.fields", "rich.console", "rich.table"),
    *(
        "tidegate.cli",
        "tidegate.cli.console",
        "tidegate.pages.site",
        "tidegate.planning.preview",
        "tidegate.quarantine.decision",
    ),
    *("tidegate.status.observation", "tidegate.status.watch"),
)


def serve() -> None:
    """Until there is no more request."""
    for module in (*IMPORTED, *sys.argv[1:]):
        importlib.import_module(module)
    # A child's collector would copy the pages of everything that it never uses.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(asked)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(asked: dict[str, Any]) -> None:
    """Be the command, in this child, and end with it."""
    null, out, err = (
        os.open(os.devnull, os.O_RDONLY),
        os.open(asked["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        os.open(asked["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    )
    for number, descriptor in enumerate((null, out, err)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv = ["tidegate", *asked["arguments"]]
    # As Python does for an error that nobody expected.
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
