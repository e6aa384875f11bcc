"""The application that spark-submit runs. It is given ids only; what to do stands in the request in the lake."""

from __future__ import annotations

import argparse
import logging
import sys

from tidegate.ending import leave
from tidegate.environment import Environment
from tidegate.errors import EX_SOFTWARE, TidegateError
from tidegate.layout import Layout
from tidegate.request import RunRequest


def main(argv: list[str] | None = None) -> int:
    """Run one attempt.

    Returns:
        0 when the application did its work, also when a flow was refused or ended with a terminal error of its own
        (the report says so); the exit code of the error for one of the whole application or a transient one.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--dag-id", "--run-key", "--request", "--attempt"):
        parser.add_argument(name, required=True)
    asked = parser.parse_args(argv)
    logging.basicConfig(format="%(asctime)s tidegate %(message)s", level=logging.WARNING, stream=sys.stdout)
    logging.getLogger("tidegate").setLevel(logging.INFO)
    try:
        environment = Environment.read()
        request = RunRequest.read(Layout.of(environment), asked.dag_id, asked.run_key, asked.request)
        from tidegate.spark.job import run_job

        report = run_job(environment, request, asked.attempt)
    except TidegateError as error:
        logging.getLogger("tidegate").error("%s: %s", type(error).__name__, error.message)
        return error.exit_code
    except Exception:
        logging.getLogger("tidegate").exception("the application failed")
        return EX_SOFTWARE
    transient = [flow.error for flow in report.flows if flow.error is not None and flow.error["transient"]]
    return int(transient[0]["exit_code"]) if transient else 0


if __name__ == "__main__":
    leave(main())
