"""`tidegate state show` before a JVM starts. States are read by the guide, and in `tests/spark/reprocessing/test_stored_state.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import Project, stateful_orders


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("parsed",), "flow 'parsed' keeps no state; stateful flows of this pipeline: silver"),
        (("silver", "--key", "order_id"), "key='order_id' is not allowed; write column=value"),
        (("silver", "--limit", "0"), "limit=0 is not allowed"),
        (("tin",), "no flow 'tin'"),
    ],
)
def test_what_has_no_state_to_show_exits_with_64(project: Project, arguments: tuple[str, ...], message: str) -> None:
    project.declare(stateful_orders())
    result = project.run("state", "show", "orders", *arguments)
    assert (result.code, message in result.err) == (64, True), result.err
    assert not list((Path(project.layout.root) / "reports").glob("**/*.request.json")), "no request is stored"
