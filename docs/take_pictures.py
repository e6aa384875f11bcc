"""Takes the screenshots of docs/guides/read-the-reports.md, with the browser and the sample batches of the tests.

python -m docs.take_pictures
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.browser import launched, visit
from tests.pages import samples
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.pages.site import export

PICTURES = Path(__file__).parent / "pictures"
SCREENSHOTS = (
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
        export(layout, samples.flights(), PipelinePlace(layout, "flights").docs)
        with launched() as browser:
            for name, page, scheme, height in SCREENSHOTS:
                url = (PipelinePlace(layout, "flights").docs / page).as_uri()
                with visit(browser, url, scheme=scheme, width=1120, height=height or 900) as tab:  # type: ignore[arg-type]
                    tab.page.screenshot(path=PICTURES / f"{name}.png", full_page=height is None)


if __name__ == "__main__":
    take()
