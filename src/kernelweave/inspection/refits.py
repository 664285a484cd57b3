"""What a model needs a source for: the score of new rows when it is fitted without that source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ShuffleSplit
from sklearn.utils.validation import check_is_fitted

from kernelweave._checks import InputError, check_known
from kernelweave._parameters import Each, Flag, Text, checked
from kernelweave._types import Features, Splits
from kernelweave.estimators.parameters import stated
from kernelweave.fitting.stacks import BankSource, KernelBank, StackSource
from kernelweave.inspection.arguments import (
    Jobs,
    Level,
    Model,
    OptionalEntries,
    Params,
    Report,
    Rows,
    Scoring,
    Targets,
    as_rows,
)
from kernelweave.inspection.paired import adjust_p_values, compare_folds
from kernelweave.inspection.registry import (
    MOST_NAMED,
    SMALL,
    Basis,
    Finding,
    Table,
    ends,
    finding,
    intervals_of,
    named,
)
from kernelweave.inspection.resampling import each_done, fit_on, folds_of, score_on, splitter_of
from kernelweave.inspection.scores import OF_95, OVER_FOLDS
from kernelweave.inspection.stability import plainly
from kernelweave.inspection.weights import view_weights, views_of

Array = NDArray[np.float64]

#: Of a paired test, in the order of the results.
ENDS = ("difference", "low", "high")


@dataclass(frozen=True)
class SourceRefitTest:
    """What the score of new rows loses when the model is fitted without a source.

    Attributes
    ----------
    names : tuple of str
        Sources: views, or the columns of kernels. That with the largest loss comes first.
    score : float
        Of the model with all sources, the mean over divisions.
    without : array of shape (n_sources,)
        The same without each source.
    loss : array of shape (n_sources,)
        `score` less `without`.
    low, high : array of shape (n_sources,)
        An interval of the loss, of the corrected resampled t-test (`compare_folds`).
    p_values : array of shape (n_sources,)
        Of that test.
    adjusted : array of shape (n_sources,)
        The same, corrected for the number of sources (Holm).
    scores : array of shape (n_divisions, n_sources + 1)
        By division: with all sources, and without each.
    level : float
    interrupted : bool
        Whether fewer divisions were done than asked for.
    """

    names: tuple[str, ...]
    score: float
    without: Array
    loss: Array
    low: Array
    high: Array
    p_values: Array
    adjusted: Array
    scores: Array
    level: float
    interrupted: bool


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
        As `fit` takes it, indices of a bank too.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
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
        Passed to the splitter, and with `choose_again` to `fit` of a CV variant.
    params : dict of str to array, optional
        Arguments of `fit` with an entry for each row, such as ``{"sample_weight": w}``.
    level : float, default=0.95
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
    check_is_fitted(estimator)
    X, targets = as_rows(estimator, X, y)
    given = None if groups is None else np.asarray(groups)
    views = views_of(estimator)
    names = _sources(estimator, views, sources)
    fresh = [
        _with_kernels(estimator, [m for m, view in enumerate(views) if view != name], choose_again)
        for name in (None, *names)
    ]
    folds = folds_of(splitter_of(estimator, targets, cv), targets, given)
    if len(folds) < 2:
        raise InputError(f"An interval needs two divisions of the rows or more, `cv` gives {len(folds)}.")
    passed = dict(params or {})
    if choose_again and given is not None and hasattr(estimator, "cv"):
        passed["groups"] = given
    tasks = ((one, X, targets, train, test, scoring, passed) for train, test in folds for one in fresh)
    found, stopped = each_done(_score_fit, tasks, n_jobs, report, "fit", len(folds) * len(fresh))
    done = len(found) // len(fresh)
    if done < 2:
        raise KeyboardInterrupt(
            "interrupted before two divisions of the rows were done; nothing could be kept"
        )
    scores = np.array(found[: done * len(fresh)]).reshape(done, len(fresh))
    share = float(np.mean([len(test) / len(train) for train, test in folds[:done]]))
    tests = [compare_folds(scores[:, 0], column, share, level=level) for column in scores[:, 1:].T]
    p_values = np.array([test.p_value for test in tests])
    order = np.argsort([-test.difference for test in tests], kind="stable")
    loss, low, high = (np.array([getattr(test, name) for test in tests])[order] for name in ENDS)
    return SourceRefitTest(
        tuple(names[k] for k in order),
        float(scores[:, 0].mean()),
        scores[:, 1:].mean(axis=0)[order],
        loss,
        low,
        high,
        p_values[order],
        adjust_p_values(p_values)[order],
        scores[:, [0, *(order + 1)]],
        level,
        stopped,
    )


def _sources(estimator: Model, views: Sequence[str], asked: Sequence[str] | None) -> list[str]:
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
    source = estimator.model_.source
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


def _score_fit(
    estimator: Any, X: Features, y: Any, train: Rows, test: Rows, scoring: Any, params: Mapping[str, Any]
) -> float:
    return score_on(fit_on(estimator, X, y, train, params), X, y, train, test, scoring)


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
    random = ShuffleSplit(basis.count, test_size=0.2, random_state=basis.seed)
    found = source_refit_test(
        basis.model,
        basis.rows.X,
        basis.rows.y,
        sources=weighted[:MOST_OMITTED],
        cv=random if basis.divisions is None else basis.divisions(basis.count),
        groups=basis.rows.groups,
        params=basis.rows.params,
        n_jobs=basis.n_jobs,
        report=basis.report,
    )
    score, n = "accuracy" if is_classifier(basis.model) else "R^2", len(found.scores)
    meaning = (
        f"Mean {score} over {n} divisions of the rows when the model is fitted without the source; with all sources it "
        f"is {found.score:.4g}. {OF_95} of the loss, of the t-test corrected for rows in common; p-values corrected "
        "for the number of sources (Holm)."
    )
    columns = {
        **{
            "left out": found.names,
            "score": found.without,
            "loss": found.loss,
            "low": found.low,
            "high": found.high,
        },
        **{"p": found.p_values, "p, corrected": found.adjusted},
    }
    adjusted = dict(zip(found.names, found.adjusted.tolist(), strict=True))
    made = Finding(
        intervals_of(found.names, found.loss, found.low, found.high),
        meaning,
        n,
        "divisions of the rows",
        found.level,
        details={
            "score": found.score,
            "interrupted": found.interrupted,
            "sources": len(weighted),
            "without": dict(zip(found.names, found.without.tolist(), strict=True)),
            "adjusted": adjusted,
        },
        tables=(Table.of("omission", "Fits without each source", columns, meaning),),
    )
    for name in found.names[:MOST_NAMED]:
        made = made.says(
            "which",
            "Fitted without {name}, the model has a mean {score} of {w:.3f} in place of {s:.3f} over {k:d} divisions "
            "of the rows: a loss of {v:.3f}{interval}, p = {p:.2g}"
            + ("." if adjusted[name] < SMALL else ": the other sources may be enough."),
            {"name": named(name), "score": score},
            OVER_FOLDS,
            **ends(name),
            w=("details", "without", name),
            s=("details", "score"),
            k=("n",),
            p=("details", "adjusted", name),
        )
    return made
