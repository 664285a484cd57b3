"""Learners that find weights before the machine: alignment and EasyMKL."""

from __future__ import annotations

from typing import Annotated

from kernelweave._parameters import Cost, Epsilon, Number, Shown, Tol
from kernelweave.learners.method import MachineLoss, MarginProblem, RuleLearner
from kernelweave.mkl.criteria.alignment import solve_align, solve_alignf, solve_easy_mkl
from kernelweave.results import Solution, Status, WarmStart


def _machine_at(found: Solution, problem: MarginProblem, warm: WarmStart) -> Solution:
    """The machine at weights with a separate certificate; its status says if that is incomplete."""
    result = problem.at(found.weights, warm)
    # the machine does not include the error of truncated factors either
    if result.status.ok and found.status in (Status.MAX_ITER, Status.STALLED):
        return result.ended(found.status)
    return result


class Align(RuleLearner):
    """Weights proportional to each kernel's centred alignment with the target, then one support vector machine.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of the machine > 0.
    loss : {"auto", "hinge", "squared-hinge", "logistic"}, default="auto"
        Loss of the machine. "auto": the hinge for classes, epsilon-insensitive for regression. The others are for
        classes; with "logistic" `MKLClassifier.predict_proba` needs no calibration.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    tol : float, default=1e-8
        Relative duality gap of the machine.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, Algorithms for learning kernels based on centered alignment, JMLR 13 (2012).

    Examples
    --------
    >>> from kernelweave.learners import Align
    >>> Align(C=10.0)
    Align(C=10.0)
    """

    max_iter = None

    def __init__(
        self, C: Cost = 1.0, *, loss: MachineLoss = "auto", epsilon: Epsilon = 0.1, tol: Tol = 1e-8
    ) -> None:
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.tol = tol

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        m = problem.machine
        found = solve_align(problem.gram, m.y, scale=problem.scale, sample_weight=m.sample_weight)
        return problem.at(found.weights, warm)


class AlignF(Align):
    """Nonnegative weights whose combination has the largest centred alignment, then one support vector machine.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of the machine > 0.
    loss
        See `Align`.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    tol : float, default=1e-8
        Relative gap of the weights, and relative duality gap of the machine.

    Notes
    -----
    The products of all pairs of kernels cost n_kernels^2 n_samples^2 / 2, see `kernelweave.solve_alignf`.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, Algorithms for learning kernels based on centered alignment, JMLR 13 (2012).

    Examples
    --------
    >>> from kernelweave.learners import AlignF
    >>> AlignF(C=10.0)
    AlignF(C=10.0)
    """

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        m = problem.machine
        found = solve_alignf(
            problem.gram, m.y, scale=problem.scale, sample_weight=m.sample_weight, tol=self.tol
        )
        return _machine_at(found, problem, warm)


class EasyMKL(RuleLearner):
    """EasyMKL: weights by the margin that each kernel gives on the row weights of their sum, then one machine.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of the final machine > 0.
    loss : {"auto", "hinge", "squared-hinge", "logistic"}, default="auto"
        Loss of the final machine. "auto": the hinge; with "logistic" `MKLClassifier.predict_proba` needs no
        calibration.
    lam : float, default=0.1
        Regularisation of the row weights, above 0 and at most 1.
    tol : float, default=1e-8
        Relative duality gap of the row weights and of the machine.

    Notes
    -----
    Kernels that do not separate the classes at all are an error, see `kernelweave.solve_easy_mkl`.

    References
    ----------
    F. Aiolli, M. Donini, EasyMKL: a scalable multiple kernel learning algorithm, Neurocomputing 169 (2015).

    Examples
    --------
    >>> from kernelweave.learners import EasyMKL
    >>> EasyMKL(lam=0.5)
    EasyMKL(lam=0.5)
    """

    regression = False
    epsilon = 0.0
    max_iter = None

    def __init__(
        self,
        C: Cost = 1.0,
        *,
        loss: MachineLoss = "auto",
        lam: Annotated[float, Number(above=0, most=1), Shown("Lambda")] = 0.1,
        tol: Tol = 1e-8,
    ) -> None:
        self.C = C
        self.loss = loss
        self.lam = lam
        self.tol = tol

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        m = problem.machine
        found = solve_easy_mkl(
            problem.gram, m.y, self.lam, scale=problem.scale, sample_weight=m.sample_weight, tol=self.tol
        )
        return _machine_at(found, problem, warm)
