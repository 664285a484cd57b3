"""Rows in chunks: what a source of them is, and the sources of arrays, frames, iterators and written copies."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, as_floats
from kernelweave._devices import hosted, is_foreign, take_rows
from kernelweave._errors import check_known
from kernelweave._parameters import shown
from kernelweave._sparse import is_sparse

Transform = Callable[[Any], Any]

#: Parts of an array that are read at the same time.
PIECES = 16


@dataclass(frozen=True)
class Chunk:
    """Some rows of a source.

    Attributes
    ----------
    Z : array or sparse matrix of shape (n_samples, n_features)
    y : array of shape (n_samples,) or (n_samples, n_outputs), or None
    sample_weight : array of shape (n_samples,) or None
    source : str
        Name of the file; empty for arrays and iterators.
    first : int
        Number of the first row in the file or array.
    """

    Z: Any
    y: Any
    sample_weight: Any = None
    source: str = ""
    first: int = 0

    def __len__(self) -> int:
        return int(self.Z.shape[0])

    def part(self, rows: slice) -> Chunk:
        """Some of these rows."""
        y = None if self.y is None else self.y[rows]
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        first = self.first + (rows.start or 0)
        return replace(self, Z=take_rows(self.Z, rows), y=y, sample_weight=weight, first=first)


def beyond(chunks: Iterable[Chunk], taken: int) -> Iterator[Chunk]:
    """The chunks without the first rows that are taken."""
    for chunk in chunks:
        if chunk.first + len(chunk) > taken:
            yield chunk.part(slice(max(0, taken - chunk.first), None))


@contextmanager
def in_chunk(chunk: Chunk) -> Iterator[None]:
    """Let errors say which rows they are about."""
    try:
        yield
    except InputError as error:
        where = f"{chunk.source}, " if chunk.source else ""
        last = chunk.first + len(chunk) - 1
        raise InputError(f"{error} (In {where}rows {chunk.first} to {last} of `rows`.)") from error


class Source(ABC):
    """Rows in chunks.

    Attributes
    ----------
    total : int or None
        Number of rows, if it is known.
    """

    total: int | None = None

    @abstractmethod
    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """All rows but the first ``taken[file]`` of each file, in order."""

    def pieces(self) -> list[Source]:
        """Parts that can be read at the same time: a source for each file."""
        return [self]


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are features, targets and the weight.

    Attributes
    ----------
    columns : tuple of str
    targets : tuple of str
        None at all where rows are only predicted.
    single : bool
        Whether targets have one dimension.
    weight : str or None
    """

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    single: bool
    weight: str | None = None

    @property
    def needed(self) -> list[str]:
        """All columns to read, each once."""
        more = (self.weight,) if self.weight else ()
        return list(dict.fromkeys((*self.columns, *self.targets, *more)))

    def split(
        self, column: Callable[[str], NDArray[Any]], n_rows: int, source: str = "", first: int = 0
    ) -> Chunk:
        """A chunk from the columns of a table, given by name."""
        parts = {name: _numbers(name, column(name), source) for name in self.needed}
        single = all(parts[name].dtype == np.float32 for name in self.columns)
        Z = np.empty((n_rows, len(self.columns)), dtype=np.float32 if single else np.float64)
        for j, name in enumerate(self.columns):
            Z[:, j] = parts[name]
        y = np.column_stack([parts[name] for name in self.targets]) if self.targets else None
        if y is not None and self.single:
            y = y[:, 0]
        return Chunk(Z, y, parts[self.weight] if self.weight else None, source, first)


def _numbers(name: str, values: NDArray[Any], source: str) -> NDArray[Any]:
    if values.dtype.kind in "biuf":
        return values
    try:
        if values.dtype.kind == "O" and not any(isinstance(value, str | bytes) for value in values):
            # decimals, and numbers beside None
            return values.astype(np.float64)
    except (TypeError, ValueError):
        pass
    where = f" of {source}" if source else ""
    raise InputError(
        f"Column {name!r}{where} must hold numbers, got {shown(values[:3].tolist())}. Encode it, or name the features "
        "with `columns` or `groups`."
    )


def make_layout(
    known: Sequence[str],
    *,
    target: str | Sequence[str] | None,
    weight: str | None,
    columns: Sequence[str] | None,
) -> Layout:
    """The layout of tables whose columns are known; by default all others are features."""
    targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    for name, wanted in (
        ("target", targets),
        ("weight", (weight,) if weight else ()),
        ("columns", columns or ()),
    ):
        for one in wanted:
            check_known(one, known, f"column in `{name}`")
    left = [name for name in known if name not in targets and name != weight]
    chosen = tuple(left if columns is None else columns)
    if not chosen:
        raise InputError(
            "`columns` must name at least one feature, got none. The table has no other columns."
        )
    if both := set(chosen) & set(targets):
        raise InputError(f"`columns` must not hold a target, got {sorted(both)[0]!r}. Leave it out.")
    return Layout(chosen, targets, target is None or isinstance(target, str), weight)


# ---- sources ---------------------------------------------------------------------------------------


class ArrayRows(Source):
    """Rows of an array, also of one on disk, of which a chunk at a time is read.

    Parameters
    ----------
    whole : Chunk
        All rows, which are not read as a whole.
    size : int
        Rows of a chunk.
    """

    def __init__(self, whole: Chunk, size: int) -> None:
        self.whole, self.size, self.total = whole, size, len(whole)

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """All rows but the first that are taken."""
        for first in range(max(0, taken.get("", 0) - self.whole.first), len(self.whole), self.size):
            yield self.whole.part(slice(first, first + self.size))

    def pieces(self) -> list[Source]:
        """A source for each part of the rows."""
        step = max(self.size, -(-len(self.whole) // PIECES))
        parts = (slice(first, first + step) for first in range(0, len(self.whole), step))
        return [ArrayRows(self.whole.part(rows), self.size) for rows in parts]


def chunk_of_array(Z: Any, y: Any, sample_weight: Any) -> Chunk:
    """An array or sparse matrix with targets and weights, checked for its shape, as one chunk."""
    if is_sparse(Z):
        from scipy import sparse

        Z = sparse.csr_array(Z)
    elif np.ndim(Z) != 2:
        raise InputError(f"`rows` must have shape (n_samples, n_features), got {np.shape(Z)}.")
    beside: dict[str, Any] = {"y": y, "sample_weight": sample_weight}
    for name, values in beside.items():
        if values is not None:
            beside[name] = array = as_floats(values, name)
            if array.ndim == 0 or len(array) != Z.shape[0]:
                raise InputError(
                    f"`{name}` must have one row per row, {Z.shape[0]}, got shape {array.shape}."
                )
    return Chunk(Z, **beside)


class FrameRows(Source):
    """Rows of a data frame in memory.

    Parameters
    ----------
    frame : DataFrame
    layout : Layout
    size : int
        Rows of a chunk.
    """

    def __init__(self, frame: Any, layout: Layout, size: int) -> None:
        self.frame, self.layout, self.size = frame, layout, size
        self.total = len(frame)

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """All rows but the first that are taken."""
        for first in range(taken.get("", 0), len(self.frame), self.size):
            yield chunk_of_frame(self.frame[first : first + self.size], self.layout, "", first)


def chunk_of_frame(frame: Any, layout: Layout, source: str, first: int) -> Chunk:
    """The rows of a frame as a chunk."""
    return layout.split(lambda name: frame[name].to_numpy(), len(frame), source, first)


class IteratedRows(Source):
    """Chunks of an iterator of ``(Z, y)`` or ``(Z, y, sample_weight)``.

    Parameters
    ----------
    parts : iterable
    targets : bool
        Whether chunks must have targets.
    """

    def __init__(self, parts: Iterable[Any], *, targets: bool) -> None:
        self.parts, self.targets = parts, targets

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """All rows but the first that are taken; these are still read."""
        return beyond(self._all(), taken.get("", 0))

    def _all(self) -> Iterator[Chunk]:
        first = 0
        for part in self.parts:
            chunk = self._chunk(part, first)
            first += len(chunk)
            yield chunk

    def _chunk(self, part: Any, first: int) -> Chunk:
        if not self.targets and not isinstance(part, tuple):
            part = (part, None)
        if not isinstance(part, tuple | list) or len(part) not in (2, 3):
            raise InputError(
                f"Chunks of `rows` must be pairs (Z, y) or triples (Z, y, sample_weight), got {shown(part)} for row "
                f"{first}. Yield tuples."
            )
        Z, y, weight = (*part, None)[:3]
        Z = Z if is_sparse(Z) or is_foreign(Z) else np.asarray(Z)
        if Z.ndim != 2:
            raise InputError(
                f"Chunks of `rows` must have shape (n_samples, n_features), got {Z.shape} for row {first}."
            )
        return Chunk(
            Z,
            None if y is None else np.asarray(hosted(y)),
            None if weight is None else np.asarray(hosted(weight)),
            "",
            first,
        )


@dataclass(frozen=True)
class Transformed(Source):
    """A source whose features are computed from its chunks.

    Parameters
    ----------
    source : Source
    features : callable
        Z of X, row by row.
    """

    source: Source
    features: Transform

    @property
    def total(self) -> int | None:  # type: ignore[override]
        """Number of rows, if it is known."""
        return self.source.total

    def pieces(self) -> list[Source]:
        """A source for each file."""
        return [Transformed(piece, self.features) for piece in self.source.pieces()]

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """Chunks with the features of their rows."""
        for chunk in self.source.chunks(taken):
            yield replace(chunk, Z=features_of(self.features, chunk.Z))


def features_of(features: Transform, X: Any) -> Any:
    """Features of some rows, checked for their number."""
    Z = features(X)
    Z = Z if is_sparse(Z) or is_foreign(Z) else np.asarray(Z)
    if Z.ndim != 2 or Z.shape[0] != X.shape[0]:
        raise InputError(
            f"`features` must return shape ({X.shape[0]}, n_features) for {X.shape[0]} rows, got {Z.shape}."
        )
    return Z


class OwnFolder:
    """A fresh folder in another, which is removed with this object.

    Parameters
    ----------
    cache : path
    """

    def __init__(self, cache: object) -> None:
        if not isinstance(cache, str | os.PathLike) or not os.path.isdir(cache):
            raise InputError(
                f"`cache` must be a folder that exists, got {shown(cache)}. Make it, or pass None."
            )
        self.path = Path(tempfile.mkdtemp(prefix="kernelweave-", dir=os.fspath(cache)))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class WrittenRows(Source):
    """Chunks whose features are in files.

    Parameters
    ----------
    place : Path
        Folder of the files, of which each holds a chunk.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.paths: list[Path] = []

    def write(self, Z: Any) -> None:
        """Add a chunk, dense or of sparse rows."""
        path = self.place / f"{len(self.paths)}.{'npz' if is_sparse(Z) else 'npy'}"
        try:
            if is_sparse(Z):
                from scipy import sparse

                sparse.save_npz(path, Z, compressed=False)
            else:
                np.save(path, Z)
        except OSError as error:
            raise InputError(
                f"`cache` must have room for the features, got an error after {len(self.paths)} chunks: "
                f"{error.strerror}. Name a folder on another disk."
            ) from error
        self.paths.append(path)

    def chunks(self, taken: Mapping[str, int]) -> Iterator[Chunk]:
        """All chunks, without targets."""
        for path in self.paths:
            if path.suffix == ".npy":
                yield Chunk(np.load(path, mmap_mode="r"), None)
                continue
            from scipy import sparse

            yield Chunk(sparse.load_npz(path), None)
