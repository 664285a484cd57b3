"""Learners with a limit on the number of kernels."""

from __future__ import annotations

from typing import Annotated

from kernelweave._parameters import Cost, Epsilon, MaxIter, MaxTime, Number, Shown, Tol, Whole
from kernelweave.learners.method import MachineLoss, MarginProblem, RuleLearner
from kernelweave.mkl.cardinality import CardinalityProblem, solve_cardinality
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.weight_sets import Simplex
from kernelweave.results import Solution, WarmStart


class CardinalityMKL(RuleLearner):
    """L1 margin MKL of at most k kernels: the best subset and its weights, with a proof or a stated gap.

    Minimises over d on the simplex with at most k weights that are not zero, and over ``f = <w, phi_d(x)> + b`` with
    the kernel ``K(d) = sum_m d_m s_m K_m``

        1/2 ||w||^2 + C sum_i loss(y_i, f_i) + ridge sum_m d_m^2 .

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0, a sum over rows.
    k : int, default=3
        Most kernels with a weight; as many as there are kernels, or more, are no limit.
    loss : {"auto", "hinge", "squared-hinge", "logistic"}, default="auto"
        Loss of the machine. "auto": the hinge for classes, epsilon-insensitive for regression. The others are for
        classes; with "logistic" `MKLClassifier.predict_proba` needs no calibration.
    ridge : float, default=0.0
        Factor of the squared weights, in units of the objective; larger values make the nonzero weights more equal.
    epsilon : float, default=0.1
        Half width of the tube of regression, in units of the target.
    tol : float, default=1e-6
        Relative gap to the smallest bound of all subsets at which the search ends.
    max_iter : int, optional
        Nodes of the tree; default 1000.
    max_time : float, optional
        Seconds for one problem, after which no further node is computed. The result then depends on the computer.

    Notes
    -----
    A branch and bound, see `kernelweave.solve_cardinality_mkl`. If it ends before the gap is closed, the status says
    so, and the gap bounds the distance of the objective from that of the best subset. The source has the hinge loss and
    ``ridge = lambda``, solves by a local search and bounds by semidefinite programs.

    References
    ----------
    D. Bertsimas, C. de Prospero Iglesias, N. A. G. Johnson, Sparse multiple kernel learning: alternating best response
    and semidefinite relaxations, arXiv 2511.21890 (2025).

    Examples
    --------
    >>> from kernelweave.learners import CardinalityMKL
    >>> CardinalityMKL(C=10.0, k=2)
    CardinalityMKL(C=10.0, k=2)
    """

    def __init__(
        self,
        C: Cost = 1.0,
        k: Annotated[int, Whole(1), Shown("Most kernels (k)")] = 3,
        *,
        loss: MachineLoss = "auto",
        ridge: Annotated[float, Number(least=0), Shown("Factor of the squared weights (ridge)")] = 0.0,
        epsilon: Epsilon = 0.1,
        tol: Tol = 1e-6,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.C = C
        self.k = k
        self.loss = loss
        self.ridge = ridge
        self.epsilon = epsilon
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        whole = KernelProblem(problem.gram, problem.machine, problem.scale, Simplex())
        limited = CardinalityProblem(whole, min(self.k, whole.n_kernels), float(self.ridge))
        return solve_cardinality(limited, tol=problem.tol, max_iter=self.max_iter, warm=warm)
