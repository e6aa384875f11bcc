"""The pipeline `hunt`, whose declaration, transform and suite a history edits, in the folder of a test."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.hunt.rules import Code

DECLARATION = """
from tidegate.spec import ChangeFeed, FileSource, Flow, Gate, KafkaSource, Pipeline, RewriteLimits, Table, Thresholds

SCHEMA = "id INT NOT NULL, at INT, day DATE, amount INT, op STRING"

pipeline = Pipeline(
    name="hunt",
    rewrite_limits=RewriteLimits(deleted_share=1, quarantined_share=1),
    flows=(
        Flow(name="bronze", source={source}, target=Table("bronze.hunt"), checkpoint_version={bronze}),
        Flow(
            name="silver",
            source=ChangeFeed("bronze.hunt"),
            transform="hunt:clean",
            target=Table("silver.hunt", keys=("key",), sequence_by=("at",), event_time="day"),
            gate=Gate("hunt/silver"),
            thresholds=Thresholds(transform_error_share=1.0),
            checkpoint_version={version},
        ),
        Flow(
            name="gold",
            source=ChangeFeed("silver.hunt"),
            transform="hunt:daily",
            target=Table("gold.hunt", keys=("day",)),
            checkpoint_version={gold},
        ),
    ),
)
"""
JOB = """
from pyspark.sql import functions as F

def clean(rows):
    return rows.select(
        "_row_id",
        "_origin",
        F.when(F.col("id") >= 0, F.col("id")).alias("key"),
        "at",
        "day",
        (F.col("amount") * {factor}).alias("amount"),
        F.expr("CAST(1000 div (amount - {trap}) AS INT)").alias("ratio"),
        F.when(F.expr("id % 7 = {filtered}"), F.lit("other_shop")).alias("_filtered"),
        (F.coalesce("op", F.lit("")) == "delete").alias("_deleted"),
    )

def daily(rows):
    return rows.groupBy("day").agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
"""


@dataclass
class Project:
    """The edited files of one history. `write` makes them those of the pipeline that this process loads."""

    folder: Path
    """Holds ``pipelines/`` and ``spark_jobs/``."""
    expectations: Path
    source: str
    """The source of bronze, in Python."""
    bronze: int = 1
    """The checkpoint version of bronze."""
    gold: int = 1
    """The checkpoint version of gold."""

    def write(self, code: Code, version: int) -> None:
        files = {
            self.folder / "pipelines" / "hunt.py": DECLARATION.format(
                source=self.source, version=version, bronze=self.bronze, gold=self.gold
            ),
            self.folder / "spark_jobs" / "hunt.py": JOB.format(**vars(code)),
            self.expectations / "hunt" / "silver.json": suite(code),
        }
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.load()

    def load(self) -> None:
        """Let this process import the files as they are now."""
        for package in ("pipelines", "spark_jobs"):
            module = importlib.import_module(package)
            if str(self.folder / package) not in module.__path__:
                module.__path__.append(str(self.folder / package))
            sys.modules.pop(f"{package}.hunt", None)
        importlib.invalidate_caches()
        # Python would reuse the bytecode of a version that was written within the same second.
        for cached in self.folder.rglob("__pycache__/*.pyc"):
            cached.unlink()

    def unload(self) -> None:
        """Let this process forget the pipeline."""
        for package in ("pipelines", "spark_jobs"):
            importlib.import_module(package).__path__.remove(str(self.folder / package))
            sys.modules.pop(f"{package}.hunt", None)


def suite(code: Code) -> str:
    kwargs = {"column": "amount", "min_value": 0, "max_value": code.highest}
    rule = {"type": "expect_column_values_to_be_between", "kwargs": kwargs, "severity": "warning"}
    return json.dumps({"name": "hunt/silver", "expectations": [rule]})
