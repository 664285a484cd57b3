"""The typed interface over HTTP: everything that the pages do, for programs."""

from __future__ import annotations

import math
import mimetypes
import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Query, Request
from fastapi import Path as PathParameter
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from jinja2 import Environment
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from kernelweave._errors import InputError
from kernelweave._types import Tree
from kernelweave_app.studio.methods import methods, settings
from kernelweave_app.studio.projects import Projects, describe_files, pack, receive_project, replace_file
from kernelweave_app.studio.schema import (
    About,
    Alignments,
    Artifact,
    Checked,
    Columns,
    Comparison,
    Data,
    Draft,
    Evidence,
    EvidenceRequest,
    EvidenceStop,
    Joining,
    KernelPreviews,
    KernelQuestion,
    Log,
    LookQuestion,
    Marked,
    Marks,
    Method,
    Missing,
    Outliers,
    PathPoints,
    Predicted,
    PredictRequest,
    Project,
    ProjectCopied,
    ProjectId,
    ProjectNamed,
    Results,
    Rows,
    Run,
    RunId,
    RunRequest,
    Setting,
    Table,
    TableFile,
    TableId,
    TableRef,
    Target,
    TargetQuestion,
    Views,
    ViewsText,
)
from kernelweave_app.studio.security import project_of
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import FIRST, DiskFull, describe_full, is_full


def here(request: Request) -> Studio:
    """The studio as seen from the project in the address of a request, or from the oldest."""
    studio: Studio = request.app.state.studio
    return studio.inside(project_of(request.scope))


def everywhere(request: Request) -> Studio:
    """The studio with all its projects."""
    studio: Studio = request.app.state.studio
    return studio


Here = Annotated[Studio, Depends(here)]
Everywhere = Annotated[Studio, Depends(everywhere)]


def add_projects(router: APIRouter) -> None:
    """Add the routes.

    Parameters
    ----------
    router : APIRouter
    """

    @router.get("/projects", tags=["projects"])
    def list_projects(studio: Everywhere) -> list[Project]:
        """All projects, oldest first. `/p/{id}/api/runs` has the runs of one, `/api/runs` those of the first listed."""
        return Projects(studio).all()

    @router.post("/projects", tags=["projects"], status_code=201)
    def make_project(studio: Everywhere, named: ProjectNamed) -> Project:
        """Make an empty project; a number is added to a name that another one has."""
        return Projects(studio).make(named.name)

    @router.post("/projects/import", tags=["projects"], status_code=201, openapi_extra={
        "requestBody": {"required": True, "content": {"application/octet-stream": {
            "schema": {"type": "string", "format": "binary"}}}}
    })  # fmt: skip
    async def import_project(studio: Everywhere, request: Request) -> Project:
        """Make a project of the file of another one: the body is the file. It overwrites nothing."""
        return await receive_project(studio, request.stream())

    @router.get("/projects/{project_id}", tags=["projects"])
    def describe_project(studio: Everywhere, project_id: ProjectId) -> Project:
        """One project."""
        return Projects(studio).one(project_id)

    @router.patch("/projects/{project_id}", tags=["projects"])
    def rename_project(studio: Everywhere, project_id: ProjectId, named: ProjectNamed) -> Project:
        """Give a project another name, which no other one has."""
        return Projects(studio).rename(project_id, named.name)

    @router.delete("/projects/{project_id}", tags=["projects"], status_code=204)
    def delete_project(studio: Everywhere, project_id: ProjectId) -> None:
        """Delete a project with its draft, runs and tables. Tables of the data folder itself stay."""
        Projects(studio).delete(project_id)

    @router.post("/projects/{project_id}/copy", tags=["projects"], status_code=201)
    def copy_project(studio: Everywhere, project_id: ProjectId, how: ProjectCopied) -> Project:
        """Copy a project: its tables, its draft, and the runs that have ended."""
        return Projects(studio).duplicate(project_id, how.name, runs=how.runs)

    @router.get("/projects/{project_id}/file", tags=["projects"], response_class=FileResponse)
    def export_project(studio: Everywhere, project_id: ProjectId) -> FileResponse:
        """A project as one file, a zip archive without pickles: tables, draft, and the runs that have ended."""
        path = pack(studio, project_id)
        name = re.sub(r"[^\w .()-]", "_", Projects(studio).one(project_id).name)
        return FileResponse(
            path,
            media_type="application/zip",
            filename=f"{name}.kernelweave.zip",
            background=BackgroundTask(path.unlink, missing_ok=True),
        )

    @router.get("/files", tags=["tables"])
    def list_files_of_project(studio: Here) -> list[TableFile]:
        """The table files of a project: size, rows, columns, checksum of the content, and since when."""
        return describe_files(studio)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>kernelweave studio: API</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1d2733;
  background: #fff; }
h2 { margin-top: 2.4rem; border-bottom: 1px solid #ccd3db; text-transform: capitalize; }
code { font: .92em ui-monospace, monospace; } .verb { display: inline-block; min-width: 4.2rem; font-weight: 600; }
table { border-collapse: collapse; margin: .3rem 0 1rem 4.4rem; } td { padding: .1rem 1rem .1rem 0;
  vertical-align: top; } p { margin: .2rem 0 .4rem 4.4rem; } dt { font-weight: 600; margin-top: 1.2rem; } h3 {
  margin: 1.4rem 0 0; font-size: 1rem; font-weight: 400; }
h3, td, code { overflow-wrap: anywhere; } dd { margin-left: 0; }
@media (max-width: 40rem) { p, table { margin-left: 0; } td { padding-right: .5rem; } }
@media (prefers-color-scheme: dark) { body { color: #e6eaf0; background: #12171e; } h2 { border-color: #38424f; } }
</style></head><body>
<h1>API of the studio</h1>
<p style="margin-left:0">Every request needs the cookie of a session, or <code>Authorization: Bearer</code> with the
token in <code>KERNELWEAVE_STUDIO_TOKEN</code>. The machine-readable description is
<a href="/api/openapi.json">openapi.json</a>. Errors answer with <code>{"detail": "..."}</code>.</p>
{% for tag, routes in tags.items() %}<h2>{{ tag }}</h2>
{% for route in routes %}
<h3 id="{{ route.id }}"><span class="verb">{{ route.verb }}</span> <code>{{ route.path }}</code></h3>
<p>{{ route.about }}</p>
<table>
{% for row in route.takes %}<tr><td><code>{{ row[0] }}</code></td><td>{{ row[1] }}</td><td>{{ row[2] }}</td></tr>
{% endfor %}{% if route.gives %}<tr><td>answers</td><td>{{ route.gives }}</td><td></td></tr>{% endif %}
</table>
{% endfor %}{% endfor %}
<h2>Types</h2>
<dl>{% for name, type in types.items() %}<dt id="{{ name }}">{{ name }}</dt><dd>{{ type.about }}
<table style="margin-left:0">{% for row in type.fields %}<tr><td><code>{{ row[0] }}</code></td><td>{{ row[1] }}</td>
<td>{{ row[2] }}</td></tr>{% endfor %}</table></dd>{% endfor %}</dl>
</body></html>
"""


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
    tags: dict[str, list[dict[str, Any]]] = {}
    for path, verbs in schema["paths"].items():
        for verb, route in verbs.items():
            takes = [(p["name"], _kind(p["schema"]), p["in"]) for p in route.get("parameters", [])]
            for content, body in route.get("requestBody", {}).get("content", {}).items():
                takes.append(("body", _kind(body["schema"]), content))
            gives: dict[str, Any] = next(
                (r for code, r in route["responses"].items() if code.startswith("2")), {}
            )
            contents = list(gives.get("content", {}).values())
            answer = contents[0].get("schema", {}) if contents else {}
            tags.setdefault(str((route.get("tags") or ["other"])[0]), []).append({
                "id": route["operationId"], "verb": verb.upper(), "path": path, "takes": takes,
                "about": route.get("description", route.get("summary", "")), "gives": _kind(answer) if answer else "",
            })  # fmt: skip
    types = {
        name: {
            "about": " ".join(kind.get("description", "").split("Parameters\n")[0].split()),
            "fields": [
                (field, _kind(about), " ".join(str(about.get("description", "")).split()))
                for field, about in kind.get("properties", {}).items()
            ],
        }
        for name, kind in schema["components"]["schemas"].items()
    }
    return Environment(autoescape=True).from_string(_PAGE).render(tags=tags, types=types)


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


#: Largest position in a table or a list: SQLite and pandas count in 64 bits.
FAR = 1_000_000_000

Start = Annotated[int, Query(ge=0, le=FAR)]
Asked = Annotated[str, Header(max_length=100)]
#: How errors begin that say that something does not exist.
NOT_THERE = ("There is no table", "There is no run", "There is no project")
ERRORS: dict[int | str, dict[str, str]] = {
    401: {"description": "No session and no token."},
    403: {"description": "A request of another origin or site."},
    404: {"description": "No such table, run or file."},
    422: {"description": "Input that cannot be used, and what to do about it."},
    507: {"description": "The disk is full."},
}


def make_router() -> APIRouter:
    """Routes, which find their studio and its project by the request.

    Returns
    -------
    APIRouter
    """
    router = APIRouter(prefix="/api", responses=ERRORS)
    add_projects(router)
    _add_tables(router)
    _add_settings(router)
    _add_runs(router)
    return router


def _add_tables(router: APIRouter) -> None:
    @router.get("/about", tags=["studio"])
    def about(studio: Here) -> About:
        """Version, data folder and limits."""
        return studio.about()

    @router.get("/tables", tags=["tables"])
    def list_tables(studio: Here) -> list[TableRef]:
        """Built-in sets and files of the data folder."""
        return studio.tables()

    @router.post("/tables", tags=["tables"], status_code=201, openapi_extra={
        "requestBody": {"required": True, "content": {"application/octet-stream": {
            "schema": {"type": "string", "format": "binary"}}}}
    })  # fmt: skip
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

    @router.get("/tables/{table_id}", tags=["tables"])
    def describe_table(studio: Here, table_id: TableId) -> Table:
        """Size, types and missing values."""
        return studio.table(table_id)

    @router.delete("/tables/{table_id}", tags=["tables"], status_code=204)
    def remove_table(studio: Here, table_id: TableId) -> None:
        """Delete a file of the data folder."""
        studio.remove_table(table_id)

    @router.get("/tables/{table_id}/columns", tags=["tables"])
    def describe_columns(
        studio: Here,
        table_id: TableId,
        start: Start = 0,
        number: Annotated[int, Query(ge=0, le=500)] = 100,
        search: Annotated[str, Query(max_length=200)] = "",
    ) -> Columns:
        """Types, ranges and missing values of some columns."""
        return studio.columns(table_id, start, number, search)

    @router.get("/tables/{table_id}/rows", tags=["tables"])
    def preview_rows(
        studio: Here,
        table_id: TableId,
        start: Start = 0,
        number: Annotated[int, Query(ge=0, le=500)] = 20,
        first_column: Start = 0,
        n_columns: Annotated[int, Query(ge=1, le=500)] = 50,
    ) -> Rows:
        """Some rows as text."""
        return studio.rows(table_id, start, number, first_column, n_columns)

    @router.get("/tables/{table_id}/outliers", tags=["tables"])
    def find_outliers(studio: Here, table_id: TableId) -> Outliers:
        """Numbers far from the median of their column."""
        return studio.outliers(table_id)

    @router.post("/missing", tags=["tables"])
    def describe_missing(studio: Here, question: LookQuestion) -> Missing:
        """Missing cells of the columns to learn from, and what would fill them."""
        return studio.missing(question.data, question.spec)

    @router.post("/held-out", tags=["tables"])
    def divide_rows(studio: Here, question: LookQuestion) -> Marked:
        """How many rows the column of held-out rows holds out, by which values, and how to swap both sides."""
        return studio.marked(question.data, question.spec)

    @router.post("/alignments", tags=["tables"])
    def align_views(studio: Here, question: LookQuestion) -> Alignments:
        """How alike the views are, and how alike the target, on a sample of the rows."""
        return studio.alignments(question.data, question.spec)

    @router.post("/join", tags=["tables"])
    def join_tables(studio: Here, data: Data) -> Joining:
        """One table, or several joined by a key: columns, views, and the rows that are missing from each."""
        return studio.join(data)

    @router.post("/target", tags=["tables"])
    def describe_target(studio: Here, question: TargetQuestion) -> Target:
        """The task that a target column implies."""
        return studio.target(question.data, question.target, question.task)


def _add_settings(router: APIRouter) -> None:
    @router.post("/views", tags=["kernels"])
    def read_views(studio: Here, text: ViewsText) -> Views:
        """Views from the text of a TOML or GMT file."""
        return studio.views(text.data, text.text, text.format)

    @router.post("/kernels", tags=["kernels"])
    def preview_kernels(studio: Here, question: KernelQuestion) -> KernelPreviews:
        """Kernels before learning: how many, their memory, alignment with the target, and thumbnails."""
        return studio.kernels(question.data, question.spec, question.most)

    @router.get("/methods", tags=["settings"])
    def list_methods() -> list[Method]:
        """Learners with their parameters explained."""
        return methods()

    @router.get("/settings", tags=["settings"])
    def list_settings() -> list[Setting]:
        """Settings of a fit, those of the command line."""
        return settings()

    @router.get("/draft", tags=["studio"])
    def get_draft(studio: Here) -> Draft:
        """The draft: table, target and settings that are being edited in the browser."""
        return studio.draft()

    @router.put("/draft", tags=["studio"])
    def set_draft(studio: Here, draft: Draft) -> Draft:
        """Replace the draft."""
        return studio.set_draft(draft)


def _add_runs(router: APIRouter) -> None:
    @router.post("/check", tags=["runs"])
    def check_run(studio: Here, request: RunRequest) -> Checked:
        """Whether a run would work, and its size."""
        return studio.check(request.data, request.spec)

    @router.get("/runs", tags=["runs"])
    def list_runs(studio: Here) -> list[Run]:
        """All runs, newest first."""
        return studio.runs()

    @router.post("/runs", tags=["runs"], status_code=201)
    def add_run(studio: Here, request: RunRequest, idempotency_key: Asked = "") -> Run:
        """Put a run into the queue. Requests with the same `Idempotency-Key` start one run."""
        return studio.add_run(request, idempotency_key)

    @router.get("/runs/{run_id}", tags=["runs"])
    def describe_run(studio: Here, run_id: RunId) -> Run:
        """State, progress and scores of a run."""
        return studio.run(run_id)

    @router.delete("/runs/{run_id}", tags=["runs"], status_code=204)
    def delete_run(studio: Here, run_id: RunId) -> None:
        """Delete a run that has ended, with its files."""
        studio.delete(run_id)

    @router.post("/runs/{run_id}/cancel", tags=["runs"])
    def cancel_run(studio: Here, run_id: RunId) -> Run:
        """Stop a run; what is done is kept."""
        return studio.cancel(run_id)

    @router.put("/runs/{run_id}/marks", tags=["runs"])
    def mark_run(studio: Here, run_id: RunId, marks: Marks) -> Run:
        """Pin a run, or give it tags and a note."""
        return studio.mark(run_id, marks)

    @router.get("/runs/{run_id}/path", tags=["runs"])
    def path_points(
        studio: Here, run_id: RunId, after: Annotated[int, Query(ge=0, le=2**53)] = 0
    ) -> PathPoints:
        """Points of a path that is being computed: those after a given number."""
        return studio.points(run_id, after)

    @router.get("/runs/{run_id}/log", tags=["runs"])
    def read_log(studio: Here, run_id: RunId) -> Log:
        """What a run wrote."""
        return studio.log(run_id)

    @router.get("/runs/{run_id}/results", tags=["runs"])
    def read_results(studio: Here, run_id: RunId) -> Results:
        """Weights, path, scores over folds, contributions, held-out rows, certificate."""
        return studio.results(run_id)

    @router.get("/runs/{run_id}/files", tags=["runs"])
    def list_files(studio: Here, run_id: RunId) -> list[Artifact]:
        """Files of a run."""
        return studio.artifacts(run_id)

    @router.get("/runs/{run_id}/files/{name:path}", tags=["runs"], response_class=FileResponse)
    def download_file(studio: Here, run_id: RunId, name: str, show: bool = False) -> FileResponse:
        """Download a file of a run. With `show`, reports and figures open in the browser, without scripts."""
        path = studio.artifact(run_id, name)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        shown: Literal["inline", "attachment"] = "inline" if show else "attachment"
        headers = {"Content-Security-Policy": DOCUMENT_POLICY}
        return FileResponse(
            path, media_type=kind, filename=path.name, content_disposition_type=shown, headers=headers
        )

    @router.post("/runs/{run_id}/predict", tags=["runs"])
    def predict(studio: Here, run_id: RunId, request: PredictRequest) -> Predicted:
        """Predict the rows of a table with the model of a run."""
        return studio.predict(run_id, request.data)

    @router.get("/runs/{run_id}/evidence", tags=["evidence"])
    def read_evidence(studio: Here, run_id: RunId) -> Evidence:
        """Sentences about a run with the numbers behind them, and what is being computed."""
        return studio.evidence.read(run_id)

    @router.post("/runs/{run_id}/evidence", tags=["evidence"], status_code=202)
    def compute_evidence(studio: Here, run_id: RunId, request: EvidenceRequest) -> Evidence:
        """Begin to compute evidence: permutations, fits without a source, stability, a learning curve, baselines."""
        return studio.evidence.start(run_id, request.kind, request.count, refit=request.refit)

    @router.post("/runs/{run_id}/evidence/stop", tags=["evidence"])
    def stop_evidence(studio: Here, run_id: RunId, request: EvidenceStop) -> Evidence:
        """Stop computing after the present step; what is done is kept."""
        return studio.evidence.stop(run_id, request.kind)

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
        headers = {"Content-Security-Policy": DOCUMENT_POLICY}
        return FileResponse(path, filename=path.name, headers=headers)

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

    @router.get("/compare", tags=["runs"])
    def compare_runs(
        studio: Here, run_id: Annotated[list[RunId], Query(min_length=1, max_length=10)]
    ) -> Comparison:
        """Runs side by side: scores with their spread, weights, settings that differ."""
        return studio.compare(run_id)


#: Reports and figures contain their own styles and pictures, and no scripts.
DOCUMENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
)


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
