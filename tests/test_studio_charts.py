"""What charts of the studio draw: one class at a time, one colour for one meaning, axes that end where scores end.

Modules: `studio/pages/charts`, `studio/pages/frame`, `studio/pages/runs`, `studio/pages/understand`.
"""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("nicegui")

from nicegui import Client
from nicegui.page import page

from kernelweave_app.studio.pages import charts
from kernelweave_app.studio.pages.charts import live_chart, rows_chart
from kernelweave_app.studio.pages.runs import MEAN, NEWEST, LivePath, chosen_points, outputs_of
from kernelweave_app.studio.pages.understand import PathCard
from kernelweave_app.studio.schema import HeldResult, PathPoint, PathPoints, PathResult, Receiver


def points_of(*paths):
    """Points of several paths (stage, output, alphas, weight of kernel 0), one path after another."""
    found = []
    for stage, output, alphas, weight in paths:
        for alpha in alphas:
            found.append(
                PathPoint(
                    number=len(found) + 1, stage=stage, output=output, alpha=alpha, rel_gap=0.0, n_active=1,
                    weights={0: weight} if output != "c" else {1: weight},
                )
            )  # fmt: skip
    return found


ALPHAS = [float(a) for a in np.geomspace(10, 0.1, 8)]


def test_the_live_path_has_a_chart_as_soon_as_it_has_points():
    with Client(page("")):
        live = LivePath()
        live.build()
        assert (live.chart.visible, live.empty.visible, live.pick.visible) == (False, True, False)
        live.add(PathPoints(points=points_of(("fold 1", "a", ALPHAS, 0.2)), kernels=["k", "l"]))
        assert (live.chart.visible, live.empty.visible, live.pick.visible) == (True, False, False)
        live.add(PathPoints(points=points_of(("fold 1", "b", ALPHAS, 0.2)), kernels=["k", "l"]))
        assert live.pick.visible


def x_of(chart):
    return [[x for x, _ in series["data"]] for series in chart["series"]]


def test_the_live_path_draws_one_class_at_a_time():
    points = points_of(
        ("fold 1", "a", ALPHAS, 0.2), ("fold 1", "b", ALPHAS, 0.4), ("fold 1", "c", ALPHAS[:3], 0.6)
    )
    assert outputs_of(points) == ["a", "b", "c"]
    # the newest has just begun, so that the one before it is shown
    assert {p.output for p in chosen_points(points, NEWEST)} == {"b"}
    assert [p.alpha for p in chosen_points(points, "a")] == ALPHAS
    mean = chosen_points(points, MEAN)
    assert [p.alpha for p in mean] == ALPHAS[:3]
    for point in mean:
        assert point.weights == pytest.approx({0: 0.2, 1: 0.2})
    for choice in (NEWEST, MEAN, "a", "b", "c"):
        for x in x_of(live_chart(["k", "l"], chosen_points(points, choice), ALPHAS)):
            assert x == sorted(x, reverse=True)  # no zigzag
            assert len(set(x)) == len(x)


def test_of_several_stages_the_newest_with_points_is_drawn():
    points = points_of(
        ("fold 1", "a", ALPHAS, 0.2), ("fold 1", "b", ALPHAS, 0.2), ("fold 2", "a", ALPHAS, 0.4)
    )
    assert {p.stage for p in chosen_points(points, "b")} == {"fold 1"}
    assert {p.stage for p in chosen_points(points, "a")} == {"fold 2"}
    assert {(p.stage, p.output) for p in chosen_points(points, NEWEST)} == {("fold 2", "a")}
    assert {p.stage for p in chosen_points(points, MEAN)} == {"fold 1"}
    assert chosen_points([], NEWEST) == []
    alone = points_of(("all rows", "", ALPHAS, 0.2))
    assert chosen_points(alone, NEWEST) == alone


# ---- colours --------------------------------------------------------------------------------------------------------


def contributions():
    from kernelweave_app.studio.schema import Contributions

    values = [[[0.5, -0.2], [-1.0, 0.1], [0.0, 0.3]]]
    return Contributions(
        rows=["1", "2", "3"], kernels=["a", "b"], outputs=["yes"], values=values, intercepts=[0.1], held=True
    )


def test_one_colour_raises_and_one_lowers():
    """Bars, heat map, legend and style sheet: all from one module."""
    from types import SimpleNamespace

    from kernelweave._drawing import GREY, LOWERS, RAISES, SIGNED, explain_signs
    from kernelweave_app.studio.pages import charts
    from kernelweave_app.studio.pages.frame import CSS
    from kernelweave_app.studio.pages.understand import ContributionsCard

    card = ContributionsCard("run", SimpleNamespace(contributions=contributions()))
    bars = card.options()
    drawn = {name: part for name, part in zip(bars["yAxis"]["data"], bars["series"][0]["data"], strict=True)}
    colours = {name: part["itemStyle"][":color"] for name, part in drawn.items()}
    assert (drawn["a"]["value"], drawn["b"]["value"]) == (0.5, -0.2)
    assert (colours["a"], colours["b"]) == ("kw('raises')", "kw('lowers')")
    assert colours["sum"] == colours["intercept"] == charts.colour(charts.TOTAL)
    assert f"--raises: {RAISES};" in CSS
    assert f"--lowers: {LOWERS};" in CSS
    assert f"--c{charts.TOTAL + 1}: {GREY};" in CSS
    # colours are not given again for dark ground
    assert CSS.count("--raises:") == CSS.count("--c1:") == 1
    scale = card.heat()["visualMap"]
    assert (scale["min"], scale["max"]) == (-1.0, 1.0)
    assert scale["inRange"]["color"] == list(SIGNED)
    assert (SIGNED[0], SIGNED[-1]) == (LOWERS, RAISES)
    assert explain_signs() == "Blue raises the decision value, orange lowers it."
    red, green, blue = (int(RAISES[k : k + 2], 16) for k in (1, 3, 5))
    assert blue > green > red
    red, green, blue = (int(LOWERS[k : k + 2], 16) for k in (1, 3, 5))
    assert red > green > blue


def test_signs_are_explained_in_one_place():
    """No page and no figure has words of its own about what a colour means."""
    import re
    from pathlib import Path

    import kernelweave

    root = Path(kernelweave.__file__).parent
    said = [
        path.relative_to(root).as_posix()
        for kind in ("*.py", "*.html", "*.js")
        for path in root.rglob(kind)
        if re.search(r"\b(blue|orange)\b[^.]{0,30}\b(raises|lowers)", path.read_text(encoding="utf8"), re.I)
    ]
    assert said == ["_drawing.py"]


def receiver(output):
    from kernelweave_app.studio.schema import Receiver

    line = {"fpr": [0.0, 1.0], "tpr": [0.0, 1.0], "precision": [1.0, 0.0], "recall": [0.0, 1.0]}
    return Receiver(output=output, auc=0.5, average_precision=0.5, **line)


def many_classes(n_classes, n_rows, seed=0):
    """Classes with long names, a column for each."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    codes = np.arange(n_rows) % n_classes
    X = rng.normal(size=(n_rows, n_classes))
    X[np.arange(n_rows), codes] += 2.0
    table = pd.DataFrame(X, columns=[f"gene expression {k}" for k in range(n_classes)])
    table["target"] = [f"cell type number {k:02d}" for k in codes]
    return table


@pytest.fixture(scope="module")
def several():
    """A model of seven classes, and its held-out rows, among which one class is missing."""
    from kernelweave_app.runs.fitting import fit_model, make_model
    from kernelweave_app.runs.joining import Joined
    from kernelweave_app.runs.preparing import prepare, split
    from kernelweave_app.runs.spec import Spec
    from kernelweave_app.runs.writing import score_held

    settings = {"target": "target", "alphas": "3", "cv": 2, "kernels": "linear; rbf(gamma=0.1)"}
    spec = Spec(**settings, test_size=0.3, method="simple", Cs="3")
    prepared = prepare(Joined(many_classes(7, 140), {}, {}, {}), spec)
    train, test = split(prepared, spec)
    model = fit_model(make_model(spec, prepared, test), prepared, train, None)
    test = test[prepared.y[test] != "cell type number 02"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the class that is missing
        return model, score_held(model, prepared, test), prepared.X.iloc[train]


def test_classes_have_one_colour_on_pages_and_on_paper(several):
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_hex

    from kernelweave._drawing import COLOURS
    from kernelweave.plots import KernelWeightsDisplay
    from kernelweave.plots.drawing import COLORS
    from kernelweave_app.reports.figures import ranking_figure
    from kernelweave_app.studio.pages import charts
    from kernelweave_app.studio.pages.frame import CSS, N_COLOURS

    assert COLORS == COLOURS
    assert len(set(COLOURS)) == N_COLOURS
    for k, value in enumerate(COLOURS, start=1):
        assert f"--c{k}: {value};" in CSS
    model, held, _ = several
    classes = [str(name) for name in model.classes_]
    bars = KernelWeightsDisplay.from_estimator(model)
    on_paper = {
        label: to_hex(part[0].get_facecolor()).upper()
        for label, part in zip(bars.outputs, bars.bars_, strict=True)
    }
    assert list(on_paper) == classes
    on_page = charts.bars_chart(["k"], [[0.1] * 7], classes, "weight")["series"]
    for k, name in enumerate(classes):
        assert on_paper[name] == COLOURS[k]
        assert on_page[k]["itemStyle"][":color"] == f"kw('c{k + 1}')"
    # one class is not among the held-out rows, and the others keep their colours
    shown = [name for name in classes if not name.endswith("02")]
    ranked = HeldResult(
        scores={}, columns=[], rows=[], receivers=[receiver(name) for name in shown], classes=classes
    )
    chart = charts.receiver_chart(ranked, precision=False)
    figure = ranking_figure(held, "roc")
    lines = {
        line.get_label().split(" (")[0]: to_hex(line.get_color()).upper() for line in figure.axes[0].lines
    }
    assert list(lines) == shown
    for name, series in zip(shown, chart["series"], strict=False):
        k = classes.index(name)
        assert series["name"].startswith(name)
        assert series["lineStyle"][":color"] == f"kw('c{k + 1}')"
        assert lines[name] == COLOURS[k]
    chance = chart["series"][-1]
    assert chance["name"] == "chance"
    assert chance["data"] == [[0, 0], [1, 1]]
    plt.close("all")


def test_nothing_is_printed_over_something_else(several):
    """Figures of seven classes with long names: no legend on data, no label on another."""
    from figure_checks import legends_on_data, overprinted
    from kernelweave_app.reports import close, draw_pictures

    model, held, X = several
    seen = set()
    for picture in draw_pictures(model, held, X, with_path=False):
        seen.add(picture.name)
        assert overprinted(picture.figure) == [], picture.name
        assert legends_on_data(picture.figure) == [], picture.name
        close(picture.figure)
    assert seen >= {"weights", "choice", "contributions", "held-out", "roc", "precision", "convergence"}


def test_the_checks_of_figures_can_fail():
    import matplotlib.pyplot as plt

    from figure_checks import legends_on_data, overprinted

    figure, ax = plt.subplots(figsize=(3, 3))
    ax.barh(range(5), [1.0] * 5, label="bars")
    ax.set_xticks([0, 0.1, 0.2], ["a long name"] * 3)
    ax.legend(loc="lower right")
    assert any("on 'a long name'" in pair for pair in overprinted(figure))
    assert legends_on_data(figure)
    plt.close(figure)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n_classes", [2, 5, 12, 30])
def test_confusion_matrices_grow_with_their_classes(n_classes):
    import matplotlib.pyplot as plt

    from figure_checks import overprinted
    from kernelweave_app.reports.figures import confusion_figure

    classes = [f"cell type number {k:02d}" for k in range(n_classes)]
    rng = np.random.default_rng(0)
    truth = np.array(classes)[rng.integers(n_classes, size=1500)]
    figure = confusion_figure(classes, truth, truth)
    ax = figure.axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == classes
    assert overprinted(figure) == []
    counts = [text.get_text() for text in ax.texts]
    assert len(counts) == (n_classes**2 if n_classes <= 24 else 0)
    if counts:
        assert sum(map(int, counts)) == 1500
    plt.close(figure)


# ---- axes -----------------------------------------------------------------------------------------------------------


RANGES = {
    "accuracy": (0.0, 1.0),
    "balanced_accuracy": (0.0, 1.0),
    "roc_auc_ovr": (0.0, 1.0),
    "F1 (macro), held out": (0.0, 1.0),
    "R^2, folds": (-np.inf, 1.0),
    "neg_root_mean_squared_error": (-np.inf, 0.0),
    "log loss, held out": (0.0, np.inf),
    "matthews_corrcoef": (-1.0, 1.0),
    "something else": (-np.inf, np.inf),
}
MEANS = (-0.97, 0.0, 0.02, 0.5, 0.98, 1.0)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("score", "low", "high", "mean"),
    [(name, *ends, mean) for name, ends in RANGES.items() for mean in MEANS if ends[0] <= mean <= ends[1]],
)
def test_axes_of_scores_end_where_scores_end(score, low, high, mean):
    import matplotlib.pyplot as plt

    from kernelweave.plots import CVCurveDisplay
    from kernelweave_app.studio.pages.charts import curve_chart, dots_chart
    from kernelweave_app.studio.schema import Curve

    curve = Curve(
        alphas=[10.0, 1.0, 0.1], mean=[mean] * 3, error=[0.6, 0.05, 0.0], folds=[], chosen=1, best=1, rule="min",
        score=score,
    )  # fmt: skip
    chart = curve_chart([("mean", curve)], score=score)
    ends = chart["yAxis"]
    assert low <= ends["min"] < ends["max"] <= high
    bottom, band = ([y for _, y in series["data"]] for series in chart["series"][:2])
    for a, size in zip(bottom, band, strict=True):
        assert low <= a <= mean <= a + size + 1e-12
        assert a + size <= high + 1e-12
        assert ends["min"] <= a
        assert a + size <= ends["max"] + 1e-12
    dots = dots_chart(["a", "b"], [(mean, max(low, mean - 0.6), min(high, mean + 0.6)), (None,) * 3], score)
    assert low <= dots["xAxis"]["min"] < dots["xAxis"]["max"] <= high
    assert dots["xAxis"]["min"] <= mean <= dots["xAxis"]["max"]
    shown = CVCurveDisplay(curve.alphas, curve.mean, curve.error, 1, score).plot()
    assert low <= shown.ax_.get_ylim()[0] < shown.ax_.get_ylim()[1] <= high
    drawn = shown.band_.get_paths()[0].vertices[:, 1]
    assert low <= drawn.min()
    assert drawn.max() <= high
    plt.close("all")


def test_round_axes():
    from kernelweave._drawing import score_axis

    assert score_axis([0.91, 0.998], "accuracy") == (0.9, 1.0, 0.02)
    assert score_axis([0.0, 1.0], "f1") == (0.0, 1.0, 0.2)
    assert score_axis([-0.4, 0.7], "R^2") == (-0.5, 0.75, 0.25)
    low, high, step = score_axis([1.0, 1.0], "accuracy")
    assert low < 1.0 == high
    assert step > 0


# ---- weights of views -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["2lmkl", "rls2"])
def test_weights_of_views_are_fractions_of_all_weights(method):
    from sklearn.datasets import load_wine

    import kernelweave as kw
    from kernelweave_app.studio.results import describe_weights

    frame = load_wine(as_frame=True).frame.iloc[::2]
    X, y = frame[["alcohol", "ash", "hue", "proline"]], frame["target"]
    views = {"body": ["alcohol", "ash"], "rest": ["hue", "proline"]}
    kernels = kw.banks.views(views, [kw.kernels.Linear(), kw.kernels.RBF(0.1)])
    learner = {"max_iter": 3} if method == "2lmkl" else {}
    model = kw.MKLClassifier(kernels, kw.learners.LEARNERS[method](**learner), normalize="cosine").fit(X, y)
    shown = describe_weights(model)
    assert shown.views == kw.inspection.view_weights(model)
    assert sum(shown.views.values()) == pytest.approx(1.0)


def test_contributions_of_rows_stand_at_their_kernels():
    values = {"p": [1.0, 2.0, 3.0], "q": [-1.0, 0.5, -2.0]}
    chart = rows_chart(["a", "b", "c"], list(values), list(values.values()))
    rows, kernels = chart["xAxis"]["data"], chart["yAxis"]["data"]
    # the row with the smallest sum on the left, the first kernel on top
    assert (rows, kernels) == (["q", "p"], ["c", "b", "a"])
    found = {(rows[i], kernels[j]): v for i, j, v in chart["series"][0]["data"]}
    assert found == {(row, k): v for row in values for k, v in zip("abc", values[row], strict=True)}


# ---- options by hand --------------------------------------------------------------------------------


def named(chart, *wanted):
    """Data of the series with these names."""
    found = {one.get("name"): one["data"] for one in chart["series"]}
    return [found[name] for name in wanted]


def test_lines_of_a_path_and_of_scores():
    weights = [[0.0, 0.2, 0.0], [0.5, 0.1, 0.0], [0.4, 0.3, 0.0]]
    chart = charts.path_chart([3.0, None, 1.0], ["a", "b", "c"], weights, by="alpha", cursor=2, chosen=0)
    assert [one["name"] for one in chart["series"]] == [
        "a",
        "b",
    ]  # the largest weight first, no line without any
    assert named(chart, "b") == [[[3.0, 0.2], [1.0, 0.3]]]
    assert (chart["xAxis"]["min"], chart["xAxis"]["max"], chart["xAxis"]["type"]) == (1.0, 3.0, "log")
    assert chart["series"][0]["markLine"]["data"] == [{"xAxis": 1.0}]
    assert chart["series"][0]["markPoint"]["data"] == [{"coord": [3.0, 0]}]
    low, size = charts.band([(1.0, 0.25, 0.75), (2.0, 0.5, 0.5)], 0, "x")
    assert (low["data"], size["data"]) == ([[1.0, 0.25], [2.0, 0.5]], [[1.0, 0.5], [2.0, 0.0]])
    found = {
        "sizes": [10, 20, 40],
        "mean": [0.5, None, 0.8],
        "low": [0.25, None, 0.75],
        "high": [0.75, None, 1.5],
        "score": "accuracy",
    }
    chart, _ = charts.learning(found)
    assert named(chart, "score", "low interval") == [[[10, 0.5], [40, 0.8]], [[10, 0.25], [40, 0.75]]]
    assert chart["yAxis"]["max"] <= 1.0
    histories = [("u", {"rel_gap": [0.5, None, 0.0, 1e-3]}), ("v", {"rel_gap": [0.1]})]
    chart = charts.convergence_chart(histories, "rel_gap")
    assert named(chart, "u") == [[[1, 0.5], [4, 1e-3]]]
    assert chart["yAxis"]["type"] == "log"
    assert chart["yAxis"]["name"] == "relative gap"
    assert (
        charts.convergence_chart([("u", {"objective": [2.0, -1.0]})], "objective")["yAxis"]["type"] == "value"
    )


def test_bars_cells_and_dots():
    chart = charts.contributions_chart(["a", "b"], [2.0, -0.5], 0.25)
    assert [one["value"] for one in chart["series"][0]["data"]] == [1.75, -0.5, 2.0, 0.25]  # the last on top
    assert chart["yAxis"]["data"] == ["sum", "b", "a", "intercept"]
    chart = charts.bars_chart(["a", "b"], [[0.75, 0.1], [0.25, 0.9]], ["u", "v"], "weight")
    assert named(chart, "u", "v") == [[0.25, 0.75], [0.9, 0.1]]
    chart = rows_chart(["a", "b"], ["r", "s"], [[2.0, 1.0], [-4.0, 0.5]])
    assert chart["xAxis"]["data"] == ["s", "r"]
    assert chart["series"][0]["data"] == [[0, 1, -4.0], [0, 0, 0.5], [1, 1, 2.0], [1, 0, 1.0]]
    assert (chart["visualMap"]["min"], chart["visualMap"]["max"]) == (-4.0, 4.0)
    chart = charts.heat_chart(["one", "two"], ["a", "b"], [[0.1, 0.2], [0.3, 0.9]])
    assert chart["series"][0]["data"] == [[0, 0, 0.1], [1, 0, 0.2], [0, 1, 0.3], [1, 1, 0.9]]
    dots = [(0.5, 0.25, 0.75), (None, None, None), (0.75, None, None)]
    chart = charts.dots_chart(["a", "b", "c"], dots, "R^2")
    [dots] = chart["series"]
    assert [one["value"] for one in dots["data"]] == [[0.75, 0], [0.5, 2]]
    assert [[end["coord"] for end in ends] for ends in dots["markLine"]["data"]] == [[[0.25, 2], [0.75, 2]]]


def test_held_out_rows_and_evidence():
    for residuals, up, ends in (
        (True, [-0.5, 1.0], [[1.0, 0.0], [1.5, 0.0]]),
        (False, [1.0, 2.0], [[1.0, 1.0], [2.0, 2.0]]),
    ):
        dots, line = charts.residual_chart([1.0, 2.0], [1.5, 1.0], residuals=residuals)["series"]
        assert dots["data"] == [[1.5, up[0]], [1.0, up[1]]]
        assert line["data"] == ends
    one = Receiver(
        output="v",
        fpr=[0.0, 1.0],
        tpr=[0.5, 1.0],
        auc=0.75,
        precision=[0.2, 1.0],
        recall=[1.0, 0.5],
        average_precision=0.6,
    )
    ranked = HeldResult(scores={}, columns=[], rows=[], n_rows=101, receivers=[one, one], classes=["u", "v"])
    chart = charts.receiver_chart(ranked, precision=False)
    assert chart["series"][0]["data"] == [[0.0, 0.5], [1.0, 1.0]]
    assert chart["series"][0]["lineStyle"][":color"] == charts.colour(1)  # that of its class
    ranked.receivers = [one]
    assert named(charts.receiver_chart(ranked, precision=True), "v (0.600)") == [[[1.0, 0.2], [0.5, 1.0]]]
    permuted = [*np.linspace(1.0, 2.0, 21)]
    chart, _ = charts.permutation({"permuted": permuted, "score": 2.5})
    corners, true = (one["data"] for one in chart["series"])
    # five bars of width 0.2; the last one has both ends
    assert [n for _, n in corners] == [0, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 0]
    np.testing.assert_allclose([x for x, _ in corners[1:-1:2]], [1.0, 1.2, 1.4, 1.6, 1.8], atol=1e-12)
    assert true == [[2.5, 0], [2.5, 5]]
    assert (chart["xAxis"]["min"], chart["xAxis"]["max"]) == (0.8, 2.7)
    found = {"weights": [[0.25], [0.75]], "names": ["a", "b"], "outputs": ["w"]}
    chart, _ = charts.stability({**found, "low": [[0.3], [0.5]], "high": [[0.4], [0.7]]})
    assert chart["yAxis"][0]["data"] == ["a", "b"]
    points = [one["data"] for one in chart["series"][:4]]
    # a line goes from the bar to the far end of its interval
    assert points == [
        [[0.0, 1.0], [0.75, 1.0]],
        [[0.5, 1.0], [0.75, 1.0]],
        [[0.0, 0.0], [0.25, 0.0]],
        [[0.25, 0.0], [0.4, 0.0]],
    ]
    several = {"weights": [[0.1, 0.3], [0.6, 0.2]], "names": ["a", "b"], "outputs": ["v", "w"]}
    chart, _ = charts.stability({**several, "low": [[0.0] * 2] * 2, "high": [[1.0] * 2] * 2})
    # bars of two outputs are side by side within the place of their kernel
    heights = [one["data"][0][1] for one in chart["series"] if one.get("z") == 3]
    np.testing.assert_allclose(heights, [1.2, 0.2, 0.8, -0.2], atol=1e-12)
    # lines between two points say nothing of their own under the pointer
    assert [one["tooltip"] for one in chart["series"][:4]] == [{"show": False}] * 4


def test_the_cursor_goes_along_the_path_that_is_shown(monkeypatch):
    # drawing again would wait for a browser
    monkeypatch.setattr(PathCard, "draw", lambda _: None)

    def path(output, *df, chosen):
        alphas = [10.0**-k for k in range(len(df))]
        weights = [[k, 10.0 - k] for k in range(len(df))]
        more = {"alphas": alphas, "df": df, "chosen": chosen, "output": output}
        return PathResult(
            parameter="alpha", n_active=[2] * len(df), names=["a", "b"], weights=weights, **more
        )

    paths = [path("u", 1.0, 3.0, 9.0, chosen=1), path("v", 1.0, None, chosen=0)]
    with Client(page("")):
        card = PathCard("a run", SimpleNamespace(paths=paths, curve=None))
        card.build()
        assert (card.slider.props["min"], card.slider.props["max"], card.slider.value) == (0, 2, 1)
        for place, at in ((0.09, 1), (0.02, 2), (1e-9, 2), (0.5, 0), (0.0, 2)):
            card.clicked(SimpleNamespace(args=place))
            assert (card.slider.value, card.cursor) == (at, at)
            assert card.slider.props["label-value"] == f"alpha {paths[0].alphas[at]:.3g}"
        card.turn(by="df")
        assert [card.nearest(place) for place in (0.0, 2.1, 6.5)] == [0, 1, 2]
        card.turn(which=1)
        assert (card.slider.props["max"], card.slider.value, card.cursor) == (1, 0, 0)
        assert card.nearest(99.0) == 0


def test_the_model_at_the_cursor_has_its_numbers():
    """Kernels with a weight, the largest ones first, how many more there are, and the score at its alpha alone."""
    names, weights = [f"k{k}" for k in range(12)], [0.0, *[0.05] * 9, 0.55, 0.0]
    path = PathResult(
        parameter="alpha", alphas=[2e9, 1e9, 1e-9], df=[1.0, None, 2.0], n_active=[0, 10, 1], names=names,
        weights=[[0.0] * 12, weights, [1.0] + [0.0] * 11], chosen=1, output="",
    )  # fmt: skip
    curve = SimpleNamespace(alphas=[1e9 * (1 + 1e-9), 2e-9], mean=[0.875, 0.5], score="accuracy", n_rows=40)
    card = PathCard("a run", SimpleNamespace(paths=[path], curve=curve))
    assert [card.score_at(alpha) for alpha in path.alphas] == [None, 0.875, None]

    def said():
        with Client(page("")) as client:
            card.at_cursor()
            return [one.text for one in client.content.descendants() if getattr(one, "text", "")]

    found = said()
    assert found[:2] == ["alpha 1e+09", "chosen"]
    assert [one for one in found if one[0] == "k" and one[1:].isdigit()] == ["k10", *names[1:8]]
    assert "and 2 more kernels with 10.0 %" in found
    assert "accuracy over folds" in found
    card.cursor = 0
    found = said()
    assert found[-1] == "No kernel has a weight here."
    assert not {"chosen", "accuracy over folds"} & set(found)


def test_an_axis_has_ends_only_where_they_differ():
    points = points_of(("all rows", "", [0.1], 0.2))
    for alphas, ends in [([0.1, 10.0], (0.1, 10.0)), ([0.1], None), ([], None)]:
        axis = live_chart(["k"], points, alphas)["xAxis"]
        axis = axis[0] if isinstance(axis, list) else axis
        assert ("min" in axis) == (ends is not None)
        assert ends is None or (axis["min"], axis["max"]) == ends
