"""What a table holds beyond types: missing cells and what would fill them, outliers, and how alike views are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._sparse import is_sparse, to_dense
from kernelweave._types import DataFrame
from kernelweave.kernels import Impute
from kernelweave.views import PrecomputedView, TableEncoder
from kernelweave_app.runs.preparing import Prepared
from kernelweave_app.runs.sparse_views import TABLE, Tables
from kernelweave_app.studio.profiles import cell, numeric_columns
from kernelweave_app.studio.schema import Alignments, Gap, Missing, Outlier, Outliers

if TYPE_CHECKING:
    from kernelweave_app.runs.preparing import Rows

Array = NDArray[np.float64]

#: Columns with missing cells that are described, those with most of them.
MOST_GAPS = 30
#: Rows and columns on which nearest rows are searched for.
MOST_NEAREST = (500, 300)
#: Rows on which views are compared.
MOST_ROWS = 300
#: Views that are compared.
MOST_VIEWS = 40
#: Outliers: distance from the median in standard deviations as the median absolute deviation estimates them.
FAR = 5.0
#: Standard deviations of a normal distribution in a median absolute deviation.
MAD_TO_SD = 1.4826
MOST_OUTLIERS = 100
#: Cells that are searched for outliers; of larger tables, rows spread evenly.
MOST_CELLS = 10_000_000


def describe_missing(table: DataFrame, columns: list[str], views: Mapping[str, list[str]]) -> Missing:
    """Missing cells of the columns to learn from, and what the rules of `missing` would put there.

    Parameters
    ----------
    table : DataFrame
        All rows; a fit takes the numbers from its training rows.
    columns : list of str
    views : mapping of str to list of str

    Returns
    -------
    Missing
    """
    lost = table[columns].isna().to_numpy()
    counts = lost.sum(axis=0)
    worst = [j for j in np.argsort(-counts, kind="stable")[:MOST_GAPS] if counts[j]]
    lacking = {
        view: int(table[names].isna().all(axis=1).sum())
        for view, names in (views or {}).items()
        if len(views) > 1 and names
    }
    numeric = set(numeric_columns(table[[columns[j] for j in worst]]))
    nearest = _nearest(table, columns, [columns[j] for j in worst if columns[j] in numeric], counts)
    gaps = []
    for j in worst:
        name, known = columns[j], table[columns[j]].dropna()
        frequent = known.mode() if len(known) else known
        is_number = name in numeric and len(known) > 0
        gaps.append(
            Gap(
                name=name,
                n_missing=int(counts[j]),
                mean=float(known.mean()) if is_number else None,
                median=float(known.median()) if is_number else None,
                frequent="" if name in numeric or not len(frequent) else cell(frequent.iloc[0]) or "",
                nearest=nearest.get(name, []),
            )
        )
    return Missing(
        n_rows=len(table),
        n_columns=int((counts > 0).sum()),
        n_cells=int(counts.sum()),
        n_incomplete=int(lost.any(axis=1).sum()),
        columns=gaps,
        views={view: count for view, count in lacking.items() if count},
    )


def _nearest(
    table: DataFrame, columns: list[str], wanted: list[str], counts: Array
) -> dict[str, list[float]]:
    """The smallest and largest number that `missing` = "impute-nearest" puts into each column."""
    most_rows, most_columns = MOST_NEAREST
    numeric = numeric_columns(table[columns]) if len(columns) <= 10 * most_columns else wanted
    # the columns with missing cells, and some that tell which rows are near
    others = [name for name in numeric if name not in set(wanted)][: max(0, most_columns - len(wanted))]
    names = [*wanted, *others]
    if not wanted:
        return {}
    part = table[names]
    lost = part[wanted].isna().any(axis=1).to_numpy()
    rows = np.r_[np.flatnonzero(lost)[: most_rows // 2], np.flatnonzero(~lost)[:most_rows]][:most_rows]
    frame = part.iloc[np.sort(rows)].astype(float)
    encoded = TableEncoder(missing=True).fit(frame).transform(frame)
    filled = Impute("nearest").fitted(encoded).apply(encoded).values
    found = {}
    for j, name in enumerate(wanted):
        values = filled[frame[name].isna().to_numpy(), j]
        if len(values):
            found[name] = [float(values.min()), float(values.max())]
    return found


def find_outliers(table: DataFrame) -> Outliers:
    """Numbers far from the median of their column.

    Parameters
    ----------
    table : DataFrame

    Returns
    -------
    Outliers
        With `FAR` and more robust standard deviations, |x - median| / (1.4826 MAD). Columns of which more than half the
        cells are equal have no such distance and are left out.
    """
    names = numeric_columns(table)
    step = max(1, int(np.ceil(len(table) * max(1, len(names)) / MOST_CELLS)))
    rows = np.arange(0, len(table), step)
    if not names or len(rows) < 3:
        return Outliers(n_outliers=0, n_rows=len(rows), outliers=[])
    part = table[names] if step == 1 else table[names].iloc[rows]
    values = part.to_numpy(dtype=np.float64, na_value=np.nan)
    middle = _column_medians(values)
    spread = MAD_TO_SD * _column_medians(np.abs(values - middle))
    with np.errstate(all="ignore"):
        z = np.where(spread > 0, (values - middle) / np.where(spread > 0, spread, 1.0), 0.0)
    z = np.where(np.isfinite(z), z, 0.0)
    far = np.argwhere(np.abs(z) >= FAR)
    size = np.abs(z[far[:, 0], far[:, 1]])
    far = far[np.argsort(-size, kind="stable")]
    return Outliers(
        n_outliers=len(far),
        n_rows=len(rows),
        columns={names[j]: int(c) for j, c in zip(*np.unique(far[:, 1], return_counts=True), strict=True)}
        if len(far)
        else {},
        outliers=[
            Outlier(
                row=int(rows[i]),
                column=names[j],
                value=float(values[i, j]),
                median=float(middle[j]),
                z=float(z[i, j]),
            )
            for i, j in far[:MOST_OUTLIERS]
        ],
    )


def _column_medians(values: Array) -> Array:
    """Medians of columns without their missing cells; NumPy's own are quick only where nothing is missing."""
    if not np.isnan(values).any():
        return np.asarray(np.median(values, axis=0))
    ordered = np.sort(values, axis=0)  # missing ones come last
    known = (~np.isnan(ordered)).sum(axis=0)
    at = np.arange(values.shape[1])
    low, high = (
        ordered[np.maximum(known - 1, 0) // 2, at],
        ordered[np.minimum(known // 2, len(values) - 1), at],
    )
    return np.asarray((low + high) / 2.0)


def align_views(prepared: Prepared, seed: int = 0) -> Alignments:
    """Centred alignment of the linear kernels of views, and of the target, on some rows.

    Parameters
    ----------
    prepared : Prepared
    seed : int, default=0

    Returns
    -------
    Alignments
        From 0 for views that say different things of these rows to 1 for those that say the same.
    """
    n_rows = len(prepared.y)
    rows: Rows = np.arange(n_rows)
    if n_rows > MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(n_rows, MOST_ROWS, replace=False))
    grams: dict[str, Array] = {}
    for name, part in _parts(prepared, rows).items():
        if len(grams) == MOST_VIEWS:
            break
        K = _centred(_linear(part))
        if (size := float(np.linalg.norm(K))) > 0:
            grams[name] = K / size
    values = np.array([[float((K * L).sum()) for L in grams.values()] for K in grams.values()])
    target = _centred(_target(prepared, rows))
    size = float(np.linalg.norm(target)) or 1.0
    return Alignments(
        names=list(grams),
        values=np.clip(values, 0.0, 1.0).tolist(),
        target=[float((K * target).sum() / size) for K in grams.values()],
        n_rows=len(rows),
    )


def _parts(prepared: Prepared, rows: Rows) -> dict[str, Any]:
    """The views of some rows, each as a frame, sparse rows or a kernel."""
    X = prepared.X.iloc[rows]
    if isinstance(X, Tables):
        return dict(X.views)
    return {view: X[names] for view, names in prepared.views.items()} or {TABLE: X}


def _linear(part: Any) -> Array:
    """The linear kernel of a view: standardised numbers, categories by indicators, missing cells by their mean."""
    if isinstance(part, PrecomputedView):
        return part.matrix[np.ix_(part.rows, part.rows)]
    if is_sparse(part):
        return np.asarray(to_dense(part @ part.T), dtype=np.float64)
    K = np.zeros((len(part), len(part)))
    codes = np.zeros((len(part), 0))
    if all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in part.dtypes):
        A = part.to_numpy(dtype=np.float64)
    else:
        table = TableEncoder(missing=True).fit(part).transform(part)
        A = table.values[:, np.asarray(table.levels) == 0]
        codes = table.values[:, np.asarray(table.levels) > 0]
    known = ~np.isnan(A)
    with np.errstate(all="ignore"):
        mean = np.where(known, A, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        A = np.where(known, A - mean, 0.0)
        spread = np.sqrt((A**2).mean(axis=0))
        A = np.where(np.isfinite(A), A, 0.0) / np.where((spread > 0) & np.isfinite(spread), spread, 1.0)
    K += A @ A.T
    for column in codes.T:
        K += (column[:, None] == column) * 1.0
    return K


def _centred(K: Array) -> Array:
    K = np.where(np.isfinite(K), K, 0.0)
    means = K.mean(axis=0)
    return np.asarray(K - means - means[:, None] + means.mean())


def _target(prepared: Prepared, rows: Rows) -> Array:
    y = prepared.y[rows]
    if prepared.task == "regression":
        values = np.asarray(y, dtype=np.float64)
        return np.outer(values - values.mean(), values - values.mean())
    codes = np.unique(np.asarray(y).astype(str), return_inverse=True)[1]
    return (codes[:, None] == codes) * 1.0
