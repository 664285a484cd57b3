"""The base class of kernels, and kernels as text."""

from __future__ import annotations

import numbers
import typing
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, wraps
from types import FunctionType
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError, check_known, check_row_weights
from kernelweave._parameters import Number, ReadableSignature, Text, check_fields, shown
from kernelweave._sparse import sq_norms, to_dense
from kernelweave._types import ColumnsLike, TableLike, Values
from kernelweave.functions import KernelFunction
from kernelweave.kernels.pairs import STATISTICS, mirror, pair_values
from kernelweave.kernels.steps import Step, StepLike, as_steps
from kernelweave.kernels.training_rows import TrainingRows
from kernelweave.views import Table, as_table, as_tables

__all__ = ["Kernel"]

FloatArray = NDArray[np.float64]

PSD = "Other values do not give a positive semidefinite kernel."
Positive = Annotated[float, Number(above=0, remedy=PSD)]
FACTOR = Number(above=0, remedy=PSD)
VIEW_NAME = Text() | None

#: All kernels that have a description, by the names of their classes in lower case; a class enters by being defined.
KERNELS: dict[str, type[Kernel]] = {}
#: Entries that `Kernel.from_statistic` computes at a time, so that what a formula needs stays in the cache.
BLOCK = 2**15
#: What to do where these methods of somebody's kernel fail.
REMEDIES = {
    "formula": "Correct its `formula`; numbers from training rows need `_fit` and `is_fitted`.",
    "_fit": "Correct its `_fit(rows)`.",
    **dict.fromkeys(
        ("_gram", "_diag", "_features"),
        "Correct its class: table.take() is a CSR array of sparse rows, and IncompleteRows with missing='skip'. Or "
        "pass other rows.",
    ),
}


class Kernel(KernelFunction, ABC):
    """Base class of all kernels, also of your own: a frozen dataclass with a formula, in any file.

    A class with a `statistic` and a `formula` works with every learner, normaliser, treatment of missing cells and
    cross-validation, in model files (its fields) and ONNX graphs (its formula), and as text under its name in lower
    case, once its module is imported. See the text of `kernelweave.kernels` for what else it may define.

    Notes
    -----
    ``k1 + k2``, ``k1 * k2``, ``2.0 * k`` and ``k + 1.0`` give new kernels, and ``sum([k1, k2])`` works. Sums
    and products are flat, so that ``(k1 + k2) + k3 == k1 + (k2 + k3)``; the order of terms counts in
    comparisons.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Linear
    >>> k = 2.0 * RBF(gamma=0.5) + Linear().on([0])
    >>> k([[0.0, 0.0], [1.0, 0.0]])
    array([[2.        , 1.21306132],
           [1.21306132, 3.        ]])
    >>> k.label
    '2 * RBF(gamma=0.5) on all + Linear on x0'

    A kernel of your own:

    >>> from dataclasses import dataclass
    >>> from kernelweave import kernels
    >>> @dataclass(frozen=True)
    ... class Cauchy(Kernel):
    ...     width: float = 1.0
    ...     statistic = "sqdist"
    ...
    ...     def formula(self, xp, S, left, right):
    ...         return 1.0 / (1.0 + S / self.width**2)
    >>> Cauchy(2.0)([[0.0], [2.0]]), kernels.parse("cauchy(width=3.0)").label
    (array([[1. , 0.5],
           [0.5, 1. ]]), 'Cauchy(width=3) on all')
    """

    __signature__ = ReadableSignature()

    columns: Any = None
    name: Any = None
    aliases: ClassVar[tuple[str, ...]] = ()  # other names in text
    inner: tuple[Kernel, ...] = ()  # the kernels that it is made of
    needs_norms: ClassVar[Any] = False  # whether its formula needs squared norms
    is_linear: ClassVar[Any] = False  # whether it is a sum of products x_j z_j, with a factor for each column
    needs_psd_check: ClassVar[Any] = False  # whether it may fail to be positive semidefinite
    is_fitted: ClassVar[Any] = True  # whether all numbers from training rows are known
    preparation: ClassVar[Any] = ()  # steps before `statistic`
    decay: ClassVar[Any] = None  # gamma of a kernel exp(-gamma S) of its statistic, a distance
    takes_missing: ClassVar[Any] = False  # whether its steps define the treatment of missing cells
    #: Whether negative eigenvalues are set to zero; for other kernels they are an error.
    is_corrected: ClassVar[Any] = False
    is_approximate: ClassVar[Any] = False  # whether its values are those of features close to another kernel
    __array_ufunc__ = None  # so that multiplication with NumPy scalars on the left uses `__rmul__`

    def __init_subclass__(cls, described: bool = True, **more: Any) -> None:
        super().__init_subclass__(**more)
        if isinstance(cls.statistic, str) and cls.statistic not in STATISTICS:
            raise InputError(
                f"`statistic` of {cls.__name__} must be one of {', '.join(map(repr, STATISTICS))}, got "
                f"{cls.statistic!r}."
            )
        if "_fit" in vars(cls) and cls.is_fitted is True:
            raise InputError(
                f"{cls.__name__} has `_fit`, and no `is_fitted` says when it is needed. Define the property: whether "
                "all numbers from training rows are known."
            )
        if not cls.__module__.startswith("kernelweave."):
            for name in REMEDIES.keys() & vars(cls).keys():
                if isinstance(vars(cls)[name], FunctionType):
                    setattr(cls, name, _named(vars(cls)[name], REMEDIES[name]))
        if not described:
            return
        name = cls.__name__.lower()
        taken = next((one for one in KERNELS.values() if name in one.aliases), cls)
        known = KERNELS.get(name, taken).__module__
        if known != cls.__module__ and known.startswith("kernelweave."):
            raise InputError(
                f"There is a kernel {name!r} already. Give the class {cls.__name__} another name."
            )
        KERNELS[name] = cls

    def __post_init__(self) -> None:
        """Check and convert the fields by their rules."""
        check_fields(self, named=True)
        for name in _bare_numbers(type(self)):
            if not isinstance(value := getattr(self, name), numbers.Real):
                raise InputError(f"`{name}` of {type(self).__name__} must be a number, got {shown(value)}.")

    def remade(self, inner: Sequence[Kernel]) -> Kernel:
        """The same of other kernels in place of `inner`.

        Parameters
        ----------
        inner : sequence of Kernel
            Kernels in place of `inner`.
        """
        return self

    @property
    def base(self) -> Kernel:
        """The kernel without its selection of columns."""
        return self

    @property
    def label(self) -> str:
        """A short name, such as ``"RBF(gamma=0.5) on age, bmi"``."""
        return f"{self._short(nested=True)} on all"

    @property
    def view(self) -> str:
        """The name of its view, its columns, or "all"."""
        return "all"

    def __call__(self, X: TableLike, Z: TableLike = None) -> FloatArray:
        """Return the kernel matrix.

        Parameters
        ----------
        X : array, data frame or Table of shape (n, n_columns)
        Z : the same of shape (m, n_columns), or None
            None: pairs within `X`. If both are frames, categories are those of `X`.

        Returns
        -------
        array of shape (n, m), float64
            ``k(X)`` is exactly symmetric.

        Notes
        -----
        A kernel that is not fitted yet is fitted on the training side: on `Z`, or on `X` without `Z`. For values of
        other rows, fit it first, see :meth:`fitted`.
        """
        left, right = as_tables(X, Z, missing=self.takes_missing)
        K = self._on_rows(left if right is None else right)._gram(left, right)
        return mirror(K) if right is None else K

    def diag(self, X: TableLike) -> FloatArray:
        """Return k(x, x) for every row of `X`, shape (n,), without computing the matrix.

        Parameters
        ----------
        X : array, data frame or Table of shape (n_rows, n_columns)
            Rows.
        """
        table = X if isinstance(X, Table) else as_table(X, missing=self.takes_missing)
        return self._on_rows(table)._diag(table)

    def fitted(self, X: TableLike, sample_weight: ArrayLike | None = None) -> Kernel:
        """Return the kernel with its statistics of training rows: medians, means, deviations.

        Estimators do this in `fit`, and again in every fold on the fold's own training rows.

        Parameters
        ----------
        X : array, data frame or Table of shape (n, n_columns)
            Training rows.
        sample_weight : array-like of shape (n,), optional
            A weight is equivalent to repetitions of the row; rows of weight 0 are ignored.

        Returns
        -------
        Kernel
            A frozen value. A kernel that has its numbers, or needs none, is returned unchanged.

        Examples
        --------
        >>> from kernelweave.kernels import RBF
        >>> RBF(gamma="median").fitted([[0.0], [1.0], [3.0]])
        RBF(gamma=0.25)
        """
        if self.is_fitted:
            return self
        table = as_table(X, missing=self.takes_missing)
        weights = None if sample_weight is None else check_row_weights(sample_weight, table.n_rows)
        return self.fitted_on(TrainingRows(table, weights))

    def fitted_on(self, rows: TrainingRows) -> Kernel:
        """See :meth:`fitted`; kernels that are fitted on the same object share computations.

        Parameters
        ----------
        rows : TrainingRows
            Training rows, with what was computed from them.
        """
        if self.is_fitted:
            return self
        found = self._fit(rows)
        if not self.inner and not getattr(found, "is_fitted", False):
            raise InputError(
                f"`_fit(rows)` of {type(self).__name__} must return the kernel with its numbers, for which `is_fitted` "
                f"is true, got {found!r:.200}. Return dataclasses.replace(self, ...) with them."
            )
        return found

    def _fit(self, rows: TrainingRows) -> Kernel:
        """The kernel with its numbers of training rows, of one that has none yet."""
        return self.remade([one.fitted_on(rows) for one in self.inner])

    def _on_rows(self, table: Table) -> Kernel:
        return self if self.is_fitted else self.fitted_on(TrainingRows(table))

    def features(self, X: TableLike) -> FloatArray | None:
        """Return a finite feature map of the rows of `X`, or None if the kernel has no small one.

        Parameters
        ----------
        X : array, data frame or Table of shape (n_rows, n_columns)
            Rows.

        Returns
        -------
        array of shape (n_rows, r), or None
            ``phi(X) @ phi(Z).T == k(X, Z)`` up to rounding. The result (None or r) depends only on the columns of
            the table, not on its rows. Do not modify the array: it may be a view of the data.
        """
        table = X if isinstance(X, Table) else as_table(X, missing=self.takes_missing)
        return self._on_rows(table)._features(table)

    def transform(self, X: TableLike) -> FloatArray:
        """Return the feature map of the rows of `X` as a dense array.

        Parameters
        ----------
        X : array, data frame or Table of shape (n_rows, n_columns)
            Rows.

        Returns
        -------
        array of shape (n_rows, width)
            ``transform(X) @ transform(Z).T == k(X, Z)`` up to rounding.

        Raises
        ------
        InputError
            If the kernel has no small feature map, or is not fitted.

        Examples
        --------
        >>> from kernelweave.kernels import Linear
        >>> Linear().transform([[1.0, 2.0]])
        array([[1., 2.]])
        """
        if not self.is_fitted:
            raise InputError(f"{self!r} takes numbers from training rows. Call fitted(X) first.")
        found = self.features(X)
        if found is None:
            raise InputError(
                f"{self!r} has no small feature map. Use kernels.approximate(kernel, kernels.Nystroem(200)), and "
                "fitted(X)."
            )
        return to_dense(found)

    def on(self, columns: ColumnsLike, name: str | None = None) -> Kernel:
        """Restrict the kernel to some columns.

        Parameters
        ----------
        columns : int, str, slice, boolean mask, sequence of int and str, or None
            Names or positions of columns, also negative ones from the end, a slice or a mask; see
            :meth:`kernelweave.views.Table.resolve`. None: all columns, to give the kernel a name.
        name : str or None
            Name of the view in the label.

        Raises
        ------
        InputError
            If the kernel, or a term of it, is restricted already.

        Examples
        --------
        >>> from kernelweave.kernels import RBF, Linear
        >>> RBF(gamma=0.5).on(["age", "bmi"]).label
        'RBF(gamma=0.5) on age, bmi'
        >>> Linear().on(slice(0, 20), name="rna").label
        'rna: Linear'
        """
        return _made("on", self, columns, name)

    def prepared(self, *steps: StepLike) -> Kernel:
        """Apply a preparation to the columns of the kernel, with statistics of training rows.

        Parameters
        ----------
        *steps : "standardize", "normalize-rows", "log1p", "impute", "impute-median", "impute-nearest", "skip" or None
            In their order, each at most once; None is no step. Of sums and products every term is prepared. The
            steps of a kernel that is prepared already come before these, but "skip" comes last. Objects such as
            :class:`kernelweave.kernels.Standardize` can have their numbers already.

        Returns
        -------
        Kernel

        Raises
        ------
        InputError
            For unknown steps; the known ones are listed.

        Examples
        --------
        >>> from kernelweave.kernels import RBF
        >>> k = RBF(gamma="median").prepared("standardize").on(["age", "bmi"])
        >>> k.label
        'standardised RBF(gamma=median) on age, bmi'
        >>> k.base.fitted([[20.0, 21.0], [40.0, 25.0], [60.0, 23.0]]).label
        'standardised RBF(gamma=0.1333) on all'
        """
        found = as_steps(steps)
        return self._after(found) if found else self

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return _made("prepared", self, steps)

    def from_statistic(
        self,
        S: FloatArray,
        sq_left: FloatArray | None = None,
        sq_right: FloatArray | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Compute kernel values from the pairwise statistic named by `statistic`.

        Parameters
        ----------
        S : array of any shape
            Values of the statistic. Not modified unless it is `out`.
        sq_left, sq_right : arrays that broadcast against `S`, or None
            Squared norms of the rows on either side; read only where `needs_norms`. For a matrix pass
            ``sq[:, None]`` and ``sq[None, :]``. Take them from the diagonal of the same inner products, so
            that angles of rows with themselves are exactly 0.
        out : array of the shape of `S`, or None
            Array for the result; may be `S` itself.

        Returns
        -------
        array of the shape of `S`

        Raises
        ------
        InputError
            If the kernel is not a function of one pairwise statistic.

        Examples
        --------
        >>> from kernelweave.kernels import RBF
        >>> RBF(gamma=0.5).from_statistic(np.array([0.0, 2.0]))
        array([1.        , 0.36787944])
        """
        if out is None:
            values = self.formula(np, S, sq_left, sq_right)
            return values.copy() if values is S and isinstance(S, np.ndarray) else values
        step = max(1, BLOCK * len(S) // max(S.size, 1))
        for start in range(0, len(S), step):
            rows = slice(start, start + step)
            left, right = (
                norms[rows] if norms is not None and norms.ndim == S.ndim and len(norms) > 1 else norms
                for norms in (sq_left, sq_right)
            )
            out[rows] = self.formula(np, S[rows], left, right)
        return out

    def layer(self) -> KernelFunction:
        """The kernel as a function of inner products, to be evaluated in the feature space of another kernel.

        Raises
        ------
        InputError
            If the kernel is not such a function, has no derivative, or is restricted to columns.
        """
        kind, why = type(self), ""
        derived = kind.gradient is not KernelFunction.gradient
        if self.statistic not in ("dot", "sqdist") or (self.inner and not derived):
            why = (
                "has inner products only. Use Linear, Polynomial, RBF, ArcCosine of one layer, or Elementwise, without "
                "`on`."
            )
        elif not derived:
            why = (
                "needs the derivative of every layer. Define `gradient(self, xp, S, value)` in the class of the "
                "kernel, or use Linear, Polynomial or RBF."
            )
        elif self.needs_norms and kind.layer_partials is KernelFunction.layer_partials:
            why = (
                "needs the derivative by the squared norms too. Define `layer_partials` in the class of the kernel, or "
                "a formula without `left` and `right`."
            )
        elif not self.is_fitted:
            why = "has no rows to take parameters from. Pass numbers."
        if why:
            raise InputError(f"{self._short()} cannot be a layer of a deep kernel, which {why}")
        return self

    # Methods of implementations. Arguments are tables: columns are selected and expanded when they are read. For ONNX
    # graphs the left table holds nodes, with which NumPy's functions make further nodes, see `persistence/graph.py`.

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        if self.statistic is None:
            phi = self._own_features(left)
            return mirror(phi @ phi.T) if right is None else phi @ self._own_features(right).T
        A, B = self._compared(left), None if right is None else self._compared(right)
        S = pair_values(self.statistic, A, B)
        out = S if isinstance(S, np.ndarray) else None
        if not self.needs_norms:
            return self.from_statistic(S, out=out)
        sq_left = S.diagonal().copy() if B is None else sq_norms(A)
        sq_right = sq_left if B is None else sq_norms(B)
        return self.from_statistic(S, sq_left[:, None], sq_right, out=out)

    def _compared(self, table: Table) -> Values:
        """Rows as the statistic compares them: after the preparation, categories as indicators."""
        for step in self.preparation:
            table = step.apply(table.joined())
        return table.take()

    def _diag(self, table: Table) -> FloatArray:
        if self.statistic is None:
            return np.square(self._own_features(table)).sum(axis=1)
        if self.statistic != "dot":
            return self.own_value(np, table.per_row(0.0))
        return self.own_value(np, sq_norms(self._compared(table)))

    def _own_features(self, table: Table) -> FloatArray:
        phi = self._features(table)
        if phi is None:
            raise InputError(
                f"{type(self).__name__} must have a statistic and a formula, or features. Define them in the class."
            )
        return to_dense(phi)

    def _features(self, table: Table) -> FloatArray | None:
        return None

    def _short(self, nested: bool = False) -> str:
        """The name and the fields of the kernel."""
        said = []
        for name in parameters_of(self):
            value = getattr(self, name)
            said.append(f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}")
        return f"{type(self).__name__}({', '.join(said)})" if said else type(self).__name__

    def _restricted(self) -> bool:
        """Return whether the kernel or a term of it selects columns."""
        return any(one._restricted() for one in self.inner)

    def _holds_steps(self) -> bool:
        """Return whether the kernel or a term of it is prepared."""
        return any(one._holds_steps() for one in self.inner)

    # Algebra.

    def __add__(self, other: object) -> Kernel:
        if isinstance(other, numbers.Real):
            return self if other == 0 else _made("sum", (self, _made("constant", other)))
        return _made("sum", (self, other)) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: object) -> Kernel:
        if isinstance(other, numbers.Real):  # 0 + k is how sum() starts
            return self if other == 0 else _made("sum", (_made("constant", other), self))
        return NotImplemented

    def __mul__(self, other: object) -> Kernel:
        if isinstance(other, numbers.Real):
            return self._times(other)  # type: ignore[arg-type]
        return _made("product", (self, other)) if isinstance(other, Kernel) else NotImplemented

    def __rmul__(self, other: object) -> Kernel:
        return self * other if isinstance(other, numbers.Real) else NotImplemented

    def _times(self, factor: float) -> Kernel:
        return _made("scaled", self, factor)


def known_kernels() -> dict[str, type[Kernel]]:
    """Kernels that have a description, by the names of their classes."""
    return {cls.__name__: cls for cls in KERNELS.values()}


def _made(kind: str, *args: Any) -> Kernel:
    """A kernel of one of the classes that are defined later."""
    return KERNELS[kind](*args)


def parameters_of(kernel: Kernel | type[Kernel]) -> list[str]:
    """Names of the parameters of a kernel."""
    if not is_dataclass(kernel):
        name = (kernel if isinstance(kernel, type) else type(kernel)).__name__
        raise InputError(
            f"The class of the kernel {name} must be a data class: write @dataclass(frozen=True) above it."
        )
    return [field.name for field in fields(kernel)]


@cache
def _bare_numbers(kind: type[Kernel]) -> list[str]:
    """Names of the parameters that are numbers and have no rule."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return [
        one.name
        for one in fields(cast(Any, kind))
        if one.init
        and hints[one.name] in (float, int)
        and (one.default is MISSING or isinstance(one.default, numbers.Real))
    ]


def _named(method: Callable[..., Any], remedy: str) -> Callable[..., Any]:
    """A method of somebody's kernel; what it raises becomes an `InputError` with the name of the kernel."""

    @wraps(method)
    def checked(kernel: Kernel, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(kernel, *args, **kwargs)
        except InputError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            what = (
                remedy if kernel.is_fitted else "It takes numbers from training rows: call fitted(X) first."
            )
            raise InputError(
                f"The kernel {kernel.label!r:.200} fails with {type(error).__name__}: {error}. {what}"
            ) from error

    return checked


def set_fields(frozen: Kernel, /, **values: object) -> None:
    """Set fields of a kernel during its construction."""
    for key, value in values.items():
        object.__setattr__(frozen, key, value)


def is_kernel(kernel: object, owner: str) -> Kernel:
    """Return what is a kernel; raise for anything else among the parts of `owner`."""
    if not isinstance(kernel, Kernel):
        raise InputError(f"{owner} is made of kernels, got {shown(kernel)}. Pass for example RBF(gamma=0.5).")
    return kernel


def build(cls: type[Kernel], args: tuple[object, ...], kwargs: Mapping[str, object]) -> Kernel:
    """Make a kernel from parameters, with an error that lists those it has."""
    kind = cls.__name__.lower()
    known = parameters_of(cls)
    for key in kwargs:
        if not known:
            raise InputError(f"Kernel {kind!r} has no parameters, got {key!r}. Leave it out.")
        check_known(key, known, f"parameter of kernel {kind!r}")
    if len(args) > len(known) or set(known[: len(args)]) & set(kwargs):
        raise InputError(f"Kernel {kind!r} takes the parameters {known} once each, got {args} and {kwargs}.")
    declared = fields(cls)[len(args) :]  # type: ignore[arg-type]
    lacking = [one.name for one in declared if one.default is MISSING and one.name not in kwargs]
    if lacking:
        raise InputError(f"Kernel {kind!r} needs {', '.join(lacking)}, got {sorted(kwargs)}. Complete it.")
    return cls(*args, **kwargs)
