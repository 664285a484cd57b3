"""AlignF and EasyMKL as values, whose certificates are computed again from the numbers of a solution."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave._loops import core
from kernelweave._threads import blas_threads_for, threads_for
from kernelweave.gram import Gram
from kernelweave.machines.losses import SquaredHinge
from kernelweave.machines.machine import Machine
from kernelweave.machines.rounding import sum_error
from kernelweave.mkl.certify import outside
from kernelweave.mkl.criteria.alignment import KernelTargets, certify_alignment
from kernelweave.results import Certificate, Solution, Statement, Status

Array = NDArray[np.float64]

#: Weights of rows of a class have sum one, up to this.
UNEVEN = 1e-12


@dataclass(frozen=True)
class AlignmentProblem:
    """AlignF: kernels, targets, sample weights, and factors s_m."""

    gram: Gram
    y: Array
    row_weight: Array
    scale: Array

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of weights, with recomputed products of all kernels."""
        weights = np.asarray(solution.weights)
        if not (weights >= 0.0).all() or not weights.any():
            return outside("alignment")
        with blas_threads_for(self.gram.n_samples):
            at = KernelTargets.of(self.gram, self.y, self.row_weight)
        # any length of them has the same alignment
        u = weights[at.used] * self.scale[at.used] * at.lengths
        return certify_alignment(at, u / u.sum(), 0.0, Status.CONVERGED)

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers."""
        return Statement("", 1.0, self.row_weight, self.scale, criterion="alignment")


@dataclass(frozen=True)
class EasyProblem:
    """EasyMKL: kernels, labels -1 and 1, lam, sample weights, and factors s_m."""

    gram: Gram
    y: Array
    lam: float
    row_weight: Array
    scale: Array

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of weights of rows; the bound is that of the machine with the squared hinge loss.

        For lam = 0 it is the distance of the classes along the difference of the two mixtures.
        """
        b, used = np.asarray(solution.dual_coef), self.row_weight > 0
        sides = [math.fsum(b[self.y * sign > 0]) - sign for sign in (1.0, -1.0)]
        if not (b * self.y >= 0.0).all() or b[~used].any() or max(map(abs, sides)) > UNEVEN:
            return outside("margins")
        share = (1.0 - self.lam) * self.scale
        n = self.gram.n_samples
        with blas_threads_for(n):
            K = self.gram.combine_upper(share)
            core.mirror(K, threads_for(n))
            product = K @ b
            form = float(share @ self.gram.quadratic_forms(b[None]))
        spread = float(np.square(b[used]) @ (1.0 / self.row_weight[used]))
        missing = float(share @ self.gram.residual_trace) * float(np.square(b).sum())
        primal = max(form + self.lam * spread + missing, 0.0)
        root = np.sqrt(np.maximum(np.diag(K), 0.0))
        size = float(root @ np.abs(b))
        entries = 2.0 * sum_error(int(np.maximum(self.gram.ranks, 1).sum()))
        rounding = sum_error(n) * (size**2 + self.lam * spread)
        if primal == 0.0:
            lower = certain = 0.0
        elif self.lam == 0.0:
            rise, fall = product[used & (self.y > 0)].min(), product[used & (self.y < 0)].max()
            margin = max(float(rise - fall), 0.0)
            lower = margin**2 / primal
            certain = lower - 4.0 * margin * (sum_error(n) + entries) * float(root.max()) * size / primal
        else:
            machine = Machine(self.y, 1.0 / self.lam, SquaredHinge(), self.row_weight)
            # of the length that is best at the optimum, and of the one that the solver ended with
            lengths = [2.0 / primal, *(0.5 * np.abs(np.asarray(solution.proof)).sum(axis=-1))]
            every = [self._with_length(machine, K, product, b, float(length), entries) for length in lengths]
            found = min(every, key=lambda c: c.primal + c.rounding)
            lower = 2.0 / found.primal if math.isfinite(found.gap) else 0.0
            certain = 2.0 / (found.primal + found.rounding) if math.isfinite(found.gap) else 0.0
        own = max(primal - lower, 0.0)
        of_bound = min(lower, primal) - min(max(certain, 0.0), primal)
        return Certificate.of("margins", primal, own, rounding + of_bound, Status.CONVERGED)

    def _with_length(
        self, machine: Machine, K: Array, product: Array, b: Array, length: float, entries: float
    ) -> Certificate:
        intercept = machine.loss.intercept(self.y, machine.costs, length * product)
        return machine.certify(K, length * b, intercept, entry_error=entries)

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers."""
        return Statement(
            "squared-hinge", 1.0, self.row_weight, self.scale, criterion="margins", set_value=self.lam
        )
