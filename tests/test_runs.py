"""Rooms of `kernelweave_app.runs`, each by itself: what is read, divided, chosen, fitted and estimated.

Modules: `runs`, `runs/columns`, `runs/division`, `runs/estimating`, `runs/evidence`, `runs/fitting`, `runs/folders`,
`runs/formats`, `runs/formats/arrays`, `runs/formats/parquet`, `runs/formats/text`, `runs/further_views`,
`runs/joining`, `runs/kernels_of`, `runs/lineage`, `runs/nested`, `runs/predictions`, `runs/preparing`,
`runs/reading`, `runs/row_names`, `runs/scripts`, `runs/settings`, `runs/spec`, `runs/writing`.
"""

import errno
import gzip
import hashlib
import os
import re
import sys
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import model_selection

import kernelweave as kw
from kernelweave import recipe
from kernelweave_app.runs import (
    columns,
    estimating,
    evidence,
    fitting,
    folders,
    joining,
    lineage,
    nested,
    predictions,
    writing,
)
from kernelweave_app.runs.division import Division, read_division
from kernelweave_app.runs.fitting import (
    chosen,
    fit_model,
    fits_plainly,
    make_learner,
    make_model,
    plain_learner,
    unused_settings,
)
from kernelweave_app.runs.formats import FileLimits, format_of, read_file, read_table
from kernelweave_app.runs.formats.arrays import check_array
from kernelweave_app.runs.formats.parquet import Parquet
from kernelweave_app.runs.formats.text import Text, find_separator
from kernelweave_app.runs.joining import (
    LAYOUT,
    Joined,
    Layout,
    join_new,
    join_tables,
    layout_text,
    match_tables,
    read_layout,
)
from kernelweave_app.runs.kernels_of import make_kernels
from kernelweave_app.runs.preparing import prepare, sample_rows, split
from kernelweave_app.runs.reading import load_model, read_new, read_run
from kernelweave_app.runs.spec import Spec, check_spec, inverted
from kernelweave_app.runs.writing import used_settings

FAILURES = {
    "full disk": OSError(errno.ENOSPC, "No space left on device", "x"),
    "Ctrl-C": KeyboardInterrupt(),
    "mistake": RuntimeError("a mistake"),
}


@pytest.mark.parametrize(
    ("name", "cells", "held"),
    [
        ("train", "TTF", [0, 0, 1]),
        ("Train", "TTF", [0, 0, 1]),
        ("train", ["test", "Train", "train"], [1, 0, 0]),
        ("body.train", [1, 0, 1], [0, 1, 0]),
        ("is_train", [True, False, True], [0, 1, 0]),
        ("training set", ["yes", "no", "no"], [0, 1, 1]),
        ("train", [1.0, np.nan, np.nan], [0, 1, 1]),
        ("test", "TTF", [1, 1, 0]),
        ("is_test", [1.0, np.nan, np.nan], [1, 0, 0]),
        ("not_train", [True, False, False], [1, 0, 0]),
        ("held_out", ["Yes", "NO", "no"], [1, 0, 0]),
        ("part", "ytn", [1, 1, 0]),
        ("part", [" Held-out ", "validation", "training"], [1, 1, 0]),
        ("part", ["hold_out", "TEST", None], [1, 1, 0]),
    ],
)
def test_a_column_marks_held_out_rows_as_its_name_and_words_say(name, cells, held):
    column = pd.Series(list(cells), name=name)
    found, division = read_division(column)
    assert found.tolist() == [bool(one) for one in held]
    assert (division.n_held, division.n_training) == (sum(held), 3 - sum(held))
    assert division.said.startswith(f"{sum(held)} row")
    # the lines of a script mark the same rows, without the rule
    space = {"table": column.to_frame()}
    exec("\n".join(division.lines()), space)
    assert space["held"].tolist() == found.tolist()
    # and values that are listed are taken as they are
    listed, _ = read_division(column, list(division.training))
    assert listed.tolist() == (~found).tolist()


def test_names_say_which_table_stands_for_which():
    genes = {"a": "rna.a", "b": "rna.b"}, {"a": "meth.a", "b": "meth.b"}
    layout = Layout("who", {"rna": genes[0], "meth": genes[1]})
    frame = pd.DataFrame({"who": ["x"], "a": [1], "b": [2]})
    needed = ["rna.a", "meth.b"]

    def match(*names):
        return match_tables(dict.fromkeys(names, frame), layout, needed)

    assert match("meth", "rna") == {"rna": "rna", "meth": "meth"}
    assert match("Meth_new", "2024-rna") == {"rna": "2024-rna", "meth": "Meth_new"}
    assert match("first", "second") == {"rna": "first", "meth": "second"}
    joined, _ = join_new({"first": frame, "second": frame.assign(a=3, c=4)}, layout, needed, "")
    assert joined.table.iloc[0].to_dict() == {"who": "x", "rna.a": 1, "rna.b": 2, "meth.a": 3, "meth.b": 2}


@pytest.mark.parametrize("rows", ["shared", "all", "order"])
def test_rows_of_new_tables_are_matched_as_those_of_the_run(rows, tmp_path):
    tables = {
        "rna": pd.DataFrame({"who": ["p", "q", "r"], "a": [1.0, 2.0, 3.0]}),
        "meth": pd.DataFrame({"who": ["q", "r", "s"], "b": [4.0, 5.0, 6.0]}),
    }
    joined = join_tables(tables, "who", rows)
    assert len(joined.table) == {"shared": 2, "all": 4, "order": 3}[rows]
    (tmp_path / LAYOUT).write_text(layout_text(joined, "" if rows == "order" else "who", "rna.csv"))
    again, _ = join_new(tables, read_layout(tmp_path), ["a", "b"], "")
    pd.testing.assert_frame_equal(again.table[["a", "b"]], joined.table[["a", "b"]])


def test_what_is_stated_changes_the_default_learner():
    def named(task, **given):
        return chosen(Spec(**given), task).method

    assert named("classification") == "lp"
    assert named("regression") == "rls2"
    assert chosen(Spec(), "classification").learner_params["p"] == 2.0
    assert chosen(Spec(), "regression").learner_params == {"relax": "auto"}
    for given in ({"kernels": "linear"}, {"kernels": "rls2"}, {"alphas": "0.1,1"}):
        assert chosen(Spec(**given), "classification").learner_params == {}
        assert named("classification", **given) == named("regression", **given) == "rls2"
        assert not fits_plainly(Spec(**given))
    assert named("regression", Cs="1,10") == named("classification", Cs="1,10") == "lp"
    assert named("classification", kernels="linear", Cs="1,10") == "lp"
    assert named("classification", method="rls2") == "rls2"
    assert fits_plainly(Spec(target="y", test_size=0.0, balanced=True, method="default", group="g"))
    assert fits_plainly(Spec(scoring="f1_macro"))
    for given in ({"cv": 7}, {"rule": "1se"}, {"cv": 7, "scoring": "f1_macro"}, {"method": "rls2"}):
        assert not fits_plainly(Spec(**given))
    # parameters of one's own change the learner, not the choice of C
    learner, cost = plain_learner(Spec(learner_params={"p": 3.0}), "classification")
    assert (learner.p, learner.tol, cost) == (3.0, recipe.CLASSIFICATION[1]["tol"], {"C": "auto"})
    learner, cost = plain_learner(Spec(jobs=2), "regression")
    assert (learner.alpha, learner.relax, learner.n_jobs, cost) == ("auto", "auto", 2, {})
    assert plain_learner(Spec(jobs=2), "classification") == (None, {})


def test_values_for_the_other_regularisation_parameter_are_not_used():

    both = Spec(method="simple", alphas="1,2", Cs="5")
    assert (both.alphas, both.Cs) == ("1,2", "5")
    assert unused_settings(both) == ["alphas"]
    assert unused_settings(Spec(method="rls2", Cs="1,2")) == ["Cs"]


def test_parameters_of_learners_can_be_set():
    """Of every learner all but the regularisation parameter and what the path and its folds replace."""
    from kernelweave.learners import LEARNERS

    elsewhere = {"alpha", "C", "n_alphas", "n_jobs", "shared_weights", "literal"}
    for name, learner in LEARNERS.items():
        fields = {one.name for one in learner.settings().values()}
        assert set(learner().get_params()) - fields - elsewhere <= (
            {"n_folds", "n_jobs"} if issubclass(learner, LEARNERS["rls2"]) else set()
        )
        assert make_learner(Spec(method=name)).get_params() == learner().get_params()


def test_a_setting_that_no_learner_has_is_refused():

    spec = Spec(target="y", method="rkl", learner_params={"norm": "none", "max_iter": 7, "theta": 0.3})
    assert repr(make_learner(spec)) == "RKL(max_iter=7, norm=None)"
    assert unused_settings(spec) == ["theta"]
    with pytest.raises(kw.InputError, match="'nothing'"):
        check_spec({"learner_params": {"nothing": 1}})


@pytest.mark.parametrize(
    ("name", "value"),
    [("cv", 1), ("missing", "forget"), ("rank_tol", 1.0), ("normalize", "twice"), ("jobs", 99)],
)
def test_a_setting_is_refused_in_the_words_of_its_place(name, value):
    from kernelweave_app.runs.spec import in_words_of, own_fields

    with pytest.raises(kw.InputError, match=f"^`{name}` must be ") as caught:
        check_spec({name: value})
    message = str(caught.value)
    assert in_words_of("options", message).startswith(f"--{name.replace('_', '-')} must be ")
    assert in_words_of("form", message).startswith(f"'{own_fields()[name].label}' must be ")


def test_fields_have_what_estimators_admit():
    """Choices and ranges are those of the library, and defaults too."""
    from kernelweave._declarations import declared
    from kernelweave_app.runs.spec import own_fields

    fields, known = own_fields(), declared(kw.MKLClassifierCV)
    for name in ("missing_views", "rule"):
        assert set(fields[name].choices) == set(known[name].form.choices)
    assert set(fields["normalize"].choices) == {"auto", *kw.normalizers.NORMALIZERS}
    same = {"missing": "missing", "normalize": "normalize", "intercept": "fit_intercept", "rule": "rule"}
    same |= {name: name for name in ("missing_views", "rank_tol", "approximation", "max_memory", "cv")}
    for name, parameter in same.items():
        assert fields[name].default == known[parameter].default
    assert (fields["rank_tol"].least, fields["rank_tol"].most) == (0, 1)


def test_fields_apply_where_they_do_something():
    from kernelweave_app.runs.spec import applies, spec_fields

    fields = spec_fields()

    def shown(spec, task):
        return {name for name, field in fields.items() if applies(field, spec, task)}

    numbers, classes = shown(Spec(), "regression"), shown(Spec(), "classification")
    assert classes - numbers >= {"stratify", "balanced", "class_weights", "probabilities", "p"}
    assert numbers - classes >= {"relax"}
    by_column = shown(Spec(holdout="train"), "regression")
    assert "holdout_values" in by_column - numbers
    assert "test_size" in numbers - by_column


@pytest.mark.parametrize(
    "text",
    [
        "a,b,c\n1.5,2,x\n-3,,y\n",
        "a;b;c\n1,5;2;x\n-3;;y\n",
        "a;b;c\n1.5;2;x\n-3;;y\n",
        "a\tb\tc\n1.5\t2\tx\n-3\t\ty\n",
        "a,b,c\n1.5,2,x,\n-3,,y,\n",
        "a,b,c,\n1.5,2,x,\n-3,,y,\n",
        '\ufeff"a";"b";c\r\n"1,5";2;x\r\n-3;;y\r\n',
    ],
)
def test_what_stands_between_fields_is_found(text, tmp_path):
    (tmp_path / "x.csv").write_text(text, newline="")
    table = read_table(tmp_path / "x.csv")
    expected = pd.DataFrame({"a": [1.5, -3.0], "b": [2.0, np.nan], "c": ["x", "y"]})
    pd.testing.assert_frame_equal(table, expected)


def test_names_may_hold_other_separators():
    assert find_separator(["dose, mg;age;y", "1,5;2;x", "2,5;3;z"]) == ";"
    assert find_separator(['"a;1","b;2;3"', "1,2"]) == ","
    assert find_separator(["a;1,b", "1,2"]) == ","
    assert find_separator(["a,b\tc", "1\t2"], usual="\t") == "\t"


def test_numbers_of_other_types_are_numbers(tmp_path):
    whole = [Decimal(k) / 8 for k in range(20)]
    frame = pd.DataFrame({"d": whole, "k": [None, *whole[1:]], "b": [None, True] * 10, "t": ["x", None] * 10})
    frame.to_parquet(tmp_path / "x.parquet", index=False)
    table = read_table(tmp_path / "x.parquet")
    assert [table[c].dtype.kind for c in ("d", "k")] == ["f", "f"]
    np.testing.assert_array_equal(table["d"], np.arange(20) / 8)
    assert table["b"].dtype == object
    assert pd.isna(table["k"][0])
    np.savez(tmp_path / "x.npz", t=np.array([b"x", b"y"]), y=[1.0, 2.0])
    assert list(read_table(tmp_path / "x.npz")["t"]) == ["x", "y"]


@pytest.mark.parametrize("checked", [True, False])
def test_zeroed_pages_of_parquet_are_refused(checked, tmp_path):
    """By the checksums of pages, or because zeros lie outside the range that was noted."""
    path = tmp_path / "x.parquet"
    frame = pd.DataFrame({"a": np.random.default_rng(0).uniform(1.0, 2.0, size=4000)})
    more = {"compression": None, "use_dictionary": False, "write_page_checksum": checked}
    frame.to_parquet(path, index=False, **more)
    pd.testing.assert_frame_equal(read_table(path), frame)
    content = bytearray(path.read_bytes())
    content[8000:8512] = bytes(512)
    path.write_bytes(content)
    with pytest.raises(
        kw.InputError, match="cannot be read as a table" if checked else "is damaged: column 'a'"
    ):
        read_table(path)


@pytest.mark.parametrize(("scoring", "taken"), [("neg_log_loss", True), ("roc_auc", False)])
def test_only_a_score_of_each_fold_needs_all_classes_in_every_fold(scoring, taken, rng):
    """Log loss is that of all test rows together; an area under a curve is the mean over folds."""
    frame = pd.DataFrame({"a": rng.normal(size=40), "place": np.repeat(list("pqrs"), 10)})
    frame["y"] = np.where(frame["place"].isin(["p", "q"]) & (np.arange(40) % 3 > 0), "no", "yes")
    spec = Spec(
        target="y",
        method="simple",
        learner_params={"loss": "logistic"},
        group="place",
        test_size=0.0,
        cv=4,
        alphas="1,10",
        kernels="linear",
        scoring=scoring,
    )
    prepared = prepare(Joined(frame, {}, {}, {}), spec)
    rows = np.arange(40)
    model = make_model(spec, prepared, rows[:0])
    if taken:
        scores = fit_model(model, prepared, rows, None).cv_results_["test_score"]
        assert np.isfinite(scores).all()
    else:
        with pytest.raises(kw.InputError, match=r"does not work for fold ., which has 1 of 2 classes"):
            fit_model(model, prepared, rows, None)


def test_outer_folds_let_their_own_rows_enter_the_scale(rng, monkeypatch):
    """With `transductive` every outer fold is scored by a model that has seen the inputs of that fold, no others."""
    frame = pd.DataFrame(rng.normal(size=(90, 3))).rename(columns=str).assign(y=list("abc") * 30)
    spec = Spec(
        target="y", kernels="linear", alphas="1", cv=2, nested=3, normalize="trace", transductive=True
    )
    prepared = prepare(Joined(frame, {}, {}, {}), spec)
    seen, fitted = [], []

    def counted(spec, prepared, held):
        seen.append(held)
        fitted.append(make_model(spec, prepared, held))
        return fitted[-1]

    monkeypatch.setattr(nested, "make_model", counted)
    rows = np.arange(0, 90, 2)
    (held,) = nested.nested_predictions(spec, prepared, rows)
    assert np.sort(held.rows).tolist() == list(range(len(rows)))
    assert sorted(np.concatenate(seen).tolist()) == rows.tolist()
    for held, model in zip(seen, fitted, strict=True):
        assert model.model_.task.extra.n_rows == len(held)
        # a model file could not hold the table of further rows
        assert model.normalize == "trace"


def _content(folder):
    return {str(p.relative_to(folder)): p.is_file() and p.read_bytes() for p in folder.rglob("*")}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("before", ["nothing", "an empty folder", "an earlier run"])
@pytest.mark.parametrize("why", FAILURES)
@pytest.mark.parametrize("moves", range(5))
def test_a_folder_is_there_whole_or_not_at_all(moves, why, before, tmp_path, monkeypatch):
    """Whatever fails, and after however many files are in their place."""
    out = tmp_path / "new" / "run"
    names = ("model.skops", "part-*.txt", "more.txt")
    if before != "nothing":
        out.mkdir(parents=True)
    if before == "an earlier run":
        for name in ("model.skops", "part-1.txt", "part-2.txt", "notes.txt"):
            (out / name).write_text("earlier")
    held, plain, calls = _content(tmp_path), os.rename, []

    def rename(source, target):
        calls.append(source)
        if len(calls) == moves:
            raise FAILURES[why]
        # at no time are there parts of two results
        seen = (
            {p.read_text() for p in out.glob("*.*") if p.is_file() and p.name != "notes.txt"}
            if out.exists()
            else set()
        )
        assert (out / "model.skops").exists() <= (len(seen) < 2)
        plain(source, target)

    monkeypatch.setattr(os, "rename", rename)
    made = 0
    expected = kw.InputError if why == "full disk" and moves else type(FAILURES[why])
    try:
        with folders.whole_folder(str(out), overwrite=True, files=names) as folder:
            assert _content(tmp_path) | _content(folder) == _content(tmp_path)
            for name in ("model.skops", "part-1.txt", "more.txt"):
                (folder / name).write_text("new")
            if not moves:
                raise FAILURES[why]
        made = 1
    except expected:
        pass
    if not made:
        assert _content(tmp_path) == held
        return
    assert 0 < len(calls) < moves
    new = {"new": False, "new/run": False}
    new |= {f"new/run/{name}": b"new" for name in ("model.skops", "part-1.txt", "more.txt")}
    new |= {"new/run/notes.txt": b"earlier"} if before == "an earlier run" else {}
    assert _content(tmp_path) == new


def test_fields_are_kept_until_the_package_changes(tmp_path, monkeypatch):
    from kernelweave_app.runs import spec

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    declared, made = spec.spec_fields(), []
    for module in ("kernelweave.learners", "kernelweave.machines.losses"):
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(spec, "spec_fields", lambda: made.append(0) or declared)
    for _ in range(2):
        assert list(spec.known_fields().values()) == list(declared.values())
    assert len(made) == 1
    # a learner in a new file, or a kept file that was cut short
    monkeypatch.setattr(spec, "_state_of_package", lambda: ["other"])
    spec.known_fields()
    assert len(made) == 2
    spec.kept_fields().write_text("[{", "utf8")
    spec.known_fields()
    assert len(made) == 3
    assert list(spec.known_fields()) == list(declared)
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert spec.kept_fields() == Path.home() / ".cache" / "kernelweave" / "fields.json"


def test_outer_folds_are_scored_on_rows_that_their_fit_has_not_seen(monkeypatch):
    from kernelweave_app.runs import nested
    from kernelweave_app.runs.joining import Joined
    from kernelweave_app.runs.preparing import prepare

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "y"])
    spec = Spec(target="y", nested=3, kernels="linear", alphas="2", cv=2)
    prepared = prepare(Joined(frame, {}, {}, {}), spec)
    # others are held out, also from the first rows
    rows, fitted, scored = np.arange(6, 30), [], []
    monkeypatch.setattr(
        nested, "fit_model", lambda model, prepared, rows, progress: fitted.append(set(rows.tolist()))
    )

    def score(model, X, y):
        scored.append(set(X.index))
        return nested.HeldOut(np.asarray(y), np.asarray(y))

    monkeypatch.setattr(nested.HeldOut, "of", score)
    nested.nested_predictions(spec, prepared, rows)
    # after the test rows of a fold, for its intervals, its training rows
    scored, seen = scored[::2], scored[1::2]
    assert len(scored) == 3
    assert fitted == seen
    assert set.union(*scored) == set(rows.tolist())
    for inside, outside in zip(fitted, scored, strict=True):
        assert not inside & outside
        assert inside | outside == set(rows.tolist())


# ---- a table divided --------------------------------------------------------------------------------


@pytest.fixture
def patients():
    """Twelve rows with weights, groups, keys, a mark of held-out rows, and two missing cells."""
    frame = pd.DataFrame(
        {
            "who": [f"p{k}" for k in range(12)],
            "a": np.arange(12.0) ** 2,
            "b": np.r_[np.arange(11.0), np.nan],
            "y": np.cos(np.arange(12.0)),
            "w": np.arange(12.0),
            "g": np.arange(12) // 3,
            "part": ["train"] * 9 + ["test"] * 3,
        }
    )
    frame.loc[2, "w"] = np.nan
    return frame


def test_a_table_is_divided_into_its_parts(patients):
    """Rows without a weight, or with a missing cell, are left out of every part alike."""
    spec = Spec(target="y", weights="w", group="g", holdout="part", key="who", missing="drop")
    found = prepare(Joined(patients, {}, {}, {}), spec)
    kept = [0, 1, 3, 4, 5, 6, 7, 8, 9, 10]
    assert found.n_dropped == 2
    assert list(found.X.columns) == ["a", "b"]
    assert list(found.X.index) == kept
    assert found.keys.tolist() == [f"p{k}" for k in kept]
    assert found.weights.tolist() == kept
    assert found.groups.tolist() == [k // 3 for k in kept]
    np.testing.assert_array_equal(found.y, np.cos(kept))
    train, test = split(found, spec)
    assert (train.tolist(), test.tolist()) == (list(range(8)), [8, 9])
    assert (
        found.division.said
        == "2 rows held out, 8 to train on (column 'part': held out = test; training = train)"
    )
    # a mean in place of the cell keeps its row
    found = prepare(Joined(patients.drop(index=2), {}, {}, {}), spec.model_copy(update={"missing": "impute"}))
    assert (len(found.y), found.n_missing, found.n_dropped) == (11, 1, 0)
    # groups stay together, also where rows are drawn
    own = spec.model_copy(update={"holdout": "", "test_size": 0.3})
    train, test = split(found, own)
    assert not set(found.groups[train]) & set(found.groups[test])
    assert sorted([*train, *test]) == list(range(11))


def test_missing_cells_of_a_view_that_a_row_lacks_are_not_missing():
    nan = np.nan
    cells = [[1.0, 1.0, 1.0], [nan, nan, 2.0], [3.0, nan, nan], [4.0, 3.0, 5.0], [0.0, 2.0, 3.0]]
    frame = pd.DataFrame(cells, columns=list("abc")).assign(y=[0.5, 1.0, 2.0, 3.0, 4.0])
    data = Joined(frame, {"one": ["a", "b"], "two": ["c"]}, {}, {})
    # row 1 lacks the view `one` and row 2 the view `two`, which leaves the second cell of row 2
    assert prepare(data, Spec(target="y", missing="drop")).n_dropped == 1
    assert (
        prepare(data, Spec(target="y", missing="drop", missing_views="error", test_size=0.0)).n_dropped == 2
    )
    with pytest.raises(kw.InputError, match=r"^2 rows .*in 'b' \(2\), 'a' \(1\), 'c' \(1\)"):
        prepare(data, Spec(target="y", missing_views="error"))
    with pytest.raises(kw.InputError, match=r"^1 row .*in 'b' \(1\)\."):
        prepare(data, Spec(target="y"))


@pytest.mark.parametrize(
    ("frame", "task", "words"),
    [
        ({"y": [0, 1] * 6, "w": [1.0] * 12}, "auto", None),
        ({"y": [0, 1] * 6, "w": [1.0, 0.0] * 6}, "auto", "The 6 training rows are all of class 0"),
        (
            {"y": [0, 1] * 6, "w": [0.0] * 12},
            "auto",
            "Column 'w' for the weights: `sample_weight` must leave at least one row a positive weight",
        ),
        ({"y": [0, 1] * 6, "w": [-1.0, 1.0] * 6}, "auto", "got 6 numbers < 0"),
        ({"y": [0, 1] * 6, "w": [np.inf, 1.0] * 6}, "auto", "got 0 NaN and 6 infinity"),
        ({"y": [np.inf, 1.0] * 6, "w": [1.0] * 12}, "auto", "got 6 infinite values"),
        ({"y": [1e101, 1.0] * 6, "w": [1.0] * 12}, "regression", "numbers beyond 1e+100"),
        ({"y": [-1e101, 1.0] * 6, "w": [1.0] * 12}, "regression", "numbers beyond 1e+100"),
        ({"y": [1e100, 1.0] * 6, "w": [1.0] * 12}, "regression", None),
    ],
)
def test_weights_and_targets_that_cannot_be_used_are_refused(frame, task, words):
    data = Joined(pd.DataFrame({"a": np.arange(12.0), **frame}), {}, {}, {})
    spec = Spec(target="y", weights="w", task=task, test_size=0.0)
    if words is None:
        assert split(prepare(data, spec), spec)[0].tolist() == list(range(12))
        return
    with pytest.raises(kw.InputError) as caught:
        split(prepare(data, spec), spec)
    assert words in str(caught.value)


def test_the_target_is_read_as_its_values_say():
    def read(*cells, task="auto"):
        return columns.read_target(pd.DataFrame({"y": list(cells)}), ["y"], task)[1:]

    assert read(*range(10)) == ("classification", "the target has 10 distinct whole numbers")
    assert read(*range(11)) == ("regression", "the target is numeric with 11 distinct values")
    assert read(0.5, 1.0) == ("regression", "the target is numeric with 2 distinct values")
    assert read(True, False) == ("classification", "the target is not numeric (2 classes)")
    assert read("u", "v", "v") == ("classification", "the target is not numeric (2 classes)")
    assert read(1, 2, task="regression") == ("regression", "as asked")
    several = pd.DataFrame(
        {"u": ["Yes", "no", "no"], "v": [1, 0, 1], "x": [0.5, 1.5, 2.0], "z": [3.0, 4.0, 2.5]}
    )
    y, task, _ = columns.read_target(several, ["u", "v"], "auto")
    assert (y.tolist(), task) == ([[1, 1], [0, 0], [0, 1]], "classification")
    y, task, _ = columns.read_target(several, ["z", "x"], "auto")
    assert (y.tolist(), task) == ([[3.0, 0.5], [4.0, 1.5], [2.5, 2.0]], "regression")
    named = columns.names_of_target
    assert named("a, b,c", ["a", "b", "c", "b,c"]) == ["a", "b,c"]
    assert named(" ", ["a"]) == []
    with pytest.raises(kw.InputError, match="'a' twice"):
        named("a,b,a", ["a", "b"])
    # truth for a model of two targets: in its order, or other columns in this order
    y, stands = columns.target_of_model(several, "z,x", ["x", "z"], "regression")
    assert (y[0].tolist(), stands) == ([0.5, 3.0], {})
    y, stands = columns.target_of_model(several, "z,x", ["p", "q"], "regression")
    assert (y[0].tolist(), stands) == ([3.0, 0.5], {"p": "z", "q": "x"})
    with pytest.raises(kw.InputError, match="Name all"):
        columns.target_of_model(several, "z,x", ["x", "q"], "regression")


def test_types_of_columns():
    table = pd.DataFrame({"a": ["1", "x", "3"], "b": [1, 2, 1], "c": [1.0, 2.0, 3.0]})
    asked = "a = number, b=category"
    assert columns.read_types(asked) == {"a": "number", "b": "category"}
    typed = columns.with_types(table, asked)
    np.testing.assert_array_equal(typed["a"], [1.0, np.nan, 3.0])
    assert [str(typed[name].dtype) for name in ("b", "c")] == ["category", "float64"]
    assert table["a"].tolist() == ["1", "x", "3"]
    space = {"table": table.copy(), "pd": pd}
    exec("\n".join(columns.type_lines(asked)), space)
    pd.testing.assert_frame_equal(space["table"], typed)
    words = pd.DataFrame({"a": ["u", "v"]})
    with pytest.raises(kw.InputError, match="holds no number, such as 'u'"):
        columns.with_types(words, "a=number")
    assert columns.with_types(words, "a=number,d=text", new=True)["a"].isna().all()
    for wrong, says in (("number", "must be like"), ("=number", "must be like"), ("a=x", "Unknown type")):
        with pytest.raises(kw.InputError, match=says):
            columns.read_types(wrong)
    mixed = pd.DataFrame({"n": [1, 2], "f": [1.5, 2.0], "t": ["u", "v"], "b": [True, False]})
    assert columns.describe(mixed) == "2 rows, 4 columns (2 numeric, 2 categorical)"


@pytest.mark.parametrize(
    ("cells", "form", "second"),
    [
        (["2024-01-31", "2024-02-01"], "ISO8601", "2024-02-01"),
        (["2024-01-31T10:30", "2024-02-01 11:00:30.5"], "ISO8601", "2024-02-01 11:00:30.5"),
        (["2024-07-31T10:00+02:00", "2024-01-31T10:00+01:00"], "ISO8601", "2024-01-31 09:00+00:00"),
        (["2024/1/31", "2024/02/01"], "%Y/%m/%d", "2024-02-01"),
        (["31.1.2024", "01.02.2024"], "%d.%m.%Y", "2024-02-01"),
        (["31.1.2024 10:30", " 01.02.2024 11:00 "], "%d.%m.%Y %H:%M", "2024-02-01 11:00"),
        (["31 Jan 2024", "1 Feb 2024"], "%d %b %Y", "2024-02-01"),
        (["31-Jan-2024", "1-Feb-2024"], "%d-%b-%Y", "2024-02-01"),
        (["31 January 2024", "1 February 2024"], "%d %B %Y", "2024-02-01"),
        (["Jan 31, 2024", "Feb 1, 2024"], "%b %d, %Y", "2024-02-01"),
        (["January 31, 2024", "February 1, 2024"], "%B %d, %Y", "2024-02-01"),
        (["01/02/2024", "02/03/2024"], "", None),
        (["31.1.2024", "1.13.2024"], "", None),
        (["2024-01-31", "2024/02/01"], "", None),
        (["2024-01-31", "soon"], "", None),
        (["2024-01-31-17", "2024-01-31-18"], "", None),
        (["2024", "2025"], "", None),
        (["a", "b"], "", None),
        ([1.0, 2.0], "", None),
        ([None, None], "", None),
    ],
)
def test_dates_are_known_by_their_look(cells, form, second):
    table = pd.DataFrame({"when": [*cells, None], "x": 1.0})
    assert columns.date_format(table["when"]) == form
    read = columns.with_dates(table, ["when", "x"])
    assert table["when"].tolist()[:2] == cells
    if not form:
        assert read is table
        assert columns.date_lines(table, ["when"]) == []
        return
    assert read["when"][1] == pd.Timestamp(second)
    assert pd.isna(read["when"][2])
    space = {"table": table.copy(), "pd": pd}
    exec("\n".join(columns.date_lines(table, ["when", "x"])), space)
    pd.testing.assert_frame_equal(space["table"], read)
    assert columns.describe(table) == "3 rows, 2 columns (1 numeric, 0 categorical, 1 date)"


def test_types_make_dates_or_keep_them_from_being_read():
    table = pd.DataFrame({"a": ["2024-01-31", "2024-02-01"], "b": ["01/02/2024", "x"]})
    assert columns.with_types(table, "a=date")["a"].dtype.kind == "M"
    for kind in ("category", "text"):
        typed = columns.with_types(table, f"a={kind}")
        assert columns.with_dates(typed, ["a"]) is typed
    with pytest.raises(
        kw.InputError, match=r"'b' must hold dates, got '01/02/2024'\. Write all of them like 2024"
    ):
        columns.with_types(table, "b=date")
    assert columns.type_lines("a=date") == []


def test_dates_are_no_target():
    days = pd.date_range("2020-01-01", periods=4)
    for cells in (days.strftime("%Y-%m-%d"), days.strftime("%d.%m.%Y"), days.date, days):
        column = pd.Series(cells, name="when")
        for task in ("auto", "classification"):
            with pytest.raises(
                kw.InputError, match=r"'when' holds date.*must be numbers or classes. Convert it"
            ):
                columns.detect_task(column, task)
        # those who want classes say so
        typed = columns.with_types(pd.DataFrame({"when": column}), "when=category")["when"]
        assert columns.detect_task(typed, "auto")[0] == "classification"
    assert columns.detect_task(pd.Series(["a", "b"]), "auto")[0] == "classification"


@pytest.mark.parametrize("asked", ["2022-01-01", "2022-01-01 00:00:00"])
def test_dates_hold_rows_out_whatever_the_file(asked, tmp_path):
    days = pd.Series(pd.to_datetime(["2022-01-01", "2022-01-02", None]), name="day")
    for column in (days, days.dt.tz_localize("UTC"), days.dt.date, days.dt.strftime("%Y-%m-%d")):
        frame = column.to_frame()
        frame.to_parquet(tmp_path / "x.parquet")
        held, division = read_division(read_table(tmp_path / "x.parquet")["day"], asked)
        assert held.tolist() == [True, False, False]
        assert division.held == {"2022-01-01": 1}
        space = {"table": frame}
        exec("\n".join(division.lines()), space)
        assert space["held"].tolist() == [True, False, False]
    # times of day stay
    times = pd.Series(pd.to_datetime(["2022-01-01 12:00", "2022-01-01 00:00"]), name="day")
    assert read_division(times, "2022-01-01 12:00:00")[0].tolist() == [True, False]
    assert read_division(times, "2022-01-01")[0].tolist() == [False, True]


def test_a_run_on_dates_predicts_and_can_be_repeated(tmp_path, rng):
    when = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, 60), unit="D")
    frame = pd.DataFrame({"when": when.strftime("%d.%m.%Y"), "x": rng.normal(size=60)})
    frame["y"] = np.sin(2 * np.pi * when.day_of_year / 365) + frame["x"]
    frame.loc[3, "when"] = None
    frame.to_csv(tmp_path / "a.csv", index=False)
    run = read_run({"a": str(tmp_path / "a.csv")}, Spec(target="y", missing="impute", test_size=0))
    assert run.prepared.X["when"].dtype.kind == "M"
    model = kw.MKLRegressor(missing="impute").fit(run.prepared.X, run.prepared.y)
    # one row, of a file without any date, and in another form
    for cells in (frame["when"][:1], [None], ["2020-05-01"]):
        rows = frame[:1].assign(when=list(cells))
        rows.to_csv(tmp_path / "b.csv", index=False)
        new = read_new(model, tmp_path, str(tmp_path / "b.csv"), join="", key="", view=[], gram=[])
        assert np.isfinite(model.predict(new.X)).all()
    frame[:2].assign(when="soon").to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(kw.InputError, match="'when' must hold dates, got 'soon'"):
        read_new(model, tmp_path, str(tmp_path / "b.csv"), join="", key="", view=[], gram=[])
    # also where the columns are those of views
    X = run.prepared.X
    several = kw.MKLRegressor(missing="impute").fit({"u": X[["when"]], "v": X[["x"]]}, run.prepared.y)
    assert np.isfinite(several.predict(predictions.features_of(several, frame[:2]))).all()
    with pytest.raises(kw.InputError, match="'when' must hold dates, got 'soon'"):
        predictions.features_of(several, frame[:2].assign(when="soon"))


def test_a_message_lists_four_values_of_a_column():
    five = pd.Series([*"abcde", "a"], name="part")
    with pytest.raises(
        kw.InputError, match=r"got a \(2 rows\), b \(1 row\), c \(1 row\), d \(1 row\) and 1 more\. "
    ):
        read_division(five)
    with pytest.raises(kw.InputError, match=r"d \(1 row\)\. Choose"):
        read_division(five[[0, 1, 2, 3]])
    held, division = read_division(five, ["a", "e"])
    assert held.tolist() == [True, False, False, False, True, True]
    assert (
        division.said == "3 rows held out, 3 to train on (column 'part': held out = a, e; training = b, c, d)"
    )
    rest = read_division(five, ["a"])[1]
    assert rest.said.endswith("training = b, c, d, e)")
    assert Division("part", {"x": 1}, dict.fromkeys("abcdef", 1)).said.endswith(
        "training = a, b, c, d and 2 more)"
    )
    # cells without a mark are on no side where others are on both
    with pytest.raises(kw.InputError, match=r"an empty cell \(1 row\)"):
        read_division(pd.Series(["test", "train", None], name="part"))
    for cells, which in (("aa", "all"), ("bb", "no")):
        assert f"holds out {which} rows" in read_division(pd.Series(list(cells), name="p"), "a")[1].problem


# ---- tables joined ----------------------------------------------------------------------------------


def test_rows_of_tables_are_matched_by_their_keys():
    rna = pd.DataFrame({"who": ["p", "q", "r"], "a": [1, 2, 3], "x": [7.0, 8.0, 9.0]})
    meth = pd.DataFrame({"x": [4.0, 5.0, 6.0], "who": ["s", "r", "q"]})
    tables = {"rna": rna, "meth": meth}
    shared = join_tables(tables, "who")
    expected = pd.DataFrame({"who": ["q", "r"], "a": [2, 3], "rna.x": [8.0, 9.0], "meth.x": [6.0, 5.0]})
    pd.testing.assert_frame_equal(shared.table, expected)
    assert shared.views == {"rna": ["a", "rna.x"], "meth": ["meth.x"]}
    assert shared.renamed == {"rna": {"x": "rna.x"}, "meth": {"x": "meth.x"}}
    assert shared.missing == {"rna": ["s"], "meth": ["p"]}
    assert not shared.kinds
    assert [shared.table_of(name) for name in ("meth.x", "a", "who")] == ["meth", "rna", None]
    every = join_tables(tables, "who", "all")
    assert every.table["who"].tolist() == ["p", "q", "r", "s"]
    np.testing.assert_array_equal(every.table["meth.x"], [np.nan, 6.0, 5.0, 4.0])
    assert str(every.kinds["a"]) == "int64"
    order = join_tables(tables, "", "order")
    assert order.table["meth.x"].tolist() == [4.0, 5.0, 6.0]
    for wrong, words in (
        (meth.assign(who=["p", "p", "q"]), "'p' occurs again"),
        (meth.assign(who=["p", None, "q"]), "missing in 1 row"),
        (meth.assign(who=list("uvw")), "no value of 'who' in common"),
    ):
        with pytest.raises(kw.InputError, match=words):
            join_tables({"rna": rna, "meth": wrong}, "who")
    with pytest.raises(kw.InputError, match="'rna' has 3, 'meth' has 2"):
        join_tables({"rna": rna, "meth": meth[:2]}, "", "order")
    assert joining.name_tables(["a/x.csv", "b/x.tsv.gz", "c/x.csv", "y"]) == {
        "x": "a/x.csv", "x-2": "b/x.tsv.gz", "x-3": "c/x.csv", "y": "y",
    }  # fmt: skip
    # by columns, where names say nothing and only one assignment is possible
    layout = Layout("who", {"rna": {"a": "a"}, "meth": {"b": "b"}})
    frames = {"m": pd.DataFrame({"a": [1], "b": [1]}), "n": pd.DataFrame({"a": [1]})}
    assert match_tables(frames, layout, ["a", "b"]) == {"rna": "n", "meth": "m"}
    with pytest.raises(kw.InputError, match=r"'n', used for 'meth' of the run, has no column 'b' \(1 are"):
        match_tables({"m": frames["n"], "n": frames["n"]}, layout, ["a", "b"])


# ---- what is chosen ---------------------------------------------------------------------------------


def test_texts_of_regularisation_parameters_and_widths():
    values, number = fitting.parse_values("alphas", "0.1:10:3")
    np.testing.assert_allclose(values, [10.0, 1.0, 0.1])
    assert number == 3
    assert fitting.parse_values("Cs", " 10,1,1,")[0].tolist() == [1.0, 10.0]
    assert fitting.parse_values("alphas", "12") == (None, 12)
    assert fitting.parse_values("alphas", "1000") == (None, 1000)
    assert fitting.parse_values("alphas", "1e1")[0].tolist() == [10.0]
    for text in ("0", "1001", "-3", "1:2", "x", "0:1:3", "1:inf:3"):
        with pytest.raises(kw.InputError, match="alphas"):
            fitting.parse_values("alphas", text)
    assert [fitting.parse_gamma(text) for text in (" ", "0.5", "scale", " 4 * median")] == [
        None, 0.5, "scale", ("median", 4.0),
    ]  # fmt: skip
    for text in ("-1", "0", "mean", "x*median"):
        with pytest.raises(kw.InputError, match="gamma"):
            fitting.parse_gamma(text)
    assert [inverted(text) for text in ("0.01:10:7", "1,0.1", "0.1", "12", "4.0", "0,1")] == [
        "0.1:100:7", "1,10", "10.0", "12", "0.25", "0,1",
    ]  # fmt: skip


def test_splitters_and_weights_of_classes():
    def cv(task="classification", several=False, **given):
        return repr(fitting.make_cv(Spec(cv=4, seed=3, **given), task, several=several))

    assert cv() == "StratifiedKFold(n_splits=4, random_state=3, shuffle=True)"
    assert (
        cv("regression")
        == cv(several=True)
        == cv(stratify=False)
        == "KFold(n_splits=4, random_state=3, shuffle=True)"
    )
    assert cv(repeats=2) == "RepeatedStratifiedKFold(n_repeats=2, n_splits=4, random_state=3)"
    assert cv("regression", repeats=2) == "RepeatedKFold(n_repeats=2, n_splits=4, random_state=3)"
    assert cv(group="g") == "GroupKFold(n_splits=4, random_state=None, shuffle=False)"
    random = fitting.make_cv(Spec(cv=4, seed=3, repeats=2, splits="random", group="g"), "classification")
    assert (type(random).__name__, random.n_splits, random.test_size) == ("GroupShuffleSplit", 8, 0.25)
    with pytest.raises(kw.InputError, match="same groups"):
        cv(group="g", repeats=2)
    # probabilities are learnt on one round of folds
    assert (
        repr(fitting.calibration_cv(Spec(cv=4, seed=3, splits="random", repeats=3, stratify=False))) == cv()
    )

    def weights(text, names=(), **given):
        prepared = SimpleNamespace(y=np.array(["ill", "well", "a,b"]), names=names)
        return fitting.class_weight(Spec(class_weights=text, **given), prepared)

    assert weights("ill=5, a,b = 2") == {"ill": 5.0, "well": 1.0, "a,b": 2.0}
    assert weights("u=3", ("u", "v")) == [{1: 3.0}, {}]
    assert (weights(""), weights("", balanced=True)) == (None, "balanced")
    for text in ("ill=0", "ill=-1", "ill=inf", "ill", "=2", "sick=1"):
        with pytest.raises(kw.InputError):
            weights(text)
    with pytest.raises(kw.InputError, match="exclude"):
        weights("ill=2", balanced=True)


def test_kernels_of_views_are_on_their_columns():
    """Those of the default bank that choose columns themselves keep them."""
    frame = pd.DataFrame({"a": np.arange(12.0), "b": np.arange(12.0) ** 2, "c": np.cos(np.arange(12.0))})
    frame["note"] = [
        f"a patient with {word} and more words of no use" for word in ("pain", "fever", "rest") * 4
    ]
    data = Joined(frame.assign(y=np.sin(np.arange(12.0))), {}, {}, {})
    spec = Spec(
        target="y",
        views={"one": ["a", "b"], "two": ["c", "note"]},
        types="note=text",
        kernels={"one": "linear; poly(degree=2)"},
    )
    found = make_kernels(spec, prepare(data, spec))
    assert [kernel.columns for kernel in found[:2]] == [("a", "b")] * 2
    assert {kernel.columns for kernel in found[2:]} == {("c", "note"), ("note",)}
    assert [kernel.view for kernel in found if kernel.columns != ("note",)] == ["one"] * 2 + ["two"] * 7
    every = spec.model_copy(update={"kernels": "linear"})
    assert [kernel.columns for kernel in make_kernels(every, prepare(data, every))] == [
        ("a", "b"),
        ("c", "note"),
    ]
    plain = spec.model_copy(update={"kernels": "default"})
    assert make_kernels(plain, prepare(data, plain)).columns == plain.views
    with pytest.raises(kw.InputError, match="needs views"):
        make_kernels(spec, prepare(data, spec.model_copy(update={"views": ""})))
    for asked in ("rls2", {"one": "per-column"}):
        bank = spec.model_copy(update={"kernels": asked})
        with pytest.raises(kw.InputError, match="is for one table of columns, and there are views"):
            make_kernels(bank, prepare(data, bank))


def test_features_are_drawn_with_the_seed():
    from kernelweave.kernels import Nystroem, RandomFeatures

    option = fitting.approximation_option
    assert (option(Spec(approximation="none")), option(Spec())) == (None, "auto")
    assert option(Spec(approximation="nystroem", n_features=9, seed=3)) == Nystroem(9, random_state=3)
    assert option(Spec(approximation="random-features", seed=3)) == RandomFeatures(random_state=3)
    assert option(Spec(approximation="nystroem", n_features=9)) == Nystroem(9)


def test_settings_without_effect_are_not_reported():
    frame = pd.DataFrame({"a": np.arange(12.0), "y": np.arange(12.0) ** 2})
    spec = Spec(target="y", alphas="1,2", cv=4, missing="impute")

    def shown(table, given=spec):
        return used_settings(given, prepare(Joined(table, {}, {}, {}), given))

    whole = shown(frame)
    label = {name: Spec.model_fields[name].metadata[-1].label for name in ("alphas", "Cs", "cv", "missing")}
    assert whole[label["alphas"]] == "1,2"
    assert whole[label["cv"]] == "4"
    assert label["Cs"] not in whole
    assert label["missing"] not in whole
    holes = frame.assign(a=[np.nan, *range(11)])
    assert shown(holes)[label["missing"]] == "impute"
    assert label["alphas"] not in shown(frame, Spec(target="y"))


# ---- fits -------------------------------------------------------------------------------------------


@pytest.fixture
def weighted(rng):
    """Thirty rows with unequal weights, in groups of three, the last six held out."""
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
    frame["y"] = frame["a"] + rng.normal(size=30)
    frame["w"] = rng.uniform(0.2, 3.0, size=30)
    frame["g"] = rng.permutation(30) // 3
    frame["part"] = ["train"] * 24 + ["test"] * 6
    spec = Spec(
        target="y", weights="w", group="g", holdout="part", kernels="linear", alphas="2.0", cv=2, nested=3
    )
    return frame, spec, prepare(Joined(frame, {}, {}, {}), spec)


def test_outer_folds_fit_with_the_weights_and_groups_of_their_rows(weighted):
    frame, spec, prepared = weighted
    rows = np.arange(2, 24)
    [found] = nested.nested_predictions(spec, prepared, rows)
    from sklearn.model_selection import GroupKFold

    parts = list(GroupKFold(3).split(frame.iloc[rows], groups=frame["g"].iloc[rows]))
    for k, (inside, outside) in enumerate(parts):
        train, test = frame.iloc[rows[inside]], frame.iloc[rows[outside]]
        plain = kw.MKLRegressor(
            [kw.kernels.Linear()], kw.learners.RLS2(alpha=2.0), normalize="mean-diagonal", standardize=True
        )
        plain.fit(train[["a", "b"]], train["y"], sample_weight=train["w"])
        own = found.folds == k
        np.testing.assert_array_equal(found.rows[own], outside)
        np.testing.assert_array_equal(found.truth[own], test["y"])
        np.testing.assert_allclose(found.prediction[own], plain.predict(test[["a", "b"]]), rtol=1e-9)
    [stopped] = nested.nested_predictions(
        spec, prepared, rows, report=lambda said: said == "outer fold 2 of 3"
    )
    np.testing.assert_array_equal(stopped.prediction, found.prediction[found.folds < 2])
    assert nested.nested_predictions(spec.model_copy(update={"nested": 0}), prepared, rows) == []
    with pytest.raises(kw.InputError, match="at least 2"):
        nested.nested_predictions(spec.model_copy(update={"nested": 1}), prepared, rows)


def test_findings_get_the_rows_weights_and_folds_of_the_run(weighted):
    frame, spec, prepared = weighted
    train, test = split(prepared, spec)
    model = fitting.fit_model(make_model(spec, prepared, test), prepared, train, None)
    basis = evidence.basis_of(model, spec, prepared, (train, test), None)
    pd.testing.assert_frame_equal(basis.held_rows.X, frame.loc[24:, ["a", "b"]])
    np.testing.assert_array_equal(basis.held_rows.y, frame["y"][24:])
    np.testing.assert_array_equal(basis.training.params["sample_weight"], frame["w"][:24])
    np.testing.assert_array_equal(basis.training.groups, frame["g"][:24])
    np.testing.assert_array_equal(basis.rows.params["sample_weight"], frame["w"])
    [(inside, outside)] = basis.folds()
    assert (inside.tolist(), outside.tolist()) == (list(range(24)), list(range(24, 30)))
    folds = basis.inner()
    assert len(folds) == 2
    assert sorted(np.concatenate([outside for _, outside in folds])) == list(range(24))
    # where a column names the held-out rows, divisions are of the training rows, and keep groups
    divisions = basis.divisions(3)
    assert len({tuple(outside) for _, outside in divisions}) > 1
    for inside, outside in divisions:
        assert sorted([*inside, *outside]) == list(range(24))
        assert not set(frame["g"][inside]) & set(frame["g"][outside])
    # positions are those of the table, also where training rows come last
    turned = replace(prepared, held=~prepared.held & (np.arange(30) < 6))
    late, _ = split(turned, spec)
    assert sorted(np.concatenate(evidence._divisions(spec, turned, late, 1)[0])) == list(range(6, 30))
    outside = [part for _, part in evidence._folds(spec, turned, late, late)]
    assert sorted(np.concatenate(outside)) == list(range(6, 30))
    # few groups make few folds, as those of a plain fit and of probabilities
    few = replace(prepared, groups=np.repeat(list("abc"), 10))
    outside = [part for _, part in evidence._folds(spec.model_copy(update={"cv": 5}), few, train, train)]
    assert sorted(map(tuple, outside)) == [tuple(train[few.groups[:24] == name]) for name in "abc"]
    alone = replace(prepared, groups=np.repeat("a", 30))
    with pytest.raises(kw.InputError, match=r"cannot split these 24 rows.*number of groups: 1"):
        evidence._folds(spec, alone, train, train)


def test_intervals_of_predictions_need_nine_weighted_rows():
    """An interval of 90 % is beyond one of ten values of as many: below nine rows there is none."""
    rows = pd.DataFrame({"a": [1.0, 2.0]}, index=[5, 7])
    seen = []

    def columns_of(model, X, *, std, coverage):
        seen.append(coverage)
        return {"prediction": [0.0, 1.0]}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictions, "predicted_columns", columns_of)
        for total in (8.9, 9.0):
            model = SimpleNamespace(
                model_=SimpleNamespace(held=SimpleNamespace(weights=np.array([total - 1.0, 1.0])))
            )
            predictions.predictions(model, rows)
        table = predictions.predictions(model, rows, coverage=0.5, keys=pd.Series(["u", "v"], name="low"))
    assert seen == [None, 0.9, 0.5]
    assert table.to_dict("list") == {"row": [5, 7], "key low": ["u", "v"], "prediction": [0.0, 1.0]}
    truth = predictions.with_truth(table, [[1, 2], [3, 4]], ("p", "q"))
    assert (truth["truth p"].tolist(), truth["truth q"].tolist()) == ([1, 3], [2, 4])


def test_time_and_memory_before_a_fit_follow_from_their_formulas():
    part = sample_rows
    classes = np.repeat([0, 1, 2], [60, 36, 4])
    rows = part(np.arange(100, 200), classes, 50, 0)
    assert np.bincount(classes[rows - 100]).tolist() == [
        30,
        18,
        4,
    ]  # shares of classes, but five of each if it has them
    assert (np.diff(rows) > 0).all()
    assert part(np.arange(7), np.zeros(7, dtype=int), 7, 0).tolist() == list(range(7))
    power = estimating._exponent
    assert power([(60, 1.0)]) == 1.5
    assert power([(10, 9.0), (60, 1.0), (180, 9.0)]) == pytest.approx(2.0)
    assert (power([(60, 1.0), (180, 1.0)]), power([(60, 1.0), (180, 99.0)])) == (0.5, 3.0)
    plain = Spec(method="rls2", alphas="6", cv=4)
    assert estimating.fits_of(plain, "regression", 2.0) == pytest.approx(1.0 + 1.0 / 5.0)
    # of four outer folds each fits three quarters of the rows
    outer = plain.model_copy(update={"nested": 4})
    assert estimating.fits_of(outer, "regression", 2.0) == pytest.approx(1.2 + 4.0 * 0.75**2)
    likely = Spec(method="simple", Cs="6", cv=4, probabilities="platt")
    assert estimating.fits_of(likely, "classification", 2.0) == pytest.approx(1.2 + 4.0 / 30.0)
    # triangles of doubles, and three matrices
    assert estimating._memory(Spec(), 100, 7) == 7 * 100 * 101 // 2 * 8 + 3 * 8 * 100**2
    assert estimating._memory(Spec(max_memory="1e4"), 100, 7) == 10**4 + 3 * 8 * 100**2
    words = [estimating.span(seconds) for seconds in (0.99, 1.0, 89.4, 90.0, 5399.0, 5400.0)]
    assert words == ["under 1 s", "1 s", "89 s", "2 min", "90 min", "1.5 h"]


# ---- files ------------------------------------------------------------------------------------------


def test_what_files_hold_is_counted_before_it_is_read(tmp_path):
    """As many cells and bytes as there are pass; one fewer is refused."""
    array = tmp_path / "a.npy"
    np.save(array, np.zeros((6, 5)))
    size = array.stat().st_size

    def check(kept=size, **limits):
        with array.open("rb") as file:
            check_array(file, kept, "x", FileLimits(**limits))

    check(unpacked=240, cells=30, columns=5)
    for less in ({"unpacked": 239}, {"cells": 29}, {"columns": 4}, {"kept": 239}):
        with pytest.raises(kw.InputError):
            check(**less)
    text = tmp_path / "t.csv"
    text.write_text("a,b,c\n" + "1,2,3\n" * 9)
    Text().check(text, "t.csv", FileLimits(cells=30, columns=3))
    for less in ({"cells": 29}, {"columns": 2}, {"unpacked": 59}):
        with pytest.raises(kw.InputError):
            Text().check(text, "t.csv", FileLimits(**less))
    # what is compressed and what is not is known by its first bytes, not by its name
    for name, content, said in (("t.csv.gz", b"a,b", "not "), ("t.csv", gzip.compress(b"a"), "")):
        text.write_bytes(content)
        with pytest.raises(kw.InputError, match=f"{name} is not what its name says: it is {said}compressed"):
            Text().check(text, name, FileLimits())
    for encoding in ("utf-16-le", "utf-16-be"):
        text.write_bytes("a,b\n".encode(encoding))
        with pytest.raises(kw.InputError, match="UTF-16 without a mark"):
            Text().check(text, "t.csv", FileLimits())
    words = tmp_path / "w.parquet"
    pd.DataFrame({"t": ["x" * 1000, "y" * 10] * 300}).to_parquet(words)
    # as texts, of which a dictionary in the file has two
    Parquet().check(words, "w", FileLimits(unpacked=303_000, cells=600))
    for less in ({"unpacked": 302_999}, {"cells": 599}):
        with pytest.raises(kw.InputError):
            Parquet().check(words, "w", FileLimits(**less))


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".npz", ".parquet"])
def test_what_is_written_is_read_also_by_the_lines_of_a_script(suffix, tmp_path, rng):
    M, path = rng.normal(size=(5, 2)), tmp_path / f"t{suffix}"
    frame = pd.DataFrame({"M.0": M[:, 0], "M.1": M[:, 1], "word": list("abcab"), "whole": [3, 1, 4, 1, 5]})
    if suffix == ".npz":
        np.savez(path, M=M, word=frame["word"].to_numpy(dtype=str), whole=frame["whole"])
    elif suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(
            path, index=False, sep="\t" if "tsv" in suffix else ";", decimal="." if "tsv" in suffix else ","
        )
    space = {"np": np, "pd": pd}
    exec("\n".join(format_of(str(path)).lines("table", str(path), read_file(str(path)))), space)
    for found in (read_table(str(path)), space["table"]):
        pd.testing.assert_frame_equal(found, frame, check_dtype=False)


@pytest.mark.usefixtures("json_lines")
def test_a_class_in_a_module_is_a_format(tmp_path):
    frame = pd.DataFrame({"x": [1.5, 2.5, 3.0], "many": [[1, 2], [3], []], "y": [0.5, 1.0, 2.0]})
    path = str(tmp_path / "t.jsonl")
    frame.to_json(path, orient="records", lines=True)
    space = {"pd": pd}
    exec("\n".join(format_of(path).lines("table", path, read_file(path))), space)
    for found in (read_table(path), space["table"]):
        pd.testing.assert_frame_equal(found, frame)
    with pytest.raises(kw.InputError, match="column 'many' holds list"):
        prepare(read_file(path), Spec(target="y"))
    assert list(prepare(read_file(path), Spec(target="y", drop=["many"])).X) == ["x"]
    with pytest.raises(kw.InputError, match=r"\.jsonl"):
        read_file(str(tmp_path))
    (tmp_path / "t.jsonl").write_bytes(b"damaged")
    for read in (read_table, read_file):
        with pytest.raises(
            kw.InputError, match=r"t\.jsonl cannot be read as a table: unpack requires a buffer"
        ):
            read(path)


def test_a_damaged_text_says_which_byte_is_zero(tmp_path):
    """Also beyond the first part that is read."""
    file = tmp_path / "x.csv"
    content = bytearray(b"a,y\n" + b"1,2\n" * 600_000)
    content[2**20 + 5] = 0
    file.write_bytes(content)
    with pytest.raises(kw.InputError, match=f"byte {2**20 + 5} is zero"):
        read_table(file)


def test_the_byte_that_is_no_text_is_counted_over_chunks(tmp_path, monkeypatch):
    """Also where a character begins at the end of a chunk."""
    from kernelweave_app.runs.formats import text

    monkeypatch.setattr(text, "CHUNK", 4)
    path = tmp_path / "a.csv"
    for content, place in ((b"a,b\xc3(", 3), (b"a,b\n1,\xe4", 6), ("a,b\nä,ä\nä\n".encode() + b"\xff", 13)):
        path.write_bytes(content)
        with pytest.raises(kw.InputError, match=f"byte {place} is {content[place]:#x}"):
            text.check_text(path)
    path.write_bytes("äöü\n".encode())
    assert text.check_text(path) == "utf-8"


def test_a_table_without_rows_or_names_is_refused(tmp_path):
    for text, words in (("a,b\n", "0 x 2"), ("a,a\n1,2\n", "'a'"), ("", "is empty")):
        (tmp_path / "x.csv").write_text(text)
        with pytest.raises(kw.InputError, match=words):
            read_table(tmp_path / "x.csv")
    pd.DataFrame(index=range(3)).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(kw.InputError, match="0 x 0"):
        read_table(tmp_path / "x.parquet")


def test_columns_that_a_model_needs(rng):
    frame = pd.DataFrame(rng.normal(size=(12, 3)), columns=list("abc"))
    learner = kw.learners.RLS2(alpha=1.0)
    plain = kw.MKLRegressor([kw.kernels.Linear()], learner).fit(frame[["c", "a"]], frame["b"])
    several = kw.MKLRegressor(None, learner).fit(
        {"u": frame[["c"]], "v": frame[["a"]], "w": sparse.csr_array(frame[["b"]].to_numpy())}, frame["b"]
    )
    assert (predictions.columns_of(plain), predictions.columns_of(several)) == (["c", "a"], ["c", "a"])
    assert (predictions.sparse_views_of(plain), predictions.sparse_views_of(several)) == ([], ["w"])
    assert predictions.grams_of(plain) == predictions.grams_of(several) == {}
    assert list(predictions.features_of(plain, frame).columns) == ["c", "a"]
    with pytest.raises(kw.InputError, match=r"sparse views w, got none. Pass --view w=FILE"):
        predictions.features_of(several, frame)


def test_values_as_lines_of_a_script():
    from kernelweave_app.runs.scripts import code

    kernels = [kw.kernels.RBF(gamma=0.3), [kw.kernels.Linear()]]
    names = {"kw": kw, "model_selection": model_selection}
    assert eval(code(kernels), names) == kernels
    assert eval(code([kw.kernels.Linear(), 3]), names) == [kw.kernels.Linear(), 3]
    assert code(np.array([0.1, 2.0])) == "[0.1, 2.0]"
    assert code([1, "x"]) == "[1, 'x']"
    learner = kw.learners.RLS2(alpha=0.25)
    assert eval(code(learner), names).get_params() == learner.get_params()
    folds = model_selection.KFold(3, shuffle=True, random_state=1)
    assert repr(eval(code(folds), names)) == repr(folds)
    assert eval(code(kw.kernels.Nystroem(9)), names) == kw.kernels.Nystroem(9)


def test_the_layout_of_one_table_with_a_key(tmp_path):
    frame = pd.DataFrame({"who": ["p", "q"], "a": [1.0, 2.0]})
    (tmp_path / LAYOUT).write_text(layout_text(Joined(frame), "who", "rna.csv.gz"))
    assert read_layout(tmp_path) == Layout("who", {"rna": {"a": "a"}})


def test_cells_that_a_spreadsheet_would_compute_are_texts():
    cells = ["=1+1", "@x", "+a", "-a", "\tb", "-3", "+4.5", "-1e3", "a=1", ""]
    assert [folders.harmless(cell) for cell in cells] == [
        "'=1+1", "'@x", "'+a", "'-a", "'\tb", "-3", "+4.5", "-1e3", "a=1", "",
    ]  # fmt: skip
    assert folders.harmless(-3.0) == -3.0
    frame = pd.DataFrame({"=sum": [-1.5, 2.0], "t": ["=a", "b"]})
    assert folders.csv_text(frame) == "'=sum,t\n-1.5,'=a\n2.0,b\n"
    assert frame["t"].tolist() == ["=a", "b"]


def test_the_lineage_of_a_run_says_what_has_changed(tmp_path):
    table, other = tmp_path / "t.csv", tmp_path / "u.csv"
    table.write_text("a,y\n1,2\n")
    other.write_text("b\n3\n")
    spec = Spec(target="y", seed=7, view=f"words={other}#x")
    found = lineage.trace({"t": str(table)}, spec)
    assert [(one.name, one.size) for one in found.tables] == [("t", 8), ("words", 4)]
    assert found.tables[0].sha256 == hashlib.sha256(b"a,y\n1,2\n").hexdigest()
    assert found.lines()[-1].endswith("; seed 7.")
    found.write(tmp_path)
    assert lineage.read_lineage(tmp_path).changed == []
    assert lineage.learnt_from(tmp_path / "model.skops", table)
    table.write_text("a,y\n1,3\n")
    other.unlink()
    first, second = lineage.read_lineage(tmp_path).changed
    assert first.startswith("t.csv has changed")
    assert second.startswith("u.csv is not there any more")
    assert not lineage.learnt_from(tmp_path, table)
    assert lineage.read_lineage(tmp_path / "elsewhere") is None
    replace(found, versions={**found.versions, "numpy": "0.1"}).write(tmp_path)
    assert lineage.read_lineage(tmp_path).changed[-1].startswith("This run used numpy 0.1; here is ")


# ---- a whole run ------------------------------------------------------------------------------------


@pytest.fixture(params=["classes of joined tables", "numbers beside sparse rows and a kernel"])
def whole(request, rng, tmp_path):
    """A run from files, and the findings by hand: which rows are left, and what each column stands for."""
    n = 48
    who = np.array([f"p{k:02d}" for k in range(n)])
    frame = pd.DataFrame({"who": who, "a": rng.normal(size=n), "b": rng.normal(size=n).round(2)})
    frame["site"] = rng.integers(1, 4, size=n)
    frame["w"], frame["g"] = rng.uniform(0.2, 3.0, size=n), rng.permutation(n) // 2
    common = {"types": "site=category", "weights": "w", "group": "g", "cv": 2, "seed": 3}
    if request.param.startswith("classes"):
        other = pd.DataFrame(
            {"who": np.r_[who[6:], who[:2]], "a": rng.normal(size=n - 4), "c": rng.normal(size=n - 4)}
        )
        truth = frame["a"] + other.set_index("who")["c"].reindex(who).fillna(0.0).to_numpy()
        frame["y"] = np.array(["mild", "none", "severe"])[np.digitize(truth, [-0.5, 0.7])]
        # the second table lacks the first rows, and has two that the first lacks, which have no target
        frame[2:].to_csv(tmp_path / "one.csv", index=False, sep=";", decimal=",")
        other.to_csv(tmp_path / "two.tsv", index=False, sep="\t")
        spec = Spec(
            target="y", key="who", rows="all", join=str(tmp_path / "two.tsv"), method="lp", Cs="0.5,3",
            kernels={"one": "linear; rbf(gamma=0.3)", "two": "poly(degree=2)"}, test_size=0.25, rule="1se",
            class_weights="severe=2.5", probabilities="platt", learner_params={"p": 1.5}, **common,
        )  # fmt: skip
        files, kept = {"one": "one.csv", "two": "two.tsv"}, np.arange(2, n)
    else:
        frame["u"], frame["v"] = frame["a"] - frame["b"], frame["b"] ** 2 + frame["site"]
        frame["part"] = np.where(rng.permutation(n) < 36, "train", "test")
        frame.loc[[3, 7], "b"] = np.nan
        frame["g2"] = 0
        frame.to_csv(tmp_path / "t.csv.gz", index=False)
        words = sparse.random_array((n, 9), density=0.3, rng=rng, format="csr")
        sparse.save_npz(tmp_path / "words.npz", words)
        mixed, Z = rng.permutation(n), rng.normal(size=(n, 3))
        np.savez(tmp_path / "K.npz", K=(Z @ Z.T)[np.ix_(mixed, mixed)], names=who[mixed])
        spec = Spec(
            target="u, v", holdout="part", missing="drop", alphas="0.1:10:3", standardize=False, drop="g2", 
            view=f"words = {tmp_path / 'words.npz'}", gram=f"alike = {tmp_path / 'K.npz'}",
            kernels={"table": "linear; rbf(gamma=0.3)", "words": "linear"}, **common,
        )  # fmt: skip
        frame.fillna(0.0).to_csv(tmp_path / "filled.csv.gz", index=False)
        files, kept = {"t": "t.csv.gz"}, np.setdiff1d(np.arange(n), [3, 7])
    paths = {name: str(tmp_path / file) for name, file in files.items()}
    run = read_run(paths, spec)
    model = fitting.fit_model(make_model(spec, run.prepared, run.test), run.prepared, run.train, None)
    fitting.calibrate_model(model, spec, run.prepared, run.train)
    return SimpleNamespace(run=run, model=model, frame=frame, kept=kept, files=files, spec=spec)


def same(found, wanted):
    """Equal cells in all columns that both tables have, but for rounding."""
    for name in [name for name in wanted if name in found and name != "row"]:
        if wanted[name].dtype.kind == "f":
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-8, atol=1e-10)
        else:
            assert found[name].tolist() == wanted[name].tolist()


def test_a_run_is_repeated_by_its_files(whole, tmp_path, monkeypatch, capsys):
    """Its script makes the same model of the same rows, and new tables of these rows get the same predictions."""
    run, model, spec = whole.run, whole.model, whole.spec
    folder = tmp_path / "run"
    folder.mkdir()
    held = writing.score_held(model, run.prepared, run.test)
    writing.write_run(folder, run, model, held)
    assert writing.spec_of(folder) == spec
    assert {path.name for path in folder.iterdir()} <= set(writing.FILES)
    # the held-out rows by their names or by the number that they have in the file, with their truth
    written = pd.read_csv(folder / "predictions.csv")
    who = written["who"].str[1:].astype(int) if spec.key else written["row"]
    assert sorted([*run.train, *run.test]) == list(range(len(whole.kept)))
    np.testing.assert_array_equal(who, whole.kept[run.test])
    for name in run.prepared.names or ("",):
        truth = whole.frame.loc[who, name or "y"].to_numpy()
        assert written[f"truth {name}".strip()].tolist() == pytest.approx(truth.tolist())
    space: dict = {}
    text = (folder / "script.py").read_text()
    exec(compile(text, "script.py", "exec"), space)
    again = space["model"]
    np.testing.assert_array_equal(space["train"], run.train)
    np.testing.assert_array_equal(space["test"], run.test)
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    np.testing.assert_allclose(again.weights_, model.weights_, atol=1e-10)
    score = model.score(run.prepared.X.iloc[run.test], run.prepared.target(run.test))
    # up to 100 rows two decimals
    assert f"held-out score {score:.2f}\n" in capsys.readouterr().out
    same(predictions.predictions(again, run.prepared.X.iloc[run.test]), held.table)
    test = space["X"][run.test] if isinstance(space["X"], kw.Views) else space["X"].iloc[run.test]
    assert again.predict(test).tolist() == model.predict(run.prepared.X.iloc[run.test]).tolist()
    # new tables by their files
    loaded = load_model(str(folder))
    first, *others = [
        str(tmp_path / file.replace("t.csv.gz", "filled.csv.gz")) for file in whole.files.values()
    ]
    further = {"view": [spec.view] if spec.view else [], "gram": [spec.gram] if spec.gram else []}
    rows = read_new(loaded, folder, first, join=",".join(others), key="", **further)
    made = predictions.predictions(loaded, rows.X, keys=rows.keys).set_index("row").loc[written["row"]]
    same(made, written)


def test_the_report_of_a_run_lists_its_settings_and_rows(whole, tmp_path):
    run, model, spec = whole.run, whole.model, whole.spec
    held = writing.score_held(model, run.prepared, run.test)
    found = evidence.gather(model, spec, run.prepared, (run.train, run.test), held)
    writing.write_report(tmp_path, run, model, held, found, pictures=[])
    assert {name: one.to_json() for name, one in evidence.read_evidence(tmp_path).items()} == {
        name: one.to_json() for name, one in found.items()
    }
    text = (tmp_path / "report.html").read_text()
    said = used_settings(spec, run.prepared)
    usual = {"Column of weights": "w", "Column of groups": "g", "Types of columns": "site=category"}
    usual |= {"Folds": "2", "Seed": "3", "Task": "auto", "Use the mean of the target as intercept": "yes"}
    if spec.key:
        lead = "48 rows, 9 columns (7 numeric, 2 categorical)"
        lost = "Table one does not have 2 rows of other tables; their view is missing; Table two does not have 4 rows"
        own = {"Kernels": "one: linear; rbf(gamma=0.3); two: poly(degree=2)", "Values of C": "0.5,3"}
        own |= {"Key": "who", "Choose": "1se", "Probabilities": "platt", "Share of rows held out": "0.25"}
        other = {"Values of alpha", "Column of held-out rows", "Columns left out"}
    else:
        lead, lost = (
            "48 rows, 10 columns (8 numeric, 2 categorical)",
            "Left out 2 rows with missing values",
        )
        own = {"Kernels": "table: linear; rbf(gamma=0.3); words: linear", "Values of alpha": "0.1:10:3"}
        own |= {"Column of held-out rows": "part", "Standardise columns": "no", "Columns left out": "g2"}
        other = {"Values of C", "Share of rows held out", "Probabilities", "Key"}
    assert said | usual | own == said
    assert not other & said.keys()
    assert f"{lead}; {len(run.train)} training rows, {len(run.test)} held out; " in text
    assert lost in text
    for name, value in said.items():
        assert f">{name}</td>" in text
        assert value in text


def test_some_rows_of_a_table_keep_what_belongs_to_them():
    frame = pd.DataFrame(
        {"a": np.arange(8.0), "y": np.arange(8.0) ** 2, "w": np.arange(1.0, 9.0), "g": list("aabbccdd")}
    )
    frame = frame.assign(key=[f"k{i}" for i in range(8)], part=["test", "train"] * 4)
    spec = Spec(target="y", weights="w", group="g", key="key", holdout="part", task="regression")
    whole = prepare(Joined(frame), spec)
    rows = np.array([5, 0, 3])
    part = whole.some(rows)
    assert part.X["a"].tolist() == [5.0, 0.0, 3.0]
    assert part.y.tolist() == [25.0, 0.0, 9.0]
    assert part.weights.tolist() == [6.0, 1.0, 4.0]
    assert part.groups.tolist() == ["c", "a", "b"]
    assert part.keys.tolist() == ["k5", "k0", "k3"]
    assert whole.held.tolist() == [True, False] * 4
    # marks of all rows say nothing about positions among some
    assert part.held is None
    bare = prepare(Joined(frame[["a", "y"]]), Spec(target="y", task="regression")).some(rows)
    assert (bare.weights, bare.groups, bare.keys) == (None, None, None)


def test_modules_of_runs_are_imported_on_first_use():
    import kernelweave_app.runs as package

    assert package.fitting.make_cv is fitting.make_cv
    with pytest.raises(AttributeError, match="nothing_here"):
        package.nothing_here  # noqa: B018


@pytest.mark.parametrize(
    ("cells", "task", "said"),
    [
        ([1.0, np.nan, 2.0, np.nan], "regression", "has 2 missing values"),
        (["a", None, "b"], "classification", "has 1 missing values"),
        ([2.5, 2.5, 2.5], "regression", r"is constant \(2.5\)"),
        (["a", "a"], "classification", "one class only, 'a'"),
        (["a", "b"], "regression", "holds text"),
        (pd.date_range("2020-01-01", periods=3), "auto", "must be numbers or classes"),
    ],
)
def test_targets_that_say_nothing_are_refused(cells, task, said):
    with pytest.raises(kw.InputError, match=said):
        columns.read_target(pd.DataFrame({"y": cells}), ["y"], task)


@pytest.mark.parametrize(("name", "hidden", "extra"), [
    ("a.parquet", "pyarrow.parquet", "pyarrow: pip install 'kernelweave[parquet]'"),
    ("a.h5ad", "h5py", "anndata: pip install 'kernelweave[anndata]'"),
])  # fmt: skip
def test_formats_without_their_package_say_how_to_install_it(tmp_path, monkeypatch, name, hidden, extra):
    path = tmp_path / name
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, hidden, None)
    for read in (
        partial(read_file, path),
        partial(read_table, path),
        partial(format_of(path).check, path, name, FileLimits()),
    ):
        with pytest.raises(kw.InputError, match=re.escape(f"need {extra}")):
            read()


@pytest.mark.parametrize("separator", ["\t", "|", ";"])
def test_decimal_commas_are_told_whatever_separates_fields(separator, tmp_path):
    path = tmp_path / "a.csv"
    frame = pd.DataFrame({"b": [1.25, 2.0], "n": [1, 2]})
    frame.to_csv(path, index=False, sep=separator, decimal=",", encoding="utf-16")
    pd.testing.assert_frame_equal(read_table(path), frame)
    # between thousands, or between decimals: only a table with semicolons says which
    path.write_text(f"b{separator}n\n1,250{separator}1\n2,500{separator}2\n")
    assert read_table(path)["b"].tolist() == ([1.25, 2.5] if separator == ";" else ["1,250", "2,500"])
    # one number that cannot be in thousands says that the comma is decimal
    path.write_text(f"b{separator}n\n1,250{separator}1\n12,5{separator}2\n")
    assert read_table(path)["b"].tolist() == [1.25, 12.5]
    # a point after the rows that are looked at
    path.write_text(f"b{separator}n\n" + f"1,25{separator}1\n" * 60 + f"2.5{separator}2\n")
    with pytest.raises(kw.InputError, match="column 'b' holds numbers with decimal commas"):
        read_table(path)
    # of texts that look like numbers
    assert read_file(path, texts=["b"]).table["b"].tolist() == ["1,25"] * 60 + ["2.5"]


def test_commas_and_points_are_mixed_in_numbers_alone(tmp_path):
    path = tmp_path / "a.csv"
    for cells, mixed in (
        (["1,5", "2.5"], True),
        (["1,5", ""], True),
        (["1,5", "two"], False),
        (["v1.5", "x,y"], False),
    ):
        path.write_text(
            "n;b\n" + "".join(f"{k + 0.5};{cell}\n" for k, cell in enumerate(cells)), encoding="utf-8"
        )
        if mixed:
            with pytest.raises(kw.InputError, match="column 'b' holds numbers with decimal commas"):
                read_table(path)
        else:
            assert read_table(path)["b"].tolist() == cells


def test_settings_of_learners_that_are_there_and_of_others():
    """A default, what is given instead, and nothing of learners of another version."""
    from kernelweave.learners import LEARNERS
    from kernelweave_app.runs.settings import effective, kept, settled

    for method in LEARNERS:
        known = LEARNERS[method].settings()
        told = effective(method, {})
        assert told.keys() == known.keys()
        assert settled(method, {}) == settled(method, {"unknown": 1}) == {}
        for name in known:
            given = effective(method, {name: 0.625})
            assert given[name] == "0.625"
            assert {**given, name: told[name]} == told
        # whoever stays with a learner keeps everything
        some = {name: one.default for name, one in known.items()}
        assert kept(some, method, method) == some
    assert effective("gone", {"C": 1.0}) == {}
    assert kept({}, "gone", "simple") == {}


@pytest.mark.parametrize(
    ("name", "cells", "held"),
    [
        ("train", "TFT", ["F"]),
        (" Hold-out ", "011", ["1"]),
        # it may be one of medicine
        ("test", "011", None),
        ("part", ["test", "train", "train"], ["test"]),
        ("part", ["Held-out", "train", None], None),
        ("part", "xzz", None),
        ("part", [None, None, None], None),
        ("smoker", [1, 0, 1], None),
        ("smoker", "TFT", None),
        # a name alone does not say which
        ("train", "xyz", None),
    ],
)
def test_marks_of_held_out_rows_are_known_by_a_name_or_by_words(name, cells, held):
    from kernelweave_app.runs.division import seems_to_mark

    found = seems_to_mark(pd.Series(list(cells), name=name))
    assert (None if found is None else list(found.held)) == held


@pytest.mark.parametrize(
    ("target", "said", "splitter"),
    [
        ("y", "regression", "KFold"),
        ("u", "classification", "StratifiedKFold"),
        ("u,v", "several labels ('u', 'v')", "KFold"),
        ("x,y", "regression with several targets ('x', 'y')", "KFold"),
    ],
)
def test_the_task_in_words_and_its_folds(target, said, splitter, rng):
    table = pd.DataFrame(rng.normal(size=(30, 4)), columns=list("abxy"))
    table = table.assign(u=(table["a"] > 0).astype(int), v=(table["b"] > 0).astype(int))
    spec = Spec(target=target, alphas="2", cv=3, drop=sorted({*"xyuv"} - {*target}))
    prepared = prepare(Joined(table), spec)
    assert prepared.said == said
    assert type(fitting.make_model(spec, prepared, None).cv).__name__ == splitter


def test_targets_types_and_columns_that_are_left(tmp_path):
    from kernelweave_app.runs.columns import check_target, read_types
    from kernelweave_app.runs.evidence import groups_of, intervals_of

    same = pd.Series([2.0, 2.0], name="y")
    assert check_target(same, "regression", varies=False).tolist() == [2.0, 2.0]
    with pytest.raises(kw.InputError, match="is constant"):
        check_target(same, "regression")
    assert check_target(same, "classification").tolist() == [2.0, 2.0]
    for wrong in ("=number", "dose", "a=number,dose"):
        with pytest.raises(kw.InputError, match="must be like"):
            read_types(wrong)
    assert read_types("a=b=number") == {"a=b": "number"}
    table = pd.DataFrame({"y": [1.5, 2.0, 4.0], "a": [1.0, 2.0, 3.0], "who": ["u", None, "v"]})
    with pytest.raises(kw.InputError, match="no column left to learn from"):
        prepare(Joined(table), Spec(target="y", drop="a,who"))
    assert groups_of(Spec(group="who"), table) is None
    assert groups_of(Spec(group="a"), table).tolist() == [1.0, 2.0, 3.0]
    assert groups_of(Spec(group="gone"), table) is groups_of(Spec(), table) is None
    assert intervals_of() == {}


@pytest.mark.parametrize(
    ("arrays", "kernels"),
    [
        ({"K": np.eye(4)}, True),
        ({"K": np.ones((2, 4, 4)), "names": np.arange(4)}, True),
        ({"K": np.ones((4, 3))}, False),
        ({"K": np.ones((4, 3)), "columns": np.arange(3)}, True),
        ({"K": np.eye(1)}, False),
        ({"K": np.eye(4), "L": np.eye(4)}, True),
        ({"K": np.eye(4), "L": np.eye(3)}, False),
        ({"names": np.arange(4)}, False),
        ({"K": np.arange(4.0)}, False),
    ],
)
def test_archives_of_square_matrices_seem_to_be_kernels(arrays, kernels, tmp_path):
    from kernelweave_app.runs.formats.arrays import seem_kernels

    np.savez(tmp_path / "a.npz", **arrays)
    assert seem_kernels(tmp_path / "a.npz") == kernels
