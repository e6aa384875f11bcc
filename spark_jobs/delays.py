"""Transforms of the delays pipeline. The session's time zone is UTC."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def hourly(rows: DataFrame) -> DataFrame:
    """The weather per airport and hour, with the day in New York, which the flights have: mph, miles."""
    return rows.select(
        "_row_id",
        "_origin",
        "origin",
        F.col("time_hour").alias("hour"),
        F.to_date(F.from_utc_timestamp("time_hour", "America/New_York")).alias("day"),
        F.col("wind_speed").alias("wind"),
        F.col("visib").alias("visibility"),
        "published_on",
    )


def with_weather(flights: DataFrame, weather: DataFrame, airlines: DataFrame) -> DataFrame:
    """Flights and mean delay per day and carrier, with the airline's name and the day's worst weather where they departed."""
    daily = weather.groupBy("origin", "day").agg(F.max("wind").alias("wind"), F.min("visibility").alias("visibility"))
    rows = flights.join(daily, ["origin", "day"], "left").join(airlines, "carrier", "left")
    return rows.groupBy("day", "carrier").agg(
        F.max("name").alias("airline"),
        F.count("*").alias("flights"),
        F.avg("dep_delay").alias("mean_delay"),
        F.max("wind").alias("wind"),
        F.min("visibility").alias("visibility"),
    )
