"""The command `evidence`: what it computes, its figures and its tables.

Modules: `cli/learning`, `cli/using`.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

pytest.importorskip("cyclopts")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

import kernelweave as kw
from figure_checks import overprinted
from kernelweave.inspection.registry import Finding, Interval, possible, repeated
from kernelweave_app.cli import main
from kernelweave_app.reports import close, draw_pictures
from kernelweave_app.reports.figures import draw_findings
from kernelweave_app.reports.printing import SINGLE, fit_to, in_print
from kernelweave_app.runs.evidence import read_evidence

N = {"permutations": 3, "divisions": 2, "halves": 4, "sizes": 2}
#: Of three sources and two pairs of halves, one in each half is bounded by 0.22 false selections.
TOLERATED = 0.2


@pytest.fixture(scope="module")
def done(tmp_path_factory, no_drawing):
    """A run with all its evidence, and what the command said."""
    folder = tmp_path_factory.mktemp("evidence")
    frame = load_diabetes(as_frame=True).frame.iloc[:80][["bmi", "bp", "s5", "target"]]
    table, run = folder / "rows.csv", folder / "run"
    frame.to_csv(table, index=False)
    fit = ["fit", str(table), "--target", "target", "--out", str(run), "--kernels", "linear_features"]
    with no_drawing():
        assert main([*fit, "--alphas", "0.1,1", "--cv", "2"]) == 0
    before = json.loads((run / "evidence.json").read_text("utf8"))
    counts = [part for name, n in N.items() for part in (f"--{name}", str(n))]
    counts += ["--max-false", str(TOLERATED)]
    kinds = ["permutation", "sources", "omission", "stability", "learning-curve", "baselines"]
    assert main(["evidence", str(run), str(table), "--what", *kinds, *counts, "--width", "120"]) == 0
    return table, run, before


@pytest.mark.nightly
def test_all_kinds_are_in_the_file_beside_what_was_there(done):
    _, run, before = done
    tree = json.loads((run / "evidence.json").read_text("utf8"))
    assert {"permutation", "sources", "omission", "stability", "learning curve", "baselines"} <= tree.keys()
    assert tree["held out"] == before["held out"]
    test = {**tree["permutation"]["details"], "n": tree["permutation"]["n"]}
    assert test["n"] == len(test["permuted"]) == N["permutations"]
    assert test["p_value"] == (np.sum(np.array(test["permuted"]) >= test["score"]) + 1) / (test["n"] + 1)
    assert tree["simplest"] == before["simplest"]
    assert set(tree["baselines"]["values"]) > {"this model", "the best single kernel"}


@pytest.mark.full
def test_figures_have_the_width_that_was_asked_for(done):
    _, run, _ = done
    files = {path.name for path in (run / "evidence-figures").iterdir()}
    names = {name.rpartition(".")[0] for name in files}
    assert files == {f"{name}.{kind}" for name in names for kind in ("pdf", "svg")}
    assert {"weights", "stability", "permutation", "learning-curve"} <= names
    for name in names:
        assert (run / "evidence-figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF-")
        drawn = (run / "evidence-figures" / f"{name}.svg").read_text("utf8")
        assert float(re.search(r'width="([\d.]+)pt"', drawn)[1]) == pytest.approx(120 / 25.4 * 72, abs=0.01)


def in_a_column(model, found_of_run):
    """What is wrong with the figures of a model and its findings in the width of one column, by their names."""
    found = {}
    with in_print():
        for picture in [*draw_pictures(model), *draw_findings(found_of_run)]:
            fit_to(picture, SINGLE)
            found[picture.name] = overprinted(picture.figure)
            close(picture.figure)
    return found


@pytest.mark.full
def test_texts_of_figures_fit_into_a_column(done):
    _, run, _ = done
    found = in_a_column(kw.load(run / "model.skops"), read_evidence(run))
    assert {"choice", "stability", "permutation", "learning-curve"} <= found.keys()
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_legends_of_panels_side_by_side_fit_into_a_column():
    X = load_diabetes().data[:40, :3]
    kernels = [kw.kernels.Linear(), kw.kernels.RBF(gamma=0.3)]
    found = in_a_column(kw.MKLClassifier(kernels, "mlmkl").fit(X, X[:, 0] > 0), {})
    assert found["descent"] == []


def test_tables_hold_the_numbers_of_the_file(done):
    _, run, _ = done
    tree = json.loads((run / "evidence.json").read_text("utf8"))
    files = {path.name for path in (run / "evidence-tables").iterdir()}
    names = {name.rpartition(".")[0] for name in files}
    assert files == {f"{name}.{kind}" for name in names for kind in ("csv", "tex")}
    shown = {name: pd.read_csv(run / "evidence-tables" / f"{name}.csv") for name in names}
    own, scores = tree["held out"]["values"]["R^2"], shown["scores"].set_index("score")
    assert scores.loc["R^2", ["value", "low", "high"]].tolist() == [
        own["value"],
        own["low"],
        own["high"],
    ]
    halves, named = tree["stability"], shown["stability"].set_index("kernel")
    assert named["weight"].tolist() == sorted(named["weight"], reverse=True)
    assert set(shown["sources"]["source"]) == {"bmi", "bp", "s5"}
    left = shown["omission"].set_index("left out")
    assert set(left.index) == {"bmi", "bp", "s5"}
    np.testing.assert_allclose(left["loss"], tree["omission"]["details"]["score"] - left["score"], atol=1e-12)
    assert halves["n"] == N["halves"]
    assert (halves["details"]["tolerated"], halves["details"]["largest"]) == (TOLERATED, 0)
    assert shown["learning-curve"]["training rows"].tolist() == tree["learning curve"]["details"]["sizes"]
    for name in names:
        text = (run / "evidence-tables" / f"{name}.tex").read_text("utf8")
        assert r"\begin{tabular}" in text
        assert text.count(r" \\") == len(shown[name]) + 1


def test_the_report_says_what_was_found(done):
    _, run, _ = done
    text = (run / "report.html").read_text("utf8")
    tree = json.loads((run / "evidence.json").read_text("utf8"))
    assert "How good are the predictions?" in text
    assert f"R^2 is {tree['held out']['values']['R^2']['value']:.2f}" in text
    name, worst = next(iter(tree["omission"]["details"]["without"].items()))
    assert f"Does the model need {name}? " in text
    assert f"the model has a mean R^2 of {worst:.2f}" in text


def test_the_first_division_is_that_of_the_run(done):
    """Fitted with all sources, it has the score of the run; the second one is another."""
    from kernelweave_app.runs.evidence import _divisions
    from kernelweave_app.runs.preparing import prepare, split
    from kernelweave_app.runs.reading import read_all
    from kernelweave_app.runs.writing import spec_of

    table, run, _ = done
    spec = spec_of(run)
    prepared = prepare(read_all({"rows": str(table)}, spec), spec)
    train, test = split(prepared, spec)
    first, second = _divisions(spec, prepared, train, 2)
    np.testing.assert_array_equal(first[0], train)
    np.testing.assert_array_equal(first[1], test)
    assert set(second[1]) != set(test)
    held = spec.model_copy(update={"holdout": "told", "test_size": 0.0, "cv": 4})
    for inside, outside in _divisions(held, prepared, train, 2):
        assert sorted([*inside, *outside]) == train.tolist()
        assert len(outside) == len(train) // 4


def test_findings_are_computed_from_what_was_asked_for(done):
    from kernelweave_app.runs.evidence import basis_of
    from kernelweave_app.runs.preparing import prepare
    from kernelweave_app.runs.reading import read_all
    from kernelweave_app.runs.writing import spec_of

    table, run, _ = done
    spec = spec_of(run).model_copy(update={"seed": 5})
    prepared, rows = prepare(read_all({"rows": str(table)}, spec), spec), (np.arange(60), np.arange(60, 80))
    how = {"count": 7, "refit": False, "max_false": 2.0, "report": print}
    basis = basis_of(None, spec, prepared, rows, None, jobs=3, **how)
    assert {name: getattr(basis, name) for name in how} == how
    assert (basis.n_jobs, basis.random_state) == (3, 5)
    for one, where in ((basis.training, rows[0]), (basis.held_rows, rows[1]), (basis.rows, np.arange(80))):
        np.testing.assert_array_equal(one.X, prepared.X.iloc[where])
        np.testing.assert_array_equal(one.y, prepared.y[where])


@pytest.mark.usefixtures("undrawn")
def test_what_was_there_stays(done, tmp_path):
    """Of another kind computed later: baselines that took fits, and when the tables were read."""
    table, run, _ = done
    again = tmp_path / "run"
    shutil.copytree(run, again)
    lineage = json.loads((again / "lineage.json").read_text("utf8"))
    lineage["when"] = "2001-02-03 04:05:06"
    (again / "lineage.json").write_text(json.dumps(lineage), "utf8")
    assert main(["evidence", str(again), str(table), "--what", "sources"]) == 0
    before, after = (json.loads((at / "evidence.json").read_text("utf8")) for at in (run, again))
    assert after["baselines"] == before["baselines"]
    assert after["stability"] == before["stability"]
    assert "2001-02-03 04:05:06" in (again / "report.html").read_text("utf8")


@pytest.mark.usefixtures("undrawn")
def test_scores_of_nested_folds_stay(wine, tmp_path, capsys):
    """Rows that models of outer folds predicted are not forgotten by `evidence`, which has not these models."""
    out = tmp_path / "run"
    given = ["--target", "target", "--test-size", "0", "--nested", "3", "--alphas", "4", "--cv", "3"]
    assert main(["fit", str(wine), *given, "--kernels", "linear", "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    before = json.loads((out / "evidence.json").read_text())
    own = before["nested"]["values"]["accuracy"]
    assert said["scores_out_of_fold"]["accuracy"]["value"] == own["value"]
    assert main(["evidence", str(out), str(wine), "--what", "stability", "--halves", "2"]) == 0
    assert "no score of rows" not in capsys.readouterr().out
    after = json.loads((out / "evidence.json").read_text())
    assert after["nested"] == before["nested"]
    assert after["rows"] == before["rows"]


@pytest.mark.usefixtures("undrawn")
def test_one_score_is_the_one_to_report(wine, tmp_path, capsys):
    """That of nested folds where there are some, else that of held-out rows; further evidence changes nothing."""
    out = tmp_path / "run"
    given = [str(wine), "--target", "target", "--alphas", "4", "--cv", "3", "--kernels", "linear"]
    for nested, said, other in (
        ("3", "report the score of nested cross-validation", "accuracy to report"),
        ("0", "This is the accuracy to report", "report the score of nested"),
    ):
        assert main(["fit", *given, "--nested", nested, "--out", str(out), "--overwrite"]) == 0
        assert main(["evidence", str(out), str(wine), "--what", "stability", "--halves", "2"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert text.count(said) == 2
        assert other not in text


@pytest.mark.usefixtures("undrawn")
def test_a_new_run_takes_the_evidence_of_an_earlier_one_away(done, tmp_path):
    table, run, _ = done
    again = tmp_path / "run"
    shutil.copytree(run, again)
    (again / "figures").mkdir()  # of somebody else
    fit = ["fit", str(table), "--target", "target", "--out", str(again), "--kernels", "linear_features"]
    assert main([*fit, "--alphas", "0.1,1", "--cv", "2", "--overwrite"]) == 0
    assert "stability" not in json.loads((again / "evidence.json").read_text("utf8"))
    folders = {path.name for path in again.iterdir() if path.is_dir()}
    assert folders == {"figures"}


@pytest.mark.full
@pytest.mark.usefixtures("undrawn")
def test_of_several_targets_all_that_they_can_have_is_computed(tmp_path):
    frame = load_diabetes(as_frame=True).frame.iloc[:60][["bmi", "bp", "s5", "target"]]
    frame.assign(twice=2.0 * frame["target"] + frame["bp"]).to_csv(tmp_path / "rows.csv", index=False)
    table, run = str(tmp_path / "rows.csv"), str(tmp_path / "run")
    fit = ["fit", table, "--target", "target,twice", "--out", run, "--kernels", "linear_features"]
    assert main([*fit, "--alphas", "0.1,1", "--cv", "2"]) == 0
    assert (
        main(
            [
                "evidence",
                run,
                table,
                "--permutations",
                "2",
                "--divisions",
                "2",
                "--halves",
                "2",
                "--sizes",
                "2",
            ]
        )
        == 0
    )
    tree = json.loads((tmp_path / "run" / "evidence.json").read_text("utf8"))
    assert {"permutation", "stability", "learning curve"} <= tree.keys()
    assert not {"sources", "baselines"} & tree.keys()


def test_sources_of_layers_are_not_offered():
    def kinds(views=("a", "b"), *, held=True, layers=False, survival=False):
        found = {
            "views": Finding({name: Interval(0.5) for name in views}),
            "kernels": Finding(details={"in layers": layers}),
            "rows": Finding(details={"task": "survival" if survival else "classification"}),
            **({"simplest": Finding()} if held else {}),
        }
        return possible(found)

    assert kinds() == list(repeated())
    assert "sources" not in kinds(layers=True)
    assert not {"sources", "baselines"} & set(kinds(held=False))
    assert not {"sources", "omission"} & set(kinds(("all",)))
    assert "learning curve" not in kinds(survival=True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--what", "magic"], "--what must be one of "),
        (["--width", "3"], "The width must be single, double, or 40 to 400"),
        (["--what", "permutation", "--permutations", "-1"], "from 1 to 10000"),
        (["--what", "omission", "--divisions", "1"], "At least 2 divisions of the rows"),
        (["--what", "stability", "--max-false", "0"], "--max-false must be a finite number > 0, got 0.0"),
    ],
)
def test_bad_requests_get_one_clear_line(more, said, done, capsys):
    table, run, _ = done
    assert main(["evidence", str(run), str(table), *more]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_help_lists_findings_of_ones_own(monkeypatch, capsys):
    from kernelweave.inspection.registry import REGISTRY, finding

    mine = finding("my own", title="Mine", needs=("rows",), about="Mine?")
    monkeypatch.setitem(REGISTRY, mine.name, mine)
    assert main(["evidence", "--help"]) == 0
    said = capsys.readouterr().out
    assert "my-own" in said
    assert "learning-curve" in said


def test_another_table_is_refused(done, tmp_path, capsys):
    table, run, _ = done
    pd.read_csv(table).iloc[:70].to_csv(tmp_path / "other.csv", index=False)
    assert main(["evidence", str(run), str(tmp_path / "other.csv")]) == 2
    assert "Name the table of the run" in capsys.readouterr().err
    assert main(["evidence", str(tmp_path), str(table)]) == 2
    assert "There is no model at" in capsys.readouterr().err


def asked_of_evidence(monkeypatch, command, stop_at=None):
    """What the command `evidence` computes findings from, by kind; at one of them Ctrl-C is pressed."""
    from kernelweave.inspection import registry
    from kernelweave_app import runs

    seen, made, before = {}, [], read_evidence(Path(command[0]))
    plain, basis_of = registry.compute, runs.evidence.basis_of

    def basis(*given, **how):
        made.append((basis_of(*given, **how), given, how))
        return made[-1][0]

    def compute(kind, basis):
        if not made or basis is not made[-1][0] or "refit" not in made[-1][2]:
            return plain(kind, basis)
        if kind == stop_at:
            raise KeyboardInterrupt
        seen[kind] = made[-1][1:]
        return before[kind]

    with monkeypatch.context() as patch:
        patch.setattr(registry, "compute", compute)
        patch.setattr(runs.evidence, "basis_of", basis)
        return main(["evidence", *command]), seen


@pytest.mark.usefixtures("undrawn")
def test_every_option_of_evidence_reaches_its_computation(done, tmp_path, monkeypatch, capsys):
    table, run, _ = done
    again = tmp_path / "run"
    shutil.copytree(run, again)
    usual = {"permutation": 99, "omission": 10, "stability": 50, "learning curve": 5}
    given = {"permutation": 3, "omission": 4, "stability": 6, "learning curve": 7}
    names = dict(zip(("--permutations", "--divisions", "--halves", "--sizes"), given.values(), strict=True))
    options = [part for name, n in names.items() for part in (name, str(n))]
    more = ["--fixed", "--jobs", "3", "--max-false", "0.5"]
    for asked, counts, how in (
        ([], usual, {"refit": True, "jobs": 1, "max_false": 1.0}),
        ([*options, *more], given, {"refit": False, "jobs": 3, "max_false": 0.5}),
    ):
        status, seen = asked_of_evidence(monkeypatch, [str(again), str(table), *asked])
        assert status == 0
        assert seen.keys() == {*counts, "sources", "baselines"}
        for kind, (rows, own) in seen.items():
            assert callable(own.pop("report"))
            assert own == {"count": counts.get(kind, 0), **how}
            assert [len(part) for part in rows[3]] == [64, 16]
            assert rows[4] is not None
    # of those that are named one is interrupted: what comes before it stays, what comes after is not begun
    what = ["--what", "sources", "stability", "baselines"]
    capsys.readouterr()
    status, seen = asked_of_evidence(monkeypatch, [str(again), str(table), *what], stop_at="stability")
    assert (status, list(seen)) == (130, ["sources"])
    assert "Interrupted; what is done is kept." in capsys.readouterr().out
