"""Margin multiple kernel learning with a limit on the number of kernels, solved to a stated gap.

    min  J(d) + ridge |d|^2     over d on the simplex with at most k weights that are not zero,

where J is the optimal value of a machine. Over a given subset S of kernels that is the convex problem of
`kernelweave.mkl.svm_mkl`, with value v(S), which never rises when a kernel is added. All dual feasible coefficients b
bound the values of *all* subsets from below: with q_m = s_m b'K_m b,

    v(S) >= B(S; b) = max over t in (0, 1] of   dual_term(t b) + min over d on the simplex of S of
                      (ridge |d|^2 - t^2/2 sum_m d_m q_m) ,

and at the solution of S itself the two agree. Without a ridge B depends on the largest q_m in S alone: a subset that is
better than the best known one must contain one of the kernels whose q_m is above a threshold. `Subsets` stores all
coefficients, and `Search` branches on the shortest list of kernels of which one is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, cast

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._allowance import used_up
from kernelweave._checks import RowWeights, Scale, Targets
from kernelweave._parameters import (
    Cost,
    Function,
    MaxIter,
    MaxTime,
    Nonnegative,
    Tol,
    Whole,
    checked,
    renamed,
)
from kernelweave._threads import blas_threads_for
from kernelweave._types import Array, Index
from kernelweave.gram import Gram, as_gram
from kernelweave.machines.losses import GivenLoss, as_loss
from kernelweave.machines.rounding import entry_error
from kernelweave.mkl.branch_and_bound import Search, Subsets
from kernelweave.mkl.certify import OUTSIDE, feasible, outside
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.loop import Callback
from kernelweave.mkl.problem import Problem
from kernelweave.mkl.simplex_ridge import solve_ridge
from kernelweave.mkl.solve import check_warm, solve_problem
from kernelweave.results import Certificate, Solution, Status, WarmStart, relative_gap

#: Most nodes of the tree.
MOST = 1000
#: Values of subsets are computed to this share of the tolerance, those of relaxations to no less than the second.
SHARE = 0.2
RELAXED = 1e-5
#: Swaps tried before the search, for each kernel that may have a weight.
SWAPS = 5


@dataclass(frozen=True)
class CardinalitySolution(Solution):
    """Weights of at most k kernels; by the bounds of `proof` no subset of k kernels has a value below `dual`.

    Attributes
    ----------
    n_nodes : int
        Number of examined nodes of the tree.
    """

    n_nodes: int = 0


@dataclass(frozen=True)
class CardinalityProblem:
    """A machine on a stack of kernels of which at most `k` may have a weight.

    Attributes
    ----------
    whole : KernelProblem
        The same without the limit and without the ridge.
    k : int
    ridge : float
        Factor of the squared weights.
    """

    whole: KernelProblem
    k: int
    ridge: float = 0.0

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.whole.n_kernels

    def on(self, members: Index) -> KernelProblem:
        """The problem of some kernels alone, without a limit."""
        whole = self.whole
        return KernelProblem(whole.gram.take(members), whole.machine, whole.scale[members], whole.weight_set)

    def penalty(self, weights: Array) -> float:
        """``ridge |d|^2``."""
        return self.ridge * float(weights @ weights)

    def certify(self, solution: Solution) -> Certificate:
        """The value of the weights and the bound of the coefficients of the proof, both recomputed."""
        machine, weights = self.whole.machine, solution.weights
        apart = max(float(-weights.min()), abs(math.fsum(weights) - 1.0))
        proof = solution.proof
        if (
            not apart <= OUTSIDE
            or np.count_nonzero(weights) > self.k
            or not len(proof)
            or not feasible(machine, proof)
        ):
            return outside("cardinality")
        used = np.flatnonzero(weights)
        part = self.on(used)
        with blas_threads_for(self.whole.gram.n_samples):
            found = machine.certify(
                part.combine(weights[used]),
                solution.dual_coef,
                float(solution.intercept),
                entry_error=entry_error(int(part.gram.terms.sum())),
            )
            # bounds alone, with the reported one as the target
            proven = Subsets(self.whole, self.ridge, self.k, solution.dual + solution.rounding)
            for b in proof:
                proven.add(b)
        primal = found.primal + self.penalty(weights)
        search = Search(proven)
        search.run(10**9, lambda: False)
        own = max(0.0, primal - search.bound)
        return Certificate.of("cardinality", primal, own, found.rounding, Status.CONVERGED)


class Kernels(Subsets):
    """Subsets of kernels during the search: values are computed, and the best point is stored.

    The target is the value of the best weights so far, less the tolerance.

    Parameters
    ----------
    problem : CardinalityProblem
    tol : float
        Relative gap.
    """

    def __init__(self, problem: CardinalityProblem, tol: float) -> None:
        super().__init__(problem.whole, problem.ridge, problem.k)
        self.problem, self.tol = problem, tol
        self.best: Solution | None = None
        self.n_machines = 0
        self._known: dict[bytes, Solution] = {}

    def compute(self, members: Index, near: Solution | None = None) -> Solution:
        """Solve the convex problem of these kernels; with few enough of them it is a candidate."""
        members = np.sort(members)
        key = members.tobytes()
        if key in self._known:
            return self._known[key]
        tol = SHARE * self.tol
        if len(members) > self.most:
            tol = max(tol, RELAXED)
        found = solve_convex(self.problem, members, tol, near)
        self.n_machines += found.n_machines
        self.add(found.dual_coef)
        self._known[key] = found
        best = math.inf if self.best is None else self.best.primal
        if np.count_nonzero(found.weights) <= self.most and found.primal < best:
            self.best = found
            # half of the tolerance is for the bounds, and the rest for their rounding errors
            self.target = found.primal - 0.5 * self.tol * abs(found.primal)
        return found

    def improve(self, near: Solution, start: Array | None, late: Callable[[], bool]) -> None:
        """Candidates: the largest weights of a relaxation, and swaps of one kernel as long as one may improve it."""
        for weights in (near.weights, start):
            if weights is not None:
                order = np.argsort(-weights, kind="stable")[: self.most]
                self.compute(order, near)
        tried = 0
        while self.best is not None and tried < SWAPS * self.most and not late():
            used = np.flatnonzero(self.best.weights)
            swaps = [np.setdiff1d(used, [m]) for m in used]
            if len(used) < self.most:
                swaps = [used]
            free = np.setdiff1d(np.arange(self.n_members), used)
            if not len(free):
                return
            bounds = np.array([self.bounds_with(swap, free) for swap in swaps])
            out, new = np.unravel_index(int(np.argmin(bounds)), bounds.shape)
            if bounds[out, new] >= self.target:
                return
            self.compute(np.append(swaps[out], free[new]), self.best)
            tried += 1


def solve_convex(
    problem: CardinalityProblem, members: Index, tol: float, near: Solution | None = None
) -> Solution:
    """Minimise over the simplex of some kernels; weights of the others are zero."""
    part = problem.on(members)
    warm = WarmStart()
    if near is not None:
        warm.dual_coef = near.dual_coef
        own = near.weights[members]
        if own.any():
            warm.weights = part.weight_set.project(own / own.sum())
    if problem.ridge == 0.0 or len(members) == 1:
        found = solve_problem(part, tol=tol, warm=warm if warm.dual_coef is not None else None)
        c, by = found.certificate, problem.penalty(found.weights)
        found = replace(found, certificate=replace(c, primal=c.primal + by, dual=c.dual + by))
    else:
        found = solve_ridge(part, problem.ridge, tol, warm)
    weights = np.zeros(problem.n_kernels)
    weights[members] = found.weights
    return replace(found, weights=weights)


@renamed(warm_start="start")
@checked
def solve_cardinality_mkl(
    gram: Gram | ArrayLike,
    y: Targets,
    C: Cost,
    k: Annotated[int, Whole(1)],
    *,
    ridge: Nonnegative = 0.0,
    loss: GivenLoss = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
    tol: Tol = 1e-6,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    start: Solution | WarmStart | None = None,
    callback: Annotated[Callback | None, Function() | None] = None,
) -> CardinalitySolution:
    """Learn the weights of at most k kernels with a support vector machine, with a proven bound of the optimum.

    Minimises over weights d on the simplex, of which at most k are not zero, and over f = <w, phi_d(x)> + intercept
    with the kernel ``K(d) = sum_m d_m s_m K_m``

        1/2 ||w||^2 + sum_i C_i loss(y_i, f_i) + ridge sum_m d_m^2 ,      C_i = C * sample_weight_i .

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels) or Gram
        Symmetric PSD matrices, kernels last. Not modified.
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets for ``loss="epsilon-insensitive"``.
    C : float
        Weight of the loss > 0, a sum over samples.
    k : int
        Most kernels with a weight, at least 1. As many as there are kernels, or more, are no limit.
    ridge : float, default=0.0
        Factor of the squared weights, in units of the objective; larger values make the nonzero weights more equal.
    loss : str or Loss, default="hinge"
        A loss of `kernelweave.losses`, which lists all, or its name: "hinge" for labels, "squared" for numbers.
    epsilon : float, default=0.1
        Half width of the tube of the epsilon-insensitive loss.
    sample_weight : array of shape (n_samples,), optional
        A weight is equivalent to a repetition; rows of weight 0 are ignored.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``, with the gap to the smallest bound of all subsets.
    max_iter : int, optional
        Nodes of the tree. Default: 1000.
    max_time : float, optional
        Seconds after which no further node is computed.
    start : Solution or WarmStart, optional
        The solution of a similar problem, whose subset is tried first.
    callback : callable, optional
        ``callback(node, objective, rel_gap)`` before every node; a true value stops the solver.

    Returns
    -------
    CardinalitySolution
        ``f = K(d) @ dual_coef + intercept``. Its certificate is of kind ``"cardinality"``: `dual` is the smallest bound
        of the subsets of k kernels, over all nodes. If nodes or time end the search, `gap` bounds the distance from
        the optimum, and the status is ``MAX_ITER`` or ``MAX_TIME``.
        Ctrl-C returns the best weights so far. `trace` holds ``objective``, ``rel_gap`` and ``n_open`` at every node.

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, C <= 0, k < 1, one class.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    The problem is NP-hard; the number of subsets to compute depends on the differences between the best of them. A
    node costs the convex problem of its remaining kernels, and those of a few subsets of at most k kernels.

    The source solves the problem with the hinge loss by a local search, and bounds it by semidefinite programs; here
    the search is exhaustive, and ends with the best subset or a gap. Its problem has the same terms, with
    ``ridge = lambda``.

    References
    ----------
    D. Bertsimas, C. de Prospero Iglesias, N. A. G. Johnson, Sparse multiple kernel learning: alternating best response
    and semidefinite relaxations, arXiv 2511.21890 (2025).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.solvers import solve_cardinality_mkl
    >>> X = np.random.default_rng(0).normal(size=(40, 6))
    >>> gram = X[:, None, :] * X[None, :, :]
    >>> result = solve_cardinality_mkl(gram, np.sign(X[:, 0] - X[:, 2] + X[:, 4]), C=1.0, k=2)
    >>> np.flatnonzero(result.weights), result.rel_gap <= 1e-6
    (array([0, 2]), True)
    """
    stated = Problem(
        as_gram(gram), y, as_loss(loss, epsilon), "simplex", C, sample_weight, scale, fit_intercept=True
    )
    whole = cast(KernelProblem, stated.form)
    warm = check_warm(start, whole.n_kernels, whole.gram.n_samples)
    problem = CardinalityProblem(whole, min(k, whole.n_kernels), ridge)
    return solve_cardinality(problem, tol=tol, max_iter=max_iter, warm=warm, callback=callback)


def solve_cardinality(
    problem: CardinalityProblem,
    *,
    tol: float,
    max_iter: int | None = None,
    warm: WarmStart | None = None,
    callback: Callback | None = None,
) -> CardinalitySolution:
    """`solve_cardinality_mkl` on a checked problem."""
    kernels = Kernels(problem, tol)
    search = Search(kernels)
    trace: dict[str, list[float]] = {"objective": [], "rel_gap": [], "n_active": [], "n_open": []}

    def late() -> bool:
        return used_up() == "seconds"

    def stop() -> bool:
        best = kernels.best
        assert best is not None
        gap = relative_gap(best.primal, max(0.0, best.primal - search.bound))
        for key, value in (
            ("objective", best.primal), ("rel_gap", gap),
            ("n_active", float(np.count_nonzero(best.weights))), ("n_open", float(search.n_open)),
        ):  # fmt: skip
            trace[key].append(value)
        if callback is not None and callback(search.n_nodes + 1, best.primal, gap):
            raise KeyboardInterrupt
        return late()

    most = max_iter or MOST
    with blas_threads_for(problem.whole.gram.n_samples):
        try:
            start = warm.weights if warm is not None else None
            near = None
            if warm is not None and warm.dual_coef is not None and start is not None:
                near = Solution(start, warm.dual_coef, 0.0, Certificate("joint", 0.0, 0.0, 0.0), 0)
            whole = kernels.compute(np.arange(problem.n_kernels), near)
            kernels.improve(whole, start, late)
            finished = search.run(most, stop)
            status = Status.CONVERGED if finished else Status.MAX_TIME if late() else Status.MAX_ITER
        except KeyboardInterrupt:
            if kernels.best is None:
                raise
            status = Status.INTERRUPTED
    best = kernels.best
    assert best is not None
    # before the search, there is one bound for all subsets
    everything = kernels.bound(np.empty(0, np.int64), np.arange(problem.n_kernels), kernels.most)
    own = max(0.0, best.primal - max(search.bound, everything))
    return CardinalitySolution(
        weights=best.weights,
        dual_coef=best.dual_coef,
        intercept=best.intercept,
        certificate=Certificate.of("cardinality", best.primal, own, best.rounding, status, tol=tol),
        n_iter=max(1, search.n_nodes),
        n_machines=kernels.n_machines,
        trace={key: np.asarray(values) for key, values in trace.items()},
        proof=np.array(kernels.coefficients),
        n_nodes=search.n_nodes,
    )
