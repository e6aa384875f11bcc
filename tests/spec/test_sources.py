"""Sources have default globs, and an identity that the sidecar stores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.spec.trips import BRONZE, FILES, SCHEMA, SILVER, TOPIC
from tidegate.errors import FieldError
from tidegate.ops.evolution import declared_fingerprint
from tidegate.project.fingerprints import fingerprint
from tidegate.spec import ChangeFeed, FileSource, Flow, SnapshotFeed, Statistic, Table, TimeWindows


def test_each_format_has_a_default_glob() -> None:
    assert FILES.glob == "*.{csv,csv.gz,csv.bz2}"
    assert "jsonl.gz" in FileSource(path="x", format="json", schema=SCHEMA).glob
    assert replace(FILES, glob="daily-*.csv").glob == "daily-*.csv"


@pytest.mark.parametrize(
    ("changed", "in_identity"),
    [
        (replace(FILES, path="other"), True),
        (replace(FILES, format="json"), True),
        (replace(FILES, glob="*.csv"), True),
        (replace(FILES, schema="id INT, more STRING"), False),
        (replace(FILES, max_files_per_trigger=1), False),
        (TOPIC, True),
        (replace(TOPIC, topic="other"), True),
        (replace(TOPIC, topic=("other", "more")), True),
    ],
)
def test_the_fingerprint_of_a_flow_depends_on_its_sources_identity_only(changed: Any, in_identity: bool) -> None:
    same = fingerprint(replace(BRONZE, source=changed).remembered()) == fingerprint(BRONZE.remembered())
    assert same is not in_identity


def test_names_may_be_added_to_a_topic_within_a_version() -> None:
    assert isinstance(TOPIC.topic, str)
    several = replace(TOPIC, topic=(TOPIC.topic, "more"))
    assert several.identity() == TOPIC.identity() == replace(TOPIC, topic=(TOPIC.topic,)).identity()
    assert (several.topics, several.prefix("more"), TOPIC.prefix(TOPIC.topic)) == ((TOPIC.topic, "more"), "more/", "")
    assert several.named == f"topics {TOPIC.topic!r}, 'more', cluster default of Kafka"
    assert several.summary() == f"topics {TOPIC.topic}, more" and TOPIC.summary() == f"topic {TOPIC.topic}"


def test_a_flow_that_reads_snapshots_follows_them_with_or_without_a_transform() -> None:
    plain = Flow(name="silver", source=SnapshotFeed("bronze.trips"), target=Table("silver.trips", keys=("id",)))

    for flow in (plain, replace(plain, transform="trips:clean")):
        assert flow.kind.name == "snapshots" and not flow.kind.takes_batches
    assert SILVER.kind.takes_batches and SILVER.kind.name == "rows"
    changes = replace(plain, source=ChangeFeed("bronze.trips"), transform="trips:clean")
    assert fingerprint(plain.remembered()) != fingerprint(changes.remembered())


@pytest.mark.parametrize(
    "target",
    [
        Table("silver.trips"),
        Table("silver.trips", keys=("id",), sequence_by=("at",)),
        Table("silver.trips", keys=("id",), sequence_by=("at",), history="scd2"),
        Table("silver.trips", keys=("id", "leg"), replace_by=("id",)),
        Table("silver.trips", keys=("window_start",), windows=TimeWindows(time="at", length="1 hour")),
    ],
)
def test_a_table_that_follows_snapshots_has_keys_alone(target: Table) -> None:
    with pytest.raises(FieldError, match="a table with keys alone for snapshots"):
        Flow(name="silver", source=SnapshotFeed("bronze.trips"), target=target, transform="trips:clean")


def test_snapshots_have_a_history_that_may_begin_at_a_column_of_theirs() -> None:
    kept = Table("silver.trips", keys=("id",), sequence_by=("snapshot_at",), history="scd2")
    flow = Flow(name="silver", source=SnapshotFeed("bronze.trips"), target=kept)

    assert (flow.kind.name, flow.kind.derives_keys, kept.scope) == ("snapshot_histories", True, ("id",))
    begun = replace(flow, source=SnapshotFeed("bronze.trips", valid_from="changed_at"))
    assert fingerprint(begun.remembered()) != fingerprint(flow.remembered())
    with pytest.raises(FieldError, match=r"a target with history, whose versions begin there"):
        replace(begun, target=Table("silver.trips", keys=("id",)))
    with pytest.raises(FieldError, match="one column's name"):
        SnapshotFeed("bronze.trips", valid_from="changed at")


def test_a_snapshot_has_no_bounds_is_no_part_of_a_join_and_is_not_dropped_by_a_statistic() -> None:
    feed, target = SnapshotFeed("bronze.trips"), Table("silver.trips", keys=("id",))
    with pytest.raises(FieldError, match="a snapshot is compared as a whole"):
        SnapshotFeed("bronze.trips", max_files_per_trigger=1)
    with pytest.raises(FieldError, match="a tuple of two ChangeFeed or more"):
        Flow(name="silver", sources=(feed, ChangeFeed("silver.x", on={"id": "id"})), target=target)
    dropping = Statistic("rows", "count(*)", rule="value > 5", otherwise="drop")
    with pytest.raises(FieldError, match="a newer snapshot takes the place of a held one"):
        Flow(name="silver", source=feed, target=target, statistics=(dropping,))


@pytest.mark.parametrize(
    "start",
    [
        "first",
        "",
        "2026-11-01",
        "2026-11-01T00:00:00",
        "2026-13-01T00:00:00Z",
        "0:1 0:2",
        "0:-1",
        "0:1,1:2",
        "orders",
        {0: 1},
        None,
    ],
)
def test_a_start_that_names_no_position_in_a_topic_is_refused(start: Any) -> None:
    with pytest.raises(FieldError, match=r"start.*earliest, latest, a time with its zone"):
        replace(TOPIC, start=start)


def test_a_start_is_a_word_a_time_or_offsets_and_no_part_of_the_identity() -> None:
    assert replace(TOPIC, start="0:15 1:3").start_offsets == {0: 15, 1: 3}
    at = replace(TOPIC, start="2026-11-01T01:00:00+01:00").start_time
    assert at is not None and at.isoformat() == "2026-11-01T01:00:00+01:00"
    for word in ("earliest", "latest"):
        plain = replace(TOPIC, start=word)
        assert (plain.start_offsets, plain.start_time) == ({}, None)
        assert plain.identity() == TOPIC.identity()


@pytest.mark.parametrize(
    "metadata",
    [
        {"id": "value"},
        {"id": "key."},
        {"id": "key.a b"},
        {"id": "header"},
        {"id": "header.it's"},
        {"id": 1},
        {"unknown": "key"},
        ["id"],
        None,
    ],
)
def test_metadata_that_names_no_part_of_a_message_or_no_column_is_refused(metadata: Any) -> None:
    with pytest.raises(FieldError) as refused:
        replace(TOPIC, schema="id INT", metadata=metadata)
    assert refused.value.field == "metadata"


def test_metadata_names_parts_of_messages_and_is_no_part_of_the_identity() -> None:
    metadata = {"id": "key.payload.id", "a": "header.trace id", "b": "partition", "c": "topic"}
    source = replace(TOPIC, schema="id INT, a STRING, b INT, c STRING", metadata=metadata)
    assert source.identity() == TOPIC.identity()
    assert isinstance(hash(source), int)
    assert declared_fingerprint(source) != declared_fingerprint(replace(source, metadata={}))
