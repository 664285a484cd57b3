"""Reports: complete, self-contained, and safe to open."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_wine

pytest.importorskip("jinja2")

import kernelweave as kw
from kernelweave.inspection.held import HeldOut
from kernelweave_app.reports import make_report


@pytest.fixture(scope="module")
def report():
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = X.iloc[:, :4].rename(columns={"ash": "<script>alert(1)</script>"})
    model = kw.MKLClassifierCV(kw.banks.per_column(X), standardize=True, n_alphas=5, cv=3).fit(X, y)
    held = HeldOut.of_columns(model, {"prediction": model.predict(X)}, y)
    text = make_report(model, title="wine & co", data=["some rows"], settings={"seed": 7}, held=held, X=X)
    return model, text


def test_everything_is_in_it(report):
    model, text = report
    for part in (
        "wine &amp; co",
        "some rows",
        "seed",
        "Certificate",
        "relative gap",
        "Held as",
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
    assert "4 columns, 0% of the numeric cells zero: standardised" in text


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
