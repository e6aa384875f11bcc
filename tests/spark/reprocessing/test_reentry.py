"""Quarantined entries go through today's rules once more: once only, in order, and every one in exactly one place."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import date
from typing import Any

import pytest

from demo import checks, flights_feed
from tests.deployment import Deployment
from tidegate import registry
from tidegate.quarantine import claims
from tidegate.report import BatchRecord

pytestmark = pytest.mark.jvm

RECORDS = flights_feed.days()[date(2013, 1, 1)][:60]


def within(minutes: int) -> list[dict[str, Any]]:
    """A suite that quarantines flights that left earlier or later than so many minutes."""
    kwargs = {"column": "dep_delay", "min_value": -minutes, "max_value": minutes}
    return [{"type": "expect_column_values_to_be_between", "kwargs": kwargs, "severity": "warning"}]


def late(more_than: int) -> list[flights_feed.Record]:
    return [record for record in RECORDS if record["dep_delay"] != "NA" and abs(int(record["dep_delay"])) > more_than]


@pytest.fixture
def flights(deployment: Deployment, spark: Any) -> Deployment:
    """Silver of one small day, judged so strictly that many rows are in quarantine."""
    deployment.edit_suite("flights/silver", within(5))
    deployment.land("one.csv", flights_feed._csv(RECORDS))
    deployment.run(flows=["bronze", "silver"])
    assert deployment.quarantined("silver").num_rows == len(late(5)) > 10
    return deployment


def states(flights: Deployment, flow: str = "silver") -> Counter[str]:
    return Counter(flights.quarantined(flow)["state"].to_pylist())


def pages(flights: Deployment) -> dict[str, bytes]:
    folder = flights.layout.docs("flights")
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert any("batch-0" in name for name in found)
    return found


def replays(flights: Deployment) -> list[BatchRecord]:
    lines = [line for line in flights.ledger() if line["kind"] == "replay"]
    assert {line["requested_by"] for line in lines} <= {"ada"}
    return [
        BatchRecord.from_json({**line, "filtered": dict(line["filtered"]), "rules": dict(line["rules"])})
        for line in lines
    ]


def expect_every_row_in_one_place(flights: Deployment) -> None:
    """In silver, open, or older than what silver holds; and the ledger says the same."""
    table = flights.quarantined("silver")
    assert len(set(table["_row_id"].to_pylist())) == table.num_rows
    assert set(table["_in_hand"].to_pylist()) == {None}
    lines = replays(flights)
    assert [line.imbalance() for line in lines] == [0] * len(lines)
    assert checks.set_aside(flights.layout, registry.load("flights")).fine
    still_open = {row["_row_id"] for row in table.to_pylist() if row["state"] == "open"}
    silver = flights.table("silver.flights")["_row_id"].to_pylist()
    assert len(silver) == len(set(silver))
    assert not still_open & set(silver)


def test_what_todays_suite_lets_pass_is_written_and_the_rest_comes_back_as_the_same_entries(
    flights: Deployment,
) -> None:
    newer = {**late(5)[0], "dep_delay": "0", "published_on": "2013-01-09T06:00:00Z"}
    flights.land("two.csv", flights_feed._csv([newer]))
    flights.edit_suite("flights/silver", within(20))
    flights.run(flows=["bronze", "silver"])
    written = flights.table("silver.flights").num_rows

    reports = pages(flights)
    foreseen = flights.replay("silver", dry_run=True)
    assert pages(flights) == reports, "no batch's page is replaced"
    assert (foreseen.dry_run, states(flights)) == (True, {"open": len(late(5))})
    told = flights.replay("silver")

    assert told.error is None
    (line,) = replays(flights)
    assert (line.read, line.quarantined) == (len(late(5)), len(late(20)))
    assert (line.superseded, line.written) == (1, len(late(5)) - len(late(20)) - 1)
    assert [foreseen.total(count) for count in ("read", "written", "quarantined")] == [
        line.read,
        line.written,
        line.quarantined,
    ]
    assert flights.table("silver.flights").num_rows == written + line.written
    kept = [row for row in flights.table("silver.flights").to_pylist() if row["published_on"].day == 9]
    assert [row["dep_delay"] for row in kept] == [0], "an old row never replaces a newer one"
    back = [row for row in flights.quarantined("silver").to_pylist() if row["state"] == "open"]
    assert {(row["attempts"], tuple(row["rules"]), row["changed_by"]) for row in back} == {
        (1, ("between(dep_delay)",), "ada")
    }
    expect_every_row_in_one_place(flights)

    again = flights.replay("silver")
    assert [again.total(count) for count in ("read", "written", "quarantined")] == [
        line.quarantined,
        0,
        line.quarantined,
    ]
    assert flights.replay("silver", rule="malformed_line").state == "idle"
    expect_every_row_in_one_place(flights)


def test_claims_are_bounded_and_a_limit_is_kept(flights: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.spark.reprocessing import reentry

    monkeypatch.setattr(reentry, "ENTRIES_AT_ONCE", 4)
    flights.edit_suite("flights/silver", within(20))
    flights.replay("silver", limit=6)
    assert [line.read for line in replays(flights)] == [4, 2]
    assert [line.batch_id for line in replays(flights)] == [0, 1]
    expect_every_row_in_one_place(flights)


def test_another_attempt_at_the_same_replay_goes_on_where_the_first_stopped(
    flights: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.errors import SourceUnavailableError
    from tidegate.spark.reprocessing import reentry

    monkeypatch.setattr(reentry, "ENTRIES_AT_ONCE", 4)
    flights.edit_suite("flights/silver", within(20))
    work_through, request = reentry.work_through, flights.replay_request("silver", limit=10)

    def away(context: Any, number: int) -> None:
        if number == 1:
            raise SourceUnavailableError("the broker is away")
        work_through(context, number)

    monkeypatch.setattr(reentry, "work_through", away)
    assert flights.try_run(request).flow("silver").error is not None
    monkeypatch.setattr(reentry, "work_through", work_through)
    told = flights.try_run(request).flow("silver")

    assert [line.read for line in replays(flights)] == [4, 4, 2], "the limit is one for all attempts"
    assert max(row["attempts"] for row in flights.quarantined("silver").to_pylist()) == 1, "nothing goes twice"
    assert told.total("read") == 10, "the report tells of the whole replay"
    assert not flights.layout.claim("flights", "silver").exists()
    expect_every_row_in_one_place(flights)


def test_a_replay_that_fails_as_it_would_again_gives_back_what_it_had_in_hand(flights: Deployment) -> None:
    before = flights.quarantined("silver").to_pylist()
    strange = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "no_such_column"}}
    flights.edit_suite("flights/silver", [{**strange, "severity": "critical"}])

    told = flights.replay("silver")

    assert told.error is not None and not told.error["transient"]
    assert claims.in_hand(flights.layout.quarantine("flights", "silver")) is None
    assert states(flights) == {"open": len(before)}
    flights.edit_suite("flights/silver", within(2000))
    assert flights.replay("silver").total("written") == len(before)
    expect_every_row_in_one_place(flights)


def test_an_entry_whose_record_is_gone_stays_open_and_says_so(flights: Deployment) -> None:
    from deltalake import DeltaTable

    lost = flights.quarantined("silver")["_row_id"].to_pylist()[0]
    DeltaTable(str(flights.layout.table("bronze.flights"))).delete(f"_row_id = '{lost}'")
    flights.edit_suite("flights/silver", within(2000))
    told = flights.replay("silver")
    assert told.error is None
    assert told.total("read") == told.total("written") == len(late(5)) - 1
    (row,) = [row for row in flights.quarantined("silver").to_pylist() if row["state"] == "open"]
    assert (row["_row_id"], row["rules"], row["attempts"]) == (lost, ["between(dep_delay)", claims.GONE], 1)
    expect_every_row_in_one_place(flights)


def test_a_file_that_was_mended_in_place_is_read_again_and_a_bad_one_comes_back(
    deployment: Deployment, spark: Any
) -> None:
    packed = gzip.compress(flights_feed._csv(RECORDS))
    mended = deployment.land("mended.csv.gz", packed[: len(packed) // 2])
    deployment.land("bad.csv.gz", packed[: len(packed) // 2])
    deployment.run(flows=["bronze"])
    assert states(deployment, "bronze") == {"open": 2}
    mended.write_bytes(packed)

    told = deployment.replay("bronze")

    assert told.error is None
    (line,) = replays(deployment)
    assert (line.files_listed, line.files_opened, line.files_quarantined, line.read) == (2, 1, 1, len(RECORDS))
    assert states(deployment, "bronze") == {"open": 1, "replayed": 1}
    assert deployment.table("bronze.flights").num_rows == len(RECORDS)
    report = deployment.run()
    assert [flow.error for flow in report.flows] == [None, None, None]
    assert report.flow("silver").total("read") == len(RECORDS)


@pytest.fixture
def punctual(deployment: Deployment, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A row flow behind a keyed table, which keeps all that is not late."""
    import dataclasses

    import spark_jobs.flights
    from pipelines import flights as declared
    from tidegate.spec import ChangeFeed, Flow, Gate, Table

    monkeypatch.setattr(spark_jobs.flights, "punctual", lambda rows: rows, raising=False)
    punctual = Flow(
        name="punctual",
        source=ChangeFeed("silver.flights"),
        transform="flights:punctual",
        target=Table("silver.punctual", keys=("flight_id",), sequence_by=("published_on",)),
        gate=Gate("flights/punctual"),
    )
    flows = (*declared.pipeline.flows[:2], punctual)
    monkeypatch.setattr(declared, "pipeline", dataclasses.replace(declared.pipeline, flows=flows))
    deployment.edit_suite("flights/silver", within(2000))
    deployment.edit_suite("flights/punctual", within(5))
    for name, records in (("one.csv", RECORDS[:30]), ("two.csv", RECORDS[30:])):
        deployment.land(name, flights_feed._csv(records))
        report = deployment.run()
        assert [flow.error for flow in report.flows] == [None, None, None]
    assert states(deployment, "punctual") == {"open": len(late(5))}
    return deployment


def test_entries_older_than_the_log_of_their_keyed_table_come_back_and_stop_no_other(punctual: Deployment) -> None:
    from deltalake import DeltaTable

    table = punctual.layout.table("silver.flights")
    entries = punctual.quarantined("punctual").to_pylist()
    newest = DeltaTable(str(table)).version()
    old = {row["_row_id"] for row in entries if json.loads(row["source"])["version"] < newest}
    assert 0 < len(old) < len(entries)
    # What Delta does when the log is older than its retention.
    DeltaTable(str(table)).create_checkpoint()
    for log in (table / "_delta_log").glob("*"):
        if log.name[:20].isdigit() and int(log.name[:20]) < newest:
            log.unlink()
    punctual.edit_suite("flights/punctual", within(2000))

    told = punctual.replay("punctual")

    assert told.error is None
    assert told.total("written") == len(entries) - len(old)
    kept = {row["_row_id"]: row for row in punctual.quarantined("punctual").to_pylist() if row["state"] == "open"}
    assert kept.keys() == old
    assert {(tuple(row["rules"]), row["_in_hand"]) for row in kept.values()} == {
        (("between(dep_delay)", claims.GONE), None)
    }
    again = punctual.replay("punctual")
    assert (again.error, again.total("read")) == (None, 0), "nothing is left in hand, and nothing is stuck"


def test_changes_of_a_keyed_table_are_replayed_from_its_first_load_and_from_its_feed(punctual: Deployment) -> None:
    deployment = punctual
    deployment.edit_suite("flights/punctual", within(20))

    told = deployment.replay("punctual")

    assert told.error is None
    assert (told.total("read"), told.total("quarantined")) == (len(late(5)), len(late(20)))
    held, made = deployment.table("silver.flights").to_pylist(), deployment.table("silver.punctual").to_pylist()
    passed = {row["flight_id"]: row for row in held if row["dep_delay"] is None or abs(row["dep_delay"]) <= 20}
    columns = [name for name in held[0] if not name.startswith("_")]
    assert {row["flight_id"]: [row[name] for name in columns] for row in made} == {
        key: [row[name] for name in columns] for key, row in passed.items()
    }


def test_a_version_that_judges_all_records_anew_retires_the_entries_of_the_old_one(
    flights: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from pipelines import flights as declared

    flows = tuple(
        dataclasses.replace(flow, checkpoint_version=2) if flow.name == "silver" else flow
        for flow in declared.pipeline.flows
    )
    monkeypatch.setattr(declared, "pipeline", dataclasses.replace(declared.pipeline, flows=flows))
    refused = flights.replay("silver")
    assert refused.error is not None
    assert "Run the flow first" in refused.error["message"]
    flights.run(flows=["silver"])
    assert states(flights) == {"expired": len(late(5)), "open": len(late(5))}
    retired = [(line["flow"], line["closed"]) for line in flights.ledger() if line["kind"] == "retire"]
    assert retired == [("silver", len(late(5)))]
    flights.edit_suite("flights/silver", within(2000))
    assert flights.replay("silver").total("written") == len(late(5))
    assert states(flights) == {"expired": len(late(5)), "replayed": len(late(5))}
