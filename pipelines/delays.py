"""The flights of each day with the weather and the names of the airlines: three tables, each of which may be corrected."""

from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table

WEATHER = """
    origin STRING NOT NULL, time_hour TIMESTAMP NOT NULL, wind_speed DOUBLE, visib DOUBLE, published_on TIMESTAMP NOT NULL
"""
AIRLINES = "carrier STRING NOT NULL, name STRING NOT NULL, published_on TIMESTAMP NOT NULL"

pipeline = Pipeline(
    name="delays",
    description="Daily delays of silver.flights, with the weather where the flights departed and the airlines' names.",
    schedule="@hourly",
    owner="data-engineering",
    tags=("files", "example"),
    flows=(
        Flow(
            name="bronze_weather",
            source=FileSource(path="weather", format="csv", schema=WEATHER, null_values=("", "NA")),
            target=Table("bronze.weather"),
        ),
        Flow(
            name="weather",
            source=ChangeFeed("bronze.weather"),
            transform="delays:hourly",
            target=Table("silver.weather", keys=("origin", "hour"), sequence_by=("published_on",), event_time="hour"),
        ),
        Flow(
            name="bronze_airlines",
            source=FileSource(path="airlines", format="csv", schema=AIRLINES),
            target=Table("bronze.airlines"),
        ),
        Flow(
            name="airlines",
            source=ChangeFeed("bronze.airlines"),
            target=Table("silver.airlines", keys=("carrier",), sequence_by=("published_on",)),
        ),
        Flow(
            name="delays",
            sources=(
                ChangeFeed("silver.flights"),
                ChangeFeed("silver.weather", on={"origin": "origin", "day": "day"}),
                ChangeFeed("silver.airlines", on={"carrier": "carrier"}),
            ),
            transform="delays:with_weather",
            target=Table("gold.delays", keys=("day", "carrier")),
        ),
    ),
)
