"""``python -m demo``, which is what ``make demo`` runs."""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from pathlib import Path

from tidegate.ending import leave

EXIT_INTERRUPTED = 130
EXIT_NOT_SET_UP = 78
EXIT_BROKEN = 70
PLAIN_WIDTH = 120
"""Columns where there is no terminal to ask."""


def main() -> int:
    """Run the demo.

    Returns:
        0 when everything was as it must be, 1 when not, 130 after Ctrl-C, else the code of the error.
    """
    try:
        from rich.console import Console

        from demo.story import SHORT, WHOLE, tell
        from tidegate.errors import TidegateError
    except ModuleNotFoundError as missing:
        print(f"The demo needs the package {missing.name}: run `make setup`.", file=sys.stderr)
        return EXIT_NOT_SET_UP
    # A polite kill ends the broker and Spark as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    project = Path(__file__).resolve().parents[1]
    asked = _asked(project)
    folder: Path = asked.folder.absolute()
    try:
        return 0 if tell(project, folder, console, SHORT if asked.short else WHOLE) else 1
    except KeyboardInterrupt:
        console.print("\nStopped; the broker and Spark are stopped too. `make demo` starts afresh.")
        return EXIT_INTERRUPTED
    except TidegateError as error:
        console.print(error.message, style="red", markup=False, highlight=False, soft_wrap=True)
        return error.exit_code
    except Exception as error:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "demo.log"
        with log.open("a") as file:
            traceback.print_exception(error, file=file)
        told = f"The demo broke ({type(error).__name__}); the whole of it stands at the end of {log}."
        console.print(told, style="red", markup=False, highlight=False, soft_wrap=True)
        return EXIT_BROKEN


def _asked(project: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description="Three waves of files and messages.")
    parser.add_argument("--folder", type=Path, default=project / ".data" / "demo", help="where it keeps everything")
    parser.add_argument("--short", action="store_true", help="fewer days and clicks, and one increment in place of two")
    return parser.parse_args()


if __name__ == "__main__":
    leave(main())
