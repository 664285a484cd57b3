"""Projects, the tables in them, and what a project is in a file."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from kernelweave_app.studio.schema.base import Name, Real, Record, RunId, TableId
from kernelweave_app.studio.schema.results import Draft
from kernelweave_app.studio.schema.runs import Artifact, Event, Metric, PathPoint, RunRequest

ProjectId = Annotated[str, Field(pattern=r"^(first|[0-9a-f]{12})$", examples=["first"])]
#: Checked in full where it is used; see `kernelweave_app.studio.projects.check_name`.
ProjectName = Annotated[str, Field(max_length=200, examples=["Tumours"])]


class Project(Record):
    """A project: tables, a draft and runs."""

    id: ProjectId
    name: str
    created: float
    n_tables: int
    n_runs: int
    size: int = Field(description="Bytes of its tables.")
    folder: str = Field(description="Where its tables are.")


class ProjectNamed(Record):
    """The name of a project."""

    name: ProjectName


class ProjectCopied(Record):
    """How to duplicate a project."""

    name: ProjectName = Field(default="", description="By default that of the project, with a number.")
    runs: bool = Field(default=True, description="With the runs that have ended.")


class TableFile(Record):
    """A table file of a project, as it is now."""

    id: TableId
    name: str
    size: int
    n_rows: int | None = Field(description="Null where it is no table, or cannot be read.")
    n_columns: int | None
    checksum: str = Field(description="SHA-256 of the content: equal for equal files.")
    since: float = Field(description="When this version came, in seconds since 1970.")
    n_runs: int = Field(description="Runs of the project that were made from it.")
    problem: str = Field(default="", description="Why it cannot be read.")


# ---- in a file --------------------------------------------------------------------------------------


def _short(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        if not isinstance(value, str | int | float | None) or len(str(value)) > 100_000:
            raise ValueError(f"{name} is no short value")
    return values


_KINDS: dict[str, type[Record]] = {"event": Event, "metric": Metric, "artifact": Artifact}
#: What further columns of a table hold.
Plain = Annotated[dict[str, Any], AfterValidator(_short)]


class StoredRun(Record):
    """A run in the file of a project."""

    id: RunId
    name: Name
    state: Literal["done", "cancelled", "failed"]
    created: Real
    started: Real = None
    finished: Real = None
    done: int = 0
    total: int | None = None
    step: str = ""
    reason: str = ""
    summary: str | None = None
    request: RunRequest
    #: Files of its tables by their names, without their folder.
    paths: dict[str, str]
    #: What its record holds beside the request.
    record: dict[str, Any] = {}
    #: Further columns of the run, and rows of other tables about it, by table.
    more: Plain = {}
    rows: dict[str, list[Plain]] = {}

    @field_validator("rows")
    @classmethod
    def _as_shown(cls, rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        """What the pages make of these rows must be possible."""
        for table, kind in _KINDS.items():
            for row in rows.get(table, ()):
                kind.model_validate(row, extra="ignore")
        for row in rows.get("point", ()):
            PathPoint.model_validate(
                {**row, "number": 0, "weights": json.loads(str(row.get("weights")))}, extra="ignore"
            )
        for row in rows.get("mark", ()):
            tags = json.loads(str(row.get("tags")))
            if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
                raise ValueError("tags are no list of texts")
        return rows


class StoredProject(Record):
    """The contents of ``project.json``."""

    format: Literal["kernelweave project"]
    version: Literal[1]
    name: str
    folder: str = Field(default="", description="Where the tables were, which scripts of its runs name.")
    draft: Draft = Draft()
    runs: list[StoredRun] = []
