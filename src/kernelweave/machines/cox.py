"""Cox's partial likelihood as a loss, which is no sum over rows: the rows at risk meet in the logarithm of their sum.

With weights r of the rows, d_k the costs of the events at the k-th time and R_k the rows whose time is at least that,

    L(f) = sum_k d_k log S_k - sum_i a_i f_i ,      S_k = sum_{j in R_k} r_j exp(f_j) ,

a the costs of events and 0 for others (Breslow's treatment of ties). Minus the derivative is ``b = a - c`` with
``c_j = r_j exp(f_j) H_j`` and the cumulative hazard ``H_j = sum_{k: t_k <= t_j} d_k / S_k``: the coefficients of every
stratum sum to zero.

The conjugate has a closed form. With v_k the sum of b over the rows before the k-th time,
``S_k H_k = v_k + d_k``, so that ``H_{k-1} = H_k v_k / (v_k + d_k)``: a
product of factors between 0 and 1, whose terms have no cancellation. Then ``f_j = log(c_j / (r_j H_j))``, up to one
constant for each stratum. Coefficients are feasible where ``b <= a``, all v_k are at least 0, and v ends at zero.

The second derivative is ``diag(c)`` less a matrix ``e_i e_j A_min(i, j)`` for rows in the order of time. Elimination of
rows, the last one first, keeps this form, so that products with a factor of it take cumulative sums; see `Root`.

References
----------
D. R. Cox, Regression models and life-tables, Journal of the Royal Statistical Society B 34 (1972); N. Breslow,
discussion of that paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._allowance import spend, used_up
from kernelweave._checks import InputError, check_finite, check_vector
from kernelweave._types import Array, Index
from kernelweave.machines.bordered import Coupled
from kernelweave.machines.box import Values, WithData
from kernelweave.machines.loss import Loss
from kernelweave.machines.rounding import sum_error

#: Most systems of one solution, and those without a smaller gap after which rounding is assumed to limit it.
MOST_STEPS, PATIENCE = 200, 3
#: Required share of the decrease that the derivative predicts, and the shortest step.
SUFFICIENT, SHORTEST = 1e-4, 1e-12
#: Range of decision values beyond which sums of exponentials are taken as logarithms, and of those in a factor.
RANGE, RANGE_OF_FACTOR = 600.0, 150.0
#: What stands for zero in logarithms.
TINY = 1e-290


@dataclass(frozen=True)
class Order:
    """Rows in the order of their times, in groups of equal ones.

    Attributes
    ----------
    order : array of int, shape (n_rows,)
    events : array of bool, shape (n_rows,)
        In this order, as all arrays below.
    starts : array of int, shape (n_groups,)
        First row of every group.
    group : array of int, shape (n_rows,)
    strata, rows : list of slice
        The groups and the rows of every stratum.
    """

    order: Index
    events: NDArray[np.bool_]
    starts: Index
    group: Index
    strata: list[slice]
    rows: list[slice]

    def sums(self, values: Array) -> Array:
        """Sums of the groups."""
        return np.add.reduceat(values, self.starts)

    def ahead(self, values: Array, add: Callable[..., Array] = np.cumsum) -> Array:
        """Sums over a group and earlier ones of its stratum."""
        return np.concatenate([add(values[part]) for part in self.strata])

    def behind(self, values: Array, add: Callable[..., Array] = np.cumsum) -> Array:
        """Sums over a group and later ones of its stratum."""
        return np.concatenate([add(values[part][::-1])[::-1] for part in self.strata])


@lru_cache(maxsize=64)
def _order(stored: bytes, stratified: bool) -> Order:
    y = np.frombuffer(stored)
    size = np.abs(y)
    order = np.argsort(size, kind="stable")
    size = size[order]
    new = np.r_[True, np.diff(size) > 0.0]
    starts = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    level = np.floor(size) if stratified else np.zeros(len(size))
    first = np.flatnonzero(np.r_[True, np.diff(level) > 0.0])
    rows = [slice(int(a), int(b)) for a, b in zip(first, np.r_[first[1:], len(y)], strict=True)]
    strata = [slice(int(group[part.start]), int(group[part.stop - 1]) + 1) for part in rows]
    return Order(order, y[order] > 0.0, starts, group, strata, rows)


@dataclass(frozen=True)
class At:
    """The partial likelihood at decision values; rows in the order of time.

    Attributes
    ----------
    by : Order
    a, c : arrays of shape (n_rows,)
        Costs of events, and what hazards expect of every row: minus the derivative is their difference.
    f : array of shape (n_rows,)
    deaths, log_sums : arrays of shape (n_groups,)
        d_k, and log S_k where there are events.
    """

    by: Order
    a: Array
    c: Array
    f: Array
    deaths: Array
    log_sums: Array

    @property
    def total(self) -> float:
        """The loss."""
        return float(self.deaths @ self.log_sums) - float(self.a @ self.f)

    @property
    def size(self) -> float:
        """Sum of the sizes of its terms."""
        return float(self.deaths @ (1.0 + np.abs(self.log_sums))) + float(self.a @ np.abs(self.f))

    def given(self, sorted_values: Array) -> Array:
        """Values in the order of the rows as they were given."""
        out = np.empty_like(sorted_values)
        out[self.by.order] = sorted_values
        return out


class Root:
    """A factor U of a second derivative, ``U U'``, by whose products take cumulative sums.

    ``U_jj = sqrt(v_j w_j)`` and ``U_ij = -u_i sqrt(v_j / w_j)`` for i < j, with ``u_i = e_i A_i``, ``w_j`` the sum of
    the u before j, and ``v_j = e_j + u_j T_j / (w_j + u_j)``, T_j the sum of the e after j: no term is subtracted.
    """

    def __init__(self, by: Order, e: Array, second: Array) -> None:
        u = e * second
        rest, before = np.empty_like(e), np.empty_like(e)
        for part in by.rows:
            rest[part] = np.r_[np.cumsum(e[part][::-1])[::-1][1:], 0.0]
            before[part] = np.r_[0.0, np.cumsum(u[part])[:-1]]
        up_to = before + u
        v = e + u * np.divide(rest, up_to, out=np.zeros_like(e), where=up_to > 0.0)
        self.by, self.u = by, u
        self.diagonal = np.sqrt(v * before)
        self.x = np.sqrt(np.divide(v, before, out=np.zeros_like(e), where=before > 0.0))

    def transposed(self, Z: Array) -> Array:
        """``U'Z`` for Z with the rows as they are given; the result is in the order of time."""
        Z = Z[self.by.order]
        shape = (-1, *([1] * (Z.ndim - 1)))
        out = self.diagonal.reshape(shape) * Z
        Z *= self.u.reshape(shape)
        for part in self.by.rows:
            sums = np.cumsum(Z[part], axis=0)[:-1]
            sums *= self.x[part][1:].reshape(shape)
            out[part][1:] -= sums
        return out

    def times(self, z: Array) -> Array:
        """``U z`` for z in the order of time; the result has the rows as they are given."""
        out = self.diagonal * z
        for part in self.by.rows:
            out[part][:-1] -= self.u[part][:-1] * np.cumsum((self.x[part] * z[part])[:0:-1])[::-1]
        found = np.empty_like(out)
        found[self.by.order] = out
        return found


@dataclass(frozen=True)
class Cox(Loss):
    """Cox's partial likelihood of censored times, with Breslow's treatment of ties.

    A target is the time of an event, or minus the time at which a row was last seen without one: `targets` makes them.
    The loss is no sum over rows: f is the log of the relative hazard, known up to a constant, so that an intercept does
    not change it.

    Attributes
    ----------
    stratified : bool
        Whether the whole part of a target's size is the number of its stratum: rows of other strata are not at risk
        with it. `targets` makes such targets.

    Notes
    -----
    Sample weights count events, and rows at risk as a share of the largest weight, so that a weight is equivalent to a
    repetition up to a constant of the loss. An evaluation costs O(n) after one sort.

    References
    ----------
    D. R. Cox, Regression models and life-tables, Journal of the Royal Statistical Society B 34 (1972).

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4))
    >>> y = kw.losses.Cox.targets(rng.exponential(np.exp(-X[:, 0])), rng.random(60) < 0.7)
    >>> gram = X[:, None, :] * X[None, :, :]
    >>> kw.solve(kw.Problem(gram, y, loss=kw.losses.Cox(), C=1.0)).status
    Status.CONVERGED
    """

    name: ClassVar[str] = "cox"
    smooth: ClassVar[bool] = True
    scores: ClassVar[bool] = True
    rowwise: ClassVar[bool] = False

    stratified: bool = False

    @staticmethod
    def targets(time: ArrayLike, event: ArrayLike, strata: ArrayLike | None = None) -> Array:
        """Targets from times: the rank of the time, positive for events and negative for censored rows.

        Parameters
        ----------
        time : array-like of shape (n_samples,)
            Times >= 0; their order is all that counts.
        event : array-like of shape (n_samples,)
            True or 1 where the event was seen, False or 0 where the time is censored.
        strata : array-like of shape (n_samples,), optional
            Groups of rows with a baseline hazard of their own; then for ``Cox(stratified=True)``.

        Returns
        -------
        array of shape (n_samples,)
            Between -1 and 1, or with strata of that size more than the number of the stratum.
        """
        time = check_vector(time, "time", len(np.asarray(time)))
        if (time < 0.0).any():
            raise InputError(f"`time` must not be negative, got {float(time.min())!r}. Check the column.")
        seen = np.asarray(event).astype(np.float64) if np.size(event) else np.empty(0)
        if seen.shape != time.shape:
            raise InputError(f"`event` must have one entry for each time, {time.shape}, got {seen.shape}.")
        check_finite(seen, "event")
        if not np.isin(seen, (0.0, 1.0)).all():
            found = np.unique(seen[~np.isin(seen, (0.0, 1.0))])[:3]
            raise InputError(
                f"`event` must be True or 1 for events and False or 0 for censored rows, got {found.tolist()}."
            )
        values, rank = np.unique(time, return_inverse=True)
        place = (rank + 1.0) / (len(values) + 1.0)
        if strata is not None:
            groups = np.unique(np.asarray(strata), return_inverse=True)[1].reshape(-1)
            if groups.shape != time.shape:
                raise InputError(
                    f"`strata` must have one entry for each time, {time.shape}, got {groups.shape}."
                )
            place = place + groups
        return np.where(seen > 0.0, place, -place)

    def check(self, y: ArrayLike, costs: Array) -> Array:
        targets = check_vector(y, "y", len(costs))
        if not targets.all():
            raise InputError(
                "`y` must hold the times of events, and minus the times of censored rows; 0 is neither. "
                "kw.losses.Cox.targets(time, event) makes such targets of times that may be 0."
            )
        if not ((targets > 0.0) & (costs > 0.0)).any():
            raise InputError(
                "`y` has no events: all times are censored, and nothing can be learnt of them. Check the column of "
                "events, which is 1 where the event was seen. If other rows have events, these are the rows of a fold: "
                "give C, or fewer folds."
            )
        return targets

    # ---- the loss ---------------------------------------------------------------------------------

    def by_time(self, y: Array) -> Order:
        """The rows in the order of their times."""
        return _order(np.ascontiguousarray(y, dtype=np.float64).tobytes(), self.stratified)

    def at(self, y: Array, costs: Array, f: Array) -> At:
        """The partial likelihood at decision values."""
        by = self.by_time(y)
        costs, f = costs[by.order], f[by.order]
        a = np.where(by.events, costs, 0.0)
        deaths = by.sums(a)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            top = np.max(f, initial=-np.inf, where=costs > 0.0)
            low = np.min(f, initial=np.inf, where=costs > 0.0)
            shares = costs / costs.max()
            if top - low < RANGE:
                e = shares * np.exp(np.minimum(f - top, 0.0))
                sums = by.behind(by.sums(e))
                hazard = by.ahead(np.divide(deaths, sums, out=np.zeros_like(sums), where=deaths > 0.0))
                c, log_sums = e * hazard[by.group], np.log(sums) + top
            else:
                logs = np.log(shares) + f
                # there are no sums of parts of logarithms: one part after another
                each = np.logaddexp.reduceat(logs, by.starts)
                log_sums = by.behind(each, np.logaddexp.accumulate)
                rates = np.where(deaths > 0.0, np.log(deaths) - log_sums, -np.inf)
                c = np.exp(logs + by.ahead(rates, np.logaddexp.accumulate)[by.group])
                c[~(costs > 0.0)] = 0.0
        log_sums[deaths == 0.0] = 0.0
        return At(by, a, c, f, deaths, log_sums)

    def total(self, y: Array, costs: Array, f: Array) -> float:
        return self.at(y, costs, f).total

    def gradient(self, y: Array, costs: Array, f: Array) -> Array:
        at = self.at(y, costs, f)
        return at.given(at.c - at.a)

    def gradient_within(self, y: Array, costs: Array, f: Array, error: Array | float) -> tuple[Array, Array]:
        """Bounds for decision values that are off by at most the largest error: shares of sums change by twice that."""
        at, most = self.at(y, costs, f), 2.0 * float(np.max(error))
        return at.given(at.c * np.exp(-most) - at.a), at.given(at.c * np.exp(most) - at.a)

    def curvature(self, y: Array, costs: Array, f: Array) -> Array:
        """The diagonal that the second derivative has less a sum of squares: at least as large in every direction."""
        at = self.at(y, costs, f)
        return at.given(at.c)

    def root(self, y: Array, costs: Array, f: Array) -> Root:
        by = self.by_time(y)
        costs, f = costs[by.order], f[by.order]
        e = np.zeros_like(f)
        for part in by.rows:
            # factors of strata are their own, and so are their units
            level = np.max(f[part], initial=-np.inf, where=costs[part] > 0.0)
            e[part] = costs[part] / costs.max() * np.exp(np.clip(f[part] - level, -RANGE_OF_FACTOR, 0.0))
        deaths = by.sums(np.where(by.events, costs, 0.0))
        sums = by.behind(by.sums(e))
        rates = np.divide(deaths, np.square(sums), out=np.zeros_like(sums), where=deaths > 0.0)
        return Root(by, e, by.ahead(rates)[by.group])

    def value(self, y: Array, f: Array) -> Array:
        """Of rows with cost 1, whose sum is the loss: those of events."""
        at = self.at(y, np.ones(len(y)), f)
        return at.given(at.a * (at.log_sums[at.by.group] - at.f))

    def slope(self, y: Array, f: Array) -> Array:
        return self.gradient(y, np.ones(len(y)), f)

    def conjugate(self, y: Array, b: Array) -> Array:
        """Of rows with cost 1, whose sum is the conjugate."""
        ones = np.ones(len(y))
        if self.infeasibility(y, ones, b) > 1e-12 * max(1.0, float(np.abs(b).sum())):
            return np.full(len(y), np.inf)
        at = self.at(y, ones, self.dual_slope(y, ones, b))
        return at.given(at.c * at.f - at.a * at.log_sums[at.by.group])

    def second_derivative(self, y: Array, f: Array) -> Array:
        return self.curvature(y, np.ones(len(y)), f)

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        """Zero: all are equally good."""
        return 0.0

    # ---- the dual ---------------------------------------------------------------------------------

    def _before(self, by: Order, b: Array) -> Array:
        """Sums of coefficients over the rows before every time, from the nearer end of the stratum."""
        each, size = by.sums(b), by.sums(np.abs(b))
        ahead, behind = by.ahead(each) - each, -by.behind(each)
        nearer = by.ahead(size) - size <= by.behind(size)
        return np.where(nearer, ahead, behind)

    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        """The decision values at which minus the derivative is b, with mean zero in every stratum."""
        by = self.by_time(y)
        costs, b = costs[by.order], b[by.order]
        a = np.where(by.events, costs, 0.0)
        deaths = by.sums(a)
        largest = float(costs.max())
        before = np.maximum(self._before(by, b), TINY * largest)
        # logarithms of the hazards, of which the last is 1
        steps = np.log1p(deaths / before)
        hazard = steps - by.behind(steps)
        begun = (by.ahead(deaths)[by.group] > 0.0) & (costs > 0.0)
        c = np.maximum(a - b, TINY * largest)
        f = np.zeros_like(b)
        f[begun] = np.log(c[begun]) - np.log(costs[begun] / largest) - hazard[by.group][begun]
        for part in by.rows:
            if begun[part].any():
                f[part][begun[part]] -= float(np.average(f[part][begun[part]], weights=c[part][begun[part]]))
        out = np.empty_like(f)
        out[by.order] = f
        return out

    def _dual(self, y: Array, costs: Array, b: Array) -> tuple[At, Array, float]:
        """Decision values near the best of b, their coefficients, which are feasible, and the conjugate of these.

        Rounding may have moved b itself out of the feasible ones.
        """
        at = self.at(y, costs, self.dual_slope(y, costs, b))
        return at, at.given(at.a - at.c), float(at.c @ at.f) - float(at.deaths @ at.log_sums)

    def dual_term(self, y: Array, costs: Array, b: Array) -> float:
        return -self._dual(y, costs, b)[2]

    def gap(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        _, own, conjugate = self._dual(y, costs, b)
        return max(0.0, self.total(y, costs, f) + conjugate + float(own @ f))

    def gap_error(self, y: Array, costs: Array, b: Array, f: Array) -> float:
        at, own, _ = self._dual(y, costs, b)
        here = self.at(y, costs, f)
        terms = here.size + at.size + float(at.c @ np.abs(at.f)) + float(np.abs(own) @ np.abs(f))
        # a difference of coefficients moves bounds by its square alone; this is more
        middle = float(np.average(f, weights=costs))
        return 2.0 * sum_error(len(f)) * terms + 2.0 * float(np.abs(own - b) @ np.abs(f - middle))

    def bounds(self, y: Array, costs: Array) -> tuple[Array, Array]:
        """Of every coefficient alone; see `infeasibility` for those together."""
        by = self.by_time(y)
        costs = costs[by.order]
        a = np.where(by.events, costs, 0.0)
        low, high = np.empty_like(a), np.empty_like(a)
        low[by.order] = np.where(costs > 0.0, a - by.ahead(by.sums(a))[by.group], 0.0)
        high[by.order] = a
        return low, high

    def infeasibility(self, y: Array, costs: Array, b: Array) -> float:
        by = self.by_time(y)
        sums = [abs(float(b[by.order][part].sum())) for part in by.rows]
        below = float(-self._before(by, b[by.order]).min())
        return max(super().infeasibility(y, costs, b), *sums, below)

    def free(self, y: Array, costs: Array, b: Array) -> Index:
        return np.flatnonzero(costs > 0.0)

    def system(
        self, K: Array, y: Array, costs: Array, b: Array, rows: Index, *, fit_intercept: bool = True
    ) -> Coupled:
        block = K if len(rows) == len(K) else K[np.ix_(rows, rows)]
        y, costs, b = y[rows], costs[rows], b[rows]
        return Coupled(block, self.root(y, costs, self.dual_slope(y, costs, b)))

    # ---- a machine --------------------------------------------------------------------------------

    def _iterate(self, machine: WithData, K: Array, start: Array, tol: float) -> tuple[Array, int, bool]:
        """Newton's method on decision values, with the whole second derivative: ``(I + L'' K) b = L'' f - L'``."""
        y, costs = machine.y, machine.costs
        best, at = np.zeros(len(y)), Values(np.inf, np.inf, 0.0)
        b, f = start, K @ start
        level = 0.5 * float(b @ f) + self.total(y, costs, f)
        least = self.total(y, costs, np.zeros(len(y)))
        limit = MOST_STEPS if machine.max_iter is None else machine.max_iter
        n = idle = 0
        while True:
            if not level <= least and b.any():
                # a start that is worse than zero
                b, f, level = np.zeros(len(y)), np.zeros(len(y)), least
            before = at.gap
            own = -self.gradient(y, costs, f)
            here = machine.values(own, K @ own)
            if here.gap < at.gap:
                best, at = own, here
            # a start is improved once, so that coefficients respond to changes of the kernel
            if (at.gap <= tol * abs(at.primal) and n > 0) or n >= limit or idle >= PATIENCE or used_up():
                return best, n, n >= limit
            n += 1
            spend(2.0)
            root = self.root(y, costs, f)
            right = own + root.times(root.transposed(f))
            system = Coupled(K, root)
            aim = right - system.solve(K @ right)
            if not np.isfinite(aim).all():
                return best, n, False
            moved = K @ aim
            forms = float(b @ f), float(b @ moved), float(aim @ moved)
            slope = forms[1] - forms[0] - float(own @ (moved - f))
            step = 1.0
            while True:
                half = (1 - step) ** 2 * forms[0] + 2 * step * (1 - step) * forms[1] + step**2 * forms[2]
                value = 0.5 * half + self.total(y, costs, f + step * (moved - f))
                if value <= level + SUFFICIENT * step * slope + 1e-15 * abs(level) or step < SHORTEST:
                    break
                step *= 0.5
            idle = 0 if value < level * (1.0 - 1e-12) or at.gap < 0.5 * before else idle + 1
            b, f, level = b + step * (aim - b), f + step * (moved - f), value
