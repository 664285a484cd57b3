"""Features of random projections: cosines and sines, and random layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from kernelweave._parameters import OneOf, Whole, check_fields
from kernelweave._types import FittedPart
from kernelweave.kernels.base import FloatArray, Kernel
from kernelweave.kernels.dot import ArcCosine
from kernelweave.kernels.maps import MEASURED, FeatureMap, LeftOut, excess
from kernelweave.kernels.rows import TrainingRows
from kernelweave.kernels.stationary import RBF, Laplacian
from kernelweave.views import Table

__all__ = ["RandomFeatures"]

#: Names of the ways to draw frequencies.
SAMPLING = ("auto", "orthogonal", "halton", "sobol", "plain")
#: Columns up to which sequences of points are better than orthogonal directions, of Gaussian and of other kernels.
FEW_COLUMNS, MANY_COLUMNS = 10, 1000


@dataclass(frozen=True, eq=False, repr=False)
class RandomFeatures(FeatureMap):
    """Random features: cosines and sines of random projections, or random layers.

    Gaussian kernels have frequencies from a normal distribution with variance ``2 gamma``, Laplacian ones from a
    Cauchy distribution with scale `gamma` [1]_; the features ``cos(w x), sin(w x)`` have the value of the kernel as the
    mean of their inner products, and its diagonal exactly. Arc-cosine kernels have random layers
    ``sqrt(2 / n) max(w x, 0)^q`` [3]_, one after another where there are several.

    Parameters
    ----------
    n_features : int, default=1000
        Number of features, two for each frequency.
    sampling : {"auto", "orthogonal", "halton", "sobol", "plain"}, default="auto"
        "orthogonal": blocks of orthogonal frequencies [2]_; "halton" and "sobol": scrambled sequences of points that
        fill the space evenly; "plain": independent frequencies, which have the largest errors. "auto" is "orthogonal"
        for Gaussian kernels of more than ten columns, and for any kernel of more than a thousand, otherwise "sobol".
        Laplacian kernels have no orthogonal frequencies, and use "sobol" instead.
    random_state : int, default=0
    frequencies, left_out : optional
        The projections of every layer, and what is left out; from training rows when the map is fitted.

    Notes
    -----
    The error of a value falls as one over the root of `n_features`, whatever the kernel; `Nystroem` leaves out less
    where eigenvalues fall fast.

    References
    ----------
    .. [1] A. Rahimi and B. Recht, Random features for large-scale kernel machines, NIPS 2007.
    .. [2] F. X. Yu et al., Orthogonal random features, NIPS 2016.
    .. [3] Y. Cho and L. K. Saul, Kernel methods for deep learning, NIPS 2009.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, RandomFeatures, approximate
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> k = approximate(RBF(gamma=0.2), RandomFeatures(2000)).fitted(X)
    >>> bool(abs(k(X) - RBF(gamma=0.2)(X)).max() < 0.1)
    True
    """

    n_features: Annotated[int, Whole(2)] = 1000
    sampling: Annotated[str, OneOf(*SAMPLING)] = "auto"
    random_state: Annotated[int, Whole(0)] = 0
    frequencies: FittedPart = field(default=None, kw_only=True)
    left_out: LeftOut | None = field(default=None, kw_only=True)

    name: ClassVar[str] = "random-features"
    word: ClassVar[str] = "random features of"
    goes_inside: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, named=True)

    @property
    def is_fitted(self) -> bool:
        """Whether the frequencies are known."""
        return self.frequencies is not None

    @property
    def width(self) -> int:
        """Number of features; before the map is fitted, at most."""
        return self.n_features

    def takes(self, kernel: Kernel) -> bool:
        """Whether the kernel is Gaussian, Laplacian or arc-cosine."""
        return isinstance(kernel, RBF | Laplacian | ArcCosine) and not kernel.is_corrected

    def fitted(self, kernel: Kernel, rows: TrainingRows) -> RandomFeatures:
        """See `FeatureMap.fitted`."""
        made = replace(self, frequencies=tuple(self._layers(kernel, rows.n_columns)))
        return replace(made, left_out=_measured(made, kernel, rows, self.random_state))

    def _like(self, kernel: Kernel, n_columns: int) -> RandomFeatures:
        """The same with the way to draw that a kernel of so many columns has."""
        sampling = self.sampling
        if sampling == "auto":
            many = n_columns > (FEW_COLUMNS if isinstance(kernel, RBF) else MANY_COLUMNS)
            sampling = "orthogonal" if many else "sobol"
        if sampling == "orthogonal" and isinstance(kernel, Laplacian):
            sampling = "sobol" if n_columns <= MANY_COLUMNS else "plain"
        return replace(self, sampling=sampling)

    def _layers(self, kernel: Kernel, n_columns: int) -> list[FloatArray]:
        like = self._like(kernel, n_columns)
        if isinstance(kernel, RBF):
            return [math.sqrt(2.0 * kernel.gamma) * like._normal(n_columns, self.n_features // 2)]
        if isinstance(kernel, Laplacian):
            points = like._uniform(n_columns, self.n_features // 2)
            return [kernel.gamma * np.tan(np.pi * (points - 0.5))]
        assert isinstance(kernel, ArcCosine)
        # random features fill no space evenly: their directions are orthogonal unless another way was asked for
        above = replace(self, sampling="orthogonal") if self.sampling == "auto" else self
        later = [above._normal(self.n_features, self.n_features, k) for k in range(1, kernel.layers)]
        return [like._normal(n_columns, self.n_features), *later]

    def _rng(self, layer: int) -> np.random.Generator:
        return np.random.default_rng([self.random_state, layer] if layer else self.random_state)

    def _normal(self, n_columns: int, number: int, layer: int = 0) -> FloatArray:
        """Directions as rows (number, n_columns), each standard normal."""
        rng = self._rng(layer)
        if self.sampling != "orthogonal":
            if self.sampling == "plain":
                return rng.normal(size=(number, n_columns))
            from scipy.special import ndtri

            return np.asarray(ndtri(self._uniform(n_columns, number, layer)))
        out = np.empty((number, n_columns))
        for first in range(0, number, n_columns):
            some = min(n_columns, number - first)
            Q, R = np.linalg.qr(rng.normal(size=(n_columns, some)))
            lengths = np.sqrt(rng.chisquare(n_columns, size=some))
            # signs make the directions uniform on the sphere
            out[first : first + some] = (Q * np.sign(R.diagonal()) * lengths).T
        return out

    def _uniform(self, n_columns: int, number: int, layer: int = 0) -> FloatArray:
        """Points of the unit cube (number, n_columns), inside."""
        rng = self._rng(layer)
        if self.sampling == "plain":
            points = rng.random((number, n_columns))
        else:
            from scipy.stats import qmc

            if self.sampling == "sobol":
                # a power of two is the balanced number of points of this sequence
                size = 1 << max(number - 1, 0).bit_length()
                points = qmc.Sobol(n_columns, seed=rng).random(size)[:number]
            else:
                points = qmc.Halton(n_columns, seed=rng).random(number)
        return np.clip(points, 1e-12, 1.0 - 1e-12)

    def features(self, kernel: Kernel, table: Table) -> FloatArray:
        """See `FeatureMap.features`."""
        first, *others = self.frequencies
        projected = np.asarray(table.take() @ first.T)
        if not isinstance(kernel, ArcCosine):
            out = np.empty((len(projected), 2 * len(first)))
            np.cos(projected, out=out[:, : len(first)])
            np.sin(projected, out=out[:, len(first) :])
            out /= math.sqrt(len(first))
            return out
        degrees = kernel.degree if isinstance(kernel.degree, tuple) else (kernel.degree,) * kernel.layers
        out = _layer(projected, degrees[0])
        for W, degree in zip(others, degrees[1:], strict=True):
            out = _layer(out @ W.T, degree)
        return out

    def settings(self) -> dict[str, Any]:
        """See `FeatureMap.settings`."""
        return {
            "n_features": self.n_features,
            "sampling": self.sampling,
            "random_state": self.random_state,
        }

    def _stored(self) -> list[Any]:
        return [self.n_features, self.sampling, self.random_state, *(self.frequencies or ())]

    def __repr__(self) -> str:
        state = f", random_state={self.random_state}" if self.random_state else ""
        return f"RandomFeatures({self.n_features}, {self.sampling!r}{state})"


def _layer(projected: FloatArray, degree: int) -> FloatArray:
    """``sqrt(2 / n) step(x) x^degree``, with 1/2 for the step at 0."""
    steps = np.heaviside(projected, 0.5)
    out = steps if degree == 0 else steps * projected**degree
    return out * math.sqrt(2.0 / projected.shape[1])


def _measured(fitted: FeatureMap, kernel: Kernel, rows: TrainingRows, seed: int) -> LeftOut:
    """The root mean squared error of values of pairs of training rows, drawn by their weights."""
    distinct, weights = rows.distinct()
    rng = np.random.default_rng([seed, 1])
    left, right = rng.choice(len(distinct), (2, MEASURED), p=weights / weights.sum())
    tables = [rows.table.rows(distinct[side]) for side in (left, right)]
    found, wanted = np.empty(MEASURED), np.empty(MEASURED)
    for first in range(0, MEASURED, 100):
        A, B = (table.rows(slice(first, first + 100)) for table in tables)
        part = slice(first, first + 100)
        wanted[part] = kernel(A, B).diagonal()
        found[part] = np.einsum("ij,ij->i", fitted.features(kernel, A), fitted.features(kernel, B))
    same = left == right
    if same.any():
        wanted[same] = kernel.diag(tables[0])[same]
    mean = float(kernel.diag(tables[0]).mean())
    squares = np.square(found - wanted)
    if not mean > 0:
        return LeftOut(0.0, 0.0, MEASURED, False)
    share = math.sqrt(float(squares.mean())) / mean
    # values of Gaussian and Laplacian kernels and of their features lie between -1 and 1; others have no bound
    bound = math.inf
    if not isinstance(kernel, ArcCosine):
        bound = math.sqrt(float(squares.mean()) + excess(squares, 4.0)) / mean
    return LeftOut(share, bound, MEASURED, False)
