"""Kernels K(t) with parameters t >= 0, for criteria of margin and radius: sums of kernels, and Gaussians of sums."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from copy import copy

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._loops import core
from kernelweave._types import Array
from kernelweave.functions import squared_distances
from kernelweave.gram import Gram
from kernelweave.machines.rounding import imbalance, sum_error
from kernelweave.mkl.certify import entry_error

#: A radius below this share of the mean diagonal means that the rows coincide in the feature space.
FLAT = 1e-12


class Family(ABC):
    """Kernels K(t) on the training rows with parameters t >= 0, and their derivatives."""

    n_parameters: int
    n_samples: int
    #: Least and largest parameters, >= 0; those of `WeightedSum` are the set of weights.
    bounds: tuple[float | Array, float | Array] = (0.0, math.inf)

    @abstractmethod
    def start(self, sample_weight: Array | None = None) -> Array:
        """Start of the descent."""

    @abstractmethod
    def kernel(self, t: Array) -> Array:
        """K(t), symmetric; the next call may overwrite it."""

    @abstractmethod
    def quadratic_forms(self, t: Array, b: Array) -> Array:
        """``b' (dK / dt_m) b`` for every parameter."""

    @abstractmethod
    def diagonals(self, t: Array, weights: Array) -> Array:
        """``sum_i weights_i (dK / dt_m)_ii`` for every parameter."""


def coinciding(n_samples: int) -> InputError:
    """The error for rows without a distance under any kernel."""
    return InputError(
        f"The rows (n_samples={n_samples}) coincide in the feature space of the kernel: its enclosing ball has no "
        "radius. Drop constant kernels; centre or rescale the others."
    )


class WeightedSum(Family):
    """``K(t) = sum_m t_m s_m (K_m + ridge_m I)``.

    Parameters
    ----------
    gram : Gram
    scale : array of shape (n_kernels,)
    ridge : float
        Added to every kernel, as a share of its largest diagonal entry: it makes coefficients unique, hence the
        criterion differentiable, if rows repeat or the rank is low.
    """

    def __init__(self, gram: Gram, scale: Array, ridge: float = 0.0) -> None:
        self.gram, self.scale = gram, scale
        self.n_parameters, self.n_samples = gram.n_kernels, gram.n_samples
        self._diagonal = gram.diagonal()
        self.ridge = ridge
        self._ridge = ridge * self._diagonal.max(axis=1) + gram.residual_trace
        self._matrix = np.empty((gram.n_samples, gram.n_samples))

    def rescaled(self, factors: Array) -> WeightedSum:
        """The same kernels with other factors; a factor of 0 excludes a kernel."""
        out = copy(self)
        out.scale = self.scale * factors
        return out

    def start(self, sample_weight: Array | None = None) -> Array:
        """Equal weights."""
        return np.full(self.n_parameters, 1.0 / self.n_parameters)

    def kernel(self, t: Array) -> Array:
        """K(t)."""
        weights = t * self.scale
        out = self.gram.combine_upper(weights, self._matrix)
        core.mirror(out)
        out.flat[:: len(out) + 1] += float(weights @ self._ridge)
        return out

    def quadratic_forms(self, t: Array, b: Array) -> Array:
        """``b'K_m b``, which does not depend on t."""
        return self.scale * (self.gram.quadratic_forms(b[None]) + self._ridge * float(b @ b))

    def products(self, b: Array, kernels: NDArray[np.int64]) -> Array:
        """``(s_m K_m) b`` of some kernels, ridge included, shape (len(kernels), n_samples)."""
        plain = self.gram.matvecs(b[None], kernels)[:, 0] + self._ridge[kernels, None] * b
        return plain * self.scale[kernels, None]

    def diagonal(self, kernels: NDArray[np.int64]) -> Array:
        """Diagonals of some kernels, ridge included."""
        return (self._diagonal[kernels] + self._ridge[kernels, None]) * self.scale[kernels, None]

    def diagonals(self, t: Array, weights: Array) -> Array:
        """Weighted diagonals of the kernels."""
        return self.scale * (self._diagonal @ weights + self._ridge * float(weights.sum()))

    def quadratic_form_errors(self, b: Array, q: Array) -> Array:
        """Bounds of the errors of quadratic forms: of rounding, and of coefficients whose sum is not quite zero."""
        size = self._root @ np.abs(b)
        return (
            sum_error(len(b)) * np.square(size) + 2.0 * imbalance(b)[0] * np.sqrt(np.maximum(q, 0.0)) * size
        )

    @property
    def _root(self) -> Array:
        """Square roots of the diagonals, ridge included, shape (n_kernels, n_samples)."""
        return np.sqrt(np.maximum(self.diagonal(np.arange(self.n_parameters)), 0.0))

    def entry_error(self, t: Array) -> float:
        """Rounding of the entries of K(t), as a share of the roots of its diagonal."""
        return entry_error(self.gram, t > 0)


class GaussianOfSum(Family):
    """``K(t) = exp(-sum_m t_m s_m D_m)``, with D_m the squared distances of the kernels of a stack.

    ``D_m(x, z) = K_m(x, x) + K_m(z, z) - 2 K_m(x, z)``: with one linear kernel, t is the usual gamma, with one for each
    column it holds a relevance for each. No further memory of size n_kernels n_samples^2 is needed.

    Parameters
    ----------
    gram : Gram
    scale : array of shape (n_kernels,)
    """

    def __init__(self, gram: Gram, scale: Array) -> None:
        self.n_parameters, self.n_samples = gram.n_kernels, gram.n_samples
        self.gram, self.scale = gram, scale
        self._diagonal = gram.diagonal()
        self._at: Array | None = None
        self._matrix = np.empty((self.n_samples, self.n_samples))

    def diagonal(self, t: Array) -> Array:
        """Diagonal of the sum in the exponent, ``sum_m t_m s_m K_m(x, x)``."""
        return (t * self.scale) @ self._diagonal

    def start(self, sample_weight: Array | None = None) -> Array:
        """Equal shares of a mean exponent of 1; 0 for parameters of distances that are all zero.

        Parameters
        ----------
        sample_weight : array of shape (n_samples,), optional
            For the mean over pairs of rows.

        Raises
        ------
        InputError
            All distances are zero.
        """
        weight = np.ones(self.n_samples) if sample_weight is None else sample_weight
        share = weight / weight.sum()
        level = self._diagonal @ share
        mean = 2.0 * self.scale * (level - self.gram.quadratic_forms(share[None]))
        apart = mean > FLAT * self.scale * level
        if not apart.any():
            raise coinciding(self.n_samples)
        return np.divide(1.0, mean * int(apart.sum()), out=np.zeros_like(mean), where=apart)

    def kernel(self, t: Array) -> Array:
        """K(t)."""
        K = self.gram.combine_upper(t * self.scale, self._matrix)
        core.mirror(K)
        diagonal = self.diagonal(t)
        squared_distances(np, K, diagonal[:, None], diagonal[None], out=K)
        np.exp(np.negative(K, out=K), out=K)
        self._at = t.copy()
        return K

    def quadratic_forms(self, t: Array, b: Array) -> Array:
        """``-sum_ij b_i b_j K_ij D_pij``."""
        K = self._matrix if self._at is not None and np.array_equal(self._at, t) else self.kernel(t)
        # the derivative is a multiple of K, which is applied after the sums
        A = K * np.outer(b, b)
        return -2.0 * self.scale * (self._diagonal @ A.sum(axis=1) - self.gram.inner(A))

    def diagonals(self, t: Array, weights: Array) -> Array:
        """Zero: the diagonal is always 1."""
        return np.zeros(self.n_parameters)
