"""The history of a table in a lake of the test."""

import pytest

from tidegate.testing import Lake

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.usefixtures("spark")]

HEADER = "carrier,name,published_on\n"
FLOWS = ("bronze_airlines", "airlines")


def test_a_renamed_airline_has_its_new_name_and_a_late_older_one_changes_nothing(lake: Lake) -> None:
    lake.land("airlines/1.csv", HEADER + "UA,United,2013-01-01T00:00:00Z\nAA,American,2013-01-01T00:00:00Z\n")
    lake.run("delays", FLOWS)
    lake.land(
        "airlines/2.csv", HEADER + "UA,United Air Lines Inc.,2013-01-03T00:00:00Z\n,Nobody,2013-01-03T00:00:00Z\n"
    )
    lake.land("airlines/3.csv", HEADER + "UA,Late Airlines,2013-01-02T00:00:00Z\n")
    report = lake.run("delays", FLOWS)

    assert [flow.error for flow in report.flows] == [None, None]
    names = {row["carrier"]: row["name"] for row in lake.table("silver.airlines").to_pylist()}
    assert names == {"AA": "American", "UA": "United Air Lines Inc."}
    assert lake.quarantined("airlines", "delays")["rules"].to_pylist() == [["required(carrier)"]]
    lake.expect_a_balanced_ledger("delays")
