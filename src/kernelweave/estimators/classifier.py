"""Classification with learnt kernel weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from kernelweave._checks import InputError
from kernelweave._docstrings import inherits_attributes, inherits_parameters
from kernelweave._parameters import Number, OneOf, Whole, check_value, checked
from kernelweave._types import Features, Labels, Splits
from kernelweave.estimators.estimator import BaseMKL
from kernelweave.estimators.targets import Targets, labels_of, read_classes
from kernelweave.fitting.calibration import METHODS, Calibration, calibrate, log_probabilities
from kernelweave.fitting.folds import content_folds, read_groups, split_rows
from kernelweave.fitting.out_of_fold import decided, log_shares

__all__ = ["MKLClassifier", "curve_of", "knows_probabilities"]

Array = NDArray[np.float64]


def curve_of(classifier: MKLClassifier) -> Calibration | None:
    """From decision values to probabilities; None if the loss of the learner has its own."""
    own: Calibration | None = getattr(classifier, "calibration_", None)
    model = classifier.model_
    return own if own is not None or model.learner.has_probabilities else model.calibration


def knows_probabilities(classifier: object) -> bool:
    """Whether probabilities need no further fits: by a loss, `calibrate`, or the folds that chose the parameter."""
    if not isinstance(classifier, MKLClassifier):
        return hasattr(classifier, "predict_proba")
    has = classifier.model_.held is not None or classifier.model_.learner.has_probabilities
    return has or hasattr(classifier, "calibration_")


@inherits_parameters
@inherits_attributes
@dataclass(kw_only=True, repr=False, eq=False)
class MKLClassifier(ClassifierMixin, BaseMKL):
    """Classification with learnt kernel weights; several classes by one-vs-rest, several labels one by one.

    With ``learner="rls2"`` every binary problem is a regression on targets y of -1 and 1, which minimises over weights
    d on the simplex and coefficients c

        1/2 sum_i w_i (y_i - b - f_i)^2 + alpha/2 c' K(d) c ,   f = K(d) c ,   K(d) = sum_m d_m s_m K_m .

    The class is the one with the largest decision value.

    Parameters
    ----------
    learner : str, Learner or None, default=None
        How the weights are found; its parameters can be set as ``learner__C``. None is "lp" with p = 2 if there is a
        `C`, or if kernels were left out too, where five folds choose C; for kernels of your own without a `C`, or with
        an `alpha`, it is "rls2".
    fit_intercept : bool, default=True
        Use the weighted mean of the -1/1 targets as intercept; the experiments of the RLS2 paper use 0 (False).
    scoring : str or callable, optional
        The score that chooses C or alpha: any scorer of scikit-learn, such as "balanced_accuracy", "neg_log_loss",
        "roc_auc" or "f1_macro". Default: the accuracy. Sample weights are used if the scorer accepts them. The score is
        one of the test rows of all folds together; of "roc_auc" and "average_precision", which compare rows, and of a
        function it is the mean over folds. A score of predicted classes, other than the accuracy, also chooses which
        class `predict` takes, see the notes.
    class_weight : dict, "balanced", list of dicts or None, default=None
        Multiplies the sample weights. With several labels a dict for each of them, such as ``{0: 1, 1: 5}``, or
        "balanced" for each by itself: every label's own problem has the weights of its own values. Kernels, and their
        scale if labels share it, count rows by the sample weights alone.

    Attributes
    ----------
    classes_ : array of shape (n_classes,), or list of n_labels arrays
        The classes, sorted; for several labels 0 and 1 for each.
    label_names_ : array of str, shape (n_labels,)
        Only with several labels: their names.
    weights_ : array of shape (n_kernels,) or (n_classes, n_kernels)
        In the units of the kernels after normalisation and in the scale of the solver; fractions that sum to one are in
        `kernelweave.inspection.kernel_weights`. For several labels (n_labels, n_kernels), and likewise below. Learners
        of several layers have (n_layers, n_kernels) or (n_classes, n_layers, n_kernels), NaN if a layer has fewer
        kernels than another (the two-layer learner "2lmkl" has base weights only).
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_classes)
        Over the rows with a positive weight: the decision values are ``K @ dual_coef_ + intercept_``.
    intercept_ : float or array of shape (n_classes,)
        What is added to the sum over kernels.
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Only if every kernel is linear; the predictions are ``X @ coef_.T + linear_intercept_``.

    Notes
    -----
    With ``scoring="balanced_accuracy"`` `predict` takes the class with the largest ``p / share``, its probability over
    its share of the (weighted) training rows, which is best for that score. Other scores of predicted classes, such as
    "f1_macro" or ``make_scorer(fbeta_score, beta=2)``, choose the largest ``p / share ** level`` with a level of 0,
    1/4, 1/2, 3/4 or 1 by the folds. Probabilities stay those of the training rows, so that the most probable class need
    not be the one of `predict`; decision values and `intercept_` include the shift, so that their sign, or their
    largest, is the class of `predict`. The value of C or alpha with the smallest log loss on the folds is taken; for
    scores other than "balanced_accuracy" and "recall_macro" among those within a standard error of the best score.
    Where the loss has no probabilities, every class has an offset beside the temperature, in `intercept_` too, with
    which mean probabilities on the folds are the shares. A plain fit also tries machines in which all classes, not all
    rows, count alike, and takes those with the smaller log loss on the folds; probabilities are still those of the
    training rows. Of more than two classes with a loss that has probabilities, p is that of a temperature on the folds.
    If C or alpha is stated, five further fits find the decision. It is not chosen with ``fit_intercept=False``.
    `MKLClassifierCV` chooses the regularisation parameter alone.

    References
    ----------
    F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv 1001.2709, section 5; C. Elkan, The
    foundations of cost-sensitive learning, IJCAI 2001; A. Alexandari, A. Kundaje and A. Shrikumar, Maximum likelihood
    with bias-corrected calibration is hard-to-beat at label shift adaptation, ICML 2020.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(80, 4))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> model = kw.MKLClassifier(kernels=kw.banks.rls2(4)).fit(X, y)
    >>> model.predict(X[:2]).shape, bool(model.rel_gap_ < 1e-6)
    ((2,), True)
    >>> rare = np.where(X[:, 0] > 1.2, "ill", "well")
    >>> model = kw.MKLClassifier(scoring="balanced_accuracy").fit(X, rare)
    >>> str(model.cv_results_["score_name"])
    'balanced_accuracy'
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
            New rows in the form that `fit` took: an array, a data frame or views with the same columns.

        Returns
        -------
        array of shape (n_rows,), (n_rows, n_classes) or (n_rows, n_labels)
        """
        values = self._decide(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def _undecided(self, X: Features) -> Array:
        """What probabilities are of: decision values without what a score added to them."""
        return self.model_.undecided(self._decide(X))

    def predict(self, X: Features) -> Labels:
        """Predict the class, or the labels if there are several.

        The class of the largest decision value, which is the most probable one unless `scoring` asked for another
        decision, see the notes of the class, or `calibrate` learnt a curve for each class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            New rows in the form that `fit` took: an array, a data frame or views with the same columns.

        Returns
        -------
        array of shape (n_rows,) or (n_rows, n_labels)
        """
        return labels_of(self._decide(X), self.classes_)

    @checked
    def calibrate(
        self,
        method: Annotated[str, OneOf(*METHODS)] = "temperature",
        *,
        cv: Splits = 5,
        groups: ArrayLike | None = None,
    ) -> MKLClassifier:
        """Learn probabilities from decision values, for `predict_proba`.

        Every training row has a decision value from a model of the other folds, at the chosen regularisation
        parameter, in which widths, scales and weights are learnt again; a curve from these values to the classes is
        fitted. Predictions of `predict` do not change. Without it `predict_proba` has a temperature from the folds
        that chose the regularisation parameter.

        Parameters
        ----------
        method : {"temperature", "platt", "isotonic"}, default="temperature"
            One slope for all classes, with which the most probable class is that of `predict`; or for each class
            against the rest a sigmoid, or an isotonic step function, which needs about a thousand rows or more. With
            these `predict`, which decides by decision values, may name another class than the most probable one.
        cv : int, splitter or iterable, default=5
            Folds of the training rows (those with a positive weight); an integer stratifies, and equal rows then
            share a fold.
        groups : array-like of shape (n_training_rows,), optional
            Of these rows, which a number of folds, and splitters that use them, keep together. Default: those of
            the fit for a number of folds.

        Returns
        -------
        self
            With the attribute ``calibration_``.

        Raises
        ------
        InputError
            Unknown method, or folds that do not fit the rows.

        Notes
        -----
        Costs a fit for each fold. With ``class_weight`` the models are weighted by it, and so is the temperature. The
        curves of the other methods are not: they refer to the shares of classes in the training rows.

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
        numbers = read_groups(groups, len(codes))
        if isinstance(cv, int | np.integer):
            check_value(Whole(2), "cv", cv)
            together = task.groups if numbers is None else numbers
            classes = codes.astype(float)
            folds = content_folds(task.content, classes, int(cv), classes=classes, groups=together)
        else:
            folds = split_rows(cv, codes, groups=groups)
        if not any(len(test) for _, test in folds):
            raise InputError(
                "`cv` must give folds with test rows, got none. Use a number of folds such as 5."
            )
        values = decided(task, model.learner, model.alpha, folds)
        values = values if model.offset is None else values + model.offset
        weights = task.loss_weight if method == "temperature" else task.row_weight
        self.calibration_ = calibrate(values, codes, weights, method, multilabel=task.multilabel)
        return self

    def predict_proba(self, X: Features) -> Array:
        """Probabilities of the classes.

        Those of the logistic loss, or of the curves of `calibrate`. Otherwise in proportion to ``exp(f / T)`` with
        the decision values f, for two classes ``1 / (1 + exp(-f / T))``: the temperature T has the smallest log loss
        on the training rows, by models of the folds that chose the regularisation parameter. If none was chosen, five
        further fits on folds are made, once.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            New rows in the form that `fit` took: an array, a data frame or views with the same columns.

        Returns
        -------
        array of shape (n_rows, n_classes) or (n_rows, n_labels)
            In the order of ``classes_``; with several labels the probability of each of them.

        Notes
        -----
        With the logistic loss a decision value is the logarithm of the odds, and the probability of ``classes_[1]`` is
        ``1 / (1 + exp(-f))``. For several classes each has its probability against the rest, divided by their sum. The
        most probable class is the one of `predict`, up to rounding: if decision values are so large or so close that
        probabilities are equal as numbers, `predict` still distinguishes the classes. With a score of predicted
        classes, such as ``scoring="balanced_accuracy"``, `predict` decides otherwise, and probabilities do not change.
        Probabilities refer to the
        weighted rows: with ``class_weight="balanced"`` as if all classes were equally frequent. After `calibrate` by
        "platt" or "isotonic" the most probable class need not be the one of `predict`.

        The folds of a plain fit share widths of kernels and weights, which have seen all rows; on 15 tables of 89 to
        500 training rows the mean log loss of new rows was that of a temperature from folds that learn these again,
        0.328.

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
        curve = curve_of(self)
        return np.exp(self.predict_log_proba(X)) if curve is None else curve(self._undecided(X))

    def predict_log_proba(self, X: Features) -> Array:
        """Logarithms of the probabilities of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            New rows in the form that `fit` took: an array, a data frame or views with the same columns.

        Returns
        -------
        array of shape (n_rows, n_classes) or (n_rows, n_labels)
        """
        check_is_fitted(self)
        curve, values = curve_of(self), self._undecided(X)
        if curve is not None:
            return curve.logarithms(values)
        found = log_probabilities(self.model_.learner, values, multilabel=self.model_.task.multilabel)
        assert found is not None
        return found

    @checked
    def predict_set(
        self, X: Features, coverage: Annotated[float, Number(above=0.0, below=1.0)] = 0.9
    ) -> NDArray[np.bool_]:
        """Sets of classes that hold the true one with a stated probability, in every class.

        A class is in the set of a row unless its probability is smaller than that of most training rows of that class
        by models of the other folds: Mondrian conformal prediction. A set may be empty (a row unlike all classes), and
        a class with fewer than ``coverage / (1 - coverage)`` rows is in every set.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            New rows in the form that `fit` took: an array, a data frame or views with the same columns.
        coverage : float, default=0.9
            Smallest probability, for new rows of each class, that the set has the true one.

        Returns
        -------
        array of bool, shape (n_rows, n_classes)
            In the order of ``classes_``.

        Raises
        ------
        InputError
            Several labels.

        Notes
        -----
        Costs five fits on folds, once, if no regularisation parameter was chosen.

        References
        ----------
        V. Vovk, Cross-conformal predictors, Annals of Mathematics and Artificial Intelligence 74 (2015); V. Vovk,
        A. Gammerman and G. Shafer, Algorithmic learning in a random world, Springer (2005), 4.6.

        Examples
        --------
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(80, 2))
        >>> model = kw.MKLClassifier().fit(X, X[:, 0] > 0)
        >>> model.predict_set([[-2.0, 0.0], [2.0, 0.0]]).tolist()
        [[True, False], [False, True]]
        """
        check_is_fitted(self)
        model = self.model_
        if model.task.multilabel:
            raise InputError(
                "`predict_set` is for one of several classes, and this model has several labels. Use predict_proba."
            )
        slope = float(model.calibration.curves[0][0])
        return log_shares(self._undecided(X), slope) >= model.out_of_fold.lowest_shares(coverage, slope)
