"""Banks: lists of kernels, those of the papers and a default.

Every function returns a plain list, so banks can be joined, filtered and extended. Kernels on single columns
name the column by its position, or by its name if names are given. None of the kernels is normalised here;
that is the estimator's `normalize`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, overload

import numpy as np

from kernelweave import recipe
from kernelweave._checks import InputError, check_known
from kernelweave._parameters import Flag, OneOf, Text, Whole, check_value, checked, listed, shown
from kernelweave._types import ColumnsLike, TableLike
from kernelweave.kernels import (
    RBF,
    Categorical,
    CharNGrams,
    Descriptors,
    Fingerprints,
    Kernel,
    Linear,
    Matern,
    Metric,
    Polynomial,
    Tanimoto,
    Tokens,
)
from kernelweave.kernels.molecules import FORMS as FINGERPRINTS
from kernelweave.mkl.metric import FORMS, METRICS
from kernelweave.views import BlockTable, GramTable, SparseTable, as_table
from kernelweave.views.tables import TEXT

__all__ = [
    "DefaultViews",
    "default",
    "get",
    "linear_features",
    "metric",
    "mlmkl",
    "molecules",
    "per_column",
    "rkl",
    "rls2",
    "simplemkl",
    "texts",
    "views",
]

BANDWIDTHS = (0.5, 1.0, 2.0, 5.0, 7.0, 10.0, 12.0, 15.0, 17.0, 20.0)
"""Gaussian bandwidths s of the SimpleMKL toolbox and of RKL, gamma = 1 / (2 s^2)."""

FEW_COLUMNS = 40
"""`per_column` puts nonlinear kernels on single columns of tables with up to this many columns."""

MANY_COLUMNS = 2000
"""`per_column` puts linear kernels on single columns of tables with up to this many columns."""


_COUNT = Whole(1, 10**7, remedy="Pass X.shape[1], or the names of the columns.")


def _gaussians() -> list[Kernel]:
    return [RBF(gamma=1.0 / (2.0 * s * s)) for s in BANDWIDTHS]


def _all_and_each(kernels: Sequence[Kernel], n_features: int | Sequence[str]) -> list[Kernel]:
    """Return the kernels on all columns, then on each single column in turn."""
    return [*kernels, *(kernel.on([c]) for c in _columns(n_features) for kernel in kernels)]


def _columns(n_features: int | Sequence[str]) -> Sequence[int | str]:
    """Positions of that many columns, or their names."""
    if isinstance(n_features, Sequence) and not isinstance(n_features, str):
        names = list(n_features)
        if names and all(isinstance(name, str) for name in names):
            return names
    return range(check_value(_COUNT, "n_features", n_features))


def rls2(n_features: int | Sequence[str]) -> list[Kernel]:
    """Return the bank of the RLS2 experiments: 13 kernels on all columns and on every single one.

    Polynomials (x . z + 1) ** q for q = 1, 2, 3, then Gaussians exp(-gamma ||x - z||^2) for the 10 values
    gamma = logspace(-3, 3, 10). First on all columns, then on column 0, 1, and so on.

    Parameters
    ----------
    n_features : int or sequence of str
        Number of columns, >= 1, or their names.

    Returns
    -------
    list of 13 * (n_features + 1) kernels

    References
    ----------
    .. [1] F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv:1001.2709, section
       5.2; the +1 also for degree 1, and the range of gamma, as in the author's toolbox.

    Examples
    --------
    >>> bank = rls2(13)
    >>> len(bank), bank[0].label, bank[-1].label
    (182, 'Polynomial(degree=1) on all', 'RBF(gamma=1000) on x12')
    """
    polynomials = [Polynomial(degree=q) for q in (1, 2, 3)]
    gaussians = [RBF(gamma=float(gamma)) for gamma in np.logspace(-3, 3, 10)]
    return _all_and_each([*polynomials, *gaussians], n_features)


def rkl() -> list[Kernel]:
    """Return the 20 kernels of the RKL experiments, all on all columns.

    Gaussians exp(-||x - z||^2 / (2 s^2)) with bandwidths s = 0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20, then
    polynomials of degree 1 to 10: x . z for degree 1 and (x . z + 1) ** q above.

    Notes
    -----
    The paper gives bandwidths and degrees; the two formulas are the conventions of the SimpleMKL toolbox,
    assumed here. The columns should have mean 0 and variance 1.

    References
    ----------
    .. [1] K. Gai, G. Chen, C. Zhang, Learning kernels with radiuses of minimum enclosing balls, NIPS 2010,
       section 5.

    Examples
    --------
    >>> bank = rkl()
    >>> len(bank), bank[1], bank[10]
    (20, RBF(gamma=0.5), Linear())
    """
    return [*_gaussians(), Linear(), *(Polynomial(degree=q) for q in range(2, 11))]


def simplemkl(n_features: int | Sequence[str]) -> list[Kernel]:
    """Return the bank of the SimpleMKL experiments: 13 kernels on all columns and on every single one.

    Gaussians exp(-||x - z||^2 / (2 s^2)) with 10 bandwidths s, then polynomials of degree 1 to 3: x . z for
    degree 1 and (x . z + 1) ** q above. First on all columns, then on column 0, 1, and so on.

    Parameters
    ----------
    n_features : int or sequence of str
        Number of columns, >= 1, or their names.

    Returns
    -------
    list of 13 * (n_features + 1) kernels

    Notes
    -----
    The paper says that there are 10 bandwidths and degrees 1 to 3, on all variables and on each. Assumed,
    from the SimpleMKL toolbox: the bandwidths 0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20 and both formulas. Ours:
    the order. In the paper columns have mean 0 and variance 1, and every kernel is divided by its training trace.

    References
    ----------
    .. [1] A. Rakotomamonjy, F. Bach, S. Canu, Y. Grandvalet, SimpleMKL, JMLR 9, 2008, section 5.

    Examples
    --------
    >>> len(simplemkl(6))
    91
    """
    return _all_and_each([*_gaussians(), Linear(), Polynomial(degree=2), Polynomial(degree=3)], n_features)


def mlmkl() -> list[Kernel]:
    """Return the four base kernels of MLMKL: x'z, exp(-||x - z||^2), (x'z + 1) ** 2 and (x'z + 1) ** 3.

    Notes
    -----
    On standardised data with many columns the Gaussian with gamma = 1 is close to the identity matrix.

    References
    ----------
    .. [1] I. Rebai, Y. BenAyed, W. Mahdi, Deep multilayer multiple kernel learning, Neural Computing and
       Applications, 2015, section 5.

    Examples
    --------
    >>> [kernel.label for kernel in mlmkl()][:2]
    ['Linear on all', 'RBF(gamma=1) on all']
    """
    return [Linear(), RBF(gamma=1.0), Polynomial(degree=2), Polynomial(degree=3)]


def linear_features(n_features: int | Sequence[str]) -> list[Kernel]:
    """Return one rank-one kernel per column, k_i(x, z) = x_i z_i: linear RLS2, with the lasso's solutions.

    Parameters
    ----------
    n_features : int or sequence of str
        Number of columns, >= 1, or their names.

    Returns
    -------
    list of n_features kernels

    References
    ----------
    .. [1] F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv:1001.2709, Eq. (9).

    Examples
    --------
    >>> linear_features(2)
    [Linear().on([0]), Linear().on([1])]
    """
    return [Linear().on([c]) for c in _columns(n_features)]


@dataclass(frozen=True)
class DefaultViews:
    """Named groups of columns whose kernels are chosen in `fit`, as ``kernels=None`` chooses those of a table.

    Attributes
    ----------
    columns : dict of str to a selection of columns
        Names, patterns or positions of the columns of each view.
    """

    columns: Mapping[str, ColumnsLike]


@overload
def views(columns: Mapping[str, ColumnsLike], kernels: None = None) -> DefaultViews: ...
@overload
def views(columns: Mapping[str, ColumnsLike], kernels: Sequence[Kernel] | Kernel) -> list[Kernel]: ...
def views(
    columns: Mapping[str, ColumnsLike], kernels: Sequence[Kernel] | Kernel | None = None
) -> list[Kernel] | DefaultViews:
    """Put every kernel on every view, a named group of columns.

    Parameters
    ----------
    columns : dict of str to a selection of columns
        Columns of each view: names, indices, a slice or a mask. Views may overlap.
    kernels : sequence of kernels, one kernel or None, default=None
        None: those of a plain fit, by what each view holds; see :func:`default`.

    Returns
    -------
    list of len(columns) * len(kernels) kernels, or DefaultViews
        All kernels on the first view, then on the second, and so on. Without kernels what stands for them until `fit`,
        for ``kernels=`` of the estimators.

    Examples
    --------
    >>> bank = views({"rna": slice(0, 100), "clinical": ["age", "bmi"]}, kernels=[Linear(), RBF(gamma=0.1)])
    >>> [kernel.label for kernel in bank]
    ['rna: Linear', 'rna: RBF(gamma=0.1)', 'clinical: Linear', 'clinical: RBF(gamma=0.1)']
    """
    if not isinstance(columns, Mapping) or not columns:
        raise InputError(
            f"Views are a dict from names to columns, with at least one view, got {shown(columns)}. Pass for "
            "example {'clinical': ['age', 'bmi']}."
        )
    if kernels is None:
        for name, selection in columns.items():
            # raises for what selects no columns
            Linear().on(selection, name=str(name))
        return DefaultViews(dict(columns))
    base = [kernels] if isinstance(kernels, Kernel) else listed(kernels)
    if not base or not all(isinstance(k, Kernel) for k in base):
        raise InputError(
            f"`kernels` must hold at least one kernel and nothing else, got {shown(kernels)}. Try [Linear()]."
        )
    return [kernel.on(selection, name=str(name)) for name, selection in columns.items() for kernel in base]


def texts(column: int | str | None = None) -> list[Kernel]:
    """Return kernels for a column of texts: character n-grams of length 2 to 4, and words weighted by rarity.

    Parameters
    ----------
    column : int, str or None, default=None
        Its position or name; None for a view that is one column of texts.

    Returns
    -------
    list of two kernels

    Examples
    --------
    >>> [kernel.label for kernel in texts("note")]
    ['CharNGrams(n=2-4) on note', 'Tokens(n=1) on note']
    """
    return _on([CharNGrams(), Tokens()], column)


def _on(kernels: list[Kernel], column: int | str | None) -> list[Kernel]:
    return kernels if column is None else [kernel.on([column]) for kernel in kernels]


def molecules(column: int | str | None = None) -> list[Kernel]:
    """Return kernels for a column of molecules as SMILES: five fingerprints, and descriptors at three widths.

    The Tanimoto kernel of each form of :class:`kernelweave.kernels.Fingerprints`, and a Gaussian and two Matern kernels
    of standardised :class:`kernelweave.kernels.Descriptors`. They need RDKit (the extra `chemistry`). On two tables the
    errors of ``MKLRegressor(bank, normalize="center", learner=RLS2(alpha="auto", relax="auto"))``, the settings of fits
    without `kernels`, are smaller than those of ``MKLRegressor(bank)``.

    Parameters
    ----------
    column : int, str or None, default=None
        Its position or name; None for a view that is one column of SMILES.

    Returns
    -------
    list of eight kernels

    Examples
    --------
    >>> [kernel.label for kernel in molecules("smiles")][:2]
    ['morgan fingerprints, Tanimoto on smiles', 'path fingerprints, Tanimoto on smiles']
    """
    shapes: list[Kernel] = [RBF(("median", 0.25)), Matern("median", nu=1.5), Matern(("median", 0.25), nu=2.5)]
    parts: list[Kernel] = [Tanimoto().prepared(Fingerprints(form)) for form in FINGERPRINTS]
    return _on([*parts, *(one.prepared(Descriptors(), "standardize") for one in shapes)], column)


@checked
def default(table: TableLike, *, regression: Annotated[bool, Flag()] = False) -> list[Kernel]:
    """Return the kernels of a plain fit, ``kernels=None``: by what the rows of a table or of several views hold.

    Of dense columns, standardised: Linear, and RBF and Laplacian at 1/4, 1 and 4 over the median distance of the rows;
    the cosine of the rows as they are; of counts, columns of which half the cells are zero and none negative, also
    Linear, RBF and Laplacian of log(1 + x). Of sparse rows of length 1: Linear and RBF. Of texts: those of
    :func:`texts`. With `regression` also an RBF of each numeric column, up to 40 of them. Fewer for many rows, columns
    or views.

    Parameters
    ----------
    table : Table, array or data frame of shape (n_rows, n_columns), or several views
        Training rows; of several views the kernels of each.
    regression : bool, default=False
        Whether numbers are to be predicted.

    Returns
    -------
    list of kernels
        They bring their preparation along and take numbers from training rows when they are fitted. Kernels on a single
        column use its name if the table has names.

    See Also
    --------
    per_column : What ``kernels=None`` took in version 0.1.

    Examples
    --------
    >>> for kernel in default(np.arange(6.0).reshape(3, 2))[::2]:
    ...     print(kernel.label)
    standardised Linear on all
    standardised RBF(gamma=median) on all
    standardised Laplacian(gamma=0.25 * median) on all
    standardised Laplacian(gamma=4 * median) on all
    """
    return recipe.choose(as_table(table), regression=regression).kernels


@checked
def metric(
    by: Annotated[str, OneOf(*METRICS)] = "ard", form: Annotated[str, OneOf(*FORMS)] = "diagonal"
) -> list[Kernel]:
    """Return the kernels of ``learner="metric"``, for any learner: Linear, RBF and Laplacian in a learnt metric.

    Columns are standardised, then mapped by a metric that estimators learn from the targets, once for all kernels and
    again in every fold. With "ard" RBF has the width of the evidence, Laplacian is at 1 over the median distance of the
    mapped rows, and Linear, RBF and Laplacian without a metric stand beside them. With "rfm" RBF and Laplacian are at
    1/4, 1 and 4 over the median distance of the mapped rows.

    Parameters
    ----------
    by : {"ard", "rfm"}, default="ard"
        How the metric is learnt, as the learner "metric" does.
    form : {"diagonal", "full"}, default="diagonal"
        A factor for each column, or, with "rfm", combinations of columns.

    Returns
    -------
    list of 6 or 7 kernels

    Examples
    --------
    >>> import kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> model = kw.MKLClassifier(metric(), "lp", C=10.0).fit(X, np.sin(2 * X[:, 1]) > 0)
    >>> max(model.relevance_["all"], key=model.relevance_["all"].get)
    'x1'
    """
    return recipe.in_metric(Metric(by=by, form=form))


def per_column(table: TableLike) -> list[Kernel]:
    """Return kernels on all columns and on each single one, for columns that are standardised.

    On all columns: Linear, Polynomial of degree 2 and 3, and RBF for the 7 values
    gamma = logspace(-2, 1, 7) / n_expanded_columns. In addition, with up to 40 columns: on each numeric
    column Linear, Polynomial of degree 2 and 3, and RBF for gamma = 0.1, 1, 10; with up to 2000 columns:
    Linear on each numeric column. In both cases Categorical on each categorical column, and on each column of texts
    those of `texts`.

    Parameters
    ----------
    table : Table, array or data frame of shape (n_rows, n_columns)
        Only its columns are looked at, not its values.

    Returns
    -------
    list of kernels
        Those on all columns first. Kernels on a single column use its name if the table has names.

    Notes
    -----
    A squared distance between two standardised rows is about 2 n_columns, so that the RBF kernels on all
    columns range from almost constant, exp(-0.02), to almost the identity, exp(-20). In a table of one
    column, kernels that would appear twice are given once. In version 0.1 this was the bank of ``kernels=None``.

    Examples
    --------
    >>> len(per_column(np.zeros((5, 3)))), len(per_column(np.zeros((5, 100)))), len(per_column(np.zeros((5, 3000))))
    (28, 110, 10)
    """
    table = as_table(table)
    if isinstance(table, BlockTable | GramTable | SparseTable):
        raise InputError(
            "This bank is for one dense table. Take default(table) for several views and sparse rows."
        )
    return _default(table.levels, table.names, table.n_expanded_columns)


def _default(levels: Sequence[int], names: Sequence[str] | None, n_expanded: int) -> list[Kernel]:
    read = [
        kernel
        for j, level in enumerate(levels)
        if level == TEXT
        for kernel in texts(_called(j, names) if len(levels) > 1 else None)
    ]
    if not n_expanded:
        return read
    shapes: list[Kernel] = [Linear(), Polynomial(degree=2), Polynomial(degree=3)]
    bank = [*shapes, *(RBF(gamma=float(gamma) / n_expanded) for gamma in np.logspace(-2, 1, 7))]
    if len(levels) > MANY_COLUMNS:
        return bank + read
    single = (
        [*shapes, *(RBF(gamma=gamma) for gamma in (0.1, 1.0, 10.0))]
        if len(levels) <= FEW_COLUMNS
        else shapes[:1]
    )
    if len(levels) == 1:  # the one column is all columns
        single = [kernel for kernel in single if not _among(kernel, bank)]
    for j, level in enumerate(levels):
        if level != TEXT:
            bank.extend(
                kernel.on([_called(j, names)]) for kernel in ([Categorical()] if level > 0 else single)
            )
    return bank + read


def _called(j: int, names: Sequence[str] | None) -> int | str:
    return j if names is None else names[j]


def _among(kernel: Kernel, bank: Sequence[Kernel]) -> bool:
    if isinstance(kernel, RBF):  # gamma may differ in the last digit
        return any(isinstance(other, RBF) and np.isclose(kernel.gamma, other.gamma) for other in bank)
    return kernel in bank


def _default_numeric(n_features: int | Sequence[str]) -> list[Kernel]:
    columns = _columns(n_features)
    names = None if isinstance(columns, range) else [str(c) for c in columns]
    return _default((0,) * len(columns), names, len(columns))


_BANKS: dict[str, Callable[..., list[Kernel]]] = {
    "linear_features": linear_features,
    "mlmkl": mlmkl,
    "per_column": _default_numeric,
    "rkl": rkl,
    "rls2": rls2,
    "simplemkl": simplemkl,
}


@checked
def get(name: Annotated[str, Text()], n_features: int | Sequence[str]) -> list[Kernel]:
    """Return a bank by name, for the command line.

    Parameters
    ----------
    name : {"linear_features", "mlmkl", "per_column", "rkl", "rls2", "simplemkl"}
        Case and hyphens do not matter. "per_column" takes all columns as numeric; call `per_column` for a table.
    n_features : int or sequence of str
        Number of columns, >= 1, or their names; not used by banks on all columns.

    Raises
    ------
    InputError
        For an unknown name; the known ones are listed.

    Examples
    --------
    >>> len(get("rls2", 7)), len(get("rkl", 7))
    (104, 20)
    >>> get("linear_features", ["age", "bmi"])
    [Linear().on(['age']), Linear().on(['bmi'])]
    """
    key = check_known(str(name).lower().replace("-", "_"), _BANKS, "bank")
    make = _BANKS[key]
    return make(n_features) if inspect.signature(make).parameters else make()
