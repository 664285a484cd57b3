"""Learners with a limit on the number of kernels."""

from __future__ import annotations

from typing import Annotated

from kernelweave._parameters import MaxIter, Number, Shown, Whole
from kernelweave.learners.solving import MarginLearner, Output
from kernelweave.mkl.cardinality import CardinalityProblem, solve_cardinality
from kernelweave.results import Solution


class CardinalityMKL(MarginLearner):
    """L1 margin MKL of at most k kernels: the best subset and its weights, with a proof or a stated gap.

    Minimises over d on the simplex with at most k weights that are not zero, and over ``f = <w, phi_d(x)> + b`` with
    the kernel ``K(d) = sum_m d_m s_m K_m``

        1/2 ||w||^2 + C sum_i loss(y_i, f_i) + ridge sum_m d_m^2 .

    Parameters
    ----------
    k
        Most kernels with a weight; as many as there are kernels, or more, are no limit.
    ridge
        Factor of the squared weights, in units of the objective; larger values make the nonzero weights more equal.
    tol
        Relative gap to the smallest bound of all subsets at which the search ends.
    max_iter
        Nodes of the tree; default 1000.
    max_time
        Seconds for one problem, after which no further node is computed. The result then depends on the computer.

    Notes
    -----
    A branch and bound, see `kernelweave.solvers.solve_cardinality_mkl`. If it ends before the gap is closed, the status
    says so, and the gap bounds the distance of the objective from that of the best subset. The source has the hinge
    loss and ``ridge = lambda``, solves by a local search and bounds by semidefinite programs.

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

    name = "cardinality"
    question = "few"

    k: Annotated[int, Whole(1), Shown("Most kernels (k)")] = 3
    ridge: Annotated[float, Number(least=0), Shown("Factor of the squared weights (ridge)")] = 0.0
    tol = 1e-6
    max_iter: MaxIter = None

    def learn(self, output: Output) -> Solution:
        k = min(self.k, output.gram.n_kernels)
        limited = CardinalityProblem(output.problem, k, float(self.ridge))
        return solve_cardinality(limited, tol=output.tol, max_iter=self.max_iter, warm=output.start)
