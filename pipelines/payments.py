"""Payments by card: a Kafka topic into a table, a decision about each payment from what its card did before, alerts to a topic."""

from tidegate.spec import ChangeFeed, Flow, Gate, KafkaSink, KafkaSource, Pipeline, State, Table, Watermark

SCHEMA = """
    payment_id STRING NOT NULL, kind STRING NOT NULL, card_id STRING NOT NULL, occurred_at TIMESTAMP NOT NULL,
    amount_cents BIGINT, country STRING, latitude DOUBLE, longitude DOUBLE
"""

pipeline = Pipeline(
    name="payments",
    description="Payments and their reversals. Messages of one card have its id as key, so that they arrive in their order.",
    schedule="*/5 * * * *",
    owner="risk",
    tags=("kafka", "state", "example"),
    flows=(
        Flow(
            name="bronze",
            source=KafkaSource(topic="payments", schema=SCHEMA, max_offsets_per_trigger=8_000),
            target=Table("bronze.payments"),
        ),
        Flow(
            name="silver",
            source=ChangeFeed("bronze.payments"),
            transform="payments:clean",
            target=Table("silver.payments", event_time="occurred_at"),
            watermark=Watermark(delay="10 minutes", skew="5 minutes"),
            gate=Gate("payments/silver"),
        ),
        Flow(
            name="decisions",
            source=ChangeFeed("silver.payments"),
            transform="payments:decide",
            target=Table("silver.decisions", keys=("card_id", "payment_id")),
            state=State(partitions=2),
        ),
        Flow(
            name="alerts",
            source=ChangeFeed("silver.decisions"),
            transform="payments:alerts",
            target=Table(
                "gold.fraud_alerts", keys=("card_id", "payment_id"), sequence_by=("paid_at",), event_time="paid_at"
            ),
        ),
        Flow(
            name="sent_alerts",
            source=ChangeFeed("gold.fraud_alerts"),
            target=KafkaSink("payment-alerts"),
        ),
    ),
)
