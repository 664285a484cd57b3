"""Few features whose inner products are close to the values of a kernel, and kernels of such features."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._docstrings import InheritedTexts
from kernelweave._parameters import Number, OneOf, ReadableSignature, Whole, check_fields, shown
from kernelweave._types import FittedPart, TableLike
from kernelweave.functions import power
from kernelweave.gram.random_pivots import given_pivots, random_pivots, solve_lower
from kernelweave.kernels.base import FloatArray, Kernel, is_kernel
from kernelweave.kernels.categorical import Categorical
from kernelweave.kernels.composed import Around, Constant, On, Prepared, Scaled, Sum
from kernelweave.kernels.dot import ArcCosine
from kernelweave.kernels.learnt import Learnt
from kernelweave.kernels.stationary import RBF, Laplacian
from kernelweave.kernels.steps import Step
from kernelweave.kernels.training_rows import TrainingRows
from kernelweave.views import Table, as_table

__all__ = [
    "MAPS",
    "Approximate",
    "FeatureMap",
    "LeftOut",
    "Nystroem",
    "RandomFeatures",
    "approximate",
    "exact_kernel",
    "maps_of",
]

#: Rows, and pairs of rows, on which an error is measured.
MEASURED = 2_000
#: Probability with which a bound may fail.
RISK = 0.01


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What a map leaves out of a kernel, on the training rows.

    Attributes
    ----------
    share : float
        Of `Nystroem` the trace of the residual as a share of the trace of the kernel; of `RandomFeatures` the root of
        the mean squared error of the values of pairs of rows, as a share of the mean of the diagonal.
    bound : float
        What `share` exceeds with a probability of at most 1 %, in the draw of the rows on which it was measured.
    n_measured : int
        Number of rows, or of pairs of rows, on which it was measured.
    exact : bool
        Whether these are all training rows, so that `share` is no estimate.
    """

    share: float
    bound: float
    n_measured: int
    exact: bool


class FeatureMap(Learnt, InheritedTexts, ABC):
    """A rule that turns a kernel into few features, fitted on training rows: a frozen value, like kernels.

    `Approximate` is the kernel of such features.
    """

    __signature__ = ReadableSignature()

    name: ClassVar[str]
    #: Its word in labels of kernels.
    word: ClassVar[str]
    #: Whether it goes inside multiples, sums and preparations, to the kernels that they are made of.
    goes_inside: ClassVar[bool] = False
    left_out: LeftOut | None

    @abstractmethod
    def fitted(self, kernel: Kernel, rows: TrainingRows) -> FeatureMap:
        """The map for a fitted kernel, with its numbers from training rows.

        Parameters
        ----------
        kernel : Kernel
            The fitted kernel.
        rows : TrainingRows
            The training rows.
        """

    @abstractmethod
    def features(self, kernel: Kernel, table: Table) -> FloatArray:
        """Features of rows, shape (n_rows, width). Only of fitted maps.

        Parameters
        ----------
        kernel : Kernel
            The kernel for which the map was fitted.
        table : Table
            Rows to map.
        """

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features; before the map is fitted, at most."""

    @abstractmethod
    def takes(self, kernel: Kernel) -> bool:
        """Whether the kernel can have these features.

        Parameters
        ----------
        kernel : Kernel
            The kernel in question.
        """


def excess(values: FloatArray, largest: float) -> float:
    """By how much a mean may exceed that of independent draws from 0 to `largest`, but for a probability of `RISK`.

    The empirical Bernstein bound of A. Maurer and M. Pontil, COLT 2009, Theorem 4.
    """
    n, log = len(values), math.log(2.0 / RISK)
    return math.sqrt(2.0 * float(values.var(ddof=1)) * log / n) + 7.0 * largest * log / (3.0 * (n - 1))


#: Names of the rules for pivots.
PIVOTS = ("cholesky", "uniform")
#: Distinct rows among which pivots are looked for; of more rows, as many are drawn.
SEARCHED = 20_000


@dataclass(frozen=True, eq=False, repr=False)
class Nystroem(FeatureMap):
    """Nystroem features: ``L^-1 k(pivots, x)`` with ``L L' = k(pivots, pivots)``.

    Inner products of features are the values of the kernel's projection on its values with some training rows, the
    pivots. What is left out is positive semidefinite, so that its trace bounds every other measure of it. Only the
    columns of the pivots are computed, never the matrix of all rows.

    Parameters
    ----------
    n_features : int, default=256
        Number of pivots; fewer if `tol` is reached, or if others are combinations of these.
    pivots : {"cholesky", "uniform"} or array-like of shape (n_pivots, n_columns), default="cholesky"
        "cholesky": randomly pivoted Cholesky in its accelerated form [1]_, by which a row becomes a pivot with a
        probability proportional to what the others leave of it; "uniform": rows with the same probability; or rows with
        the columns of the kernel.
    tol : float, default=1e-6
        "cholesky" ends when this share of the trace is left out.
    random_state : int, default=0
        Of equal training rows in any order, the same pivots are chosen.
    landmarks, factor, left_out : optional
        The pivots, L, and what is left out; from training rows when the map is fitted.

    Notes
    -----
    Pivots are chosen among distinct rows, of which a weight is the probability, so that a weight equals a repetition;
    of more than 20,000 distinct ones among as many drawn by their weights.

    References
    ----------
    .. [1] E. N. Epperly, J. A. Tropp and R. J. Webber, Embrace rejection: kernel matrix approximation by accelerated
       randomly pivoted Cholesky, arXiv 2410.03969.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Nystroem, approximate
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> k = approximate(RBF(gamma=0.5), Nystroem(60)).fitted(X)
    >>> phi = k.transform(X)
    >>> phi.shape, bool(abs(phi @ phi.T - RBF(gamma=0.5)(X)).max() < 0.05), k.map.left_out.exact
    ((300, 60), True, True)
    """

    n_features: Annotated[int, Whole(1)] = 256
    pivots: str | Table | TableLike = "cholesky"
    tol: Annotated[float, Number(least=0, below=1)] = 1e-6
    random_state: Annotated[int, Whole(0)] = 0
    landmarks: FittedPart = field(default=None, kw_only=True, repr=False)
    factor: FittedPart = field(default=None, kw_only=True, repr=False)
    left_out: LeftOut | None = field(default=None, kw_only=True, repr=False, compare=False)

    name: ClassVar[str] = "nystroem"
    word: ClassVar[str] = "Nystroem"
    learnt: ClassVar[tuple[str, ...]] = ("landmarks", "factor", "left_out")

    def __post_init__(self) -> None:
        check_fields(self, named=True)
        rows = not isinstance(self.pivots, str) and (
            isinstance(self.pivots, Table) or np.ndim(self.pivots) > 0
        )
        if not rows and self.pivots not in PIVOTS:
            raise InputError(
                f"`pivots` of Nystroem must be one of {list(PIVOTS)}, or rows, got {shown(self.pivots)}."
            )
        if rows:
            object.__setattr__(self, "pivots", as_table(self.pivots))

    @property
    def width(self) -> int:
        """Number of features; before the map is fitted, at most."""
        if self.is_fitted:
            return len(self.factor)
        return self.pivots.n_rows if isinstance(self.pivots, Table) else self.n_features

    def takes(self, kernel: Kernel) -> bool:
        """Whether the kernel is one of rows, without missing cells that it skips."""
        return not kernel.is_corrected

    def fitted(self, kernel: Kernel, rows: TrainingRows) -> Nystroem:
        if isinstance(given := self.pivots, Table):
            if given.n_columns != rows.table.n_columns:
                raise InputError(
                    f"`pivots` of Nystroem must have the {rows.table.n_columns} columns of the kernel, got "
                    f"{given.n_columns}."
                )
            return self._of_rows(kernel, rows, given)
        rng = np.random.default_rng(self.random_state)
        distinct, weights = rows.distinct
        searched = np.arange(len(distinct))
        if len(distinct) > SEARCHED:
            searched = np.sort(rng.choice(len(distinct), SEARCHED, replace=False, p=weights / weights.sum()))
        table = rows.table.rows(distinct[searched])
        # rows that were drawn by their weights count once each
        own = weights if len(searched) == len(distinct) else np.ones(len(searched))
        if self.pivots == "uniform":
            n = min(self.n_features, len(searched))
            taken = rng.choice(len(searched), n, replace=False, p=own / own.sum())
            return self._of_rows(kernel, rows, table.rows(taken))

        def block(some: Any, columns: Any) -> FloatArray:
            return kernel(table if some is None else table.rows(some), table.rows(columns))

        diagonal = kernel.diag(table)
        found = random_pivots(block, diagonal, own, self.n_features, self.tol, rng)
        known = None
        if len(searched) == len(distinct):
            known = float(own @ found.residual), float(own @ diagonal)
        return self._with(kernel, rows, table.rows(found.rows), found.factor, known)

    def _of_rows(self, kernel: Kernel, rows: TrainingRows, pivots: Table) -> Nystroem:
        """The map of some pivots, without those that are combinations of others."""
        kept, factor = given_pivots(kernel(pivots))
        return self._with(kernel, rows, pivots.rows(kept), factor, None)

    def _with(
        self,
        kernel: Kernel,
        rows: TrainingRows,
        landmarks: Table,
        factor: FloatArray,
        known: tuple[float, float] | None,
    ) -> Nystroem:
        """The fitted map, and what it leaves out: known, or measured on a sample of rows."""
        made = replace(self, landmarks=landmarks, factor=factor)
        if known is not None:
            share = max(known[0], 0.0) / known[1] if known[1] > 0 else 0.0
            return replace(made, left_out=LeftOut(share, share, rows.table.n_rows, True))
        distinct, weights = rows.distinct
        rng = np.random.default_rng([self.random_state, 1])
        everything = len(distinct) <= MEASURED
        some = (
            np.arange(len(distinct))
            if everything
            else rng.choice(len(distinct), MEASURED, p=weights / weights.sum())
        )
        sample = rows.table.rows(distinct[some])
        diagonal = kernel.diag(sample)
        residual = np.maximum(diagonal - np.square(made.features(kernel, sample)).sum(axis=1), 0.0)
        own = weights if everything else np.ones(len(some))
        mean = float(np.average(diagonal, weights=own))
        share = float(np.average(residual, weights=own)) / mean if mean > 0 else 0.0
        bound = share
        if not everything and mean > 0:
            bound = share + excess(residual, float(diagonal.max())) / mean
        return replace(made, left_out=LeftOut(share, bound, len(some), everything))

    def features(self, kernel: Kernel, table: Table) -> FloatArray:
        if not len(self.factor):
            return table.per_row(0.0)[:, None]
        values = kernel._gram(table, self.landmarks)
        if isinstance(values, np.ndarray):
            return solve_lower(self.factor, values)
        # graphs have no triangular solve
        return values @ np.ascontiguousarray(np.linalg.solve(self.factor, np.eye(len(self.factor))).T)


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
        Seed of the random numbers.
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
    frequencies: FittedPart = field(default=None, kw_only=True, repr=False)
    left_out: LeftOut | None = field(default=None, kw_only=True, repr=False, compare=False)

    name: ClassVar[str] = "random-features"
    word: ClassVar[str] = "random features of"
    goes_inside: ClassVar[bool] = True
    learnt: ClassVar[tuple[str, ...]] = ("frequencies", "left_out")

    def __post_init__(self) -> None:
        check_fields(self, named=True)

    @property
    def width(self) -> int:
        """Number of features; before the map is fitted, at most."""
        return self.n_features

    def takes(self, kernel: Kernel) -> bool:
        """Whether the kernel is Gaussian, Laplacian or arc-cosine."""
        return isinstance(kernel, RBF | Laplacian | ArcCosine) and not kernel.is_corrected

    def fitted(self, kernel: Kernel, rows: TrainingRows) -> RandomFeatures:
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
        projected = table.take() @ np.ascontiguousarray(self.frequencies[0].T)
        if isinstance(kernel, ArcCosine):
            for n, (degree, W) in enumerate(zip(kernel.degrees, self.frequencies, strict=True)):
                projected = projected @ np.ascontiguousarray(W.T) if n else projected
                if degree:
                    projected = power(np.maximum(projected, 0.0), degree)
                else:  # a step, which is 1/2 at 0
                    projected = 0.5 * (projected > 0) + 0.5 * (projected >= 0)
                projected = math.sqrt(2.0 / len(W)) * projected
            return projected
        n = len(self.frequencies[0])
        if not isinstance(projected, np.ndarray):
            return np.concat([np.cos(projected), np.sin(projected)], axis=1) / math.sqrt(n)
        out = np.empty((len(projected), 2 * n))  # without the memory of further arrays
        np.cos(projected, out=out[:, :n])
        np.sin(projected, out=out[:, n:])
        out /= math.sqrt(n)
        return out


def _measured(fitted: FeatureMap, kernel: Kernel, rows: TrainingRows, seed: int) -> LeftOut:
    """The root mean squared error of values of pairs of training rows, drawn by their weights."""
    distinct, weights = rows.distinct
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


#: Maps by their names.
MAPS: dict[str, type[FeatureMap]] = {one.name: one for one in (Nystroem, RandomFeatures)}


@dataclass(frozen=True, repr=False)
class Approximate(Around):
    """The kernel of the features of a map, close to another kernel; usually made by `approximate`.

    Parameters
    ----------
    kernel : Kernel
        The kernel it is close to.
    map : Nystroem or RandomFeatures
        Its numbers, and those of the kernel, are computed from training rows when the kernel is fitted.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Approximate, Nystroem
    >>> k = Approximate(RBF(gamma=0.5), Nystroem(2)).fitted([[0.0], [1.0], [2.0]])
    >>> k.transform([[0.0], [5.0]]).shape
    (2, 2)
    """

    map: FeatureMap

    def __post_init__(self) -> None:
        kernel = is_kernel(self.kernel, "Approximate")
        if not isinstance(self.map, FeatureMap):
            raise InputError(
                f"Approximate takes a map of features, got {shown(self.map)}. Pass for example kernels.Nystroem(200)."
            )
        if not self.map.takes(kernel):
            raise InputError(no_features(kernel, self.map))

    @property
    def is_fitted(self) -> bool:
        """Whether the kernel and the map have their numbers."""
        return self.kernel.is_fitted and self.map.is_fitted

    # it is made of features, which are no linear functions of the columns, and have a semidefinite matrix
    statistic: ClassVar[None] = None
    preparation: ClassVar[tuple[Step, ...]] = ()
    is_linear: ClassVar[bool] = False
    needs_psd_check: ClassVar[bool] = False
    is_approximate: ClassVar[bool] = True
    _gram, _diag, _after = Kernel._gram, Kernel._diag, Kernel._after

    def _fit(self, rows: TrainingRows) -> Kernel:
        kernel = self.kernel.fitted_on(rows)
        return Approximate(kernel, self.map.fitted(kernel, rows))

    def _features(self, table: Table) -> FloatArray:
        return self.map.features(self.kernel, table)

    def _short(self, nested: bool = False) -> str:
        return f"{self.map.word} {self.kernel._short(nested=True)}"

    def __repr__(self) -> str:
        return f"approximate({self.kernel!r}, {self.map!r})"


def no_features(kernel: Kernel, rule: FeatureMap) -> str:
    """What to say of a kernel that cannot have the features of a map."""
    if kernel.is_corrected:
        return (
            f"{kernel!r} skips missing cells, and such kernels have no features. Fill the cells (missing='impute', or "
            "prepared('impute') in place of 'skip'), or set approximation=None."
        )
    return (
        f"Random features are those of RBF, Laplacian and ArcCosine kernels, their multiples and sums, got {kernel!r}. "
        "Use Nystroem, which takes any kernel."
        if isinstance(rule, RandomFeatures)
        else f"{kernel!r} cannot be approximated by {rule!r}."
    )


def approximate(kernel: Kernel, rule: FeatureMap) -> Kernel:
    """Return a kernel of few features in place of another.

    Parameters
    ----------
    kernel : Kernel
        Any kernel of this module.
    rule : Nystroem or RandomFeatures
        The map, with its number of features.

    Returns
    -------
    Kernel
        With the same columns. Random features go inside preparations, multiples and sums, whose linear, categorical and
        constant terms are kept, for they have features of their own.

    Raises
    ------
    InputError
        If the kernel cannot have such features.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, RandomFeatures, approximate
    >>> approximate(2.0 * RBF(gamma=0.5).on([0]), RandomFeatures(100)).label
    '2 * random features of RBF(gamma=0.5) on x0'
    """
    is_kernel(kernel, "approximate")
    passed = isinstance(kernel, Scaled | Sum) or (isinstance(kernel, Prepared) and not kernel.is_corrected)
    if not isinstance(kernel, On) and not (rule.goes_inside and passed):
        return Approximate(kernel, rule)
    kept = has_own_features if isinstance(kernel, Sum) else lambda one: False
    return kernel.remade([one if kept(one) else approximate(one, rule) for one in kernel.inner])


def has_own_features(kernel: Kernel) -> bool:
    """Whether a term is kept, for it has features of its own."""
    return kernel.is_linear or isinstance(kernel, Categorical | Constant)


def exact_kernel(kernel: Kernel) -> Kernel:
    """Return the kernel that an approximate one is close to, with its numbers of training rows.

    Parameters
    ----------
    kernel : Kernel
        Any kernel of this module.

    Returns
    -------
    Kernel
        The kernel itself if no part of it is approximate.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Nystroem, approximate, exact_kernel
    >>> exact_kernel(approximate(RBF(gamma=0.5).on([0]), Nystroem(10)))
    RBF(gamma=0.5).on([0])
    """
    if isinstance(kernel, Approximate):
        return kernel.kernel
    return kernel.remade([exact_kernel(one) for one in kernel.inner])


def maps_of(kernel: Kernel) -> list[FeatureMap]:
    """Return the maps of the approximate parts of a kernel.

    Parameters
    ----------
    kernel : Kernel
        Any kernel, also a sum, a product or a multiple.

    Returns
    -------
    list of FeatureMap
        Empty if no part is approximate.
    """
    own = [kernel.map] if isinstance(kernel, Approximate) else []
    return own + [one for part in kernel.inner for one in maps_of(part)]
