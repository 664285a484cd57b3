"""Learners that find weights before the machine: alignment and EasyMKL."""

from __future__ import annotations

from typing import Annotated

from kernelweave._parameters import Number, Shown
from kernelweave.learners.solving import CostLearner, LossName, MarginLearner, Output
from kernelweave.mkl.criteria.alignment import solve_align, solve_alignf
from kernelweave.mkl.criteria.easy_mkl import solve_easy_mkl
from kernelweave.results import Solution, Status


def _machine_at(found: Solution, output: Output) -> Solution:
    """The machine at weights with a separate certificate; its status says if that is incomplete."""
    result = output.at(found.weights)
    # the machine does not include the error of truncated factors either
    if result.status.ok and found.status in (Status.MAX_ITER, Status.STALLED):
        return result.ended(found.status)
    return result


class Align(MarginLearner):
    """Weights proportional to each kernel's centred alignment with the target, then one support vector machine.

    Parameters
    ----------
    tol
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

    name = "align"
    question = "closed"
    sparse = False

    def learn(self, output: Output) -> Solution:
        machine, scale = output.machine, output.problem.scale
        found = solve_align(output.gram, machine.y, scale=scale, sample_weight=machine.sample_weight)
        return output.at(found.weights)


class AlignF(MarginLearner):
    """Nonnegative weights whose combination has the largest centred alignment, then one support vector machine.

    Parameters
    ----------
    tol
        Relative gap of the weights, and relative duality gap of the machine.

    Notes
    -----
    The products of all pairs of kernels cost n_kernels^2 n_samples^2 / 2, see `kernelweave.solvers.solve_alignf`.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, Algorithms for learning kernels based on centered alignment, JMLR 13 (2012).

    Examples
    --------
    >>> from kernelweave.learners import AlignF
    >>> AlignF(C=10.0)
    AlignF(C=10.0)
    """

    name = "alignf"
    question = "closed"

    def learn(self, output: Output) -> Solution:
        machine, scale = output.machine, output.problem.scale
        found = solve_alignf(
            output.gram, machine.y, scale=scale, sample_weight=machine.sample_weight, tol=self.tol
        )
        return _machine_at(found, output)


class EasyMKL(CostLearner):
    """EasyMKL: weights by the margin that each kernel gives on the row weights of their sum, then one machine.

    Parameters
    ----------
    loss
        Loss of the final machine. "auto": the hinge; with "logistic" `MKLClassifier.predict_proba` needs no
        calibration.
    lam
        Regularisation of the row weights, above 0 and at most 1.
    tol
        Relative duality gap of the row weights and of the machine.

    Notes
    -----
    Kernels that do not separate the classes at all are an error, see `kernelweave.solvers.solve_easy_mkl`.

    References
    ----------
    F. Aiolli, M. Donini, EasyMKL: a scalable multiple kernel learning algorithm, Neurocomputing 169 (2015).

    Examples
    --------
    >>> from kernelweave.learners import EasyMKL
    >>> EasyMKL(lam=0.5)
    EasyMKL(lam=0.5)
    """

    name = "easy"
    question = "closed"
    regression = False
    sparse = False

    loss: LossName = "auto"
    lam: Annotated[float, Number(above=0, most=1), Shown("Lambda")] = 0.1

    def learn(self, output: Output) -> Solution:
        machine, scale = output.machine, output.problem.scale
        found = solve_easy_mkl(
            output.gram, machine.y, self.lam, scale=scale, sample_weight=machine.sample_weight, tol=self.tol
        )
        return _machine_at(found, output)
