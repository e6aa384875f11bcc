"""Rows are followed up and down through a real lake: updates, filters, quarantine and replay, groups, a swap.

Nightly, because it runs eight flows. Per merge, single cases are tested by `tests/cli/test_trace.py` and `tests/trace`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.orders import Declare, Orders
from tidegate.errors import RequestError
from tidegate.project import fingerprints, resolution
from tidegate.trace.lineage import Lineage
from tidegate.trace.records import Record, find
from tidegate.trace.step import Step

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

FILTERING = '"amount", F.when(F.col("amount") < 0, F.lit("negative")).alias("_filtered")'


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return tmp_path / "spark_jobs" / "orders.py"


def lineage(orders: Orders) -> Lineage:
    """A new one for each question, as in a command."""
    environment = orders.deployment.environment
    return Lineage(layout=orders.deployment.layout, pipelines=resolution.load_all(environment.project))


def row(orders: Orders, table: str, **key: str) -> Step:
    (step,) = lineage(orders).up(table, key)
    return step


def record(orders: Orders, file: str, line: int) -> Step:
    """What silver made of a record."""
    chosen = Record.of(orders.deployment.layout, f"orders/{file}", line, None)
    assert chosen is not None
    (step,) = find(lineage(orders), chosen)
    assert (step.table, step.state, step.key["_line_number"]) == ("bronze.orders", "present", line)
    (silver,) = step.next
    return silver


def order(number: int, at: str, amount: float) -> dict[str, Any]:
    return {"id": number, "at": at, "amount": amount}


def labels(step: Step) -> list[tuple[str, int, str]]:
    return [
        (change.kind, change.version, change.batch.line.label) for change in step.changes if change.batch is not None
    ]


def test_rows_are_followed_up_and_down_through_the_whole_history_of_a_lake(
    orders: Orders, declare: Declare, code: Path
) -> None:
    declare(columns=FILTERING)
    code.write_text(code.read_text().replace('"id"', 'F.expr("nullif(id, 9)").alias("id")'))
    first_code = fingerprints.code_fingerprint(code)
    orders.land(
        *(order(number, "2026-01-01", 1) for number in (1, 2)), order(3, "2026-01-01", -1), order(9, "2026-01-01", 4)
    )
    orders.run("bronze", "silver", "gold")
    orders.land(order(1, "2026-01-03", 10), order(2, "2025-12-31", 20))
    orders.run("bronze")

    # A record that no flow has read.
    unread = record(orders, "2.json", 1).notes
    assert unread[0] == "orders/silver has not read version 1 yet"
    assert unread[1].startswith("silver.orders has id=1, as this record, of ") and unread[1].endswith("#1")
    # A group, with the rows that it was made of and their records.
    group = row(orders, "gold.orders", at="2026-01-01")
    assert (group.state, group.row, group.notes) == ("present", {"at": group.key["at"], "orders": 2}, ())
    assert [(each.key, each.next[0].key["_line_number"]) for each in group.next] == [({"id": 1}, 1), ({"id": 2}, 2)]
    (written,) = group.changes
    assert written.batch is not None
    assert (written.batch.line.label, written.batch.code_fingerprint) == ("batch 0", first_code)
    # A row of which there is only a quarantine entry.
    quarantined = row(orders, "silver.orders", id="9")
    assert (quarantined.state, [entry["rules"] for entry in quarantined.entries]) == ("quarantined", [["null_key(id)"]])
    assert record(orders, "1.json", 4).state == "quarantined"
    with pytest.raises(RequestError, match="has no row with id=77"):
        row(orders, "silver.orders", id="77")

    orders.run("silver")

    # An update: the key has both records, each record says what became of it, and the group is behind.
    updated = row(orders, "silver.orders", id="1")
    assert labels(updated) == [("insert", 0, "batch 0"), ("update_postimage", 1, "batch 1")]
    assert [change.row["_row_id"].rpartition("/")[2][:6] for change in updated.changes] == ["1.json", "2.json"]
    assert updated.next[0].key["_path"].endswith("/2.json")
    replaced = record(orders, "1.json", 1)
    assert (replaced.state, replaced.key, labels(replaced)) == ("replaced", {"id": 1}, labels(updated))
    behind = row(orders, "gold.orders", at="2026-01-01")
    assert behind.notes == ("orders/gold has not read changes of these rows yet (version 1 of silver.orders)",)
    assert (behind.row, behind.counts) == (group.row, {"silver.orders": 1}), "order 1 has left the group"
    # Filtered, superseded.
    assert record(orders, "1.json", 3).notes == (
        "batch 0 read it, among 4 rows; it is in the number of those that were filtered by negative: 1",
    )
    assert record(orders, "2.json", 2).notes[0] == (
        "batch 1 read it, among 2 rows; it is in the number of those that were superseded: 1"
    )

    # A replay with corrected code.
    declare(columns=FILTERING)
    assert orders.deployment.replay("silver", "orders").error is None
    replayed = row(orders, "silver.orders", id="9")
    assert labels(replayed) == [("insert", 2, "replay 0")]
    assert replayed.changes[0].batch is not None
    assert replayed.changes[0].batch.code_fingerprint == fingerprints.code_fingerprint(code) != first_code
    assert [entry["state"] for entry in replayed.entries] == ["replayed"]
    assert record(orders, "1.json", 4).state == "present"

    # A swap: rows that the new code changes name the batch that built them in staging.
    declare(columns=FILTERING.replace('"amount"', '(F.col("amount") * 2).alias("amount")', 1), version=2)
    orders.run("silver")
    (*_, swapped) = row(orders, "silver.orders", id="1").changes
    assert swapped.batch is not None and swapped.staged is not None
    assert (swapped.batch.line.label, swapped.staged.line.label) == ("swap", "batch 0")
    assert swapped.staged.line.app_id == "orders/silver/v2/0"
    assert swapped.staged.code_fingerprint == fingerprints.code_fingerprint(code)
