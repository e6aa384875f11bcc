"""Every page needs a session and permissions, and every response has the security headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.airflow.lake import Lake
from tidegate.airflow.pages.headers import POLICY

if TYPE_CHECKING:
    from tests.airflow.pages.conftest import Client

pytestmark = pytest.mark.airflow

BATCH = "/pipelines/flights/flows/silver/v1-0-batch-0"
PAGES = ("/", "/pipelines/flights", "/pipelines/flights/flows/silver", BATCH, "/pipelines/flights/runs/manual__1")


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """A lake with one batch, whose counts are recognizable."""
    lake.batch("flights", "silver", 0, read=777_123, written=777_123)
    return lake


def addresses(routes: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every method and path of an app, mounts included, with a value for each parameter."""
    for route in routes:
        path = prefix + route.path
        if getattr(route, "app", None) is not None and hasattr(route.app, "routes"):
            yield from addresses(route.app.routes, path)
            continue
        for name in getattr(route, "param_convertors", {}):
            for form in (f"{{{name}}}", f"{{{name}:path}}"):
                path = path.replace(form, {"dag_id": "flights", "flow": "silver"}.get(name, "index.html"))
        for method in getattr(route, "methods", None) or ["GET"]:
            yield method, path


def routes() -> list[tuple[str, str]]:
    from tidegate.airflow.plugin import TidegatePlugin

    return sorted(set(addresses(TidegatePlugin.fastapi_apps[0]["app"].app().routes, "/tidegate")))


def test_every_route_answers_401_without_a_session(client: Client, lake: Lake) -> None:
    outside = client(None)
    paths = routes()
    assert len(paths) > 10
    for method, path in [*paths, ("GET", "/tidegate/docs"), ("GET", "/tidegate/openapi.json"), ("GET", "/tidegate/x")]:
        answer = outside.request(method, path)
        assert answer.status_code == 401, (method, path)
        assert "777,123" not in answer.text


def test_a_forged_session_is_refused(client: Client, lake: Lake) -> None:
    forged = client(None)
    forged.cookies.set("_token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJl")
    assert {forged.get(f"/tidegate{path}").status_code for path in PAGES} <= {401, 403}


def test_a_top_level_window_is_redirected_to_the_login_and_back(client: Client, lake: Lake) -> None:
    answer = client(None).get("/tidegate/?q=gold", headers={"Sec-Fetch-Dest": "document"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/auth/login?next=%2Ftidegate%2F%3Fq%3Dgold"
    framed = client(None).get("/tidegate/", headers={"Sec-Fetch-Dest": "iframe"})
    assert framed.status_code == 401
    assert "Reload this window to log in again" in framed.text


def test_every_response_has_the_security_headers(client: Client, lake: Lake) -> None:
    viewer, outside = client(), client(None)
    answers = [viewer.get(f"/tidegate{path}") for path in (*PAGES, "/assets/pages.css", "/assets/pages.js")]
    assert {answer.status_code for answer in answers} == {200}
    answers += [viewer.get("/tidegate/x"), viewer.post("/tidegate/"), viewer.get("/tidegate/?q=" + "x" * 101)]
    answers += [outside.get("/tidegate/"), outside.get("/tidegate/", headers={"Sec-Fetch-Dest": "document"})]
    for answer in answers:
        assert answer.headers["content-security-policy"] == POLICY, answer.url
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_an_internal_error_shows_no_details_and_has_the_security_headers(
    client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a value of the data")

    monkeypatch.setattr("tidegate.airflow.pages.views.Views.overview", fail)
    answer = client(raise_server_exceptions=False).get("/tidegate/")
    assert answer.status_code == 500
    assert "a value of the data" not in answer.text
    assert answer.headers["content-security-policy"] == POLICY


def test_only_get_requests_are_served(client: Client, lake: Lake) -> None:
    admin = client("admin", "admin")
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert {admin.request(method, f"/tidegate{path}").status_code for path in PAGES} == {404}


def test_the_overview_hides_a_dag_whose_runs_the_user_may_not_see(
    client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    original = SimpleAuthManager.is_authorized_dag

    def no_runs(self: SimpleAuthManager, *, access_entity: Any = None, **options: Any) -> bool:
        return access_entity != DagAccessEntity.RUN and original(self, access_entity=access_entity, **options)

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", no_runs)
    viewer = client()
    assert viewer.get("/tidegate/pipelines/flights").status_code == 403
    overview = viewer.get("/tidegate/")
    assert overview.status_code == 200
    assert "silver.flights" not in overview.text


def test_a_user_with_permission_for_one_dag_sees_only_that_one(
    client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    original = SimpleAuthManager.is_authorized_dag

    def only_flights(self: SimpleAuthManager, *, details: Any = None, **options: Any) -> bool:
        allowed = details is not None and details.id == "flights"
        return allowed and original(self, details=details, **options)

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", only_flights)
    lake.batch("clickstream", "silver", 0, read=777_123, written=777_123)
    viewer = client()
    overview = viewer.get("/tidegate/").text
    assert "silver.flights" in overview
    assert "clickstream" not in overview
    assert viewer.get("/tidegate/pipelines/flights").status_code == 200
    for path in (
        "",
        "/flows/silver",
        "/tasks/silver",
        "/runs/manual__1",
        "/runs/manual__1/tasks/silver",
        "/flows/silver/v1-0-batch-0",
    ):
        answer = viewer.get(f"/tidegate/pipelines/clickstream{path}")
        assert answer.status_code == 403, path
        assert "777,123" not in answer.text


@pytest.mark.parametrize(
    "name", ["..%2fapp.py", "%2e%2e", "%2fetc%2fpasswd", "..%5capp.py", "pages.css%00.png", "app.py", ""]
)
def test_only_the_assets_of_the_pages_are_served(client: Client, lake: Lake, name: str) -> None:
    viewer = client()
    assert viewer.get("/tidegate/assets/pages.css").headers["content-type"].startswith("text/css")
    assert viewer.get(f"/tidegate/assets/{name}").status_code == 404


@pytest.mark.parametrize("dag_id", ["%2e%2e", "..%2f_ops", "unknown", "."])
@pytest.mark.parametrize("page", ["v1-0-batch-0", "v1-0-batch-1", "..%2f..%2flake.json", "v1-0-batch-0%00"])
def test_a_batch_is_only_found_by_its_pipeline_flow_and_name(
    client: Client, lake: Lake, dag_id: str, page: str
) -> None:
    viewer = client()
    assert "777,123 rows read" in viewer.get(f"/tidegate{BATCH}").text
    assert viewer.get(f"/tidegate/pipelines/{dag_id}/flows/silver/{page}").status_code == 404
    for path in ("flights/flows/gold", "flights/flows/other", "clickstream/flows/silver"):
        assert viewer.get(f"/tidegate/pipelines/{path}/{page}").status_code == 404
    if page != "v1-0-batch-0":
        assert viewer.get(f"/tidegate/pipelines/flights/flows/silver/{page}").status_code == 404
