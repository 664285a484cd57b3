"""Permutation tests: whether rows without their targets, or without a source, would score as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_is_fitted

from kernelweave._checks import InputError
from kernelweave._parameters import Flag, Whole, checked
from kernelweave._types import BaseCrossValidator, Features, Labels, Splits
from kernelweave.estimators.scoring import KnownClasses, KnownTargets, score_known, scored_classes
from kernelweave.inspection.arguments import (
    Estimator,
    Fold,
    Jobs,
    Model,
    OptionalEntries,
    Params,
    Report,
    Rows,
    Scoring,
    Seed,
    Targets,
    as_rows,
    take,
)
from kernelweave.inspection.paired import adjust_p_values
from kernelweave.inspection.registry import (
    MOST_NAMED,
    SMALL,
    Basis,
    Finding,
    Interval,
    Table,
    at,
    finding,
    intervals_of,
    named,
)
from kernelweave.inspection.resampling import each_done, fit_on, folds_of, score_on, splitter_of
from kernelweave.inspection.weights import views_of

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL

Array = NDArray[np.float64]

Permutations = Annotated[int, Whole(1)]


@dataclass(frozen=True)
class PermutationTest:
    """A score among those of permuted targets.

    Attributes
    ----------
    score : float
        With the true targets.
    permuted : array of shape (n_done,)
        Scores with permuted ones.
    p_value : float
        ``(b + 1) / (m + 1)`` with b of m permuted scores at least as large.
    refit : bool
        Whether the model was fitted again for every permutation.
    interrupted : bool
        Whether fewer permutations were done than asked for; the p-value is valid for those that were.
    """

    score: float
    permuted: Array
    p_value: float
    refit: bool
    interrupted: bool


def permutation_p_value(score: float, permuted: Array) -> float:
    """The share of scores at least as large, the true one among them: (b + 1) / (m + 1)."""
    # of equal scores, sums in another order may differ by rounding
    as_large = permuted >= score - 1e-12 * max(1.0, abs(score))
    return float((as_large.sum() + 1) / (len(permuted) + 1))


@checked
def permutation_test(
    estimator: Estimator,
    X: Features,
    y: Targets,
    *,
    n_permutations: Permutations = 199,
    cv: Splits = 5,
    refit: Annotated[bool, Flag()] = True,
    scoring: Scoring = None,
    groups: OptionalEntries = None,
    params: Params = None,
    n_jobs: Jobs = None,
    seed: Seed = 0,
    report: Report = None,
) -> PermutationTest:
    """Could a score be chance? The targets are permuted, and everything is done again.

    With `refit`, as `permutation_test_score` of scikit-learn, the hypothesis is that the targets are independent of the
    rows, and the test includes every step of the fit, the choice of the regularisation parameter too. Without, models
    are fitted once, and only the targets of test rows are permuted: the hypothesis is that predictions are independent
    of the targets of new rows.

    Parameters
    ----------
    estimator : estimator
        Of this package or of scikit-learn; a clone of it is fitted.
    X : array-like, frame, sparse matrix or views
        As `fit` takes it, precomputed kernels and indices of a bank too.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
    n_permutations : int, default=199
        The smallest possible p-value is 1 / (n_permutations + 1).
    cv : int, splitter, or list of (train, test), default=5
        Folds whose test rows are scored; ``[(train, test)]`` for one division.
    refit : bool, default=True
    scoring : str or callable, optional
        Default: accuracy, or R^2.
    groups : array-like of shape (n_rows,), optional
        Passed to the splitter. Targets are permuted within groups, as in scikit-learn; where all rows of a group have
        the same target, between groups.
    params : dict of str to array, optional
        Arguments of `fit` with an entry for each row, such as ``{"sample_weight": w}``; they stay with the rows.
    n_jobs : int, optional
        Permutations at the same time.
    seed : int, default=0
    report : callable, optional
        Called with a text after every permutation; a true value ends, like Ctrl-C, and what is done is kept.

    Returns
    -------
    PermutationTest

    Raises
    ------
    InputError
        `X` and `y` have different numbers of rows.
    KeyboardInterrupt
        Nothing was done before.

    Notes
    -----
    With `refit` n_permutations + 1 times the folds in fits, without only the folds.

    References
    ----------
    M. Ojala and G. C. Garriga, Permutation tests for studying classifier performance, JMLR 11 (2010); B. Phipson and
    G. K. Smyth, Permutation p-values should never be zero, Statistical Applications in Genetics and Molecular Biology
    9 (2010).

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = kw.MKLClassifier(kw.banks.linear_features(2), kw.learners.SimpleMKL(C=1.0))
    >>> found = permutation_test(model, X, X[:, 0] > 0, n_permutations=19, cv=2)
    >>> found.p_value, bool(found.score > found.permuted.max())
    (0.05, True)
    """
    X, targets = as_rows(estimator, X, y)
    splitter = splitter_of(estimator, targets, cv)
    folds = folds_of(splitter, targets, groups)
    labels = None if groups is None else np.asarray(groups)
    score, known = _score_folds(estimator, X, targets, folds, scoring, params)
    draws = _permutations(len(targets), n_permutations, targets, labels, seed)
    if refit:
        tasks = ((estimator, X, take(targets, draw), splitter, labels, scoring, params) for draw in draws)
        found, stopped = each_done(_score_again, tasks, n_jobs, report, "permutation", n_permutations)
    else:
        plan = _within(folds, n_permutations, targets, labels, seed)
        tasks_known = ((known, targets, folds, plan_, scoring) for plan_ in plan)
        found, stopped = each_done(_score_known, tasks_known, None, report, "permutation", n_permutations)
    permuted = np.array(found)
    return PermutationTest(score, permuted, permutation_p_value(score, permuted), refit, stopped)


def _permutations(n: int, number: int, y: Any, groups: NDArray[Any] | None, seed: int) -> Iterator[Rows]:
    # the same sequence as scikit-learn's permutation_test_score
    rng = np.random.RandomState(seed)
    for _ in range(number):
        yield _permuted(rng, np.arange(n), y, groups)


def _permuted(rng: np.random.RandomState, rows: Rows, y: Any, groups: NDArray[Any] | None) -> Rows:
    """The rows in another order: within groups, or between them where their targets do not vary."""
    if groups is None:
        return rows[rng.permutation(len(rows))]
    own = groups[rows]
    names, first = np.unique(own, return_index=True)
    values = np.asarray(y)[rows]
    if np.ndim(y) == 1 and all(len(set(values[own == name].tolist())) == 1 for name in names):
        other = dict(zip(names.tolist(), first[rng.permutation(len(names))].tolist(), strict=True))
        return rows[[other[name] for name in own.tolist()]]
    order = np.arange(len(rows))
    for name in names:
        here = own == name
        order[here] = rng.permutation(order[here])
    return rows[order]


def _within(
    folds: list[Fold], number: int, y: Any, groups: NDArray[Any] | None, seed: int
) -> Iterator[list[Rows]]:
    rng = np.random.RandomState(seed)
    for _ in range(number):
        yield [_permuted(rng, test, y, groups) for _, test in folds]


def _score_folds(
    estimator: Any, X: Features, y: Any, folds: list[Fold], scoring: Any, params: Mapping[str, Any] | None
) -> tuple[float, list[Remembered]]:
    """The mean score over folds, and the predictions of every fold."""
    scores, known = [], []
    for train, test in folds:
        model = fit_on(estimator, X, y, train, params)
        scores.append(score_on(model, X, y, train, test, scoring))
        known.append(Remembered(model, take(X, test, train)))
    return float(np.mean(scores)), known


def _score_again(
    estimator: Any,
    X: Features,
    y: Any,
    splitter: BaseCrossValidator,
    groups: ArrayLike | None,
    scoring: Any,
    params: Mapping[str, Any] | None,
) -> float:
    # folds keep the shares of the permuted classes
    folds = folds_of(splitter, y, groups)
    return float(
        np.mean(
            [
                score_on(fit_on(estimator, X, y, train, params), X, y, train, test, scoring)
                for train, test in folds
            ]
        )
    )


class Remembered:
    """Predictions of some rows, with the interface of a fitted estimator."""

    def __init__(self, model: Any, X: Features) -> None:
        self._estimator_type = "classifier" if is_classifier(model) else "regressor"
        self._model = model
        for name in ("predict", "decision_function", "predict_proba"):
            if hasattr(model, name):
                answer = getattr(model, name)(X)
                setattr(self, name, lambda _, answer=answer: answer)
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_

    def fit(self, X: object, y: object) -> Remembered:
        """No fit is needed, but scorers check for the method."""
        return self

    def __sklearn_tags__(self) -> Any:
        return self._model.__sklearn_tags__()

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def score(self, X: object, y: Any) -> float:
        """Accuracy, or R^2."""
        from sklearn.metrics import accuracy_score, r2_score

        guess = self.predict(X)  # type: ignore[attr-defined]
        return float(accuracy_score(y, guess) if is_classifier(self._model) else r2_score(y, guess))


def _score_known(known: list[Remembered], y: Any, folds: list[Fold], draw: list[Rows], scoring: Any) -> float:
    found = [
        check_scoring(one, scoring=scoring)(one, np.zeros((len(rows), 1)), take(y, rows))
        for one, rows in zip(known, draw, strict=True)
    ]
    return float(np.mean(found))


# ---- sources ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceTest:
    """What the score of new rows loses where rows of one source are exchanged.

    Attributes
    ----------
    names : tuple of str
        Sources: views, or the columns of kernels.
    score : float
        Of the model as it is.
    loss : array of shape (n_sources,)
        Mean loss of the score over permutations.
    low, high : array of shape (n_sources,)
        Percentiles of the loss over permutations, 2.5 and 97.5 %.
    p_values : array of shape (n_sources,)
        ``(b + 1) / (m + 1)`` with b of m scores at least as large as that of the model.
    adjusted : array of shape (n_sources,)
        The same, corrected for the number of sources (Holm).
    n_permutations : int
    interrupted : bool
    """

    names: tuple[str, ...]
    score: float
    loss: Array
    low: Array
    high: Array
    p_values: Array
    adjusted: Array
    n_permutations: int
    interrupted: bool


@checked
def source_test(
    estimator: Model,
    X: Features,
    y: Targets,
    *,
    n_permutations: Permutations = 999,
    scoring: Scoring = None,
    seed: Seed = 0,
    report: Report = None,
) -> SourceTest:
    """Does a fitted model use a source for new rows? Its contributions are exchanged between rows.

    A decision value is a sum of the contributions of kernels. For each source those of its kernels are permuted
    together over the rows, the others stay; no kernel is computed again. The hypothesis is that this source, given what
    the model makes of the others, is exchangeable between rows. A source whose information others have as well may lose
    little although a model without the others would need it.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        With a weighted sum of kernels.
    X : array-like, frame, sparse matrix or views
        New rows, not those of the fit, as `predict` takes them.
    y : array-like of shape (n_rows,)
    n_permutations : int, default=999
    scoring : str or callable, optional
        Default: accuracy, or R^2.
    seed : int, default=0
    report : callable, optional
        Called with a text after every source; a true value ends, like Ctrl-C, and sources that are done are kept.

    Returns
    -------
    SourceTest

    Raises
    ------
    InputError
        The model has layers of kernels on kernels, or several targets.

    Notes
    -----
    O(n_rows n_samples) for the contributions, then O(n_rows) for each permutation and source. To ask what the other
    sources can do without this one, fit again without it.

    References
    ----------
    L. Breiman, Random forests, Machine Learning 45 (2001), for the permutation of one input.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = kw.MKLRegressor(kw.banks.linear_features(2), kw.learners.RLS2(alpha=0.01)).fit(X[:40], X[:40, 0])
    >>> found = source_test(model, X[40:], X[40:, 0], n_permutations=99)
    >>> found.names[0], float(found.p_values[0])
    ('x0', 0.01)
    """
    check_is_fitted(estimator)
    if estimator.model_.layers:
        raise InputError(
            "This model has layers of kernels on kernels, whose decision values are no sums over sources. Use a "
            "learner of one layer, such as rls2 or simple."
        )
    _, truth = as_rows(estimator, X, y)
    if truth.ndim != 1:
        raise InputError(f"`y` must have one target for each row, got shape {truth.shape}.")
    parts = estimator.kernel_contributions(X)
    parts = parts[:, :, None] if parts.ndim == 2 else parts
    views = views_of(estimator)
    sources = list(dict.fromkeys(v for m, v in enumerate(views) if np.any(parts[:, m])))
    if not sources:
        raise InputError("No kernel of this model has a weight: there is nothing to exchange.")
    sums = [parts[:, [m for m, v in enumerate(views) if v == name]].sum(axis=1) for name in sources]
    values = parts.sum(axis=1) + np.reshape(estimator.intercept_, -1)
    score = _score_values(estimator, values, truth, scoring)
    rng = np.random.default_rng(seed)
    seeds = rng.integers(2**32, size=len(sources))
    tasks = (
        (estimator, values, own, truth, scoring, n_permutations, int(start))
        for own, start in zip(sums, seeds, strict=True)
    )
    found, stopped = each_done(_score_exchanged, tasks, None, report, "source", len(sources))
    losses = np.array([score - one for one in found])
    p_values = np.array([permutation_p_value(score, one) for one in found])
    low, high = np.quantile(losses, [0.025, 0.975], axis=1)
    order = np.argsort(-losses.mean(axis=1), kind="stable")
    return SourceTest(
        tuple(sources[k] for k in order),
        score,
        losses.mean(axis=1)[order],
        low[order],
        high[order],
        p_values[order],
        adjust_p_values(p_values)[order],
        n_permutations,
        stopped,
    )


def _score_exchanged(
    estimator: BaseMKL, values: Array, own: Array, truth: Labels, scoring: Any, number: int, seed: int
) -> Array:
    rng = np.random.default_rng(seed)
    rest = values - own
    return np.array(
        [
            _score_values(estimator, rest + own[rng.permutation(len(own))], truth, scoring)
            for _ in range(number)
        ]
    )


def _score_values(estimator: Any, values: Array, truth: Labels, scoring: Any) -> float:
    """The score of known decision values, (n_rows, n_outputs)."""
    # scores by default are computed here: scikit-learn's checks would take most of the time of a permutation
    if not is_classifier(estimator):
        if scoring is None:
            numbers = truth.astype(float)
            error, spread = numbers - values[:, 0], numbers - numbers.mean()
            return 1.0 - float((error @ error) / (spread @ spread))
        known: Any = KnownTargets(values, True)
        return score_known(check_scoring(known, scoring=scoring), known, truth, None, np.arange(0))
    if scoring is None:
        guess = values[:, 0] > 0 if values.shape[1] == 1 else values.argmax(axis=1)
        return float(np.mean(estimator.classes_[guess.astype(int)] == truth))
    named = scored_classes(estimator.classes_, scoring)
    known = KnownClasses(values, named, estimator.model_.learner)
    return score_known(
        check_scoring(known, scoring=scoring),
        known,
        named[np.searchsorted(estimator.classes_, truth)],
        None,
        np.arange(0),
    )


# ---- findings --------------------------------------------------------------------------------------


@finding(
    "permutation",
    title="Permutation test",
    needs=("estimator", "rows"),
    about="Could the score be chance? The targets are permuted, and everything is fitted again each time.",
    counted="permutations",
    usual=99,
)
def _permutation(basis: Basis) -> Finding:
    found = permutation_test(
        basis.estimator,
        basis.rows.X,
        basis.rows.y,
        n_permutations=basis.count,
        cv=basis.folds(),
        refit=basis.refit,
        groups=basis.rows.groups,
        params={**basis.rows.params, **({} if basis.rows.groups is None else {"groups": basis.rows.groups})},
        n_jobs=basis.n_jobs,
        seed=basis.seed,
        report=basis.report,
    )
    m = len(found.permuted)
    made = Finding(
        {"score": Interval(found.score), "p": Interval(found.p_value)},
        "The fraction of scores, with permuted targets and with the true ones, that are at least as large as the true.",
        m,
        "permutations of the targets",
        details={
            "score": found.score,
            "p_value": found.p_value,
            "as large": round(found.p_value * (m + 1)) - 1,
            "refit": found.refit,
            "interrupted": found.interrupted,
            "permuted": np.round(found.permuted, 6).tolist(),
        },
    ).says(
        "sure",
        f"With permuted targets {{b:d}} of {{m:d}} {'fits of everything' if found.refit else 'permutations'} score as "
        "well as the model: p = {p:.2g}.",
        b=("details", "as large"),
        m=("n",),
        p=at("p"),
    )
    if found.p_value >= SMALL:
        made = made.says(
            "distrust",
            "The score may be chance: p = {p:.2g} of the permutation test with {m:d} permutations."
            if made.details["as large"]
            else "{m:d} permutations are too few: p cannot be below {p:.2g}.",
            p=at("p"),
            m=("n",),
        )
    return made


@finding(
    "sources",
    title="Test of every source",
    needs=("model", "held_rows"),
    about="Does the model use each source for new rows? Sources are exchanged between held-out rows.",
    counted="permutations",
    usual=999,
    possible=lambda found: (
        "simplest" in found and len(found["views"].values) > 1 and not found["kernels"].details["in layers"]
    ),
)
def _sources(basis: Basis) -> Finding:
    held = basis.held_rows
    found = source_test(
        basis.model, held.X, held.y, n_permutations=basis.count, seed=basis.seed, report=basis.report
    )
    score = "accuracy" if is_classifier(basis.model) else "R^2"
    meaning = (
        f"Loss of {score} where the source is exchanged between held-out rows, its 2.5 and 97.5 % points over "
        f"{found.n_permutations} permutations; p-values corrected for the number of sources (Holm)."
    )
    columns = {
        **{"source": found.names, "loss": found.loss, "low": found.low, "high": found.high},
        **{"p": found.p_values, "p, corrected": found.adjusted},
    }
    adjusted = dict(zip(found.names, found.adjusted.tolist(), strict=True))
    made = Finding(
        intervals_of(found.names, found.loss, found.low, found.high),
        meaning,
        found.n_permutations,
        "permutations of the rows",
        0.95,
        details={"score": found.score, "interrupted": found.interrupted, "adjusted": adjusted},
        tables=(Table.of("sources", "Sources exchanged between held-out rows", columns, meaning),),
    )
    for name in found.names[:MOST_NAMED]:
        falls = found.loss[found.names.index(name)] > 0
        made = made.says(
            "which",
            f"Where {{name}} is exchanged between held-out rows, {{score}} {'falls' if falls else 'does not fall'}: "
            "the mean loss is {v:.3f}"
            + (
                " (p = {p:.2g}, corrected for the number of sources)."
                if adjusted[name] < SMALL
                else ", which may be chance (p = {p:.2g})."
            ),
            {"name": named(name), "score": score},
            v=at(name),
            p=("details", "adjusted", name),
        )
    return made
