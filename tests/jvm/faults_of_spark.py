"""A table of faults between Spark and a server: by kind of object, operation, and before or after the effect.

Each is aimed at one request of each kind. Whatever becomes of them, all rows are in the table once: after this run, or after the next ones
behind errors that say what they are: most may be tried again. Only with ``--lake=s3``, by which `test_local_tests_in_buckets` runs it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.deployment import Deployment
from tests.lakes_in_buckets import LakesInBuckets
from tests.slices import of_week
from tests.spark.kinds.payments import Payments, sums
from tests.spark.orders import DECLARATION, JOB, SCHEMA
from tests.store.test_fault_table import FAULTS, OF_READS, OF_WRITES, Fault
from tidegate.errors import EX_SOFTWARE
from tidegate.errors.classification import classify
from tidegate.lake.place import FlowPlace
from tidegate.reports.report import ErrorReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).parents[2]
OUTCOMES = os.environ.get("OUTCOMES", "")
"""A file for a line per fault: what became of the run."""
WRITES = {
    "commit of a table": r"/gold/windows/_delta_log/\d{20}\.json$",
    "file of a table": r"/gold/windows/.*\.parquet$",
    "offsets": r"/offsets/\d+$",
    "commits": r"/commits/\d+$",
    "state": r"/state/.*\.changelog$",
}
READS = {
    "log of a table": r"/_delta_log/\d{20}\.json$",
    "file of a table": r"/tables/.*\.parquet$",
    "offsets": r"/offsets/\d+$",
    "state": r"/state/.*(\.changelog|\.zip|\.sst|schema)",
}
LISTINGS = {"log of a table": r"list-type.*_delta_log", "checkpoint": r"list-type.*checkpoints"}
Kind = tuple[str, str, str]
"""Operation, kind of object, and a regular expression of its path."""


def of_operations(**paths: dict[str, str]) -> list[Kind]:
    return [(operation, kind, path) for operation, own in paths.items() for kind, path in own.items()]


def faults_of(operation: str) -> dict[str, Fault]:
    more = {"PUT": OF_WRITES, "GET": OF_READS, "LIST": {"truncated": OF_READS["truncated"]}}
    return {**FAULTS, **more[operation]}


OF_FILES = of_operations(
    PUT={"log of the source": r"/sources/0/\d+$"},
    GET={"landed file": r"/landing/orders/.*\.json$"},
    LIST={"landing zone": r"list-type.*landing"},
)
"""Of a flow that reads files; the others are of one with state."""
OF_PEOPLE = {"clock of 20 minutes before", "404 just behind a listing"}
"""Faults after which a person may have to look; nothing is written, and the next run goes on."""
NAMES = [*FAULTS, *OF_WRITES, *OF_READS]


def meet(lakes: LakesInBuckets, name: str, kinds: list[Kind], run: Callable[[], ErrorReport | None]) -> None:
    """Run until the rows are there, and each kind of request has met the fault: again where an error says that it may be tried again."""
    aimed = {}
    for operation, kind, path in kinds:
        if (make := faults_of(operation).get(name)) is not None:
            aimed[operation, kind] = lakes.proxy.fail(make("GET" if operation == "LIST" else operation, path))
    outcomes: dict[tuple[str, str], str] = {}
    try:
        for _ in range(len(aimed) + 1):
            error = run()
            outcome = "done" if error is None else f"{error.exit_code} {error.kind}"
            outcomes |= {cell: outcome for cell, fault in aimed.items() if fault.fired and cell not in outcomes}
            if error is None:
                break
            assert error.transient or (name in OF_PEOPLE and error.exit_code != EX_SOFTWARE), error
        assert error is None
        never = [cell for cell, fault in aimed.items() if not fault.fired]
        assert never == [], "a cell that never fired proves nothing"
    finally:
        lakes.proxy.forget(aimed.values())
        if OUTCOMES:
            with Path(OUTCOMES).open("a") as file:
                for cell, fault in aimed.items():
                    file.write(json.dumps([name, *cell, fault.fired, outcomes.get(cell, "")]) + "\n")


@pytest.fixture(scope="module")
def payments(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Payments:
    made = Payments(spark, tmp_path_factory.mktemp("stateful"))
    made.add(("first", "c", 1, 1))
    made.run()
    return made


@pytest.mark.parametrize("name", of_week(NAMES, 3))
def test_every_window_is_in_the_table_once_whatever_fault_requests_of_spark_meet(
    payments: Payments, lakes: LakesInBuckets, name: str
) -> None:
    number = len(payments.rows)
    # Not at the end of a window: the watermark is a millisecond lower.
    payments.add((f"r{number}", "c", number, 20 * number + 1))

    def run() -> ErrorReport | None:
        try:
            payments.run()
        except Exception as error:
            return ErrorReport.of(classify(error))
        return None

    meet(lakes, name, of_operations(PUT=WRITES, GET=READS, LIST=LISTINGS), run)
    assert payments.table() == sums(payments.rows, 20 * number - 9)
    lines = [(line["app_id"], line["batch_id"]) for line in payments.ledger()]
    assert len(lines) == len(set(lines))


@pytest.fixture(scope="module")
def orders(
    spark: SparkSession, lakes: LakesInBuckets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    import pipelines
    import spark_jobs

    folder = tmp_path_factory.mktemp("orders")
    texts = {
        "pipelines": DECLARATION.format(contract="Contract()", schema=SCHEMA, version=1, format="json"),
        "spark_jobs": JOB,
    }
    with pytest.MonkeyPatch.context() as patch:
        for package in (pipelines, spark_jobs):
            own = folder / package.__name__
            own.mkdir()
            (own / "orders.py").write_text(texts[package.__name__].replace("{columns}", '"amount"'))
            patch.setattr(package, "__path__", [*package.__path__, str(own)])
        Deployment.make(folder, PROJECT)
        yield Deployment.of(folder, PROJECT, TIDEGATE_LANDING=lakes.landing(folder))


def files_in_quarantine(orders: Deployment) -> set[int]:
    """The numbers of the landed files that are in quarantine as a whole."""
    if not FlowPlace(orders.layout, "orders", "bronze").quarantine.exists():
        return set()
    entries = orders.quarantined("bronze", "orders").to_pylist()
    return {int(Path(json.loads(entry["source"])["path"]).stem) for entry in entries if entry["level"] == "file"}


@pytest.mark.parametrize("name", of_week(NAMES, 3))
def test_every_landed_row_is_in_the_table_or_in_quarantine_once_whatever_fault_requests_of_spark_meet(
    orders: Deployment, lakes: LakesInBuckets, name: str
) -> None:
    landing = orders.layout.landing("orders")
    number = len(list(landing.walk()))
    (landing / f"{number}.json").put(json.dumps({"id": number, "at": "2026-01-01", "amount": 1.5}).encode())

    meet(lakes, name, OF_FILES, lambda: orders.run("orders", ["bronze"]).flow("bronze").error)
    lines = orders.table("bronze.orders")["line"].to_pylist()
    vanished = files_in_quarantine(orders)
    assert (number in vanished) == (name == "404 just behind a listing")
    assert sorted(json.loads(line)["id"] for line in lines) == [
        each for each in range(number + 1) if each not in vanished
    ]
    orders.expect_a_balanced_ledger("orders")
