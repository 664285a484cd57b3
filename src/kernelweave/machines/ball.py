"""The minimum enclosing ball in the feature space of a kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import RowWeights, Start, check_row_weights
from kernelweave._parameters import MaxIter, MaxTime, Nonnegative, Switch, Tol, checked, renamed
from kernelweave._types import Array
from kernelweave.machines.box import Box, BoxProblem, OnIndefinite, Point, Values, as_kernel, check_start
from kernelweave.machines.rounding import EPS, sum_error
from kernelweave.machines.smo import Run
from kernelweave.results import Ball


@renamed(warm_start="start")
@checked
def solve_meb(
    K: ArrayLike,
    *,
    ridge: Nonnegative = 0.0,
    sample_weight: RowWeights = None,
    tol: Tol = 1e-6,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    start: Start = None,
    on_indefinite: OnIndefinite = "raise",
    check: Switch = True,
) -> Ball:
    """Find the smallest ball that contains all rows in the feature space of a kernel, and certify it.

    Minimises over the centre c the largest squared distance, which equals

        max_b  sum_i b_i K_ii - b'K b     s.t.  b >= 0,  sum(b) = 1 ,      c = sum_i b_i phi(x_i) .

    Parameters
    ----------
    K : array of shape (n_samples, n_samples)
        Symmetric positive semidefinite. Not modified, and not copied when it is C-contiguous float64.
    ridge : float, default=0.0
        Added to the diagonal, in units of K: the ball of ``K + ridge I``.
    sample_weight : array of shape (n_samples,), optional
        A row of weight w counts as w rows, each with a separate ridge. Without a ridge repeated rows are one point,
        and only weights of 0 matter, which leave rows out.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``.
    max_iter : int, optional
        Largest number of SMO steps. Default: 1000000 plus 100 for each row.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    start : array of shape (n_samples,), optional
        Coefficients of the centre of a similar problem; clipped and scaled to fit.
    on_indefinite : {"raise", "clip", "shift"}, default="raise"
        If K has negative eigenvalues: raise when this is detected, or set them to zero, or add a multiple of the
        identity. The last two cost an eigendecomposition, and the result belongs to the changed matrix.
    check : bool, default=True
        Check all entries of K for NaN and asymmetry.

    Returns
    -------
    Ball
        `radius2` and the centre's `dual_coef`. Non-convergence is reported in ``status``, never raised.

    Raises
    ------
    InputError
        Wrong shapes, NaN, an asymmetric matrix, ridge < 0, negative weights or no positive one.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    ``r^2(a K) = a r^2(K)``, and adding a constant to every entry of K changes nothing. An SMO step reads two rows of
    K; a Newton step factorises the block of the rows on the sphere. Coefficients are unique when those rows are
    affinely independent in the feature space; the centre always is.

    References
    ----------
    K. Gai, G. Chen, C. Zhang, Learning kernels with radiuses of minimum enclosing balls, NIPS 2010, (7) and (8).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_meb
    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]])
    >>> ball = solve_meb(X @ X.T)
    >>> round(ball.radius2, 6), ball.support
    (1.0, array([0, 1]))
    """
    matrix = as_kernel(K, on_indefinite, check=check)
    n = len(matrix)
    counts = check_row_weights(sample_weight, n)
    inside = counts > 0
    # copies of a row share its coefficient, which divides their ridge
    ridges = np.divide(ridge, counts, out=np.zeros(n), where=inside)
    diagonal = np.diag(matrix) + ridge
    problem = _Enclosing(
        matrix, Box(-0.5 * diagonal, ridges, np.zeros(n), inside.astype(np.float64)), total=1.0
    )
    begin = np.zeros(n) if start is None else np.clip(check_start(start, n), 0.0, problem.box.upper)
    if begin.any():
        begin /= begin.sum()
    else:
        # the row farthest from the mean would cost n^2, and hardly improves on another row
        begin[int(np.argmax(np.where(inside, diagonal, -np.inf)))] = 1.0

    found, product = Run(problem, tol, max_iter, begin).solution()
    b = found.dual_coef
    return found.solution.extended(
        Ball,
        certificate=replace(found.certificate, kind="ball"),
        radius2=found.primal - found.own_gap,
        center_norm2=float(b @ (product + ridges * b)),
        infeasibility=found.infeasibility,
    )


class _Enclosing(BoxProblem):
    """Its coefficients are those of a centre, and bounds above 0 tell the rows that the ball must contain."""

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of the kernel with its ridge."""
        return -2.0 * self.box.linear

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Rows that the ball must contain."""
        return self.box.upper > 0.0

    def look(self, at: Array, *, before: bool = False) -> Point:
        """Coefficients with their values."""
        found = super().look(at, before=before)
        values = self.values(found.b, found.product)
        return Point(*found[:-4], self.rounding(found.b, found.product, values, found.error), *values)

    def values(self, b: Array, product: Array) -> Values:
        """The largest distance of a row that the ball must contain, and the gap."""
        distances = self._distances(b, product + self.box.ridge * b)
        farthest = float(distances[self.inside].max())
        return Values(farthest, float(b @ (farthest - distances)), 0.0)

    def _distances(self, b: Array, Qb: Array) -> Array:
        return self.diagonal - 2.0 * Qb + float(b @ Qb)

    def rounding(self, b: Array, product: Array, at: Values, error: Array) -> float:
        """Bound of the rounding errors of these values, given that of the product."""
        Qb = product + self.box.ridge * b
        if np.count_nonzero(b) == 1:
            # a ball around a row: entries of K, without sums
            error, share = np.zeros_like(error), 0.0
        else:
            error, share = error + EPS * np.abs(Qb), sum_error(len(b))
        size = float(b @ np.abs(Qb))
        middle = float(b @ error) + share * size  # error of b'Kb, which is part of all distances
        distances = self._distances(b, Qb)
        # rows that coincide with the centre have an exact distance of zero
        apart = np.where(distances != 0.0, np.abs(self.diagonal - 2.0 * Qb) + np.abs(distances), 0.0)
        own = 2.0 * error + EPS * apart
        primal = float((distances + own)[self.inside].max()) - at.primal + middle
        # error of b'diag - b'Kb, and of coefficients whose sum differs from 1 by rounding
        away = abs(math.fsum(b) - 1.0) + share
        return primal + middle + away * (float(b @ self.diagonal) + 2.0 * size)
