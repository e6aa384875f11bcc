"""The pipeline `acts`: bronze of files, a keyed table, groups of it, an append-only table, a stateful flow, and a sink."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, FunctionSink, Pipeline, State, Table, Watermark

pipeline = Pipeline(
    name="acts",
    flows=(
        Flow(
            name="bronze",
            source=FileSource(path="acts", format="json", schema="id INT NOT NULL, at TIMESTAMP, day INT, amount INT"),
            target=Table("bronze.acts"),
        ),
        Flow(
            name="silver",
            source=ChangeFeed("bronze.acts"),
            transform="acts:clean",
            target=Table("silver.acts", keys=("id",), sequence_by=("at",)),
        ),
        Flow(name="gold", source=ChangeFeed("silver.acts"), transform="acts:daily", target=Table("gold.acts", keys=("day",))),
        Flow(name="sink", source=ChangeFeed("silver.acts"), target=FunctionSink("test.acts", write="acts:send")),
        Flow(
            name="rows",
            source=ChangeFeed("bronze.acts"),
            transform="acts:clean",
            target=Table("silver.rows", event_time="at"),
            watermark=Watermark(delay="1000 days"),
        ),
        Flow(
            name="firsts",
            source=ChangeFeed("silver.rows"),
            transform="acts:first_of_each",
            target=Table("gold.firsts"),
            state=State(partitions=1),
        ),
    ),
)
"""
JOB = """
from pyspark.sql import functions as F

SENT = []


def clean(rows):
    return rows.select("_row_id", "_origin", "id", "at", "day", "amount")


def daily(rows):
    return rows.groupBy("day").agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))


def first_of_each(rows):
    return rows.dropDuplicatesWithinWatermark(["id"]).select("_row_id", "id")


def send(changes):
    SENT.extend((change.id, change.type, dict(change.key), None if change.row is None else dict(change.row)) for change in changes)
"""
FLOWS = ("bronze", "silver", "gold", "sink", "rows", "firsts")
TARGETS = {
    "bronze": "bronze.acts",
    "silver": "silver.acts",
    "gold": "gold.acts",
    "rows": "silver.rows",
    "firsts": "gold.firsts",
}
"""The table of each flow that has one."""
READERS = {
    "bronze.acts": ("silver", "rows"),
    "silver.acts": ("gold", "sink"),
    "silver.rows": ("firsts",),
    "gold.acts": (),
    "gold.firsts": (),
}
"""The flows that read a table."""
ABOVE = {"silver": "bronze", "gold": "silver", "sink": "silver", "rows": "bronze", "firsts": "rows"}
"""The flow that writes the source of another."""


@contextmanager
def loaded(folder: Path, name: str = "acts", declaration: str = DECLARATION, job: str = JOB) -> Iterator[Any]:
    """Let this process import the pipeline, or another one, which is written to a folder; gives the module of its transforms."""
    for package, text in (("pipelines", declaration), ("spark_jobs", job)):
        (folder / package).mkdir(parents=True, exist_ok=True)
        (folder / package / f"{name}.py").write_text(text)
        importlib.import_module(package).__path__.append(str(folder / package))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module(f"spark_jobs.{name}")
    finally:
        for package in ("pipelines", "spark_jobs"):
            importlib.import_module(package).__path__.remove(str(folder / package))
            sys.modules.pop(f"{package}.{name}", None)
