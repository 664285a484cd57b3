"""Rows with censored times that were not fitted: their scores, intervals, groups and calibration.

Modules: `inspection/held_times`.
"""

import inspect

import numpy as np
import pytest

import kernelweave as kw
from kernelweave.fitting.survival import harrell, kaplan_meier, value_at
from kernelweave.inspection.held_times import (
    BRIER,
    CONCORDANCE,
    EQUAL,
    GAIN,
    WITHOUT,
    HeldTimes,
    compare_risks,
    concordance_of_rows,
    divided,
    survival_at,
    survival_columns,
    usual_times,
)
from kernelweave.inspection.registry import Basis, collect, compute, possible
from oracles import wrong_defaults


def drawn(rng, n, effect=1.0):
    """Times, events and risks; some times are equal."""
    risk = rng.normal(size=n)
    death, end = rng.exponential(20.0 * np.exp(-effect * risk)), rng.uniform(5.0, 60.0, n)
    return np.ceil(np.minimum(death, end)), death <= end, risk


def test_concordance_of_rows_is_that_of_harrell_within_folds():
    rng = np.random.default_rng(0)
    time, event, risk = drawn(rng, 90)
    risk = np.round(risk, 1)  # some are equal
    assert concordance_of_rows(time, event, risk).value == pytest.approx(
        harrell(time, event, risk), abs=1e-12
    )
    folds = np.arange(90) % 3
    parts = []
    for fold in range(3):
        rows = folds == fold
        pairs = concordance_of_rows(time[rows], event[rows], risk[rows])
        n = sum(
            (time[rows] > one) | ((time[rows] == one) & ~event[rows]) for one in time[rows][event[rows]]
        ).sum()
        parts.append((pairs.value * n, n))
    right, total = np.sum(parts, axis=0)
    assert concordance_of_rows(time, event, risk, folds).value == pytest.approx(right / total, abs=1e-12)


def test_the_influence_of_a_row_is_the_derivative_by_its_weight():
    time, event, risk = drawn(np.random.default_rng(1), 40)
    found = concordance_of_rows(time, event, risk)
    step = 1e-6
    for k in range(0, 40, 7):
        weight = np.ones(40)
        ends = []
        for sign in (1.0, -1.0):
            weight[k] = 1.0 + sign * step
            ends.append(harrell(time, event, risk, weight))
        slope = (ends[0] - ends[1]) / (2.0 * step)
        assert found.influence[k] == pytest.approx(40 * slope, abs=1e-6)
    assert found.influence.sum() == pytest.approx(0.0, abs=1e-9)


def test_intervals_of_the_concordance_hold_the_true_one():
    rng = np.random.default_rng(2)
    # the concordance of 20,000 rows stands for the true one
    true = harrell(*drawn(rng, 20_000, 0.7))
    inside = 0
    for _ in range(200):
        time, event, risk = drawn(rng, 80, 0.7)
        held = HeldTimes(time, event, risk, np.unique(time), np.ones((80, len(np.unique(time)))))
        one = held.intervals[CONCORDANCE]
        inside += one.low <= true <= one.high
    # of 200 intervals of 95 % fewer than 181 or all hold the true value by chance once in 500 times
    assert 181 <= inside <= 200


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 4))
    death, end = rng.exponential(20.0 * np.exp(-1.2 * X[:, 0])), rng.uniform(5.0, 60.0, 120)
    y = np.column_stack([death <= end, np.ceil(np.minimum(death, end))]).astype(float)
    kernels = kw.banks.views({"first": [0, 1], "second": [2, 3]}, kernels=[kw.kernels.Linear()])
    model = kw.MKLSurvival(kernels, C=1.0).fit(X[:70], y[:70])
    return model, X, y


def test_scores_are_those_of_the_functions_for_predictions(fitted):
    model, X, y = fitted
    held = HeldTimes.of(model, X[70:], y[70:], y[:70])
    found = held.intervals
    assert found[CONCORDANCE].value == pytest.approx(model.score(X[70:], y[70:]), abs=1e-12)
    survival = model.predict_survival_function(X[70:], held.grid)
    score = kw.inspection.integrated_brier_score(y[70:], survival, held.grid, training=y[:70])
    assert found[BRIER].value == pytest.approx(score, abs=1e-12)
    times, share, _ = kaplan_meier(y[:70, 1], y[:70, 0] > 0)
    alone = np.tile(value_at(times, share, held.grid, 1.0), (50, 1))
    score = kw.inspection.integrated_brier_score(y[70:], alone, held.grid, training=y[:70])
    # the curve is kept at times of events, where alone it steps
    assert found[WITHOUT].value == pytest.approx(score, abs=1e-12)
    assert found[BRIER].value < found[WITHOUT].value
    # before the first time nothing has happened
    early = HeldTimes.of(model, X[70:], y[70:], y[:70], times=np.array([0.5 * times[0], times[3]]))
    np.testing.assert_allclose(early.alone, np.tile([1.0, share[3]], (50, 1)))
    assert (early.predicted_at(0.4 * times[0]) == 1.0).all()
    np.testing.assert_array_equal(early.predicted_at(times[3]), early.survival[:, 1])


def test_equal_risks_gain_nothing_and_a_better_one_gains(fitted):
    model, X, y = fitted
    held = HeldTimes.of(model, X[70:], y[70:], y[:70])
    same = HeldTimes(**{**vars(held), "equal": held.risk}).intervals
    assert same[GAIN].value == 0.0
    assert not np.isfinite(same[GAIN].low)
    chance = HeldTimes(**{**vars(held), "equal": np.random.default_rng(0).normal(size=50)}).intervals
    assert chance[GAIN].low > 0.0
    assert chance[GAIN].value == pytest.approx(chance[CONCORDANCE].value - chance[EQUAL].value, abs=1e-12)


def test_groups_and_calibration_are_by_predictions(fitted):
    model, X, y = fitted
    held = HeldTimes.of(model, X[70:], y[70:], y[:70])
    groups = held.risk_groups()
    means = [held.risk[rows].mean() for rows in groups.rows]
    assert means == sorted(means)
    assert sorted(np.concatenate(groups.rows)) == list(range(50))
    # bands are the intervals that tables have
    for rows, times, (low, high) in zip(groups.rows, groups.times, groups.bands, strict=True):
        ends = [survival_at(held.time[rows], held.event[rows], when) for when in times[:-1]]
        assert low[:-1] == pytest.approx([one.low for one in ends])
        assert high[:-1] == pytest.approx([one.high for one in ends])
    found = held.calibration(held.middle, 2)
    same = kw.inspection.survival_calibration(model, X[70:], y[70:], time=held.middle, n_groups=2)
    for name in ("predicted", "observed", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(same, name), abs=1e-12)


def test_risks_of_folds_are_compared_within_folds(fitted):
    model, X, y = fitted
    held = HeldTimes.of(model, X[70:], y[70:], y[:70])
    parts = [HeldTimes.of(model, X[70 + k :: 2], y[70 + k :: 2], y[:70], times=held.times) for k in (0, 1)]
    # the level of the risks of a model says nothing
    parts[1] = HeldTimes(**{**vars(parts[1]), "risk": parts[1].risk + 100.0})
    joined = HeldTimes.joined(parts, [np.arange(0, 50, 2), np.arange(1, 50, 2)], y[70:])
    assert (joined.time == held.time).all()
    folds = np.arange(50) % 2
    one = concordance_of_rows(held.time, held.event, held.risk, folds).value
    assert joined.intervals[CONCORDANCE].value == pytest.approx(one, abs=1e-12)
    for rows in joined.risk_groups().rows:
        assert abs((rows % 2 == 0).sum() - (rows % 2 == 1).sum()) <= 1


def test_columns_of_predictions(fitted):
    model, X, _ = fitted
    found = survival_columns(model, X[70:], [5.0, 12.5])
    assert list(found) == ["risk", "survival at 5", "survival at 12.5"]
    assert (found["survival at 5"] >= found["survival at 12.5"]).all()
    assert len(usual_times(model)) == 3


def test_findings_say_what_was_scored(fitted):
    model, X, y = fitted
    held = HeldTimes.of(model, X[70:], y[70:], y[:70])
    nested = HeldTimes(**{**vars(held), "equal": held.risk[::-1], "folds": np.zeros(50, dtype=int)})
    rows = kw.inspection.registry.Rows(X[70:], y[70:])
    found = collect(Basis(model=model, held_times=held, nested_times=nested, held_rows=rows))
    assert {"held-out times", "out-of-fold times", "risk groups", "survival calibration"} <= found.keys()
    assert found["rows"].details["task"] == "survival"
    assert not found["rows"].sentences[1:]
    value = found["held-out times"].values[CONCORDANCE].value
    assert f"is {value:.2f}" in found["held-out times"].sentence
    assert found["out-of-fold times"].verdicts[0].answer == "yes"
    assert not {"learning curve", "baselines"} & set(possible(found))
    exchanged = compute("sources", Basis(model=model, held_rows=rows, count=99))
    assert next(iter(exchanged.values.values())).value > 0.1
    assert "loss of concordance" in exchanged.sentence


def test_rows_of_equal_predictions_stay_together(rng):
    time = np.sort(rng.exponential(size=240))
    held = HeldTimes(time, np.ones(240, bool), np.zeros(240), time, np.full((240, 240), 0.5))
    assert held.risk_groups() is None
    assert held.calibration(float(np.median(time)), 5).n_rows.tolist() == [240]
    assert [len(rows) for rows in divided(np.repeat([3.0, 1.0, 2.0], [90, 70, 80]), 3)] == [70, 80, 90]
    assert sorted(len(rows) for rows in divided(rng.normal(size=50), 3)) == [16, 17, 17]
    assert divided(np.array([2.0, 1.0, 1.0, 1.0]), 3)[0].tolist() == [1, 2, 3]


def test_intervals_of_survival_hold_it_as_often_as_they_say(rng):
    for truth in (0.5, 0.9, 0.97):
        inside = 0
        for _ in range(400):
            time, end = rng.exponential(size=20) / -np.log(truth), rng.exponential(4.0, size=20)
            one = survival_at(np.minimum(time, end), time <= end, 1.0)
            inside += one.value != one.value or one.low <= truth <= one.high
        # Greenwood's formula alone: 0.45 at 0.97
        assert inside >= 0.92 * 400, truth


def test_survival_after_the_last_row_is_not_known():
    one = survival_at(np.ones(20), np.zeros(20, bool), 5.0)
    assert np.isnan([one.value, one.low, one.high]).all()
    one = survival_at(np.ones(20), np.zeros(20, bool), 1.0)
    assert (one.value, one.high) == (1.0, 1.0)
    assert one.low == pytest.approx(0.839, abs=1e-3)
    one = survival_at(np.ones(20), np.ones(20, bool), 5.0)
    assert one.value == 0.0
    assert 0.1 < one.high < 0.2


def test_times_keep_the_digits_of_their_range():
    held = HeldTimes(2000.0 + np.arange(5) / 10, np.ones(5, bool), *[np.zeros(5)] * 3)
    assert held.middle == 2000.2
    assert HeldTimes(np.array([1.0, 1234.5, 5000.0]), np.ones(3, bool), *[np.zeros(3)] * 3).middle == 1234


def test_a_row_is_in_one_fold(fitted):
    model, X, y = fitted
    part = HeldTimes.of(model, X[70:], y[70:], y[:70])
    with pytest.raises(ValueError, match="several folds"):
        HeldTimes.joined([part, part], [np.arange(50), np.arange(50)], y[70:])


def test_two_risks_are_compared_by_the_difference_of_their_concordances(rng):
    """Of pairs counted one by one; the other way round it is the other sign."""
    n = 40
    time, event = np.round(rng.exponential(size=n), 1) + 0.1, rng.uniform(size=n) < 0.7
    first, second = -time + rng.normal(size=n), rng.normal(size=n).round(1)
    strata = np.arange(n) % 3

    def counted(risk, same):
        # one who is censored at the time of an event outlives it
        later = (time[:, None] < time) | ((time[:, None] == time) & ~np.asarray(event, dtype=bool))
        pairs = [(i, j) for i in range(n) for j in range(n) if event[i] and later[i, j] and same(i, j)]
        right = [1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0 for i, j in pairs]
        return sum(right) / len(pairs)

    found = compare_risks(time, event, first, second)
    wanted = counted(first, lambda i, j: True) - counted(second, lambda i, j: True)
    assert found.difference == pytest.approx(wanted, rel=1e-9)
    within = compare_risks(time, event, first, second, strata)

    def same(i, j):
        return strata[i] == strata[j]

    assert within.difference == pytest.approx(counted(first, same) - counted(second, same), rel=1e-9)
    back = compare_risks(time, event, second, first, strata)
    np.testing.assert_allclose(
        [back.difference, back.low, back.high, back.p_value],
        [-within.difference, -within.high, -within.low, within.p_value],
        rtol=1e-7,
    )
    # a row alone in its group is a row; rows that come in pairs are half as many
    alone = compare_risks(time, event, first, second, groups=rng.permutation(n))
    np.testing.assert_allclose([alone.low, alone.high], [found.low, found.high], rtol=1e-9)
    twice = [np.repeat(own, 2) for own in (time, event, first, second)]
    paired = compare_risks(*twice, groups=np.repeat(np.arange(n), 2))
    np.testing.assert_allclose([paired.difference, paired.n], [found.difference, 2 * n], rtol=1e-9)
    free = compare_risks(*twice)
    assert free.high - free.low < 0.8 * (paired.high - paired.low)
    none = compare_risks(time, event, first, first)
    assert (none.difference, none.low, none.high, none.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_defaults_are_those_that_are_documented():
    public = [getattr(kw.inspection, name) for name in kw.inspection.__all__]
    own = [f for f in public if f.__module__.rpartition(".")[2] in ("held_times",) and inspect.isfunction(f)]
    assert own
    assert not wrong_defaults(own)
