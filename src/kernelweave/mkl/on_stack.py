"""What problems on a stack of kernels have in common."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kernelweave._types import Array, Index
from kernelweave.gram import Gram


class OnStack:
    """A problem on a stack of kernels, each with a factor ``s_m > 0``."""

    gram: Gram
    scale: Array

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.gram.n_kernels

    @cached_property
    def residual(self) -> Array | None:
        """``s_m`` times a bound of the trace that factors leave out; None if they are exact."""
        left = self.gram.residual_trace
        return self.scale * left if left.any() else None

    def quad(self, C: Array, kernels: Index | None = None) -> Array:
        """Upper bounds of ``sum_t s_m c_t' K_m c_t`` for rows c_t of C, shape (len(kernels),), exact if K_m is."""
        pick = slice(None) if kernels is None else kernels
        values = self.scale[pick] * self.gram.quadratic_forms(np.atleast_2d(C), kernels)
        return values if self.residual is None else values + self.residual[pick] * float(np.vdot(C, C))

    def products(self, C: Array, kernels: Index | None = None) -> Array:
        """``s_m K_m c_t``, shape (len(kernels), n_outputs, n_samples), or (len(kernels), n_samples) for a vector."""
        V = self.gram.matvecs(np.atleast_2d(C), kernels)
        V *= (self.scale if kernels is None else self.scale[kernels])[:, None, None]
        return V if C.ndim == 2 else V[:, 0]
