"""A real broker: bronze keeps messages as they are, silver keeps the latest of each key, deletes stay deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from demo import clicks_feed, recompute
from tests import topics
from tests.deployment import Deployment
from tidegate.embedded.broker import Broker
from tidegate.embedded.jars import class_path

pytestmark = [pytest.mark.jvm, pytest.mark.kafka]

PROJECT = Path(__file__).parents[2]
SILVER = ["event_id", "sequence", "kind", "hour", "user_id", "page", "seconds"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker"), class_path=class_path(PROJECT, "broker")) as running:
        yield running


@pytest.fixture
def clicks(
    deployment: Deployment, broker: Broker, spark: Any, monkeypatch: pytest.MonkeyPatch, request: Any
) -> Deployment:
    """A topic of its own for each test: the pipeline declares another name for it."""
    import dataclasses

    import pipelines.clickstream

    topic = f"clicks-{request.node.name.replace('[', '-').replace(']', '')}"[:200]
    declared = pipelines.clickstream.pipeline
    bronze = declared.flow("bronze")
    source = dataclasses.replace(bronze.source, topic=topic, max_offsets_per_trigger=300)
    flows = (dataclasses.replace(bronze, source=source), *declared.flows[1:])
    monkeypatch.setattr(pipelines.clickstream, "pipeline", dataclasses.replace(declared, flows=flows))
    broker.create_topic(topic, clicks_feed.PARTITIONS)
    return deployment.at(broker.bootstrap)


def topic_of(clicks: Deployment) -> str:
    import pipelines.clickstream

    return str(pipelines.clickstream.pipeline.flow("bronze").source.topic)  # type: ignore[union-attr]


def expect_the_answer_of_duckdb(clicks: Deployment) -> None:
    topic = topic_of(clicks)
    answer = recompute.clickstream(recompute.read_topic(clicks.environment.kafka, topic))
    assert recompute.differences(answer, "ids", ["_row_id"], clicks.table("bronze.clicks")) == 0
    assert recompute.differences(answer, "silver", SILVER, clicks.table("silver.clicks"), "NOT _deleted") == 0
    if clicks.layout.quarantine("clickstream", "silver").exists():
        quarantined = clicks.quarantined("silver", "clickstream")
        assert recompute.differences(answer, "quarantined", ["_row_id"], quarantined) == 0
    else:
        assert answer.execute("SELECT count(*) FROM quarantined").fetchall() == [(0,)]
    assert (
        recompute.differences(answer, "gold", ["page", "hour", "views", "users"], clicks.table("gold.page_views")) == 0
    )


@pytest.mark.nightly
def test_two_waves_with_duplicates_disorder_and_deletes_equal_an_independent_answer(clicks: Deployment) -> None:
    topic = topic_of(clicks)
    clicks_feed.produce(clicks.environment.kafka, clicks_feed.wave_one(views=500), topic)
    first = clicks.run("clickstream")
    assert [flow.error for flow in first.flows] == [None, None, None]
    assert len(first.flow("bronze").batches) > 1, "bounded by maxOffsetsPerTrigger"
    clicks_feed.produce(clicks.environment.kafka, clicks_feed.wave_two(views=100, already=500), topic)

    second = clicks.run("clickstream")

    assert [flow.error for flow in second.flows] == [None, None, None]
    assert min(first.flow("silver").total("deduplicated"), second.flow("silver").total("deduplicated")) > 0
    expect_the_answer_of_duckdb(clicks)
    assert [flow.state for flow in clicks.run("clickstream").flows] == ["idle", "idle", "idle"]


@pytest.mark.nightly
def test_a_late_older_row_does_not_bring_a_deleted_key_back(clicks: Deployment) -> None:
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
    for message in (event(1, "view"), event(9, "delete"), event(5, "view")):
        clicks_feed.produce(clicks.environment.kafka, [message], topic)
        clicks.run("clickstream")

    (row,) = clicks.table("silver.clicks").to_pylist()
    assert (row["_deleted"], row["sequence"]) == (True, 9)
    assert clicks.table("gold.page_views").num_rows == 0
    expect_the_answer_of_duckdb(clicks)


def test_bronze_keeps_key_value_headers_and_coordinates_raw(clicks: Deployment) -> None:
    from confluent_kafka import Producer

    topic = topic_of(clicks)
    producer = Producer({"bootstrap.servers": clicks.environment.kafka, "log_level": 3})
    producer.produce(topic, b"\xff\xfe not text", b"k\x00", 2, headers=[("trace", b"\x01"), ("trace", b"\x02")])
    producer.produce(topic, None, b"tombstone", 1)
    assert producer.flush(20) == 0

    clicks.run("clickstream", ["bronze"])

    rows = sorted(clicks.table("bronze.clicks").to_pylist(), key=lambda row: row["_partition"])
    assert [(row["_partition"], row["_offset"], row["key"], row["value"]) for row in rows] == [
        (1, 0, b"tombstone", None),
        (2, 0, b"k\x00", b"\xff\xfe not text"),
    ]
    assert [header["value"] for header in rows[1]["headers"]] == [b"\x01", b"\x02"]


def test_no_consumer_group_is_committed(clicks: Deployment) -> None:
    from confluent_kafka.admin import AdminClient

    clicks_feed.produce(clicks.environment.kafka, clicks_feed.wave_one(views=50), topic_of(clicks))
    clicks.run("clickstream", ["bronze"])

    groups = AdminClient({"bootstrap.servers": clicks.environment.kafka}).list_consumer_groups().result(20).valid
    assert [group.group_id for group in groups if group.group_id.startswith("spark")] == []


@pytest.mark.nightly
def test_a_kill_between_target_and_record_leaves_every_message_once(
    clicks: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    import pipelines.clickstream

    # The killed driver reads the declared topic, so that one is filled and the declaration is as it stands in the file.
    declared = pipelines.clickstream.pipeline
    bronze = declared.flow("bronze")
    source = dataclasses.replace(bronze.source, topic=clicks_feed.TOPIC)
    flows = (dataclasses.replace(bronze, source=source), *declared.flows[1:])
    monkeypatch.setattr(pipelines.clickstream, "pipeline", dataclasses.replace(declared, flows=flows))
    with Broker(clicks.environment.lake.parent / "broker", class_path=class_path(PROJECT, "broker")) as own:
        own.create_topic(clicks_feed.TOPIC, clicks_feed.PARTITIONS)
        clicks = clicks.at(own.bootstrap)
        clicks_feed.produce(own.bootstrap, clicks_feed.wave_one(views=200), clicks_feed.TOPIC)
        clicks.run_and_kill("after:write_target:bronze", "clickstream")

        report = clicks.run("clickstream")

        assert [flow.error for flow in report.flows] == [None, None, None]
        expect_the_answer_of_duckdb(clicks)


@pytest.mark.nightly
def test_a_bronze_bump_starts_behind_what_bronze_holds(clicks: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    import pipelines.clickstream

    topic = topic_of(clicks)
    clicks_feed.produce(clicks.environment.kafka, clicks_feed.wave_one(views=100), topic)
    clicks.run("clickstream")
    declared = pipelines.clickstream.pipeline
    flows = (dataclasses.replace(declared.flow("bronze"), checkpoint_version=2), *declared.flows[1:])
    monkeypatch.setattr(pipelines.clickstream, "pipeline", dataclasses.replace(declared, flows=flows))
    sent = clicks_feed.wave_two(views=50, already=100)
    clicks_feed.produce(clicks.environment.kafka, sent, topic)

    report = clicks.run("clickstream")

    assert report.flow("bronze").total("read") == len(sent)
    expect_the_answer_of_duckdb(clicks)


@pytest.mark.nightly
def test_a_lake_of_before_topics_had_ids_goes_on_and_a_topic_made_anew_comes_beside_the_old_one(
    clicks: Deployment, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    import pipelines.clickstream
    from tidegate.checkpoints import topic as noted
    from tidegate.spark.lake import sinks

    def send(*numbers: int) -> None:
        when = "2026-03-01T10:00:00Z"
        told = [
            {"event_id": f"e{n}", "sequence": 1, "kind": "view", "occurred_at": when, "user_id": "u", "page": "/"}
            for n in numbers
        ]
        # The second of each lacks what it must have, so it goes to quarantine.
        values = [json.dumps(event).encode() for event in told] + [b"{}"]
        messages = [clicks_feed.Message(b"k", value, "view") for value in values]
        clicks_feed.produce(clicks.environment.kafka, messages, topic_of(clicks))

    append = sinks.append
    with monkeypatch.context() as before:
        # As an older Tidegate did: it knew no ids.
        before.setattr(noted, "note", lambda *_: None)
        before.setattr(sinks, "append", lambda rows, path, txn: append(rows.drop("_topic_id"), path, txn))
        send(1)
        assert [flow.error for flow in clicks.run("clickstream").flows] == [None, None, None]
    assert "_topic_id" not in clicks.table("bronze.clicks").column_names
    send(2)
    assert [flow.error for flow in clicks.run("clickstream").flows] == [None, None, None]
    declared = pipelines.clickstream.pipeline
    topics.make_anew(broker, topic_of(clicks), clicks_feed.PARTITIONS)
    send(3)
    error = clicks.run("clickstream").flow("bronze").error
    assert error is not None
    assert (error["kind"], error["exit_code"], error["transient"]) == ("TopicReplacedError", 78, False)
    flows = (dataclasses.replace(declared.flow("bronze"), checkpoint_version=2), *declared.flows[1:])
    monkeypatch.setattr(pipelines.clickstream, "pipeline", dataclasses.replace(declared, flows=flows))

    report = clicks.run("clickstream")

    assert [flow.error for flow in report.flows] == [None, None, None]
    assert (report.flow("bronze").total("written"), report.flow("bronze").total("already_read")) == (2, 0)
    rows = clicks.table("bronze.clicks").to_pylist()
    ids = [row["_row_id"] for row in rows]
    assert len(set(ids)) == len(ids) == 6
    assert len({row["_topic_id"] for row in rows}) == 3, "none, the old one's, the new one's"
    silver = clicks.table("silver.clicks").to_pylist()
    assert sorted(row["event_id"] for row in silver) == ["e1", "e2", "e3"]
    quarantined = clicks.quarantined("silver", "clickstream").to_pylist()
    assert len({row["_row_id"] for row in quarantined}) == len(quarantined) == 3
    assert {row["_row_id"] for row in quarantined} <= set(ids)
    assert [flow.state for flow in clicks.run("clickstream").flows] == ["idle", "idle", "idle"]


@pytest.mark.nightly
def test_a_reingest_of_a_window_reads_the_messages_of_its_days_and_no_others(clicks: Deployment) -> None:
    from confluent_kafka import Producer
    from deltalake import DeltaTable

    topic = topic_of(clicks)
    producer = Producer({"bootstrap.servers": clicks.environment.kafka, "log_level": 3})
    for number in range(1200):
        sent = datetime(2026, 3, 1 + number // 300, 12, second=number % 60, tzinfo=UTC)
        producer.produce(topic, b"{}", partition=number % 3, timestamp=int(sent.timestamp() * 1000))
    # Older than its neighbours: within the range of offsets, and not of the window.
    late = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)
    producer.produce(topic, b"late", partition=0, timestamp=late)
    assert producer.flush(20) == 0
    clicks.run("clickstream", ["bronze"])
    bronze = DeltaTable(str(clicks.layout.table("bronze.clicks")))
    whole = {row["_row_id"]: row for row in clicks.table("bronze.clicks").to_pylist()}
    bronze.delete("_offset % 2 = 0")
    lacking = clicks.table("bronze.clicks").num_rows
    window = {"mode": "reingest", "from_date": "2026-03-02", "to_date": "2026-03-03"}
    request = clicks.request("clickstream", ["bronze"], **window)

    report = clicks.try_run(request).flow("bronze")

    assert (report.error, report.refresh) == (None, 0)
    assert len(report.batches) == 2, "600 messages, at most 300 a batch"
    assert [line.imbalance() for line in report.batches] == [0, 0]
    assert (report.total("read"), report.total("written"), report.total("already_read")) == (600, 300, 300)
    rows = {row["_row_id"]: row for row in clicks.table("bronze.clicks").to_pylist()}
    assert clicks.table("bronze.clicks").num_rows == len(rows) == lacking + 300
    within = {row_id for row_id, row in whole.items() if row["_timestamp"].day in (2, 3)}
    assert within <= rows.keys()
    columns = ("value", "_partition", "_offset", "_timestamp")
    assert [[rows[each][name] for name in columns] for each in within] == [
        [whole[each][name] for name in columns] for each in within
    ]
    assert clicks.try_run(request).flow("bronze").batches == [], "a retry has nothing left to do"
    clicks.run("clickstream", ["bronze"], mode="reingest")
    assert {row["_row_id"] for row in clicks.table("bronze.clicks").to_pylist()} == whole.keys()
    assert clicks.run("clickstream", ["bronze"]).flow("bronze").state == "idle"


def test_an_unknown_topic_needs_a_person_and_is_not_created(
    clicks: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from confluent_kafka.admin import AdminClient

    import pipelines.clickstream

    declared = pipelines.clickstream.pipeline
    bronze = declared.flow("bronze")
    flows = (
        dataclasses.replace(bronze, source=dataclasses.replace(bronze.source, topic="nobody")),
        *declared.flows[1:],
    )
    monkeypatch.setattr(pipelines.clickstream, "pipeline", dataclasses.replace(declared, flows=flows))

    error = clicks.run("clickstream").flow("bronze").error

    assert error is not None
    assert (error["kind"], error["transient"]) == ("SourceError", False)
    assert "nobody" in error["message"]
    assert "nobody" not in AdminClient({"bootstrap.servers": clicks.environment.kafka}).list_topics(timeout=20).topics


@pytest.mark.nightly
def test_avro_values_with_a_registered_schema_flow_like_json_and_a_new_field_is_asked_about(
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
        at = Deployment(dataclasses.replace(clicks.environment, registry=registry.address), clicks.source)

        def send(more: list[dict[str, Any]], value: dict[str, Any]) -> None:
            schema = {"type": "record", "name": "Click", "fields": [*fields, *more]}
            content = io.BytesIO()
            fastavro.schemaless_writer(content, fastavro.parse_schema(schema), value)
            message = clicks_feed.Message(b"k", framed(registry.register(schema), content.getvalue()), "view")
            clicks_feed.produce(at.environment.kafka, [message], topic_of(at))

        send([], event)
        first = at.run("clickstream", ("bronze", "silver"))
        assert [flow.error for flow in first.flows] == [None, None]
        send([{"name": "campaign", "type": ["null", "string"]}], {**event, "event_id": "e2", "campaign": "spring"})
        refused = at.run("clickstream", ("bronze", "silver")).flow("silver")
        assert refused.error is not None
        assert refused.error["changes"] == ("new field campaign (string)",)
        evolution.answer(at.layout, "clickstream", refused.error["drift"], "evolve", "ada")
        registry.down = True
        assert at.run("clickstream", ("bronze", "silver")).flow("silver").error is None, (
            "the schema is kept in the lake"
        )

    silver = {row["event_id"]: row for row in at.table("silver.clicks").to_pylist()}
    assert [(key, row["page"], row["campaign"]) for key, row in sorted(silver.items())] == [
        ("e1", "/a", None),
        ("e2", "/a", "spring"),
    ]
