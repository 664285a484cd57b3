"""Intervals, sets and probabilities from rows that folds had left out: by hand, and how often they hold.

Modules: `fitting/out_of_fold`.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict, cross_validate

import kernelweave as kw
from kernelweave.fitting import out_of_fold
from kernelweave.fitting.model import Model
from kernelweave.fitting.out_of_fold import OutOfFold, best_slope, fewest, log_shares
from kernelweave.inspection.held import predicted_columns
from kernelweave_app.runs.predictions import predictions

CV = KFold(4, shuffle=True, random_state=0)


def numbers(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=n)


def linear(**options):
    return kw.MKLRegressorCV(kw.banks.linear_features(3), alphas=[0.5], cv=CV, **options)


# ---- intervals ------------------------------------------------------------------------------------


def test_intervals_are_quantiles_of_errors_by_other_folds():
    X, y = numbers(60)
    model = linear().fit(X, y)
    guess = cross_val_predict(kw.MKLRegressor(kw.banks.linear_features(3), alpha=0.5), X, y, cv=CV)
    errors = np.sort(np.abs(y - guess))
    new = numbers(5, seed=1)[0]
    for coverage in (0.5, 0.8, 0.9, 0.95):
        half = errors[int(np.ceil(61 * coverage)) - 1]
        expected = model.predict(new)[:, None] + [[-half, half]]
        np.testing.assert_allclose(model.predict_interval(new, coverage), expected, rtol=1e-3)


def test_values_are_those_of_exact_fits_on_the_other_folds(rng):
    """To the tolerance of the learner, with weights of rows; rows outside of all folds have none."""
    X, y = numbers(40)
    weight, learner = rng.uniform(0.2, 3.0, 40), kw.learners.RLS2(alpha=0.3, tol=1e-12)
    bank = [kw.kernels.Linear(), kw.kernels.RBF(gamma=0.5)]
    model = kw.MKLRegressor(bank, learner, normalize="center").fit(X, y, sample_weight=weight)
    folds = [(train, test[1:]) for train, test in CV.split(X)]
    found = out_of_fold.decided(model.model_.task, learner, 0.3, folds)
    for train, test in folds:
        own = kw.MKLRegressor(bank, learner, normalize="center").fit(
            X[train], y[train], sample_weight=weight[train]
        )
        np.testing.assert_allclose(found[test, 0], own.predict(X[test]), rtol=1e-8, atol=1e-8)
    left = np.setdiff1d(np.arange(40), np.concatenate([test for _, test in folds]))
    assert np.isnan(found[left]).all()
    assert len(left) == 4


def test_of_several_targets_each_has_its_own():
    X, y = numbers(60)
    model = linear().fit(X, np.column_stack([y, 10 * y + 3]))
    found = model.predict_interval(X[:4])
    assert found.shape == (4, 2, 2)
    widths = np.ptp(found, axis=2)
    np.testing.assert_allclose(widths[:, 1], 10 * widths[:, 0], rtol=1e-6)


@pytest.mark.full
def test_they_hold_as_often_as_they_say():
    """Mean coverage of 400 new rows over 40 samples of 60 rows; measured 0.519, 0.812, 0.911, 0.955."""
    coverages = (0.5, 0.8, 0.9, 0.95)
    held = {coverage: [] for coverage in coverages}
    for seed in range(40):
        X, y = numbers(60, seed)
        new, truth = numbers(400, 1000 + seed)
        model = linear().fit(X, y)
        for coverage in coverages:
            low, high = model.predict_interval(new, coverage).T
            held[coverage].append(np.mean((low <= truth) & (truth <= high)))
    for coverage, found in held.items():
        # standard errors of the means are 0.005 to 0.013
        assert -0.02 <= np.mean(found) - coverage <= 0.05


def test_too_few_rows_are_refused_and_weights_count_like_repetitions():
    X, y = numbers(12)
    model = linear().fit(X, y)
    assert model.predict_interval(X, 0.9).shape == (12, 2)
    with pytest.raises(kw.InputError, match=r"coverage=0\.95 need at least 19 training rows, got 12"):
        model.predict_interval(X, 0.95)
    with pytest.raises(kw.InputError, match="`coverage` must be"):
        model.predict_interval(X, 1.0)
    counts = np.array([1, 3, 2, 4] * 10)
    errors = np.random.default_rng(0).normal(size=(40, 1))
    row = np.repeat(np.arange(40), counts)
    once = OutOfFold(np.zeros((40, 1)), errors, counts.astype(float))
    each = OutOfFold(np.zeros((100, 1)), errors[row], np.ones(100))
    for coverage in (0.5, 0.8, 0.9):
        np.testing.assert_array_equal(once.half_widths(coverage), each.half_widths(coverage))


def test_files_and_fits_without_a_choice(tmp_path, monkeypatch):
    X, y = numbers(60)
    fits = []
    monkeypatch.setattr(out_of_fold, "decided", lambda *a, own=out_of_fold.decided: fits.append(a) or own(*a))
    fixed = kw.MKLRegressor(kw.banks.linear_features(3), alpha=0.5).fit(X, y)
    assert not fits
    found = fixed.predict_interval(X)
    assert fixed.predict_interval(X).tolist() == found.tolist()
    assert len(fits) == 1
    model = linear().fit(X, y)
    for rows in (None, True):
        again = kw.load(kw.save(model, tmp_path / "m.skops", training_rows=rows))
        np.testing.assert_allclose(again.predict_interval(X), model.predict_interval(X), rtol=1e-12)
    lean = kw.load(kw.save(model, tmp_path / "m.skops")).model_
    # neither the targets nor the order of the rows
    assert not np.isin(np.round(y, 9), np.round(lean.held.truth, 9)).any()
    # values that were computed once are kept
    again = kw.load(kw.save(fixed, tmp_path / "m.skops"))
    np.testing.assert_allclose(again.predict_interval(X), found, rtol=1e-12)
    never = kw.MKLRegressor(kw.banks.linear_features(3), alpha=0.5).fit(X, y)
    with pytest.raises(kw.InputError, match="needs the training rows"):
        kw.load(kw.save(never, tmp_path / "m.skops")).predict_interval(X)
    assert len(fits) == 1
    fixed = kw.MKLClassifier(kw.banks.linear_features(3), alpha=0.5).fit(X, y > 0)
    found = fixed.predict_set(X)
    again = kw.load(kw.save(fixed, tmp_path / "m.skops"))
    np.testing.assert_array_equal(again.predict_set(X), found)
    np.testing.assert_allclose(again.predict_proba(X), fixed.predict_proba(X), rtol=1e-12)


def test_nine_rows_have_intervals_of_90_percent_in_tables():
    """A quotient of 9.000000000000002 is not more than 9."""
    X, y = numbers(9)
    model = linear().fit(X, y)
    table = predictions(model, pd.DataFrame(X[:4]))
    assert fewest(0.9) == 9
    np.testing.assert_allclose(table[["low", "high"]], model.predict_interval(X[:4], 0.9), rtol=1e-12)
    assert "low" not in predictions(linear().fit(X[:8], y[:8]), pd.DataFrame(X[:4]))
    with pytest.raises(kw.InputError, match=r"`coverage` must be a number > 0 and < 1, got 2\.0"):
        predictions(model, pd.DataFrame(X[:4]), coverage=2.0)


def test_intervals_in_tables_take_no_second_prediction(monkeypatch):
    X, y = numbers(60)
    model = linear().fit(X, y)
    asked = []
    monkeypatch.setattr(Model, "decision", lambda *a, own=Model.decision: asked.append(a) or own(*a))
    found = predicted_columns(model, X, coverage=0.8)
    assert len(asked) == 1
    np.testing.assert_allclose(
        np.column_stack([found["low"], found["high"]]), model.predict_interval(X, 0.8), rtol=1e-12
    )
    targets = linear().fit(X, np.column_stack([y, 10 * y]))
    found = predicted_columns(targets, X, coverage=0.8)
    np.testing.assert_allclose(found["high output 1"], targets.predict_interval(X, 0.8)[:, 1, 1], rtol=1e-12)


def test_a_new_observation_varies_more_than_the_function():
    X, y = numbers(60)
    model = kw.MKLRegressor(kw.banks.linear_features(3), alpha=0.5).fit(X, y)
    _, function = model.predict(X, return_std=True)
    _, observation = model.predict(X, return_std=True, kind="observation")
    np.testing.assert_allclose(observation**2, function**2 + model.noise_variance_, rtol=1e-12)


# ---- probabilities and sets -----------------------------------------------------------------------


def classes(n, seed, weights=(0.6, 0.3, 0.1)):
    X, y = make_classification(
        2 * n,
        6,
        n_informative=4,
        n_classes=len(weights),
        weights=list(weights),
        flip_y=0.1,
        random_state=seed,
    )
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.parametrize("kinds", [2, 3])
def test_the_slope_has_the_smallest_log_loss(kinds):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, kinds, 200)
    f = rng.normal(size=(200, kinds)) + 1.5 * np.eye(kinds)[codes]
    f = f[:, 1:] - f[:, :1] if kinds == 2 else f
    weights = rng.uniform(0.5, 1.5, 200)

    def loss(slope):
        both = np.column_stack([np.zeros(200), f]) if kinds == 2 else f
        p, total = softmax(slope * both, axis=1), weights.sum()
        target = (np.eye(kinds)[codes] * total + 1 / kinds) / (total + 1)
        return -np.sum(weights[:, None] * target * np.log(p))

    # it has three digits
    best = minimize_scalar(loss, bounds=(0, 20), method="bounded", options={"xatol": 1e-10}).x
    assert best_slope(f, codes, weights) == pytest.approx(best, rel=6e-3)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.9, 0.1), (0.6, 0.3, 0.1)])
def test_the_most_probable_class_is_the_predicted_one(weights, class_weight):
    X, y, new, truth = classes(150, 3, weights)
    model = kw.MKLClassifier(class_weight=class_weight).fit(X, y)
    found = model.predict_proba(new)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(new))
    np.testing.assert_allclose(np.log(found), model.predict_log_proba(new), rtol=1e-10)
    shares = np.tile((y[:, None] == model.classes_).mean(axis=0), (len(new), 1))
    if class_weight is None:
        # measured: at most 0.80
        assert log_loss(truth, found) < 0.9 * log_loss(truth, shares)


def test_values_that_separate_the_classes_or_say_nothing():
    codes = np.array([0, 1] * 20)
    apart = best_slope(np.where(codes, 2.0, -2.0)[:, None], codes, np.ones(40))
    p = np.exp(log_shares(np.array([[2.0]]), apart))[0, 1]
    # 40 rows, and one of both classes in equal parts
    assert p == pytest.approx(40.5 / 41, rel=1e-3)
    against = best_slope(np.where(codes, -2.0, 2.0)[:, None], codes, np.ones(40))
    assert 0 < against < 1e-5
    assert best_slope(np.zeros((40, 1)), codes, np.ones(40)) == 1.0


def test_labels_have_slopes_of_their_own():
    X, y, new, _ = classes(120, 1, (0.5, 0.5))
    Y = np.column_stack([y, X[:, 0] > 0])
    model = kw.MKLClassifier(C="auto").fit(X, Y)
    found = model.predict_proba(new)
    np.testing.assert_array_equal(found > 0.5, model.predict(new) == 1)
    slopes = np.concatenate(model.model_.calibration.curves)
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-slopes * model.decision_function(new))), rtol=1e-10)
    with pytest.raises(kw.InputError, match="several labels"):
        model.predict_set(new)


@pytest.mark.full
def test_sets_hold_every_class_as_often_as_they_say():
    """By class over 30 samples of 100 rows, three classes; measured 0.90, 0.92, 0.93 (15 rows of the rare class)."""
    held = []
    for seed in range(30):
        X, y, new, truth = classes(100, seed, (0.5, 0.35, 0.15))
        found = kw.MKLClassifier().fit(X, y).predict_set(new)
        held.append([found[truth == k, k].mean() for k in range(3)])
    # standard errors are at most 0.02
    assert (np.abs(np.mean(held, axis=0) - 0.9) < 0.05).all()


def test_sets_by_hand():
    values = np.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 4.0], [0.0, 1.0]])
    held = OutOfFold(values, np.array([0, 0, 0, 1, 1]), np.ones(5))
    own = log_shares(values, 1.0)[np.arange(5), held.truth]
    # of three rows a class is left out below the lowest: 3 / 4 of new ones are above it
    np.testing.assert_allclose(held.lowest_shares(0.75, 1.0), [own[2], -np.inf])
    np.testing.assert_allclose(held.lowest_shares(0.5, 1.0), [own[1], own[4]])


def test_the_factor_of_a_class_is_no_repetition_of_its_rows():
    """Three rows of a class do not carry sets of nine in ten, however much they weigh."""
    X, y, new, _ = classes(100, 2, (0.5, 0.5))
    y = np.arange(100) < 3
    for weights in ({True: 50.0}, "balanced"):
        model = kw.MKLClassifier(class_weight=weights).fit(X, y)
        assert model.predict_set(new)[:, 1].all()
        # probabilities are those of weighted rows
        held = model.model_.out_of_fold
        expected = best_slope(held.values, held.truth, model.model_.task.sample_weight)
        assert model.model_.calibration.curves[0][0] == expected


def test_a_class_of_two_rows():
    X, y, new, _ = classes(60, 2, (0.5, 0.5))
    y = y.astype(object)
    y[:2] = "rare"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kw.MKLClassifier(kw.banks.linear_features(6), "simple").fit(X, y.astype(str))
        assert model.calibrate().predict_proba(new).shape == (60, 3)
        sets = model.predict_set(new)
    assert sets[:, list(model.classes_).index("rare")].all()
    assert not sets.all()


# ---- groups ---------------------------------------------------------------------------------------


def patients(seed=0, n_patients=30, each=8):
    """Rows of a patient are copies up to 0.01, with an effect of the patient that columns do not tell."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_patients), each)
    X = rng.normal(size=(n_patients, 3))[group] + 0.01 * rng.normal(size=(len(group), 3))
    y = X[:, 0] + rng.normal(size=n_patients)[group] + 0.05 * rng.normal(size=len(group))
    new = rng.normal(size=(400, 3))
    return X, y, group, new, new[:, 0] + rng.normal(size=400)


@pytest.mark.full
def test_numbers_of_new_patients_need_folds_of_patients():
    """Measured: alpha 11, 5, 9 and 24, 13, 56; 90 % intervals cover 7, 7, 5 and 83, 90, 95 % of new patients."""
    covered = []
    for seed in (1, 2, 3):
        X, y, group, new, truth = patients(seed)
        model = kw.MKLRegressor(learner=kw.learners.RLS2(alpha="auto", relax="auto"))
        by_rows, by_patients = clone(model).fit(X, y), clone(model).fit(X, y, groups=group)
        assert by_patients.alpha_ > 2 * by_rows.alpha_
        for model in (by_rows, by_patients):
            low, high = model.predict_interval(new).T
            covered.append(np.mean((low <= truth) & (truth <= high)))
    assert max(covered[::2]) < 0.15
    assert min(covered[1::2]) > 0.75
    assert "groups kept together" in kw.MKLRegressor().fit(X, y, groups=group).explain_defaults()


def test_probabilities_of_new_patients_need_folds_of_patients():
    """Measured log loss 0.94, 1.05 and 0.62, 0.68; sets of 90 % cover 10, 5 and 85, 81 %."""
    for seed in (2, 3):
        X, y, group, new, truth = patients(seed)
        right = (np.arange(len(truth)), (truth > 0).astype(int))
        by_rows, by_patients = (kw.MKLClassifier().fit(X, y > 0, groups=own) for own in (None, group))
        losses = [log_loss(truth > 0, model.predict_proba(new)) for model in (by_rows, by_patients)]
        assert losses[1] < losses[0] - 0.2
        covered = [model.predict_set(new)[right].mean() for model in (by_rows, by_patients)]
        assert covered[0] < 0.2 < 0.7 < covered[1]


def test_curves_and_fits_without_a_choice_keep_groups_together(tmp_path):
    X, y, group, new, _ = patients()
    fixed = kw.MKLClassifier([kw.kernels.RBF(gamma=1.0)], C=1.0, learner="lp")
    told, alone = fixed.fit(X, y > 0, groups=group), kw.MKLClassifier(**fixed.get_params(deep=False))
    alone.fit(X, y > 0)
    # nothing was chosen: only what is computed from further fits differs
    np.testing.assert_array_equal(told.decision_function(new), alone.decision_function(new))
    path = tmp_path / "model.kwmodel"
    kw.save(told, path)
    again = kw.load(path)
    np.testing.assert_array_equal(again.predict_proba(new), told.predict_proba(new))
    assert np.abs(told.predict_proba(new) - alone.predict_proba(new)).max() > 0.1
    curves = [
        model.calibrate("platt", **options).calibration_.curves[0]
        for model, options in ((again, {}), (alone, {"groups": group}), (alone, {}))
    ]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-9)
    assert abs(curves[2][0]) > 2 * abs(curves[0][0])


def test_learners_that_validate_in_a_fit_keep_groups_together():
    """Rows of a patient find each other by a narrow kernel, which says nothing about new patients."""
    X, y, group, *_ = patients()
    best = kw.MKLClassifier([kw.kernels.RBF(gamma=30.0), kw.kernels.Linear()], "best", C=1.0)
    assert best.fit(X, y > 0).weights_.tolist() == [1.0, 0.0]
    assert best.fit(X, y > 0, groups=group).weights_.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("kind", [kw.MKLRegressor, kw.MKLClassifier])
def test_names_of_groups_do_not_matter(kind):
    X, y, group, new, _ = patients(n_patients=12, each=4)
    y = y if kind is kw.MKLRegressor else y > 0
    texts = np.array([f"patient {k}" for k in np.random.default_rng(1).permutation(12)], dtype=object)[group]
    series = pd.Series(texts, index=np.arange(len(group))[::-1])
    kinds = (group, series, [("a", int(k)) for k in group], group * 0.5)
    models = [kind().fit(X, y, groups=groups) for groups in kinds[:2] + kinds[3:]]
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict(new), models[0].predict(new))
    # a group for each row is none, and a row of weight 2 is two rows
    own, none = kind().fit(X, y, groups=np.arange(len(y))), kind().fit(X, y)
    np.testing.assert_array_equal(own.predict(new), none.predict(new))
    np.testing.assert_array_equal(own.model_.held.values, none.model_.held.values)


def test_few_groups_have_fewer_folds():
    X, y, group, *_ = patients(n_patients=3)
    model = kw.MKLRegressor().fit(X, y, groups=group)
    assert [name for name in model.cv_results_ if name.startswith("split")] == [
        f"split{k}_test_score" for k in range(3)
    ]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.arange(5), "`groups` must hold the group of each of the 24 rows, got 5 labels"),
        ("clinic", "each of the 24 rows, got 'clinic'"),
        (np.zeros((24, 2)), "each of the 24 rows, got array"),
        ([None, *range(23)], "1 missing, the first in row 0. Drop these rows first"),
        (np.r_[np.arange(22.0), np.nan, np.nan], "2 missing, the first in row 22"),
        (pd.Series([1] * 23 + [None], dtype="Int64"), "1 missing, the first in row 23"),
        (np.zeros(24), "at least two groups, got one"),
        ([[1]] * 24, "`groups` must hold"),
    ],
)
@pytest.mark.parametrize("kind", [kw.MKLRegressor, kw.MKLRegressorCV])
def test_wrong_groups_are_refused(groups, message, kind):
    X, y, *_ = patients(n_patients=3)
    if kind is kw.MKLRegressorCV and "two groups" in message:
        message = "number of folds|n_splits|number of groups"
    with pytest.raises(kw.InputError, match=message):
        kind().fit(X, y, groups=groups)


def test_a_cross_validation_passes_groups_on():
    X, y, group, *_ = patients(n_patients=10, each=4)
    cv = GroupKFold(2)
    by_hand = [
        kw.MKLRegressor().fit(X[train], y[train], groups=group[train]).score(X[test], y[test])
        for train, test in cv.split(X, y, group)
    ]
    with config_context(enable_metadata_routing=True):
        routed = cross_validate(kw.MKLRegressor(), X, y, cv=cv, params={"groups": group})["test_score"]
    np.testing.assert_array_equal(routed, by_hand)
    by_name = kw.inspection.out_of_fold_scores(kw.MKLRegressor(), X, y, cv=cv, groups=group)["R^2"].value
    guess = np.empty(len(y))
    for train, test in cv.split(X, y, group):
        guess[test] = kw.MKLRegressor().fit(X[train], y[train], groups=group[train]).predict(X[test])
    assert by_name == pytest.approx(r2_score(y, guess), rel=1e-9)


def test_a_number_of_folds_keeps_groups_together_in_inspection():
    """Copies of the rows of a patient are known to fits on rows of others only."""
    X, y, group, *_ = patients()
    model = kw.MKLRegressor(kernels=[kw.kernels.RBF(1.0)], alpha=0.1)
    found = kw.inspection.out_of_fold_scores(model, X, y, groups=group, cv=5)
    wanted = kw.inspection.out_of_fold_scores(model, X, y, groups=group, cv=GroupKFold(5))
    assert found["R^2"] == wanted["R^2"]
    assert kw.inspection.out_of_fold_scores(model, X, y, cv=5)["R^2"].value > found["R^2"].value + 0.05


def test_a_few_rows_of_one_group_do_not_choose(monkeypatch):
    """Where C is chosen on some of the rows, and these are of one group, all take part."""
    monkeypatch.setattr("kernelweave.recipe.COST_ROWS", 30)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    for odd in range(4):
        group = np.zeros(60, dtype=int)
        group[odd] = 1
        model = kw.MKLClassifier().fit(X, X[:, 0] > 0, groups=group)
        assert len(model.cv_results_["test_score"]) > 1
    with pytest.raises(kw.InputError, match="at least two groups, got one"):
        kw.MKLClassifier(learner="best").fit(X, X[:, 0] > 0, groups=np.zeros(60))


def of_two_quantiles(seed):
    """A lower and an upper quantile of targets whose noise depends on a column, and rows for a test."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(160, 2))
    y = X[:, 0] + np.exp(1.2 * X[:, 1]) * rng.normal(size=160)
    models = [
        kw.MKLRegressor([kw.kernels.RBF(1.0)], kw.learners.Uniform(loss=kw.losses.Quantile(q), C=1.0)).fit(
            X[:80], y[:80]
        )
        for q in (0.1, 0.9)
    ]
    return models, X, y


def test_intervals_between_two_quantiles_hold_as_often_as_stated():
    """By their formula from values out of fold; in mean over seeds 0.80, and 0.71 between the quantiles alone."""
    inside, alone = [], []
    for seed in range(6):
        (low, high), X, y = of_two_quantiles(seed)
        ends = low.predict_interval(X[80:], 0.8, upper=high)
        held = [model.model_.out_of_fold for model in (low, high)]
        away = np.maximum(held[0].values - held[0].truth, held[1].truth - held[1].values)[:, 0]
        # 65 of 80 rows and one more are at least a share of 0.8
        added = np.sort(away)[64]
        plain = np.column_stack([low.predict(X[80:]), high.predict(X[80:])])
        np.testing.assert_allclose(ends, plain + added * np.array([-1.0, 1.0]), atol=1e-9)
        inside.append(np.mean((ends[:, 0] <= y[80:]) & (y[80:] <= ends[:, 1])))
        alone.append(np.mean((plain[:, 0] <= y[80:]) & (y[80:] <= plain[:, 1])))
    assert abs(np.mean(inside) - 0.8) < 0.06
    assert np.mean(alone) < np.mean(inside)


def test_an_upper_model_of_other_rows_is_refused(tmp_path):
    (low, high), X, y = of_two_quantiles(0)
    other = clone(high).fit(X[1:81], y[1:81])
    with pytest.raises(kw.InputError, match="same rows and targets"):
        low.predict_interval(X, upper=other)
    with pytest.raises(kw.InputError, match="upper"):
        low.predict_interval(X, upper=0.9)
    # more than all of the intervals is taken away: they are points, and not reversed
    ends = high.predict_interval(X, 0.01, upper=low)
    assert (ends[:, 0] <= ends[:, 1] + 1e-12).all()
