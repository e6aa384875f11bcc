"""Transforms of the flights pipeline. The session's time zone is UTC."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

AIRPORTS = ("EWR", "JFK", "LGA")
LATE_MINUTES = 15
"""Least delay of a late departure: the definition of the US Bureau of Transportation Statistics."""


def clean(rows: DataFrame) -> DataFrame:
    """One row per published record of a flight, with typed columns, readable names and times in UTC.

    A flight is identified by its scheduled hour, its carrier and its number. It is ``cancelled`` when it has no departure
    time. Ferry flights between two New York airports carry no passengers and are filtered.

    Returns:
        ``flight_id, day`` (New York's calendar), ``scheduled_at, departed_at`` (UTC), ``carrier, flight, tailnum,
        origin, dest, cancelled, dep_delay, arr_delay, air_time`` (minutes), ``distance`` (miles), ``published_on``,
        and ``rescued``: the fields that are not in the schema, as JSON, or NULL.
    """
    hour, minute = "sched_dep_time DIV 100", "sched_dep_time % 100"
    scheduled_at = F.expr(f"try_make_timestamp(year, month, day, {hour}, {minute}, 0, 'America/New_York')")
    ferry = F.col("origin").isin(*AIRPORTS) & F.col("dest").isin(*AIRPORTS)
    return rows.select(
        "_row_id",
        "_origin",
        F.concat(F.date_format("time_hour", "yyyyMMdd'T'HH'Z-'"), "carrier", F.lit("-"), "flight").alias("flight_id"),
        F.expr("CAST(try_make_timestamp_ntz(year, month, day, 0, 0, 0) AS DATE)").alias("day"),
        scheduled_at.alias("scheduled_at"),
        F.timestamp_add("MINUTE", F.col("dep_delay"), scheduled_at).alias("departed_at"),
        "carrier",
        "flight",
        "tailnum",
        "origin",
        "dest",
        F.col("dep_time").isNull().alias("cancelled"),
        "dep_delay",
        "arr_delay",
        "air_time",
        "distance",
        "published_on",
        F.when(F.size("_rescued") > 0, F.to_json("_rescued")).alias("rescued"),
        F.when(ferry, F.lit("ferry_flight")).alias("_filtered"),
    )


def daily_delay(rows: DataFrame) -> DataFrame:
    """Flights, cancellations and departure delays per day and carrier.

    Delays are minutes of flights that departed, NULL where none did. The percentile is the discrete one: the delay of
    some flight.
    """
    departed = F.col("dep_delay").isNotNull()
    return rows.groupBy("day", "carrier").agg(
        F.count("*").alias("flights"),
        F.count_if("cancelled").alias("cancelled"),
        F.count_if(departed & (F.col("dep_delay") >= LATE_MINUTES)).alias("late"),
        F.avg("dep_delay").alias("mean_delay"),
        F.expr("CAST(percentile_disc(0.9) WITHIN GROUP (ORDER BY dep_delay) AS INT)").alias("p90_delay"),
        F.max("dep_delay").alias("max_delay"),
    )
