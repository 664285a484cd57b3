"""Classification with learnt kernel weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kernelweave._checks import InputError
from kernelweave._docstrings import inherits_parameters
from kernelweave._parameters import OneOf, checked
from kernelweave._types import Features, Labels, Splits
from kernelweave.estimators.estimator import BaseMKL
from kernelweave.estimators.targets import Targets, labels_of, read_classes
from kernelweave.fitting.calibration import METHODS, calibrate, log_probabilities, out_of_fold
from kernelweave.fitting.folds import split_rows

__all__ = ["MKLClassifier"]

Array = NDArray[np.float64]


@inherits_parameters
@dataclass(kw_only=True, repr=False, eq=False)
class MKLClassifier(ClassifierMixin, BaseMKL):
    """Classification with learnt kernel weights; several classes by one-vs-rest, several labels one by one.

    With ``learner="rls2"`` every binary problem is a regression on targets -1 and 1 (P1): see `MKLRegressor` for
    the objective. The class is the one with the largest decision value.

    Parameters
    ----------
    learner : str, Learner or None, default=None
        How the weights are found; its parameters can be set as ``learner__C``. None is "lp" with p = 2, whose `C` five
        folds choose, if kernels were left out too; for kernels of your own, or with an `alpha`, it is "rls2".
    fit_intercept : bool, default=True
        Use the weighted mean of the -1/1 targets as intercept; P1's experiments use 0 (False).
    class_weight : dict, "balanced", list of dicts or None, default=None
        Multiplies the sample weights. With several labels a dict for each of them, such as ``{0: 1, 1: 5}``, or
        "balanced" for each by itself: every label's own problem has the weights of its own values. Kernels, and their
        scale if labels share it, count rows by the sample weights alone.

    Attributes
    ----------
    classes_ : array of shape (n_classes,), or list of n_labels arrays
        For several labels 0 and 1 for each.
    label_names_ : array of str, shape (n_labels,)
        Only with several labels.
    weights_ : array of shape (n_kernels,) or (n_classes, n_kernels)
        For several labels (n_labels, n_kernels), and likewise below.
        Learners of several layers have (n_layers, n_kernels) or (n_classes, n_layers, n_kernels), NaN if a layer has
        fewer kernels than another; see `MKLRegressor`.
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_classes)
    intercept_ : float or array of shape (n_classes,)
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Only if every kernel is linear; the predictions are ``X @ coef_.T + linear_intercept_``.
    alpha_, kernels_, kernel_names_, layer_kernel_names_, normalizers_, support_, objective_, gap_, rel_gap_,
    stationarity_, status_, n_iter_, history_, gram_, feature_coef_, approximation_,
    missing_
        As in `MKLRegressor`.

    References
    ----------
    F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv 1001.2709, section 5.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(80, 4))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> model = kw.MKLClassifier(kernels=kw.banks.rls2(4)).fit(X, y)
    >>> model.predict(X[:2]).shape, bool(model.rel_gap_ < 1e-6)
    ((2,), True)
    """

    class_weight: Mapping[object, float] | str | None = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _read_targets(self, y: Any, sample_weight: ArrayLike | None, n_rows: int) -> Targets:
        targets = read_classes(y, sample_weight, n_rows, self.class_weight)
        assert targets.classes is not None
        self.classes_ = targets.classes
        if targets.names is not None:
            self.label_names_ = targets.names
        return targets

    def decision_function(self, X: Features) -> Array:
        """Decision values: positive for ``classes_[1]``, or one column per class, or per label of several.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,), (n_rows, n_classes) or (n_rows, n_labels)
        """
        values = self._decide(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Features) -> Labels:
        """Predict the class, or the labels if there are several.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,) or (n_rows, n_labels)
        """
        return labels_of(self._decide(X), self.classes_)

    @checked
    def calibrate(
        self,
        method: Annotated[str, OneOf(*METHODS)] = "platt",
        *,
        cv: Splits = 5,
        groups: ArrayLike | None = None,
    ) -> MKLClassifier:
        """Learn probabilities from decision values, for `predict_proba`.

        Every training row has a decision value from a model of the other folds, at the chosen regularisation
        parameter; a curve from these values to the classes is fitted, for each one-vs-rest problem. Predictions of
        `predict` do not change.

        Parameters
        ----------
        method : {"platt", "isotonic"}, default="platt"
            A sigmoid, or an isotonic step function, which needs about a thousand rows or more.
        cv : int, splitter or iterable, default=5
            Folds of the training rows (those with a positive weight); an integer stratifies.
        groups : array-like of shape (n_samples,), optional
            For splitters that need them.

        Returns
        -------
        self
            With the attribute ``calibration_``.

        Raises
        ------
        InputError
            Unknown method, or folds without one of the classes.

        Notes
        -----
        Costs a fit for each fold. With ``class_weight`` the models are weighted by it, the curves are not: they refer
        to the shares of classes in the training rows.

        References
        ----------
        J. Platt, Probabilistic outputs for support vector machines, 1999; B. Zadrozny, C. Elkan, Transforming
        classifier scores into accurate multiclass probability estimates, KDD 2002.

        Examples
        --------
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(80, 2))
        >>> model = kw.MKLClassifier(kw.banks.rls2(2), "simple").fit(X, X[:, 0] > 0)
        >>> model.calibrate().predict_proba(X[:2]).shape
        (2, 2)
        """
        check_is_fitted(self)
        model, task = self.model_, self.model_.task
        codes = task.codes
        several = task.multilabel
        if not several and isinstance(cv, int | np.integer) and cv > np.bincount(codes).min():
            raise InputError(
                f"`cv` must be at most the number of rows of the smallest class, {np.bincount(codes).min()}, got {cv}."
            )
        folds = split_rows(cv, codes, classifier=True, groups=groups)
        if not any(len(test) for _, test in folds):
            raise InputError(
                "`cv` must give folds with test rows, got none. Use a number of folds such as 5."
            )
        values = out_of_fold(task, model.learner, model.alpha, folds)
        weights = task.sample_weight
        if weights is not None and task.class_weight is not None and not several:
            weights = weights / task.class_weight[codes]
        self.calibration_ = calibrate(values, codes, weights, method, multilabel=several)
        return self

    def __getattr__(self, name: str) -> Any:
        if name in ("predict_proba", "predict_log_proba"):
            raise AttributeError(
                f"{type(self).__name__} has no {name} yet: call calibrate() after fit, or use a learner with "
                "loss='logistic', such as learners.SimpleMKL(loss='logistic')."
            )
        return super().__getattr__(name)

    def _knows_probabilities(self) -> bool:
        """Whether a calibration, or the loss of the learner (of the fit, if there was one), gives probabilities."""
        learner = self.model_.learner if hasattr(self, "model_") else self._named_learner()
        return hasattr(self, "calibration_") or learner.has_probabilities

    @available_if(_knows_probabilities)
    def predict_proba(self, X: Features) -> Array:
        """Probabilities of the classes: those of the logistic loss, or after `calibrate` those of its curves.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows, n_classes) or (n_rows, n_labels)
            In the order of ``classes_``; with several labels the probability of each of them.

        Notes
        -----
        With the logistic loss a decision value is the logarithm of the odds, and the probability of ``classes_[1]`` is
        ``1 / (1 + exp(-f))``. For several classes each has its probability against the rest, divided by their sum. The
        most probable class is the one of `predict`, up to rounding: if decision values are so large or so close that
        probabilities are equal as numbers, `predict` still distinguishes the classes. Probabilities refer to the
        weighted rows: with ``class_weight="balanced"`` as if all classes were equally frequent.

        After `calibrate` the most probable class need not be the one of `predict`, which decides by decision values.

        Examples
        --------
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(80, 2))
        >>> learner = kw.learners.SimpleMKL(C=10.0, loss="logistic")
        >>> model = kw.MKLClassifier(kw.banks.rls2(2), learner).fit(X, X[:, 0] > 0)
        >>> model.predict_proba([[-3.0, 0.0], [3.0, 0.0]])[:, 1].round(1)
        array([0., 1.])
        """
        check_is_fitted(self)
        if hasattr(self, "calibration_"):
            return self.calibration_(self._decide(X))
        return np.exp(self.predict_log_proba(X))

    @available_if(_knows_probabilities)
    def predict_log_proba(self, X: Features) -> Array:
        """Logarithms of the probabilities of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows, n_classes) or (n_rows, n_labels)
        """
        check_is_fitted(self)
        if hasattr(self, "calibration_"):
            with np.errstate(divide="ignore"):
                return np.log(self.predict_proba(X))
        found = log_probabilities(
            self.model_.learner, self._decide(X), multilabel=self.model_.task.multilabel
        )
        assert found is not None
        return found
