"""Learnt metrics: evidence and leave-one-out errors against their definitions, invariances, and fits in a metric.

Modules: `mkl/metric`, `kernels/steps` (Metric), `kernels/training_rows`, `learners/metric`, `estimators/estimator`,
`estimators/metric`, `inspection/weights`, `banks`, `recipe`, `views/tables`.
"""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import kernelweave as kw
from journeys import NEAR, defaults_of
from kernelweave._errors import InputError
from kernelweave.estimators import metric as trying
from kernelweave.fitting.source import TableSource
from kernelweave.inspection import Basis, column_relevance, findings, weight_stability
from kernelweave.kernels import RBF, CharNGrams, Laplacian, Linear, Metric, parse
from kernelweave.kernels.composed import steps_of
from kernelweave.kernels.training_rows import TrainingRows
from kernelweave.learners import MetricRLS2
from kernelweave.mkl import metric
from kernelweave.mkl.metric import learn_metric, left_one_out
from kernelweave.persistence.states import from_state, to_state
from kernelweave.views import Table
from kernelweave_app.reports import close, draw_pictures
from kernelweave_app.studio.results import describe_weights


@pytest.fixture
def table(rng):
    """Two of four columns matter, one of them in another unit."""
    X = rng.normal(size=(90, 4)) * [1.0, 50.0, 1.0, 1.0] + [0.0, 3.0, 0.0, 0.0]
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] / 50.0 + 0.1 * rng.normal(size=90)


# ---- on arrays ------------------------------------------------------------------------------------------


def evidence(theta, X, Y):
    """Minus the logarithm of the evidence of standardised rows, from its definition."""
    from scipy.stats import multivariate_normal

    p = X.shape[1]
    D = (X[:, None] - X[None]) ** 2 @ np.exp(theta[:p])
    K = np.exp(theta[p] - D) + (np.exp(theta[p + 1]) + metric.LEAST) * np.eye(len(X))
    return -sum(multivariate_normal(np.zeros(len(X)), K).logpdf(y) for y in Y.T)


def test_the_evidence_is_that_of_a_normal_vector_and_its_slopes_are_right(table, monkeypatch):
    X, y = table
    seen = {}

    def spy(objective, start, **options):
        seen["f"] = objective
        return original(objective, start, **options)

    original = metric.minimize
    monkeypatch.setattr(metric, "minimize", spy)
    # rows 0 to 9 twice, as a weight of 2: their targets are equal
    learn_metric(X[:30], y[:30, None], np.r_[np.full(10, 2.0), np.ones(20)])
    twice = np.r_[np.arange(10), np.arange(30)]
    A, b = X[twice], y[twice, None]
    A, b = (A - A.mean(axis=0)) / A.std(axis=0), (b - b.mean()) / b.std()
    constant = None
    for theta in (np.zeros(6), np.array([0.3, -1.0, -2.0, 0.5, 0.4, -1.5])):
        value, slopes = seen["f"](theta)
        exact = evidence(theta, A, b)
        # constants are left out: the same at both points, measured 1e-12
        constant = exact - value if constant is None else constant
        assert exact - value == pytest.approx(constant, abs=1e-9)
        step = 1e-5
        for j in range(6):
            e = step * np.eye(6)[j]
            numeric = (evidence(theta + e, A, b) - evidence(theta - e, A, b)) / (2.0 * step)
            # measured 3e-8
            assert slopes[j] == pytest.approx(numeric, abs=1e-5)


def test_leave_one_out_errors_are_those_of_fits_without_each_row(rng):
    X, Y, w = rng.normal(size=(15, 2)), rng.normal(size=(15, 2)), rng.integers(1, 4, 15).astype(float)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    errors = []
    for ridge in metric.RIDGES:
        one = []
        for i in range(15):
            rest = np.delete(np.arange(15), i)
            c = np.linalg.solve(K[np.ix_(rest, rest)] + ridge * np.diag(1.0 / w[rest]), Y[rest])
            one.append(np.mean((Y[i] - K[i, rest] @ c) ** 2))
        errors.append(w @ one / w.sum())
    found, coef = left_one_out(K, Y, w)
    best = metric.RIDGES[np.argmin(errors)]
    # measured 2e-13
    assert found == pytest.approx(min(errors), rel=1e-9)
    np.testing.assert_allclose(coef, np.linalg.solve(K + best * np.diag(1.0 / w), Y), atol=1e-8)


@pytest.mark.parametrize(("by", "form"), [("ard", "diagonal"), ("rfm", "diagonal"), ("rfm", "full")])
class TestEveryMetric:
    def test_columns_that_matter_have_the_trace(self, table, by, form):
        X, y = table
        found = learn_metric(X, y[:, None], by=by, form=form)
        assert found.relevance.sum() == pytest.approx(1.0)
        # measured 0.98 at least
        assert found.relevance[:2].sum() > 0.9
        assert (np.diff(found.history) <= 0).all()

    def test_a_weight_is_equivalent_to_repetitions_in_any_order(self, rng, table, by, form):
        X, y = table[0][:50], table[1][:50, None]
        w = rng.integers(1, 4, 50).astype(float)
        again = rng.permutation(np.repeat(np.arange(50), w.astype(int)))
        one, other = (learn_metric(*args, by=by, form=form) for args in ((X, y, w), (X[again], y[again])))
        # measured 1e-13; the full form squares its directions
        np.testing.assert_allclose(
            one.matrix.T @ one.matrix, other.matrix.T @ other.matrix, rtol=1e-6, atol=1e-8
        )
        assert one.error == pytest.approx(other.error, rel=1e-7)

    def test_units_of_columns_and_targets_change_nothing(self, table, by, form):
        X, y = table
        one = learn_metric(X[:60], y[:60, None], by=by, form=form)
        other = learn_metric(8.0 * X[:60] + 16.0, 4.0 * y[:60, None] - 2.0, by=by, form=form)
        np.testing.assert_allclose(other.relevance, one.relevance, atol=1e-6)
        np.testing.assert_allclose(
            64.0 * other.matrix.T @ other.matrix, one.matrix.T @ one.matrix, rtol=1e-5, atol=1e-7
        )

    def test_rounding_errors_of_the_table_do_not_grow_in_the_search(self, by, form):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 4))
        y = np.sin(2.0 * X[:, :1]) + X[:, 1:2] + 0.1 * rng.normal(size=(40, 1))
        one = learn_metric(X, y, by=by, form=form)
        noise = 1.0 + 1e-14 * rng.normal(size=(40, 5))
        other = learn_metric(X * noise[:, :4], y * noise[:, 4:], by=by, form=form)
        # without the rounding of what is learnt from: 5e-14 (ard), 5e-15 and 7e-16 (rfm)
        np.testing.assert_allclose(other.relevance, one.relevance, rtol=0.0, atol=5e-16)

    def test_a_constant_column_and_a_constant_target(self, table, by, form):
        X, y = table
        found = learn_metric(np.c_[X[:40], np.ones(40)], y[:40, None], by=by, form=form)
        assert found.relevance[4] == 0.0
        assert not found.matrix[:, 4].any()
        nothing = learn_metric(X[:40], np.ones((40, 1)), by=by, form=form)
        np.testing.assert_array_equal(nothing.matrix, np.eye(4))
        assert np.isfinite(learn_metric(X[:1], y[:1, None], by=by, form=form).matrix).all()


def test_a_full_metric_finds_a_direction(rng):
    X = rng.normal(size=(120, 3))
    y = np.sin(1.5 * (X[:, [0]] - X[:, [1]]))
    found = learn_metric(X, y, by="rfm", form="full")
    first = found.matrix[0] / np.linalg.norm(found.matrix[0])
    # measured 0.999
    assert abs(first @ np.array([1.0, -1.0, 0.0])) / np.sqrt(2.0) > 0.98


def test_several_outputs_share_a_metric(table):
    X, y = table
    found = learn_metric(X, np.c_[y, X[:, 3]])
    assert found.relevance[[0, 1, 3]].min() > found.relevance[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"by": "nca"}, "'ard', 'rfm'"), ({"form": "low"}, "'diagonal', 'full'"), ({"form": "full"}, "'rfm'")],
)
def test_wrong_arguments(table, options, message):
    with pytest.raises(kw.InputError, match=message):
        learn_metric(table[0], table[1][:, None], **options)


# ---- the step -------------------------------------------------------------------------------------------


def test_a_step_is_a_value_with_text_and_description():
    kernel = RBF(gamma="median").prepared("standardize", Metric(by="rfm", form="full"))
    assert parse(repr(kernel)) == kernel
    assert parse("rbf(gamma=median).prepared('metric')") == RBF(gamma="median").prepared("metric")
    known = RBF(gamma=1.0).prepared(Metric(matrix=[[2.0, 0.0]], relevance=[1.0, 0.0]))
    assert from_state(to_state(known)) == known
    np.testing.assert_allclose(known([[0.0, 5.0]], [[0.5, 7.0]]), np.exp([[-1.0]]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Metric(by="ard", form="full"), "by='rfm'"),
        (lambda: Metric(matrix=[[1.0]]), "together"),
        (lambda: Metric(matrix=[[1.0, 2.0]], relevance=[1.0]), "relevance"),
        (lambda: Metric(matrix=[[1.0]], relevance=[1.0]).apply(Table([[1.0, 2.0]])), "fitted on 1"),
        (lambda: Linear().prepared("metric")([[1.0]]), "learnt from targets"),
    ],
)
def test_steps_that_cannot_be(make, message):
    with pytest.raises(kw.InputError, match=message):
        make()


def test_rows_are_taken_by_their_cells(rng):
    X = rng.normal(size=(500, 2))
    rows = TrainingRows(Table(X)).some(200)
    assert len(rows) == 200
    order = rng.permutation(np.r_[np.arange(500), np.arange(100)])
    again = TrainingRows(Table(X[order])).some(200)
    # all copies of the same rows
    assert set(order[again]) == set(rows)
    assert len(again) == 200 + np.isin(rows, np.arange(100)).sum()


# ---- fits -----------------------------------------------------------------------------------------------


def test_a_fit_in_a_metric_is_that_on_mapped_columns(table):
    X, y = table
    model = kw.MKLRegressor(learner="metric", normalize="mean-diagonal", alpha=0.1).set_params(
        learner__relax=None
    )
    model = model.fit(X, y)
    A = (X - X.mean(axis=0)) / X.std(axis=0)
    U = A @ learn_metric(A, y[:, None]).matrix.T
    usual = [Linear(), RBF(gamma="median"), Laplacian(gamma="median")]
    learnt = [Linear(), RBF(gamma=1.0), Laplacian(gamma="median")]
    assert [one.base.kernel for one in kw.banks.metric()] == usual + learnt
    kernels = [one.on([0, 1, 2, 3]) for one in usual] + [
        one.on(list(range(4, 4 + U.shape[1]))) for one in learnt
    ]
    Z = np.c_[A, U]
    other = kw.MKLRegressor(kernels, "rls2", normalize="mean-diagonal", alpha=0.1).fit(Z, y)
    # without the screen of a plain fit the weights would be the same too
    np.testing.assert_allclose(model.predict(X), other.predict(Z), atol=1e-7)
    assert model.rel_gap_ < 1e-7


def test_folds_learn_their_own_metric(table):
    X, y = table
    model = kw.MKLRegressor(learner="metric", alpha=0.1).fit(X, y)
    rows = np.arange(40)
    part = model.model_.source.take(rows)
    A = (X[rows] - X[rows].mean(axis=0)) / X[rows].std(axis=0)
    found = next(one for one in steps_of(part.kernels[-1]) if isinstance(one, Metric))
    np.testing.assert_allclose(found.matrix, learn_metric(A, y[rows, None]).matrix, rtol=1e-9)
    # taken again: the same numbers without learning
    assert model.model_.source.take(rows).kernels == part.kernels


def test_weights_are_repetitions_and_zeros_are_no_rows(rng, table):
    X, y = table[0][:40], table[1][:40]
    w = rng.integers(0, 3, 40)
    again = np.repeat(np.arange(40), w)
    one = kw.MKLRegressor(learner="metric").fit(X, y, w)
    other = kw.MKLRegressor(learner="metric").fit(X[again], y[again])
    # measured 1e-10
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-6)


def test_frames_with_categories_and_missing_cells(rng):
    n = 80
    frame = pd.DataFrame(
        {"kind": rng.choice(["a", "b", "c"], n), "x": rng.normal(size=n), "noise": rng.normal(size=n)}
    )
    y = np.where(frame["kind"] == "a", 3.0, 0.0) + np.sin(2 * frame["x"])
    frame.loc[3, "x"] = np.nan
    model = kw.MKLRegressor(learner="metric", missing="impute-median").fit(frame, y.fillna(0.0))
    shares = model.relevance_["all"]
    assert list(shares) == ["kind", "x", "noise"]
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["noise"] < 0.05
    with pytest.raises(kw.InputError, match="missing"):
        kw.MKLRegressor(learner="metric", missing="skip").fit(frame, y.fillna(0.0))


def test_every_view_has_its_own_metric(rng):
    views = {"a": rng.normal(size=(70, 3)), "b": rng.normal(size=(70, 2))}
    y = np.sin(2.0 * views["a"][:, 0]) + views["b"][:, 1]
    model = kw.MKLRegressor(learner="metric").fit(views, y)
    assert {view: len(own) for view, own in model.relevance_.items()} == {"a": 3, "b": 2}
    assert next(iter(column_relevance(model))) in ("a: x0", "b: x1")
    assert model.metric_["a"].shape == (3, 3)
    lacking = {"a": np.where(np.arange(70)[:, None] < 5, np.nan, views["a"]), "b": views["b"]}
    assert np.isfinite(kw.MKLRegressor(learner="metric", alpha=0.1).fit(lacking, y).predict(lacking)).all()


def test_classes_share_a_metric(rng):
    X = rng.normal(size=(90, 5))
    y = np.digitize(np.sin(2.0 * X[:, 2]), [-0.5, 0.5])
    model = kw.MKLClassifier(learner="metric").fit(X, y)
    assert max(model.relevance_["all"], key=model.relevance_["all"].get) == "x2"
    margin = kw.MKLClassifier(kw.banks.metric(), "lp", C=10.0).fit(X, y)
    assert max(margin.relevance_["all"], key=margin.relevance_["all"].get) == "x2"


def test_kernels_of_the_user_are_taken_in_the_metric(table):
    X, y = table
    kernels = [RBF(gamma="median").prepared("standardize"), 2.0 * Laplacian(gamma="median") + Linear()]
    model = kw.MKLRegressor(kernels, "metric", alpha=0.1).fit(X, y)
    assert all(any(isinstance(one, Metric) for one in steps_of(kernel)) for kernel in model.kernels_)
    learner = MetricRLS2()
    assert learner.prepared(CharNGrams()) == CharNGrams()
    once = learner.prepared(kernels[0])
    assert learner.prepared(once) == once


@pytest.mark.parametrize(
    ("make", "X"),
    [
        (lambda: kw.MKLRegressor("precomputed", "metric"), np.eye(6)[:, :, None]),
        (lambda: kw.MKLRegressor([CharNGrams()], "metric"), pd.DataFrame({"t": list("abcdef")})),
        (lambda: kw.MKLRegressor(learner=MetricRLS2(form="full")), np.eye(6)),
    ],
)
def test_what_has_no_metric_is_refused(make, X):
    with pytest.raises(kw.InputError, match="metric"):
        make().fit(X, np.arange(6.0))


def test_models_are_stored_with_what_folds_need(table, tmp_path):
    X, y = table
    model = kw.MKLRegressor(learner="metric", alpha=0.1).set_params(learner__relax=None).fit(X, y)
    kw.save(model, tmp_path / "model.kw")
    loaded = kw.load(tmp_path / "model.kw")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.relevance_ == model.relevance_
    # further fits on folds, of the stored rows and targets
    np.testing.assert_allclose(loaded.predict_interval(X[:3]), model.predict_interval(X[:3]), atol=1e-9)


def test_cross_validation_and_clones(table):
    X, y = table
    model = kw.MKLRegressorCV(learner=MetricRLS2(by="rfm"), alphas=[0.1, 0.01], cv=3).fit(X, y)
    assert clone(model).learner.by == "rfm"
    assert model.relevance_["all"]["x2"] < 0.1


# ---- what a plain fit does ------------------------------------------------------------------------------


def test_a_plain_fit_takes_the_metric_where_folds_say_so(rng):
    X = rng.normal(size=(150, 8))
    y = np.sin(2.0 * X[:, 0]) * X[:, 1]
    model = kw.MKLRegressor().fit(X, y)
    usual = kw.MKLRegressor(learner=kw.learners.RLS2(alpha="auto", relax="auto")).fit(X, y)
    assert -model.best_score_ < trying.PREFERENCE * -usual.best_score_
    assert "and taken" in model.explain_defaults()
    assert sum(model.relevance_["all"][name] for name in ("x0", "x1")) > 0.9
    found = findings(model)
    assert "x" in found["relevance"].sentence
    # figures draw these shares, the largest first
    bars = kw.plots.ColumnRelevanceDisplay.from_estimator(model)
    assert (
        dict(zip(bars.names, bars.values, strict=True)) == column_relevance(model) == model.relevance_["all"]
    )
    np.testing.assert_array_equal([bar.get_width() for bar in bars.bars_[0]], sorted(bars.values)[::-1])
    assert list(describe_weights(model).relevance) == bars.names
    pictures = draw_pictures(model, with_path=False)
    assert "relevance" in [one.name for one in pictures]
    for one in pictures:
        close(one.figure)
    assert type(model.model_.learner).__name__ == "RLS2"
    # halves of the rows learn it again
    stable = weight_stability(model, X, y, n_samples=2)
    assert len(stable.names) == model.n_kernels_


def test_a_metric_that_wins_on_some_of_many_rows_is_taken_without_all_of_them(rng, monkeypatch):
    from kernelweave.fitting import folds

    monkeypatch.setattr(folds, "LOOK_ROWS", 100)
    X = rng.normal(size=(220, 8))
    y = np.sin(2.0 * X[:, 0]) * X[:, 1]
    X, y, new, truth = X[:200], y[:200], X[200:], y[200:]
    asked, walk = [], folds.walk_fold

    def spy(task, learner, train, *given, **options):
        asked.append((len(train), task.source.n_kernels))
        return walk(task, learner, train, *given, **options)

    monkeypatch.setattr(folds, "walk_fold", spy)
    model = kw.MKLRegressor().fit(X, y)
    assert "and taken, as the squared error on some of the rows of the same folds" in model.explain_defaults()
    # three folds, which test 100 rows, with kernels in the metric alone; here at three alphas
    whole = [n for size, n in asked if size == 160]
    assert set(whole) == {model.n_kernels_}
    assert len(whole) in (6, 9, 12)
    usual = kw.MKLRegressor(learner=kw.learners.RLS2(alpha="auto", relax="auto")).fit(X, y)
    assert model.score(new, truth) > usual.score(new, truth)


def numbers_told(model):
    """Squared errors with and without the metric, and whether it was taken, of one that was tried on all rows."""
    told = (
        r" and (taken|not taken), as the squared error on the same folds is (\S+) with it and (\S+) without"
    )
    taken, own, usual = re.search(told, model.explain_defaults()).groups()
    return float(own), float(usual), taken == "taken"


def test_and_leaves_the_usual_kernels_as_they_are_elsewhere(rng):
    X = rng.normal(size=(120, 3))
    y = X @ [1.0, 1.0, 1.0] + 0.3 * rng.normal(size=120)
    model = kw.MKLRegressor().fit(X, y)
    usual = kw.MKLRegressor(learner=kw.learners.RLS2(alpha="auto", relax="auto")).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), usual.predict(X))
    own, other, taken = numbers_told(model)
    assert not taken
    assert other == pytest.approx(-usual.best_score_, rel=5e-3)
    assert own > trying.PREFERENCE * other
    assert not hasattr(model, "relevance_")
    assert column_relevance(model) == {}
    with pytest.raises(InputError, match="got one without"):
        kw.plots.ColumnRelevanceDisplay.from_estimator(model)


@pytest.mark.parametrize("n_look", [60, 100])
def test_close_errors_on_some_rows_are_followed_by_those_on_all(rng, monkeypatch, n_look):
    from kernelweave.fitting import folds

    monkeypatch.setattr(folds, "LOOK_ROWS", n_look)
    X = rng.normal(size=(120, 3))
    y = X @ [1.0, 1.0, 1.0] + 0.3 * rng.normal(size=120)
    model = kw.MKLRegressor().fit(X, y)
    own, other, taken = numbers_told(model)
    assert taken == (own < trying.PREFERENCE * other)
    assert (own if taken else other) == pytest.approx(-model.best_score_, rel=5e-3)
    assert hasattr(model, "relevance_") == taken


WHY_NOT = ["few rows", "many columns", "one column", "two outputs", "alpha", "C", "classes", "kernels"]


@pytest.mark.parametrize("why", ["nothing", *WHY_NOT])
def test_or_does_not_try(rng, why):
    """The least number of distinct rows and the largest of columns are tried ("nothing" says no)."""
    X, y = rng.normal(size=(30, 128)), rng.normal(size=30)
    model = kw.MKLRegressor()
    if why == "few rows":
        X, y = X[[*range(29), 0]], y
    elif why == "many columns":
        X = np.c_[X, rng.normal(size=30)]
    elif why == "one column":
        X = X[:, :1]
    elif why == "two outputs":
        y = np.c_[y, X[:, 0]]
    elif why == "classes":
        model, y = kw.MKLClassifier(), y > 0
    elif why == "kernels":
        model = kw.MKLRegressor([RBF(gamma="median")])
    else:
        model.set_params(**{why: 1.0} if why != "nothing" else {})
    assert ("Metric:" in model.fit(X, y).explain_defaults()) == (why == "nothing")


def test_a_stop_during_the_trial_keeps_the_usual_model(rng, monkeypatch):
    from kernelweave.kernels import steps

    X = rng.normal(size=(120, 3))
    y = np.sin(2.0 * X[:, 0])
    usual = kw.MKLRegressor(learner=kw.learners.RLS2(alpha="auto", relax="auto")).fit(X, y)
    learn = steps.learn_metric
    for stop in (1, 3):  # on all rows, and in a fold
        calls = []

        def stopped(*given, stop=stop, calls=calls, **options):
            calls.append(1)
            if len(calls) == stop:
                raise KeyboardInterrupt
            return learn(*given, **options)

        monkeypatch.setattr(steps, "learn_metric", stopped)
        with pytest.warns(UserWarning, match="a learnt metric was not tried to the end"):
            model = kw.MKLRegressor().fit(X, y)
        np.testing.assert_array_equal(model.predict(X), usual.predict(X))


def test_other_rows_take_what_a_part_of_them_has_learnt(rng):
    """Whether the part was taken here before, or in another process."""
    table, targets = Table.of_checked(rng.normal(size=(80, 3)), None), rng.normal(size=(80, 1))
    rows, part = np.arange(60), np.arange(0, 60, 2)

    def relevance(source):
        return [*steps_of(source.take(rows).kernels[0])][-1].relevance

    def made():
        return TableSource([RBF(1.0).prepared("metric")], table, targets=targets, max_memory=1e9)

    here, elsewhere = made(), made()
    here.take(part)
    for source in (here, elsewhere):
        source.learn_as(rows, part)
    np.testing.assert_array_equal(relevance(here), relevance(elsewhere))
    assert not np.allclose(relevance(here), relevance(made()))


def test_the_table_of_relevances_ends_with_the_number_of_other_columns(monkeypatch):
    from kernelweave.inspection import weights as module

    monkeypatch.setattr(module, "MOST_COLUMNS", 4)
    for n, more in ((1, ""), (4, ""), (5, " 1 more columns have"), (9, " 5 more columns have")):
        monkeypatch.setattr(
            module, "column_relevance", lambda _, n=n: {f"x{k}": (n - k) / 45 for k in range(n)}
        )
        found = module._relevance(Basis(model=object()))
        (table,) = found.tables
        assert [row[0] for row in table.rows] == [f"x{k}" for k in range(min(n, 4))]
        assert table.note.removeprefix(found.meaning).startswith(more)
        assert len(found.values) == n


@pytest.mark.parametrize(("by", "form"), [("ard", "diagonal"), ("rfm", "diagonal"), ("rfm", "full")])
def test_the_way_of_learning(by, form, recorded):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(26, 4)) * [1.0, 50.0, 1.0, 0.0] + [0.0, 3.0, 1e3, 2.0]
    X[20:] = X[:6]
    Y = np.column_stack([np.sin(2.0 * X[:, 0]), X[:, 1] / 50.0 + X[:, 0] ** 2, np.ones(26)])
    weights = 1.0 + np.arange(26) % 3
    found = learn_metric(X, Y + 0.2 * rng.normal(size=(26, 1)) * [1, 1, 0], weights, by=by, form=form)
    # a local search: what it ends at has an error, and its history falls
    assert found.relevance.sum() == pytest.approx(1.0)
    assert found.relevance[0] > 0.5
    assert found.relevance[3] == 0.0
    assert 0.0 < found.error < 0.5
    assert (np.diff(found.history) <= 0).all()
    length = np.square(found.matrix).sum(axis=0)
    assert length[3] == 0.0
    if by == "rfm":
        # a length of one in standardised columns
        mean = weights @ X / weights.sum()
        scale = np.sqrt(weights @ np.square(X - mean) / weights.sum())
        assert (length * scale**2).sum() == pytest.approx(1.0)
    alike = learn_metric(np.ones((3, 2)), Y[:3], by=by, form=form)
    np.testing.assert_array_equal(alike.matrix, np.eye(2))
    assert (alike.relevance.tolist(), alike.error, alike.history.size) == ([0.5, 0.5], 1.0, 0)
    recorded("defaults", defaults_of(learn_metric))


def test_the_best_ridge_and_its_coefficients(recorded):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 2))
    K = np.exp(-np.square(X[:, None] - X[None]).sum(axis=2))
    recorded("left out", left_one_out(K, rng.normal(size=(15, 2)) + X, 0.5 + np.arange(15) / 15), **NEAR)


def test_what_is_said_of_a_metric_and_when_one_may_be_learnt(recorded):
    """Errors with and without it, on some rows or all; each part of the condition alone."""
    from types import SimpleNamespace

    from kernelweave.estimators import metric
    from kernelweave.estimators.choosing import SQUARED, Candidates
    from kernelweave.fitting.source import TableSource
    from kernelweave.views import BlockTable, Table

    recorded(
        "said",
        [
            metric.said_of_metric(0.5, 0.25, some, taken=taken)
            for some in (True, False)
            for taken in (True, False)
        ],
    )

    class Given(TableSource):
        explicit, is_whole = False, True

        def __init__(self, raw, kernels=(), **more):
            self.raw, self.kernels = raw, list(kernels)
            vars(self).update(more)

    def may(source=None, content=None, n_outputs=1, classification=False, **options):
        found = Candidates(np.ones(2), **{"n_folds": 2, "name": SQUARED, "search": object(), **options})
        own = Given(Table(np.eye(3))) if source is None else source
        content = np.arange(30) if content is None else content
        task = SimpleNamespace(
            source=own, content=content, n_outputs=n_outputs, classification=classification
        )
        return metric.may_learn(task, found)

    assert may()
    assert may(content=np.arange(2000) % 1999)
    assert may(Given(Table(np.ones((2, 128)))))
    assert may(Given(BlockTable({"a": Table(np.eye(3)[:, :1]), "b": Table(np.eye(3))})))
    refused = [
        may(n_outputs=2),
        may(classification=True),
        may(name="r2"),
        may(search=None),
        may(n_folds=1),
        may(object()),
        may(content=np.arange(29)),
        may(content=np.arange(2001)),
        may(Given(Table(np.eye(3)), explicit=True)),
        may(Given(Table(np.eye(3)), is_whole=False)),
        may(Given(Table(np.eye(3)), [SimpleNamespace(is_corrected=True)])),
        may(Given(Table(np.ones((2, 129))))),
        may(Given(Table(np.ones((2, 1))))),
        may(Given(BlockTable({"a": Table(np.ones((2, 129))), "b": Table(np.eye(2))}))),
        may(Given(BlockTable({"a": Table(np.ones((3, 1))), "b": Table(np.ones((3, 1)))}))),
    ]
    assert refused == [False] * len(refused)
