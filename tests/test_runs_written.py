"""Everything that runs write and read again: scripts, layouts, lineage, settings, views beside tables and scores.

Modules: `runs/scripts`, `runs/writing`, `runs/lineage`, `runs/reading`, `runs/further_views`, `runs/predictions`,
`runs/evidence`, `runs/nested`, `runs/folders`, `runs/joining`.
"""

import json
import os
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import kernelweave as kw
from kernelweave.inspection.held import HeldOut
from kernelweave.inspection.held_times import HeldTimes
from kernelweave_app.runs import (
    evidence,
    folders,
    further_views,
    nested,
    predictions,
    reading,
    scripts,
    writing,
)
from kernelweave_app.runs.evidence import ScoresApart
from kernelweave_app.runs.fitting import fit_model, make_model
from kernelweave_app.runs.joining import LAYOUT, Joined
from kernelweave_app.runs.lineage import Lineage, Source, repeating, trace
from kernelweave_app.runs.preparing import prepare, split
from kernelweave_app.runs.reading import read_run
from kernelweave_app.runs.spec import Spec
from told import COLUMNS, a_table, answer, cells

DROP = COLUMNS["drop"]


def without(*names):
    """The columns of `a_table` to leave out but for these."""
    return ",".join(name for name in DROP.split(",") if name not in names)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Tables, sparse rows and kernels of thirty rows."""
    folder = tmp_path_factory.mktemp("files")
    frame = a_table().assign(who=[f"p{k:02d}" for k in range(30)], part=["test"] * 6 + ["train"] * 24)
    frame["when"] = pd.date_range("2024-01-30", periods=30).strftime("%d.%m.%Y")
    frame["code"] = np.arange(30) % 3
    frame = frame.round(4)
    frame.to_csv(folder / "one.csv", index=False)
    holes = frame.assign(a=frame["a"].where(frame.index != 4), days=frame["days"] - 5)
    holes.loc[7, "w"] = np.nan
    holes.to_csv(folder / "holes.csv", index=False)
    other = pd.DataFrame(
        {"who": [f"p{k:02d}" for k in range(3, 33)], "a": np.arange(30) % 7, "m": np.arange(30.0)}
    )
    other.loc[2, "m"] = np.nan
    other.to_csv(folder / "two.tsv", index=False, sep="\t")
    words = sparse.csr_array(np.where(np.arange(120).reshape(30, 4) % 3 == 0, 1.0 + np.arange(4), 0.0))
    sparse.save_npz(folder / "words.npz", words)
    Z = np.column_stack([frame["a"], frame["b"]])
    mixed = np.argsort(np.cos(np.arange(30.0) * 7))
    np.savez(
        folder / "K.npz",
        K=(Z @ Z.T)[np.ix_(mixed, mixed)],
        L=np.eye(30),
        names=frame["who"].to_numpy(str)[mixed],
    )
    np.save(folder / "plain.npy", Z @ Z.T)
    return folder


def cases(folder):
    one, holes = {"one": "one.csv"}, {"holes": "holes.csv"}
    two = {"one": "one.csv", "two": "two.tsv"}
    rest = {"drop": without("y")}
    return {
        "plain": (one, Spec(target="y", seed=4, types="code=category", **rest)),
        "classes": (
            holes,
            Spec(
                target="class", weights="w", group="g", missing="drop", probabilities="platt", cv=3,
                test_size=0.3, drop=without("class", "w", "g"), balanced=True, kernels="linear; rbf(gamma=0.5)",
            ),
        ),
        "marks": (one, Spec(target="p,q", holdout="part", method="rls2", alphas="0.1:1:3", drop=without("p", "q"))),
        "numbers": (one, Spec(target="y,z", test_size=0, kernels="per-column", alphas="2", drop=without("y", "z"))),
        "shared": (two, Spec(target="y", key="who", join="two.tsv", missing="drop", **rest)),
        "all": (two, Spec(target="y", key="who", rows="all", missing="drop", weights="w", drop=without("y", "w"))),
        "all, views": (two, Spec(target="class", key="who", rows="all", missing="impute", drop=without("class"))),
        "order": (two, Spec(target="y", rows="order", missing="drop", kernels="linear", **rest)),
        "views": (one, Spec(target="y", views={"u": ["a"], "v": ["b", "code"]}, kernels={"u": "rbf"}, **rest)),
        "same views": (one, Spec(target="y", views={"u": ["a"], "v": ["b"]}, kernels="linear; rbf", **rest)),
        "times": (
            holes,
            Spec(
                time="days", event="died=0", strata="site", missing="drop", drop=without("days", "died"), ties="efron",
            ),
        ),
        "beside": (
            one,
            Spec(
                target="y", view=f"words={folder / 'words.npz'}", gram=f"sim={folder / 'K.npz'}", **rest,
                kernels={"table": "linear", "words": "rbf(gamma=0.5)"}, test_size=0.4, transductive=True,
            ),
        ),
        "kernel": (
            one,
            Spec(target="y", gram=[str(folder / "plain.npy")], drop=f"{without('y')},a,b,site,who,part,when,code"),
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def runs(files):
    def made(name):
        paths, spec = cases(files)[name]
        return read_run({key: str(files / file) for key, file in paths.items()}, spec)

    return {name: made(name) for name in cases(files)}


def plainly(line, files):
    """A line of a script without places, checksums, defaults of learners, and names of versions of pandas."""
    line = re.sub(
        r"SHA-256 \w{64}", "SHA-256", line.replace(str(files), "FILES").replace("'str'", "'object'")
    )
    return re.sub(r"(learner = kw\.learners\.\w+\(\w+=[^,]+).*", r"\1, ...)", line)


def test_scripts_and_files_of_runs(runs, files, recorded):
    """Scripts as they are written, but for versions and places."""
    answers = {}
    plain = scripts.script(runs["plain"]).splitlines()
    for name, run in runs.items():
        here = scripts.script(run).splitlines()
        compile("\n".join(here), "script.py", "exec")
        told = (
            line for line in here[:-6] if "Made with" not in line and (name == "plain" or line not in plain)
        )
        answers[name] = [plainly(line, files) for line in told]
        assert [line for line in here if line and line in plain] == [
            line for line in plain if line and line in here
        ]
        assert here[-6:-1] == plain[-6:-1]
        stopped = scripts.script(run, 0.5).splitlines()
        assert stopped[0] == f"# Written by kernelweave: {scripts.STOPPED}"
        assert not any(line.startswith("model.calibrate") for line in stopped)
        answers[f"{name}, stopped"] = [plainly(line, files) for line in stopped[1:] if line not in here]
        tables = [one.name for one in run.origin.tables]
        answers[f"{name}, run"] = [run.prepared.facts(run.data), run.file, run.test, tables, here[-1]]
        assert sorted([*run.train, *run.test]) == list(range(len(run.prepared.y)))
        assert {*run.paths.values()} == {str(files / file) for file in cases(files)[name][0].values()}
    recorded("answers", answers)


def test_a_script_prints_the_weights_of_its_model_as_shares(runs, capsys):
    """Of three classes the mean of their weights; kernels without any are left out."""
    space = {}
    for name in ("all, views", "plain"):
        exec(scripts.script(runs[name]), space)
        model, said = space["model"], capsys.readouterr().out
        shares = [line.split(" %  ") for line in said.splitlines() if " %  " in line]
        fractions = kw.inspection.layer_weights(model).fractions[0].reshape(model.n_kernels_, -1).mean(axis=1)
        named = zip(model.kernel_names_, fractions, strict=True)
        wanted = {str(kernel): f"{100 * value:.1f}" for kernel, value in named if value}
        assert {kernel: value for value, kernel in shares} == wanted
        assert sum(float(value) for value, _ in shares) == pytest.approx(100.0, abs=0.05 * len(shares))


def test_scripts_make_the_rows_of_their_runs(runs, files):
    """The lines before the fit give X, y, weights, groups and rows as they were prepared."""
    for name, run in runs.items():
        lines = scripts.script(run).splitlines()
        stop = next(k for k, line in enumerate(lines) if line.startswith(("kernels = ", "learner = ")))
        space = {}
        exec("\n".join(lines[:stop]), space)
        prepared = run.prepared
        np.testing.assert_array_equal(space["train"], run.train, err_msg=name)
        np.testing.assert_array_equal(space["test"], run.test, err_msg=name)
        np.testing.assert_array_equal(np.asarray(space["y"]), prepared.y, err_msg=name)
        for what in ("weights", "groups"):
            wanted = getattr(prepared, what)
            if wanted is not None:
                np.testing.assert_array_equal(space[what], wanted)
        if isinstance(space["X"], kw.Views):
            assert list(space["X"].names) == list(prepared.X.names)
        else:
            pd.testing.assert_frame_equal(space["X"], prepared.X, check_dtype=name != "all, views")


def test_layouts_and_names_of_rows_are_written(runs, files, tmp_path, monkeypatch):
    """Which files a run has: without a model, whose file is another matter."""
    monkeypatch.setattr(
        "kernelweave.persistence.save", lambda model, path, training_rows: path.write_text(str(training_rows))
    )
    found = {}
    for name in ("plain", "order", "shared", "beside", "kernel"):
        folder = tmp_path / name
        folder.mkdir()
        held = None if name == "plain" else SimpleNamespace(table=pd.DataFrame({"row": [1], "t": ["=x"]}))
        writing.write_run(
            folder, runs[name], SimpleNamespace(_interrupted=name == "order", alpha_=0.5, relax_=0.25), held
        )
        found[name] = sorted(path.name for path in folder.iterdir())
        assert (folder / "model.skops").read_text() == "True"
        assert writing.spec_of(folder) == runs[name].spec
        assert 'table = "one.csv"' in (folder / "spec.toml").read_text()
    usual = ["lineage.json", "model.skops", "predictions.csv", "script.py", "spec.toml"]
    assert found["plain"] == sorted([*usual[:2], *usual[3:], LAYOUT])
    assert found["order"] == found["shared"] == sorted([*usual, LAYOUT])
    assert found["beside"] == sorted([*usual, LAYOUT, "grams.json"])
    assert found["kernel"] == sorted([*usual, LAYOUT, "grams.json"])
    assert (tmp_path / "beside" / "predictions.csv").read_text() == "row,t\n1,'=x\n"
    assert json.loads((tmp_path / "shared" / LAYOUT).read_text())["key"] == "who"
    # the script of a stopped fit has what was chosen by then
    assert "relax=0.25" in (tmp_path / "order" / "script.py").read_text()
    assert (
        "relax="
        not in (tmp_path / "shared" / "script.py").read_text().partition("learner = ")[2].partition("\n")[0]
    )
    with pytest.raises(kw.InputError, match=r"There is no run at .*: it lacks spec\.toml\. Pass the folder"):
        writing.spec_of(tmp_path)


def test_a_report_is_made_of_its_run(runs, tmp_path, monkeypatch):
    seen = {}

    def made(model, **given):
        seen.update(given, model=model)
        return "<html>"

    monkeypatch.setattr("kernelweave_app.reports.make_report", made)
    run = runs["classes"]
    writing.write_report(tmp_path, run, "model", "held", {}, pictures=["p"])
    assert (tmp_path / "report.html").read_text() == "<html>"
    assert (tmp_path / "evidence.json").read_text() == "{}"
    assert (seen["model"], seen["held"], seen["pictures"], seen["found"]) == ("model", "held", ["p"], {})
    assert seen["title"] == "holes.csv: class"
    assert seen["settings"] == {"Table": "holes.csv", **writing.used_settings(run.spec, run.prepared)}
    assert seen["lineage"] is run.origin
    pd.testing.assert_frame_equal(seen["X"], run.prepared.X.iloc[run.train])
    assert seen["data"] == [
        "30 rows, 17 columns (12 numeric, 4 categorical, 1 date)",
        f"{len(run.train)} training rows, {len(run.test)} held out",
        "Left out 2 rows with missing values",
        "Task: classification, because the target is not numeric (3 classes)",
    ]
    writing.write_report(tmp_path, run, "model", None, {}, title="Mine")
    assert (seen["title"], seen["held"], seen["pictures"]) == ("Mine", None, None)


def test_settings_in_words_and_code(recorded):
    answers = {}
    values = [True, False, 3, 0.5, "x", ["a", "b"], {"u": ["a"], "v": True}, None]
    answers["words"] = [writing.in_words(value) for value in values]
    kernel = kw.kernels.parse("rbf(gamma=0.5)")
    parts = [kernel, np.array([1.0, 2.0]), [kernel, [kernel]], [1, 2], "x", kw.kernels.Nystroem(5)]
    parts += [kw.learners.LpMKL(p=1.5), kw.normalizers.resolve("trace")]
    answers["code"] = [scripts.code(value) for value in parts]
    assert [name for name, _ in scripts.settings_of(kw.MKLRegressor(tol=1e-3, standardize=True, C=None))] in (
        ["tol"],
        ["standardize", "tol"],
    )
    recorded("answers", answers)


# ---- lineage ----------------------------------------------------------------------------------------


def test_lineage_in_full(files, tmp_path, monkeypatch, recorded):
    answers = {}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "v.npz").write_text("xy")
    (tmp_path / "K.npy").write_text("k")
    (tmp_path / "a=b.npy").write_text("kk")
    spec = Spec(target="a", seed=9, view="words=v.npz#X,other=gone.npz", gram="K.npy,sim=K.npy,a=b.npy")
    found = trace({"t": "t.csv"}, spec)
    answers["tables"] = [[one.name, one.path, one.sha256, one.size] for one in found.tables]
    assert (found.seed, found.command) == (9, "kernelweave fit t.csv --spec spec.toml --out again")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", found.when)
    some = Lineage(
        [Source("t", "/x/t.csv", "ab", 3), Source("u", "/x/u.csv", "", 0)], {"numpy": "2", "own": "1"}, 3, "c"
    )
    assert some.lines() == [
        "Table t: t.csv, SHA-256 ab",
        "Table u: u.csv, SHA-256 unknown",
        "Made with numpy 2, own 1; seed 3.",
    ]
    assert repeating({"a": "a b.csv", "c": "c.csv"}, "s.toml") == (
        "kernelweave fit 'a b.csv' --join c.csv --spec s.toml --out again"
    )
    found.write(tmp_path)
    written = json.loads((tmp_path / "lineage.json").read_text())
    assert list(written) == ["tables", "versions", "seed", "command", "when"]
    assert reading_of(tmp_path) == replace(found, changed=[])
    (tmp_path / "v.npz").write_text("changed")
    (tmp_path / "t.csv").unlink()
    assert reading_of(tmp_path).changed == [
        "t.csv is not there any more: the run cannot be repeated.",
        "v.npz has changed since this run: repeating it would give other numbers.",
    ]
    replace(found, tables=[], versions={"kernelweave": "0.0", "numpy": "0.1", "scipy": "0"}).write(tmp_path)
    first, second = reading_of(tmp_path).changed
    assert first == f"This run used kernelweave 0.0; here is {kw.__version__}."
    assert second == f"This run used numpy 0.1; here is {np.__version__}."
    replace(found, tables=[], versions={}).write(tmp_path)
    assert reading_of(tmp_path).changed == []
    recorded("answers", answers)


def reading_of(folder):
    from kernelweave_app.runs.lineage import read_lineage

    return read_lineage(folder)


# ---- views beside a table ---------------------------------------------------------------------------


def test_views_of_files_in_full(files, recorded):
    answers = {}
    frame = pd.read_csv(files / "one.csv")
    words, K, plain = (str(files / name) for name in ("words.npz", "K.npz", "plain.npy"))
    texts = {
        "two": f"a={words},b={words}",
        "no name": words,
        "no path": "a=",
        "twice": f"a={words},a={words}",
        "taken": f"table={words}",
    }
    for name, asked in texts.items():
        found = answer(further_views.name_views, asked)
        answers[name] = str(found).replace(str(files), "FILES")
    grams = {
        "several": [K],
        "named": [f"sim={K}"],
        "one": [plain],
        "one named": [f"x={plain}"],
        "twice": [plain, plain],
        "same arrays": [K, K],
        "thrice": [K, K, K],
        "no path": ["a="],
    }
    for name, asked in grams.items():
        found = answer(further_views.named_grams, asked)
        if not isinstance(found, str):
            found = {view: [os.path.basename(path), array] for view, (path, array, _) in found.items()}
        answers[f"grams, {name}"] = str(found).replace(str(files), "FILES")

    def further(view="", gram="", key="", joined=False, table=frame, **more):
        data = further_views.with_further(Joined(table, **more), view, gram, key, "t.csv", joined=joined)
        views = {name: one.shape for name, one in data.sparse.items()}
        places = {name: os.path.basename(path) for name, path in data.files.items()}
        kernels = {
            name: [one.array, one.column, one.view.matrix[one.view.rows]] for name, one in data.grams.items()
        }
        return [views, places, kernels, list(data.further)]

    made = {
        "both": {"view": f"w={words}", "gram": f"sim={K}"},
        "key": {"gram": K, "key": "who"},
        "position": {"gram": plain},
        "some rows": {"gram": K, "table": frame[3:9]},
        "no names": {"gram": K, "table": frame.drop(columns="who")},
        "lacking": {"gram": K, "key": "who", "table": frame.assign(who=["x", "y", *frame["who"][2:]])},
        "wrong key": {"gram": K, "key": "whoo"},
        "rows": {"gram": plain, "table": frame[:7]},
        "joined": {"gram": plain, "joined": True, "key": "who"},
        "joined view": {"view": f"w={words}", "joined": True},
        "view rows": {"view": f"w={words}", "table": frame[:7]},
        "same view": {"view": f"w={words}", "sparse": {"w": sparse.csr_array(np.eye(30))}},
        "same gram": {"gram": f"v={plain}", "views": {"v": ["a"]}},
        "neither": {},
    }
    for name, given in made.items():
        found = answer(further, **given)
        answers[f"further, {name}"] = found.replace(str(files), "FILES") if isinstance(found, str) else found
    data = further_views.with_further(Joined(frame), f"w={words}", [f"sim={K}"], "", "t", joined=False)
    lines = further_views.further_lines(data)
    answers["lines"] = [[line.replace(str(files), "FILES") for line in part] for part in lines]
    assert further_views.further_lines(Joined(frame)) == ([], [])
    text = json.loads(further_views.grams_text(data))
    assert text["grams"]["sim.K"]["column"] == "who"
    assert sorted(text["grams"]["sim.L"]["names"]) == frame["who"].tolist()
    with pytest.raises(kw.InputError, match=r"There are two views 'a'\. Choose another name"):
        further_views.Tables(frame, {"a": ["a"]}, {"a": sparse.csr_array(np.eye(30))})
    tables = further_views.Tables(frame[["a", "b"]], {}, {"w": sparse.csr_array(np.eye(30))})
    assert list(tables.names) == ["table", "w"]
    some = tables.iloc[np.array([4, 2])]
    assert some.frame.index.tolist() == some.index.tolist() == [4, 2]
    assert some["w"].toarray()[:, [4, 2]].tolist() == [[1, 0], [0, 1]]
    assert some.columns == ["a", "b"]
    assert list(further_views.Tables(frame[[]], {}, {"w": sparse.csr_array(np.eye(30))}).names) == ["w"]
    recorded("answers", answers)


def test_kernels_of_new_rows(tmp_path, monkeypatch, recorded):
    """Columns are found by the names of training rows, or by their places, or are those of training rows."""
    answers = {}
    names = tuple("abcd")

    def encoder(columns):
        return SimpleNamespace(columns_=np.array(columns), n_columns_=4)

    new = pd.DataFrame({"who": ["u", "v"], "x": [1, 2]})
    values = np.arange(8.0).reshape(2, 4)
    np.savez(tmp_path / "named.npz", K=values, names=["v", "u"], columns=["d", "c", "b", "a"])
    np.save(tmp_path / "plain.npy", values)
    np.save(tmp_path / "few.npy", values[:, :3])
    (tmp_path / "grams.json").write_text(json.dumps({"grams": {"K": {"names": names, "column": "who"}}}))
    cases = {
        "by name": ({"K": encoder([0, 2])}, ["K=named.npz"], "who"),
        "found": ({"K": encoder([3, 1])}, ["other=named.npz"], ""),
        "whole": ({"K": encoder([3, 1])}, ["plain.npy"], ""),
        "training rows": ({"K": encoder([0, 1, 3])}, ["few.npy"], ""),
        "too few": ({"K": encoder([3, 1])}, ["few.npy"], ""),
        "none": ({"K": encoder([3, 1])}, [], ""),
        "no kernel": ({}, ["plain.npy"], ""),
    }
    monkeypatch.chdir(tmp_path)
    for name, (encoders, asked, key) in cases.items():
        found = answer(further_views.new_grams, encoders, asked, new, tmp_path, key)
        if isinstance(found, str):
            answers[name] = found.replace(str(tmp_path), "FILES")
            continue
        answers[name] = [{view: one.matrix[one.rows] for view, one in found[0].items()}, found[1]]
    (tmp_path / "grams.json").write_text(json.dumps({"grams": {"K": {"names": "abxd", "column": "who"}}}))
    lacking = answer(further_views.new_grams, {"K": encoder([0, 2])}, ["K=named.npz"], new, tmp_path, "who")
    answers["lacking"] = lacking
    recorded("answers", answers)


# ---- scores of new rows -----------------------------------------------------------------------------


def test_scores_apart_in_words(recorded):
    answers = {}
    texts = {"r2": "0.5", "rmse": "2.0"}
    both = ScoresApart(40, 30, {"r2": 0.5}, {"r2": 0.875, "mae": 0.123456}, {}, texts)
    every = ScoresApart(30, 30, {}, {"r2": 0.875}, {"Held out": {"r2": "0.41", "mae": "1.2"}})
    one = ScoresApart(2, 1, {"r2": 0.5}, {"r2": 0.875}, {}, {"r2": "0.5"})
    for name, apart in {"both": both, "every": every, "one": one}.items():
        answers[name] = [apart.sentence, apart.table()]
    recorded("answers", answers)


@pytest.fixture(scope="module")
def fitted():
    """Small models of every kind, with their tables, specs and rows."""
    frame = a_table(36)
    given = {
        "numbers": Spec(
            target="y", kernels="linear; rbf(gamma=0.5)", alphas="0.1,1", cv=3, drop=without("y", "g"), group="g",
        ),
        "classes": Spec(target="class", kernels="linear", alphas="0.5", cv=3, drop=without("class", "w"), weights="w"),
        "labels": Spec(target="p,q", kernels="linear", alphas="0.5", cv=3, drop=without("p", "q")),
        "times": Spec(time="days", event="died", Cs="0.5", drop=without("days", "died"), cv=3, kernels="linear; rbf"),
    }  # fmt: skip
    found = {}
    for name, spec in given.items():
        prepared = prepare(Joined(frame), spec)
        rows = split(prepared, spec)
        model = fit_model(make_model(spec, prepared, rows[1]), prepared, rows[0], None)
        found[name] = SimpleNamespace(spec=spec, prepared=prepared, rows=rows, model=model, frame=frame)
    return found


def test_scores_of_new_rows_are_those_apart_from_the_fit(fitted, tmp_path, recorded):
    answers = {}
    for name, one in fitted.items():
        X, y = one.prepared.X, one.prepared.y
        train, test = one.rows
        for which, rows in (("mixed", np.r_[train[:9], test]), ("new", test), ("fitted", train)):
            part = X.iloc[rows]
            made = predictions.predictions(one.model, part)
            groups = None if one.prepared.groups is None else one.prepared.groups[rows]
            apart = evidence.scores_apart(
                one.model, tmp_path, tmp_path / "t.csv", part, made, y[rows], groups
            )
            told = [apart.n_rows, apart.n_fitted, apart.others, apart.fitted, apart.known, apart.texts]
            ends = {score: [end.value, end.low, end.high, end.n] for score, end in apart.intervals.items()}
            answers[f"{name}, {which}"] = [*told, ends]
            assert apart.n_fitted == {"mixed": 9, "new": 0, "fitted": len(train)}[which]
    recorded("answers", answers, rtol=1e-05)


def test_rows_of_a_run_are_known_by_its_files(fitted, tmp_path, monkeypatch):
    """Where a model does not tell, rows of the table of the run are those of the fit but for its predictions."""
    one = fitted["numbers"]
    table = tmp_path / "t.csv"
    one.frame.to_csv(table, index=False)
    trace({"t": str(table)}, one.spec).write(tmp_path)
    pd.DataFrame({"row": [3, 5], "x": 0}).to_csv(tmp_path / "predictions.csv", index=False)
    found = pd.DataFrame({"row": [2, 3, 4, 5]})
    assert evidence._learnt_rows(tmp_path, table, found).tolist() == [True, False, True, False]
    assert evidence._learnt_rows(tmp_path / "model.skops", table, found).tolist() == [
        True,
        False,
        True,
        False,
    ]
    (tmp_path / "predictions.csv").unlink()
    assert evidence._learnt_rows(tmp_path, table, found).tolist() == [True] * 4
    table.write_text("a\n1\n")
    assert evidence._learnt_rows(tmp_path, table, found).tolist() == [False] * 4
    # all rows were in the fit: what the run knows of others stands beside them
    held = SimpleNamespace(title="Held out", rows=0, values={"r2": SimpleNamespace(value=0.41, n=7)})
    outer = SimpleNamespace(title="Outer folds", rows=29, values={"r2": SimpleNamespace(value=0.43, n=7)})
    seen = []
    monkeypatch.setattr(
        evidence,
        "read_evidence",
        lambda folder: seen.append(folder) or {"held out": held, "nested": outer, "weights": held},
    )
    train = one.rows[0]
    part, y = one.prepared.X.iloc[train], one.prepared.y[train]
    made = predictions.predictions(one.model, part)
    apart = evidence.scores_apart(one.model, tmp_path / "model.skops", table, part, made, y)
    assert seen == [tmp_path]
    assert list(apart.known) == ["Held out", "Outer folds"]
    assert apart.known["Held out"].keys() == {"r2"}
    assert apart.known["Outer folds"]["r2"].startswith("0.4")
    assert len(apart.known["Outer folds"]["r2"]) >= len(apart.known["Held out"]["r2"])


def test_evidence_is_read_and_written(tmp_path):
    from kernelweave.inspection.registry import Finding

    found = {"one": Finding(meaning="A.", n=3)}
    evidence.write_evidence(tmp_path, found)
    assert {name: one.to_json() for name, one in evidence.read_evidence(tmp_path).items()} == {
        name: one.to_json() for name, one in found.items()
    }
    for text in ("[]", '{"one": 3}', '{"one": {}}'):
        (tmp_path / evidence.EVIDENCE).write_text(text)
        assert evidence.read_evidence(tmp_path) == {}
    (tmp_path / evidence.EVIDENCE).write_text("{")
    with pytest.raises(kw.InputError, match=r"evidence\.json is not JSON\. Delete it, and compute"):
        evidence.read_evidence(tmp_path)
    assert evidence.read_evidence(tmp_path / "gone") == {}
    texts = ["fit 3 of 40", "40", "3 of x", "1 of 2 of 7", ""]
    assert [evidence.total_of(text) for text in texts] == [40, 40, None, 7, None]


def test_what_findings_are_computed_from(fitted, monkeypatch):
    """Every part of the basis, from the run's own rows; baselines are other learners with these rows."""
    seen = []

    def fit(model, prepared, rows, progress):
        seen.append([repr(model.learner), scripts.code(model.kernels), rows.tolist(), progress])
        return SimpleNamespace(predict=lambda X: X.index.to_numpy())

    monkeypatch.setattr(evidence, "fit_model", fit)
    for name, one in fitted.items():
        (train, test), prepared, spec = one.rows, one.prepared, one.spec
        held = writing.score_held(one.model, prepared, test)
        options = {"count": 7, "refit": False, "max_false": 0.5, "jobs": 3}
        basis = evidence.basis_of(one.model, spec, prepared, one.rows, held, report=len, **options)
        assert basis.model is one.model
        assert (basis.held is held, basis.held_times is held) == (name != "times", name == "times")
        assert (basis.count, basis.refit, basis.max_false, basis.n_jobs, basis.report) == (
            7,
            False,
            0.5,
            3,
            len,
        )
        assert basis.random_state == spec.seed
        pd.testing.assert_frame_equal(basis.training.X, prepared.X.iloc[train])
        pd.testing.assert_frame_equal(basis.rows.X, prepared.X)
        np.testing.assert_array_equal(np.asarray(basis.rows.y), prepared.y)
        assert basis.estimator.get_params()["kernels"] is not None
        [(inside, outside)] = basis.folds()
        assert (inside.tolist(), outside.tolist()) == (train.tolist(), test.tolist())
        none = evidence.basis_of(one.model, spec, prepared, (train, test[:0]), None)
        folds = none.folds()
        assert len(folds) == 3
        assert sorted(np.concatenate([outside for _, outside in folds])) == train.tolist()
        assert not none.held_rows
        assert len(basis.divisions(2)) == 2
        assert basis.divisions(1)[0][1].tolist() == test.tolist()
        if name in ("labels", "times"):
            assert not basis.others
            continue
        seen.clear()
        assert list(basis.others) == list(evidence.OTHERS)
        for other in basis.others.values():
            assert other().tolist() == test.tolist()
        assert [one[0].split("(")[0] for one in seen] == ["Uniform", "BestKernel", "Uniform"] or len(
            seen
        ) == 3
        assert seen[2][1] == "[kw.kernels.parse('Linear()')]"
        assert all(one[2:] == [train.tolist(), None] for one in seen)


def test_outer_folds_of_every_kind(fitted, recorded):
    answers = {}
    for name, one in fitted.items():
        spec = one.spec.model_copy(update={"nested": 0 if name == "times" else 3})
        said = []
        found = nested.nested_predictions(spec, one.prepared, np.arange(30), report=said.append)
        word = "fold" if name == "times" else "outer fold"
        assert said == [f"{word} {k} of 3" for k in (1, 2, 3)]
        every = found if isinstance(found, list) else [found]
        assert isinstance(every[0], HeldTimes if name == "times" else HeldOut)
        for own in every:
            told = {key: value for key, value in own.scores.items() if value == value}
            answers[name] = [told, own.groups is None]
        if name == "times":
            np.testing.assert_array_equal(np.asarray(found.times), np.unique(found.times))
            answers["equal weights"] = np.asarray(found.equal)
    with pytest.raises(
        kw.InputError, match=r"^Setting `nested`: at least 2 outer folds are needed, or 0 for none\.$"
    ):
        nested.nested_predictions(
            spec.model_copy(update={"time": "", "event": "", "nested": 1}),
            fitted["numbers"].prepared,
            np.arange(9),
        )
    many = fitted["numbers"].spec.model_copy(update={"nested": 90})
    with pytest.raises(kw.InputError, match=r"^The rows cannot be divided into 90 outer folds: "):
        nested.nested_predictions(many, fitted["numbers"].prepared, np.arange(30))
    recorded("answers", answers, rtol=1e-05)


def test_held_out_rows_with_their_truth(fitted, recorded):
    answers = {}
    for name, one in fitted.items():
        held = writing.score_held(one.model, one.prepared, one.rows[1])
        assert writing.score_held(one.model, one.prepared, one.rows[1][:0]) is None
        table = held.table
        answers[f"{name}, columns"] = list(table)
        assert table["row"].tolist() == one.rows[1].tolist()
        wanted = one.prepared.y[one.rows[1]]
        truth = table[[column for column in table if str(column).startswith("truth")]].to_numpy()
        assert truth.squeeze().tolist() == wanted.tolist()
        assert (held.groups is None) == (name != "numbers")
        answers[name] = {score: value for score, value in held.scores.items() if value == value}
    recorded("answers", answers, rtol=1e-05)


def test_what_models_say_of_their_columns(fitted, recorded, tmp_path):
    answers = {}
    frame = a_table(36).assign(when=pd.date_range("2024-01-30", periods=36).strftime("%Y-%m-%d"))
    frame["note"] = [
        f"a patient with {word} and more words of no use" for word in ("pain", "fever", "rest") * 12
    ]
    frame["flag"] = frame["p"] > 0
    read = Joined(frame)
    prepared = prepare(read, Spec(target="class", drop=without("class"), types="note=text", test_size=0))
    X = prepared.X.drop(columns="note")
    model = kw.MKLClassifier([kw.kernels.Linear()], kw.learners.RLS2(alpha=1.0)).fit(X, prepared.y)
    words = sparse.csr_array(np.eye(36)[:, :5] + 1.0)
    views = kw.Views({"table": X, "words": words, "K": kw.precomputed(np.eye(36) + 1.0)})
    beside = kw.MKLClassifier(
        kernels={"table": [kw.kernels.Linear()], "words": [kw.kernels.Linear()], "K": None},
        learner=kw.learners.RLS2(alpha=1.0),
    )
    beside.fit(views, prepared.y)
    for name, one in (("table", model), ("views", beside)):
        answers[name] = [
            predictions.columns_of(one),
            predictions.dates_of(one),
            predictions.texts_of(one),
            predictions.texts_of(one, "class"),
            predictions.sparse_views_of(one),
            list(predictions.grams_of(one)),
        ]
    # texts to read are no categories, and are texts all the same
    noted = kw.MKLClassifier(
        [kw.kernels.Tokens().on(["note"]), kw.kernels.Linear().on(["a"])], kw.learners.RLS2(alpha=1.0)
    )
    noted.fit(prepared.X[["a", "note"]], prepared.y)
    assert predictions.texts_of(noted) == {"note"}
    found = predictions.features_of(model, frame[frame.columns[::-1]])
    assert list(found) == list(X)
    assert found["when"].dtype.kind == "M"
    new = predictions.features_of(
        beside, frame[::-1], {"words": words, "K": kw.precomputed(np.eye(36) + 1.0)}
    )
    assert list(new.names) == ["table", "words", "K"]
    wrong = {
        "lacks": (model, frame.drop(columns=["site", "when"]), {}),
        "views": (model, frame, {"words": words}),
        "no views": (beside, frame, {}),
        "other view": (beside, frame, {"words": words, "L": words}),
        "more": (beside, frame, {"words": words, "K": 1, "L": words}),
        "no date": (model, frame.assign(when="soon"), {}),
        "lists": (model, frame.assign(site=[[1]] * 36), {}),
        "lacks beside": (beside, frame.drop(columns="b"), {"words": words, "K": 1}),
    }
    for name, (one, table, further) in wrong.items():
        answers[f"wrong: {name}"] = answer(predictions.features_of, one, table, further)
    bare = kw.MKLRegressor([kw.kernels.Linear()], kw.learners.RLS2(alpha=1.0)).fit(
        frame[["a", "b"]].to_numpy(), frame["y"]
    )
    answers["no names"] = answer(predictions.features_of, bare, frame)
    keys = pd.Series([f"k{k}" for k in range(36)], name="probability of it")
    made = predictions.predictions(model, X[:3], keys=keys[:3])
    answers["predictions"] = [list(made), made["row"].tolist(), made.iloc[:, 0].tolist()]
    assert next(iter(predictions.predictions(model, X[:3], keys=keys[:3].rename("name")))) == "name"
    assert next(iter(predictions.predictions(model, X[:3], keys=keys[:3].rename("row")))) == "key row"
    recorded("answers", answers)


def test_new_rows_of_a_run(files, tmp_path, recorded):
    """Tables, types, keys, sparse views and kernels of new rows, by the files of the run."""
    answers = {}
    frame = pd.read_csv(files / "one.csv")
    X = frame[["a", "b", "code"]].astype({"code": "category"})
    model = kw.MKLRegressor([kw.kernels.Linear()], kw.learners.RLS2(alpha=1.0)).fit(X, frame["y"])
    (tmp_path / "spec.toml").write_text('types = "code=category,gone=number"\n')
    (tmp_path / LAYOUT).write_text('{"key": "who", "tables": {"one": {}}, "rows": "shared"}')
    new = reading.read_new(model, tmp_path, str(files / "one.csv"), "", "", [], [])
    assert {name: cells(new.X[name]).split(":")[0] for name in new.X} == {
        "a": "f",
        "b": "f",
        "code": "category",
    }
    assert (new.keys.name, new.stands_for, len(new.table)) == ("who", {}, 30)
    assert reading.read_new(model, tmp_path, str(files / "one.csv"), "", "part", [], []).keys.name == "part"
    (tmp_path / LAYOUT).unlink()
    assert (
        reading.read_new(model, tmp_path / "model.skops", str(files / "one.csv"), "", "", [], []).keys is None
    )
    told = [answer(reading.read_new, model, tmp_path, str(files / "one.csv"), "", "nothing", [], [])]
    told += [
        answer(
            reading.read_new,
            model,
            tmp_path,
            str(files / "one.csv"),
            "",
            "",
            [f"w={files / 'words.npz'}"],
            [],
        )
    ]
    answers["refused"] = [text.replace(str(files), "FILES") for text in told]
    words = sparse.load_npz(files / "words.npz")
    beside = kw.MKLRegressor(
        kernels={"table": [kw.kernels.Linear()], "words": [kw.kernels.Linear()]},
        learner=kw.learners.RLS2(alpha=1.0),
    )
    beside.fit(kw.Views({"table": X, "words": words}), frame["y"])
    # the only sparse view of a model stands for it, whatever it is called
    read = {"t": Joined(frame, sparse={"other": words * 2}, names="who")}
    found = reading.match_new(beside, tmp_path, read, "t.csv", key="", view=[], gram=[])
    np.testing.assert_array_equal(found.X["words"].toarray(), 2 * words.toarray())
    assert found.keys.tolist() == frame["who"].tolist()
    found = reading.match_new(
        beside, tmp_path, read, "t.csv", key="", view=[f"words={files / 'words.npz'}"], gram=[]
    )
    np.testing.assert_array_equal(found.X["words"].toarray(), words.toarray())
    two = {"t": Joined(frame, sparse={"words": words * 3, "more": words})}
    np.testing.assert_array_equal(
        reading.match_new(beside, tmp_path, two, "t.csv", key="", view=[], gram=[]).X["words"].toarray(),
        3 * words.toarray(),
    )
    truth = {
        "numbers": (model, Spec(target="y")),
        "unknown": (model, Spec(target="yy")),
        "times": (model, Spec(time="days", event="died", strata="site")),
        "wrong times": (model, Spec(time="days", event="died", target="y")),
    }
    for name, (one, spec) in truth.items():
        answers[f"truth, {name}"] = answer(reading.read_truth, one, frame, spec)
    classes = SimpleNamespace(classes_=np.array(["low", "mid"]))
    answers["truth, strangers"] = answer(reading.read_truth, classes, frame, Spec(target="class"))
    answers["truth, classes"] = answer(
        reading.read_truth, classes, frame[frame["class"] != "top"][:5], Spec(target="class")
    )
    answers["strata"] = [answer(reading.strata_of_rows, frame[:3], name) for name in ("", "site", "sites")]
    with pytest.raises(
        kw.InputError,
        match=r"words\.npz has rows but no target\. Pass the table with the target first, and this",
    ):
        reading.read_all({"words": str(files / "words.npz")}, Spec(), labelled=True)
    recorded("answers", answers)


# ---- folders ----------------------------------------------------------------------------------------


def test_files_are_written_whole(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    folders.write_text(path, "x\r\ny\u00e4")
    assert path.read_bytes() == "x\r\ny\u00e4".encode()
    before = os.umask(0o027)
    try:
        folders.write_text(path, "new")
    finally:
        os.umask(before)
    assert oct(path.stat().st_mode & 0o777) == "0o640"
    with pytest.raises(ValueError, match="surrogates"):
        folders.write_text(path, "\ud800")
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "new"
    assert folders.read_kept(path, len, None) == 3
    assert folders.read_kept(tmp_path / "none", len, "otherwise") == "otherwise"
    for wrong in (KeyError("x"), TypeError("x"), ValueError("x"), AttributeError("x")):

        def read(text, wrong=wrong):
            raise wrong

        with pytest.raises(
            kw.InputError, match=r"a\.txt cannot be read: .*x.*\. Copy it from the run again\."
        ):
            folders.read_kept(path, read, None)
    with pytest.raises(kw.InputError, match=r"^Cannot write /x/y: No such"), folders.writing():
        raise FileNotFoundError(2, "No such", "/x/y")
    with (
        pytest.raises(kw.InputError, match=r"^The disk is full; nothing was written to\. Free some"),
        folders.writing(),
    ):
        raise OSError(28, "No space")
    frame = pd.DataFrame({"=a": ["=1", "-2", "+x", "@y", "\tz", "ok", None], "n": range(7)})
    frame["c"] = pd.Categorical(frame["=a"])
    lines = folders.csv_text(frame).splitlines()
    assert lines[0] == "'=a,n,c"
    assert lines[1:3] == ["'=1,0,'=1", "-2,1,-2"]
    assert lines[3:6] == ["'+x,2,'+x", "'@y,3,'@y", "'\tz,4,'\tz"]
    assert lines[6] == "ok,5,ok"
    model = tmp_path / "model.skops"
    model.write_text("x")
    assert folders.model_file(str(tmp_path)) == folders.model_file(str(model)) == model
    with pytest.raises(
        kw.InputError, match=r"^There is no model at .*/gone\. Pass the folder of a run, or a \.skops file"
    ):
        folders.model_file(str(tmp_path / "gone"))
    with pytest.raises(kw.InputError, match=r"a\.txt is a file; --out needs a folder"):
        folders.whole_folder(str(path), overwrite=True, files=["m"]).__enter__()
    with pytest.raises(
        kw.InputError, match=r"already holds a\.txt\. Name another folder, or pass --overwrite"
    ):
        folders.check_free(tmp_path, False, "a.txt")
    folders.check_free(tmp_path, True, "a.txt")
    with (
        pytest.raises(RuntimeError),
        folders.whole_folder(str(tmp_path / "u" / "v"), overwrite=False, files=["m"]),
    ):
        raise RuntimeError
    assert not (tmp_path / "u").exists()
    with folders.whole_folder(str(tmp_path / "u" / "v"), overwrite=False, files=["m"]) as part:
        assert part.parent == tmp_path / "u"
        assert re.fullmatch(r"\.v\.[0-9a-f]{32}\.part", part.name)
        (part / "m").write_text("m")
    assert [one.name for one in (tmp_path / "u" / "v").iterdir()] == ["m"]
