"""The paths of the lake; invalid ids are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate import __version__
from tidegate.checkpoints.checkpoint import SIDECAR
from tidegate.checkpoints.refusal import REFUSAL
from tidegate.environment import Environment
from tidegate.errors import LakeVersionError, OtherProjectError, RequestError
from tidegate.lake.layout import LAKE_FORMAT, Layout, Owner, run_key
from tidegate.lake.place import AttemptPlace, FlowPlace, PipelinePlace, Place, RunPlace
from tidegate.store import Address, Store
from tidegate.store.memory import MemoryStore

NEW = {"format": LAKE_FORMAT, "tidegate": __version__}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path / "lake", tmp_path / "landing")


def test_paths_are_those_of_the_documentation(layout: Layout) -> None:
    landing, root = layout.landing_root, layout.root
    assert layout.landing("shop/orders") == landing / "shop" / "orders"
    assert layout.table("silver.flights") == root / "tables/silver/flights"
    assert FlowPlace(layout, "flights", "silver").quarantine == root / "quarantine/flights/silver"
    assert FlowPlace(layout, "flights", "silver").late == root / "late/flights/silver"
    assert FlowPlace(layout, "flights", "silver").heartbeats == root / "heartbeats/flights/silver"
    assert Place(layout, "flights", "silver", 2, 1).staging == root / "staging/flights/silver/v2-1"
    assert Place(layout, "flights", "silver", 2, 1).checkpoint == root / "checkpoints/flights/silver/v2/1"
    assert SIDECAR.path(Place(layout, "flights", "silver", 2, 0)) == root / "checkpoints/flights/silver/v2.json"
    assert (
        REFUSAL.path(Place(layout, "flights", "silver", 2, 1)) == root / "checkpoints/flights/silver/v2-1.refused.json"
    )
    assert AttemptPlace(layout, "flights", "k", "a1").report == root / "reports/flights/k/a1/report.json"
    assert RunPlace(layout, "flights", "k").request("q1") == root / "reports/flights/k/q1.request.json"
    assert PipelinePlace(layout, "flights").docs == root / "docs/flights"
    assert PipelinePlace(layout, "flights").ops("ledger") == root / "_ops/flights/ledger"


def test_delta_tables_are_listed_by_the_names_under_which_they_are_queried(layout: Layout) -> None:
    tables = {
        "silver.flights": layout.table("silver.flights"),
        "quarantine.flights.silver": FlowPlace(layout, "flights", "silver").quarantine,
        "late.flights.silver": FlowPlace(layout, "flights", "silver").late,
        "heartbeats.flights.silver": FlowPlace(layout, "flights", "silver").heartbeats,
        "ops.flights.ledger": PipelinePlace(layout, "flights").ops("ledger"),
    }
    for path in (*tables.values(), Place(layout, "flights", "silver", 2, 0).staging):
        (path / "_delta_log").make_folder()
    layout.table("gold.delays").make_folder()
    assert layout.delta_tables() == tables


def test_a_lease_has_a_lock_file_and_an_owner_file(layout: Layout) -> None:
    lease = layout.lease("checkpoint:flights/silver")
    assert lease.parent == Path(layout.root) / "leases" == layout.lease_owner("checkpoint:flights/silver").parent
    assert lease != layout.lease_owner("checkpoint:flights/silver")
    assert lease != layout.lease("checkpoint:flights_silver")


def test_the_roots_come_from_the_environment(tmp_path: Path) -> None:
    environment = Environment.read({"TIDEGATE_LAKE": str(tmp_path / "l"), "TIDEGATE_LANDING": str(tmp_path / "in")})
    assert Layout.of(environment) == Layout.local(tmp_path / "l", tmp_path / "in")


@pytest.mark.parametrize("text", ["", "..", "a/b", "../a", "a b", "a\n", "-a", "x" * 129, "a\0", "ä"])
def test_an_invalid_id_is_refused(layout: Layout, text: str) -> None:
    makers: tuple[Callable[[], Address], ...] = (
        lambda: AttemptPlace(layout, "flights", text, "a1").report,
        lambda: AttemptPlace(layout, "flights", "k", text).report,
        lambda: RunPlace(layout, "flights", "k").request(text),
    )
    for make in makers:
        with pytest.raises(RequestError, match="not the id"):
            make()


def test_run_keys_are_readable_valid_and_unique(layout: Layout) -> None:
    one, two = run_key("scheduled__2026-01-01T00:00:00+00:00"), run_key("scheduled__2026-01-01T00:00:00 00:00")
    assert one.startswith("scheduled-2026-01-01T00-00-00-00-00-")
    assert one != two
    reports = PipelinePlace(layout, "flights").reports
    for run_id in ("", "../../etc", "manual__" + "x" * 300, "ä/ö"):
        assert AttemptPlace(layout, "flights", run_key(run_id), "a1").report.parent.parent.parent == reports
        assert len(run_key(run_id)) < 80


def test_open_creates_the_lake_once(layout: Layout) -> None:
    layout.open()
    marker = Path(layout.root) / "lake.json"
    before = marker.stat().st_mtime_ns
    assert json.loads(marker.read_text()) == NEW
    layout.open()
    assert marker.stat().st_mtime_ns == before


def test_a_lake_of_a_newer_format_is_refused(layout: Layout) -> None:
    layout.open()
    marker = Path(layout.root) / "lake.json"
    for version, command in (
        ({}, "pip install --upgrade tidegate"),
        ({"tidegate": "9.1"}, 'pip install "tidegate>=9.1"'),
    ):
        marker.write_text(json.dumps({"format": LAKE_FORMAT + 1, **version}))
        with pytest.raises(LakeVersionError, match=f"upgrade Tidegate with `{command}`"):
            layout.open()


def test_folders_have_normal_paths_as_spark_reports_them(tmp_path: Path) -> None:
    environment = Environment.read({"TIDEGATE_LAKE": f"{tmp_path}/x/../l", "TIDEGATE_LANDING": f"{tmp_path}/x/../in"})
    assert Layout.of(environment) == Layout.local(tmp_path / "l", tmp_path / "in")


def of(project: str, environment: str = "dev", lake: Store | None = None) -> Layout:
    root = Address(MemoryStore() if lake is None else lake)
    return Layout(root, root, Owner(project, environment))


def test_a_lake_is_that_of_the_first_project_that_opens_it() -> None:
    lake = MemoryStore()
    of("", "", lake).open()
    assert of("", "", lake).check()
    of("shop", "dev", lake).open()
    assert of("shop", "dev", lake).check()
    for project, environment in (("shop", "prod"), ("flights", "dev"), ("", "")):
        for act in (Layout.open, Layout.check):
            with pytest.raises(OtherProjectError, match="that of environment 'dev' of project 'shop'"):
                act(of(project, environment, lake))
    assert of("flights", "dev", lake).claim("ada", "2026-01-05", "moved") == Owner("shop", "dev")
    of("flights", "dev", lake).open()
    with pytest.raises(OtherProjectError):
        of("shop", "dev", lake).open()
    marker = json.loads(of("flights", "dev", lake).marker.read().data)
    claim = {"by": "ada", "at": "2026-01-05", "reason": "moved", "project": "shop", "environment": "dev"}
    assert marker == {**NEW, "project": "flights", "environment": "dev", "claims": [claim]}


class LateStore(MemoryStore):
    """Another project writes between a reading and a write."""

    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__()
        self.before: Callable[[], None] | None = before

    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        before, self.before = self.before, None
        if before is not None:
            before()
        return super().put_if(key, data, tag)


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("other", ["flights", "shop"])
def test_of_two_projects_that_open_a_lake_at_once_one_has_it(other: str, exists: bool) -> None:
    store = LateStore(lambda: of(other, "dev", store).open())
    if exists:
        MemoryStore.put(store, "lake.json", b'{"format": 1}')
    if other == "shop":
        of("shop", "dev", store).open()
    else:
        with pytest.raises(OtherProjectError):
            of("shop", "dev", store).open()
    assert of(other, "dev", store).check()
    assert store.before is None
