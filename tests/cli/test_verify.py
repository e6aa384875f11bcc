"""`tidegate verify` before a JVM starts. Verifications are run by the guide, and in `tests/spark/reprocessing/test_verify.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import Project, orders, stateful_orders
from tidegate.advice import Command
from tidegate.cli.verify import _remedy


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("silver",), "has not written table 'silver.orders' yet, so there is nothing to verify. Run it first"),
        (("silver", "--key", "id"), "key='id' is not allowed; write column=value"),
        (("silver", "--limit", "0"), "limit=0 is not allowed"),
        (("tin",), "no flow 'tin'"),
    ],
)
def test_what_cannot_be_verified_exits_with_64(project: Project, arguments: tuple[str, ...], message: str) -> None:
    project.declare(orders())
    result = project.run("verify", "orders", *arguments)
    assert (result.code, message in result.err) == (64, True), result.err
    assert not list((Path(project.layout.root) / "reports").glob("**/*.request.json")), "no request is stored"


@pytest.mark.parametrize(
    ("flow", "remedy"),
    [(0, "--mode reingest adds files and messages"), (1, "--mode full_refresh derives the table again")],
)
def test_the_remedy_for_a_table_that_differs_is_one_that_applies_to_its_flow(flow: int, remedy: str) -> None:
    assert remedy in _remedy(orders(), orders().flows[flow], {"orders": orders()}).text


def test_after_a_reingest_tables_to_which_rows_were_appended_a_second_time_are_derived_again() -> None:
    pipeline = stateful_orders()
    remedy = _remedy(pipeline, pipeline.flow("bronze"), {"orders": pipeline})
    commands = [part.argv[3:] for part in remedy.parts() if isinstance(part, Command)]
    assert commands == [("--flow", "bronze", "--mode", "reingest"), ("--flow", "parsed", "--mode", "full_refresh")]
    assert "derives the table again, which else has rows twice (silver.parsed)" in remedy.text


def test_a_full_refresh_is_the_remedy_of_a_table_without_keys_whose_flow_has_a_watermark() -> None:
    pipeline = stateful_orders()
    (command,) = _remedy(pipeline, pipeline.flow("parsed"), {"orders": pipeline}).parts()
    assert isinstance(command, Command)
    assert command.argv == ("tidegate", "run", "orders", "--flow", "parsed", "--mode", "full_refresh")
