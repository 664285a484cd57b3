"""What users see of deep kernels: tables, pictures, reports, the command line and model files.

Modules: `inspection/layers`.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score

import kernelweave as kw
from kernelweave import inspection, plots
from kernelweave._parameters import Unfit, rules_of
from kernelweave.gram.stack import as_gram
from kernelweave.kernels import RBF, ArcCosine, Elementwise, Linear, Polynomial
from kernelweave.learners import DMKL, MLMKL, DeepUniform, LpMKL, SimpleMKL, TwoLayerMKL
from kernelweave.machines.machine import Machine
from kernelweave.mkl.criteria.deep import Criterion, SpanBound
from kernelweave.mkl.deep import DeepKernel, Descent, solve_deep

RNG = np.random.default_rng(3)
X = RNG.normal(size=(48, 4))
FRAME = pd.DataFrame(X, columns=["age", "bmi", "rna1", "rna2"])
Y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.1 * RNG.normal(size=48)
TWO = np.where(Y > 0, "yes", "no")
THREE = np.array(["a", "b", "c"])[np.digitize(Y, [-0.5, 0.5])]
BASE = [Linear(), RBF(gamma=0.3), Polynomial(degree=2)]
LAYERS = [[ArcCosine(degree=0), Linear()], [RBF(gamma=0.5)]]


def cosine(K):
    d = np.sqrt(K.diagonal())
    return K / np.outer(d, d)


def arc0(K):
    d = np.sqrt(K.diagonal())
    angle = np.arccos(np.clip(K / np.outer(d, d), -1, 1))
    np.fill_diagonal(angle, 0.0)  # rounding of the cosine would be an angle of 1e-8
    return 1.0 - angle / np.pi


def by_hand(weights, rows=slice(None)):
    """The three layers of `three`, from nothing but formulas."""
    scaled = [k(X) / k.diag(X).mean() for k in BASE]
    first = sum(w * K for w, K in zip(weights[0], scaled, strict=True))
    second = weights[1][0] * cosine(arc0(first)) + weights[1][1] * cosine(first)
    d = second.diagonal()
    third = weights[2][0] * np.exp(-0.5 * (d[:, None] + d[None, :] - 2 * second))
    return [K[rows][:, rows] for K in (first, second, third)]


def fit(estimator, *args, **kwargs):
    """Fit without remarks on descents that are cut short to be quick."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(*args, **kwargs)


@pytest.fixture(scope="module")
def three():
    """Three classes, three layers with different kernels."""
    learner = MLMKL(n_layers=3, C=5.0, kernels=LAYERS, max_iter=6)
    return fit(kw.MKLClassifier(BASE, learner), X, THREE)


@pytest.fixture(scope="module")
def two():
    """Two classes, views of a data frame, rows set aside."""
    bank = kw.banks.views(
        {"body": ["age", "bmi"], "rna": ["rna1", "rna2"]}, kernels=[Linear(), RBF(gamma=0.3)]
    )
    learner = MLMKL(C=5.0, max_iter=8, validation_fraction=0.25)
    return fit(kw.MKLClassifier(bank, learner), FRAME, TWO)


@pytest.fixture(scope="module")
def outputs():
    """Two targets, each with weights of its own."""
    learner = MLMKL(C=5.0, kernels=[Linear(), RBF(gamma=0.5)], max_iter=6, weight_set="simplex")
    return fit(kw.MKLRegressor(BASE, learner), X, np.column_stack([Y, X[:, 3]]))


# ---- estimators ------------------------------------------------------------------------------------


def test_weights_and_names_of_every_layer(three, two, outputs):
    assert three.weights_.shape == (3, 3, 3)
    assert np.isnan(three.weights_[0]).tolist() == [[False] * 3, [False, False, True], [False, True, True]]
    assert [list(names) for names in three.layer_kernel_names_] == [
        list(three.kernel_names_),
        ["ArcCosine(degree=0)", "Linear"],
        ["RBF(gamma=0.5)"],
    ]
    assert two.weights_.shape == (2, 4)
    assert outputs.weights_.shape == (2, 2, 3)
    np.testing.assert_allclose(np.nansum(outputs.weights_, axis=2), 1.0, rtol=1e-12)
    assert len(outputs.history_) == 2
    shallow = kw.MKLClassifier(BASE, "simple").fit(X, TWO)
    assert [list(names) for names in shallow.layer_kernel_names_] == [list(shallow.kernel_names_)]
    exponential = fit(kw.MKLClassifier(BASE, TwoLayerMKL(max_iter=3)), X, TWO)
    assert exponential.weights_.shape == (3,)
    assert list(exponential.layer_kernel_names_[1]) == ["exp"]


def test_precomputed_kernels_are_refused_at_fit_and_a_bank_is_not():
    stack = np.stack([k(X) for k in BASE], axis=-1)
    # folds follow what the rows hold, which is another thing for a table than for a bank: a criterion without folds
    learner = MLMKL(C=5.0, max_iter=4, criterion="training")
    with pytest.raises(kw.InputError, match=r"MLMKL needs k\(x, x\) of new rows.*KernelBank"):
        kw.MKLClassifier("precomputed", learner).fit(stack[:36, :36], TWO[:36])
    with pytest.raises(kw.InputError, match="TwoLayerMKL needs"):
        kw.MKLClassifier("precomputed", "2lmkl").fit(stack[:36, :36], TWO[:36])
    bank = fit(kw.MKLClassifier(kw.KernelBank(stack), learner), np.arange(36)[:, None], TWO[:36])
    plain = fit(kw.MKLClassifier(BASE, learner), X[:36], TWO[:36])
    new = np.arange(36, 48)
    np.testing.assert_allclose(
        bank.decision_function(new[:, None]), plain.decision_function(X[new]), rtol=1e-6, atol=1e-9
    )
    # one layer is a weighted sum, whose predictions need no more than a cross-Gram
    single = fit(
        kw.MKLClassifier("precomputed", MLMKL(n_layers=1, C=5.0, max_iter=4)), stack[:36, :36], TWO[:36]
    )
    assert single.weights_.shape == (1, 3)
    assert single.predict(stack[36:, :36]).shape == (12,)


def test_contributions_of_the_last_layer_add_up(three, two, outputs):
    for model, rows in ((three, X), (outputs, X)):
        parts = model.kernel_contributions(rows[:9])
        assert parts.shape[1] == len(model.layer_kernel_names_[-1])
        total = parts.sum(axis=1) + model.intercept_
        expected = model.decision_function(rows[:9]) if model is three else model.predict(rows[:9])
        np.testing.assert_allclose(total, expected, rtol=1e-10)
    sizes = inspection.contribution_sizes(two, FRAME)
    spread = two.kernel_contributions(FRAME).std(axis=0)
    assert set(sizes.names) == set(two.layer_kernel_names_[1][spread > 0])
    np.testing.assert_allclose(sizes.weights, np.sort(spread[spread > 0])[::-1])


@pytest.mark.parametrize("case", ["mlmkl", "dmkl", "2lmkl", "deep-uniform", "outputs", "bank", "cv"])
def test_models_survive_a_file(case, two, three, outputs, tmp_path):
    stack = np.stack([k(X) for k in BASE], axis=-1)
    make = {
        "mlmkl": lambda: (three, X),
        "dmkl": lambda: (fit(kw.MKLClassifier(BASE, DMKL(n_layers=3, max_iter=3)), FRAME, TWO), FRAME),
        "2lmkl": lambda: (fit(kw.MKLRegressor(BASE, TwoLayerMKL(max_iter=3, normalize_layers=False)), X, Y), X),
        "deep-uniform": lambda: (kw.MKLClassifier(None, DeepUniform(kernels=LAYERS[0])).fit(FRAME, THREE), FRAME),
        "outputs": lambda: (outputs, X),
        "bank": lambda: (
            fit(kw.MKLClassifier(kw.KernelBank(stack), MLMKL(max_iter=3)), np.arange(40)[:, None], TWO[:40]),
            np.arange(40, 48)[:, None],
        ),
        "cv": lambda: (
            fit(kw.MKLClassifierCV(BASE, MLMKL(max_iter=2), Cs=[1.0, 10.0], cv=2), X, TWO), X,
        ),
    }  # fmt: skip
    model, rows = make[case]()
    again = kw.load(kw.save(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(again.weights_, model.weights_)
    found, expected = inspection.layer_weights(again), inspection.layer_weights(model)
    for a, b in zip([*found.names, *found.weights], [*expected.names, *expected.weights], strict=True):
        np.testing.assert_array_equal(a, b)
    assert [sorted(h) for h in again.history_] == [sorted(h) for h in model.history_]
    assert len(inspection.layer_grams(again).kernels) == len(found.names)


def test_a_function_of_the_user_cannot_be_stored(tmp_path):
    layer = [Elementwise(np.cosh, np.sinh, name="cosh"), Linear()]
    model = fit(kw.MKLClassifier(BASE, MLMKL(kernels=layer, max_iter=2)), X, TWO)
    assert list(model.layer_kernel_names_[1]) == ["cosh", "Linear"]
    with pytest.raises(kw.InputError, match="cannot be stored without code"):
        kw.save(model, tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


def test_cross_validation_and_search_treat_it_as_any_estimator(two):
    again = clone(two)
    assert again.get_params(deep=True).keys() == two.get_params(deep=True).keys()
    again.set_params(learner__max_iter=50, learner__tol=0.5)
    assert (cross_val_score(again, FRAME, TWO, cv=2) > 0.3).all()
    assert two.rel_gap_ <= 1e-6
    assert two.stationarity_ >= 0


def test_a_device_that_is_not_there_is_said():
    model = kw.MKLClassifier(BASE, MLMKL(device="no-such-device"))
    with pytest.raises(kw.InputError, match=r"needs torch|cannot be used"):
        model.fit(X, TWO)


def test_the_span_of_a_single_free_row_is_finite_and_has_its_derivative():
    """One support vector inside the box among rows at their bounds, where there is nothing to span it with."""
    found = 0
    for trial in range(60):
        rng = np.random.default_rng(trial)
        Z = rng.normal(size=(8, 2))
        y = np.where(rng.random(8) > 0.5, 1.0, -1.0)
        machine = Machine(y, 0.2, sample_weight=rng.uniform(0.5, 2, 8))
        K = Z @ Z.T + 0.3 * np.eye(8)
        if abs(y.sum()) == 8 or len(machine.free(machine.solve(K, tol=1e-12).dual_coef)) != 1:
            continue
        found += 1
        value, H = SpanBound(machine, np.arange(8), tol=1e-12).at(K)
        assert 0 < value < 1
        D = rng.normal(size=(8, 8))
        D += D.T
        ends = [SpanBound(machine, np.arange(8), tol=1e-12).at(K + e * D, False)[0] for e in (1e-6, -1e-6)]
        slope = float(((np.triu(H) + np.triu(H, 1).T) * D).sum())
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)
    assert found >= 3


class Trace(Criterion):
    """The mean diagonal: smallest for the kernel that vanishes."""

    def at(self, K, gradient=True):
        return float(np.trace(K)) / len(K), np.eye(len(K)) / len(K)


@pytest.mark.parametrize("step", ["backtracking", "fixed", "adam"])
def test_a_step_that_leaves_no_kernel_is_not_taken(step):
    stack = np.stack([k(X) for k in BASE], axis=-1)
    kernel = DeepKernel(as_gram(stack), np.ones(3), MLMKL().layers())
    machine = Machine(np.where(Y > 0, 1.0, -1.0), 1.0)
    found = solve_deep(
        kernel, machine, Trace(), Descent(step, 0.2, max_iter=20), lambda ws: [np.maximum(w, 0) for w in ws]
    )
    assert found.value < found.history["criterion"][0]
    assert all(w.any() for w in found.layer_weights)
    assert np.isfinite(found.history["criterion"]).all()
    assert found.dual_coef.any()


# ---- inspection ------------------------------------------------------------------------------------


def test_tables_of_weights_speak_of_the_first_layer(three, two):
    found = inspection.kernel_weights(three, nonzero=False)
    order = np.argsort(-three.weights_[:, 0].sum(axis=0), kind="stable")
    np.testing.assert_array_equal(found.weights, three.weights_[:, 0].T[order])
    assert found.outputs == ("a", "b", "c")
    shares = inspection.view_weights(two)
    expected = two.weights_[0].reshape(2, 2).sum(axis=1) / two.weights_[0].sum()
    assert shares == pytest.approx({"body": expected[0], "rna": expected[1]})
    # outputs count alike, whatever the size of their weights
    per_class = three.weights_[:, 0] / three.weights_[:, 0].sum(axis=1, keepdims=True)
    assert sum(inspection.view_weights(three).values()) == pytest.approx(1.0)
    assert inspection.view_weights(three)["all"] == pytest.approx(per_class.mean(axis=0).sum())
    ball = kw.MKLClassifier(BASE, LpMKL(p=2.0)).fit(X, TWO)
    assert ball.weights_.sum() > 1.1
    assert sum(inspection.view_weights(ball).values()) == pytest.approx(1.0)


def test_layer_weights_are_those_of_the_model(three, two):
    found = inspection.layer_weights(three)
    assert found.outputs == ("a", "b", "c")
    for depth, (names, table) in enumerate(zip(found.names, found.weights, strict=True)):
        assert list(names) == list(three.layer_kernel_names_[depth])
        np.testing.assert_array_equal(table, three.weights_[:, depth, : len(names)].T)
    one = inspection.layer_weights(three, output="b")
    assert one.outputs == ("b",)
    np.testing.assert_array_equal(one.weights[1], three.weights_[1, 1, :2])
    np.testing.assert_array_equal(inspection.layer_weights(two).weights[1], two.weights_[1])
    exponential = fit(kw.MKLClassifier(BASE, TwoLayerMKL(max_iter=3)), X, TWO)
    assert [w.tolist() for w in inspection.layer_weights(exponential).weights] == [
        exponential.weights_.tolist(),
        [1.0],
    ]
    shallow = kw.MKLClassifier(BASE, "simple").fit(X, THREE)
    np.testing.assert_array_equal(inspection.layer_weights(shallow).weights[0], shallow.weights_.T)
    with pytest.raises(kw.InputError, match=r"Unknown output 'd'"):
        inspection.layer_weights(three, output="d")


def test_the_descent_starts_at_equal_weights_and_ends_at_the_model(three, two, outputs):
    for model, output in ((three, "c"), (two, None), (outputs, 1)):
        found = inspection.descent(model, output=output)
        which = {"c": 2, None: 0, 1: 1}[output]
        own = np.atleast_3d(model.weights_.T).T[which]  # (n_layers, n_kernels)
        for depth, (names, w) in enumerate(zip(found.names, found.weights, strict=True)):
            np.testing.assert_allclose(w[0], 1.0 / len(names))
            np.testing.assert_array_equal(w[found.kept], own[depth, : len(names)])
        assert (np.diff(found.criterion) <= 0).all()
        assert found.criterion[-1] < found.criterion[0]
    found = inspection.descent(two)
    assert found.kept == np.argmin(found.validation)
    assert ((found.validation_error >= 0) & (found.validation_error <= 1)).all()
    assert inspection.descent(three).validation is None
    # the targets have descents of their own
    assert (
        inspection.descent(outputs, output=0).criterion[0]
        != inspection.descent(outputs, output=1).criterion[0]
    )
    for learner in ("deep-uniform", "rls2", "simple"):
        model = kw.MKLClassifier(BASE, learner).fit(X, TWO)
        with pytest.raises(kw.InputError, match=r"has no descent.*'mlmkl'"):
            inspection.descent(model)


def test_matrices_of_every_layer_follow_the_formulas(three):
    for which, output in enumerate("abc"):
        weights = [w[:, which] for w in inspection.layer_weights(three).weights]
        found = inspection.layer_grams(three, output=output)
        for K, expected in zip(found.kernels, by_hand(weights), strict=True):
            np.testing.assert_allclose(K, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(found.target, THREE)
        # and the last one is what the machine was trained on; measured: 2e-8, where new rows take other sums
        decided = found.kernels[-1] @ three.dual_coef_[:, which] + three.intercept_[which]
        np.testing.assert_allclose(decided, three.decision_function(X)[:, which], rtol=1e-7, atol=1e-7)
    before = inspection.layer_grams(three, weights="initial")
    for K, expected in zip(before.kernels, by_hand([np.full(k, 1 / k) for k in (3, 2, 1)]), strict=True):
        np.testing.assert_allclose(K, expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(kw.InputError, match="must be 'learnt' or 'initial', got 'final'"):
        inspection.layer_grams(three, weights="final")
    with pytest.raises(kw.InputError, match="max_rows"):
        inspection.layer_grams(three, max_rows=1)


@pytest.mark.parametrize("normalize", ["mean-diagonal", "center", "cosine", "within-class"])
def test_some_rows_give_the_blocks_of_all(normalize):
    model = kw.MKLClassifier(BASE, DeepUniform(C=2.0), normalize=normalize).fit(X, THREE)
    full, part = (
        inspection.layer_grams(model, output=1),
        inspection.layer_grams(model, output=1, max_rows=20, random_state=5),
    )
    assert len(part.rows) == 20
    assert (np.diff(part.rows) > 0).all()
    for K, block in zip(full.kernels, part.kernels, strict=True):
        np.testing.assert_allclose(block, K[np.ix_(part.rows, part.rows)], rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(part.target, THREE[part.rows])
    other = inspection.layer_grams(model, max_rows=20, random_state=6)
    assert (other.rows != part.rows).any()
    decided = full.kernels[-1] @ model.dual_coef_[:, 1] + model.intercept_[1]
    np.testing.assert_allclose(decided, model.decision_function(X)[:, 1], rtol=1e-7, atol=1e-9)


def test_rows_of_weight_zero_are_no_training_rows():
    weight = np.where(np.arange(48) % 3 == 0, 0.0, 1.0)
    model = kw.MKLRegressor(BASE, DeepUniform()).fit(X, Y, sample_weight=weight)
    found = inspection.layer_grams(model)
    assert found.kernels[1].shape == (32, 32)
    np.testing.assert_array_equal(found.target, Y[weight > 0])


def test_spectra_are_shares_of_the_trace(three):
    found = inspection.layer_spectra(three)
    grams = inspection.layer_grams(three)
    for e, K in zip(found.eigenvalues, grams.kernels, strict=True):
        expected = np.linalg.eigvalsh(K)[::-1] / np.trace(K)
        np.testing.assert_allclose(e, expected, atol=1e-12)
        assert e.sum() == pytest.approx(1.0)
    assert (found.effective_rank >= 1).all()
    assert (found.effective_rank <= 48).all()
    # centring takes the mean away, which is one direction of every layer above the first
    centred = inspection.layer_spectra(three, center=True)
    H = np.eye(48) - 1 / 48
    expected = np.linalg.eigvalsh(H @ grams.kernels[2] @ H)[::-1]
    np.testing.assert_allclose(centred.eigenvalues[2], expected / expected.sum(), atol=1e-12)
    assert centred.eigenvalues[2][0] < found.eigenvalues[2][0]
    # a nearly diagonal kernel has the rank of its rows, a linear one at most that of its columns
    wide = kw.MKLClassifier([Linear()], DeepUniform(kernels=[RBF(gamma=100.0)])).fit(X, TWO)
    ranks = inspection.layer_spectra(wide).effective_rank
    assert 3.0 < ranks[0] <= 4.0 + 1e-6
    assert ranks[1] == pytest.approx(48, rel=0.05)


def test_the_path_has_the_weights_of_every_layer():
    model = fit(
        kw.MKLClassifierCV(BASE, MLMKL(kernels=LAYERS[0], max_iter=3), Cs=[1.0, 3.0, 10.0], cv=2), X, THREE
    )
    for k, output in enumerate("abc"):
        path = inspection.regularization_path(model, output=output)
        np.testing.assert_array_equal(path.weights[path.chosen], model.weights_[k, 0])
        assert [w.shape for w in path.upper_weights] == [(3, 2)]
        np.testing.assert_array_equal(path.upper_weights[0][path.chosen], model.weights_[k, 1, :2])
    shallow = kw.MKLClassifier(BASE, "simple").fit(X, TWO)
    assert inspection.regularization_path(shallow, Cs=[1.0, 10.0]).upper_weights == ()


# ---- pictures --------------------------------------------------------------------------------------


def test_the_heat_map_writes_every_weight(three):
    display = plots.LayerWeightsDisplay.from_estimator(three)
    rows = [text.get_text() for text in display.ax_.get_yticklabels()]
    # a kernel of the data and one of the same name above share a row
    assert rows == [
        "Linear",
        "RBF(gamma=0.3)",
        "Polynomial(degree=2)",
        "ArcCosine(degree=0)",
        "RBF(gamma=0.5)",
    ]
    missing = np.array([[0, 0, 1], [0, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=bool)
    assert len(display.images_) == 3
    written = {}
    for text in display.texts_:
        written[text.get_position()] = text.get_text()
    places = {"Linear": (0, 1), "RBF(gamma=0.3)": (0,), "Polynomial(degree=2)": (0,)}
    for k, image in enumerate(display.images_):
        shares = image.get_array()
        np.testing.assert_array_equal(shares.mask, missing)
        np.testing.assert_allclose(shares.sum(axis=0), 1.0)
        left = image.get_extent()[0]
        for row, name in enumerate(rows[:3]):
            for depth in places[name]:
                index = list(three.layer_kernel_names_[depth]).index(name + " on all" if depth == 0 else name)
                weight = three.weights_[k, depth, index]
                text = written[(left + depth + 0.5, row)]
                share = weight / np.nansum(three.weights_[k, depth])
                assert float(text) == pytest.approx(share, rel=0.06, abs=0.006)
                assert shares[row, depth] == pytest.approx(share)
    assert sum(bool(patch.get_hatch()) for patch in display.ax_.patches) == 3 * missing.sum()
    assert len(display.texts_) == 3 * (~missing).sum()
    assert {"a", "b", "c"} <= {text.get_text() for text in display.ax_.texts}
    one = plots.LayerWeightsDisplay.from_estimator(three, output="b")
    np.testing.assert_array_equal(one.images_[0].get_array(), display.images_[1].get_array())
    # numbers can be read on their cells
    for text in one.texts_:
        column, row = text.get_position()
        share = one.images_[0].get_array()[row, int(column + 0.25)]
        light = np.mean(one.images_[0].cmap(one.images_[0].norm(share))[:3]) > 0.5
        assert text.get_color() == ("black" if light else "white")


def test_large_banks_keep_what_is_largest():
    names = [[f"k{m}" for m in range(30)], ["up"]]
    weights = [np.r_[np.full(28, 0.01), 0.5, 0.3], [1.0]]
    display = plots.LayerWeightsDisplay(names, weights).plot(most=3, name="Mine")
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["k28", "k29", "up"]
    assert display.ax_.get_title(loc="left") == "Mine  (28 more kernels)"
    twice = plots.LayerWeightsDisplay([["same", "same"]], [[0.2, 0.8]]).plot()
    assert [text.get_text() for text in twice.texts_] == ["0.20", "0.80"]


def test_the_descent_is_drawn_from_the_history(two, three):
    display = plots.DescentDisplay.from_estimator(two, name="Title")
    found = inspection.descent(two)
    np.testing.assert_array_equal(display.criterion_line_.get_ydata(), found.criterion)
    np.testing.assert_array_equal(display.validation_line_.get_ydata(), found.validation)
    np.testing.assert_array_equal(display.error_line_.get_ydata(), found.validation_error)
    assert set(display.kept_line_.get_xdata()) == {found.kept}
    assert len(display.layer_axes_) == 2
    for lines, w, names, panel in zip(
        display.weight_lines_, found.weights, found.names, display.layer_axes_, strict=True
    ):
        drawn = np.column_stack([line.get_ydata() for line in lines])
        np.testing.assert_allclose(drawn, w / w.sum(axis=1, keepdims=True), rtol=1e-14)
        labels = {text.get_text() for text in panel.get_legend().get_texts()}
        assert labels == {name.removesuffix(" on all") for name in names}
        assert panel.get_ylim()[0] == 0.0
    assert display.ax_.get_title(loc="left") == "Title"
    assert display.error_ax_.get_ylabel() == "validation error rate"
    plain = plots.DescentDisplay.from_estimator(three, output="b", most=1)
    assert plain.validation_line_ is None
    assert plain.error_ax_ is None
    np.testing.assert_array_equal(
        plain.criterion_line_.get_ydata(), inspection.descent(three, output="b").criterion
    )
    colors = sorted(line.get_color() for line in plain.weight_lines_[0])
    assert colors.count("0.8") == 2
    with pytest.raises(kw.InputError, match="has no descent"):
        plots.DescentDisplay.from_estimator(kw.MKLClassifier(BASE, "deep-uniform").fit(X, TWO))


def test_matrices_are_sorted_and_share_their_colours(three, outputs):
    display = plots.KernelMatricesDisplay.from_estimator(three, output="b")
    before = inspection.layer_grams(three, output="b", weights="initial").kernels
    after = inspection.layer_grams(three, output="b").kernels
    order = np.argsort(THREE, kind="stable")
    assert display.images_.shape == (2, 3)
    for r, matrices in enumerate((before, after)):
        for depth, K in enumerate(matrices):
            image = display.images_[r, depth]
            np.testing.assert_allclose(image.get_array(), (K / K.diagonal().mean())[np.ix_(order, order)])
            assert image.get_clim() == display.images_[0, depth].get_clim()
    labels = [text.get_text() for text in display.axes_[0, 0].get_yticklabels()]
    assert labels == ["a", "b", "c"]
    borders = sorted(
        {line.get_ydata()[0] for line in display.axes_[0, 1].lines if len(set(line.get_ydata())) == 1}
    )
    assert borders == [np.sum(THREE == "a") - 0.5, np.sum(THREE <= "b") - 0.5]
    target = plots.KernelMatricesDisplay.from_estimator(outputs, output=1)
    np.testing.assert_array_equal(target.order_, np.argsort(X[:, 3], kind="stable"))
    assert not target.axes_[0, 0].lines
    few = plots.KernelMatricesDisplay.from_estimator(three, max_rows=12)
    assert few.images_[0, 0].get_array().shape == (12, 12)


def test_spectra_are_drawn_before_and_after(three):
    display = plots.LayerSpectraDisplay.from_estimator(three, output="c")
    for weights, lines in (("initial", display.before_lines_), ("learnt", display.after_lines_)):
        found = inspection.layer_spectra(three, output="c", weights=weights)
        for depth, line in enumerate(lines):
            expected = found.eigenvalues[depth]
            np.testing.assert_array_equal(line.get_ydata(), np.where(expected > 1e-10, expected, np.nan))
            assert line.get_linestyle() == ("--" if weights == "initial" else "-")
            assert line.get_label().endswith(f": {found.effective_rank[depth]:.3g}")
    assert display.ax_.get_yscale() == "log"
    centred = plots.LayerSpectraDisplay.from_estimator(three, output="c", center=True)
    assert (centred.after[2] != display.after[2]).any()


DISPLAYS = {
    "weights": plots.LayerWeightsDisplay,
    "descent": plots.DescentDisplay,
    "matrices": plots.KernelMatricesDisplay,
    "spectra": plots.LayerSpectraDisplay,
}


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", DISPLAYS)
def test_given_axes_are_used(two, name):
    figure, axes = plt.subplots(1, 2, figsize=(14, 6), layout="constrained")
    display = DISPLAYS[name].from_estimator(two, ax=axes[1], name="Title")
    assert display.figure_ is figure
    figure.draw_without_rendering()
    place = axes[1].get_position()
    drawn = [ax for ax in figure.axes if ax is not axes[0]]
    assert all(ax.get_position().x0 >= place.x0 - 0.15 for ax in drawn)
    assert not axes[0].has_data()
    assert any(ax.get_title(loc="left").startswith("Title") for ax in drawn)
    assert plt.get_fignums() == [figure.number]
    again = display.plot()
    assert again is display
    assert again.figure_ is not figure
    with pytest.raises(NotFittedError):
        DISPLAYS[name].from_estimator(kw.MKLClassifier())


def test_axes_outside_a_grid_are_refused(two):
    ax = plt.figure().add_axes((0.1, 0.1, 0.8, 0.8))
    with pytest.raises(kw.InputError, match="of a grid"):
        plots.DescentDisplay.from_estimator(two, ax=ax)


def test_older_pictures_of_deep_models(two, three):
    bars = plots.KernelWeightsDisplay.from_estimator(two)
    assert bars.ax_.get_xlabel() == "kernel weight in the first layer (fraction)"
    widths = [bar.get_width() for bar in bars.bars_[0]]
    weights = two.weights_[0] / two.weights_[0].sum()
    np.testing.assert_allclose(widths, np.sort(weights[weights > 0])[::-1], rtol=1e-14)
    shown = plots.KernelContributionsDisplay.from_estimator(three, X)
    assert [text.get_text() for text in shown.ax_.get_yticklabels()] == ["RBF(gamma=0.5)"]
    path = plots.RegularizationPathDisplay.from_estimator(two, Cs=[1.0, 10.0])
    assert path.values.shape == (2, 4)


# ---- reports ---------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_report_says_what_is_certified(two, three):
    pytest.importorskip("jinja2")
    from kernelweave_app.reports import make_report

    for model, rows in ((two, FRAME), (three, X)):
        text = make_report(model, title="deep", data=["rows"], settings={"seed": 1}, X=rows)
        for part in (
            "Weights of every layer",
            "Descent of the criterion",
            "Kernel matrices of every layer",
            "The weights are a local solution",
            "The gap certifies the machine",
            "stationarity of the weights",
            "Weight by kernel, first layer",
            "Weight by kernel, layer 2",
            "Rebai",
        ):
            assert part in text
        assert "Regularisation path" not in text
        assert text.count("<svg") == 5
        names, weights = (
            of[1] for of in (model.layer_kernel_names_, inspection.layer_weights(model).weights)
        )
        for name, weight in zip(names, weights.reshape(len(names), -1), strict=True):
            assert f"<tr><td>{name}</td>" in text
            assert f"{100 * weight[0] / weights.reshape(len(names), -1)[:, 0].sum():.1f} %" in text
    assert "Weight by kernel, layer 3" in text
    assert "(a against the rest)" in text
    shallow = make_report(
        kw.MKLClassifier(BASE, SimpleMKL()).fit(X, TWO), title="flat", data=["rows"], settings={}
    )
    assert "local solution" not in shallow
    assert "The objective is at most the gap above its optimum." in shallow
    assert "layer" not in shallow.split("<body>")[1]
    uniform = make_report(
        kw.MKLClassifier(BASE, "deep-uniform").fit(X, TWO), title="equal", data=["rows"], settings={}
    )
    assert "The weights are equal and not learnt" in uniform
    assert "Descent of" not in uniform


# ---- the command line ------------------------------------------------------------------------------

DEEP = ["--kernels", "linear; rbf(gamma=0.1)", "--cs", "1,10", "--cv", "2"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    FRAME.assign(outcome=THREE, dose=Y).to_csv(path, index=False)
    return str(path)


def command(*arguments):
    pytest.importorskip("cyclopts")
    from kernelweave_app.cli import main

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return main(list(arguments))


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("method", "options"),
    [
        (
            "mlmkl",
            ["--n-layers", "3", "--layer-kernels", "arc_cosine(degree=0); linear | rbf(gamma=0.5)",
             "--criterion", "logistic", "--criterion-folds", "2", "--step", "adam", "--eta", "0.02",
             "--weight-set", "simplex", "--validation-fraction", "0.25", "--n-iter-no-change", "4",
             "--loss", "squared"],
        ),
        ("dmkl", ["--smoothing", "2", "--layer-kernels", "linear;poly(degree=2)", "--no-normalize-layers"]),
        ("2lmkl", ["--penalty", "0.5"]),
        ("deep-uniform", ["--n-layers", "3"]),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("undrawn")
def test_options_reach_the_learner_and_the_script(method, options, table, tmp_path, capsys):
    out = tmp_path / "run"
    fixed = ["fit", table, "--target", "outcome", "--drop", "dose", "--method", method, "--out", str(out)]
    # the learner without weights to learn refuses it
    few = [] if method == "deep-uniform" else ["--max-iter", "3"]
    assert command(*fixed, *DEEP, *few, *options) == 0
    said = capsys.readouterr().out
    assert "Weight by kernel, layer 2" in said
    assert ("local solution" in said) == (method != "deep-uniform")
    model = kw.load(out / "model.skops")
    expected = {
        "mlmkl": {"n_layers": 3, "kernels": LAYERS, "criterion": "logistic", "n_folds": 2, "step": "adam",
                  "eta": 0.02, "weight_set": "simplex", "validation_fraction": 0.25, "n_iter_no_change": 4,
                  "loss": "squared", "max_iter": 3, "device": None},
        "dmkl": {"smoothing": 2.0, "kernels": [Linear(), Polynomial(degree=2)], "normalize_layers": False},
        "2lmkl": {"penalty": 0.5, "normalize_layers": True},
        "deep-uniform": {"n_layers": 3, "kernels": None},
    }[method]  # fmt: skip
    params = model.learner.get_params()
    assert {name: params[name] for name in expected} == expected
    space: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        exec(compile((out / "script.py").read_text(), "script.py", "exec"), space)
    np.testing.assert_allclose(space["model"].weights_, model.weights_, atol=1e-10)
    np.testing.assert_allclose(
        space["model"].decision_function(FRAME), model.decision_function(FRAME), rtol=1e-8, atol=1e-10
    )
    # the settings make the same model again
    again = tmp_path / "again"
    assert command("fit", table, "--spec", str(out / "spec.toml"), "--out", str(again)) == 0
    np.testing.assert_array_equal(kw.load(again / "model.skops").weights_, model.weights_)


@pytest.mark.usefixtures("undrawn")
def test_predict_evaluate_and_path(table, tmp_path, capsys):
    run = str(tmp_path / "run")
    fixed = ["--target", "dose", "--drop", "outcome", "--method", "mlmkl", *DEEP, "--max-iter", "3"]
    assert command("fit", table, *fixed, "--out", run) == 0
    assert command("predict", run, table, "--out", str(tmp_path / "p.csv")) == 0
    model = kw.load(tmp_path / "run" / "model.skops")
    np.testing.assert_allclose(
        pd.read_csv(tmp_path / "p.csv")["prediction"], model.predict(FRAME), rtol=1e-12
    )
    capsys.readouterr()
    assert command("evaluate", run, table, "--target", "dose") == 0
    held = pd.read_csv(tmp_path / "run" / "predictions.csv")["row"]
    own = model.score(FRAME.loc[held], Y[held]), model.score(FRAME.drop(held), np.delete(Y, held))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    [line] = [line for line in lines if line[:1] == ["R^2"]]
    # between them is the interval
    assert [line[1], line[-1]] == [f"{one:.2f}" for one in own]
    assert command("predict", run, table, "--out", str(tmp_path / "p.csv"), "--std") == 2
    assert "return_std" in capsys.readouterr().err
    assert command("path", table, *fixed, "--out", str(tmp_path / "path")) == 0
    path = pd.read_csv(tmp_path / "path" / "path.csv")
    assert len(path) == 2
    above = [c for c in path.columns if c.startswith("layer 2: ")]
    assert [c.removeprefix("layer 2: ") for c in above] == list(model.layer_kernel_names_[1])
    assert (path[above].sum(axis=1) > 0).all()


BAD = {
    "unknown criterion": (["--criterion", "error"], "criterion"),
    "no layers": (["--n-layers", "0"], "--n-layers must be a whole number from 1 to 100"),
    "unknown layer kernel": (["--layer-kernels", "rbff"], "Unknown kernel 'rbff'. Did you mean 'rbf'?"),
    "empty layer kernel": (["--layer-kernels", ";"], "No kernel is named."),
    "not a layer": (["--layer-kernels", "laplacian"], "cannot be a layer"),
    "number of layers": (["--layer-kernels", "linear | linear"], "one list for each of the 1 layers"),
    "share": (["--validation-fraction", "0.7"], "<= 0.5"),
    "step": (["--eta", "0"], "eta"),
    "device": (["--device", "no-such-device"], "device"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", BAD)
def test_bad_options_get_one_clear_line(case, table, tmp_path, capsys):
    options, words = BAD[case]
    out = str(tmp_path / "run")
    assert (
        command(
            "fit",
            table,
            "--target",
            "outcome",
            "--method",
            "mlmkl",
            "--out",
            out,
            *DEEP,
            "--max-iter",
            "3",
            *options,
        )
        == 2
    )
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("kernelweave: ")
    assert words in lines[0]


def test_an_empty_layer_in_a_text_is_refused():
    rule = rules_of(DeepUniform)["kernels"]
    assert [len(layer) for layer in rule.parse("arc_cosine(degree=0) | linear; rbf(gamma=1)")] == [1, 2]
    for text in ("linear | ", " | linear", "linear || linear", ";"):
        with pytest.raises(Unfit, match="No kernel is named"):
            rule.parse(text)
