"""Problems on a stack of kernels: what they have in common, that of a machine, and its session during a solution."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import blas

from kernelweave._loops import core
from kernelweave._threads import blas_threads_for, threads_for
from kernelweave._types import Array, Index
from kernelweave.gram import Gram
from kernelweave.machines.box import Trained
from kernelweave.machines.machine import Machine
from kernelweave.machines.rounding import entry_error, imbalance, sum_error
from kernelweave.mkl.certify import OUTSIDE, feasible, outside, term_error
from kernelweave.mkl.loop import Loop, SessionOf, Step, most_work
from kernelweave.mkl.weight_sets import ShareSet, WeightSet
from kernelweave.results import Certificate, Solution, Statement, Status, WarmStart

#: Machines are solved to this share of the square of the relative gap of the weights, within these limits.
INNER_SHARE = 0.1
LOOSEST = 1e-2
FINEST = 1e-16

#: Of a solution whose numbers have not been certified yet.
UNKNOWN = Certificate("joint", math.inf, -math.inf, math.inf)


class OnStack:
    """A problem on a stack of kernels, each with a factor ``s_m > 0``."""

    gram: Gram
    scale: Array

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.gram.n_kernels

    @cached_property
    def residual(self) -> Array | None:
        """``s_m`` times a bound of the trace that factors leave out; None if they are exact."""
        left = self.gram.residual_trace
        return self.scale * left if left.any() else None

    def quad(self, C: Array, kernels: Index | None = None) -> Array:
        """Upper bounds of ``sum_t s_m c_t' K_m c_t`` for rows c_t of C, shape (len(kernels),), exact if K_m is."""
        pick = slice(None) if kernels is None else kernels
        values = self.scale[pick] * self.gram.quadratic_forms(np.atleast_2d(C), kernels)
        return values if self.residual is None else values + self.residual[pick] * float(np.vdot(C, C))

    def products(self, C: Array, kernels: Index | None = None) -> Array:
        """``s_m K_m c_t``, shape (len(kernels), n_outputs, n_samples), or (len(kernels), n_samples) for a vector."""
        V = self.gram.matvecs(np.atleast_2d(C), kernels)
        V *= (self.scale if kernels is None else self.scale[kernels])[:, None, None]
        return V if C.ndim == 2 else V[:, 0]


@dataclass(frozen=True, eq=False)
class KernelProblem(OnStack):
    """A machine on a stack of kernels, and the set of their weights.

    Attributes
    ----------
    gram : Gram
    machine : Machine
    scale : array of shape (n_kernels,)
    weight_set : WeightSet
    """

    gram: Gram
    machine: Machine
    scale: Array
    weight_set: WeightSet
    #: Certificates of its solutions are its own.
    certifies_itself: ClassVar[bool] = True
    least_squares: ClassVar[bool] = False
    #: Whether the machine depends on the weights, as `machine_at` says.
    varies: ClassVar[bool] = False
    #: Coefficients of the last solution and their quadratic forms, which rank the kernels for the next one of a path.
    last: ClassVar[tuple[Array, Array] | None] = None

    def at(self, C: float) -> KernelProblem:
        """The problem with another weight of the loss, and what is known of the kernels."""
        other = copy.copy(self)
        vars(other)["machine"] = replace(self.machine, C=C)
        return other

    def combine(self, weights: Array, out: Array | None = None) -> Array:
        """``K(d)``, symmetric."""
        return self.gram.combine(weights * self.scale, out)

    def machine_at(self, weights: Array) -> Machine:
        """The machine to solve on ``K(d)``."""
        return self.machine

    def product(self, weights: Array, b: Array) -> tuple[Array, Array]:
        """``K(d) b``, and a bound of its rounding errors."""
        active = np.flatnonzero(weights)
        share = (weights * self.scale)[active]
        out = share @ self.gram.matvecs(b[None], active)[:, 0] if len(active) else np.zeros_like(b)
        # abs(K_ij) <= sqrt(K_ii K_jj), also for the terms of a sum of kernels
        root = np.sqrt(np.maximum(share @ self.gram.diagonal(active), 0.0))
        error = sum_error(int(np.count_nonzero(b))) + entry_error(int(self.gram.terms[active].sum()))
        return out, error * float(root @ np.abs(b)) * root

    @cached_property
    def has_interior(self) -> bool:
        """Whether the set of weights is more than a point, and the dual of the machine a quadratic program."""
        fits = isinstance(self.weight_set, ShareSet) and self.weight_set.has_interior(self.n_kernels)
        return fits and self.machine.loss.quadratic and self.machine.fit_intercept

    @cached_property
    def most_work(self) -> float:
        """Rounds and systems of all machines of one solution, at most, unless iterations are limited."""
        return most_work(self.gram.n_samples, self.gram.n_kernels)

    def quad_of(self, b: Array, V: Array) -> Array:
        """`quad` from the `products` V of all kernels with b."""
        return V @ b if self.residual is None else V @ b + self.residual * float(b @ b)

    def left_out(self, weights: Array, b: Array) -> float:
        """Difference between ``<weights, quad>`` and the quadratic form of K(d) as stored, due to truncated factors."""
        return 0.0 if self.residual is None else float(weights @ self.residual) * float(b @ b)

    def allowed_gap(self, at: Point, tol: float) -> float:
        """Required value of the gap without rounding, at upper bounds of all quadratic forms.

        The tolerance, less rounding and truncation errors if these are at most half of it.
        """
        machine = at.machine
        allowed = tol * abs(machine.primal)
        left = allowed - 2.0 * machine.rounding
        if self.residual is not None:
            left -= 0.5 * self.left_out(at.weights, machine.dual_coef)
        return left if left >= 0.5 * allowed else allowed

    def quad_error(self, b: Array, q: Array) -> Array:
        """Bounds of the errors of quadratic forms: of rounding, and of coefficients whose sum is not quite zero."""
        # the sum of the sizes of all terms, because abs(K_ij) <= sqrt(K_ii K_jj)
        share = imbalance(b)[0] if self.machine.fit_intercept else 0.0
        terms = self.scale * np.square(np.sqrt(np.maximum(self.gram.diagonal(), 0.0)) @ np.abs(b))
        return sum_error(len(b)) * terms + 2.0 * share * np.sqrt(np.maximum(q, 0.0) * terms)

    def outer_gap(self, weights: Array, b: Array) -> tuple[float, float]:
        """Gain of other weights over these at coefficients b of the machine, and the error of that number.

        ``(sigma(q) - <weights, q>) / 2`` for the given kernels, including the error of truncated factors.
        """
        q = self.quad(b)
        error = self.quad_error(b, q)
        highest = self.weight_set.support(q)
        gain = self.weight_set.gain(weights, q, error) + self.left_out(weights, b)
        away = self.weight_set.support(q + error) - highest + float(weights @ error)
        return 0.5 * max(0.0, gain), 0.5 * away

    def bound(self, b: Array) -> tuple[float, float]:
        """The lower bound of the optimum by coefficients in the box with sum zero, and its error."""
        q = self.quad(b)
        highest = self.weight_set.support(q)
        away = self.weight_set.support(q + self.quad_error(b, q)) - highest
        return self.machine.dual_term(b) - 0.5 * highest, term_error(self.machine, b) + 0.5 * away

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of weights, coefficients and intercept, independent of the reported one.

        The gap is that of the machine, and the possible gain of other weights.
        """
        weights, b, proof = solution.weights, solution.dual_coef, solution.proof
        if not self.weight_set.violation(weights) <= OUTSIDE * float(np.abs(weights).max()):
            return outside("joint")
        with blas_threads_for(self.gram.n_samples):
            machine, product = self.machine_at(weights), self.product(weights, b)
            primal, own, rounding = machine.bounds_of(*product, b, float(solution.intercept))
            if not len(proof):
                gain, error = self.outer_gap(weights, b)
                own += gain
            elif feasible(self.machine, proof):
                dual, error = self.bound(proof[0])
                own = primal - dual
            else:
                return outside("joint")
        return Certificate.of("joint", primal, own, rounding + error, Status.CONVERGED)

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers."""
        return self.weight_set.in_statement(self.machine.statement(self.scale))


@dataclass(eq=False)
class Session(SessionOf["Point"]):
    """A problem during its solution: counts, and the start.

    Attributes
    ----------
    problem : KernelProblem
    tol : float
        Required relative gap.
    warm : WarmStart
        Start of the next step; its weights are in the set.
    certified : bool
        Whether the problem certifies every solution. Those that are only scored have the gap that their step found, if
        that is within the tolerance.
    """

    problem: KernelProblem
    tol: float
    warm: WarmStart
    certified: bool = True
    n_machines: int = 0
    #: The sum of kernels of the last call, which the next one overwrites.
    _room: Array | None = None

    def combine(self, weights: Array) -> Array:
        """``K(d)``; the next call overwrites it."""
        K = self._room = self.problem.combine(weights, self._room)
        return K

    def combine_with(self, weights: Array, U: Array) -> Array:
        """``K(d) + U'U`` for rows U; the next call overwrites it."""
        problem = self.problem
        K = self._room = problem.gram.combine(weights * problem.scale, self._room, upper=True)
        if len(U):
            # the upper triangle of rows is the lower one of columns
            blas.dsyrk(1.0, U.T, beta=1.0, c=K.T, lower=1, overwrite_c=1)
        core.mirror(K, threads_for(len(K)))
        return K

    def solve(self, weights: Array, tol: float, b: Array | None) -> Point:
        """The machine at weights, from coefficients b; `machine` and `kernel` are those of the last call."""
        problem = self.problem
        self.n_machines += 1
        gram, n = problem.gram, problem.gram.n_samples
        K = self.kernel = self._room = np.empty((n, n)) if self._room is None else self._room
        gram.add_combination(weights * problem.scale, K, empty=True)
        core.mirror(K, threads_for(n))
        machine = self.machine = problem.machine_at(weights) if problem.varies else problem.machine
        error = entry_error(int(gram.terms[weights > 0].sum()))
        return Point(weights, machine.loss.solve(machine, K, tol, b, error))

    def start(self) -> Array:
        """Starting weights: those of the warm start, or equal ones."""
        given = self.warm.weights
        return self.problem.weight_set.start(self.problem.n_kernels) if given is None else given

    def begin_at(self, found: Solution) -> None:
        """Set the start of the next step."""
        self.warm = WarmStart(found.weights, found.dual_coef)

    def result(
        self, at: Point, status: Status, loop: Loop[Point], kind: str = "joint", proof: Array | None = None
    ) -> Solution:
        """The solution, with the certificate that the problem gives its numbers, by a proof if there is one."""
        machine = at.machine
        found = Solution(
            at.weights,
            machine.dual_coef,
            machine.intercept,
            UNKNOWN,
            loop.n_iter,
            loop.arrays(),
            n_machines=self.n_machines,
            proof=np.empty((0, 0)) if proof is None else proof,
        )
        if not self.certified and status is Status.CONVERGED and loop.best is not None:
            bounds = machine.primal, loop.best.gap, machine.rounding
        else:
            own = self.problem.certify(found)
            bounds = own.primal, own.own_gap, own.rounding
        return replace(found, certificate=Certificate.of(kind, *bounds, status, tol=self.tol))


@dataclass(frozen=True, eq=False)
class Point:
    """Weights, shape (n_kernels,), and the machine solved at them."""

    weights: Array
    machine: Trained

    @property
    def n_active(self) -> int:
        """Kernels with a weight."""
        return int(np.count_nonzero(self.weights))


class MarginStep(Step[Session, Point]):
    """A step over the weights of a machine."""

    #: The class of its admissible sets of weights.
    fits: ClassVar[type]


def inner_tol(outer: float, tol: float) -> float:
    """Tolerance of the next machine: quadratic forms err by the root of its gap, hence the square of the gap left."""
    return min(max(min(INNER_SHARE * outer**2, INNER_SHARE * tol), FINEST), LOOSEST)
