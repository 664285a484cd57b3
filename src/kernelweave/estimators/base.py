"""Estimators: scikit-learn's contract around sources, learners and normalisers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from kernelweave import banks, learners, normalizers
from kernelweave._callbacks import ReportingMixin, with_callbacks
from kernelweave._checks import (
    InputError,
    KernelWarning,
    as_floats,
    check_finite,
    check_gram_stack,
    check_size,
    count_dimensions,
)
from kernelweave._parameters import Flag, Number, OneOf, check_values, checked, listed, shown
from kernelweave._threads import blas_threads_for
from kernelweave.fitting.calibration import METHODS, calibrate, out_of_fold
from kernelweave.fitting.source import BankSource, KernelBank, Source, StackSource, TableSource, memory_budget
from kernelweave.fitting.task import (
    Fold,
    Report,
    Setup,
    Solved,
    Task,
    choose,
    content_folds,
    decisions,
    kernel_actions,
    learner_of,
    negative_squared_error,
    normalized_cross,
    path_task,
    rebuild_task,
    ridge_strength,
    score_folds,
    set_up,
    shared_alphas,
    solve_task,
    split_rows,
    summed_kernels,
    was_interrupted,
)
from kernelweave.kernels import Kernel
from kernelweave.machines.ridge import DenseSystem
from kernelweave.mkl.rls2 import make_problem
from kernelweave.mkl.selection import compute_criteria
from kernelweave.results import RelaxedSolution, Status, relative_gap
from kernelweave.views import TableEncoder

__all__ = ["MKLClassifier", "MKLRegressor"]

Array = NDArray[np.float64]


class _BaseMKL(ReportingMixin, BaseEstimator):
    """What regression and classification share: reading rows, fitting problems, predicting."""

    # ---- state ------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        # set at the end of a fit: one that failed half-way leaves nothing that looks fitted
        return hasattr(self, "_source")

    def _forget(self) -> None:
        """Drop everything that a fit leaves, public and private."""
        kept = ("_skl", "_sklearn", "_metadata", "_callback", "_parent_callback")
        for name in [
            n for n in vars(self) if (n.startswith("_") and not n.startswith(kept)) or n.endswith("_")
        ]:
            delattr(self, name)

    def _fit_anew(self, fit: Callable[[], None]) -> None:
        """Fit without anything of an earlier fit; one that fails leaves an estimator that was never fitted."""
        self._forget()
        check_values(self, self.get_params(deep=False))
        try:
            fit()
        except BaseException:
            self._forget()
            raise

    # ---- reading ----------------------------------------------------------------------------------

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed()
        tags.input_tags.three_d_array = self._is_precomputed()
        tags.input_tags.categorical = not self._is_precomputed()
        tags.input_tags.string = False
        return tags

    def _read_training(self, X: Any) -> Any:
        """Check training rows and remember their layout; return a Table, an index or a stack."""
        if self._is_precomputed():
            if count_dimensions(X) == 2:
                X = np.asarray(X)
                if X.shape[0] != X.shape[1]:
                    raise InputError(
                        f"Precomputed kernels must be square for training, got shape {X.shape}. "
                        "Pass K(X_train, X_train), kernels last."
                    )
            stack = check_gram_stack(X)
            self.n_features_in_ = stack.shape[1]
            return stack
        if isinstance(self.kernels, KernelBank):
            self.n_features_in_ = 1
            return BankSource.check_index(self.kernels, X)
        self._look_at(X, reset=True)
        self._encoder = TableEncoder(type(self).__name__, reorder=False)
        table = self._encoder.fit(X).transform(X)
        check_size(table.values, "X")
        self.n_features_in_ = table.n_columns
        return table

    def _look_at(self, X: Any, *, reset: bool) -> None:
        """Remember or compare the names and the number of columns."""
        try:
            validate_data(self, X=X, skip_check_array=True, reset=reset)
        except (TypeError, ValueError, LookupError) as error:
            raise InputError(f"`X` must be a table of rows with the columns of `fit`: {error}") from error

    def _read_queries(self, X: Any) -> Any:
        """Check new rows; return queries of the fitted source."""
        check_is_fitted(self)
        # what the fitted model needs, whatever its parameters have been set to since
        if isinstance(self._source, StackSource):
            block = as_floats(X, "X")
            if block.ndim == 2 and len(self._source.names) == 1:
                block = block[:, :, None]
            expected = (self.n_features_in_, len(self._source.names))
            if block.ndim != 3 or block.shape[1:] != expected:
                raise InputError(
                    f"Cross-Grams must have shape (n_rows, n_train={expected[0]}, n_kernels={expected[1]}), "
                    f"got {block.shape}. Rows are the new samples, columns the training samples."
                )
            if not len(block):
                raise InputError("Found no rows to predict, got a cross-Gram of 0 rows. Pass at least one.")
            check_finite(block, "X")
            return block[:, self._kept_columns] if self._kept_columns is not None else block
        if isinstance(self._source, BankSource):
            return BankSource.check_index(self._source.bank, X)
        if getattr(X, "ndim", 2) != 2:
            raise InputError(
                f"Expected a 2D table of rows, got an array of {X.ndim} dimensions. Reshape your data with "
                "X.reshape(1, -1) if it is one row, or X.reshape(-1, 1) if it is one column."
            )
        self._look_at(X, reset=False)
        return self._encoder.transform(X)

    def _kernel_list(self, table: Any) -> list[Kernel]:
        kernels = self.kernels
        if kernels is None:
            return banks.default(table)
        if isinstance(kernels, Kernel):
            kernels = [kernels]
        if isinstance(kernels, str):
            raise InputError(
                f"`kernels` must be a list of kernels, a KernelBank, 'precomputed' or None, got {kernels!r}. "
                "For a named bank call it, for example kernels=kw.banks.rkl()."
            )
        given = listed(kernels)
        if given is None:
            raise InputError(
                f"`kernels` must be a list of kernels, a KernelBank, 'precomputed' or None, got {shown(kernels)}."
            )
        kernels = given
        if not kernels:
            raise InputError(
                "`kernels` must hold at least one kernel, got an empty list. Use None for a default."
            )
        for m, kernel in enumerate(kernels):
            if not isinstance(kernel, Kernel):
                raise InputError(
                    f"`kernels[{m}]` must be a kernel such as kw.kernels.RBF(gamma=0.1), got {kernel!r}. "
                    "Wrap a function as kw.kernels.Custom(function)."
                )
        return kernels

    def _make_source(self, rows: Any, kept: NDArray[np.intp], sample_weight: Array | None) -> Source:
        self._kept_columns = None
        if self._is_precomputed():
            if len(kept) < len(rows):
                self._kept_columns = kept
            return StackSource(rows[np.ix_(kept, kept)] if len(kept) < len(rows) else rows)
        if isinstance(self.kernels, KernelBank):
            return BankSource(self.kernels, rows[kept])
        table = rows if len(kept) == rows.n_rows else rows.rows(kept)
        standardize = self.kernels is None if self.standardize == "auto" else bool(self.standardize)
        return TableSource(
            self._kernel_list(table),
            table,
            max_memory=memory_budget(self.max_memory),
            rank_tol=self.rank_tol,
            standardize=standardize,
            sample_weight=sample_weight,
        )

    def _extra_queries(self, normalizer: normalizers.Normalizer) -> Any:
        extra = normalizer.transductive
        if extra is None:
            return None
        if self._is_precomputed():
            raise InputError("Transductive normalisers need kernels as objects or a KernelBank.")
        if isinstance(self.kernels, KernelBank):
            return BankSource.check_index(self.kernels, extra)
        return self._encoder.transform(extra)

    def _check_sample_weight(self, sample_weight: Any, n_rows: int) -> Array | None:
        if sample_weight is None:
            return None
        weights = np.array(as_floats(sample_weight, "sample_weight"))
        if weights.ndim == 0:
            weights = np.full(n_rows, float(weights))
        if weights.ndim != 1:
            raise InputError(f"Sample weights must be 1D array or scalar, got shape {weights.shape}.")
        if weights.shape != (n_rows,):
            raise InputError(f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}!")
        check_finite(weights, "sample_weight")
        check_size(weights, "sample_weight")
        if (weights < 0).any():
            raise InputError("`sample_weight` must not be negative. Drop rows by weight 0.")
        if not weights.any():
            raise InputError("All sample weights are zero. At least one row needs a positive weight.")
        return weights

    # ---- fitting ----------------------------------------------------------------------------------

    def _fit_task(
        self,
        X: Any,
        y: Any,
        rows: Any,
        targets: Sequence[Array],
        labels: Array,
        sample_weight: Array | None,
        params: dict[str, Any],
    ) -> list[Solved]:
        """Fit every problem on the rows with a positive weight; `labels` are what splitters see."""
        learner = learners.resolve(self.learner)
        if learner.own_intercept and not self.fit_intercept:
            raise InputError(
                f"`fit_intercept=False` is for learners that fix the intercept beforehand; {type(learner).__name__} "
                "learns it. Use True."
            )
        if not learner.regression and not isinstance(self, ClassifierMixin):
            raise InputError(
                f"{type(learner).__name__} is for classification. Use MKLClassifier, or another learner."
            )
        if self._is_precomputed() and learner.layer_names():
            raise InputError(
                f"{type(learner).__name__} needs k(x, x) of new rows, which a precomputed cross-Gram (n_rows, n_train, "
                "n_kernels) does not hold. Use kernels=kw.KernelBank(stack) over all rows, and sample indices as X."
            )
        folds = self._make_folds(labels, params)
        normalizer = normalizers.resolve(self.normalize)
        n_rows = len(labels)
        kept = np.arange(n_rows) if sample_weight is None else np.flatnonzero(sample_weight > 0)
        weights = None if sample_weight is None else sample_weight[kept]
        if weights is not None and (weights == 1.0).all():
            weights = None
        source = self._make_source(rows, kept, weights)
        task = Task(
            source=source,
            targets=tuple(target[kept] for target in targets),
            sample_weight=weights,
            normalizer=normalizer.without_extra(),
            extra=self._extra_queries(normalizer),
            fit_intercept=bool(self.fit_intercept) and not learner.own_intercept,
            classification=isinstance(self, ClassifierMixin),
        )
        setups = set_up(task)
        report = self._reporter(self._n_steps(learner, len(targets), folds), X, y)
        solved = self._solve(task, setups, learner, labels, kept, folds, report)
        self._store(task, solved)
        self._reported()
        return solved

    def _make_folds(self, labels: Array, params: dict[str, Any]) -> list[Fold]:
        """Folds over all rows, for estimators that cross-validate."""
        return []

    def _n_steps(self, learner: learners.Learner, n_problems: int, folds: Sequence[Any]) -> int | None:
        if learner.requested() is None:
            given = learner.given_alphas()
            n_alphas = learner.n_alphas if given is None else len(given)
            return n_problems * n_alphas * (learner.n_folds + 1)
        # nobody knows how many steps a descent takes
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
    ) -> list[Solved]:
        """Choose the strength and solve; `folds` are those of `_make_folds`."""
        requested = learner.requested()
        if requested is not None:
            self.alpha_ = requested
            solved = solve_task(task, setups, learner, self.alpha_, report)
            if any(s.result.status is Status.INTERRUPTED for s in solved):
                self._say_interrupted("the weights are the best ones so far")
            report(f"alpha {self.alpha_:.3g}")
            return solved
        given = learner.given_alphas()
        alphas = shared_alphas(task, setups, learner.n_alphas, learner) if given is None else given
        folds = content_folds(
            task.source, labels[kept], learner.n_folds, stratify=isinstance(self, ClassifierMixin)
        )
        if len(folds) < 2:
            # one distinct row: nothing to compare, so shrink as much as the path allows
            if learner.relax_grid(alphas) is not None:
                learner = clone(learner).set_params(relax=None)
            return self._finish_path(task, setups, learner, alphas, 0, report)
        score = negative_squared_error(task.targets, task.sample_weight)
        return self._search(
            task, setups, learner, folds, alphas, score, "min", report, name="- squared error"
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
    ) -> list[Solved]:
        """Score the path on folds of the task's rows, choose, and solve on all of them."""
        scores, interrupted = score_folds(task, learner, folds, alphas, score, n_jobs=n_jobs, report=report)
        if interrupted:
            self._say_interrupted(f"alpha was chosen on {len(scores)} of {len(folds)} folds")
            ask = report

            def report(text: str) -> bool:
                # who has asked to stop gets the model that the finished folds chose
                ask(text)
                return False

        relax = learner.relax_grid(alphas)
        if relax is not None:
            # the best ridge at every point of the path, the strongest among equals
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
        return self._finish_path(task, setups, learner, alphas, best, report)

    def _finish_path(
        self,
        task: Task,
        setups: list[Setup],
        learner: learners.Learner,
        alphas: Array,
        best: int,
        report: Report,
    ) -> list[Solved]:
        """Solve on all rows along the path down to the chosen strength, and keep the last point."""
        paths = path_task(task, setups, learner, alphas[: best + 1], report=report, label="all rows")
        last = min(len(path) for path in paths) - 1
        if was_interrupted(paths):
            self._say_interrupted(
                f"the model is the one at alpha={alphas[last]:.3g}, the chosen one is {alphas[best]:.3g}"
            )
        self.alpha_ = float(alphas[last])
        return [Solved(setup, path.at(last)) for setup, path in zip(setups, paths, strict=True)]

    @staticmethod
    def _say_interrupted(what: str) -> None:
        warnings.warn(f"Fitting was interrupted: {what}.", UserWarning, stacklevel=8)

    def _store(self, task: Task, solved: list[Solved]) -> None:
        source = task.source
        self._training = {
            # what the model was fitted with, which its parameters may no longer say
            "learner": clone(learners.resolve(self.learner)),
            "normalizer": task.normalizer,
            "fit_intercept": task.fit_intercept,
            "targets": list(task.targets),
            "sample_weight": task.sample_weight,
            "extra": task.extra,
        }
        learner = learners.resolve(self.learner)
        self.kernel_names_ = np.array(source.names, dtype=object)
        self.layer_kernel_names_ = [
            self.kernel_names_,
            *(np.array(names, dtype=object) for names in learner.layer_names()),
        ]
        self.normalizers_ = [s.setup.normalizer for s in solved]
        self.gram_ = solved[0].setup.gram.describe()
        results = [s.result for s in solved]
        weights = np.array([r.weights for r in results])
        self._base_weights = weights[0] if len(results) == 1 else weights
        layered = [found for r in results if (found := getattr(r, "layer_weights", None)) is not None]
        self._uppers = [layers for r in results for layers in getattr(r, "uppers", ())]
        if layered:
            self.weights_ = layered[0] if len(layered) == 1 else np.array(layered)
        else:
            self.weights_ = self._base_weights
        self._dual = np.column_stack([r.dual_coef for r in results])
        self._intercepts = np.concatenate([s.intercept for s in solved])
        self._effective = np.concatenate([s.effective() for s in solved])
        self._owner = np.repeat(np.arange(len(solved)), [len(s.setup.intercept) for s in solved])
        single = self._dual.shape[1] == 1 and self._one_output()
        self.dual_coef_ = self._dual[:, 0] if single else self._dual
        self.intercept_ = float(self._intercepts[0]) if single else self._intercepts
        self.support_ = np.flatnonzero((self._dual != 0).any(axis=1))
        self.objective_ = float(sum(r.primal for r in results))
        self.gap_ = float(sum(r.gap for r in results))
        self.rel_gap_ = self.gap_ / abs(self.objective_) if self.objective_ else 0.0
        failed = [r for r in results if not r.status.ok]
        unsolved = [r for r in failed if r.status is not Status.INTERRUPTED]  # that has been said already
        self.status_ = (failed or results)[0].status.name.lower()
        self.n_iter_ = int(max(1, max(r.n_iter for r in results)))
        histories = [h for r in results for h in (getattr(r, "histories", ()) or (r.history,))]
        self.history_ = [{k: np.asarray(v) for k, v in history.items()} for history in histories]
        if learner.strength == "C":
            self.C_ = 1.0 / self.alpha_
        relaxed = [r for r in results if isinstance(r, RelaxedSolution)]
        if relaxed:
            self.relax_ = relaxed[0].relax
            self.ridge_gap_ = sum(float(r.ridge_gap) for r in relaxed)
            self.ridge_rel_gap_ = relative_gap(sum(float(r.ridge_primal) for r in relaxed), self.ridge_gap_)
        if getattr(learner, "relax", None) == "auto":
            # what was chosen once is not chosen again on folds of the training rows
            self._training["learner"].set_params(relax=getattr(self, "relax_", None))
        if learner.bayesian:
            self._store_bayes(task, solved)
        for name in ("stationarity", "radius2"):
            found = [value for r in results if (value := getattr(r, name, None)) is not None]
            if found:
                values = np.concatenate(found)
                setattr(self, f"{name}_", float(values[0]) if len(values) == 1 else values)
        self._store_coef(source)
        setup = solved[0].setup
        self.uninformative_kernels_ = [
            *((str(source.names[m]), "identity") for m in setup.identities),
            *((str(source.names[m]), "constant") for m in setup.constants),
        ]
        self._source = source
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
        """Warn where most of the weight is on kernels in which no training row resembles another."""
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
            f"{found}: {named}{more}. In them no row resembles another, so they say nothing about new rows. Leave them "
            "out, or take a smaller gamma, for example 1 / (number of columns * their variance).",
            KernelWarning,
            stacklevel=9,
        )

    def _store_bayes(self, task: Task, solved: list[Solved]) -> None:
        """Hook for regression."""

    def _one_output(self) -> bool:
        return True

    def _store_coef(self, source: Source) -> None:
        """Set `coef_` when every kernel is linear on numeric columns and stays linear after normalisation."""
        if not isinstance(source, TableSource) or any(source.table.levels) or self._uppers:
            return
        if not all(kernel.is_linear for kernel in source.kernels):
            return
        if any(n.cosine_scale is not None for n in self.normalizers_):
            return
        values = source.table.values
        coef = np.zeros((len(self._effective), values.shape[1]))
        projected = self._dual.T @ values  # (n_outputs, n_columns)
        columns, factors, owners = source.linear_layout()
        for k, effective in enumerate(self._effective):
            np.add.at(coef[k], columns, effective[owners] * factors * projected[k, columns])
        shift = np.zeros(len(coef))
        for k in range(len(coef)):
            fitted = self.normalizers_[self._owner[k]]
            if fitted.probability is not None:
                # a centred linear kernel is the kernel of centred columns
                total = float(self._dual[:, k].sum())
                means = fitted.probability @ values
                plain = np.zeros_like(coef[k])
                np.add.at(plain, columns, self._effective[k][owners] * factors * means[columns])
                coef[k] -= total * plain
                shift[k] -= float(coef[k] @ means)
        if source.statistics is not None:
            mean, std = source.statistics
            coef = coef / std
            shift = shift - coef @ mean
        constant = self._intercepts + shift
        self.coef_ = coef[0] if self._flat_coef() else coef
        self.linear_intercept_ = float(constant[0]) if self._flat_coef() else constant

    def _flat_coef(self) -> bool:
        return len(self._effective) == 1 and self._one_output()

    # ---- predicting -------------------------------------------------------------------------------

    def _decide(self, X: Any) -> Array:
        """Decision values, shape (n_rows, n_outputs)."""
        queries = self._read_queries(X)
        source = self._source
        if hasattr(self, "coef_"):
            return queries.values @ np.atleast_2d(self.coef_).T + self.linear_intercept_
        weights = [e[None, None] for e in self._effective]
        coefficients = [c[None, :, None] for c in self._dual.T]
        intercepts = [b[None] for b in self._intercepts]
        uppers = [[(layers,)] for layers in self._uppers] or None
        return decisions(source, queries, self.normalizers_[0], intercepts, weights, coefficients, uppers)[0]

    def kernel_contributions(self, X: Any) -> Array:
        """What every kernel adds to the decision values.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            New rows, in the form that `fit` took.

        Returns
        -------
        array of shape (n_rows, n_kernels) or (n_rows, n_kernels, n_outputs)
            Sums over kernels, plus `intercept_`, are the decision values. Of deep kernels, one column for every kernel
            of the last layer, ``layer_kernel_names_[-1]``: the layers below do not add to the decision value, they
            change the kernels above.

        Notes
        -----
        Only kernels with a nonzero weight are evaluated: O(n_rows n_samples) each, or O((n_rows + n_samples) rank)
        where there is an exact feature map.
        """
        queries = self._read_queries(X)
        source = self._source
        n_outputs = len(self._effective)
        if self._uppers:
            return self._deep_contributions(queries)
        out = np.zeros((source.query_length(queries), source.n_kernels, n_outputs))
        active = np.flatnonzero((self._effective != 0).any(axis=0))
        with blas_threads_for(min(len(out), source.n_samples)):
            for where, m, times in kernel_actions(source, queries, self.normalizers_[0], active):
                out[where, m] = times(self._dual) * self._effective[:, m]
        return out[:, :, 0] if n_outputs == 1 and self._one_output() else out

    def _deep_contributions(self, queries: Any) -> Array:
        """What every kernel of the last layer adds."""
        source = self._source
        width = max(len(layers.functions[-1]) for layers in self._uppers if layers is not None)
        out = np.zeros((source.query_length(queries), width, len(self._effective)))
        with blas_threads_for(min(len(out), source.n_samples)):
            for k, (layers, effective) in enumerate(zip(self._uppers, self._effective, strict=True)):
                if layers is None:
                    continue
                for where, K, kappa in summed_kernels(source, queries, self.normalizers_[0], effective):
                    for m, term in layers.last_terms(K, kappa):
                        out[where, m, k] = term @ self._dual[:, k]
        return out[:, :, 0] if out.shape[2] == 1 and self._one_output() else out

    @property
    def n_kernels_(self) -> int:
        """Number of kernels."""
        return len(self.kernel_names_)


class MKLRegressor(RegressorMixin, _BaseMKL):
    """Regression with learnt kernel weights.

    With ``learner="rls2"`` minimises over weights d on the simplex and coefficients c

        1/2 sum_i w_i (y_i - b - f_i)^2 + alpha/2 c' K(d) c ,   f = K(d) c ,   K(d) = sum_m d_m s_m K_m .

    Parameters
    ----------
    kernels : list of kernels, KernelBank, "precomputed" or None, default=None
        None builds a default bank on standardised columns (see `kernelweave.banks.default`). With a `KernelBank`
        X is one column of sample indices; with "precomputed" X has shape (n_rows, n_train, n_kernels).
    learner : str or Learner, default="rls2"
        How the weights are found; its parameters are reached as ``learner__alpha`` when it is an object.
    normalize : str, Normalizer or None, default="mean-diagonal"
        "mean-diagonal", "trace", "norm", "cosine", "center", "within-class" (classification only), an object, or
        None. Statistics are weighted, taken in `fit` and kept.
    standardize : bool or "auto", default="auto"
        Shift and scale numeric columns to weighted mean 0 and variance 1 first. "auto": only for the default bank.
    fit_intercept : bool, default=True
        Use the weighted mean of y as intercept b (it is fixed beforehand, as in the paper); otherwise 0.
    max_memory : float, str or "auto", default="auto"
        Bytes (or "2GB") for the training kernels; above it, kernels that are not low rank are recomputed in tiles. The
        user guide says what this covers ("How Gram matrices are held").
        "auto" is a quarter of the physical memory.
    rank_tol : float, default=0.0
        Kernels are held as low-rank factors (pivoted Cholesky) when these leave out at most this share of the trace.
        0 takes only factors that equal the kernel to rounding; a larger value saves time and memory, and what is left
        out enters the certificate.

    Attributes
    ----------
    weights_ : array of shape (n_kernels,) or (n_outputs, n_kernels)
        In the units of the kernels after normalisation; on the simplex unless the learner says otherwise. Learners of
        several layers have (n_layers, n_kernels) or (n_outputs, n_layers, n_kernels), NaN where a layer has fewer
        kernels than another (the two-layer learner "2lmkl" has base weights only).
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_outputs)
        Over the rows with a positive weight: ``f = K @ dual_coef_ + intercept_``.
    intercept_ : float or array of shape (n_outputs,)
    coef_ : array of shape (n_features,) or (n_outputs, n_features)
        Only when every kernel is linear: coefficients for X as given.
    linear_intercept_ : float or array of shape (n_outputs,)
        With `coef_`: ``X @ coef_ + linear_intercept_`` is the prediction. Differs from `intercept_` when columns are
        standardised or kernels are centred.
    alpha_ : float
        The strength that was used.
    relax_ : float
        Only with ``RLS2(relax=...)``: the strength of the function, where `alpha_` is that of the weights.
    ridge_gap_, ridge_rel_gap_ : float
        Only with `relax_`: how far the function may be from the best one at these weights, as a value and as a share of
        its objective; `gap_` speaks of the weights.
    kernel_names_ : array of str, shape (n_kernels,)
    layer_kernel_names_ : list of arrays of str
        Names of the kernels of every layer; the first are `kernel_names_`, and there are more with deep kernels.
    normalizers_ : list of FittedNormalizer
    support_ : array of int
        Rows with a nonzero dual coefficient.
    objective_, gap_, rel_gap_ : float
        Certificate: the objective is at most `gap_` above the optimum. Where weights are a local solution (deep
        kernels, "kl-c") these are numbers of the machine on the kernel that was found, not of the weights.
    stationarity_ : float or array of shape (n_outputs,)
        Only where weights are a local solution: how nearly they are stationary.
    status_ : str
    n_iter_ : int
    history_ : list of dict
        One for each output with weights of its own. Deep kernels: "criterion" and "weights" (all layers in a row), and
        with validation rows "validation" and "validation_error", the start included; see
        `kernelweave.inspection.descent`.
    gram_ : str
        How the training kernels were held.
    uninformative_kernels_ : list of (str, str)
        Names of kernels that say nothing about new rows, each with "identity" (on the training rows, before
        normalisation, no row resembles another) or "constant". `KernelWarning` tells of the first kind where most of
        the weight is on it.
    alphas_, cv_results_, best_index_, best_score_
        Of the choice of alpha, when it was "auto"; see `MKLRegressorCV`.
    noise_variance_, prior_scale_ : arrays of shape (n_outputs,)
        Of the Gaussian-process reading: noise variance ``alpha tau^2`` and prior scale ``tau^2``, at their maximum
        of likelihood for the learnt kernel.
    log_marginal_likelihood_ : float
    n_features_in_, feature_names_in_

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

    def __init__(
        self,
        kernels: Any = None,
        learner: Any = "rls2",
        *,
        normalize: Any = "mean-diagonal",
        standardize: Annotated[bool | str, Flag() | OneOf("auto")] = "auto",
        fit_intercept: Annotated[bool, Flag()] = True,
        max_memory: float | str = "auto",
        rank_tol: Annotated[float, Number(least=0, below=1)] = 0.0,
    ) -> None:
        self.kernels = kernels
        self.learner = learner
        self.normalize = normalize
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.max_memory = max_memory
        self.rank_tol = rank_tol

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> MKLRegressor:
        """Learn weights and coefficients.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Or sample indices / a kernel stack, see `kernels`. Text and categorical columns of frames are encoded.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            A weight equals a repetition of the row; rows of weight 0 are dropped.

        Returns
        -------
        self
        """
        self._fit_anew(lambda: self._fit(X, y, sample_weight, {}))
        return self

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, params: dict[str, Any]) -> None:
        if y is None:
            raise InputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            )
        rows = self._read_training(X)
        n_rows = rows.n_rows if hasattr(rows, "n_rows") else len(rows)
        try:
            given = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y")
        except (TypeError, ValueError) as error:
            raise InputError(
                f"`y` must hold one number, or a row of numbers, for every row: {error}"
            ) from error
        if given.dtype.kind in "US":
            raise InputError(
                "`y` must be numeric for regression, got text. Encode it as numbers, or use MKLClassifier."
            )
        targets = as_floats(given, "y")
        check_finite(targets, "y")
        check_size(targets, "y")
        if len(targets) != n_rows:
            raise InputError(
                f"Found input variables with inconsistent numbers of samples: [{n_rows}, {len(targets)}]. `X` and "
                "`y` must have equally many rows."
            )
        self._y_flat = targets.ndim == 1
        labels = targets.reshape(n_rows, -1)
        weights = self._check_sample_weight(sample_weight, n_rows)
        self._fit_task(X, y, rows, [labels], labels, weights, params)

    def _one_output(self) -> bool:
        return self._y_flat

    def _store_bayes(self, task: Task, solved: list[Solved]) -> None:
        setup, result = solved[0].setup, solved[0].result
        n_eff = float(task.source.n_samples if task.sample_weight is None else task.sample_weight.sum())
        quad = np.einsum("it,it->t", setup.y, self._dual)  # y' (K + alpha N)^-1 y for each output
        self.prior_scale_ = np.maximum(quad, 0.0) / n_eff
        weights = np.atleast_2d(result.weights)
        noise = []
        total = 0.0
        for k in range(setup.y.shape[1]):
            problem, _ = make_problem(setup.gram, setup.y[:, k], task.sample_weight, setup.normalizer.scale)
            with blas_threads_for(task.source.n_samples):
                found = compute_criteria(
                    problem,
                    ridge_strength(self),
                    weights[min(k, len(weights) - 1)],
                    self._dual[:, k][None],
                    total=False,
                )
            noise.append(found.noise_variance)
            total += found.evidence
        self.noise_variance_ = np.array(noise)  # alpha tau^2, which is finite at alpha = inf
        self.log_marginal_likelihood_ = total
        self._noise = None if task.sample_weight is None else 1.0 / task.sample_weight

    @checked
    def predict(self, X: Any, return_std: Annotated[bool, Flag()] = False) -> Array | tuple[Array, Array]:
        """Predict the target.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the posterior standard deviation of f under the Gaussian-process reading of the model:
            prior covariance ``prior_scale_ * K(d)``, independent noise of variance ``noise_variance_``. Add
            ``noise_variance_`` to its square for new observations. The learnt weights count as known.

        Returns
        -------
        y : array of shape (n_rows,) or (n_rows, n_outputs)
        std : array of the same shape
            Only with `return_std`.

        References
        ----------
        P1, section 4.1.
        """
        mean = self._decide(X)
        flat = self._y_flat
        if not return_std:
            return mean[:, 0] if flat else mean
        if not hasattr(self, "prior_scale_"):
            raise InputError(
                "`return_std` needs a learner that is the mean of a Gaussian process: learner='rls2', not "
                f"{type(learner_of(self)).__name__}."
            )
        std = self._posterior_std(self._read_queries(X))
        return (mean[:, 0], std[:, 0]) if flat else (mean, std)

    def _posterior_std(self, queries: Any) -> Array:
        """Posterior standard deviations (n_rows, n_outputs); one factorisation for each set of weights."""
        source = self._source
        fitted = self.normalizers_[0]
        gram = fitted.prepare(source.gram(), overwrite=True)
        noise = np.ones(source.n_samples) if self._noise is None else self._noise
        groups = (
            [slice(0, len(self._effective))]
            if self.weights_.ndim == 1
            else [slice(k, k + 1) for k in range(len(self._effective))]
        )
        out = np.zeros((source.query_length(queries), len(self._effective)))
        for group in groups:
            effective = self._effective[group.start]
            if np.isinf(ridge_strength(self)):
                # f = 0 without any prior scale: alpha tau^2 is finite, so tau^2 is 0
                continue
            active = np.flatnonzero(effective)
            system = DenseSystem(gram.combine_upper(effective), ridge_strength(self), noise)
            cross = np.zeros((len(out), source.n_samples))
            prior = np.zeros(len(out))
            raw = {int(m): source.query_diagonal(queries, int(m)) for m in active}
            for where, m, K in source.cross(queries, active):
                cross[where] += effective[m] * normalized_cross(source, queries, fitted, where, m, K)
                prior[where] += effective[m] * fitted.cross_diagonal(m, K, raw[m][where])
            explained = np.einsum("ri,ir->r", cross, system.solve(np.asfortranarray(cross.T)))
            variance = np.maximum(prior - explained, 0.0)
            out[:, group] = np.sqrt(variance[:, None] * self.prior_scale_[group])
        return out


class MKLClassifier(ClassifierMixin, _BaseMKL):
    """Classification with learnt kernel weights; several classes by one-vs-rest.

    With ``learner="rls2"`` every binary problem is a regression on targets -1 and 1 (P1): see `MKLRegressor` for
    the objective. The class is the one with the largest decision value.

    Parameters
    ----------
    kernels : list of kernels, KernelBank, "precomputed" or None, default=None
        See `MKLRegressor`.
    learner : str or Learner, default="rls2"
    normalize : str, Normalizer or None, default="mean-diagonal"
        "within-class" (P1, rule 17) has its own factors for every class.
    standardize : bool or "auto", default="auto"
    fit_intercept : bool, default=True
        Use the weighted mean of the -1/1 targets as intercept; P1's experiments use 0 (False).
    class_weight : dict, "balanced" or None, default=None
        Multiplies the sample weights.
    max_memory : float, str or "auto", default="auto"
    rank_tol : float, default=0.0

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    weights_ : array of shape (n_kernels,) or (n_classes, n_kernels)
        Learners of several layers have (n_layers, n_kernels) or (n_classes, n_layers, n_kernels), NaN where a layer has
        fewer kernels than another; see `MKLRegressor`.
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_classes)
    intercept_ : float or array of shape (n_classes,)
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Only when every kernel is linear; the predictions are ``X @ coef_.T + linear_intercept_``.
    alpha_, kernel_names_, layer_kernel_names_, normalizers_, support_, objective_, gap_, rel_gap_, stationarity_,
    status_, n_iter_, history_, gram_
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

    def __init__(
        self,
        kernels: Any = None,
        learner: Any = "rls2",
        *,
        normalize: Any = "mean-diagonal",
        standardize: Annotated[bool | str, Flag() | OneOf("auto")] = "auto",
        fit_intercept: Annotated[bool, Flag()] = True,
        class_weight: Any = None,
        max_memory: float | str = "auto",
        rank_tol: Annotated[float, Number(least=0, below=1)] = 0.0,
    ) -> None:
        self.kernels = kernels
        self.learner = learner
        self.normalize = normalize
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.max_memory = max_memory
        self.rank_tol = rank_tol

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> MKLClassifier:
        """Learn weights and coefficients.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Or sample indices / a kernel stack, see `kernels`.
        y : array-like of shape (n_samples,)
            Labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            A weight equals a repetition of the row; rows of weight 0 are dropped.

        Returns
        -------
        self
        """
        self._fit_anew(lambda: self._fit(X, y, sample_weight, {}))
        return self

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, params: dict[str, Any]) -> None:
        if y is None:
            raise InputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            )
        rows = self._read_training(X)
        n_rows = rows.n_rows if hasattr(rows, "n_rows") else len(rows)
        y = _read_labels(y)
        if len(y) != n_rows:
            raise InputError(
                f"Found input variables with inconsistent numbers of samples: [{n_rows}, {len(y)}]. `X` and `y` "
                "must have equally many rows."
            )
        weights = self._check_sample_weight(sample_weight, n_rows)
        present = y if weights is None else y[weights > 0]
        self.classes_, codes = np.unique(present, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                f"Classification needs at least two classes, got one class: {self.classes_.tolist()[0]!r}. "
                "Check the target column and the sample weights."
            )
        if weights is not None:
            everything = np.zeros(n_rows, dtype=codes.dtype)
            everything[weights > 0] = codes
            codes = everything
        self._per_class: Array | None = None
        if self.class_weight is not None:
            weights = self._with_class_weight(y, weights)
        if len(self.classes_) == 2:
            targets = [np.where(codes == 1, 1.0, -1.0)[:, None]]
        else:
            targets = [np.where(codes == k, 1.0, -1.0)[:, None] for k in range(len(self.classes_))]
        self._fit_task(X, y, rows, targets, codes.astype(np.float64), weights, params)

    def _with_class_weight(self, y: Array, weights: Array | None) -> Array:
        kept = np.ones(len(y)) if weights is None else weights
        used = kept > 0
        try:
            if isinstance(self.class_weight, str) and self.class_weight == "balanced":
                # as by scikit-learn, where weights of rows count from 1.7 on
                totals = np.bincount(np.searchsorted(self.classes_, y[used]), weights=kept[used])
                per_class = totals.sum() / (len(totals) * totals)
            else:
                per_class = compute_class_weight(self.class_weight, classes=self.classes_, y=y[used])
        except (TypeError, ValueError) as error:
            raise InputError(
                f"`class_weight` must be 'balanced', None or a dict from classes to numbers, got "
                f"{shown(self.class_weight)}: {error}"
            ) from error
        per_class = as_floats(per_class, "class_weight")
        if not (per_class > 0).all() or not np.isfinite(per_class).all():
            raise InputError(
                f"`class_weight` must hold finite numbers > 0, got {self.class_weight!r}. To leave a class out, "
                "drop its rows."
            )
        self._per_class = per_class
        factor = np.zeros(len(y))
        factor[used] = per_class[np.searchsorted(self.classes_, y[used])]
        return kept * factor

    def _flat_coef(self) -> bool:
        return False

    def decision_function(self, X: Any) -> Array:
        """Decision values: positive for ``classes_[1]``, or one column per class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,) or (n_rows, n_classes)
        """
        values = self._decide(X)
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,)
        """
        return labels_of(self._decide(X), self.classes_)

    @checked
    def calibrate(
        self,
        method: Annotated[str, OneOf(*METHODS)] = "platt",
        *,
        cv: Any = 5,
        groups: ArrayLike | None = None,
    ) -> MKLClassifier:
        """Learn what decision values mean as probabilities, for `predict_proba`.

        Every training row gets a decision value from a model of the other folds, at the chosen strength; a curve from
        these values to the classes is fitted, one for each one-vs-rest problem. No row judges a model that has seen it,
        and what `predict` says does not change.

        Parameters
        ----------
        method : {"platt", "isotonic"}, default="platt"
            A sigmoid, or any rising step function, which needs about a thousand rows or more.
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
            Unknown method, or folds that leave a class out.

        Notes
        -----
        Costs a fit for each fold. With ``class_weight`` the models are weighted by it, the curves are not: they speak
        of the shares of classes in the training rows.

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
        task = rebuild_task(self)
        codes = (
            (task.targets[0][:, 0] > 0).astype(np.intp)
            if len(self.classes_) == 2
            else np.argmax(np.column_stack(task.targets), axis=1)
        )
        if isinstance(cv, int | np.integer) and cv > np.bincount(codes).min():
            raise InputError(
                f"`cv` must be at most the number of rows of the smallest class, {np.bincount(codes).min()}, got {cv}."
            )
        folds = split_rows(cv, codes, classifier=True, groups=groups)
        if not any(len(test) for _, test in folds):
            raise InputError(
                "`cv` must give folds with test rows, got none. Use a number of folds such as 5."
            )
        values = out_of_fold(task, learner_of(self), self.alpha_, folds)
        weights = task.sample_weight
        if weights is not None and self._per_class is not None:
            weights = weights / self._per_class[codes]
        self.calibration_ = calibrate(values, codes, weights, method)
        return self

    def _is_calibrated(self) -> bool:
        if not hasattr(self, "calibration_"):
            raise AttributeError("Probabilities need a calibration: call calibrate() after fit.")
        return True

    @available_if(_is_calibrated)
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, after `calibrate`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows, n_classes)
            In the order of ``classes_``. The most probable class need not be the one of `predict`, which decides by
            decision values.
        """
        return self.calibration_(self._decide(X))


def _read_labels(y: Any) -> NDArray[Any]:
    """One label for every row."""
    try:
        y = column_or_1d(y, warn=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"`y` must hold one label for every row: {error}") from error
    if y.dtype.kind == "f":
        check_finite(y, "y")
        check_size(y, "y")
    elif y.dtype.kind == "O":
        missing = np.flatnonzero([label is None or label != label for label in y])
        if len(missing):
            raise InputError(
                f"`y` must hold a label for every row, got {len(missing)} missing, the first in row {missing[0]}. "
                "Drop these rows first."
            )
    try:
        check_classification_targets(y)
        np.unique(y)
    except (TypeError, ValueError) as error:
        raise InputError(f"`y` must hold labels of classes, all of one kind: {error}") from error
    return y


def labels_of(values: Array, classes: NDArray[Any]) -> NDArray[Any]:
    """Classes of decision values (n_rows, 1) or (n_rows, n_classes)."""
    if values.shape[1] == 1:
        return classes[(values[:, 0] > 0).astype(np.intp)]
    return classes[np.argmax(values, axis=1)]
