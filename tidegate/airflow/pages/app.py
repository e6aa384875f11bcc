"""The app behind ``/tidegate``: its routes, each with its permission, and what it answers to who has none.

Whatever is not a route is answered by the last one, which asks for a session too: logged out, nothing can be told from
nothing. Only ``GET`` is served, so no page can change anything.
"""

from __future__ import annotations

from typing import Annotated, NoReturn
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from tidegate.airflow.access import Authenticated, MaySeeRuns, Permitted, login_url
from tidegate.airflow.pages import files, render
from tidegate.airflow.pages.headers import STRICT, StrictHeaders
from tidegate.airflow.pages.views import Views
from tidegate.airflow.places import PREFIX
from tidegate.environment import Environment
from tidegate.layout import Layout

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


def build(environment: Environment) -> FastAPI:
    """The app, to be mounted into Airflow's.

    It must be built in the process that serves it, after any fork: it holds threads and a database in memory.

    Args:
        environment: Where lake and sources are.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.include_router(_routes(Views(environment), Layout.of(environment)))
    app.add_middleware(StrictHeaders)
    app.add_exception_handler(StarletteHTTPException, _refuse)
    app.add_exception_handler(RequestValidationError, _not_found)
    app.add_exception_handler(Exception, _crashed)
    return app


def _routes(shown: Views, layout: Layout) -> APIRouter:
    router = APIRouter(default_response_class=HTMLResponse)

    @router.get("/", dependencies=[Authenticated])
    def overview(
        request: Request,
        permitted: Permitted,
        q: Annotated[str, Query(max_length=100)] = "",
        state: Annotated[str, Query(max_length=20)] = "",
    ) -> HTMLResponse:
        return _page(request, "overview.html", shown.overview(permitted, q, state))

    _add_pages(router, shown)
    _add_reports(router, shown, layout)

    @router.get("/assets/{name}", dependencies=[Authenticated])
    def assets(name: str) -> Response:
        found = files.find(render.ASSETS, name, files.OF_PAGES)
        if found is None:
            _missing()
        return FileResponse(found[0], media_type=found[1])

    @router.api_route("/{path:path}", methods=_METHODS, dependencies=[Authenticated])
    def nothing(path: str) -> Response:
        _missing()

    return router


def _add_pages(router: APIRouter, shown: Views) -> None:
    """Of one pipeline, its flows, runs and tasks."""

    @router.get("/pipelines/{dag_id}", dependencies=[MaySeeRuns])
    def pipeline(request: Request, dag_id: str) -> HTMLResponse:
        if not shown.is_declared(dag_id):
            return _page(request, "no_pipeline.html", {"dag_id": dag_id})
        return _page(request, "pipeline.html", shown.pipeline(dag_id))

    @router.get("/pipelines/{dag_id}/flows/{flow}", dependencies=[MaySeeRuns])
    def flow(
        request: Request, dag_id: str, flow: str, page: Annotated[int, Query(ge=1, le=100_000)] = 1
    ) -> HTMLResponse:
        found = shown.flow(dag_id, flow, page)
        return _page(request, "flow.html", found)

    @router.get("/pipelines/{dag_id}/tasks/{task_id}", dependencies=[MaySeeRuns])
    def task(request: Request, dag_id: str, task_id: str) -> HTMLResponse:
        if shown.is_flow(dag_id, task_id):
            return flow(request, dag_id, task_id)
        return pipeline(request, dag_id)

    @router.get("/pipelines/{dag_id}/runs/{run_id}", dependencies=[MaySeeRuns])
    def run(request: Request, dag_id: str, run_id: str) -> HTMLResponse:
        if not shown.is_declared(dag_id):
            return _page(request, "no_pipeline.html", {"dag_id": dag_id})
        return _page(request, "run.html", shown.run(dag_id, run_id))

    @router.get("/pipelines/{dag_id}/runs/{run_id}/tasks/{task_id}", dependencies=[MaySeeRuns])
    def task_of_run(request: Request, dag_id: str, run_id: str, task_id: str) -> HTMLResponse:
        if not shown.is_flow(dag_id, task_id):
            return run(request, dag_id, run_id)
        return _page(request, "run.html", shown.run(dag_id, run_id, task_id))


def _add_reports(router: APIRouter, shown: Views, layout: Layout) -> None:
    """The files that jobs wrote about batches."""

    @router.get("/pipelines/{dag_id}/docs/{path:path}", dependencies=[MaySeeRuns])
    def docs(request: Request, dag_id: str, path: str) -> Response:
        # Only a declared name can be the name of a folder.
        found = files.find(layout.docs(dag_id), path) if shown.is_declared(dag_id) else None
        if found is None:
            _missing()
        file, kind = found
        if file.suffix == ".html":
            root = request.scope.get("root_path", "")
            return HTMLResponse(render.report(file.read_text(errors="replace"), root, dag_id))
        return FileResponse(file, media_type=kind)


def _page(request: Request, template: str, told: dict[str, object], status: int = 200) -> HTMLResponse:
    root = request.scope.get("root_path", "")
    places = {"root": root, "airflow": root.removesuffix(PREFIX), "address": str(request.url.path)}
    return HTMLResponse(render.page(template, **places, **told), status_code=status)


def _missing() -> NoReturn:
    raise HTTPException(404, "There is nothing here.")


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    # Only a window of its own can be led to the log-in and back; in a frame Airflow would nest in itself.
    if error.status_code == 401 and request.headers.get("Sec-Fetch-Dest") == "document":
        query = f"?{urlencode(request.query_params.multi_items())}" if request.query_params else ""
        return RedirectResponse(login_url(f"{request.url.path}{query}"), status_code=303)
    told = {
        401: "Your session has ended. Reload this window to log in again.",
        403: "You may not see this pipeline. Ask for the right to read its DAG.",
        404: "There is nothing here.",
    }.get(error.status_code, "This did not work.")
    return _page(request, "message.html", {"title": told, "code": error.status_code}, error.status_code)


async def _not_found(request: Request, error: Exception) -> Response:
    return _page(request, "message.html", {"title": "There is nothing here.", "code": 404}, 404)


async def _crashed(request: Request, error: Exception) -> Response:
    # Answered outside of the middleware, and Airflow logs the error.
    title = "This page could not be made. The log of Airflow's API server says why."
    answer = _page(request, "message.html", {"title": title, "code": 500}, 500)
    answer.headers.update(STRICT)
    return answer
