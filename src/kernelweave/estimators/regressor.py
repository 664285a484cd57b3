"""Regression with learnt kernel weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from kernelweave import learners
from kernelweave._checks import InputError
from kernelweave._docstrings import inherits_attributes, inherits_parameters
from kernelweave._parameters import Flag, InstanceOf, Number, OneOf, checked
from kernelweave._threads import blas_threads_for
from kernelweave._types import Features
from kernelweave.estimators.choosing import Candidates
from kernelweave.estimators.estimator import BaseMKL
from kernelweave.estimators.own_targets import TARGETS, TargetsChoice, chooses_for_targets, refuse_own
from kernelweave.estimators.targets import Targets, read_numbers
from kernelweave.fitting.model import Model
from kernelweave.fitting.task import SolvedProblem, Task
from kernelweave.mkl.many_targets import OwnSolution
from kernelweave.mkl.regularization import gaussian_process
from kernelweave.mkl.ridge_problem import make_problem

__all__ = ["MKLRegressor"]

Array = NDArray[np.float64]


@inherits_parameters
@inherits_attributes
@dataclass(kw_only=True, repr=False, eq=False)
class MKLRegressor(RegressorMixin, BaseMKL):
    """Regression with learnt kernel weights.

    With ``learner="rls2"`` minimises over weights d on the simplex and coefficients c

        1/2 sum_i w_i (y_i - b - f_i)^2 + alpha/2 c' K(d) c ,   f = K(d) c ,   K(d) = sum_m d_m s_m K_m .

    Parameters
    ----------
    targets : {"auto", "own", "shared"}, default="auto"
        For several targets, with "rls2" whose alpha is chosen. "shared": one set of weights and one alpha for all.
        "own": weights and alpha for each target, by its out-of-fold error, from factorisations that all targets share.
        "auto": what has the smaller out-of-fold error, on average over targets as a share of that of the mean;
        `explain_defaults` says both. At an alpha that is given targets share weights, unless it is "own".

    Attributes
    ----------
    weights_ : array of shape (n_kernels,) or (n_outputs, n_kernels)
        In the units of the kernels after normalisation and in the scale of the solver, for most learners on the
        simplex; fractions that sum to one are in `kernelweave.inspection.kernel_weights`. Learners of several
        layers have (n_layers, n_kernels) or (n_outputs, n_layers, n_kernels), NaN if a layer has fewer kernels than
        another (the two-layer learner "2lmkl" has base weights only).
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_outputs)
        Over the rows with a positive weight: ``f = K @ dual_coef_ + intercept_``.
    intercept_ : float or array of shape (n_outputs,)
        What is added to the sum over kernels.
    coef_ : array of shape (n_features,) or (n_outputs, n_features)
        Only if every kernel is linear: coefficients for X as given.
    output_names_ : array of str, shape (n_outputs,)
        Only with several outputs: the columns of a frame as y, or "output 0", "output 1" and so on.
    linear_intercept_ : float or array of shape (n_outputs,)
        With `coef_`: ``X @ coef_ + linear_intercept_`` is the prediction. Differs from `intercept_` if columns are
        standardised or kernels are centred.
    target_alphas_ : array of shape (n_outputs,)
        Only where targets have weights and alpha of their own: the regularisation parameter of each for weights that
        sum to 1. In `weights_` those of a target sum to ``alpha_ / target_alphas_``, so that all have the one `alpha_`.
    relax_ : float
        Only with ``RLS2(relax=...)``: the regularisation parameter of the function, while `alpha_` is that of the
        weights.
    ridge_gap_, ridge_rel_gap_ : float
        Only with `relax_`: bound of the distance of the function's objective from its minimum at these weights, as a
        value and as a share; `gap_` refers to the weights.
    noise_variance_, prior_scale_ : arrays of shape (n_outputs,)
        Read as a Gaussian process: noise variance ``alpha tau^2`` and prior scale ``tau^2``, by maximum
        likelihood for the learnt kernel.
    log_marginal_likelihood_ : float
        Likewise, of the training rows at these values.

    References
    ----------
    F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv 1001.2709.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> y = np.sin(2 * X[:, 1])
    >>> model = kw.MKLRegressor().fit(X, y)
    >>> bool(model.score(X, y) > 0.9 and model.rel_gap_ < 1e-6)
    True
    """

    targets: Annotated[str, OneOf(*TARGETS)] = "auto"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _read_targets(self, y: Any, sample_weight: ArrayLike | None, n_rows: int) -> Targets:
        targets = read_numbers(y, sample_weight, n_rows)
        if targets.names is not None:
            self.output_names_ = targets.names
        return targets

    def _checked_learner(self) -> learners.Learner:
        learner = super()._checked_learner()
        if self.targets == "shared" and not getattr(learner, "shared_weights", True):
            raise InputError(
                "`targets='shared'` and RLS2(shared_weights=False) contradict each other. Change one."
            )
        if self.targets != "own":
            return learner
        refuse_own(learner)
        # at an alpha that was given, one problem for each target
        return clone(learner).set_params(shared_weights=learner.requested() is None)

    def _of_targets(self, found: Candidates, task: Task, learner: learners.Learner) -> Candidates:
        if not chooses_for_targets(task, learner):
            return found
        given = getattr(self, "alphas", None) is not None
        return TargetsChoice(**vars(found), asked=self.targets, scoring=self.scoring, given=given)

    def _store_bayes(self, model: Model, solved: list[SolvedProblem]) -> None:
        task, problem = model.task, solved[0].problem
        n_eff = float(task.source.n_samples if task.sample_weight is None else task.sample_weight.sum())
        quad = np.einsum("it,it->t", problem.y, model.dual_coef)  # y' (K + alpha N)^-1 y for each output
        self.prior_scale_ = np.maximum(quad, 0.0) / n_eff
        solution = solved[0].solution
        if isinstance(solution, OwnSolution):
            self.target_alphas_ = solution.alphas
            self.noise_variance_ = model.ridge * self.prior_scale_
            with np.errstate(divide="ignore"):
                logs = n_eff * (1.0 + np.log(2.0 * np.pi * self.noise_variance_)) + solution.log_dets
            self.log_marginal_likelihood_ = float(-0.5 * logs.sum())
            return
        ridge, _ = make_problem(problem.gram, problem.y, task.sample_weight, problem.scale)
        # one factorisation where outputs share weights
        shared = len(np.atleast_2d(model.weights)) == 1
        groups = [np.arange(task.n_outputs)] if shared else np.arange(task.n_outputs)[:, None]
        # of one group the solution may have it
        log_det = float(getattr(solution, "ridge_log_det", np.nan)) if len(groups) == 1 else np.nan
        parts = []
        with blas_threads_for(task.source.n_samples):
            for outputs in groups:
                own, weights = replace(ridge, targets=ridge.targets[outputs]), model.weights_of(outputs[0])[0]
                parts.append(gaussian_process(own, model.ridge, weights, model.dual_coef.T[outputs], log_det))
        self.noise_variance_ = np.concatenate([variance for variance, _ in parts])
        self.log_marginal_likelihood_ = float(sum(evidence.sum() for _, evidence in parts))

    def _mean(self, X: Features) -> Array:
        """Predictions, shape (n_rows, n_outputs)."""
        decision = self._decide(X)
        return self.model_.learner.prediction(decision)

    @checked
    def predict(
        self,
        X: Features,
        return_std: Annotated[bool, Flag()] = False,
        *,
        kind: Annotated[str, OneOf("function", "observation")] = "function",
    ) -> Array | tuple[Array, Array]:
        """Predict the target; with a loss that has a link, such as `kernelweave.losses.Poisson`, its mean.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            New rows in the form that `fit` took: an array, a data frame or views with the same columns.
        return_std : bool, default=False
            Also return the posterior standard deviation under the Gaussian-process reading of the model: prior
            covariance ``prior_scale_ * K(d)``, independent noise of variance ``noise_variance_``. The learnt weights
            and widths are treated as known, so that it is too small; `predict_interval` has intervals whose coverage
            is measured.
        kind : {"function", "observation"}, default="function"
            Standard deviation of the mean of the target at a row, or of a new observation of it, noise included.

        Returns
        -------
        y : array of shape (n_rows,) or (n_rows, n_outputs)
        std : array of the same shape
            Only with `return_std`.

        References
        ----------
        RLS2 paper, section 4.1.
        """
        mean = self._mean(X)
        model = self.model_
        if not return_std:
            return mean[:, 0] if model.flat else mean
        if not hasattr(self, "prior_scale_"):
            raise InputError(
                "`return_std` needs a learner that is the mean of a Gaussian process: learner='rls2', not "
                f"{type(model.learner).__name__}."
            )
        std = model.posterior_std(self._read_queries(X), self.prior_scale_)
        if kind == "observation":
            std = np.sqrt(np.square(std) + self.noise_variance_)
        return (mean[:, 0], std[:, 0]) if model.flat else (mean, std)

    @checked
    def predict_interval(
        self,
        X: Features,
        coverage: Annotated[float, Number(above=0.0, below=1.0)] = 0.9,
        *,
        upper: Annotated[Any, InstanceOf((BaseMKL,), "an MKLRegressor") | None] = None,
    ) -> Array:
        """Intervals that hold a new observation with a stated probability.

        The prediction less and plus a quantile of the sizes of the errors of training rows, by models of the other
        folds at the chosen regularisation parameter. They are those that chose it; widths of kernels, their scale and
        weights are learnt again in each. If none was chosen, five further fits on folds are made, once.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            New rows in the form that `fit` took: an array, a data frame or views with the same columns.
        coverage : float, default=0.9
            For rows drawn as the training rows were, on average over rows: intervals are of the same width everywhere.
        upper : MKLRegressor, optional
            Fitted to the same rows, with the loss of an upper quantile, while this one has that of a lower one.
            Intervals then lie between both predictions, less and plus one number for the coverage: the quantile of
            the distances of training rows from intervals of the models of the other folds.

        Returns
        -------
        array of shape (n_rows, 2), or (n_rows, n_targets, 2)
            Lower and upper ends.

        Raises
        ------
        InputError
            Fewer than ``coverage / (1 - coverage)`` training rows; `upper` of other targets, or of another estimator.

        References
        ----------
        Y. Romano, E. Patterson and E. J. Candès, Conformalized quantile regression, NeurIPS 2019: `upper`.
        R. F. Barber, E. J. Candès, A. Ramdas and R. J. Tibshirani, Predictive inference with the jackknife+, Annals of
        Statistics 49 (2021), section 1.3: "CV", around the model of all rows and not those of the folds.

        Examples
        --------
        >>> import numpy as np, kernelweave as kw
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 2))
        >>> model = kw.MKLRegressor().fit(X[:80], X[:80, 0] + 0.1 * rng.normal(size=80))
        >>> low, high = model.predict_interval(X[80:]).T
        >>> bool(np.mean((low <= X[80:, 0]) & (X[80:, 0] <= high)) > 0.8)
        True
        """
        check_is_fitted(self)
        other = None
        if upper is not None:
            check_is_fitted(upper)
            if not isinstance(upper, MKLRegressor):
                raise InputError(f"`upper` must be an MKLRegressor, got {type(upper).__name__}.")
            other = upper.model_, upper._mean(X)
        ends = np.stack(self.model_.ends(self._mean(X), coverage, other), axis=-1)
        return ends[:, 0] if self.model_.flat else ends
