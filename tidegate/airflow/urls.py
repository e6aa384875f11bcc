"""URLs of the pages, shared by task links, tabs and templates."""

from __future__ import annotations

from urllib.parse import quote

PREFIX = "/tidegate"
"""The path at which Airflow mounts the pages' app."""
FRAMED = f"/plugin/tidegate{PREFIX}"
"""The path of the same pages inside Airflow's frame; Airflow keeps the rest of the path and the address bar in sync."""


def framed(*segments: str) -> str:
    """The URL of a page inside Airflow's frame, for links that Airflow shows.

    Args:
        segments: Path segments below the prefix, unquoted.
    """
    return "/".join([FRAMED, *(quote(segment, safe="") for segment in segments)])
