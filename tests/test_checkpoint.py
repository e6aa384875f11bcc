"""A checkpoint belongs to one query, and a declaration that it cannot follow is refused before Spark starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate import checkpoint
from tidegate.checkpoint import CheckpointRef
from tidegate.errors import CheckpointCorruptError, CheckpointIncompatibleError
from tidegate.layout import Layout
from tidegate.spec import ChangeFeed, Flow, Gate, Pipeline, Table

SILVER = Flow(
    name="silver",
    source=ChangeFeed("bronze.trips"),
    transform="trips:clean",
    target=Table("silver.trips", keys=("id",), sequence_by=("at",)),
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lake", tmp_path / "landing")


def of(flow: Flow) -> Pipeline:
    return Pipeline(name="trips", flows=(flow,))


def remember(layout: Layout, flow: Flow) -> None:
    checkpoint.write_sidecar(layout, of(flow), flow)


def check(layout: Layout, flow: Flow) -> None:
    checkpoint.check_compatible(layout, of(flow), flow)


def test_path_and_transaction_id_change_with_version_and_refresh(layout: Layout) -> None:
    ref = CheckpointRef(dag_id="trips", flow="silver", version=2, refresh=3)
    assert ref.app_id == "trips/silver/v2/3"
    assert ref.path(layout) == layout.checkpoint("trips", "silver", 2, 3)
    others = {replace(ref, version=1).app_id, replace(ref, refresh=4).app_id, replace(ref, flow="gold").app_id}
    assert len(others | {ref.app_id}) == 4


def test_the_current_checkpoint_is_the_highest_refresh_of_the_declared_version(layout: Layout) -> None:
    def current(flow: Flow) -> tuple[int, int]:
        ref = checkpoint.current(layout, of(flow), flow)
        return ref.version, ref.refresh

    assert current(SILVER) == (1, 0)
    for refresh in (0, 2, 10):
        layout.checkpoint("trips", "silver", 1, refresh).mkdir(parents=True)
    (layout.checkpoints("trips", "silver") / "v1" / "draft").mkdir()
    assert current(SILVER) == (1, 10)
    assert current(replace(SILVER, checkpoint_version=2)) == (2, 0)


def test_a_flow_that_never_ran_fits(layout: Layout) -> None:
    check(layout, SILVER)
    assert checkpoint.versions(layout, "trips", "silver") == {}
    assert not layout.lake.exists()


def test_the_same_declaration_fits_and_the_sidecar_is_written_once(layout: Layout) -> None:
    remember(layout, SILVER)
    path = layout.sidecar("trips", "silver", 1)
    before = path.read_text()
    remember(layout, replace(SILVER, transform="trips:other"))
    assert path.read_text() == before
    check(layout, SILVER)
    assert json.loads(before)["remembered"] == SILVER.remembered()
    assert list(path.parent.iterdir()) == [path], "no draft is left"


def test_what_a_checkpoint_does_not_remember_may_change(layout: Layout) -> None:
    remember(layout, SILVER)
    check(layout, replace(SILVER, gate=Gate("trips/silver")))
    check(layout, replace(SILVER, source=ChangeFeed("bronze.trips", max_files_per_trigger=1)))


def test_an_incompatible_change_names_every_field_and_the_fix(layout: Layout) -> None:
    remember(layout, SILVER)
    changed = replace(SILVER, transform="trips:other", target=Table("silver.trips", keys=("key",), sequence_by=("at",)))
    with pytest.raises(CheckpointIncompatibleError, match="checkpoint_version=2") as raised:
        check(layout, changed)
    assert raised.value.changed == {"keys": (["id"], ["key"]), "transform": ("trips:clean", "trips:other")}
    check(layout, replace(changed, checkpoint_version=2))


def test_a_version_below_the_one_in_use_is_refused(layout: Layout) -> None:
    remember(layout, replace(SILVER, checkpoint_version=3))
    with pytest.raises(CheckpointIncompatibleError) as raised:
        check(layout, replace(SILVER, checkpoint_version=2))
    assert raised.value.changed == {"checkpoint_version": (3, 2)}


def test_versions_are_ordered_as_numbers(layout: Layout) -> None:
    for version in (10, 9, 1):
        remember(layout, replace(SILVER, checkpoint_version=version))
    layout.refusal("trips", "silver", 9, 0).write_text("{}")
    assert list(checkpoint.versions(layout, "trips", "silver")) == [1, 9, 10]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"fingerprint": 5, "remembered": {}}', '{"fingerprint": "x", "remembered": []}']
)
def test_a_torn_sidecar_is_corrupt_and_never_taken_for_none(layout: Layout, content: str) -> None:
    remember(layout, SILVER)
    path = layout.sidecar("trips", "silver", 1)
    path.write_text(content)
    with pytest.raises(CheckpointCorruptError, match="backup") as raised:
        check(layout, SILVER)
    assert raised.value.path == str(path)
