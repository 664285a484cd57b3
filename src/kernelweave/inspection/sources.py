"""Which sources does a score need? Sources that are exchanged between rows, fits without a source, and one answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ShuffleSplit

from kernelweave._checks import InputError, check_known
from kernelweave._docstrings import inherits_attributes
from kernelweave._drawing import percent, rounded
from kernelweave._forms import ShortRepr
from kernelweave._parameters import Each, Flag, InstanceOf, Text, Whole, checked, renamed
from kernelweave._types import Array, Features, Labels, Splits, Tree
from kernelweave.estimators import BaseMKL, MKLSurvival
from kernelweave.estimators.classifier import curve_of
from kernelweave.estimators.parameters import stated
from kernelweave.estimators.scoring import fold_score
from kernelweave.fitting.stacks import BankSource, KernelBank, StackSource
from kernelweave.fitting.survival import harrell, read_times
from kernelweave.inspection.arguments import (
    Jobs,
    Level,
    Model,
    OptionalEntries,
    Params,
    Report,
    Scoring,
    Seed,
    Targets,
    target_names,
)
from kernelweave.inspection.paired import adjust_p_values, compare_folds
from kernelweave.inspection.permutation import exchanged, permutation_p_value
from kernelweave.inspection.refitting import Rows, each_done, plainly, splitter_of
from kernelweave.inspection.registry import (
    CORRECTED,
    LEVEL,
    MOST_NAMED,
    SMALL,
    Basis,
    Finding,
    Found,
    Interval,
    Table,
    at,
    decided,
    ends,
    enumerated,
    finding,
    intervals_of,
    named,
    unsure,
)
from kernelweave.inspection.scores import OF_95, middle, usual_score
from kernelweave.inspection.weights import view_weights

__all__ = [
    "SourceRefitTest",
    "SourceTest",
    "source_answer",
    "source_refit_test",
    "source_test",
]

#: The adjusted p-value that permutations of sources can reach.
REACH = 0.01
#: Exchanges that score at least as well as the model after which a source takes no more: it is not important.
ENOUGH = 20


@dataclass(frozen=True)
class SourceLosses(ShortRepr):
    """What the score of new rows loses with a source, that with the largest loss first.

    Attributes
    ----------
    names : tuple of str
        Sources: views, or the columns of kernels.
    score : float
        With all sources.
    loss : array of shape (n_sources,)
        `score` less that without the source.
    low, high : array of shape (n_sources,)
        An interval of the loss.
    p_values : array of shape (n_sources,)
        For the hypothesis that the score loses nothing without the source.
    adjusted : array of shape (n_sources,)
        The same, corrected for the number of sources (Holm).
    interrupted : bool
        Whether less was done than asked for.
    """

    names: tuple[str, ...]
    score: float
    loss: Array
    low: Array
    high: Array
    p_values: Array
    adjusted: Array
    interrupted: bool


@inherits_attributes
@dataclass(frozen=True)
class SourceTest(SourceLosses):
    """What the score of new rows loses where rows of one source are exchanged.

    The loss is the mean over permutations, its interval their percentiles, 2.5 and 97.5 %, and a p-value
    ``(b + 1) / (m + 1)`` with b of m scores at least as large as that of the model.

    Attributes
    ----------
    n_permutations : int
        The most exchanges that a source could take; one that is not important took fewer.
    """

    n_permutations: int

    @property
    def reach(self) -> float:
        """The smallest adjusted p-value that so many exchanges can give: ``n_sources / (n_permutations + 1)``."""
        return min(1.0, len(self.names) / (self.n_permutations + 1))


@inherits_attributes
@dataclass(frozen=True)
class SourceRefitTest(SourceLosses):
    """What the score of new rows loses when the model is fitted without a source.

    Scores are means over divisions of the rows; interval and p-value of the loss are those of the corrected resampled
    t-test (`compare_folds`).

    Attributes
    ----------
    without : array of shape (n_sources,)
        The score without each source.
    scores : array of shape (n_divisions, n_sources + 1)
        By division: with all sources, and without each.
    level : float
        The fraction of samples in which an interval contains the loss, 0.95 by default.
    """

    without: Array
    scores: Array
    level: float


@renamed(seed="random_state")
@checked
def source_test(
    estimator: Model,
    X: Features,
    y: Targets,
    *,
    n_permutations: Annotated[int | None, Whole(1) | None] = None,
    scoring: Scoring = None,
    groups: OptionalEntries = None,
    random_state: Seed = 0,
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
        Targets of these rows.
    n_permutations : int, optional
        Permutations of every source. Default: 999, and four times as many again and again for sources that may still be
        important, until the correction for the number of sources leaves a p-value of 0.01 in reach: 12 sources have up
        to 3,999, and 100 up to 15,999. A source ends when 20 exchanges score at least as well as the model, which
        leaves its p-value valid.
    scoring : str or callable, optional
        Default: accuracy, R^2, or the concordance of survival models.
    groups : array-like of shape (n_rows,), optional
        Groups of rows that depend on each other, such as the visits of a patient: whole groups are exchanged, each with
        its rows in any order.
    random_state : int, default=0
        Seed of the random numbers: the same one gives the same result.
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
    L. Breiman, Random forests, Machine Learning 45 (2001), for the permutation of one input; J. Besag and P. Clifford,
    Sequential Monte Carlo p-values, Biometrika 78 (1991).

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = kw.MKLRegressor(kw.banks.linear_features(2), kw.learners.RLS2(alpha=0.01)).fit(X[:40], X[:40, 0])
    >>> found = source_test(model, X[40:], X[40:, 0], n_permutations=99)
    >>> found.names[0], float(found.p_values[0])
    ('x0', 0.01)
    """
    if estimator.model_.layers:
        raise InputError(
            "This model has layers of kernels on kernels, whose decision values are no sums over sources. Use a "
            "learner of one layer, such as rls2 or simple."
        )
    rows = Rows.read(estimator, X, y, groups=groups)
    truth = rows.y
    if truth.ndim != 1 and not isinstance(estimator, MKLSurvival):
        raise InputError(f"`y` must have one target for each row, got shape {truth.shape}.")
    parts = estimator.kernel_contributions(X)
    parts = parts[:, :, None] if parts.ndim == 2 else parts
    views = estimator.model_.views
    sources = list(dict.fromkeys(v for m, v in enumerate(views) if np.any(parts[:, m])))
    if not sources:
        raise InputError("No kernel of this model has a weight: there is nothing to exchange.")
    values = parts.sum(axis=1) + np.reshape(estimator.intercept_, -1)
    score_of = _score_of(estimator, truth, scoring)
    score = score_of(values)

    stages = _stages(len(sources)) if n_permutations is None else [n_permutations]

    def exchange(name: str, start: int) -> Array:
        own = parts[:, [m for m, view in enumerate(views) if view == name]].sum(axis=1)
        rest, rng = values - own, np.random.default_rng(start)
        scores: list[float] = []
        for wanted in stages:
            scores += [
                score_of(rest + own[exchanged(rng, len(own), rows.groups)])
                for _ in range(wanted - len(scores))
            ]
            found = np.array(scores)
            if permutation_p_value(score, found) * (wanted + 1) > ENOUGH:
                break
        return found

    starts = np.random.default_rng(random_state).integers(2**32, size=len(sources)).tolist()
    tasks = zip(sources, starts, strict=True)
    found, stopped = each_done(exchange, tasks, 1, report, "source", len(sources))
    p_values = np.array([permutation_p_value(score, one) for one in found])
    low, high = np.array([middle(score - one, LEVEL) for one in found]).T
    loss = np.array([score - one.mean() for one in found])
    _, columns = _largest_first(sources, loss, low, high, p_values)
    return SourceTest(score=score, interrupted=stopped, n_permutations=stages[-1], **columns)


def _stages(n_sources: int) -> list[int]:
    """Numbers of permutations after which a source may end, up to that with which p-values of `REACH` can be found."""
    stages = [999]
    while n_sources > REACH * (stages[-1] + 1):
        stages.append(4 * stages[-1] + 3)
    return stages


def _largest_first(
    names: Sequence[str], loss: Array, low: Array, high: Array, p_values: Array
) -> tuple[NDArray[np.intp], Tree]:
    """The order of sources, and what `SourceLosses` has of each of them."""
    order = np.argsort(-loss, kind="stable")
    columns = {
        "loss": loss,
        "low": low,
        "high": high,
        "p_values": p_values,
        "adjusted": adjust_p_values(p_values),
    }
    found = {name: values[order] for name, values in columns.items()}
    return order, {"names": tuple(names[k] for k in order), **found}


def _score_of(estimator: BaseMKL, truth: Labels, scoring: Scoring) -> Callable[[Array], float]:
    """The score as a function of decision values, (n_rows, n_outputs)."""
    # scores by default are computed here: scikit-learn's checks would take most of the time of a permutation
    classes: Any = estimator.classes_ if is_classifier(estimator) else None
    if isinstance(estimator, MKLSurvival):
        time, event, strata = read_times(truth)
        if scoring is not None:
            raise InputError("Sources of survival models are tested by the concordance; leave out `scoring`.")
        return lambda values: harrell(time, event, values[:, 0], strata=strata)
    if scoring is None and classes is None:
        numbers = truth.astype(float)
        total = float(np.square(numbers - numbers.mean()).sum())
        if not total > 0.0:
            raise InputError(
                "`y` must differ between rows: all targets are equal, and R^2 is not defined. Use other rows, or "
                "`scoring='neg_mean_squared_error'`."
            )
        mean = estimator.model_.learner.prediction
        return lambda values: 1.0 - float(np.square(numbers - mean(values[:, 0])).sum()) / total
    if scoring is None:

        def accuracy(values: Array) -> float:
            guess = values[:, 0] > 0 if values.shape[1] == 1 else values.argmax(axis=1)
            return float(np.mean(classes[guess.astype(int)] == truth))

        return accuracy
    targets = truth if classes is None else np.searchsorted(classes, truth)
    curve = None if classes is None else lambda values, rows: curve_of(estimator)
    score = fold_score(scoring, targets, classes, estimator.model_.learner, curve=curve)
    rows = np.arange(len(truth))
    model, shift = estimator.model_, estimator.model_.shift
    return lambda values: score(model.undecided(values), rows, 0.0 if shift is None else shift)


@checked
def source_refit_test(
    estimator: Model,
    X: Features,
    y: Targets,
    *,
    sources: Annotated[Sequence[str] | None, Each(Text()) | None] = None,
    cv: Splits = 5,
    choose_again: Annotated[bool, Flag()] = True,
    scoring: Scoring = None,
    groups: OptionalEntries = None,
    params: Params = None,
    level: Level = 0.95,
    n_jobs: Jobs = None,
    report: Report = None,
) -> SourceRefitTest:
    """Does a model need a source? It is fitted again without the kernels of the source.

    For every division of the rows the model is fitted on the training rows, once with all kernels and once without
    those of each source, and scored on the test rows of the division. Unlike `source_test`, which asks what a fitted
    model uses, the others can take the place of a source here: where two sources hold the same information, neither is
    needed, although the model may use both.

    Parameters
    ----------
    estimator : fitted MKLRegressor, MKLClassifier or one of their CV variants
        Its kernels are taken as they are, before they are fitted; those of a plain fit are not chosen again.
    X : array-like, frame, sparse matrix or views
        The rows, in a form that `fit` takes: a table, views or indices of a bank.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Targets of these rows.
    sources : list of str, optional
        Views, or the columns of kernels, as in `view_weights`; by default all with a weight. A source is a set of
        kernels: its columns stay in use where kernels of other sources read them.
    cv : int, splitter, or list of (train, test), default=5
        Divisions of the rows, two or more: folds, or random ones, such as ``ShuffleSplit(10, test_size=0.2)``.
    choose_again : bool, default=True
        Choose the regularisation parameter again in every fit, as the estimator does; otherwise it is that of the
        estimator, which suits the model with all sources.
    scoring : str or callable, optional
        Default: accuracy, or R^2.
    groups : array-like of shape (n_rows,), optional
        For the splitter and `fit`.
    params : dict of str to array, optional
        Arguments of `fit` with an entry for each row, such as ``{"sample_weight": w}``.
    level : float, default=0.95
        Fraction of samples that intervals cover.
    n_jobs : int, optional
        Fits at the same time.
    report : callable, optional
        Called with a text after every fit; a true value ends, like Ctrl-C, and divisions that are done are kept.

    Returns
    -------
    SourceRefitTest

    Raises
    ------
    InputError
        The model has one source only, or precomputed kernels as `X`; `X` and `y` have different numbers of rows.
    KeyboardInterrupt
        Fewer than two divisions were done before.

    Notes
    -----
    n_divisions * (n_sources + 1) fits. Scores of different divisions depend on each other, because their training rows
    overlap: the variance of the mean difference is taken as (1 / k + n_test / n_train) s^2.

    References
    ----------
    C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52 (2003), for the interval; J.
    Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman, Distribution-free predictive inference for
    regression, JASA 113 (2018), section 6, for importance by leaving out columns.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> X[:, 1] = X[:, 0]
    >>> model = kw.MKLRegressor(kw.banks.linear_features(3), "rls2", alpha=1e-3).fit(X, X[:, 0] + X[:, 2])
    >>> found = source_refit_test(model, X, X[:, 0] + X[:, 2])
    >>> found.names[0], round(float(found.loss[0]), 1), bool(np.all(np.abs(found.loss[1:]) < 1e-6))
    ('x2', 0.4, True)
    """
    rows = Rows.read(estimator, X, y, params, groups)
    views = estimator.model_.views
    names = _left_out(estimator, views, sources)
    fresh = [
        _with_kernels(estimator, [m for m, view in enumerate(views) if view != name], choose_again)
        for name in (None, *names)
    ]
    folds = rows.folds(splitter_of(estimator, rows, cv))
    if len(folds) < 2:
        raise InputError(f"An interval needs two divisions of the rows or more, `cv` gives {len(folds)}.")
    tasks = ((one, fold, scoring) for fold in folds for one in fresh)
    found, stopped = each_done(rows.fit_and_score, tasks, n_jobs, report, "fit", len(folds) * len(fresh))
    done = len(found) // len(fresh)
    if done < 2:
        raise KeyboardInterrupt(
            "interrupted before two divisions of the rows were done; nothing could be kept"
        )
    scores = np.array(found[: done * len(fresh)]).reshape(done, len(fresh))
    share = float(np.mean([len(test) / len(train) for train, test in folds[:done]]))
    tests = [compare_folds(scores[:, 0], column, share, level=level) for column in scores[:, 1:].T]
    columns = np.array([[test.difference, test.low, test.high, test.p_value] for test in tests]).T
    order, losses = _largest_first(names, *columns)
    scores = scores[:, [0, *(order + 1)]]
    score, *without = scores.mean(axis=0).tolist()
    return SourceRefitTest(
        score=score, interrupted=stopped, without=np.array(without), scores=scores, level=level, **losses
    )


def _left_out(estimator: Model, views: Sequence[str], asked: Sequence[str] | None) -> list[str]:
    """The sources to leave out one by one."""
    known = list(dict.fromkeys(views))
    if isinstance(estimator.model_.source, StackSource):
        raise InputError(
            "With kernels='precomputed', `X` holds kernel values, and no kernel of it can be left out. Pass each "
            "matrix as a view, {'name': kw.precomputed(K)}, or kernels=kw.KernelBank(stack)."
        )
    if len(known) < 2:
        raise InputError(
            f"Something must be left when a source is left out, and all kernels are of one source, {known[0]!r}. Use "
            "several views, or kernels of single columns."
        )
    if asked is None:
        asked = [name for name, share in view_weights(estimator).items() if share > 0]
        if not asked:
            raise InputError("No kernel of this model has a weight: there is nothing to leave out.")
    return [check_known(name, known, "source") for name in dict.fromkeys(asked)]


def _with_kernels(estimator: Model, kept: list[int], choose_again: bool) -> Any:
    """An estimator that is not fitted, with some of the kernels of a fitted one, and all else as it was."""
    fresh = clone(estimator) if choose_again else plainly(estimator)
    source: Any = estimator.model_.source
    if isinstance(source, BankSource):
        bank = source.bank
        return fresh.set_params(kernels=KernelBank(bank.stack[..., kept], [bank.names[m] for m in kept]))
    kernels = source.kernels if source.rules is None else source.rules
    # what follows from kernels that were left to the estimator is stated, because these are not
    settings = {**stated(estimator), "kernels": [kernels[m] for m in kept], "views": None, "gamma": None}
    if not choose_again:
        settings = {name: value for name, value in settings.items() if name not in ("learner", "C")}
    known = fresh.get_params(deep=False)
    return fresh.set_params(**{name: value for name, value in settings.items() if name in known})


# ---- findings --------------------------------------------------------------------------------------


def _losses(
    found: SourceLosses,
    meaning: str,
    n: int,
    sampled: str,
    first: Mapping[str, Any],
    title: str,
    answers: Sequence[str],
    rows: int,
    score: str,
    **details: Any,
) -> Finding:
    """The losses as a finding with a table, whose `first` columns are given by their heads."""
    columns = {
        **first,
        **{"loss": found.loss, "low": found.low, "high": found.high},
        **{"p": found.p_values, "p, corrected": found.adjusted, "verdict": answers},
    }
    formats = {
        **dict.fromkeys(("score", "loss", "low", "high"), f"score@{rows}"),
        **dict.fromkeys(("p", "p, corrected"), ".2g"),
    }
    refitted = isinstance(found, SourceRefitTest)
    adjusted = dict(zip(found.names, found.adjusted.tolist(), strict=True))
    return Finding(
        intervals_of(found.names, found.loss, found.low, found.high, method=CORRECTED if refitted else ""),
        meaning,
        n,
        sampled,
        LEVEL,
        rows=rows,
        details={
            "score": found.score,
            "name of score": score,
            "interrupted": found.interrupted,
            "adjusted": adjusted,
            **details,
        },
        tables=(Table.of("omission" if refitted else "sources", title, columns, meaning, formats),),
    )


def answers_of(found: SourceLosses, doubt: float = 0.0) -> list[str]:
    """Whether each source matters; `doubt` is how far the ends of intervals may be from those of all rows."""
    parts = zip(found.adjusted, found.loss, found.high + doubt, strict=True)
    return [decided(*map(float, one)) for one in parts]


#: What happens in none of n rows, or groups, happens in fewer than 3 / n of all, with 95 % confidence.
CERTAIN = 3.0


def _usual_score(model: Any) -> str:
    """The name of the score of a model."""
    return "concordance" if isinstance(model, MKLSurvival) else usual_score(model, target_names(model))


@finding(
    "sources",
    title="Test of every source",
    needs=("model", "held_rows"),
    about="Does the model use each source for new rows? Sources are exchanged between held-out rows.",
    counted="permutations",
    usual=0,
    possible=lambda found: (
        ("simplest" in found or "held-out times" in found)
        and len(found["views"].values) > 1
        and not found["kernels"].details["in layers"]
    ),
)
def _sources(basis: Basis) -> Finding:
    held = basis.held_rows
    found = source_test(
        basis.model,
        held.X,
        held.y,
        n_permutations=basis.count or None,
        groups=held.groups,
        random_state=basis.random_state,
        report=basis.report,
    )
    score = _usual_score(basis.model)
    meaning = (
        f"Loss of {score} where the source is exchanged between held-out rows, its 2.5 and 97.5 % points over "
        f"up to {found.n_permutations} permutations; p-values corrected for the number of sources (Holm), which cannot "
        f"be below {found.reach:.2g}."
    )
    title, n = "Sources exchanged between held-out rows", len(held)
    units = n if held.groups is None else len(np.unique(held.groups))
    answers = answers_of(found, CERTAIN / units)
    m, first = found.n_permutations, {"source": found.names}
    details = {"sources": len(found.names), "reach": found.reach}
    made = _losses(found, meaning, m, "permutations of the rows", first, title, answers, n, score, **details)
    for name, answer in list(zip(found.names, answers, strict=True))[:MOST_NAMED]:
        out_of_reach = answer == "inconclusive" and found.reach >= SMALL
        made = made.decides(
            "which",
            "Does the model use {name}?",
            answer,
            "where it is exchanged between held-out rows, the mean loss of {score} is {v:score} (p = {p:.2g}"
            + (", corrected for {k:d} sources)" if len(found.names) > 1 else ")")
            + (
                "; {m:d} permutations cannot tell: p cannot be below {r:.2g}"
                if out_of_reach
                else unsure(answer, "loss")
            )
            + ".",
            {"name": named(name), "score": score},
            v=at(name),
            p=("details", "adjusted", name),
            m=("n",),
            k=("details", "sources"),
            r=("details", "reach"),
            rows=("rows",),
        )
    return made


#: Sources without which a model is fitted for its report, those with the largest weights: each takes as many fits as
#: there are divisions.
MOST_OMITTED = 10


@finding(
    "omission",
    title="Fit without each source",
    needs=("model", "rows"),
    about="Does the model need each source? It is fitted without it, on random divisions of the rows.",
    counted="divisions of the rows",
    usual=10,
    least=2,
    possible=lambda found: len(found["views"].values) > 1,
)
def _omission(basis: Basis) -> Finding:
    weighted = [name for name, share in view_weights(basis.model).items() if share > 0]
    random = ShuffleSplit(basis.count, test_size=0.2, random_state=basis.random_state)
    found = source_refit_test(
        basis.model,
        **basis.rows.given,
        sources=weighted[:MOST_OMITTED],
        cv=random if basis.divisions is None else basis.divisions(basis.count),
        n_jobs=basis.n_jobs,
        report=basis.report,
    )
    score, n = _usual_score(basis.model), len(found.scores)
    meaning = (
        f"Mean {score} over {n} divisions of the rows when the model is fitted without the source; with all sources it "
        f"is {rounded(found.score, len(basis.rows))}. {OF_95} of the loss, of the t-test corrected for rows in common; "
        "p-values corrected for the number of sources (Holm)."
    )
    first = {"left out": found.names, "score": found.without}
    answers, title = answers_of(found), "Fits without each source"
    without = dict(zip(found.names, found.without.tolist(), strict=True))
    details = {"sources": len(weighted), "tested": len(found.names), "without": without}
    sampled, rows = "divisions of the rows", len(basis.rows)
    made = _losses(found, meaning, n, sampled, first, title, answers, rows, score, **details)
    for name, answer in list(zip(found.names, answers, strict=True))[:MOST_NAMED]:
        made = made.decides(
            "which",
            "Does the model need {name}?",
            answer,
            "fitted without it, the model has a mean {score} of {w:score} in place of {s:score} over {m:d} divisions "
            "of the rows (smaller training sets, for comparison only), a loss of {v:score}{interval:score}, p = {p:.2g}"
            + (", corrected for {k:d} sources" if len(found.names) > 1 else "")
            + f"{unsure(answer, 'loss')}.",
            {"name": named(name), "score": score},
            **ends(name),
            w=("details", "without", name),
            s=("details", "score"),
            m=("n",),
            k=("details", "tested"),
            p=("details", "adjusted", name),
            rows=("rows",),
        )
    return made


# ---- one answer from several findings ---------------------------------------------------------------

#: What is said of one source, and of several, by the answer of their tests.
ANSWERS = {
    "yes": (
        "matters: a model without it predicts worse",
        "matter: a model without one of them predicts worse",
    ),
    "no": ("can be left out", "can be left out, each of them alone"),
    "inconclusive": ("may matter or not: these rows cannot tell",) * 2,
}


@checked
def source_answer(
    found: Annotated[Found, InstanceOf((Mapping,), "a dict of findings by name, as `findings` returns it")],
) -> Finding | None:
    """The sources with their weights, intervals, and what a model loses without them.

    Parameters
    ----------
    found : dict of str to Finding
        With "views", and as far as they were computed "stability" and "omission".

    Returns
    -------
    Finding or None
        None for fewer than two sources. ``details["sources"]`` has, by name, "needed" ("yes", "no", "inconclusive" or
        None), "loss", "low", "high" and "p" of fits without the source.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = kw.MKLRegressor(kw.banks.linear_features(2), alpha=0.1).fit(X, X[:, 0])
    >>> found = kw.inspection.findings(model, training=(X, X[:, 0]), names=["omission"])
    >>> kw.inspection.source_answer(found).sentence
    'The only source with a weight is x0. x0 matters: a model without it predicts worse (p = 0.0005).'
    """
    views, omission = found.get("views"), found.get("omission")
    stable = found.get("stability", views)
    if views is None or stable is None or len(views.values) < 2:
        return None
    tested = _tested(omission)
    values = {
        name: replace(stable.values.get(name, Interval(math.nan)), value=one.value, n=one.n, method="")
        for name, one in views.values.items()
    }
    columns: dict[str, Any] = {
        "source": list(values),
        "weight": [one.value for one in values.values()],
        "low": [one.low for one in values.values()],
        "high": [one.high for one in values.values()],
    }
    formats = {"weight": ".1%", "low": ".1%", "high": ".1%"}
    notes = []
    if stable is not views:
        notes.append(f"low and high: 95 % interval of the weight over {stable.n} random halves of the rows.")
    else:
        del columns["low"], columns["high"]
    if omission is not None and tested:
        columns["loss without it"] = [tested.get(name, {}).get("loss") for name in values]
        columns["needed"] = [
            tested.get(name, {}).get("needed") or ("not tested" if one.value else "no weight")
            for name, one in values.items()
        ]
        formats["loss without it"] = f"score@{omission.rows}"
        notes.append(
            f"loss without it: of the score, in {omission.n} divisions of the rows, each time fitted again."
        )
    made = Finding(
        values,
        "Weights of the sources as fractions of all weights, with what a model loses without each.",
        stable.n,
        stable.sampled,
        stable.coverage,
        form=".1%",
        details={"sources": {name: tested.get(name, {"needed": None}) for name in values}},
        tables=(Table.of("answer", "Sources", columns, " ".join(notes), formats, brief=True),),
        name="answer",
        title="Sources",
    )
    # names of sources may have braces
    return made.says("which", "{answer}", {"answer": _sentence(values, tested)})


def _tested(omission: Finding | None) -> dict[str, dict[str, Any]]:
    """What fits without each source say, by its name."""
    if omission is None:
        return {}
    # verdicts are those of the first sources, the table has all
    [table] = omission.tables
    rows = [dict(zip(table.heads, row, strict=True)) for row in table.rows]
    return {
        str(row["left out"]): {
            "needed": row["verdict"],
            "loss": row["loss"],
            "low": row["low"],
            "high": row["high"],
            "p": row["p, corrected"],
        }
        for row in rows
    }


def _sentence(values: dict[str, Interval], tested: dict[str, dict[str, Any]]) -> str:
    """The answer, in a sentence or two."""
    weighted = [name for name, one in values.items() if one.value > 0]
    only = f"The only source with a weight is {named(weighted[0])}." if len(weighted) == 1 else ""
    if only and not tested:
        return only
    if not tested:
        largest = next(iter(values))
        return (
            f"{named(largest)} has the largest weight, {percent(values[largest].value, 1)}. Whether a model needs it "
            "was not tested."
        )
    parts = [only] if only else []
    for answer, (one, several) in ANSWERS.items():
        names = [name for name in weighted if tested.get(name, {}).get("needed") == answer]
        shown = [named(name) for name in names[:MOST_NAMED]]
        if len(names) > MOST_NAMED:
            shown.append(f"{len(names) - MOST_NAMED} more")
        if shown:
            surest = min(tested[name]["p"] for name in names)
            sure = f" (p = {surest:.2g})" if answer == "yes" and len(names) == 1 else ""
            parts.append(f"{enumerated(shown)} {one if len(names) == 1 else several}{sure}.")
    return " ".join(parts)
