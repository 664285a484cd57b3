"""The tables to choose from: sets that ship with the packages, and files in the data folder."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelweave._errors import InputError
from kernelweave._types import DataFrame
from kernelweave.runs.folders import write_text
from kernelweave.runs.joining import Joined, alone, join_tables, name_tables
from kernelweave.runs.tables import read_table
from kernelweave.studio.checking import check_table_file
from kernelweave.studio.disk import room
from kernelweave.studio.limits import Limits
from kernelweave.studio.places import Places
from kernelweave.studio.profiles import memory_of
from kernelweave.studio.schema import Data, TableRef

#: Bytes that tables in memory may take together.
KEPT_BYTES = 2**30

#: Sets that ship with scikit-learn: function, what it is.
SHIPPED = {
    "wine": ("load_wine", "13 measurements of 178 wines from three cultivars"),
    "breast-cancer": ("load_breast_cancer", "30 measurements of 569 tumours: means, errors and worst values"),
    "iris": ("load_iris", "4 measurements of 150 flowers of three species"),
    "diabetes": ("load_diabetes", "progression of 442 patients from 10 measurements"),
    "digits": ("load_digits", "1797 handwritten digits of 64 pixels"),
}


@dataclass(frozen=True)
class Entry:
    """A table, and where its file is."""

    ref: TableRef
    path: Callable[[], Path]


class Catalogue:
    """Lists and reads tables.

    Parameters
    ----------
    places : Places
    limits : Limits
    """

    def __init__(self, places: Places, limits: Limits) -> None:
        self.places, self.limits = places, limits
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Path, int, int], tuple[DataFrame, int]] = OrderedDict()

    def inside(self, places: Places) -> Catalogue:
        """The tables of other places, with the same memory."""
        other = copy(self)
        other.places = places
        return other

    # ---- listing ----------------------------------------------------------------------------------

    def entries(self) -> dict[str, Entry]:
        """All tables by id."""
        found: dict[str, Entry] = {}
        for path in self.places.tables():
            ref = TableRef(
                id=file_id(path.name), name=path.name, source="data folder", size=path.stat().st_size
            )
            found[ref.id] = Entry(ref, partial(Path, path))
        for name, (_, about) in SHIPPED.items():
            found[f"set-{name}"] = self._set(name, about)
        for name, about in _sets_of_the_papers():
            found.setdefault(f"set-{name}", self._set(name, about))
        return found

    def _set(self, name: str, about: str) -> Entry:
        path = self.places.sets / f"{name}.csv"
        size = path.stat().st_size if path.exists() else None
        ref = TableRef(
            id=f"set-{name}", name=name, source="built-in", size=size, about=about, target="target"
        )
        return Entry(ref, lambda: self._written(name, path))

    def _written(self, name: str, path: Path) -> Path:
        """The file of a built-in set, written on first use, so that scripts can read it too."""
        if not path.exists():
            with room(self.places.root):
                write_text(path, load_set(name).to_csv(index=False))
        return path

    def entry(self, table_id: str) -> Entry:
        """One table; an unknown one is an error."""
        if table_id.startswith("set-") and table_id[4:] in SHIPPED:
            return self._set(table_id[4:], SHIPPED[table_id[4:]][1])
        found = self.entries().get(table_id)
        if found is None:
            raise InputError(
                f"There is no table {table_id!r:.60}. It may have been removed from the data folder."
            )
        return found

    # ---- reading ----------------------------------------------------------------------------------

    def read(self, table_id: str) -> DataFrame:
        """A table as a data frame, which must not be changed."""
        entry = self.entry(table_id)
        return self.read_file(entry.path(), entry.ref.name)

    def read_file(self, path: Path, name: str) -> DataFrame:
        """Check and read a file, or take it from memory if it has not changed."""
        about = path.stat()
        key = (path, about.st_mtime_ns, about.st_size)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        if path.parent != self.places.sets:
            check_table_file(path, name, self.limits)
        table = read_table(path)
        size = memory_of(table)
        with self._lock:
            # a file that has changed takes the place of what it was
            for old in [old for old in self._kept if old[0] == path]:
                del self._kept[old]
            self._kept[key] = table, size
            while len(self._kept) > 1 and sum(size for _, size in self._kept.values()) > KEPT_BYTES:
                self._kept.popitem(last=False)
        return table

    def holds(self, data: Data) -> bool:
        """Whether the tables are in memory, so that looking at them takes no time."""
        try:
            wanted = {self.entry(table_id).path() for table_id in data.tables}
        except InputError:
            return True  # what is gone is not read either
        with self._lock:
            return wanted <= {path for path, *_ in self._kept}

    def paths(self, data: Data) -> dict[str, str]:
        """Names and files of the tables to learn from."""
        return name_tables([str(self.entry(table_id).path()) for table_id in dict.fromkeys(data.tables)])

    def tables(self, data: Data) -> dict[str, DataFrame]:
        """The tables to learn from, by name."""
        tables = {
            name: self.read_file(Path(path), Path(path).name) for name, path in self.paths(data).items()
        }
        if len(tables) > 1 and sum(table.size for table in tables.values()) > self.limits.cells:
            raise InputError(f"Together the tables have more than {self.limits.cells} cells.")
        return tables

    def join(self, data: Data, rows: str = "shared") -> Joined:
        """The tables to learn from, side by side."""
        tables = self.tables(data)
        return join_tables(tables, data.key, rows) if len(tables) > 1 else alone(tables)


def file_id(name: str) -> str:
    """The id of a file in the data folder. It contains no part of the name, so that it cannot carry a path."""
    return f"file-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def load_set(name: str) -> DataFrame:
    """A built-in set as a data frame whose last column is the target."""
    import numpy as np

    if name in SHIPPED:
        import sklearn.datasets

        bunch = getattr(sklearn.datasets, SHIPPED[name][0])(as_frame=True)
        frame = bunch.frame.copy()
        names = getattr(bunch, "target_names", None)
        if names is not None and not all(isinstance(n, int | np.integer) for n in names):
            frame["target"] = np.asarray(names)[bunch.target]
        return frame
    from kernelweave import datasets

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return datasets.load(name, download=False).frame()


def _sets_of_the_papers() -> list[tuple[str, str]]:
    from kernelweave import datasets

    found = []
    for name in datasets.names():
        try:
            here = datasets.is_here(name)
        except InputError:
            here = False
        if here:
            row = datasets.info(name)
            found.append((name, f"{row.n_samples} rows, {row.task}"))
    return found
