"""Statistics of rows that are read in chunks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import joblib
from numpy.typing import ArrayLike

from kernelweave._checks import MEMORY_SHARE, memory_budget, warn_user
from kernelweave._errors import InputError, KernelWarning
from kernelweave._parameters import Function, OneOf, Whole, checked, shown
from kernelweave._threads import one_blas_thread_each
from kernelweave._types import Device, RowsLike
from kernelweave.gram import BlockStatistics
from kernelweave.rows.chunks import Source
from kernelweave.rows.dask_rows import is_dask, on_workers
from kernelweave.rows.folds import UNITS, FoldStatistics, Statistics, add_chunk
from kernelweave.rows.parallel import Jobs, each
from kernelweave.rows.progress import Report, reporting
from kernelweave.rows.sources import Blocks, Request, open_rows

#: Results that each worker hands back: between them Ctrl-C loses what it has read.
SHARES = 4


@checked
def block_statistics(
    rows: RowsLike,
    y: ArrayLike | None = None,
    *,
    groups: ArrayLike | Mapping[str, Sequence[str]] | str | None = None,
    target: str | Sequence[str] | None = None,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
    sample_weight: ArrayLike | None = None,
    features: Annotated[Any, Function() | None] = None,
    folds: Annotated[int | None, Whole(2) | None] = None,
    fold_by: Annotated[str, OneOf(*UNITS)] = "row",
    seed: Annotated[int, Whole(0)] = 0,
    into: BlockStatistics | FoldStatistics | None = None,
    max_memory: float | str | None = None,
    n_jobs: Jobs = None,
    device: Device = None,
    progress: Report | bool | None = None,
) -> BlockStatistics | FoldStatistics:
    """Sums over rows of features and targets, from arrays, files, iterators or Dask, read in chunks.

    Parameters
    ----------
    rows : array, sparse matrix, frame, path, list of paths, iterable, Dask array or Dask frame
        An array or memory map (n_samples, n_features) with `y`; a data frame, a Parquet or text table (.csv, .tsv, also
        packed), a folder of such files or a list of them, with `target`; or an iterator of chunks ``(Z, y)`` or
        ``(Z, y, sample_weight)``.
    y : array of shape (n_samples,) or (n_samples, n_outputs), optional
        Targets of an array.
    groups : array of int, shape (n_kernels + 1,), or mapping, or path, optional
        The starts of the blocks and the end, as for `FeatureStack`; for tables also names of blocks with their columns,
        in which ``*`` and ``?`` match any text, or a TOML or GMT file of such names. Default: every column is a block.
    target : str or list of str, optional
        Columns of the targets in a table.
    weight : str, optional
        Column of sample weights in a table.
    columns : list of str, optional
        Columns of the features in a table. Default: all others.
    sample_weight : array of shape (n_samples,), optional
        Weights >= 0 of the rows of an array.
    features : callable, optional
        Features of a chunk of rows, ``Z = features(X)``, such as the method ``transform`` of a fitted kernel; `groups`
        are then those of Z.
    folds : int, optional
        Number of folds: `FoldStatistics` for cross-validation are returned.
    fold_by : {"row", "file"}, default="row"
        Whether folds are made of rows or of files.
    seed : int, default=0
        Other numbers make other folds.
    into : BlockStatistics or FoldStatistics, optional
        Statistics to continue; rows that these have taken of a file or array are left out.
    max_memory : float or str, optional
        For a chunk and the statistics, in bytes or such as "2GB". Default: chunks of some tens of megabytes, and a
        `KernelWarning` before the first sum if sums and the factor of a solution exceed the memory of the machine.
    n_jobs : int, optional
        Files, or parts of an array, that are read at the same time, by joblib; each has one thread of BLAS. Parts of
        Dask collections are computed by its own workers.
    device : str or device, optional
        Where to multiply: a device of torch, such as "cuda". Default: where the rows are.
    progress : callable or bool, optional
        ``progress(n_rows, total)`` after every chunk, or False. Default: a line on the terminal after two seconds.

    Returns
    -------
    BlockStatistics or FoldStatistics
        After Ctrl-C those of the rows that are in, with a `KernelWarning`; pass them as `into` to continue.

    Raises
    ------
    InputError
        Columns that are missing or hold no numbers, NaN, files that cannot be read, too little memory.

    Notes
    -----
    One pass, O(n_features^2) per row. Sums take 4 bytes for each pair of columns, for each fold if there are folds; a
    solution takes 8 more. The result does not depend on the chunks, but for rounding errors, and folds do
    not at all.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> Z = np.random.default_rng(0).normal(size=(1000, 6))
    >>> kw.rows.block_statistics(Z, Z[:, 0] - Z[:, 5], groups=[0, 2, 4, 6])
    BlockStatistics(1000 rows, 6 features in 3 blocks, 1 outputs)
    >>> kw.rows.block_statistics(((Z[k::4], Z[k::4, 0]) for k in range(4)), folds=5)
    FoldStatistics(5 folds by row, 1000 rows)
    """
    request = Request(y, sample_weight, target, weight, columns, groups, features, max_memory)
    source, blocks = open_rows(rows, request)
    found = _begun(into, blocks, folds, fold_by, seed, device)
    if is_dask(rows):
        pieces = source.pieces()
        empty: tuple[Any, ...] = (found.empty(), {})
        return found.merge(on_workers(_of_piece, pieces, [empty] * len(pieces), _merged)[0])
    try:
        with reporting(progress) as report:
            _collect(source, found, n_jobs=n_jobs, max_memory=max_memory, report=report)
    except KeyboardInterrupt:
        if not found.taken:
            raise
        warnings.warn(
            f"Interrupted: {_taken(found)} are in. Pass what is returned as `into` to continue.",
            KernelWarning,
            stacklevel=3,
        )
    return found


def _begun(
    into: Statistics | None, blocks: Blocks, folds: int | None, fold_by: str, seed: int, device: Any
) -> Statistics:
    """Statistics without rows, or those to continue."""
    if into is None:
        what: dict[str, Any] = {"names": blocks.names, "columns": blocks.columns, "device": device}
        if folds is None:
            return BlockStatistics(blocks.ends, **what)
        return FoldStatistics(folds, blocks.ends, by=fold_by, seed=seed, **what)
    if not isinstance(into, BlockStatistics | FoldStatistics):
        raise InputError(f"`into` must be BlockStatistics or FoldStatistics, got {shown(into)}.")
    if folds is not None and (not isinstance(into, FoldStatistics) or into.n_folds != folds):
        raise InputError(f"`into` must have {folds} folds, as `folds` says, got {into!r}. Leave `folds` out.")
    return into


def _taken(found: Statistics) -> str:
    files = sum(1 for name in found.taken if name)
    rows = f"{sum(found.taken.values()):,} rows"
    return f"{rows} of {files} files" if files else rows


def _collect(
    source: Source, found: Statistics, *, n_jobs: int | None, max_memory: float | str | None, report: Report
) -> None:
    taken = dict(found.taken)
    pieces = source.pieces()
    n_workers = joblib.effective_n_jobs(n_jobs)
    if len(pieces) > 1 and n_workers > 1:
        if found.n_features:
            _check_memory(found, found.n_features + 1, max_memory, n_workers)
        for part in each(
            _of_pieces, ((own, found.empty(), taken) for own in _shares(pieces, n_workers)), n_jobs
        ):
            found.merge(part)
            report(sum(found.taken.values()), source.total)
        return
    checked_memory = False
    for chunk in source.chunks(taken):
        if not checked_memory:
            n_outputs = 1 if chunk.y is None or chunk.y.ndim == 1 else chunk.y.shape[1]
            _check_memory(found, int(chunk.Z.shape[1]) + n_outputs, max_memory)
            checked_memory = True
        add_chunk(found, chunk)
        report(sum(found.taken.values()), source.total)


def _shares(pieces: Sequence[Source], n_workers: int) -> Iterator[Sequence[Source]]:
    """Successive pieces that a worker adds up in the same sums, a few times for each worker."""
    n_shares = min(len(pieces), SHARES * n_workers)
    ends = [k * len(pieces) // n_shares for k in range(n_shares + 1)]
    for first, last in pairwise(ends):
        yield pieces[first:last]


def _of_pieces(pieces: Sequence[Source], empty: Statistics, taken: Mapping[str, int]) -> Statistics:
    """Statistics of the rows of some files or parts, in a process or thread of its own."""
    found = empty.copy()
    with one_blas_thread_each():
        for piece in pieces:
            for chunk in piece.chunks(taken):
                add_chunk(found, chunk)
    return found


def _of_piece(piece: Source, empty: Statistics, taken: Mapping[str, int]) -> Statistics:
    return _of_pieces([piece], empty, taken)


def _merged(parts: Sequence[Any]) -> Any:
    # the results of other tasks may be needed again, and are not changed
    found = parts[0].copy()
    for part in parts[1:]:
        found.merge(part)
    return found


def _check_memory(found: Statistics, size: int, max_memory: float | str | None, n_workers: int = 0) -> None:
    """Raise or warn before the first sum if the statistics, and the factor of a solution, exceed the memory.

    Sums are half a matrix each: of all rows or of each fold, then also one of several folds, and those of workers and
    the two that they are at most ahead. A factor is a whole one.
    """
    of_one = held = 1
    if isinstance(found, FoldStatistics):
        of_one, held = found.n_folds, found.n_folds + 1
    sums, factor = 4.0 * size * (size + 1) * (held + 2 * n_workers * of_one), 8.0 * size * size
    needed = sums + factor
    if max_memory is None:
        there = memory_budget(None) / MEMORY_SHARE
        if needed > there:
            warn_user(
                f"Products of {size:,} columns with each other take {sums / 2**30:.1f} GB, with the factor of a "
                f"solution {needed / 2**30:.1f} GB, more than the {there / 2**30:.1f} GB of this machine. Take fewer "
                "columns, folds or jobs.",
                KernelWarning,
            )
        return
    budget = memory_budget(max_memory)
    if needed > budget:
        raise InputError(
            f"`max_memory` must be at least {needed / 2**20:.0f} MB for products of {size} columns with each other, "
            f"got {budget / 2**20:.0f} MB. Raise it, or take fewer features."
        )
