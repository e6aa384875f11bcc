"""Renders the Jinja templates, with filters for numbers, sizes and times. Autoescape is on."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import escape

from tidegate import formatting

ASSETS = Path(__file__).parent / "assets"
_TEMPLATES = Path(__file__).parent / "templates"

TONES = {
    "up to date": "good",
    "done": "good",
    "passed": "good",
    "idle": "calm",
    "not begun": "calm",
    "waiting": "calm",
    "skipped": "calm",
    "off": "calm",
    "running": "busy",
    "behind": "wait",
    "unfinished": "wait",
    "split": "wait",
    "refused": "bad",
    "failed": "bad",
    "error": "bad",
}
"""State to CSS class. ``good``, ``calm`` and ``busy`` need nothing, ``wait`` may resolve itself, ``bad`` needs a person."""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "rows": rows,
        "size": size,
        "ago": ago,
        "moment": moment,
        "iso": iso,
        "segment": segment,
        "seconds": seconds,
        "plain": plain,
        "capitalize_first": capitalize_first,
    }
    environment.globals["tones"] = TONES
    return environment


def page(template: str, **context: Any) -> str:
    """The HTML of a page."""
    return _environment().get_template(template).render(**context)


def report(html: str, root: str, dag_id: str) -> str:
    """A data quality report with a script for Airflow's dark mode and a link back to the pipeline.

    The file itself has neither, because it can also be opened from disk.

    Args:
        root: URL path at which the app is mounted.
        dag_id: The pipeline of the report.
    """
    script = f'<script src="{escape(root)}/assets/pages.js"></script>'
    back = (
        f'<nav aria-label="Tidegate"><a href="{escape(root)}/pipelines/{segment(dag_id)}">← {escape(dag_id)}</a></nav>'
    )
    return html.replace("<head>", f"<head>\n{script}", 1).replace("<body>", f"<body>\n{back}", 1)


def number(value: int | None, exact: bool = True) -> str:
    """``1,204``; ``~1,204`` for an estimate; ``?`` if unknown."""
    return "?" if value is None else formatting.approximate(f"{value:,}", exact)


def rows(value: int | None, exact: bool = True) -> str:
    """``1 row``, ``~1,204 rows``; ``? rows`` if unknown."""
    return "? rows" if value is None else formatting.approximate(formatting.count(value, "row"), exact)


def size(value: int | None, exact: bool = True) -> str:
    """``12.3 MB``; ``~12.3 MB`` for an estimate; ``?`` if unknown."""
    return "?" if value is None else formatting.approximate(formatting.size(value), exact)


def seconds(value: float) -> str:
    """``8.4 s``, ``3 min 12 s``."""
    if value < 60:
        return f"{value:.1f} s"
    return f"{int(value) // 60} min {int(value) % 60} s"


def ago(value: datetime) -> str:
    """``3 min ago``."""
    return formatting.age(int(value.timestamp() * 1000))


def moment(value: datetime) -> str:
    """``2026-01-05 10:00:00``, in UTC."""
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(value: datetime) -> str:
    """For the ``datetime`` attribute of ``time``."""
    return value.astimezone(UTC).isoformat(timespec="seconds")


def segment(value: object) -> str:
    """One URL path segment, percent-encoded."""
    return quote(str(value), safe="")


def plain(value: object) -> str:
    """A value of one of the platform's tables as text."""
    match value:
        case None:
            return ""
        case datetime():
            return moment(value)
        case list() | tuple():
            return ", ".join(plain(each) for each in value)
        case _:
            return str(value)


def capitalize_first(value: str) -> str:
    """The first letter in upper case, the others unchanged."""
    return value[:1].upper() + value[1:]
