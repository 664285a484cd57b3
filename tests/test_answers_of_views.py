"""Tables, views, dates and levels: everything that they hold, by formulas or as it was when somebody last read it.

Modules: `views`, `views/columns`, `views/container`, `views/dates`, `views/encoding`, `views/groups`, `views/levels`,
`views/selection`, `views/tables`.
"""

import datetime
import pickle
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from kernelweave import InputError
from kernelweave.views import columns, container, dates, encoding, groups, levels, selection, tables
from kernelweave.views.container import Views, by_rows, holds_views, precomputed, take_rows
from kernelweave.views.encoding import GramEncoder, TableEncoder, ViewsEncoder, as_table, as_tables
from kernelweave.views.selection import ColumnMask, ColumnSlice, ViewColumns, freeze_columns
from kernelweave.views.tables import BlockTable, Cells, GramTable, SparseTable, Table, kernel_row_content

DAY = np.timedelta64(1, "D")


def all_of(table):
    """All that a table holds."""
    if isinstance(table, BlockTable):
        return {view: all_of(block) for view, block in table.blocks.items()}
    if isinstance(table, GramTable):
        return [type(table).__name__, table.matrix, table.index, table.diagonal]
    values = table.values.toarray() if sparse.issparse(table.values) else table.values
    numbers = [
        column % 1009 if level == tables.TEXT else column
        for column, level in zip(values.T, table.levels, strict=True)
    ]
    return {
        "kind": type(table).__name__,
        "values": numbers,
        "names": table.names,
        "levels": list(table.levels),
        "cells": [None if one is None else list(map(written, one.values)) for one in table.cells or ()],
        "dates": [
            None if one is None else [one.describe(), one.since, one.mean, one.scale]
            for one in table.dates or ()
        ],
        "marked": table.marked,
    }


def written(cell):
    """A cell as text; sets have no order."""
    return repr(sorted(cell)) if isinstance(cell, set) else repr(cell)


def frame(n=14):
    """A frame of every kind of column."""
    rng = np.random.default_rng(0)
    at = pd.Timestamp("2020-01-30 06:00") + pd.to_timedelta(rng.permutation(n) * 61.3, unit="D")
    return pd.DataFrame(
        {
            "age": rng.normal(size=n).round(2),
            "city": ["Oslo", "Rome", "Bonn", None] * 3 + ["Rome", "Oslo"],
            "flag": rng.random(n) > 0.5,
            "grade": pd.Categorical(["b", "a"] * (n // 2), categories=["c", "b", "a"]),
            "mixed": [1, "x", 2.5, True, b"y", Decimal("3")] * 2 + [7, "x"],
            "note": [f"a long note number {k} of the patient" for k in range(n)],
            "born": at,
            "seen": at + pd.to_timedelta(np.arange(n) % 5, unit="D"),
            "stay": pd.to_timedelta(np.arange(n) * 6, unit="h"),
            "words": [{"a", f"w{k % 3}"} for k in range(n)],
            "whole": np.arange(n) % 4,
            "zoned": at.tz_localize("Europe/Oslo"),
        }
    )


def test_frames_as_tables(recorded):
    encoder = TableEncoder("M", missing=True)
    table = encoder.fit_transform(frame())
    recorded("fitted", all_of(table))
    recorded(
        "categories",
        [encoder.categories_, encoder.names_, encoder.n_columns_, encoder.texts_, encoder.sparse_],
    )
    recorded(
        "forms",
        [
            [form.place, form.first, form.last, form.zone, form.periods, form.names("d")]
            for form in encoder.dates_
        ],
    )
    recorded(
        "read",
        [
            list(table.take().T),
            table.owners.tolist(),
            table.n_expanded_columns,
            [table.width(j) for j in range(12)],
        ],
    )
    recorded("missing", [table.missing(), table.empty_rows(), list(table.select(["seen", "city"]).take().T)])
    declared = encoder.declare(table, [5, 9])
    recorded("declared", [all_of(declared), encoder.texts_, encoder.categories_[5]])
    new = frame().iloc[[3, 0]].iloc[:, ::-1].assign(city=["Rome", "Nice"], age=[None, 1.0])
    recorded("new", all_of(encoder.transform(new)))
    recorded("empty", all_of(encoder.empty(2)))
    recorded("long", [cells.is_long_text if cells is not None else None for cells in table.cells])
    dated = encoder.date(declared, np.arange(0, 14, 2), np.arange(1.0, 8.0))
    recorded("dated", [form.describe() for form in encoder.dates_] + [all_of(dated)["dates"]])
    grouped = encoder.group(dated, {"all": levels.Levels({0: "why"}, ())})
    recorded("grouped", [all_of(grouped), encoder.left_out_])
    recorded("new grouped", all_of(encoder.transform(new)))
    same = encoder.group(grouped, {"all": levels.Levels({}, ())})
    assert same is grouped


def test_frames_of_other_libraries():
    own = pd.DataFrame(
        {
            "a": [1.5, None, 2.0],
            "c": ["x", None, "y"],
            "t": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
        }
    )
    wanted = all_of(TableEncoder(missing=True).fit_transform(own))
    given = pl.DataFrame(
        {
            "a": [1.5, None, 2.0],
            "c": pl.Series(["x", None, "y"], dtype=pl.Categorical),
            "t": pl.Series([datetime.datetime(2020, 1, 1), None, datetime.datetime(2021, 1, 1)]),
        }
    )
    found = all_of(TableEncoder(missing=True).fit_transform(given))
    np.testing.assert_array_equal(found["values"], wanted["values"])
    assert found["levels"] == wanted["levels"] == [0, 2, -2]
    assert found["dates"] == wanted["dates"]
    pa = pytest.importorskip("pyarrow")
    arrow = pa.table({"a": [1.5, None, 2.0], "c": pa.array(["x", None, "y"]).dictionary_encode()})
    np.testing.assert_array_equal(
        TableEncoder(missing=True).fit_transform(arrow).values, np.stack(wanted["values"][:2], axis=1)
    )
    with pytest.raises(InputError, match=r"Lazy frames cannot be used directly\. Call \.collect\(\) first"):
        as_table(given.lazy())
    with pytest.raises(InputError, match=r"View 'a' is a lazy frame\. Call \.collect\(\) first"):
        Views({"a": given.lazy()})


def test_arrays_as_tables(recorded):
    plain = as_table([[1, 2], [3, 4]])
    assert plain.values.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    given = np.arange(4.0).reshape(2, 2)
    assert encoding.read_table(given, missing=False).values is not given
    objects = np.empty((4, 6), dtype=object)
    objects[:, 0] = [1, "2.5", 3.0, b"4"]
    objects[:, 1] = ["a", 2, None, True]
    objects[:, 2] = [
        datetime.date(2020, 1, 1),
        None,
        datetime.datetime(2020, 1, 2, 12),
        np.datetime64("2020-03-01"),
    ]
    objects[:, 3] = [(1, 2), {"x"}, [3], None]
    objects[:, 4] = [Decimal("1.5"), 2, np.float32(3), np.bool_(True)]
    objects[:, 5] = [datetime.timedelta(hours=12), np.timedelta64(2, "D"), None, pd.Timedelta("3D")]
    encoder = TableEncoder(missing=True)
    recorded("objects", [all_of(encoder.fit_transform(objects)), encoder.categories_])
    recorded("texts", all_of(as_table([["a", "1"], ["b", "2"]])))
    read = encoding.read_table(objects, missing=True)
    recorded(
        "columns",
        [[c.categorical, c.declared, c.objects, c.zone, c.holds_text, c.holds_objects] for c in read.columns],
    )
    many = encoding.read_table(sparse.csr_array(np.eye(3)), missing=False)
    assert [column.values.tolist() for column in many.columns] == np.eye(3).tolist()
    assert encoding.plain_array(np.eye(2)) is not None
    for other in (
        np.eye(2).tolist(),
        np.array([[1, "a"]], dtype=object),
        np.eye(2)[0],
        np.full((2, 2), np.inf),
        np.empty((0, 2)),
        np.ma.masked_array(np.eye(2)),
    ):
        assert encoding.plain_array(other) is None
    names, values = encoding.plain_frame(pd.DataFrame({"a": [1, 2], "b": [1.0, np.nan]}), missing=True)
    assert names == ["a", "b"]
    assert values.flags.c_contiguous
    own = pd.DataFrame({"a": [1.0], "b": [2.0]})
    for other in (
        own.assign(b=np.inf),
        own.assign(b="x"),
        own.assign(b=True),
        own.set_axis([0, 1], axis=1),
        own.set_axis(["a", "a"], axis=1),
        own[:0],
        own["a"],
        3,
    ):
        assert encoding.plain_frame(other, missing=True) is None
    assert encoding.plain_frame(own.assign(b=np.nan), missing=False) is None


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        (Table([[1.0]]), InputError, r"A Table is encoded already\. Pass the original array or data frame"),
        (
            [[1, 2], [3]],
            InputError,
            r"X must be rectangular, got rows of different lengths\. Pad or drop the short rows",
        ),
        (
            [1, 2],
            InputError,
            r"Expected 2D array, got 1D array of shape \(2,\)\. Reshape your data using X\.reshape\(-1, 1\)",
        ),
        (
            ["a", "b"],
            InputError,
            r"Reshape your data: texts are a view, \{'text': X\}, or a column of a frame",
        ),
        (
            np.ones((2, 2, 2)),
            InputError,
            r"Expected 2D array, got 3D array of shape \(2, 2, 2\)\. Reshape your data\.",
        ),
        (
            np.ones((0, 3)),
            InputError,
            r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required",
        ),
        (np.ones((3, 0)), InputError, r"Found array with 0 feature\(s\) \(shape="),
        (
            np.ones((1, 1)) * 1j,
            InputError,
            r"Complex data not supported: X holds complex numbers\. Pass real and imag",
        ),
        ([[1, 2j]], InputError, "Complex data not supported"),
        (pd.DataFrame({"z": [1j]}), InputError, "Complex data not supported: column 'z' holds complex"),
        (np.zeros((2, 2), dtype=[("a", "i4")]), InputError, r"X has the type .*\. Pass a plain 2D array"),
        (
            pd.DataFrame([[1, 2]], columns=["a", 1]),
            TypeError,
            r"if all input features have string names, got \['int', 'str'\]",
        ),
        (
            pd.DataFrame([[1, 2, 3, 4]], columns=list("baab")),
            InputError,
            "Column names must be unique, got 'a', 'b' more than",
        ),
        (
            [[1, {"a"}], [2, "x"]],
            TypeError,
            r"must be a string or a number, got \{'a'\} \(set\) in column 1\. Flatten it",
        ),
        (
            [[1.0, np.nan], [np.nan, np.nan]],
            InputError,
            r"contains NaN \(missing values\) in column 0 \(1 of 2 rows\), column 1 \(2 of 2",
        ),
        (
            [[np.inf] * 7] * 2,
            InputError,
            r"contains infinity in column 0 \(2 of 2 rows\), .*column 4 \(2 of 2 rows\) and 2 more",
        ),
        (
            pd.DataFrame({"a": [None, "x"]}),
            InputError,
            r"in column 'a' \(1 of 2 rows\)\. Impute the values or drop these rows; e",
        ),
        (
            pd.DataFrame({"a": [np.inf, "x"]}),
            InputError,
            r"contains infinity in column 'a' \(1 of 2 rows\)\. Impute.*rows\.$",
        ),
        (
            pd.DataFrame({"d": [datetime.date(2020, 1, 1), 3]}),
            InputError,
            r"^Column 'd' must hold dates only, got 3 beside datet",
        ),
        (
            pd.DataFrame(
                {"d": pd.Series([pd.Timestamp("2020"), pd.Timestamp("2020", tz="UTC")], dtype=object)}
            ),
            InputError,
            r"Column 'd' has dates with and without a time zone\. Give all of them one, or none",
        ),
    ],
)
def test_tables_that_are_refused(X, kind, message):
    with pytest.raises(kind, match=message):
        TableEncoder().fit(X)


def test_new_rows_that_are_refused():
    encoder = TableEncoder("the model", missing=True)
    given = frame()[["age", "born", "zoned", "city"]]
    encoder.fit(given)
    for X, words in (
        (given[["age", "born", "zoned"]], r"(?s)should match those.*yet now missing:\n- city\n$"),
        (given.assign(new=1, other=2), "unseen at fit time:\n- new\n- other\n$"),
        (
            given.rename(columns={"age": "old"}),
            "unseen at fit time:\n- old\nFeature names seen at fit time, yet now missing:\n- age",
        ),
        (
            np.ones((2, 3)),
            r"X has 3 features, but the model is expecting 4 features as input\. Pass the columns used in fit",
        ),
        (
            given.assign(age="x"),
            r"^Column 'age' was numeric when fitted, got 'x' in row 0\. Pass numbers, or fit again with",
        ),
        (
            given.assign(age=given["born"]),
            r"Column 'age' was numeric when fitted, got dates\. Pass numbers, or fit again with",
        ),
        (
            given.assign(born=range(3, 17)),
            r"Column 'born' held dates when fitted, got 3\.0 in row 0\. Pass dates|got 3 in row 0",
        ),
        (
            given.assign(born=given["zoned"]),
            r"'born' had no time zone when fitted, got dates in the time zone Europe/Oslo\. In",
        ),
        (
            given.assign(zoned=given["born"]),
            r"was in the time zone Europe/Oslo when fitted, got dates without a time zone\. In P",
        ),
    ):
        with pytest.raises(InputError, match=words):
            encoder.transform(X)
    many = pd.DataFrame(np.eye(7), columns=list("abcdefg"))
    with pytest.raises(InputError, match=r"- a\n- b\n- c\n- d\n- e\n- ...\n$"):
        TableEncoder().fit(many).transform(many[[]].assign(z=1.0))
    fixed = TableEncoder(reorder=False).fit(many)
    with pytest.raises(InputError, match=r"Feature names must be in the same order as they were in fit.\n$"):
        fixed.transform(many.iloc[:, ::-1])
    with pytest.raises(InputError, match=r"This TableEncoder has not been fitted\. Call fit first"):
        TableEncoder().transform(many)
    moved = given["zoned"].dt.tz_convert("UTC")
    np.testing.assert_array_equal(
        encoder.transform(given.assign(zoned=moved)).values, encoder.transform(given).values
    )
    lost = given.assign(born=[None] * 14)
    assert np.isnan(encoder.transform(lost).values[:, 1]).all()
    swapped = TableEncoder().fit(many).transform(many.iloc[:, ::-1])
    np.testing.assert_array_equal(swapped.values, np.eye(7))
    rows = TableEncoder().fit(sparse.csr_array(np.eye(3)))
    found = rows.transform(np.ones((2, 3)))
    assert isinstance(found, SparseTable)
    assert isinstance(rows.empty(2), SparseTable)
    assert rows.empty(2).empty_rows().all()


def test_codes_of_categories():
    column = columns.Column(
        np.array([1, 1.0, True, "1", "True", 0, "0.5", 0.5, b"x", None, "new"], dtype=object)
    )
    for categories, wanted in (
        (["1"], [0, 0, 0, 0, -1, -1, -1, -1, -1, np.nan, -1]),
        ([1.0, 0.5], [0, 0, 0, 0, -1, -1, 1, 1, -1, np.nan, -1]),
        (["False", "True", "x", "0.5"], [1, 1, 1, -1, 1, 0, 3, 3, 2, np.nan, -1]),
    ):
        np.testing.assert_array_equal(column.codes(categories), wanted)
    assert column.categories() == [0.0, 0.5, 1.0, "0.5", "1", "True", "new", "x"]
    assert column.lost().tolist() == [False] * 9 + [True, False]
    assert columns.Column(np.array(["a", None, b"b"], dtype=object)).cells().values.tolist() == ["a", "", "b"]
    assert columns.Column(np.array([None, None], dtype=object)).holds_text is False
    assert columns.Column(np.array(["a"], dtype=object), declared=True).holds_text is False


def test_dates_as_numbers(recorded):
    rng = np.random.default_rng(0)
    days = rng.uniform(0, 900, 40).round(3)
    later = days + rng.integers(0, 9, 40)
    gone = np.where(np.arange(40) % 9 == 0, np.nan, later + 30.25)
    weight = rng.integers(0, 3, 40).astype(float)
    forms = dates.date_forms({0: days, 3: later, 5: gone}, {3: "UTC"}, weight)
    recorded("forms", list(forms.values()))
    for j, values in ((0, days), (3, later)):
        form = forms[j]
        found = form.features(values[:, None])
        angle = [
            2 * np.pi / length * (np.floor(values) if p == "week" else values)
            for p, length in dates.PERIODS.items()
            if p in form.periods
        ]
        wanted = [(values - form.mean) / form.scale, *(wave(a) for a in angle for wave in (np.sin, np.cos))]
        np.testing.assert_allclose(found, np.stack(wanted, axis=1))
        assert found.shape[1] == form.width == len(form.names("x"))
        mean = np.average(values, weights=weight)
        np.testing.assert_allclose(
            [form.mean, form.scale], [mean, np.sqrt(np.average((values - mean) ** 2, weights=weight))]
        )
    recorded(
        "names",
        [
            forms[0].names("born"),
            forms[0].describe(),
            forms[3].describe(),
            dates.DateForm(0, -1.5, 2.5).describe(),
        ],
    )
    assert dates.elapsed_pairs([1, 4, 6, 7]) == [(1, 4), (1, 6), (1, 7), (4, 6), (4, 7), (6, 7)]
    assert dates.elapsed_pairs([1, 4, 6, 7, 9]) == [(1, 4), (4, 6), (6, 7), (7, 9)]
    month = np.array(
        [np.datetime64("2020-01-31") + 0]
        + [np.datetime64(f"2020-{m:02d}-{d}") for m, d in ((2, 29), (3, 31), (4, 30), (6, 30), (12, 31))]
    )
    month = (month - np.datetime64(0, "D")) / DAY
    for name, values in {
        "a year": np.arange(334.0 + 1),
        "less": np.arange(334.0),
        "a week": np.arange(8.0),
        "hours": np.arange(0, 3, 0.25),
        "yearly": np.arange(5) * 365.0,
        "months": month,
        "one": np.array([3.0]),
        "weeks": np.arange(60) * 7.0,
        "none": np.empty(0),
        "first of months": np.array([0.0, 31, 59, 90, 365, 396]),
        "two positions": np.array([0.0, 365.0, 183.0]),
    }.items():
        recorded(name, dates._periods(values))
    assert dates._moments(np.array([1.0, np.nan, 3.0]), np.array([1.0, 1.0, 0.0])) == (1.0, 1.0)
    assert dates._moments(np.array([np.nan]), np.ones(1)) == (0.0, 1.0)
    assert dates.date_forms({}) == {}
    same = dates.date_forms({0: days, 1: days + 3.1})
    assert same[1].since == ()


def test_dates_as_they_are_given(recorded):
    utc, offset = datetime.UTC, datetime.timezone(datetime.timedelta(hours=2, minutes=30))
    cells = {
        "days": np.array(["2020-01-02", "NaT"], dtype="datetime64[D]"),
        "seconds": np.array(["2020-01-02T12:00:00", "1969-12-31"], dtype="datetime64[s]"),
        "durations": np.array([36, "NaT"], dtype="timedelta64[h]"),
        "objects": np.array(
            [
                datetime.date(2020, 1, 2),
                None,
                datetime.datetime(1960, 5, 6, 18),
                np.datetime64("2020-01-02T06"),
            ],
            dtype=object,
        ),
        "spans": np.array([datetime.timedelta(days=1, hours=6), None, np.timedelta64(12, "h")], dtype=object),
        "periods": np.array([pd.Period("2020-03"), None], dtype=object),
        "zoned": np.array([datetime.datetime(2020, 1, 2, 3, tzinfo=offset), None], dtype=object),
        "zones": np.array(
            [datetime.datetime(2020, 1, 2, 3, tzinfo=offset), datetime.datetime(2020, 1, 2, tzinfo=utc)],
            dtype=object,
        ),
    }
    recorded("read", {name: list(dates.read_dates(values, "x", "Z")) for name, values in cells.items()})
    for other in (
        np.array([1.0]),
        np.array(["2020-01-02"], dtype=object),
        np.array([None], dtype=object),
        np.array(["a"]),
    ):
        assert dates.read_dates(other, "x") is None
    with pytest.raises(
        InputError, match=r"^The cell must hold dates only, got 'a' beside datetime\.timedelta"
    ):
        dates.read_dates(np.array([datetime.timedelta(1), "a"], dtype=object), "the cell")
    with pytest.raises(InputError, match=r"got datetime\.date.* beside datetime\.timedelta"):
        dates.read_dates(np.array([datetime.timedelta(1), datetime.date(2020, 1, 1)], dtype=object), "x")
    summer = (
        np.array(["2020-01-02T12:00", "2020-07-02T12:00"], dtype="datetime64[m]") - np.datetime64(0, "D")
    ) / DAY
    given = np.r_[summer, np.nan]
    for zone, hours in (
        ("Europe/Oslo", [1, 2]),
        ("+05:30", [5.5, 5.5]),
        ("UTC-0330", [-3.5, -3.5]),
        ("GMT+01:00:00", [1, 1]),
        ("UTC", [0, 0]),
        ("", [0, 0]),
        ("No/Where", [0, 0]),
    ):
        np.testing.assert_allclose(dates.at_zone(given, zone)[:2] - summer, np.array(hours) / 24.0, atol=1e-9)
    assert given[0] == summer[0]
    np.testing.assert_array_equal(dates.at_zone(np.array([-1e9, 1e9]), "Europe/Oslo"), [-1e9, 1e9])


def test_levels_of_tables(recorded):
    n = 30
    rng = np.random.default_rng(0)
    given = pd.DataFrame(
        {
            "patient_id": rng.permutation(n) * 7,
            "Unnamed: 0": np.arange(n) + 3,
            "sample no": rng.permutation(n) + 1.0,
            "dose no": np.arange(n) ** 2,
            "code": [f"GSM{k + 100}" for k in range(n)],
            "name": [f"model {k % 26} x" for k in range(n)],
            "date": [f"2020-01-{k % 28 + 1:02d}" for k in range(n)],
            "city": [f"c{k % 4}" for k in range(n)],
            "hash": [f"{k * 7919 + 2**33:09x}" for k in range(n)],
            "x": rng.normal(size=n),
            "SampleID": [f"{w} of many" for w in rng.permutation(n)],
            "index": np.r_[np.arange(n - 1), 99],
        }
    )
    table = TableEncoder(missing=True).fit_transform(given)
    found = levels.levels_of(table)
    recorded("levels", [found.identifiers, found.texts, found.dates, found.describe(table)])
    plain = levels.levels_of(table, [5, 0], compares=False)
    recorded("less", [plain.identifiers, plain.texts])
    assert levels.levels_of(TableEncoder().fit_transform(given[["patient_id"]])).identifiers == {}
    twice = TableEncoder(missing=True).fit_transform(pd.concat([given, given]))
    assert levels.levels_of(twice).identifiers == found.identifiers
    assert found.of_view([0, 1]).identifiers == {j: why for j, why in found.identifiers.items() if j > 1}
    assert found.of_view([0, 9]) is found
    names = [
        "id",
        "IDs",
        "patient_id",
        "PatientID",
        "sampleId",
        "grid",
        "ID_x",
        "accession",
        "Barcode",
        "",
        "row.names",
        "Row_Name",
        "unnamed: 0",
        "idx",
        "no",
        "DoseNo",
        "nr",
        "sample number",
        "row",
        "number_a",
        "piano",
    ]
    recorded("names", {name: levels.is_called(name) for name in names})

    def counts(*numbers):
        return np.array(numbers)

    assert levels.mostly_rare(counts(*[2] * 21))
    assert not levels.mostly_rare(counts(*[2] * 20))
    assert levels.mostly_rare(counts(*[1] * 21, 21))
    assert not levels.mostly_rare(counts(*[1] * 21, 22))
    assert not levels.mostly_rare(counts(*[3] * 30))
    texts = {
        "codes": [f"P{k:03d}" for k in range(20)],
        "two beginnings": [f"{'PQ'[k % 2]}{k}" for k in range(20)],
        "one other": [f"P{k}" for k in range(18)] + ["x", "y"],
        "two others": [f"P{k}" for k in range(17)] + ["x", "y", "z"],
        "words": [f"{chr(97 + k)} word" for k in range(20)],
        "repeats": [f"P{k % 17}" for k in range(20)],
        "uuid": [f"{k:08x}-0000-4000-8000-{k:012x}" for k in range(20)],
        "decimals": [f"{k + 10**8}" for k in range(20)],
        "hex": [f"{k * 123457 + 16**7 * 11:08x}" for k in range(20)],
        "dates": [f"2020-02-{k + 1:02d}" for k in range(20)],
    }
    recorded(
        "texts",
        {name: [levels.identifier(own, column, 20) for column in ("x", "id")] for name, own in texts.items()},
    )
    numbers = {
        "counts": np.arange(20.0) + 5,
        "gaps": np.arange(20.0) * 2,
        "halves": np.arange(20) / 2,
        "repeats": np.arange(20.0) // 2,
    }
    recorded(
        "numbers",
        {
            name: [levels.identifier(own, column, 20) for column in ("x", "id", "no", "row")]
            for name, own in numbers.items()
        },
    )
    assert levels.identifier(np.arange(9.0), "id", 9) == ""
    assert levels.identifier(np.arange(18.0), "id", 20) == "whole numbers, 18 distinct ones in 20 rows"
    assert levels.identifier(np.arange(17.0), "id", 20) == ""
    assert levels._distinct(
        np.array([[0.0, np.nan], [-0.0, np.nan], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    ).tolist() == [0, 2, 3]


def test_selections():
    for given, wanted in (
        (None, None),
        ("a", ("a",)),
        (3, (3,)),
        (np.int64(3), (3,)),
        (["a", 2], ("a", 2)),
        (np.array([1, 0]), (1, 0)),
        ([True, False], ColumnMask((True, False))),
        (np.array([False, True]), ColumnMask((False, True))),
        (slice("a", "c"), ColumnSlice("a", "c")),
        (slice(None, 4, 2), ColumnSlice(None, 4, 2)),
        (range(2), (0, 1)),
        (ViewColumns("v"), ViewColumns("v")),
        (ColumnMask((True,)), ColumnMask((True,))),
    ):
        assert freeze_columns(given) == wanted
        assert freeze_columns(freeze_columns(given)) == wanted
    assert repr(ColumnSlice("a", None, 2)) == "slice('a', None, 2)"
    assert repr(ColumnMask((True, False))) == "[True, False]"
    for given, words in (
        (
            slice("a", "b", "c"),
            r"The step of a column slice must be an integer, got 'c'\. Use slice\('a', 'c'\)",
        ),
        ([], r"must hold at least one column, got none\. Leave it out to use all columns"),
        (
            2.5,
            r"Columns are selected by names, integers, a slice or a boolean mask, got 2\.5 \(float\)\. Pass for",
        ),
        (True, r"got True \(bool\)"),
        ([True, 1], r"got True \(bool\)"),
        ([1.0], r"got 1\.0 \(float\)"),
        ({"a": 1}.items, "builtin"),
    ):
        with pytest.raises(InputError, match=words):
            freeze_columns(given)
    assert selection.column_name(2, None) == "column 2"
    assert selection.column_name(1, ["a", "b"]) == "column 'b'"
    assert selection.listing(list("abc")) == "'a', 'b', 'c'"
    assert selection.listing(list("abcd"), 2) == "'a', 'b', ... (4 in all)"
    assert selection.listing(list("ab"), 2) == "'a', 'b'"
    assert selection.bullets(list("abcde")) == "- a\n- b\n- c\n- d\n- e\n"
    assert selection.bullets(list("abcdef")) == "- a\n- b\n- c\n- d\n- e\n- ...\n"


def test_tables_by_columns(recorded):
    table = Table(
        [[0.5, 0, 7, 3], [1.5, 1, np.nan, 4], [2.5, -1, 9, 5]], names=tuple("abcd"), levels=(0, 2, 0, -1)
    )
    for columns_, wanted in (
        (None, [0, 1, 2, 3]),
        ("c", [2]),
        (-1, [3]),
        (["d", 0], [3, 0]),
        (slice("b", "c"), [1, 2]),
        (slice(1, 3), [1, 2]),
        (slice("b", None), [1, 2, 3]),
        (slice(None, "b"), [0, 1]),
        (slice(None, None, 2), [0, 2]),
        ([True, False, False, True], [0, 3]),
        (ViewColumns("any", (1,)), [1]),
    ):
        assert table.resolve(columns_).tolist() == wanted
        part = table.select(columns_)
        np.testing.assert_array_equal(part.values, table.values[:, wanted])
        assert part.names == tuple("abcd"[j] for j in wanted)
        assert part.levels == tuple((0, 2, 0, -1)[j] for j in wanted)
    for columns_, words in (
        ("z", r"Unknown column 'z'\..*Known: 'a', 'b', 'c', 'd'\."),
        (
            4,
            r"Column 4 is out of range: the table has 4 columns, numbered from 0\. Use integers from -4 to 3",
        ),
        (-5, "Column -5 is out of range"),
        ([0, "a"], r"A column can be selected once, got 'a' twice\. Drop the repeats"),
        (
            [True],
            r"A column mask must have one entry per column \(4\), got 1\. Pass names or indices instead",
        ),
        (slice(3, 3), r"has none of the 4 columns\. Widen it"),
        ([False] * 4, "has none of the 4 columns"),
    ):
        with pytest.raises(InputError, match=words):
            table.resolve(columns_)
    with pytest.raises(
        InputError,
        match=r"Column 'a' was selected by name, but these columns have no names\. Use integers from 0 to 1",
    ):
        Table([[1.0, 2.0]]).resolve("a")
    np.testing.assert_array_equal(table.take(), [[0.5, 1, 0, 7], [1.5, 0, 1, np.nan], [2.5, 0, 0, 9]])
    assert table.owners.tolist() == [0, 1, 1, 2]
    assert (table.n_rows, table.n_columns, table.n_expanded_columns) == (3, 4, 4)
    assert table.missing().tolist() == [0, 0, 1, 0]
    assert Table([[np.nan, np.nan], [1.0, np.nan]]).empty_rows().tolist() == [True, False]
    assert Table([[1.0, 2.0]]).column_names == ("x0", "x1")
    marks = np.zeros((3, 4), bool)
    marks[1, 2] = marks[0, 0] = True
    marked = table.with_marks(np.nan_to_num(table.values), marks, np.array([False, False, True, False]))
    np.testing.assert_array_equal(marked.take()[:, -1], [0, 1, 0])
    assert marked.n_expanded_columns == 5
    assert marked.owners.tolist() == [0, 1, 1, 2, 2]
    assert marked.select(["c", "a"]).marked.tolist() == [True, False]
    np.testing.assert_array_equal(marked.rows([1, 2]).marks, marks[1:])
    np.testing.assert_array_equal(marked.rows([1]).take(), [[1.5, 0, 1, 0, 1]])
    assert not table.marks.any()
    assert table.marks.shape == (3, 4)
    np.testing.assert_allclose(
        table.scaled(np.arange(4.0), np.full(4, 2.0)).values, (table.values - np.arange(4)) / 2
    )
    np.testing.assert_array_equal(table.per_row(2.0), [2.0] * 3)
    np.testing.assert_array_equal(table.dense_columns(np.array([3, 0])), table.values[:, [3, 0]])
    content = table.content()
    assert np.isfinite(content).all()
    assert np.isnan(table.values).any()
    assert table.like(np.ones((1, 4))).names == table.names
    assert table.joined() is table
    for options, words in (
        ({"names": ("a",)}, r"`names` must have one entry per column \(2\), got 1|column"),
        (
            {"levels": (0,)},
            r"`levels` must have one entry per column \(2\), got 1\. Leave it out or complete it",
        ),
        ({"names": ("a", "a")}, "Column names must be unique, got 'a' more than once"),
        ({"levels": (0, -3)}, "levels"),
        ({"names": 3}, "names"),
    ):
        with pytest.raises(InputError, match=words):
            Table([[1.0, 2.0]], **options)
    with pytest.raises(
        InputError, match=r"This kernel reads numbers, got texts or objects in 'd'\. Use kernels\.CharNGrams"
    ):
        table.select("d").take()
    assert pickle.loads(pickle.dumps(table)).names == table.names


def test_sparse_tables():
    X = np.array([[0.0, 2, 0], [np.nan, 0, 0], [0, 0, 0], [1, np.nan, np.nan]])
    table = SparseTable(sparse.coo_array(X), names=list("abc"))
    assert table.names == tuple("abc")
    assert table.levels == (0, 0, 0)
    assert table.missing().tolist() == [1, 1, 1]
    assert table.empty_rows().tolist() == [False, True, False, False]
    assert SparseTable(sparse.csr_array(np.array([[np.nan, 0, 0]]))).missing().tolist() == [1, 0, 0]
    np.testing.assert_array_equal(table.select(["c", "a"]).values.toarray(), X[:, [2, 0]])
    np.testing.assert_array_equal(table.select(slice(1, 3)).values.toarray(), X[:, 1:])
    np.testing.assert_array_equal(table.select([0]).values.toarray(), X[:, :1])
    assert table.arrays()[0] is table.data
    assert np.isfinite(table.content().data).all()
    assert np.isnan(table.data).any()
    plain = SparseTable(sparse.csr_array(np.eye(2)))
    assert plain.content() is plain.values
    assert tables.as_sparse(plain) is plain
    made = tables.as_sparse(Table(np.eye(2), names=("a", "b")))
    assert isinstance(made, SparseTable)
    assert made.names == ("a", "b")
    np.testing.assert_array_equal(table.dense_columns(np.array([2, 1])), X[:, [2, 1]])
    with pytest.raises(
        InputError, match=r"SparseTable is made of a SciPy sparse array, got something else\. Use Table"
    ):
        SparseTable(X)
    assert isinstance(table.rows([0, 2]), SparseTable)


class Thing:
    """An object whose `repr` names its place in memory."""

    def __init__(self, a):
        self.a = a


def test_cells_of_columns(recorded):
    values = [
        "a",
        b"b",
        None,
        (1, 2),
        {"x", "y"},
        np.arange(3),
        sparse.csr_array(np.eye(2)),
        [1, "z"],
        2.5,
        "a",
    ]
    cells = Cells(values)
    assert len(cells) == cells.n_column == 10
    part = cells.rows(np.array([9, 1]))
    assert part.values.tolist() == ["a", "b"]
    assert part.rows(slice(1, 2)).positions.tolist() == [1]
    assert part.shares(cells)
    assert not part.shares(Cells(values))
    made = []

    def count(column):
        made.append(len(column))
        return np.arange(len(column)), ["w"]

    assert part.counted("k", count)[0].tolist() == [9, 1]
    assert cells.counted("k", count)[0].tolist() == list(range(10))
    assert made == [10]
    assert cells.rows([0, 1]).are(str)
    assert not cells.are(str)
    assert cells.are(object)
    digests = cells.digests()
    assert digests[0] == digests[9]
    assert len(set(digests)) == 9
    recorded("digests", [int(number) for number in np.delete(digests, 6)])
    assert pickle.loads(pickle.dumps(part)).values.tolist() == ["a", "b"]
    same = Cells(
        [frozenset("abc"), {"c", "b", "a"}, np.arange(3.0), np.arange(3), [np.arange(2)], (np.arange(2),)]
    )
    found = same.digests()
    assert found[0] == found[1]
    assert found[2] != found[3]
    assert found[4] == found[5]

    things = Cells([Thing(1), Thing(2), Thing(1)]).digests()
    assert things[0] == things[2] != things[1]
    long, short = "some words in one text ", ["yes", "no", "maybe"]
    for texts, wanted in (
        ([f"{long}{k}" for k in range(6)], True),
        (short * 4, False),
        ([f"a b {k}" for k in range(6)], True),
        ([f"a {k}" for k in range(6)], False),
        ([long] * 6, False),
        ([f"{long}{k % 2}" for k in range(6)], False),
        ([f"{long}{k // 2}" for k in range(8)], True),
        ([f"{'x' * 18}{k}" for k in range(6)], False),
        ([f"{'x' * 19}{k}" for k in range(6)], True),
        ([long + "a", 3, long + "b", long + "c"], False),
        ([tables.Words("a"), 3], True),
    ):
        assert Cells(texts).is_long_text is wanted, texts
    found = tables.as_texts([1.0, 2.5, "x", None, b"y", 3, np.float32(4)])
    assert found.tolist() == ["1", "2.5", "x", None, "y", "3", "4"]
    assert all(isinstance(one, tables.Words) for one in found if one is not None)
    series = tables.as_texts(pd.Series([1.0, 2.0], index=[5, 6], name="n"))
    assert (series.name, list(series.index), series.dtype, list(series)) == ("n", [5, 6], object, ["1", "2"])


def test_content_of_rows_of_kernels(recorded):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(7, 2)).round(2)
    A[4] = A[1]
    K = np.stack([A @ A.T, np.exp(-np.square(A[:, None] - A[None]).sum(axis=2))], axis=-1)
    found = kernel_row_content(K)
    assert (found[4] == found[1]).all()
    assert len({tuple(row) for row in found.tolist()}) == 6
    order = rng.permutation(7)
    np.testing.assert_array_equal(kernel_row_content(K[np.ix_(order, order)]), found[order])
    assert (found[:, 1] == 0).all()
    # two pairs of rows with the same sets of values, told apart by the rows that share them or not at all
    cycle = np.array([[0.0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]])
    same = kernel_row_content(cycle[:, :, None])
    assert len(set(same[:, 0])) == 1
    assert same[:, 1].tolist() == [0, 1, 2, 3]
    K = np.zeros((4, 4))
    K[0, 1] = K[1, 0] = 1.0
    K[2, 3] = K[3, 2] = 1.0
    K[0, 0], K[1, 1], K[2, 2], K[3, 3] = 5, 6, 5, 7
    told = kernel_row_content(K[:, :, None])
    assert len(set(told[:, 0])) == 4
    assert (told[:, 1] == 0).all()
    assert (
        kernel_row_content(np.array([[-0.0, 1.0]])[:, :, None]).tolist()
        == kernel_row_content(np.array([[0.0, 1.0]])[:, :, None]).tolist()
    )
    recorded("cycle", same[0, 0])
    wide = kernel_row_content(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])[:, :, None])
    assert wide[:, 1].tolist() == [0, 1]


def test_precomputed_views():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 2))
    K = A @ A.T
    view = precomputed(K)
    assert (view.shape, len(view), view.is_square, repr(view[1:3])) == (
        (6, 6),
        6,
        True,
        "precomputed(K), 2 of 6 rows",
    )
    assert not precomputed(K[:2]).is_square
    for wrong in (K[0], K[:, :0], np.stack([K, K])):
        with pytest.raises(
            InputError,
            match=r"`K` must be a matrix of kernel values with at least one row and one column, got",
        ):
            precomputed(wrong)
    encoder = GramEncoder()
    table = encoder.fit_transform(view[[4, 0, 2]])
    rows = [4, 0, 2]
    np.testing.assert_array_equal(table.matrix, K[np.ix_(rows, rows)])
    np.testing.assert_array_equal(table.diagonal, K.diagonal()[rows])
    assert table.index.tolist() == [0, 1, 2]
    assert (encoder.columns_.tolist(), encoder.n_columns_) == (rows, 6)
    known = encoder.transform(view[[1, 4]])
    np.testing.assert_array_equal(known.matrix, K[np.ix_([1, 4], rows)])
    np.testing.assert_array_equal(known.diagonal, K.diagonal()[[1, 4]])
    assert known.index.tolist() == [-1, -1]
    wide = encoder.transform(precomputed(K[1:3])[[1]])
    np.testing.assert_array_equal(wide.matrix, K[[2]][:, rows])
    assert np.isnan(wide.diagonal).all()
    narrow = encoder.transform(precomputed(K[:, rows])[[5, 3]])
    np.testing.assert_array_equal(narrow.matrix, K[np.ix_([5, 3], rows)])
    np.testing.assert_array_equal(encoder.transform(K[:2, rows]).matrix, K[:2, rows])
    # as many new rows as there are training rows: no values of the matrix of fit
    square = encoder.transform(precomputed(K[:3, rows]))
    np.testing.assert_array_equal(square.matrix, K[:3, rows])
    assert np.isnan(square.diagonal).all()
    for given, words in (
        (
            K[:2, :4],
            r"must have a column for each of the 3 training rows, got 4\. Pass K\(X_new, X_train\), or rows of",
        ),
        (view[:0], r"Found array with 0 sample\(s\) \(shape=\(0, 6\)\) while a minimum of 1 is required"),
        (K[:2, rows] * np.nan, "`K`"),
    ):
        with pytest.raises(InputError, match=words):
            encoder.transform(given)
    for given, words in (
        (
            precomputed(K[:2]),
            r"A precomputed view must be square for training, got shape \(2, 6\)\. Pass K\(X_train, X_train\)",
        ),
        (
            precomputed(K + np.triu(np.ones((6, 6)), 1)),
            r"must be symmetric, got max \|K - K'\| = 1\. Use \(K \+ K\.T\) / 2, or",
        ),
        (precomputed(K - np.triu(np.ones((6, 6)), 1)), r"must be symmetric, got max \|K - K'\| = 1\."),
        (precomputed(np.full((2, 2), np.inf)), "Kernels must be finite, and kernel 0 holds NaN or infinity"),
        (view[:0], "0 sample"),
    ):
        with pytest.raises(InputError, match=words), np.errstate(invalid="ignore"):
            GramEncoder().fit_transform(given)
    part = K.copy()
    part[3], part[:, 3] = np.nan, np.nan
    lacking = GramEncoder(missing=True)
    table = lacking.fit_transform(precomputed(part))
    assert table.empty_rows().tolist() == [False] * 3 + [True] + [False] * 2
    assert lacking.there_.tolist() == [True] * 3 + [False] + [True] * 2
    assert lacking.empty(2).empty_rows().all()
    assert lacking.empty(2).matrix.shape == (2, 6)
    assert lacking.transform(precomputed(np.full((1, 6), np.nan))).empty_rows().all()
    some = part[[0]].copy()
    np.testing.assert_array_equal(lacking.transform(precomputed(some)).matrix, some)
    some[0, 1] = np.nan
    with pytest.raises(InputError, match="`K`"):
        lacking.transform(precomputed(some))
    assert GramTable(K, np.arange(6), K.diagonal()).rows([2, 1]).index.tolist() == [2, 1]
    gram = GramTable(K, np.arange(6), K.diagonal())
    assert gram.select(None) is gram
    assert gram.arrays()[0] is K
    assert gram.content().shape == (6, 2)
    for refused in (lambda: gram.take(), lambda: gram.select([0]), lambda: gram.joined()):
        with pytest.raises(
            InputError, match=r"A precomputed view has no columns, only kernel values\. Put kernels\.Precomp"
        ):
            refused()


def views():
    A = np.arange(12.0).reshape(4, 3)
    own = pd.DataFrame({"age": [1.0, 2, 3, 4], "city": ["x", "y", "x", None]})
    K = A @ A.T
    return {"rna": A, "clinical": own, "counts": sparse.csr_array(A * (A > 5)), "kernel": precomputed(K)}


def test_views_side_by_side(recorded):
    encoder = ViewsEncoder("the model", missing=True)
    table = encoder.fit_transform(views())
    recorded("fitted", all_of(table))
    assert table.names == (
        "rna: x0",
        "rna: x1",
        "rna: x2",
        "clinical: age",
        "clinical: city",
        "counts: x0",
        "counts: x1",
        "counts: x2",
    )
    assert table.levels == (0, 0, 0, 0, 2, 0, 0, 0)
    assert table.places == {
        "rna": slice(0, 3),
        "clinical": slice(3, 5),
        "counts": slice(5, 8),
        "kernel": slice(8, 8),
    }
    assert (table.n_rows, table.n_columns) == (4, 8)
    assert table.missing().tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    assert table.resolve(ViewColumns("clinical")).tolist() == [3, 4]
    assert table.resolve(ViewColumns("counts", (-1, 0))).tolist() == [7, 5]
    assert table.resolve(["clinical: city", 0]).tolist() == [4, 0]
    assert table.own("clinical", [2, 3, 4, 5]) == [0, 1]
    with pytest.raises(InputError, match=r"^View 'clinical': Unknown column 'bmi'"):
        table.resolve(ViewColumns("clinical", ("bmi",)))
    with pytest.raises(InputError, match="Unknown view 'dna'"):
        table.block("dna")
    with pytest.raises(
        InputError,
        match=r"A precomputed view has no columns, and 'kernel' is one\. Put the kernel on a view that",
    ):
        table.joined()
    two = BlockTable({"a": table.blocks["rna"], "b": table.blocks["clinical"]})
    joined = two.joined()
    np.testing.assert_array_equal(joined.values, two.values)
    assert joined.names == two.names
    np.testing.assert_array_equal(
        two.take(), np.c_[table.blocks["rna"].take(), table.blocks["clinical"].take()]
    )
    np.testing.assert_array_equal(two.dense_columns(np.array([4, 0])), two.values[:, [4, 0]])
    np.testing.assert_array_equal(
        two.scaled(np.arange(5.0), np.full(5, 2.0)).values, (two.values - np.arange(5)) / 2
    )
    np.testing.assert_array_equal(two.rows([2, 0]).values, two.values[[2, 0]])
    np.testing.assert_array_equal(two.like(np.ones((1, 5))).blocks["b"].values, np.ones((1, 2)))
    assert two.select(None) is two
    assert two.select(ViewColumns("b", ("city",))).names == ("city",)
    np.testing.assert_array_equal(two.select([4, 1]).values, two.values[:, [4, 1]])
    assert len(two.arrays()) == 2
    scaled = table.scaled(np.zeros(8), np.full(8, 2.0))
    assert scaled.blocks["counts"] is table.blocks["counts"]
    assert scaled.blocks["kernel"] is table.blocks["kernel"]
    marks = np.zeros((4, 2), bool)
    marks[3, 1] = True
    imputed = BlockTable(
        {
            "a": table.blocks["rna"],
            "b": table.blocks["clinical"].with_marks(np.ones((4, 2)), marks, np.array([False, True])),
        }
    )
    assert imputed.marked.tolist() == [False] * 4 + [True]
    np.testing.assert_array_equal(imputed.joined().take()[:, -1], [0, 0, 0, 1])
    rows = BlockTable({"a": table.blocks["rna"], "c": table.blocks["counts"]})
    assert isinstance(rows.joined(), SparseTable)
    own = views()
    new = {
        "clinical": own["clinical"][:2],
        "rna": own["rna"][:2],
        "kernel": own["kernel"][:2],
        "counts": None,
    }
    found = encoder.transform(new)
    assert list(found.blocks) == ["rna", "clinical", "counts", "kernel"]
    assert found.blocks["counts"].empty_rows().all()
    recorded("new", all_of(found))
    strict = ViewsEncoder("the model")
    strict.fit({"a": np.eye(2), "b": np.eye(2)})
    for given, words in (
        (
            np.eye(2),
            r"the model was fitted on the views 'a', 'b', got one table\. Pass a dict with the same views",
        ),
        (
            {"a": np.eye(2)},
            r"X must have the views of fit, 'a', 'b', but lacks 'b'\. Pass all of them and no others\.",
        ),
        ({"a": np.eye(2), "b": np.eye(2), "d": np.eye(2)}, r"but has the unknown 'd'\..* Pass all of them"),
        ({"a": np.eye(2), "d": np.eye(2)}, "but lacks 'b' and has the unknown 'd'"),
        (
            {"a": np.eye(2), "b": np.ones((2, 3))},
            r"^View 'b': X has 3 features, but the model is expecting 2",
        ),
    ):
        with pytest.raises(InputError, match=words):
            strict.transform(given)
    with pytest.raises(InputError, match=r"or None for a view that these rows lack\.$"):
        encoder.transform({"rna": own["rna"]})
    with pytest.raises(TypeError, match=r"^View 'b': Every cell"):
        strict.fit({"a": np.eye(2), "b": [[1, {2}], [1, "x"]]})
    dated = {"a": frame()[["born", "seen", "note"]], "b": frame()[["zoned", "born", "age"]]}
    several = ViewsEncoder(missing=True)
    table = several.fit_transform(dated)
    recorded("dates", [None if one is None else [one.place, one.since] for one in table.dates])
    declared = several.declare(table, [2])
    assert declared.levels == (-2, -2, -1, -2, -2, 0)
    assert [one is None for one in declared.cells] == [True, True, False, True, True, True]
    at = several.date(declared, np.arange(7), None)
    assert at.dates[0].mean == pytest.approx(table.values[:7, 0].mean())
    left = several.group(at, {"a": levels.Levels({2: "x"}, ()), "b": levels.Levels({}, ())})
    assert left.levels[2] == -1
    assert left.cells is None
    assert several.encoders_["a"].left_out_ == (2,)


def test_views_as_one_object():
    given = Views(views())
    listed = "'rna' (3 columns), 'clinical' (2 columns), 'counts' (3 sparse columns), 'kernel' (precomputed)"
    assert repr(given) == f"Views of 4 rows: {listed}"
    assert (given.shape, len(given), given.names) == ((4, 8), 4, ("rna", "clinical", "counts", "kernel"))
    for key, rows in (
        ([2, 0], [2, 0]),
        (slice(1, 3), [1, 2]),
        (np.array([True, False, False, True]), [0, 3]),
        ((slice(0, 2), slice(None)), [0, 1]),
        (([1], ...), [1]),
        (2, [2]),
        ([], []),
    ):
        part = given[key]
        np.testing.assert_array_equal(part["rna"], given["rna"][rows])
        assert part["clinical"]["age"].tolist() == [given["clinical"]["age"][k] for k in rows]
        assert part["kernel"].rows.tolist() == rows
    for key, words in (
        ("dna", "Unknown view 'dna'"),
        ((0, 1), "Views are indexed by rows, or by the name of a view"),
        (None, r"a mask or a slice, got None\. Pass"),
        (1.5, "got 1.5"),
        ([1.5], r"got an array of shape \(1,\) and type float64\. Pass one integer for each row"),
        ([[1]], r"shape \(1, 1\)"),
    ):
        with pytest.raises(InputError, match=words):
            given[key]
    with pytest.raises(
        InputError, match=r"Views are several tables, and this needs one array\. Pass one of them, such as"
    ):
        np.asarray(given)
    assert Views([np.eye(2), np.ones((2, 1))]).names == ("view0", "view1")
    assert repr(Views([np.ones((2, 1))])) == "Views of 2 rows: 'view0' (1 column)"
    assert Views(given).views is not given.views
    assert Views({"a": ["x", None, "y"]})["a"].tolist() == [["x"], [None], ["y"]]
    assert Views({"a": [{1}, {2}]})["a"].shape == (2, 1)
    assert Views({"a": np.array(["x", "y"])})["a"].dtype == object
    assert Views({"a": pd.Series([1.0, 2.0], name="q")})["a"].columns.tolist() == ["q"]
    assert Views({"a": [["x", 1], ["y", 2]]})["a"].tolist() == [["x", 1], ["y", 2]]
    assert isinstance(Views({"a": sparse.coo_array(np.eye(2))})["a"], sparse.csr_array)
    for wrong, words in (
        (
            {},
            r"X of several views is a dict from names to tables, or a list of tables, with at least one; got \{\}",
        ),
        (3, "with at least one; got 3"),
        ({1: np.eye(2)}, r"Views are named by texts, got 1\. Rename it, for example 'rna'"),
        ({"": np.eye(2)}, "Views are named by texts, got ''"),
        (
            {"a": np.eye(2), "b": np.eye(3)},
            r"All views must have equally many rows, got 'a' 2, 'b' 3\. Pass the same rows",
        ),
        (
            {"a": [[1], [1, 2]]},
            r"View 'a' must be a table of rows and columns, got rows of different lengths\. Pad or drop",
        ),
        ({"a": np.ones(2)}, r"got an array of shape \(2,\)\. Reshape one column with x\.reshape\(-1, 1\)"),
        (
            {"a": np.ones((2, 2, 2))},
            r"got an array of shape \(2, 2, 2\)\. Reshape it to \(n_rows, n_columns\), or pass kernel",
        ),
        (
            {"a": {"b": 1}},
            r"View 'a' must be a table of rows and columns, got \{'b': 1\}\. Pass a two-dimensional array, a data",
        ),
    ):
        with pytest.raises(InputError, match=words):
            Views(wrong)
    with pytest.raises(InputError, match="rows"):
        Views({"a": np.eye(2)}, rows="some")
    for X, wanted in (
        (given, True),
        ({"a": 1}, True),
        ([np.eye(2)], True),
        ((np.eye(2), precomputed(np.eye(2))), True),
        ([], False),
        (np.eye(2), False),
        ([[1, 2]], False),
        ([np.ones(2)], False),
        (sparse.dok_array(np.eye(2)), False),
        (frame(), False),
        (3, False),
    ):
        assert holds_views(X) is wanted
    assert by_rows(given) is given
    assert isinstance(by_rows({"a": np.eye(2)}), Views)
    assert isinstance(by_rows(sparse.coo_array(np.eye(2))), sparse.csr_array)
    assert by_rows((1, 2)) == [1, 2]
    assert take_rows(["a", "b", "c"], np.array([2, 0])) == ["c", "a"]
    assert take_rows(frame(), np.array([3, 1])).index.tolist() == [3, 1]


def test_views_joined_by_index():
    a = pd.DataFrame({"x": [1.0, 2, 3]}, index=["p", "q", "r"])
    b = pd.DataFrame({"y": [30.0, 10, 20]}, index=["r", "p", "q"])
    assert Views({"a": a, "b": b})["b"]["y"].tolist() == [10, 20, 30]
    c = pd.DataFrame({"z": [5.0, 7]}, index=["q", "s"])
    every = Views({"a": a, "c": c, "d": pd.DataFrame({"w": [1.0, 2.0]}, index=["t", "s"])}, rows="all")
    assert every["a"].index.tolist() == ["p", "q", "r", "s", "t"]
    np.testing.assert_array_equal(every["c"]["z"], [np.nan, 5, np.nan, 7, np.nan])
    np.testing.assert_array_equal(every["d"]["w"], [np.nan, np.nan, np.nan, 2, 1])
    for given, options, words in (
        (
            {"a": a, "c": c},
            {},
            r"All views must have the same rows\. View 'c' lacks 2 of view 'a': 'p', 'r'\. Keep the rows",
        ),
        ({"a": a[:2], "b": b}, {}, r"View 'a' lacks 1 of view 'b': 'r'\. Keep"),
        (
            {"a": a, "b": b.set_axis(["p", "p", "q"])},
            {},
            r"but in view 'b' some rows share theirs\. Make it unique: 'p' is there",
        ),
        ({"a": a.set_axis(["p", "p", "q"]), "b": b}, {}, "but in view 'a' some rows share theirs"),
        (
            {"a": a, "b": b.set_axis(list("xyz"))},
            {"rows": "all"},
            r"View 'b' has no row in common with the views before it: no index of its 3 rows",
        ),
        (
            {"a": a, "b": b, "c": np.eye(3)},
            {},
            r"Views 'a' and 'b' have different rows, or another order, by index, and other views",
        ),
    ):
        with pytest.raises(InputError, match=words):
            Views(given, **options)
    counted = b.reset_index(drop=True)
    assert Views({"a": a, "b": counted, "c": np.eye(3)})["b"]["y"].tolist() == [30, 10, 20]
    assert container._only_counts(pd.RangeIndex(3))
    for other in (
        pd.RangeIndex(1, 4),
        pd.RangeIndex(0, 6, 2),
        pd.RangeIndex(3, name="n"),
        pd.Index([0, 1, 2]),
    ):
        assert not container._only_counts(other)
    annotated = SimpleNamespace(
        X=np.eye(3), obs_names=pd.Index(["r", "q", "p"]), var_names=["g1", "g2", "g3"]
    )
    few = SimpleNamespace(
        X=sparse.csr_array(np.diag([1.0, 2.0, 3.0])),
        obs_names=pd.Index(["q", "r", "s"]),
        var_names=["h1", "h2", "h3"],
    )
    whole = Views({"a": annotated, "b": few}, rows="all")
    assert whole["a"].columns.tolist() == ["g1", "g2", "g3"]
    np.testing.assert_array_equal(whole["a"].to_numpy()[:3], np.eye(3))
    np.testing.assert_array_equal(whole["b"].toarray(), [[0, 2, 0], [1, 0, 0], [np.nan, 0, 0], [0, 0, 3]])
    ordered = Views(SimpleNamespace(mod={"a": annotated}, obs_names=pd.Index(["p", "q", "r"])))
    np.testing.assert_array_equal(ordered["a"].to_numpy(), np.eye(3)[::-1])
    with pytest.raises(InputError, match=r"View 'a' lacks 1: 'z'\. Keep"):
        Views(SimpleNamespace(mod={"a": annotated}, obs_names=pd.Index(["p", "q", "r", "z"])))
    with pytest.raises(InputError, match=r"This annotated matrix has no X\. Set it to the required layer"):
        Views({"a": SimpleNamespace(X=None, obs_names=pd.Index([]), var_names=[])})
    assert container.is_annotated(annotated)
    assert container.is_annotated_views(SimpleNamespace(mod={}, obs_names=[]))
    assert not container.is_annotated_views(SimpleNamespace(mod=3, obs_names=[]))
    np.testing.assert_array_equal(
        container._rows_at(np.arange(4.0).reshape(2, 2), np.array([1, -1]), None), [[2, 3], [np.nan, np.nan]]
    )


def test_two_tables_at_once():
    X, Z = as_tables(np.eye(2), np.ones((1, 2)))
    assert (X.n_rows, Z.n_rows) == (2, 1)
    assert as_tables(np.eye(2))[1] is None
    own = Table(np.eye(2))
    assert as_tables(own, own) == (own, own)
    left, right = as_tables(sparse.csr_array(np.eye(2)), np.ones((1, 2)))
    assert isinstance(left, SparseTable)
    assert isinstance(right, SparseTable)
    left, right = as_tables([["a", 1], ["b", 2]], [["b", 3], ["c", 4]])
    assert right.values.tolist() == [[1, 3], [-1, 4]]
    assert left.levels == (2, 0)
    left, right = as_tables(
        {"a": np.eye(2), "k": precomputed(np.eye(3)[:2])}, {"a": np.ones((3, 2)), "k": precomputed(np.eye(3))}
    )
    assert left.blocks["k"].matrix.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert as_tables({"a": np.eye(2)})[0].n_rows == 2
    for pair, words in (
        (
            (np.eye(2), np.eye(3)),
            r"X and Z must have the same columns, got 2 columns and 3 columns\. Encode both with one",
        ),
        (
            (Table(np.eye(2), levels=(2, 0)), np.eye(2)),
            r"got 2 columns \(categorical with \[2\] levels\) and 2 columns",
        ),
    ):
        with pytest.raises(InputError, match=words):
            as_tables(*pair)
    with pytest.raises(InputError, match="missing"):
        as_table([[1.0, np.nan]])
    assert np.isnan(as_table([[1.0, np.nan]], missing=True).values[0, 1])
    assert np.isnan(as_tables({"a": np.eye(1)}, {"a": [[np.nan]]}, missing=True)[1].values).all()


def test_groups_of_columns(tmp_path):
    known = ["gene_a", "gene_b", "age", "bmi", "a*"]
    assert groups.expand_views({"g": ["gene_?"], "c": ["bmi", "a*", "age"]}, known) == {
        "g": ["gene_a", "gene_b"],
        "c": ["bmi", "a*", "age"],
    }
    assert groups.expand_views({"g": ["x", "gene_*"], "n": ["y"]}, known, partial=True) == {
        "g": ["gene_a", "gene_b"]
    }
    for given, options, words in (
        ({"v": ["gen_a"]}, {}, r"^View 'v': no column matches 'gen_a'\. Did you mean 'gene_a'\?"),
        (
            {"v": ["Q"]},
            {},
            r"^View 'v': no column matches 'Q'\. Columns: 'gene_a', 'gene_b', 'age', 'bmi', 'a\*'\.$",
        ),
        ({"v": ["Q"], "w": ["R"]}, {"partial": True}, "None of the 2 views names a column of the table"),
    ):
        with pytest.raises(InputError, match=words):
            groups.expand_views(given, known, **options)
    with pytest.raises(InputError, match=r"'c11', \.\.\.\.$"):
        groups.expand_views({"v": ["Q"]}, [f"c{k}" for k in range(13)])
    with pytest.raises(InputError, match=r"'c11'\.$"):
        groups.expand_views({"v": ["Q"]}, [f"c{k}" for k in range(12)])
    assert groups.check_views({"a": "x*", "b": ["y"]}, "f") == {"a": ["x*"], "b": ["y"]}
    for wrong in ([], 3, [1], [""], ("a",)):
        with pytest.raises(
            InputError,
            match=r"^f: view 'v' must be a name or pattern of columns, or a non-empty list of these, got",
        ):
            groups.check_views({"v": wrong}, "f")
    assert groups.parse_views("a\td\tx\ty\n\nb\t\tz\t\n", "f", gmt=True) == {"a": ["x", "y"], "b": ["z"]}
    for text, gmt, words in (
        ("a\td\tx\nb\tc\n", True, "separated by tabs; line 2 of f has fewer fields"),
        ("\n", True, "separated by tabs; f has fewer fields"),
        ("x = ", False, "f cannot be read as TOML: "),
        ("a = 1", False, r"f must hold a table \[views\], such as: rna = \['gene_\*'\]"),
        ("[views]\n", False, r"f must hold a table \[views\]"),
    ):
        with pytest.raises(InputError, match=words):
            groups.parse_views(text, "f", gmt=gmt)
    path = tmp_path / "v.GMT"
    path.write_bytes("a\td\tx\r\nb\td\ty\rc\td\tz".encode("utf-16"))
    assert groups.read_views(str(path)) == {"a": ["x"], "b": ["y"], "c": ["z"]}
    assert groups.decode("é".encode("utf-8-sig"), "f") == "é"
    for content, words in (
        (b"\xff\xfe\x00", "f cannot be read as text: .*Save it as UTF-8"),
        (b"a\0", "f holds zeros, as damaged files"),
    ):
        with pytest.raises(InputError, match=words):
            groups.decode(content, "f")
    with pytest.raises(InputError, match=r"There is no views file none\.toml\.$"):
        groups.read_views("none.toml")
    with pytest.raises(
        InputError, match=r"There is no views file auto\. Name the columns of each view, such as"
    ):
        groups.read_views("auto")
    with pytest.raises(InputError, match="cannot be read as text"):
        groups.read_views(str(tmp_path))
