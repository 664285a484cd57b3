"""Where the numbers of a run come from: tables by their checksums, versions, seed, and the command that repeats it."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from kernelweave._errors import InputError
from kernelweave._forms import names_in
from kernelweave_app.reports import versions
from kernelweave_app.runs.folders import read_kept
from kernelweave_app.runs.spec import Spec

#: File of a run with its lineage.
LINEAGE = "lineage.json"


@dataclass(frozen=True)
class Source:
    """A file that a run read.

    Attributes
    ----------
    name, path : str
    sha256 : str
        Empty where the file could not be read.
    size : int
        Bytes.
    """

    name: str
    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Lineage:
    """Where the numbers of a run come from.

    Attributes
    ----------
    tables : list of Source
    versions : dict of str to str
        Of Python and packages, and whether the compiled core was used.
    seed : int
    command : str
        What repeats the run, beside `spec.toml`.
    when : str
        Day and time at which the tables were read.
    """

    tables: list[Source]
    versions: dict[str, str]
    seed: int
    command: str
    when: str = ""
    changed: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The same in a few lines, for scripts."""
        found = [
            f"Table {one.name}: {Path(one.path).name}, SHA-256 {one.sha256 or 'unknown'}"
            for one in self.tables
        ]
        versions = ", ".join(f"{name} {value}" for name, value in self.versions.items())
        return [*found, f"Made with {versions}; seed {self.seed}."]

    def write(self, folder: Path) -> None:
        """Write the file of a run."""
        found = asdict(self)
        del found["changed"]
        (folder / LINEAGE).write_text(json.dumps(found, indent=1), encoding="utf8")


def checksum(path: str | Path) -> str:
    """SHA-256 of a file, empty where it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def trace(paths: Mapping[str, str], spec: Spec) -> Lineage:
    """Describe what a run reads, before it fits.

    Parameters
    ----------
    paths : mapping of str to str
        The table files by name, that of the first table first.
    spec : Spec

    Returns
    -------
    Lineage
    """
    files = dict(paths)
    for one in names_in(spec.view):
        name, _, path = one.partition("=")
        files[name] = path.partition("#")[0]
    for one in names_in(spec.gram):
        path = one if Path(one).is_file() else one.partition("=")[2]
        files[Path(path).name] = path
    tables = [
        Source(name, str(path), checksum(path), Path(path).stat().st_size if Path(path).is_file() else 0)
        for name, path in files.items()
    ]
    when = time.strftime("%Y-%m-%d %H:%M:%S")
    return Lineage(tables, versions(), spec.seed, repeating(paths, "spec.toml"), when)


def repeating(paths: Mapping[str, str], settings: str) -> str:
    """The command that fits a run again, with its tables and a file of its settings.

    Examples
    --------
    >>> repeating({"rna": "rna.csv", "clinic": "clinic.csv"}, "spec.toml")
    'kernelweave fit rna.csv --join clinic.csv --spec spec.toml --out again'
    """
    first, *others = map(str, paths.values())
    joined = [part for path in others for part in ("--join", path)]
    return shlex.join(["kernelweave", "fit", first, *joined, "--spec", settings, "--out", "again"])


def learnt_from(model: Path, path: str | Path) -> bool:
    """Whether a file is one of the tables that the run of a model was fitted on, by its content.

    Parameters
    ----------
    model : Path
        Folder of a run, or the model file in it.
    path : path
        A table.
    """
    try:
        found = _read(model if model.is_dir() else model.parent)
    except InputError:  # scores can be computed without it
        return False
    own = checksum(path)
    return found is not None and bool(own) and own in {one.sha256 for one in found.tables}


def _read(folder: Path) -> Lineage | None:
    """What a run wrote; None where it wrote nothing."""
    return read_kept(folder / LINEAGE, TypeAdapter(Lineage).validate_json, None)


def read_lineage(folder: Path) -> Lineage | None:
    """The lineage that a run wrote, with what has changed since; None where it wrote none.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    Lineage or None
    """
    found = _read(folder)
    if found is None:
        return None
    for one in found.tables:
        now = checksum(one.path)
        if one.sha256 and not now:
            found.changed.append(f"{Path(one.path).name} is not there any more: the run cannot be repeated.")
        elif one.sha256 and now != one.sha256:
            found.changed.append(
                f"{Path(one.path).name} has changed since this run: repeating it would give other numbers."
            )
    mine = versions()
    for name in ("kernelweave", "numpy"):
        if found.versions.get(name) not in (None, mine[name]):
            found.changed.append(f"This run used {name} {found.versions[name]}; here is {mine[name]}.")
    return found
