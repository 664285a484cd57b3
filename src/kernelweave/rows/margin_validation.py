"""Cross-validation of machines on rows that are read in chunks: all C and all folds in the same passes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import COSTS, InputError, KernelWarning, Scale
from kernelweave._parameters import Function, MaxIter, MaxTime, Nonnegative, OneOf, Tol, Whole, checked, shown
from kernelweave.machines.losses import GivenLoss, as_loss
from kernelweave.mkl.features.problem import make_feature_problem
from kernelweave.mkl.features.row_machine import RowMachine
from kernelweave.mkl.features.row_newton import RowDescent, check_for_chunks
from kernelweave.mkl.loop import Callback
from kernelweave.mkl.weight_sets import WeightSet
from kernelweave.results import Path, Solution, Status
from kernelweave.rows.folds import UNITS
from kernelweave.rows.row_features import RowFeatures
from kernelweave.rows.validation import RULES, CrossValidated

Array = NDArray[np.float64]
Index = NDArray[np.int64]

SCORINGS = ("auto", "accuracy", "auc", "loss")


@dataclass(frozen=True)
class CrossValidatedMargins(CrossValidated):
    """A path of machines on all rows, and how paths without each fold do on the rows of that fold.

    Attributes
    ----------
    path : Path
        On all rows, for ascending C.
    loss, accuracy, auc : arrays of shape (n_folds, n_values)
        Weighted mean of the loss; share of right labels and area under the ROC curve, NaN for targets that are no
        labels, and the area in folds of one class. Folds that an interruption left out are NaN.
    fold_weights : array of shape (n_folds,)
        Sums of the weights of the rows.
    fold_coef : array of shape (n_folds, n_values, n_features)
        Coefficients without the rows of each fold.
    fold_intercept : array of shape (n_folds, n_values)
    scoring : {"accuracy", "auc", "loss"}
        What chooses C.
    rule : {"min", "1se"}
    """

    loss: Array = field(repr=False)
    accuracy: Array = field(repr=False)
    auc: Array = field(repr=False)
    scoring: str = "accuracy"

    @property
    def Cs(self) -> Array:
        """Weights of the loss, ascending."""
        return 1.0 / self.path.alphas

    @property
    def scores(self) -> Array:
        """What `scoring` names of every fold; minus the loss."""
        return -self.loss if self.scoring == "loss" else np.asarray(getattr(self, self.scoring))

    @property
    def mean_loss(self) -> Array:
        """Mean loss over all rows, shape (n_values,)."""
        return self._mean(self.loss)

    @property
    def mean_accuracy(self) -> Array:
        """Share of right labels, shape (n_values,)."""
        return self._mean(self.accuracy)

    @property
    def mean_auc(self) -> Array:
        """Mean of `auc` over folds, shape (n_values,)."""
        return self._mean(self.auc)

    @property
    def C(self) -> float:
        """The chosen C."""
        return float(self.Cs[self.best_index])


@checked
def svm_mkl_path_cv(
    rows: RowFeatures,
    Cs: Annotated[ArrayLike, COSTS],
    weight_set: str | WeightSet = "simplex",
    *,
    loss: GivenLoss = "hinge",
    epsilon: Nonnegative = 0.1,
    scale: Scale = None,
    folds: Annotated[int, Whole(2)] = 5,
    fold_by: Annotated[str, OneOf(*UNITS)] = "row",
    seed: Annotated[int, Whole(0)] = 0,
    scoring: Annotated[str, OneOf(*SCORINGS)] = "auto",
    rule: Annotated[str, OneOf(*RULES)] = "min",
    tol: Tol = 1e-3,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    callback: Annotated[Callback | None, Function() | None] = None,
) -> CrossValidatedMargins:
    """Solve `svm_mkl_path` on all rows and without each fold, in the same passes, and score each fold.

    Parameters
    ----------
    rows : RowFeatures
    Cs : array of shape (n_values,)
        Weights of the loss > 0. Without a fold C is the same: the sum of losses has fewer terms.
    weight_set, loss, epsilon, scale
        As for `solve_svm_mkl`; weights on the simplex or in an elastic net.
    folds : int, default=5
    fold_by : {"row", "file"}, default="row"
        Whether folds are made of rows or of files; a row's fold follows from its number in its file, as for
        `block_statistics`.
    seed : int, default=0
        Other numbers make other folds.
    scoring : {"auto", "accuracy", "auc", "loss"}, default="auto"
        What chooses C: "accuracy" for labels, the mean loss otherwise.
    rule : {"min", "1se"}, default="min"
        The C of the best score, or the smallest within one standard error of it.
    tol : float, default=1e-3
        Relative gap of every solution.
    max_iter : int, optional
        Passes. Default: 100.
    max_time : float, optional
        Seconds for the whole path; regularisation parameters that are not solved by then get few iterations each. The
        status is ``MAX_TIME``.
    callback : callable, optional
        ``callback(n_passes, objective, rel_gap)`` after every pass, of the machine farthest from its tolerance; a true
        value ends the descent.

    Returns
    -------
    CrossValidatedMargins
        After Ctrl-C with the folds that were done, and a warning.

    Raises
    ------
    InputError
        Fewer than two folds, a fold without rows, or with one class left outside it; for ``scoring="auc"`` a fold of
        one class.

    Notes
    -----
    A pass serves as many machines as have room for some numbers of every row in half of the memory of `rows`; more
    folds or C take further passes.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 12))
    >>> y = np.where(Z[:, 0] - Z[:, 9] + rng.normal(size=500) > 0, 1, -1)
    >>> rows = kw.RowFeatures(Z, y, groups=[0, 4, 8, 12])
    >>> found = kw.svm_mkl_path_cv(rows, [1e-3, 1e-2, 1e-1], loss="logistic")
    >>> found.accuracy.shape, bool(found.mean_accuracy.max() > 0.75)
    ((5, 3), True)
    """
    if not isinstance(rows, RowFeatures):
        raise InputError(f"`rows` must be RowFeatures, got {shown(rows)}. Make them with kw.RowFeatures.")
    values = np.unique(COSTS.read(Cs))
    problem, _ = make_feature_problem(
        rows,
        scale=scale,
        loss=as_loss(loss, epsilon),
        weights=weight_set,
        C=float(values[0]),
        fit_intercept=True,
    )
    check_for_chunks("auto", problem.weight_set)
    labels = problem.machine.loss.classifies
    if scoring in ("accuracy", "auc") and not labels:
        raise InputError(f"`scoring` must be 'loss' for targets that are no labels, got {scoring!r}.")
    numbers = rows.folds(folds, by=fold_by, seed=seed)
    numbers = numbers if problem.rows is None else numbers[problem.rows]
    weight = problem.machine.sample_weight
    sums = np.bincount(numbers, minlength=folds, weights=weight).astype(np.float64)
    if not sums.all():
        raise InputError(f"Every fold must have rows, got {sums.tolist()} as weights. Take fewer folds.")
    if scoring == "auc":
        positive = np.bincount(
            numbers,
            minlength=folds,
            weights=np.where(problem.machine.y > 0, 1.0 if weight is None else weight, 0.0),
        )
        if alone := int(np.count_nonzero((positive == 0) | (positive == sums))):
            raise InputError(
                f"Every fold must have rows of both classes for scoring='auc', got {alone} folds with one. Take fewer "
                "folds, or scoring='accuracy'."
            )
    score = {name: np.full((folds, len(values)), np.nan) for name in ("loss", "accuracy", "auc", "intercept")}
    coef = np.full((folds, len(values), rows.n_features), np.nan)
    solutions: list[Solution] = []
    descent = RowDescent(problem, values, tol=tol, max_iter=max_iter, callback=callback, folds=numbers)
    good = True
    for group in descent.machines():
        for machine in group:
            found = machine.solution(tol, descent.interrupted)
            if machine.fold < 0:
                solutions.append(replace(found, alpha=1.0 / machine.problem.machine.C))
                continue
            k = machine.fold
            j = int(np.flatnonzero(values == machine.problem.machine.C)[0])
            good = good and found.status is Status.CONVERGED
            coef[k, j], score["intercept"][k, j] = found.feature_coef, found.intercept
            own = np.flatnonzero(numbers == k)
            _score(machine, problem.machine.y[own], weight, own, score, (k, j))
    if not np.isfinite(score["loss"]).all(axis=1).any():
        raise KeyboardInterrupt
    if descent.interrupted or not good:
        reason = "Interrupted" if descent.interrupted else "Not every machine without a fold reached `tol`"
        warnings.warn(f"{reason}: scores are of what was done.", KernelWarning, stacklevel=3)
    chosen = ("accuracy" if labels else "loss") if scoring == "auto" else scoring
    return CrossValidatedMargins(
        Path.of(solutions, interrupted=descent.interrupted),
        sums, coef, score["intercept"], rule, score["loss"], score["accuracy"], score["auc"], chosen,
    )  # fmt: skip


def _score(
    machine: RowMachine,
    y: Array,
    weight: Array | None,
    own: Index,
    score: dict[str, Array],
    at: tuple[int, int],
) -> None:
    """Scores of a machine on the rows that it was not trained on."""
    assert machine.best is not None
    f = machine.best.product[own] + machine.best.t
    ones = np.ones(len(own)) if weight is None else weight[own]
    loss = machine.problem.machine.loss
    score["loss"][at] = np.average(loss.value(y, f), weights=ones)
    if loss.classifies:
        score["accuracy"][at] = np.average((f > 0) == (y > 0), weights=ones)
        score["auc"][at] = _area(y > 0, f, ones)


def _area(positive: NDArray[np.bool_], f: Array, weight: Array) -> float:
    """The share of pairs of labels that decision values put in order; equal values count half."""
    order = np.argsort(f, kind="stable")
    _, place = np.unique(f[order], return_inverse=True)
    above = np.bincount(place, weights=np.where(positive, weight, 0.0)[order])
    below = np.bincount(place, weights=np.where(positive, 0.0, weight)[order])
    pairs = above.sum() * below.sum()
    return float(above @ (np.cumsum(below) - 0.5 * below) / pairs) if pairs > 0 else np.nan
