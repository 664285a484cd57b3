"""Projects: make, rename, duplicate, delete."""

from __future__ import annotations

import secrets
import shutil
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from kernelweave._errors import InputError
from kernelweave_app.studio.copies import dump_run, load_run
from kernelweave_app.studio.database import DRAFT
from kernelweave_app.studio.disk import room
from kernelweave_app.studio.places import FIRST
from kernelweave_app.studio.schema.projects import Project
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import FINAL

if TYPE_CHECKING:
    import sqlite3

#: Characters of the name of a project.
LONGEST = 80


def check_name(name: str) -> str:
    """The name of a project as it is stored: one line of visible characters; no file has it.

    Parameters
    ----------
    name : str

    Returns
    -------
    str

    Raises
    ------
    InputError
        For names that are empty, too long, of dots and slashes alone, or with characters that are invisible, such as
        marks that turn the direction of text.
    """
    name = " ".join(unicodedata.normalize("NFC", name).split(" ")).strip()
    if not name or len(name) > LONGEST or len(name.encode("utf-8", "surrogatepass")) > 4 * LONGEST:
        raise InputError(f"The name of a project has 1 to {LONGEST} characters, got {name!r:.40}.")
    if not name.isprintable() or not name.strip("./\\ "):
        raise InputError(
            f"The name of a project has visible characters, and more than dots and slashes; got {name!r:.60}."
        )
    return name


class Projects:
    """All projects of a studio.

    Parameters
    ----------
    studio : Studio
    """

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.store = studio.store.inside(None)

    def all(self) -> list[Project]:
        """Projects, oldest first."""
        return [self._describe(row) for row in self.store.projects()]

    def one(self, project: str) -> Project:
        """One project; an unknown one is an error."""
        for row in self.store.projects():
            if row["id"] == project:
                return self._describe(row)
        raise InputError(f"There is no project {project!r:.60}. It may have been deleted.")

    def called(self, name: str) -> Project:
        """The project of a name; an unknown one is an error that lists the names."""
        found = self.all()
        for project in found:
            if name in (project.name, project.id):
                return project
        names = ", ".join(repr(project.name) for project in found[:20])
        raise InputError(f"There is no project {name!r:.100}. Projects are {names}.")

    def _describe(self, row: sqlite3.Row) -> Project:
        places = self.studio.places.inside(row["id"])
        sizes = [path.stat().st_size for path in places.tables()]
        return Project(
            id=row["id"],
            name=row["name"],
            created=row["created"],
            n_tables=len(sizes),
            n_runs=row["n_runs"],
            size=sum(sizes),
            folder=str(places.files),
        )

    # ---- changes ----------------------------------------------------------------------------------

    def make(self, name: str) -> Project:
        """Make an empty project; a number is added to a name that another one has."""
        name = check_name(name)
        project = secrets.token_hex(6)
        with room(self.studio.places.root):
            folder = self.studio.places.project(project)
            folder.mkdir(mode=0o700)
            try:
                self.store.add_project(project, name, LONGEST)
            except BaseException:
                folder.rmdir()
                raise
        return self.one(project)

    def rename(self, project: str, name: str) -> Project:
        """Give a project another name, which no other one has."""
        self.store.rename_project(project, check_name(name))
        return self.one(project)

    def duplicate(self, project: str, name: str = "", *, runs: bool = True) -> Project:
        """Copy a project: its tables, its draft, and the runs that have ended."""
        old = self.one(project)
        new = self.make(name or old.name)
        try:
            with room(self.studio.places.root):
                self._copy(old, new, runs)
        except BaseException:
            self.delete(new.id)
            raise
        return self.one(new.id)

    def _copy(self, old: Project, new: Project, runs: bool) -> None:
        places = self.studio.places
        for path in places.inside(old.id).tables():
            shutil.copy2(path, Path(new.folder) / path.name)
        draft = self.store.inside(old.id).draft(DRAFT)
        if draft is not None:
            self.store.inside(new.id).set_draft(DRAFT, draft)
        for row in self.store.inside(old.id).runs(FINAL) if runs else ():
            stored, files = dump_run(self.studio.inside(old.id), row["id"])
            load_run(self.studio.inside(new.id), stored, files, old.folder)

    def delete(self, project: str) -> None:
        """Delete a project with its draft, its runs and its tables; those of the data folder itself stay.

        Its runs must have ended, and one project remains.
        """
        places = self.studio.places
        folder = None if project == FIRST else places.project(project)
        runs = self.store.delete_project(project)
        for run in runs:
            shutil.rmtree(places.run(run), ignore_errors=True)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():
                raise InputError(
                    f"The project is deleted, but files in {folder} could not be: are they open elsewhere?"
                )
