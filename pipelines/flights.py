"""Every flight that left New York: daily files into a table per flight and delay statistics per day and carrier."""

from tidegate.spec import ChangeFeed, FileSource, Flow, Gate, Pipeline, Table

SCHEMA = """
    year INT NOT NULL, month INT NOT NULL, day INT NOT NULL,
    dep_time INT, sched_dep_time INT NOT NULL, dep_delay INT,
    arr_time INT, sched_arr_time INT NOT NULL, arr_delay INT,
    carrier STRING NOT NULL, flight INT NOT NULL, tailnum STRING,
    origin STRING NOT NULL, dest STRING NOT NULL,
    air_time INT, distance INT NOT NULL,
    hour INT, minute INT, time_hour TIMESTAMP NOT NULL,
    published_on TIMESTAMP NOT NULL
"""

pipeline = Pipeline(
    name="flights",
    description="Departures from EWR, JFK and LGA. One file per day; corrections replace earlier records.",
    schedule="@daily",
    owner="data-engineering",
    tags=("files", "example"),
    flows=(
        Flow(
            name="bronze",
            source=FileSource(
                path="flights",
                format="csv",
                schema=SCHEMA,
                null_values=("", "NA"),
                max_files_per_trigger=25,
            ),
            target=Table("bronze.flights"),
        ),
        Flow(
            name="silver",
            source=ChangeFeed("bronze.flights"),
            transform="flights:clean",
            target=Table("silver.flights", keys=("flight_id",), sequence_by=("published_on",), event_time="day"),
            gate=Gate("flights/silver"),
        ),
        Flow(
            name="gold",
            source=ChangeFeed("silver.flights"),
            transform="flights:daily_delay",
            target=Table("gold.daily_delay", keys=("day", "carrier")),
        ),
    ),
)
