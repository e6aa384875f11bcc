"""`tidegate snapshots`: how snapshots beside changes differed, with keys for those who ask. Starts no JVM."""

from __future__ import annotations

import pytest

from tests.cli.project import Project, orders
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.reports.report import DifferingRow
from tidegate.sources.snapshots.beside import COMPARISONS, Comparison

pytestmark = pytest.mark.slow


def test_the_newest_comparisons_are_printed_with_the_keys_that_differ(project: Project) -> None:
    project.declare(orders())
    assert project.run("snapshots", "orders", "silver").out.strip() == "No snapshot was compared with silver.orders."
    place = FlowPlace(Layout.of(project.environment), "orders", "silver")
    rows = (
        DifferingRow(effect="different", key='{"order_id":"A-2"}', columns=("amount",)),
        DifferingRow(effect="missing", key='{"order_id":"A-3"}'),
    )
    for number, why in enumerate(("it has no rows, and so no position", "")):
        compared = Comparison(
            name=f"2026-01-0{number + 5}",
            position=("7",),
            why=why,
            equal=3,
            missing=1,
            different=1,
            unexpected=0,
            overtaken=2,
            rows=rows,
        )
        COMPARISONS.write(place, number, compared)

    summary = "3 equal, 1 missing, 1 different, 0 unexpected, 2 with a later change"
    assert project.run("snapshots", "orders", "silver", "--last", "1", "--rows", "1").out.splitlines() == [
        f"2026-01-06  {summary}; written",
        '  different   {"order_id":"A-2"}  (amount)',
        "  … 1 more key",
    ]
    assert project.run("snapshots", "orders", "silver", "--rows", "0").out.splitlines() == [
        f"2026-01-05  {summary}; only compared, because it has no rows, and so no position",
        f"2026-01-06  {summary}; written",
    ]
    document = project.run("snapshots", "orders", "silver", "--json").json
    assert [each["name"] for each in document["snapshots"]] == ["2026-01-05", "2026-01-06"]
    assert document["snapshots"][1]["rows"][1]["key"] == '{"order_id":"A-3"}'
