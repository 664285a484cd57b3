"""Learners of deep kernels: layers of kernels on kernels, whose weights descend a criterion."""

from __future__ import annotations

import warnings
from typing import Annotated

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import (
    Cost,
    Epsilon,
    Flag,
    MaxIter,
    MaxTime,
    Nonnegative,
    Number,
    OneOf,
    Shown,
    Tol,
    Whole,
)
from kernelweave.functions import Exponential
from kernelweave.kernels import RBF
from kernelweave.learners.layered import (
    CosineLayers,
    DeepLearner,
    DeepLoss,
    Depth,
    Device,
    LayerKernels,
    Steps,
    StepSize,
    last_at_most_one,
    onto_orthant,
    onto_simplices,
)
from kernelweave.learners.margin import CriterionFolds
from kernelweave.learners.method import MarginProblem
from kernelweave.mkl.criteria.deep import Criterion, DualValue, OutOfFold, SpanBound, TrainingError
from kernelweave.mkl.deep import (
    Descent,
    Project,
    Validation,
    solve_deep,
)
from kernelweave.mkl.layers import Layers
from kernelweave.results import Solution, WarmStart

__all__ = ["DMKL", "MLMKL", "DeepUniform", "TwoLayerMKL"]

CRITERIA = ("out-of-fold", "logistic", "training")

WEIGHT_SETS = ("orthant", "simplex")


class MLMKL(DeepLearner):
    """Deep multilayer multiple kernel learning: weights of every layer that minimise the error of a machine.

    The first layer is the weighted sum of the estimator's kernels. Every further one is

        K'(x, z) = sum_k w_k phi_k(K(x, z), K(x, x), K(z, z)) ,   w >= 0 ,

    with kernels phi_k evaluated in the feature space of the layer below. Descends the chosen criterion of the last
    kernel; the problem is not convex, and the solution is local.

    Parameters
    ----------
    n_layers : int, default=2
        The first, of base kernels, included.
    C : float, default=1.0
        Weight of the loss > 0.
    kernels : list of kernels, list of lists, or None, default=None
        Kernels of the upper layers: `Linear`, `Polynomial`, `RBF`, `ArcCosine` or `Elementwise`; one list for all or
        one for each. None: linear, RBF with gamma 1, polynomials of degree 2 and 3.
    normalize_layers : bool, default=True
        Cosine normalisation of every kernel of those layers. Without it values explode with depth.
    criterion : {"out-of-fold", "logistic", "training"}, default="out-of-fold"
        Mean squared or logistic (classification only) loss of decision values on rows outside the training folds,
        or the paper's squared error on the training rows, which favours overfitting. For regression with the
        epsilon-insensitive machine that loss replaces the squared one.
    loss : {"auto", "hinge", "squared-hinge", "logistic", "squared"}, default="auto"
        Loss of the machine. "auto": the hinge for classes, epsilon-insensitive for regression; "squared" is for both,
        the others are for classes. With "logistic" `MKLClassifier.predict_proba` needs no calibration.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    step : {"backtracking", "fixed", "adam"}, default="backtracking"
        A projected gradient that never raises the criterion, the paper's fixed step, or adaptive steps.
    eta : float, default=0.1
        Size of fixed and adaptive steps.
    weight_set : {"orthant", "simplex"}, default="orthant"
        Weights without an upper bound, as in the paper, or with sum 1 in every layer, which leaves
        regularisation to C alone.
    n_folds : int, default=3
        Folds of the out-of-fold criteria.
    validation_fraction : float, default=0.0
        Share of rows held out for validation: the weights with the smallest loss there are kept, and
        `n_iter_no_change` steps without a better one end the descent. 0 keeps the weights with the best criterion.
    n_iter_no_change : int, default=10
        Steps without a better validation loss that end the descent.
    as_published : bool, default=False
        The update as it is printed: the gradient of the training error without the sign of the residual and without
        the derivatives of diagonals, *added* with a fixed step. For study only.
    device : str or None, default=None
        Torch device for the layers, such as "cuda"; needs the extra ``kernelweave[gpu]``.
    tol : float, default=1e-4
        Relative decrease of the criterion at which to stop.
    max_iter : int, optional
        Steps; default 100.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.
    literal : bool, default=False
        Former name of `as_published`, which warns.

    Notes
    -----
    Each step costs `n_folds` machines and O(n_layers n_kernels n_samples^2).

    References
    ----------
    I. Rebai, Y. BenAyed, W. Mahdi, Deep multilayer multiple kernel learning, Neural Computing and Applications (2015).

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> learner = kw.learners.MLMKL(n_layers=2, C=10.0)
    >>> model = kw.MKLClassifier(kw.banks.mlmkl(), learner, normalize="cosine").fit(X, X[:, 0] * X[:, 1] > 0)
    >>> model.weights_.shape
    (2, 4)
    """

    validates = True

    def __init__(
        self,
        n_layers: Depth = 2,
        C: Cost = 1.0,
        *,
        kernels: LayerKernels = None,
        normalize_layers: CosineLayers = True,
        criterion: Annotated[str, OneOf(*CRITERIA)] = "out-of-fold",
        loss: DeepLoss = "auto",
        epsilon: Epsilon = 0.1,
        step: Steps = "backtracking",
        eta: StepSize = 0.1,
        weight_set: Annotated[str, OneOf(*WEIGHT_SETS), Shown("Weights of a layer")] = "orthant",
        n_folds: CriterionFolds = 3,
        validation_fraction: Annotated[
            float, Number(least=0, most=0.5), Shown("Share of rows for early stopping")
        ] = 0.0,
        n_iter_no_change: Annotated[int, Whole(1), Shown("Patience", unit="steps")] = 10,
        as_published: Annotated[bool, Flag(), Shown("The update as published (ascends)")] = False,
        device: Device = None,
        tol: Tol = 1e-4,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
        literal: Annotated[bool, Flag(), Shown(setting=None)] = False,
    ) -> None:
        self.n_layers = n_layers
        self.C = C
        self.kernels = kernels
        self.normalize_layers = normalize_layers
        self.criterion = criterion
        self.loss = loss
        self.epsilon = epsilon
        self.step = step
        self.eta = eta
        self.weight_set = weight_set
        self.n_folds = n_folds
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.as_published = as_published
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.literal = literal

    def check(self) -> None:
        super().check()
        if self.literal:
            warnings.warn(
                "`literal` of MLMKL is now `as_published`; the old name goes with the next version.",
                FutureWarning,
                stacklevel=2,
            )
        if self._published and self.device is not None:
            raise InputError("`as_published=True` needs NumPy. Use device=None.")

    @property
    def _published(self) -> bool:
        return bool(self.as_published or self.literal)

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        kernel, machine = self._kernel(problem), problem.machine
        n = problem.gram.n_samples
        validation = self._validation(problem)
        rows = np.arange(n) if validation is None else validation.train
        descent = Descent(
            "fixed" if self._published else self.step, float(self.eta), float(self.tol),
            100 if self.max_iter is None else self.max_iter, self._published, self.n_iter_no_change,
        )  # fmt: skip
        return solve_deep(
            kernel, machine, self._criterion(problem, rows), descent, self._project(),
            start=self._start(warm), validation=validation, callback=self._tell(problem),
        )  # fmt: skip

    def _project(self) -> Project:
        return onto_simplices if self.weight_set == "simplex" else onto_orthant

    def _kind(self, problem: MarginProblem) -> str:
        if self.criterion == "logistic":
            if problem.classification:
                return "logistic"
            raise InputError("criterion='logistic' is for classification. For regression take 'out-of-fold'.")
        loss = problem.machine.loss
        return loss.name if loss.tube else "squared"

    def _criterion(self, problem: MarginProblem, rows: np.ndarray) -> Criterion | None:
        machine, kind = problem.machine, self._kind(problem)
        if self._published or self.criterion == "training":
            return TrainingError(machine, rows, kind, as_published=self._published)
        folds = [np.intersect1d(fold, rows) for fold in problem.folds(self.n_folds)]
        folds = [fold for fold in folds if len(fold)]
        if len(folds) < 2:
            # with one distinct row there is no validation: the weights stay at the start
            return None
        return OutOfFold(machine, folds, rows, kind)

    def _validation(self, problem: MarginProblem) -> Validation | None:
        share = float(self.validation_fraction)
        if share == 0.0:
            return None
        folds = problem.folds(max(2, round(min(1.0 / share, problem.gram.n_samples))))
        if len(folds) < 2:
            return None
        train = np.setdiff1d(np.arange(problem.gram.n_samples), folds[0])
        machine = problem.machine
        if machine.loss.classifies and len(np.unique(machine.y[train])) < 2:
            return None
        return Validation(
            machine, train, folds[0], self._kind(problem), classification=problem.classification
        )


class DMKL(DeepLearner):
    """Deep kernels by the span bound: weights that minimise an estimate of the leave-one-out error.

    The span of support vectors bounds the change of a row's decision value when the row is left out. The smoothed
    estimate is differentiated exactly, including rows at their bound; the last layer's weights sum to at most 1.

    Parameters
    ----------
    n_layers : int, default=2
        The first, of base kernels, included.
    C : float, default=1.0
        Weight of the hinge loss > 0.
    kernels, normalize_layers, device
        See `MLMKL`.
    step : {"backtracking", "fixed", "adam"}, default="backtracking"
        A projected gradient that never raises the criterion, a fixed step, or adaptive steps.
    eta : float, default=0.1
        Size of fixed and adaptive steps.
    smoothing : float, default=1.0
        > 0; larger values reduce the change of the span when the set of support vectors changes.
    tol : float, default=1e-4
        Relative decrease of the bound at which to stop.
    max_iter : int, optional
        Steps; default 100.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.

    Notes
    -----
    Each step costs a machine, O(n_support^3) and O(n_layers n_kernels n_samples^2). The weight of a row is not
    exactly equivalent to repetitions, because repeated rows span each other.

    References
    ----------
    E. Strobl, S. Visweswaran, Deep multiple kernel learning, ICMLA 2013.

    Examples
    --------
    >>> from kernelweave.learners import DMKL
    >>> DMKL(n_layers=3, C=10.0)
    DMKL(C=10.0, n_layers=3)
    """

    regression = False
    epsilon = 0.0

    def __init__(
        self,
        n_layers: Depth = 2,
        C: Cost = 1.0,
        *,
        kernels: LayerKernels = None,
        normalize_layers: CosineLayers = True,
        step: Steps = "backtracking",
        eta: StepSize = 0.1,
        smoothing: Annotated[Cost, Shown("Smoothing of the span")] = 1.0,
        device: Device = None,
        tol: Tol = 1e-4,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.n_layers = n_layers
        self.C = C
        self.kernels = kernels
        self.normalize_layers = normalize_layers
        self.step = step
        self.eta = eta
        self.smoothing = smoothing
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        rows = np.arange(problem.gram.n_samples)
        criterion = SpanBound(problem.machine, rows, smoothing=float(self.smoothing))
        descent = Descent(
            self.step, float(self.eta), float(self.tol), 100 if self.max_iter is None else self.max_iter
        )
        return solve_deep(
            self._kernel(problem), problem.machine, criterion, descent, last_at_most_one,
            start=self._start(warm), callback=self._tell(problem),
        )  # fmt: skip


class TwoLayerMKL(DeepLearner):
    """Two-layer MKL (2LMKL): the exponential of a weighted sum of kernels, by the dual objective of the machine.

    Minimises over weights ``w >= 0``, with ``K(w) = sum_m w_m s_m K_m``,

        max_b  dual_term(b) - 1/2 b' exp(K(w)) b  +  penalty sum_m w_m ,

    with the exponential taken entry by entry. Not convex; the solution is local.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss > 0.
    normalize_layers : bool, default=True
        ``exp(K(x, z) - K(x, x) / 2 - K(z, z) / 2)``, the Gaussian kernel in the feature space of the sum, instead of
        the plain exponential, which overflows when values reach 709.
    penalty : float, default=1.0
        Weight >= 0 of the sum of the weights.
    loss
        See `MLMKL`.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    step : {"backtracking", "fixed", "adam"}, default="backtracking"
        A projected gradient that never raises the criterion, a fixed step, or adaptive steps.
    eta : float, default=0.1
        Size of fixed and adaptive steps.
    device
        See `MLMKL`.
    tol : float, default=1e-4
        Relative decrease of the objective at which to stop.
    max_iter : int, optional
        Steps; default 100.
    max_time : float, optional
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.

    References
    ----------
    J. Zhuang, I. W. Tsang, S. C. H. Hoi, Two-layer multiple kernel learning, AISTATS 2011.

    Examples
    --------
    >>> from kernelweave.learners import TwoLayerMKL
    >>> TwoLayerMKL(C=10.0)
    TwoLayerMKL(C=10.0)
    """

    n_layers = 2
    kernels = None

    def __init__(
        self,
        C: Cost = 1.0,
        *,
        normalize_layers: CosineLayers = True,
        penalty: Annotated[Nonnegative, Shown("Penalty of the weights")] = 1.0,
        loss: DeepLoss = "auto",
        epsilon: Epsilon = 0.1,
        step: Steps = "backtracking",
        eta: StepSize = 0.1,
        device: Device = None,
        tol: Tol = 1e-4,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
    ) -> None:
        self.C = C
        self.normalize_layers = normalize_layers
        self.penalty = penalty
        self.loss = loss
        self.epsilon = epsilon
        self.step = step
        self.eta = eta
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def layers(self) -> Layers:
        # the normalised exponential is a Gaussian, which avoids differences of large numbers
        return Layers(((RBF(0.5) if self.normalize_layers else Exponential(),),), cosine=False)

    def layer_names(self) -> list[list[str]]:
        """The exponential."""
        return [["exp"]]

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        machine = problem.machine
        criterion = DualValue(machine, np.arange(problem.gram.n_samples))
        descent = Descent(
            self.step, float(self.eta), float(self.tol), 100 if self.max_iter is None else self.max_iter
        )
        return solve_deep(
            self._kernel(problem), machine, criterion, descent, onto_orthant,
            start=self._start(warm), learnt=[True, False], penalty=[float(self.penalty), 0.0],
            callback=self._tell(problem),
        )  # fmt: skip


class DeepUniform(DeepLearner):
    """A deep kernel with equal weights in every layer: depth without learning.

    Parameters
    ----------
    n_layers : int, default=2
        The first, of base kernels, included.
    C : float, default=1.0
        Weight of the loss > 0.
    kernels, normalize_layers, loss, epsilon, device
        See `MLMKL`.
    tol : float, default=1e-4
        Not used: there is one machine.

    Examples
    --------
    >>> from kernelweave.learners import DeepUniform
    >>> DeepUniform(n_layers=3)
    DeepUniform(n_layers=3)
    """

    max_iter = None
    certificate = (
        "The weights are equal and not learnt. The gap is that of the machine: its objective is at most the gap above "
        "its optimum."
    )

    def __init__(
        self,
        n_layers: Depth = 2,
        C: Cost = 1.0,
        *,
        kernels: LayerKernels = None,
        normalize_layers: CosineLayers = True,
        loss: DeepLoss = "auto",
        epsilon: Epsilon = 0.1,
        device: Device = None,
        tol: Tol = 1e-4,
    ) -> None:
        self.n_layers = n_layers
        self.C = C
        self.kernels = kernels
        self.normalize_layers = normalize_layers
        self.loss = loss
        self.epsilon = epsilon
        self.device = device
        self.tol = tol

    def learn(self, problem: MarginProblem, warm: WarmStart) -> Solution:
        return solve_deep(self._kernel(problem), problem.machine, None, Descent(), onto_orthant)
