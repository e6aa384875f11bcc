"""Takes the screenshots of docs/guides/read-the-reports.md and pages.md, with the browser, the lakes and the Airflow of the tests.

python -m docs.take_pictures
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Literal

import pytest

from tests.browser import launched, visit
from tests.pages import samples
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.pages.site import export

PICTURES = Path(__file__).parent / "pictures"
SCREENSHOTS: tuple[tuple[str, str, Literal["light", "dark"], int | None], ...] = (
    ("report-pipeline", "index.html", "light", 760),
    ("report-batch-light", "silver/v1-0-batch-129.html", "light", None),
    ("report-batch-dark", "silver/v1-0-batch-129.html", "dark", None),
    ("report-refused-dark", "silver/v1-0-batch-130.html", "dark", 1010),
)
"""Name, page, colour scheme, and height in CSS pixels (None: full page)."""


def take() -> None:
    """Write the pages and take a screenshot of each."""
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout.local(Path(folder) / "lake", Path(folder) / "landing")
        kinds = (samples.bronze, samples.batch, samples.gold)
        samples.fill(layout, *(kind(number) for number in range(130) for kind in kinds))
        samples.fill(layout, samples.bronze(130), samples.batch(130, outcome="refused"))
        pages = export(layout, samples.flights(), PipelinePlace(layout, "flights").docs).parent
        with launched() as browser:
            for name, page, scheme, height in SCREENSHOTS:
                address = Path(str(pages / page)).as_uri()
                with visit(browser, address, scheme=scheme, width=1120, height=height or 900) as tab:
                    tab.page.screenshot(path=PICTURES / f"{name}.png", full_page=height is None)


if __name__ == "__main__":
    take()
    sys.exit(pytest.main(["-q", "tests/airflow/pages/take_pictures.py"]))
