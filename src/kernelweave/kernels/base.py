"""The base class of kernels, and descriptions of kernels as plain values."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError, check_known, check_row_weights
from kernelweave._parameters import Number, Text, shown
from kernelweave._sparse import sq_norms, to_dense
from kernelweave.functions import KernelFunction
from kernelweave.kernels.preparation import Step, apply_steps, as_steps
from kernelweave.kernels.rows import TrainingRows
from kernelweave.kernels.statistics import mirror, pairwise_statistic
from kernelweave.views import Table, as_table, as_tables

__all__ = ["Kernel", "from_dict"]

FloatArray = NDArray[np.float64]
Norms = FloatArray | None
Kind = TypeVar("Kind", bound="Kernel")

PSD = "Other values do not give a positive semidefinite kernel."
Positive = Annotated[float, Number(above=0, remedy=PSD)]
FACTOR = Number(above=0, remedy=PSD)
VIEW_NAME = Text() | None

#: Kernels by the names of their classes in lower case, as used in descriptions and text.
LEAVES: dict[str, type[Kernel]] = {}
#: Other names of these in text.
ALIASES: dict[str, str] = {}
#: Combinations of kernels, likewise. The operators of `Kernel` find their classes here, which are defined later.
COMPOSITES: dict[str, type[Kernel]] = {}


def leaf(*aliases: str) -> Callable[[type[Kind]], type[Kind]]:
    """Register a kernel for descriptions and text, in text also by `aliases`."""

    def enter(cls: type[Kind]) -> type[Kind]:
        LEAVES[cls.__name__.lower()] = cls
        ALIASES.update(dict.fromkeys(aliases, cls.__name__.lower()))
        return cls

    return enter


def composite(cls: type[Kind]) -> type[Kind]:
    """Register a combination of kernels for descriptions."""
    COMPOSITES[cls.__name__.lower()] = cls
    return cls


def known_kernels() -> dict[str, type[Kernel]]:
    """Kernels by the names of their classes."""
    return {cls.__name__: cls for cls in (LEAVES | COMPOSITES).values()}


class Kernel(ABC):
    """Base class of all kernels; see the text of `kernelweave.kernels` for the interface of an implementation.

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
    """

    columns: Any = None
    name: Any = None
    statistic: ClassVar[Any] = None
    needs_norms: ClassVar[Any] = False
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

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
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

    def diag(self, X: Any) -> FloatArray:
        """Return k(x, x) for every row of `X`, shape (n,), without computing the matrix."""
        table = as_table(X, missing=self.takes_missing)
        return self._on_rows(table)._diag(table)

    def fitted(self, X: Any, sample_weight: ArrayLike | None = None) -> Kernel:
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
        """See :meth:`fitted`; kernels that are fitted on the same object share computations."""
        return self

    def _on_rows(self, table: Table) -> Kernel:
        return self if self.is_fitted else self.fitted_on(TrainingRows(table))

    def features(self, X: Any) -> FloatArray | None:
        """Return a finite feature map of the rows of `X`, or None if the kernel has no small one.

        Returns
        -------
        array of shape (n_rows, r), or None
            ``phi(X) @ phi(Z).T == k(X, Z)`` up to rounding. The result (None or r) depends only on the columns of
            the table, not on its rows. Do not modify the array: it may be a view of the data.
        """
        table = as_table(X, missing=self.takes_missing)
        return self._on_rows(table)._features(table)

    def transform(self, X: Any) -> FloatArray:
        """Return the feature map of the rows of `X` as a dense array.

        Parameters
        ----------
        X : array, data frame or Table of shape (n_rows, n_columns)

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

    def on(self, columns: Any, name: str | None = None) -> Kernel:
        """Restrict the kernel to some columns.

        Parameters
        ----------
        columns : int, str, slice, boolean mask, sequence of int and str, or None
            As in :meth:`kernelweave.views.Table.resolve`; None means all columns, to give the kernel a name.
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

    def prepared(self, *steps: Any) -> Kernel:
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
        raise InputError(
            f"{self!r} is not a function of one pairwise statistic. Call it on the table instead."
        )

    def layer(self) -> KernelFunction:
        """The kernel as a function of inner products, to be evaluated in the feature space of another kernel.

        Raises
        ------
        InputError
            If the kernel is not such a function, or is restricted to columns.
        """
        raise InputError(
            f"{self._short()} cannot be a layer of a deep kernel, which has inner products only. Use Linear, "
            "Polynomial, RBF, ArcCosine of one layer, or Elementwise, without `on`."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values for JSON; :func:`from_dict` reads it.

        Examples
        --------
        >>> from kernelweave.kernels import RBF
        >>> RBF(gamma=0.5).on(["age"]).to_dict()
        {'kernel': 'on', 'base': {'kernel': 'rbf', 'gamma': 0.5}, 'columns': ['age'], 'name': None}
        """
        values = {name: getattr(self, name) for name in parameters_of(self)}
        return {"kernel": type(self).__name__.lower()} | {
            key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
        }

    @staticmethod
    def from_dict(description: Mapping[str, object]) -> Kernel:
        """Read what `to_dict` wrote; the same as the function :func:`from_dict`."""
        return from_dict(description)

    @classmethod
    def _from_values(cls, values: Mapping[str, object]) -> Kernel:
        """Read what `to_dict` wrote, without the name of the kernel."""
        return build(cls, (), {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})

    # Methods of implementations. Arguments are tables: columns are selected and expanded when they are read.

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        A = apply_steps(self.preparation, left).take()
        B = None if right is None else apply_steps(self.preparation, right).take()
        S = pairwise_statistic(self.statistic, A, B)
        if not self.needs_norms:
            return self.from_statistic(S, out=S)
        sq_left = S.diagonal().copy() if B is None else sq_norms(A)
        sq_right = sq_left if B is None else sq_norms(B)
        return self.from_statistic(S, sq_left[:, None], sq_right, out=S)

    @abstractmethod
    def _diag(self, table: Table) -> FloatArray: ...

    def _features(self, table: Table) -> FloatArray | None:
        return None

    def _short(self, nested: bool = False) -> str:
        return type(self).__name__

    def _restricted(self) -> bool:
        """Return whether the kernel or a term of it selects columns."""
        return False

    def _holds_steps(self) -> bool:
        """Return whether the kernel or a term of it is prepared."""
        return False

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


def _made(kind: str, *args: Any) -> Kernel:
    """A kernel of one of the classes that are defined later."""
    return (LEAVES | COMPOSITES)[kind](*args)


def parameters_of(kernel: Kernel | type[Kernel]) -> list[str]:
    """Names of the parameters of a kernel."""
    assert is_dataclass(kernel)  # like all kernels with a description
    return [field.name for field in fields(kernel)]


def set_fields(frozen: Kernel, /, **values: Any) -> None:
    """Set fields of a kernel during its construction."""
    for key, value in values.items():
        object.__setattr__(frozen, key, value)


def is_kernel(kernel: object, owner: str) -> Kernel:
    """Return what is a kernel; raise for anything else among the parts of `owner`."""
    if not isinstance(kernel, Kernel):
        raise InputError(f"{owner} is made of kernels, got {shown(kernel)}. Pass for example RBF(gamma=0.5).")
    return kernel


def from_dict(description: Mapping[str, Any]) -> Kernel:
    """Read the description that :meth:`Kernel.to_dict` wrote.

    Raises
    ------
    InputError
        For unknown kernels and parameters; the known ones are listed.

    Examples
    --------
    >>> from_dict({"kernel": "rbf", "gamma": 0.5})
    RBF(gamma=0.5)
    """
    if not isinstance(description, Mapping) or "kernel" not in description:
        raise InputError(
            f"A kernel is described by a dict with the key 'kernel', got {description!r}. See to_dict."
        )
    values = dict(description)
    kinds = LEAVES | COMPOSITES
    return kinds[check_known(values.pop("kernel"), sorted(kinds), "kernel")]._from_values(values)


def build(cls: type[Kernel], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Kernel:
    """Make a kernel from parameters, with an error that lists those it has."""
    kind = cls.__name__.lower()
    known = parameters_of(cls)
    for key in kwargs:
        if not known:
            raise InputError(f"Kernel {kind!r} has no parameters, got {key!r}. Leave it out.")
        check_known(key, known, f"parameter of kernel {kind!r}")
    if len(args) > len(known) or set(known[: len(args)]) & set(kwargs):
        raise InputError(f"Kernel {kind!r} takes the parameters {known} once each, got {args} and {kwargs}.")
    return cls(*args, **kwargs)


def check_keys(cls: type[Kernel], values: Mapping[str, Any], *keys: str) -> None:
    """Raise if the description of a kernel that is made of kernels has other keys."""
    if set(values) != set(keys):
        raise InputError(
            f"The description of {cls.__name__.lower()!r} must have the keys {sorted(keys)}, got {sorted(values)}."
        )
