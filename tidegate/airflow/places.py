"""Where the pages are: addresses that tasks, tabs and templates agree on."""

from __future__ import annotations

from urllib.parse import quote

PREFIX = "/tidegate"
"""Where Airflow mounts the pages."""
FRAMED = f"/plugin/tidegate{PREFIX}"
"""Where the same pages stand in Airflow's own frame: what follows is mirrored between frame and address bar."""


def framed(*segments: str) -> str:
    """The address of a page inside Airflow's frame, for links that Airflow shows.

    Args:
        segments: Of the page's path below the prefix; each is quoted.
    """
    return "/".join([FRAMED, *(quote(segment, safe="") for segment in segments)])
