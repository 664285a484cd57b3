"""Kernels K(t) with parameters t >= 0, for criteria of margin and radius: sums of kernels, Gaussians, and your own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import Floats, InputError
from kernelweave._docstrings import InheritedTexts
from kernelweave._parameters import Flag, ReadableSignature, check_value
from kernelweave._types import Array
from kernelweave.functions import KernelFunction, squared_distances
from kernelweave.gram import Gram
from kernelweave.machines.rounding import entry_error, imbalance, sum_error
from kernelweave.mkl.layers import Layers, Tape

#: A radius below this share of the mean diagonal means that the rows coincide in the feature space.
FLAT = 1e-12
#: Squared distances of all pairs.
DISTANCES = Floats((3,), least=0.0, what="squared distances")
#: Rows of a table.
ROWS = Floats((2,), what="rows")
#: Step of differences, as a share of the parameter: near the cube root of the precision, which balances the errors.
STEP = 1e-5
#: Parameters below this share of the mean start use the step of this share.
LEAST = 1e-2


class Family(InheritedTexts, ABC):
    """Kernels K(t) on the training rows with parameters t >= 0, and their derivatives."""

    n_parameters: int
    n_samples: int
    #: Least and largest parameters, >= 0; those of `WeightedSum` are the set of weights.
    bounds: tuple[float | Array, float | Array] = (0.0, math.inf)

    @abstractmethod
    def start(self, sample_weight: Array | None = None) -> Array:
        """Start of the descent.

        Parameters
        ----------
        sample_weight : array of shape (n_samples,), optional
            Weights of the samples; equal ones by default.

        Returns
        -------
        array of shape (n_parameters,)
        """

    @abstractmethod
    def kernel(self, t: Array) -> Array:
        """K(t), symmetric; the next call may overwrite it.

        Parameters
        ----------
        t : array of shape (n_parameters,)
            Parameters.

        Returns
        -------
        array of shape (n_samples, n_samples)
        """

    @abstractmethod
    def quadratic_forms(self, t: Array, b: Array) -> Array:
        """``b' (dK / dt_m) b`` for every parameter.

        Parameters
        ----------
        t : array of shape (n_parameters,)
            Parameters.
        b : array of shape (n_samples,)
            Coefficients.

        Returns
        -------
        array of shape (n_parameters,)
        """

    @abstractmethod
    def diagonals(self, t: Array, weights: Array) -> Array:
        """``sum_i weights_i (dK / dt_m)_ii`` for every parameter.

        Parameters
        ----------
        t : array of shape (n_parameters,)
            Parameters.
        weights : array of shape (n_samples,)
            Weights of the samples.

        Returns
        -------
        array of shape (n_parameters,)
        """


def coinciding(n_samples: int) -> InputError:
    """The error for rows without a distance under any kernel."""
    return InputError(
        f"The rows (n_samples={n_samples}) coincide in the feature space of the kernel: its enclosing ball has no "
        "radius. Drop constant kernels, and `distances` that are all zero; centre or rescale the others."
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
        out = self.gram.combine(weights, self._matrix)
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
        return entry_error(int(self.gram.terms[t > 0].sum()))


class _GaussianFamily(Family):
    """``K(t) = exp(-sum_p t_p D_p)`` of squared distances D_p, which the subclasses store in different ways."""

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
        weight = np.ones(self.n_samples) if sample_weight is None else sample_weight
        mean, apart = self._means(weight / weight.sum())
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

    __signature__ = ReadableSignature()

    def __init__(self, distances: ArrayLike) -> None:
        self.distances = np.ascontiguousarray(check_value(DISTANCES, "distances", distances))
        if self.distances.shape[1] != self.distances.shape[2]:
            raise InputError(
                f"`distances` must have shape (n_parameters, n_samples, n_samples), got {self.distances.shape}. Pass "
                "the distances of all pairs of training rows."
            )
        super().__init__(*self.distances.shape[:2])

    @classmethod
    def of_columns(cls, X: ArrayLike, *, each: bool) -> Gaussians:
        """The Gaussians of a table, from the squared distances of its rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows. Distances depend on the units of columns; standardise these first.
        each : bool
            Whether each column has a parameter of its own (`n_parameters` is n_features, in memory for n_features
            n_samples^2 numbers); otherwise all share one, the usual gamma.

        Returns
        -------
        Gaussians

        Raises
        ------
        InputError
            X is no matrix of finite numbers, or `each` is neither true nor false.

        Examples
        --------
        >>> import kernelweave as kw
        >>> X = [[0.0, 0.0], [1.0, 2.0]]
        >>> [kw.solvers.Gaussians.of_columns(X, each=each).distances[:, 0, 1] for each in (False, True)]
        [array([5.]), array([1., 4.])]
        """
        values, each = check_value(ROWS, "X", X), check_value(Flag(), "each", each)
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

    #: Parameters have the units of the distances.
    unit = 1.0

    def __init__(self, gram: Gram, scale: Array) -> None:
        super().__init__(gram.n_kernels, gram.n_samples)
        self.gram, self.scale = gram, scale
        self._diagonal = gram.diagonal()

    def diagonal(self, t: Array) -> Array:
        """Diagonal of the sum in the exponent, ``sum_m t_m s_m K_m(x, x)``."""
        return (t * self.scale) @ self._diagonal

    def _distances(self, t: Array, out: Array) -> None:
        K = self.gram.combine(t * self.scale, out)
        diagonal = self.diagonal(t)
        squared_distances(np, K, diagonal[:, None], diagonal[None], out=out)

    def _sums(self, A: Array) -> Array:
        return 2.0 * self.scale * (self._diagonal @ A.sum(axis=1) - self.gram.inner(A))

    def _means(self, share: Array) -> tuple[Array, NDArray[np.bool_]]:
        level = self._diagonal @ share
        mean = 2.0 * self.scale * (level - self.gram.quadratic_forms(share[None]))
        return mean, mean > FLAT * self.scale * level


class FunctionOfSum(Family):
    """``K(t) = phi(sum_m t_m u_m s_m K_m)``, a function of inner products or of squared distances.

    The units u are typical sizes, so that all parameters are numbers near 1: equal parts of a mean squared distance,
    or of a mean squared norm, of 1.

    Parameters
    ----------
    gram : Gram
    scale : array of shape (n_kernels,)
    function : callable
        Returns phi for the numbers in its own parameters, which follow the t_m.
    own : array of shape (n_own,)
        Where these start.
    slope : callable, optional
        ``slope(phi, S)`` returns the derivative of phi by its own parameter at its statistic S.
    sample_weight : array of shape (n_samples,), optional
        For the units.
    """

    def __init__(
        self,
        gram: Gram,
        scale: Array,
        function: Callable[..., KernelFunction],
        own: Array,
        slope: Callable[[Any, Array], Array] | None = None,
        sample_weight: Array | None = None,
    ) -> None:
        self.gram, self.function, self.own, self.slope = gram, function, own, slope
        self.n_parameters, self.n_samples = gram.n_kernels + len(own), gram.n_samples
        if function(*own.tolist()).statistic == "sqdist":
            self.unit = GaussianOfSum(gram, scale).start(sample_weight)
        else:
            level = scale * np.average(gram.diagonal(), axis=1, weights=sample_weight)
            if not level.any():
                raise coinciding(self.n_samples)
            self.unit = np.divide(
                1.0, level * np.count_nonzero(level), out=np.zeros_like(level), where=level > 0
            )
        self.scale = scale * self.unit
        self._last: tuple[Array, Tape] | None = None

    def split(self, t: Array) -> tuple[Array, KernelFunction]:
        """The t_m, and phi."""
        m = self.gram.n_kernels
        return t[:m], self.function(*t[m:].tolist())

    def diagonal(self, t: Array) -> Array:
        """Diagonal of the sum."""
        return (self.split(t)[0] * self.scale) @ self.gram.diagonal()

    def start(self, sample_weight: Array | None = None) -> Array:
        """1 for each kernel, then the parameters of phi."""
        return np.concatenate([np.ones(self.gram.n_kernels), self.own])

    def _at(self, t: Array) -> tuple[Layers, Tape]:
        weights, function = self.split(t)
        layers = Layers(((function,),), cosine=False)
        if self._last is None or not np.array_equal(self._last[0], t):
            K = self.gram.combine(weights * self.scale)
            self._last = t.copy(), layers.forward(K, K.diagonal().copy(), [np.ones(1)])
        return layers, self._last[1]

    def kernel(self, t: Array) -> Array:
        """K(t)."""
        return self._at(t)[1].top

    def quadratic_forms(self, t: Array, b: Array) -> Array:
        """``b' (dK / dt_m) b`` for every parameter."""
        return self._slopes(t, np.outer(b, b))

    def diagonals(self, t: Array, weights: Array) -> Array:
        """``sum_i weights_i (dK / dt_m)_ii`` for every parameter."""
        return self._slopes(t, np.diag(weights))

    def _slopes(self, t: Array, H: Array) -> Array:
        """``sum_ij H_ij (dK / dt_m)_ij``; H is overwritten."""
        layers, tape = self._at(t)
        function, S, norms = layers.functions[0][0], tape.kernels[0], tape.diagonals[0]
        if function.statistic == "sqdist":
            S = squared_distances(np, S, norms[:, None], norms[None])
        own = [] if self.slope is None else [float(np.einsum("ij,ij", H, self.slope(function, S)))]
        return np.r_[self.scale * self.gram.inner(layers.backward(tape, H)[1]), own]


class KernelFamily(Family):
    """A kernel matrix K(t) given as a function of parameters t >= 0, for `solve_radius`.

    Parameters
    ----------
    value : callable
        ``value(t)`` returns K(t) on the training rows, shape (n_samples, n_samples): symmetric, positive semidefinite
        and continuously differentiable for t >= 0.
    start : array-like of shape (n_parameters,)
        Where the descent starts, nonnegative and not all zero: typical sizes of the parameters. 0 is a lower
        bound; a parameter of either sign must be shifted, or written as a difference of two.
    derivative : callable, optional
        ``derivative(t)`` returns the matrices ``dK / dt_m``: an array of shape (n_parameters, n_samples, n_samples) or
        a sequence of matrices. Without it they are central differences of `value`, with a step of 1e-5 of the
        parameter: two more matrices for every parameter and step, and about ten digits instead of fifteen.
    bounds : pair of numbers or of arrays of shape (n_parameters,), default=(0.0, inf)
        Least and largest parameters, the least >= 0.

    Notes
    -----
    Holds the derivatives at one t: n_parameters n_samples^2 numbers. `solve_radius` gives parameters and coefficients;
    the values of f at other rows are ``k(rows, training rows; weights) @ dual_coef + intercept``.

    Examples
    --------
    A polynomial kernel of a weighted sum, as in "Learning non-linear combinations of kernels" (Cortes et al. 2009):

    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> y = np.sign(X[:, 0] * X[:, 1])
    >>> columns = X.T[:, :, None] * X.T[:, None, :]
    >>> family = kw.solvers.KernelFamily(
    ...     lambda t: np.tensordot(t, columns, 1) ** 2,
    ...     start=np.ones(3),
    ...     derivative=lambda t: 2 * np.tensordot(t, columns, 1) * columns,
    ... )
    >>> found = kw.solve_rkl(family, y, C=10.0)
    >>> int(np.argmin(found.weights)), found.stationarity <= 1e-4
    (2, True)
    """

    __signature__ = ReadableSignature()

    def __init__(
        self,
        value: Callable[[Array], ArrayLike],
        start: ArrayLike,
        derivative: Callable[[Array], ArrayLike | Sequence[ArrayLike]] | None = None,
        bounds: tuple[ArrayLike, ArrayLike] = (0.0, math.inf),
    ) -> None:
        for name, function in (("value", value), ("derivative", derivative)):
            if not callable(function) and not (name == "derivative" and function is None):
                raise InputError(f"`{name}` must be a function of the parameters, got {function!r}.")
        first = np.array(start, dtype=np.float64)
        if (
            first.ndim != 1
            or not len(first)
            or not (np.isfinite(first) & (first >= 0)).all()
            or not first.any()
        ):
            raise InputError(
                f"`start` must hold one nonnegative number for each parameter, not all zero, got {start!r}."
            )
        self.value, self.derivative = value, derivative
        self.n_parameters = len(first)
        self.bounds = _bounds(bounds, first)
        self._start = first
        self._steps_from = LEAST * float(first.mean())
        K = self._check(value(first.copy()), first)
        asymmetry, size = float(np.abs(K - K.T).max()), float(np.abs(K).max())
        if asymmetry > 1e-8 * size:
            raise InputError(
                f"`value` must return symmetric matrices, got max |K - K'| = {asymmetry:.3g} with entries up to "
                f"{size:.3g}."
            )
        self.n_samples = len(K)
        self._at: Array | None = None
        self._slopes = np.empty((0, 0, 0))

    def start(self, sample_weight: Array | None = None) -> Array:
        """Start of the descent."""
        return self._start.copy()

    def __repr__(self) -> str:
        """The number of parameters and rows, and where they start."""
        return (
            f"KernelFamily(n_parameters={self.n_parameters}, n_samples={self.n_samples}, start={self._start})"
        )

    def kernel(self, t: Array) -> Array:
        """K(t)."""
        K = self._check(self.value(t.copy()), t)
        return 0.5 * (K + K.T)

    def _check(self, K: ArrayLike, t: Array) -> Array:
        matrix = np.asarray(K, dtype=np.float64)
        n = getattr(self, "n_samples", len(matrix) if matrix.ndim else 0)
        if matrix.shape != (n, n) or not n:
            raise InputError(
                f"`value` must return a matrix of shape (n_samples, n_samples), got {matrix.shape}."
            )
        if not np.isfinite(matrix).all():
            raise InputError(f"`value` gave NaN or infinity at the parameters {t.tolist()!s:.200}.")
        return matrix

    def slopes(self, t: Array) -> Array:
        """``dK / dt_m``, shape (n_parameters, n_samples, n_samples).

        Parameters
        ----------
        t : array of shape (n_parameters,)
            Parameters.
        """
        if self._at is None or not np.array_equal(self._at, t):
            self._slopes = self._differences(t) if self.derivative is None else self._given(t)
            self._at = t.copy()
        return self._slopes

    def _given(self, t: Array) -> Array:
        assert self.derivative is not None
        out = np.asarray(self.derivative(t.copy()), dtype=np.float64)
        wanted = (self.n_parameters, self.n_samples, self.n_samples)
        if out.shape != wanted:
            raise InputError(
                f"`derivative` must return one matrix for each parameter, shape {wanted}, got {out.shape}."
            )
        if not np.isfinite(out).all():
            raise InputError(f"`derivative` gave NaN or infinity at the parameters {t.tolist()!s:.200}.")
        return out

    def _differences(self, t: Array) -> Array:
        out = np.empty((self.n_parameters, self.n_samples, self.n_samples))
        for m, unit in enumerate(np.eye(self.n_parameters)):
            h = STEP * max(float(t[m]), self._steps_from)
            if t[m] >= h:
                # the function may return the same array each time
                out[m] = self.kernel(t + h * unit)
                out[m] -= self.kernel(t - h * unit)
            else:
                out[m] = 4.0 * self.kernel(t + h * unit)
                out[m] -= self.kernel(t + 2.0 * h * unit)
                out[m] -= 3.0 * self.kernel(t)
            out[m] /= 2.0 * h
        return out

    def quadratic_forms(self, t: Array, b: Array) -> Array:
        """``b' (dK / dt_m) b`` for every parameter."""
        return np.einsum("pij,i,j->p", self.slopes(t), b, b, optimize=True)

    def diagonals(self, t: Array, weights: Array) -> Array:
        """``sum_i weights_i (dK / dt_m)_ii`` for every parameter."""
        return np.einsum("pii,i->p", self.slopes(t), weights)


def _bounds(given: tuple[ArrayLike, ArrayLike], start: Array) -> tuple[Array, Array]:
    """The bounds of every parameter; raises `InputError` if `start` is not between them."""
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), start.shape) for end in given)
    except (TypeError, ValueError):
        low = high = np.array([np.nan])
    if not ((low >= 0) & (low <= start) & (start <= high)).all():
        raise InputError(
            "`bounds` must be a pair (least, largest) of numbers, or of one number for each parameter, with "
            f"0 <= least <= start <= largest. Got {given!r} for start={start.tolist()!s:.80}."
        )
    return low, high
