"""Common parts of regression and classification: fitting problems on a source, and fitted attributes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning

from kernelweave import learners, normalizers, recipe
from kernelweave._callbacks import ReportingMixin
from kernelweave._checks import InputError, KernelWarning
from kernelweave._parameters import check_values
from kernelweave._types import Features
from kernelweave.estimators.attributes import keep_model, refused
from kernelweave.estimators.defaults import N_FOLDS, DefaultsMixin, said_choice
from kernelweave.estimators.missing import residuals_of
from kernelweave.estimators.reading import ReadingMixin
from kernelweave.estimators.texts import column_importances
from kernelweave.fitting.folds import (
    Fold,
    FoldScores,
    choose,
    content_folds,
    negative_squared_error,
    score_folds,
)
from kernelweave.fitting.model import Model
from kernelweave.fitting.search import can_search, search_folds
from kernelweave.fitting.source import TableSource
from kernelweave.fitting.task import (
    Report,
    Setup,
    Solved,
    Task,
    path_task,
    set_up,
    shared_alphas,
    solve_task,
    was_interrupted,
)
from kernelweave.results import RelaxedSolution, Status, relative_gap
from kernelweave.views import TableEncoder, ViewsEncoder

Array = NDArray[np.float64]


class BaseMKL(DefaultsMixin, ReportingMixin, ReadingMixin):
    """Base of regression and classification."""

    learner: Any
    normalize: Any
    fit_intercept: bool
    #: None on estimators that choose the regularisation parameter, and on models that were pickled before these were
    #: parameters.
    C: float | str | None = None
    alpha: float | str | None = None

    def __getattr__(self, name: str) -> Any:
        said = refused(vars(self).get("model_"), name)
        if said is not None:
            raise AttributeError(said)
        # once more, for the message of a property that is not available
        return object.__getattribute__(self, name)

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, all of them or, if one cannot be set, none.

        Parameters of the learner are set as ``learner__C``. A learner that was named, or that follows from the other
        parameters, is then stated as an object with the same settings; a `C` that the plain estimator chooses by itself
        stays so, as ``C="auto"``.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self

        Raises
        ------
        InputError
            The learner has no such parameter, or its C or alpha is that of the estimator.

        Examples
        --------
        >>> import kernelweave as kw
        >>> kw.MKLClassifier(learner="simple").set_params(learner__C=3.0)
        MKLClassifier(learner=SimpleMKL(C=3.0))
        """
        own = {name: value for name, value in params.items() if "__" not in name}
        nested = {name: value for name, value in params.items() if "__" in name}
        # tried on a draft: a name that is wrong must not leave others set
        draft = type(self)(**self.get_params(deep=False))
        BaseEstimator.set_params(draft, **own)
        asked = {name.split("__")[1]: value for name, value in nested.items() if name.startswith("learner__")}
        if asked and not isinstance(own.get("learner"), learners.Learner):
            own |= draft._learner_for(asked)
            BaseEstimator.set_params(draft, **own)
        known = draft.get_params(deep=False)
        for name in nested:
            outer = name.split("__")[0]
            if outer in known and not hasattr(known[outer], "set_params"):
                raise InputError(
                    f"`{name}` is a parameter of `{outer}`, and {known[outer]!r} has none. Set `{outer}` itself."
                )
            if outer in known:
                setattr(draft, outer, clone(known[outer]))
        BaseEstimator.set_params(draft, **nested)
        return super().set_params(**own, **nested)

    def _resolved_learner(self) -> learners.Learner:
        """The learner, with the regularisation parameter of the estimator's own parameters."""
        learner = self._named_learner()
        for name, value in (("C", self.C), ("alpha", self.alpha)):
            if value is None:
                continue
            if learner.regularization_parameter != name:
                raise InputError(
                    f"`{name}` is for learners that have it, and {type(learner).__name__} has "
                    f"{learner.regularization_parameter}. Give "
                    f"{learner.regularization_parameter}=, or another learner, such as "
                    f"learner={'simple' if name == 'C' else 'rls2'!r}."
                )
            if (name, value) == ("C", "auto"):
                continue  # it is chosen later
            learner = clone(learner).set_params(**{name: value})
            learner.check()
        return learner

    # ---- state ------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        # set at the end of a fit, so that an estimator whose fit failed is not fitted
        return hasattr(self, "model_")

    def _forget(self) -> None:
        """Delete all fitted attributes, public and private."""
        kept = ("_skl", "_sklearn", "_metadata", "_callback", "_parent_callback")
        for name in [
            n for n in vars(self) if (n.startswith("_") and not n.startswith(kept)) or n.endswith("_")
        ]:
            delattr(self, name)

    def _fit_anew(self, fit: Callable[[], None]) -> None:
        """Fit without attributes of an earlier fit; after a failed fit the estimator is not fitted."""
        self._forget()
        check_values(self, self.get_params(deep=False))
        try:
            fit()
        except BaseException:
            self._forget()
            raise

    # ---- fitting ----------------------------------------------------------------------------------

    def _fit_task(
        self,
        X: Features,
        y: ArrayLike,
        rows: Any,
        encoder: TableEncoder | ViewsEncoder | None,
        targets: Sequence[Array],
        labels: Array,
        sample_weight: Array | None,
        params: dict[str, object],
        *,
        flat: bool = True,
        class_weight: Array | None = None,
        multilabel: bool = False,
    ) -> None:
        """Fit every problem on the rows with a positive weight; `labels` are for splitters."""
        learner = self._resolved_learner()
        if learner.own_intercept and not self.fit_intercept:
            raise InputError(
                f"`fit_intercept=False` is for learners that fix the intercept beforehand; {type(learner).__name__} "
                "learns it. Use True."
            )
        learner.check_task(isinstance(self, ClassifierMixin))
        if self._is_precomputed() and learner.layer_names():
            raise InputError(
                f"{type(learner).__name__} needs k(x, x) of new rows, which a precomputed cross-Gram (n_rows, n_train, "
                "n_kernels) does not have. Use kernels=kw.KernelBank(stack) over all rows, and sample indices as X."
            )
        folds = self._make_folds(labels, params)
        normalizer = normalizers.resolve(self._default_normalizer())
        n_rows = len(labels)
        kept = np.arange(n_rows) if sample_weight is None else np.flatnonzero(sample_weight > 0)
        weights = None if sample_weight is None else sample_weight[kept]
        if weights is not None and (weights == 1.0).all():
            weights = None
        rows = self._words_compressed(rows, encoder, kept, weights)
        source = self._make_source(rows, kept, weights, learner)
        extra = self._extra_queries(normalizer, encoder)
        if extra is not None and isinstance(source, TableSource):
            extra = source.accepted(extra)
        task = Task(
            source=source,
            targets=tuple(target[kept] for target in targets),
            sample_weight=weights,
            normalizer=normalizer.without_extra(),
            extra=extra,
            fit_intercept=bool(self.fit_intercept) and not learner.own_intercept,
            classification=isinstance(self, ClassifierMixin),
            flat=flat,
            class_weight=class_weight,
            multilabel=multilabel,
            screen=self._is_plain,
        )
        setups = set_up(task)
        if isinstance(source, TableSource) and (residuals := residuals_of(source)):
            self.missing_["residuals"] = residuals
        self._tell_defaults(setups, source)
        report = self._reporter(self._n_steps(learner, len(targets), folds), X, y)
        alpha, solved = self._solve(task, setups, learner, labels, kept, folds, report)
        learner = clone(learner)
        if getattr(learner, "relax", None) == "auto":
            # parameters chosen once are not chosen again on folds of the training rows
            learner.set_params(relax=getattr(solved[0].result, "relax", None))
        self._store(Model.of(task, learner, alpha, solved, encoder), solved)
        self._reported()

    def _make_folds(self, labels: Array, params: dict[str, object]) -> list[Fold]:
        """Folds over all rows, for estimators that cross-validate."""
        return []

    def _n_steps(self, learner: learners.Learner, n_problems: int, folds: Sequence[Fold]) -> int | None:
        if self._chooses_cost(learner):
            return n_problems * (len(recipe.COSTS) * N_FOLDS + 1)
        if learner.requested() is None:
            given = learner.given_alphas()
            n_alphas = learner.n_alphas if given is None else len(given)
            return n_problems * n_alphas * (learner.n_folds + 1)
        # the number of steps of a descent is unknown
        return None if learner.iterates else n_problems

    def _solve(
        self,
        task: Task,
        setups: list[Setup],
        learner: learners.Learner,
        labels: Array,
        kept: NDArray[np.intp],
        folds: Sequence[Fold],
        report: Report,
    ) -> tuple[float, list[Solved]]:
        """Choose the regularisation parameter and solve; `folds` are those of `_make_folds`."""
        if self._chooses_cost(learner):
            return self._solve_with_cost(task, setups, learner, labels[kept], report)
        requested = learner.requested()
        if requested is not None:
            solved = solve_task(task, setups, learner, requested, report)
            if any(s.result.status is Status.INTERRUPTED for s in solved):
                self._say_interrupted("the weights are the best ones so far")
            report(f"alpha {requested:.3g}")
            return requested, solved
        given = learner.given_alphas()
        alphas = shared_alphas(task, setups, learner.n_alphas, learner) if given is None else given
        folds = content_folds(
            task.source, labels[kept], learner.n_folds, stratify=isinstance(self, ClassifierMixin)
        )
        if len(folds) < 2:
            # one distinct row: no validation, so use the strongest regularisation of the path
            if learner.relax_grid(alphas) is not None:
                learner = clone(learner).set_params(relax=None)
            return self._finish_path(task, setups, learner, alphas, 0, report)
        score = negative_squared_error(task.targets, task.loss_weight)
        return self._search(
            task,
            setups,
            learner,
            folds,
            alphas,
            score,
            "min",
            report,
            name="negative squared error",
            n_jobs=getattr(learner, "n_jobs", None),
            narrow=True,
        )

    def _search(
        self,
        task: Task,
        setups: list[Setup],
        learner: learners.Learner,
        folds: Sequence[Fold],
        alphas: Array,
        score: Callable[[Array, NDArray[np.intp]], float],
        rule: str,
        report: Report,
        *,
        name: str,
        n_jobs: int | None = None,
        narrow: bool = False,
        part: Task | None = None,
        n_rows: int | None = None,
        searcher: learners.Learner | None = None,
        scored: tuple[FoldScores, list[Array]] | None = None,
    ) -> tuple[float, list[Solved]]:
        """Score the path on folds of the rows of the task, or of a part of it, choose, and solve on all of them.

        With `narrow`, far candidates are not scored. With a `searcher` for folds, only the best is solved on all rows,
        and likewise with scores that are known, and weights to begin with.
        """
        searched, part = None, task if part is None else part
        self._candidates = alphas
        if scored:
            scores, interrupted = scored[0].scores, scored[0].interrupted
        elif narrow and can_search(part, learner, alphas):
            searched = search_folds(part, learner, folds, alphas, score, n_jobs=n_jobs, report=report)
            alphas = alphas[searched.positions]
            scores, interrupted = searched.scores, searched.interrupted
        else:
            found = score_folds(part, searcher or learner, folds, alphas, score, n_jobs=n_jobs, report=report)
            scores, interrupted = found.scores, found.interrupted
        if interrupted:
            self._say_interrupted(f"alpha was chosen on {len(scores)} of {len(folds)} folds")
            ask = report

            def report(text: str) -> bool:
                # after a stop the finished folds choose the model
                ask(text)
                return False

        relax = learner.relax_grid(alphas)
        if relax is not None:
            # the best ridge at every point of the path, the largest among equals
            points = np.arange(len(alphas))
            which = scores.mean(axis=0).argmax(axis=1)
            scores, relax = scores[:, points, which], relax[points, which]
        mean = scores.mean(axis=0)
        if np.isnan(mean).any():
            raise InputError(
                f"The score ({name}) is NaN on some folds, for example R^2 on a fold of one row. Use fewer folds, or "
                "another `scoring` such as 'neg_mean_squared_error'."
            )
        error = scores.std(axis=0, ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.zeros_like(mean)
        best = choose(mean, error, rule)
        self.alphas_ = alphas
        self.cv_results_ = {
            "alpha": alphas,
            **({} if relax is None else {"relax": relax}),
            "mean_test_score": mean,
            "std_error_test_score": error,
            "score_name": name,
            **{f"split{k}_test_score": row for k, row in enumerate(scores)},
        }
        self.best_index_ = best
        self.best_score_ = float(mean[best])
        if relax is not None:
            learner = clone(learner).set_params(relax=float(relax[best]))
        self._tell_choice(
            said_choice(
                self.cv_results_,
                best,
                part.source.n_samples if n_rows is None else n_rows,
                task.source.n_samples,
                learner.regularization_parameter,
                n_candidates=len(self._candidates),
                held=scored is not None,
            )
        )
        if searched or searcher or scored:
            starts = searched.mean_weights(best) if searched else scored[1] if scored else None
            return self._finish_path(task, setups, learner, alphas[best : best + 1], 0, report, starts)
        return self._finish_path(task, setups, learner, alphas, best, report)

    def _finish_path(
        self,
        task: Task,
        setups: list[Setup],
        learner: learners.Learner,
        alphas: Array,
        best: int,
        report: Report,
        starts: list[Array] | None = None,
    ) -> tuple[float, list[Solved]]:
        """Solve on all rows along the path down to the chosen regularisation parameter, and return the last point."""
        paths = path_task(
            task, setups, learner, alphas[: best + 1], report=report, label="all rows", starts=starts
        )
        last = min(len(path) for path in paths) - 1
        if was_interrupted(paths):
            self._say_interrupted(
                f"the model is the one at alpha={alphas[last]:.3g}, the chosen one is {alphas[best]:.3g}"
            )
        return float(alphas[last]), [
            Solved(setup, path.at(last)) for setup, path in zip(setups, paths, strict=True)
        ]

    @staticmethod
    def _say_interrupted(what: str) -> None:
        warnings.warn(f"Fitting was interrupted: {what}.", UserWarning, stacklevel=8)

    def _store(self, model: Model, solved: list[Solved]) -> None:
        """Set the model and the fitted attributes."""
        results = [s.result for s in solved]
        keep_model(self, model)
        self._tell_route(model, solved)
        self.objective_ = float(sum(r.primal for r in results))
        self.gap_ = float(sum(r.gap for r in results))
        self.rel_gap_ = relative_gap(self.objective_, self.gap_)
        failed = [r for r in results if not r.status.ok]
        unsolved = [r for r in failed if r.status is not Status.INTERRUPTED]  # that warning was given already
        self.status_ = (failed or results)[0].status.name.lower()
        self.n_iter_ = int(max(1, max(r.n_iter for r in results)))
        histories = [h for r in results for h in (getattr(r, "histories", ()) or (r.history,))]
        self.history_ = [{k: np.asarray(v) for k, v in history.items()} for history in histories]
        relaxed = [r for r in results if isinstance(r, RelaxedSolution)]
        if relaxed:
            self.relax_ = relaxed[0].relax
            self.ridge_gap_ = sum(float(r.ridge_gap) for r in relaxed)
            self.ridge_rel_gap_ = relative_gap(sum(float(r.ridge_primal) for r in relaxed), self.ridge_gap_)
        if model.learner.bayesian:
            self._store_bayes(model, solved)
        for name in ("stationarity", "radius2"):
            found = [value for r in results if (value := getattr(r, name, None)) is not None]
            if found:
                values = np.concatenate(found)
                setattr(self, f"{name}_", float(values[0]) if len(values) == 1 else values)
        setup, names = solved[0].setup, model.source.names
        self.uninformative_kernels_ = [
            *((str(names[m]), "identity") for m in setup.identities),
            *((str(names[m]), "constant") for m in setup.constants),
        ]
        if unsolved:
            worst = max(unsolved, key=lambda r: r.rel_gap)
            gap = "" if worst.status.is_of_descent else f" with relative gap {worst.rel_gap:.1e}"
            warnings.warn(
                f"{type(self).__name__} stopped{gap} after {worst.n_iter} iterations. {worst.status.value}",
                ConvergenceWarning,
                stacklevel=8,
            )
        self._remark_identities(solved, setup.identities)

    def _remark_identities(self, solved: list[Solved], identities: NDArray[np.intp]) -> None:
        """Warn if most of the weight is on kernels in which no training row is similar to another."""
        if not len(identities):
            return
        weights = np.concatenate([np.atleast_2d(s.result.weights) for s in solved])
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
            found = f"{share:.0%} of the weight is on kernels that are the identity on the training rows"
        warnings.warn(
            f"{found}: {named}{more}. In them no row is similar to another, so they are uninformative about "
            "new rows. Leave them out, or use a smaller gamma, for example 1 / (number of columns * their variance).",
            KernelWarning,
            stacklevel=9,
        )

    def _store_bayes(self, model: Model, solved: list[Solved]) -> None:
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
    def n_kernels_(self) -> int:
        """Number of kernels."""
        return len(self.kernel_names_)
