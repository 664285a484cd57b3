"""The method of Do et al. as margin MKL: every kernel has a ridge given by its radius.

With ``rho(d) = sum_m d_m r_m^2`` the squared hinge with C / rho adds ``rho / C`` to the diagonal, so its optimal value
is that of a machine without slack on ``sum_m d_m (K_m + r_m^2 / C I)``: convex in d, with the certificate of `svm_mkl`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelweave.machines.machine import Machine
from kernelweave.mkl.kernel_problem import KernelProblem

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class DoProblem(KernelProblem):
    """A squared-hinge machine whose C decreases with the radius of the weights.

    Attributes
    ----------
    radii : array of shape (n_kernels,)
        Squared radius of every kernel, with its scale.
    """

    radii: Array

    def machine_at(self, weights: Array) -> Machine:
        """The machine with C divided by the radius."""
        return replace(self.machine, C=self.machine.C / float(weights @ self.radii))

    def quad(self, b: Array, kernels: Index | None = None) -> Array:
        """``b'(s_m K_m + r_m^2 / C I) b``."""
        radii = self.radii if kernels is None else self.radii[kernels]
        return super().quad(b, kernels) + radii * float(self.machine.ridge @ np.square(b))

    def products(self, b: Array, kernels: Index) -> Array:
        """``(s_m K_m + r_m^2 / C I) b``."""
        return super().products(b, kernels) + self.radii[kernels, None] * (self.machine.ridge * b)
