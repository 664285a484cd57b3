"""The page of projects: this one with its tables, and all others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave_app.studio.pages.frame import address, page
from kernelweave_app.studio.pages.pieces import (
    ask_text,
    card,
    confirm,
    counted,
    drop_zone,
    empty,
    guarded,
    hint,
    icon_button,
    later,
    plural,
    simple_table,
    size,
    stack,
    stat,
    text,
    word_button,
)
from kernelweave_app.studio.projects import LONGEST, Projects, describe_files
from kernelweave_app.studio.schema import Project, TableFile
from kernelweave_app.studio.service import Studio

READING = "Reading the tables"


def day(seconds: float) -> str:
    """A day and a time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


class ProjectsPage:
    """The page of projects."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.projects = studio, Projects(studio)
        self.project = studio.store.project or ""

    async def build(self) -> None:
        """Draw the page."""
        # sizes of the files of all projects
        every = await offload(self.projects.all)
        lead = (
            "Each project has its tables, its settings and its runs. Windows may show different ones at once."
        )
        # made while the page is built: later there is no request
        self.base = address("PROJECT", "/PAGE")
        with page(self.studio, "/projects", "Projects", lead):
            self.this(next(project for project in every if project.id == self.project))
            with card("Tables of this project"):
                self.tables = later(READING, self.show_tables, lambda: describe_files(self.studio))
            with stack("kw-wide"):
                self.others(every)
                self.fresh()

    def go(self, project: str, path: str = "") -> None:
        """Open a page of a project."""
        where = self.base.replace("PROJECT", project).replace("PAGE", path)
        ui.run_javascript(f"window.location.assign({json.dumps(where)})")

    # ---- this project -----------------------------------------------------------------------------

    def this(self, project: Project) -> None:
        """The project of this window, and what can be done with it."""
        with card(project.name):
            with stack("kw-stats"):
                counted("table", project.n_tables, size(project.size))
                counted("run", project.n_runs)
                stat(day(project.created)[:10], "begun")
            hint(f"Folder of its tables: {project.folder}").style("overflow-wrap: anywhere")
            with stack("kw-row"):
                word_button("Rename", "edit", lambda: self.rename(project), "outline")
                word_button("Duplicate", "content_copy", lambda: self.duplicate(project), "outline")
                word_button("Export", "download", f"/api/projects/{project.id}/file", "outline")
                word_button("Delete", "delete", lambda: self.delete(project), "flat color=negative")

    def ask_name(
        self, title: str, value: str, word: str, make: Callable[[str], Project], **more: Callable[[], object]
    ) -> None:
        """Ask for a name, and go to the project that is then called so."""

        async def done(name: str) -> None:
            found = await offload(make, name)
            self.go(found.id, "projects" if found.id == self.project else "")

        ask_text(title, "Name of the project", word, done, value=value, most=LONGEST, **more)

    def rename(self, project: Project) -> None:
        """Ask for another name."""
        self.ask_name("Rename", project.name, "Rename", partial(self.projects.rename, project.id))

    def duplicate(self, project: Project) -> None:
        """Ask for the name of the copy, and whether runs come along."""
        boxes: list[ui.checkbox] = []

        def make(name: str) -> Project:
            return self.projects.duplicate(project.id, name, runs=bool(boxes[0].value))

        def below() -> None:
            boxes.append(ui.checkbox("With its runs that have ended", value=True))

        name = f"{project.name[: LONGEST - 5]} copy"
        self.ask_name("Duplicate", name, "Duplicate", make, below=below)

    def delete(self, project: Project) -> None:
        """Ask, then delete."""
        tables = plural(project.n_tables, "table")
        runs = plural(project.n_runs, "run with its model", "runs with their models")
        stays = "stays" if project.n_tables == 1 else "stay"
        stay = project.folder == str(self.projects.studio.places.root)
        rest = f"; {tables} of the data folder {stays} there." if stay else f", and {tables}."

        async def do() -> None:
            await offload(self.projects.delete, project.id)
            self.go(self.projects.store.last_project(), "projects")

        about = f"{project.name}: its settings and {runs} are deleted{rest}"
        confirm("Delete this project?", about, "Delete", do, keep="Keep it")

    # ---- its tables -------------------------------------------------------------------------------

    def show_tables(self, files: list[TableFile]) -> None:
        """The table files of this project."""
        if not files:
            empty("table_view", "This project has no files yet. Upload one on the page Data.")
            return
        heads = ["name", "rows", "columns", "size", "version", "since", "runs", ""]
        rows = [self.row(file) for file in files]
        simple_table(heads, rows, numbers=(1, 2, 3, 6), label="Tables of this project")
        hint("The version is the beginning of the file's SHA-256: equal for equal contents.")

    def row(self, file: TableFile) -> list[object]:
        """The cells of one table file."""

        def name() -> None:
            text(file.name, "span").style("overflow-wrap: anywhere; min-width: 9rem")
            if file.problem:
                hint(file.problem, "div")

        def version() -> None:
            text(file.checksum[:10], "code").style("white-space: nowrap").props["title"] = file.checksum

        def since() -> None:
            text(day(file.since), "span").style("white-space: nowrap")

        def delete() -> None:
            icon_button("delete", f"Delete {file.name}", lambda: self.remove(file))

        sizes = (
            "–" if value is None else f"{value:,}".replace(",", "\u202f")
            for value in (file.n_rows, file.n_columns)
        )
        return [name, *sizes, size(file.size), version, since, file.n_runs, delete]

    def remove(self, file: TableFile) -> None:
        """Ask, then delete a file."""
        keep = "keeps its results" if file.n_runs == 1 else "keep their results"
        runs = f" {plural(file.n_runs, 'run')} made from it {keep}." if file.n_runs else ""

        async def do() -> None:
            await offload(self.studio.remove_table, file.id)
            self.tables.renew(quietly=True)

        about = f"{file.name} is deleted from the folder of the project.{runs}"
        confirm("Delete this file?", about, "Delete", do, keep="Keep it")

    # ---- all projects -----------------------------------------------------------------------------

    def others(self, every: list[Project]) -> None:
        """All projects, to open one."""
        with card("All projects"), ui.element("ul").classes("kw-projects"):
            for project in every:
                with ui.element("li"):
                    link = ui.element("a")
                    link.props["href"] = self.base.replace("PROJECT", project.id).replace("PAGE", "")
                    if project.id == self.project:
                        link.props("aria-current=true")
                    with link:
                        text(project.name, "b")
                        parts = [plural(project.n_tables, "table"), plural(project.n_runs, "run")]
                        text(" · ".join([*parts, f"begun {day(project.created)[:10]}"]), "small")

    def fresh(self) -> None:
        """A new project, empty or from a file."""
        with card("New project"):
            word_button(
                "Empty project",
                "add",
                guarded(lambda: self.ask_name("New project", "", "Make it", self.projects.make)),
                "unelevated",
            )
            hint("Or from a file that was exported, also elsewhere. It overwrites nothing.")
            drop_zone(
                "Drop a project here, or press +",
                self.go,
                path="/api/projects/import",
                accept=".zip",
            )
