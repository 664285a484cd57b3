"""Survival analysis with learnt kernel weights: Cox's model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kernelweave import learners, recipe
from kernelweave._checks import InputError, as_floats, check_finite
from kernelweave._docstrings import inherits_attributes, inherits_parameters, texts_of
from kernelweave._parameters import OneOf
from kernelweave._types import Features, Target
from kernelweave.estimators.choosing import Candidates, of_costs
from kernelweave.estimators.estimator import BaseMKL
from kernelweave.estimators.scoring import TaskScore
from kernelweave.estimators.targets import Targets, row_weights
from kernelweave.fitting.folds import Fold, Score, negative_loss
from kernelweave.fitting.survival import baselines, harrell, read_times, targets_of, value_at
from kernelweave.fitting.task import NormalizedProblem, Task
from kernelweave.machines.cox import TIES, Cox

__all__ = ["MKLSurvival"]

Array = NDArray[np.float64]

#: Values of C that folds choose from: those of a Cox model are smaller than those of classifiers.
COSTS = np.geomspace(1e-3, 10.0, 9)
#: What chooses C, by the values of `scoring`.
SCORES = {
    "likelihood": "partial likelihood, mean over folds",
    "concordance": "concordance, mean over folds",
}
LEARNER_SAID = (
    "'lp' with p = 2, kernel weights of a 2-norm of at most 1: all kernels take part, good ones more."
)


@inherits_parameters
@inherits_attributes
@dataclass(kw_only=True, repr=False, eq=False)
class MKLSurvival(BaseMKL):
    """Cox's model of censored times with learnt kernel weights.

    The hazard of a row is a baseline times ``exp(f)``. Minimises over weights d in a set and f of the kernel
    ``sum_m d_m s_m K_m`` the penalised partial likelihood

        1/2 ||f||^2 + C sum_{events i} w_i [log sum_{j: t_j >= t_i} w_j exp(f_j) - f_i] ,

    here with Breslow's treatment of equal times. Rows of several strata have baselines of their own.

    Parameters
    ----------
    learner : str, Learner or None, default=None
        One that takes any loss: "lp" (p = 2, the default), "simple", "elastic-net", "soft-margin", "silp", "uniform"
        (equal weights), "best". Its loss is Cox's.
    C : float or "auto", optional
        Larger fits the data more. None is "auto" without a learner: the best of nine values from 0.001 to 10 on five
        folds. With a learner None is its own C.
    scoring : {"likelihood", "concordance"}, default="likelihood"
        What chooses C on the folds: the partial likelihood of their test rows, or Harrell's concordance.
    ties : {"breslow", "efron"}, default="breslow"
        What is at risk at an event whose time others share, in the likelihood and in baselines: with Breslow all of
        them, with Efron a share of them, which is closer to the truth where many times are equal. See
        `kernelweave.losses.Cox`.

    Attributes
    ----------
    weights_ : array of shape (n_kernels,)
        Weights of the normalised kernels; fractions that sum to one are in `kernelweave.inspection.kernel_weights`.
    event_times_ : array of shape (n_events,)
        Distinct times of events, over all strata.
    strata_ : array
        Names of the strata; empty without.
    baselines_ : list of (array, array)
        For every stratum, or for all rows, times of events and the cumulative hazard of a row with risk 0.
    dual_coef_ : array of shape (n_samples,)
        Over the rows with a positive weight: the risk is ``K @ dual_coef_ + intercept_``.
    coef_ : array of shape (n_features,)
        Only if every kernel is linear: logarithms of the hazard ratios of X as given.

    References
    ----------
    D. R. Cox, Regression models and life-tables, Journal of the Royal Statistical Society B 34 (1972).

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 3))
    >>> time, event = rng.exponential(np.exp(-2.0 * X[:, 0])), rng.random(120) < 0.8
    >>> model = kw.MKLSurvival().fit(X, np.column_stack([event, time]))
    >>> model.score(X, np.column_stack([event, time])) > 0.7
    True
    >>> model.predict_survival_function(X[:2], times=[0.5, 1.0]).shape
    (2, 2)
    """

    scoring: Annotated[str, OneOf(*SCORES)] = "likelihood"
    ties: Annotated[str, TIES] = "breslow"

    _scores_predictions: ClassVar[bool] = False
    _decides: ClassVar[bool] = False

    def _read_targets(self, y: Any, sample_weight: ArrayLike | None, n_rows: int) -> Targets:
        time, event, strata = read_times(y)
        weights = row_weights(time, sample_weight, n_rows)
        names = np.empty(0) if strata is None else np.unique(strata)
        targets = targets_of(time, event, strata, weights)
        self._read = time, targets, weights
        self.strata_ = names
        costs = np.ones(n_rows) if weights is None else weights
        residuals = -self._loss.gradient(targets, costs, np.zeros(n_rows))
        return Targets([targets[:, None]], targets, weights, evidence=residuals[:, None])

    @property
    def _loss(self) -> Cox:
        return Cox(stratified=bool(len(self.strata_)), ties=self.ties)

    def _default_learner(self) -> learners.Learner:
        name, params = recipe.CLASSIFICATION
        return learners.LEARNERS[name](**{**params, "solver": "auto"})

    def _checked_learner(self) -> learners.Learner:
        learner = self._resolved_learner()
        if "loss" not in learner.get_params(deep=False) or not getattr(learner, "any_loss", False):
            known = (
                repr(name) for name, kind in learners.LEARNERS.items() if getattr(kind, "any_loss", False)
            )
            raise InputError(
                f"`learner` of {type(self).__name__} must be one that takes any loss, {', '.join(known)}, got "
                f"{type(learner).__name__}."
            )
        return clone(learner).set_params(loss=self._loss)

    def _chooses_cost(self, learner: learners.Learner) -> bool:
        return self.C == "auto" or (self.C is None and self.learner is None)

    def _candidates_of(
        self,
        task: Task,
        problems: list[NormalizedProblem],
        learner: learners.Learner,
        labels: Array,
        folds: list[Fold],
    ) -> Candidates:
        if not self._chooses_cost(learner):
            return Candidates(np.array([learner.requested()], dtype=np.float64))

        def concordance(values: Array, rows: NDArray[np.intp]) -> float:
            # of a stratum the times are apart from those of others
            target, risk = task.targets[0][rows, 0], values[:, 0]
            weight = None if task.sample_weight is None else task.sample_weight[rows]
            strata = np.floor(np.abs(target)) if len(self.strata_) else None
            return harrell(np.abs(target), target > 0.0, risk, weight, strata)

        score: Score = concordance
        if self.scoring == "likelihood":
            score = negative_loss(self._loss, task.targets, task.sample_weight)
        asked = TaskScore(SCORES[self.scoring], score, score, pooled=False)
        return of_costs(
            task, problems, learner, labels, plain=False, asked=asked, costs=COSTS, most_rows=np.inf
        )

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, params: dict[str, Any]) -> None:
        super()._fit(X, y, sample_weight, params)
        if self.learner is None:
            self.defaults_["learner"] = LEARNER_SAID
        time, targets, weights = self._read
        del self._read
        self.baselines_ = baselines(self._loss, time, targets, self.predict(X), weights)
        self.event_times_ = np.unique(np.concatenate([times for times, _ in self.baselines_]))

    # ---- predicting -------------------------------------------------------------------------------

    def predict(self, X: Features) -> Array:
        """Risk of rows: the logarithm of the hazard relative to the baseline.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            New rows in the form that `fit` took: an array, a data frame or views with the same columns.

        Returns
        -------
        array of shape (n_rows,)
            Rows with a larger risk are expected to have the event earlier; differences count, not levels.
        """
        return np.ascontiguousarray(self._decide(X)[:, 0])

    def predict_cumulative_hazard(
        self, X: Features, times: ArrayLike | None = None, *, strata: ArrayLike | None = None
    ) -> Array:
        """Cumulative hazards of rows up to some times, by the estimator of Breslow or Efron, as `ties` says.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            New rows in the form that `fit` took: an array, a data frame or views with the same columns.
        times : array-like of shape (n_times,), optional
            Default: `event_times_`. After the last event the hazard stays as it is.
        strata : array-like of shape (n_rows,), optional
            The stratum of every row, if there were strata in the fit.

        Returns
        -------
        array of shape (n_rows, n_times)
        """
        check_is_fitted(self)
        when = self.event_times_ if times is None else np.atleast_1d(as_floats(times, "times"))
        check_finite(when, "times")
        risk = self.predict(X)
        if not len(self.strata_):
            if strata is not None:
                raise InputError("`strata` are for models that were fitted with strata. Leave them out.")
            return np.exp(risk)[:, None] * value_at(*self.baselines_[0], when, 0.0)
        own = np.full(len(risk), None) if strata is None else np.asarray(strata)
        known = f"one of {self.strata_.tolist()[:10]}"
        if strata is None or own.shape != risk.shape:
            raise InputError(
                f"`strata` must name the stratum of each of the {len(risk)} rows, {known}, "
                f"got {'none' if strata is None else f'shape {own.shape}'}."
            )
        new = np.flatnonzero(~np.isin(own, self.strata_))
        if len(new):
            raise InputError(
                f"`strata` must be those of the fit, {known}, got {own[new[0]]!s} in row {new[0]}: a stratum without "
                "training rows has no baseline. The risk, `predict`, does not need one."
            )
        levels = np.array([value_at(*one, when, 0.0) for one in self.baselines_])
        return np.exp(risk)[:, None] * levels[np.searchsorted(self.strata_, own)]

    @texts_of(predict_cumulative_hazard)
    def predict_survival_function(
        self, X: Features, times: ArrayLike | None = None, *, strata: ArrayLike | None = None
    ) -> Array:
        """Probabilities that the event comes later than some times.

        Returns
        -------
        array of shape (n_rows, n_times)
        """
        return np.exp(-self.predict_cumulative_hazard(X, times, strata=strata))

    def score(self, X: Features, y: Target, sample_weight: ArrayLike | None = None) -> float:
        """Harrell's concordance: how often, of two rows, the one with the larger risk has its event first.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows in the form that `fit` took.
        y : as in `fit`
            With strata, pairs are those within a stratum.
        sample_weight : array-like of shape (n_rows,), optional
            Factors of rows: a pair counts by the product of both.

        Returns
        -------
        float
            1 for the right order of all pairs, 0.5 for chance.
        """
        time, event, strata = read_times(y)
        risk = self.predict(X)
        weights = row_weights(time, sample_weight, len(risk))
        return harrell(time, event, risk, weights, strata)
