"""Renders the templates of all pages. Autoescape is on, and a variable that a template lacks is an error."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from tidegate import formatting
from tidegate.pages.shares import percent
from tidegate.pages.trend import FILLS

if TYPE_CHECKING:
    from tidegate.states import Tone

STYLE_SHEET = Path(__file__).parent / "assets" / "pages.css"

POLICY = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
"""The content security policy of exported pages, as a ``<meta>``. The app in Airflow sends its own as a header."""

TONES: Mapping[str, Tone] = {
    "done": "good",
    "passed": "good",
    "running": "busy",
    "pending": "wait",
    "split": "wait",
    "dropped": "wait",
    "complete": "good",
    "not read": "wait",
    "incomplete": "wait",
    "missing": "bad",
    "refused": "bad",
    "failed": "bad",
    "crashed": "bad",
}
"""Outcome of a batch or of a flow in a run, or state of an interval, to CSS class, by default ``calm``. Flows have their own."""


class Links(Protocol):
    """The URLs of pages and of the style sheet, as the pages link to them."""

    @property
    def style(self) -> str:
        """The style sheet."""

    def pipeline(self, pipeline: str) -> str:
        """A pipeline."""

    def flow(self, pipeline: str, flow: str, page: int = 1) -> str:
        """One page of a flow's batches."""

    def batch(self, pipeline: str, flow: str, page: str | None) -> str | None:
        """A batch or a swap, by the name of its page; None if it has no page."""


_IN_AIRFLOW = dict.fromkeys(("airflow", "root", "address", "as_of", "stale", "history", "row", "refused_page", "state"))
"""Variables that not all pages have; most are only in Airflow."""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tidegate.pages"),
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
        "percent": percent,
        "capitalize_first": capitalize_first,
    }
    environment.globals |= {"tones": TONES, "fills": FILLS, "policy": POLICY}
    return environment


def page(template: str, link: Links, **context: Any) -> str:
    """The HTML of a page.

    Args:
        template: Its name in ``templates/``.
    """
    return _environment().get_template(template).render(_IN_AIRFLOW | context, link=link)


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


def capitalize_first(value: str) -> str:
    """The first letter in upper case, the others unchanged."""
    return value[:1].upper() + value[1:]
