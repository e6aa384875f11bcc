"""Page views of a web shop: a Kafka topic into a table per event, counts per page and hour, and sessions per user."""

from tidegate.spec import ChangeFeed, Flow, Gate, KafkaSource, Pipeline, Table, TimeWindows

SCHEMA = """
    event_id STRING NOT NULL, sequence BIGINT NOT NULL, kind STRING NOT NULL,
    occurred_at TIMESTAMP, user_id STRING, page STRING, duration_ms INT, agent STRING
"""

pipeline = Pipeline(
    name="clickstream",
    description="Page views, their later corrections, and the deletions on request of users.",
    schedule="*/2 * * * *",
    owner="web-analytics",
    tags=("kafka", "example"),
    flows=(
        Flow(
            name="bronze",
            source=KafkaSource(topic="clickstream", schema=SCHEMA, max_offsets_per_trigger=8_000),
            target=Table("bronze.clicks"),
        ),
        Flow(
            name="silver",
            source=ChangeFeed("bronze.clicks"),
            transform="clickstream:clean",
            target=Table("silver.clicks", keys=("event_id",), sequence_by=("sequence",), event_time="occurred_at"),
            gate=Gate("clickstream/silver"),
        ),
        Flow(
            name="gold",
            source=ChangeFeed("silver.clicks"),
            transform="clickstream:page_views",
            target=Table(
                "gold.page_views",
                keys=("page", "window_start"),
                windows=TimeWindows(time="occurred_at", length="1 hour"),
            ),
        ),
        Flow(
            name="sessions",
            source=ChangeFeed("silver.clicks"),
            transform="clickstream:sessions",
            target=Table("gold.sessions", keys=("user_id", "started_at"), replace_by=("user_id",)),
        ),
    ),
)
