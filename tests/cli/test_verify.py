"""`tidegate verify` before a JVM starts. Verifications are run by the guide, and in `tests/spark/reprocessing/test_verify.py`."""

from __future__ import annotations

import pytest

from tests.cli.project import Project, orders


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
    assert not list((project.layout.lake / "reports").glob("**/*.request.json")), "no request is stored"
