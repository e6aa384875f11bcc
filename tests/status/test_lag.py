"""Whether a run has work, and what measuring that costs: asked without a JVM."""

from __future__ import annotations

import builtins
import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.status.place import BRONZE, GOLD, PROJECT, SILVER, Place
from tests.written import add, delta_offset


def test_flows_below_one_with_work_have_work(place: Place) -> None:
    place.land("a.csv")
    plan = place.plan()
    assert plan.work is True
    assert [told.has_work for told in plan.lags] == [True, True, True]
    assert plan.reasons == (
        "bronze: 1 new file in trips",
        "silver: reads what flow bronze writes",
        "gold: reads what flow silver writes",
    )
    assert plan.reason == "; ".join(plan.reasons)


def test_only_chosen_flows_count(place: Place) -> None:
    place.land("a.csv")
    plan = place.plan(GOLD)
    assert (plan.work, [told.flow for told in plan.lags]) == (False, ["gold"])
    assert plan.reason == "gold: waits: silver.trips does not exist yet"


def test_with_nothing_new_every_flow_says_why(place: Place) -> None:
    plan = place.plan()
    assert (plan.work, len(plan.reasons)) == (False, 3)


@pytest.mark.parametrize(
    ("size", "first", "small"),
    [(1, True, True), (15, True, True), (17, True, False), (17, False, True), (63, False, True), (65, False, False)],
)
def test_small_is_what_pays_with_a_quick_start(place: Place, size: int, first: bool, small: bool) -> None:
    log = place.table("bronze.trips")
    log.commit(add("a", 1, 1))
    if not first:
        place.checkpoint("silver").run(0, delta_offset(1))
    log.commit(add("b", 1, size * 1024 * 1024))
    assert place.plan(SILVER).small is small


def test_the_lag_is_plain_json(place: Place) -> None:
    place.land("a.csv")
    told = place.measure(BRONZE).to_json()
    assert json.loads(json.dumps(told)) == told
    assert {"flow", "kind", "rows", "bytes", "rows_exact", "bytes_exact", "behind", "pending_batch", "has_work"} <= set(
        told
    )


def test_measuring_writes_nothing(place: Place) -> None:
    place.land("a.csv")
    place.refuse_silver()
    before = sorted(place.layout.lake.rglob("*"))
    place.plan()
    assert sorted(place.layout.lake.rglob("*")) == before


def test_measuring_opens_what_is_new_and_nothing_that_was_read_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(365):
        place.land(f"{number}.csv")
    place.read_everything(place.checkpoint("bronze"))
    for table, flow in (("bronze.trips", "silver"), ("silver.trips", "gold")):
        log = place.table(table)
        for number in range(200):
            log.commit(add(f"f{number}", 1))
        place.checkpoint(flow).run(0, delta_offset(150))
    opened: Counter[Path] = Counter()
    really_open = io.open

    def counted(file: Any, *arguments: Any, **named: Any) -> Any:
        opened[Path(file)] += 1
        return really_open(file, *arguments, **named)

    for module in (io, builtins):
        monkeypatch.setattr(module, "open", counted)
    place.plan()
    monkeypatch.undo()

    assert not [path for path in opened if path.is_relative_to(place.landing)], "landed files are only listed"
    for table in ("bronze.trips", "silver.trips"):
        behind = {place.layout.table(table) / "_delta_log" / f"{version:020d}.json" for version in range(150, 200)}
        assert {path: count for path, count in opened.items() if path.is_relative_to(place.layout.table(table))} == (
            dict.fromkeys(behind, 1)
        )
    assert opened.total() < 150, "and a few files of each checkpoint"


def test_nothing_heavy_is_imported() -> None:
    program = (
        "import sys, tidegate.status.lag, tidegate.checkpoints.lease, tidegate.probes.kafka\n"
        "heavy = ('airflow', 'pyspark', 'delta', 'pandas', 'pyarrow', 'great_expectations', 'deltalake', 'confluent_kafka')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert done.stdout.strip() == "[]"
