"""Rows with censored times that were not fitted: their scores, intervals, groups and calibration.

Modules: `inspection/held_times`.
"""

import inspect
from dataclasses import replace

import numpy as np
import pytest

import kernelweave as kw
from kernelweave.fitting.survival import harrell, kaplan_meier, value_at
from kernelweave.inspection import registry
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
from recording import brief


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


def censored(n=90, **more):
    """Rows with ties, events and survival of a rough model, at eight times."""
    rng = np.random.default_rng(0)
    risk = rng.normal(size=n)
    death, end = rng.exponential(20.0 * np.exp(-risk)), rng.uniform(5.0, 60.0, n)
    time, event = np.ceil(np.minimum(death, end)), death <= end
    times = np.quantile(time[event], np.linspace(0.05, 0.95, 8))
    survival = np.exp(-0.04 * times * np.exp(0.8 * risk + 0.3 * rng.normal(size=n))[:, None])
    alone = np.tile(np.exp(-0.05 * times), (n, 1))
    given = {
        "alone": alone,
        "training": (time[: n - 20], event[: n - 20]),
        "equal": risk + rng.normal(size=n),
    }
    return HeldTimes(time, event, risk.round(1), times, survival, **(given | more))


PARTS = {
    "rows": {},
    "folds": {"folds": np.arange(90) % 3},
    "strata": {"strata": np.array(["north", "south"])[np.arange(90) % 2], "folds": np.arange(90) // 30},
    "groups": {"groups": np.arange(90) // 2, "training": None},
    "alone": {"alone": None, "equal": None},
}


@pytest.mark.parametrize("kind", PARTS)
def test_what_is_known_of_censored_rows(kind, recorded):
    held = censored(**PARTS[kind])
    lacking = np.arange(90) == 7
    if kind == "strata":
        held = replace(held, survival=np.where(lacking[:, None], np.nan, held.survival))
    found = {
        name: getattr(held, name) for name in ("intervals", "scores", "texts", "grid", "middle", "compared")
    }
    found |= {name: vars(one) for name, one in held.row_scores.items()}
    found["events"], found["length"] = held.n_events, len(held)
    found["groups of risk"] = [
        vars(held.risk_groups())[name] for name in ("names", "rows", "times", "survival", "errors")
    ]
    found["bands"] = [np.concatenate(ends) for ends in held.risk_groups().bands]
    found["calibration"] = held.calibration(20.0, 4)
    found["predicted"] = {
        time: held.predicted_at(time) for time in (0.1, held.times[0], held.times[3], 25.0, 1e3)
    }
    recorded("of rows", found)
    names = ("held-out times", "out-of-fold times", "risk groups", "survival calibration", "survival error")
    made = {
        name: registry.REGISTRY[name].compute(Basis(held_times=held, nested_times=held)) for name in names
    }
    if kind in ("rows", "groups"):
        recorded("sentences", {name: one and one.sentence for name, one in made.items()})
    else:
        recorded("findings", {name: one and brief(one.to_json()) for name, one in made.items()})


def test_what_is_said_of_few_events_and_of_rows_without_pairs(recorded):
    time = np.arange(1.0, 101.0)

    def told(event, n=100, risk=None, **more):
        risk = -time + 30.0 * np.cos(time) if risk is None else risk
        held = HeldTimes(
            time[:n], event[:n], risk[:n], np.array([20.0, 60.0]), np.tile([0.8, 0.3], (n, 1)), **more
        )
        names = (
            "held-out times",
            "out-of-fold times",
            "risk groups",
            "survival calibration",
            "survival error",
        )
        found = {
            name: registry.REGISTRY[name].compute(Basis(held_times=held, nested_times=held)) for name in names
        }
        return {
            name: one and [one.sentence, [vars(two) for two in one.verdicts], len(one.values), one.n]
            for name, one in found.items()
        }

    recorded("no event", told(time < 0))
    recorded("one event", told(time == 40))
    recorded("nine", told(time % 10 == 5, 90))
    recorded("ten", told(time % 10 == 5))
    recorded("the wrong order", told(time % 2 == 0, risk=time))
    recorded("chance", told(time % 4 == 0, risk=np.cos(7 * time)))
    recorded("few rows", told(time % 2 == 0, 29))
    recorded("thirty rows", told(time % 2 == 0, 30))
    recorded("forty rows", told(time % 2 == 0, 40))
    equal = np.cos(5 * time)
    recorded("gain", told(time % 2 == 0, equal=equal, folds=np.zeros(100, int)))
    recorded("no gain", told(time % 2 == 0, equal=-time + 30.0 * np.cos(time) + 0.5 * np.cos(9 * time)))
    recorded("loss", told(time % 2 == 0, risk=equal, equal=-time))
    recorded("no comparison", told(time % 2 == 0, equal=None))


def test_points_of_survival_are_those_of_wilson_and_greenwood():
    """By hand: four rows at risk at the event of the second, one censored before."""
    time, event = np.array([1.0, 2.0, 3.0, 5.0, 5.0]), np.array([0, 1, 1, 0, 1], bool)
    share = 3 / 4 * 2 / 3
    for when in (3.0, 4.9):
        one = survival_at(time, event, when)
        assert one.value == pytest.approx(share)
        n = share * (1 - share) / (share**2 * (1 / (4 * 3) + 1 / (3 * 2)))
        for end in (one.low, one.high):
            assert (share - end) ** 2 == pytest.approx(1.959964**2 * end * (1 - end) / n, rel=1e-5)
        assert (one.n, one.method) == (round(n), "Wilson")
    assert np.isnan(survival_at(time, event, 5.1).value)
    assert survival_at(time, event, 5.0).value == pytest.approx(share / 2)
    # all rows followed to the time, none with an event
    first = survival_at(time, event, 1.0)
    assert (first.value, first.n) == (1.0, 5)
    assert survival_at(time, event, 1.5).n == 4
    gone = survival_at(np.array([1.0, 2.0, 3.0]), np.array([0, 1, 1], bool), 9.0)
    assert (gone.value, gone.n) == (0.0, 2)


def test_risk_groups_and_calibration_of_a_model(fitted, recorded):
    model, X, y = fitted
    found = kw.inspection.risk_groups(model, X[70:], y[70:], n_groups=4)
    risk = model.predict(X[70:])
    assert found.names == ["low risk", "risk 2 of 4", "risk 3 of 4", "high risk"]
    assert [len(rows) for rows in found.rows] == [12, 13, 12, 13]
    assert all(risk[a].max() < risk[b].min() for a, b in zip(found.rows, found.rows[1:], strict=False))
    for k, rows in enumerate(found.rows):
        for one, other in zip(
            (found.times, found.survival, found.errors),
            kaplan_meier(y[70:, 1][rows], y[70:, 0][rows] > 0),
            strict=True,
        ):
            np.testing.assert_allclose(one[k], other)
    assert [len(rows) for rows in kw.inspection.risk_groups(model, X[70:], y[70:]).rows] == [17, 16, 17]
    one = kw.inspection.survival_calibration(model, X[70:], y[70:], time=15.0)
    assert (one.time, one.n_rows.tolist()) == (15.0, [10] * 5)
    survival = model.predict_survival_function(X[70:], [15.0])[:, 0]
    assert one.predicted == pytest.approx(np.sort(survival).reshape(5, 10).mean(axis=1))
    order = np.argsort(survival).reshape(5, 10)
    assert one.observed == pytest.approx(
        [survival_at(y[70:, 1][own], y[70:, 0][own] > 0, 15.0).value for own in order]
    )
    with pytest.raises(
        kw.InputError,
        match=r"50 rows with 50 different predictions cannot be divided into 51 groups\. Take fewer",
    ):
        kw.inspection.risk_groups(model, X[70:], y[70:], n_groups=51)
    with pytest.raises(
        kw.InputError, match=r"`y` must have an event and a time for each of the 49 rows, got 50"
    ):
        kw.inspection.risk_groups(model, X[71:], y[70:])


def test_errors_and_concordance_take_censoring_from_the_training_rows(rng):
    from kernelweave.fitting.survival import brier, uno

    time, event, risk = drawn(rng, 40)
    others = drawn(rng, 60)[:2]
    y, training = np.c_[event, time], np.c_[others[1], others[0]]
    same = (time, event)
    assert kw.inspection.concordance(y, risk) == harrell(time, event, risk)
    assert kw.inspection.concordance(y, risk, kind="uno") == uno(time, event, risk, same)
    assert kw.inspection.concordance(y, risk, kind="uno", training=training, tau=20.0) == uno(
        time, event, risk, others, 20.0
    )
    grid = np.array([4.0, 9.0, 11.0])
    survival = rng.uniform(size=(40, 3))
    one, two = brier(time, event, survival, grid, same), brier(time, event, survival, grid, others)
    assert np.abs(one - two).max() > 1e-3
    np.testing.assert_array_equal(kw.inspection.brier_scores(y, survival, grid), one)
    np.testing.assert_array_equal(kw.inspection.brier_scores(y, survival, grid, training=training), two)
    area = (5 * (two[0] + two[1]) / 2 + 2 * (two[1] + two[2]) / 2) / 7
    assert kw.inspection.integrated_brier_score(y, survival, grid, training=training) == pytest.approx(area)
    for wrong in ([4.0], [4.0, 4.0, 9.0], [9.0, 4.0, 11.0]):
        with pytest.raises(kw.InputError, match="at least two ascending numbers"):
            kw.inspection.integrated_brier_score(y, survival, wrong)
    with pytest.raises(kw.InputError, match=r"shape \(n_rows, 2\), got \(40, 3\)"):
        kw.inspection.brier_scores(y, survival, grid[:2])
    with pytest.raises(kw.InputError, match="each of the 39 rows, got 40"):
        kw.inspection.brier_scores(y, survival[1:], grid)
    with pytest.raises(kw.InputError, match="events and times of rows"):
        kw.inspection.concordance(None, risk)


def test_strata_without_training_rows_have_a_risk_and_no_survival():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    time, event, strata = 0.5 + rng.exponential(np.exp(-X[:, 0])), rng.random(60) < 0.8, np.arange(60) % 2
    y = np.c_[event, time, strata].astype(float)
    model = kw.MKLSurvival([kw.kernels.Linear()], "simple", C=1.0).fit(X[:40], y[:40])
    new = y[40:].copy()
    new[3:5, 2] = 7.0
    held = HeldTimes.of(model, X[40:], new, y[:40], times=[1.0, 2.0])
    survival = model.predict_survival_function(X[40:], [1.0, 2.0], strata=y[40:, 2])
    survival[3:5] = np.nan
    np.testing.assert_allclose(held.survival, survival)
    assert np.isnan(held.alone[3:5]).all()
    assert np.isfinite(np.delete(held.alone, [3, 4], axis=0)).all()
    np.testing.assert_array_equal(held.strata, new[:, 2])
    columns = survival_columns(model, X[40:], 2.0, strata=new[:, 2])
    assert list(columns) == ["risk", "survival at 2"]
    np.testing.assert_allclose(columns["survival at 2"], survival[:, 1])
    said = registry.REGISTRY["held-out times"].compute(Basis(held_times=held)).tables[0].note
    assert (
        " Pairs of rows are those of the same stratum. 2 rows of strata without training rows have a risk and no "
        "survival." in said
    )
    found = kw.inspection.survival_calibration(model, X[40:], y[40:], time=1.0, n_groups=2, strata=y[40:, 2])
    assert found.predicted.mean() == pytest.approx(
        model.predict_survival_function(X[40:], [1.0], strata=y[40:, 2]).mean()
    )
    # a model without strata does not read them
    plain = kw.MKLSurvival([kw.kernels.Linear()], "simple", C=1.0).fit(X[:40], y[:40, :2])
    one = HeldTimes.of(plain, X[40:], new)
    assert one.strata is None
    assert one.alone is None
    assert one.training is None
    np.testing.assert_array_equal(one.times, plain.event_times_)
    np.testing.assert_allclose(one.risk, plain.predict(X[40:]))


@pytest.mark.parametrize("shift", [-0.4, 0.25])
def test_the_largest_difference_of_survival_has_no_sign(shift):
    """Predictions that are too low, or too high, in all groups, by twice as much in the last group as in the first."""
    time = np.tile(np.arange(1.0, 41.0), 3)
    wanted = 0.5 + shift * np.repeat([0.5, 0.75, 1.0], 40)
    held = HeldTimes(time, np.ones(120, bool), -wanted, np.array([0.5]), wanted[:, None])
    found = registry.REGISTRY["survival calibration"].compute(Basis(nested_times=held))
    assert found.details["time"] == 20.5
    apart = np.array(found.details["predicted"]) - found.details["observed"]
    assert (np.sign(apart) == np.sign(shift)).all()
    assert found.details["largest"] == pytest.approx(abs(shift), rel=1e-9)


def test_groups_that_were_not_followed_so_far_say_nothing():
    """Of three groups of predictions the middle one is censored before the time, and has no estimate there."""
    time = np.repeat([9.0, 4.0, 9.0], 20) + np.tile(np.arange(20.0), 3) / 10
    event = np.repeat([True, False, True], 20)
    survival = np.repeat([0.2, 0.5, 0.8], 20)[:, None]
    held = HeldTimes(time, event, -survival[:, 0], np.array([1.0]), survival)
    found = held.calibration(9.95, 3)
    np.testing.assert_allclose(found.predicted, [0.2, 0.8])
    np.testing.assert_allclose(found.observed, 0.5)
    assert found.n_rows.tolist() == [20, 20]
    assert len(found.low) == len(found.high) == 2
    made = registry.REGISTRY["survival calibration"].compute(Basis(nested_times=held))
    assert (made.details["groups"], made.details["rows"]) == (2, [20, 20])
    assert made.details["largest"] == pytest.approx(0.3)


def test_defaults_are_those_that_are_documented():
    public = [getattr(kw.inspection, name) for name in kw.inspection.__all__]
    own = [f for f in public if f.__module__.rpartition(".")[2] in ("held_times",) and inspect.isfunction(f)]
    assert own
    assert not wrong_defaults(own)
