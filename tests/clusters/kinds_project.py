"""The project with a pipeline of every kind of flow: its declaration, and its transforms, of which executors call a function."""

DECLARATION = '''"""Every kind of flow."""

from tidegate.spec import (
    ChangeFeed, FileSource, Flow, Intervals, KafkaSink, KafkaSource, Pipeline, RewriteLimits, SnapshotFeed, State, Table, TimeWindows,
    Watermark,
)

SCHEMA = "id INT NOT NULL, version INT NOT NULL, at TIMESTAMP NOT NULL, card STRING, day INT, amount INT"
DAILY = Intervals("dt=%Y-%m-%d", manifest="dt=%Y-%m-%d/_manifest")


def of_bronze(name, target, transform, **more):
    return Flow(name=name, source=ChangeFeed("bronze.events"), transform="kinds:" + transform, target=target, **more)


def of_events(name, target, transform):
    return Flow(name=name, source=ChangeFeed("silver.events"), transform="kinds:" + transform, target=target)


def of_files(name, schema, **more):
    return Flow(
        name=name + "_files", source=FileSource(path=name, format="json", schema=schema, **more), target=Table("bronze." + name)
    )


pipeline = Pipeline(
    name="kinds",
    rewrite_limits=RewriteLimits(deleted_share=1),
    flows=(
        of_files("events", SCHEMA),
        of_bronze("events", Table("silver.events", keys=("id",), sequence_by=("version",), event_time="at"), "events"),
        of_bronze("history", Table("silver.history", keys=("id",), sequence_by=("version",), history="scd2"), "history"),
        of_bronze("items", Table("silver.items", keys=("card", "item"), sequence_by=("version",), replace_by=("card",)), "items"),
        of_bronze("log", Table("silver.log", event_time="at"), "log", watermark=Watermark(delay="10 minutes")),
        Flow(
            name="running",
            source=ChangeFeed("silver.log"),
            transform="kinds:running",
            target=Table("gold.running"),
            state=State(partitions=2),
        ),
        of_events("days", Table("gold.days", keys=("day",)), "days"),
        of_events(
            "windows",
            Table("gold.windows", keys=("card", "window_start"), windows=TimeWindows(time="at", length="15 minutes")),
            "windows",
        ),
        of_files("names", "day INT NOT NULL, version INT NOT NULL, name STRING"),
        Flow(
            name="names",
            source=ChangeFeed("bronze.names"),
            target=Table("silver.names", keys=("day",), sequence_by=("version",)),
        ),
        Flow(
            name="joined",
            sources=(ChangeFeed("silver.events"), ChangeFeed("silver.names", on={"day": "day"})),
            transform="kinds:joined",
            target=Table("gold.joined", keys=("id",)),
        ),
        of_files("prices", "id INT NOT NULL, price INT", intervals=DAILY),
        Flow(name="prices", source=SnapshotFeed("bronze.prices"), target=Table("silver.prices", keys=("id",))),
        Flow(
            name="price_history",
            source=SnapshotFeed("bronze.prices"),
            target=Table("silver.price_history", keys=("id",), sequence_by=("snapshot_at",), history="scd2"),
        ),
        Flow(
            name="messages",
            source=KafkaSource(topic="<topic>", schema="id INT NOT NULL"),
            target=Table("bronze.messages"),
        ),
        Flow(name="sent", source=ChangeFeed("silver.events"), target=KafkaSink("<topic>-sent")),
    ),
)
'''
JOB = '''"""The transforms of the pipeline kinds."""

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

VERSION = "<version>"
FOLDER = Path("<folder>")


def attend(flow):
    """The version of this code. Notes which process has it, once, and waits while the flow is held."""
    note = FOLDER / f"{flow}-{os.getpid()}.json"
    if not note.exists():
        import tidegate.formatting

        modules = (sys.modules[__name__], tidegate.formatting)
        content = {"cwd": os.getcwd(), "version": VERSION, "pid": os.getpid(), "files": [os.path.abspath(m.__file__) for m in modules]}
        draft = note.with_suffix(".draft")
        draft.write_text(json.dumps(content))
        draft.rename(note)
    while (FOLDER / f"hold-{flow}").exists():
        time.sleep(0.05)
    return VERSION


def marked(flow):
    return F.udf(attend, "string")(F.lit(flow)).alias("made_by")


def events(rows):
    return rows.select("_row_id", "_origin", "id", "version", "at", "card", "day", "amount", marked("events"))


def history(rows):
    return rows.select("_row_id", "_origin", "id", "version", "amount", marked("history"))


def items(rows):
    item = F.explode(F.sequence(F.lit(1), F.col("version") % 3 + 1)).alias("item")
    return rows.select("_row_id", "_origin", "card", "version", item, marked("items"))


def log(rows):
    return rows.select("_row_id", "_origin", "version", "at", "card", "amount", marked("log"))


def days(rows):
    marks = rows.select("day", "amount", marked("days"))
    return marks.groupBy("day").agg(F.count("*").alias("events"), F.sum("amount").alias("amount"), F.max("made_by").alias("made_by"))


def windows(rows):
    marks = rows.select("card", "window_start", marked("windows"))
    return marks.groupBy("card", "window_start").agg(F.count("*").alias("events"), F.max("made_by").alias("made_by"))


def joined(events, names):
    both = events.join(names.select("day", "name"), "day", "left").select("id", "name", "amount", marked("joined"))
    return both.groupBy("id").agg(F.max("name").alias("name"), F.sum("amount").alias("amount"), F.max("made_by").alias("made_by"))


class Running(StatefulProcessor):
    """Number and sum of the events of a card up to each one."""

    def init(self, handle):
        self.handle = handle
        self.total = handle.getValueState("total", "events BIGINT, amount BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        import pandas as pd

        events, amount = self.total.get() if self.total.exists() else (0, 0)
        made_by = attend("running")
        made, arrived = [], pd.concat(rows).sort_values("version")
        # A card is forgotten a day after its newest event.
        self.handle.registerTimer(int(arrived["at"].max().timestamp() + 86_400) * 1000)
        for row in arrived.to_dict("records"):
            events, amount = events + 1, amount + int(row["amount"])
            made.append((row["event"], int(row["version"]), key[0], events, amount, made_by))
        self.total.update((events, amount))
        yield pd.DataFrame(made, columns=["_row_id", "version", "card", "events", "amount", "made_by"])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        self.total.clear()
        return iter(())

    def close(self):
        pass


def running(rows):
    output = "_row_id STRING, version INT, card STRING, events BIGINT, amount BIGINT, made_by STRING"
    named = rows.withColumnRenamed("_row_id", "event")
    return named.groupBy("card").transformWithStateInPandas(Running(), output, "Append", "EventTime")
'''
MARKED = ("events", "history", "items", "log", "running", "days", "windows", "joined")
"""The flows whose transform executors attend."""
