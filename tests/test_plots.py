"""Displays draw the numbers of the fitted estimators, on the axes they are given.

Modules: `_drawing`, `plots`, `plots/drawing`, `plots/layers`, `plots/path`, `plots/survival`,
`plots/weights`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.ticker import FixedLocator
from sklearn.exceptions import NotFittedError

import kernelweave as kw
from kernelweave import inspection, plots
from kernelweave._drawing import clip_score, rounded, score_axis, score_range
from kernelweave.fitting.model import view_in
from kernelweave.kernels import RBF, Linear, Polynomial
from kernelweave.learners import RLS2

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.2 * RNG.normal(size=40)
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, [-0.6, 0.6])]
KERNELS = [Linear().on([j]) for j in range(4)] + [
    Polynomial(degree=2).on([1]),
    RBF(gamma=0.3),
    RBF(gamma=1.0).on([1]),
]
ALPHAS = np.geomspace(20, 0.05, 7)


@pytest.fixture(scope="module")
def regression():
    return kw.MKLRegressorCV(KERNELS, alphas=ALPHAS, cv=4).fit(X, Y)


@pytest.fixture(scope="module")
def classes():
    return kw.MKLClassifierCV(KERNELS, alphas=ALPHAS, cv=3).fit(X, LABELS)


@pytest.fixture(scope="module")
def linear():
    frame = pd.DataFrame(X, columns=["age", "bmi", "dose", "time"])
    return kw.MKLRegressorCV(kw.banks.linear_features(4), alphas=ALPHAS, cv=4).fit(frame, Y)


def widths(container):
    return np.array([bar.get_width() for bar in container])


def labels(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


# ---- bars ------------------------------------------------------------------------------------------


def test_bars_are_the_weights_largest_first(regression):
    display = plots.KernelWeightsDisplay.from_estimator(regression)
    order = np.argsort(-regression.weights_, kind="stable")
    order = order[regression.weights_[order] > 0]
    assert len(order) >= 3
    np.testing.assert_allclose(widths(display.bars_[0]), regression.weights_[order], rtol=1e-14)
    assert labels(display.ax_) == list(regression.kernel_names_[order])
    assert display.ax_.yaxis_inverted()  # the largest on top
    assert display.ax_.get_xlabel() == "kernel weight (fraction)"
    assert display.ax_.get_legend() is None


def test_bars_of_several_classes(classes):
    display = plots.KernelWeightsDisplay.from_estimator(classes)
    order = np.argsort(-classes.weights_.sum(axis=0), kind="stable")
    order = order[classes.weights_.sum(axis=0)[order] > 0]
    for k in range(3):
        np.testing.assert_allclose(widths(display.bars_[k]), classes.weights_[k, order], rtol=1e-14)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["a", "b", "c"]
    # bars of one kernel stand side by side, around its tick
    edges = np.array([[bar.get_y() for bar in bars] for bars in display.bars_])
    height = display.bars_[0][0].get_height()
    np.testing.assert_allclose(np.diff(edges, axis=0), height, rtol=1e-12)
    np.testing.assert_allclose(edges[0] + 1.5 * height, np.arange(len(order)), atol=1e-12)


def test_what_is_not_shown_is_summed_up_in_the_title(regression):
    display = plots.KernelWeightsDisplay.from_estimator(regression, most=2, name="Mine")
    sizes = np.sort(regression.weights_)[::-1]
    hidden = np.count_nonzero(sizes) - 2
    assert len(display.bars_[0]) == 2
    assert (
        display.ax_.get_title(loc="left")
        == f"Mine  ({hidden} more {'kernel has' if hidden == 1 else 'kernels have'} {100 * sizes[2:].sum():.0f} %)"
    )


def test_the_share_of_what_is_not_shown_is_that_of_all():
    display = plots.KernelWeightsDisplay(list("abcd"), [6.0, 3.0, 2.0, 1.0]).plot(most=2)
    assert display.ax_.get_title(loc="left") == "(2 more kernels have 25 %)"
    display = plots.KernelWeightsDisplay(list("ab"), [0.0, 0.0]).plot(most=1)
    assert display.ax_.get_title(loc="left") == "(1 more kernel has 0 %)"


NOTHING = {
    "no bars": lambda: plots.KernelContributionsDisplay([], np.empty((0, 3)), list("abc")),
    "a path of no weights": lambda: plots.RegularizationPathDisplay(
        [2, 1], [0, 0], np.zeros((2, 3)), list("abc"), None, "w"
    ),
    "a path of NaN": lambda: plots.RegularizationPathDisplay(
        [2, 1], [0, 0], np.full((2, 3), np.nan), list("abc"), 0, "w"
    ),
    "an infinite alpha": lambda: plots.RegularizationPathDisplay(
        [np.inf], [0], np.ones((1, 2)), list("ab"), 0, "w"
    ),
    "a curve of NaN": lambda: plots.CVCurveDisplay([2, 1], [np.nan] * 2, [np.nan] * 2, 0),
    "a curve of infinity": lambda: plots.CVCurveDisplay([np.inf] * 2, [-np.inf] * 2, [np.nan] * 2, 0),
    "spectra of zero": lambda: plots.LayerSpectraDisplay([np.zeros(3)], [np.zeros(3)], [0], [0]),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_has_nothing_to_show_is_drawn_without_a_warning(name):
    display = NOTHING[name]().plot()
    display.figure_.canvas.draw()


def test_bars_of_contributions_are_their_spread_over_the_rows(regression, classes):
    for model in (regression, classes):
        display = plots.KernelContributionsDisplay.from_estimator(model, X[:20])
        sizes = model.kernel_contributions(X[:20]).std(axis=0).reshape(len(KERNELS), -1)
        order = np.argsort(-sizes.sum(axis=1), kind="stable")
        order = order[sizes.sum(axis=1)[order] > 0]
        for k, bars in enumerate(display.bars_):
            np.testing.assert_allclose(widths(bars), sizes[order, k], rtol=1e-12)
        assert len(display.bars_) == sizes.shape[1]
        assert labels(display.ax_) == list(model.kernel_names_[order])
        assert "standard deviation" in display.ax_.get_xlabel()


def test_long_names_are_cut(regression):
    display = plots.KernelWeightsDisplay(["x" * 100], [1.0]).plot()
    assert labels(display.ax_) == ["x" * 43 + "…"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: plots.KernelWeightsDisplay(["a"], [1.0, 2.0]),
            "`values` must have as many entries as `names`, 1",
        ),
        (lambda: plots.KernelWeightsDisplay("ab", [1.0, 2.0]), "`names` must be a list of texts"),
        (
            lambda: plots.KernelWeightsDisplay(["a"], [[1.0, 2.0]]),
            "`outputs` must have one name for each column",
        ),
        (
            lambda: plots.CVCurveDisplay([2, 1], [0, 0], [0, 0], 2),
            "`chosen` must be a position from 0 to 1, got 2",
        ),
        (lambda: plots.LayerWeightsDisplay([["a"], ["b"]], [[1.0]]), "`weights` must have as many entries"),
        (
            lambda: plots.KernelMatricesDisplay([np.eye(2)], [np.eye(2)], [1, 2, 3]),
            "`before` must hold a matrix",
        ),
        (lambda: plots.SelectionCriteriaDisplay([1.0], {"df": [1.0]}), "`criteria` must hold some of gcv"),
    ],
)
def test_numbers_that_do_not_belong_together_are_refused(draw, message):
    with pytest.raises(kw.InputError, match=message):
        draw()


# ---- criteria --------------------------------------------------------------------------------------


def test_criteria_are_those_of_the_path(regression):
    display = plots.SelectionCriteriaDisplay.from_estimator(regression, name="Mine")
    expected = inspection.regularization_path(regression).criteria
    assert list(display.axes_) == ["gcv", "aic", "bic", "cp"]
    for name, line in display.lines_.items():
        np.testing.assert_array_equal(line.get_ydata(), expected[name])
        assert display.best_[name] == np.argmin(expected[name])
        marked = display.axes_[name].get_legend().get_texts()[0].get_text()
        assert marked == f"{regression.alphas_[display.best_[name]]:.3g}"
    assert display.axes_["cp"].get_title(loc="left") == "Mallows' Cp"
    assert display.figure_.get_suptitle() == "Mine"


def test_criteria_that_are_not_finite_are_left_out():
    display = plots.SelectionCriteriaDisplay(
        [4, 2, 1], {"gcv": [3.0, np.inf, 2.0], "cp": [np.nan] * 3, "df": [1, 2, 3]}, chosen=0
    ).plot()
    assert display.best_ == {"gcv": 2}
    assert list(display.axes_) == ["gcv", "cp"]
    display.figure_.canvas.draw()


def test_other_learners_have_no_criteria(regression):
    model = kw.MKLClassifier(KERNELS[:2], "uniform").fit(X, Y > 0)
    with pytest.raises(kw.InputError, match="`estimator` must have the learner RLS2"):
        plots.SelectionCriteriaDisplay.from_estimator(model, n_alphas=1)


# ---- lines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("against", ["alpha", "df"])
def test_lines_are_the_path(regression, against):
    display = plots.RegularizationPathDisplay.from_estimator(regression, x=against)
    stack = np.stack([k(X) for k in KERNELS], axis=-1)
    path = kw.rls2_path(stack, Y - Y.mean(), ALPHAS, tol=1e-8, scale=regression.normalizers_[0].scale)
    where = ALPHAS if against == "alpha" else path.df
    used = np.flatnonzero(path.weights.max(axis=0) > 0)
    order = used[np.argsort(-path.weights[:, used].max(axis=0), kind="stable")]
    assert len(display.lines_) == len(order)
    for line, m in zip(display.lines_, order, strict=True):
        np.testing.assert_allclose(line.get_xdata(), where, rtol=1e-6)
        # both paths are solved to a relative gap of 1e-8
        np.testing.assert_allclose(line.get_ydata(), path.weights[:, m], atol=1e-3)
        assert line.get_label() == regression.kernel_names_[m]
    at = where[list(ALPHAS).index(regression.alpha_)]
    np.testing.assert_allclose(display.chosen_line_.get_xdata(), [at, at], rtol=1e-6)
    assert display.ax_.get_xscale() == ("log" if against == "alpha" else "linear")
    assert display.ax_.xaxis_inverted() == (against == "alpha")
    # the chosen point has the weights of the estimator
    chosen = list(ALPHAS).index(regression.alpha_)
    at_chosen = [line.get_ydata()[chosen] for line in display.lines_]
    np.testing.assert_allclose(at_chosen, regression.weights_[order], atol=1e-3)


def test_the_path_of_one_class(classes):
    for k, name in enumerate("abc"):
        by_name = plots.RegularizationPathDisplay.from_estimator(classes, output=name)
        by_number = plots.RegularizationPathDisplay.from_estimator(classes, output=k)
        np.testing.assert_array_equal(by_name.values, by_number.values)
        np.testing.assert_allclose(by_name.values[by_name.chosen], classes.weights_[k], atol=1e-3)
    first = plots.RegularizationPathDisplay.from_estimator(classes)
    np.testing.assert_allclose(first.values[first.chosen], classes.weights_[0], atol=1e-3)


@pytest.mark.parametrize("normalize", ["mean-diagonal", "center"])
def test_coefficients_along_the_path(normalize):
    frame = pd.DataFrame(X * [1.0, 3.0, 0.2, 1.0] + 2.0, columns=["age", "bmi", "dose", "time"])
    model = kw.MKLRegressorCV(
        kw.banks.linear_features(4), alphas=ALPHAS, cv=4, normalize=normalize, standardize=True
    ).fit(frame, Y)
    display = plots.RegularizationPathDisplay.from_estimator(model, what="coef")
    # of the standardised columns
    chosen = display.values[display.chosen]
    np.testing.assert_allclose(chosen, model.coef_ * frame.to_numpy().std(axis=0), atol=1e-4)
    assert set(line.get_label() for line in display.lines_) <= {"age", "bmi", "dose", "time"}
    assert display.ax_.get_ylabel() == "coefficient"
    assert np.abs(chosen).max() > 0.1


def test_learners_with_a_C_are_drawn_against_C():
    model = kw.MKLClassifierCV(KERNELS[:2], "uniform", Cs=[4.0, 1.0], cv=2).fit(X, Y > 0)
    path = kw.inspection.regularization_path(model, Cs=[10.0, 1.0, 4.0])
    np.testing.assert_allclose(path.Cs, [1.0, 4.0, 10.0])
    np.testing.assert_allclose(path.alphas, 1.0 / path.Cs)
    lines = plots.RegularizationPathDisplay.from_estimator(model, Cs=[10.0, 1.0, 4.0])
    curve = plots.CVCurveDisplay.from_estimator(model)
    for display, line, where in ((lines, lines.lines_[0], path.Cs), (curve, curve.line_, [1.0, 4.0])):
        np.testing.assert_allclose(line.get_xdata(), where)
        np.testing.assert_allclose(display.chosen_line_.get_xdata(), model.C_)
        assert display.ax_.get_xlabel() == "C"
        assert display.ax_.get_xscale() == "log"
        assert not display.ax_.xaxis_inverted()
    assert plots.RegularizationPathDisplay.from_estimator(model, x="alpha").ax_.get_xlabel() == "alpha"
    with pytest.warns(FutureWarning, match=r"Write Cs=\[10, 0\.5\]"):
        kw.inspection.regularization_path(model, alphas=[0.1, 2.0])
    with pytest.raises(kw.InputError, match="Use alphas="):
        kw.inspection.regularization_path(kw.MKLRegressor(KERNELS[:2]).fit(X, Y), Cs=[1.0])


def test_unlabelled_lines_are_thin_and_grey(regression):
    display = plots.RegularizationPathDisplay.from_estimator(regression, most=1)
    assert display.lines_[0].get_label() == regression.kernel_names_[np.argmax(display.values.max(axis=0))]
    assert {line.get_color() for line in display.lines_[1:]} == {"0.8"}
    assert len(display.ax_.get_legend().get_texts()) == 2  # that line, and the chosen point


def test_other_alphas_can_be_asked_for(regression):
    display = plots.RegularizationPathDisplay.from_estimator(regression, alphas=[0.1, 10.0, 1.0])
    np.testing.assert_array_equal(display.alphas, [10.0, 1.0, 0.1])
    fixed = kw.MKLRegressor(KERNELS, RLS2(alpha=1.0)).fit(X, Y)
    automatic = plots.RegularizationPathDisplay.from_estimator(fixed)
    assert len(automatic.alphas) == 30
    nearest = np.argmin(np.abs(np.log(automatic.alphas)))
    assert automatic.chosen == nearest


def test_the_curve_is_the_table_of_scores(regression, classes):
    for model in (regression, classes):
        display = plots.CVCurveDisplay.from_estimator(model)
        mean, error = (model.cv_results_[name] for name in ("test_score", "std_error_test_score"))
        np.testing.assert_array_equal(display.line_.get_xdata(), ALPHAS)
        np.testing.assert_array_equal(display.line_.get_ydata(), mean)
        corners = display.band_.get_paths()[0].vertices
        for alpha, low, high in zip(ALPHAS, mean - error, mean + error, strict=True):
            there = corners[np.isclose(corners[:, 0], alpha, rtol=1e-12), 1]
            np.testing.assert_allclose([there.min(), there.max()], [low, high], rtol=1e-12)
        assert set(display.chosen_line_.get_xdata()) == {model.alpha_}
        assert display.ax_.get_xscale() == "log"
    assert plots.CVCurveDisplay.from_estimator(regression).ax_.get_ylabel() == "R^2"
    assert plots.CVCurveDisplay.from_estimator(classes).ax_.get_ylabel() == "accuracy"


def test_the_curve_of_auto(regression):
    model = kw.MKLRegressor(KERNELS, RLS2(n_alphas=5)).fit(X, Y)
    display = plots.CVCurveDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.line_.get_ydata(), model.cv_results_["mean_test_score"])
    assert display.ax_.get_ylabel() == "negative squared error"


# ---- axes and errors -------------------------------------------------------------------------------

DISPLAYS = {
    "weights": lambda model, **k: plots.KernelWeightsDisplay.from_estimator(model, **k),
    "contributions": lambda model, **k: plots.KernelContributionsDisplay.from_estimator(model, X, **k),
    "path": lambda model, **k: plots.RegularizationPathDisplay.from_estimator(model, **k),
    "curve": lambda model, **k: plots.CVCurveDisplay.from_estimator(model, **k),
}


@pytest.mark.parametrize("name", DISPLAYS)
def test_given_axes_are_used(regression, name):
    figure, axes = plt.subplots(1, 2)
    display = DISPLAYS[name](regression, ax=axes[1], name="Title")
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert axes[1].get_title(loc="left").startswith("Title")
    assert axes[1].has_data()
    assert not axes[0].has_data()
    assert plt.get_fignums() == [figure.number]
    # and a second drawing makes its own
    again = display.plot()
    assert again is display
    assert again.ax_ is not axes[1]


@pytest.mark.parametrize("name", DISPLAYS)
def test_unfitted_estimators_are_refused(name):
    with pytest.raises(NotFittedError):
        DISPLAYS[name](kw.MKLRegressor())
    assert not plt.get_fignums()


def test_what_cannot_be_drawn_is_said(regression, classes):
    path = plots.RegularizationPathDisplay.from_estimator
    with pytest.raises(kw.InputError, match=r"needs linear kernels.*linear_features"):
        path(regression, what="coef")
    with pytest.raises(kw.InputError, match=r"what. must be 'weights'.*mean 'weights'"):
        path(regression, what="weigths")
    with pytest.raises(kw.InputError, match=r"must be 'alpha', 'C', 'df' or None, got 'time'"):
        path(regression, x="time")
    with pytest.raises(kw.InputError, match=r"Unknown output 'd'.*Known: 'a', 'b', 'c'"):
        path(classes, output="d")
    with pytest.raises(kw.InputError, match="from 0 to 2, got 3"):
        path(classes, output=3)
    fixed = kw.MKLRegressor(KERNELS, RLS2(alpha=1.0)).fit(X, Y)
    with pytest.raises(kw.InputError, match=r"fitted at a fixed alpha.*MKLRegressorCV"):
        plots.CVCurveDisplay.from_estimator(fixed)


def test_no_matplotlib_is_said(regression, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'kernelweave\[plot\]'"):
        plots.KernelWeightsDisplay.from_estimator(regression)


# ---- the tables behind them ------------------------------------------------------------------------


def test_tables_of_weights(regression, classes, linear):
    table = inspection.kernel_weights(regression, nonzero=False)
    assert len(table.names) == len(KERNELS)
    assert (np.diff(table.weights) <= 0).all()
    assert table.outputs == ("",)
    assert inspection.kernel_weights(classes).outputs == ("a", "b", "c")
    shares = inspection.view_weights(linear)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert sum(shares.values()) == pytest.approx(1.0)
    # every kernel is on a column of its own, so views are kernels
    np.testing.assert_allclose(sorted(shares.values()), sorted(linear.weights_), rtol=1e-12)


def test_shares_of_views():
    views = {"rna": [0, 1], "clinical": [2, 3]}
    model = kw.MKLClassifier(kw.banks.views(views, [Linear(), RBF(gamma=0.5)]), RLS2(alpha=0.1)).fit(
        X, LABELS
    )
    shares = inspection.view_weights(model)
    weights = model.weights_.mean(axis=0)
    assert shares["rna"] == pytest.approx(weights[:2].sum())
    assert shares["clinical"] == pytest.approx(weights[2:].sum())


def test_shares_of_views_with_any_names():
    """Views and columns may be named like parts of labels."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:, :4], columns=["a on b", "c: d", "e", "RBF(gamma=1) on f"])
    names = {"mRNA (log)": ["e", "c: d"], "Linear on x": ["e"], "p: q": ["c: d"]}
    bank = kw.banks.views(names, [Linear(), RBF(gamma=0.5)])
    bank += [Linear().on([name]) for name in frame.columns]
    bank += [2.0 * Linear().on(["e"], name="p: q"), Linear() + RBF(gamma=1.0), Linear().on(["e"]) * Linear()]
    model = kw.MKLClassifier(bank, RLS2(alpha=0.1)).fit(frame, LABELS)
    views = [*(n for n in names for _ in range(2)), *frame.columns, "p: q", "all", "e * all"]
    weights = model.weights_.mean(axis=0)
    shares = inspection.view_weights(model)
    assert set(shares) == set(views)
    for view in views:
        expected = sum(w for name, w in zip(views, weights, strict=True) if name == view)
        assert shares[view] == pytest.approx(expected), view


@pytest.mark.parametrize(
    ("label", "view"),
    [
        ("rna: RBF(gamma=1)", "rna"),
        ("RBF(gamma=1) on age", "age"),
        ("RBF(gamma=1)", "RBF(gamma=1)"),
        ("Linear on [0, 1]", "[0, 1]"),
        ("mRNA (log): RBF(gamma=1)", "mRNA (log)"),
        ("a on b: Linear", "a on b"),
        ("Linear on a on b", "a on b"),
        ("Linear on c: d", "c: d"),
    ],
)
def test_the_view_of_a_label(label, view):
    assert view_in(label) == view


def test_marks_of_logarithmic_axes_are_text():
    from kernelweave.plots.drawing import log_axis, power_text

    shown = {0.001: "0.001", 1.0: "1", 10000.0: "10000", 1e5: "10⁵", 1e-12: "10⁻¹²", 2e-7: "2×10⁻⁷", 0.0: "0"}
    assert {value: power_text(value) for value in shown} == shown
    figure = plt.figure()
    ax = figure.add_subplot()
    log_axis(ax, "y")
    ax.plot([1.0, 2.0], [1e-9, 10.0])
    figure.canvas.draw()
    marks = [label.get_text() for label in ax.get_yticklabels()]
    assert "10⁻⁹" in marks or "10⁻⁸" in marks, marks
    assert not any("$" in mark for mark in marks)


# ---- layers of deep kernels, by hand ----------------------------------------------------------------


def test_lines_of_a_descent_are_its_columns():
    first = np.array([[0.2, 0.5, 0.3], [0.1, 0.6, 0.4], [0.1, 0.2, 0.9], [-0.1, 0.3, 0.8]])
    names, weights = [["p on all", "q", "r"], ["u", "v"]], [first, first[:, ::2]]
    display = plots.DescentDisplay(
        [4.0, 3.0, 2.0, 1.0], names, weights, [5.0, 4.0, 3.5, 3.6], [0.5, 0.4, 0.3, 0.35], 2
    ).plot(most=2)
    lines = (display.criterion_line_, display.validation_line_, display.error_line_)
    wanted = ([4.0, 3.0, 2.0, 1.0], [5.0, 4.0, 3.5, 3.6], [0.5, 0.4, 0.3, 0.35])
    for line, values in zip(lines, wanted, strict=True):
        np.testing.assert_array_equal(line.get_data(), [range(4), values])
    assert list(display.kept_line_.get_xdata()) == [2, 2]
    for own, w in zip(display.weight_lines_, weights, strict=True):
        np.testing.assert_allclose([line.get_ydata() for line in own], (w / w.sum(axis=1)[:, None]).T)
    shown = [[text.get_text() for text in ax.get_legend().get_texts()] for ax in display.layer_axes_]
    assert shown == [["r", "q"], ["v", "u"]]  # the largest weight of any step first
    np.testing.assert_allclose([ax.get_ylim()[0] for ax in display.layer_axes_], [-0.1, -0.1 / 0.7])
    assert display.ax_.get_ylabel() == "mean loss"
    for wrong in ({"names": [["p", "q"], ["u", "v"]]}, {"weights": [first[:3], first[:, :2]]}, {"kept": 4}):
        options = {"criterion": [4.0, 3.0, 2.0, 1.0], "names": names, "weights": weights, **wrong}
        with pytest.raises(kw.InputError):
            plots.DescentDisplay(**options)


def test_cells_of_layers_are_fractions_in_the_order_of_the_kernels():
    names, weights = (
        [["a on all", "b", "c", "c"], ["b", "c", "d"]],
        [np.array([0.8, 3.2, 0.0, 4.0]), [2.0, 1.0, 5.0]],
    )
    display = plots.LayerWeightsDisplay(names, weights).plot(most=4)
    # the smallest largest fraction is that of a, and the second c is another kernel than the first
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["b", "c", "c", "d"]
    assert display.ax_.get_title(loc="left") == "(1 more kernel)"
    cells = np.array([[0.4, 2 / 8], [0.0, 1 / 8], [4 / 8, np.nan], [np.nan, 5 / 8]])
    np.testing.assert_allclose(display.images_[0].get_array().filled(np.nan), cells, rtol=1e-12)
    assert [text.get_text() for text in display.texts_] == ["0.40", "0.25", "0", "0.12", "0.50", "0.62"]
    assert display.images_[0].get_clim() == (0.0, 5 / 8)
    two = plots.LayerWeightsDisplay([["a", "b"]], [np.array([[1.0, 0.0], [3.0, 2.0]])], ["u", "v"]).plot()
    np.testing.assert_allclose([one.get_array()[:, 0] for one in two.images_], [[0.25, 0.75], [0.0, 1.0]])
    small = plots.LayerWeightsDisplay([["a", "b"]], [np.array([0.0099, 0.9901])]).plot()
    assert [text.get_text() for text in small.texts_] == ["0.0099", "0.99"]


def test_numbers_in_cells_can_be_read_on_their_colours():
    """The contrast of the Web Content Accessibility Guidelines for large texts, of all shares."""
    w = np.arange(1.0, 25.0)
    display = plots.LayerWeightsDisplay([[str(k) for k in range(len(w))]], [w]).plot(most=len(w))

    def luminance(colour):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return np.dot([0.2126, 0.7152, 0.0722], linear)

    image = display.images_[0]
    for text, share in zip(display.texts_, image.get_array()[:, 0], strict=True):
        below, above = sorted([luminance(text.get_color()), luminance(image.to_rgba(share)[:3])])
        assert (above + 0.05) / (below + 0.05) >= 3.0, share


@pytest.mark.parametrize("name", ["accuracy", "R^2", ""])
def test_axes_of_scores_hold_all_values_and_have_round_steps(name, rng):
    values = [list(rng.uniform(-1, 1, 2) * 10.0**k) for k in range(-3, 3)]
    for pair in (*values, [0.0, 0.0], [0.2, 0.2], [-40.0, -40.0]):
        pair = [clip_score(value, name) for value in pair]
        low, high, step = score_axis(pair, name)
        assert low <= min(pair) <= max(pair) <= high
        assert float(f"{step:.1e}") == pytest.approx(step, rel=1e-9)
        assert 1.0 <= (high - low) / step <= 8.0 + 1e-9
        if pair[0] != pair[1]:
            # they fill the axis but for one step at either end
            assert high - low - (max(pair) - min(pair)) <= 2.0 * step * (1.0 + 1e-9)


def test_matrices_of_layers_are_sorted_scaled_and_bounded(rng):
    target = np.array([1, 0, 1, 0, 0])
    K = rng.normal(size=(5, 5))
    K = K @ K.T
    display = plots.KernelMatricesDisplay([3.0 * K], [K + 2.0], target).plot(name="Mine")
    order = [1, 3, 4, 0, 2]
    assert display.order_.tolist() == order
    expected = [
        K[np.ix_(order, order)] * 5.0 / np.trace(K),
        (K + 2.0)[np.ix_(order, order)] * 5.0 / np.trace(K + 2.0),
    ]
    for image, values in zip(display.images_[:, 0], expected, strict=True):
        np.testing.assert_allclose(image.get_array(), values, rtol=1e-12)
        # both have the colours of the middle 99 % of the values off the diagonal
        off = np.concatenate([one[~np.eye(5, dtype=bool)] for one in expected])
        np.testing.assert_allclose(image.get_clim(), np.quantile(off, [0.005, 0.995]), rtol=1e-12)
    # three rows of class 0, a border behind them, and names in the middle of their rows
    ax = display.axes_[0, 0]
    assert [line.get_ydata()[0] for line in ax.lines[::2]] == [2.5]
    assert ax.get_yticks().tolist() == [1.0, 3.5]
    assert labels(ax) == ["0", "1"]
    numbers = plots.KernelMatricesDisplay([K], [K], target, classes=False).plot().axes_[0, 0]
    assert (numbers.get_yticks().tolist(), labels(numbers), list(numbers.lines)) == (
        [0, 4],
        ["lowest", "highest"],
        [],
    )


def test_spectra_of_layers_leave_out_rounding_errors():
    before, after = [np.array([0.7, 0.3, 1e-11])], [np.array([0.9, 0.1, 0.0])]
    display = plots.LayerSpectraDisplay(before, after, [1.84], [1.38]).plot()
    for lines, values, word in (
        (display.before_lines_, [0.7, 0.3, np.nan], "equal weights: 1.84"),
        (display.after_lines_, [0.9, 0.1, np.nan], "learnt weights: 1.38"),
    ):
        np.testing.assert_array_equal(lines[0].get_xdata(), [1, 2, 3])
        np.testing.assert_array_equal(lines[0].get_ydata(), values)
        assert lines[0].get_label().endswith(word)
    assert display.before_lines_[0].get_color() == display.after_lines_[0].get_color()
    assert display.before_lines_[0].get_linestyle() == "--"


@pytest.fixture(scope="module")
def deep():
    return kw.MKLClassifier(kw.banks.mlmkl(), kw.learners.MLMKL(C=3.0, tol=1e-2), normalize="cosine").fit(
        X, LABELS
    )


@pytest.mark.parametrize("output", [None, "b"])
def test_displays_of_layers_draw_what_inspection_finds(deep, output):
    """With the options that they are given, and with layers before and after learning in their places."""
    found = inspection.layer_weights(deep, output=output)
    display = plots.LayerWeightsDisplay.from_estimator(deep, output=output)
    for own, wanted in zip(display.weights, found.weights, strict=True):
        np.testing.assert_array_equal(own, wanted)
    places = [text.get_position() for text in display.texts_]
    ticks = display.ax_.get_xticks()
    assert np.isin([column for column, _ in places], ticks).all()
    assert len(set(places)) == len(places)
    assert [image.get_extent()[0] for image in display.images_] == [
        tick - 0.5 for tick in ticks[:: len(found.weights)]
    ]
    for rows in (12, 500):
        display = plots.KernelMatricesDisplay.from_estimator(deep, output=output, max_rows=rows)
        for own, kind in ((display.before, "initial"), (display.after, "learnt")):
            wanted = inspection.layer_grams(deep, output=output, weights=kind, max_rows=rows).kernels
            assert wanted[0].shape == (min(rows, 40),) * 2
            np.testing.assert_array_equal(own, wanted)
    for center in (False, True):
        display = plots.LayerSpectraDisplay.from_estimator(deep, output=output, center=center, max_rows=15)
        for own, rank, kind in (
            (display.before, display.rank_before, "initial"),
            (display.after, display.rank_after, "learnt"),
        ):
            wanted = inspection.layer_spectra(deep, output=output, weights=kind, center=center, max_rows=15)
            np.testing.assert_array_equal(own, wanted.eigenvalues)
            np.testing.assert_array_equal(rank, wanted.effective_rank)


def test_the_descent_is_that_of_inspection(deep):
    for output in (None, "c"):
        found = inspection.descent(deep, output=output)
        display = plots.DescentDisplay.from_estimator(deep, output=output)
        np.testing.assert_array_equal(display.criterion, found.criterion)
        for own, wanted in zip(display.weights, found.weights, strict=True):
            np.testing.assert_array_equal(own, wanted)
        assert display.kept == found.kept


def test_relevance_of_columns_is_drawn_for_a_metric_alone(regression):
    model = kw.MKLRegressor(learner="metric").fit(X[:, :3], np.sin(2 * X[:, 1]))
    display = plots.ColumnRelevanceDisplay.from_estimator(model)
    shares = inspection.column_relevance(model)
    assert list(display.names) == list(shares)
    assert list(display.values) == list(shares.values())
    with pytest.raises(kw.InputError, match="learnt metric"):
        plots.ColumnRelevanceDisplay.from_estimator(regression)


# ---- pictures as they are drawn --------------------------------------------------------------------


def drawn(figure):
    """All artists of a figure as numbers and texts: what they show, where, in which colour, under which label."""

    def colour(value):
        return to_hex(value, keep_alpha=True)

    def label(one):
        # those that matplotlib makes begin so
        return "" if one.get_label().startswith("_") else one.get_label()

    def line(one):
        kind = [
            one.get_linestyle(),
            one.get_linewidth(),
            one.get_marker(),
            one.get_markersize(),
            one.get_drawstyle(),
        ]
        return [
            label(one),
            *map(np.asarray, one.get_data()),
            colour(one.get_color()),
            *kind,
            one.get_zorder(),
        ]

    def text(one):
        found = [
            one.get_text(),
            list(one.get_position()),
            colour(one.get_color()),
            one.get_ha(),
            one.get_va(),
        ]
        return [*found, one.get_rotation(), round(one.get_fontsize(), 2)]

    def bar(one):
        found = [*one.get_xy(), one.get_width(), one.get_height()]
        return [*map(float, found), colour(one.get_facecolor()), one.get_hatch(), label(one)]

    def area(one):
        corners = np.unique(one.get_paths()[0].vertices.round(9), axis=0)
        return [label(one), corners, [colour(c) for c in one.get_facecolor()]]

    def image(one):
        return [
            np.ma.filled(one.get_array().astype(float), np.nan),
            *one.get_clim(),
            one.cmap.name,
            list(one.get_extent()),
        ]

    def legend(ax, one):
        anchor = ax.transAxes.inverted().transform(one.get_bbox_to_anchor().p0)
        names, handles = [t.get_text() for t in one.get_texts()], len(one.legend_handles)
        return [
            names,
            handles,
            one.get_title().get_text(),
            one._loc,
            one.get_frame_on(),
            one._ncols,
            anchor.round(2),
        ]

    def axis(ax, which):
        one = getattr(ax, f"{which}axis")
        given = isinstance(one.get_major_locator(), FixedLocator)
        ticks = [one.get_ticklocs(), [t.get_text() for t in one.get_ticklabels()]] if given else None
        ends = np.array(getattr(ax, f"get_{which}lim")())
        return [one.get_label_text(), one.get_scale(), ends, ticks, colour(one.label.get_color())]

    def panel(ax):
        found = {
            "titles": [ax.get_title(loc=where) for where in ("left", "center", "right")],
            "x": axis(ax, "x"),
            "y": axis(ax, "y"),
            "lines": [line(one) for one in ax.lines],
            "texts": [text(one) for one in ax.texts],
            "bars": [bar(one) for one in ax.patches],
            "areas": [area(one) for one in ax.collections if isinstance(one, PolyCollection)],
            "images": [image(one) for one in ax.images],
            "legend": ax.get_legend() and legend(ax, ax.get_legend()),
            "shown": [ax.axison, *(name for name, one in ax.spines.items() if one.get_visible())],
        }
        return {name: one for name, one in found.items() if one}

    titles = [one.get_text() for one in figure.texts]
    return [*figure.get_size_inches(), titles, *map(panel, figure.axes)]


W = np.array([[0.5, 0.1], [0.3, np.inf], [0.15, 0.4], [0.05, 0.0]])
PATH = np.array([[0.0, 0.9, 0.1, 0.0], [0.2, 0.7, 0.1, 0.0], [0.5, -0.8, 0.3, 0.0]])
STEPS = np.array([[0.4, 0.3, 0.3], [0.5, 0.4, 0.1], [0.6, 0.45, -0.05]])
LAYERS = [["a on all", "b", "c" * 40], ["b", "d"]]
GROUPS = inspection.RiskGroups(
    ["low", "middle", "high"],
    [np.arange(4), np.arange(4, 9), np.arange(9, 11)],
    [np.array([2.0, 5.0]), np.array([1.0, 3.0, 4.0]), np.array([1.0])],
    [np.array([0.9, 0.5]), np.array([0.7, 0.4, 0.1]), np.array([0.3])],
    [np.array([0.1, 0.2]), np.array([0.1, 0.2, 0.1]), np.array([0.2])],
    [
        (np.array([0.7, 0.3]), np.array([0.95, 0.8])),
        (np.array([0.5, 0.2, 0.0]), np.array([0.8, 0.6, 0.3])),
        (np.array([0.1]), np.array([0.6])),
    ],
)
MADE = {
    "weights": (plots.KernelWeightsDisplay, (["first", "second" * 9, "c", "d"], W[:, 0]), {}),
    "some weights": (
        plots.KernelWeightsDisplay,
        (list("abcd"), W[:, 0]),
        {"most": 2, "name": "Mine", "color": "red"},
    ),
    "weights of classes": (plots.KernelWeightsDisplay, (list("abcd"), W, ["yes", "no"]), {"name": "Mine"}),
    "some of classes": (
        plots.KernelContributionsDisplay,
        (list("abcd"), np.nan_to_num(W, posinf=0.5), ["yes", "no"]),
        {"most": 3},
    ),
    "no weight": (plots.KernelWeightsDisplay, (list("ab"), [0.0, 0.0]), {"most": 1}),
    "relevance": (
        plots.ColumnRelevanceDisplay,
        ([f"x{k}" for k in range(23)], np.arange(23.0, 0.0, -1.0)),
        {},
    ),
    "layers": (plots.LayerWeightsDisplay, (LAYERS, [[1.0, 2.0, 0.004], [3.0, 0.0]]), {"name": "Mine"}),
    "layers of classes": (
        plots.LayerWeightsDisplay,
        (LAYERS, [W[[0, 2, 3]] * [1.0, 0.0], W[2:]], ["yes", "no"]),
        {"most": 3, "cmap": "gray"},
    ),
    "layers without weights": (plots.LayerWeightsDisplay, ([["a"]], [[0.0]]), {}),
    "path": (
        plots.RegularizationPathDisplay,
        ([9.0, 1.0, 0.1], [0.5, 1.5, 2.5], PATH, list("abcd"), 1, "weight"),
        {},
    ),
    "path by df": (
        plots.RegularizationPathDisplay,
        ([9.0, 1.0, 0.1], [0.5, 1.5, 2.5], PATH, list("abcd"), 2, "coefficient"),
        {"x": "df", "most": 1, "name": "Mine"},
    ),
    "path of C": (
        plots.RegularizationPathDisplay,
        ([9.0, 1.0, 0.1], [0.5, 1.5, 2.5], PATH, list("abcd"), None, "share", "C"),
        {"linewidth": 3},
    ),
    "curve": (
        plots.CVCurveDisplay,
        ([9.0, 1.0, 0.1], [0.5, 0.97, 0.2], [0.1, 0.1, 0.3], 1, "accuracy"),
        {"name": "Mine", "markersize": 7},
    ),
    "curve of C": (
        plots.CVCurveDisplay,
        ([9.0, 1.0, 0.1], [-0.5, -0.05, -0.2], [0.1, 0.1, 0.3], 2, "neg_log_loss", "C"),
        {},
    ),
    "criteria": (
        plots.SelectionCriteriaDisplay,
        (
            [9.0, 1.0, 0.1],
            {"bic": [3.0, 1.0, 2.0], "gcv": [1.0, np.inf, 0.5], "aic": [np.nan] * 3, "df": [1, 2, 3]},
            1,
        ),
        {"name": "Mine"},
    ),
    "four criteria": (
        plots.SelectionCriteriaDisplay,
        ([np.inf, 1.0, 0.1], {one: [3.0, 1.0, 2.0] for one in ("gcv", "aic", "bic", "cp")}),
        {"color": "red"},
    ),
    "groups": (plots.RiskGroupsDisplay, (GROUPS,), {"name": "Mine"}),
    "descent": (
        plots.DescentDisplay,
        ([3.0, 2.0, 1.0], [LAYERS[0], ["u", "v"]], [STEPS, STEPS[:, :2]]),
        {"most": 2},
    ),
    "descent of all": (
        plots.DescentDisplay,
        ([3.0, 2.0, 1.0], [list("abc")], [STEPS], [3.0, 2.5, 2.6], [0.5, 0.2, 0.3], 1, "RMSE"),
        {"name": "Mine", "linewidth": 2},
    ),
    "long descent": (
        plots.DescentDisplay,
        (
            np.arange(61.0, 0.0, -1.0),
            [[f"k{j}" for j in range(10)]],
            [np.cos(np.outer(np.arange(61), np.arange(10)) / 60)],
        ),
        {},
    ),
    "matrices": (
        plots.KernelMatricesDisplay,
        ([np.eye(4) + 1.0, np.eye(4) * 2.0], [np.eye(4) + 0.5, np.ones((4, 4))], np.array(list("baab"))),
        {"name": "Mine"},
    ),
    "matrices of numbers": (
        plots.KernelMatricesDisplay,
        ([np.zeros((3, 3))], [np.zeros((3, 3))], [3.0, 1.0, 2.0], False),
        {"cmap": "gray"},
    ),
    "spectra": (
        plots.LayerSpectraDisplay,
        ([[0.7, 0.3], [0.5, 0.5]], [[0.9, 0.1], [1.0, 1e-12]], [1.8, 2.0], [1.3, 1.0]),
        {"name": "Mine"},
    ),
    "no spectra": (plots.LayerSpectraDisplay, ([[0.0, 0.0]], [[0.0, 0.0]], [0.0], [0.0]), {"linewidth": 5}),
}


@pytest.mark.parametrize("name", MADE)
def test_pictures_have_all_that_they_are_given(name, recorded):
    """Every artist of a display of known numbers, with defaults and with options."""
    cls, numbers, options = MADE[name]
    display = cls(*numbers)
    assert display.plot(**options) is display
    assert getattr(display, "ax_", None) is None or display.ax_.figure is display.figure_
    recorded("artists", drawn(display.figure_), rtol=1e-5, atol=1e-7)


def test_pictures_of_models_have_all_that_these_say(recorded):
    """Of models whose weights need no solver that stops early: the numbers, labels and parameters of each display."""
    rng = np.random.default_rng(0)
    Z, bank = rng.normal(size=(24, 3)), kw.banks.linear_features(3)
    y, learner = Z[:, 0] + 0.4 * Z[:, 2] + 0.3 * rng.normal(size=24), RLS2(alpha=1.0, tol=1e-10)
    names = np.array(["u", "v", "w"])[np.digitize(y, [-0.5, 0.5])]
    frame = pd.DataFrame(Z, columns=["age", "bmi", "dose"])
    model, other = kw.MKLRegressor(bank, learner).fit(frame, y), kw.MKLClassifier(bank, learner).fit(Z, names)
    chosen = kw.MKLRegressorCV(bank, learner, alphas=[5.0, 1.0, 0.2], cv=3).fit(frame, y)
    costs = kw.MKLClassifierCV(bank, kw.learners.LpMKL(tol=1e-9), Cs=[0.1, 1.0], cv=3).fit(Z, y > 0)
    alphas = {"alphas": [4.0, 1.0]}
    made = {
        "weights": plots.KernelWeightsDisplay.from_estimator(model, most=2),
        "weights of classes": plots.KernelWeightsDisplay.from_estimator(other),
        "contributions": plots.KernelContributionsDisplay.from_estimator(other, Z[:9], name="Mine"),
        "layer": plots.LayerWeightsDisplay.from_estimator(other, output="v"),
        "layer of all": plots.LayerWeightsDisplay.from_estimator(other),
        "path": plots.RegularizationPathDisplay.from_estimator(other, output="w", **alphas, x="df"),
        "coefficients": plots.RegularizationPathDisplay.from_estimator(model, what="coef", **alphas),
        "coefficients of a class": plots.RegularizationPathDisplay.from_estimator(
            other, what="coef", **alphas
        ),
        "curve": plots.CVCurveDisplay.from_estimator(chosen),
        "criteria": plots.SelectionCriteriaDisplay.from_estimator(other, output=1, **alphas),
    }
    for name, display in made.items():
        recorded(name, drawn(display.figure_), rtol=1e-4, atol=1e-6)
    curve = plots.CVCurveDisplay.from_estimator(costs)
    assert (curve.parameter, curve.chosen, curve.ylabel) == ("C", costs.best_index_, "accuracy")
    path = plots.RegularizationPathDisplay.from_estimator(costs, Cs=[0.1, 1.0, 10.0])
    assert (path.parameter, path.ylabel, path.alphas.tolist()) == (
        "C",
        "kernel weight (fraction)",
        [10.0, 1.0, 0.1],
    )


def test_axes_and_names_of_pictures():
    from kernelweave.plots import drawing

    marks = {
        0.0: "0",
        -2.0: "-2",
        0.001: "0.001",
        1e4: "10000",
        1e5: "10⁵",
        2.5e-4: "2.5×10⁻⁴",
        123456.0: "1.23456×10⁵",
    }
    assert {value: drawing.power_text(value) for value in marks} == marks
    assert [drawing.short("x" * n, 5) for n in (5, 6)] == ["xxxxx", "xxxx…"]
    assert [len(drawing.short("x" * n)) for n in (44, 45, 60)] == [44, 44, 44]
    styles = [drawing.line_style(rank) for rank in (0, 7, 8, 16, 31, 32)]
    assert [one["color"] for one in styles] == [drawing.COLORS[k] for k in (0, 7, 0, 0, 7, 0)]
    assert [one["linestyle"] for one in styles] == ["-", "-", "--", ":", "-.", "-"]
    assert plots.__all__ == sorted(plots.__all__)
    figure, ax = plt.subplots()
    assert drawing.axes(ax, (9.0, 9.0)) == (figure, ax)
    assert drawing.axes(None, (3.0, 2.0))[0].get_size_inches().tolist() == [3.0, 2.0]
    drawing.legend(ax)
    assert ax.get_legend() is None
    ax.plot([1.0], [1.0], label="one")
    ax.legend()
    assert not drawing.is_beside(ax.get_legend(), ax)
    drawing.legend_beside(ax)
    assert drawing.is_beside(ax.get_legend(), ax)
    drawing.same_length({"a": [1], "b": [2]})
    with pytest.raises(
        kw.InputError, match=r"`b` must have as many entries as `a`, 1, got 2\. Leave out the others"
    ):
        drawing.same_length({"a": [1], "b": [1, 2], "c": [1]})
    drawing.check_place(2, "chosen", 3)
    drawing.check_place(None, "chosen", 0)
    with pytest.raises(kw.InputError, match="`chosen` must be a position from 0 to 2, got 3"):
        drawing.check_place(3, "chosen", 3)


def test_scores_end_where_they_can(recorded):
    names = [
        "r2",
        "R^2, held out",
        "d2_absolute_error_score",
        "explained_variance",
        "matthews_corrcoef",
        "neg_log_loss",
        "RMSE",
        "MAE, folds",
        "log loss",
        "Brier score",
        "integrated Brier score",
        "concordance",
        "accuracy",
        "balanced_accuracy",
        "top_k_accuracy",
        "f1_macro",
        "precision",
        "recall of a",
        "jaccard",
        "roc_auc",
        "average_precision",
        "Hamming accuracy",
        "subset accuracy",
        "fraction of rows",
        "score",
        "F1 (macro)",
    ]
    recorded("ranges", {name: list(score_range(name)) for name in names})
    recorded(
        "clipped", {name: [clip_score(value, name) for value in (-3.0, 0.5, 2.0)] for name in names[:14]}
    )
    recorded(
        "axes",
        [
            score_axis(list(values), name)
            for name in ("accuracy", "RMSE", "")
            for values in ((), (0.3,), (0.0, 0.0), (0.91, 0.998), (-2.0, 7.0), (120.0, 410.0))
        ],
    )
    values = (0.0, -1e-9, 0.12345, 0.99996, 3.14159, 152.34, 99.96, 123456.7, -2.5)
    shown = {
        f"{form}, {n}": [rounded(value, n, form) for value in values]
        for form in ("score", "percent", "units", "fraction")
        for n in (0, 1, 9, 10, 100, 101, 1001, 10**6)
    }
    recorded("rounded", shown)
