"""``python -m demo``, which is what ``make demo`` runs."""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from tidegate.processes import exit_now

EXIT_INTERRUPTED = 130
EXIT_NOT_SET_UP = 78
EXIT_BROKEN = 70
PLAIN_WIDTH = 120
"""Columns of the output when it is not a terminal."""


def main() -> int:
    """Run the demo.

    Returns:
        0 when all checks passed, 1 when one failed, 130 after Ctrl-C, else the exit code of the error.
    """
    try:
        from rich.console import Console

        from demo.scenario import run_demo
        from tidegate.errors import TidegateError
    except ModuleNotFoundError as missing:
        print(f"The demo needs the package {missing.name}: run `make setup`.", file=sys.stderr)
        return EXIT_NOT_SET_UP
    # SIGTERM stops the broker and Spark like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    project = Path(__file__).resolve().parents[1]
    arguments = parse_arguments(sys.argv[1:], project)
    folder: Path = arguments.folder.absolute()
    try:
        passed = run_demo(
            project,
            folder,
            console,
            lake=arguments.lake,
            services=arguments.services,
            people_act=arguments.acts,
        )
        return 0 if passed else 1
    except KeyboardInterrupt:
        console.print("\nStopped, with the broker and Spark. `make demo` starts from the beginning.")
        return EXIT_INTERRUPTED
    except TidegateError as error:
        console.print(error.message, style="red", markup=False, highlight=False, soft_wrap=True)
        return error.exit_code
    except Exception as error:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "demo.log"
        with log.open("a") as file:
            traceback.print_exception(error, file=file)
        message = f"The demo failed with an unexpected {type(error).__name__}; the traceback is at the end of {log}."
        console.print(message, style="red", markup=False, highlight=False, soft_wrap=True)
        return EXIT_BROKEN


def parse_arguments(values: Sequence[str], project: Path) -> argparse.Namespace:
    """What the command line asks for; ends the process where it cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="Three waves of files and messages.")
    parser.add_argument(
        "--folder", type=Path, default=project / ".data" / "demo", help="the folder for all files of the demo"
    )
    parser.add_argument(
        "--lake",
        type=_lake,
        default="folder",
        metavar="{folder,s3,s3://BUCKET/PREFIX}",
        help="where the lake is: in that folder, in a bucket of an S3 server, which `make s3-server` builds, or at an address where"
        " nothing is, in a bucket that this environment has the keys of",
    )
    parser.add_argument(
        "--services",
        choices=("own", "environment"),
        default="own",
        help="a broker, a landing zone and a local Spark for this demo, or those that this environment names: TIDEGATE_KAFKA,"
        " TIDEGATE_LANDING, and the connection and the database of Airflow. Its topics and its landing zone are empty, and all machines"
        " of Spark reach the lake",
    )
    parser.add_argument(
        "--acts",
        action="store_true",
        help="people act on the tables of flights after the waves: a refused backfill, an undo, a replay",
    )
    return parser.parse_args(values)


def _lake(value: str) -> str:
    if value in ("folder", "s3") or value.startswith("s3://"):
        return value
    raise argparse.ArgumentTypeError(f"{value} is none of folder, s3 and s3://BUCKET/PREFIX")


if __name__ == "__main__":
    exit_now(main())
