"""Templates, and how they print numbers, sizes and times. Everything is escaped unless a template says otherwise."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import escape

from tidegate import wording

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
"""A state's colour, by what a person has to do: nothing, nothing yet, look on, wait, act."""


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
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
    made.globals["tones"] = TONES
    return made


def page(template: str, **context: Any) -> str:
    """A page's HTML.

    Args:
        template: The file's name in ``templates``.
        context: What it prints.
    """
    return _environment().get_template(template).render(**context)


def report(html: str, root: str, dag_id: str) -> str:
    """A report of the lake as the pages serve it: with Airflow's dark mode, and a way back.

    The file itself knows neither, because it is also opened from a disk.

    Args:
        html: The file.
        root: Where the app is mounted.
        dag_id: The pipeline that it belongs to.
    """
    script = f'<script src="{escape(root)}/assets/pages.js"></script>'
    back = (
        f'<nav aria-label="Tidegate"><a href="{escape(root)}/pipelines/{segment(dag_id)}">← {escape(dag_id)}</a></nav>'
    )
    return html.replace("<head>", f"<head>\n{script}", 1).replace("<body>", f"<body>\n{back}", 1)


def number(value: int | None, exact: bool = True) -> str:
    """``1,204``; ``~1,204`` for an estimate; ``?`` when nobody can tell."""
    return "?" if value is None else wording.marked(f"{value:,}", exact)


def rows(value: int | None, exact: bool = True) -> str:
    """``1 row``, ``~1,204 rows``; ``? rows`` when nobody can tell."""
    return "? rows" if value is None else wording.marked(wording.count(value, "row"), exact)


def size(value: int | None, exact: bool = True) -> str:
    """Bytes as people read them; ``?`` when nobody can tell."""
    return "?" if value is None else wording.marked(wording.size(value), exact)


def seconds(value: float) -> str:
    """``8.4 s``, ``3 min 12 s``."""
    if value < 60:
        return f"{value:.1f} s"
    return f"{int(value) // 60} min {int(value) % 60} s"


def ago(value: datetime) -> str:
    """``3 min ago``."""
    return wording.age(int(value.timestamp() * 1000))


def moment(value: datetime) -> str:
    """``2026-01-05 10:00:00``, in UTC."""
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(value: datetime) -> str:
    """For the ``datetime`` attribute of ``time``."""
    return value.astimezone(UTC).isoformat(timespec="seconds")


def segment(value: object) -> str:
    """One segment of a path, quoted."""
    return quote(str(value), safe="")


def plain(value: object) -> str:
    """A value of one of the platform's own tables."""
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
    """The first letter as a sentence begins; the others as they are."""
    return value[:1].upper() + value[1:]
