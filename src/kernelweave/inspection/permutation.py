"""Could a score be chance? Scores with the true targets among those with permuted ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Annotated, Any

import numpy as np
from sklearn.metrics import check_scoring

from kernelweave._forms import ShortRepr
from kernelweave._parameters import Flag, Whole, checked, renamed
from kernelweave._types import Array, BaseCrossValidator, Features, Labels, Splits
from kernelweave.estimators.scoring import Known
from kernelweave.inspection.arguments import (
    Estimator,
    Jobs,
    OptionalEntries,
    Params,
    Report,
    Scoring,
    Seed,
    Targets,
)
from kernelweave.inspection.refitting import Places, Rows, each_done, splitter_of
from kernelweave.inspection.registry import SMALL, Basis, Finding, Interval, at, finding
from kernelweave.views import take_rows

__all__ = ["PermutationTest", "permutation_test"]

Permutations = Annotated[int, Whole(1)]


@dataclass(frozen=True)
class PermutationTest(ShortRepr):
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


@renamed(seed="random_state")
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
    random_state: Seed = 0,
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
        An estimator of this package or of scikit-learn; a clone of it is fitted.
    X : array-like, frame, sparse matrix or views
        The rows, in any form that `fit` takes: a table, views, precomputed kernels or indices of a bank.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Targets of these rows.
    n_permutations : int, default=199
        The smallest possible p-value is 1 / (n_permutations + 1).
    cv : int, splitter, or list of (train, test), default=5
        Folds whose test rows are scored; ``[(train, test)]`` for one division.
    refit : bool, default=True
        Repeat the whole fit for every permutation.
    scoring : str or callable, optional
        Default: accuracy, or R^2.
    groups : array-like of shape (n_rows,), optional
        For the splitter and `fit`. Groups exchange their targets, each with its rows in any order. scikit-learn
        permutes within groups, where the score keeps all that differs between groups.
    params : dict of str to array, optional
        Arguments of `fit` with an entry for each row, such as ``{"sample_weight": w}``; they stay with the rows.
    n_jobs : int, optional
        Permutations at the same time.
    random_state : int, default=0
        Seed of the random numbers: the same one gives the same result.
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
    rows = Rows.read(estimator, X, y, params, groups)
    splitter = splitter_of(estimator, rows, cv)
    folds = rows.folds(splitter)
    models = [rows.fit(estimator, train) for train, _ in folds]
    score = float(np.mean([rows.score(one, fold, scoring) for one, fold in zip(models, folds, strict=True)]))
    # the same sequence as scikit-learn's permutation_test_score
    rng = np.random.RandomState(random_state)
    if refit:
        orders = (_permuted(rng, np.arange(len(rows)), rows) for _ in range(n_permutations))
        tasks: Iterator[Any] = (
            (replace(rows, y=take_rows(rows.y, one)), estimator, splitter, scoring) for one in orders
        )
        found, stopped = each_done(_score_again, tasks, n_jobs, report, "permutation", n_permutations)
    else:
        known = [
            _known(one, rows.take(test, train)) for one, (train, test) in zip(models, folds, strict=True)
        ]
        tests = ([_permuted(rng, test, rows) for _, test in folds] for _ in range(n_permutations))
        tasks = ((known, rows.y, one, scoring) for one in tests)
        found, stopped = each_done(_score_known, tasks, 1, report, "permutation", n_permutations)
    permuted = np.array(found)
    return PermutationTest(score, permuted, permutation_p_value(score, permuted), refit, stopped)


def _permuted(rng: np.random.RandomState, places: Places, rows: Rows) -> Places:
    """Places in another order: between groups, which keep one target where they have one."""
    if rows.groups is None:
        return places[rng.permutation(len(places))]
    own, values = rows.groups[places], np.asarray(rows.y)[places]
    names, first = np.unique(own, return_index=True)
    if values.ndim == 1 and all(len(set(values[own == name].tolist())) == 1 for name in names):
        other = dict(zip(names.tolist(), first[rng.permutation(len(names))].tolist(), strict=True))
        return places[[other[name] for name in own.tolist()]]
    return places[exchanged(rng, len(places), own)]


def exchanged(rng: np.random.RandomState | np.random.Generator, n_rows: int, groups: Labels | None) -> Places:
    """For every row the row whose place it takes: any, or that of a group whose rows follow each other.

    Where groups have different numbers of rows, a group gets its rows from several.
    """
    if groups is None:
        return rng.permutation(n_rows)
    members = [np.flatnonzero(groups == name) for name in np.unique(groups)]
    other = np.concatenate([rng.permutation(members[k]) for k in rng.permutation(len(members))])
    found = np.empty(n_rows, dtype=np.intp)
    found[np.concatenate(members)] = other
    return found


def _score_again(rows: Rows, estimator: Any, splitter: BaseCrossValidator, scoring: Any) -> float:
    # folds keep the shares of the permuted classes
    return float(np.mean([rows.fit_and_score(estimator, fold, scoring) for fold in rows.folds(splitter)]))


def _known(model: Any, X: Features) -> Known:
    """The answers of a fitted estimator for some rows, computed when a score needs them."""
    methods = (name for name in ("predict", "decision_function", "predict_proba") if hasattr(model, name))
    answers = {name: cache(partial(getattr(model, name), X)) for name in methods}
    return Known(answers, getattr(model, "classes_", None))


def _score_known(known: list[Known], y: Any, tests: list[Places], scoring: Any) -> float:
    found = [
        check_scoring(one, scoring=scoring)(one, np.zeros((len(places), 1)), take_rows(y, places))
        for one, places in zip(known, tests, strict=True)
    ]
    return float(np.mean(found))


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
        **basis.rows.given,
        n_permutations=basis.count,
        cv=basis.folds(),
        refit=basis.refit,
        **basis.how,
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
    ).decides(
        "sure",
        "Is the score better than chance?",
        # there is no interval that could be inside a margin
        "yes" if found.p_value < SMALL else "inconclusive",
        f"with permuted targets {{b:d}} of {{m:d}} {'fits of everything' if found.refit else 'permutations'} score as "
        "well as the model (p = {p:.2g}).",
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
