"""Kernels of prepared columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelweave._checks import InputError
from kernelweave._parameters import listed
from kernelweave._types import Tree
from kernelweave.kernels.algebra import Around, Scaled, Terms
from kernelweave.kernels.base import (
    FloatArray,
    Kernel,
    Norms,
    check_keys,
    composite,
    from_dict,
    is_kernel,
    set_fields,
)
from kernelweave.kernels.preparation import AffineStep, Step, apply_steps, as_steps
from kernelweave.kernels.rows import TrainingRows
from kernelweave.views import Table

__all__ = ["Prepared"]


@composite
@dataclass(frozen=True, repr=False)
class Prepared(Around):
    """A kernel of prepared columns, k(P(x), P(z)); usually written ``k.prepared("standardize")``.

    Parameters
    ----------
    kernel : Kernel
        Neither restricted to columns nor prepared itself.
    steps : tuple of steps
        See :meth:`Kernel.prepared`. Their numbers, and those of the kernel, are computed from training rows when the
        kernel is fitted.

    Examples
    --------
    >>> from kernelweave.kernels import Linear
    >>> k = Linear().prepared("log1p", "standardize")
    >>> k, k.is_fitted
    (Linear().prepared('log1p', 'standardize'), False)
    >>> k([[0.0], [1.0]]).round(12)
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        kernel = is_kernel(self.kernel, "Prepared")
        if kernel._restricted() or kernel._holds_steps():
            raise InputError(
                f"Prepared is made of a kernel without columns and steps of its own, got {kernel!r}. Call "
                "`prepared` on it, which adds the steps in the right place."
            )
        steps = as_steps(listed(self.steps) or ())
        if not steps:
            raise InputError(
                "Prepared must have at least one step, got none. Use the kernel itself, or prepared('standardize')."
            )
        set_fields(self, steps=steps)

    @property
    def is_fitted(self) -> bool:
        """Whether steps and kernel have their numbers."""
        return self.kernel.is_fitted and all(one.is_fitted for one in self.steps)

    def fitted_on(self, rows: TrainingRows) -> Kernel:
        """See :meth:`Kernel.fitted_on`."""
        if self.is_fitted:
            return self
        steps, prepared = rows.after(self.steps)
        return Prepared(self.kernel.fitted_on(prepared), steps)

    @property
    def statistic(self) -> str | None:
        """The pairwise statistic of prepared rows."""
        return self.kernel.statistic

    @property
    def preparation(self) -> tuple[Step, ...]:
        """The steps."""
        return self.steps

    @property
    def decay(self) -> float | None:
        """Gamma of a kernel of distances of prepared rows, see :class:`Kernel`."""
        return self.kernel.decay

    @property
    def needs_norms(self) -> bool:
        """Whether the kernel needs squared norms of prepared rows."""
        return self.kernel.needs_norms

    @property
    def takes_missing(self) -> bool:
        """Whether a step fills missing cells or skips them."""
        return any(one.takes_missing for one in self.steps)

    @property
    def is_corrected(self) -> bool:
        """Whether missing cells are skipped."""
        return any(one.skips for one in self.steps)

    @property
    def is_linear(self) -> bool:
        """Whether the kernel is linear, and prepared columns are affine functions of columns."""
        return self.kernel.is_linear and all(isinstance(one, AffineStep) for one in self.steps)

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        return self.kernel.from_statistic(S, sq_left, sq_right, out)

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        steps = self.steps
        return self.kernel._gram(
            apply_steps(steps, left), None if right is None else apply_steps(steps, right)
        )

    def _diag(self, table: Table) -> FloatArray:
        return self.kernel._diag(apply_steps(self.steps, table))

    def _features(self, table: Table) -> FloatArray | None:
        if self.is_corrected:
            # sums over shared columns are not inner products
            return None
        return self.kernel._features(apply_steps(self.steps, table))

    def _holds_steps(self) -> bool:
        return True

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return Prepared(self.kernel, self.steps + steps)

    def _short(self, nested: bool = False) -> str:
        words = ", ".join(one.word for one in self.steps)
        return f"{words} {self.kernel._short(nested=True)}"

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, (Terms, Scaled)) else repr(self.kernel)
        steps = (repr(v if isinstance(v := one.to_value(), str) else one) for one in self.steps)
        return f"{inner}.prepared({', '.join(steps)})"

    def to_dict(self) -> Tree:
        """Return a description of plain values for JSON."""
        steps = [one.to_value() for one in self.steps]
        return {"kernel": "prepared", "base": self.kernel.to_dict(), "steps": steps}

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "base", "steps")
        return cls(from_dict(values["base"]), tuple(values["steps"]))
