"""The application that spark-submit runs. Its arguments are ids; the request itself is a file in the lake."""

from __future__ import annotations

import argparse
import logging
import os
import sys

from tidegate.environment import Environment
from tidegate.errors import UnexpectedError, classify
from tidegate.lake.layout import Layout
from tidegate.lake.place import RunPlace
from tidegate.processes import exit_now
from tidegate.requests.request import RunRequest


def main(argv: list[str] | None = None) -> int:
    """Run one attempt.

    Returns:
        0 when the application ran, even if a flow was refused or failed with a terminal error (both are in the report).
        For a transient error of a flow, or an error of the whole application, the exit code of that error.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--dag-id", "--run-key", "--request", "--attempt"):
        parser.add_argument(name, required=True)
    parser.add_argument(
        "--recorded", action="store_true", help="the attempt is recorded, and this process outlives its task"
    )
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(asctime)s tidegate %(message)s", level=logging.WARNING, stream=sys.stdout)
    logging.getLogger("tidegate").setLevel(logging.INFO)
    # A full disk takes no log line; the exit code still says why the job ended.
    logging.raiseExceptions = False
    try:
        environment = Environment.read()
        layout = Layout.of(environment)
        if args.recorded:
            # Before anything else: of two drivers the one that is not recorded does nothing.
            from tidegate.checkpoints import recorded_attempt

            recorded_attempt.begin(RunPlace(layout, args.dag_id, args.run_key), args.attempt, os.environ)
        request = RunRequest.read(layout, args.dag_id, args.run_key, args.request)
        from tidegate.spark.application import run_application

        report = run_application(environment, request, args.attempt)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as raised:  # delta-rs raises its panics as a BaseException
        error = classify(raised)
        if isinstance(error, UnexpectedError):
            logging.getLogger("tidegate").error("the application failed", exc_info=raised)
        else:
            logging.getLogger("tidegate").error("%s: %s", type(error).__name__, error.message)
        return error.exit_code
    transient = [flow.error for flow in report.flows if flow.error is not None and flow.error.transient]
    return int(transient[0].exit_code) if transient else 0


if __name__ == "__main__":
    exit_now(main())
