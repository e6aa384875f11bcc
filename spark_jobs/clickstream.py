"""Transforms of the clickstream pipeline. The session's time zone is UTC."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

PROBE = "uptime-probe"
"""The user agent of the shop's availability check, whose requests are not page views."""
PAUSE = "30 minutes"
"""A visitor who views no page for longer than this begins a new session with the next one."""


def clean(rows: DataFrame) -> DataFrame:
    """One row per version of an event; an event of kind ``delete`` deletes the view of the same id.

    Returns:
        ``event_id, sequence, kind, occurred_at, user_id, page`` (without its query, in lower case), ``seconds`` on the page,
        and ``rescued``: the fields that are not in the schema, as JSON, or NULL.
    """
    return rows.select(
        "_row_id",
        "_origin",
        "event_id",
        "sequence",
        "kind",
        "occurred_at",
        "user_id",
        F.lower(F.substring_index("page", "?", 1)).alias("page"),
        (F.col("duration_ms") / 1000).alias("seconds"),
        F.when(F.size("_rescued") > 0, F.to_json("_rescued")).alias("rescued"),
        F.when(F.col("agent") == PROBE, F.lit("uptime_probe")).alias("_filtered"),
        F.coalesce(F.col("kind") == "delete", F.lit(False)).alias("_deleted"),
    )


def page_views(rows: DataFrame) -> DataFrame:
    """Views and distinct users per page and hour, which begins at ``window_start``, and the longest stay in seconds."""
    return rows.groupBy("page", "window_start").agg(
        F.count("*").alias("views"),
        F.count_distinct("user_id").alias("users"),
        F.max("seconds").alias("longest_stay"),
    )


def sessions(rows: DataFrame) -> DataFrame:
    """One row per session of a user: its first and last view, page views, duration in seconds, and whether it is a bounce."""
    first, last = F.min("occurred_at"), F.max("occurred_at")
    made = rows.groupBy("user_id", F.session_window("occurred_at", PAUSE)).agg(
        first.alias("started_at"),
        last.alias("ended_at"),
        F.count("*").alias("pages"),
        ((F.unix_micros(last) - F.unix_micros(first)) / 1_000_000).alias("seconds"),
        (F.count("*") == 1).alias("bounce"),
    )
    return made.drop("session_window")
