"""A pipeline of three flows for the tests."""

from __future__ import annotations

from tidegate.spec import ChangeFeed, FileSource, Flow, Gate, KafkaSource, Pipeline, Table

SCHEMA = "id INT NOT NULL, at TIMESTAMP"
FILES = FileSource(path="trips", format="csv", schema=SCHEMA)
TOPIC = KafkaSource(topic="trips", schema=SCHEMA)
FEED = ChangeFeed("bronze.trips")
UPSERTED = Table("silver.trips", keys=("id",), sequence_by=("at",))
RECOMPUTED = Table("gold.trips", keys=("day",))
BRONZE = Flow(name="bronze", source=FILES, target=Table("bronze.trips"))
SILVER = Flow(name="silver", source=FEED, transform="trips:clean", target=UPSERTED, gate=Gate("trips/silver"))
GOLD = Flow(name="gold", source=ChangeFeed("silver.trips"), transform="trips:daily", target=RECOMPUTED)
TRIPS = Pipeline(name="trips", schedule="@daily", flows=(BRONZE, SILVER, GOLD))
