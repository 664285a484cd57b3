"""Where the studio stores its files: tables in the data folder, everything else in its subfolder ``studio``.

Tables of further projects are in ``studio/projects``, in a folder for each, called by the id of the project.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from copy import copy
from pathlib import Path

from kernelweave._errors import InputError

#: Suffixes of tables; the content is checked as well.
SUFFIXES = (
    ".csv",
    ".csv.gz",
    ".tsv",
    ".tsv.gz",
    ".tab",
    ".parquet",
    ".pq",
    ".npz",
    ".npy",
    ".mtx",
    ".svmlight",
    ".h5ad",
)
LONGEST_NAME = 120
#: The project that a folder has from the beginning: the tables in the folder itself, and what older versions stored.
FIRST = "first"
#: File with the model of a run.
MODEL = "model.skops"
#: File in a run's folder whose time says since when the run, asked to stop, has been writing what it has.
SAVING = "saving"


class Places:
    """Folders and files of one studio.

    Parameters
    ----------
    root : Path
        The data folder; made if it does not exist.

    Attributes
    ----------
    files : Path
        The folder with the tables of a project, see `inside`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().resolve()
        self.state = self.root / "studio"
        self.database = self.state / "studio.sqlite"
        self.lock = self.state / "server.lock"
        self.runs = self.state / "runs"
        self.sets = self.state / "sets"
        self.uploads = self.state / "uploads"
        self.pages = self.state / "pages"
        self.projects = self.state / "projects"
        self.files = self.root
        try:
            parts = (self.runs, self.sets, self.uploads, self.pages, self.projects)
            for folder in (self.root, self.state, *parts):
                folder.mkdir(parents=True, exist_ok=True)
            # models and tables may be confidential
            self.state.chmod(0o700)
        except OSError as error:
            raise InputError(
                f"The data folder {self.root} cannot be used: {error.strerror or error}. Choose another --data-dir."
            ) from None

    def sweep(self) -> None:
        """Delete what a server that was killed has left of uploads and exports; no other one may be running."""
        for path in self.uploads.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()

    def run(self, run_id: str) -> Path:
        """Folder of a run; its name is checked although the studio made it."""
        if not re.fullmatch(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}", run_id):
            raise InputError(f"There is no run {run_id!r:.60}.")
        return self.runs / run_id

    def inside(self, project: str) -> Places:
        """The same places with the tables of a project."""
        other = copy(self)
        other.files = self.root if project == FIRST else self.project(project)
        return other

    def project(self, project: str) -> Path:
        """Folder of the tables of a project other than the first; its name is checked although the studio made it."""
        if not re.fullmatch(r"[0-9a-f]{12}", project):
            raise InputError(f"There is no project {project!r:.60}.")
        return self.projects / project

    def tables(self) -> list[Path]:
        """Table files of the project: regular files, no links out of its folder."""
        if not self.files.is_dir():  # deleted by another window
            return []
        return sorted(
            path
            for path in self.files.iterdir()
            if path.name.lower().endswith(SUFFIXES)
            and not path.name.startswith(".")
            and path.is_file()
            and path.resolve().parent == self.files
        )


def safe_name(name: str) -> str:
    """Check the name of an uploaded table: one name, without folders or invisible characters."""
    if not name or len(name.encode()) > LONGEST_NAME:
        raise InputError(f"A file name of 1 to {LONGEST_NAME} bytes is needed, got {name!r:.40}.")
    if re.search(r'[/\\:*?"<>|\x00-\x1f\x7f]', name) or name.startswith(".") or not name.isprintable():
        raise InputError(
            f"The file name {name!r:.60} contains characters that are not allowed in names of tables."
        )
    if not name.lower().endswith(SUFFIXES):
        raise InputError(f"The file name must end in one of {', '.join(SUFFIXES)}, got {name!r:.60}.")
    return name


def free_path(folder: Path, name: str) -> Path:
    """An unused path in the folder, with a number if necessary: an empty file, so that nobody else takes it."""
    path, number = folder / name, 2
    stem, dot, rest = name.partition(".")
    while True:
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            path, number = folder / f"{stem}-{number}{dot}{rest}", number + 1
        else:
            return path
