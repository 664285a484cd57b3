"""Estimators that choose the regularisation parameter by cross-validation over whole paths."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing

from kernelweave import learners
from kernelweave._callbacks import with_callbacks
from kernelweave._checks import COSTS, Alphas, InputError
from kernelweave._docstrings import inherits_attributes, inherits_parameters
from kernelweave._parameters import OneOf, Whole
from kernelweave._types import Features, Splits, Target
from kernelweave.estimators.choosing import RULES, Candidates, check_path_arguments
from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.estimators.estimator import BaseMKL
from kernelweave.estimators.regressor import MKLRegressor
from kernelweave.estimators.scoring import task_score
from kernelweave.fitting.folds import Fold, score_folds, split_rows
from kernelweave.fitting.task import NormalizedProblem, Task, shared_alphas
from kernelweave.mkl.path import check_alphas

__all__ = ["MKLClassifierCV", "MKLRegressorCV"]

Array = NDArray[np.float64]


@dataclass(kw_only=True, repr=False, eq=False)
class _CrossValidated(BaseMKL):
    """Cross-validation over a path, in addition to the plain estimators.

    Parameters
    ----------
    learner : str, Learner or None, default=None
        How the weights are found; the learner's own alpha or C is not used.
    alphas : array-like, optional
        Regularisation parameters to try, in any order, for RLS2. Default: an automatic path, see
        `kernelweave.rls2_path`.
    Cs : array-like, optional
        The same for learners with a C. Default: from 0.01 to 1000, on a logarithmic scale.
    n_alphas : int, default=30
        Length of the automatic path, of either kind.
    cv : int, splitter or iterable, default=5
        Any scikit-learn splitter, `PredefinedSplit`, or an iterable of (train, test). An integer divides the rows with
        a positive weight, and shares out classes, or counts above 0 for the Poisson loss.
    scoring : str or callable, optional
        Any scikit-learn scorer; default R^2, or the accuracy. Sample weights are used if the scorer accepts them. The
        score is one of the test rows of all folds together. Of "roc_auc" and "average_precision", which compare rows,
        and of a function it is the mean over folds. It chooses the regularisation parameter alone, not the decision as
        in plain estimators, so that the choice is that of scikit-learn's `GridSearchCV`.
    rule : {"min", "1se"}, default="min"
        The regularisation parameter with the best score, or the largest one within a standard error of it (found by
        leaving out each fold).

    Attributes
    ----------
    alphas_ : array of shape (n_alphas,)
        The regularisation parameters that were tried, descending.
    Cs_ : array of shape (n_alphas,)
        ``1 / alphas_``, for learners with a C.
    cv_results_ : dict of arrays of shape (n_alphas,)
        ``alpha``; ``test_score``, of all test rows together, which chooses, and ``std_error_test_score``;
        ``split0_test_score``, ... and their mean ``mean_test_score``.
    best_index_ : int
        The position of the chosen one.
    best_score_ : float
        The score that chose the regularisation parameter, not an estimate for new rows: see
        `kernelweave.inspection.out_of_fold_scores`.
    """

    C: ClassVar[None] = None  # type: ignore[misc]
    alpha: ClassVar[None] = None  # type: ignore[misc]
    alphas: Annotated[ArrayLike | None, Alphas() | None] = None
    Cs: Annotated[ArrayLike | None, COSTS | None] = None
    n_alphas: Annotated[int, Whole(1)] = 30
    cv: Splits = 5
    rule: Annotated[str, OneOf(*RULES)] = "min"

    _default_score: ClassVar[str] = "score"
    _decides: ClassVar[bool] = False

    @with_callbacks
    def fit(self, X: Features, y: Target, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Choose the regularisation parameter and fit on all rows.

        Parameters
        ----------
        X : array-like, SciPy sparse matrix or data frame of shape (n_samples, n_features), or several of them
            Training rows: one table, views, indices of a bank or a stack of kernel matrices.
        y : array-like of shape (n_samples,), (n_samples, n_outputs) or (n_samples, n_labels)
            Numbers for a regressor, and labels of classes for a classifier; columns for several targets or labels.
        sample_weight : array-like of shape (n_samples,), optional
            A weight is equivalent to repetitions of the row; rows of weight 0 are dropped.
        **params : dict
            Metadata for the splitter, such as ``groups``, which a number of folds keeps together too.

        Returns
        -------
        self
        """
        with self._anew():
            self._fit(X, y, sample_weight, params)
        return self

    def _make_folds(
        self, labels: Array, kept: NDArray[np.intp], params: dict[str, object], learner: learners.Learner
    ) -> list[Fold]:
        """Check the parameters and make the folds; routed metadata such as groups go to the splitter."""
        check_path_arguments(learner, self.alphas, self.Cs)
        y = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        classifies = isinstance(self, ClassifierMixin)
        y = y.astype(np.intp) if classifies else y
        classes = y if classifies else learner.fold_classes(y)
        if _routing_enabled():
            params = process_routing(self, "fit", **params).splitter.split
        folds = split_rows(self.cv, y, classes=classes, kept=kept, **params)
        position = np.full(len(labels), -1)
        position[kept] = np.arange(len(kept))
        inside: list[Fold] = []
        for fold in folds:
            train, test = (position[rows][position[rows] >= 0] for rows in fold)
            if len(train) and len(test):
                inside.append((train, test))
        if not inside:
            raise InputError(
                "`cv` gave no fold with both training and test rows. Use fewer splits or more rows."
            )
        return inside

    def _candidates_of(
        self,
        task: Task,
        problems: list[NormalizedProblem],
        learner: learners.Learner,
        labels: Array,
        folds: list[Fold],
    ) -> Candidates:
        if self.Cs is not None:
            alphas = check_alphas(1.0 / np.atleast_1d(np.asarray(self.Cs, dtype=np.float64)))
        elif self.alphas is not None:
            alphas = check_alphas(self.alphas)
        else:
            alphas = shared_alphas(task, problems, self.n_alphas, learner)
        classes = getattr(self, "classes_", None)
        found = task_score(self.scoring, task, classes, learner, default=self._default_score)
        return Candidates(
            alphas,
            len(folds),
            task.source.n_samples,
            found.name,
            lambda report: score_folds(
                task,
                learner,
                folds,
                alphas,
                found.of_fold,
                keep=found.pooled,
                n_jobs=self.n_jobs,
                report=report,
            ),
            self.rule,
            path=True,
            tests=[test for _, test in folds],
            score=found,
            complements=all(
                len(np.union1d(*fold)) == sum(map(len, fold)) == task.source.n_samples for fold in folds
            ),
        )

    def get_metadata_routing(self) -> MetadataRouter:
        """Route `groups` and the like to the splitter.

        Returns
        -------
        MetadataRouter
        """
        from sklearn.model_selection import GroupKFold, check_cv

        # a number of folds keeps groups together, if there are some
        splitter = GroupKFold() if isinstance(self.cv, numbers.Number) else check_cv(self.cv)
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(
            splitter=splitter,
            method_mapping=MethodMapping().add(caller="fit", callee="split"),
        )
        return router


@inherits_parameters
@inherits_attributes
@dataclass(kw_only=True, repr=False, eq=False)
class MKLRegressorCV(_CrossValidated, MKLRegressor):
    """Regression with learnt kernel weights, the regularisation parameter chosen by cross-validation.

    Every fold computes its own normaliser statistics and solves the whole path with warm starts.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = kw.MKLRegressorCV(kw.banks.linear_features(3), rule="1se").fit(X, X[:, 1])
    >>> model.coef_.shape
    (3,)
    """

    _default_score: ClassVar[str] = "R^2"


@inherits_parameters
@inherits_attributes
@dataclass(kw_only=True, repr=False, eq=False)
class MKLClassifierCV(_CrossValidated, MKLClassifier):
    """Classification with learnt kernel weights, the regularisation parameter chosen by cross-validation.

    Every fold computes its own normaliser statistics and solves the whole path with warm starts; one regularisation
    parameter for all one-vs-rest problems.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = kw.MKLClassifierCV(kw.banks.rls2(2), cv=3, n_alphas=10).fit(X, X[:, 0] > 0)
    >>> model.best_score_ > 0.9
    True
    """

    _default_score: ClassVar[str] = "accuracy"
