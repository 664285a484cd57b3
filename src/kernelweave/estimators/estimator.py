"""What regression and classification share: the fit from a table to a model, fitted attributes, predictions."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kernelweave import learners, normalizers
from kernelweave._callbacks import CallbackSupportMixin, with_callbacks
from kernelweave._checks import InputError, KernelWarning, warn_user
from kernelweave._drawing import percent
from kernelweave._parameters import check_values
from kernelweave._threads import blas_threads_for
from kernelweave._types import Features, Target
from kernelweave.estimators.choosing import (
    Candidates,
    Chosen,
    by_content,
    of_costs,
    say_interrupted,
    walk_down,
    warn_of_rare,
)
from kernelweave.estimators.defaults import LEARNERS_SAID, NORMALIZERS_SAID, explained, left_out
from kernelweave.estimators.metric import (
    LOST,
    NEARLY_LOST,
    NEARLY_WON,
    PREFERENCE,
    WON,
    ViewMetric,
    may_learn,
    metrics_of,
    said_of_metric,
)
from kernelweave.estimators.reading import ReadingMixin
from kernelweave.estimators.scoring import (
    check_score,
    decision_of,
    levels_of,
    said_of_costs,
    said_of_level,
    task_score,
)
from kernelweave.estimators.sources import approximation_of, described, fitted_maps, in_order
from kernelweave.estimators.targets import Classes, Targets
from kernelweave.estimators.texts import column_importances
from kernelweave.fitting.folds import Fold, read_groups, takes_some
from kernelweave.fitting.model import Model
from kernelweave.fitting.out_of_fold import OutOfFold
from kernelweave.fitting.rowless import REFUSAL, RowlessSource
from kernelweave.fitting.source import Source, TableSource
from kernelweave.fitting.task import NormalizedProblem, Report, SolvedProblem, Task, problems_of, silent
from kernelweave.results import Certificate, RelaxedSolution, Status, relative_gap
from kernelweave.views import Table

Array = NDArray[np.float64]


#: Attributes with a number for each training row.
OF_ROWS = ("dual_coef_", "support_")


#: Sources in the text of an estimator.
MOST_SHOWN = 4
#: What only classifiers have.
OF_CLASSIFIERS = ("predict_proba", "predict_log_proba", "predict_set", "classes_")


def attributes_of(model: Model) -> dict[str, Any]:
    """Attributes of a fitted estimator in scikit-learn's conventions, by name."""
    source, flat = model.task.source, model.flat
    names = np.array(source.names, dtype=object)
    upper = [np.array(layer, dtype=object) for layer in model.learner.layer_names()]
    found: dict[str, Any] = {
        "alpha_": model.alpha,
        "kernel_names_": names,
        "layer_kernel_names_": [names, *upper],
        "normalizers_": list(model.normalizers),
        "weights_": model.table_of_weights(),
        "intercept_": float(model.intercept[0]) if flat else model.intercept,
        "model_": model,
    }
    if not isinstance(source, RowlessSource):
        found["dual_coef_"] = model.dual_coef[:, 0] if flat else model.dual_coef
        found["support_"] = np.flatnonzero((model.dual_coef != 0).any(axis=1))
    if isinstance(source, TableSource):
        found["kernels_"] = list(source.kernels)
    if model.learner.one_kernel:
        every = [model.kernel_parameters(k) for k in range(model.n_outputs)]
        found["kernel_parameters_"] = every[0] if len(every) == 1 else every
    if model.learner.regularization_parameter == "C":
        found["C_"] = 1.0 / model.alpha
    if (linear := model.linear) is not None:
        # for classes scikit-learn has a row even if there is only one
        flat = flat and not model.task.classification
        found["coef_"] = linear.coef[0] if flat else linear.coef
        found["linear_intercept_"] = float(linear.intercept[0]) if flat else linear.intercept
    return found


def _totals(task: Task) -> Array:
    """Weights of the classes."""
    return np.bincount(task.codes, task.sample_weight).astype(float)


#: A task, its problems and candidates, and why its kernels were approximated.
Prospect = tuple[Task, list[NormalizedProblem], Candidates, str]


class BaseMKL(CallbackSupportMixin, ReadingMixin):
    """Base of the estimators: what all of them have after a fit.

    Attributes
    ----------
    alpha_, C_ : float
        The regularisation parameter of the model, ``alpha_ = 1 / C_``; `C_` only with learners that have a C.
    kernels_ : list of kernels
        With their statistics of the training rows; not with precomputed kernels.
    kernel_names_ : array of str, shape (n_kernels,)
        Names of the kernels.
    layer_kernel_names_ : list of arrays of str
        Names of the kernels of every layer; the first are `kernel_names_`, and there are more with deep kernels.
    normalizers_ : list of FittedNormalizer
        What scales each kernel.
    metric_, relevance_ : dict
        By view, only with kernels in a learnt metric: the metric of its prepared columns, an array, and by column the
        fraction in its trace, see `kernelweave.kernels.Metric`.
    feature_importances_ : array of shape (n_features,)
        Fractions of the columns in the weights of kernels, not with precomputed kernels.
    support_ : array of int
        Rows with a nonzero dual coefficient.
    objective_, gap_, rel_gap_ : float
        Certificate: the objective exceeds its optimum by at most `gap_`, or the fraction `rel_gap_` of it. If weights
        are a local solution (deep kernels, "kl-c"), or held-out error chose them (targets with weights of their own),
        the certificate is that of the machine on the learnt kernel, not of the weights.
    stationarity_ : float or array of shape (n_outputs,)
        Only if weights are a local solution: their distance from a stationary point.
    status_ : str
        How the solver ended, such as "converged".
    n_iter_ : int
        Its iterations.
    history_ : list of dict
        One for each output with separate weights. Deep kernels: "criterion" and "weights" (all layers in a row), and
        with validation rows "validation" and "validation_error", the start included; see
        `kernelweave.inspection.descent`.
    gram_ : str
        Representation of the training kernels.
    feature_coef_ : array of shape (n_features,) or (n_features, n_outputs)
        Only of models on explicit features, see `approximation`: coefficients of the normalised features of all
        kernels in their order, so that a prediction is `intercept_` plus the sum of features times these.
    approximation_ : dict
        Only with approximate kernels. "maps", "left_out", "left_out_bound": by the names of kernels the map, what it
        leaves out and a bound of that, see `kernelweave.kernels.LeftOut`. `gap_` is that of the approximate problem.
    uninformative_kernels_ : list of (str, str)
        Names of kernels without information about new rows, each with "identity" (on the training rows, before
        normalisation, no row is similar to another) or "constant". There is a `KernelWarning` if most of the weight
        is on the first kind.
    alphas_ : array of shape (n_alphas,)
        Only if folds chose the regularisation parameter: the values that were scored.
    Cs_ : array
        Likewise, the values of C that there were to choose from, with learners that have a C.
    cv_results_ : dict
        Only if folds chose: the scores of these values, "test_score", and of each fold, "split0_test_score" and so on.
    best_index_ : int
        Only if folds chose: the position of the chosen value among them.
    best_score_ : float
        Its score, which is no estimate for new rows: see `kernelweave.inspection.out_of_fold_scores`.
    missing_ : dict
        For kernels on columns: missing cells of the training rows and their treatment. "n_rows", "cells" (name of
        column to count), "views" (name to number of rows without it), "cells_done" and "views_done" in words, and
        "residuals" (name of kernel to the change by setting its negative eigenvalues to zero, as a fraction of the
        matrix in the Frobenius norm). `kernelweave.inspection.missing` describes it in sentences.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array of str, shape (n_columns,)
        Names of the columns of X, if it has names.
    """

    #: Metadata routing: groups that a caller routes are those of the folds in here.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}

    #: Whether a score of predictions chooses the decision too.
    _decides: ClassVar[bool] = True
    #: Whether `scoring` is a score of scikit-learn.
    _scores_predictions: ClassVar[bool] = True

    gram_: str
    approximation_: dict[str, Any]
    feature_coef_: Array

    #: Of classifiers, and of those of several labels.
    classes_: Classes
    label_names_: NDArray[Any]

    def __getattr__(self, name: str) -> Any:
        model, said = vars(self).get("model_"), None
        if name in OF_ROWS and model is not None and isinstance(model.source, RowlessSource):
            said = REFUSAL.format(what=f"`{name}`")
        if name in OF_CLASSIFIERS and not isinstance(self, ClassifierMixin):
            said = (
                f"{type(self).__name__} has no `{name}`: it predicts numbers. For intervals use predict_interval(X); "
                "for classes use MKLClassifier."
            )
        if said is not None:
            raise AttributeError(said)
        # once more, for the message of a property that is not available
        return object.__getattribute__(self, name)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        told = super().__repr__(N_CHAR_MAX)
        model = vars(self).get("model_")
        if model is None:
            return told
        # the sources as every other place shows them; after the sign that begins comments, so that this is still code
        names, found = model.sources
        order = np.argsort(-found, kind="stable")
        parts = [f"{names[k]} {percent(found[k], 1)}" for k in order[:MOST_SHOWN] if found[k] > 0]
        parts += ["..."] if np.count_nonzero(found > 0) > MOST_SHOWN else []
        gap = getattr(self, "rel_gap_", None)
        certified = "" if gap is None else f"; {self.status_}, relative gap {gap:.1e}"
        return f"{told}  # fitted: {', '.join(parts) or 'no weights'}{certified}"

    # ---- state ------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        # set at the end of a fit, so that an estimator whose fit failed is not fitted
        return hasattr(self, "model_")

    def _forget(self) -> None:
        """Delete all fitted attributes, public and private."""
        kept = ("_skl", "_sklearn", "_metadata", "_callback", "_parent_callback")
        for name in list(vars(self)):
            if (name.startswith("_") and not name.startswith(kept)) or name.endswith("_"):
                delattr(self, name)

    # ---- fitting ----------------------------------------------------------------------------------

    @with_callbacks
    def fit(
        self,
        X: Features,
        y: Target,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn weights and coefficients.

        Parameters
        ----------
        X : array-like, SciPy sparse matrix or data frame of shape (n_samples, n_features), or several of them
            Several views as a dict, a list or `kernelweave.Views`. Or sample indices / a kernel stack, see `kernels`.
            Text and categorical columns of frames are encoded.
        y : array-like of shape (n_samples,), (n_samples, n_outputs) or (n_samples, n_labels), or a structured array
            For regression numbers. For classification labels of any type; or several labels, 1 or 0 for each row, as
            an array, a sparse matrix or a data frame, whose columns name them. For `MKLSurvival` events and times: a
            structured array or a frame with the columns `event` (True or 1, and False or 0 where the time is censored)
            and `time`, at least 0, or these two in this order. A third column, `stratum`, names groups with a baseline
            of their own.
        sample_weight : array-like of shape (n_samples,), optional
            A weight is equivalent to repetitions of the row; rows of weight 0 are dropped. Where missing cells are
            skipped or filled from the nearest rows, and where missing views are completed, every row counts once.
        groups : array-like of shape (n_samples,), optional
            Rows of one group, such as a patient, share a fold: of the folds that choose alpha or C, and of those that
            intervals, sets and probabilities rest on. With fewer groups than folds there is a fold for each group.

        Returns
        -------
        self
        """
        with self._anew():
            self._fit(X, y, sample_weight, {"groups": groups})
        return self

    @contextmanager
    def _anew(self) -> Iterator[None]:
        """A fit without attributes of an earlier one; after a failed fit the estimator is not fitted."""
        self._forget()
        check_values(self, self.get_params(deep=False))
        try:
            yield
        except BaseException:
            self._forget()
            raise

    @abstractmethod
    def _read_targets(self, y: Any, sample_weight: ArrayLike | None, n_rows: int) -> Targets:
        """Check targets and weights of rows, and set the attributes that tell of them."""

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, params: dict[str, Any]) -> None:
        """Table and kernels to a task, its solution to a model, on the rows with a positive weight."""
        if isinstance(X, Mapping):
            params = in_order(X, {"y": y, "sample_weight": sample_weight, **params}, self.missing_views)
            y, sample_weight = params.pop("y"), params.pop("sample_weight")
        if y is None:
            raise InputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            )
        self.defaults_ = {}
        rows, encoder = self._read_training(X)
        n_rows = rows.n_rows if isinstance(rows, Table) else rows.n_samples
        targets = self._read_targets(y, sample_weight, n_rows)
        learner = self._checked_learner()
        rule = self._default_normalizer()
        normalizer = normalizers.resolve(rule)
        weights = targets.sample_weight
        kept = np.arange(n_rows) if weights is None else np.flatnonzero(weights > 0)
        labels, weights = targets.labels[kept], None if weights is None else weights[kept]
        if isinstance(self.scoring, str) and self._scores_predictions:
            named = labels[:, 0] if targets.flat and targets.classes is None else labels
            if isinstance(targets.classes, np.ndarray):
                named = targets.classes[labels.astype(np.intp)]
            check_score(self.scoring, named, targets.classes)
        groups: Any = params.get("groups")
        groups = groups if groups is None else read_groups(groups, n_rows)
        folds = self._make_folds(targets.labels, kept, params, learner)
        if weights is not None and (weights == 1.0).all():
            weights = None
        with blas_threads_for(len(kept)):
            numbers = np.concatenate(targets.problems, axis=1)[kept]
            if targets.evidence is not None:
                numbers = targets.evidence[kept]
            make = partial(self._make_source, rows, encoder, kept, weights, numbers)
            source, why = make(learner)
            extra = normalizer.transductive
            task = Task(
                source=source,
                targets=tuple(target[kept] for target in targets.problems),
                sample_weight=weights,
                normalizer=normalizer if extra is None else normalizer.without_extra(),
                extra=None if extra is None else self._extra_queries(extra, encoder, source),
                fit_intercept=bool(self.fit_intercept) and not learner.own_intercept,
                classification=isinstance(self, ClassifierMixin),
                flat=targets.flat,
                class_weight=targets.class_weight,
                multilabel=targets.multilabel,
                groups=None if groups is None else groups[kept],
                screen=self._is_plain,
                evidence=None if targets.evidence is None else numbers,
            )
            problems = problems_of(task)
            if isinstance(source, TableSource) and (corrections := source.corrections()):
                self.missing_["residuals"] = {name: one.residual for name, one in corrections.items()}
            if self._is_plain:
                self.defaults_["left_out"] = left_out(problems[0], source.names)
            if isinstance(self.normalize, str) and self.normalize == "auto":
                self.defaults_["normalize"] = NORMALIZERS_SAID[str(rule)]
            if self.learner is None:
                self.defaults_["learner"] = LEARNERS_SAID[type(learner).__name__]
            candidates = self._candidates_of(task, problems, learner, labels, folds)
            if candidates.scores is not None:
                candidates = self._of_targets(candidates, task, learner)
            metric = self._is_plain and self._tries_metric(task, candidates)
            costs = self._is_plain and self._tries_costs(task, candidates)
            tries = metric or costs
            # the number of steps of a descent is unknown
            unknown = learner.iterates and candidates.scores is None
            n_steps = None if unknown else candidates.n_steps
            report = self._reporter(n_steps and (1 + tries) * n_steps * len(problems), X, y) or silent
            if metric:
                task, problems, candidates, why = self._tried_metric(
                    (task, problems, candidates, why), make, report
                )
            if costs:
                task, problems, candidates = self._tried_costs(
                    task, problems, candidates, learner, labels, report
                )
            if candidates.scores is None:
                chosen = Chosen(*walk_down(task, problems, learner, candidates.alphas, report, steps=True))
            else:
                chosen = candidates.choose(task, problems, learner, report)
                self._store_choice(candidates, chosen, learner)
            alpha, solved = chosen.alpha, chosen.solved
            if getattr(learner, "relax", None) == "auto":
                # parameters chosen once are not chosen again on folds of the training rows
                learner = clone(learner).set_params(relax=getattr(solved[0].solution, "relax", None))
            decision = self._decision(task, learner, chosen)
            self._store(Model.of(task, learner, alpha, solved, encoder, *decision), solved, why)
        self._callback_fit_ctx.call_on_fit_task_end(estimator=self)

    def _reporter(self, n_steps: int | None, X: Any, y: Any) -> Callable[[str], bool] | None:
        """Return a function that reports one finished step and returns whether to stop; None if nobody listens."""
        context = self._init_callback_context(max_subtasks=n_steps)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        told = 0
        if not vars(self).get("_skl_callbacks"):
            if not self.verbose:
                return None

            def printed(text: str) -> bool:
                nonlocal told
                told += 1
                of = f" of {n_steps}" if n_steps else ""
                print(f"{type(self).__name__}: step {told}{of}: {text}", file=sys.stderr, flush=True)
                return False

            return printed

        def report(text: str) -> bool:
            step = context.subcontext(task_name=text)
            step.call_on_fit_task_begin(estimator=self)
            return bool(step.call_on_fit_task_end(estimator=self))

        return report

    def _tries_metric(self, task: Task, candidates: Candidates) -> bool:
        """Whether the same kernels in a learnt metric are tried too; see `may_learn`."""
        stated = self.C is not None or hasattr(self, "alphas")
        stated |= self.learner is not None and not getattr(self.learner, "_followed", False)
        return not stated and may_learn(task, candidates)

    def _tried_metric(
        self,
        usual: Prospect,
        make: Callable[[learners.Learner], tuple[Source[Any], str]],
        report: Report,
    ) -> Prospect:
        """The usual kernels, or those in a learnt metric if their error on the folds is lower by enough; scored."""
        task, problems, candidates, why = usual
        search = candidates.search
        assert search is not None  # `may_learn` asks for it
        learnt, several = search, takes_some(task.content)
        first = search.begin(report)
        before = dict(self.defaults_), dict(self.missing_)

        def close(won: float, lost: float) -> bool:
            """Whether it is open which is better."""
            error, other = -float(first.mean.max()), -float(second.mean.max())
            return not first.interrupted and not second.interrupted and won * error < other < lost * error

        # of both kernels a rough search, then the rest of it, then all rows, until one is better by far
        second, searched, some = first, False, several
        try:
            if not first.stopped:
                source, why = make(learners.MetricRLS2())
                task = replace(task, source=source)
                learnt = replace(search, task=task)
                second = learnt.begin(report, first)
            if close(*((WON, LOST) if several else (NEARLY_WON, NEARLY_LOST))):
                first, searched = search.scores(report, first), True
                second = first if first.interrupted else learnt.scores(report, second)
            if several and searched and close(WON, LOST):
                # a metric of some of many rows is worse than one of all
                first, some = search.finish(first, report), False
                candidates = replace(candidates, search=None)
                second = first if first.interrupted else learnt.finish(second, report)
            stopped = first.stopped or first.interrupted or second.interrupted
        except KeyboardInterrupt:
            stopped = True
        error, other = -float(first.mean.max()), -float(second.mean.max())
        if second.stopped and not second.interrupted:
            # at its last step, so that it is complete: what is left of the search ends
            first = replace(first, stopped=True)
        won = not stopped and other < PREFERENCE * error
        own, found = (learnt, second) if won else (search, first)
        complete = searched or found.interrupted
        candidates = replace(
            candidates, scores=lambda report: found if complete else own.scores(report, found)
        )
        if not won:
            self.defaults_, self.missing_ = before
            if not stopped:
                self.defaults_["metric"] = said_of_metric(error, other, some, taken=False)
            elif not first.interrupted:
                say_interrupted("a learnt metric was not tried to the end, and the model is the one without")
            return usual[0], problems, candidates, usual[3]
        problems = problems_of(task)
        self.defaults_["left_out"] = left_out(problems[0], source.names)
        self.defaults_["metric"] = said_of_metric(error, other, some, taken=True)
        if candidates.search is not None:
            candidates = replace(candidates, search=learnt)
        return task, problems, candidates, why

    def _tries_costs(self, task: Task, candidates: Candidates) -> bool:
        """Whether machines in which classes count alike are tried too: of a plain fit with a score of decisions."""
        # weights of classes that are stated are not undone
        stated = any(one is not None for one in (self.learner, self.C, getattr(self, "class_weight", None)))
        if stated or candidates.decide is None or candidates.n_folds < 2:
            return False
        if candidates.score is None or candidates.score.second is None or task.multilabel:
            return False
        return bool(np.ptp(_totals(task)) > 1e-9 * _totals(task).sum())

    def _tried_costs(
        self,
        task: Task,
        problems: list[NormalizedProblem],
        candidates: Candidates,
        learner: learners.Learner,
        labels: Array,
        report: Report,
    ) -> tuple[Task, list[NormalizedProblem], Candidates]:
        """Machines in which rows, or classes, count alike, whichever has the smaller log loss on the folds; scored."""
        assert candidates.scores is not None  # `_tries_costs` asks for them
        first = candidates.scores(report)
        usual = task, problems, replace(candidates, scores=lambda _: first)
        before = candidates.likelihoods(first.values)
        if first.interrupted or before is None:
            return usual
        totals = _totals(task)
        task = replace(task, costs=totals.sum() / (len(totals) * totals))
        problems = [replace(one, sample_weight=task.weights_of(k)) for k, one in enumerate(problems)]
        asked = task_score(self.scoring, task, self.classes_, learner, decides=True)
        candidates = of_costs(task, problems, learner, labels, n_jobs=self.n_jobs, plain=True, asked=asked)
        assert candidates.scores is not None  # as before
        try:
            second = candidates.scores(report)
        except KeyboardInterrupt:
            second = replace(first, interrupted=True)
        if second.interrupted:
            say_interrupted("machines in which classes count alike were not tried to the end")
            return usual
        after = candidates.likelihoods(second.values)
        assert after is not None  # not interrupted
        losses = -float(np.nanmax(before)), -float(np.nanmax(after))
        self.defaults_["costs"] = said_of_costs(*losses)
        return (
            (task, problems, replace(candidates, scores=lambda _: second)) if losses[1] < losses[0] else usual
        )

    def _checked_learner(self) -> learners.Learner:
        """The learner of the fit, if it can do the task."""
        learner = self._resolved_learner()
        if learner.own_intercept and not self.fit_intercept:
            raise InputError(
                f"`fit_intercept=False` is for learners that fix the intercept beforehand; {type(learner).__name__} "
                "learns it. Use True."
            )
        learner.check_task(isinstance(self, ClassifierMixin))
        if self._is_precomputed and learner.layer_names():
            raise InputError(
                f"{type(learner).__name__} needs k(x, x) of new rows, which a precomputed cross-Gram (n_rows, n_train, "
                "n_kernels) does not have. Use kernels=kw.KernelBank(stack) over all rows, and sample indices as X."
            )
        return learner

    def _make_folds(
        self, labels: Array, kept: NDArray[np.intp], params: dict[str, object], learner: learners.Learner
    ) -> list[Fold]:
        """Folds of the kept rows, for estimators that cross-validate; `labels` are those of all rows."""
        return []

    def _candidates_of(
        self,
        task: Task,
        problems: list[NormalizedProblem],
        learner: learners.Learner,
        labels: Array,
        folds: list[Fold],
    ) -> Candidates:
        """The regularisation parameter, or those to choose from; `folds` are those of `_make_folds`."""
        asked, classes = None, getattr(self, "classes_", None)
        if self.scoring is not None or (classes is None and learner.scoring_loss is not None):
            asked = task_score(self.scoring, task, classes, learner, decides=bool(self.fit_intercept))
        if self._chooses_cost(learner):
            found = of_costs(
                task, problems, learner, labels, n_jobs=self.n_jobs, plain=self._is_plain, asked=asked
            )
        elif (alpha := learner.requested()) is None:
            found = by_content(task, problems, learner, labels, asked)
        else:
            found = Candidates(np.array([alpha]))
        if (
            self.scoring is not None
            and found.scores is None
            and (classes is None or levels_of(self.scoring) == (0.0,))
        ):
            given = learner.regularization_parameter
            warn_user(f"`scoring` chooses nothing here, as {given} is given. Leave out one of them.")
        if classes is not None and self.scoring not in (None, "accuracy"):
            names = getattr(self, "label_names_", classes)
            warn_of_rare(task, np.asarray(names).tolist(), found.tests, learner.regularization_parameter)
        return found

    def _of_targets(self, found: Candidates, task: Task, learner: learners.Learner) -> Candidates:
        """Hook for regression: candidates that several targets share, or have of their own."""
        return found

    def _decision(
        self, task: Task, learner: learners.Learner, chosen: Chosen
    ) -> tuple[OutOfFold | None, Array | None, Array | None]:
        """What folds say of the training rows, and what is added to decision values: for the score, and offsets.

        If no regularisation parameter was chosen, and the score has a decision, there are further fits on folds.
        """
        classes, held = getattr(self, "classes_", None), chosen.held
        decides = self.scoring is not None and self._decides and self.fit_intercept
        if classes is None or not decides or chosen.interrupted or levels_of(self.scoring) == (0.0,):
            return held, None, None
        try:
            held = held or OutOfFold.refitted(task, learner, chosen.alpha)
        except KeyboardInterrupt:
            say_interrupted("the decision is that of the most probable class, not that of the score")
            return held, None, None
        level, shift, offset = decision_of(self.scoring, task, classes, learner, held)
        self.defaults_["decision"] = (
            f"{self.scoring if isinstance(self.scoring, str) else 'the score'}: {said_of_level(level)}."
        )
        if offset is not None:
            held = replace(held, values=held.values + offset)
        return held, shift, offset

    def _store_choice(self, candidates: Candidates, chosen: Chosen, learner: learners.Learner) -> None:
        """Set the attributes that tell of the choice of the regularisation parameter by folds."""
        if learner.regularization_parameter == "C":
            self.Cs_ = 1.0 / candidates.alphas
        if chosen.targets:
            self.defaults_["targets"] = chosen.targets
        if chosen.results is not None:
            self._candidates, self.alphas_ = candidates.alphas, chosen.results["alpha"]
            self.cv_results_, self.best_index_ = chosen.results, chosen.best
            self._interrupted = chosen.interrupted
            self.best_score_ = float(chosen.results["test_score"][chosen.best])
            if self.C == "auto" or self.learner is None:
                self.defaults_["choice"] = chosen.said

    def _store(self, model: Model, solved: list[SolvedProblem], why: str) -> None:
        """Set the model and the fitted attributes; `why` says why kernels were approximated."""
        results = [s.solution for s in solved]
        self.__dict__.update(attributes_of(model))
        self.gram_ = solved[0].problem.gram.describe()
        source = model.task.source
        if maps := fitted_maps(source):
            self.gram_ += f", {described(maps)}"
            self.approximation_ = approximation_of(maps)
        if why:
            self.gram_ += f"; {why}"
            self.defaults_["approximation"] = self.gram_
        if model.features is not None:
            self.feature_coef_ = model.features.coef[:, 0] if model.flat else model.features.coef
        total = Certificate.total([r.certificate for r in results])
        self.objective_, self.gap_ = float(total.primal), float(total.gap)
        self.rel_gap_, self.status_ = relative_gap(self.objective_, self.gap_), total.status.name.lower()
        self.n_iter_ = int(max(1, *[r.n_iter for r in results]))
        self.history_ = [dict(one.trace) for r in results for one in getattr(r, "outputs", ()) or (r,)]
        relaxed = [r for r in results if isinstance(r, RelaxedSolution)]
        if relaxed:
            self.relax_ = relaxed[0].relax
            self.ridge_gap_ = sum(float(r.ridge_gap) for r in relaxed)
            self.ridge_rel_gap_ = relative_gap(sum(float(r.ridge_primal) for r in relaxed), self.ridge_gap_)
        if model.learner.bayesian:
            self._store_bayes(model, solved)
        for name in ("stationarity", "radius2"):
            parts = [value for r in results if (value := getattr(r, name, None)) is not None]
            if parts:
                values = np.concatenate(parts)
                setattr(self, f"{name}_", float(values[0]) if len(values) == 1 else values)
        found, names = solved[0].problem.uninformative, source.names
        self.uninformative_kernels_ = [
            (str(names[m]), kind) for kind in ("identity", "constant") for m in found[kind]
        ]
        # of an interruption there was a warning already
        unsolved = [r for r in results if not (r.certificate.status.ok or r.status is Status.INTERRUPTED)]
        if unsolved:
            worst = max(unsolved, key=lambda r: r.rel_gap)
            gap = "" if worst.status.is_of_descent else f" with relative gap {worst.rel_gap:.1e}"
            warn_user(
                f"{type(self).__name__} stopped{gap} after {worst.n_iter} iterations. "
                f"{worst.status.advice(model.learner.get_params(deep=False))}",
                ConvergenceWarning,
            )
        if len(found["identity"]):
            self._remark_identities(solved, found["identity"])

    def _remark_identities(self, solved: list[SolvedProblem], identities: NDArray[np.intp]) -> None:
        """Warn if most of the weight is on kernels in which no training row is similar to another."""
        weights = np.concatenate([np.atleast_2d(s.solution.weights) for s in solved])
        total, own = weights.sum(axis=1), weights[:, identities].sum(axis=1)
        if len(identities) < weights.shape[1] and not (own > 0.5 * total).any():
            return
        heaviest = identities[np.argsort(-weights[:, identities].max(axis=0), kind="stable")]
        named = ", ".join(repr(str(self.kernel_names_[m])) for m in heaviest[:3])
        more = f" and {len(heaviest) - 3} more" if len(heaviest) > 3 else ""
        if len(identities) == weights.shape[1]:
            found = "All kernels are the identity on the training rows"
        else:
            share = float((own[total > 0] / total[total > 0]).max())
            found = f"{percent(share)} of the weight is on kernels that are the identity on the training rows"
        warn_user(
            f"{found}: {named}{more}. In them no row is similar to another, so they are uninformative about "
            "new rows. Leave them out, or make them wider: a larger length, or a smaller gamma, for example "
            "1 / (number of columns * their variance).",
            KernelWarning,
        )

    def _store_bayes(self, model: Model, solved: list[SolvedProblem]) -> None:
        """Hook for regression."""

    # ---- predicting -------------------------------------------------------------------------------

    def _decide(self, X: Features) -> Array:
        """Decision values, shape (n_rows, n_outputs)."""
        queries = self._read_queries(X)
        return self.model_.decision(queries)

    def kernel_contributions(self, X: Features) -> Array:
        """Contributions of all kernels to the decision values.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            New rows, in the format of `fit`.

        Returns
        -------
        array of shape (n_rows, n_kernels) or (n_rows, n_kernels, n_outputs)
            Sums over kernels, plus `intercept_`, are the decision values. Of deep kernels, one column for every kernel
            of the last layer, ``layer_kernel_names_[-1]``: lower layers do not contribute to the decision value
            directly, but through the kernels above.

        Notes
        -----
        Only kernels with a nonzero weight are evaluated: O(n_rows n_samples) each, or O((n_rows + n_samples) rank)
        for kernels with an exact feature map.
        """
        queries = self._read_queries(X)
        parts = self.model_.contributions(queries)
        return parts[:, :, 0] if self.model_.flat else parts

    def explain_defaults(self) -> str:
        """Say in words what was taken where nothing was stated, and why.

        Returns
        -------
        str
            Several lines: what every table or view holds and which kernels follow, their widths, kernels left out as
            noise, how kernels are brought to one scale, the learner, how missing cells and views were treated, and how
            C or alpha was chosen.

        Examples
        --------
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(40, 3))
        >>> model = kw.MKLClassifier().fit(X, X[:, 0] > 0)
        >>> print(model.explain_defaults().splitlines()[0])
        Kernels, chosen by what the 40 training rows hold:
        """
        check_is_fitted(self)
        return explained(self.defaults_, self.model_)

    @property
    def feature_importances_(self) -> Array:
        """Shares of the columns in the weights of kernels, shape (n_features,), averaged over outputs; they sum to 1.

        The weight of a kernel is divided equally among its columns. Scikit-learn's `SelectFromModel`
        uses it; models of linear kernels have `coef_` as well.
        """
        source = self.model_.source
        if not isinstance(source, TableSource) or not source.raw.n_columns:
            raise AttributeError(
                "Importances of columns are for models of tables, whose kernels have columns."
            )
        return column_importances(source.kernels, self.model_.weight_shares, source.raw)

    @property
    def metric_(self) -> dict[str, Array]:
        """By view the learnt metric L'L of its prepared columns, categories as indicators, (n_columns, n_columns).

        Only of models with kernels in a learnt metric, see `kernelweave.kernels.Metric`.
        """
        return {view: one.step.matrix.T @ one.step.matrix for view, one in self._metrics().items()}

    @property
    def relevance_(self) -> dict[str, dict[str, float]]:
        """By view the share of each column in the trace of the learnt metric, in standardised columns; they sum to 1.

        Shares of the indicators of a category are added. They say on which columns the predictions of the training
        rows depend, not what causes the target.
        """
        return {view: one.shares for view, one in self._metrics().items()}

    def _metrics(self) -> dict[str, ViewMetric]:
        source = self.model_.source
        found = metrics_of(source) if isinstance(source, TableSource) else {}
        if not found:
            raise AttributeError(
                "There is a metric only of models with learner='metric', or kernels in a learnt metric."
            )
        return found

    @property
    def n_kernels_(self) -> int:
        """Number of kernels."""
        return len(self.kernel_names_)
