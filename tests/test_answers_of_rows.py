"""Rows in chunks: every source, request and message, and recorded answers of what is computed from them.

Modules: `rows/chunks`, `rows/collecting`, `rows/dask_rows`, `rows/files`, `rows/folds`, `rows/parallel`,
`rows/predicting`, `rows/progress`, `rows/row_features`, `rows/sampling`, `rows/sources`, `rows/validation`.
"""

import sys
import threading
from concurrent.futures import CancelledError
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import kernelweave as kw
from kernelweave import InputError
from kernelweave._errors import KernelWarning
from kernelweave.gram import BlockStatistics
from kernelweave.rows import (
    FoldStatistics,
    block_statistics,
    chunks,
    collecting,
    dask_rows,
    files,
    folds,
    parallel,
    predict_rows,
    progress,
    row_features,
    sampling,
    sources,
    validation,
)
from kernelweave.rows.chunks import (
    ArrayRows,
    Chunk,
    FrameRows,
    IteratedRows,
    Layout,
    Transformed,
    WrittenRows,
)
from kernelweave.rows.sources import Request, open_rows

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(60, 5))
Y = Z[:, 0] - 0.5 * Z[:, 3] + 0.3 * RNG.normal(size=60)
TWO = np.column_stack([Y, Z[:, 1] + 0.2 * RNG.normal(size=60)])
WEIGHT = RNG.uniform(0.2, 2.0, 60)
FRAME = pd.DataFrame(Z, columns=list("abcde")).assign(t=Y, u=TWO[:, 1], w=WEIGHT)
GROUPS = [0, 2, 3, 5]


def listed(found):
    """Chunks with all that is in them."""
    return [
        [
            one.Z.toarray() if sparse.issparse(one.Z) else one.Z,
            one.y,
            one.sample_weight,
            one.source,
            one.first,
        ]
        for one in found
    ]


def same(found, wanted):
    found, wanted = listed(found), listed(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_parts_of_chunks():
    whole = Chunk(Z, Y, WEIGHT, "file", 10)
    part = whole.part(slice(3, 7))
    same([part], [Chunk(Z[3:7], Y[3:7], WEIGHT[3:7], "file", 13)])
    same([Chunk(Z, None, None, "", 5).part(slice(None, 2))], [Chunk(Z[:2], None, None, "", 5)])
    assert len(part) == 4
    pieces = [Chunk(Z[k : k + 20], Y[k : k + 20], None, "f", k) for k in (0, 20, 40)]
    same(chunks.beyond(pieces, 20), pieces[1:])
    same(chunks.beyond(pieces, 25), [pieces[1].part(slice(5, None)), pieces[2]])
    same(chunks.beyond(pieces, 0), pieces)
    same(chunks.beyond(pieces, 60), [])
    same(chunks.beyond(pieces, 59), [pieces[2].part(slice(19, None))])

    def refused(chunk):
        with chunks.in_chunk(chunk):
            raise InputError("Bad.")

    with pytest.raises(InputError, match=r"^Bad\. \(In file, rows 10 to 69 of `rows`\.\)$"):
        refused(whole)
    with pytest.raises(InputError, match=r"^Bad\. \(In rows 3 to 62 of `rows`\.\)$"):
        refused(replace(whole, source="", first=3))


def test_layouts_of_tables():
    known = list(FRAME.columns)
    layout = chunks.make_layout(known, target="t", weight="w", columns=None)
    assert (layout.columns, layout.targets, layout.single, layout.weight) == (
        tuple("abcdeu"),
        ("t",),
        True,
        "w",
    )
    assert layout.needed == [*"abcdeu", "t", "w"]
    several = chunks.make_layout(known, target=["t", "u"], weight=None, columns=["b", "a"])
    assert (several.columns, several.targets, several.single) == (("b", "a"), ("t", "u"), False)
    assert chunks.make_layout(known, target=None, weight=None, columns=None).single
    assert chunks.make_layout(known, target=["t"], weight="a", columns=["a"]).needed == ["a", "t"]
    for options, words in (
        ({"target": "x"}, r"Unknown column in `target` 'x'"),
        ({"weight": "ww"}, r"Unknown column in `weight` 'ww'"),
        ({"columns": ["a", "z"]}, r"Unknown column in `columns` 'z'"),
        (
            {"columns": []},
            r"`columns` must name at least one feature, got none\. The table has no other columns",
        ),
        (
            {"target": ["t", "b"], "columns": ["e", "b"]},
            r"`columns` must not hold a target, got 'b'\. Leave it out",
        ),
    ):
        with pytest.raises(InputError, match=words):
            chunks.make_layout(known, **{"target": "t", "weight": None, "columns": None, **options})
    same(
        [chunks.chunk_of_frame(FRAME[5:9], several, "f", 5)],
        [Chunk(Z[5:9][:, [1, 0]], TWO[5:9], None, "f", 5)],
    )
    weighted = chunks.make_layout(known, target="u", weight="w", columns=["c"])
    found = chunks.chunk_of_frame(FRAME, weighted, "", 0)
    same([found], [Chunk(Z[:, [2]], TWO[:, 1], WEIGHT, "", 0)])
    assert found.Z.dtype == np.float64
    table = FRAME.astype({"a": "float32", "b": "float32"})
    one = chunks.make_layout(known, target="t", weight=None, columns=["a", "b"])
    assert chunks.chunk_of_frame(table, one, "", 0).Z.dtype == np.float32
    assert chunks.chunk_of_frame(table, replace(one, columns=("a", "c")), "", 0).Z.dtype == np.float64
    assert chunks.chunk_of_frame(table, replace(one, targets=()), "", 0).y is None
    cells = pd.DataFrame({"a": [Decimal("1.5"), None, 2], "b": ["x", "y", "z"], "c": [True, False, True]})
    own = Layout(("a", "c"), (), True)
    np.testing.assert_array_equal(chunks.chunk_of_frame(cells, own, "", 0).Z, [[1.5, 1], [np.nan, 0], [2, 1]])
    with pytest.raises(
        InputError, match=r"^Column 'b' of f must hold numbers, got \['x', 'y', 'z'\]\. Encode it, or name"
    ):
        chunks.chunk_of_frame(cells, replace(own, columns=("b",)), "f", 0)
    cells["a"] = [1, b"2", 3]
    with pytest.raises(InputError, match=r"^Column 'a' must hold numbers"):
        chunks.chunk_of_frame(cells, own, "", 0)
    cells["a"] = [1, [2], 3]
    with pytest.raises(InputError, match=r"^Column 'a' must hold numbers"):
        chunks.chunk_of_frame(cells, own, "", 0)


def test_sources_in_memory():
    whole = Chunk(Z, Y, WEIGHT)
    source = ArrayRows(whole, 25)
    assert source.total == 60
    same(source.chunks({}), [whole.part(slice(k, k + 25)) for k in (0, 25, 50)])
    same(source.chunks({"": 30, "x": 50}), [whole.part(slice(30, 55)), whole.part(slice(55, 60))])
    same(source.chunks({"": 60}), [])
    pieces = source.pieces()
    assert [len(one.whole) for one in pieces] == [25, 25, 10]
    same(pieces[1].chunks({"": 30}), [whole.part(slice(30, 50))])
    same(pieces[2].chunks({"": 30}), [whole.part(slice(50, 60))])
    assert [len(one.whole) for one in ArrayRows(whole, 1).pieces()] == [4] * 15
    assert {one.size for one in ArrayRows(whole, 1).pieces()} == {1}
    layout = chunks.make_layout(list(FRAME), target="t", weight="w", columns=list("abcde"))
    frame = FrameRows(FRAME, layout, 25)
    assert frame.total == 60
    same(frame.chunks({}), source.chunks({}))
    same(frame.chunks({"": 30}), source.chunks({"": 30}))
    assert frame.pieces() == [frame]
    parts = [
        (Z[:20], Y[:20]),
        (Z[20:30].tolist(), Y[20:30].tolist(), WEIGHT[20:30]),
        [sparse.csr_array(Z[30:]), Y[30:]],
    ]
    iterated = IteratedRows(parts, targets=True)
    assert iterated.total is None
    wanted = [Chunk(Z[:20], Y[:20], None, "", 0), Chunk(Z[20:30], Y[20:30], WEIGHT[20:30], "", 20)]
    wanted.append(Chunk(Z[30:], Y[30:], None, "", 30))
    same(iterated.chunks({}), wanted)
    same(iterated.chunks({"": 25}), [wanted[1].part(slice(5, None)), wanted[2]])
    same(
        IteratedRows([Z[:3], (Z[3:5], None)], targets=False).chunks({}),
        [Chunk(Z[:3], None), Chunk(Z[3:5], None, None, "", 3)],
    )
    for part, words in (
        (Z, r"Chunks of `rows` must be pairs \(Z, y\) or triples .*, got .* for row 2\. Yield tuples"),
        ((Z,), "must be pairs"),
        ((Z, Y, WEIGHT, 1), "must be pairs"),
        ((Z[0], Y), r"Chunks of `rows` must have shape \(n_samples, n_features\), got \(5,\) for row 2"),
    ):
        with pytest.raises(InputError, match=words):
            list(IteratedRows([(Z[:2], Y[:2]), part], targets=True).chunks({}))
    made = Transformed(source, lambda X: X[:, :2] * 3.0)
    assert made.total == 60
    same(made.chunks({"": 50}), [Chunk(Z[50:, :2] * 3.0, Y[50:], WEIGHT[50:], "", 50)])
    assert [len(one.source.whole) for one in made.pieces()] == [25, 25, 10]
    same(made.pieces()[2].chunks({}), [Chunk(Z[50:, :2] * 3.0, Y[50:], WEIGHT[50:], "", 50)])
    assert chunks.features_of(lambda X: [[1.0]] * len(X), Z[:3]).shape == (3, 1)
    for wrong in (lambda X: X[:, 0], lambda X: X[1:]):
        with pytest.raises(
            InputError, match=r"`features` must return shape \(60, n_features\) for 60 rows, got"
        ):
            chunks.features_of(wrong, Z)


def test_arrays_with_what_stands_beside_them():
    found = chunks.chunk_of_array(Z, list(Y), WEIGHT)
    same([found], [Chunk(Z, Y, WEIGHT)])
    assert isinstance(chunks.chunk_of_array(sparse.coo_array(Z), None, None).Z, sparse.csr_array)
    for given, words in (
        ((Z[0], None, None), r"`rows` must have shape \(n_samples, n_features\), got \(5,\)"),
        ((Z, Y[1:], None), r"`y` must have one row per row, 60, got shape \(59,\)"),
        ((Z, Y, 1.0), r"`sample_weight` must have one row per row, 60, got shape \(\)"),
    ):
        with pytest.raises(InputError, match=words):
            chunks.chunk_of_array(*given)


def test_written_copies(tmp_path, monkeypatch):
    with pytest.raises(
        InputError, match=r"`cache` must be a folder that exists, got .*\. Make it, or pass None"
    ):
        chunks.OwnFolder(str(tmp_path / "none"))
    with pytest.raises(InputError, match="got 3"):
        chunks.OwnFolder(3)
    own = chunks.OwnFolder(str(tmp_path))
    assert own.path.parent == tmp_path
    assert own.path.name.startswith("kernelweave-")
    rows = WrittenRows(own.path)
    rows.write(Z)
    rows.write(sparse.csr_array(Z * (Z > 1)))
    assert [path.name for path in rows.paths] == ["0.npy", "1.npz"]
    same(rows.chunks({}), [Chunk(Z, None), Chunk(Z * (Z > 1), None)])
    assert isinstance(next(rows.chunks({})).Z, np.memmap)
    path = own.path
    monkeypatch.setattr(np, "save", lambda *args: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(
        InputError, match=r"room for the features, got an error after 2 chunks: No space left\. Name a"
    ):
        rows.write(Z)
    del own
    assert not path.exists()


def test_requests(tmp_path, recorded):
    """What is read of tables and arrays, and what is refused."""
    known = list(FRAME.columns)
    views = {"first": ["a", "b"], "rest": ["c", "d*"]}
    layout, blocks = Request(target="t", weight="w", groups=views).layout(known)
    assert (layout.columns, layout.targets, layout.weight) == (tuple("abcd"), ("t",), "w")
    assert (list(blocks.ends), blocks.names, blocks.columns) == ([0, 2, 4], ("first", "rest"), tuple("abcd"))
    file = tmp_path / "views.toml"
    file.write_text('[views]\nall = ["*"]\n')
    for path in (file, str(file)):
        layout, blocks = Request(target=["t", "u"], weight="w", groups=path).layout(known)
        assert (layout.columns, layout.single, blocks.names) == (tuple("abcde"), False, ("all",))
    layout, blocks = Request(target="t", weight="w", groups=[0, 3, 6]).layout(known)
    assert (layout.columns, blocks.ends, blocks.names, blocks.columns) == (
        tuple("abcdeu"), [0, 3, 6], None, tuple("abcdeu"),
    )  # fmt: skip
    assert Request(target="t", features=abs).layout(known)[1].columns is None
    layout, _ = Request(target="t", targets=False, groups=views).layout(known)
    assert layout.targets == ()
    assert Request(groups=[0, 5]).blocks() == sources.Blocks([0, 5])
    for request, words in (
        (Request(), r"`target` must name the column of the targets, got None\. Tables have names"),
        (
            Request(target="t", y=Y[:2]),
            r"`y` must be None for a table, got .*\. Name the columns with `target` and `weight`",
        ),
        (
            Request(target="t", sample_weight=3),
            r"`sample_weight` must be None for a table, got 3\. Name the columns",
        ),
        (
            Request(target="t", groups=views, columns=["a"]),
            r"`groups` must be a list of ends together with `columns` or",
        ),
        (
            Request(target="t", groups=views, features=abs),
            r"or `features`, got names of columns\. Leave `columns` out",
        ),
    ):
        with pytest.raises(InputError, match=words):
            request.layout(known)
    for request, words in (
        (
            Request(groups=views),
            r"`groups` must be a list of ends for arrays, got names of columns\. Arrays have none",
        ),
        (
            Request(target="t"),
            r"`target` must be None for arrays and iterators, got 't'\. Pass `y` and `sample_weight`",
        ),
        (Request(weight="w"), "`weight` must be None"),
        (Request(columns=["a"]), "`columns` must be None"),
    ):
        with pytest.raises(InputError, match=words):
            request.blocks()
    with pytest.raises(InputError, match=r"`y` must hold the targets of the rows of an array, got None"):
        Request().need_targets()
    Request(targets=False).need_targets()
    sizes = [
        Request(max_memory=memory).rows_of_chunk(n)
        for memory in (None, "1MB", 10**9)
        for n in (0, 1, 10, 10**5)
    ]
    recorded("sizes of chunks", sizes)


def test_what_is_opened(tmp_path):
    path = tmp_path / "rows.csv"
    FRAME.to_csv(path, index=False)
    table = Request(target="t", weight="w")
    for given, request, kind in (
        (path, table, files.FileRows),
        (str(path), table, files.FileRows),
        ([path], table, files.FileRows),
        ((str(path),), table, files.FileRows),
        (FRAME, table, FrameRows),
        (Z, Request(Y, WEIGHT), ArrayRows),
        (sparse.csr_array(Z), Request(Y), ArrayRows),
        ([(Z, Y)], Request(), IteratedRows),
        (iter([(Z, Y)]), Request(), IteratedRows),
        ([], Request(), IteratedRows),
        (Z, Request(Y, features=lambda X: X), Transformed),
    ):
        source, blocks = open_rows(given, request)
        assert type(source) is kind
        assert blocks.columns == (None if request.target is None else tuple("abcdeu"))
    for given in (3, {"a": 1}, b"x", dict, None):
        with pytest.raises(
            InputError, match=r"`rows` must be an array, a frame, a path of tables, or an iterator of"
        ):
            open_rows(given, Request())
    with pytest.raises(InputError, match=r"`y` must be None for an iterator, got .*\. Yield \(Z, y\) or"):
        open_rows([(Z, Y)], Request(Y))
    with pytest.raises(InputError, match="`y` must hold"):
        open_rows(Z, Request())
    assert open_rows(Z, Request(targets=False))[0].whole.y is None
    assert (
        open_rows(Z, Request(Y, max_memory="1MB"))[0].size == 6250
        or open_rows(Z, Request(Y))[0].size == 2**22 // 5
    )


def test_files_of_tables(tmp_path):
    pytest.importorskip("pyarrow")
    folder = tmp_path / "d"
    for name in (
        "b.csv",
        "sub/a.TSV.gz",
        ".hidden.csv",
        "_x/c.csv",
        "note.md",
        "c.parquet",
        "e.txt.zst",
        "gz",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    assert list(files.files_under(folder)) == [
        "b.csv",
        "c.parquet",
        "e.txt.zst",
        "gz",
        "note.md",
        "sub/a.TSV.gz",
    ]
    assert list(files.find_files(folder)) == ["b.csv", "c.parquet", "e.txt.zst", "sub/a.TSV.gz"]
    assert files.find_files(str(folder / "note.md")) == {"note.md": folder / "note.md"}
    two = [folder / "b.csv", folder / "c.parquet"]
    assert files.find_files(map(str, two)) == {"b.csv": two[0], "c.parquet": two[1]}
    (folder / "sub" / "b.csv").write_text("")
    both = [folder / "b.csv", folder / "sub" / "b.csv"]
    assert files.find_files(both) == {one.as_posix(): one for one in both}
    for given, words in (
        ("", "`rows` must name a file or folder, got an empty text"),
        (tmp_path / "none", "There is no file or folder .*none"),
        (folder / "_x" / "..", "never"),
        ([folder / "b.csv", folder], "There is no file .*d"),
    ):
        if words == "never":
            continue
        with pytest.raises(InputError, match=words):
            files.find_files(given)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        InputError, match=r"empty holds no tables\. They are files \.parquet, \.pq, \.csv, \.tsv, \.tab, \.tx"
    ):
        files.find_files(tmp_path / "empty")
    layout = chunks.make_layout(list(FRAME), target="t", weight="w", columns=list("abcde"))
    FRAME.to_parquet(tmp_path / "r.PQ")
    FRAME.to_csv(tmp_path / "r.csv", sep=";", index=False)
    FRAME.to_csv(tmp_path / "r.tab", sep="\t", index=False)
    FRAME.rename(columns={"a": "a|a|a"}).to_csv(tmp_path / "p.txt", index=False)
    for name in ("r.PQ", "r.csv", "r.tab"):
        path = tmp_path / name
        assert files.columns_of(path) == list(FRAME)
        source = files.FileRows({"x": path, "y": path}, layout, 25)
        assert source.total == (120 if name == "r.PQ" else None)
        for taken in ({}, {"x": 30, "y": 50}, {"x": 60}):
            found = list(source.chunks(taken))
            wanted = [
                Chunk(Z[k : k + 25], Y[k : k + 25], WEIGHT[k : k + 25], name, k)
                for name in "xy"
                for k in (0, 25, 50)
            ]
            wanted = [
                one
                for own in "xy"
                for one in chunks.beyond([c for c in wanted if c.source == own], taken.get(own, 0))
            ]
            assert [(one.source, one.first, len(one)) for one in found] == [
                (one.source, one.first, len(one)) for one in wanted
            ]
            for a, b in zip(found, wanted, strict=True):
                for part in ("Z", "y", "sample_weight"):
                    np.testing.assert_allclose(getattr(a, part), getattr(b, part), rtol=1e-12)
        assert [list(one.files) for one in source.pieces()] == [["x"], ["y"]]
    assert files.columns_of(tmp_path / "p.txt")[0] == "a|a|a"
    for name in ("r.PQ", "r.csv"):
        with pytest.raises(
            InputError, match=r"^f has no column 'z', which the first file has\. Leave the file out"
        ):
            list(files.FileRows({"f": tmp_path / name}, replace(layout, columns=("a", "z")), 9).chunks({}))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match=r"bad\.parquet cannot be read as Parquet: .*[^.]\.$"):
        files.columns_of(tmp_path / "bad.parquet")
    (tmp_path / "bad.csv").write_text("")
    with pytest.raises(InputError, match=r"bad\.csv cannot be read as a table: .*[^.]\.$"):
        files.columns_of(tmp_path / "bad.csv")


def test_folds_of_rows(recorded):
    recorded(
        "folds",
        [
            folds.folds_of_rows(0, 12, 5),
            folds.folds_of_rows(10**9, 12, 7, source="a/b.csv", seed=3),
            folds.folds_of_rows(3, 4, 3, source="f", by="file"),
        ],
    )
    every = folds.hashes_of_rows(5, 20, source="f", seed=2)
    np.testing.assert_array_equal(folds.hashes_of_rows(9, 4, source="f", seed=2), every[4:8])
    assert len(set(every.tolist())) == 20
    assert len(set(folds.hashes_of_rows(5, 20, source="f", by="file").tolist())) == 1


def numbers(statistics):
    """All that a statistic says of its rows."""
    return [
        statistics.n_rows, statistics.n_features, statistics.n_outputs, statistics.weight_sum, statistics.feature_means,
        statistics.target_means, statistics.squares(centered=True), dict(statistics.taken), statistics.names,
        statistics.columns,
    ]  # fmt: skip


def test_statistics_of_folds(tmp_path, recorded):
    found = block_statistics(
        Z, TWO, groups=GROUPS, sample_weight=WEIGHT, folds=3, seed=4, max_memory="1MB", progress=False
    )
    number = folds.folds_of_rows(0, 60, 3, seed=4)
    for k, part in enumerate(found.parts):
        own = number == k
        assert part.n_rows == own.sum()
        np.testing.assert_allclose(part.weight_sum, WEIGHT[own].sum())
        np.testing.assert_allclose(part.feature_means, np.average(Z[own], axis=0, weights=WEIGHT[own]))
        rest = found.without(k)
        np.testing.assert_allclose(rest.target_means, np.average(TWO[~own], axis=0, weights=WEIGHT[~own]))
        assert rest.n_rows == (~own).sum()
    assert repr(found) == "FoldStatistics(3 folds by row, 60 rows)"
    assert (found.n_folds, found.total_rows, found.n_features, found.taken) == (3, 60, 5, {"": 60})
    recorded("total", numbers(found.total))
    other = found.copy()
    assert other.parts[0] is not found.parts[0]
    other.merge(block_statistics(Z[:7], TWO[:7], groups=GROUPS, folds=3, seed=4))
    assert (other.total_rows, other.taken, found.total_rows) == (67, {"": 67}, 60)
    empty = found.empty()
    assert (empty.total_rows, empty.taken, empty.by, empty.seed, empty.n_folds) == (0, {}, "row", 4, 3)
    assert found.total_rows == 60
    with pytest.raises(InputError, match=r"`merge` takes other FoldStatistics, got"):
        found.merge(found)
    with pytest.raises(InputError, match="`merge` takes other FoldStatistics, got 3"):
        found.merge(3)
    for wrong, words in (
        (
            FoldStatistics(4, GROUPS, seed=4),
            r"the same `n_folds` to merge, got 3 and 4\. Their folds are different",
        ),
        (FoldStatistics(3, GROUPS, by="file", seed=4), r"the same `by` to merge, got 'row' and 'file'"),
        (FoldStatistics(3, GROUPS), r"the same `seed` to merge, got 4 and 0"),
    ):
        with pytest.raises(InputError, match=words):
            found.merge(wrong)
    state = found.state()
    assert state["folds"].tolist() == [3, 0, 4]
    again = FoldStatistics.of_state(state, "here")
    assert repr(numbers(again.total)) == repr(numbers(found.total))
    assert (again.by, again.seed, again.taken) == ("row", 4, found.taken)
    for change in ({"folds": state["folds"][:2]}, {"folds": np.array([3, 7, 4])}, {"folds": None}):
        with pytest.raises(InputError, match="here"):
            FoldStatistics.of_state({**state, **change} if change["folds"] is not None else {}, "here")
    by_file = FoldStatistics(3, GROUPS, by="file")
    with pytest.raises(InputError, match=r"`by` must be 'row' for rows that come from no file, got 'file'"):
        by_file.add(Z, Y)
    by_file.add(Z, Y, taken=("f", 60))
    assert sorted(part.n_rows for part in by_file.parts) == [0, 0, 60]
    steps = FoldStatistics(3, GROUPS).add(Z[:20], Y[:20]).add(Z[20:], Y[20:])
    at_once = FoldStatistics(3, GROUPS).add(Z, Y)
    assert [part.n_rows for part in steps.parts] == [part.n_rows for part in at_once.parts]
    ahead = FoldStatistics(3, GROUPS).add(Z[20:], Y[20:], first=20)
    number = folds.folds_of_rows(20, 40, 3)
    assert [part.n_rows for part in ahead.parts] == np.bincount(number, minlength=3).tolist()
    with pytest.raises(InputError, match=r"\(In f, rows 4 to 5 of `rows`\.\)"):
        folds.add_chunk(FoldStatistics(3, GROUPS), Chunk(Z[:2] * np.nan, Y[:2], None, "f", 4))


def test_statistics_of_sources(tmp_path, recorded):
    told = []

    def report(n, total):
        told.append((n, total))

    views = {"x": ["a", "b"], "y": ["c"], "z": ["d", "e"]}
    found = block_statistics(FRAME, target=["t", "u"], weight="w", groups=views, progress=report)
    assert told == [(60, 60)]
    recorded("frame", numbers(found))
    direct = block_statistics(Z, TWO, sample_weight=WEIGHT, groups=GROUPS)
    np.testing.assert_allclose(found.squares(centered=True), direct.squares(centered=True), rtol=1e-12)
    more = block_statistics(Z, Y, groups=GROUPS, features=lambda X: X * 2.0)
    np.testing.assert_allclose(more.feature_means, 2.0 * Z.mean(axis=0))
    into = block_statistics(Z[:40], Y[:40], groups=GROUPS)
    assert block_statistics(Z, Y, groups=GROUPS, into=into) is into
    np.testing.assert_allclose(into.feature_means, Z.mean(axis=0))
    assert into.taken == {"": 60}
    for options, words in (
        ({"into": 3}, "`into` must be BlockStatistics or FoldStatistics, got 3"),
        (
            {"into": into, "folds": 3},
            r"`into` must have 3 folds, as `folds` says, got BlockStatistics.*\. Leave `folds` out",
        ),
        (
            {"into": FoldStatistics(4, GROUPS), "folds": 3},
            r"`into` must have 3 folds, .*got FoldStatistics\(4",
        ),
        (
            {"max_memory": 100},
            r"`max_memory` must be at least 0 MB for products of 6 columns with each other, got 0 MB",
        ),
    ):
        with pytest.raises(InputError, match=words):
            block_statistics(Z, Y, **options)
    assert block_statistics(Z, Y, into=FoldStatistics(3, GROUPS), folds=3).n_folds == 3

    def broken():
        yield Z[:25], Y[:25]
        raise KeyboardInterrupt

    with pytest.warns(
        KernelWarning, match=r"^Interrupted: 25 rows are in\. Pass what is returned as `into` to continue\."
    ) as said:
        part = block_statistics(broken(), groups=GROUPS)
    assert part.n_rows == 25
    assert said[0].filename == __file__
    assert collecting._taken(SimpleNamespace(taken={"a": 1000, "b": 234})) == "1,234 rows of 2 files"
    assert [list(one) for one in collecting._shares(list(range(10)), 1)] == [
        [0, 1],
        [2, 3, 4],
        [5, 6],
        [7, 8, 9],
    ]
    assert [list(one) for one in collecting._shares([1, 2], 5)] == [[1], [2]]
    merged = collecting._merged([direct, found, found])
    assert (merged.n_rows, direct.n_rows) == (180, 60)


def test_memory_of_statistics(monkeypatch):
    """Half a matrix for each sum, and a whole one for a factor."""
    size = 1000
    block, fold = BlockStatistics(), FoldStatistics(4)
    for found, workers, halves in ((block, 0, 1), (fold, 0, 5), (block, 3, 7), (fold, 3, 29)):
        needed = 4.0 * size * (size + 1) * halves + 8.0 * size * size
        collecting._check_memory(found, size, needed + 1, workers)
        with pytest.raises(
            InputError, match=rf"at least {needed / 2**20:.0f} MB for products of 1000 columns"
        ):
            collecting._check_memory(found, size, needed - 1, workers)
        monkeypatch.setattr(
            collecting,
            "memory_budget",
            lambda given, needed=needed: 0.25 * (needed - 1) if given is None else given,
        )
        monkeypatch.setattr(collecting, "MEMORY_SHARE", 0.25)
        sums, whole = (needed - 8.0 * size * size) / 2**30, needed / 2**30
        with pytest.warns(
            KernelWarning,
            match=rf"1,000 columns .* take {sums:.1f} GB, .* {whole:.1f} GB, more than the {whole:.1f} GB",
        ):
            collecting._check_memory(found, size, None, workers)
        monkeypatch.undo()


def test_memory_is_that_of_the_columns_and_of_the_workers(monkeypatch):
    """Of seven columns without workers; with two there are four sums more, and rows are told as they come in."""
    one, two, told = 4.0 * 6 * 7 + 8.0 * 36, 4.0 * 7 * 8 + 8.0 * 49, []
    rows = [(Z[:30], TWO[:30]), (Z[30:], TWO[30:])]
    assert block_statistics(rows, groups=GROUPS, max_memory=two).n_outputs == 2
    with pytest.raises(InputError, match="products of 7 columns"):
        block_statistics(rows, groups=GROUPS, max_memory=two - 1.0)
    monkeypatch.setattr(sources, "LEAST", 1)
    with joblib.parallel_config(backend="threading"):
        given = {"groups": GROUPS, "n_jobs": 2, "progress": lambda n, total: told.append((n, total))}
        found = block_statistics(Z, Y, max_memory=one + 4 * 4.0 * 6 * 7, **given)
        with pytest.raises(InputError, match="products of 6 columns"):
            block_statistics(Z, Y, max_memory=one + 4 * 4.0 * 6 * 7 - 1.0, **given)
    np.testing.assert_allclose(found.feature_means, Z.mean(axis=0))
    assert told[-1] == (60, 60)
    assert [n for n, _ in told] == sorted({n for n, _ in told})
    assert len(told) > 1


def test_tasks_run_at_the_same_time_and_are_answered_in_their_order():
    done = threading.Event()

    def task(k):
        if k:
            done.set()
        return k if done.wait(5.0) else "alone"

    with joblib.parallel_config(backend="threading"):
        assert list(parallel.each(task, [(0,), (1,)], 2)) == [0, 1]


def test_samples(recorded):
    recorded(
        "sizes",
        [sampling.sample_size(n, budget) for n in (1, 50, 1000, 10**6) for budget in (1e4, 1e6, 1e9, 1e12)],
    )
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.normal(size=300) + 0.5
    weight = np.where(np.arange(300) % 7 == 0, 0.0, 1.0)
    hashes = folds.hashes_of_rows(0, 300, seed=sampling.SEED)
    wanted, shares = [], {}
    for own in (np.flatnonzero((y > 0) & (weight > 0)), np.flatnonzero((y <= 0) & (weight > 0))):
        kept = own[np.argsort(hashes[own])[:20]]
        wanted += kept.tolist()
        shares |= dict.fromkeys(kept.tolist(), len(own) / len(kept))

    def checked(found):
        assert found.positions.tolist() == sorted(wanted)
        np.testing.assert_array_equal(
            found.Z.toarray() if sparse.issparse(found.Z) else found.Z, X[found.positions]
        )
        np.testing.assert_allclose(found.weights, [shares[k] for k in found.positions])

    names = list(vars(_sample(X, y, weight, 40, [300]).result()))
    assert len(names) == 3
    for step in ([300], [10] * 30, [90, 10, 200]):
        checked(_named(_sample(X, y, weight, 40, step).result()))
    checked(_named(_sample(sparse.csr_array(X), y, weight, 41, [50, 250]).result()))
    first, second = sampling.Sampling(40), sampling.Sampling(40)
    first.add(X[:120], y[:120], weight[:120], 0, source="", first=0)
    second.add(X[120:], y[120:], weight[120:], 0, source="", first=120)
    first.merge(second, 120)
    checked(_named(first.result()))
    one = sampling.Sampling(1)
    assert one.half == 1
    one.add(X[:9], np.ones(9), np.ones(9), 5, source="", first=0)
    assert _named(one.result()).weights.tolist() == [9.0]


def _sample(X, y, weight, size, steps):
    found, at = sampling.Sampling(size), 0
    for step in steps:
        own = slice(at, at + step)
        found.add(X[own], y[own], weight[own], at, source="", first=at)
        at += step
    for side in (0, 1):
        held = sum(len(hashes) for hashes, _, _ in found._parts[side])
        assert held == found._held[side] <= 2 * found.half
    return found


def _named(found):
    Z, positions, weights = (getattr(found, name) for name in vars(found))
    return SimpleNamespace(Z=Z, positions=positions, weights=weights)


def test_predictions(recorded):
    statistics = block_statistics(Z, TWO, groups=GROUPS, sample_weight=WEIGHT)
    one = block_statistics(Z, Y, groups=GROUPS)
    path = kw.solvers.rls2_path(one, None, [1.0, 0.1], fit_intercept=True)
    several = kw.solvers.rls2_path(statistics, None, [1.0, 0.1, 0.01], fit_intercept=True)
    plain = kw.solvers.rls2_path(statistics, None, [1.0, 0.1], fit_intercept=False)
    for found in (path, several, plain, path.solutions[1], several.solutions[0]):
        solutions = found.solutions if hasattr(found, "solutions") else [found]
        wanted = np.stack([Z @ own.feature_coef + own.intercept for own in solutions], axis=1)
        wanted = wanted if hasattr(found, "solutions") else wanted[:, 0]
        for rows in (Z, sparse.csr_array(Z), [Z[:11], Z[11:]], pd.DataFrame(Z, columns=list("abcde"))):
            np.testing.assert_allclose(predict_rows(found, rows), wanted, rtol=1e-9)
        assert predict_rows(found, Z[:0]).shape == (0, *wanted.shape[1:])
        assert predict_rows(found, []).shape == (0, *wanted.shape[1:])
    told = []
    predict_rows(path, [Z[:11], Z[11:]], progress=lambda n, total: told.append((n, total)))
    assert told == [(11, None), (60, None)]
    np.testing.assert_allclose(
        predict_rows(path, FRAME, columns=list("abcde")), predict_rows(path, Z, n_jobs=2), rtol=1e-9
    )
    doubled = predict_rows(path, Z, features=lambda X: 2.0 * X)
    np.testing.assert_allclose(doubled, predict_rows(path, 2.0 * Z), rtol=1e-9)
    for wrong in (3, kw.solvers.rls2_path(np.stack([Z @ Z.T], axis=-1), Y, [1.0])):
        with pytest.raises(
            InputError,
            match=r"`solution` must be a solution or path with `feature_coef`, got .*\. Solve on a",
        ):
            predict_rows(wrong, Z)
    with pytest.raises(InputError, match=r"\(In rows 11 to 59 of `rows`\.\)"):
        predict_rows(path, [Z[:11], Z[11:, :4]])


def test_tensors_as_rows():
    torch = pytest.importorskip("torch")
    assert type(open_rows(torch.asarray(Z), Request(Y))[0]) is ArrayRows
    several = kw.solvers.rls2_path(
        block_statistics(Z, TWO, groups=GROUPS), None, [1.0, 0.1], fit_intercept=True
    )
    given = predict_rows(several, torch.asarray(Z))
    assert isinstance(given, torch.Tensor)
    np.testing.assert_allclose(given.numpy(), predict_rows(several, Z), rtol=1e-9)


def test_rows_in_passes(tmp_path):
    labels = np.where(Y > 0, 1.0, 0.0)
    told = []
    rows = kw.RowFeatures(
        [(Z[:25], labels[:25], WEIGHT[:25]), (Z[25:], labels[25:], WEIGHT[25:])], groups=GROUPS,
        progress=lambda n, total: told.append((n, total)),
    )  # fmt: skip
    assert told == [(25, None), (60, None)]
    assert repr(rows) == "RowFeatures(60 rows, 5 features in 3 blocks)"
    np.testing.assert_allclose(rows.sample_weight, WEIGHT)
    np.testing.assert_allclose(rows.square_sums, np.square(Z).sum(axis=0))
    weighted = np.square(Z).T @ WEIGHT
    np.testing.assert_allclose(rows.scales(), WEIGHT.sum() / np.add.reduceat(weighted, GROUPS[:-1]))
    assert rows.segments == [("", 0, 25), ("", 25, 35)]
    np.testing.assert_array_equal(rows.folds(3, seed=5), folds.folds_of_rows(0, 60, 3, seed=5))
    with pytest.raises(InputError, match="`by` must be 'row' for rows that come from no file, got 'file'"):
        rows.folds(3, by="file")
    rows.as_labels()
    np.testing.assert_array_equal(rows.y, np.where(Y > 0, 1.0, -1.0))
    numbers = kw.RowFeatures(Z, Y, groups=GROUPS)
    numbers.as_labels()
    np.testing.assert_array_equal(numbers.y, Y)
    np.testing.assert_allclose(numbers.scales(), 60 / np.add.reduceat(np.square(Z).sum(axis=0), GROUPS[:-1]))
    zero = kw.RowFeatures(Z * [1, 1, 0, 1, 1], Y, groups=GROUPS)
    assert zero.scales()[1] == 1.0

    def work(X, beside):
        return [X[:, 0] * beside[0]], (X.sum(axis=0), np.array([len(X)]))

    told.clear()
    vectors, sums = rows.over_all(work, [WEIGHT])
    np.testing.assert_allclose(vectors[0], Z[:, 0] * WEIGHT)
    np.testing.assert_allclose(sums[0], Z.sum(axis=0))
    assert sums[1] == [60]
    assert told == [(25, 60), (60, 60)]
    parts = kw.RowFeatures(Z, Y, groups=GROUPS, n_jobs=1, cache=tmp_path, progress=False)
    np.testing.assert_allclose(parts.over_all(work, [WEIGHT])[0][0], Z[:, 0] * WEIGHT)
    assert [one.relative_to(tmp_path).parts[1] for one in tmp_path.rglob("*.npy")] == ["0"]
    for make, words in (
        (
            lambda: kw.RowFeatures(iter([(Z, Y)])),
            r"`rows` must be readable several times, got an iterator, .*Pass the fun",
        ),
        (lambda: kw.RowFeatures([], groups=GROUPS), "`rows` must hold at least one row, got none"),
        (
            lambda: kw.RowFeatures(Z, Y, sample_weight=np.zeros(60)),
            "must be positive for at least one row, got zeros only",
        ),
        (lambda: kw.RowFeatures([(Z, TWO)]), "`y` must have one column, got 2"),
        (lambda: kw.RowFeatures([(Z, Y), (Z[:, :4], Y)]), "`Z` must have 5 columns, as before"),
    ):
        with pytest.raises(InputError, match=words):
            make()
    changing = [(Z, Y)]
    again = kw.RowFeatures(lambda: iter(changing), groups=GROUPS)
    for now, words in (([(Z[:50], Y[:50])], "got 50"), ([(Z, Y), (Z, Y)], "got more")):
        changing[:] = now
        with pytest.raises(
            InputError,
            match=rf"must give the same rows in every pass, 60 of them in this part, {words}\. Leave",
        ):
            again.over_all(work, [WEIGHT])
    scan, other = row_features.Scan(), row_features.Scan()
    scan.merge(other)
    assert scan.sampling is None
    for own, width in ((scan, 2), (other, 3)):
        own.sampling, own.square_sums = sampling.Sampling(4), np.ones((2, width))
    with pytest.raises(InputError, match="All rows must have 2 features, as the first, got 3"):
        scan.merge(other)


def test_cross_validation_from_statistics(recorded):
    for name, y, options in (
        ("one", Y, {"rule": "1se"}),
        ("two", TWO, {"shared_weights": False, "scale": [1.0, 2.0, 0.5]}),
        ("without intercept", TWO + 1.0, {"fit_intercept": False, "tol": 1e-6}),
    ):
        given = block_statistics(Z, y, groups=GROUPS, sample_weight=WEIGHT, folds=3)
        found = validation.rls2_path_cv(given, [10.0, 1.0, 0.1], **options)
        number = folds.folds_of_rows(0, 60, 3)
        for k in range(3):
            own = number == k
            f = np.einsum("np,ap...->an...", Z[own], found.fold_coef[k])
            f = f + (found.fold_intercept[k][:, None, :] if f.ndim == 3 else found.fold_intercept[k][:, None])
            mse = np.average(np.square(y[own] - f), axis=1, weights=WEIGHT[own])
            np.testing.assert_allclose(found.mse[k], mse, rtol=1e-7)
            mean = np.average(y[own], axis=0, weights=WEIGHT[own])
            variance = np.average(np.square(y[own] - mean), axis=0, weights=WEIGHT[own])
            np.testing.assert_allclose(found.r2[k], 1.0 - mse / variance, rtol=1e-7)
            np.testing.assert_allclose(found.fold_weights[k], WEIGHT[own].sum())
        recorded(
            name,
            [found.mse, found.r2, found.fold_coef, found.fold_intercept, found.best_index, found.rule, found.alphas,
             found.mean_mse, found.se_mse, found.pooled_r2, found.target_variance, found.alpha, found.scores,
             found.best.feature_coef, found.n_folds],
            rtol=1e-4,
        )  # fmt: skip
        scores = found.scores
        np.testing.assert_allclose(found.se_mse, scores.std(axis=0, ddof=1) / np.sqrt(3))
    # shares of the variance have no unit
    small = block_statistics(Z, 1e-3 * Y, groups=GROUPS, sample_weight=WEIGHT, folds=3)
    large = block_statistics(Z, Y, groups=GROUPS, sample_weight=WEIGHT, folds=3)
    shares = [validation.rls2_path_cv(one, [10.0, 0.1], tol=1e-8).r2 for one in (small, large)]
    np.testing.assert_allclose(*shares, rtol=1e-6)
    same = block_statistics(Z, np.ones(60), groups=GROUPS, folds=3)
    assert np.isnan(validation.rls2_path_cv(same, [1.0]).pooled_r2).all()
    parts = validation.rls2_path_cv(given.parts, [10.0, 1.0], fit_intercept=False)
    np.testing.assert_allclose(
        parts.mse, validation.rls2_path_cv(given, [10.0, 1.0], fit_intercept=False).mse
    )
    for wrong, words in (
        (
            [given.parts[0]],
            r"`folds` must be FoldStatistics or a list of at least two BlockStatistics, got .*Pass",
        ),
        (3, "got 3"),
        (
            [given.parts[0], given.parts[0].empty()],
            r"`folds` must all have rows, but fold 1 has none\. Take fewer folds",
        ),
    ):
        with pytest.raises(InputError, match=words):
            validation.rls2_path_cv(wrong)
    with pytest.warns(
        KernelWarning, match=r"3 of 3 paths without a fold have solutions that did not reach `tol`"
    ) as said:
        validation.rls2_path_cv(given, [1.0, 1e-4], tol=1e-12, max_iter=1)
    assert any(one.filename == __file__ for one in said)


def test_cross_validation_in_passes(recorded):
    labels = np.where(Y > 0.1, 1.0, -1.0)
    rows = kw.RowFeatures(Z, labels, groups=GROUPS, sample_weight=WEIGHT)
    number = folds.folds_of_rows(0, 60, 3, seed=1)
    for name, options in (
        ("labels", {}), ("loss", {"scoring": "loss", "rule": "1se", "loss": "logistic"}), ("area", {"scoring": "auc"}),
    ):  # fmt: skip
        found = validation.svm_mkl_path_cv(
            rows, [1.0, 0.1], folds=3, seed=1, tol=1e-7, max_iter=300, **options
        )
        np.testing.assert_allclose(found.Cs, [0.1, 1.0])
        for k in range(3):
            own = number == k
            f = Z[own] @ found.fold_coef[k].T + found.fold_intercept[k]
            right = np.average((f > 0) == (labels[own, None] > 0), axis=0, weights=WEIGHT[own])
            np.testing.assert_allclose(found.accuracy[k], right)
        recorded(
            name,
            [found.loss, found.accuracy, found.auc, found.scores, found.best_index, found.C, found.scoring, found.rule,
             found.mean_loss, found.mean_accuracy, found.mean_auc, found.standard_error, found.fold_weights],
            rtol=1e-4,
        )  # fmt: skip
    targets = kw.RowFeatures(Z, Y, groups=GROUPS)
    found = validation.svm_mkl_path_cv(targets, [1.0], loss="huber", folds=2)
    assert found.scoring == "loss"
    assert np.isnan(found.accuracy).all()
    with pytest.raises(
        InputError, match=r"`scoring` must be 'loss' for targets that are no labels, got 'auc'"
    ):
        validation.svm_mkl_path_cv(targets, [1.0], loss="huber", scoring="auc")
    with pytest.raises(
        InputError, match=r"`rows` must be RowFeatures, got .*\. Make them with kw\.RowFeatures"
    ):
        validation.svm_mkl_path_cv(Z, [1.0])
    few = kw.RowFeatures(Z[:4], labels[:4], groups=GROUPS)
    with pytest.raises(
        InputError, match=r"Every fold must have rows, got \[.*\] as weights\. Take fewer folds"
    ):
        validation.svm_mkl_path_cv(few, [1.0], folds=30)
    alone = kw.RowFeatures(
        Z, np.where(np.arange(60) == np.flatnonzero(number == 0)[0], 1.0, -1.0), groups=GROUPS
    )
    with pytest.raises(
        InputError,
        match=r"rows of both classes for scoring='auc', got 2 folds with one\. Take fewer folds, or",
    ):
        validation.svm_mkl_path_cv(alone, [1.0], folds=3, seed=1, scoring="auc")


def test_lines_of_progress(monkeypatch):
    class Terminal:
        def __init__(self):
            self.texts, self.terminal = [], True

        def write(self, text):
            self.texts.append(text)

        def flush(self):
            self.texts.append("flushed")

        def isatty(self):
            return self.terminal

    now, screen = [100.0], Terminal()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", screen)
    with progress.reporting(None) as report:
        for at, rows, total in (
            (101.9, 10, 100),
            (102.0, 1000, 4000),
            (102.4, 1100, 4000),
            (102.5, 2000, None),
            (109.0, 0, 50),
        ):
            now[0] = at
            report(rows, total)
    assert [text for text in screen.texts if text != "flushed"] == [
        "\r1,000 of 4,000 rows, about 6 s left\x1b[K", "\r2,000 rows\x1b[K", "\r0 of 50 rows\x1b[K", "\r\x1b[K",
    ]  # fmt: skip
    assert screen.texts.count("flushed") == 4
    screen.texts.clear()
    screen.terminal = False
    with progress.reporting(True) as report:
        now[0] += 50
        report(1, 2)
    with progress.reporting(False) as report:
        report(1, 2)
    assert screen.texts == []
    with pytest.raises(
        InputError, match=r"`progress` must be a function of rows and total, True, False or None, got 3"
    ):
        progress.reporting(3).__enter__()


def test_tasks_for_workers(monkeypatch):
    """A client of Dask that loses a task now and then."""
    pytest.importorskip("distributed")
    from distributed.scheduler import KilledWorker

    class Future:
        def __init__(self, call, fails=()):
            self.call, self.fails = call, list(fails)

        def result(self):
            if self.fails:
                raise self.fails.pop(0)
            return self.call()

    class Client:
        status = "running"

        def __init__(self):
            self.sent, self.cancelled, self.lost = [], [], 0

        def scatter(self, held, hash):
            self.sent.append((held, hash))
            return held

        def submit(self, function, *held, **options):
            assert options == {"pure": False, "retries": 3}
            self.lost -= 1
            return Future(lambda: function(*held), [CancelledError()] if self.lost >= 0 else [])

        def cancel(self, futures):
            self.cancelled.append(len(futures))

    client = Client()
    monkeypatch.setattr(parallel, "dask_client", lambda: client)
    client.lost = 2
    assert list(parallel.each(lambda a, b: a - b, [(5, 1), (7, 2), (9, 3)], None)) == [4, 5, 6]
    assert client.sent[0] == ([5, 1], False)
    assert client.cancelled == [0]
    assert len(client.sent) == 5
    some = parallel.each(lambda a: a, [(1,), (2,), (3,)], None)
    assert next(some) == 1
    some.close()
    assert client.cancelled[-1] == 2

    def lost():
        return Future(int, [CancelledError()])

    with pytest.raises(
        RuntimeError, match=r"The cluster of Dask ended, or its client was closed, before the work was"
    ):
        parallel.completed(client, lost(), lost)
    left = [lost(), lost(), Future(lambda: 8)]
    assert parallel.completed(client, lost(), lambda: left.pop(0)) == 8
    with pytest.raises(
        RuntimeError, match=r"A part of the rows was given to 4 workers of Dask, and all of them ended"
    ):
        parallel.completed(client, Future(int, [KilledWorker("x", None, 3)]), lost)
    client.status = "closed"
    left = [Future(lambda: 8)]
    with pytest.raises(RuntimeError, match="The cluster of Dask ended"):
        parallel.completed(client, lost(), lambda: left.pop(0))
    monkeypatch.undo()
    assert parallel.dask_client() is None
    assert list(parallel.each(max, [(1, 2), (4, 3)], 1)) == [2, 4]


def test_dask_collections():
    pytest.importorskip("dask")
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    rows = da.from_array(Z, chunks=((25, 35), (2, 3)))
    assert dask_rows.is_dask(rows)
    assert not dask_rows.is_dask(Z)
    source = dask_rows.DaskRows(rows, Y, WEIGHT)
    assert source.total is None
    same(
        source.chunks({}),
        [Chunk(Z[:25], Y[:25], WEIGHT[:25], "", 0), Chunk(Z[25:], Y[25:], WEIGHT[25:], "", 25)],
    )
    assert [(one.source, one.first) for one in source.pieces()] == [("", 0), ("", 25)]
    same(
        dask_rows.DaskRows(rows, TWO).chunks({}),
        [Chunk(Z[:25], TWO[:25]), Chunk(Z[25:], TWO[25:], None, "", 25)],
    )
    unknown = rows[rows[:, 0] > -9.0]
    two = da.from_array(TWO, chunks=((25, 35), (1, 1)))
    found = list(dask_rows.DaskRows(unknown, two).chunks({}))
    assert [(one.source, one.first, one.y.shape) for one in found] == [
        ("partition 0", 0, (25, 2)), ("partition 1", 0, (35, 2)),
    ]  # fmt: skip
    with pytest.raises(
        InputError, match=r"`y` must have as many blocks as the rows, 2, whose sizes are not known, got 1"
    ):
        dask_rows.DaskRows(unknown, da.from_array(Y, chunks=60))
    with pytest.raises(InputError, match=r"`sample_weight` must have one row per row, 60, got 59"):
        dask_rows.DaskRows(rows, Y, WEIGHT[1:])
    with pytest.raises(
        InputError, match=r"`rows` must have shape \(n_samples, n_features\), got 1 dimensions"
    ):
        dask_rows.DaskRows(rows[:, 0], Y)
    layout = chunks.make_layout(list(FRAME), target="t", weight="w", columns=list("abcde"))
    frame = dask_rows.DaskRows(dd.from_pandas(FRAME, npartitions=2), layout=layout)
    found = list(frame.chunks({}))
    np.testing.assert_array_equal(np.concatenate([one.Z for one in found]), Z)
    np.testing.assert_array_equal(np.concatenate([one.sample_weight for one in found]), WEIGHT)
    assert [(one.source, one.first) for one in found] == [("partition 0", 0), ("partition 1", 0)]
    wide = da.from_array(Z, chunks=((10,) * 6, 5))
    statistics = block_statistics(wide, Y, groups=GROUPS, sample_weight=WEIGHT)
    direct = block_statistics(Z, Y, groups=GROUPS, sample_weight=WEIGHT)
    np.testing.assert_allclose(statistics.squares(centered=True), direct.squares(centered=True), rtol=1e-9)
    assert statistics.n_rows == 60
    path = kw.solvers.rls2_path(block_statistics(Z, TWO, groups=GROUPS), None, [1.0, 0.1], fit_intercept=True)
    given = predict_rows(path, wide, features=None)
    assert given.chunks == ((10,) * 6, (2,), (2,))
    np.testing.assert_allclose(given.compute(), predict_rows(path, Z), rtol=1e-9)
    one = predict_rows(path.solutions[0], dd.from_pandas(FRAME, npartitions=2), columns=list("abcde"))
    np.testing.assert_allclose(one.compute(), predict_rows(path.solutions[0], Z), rtol=1e-9)
    with pytest.raises(
        InputError, match=r"`cache` must be None for Dask collections, got '.'\. Persist the collection"
    ):
        kw.RowFeatures(rows, Y, cache=".")
    passes = kw.RowFeatures(rows, Y, groups=GROUPS)
    assert passes.segments == [("", 0, 25), ("", 25, 35)]
