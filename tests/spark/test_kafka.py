"""A real broker: bronze stores raw messages, silver the latest event of each key, and deleted keys stay deleted."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from typing import Any

import pytest

from demo import clicks_feed, recompute
from devstack.broker import Broker
from tests import topics
from tests.deployment import Deployment
from tests.waiting import TIMEOUT_SECONDS
from tests.with_fields import with_fields
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.project import resolution
from tidegate.runs.recover import plan as recovery

pytestmark = [pytest.mark.jvm, pytest.mark.kafka]

SILVER = ["event_id", "sequence", "kind", "occurred_at", "user_id", "page", "seconds"]
PAGE_VIEWS = ["page", "window_start", "views", "users", "longest_stay"]
SESSIONS = ["user_id", "started_at", "ended_at", "pages", "seconds", "bounce"]


@pytest.fixture
def clicks(
    deployment: Deployment, broker: Broker, spark: Any, monkeypatch: pytest.MonkeyPatch, request: Any
) -> Deployment:
    """A deployment with a topic of its own, whose name replaces the declared one."""
    import dataclasses

    import pipelines.clickstream

    topic = f"clicks-{request.node.name.replace('[', '-').replace(']', '')}"[:200]
    declared = pipelines.clickstream.pipeline
    bronze = declared.flow("bronze")
    source = with_fields(bronze.source, topic=topic, max_offsets_per_trigger=300)
    flows = (dataclasses.replace(bronze, source=source), *declared.flows[1:])
    monkeypatch.setattr(pipelines.clickstream, "pipeline", dataclasses.replace(declared, flows=flows))
    broker.create_topic(topic, clicks_feed.PARTITIONS)
    return deployment.at(broker.bootstrap)


def topic_of(clicks: Deployment) -> str:
    import pipelines.clickstream

    return str(pipelines.clickstream.pipeline.flow("bronze").source.topic)  # type: ignore[union-attr]


def expect_the_result_of_duckdb(clicks: Deployment) -> None:
    topic = topic_of(clicks)
    expected = recompute.clickstream(recompute.read_topic(clicks.environment.cluster("default"), topic))
    assert recompute.differences(expected, "ids", ["_row_id"], clicks.table("bronze.clicks")) == 0
    assert recompute.differences(expected, "silver", SILVER, clicks.table("silver.clicks"), "NOT _deleted") == 0
    if FlowPlace(clicks.layout, "clickstream", "silver").quarantine.exists():
        quarantined = clicks.quarantined("silver", "clickstream")
        assert recompute.differences(expected, "quarantined", ["_row_id"], quarantined) == 0
    else:
        assert expected.execute("SELECT count(*) FROM quarantined").fetchall() == [(0,)]
    assert recompute.differences(expected, "gold", PAGE_VIEWS, clicks.table("gold.page_views")) == 0
    assert recompute.differences(expected, "sessions", SESSIONS, clicks.table("gold.sessions")) == 0


@pytest.mark.nightly
def test_an_older_row_that_arrives_late_does_not_restore_a_deleted_key(clicks: Deployment) -> None:
    def event(sequence: int, kind: str) -> clicks_feed.Message:
        value = {
            "event_id": "e1",
            "sequence": sequence,
            "kind": kind,
            "occurred_at": "2026-03-01T10:00:00Z",
            "user_id": "u1",
            "page": "/",
            "duration_ms": 1000,
        }
        return clicks_feed.Message(b"u1", json.dumps(value).encode(), kind)

    topic = topic_of(clicks)
    for message, flows in ((event(1, "view"), ()), (event(9, "delete"), ("bronze", "silver")), (event(5, "view"), ())):
        clicks_feed.produce(clicks.environment.cluster("default"), [message], topic)
        clicks.run("clickstream", flows)

    (row,) = clicks.table("silver.clicks").to_pylist()
    assert (row["_deleted"], row["sequence"]) == (True, 9)
    assert clicks.table("gold.page_views").num_rows == 0
    expect_the_result_of_duckdb(clicks)


@pytest.mark.nightly
def test_a_deleted_bronze_is_recovered_from_the_messages_that_the_topic_still_has(
    clicks: Deployment, broker: Broker, spark: Any
) -> None:
    topic = topic_of(clicks)
    clicks_feed.produce(clicks.environment.cluster("default"), clicks_feed.wave_one(views=400), topic)
    clicks.run("clickstream")
    topics.delete_before(broker, topic, 7)
    shutil.rmtree(clicks.layout.table("bronze.clicks"))

    made = recovery.make(
        clicks.environment, {"clickstream": resolution.load("clickstream", clicks.environment.project)}
    )
    ((_, loss),) = made.losses
    assert (loss.acceptance, loss.what) == (
        "bronze:lost=7",
        f"at most 7 messages of the offsets 0:0-6, which topic {topic} no longer has",
    )
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    refused = clicks.run("clickstream", mode="recover").flow("bronze").error
    assert refused is not None and refused.kind == "LossNotAcceptedError"
    report = clicks.run("clickstream", mode="recover", accept=("bronze:lost=7",))

    assert [flow.error for flow in report.flows] == [None] * 4
    expected = recompute.clickstream(recompute.read_topic(clicks.environment.cluster("default"), topic))
    assert recompute.differences(expected, "ids", ["_row_id"], clicks.table("bronze.clicks")) == 0
    assert recompute.differences(expected, "silver", SILVER, clicks.table("silver.clicks"), "NOT _deleted") == 0
    assert recompute.differences(expected, "gold", PAGE_VIEWS, clicks.table("gold.page_views")) == 0
    assert [flow.state for flow in clicks.run("clickstream").flows] == ["idle"] * 4


def test_bronze_stores_key_value_headers_and_coordinates_raw_and_commits_no_consumer_group(clicks: Deployment) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient

    topic = topic_of(clicks)
    producer = Producer({"bootstrap.servers": clicks.environment.kafka, "log_level": 3})
    producer.produce(topic, b"\xff\xfe not text", b"k\x00", 2, headers=[("trace", b"\x01"), ("trace", b"\x02")])
    producer.produce(topic, None, b"tombstone", 1)
    assert producer.flush(TIMEOUT_SECONDS) == 0

    clicks.run("clickstream", ["bronze"])

    rows = sorted(clicks.table("bronze.clicks").to_pylist(), key=lambda row: row["_partition"])
    assert [(row["_partition"], row["_offset"], row["key"], row["value"]) for row in rows] == [
        (1, 0, b"tombstone", None),
        (2, 0, b"k\x00", b"\xff\xfe not text"),
    ]
    assert [header["value"] for header in rows[1]["headers"]] == [b"\x01", b"\x02"]
    groups = (
        AdminClient({"bootstrap.servers": clicks.environment.kafka})
        .list_consumer_groups(request_timeout=TIMEOUT_SECONDS)
        .result(TIMEOUT_SECONDS)
        .valid
    )
    assert [group.group_id for group in groups if group.group_id.startswith("spark")] == []


@pytest.mark.nightly
def test_after_an_abort_between_target_and_ledger_every_message_is_stored_once(clicks: Deployment) -> None:
    clicks_feed.produce(clicks.environment.cluster("default"), clicks_feed.wave_one(views=400), topic_of(clicks))
    clicks.run_and_abort("after:write_target:bronze", "clickstream")

    report = clicks.run("clickstream")

    assert [flow.error for flow in report.flows] == [None] * 4
    assert len(report.flow("bronze").batches) > 1, "bounded by maxOffsetsPerTrigger"
    assert report.flow("silver").total("deduplicated") > 0
    expect_the_result_of_duckdb(clicks)


@pytest.mark.nightly
def test_a_recreated_topic_is_added_to_the_lake_by_a_new_version(
    clicks: Deployment, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    import pipelines.clickstream

    def send(*numbers: int) -> None:
        when = "2026-03-01T10:00:00Z"
        events = [
            {"event_id": f"e{n}", "sequence": 1, "kind": "view", "occurred_at": when, "user_id": "u", "page": "/"}
            for n in numbers
        ]
        # The last record lacks required fields, so it is quarantined.
        values = [json.dumps(event).encode() for event in events] + [b"{}"]
        messages = [clicks_feed.Message(b"k", value, "view") for value in values]
        clicks_feed.produce(clicks.environment.cluster("default"), messages, topic_of(clicks))

    send(1)
    assert [flow.error for flow in clicks.run("clickstream").flows] == [None] * 4
    send(2)
    assert [flow.error for flow in clicks.run("clickstream").flows] == [None] * 4
    declared = pipelines.clickstream.pipeline
    topics.recreate(broker, topic_of(clicks), clicks_feed.PARTITIONS)
    send(3)
    error = clicks.run("clickstream").flow("bronze").error
    assert error is not None
    assert (error.kind, error.exit_code, error.transient) == ("TopicReplacedError", 78, False)
    flows = (dataclasses.replace(declared.flow("bronze"), checkpoint_version=2), *declared.flows[1:])
    monkeypatch.setattr(pipelines.clickstream, "pipeline", dataclasses.replace(declared, flows=flows))

    report = clicks.run("clickstream")

    assert [flow.error for flow in report.flows] == [None] * 4
    assert (report.flow("bronze").total("written"), report.flow("bronze").total("already_read")) == (2, 0)
    rows = clicks.table("bronze.clicks").to_pylist()
    ids = [row["_row_id"] for row in rows]
    assert len(set(ids)) == len(ids) == 6
    assert len({row["_topic_id"] for row in rows}) == 2, "the old id and the new one"
    silver = clicks.table("silver.clicks").to_pylist()
    assert sorted(row["event_id"] for row in silver) == ["e1", "e2", "e3"]
    quarantined = clicks.quarantined("silver", "clickstream").to_pylist()
    assert len({row["_row_id"] for row in quarantined}) == len(quarantined) == 3
    assert {row["_row_id"] for row in quarantined} <= set(ids)
    assert [flow.state for flow in clicks.run("clickstream").flows] == ["idle"] * 4


@pytest.mark.nightly
def test_a_reingest_of_a_window_reads_only_the_messages_of_its_days(clicks: Deployment) -> None:
    from confluent_kafka import Producer
    from deltalake import DeltaTable

    topic = topic_of(clicks)
    producer = Producer({"bootstrap.servers": clicks.environment.kafka, "log_level": 3})
    for number in range(1200):
        sent = datetime(2026, 3, 1 + number // 300, 12, second=number % 60, tzinfo=UTC)
        producer.produce(topic, b"{}", partition=number % 3, timestamp=int(sent.timestamp() * 1000))
    # A message within the offsets of the window, but with an older timestamp.
    late = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)
    producer.produce(topic, b"late", partition=0, timestamp=late)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    clicks.run("clickstream", ["bronze"])
    bronze = DeltaTable(str(clicks.layout.table("bronze.clicks")))
    whole = {row["_row_id"]: row for row in clicks.table("bronze.clicks").to_pylist()}
    bronze.delete("_offset % 2 = 0")
    rows_before = clicks.table("bronze.clicks").num_rows
    window = {"mode": "reingest", "from_date": "2026-03-02", "to_date": "2026-03-03"}
    request = clicks.request("clickstream", ["bronze"], **window)

    report = clicks.try_run(request).flow("bronze")

    assert (report.error, report.refresh) == (None, 0)
    assert len(report.batches) == 2, "600 messages, at most 300 a batch"
    assert [line.imbalance() for line in report.batches] == [0, 0]
    assert (report.total("read"), report.total("written"), report.total("already_read")) == (600, 300, 300)
    rows = {row["_row_id"]: row for row in clicks.table("bronze.clicks").to_pylist()}
    assert clicks.table("bronze.clicks").num_rows == len(rows) == rows_before + 300
    ids_in_window = {row_id for row_id, row in whole.items() if row["_timestamp"].day in (2, 3)}
    assert ids_in_window <= rows.keys()
    columns = ("value", "_partition", "_offset", "_timestamp")
    assert [[rows[each][name] for name in columns] for each in ids_in_window] == [
        [whole[each][name] for name in columns] for each in ids_in_window
    ]
    assert clicks.try_run(request).flow("bronze").batches == [], "a retry has nothing to do"
    clicks.run("clickstream", ["bronze"], mode="reingest")
    assert {row["_row_id"] for row in clicks.table("bronze.clicks").to_pylist()} == whole.keys()
    assert clicks.run("clickstream", ["bronze"]).flow("bronze").state == "idle"


def test_a_topic_that_does_not_exist_yet_is_no_failure_and_is_not_created(
    clicks: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from confluent_kafka.admin import AdminClient

    import pipelines.clickstream

    declared = pipelines.clickstream.pipeline
    bronze = declared.flow("bronze")
    flows = (
        dataclasses.replace(bronze, source=with_fields(bronze.source, topic="unknown")),
        *declared.flows[1:],
    )
    monkeypatch.setattr(pipelines.clickstream, "pipeline", dataclasses.replace(declared, flows=flows))

    bronze_report = clicks.run("clickstream").flow("bronze")

    assert (bronze_report.state, bronze_report.error) == ("idle", None)
    assert "not delivered yet: topic unknown of Kafka does not exist" in bronze_report.notes
    assert (
        "unknown"
        not in AdminClient({"bootstrap.servers": clicks.environment.kafka}).list_topics(timeout=TIMEOUT_SECONDS).topics
    )


@pytest.mark.nightly
def test_avro_values_with_a_registered_schema_are_parsed_and_a_new_field_needs_an_answer(
    clicks: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses
    import io

    import fastavro

    import pipelines.clickstream
    from tests.schema_registry import SchemaRegistry, framed
    from tidegate.ops import evolution
    from tidegate.spec import Contract, KafkaSource

    pipeline = pipelines.clickstream.pipeline
    bronze = pipeline.flow("bronze")
    assert isinstance(bronze.source, KafkaSource)
    source = dataclasses.replace(bronze.source, format="avro", contract=Contract(mode="freeze"))
    flows = (dataclasses.replace(bronze, source=source), *pipeline.flows[1:])
    monkeypatch.setattr(pipelines.clickstream, "pipeline", dataclasses.replace(pipeline, flows=flows))
    fields: list[dict[str, Any]] = [
        {"name": "event_id", "type": "string"},
        {"name": "sequence", "type": "long"},
        {"name": "kind", "type": "string"},
        {"name": "occurred_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        *[{"name": name, "type": ["null", "string"], "default": None} for name in ("user_id", "page", "agent")],
        {"name": "duration_ms", "type": ["null", "int"], "default": None},
    ]
    event = {
        "event_id": "e1",
        "sequence": 1,
        "kind": "view",
        "occurred_at": 1_767_607_200_000,
        "page": "/a",
        "user_id": "u1",
    }
    with SchemaRegistry() as registry:
        # The cluster has a registry of its own; nothing listens at the address of the one for all.
        environment = dataclasses.replace(
            clicks.environment,
            registry_settings=(("registry.url", "http://127.0.0.1:9"),),
            kafka_settings=(*clicks.environment.kafka_settings, ("kafka.default.registry", registry.address)),
        )
        with_registry = dataclasses.replace(clicks, environment=environment)

        def send(more: list[dict[str, Any]], value: dict[str, Any]) -> None:
            schema = {"type": "record", "name": "Click", "fields": [*fields, *more]}
            content = io.BytesIO()
            fastavro.schemaless_writer(content, fastavro.parse_schema(schema), value)
            message = clicks_feed.Message(b"k", framed(registry.register(schema), content.getvalue()), "view")
            clicks_feed.produce(with_registry.environment.cluster("default"), [message], topic_of(with_registry))

        send([], event)
        first = with_registry.run("clickstream", ("bronze", "silver"))
        assert [flow.error for flow in first.flows] == [None, None]
        send([{"name": "campaign", "type": ["null", "string"]}], {**event, "event_id": "e2", "campaign": "spring"})
        refused = with_registry.run("clickstream", ("bronze", "silver")).flow("silver")
        assert refused.error is not None and refused.error.schema_change_id is not None
        assert refused.error.attributes["changes"] == ["new field campaign (string)"]
        evolution.answer(
            PipelinePlace(with_registry.layout, "clickstream"), refused.error.schema_change_id, "evolve", "ada"
        )
        registry.down = True
        assert with_registry.run("clickstream", ("bronze", "silver")).flow("silver").error is None, (
            "the schema is cached in the lake"
        )

    silver = {row["event_id"]: row for row in with_registry.table("silver.clicks").to_pylist()}
    assert [(key, row["page"], row["campaign"]) for key, row in sorted(silver.items())] == [
        ("e1", "/a", None),
        ("e2", "/a", "spring"),
    ]
