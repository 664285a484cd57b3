"""Cross-validated paths on rows beyond memory: RLS2 from statistics of folds, machines in passes over the rows."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import COSTS, Alphas, InputError, KernelWarning, Scale
from kernelweave._docstrings import texts_of
from kernelweave._forms import ShortRepr
from kernelweave._parameters import (
    Flag,
    Function,
    MaxIter,
    MaxTime,
    Nonnegative,
    OneOf,
    Tol,
    Whole,
    checked,
    shown,
)
from kernelweave._threads import one_blas_thread_each
from kernelweave._types import Array, Index
from kernelweave.fitting.folds import choose
from kernelweave.gram import BlockStatistics
from kernelweave.machines.losses import GivenLoss, as_loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.features.problem import make_feature_problem
from kernelweave.mkl.features.row_machine import RowMachine
from kernelweave.mkl.features.row_newton import RowDescent, check_for_chunks
from kernelweave.mkl.loop import Callback
from kernelweave.mkl.path import rls2_path
from kernelweave.mkl.solve import PathCallback
from kernelweave.mkl.svm_mkl import solve_svm_mkl
from kernelweave.mkl.weight_sets import GivenWeightSet
from kernelweave.results import Path, Solution, Status
from kernelweave.rows.folds import UNITS, FoldStatistics
from kernelweave.rows.parallel import Jobs, each
from kernelweave.rows.row_features import RowFeatures

RULES = ("min", "1se")


@dataclass(frozen=True)
class CrossValidated(ShortRepr, ABC):
    """A path on all rows, and what the paths without each fold say of the rows of that fold.

    Attributes
    ----------
    path : Path
        On all rows.
    fold_weights : array of shape (n_folds,)
        Sums of the weights of the rows.
    fold_coef : array of shape (n_folds, n_values, n_features) or (.., n_outputs)
        Coefficients without the rows of each fold.
    fold_intercept : array of shape (n_folds, n_values) or (.., n_outputs)
    rule : {"min", "1se"}
        The regularisation parameter of the best score, or the largest within a standard error of it.
    """

    path: Path[Solution]
    fold_weights: Array = field(repr=False)
    fold_coef: Array = field(repr=False)
    fold_intercept: Array = field(repr=False)
    rule: str

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.fold_weights)

    @property
    @abstractmethod
    def scores(self) -> Array:
        """What chooses, larger is better, shape (n_folds, n_values); NaN for folds that were left out."""

    @property
    def _done(self) -> NDArray[np.bool_]:
        """The folds that were not left out by an interruption."""
        return np.asarray(np.isfinite(self.scores).all(axis=1))

    def _mean(self, values: Array) -> Array:
        """The mean over folds, weighted by their rows."""
        done = self._done
        return np.average(values[done], axis=0, weights=self.fold_weights[done])

    @property
    def standard_error(self) -> Array:
        """Standard error of the mean score from the spread over folds, shape (n_values,)."""
        done = self.scores[self._done]
        return done.std(axis=0, ddof=1) / np.sqrt(len(done)) if len(done) > 1 else np.zeros(done.shape[1])

    @cached_property
    def best_index(self) -> int:
        """Position of the chosen regularisation parameter on the path."""
        return choose(self._mean(self.scores), self.standard_error, self.rule)

    @property
    def best(self) -> Solution:
        """The solution on all rows at the chosen regularisation parameter."""
        return self.path.at(self.best_index)


@dataclass(frozen=True)
class CrossValidatedPath(CrossValidated):
    """A path of RLS2 on all rows, and the errors of paths without each fold on the rows of that fold.

    Attributes
    ----------
    path : Path
        On all rows.
    mse, r2 : arrays of shape (n_folds, n_alphas) or (n_folds, n_alphas, n_outputs)
        Weighted mean squared errors, and shares of the variance in the fold that are explained.
    fold_weights : array of shape (n_folds,)
        Sums of the weights of the rows.
    fold_coef : array of shape (n_folds, n_alphas, n_features) or (.., n_outputs)
        Coefficients without the rows of each fold.
    fold_intercept : array of shape (n_folds, n_alphas) or (.., n_outputs)
    rule : {"min", "1se"}
    target_variance : array of shape (n_outputs,)
        Of all rows.
    """

    mse: Array
    r2: Array = field(repr=False)
    target_variance: Array = field(repr=False)

    @property
    def alphas(self) -> Array:
        """Regularisation parameters, descending."""
        return self.path.alphas

    @property
    def scores(self) -> Array:
        """Minus the mean squared error of every fold, averaged over outputs."""
        return -self.mse.reshape(*self.mse.shape[:2], -1).mean(axis=2)

    @property
    def mean_mse(self) -> Array:
        """Mean squared error over all rows, averaged over outputs, shape (n_alphas,)."""
        return -self._mean(self.scores)

    @property
    def pooled_r2(self) -> Array:
        """R^2 of all rows, each predicted without its fold, averaged over outputs, shape (n_alphas,)."""
        mse = self._mean(self.mse.reshape(*self.mse.shape[:2], -1))
        variance = np.where(self.target_variance > 0, self.target_variance, np.nan)
        return np.asarray((1.0 - mse / variance).mean(axis=1))

    @property
    def se_mse(self) -> Array:
        """Standard error of `mean_mse` from the spread over folds, shape (n_alphas,)."""
        return self.standard_error

    @property
    def alpha(self) -> float:
        """The chosen regularisation parameter."""
        return float(self.alphas[self.best_index])


@checked
def rls2_path_cv(
    folds: FoldStatistics | Sequence[BlockStatistics],
    alphas: Annotated[ArrayLike | None, Alphas() | None] = None,
    *,
    n_alphas: Annotated[int, Whole(1)] = 30,
    tol: Tol = 1e-4,
    rule: Annotated[str, OneOf(*RULES)] = "min",
    fit_intercept: Annotated[bool, Flag()] = True,
    scale: Scale = None,
    shared_weights: Annotated[bool, Flag()] = True,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    n_jobs: Jobs = None,
    callback: Annotated[PathCallback | None, Function() | None] = None,
) -> CrossValidatedPath:
    """Solve RLS2 along a path on all rows and without each fold, and score each fold, all from statistics.

    Parameters
    ----------
    folds : FoldStatistics or list of BlockStatistics
        Statistics of the rows of each fold, from `block_statistics` with `folds`, or one for each of several data sets.
    alphas : array of shape (n_alphas,), optional
        Regularisation parameters > 0. Default: `n_alphas` as `rls2_path` chooses for all rows.
    n_alphas : int, default=30
        Number of automatic regularisation parameters.
    tol : float, default=1e-4
        Relative gap of every solution.
    rule : {"min", "1se"}, default="min"
        The regularisation parameter of the least mean squared error, or the largest within one standard error of it.
    fit_intercept : bool, default=True
        With an intercept, which is not penalised.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0 of the kernels. Default: 1.
    shared_weights : bool, default=True
        With several outputs: one set of weights for all, or one for each.
    max_iter : int, optional
        Factorisations for each regularisation parameter. Default: 200.
    max_time : float, optional
        Seconds for the whole path; regularisation parameters that are not solved by then get few iterations each. The
        status is ``MAX_TIME``.
    n_jobs : int, optional
        Folds at the same time, by joblib.
    callback : callable, optional
        ``callback(index, result)`` after every regularisation parameter of the path on all rows.

    Returns
    -------
    CrossValidatedPath

    Raises
    ------
    InputError
        Fewer than two folds, a fold without rows.

    Notes
    -----
    The rows are not needed: with the means and products of a fold the sum of its squared errors at coefficients w is
    ``Y - 2 w'P + w'Sw + W (ybar - b - w'zbar)^2``. The time does not depend on the number of rows.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 12))
    >>> folds = kw.rows.block_statistics(Z, Z[:, 0] + 0.1 * rng.normal(size=500), groups=[0, 4, 8, 12], folds=5)
    >>> found = kw.rows.rls2_path_cv(folds)
    >>> found.mse.shape, bool(found.mean_mse[found.best_index] < 0.02)
    ((5, 30), True)
    """
    given = _as_folds(folds)
    n_folds = given.n_folds
    options: dict[str, Any] = {
        "tol": tol,
        "scale": scale,
        "shared_weights": shared_weights,
        "max_iter": max_iter,
        "fit_intercept": fit_intercept,
    }
    path = rls2_path(given.total, None, alphas, n_alphas=n_alphas, callback=callback, **options)
    tasks = ((given.without(k), given.parts[k], path.alphas, options) for k in range(n_folds))
    found = list(each(_of_fold, tasks, n_jobs))
    coef, intercept, mse, r2, good = (np.array(part) for part in zip(*found, strict=True))
    if not good.all():
        warnings.warn(
            f"{int((~good).sum())} of {n_folds} paths without a fold have solutions that did not reach `tol`: see the "
            "status of the path on all rows.",
            KernelWarning,
            stacklevel=3,
        )
    if given.parts[0].single and mse.ndim == 3:
        mse, r2 = mse[..., 0], r2[..., 0]
    weights = np.array([part.weight_sum for part in given.parts])
    total = given.total
    variance = total.squares(centered=True)[total.n_features :] / total.weight_sum
    return CrossValidatedPath(path, weights, coef, intercept, rule, mse, r2, variance)


def _as_folds(folds: Any) -> FoldStatistics:
    if isinstance(folds, FoldStatistics):
        found = folds
    else:
        parts = list(folds) if isinstance(folds, Sequence) else []
        if len(parts) < 2 or not all(isinstance(part, BlockStatistics) for part in parts):
            raise InputError(
                f"`folds` must be FoldStatistics or a list of at least two BlockStatistics, got {shown(folds)}. Pass "
                "`folds` to block_statistics."
            )
        found = FoldStatistics(len(parts))
        found.parts = parts
    if empty := [k for k, part in enumerate(found.parts) if not part.n_rows]:
        raise InputError(
            f"`folds` must all have rows, but fold {empty[0]} has none. Take fewer folds, or more rows."
        )
    return found


def _of_fold(
    training: BlockStatistics, held: BlockStatistics, alphas: Array, options: Mapping[str, Any]
) -> tuple[Array, Array, Array, Array, bool]:
    """Coefficients and intercepts without a fold, its errors, and whether all solutions are as exact as wanted."""
    with one_blas_thread_each():
        path = rls2_path(training, None, alphas, **options)
    if len(path) < len(alphas):
        raise KeyboardInterrupt
    coef = path.feature_coef
    intercept = np.array([one.intercept for one in path.solutions])
    if np.ndim(intercept) == 1 and coef.ndim == 3:
        # one number stands for all outputs where there is none
        intercept = np.repeat(intercept[:, None], coef.shape[2], axis=1)
    mse, r2 = scores(held, coef, intercept)
    return coef, intercept, mse, r2, all(status is Status.CONVERGED for status in path.status)


def scores(held: BlockStatistics, coef: Array, intercept: Array) -> tuple[Array, Array]:
    """Mean squared errors and shares of explained variance, shape (n_alphas, n_outputs), of coefficients on some rows.

    Parameters
    ----------
    held : BlockStatistics
    coef : array of shape (n_alphas, n_features) or (n_alphas, n_features, n_outputs)
    intercept : array of shape (n_alphas,) or (n_alphas, n_outputs)
    """
    w = coef if coef.ndim == 3 else coef[..., None]
    b = intercept.reshape(len(w), -1)
    (n_alphas, p, T), size = w.shape, held.n_features + w.shape[2]
    sides = np.zeros((size, n_alphas * T + T))
    sides[:p, : n_alphas * T] = w.transpose(1, 0, 2).reshape(p, -1)
    sides[p:, n_alphas * T :] = np.eye(T)
    found = held.times(sides)
    products = found[:p, : n_alphas * T].reshape(p, n_alphas, T).transpose(1, 0, 2)
    P, variance = found[:p, n_alphas * T :], held.squares(centered=True)[p:]
    inside = variance - 2.0 * np.einsum("apt,pt->at", w, P) + np.einsum("apt,apt->at", w, products)
    shift = held.target_means - b - np.einsum("apt,p->at", w, held.feature_means)
    errors = np.maximum(inside, 0.0) + held.weight_sum * np.square(shift)
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(variance > 0, 1.0 - errors / variance, np.nan)
    return errors / held.weight_sum, r2


# ---- machines ----------------------------------------------------------------------------------------

#: What chooses C.
SCORINGS = ("auto", "accuracy", "auc", "loss")


@dataclass(frozen=True)
class CrossValidatedMargins(CrossValidated):
    """A path of machines on all rows, and how paths without each fold do on the rows of that fold.

    Attributes
    ----------
    path : Path
        On all rows, for ascending C.
    loss, accuracy, auc : arrays of shape (n_folds, n_values)
        Weighted mean of the loss; accuracy and area under the ROC curve, NaN for targets that are no
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
        """Accuracy, shape (n_values,)."""
        return self._mean(self.accuracy)

    @property
    def mean_auc(self) -> Array:
        """Mean of `auc` over folds, shape (n_values,)."""
        return self._mean(self.auc)

    @property
    def C(self) -> float:
        """The chosen C."""
        return float(self.Cs[self.best_index])


@texts_of(solve_svm_mkl)
@checked
def svm_mkl_path_cv(
    rows: RowFeatures,
    Cs: Annotated[ArrayLike, COSTS],
    weight_set: GivenWeightSet = "simplex",
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
        What is read, in chunks.
    Cs : array of shape (n_values,)
        Weights of the loss > 0. Without a fold C is the same: the sum of losses has fewer terms.
    weight_set : "simplex" or WeightSet, default="simplex"
        ``Simplex()`` or ``ElasticNet(mix)``.
    folds : int, default=5
        Number of folds.
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
    >>> found = kw.rows.svm_mkl_path_cv(rows, [1e-3, 1e-2, 1e-1], loss="logistic")
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
    shape = (folds, len(values))
    score = {name: np.full(shape, np.nan) for name in ("loss", "accuracy", "auc")}
    coef, intercept = np.full((*shape, rows.n_features), np.nan), np.full(shape, np.nan)
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
            coef[k, j], intercept[k, j] = found.feature_coef, found.intercept
            for name, value in _scores_of(machine, problem.machine, np.flatnonzero(numbers == k)).items():
                score[name][k, j] = value
    if not np.isfinite(score["loss"]).all(axis=1).any():
        raise KeyboardInterrupt
    if descent.interrupted or not good:
        reason = "Interrupted" if descent.interrupted else "Not every machine without a fold reached `tol`"
        warnings.warn(f"{reason}: scores are of what was done.", KernelWarning, stacklevel=3)
    chosen = ("accuracy" if labels else "loss") if scoring == "auto" else scoring
    return CrossValidatedMargins(
        Path.of(solutions, interrupted=descent.interrupted),
        sums, coef, intercept, rule, **score, scoring=chosen,
    )  # fmt: skip


def _scores_of(fitted: RowMachine, whole: Machine, rows: Index) -> dict[str, float]:
    """Scores of a machine on the rows that it was not trained on."""
    assert fitted.best is not None
    f, y = fitted.best.product[rows] + fitted.best.t, whole.y[rows]
    weight = None if whole.sample_weight is None else whole.sample_weight[rows]
    found = {"loss": float(np.average(whole.loss.value(y, f), weights=weight))}
    if whole.loss.classifies:
        found["accuracy"] = float(np.average((f > 0) == (y > 0), weights=weight))
        if len(np.unique(y)) > 1:
            # read late, like all of scikit-learn
            from sklearn.metrics import roc_auc_score

            found["auc"] = float(roc_auc_score(y > 0, f, sample_weight=weight))
    return found
