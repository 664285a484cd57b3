"""Features of the values of a kernel with some training rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import Number, Whole, check_fields, shown
from kernelweave._types import FittedPart
from kernelweave.gram.random_pivots import given_pivots, random_pivots, solve_lower
from kernelweave.kernels.base import FloatArray, Kernel
from kernelweave.kernels.maps import MEASURED, FeatureMap, LeftOut, excess
from kernelweave.kernels.rows import TrainingRows
from kernelweave.views import Table, as_table

__all__ = ["Nystroem"]

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
    pivots: FittedPart = "cholesky"
    tol: Annotated[float, Number(least=0, below=1)] = 1e-6
    random_state: Annotated[int, Whole(0)] = 0
    landmarks: FittedPart = field(default=None, kw_only=True)
    factor: FittedPart = field(default=None, kw_only=True)
    left_out: LeftOut | None = field(default=None, kw_only=True)

    name: ClassVar[str] = "nystroem"
    word: ClassVar[str] = "Nystroem"

    def __post_init__(self) -> None:
        check_fields(self, named=True)
        if isinstance(self.pivots, str):
            if self.pivots not in PIVOTS:
                raise InputError(
                    f"`pivots` of Nystroem must be one of {list(PIVOTS)}, or rows, got {shown(self.pivots)}."
                )
        elif self.pivots is None or (np.ndim(self.pivots) == 0 and not isinstance(self.pivots, Table)):
            raise InputError(
                f"`pivots` of Nystroem must be one of {list(PIVOTS)}, or rows, got {shown(self.pivots)}."
            )

    @property
    def is_fitted(self) -> bool:
        """Whether the pivots are known."""
        return self.landmarks is not None

    @property
    def width(self) -> int:
        """Number of features; before the map is fitted, at most."""
        if self.is_fitted:
            return len(self.factor)
        return self.n_features if isinstance(self.pivots, str) else len(as_table(self.pivots).values)

    def takes(self, kernel: Kernel) -> bool:
        """Whether the kernel is one of rows, without missing cells that it skips."""
        return not kernel.is_corrected

    def fitted(self, kernel: Kernel, rows: TrainingRows) -> Nystroem:
        """See `FeatureMap.fitted`."""
        if not isinstance(self.pivots, str):
            given = as_table(self.pivots, missing=kernel.takes_missing)
            if given.n_columns != rows.table.n_columns:
                raise InputError(
                    f"`pivots` of Nystroem must have the {rows.table.n_columns} columns of the kernel, got "
                    f"{given.n_columns}."
                )
            taken, factor = given_pivots(kernel(given))
            return self._with(kernel, rows, given.rows(taken), factor, None)
        rng = np.random.default_rng(self.random_state)
        distinct, weights = rows.distinct()
        searched = np.arange(len(distinct))
        if len(distinct) > SEARCHED:
            searched = np.sort(rng.choice(len(distinct), SEARCHED, replace=False, p=weights / weights.sum()))
        table = rows.table.rows(distinct[searched])
        # rows that were drawn by their weights count once each
        own = weights if len(searched) == len(distinct) else np.ones(len(searched))
        if self.pivots == "uniform":
            n = min(self.n_features, len(searched))
            taken = rng.choice(len(searched), n, replace=False, p=own / own.sum())
            kept, factor = given_pivots(kernel(table.rows(taken)))
            return self._with(kernel, rows, table.rows(taken[kept]), factor, None)

        def block(some: Any, columns: Any) -> FloatArray:
            return kernel(table if some is None else table.rows(some), table.rows(columns))

        diagonal = kernel.diag(table)
        found = random_pivots(block, diagonal, own, self.n_features, self.tol, rng)
        known = None
        if len(searched) == len(distinct):
            known = float(own @ found.residual), float(own @ diagonal)
        return self._with(kernel, rows, table.rows(found.rows), found.factor, known)

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
        distinct, weights = rows.distinct()
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
        """See `FeatureMap.features`."""
        if not len(self.factor):
            return np.zeros((table.n_rows, 1))
        return solve_lower(self.factor, kernel._gram(table, self.landmarks))

    def settings(self) -> dict[str, Any]:
        """See `FeatureMap.settings`."""
        pivots = self.pivots if isinstance(self.pivots, str) else as_table(self.pivots).values.tolist()
        return {
            "n_features": self.n_features,
            "pivots": pivots,
            "tol": self.tol,
            "random_state": self.random_state,
        }

    def _stored(self) -> list[Any]:
        pivots = self.pivots if isinstance(self.pivots, str) else as_table(self.pivots).values
        own: list[Any] = [self.n_features, pivots, self.tol, self.random_state]
        if self.is_fitted:
            own += [self.factor, *(getattr(part, "data", part) for part in self.landmarks.arrays())]
        return own

    def __repr__(self) -> str:
        pivots = repr(self.pivots) if isinstance(self.pivots, str) else "..."
        state = f", random_state={self.random_state}" if self.random_state else ""
        return f"Nystroem({self.n_features}, {pivots}, tol={self.tol:g}{state})"
