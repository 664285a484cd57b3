"""Machines of learners on explicit features, where these are cheaper than kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelweave._threads import one_blas_thread
from kernelweave.gram import FeatureGram
from kernelweave.machines.loss import Loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.features.newton import MarginDescent
from kernelweave.mkl.features.problem import FeatureProblem, on_positive_rows
from kernelweave.mkl.solve import descent_on_features
from kernelweave.mkl.weight_sets import LpBall, WeightSet
from kernelweave.results import Solution, WarmStart

Array = NDArray[np.float64]

#: Features, as a share of the rows, up to which they are cheaper; for piecewise linear losses, whose duals are quick,
#: up to the smaller share on at most `MANY_ROWS` rows.
SHARE, SHARE_OF_HINGE, MANY_ROWS = 1.0, 0.25, 3000
#: Features that are solved for at once, at most, where all kernels have weights.
TOGETHER = 6000


def pays(n_rows: int, n_features: int, loss: Loss, *, sparse: bool = True) -> bool:
    """Whether features are cheaper than the kernels of as many rows; `sparse` if kernels may have no weight."""
    if not sparse and n_features > TOGETHER:
        return False
    share = SHARE_OF_HINGE if loss.piecewise_linear and n_rows <= MANY_ROWS else SHARE
    return n_features <= share * n_rows


@dataclass(eq=False)
class Start(WarmStart):
    """Where a learner begins: the solution of a similar problem, and the descent on features that found it.

    Attributes
    ----------
    keeps : bool
        Whether descents are kept, with their columns, for the next C.
    descent : MarginDescent or None
    found : Solution or None
    """

    keeps: bool = False
    descent: MarginDescent | None = None
    found: Solution | None = None


def solve_on(
    gram: FeatureGram,
    machine: Machine,
    scale: Array,
    weight_set: WeightSet,
    start: Start,
    *,
    tol: float,
    max_iter: int | None = None,
) -> Solution:
    """The solution for one C, from that of a smaller one."""
    # products with vectors are many: threads of BLAS would wait for each other
    with one_blas_thread():
        descent = start.descent
        if descent is None:
            problem = on_positive_rows(
                FeatureProblem(
                    gram.stack(),
                    machine.y[None],
                    machine.loss,
                    weight_set,
                    machine.C,
                    machine.sample_weight,
                    scale,
                    fit_intercept=machine.fit_intercept,
                )
            )
            given = start.feature_coef
            w = None if given is None else given / problem.factors
            descent = descent_on_features(problem, w, tol=tol, max_iter=max_iter)
        found = descent.solve(machine.C)
    start.descent = descent if start.keeps else None
    return found


def machine_on(
    gram: FeatureGram, machine: Machine, scale: Array, weights: Array, start: Start, *, tol: float
) -> Solution:
    """The machine at given weights; the gap is that of the machine."""
    used = np.flatnonzero(weights)
    part = gram if len(used) == len(weights) else gram.take(used)
    begin = Start(feature_coef=start.feature_coef) if part is gram else Start()
    found = solve_on(part, machine, scale[used] * weights[used], LpBall(np.inf), begin, tol=tol)
    coef = np.zeros(int(gram.ranks.sum()))
    coef[np.repeat(weights > 0, gram.ranks)] = found.feature_coef
    return replace(
        found,
        weights=weights,
        certificate=replace(found.certificate, kind="machine"),
        n_iter=1,
        trace={},
        n_machines=1,
        feature_coef=coef,
    )
