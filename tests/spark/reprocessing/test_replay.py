"""Replays: quarantine entries are judged again exactly once, and every row is in exactly one place.

Tests with whole pipelines and a gate are in `tests/spark/reprocessing/test_whole_replays.py`.
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
from tidegate.checkpoints.pending_jobs import CLAIM
from tidegate.errors import RequestError, SourceUnavailableError, UnexpectedError
from tidegate.ops import store
from tidegate.place import FlowPlace, PipelinePlace
from tidegate.quarantine import claims
from tidegate.quarantine.selection import Selection
from tidegate.spark.batch import micro_batch
from tidegate.spark.context import FlowContext
from tidegate.spark.flow import run_flow
from tidegate.spark.lake import tables, writes
from tidegate.spark.reprocessing import replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spec import Flow

pytestmark = pytest.mark.jvm

ALL = Selection.check()
StartState = Callable[[Callable[[Deployment], None]], Deployment]


def without_keys_of(*ids: int) -> Callable[[DataFrame], DataFrame]:
    """Code that derives no key for some orders, which are quarantined."""

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
    """A project with three of eight orders in silver and five in its quarantine."""
    return start_state(five_of_eight_in_quarantine).environment.lake.parent


def silver(place: Path, *still_refused: int, **more: Any) -> FlowContext:
    """The context of a replay with code that refuses only these orders."""
    return context_of(place, orders.SILVER, transform=without_keys_of(*still_refused), mode="replay", **more)


def states(context: FlowContext) -> dict[str, int]:
    return dict(Counter(row["state"] for row in orders.table(context.quarantine)))


def open_ids(context: FlowContext) -> list[int]:
    rows = orders.table(context.quarantine)
    return sorted(json.loads(row["record"])["id"] for row in rows if row["state"] == "open")


def replay_lines(context: FlowContext) -> list[dict[str, Any]]:
    path = PipelinePlace(context.layout, "orders").ops("ledger")
    return store.select(path, "SELECT * FROM delta_table WHERE kind = 'replay' ORDER BY batch_id")


def expect_every_order_in_one_place(context: FlowContext, count: int = 8) -> None:
    rows = orders.table(context.quarantine)
    assert {row["_in_hand"] for row in rows} == {None}, "no entry is claimed"
    assert not CLAIM.path(FlowPlace(context.layout, "orders", context.flow.name)).exists()
    written = [row["id"] for row in orders.table(context.live)]
    assert len(written) == len(set(written)) == count - len(open_ids(context))
    assert not set(written) & set(open_ids(context))


def test_rows_that_pass_are_written_and_rows_that_fail_keep_their_entry(place: Path) -> None:
    dry_run, context = silver(place, 4, 5), silver(place, 4, 5)
    before = {row["_row_id"]: row for row in orders.table(context.quarantine)}

    replay.replay_entries(dry_run, ALL, dry_run=True, limit=4)

    assert (dry_run.report.dry_run, [line.read for line in dry_run.report.batches]) == (True, [4])
    assert {row["_row_id"]: row for row in orders.table(context.quarantine)} == before, "a dry run changes nothing"
    assert (replay_lines(context), CLAIM.path(FlowPlace(context.layout, "orders", "silver")).exists()) == ([], False)
    replay.replay_entries(context, ALL)
    (line,) = context.report.batches
    assert (line.kind, line.read, line.written, line.quarantined, line.imbalance()) == ("replay", 5, 3, 2, 0)
    assert (line.batch_id, line.app_id) == (0, "orders/silver/replay")
    assert [line["requested_by"] for line in replay_lines(context)] == ["ada"]
    assert (states(context), open_ids(context)) == ({"replayed": 3, "open": 2}, [4, 5])
    after = {row["_row_id"]: row for row in orders.table(context.quarantine)}
    assert after.keys() == before.keys()
    returned = [row for row in after.values() if row["state"] == "open"]
    assert {(row["attempts"], row["changed_by"], row["_batch_id"]) for row in returned} == {(1, "ada", 0)}
    expect_every_order_in_one_place(context)


@pytest.mark.nightly
def test_claims_are_bounded_and_numbered_and_do_not_claim_returned_entries_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "ENTRIES_AT_ONCE", 3)
    first = silver(place, 1, 2, 3, 4, 5)

    replay.replay_entries(first, ALL)

    assert [(line.batch_id, line.read, line.quarantined) for line in first.report.batches] == [(0, 3, 3), (1, 2, 2)]
    assert {row["attempts"] for row in orders.table(first.quarantine)} == {1}
    second = silver(place)
    replay.replay_entries(second, ALL, limit=2)
    assert [(line.batch_id, line.read) for line in second.report.batches] == [(2, 2)]
    assert states(second) == {"replayed": 2, "open": 3}
    expect_every_order_in_one_place(second)


def fail(*_: Any) -> None:
    raise SourceUnavailableError("simulated crash")


@pytest.mark.nightly
def test_a_retry_of_a_replay_continues_where_the_first_attempt_stopped(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "ENTRIES_AT_ONCE", 2)
    process_claim, request_id = replay.process_claim, "q20260101T000000-1"

    def fail_second_claim(context: FlowContext, number: int) -> None:
        if number == 1:
            raise SourceUnavailableError("no broker answers")
        process_claim(context, number)

    with monkeypatch.context() as patched:
        patched.setattr(replay, "process_claim", fail_second_claim)
        with pytest.raises(SourceUnavailableError):
            replay.replay_entries(silver(place, request_id=request_id), ALL, limit=4)
    context = silver(place, request_id=request_id)
    assert claims.unfinished_claim(context.quarantine) == claims.Claim(number=1, entries=2)

    replay.replay_entries(context, ALL, limit=4)

    assert [(line.batch_id, line.read) for line in context.report.batches] == [(0, 2), (1, 2)], (
        "the limit applies to all attempts together, and the report covers the whole replay"
    )
    assert [line["batch_id"] for line in replay_lines(context)] == [0, 1]
    assert states(context) == {"replayed": 4, "open": 1}
    expect_every_order_in_one_place(context)


def test_a_permanent_error_releases_the_claim(place: Path) -> None:
    def fail_to_transform(_rows: DataFrame) -> DataFrame:
        raise ValueError("secret@example.org")

    context = context_of(place, orders.SILVER, transform=fail_to_transform, mode="replay")

    with pytest.raises(UnexpectedError):
        replay.replay_entries(context, ALL)

    assert states(context) == {"open": 5}
    assert claims.unfinished_claim(context.quarantine) is None
    expect_every_order_in_one_place(context)


def test_the_next_run_releases_a_replay_that_crashed_before_it_wrote_to_the_target(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "write_target", fail)
        with pytest.raises(SourceUnavailableError):
            replay.replay_entries(silver(place, 5), ALL)
    context = silver(place)
    assert CLAIM.path(FlowPlace(context.layout, "orders", "silver")).exists()
    assert claims.unfinished_claim(context.quarantine) is not None

    run_flow(context)

    assert context.report.notes == ["released the entries of the interrupted replay 0: 5 entries open again"]
    assert (context.report.batches, states(context)) == ([], {"open": 5})
    expect_every_order_in_one_place(context)


@pytest.mark.parametrize(
    "by_run", [True, pytest.param(False, marks=pytest.mark.nightly)], ids=["the next run", "the next replay"]
)
def test_a_replay_that_crashed_after_it_wrote_to_the_target_is_recorded_and_settled_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, by_run: bool
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(micro_batch, "record_batch", fail)
        with pytest.raises(SourceUnavailableError):
            replay.replay_entries(silver(place, 5), ALL)
    context = silver(place, 3, 5) if by_run else silver(place, 5)
    version = tables.version(context.spark, context.live)

    if by_run:
        run_flow(context)
        assert context.report.notes == ["finished the interrupted replay 0"]
    else:
        replay.replay_entries(context, Selection.check(rule="no_such_rule"))

    assert [(line["read"], line["written"], line["requested_by"]) for line in replay_lines(context)] == [(5, 4, "ada")]
    assert tables.version(context.spark, context.live) == version, "the decided split is kept"
    assert (states(context), open_ids(context)) == ({"replayed": 4, "open": 1}, [5])
    expect_every_order_in_one_place(context)


def test_an_entry_without_its_source_record_stays_open_with_a_rule_for_it(place: Path) -> None:
    from deltalake import DeltaTable

    context = silver(place)
    assert context.source_table is not None
    row_id = next(row["_row_id"] for row in orders.table(context.quarantine))
    properties = orders.by_writer(context.source_table)
    DeltaTable(str(context.source_table)).delete(f"_row_id = '{row_id}'", commit_properties=properties)

    replay.replay_entries(context, ALL)

    (line,) = context.report.batches
    assert (line.read, line.written) == (4, 4)
    (entry,) = [row for row in orders.table(context.quarantine) if row["state"] == "open"]
    assert (entry["_row_id"], entry["rules"], entry["attempts"]) == (row_id, ["null_key(id)", claims.SOURCE_GONE], 1)
    expect_every_order_in_one_place(context)


def test_a_checkpoint_without_data_in_the_table_replays_nothing(place: Path) -> None:
    for dry_run in (True, False):
        with pytest.raises(
            RequestError,
            match="Run the flow first: tidegate run orders --flow silver, then tidegate ",
        ):
            replay.replay_entries(silver(place, version=2), ALL, dry_run=dry_run)
    assert states(silver(place)) == {"open": 5}


def test_without_a_matching_entry_nothing_is_claimed(place: Path) -> None:
    context = silver(place)

    replay.replay_entries(context, Selection.check(rule="wrong_type(at)"))

    assert (context.report.batches, states(context)) == ([], {"open": 5})
    expect_every_order_in_one_place(context)


def test_a_corrected_file_is_read_again_and_an_unreadable_one_is_returned(spark: Any, tmp_path: Path) -> None:
    land(tmp_path, "good.json", lines(1))
    corrected = land(tmp_path, "corrected.json", "")
    land(tmp_path, "bad.json", "")
    run_flow(context_of(tmp_path, orders.BRONZE))
    corrected.write_text(lines(2, 3))
    context = context_of(tmp_path, orders.BRONZE, mode="replay")

    replay.replay_entries(context, ALL)

    (line,) = context.report.batches
    assert (line.files_listed, line.files_opened, line.files_quarantined, line.read) == (2, 1, 1, 2)
    assert line.imbalance() == 0
    by_file = {Path(json.loads(row["source"])["path"]).name: row["state"] for row in orders.table(context.quarantine)}
    assert by_file == {"corrected.json": "replayed", "bad.json": "open"}
    assert sorted(json.loads(row["line"])["id"] for row in orders.table(context.live)) == [1, 2, 3]
    again = context_of(tmp_path, orders.BRONZE, mode="replay")
    replay.replay_entries(again, ALL)
    assert [(each.files_listed, each.files_quarantined) for each in again.report.batches] == [(1, 1)]


def two_versions_behind_a_keyed_table(deployment: Deployment) -> None:
    """``latest`` reads the changes of silver; rows without a key are in its quarantine."""
    place = deployment.environment.lake.parent
    context = context_of(place, orders.SILVER)
    for batch_id, ids in enumerate(((0, 1, 2), (2, 3, 4))):
        rows = [(number, batch_id, number * 10 + batch_id, (batch_id,)) for number in ids]
        frame = context.spark.createDataFrame(rows, "id int, at int, amount int, _order struct<at: int>")
        writes.upsert(frame, context.live, ("id",), orders.transaction(context, batch_id))
        run_flow(context_of(place, orders.LATEST, transform=without_keys_of(1, 2, 3)))


def latest(place: Path, *still_refused: int) -> FlowContext:
    return context_of(place, orders.LATEST, transform=without_keys_of(*still_refused), mode="replay")


@pytest.mark.nightly
def test_changes_of_a_keyed_table_are_replayed_from_its_first_load_and_its_change_feed(start_state: StartState) -> None:
    place = start_state(two_versions_behind_a_keyed_table).environment.lake.parent
    context = latest(place, 3)
    entries = states(context)["open"]

    replay.replay_entries(context, ALL)

    (line,) = context.report.batches
    assert (line.read, line.quarantined, line.imbalance()) == (entries, 1, 0)
    upstream = {row["id"]: row["amount"] for row in orders.table(context.layout.table("silver.orders"))}
    replayed = {row["id"]: row["amount"] for row in orders.table(context.live)}
    assert replayed == {number: amount for number, amount in upstream.items() if number != 3}
    assert open_ids(context) == [3]


@pytest.mark.nightly
def test_entries_older_than_the_log_of_their_keyed_table_are_returned_and_do_not_stop_others(
    start_state: StartState,
) -> None:
    from deltalake import DeltaTable

    place = start_state(two_versions_behind_a_keyed_table).environment.lake.parent
    context = latest(place)
    assert context.source_table is not None
    rows = orders.table(context.quarantine)
    newest = DeltaTable(str(context.source_table)).version()
    old = {row["_row_id"] for row in rows if json.loads(row["source"])["version"] < newest}
    assert 0 < len(old) < len(rows)
    # Delta deletes these files after the retention period of the log.
    DeltaTable(str(context.source_table)).create_checkpoint()
    for log in Path(context.source_table / "_delta_log").glob("*"):
        if log.name[:20].isdigit() and int(log.name[:20]) < newest:
            log.unlink()

    replay.replay_entries(context, ALL)

    assert context.report.batches[0].read == len(rows) - len(old)
    still_open = {row["_row_id"]: row for row in orders.table(context.quarantine) if row["state"] == "open"}
    assert still_open.keys() == old
    assert {(tuple(row["rules"]), row["_in_hand"]) for row in still_open.values()} == {
        (("null_key(id)", claims.SOURCE_GONE), None)
    }
    again = latest(place)
    replay.replay_entries(again, ALL)
    assert sum(line.read for line in again.report.batches) == 0, "no claim is left"
