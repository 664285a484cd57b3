"""Sums over rows from which least squares follows: ``Z'Z``, ``Z'y`` and ``y'y``, however many rows there were.

Kept are the weighted means of the columns of ``A = [Z, y]`` and the products of the deviations from them,

    S = sum_i w_i (a_i - m) (a_i - m)' ,

so that large means cost no digits. Two parts with sums of weights W and V and ``delta`` between their means join to

    S + S' + (W V / (W + V)) delta delta' ,

which is associative, and is undone by the same formula.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import InputError
from kernelweave._devices import Kind, is_foreign, take_rows
from kernelweave._interrupts import interrupts_deferred
from kernelweave._parameters import ReadableSignature, Texts, check_value, shown
from kernelweave._sparse import is_sparse
from kernelweave._types import Array, Device, Index, Labels, Tree, Values
from kernelweave.gram.base import pieces
from kernelweave.gram.features import as_groups
from kernelweave.gram.row_checks import check_rows, stays_sparse
from kernelweave.gram.statistics_files import AddedRows, InFile, taken_of, unreadable
from kernelweave.gram.triangle import Triangle

#: Numbers that are converted at a time.
PIECE = 2**21
#: The same on another device.
PIECE_THERE = 2**25
#: A squared length below this share of its former one was subtracted away.
LOST = 1e-8
#: Least rows of a product.
ROWS = 256


@dataclass(frozen=True, eq=False)
class Part:
    """Sums over rows whose products are in a matrix.

    Attributes
    ----------
    means, rests : arrays of shape (n_columns,)
        Weighted means, and what they lack.
    squares : array of shape (n_columns,)
        Sums of squares of what was multiplied.
    total : float
        Sum of the weights.
    n_rows : int
    """

    means: Array
    rests: Array
    squares: Array
    total: float
    n_rows: int


def add_rows(scatter: Triangle, Z: Any, Y: Array, weights: Array | None) -> Part:
    """Add products of some rows of ``[Z, Y]``, with deviations from their own means."""
    p = scatter.size - Y.shape[1]
    B = np.empty((len(Y), scatter.size))
    B[:, :p] = Z.toarray() if is_sparse(Z) else Z
    B[:, p:] = Y
    ones = np.ones(len(B)) if weights is None else weights
    total = float(ones.sum())
    means = ones @ B / total
    B -= means
    # of large means the first subtraction leaves a part, which is small now
    left = ones @ B / total
    B -= left
    if weights is not None:
        B *= np.sqrt(weights)[:, None]
    scatter.add_products(B)
    return Part(means, left, np.einsum("ij,ij->j", B, B), total, len(B))


def add_sparse_rows(scatter: Triangle, Z: Any, Y: Array, weights: Array | None) -> Part:
    """The same for sparse rows, at least one, which stay sparse."""
    from scipy import sparse

    ones = np.ones(len(Y)) if weights is None else weights
    total = float(ones.sum())
    Z = Z.astype(np.float64)
    p = Z.shape[1]
    means = np.r_[np.asarray(Z.T @ ones).reshape(-1), ones @ Y] / total
    D = (Y - means[p:]) * np.sqrt(ones)[:, None]
    white = sparse.csr_array(Z.multiply(np.sqrt(ones)[:, None]))
    own = np.empty((len(means), len(means)))
    own[:p, :p] = (white.T @ white).toarray()
    own[:p, :p] -= total * means[:p, None] * means[:p]
    own[p:, :p] = (white.T @ D).T
    own[p:, p:] = D.T @ D
    scatter.add_square(own)
    squares = np.r_[np.asarray(white.multiply(white).sum(axis=0)).reshape(-1), np.diag(own)[p:]]
    return Part(means, np.zeros_like(means), squares, total, len(Y))


class DeviceSums:
    """Products of rows that lie on a device with float64, held there until they are asked for.

    Parameters
    ----------
    Z : array
        Rows of its library and device are taken.
    size : int
        Number of features and targets.
    """

    def __init__(self, Z: Any, size: int) -> None:
        kind = Kind.of(Z)
        assert kind is not None
        self.kind, self.xp = kind, kind.xp
        self._scatter = self.xp.zeros((size, size), dtype=self.xp.float64, device=kind.device)

    def fits(self, Z: Any) -> bool:
        """Whether rows are of the same library, and on the same device."""
        return Kind.of(Z) == self.kind

    def add_rows(self, Z: Any, Y: Array, weights: Array | None) -> Part:
        """Add products of some rows; `Y` and weights are NumPy arrays."""
        xp, kind = self.xp, self.kind
        B = xp.concat([xp.astype(Z, xp.float64), kind.give(Y)], axis=1)
        ones = kind.give(np.ones(len(Y)) if weights is None else weights)
        total = float(len(Y) if weights is None else weights.sum())
        means = ones @ B / total
        B = B - means
        left = ones @ B / total
        B = B - left
        if weights is not None:
            B = B * xp.sqrt(ones)[:, None]
        self._scatter = self._scatter + B.T @ B
        sums = kind.take(xp.stack([means, left, xp.sum(B * B, axis=0)]))
        return Part(sums[0], sums[1], sums[2], total, len(Y))

    def spread(self, share: float, between: Array) -> None:
        """Add ``share between between'``."""
        column = self.kind.give(between)
        self._scatter = self._scatter + share * (column[:, None] * column)

    def lower(self) -> Array:
        """What was added, of which the lower triangle counts."""
        return self.kind.take(self._scatter)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and what it lacks (D. E. Knuth, The Art of Computer Programming 2, section 4.2.2)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


class BlockStatistics(AddedRows):
    """Sums over rows of features in blocks and targets: all that RLS2 needs of them.

    Rows are added in chunks and then forgotten, so there may be any number of them; memory is about half of
    a matrix of n_features x n_features. `solve_rls2` and `rls2_path` take statistics in place of features and targets,
    for which they make a factor of the whole matrix.

    Parameters
    ----------
    groups : array of int, shape (n_kernels + 1,), optional
        The starts of the blocks and the end, as for `FeatureStack`. Default: every column is a block.
    names : list of str, optional
        Names of the blocks.
    columns : list of str, optional
        Names of the features.
    device : str or device, optional
        Where to multiply: a device of torch, such as "cuda", or of another library with the array API. Default: where
        the rows are.

    Attributes
    ----------
    n_rows : int
        Rows of positive weight.
    weight_sum : float
        Sum of their weights.
    n_features, n_outputs : int
        0 before the first chunk.
    feature_means, target_means : arrays of shape (n_features,) and (n_outputs,)
        Weighted means.
    taken : dict of str to int
        Rows that were taken from each source, for `block_statistics`, which continues there.

    Raises
    ------
    InputError
        Groups that do not rise from 0, names of another number.

    Notes
    -----
    Sums are of float64, whatever the chunks hold; rows on a device without float64 are fetched. Deviations from means
    are summed, so that means a million times the spread cost no digits. Statistics are added (``+``, `merge`) in any
    order with the same result up to rounding errors, and subtracted (``-``), for example to leave out a fold.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, Algorithms for computing the sample variance: analysis and recommendations,
    The American Statistician 37 (1983), equation (2.1), here for products of columns.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> Z = np.random.default_rng(0).normal(size=(1000, 12))
    >>> y = Z[:, 0] - Z[:, 9]
    >>> statistics = kw.BlockStatistics([0, 4, 8, 12])
    >>> for first in range(0, 1000, 100):
    ...     statistics = statistics.add(Z[first : first + 100], y[first : first + 100])
    >>> result = kw.solve_rls2(statistics, alpha=1.0)
    >>> same = kw.solve_rls2(kw.FeatureStack(Z, [0, 4, 8, 12]), y, alpha=1.0)
    >>> bool(abs(result.primal - same.primal) <= result.gap + same.gap)
    True
    """

    KIND = "statistics of blocks"
    __signature__ = ReadableSignature()

    def __init__(
        self,
        groups: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        device: Device = None,
    ) -> None:
        self.given_groups, self.device = groups, device
        self.groups: Index | None = None
        self.names = None if names is None else tuple(check_value(Texts(), "names", names))
        self.columns = None if columns is None else tuple(check_value(Texts(), "columns", columns))
        self.n_features = self.n_outputs = self.n_rows = 0
        self.single = True
        self.weight_sum = 0.0
        self.taken: dict[str, int] = {}
        self._means = self._rests = np.empty(0)
        self._held, self._reach = Triangle(0), np.empty((2, 0))
        self._there: DeviceSums | None = None
        if groups is not None:
            self._set_features()

    def __repr__(self) -> str:
        return (
            f"BlockStatistics({self.n_rows} rows, {self.n_features} features in {self.n_kernels} blocks, "
            f"{self.n_outputs} outputs)"
        )

    @property
    def n_kernels(self) -> int:
        """Number of blocks."""
        return 0 if self.groups is None else len(self.groups) - 1

    def _set_features(self, n_features: int = 0) -> None:
        self.groups = as_groups(self.given_groups, n_features)
        self.n_features = int(self.groups[-1])
        for own, wanted, what in (
            (self.names, self.n_kernels, "names"),
            (self.columns, self.n_features, "columns"),
        ):
            if own is not None and len(own) != wanted:
                raise InputError(f"`{what}` must hold {wanted} names, got {len(own)}.")

    # ---- what is held -----------------------------------------------------------------------------

    @property
    def feature_means(self) -> Array:
        """Weighted means of the features, shape (n_features,)."""
        return self._means[: self.n_features].copy()

    @property
    def target_means(self) -> Array:
        """Weighted means of the targets, shape (n_outputs,)."""
        return self._means[self.n_features :].copy()

    def products(self, *, centered: bool) -> Array:
        """``A'A`` for the columns of features and targets side by side.

        Parameters
        ----------
        centered : bool
            Whether columns are taken about their means rather than about zero.

        Returns
        -------
        array of shape (n_features + n_outputs, n_features + n_outputs)
        """
        out = self._scatter.square()
        return out if centered else self._about_zero(out)

    def upper_products(self, *, centered: bool) -> Array:
        """The upper triangle of `products`, in the order of Fortran and free for the caller to change.

        Parameters
        ----------
        centered : bool
            Whether columns are taken about their means rather than about zero.
        """
        out = self._scatter.upper()
        return out if centered else self._about_zero(out)

    def _about_zero(self, out: Array) -> Array:
        """Add what products about zero have more than those about the means, a few columns at a time."""
        for part in pieces(len(out), max(1, PIECE // max(1, len(out)))):
            out[:, part] += self.weight_sum * self._means[:, None] * self._means[part]
        return out

    def squares(self, *, centered: bool) -> Array:
        """The diagonal of `products`, shape (n_features + n_outputs,).

        Parameters
        ----------
        centered : bool
            Whether columns are taken about their means rather than about zero.
        """
        squares = self._scatter.diagonal()
        return squares if centered else squares + self.weight_sum * np.square(self._means)

    def times(self, V: Array) -> Array:
        """The product of the matrix `products`, about the means, with some vectors.

        Parameters
        ----------
        V : array of shape (n_features + n_outputs, n_vectors)
            Vectors, one in each column.
        """
        return self._scatter.times(V)

    def reach(self, *, centered: bool) -> Array:
        """Sums of squares of all that was added and subtracted, for rounding errors: (n_features + n_outputs,).

        Parameters
        ----------
        centered : bool
            Whether deviations from the means were summed, rather than the numbers themselves.
        """
        return self._reach[0 if centered else 1].copy()

    def mean_diagonals(self, *, centered: bool) -> Array:
        """Mean diagonals of the kernels ``Z_m Z_m'``, shape (n_kernels,): their inverses as `scale` make them 1.

        Parameters
        ----------
        centered : bool
            Whether columns are taken about their means rather than about zero.
        """
        squares = self.squares(centered=centered)[: self.n_features]
        return np.add.reduceat(squares, np.asarray(self.groups)[:-1]) / self.weight_sum

    @property
    def ZtZ(self) -> Array:
        """``sum_i w_i z_i z_i'``, shape (n_features, n_features)."""
        return self.products(centered=False)[: self.n_features, : self.n_features]

    @property
    def Zty(self) -> Array:
        """``sum_i w_i z_i y_i``, shape (n_features,) or (n_features, n_outputs)."""
        found = self.products(centered=False)[: self.n_features, self.n_features :]
        return found[:, 0] if self.single and found.size else found

    @property
    def yty(self) -> Array:
        """``sum_i w_i y_i y_i'``, shape (n_outputs, n_outputs)."""
        return self.products(centered=False)[self.n_features :, self.n_features :]

    # ---- products of deviations, of rows on a device until they are asked for ----------------------

    @contextmanager
    def unchanged_by_errors(self) -> Iterator[None]:
        """Take back what was added on another device before an error, such as one of a full memory there.

        Rows on the processor are added in place, and are not taken back.
        """
        before = vars(self) | {"_reach": self._reach.copy(), "_there": copy.copy(self._there)}
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    @property
    def _scatter(self) -> Triangle:
        """Products of deviations."""
        self._settle()
        return self._held

    @_scatter.setter
    def _scatter(self, values: Triangle) -> None:
        self._held, self._there = values, None

    def _settle(self) -> None:
        if self._there is not None:
            held = self._held.copy()
            held.add_square(self._there.lower())
            self._scatter = held

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return self.__dict__

    # ---- rows -------------------------------------------------------------------------------------

    def add(
        self,
        Z: Values,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        taken: tuple[str, int] | None = None,
    ) -> Self:
        """Add rows.

        Parameters
        ----------
        Z : array or sparse matrix of shape (n_samples, n_features)
            Also a tensor; on another device the products are taken there.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets of the rows.
        sample_weight : array of shape (n_samples,), optional
            Weights >= 0 of the squared errors; rows of weight 0 are left out.
        taken : (str, int), optional
            Name of the source and number of rows of it, for `taken`.

        Returns
        -------
        BlockStatistics
            Itself. After an error or Ctrl-C all of the rows are in, or none.

        Raises
        ------
        InputError
            NaN, infinity, another number of columns or outputs than before.
        """
        rows, targets, weights, single = check_rows(
            Z, y, sample_weight, self.device, self.n_features, self.n_outputs
        )
        return self.add_checked(rows, targets, weights, single, taken)

    def add_checked(
        self, rows: Values, targets: Array, weights: Array | None, single: bool, taken: tuple[str, int] | None
    ) -> Self:
        """Add rows that `check_rows` has checked.

        Parameters
        ----------
        rows : array or sparse matrix of shape (n_samples, n_features)
            Features of the rows.
        targets : array of shape (n_samples, n_outputs)
            Targets of the rows.
        weights : array of shape (n_samples,) or None
            Weights of the rows; None for equal ones.
        single : bool
            Whether the targets were given as a vector.
        taken : (str, int) or None
            Name of the source and the number of its rows, for the attribute `taken`.

        Returns
        -------
        BlockStatistics
            Itself.
        """
        if weights is not None:
            if not weights.all():
                kept = np.flatnonzero(weights)
                rows, targets, weights = take_rows(rows, kept), targets[kept], weights[kept]
            if (weights == 1.0).all():
                weights = None
        there = is_foreign(rows)
        with interrupts_deferred(), self.unchanged_by_errors() if there else nullcontext():
            if not self.n_outputs and len(targets):
                self._begin(rows.shape[1], targets.shape[1], single)
            if there:
                self._add_there(rows, targets, weights)
            elif is_sparse(rows) and stays_sparse(rows) and len(targets):
                self._join(add_sparse_rows(self._scatter, rows, targets, weights))
            else:
                for part in pieces(len(targets), max(ROWS, PIECE // max(1, len(self._means)))):
                    own = None if weights is None else weights[part]
                    self._join(add_rows(self._scatter, rows[part], targets[part], own))
            if taken is not None:
                self._count(dict([taken]))
        return self

    def _begin(self, n_features: int, n_outputs: int, single: bool) -> None:
        if self.groups is None:
            self._set_features(n_features)
        size = n_features + n_outputs
        self._means, self._rests = np.zeros(size), np.zeros(size)
        self._scatter = Triangle(size)
        self._reach = np.zeros((2, size))
        self.n_outputs, self.single = n_outputs, single

    def _add_there(self, Z: Any, Y: Array, weights: Array | None) -> None:
        """Add rows of an array on another device, where their products stay until they are needed."""
        there = self._there
        if there is None or not there.fits(Z):
            self._settle()
            there = self._there = DeviceSums(Z, len(self._means))
        for part in pieces(len(Y), max(ROWS, PIECE_THERE // max(1, len(self._means)))):
            self._join(there.add_rows(Z[part, :], Y[part], None if weights is None else weights[part]), there)

    def _join(self, part: Part, there: DeviceSums | None = None) -> None:
        """Account for other rows whose products are in: their means, sums of squares, weights and number.

        Means have a second number each, the rest that the first cannot hold: the difference of two large means that are
        close has no digits of its own otherwise.
        """
        total, whole = part.total, self.weight_sum + part.total
        between = (part.means - self._means) + (part.rests - self._rests)
        share = self.weight_sum * (total / whole)
        if share and there is not None:
            there.spread(share, between)
        elif share:
            self._scatter.add_outer(share, between)
        more = [part.squares + share * np.square(between), part.squares + total * np.square(part.means)]
        self._reach = self._reach + np.array(more)
        if self.weight_sum:
            self._means, self._rests = two_sum(self._means, self._rests + between * (total / whole))
        else:
            self._means, self._rests = part.means.copy(), part.rests.copy()
        self.weight_sum, self.n_rows = whole, self.n_rows + part.n_rows

    # ---- sums of statistics -----------------------------------------------------------------------

    def copy(self) -> Self:
        """Another one with the same numbers."""
        out = type(self).__new__(type(self))
        out.__dict__.update(self.__dict__)
        out.taken = dict(self.taken)
        for name in ("_means", "_rests", "_scatter", "_reach"):
            setattr(out, name, getattr(self, name).copy())
        return out

    def empty(self) -> Self:
        """Statistics of the same blocks without rows."""
        return type(self)(self.given_groups, names=self.names, columns=self.columns, device=self.device)

    def merge(self, other: BlockStatistics) -> Self:
        """Add the rows of other statistics; returns itself."""
        self._check_same(other, "merge")
        with interrupts_deferred():
            if other.n_outputs and not self.n_outputs:
                self._begin(other.n_features, other.n_outputs, other.single)
            if other.n_rows:
                self._scatter.add(other._scatter)
                reach = self._reach[1] + other._reach[1]
                self._join(Part(other._means, other._rests, other._reach[0], other.weight_sum, other.n_rows))
                self._reach[1] = reach
            self._count(other.taken)
        return self

    def subtract(self, other: BlockStatistics) -> Self:
        """Remove rows that were added before, such as those of a fold; returns itself.

        Parameters
        ----------
        other : BlockStatistics
            Statistics of rows that are part of these, with the same blocks and outputs.
        """
        self._check_same(other, "subtract")
        if not other.n_rows:
            return self
        left, whole = self.n_rows - other.n_rows, self.weight_sum
        rest = whole - other.weight_sum
        if left < 0 or (left > 0 and not rest > 0):
            raise InputError(
                f"Statistics of {other.n_rows} rows with weights {other.weight_sum:.6g} are not a part of "
                f"{self.n_rows} rows with weights {whole:.6g}. Subtract only what was added."
            )
        with interrupts_deferred():
            reach = self._reach + other._reach
            if left == 0:
                self._begin(self.n_features, self.n_outputs, self.single)
                self.weight_sum, self.n_rows = 0.0, 0
            else:
                between = (self._means - other._means) + (self._rests - other._rests)
                means, rests = two_sum(self._means, self._rests + between * (other.weight_sum / rest))
                between = (other._means - means) + (other._rests - rests)
                S = self._scatter.copy()
                S.subtract(other._scatter)
                S.add_outer(-rest * (other.weight_sum / whole), between)
                if (S.diagonal() < -LOST * reach[0]).any():
                    raise InputError(
                        "The statistics to subtract are not a part of these: sums of squares would be negative. "
                        "Subtract only what was added."
                    )
                S.raise_diagonal(0.0)
                self._scatter, self._means, self._rests, self._reach = S, means, rests, reach
                self.weight_sum, self.n_rows = rest, left
            for key, count in other.taken.items():
                if key in self.taken:
                    self.taken[key] = max(0, self.taken[key] - count)
        return self

    def __sub__(self, other: object) -> Self:
        if not isinstance(other, BlockStatistics):
            return NotImplemented
        return self.copy().subtract(other)

    def _check_same(self, other: BlockStatistics, verb: str) -> None:
        if not isinstance(other, BlockStatistics):
            raise InputError(f"`{verb}` takes BlockStatistics, got {shown(other)}.")
        if other is self:
            raise InputError(f"Statistics cannot {verb} themselves. Pass a copy if you mean it.")
        pairs: list[tuple[str, Any, Any]] = [
            ("columns", self.columns, other.columns),
            ("names of blocks", self.names, other.names),
        ]
        if self.groups is not None and other.groups is not None:
            pairs.append(("blocks", tuple(self.groups.tolist()), tuple(other.groups.tolist())))
        if self.n_outputs and other.n_outputs:
            pairs.append(("outputs", self.n_outputs, other.n_outputs))
        for what, own, theirs in pairs:
            if own is not None and theirs is not None and own != theirs:
                raise InputError(
                    f"Statistics must have the same {what} to {verb}, got {shown(own)} and {shown(theirs)}. They are "
                    "of different problems."
                )

    # ---- files ------------------------------------------------------------------------------------

    def state(self) -> Tree:
        """All numbers as plain arrays; products of columns as the rows of their lower triangle."""
        return {
            "groups": np.empty(0, dtype=np.int64) if self.groups is None else self.groups,
            "names": np.array(self.names or (), dtype=np.str_),
            "columns": np.array(self.columns or (), dtype=np.str_),
            "counts": np.array(
                [self.n_features, self.n_outputs, self.n_rows, int(self.single)], dtype=np.int64
            ),
            "weight_sum": np.array(self.weight_sum),
            "means": np.stack([self._means, self._rests]),
            "products": self._scatter.packed(),
            "reach": self._reach,
            **self._state_of_taken(),
        }

    @classmethod
    def of_state(cls, arrays: Mapping[str, Labels], where: object) -> Self:
        """Statistics from the arrays of `state`; what does not fit together is an `InputError`."""
        try:
            n_features, n_outputs, n_rows, single = map(int, arrays["counts"])
            groups, size = arrays["groups"], (n_features + n_outputs if n_outputs else 0)
            means, reach = (np.asarray(arrays[name], dtype=np.float64) for name in ("means", "reach"))
            packed = arrays["products"]
            packed = packed if isinstance(packed, InFile) else np.asarray(packed, dtype=np.float64)
            fits = means.shape == (2, size) and packed.shape == (size * (size + 1) // 2,)
            fits = fits and reach.shape == (2, size) and n_rows >= 0
            weight_sum = float(arrays["weight_sum"])
            fits = fits and all(np.isfinite(part).all() for part in (means, reach))
            fits = fits and all(np.isfinite(packed[part]).all() for part in pieces(packed.shape[0], PIECE))
            if not fits or not 0 <= weight_sum < np.inf or (n_rows > 0) != (weight_sum > 0):
                raise ValueError("its numbers do not fit together")
            texts = [[str(text) for text in arrays[name]] or None for name in ("names", "columns")]
            out = cls(groups if len(groups) else None, names=texts[0], columns=texts[1])
            out.taken = taken_of(arrays)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise unreadable(where, error) from error
        if n_outputs:
            out._begin(n_features, n_outputs, bool(single))
            out._scatter = Triangle.of_packed(packed, size)
            if (out._scatter.diagonal() < 0).any():
                raise InputError(
                    f"{where} is damaged: sums of squares are negative. Write it again, or leave it out."
                )
            out._means, out._rests, out._reach = *means.copy(), reach
        out.weight_sum, out.n_rows = weight_sum, n_rows
        return out

    def hold(self) -> None:
        """Read products of columns that stay in a file, and hold them in memory."""
        self._scatter.hold()
