"""The page of projects: this one with its tables, and all others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave_app.studio.pages.frame import address, page
from kernelweave_app.studio.pages.pieces import (
    Turn,
    card,
    confirm,
    counted,
    drop_zone,
    empty,
    guarded,
    note,
    once,
    plural,
    size,
    stack,
    stat,
    text,
    titled,
    waiting,
)
from kernelweave_app.studio.projects import LONGEST, Projects, describe_files
from kernelweave_app.studio.schema import Project, TableFile
from kernelweave_app.studio.service import Studio


def day(seconds: float) -> str:
    """A day and a time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


class ProjectsPage:
    """The page of projects."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.projects = studio, Projects(studio)
        self.project = studio.store.project or ""
        self.turn = Turn()

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
                self.tables_place = stack()
                with self.tables_place:
                    waiting("Reading the tables")
            with stack("kw-wide"):
                self.others(every)
                self.fresh()
        ui.timer(0.05, self.tables, once=True)

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
            text(f"Folder of its tables: {project.folder}").classes("kw-hint").style(
                "overflow-wrap: anywhere"
            )
            with ui.element("div").classes("kw-row"):
                ui.button("Rename", icon="edit", on_click=lambda: self.rename(project)).props("outline")
                ui.button("Duplicate", icon="content_copy", on_click=lambda: self.duplicate(project)).props(
                    "outline"
                )
                ui.button(
                    "Export",
                    icon="download",
                    on_click=lambda: ui.navigate.to(f"/api/projects/{project.id}/file"),
                ).props("outline")
                ui.button("Delete", icon="delete", on_click=lambda: self.delete(project)).props(
                    "flat color=negative"
                )

    def ask_name(
        self, title: str, value: str, label: str, done: Callable[..., object], extra: bool = False
    ) -> None:
        """Ask for a name; with `extra`, whether runs come along."""
        with titled(title) as dialog:
            field = ui.input("Name of the project", value=value).props(
                f"outlined dense maxlength={LONGEST} autofocus"
            )
            field.style("width: 100%")
            runs = ui.checkbox("With its runs that have ended", value=True) if extra else None

            async def do() -> None:
                given = (field.value or "",) if runs is None else (field.value or "", runs.value)
                found = await offload(done, *given)
                dialog.close()
                if isinstance(found, Project):
                    self.go(found.id, "projects" if found.id == self.project else "")

            with ui.element("div").classes("kw-end").style("width: 100%"):
                ui.button("Cancel", on_click=dialog.close).props("flat")
                button = once(label, "check", do)
            field.on("keydown.enter", js_handler=f"() => getElement({button.id}).$el.click()")
        dialog.open()

    def rename(self, project: Project) -> None:
        """Ask for another name."""
        self.ask_name("Rename", project.name, "Rename", lambda name: self.projects.rename(project.id, name))

    def duplicate(self, project: Project) -> None:
        """Ask for the name of the copy."""
        self.ask_name(
            "Duplicate",
            f"{project.name[: LONGEST - 5]} copy",
            "Duplicate",
            lambda name, runs: self.projects.duplicate(project.id, name, runs=runs),
            extra=True,
        )

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

    async def tables(self) -> None:
        """Show the table files once they have been read."""
        newest = self.turn.take()
        try:
            files = await offload(describe_files, self.studio)
        except InputError as error:
            self.tables_place.clear()
            with self.tables_place:
                note(str(error), "bad")
            return
        if not newest():
            return
        self.tables_place.clear()
        with self.tables_place:
            if not files:
                empty("table_view", "This project has no files yet. Upload one on the page Data.")
                return
            with ui.element("div").classes("kw-scroll").props("tabindex=0"):
                grid = ui.element("table").classes("kw-table")
                grid.props["aria-label"] = "Tables of this project"
                with grid:
                    with ui.element("thead"), ui.element("tr"):
                        for name in ("name", "rows", "columns", "size", "version", "since", "runs", ""):
                            text(name, "th").props("scope=col").classes(
                                "num" if name in ("rows", "columns", "size", "runs") else ""
                            )
                    with ui.element("tbody"):
                        for file in files:
                            self.row(file)
            text("The version is the beginning of the file's SHA-256: equal for equal contents.").classes(
                "kw-hint"
            )

    def row(self, file: TableFile) -> None:
        """One table file."""
        with ui.element("tr"):
            with ui.element("td").style("overflow-wrap: anywhere; min-width: 9rem"):
                text(file.name, "span")
                if file.problem:
                    text(file.problem, "div").classes("kw-hint")
            for value in (file.n_rows, file.n_columns):
                text("–" if value is None else f"{value:,}".replace(",", "\u202f"), "td").classes("num")
            text(size(file.size), "td").classes("num")
            with ui.element("td"):
                text(file.checksum[:10], "code").style("white-space: nowrap").props["title"] = file.checksum
            text(day(file.since), "td").style("white-space: nowrap")
            text(file.n_runs, "td").classes("num")
            with ui.element("td"):
                button = ui.button(icon="delete", on_click=lambda: self.remove(file)).props(
                    "flat round dense"
                )
                button.props["aria-label"] = f"Delete {file.name}"

    def remove(self, file: TableFile) -> None:
        """Ask, then delete a file."""
        keep = "keeps its results" if file.n_runs == 1 else "keep their results"
        runs = f" {plural(file.n_runs, 'run')} made from it {keep}." if file.n_runs else ""

        async def do() -> None:
            await offload(self.studio.remove_table, file.id)
            await self.tables()

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
            ui.button(
                "Empty project",
                icon="add",
                on_click=guarded(
                    lambda: self.ask_name("New project", "", "Make it", lambda name: self.projects.make(name))
                ),
            ).props("unelevated")
            text("Or from a file that was exported, also elsewhere. It overwrites nothing.").classes(
                "kw-hint"
            )
            drop_zone(
                "Drop a project here, or press +",
                self.go,
                path="/api/projects/import",
                accept=".zip",
            )
