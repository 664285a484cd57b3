"""Gaussians whose widths are parameters: families of kernels for the criteria of margin and radius."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import Floats, InputError
from kernelweave._loops import core
from kernelweave._parameters import check_value
from kernelweave.functions import squared_distances
from kernelweave.gram import Gram
from kernelweave.mkl.criteria.radius import FLAT, coinciding

Array = NDArray[np.float64]


def _shares(n_samples: int, sample_weight: Array | None) -> Array:
    return (
        np.full(n_samples, 1.0 / n_samples) if sample_weight is None else sample_weight / sample_weight.sum()
    )


#: Squared distances of all pairs.
DISTANCES = Floats((3,), least=0.0, what="squared distances")


class _GaussianFamily(ABC):
    """``K(t) = exp(-sum_p t_p D_p)`` of squared distances D_p, which the subclasses store in different ways."""

    n_parameters: int
    n_samples: int

    def __init__(self, n_parameters: int, n_samples: int) -> None:
        self.n_parameters, self.n_samples = n_parameters, n_samples
        self._at: Array | None = None
        self._matrix = np.empty((n_samples, n_samples))

    @abstractmethod
    def _distances(self, t: Array, out: Array) -> None:
        """Put ``sum_p t_p D_p``, symmetric, into `out`."""

    @abstractmethod
    def _sums(self, A: Array) -> Array:
        """``sum_ij A_ij D_pij`` for every parameter, with symmetric A."""

    @abstractmethod
    def _means(self, share: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Mean of every distance over pairs of rows with these shares, and whether it exceeds rounding."""

    def start(self, sample_weight: Array | None = None) -> Array:
        """Equal shares of a mean exponent of 1; 0 for parameters of distances that are all zero (below 2.2e-308).

        Parameters
        ----------
        sample_weight : array of shape (n_samples,), optional
            For the mean over pairs of rows.

        Raises
        ------
        InputError
            All distances are zero.
        """
        mean, apart = self._means(_shares(self.n_samples, sample_weight))
        if not apart.any():
            raise coinciding(self.n_samples)
        return np.divide(1.0, mean * int(apart.sum()), out=np.zeros_like(mean), where=apart)

    def kernel(self, t: Array) -> Array:
        """K(t)."""
        self._distances(t, self._matrix)
        np.exp(np.negative(self._matrix, out=self._matrix), out=self._matrix)
        self._at = t.copy()
        return self._matrix

    def quadratic_forms(self, t: Array, b: Array) -> Array:
        """``-sum_ij b_i b_j K_ij D_pij``."""
        K = self._matrix if self._at is not None and np.array_equal(self._at, t) else self.kernel(t)
        # the derivative is a multiple of K, which is applied after the sums
        return -self._sums(K * np.outer(b, b))

    def diagonals(self, t: Array, weights: Array) -> Array:
        """Zero: the diagonal is always 1."""
        return np.zeros(self.n_parameters)


class Gaussians(_GaussianFamily):
    """``K(t)_ij = exp(-sum_p t_p D_pij)``: one Gaussian with a parameter for each squared distance.

    Parameters
    ----------
    distances : array of shape (n_parameters, n_samples, n_samples)
        Squared distances; one of all columns gives the usual gamma, one for each column a relevance for each.
    """

    def __init__(self, distances: Array) -> None:
        self.distances = np.ascontiguousarray(check_value(DISTANCES, "distances", distances))
        if self.distances.shape[1] != self.distances.shape[2]:
            raise InputError(
                f"`distances` must have shape (n_parameters, n_samples, n_samples), got {self.distances.shape}. Pass "
                "the distances of all pairs of training rows."
            )
        super().__init__(*self.distances.shape[:2])

    @classmethod
    def of_columns(cls, X: ArrayLike, *, each: bool) -> Gaussians:
        """From rows X (n_samples, n_features): one gamma for all columns, or one for each."""
        values = np.asarray(X, dtype=np.float64)
        columns = values.T[:, :, None] if each else values[None]
        return cls(np.stack([np.square(c[:, None] - c[None]).sum(axis=-1) for c in columns]))

    def _distances(self, t: Array, out: Array) -> None:
        np.dot(t, self.distances.reshape(self.n_parameters, -1), out=out.reshape(-1))

    def _sums(self, A: Array) -> Array:
        return np.einsum("pij,ij->p", self.distances, A, optimize=True)

    def _means(self, share: Array) -> tuple[Array, NDArray[np.bool_]]:
        mean = np.einsum("pij,i,j->p", self.distances, share, share, optimize=True)
        # the inverse of smaller ones overflows
        return mean, mean >= np.finfo(np.float64).tiny


class GaussianOfSum(_GaussianFamily):
    """``K(t) = exp(-sum_m t_m s_m D_m)``, with D_m the squared distances of the kernels of a stack.

    ``D_m(x, z) = K_m(x, x) + K_m(z, z) - 2 K_m(x, z)``: with one linear kernel, t is the usual gamma, with one for each
    column it holds a relevance for each. No further memory of size n_kernels n_samples^2 is needed.

    Parameters
    ----------
    gram : Gram
    scale : array of shape (n_kernels,)
    """

    def __init__(self, gram: Gram, scale: Array) -> None:
        super().__init__(gram.n_kernels, gram.n_samples)
        self.gram, self.scale = gram, scale
        self._diagonal = gram.diagonal()

    def diagonal(self, t: Array) -> Array:
        """Diagonal of the sum in the exponent, ``sum_m t_m s_m K_m(x, x)``."""
        return (t * self.scale) @ self._diagonal

    def _distances(self, t: Array, out: Array) -> None:
        K = self.gram.combine_upper(t * self.scale, out)
        core.mirror(K)
        diagonal = self.diagonal(t)
        squared_distances(np, K, diagonal[:, None], diagonal[None], out=out)

    def _sums(self, A: Array) -> Array:
        return 2.0 * self.scale * (self._diagonal @ A.sum(axis=1) - self.gram.inner(A))

    def _means(self, share: Array) -> tuple[Array, NDArray[np.bool_]]:
        level = self._diagonal @ share
        mean = 2.0 * self.scale * (level - self.gram.quadratic_forms(share[None]))
        return mean, mean > FLAT * self.scale * level
