"""Quarantined entries go through today's rules once more: once only, and every one in exactly one place.

Whole pipelines with a gate do so in `tests/spark/reprocessing/test_whole_reentry.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deployment import Deployment
from tests.spark import flow_context as orders
from tidegate.errors import RequestError, SourceUnavailableError, UnexpectedError
from tidegate.ops import store
from tidegate.quarantine import claims
from tidegate.quarantine.selection import Selection
from tidegate.spark.batch import micro_batch
from tidegate.spark.context import FlowContext
from tidegate.spark.flow import run_flow
from tidegate.spark.lake import sinks, tables
from tidegate.spark.reprocessing import reentry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spec import Flow

pytestmark = pytest.mark.jvm

ALL = Selection.check()
StartState = Callable[[Callable[[Deployment], None]], Deployment]


def without_keys_of(*ids: int) -> Callable[[DataFrame], DataFrame]:
    """Code that makes no key of some orders: they go to quarantine."""

    def clean(rows: DataFrame) -> DataFrame:
        listed = ", ".join(map(str, (-1, *ids)))
        return rows.selectExpr("* EXCEPT (id)", f"CASE WHEN id NOT IN ({listed}) THEN id END AS id")

    return clean


def context_of(place: Path, flow: Flow, **more: Any) -> FlowContext:
    from pyspark.sql import SparkSession

    return orders.flow_context(SparkSession.active(), place, flow, **more)


def land(place: Path, name: str, content: str) -> Path:
    path = place / "landing" / "orders" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def lines(*ids: int) -> str:
    return "".join(f"{json.dumps({'id': number, 'at': number, 'amount': number * 10})}\n" for number in ids)


def five_of_eight_in_quarantine(deployment: Deployment) -> None:
    place = deployment.environment.lake.parent
    land(place, "one.json", lines(*range(8)))
    run_flow(context_of(place, orders.BRONZE))
    run_flow(context_of(place, orders.SILVER, transform=without_keys_of(1, 2, 3, 4, 5)))


@pytest.fixture
def place(start_state: StartState) -> Path:
    """Where silver has three of eight orders, and five are in its quarantine."""
    return start_state(five_of_eight_in_quarantine).environment.lake.parent


def silver(place: Path, *still_refused: int, **more: Any) -> FlowContext:
    """A replay by today's code, which refuses fewer orders or none."""
    return context_of(place, orders.SILVER, transform=without_keys_of(*still_refused), mode="quarantine", **more)


def states(context: FlowContext) -> dict[str, int]:
    return dict(Counter(row["state"] for row in orders.table(context.quarantine)))


def open_ids(context: FlowContext) -> list[int]:
    rows = orders.table(context.quarantine)
    return sorted(json.loads(row["record"])["id"] for row in rows if row["state"] == "open")


def replay_lines(context: FlowContext) -> list[dict[str, Any]]:
    path = context.layout.ops("orders", "ledger")
    return store.select(path, "SELECT * FROM held WHERE kind = 'replay' ORDER BY batch_id")


def expect_every_order_in_one_place(context: FlowContext, count: int = 8) -> None:
    rows = orders.table(context.quarantine)
    assert {row["_in_hand"] for row in rows} == {None}, "nothing is left in hand"
    assert not context.layout.claim("orders", context.flow.name).exists()
    written = [row["id"] for row in orders.table(context.live)]
    assert len(written) == len(set(written)) == count - len(open_ids(context))
    assert not set(written) & set(open_ids(context))


def test_what_passes_now_is_written_and_what_fails_again_stays_the_entry_that_it_was(place: Path) -> None:
    foreseen, context = silver(place, 4, 5), silver(place, 4, 5)
    before = {row["_row_id"]: row for row in orders.table(context.quarantine)}

    reentry.reenter(foreseen, ALL, dry_run=True, limit=4)

    assert (foreseen.report.dry_run, [line.read for line in foreseen.report.batches]) == (True, [4])
    assert {row["_row_id"]: row for row in orders.table(context.quarantine)} == before, "a dry run changes nothing"
    assert (replay_lines(context), context.layout.claim("orders", "silver").exists()) == ([], False)
    reentry.reenter(context, ALL)
    (line,) = context.report.batches
    assert (line.kind, line.read, line.written, line.quarantined, line.imbalance()) == ("replay", 5, 3, 2, 0)
    assert (line.batch_id, line.app_id) == (0, "orders/silver/replay")
    assert [told["requested_by"] for told in replay_lines(context)] == ["ada"]
    assert (states(context), open_ids(context)) == ({"replayed": 3, "open": 2}, [4, 5])
    after = {row["_row_id"]: row for row in orders.table(context.quarantine)}
    assert after.keys() == before.keys()
    back = [row for row in after.values() if row["state"] == "open"]
    assert {(row["attempts"], row["changed_by"], row["_batch_id"]) for row in back} == {(1, "ada", 0)}
    expect_every_order_in_one_place(context)


def test_claims_are_bounded_numbers_go_on_a_limit_is_kept_and_what_came_back_is_not_taken_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reentry, "ENTRIES_AT_ONCE", 3)
    first = silver(place, 1, 2, 3, 4, 5)

    reentry.reenter(first, ALL)

    assert [(line.batch_id, line.read, line.quarantined) for line in first.report.batches] == [(0, 3, 3), (1, 2, 2)]
    assert {row["attempts"] for row in orders.table(first.quarantine)} == {1}
    second = silver(place)
    reentry.reenter(second, ALL, limit=2)
    assert [(line.batch_id, line.read) for line in second.report.batches] == [(2, 2)]
    assert states(second) == {"replayed": 2, "open": 3}
    expect_every_order_in_one_place(second)


def dies(*_: Any) -> None:
    raise SourceUnavailableError("the process died here")


def test_another_attempt_at_the_same_replay_goes_on_where_the_first_stopped(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reentry, "ENTRIES_AT_ONCE", 2)
    work_through, request_id = reentry.work_through, "q20260101T000000-1"

    def away(context: FlowContext, number: int) -> None:
        if number == 1:
            raise SourceUnavailableError("the broker is away")
        work_through(context, number)

    with monkeypatch.context() as patched:
        patched.setattr(reentry, "work_through", away)
        with pytest.raises(SourceUnavailableError):
            reentry.reenter(silver(place, request_id=request_id), ALL, limit=4)
    context = silver(place, request_id=request_id)
    assert claims.in_hand(context.quarantine) == claims.Claim(number=1, entries=2)

    reentry.reenter(context, ALL, limit=4)

    assert [(line.batch_id, line.read) for line in context.report.batches] == [(0, 2), (1, 2)], (
        "the limit is one for all attempts, and the report tells of the whole replay"
    )
    assert [told["batch_id"] for told in replay_lines(context)] == [0, 1]
    assert states(context) == {"replayed": 4, "open": 1}
    expect_every_order_in_one_place(context)


def test_an_error_that_would_come_again_gives_back_what_was_in_hand(place: Path) -> None:
    def breaks(_rows: DataFrame) -> DataFrame:
        raise ValueError("secret@example.org")

    context = context_of(place, orders.SILVER, transform=breaks, mode="quarantine")

    with pytest.raises(UnexpectedError):
        reentry.reenter(context, ALL)

    assert states(context) == {"open": 5}
    assert claims.in_hand(context.quarantine) is None
    expect_every_order_in_one_place(context)


def test_a_replay_that_died_before_the_target_is_undone_by_the_next_run(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "write_target", dies)
        with pytest.raises(SourceUnavailableError):
            reentry.reenter(silver(place, 5), ALL)
    context = silver(place)
    assert context.layout.claim("orders", "silver").exists()
    assert claims.in_hand(context.quarantine) is not None

    run_flow(context)

    assert context.report.notes == ["replay 0 of its quarantine had been interrupted: 5 entries are open again"]
    assert (context.report.batches, states(context)) == ([], {"open": 5})
    expect_every_order_in_one_place(context)


@pytest.mark.parametrize("by_run", [True, False], ids=["the next run", "the next replay"])
def test_a_replay_that_died_behind_the_target_is_recorded_and_closed_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, by_run: bool
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "record_batch", dies)
        with pytest.raises(SourceUnavailableError):
            reentry.reenter(silver(place, 5), ALL)
    context = silver(place, 3, 5) if by_run else silver(place, 5)
    version = tables.version(context.spark, context.live)

    if by_run:
        run_flow(context)
        assert context.report.notes == ["finished replay 0 of its quarantine, which had been interrupted"]
    else:
        reentry.reenter(context, Selection.check(rule="no_such_rule"))

    assert [(told["read"], told["written"], told["requested_by"]) for told in replay_lines(context)] == [(5, 4, "ada")]
    assert tables.version(context.spark, context.live) == version, "the split that was decided stands"
    assert (states(context), open_ids(context)) == ({"replayed": 4, "open": 1}, [5])
    expect_every_order_in_one_place(context)


def test_an_entry_whose_record_is_gone_stays_open_and_says_so(place: Path) -> None:
    from deltalake import DeltaTable

    context = silver(place)
    assert context.source_table is not None
    lost = next(row["_row_id"] for row in orders.table(context.quarantine))
    DeltaTable(str(context.source_table)).delete(f"_row_id = '{lost}'")

    reentry.reenter(context, ALL)

    (line,) = context.report.batches
    assert (line.read, line.written) == (4, 4)
    (entry,) = [row for row in orders.table(context.quarantine) if row["state"] == "open"]
    assert (entry["_row_id"], entry["rules"], entry["attempts"]) == (lost, ["null_key(id)", claims.GONE], 1)
    expect_every_order_in_one_place(context)


def test_a_checkpoint_that_the_table_does_not_hold_yet_replays_nothing(place: Path) -> None:
    for dry_run in (True, False):
        with pytest.raises(RequestError, match="Run the flow first, then replay"):
            reentry.reenter(silver(place, version=2), ALL, dry_run=dry_run)
    assert states(silver(place)) == {"open": 5}


def test_a_selection_chooses_and_without_a_match_nothing_is_taken(place: Path) -> None:
    context = silver(place)

    reentry.reenter(context, Selection.check(rule="wrong_type(at)"))

    assert (context.report.batches, states(context)) == ([], {"open": 5})
    expect_every_order_in_one_place(context)


def test_a_file_that_was_mended_in_place_is_read_again_and_a_bad_one_comes_back(spark: Any, tmp_path: Path) -> None:
    land(tmp_path, "good.json", lines(1))
    mended = land(tmp_path, "mended.json", "")
    land(tmp_path, "bad.json", "")
    run_flow(context_of(tmp_path, orders.BRONZE))
    mended.write_text(lines(2, 3))
    context = context_of(tmp_path, orders.BRONZE, mode="quarantine")

    reentry.reenter(context, ALL)

    (line,) = context.report.batches
    assert (line.files_listed, line.files_opened, line.files_quarantined, line.read) == (2, 1, 1, 2)
    assert line.imbalance() == 0
    left = {Path(json.loads(row["source"])["path"]).name: row["state"] for row in orders.table(context.quarantine)}
    assert left == {"mended.json": "replayed", "bad.json": "open"}
    assert [json.loads(row["line"])["id"] for row in orders.table(context.live)] == [1, 2, 3]
    again = context_of(tmp_path, orders.BRONZE, mode="quarantine")
    reentry.reenter(again, ALL)
    assert [(each.files_listed, each.files_quarantined) for each in again.report.batches] == [(1, 1)]


def two_versions_behind_a_keyed_table(deployment: Deployment) -> None:
    """``latest`` reads the changes of silver; what it makes no key of is in its quarantine."""
    place = deployment.environment.lake.parent
    context = context_of(place, orders.SILVER)
    for batch_id, ids in enumerate(((0, 1, 2), (2, 3, 4))):
        rows = [(number, batch_id, number * 10 + batch_id, (batch_id,)) for number in ids]
        frame = context.spark.createDataFrame(rows, "id int, at int, amount int, _order struct<at: int>")
        sinks.upsert(frame, context.live, ("id",), orders.transaction(context, batch_id))
        run_flow(context_of(place, orders.LATEST, transform=without_keys_of(1, 2, 3)))


def latest(place: Path, *still_refused: int) -> FlowContext:
    return context_of(place, orders.LATEST, transform=without_keys_of(*still_refused), mode="quarantine")


def test_changes_of_a_keyed_table_are_replayed_from_its_first_load_and_from_its_feed(start_state: StartState) -> None:
    place = start_state(two_versions_behind_a_keyed_table).environment.lake.parent
    context = latest(place, 3)
    entries = states(context)["open"]

    reentry.reenter(context, ALL)

    (line,) = context.report.batches
    assert (line.read, line.quarantined, line.imbalance()) == (entries, 1, 0)
    upstream = {row["id"]: row["amount"] for row in orders.table(context.layout.table("silver.orders"))}
    made = {row["id"]: row["amount"] for row in orders.table(context.live)}
    assert made == {number: amount for number, amount in upstream.items() if number != 3}
    assert open_ids(context) == [3]


def test_entries_older_than_the_log_of_their_keyed_table_come_back_and_stop_no_other(start_state: StartState) -> None:
    from deltalake import DeltaTable

    place = start_state(two_versions_behind_a_keyed_table).environment.lake.parent
    context = latest(place)
    assert context.source_table is not None
    rows = orders.table(context.quarantine)
    newest = DeltaTable(str(context.source_table)).version()
    old = {row["_row_id"] for row in rows if json.loads(row["source"])["version"] < newest}
    assert 0 < len(old) < len(rows)
    # What Delta does when the log is older than its retention.
    DeltaTable(str(context.source_table)).create_checkpoint()
    for log in (context.source_table / "_delta_log").glob("*"):
        if log.name[:20].isdigit() and int(log.name[:20]) < newest:
            log.unlink()

    reentry.reenter(context, ALL)

    assert context.report.batches[0].read == len(rows) - len(old)
    kept = {row["_row_id"]: row for row in orders.table(context.quarantine) if row["state"] == "open"}
    assert kept.keys() == old
    assert {(tuple(row["rules"]), row["_in_hand"]) for row in kept.values()} == {(("null_key(id)", claims.GONE), None)}
    again = latest(place)
    reentry.reenter(again, ALL)
    assert sum(line.read for line in again.report.batches) == 0, "nothing is left in hand, and nothing is stuck"
