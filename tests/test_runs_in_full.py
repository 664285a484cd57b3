"""Everything that tables of runs answer to rich inputs, compared with what was read and recorded.

Modules: `runs/columns`, `runs/division`, `runs/doubts`, `runs/joining`, `runs/preparing`, `runs/proposing`,
`runs/row_names`, `runs/survival`, `runs/formats`, `runs/formats/text`.
"""

import dataclasses
import datetime
import re
import warnings

import numpy as np
import pandas as pd

from kernelweave._forms import names_in
from kernelweave_app.runs import (
    columns,
    division,
    doubts,
    formats,
    survival,
)
from kernelweave_app.runs.formats.text import find_separator, header_of
from kernelweave_app.runs.joining import (
    Joined,
    Layout,
    files_in,
    join_new,
    join_tables,
    layout_text,
    match_tables,
    name_tables,
    pair_names,
)
from kernelweave_app.runs.preparing import (
    classes_of,
    kept_shares,
    lacking_keys,
    needed_columns,
    other_columns,
    prepare,
    sample_rows,
    split,
    taken_columns,
)
from kernelweave_app.runs.proposing import by_names, propose_views
from kernelweave_app.runs.row_names import column_of_names, find_row_names, left_out, why_names
from kernelweave_app.runs.spec import (
    Spec,
)
from told import a_table, answer, asked, cells

EMPTY = (None, "", {}, (), False)
DAY = datetime.date(2024, 1, 31)


# ---- columns ----------------------------------------------------------------------------------------


def test_columns_are_found_and_described(recorded):
    answers = {}
    table = pd.DataFrame(
        {
            "n": [1, 2, 3],
            "x": [0.5, np.nan, 2.0],
            "yes": [True, False, True],
            "text": ["u", "v", None],
            "day": ["2024-01-31", None, "2024-02-01"],
            "when": pd.to_datetime(["2024-01-31", "2024-02-01", None]),
            "zone": pd.to_datetime(["2024-01-31", "2024-02-01", None], utc=True),
            "span": pd.to_timedelta([1, 2, 3], unit="D"),
            "kind": pd.Categorical(["2024-01-31", "2024-01-31", "2024-02-01"]),
            "odd": pd.Series(["u", 1, None], dtype=object),
        }
    )
    for name, some in (
        ("all", table),
        ("numbers", table[["n", "x"]][:1]),
        ("dates", table[["day", "when", "zone"]]),
        ("span", table[["span"]]),
        ("no rows", table[:0]),
    ):
        answers[name] = columns.describe(some)
    many = pd.DataFrame(0, index=[0], columns=[f"c{k}" for k in range(13)])
    answers["unknown of 13"] = answer(columns.need_column, many, "c99", "the target")
    answers["unknown of 12"] = answer(columns.need_column, many.iloc[:, :12], "c1x", "`drop`")
    pd.testing.assert_series_equal(columns.need_column(many, "c7", "the target"), many["c7"])
    assert columns.columns_of_objects(table, ["odd", "n", "kind"]) == ["odd"]
    recorded("answers", answers)


def test_cells_that_are_no_numbers_texts_or_dates_are_refused(recorded):
    answers = {}
    table = pd.DataFrame(
        {
            "lists": [[1], [2], None],
            "mixed": ["a", 1, None],
            "days": [DAY, pd.NaT, datetime.datetime(2024, 1, 1)],
            "spans": pd.Series([datetime.timedelta(1), None, datetime.timedelta(2)], dtype=object),
            "days and texts": [DAY, "soon", None],
            "bytes": [b"a", {"b": 1}, (2,)],
            "four": pd.Series([b"a", {1}, (2,)], dtype=object),
        }
    )
    for name in table:
        answers[name] = answer(columns.check_cells, table, [name])
    # only the columns that are named are looked at
    assert columns.check_cells(table, ["mixed", "days"]) is None
    assert "'bytes'" in answer(columns.check_cells, table, ["mixed", "bytes", "lists"])
    recorded("answers", answers)


def test_dates_as_they_are_read(recorded):
    """Every form of a date, with its times, the cells that it makes, and the lines of a script that make the same."""
    answers = {}
    shapes = [
        *("2024-01-31", "2024-01-31T10:30", "2024-01-31 10:30:05", "2024-01-31T10:30+02:00"),
        *("2024/1/31", "2024/12/01 9:05", "2024/12/1 19:05:07", "2024/13/01", "2024/1/31 9:05 pm"),
        *("31.1.2024", "1.12.2024 9:05", "31.01.2024 19:05:07", "31.1.24"),
        *("31 Jan 2024", "1 Feb 2024 9:05", "31-Dec-2024 19:05:07", "1-Feb-2024", "1 Sept 2024"),
        *("31 January 2024", "1 May 2024", "2 February 2024 9:05"),
        *("Jan 31, 2024", "May 1, 2024 9:05:06", "February 2, 2024", "Febr 2, 2024"),
        *("01/02/2024", "1-2-2024", "20240131", "2024-1-31", "9999-99-99", "2024-02-30"),
    ]
    for shape in shapes:
        table = pd.DataFrame({"when": [f" {shape}", None, shape], "other": ["u", "v", "w"]})
        form = columns.date_format(table["when"])
        read = columns.with_dates(table, ["when", "other"])
        lines = columns.date_lines(table, ["when", "other"])
        answers[shape] = [form, cells(read["when"]), *lines]
        assert (read is table) == (not form)
    # the first cells are looked at first, and then all
    late = pd.Series(["31.1.2024"] * 25 + ["soon"])
    assert columns.date_format(late) == ""
    assert columns.date_format(late[:25]) == "%d.%m.%Y"
    # of two forms the one that all cells have
    assert columns.date_format(pd.Series(["1 May 2024", "2 June 2024"])) == "%d %B %Y"
    for kind in ("category", "string"):
        assert columns.date_format(late[:3].astype(kind)) == ("" if kind == "category" else "%d.%m.%Y")
    summer = pd.DataFrame({"when": ["2024-07-31T10:00+02:00", "2024-01-31T10:00+01:00"]})
    answers["two offsets"] = [
        cells(columns.with_dates(summer, ["when"])["when"]),
        *columns.date_lines(summer, ["when"]),
    ]
    recorded("answers", answers)


def test_columns_that_must_hold_dates(recorded):
    answers = {}
    table = pd.DataFrame(
        {
            "good": ["2024-01-31", None],
            "days": [DAY, None],
            "bad": ["1/2/2024 and some more text than a message has room for", "x"],
            "numbers": [1.5, np.nan],
            "empty": pd.Series([None, None], dtype=object),
            "when": pd.to_datetime(["2024-01-31", None]),
        }
    )
    for name in table:
        found = answer(columns.with_dates, table, [name], known=[name])
        answers[name] = found if isinstance(found, str) else [found is table, cells(found[name])]
        assert columns.with_dates(table, [name], known=["other"])[name].dtype.kind in "MOf"
    answers["of two"] = answer(columns.with_dates, table, ["good", "bad"], known={"good", "bad"})
    recorded("answers", answers)


def test_types_as_they_are_asked_for(recorded, tmp_path):
    answers = {}
    table = pd.DataFrame(
        {
            "code": [1, 2, 1],
            "dose": ["1.5", "high", None],
            "word": ["u", "v", "w"],
            "day": ["2024-01-31", None, "2024-02-01"],
            "note": ["some", None, "text"],
        }
    )
    asked = "code=category, dose = number,day=date,note=text"
    typed = columns.with_types(table, asked)
    answers["cells"] = {name: cells(typed[name]) for name in typed}
    answers["lines"] = columns.type_lines(asked)
    assert columns.with_types(table, {"code": "category"})["code"].dtype == "category"
    assert columns.with_types(table, "") is table
    assert type(typed["note"][0]) is not str
    answers["wrong"] = [
        answer(columns.with_types, table, "word=number"),
        answer(columns.with_types, table, "day=number", new=False),
        answer(columns.with_types, table, "nothing=text"),
        answer(columns.with_types, table, "word=date"),
        answer(columns.read_types, "a=number,b"),
        answer(columns.read_types, "=text"),
        answer(columns.read_types, "a=numbers"),
        answer(columns.read_types, "a=b=number"),
        answer(columns.read_types, "x" * 90),
    ]
    new = columns.with_types(table, "word=number,nothing=number,code=text", new=True)
    answers["new rows"] = {name: cells(new[name]) for name in ("word", "code")}
    assert columns.types_of_run(tmp_path) == {}
    (tmp_path / "spec.toml").write_text('target = "y"\n')
    assert columns.types_of_run(tmp_path) == {}
    (tmp_path / "spec.toml").write_text('types = "a=number"\n')
    assert columns.types_of_run(tmp_path) == {"a": "number"}
    recorded("answers", answers)


def test_targets_as_they_are_read(recorded):
    """Tasks, arrays, reasons, refusals and the lines of scripts, for targets of all kinds."""
    answers = {}
    table = pd.DataFrame(
        {
            "ten": range(10),
            "real": np.arange(10) / 4,
            "word": list("abcabcabca"),
            "bool": [True, False] * 5,
            "codes": pd.Categorical(list("uvuvuvuvuv")),
            "same": ["a"] * 10,
            "level": [2.5] * 10,
            "hole": [np.nan, *range(9)],
            "label": ["Yes", " no ", "TRUE", "false", "1", "0", "1.0", "0.0", "yes", "No"],
            "bad": ["yes"] * 4 + ["maybe"] + ["no"] * 5,
            "ones": [1] * 10,
            "day": [DAY] * 10,
            "iso": ["2024-01-31"] * 10,
            "when": pd.date_range("2024-01-31", periods=10),
            "span": pd.to_timedelta(range(10), unit="D"),
            "complex": np.arange(10) * 1j,
            "counts": [0, 1, 2, 3, 0, 1, 2, 3, 4, 5],
        },
        index=range(100, 110),
    )
    tasks = ("auto", "classification", "regression")
    for name in table:
        for task in tasks:
            answers[f"{name}, {task}"] = answer(columns.read_target, table, [name], task)
    several = [["label", "ones"], ["label", "bool"], ["bad", "label"], ["ten", "real"], ["counts", "bool"]]
    several += [["counts", "ten"], ["real", "word"], ["real", "level"], ["hole", "real"], ["hole", "label"]]
    for names in several:
        for task in ("auto", "regression"):
            answers[f"{names}, {task}"] = answer(columns.read_target, table, names, task)
    answers["dates"] = answer(columns.detect_task, table["day"], "regression")
    assert "holds dates" in str(answer(columns.detect_task, table["day"][:1], "auto"))
    answers["eleven"] = columns.detect_task(pd.Series(range(11)), "auto")
    answers["missing whole"] = columns.detect_task(pd.Series([1.0, np.nan, 3.0]), "auto")
    # new rows may say the same
    assert columns.check_target(table["level"], "regression", varies=False).tolist() == [2.5] * 10
    assert columns.check_target(table["word"], "classification").dtype == object
    assert columns.check_target(table["ten"], "classification").dtype.kind == "i"
    for names, task in (
        (["word"], True),
        (["real"], False),
        (["real", "ten"], False),
        (["label", "bool"], True),
    ):
        lines = columns.target_lines(names, classification=task)
        answers[f"lines of {names}"] = lines
        space = {"table": table}
        exec("\n".join(lines), space)
        wanted = columns.read_target(table, names, "classification" if task else "regression")[0]
        np.testing.assert_array_equal(np.asarray(space["y"]), wanted)
    recorded("answers", answers)


def test_names_of_targets(recorded):
    answers = {}
    known = ["a", "b", "b,c", "c", "a, d", " e"]
    for text in ("a", "a,b", " a , b,c", "b,c,a", "a, d", "a,, b", "x,a", " ", " e", "e", "c,b", "a,x,b,c"):
        answers[text] = answer(columns.names_of_target, text, known)
    answers["twice"] = answer(columns.names_of_target, "a,b,b", known)
    table = pd.DataFrame([[0] * 6], columns=known)
    for text in ("", "a,b", "a,x"):
        answers[f"need {text}"] = answer(columns.need_target, table, text)
    labels = pd.DataFrame({"u": ["yes", "no"], "v": [0, 1], "x": [1.5, 1.5], "z": [2.5, 3.5]})
    for text, names, task in (
        ("v,u", ["u", "v"], "classification"),
        ("v,u", ["p", "q"], "classification"),
        ("x,z", ["z", "x"], "regression"),
        ("u", ["u", "v"], "classification"),
        ("u,x", ["u", "v"], "classification"),
        ("x,z", ["u", "v"], "classification"),
    ):
        answers[f"{text} for {names}"] = answer(columns.target_of_model, labels, text, names, task)
    recorded("answers", answers)


# ---- marks of held-out rows -------------------------------------------------------------------------


def test_marks_of_rows_in_full(recorded):
    """What every column of marks says: rows, counts, words, the lines of a script, and what a look at it finds."""
    answers = {}
    nan = np.nan
    marks = {
        "train": ["T", "F", "T", "T"],
        "x.is_train_rows": [1.0, 0.0, nan, 1.0],
        "for training": ["yes", "no", "no", "N"],
        "hold-out mask": ["y", "n", "n", "n"],
        "use for held.out": [True, False, False, False],
        "part": ["Test", "train", None, "train"],
        "fold": ["val", "testing", "training", "TRAINING "],
        "set": ["hold out", "held_out", "train", "train"],
        "odd": ["a", "b", "b", None],
        "smoker": [1, 0, 0, 1],
        "answer": ["yes", "no", "no", "no"],
        "all held": ["test", "test", "val", "test"],
        "train set": [1, 1, 1, 1],
        "day": pd.to_datetime(["2024-01-31", "2024-02-01", "2024-02-01", None]),
        "time": pd.to_datetime(["2024-01-31 10:00", "2024-02-01 00:00", "2024-02-01 00:00", None]),
        "number": [1.0, 2.5, -3.0, -3.0],
        "kind": pd.Categorical(["test", "train", "train", "train"]),
        "long": ["x" * 31, "y" * 30, "z", "z"],
    }
    for name, values in marks.items():
        column = pd.Series(values, name=name)
        for values_held in ("", "F", "2024-01-31", ["1", ""], "-3,b", "z, yes"):
            found = answer(division.read_division, column, values_held)
            if values_held and not isinstance(found, str) and not found[0].any():
                assert found[1].problem.startswith(f"Column {name!r} holds out no rows: its values are ")
                continue
            if isinstance(found, str):
                # what is accepted, and what to do, is said in full of six values below
                found = re.sub(r"expected .*, got", "...", found.removesuffix(f" {division.REMEDY}"))
                answers[f"{name}, {values_held}"] = found
                continue
            held, made = found
            lines = made.lines()
            answers[f"{name}, {values_held}"] = [held, made.said, made.problem]
            assert (made.n_held, made.n_training) == (held.sum(), 4 - held.sum())
            space = {"table": column.to_frame()}
            exec("\n".join(lines), space)
            assert space["held"].tolist() == held.tolist()
        answers[f"{name} seems"] = getattr(division.seems_to_mark(column), "said", None)
    many = pd.Series([f"v{k}" for k in range(6)], name="many")
    answers["six values"] = answer(division.read_division, many)
    answers["six held"] = division.read_division(many, ["v5"])[1].said
    assert division.read_division(many, "none")[1].problem.startswith(
        "Column 'many' holds out no rows: its values are v"
    )
    recorded("answers", answers)


# ---- columns that give the target away --------------------------------------------------------------


def doubtful():
    """Forty rows of four classes, with columns that tell them, nearly tell them, or do not."""
    k = np.arange(40)
    classes = np.array(["a", "b", "c", "d"])[(k * 7) % 4]
    code = (k * 7) % 4
    frame = pd.DataFrame(
        {
            "copy": classes,
            "number": code * 2.5,
            "finer": code * 10 + (k // 4) % 2,
            "too fine": code * 100 + k // 4,
            "coarse": code // 2,
            "nearly": np.where(k == 39, 3 - code, code),
            "noise": np.cos(k * 1.7).round(3),
            "holes": np.where(k % 5 == 0, np.nan, code),
            "lost class": np.where(code == 3, np.nan, code),
            "flag": code == 2,
            "rest": (k * 11) % 3,
            "y": classes,
        }
    )
    return frame, k, code


def test_giveaways_of_classes_and_numbers(recorded):
    answers = {}
    frame, k, code = doubtful()
    answers["classes"] = doubts.find_giveaways(prepare(Joined(frame), Spec(target="y", missing="impute")))
    answers["nineteen rows"] = doubts.find_giveaways(
        prepare(Joined(frame[:19]), Spec(target="y", missing="impute"))
    )
    answers["twenty rows"] = doubts.find_giveaways(
        prepare(Joined(frame[:20]), Spec(target="y", missing="impute"))
    )
    y = np.sin(k) + k / 7
    numbers = pd.DataFrame(
        {
            "line": 3.0 - 2.0 * y,
            "nearly": y + 1e-2 * np.cos(k),
            "some": np.where(k % 5 == 0, np.nan, y),
            "square": y**2,
            "constant": 1.0,
            "word": list("abcd") * 10,
            "y": y,
        }
    )
    spec = Spec(target="y", missing="impute")
    answers["numbers"] = doubts.find_giveaways(prepare(Joined(numbers), spec))
    two = Spec(target="y,line", missing="impute")
    assert doubts.find_giveaways(prepare(Joined(numbers), two)) == {}
    times = numbers.assign(days=y - y.min() + 1.0, died=code // 2, told=np.where(code > 1, "x", "z"))
    spec = Spec(time="days", event="died", missing="impute")
    answers["times"] = doubts.find_giveaways(prepare(Joined(times), spec))
    # of a larger table a part is looked at first, and what it suggests is looked up in all rows
    big = pd.DataFrame({"a": np.tile([0.0, 1.0], 600), "b": np.tile([0.0, 1.0], 600), "y": ["u", "v"] * 600})
    big.loc[1, "a"] = 0.0
    answers["one row apart"] = doubts.find_giveaways(prepare(Joined(big), Spec(target="y")))
    line = pd.DataFrame({"a": np.arange(1200.0), "b": np.arange(1200.0), "y": np.arange(1200.0) * 2})
    line.loc[1, "a"] = 500.0
    answers["one number apart"] = doubts.find_giveaways(prepare(Joined(line), Spec(target="y")))
    recorded("answers", answers)


def test_doubts_about_columns_in_words(recorded):
    answers = {}
    frame, k, _ = doubtful()
    frame = frame.drop(columns=["holes", "lost class"])

    def told(frame, **given):
        prepared = prepare(Joined(frame), Spec(target="y", missing="impute", kernels="linear", **given))
        return {name: one.to_json() for name, one in doubts.doubts_of_table(prepared).items()}

    answers["three copies"] = told(frame)
    answers["one copy"] = told(frame[["copy", "noise", "y"]])
    answers["none"] = told(frame[["noise", "y"]])
    names = {f"name{j}": [f"p{j}-{i}" for i in k] for j in range(7)}
    answers["seven names"] = told(frame[["noise", "y"]].assign(**names))
    answers["one name"] = told(frame[["noise", "y"]].assign(patient=names["name0"]))
    recorded("answers", answers)


# ---- tables joined and divided ----------------------------------------------------------------------


def test_tables_joined_in_every_way(recorded):
    answers = {}
    rna = pd.DataFrame({"who": ["p", "q", "r"], "a": [1, 2, 3], "x": [7.0, 8.0, 9.0]})
    meth = pd.DataFrame({"x": [4.0, 5.0, 6.0], "who": ["s", "r", "q"], "b": list("uvw")})
    wide = pd.DataFrame({"who": ["q", "r", "t", "p"], "x": [1, 0, 1, 0]})
    tables = {"rna": rna, "meth": meth, "wide": wide}
    two = {"rna": rna, "meth": meth}
    cases = {
        "shared": (tables, "who", "shared"),
        "all": (tables, "who", "all"),
        "order": (two, "who", "order"),
        "order, unequal": (tables, "", "order"),
        "no key": (two, "", "shared"),
        "unknown key": (two, "a", "shared"),
        "missing key": ({"rna": rna.assign(who=["p", None, None]), "meth": meth}, "who", "shared"),
        "key twice": ({"rna": rna, "meth": meth.assign(who=["s", "q", "q"])}, "who", "shared"),
        "nothing shared": ({"rna": rna, "meth": meth.assign(who=["1", "2", "3"])}, "who", "all"),
        "same name": ({"rna": rna, "meth": meth.rename(columns={"b": "rna.x"})}, "who", "shared"),
    }
    for name, (given, key, rows) in cases.items():
        found = answer(join_tables, given, key, rows)
        if isinstance(found, str):
            answers[name] = found
            continue
        told = [found.table, found.views, found.renamed, found.missing, found.by_order]
        answers[name] = [
            *told,
            {column: kind.kind for column, kind in found.kinds.items()},
            list(found.table),
        ]
        answers[f"{name}, layout"] = layout_text(found, "" if rows == "order" else "who", "x/rna.new.csv")
        answers[f"{name}, lacking"] = [
            sorted(lacking_keys(found, some)) for some in (["a"], ["b", "a"], ["wide.x"], [])
        ]
    answers["layout of one"] = layout_text(Joined(rna), "who", "x/rna.new.csv")
    answers["names"] = name_tables(["a/x.csv", "b/x.tsv.gz", "x.parquet", "dir/.csv", "y.1.csv"])
    pairs = [
        (["rna", "meth"], ["meth", "rna"]),
        (["rna", "meth"], ["RNA_2", "new meth"]),
        (["a", "b"], ["x", "y"]),
    ]
    pairs += [(["a", "b"], ["a_b", "b"]), (["a", "b"], ["a_1", "a_2"]), (["rna"], ["other"])]
    answers["pairs"] = [pair_names(*pair) for pair in pairs]
    assert files_in("a.csv, b.csv") == ["a.csv", "b.csv"]
    recorded("answers", answers)


def test_new_tables_stand_for_those_of_a_run(recorded):
    answers = {}
    genes, sites = {"who": "who", "a": "rna.a", "b": "b"}, {"who": "who", "a": "meth.a", "c": "c"}
    layout = Layout("who", {"rna": genes, "meth": sites})
    order = Layout("", {"rna": {"a": "rna.a", "b": "b"}, "meth": {"a": "meth.a", "c": "c"}}, "order")
    rna = pd.DataFrame({"who": ["x", "y"], "a": [1, 2], "b": [3, 4], "more": [0, 0]})
    meth = pd.DataFrame({"who": ["y", "z"], "a": [5, 6], "c": [7, 8]})
    needed = ["rna.a", "b", "meth.a", "c"]
    whole = pd.DataFrame({"rna.a": [1], "b": [2], "meth.a": [3], "c": [4], "who": ["x"]})
    cases = {
        "by names": ({"meth": meth, "rna": rna}, layout, ""),
        "by words": ({"meth_2": meth, "new-rna": rna}, layout, ""),
        "by order": ({"u": rna, "v": meth}, layout, ""),
        "by columns": ({"u": meth, "v": rna}, layout, ""),
        "another key": (
            {"u": rna.rename(columns={"who": "id"}), "v": meth.rename(columns={"who": "id"})},
            layout,
            "id",
        ),
        "unknown key": ({"u": rna, "v": meth}, layout, "id"),
        "rows in order": ({"u": rna, "v": meth}, order, "who"),
        "all rows": ({"u": rna, "v": meth}, dataclasses.replace(layout, rows="all"), ""),
        "one of two": ({"u": rna}, layout, ""),
        "both in one": ({"u": whole}, layout, ""),
        "three": ({"u": rna, "v": meth, "w": meth}, layout, ""),
        "lacking": ({"u": rna, "v": meth.drop(columns=["a", "c"])}, layout, ""),
        "no layout": ({"u": rna, "v": meth}, None, "who"),
        "alone": ({"u": rna}, None, ""),
    }
    for name, (tables, of, key) in cases.items():
        found = answer(join_new, tables, of, needed, key)
        answers[name] = found if isinstance(found, str) else [found[0].table, found[0].views, found[1]]
    # one assignment is left: a, b or c where only one of them has what it needs
    three = Layout("k", {name: {"k": "k", name: name} for name in "abc"})
    frames = {"1": ["a", "b", "c"], "2": ["b", "c"], "3": ["c"]}
    tables = {name: pd.DataFrame([[0] * len(own)], columns=own) for name, own in frames.items()}
    assert match_tables(dict(reversed(tables.items())), three, list("abc")) == {"a": "1", "b": "2", "c": "3"}
    tables["2"]["a"] = 0
    tables["3"]["a"], tables["3"]["b"] = 0, 0
    answers["several assignments"] = answer(
        match_tables, {**tables, "1": tables["1"].drop(columns="a")}, three, list("abc")
    )
    two_ways = {name: pd.DataFrame([[0, 0]], columns=["b", "c"]) for name in "12"} | {"3": tables["3"]}
    answers["undecided"] = answer(match_tables, dict(two_ways), three, list("abc"))
    recorded("answers", answers)


def fitting_to(data, spec):
    """A spec that leaves out only columns that are there."""
    return spec.model_copy(update={"drop": [name for name in names_in(spec.drop) if name in data.table]})


def everything(data, spec):
    """All that `prepare` and `split` say about tables and settings."""
    prepared = prepare(data, spec)
    told = {one.name: getattr(prepared, one.name) for one in dataclasses.fields(prepared)}
    frame = prepared.frame
    told["X"] = [list(frame.index), {name: cells(frame[name][:0])[:-2] for name in frame}]
    for name in frame:
        assert (
            cells(frame[name]).partition(":")[2] == cells(data.table.loc[frame.index, name]).partition(":")[2]
        )
    told["keys"] = None if prepared.keys is None else [prepared.keys.name, *map(str, prepared.keys)]
    told["division"] = None if prepared.division is None else prepared.division.said
    told["split"] = answer(split, prepared, spec)
    for name in ("said", "n_missing", "n_sources", "row_names", "row_names_read"):
        told[name] = getattr(prepared, name)
    told["facts"] = prepared.facts(data)
    return {
        name: value for name, value in told.items() if isinstance(value, np.ndarray) or value not in EMPTY
    }


def test_tables_are_divided_in_full(recorded):
    answers = {}
    frame = a_table(14).drop(columns="count")
    holes = frame.assign(
        a=frame["a"].where(frame.index != 3), site=frame["site"].where(frame.index != 5, None)
    )
    holes = holes.assign(who=[f"p{k}" for k in range(14)], part=["test"] * 3 + ["train"] * 11)
    other = pd.DataFrame(
        {"who": [f"p{k}" for k in range(2, 18)], "m1": np.arange(16.0), "m2": np.arange(16) % 3}
    )
    other.loc[4, "m1"] = np.nan
    joined = {rows: join_tables({"one": holes, "two": other}, "who", rows) for rows in ("shared", "all")}
    drop = ["y", "z", "class", "p", "q", "days", "died", "w", "g", "part"]

    def of(target, **given):
        used = {*target.split(","), *map(str, given.values())}
        return Spec(**{"target": target, "drop": [name for name in drop if name not in used], **given})

    one = Joined(holes)
    everyone = {"weights": "w", "group": "g", "holdout": "part"}
    cases = {
        "drop": (one, of("y", missing="drop", **everyone, key="who")),
        "impute": (one, of("class", missing="impute", **everyone)),
        "shared": (joined["shared"], of("class", missing="drop", key="who", test_size=0.3, seed=2)),
        "all": (joined["all"], of("y", missing="skip", key="who", weights="w", group="g", test_size=0.3)),
        "all, drop": (joined["all"], of("p", missing="drop", missing_views="error", key="who", test_size=0)),
        "all, renormalize": (
            joined["all"],
            of("p,q", missing="drop", missing_views="renormalize", key="who"),
        ),
        "views": (one, of("y", views={"numbers": ["b", "z"], "w": ["w"]}, test_size=0.5, drop="class")),
        "auto": (
            Joined(frame.assign(m1=frame["a"], m2=frame["b"], patient_id=range(100, 114))),
            of("y", views="auto"),
        ),
        "auto, nothing": (Joined(frame[["a", "b", "y"]]), of("y", views="auto", drop="")),
        "suggested": (
            Joined(frame[["y"]].assign(m1=1.5, m2=frame["a"], l1=frame["b"], l2=2.5)),
            of("y", drop=""),
        ),
        "times": (Joined(frame), of("", time="days", event="died", strata="site", test_size=0.4, seed=1)),
        "times, drop": (
            Joined(frame.assign(days=frame["days"] - 6)),
            of("", time="days", event="died=0", missing="drop", test_size=0),
        ),
        "counts": (Joined(frame.assign(y=np.arange(14) % 3)), of("y", learner_params={"loss": "poisson"})),
        "types": (one, of("class", types="b=category,who=text", missing="impute", kernels="linear")),
    }
    for name, (data, spec) in cases.items():
        answers[name] = everything(data, fitting_to(data, spec))
    wrong = {
        "no weights": (one, of("y", weights="w2")),
        "no groups": (one, of("y", group="g2")),
        "no marks": (one, of("y", holdout="part2")),
        "no key": (one, of("y", key="k2")),
        "no dropped": (one, Spec(target="y", drop="b,zz")),
        "no column": (Joined(frame[["a", "y"]]), Spec(target="y", drop="a")),
        "missing": (one, of("y")),
        "missing, drop all": (Joined(frame.assign(a=np.nan)), of("y", missing="drop")),
        "infinite": (Joined(frame.assign(a=[np.inf, -np.inf, *range(12)])), of("y")),
        "infinite target": (Joined(frame.assign(y=[np.inf, *range(13)])), of("y")),
        "large": (Joined(frame.assign(b=[-1e101, *range(13)])), of("y")),
        "weights": (Joined(frame.assign(w=[-1.0, *range(13)])), of("y", weights="w")),
        "no common row": (joined["all"], of("y", key="who", weights="m9")),
    }
    for name, (data, spec) in wrong.items():
        own = spec if name.startswith("no ") else fitting_to(data, spec)
        answers[name] = answer(prepare, data, own)
    sides = {
        "one class": (Joined(frame.assign(held=frame["class"] != "mid")), of("class", holdout="held")),
        "no weight": (
            Joined(frame.assign(w=[0.0] * 13 + [1.0], held=[0] * 13 + [1])),
            of("y", weights="w", holdout="held"),
        ),
        "all held": (Joined(frame.assign(held="test")), of("y", holdout="held")),
        "no event": (
            Joined(frame.assign(held=frame["died"])),
            of("", time="days", event="died", holdout="held", drop="y,z,class,p,q,w,g"),
        ),
        "single": (Joined(frame.assign(kind=[*"aaaaaabbbbbbbc"])), of("kind", drop=[*drop[:-1]])),
        "singles": (Joined(frame.assign(kind=[*"aaaaabbbbbbbcd"])), of("kind", drop=[*drop[:-1]])),
        "too few": (Joined(frame), of("class", test_size=0.01)),
        "one group": (Joined(frame.assign(g=1)), of("y", group="g")),
    }
    for name, (data, spec) in sides.items():
        spec = fitting_to(data, spec)
        found = str(answer(split, prepare(data, spec), spec))
        # what scikit-learn says is its own
        answers[name] = re.sub(r"(?<=held out: ).*?(?= Hold out more)", "...", found)
    spec = of("y", weights="w", group="g", holdout="part", strata="site")
    answers["taken"] = sorted(taken_columns(spec, list(frame), "who", None))
    assert needed_columns(spec, ["y"]) == ["y", "w", "g", "part"]
    assert other_columns(spec, ["y"]) == ["y", "w", "g"]
    recorded("answers", answers)


def test_rows_are_sampled_by_class(recorded):
    answers = {}
    classes = np.repeat([0, 1, 2, 3], [40, 20, 7, 3])[np.argsort(np.cos(np.arange(70)))]
    rows = np.arange(5, 75) * 2
    for size in (20, 30, 69, 70):
        found = sample_rows(rows, classes, size, 3)
        answers[str(size)] = found
        assert np.isin(found, rows).all()
    frame = a_table(12)
    some = np.array([5, 2, 9, 0])
    for target in ("class", "y", "p,q"):
        prepared = prepare(Joined(frame), asked(target))
        answers[target] = [classes_of(prepared, some), kept_shares(prepared)]
    prepared = prepare(Joined(frame), asked("", time="days", event="died"))
    answers["times"] = [classes_of(prepared, some), kept_shares(prepared)]
    few = prepare(Joined(frame.assign(died=[1] * 11 + [0])), asked("", time="days", event="died"))
    assert kept_shares(few) is None
    recorded("answers", answers)


def test_views_that_tables_suggest(recorded):
    answers = {}
    names = {
        "words": ["gene_a", "gene_b", "lipid_a", "lipid_b", "age"],
        "ends": ["a.red", "b.red", "c.blue", "d.blue"],
        "numbers": ["gene1", "gene2", "lipid 1", "lipid-2", "age"],
        "too many others": ["gene1", "gene2", "lipid1", "lipid2", "age", "sex"],
        "one": ["gene1", "gene2", "gene3"],
        "other": ["other_a", "other_b", "x_a", "x_b", "x_c", "y_c"],
        "many": [f"{k}_{j}" for k in range(25) for j in "ab"],
        "most": [f"v{k}_{j}x" for k in range(24) for j in "ab"],
        "both": ["p1_u", "p2_u", "p1_v", "p2_v"],
    }
    for name, some in names.items():
        answers[name] = by_names(some)
    k = np.arange(40)
    a, b, c = np.cos(k), np.sin(3 * k), np.cos(k * k)
    blocks = pd.DataFrame(
        {"u": a, "v": b, "w": a + 0.1 * c, "x": 2 * b - 0.1 * c, "z": a - 0.2 * c, "t": b + 0.2 * c}
    )
    mixed = pd.DataFrame(
        {"u": a, "kind": list("ab") * 20, "when": pd.date_range("2024-01-01", periods=40), "n": k}
    )
    tables = {
        "blocks": blocks,
        "holes": blocks.where(blocks["u"].abs() > 0.2),
        "constant": blocks.assign(u=1.0),
        "empty": blocks.assign(u=np.nan),
        "short": blocks[:9],
        "narrow": blocks[["u", "v", "w"]],
        "no blocks": pd.DataFrame({f"{name}": np.cos(k * (i + 1.3)) for i, name in enumerate("uvwx")}),
        # of four directions in a plane two pairs are alike, but so are two of different pairs
        "a fan": pd.DataFrame(
            {str(t): np.cos(np.deg2rad(t)) * a + np.sin(np.deg2rad(t)) * b for t in (0, 20, 50, 88)}
        ),
        "types": mixed,
        "one type": mixed[["kind"]],
        "names": blocks.set_axis(names["both"] + ["p1_w", "p2_w"], axis=1),
        "twice": blocks.set_axis(list("aabcde"), axis=1),
    }
    for name, table in tables.items():
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = propose_views(table)
        answers[f"table of {name}"] = [found.views, found.reason]
    recorded("answers", answers)


def test_columns_that_name_rows(recorded):
    answers = {}
    n = 40
    k = np.arange(n)
    table = pd.DataFrame(
        {
            "who": [f"p{j}" for j in k],
            "patient_id": 1000 + 7 * k,
            "row": k,
            "count": k + 1,
            "from two": k + 2,
            "halves": k + 0.5,
            "half known": [f"p{j}" if j < 20 else None for j in k],
            "few": [f"p{j % 35}" for j in k],
            "mostly": [f"p{j % 39}" for j in k],
            "day": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d"),
            "when": pd.date_range("2024-01-01", periods=n),
            "text": [f"a long text of many words about the patient number {j} in this table" for j in k],
            "mixed": pd.Series([1 if j % 2 else f"x{j}" for j in k], dtype=object),
            "sample": (k * 17) % n,
            "kind": pd.Categorical([f"p{j}" for j in k]),
            "flag": k > 3,
            "back": k[::-1] + 1,
        }
    )
    answers["all"] = find_row_names(table)
    answers["each"] = {name: [why_names(table[name], name), left_out(table[name], name)] for name in table}
    answers["few rows"] = find_row_names(table[:9])
    answers["ten rows"] = find_row_names(table[:12])
    answers["column"] = [
        column_of_names(table, some)
        for some in (
            ["y"],
            ["patient_id"],
            ["patient_id", "who"],
            ["who", "patient_id", "sample"],
            list(table),
        )
    ]
    numbers = table[["row", "count", "from two", "back"]].astype(float)
    numbers.loc[3, "row"] = np.nan
    answers["floats"] = find_row_names(numbers)
    assert left_out(pd.Series([None, None], dtype=object), "id") == ""
    recorded("answers", answers)


# ---- survival ---------------------------------------------------------------------------------------


def test_times_and_events_in_full(recorded):
    answers = {}
    table = pd.DataFrame(
        {
            "days": [5.0, 3.0, 0.0, 8.5],
            "died": ["Dead", " alive", "censored", "event"],
            "status": [1, 2, 2, 1],
            "cause": ["stroke", "cancer, other", "none", "stroke"],
            "text": ["5", "soon", "7", "later"],
            "less": [-1.0, 2.0, -3.0, 4.0],
            "hole": [np.nan, 1.0, np.nan, 2.0],
            "site": ["a", "b", None, "b"],
            "ward": [1.0, 2.0, 1.0, 2.0],
            "never": [0, 0, 0, 0],
            "a=b": [1, 0, 0, 1],
        },
        index=[10, 11, 12, 13],
    )
    cases = {
        "words": {"time": "days", "event": "died"},
        "value": {"time": "days", "event": "status=2"},
        "values": {"time": "days", "event": 'cause=stroke,"Cancer, other"'},
        "sign": {"time": "days", "event": "a=b"},
        "strata": {"time": "days", "event": "died", "strata": "ward"},
        "no words": {"time": "days", "event": "cause"},
        "unknown value": {"time": "days", "event": "status=7"},
        "no event": {"time": "days", "event": "never"},
        "text": {"time": "text", "event": "died"},
        "negative": {"time": "less", "event": "died"},
        "hole": {"time": "hole", "event": "died"},
        "event hole": {"time": "days", "event": "hole=1"},
        "strata hole": {"time": "days", "event": "died", "strata": "site"},
        "unknown time": {"time": "dayz", "event": "died"},
        "unknown event": {"time": "days", "event": "dead"},
        "unknown strata": {"time": "days", "event": "died", "strata": "sites"},
        "time as strata": {"time": "days", "event": "died", "strata": "days"},
        "same": {"time": "days", "event": "days"},
        "no time": {"event": "died"},
        "no marks": {"time": "days"},
        "target": {"time": "days", "event": "died", "target": "less"},
        "task": {"time": "days", "event": "died", "task": "regression"},
        "strata without": {"target": "less", "strata": "ward"},
    }
    for name, given in cases.items():
        spec = Spec(**given)
        targets = answer(survival.need_targets, table, spec)
        y = answer(survival.read_times, table, spec) if spec.survival and isinstance(targets, list) else None
        answers[name] = [targets, y, survival.outcome_columns(spec, list(table))]
        if isinstance(y, np.ndarray):
            lines = survival.time_lines(spec, table)
            answers[f"{name}, lines"] = [
                *lines,
                survival.said(y),
                survival.strata_of(y),
                survival.events_of(y),
            ]
            space = {"table": table, "np": np}
            exec("\n".join(lines), space)
            assert space["y"].tolist() == y.tolist()
    many = pd.DataFrame({"days": -np.arange(1.0, 8.0), "died": [1, 0] * 3 + [1]})
    answers["seven"] = answer(survival.read_times, many, Spec(time="days", event="died"))
    answers["one"] = answer(survival.read_times, many[:1], Spec(time="days", event="died"))
    kinds = pd.DataFrame({"days": np.arange(7.0), "kind": list("abcdefg")})
    answers["seven kinds"] = answer(survival.read_times, kinds, Spec(time="days", event="kind"))
    dropped = survival.without_negative(table, Spec(time="less", event="died", missing="drop"))
    assert np.isnan(dropped["less"]).tolist() == [True, False, True, False]
    for spec in (Spec(time="less", event="died"), Spec(target="less", missing="drop")):
        assert survival.without_negative(table, spec) is table
    for time in ("days", "text"):
        assert survival.without_negative(table, Spec(time=time, event="died", missing="drop")) is table
    recorded("answers", answers)


def test_columns_that_are_called_like_times_and_events(recorded):
    answers = {}
    base = pd.DataFrame({"age": [60, 70, 65], "days": [20.0, 31.0, 7.0], "died": [1, 0, 1]})
    tables = {
        "plain": base,
        "censored": base.rename(columns={"died": "cens"}),
        "words": base.assign(died=["dead", None, "alive"]).rename(
            columns={"died": "OS status", "days": "OS.time"}
        ),
        "same": base.assign(died=1),
        "two times": base.assign(time=[1.0, 2.0, 3.0]),
        "two events": base.assign(relapse=[1, 0, 0]),
        "negative": base.assign(days=[-1.0, 2.0, 3.0]),
        "few values": base.assign(days=[1.0, 1.0, 2.0]),
        "texts": base.assign(days=list("abc")),
        "unread": base.assign(died=list("xyz")),
        "empty": base.assign(died=np.nan),
        "other words": base.rename(columns={"died": "pfs_event", "days": "follow-up time"}),
        "no": base.rename(columns={"died": "failing", "days": "timed"}),
        "short": base.rename(columns={"died": "status", "days": "t"})[:2],
    }
    for name, table in tables.items():
        answers[name] = survival.obvious_times(table)
    names = ["cens", "Censored", "censoring", "Censors", "uncensored"]
    assert [survival.is_reversed(name) for name in names] == [True, True, True, False, False]
    recorded("answers", answers)


# ---- text tables ------------------------------------------------------------------------------------


def test_text_tables_of_every_look(recorded, tmp_path):
    """Cells of a file or the reason against it, and the same cells by the line of a script."""
    answers = {}
    texts = {
        "plain.csv": b"a,b\n1,x\n2.5,y\n",
        "tabs.tsv": b"a\tb\n1,5\tx\n2,5\ty\n",
        "semicolons.csv": b"a;b\n1,5;x\n-2;y\n",
        "thousands.csv": b"a;b\n1,500;2\n2,000;3\n",
        "thousands.tsv": b"a\tb\n1,500\t2\n2,000\t3\n",
        "mixed.csv": b"a;b\n1,5;2.5\n2.5;3,5\n",
        "points.csv": b"a;b\n1.5;2\n2,5;3\n",
        "pipes.csv": b"a|b|c\n1|2|3\n",
        "names.csv": b"a,b\nr1,1,2\nr2,3,4\n",
        "ends.csv": b"a,b,\n1,2,\n3,4,\n",
        "surplus.csv": b"a,b\n1,2,\n3,4,\n",
        "quoted.csv": b'"a;x","b"\n"1,5","p;q"\n',
        "other.csv": b"a,b\n1;2\n3;4\n",
        "twice.csv": b"a,a\n1,2\n",
        "header.csv": b"a,b\n",
        "empty.csv": b"",
        "zero.csv": b"a,b\n1,\x002\n",
        "latin.csv": "a,b\n1,ä\n".encode("latin-1"),
        "utf16.csv": "a,b\n1,ä\n".encode("utf-16"),
        "bare16.csv": "a,b\n1,2\n".encode("utf-16-le"),
        "mark.csv": "a,b\n1,ä\n".encode("utf-8-sig"),
        "missing.csv": b"a,b,c\n,NA,x\n1,nan,\n",
        "holes.csv": b"a,,c\n1,2,3\n",
    }
    for name, content in texts.items():
        path = tmp_path / name
        path.write_bytes(content)
        found = answer(formats.read_table, path)
        if isinstance(found, str):
            answers[name] = found.replace(str(path), name)[:70]
            continue
        answers[name] = {column: cells(found[column]) for column in found}
        space = {"pd": pd}
        exec("\n".join(formats.format_of(path).lines("table", str(path), None)), space)
        # the line of a script keeps an empty last column
        pd.testing.assert_frame_equal(space["table"][list(found)], found)
        assert space["table"].shape[1] - found.shape[1] == (name == "ends.csv")
        assert formats.format_of(path).name == "csv"
    read = formats.read_file(tmp_path / "plain.csv", texts=["a"]).table
    assert read["a"].tolist() == ["1", "2.5"]
    limits = {
        "packed.csv": {},
        "plain.csv": {"cells": 5},
        "pipes.csv": {"columns": 2},
        "tabs.tsv": {"unpacked": 5},
    }
    (tmp_path / "packed.csv").write_bytes(b"\x1f\x8b\x00")
    for name, given in limits.items():
        answers[f"check {name}"] = answer(
            formats.check_file, tmp_path / name, name, formats.FileLimits(**given)
        )
    answers["folder"] = answer(formats.read_table, tmp_path).replace(str(tmp_path), "FOLDER")[:60]
    answers["gone"] = answer(formats.read_table, "gone.csv")
    reasons = [
        ValueError(" first.\nsecond"),
        ValueError(""),
        ValueError("set allow_pickle=True"),
        ValueError("x" * 300),
    ]
    reasons += [TypeError("Python objects in it")]
    assert [formats.one_line(error) for error in reasons] == [
        "first",
        "ValueError",
        "it holds Python objects, which are never read",
        "x" * 200,
        "it holds Python objects, which are never read",
    ]
    for lines, usual, wanted in (
        (["a,b;c", "1,2;3"], ",", ","),
        (["a;b;c", "1,5;2;3"], ",", ";"),
        (["a"], "\t", "\t"),
        (["a,b,c;d", "1,2;3"], ",", ";"),
        (["a\tb,c", "1\t2,3"], "\t", "\t"),
        (['"a,b,c";d', '"1,2";3'], ",", ";"),
    ):
        assert find_separator(lines, usual) == wanted
    assert header_of(tmp_path / "mark.csv") == ["a", "b"]
    assert header_of(tmp_path / "latin.csv") == []
    recorded("answers", answers)
