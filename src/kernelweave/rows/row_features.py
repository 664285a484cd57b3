"""Rows that are read in chunks, again in every pass, in place of a `FeatureStack`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import joblib
import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import memory_budget
from kernelweave._devices import hosted
from kernelweave._docstrings import texts_of
from kernelweave._errors import InputError
from kernelweave._parameters import Function, OneOf, ReadableSignature, Whole, checked, shown
from kernelweave._sparse import is_sparse
from kernelweave._threads import one_blas_thread_each
from kernelweave._types import Array, Index, RowsLike
from kernelweave.gram.chunked import ChunkedFeatures, ChunkWork, Vectors
from kernelweave.gram.features import as_groups
from kernelweave.gram.row_checks import check_rows
from kernelweave.rows.chunks import OwnFolder, Source, WrittenRows, in_chunk
from kernelweave.rows.collecting import block_statistics
from kernelweave.rows.dask_rows import is_dask, on_workers
from kernelweave.rows.folds import UNITS, folds_of_rows
from kernelweave.rows.parallel import Jobs, each
from kernelweave.rows.progress import Report, reporting
from kernelweave.rows.sampling import Sampling, sample_size
from kernelweave.rows.sources import Request, open_rows


@dataclass
class Scan:
    """What the first pass finds in a part of the rows.

    Attributes
    ----------
    y, weight : list of arrays
    square_sums : array of shape (2, n_features)
        Sums of squares of the columns, without and with the weights of the rows.
    sampling : Sampling or None
        None without rows.
    segments : list of (str, int, int)
        Name of the file, number of the first row there, and number of rows, of successive chunks.
    written : WrittenRows or None
        A copy of the features.
    """

    y: list[Array] = field(default_factory=list)
    weight: list[Array] = field(default_factory=list)
    square_sums: Any = 0.0
    sampling: Sampling | None = None
    segments: list[tuple[str, int, int]] = field(default_factory=list)
    written: WrittenRows | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(count for _, _, count in self.segments)

    def merge(self, other: Scan) -> None:
        """Take the rows of the next part."""
        if other.sampling is None:
            return
        if self.sampling is None:
            self.sampling = other.sampling
        else:
            n_features, given = self.square_sums.shape[1], other.square_sums.shape[1]
            if n_features != given:
                raise InputError(f"All rows must have {n_features} features, as the first, got {given}.")
            self.sampling.merge(other.sampling, self.n_rows)
        self.y += other.y
        self.weight += other.weight
        self.segments += other.segments
        self.square_sums = self.square_sums + other.square_sums


@texts_of(block_statistics)
class RowFeatures(ChunkedFeatures):
    """Rows with explicit features in blocks that do not fit in memory, and their targets.

    `solve_svm_mkl` and `svm_mkl_path` take them in place of a `FeatureStack`, with None for the targets. Every pass
    of a solver reads all rows in chunks; in memory are a sample of the rows, targets, and some numbers for every row
    and C.

    Parameters
    ----------
    rows : array, sparse matrix, frame, path, list of paths, iterable, callable, Dask array or Dask frame
        An array or memory map (n_samples, n_features) with `y`; a data frame, a Parquet or text table, a folder of such
        files or a list of them, with `target`; or a list of chunks ``(Z, y)``, an object whose iterator begins anew,
        or a function that returns an iterator, because rows are read several times. With `cache` an iterator is enough.
    target : str, optional
        Column of the targets in a table.
    max_memory : float or str, optional
        In bytes or such as "2GB". Default: a quarter of the memory.
    n_jobs : int, optional
        Files, or parts of an array, that are read at the same time, by joblib. Parts of Dask collections are read where
        they are.
    cache : path, optional
        Folder for a copy of the features as binary numbers, made in the first pass, read in all others, and removed
        with the object: for tables and `features`, which take longer to read or compute. Default: no copy.
    progress : callable or bool, optional
        ``progress(n_rows, total)`` after every chunk of every pass. Default: a line on the terminal after two seconds;
        False for none.

    Attributes
    ----------
    n_samples, n_features, n_kernels : int
    groups : array of int, shape (n_kernels + 1,)
    names, columns : tuple of str or None
        Names of blocks and features, for tables.
    y, sample_weight : arrays of shape (n_samples,)

    Raises
    ------
    InputError
        Rows as `block_statistics` refuses them, an iterator that can be read only once without `cache`, targets of
        several columns, and later a pass with other rows than the first.

    Notes
    -----
    Making it is a pass over the rows: targets, lengths of columns and a sample are found. Which rows are sampled
    follows from their numbers in their files, not from the chunks.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(300, 12))
    >>> y = np.where(Z[:, 0] - Z[:, 9] + rng.normal(size=300) > 0, 1, -1)
    >>> rows = kw.RowFeatures([(Z[k::3], y[k::3]) for k in range(3)], groups=[0, 4, 8, 12])
    >>> rows
    RowFeatures(300 rows, 12 features in 3 blocks)
    >>> path = kw.solvers.svm_mkl_path(rows, None, [0.01, 0.1, 1.0], loss="logistic")
    >>> path.feature_coef.shape, bool(path.rel_gap.max() <= 1e-4)
    ((3, 12), True)
    """

    __signature__ = ReadableSignature()

    @checked
    def __init__(
        self,
        rows: RowsLike,
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | Mapping[str, Sequence[str]] | str | None = None,
        target: str | None = None,
        weight: str | None = None,
        columns: Sequence[str] | None = None,
        sample_weight: ArrayLike | None = None,
        features: Annotated[Any, Function() | None] = None,
        max_memory: float | str | None = None,
        n_jobs: Jobs = None,
        cache: str | os.PathLike[str] | None = None,
        progress: Report | bool | None = None,
    ) -> None:
        self.budget, self.n_jobs, self.progress = memory_budget(max_memory), n_jobs, progress
        request = Request(y, sample_weight, target, weight, columns, groups, features, max_memory)
        self._on_dask = is_dask(rows)
        if self._on_dask and cache is not None:
            raise InputError(
                f"`cache` must be None for Dask collections, got {shown(cache)}. Persist the collection instead."
            )
        source, blocks = open_rows(
            rows if self._on_dask else _repeated(rows, once=cache is not None), request
        )
        self._pieces, self._total = source.pieces(), source.total
        self.names, self.columns = blocks.names, blocks.columns
        self._counts: list[int] = []
        self._cache = None if cache is None else OwnFolder(cache)
        self._scan(blocks.ends)

    def __repr__(self) -> str:
        return f"RowFeatures({self.n_samples} rows, {self.n_features} features in {self.n_kernels} blocks)"

    # ---- the first pass ---------------------------------------------------------------------------

    def _scan(self, ends: ArrayLike | None) -> None:
        whole, written = Scan(), []
        places = [
            (self.budget, None if self._cache is None else self._cache.path / str(k))
            for k in range(len(self._pieces))
        ]
        for part in self._each(_scanned, places):
            self._counts.append(part.n_rows)
            written.append(part.written)
            whole.merge(part)
        if whole.sampling is None:
            raise InputError("`rows` must hold at least one row, got none.")
        self.y, self.sample_weight = np.concatenate(whole.y), np.concatenate(whole.weight)
        if not (self.sample_weight > 0).any():
            raise InputError("`sample_weight` must be positive for at least one row, got zeros only.")
        self.segments = whole.segments
        self.square_sums, self._weighted_square_sums = whole.square_sums
        self.groups = as_groups(ends, len(self.square_sums))
        self.n_samples = self.n_given = self._total = len(self.y)
        self.sample = whole.sampling.result()
        if self._cache is not None:
            self._pieces = written

    @checked
    def folds(
        self,
        n_folds: Annotated[int, Whole(2)],
        *,
        by: Annotated[str, OneOf(*UNITS)] = "row",
        seed: Annotated[int, Whole(0)] = 0,
    ) -> Index:
        """Folds of the rows, those of `FoldStatistics`.

        Parameters
        ----------
        n_folds : int
            Number of folds.
        by : {"row", "file"}
            Whether rows of a file may be in different folds.
        seed : int
            Other numbers make other folds.

        Returns
        -------
        array of int, shape (n_samples,)
        """
        if by == "file" and not all(source for source, _, _ in self.segments):
            raise InputError("`by` must be 'row' for rows that come from no file, got 'file'.")
        parts = [
            folds_of_rows(first, count, n_folds, source=source, by=by, seed=seed)
            for source, first, count in self.segments
        ]
        return np.concatenate(parts)

    def scales(self) -> Array:
        """Factors that make the mean diagonals of the kernels one, shape (n_kernels,): ``scale`` of the solvers.

        Means are over all rows, with their weights; kernels of zeros have the factor 1.
        """
        means = np.add.reduceat(self._weighted_square_sums, self.groups[:-1]) / self.sample_weight.sum()
        return np.divide(1.0, means, out=np.ones_like(means), where=means > 0)

    def as_labels(self) -> None:
        """Make targets of 0 and 1 labels -1 and 1; others stay as they are."""
        if np.isin(self.y, (0.0, 1.0)).all():
            self.y = np.where(self.y > 0, 1.0, -1.0)

    # ---- passes -----------------------------------------------------------------------------------

    def over_all(self, work: ChunkWork, beside: Vectors) -> tuple[list[Array], tuple[Array, ...]]:
        """The work on all rows: a pass."""
        ends = np.r_[0, np.cumsum(self._counts)]
        tasks = [
            (work, [values[ends[k] : ends[k + 1]] for values in beside], self._counts[k])
            for k in range(len(self._counts))
        ]
        whole = Gathered(self.n_given)
        for k, part in enumerate(self._each(_worked, tasks)):
            if part.begun:
                whole.put(slice(ends[k], ends[k + 1]), part.vectors, part.sums)
        return whole.vectors, tuple(whole.sums)

    def _each(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Results of a function of every piece, in their order."""
        with reporting(self.progress) as report:
            if self._on_dask:
                yield from on_workers(_alone, self._pieces, [(function, one) for one in arguments])
                return
            seen = 0
            if len(self._pieces) > 1 and joblib.effective_n_jobs(self.n_jobs) > 1:
                tasks = ((piece, function, one) for piece, one in zip(self._pieces, arguments, strict=True))
                for k, found in enumerate(each(_alone, tasks, self.n_jobs)):
                    yield found
                    seen += self._counts[k]
                    report(seen, self._total)
                return
            for piece, one in zip(self._pieces, arguments, strict=True):

                def told(count: int, before: int = seen) -> None:
                    report(before + count, self._total)

                yield function(piece, *one, report=told)
                seen += self._counts[-1] if function is _scanned else one[-1]


class Gathered:
    """What a work found of all parts of some rows.

    Parameters
    ----------
    n_rows : int

    Attributes
    ----------
    begun : bool
        Whether there was a part.
    vectors : list of arrays of shape (n_rows,)
    sums : list of arrays
    """

    def __init__(self, n_rows: int) -> None:
        self.n_rows, self.begun = n_rows, False
        self.vectors: list[Array] = []
        self.sums: list[Array] = []

    def put(self, rows: slice, vectors: Sequence[Array], sums: Sequence[Array]) -> None:
        """Take the results of a part."""
        if not self.begun:
            self.begun = True
            self.vectors = [np.empty(self.n_rows) for _ in vectors]
            self.sums = [np.zeros_like(one) for one in sums]
        for whole, part in zip(self.vectors, vectors, strict=True):
            whole[rows] = part
        for total, one in zip(self.sums, sums, strict=True):
            total += one


@dataclass(frozen=True)
class Repeated:
    """A function that returns an iterator, as an iterable."""

    function: Callable[[], Iterable[Any]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.function())


def _repeated(rows: Any, *, once: bool) -> Any:
    if callable(rows) and not isinstance(rows, type):
        return Repeated(rows)
    if isinstance(rows, Iterator) and not once:
        raise InputError(
            "`rows` must be readable several times, got an iterator, which is used up by one pass. Pass the function "
            "that makes it, a list of chunks, or a folder as `cache`."
        )
    return rows


def _alone(piece: Source, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The function with one thread, in a process or thread of its own."""
    with one_blas_thread_each():
        return function(piece, *arguments)


def _scanned(
    piece: Source, budget: float, place: Path | None, report: Callable[[int], None] | None = None
) -> Scan:
    found = Scan()
    if place is not None:
        place.mkdir()
        found.written = WrittenRows(place)
    for chunk in piece.chunks({}):
        if len(chunk) == 0:
            continue
        with in_chunk(chunk):
            width = 0 if found.sampling is None else found.square_sums.shape[1]
            Z, targets, given, single = check_rows(
                hosted(chunk.Z), chunk.y, chunk.sample_weight, None, width, 0
            )
            if not single and targets.shape[1] > 1:
                raise InputError(f"`y` must have one column, got {targets.shape[1]}.")
        weight = np.ones(len(chunk)) if given is None else given
        y = targets[:, 0]
        if found.sampling is None:
            found.sampling = Sampling(sample_size(int(Z.shape[1]), budget))
        found.sampling.add(Z, y, weight, found.n_rows, source=chunk.source, first=chunk.first)
        found.y.append(y)
        found.weight.append(weight)
        own = weighted = _square_sums(Z)
        if (weight != 1.0).any():
            roots = np.sqrt(weight)[:, None]
            weighted = _square_sums(Z.multiply(roots) if is_sparse(Z) else Z * roots)
        found.square_sums = found.square_sums + np.stack([own, weighted])
        found.segments.append((chunk.source, chunk.first, len(y)))
        if found.written is not None:
            found.written.write(Z)
        if report is not None:
            report(found.n_rows)
    return found


def _square_sums(Z: Any) -> Array:
    if is_sparse(Z):
        return np.asarray(Z.multiply(Z).sum(axis=0), dtype=np.float64).reshape(-1)
    # a sum in double precision
    return np.einsum("ij,ij->j", Z, Z, dtype=np.float64)


def _worked(
    piece: Source,
    work: ChunkWork,
    beside: Vectors,
    count: int,
    report: Callable[[int], None] | None = None,
) -> Gathered:
    out = Gathered(count)
    at = 0
    for chunk in piece.chunks({}):
        size = len(chunk)
        if size == 0:
            continue
        if at + size > count:
            at += size
            break
        Z = hosted(chunk.Z)
        Z = Z.astype(np.float64) if is_sparse(Z) else np.asarray(Z, dtype=np.float64)
        part = slice(at, at + size)
        out.put(part, *work(Z, [values[part] for values in beside]))
        at += size
        if report is not None:
            report(at)
    if at != count:
        raise InputError(
            f"`rows` must give the same rows in every pass, {count:,} of them in this part, got "
            f"{'more' if at > count else f'{at:,}'}. Leave files as they are while a solver reads them."
        )
    return out
