"""Normalisers of base kernels: weighted statistics are computed in `fit`, and stored for new rows.

Two kinds of effect, applied in this order: a change of the kernel itself (cosine, centring), which acts on the
stored Gram representation, and a positive factor s_m for each kernel, which is `scale` in solvers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, check_known
from kernelweave._docstrings import inherits_parameters
from kernelweave._parameters import Number, OneOf, ReadableSignature, check_fields
from kernelweave._sparse import is_sparse, unit_rows
from kernelweave._types import Features, FittedPart, Tree, Values
from kernelweave.gram import Gram

__all__ = [
    "Center",
    "Cosine",
    "FeatureNorm",
    "FittedNormalizer",
    "MeanDiagonal",
    "NoNormalizer",
    "Normalizer",
    "Trace",
    "WithinClass",
    "resolve",
]

Array = NDArray[np.float64]


@dataclass(eq=False)
class FittedNormalizer:
    """Statistics of one normaliser on one training set.

    Attributes
    ----------
    scale : array of shape (n_kernels,)
        Factors s_m > 0; 1 for kernels that vanish on the training rows.
    cosine_scale : array of shape (n_kernels, n_samples) or None
        ``1 / sqrt(K_m(x_i, x_i))`` of the training rows.
    center_means : array of shape (n_kernels, n_samples) or None
        ``K_m p`` for the weights p of the training rows (sum 1).
    center_total : array of shape (n_kernels,) or None
        ``p' K_m p``.
    probability : array of shape (n_samples,) or None
        Weights of the training rows, with sum 1; None for equal rows.
    constant : array of bool, shape (n_kernels,), or None
        Kernels that are set to zero: those that are constant on the training rows, of which only rounding errors remain
        after centring, and those that were left out as noise.
    """

    scale: Array
    cosine_scale: Array | None = None
    center_means: Array | None = None
    center_total: Array | None = None
    probability: Array | None = None
    constant: NDArray[np.bool_] | None = None

    def without(self, kernels: NDArray[np.bool_]) -> FittedNormalizer:
        """The same with further kernels set to zero.

        Parameters
        ----------
        kernels : array of bool, shape (n_kernels,)
            True for the kernels to set to zero.
        """
        return replace(self, constant=kernels if self.constant is None else self.constant | kernels)

    def prepare(self, gram: Gram, *, overwrite: bool = False) -> Gram:
        """The training stack after cosine normalisation and centring, without the factors.

        Parameters
        ----------
        gram : Gram
            Kernels of the training rows.
        overwrite : bool, default=False
            Whether the result replaces `gram`, which must not be used afterwards; then there is no second copy.
        """
        if self.cosine_scale is not None:
            gram, overwrite = gram.rescale(self.cosine_scale, overwrite=overwrite), True
        if self.probability is not None:
            gram, overwrite = gram.center(self.probability, overwrite=overwrite), True
        if self.constant is not None and self.constant.any():
            kept = np.where(self.constant, 0.0, 1.0)[:, None]
            gram = gram.rescale(np.broadcast_to(kept, (len(kept), gram.n_samples)), overwrite=overwrite)
        return gram

    def cross(self, m: int, K: Array, diagonal: Callable[[], Array]) -> Array:
        """Normalise a cross-Gram of kernel m, without the factor.

        Parameters
        ----------
        m : int
            Position of the kernel.
        K : array of shape (n_rows, n_samples)
            Raw values k_m(new, training).
        diagonal : callable
            Returns k_m(new, new), shape (n_rows,); called only if needed.
        """
        if self.constant is not None and self.constant[m]:
            return np.zeros_like(K)
        if self.cosine_scale is not None:
            K = K * self.cosine_scale[m] * _inverse_root(diagonal())[:, None]
        if self.probability is not None and self.center_means is not None and self.center_total is not None:
            K = K - (K @ self.probability)[:, None] - self.center_means[m] + self.center_total[m]
        return K

    def through_features(self, m: int, training: Values, C: Array) -> tuple[Array, Array | None]:
        """``K_m(new, training) @ C`` after normalisation, without the factor, as a function of features of new rows.

        Parameters
        ----------
        m : int
            Position of the kernel.
        training : array of shape (n_samples, n_features), or sparse
            Features of the training rows.
        C : array of shape (n_samples, n_vectors)
            Coefficients of the training rows, a vector of them in each column.

        Returns
        -------
        coef : array of shape (n_features, n_vectors)
        mean : array of shape (n_features,), or None
            The product is ``(phi - mean) @ coef`` of features phi, which are divided by their length after cosine
            normalisation.
        """
        if self.cosine_scale is not None:
            training = unit_rows(training)
        if self.probability is None:
            return np.asarray(training.T @ C), None
        mean = np.asarray(self.probability @ training)
        # sparse ones would become dense; of others the digits of the mean would cancel
        if is_sparse(training):
            return np.asarray(training.T @ (C - np.outer(self.probability, C.sum(axis=0)))), mean
        return (training - mean).T @ C, mean

    def raw_coefficients(self, m: int, C: Array) -> tuple[Array, Array]:
        """Coefficients D and levels t with ``K_m(new, training) @ C = r K(new, training) @ D + t`` of the raw kernel K.

        r is 1; with cosine normalisation it is ``1 / sqrt(K(new, new))``.

        Parameters
        ----------
        m : int
            Position of the kernel.
        C : array of shape (n_samples, n_vectors)
            Coefficients of the training rows, a vector of them in each column.

        Returns
        -------
        D : array of shape (n_samples, n_vectors)
        t : array of shape (n_vectors,)
        """
        level = np.zeros(C.shape[1])
        if self.probability is not None and self.center_means is not None and self.center_total is not None:
            sums = C.sum(axis=0)
            # of coefficients with sum zero only rounding errors, which would give every row a coefficient
            sums = np.where(np.abs(sums) <= 1e-15 * np.abs(C).sum(axis=0), 0.0, sums)
            level = self.center_total[m] * sums - self.center_means[m] @ C
            C = C - np.outer(self.probability, sums)
        return C if self.cosine_scale is None else C * self.cosine_scale[m][:, None], level

    def row_factors(self, diagonal: Array) -> Array:
        """The factors r of `raw_coefficients`, shape (n_rows,).

        Parameters
        ----------
        diagonal : array of shape (n_rows,)
            k_m(new, new).
        """
        return np.ones(len(diagonal)) if self.cosine_scale is None else _inverse_root(diagonal)

    def cross_diagonal(self, m: int, K: Array, diagonal: Array) -> Array:
        """Normalise k_m(new, new), shape (n_rows,), without the factor.

        Parameters
        ----------
        m : int
            Position of the kernel.
        K : array of shape (n_rows, n_samples)
            Raw values k_m(new, training).
        diagonal : array of shape (n_rows,)
            Raw values k_m(new, new).
        """
        if self.constant is not None and self.constant[m]:
            return np.zeros_like(diagonal)
        if self.cosine_scale is not None:
            K = K * self.cosine_scale[m] * _inverse_root(diagonal)[:, None]
            diagonal = (diagonal > 0).astype(np.float64)
        if self.probability is not None and self.center_total is not None:
            diagonal = diagonal - 2.0 * (K @ self.probability) + self.center_total[m]
        return diagonal


def _inverse_root(diagonal: Array) -> Array:
    some = diagonal > 0
    return np.where(some, 1.0 / np.sqrt(np.where(some, diagonal, 1.0)), 0.0)


def _inverse(values: Array) -> Array:
    """``1 / values``; 1 where a kernel vanishes on the training rows (its factor is then irrelevant)."""
    tiny = np.finfo(np.float64).tiny
    return np.where(values > tiny, 1.0 / np.where(values > tiny, values, 1.0), 1.0)


@dataclass(frozen=True, eq=False)
class Normalizer(ABC):
    """Base class. Subclasses implement `fit`.

    Normalisers are immutable configurations; `fit` returns a `FittedNormalizer`.
    """

    __signature__ = ReadableSignature()

    #: Whether the statistics depend on the class labels, so that they differ between binary problems.
    per_target = False
    #: Whether `transductive` inputs are used.
    name = "none"

    @abstractmethod
    def fit(
        self,
        gram: Gram,
        *,
        target: Array | None = None,
        sample_weight: Array | None = None,
        extra_diagonal: Array | None = None,
        extra_means: Callable[[Array], Array] | None = None,
    ) -> FittedNormalizer:
        """Compute statistics on the training rows.

        Parameters
        ----------
        gram : Gram
            Raw training kernels.
        target : array of shape (n_samples,), optional
            Signs of the binary problem, for rules that depend on classes.
        sample_weight : array of shape (n_samples,), optional
            A weight is equivalent to repetitions of the row.
        extra_diagonal : array of shape (n_kernels, n_extra), optional
            ``K_m(x, x)`` of further inputs (transductive rules).
        extra_means : callable, optional
            Returns ``K_m(x, X) p`` of the further inputs, shape (n_kernels, n_extra), for weights p (n_samples,) of
            the training rows; called only by transductive centring.
        """

    @property
    def transductive(self) -> Features | None:
        """Further inputs whose kernel diagonals enter the statistics; None for inductive rules."""
        return getattr(self, "extra", None)

    def without_extra(self) -> Normalizer:
        """The rule without its further inputs, which the caller of `fit` has in the format of the source."""
        return type(self)(**{**self.get_params(), "extra": None})

    def get_params(self, deep: bool = True) -> Tree:
        """Settings of the rule by name.

        Parameters
        ----------
        deep : bool, default=True
            Without effect, as settings have no parts.
        """
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, eq=False)
class NoNormalizer(Normalizer):
    """No normalisation."""

    name = "none"

    def fit(self, gram, *, target=None, sample_weight=None, extra_diagonal=None, extra_means=None):
        return FittedNormalizer(np.ones(gram.n_kernels))


@dataclass(frozen=True, eq=False)
class _Diagonal(Normalizer):
    """The inverse of the sum or the mean of the diagonal."""

    extra: FittedPart = None
    #: Whether the sum is divided by the weights.
    mean = False

    def fit(self, gram, *, target=None, sample_weight=None, extra_diagonal=None, extra_means=None):
        total = gram.trace(sample_weight)
        count = float(gram.n_samples if sample_weight is None else sample_weight.sum())
        if extra_diagonal is not None:
            total, count = total + extra_diagonal.sum(axis=1), count + extra_diagonal.shape[1]
        return FittedNormalizer(_inverse(total / count if self.mean else total))


@dataclass(frozen=True, eq=False)
class Trace(_Diagonal):
    """Unit trace, RLS2 paper, (18): ``s_m = 1 / sum_i w_i K_m(x_i, x_i)``.

    Parameters
    ----------
    extra : array, optional
        Further inputs that enter the sum with weight 1 each: the transductive rule of the RLS2 paper's experiments.
    """

    name = "trace"


@dataclass(frozen=True, eq=False)
class MeanDiagonal(_Diagonal):
    """Mean diagonal 1: ``s_m = sum_i w_i / sum_i w_i K_m(x_i, x_i)``. The default of the estimators.

    The scale of alpha and C then does not depend on the number of rows.

    Parameters
    ----------
    extra : array, optional
        Further inputs that enter the mean with weight 1 each (transductive).
    """

    name = "mean-diagonal"
    mean = True


@inherits_parameters
@dataclass(frozen=True, eq=False)
class FeatureNorm(Trace):
    """Unit norm of each feature, RLS2 paper, (16): ``s_i = 1 / ||x^i||^2``.

    For a linear kernel on one feature this is the trace rule; for kernels on several features their trace is used.
    """

    name = "norm"


@dataclass(frozen=True, eq=False)
class WithinClass(Normalizer):
    """Within-class variance, RLS2 paper, (17): ``s_m = 1 / (var_+(K_m) + var_-(K_m))``.

    The variance of a class in feature space is ``mean_j K(x_j, x_j) - mean_jk K(x_j, x_k)`` over its rows; for a
    linear kernel on one feature it is the feature's variance. Every one-vs-rest problem has its own factors.

    Parameters
    ----------
    ddof : {0, 1}, default=0
        1 divides by the number of rows minus one. The paper does not specify this.
    floor : float, default=1e-6
        Smallest variance, as a share of the mean diagonal: a feature that is constant within both classes would
        otherwise have an infinite factor.
    """

    ddof: Annotated[int, OneOf(0, 1)] = 0
    floor: Annotated[float, Number(least=0, below=1)] = 1e-6
    name = "within-class"
    per_target = True

    def __post_init__(self) -> None:
        check_fields(self, named=True)

    def fit(self, gram, *, target=None, sample_weight=None, extra_diagonal=None, extra_means=None):
        if target is None or len(np.unique(target)) != 2:
            raise InputError(
                "`normalize='within-class'` needs two classes, got a regression target or one class. "
                "Use 'mean-diagonal' or 'trace'."
            )
        weights = np.ones(gram.n_samples) if sample_weight is None else sample_weight
        positive = target > np.median([target.min(), target.max()])
        total = np.zeros(gram.n_kernels)
        for member in (positive, ~positive):
            own = np.where(member, weights, 0.0)
            count = float(own.sum())
            variance = gram.trace(own) / count - gram.quadratic_forms((own / count)[None])
            total += np.maximum(variance, 0.0) * count / max(count - self.ddof, 1e-12)
        least = self.floor * gram.trace(weights) / float(weights.sum())
        return FittedNormalizer(_inverse(np.maximum(total, least)))


@dataclass(frozen=True, eq=False)
class Center(Normalizer):
    """Centring in feature space, then mean diagonal 1.

    ``K_m <- (I - 1 p') K_m (I - p 1')`` with p the normalised sample weights; new rows use training means only.

    Parameters
    ----------
    extra : array, optional
        Further inputs whose squared distances from the centre enter the mean diagonal with weight 1 each: (18) of the
        RLS2 paper, transductive, on centred kernels. The centre is still that of the training rows.
    """

    extra: FittedPart = None
    name = "center"

    def fit(self, gram, *, target=None, sample_weight=None, extra_diagonal=None, extra_means=None):
        weights = np.ones(gram.n_samples) if sample_weight is None else sample_weight
        p = weights / weights.sum()
        means = gram.matvecs(p[None])[:, 0]
        total = means @ p
        raw = gram.trace(p)
        centred = raw - total
        constant = centred <= 1e-12 * raw
        if extra_diagonal is not None and extra_means is not None:
            own = float(weights.sum())
            beyond = np.maximum(extra_diagonal - 2.0 * extra_means(p) + total[:, None], 0.0)
            centred = (own * centred + beyond.sum(axis=1)) / (own + beyond.shape[1])
        scale = np.where(constant, 1.0, _inverse(centred))
        return FittedNormalizer(
            scale, center_means=means, center_total=total, probability=p, constant=constant
        )


@dataclass(frozen=True, eq=False)
class Cosine(Normalizer):
    """Cosine: ``K_m(x, z) / sqrt(K_m(x, x) K_m(z, z))``, so that every diagonal is 1; 0 where a diagonal is 0."""

    name = "cosine"

    def fit(self, gram, *, target=None, sample_weight=None, extra_diagonal=None, extra_means=None):
        return FittedNormalizer(np.ones(gram.n_kernels), cosine_scale=_inverse_root(gram.diagonal()))


NORMALIZERS: dict[str, type[Normalizer]] = {
    rule.name: rule for rule in (NoNormalizer, MeanDiagonal, Trace, FeatureNorm, WithinClass, Center, Cosine)
}


def resolve(normalize: str | Normalizer | None) -> Normalizer:
    """Turn a name, None or an object into a normaliser.

    Parameters
    ----------
    normalize : str, Normalizer or None
        What estimators take as `normalize`. None: kernels stay as they are. An unknown name is an error that lists
        the known ones.

    Returns
    -------
    Normalizer
    """
    if normalize is None:
        return NoNormalizer()
    if isinstance(normalize, Normalizer):
        return normalize
    if not isinstance(normalize, str):
        raise InputError(f"`normalize` must be a name, None or a Normalizer, got {normalize!r}.")
    return (NORMALIZERS.get(normalize) or NORMALIZERS[check_known(normalize, NORMALIZERS, "normalizer")])()
