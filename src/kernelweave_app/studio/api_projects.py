"""Routes of projects, and of the table files in them."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from kernelweave_app.studio.asking import Everywhere, Here
from kernelweave_app.studio.files import describe_files
from kernelweave_app.studio.parcels import pack, receive_project
from kernelweave_app.studio.projects import Projects
from kernelweave_app.studio.schema.projects import Project, ProjectCopied, ProjectId, ProjectNamed, TableFile


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
