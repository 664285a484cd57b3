"""Kernels: frozen values that can be combined.

A kernel is a value: hashable, comparable, picklable, never modified. ``k(X, Z)`` gives the matrix of its
values, ``k.diag(X)`` the values on the diagonal. Kernels add, multiply and scale (``2.0 * (k1 + k2)``), and
``k.on(columns)`` restricts one to some columns. Numeric kernels use 0/1 indicator columns for each categorical
column; :class:`Categorical` compares categories.

Some kernels depend on statistics of training rows: ``RBF(gamma="median")``, and any kernel after
``k.prepared("standardize")``. ``k.fitted(X)`` gives the kernel with these numbers, again a frozen value; estimators
do so in every fit and fold.

Interface for the assembly of Gram matrices
--------------------------------------------
``k.columns``, ``k.base``
    The frozen selection of :meth:`Kernel.on` (None: all columns) and the kernel without it. Kernels with
    equal `columns`, equal `base.statistic` and equal `base.preparation` can share one pairwise statistic.
``k.is_fitted``, ``k.fitted_on(rows)``, ``k.preparation``
    Whether all numbers from training rows are known; the kernel with these numbers, from a `TrainingRows` that
    kernels share; and the steps that are applied to the selected columns before the statistic.
``k.statistic``, ``k.needs_norms``, ``k.from_statistic(S, sq_left, sq_right, out)``
    If `statistic` is not None, the kernel is an elementwise function of ``pairwise_statistic(statistic, A,
    B)`` of the expanded columns, and, if `needs_norms`, of the squared norms of the rows. It works on any
    shape, such as a packed triangle, and in place if `out` is `S`. Sums, products and multiples of such
    kernels have a statistic too, if all their terms (other than constants) share it.
``k.decay``
    If not None, values are ``exp(-decay * statistic)``, which compiled loops compute for many kernels at a time.
``k.features(X)``
    A matrix phi of shape (n_rows, r) with k(x, z) = phi(x) . phi(z), or None.
"""

from kernelweave.kernels import (
    algebra,
    approximation,
    base,
    bases,
    dot,
    imputation,
    maps,
    nystroem,
    other,
    parsing,
    preparation,
    prepared,
    random_features,
    restriction,
    rows,
    stationary,
    statistics,
    text,
)
from kernelweave.kernels.algebra import *
from kernelweave.kernels.approximation import *
from kernelweave.kernels.base import *
from kernelweave.kernels.bases import *
from kernelweave.kernels.dot import *
from kernelweave.kernels.imputation import *
from kernelweave.kernels.maps import *
from kernelweave.kernels.nystroem import *
from kernelweave.kernels.other import *
from kernelweave.kernels.parsing import *
from kernelweave.kernels.preparation import *
from kernelweave.kernels.prepared import *
from kernelweave.kernels.random_features import *
from kernelweave.kernels.restriction import *
from kernelweave.kernels.rows import *
from kernelweave.kernels.stationary import *
from kernelweave.kernels.statistics import *
from kernelweave.kernels.text import *

# public names are listed only in the `__all__` of their modules
_MODULES = (
    algebra,
    approximation,
    base,
    bases,
    dot,
    imputation,
    maps,
    nystroem,
    other,
    parsing,
    preparation,
    prepared,
    random_features,
    restriction,
    rows,
    stationary,
    statistics,
    text,
)
__all__ = sorted([name for module in _MODULES for name in module.__all__])
