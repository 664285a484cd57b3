"""The typed interface over HTTP: everything that the pages do, for programs."""

from __future__ import annotations

import math
import mimetypes
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Header, HTTPException, Query, Request
from fastapi import Path as PathParameter
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from kernelweave._errors import InputError
from kernelweave_app.studio.api_projects import add_projects
from kernelweave_app.studio.asking import Here
from kernelweave_app.studio.disk import DiskFull, describe_full, is_full
from kernelweave_app.studio.files import replace_file
from kernelweave_app.studio.methods import methods, settings
from kernelweave_app.studio.places import FIRST
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
    Results,
    Rows,
    Run,
    RunId,
    RunRequest,
    Setting,
    Table,
    TableId,
    TableRef,
    Target,
    TargetQuestion,
    Views,
    ViewsText,
)
from kernelweave_app.studio.service import Studio

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
        from kernelweave_app.studio.documentation import describe_api

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
