"""Reports: complete, self-contained, and safe to open.

Modules: `reports`, `reports/figures`, `reports/printing`.
"""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_wine

pytest.importorskip("jinja2")

import kernelweave as kw
from kernelweave.inspection.held import HeldOut
from kernelweave_app.reports import _matters, make_report


@pytest.fixture(scope="module")
def report():
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = X.iloc[:, :4].rename(columns={"ash": "<script>alert(1)</script>"})
    model = kw.MKLClassifierCV(kw.banks.per_column(X), standardize=True, n_alphas=5, cv=3).fit(X, y)
    held = HeldOut.of_columns(model, {"prediction": model.predict(X)}, y)
    text = make_report(model, title="wine & co", data=["some rows"], settings={"seed": 7}, held=held, X=X)
    return model, text


@pytest.mark.slow
def test_everything_is_in_it(report):
    model, text = report
    for part in (
        "wine &amp; co",
        "some rows",
        "seed",
        "Certificate",
        "relative gap",
        "Stored as",
        "numpy",
        "Dinuzzo",
    ):
        assert part in text
    assert text.count("<svg") == 8
    assert "Selection criteria along the path (0 against the rest)" in text
    assert f"{model.objective_:.10g}" in text
    heaviest = str(model.kernel_names_[np.argmax(model.weights_.sum(axis=0))])
    assert heaviest in text


def test_uninformative_kernels_are_named(rng):
    X = rng.normal(size=(30, 3))
    bank = [kw.kernels.Linear(), kw.kernels.RBF(gamma=1e4), kw.kernels.Constant(), kw.kernels.RBF(gamma=1e5)]
    model = kw.MKLRegressor(bank, kw.learners.RLS2(alpha=1.0), normalize="trace")
    model.fit(X, X[:, 0])
    text = make_report(model, title="t", data=[], settings={})
    names = [str(name) for name in model.kernel_names_]
    identities = (
        f"2 kernels are the identity on the training rows: in them no row is similar to another ({names[1]}, "
    )
    assert f"<li>{identities}{names[3]}).</li>" in text
    assert (
        f"<li>1 kernel is constant on the training rows: in them all rows are equal ({names[2]}).</li>"
        in text
    )
    short = kw.inspection.uninformative(model, most=1)[0]
    assert short.endswith(f"({names[1]} and 1 more).")


def test_nothing_is_loaded_from_elsewhere(report):
    text = report[1]
    # namespaces of SVG are names, not addresses that are fetched
    rest = re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert "http://" not in rest
    assert "https://" not in rest
    assert "default-src 'none'" in text


def test_defaults_are_told():
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = kw.MKLClassifier(C=1.0).fit(X.iloc[:, :4], y)
    text = make_report(model, title="wine", data=[], settings={})
    assert "What was left to defaults" in text
    assert "4 columns, 0 % of the numeric cells zero: standardised" in text


def test_column_names_are_text(report):
    assert "<script>" not in report[1]
    assert "&lt;script&gt;" in report[1]


def test_figures_of_numbers_have_the_truth_and_what_is_left_of_it():
    from kernelweave_app.reports import close
    from kernelweave_app.reports.figures import held_figure, residual_figure

    held = HeldOut(np.array([1.0, 2.0, 4.0]), np.array([1.5, 1.0, 7.0]))
    for draw, up in ((held_figure, held.truth), (residual_figure, [-0.5, 1.0, -3.0])):
        figure = draw(held)
        [dots] = [line for line in figure.axes[0].lines if line.get_marker() == "."]
        np.testing.assert_array_equal(dots.get_xydata(), np.c_[held.prediction, up])
        close(figure)


def test_bars_over_halves_have_the_names_of_their_kernels():
    from kernelweave.inspection.registry import Finding
    from kernelweave_app.reports.figures import draw_findings

    weights = [[0.1], [0.6], [0.3]]
    details = {"names": ["a", "b", "c"], "outputs": ["weight"], "weights": weights}
    details |= {"low": weights, "high": weights}
    [picture] = draw_findings({"stability": Finding(n=10, details=details)})
    [ax] = picture.figure.axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["b", "c", "a"]
    assert [bar.get_width() for bar in ax.patches] == [0.6, 0.3, 0.1]


def test_a_finding_that_is_declared_anywhere_is_shown_everywhere(report, monkeypatch, tmp_path, capsys):
    """One declaration, and no other edit: terminal, report, page, tables for papers, and the file of evidence."""
    from kernelweave.inspection.registry import (
        REGISTRY,
        Basis,
        Finding,
        Interval,
        Table,
        at,
        collect,
        finding,
        tables_of,
    )  # fmt: skip
    from kernelweave_app.cli.console import print_findings
    from kernelweave_app.runs.evidence import read_evidence, write_evidence

    monkeypatch.setattr("kernelweave.inspection.registry.REGISTRY", dict(REGISTRY))

    @finding("gini", title="Concentration of the weights", needs=("model",))
    def gini(basis):
        values = np.sort(list(kw.inspection.view_weights(basis.model).values()))
        places = np.arange(1, len(values) + 1)
        index = float((2 * places - len(values) - 1) @ values / (len(values) * values.sum()))
        table = Table.of("gini", "Concentration of the weights", {"number": ["Gini"], "value": [index]})
        made = Finding({"Gini index": Interval(index)}, "0 for equal weights.", tables=(table,))
        return made.says("which", "The Gini index of the weights is {v:.3f}.", v=at("Gini index"))

    model, _ = report
    found = collect(Basis(model=model))
    sentence = found["gini"].sentence
    assert re.fullmatch(r"The Gini index of the weights is 0\.\d{3}\.", sentence)
    print_findings(found)
    assert sentence in capsys.readouterr().out
    text = make_report(model, title="t", data=[], settings={}, pictures=[])
    assert f"<li>{sentence}</li>" in text
    assert "<h2>Concentration of the weights</h2>" in text
    write_evidence(tmp_path, found)
    again = read_evidence(tmp_path)
    assert again["gini"].to_json() == found["gini"].to_json()
    (table,) = [table for table in tables_of(again) if table.name == "gini"]
    assert f"{found['gini'].values['Gini index'].value:.4g}" in table.latex()


# ---- figures and tiles, by hand ---------------------------------------------------------------------


def test_scores_at_the_top_have_their_intervals():
    from kernelweave.inspection.registry import Finding, Interval
    from kernelweave_app.reports import _bars, _tiles

    held = SimpleNamespace(scores={"accuracy": 0.87654, "log loss": 0.5}, truth=np.zeros(200))
    found = {
        "held out": Finding({"accuracy": Interval(0.87654, 0.81234, 0.93456), "log loss": Interval(0.5)}),
        "nested": Finding({"R^2": Interval(0.51234, 0.4, 0.6, n=50)}, rows=50),
        "folds": Finding({"accuracy": Interval(0.9)}, rows=2000, details={"said": "the score that chose"}),
    }
    assert _tiles(held, found) == [
        ("0.877", "accuracy, held out; 95 % interval 0.812 to 0.935"),
        ("0.500", "log loss, held out"),
        ("0.51", "R^2, nested; 95 % interval 0.40 to 0.60"),
        ("0.9000", "accuracy, the score that chose"),
    ]
    assert _tiles(None, {}) == []
    table = SimpleNamespace(
        heads=["name", "fraction"], formats=["%"], rows=[["a", 0.2], ["b", 0.6], ["c", None]]
    )
    assert _bars(table) == [0.3333, 1.0, 0.0]
    assert _bars(SimpleNamespace(heads=["a", "b", "c"], formats=["%"], rows=[[1, 2, 3]])) == [None]
    assert _bars(SimpleNamespace(heads=["a", "b"], formats=["%"], rows=[["a", 0.0]])) == [0.0]


def test_counts_and_curves_of_classes_are_those_of_the_rows():
    from kernelweave_app.reports import close
    from kernelweave_app.reports.figures import confusion_figure, ranking_figure

    truth, guess = np.array(list("aaabbc")), np.array(list("aabbbb"))
    figure = confusion_figure(["a", "b", "c"], truth, guess)
    [ax] = figure.axes
    # true classes from above, predicted ones from the left
    cells = {text.get_position(): text.get_text() for text in ax.texts}
    assert [[cells[j, i] for j in range(3)] for i in range(3)] == [list("210"), list("020"), list("010")]
    assert [text.get_color() for text in ax.texts[:3]] == ["white", "black", "black"]
    np.testing.assert_array_equal(ax.images[0].get_array(), [[2, 1, 0], [0, 2, 0], [0, 1, 0]])
    close(figure)
    here, value = np.array([True, False, True, False]), np.array([0.9, 0.8, 0.3, 0.1])
    held = SimpleNamespace(rankings=lambda: {"u": (here, value), "none": (np.zeros(4, dtype=bool), value)})
    # of four pairs of a row inside and one outside three are in order; precision 1 at half, then 2 of 3
    for kind, words in (("roc", "u (0.75)"), ("precision", "u (0.83)")):
        figure = ranking_figure(held, kind)
        [line] = figure.axes[0].lines
        assert line.get_label() == words
        points = set(map(tuple, line.get_xydata().round(6).tolist()))
        assert points >= ({(0.0, 0.5), (0.5, 1.0)} if kind == "roc" else {(0.5, 1.0), (1.0, 0.666667)})
        close(figure)
    assert ranking_figure(SimpleNamespace(rankings=lambda: {"u": (here[[0, 2]], value[:2])}), "roc") is None


def test_the_area_below_a_curve_is_the_number_beside_it():
    """With equal values a curve of steps lay below 0.64 where the area is 0.8."""
    from kernelweave_app.reports import close
    from kernelweave_app.reports.figures import ranking_figure
    from kernelweave_app.studio.pages.charts import receiver_chart
    from kernelweave_app.studio.results import HeldResult, _receiver

    here = np.repeat([True, False], 5)
    value = np.array([1, 1, 1, 1, 0, 1, 0, 0, 0, 0], dtype=float)
    held = SimpleNamespace(rankings=lambda: {"u": (here, value)})
    page = HeldResult(scores={}, columns=[], rows=[], receivers=[_receiver("u", here, value)], classes=["u"])
    for kind, area in (("roc", 0.8), ("precision", 0.8 * 0.8 + 0.2 * 0.5)):
        figure = ranking_figure(held, kind)
        [line] = figure.axes[0].lines
        series = receiver_chart(page, precision=kind == "precision")["series"][0]
        steps = line.get_drawstyle() == "steps-post"
        assert (series.get("step") == "end") is steps
        for x, y in (line.get_xydata().T, np.array(series["data"]).T):
            heights = y[:-1] if steps else 0.5 * (y[:-1] + y[1:])
            assert abs(np.diff(x)) @ heights == pytest.approx(area)
        assert line.get_label() == f"u ({area:.2f})"
        close(figure)


def test_figures_of_findings_have_their_numbers():
    from kernelweave.inspection.registry import Finding
    from kernelweave_app.reports import close
    from kernelweave_app.reports.figures import draw_findings

    one = {"observed": [0.2, 0.7], "low": [0.1, 0.5], "high": [0.5, 0.8], "predicted": [0.25, 0.75]}
    details = {
        "learning curve": {
            "sizes": [10, 20], "mean": [0.5, 0.7], "low": [0.4, 0.6], "high": [0.6, 0.9], "score": "R^2",
        },
        "calibration": {"u": {**one, "counts": [3, 9], "brier": 0.1234}},
        "permutation": {"permuted": list(np.arange(100) / 100), "score": 1.5, "p_value": 0.0123},
        "stability": {
            "names": ["a", "b"], "outputs": ["weight"], "weights": [[0.2], [0.8]], "low": [[0.3], [0.5]],
            "high": [[0.4], [0.7]],
        },
    }  # fmt: skip
    found = {name: Finding(n=8, details=tree) for name, tree in details.items()}
    drawn = {picture.name: picture.figure for picture in draw_findings(found)}
    curve = drawn["learning-curve"].axes[0]
    np.testing.assert_array_equal(curve.lines[0].get_xydata(), [[10, 0.5], [20, 0.7]])
    band = curve.collections[0].get_paths()[0].vertices
    assert {(10.0, 0.4), (10.0, 0.6), (20.0, 0.6), (20.0, 0.9)} <= set(map(tuple, band.tolist()))
    # the axis has the whole band
    assert curve.get_ylim()[0] <= 0.4
    assert curve.get_ylim()[1] >= 0.9
    upper, below = drawn["calibration"].axes
    [bars] = upper.containers
    assert bars.get_label() == "u (Brier 0.12)"
    np.testing.assert_array_equal(bars[0].get_xydata(), [[0.25, 0.2], [0.75, 0.7]])
    ends = [segment[:, 1] for segment in bars[2][0].get_segments()]
    np.testing.assert_allclose(ends, [[0.1, 0.5], [0.5, 0.8]], rtol=1e-12)
    np.testing.assert_array_equal(below.lines[0].get_xydata(), [[0.25, 3], [0.75, 9]])
    histogram = drawn["permutation"].axes[0]
    assert [patch.get_height() for patch in histogram.patches] == [4] * 25
    assert list(histogram.lines[0].get_xdata()) == [1.5, 1.5]
    assert histogram.get_xlabel().endswith("(p = 0.012)")
    # the line of a weight outside its interval begins at the bar
    lines = drawn["stability"].axes[0].collections[0].get_segments()
    np.testing.assert_allclose([line[:, 0] for line in lines], [[0.5, 0.8], [0.2, 0.4]], rtol=1e-12)
    for figure in drawn.values():
        close(figure)
    assert [picture.name for picture in draw_findings(found, "calibration")] == ["calibration"]


def test_figures_of_survival_have_their_numbers():
    from kernelweave.inspection.registry import Finding
    from kernelweave_app.reports import close
    from kernelweave_app.reports.figures import draw_findings

    groups = {"predicted": [0.25, 0.75], "observed": [0.3, 0.7], "low": [0.25, 0.4], "high": [0.5, 0.75]}
    errors = {"time": [1.0, 2.0], "this model": [0.1, 0.2], "without risks": [0.15, 0.25]}
    risks = {
        "names": ["low", "high"], "rows": [3, 5], "times": [[1.0, 2.0], [1.5, 2.5]], "errors": [[0.1] * 2] * 2,
        "survival": [[0.9, 0.8], [0.5, 0.4]], "low": [[0.8, 0.7], [0.4, 0.3]], "high": [[1.0, 0.9], [0.6, 0.5]],
    }  # fmt: skip
    details = {"survival calibration": groups | {"time": 2.5}, "survival error": errors, "risk groups": risks}
    found = {name: Finding(n=8, details=tree) for name, tree in details.items()}
    drawn = {picture.name: picture.figure for picture in draw_findings(found)}
    [ax] = drawn["survival-calibration"].axes
    [points] = ax.containers
    np.testing.assert_array_equal(points[0].get_xydata(), [[0.25, 0.3], [0.75, 0.7]])
    ends = [segment[:, 1] for segment in points[2][0].get_segments()]
    np.testing.assert_allclose(ends, [[0.25, 0.5], [0.4, 0.75]], rtol=1e-12)
    assert ax.get_xlabel().endswith("at time 2.5")
    [ax] = drawn["survival-error"].axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in ax.lines}
    assert lines == {"this model": [[1.0, 0.1], [2.0, 0.2]], "without risks": [[1.0, 0.15], [2.0, 0.25]]}
    ax = drawn["risk-groups"].axes[0]
    lines = {line.get_label(): line.get_xydata().tolist() for line in ax.lines if " (" in line.get_label()}
    ends = {"low (3 rows)": [2.0, 0.8], "high (5 rows)": [2.5, 0.4]}
    assert {name: line[-1] for name, line in lines.items()} == ends
    for figure in drawn.values():
        close(figure)


def test_figures_keep_their_letters_in_a_given_width():
    import matplotlib.pyplot as plt

    from kernelweave_app.reports import Picture, close
    from kernelweave_app.reports.printing import DOUBLE, INCH, LETTERS, TALLEST, fit_to

    for size, width, tall in (
        ((6.0, 4.0), DOUBLE, 4.0),
        ((6.0, 4.0), DOUBLE * 0.9, 3.6),
        ((6.0, 40.0), DOUBLE, TALLEST / INCH),
    ):
        figure = plt.figure(figsize=size)
        fit_to(Picture("x", "X", figure), width)
        np.testing.assert_allclose(figure.get_size_inches(), [width / INCH, tall], rtol=1e-9)
        close(figure)
    figure = plt.figure(figsize=(6.0, 4.0))
    fit_to(Picture("x", "X", figure), 30.0)
    assert figure.get_size_inches()[1] == pytest.approx(4.0 * max(LETTERS / 10.0, 30.0 / DOUBLE))
    close(figure)


def test_gaps_of_several_outputs_have_their_names(monkeypatch):
    from kernelweave_app.reports import close, figures

    histories = [{"rel_gap": [0.5, 0.0, 1e-3]}, {"rel_gap": [0.25]}]
    for outputs, told, names in (
        (["u", "v"], histories, ["u", "v"]),
        (["u"], histories, []),
        (["u"], histories[:1], []),
    ):
        monkeypatch.setattr(figures, "outputs_of", lambda model, outputs=outputs: outputs)
        figure = figures.convergence_figure(None, told)
        [ax] = figure.axes
        # of a gap of zero there is no logarithm
        np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[1, 0.5], [3, 1e-3]])
        assert ax.get_legend_handles_labels()[1] == names
        close(figure)


def test_figures_and_tables_for_papers(tmp_path):
    """Files in the width of a column, with letters of papers; legends beside axes move above narrow ones."""
    import matplotlib.pyplot as plt

    from kernelweave.inspection.registry import Finding, Table
    from kernelweave.plots.drawing import legend_beside
    from kernelweave_app.reports import Picture
    from kernelweave_app.reports.printing import LETTERS, read_width, write_figures, write_tables

    drawn = []

    def draw():
        figure, ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
        for k, name in enumerate(("first", "second")):
            ax.plot([0, 1], [k, 2 * k], label=name)
        legend_beside(ax)
        drawn.append((ax, plt.rcParams["font.size"]))
        return [Picture("one", "One", figure)]

    assert write_figures(draw, tmp_path, 85.0) == ["one.svg", "one.pdf"]
    assert write_figures(draw, tmp_path, 174.0, ["pdf"]) == ["one.pdf"]
    assert [size for _, size in drawn] == [LETTERS] * 2 != [plt.rcParams["font.size"]] * 2
    assert plt.get_fignums() == []
    points = float(re.search(r'<svg[^>]* width="([\d.]+)pt"', (tmp_path / "one.svg").read_text())[1])
    assert points == pytest.approx(72.0 * 85.0 / 25.4, rel=1e-5)
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+)", (tmp_path / "one.pdf").read_bytes())
    np.testing.assert_allclose([float(box[1]), float(box[2])], [72.0 * 174.0 / 25.4, 288.0], rtol=1e-5)
    for (ax, _), columns, above in zip(drawn, (2, 1), (True, False), strict=True):
        found = ax.get_legend()
        assert [text.get_text() for text in found.get_texts()] == ["first", "second"]
        assert found._ncols == columns
        assert (found.get_window_extent().y0 >= ax.bbox.y1) == above
    table = Table.of("t", "T", {"name": ["a", "b"], "value": [0.5, 2.0]})
    made = write_tables({"x": Finding(tables=(table,))}, tmp_path, lambda frame: frame.to_csv(index=False))
    assert made == ["t.csv", "t.tex"]
    assert (tmp_path / "t.csv").read_text().splitlines() == ["name,value", "a,0.5", "b,2.0"]
    assert (tmp_path / "t.tex").read_text() == table.latex()
    assert [read_width(text) for text in (" Double", "40", "400")] == [174.0, 40.0, 400.0]
    for text in ("39.9", "401", "wide"):
        with pytest.raises(kw.InputError, match="40 to 400 millimetres"):
            read_width(text)


@pytest.mark.parametrize(
    ("given", "classes", "shown"),
    [
        ({"epsilon": 0.1, "loss": "auto"}, False, True),
        ({"epsilon": 0.1, "loss": "auto"}, True, False),
        ({"epsilon": 0.1, "loss": "epsilon-insensitive"}, True, True),
        ({"epsilon": 0.1, "loss": "squared"}, False, False),
        ({"epsilon": None, "loss": "auto"}, False, False),
    ],
)
def test_a_tube_is_told_where_the_loss_has_one(given, classes, shown):
    assert _matters("epsilon", given, classes=classes) is shown
    assert _matters("loss", given, classes=classes)
