"""Checkpoint identity, and the check of declarations against their checkpoint before Spark starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests import places
from tests.memory import MemoryLayout
from tests.resolved import resolved, resolved_flow
from tidegate.advice import Edit
from tidegate.checkpoints import checkpoint
from tidegate.checkpoints.checkpoint import SCHEMA, SIDECAR
from tidegate.checkpoints.refusal import REFUSAL
from tidegate.errors import CheckpointIncompatibleError, DamagedFileError, SchemaChangedError, StateSchemaChangedError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, Place
from tidegate.spec import ChangeFeed, FileSource, Flow, Gate, KafkaSource, Pipeline, State, Table, Watermark

SILVER = Flow(
    name="silver",
    source=ChangeFeed("bronze.trips"),
    transform="trips:clean",
    target=Table("silver.trips", keys=("id",), sequence_by=("at",)),
)


@pytest.fixture
def layout() -> MemoryLayout:
    return MemoryLayout()


def of(flow: Flow) -> Pipeline:
    return Pipeline(name="trips", flows=(flow,))


def write_sidecar(layout: Layout, flow: Flow) -> None:
    checkpoint.write_sidecar(places.of(layout, of(flow), flow), flow)


def check(layout: Layout, flow: Flow) -> None:
    checkpoint.check_compatible(layout, resolved_flow(flow, of(flow)))


def test_path_and_transaction_id_change_with_version_and_refresh(layout: Layout) -> None:
    place = Place(layout, "trips", "silver", 2, 3)
    assert place.app_id == "trips/silver/v2/3"
    assert place.checkpoint == Place(layout, "trips", "silver", 2, 3).checkpoint
    others = {replace(place, version=1).app_id, replace(place, refresh=4).app_id, replace(place, flow="gold").app_id}
    assert len(others | {place.app_id}) == 4


def test_state_of_the_first_format_is_refused_where_the_lake_is_in_a_bucket(layout: Layout, tmp_path: Path) -> None:
    flow = replace(SILVER, target=Table("silver.trips"), state=State())
    local = Layout.local(tmp_path / "lake", tmp_path / "landing")
    for each, version, refused in ((layout, "v1", True), (layout, "v2", False), (local, "v1", False)):
        write_sidecar(each, flow)
        commit = Place(each, "trips", "silver", 1, 0).checkpoint / "commits" / "0"
        commit.put(f"{version}\n{{}}".encode())
        if not refused:
            check(each, flow)
            continue
        with pytest.raises(StateSchemaChangedError, match=r"format 1.*checkpoint_version=2"):
            check(each, flow)


def test_the_current_checkpoint_is_the_highest_refresh_of_the_declared_version(layout: Layout) -> None:
    def current(flow: Flow) -> tuple[int, int]:
        place = places.current(layout, of(flow), flow)
        return place.version, place.refresh

    assert current(SILVER) == (1, 0)
    for refresh in (0, 2, 10):
        Place(layout, "trips", "silver", 1, refresh).checkpoint.make_folder()
    (FlowPlace(layout, "trips", "silver").checkpoints / "v1" / "draft").make_folder()
    assert current(SILVER) == (1, 10)
    assert current(replace(SILVER, checkpoint_version=2)) == (2, 0)


def test_a_flow_that_never_ran_is_compatible(layout: Layout) -> None:
    check(layout, SILVER)
    assert checkpoint.versions(FlowPlace(layout, "trips", "silver")) == {}
    assert not layout.root.exists()


def test_a_source_that_names_another_cluster_needs_a_new_version(layout: Layout) -> None:
    def of_cluster(name: str = "default") -> Flow:
        return Flow(
            name="silver", source=KafkaSource(topic="t", schema="id INT", cluster=name), target=Table("bronze.t")
        )

    write_sidecar(layout, of_cluster())
    check(layout, of_cluster("default"))
    with pytest.raises(CheckpointIncompatibleError, match="checkpoint_version") as raised:
        check(layout, of_cluster("events"))
    assert "'cluster': 'events'" in raised.value.message
    check(layout, replace(of_cluster("events"), checkpoint_version=2))


def test_an_unchanged_declaration_is_compatible_and_the_sidecar_is_written_once(layout: Layout) -> None:
    write_sidecar(layout, SILVER)
    path = SIDECAR.path(Place(layout, "trips", "silver", 1, 0))
    before = path.read().data
    write_sidecar(layout, replace(SILVER, transform="trips:other"))
    assert path.read().data == before
    check(layout, SILVER)
    assert json.loads(before)["remembered"] == SILVER.remembered()
    assert [entry.name for entry in path.parent.list()] == [path.name]


def test_fields_that_are_not_in_the_sidecar_may_change(layout: Layout) -> None:
    write_sidecar(layout, SILVER)
    check(layout, replace(SILVER, gate=Gate("trips/silver")))
    check(layout, replace(SILVER, source=ChangeFeed("bronze.trips", max_files_per_trigger=1)))


def test_the_delay_of_a_watermark_can_grow_but_a_shorter_one_needs_a_new_version(layout: Layout) -> None:
    def timed(delay: str, version: int = 1) -> Flow:
        target = Table("silver.trips", event_time="at")
        return replace(SILVER, target=target, watermark=Watermark(delay=delay), checkpoint_version=version)

    for delay in ("10 minutes", "1 hour", "1 hour"):
        check(layout, timed(delay))
        write_sidecar(layout, timed(delay))

    with pytest.raises(
        CheckpointIncompatibleError, match=r"which can only grow.*'1 hour' -> '10 minutes'.*checkpoint_version=2"
    ):
        check(layout, timed("10 minutes"))
    check(layout, timed("60 minutes"))
    check(layout, timed("10 minutes", version=2))


def test_the_error_for_an_incompatible_change_names_every_field_and_the_fix(layout: Layout) -> None:
    write_sidecar(layout, SILVER)
    changed = replace(SILVER, transform="trips:other", target=Table("silver.trips", keys=("key",), sequence_by=("at",)))
    with pytest.raises(CheckpointIncompatibleError, match="checkpoint_version=2") as raised:
        check(layout, changed)
    assert raised.value.changed == {"keys": (["id"], ["key"]), "transform": ("trips:clean", "trips:other")}
    check(layout, replace(changed, checkpoint_version=2))


def test_a_table_without_keys_is_derived_again_in_its_next_version(layout: Layout) -> None:
    appended = replace(SILVER, target=Table("silver.trips"))
    write_sidecar(layout, appended)
    with pytest.raises(CheckpointIncompatibleError) as raised:
        check(layout, replace(appended, transform="trips:other"))
    assert raised.value.advice is not None
    _revert, *again = raised.value.advice.parts()
    assert [edit.field for edit in again if isinstance(edit, Edit)] == ["checkpoint_version"]


def test_a_version_below_the_highest_existing_one_is_refused(layout: Layout) -> None:
    for version in (1, 3):
        write_sidecar(layout, replace(SILVER, checkpoint_version=version))
    with pytest.raises(CheckpointIncompatibleError) as raised:
        check(layout, replace(SILVER, checkpoint_version=2))
    assert raised.value.changed == {"checkpoint_version": (3, 2)}


def test_versions_are_ordered_numerically(layout: Layout) -> None:
    for version in (10, 9, 1):
        write_sidecar(layout, replace(SILVER, checkpoint_version=version))
    REFUSAL.path(Place(layout, "trips", "silver", 9, 0)).put(b"{}")
    assert list(checkpoint.versions(FlowPlace(layout, "trips", "silver"))) == [1, 9, 10]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"fingerprint": 5, "remembered": {}}', '{"fingerprint": "x", "remembered": []}']
)
def test_a_damaged_sidecar_is_an_error_and_not_treated_as_missing(layout: Layout, content: str) -> None:
    write_sidecar(layout, SILVER)
    path = SIDECAR.path(Place(layout, "trips", "silver", 1, 0))
    path.put(content.encode())
    with pytest.raises(DamagedFileError, match="backup") as raised:
        check(layout, SILVER)
    assert raised.value.path == str(path)


def landing(schema: str, version: int = 1) -> Pipeline:
    """Files into bronze, parsed in silver, counted in gold."""
    bronze = Flow(
        name="bronze", source=FileSource(path="trips", format="csv", schema=schema), target=Table("bronze.trips")
    )
    gold = Flow(
        name="gold",
        source=ChangeFeed("silver.trips"),
        transform="trips:daily",
        target=Table("gold.trips", keys=("day",)),
    )
    return Pipeline(name="trips", flows=(bronze, replace(SILVER, checkpoint_version=version), gold))


def begin(layout: Layout, pipeline: Pipeline) -> None:
    for flow in pipeline.flows:
        checkpoint.write_sidecar(places.of(layout, pipeline, flow), flow)
        checkpoint.write_schema(layout, resolved_flow(flow, pipeline))


def check_all(layout: Layout, pipeline: Pipeline) -> None:
    for flow in pipeline.flows:
        checkpoint.check_compatible(layout, resolved_flow(flow, pipeline))


@pytest.mark.parametrize("schema", ["id INT, at DATE, fare DOUBLE, note STRING", "at DATE, id int, fare DOUBLE"])
def test_an_added_nullable_field_or_a_removed_not_null_keeps_the_checkpoint(layout: Layout, schema: str) -> None:
    begin(layout, landing("id INT NOT NULL, at DATE, fare DOUBLE"))

    check_all(layout, landing(schema))


@pytest.mark.parametrize(
    ("schema", "change"),
    [
        ("id INT, at DATE", "fare is missing"),
        ("id INT, at DATE, fare STRING", "fare has another type (double -> string)"),
        ("id BIGINT, at DATE, fare DOUBLE", "id is widened (int -> bigint)"),
        ("id INT, at DATE, fares DOUBLE", "fare is missing and fares is new: renamed?"),
        ("id INT, at DATE, Fare DOUBLE", "Fare differs from fare only in case"),
        ("id INT, at DATE, fare DOUBLE, note STRING NOT NULL", "note is narrowed"),
    ],
)
def test_the_error_for_a_breaking_schema_change_names_the_new_version_the_steps_and_the_readers(
    layout: Layout, schema: str, change: str
) -> None:
    begin(layout, landing("id INT, at DATE, fare DOUBLE"))

    with pytest.raises(SchemaChangedError) as refused:
        check_all(layout, landing(schema))

    assert refused.value.breaks == ("trips/gold",)
    for part in (
        change,
        "checkpoint_version=2",
        "pipelines/trips.py",
        "clean in spark_jobs/trips.py",
        "`tidegate run trips --flow silver`",
    ):
        assert part in refused.value.message
    assert "trips/gold" in refused.value.message
    check_all(layout, landing(schema, version=2))
    version, changes = checkpoint.schema_changes(layout, resolved(landing(schema, version=2)).flow("silver"))
    assert (version, [change.keeps_checkpoint for change in changes]) == (1, [False])


def test_an_unreadable_schema_file_is_a_corrupt_checkpoint(layout: Layout) -> None:
    pipeline = landing("id INT")
    begin(layout, pipeline)
    SCHEMA.path(Place(layout, "trips", "silver", 1, 0)).put(b"{}")

    with pytest.raises(DamagedFileError, match=r"schema\.json is damaged.* remove it"):
        check_all(layout, pipeline)


@pytest.mark.parametrize(
    "app_id", ["trips/silver/v2/3/window", "trips/silver/undo", "trips/gold/v2/3", "trips/silver/v2/x"]
)
def test_only_the_transaction_id_of_a_stream_of_the_flow_names_a_checkpoint(layout: Layout, app_id: str) -> None:
    place = Place(layout, "trips", "silver", 2, 3)
    assert place.of_stream(place.app_id) == place
    assert place.of_stream(app_id) is None
