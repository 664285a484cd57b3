"""Sums, products and multiples of kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import check_fields, check_value, listed, shown
from kernelweave._sparse import join_columns, to_dense
from kernelweave.kernels.base import (
    FACTOR,
    FloatArray,
    Kernel,
    Norms,
    Positive,
    check_keys,
    composite,
    from_dict,
    is_kernel,
    set_fields,
)
from kernelweave.kernels.dot import MAX_RANK
from kernelweave.kernels.other import Constant
from kernelweave.kernels.preparation import Step
from kernelweave.kernels.rows import TrainingRows
from kernelweave.views import Table

__all__ = ["Product", "Scaled", "Sum"]


@dataclass(frozen=True)
class Terms(Kernel):
    """Base of sums and products: a flat tuple of terms, combined by one operation."""

    terms: tuple[Kernel, ...]

    operation: ClassVar[np.ufunc]
    symbol: ClassVar[str]

    def __post_init__(self) -> None:
        owner = type(self)
        flat: list[Kernel] = []
        terms = listed(self.terms)
        if terms is None:
            raise InputError(
                f"The terms of {owner.__name__} must be a tuple of kernels, got {shown(self.terms)}. Pass for example "
                "(Linear(), RBF(gamma=0.5))."
            )
        for term in terms:
            is_kernel(term, owner.__name__)
            flat.extend(term.terms if isinstance(term, owner) else (term,))
        if not flat:
            raise InputError(
                f"{owner.__name__} must have at least one term, got none. Pass a tuple of kernels."
            )
        set_fields(self, terms=tuple(flat))

    @property
    def needs_psd_check(self) -> bool:
        """Whether any term may fail to be positive semidefinite."""
        return any(term.needs_psd_check for term in self.terms)

    @property
    def takes_missing(self) -> bool:
        """Whether all terms define the treatment of missing cells."""
        return all(term.takes_missing or isinstance(term, Constant) for term in self.terms)

    @property
    def is_corrected(self) -> bool:
        """Whether any term skips missing cells."""
        return any(term.is_corrected for term in self.terms)

    @property
    def is_approximate(self) -> bool:
        """Whether any term is that of features close to another kernel."""
        return any(term.is_approximate for term in self.terms)

    @property
    def is_fitted(self) -> bool:
        """Whether all terms are fitted."""
        return all(term.is_fitted for term in self.terms)

    def fitted_on(self, rows: TrainingRows) -> Kernel:
        """See :meth:`Kernel.fitted_on`."""
        return self if self.is_fitted else type(self)(tuple(term.fitted_on(rows) for term in self.terms))

    @property
    def statistic(self) -> str | None:
        """The pairwise statistic all terms share, or None."""
        if self._restricted():
            return None
        kinds = {(term.statistic, term.preparation) for term in self.terms if not isinstance(term, Constant)}
        return kinds.pop()[0] if len(kinds) == 1 else None

    @property
    def preparation(self) -> tuple[Step, ...]:
        """The steps before that statistic."""
        found = {term.preparation for term in self.terms if not isinstance(term, Constant)}
        return found.pop() if self.statistic is not None else ()

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        if not self._restricted() and not self._holds_steps():
            return super()._after(steps)
        return type(self)(tuple(term.prepared(*steps) for term in self.terms))

    @property
    def needs_norms(self) -> bool:
        """Whether a term needs the squared norms of the rows."""
        return any(term.needs_norms for term in self.terms)

    def _fold(self, parts: Iterator[FloatArray]) -> FloatArray:
        result = next(parts)
        for part in parts:
            self.operation(result, part, out=result)
        return result

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        if self.statistic is None:
            return super().from_statistic(S)
        result = self._fold(term.from_statistic(S, sq_left, sq_right) for term in self.terms)
        if out is None:
            return result
        out[...] = result
        return out

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        if self.statistic is not None and not self.needs_norms:
            return super()._gram(left, right)
        return self._fold(term._gram(left, right) for term in self.terms)

    def _diag(self, table: Table) -> FloatArray:
        return self._fold(term._diag(table).copy() for term in self.terms)

    def _restricted(self) -> bool:
        return any(term._restricted() for term in self.terms)

    def _holds_steps(self) -> bool:
        return any(term._holds_steps() for term in self.terms)

    @property
    def label(self) -> str:
        """A short name."""
        if not self._restricted():
            return super().label
        parts = (f"({term.label})" if isinstance(term, Sum) else term.label for term in self.terms)
        return f" {self.symbol} ".join(parts)

    @property
    def view(self) -> str:
        """The columns or views of the terms; several views have "+" or "*" between them."""
        return f" {self.symbol} ".join(dict.fromkeys(term.view for term in self.terms))

    def _short(self, nested: bool = False) -> str:
        parts = (term.label if self._restricted() else term._short(nested=True) for term in self.terms)
        text = f" {self.symbol} ".join(parts)
        return f"({text})" if nested else text

    def __repr__(self) -> str:
        if len(self.terms) == 1:
            return f"{type(self).__name__}(({self.terms[0]!r},))"
        parts = (f"({term!r})" if isinstance(term, Terms) else repr(term) for term in self.terms)
        return f" {self.symbol} ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values for JSON."""
        return {"kernel": type(self).__name__.lower(), "terms": [term.to_dict() for term in self.terms]}

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "terms")
        return cls(tuple(map(from_dict, values["terms"])))


@composite
@dataclass(frozen=True, repr=False)
class Sum(Terms):
    """The sum of kernels, k(x, z) = sum_t k_t(x, z); usually written ``k1 + k2``.

    Parameters
    ----------
    terms : tuple of kernels
        At least one. Sums among them are merged into this one.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Linear
    >>> sum([Linear(), RBF(gamma=0.5)])
    Linear() + RBF(gamma=0.5)
    """

    operation: ClassVar[np.ufunc] = np.add
    symbol: ClassVar[str] = "+"

    @property
    def is_linear(self) -> bool:
        """Whether all terms are linear."""
        return all(term.is_linear for term in self.terms)

    def _features(self, table: Table) -> FloatArray | None:
        parts = [part for term in self.terms if (part := term._features(table)) is not None]
        return join_columns(parts) if len(parts) == len(self.terms) else None


@composite
@dataclass(frozen=True, repr=False)
class Product(Terms):
    """The product of kernels, k(x, z) = prod_t k_t(x, z); usually written ``k1 * k2``.

    Parameters
    ----------
    terms : tuple of kernels
        At least one. Products among them are merged into this one.

    Notes
    -----
    Positive semidefinite by Schur's theorem. The feature map is the product of the terms' features, all
    pairs, if there are at most 16 of them.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Linear
    >>> (RBF(gamma=0.5) * Linear())([[2.0]], [[2.0]])
    array([[4.]])
    """

    operation: ClassVar[np.ufunc] = np.multiply
    symbol: ClassVar[str] = "*"

    def _features(self, table: Table) -> FloatArray | None:
        phi = np.ones((table.n_rows, 1))
        for term in self.terms:
            part = term._features(table)
            if part is None or phi.shape[1] * part.shape[1] > MAX_RANK:
                return None
            phi = (phi[:, :, None] * to_dense(part)[:, None, :]).reshape(table.n_rows, -1)
        return phi


@dataclass(frozen=True)
class Around(Kernel):
    """Base class of kernels that wrap one other kernel."""

    kernel: Kernel

    @property
    def is_fitted(self) -> bool:
        """Whether the wrapped kernel is fitted."""
        return self.kernel.is_fitted

    @property
    def needs_psd_check(self) -> bool:
        """Whether the wrapped kernel may fail to be positive semidefinite."""
        return self.kernel.needs_psd_check

    @property
    def takes_missing(self) -> bool:
        """Whether the wrapped kernel defines the treatment of missing cells."""
        return self.kernel.takes_missing

    @property
    def is_corrected(self) -> bool:
        """Whether the wrapped kernel skips missing cells."""
        return self.kernel.is_corrected

    @property
    def is_approximate(self) -> bool:
        """Whether the wrapped kernel is that of features close to another kernel."""
        return self.kernel.is_approximate

    @property
    def is_linear(self) -> bool:
        """Whether the wrapped kernel is linear."""
        return self.kernel.is_linear

    def _holds_steps(self) -> bool:
        return self.kernel._holds_steps()


@composite
@dataclass(frozen=True)
class Scaled(Around):
    """A positive multiple of a kernel, factor * k(x, z); usually written ``2.0 * k``.

    Parameters
    ----------
    kernel : Kernel
    factor : float
        > 0. Factors of factors are multiplied.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Linear
    >>> 2 * (0.5 * RBF(gamma=0.5)), 3.0 * Linear().on(["age"])
    (1.0 * RBF(gamma=0.5), (3.0 * Linear()).on(['age']))
    """

    factor: Positive

    def __post_init__(self) -> None:
        check_fields(self, named=True)
        kernel, factor = is_kernel(self.kernel, "Scaled"), self.factor
        if isinstance(kernel, Scaled):
            factor = check_value(FACTOR, "factor", factor * kernel.factor, of="Scaled")
            kernel = kernel.kernel
        set_fields(self, kernel=kernel, factor=factor)

    def fitted_on(self, rows: TrainingRows) -> Kernel:
        """See :meth:`Kernel.fitted_on`."""
        return self if self.is_fitted else Scaled(self.kernel.fitted_on(rows), self.factor)

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return Scaled(self.kernel.prepared(*steps), self.factor)

    @property
    def statistic(self) -> str | None:
        """The pairwise statistic of the scaled kernel."""
        return self.kernel.statistic

    @property
    def preparation(self) -> tuple[Step, ...]:
        """The steps before that statistic."""
        return self.kernel.preparation

    @property
    def needs_norms(self) -> bool:
        """Whether the scaled kernel needs squared norms."""
        return self.kernel.needs_norms

    @property
    def label(self) -> str:
        """A short name."""
        return f"{self.factor:.4g} * ({self.kernel.label})" if self._restricted() else super().label

    @property
    def view(self) -> str:
        """The columns or view of the scaled kernel."""
        return self.kernel.view

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        out = self.kernel.from_statistic(S, sq_left, sq_right, out)
        out *= self.factor
        return out

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        K = self.kernel._gram(left, right)
        K *= self.factor
        return K

    def _diag(self, table: Table) -> FloatArray:
        return self.factor * self.kernel._diag(table)

    def _features(self, table: Table) -> FloatArray | None:
        phi = self.kernel._features(table)
        return None if phi is None else math.sqrt(self.factor) * phi

    def _restricted(self) -> bool:
        return self.kernel._restricted()

    def _short(self, nested: bool = False) -> str:
        return f"{self.factor:.4g} * {self.kernel._short(nested=True)}"

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, Terms) else repr(self.kernel)
        return f"{self.factor!r} * {inner}"

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values for JSON."""
        return {"kernel": "scaled", "base": self.kernel.to_dict(), "factor": self.factor}

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "base", "factor")
        return cls(from_dict(values["base"]), values["factor"])
