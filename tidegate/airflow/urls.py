"""URLs of the pages, shared by task links, tabs and templates."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

PREFIX = "/tidegate"
"""The path at which Airflow mounts the pages' app."""
FRAMED = f"/plugin/tidegate{PREFIX}"
"""The path of the same pages inside Airflow's frame; Airflow keeps the rest of the path and the address bar in sync."""


@dataclass(frozen=True)
class AppLinks:
    """Links between the pages (`tidegate.pages.render.Links`)."""

    root: str
    """The path of the app: `PREFIX`, or `FRAMED` for links that Airflow shows."""

    @property
    def style(self) -> str:
        """The style sheet."""
        return f"{self.root}/assets/pages.css"

    def pipeline(self, pipeline: str) -> str:
        """A pipeline."""
        return f"{self.root}/pipelines/{_segment(pipeline)}"

    def flow(self, pipeline: str, flow: str, page: int = 1) -> str:
        """One page of a flow's batches."""
        return f"{self.pipeline(pipeline)}/flows/{_segment(flow)}{f'?page={page}' if page > 1 else ''}"

    def batch(self, pipeline: str, flow: str, page: str | None) -> str | None:
        """A batch or a swap, by the name of its page; None for what has no page."""
        return f"{self.flow(pipeline, flow)}/{_segment(page)}" if page else None


def _segment(name: str) -> str:
    return quote(name, safe="")
