"""The command line: options, help, what is said, and every bad input with its one line.

Modules: `cli`, `cli/app`, `cli/arguments`, `cli/console`, `cli/options`, `cli/papers`.
"""

import datetime
import errno
import gzip
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("jinja2")

import kernelweave as kw
from kernelweave_app.cli import main
from kernelweave_app.cli.app import make_app
from kernelweave_papers import EXPERIMENTS

#: Of the many runs here few are looked at: those with the mark `drawn`.
pytestmark = pytest.mark.usefixtures("undrawn")

FAST = ["--alphas", "6", "--cv", "3"]


def test_an_option_given_several_times_is_a_list():
    """All of them count, and a comma is part of a name; of one text commas are between names."""
    from kernelweave_app.cli.options import final_spec, fit_options

    given = fit_options()(drop=["a, b", "c"], join=["x.csv,y.csv"])
    spec = final_spec(given, None)
    assert spec.drop == ["a, b", "c"]
    assert spec.join == "x.csv,y.csv"


def test_lines_about_progress_say_how_long_it_takes(monkeypatch, capsys):
    from kernelweave_app.cli import console

    now = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with console.Steps("path", 30) as steps:
        for later in (4.0, 1.5, 1.0, 4.0, 200.0):
            now[0] += later
            steps.advance()
        steps.show(30, 30)
    # lines are more than five seconds apart: 2 steps in 5.5 s, and 5 in 210.5 s; the last one is not worth a line
    assert capsys.readouterr().out.splitlines() == [
        "path: 2 of 30 steps, about 77 s left", "path: 5 of 30 steps, about 18 min left",
    ]  # fmt: skip
    with console.Steps("mlmkl", 330, "fits") as steps:
        now[0] += 6.0
        steps.show(12, 330, 400.0)
    assert capsys.readouterr().out == "mlmkl: 12 of 330 fits, about 7 min left\n"
    console.print_table(("name", "value"), [("[b]", 0.123456), ("c", 12)])
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["[b]", "0.1235"],
        ["c", "12"],
    ]


def test_names_of_pictures_ends_of_blocks_and_tables_of_rows():
    from kernelweave_app.cli.arguments import RowTables, block_ends
    from kernelweave_app.cli.paths import _pictures

    assert _pictures([None]) == ["path.svg"]
    assert _pictures(["a b", "a/b", "c"]) == ["path-a_b-1.svg", "path-a_b-2.svg", "path-c.svg"]
    assert [block_ends(text) for text in ("3, 7,9", "views.toml", "")] == [[3, 7, 9], "views.toml", None]
    given = RowTables(groups="0,2,4", columns=["u", "v"], weight="w", max_memory="2GB", jobs=3).arguments(
        {}, "y"
    )
    assert given == {
        "groups": [0, 2, 4], "columns": ["u", "v"], "weight": "w", "max_memory": "2GB", "n_jobs": 3,
    }  # fmt: skip
    none = {"groups": None, "columns": None, "weight": None, "max_memory": None, "n_jobs": 1}
    assert RowTables().arguments({}, "y") == none


def test_values_of_held_out_rows_are_those_of_their_column(tmp_path):
    from kernelweave_app.cli.options import final_spec, fit_options

    file = tmp_path / "spec.toml"
    file.write_text('target = "y"\nholdout = "part"\nholdout_values = ["a", "b"]\n')
    assert final_spec(fit_options()(holdout="train"), file).holdout_values == ""
    assert final_spec(fit_options()(holdout="part"), file).holdout_values == ["a", "b"]
    assert final_spec(fit_options()(holdout="train", holdout_values=["F"]), file).holdout_values == "F"


def write(path, text):
    path.write_text(text)
    return str(path)


BAD = {
    "no such file": (lambda t, w: ["fit", str(t / "no.csv"), "--target", "y"], "There is no file"),
    "a folder": (lambda t, w: ["fit", str(t), "--target", "y"], "is a folder"),
    "not a table": (lambda t, w: ["fit", write(t / "x.parquet", "text"), "--target", "y"], "cannot be read"),
    "binary": (lambda t, w: ["fit", _binary(t / "x.csv"), "--target", "y"], "byte 0 is zero"),
    "a block of zeros": (lambda t, w: ["fit", _zeroed(t / "x.csv"), "--target", "y"], "byte 40 is zero"),
    "a block of zeros, packed": (
        lambda t, w: ["fit", _zeroed(t / "x.csv.gz"), "--target", "y"],
        "byte 40 is zero",
    ),
    "no archive": (
        lambda t, w: ["fit", write(t / "x.csv.xz", "a,y"), "--target", "y"],
        "cannot be read as a table",
    ),
    "lists in cells": (lambda t, w: _parquet(t, a=[[k, k] for k in range(20)]), "'a' holds ndarray"),
    "lists as a target": (lambda t, w: _parquet(t, y=[[k] for k in range(20)]), "'y' holds ndarray"),
    "bytes in cells": (lambda t, w: _parquet(t, a=[b"\xff"] * 20), "'a' holds bytes"),
    "dates and text in cells": (
        lambda t, w: _parquet(t, a=[datetime.time(1, 2)] * 20),
        "numbers, text or dates, but column 'a' holds time",
    ),
    "dates as a target": (lambda t, w: _parquet(t, y=pd.date_range("2020", periods=20)), "days since"),
    "a structure": (
        lambda t, w: ["fit", _structure(t / "x.npz"), "--target", "y"],
        "array 'a' holds [('f', '<f8')]",
    ),
    "huge targets": (
        lambda t, w: _parquet(t, y=np.linspace(0.0, 1.7e308, 20)),
        "column 'y' has numbers beyond",
    ),
    "huge features": (
        lambda t, w: _parquet(t, a=np.linspace(1e101, 2e101, 20)),
        "column 'a' has numbers beyond 1e+100",
    ),
    "empty": (lambda t, w: ["fit", write(t / "x.csv", "a,y\n"), "--target", "y"], "no rows"),
    "more fields than names": (
        lambda t, w: ["fit", write(t / "x.csv", "a,b,y\n1,2,x,9\n2,3,z,9\n"), "--target", "y"],
        "rows with 4 fields, but names for 3 columns",
    ),
    "more fields in some rows": (
        lambda t, w: ["fit", write(t / "x.csv", "a,b,y\n1,2,x,\n2,3,z,9\n"), "--target", "y"],
        "rows with 4 fields, but names for 3 columns",
    ),
    "columns of one name": (
        lambda t, w: ["fit", write(t / "x.csv", "a,a,y\n1,2,x\n2,3,z\n"), "--target", "y"],
        "columns of the same name: 'a'",
    ),
    "arrays of one name": (
        lambda t, w: ["fit", _arrays(t / "x.npz"), "--target", "y"],
        "columns of the same name: 'X.0'",
    ),
    "two kinds of decimals": (
        lambda t, w: ["fit", write(t / "x.csv", "a;b;y\n1,5;2.5;x\n2,5;3.5;z\n"), "--target", "y"],
        "decimal commas",
    ),
    "further rows for a rule without factors": (
        lambda t, w: ["fit", str(w), "--target", "target", "--transductive", "--normalize", "cosine"],
        "--transductive is for mean-diagonal, trace, norm, center",
    ),
    "further rows where none are held out": (
        lambda t, w: ["path", str(w), "--target", "target", "--out", str(t / "path"), "--transductive"],
        "needs held-out rows",
    ),
    "no target given": (lambda t, w: ["fit", str(w)], "the target"),
    "no such target": (lambda t, w: ["fit", str(w), "--target", "targte"], "Did you mean 'target'"),
    "missing targets": (
        lambda t, w: ["fit", write(t / "x.csv", "a,y\n1,2\n2,\n3,4\n"), "--target", "y"],
        "missing values",
    ),
    "constant target": (
        lambda t, w: [
            "fit",
            write(t / "x.csv", "a,y\n" + "1,5\n2,5\n" * 9),
            "--target",
            "y",
            "--task",
            "regression",
        ],
        "is constant",
    ),
    "one class": (
        lambda t, w: ["fit", write(t / "x.csv", "a,y\n" + "1,b\n2,b\n" * 9), "--target", "y"],
        "one class",
    ),
    "one row": (lambda t, w: ["fit", write(t / "x.csv", "a,y\n1,2\n"), "--target", "y"], ""),
    "infinity": (
        lambda t, w: ["fit", write(t / "x.csv", "a,y\n" + "inf,1\n2,2.5\n" * 9), "--target", "y"],
        "infinity",
    ),
    "missing cells": (
        lambda t, w: ["fit", write(t / "x.csv", "a,b,y\n" + "1,,1\n2,3,2.5\n" * 9), "--target", "y"],
        "missing cells",
    ),
    "text in regression": (
        lambda t, w: ["fit", str(w), "--target", "cellar", "--task", "regression"],
        "holds text",
    ),
    "unknown method": (
        lambda t, w: ["fit", str(w), "--target", "target", "--method", "rls"],
        "Did you mean 'rls2'",
    ),
    "unknown bank": (
        lambda t, w: ["fit", str(w), "--target", "target", "--kernels", "rls3"],
        "Did you mean 'rls2'",
    ),
    "unknown kernel": (
        lambda t, w: ["fit", str(w), "--target", "target", "--kernels", "rbff(gamma=1)"],
        "rbff",
    ),
    "bad gamma": (lambda t, w: ["fit", str(w), "--target", "target", "--kernels", "rbf(gamma=-1)"], "gamma"),
    "unknown normaliser": (
        lambda t, w: ["fit", str(w), "--target", "target", "--normalize", "tracee"],
        "'trace'",
    ),
    "unknown scorer": (
        lambda t, w: ["fit", str(w), "--target", "target", "--scoring", "acuracy"],
        "'accuracy'",
    ),
    "a score for two classes": (
        lambda t, w: ["fit", str(w), "--target", "target", "--scoring", "roc_auc"],
        "'roc_auc' does not work for classification with 3 classes",
    ),
    "a score for numbers": (
        lambda t, w: ["fit", str(w), "--target", "hue", "--scoring", "f1"],
        "'f1' does not",
    ),
    "a score that a fold has no classes for": (
        lambda t, w: [
            *(
                "fit",
                write(t / "x.csv", "a,y\n" + "1,p\n2,q\n3,q\n" * 9),
                "--target",
                "y",
                "--test-size",
                "0",
            ),
            *("--scoring", "roc_auc", "--no-stratify", "--cv", "20"),
        ],
        "has 1 of 2 classes",
    ),
    "held-out rows by values that say neither": (
        lambda t, w: ["fit", str(w), "--target", "target", "--holdout", "cellar"],
        "expected train and test",
    ),
    "a column that holds out every row": (
        lambda t, w: [
            "fit",
            str(w),
            "--target",
            "target",
            "--holdout",
            "cellar",
            "--holdout-values=north,south",
        ],
        "holds out all rows: its values are south (60 rows), north (30 rows)",
    ),
    "infinity in a held-out row": (lambda t, w: _held(t, "inf"), "infinity"),
    "a missing cell in a held-out row": (lambda t, w: _held(t, ""), "missing cells"),
    "infinite target": (
        lambda t, w: ["fit", write(t / "x.csv", "a,y\n" + "1,1.5\n2,inf\n3,4.5\n" * 9), "--target", "y"],
        "The target must be finite",
    ),
    "one class left to learn from": (lambda t, w: _held(t, "5", "1,u"), "are all of class 'u'"),
    "one group": (
        lambda t, w: [
            *("fit", write(t / "x.csv", "a,y,g\n" + "1,u,1\n2,v,1\n" * 9), "--target", "y"),
            *("--group", "g"),
        ],
        "No rows can be held out",
    ),
    "a class of one row": (
        lambda t, w: ["fit", write(t / "x.csv", "a,y\n" + "1,u\n2,v\n" * 9 + "3,w\n"), "--target", "y"],
        "No rows can be held out",
    ),
    "negative weights": (
        lambda t, w: _weighted(t, "-1"),
        "finite nonnegative numbers in a 1D array, got 9 numbers < 0",
    ),
    "missing weights": (lambda t, w: _weighted(t, ""), "got 9 NaN"),
    "infinite weights": (lambda t, w: _weighted(t, "inf"), "got 0 NaN and 9 infinity"),
    "weights of zero": (lambda t, w: _weighted(t, "0", "0"), "got only zeros"),
    "weights of one class": (lambda t, w: _weighted(t, "0"), "are all of class"),
    "no jobs": (lambda t, w: ["fit", str(w), "--target", "target", "--jobs", "0"], "--jobs"),
    "no such device": (
        lambda t, w: ["fit", str(w), "--target", "target", "--method", "deep-uniform", "--device", "quantum"],
        "--device",
    ),
    "unknown solver": (lambda t, w: ["fit", str(w), "--target", "target", "--solver", "newtn"], "'newton'"),
    "negative alpha": (lambda t, w: ["fit", str(w), "--target", "target", "--alphas", "-1.0,2"], "alphas"),
    "text alphas": (
        lambda t, w: ["fit", str(w), "--target", "target", "--alphas", "many"],
        "'low:high:number'",
    ),
    "bad rule": (lambda t, w: ["fit", str(w), "--target", "target", "--rule", "best"], "rule"),
    "bad share": (
        lambda t, w: ["fit", str(w), "--target", "target", "--test-size", "1.5"],
        "--test-size must be",
    ),
    "theta": (
        lambda t, w: ["fit", str(w), "--target", "target", "--theta", "7"],
        "--theta must be a number > 0 and <= 1, got 7.0.",
    ),
    "step of another learner": (
        lambda t, w: ["fit", str(w), "--target", "target", "--method", "rkl", "--solver", "adam"],
        "--solver must be 'auto', 'newton', 'spectral' or 'armijo', got 'adam'.",
    ),
    "class weights": (
        lambda t, w: ["fit", str(w), "--target", "target", "--class-weights", "0=x"],
        "--class-weights must be like 'ill=5, well=1' with weights > 0, got '0=x'",
    ),
    "class weights of another class": (
        lambda t, w: ["fit", str(w), "--target", "target", "--class-weights", "5=2"],
        "Unknown class '5'",
    ),
    "two kinds of class weights": (
        lambda t, w: ["fit", str(w), "--target", "target", "--class-weights", "0=2", "--balanced"],
        "exclude each other",
    ),
    "probabilities of numbers": (
        lambda t, w: ["fit", str(w), "--target", "ash", "--probabilities", "platt"],
        "--probabilities is for classes",
    ),
    "unknown option": (lambda t, w: ["fit", str(w), "--traget", "target"], "traget"),
    "unknown column to drop": (
        lambda t, w: ["fit", str(w), "--target", "target", "--drop", "colour"],
        "the columns to leave out",
    ),
    "no views file": (
        lambda t, w: ["fit", str(w), "--target", "target", "--views", str(t / "v.toml")],
        "no views file",
    ),
    "broken views": (
        lambda t, w: ["fit", str(w), "--target", "target", "--views", write(t / "v.toml", "[views")],
        "TOML",
    ),
    "empty views": (
        lambda t, w: ["fit", str(w), "--target", "target", "--views", write(t / "v.toml", "a = 1")],
        "[views]",
    ),
    "views without columns": (
        lambda t, w: [
            "fit",
            str(w),
            "--target",
            "target",
            "--views",
            write(t / "v.toml", '[views]\na = ["rna*"]'),
        ],
        "no column matches 'rna*'",
    ),
    "unknown setting": (
        lambda t, w: ["fit", str(w), "--spec", write(t / "s.toml", 'target = "target"\nfolds = 3')],
        "folds",
    ),
    "memory": (lambda t, w: ["fit", str(w), "--target", "target", "--max-memory", "lots"], "2GB"),
    "no model": (lambda t, w: ["predict", str(t / "run"), str(w), "--out", str(t / "p.csv")], "no model"),
    "CSV under the name of Parquet": (
        lambda t, w: ["predict", str(t / "run"), str(w), "--out", str(t / "p.parquet")],
        "name of another format (.parquet). End it in .csv",
    ),
    "CSV under the name of a packed file": (
        lambda t, w: ["predict", str(t / "run"), str(w), "--out", str(t / "p.csv.gz")],
        "name of another format (.csv.gz). End it in .csv",
    ),
    "CSV under the name of a workbook": (
        lambda t, w: ["evaluate", str(t / "run"), str(w), "--out", str(t / "P.XLSX")],
        "name of another format (.xlsx)",
    ),
    "CSV under the name of arrays": (
        lambda t, w: ["scoreboard", str(t), "--out", str(t / "p.npz")],
        "(.npz)",
    ),
    "not a model": (
        lambda t, w: ["predict", write(t / "m.skops", "x"), str(w), "--out", str(t / "p.csv")],
        "not a model",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--method", "simple", "--alphas", "1,0.1"], "has a C, which is 1 / alpha. Write --cs 1,10."),
        (["--method", "simple", "--alphas", "0.1"], "Write --cs 10.0."),
        (["--method", "simple", "--alphas", "0.01:10:7"], "Write --cs 0.1:100:7."),
        (["--method", "simple", "--alphas", "12"], "Write --cs 12."),
        (
            ["--method", "rls2", "--kernels", "linear", "--cs", "1,10"],
            "rls2 has an alpha. Write --alphas, such as --alphas 0.1,1,10.",
        ),
        (["--kernels", "linear", "--cs", "1,10", "--delta", "0.1"], "lp does not have it"),
        (["--method", "simple", "--cs", "1,0"], "--cs must be"),
        (["--method", "simple", "--cs", "1,ten"], "--cs must be"),
    ],
)
def test_values_of_another_regularisation_parameter_are_refused(given, said, wine, tmp_path, capsys):
    assert main(["fit", str(wine), "--target", "target", *given, "--out", str(tmp_path / "run")]) == 2
    assert said in capsys.readouterr().err


def test_a_c_for_kernels_of_ones_own_means_the_learner_of_estimators(tmp_path):
    """Also where a file of settings has it."""
    from kernelweave_app.cli.options import final_spec, fit_options
    from kernelweave_app.runs.spec import chosen

    file = tmp_path / "s.toml"
    file.write_text('Cs = "1,10"\n', encoding="utf-8")
    options = fit_options()
    for found in (
        final_spec(options(kernels="linear", Cs="1,10"), None),
        final_spec(options(kernels="linear"), file),
    ):
        assert chosen(found, "classification").method == "lp"
        assert found.Cs == "1,10"


def _held(folder, cell, held="1,v"):
    """A table whose held-out rows have a cell of their own; others are of class u, and of v where those are not."""
    lines = "1,2,u,train\n2,1,v,train\n" * 9 if held == "1,v" else "1,2,u,train\n2,1,u,train\n" * 9
    rest = f"{cell},3,v,test\n1,4,v,test\n"
    path = write(folder / "x.csv", "a,b,y,held\n" + lines + rest)
    return ["fit", path, "--target", "y", "--holdout", "held", "--kernels", "linear"]


def _weighted(folder, one, other="2"):
    path = write(folder / "x.csv", "a,y,w\n" + f"1,u,{one}\n2,v,{other}\n" * 9)
    return ["fit", path, "--target", "y", "--weights", "w"]


def _binary(path):
    path.write_bytes(bytes(range(256)) * 4)
    return str(path)


def _zeroed(path):
    """A table of which a disk has lost a part."""
    text = bytearray(b"a,y\n" + b"1.25,2.5\n2.75,3.5\n" * 9)
    text[40:60] = bytes(20)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


def _parquet(folder, **columns):
    frame = pd.DataFrame({"a": np.arange(20.0), "y": np.arange(20.0) ** 2})
    frame.assign(**columns).to_parquet(folder / "x.parquet", index=False)
    return ["fit", str(folder / "x.parquet"), "--target", "y"]


def _structure(path):
    np.savez(path, a=np.zeros(20, dtype=[("f", "f8")]), y=np.arange(20.0))
    return str(path)


def _arrays(path):
    np.savez(path, **{"X": np.eye(3), "X.0": np.ones(3), "y": np.arange(3)})
    return str(path)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_line(case, wine, tmp_path, capsys):
    make, words = BAD[case]
    arguments = make(tmp_path, wine)
    if arguments[0] == "fit":
        arguments += ["--out", str(tmp_path / "run")]
    assert main(arguments) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("kernelweave: ")
    assert words in lines[0]
    assert "Traceback" not in captured.out + captured.err
    assert not (tmp_path / "run").exists()
    assert not list(tmp_path.glob(".*"))


def test_an_earlier_run_is_not_overwritten_by_accident(wine, tmp_path, capsys):
    fit = ["fit", str(wine), "--target", "target", "--out", str(tmp_path / "run"), *FAST]
    assert main(fit) == 0
    before = (tmp_path / "run" / "model.skops").read_bytes()
    assert main(fit) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (tmp_path / "run" / "model.skops").read_bytes() == before
    assert main([*fit, "--overwrite"]) == 0
    assert not list((tmp_path / "run").glob("*.part"))


def test_a_folder_that_cannot_be_written(wine, tmp_path, capsys):
    assert main(["fit", str(wine), "--target", "target", "--out", str(wine)]) == 2
    assert "is a file" in capsys.readouterr().err
    # the superuser may write anywhere, so the kernel's own file system stands in for a read-only folder
    assert main(["fit", str(wine), "--target", "target", "--out", "/proc/kernelweave", *FAST]) == 2
    assert "Cannot write" in capsys.readouterr().err


FAILURES = {
    "full disk": OSError(errno.ENOSPC, "No space left on device", "x"),
    "Ctrl-C": KeyboardInterrupt(),
    "mistake": RuntimeError("a mistake"),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("step", ["save", "write_text", "make_report"])
@pytest.mark.parametrize("why", FAILURES)
def test_a_run_that_fails_leaves_nothing(step, why, tiny_run, tmp_path, monkeypatch, capsys):
    from kernelweave import persistence
    from kernelweave_app import reports
    from kernelweave_app.runs import writing

    def fail(*arguments, **more):
        raise FAILURES[why]

    owner = {"save": persistence, "write_text": writing, "make_report": reports}[step]
    monkeypatch.setattr(owner, step, fail)
    fit = [*TINY, str(tiny_run[0]), "--out", str(tmp_path / "new" / "run")]
    if why == "mistake":
        with pytest.raises(RuntimeError, match="a mistake"):
            main(fit)
    else:
        assert main(fit) == (2 if why == "full disk" else 130)
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


TINY = ["fit", "--target", "y", "--kernels", "linear", "--alphas", "1", "--cv", "2"]


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=20), "y": rng.normal(size=20)})
    frame.to_csv(folder / "t.csv", index=False)
    assert main([*TINY, str(folder / "t.csv"), "--out", str(folder / "run")]) == 0
    return folder / "t.csv", folder / "run"


def test_a_new_run_replaces_all_of_an_earlier_one_and_nothing_else(tiny_run, tmp_path, monkeypatch):
    table, earlier = tiny_run
    out = tmp_path / "run"
    shutil.copytree(earlier, out)
    (out / "notes.txt").write_text("mine")
    monkeypatch.chdir(out)
    fit = [*TINY, str(table), "--test-size", "0", "--out", "."]
    assert main(fit) == 2
    assert main([*fit, "--overwrite"]) == 0
    left = {
        "model.skops",
        "report.html",
        "spec.toml",
        "script.py",
        "lineage.json",
        "evidence.json",
        "notes.txt",
    }
    assert {p.name for p in Path.cwd().iterdir()} == left


@pytest.mark.full
def test_a_killed_run_leaves_no_folder(tiny_run, tmp_path):
    table, _ = tiny_run
    text = (
        "import os, signal, sys; from kernelweave_app import reports; from kernelweave_app.cli import main\n"
        "reports.make_report = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "main(sys.argv[1:])"
    )
    out = tmp_path / "run"
    command = [sys.executable, "-c", text, *TINY, str(table), "--out", str(out)]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == -signal.SIGKILL
    assert not out.exists()
    [hidden] = tmp_path.iterdir()
    assert hidden.name.startswith(".run.")
    assert (hidden / "model.skops").exists()


def test_help_names_every_experiment(capsys):
    main(["reproduce", "--help"])
    words = capsys.readouterr().out.replace(",", " ").replace(".", " ").split()
    assert [name for name in EXPERIMENTS if name not in words] == []


def test_no_option_of_any_command_has_an_empty_help():
    app = make_app("all")
    commands = [name for name in app if not name.startswith("-")]
    assert {"fit", "evaluate", "completion"} <= {*commands}
    shown = {
        (command, name): one.parameter.help
        for command in commands
        for one in app[command].assemble_argument_collection(parse_docstring=True)
        for name in one.names
        # records of several options, which have their own
        if not one.children
    }
    assert len(shown) > 200
    assert [place for place, about in shown.items() if not (about or "").strip()] == []


@pytest.mark.full
def test_help_is_quick_and_has_examples():
    environment = {**os.environ, "COLUMNS": "200"}
    out = subprocess.run(
        [sys.executable, "-m", "kernelweave_app.cli", "--help"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    for command in ("demo", "fit", "predict", "evaluate", "path"):
        assert command in out.stdout
        page = subprocess.run(
            [sys.executable, "-m", "kernelweave_app.cli", command, "--help"],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        assert "Example" in page.stdout
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, kernelweave_app.cli.app; from kernelweave_app.cli import options; options.fit_options(); "
            "print(sorted({m.split('.')[0] for m in sys.modules}))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for heavy in ("numpy", "scipy", "sklearn", "pandas", "matplotlib", "fastapi", "nicegui", "uvicorn"):
        assert f"'{heavy}'" not in loaded


@pytest.mark.parametrize("command", ["fit", "path"])
def test_the_rank_tolerance_reaches_the_model(command, tiny_run, tmp_path, monkeypatch):
    from kernelweave import estimators
    from kernelweave.estimators import cv

    seen = []
    owner, name = (estimators, "MKLRegressor") if command == "path" else (cv, "MKLRegressorCV")
    plain = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *a, **more: seen.append(more["rank_tol"]) or plain(*a, **more))
    more = ["--out", str(tmp_path / "run"), "--rank-tol", "0.25"]
    assert main([command, *TINY[1:], str(tiny_run[0]), *more]) == 0
    # made for the run, and once more where a script is printed from it
    assert set(seen) == {0.25}
    if command == "fit":
        assert "rank_tol=0.25" in (tmp_path / "run" / "script.py").read_text()


def test_features_in_place_of_kernels_reach_the_model_and_the_script(tiny_run, tmp_path, capsys):
    more = ["--out", str(tmp_path / "run"), "--approximation", "nystroem", "--n-features", "9", "--seed", "3"]
    rows = [*TINY[1:3], "--kernels", "rbf", *TINY[5:], str(tiny_run[0])]
    assert main(["fit", *rows, *more]) == 0
    assert "Nystroem features" in capsys.readouterr().out
    written = (tmp_path / "run" / "script.py").read_text()
    assert "approximation=kw.kernels.Nystroem(n_features=9, random_state=3)" in written
    assert (
        main(["fit", *TINY[1:], str(tiny_run[0]), "--out", str(tmp_path / "other"), "--n-features", "9"]) != 0
    )
    assert "--n-features is for" in capsys.readouterr().err


HIDING = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
from kernelweave_app.cli import main

table, model = sys.argv[2:]
commands = [["--help"], ["fit", table, "--target", "none"], ["predict", model, table, "--out", "p.csv"],
            ["evaluate", model, table, "--target", "y"], ["export", model, "--out", "x.onnx"]]
if sys.argv[1] in ("cyclopts", "starlette", "nicegui"):
    commands.append(["studio", "--no-browser"])
for command in commands:
    status = main(command)
    assert status in (0, 2)
"""


@pytest.mark.full
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("cyclopts", "cli"),
        ("pydantic", "cli"),
        ("pandas", "cli"),
        ("onnx", "onnx"),
        ("starlette", "studio"),
        ("nicegui", "studio"),
    ],
)
def test_a_missing_package_is_one_line_that_says_what_to_install(module, extra, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": np.where(X[:, 0] > 0, "yes", "no")})
    frame.to_csv(tmp_path / "table.csv", index=False)
    kw.save(kw.MKLClassifier(learner="uniform").fit(frame[["a", "b"]], frame["y"]), tmp_path / "m.skops")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HIDING, module, "table.csv", "m.skops"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if module in line]
    assert any(f"pip install 'kernelweave[{extra}]'" in line for line in told), done.stderr
    assert "Traceback" not in done.stderr
    assert all(line.startswith("kernelweave: ") for line in done.stderr.splitlines()), done.stderr


@pytest.mark.skipif(os.name == "nt", reason="pipes of another kind")
@pytest.mark.parametrize("command", [["schema"], ["fit", "--help-all"], ["demo", "--help"]])
def test_a_closed_pipe_ends_a_command_without_a_message(command):
    """As that of ``kernelweave schema | head -1``: the status is that of a program which SIGPIPE ends."""
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-m", "kernelweave_app.cli", *command]
    try:
        made = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (made.returncode, made.stderr) == (141, "")


def test_what_to_install_for_a_module_that_is_missing(monkeypatch):
    from kernelweave_app.cli import _extra_of

    lines = ["pillow>=10; extra == 'plots'", "pillow-heif; extra == 'photos'", "numpy>=2"]
    lines += [
        'a-b>=1; extra == "first"',
        'a-b>=1; extra == "other"',
        "c; extra == 'studio'",
        "c; extra == 'cli'",
    ]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: lines)
    found = {name: _extra_of(name) for name in ("PIL", "a_b", "c", "numpy", "unheard_of")}
    assert found == {"PIL": "plots", "a_b": "first", "c": "cli", "numpy": "cli", "unheard_of": "cli"}


def test_a_short_help_shows_the_usual_options_and_hides_the_others():
    from kernelweave_app.cli.options import fit_options
    from kernelweave_app.runs.spec import marked

    def shown(**how):
        fields = fit_options(**how).model_fields
        return {
            name
            for name, one in fields.items()
            if all(getattr(m, "show", None) is not False for m in one.metadata)
        }

    assert shown(brief=True) == set(marked("brief"))
    assert shown() == set(fit_options().model_fields) > set(marked("brief"))
