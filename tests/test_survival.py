"""Cox's partial likelihood against its definition, a cone program and another package, and the estimator with it.

Modules: `machines/cox`, `estimators/survival`, `fitting/survival`, `inspection/held_times`, `plots/survival`.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import kernelweave as kw
from kernelweave import inspection
from kernelweave.fitting import survival as survival_module
from kernelweave.machines import cox
from kernelweave.machines.losses import Cox
from kernelweave.machines.machine import Machine
from oracles import conic_value, factor_of
from recording import differences, outcome, plain, told

SETS = [
    kw.weight_sets.Simplex(),
    kw.weight_sets.LpBall(1.5),
    kw.weight_sets.LpBall(2.0),
    kw.weight_sets.LpBall(np.inf),
    kw.weight_sets.ElasticNet(0.5),
    kw.weight_sets.CappedSimplex(0.5),
]
TIES = ["breslow", "efron"]


def data(rng, n=40, *, stratified=False):
    """Times with ties, events, strata, targets, and weights of rows with a zero."""
    X = rng.normal(size=(n, 3))
    time = np.ceil(6.0 * rng.exponential(np.exp(-X[:, 0])))
    event = rng.random(n) < 0.7
    strata = rng.integers(0, 3, n) if stratified else None
    weight = rng.uniform(0.2, 2.0, n)
    weight[3] = 0.0
    return X, time, event, strata, Cox.targets(time, event, strata), weight


def terms(time, event, strata, costs, ties="breslow"):
    """The logarithms of the definition: their weights, and those of rows in them."""
    strata = np.zeros(len(time)) if strata is None else strata
    unit = costs[event & (costs > 0)].min()
    for k, t in sorted(set(zip(strata, time, strict=True))):
        same = (strata == k) & (time == t) & event & (costs > 0)
        at_risk = costs / unit * ((time >= t) & (strata == k))
        m = same.sum()
        for place in range(m if ties == "efron" else min(m, 1)):
            lost = place / m if ties == "efron" else 0.0
            yield costs[same].sum() / (m if ties == "efron" else 1), at_risk * (1.0 - lost * same)


def by_definition(time, event, strata, costs, f, ties="breslow"):
    """The loss and its second derivative, term by term."""
    total, H = -(costs * event) @ f, np.zeros((len(f), len(f)))
    for mass, shares in terms(time, event, strata, costs, ties):
        e = shares * np.exp(f)
        p = e / e.sum()
        total += mass * np.log(e.sum())
        H += mass * (np.diag(p) - np.outer(p, p))
    return total, H


# ---- the loss ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("stratified", [False, True])
def test_value_derivatives_and_factor_are_those_of_the_definition(stratified, ties, rng):
    loss = Cox(stratified, ties)
    for n in (3, 40, 90):
        _X, time, event, strata, y, weight = data(rng, n + 4, stratified=stratified)
        event[:4] = True
        y, f = Cox.targets(time, event, strata), 2.0 * rng.normal(size=len(time))
        total, H = by_definition(time, event, strata, weight, f, ties)
        assert loss.total(y, weight, f) == pytest.approx(total, rel=1e-12)
        steps = 1e-5 * np.eye(len(f))
        slopes = [(loss.total(y, weight, f + s) - loss.total(y, weight, f - s)) / 2e-5 for s in steps]
        # of differences; measured: 1e-8
        np.testing.assert_allclose(loss.gradient(y, weight, f), slopes, atol=1e-7)
        U = loss.root(y, weight, f).transposed(np.eye(len(f))).T
        np.testing.assert_allclose(U @ U.T, H, atol=1e-13 * weight.sum())
        z = rng.normal(size=len(f))
        np.testing.assert_allclose(loss.root(y, weight, f).times(z), U @ z, atol=1e-12)
        least = np.linalg.eigvalsh(np.diag(loss.curvature(y, weight, f)) - H).min()
        assert least > -1e-12 * weight.sum()
        low, high = loss.gradient_within(y, weight, f, 0.1)
        other = loss.gradient(y, weight, f + rng.uniform(-0.1, 0.1, len(f)))
        assert (low <= other + 1e-12).all()
        assert (other <= high + 1e-12).all()


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("stratified", [False, True])
def test_the_conjugate_is_that_of_its_coefficients(stratified, ties, rng):
    """At minus a derivative the inequality of Young is an equality, and elsewhere the gap is Bregman's divergence."""
    loss = Cox(stratified, ties)
    *_, y, weight = data(rng, 120, stratified=stratified)
    for spread in (0.1, 1.0, 5.0):
        f, other = spread * rng.normal(size=120), spread * rng.normal(size=120)
        b = -loss.gradient(y, weight, f)
        assert loss.infeasibility(y, weight, b) < 1e-12 * np.abs(b).sum()
        slope = loss.dual_slope(y, weight, b)
        np.testing.assert_allclose(-loss.gradient(y, weight, slope), b, atol=1e-11)
        # any constant in a stratum has this gradient: the mean over expected events is zero
        strata, expected = np.floor(np.abs(y)) * stratified, np.where(y > 0, weight, 0.0) - b
        means = np.bincount(strata.astype(int), expected * slope)
        np.testing.assert_allclose(means, 0.0, atol=1e-9 * np.abs(expected @ np.abs(slope)))
        total = loss.total(y, weight, f)
        assert loss.dual_term(y, weight, b) == pytest.approx(total + b @ f, rel=1e-11, abs=1e-10)
        assert loss.gap(y, weight, b, f) <= loss.gap_error(y, weight, b, f)
        divergence = loss.total(y, weight, other) - total + b @ (other - f)
        assert loss.gap(y, weight, b, other) == pytest.approx(divergence, rel=1e-9)
        # no decision values give more than the conjugate
        for _ in range(20):
            some = f + rng.normal(size=120)
            assert -b @ some - loss.total(y, weight, some) <= -loss.dual_term(y, weight, b) + 1e-9
        assert loss.infeasibility(y, weight, -b) > 1e-3


@pytest.mark.parametrize("ties", TIES)
def test_sums_over_rows_of_the_formulas_of_rows(ties, rng):
    loss, ones = Cox(ties=ties), np.ones(40)
    *_, y, _ = data(rng)
    f = rng.normal(size=40)
    assert loss.value(y, f).sum() == pytest.approx(loss.total(y, ones, f), rel=1e-12)
    b = -loss.slope(y, f)
    assert loss.conjugate(y, b).sum() == pytest.approx(-loss.dual_term(y, ones, b), rel=1e-10)
    assert np.isinf(loss.conjugate(y, -b)).all()


@pytest.mark.parametrize("ties", TIES)
def test_decision_values_of_any_size_have_a_loss(ties, rng):
    """Exponentials overflow and vanish, logarithms do not."""
    loss = Cox(ties=ties)
    *_, y, weight = data(rng, 80)
    f = 1000.0 * rng.normal(size=80)
    loss_there = loss.total(y, weight, f)
    size = np.abs(y)
    used = (y > 0) & (weight > 0)
    # the largest at risk decides, and the units of weights count little
    largest = [f[(size >= size[i]) & (weight > 0)].max() for i in np.flatnonzero(used)]
    assert loss_there == pytest.approx(weight[used] @ (largest - f[used]), rel=1e-3)
    assert np.isfinite(loss.gradient(y, weight, f)).all()
    moved = loss.total(y, weight, f + 1e5)
    assert moved == pytest.approx(loss_there, rel=1e-9)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("stratified", [False, True])
def test_both_ways_of_sums_give_the_same(stratified, ties, rng, monkeypatch):
    loss = Cox(stratified, ties)
    *_, y, weight = data(rng, 80, stratified=stratified)
    f = 3.0 * rng.normal(size=80)
    one = loss.total(y, weight, f), loss.gradient(y, weight, f)
    monkeypatch.setattr(cox, "RANGE", 0.0)
    assert loss.total(y, weight, f) == pytest.approx(one[0], rel=1e-13)
    np.testing.assert_allclose(loss.gradient(y, weight, f), one[1], atol=1e-12)


def test_weights_are_repetitions_up_to_a_constant(rng):
    X, _time, _event, _, y, _ = data(rng)
    K, weight = X @ X.T, rng.integers(1, 4, 40).astype(float)
    again = np.repeat(np.arange(40), weight.astype(int))
    one = Machine(y, 1.0, Cox(), weight).solve(K, tol=1e-12)
    two = Machine(y[again], 1.0, Cox()).solve(K[np.ix_(again, again)], tol=1e-12)
    f, g = K @ one.dual_coef, (K[np.ix_(again, again)] @ two.dual_coef)
    np.testing.assert_allclose(f[again], g, atol=1e-6)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("C", [0.05, 3.0])
def test_the_optimum_at_one_kernel_is_that_of_a_cone_program(C, stratified, ties, rng):
    import cvxpy as cp

    X, time, event, strata, y, weight = data(rng, 25, stratified=stratified)
    K = X @ X.T + np.exp(-np.square(X[:, None] - X[None]).sum(-1))
    F = factor_of(K)
    w = cp.Variable(len(F))
    f, parts = F.T @ w, []
    for mass, shares in terms(time, event, strata, weight, ties):
        rows = np.flatnonzero(shares > 0)
        parts.append(mass * cp.log_sum_exp(f[rows] + np.log(shares[rows])))
    linear = cp.sum(cp.multiply(weight * event, f))
    best = conic_value(
        cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * (cp.sum(cp.hstack(parts)) - linear)))
    )
    found = Machine(y, C, Cox(stratified, ties), weight).solve(K, tol=1e-10)
    assert found.status is kw.solvers.Status.CONVERGED
    assert found.primal == pytest.approx(best, rel=1e-6)
    assert found.primal - found.gap == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("weight_set", SETS, ids=str)
def test_weights_of_kernels_and_features_are_certified_and_agree(weight_set, ties, rng):
    X, *_, y, weight = data(rng, 60)
    Z = np.column_stack([X, X**2, rng.normal(size=(60, 3))])
    stack = kw.FeatureStack(Z, [0, 3, 6, 9])
    gram = np.stack([part @ part.T for part in np.split(Z, 3, axis=1)], axis=-1)
    for C in (0.05, 2.0):
        how = {"loss": Cox(ties=ties), "weights": weight_set, "C": C, "sample_weight": weight}
        problems = kw.Problem(gram, y, **how), kw.Problem(stack, y, **how)
        on_kernels, on_features = (kw.solve(one, tol=1e-9) for one in problems)
        assert on_kernels.status is on_features.status is kw.solvers.Status.CONVERGED
        assert on_kernels.primal == pytest.approx(on_features.primal, rel=2e-9)
        for problem, one in zip(problems, (on_kernels, on_features), strict=True):
            certificate = problem.certify(one)
            assert certificate.rel_gap <= 1e-9
            assert one.verify(problem).status is kw.solvers.Status.CONVERGED
        # another point has a certificate that bounds the same optimum
        optimum = on_kernels.primal
        rough = kw.solve(problems[0], tol=1e-2)
        other = problems[0].certify(rough)
        assert other.primal - other.gap <= optimum * (1.0 + 1e-9) <= other.primal * (1.0 + 2e-9)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("on_features", [False, True])
def test_where_nothing_depends_on_the_rows_the_certificate_says_so(on_features, ties, rng):
    """All rows at risk have the event: coefficients are zero, and rounding errors are none."""
    for n in (3, 7, 40):
        X, weight = rng.normal(size=(n, 4)), rng.uniform(0.1, 2.0, n)
        kernels = kw.FeatureStack(X, [0, 2, 4])
        if not on_features:
            kernels = np.stack([own @ own.T for own in np.split(X, 2, axis=1)], axis=-1)
        y = Cox.targets(np.ones(n), np.ones(n), rng.integers(0, 2, n))
        problem = kw.Problem(kernels, y, loss=Cox(True, ties), C=2.3, sample_weight=weight)
        found = kw.solve(problem, tol=1e-9)
        assert found.status is kw.solvers.Status.CONVERGED
        assert not found.dual_coef.any()
        assert found.verify(problem).status is not kw.solvers.Status.REFUTED


def test_certificates_of_coefficients_outside_are_refuted(rng):
    X, *_, y, _ = data(rng)
    problem = kw.Problem((X @ X.T)[:, :, None], y, loss="cox", C=1.0)
    found = kw.solve(problem, tol=1e-9)
    from dataclasses import replace

    turned = replace(found, dual_coef=-found.dual_coef)
    assert not problem.certify(turned).gap < np.inf


def test_what_needs_sums_over_rows_is_refused(rng):
    X, *_, y, _ = data(rng)
    with pytest.raises(kw.InputError, match="no sum over rows"):
        kw.MKLRegressor(learner=kw.learners.MLMKL(loss=Cox())).fit(X, y)
    with pytest.raises(kw.InputError, match="Use MKLSurvival"):
        kw.MKLRegressor(learner=kw.learners.SimpleMKL(loss="cox")).fit(X, y)
    with pytest.raises(kw.InputError, match="0 is neither"):
        kw.solve(kw.Problem((X @ X.T)[:, :, None], 0.0 * y, loss="cox"))
    with pytest.raises(kw.InputError, match="no events"):
        kw.solve(kw.Problem((X @ X.T)[:, :, None], -np.abs(y), loss="cox"))


# ---- the estimator ----------------------------------------------------------------------------------


def known():
    """Rows whose numbers below were computed by scikit-survival."""
    rng = np.random.RandomState(5)
    X = rng.normal(size=(40, 3))
    time = np.ceil(6.0 * rng.exponential(np.exp(-X[:, 0])))
    return X, np.column_stack([rng.random_sample(40) < 0.7, time])


#: ``CoxPHSurvivalAnalysis(alpha=2.0, ties="breslow", tol=1e-13)`` of scikit-survival 0.28.0 on these rows.
COEF = [0.766705550115, 0.029326927073, -0.110634491597]
#: The same with ``ties="efron"``; its baseline is Breslow's all the same.
COEF_EFRON = [0.854237738056, 0.027059445074, -0.144464849243]
SURVIVAL = [
    [0.8605476725279448, 0.4738659732996154, 0.23060890255329528],
    [0.9064617049110782, 0.613637373701428, 0.38316510264281023],
]
CONCORDANCE = 0.7618069815195072
#: ``concordance_index_censored``, ``concordance_index_ipcw(tau=9)``, ``brier_score`` and ``integrated_brier_score`` of
#: the last 20 rows, with the first 20 for censoring. Equal times are put apart, events first: that package weights an
#: event by the share that is not censored *at* its time, which is biased where rows are censored at that time too.
HARRELL, UNO = 0.7481481481481481, 0.7139855604058173
BRIER, INTEGRATED = [0.114436096506, 0.085672607922, 0.155364010256], 0.11028633065150972


def linear(**more):
    return kw.MKLSurvival([kw.kernels.Linear()], kw.learners.Uniform(tol=1e-12), normalize=None, **more)


def test_one_linear_kernel_is_a_ridge_cox_regression():
    X, y = known()
    model = linear(C=0.5).fit(X, y)
    np.testing.assert_allclose(model.coef_, COEF, atol=1e-6)
    found = model.predict_survival_function(X[:2], [2.0, 5.0, 10.0])
    np.testing.assert_allclose(found, SURVIVAL, atol=1e-6)
    np.testing.assert_allclose(-np.log(found), model.predict_cumulative_hazard(X[:2], [2.0, 5.0, 10.0]))
    assert model.score(X, y) == pytest.approx(CONCORDANCE, abs=1e-12)


def test_efrons_coefficients_are_those_of_another_package_and_his_baseline_is_his_sum():
    X, y = known()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    model = linear(C=0.5, ties="efron").fit(X, y)
    # measured: 5e-7
    np.testing.assert_allclose(model.coef_, COEF_EFRON, atol=1e-6)
    with pytest.raises(kw.InputError, match="`ties` must be"):
        linear(ties="exact").fit(X, y)
    model.fit(X, y, sample_weight=weight)
    risk, (times, hazard) = np.exp(model.predict(X)), model.baselines_[0]
    event, time = y[:, 0] > 0, y[:, 1]
    expected = []
    for t in np.unique(time[event]):
        own = event & (time == t)
        at_risk, tied = weight[time >= t] @ risk[time >= t], weight[own] @ risk[own]
        m = own.sum()
        expected.append(sum(weight[own].mean() / (at_risk - place / m * tied) for place in range(m)))
    np.testing.assert_array_equal(times, np.unique(time[event]))
    np.testing.assert_allclose(hazard, np.cumsum(expected), rtol=1e-12)


def test_scores_are_those_of_another_package():
    X, y = known()
    model = linear(C=0.5).fit(X, y)
    order = np.lexsort((1 - y[:, 0], y[:, 1]))
    y = np.array(y, dtype=float)
    y[order, 1] += 1e-3 * np.arange(len(y))
    risk, times = model.predict(X[20:]), [2.0, 4.0, 6.0]
    assert inspection.concordance(y[20:], risk) == pytest.approx(HARRELL, abs=1e-12)
    own = inspection.concordance(y[20:], risk, kind="uno", training=y[:20], tau=9.0)
    assert own == pytest.approx(UNO, abs=1e-9)
    survival = model.predict_survival_function(X[20:], times)
    found = inspection.brier_scores(y[20:], survival, times, training=y[:20])
    np.testing.assert_allclose(found, BRIER, atol=1e-6)
    whole = inspection.integrated_brier_score(y[20:], survival, times, training=y[:20])
    assert whole == pytest.approx(INTEGRATED, abs=1e-6)


def test_brier_scores_of_whole_times_are_not_biased():
    rng = np.random.default_rng(0)
    event, censored = rng.integers(1, 5, (2, 20_000))
    y = np.c_[event <= censored, np.minimum(event, censored)]
    found = inspection.brier_scores(y, np.full((len(y), 3), 0.3), [1, 2, 3])
    # by the share that is not censored at the time: 0.397, 0.308, 0.231
    np.testing.assert_allclose(found, [0.39, 0.29, 0.19], atol=0.01)


def test_missing_strata_are_named():
    X, y = known()
    frame = pd.DataFrame({"event": y[:, 0], "time": y[:, 1], "stratum": 1.0})
    frame.loc[3, "stratum"] = np.nan
    mixed = frame.assign(stratum=[1, *["b"] * (len(frame) - 1)])
    with pytest.raises(kw.InputError, match="Strata must be all texts or all numbers"):
        kw.MKLSurvival(C=1.0).fit(X, mixed)
    with pytest.raises(kw.InputError, match="Row 3 has no stratum"):
        linear().fit(X, frame)


def test_errors_of_risks_are_refused():
    X, y = known()
    model = linear().fit(X, y)
    for function in (inspection.learning_curve, inspection.out_of_fold_scores):
        with pytest.raises(kw.InputError, match=r"kw\.inspection\.concordance"):
            function(model, X, y)


def test_pairs_in_blocks_are_all_pairs(rng, monkeypatch):
    from kernelweave.fitting import survival

    time, event = rng.integers(1, 12, 60).astype(float), rng.random(60) < 0.6
    risk, weight = rng.integers(0, 6, 60).astype(float), rng.uniform(0.1, 2.0, 60)
    outlives = (time > time[:, None]) | ((time == time[:, None]) & ~event)
    pairs = outlives * event[:, None] * weight
    expected = pairs, pairs * (risk < risk[:, None]), pairs * (risk == risk[:, None])
    for block in (7, 60, 2000):
        monkeypatch.setattr(survival, "BLOCK", block)
        for found, whole in zip(survival.concordant(time, event, risk, weight), expected, strict=True):
            np.testing.assert_allclose(found, whole.sum(axis=1), atol=1e-12)


def test_forms_of_the_target_are_the_same():
    X, y = known()
    record = np.array([(bool(e), t) for e, t in y], dtype=[("dead", bool), ("days", float)])
    frame = pd.DataFrame({"time": y[:, 1], "event": y[:, 0].astype(bool)})
    expected = linear(C=0.5).fit(X, y).predict(X)
    for other in (record, frame, y.tolist()):
        np.testing.assert_array_equal(linear(C=0.5).fit(X, other).predict(X), expected)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda y: y[:, ::-1], "seem to be swapped"),
        (lambda y: y * [1, -1], "must not be negative"),
        (lambda y: y * [0, 1], "No row has an event"),
        (lambda y: np.where(y == y[0, 1], np.nan, y), "NaN"),
        (lambda y: y[:, 1], "got shape"),
        (lambda y: np.column_stack([y, y]), "got 4 columns"),
        (lambda y: y[:-1], "rows|length|entry"),
        (lambda y: np.add(y, [1, 0]), "must be 1, or 0"),
        (lambda y: np.array(["a"] * 40), "must hold events and times"),
    ],
)
def test_wrong_targets_have_their_message(change, said):
    X, y = known()
    with pytest.raises(kw.InputError, match=said):
        linear(C=0.5).fit(X, change(y))


def test_learners_that_do_not_fit_are_refused():
    X, y = known()
    for learner in ("rls2", "deep-uniform"):
        with pytest.raises(kw.InputError, match="takes any loss"):
            kw.MKLSurvival(learner=learner).fit(X, y)


def test_strata_have_baselines_of_their_own(rng):
    X, time, event, strata, *_ = data(rng, 90, stratified=True)
    time = time * 10.0**strata
    y = pd.DataFrame({"event": event, "time": time, "stratum": np.array(["a", "b", "c"])[strata]})
    model = linear(C=1.0).fit(X, y)
    # the order within strata is all that counts
    other = linear(C=1.0).fit(X, y.assign(time=np.where(strata == 1, np.sqrt(time), time)))
    np.testing.assert_allclose(model.predict(X), other.predict(X), atol=1e-9)
    when = [float(np.median(time))]
    found = model.predict_survival_function(X, when, strata=y["stratum"])
    assert found.shape == (90, 1)
    assert np.ptp([found[strata == k].mean() for k in range(3)]) > 0.2
    with pytest.raises(kw.InputError, match="must name the stratum"):
        model.predict_survival_function(X, when)
    assert 0.5 < model.score(X, y) < 1.0
    # one baseline alone is that of its rows
    rows = strata == 0
    times, hazard = model.baselines_[0]
    risk = model.predict(X)[rows]
    first = times[0]
    at_risk = np.exp(risk[time[rows] >= first]).sum()
    deaths = (event[rows] & (time[rows] == first)).sum()
    assert hazard[0] == pytest.approx(deaths / at_risk, rel=1e-12)


@pytest.mark.parametrize("scoring", ["likelihood", "concordance"])
def test_a_plain_fit_chooses_c_and_is_saved(scoring, rng, tmp_path):
    X, time, event, _, _, weight = data(rng, 80)
    y = np.column_stack([event, time])
    model = kw.MKLSurvival(scoring=scoring).fit(X, y, sample_weight=weight)
    assert model.status_ == "converged"
    assert model.rel_gap_ <= 1e-6
    scores = model.cv_results_["test_score"]
    assert len(scores) == 9
    assert model.Cs_[np.argmax(scores)] == model.C_
    assert "concordance" in model.explain_defaults() or scoring == "likelihood"
    assert model.score(X, y) > 0.6
    path = tmp_path / "model.kw"
    kw.save(model, path)
    again = kw.load(path)
    np.testing.assert_array_equal(again.predict_survival_function(X), model.predict_survival_function(X))
    assert again.score(X, y) == model.score(X, y)
    survival = model.predict_survival_function(X)
    assert (np.diff(survival, axis=1) <= 0.0).all()
    assert (survival > 0.0).all()
    assert (survival < 1.0).all()


def test_views_equal_weights_and_inspection(rng):
    X, time, event, *_ = data(rng, 90)
    y = np.column_stack([event, time])
    tables = {"signal": X, "noise": rng.normal(size=(90, 2))}
    model = kw.MKLSurvival([kw.kernels.Linear()], "simple", C=1.0).fit(tables, y)
    weights = inspection.kernel_weights(model)
    assert len(weights.names) == 2
    assert model.weights_[0] > 0.8
    equal = kw.MKLSurvival([kw.kernels.Linear()], "uniform", C=1.0).fit(tables, y)
    assert equal.weights_.tolist() == [0.5, 0.5]
    test = inspection.permutation_test(clone(model), tables, y, n_permutations=19, cv=2)
    assert test.p_value == 0.05
    assert len(inspection.weight_stability(model, tables, y, n_samples=4).names) == 2
    groups = inspection.risk_groups(model, tables, y)
    assert [len(rows) for rows in groups.rows] == [30, 30, 30]
    middle = [float(np.interp(0.0, [0], [s[len(s) // 2]])) for s in groups.survival]
    display = kw.plots.RiskGroupsDisplay.from_estimator(model, tables, y)
    assert len(display.lines_) == 3
    assert len(middle) == 3
    found = inspection.survival_calibration(model, tables, y, time=6.0)
    assert (np.diff(found.predicted) > 0.0).all()
    # of a group whose last row is censored before, nothing is known
    known = ~np.isnan(found.observed)
    assert known.sum() >= 4
    assert (found.low <= found.observed)[known].all()


@pytest.mark.parametrize(
    ("time", "event", "strata", "message"),
    [
        ([1.0, -2.0], [1, 0], None, r"`time` must not be negative, got -2\.0"),
        ([1.0, 2.0], [1], None, r"`event` must have one entry for each time, \(2,\), got \(1,\)"),
        ([1.0, 2.0], [], None, r"`event` must have one entry for each time, \(2,\), got \(0,\)"),
        ([1.0, 2.0], [1, np.nan], None, "`event`.*NaN"),
        ([1.0, 2.0, 3.0], [1, 3, 2], None, r"False or 0 for censored rows, got \[2\.0, 3\.0\]"),
        ([1.0, 2.0], [1, 0], ["a"], r"`strata` must have one entry for each time, \(2,\), got \(1,\)"),
    ],
)
def test_times_that_are_no_targets(time, event, strata, message):
    with pytest.raises(kw.InputError, match=message):
        Cox.targets(time, event, strata)


def test_targets_are_ranks_of_times_by_hand():
    np.testing.assert_array_equal(Cox.targets([0.0, 5.0, 5.0], [True, False, 1]), [1 / 3, -2 / 3, 2 / 3])
    np.testing.assert_array_equal(Cox.targets([3.0, 1.0], [0, 1], strata=["b", "a"]), [-(1.0 + 2 / 3), 1 / 3])


# ---- all that the loss says ---------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("stratified", [False, True])
def test_the_loss_says_what_it_said(stratified, ties, recorded, monkeypatch):
    """Of rows with ties, strata and weights of zero, by both ways of sums, and where steps end early."""
    rng = np.random.default_rng(0)
    X, *_, y, weight = data(rng, 36, stratified=stratified)
    loss, K = Cox(stratified, ties), X @ X.T + np.exp(-np.square(X[:, None] - X[None]).sum(-1))
    f, other = 1.5 * rng.normal(size=36), rng.normal(size=36)
    b = -loss.gradient(y, weight, other)
    rows = np.flatnonzero(weight > 0)

    def formulas():
        at = loss.at(y, weight, f)
        root = loss.root(y, weight, f)
        return {
            "values": [loss.value(y, f), loss.slope(y, f), loss.total(y, weight, f), loss.gradient(y, weight, f)],
            "at": [at.total, at.size, at.levels, at.hazard, at.c, at.a, at.unit, at.log_sums],
            "within": loss.gradient_within(y, weight, f, np.linspace(0.0, 0.2, 36)),
            "curvature": [loss.curvature(y, weight, f), loss.second_derivative(y, f)],
            "root": [root.transposed(np.column_stack([f, other])), root.transposed(f), root.times(f)],
            "dual": [loss.dual_slope(y, weight, b), loss.dual_term(y, weight, b)],
            "conjugate": [loss.conjugate(y, share * loss.slope(y, f)) for share in (-0.5, 0.5)],
            "bounds": loss.bounds(y, weight),
            "outside": [loss.infeasibility(y, weight, one) for one in (b, -b, b + 0.1, 3.0 * b)],
            "aim": loss.newton_aim(K, y, weight, f, -loss.gradient(y, weight, f)),
            "free": [loss.free(y, weight, b), loss.intercept(y, weight, f), loss.fold_classes(y)],
            "system": loss.system(K, y, weight, b, rows).solve(f[rows]),
        }  # fmt: skip

    said = formulas()
    for own in (b, 0.0 * b):
        divergence = loss.total(y, weight, f) - loss.dual_term(y, weight, own) + own @ f
        assert loss.gap(y, weight, own, f) == pytest.approx(divergence, rel=1e-9)
    recorded("formulas", said, rtol=1e-5)
    monkeypatch.setattr(cox, "RANGE", 0.0)
    assert differences(plain(said["at"][:4]), plain(formulas()["at"][:4]), 1e-9, 1e-9) == []
    monkeypatch.undo()
    found = {}
    for C, start in ((0.7, None), (50.0, -3.0 * b)):
        for most in (1, 2, 4, None):
            at = Machine(y, C, loss, weight, most).solve(K, tol=1e-9, warm_start=start)
            found[f"{C} {most}"] = [at.dual_coef, at.intercept, at.primal]
    recorded("stops", found, rtol=1e-4, atol=1e-6)


def test_orders_of_times_by_hand():
    """Two strata; events come first at equal times."""
    y = Cox.targets([3.0, 1.0, 3.0, 2.0, 3.0, 1.0], [0, 1, 1, 1, 1, 0], ["b", "a", "b", "a", "a", "b"])
    by = Cox(stratified=True).by_time(y)
    assert by.order.tolist() == [1, 3, 4, 5, 2, 0]
    assert by.events.tolist() == [True, True, True, False, True, False]
    assert (by.starts.tolist(), by.group.tolist()) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 4])
    assert by.strata == [slice(0, 3), slice(3, 5)]
    assert by.rows == [slice(0, 3), slice(3, 6)]
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    assert by.sums(np.arange(6.0)).tolist() == [0.0, 1.0, 2.0, 3.0, 9.0]
    assert by.ahead(values).tolist() == [1.0, 3.0, 7.0, 8.0, 24.0]
    assert by.behind(values).tolist() == [7.0, 6.0, 4.0, 24.0, 16.0]
    assert by.before(values, none=-1.0).tolist() == [-1.0, 1.0, 3.0, -1.0, 8.0]
    assert by.after(values, none=0.5).tolist() == [6.0, 4.0, 0.5, 16.0, 0.5]
    assert by.following(values, -2.0).tolist() == [2.0, 4.0, -2.0, 16.0, -2.0]
    # sums of coefficients before each time, from the nearer end, which do not sum to zero here
    loss, b = Cox(), np.array([8.0, 1.0, 2.0, 4.0])
    y = Cox.targets([1.0, 2.0, 3.0, 4.0], np.ones(4))
    assert loss._before(loss.by_time(y), b).tolist() == [0.0, -7.0, -6.0, -4.0]
    assert loss._before(loss.by_time(y), b[::-1]).tolist() == [0.0, 4.0, 6.0, 7.0]


def test_targets_that_are_wrong_are_told(recorded):
    said = []
    for given in (
        ([1.0, -2.0], [1, 0]),
        ([1.0, 2.0], [1, 0, 1]),
        ([1.0, 2.0], [1, 2]),
        ([1.0, 2.0], [1, np.nan]),
        ([1.0, 2.0], [1, 1], [1, 2, 3]),
        ([1.0, 2.0], []),
    ):
        with pytest.raises(kw.InputError) as error:
            Cox.targets(*given)
        said.append(str(error.value))
    for y, costs in (([0.0, 0.5], [1.0, 1.0]), ([-0.1, -0.5], [1.0, 1.0]), ([-0.1, 0.5], [1.0, 0.0])):
        with pytest.raises(kw.InputError) as error:
            Cox().check(np.array(y), np.array(costs))
        said.append(str(error.value))
    recorded("messages", said)
    np.testing.assert_allclose(Cox.targets([5.0, 0.0, 5.0], [True, False, False]), [2 / 3, -1 / 3, -2 / 3])


@pytest.mark.parametrize("ties", TIES)
def test_scores_of_times_are_what_they_were(ties, recorded):
    """Curves, baselines, pairs and errors of rows with ties, weights and strata."""
    rng = np.random.default_rng(0)
    _, time, event, strata, y, weight = data(rng, 36, stratified=True)
    risk, other = (
        np.round(rng.normal(size=36), 1),
        (np.ceil(8 * rng.exponential(size=30)), rng.random(30) < 0.6),
    )
    times = np.array([0.5, 1.0, 3.0, 7.0, 100.0])
    survival = np.exp(-np.outer(np.exp(risk), times / 10.0))
    recorded(
        "curves",
        [
            survival_module.counts(time, event),
            survival_module.kaplan_meier(time, event),
            survival_module.censoring(time, event),
            survival_module.value_at(np.array([1.0, 2.0, 4.0]), np.array([0.9, 0.5, 0.1]), times, 1.0),
            survival_module.value_at(
                np.array([1.0, 3.0, 4.0]), np.array([0.9, 0.5, 0.1]), times, 1.0, "left"
            ),
        ],
    )
    recorded("baselines", survival_module.baselines(Cox(True, ties), time, y, risk, weight))
    recorded("equal weights", survival_module.baselines(Cox(True, ties), time, y, risk))
    recorded(
        "scores",
        [
            survival_module.concordant(time, event, risk, weight),
            survival_module.harrell(time, event, risk, weight, strata),
            survival_module.harrell(time, event, risk),
            survival_module.harrell(time, ~event & False, risk),
            survival_module.uno(time, event, risk, other, 6.0),
            survival_module.uno(time, event, risk, other),
            survival_module.uno(time, event, risk, other, 0.0),
            survival_module.brier(time, event, survival, times, other),
        ],
    )
    assert survival_module.kaplan_meier(np.array([1.0, 2.0]), np.array([True, True]))[1].tolist() == [
        0.5,
        0.0,
    ]


def test_times_are_read_in_every_form_and_mistakes_are_told(recorded):
    """Frames, structured arrays, columns and lists, by names or places, with strata and without."""
    event, time, stratum = np.array([1, 0, 1]), np.array([3.0, 2.0, 5.0]), np.array(["u", "v", "u"])
    structured = np.array([(True, 3.0), (False, 2.0), (True, 5.0)], dtype=[("died", bool), ("days", float)])
    frame = pd.DataFrame({"stratum": stratum, "time": time, "event": event})
    for y, strata in (
        (structured, None),
        (pd.DataFrame({"died": event, "days": time}), None),
        (frame[["time", "event"]], None),
        (frame, ["u", "v", "u"]),
        (np.column_stack([event, time]), None),
        (np.column_stack([event, time, [2, 1, 2]]), [2, 1, 2]),
        (np.column_stack([event, time]).tolist(), None),
        (np.array([[1, 3.0, "u"], [0, 2.0, "v"], [1, 5.0, "u"]], dtype=object), ["u", "v", "u"]),
    ):
        times, seen, found = survival_module.read_times(y)
        assert (times.tolist(), seen.tolist()) == (time.tolist(), [True, False, True])
        assert (None if found is None else list(found)) == strata
    said = []
    for wrong in (
        time,
        np.ones((3, 4)),
        np.ones((3, 1)),
        "text",
        frame.rename(columns={"stratum": "other"}),
        np.column_stack([event, -time]),
        np.column_stack([time, event]),
        np.column_stack([2 * event, time]),
        np.column_stack([event, time * [1, np.nan, 1]]),
        frame.assign(stratum=["u", None, "v"]),
        frame.assign(stratum=["u", 1, "v"]),
    ):
        with pytest.raises(kw.InputError) as error:
            survival_module.read_times(wrong)
        # what follows are words of another library
        said.append(str(error.value).partition(": could not")[0])
    for seen, weight in (([False, False, False], None), ([True, False, False], np.array([0.0, 1.0, 1.0]))):
        with pytest.raises(kw.InputError) as error:
            survival_module.targets_of(time, np.array(seen), None, weight)
        said.append(str(error.value))
    recorded("messages", said)
    wanted = Cox.targets(time, event, stratum)
    np.testing.assert_array_equal(survival_module.targets_of(time, event > 0, stratum, np.ones(3)), wanted)


@pytest.mark.parametrize("kind", ["plain", "strata", "efron", "weights"])
def test_all_that_a_fit_of_times_leaves_and_answers(kind, recorded):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(36, 2))
    time = np.ceil(8.0 * rng.exponential(np.exp(-X[:, 0])))
    y, weight, strata = np.c_[rng.random(36) < 0.7, time], None, None
    if kind == "strata":
        strata = np.arange(36) % 2 * 3.0
        y = np.c_[y, strata]
    if kind == "weights":
        weight = rng.integers(0, 3, 36).astype(float)
    bank = [kw.kernels.Linear().on([0]), kw.kernels.Linear().on([1]), kw.kernels.RBF(gamma=0.2)]
    learner = kw.learners.Uniform(C=1.0, tol=1e-11)
    model = kw.MKLSurvival(bank, learner, ties="efron" if kind == "efron" else "breslow").fit(X, y, weight)
    new, own = rng.normal(size=(4, 2)), None if strata is None else [0.0, 3.0, 3.0, 0.0]
    names = (
        "event_times_",
        "strata_",
        "baselines_",
        "dual_coef_",
        "intercept_",
        "weights_",
        "C_",
        "status_",
        "objective_",
    )
    found = {name: getattr(model, name) for name in names}
    found |= {
        "risk": model.predict(new),
        "hazard": model.predict_cumulative_hazard(new, [0.5, 3.0, 7.5, 1e3], strata=own),
        "all times": model.predict_cumulative_hazard(new, strata=own),
        "one time": model.predict_survival_function(new, 4.0, strata=own),
        "score": [model.score(X, y), model.score(X, y, weight)],
        "said": model.explain_defaults(),
    }
    recorded("fit", found, rtol=1e-4, atol=1e-6)
    wrong = {
        "times": lambda: model.predict_cumulative_hazard(new, ["a"], strata=own),
        "infinite": lambda: model.predict_cumulative_hazard(new, [np.inf], strata=own),
        "strata": lambda: model.predict_cumulative_hazard(new, strata=[0.0, 3.0, 5.0, 0.0]),
        "few": lambda: model.predict_cumulative_hazard(new, strata=[0.0]),
        "none": lambda: model.predict_cumulative_hazard(new),
    }
    recorded("refused", {name: told(outcome(call)) for name, call in wrong.items()})


def test_learners_and_scores_of_times(recorded):
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.c_[np.arange(20) % 3 > 0, 1.0 + np.arange(20)]
    calls = {
        "learner": lambda: kw.MKLSurvival(learner="rls2").fit(X, y),
        "alpha": lambda: kw.MKLSurvival(alpha=1.0).fit(X, y),
        "ties": lambda: kw.MKLSurvival(ties="exact").fit(X, y),
        "censored": lambda: kw.MKLSurvival().fit(X, np.c_[np.zeros(20), y[:, 1]]),
        "scored": lambda: kw.MKLSurvival(scoring="r2").fit(X, y),
        "weights": lambda: kw.MKLSurvival().fit(X, y, np.where(y[:, 0] > 0, 0.0, 1.0)),
        "rows": lambda: kw.MKLSurvival().fit(X, y[:5]),
    }
    recorded("refused", {name: told(outcome(call)) for name, call in calls.items()})
    for scoring in ("likelihood", "concordance"):
        for strata in (False, True):
            target = np.c_[y, np.arange(20) % 2] if strata else y
            model = kw.MKLSurvival(
                [kw.kernels.Linear()], kw.learners.Uniform(tol=1e-10), C="auto", scoring=scoring
            ).fit(X, target, 1.0 + np.arange(20) % 2)
            results = {key: value for key, value in model.cv_results_.items() if not key.startswith("split")}
            recorded(f"{scoring}, {strata}", [results, model.best_index_, model.Cs_], rtol=1e-4, atol=1e-6)
    assert (kw.MKLSurvival()._default_learner().solver, kw.MKLSurvival()._default_learner().p) == (
        "auto",
        2.0,
    )
