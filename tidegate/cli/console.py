"""Output of commands: aligned tables, formatted numbers, and text without terminal control sequences."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate import formatting
from tidegate.states import STATES

_UNLIMITED_WIDTH = 10_000
"""Width of an output that is not a terminal: nothing is wrapped or truncated, so that `grep` works."""

_LONGEST_RULE = 100
"""Characters of the line below the headers, in an output that is not a terminal."""

_TONES = {"good": "green", "calm": "", "busy": "cyan", "wait": "yellow", "bad": "red"}
_STYLES = {
    **_TONES,
    **{name: _TONES[state.tone] for name, state in STATES.items()},
    # The states of a flow in a run that flows do not have themselves.
    "done": "green",
    "idle": "green",
    "skipped": "yellow",
}


def console() -> Console:
    """A console for standard output; colours and line width only on a terminal."""
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _UNLIMITED_WIDTH)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print a table.

    Args:
        headers: One per column.
        rows: One text per column; a text that is a state is coloured. Only the last column is wrapped.
        right: Headers of the right-aligned columns.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for header in headers:
        justify: Literal["left", "right"] = "right" if header in right else "left"
        table.add_column(header, justify=justify, no_wrap=header != headers[-1], overflow="fold")
    for row in rows:
        table.add_row(*(Text(escaped(cell), style=_STYLES.get(cell, "")) for cell in row))
    out = console()
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as printed:
        out.print(table)
    header, rule, *lines = (line.rstrip() for line in printed.get().rstrip("\n").split("\n"))
    # Otherwise the rule is as long as the longest error message.
    print("\n".join([header, rule[:_LONGEST_RULE], *lines]))


def print_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=1, default=str, ensure_ascii=False))


def echo(text: str = "", *, style: str = "") -> None:
    """Print one line, not wrapped."""
    console().print(Text(escaped(text), style=_STYLES.get(style, style)), soft_wrap=True)


def print_error(text: str) -> None:
    """Print one line on standard error."""
    sys.stdout.flush()
    print(f"tidegate: {escaped(' '.join(text.split()))}", file=sys.stderr, flush=True)


def escaped(text: str) -> str:
    """The text with control characters (escape sequences, line ends) replaced by their escapes."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "backslashreplace").decode()
        for character in text
    )


def count(number: int | None, *, exact: bool = True) -> str:
    """``1,204``, ``~1,204`` for an estimate, ``?`` if unknown."""
    return "?" if number is None else formatting.approximate(f"{number:,}", exact)


def size(number: int | None, *, exact: bool = True) -> str:
    """Bytes: ``88.1 kB``, ``~88.1 kB`` for an estimate, ``?`` if unknown."""
    return "?" if number is None else formatting.approximate(formatting.size(number), exact)
