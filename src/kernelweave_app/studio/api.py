"""The typed interface over HTTP: everything that the pages do, for programs."""

from __future__ import annotations

import inspect
import math
import mimetypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi import Path as PathParameter
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from jinja2 import Environment
from pydantic import create_model
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from kernelweave._docstrings import read_docstring
from kernelweave._errors import InputError
from kernelweave._types import Tree
from kernelweave_app.runs.settings import SpecField
from kernelweave_app.runs.spec import spec_fields
from kernelweave_app.studio.jobs import EvidenceDesk
from kernelweave_app.studio.methods import methods
from kernelweave_app.studio.portable import pack_run
from kernelweave_app.studio.projects import Projects, describe_files, pack, receive_project, replace_file
from kernelweave_app.studio.schema import (
    Checked,
    Method,
    Project,
    ProjectId,
    Record,
    RunId,
    RunRequest,
    TableId,
    TableRef,
)
from kernelweave_app.studio.security import DATA_POLICY, project_of
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import FIRST, DiskFull, describe_full, is_full

#: How errors begin that say that something does not exist.
NOT_THERE = ("There is no table", "There is no run", "There is no project")
ERRORS: dict[int | str, dict[str, str]] = {
    401: {"description": "No session and no token."},
    403: {"description": "A request of another origin or site."},
    404: {"description": "No such table, run or file."},
    422: {"description": "Input that cannot be used, and what to do about it."},
    507: {"description": "The disk is full."},
}
#: The body of a request that is a file.
A_FILE = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def everywhere(request: Request) -> Studio:
    """The studio with all its projects."""
    studio: Studio = request.app.state.studio
    return studio


def here(request: Request) -> Studio:
    """The studio as seen from the project in the address of a request, or from the oldest."""
    return everywhere(request).inside(project_of(request.scope))


Here = Annotated[Studio, Depends(here)]
Everywhere = Annotated[Studio, Depends(everywhere)]

#: Routes that call a method: its arguments are those of the path, and of the query, or of a body where one is named:
#: a type of this name is made of the method's arguments.
ROUTES: tuple[tuple[str, str, Callable[..., Any], str, str], ...] = (
    ("GET", "/projects", Projects.all, "projects", ""),
    ("POST 201", "/projects", Projects.make, "projects", "ProjectNamed"),
    ("GET", "/projects/{project_id}", Projects.one, "projects", ""),
    ("PATCH", "/projects/{project_id}", Projects.rename, "projects", "ProjectNamed"),
    ("DELETE 204", "/projects/{project_id}", Projects.delete, "projects", ""),
    ("POST 201", "/projects/{project_id}/copy", Projects.duplicate, "projects", "ProjectCopied"),
    ("GET", "/about", Studio.about, "studio", ""),
    ("GET", "/draft", Studio.draft, "studio", ""),
    ("PUT", "/draft", Studio.set_draft, "studio", ""),
    ("GET", "/files", describe_files, "tables", ""),
    ("GET", "/tables", Studio.tables, "tables", ""),
    ("GET", "/tables/{table_id}", Studio.table, "tables", ""),
    ("DELETE 204", "/tables/{table_id}", Studio.remove_table, "tables", ""),
    ("GET", "/tables/{table_id}/columns", Studio.columns, "tables", ""),
    ("GET", "/tables/{table_id}/rows", Studio.rows, "tables", ""),
    ("GET", "/tables/{table_id}/outliers", Studio.outliers, "tables", ""),
    ("POST", "/missing", Studio.missing, "tables", "MissingQuestion"),
    ("POST", "/held-out", Studio.marked, "tables", "HeldOutQuestion"),
    ("POST", "/consequences", Studio.consequences, "tables", "ConsequencesQuestion"),
    ("POST", "/alignments", Studio.alignments, "tables", "AlignmentsQuestion"),
    ("POST", "/join", Studio.join, "tables", ""),
    ("POST", "/target", Studio.target, "tables", "TargetQuestion"),
    ("POST", "/times", Studio.times, "tables", "TimesQuestion"),
    ("POST", "/views", Studio.views, "kernels", "ViewsText"),
    ("POST", "/kernels", Studio.kernels, "kernels", "KernelQuestion"),
    ("GET", "/runs", Studio.runs, "runs", ""),
    ("POST 201", "/runs", Studio.add_run, "runs", ""),
    ("GET", "/runs/{run_id}", Studio.run, "runs", ""),
    ("DELETE 204", "/runs/{run_id}", Studio.delete, "runs", ""),
    ("POST", "/runs/{run_id}/cancel", Studio.cancel, "runs", ""),
    ("PUT", "/runs/{run_id}/marks", Studio.mark, "runs", ""),
    ("GET", "/runs/{run_id}/path", Studio.points, "runs", ""),
    ("GET", "/runs/{run_id}/log", Studio.log, "runs", ""),
    ("GET", "/runs/{run_id}/results", Studio.results, "runs", ""),
    ("GET", "/runs/{run_id}/files", Studio.artifacts, "runs", ""),
    ("POST", "/runs/{run_id}/predict", Studio.predict, "runs", "PredictRequest"),
    ("GET", "/compare", Studio.compare, "runs", ""),
    ("GET", "/runs/{run_id}/evidence", EvidenceDesk.read, "evidence", ""),
    ("POST 202", "/runs/{run_id}/evidence", EvidenceDesk.start, "evidence", "EvidenceRequest"),
    ("POST", "/runs/{run_id}/evidence/stop", EvidenceDesk.stop, "evidence", "EvidenceStop"),
)


def _add_route(
    router: APIRouter, verb: str, path: str, method: Callable[..., Any], tag: str, body: str
) -> None:
    """Add a route that calls a method of the studio, of its evidence or of its projects."""
    verb, _, status = verb.partition(" ")
    owner = method.__qualname__.partition(".")[0]
    asked = inspect.signature(method, eval_str=True)
    # what only pages say has no type that can be sent
    taken = [p for p in list(asked.parameters.values())[1:] if p.name != "types"]
    fields: dict[str, Any] = {
        p.name: (p.annotation, ... if p.default is p.empty else p.default)
        for p in taken
        if body and f"{{{p.name}}}" not in path
    }
    plain = {"kind": inspect.Parameter.KEYWORD_ONLY}
    parameters = [
        inspect.Parameter("studio", **plain, annotation=Everywhere if owner == "Projects" else Here)
    ]
    if body:
        sent = create_model(body, __base__=Record, __doc__=f"What `{path}` is asked.", **fields)
        parameters.append(inspect.Parameter("question", **plain, annotation=sent))
    parameters += [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in taken if p.name not in fields]

    def call(*, studio: Studio, question: Record | None = None, **given: Any) -> Any:
        called: Any = {"Projects": Projects, "EvidenceDesk": lambda studio: studio.evidence}.get(owner)
        more = {name: getattr(question, name) for name in fields}
        return method(called(studio) if called else studio, **given, **more)

    call.__name__, call.__doc__ = method.__name__, method.__doc__
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        parameters, return_annotation=asked.return_annotation
    )
    code = int(status) if status else 200
    router.add_api_route(path, call, methods=[verb], tags=[tag], status_code=code)


def make_router() -> APIRouter:
    """Routes, which find their studio and its project by the request."""
    router = APIRouter(prefix="/api", responses=ERRORS)
    for route in ROUTES:
        _add_route(router, *route)

    @router.get("/methods", tags=["settings"])
    def list_methods() -> list[Method]:
        """Learners with their parameters explained."""
        return methods()

    @router.get("/settings", tags=["settings"])
    def list_settings() -> list[SpecField]:
        """Settings of a fit, those of the command line."""
        return list(spec_fields().values())

    @router.post("/check", tags=["runs"])
    def check_run(studio: Here, request: RunRequest) -> Checked:
        """Whether a run would work, and its size."""
        return studio.check(request.data, request.spec)

    _add_files(router)
    return router


def _archive(path: Path, name: str) -> FileResponse:
    """A zip file that is deleted once it has been sent."""
    gone = BackgroundTask(path.unlink, missing_ok=True)
    return FileResponse(path, media_type="application/zip", filename=name, background=gone)


def _add_files(router: APIRouter) -> None:
    """Files that come, and files that go."""

    @router.post("/tables", tags=["tables"], status_code=201, openapi_extra=A_FILE)
    async def upload_table(
        studio: Here,
        request: Request,
        name: Annotated[str, Query(max_length=200)],
        replaces: TableId | None = None,
    ) -> TableRef:
        """Upload a table: the body is the file, `name` its name. Content and size are checked while it arrives.

        With `replaces`, a file of the project is deleted once the new one is there; one of the same name takes its id.
        """
        if replaces is not None:
            await run_in_threadpool(studio.catalogue.entry, replaces)
        found = await studio.upload(name, request.stream())
        if replaces is None:
            return found
        new = await run_in_threadpool(replace_file, studio, replaces, found.id)
        return (await run_in_threadpool(studio.catalogue.entry, new)).ref

    @router.post("/projects/import", tags=["projects"], status_code=201, openapi_extra=A_FILE)
    async def import_project(studio: Everywhere, request: Request) -> Project:
        """Make a project of the file of another one: the body is the file. It overwrites nothing."""
        return await receive_project(studio, request.stream())

    @router.get("/projects/{project_id}/file", tags=["projects"], response_class=FileResponse)
    def export_project(studio: Everywhere, project_id: ProjectId) -> FileResponse:
        """A project as one file, a zip archive without pickles: tables, draft, and the runs that have ended."""
        name = re.sub(r"[^\w .()-]", "_", Projects(studio).one(project_id).name)
        return _archive(pack(studio, project_id), f"{name}.kernelweave.zip")

    @router.get("/runs/{run_id}/folder", tags=["runs"], response_class=FileResponse)
    def download_folder(studio: Here, run_id: RunId) -> FileResponse:
        """The folder of a run as a zip archive that runs elsewhere: model, tables, settings and scripts."""
        return _archive(pack_run(studio, run_id), f"{run_id}.zip")

    @router.get("/runs/{run_id}/files/{name:path}", tags=["runs"], response_class=FileResponse)
    def download_file(studio: Here, run_id: RunId, name: str, show: bool = False) -> FileResponse:
        """Download a file of a run. With `show`, reports and figures open in the browser, without scripts."""
        path = studio.artifact(run_id, name)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        shown: Literal["inline", "attachment"] = "inline" if show else "attachment"
        headers = {"Content-Security-Policy": DATA_POLICY}
        return FileResponse(
            path, media_type=kind, filename=path.name, content_disposition_type=shown, headers=headers
        )

    @router.get("/runs/{run_id}/printed/{name}", tags=["evidence"], response_class=FileResponse)
    def print_figure(
        studio: Here,
        run_id: RunId,
        name: Annotated[str, PathParameter(max_length=40)],
        kind: Annotated[Literal["pdf", "svg"], Query()] = "pdf",
        width: Annotated[float, Query(ge=40, le=400)] = 85.0,
    ) -> FileResponse:
        """A figure for papers, in a width in millimetres."""
        path = studio.evidence.figure(run_id, name, width, kind)
        return FileResponse(path, filename=path.name, headers={"Content-Security-Policy": DATA_POLICY})

    @router.get("/runs/{run_id}/tables/{name}", tags=["evidence"], response_class=Response)
    def print_table(
        studio: Here,
        run_id: RunId,
        name: Annotated[str, PathParameter(max_length=40)],
        kind: Annotated[Literal["csv", "tex"], Query()] = "csv",
    ) -> Response:
        """A table of evidence as CSV or LaTeX."""
        content = studio.evidence.table(run_id, name, kind)
        headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
        return Response(content, media_type="text/csv" if kind == "csv" else "text/plain", headers=headers)


def make_api(studio: Studio) -> FastAPI:
    """The application with the API alone; pages and protection are added around it.

    Parameters
    ----------
    studio : Studio

    Returns
    -------
    FastAPI
    """
    import kernelweave

    app = FastAPI(
        title="kernelweave studio",
        version=kernelweave.__version__,
        summary="Train, validate and understand models of multiple kernel learning.",
        # the usual pages of documentation load their scripts from elsewhere
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        servers=[
            {"url": "/", "description": "The oldest project."},
            {
                "url": "/p/{project}",
                "description": "A project, by its id in the list of projects.",
                "variables": {"project": {"default": FIRST, "description": "Id of a project."}},
            },
        ],
    )
    app.state.studio = studio
    app.include_router(make_router())

    @app.get("/api/docs", include_in_schema=False)
    def documentation() -> Response:

        return HTMLResponse(describe_api(app.openapi()))

    @app.exception_handler(InputError)
    def refuse(request: Request, error: InputError) -> Response:
        text = str(error)
        if isinstance(error, DiskFull):
            return _problem(507, text)
        unknown = text.startswith(NOT_THERE) or "has no file" in text
        return _problem(404 if unknown else 422, text)

    @app.exception_handler(OSError)
    def no_room(request: Request, error: OSError) -> Response:
        if not is_full(error):
            raise error
        return _problem(507, describe_full(studio.places.root))

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> Response:
        # the values that are refused are part of the answer, and JSON has no NaN
        return JSONResponse({"detail": _spelt(jsonable_encoder(error.errors()))}, 422)

    @app.exception_handler(OverflowError)
    @app.exception_handler(RecursionError)
    def too_much(request: Request, error: Exception) -> Response:
        return _problem(422, "A number or a text is larger than can be handled.")

    @app.exception_handler(HTTPException)
    def other(request: Request, error: HTTPException) -> Response:
        # text that is not JSON is answered like JSON of the wrong form
        return _problem(422 if error.status_code == 400 else error.status_code, str(error.detail))

    return app


def _spelt(value: Any) -> Any:
    """The same with NaN and infinities as words, and no halves of characters."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_spelt(name): _spelt(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_spelt(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _problem(status: int, text: str) -> Response:
    return JSONResponse({"detail": text}, status)


# ---- its description ------------------------------------------------------------------------------

#: The page that describes the API, a template.
_PAGE = (Path(__file__).parent / "api.html").read_text(encoding="utf8")


def describe_api(schema: Tree) -> str:
    """Return the page.

    Parameters
    ----------
    schema : dict
        OpenAPI.

    Returns
    -------
    str
    """
    tags: dict[str, list[Tree]] = {}
    for path, verbs in schema["paths"].items():
        for verb, route in verbs.items():
            done: Tree = next(
                (found for code, found in route["responses"].items() if code.startswith("2")), {}
            )
            contents: list[Tree] = list(done.get("content", {}).values())
            gives = contents[0].get("schema") if contents else None
            tags.setdefault(route["tags"][0], []).append(
                {**route, "verb": verb, "path": path, "gives": gives}
            )
    engine = Environment(autoescape=True)
    engine.filters |= {"kind": _kind, "summary": lambda text: read_docstring(text).summary}
    return engine.from_string(_PAGE).render(tags=tags, types=schema["components"]["schemas"])


def _kind(schema: Tree) -> str:
    """A type in words."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(part) for part in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"table of {_kind(schema['additionalProperties'])}"
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    bounds = f", {low} to {high}" if low is not None and high is not None else ""
    return f"{schema.get('type', 'anything')}{bounds}"
