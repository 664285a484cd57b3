"""The tables to choose from: sets that ship with the packages, and files that were uploaded or put into a folder."""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Hashable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from starlette.concurrency import run_in_threadpool

from kernelweave._errors import InputError
from kernelweave._types import DataFrame
from kernelweave_app.runs.columns import check_cells, columns_of_objects, hold_only
from kernelweave_app.runs.folders import write_text
from kernelweave_app.runs.formats import check_file, format_of, read_file, read_rows
from kernelweave_app.runs.formats.kernel_matrices import GramFile, read_grams
from kernelweave_app.runs.formats.text import BINARY, text_encoding
from kernelweave_app.runs.further_views import Readers, with_further
from kernelweave_app.runs.joining import Joined, join_tables, name_tables, pair_names
from kernelweave_app.runs.predictions import columns_of, sparse_views_of, texts_of
from kernelweave_app.runs.reading import NewRows, match_new
from kernelweave_app.studio.checking import Limits
from kernelweave_app.studio.schema import Data, TableRef, Use
from kernelweave_app.studio.store import Places, changed, free_path, received, room, safe_name

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL


Read = TypeVar("Read")

#: Bytes that tables in memory may take together.
KEPT_BYTES = 2**30
#: Answers about tables that are kept.
MOST_ANSWERS = 300

#: Sets that ship with scikit-learn: function, what it is.
SHIPPED = {
    "wine": ("load_wine", "13 measurements of 178 wines from three cultivars"),
    "breast-cancer": ("load_breast_cancer", "30 measurements of 569 tumours: means, errors and worst values"),
    "iris": ("load_iris", "4 measurements of 150 flowers of three species"),
    "diabetes": ("load_diabetes", "progression of 442 patients from 10 measurements"),
    "digits": ("load_digits", "1797 handwritten digits of 64 pixels"),
}


#: The set of the table of coefficients: columns standardised over all rows, and a column that marks the training rows.
PROSTATE = "prostate-table-1"


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
        self._kept: OrderedDict[tuple[Path, int, int, str], tuple[Any, int]] = OrderedDict()
        self._answers: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        #: What is to be known of files that were changed when they came.
        self.notes: dict[Path, str] = {}

    def inside(self, places: Places) -> Catalogue:
        """The tables of other places, with the same memory."""
        return changed(self, places=places)

    # ---- listing ----------------------------------------------------------------------------------

    def entries(self) -> dict[str, Entry]:
        """All tables by id."""
        found: dict[str, Entry] = {}
        for path in self.places.tables():
            ref = describe_file(path)
            ref.about = self.notes.get(path, "")
            found[ref.id] = Entry(ref, partial(Path, path))
        for name, about in built_in_sets().items():
            found[f"set-{name}"] = self._set(name, about)
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
        return self._whole(path, name).table

    def _whole(self, path: Path, name: str) -> Joined:
        return self._read(path, name, "table", read_whole, lambda found: memory_of(found.table))

    def _grams(self, path: str) -> GramFile:
        def size(found: GramFile) -> int:
            return sum(K.nbytes for K in found.matrices.values())

        return self._read(Path(path), Path(path).name, "kernels", read_grams, size)

    def _sparse(self, path: str) -> Any:
        def size(found: Any) -> int:
            return int(found.data.nbytes + found.indices.nbytes)

        return self._read(Path(path), Path(path).name, "sparse", lambda path: read_rows(str(path)), size)

    def _read(
        self, path: Path, name: str, use: str, read: Callable[[Path], Read], size_of: Callable[[Read], int]
    ) -> Read:
        """What a file holds, checked, or from memory if it has not changed."""
        version = _version(path)

        def look() -> Read:
            if path.parent != self.places.sets:
                check_file(path, name, self.limits)
            with self._lock:
                # a file that has changed takes the place of what it was
                for old in [old for old in self._kept if old[0] == path and old[1:3] != version[1:]]:
                    del self._kept[old]
            return read(path)

        return self._from_memory(self._kept, (*version, use), look, size_of, KEPT_BYTES)

    def _from_memory(
        self,
        memory: OrderedDict[Any, tuple[Any, int]],
        key: Hashable,
        look: Callable[[], Read],
        size_of: Callable[[Read], int],
        most: int,
    ) -> Read:
        """What is in a memory of a size, or is looked for and put there; what was not asked for the longest is lost."""
        with self._lock:
            if key in memory:
                memory.move_to_end(key)
                known: Read = memory[key][0]
                return known
        found = look()
        with self._lock:
            memory[key] = found, size_of(found)
            while len(memory) > 1 and sum(size for _, size in memory.values()) > most:
                memory.popitem(last=False)
        return found

    def answer(self, data: Data, question: Hashable, look: Callable[[], Read]) -> Read:
        """The answer to a question about files, from memory if they have not changed."""
        versions = tuple(_version(self.entry(file).path()) for file in data.files)
        return self._answer((versions, data.key, question), look)

    def of_file(self, path: Path, question: Hashable, look: Callable[[], Read]) -> Read:
        """The answer to a question about a file of the project, from memory if it has not changed."""
        return self._answer((_version(path), question), look)

    def _answer(self, key: Hashable, look: Callable[[], Read]) -> Read:
        return self._from_memory(self._answers, key, look, lambda _: 1, MOST_ANSWERS)

    def paths(self, data: Data) -> dict[str, str]:
        """Names and files of the tables to learn from."""
        return name_tables([str(self.entry(table_id).path()) for table_id in dict.fromkeys(data.tables)])

    def tables(self, data: Data) -> dict[str, DataFrame]:
        """The tables to learn from, by name."""
        if not data.tables:
            raise InputError("Choose the table with the target: these files hold further views of its rows.")
        tables = {
            name: self.read_file(Path(path), Path(path).name) for name, path in self.paths(data).items()
        }
        if len(tables) > 1 and sum(table.size for table in tables.values()) > self.limits.cells:
            raise InputError(f"Together the tables have more than {self.limits.cells} cells.")
        return tables

    def join(self, data: Data, rows: str = "shared") -> Joined:
        """The tables to learn from, side by side."""
        tables = self.tables(data)
        several = len(tables) > 1
        rows = "order" if several and data.by_order else rows
        [first, *_] = self.paths(data).values()
        alone = None if several else self._whole(Path(first), Path(first).name)
        joined = join_tables(tables, data.key, rows) if alone is None else alone
        return with_further(
            joined,
            **self.further(data),
            key=data.key,
            table=Path(first).name,
            joined=several,
            readers=self._readers(),
        )

    def _readers(self) -> Readers:
        return Readers(self._sparse, self._grams)

    def further(self, data: Data) -> dict[str, list[str]]:
        """Files of further views, as the settings `view` and `gram` name them."""
        sparse = name_tables([str(self.entry(file).path()) for file in dict.fromkeys(data.sparse)])
        return {
            "view": [f"{name.replace('=', '_')}={path}" for name, path in sparse.items()],
            "gram": [str(self.entry(file).path()) for file in dict.fromkeys(data.kernels)],
        }

    def names(self, data: Data) -> list[str]:
        """Names of the tables of new rows, or of their other files where there is none."""
        return list(self.paths(data)) or [
            self.entry(file).path().name.partition(".")[0] for file in data.files
        ]

    def width(self, file: str) -> int:
        """Columns of the kernel matrices of a file; 0 where it holds none."""
        try:
            return self._grams(str(self.entry(file).path())).shape[1]
        except InputError:
            return 0

    def new_rows(self, model: BaseMKL, folder: Path, data: Data, target: str = "") -> NewRows:
        """New rows, and the truth in them, as the model of a run takes them."""
        import pandas as pd

        if data.tables or columns_of(model):
            self.tables(data)  # a table is needed, and not too many cells
            texts = texts_of(model, target)
            read = {
                name: read_whole(Path(path), texts) if texts else self._whole(Path(path), Path(path).name)
                for name, path in self.paths(data).items()
            }
            [first, *_] = self.paths(data).values()
        else:
            # kernels alone: their rows, by name or number
            first = str(self.entry(data.files[0]).path())
            rows = self._grams(first)
            names = list(rows.rows or range(1, rows.shape[0] + 1))
            read = {Path(first).name: Joined(pd.DataFrame({data.key or "row": names}))}
        files = self.further(data)
        lacking = [view for view in sparse_views_of(model) if view not in read[next(iter(read))].sparse]
        given = dict(one.split("=", 1) for one in files["view"])
        if len(given) != len(lacking):
            raise InputError(
                f"The tables lack {len(lacking)} sparse views of the model ({', '.join(lacking) or 'none'}), and "
                f"{len(given)} further files are chosen. Choose one for each."
            )
        files["view"] = [f"{old}={given[new]}" for old, new in pair_names(lacking, list(given)).items()]
        readers = self._readers()
        return match_new(model, folder, read, Path(first).name, key=data.key, readers=readers, **files)


def memory_of(table: DataFrame) -> int:
    """Bytes of a table; columns of numbers are counted together, which is quick for many of them."""
    kinds = list(table.dtypes)
    plain = [isinstance(kind, np.dtype) and kind.kind != "O" for kind in kinds]
    others = [j for j in range(len(kinds)) if not plain[j]]
    numbers = sum(kinds[j].itemsize for j in range(len(kinds)) if plain[j])
    # cells that are Python objects count with what they hold
    return numbers * len(table) + int(table.iloc[:, others].memory_usage(index=False, deep=True).sum())


def _version(path: Path) -> tuple[Path, int, int]:
    about = path.stat()
    return path, about.st_mtime_ns, about.st_size


@lru_cache(maxsize=1000)
def _uses(path: Path, time: int, size: int) -> tuple[Use, ...]:
    return format_of(path).uses(path)


def uses_of(path: Path) -> list[Use]:
    """What a file can be to a run, the usual first; told by the name and, for npz files, the shapes inside."""
    return list(_uses(*_version(path)))


def describe_file(path: Path) -> TableRef:
    """A file of the data folder, to choose."""
    return TableRef(
        id=file_id(path.name),
        name=path.name,
        source="data folder",
        size=path.stat().st_size,
        uses=uses_of(path),
    )


def try_reading(path: Path) -> None:
    """Raise if a file cannot be read as what it usually is."""
    use = uses_of(path)[0]
    if use == "kernels":
        read_grams(path)
    elif use == "sparse":
        read_rows(str(path))
    else:
        read_whole(path)


def read_whole(path: Path, texts: Collection[str] = ()) -> Joined:
    """A file with all views in it, and some columns as texts.

    Lists and other cells that cannot be counted are refused; dates can be left out.
    """
    found = read_file(path, texts=texts)
    objects = columns_of_objects(found.table, found.table.columns)
    check_cells(found.table, [name for name in objects if not hold_only(found.table[name], Hashable)])
    return found


def file_id(name: str) -> str:
    """The id of a file in the data folder. It contains no part of the name, so that it cannot carry a path."""
    return f"file-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def load_set(name: str) -> DataFrame:
    """A built-in set as a data frame whose last column is the target."""
    if name in SHIPPED:
        import sklearn.datasets

        bunch = getattr(sklearn.datasets, SHIPPED[name][0])(as_frame=True)
        frame = bunch.frame.copy()
        names = getattr(bunch, "target_names", None)
        if names is not None and not all(isinstance(n, int | np.integer) for n in names):
            frame["target"] = np.asarray(names)[bunch.target]
        return frame
    from kernelweave import datasets

    if name == PROSTATE:
        data = datasets.load("prostate", protocol="rls2", download=False)
        assert data.train is not None
        return data.frame().rename(columns={"target": "lpsa"}).assign(train=np.where(data.train, "T", "F"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return datasets.load(name, download=False).frame()


def built_in_sets() -> dict[str, str]:
    """Built-in sets whose data are on this computer, and what they are."""
    from kernelweave import datasets

    found = {name: about for name, (_, about) in SHIPPED.items()}
    for name in datasets.names():
        with contextlib.suppress(InputError):
            if datasets.is_here(name):
                row = datasets.info(name)
                found.setdefault(name, f"{row.n_samples} rows, {row.task}")
                if name == "prostate":
                    found[PROSTATE] = (
                        "as in Table 1 of the RLS2 paper: standardised, 67 rows to train on, 30 to test"
                    )
    return found


async def receive_table(name: str, stream: AsyncIterator[bytes], places: Places, limits: Limits) -> TableRef:
    """Receive a table as a stream of bytes: checked in size and content, then moved to the project's folder.

    Parameters
    ----------
    name : str
    stream : iterator of bytes
    places : Places
        Of the project.
    limits : Limits

    Returns
    -------
    TableRef
    """
    name = safe_name(name)
    async with received(stream, places, name, limits.upload) as part:
        return await run_in_threadpool(take_in, part, name, places, limits)


def take_in(part: Path, name: str, places: Places, limits: Limits) -> TableRef:
    """Check a file and move it to the tables of a project, under a name that is free there."""
    # read under its own suffix, so that a file that cannot be parsed is refused before it is stored
    trial = part.with_name(f"{part.stem}-{name}")
    part.rename(trial)
    trial.chmod(0o600)  # tables may be confidential
    try:
        read_as = _to_utf8(trial, name)
        check_file(trial, name, limits)
        try_reading(trial)
        if not places.files.is_dir():
            raise InputError("There is no project for this table any more. It may have been deleted.")
        path = free_path(places.files, name)
        try:
            trial.replace(path)
        except OSError:
            path.unlink(missing_ok=True)
            raise
    except InputError as error:
        raise InputError(str(error).replace(str(trial), name)) from None
    finally:
        trial.unlink(missing_ok=True)
    return describe_file(path).model_copy(update={"about": read_as})


#: How much of a text is shown.
EXAMPLE = 20


def _to_utf8(path: Path, name: str) -> str:
    """Write text of Western Europe as UTF-8, and say so; empty for any other file."""
    if not name.lower().endswith((".csv", ".tsv", ".tab")) or text_encoding(path.read_bytes()[:4]) != "utf-8":
        return ""
    content = path.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        if BINARY & set(content):
            return ""
        try:
            text = content.decode("cp1252")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
        path.write_text(text, encoding="utf8", newline="")
        example = re.split(r"[\r\n,;\t]", text[: error.start][-EXAMPLE:])[-1]
        example += re.split(r"[\r\n,;\t]", text[error.start : error.start + EXAMPLE])[0]
        return (
            f"It was not UTF-8 and is read as Western European text, such as {example!r}. Check its accents."
        )
    return ""
