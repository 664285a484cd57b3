"""Paired tests: two models on the same rows, or over the same folds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from kernelweave._checks import Floats, InputError, Targets
from kernelweave._parameters import Positive, checked, renamed
from kernelweave._types import Array, Labels
from kernelweave.inspection.arguments import Entries, Level, OptionalEntries, Seed
from kernelweave.inspection.held import HeldOut, class_texts, group_means, groups_of_rows
from kernelweave.inspection.registry import (
    MARGIN,
    SMALL,
    Basis,
    Finding,
    Table,
    at,
    decided,
    finding,
    plain,
)
from kernelweave.inspection.scores import (
    OF_95,
    around,
    held_intervals,
    of_held,
)

__all__ = ["PairedTest", "adjust_p_values", "compare_classes", "compare_folds", "compare_numbers"]

#: Sign changes of a test of errors: more only make p-values finer.
N_SIGNS = 9999
#: Levels at which limits of fractions are multiplied, and what stands for no rows.
N_LEVELS, TINY = 1000, 1e-9


@dataclass(frozen=True)
class PairedTest:
    """Whether two models differ.

    Attributes
    ----------
    test : str
        The name of the test.
    why : str
        Why this one, in a sentence.
    difference : float
        The first minus the second: of accuracy, of the mean squared error, or of the mean score over folds.
    low, high : float
        An interval of the difference.
    p_value : float
        Two-sided: the probability of a difference at least as large if the two models were equally good.
    n : int
        Rows, or folds.
    counts : dict of str to int
        What was counted: rows that only one of the models predicts right.
    """

    test: str
    why: str
    difference: float
    low: float
    high: float
    p_value: float
    n: int
    counts: dict[str, int]


@checked
def compare_classes(
    y_true: Entries, first: Entries, second: Entries, *, groups: OptionalEntries = None, level: Level = 0.95
) -> PairedTest:
    """McNemar's exact test of two classifiers: whether they are right on equally many of the same held-out rows.

    Rows that both predict right, or both wrong, say nothing; of the others, if the models are equally good, each is as
    likely to be right: the p-value is that of a binomial distribution.

    Parameters
    ----------
    y_true, first, second : array-like of shape (n_rows,)
        True classes, and those that the two models predict.
    groups : array-like of shape (n_rows,), optional
        Groups of rows that depend on each other, such as the visits of a patient. McNemar's test is for independent
        rows: with groups the test is that of `compare_numbers`, of the numbers of rows that are predicted right.
    level : float, default=0.95
        Level of the interval of the difference in accuracy, by Fay and Lumbard: it contains 0 where the p-value is not
        below ``1 - level``.

    Returns
    -------
    PairedTest

    Raises
    ------
    InputError
        Arrays of different lengths.

    References
    ----------
    Q. McNemar, Note on the sampling error of the difference between correlated proportions or percentages,
    Psychometrika 12 (1947); M. P. Fay and K. Lumbard, Confidence intervals for difference in proportions for matched
    pairs compatible with exact McNemar's or sign tests, Statistics in Medicine 40 (2021).

    Examples
    --------
    >>> y = [1] * 20
    >>> found = compare_classes(y, y, [1] * 12 + [0] * 8)
    >>> round(found.difference, 2), round(found.p_value, 4)
    (0.4, 0.0078)
    """
    truth, one, two = _same_rows(y_true, first, second)
    right, also = one == truth, two == truth
    only_first, only_second = int((right & ~also).sum()), int((~right & also).sum())
    n, odd = len(truth), only_first + only_second
    counted = {"only the first is right": only_first, "only the second is right": only_second}
    if groups is not None:
        apart = right.astype(float) - also
        return _signs_changed(
            apart, groups, level, 0, "both models predict classes of the same held-out rows", counted
        )
    p_value = float(stats.binomtest(only_first, odd, 0.5).pvalue) if odd else 1.0
    tail = (1.0 - level) / 2
    return PairedTest(
        "McNemar's exact test",
        "both models predict classes of the same held-out rows",
        (only_first - only_second) / n,
        _lower_end(only_first, odd, n, tail),
        -_lower_end(only_second, odd, n, tail),
        p_value,
        n,
        counted,
    )


def _lower_end(one: int, odd: int, n: int, tail: float) -> float:
    """The lower end of an interval of ``(2 t - 1) d``: t of the `odd` rows are right by one model, d of n rows are odd.

    The lower limits of Clopper and Pearson for t, and the limit for d that moves the product down, by their levels are
    beta distributions; the end is the quantile of the product of independent draws.
    """
    # a parameter of 0 is all mass at an end
    share = stats.beta(max(one, TINY), odd - one + 1)
    few, many = stats.beta(max(odd, TINY), n - odd + 1), stats.beta(odd + 1, max(n - odd, TINY))
    t = share.ppf((np.arange(N_LEVELS) + 0.5) / N_LEVELS)
    below, slopes = float(share.cdf(0.5)), 2.0 * t - 1.0

    def excess(end: float) -> float:
        """The probability of products up to `end`, less `tail`."""
        if end < 0.0:
            return float(many.sf(end / slopes[slopes < 0.0]).sum() / N_LEVELS - tail)
        return below + float(few.cdf(end / slopes[slopes > 0.0]).sum() / N_LEVELS) - tail

    ends = (-1.0, -TINY) if below >= tail else (TINY, 1.0)
    # what the levels leave out
    return float(optimize.brentq(excess, *ends)) if excess(ends[0]) < 0.0 < excess(ends[1]) else 0.0


@renamed(seed="random_state")
@checked
def compare_numbers(
    y_true: Targets,
    first: Targets,
    second: Targets,
    *,
    groups: OptionalEntries = None,
    level: Level = 0.95,
    random_state: Seed = 0,
) -> PairedTest:
    """A paired permutation test: whether two regressions have the same mean squared error on the same rows.

    Under the hypothesis that the predictions of a row could be exchanged, the difference of their squared errors is as
    likely to have the other sign. The statistic is its mean; no distribution of errors is assumed.

    Parameters
    ----------
    y_true, first, second : array-like of shape (n_rows,)
        True numbers, and those that the two models predict.
    groups : array-like of shape (n_rows,), optional
        Groups of rows that depend on each other, such as the visits of a patient: their differences change signs
        together, and the interval is that of so many independent groups.
    level : float, default=0.95
        Level of the interval of the difference, by quantiles of Student's t and the correction of `score_intervals` for
        the skewness of the differences.
    random_state : int, default=0
        Seed of the random numbers: the same one gives the same result.

    Returns
    -------
    PairedTest

    Raises
    ------
    InputError
        Arrays of different lengths, NaN, infinity, numbers whose squares overflow.

    Notes
    -----
    All changes of signs up to 13 rows, else m = 9,999 random ones, with the p-value (b + 1) / (m + 1) of each side; the
    p-value of both sides is twice the smaller one.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.arange(30.0)
    >>> found = compare_numbers(y, y + 0.1, y + 1.0)
    >>> round(found.difference, 2), found.p_value < 0.001
    (-0.99, True)
    """
    truth, one, two = (part.astype(float) for part in _same_rows(y_true, first, second))
    apart = np.square(one - truth) - np.square(two - truth)
    why = "both models predict numbers of the same held-out rows, and no distribution of errors is assumed"
    return _signs_changed(apart, groups, level, random_state, why, {})


def _signs_changed(
    differences: Array, groups: ArrayLike | None, level: float, seed: int, why: str, counts: dict[str, int]
) -> PairedTest:
    """The test of `compare_numbers` of the differences of rows, which change their signs by groups."""
    test = "paired permutation test" + ("" if groups is None else " of groups")
    apart = group_means(differences, groups_of_rows(groups, len(differences)))
    n, mean = len(apart), float(apart.mean())
    low, high, p_value = mean, mean, 1.0
    if apart.any():
        if n > 1:
            found = stats.permutation_test(
                (apart,),
                lambda x, axis: x.mean(axis=axis),
                permutation_type="samples",
                vectorized=True,
                n_resamples=N_SIGNS,
                batch=max(1, 2_000_000 // n),
                random_state=np.random.default_rng(seed),
            )
            p_value = float(found.pvalue)
        # what rounding leaves is no spread
        if np.ptp(apart) > 1e-12 * np.abs(apart).max():
            low, high = (mean + around(apart, level)).tolist()
    return PairedTest(test, why, mean, low, high, p_value, len(differences), counts)


@checked
def compare_folds(
    first: Annotated[ArrayLike, Floats()],
    second: Annotated[ArrayLike, Floats()],
    test_share: Positive,
    *,
    level: Level = 0.95,
) -> PairedTest:
    """The corrected resampled t-test: whether two models have the same mean score over the same folds.

    The usual paired t-test takes folds for independent samples, and finds differences where there are none: folds have
    most of their training rows in common. Here the variance of the mean difference of k folds is
    ``(1/k + n_test/n_train) s^2``.

    Parameters
    ----------
    first, second : array-like of shape (n_folds,)
        Scores over the same folds in the same order.
    test_share : float
        Test rows for each training row of a fold: ``1 / (k - 1)`` for k folds.
    level : float, default=0.95
        Level of the interval of the difference.

    Returns
    -------
    PairedTest
        If all differences are the same, their spread is not known: there is no interval, and the p-value is 1.

    Raises
    ------
    InputError
        Different numbers of folds, or one fold.

    References
    ----------
    C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52 (2003).

    Examples
    --------
    >>> found = compare_folds([0.9, 0.8, 0.85, 0.9, 0.8], [0.8, 0.78, 0.8, 0.85, 0.79], 1 / 4)
    >>> round(found.difference, 3), round(found.p_value, 3)
    (0.046, 0.122)
    """
    one, two = np.asarray(first), np.asarray(second)
    if len(one) != len(two) or len(one) < 2:
        raise InputError(
            f"`first` and `second` must be scores over the same folds, two or more, got {len(one)} and {len(two)}."
        )
    differences, k = one - two, len(one)
    mean, half, p_value = float(differences.mean()), float("nan"), 1.0
    # by more than rounding
    if np.ptp(differences) > 1e-12 * np.abs([one, two]).max():
        error = np.sqrt((1 / k + test_share) * differences.var(ddof=1))
        half = float(error * stats.t.ppf(0.5 + level / 2, k - 1))
        p_value = float(2.0 * stats.t.sf(abs(mean) / error, k - 1))
    return PairedTest(
        "corrected resampled t-test",
        "scores over the same folds depend on each other, because their training rows overlap",
        mean,
        mean - half,
        mean + half,
        p_value,
        k,
        {},
    )


def _same_rows(*parts: ArrayLike) -> list[NDArray[np.generic]]:
    arrays = [np.asarray(part) for part in parts]
    if len({array.shape for array in arrays}) > 1 or arrays[0].ndim != 1 or not len(arrays[0]):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise InputError(
            f"`y_true`, `first` and `second` must be 1D arrays of the same rows, got shapes {shapes}."
        )
    return arrays


@checked
def adjust_p_values(p_values: Annotated[ArrayLike, Floats(least=0)]) -> Array:
    """Holm's correction of several p-values: the chance that any true hypothesis is rejected stays below the level.

    Parameters
    ----------
    p_values : array-like of shape (n_tests,)
        From 0 to 1.

    Returns
    -------
    array of shape (n_tests,)

    Raises
    ------
    InputError
        Numbers above 1.

    References
    ----------
    S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).

    Examples
    --------
    >>> adjust_p_values([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values)
    if values.max() > 1.0:
        raise InputError(f"`p_values` must be from 0 to 1, got {values.max():.3g}.")
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    found = np.empty(len(values))
    found[order] = np.minimum(steps, 1.0)
    return found


# ---- findings --------------------------------------------------------------------------------------


def _against(held: HeldOut, guesses: Mapping[str, Labels], name: str, title: str) -> Finding:
    """Other predictions of the held-out rows: their scores, and paired tests of the model against them."""
    numbers = held.classes is None
    compare = compare_numbers if numbers else compare_classes
    # what is shown, what is tested, and whether more of it is better
    score, what, sign = ("RMSE", "mean squared error", -1) if numbers else ("accuracy", "accuracy", 1)
    own = held_intervals(held)[score]
    values, tests = {"this model": own}, {}
    rows = [["this model", *own.cells, None, None, None, None]]
    for other, guess in guesses.items():
        guess = np.asarray(guess, dtype=float) if numbers else class_texts(guess, held.classes or ())
        scores = held_intervals(replace(held, prediction=guess, decision=None, probability=None))
        test = tests[other] = compare(held.truth, held.prediction, guess, groups=held.groups)
        values[other] = scores[score]
        rows.append([other, *scores[score].cells, test.difference, test.low, test.high, test.p_value])
    heads = ["predictions by", score, "low", "high", "difference", "from", "to", "p"]
    used = ", ".join(sorted({test.test for test in tests.values()}))
    note = f"{OF_95}. Difference: of {what}, this model minus the other ({used})."
    n = len(held)
    formats = {
        **dict.fromkeys(heads[1:7], f"{'units' if numbers else 'score'}@{n}"),
        "p": ".2g",
    }
    made = of_held(
        held,
        values,
        f"{score} of other predictions of the same held-out rows, and paired tests of the model against them.",
        details={"score": score, "tests": plain({other: asdict(test) for other, test in tests.items()})},
        tables=(Table(name, title, heads, plain(rows), note, formats),),
    )
    text = (
        "its root mean squared error is {own:units}, that of the other {v:units}, on {n:d} held-out rows{groups} "
        "(p = {p:.2g}, {test}){so}."
        if numbers
        else "on {n:d} held-out rows{groups} it is right in {own:fraction}, the other in {v:fraction} "
        "(p = {p:.2g}, {test}){so}."
    )
    # a gain of R^2 is one of squared errors in units of the variance
    margin = MARGIN * float(np.var(held.truth)) if numbers else MARGIN
    for other, test in tests.items():
        high = -test.low if numbers else test.high
        answer = decided(test.p_value, sign * test.difference, high, margin)
        so = ""
        if test.p_value >= SMALL:
            gain = "R^2" if numbers else score
            unlikely, unknown = f"a gain of {MARGIN} of {gain} is unlikely", f"{n} rows cannot tell"
            so = f"; {unlikely if answer == 'no' else unknown}"
        made = made.decides(
            "baseline",
            "Is the model better than {name}?",
            answer,
            text,
            {"name": other, "test": test.test, "so": so, "groups": held.in_groups},
            v=at(other),
            own=at("this model"),
            n=("n",),
            p=("details", "tests", other, "p_value"),
        )
    return made


@finding("simplest", title="Against the simplest rule", needs=("model", "held"))
def _simplest(basis: Basis) -> Finding | None:
    held = basis.held
    if held.several or len(held) < 2:
        return None
    task = basis.model.model_.task
    typical = replace(task, targets=task.typical)
    if held.classes is None:
        value: object = float(typical.targets[0][0, 0])
        rule = "predicting the mean of the training rows"
    else:
        value = held.classes[int(typical.codes[0])]
        rule = f"always predicting the most frequent class ({value})"
    guess = np.full(len(held), value, dtype=object)
    made = _against(held, {rule: guess}, "simplest", "Against the simplest rule on the same held-out rows")
    if made.verdicts[0].answer != "yes":
        # there is a difference, and it is no gain
        worse = made.details["tests"][rule]["p_value"] < SMALL
        what = "The model predicts worse" if worse else "It is not shown that the model predicts better"
        made = made.says(
            "distrust",
            f"{what} than {{name}} (p = {{p:.2g}}).",
            {"name": rule},
            p=("details", "tests", rule, "p_value"),
        )
    return made


@finding(
    "baselines",
    title="Baselines",
    needs=("held", "others"),
    about="Do several kernels pay? The average, the best single kernel and a linear model, on the same rows.",
    # held-out rows of one target are compared with the simplest rule
    possible=lambda found: "simplest" in found,
)
def _baselines(basis: Basis) -> Finding | None:
    if basis.held.several:
        return None
    guesses: dict[str, Labels] = {}
    for k, (name, predict) in enumerate(basis.others.items()):
        guesses[name] = predict()
        if basis.report is not None and basis.report(f"baseline {k + 1} of {len(basis.others)}"):
            break
    return _against(basis.held, guesses, "baselines", "Against baselines on the same held-out rows")
