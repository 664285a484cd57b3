"""Margin multiple kernel learning over a convex set of weights: the optimal value of a machine, minimised.

    min_{d in D} J(d) ,    J(d) = max_b reward(b) - 1/2 sum_m d_m q_m(b) ,    q_m(b) = s_m b'K_m b .

J is convex in d. Whatever the method, the result carries the gap of the joint problem: with sigma the support function
of D,

    gap = (gap of the machine on K(d)) + 1/2 (sigma(q) - <d, q>) .

Methods: an active-set Newton method, an interior-point method (interior_point.py) where Newton is slow, the reduced
gradient of SimpleMKL as published, cutting planes (SILP), and the closed form of Lp-norm MKL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import (
    InputError,
    RowWeights,
    Scale,
    Targets,
    as_floats,
    check_finite,
    check_positive,
    check_scale,
)
from kernelweave._loops import core
from kernelweave._parameters import Cost, Function, MaxIter, Nonnegative, OneOf, Tol, checked
from kernelweave._threads import blas_threads_for
from kernelweave.gram import Gram, as_gram
from kernelweave.machines.box import check_start
from kernelweave.machines.losses import as_loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.problem import Callback, Joint, Point, WarmStart
from kernelweave.mkl.steps.interior_point import has_interior, solve_by_interior_point
from kernelweave.mkl.weight_sets import CappedSimplex, LpBall, Simplex, WeightSet, as_weight_set
from kernelweave.results import Solution, Status, relative_gap

Array = NDArray[np.float64]
Index = NDArray[np.int64]

METHODS = ("auto", "newton", "interior-point", "reduced-gradient", "cutting-plane", "closed-form")
LOSSES = ("hinge", "squared-hinge", "epsilon-insensitive")
#: Kernels that are watched: the active ones and those nearest to becoming active.
WATCH_MOST = 40
WATCH_SHARE = 0.5
#: Kernels that share the weight at the start.
FIRST = 40
#: All kernels are looked at when the watched ones have this share left of what all had at the last look, or of J.
CHECK_SHARE = 0.3
CHECK_LARGEST = 0.1
#: The machine is solved to this share of the square of the relative gap of the weights, within these limits. With the
#: squared hinge, 1e-13 as the finest left the forms too inexact for tol = 1e-8.
INNER_SHARE = 0.1
LOOSEST = 1e-2
FINEST = 1e-16
#: Iterations without a lower objective or a smaller gap after which Newton gives up.
PATIENCE = 20
#: Newton that has not made its gap ten times smaller within so many iterations gives way to the interior point. Cold,
#: on 60 problems, it either took at most 18 iterations in all or was slow by this measure within 16. From a warm start,
#: which the interior point cannot use, its iterations are cheaper, and 30 to 40 of them still pay.
SLOW, SLOW_WARM = 15, 40
#: Rows up to which that holds; beyond, Newton gets more iterations in proportion. With 3,000 rows, 10 Gaussian kernels
#: and C = 0.01 its 27 iterations took 2.4 s, and giving way after 15 of them 5.6 s.
SLOW_ROWS = 1000
#: The alternation over a capped simplex that has not made its gap ten times smaller within so many rounds gives way to
#: Newton: kernels that lose their weight by a share near 1 a round kept 13 % of 120 problems above 1e-6 after 500.
SLOW_ROUNDS = 50
#: Share of equal weights in a warm start of the closed form. On eight C-paths over a capped simplex 0.3 took 0.5 to 1
#: times the machines of cold starts, 0 up to 4 times.
LIFT = 0.3
#: Cutting planes step from the best point towards the optimum of the cuts: twice the share after a better point, half
#: after a worse one, within these limits. With whole steps, 200 rows, 100 single columns and C = 100 had a relative gap
#: of 15 after 500 machines and 28 s; so 1e-4 after 319 and 8 s.
FIRST_STEP, SHORTEST_STEP = 0.5, 0.02
#: The line search of the reduced gradient ends at this share of the first derivative, or after so many machines. Shares
#: of 0.1 and 0.3 took 539 and 407 machines on 100 Gaussians.
FLAT_ENOUGH, TRIALS = 0.3, 12
#: Its machines are solved as if so little of the gap were left: derivatives are more exact than the gap needs.
SEARCH_SHARE = 0.03
#: Weights below this are set to zero, as in the SimpleMKL toolbox.
NEGLIGIBLE = 1e-8


@checked
def solve_svm_mkl(
    gram: Gram | ArrayLike,
    y: Targets,
    C: Cost,
    weight_set: str | WeightSet = "simplex",
    *,
    loss: Annotated[str, OneOf(*LOSSES)] = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
    tol: Tol = 1e-4,
    method: Annotated[str, OneOf(*METHODS)] = "auto",
    max_iter: MaxIter = None,
    warm_start: Solution | WarmStart | None = None,
    callback: Annotated[Callback | None, Function() | None] = None,
) -> Solution:
    """Learn kernel weights with a support vector machine, and certify the solution.

    Minimises over weights d in a convex set and over f = <w, phi_d(x)> + intercept with the kernel
    ``K(d) = sum_m d_m s_m K_m``

        1/2 ||w||^2 + sum_i C_i loss(y_i, f_i) ,      C_i = C * sample_weight_i .

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or Gram
        Symmetric PSD matrices, kernels last. Not modified.
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets for ``loss="epsilon-insensitive"``.
    C : float
        Weight of the loss > 0, a sum over samples.
    weight_set : "simplex" or WeightSet, default="simplex"
        ``Simplex()`` (SimpleMKL, SILP), ``CappedSimplex(cap)`` (soft-margin MKL), ``LpBall(p)``.
    loss : {"hinge", "squared-hinge", "epsilon-insensitive"}, default="hinge"
    epsilon : float, default=0.1
        Width of the tube of the epsilon-insensitive loss.
    sample_weight : array of shape (n_samples,), optional
        A weight equals a repetition; rows of weight 0 take no part.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.
    tol : float, default=1e-4
        Stop when ``gap <= tol * primal``.
    method : {"auto", "newton", "interior-point", "reduced-gradient", "cutting-plane", "closed-form"}, default="auto"
        "newton" on the weights, and "interior-point" on weights and coefficients at once, for the simplex and the
        capped simplex; "reduced-gradient" is SimpleMKL with a line search by derivatives, and "cutting-plane" is
        SILP, both for the simplex; "closed-form" alternates the machine and the optimal weights, for Lp balls and the
        capped simplex, where Newton goes on when 50 rounds have not made the gap ten times smaller.
        "auto": Newton, then the interior point where Newton is slow (many kernels of low rank, few rows inside the
        box); the closed form for Lp balls.
    max_iter : int, optional
        Outer iterations. Default: 500.
    warm_start : Solution or WarmStart, optional
        The solution of a similar problem.
    callback : callable, optional
        ``callback(iteration, objective, rel_gap)``; a true value stops the solver.

    Returns
    -------
    Solution
        ``f = K(d) @ dual_coef + intercept``. Non-convergence is reported in ``status``, never raised.

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, C <= 0, one class, a method that does not fit the set.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    An outer iteration of Newton costs one warm-started machine, one combination of the active kernels and products with
    the watched ones; a pass over all kernels is made when the watched ones are solved. A step of the interior point
    costs a combination of all kernels, two products with each, and n_samples^3 / 3; it holds a few times n_kernels *
    n_samples numbers, of 1,000 kernels at first where there are more.

    References
    ----------
    A. Rakotomamonjy et al., SimpleMKL, JMLR 9 (2008). S. Sonnenburg et al., Large scale multiple kernel learning, JMLR
    7 (2006). M. Kloft et al., lp-norm multiple kernel learning, JMLR 12 (2011). X. Xu et al., Soft margin multiple
    kernel learning, IEEE TNNLS 24 (2013).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_svm_mkl
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> gram = X[:, None, :] * X[None, :, :]
    >>> result = solve_svm_mkl(gram, np.sign(X[:, 0] - X[:, 2]), C=1.0)
    >>> np.flatnonzero(result.weights > 0.05), result.rel_gap <= 1e-4
    (array([0, 2]), True)
    """
    joint = make_joint(
        gram, y, C, weight_set, loss=loss, epsilon=epsilon, sample_weight=sample_weight, scale=scale
    )
    most = max_iter or 500
    warm = _check_warm(warm_start, joint)
    run = _solver(method, joint.weight_set)
    with blas_threads_for(joint.gram.n_samples):
        return run(joint, tol, most, warm, callback)


def _check_warm(warm_start: Solution | WarmStart | None, joint: Joint) -> WarmStart:
    """Copy a warm start, so that the caller's stays as it is. It need not be feasible."""
    if warm_start is None:
        return WarmStart()
    if not isinstance(warm_start, (Solution, WarmStart)):
        raise InputError(
            f"`warm_start` must be an earlier result or a WarmStart, got {type(warm_start).__name__}. For weights "
            "alone pass WarmStart(weights)."
        )
    weights, b = warm_start.weights, warm_start.dual_coef
    if weights is not None:
        weights = as_floats(weights, "warm_start.weights")
        if weights.shape != (joint.n_kernels,):
            raise InputError(
                f"`warm_start` must be a solution for {joint.n_kernels} kernels, got weights of shape "
                f"{weights.shape}. Leave it out for another stack."
            )
        check_finite(weights, "warm_start.weights")
    return WarmStart(weights, None if b is None else check_start(b, joint.gram.n_samples))


def make_joint(
    gram: Gram | ArrayLike,
    y: ArrayLike,
    C: float,
    weight_set: str | WeightSet,
    *,
    loss: str = "hinge",
    epsilon: float = 0.1,
    sample_weight: ArrayLike | None = None,
    scale: ArrayLike | None = None,
) -> Joint:
    """Check arrays and put a machine on a stack."""
    stack = as_gram(gram)
    targets = as_floats(y, "y")
    if targets.shape != (stack.n_samples,):
        raise InputError(
            f"`y` must have one entry per row of the kernels, shape ({stack.n_samples},), got {targets.shape}."
        )
    factors = check_scale(scale, stack.n_kernels)
    weights = None if sample_weight is None else as_floats(sample_weight, "sample_weight")
    machine = Machine(targets, check_positive(C, "C"), as_loss(loss, epsilon), weights)
    return Joint(stack, machine, factors, as_weight_set(weight_set, stack.n_kernels))


def _solver(method: str, weight_set: WeightSet) -> Callable[..., Solution]:
    fits: dict[str, tuple[type, ...]] = {
        "newton": (Simplex, CappedSimplex),
        "interior-point": (Simplex, CappedSimplex),
        "reduced-gradient": (Simplex,),
        "cutting-plane": (Simplex,),
        "closed-form": (CappedSimplex, LpBall),
    }
    if method == "auto":
        if isinstance(weight_set, fits["newton"]):
            return solve_by_either
        method = next((m for m, kinds in fits.items() if isinstance(weight_set, kinds)), "")
    if not method or not isinstance(weight_set, fits[method]):
        known = [m for m, kinds in fits.items() if isinstance(weight_set, kinds)]
        if not known:
            raise InputError(
                f"`weight_set` must be convex and bounded here, got {weight_set!r}. Use Simplex(), CappedSimplex(cap) "
                "or LpBall(p)."
            )
        raise InputError(f"`method`={method!r} does not fit {weight_set!r}. Possible: {', '.join(known)}.")
    return {
        "newton": solve_by_newton,
        "interior-point": solve_by_interior_point,
        "reduced-gradient": solve_by_reduced_gradient,
        "cutting-plane": solve_by_cutting_planes,
        "closed-form": solve_by_closed_form,
    }[method]


# ---- Newton on the weights ------------------------------------------------------------------------


def solve_by_either(
    joint: Joint, tol: float, max_iter: int, warm: WarmStart, callback: Callback | None = None
) -> Solution:
    """Newton, and the interior point from where Newton is slow."""
    if not has_interior(joint):
        return solve_by_newton(joint, tol, max_iter, warm, callback)
    # a step of the interior point grows with n^3, an iteration of Newton with about n^2
    rows = max(1.0, joint.gram.n_samples / SLOW_ROWS)
    slow = int((SLOW if warm.weights is None else SLOW_WARM) * rows)
    found = solve_by_newton(joint, tol, max_iter, warm, callback, slow=slow)
    turns: tuple[Callable[..., Solution], ...] = (solve_by_interior_point, solve_by_newton)
    for solver in turns:
        done = found.n_iter
        if found.status in (Status.CONVERGED, Status.ROUNDING, Status.INTERRUPTED) or done >= max_iter:
            break
        # the last turn only polishes
        most = max_iter if solver is solve_by_interior_point else min(max_iter, done + PATIENCE)
        found = _better(found, _after(found, solver, joint, tol, most, warm, callback))
    if found.status is Status.MAX_ITER and found.n_iter < max_iter:
        found = found.ended(Status.STALLED)
    warm.weights, warm.dual_coef = found.weights, found.dual_coef
    return found


def _after(
    found: Solution,
    solver: Callable[..., Solution],
    joint: Joint,
    tol: float,
    max_iter: int,
    warm: WarmStart,
    callback: Callback | None,
) -> Solution:
    """Another solver from what was found; iterations are counted on, and `max_iter` is that of both."""
    done = found.n_iter
    warm.weights, warm.dual_coef = found.weights, found.dual_coef

    def later(iteration: int, objective: float, rel_gap: float) -> object:
        return callback is not None and callback(done + iteration, objective, rel_gap)

    return solver(joint, tol, max_iter - done, warm, later)


def _better(before: Solution, after: Solution) -> Solution:
    """The solution with the smaller gap, with the iterations of both."""
    kept = after if after.gap <= before.gap else before
    return replace(
        kept.ended(after.status),
        n_iter=before.n_iter + after.n_iter,
        n_machines=after.n_machines,
        trace={key: np.r_[before.trace[key], after.trace[key]] for key in before.trace},
    )


def solve_by_newton(
    joint: Joint,
    tol: float,
    max_iter: int,
    warm: WarmStart,
    callback: Callback | None = None,
    *,
    slow: int | None = None,
) -> Solution:
    """Active-set Newton on J, with the second derivative that holds while the free rows stay the same.

    With `slow`, it ends when so many iterations have not made the gap ten times smaller.
    """
    cap = joint.weight_set.cap if isinstance(joint.weight_set, CappedSimplex) else 1.0
    weights, forms = _first_weights(joint, warm, cap)
    watched = _watch(weights, forms, cap)
    history: dict[str, list[float]] = {"objective": [], "rel_gap": [], "n_active": []}
    b = warm.dual_coef
    best: Point | None = None
    best_gap = math.inf
    damping = 1e-10
    rejected = 0
    last: tuple[Point, Array, Array, Array] | None = (
        None  # point, its watched forms, curvature, weights there
    )
    inner = LOOSEST
    idle = 0
    known = math.inf  # what the last look at all kernels left to gain
    status = Status.MAX_ITER
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        K = joint.kernel(weights)
        machine = joint.solve(K, inner, b)
        b = machine.dual_coef
        at = Point(weights, machine)
        if last is not None and machine.primal - machine.own_gap > last[0].machine.primal + 1e-14 * abs(
            machine.primal
        ):
            # J has certainly grown: shorten the step, then trust the model less
            rejected += 1
            for values in history.values():
                values.append(values[-1])
            old, q_old, B, _ = last
            if rejected <= 2:
                weights = 0.5 * (old.weights + weights)
            else:
                damping = min(max(100.0 * damping, 1e-6), 1e6)
                weights = newton_step(q_old, old.weights, B, watched, cap, damping)
            if rejected > 30:
                status = Status.STALLED
                break
            continue
        rejected = 0
        damping = max(0.1 * damping, 1e-10)
        V = joint.products(b, watched)
        q = V @ b
        residual = joint.gram.residual_trace[watched]
        if residual.any():
            q = q + joint.scale[watched] * residual * float(b @ b)
        level = float(weights[watched] @ q)
        outer = 0.5 * max(0.0, _support(joint.weight_set, q) - level)
        gap = machine.own_gap + outer
        primal = machine.primal
        goal = joint.goal(at, tol)
        if outer <= max(0.5 * goal, min(CHECK_SHARE * known, CHECK_LARGEST * abs(primal))) or gap <= goal:
            forms = joint.forms(b)
            forms[watched] = q
            outer = known = 0.5 * max(0.0, joint.weight_set.support(forms) - level)
            gap = machine.own_gap + outer
            if outer > 0.5 * goal:
                grown = np.union1d(np.flatnonzero(weights > 0), _watch(weights, forms, cap))
                grown = np.union1d(watched, grown)
                if len(grown) > len(watched):
                    watched = grown
                    V = joint.products(b, watched)
                    q = forms[watched]
        history["objective"].append(primal)
        history["rel_gap"].append(relative_gap(primal, gap))
        history["n_active"].append(float(np.count_nonzero(weights)))
        idle = (
            0
            if gap < 0.9 * best_gap or len(history["objective"]) < 2 or _fell(history["objective"])
            else idle + 1
        )
        if gap < best_gap:
            best, best_gap = at, gap
        if gap <= goal:
            status = Status.CONVERGED
            break
        gaps = history["rel_gap"]
        if idle > PATIENCE or (slow and len(gaps) > slow and min(gaps) > 0.1 * min(gaps[:-slow])):
            status = Status.STALLED
            break
        if callback is not None and callback(n_iter, primal, relative_gap(primal, gap)):
            status = Status.INTERRUPTED
            break
        # a warm machine that is already within the tolerance does not answer to the step: ask for more
        inner = max(inner_tol(outer / abs(primal), tol) * 0.1**idle, FINEST)
        if machine.own_gap > outer:
            # the machine is what is left
            inner = min(inner, 0.1 * relative_gap(primal, machine.own_gap))
            if machine.status is Status.STALLED:
                status = machine.status
                break
        B = joint.machine.curvature(K, b, V)
        last = (at, q, B, weights)
        weights = newton_step(q, weights, B, watched, cap, damping)
    if best is None:
        best = at
    warm.weights, warm.dual_coef = best.weights, best.machine.dual_coef
    return joint.result(best, tol, status, n_iter, history)


def _fell(values: list[float]) -> bool:
    """Whether the last objective is a new lowest, beyond rounding."""
    before = min(values[:-1])
    return values[-1] < before - 1e-10 * abs(before)


def inner_tol(outer: float, tol: float) -> float:
    """Tolerance of the next machine: forms are as wrong as the root of its gap, so it is the square of what is left."""
    return float(np.clip(min(INNER_SHARE * outer**2, INNER_SHARE * tol), FINEST, LOOSEST))


def _support(weight_set: WeightSet, q: Array) -> float:
    return float(q.max()) if isinstance(weight_set, Simplex) else weight_set.support(q)


def _start(joint: Joint, warm: WarmStart) -> Array:
    """Weights to start from: equal ones, or those handed on, made feasible."""
    if warm.weights is None:
        return joint.weight_set.start(joint.n_kernels)
    return joint.weight_set.project(np.asarray(warm.weights, dtype=np.float64))


def _first_weights(joint: Joint, warm: WarmStart, cap: float) -> tuple[Array, Array]:
    """Starting weights, and forms that rank the kernels: those of the machine on the average kernel."""
    if warm.weights is not None and warm.dual_coef is not None:
        return _start(joint, warm), joint.forms(warm.dual_coef)
    equal = np.full(joint.n_kernels, 1.0 / joint.n_kernels)
    machine = joint.solve(joint.kernel(equal), LOOSEST, warm.dual_coef)
    warm.dual_coef = machine.dual_coef
    forms = joint.forms(machine.dual_coef)
    if warm.weights is not None:
        return _start(joint, warm), forms
    weights = np.zeros(len(forms))
    few = max(min(FIRST, len(forms)), math.ceil(1.0 / cap - 1e-12))
    weights[np.argsort(-forms, kind="stable")[:few]] = 1.0 / few
    return weights, forms


def _watch(weights: Array, forms: Array, cap: float) -> Index:
    """Active kernels, and those whose forms are nearest to the level at which a kernel becomes active."""
    full = math.ceil(1.0 / cap - 1e-12)
    most = min(full - 1 + WATCH_MOST, len(forms))
    near = np.argpartition(-forms, most - 1)[:most]
    level = np.sort(forms[near])[-min(full, most)]
    near = near[forms[near] >= WATCH_SHARE * level]
    return np.union1d(np.flatnonzero(weights > 0), near)


def newton_step(
    q: Array, weights: Array, B: Array, watched: Index, cap: float, damping: float, *, plain: bool = False
) -> Array:
    """Minimise the local quadratic model of J over the watched kernels."""
    own = weights[watched]
    level = max(float(own @ q), np.finfo(float).tiny)
    H = B.copy()
    mean, top = float(np.trace(B)) / len(B), float(q.max())
    # kernels that add nothing hold all the weight: their level is no scale
    lost = level < 1e-12 * top
    # what the model lacks when no row is free
    H.flat[:: len(H) + 1] += damping * max(mean, top if lost else level) + np.finfo(float).tiny
    # Newton for q^(-1/2) = const takes longer steps than the plain model, and agrees with it at the solution
    drive = 0.5 * (q - level)
    if not (plain or cap < 1.0 or lost):
        # below the level the longer step is the plain one: the other vanishes with q, and a kernel that adds nothing
        # would keep its weight
        drive = np.where(q > level, q * (np.sqrt(np.maximum(q, 0.0) / level) - 1.0), drive)
    linear = -drive - H @ own
    x = own.copy()
    if cap < 1.0:
        x = np.clip(x / x.sum(), 0.0, cap)
        x[np.argmin(x)] += 1.0 - x.sum()
        gradient = H @ x + linear
        core.box_smo(
            H, np.zeros(len(x)), np.zeros(len(x)), np.full(len(x), cap), 0.0, x, gradient,
            1e-12 * max(level, 1e-300), 100_000, False,
        )  # fmt: skip
    else:
        core.simplex_qp(H, linear, x, 1e-13, 20 * len(x) + 100)
    x = np.clip(x, 0.0, cap)
    total = float(x.sum())
    if not np.isfinite(total) or total <= 0.0:
        return weights
    out = np.zeros_like(weights)
    out[watched] = x / total
    return out


# ---- SimpleMKL ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Trial(Point):
    """Weights with the machine solved at them and the quadratic forms of its coefficients.

    Attributes
    ----------
    q : array of shape (n_kernels,)
    """

    q: Array

    def slope(self, D: Array) -> float:
        """The derivative of J along a direction."""
        return -0.5 * float(D @ self.q)

    def above(self, other: Point) -> bool:
        """Whether J is certainly larger than at another point."""
        level = other.machine.primal
        return self.machine.primal - self.machine.own_gap > level + 1e-14 * abs(level)


@dataclass
class _Look:
    """Machines solved only as finely as the search needs, each from the last."""

    joint: Joint
    b: Array | None
    inner: float

    def __call__(self, weights: Array) -> _Trial:
        found = self.joint.solve(self.joint.kernel(weights), self.inner, self.b)
        self.b = found.dual_coef
        return _Trial(weights, found, self.joint.forms(found.dual_coef))


def solve_by_reduced_gradient(
    joint: Joint, tol: float, max_iter: int, warm: WarmStart, callback: Callback | None = None
) -> Solution:
    """The reduced gradient of SimpleMKL: descend along the largest feasible steps, then search between the last two.

    Directions and steps are those of the paper. Its line search compares values (golden section); here it goes by the
    sign of the derivative, which every machine gives with its coefficients, and ends at a share of the first
    derivative. Machines are solved to the square of what is left instead of to a fixed tolerance. 200 rows, 100
    Gaussians of single columns, C = 1e4, tol = 1e-4: 409 machines instead of 3,822.
    """
    weights = _start(joint, warm)
    # negligible weights would end every step at once
    weights = np.where(weights < NEGLIGIBLE, 0.0, weights)
    weights /= weights.sum()
    look = _Look(joint, warm.dual_coef, 0.1 * tol)
    at = best = look(weights)
    best_gap = math.inf
    history: dict[str, list[float]] = {"objective": [], "rel_gap": [], "n_active": []}
    status = Status.MAX_ITER
    finest = 1.0
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        primal = at.machine.primal
        outer = 0.5 * max(0.0, float(at.q.max()) - float(at.weights @ at.q))
        own = at.machine.own_gap + outer
        history["objective"].append(primal)
        history["rel_gap"].append(relative_gap(primal, own))
        history["n_active"].append(float(np.count_nonzero(at.weights)))
        if own < best_gap:
            best, best_gap = at, own
        if own <= joint.goal(at, tol):
            status = Status.CONVERGED
            break
        if callback is not None and callback(n_iter, primal, relative_gap(primal, own)):
            status = Status.INTERRUPTED
            break
        if at.machine.own_gap > outer:
            # the machine is what is left
            finest = min(finest, max(0.1 * relative_gap(primal, at.machine.own_gap), FINEST))
        look.inner = min(inner_tol(SEARCH_SHARE * relative_gap(primal, outer), tol), finest)
        moved = _reduced_gradient_step(at, look)
        while moved is None and look.inner > FINEST:
            # near the optimum the objective is flat: a line search sees no more than the machines resolve
            finest = look.inner = max(1e-3 * look.inner, FINEST)
            at = look(at.weights)
            moved = _reduced_gradient_step(at, look)
        if moved is None:
            status = Status.STALLED
            break
        at = moved
    warm.weights, warm.dual_coef = best.weights, best.machine.dual_coef
    return joint.result(best, tol, status, n_iter, history)


def _reduced_gradient_step(at: _Trial, look: _Look) -> _Trial | None:
    gradient = -0.5 * at.q
    gradient = gradient / np.linalg.norm(gradient)
    base = int(np.argmax(at.weights))
    reduced = gradient - gradient[base]
    D = np.where((at.weights > 0) | (reduced < 0), -reduced, 0.0)
    D[base] = 0.0
    D[base] = -float(D.sum())
    point = at
    there: _Trial | None = None
    length = 0.0
    while (falling := D < 0).any():
        ratio = np.full(len(D), np.inf)
        ratio[falling] = -point.weights[falling] / D[falling]
        blocking = int(np.argmin(ratio))
        length = float(ratio[blocking])
        ahead = np.maximum(point.weights + length * D, 0.0)
        ahead[blocking] = 0.0
        there = look(ahead / ahead.sum())
        if there.machine.primal >= point.machine.primal:
            break
        point, there = there, None
        # the blocked weight stays at zero, and the direction is made to sum to zero again
        D[blocking] = 0.0
        base = int(np.argmax(point.weights))
        D[base] = 0.0
        D[base] = -float(D.sum())
    if there is not None:
        point = _search(point, there, D, length, look) or point
    if point is at:
        return None
    weights = np.where(point.weights < NEGLIGIBLE, 0.0, point.weights)
    return point if np.array_equal(weights, point.weights) else look(weights / weights.sum())


def _search(start: _Trial, end: _Trial, D: Array, length: float, look: _Look) -> _Trial | None:
    """The line search, by the sign of the derivative; None when nothing between the two points is lower.

    J is convex: where its derivative is still negative, it is lower than at the start, even where values differ by
    less than the gaps of the machines.
    """
    first = left = start.slope(D)
    right = end.slope(D)
    if not first < 0.0:
        return None
    if right <= 0.0 and not end.above(start):
        return end
    low, high = 0.0, length
    best = None
    for trial in range(TRIALS):
        # regula falsi; in between the middle, or closer to the start as long as nothing was lower
        step = low + (high - low) * left / (left - right) if right > 0.0 else 0.5 * (low + high)
        if trial % 3 == 2:
            step = 0.5 * (low + high) if low > 0.0 else 0.1 * high
        d = np.maximum(start.weights + step * D, 0.0)
        there = look(d / d.sum())
        slope, above = there.slope(D), there.above(start)
        if abs(slope) <= FLAT_ENOUGH * abs(first) and not above:
            return there
        if slope < 0.0 and not above:
            low, left, best = step, slope, there
        else:
            high, right = step, slope
    return best


# ---- SILP -----------------------------------------------------------------------------------------


def solve_by_cutting_planes(
    joint: Joint, tol: float, max_iter: int, warm: WarmStart, callback: Callback | None = None
) -> Solution:
    """Column generation: every machine gives a cut of J, a linear program gives the direction of the next weights."""
    from scipy.optimize import linprog

    weights = _start(joint, warm)
    b = warm.dual_coef
    rows: list[Array] = []
    rewards: list[float] = []
    history: dict[str, list[float]] = {"objective": [], "rel_gap": [], "n_active": []}
    best: Point | None = None
    lower = -math.inf  # best bound of the optimum, and the same less its rounding errors
    certain = -math.inf
    step = FIRST_STEP
    errors: list[float] = []
    status = Status.MAX_ITER
    n_iter = 0
    m = joint.n_kernels
    for n_iter in range(1, max_iter + 1):
        machine = joint.solve(joint.kernel(weights), 0.1 * tol, b)
        b = machine.dual_coef
        q = joint.forms(b)
        at = Point(weights, machine)
        if best is None or machine.primal < best.machine.primal:
            best = at
            step = min(2.0 * step, 1.0)
        else:
            step = max(0.5 * step, SHORTEST_STEP)
        level = float(weights @ q) - joint.left_out(weights, b)
        bound = machine.primal - machine.own_gap - 0.5 * max(0.0, float(q.max()) - level)
        errors.append(machine.rounding + float(joint.forms_error(b, q).max()))
        lower, certain = max(lower, bound), max(certain, bound - errors[-1])
        own = max(0.0, best.machine.primal - lower)
        gap = relative_gap(best.machine.primal, own)
        history["objective"].append(best.machine.primal)
        history["rel_gap"].append(gap)
        history["n_active"].append(float(np.count_nonzero(weights)))
        if own <= joint.goal(best, tol):
            status = Status.CONVERGED
            break
        if callback is not None and callback(n_iter, best.machine.primal, gap):
            status = Status.INTERRUPTED
            break
        # J(d) >= reward - <d, q> / 2 for every b found so far
        rows.append(q)
        rewards.append(joint.machine.reward(b))
        size = max(abs(machine.primal), 1e-300)
        A = np.column_stack([-0.5 * np.array(rows) / size, -np.ones(len(rows))])
        found = linprog(
            np.r_[np.zeros(m), 1.0],
            A_ub=A,
            b_ub=-np.array(rewards) / size,
            A_eq=np.r_[np.ones(m), 0.0][None],
            b_eq=[1.0],
            bounds=[(0.0, None)] * m + [(None, None)],
            method="highs",
        )
        if found.x is None:
            status = Status.STALLED
            break
        # any average of the cuts is a bound; the one of the multipliers is the value of the program, but for its
        # tolerance
        average = np.maximum(-found.ineqlin.marginals, 0.0)
        average /= average.sum()
        bound = float(average @ rewards) - 0.5 * float((average @ np.array(rows)).max())
        lower, certain = max(lower, bound), max(certain, bound - float(average @ errors))
        target = np.maximum(found.x[:m], 0.0)
        target /= target.sum()
        # between the best point and that of the program, which jumps from corner to corner
        weights = step * target + (1.0 - step) * best.weights
        weights[(weights < NEGLIGIBLE) & (target == 0.0)] = 0.0
        weights /= weights.sum()
    assert best is not None
    warm.weights, warm.dual_coef = best.weights, best.machine.dual_coef
    # the bound of the cuts holds whatever the coefficients are
    own = max(0.0, best.machine.primal - lower)
    rounding = best.machine.rounding + lower - certain
    return joint.certified(best, own, rounding, tol, status, n_iter, history, "cuts")


# ---- closed form ----------------------------------------------------------------------------------


def solve_by_closed_form(
    joint: Joint, tol: float, max_iter: int, warm: WarmStart, callback: Callback | None = None
) -> Solution:
    """Alternate the machine and the best weights for its norms ``|w_m|^2 = d_m^2 q_m``.

    Over a capped simplex this converges linearly, and slowly where a kernel is just not wanted: there Newton, which
    knows that weights may vanish, goes on from what was reached.
    """
    if not isinstance(joint.weight_set, CappedSimplex):
        return _alternate(joint, tol, max_iter, warm, callback)
    found = _alternate(joint, tol, max_iter, warm, callback, slow=SLOW_ROUNDS)
    if found.status is not Status.STALLED or found.n_iter >= max_iter:
        return found
    return _better(found, _after(found, solve_by_either, joint, tol, max_iter, warm, callback))


def _alternate(
    joint: Joint,
    tol: float,
    max_iter: int,
    warm: WarmStart,
    callback: Callback | None = None,
    *,
    slow: int | None = None,
) -> Solution:
    """The closed form itself; with `slow`, it ends when so many rounds have not made the gap ten times smaller."""
    weights = _start(joint, warm)
    sparse = isinstance(joint.weight_set, CappedSimplex)
    b = warm.dual_coef
    history: dict[str, list[float]] = {"objective": [], "rel_gap": [], "n_active": []}
    status = Status.MAX_ITER
    best: Point | None = None
    best_gap = math.inf
    inner = LOOSEST
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        machine = joint.solve(joint.kernel(weights), inner, b)
        b = machine.dual_coef
        q = joint.forms(b)
        at = Point(weights, machine)
        outer = 0.5 * max(0.0, joint.weight_set.support(q) - float(weights @ q))
        gap = machine.own_gap + outer
        rel = relative_gap(machine.primal, gap)
        if gap < best_gap:
            best, best_gap = at, gap
        history["objective"].append(machine.primal)
        history["rel_gap"].append(rel)
        history["n_active"].append(float(np.count_nonzero(weights)))
        if gap <= joint.goal(at, tol):
            status = Status.CONVERGED
            break
        if callback is not None and callback(n_iter, machine.primal, rel):
            status = Status.INTERRUPTED
            break
        gaps = history["rel_gap"]
        if slow and len(gaps) > slow and min(gaps) > 0.1 * min(gaps[:-slow]):
            status = Status.STALLED
            break
        inner = inner_tol(outer / abs(machine.primal), tol)
        if machine.own_gap > outer:
            inner = min(inner, 0.1 * relative_gap(machine.primal, machine.own_gap))
        if n_iter == 1 and warm.weights is not None and (sparse or not weights.all()):
            # a weight of zero, which only a warm start brings, would stay zero for ever, and a tiny one nearly so
            weights = (1.0 - LIFT) * weights + LIFT * joint.weight_set.start(joint.n_kernels)
        norms = weights * np.sqrt(np.maximum(q, 0.0))
        weights = _best_weights(joint.weight_set, norms)
    assert best is not None
    warm.weights, warm.dual_coef = best.weights, best.machine.dual_coef
    return joint.result(best, tol, status, n_iter, history)


def _best_weights(weight_set: WeightSet, norms: Array) -> Array:
    """``argmin sum_m norms_m^2 / d_m`` over the set."""
    if isinstance(weight_set, LpBall):
        p = weight_set.p
        top = float(norms.max())
        if top == 0.0:
            return weight_set.start(len(norms))
        shape = (norms / top) ** (2.0 / (p + 1.0))
        return shape / float(np.sum(shape**p)) ** (1.0 / p)
    assert isinstance(weight_set, CappedSimplex)
    return _best_capped(norms, weight_set.cap)


def _best_capped(norms: Array, cap: float) -> Array:
    """Proportional to the norms, the largest held at the cap."""
    order = np.argsort(-norms, kind="stable")
    sorted_norms = norms[order]
    tail = np.r_[np.cumsum(sorted_norms[::-1])[::-1], 0.0]
    out = np.zeros(len(norms))
    for held in range(len(norms)):
        rest = 1.0 - held * cap
        if rest <= 0.0:
            break
        if tail[held] <= 0.0:
            # fewer kernels matter than the cap needs: the others share what is left
            out[held:] = rest / (len(norms) - held)
            break
        if sorted_norms[held] * rest / tail[held] <= cap * (1 + 1e-12):
            out[held:] = sorted_norms[held:] * rest / tail[held]
            break
        out[held] = cap
    result = np.empty(len(norms))
    result[order] = np.minimum(out, cap)
    return result / result.sum()
