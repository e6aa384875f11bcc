"""A server that answers everything in one way is an error, and never a lake in which nothing is to be done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.resolved import resolved
from tests.serving import serving
from tests.status.sample_project import TRIPS, SampleProject
from tidegate.environment import Environment
from tidegate.errors.classification import classify
from tidegate.errors.object_storage import ANSWERS
from tidegate.lake.layout import Layout
from tidegate.status import flow_status, plan

KEYS = {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret"}
FINAL = [
    (code, cause.meaning) for codes, cause in ANSWERS for code in codes if code.isdigit() and not cause.kind.transient
]


@contextmanager
def answering(status: int) -> Iterator[str]:
    """The address of a server that answers every request so, without a word."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response_only(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}"


def lake_at(endpoint: str, folder: Path, name: str = "TIDEGATE_LAKE") -> Environment:
    """A project whose lake, or landing zone, is in a bucket of a server."""
    local = SampleProject(folder)
    local.layout.open()
    where = {"TIDEGATE_LAKE": str(folder / "lake"), "TIDEGATE_LANDING": str(folder / "landing"), name: "s3://bucket/x"}
    return Environment.read(
        {**KEYS, **where, "AWS_ENDPOINT_URL_S3": endpoint, "TIDEGATE_PROJECT": str(folder / "project")}
    )


@pytest.mark.parametrize(("status", "meaning"), FINAL)
def test_a_lake_of_such_a_server_is_not_taken_for_an_empty_one(tmp_path: Path, status: str, meaning: str) -> None:
    with answering(int(status)) as endpoint:
        environment = lake_at(endpoint, tmp_path)
        pipeline = resolved(TRIPS, environment.project)
        acts: dict[str, Callable[[], object]] = {
            "create": lambda: Layout.of(environment).open(),
            "plan": lambda: plan.check_and_decide(environment, pipeline, TRIPS.flows),
            "status": lambda: flow_status.gather(environment, [("trips", pipeline)], 30.0),
        }
        for name, act in acts.items():
            with pytest.raises(OSError, match="s3://bucket/x") as refused:
                act()
            assert meaning in str(classify(refused.value)), name


@pytest.mark.parametrize(("status", "meaning"), FINAL)
def test_a_landing_zone_of_such_a_server_is_not_taken_for_an_empty_one(
    tmp_path: Path, status: str, meaning: str
) -> None:
    with answering(int(status)) as endpoint:
        environment = lake_at(endpoint, tmp_path, "TIDEGATE_LANDING")
        planned = plan.check_and_decide(environment, resolved(TRIPS, environment.project), TRIPS.flows)
    [error] = planned.errors
    assert (planned.work, error.exit_code) == (False, 78)
    assert "s3://bucket/x/trips" in error.message
