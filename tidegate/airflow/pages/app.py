"""The FastAPI app behind ``/tidegate``: its routes with their permissions, and its error pages.

The last route matches every other path and requires a session too, so a user who is not logged in cannot find out which paths
exist. Only ``GET`` is served: no page changes anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from tidegate.airflow import components
from tidegate.airflow.access import Authenticated, MaySeeRuns, Permitted, login_url
from tidegate.airflow.pages.headers import STRICT, StrictHeaders
from tidegate.airflow.pages.views import Views
from tidegate.airflow.urls import PREFIX, AppLinks
from tidegate.environment import Environment
from tidegate.errors import MachineError, classify
from tidegate.pages import render

_OWN = Path(__file__).parent / "assets"
_ASSETS = {path.name: path for path in (render.STYLE_SHEET, *_OWN.iterdir())}
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


def build(environment: Environment) -> FastAPI:
    """The app, to be mounted into Airflow's app.

    It must be built in the serving process, after any fork: it holds threads and an in-memory database.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.include_router(_routes(Views(environment, components.silent)))
    app.add_middleware(StrictHeaders)
    app.add_exception_handler(StarletteHTTPException, _refuse)
    app.add_exception_handler(RequestValidationError, _not_found)
    app.add_exception_handler(Exception, _crashed)
    return app


def _routes(views: Views) -> APIRouter:
    router = APIRouter(default_response_class=HTMLResponse)

    @router.get("/", dependencies=[Authenticated])
    def overview(
        request: Request,
        permitted: Permitted,
        q: Annotated[str, Query(max_length=100)] = "",
        state: Annotated[str, Query(max_length=20)] = "",
    ) -> HTMLResponse:
        return _page(request, "overview.html", views.overview(permitted, q, state))

    _add_pages(router, views)

    @router.get("/assets/{name}", dependencies=[Authenticated])
    def assets(name: str) -> Response:
        if name not in _ASSETS:
            _missing()
        return FileResponse(_ASSETS[name])

    @router.api_route("/{path:path}", methods=_METHODS, dependencies=[Authenticated])
    def not_found(path: str) -> Response:
        _missing()

    return router


def _add_pages(router: APIRouter, views: Views) -> None:
    """The routes of pipelines, flows, batches, runs and tasks."""

    @router.get("/pipelines/{dag_id}", dependencies=[MaySeeRuns])
    def pipeline(request: Request, dag_id: str) -> HTMLResponse:
        if not views.is_declared(dag_id):
            return _page(request, "no_pipeline.html", {"name": dag_id})
        return _page(request, "pipeline.html", views.pipeline(dag_id))

    @router.get("/pipelines/{dag_id}/flows/{flow}", dependencies=[MaySeeRuns])
    def flow(
        request: Request, dag_id: str, flow: str, page: Annotated[int, Query(ge=1, le=100_000)] = 1
    ) -> HTMLResponse:
        return _page(request, "flow.html", views.flow(dag_id, flow, page))

    @router.get("/pipelines/{dag_id}/flows/{flow}/{batch}", dependencies=[MaySeeRuns])
    def batch(request: Request, dag_id: str, flow: str, batch: str) -> HTMLResponse:
        return _page(request, "batch.html", views.batch(dag_id, flow, batch))

    @router.get("/pipelines/{dag_id}/tasks/{task_id}", dependencies=[MaySeeRuns])
    def task(request: Request, dag_id: str, task_id: str) -> HTMLResponse:
        if views.is_flow(dag_id, task_id):
            return flow(request, dag_id, task_id)
        return pipeline(request, dag_id)

    @router.get("/pipelines/{dag_id}/runs/{run_id}", dependencies=[MaySeeRuns])
    def run(request: Request, dag_id: str, run_id: str) -> HTMLResponse:
        if not views.is_declared(dag_id):
            return _page(request, "no_pipeline.html", {"name": dag_id})
        return _page(request, "run.html", views.run(dag_id, run_id))

    @router.get("/pipelines/{dag_id}/runs/{run_id}/tasks/{task_id}", dependencies=[MaySeeRuns])
    def task_of_run(request: Request, dag_id: str, run_id: str, task_id: str) -> HTMLResponse:
        if not views.is_flow(dag_id, task_id):
            return run(request, dag_id, run_id)
        return _page(request, "run.html", views.run(dag_id, run_id, task_id))


def _page(request: Request, template: str, context: dict[str, object], status: int = 200) -> HTMLResponse:
    root = request.scope.get("root_path", "")
    urls = {"root": root, "airflow": root.removesuffix(PREFIX), "address": str(request.url.path)}
    return HTMLResponse(render.page(template, AppLinks(root), **urls, **context), status_code=status)


def _missing() -> NoReturn:
    raise HTTPException(404, "Page not found.")


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    # Redirect only a top-level document: in a frame the login page would lead to Airflow inside its own frame.
    if error.status_code == 401 and request.headers.get("Sec-Fetch-Dest") == "document":
        query = f"?{urlencode(request.query_params.multi_items())}" if request.query_params else ""
        return RedirectResponse(login_url(f"{request.url.path}{query}"), status_code=303)
    title = {
        401: "Your session has ended. Reload this window to log in again.",
        403: "You have no permission to see this pipeline. Ask for the permission to read its DAG and its runs.",
        404: "Page not found.",
    }.get(error.status_code, "The request failed.")
    return _page(request, "message.html", {"title": title, "code": error.status_code}, error.status_code)


async def _not_found(request: Request, error: Exception) -> Response:
    return _page(request, "message.html", {"title": "Page not found.", "code": 404}, 404)


async def _crashed(request: Request, error: Exception) -> Response:
    # This handler runs outside of the middleware, so the headers are added here. Airflow logs the error.
    title, code = "This page could not be rendered. See the log of Airflow's API server.", 500
    if isinstance(cause := classify(error), MachineError):
        title, code = cause.message, 503 if cause.transient else 500
    response = _page(request, "message.html", {"title": title, "code": code}, code)
    response.headers.update(STRICT)
    return response
