"""What a plain fit takes: kernels of a table or of several views, by what the training rows hold, and the learner.

Everything here is decided by kinds of columns, shares of zeros and sizes, never by targets or by the order of rows. The
measurements behind it are in the design notes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._drawing import percent
from kernelweave._forms import numbered
from kernelweave._sparse import entries, is_sparse
from kernelweave.kernels import RBF, CharNGrams, Kernel, Laplacian, Linear, On, Precomputed, Tokens
from kernelweave.kernels.composed import put
from kernelweave.kernels.steps import Metric
from kernelweave.views import BlockTable, GramTable, SparseTable, Table, ViewColumns
from kernelweave.views.tables import DATE, TEXT

__all__ = ["CLASSIFICATION", "NORMALIZER", "REGRESSION", "Recipe", "choose", "holds_words", "on_view"]

#: The learners of a plain fit, by short name, with parameters.
CLASSIFICATION: tuple[str, dict[str, Any]] = ("lp", {"p": 2.0, "solver": "dual-newton", "tol": 1e-7})
REGRESSION: tuple[str, dict[str, Any]] = ("rls2", {"alpha": "auto", "relax": "auto"})
#: How kernels are brought to one scale.
NORMALIZER = "center"
#: Values of C that 5 folds choose from.
COSTS = (0.1, 1.0, 10.0, 100.0)
#: Rows on which C is chosen, at most.
COST_ROWS = 1000
#: Rows that have a decision value by the other folds at the chosen C, at most.
HELD_ROWS = 4000
#: Relative gap on folds: the accuracy depends no more on smaller ones.
COST_TOL = 1e-4

#: Widths, as multiples of 1 / median distance.
WIDTHS = (0.25, 1.0, 4.0)
#: Views that get all kernels; more of them get a linear one and a Gaussian.
FEW_VIEWS = 8
#: Columns that get a Gaussian of their own each, in regression.
SINGLE_COLUMNS = 40
#: Rows that get every width; more of them get the middle one.
FEW_ROWS = 3000
#: Differences that sums of absolute differences may take, rows * rows * columns; Laplacian kernels are left out above.
MOST_DIFFERENCES = 4e9
#: Columns hold counts where so many of the cells are zero and none is below.
ZEROS = 0.5
#: They hold counts of words, however they are stored, where so many of the cells are zero and columns are so many.
WORD_ZEROS, WORD_COLUMNS = 0.9, 100


@dataclass(frozen=True)
class Recipe:
    """Kernels of a plain fit, and why.

    Attributes
    ----------
    kernels : list of Kernel
    found : dict of str to list of str
        By view, "" for one table: what was found, and what follows.
    """

    kernels: list[Kernel] = field(default_factory=list)
    found: dict[str, list[str]] = field(default_factory=dict)


def choose(
    table: Table,
    *,
    regression: bool = False,
    sample_weight: NDArray[np.float64] | None = None,
    views: Mapping[str, tuple[Table, Callable[[Kernel, Any, str | None], Kernel]]] | None = None,
    step: Metric | None = None,
) -> Recipe:
    """Kernels of a table, or of every view.

    Parameters
    ----------
    table : Table
        Training rows.
    regression : bool, default=False
        Whether numbers are to be predicted.
    sample_weight : array of shape (n_rows,), optional
        A weight equals a repetition of the row.
    views : dict of str to (table, place), optional
        Groups of columns, each with what puts kernels there; default: the blocks of the table, if it has some.
    step : Metric, optional
        Of kernels of all numeric and categorical columns, after these are standardised; further kernels of such columns
        are left out then.

    Returns
    -------
    Recipe
        Its kernels take their numbers when they are fitted.
    """
    if views is None and isinstance(table, BlockTable):
        views = {view: (block, on_view(view)) for view, block in table.blocks.items()}
    if views is None:
        own, said = of_view(table, regression=regression, sample_weight=sample_weight, step=step)
        return Recipe(own, {"": said})
    kernels: list[Kernel] = []
    found: dict[str, list[str]] = {}
    for view, (block, place) in views.items():
        own, found[view] = of_view(
            block, regression=regression, sample_weight=sample_weight, n_views=max(2, len(views)), step=step
        )
        kernels += [put(kernel, place) for kernel in own]
    return Recipe(kernels, found)


def on_view(view: str) -> Callable[[Kernel, Any, str | None], Kernel]:
    """What puts a kernel on columns of a view, under a name."""
    return lambda base, columns, name: On(base, ViewColumns(view, columns), name)


def of_view(
    table: Table,
    *,
    regression: bool = False,
    sample_weight: NDArray[np.float64] | None = None,
    n_views: int = 1,
    step: Metric | None = None,
) -> tuple[list[Kernel], list[str]]:
    """Kernels of one table or view, of which there are so many; and what it holds, and what follows, in sentences."""
    if isinstance(table, GramTable):
        return [Precomputed()], ["Kernel values, taken as they are."]
    few_views = n_views <= FEW_VIEWS
    few_rows = table.n_rows <= FEW_ROWS
    widths = WIDTHS if few_views and few_rows else (1.0,)
    found = _said_of_sizes(table.n_rows, n_views)
    weights = np.ones(table.n_rows) if sample_weight is None else sample_weight
    if isinstance(table, SparseTable) or holds_words(table, weights):
        return _of_words(table, weights, widths, found)
    levels = np.asarray(table.levels)
    texts, categories = np.flatnonzero((levels == TEXT) & _read(table)), np.flatnonzero(levels > 0)
    numeric, dates = np.flatnonzero(levels == 0), np.flatnonzero(levels == DATE)
    kernels: list[Kernel] = []
    if step is not None and (len(numeric) or len(categories) or len(dates)):
        kernels, remark = _in_metric(step, table, widths, few_views)
        found.insert(0, remark)
    elif len(numeric) or len(categories) or len(dates):
        kernels = _of_columns(table, numeric, categories, weights, widths, few_views, found)
        single = np.flatnonzero((levels == 0) | (levels == DATE))
        if regression and n_views == 1 and len(levels) > 1 and 0 < len(single) <= SINGLE_COLUMNS:
            kernels += [_standard(RBF(gamma="median")).on([_called(table, j)]) for j in single.tolist()]
            what = "numeric column" if not len(dates) else "column of numbers or dates"
            found.append(
                f"A Gaussian of each {what} alone, for sums of functions of single columns (numbers to "
                f"predict, at most {SINGLE_COLUMNS} columns)."
            )
    for j in texts.tolist():
        shapes: list[Kernel] = [CharNGrams(), Tokens()]
        kernels += shapes if len(levels) == 1 else [kernel.on([_called(table, j)]) for kernel in shapes]
    if len(texts):
        found.append(f"{numbered(len(texts), 'column')} of texts: character n-grams, and words.")
    found += said_of_dates(table)
    return kernels, found


def said_of_dates(table: Table) -> list[str]:
    """What is read of the columns of dates of a table."""
    known = [(name, form) for name, form in zip(table.column_names, table.dates or (), strict=False) if form]
    found = [f"{name!r}: {form.describe()}." for name, form in known]
    since = {form.place: name for name, form in known}
    pairs = [f"{since[place]!r} to {name!r}" for name, form in known for place, *_ in form.since]
    return [*found, *([f"Elapsed days from {', '.join(pairs)}."] if pairs else [])]


def _said_of_sizes(n_rows: int, n_views: int) -> list[str]:
    if n_views > FEW_VIEWS:
        return [f"One of {n_views} views, more than {FEW_VIEWS}: a linear kernel and a Gaussian of each."]
    if n_rows > FEW_ROWS:
        return [f"{n_rows} rows, more than {FEW_ROWS}: one width of each kind of kernel."]
    return []


def holds_words(table: Table, weights: NDArray[np.float64]) -> bool:
    """Whether a table holds numbers like counts of words: many columns, most cells zero, none below.

    `weights` are those of the rows.
    """
    return is_sparse_content(table, weights) and not bool((entries(table.values) < 0.0).any())


def is_sparse_content(table: Table, weights: NDArray[np.float64]) -> bool:
    """Whether a table has many columns of numbers, and most cells are zero; `weights` are those of the rows."""
    if table.n_columns < WORD_COLUMNS or any(table.levels):
        return False
    return _zeros(table.values, weights) >= WORD_ZEROS


def _zeros(values: Any, weights: NDArray[np.float64]) -> float:
    """The share of the cells that are zero, of dense or sparse rows with weights."""
    stored = np.diff(values.indptr) if is_sparse(values) else np.count_nonzero(values, axis=1)
    return 1.0 - float(weights @ stored) / max(float(weights.sum()) * values.shape[1], 1.0)


def _of_words(
    table: Table, weights: NDArray[np.float64], widths: tuple[float, ...], found: list[str]
) -> tuple[list[Kernel], list[str]]:
    """Kernels of counts of words, and of all sparse rows, which are never made dense."""
    shapes: list[Kernel] = [Linear(), *(RBF(gamma=("median", width)) for width in widths)]
    first = (
        f"{numbered(table.n_columns, 'column')}, {_share(_zeros(table.values, weights))} of the cells zero: rows of "
        f"length 1, never standardised; Linear, and RBF at {_multiples(widths)} over the median squared distance."
    )
    return [kernel.prepared("normalize-rows") for kernel in shapes], [first, *found]


def _of_columns(
    table: Table,
    numeric: NDArray[np.intp],
    categories: NDArray[np.intp],
    weights: NDArray[np.float64],
    widths: tuple[float, ...],
    few_views: bool,
    found: list[str],
) -> list[Kernel]:
    """Kernels of numeric and categorical columns."""
    values = table.values[:, numeric]
    zeros = _zeros(values, weights) if len(numeric) else 0.0
    constant = int((values == values[:1]).all(axis=0).sum())
    n_columns = table.n_expanded_columns
    first = numbered(_n_read(table), "column")
    if len(categories):
        indicators = sum(table.width(j) for j in categories.tolist())
        first += f", {len(categories)} of them categories, as {indicators} indicator columns"
    if table.dates is not None:
        first += f", {numbered(sum(form is not None for form in table.dates), 'column')} of dates"
    if len(numeric):
        first += f", {_share(zeros)} of the numeric cells zero"
    if constant:
        first += f", {constant} constant"
    kernels = [_standard(Linear()), *(_standard(RBF(gamma=("median", width))) for width in widths)]
    said = f"standardised; Linear, and RBF at {_multiples(widths)} over the median squared distance"
    laplacian = few_views and float(table.n_rows) ** 2 * n_columns <= MOST_DIFFERENCES
    if laplacian:
        kernels += [_standard(Laplacian(gamma=("median", width))) for width in widths]
        said += ", Laplacian at the same over the median sum of absolute differences"
    if n_columns > 1:
        kernels.append(Linear().prepared("normalize-rows"))
        said += "; and the cosine of the rows as they are"
    remarks = [f"{first}: {said}."]
    if few_views and not laplacian:
        remarks.append(
            f"No Laplacian: {table.n_rows} rows squared times {n_columns} columns is more than {MOST_DIFFERENCES:.0e}."
        )
    if zeros >= ZEROS and len(numeric) and float(values.min()) >= 0.0 and not _is_binary(values):
        logged: list[Kernel] = [Linear(), RBF(gamma="median")]
        logged += [Laplacian(gamma="median")] if laplacian else []
        kernels += [kernel.prepared("log1p", "standardize") for kernel in logged]
        remarks.append(
            f"At least {_share(ZEROS)} of the cells are zero and none is negative, as with counts: kernels of "
            "log(1 + x) as well."
        )
    found[:0] = remarks
    return kernels


def _in_metric(
    step: Metric, table: Table, widths: tuple[float, ...], few_views: bool
) -> tuple[list[Kernel], str]:
    """Kernels of standardised columns in a metric, and what is said of them."""
    laplacian = few_views and float(table.n_rows) ** 2 * table.n_expanded_columns <= MOST_DIFFERENCES
    kernels = in_metric(step, widths, laplacian=laplacian)
    if step.by == "ard":
        said = "Linear, and RBF at 1 over the median squared distance"
        if laplacian:
            said += ", Laplacian at 1 over the median sum of absolute differences"
        said += f"; {step.word} the same, RBF at its own width"
    else:
        said = f"{step.word} Linear, and RBF at {_multiples(widths)} over the median squared distance"
        if laplacian:
            said += ", Laplacian at the same over the median sum of absolute differences"
    return kernels, f"{numbered(_n_read(table), 'column')}: standardised; {said}."


def in_metric(step: Metric, widths: tuple[float, ...] = WIDTHS, *, laplacian: bool = True) -> list[Kernel]:
    """Kernels of standardised columns in a metric; that of the evidence has a width, and usual kernels beside it."""
    shapes: list[Kernel] = [Linear()]
    if step.by == "ard":
        usual = [*shapes, RBF(gamma="median"), *([Laplacian(gamma="median")] if laplacian else [])]
        learnt = [*shapes, RBF(gamma=1.0), *usual[2:]]
        return [*map(_standard, usual), *(kernel.prepared("standardize", step) for kernel in learnt)]
    shapes += [RBF(gamma=("median", width)) for width in widths]
    shapes += [Laplacian(gamma=("median", width)) for width in widths if laplacian]
    return [kernel.prepared("standardize", step) for kernel in shapes]


def _read(table: Table) -> NDArray[np.bool_]:
    """Which columns are read: those of texts that were left out have no cells."""
    cells = table.cells or (None,) * table.n_columns
    return np.array(
        [level != TEXT or own is not None for level, own in zip(table.levels, cells, strict=True)], dtype=bool
    )


def _n_read(table: Table) -> int:
    return int(_read(table).sum())


def _standard(kernel: Kernel) -> Kernel:
    return kernel.prepared("standardize")


def _is_binary(values: NDArray[np.float64]) -> bool:
    """Whether every column holds zero and one other value at most, so that a logarithm changes no more than units."""
    largest = values.max(axis=0, initial=0.0)
    return bool(((values == 0.0) | (values == largest)).all())


def _called(table: Table, j: int) -> int | str:
    return j if table.names is None else table.names[j]


def _share(value: float) -> str:
    return percent(value, 0 if value >= 0.01 or value == 0 else 1)


def _multiples(widths: tuple[float, ...]) -> str:
    texts = ["1/4" if width == 0.25 else f"{width:g}" for width in widths]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
