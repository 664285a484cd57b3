"""Tables, their columns, groups and encodings, in every form that they come in.

Modules: `views`, `views/columns`, `views/encoding`, `views/groups`, `views/selection`, `views/tables`.
"""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from kernelweave._checks import InputError
from kernelweave.views import (
    BlockTable,
    Cells,
    ColumnMask,
    ColumnSlice,
    GramEncoder,
    GramTable,
    SparseTable,
    Table,
    TableEncoder,
    ViewColumns,
    Views,
    ViewsEncoder,
    as_table,
    as_tables,
    as_texts,
    freeze_columns,
    precomputed,
)
from kernelweave.views.container import by_rows, take_rows
from kernelweave.views.encoding import plain_frame
from kernelweave.views.groups import expand_views, read_views
from kernelweave.views.selection import bullets, column_name, listing

DATA = {
    "age": [30.0, 40.0, 50.0],
    "group": ["b", "a", "b"],
    "bmi": [20, 25, 30],
    "smoker": [True, False, True],
}
FRAMES = [pd.DataFrame, pl.DataFrame]


@pytest.fixture
def table():
    return Table(np.arange(12.0).reshape(3, 4), names=("a", "b", "c", "d"))


# --- Table ---


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("b", [1]),
        (2, [2]),
        (-1, [3]),
        (np.int64(1), [1]),
        (["c", "a"], [2, 0]),
        (["c", 0, -1], [2, 0, 3]),
        (("c",), [2]),
        (np.array([3, 1]), [3, 1]),
        (pd.Index(["d", "a"]), [3, 0]),
        (slice(1, 3), [1, 2]),
        (slice(None, None, 2), [0, 2]),
        (slice(-2, None), [2, 3]),
        (slice("b", "d"), [1, 2, 3]),
        (slice("c", None), [2, 3]),
        (slice(None, "b"), [0, 1]),
        (slice("b", 2), [1]),
        ([True, False, False, True], [0, 3]),
        (np.array([False, True, False, False]), [1]),
        (ColumnSlice("a", "b"), [0, 1]),
        (ColumnMask((False, False, True, False)), [2]),
    ],
)
def test_resolve(table, columns, expected):
    assert table.resolve(columns).tolist() == expected
    frozen = freeze_columns(columns)
    assert hash(frozen) == hash(freeze_columns(frozen))
    assert freeze_columns(frozen) == frozen
    assert table.resolve(frozen).tolist() == expected
    np.testing.assert_array_equal(table.select(columns).take(), table.values[:, expected])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("aa", r"Unknown column 'aa'\. Did you mean 'a'\? Known: 'a', 'b', 'c', 'd'\."),
        (["zzz"], r"Unknown column 'zzz'\. Known: 'a', 'b', 'c', 'd'\."),
        (4, r"Column 4 is out of range: the table has 4 columns.*from -4 to 3"),
        (-5, "Column -5 is out of range"),
        ([], "at least one column, got none"),
        (slice(2, 2), "has none of the 4 columns"),
        ([False] * 4, "has none of the 4 columns"),
        ([True, False], r"one entry per column \(4\), got 2"),
        (["a", 0], r"can be selected once, got 'a' twice"),
        (1.5, r"got 1\.5 \(float\)"),
        ([0, 1.0], r"got 1\.0 \(float\)"),
        (True, r"got True \(bool\)"),
        ([True, 2], r"got True \(bool\)"),
        (slice(0, 2, "a"), "step of a column slice must be an integer"),
        (slice(0.5, 2), r"got 0\.5 \(float\)"),
        (slice("nope", None), "Unknown column 'nope'"),
    ],
)
def test_resolve_errors(table, columns, message):
    with pytest.raises(InputError, match=message):
        table.resolve(columns)


def test_resolve_names_without_names():
    with pytest.raises(
        InputError, match=r"'age' was selected by name.*integers from 0 to 1, or pass a data frame"
    ):
        as_table(np.zeros((2, 2))).resolve("age")


def test_unknown_name_lists_at_most_fifty():
    wide = Table(np.zeros((1, 60)), names=[f"gene{j}" for j in range(60)])
    with pytest.raises(InputError, match=r"Did you mean .*\.\.\. \(60 in all\)"):
        wide.resolve("gene_3")


def test_mask_and_slice_are_not_equal_to_lists():
    assert freeze_columns([True, False]) != freeze_columns([1, 0])
    assert freeze_columns(slice(0, 3, 1)) != freeze_columns([0, 3, 1])


def test_take_expands_categories():
    table = Table([[0.5, 0.0, 1.0], [1.5, 1.0, 0.0], [2.5, -1.0, 1.0]], ("x", "g", "h"), (0, 2, 3))
    assert table.n_expanded_columns == 6
    assert table.column_names == ("x", "g", "h")
    np.testing.assert_array_equal(
        table.take(),
        [[0.5, 1, 0, 0, 1, 0], [1.5, 0, 1, 1, 0, 0], [2.5, 0, 0, 0, 1, 0]],
    )
    np.testing.assert_array_equal(table.select("g").values, table.values[:, [1]])
    assert table.take().dtype == np.float64
    picked = table.select(["h", "x"])
    assert (picked.names, picked.levels) == (("h", "x"), (3, 0))
    assert table.select(None) is table


def test_rows_keep_names_and_levels():
    table = Table([[0.5, 0.0], [1.5, 1.0], [2.5, 1.0]], ("x", "g"), (0, 2))
    for index in ([2, 0], slice(1, None), np.array([True, False, True])):
        part = table.rows(index)
        np.testing.assert_array_equal(part.values, table.values[index])
        assert (part.names, part.levels) == (table.names, table.levels)
    assert table.rows([]).n_rows == 0


def test_table_pickles_and_is_frozen(table):
    table.resolve("a")
    copy = pickle.loads(pickle.dumps(table))
    np.testing.assert_array_equal(copy.values, table.values)
    assert copy.names == table.names
    with pytest.raises(AttributeError):
        table.values = None


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"values": [1.0, 2.0]}, r"2D array, got shape \(2,\)\. Reshape it to \(n_rows, n_columns\)"),
        (
            {"values": [[1.0, 2.0]], "names": ("a",)},
            r"`names` must have one entry per column \(n_columns=2\), got 1",
        ),
        (
            {"values": [[1.0, 2.0]], "levels": (0, 0, 0)},
            r"`levels` must have one entry per column \(2\), got 3",
        ),
        ({"values": [[1.0, 2.0]], "names": ("a", "a")}, "unique, got 'a' more than once"),
        ({"values": [[1.0, 2.0]], "levels": (0, -3)}, r"`levels` must be .* >= -2 .*, got \(0, -3\)"),
    ],
)
def test_table_errors(kwargs, message):
    with pytest.raises(InputError, match=message):
        Table(**kwargs)


# --- TableEncoder ---


@pytest.mark.parametrize("frame", FRAMES)
def test_frames(frame):
    encoder = TableEncoder()
    table = encoder.fit(frame(DATA)).transform(frame(DATA))
    assert encoder.names_ == list(DATA)
    assert table.names == table.column_names == tuple(DATA)
    assert encoder.categories_ == [[], ["a", "b"], [], ["False", "True"]]
    assert table.levels == (0, 2, 0, 2)
    np.testing.assert_array_equal(table.values, [[30, 1, 20, 1], [40, 0, 25, 0], [50, 1, 30, 1]])
    np.testing.assert_array_equal(table.select(slice("age", "bmi")).values, table.values[:, :3])


def test_frames_of_both_libraries_and_declared_categories_agree():
    encoder = TableEncoder().fit(pd.DataFrame(DATA))
    expected = encoder.transform(pd.DataFrame(DATA)).values
    declared = pd.DataFrame(DATA).astype({"group": "category", "smoker": "boolean", "bmi": "Int64"})
    enums = pl.DataFrame(DATA).with_columns(pl.col("group").cast(pl.Categorical))
    for other in (pl.DataFrame(DATA), declared, enums):
        np.testing.assert_array_equal(encoder.transform(other).values, expected)
        np.testing.assert_array_equal(TableEncoder().fit(other).transform(other).values, expected)


@pytest.mark.parametrize(
    ("change", "at_once"),
    [
        ({}, True),
        ({"a": np.nan}, True),
        ({"b": np.int8(3)}, True),
        ({"a": np.float32(0.1)}, True),
        ({"c": True}, False),
        ({"c": "x"}, False),
        ({"a": np.inf}, False),
    ],
    ids=["numbers", "missing", "small", "single", "yes/no", "text", "infinite"],
)
def test_frames_read_at_once_are_those_read_column_by_column(change, at_once, monkeypatch):
    frame = pd.DataFrame({"a": [0.1, 1.5, -2.0], "b": [2**53 + 1, 2, 3], "c": [1.0, 0.0, 2.0]})
    frame = frame.assign(**{name: [value] * 3 for name, value in change.items()})
    other = frame[["c", "a", "b"]].iloc[::-1]

    def read():
        try:
            encoder = TableEncoder(missing=True).fit(frame)
            tables = [encoder.transform(frame), encoder.transform(other), as_table(frame, missing=True)]
        except InputError as error:
            return str(error)
        kept = [
            (
                t.values.tobytes(),
                t.values.flags.c_contiguous,
                t.names,
                t.levels,
                [c and c.values for c in t.cells or ()],
            )
            for t in tables
        ]
        return sorted(vars(encoder).items()), kept

    assert (plain_frame(frame, missing=True) is not None) == at_once
    found = str(read())
    monkeypatch.setattr("kernelweave.views.encoding.plain_frame", lambda X, missing: None)
    assert str(read()) == found


def test_a_table_shares_no_memory_with_its_frame():
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    table = as_table(frame)
    frame.loc[0, "a"] = 5.0
    assert table.values[0, 0] == 1.0
    table.values[1, 0] = 7.0
    assert frame.loc[1, "a"] == 2.0


def test_numeric_categories_stay_numbers():
    X = pd.DataFrame({"site": pd.Categorical([10, 2, 10])})
    encoder = TableEncoder().fit(X)
    assert encoder.categories_ == [[2.0, 10.0]]
    np.testing.assert_array_equal(encoder.transform(X).values[:, 0], [1, 0, 1])
    np.testing.assert_array_equal(encoder.transform(np.array([[2], [3]])).values[:, 0], [0, -1])


def test_object_columns():
    array = np.array([[1, "a", "1.5", 2], [2, "b", "2", "x"]], dtype=object)
    encoder = TableEncoder().fit(array)
    assert encoder.categories_ == [[], ["a", "b"], [], [2.0, "x"]]
    np.testing.assert_array_equal(encoder.transform(array).values, [[1, 0, 1.5, 0], [2, 1, 2, 1]])
    assert TableEncoder().fit(np.array([["1", "u"], ["2", "v"]])).categories_ == [[], ["u", "v"]]
    frame = pd.DataFrame({"number": pd.Series([1, 2.5], dtype=object), "text": ["1", "2"]})
    assert TableEncoder().fit(frame).categories_ == [[], ["1", "2"]]


def test_unknown_categories_become_minus_one():
    encoder = TableEncoder().fit(pd.DataFrame(DATA))
    new = pd.DataFrame(DATA).assign(group=["a", "zebra", "b"])
    table = encoder.transform(new)
    assert table.values[:, 1].tolist() == [0, -1, 1]
    assert table.select("group").take()[1].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("seen", "new", "codes"),
    [
        (["1", "2", "4a"], [1, 2.0, 3], [0, 1, -1]),
        (["1.5", "x"], [1.5, 1], [0, -1]),
        (pd.Categorical([1, 2, 10]), ["10", "2", "x"], [2, 1, -1]),
        ([True, False], [0, 1.0, 2], [0, 1, -1]),
        (pd.Categorical([0, 1]), [True, False], [1, 0]),
    ],
)
def test_categories_are_known_however_numbers_are_written(seen, new, codes):
    """As in a file of which fewer rows are read: its column may then look like numbers."""
    encoder = TableEncoder().fit(pd.DataFrame({"a": seen}))
    for rows in (new, *([cell] for cell in new)):
        found = encoder.transform(pd.DataFrame({"a": pd.Series(rows, dtype=object)})).values[:, 0]
        assert found.tolist() == (codes if rows is new else [codes[new.index(rows[0])]])


def test_state_is_plain():
    encoder = TableEncoder().fit(pd.DataFrame(DATA))
    state = vars(encoder)
    texts = ("texts_", "declared_", "dates_")
    assert set(state) == {
        "owner",
        "reorder",
        "missing",
        "n_columns_",
        "names_",
        "categories_",
        "sparse_",
        *texts,
    }
    assert all(type(c) in (str, float) for level in encoder.categories_ for c in level)
    assert all(type(name) is str for name in encoder.names_)


@pytest.mark.parametrize("frame", FRAMES)
def test_columns_are_put_in_order(frame):
    encoder = TableEncoder().fit(frame(DATA))
    # neither order is the other one's inverse
    turned = frame({name: DATA[name] for name in ("bmi", "age", "smoker", "group")})
    np.testing.assert_array_equal(encoder.transform(turned).values, encoder.transform(frame(DATA)).values)
    strict = TableEncoder(reorder=False).fit(frame(DATA))
    with pytest.raises(InputError, match="Feature names must be in the same order as they were in fit"):
        strict.transform(turned)


@pytest.mark.parametrize("frame", FRAMES)
def test_missing_and_unseen_names(frame):
    encoder = TableEncoder().fit(frame(DATA))
    fewer = frame({"age": DATA["age"], "group": DATA["group"]})
    with pytest.raises(InputError, match=r"yet now missing:\n- bmi\n- smoker\n"):
        encoder.transform(fewer)
    with pytest.raises(InputError, match=r"unseen at fit time:\n- weight\n"):
        encoder.transform(frame(DATA | {"weight": [1.0, 2.0, 3.0]}))


def test_wrong_number_of_columns():
    encoder = TableEncoder("MKLRegressor").fit(np.zeros((3, 4)))
    with pytest.raises(
        InputError, match="X has 1 features, but MKLRegressor is expecting 4 features as input"
    ):
        encoder.transform(np.zeros((3, 1)))


def test_array_after_frame_and_frame_without_string_names():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}))
    assert encoder.transform(np.array([[5, 6]])).names == ("a", "b")
    assert TableEncoder().fit(pd.DataFrame(np.zeros((2, 2)))).names_ is None
    with pytest.raises(
        TypeError, match="Feature names are only supported if all input features have string names"
    ):
        TableEncoder().fit(pd.DataFrame({"a": [1.0], 1: [2.0]}))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (
            np.array([[1.0, np.nan], [np.nan, np.nan]]),
            r"NaN.*in column 0 \(1 of 2 rows\), column 1 \(2 of 2 rows\)",
        ),
        (np.array([[1.0, np.inf], [1.0, -np.inf]]), r"infinity in column 1 \(2 of 2 rows\)"),
        (pd.DataFrame({"age": [1.0, np.nan]}), r"NaN.*in column 'age' \(1 of 2 rows\).*Impute"),
        (pl.DataFrame({"age": [1, None]}), r"NaN.*in column 'age'"),
        (pd.DataFrame({"g": ["a", None]}), r"NaN.*in column 'g' \(1 of 2 rows\)"),
        (pl.DataFrame({"g": ["a", None]}), r"NaN.*in column 'g'"),
        (pd.DataFrame({"g": pd.Categorical(["a", None])}), r"NaN.*in column 'g'"),
        (pd.DataFrame({"n": pd.array([1, None], dtype="Int64")}), r"NaN.*in column 'n'"),
        (np.array([["a", 1], [np.nan, 2]], dtype=object), r"NaN.*in column 0"),
        (np.full((2, 8), np.nan), "and 3 more columns"),
        (np.array([[1 + 2j]]), "Complex data not supported"),
        (np.array([[1 + 2j]], dtype=object), "Complex data not supported"),
        (pd.DataFrame({"z": [1j]}), "Complex data not supported"),
        (
            pd.DataFrame({"when": pd.to_datetime(["2020-01-01", None])}),
            r"NaN.*in column 'when' \(1 of 2 rows\)",
        ),
        (np.zeros(3), r"Expected 2D array, got 1D array.*Reshape your data"),
        (3.0, "Expected 2D array, got 0D array"),
        (np.zeros((2, 2, 2)), "Expected 2D array, got 3D array"),
        ([[1, 2], [3]], "rectangular"),
        (np.zeros((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.zeros((12, 0)), r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1 is required"),
        (pl.LazyFrame({"a": [1]}), r"Call \.collect\(\) first"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "unique, got 'a' more than once"),
        (np.zeros(2, dtype=[("a", float)]).reshape(2, 1), "Pass a plain 2D array"),
        (Table([[1.0]]), "encoded already"),
    ],
)
def test_fit_errors(X, message):
    with pytest.raises(InputError, match=message):
        TableEncoder().fit(X)


def test_type_errors():
    with pytest.raises(TypeError, match=r"argument must be .* string.* number.*column 0"):
        TableEncoder().fit(np.array([[{"foo": "bar"}], [1.0]], dtype=object))


@pytest.mark.parametrize("frame", FRAMES)
def test_strings_in_a_numeric_column(frame):
    encoder = TableEncoder().fit(frame({"age": [1.0, 2.0]}))
    with pytest.raises(InputError, match="Column 'age' was numeric when fitted, got 'old' in row 1"):
        encoder.transform(frame({"age": ["3", "old"]}))
    with pytest.raises(InputError, match=r"NaN.*in column 'age'"):
        encoder.transform(frame({"age": [1.0, float("nan")]}))


def test_transform_before_fit():
    with pytest.raises(InputError, match="Call fit first"):
        TableEncoder().transform(np.zeros((1, 1)))


def test_transform_copies():
    X = np.zeros((2, 2))
    table = TableEncoder().fit(X).transform(X)
    X[:] = 1.0
    assert not table.values.any()


@given(st.lists(st.lists(st.sampled_from("abcde"), min_size=2, max_size=2), min_size=1, max_size=20))
def test_codes_decode(rows):
    encoder = TableEncoder().fit(rows)
    table = encoder.transform(rows)
    decoded = [[encoder.categories_[j][int(code)] for j, code in enumerate(row)] for row in table.values]
    assert decoded == rows
    assert all(sorted(c) == c for c in encoder.categories_)


# --- as_table ---


def test_as_table():
    table = Table([[1.0]])
    assert as_table(table) is table
    assert as_table([[1, 2]]).values.dtype == np.float64
    assert as_table(pd.DataFrame(DATA)).names == tuple(DATA)
    assert as_table(np.array([[True, False]])).values.tolist() == [[1.0, 0.0]]


def test_as_tables_share_categories():
    left, right = as_tables([["a"], ["b"]], [["b"], ["c"]])
    assert right.values.ravel().tolist() == [1, -1]
    assert left.levels == right.levels == (2,)
    with pytest.raises(InputError, match=r"same columns, got 2 columns and 1 column"):
        as_tables(np.zeros((2, 2)), np.zeros((2, 1)))
    with pytest.raises(InputError, match=r"same columns, got 1 column \(categorical with \[2\] levels\)"):
        as_tables(left, Table([[0.0]]))


def test_other_frames_go_through_narwhals():
    arrow = pytest.importorskip("pyarrow")
    table = as_table(arrow.table(DATA))
    np.testing.assert_array_equal(table.values, as_table(pd.DataFrame(DATA)).values)


def test_missing_cells_of_dictionaries_of_arrow_are_missing():
    pa = pytest.importorskip("pyarrow")
    column = pa.array(["b", None, "a"]).dictionary_encode()
    encoder = TableEncoder(missing=True)
    for rows in (encoder.fit_transform(pa.table({"x": column})), encoder.transform(pa.table({"x": column}))):
        np.testing.assert_array_equal(rows.values[:, 0], [1.0, np.nan, 0.0])
    with pytest.raises(InputError, match="missing"):
        TableEncoder().fit(pa.table({"x": column}))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_files_of_views_have_any_encoding_with_a_mark(encoding, tmp_path):
    for name, text in [("v.gmt", "Gène\thttp\ta\tb\r\n"), ("v.toml", '[views]\r\n"Gène" = ["a", "b"]\r\n')]:
        (tmp_path / name).write_bytes(text.encode(encoding))
        assert read_views(str(tmp_path / name)) == {"Gène": ["a", "b"]}


def test_a_view_of_a_file_may_be_one_pattern_as_in_python(tmp_path):
    file = tmp_path / "v.toml"
    file.write_text('[views]\ngenes = "g_*"\nclinical = ["age"]\n')
    assert expand_views(read_views(str(file)), ["g_1", "age", "g_2"]) == {
        "genes": ["g_1", "g_2"],
        "clinical": ["age"],
    }
    for wrong in ("3", '""', "[]", "[3]"):
        file.write_text(f"[views]\ngenes = {wrong}\n")
        with pytest.raises(InputError, match=r"view 'genes' must be a name or pattern of columns.*, got "):
            read_views(str(file))


@pytest.mark.parametrize("content", ["a\tb\tc".encode("utf-16-le"), b"\xff\xff\tb\tc"])
def test_files_of_views_that_are_no_text(content, tmp_path):
    (tmp_path / "v.gmt").write_bytes(content)
    with pytest.raises(InputError, match="Save it as UTF-8"):
        read_views(str(tmp_path / "v.gmt"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("v.gmt", "a\thttp\tx\n\nb\thttp", "line 2 of .*v.gmt has fewer fields"),
        ("v.gmt", "\n", r"; \S*v\.gmt has fewer fields"),
        ("v.toml", "[views", r"v\.toml cannot be read as TOML: "),
        ("v.toml", "a = 3", r"v\.toml must hold a table \[views\]"),
        ("v.toml", "views = 3", r"v\.toml must hold a table \[views\]"),
        ("v.toml", "[views]", r"v\.toml must hold a table \[views\]"),
    ],
)
def test_files_of_views_without_views(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_views(str(tmp_path / name))


def test_views_of_columns_that_there_are_not(tmp_path):
    columns = [f"c{j}" for j in range(13)]
    with pytest.raises(InputError, match=r"There is no views file .*v\.toml\.$"):
        read_views(str(tmp_path / "v.toml"))
    with pytest.raises(InputError, match="cannot be read as text"):
        read_views(str(tmp_path))
    for most, end in ((12, r"'c11'\."), (13, r"'c11', \.\.\.\.")):
        with pytest.raises(InputError, match=rf"View 'v': no column matches 'x\*'\. Columns: 'c0', .*{end}$"):
            expand_views({"v": ["x*"]}, columns[:most])
    with pytest.raises(InputError, match=r"matches 'cc1'\. Did you mean 'c1'\?$"):
        expand_views({"v": ["cc1"]}, columns)
    assert expand_views({"v": ["x*"], "w": ["c1", "c1*"]}, columns, partial=True) == {
        "w": ["c1", "c10", "c11", "c12"]
    }
    with pytest.raises(InputError, match="None of the 2 views names a column"):
        expand_views({"v": ["x*"], "w": ["y"]}, columns, partial=True)


@pytest.mark.parametrize(
    "holder", [lambda a: a, lambda a: [a, "x"], lambda a: (1, [a]), lambda a: sparse.csr_array(a[None])]
)
def test_cells_that_hold_long_arrays_differ_by_every_number(holder):
    """Also by those that their texts leave out."""
    one, other = np.arange(3000.0), np.arange(3000.0)
    other[1500] = 0.5
    cells = np.empty((3, 1), dtype=object)
    cells[:, 0] = [holder(one), holder(one.copy()), holder(other)]
    codes = as_table(cells).values[:, 0]
    assert codes[0] == codes[1] != codes[2]


def test_rows_without_anything_are_those_of_every_kind_of_table():
    numbers = Table(np.array([[np.nan, np.nan], [np.nan, 1.0], [2.0, 3.0], [np.nan, np.nan]]))
    gram = GramTable(
        np.array([[1.0, 0.5], [np.nan, np.nan], [0.2, 0.3], [np.nan, np.nan]]), np.full(4, -1), np.ones(4)
    )
    assert numbers.empty_rows().tolist() == [True, False, False, True]
    assert gram.empty_rows().tolist() == [False, True, False, True]
    assert BlockTable({"a": numbers, "b": gram}).empty_rows().tolist() == [False, False, False, True]


# --- a table of everything, and parts of it ---


@pytest.fixture
def rich():
    """Numbers, categories, dates and texts; one cell of each but the texts is missing."""
    frame = pd.DataFrame(
        {
            "age": [30.0, 40.0, np.nan, 60.0, 75.0],
            "group": pd.Categorical(["b", "a", "b", None, "a"], categories=["a", "b"]),
            "begun": pd.to_datetime(["2020-01-01", "2020-03-01", "2021-01-01", "2022-06-01", None]),
            "seen": pd.to_datetime(["2020-02-01", "2020-03-05", "2021-04-01", None, "2023-01-01"]),
            "note": ["mild pain", "no pain", "fever", "", "mild fever"],
        }
    )
    encoder = TableEncoder(missing=True)
    return encoder.declare(encoder.fit_transform(frame), [4])


def test_columns_that_kernels_read_know_their_origin(rich):
    forms = rich.dates
    widths = [1, 2, forms[2].width, forms[3].width, 0]
    assert [rich.width(j) for j in range(5)] == widths
    ends = [0, 1, 1, *[2] * widths[2], *[3] * widths[3], 3]
    np.testing.assert_array_equal(rich.owners, ends)
    assert rich.n_expanded_columns == len(ends) == rich.take().shape[1]
    marked = rich.with_marks(rich.values, np.isnan(rich.values), np.array([True, False, True, False, False]))
    np.testing.assert_array_equal(marked.owners, [*ends, 0, 2])
    np.testing.assert_array_equal(marked.take()[:, -2:], np.isnan(rich.values)[:, [0, 2]])
    np.testing.assert_array_equal(marked.marks, np.isnan(rich.values))
    assert not rich.marks.any()
    assert rich.marks.shape == rich.values.shape
    both = BlockTable({"one": rich, "two": marked})
    np.testing.assert_array_equal(both.marked, [*[False] * 5, True, False, True, False, False])
    # columns of a table whose cells were imputed keep their marks
    some = marked.rows([2, 4]).select(["begun", "age"])
    np.testing.assert_array_equal(some.take()[:, -2:], [[0, 1], [1, 0]])
    np.testing.assert_array_equal(rich.missing(), [1, 1, 1, 1, 0])


@pytest.mark.parametrize("rows", [slice(1, 4), [3, 0, 0], np.array([True, False, False, True, True])])
@pytest.mark.parametrize("columns", [[0], [3, 2, 1], [4, 0], [1, 4]])
def test_parts_of_a_table_are_those_of_its_arrays(rich, rows, columns):
    index = np.arange(5)[rows]
    for found in (rich.rows(rows).select(columns), rich.select(columns).rows(rows)):
        np.testing.assert_array_equal(found.values, rich.values[np.ix_(index, columns)])
        assert found.names == tuple(rich.names[j] for j in columns)
        assert found.levels == tuple(rich.levels[j] for j in columns)
        dated = [j for j in columns if j in (2, 3)]
        assert (found.dates is None) == (not dated)
        assert [form.place for form in found.dates or () if form is not None] == dated
        assert (found.cells is None) == (4 not in columns)
        if found.cells is not None:
            own = found.cells[columns.index(4)]
            assert own.values.tolist() == rich.cells[4].values[index].tolist()
            assert own.shares(rich.cells[4])
            np.testing.assert_array_equal(own.positions, index)
            assert (len(own), own.n_column) == (len(index), 5)
        if set(columns) != {4}:
            blocks = [rich.select([j]).rows(rows).take() for j in columns if j != 4]
            n = sum(block.shape[1] for block in blocks)
            np.testing.assert_array_equal(found.take()[:, :n], np.concatenate(blocks, axis=1))
            assert found.take().shape[1] == n + (len(dated) == 2)
    whole = BlockTable({"first": Table(np.arange(5.0)[:, None]), "rich": rich})
    one = whole.rows(rows).select(ViewColumns("rich", tuple(columns)))
    np.testing.assert_array_equal(one.values, rich.values[np.ix_(index, columns)])
    np.testing.assert_array_equal(whole.resolve(ViewColumns("rich", tuple(columns))), np.array(columns) + 1)
    np.testing.assert_array_equal(whole.resolve(("first: x0", "rich: note")), [0, 5])
    assert whole.select(None) is whole
    joined = whole.select([j + 1 for j in columns])
    np.testing.assert_array_equal(joined.values, rich.values[:, columns])
    assert whole.own("rich", [0, 1, 5]) == [0, 4]
    assert whole.own("first", [0, 1, 5]) == [0]
    assert [form.place for form in whole.dates if form is not None] == [3, 4]
    assert whole.dates[4].since[0][0] == 3


def test_other_rows_and_other_numbers_of_the_same_columns(rich):
    new = np.arange(10.0).reshape(2, 5) % 2
    like = rich.like(new)
    assert (like.names, like.levels, like.dates, like.cells) == (rich.names, rich.levels, rich.dates, None)
    np.testing.assert_array_equal(like.values, new)
    first = Table(np.zeros((5, 2)), names=("u", "v"))
    both = BlockTable({"a": first, "b": rich})
    other = both.like(np.c_[new[:, :2] + 7, new])
    np.testing.assert_array_equal(other.blocks["a"].values, new[:, :2] + 7)
    np.testing.assert_array_equal(other.blocks["b"].values, new)
    assert other.levels == both.levels
    changed = rich.with_values(rich.values + 1)
    np.testing.assert_array_equal(changed.values, rich.values + 1)
    assert changed.cells is rich.cells
    left = rich.regrouped(rich.values * 0, (0, 0, 0, 0, -1), [4])
    assert (left.levels, left.cells, left.names) == ((0, 0, 0, 0, -1), None, rich.names)
    np.testing.assert_array_equal(left.values, rich.values * 0)
    assert rich.regrouped(rich.values, rich.levels, [0]).cells[4] is rich.cells[4]
    assert rich.with_dates(None).dates is None
    shifted = both.scaled(np.arange(7.0), np.arange(1.0, 8.0))
    np.testing.assert_array_equal(shifted.values, (both.values - np.arange(7.0)) / np.arange(1.0, 8.0))
    np.testing.assert_array_equal(both.dense_columns(np.array([6, 0, 2])), both.values[:, [6, 0, 2]])
    rows = sparse.csr_array([[0.0, 2.0, np.nan], [3.0, 0.0, 0.0]])
    views = BlockTable({"s": SparseTable(rows), "d": Table(np.ones((2, 2)))})
    kept = views.scaled(np.ones(5), np.full(5, 2.0))
    np.testing.assert_array_equal(kept.blocks["s"].values.toarray(), rows.toarray())
    np.testing.assert_array_equal(kept.blocks["d"].values, np.zeros((2, 2)))
    np.testing.assert_array_equal(views.missing(), [0, 0, 1, 0, 0])
    np.testing.assert_array_equal(views.dense_columns(np.array([1, 4])), [[2, 1], [0, 1]])
    np.testing.assert_array_equal(SparseTable(rows).missing(), [0, 0, 1])
    np.testing.assert_array_equal(SparseTable(rows).select([2, 0]).values.toarray(), [[np.nan, 0], [0, 3]])
    np.testing.assert_array_equal(SparseTable(rows).select([1, 2]).values.toarray(), [[2, np.nan], [0, 0]])


def test_cells_of_one_column_share_what_was_made_of_them(rich):
    cells = rich.cells[4]
    calls = []

    def count(texts):
        calls.append(len(texts))
        return np.array([len(text) for text in texts]), "kept"

    some = cells.rows([4, 1])
    assert some.counted("lengths", count)[0].tolist() == [10, 7]
    assert cells.counted("lengths", count)[1] == "kept"
    assert some.of_column("lengths", count)[0].tolist() == [9, 7, 5, 0, 10]
    assert calls == [5]
    cells.counted("others", count)
    assert calls == [5, 5]
    again = pickle.loads(pickle.dumps(some))
    assert again.values.tolist() == ["mild fever", "no pain"]
    assert not again.shares(some)
    assert some.rows(slice(1, None)).values.tolist() == ["no pain"]
    assert cells.are(str)
    assert not Cells(["a", 1]).are(str)
    assert Cells(["a", 1]).are((str, int))
    assert Cells([b"a\xc3\xa9"]).values.tolist() == ["a\u00e9"]
    one, two = Cells(["x", "y", "x"]).digests(), Cells([b"y", {1}, {1.5}]).digests()
    assert one[0] == one[2] != one[1] == two[0]
    assert two[1] != two[2]
    for short, long in (
        (["ab"] * 3, False),
        (["a b c", "b c d", "c d e"], True),
        (["a b", "b c", "c d"], False),
        (["x" * 19 + end for end in "abc"], True),
        (["x" * 18 + end for end in "abc"], False),
        (["a b c", "b c d"], False),
        (["a b c", "a b c", "b c d", "c d e"], True),
    ):
        assert Cells(short).is_long_text is long
    assert Cells(as_texts(["a", 17.0, b"c", None, np.float64(2.5), True])).values.tolist() == [
        "a", "17", "c", None, "2.5", "True",
    ]  # fmt: skip
    assert Cells(as_texts(["a", "a"])).is_long_text
    series = as_texts(pd.Series([1.0, None], index=[5, 7], name="n"))
    assert (series.tolist()[0], series.index.tolist(), series.name) == ("1", [5, 7], "n")


def test_rows_of_whatever_is_given():
    array, frame = np.arange(6.0).reshape(3, 2), pd.DataFrame({"a": [1, 2, 3]})
    at = np.array([2, 0])
    views = by_rows({"a": array, "b": sparse.coo_array(array)})
    assert isinstance(views, Views)
    assert by_rows(views) is views
    np.testing.assert_array_equal(take_rows(views, at)["b"].toarray(), array[at])
    np.testing.assert_array_equal(take_rows(by_rows(sparse.coo_array(array)), at).toarray(), array[at])
    assert take_rows(by_rows(([1], [2], [3])), at) == [[3], [1]]
    assert take_rows(frame, at)["a"].tolist() == [3, 1]
    assert take_rows(pl.DataFrame(frame), at)["a"].to_list() == [3, 1]
    assert take_rows(pl.DataFrame(frame).to_arrow(), at)["a"].to_pylist() == [3, 1]
    frames = {"a": frame, "b": frame.iloc[1:].rename(columns={"a": "c"})}
    found = by_rows(frames, "all")["b"]
    assert found["c"].tolist()[1:] == [2, 3]
    assert np.isnan(found["c"].iloc[0])
    with pytest.raises(InputError, match="same rows"):
        by_rows(frames)
    assert by_rows(array) is array
    K = precomputed(array[:, :1] @ array[:, :1].T)
    assert (K.shape, K[at].shape, len(K[at]), K[at].rows.tolist()) == ((3, 3), (2, 3), 2, [2, 0])
    assert K[at][np.array([1])].rows.tolist() == [0]
    assert repr(K[at]) == "precomputed(K), 2 of 3 rows"
    both = Views({"k": K, "n": frame})
    assert (both.shape, len(both), both.names) == ((3, 1), 3, ("k", "n"))
    assert both[1:]["k"].rows.tolist() == [1, 2]
    assert both[-1]["n"]["a"].tolist() == [3]
    assert both[np.array([False, True, False])]["n"]["a"].tolist() == [2]
    assert both[[2], :]["n"]["a"].tolist() == both[[2], ...]["n"]["a"].tolist() == [3]
    assert repr(Views({"s": sparse.csr_array(array), "n": frame, "k": K})) == (
        "Views of 3 rows: 's' (2 sparse columns), 'n' (1 column), 'k' (precomputed)"
    )
    for key in (None, 0.5, (0, 1), ([0], [1]), [[0]], ["n"], np.array([0.5])):
        with pytest.raises(InputError, match=r"selected by|indexed by"):
            both[key]


def test_selections_read_as_they_were_written():
    for columns, text in (
        (slice("a", None, 2), "slice('a', None, 2)"),
        (slice(None, -1), "slice(None, -1, None)"),
        ([True, False], "[True, False]"),
        (np.array([1, 2]), "(1, 2)"),
    ):
        assert repr(freeze_columns(columns)) == text
    for wrong in (1.5, [1.5], [[1]], slice(1.5), slice(0, 2, "a"), [], [True, 1]):
        with pytest.raises(InputError, match=r"selected by|at least one column|step of a column"):
            freeze_columns(wrong)
    assert listing(["a"] * 20) == ", ".join(["'a'"] * 20)
    assert listing(["a"] * 21) == ", ".join(["'a'"] * 20) + ", ... (21 in all)"
    assert listing(["a", "b", "c"], limit=2) == "'a', 'b', ... (3 in all)"
    assert bullets(list("abcde")) == "- a\n- b\n- c\n- d\n- e\n"
    assert bullets(list("abcdef")) == "- a\n- b\n- c\n- d\n- e\n- ...\n"
    assert (column_name(2, None), column_name(1, ["a", "b"])) == ("column 2", "column 'b'")


def test_encoders_of_views_have_the_tables_of_each(rich):
    views = {
        "n": np.arange(6.0).reshape(3, 2),
        "t": np.array(["ab", "cd", "ab"]),
        "s": sparse.csr_array(np.eye(3)),
    }
    encoder = ViewsEncoder("the model", missing=True).fit(views)
    assert list(encoder.encoders_) == ["n", "t", "s"]
    found = encoder.transform({name: views[name] for name in ("s", "t", "n")})
    np.testing.assert_array_equal(found.block("n").values, views["n"])
    np.testing.assert_array_equal(found.block("s").values.toarray(), np.eye(3))
    assert found.levels == (0, 0, 2, 0, 0, 0)
    lost = encoder.transform(views | {"n": None, "s": None})
    assert np.isnan(lost.block("n").values).all()
    assert lost.block("s").empty_rows().all()
    assert lost.block("s").n_rows == 3
    np.testing.assert_array_equal(lost.block("t").values[:, 0], [0, 1, 0])
    for wrong, message in (
        (views | {"x": views["n"]}, "has the unknown 'x'"),
        ({"n": views["n"], "t": views["t"]}, "lacks 's'.*, or None for a view"),
        (views | {"n": views["n"][:, :1]}, "View 'n': X has 1 features, but the model is expecting 2"),
        (views["n"], "the model was fitted on the views 'n', 't', 's', got one table"),
    ):
        with pytest.raises(InputError, match=message):
            encoder.transform(wrong)
    with pytest.raises(TypeError, match="View 'n': Feature names are only supported"):
        ViewsEncoder().fit({"n": pd.DataFrame({"a": [1.0], 2: [3.0]})})
    empty = TableEncoder().fit(sparse.csr_array(np.eye(3))).empty(2)
    assert empty.empty_rows().tolist() == [True, True]
    assert empty.n_columns == 3


def test_rows_of_precomputed_views_keep_their_values_and_diagonal():
    A = np.arange(18.0).reshape(6, 3) % 5
    K = A @ A.T
    whole = precomputed(K)
    encoder = GramEncoder()
    train = np.array([4, 0, 3])
    table = encoder.fit_transform(whole[train])
    np.testing.assert_array_equal(table.matrix, K[np.ix_(train, train)])
    np.testing.assert_array_equal(table.diagonal, np.diag(K)[train])
    np.testing.assert_array_equal(table.index, [0, 1, 2])
    new = np.array([5, 1])
    same = encoder.transform(whole[new])
    np.testing.assert_array_equal(same.matrix, K[np.ix_(new, train)])
    np.testing.assert_array_equal(same.diagonal, np.diag(K)[new])
    np.testing.assert_array_equal(same.index, [-1, -1])
    # a larger matrix of the same training rows and other new ones is known by the values of the training rows
    B = np.r_[A[:5], -A[5:]]
    B[[1, 2]] = 7.0 - B[[1, 2]]
    other = B @ B.T
    assert (other[train][:, [1, 2, 5]] != K[train][:, [1, 2, 5]]).any()
    found = encoder.transform(precomputed(other)[new])
    np.testing.assert_array_equal(found.matrix, other[np.ix_(new, train)])
    np.testing.assert_array_equal(found.diagonal, np.diag(other)[new])
    # a matrix with a column for each training row, and rows of one
    cross = precomputed(K[np.ix_([1, 2, 5], train)])
    for view, rows in ((cross, [1, 2, 5]), (cross[np.array([2, 0])], [5, 1]), (cross.matrix, [1, 2, 5])):
        found = encoder.transform(view)
        np.testing.assert_array_equal(found.matrix, K[np.ix_(rows, train)])
        assert np.isnan(found.diagonal).all()
        assert (found.index == -1).all()
        assert len(found.diagonal) == len(rows)
    empty = encoder.empty(2)
    assert empty.matrix.shape == (2, 3)
    assert np.isnan(empty.matrix).all()
    part = table.rows([2, 0])
    np.testing.assert_array_equal(part.index, [2, 0])
    np.testing.assert_array_equal(part.diagonal, np.diag(K)[train][[2, 0]])
