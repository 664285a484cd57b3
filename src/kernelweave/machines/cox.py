"""Cox's partial likelihood as a loss, which is no sum over rows: the rows at risk meet in the logarithm of their sum.

With weights r of the rows and a the costs of events, 0 for others, the loss is a sum over terms q,

    L(f) = sum_q w_q log S_q - sum_i a_i f_i ,      S_q = sum_{j in R} r_j s_qj exp(f_j) ,

R the rows whose time is at least that of the term. Breslow has one term for each time: w_q = d_k, the costs of its
events, and s = 1. Efron has one for each event at a time, the l-th of m with w_q = d_k / m and s = 1 - l / m for the
events at that time, 1 for other rows. Minus the derivative is ``b = a - c``, c_j being ``r_j exp(f_j)`` times the
cumulative hazard ``sum_q w_q s_qj / S_q`` of terms up to its time: the coefficients of every stratum sum to zero.

The conjugate has a closed form but for one number of each time. With v_k the sum of b over the rows before the k-th
time, S_k and H_k its rows at risk and the cumulative hazard after it, and x_k the share of its events in S_k,
``S_k H_{k-1} = v_k`` and ``S_k H_k = v_k + phi_k``, ``phi_k = sum_q w_q / (1 - (1 - s_q) x_k)``. For Breslow phi is
d_k; for Efron x_k is the root of an increasing function, since events and the rest have known sums of c: with
``psi_k = sum_q w_q s_q / (1 - (1 - s_q) x_k)`` those are ``x (v + psi)`` and ``(1 - x) (v + phi)``. So
``H_{k-1} = H_k v_k / (v_k + phi_k)``, a product of factors between 0 and 1, whose terms have no cancellation. Then
``f_j = log(c_j / (r_j H_j))``, up to one constant for each stratum. Coefficients are feasible where ``b <= a``, all v_k
are at least 0, and v ends at zero.

The second derivative is a sum of squares of differences: rows i before j, in the order of time with events first, have
the weight ``e_i e_j A_i``, but ``e_i e_j (A_i - B_i)`` where both are events of one time. Elimination of rows, the last
one first, keeps this form, so that products with a factor of it take cumulative sums; see `Root`.

References
----------
D. R. Cox, Regression models and life-tables, Journal of the Royal Statistical Society B 34 (1972); N. Breslow,
discussion of that paper; B. Efron, The efficiency of Cox's likelihood function for censored data, Journal of the
American Statistical Association 72 (1977).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from kernelweave._checks import InputError, check_finite, check_vector
from kernelweave._parameters import OneOf, check_fields
from kernelweave._types import Array, Index
from kernelweave.machines.bordered import Coupled
from kernelweave.machines.box import WithData
from kernelweave.machines.loss import Loss
from kernelweave.machines.reweighted import solve_reweighted
from kernelweave.machines.rounding import EPS, sum_error

#: Most steps for the share of events in the rows at risk, which take bisections where Newton's leave the bracket.
MOST_NEWTON = 100
#: Range of decision values beyond which sums of exponentials are taken as logarithms, and of those in a factor.
RANGE, RANGE_OF_FACTOR = 600.0, 150.0
#: Treatments of events at equal times.
TIES = OneOf("breslow", "efron")
#: What stands for zero in logarithms.
TINY = 1e-290


@dataclass(frozen=True, eq=False)
class Order:
    """Rows in the order of their times, in groups of equal ones, events first.

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

    def sums(self, values: Array, add: np.ufunc = np.add) -> Array:
        """Sums of the groups."""
        return np.asarray(add.reduceat(values, self.starts))

    def ahead(self, values: Array, add: np.ufunc = np.add) -> Array:
        """Sums over a group and earlier ones of its stratum."""
        return np.concatenate([add.accumulate(values[part]) for part in self.strata])

    def behind(self, values: Array, add: np.ufunc = np.add) -> Array:
        """Sums over a group and later ones of its stratum."""
        return np.concatenate([add.accumulate(values[part][::-1])[::-1] for part in self.strata])

    def before(self, values: Array, add: np.ufunc = np.add, none: float = 0.0) -> Array:
        """Sums over earlier groups of the stratum, `none` of the first."""
        sums = self.ahead(values, add)
        return np.concatenate([np.append(none, sums[part][:-1]) for part in self.strata])

    def following(self, values: Array, none: float = 0.0) -> Array:
        """The values of the next groups of the stratum, `none` of the last."""
        return np.concatenate([np.append(values[part][1:], none) for part in self.strata])

    def after(self, values: Array, add: np.ufunc = np.add, none: float = 0.0) -> Array:
        """Sums over later groups of the stratum, `none` of the last."""
        return self.following(self.behind(values, add), none)


@lru_cache(maxsize=64)
def _order(stored: bytes, stratified: bool) -> Order:
    y = np.frombuffer(stored)
    size = np.abs(y)
    order = np.lexsort((y < 0.0, size))
    size = size[order]
    new = np.r_[True, np.diff(size) > 0.0]
    starts = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    level = np.floor(size) if stratified else np.zeros(len(size))
    first = np.flatnonzero(np.r_[True, np.diff(level) > 0.0])
    rows = [slice(int(a), int(b)) for a, b in zip(first, np.r_[first[1:], len(y)], strict=True)]
    strata = [slice(int(group[part.start]), int(group[part.stop - 1]) + 1) for part in rows]
    return Order(order, y[order] > 0.0, starts, group, strata, rows)


@dataclass(frozen=True, eq=False)
class Terms:
    """The logarithms in the loss, in the order of time.

    Attributes
    ----------
    group : array of int, shape (n_terms,)
        Groups of rows, each one with as many terms as it has.
    mass, share : arrays of shape (n_terms,)
        Weight of the logarithm, and weight in it of the events of the group.
    n_groups : int
    tied : bool
        Whether shares are other than 1.
    """

    group: Index
    mass: Array
    share: Array
    n_groups: int
    tied: bool

    def sums(self, values: Array) -> Array:
        """Sums of the groups."""
        return np.asarray(np.bincount(self.group, values, self.n_groups), dtype=np.float64)

    def at_risk(self, by: Order, e: Array) -> Array:
        """The sums S, for ``r_j exp(f_j)`` of the rows."""
        own, rest = by.sums(np.where(by.events, e, 0.0)), by.sums(np.where(by.events, 0.0, e))
        return (by.after(own + rest) + rest)[self.group] + self.share * own[self.group]

    def reaching(self, by: Order, values: Array, power: int = 1) -> Array:
        """Sums of values of terms over those that a row is at risk in, times powers of its share there."""
        sums = self.sums(values)
        whole = by.ahead(sums)[by.group]
        if not self.tied:
            return whole
        own = by.before(sums) + self.sums(values * self.share**power)
        return np.where(by.events, own[by.group], whole)

    def received(self, x: Array) -> tuple[Array, Array]:
        """The sums phi and psi at the shares x of events in the rows at risk."""
        each = self.mass / (1.0 - (1.0 - self.share) * x[self.group])
        return self.sums(each), self.sums(each * self.share)

    def share_of_events(self, v: Array, own: Array, rest: Array) -> Array:
        """The x at which ``x (v + psi)`` and ``(1 - x) (v + phi)`` are as two given numbers, by Newton's method."""
        count, low = self.sums(np.ones_like(self.mass)), np.zeros_like(v)
        np.log(np.divide(own, rest, out=low, where=count > 0.0), out=low, where=count > 0.0)
        # psi is at least 1 / m of phi
        aim, z, high = low.copy(), low.copy(), low + np.log(np.maximum(count, 1.0))
        for _ in range(MOST_NEWTON):
            x = expit(z)
            phi, psi = (v + one for one in self.received(x))
            part = self.mass * (1.0 - self.share) / np.square(1.0 - (1.0 - self.share) * x[self.group])
            slope = 1.0 - x * expit(-z) * (self.sums(part) / phi - self.sums(part * self.share) / psi)
            value = z - aim - np.log(phi / psi)
            low, high = np.where(value <= 0.0, z, low), np.where(value >= 0.0, z, high)
            step = z - value / np.maximum(slope, TINY)
            step = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
            moved, z = np.abs(step - z), step
            if (moved <= 4.0 * EPS * (1.0 + np.abs(z))).all():
                break
        return np.asarray(expit(z))


@dataclass(frozen=True, eq=False)
class At:
    """The partial likelihood at decision values; rows in the order of time.

    Attributes
    ----------
    by : Order
    a, c : arrays of shape (n_rows,)
        Costs of events, and what hazards expect of every row: minus the derivative is their difference.
    f : array of shape (n_rows,)
    terms : Terms
    log_sums : array of shape (n_terms,)
    unit : float
        What rows at risk are counted in.
    """

    by: Order
    a: Array
    c: Array
    f: Array
    terms: Terms
    log_sums: Array
    unit: float

    @property
    def total(self) -> float:
        """The loss."""
        return float(self.terms.mass @ self.log_sums) - float(self.a @ self.f)

    @property
    def size(self) -> float:
        """Sum of the sizes of its terms."""
        return float(self.terms.mass @ (1.0 + np.abs(self.log_sums))) + float(self.a @ np.abs(self.f))

    @property
    def levels(self) -> Array:
        """Of every row, the mean of the logarithms at its time."""
        deaths = self.terms.sums(self.terms.mass)
        sums = self.terms.sums(self.terms.mass * self.log_sums)
        return np.divide(sums, deaths, out=np.zeros_like(sums), where=deaths > 0.0)[self.by.group]

    @property
    def hazard(self) -> Array:
        """The cumulative hazard of a row with f = 0 after each group."""
        return self.by.ahead(self.terms.sums(self.terms.mass * np.exp(-self.log_sums))) / self.unit

    def given(self, sorted_values: Array) -> Array:
        """Values in the order of the rows as they were given."""
        out = np.empty_like(sorted_values)
        out[self.by.order] = sorted_values
        return out


class Root:
    """A factor U of a second derivative, ``U U'``, by whose products take cumulative sums.

    Rows i before j have the weight ``u_i e_j``, ``u_i = e_i A_i``. With T the sum of e over the rows after a group or
    the single row j, w the sum of the u up to its end, ``t = T / w`` and ``k = 1 + A t``, events of one time have among
    each other the weights ``rho e_i k e_j`` once the rows after them are eliminated, ``rho = (A - B + A^2 t) / k``, and
    these stay in proportion. So for W_j, the sum of ``rho e`` over those before j and of u over rows before them,
    ``v_j = e_j k W_end / W_{j+1}``, ``U_jj = sqrt(v_j W_j)`` and ``U_ij = -u_i sqrt(v_j / W_j)``, with ``rho e_i`` in
    place of u_i within a time: no term is subtracted.

    Parameters
    ----------
    by : Order
    e, second : arrays of shape (n_rows,)
        In the order of time; `second` are the A.
    less : array of shape (n_rows,), optional
        The A - B of events.
    """

    def __init__(self, by: Order, e: Array, second: Array, less: Array | None = None) -> None:
        self.by = by
        u = e * second
        self.last = np.empty(0, dtype=np.intp)
        inner, self.outer = u, np.zeros_like(e)
        after = np.zeros_like(e)
        for part in by.rows:
            after[part] = np.r_[np.cumsum(e[part][::-1])[::-1][1:], 0.0]
        up_to = _exclusive(u, by) + u
        if less is None:
            ratio = np.divide(after, up_to, out=np.zeros_like(e), where=up_to > 0.0)
            before = _exclusive(u, by)
            v = e * (1.0 + second * ratio)
        else:
            first = np.flatnonzero(by.events & np.r_[True, ~by.events[:-1] | (np.diff(by.group) > 0)])
            self.first, self.last = (
                first,
                np.flatnonzero(by.events & np.r_[~by.events[1:] | (np.diff(by.group) > 0), True]),
            )
            # of events, the rows after all of their time
            where = np.arange(len(e))
            where[by.events] = np.repeat(self.last, self.last - first + 1)
            ratio = np.divide(after, up_to, out=np.zeros_like(e), where=up_to > 0.0)[where]
            growth = 1.0 + second * ratio
            rho = np.where(by.events, (less + second * (second * ratio)) / growth, second)
            inner, self.outer = e * rho, np.where(by.events, e * (second - less) / growth, 0.0)
            before = _exclusive(self._with_outer(inner, self.outer), by)
            # the sum of the inner ones up to a row, and up to the last event of its time
            so_far = before + inner
            v = e * growth * np.divide(so_far[where], so_far, out=np.ones_like(e), where=so_far > 0.0)
        self.inner = inner
        self.diagonal = np.sqrt(v * before)
        self.x = np.sqrt(np.divide(v, before, out=np.zeros_like(e), where=before > 0.0))

    def _with_outer(self, inner: Array, outer: Array) -> Array:
        """What sums of later rows have of each, that of events of one time beyond it with the last of them."""
        if not len(self.last):
            return inner
        out = inner.copy()
        ends = np.column_stack([self.first, self.last + 1]).ravel()
        padded = np.concatenate([outer, np.zeros((1, *outer.shape[1:]))])
        out[self.last] += np.add.reduceat(padded, ends, axis=0)[::2]
        return out

    def transposed(self, Z: Array) -> Array:
        """``U'Z`` for Z with the rows as they are given; the result is in the order of time."""
        Z = Z[self.by.order]
        shape = (-1, *([1] * (Z.ndim - 1)))
        out = self.diagonal.reshape(shape) * Z
        if len(self.last):
            Z = self._with_outer(self.inner.reshape(shape) * Z, self.outer.reshape(shape) * Z)
        else:
            Z *= self.inner.reshape(shape)
        for part in self.by.rows:
            sums = np.cumsum(Z[part], axis=0)[:-1]
            sums *= self.x[part][1:].reshape(shape)
            out[part][1:] -= sums
        return out

    def times(self, z: Array) -> Array:
        """``U z`` for z in the order of time; the result has the rows as they are given."""
        out = self.diagonal * z
        later = np.zeros_like(out)
        for part in self.by.rows:
            later[part][:-1] = np.cumsum((self.x[part] * z[part])[:0:-1])[::-1]
        out -= self.inner * later
        if len(self.last):
            counts = self.last - self.first + 1
            out[self.by.events] -= self.outer[self.by.events] * np.repeat(later[self.last], counts)
        found = np.empty_like(out)
        found[self.by.order] = out
        return found


def _of_logarithms(by: Order, terms: Terms, logs: Array) -> tuple[Array, Array]:
    """What hazards expect of rows, and log S, from the logarithms of ``r_j exp(f_j)``."""
    add, group = np.logaddexp, terms.group
    own, rest = (by.sums(np.where(one, logs, -np.inf), add) for one in (by.events, ~by.events))
    later = add(by.after(add(own, rest), add, -np.inf), rest)
    log_sums = add(later[group], np.log(terms.share) + own[group])
    rates, reached = np.full((2, terms.n_groups), -np.inf)
    add.at(rates, group, np.log(terms.mass) - log_sums)
    add.at(reached, group, np.log(terms.mass * terms.share) - log_sums)
    reached = add(by.before(rates, add, -np.inf), reached)
    hazard = np.where(by.events, reached[by.group], by.ahead(rates, add)[by.group])
    return np.exp(logs + hazard), log_sums


def _exclusive(values: Array, by: Order) -> Array:
    """Sums over the earlier rows of a stratum."""
    return np.concatenate([np.r_[0.0, np.cumsum(values[part])[:-1]] for part in by.rows])


@dataclass(frozen=True)
class Cox(Loss):
    """Cox's partial likelihood of censored times, with Breslow's or Efron's treatment of ties.

    A target is the time of an event, or minus the time at which a row was last seen without one: `targets` makes them.
    The loss is no sum over rows: f is the log of the relative hazard, known up to a constant, so that an intercept does
    not change it.

    Attributes
    ----------
    stratified : bool
        Whether the whole part of a target's size is the number of its stratum: rows of other strata are not at risk
        with it. `targets` makes such targets.
    ties : {"breslow", "efron"}
        What is at risk at an event whose time others share: with Breslow all of them. With Efron the l-th of m has a
        share ``1 - l / m`` of them, on average over their unknown order; coefficients are less biased towards zero
        where many times are equal.

    Notes
    -----
    Sample weights count events, and rows at risk in units of the smallest weight of an event, so that the loss is at
    least 0 and without weights minus the logarithm of the partial likelihood. With Breslow a weight is equivalent
    to a repetition up to a constant of the loss. With Efron it is not, as repetitions would be ties: every event at a
    time stands for the mean of the weights there, as in ``survival::coxph`` of R. An evaluation costs O(n) after one
    sort.

    References
    ----------
    D. R. Cox, Regression models and life-tables, Journal of the Royal Statistical Society B 34 (1972); N. Breslow,
    discussion of that paper; B. Efron, The efficiency of Cox's likelihood function for censored data, Journal of the
    American Statistical Association 72 (1977).

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
    judged: ClassVar[bool] = True
    rowwise: ClassVar[bool] = False

    stratified: bool = False
    ties: Annotated[str, TIES] = "breslow"

    def __post_init__(self) -> None:
        check_fields(self)

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
                "events, which is 1 where the event was seen. If other rows have events, these are the training rows "
                "of a fold, and too few rows have events, or too few groups of rows: give C; with more than one event "
                "fewer folds may do."
            )
        return targets

    def fold_classes(self, y: Array) -> Array:
        return np.where(y > 0.0, 1.0, 0.0)

    # ---- the loss ---------------------------------------------------------------------------------

    def by_time(self, y: Array) -> Order:
        """The rows in the order of their times.

        Parameters
        ----------
        y : array of shape (n_samples,)
            Times of events, and minus the times of censored rows.
        """
        return _order(np.ascontiguousarray(y, dtype=np.float64).tobytes(), self.stratified)

    def _terms(self, by: Order, a: Array) -> Terms:
        """The terms for costs of events in the order of time."""
        count = by.sums(np.where(a > 0.0, 1.0, 0.0)).astype(np.intp)
        tied = self.ties == "efron" and bool((count > 1).any())
        if not tied:
            count = np.minimum(count, 1)
        group = np.repeat(np.arange(len(count)), count)
        place = np.arange(len(group)) - np.repeat(np.cumsum(count) - count, count)
        return Terms(group, by.sums(a)[group] / count[group], 1.0 - place / count[group], len(count), tied)

    def at(self, y: Array, costs: Array, f: Array) -> At:
        """The partial likelihood at decision values.

        Parameters
        ----------
        y : array of shape (n_samples,)
            Times of events, and minus the times of censored rows.
        costs : array of shape (n_samples,)
            Costs of the rows: C times the sample weights.
        f : array of shape (n_samples,)
            Decision values.
        """
        by = self.by_time(y)
        costs, f = costs[by.order], f[by.order]
        a = np.where(by.events, costs, 0.0)
        terms, unit = self._terms(by, a), float(np.min(a, initial=np.inf, where=a > 0.0))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            top = np.max(f, initial=-np.inf, where=costs > 0.0)
            low = np.min(f, initial=np.inf, where=costs > 0.0)
            shares = costs / costs.max()
            if top - low < RANGE:
                e = shares * np.exp(np.minimum(f - top, 0.0))
                sums = terms.at_risk(by, e)
                c, log_sums = e * terms.reaching(by, terms.mass / sums), np.log(sums) + top
            else:
                c, log_sums = _of_logarithms(by, terms, np.log(shares) + f)
                c[~(costs > 0.0)] = 0.0
            log_sums += np.log(costs.max() / unit)
        return At(by, a, c, f, terms, log_sums, unit)

    def total(self, y: Array, costs: Array, f: Array) -> float:
        return self.at(y, costs, f).total

    def gradient(self, y: Array, costs: Array, f: Array) -> Array:
        at = self.at(y, costs, f)
        slope = at.c - at.a
        # where all rows at risk have the event, f changes nothing, and rounding errors would be infeasible coefficients
        if (np.abs(slope) <= sum_error(len(slope)) * (at.c + at.a)).all():
            slope = np.zeros_like(slope)
        return at.given(slope)

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
        terms = self._terms(by, np.where(by.events, costs, 0.0))
        rates = terms.mass / np.square(terms.at_risk(by, e))
        return Root(by, e, terms.reaching(by, rates), terms.reaching(by, rates, 2) if terms.tied else None)

    def value(self, y: Array, f: Array) -> Array:
        """Of rows with cost 1, whose sum is the loss: those of events."""
        at = self.at(y, np.ones(len(y)), f)
        return at.given(at.a * (at.levels - at.f))

    def slope(self, y: Array, f: Array) -> Array:
        return self.gradient(y, np.ones(len(y)), f)

    def conjugate(self, y: Array, b: Array) -> Array:
        """Of rows with cost 1, whose sum is the conjugate."""
        ones = np.ones(len(y))
        if self.infeasibility(y, ones, b) > 1e-12 * max(1.0, float(np.abs(b).sum())):
            return np.full(len(y), np.inf)
        at = self.at(y, ones, self.dual_slope(y, ones, b))
        return at.given(at.c * at.f - at.a * at.levels)

    def second_derivative(self, y: Array, f: Array) -> Array:
        return self.curvature(y, np.ones(len(y)), f)

    def intercept(self, y: Array, costs: Array, product: Array) -> float:
        """Zero: all are equally good."""
        return 0.0

    # ---- the dual ---------------------------------------------------------------------------------

    def _before(self, by: Order, b: Array) -> Array:
        """Sums of coefficients over the rows before every time, from the nearer end of the stratum."""
        each, size = by.sums(b), by.sums(np.abs(b))
        ahead, behind = by.before(each), -by.behind(each)
        nearer = by.before(size) <= by.behind(size)
        return np.where(nearer, ahead, behind)

    def dual_slope(self, y: Array, costs: Array, b: Array) -> Array:
        """The decision values at which minus the derivative is b, with mean zero in every stratum."""
        by = self.by_time(y)
        costs, b = costs[by.order], b[by.order]
        a, used = np.where(by.events, costs, 0.0), costs > 0.0
        terms = self._terms(by, a)
        largest = float(costs.max())
        before = np.maximum(self._before(by, b), TINY * largest)
        c = np.maximum(a - b, TINY * largest)
        phi = psi = terms.sums(terms.mass)
        if terms.tied:
            own, rest = (by.sums(np.where(used & one, c, 0.0)) for one in (by.events, ~by.events))
            x = terms.share_of_events(before, own, by.following(before) + rest + TINY * largest)
            phi, psi = terms.received(x)
        # logarithms of the hazards, of which the last is 1
        hazard = -by.after(np.log1p(phi / before))[by.group]
        if terms.tied:
            hazard += np.where(by.events, np.log1p((psi - phi) / (before + phi))[by.group], 0.0)
        begun = (by.ahead(phi)[by.group] > 0.0) & used
        f = np.zeros_like(b)
        f[begun] = np.log(c[begun]) - np.log(costs[begun] / largest) - hazard[begun]
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
        return at, at.given(at.a - at.c), float(at.c @ at.f) - float(at.terms.mass @ at.log_sums)

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

    def newton_aim(self, K: Array, y: Array, costs: Array, f: Array, own: Array) -> Array:
        """Where a step of Newton's method leads, with the whole second derivative: ``(I + L'' K) b = L'' f - L'``.

        Parameters
        ----------
        K : array of shape (n_samples, n_samples)
            Kernel matrix of the training rows.
        y, costs, f, own : arrays of shape (n_samples,)
            Targets, costs of the rows (C times the sample weights), decision values, and minus the derivatives there.
        """
        root = self.root(y, costs, f)
        right = own + root.times(root.transposed(f))
        return right - Coupled(K, root).solve(K @ right)

    def _iterate(self, machine: WithData, K: Array, start: Array, tol: float) -> tuple[Array, int, bool]:
        return solve_reweighted(self, machine, K, start, tol)
