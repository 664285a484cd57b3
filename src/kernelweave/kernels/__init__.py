"""Kernels: frozen values that can be combined.

A kernel is a value: hashable, comparable, picklable, never modified. ``k(X, Z)`` gives the matrix of its
values, ``k.diag(X)`` the values on the diagonal. Kernels add, multiply and scale (``2.0 * (k1 + k2)``), and
``k.on(columns)`` restricts one to some columns. Numeric kernels use 0/1 indicator columns for each categorical
column; :class:`Categorical` compares categories.

Some kernels depend on statistics of training rows: ``RBF(gamma="median")``, and any kernel after
``k.prepared("standardize")``. ``k.fitted(X)`` gives the kernel with these numbers, again a frozen value; estimators
do so in every fit and fold.

A kernel is a class in one file, here or in a module of yours: see :class:`Kernel`. It may define

``statistic``, ``formula(xp, S, left, right)``
    The values from the squared distance ("sqdist"), the inner product ("dot") or the sum of absolute differences
    ("l1") of a pair of rows, with functions of the namespace `xp` only. Gram matrices, compressed and packed forms,
    missing cells that are skipped, predictions and ONNX graphs follow from it. With ``needs_norms`` it reads `left`
    and `right`, the squared norms of the rows.
``gradient(xp, S, value)``
    The derivative of `formula` by S, where `value` is its result; then the kernel may be a layer of a deep kernel.
``_features(table)``
    An explicit feature map, from ``table.take()``. A kernel without a statistic may have features alone. With NumPy's
    functions only, of those that :mod:`kernelweave.persistence.graph` has, it is one of ONNX graphs too.
``is_fitted``, ``_fit(rows)``
    Of a kernel that takes numbers from training rows: whether it has them, and the kernel that does.
``aliases``, ``is_linear``, ``needs_psd_check``
    Other names in text; whether it is a sum of products of cells; whether estimators must check the training matrix.

What else is needed follows from the fields of the class, which are checked by the rules beside them
(``Annotated[float, Number(above=0)]``): equality, `repr`, label, text and model files.

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

import importlib as _importlib
import os as _os
import pkgutil as _pkgutil

from kernelweave.kernels.additive import *
from kernelweave.kernels.base import *
from kernelweave.kernels.categorical import *
from kernelweave.kernels.composed import *
from kernelweave.kernels.counts import *
from kernelweave.kernels.dot import *
from kernelweave.kernels.given import *
from kernelweave.kernels.graphs import *
from kernelweave.kernels.maps import *
from kernelweave.kernels.molecules import *
from kernelweave.kernels.pairs import *
from kernelweave.kernels.parsing import *
from kernelweave.kernels.sequences import *
from kernelweave.kernels.stationary import *
from kernelweave.kernels.steps import *
from kernelweave.kernels.tanimoto import *
from kernelweave.kernels.text import *
from kernelweave.kernels.training_rows import *

# every file of this folder is read, so that a new kernel is one new file; its `__all__` lists public names
_MODULES = [
    _importlib.import_module(f"{__name__}.{_one.name}")
    for _one in _pkgutil.iter_modules([_os.path.dirname(__file__)])
]
for _module in _MODULES:
    globals().update({_name: vars(_module)[_name] for _name in _module.__all__})
__all__ = sorted([_name for _module in _MODULES for _name in _module.__all__])
