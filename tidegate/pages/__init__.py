"""Pages about batches that people read: static HTML in the lake's ``docs/<pipeline>/``, made without a JVM.

    index.html                        the pipeline: its flows and its newest runs
    <flow>/index.html                 the flow: its newest batches and the trend
    <flow>/batches-<K>.html           earlier batches, fifty a page; links lead through them
    <flow>/v<N>-<refresh>-batch-<ID>.html    one batch
    <flow>/history.json               what lists and plots need of the newest batches
    pages-<hash>.css                  the one asset, for pages of this version of Tidegate

A page holds rules and counts, never a value of the data. It loads nothing but the style sheet beside it and runs no
script, so it opens with the network off, from a disk, and under a strict content security policy. The driver adds to a
site batch by batch, at a cost that does not grow with the number of batches; `rebuild` makes a whole site anew from
ledger and verdicts. Imports the words, deltalake and Jinja2.
"""

from tidegate.pages.batch import Batch, Judgement
from tidegate.pages.site import publish, rebuild

__all__ = ["Batch", "Judgement", "publish", "rebuild"]
