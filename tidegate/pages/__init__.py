"""Data quality reports: static HTML pages about batches in the lake's ``docs/<pipeline>/``. Starts no JVM.

    index.html                        the pipeline: its flows and its newest runs
    <flow>/index.html                 the flow: its newest batches and the trend
    <flow>/batches-<K>.html           earlier batches, fifty a page, linked to each other
    <flow>/v<N>-<refresh>-batch-<ID>.html    one batch
    <flow>/history.json               data of the newest batches for lists and plots
    pages-<hash>.css                  the only asset, for pages of this version of Tidegate

A page has rules and counts, never a value of the data. It loads only the style sheet and runs no script, so it opens offline,
from a disk, and under a strict content security policy. The driver adds to a site batch by batch, at a cost that does not grow
with the number of batches; `rebuild` creates a whole site from ledger and verdicts. Imports the core packages, deltalake and
Jinja2.
"""

from tidegate.pages.batch import Batch, Judgement
from tidegate.pages.site import publish, rebuild

__all__ = ["Batch", "Judgement", "publish", "rebuild"]
