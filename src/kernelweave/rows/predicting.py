"""Predictions for rows that are read in chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import joblib
import numpy as np
from numpy.typing import ArrayLike

from kernelweave._devices import Kind, hosted, is_foreign, namespace_of
from kernelweave._docstrings import texts_of
from kernelweave._errors import InputError
from kernelweave._parameters import Function, checked, shown
from kernelweave._threads import one_blas_thread_each
from kernelweave._types import Array, Labels, RowsLike
from kernelweave.gram.row_checks import check_features
from kernelweave.results import Path, Solution
from kernelweave.rows.chunks import Chunk, Source, Transform, features_of, in_chunk
from kernelweave.rows.collecting import block_statistics
from kernelweave.rows.dask_rows import is_dask
from kernelweave.rows.parallel import Jobs, each
from kernelweave.rows.progress import Report, reporting
from kernelweave.rows.sources import Request, open_rows


@texts_of(block_statistics)
@checked
def predict_rows(
    solution: Solution | Path[Solution],
    rows: RowsLike,
    *,
    groups: ArrayLike | Mapping[str, Sequence[str]] | str | None = None,
    columns: Sequence[str] | None = None,
    features: Annotated[Any, Function() | None] = None,
    max_memory: float | str | None = None,
    n_jobs: Jobs = None,
    progress: Report | bool | None = None,
) -> Array | Labels:
    """``Z @ feature_coef + intercept`` for rows that are read in chunks.

    Parameters
    ----------
    solution : Solution or Path
        From features or statistics.
    rows : array, sparse matrix, frame, path, list of paths, iterable of Z, Dask array or Dask frame
        An array (n_rows, n_features); a data frame, a Parquet or text table, a folder of such files or a list of them;
        or an iterator of chunks Z without targets.
    groups : mapping or path, optional
        Names of blocks with their columns, or a TOML or GMT file of them, if the fit had these.
    columns : list of str, optional
        Columns of the features in a table. Default: all.
    max_memory : float or str, optional
        For a chunk.
    n_jobs : int, optional
        Files, or parts of an array, at the same time.

    Returns
    -------
    array of shape (n_rows,) or (n_rows, n_outputs)
        In the library of rows, and on their device if it has float64.
        With the loss of counts logarithms of the means, which are ``kw.losses.Poisson().prediction(values)``.
        For a path with an axis of length n_alphas after the first. For Dask collections a Dask array, which is
        computed where the rows are when it is asked for.

    Raises
    ------
    InputError
        A solution without coefficients of features, rows with another number of features.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> Z = np.random.default_rng(0).normal(size=(100, 3))
    >>> statistics = kw.rows.block_statistics(Z, Z[:, 0] + 2.0)
    >>> result = kw.solve_rls2(statistics, alpha=1e-6, fit_intercept=True)
    >>> bool(np.allclose(kw.rows.predict_rows(result, Z), Z[:, 0] + 2.0, atol=1e-4))
    True
    """
    if not isinstance(solution, Solution | Path) or not math.prod(np.shape(solution.feature_coef)):
        raise InputError(
            f"`solution` must be a solution or path with `feature_coef`, got {shown(solution)}. Solve on a "
            "FeatureStack or on BlockStatistics."
        )
    coef, intercept = _coefficients(solution)
    request = Request(columns=columns, groups=groups, features=features, max_memory=max_memory, targets=False)
    if is_dask(rows):
        return _on_dask(rows, request, coef, intercept)
    source, _ = open_rows(rows, request)
    pieces = source.pieces()
    if len(pieces) > 1 and joblib.effective_n_jobs(n_jobs) > 1:
        found: Iterator[Any] = each(_of_piece, ((piece, coef, intercept) for piece in pieces), n_jobs)
    else:
        found = (_of_chunk(chunk, coef, intercept) for chunk in source.chunks({}))
    out, seen = [], 0
    with reporting(progress) as report:
        for part in found:
            out.append(part)
            seen += int(part.shape[0])
            report(seen, source.total)
    return _joined(out, coef)


def _joined(parts: list[Any], coef: Array) -> Array:
    """Predictions of chunks one after another, in the library of the chunks."""
    if parts and is_foreign(parts[0]):
        return namespace_of(parts[0]).concat(parts)
    return np.concatenate(parts) if parts else np.empty((0, *coef.shape[1:]))


def _coefficients(solution: Solution | Path[Solution]) -> tuple[Array, Array]:
    """Coefficients (n_features, ...) and intercepts of the same shape without the first axis."""
    if isinstance(solution, Path):
        coef = np.moveaxis(hosted(solution.feature_coef), 1, 0)
        intercept = np.array([one.intercept for one in solution.solutions])
        if coef.ndim == 3 and intercept.ndim == 1:
            intercept = intercept[:, None]
        return coef, intercept
    return np.asarray(hosted(solution.feature_coef)), np.asarray(solution.intercept)


def _of_piece(piece: Source, coef: Array, intercept: Array) -> Any:
    with one_blas_thread_each():
        found = [_of_chunk(chunk, coef, intercept) for chunk in piece.chunks({})]
    return _joined(found, coef)


def _of_chunk(chunk: Chunk, coef: Array, intercept: Array) -> Any:
    """Predictions for a chunk; messages name its file and rows."""
    with in_chunk(chunk):
        return decision(chunk.Z, coef, intercept)


def decision(Z: Any, coef: Array, intercept: Array) -> Any:
    """``Z @ coef + intercept`` after a check of Z, in its library; on its device if that has float64."""
    rows, kind = check_features(Z, len(coef)), Kind.of(Z)
    flat, shape = coef.reshape(len(coef), -1), (int(rows.shape[0]), *coef.shape[1:])
    if kind is None or not is_foreign(rows):
        found = np.asarray(rows @ flat).reshape(shape) + intercept
        return found if kind is None else kind.give_back(found)
    xp = kind.xp
    found = xp.astype(rows, xp.float64) @ kind.give(flat)
    return xp.reshape(found, shape) + kind.give(intercept)


def _of_rows(Z: Any, coef: Array, intercept: Array, features: Transform | None) -> Any:
    with one_blas_thread_each():
        return decision(Z if features is None else features_of(features, Z), coef, intercept)


def _on_dask(rows: Any, request: Request, coef: Array, intercept: Array) -> Any:
    """A Dask array of the predictions."""
    if hasattr(rows, "columns"):
        layout, _ = request.layout([str(name) for name in rows.columns])
        rows = rows[list(layout.columns)].to_dask_array()
    else:
        request.blocks()
        rows = rows.rechunk({1: -1})
    new = {k + 1: size for k, size in enumerate(coef.shape[1:])}
    return rows.map_blocks(
        _of_rows,
        coef,
        intercept,
        request.features,
        dtype=np.float64,
        drop_axis=[1],
        new_axis=list(new) or None,
        chunks=(rows.chunks[0], *((size,) for size in new.values())),
    )
