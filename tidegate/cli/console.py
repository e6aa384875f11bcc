"""How commands print: aligned tables, numbers for people, and texts that cannot steer a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from tidegate import wording

if TYPE_CHECKING:
    from rich.console import Console

_UNBOUNDED = 10_000
"""Columns of an output that is no terminal: nothing is wrapped or cut, so that `grep` finds it."""

_STYLES = {
    "up to date": "green",
    "done": "green",
    "idle": "green",
    "running": "cyan",
    "behind": "yellow",
    "unfinished": "yellow",
    "skipped": "yellow",
    "refused": "red",
    "failed": "red",
    "error": "red",
}


def console() -> Console:
    """Standard output; colours and the terminal's width only where there is a terminal."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _UNBOUNDED)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print rows under headers.

    Args:
        headers: One per column.
        rows: As many texts each; a text that is a state is coloured. Only the last column is broken into lines.
        right: Headers of columns that hold numbers.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for header in headers:
        justify: Literal["left", "right"] = "right" if header in right else "left"
        table.add_column(header, justify=justify, no_wrap=header != headers[-1], overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell), style=_STYLES.get(cell, "")) for cell in row))
    out = console()
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as printed:
        out.print(table)
    print("\n".join(line.rstrip() for line in printed.get().rstrip("\n").split("\n")))


def print_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=1, default=str, ensure_ascii=False))


def say(text: str = "", *, style: str = "") -> None:
    """Print one line, not wrapped."""
    from rich.text import Text

    console().print(Text(plain(text), style=_STYLES.get(style, style)), soft_wrap=True)


def complain(text: str) -> None:
    """Print one line on standard error."""
    sys.stdout.flush()
    print(f"tidegate: {plain(' '.join(text.split()))}", file=sys.stderr, flush=True)


def plain(text: str) -> str:
    """The text with what a terminal would obey (escape sequences, line ends) written out."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in text
    )


def count(number: int | None, *, exact: bool = True) -> str:
    """``1,204``, ``~1,204`` for an estimate, ``?`` when it is not known."""
    return "?" if number is None else wording.marked(f"{number:,}", exact)


def size(number: int | None, *, exact: bool = True) -> str:
    """Bytes: ``88.1 kB``, ``~88.1 kB`` for an estimate, ``?`` when it is not known."""
    return "?" if number is None else wording.marked(wording.size(number), exact)
