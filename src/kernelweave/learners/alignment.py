"""Learners whose weights come before the machine: alignment and EasyMKL."""

from __future__ import annotations

from kernelweave._checks import InputError, check_positive
from kernelweave.learners.margin import MarginLearner, MarginProblem
from kernelweave.solvers.alignment import align, easy_mkl
from kernelweave.solvers.result import MKLResult
from kernelweave.solvers.svm_mkl import WarmStart


class Align(MarginLearner):
    """Weights proportional to each kernel's centred alignment with the target, then one support vector machine.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of the machine > 0.
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
    _optimize = False

    def __init__(self, C: float = 1.0, *, epsilon: float = 0.1, tol: float = 1e-8) -> None:
        self.C = C
        self.epsilon = epsilon
        self.tol = tol

    def learn(self, problem: MarginProblem, warm: WarmStart) -> MKLResult:  # noqa: D102
        m = problem.machine
        found = align(
            problem.gram, m.y, scale=problem.scale, sample_weight=m.sample_weight, optimize=self._optimize
        )
        return problem.at(found.weights, warm)


class AlignF(Align):
    """Nonnegative weights whose combination has the largest centred alignment, then one support vector machine.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of the machine > 0.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    tol : float, default=1e-8
        Relative duality gap of the machine.

    Notes
    -----
    O(n_kernels^2 n_samples^2) for the products of all pairs of kernels.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, Algorithms for learning kernels based on centered alignment, JMLR 13 (2012).

    Examples
    --------
    >>> from kernelweave.learners import AlignF
    >>> AlignF(C=10.0)
    AlignF(C=10.0)
    """

    _optimize = True


class EasyMKL(MarginLearner):
    """EasyMKL: weights by the margin that each kernel gives on the row weights of their sum, then one machine.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of the final machine > 0.
    lam : float, default=0.1
        Regularisation of the row weights, above 0 and at most 1.
    tol : float, default=1e-8
        Relative duality gap of both machines.

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

    def __init__(self, C: float = 1.0, *, lam: float = 0.1, tol: float = 1e-8) -> None:
        self.C = C
        self.lam = lam
        self.tol = tol

    def check(self) -> None:  # noqa: D102
        super().check()
        if not 0.0 < check_positive(self.lam, "lam", zero=True) <= 1.0:
            raise InputError(f"`lam` must be above 0 and at most 1, got {self.lam!r}.")

    def learn(self, problem: MarginProblem, warm: WarmStart) -> MKLResult:  # noqa: D102
        m = problem.machine
        found = easy_mkl(
            problem.gram, m.y, self.lam, scale=problem.scale, sample_weight=m.sample_weight, tol=self.tol
        )
        return problem.at(found.weights, warm)
