"""Data sets: what they say, where they come from, and what is refused.

Modules: `datasets`, `datasets/encoding`, `datasets/faults`, `datasets/finding`, `datasets/fourteen_cancers`,
`datasets/reading`, `datasets/registry`.
"""

import csv
import http.server
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from kernelweave import InputError, datasets
from kernelweave.datasets import finding, fourteen_cancers, info
from kernelweave.datasets.encoding import encode
from kernelweave.datasets.faults import find_fault
from kernelweave.datasets.reading import (
    Layout,
    RawTable,
    content_checksum,
    read_bytes,
    read_delimited,
    read_table,
)
from kernelweave.datasets.registry import registry
from recording import outcome

SMALL = [
    name
    for name, row in registry().items()
    if row.n_samples * row.n_features < 500_000 and name != "14cancer"
]

#: Published counts: rows after dropping incomplete ones, columns after encoding, smallest class or None.
FACTS = {
    "autompg": (392, 7, None), "cpu": (209, 36, None), "cpu_with_erp": (209, 37, None), "servo": (167, 12, None),
    "housing": (506, 13, None), "prostate": (97, 8, None), "heart": (270, 13, 120), "liver": (345, 6, 145),
    "pima": (768, 8, 268), "ionosphere": (351, 33, 126), "wpbc": (194, 33, 46), "wpbc_with_id": (194, 34, 46),
    "sonar": (208, 60, 97), "fourclass": (862, 2, 307), "splice": (1000, 60, 483), "german_numeric": (1000, 24, 300),
    "musk1": (476, 166, 207), "wdbc": (569, 30, 212), "colon": (62, 2000, 22), "monk3": (432, 6, 204),
    "colon-log": (62, 2000, 22),
    "postoperative": (87, 23, 1), "tictactoe": (958, 27, 332), "ilpd": (579, 11, 165), "bcw_original": (683, 9, 239),
    "australian": (690, 14, 307), "credit": (653, 46, 296), "srbct": (83, 2308, 11), "binarystrings": (250, 100, None),
    "haberman": (306, 3, 81),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder and an empty cache."""
    monkeypatch.setenv("KERNELWEAVE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("KERNELWEAVE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def write(folder: Path, name: str, columns, rows) -> Path:
    path = folder / registry()[name].file.removesuffix(".gz")
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def original(data_dir: Path, name: str):
    path = data_dir / registry()[name].file
    if not path.is_file():
        pytest.skip(f"{path.name} is not in the data folder")
    return read_table(read_bytes(path), path.name)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(FACTS))
def test_sizes_and_classes(name, data_dir):
    original(data_dir, name)
    data = datasets.load(name)
    n, p, smallest = FACTS[name]
    assert data.X.shape == (n, p)
    assert data.found == "data folder"
    assert len(data.feature_names) == p
    assert np.isfinite(data.X).all()
    if smallest is None:
        assert data.task == "regression"
    else:
        assert np.bincount(data.y).min() == smallest


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SMALL)
def test_files_say_what_the_registry_says(name, data_dir):
    table = original(data_dir, name)
    row = registry()[name]
    assert content_checksum(table) == row.content_sha256
    assert len(table.rows) == row.n_samples
    for text in (row.title, row.source, row.licence, row.how):
        assert text


def test_checksum_reads_numbers_by_value_and_rows_in_any_order(data_dir):
    table = original(data_dir, "heart")
    same = [[f"{float(cell):.6f}" for cell in row] for row in reversed(table.rows)]
    assert content_checksum(type(table)(table.columns, same)) == content_checksum(table)
    same[3][4] = "1"
    assert content_checksum(type(table)(table.columns, same)) != content_checksum(table)


def test_special_columns(data_dir):
    original(data_dir, "cpu")
    cpu, leaky = datasets.load("cpu"), datasets.load("cpu_with_erp")
    assert "ERP" not in cpu.feature_names
    assert np.corrcoef(leaky.X[:, leaky.feature_names.index("ERP")], leaky.y)[0, 1] > 0.95
    vendors = [j for j, name in enumerate(cpu.feature_names) if name.startswith("vendor=")]
    assert len(vendors) == 30
    assert (cpu.X[:, vendors].sum(axis=1) == 1).all()
    prostate = datasets.load("prostate")
    # 1-based rows of the test set as listed in the book's file
    assert (np.flatnonzero(~prostate.train)[:5] + 1).tolist() == [7, 9, 10, 15, 22]
    assert "train" not in prostate.feature_names
    srbct = datasets.load("srbct")
    assert (srbct.train.sum(), (~srbct.train).sum()) == (63, 20)


@pytest.mark.parametrize(("name", "protocol", "standard"), [
    ("heart", "rls2", True), ("sonar", "rls2", False), ("sonar", "rkl", True), ("pima", "mlmkl", False),
])  # fmt: skip
def test_protocols_standardise_what_the_papers_do(name, protocol, standard, data_dir):
    original(data_dir, name)
    data = datasets.load(name, protocol=protocol)
    assert data.standardized is standard
    if standard:
        np.testing.assert_allclose(data.X.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(data.X.std(axis=0, ddof=1), 1.0, rtol=1e-12)
    else:
        np.testing.assert_array_equal(data.X, datasets.load(name).X)


def test_standardised_columns_by_their_definition_and_constant_ones_are_zero():
    table = RawTable(
        ["a", "b", "target"], [["1", "7", "2"], ["2", "7", "3"], ["6", "7", "5"], ["", "7", "1"]]
    )
    made = partial(encode, info("servo"), table, found="here", standardize=True)
    dropped, kept = made(missing="drop"), made(missing="keep")
    column = np.array([1.0, 2.0, 6.0])
    wanted = (column - column.mean()) / np.sqrt(np.square(column - column.mean()).sum() / 2)
    np.testing.assert_allclose(dropped.X, np.c_[wanted, np.zeros(3)])
    np.testing.assert_allclose(kept.X[:, 0], [*wanted, np.nan])
    assert not kept.X[:, 1].any()
    assert (dropped.n_dropped, kept.n_dropped) == (1, 0)
    assert dropped.y.tolist() == [2.0, 3.0, 5.0]


def test_versions_by_steps_are_made_from_the_numbers_of_the_file(data_dir):
    """colon-log: logarithms, then every row, then for the protocol every column; colon stays raw."""
    original(data_dir, "colon")
    raw, version = datasets.load("colon"), datasets.load("colon-log")
    logs = np.log10(raw.X)
    rows = (logs - logs.mean(axis=1, keepdims=True)) / logs.std(axis=1, ddof=1, keepdims=True)
    np.testing.assert_allclose(version.X, rows, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(version.y, raw.y)
    columns = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    np.testing.assert_allclose(datasets.load("colon-log", protocol="rkl").X, columns, rtol=1e-10, atol=1e-12)
    assert raw.X.min() > 5


def test_missing_cells_can_be_kept(data_dir):
    original(data_dir, "ilpd")
    kept = datasets.load("ilpd", missing="keep")
    assert kept.X.shape[0] == 583
    assert kept.n_dropped == 0
    assert np.isnan(kept.X).sum() == 4
    assert datasets.load("ilpd").n_dropped == 4


def test_missing_categories_set_no_indicator(data_dir):
    original(data_dir, "credit")
    kept = datasets.load("credit", missing="keep")
    first = [j for j, name in enumerate(kept.feature_names) if name.startswith("A1=")]
    assert (kept.X[:, first].sum(axis=1) == 0).sum() == 12


def test_signs_and_frames(data_dir):
    original(data_dir, "sonar")
    data = datasets.load("sonar")
    assert data.target_names == ("M", "R")
    assert (data.signs == np.where(data.y == 1, 1, -1)).all()
    frame = data.frame()
    assert frame.shape == (208, 61)
    assert set(frame["target"]) == {"M", "R"}
    with pytest.raises(InputError, match="regression"):
        _ = datasets.load("prostate").signs


def test_bundled_tables_need_no_files(folder, monkeypatch):
    monkeypatch.delenv("KERNELWEAVE_DATA")
    data = datasets.load("wdbc")  # a warning here would mean that the two copies differ
    assert data.found == "scikit-learn"
    assert data.target_names == ("B", "M")
    assert np.bincount(data.y).tolist() == [357, 212]


def test_names_of_a_paper_are_those_of_its_tables():
    tables = {
        "rls2": ({"autompg", "servo", "prostate", "sonar", "liver"}, {"monk3", "colon", "srbct"}),
        "rkl": ({"fourclass", "splice", "colon", "sonar", "liver"}, {"servo", "monk3", "srbct"}),
        "mlmkl": ({"monk3", "tictactoe", "credit", "sonar", "liver"}, {"servo", "colon", "srbct"}),
    }
    for protocol, (used, others) in tables.items():
        names = datasets.names(protocol)
        assert used <= set(names)
        assert others.isdisjoint(names)
    assert set(datasets.names()) >= set.union(*(used | others for used, others in tables.values()))


def test_unknown_names_and_settings():
    with pytest.raises(InputError, match="Did you mean 'heart'"):
        datasets.load("hart")
    with pytest.raises(InputError, match="not used by the protocol 'mlmkl'"):
        datasets.load("heart", protocol="mlmkl")
    with pytest.raises(InputError, match="'drop' or 'keep'"):
        datasets.load("heart", missing="impute")
    with pytest.raises(InputError, match="`protocol` must be"):
        datasets.names("svm")


# ---- copies that are not what they should be ------------------------------------------------------


def corrupted(name, table):
    """Each known fault, made from the sound copy."""
    columns = list(table.columns)
    rows = [list(row) for row in table.rows]

    def change(column, function):
        j = columns.index(column)
        for row in rows:
            row[j] = function(row[j])

    if name in ("heart", "australian", "credit"):
        column = "oldpeak" if name == "heart" else "A2"
        change(column, lambda cell: cell.replace(".", ""))
    elif name == "prostate":
        rows[31][columns.index("lweight")] = "6.1075795"
    elif name == "sonar":
        rows = [[*(f"{float(c):.3f}" for c in row[:-1]), row[-1]] for row in rows]
    elif name == "servo":
        ranks = sorted({float(row[-1]) for row in rows})
        rows = [[*row[:-1], str(ranks.index(float(row[-1])) + 1)] for row in rows]
    elif name == "autompg":
        change("model_year", lambda cell: "82" if float(cell) == 81 else cell)
    elif name == "cpu":
        rows[147][-1] = "110"
    elif name in ("wpbc", "ilpd"):
        rows = [[cell or "0" for cell in row] for row in rows]
    elif name == "monk3":
        rows = [[*row[:-1], str(int(sum(int(c) == 1 for c in row[:-1]) == 2))] for row in rows]
    return columns, rows


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [
    "heart", "australian", "credit", "prostate", "sonar", "servo", "autompg", "cpu", "wpbc", "ilpd", "monk3",
])  # fmt: skip
def test_known_faults_are_refused_with_the_reason(name, data_dir, folder):
    table = original(data_dir, name)
    write(folder, name, *corrupted(name, table))
    with pytest.raises(InputError, match=f"corrupted copy of {name}: ") as told:
        datasets.load(name)
    # those of KEEL are here under another name
    assert ("_keel" in str(told.value)) == ("KEEL" in str(told.value))
    write(folder, name, table.columns, table.rows)
    assert datasets.load(name).found == "data folder"


@pytest.mark.parametrize(("name", "column"), [("heart", "oldpeak"), ("australian", "A2"), ("credit", "A2")])
def test_the_real_corrupted_copies(name, column, data_dir, folder):
    bad = original(data_dir, f"{name}_keel")
    write(folder, name, bad.columns, bad.rows)
    with pytest.raises(InputError, match=f"decimal point.*'{name}_keel'"):
        datasets.load(name)
    write(folder, f"{name}_keel", bad.columns, bad.rows)
    data = datasets.load(f"{name}_keel")
    assert data.X[:, data.feature_names.index(column)].max() > 50


def test_other_differences_are_a_warning(data_dir, folder):
    table = original(data_dir, "liver")
    rows = [list(row) for row in table.rows]
    rows[5][0] = "77"
    write(folder, "liver", table.columns, rows)
    with pytest.warns(datasets.DataWarning, match="differs from the copy"):
        datasets.load("liver")


@pytest.mark.parametrize(("text", "message"), [
    ("a,b\n1,2\n", "last column is 'target'"),
    ("mcv,target\n1,2\n1\n", "Line 3 of liver.csv must have 2 cells, got 1"),
    ("", "got 0 lines"),
])  # fmt: skip
def test_unreadable_tables(folder, text, message):
    (folder / "liver.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        datasets.load("liver")


def test_unreadable_bytes(folder):
    (folder / "liver.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        datasets.load("liver")
    (folder / "liver.csv").unlink()
    (folder / "liver.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(InputError, match=r"Cannot read liver.csv.gz: Not a gzipped file \(b'no'\)\. Check"):
        datasets.load("liver")
    (folder / "liver.csv.gz").unlink()
    (folder / "liver.csv").mkdir()
    with pytest.raises(InputError, match=r"Cannot read liver.csv: Is a directory\. Check"):
        read_bytes(folder / "liver.csv")


@pytest.mark.filterwarnings("ignore::kernelweave.datasets.DataWarning")
def test_tables_that_do_not_fit(folder):
    (folder / "cpu.csv").write_text("vendor,target\nx,1\ny,2\n")
    with pytest.raises(InputError, match=r"must have the columns \['ERP'\]"):
        datasets.load("cpu")
    (folder / "cpu.csv").write_text("MYCT,ERP,target\n1,2,1\n2,3,2\n")
    with pytest.raises(InputError, match=r"must have the columns \['vendor'\], got \['MYCT'"):
        datasets.load("cpu")
    (folder / "liver.csv").write_text("mcv,target\n1,1\n2,1\n")
    with pytest.raises(InputError, match="must have two classes, got 1"):
        datasets.load("liver")
    (folder / "housing.csv").write_text("crim,target\n1,high\n2,low\n")
    with pytest.raises(InputError, match="must be numbers"):
        datasets.load("housing")
    (folder / "liver.csv").write_text("mcv,target\n,1\n2,\n")
    with pytest.raises(InputError, match="no complete row"):
        datasets.load("liver")


def test_folder_that_is_none(monkeypatch):
    monkeypatch.setenv("KERNELWEAVE_DATA", "/no/such/folder")
    with pytest.raises(InputError, match="must name a folder"):
        datasets.load("heart")


# ---- downloads ------------------------------------------------------------------------------------


class Site(http.server.BaseHTTPRequestHandler):
    """Serves `content`; the first `cuts` answers end in the middle."""

    content = b""
    cuts = 0
    requests: ClassVar[list[int]] = []

    def do_GET(self):
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        type(self).requests.append(start)
        body = self.content[start:]
        if start >= len(self.content) > 0 and start:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if type(self).cuts > 0:
            type(self).cuts -= 1
            body = body[: len(body) // 2]
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def site(monkeypatch):
    """A site on this machine; ``site(name, content)`` makes it the address of a data set."""
    monkeypatch.setattr(Site, "requests", [])
    monkeypatch.setattr(Site, "cuts", 0)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def serve(name, content):
        monkeypatch.setattr(Site, "content", content)
        row = registry()[name]
        changed = dict(registry())
        changed[name] = type(row)(**{**vars(row), "url": f"http://127.0.0.1:{server.server_port}/{name}"})
        monkeypatch.setattr(datasets, "info", lambda wanted: changed[wanted])
        return Site

    yield serve
    server.shutdown()
    server.server_close()


def published(name, table) -> bytes:
    """A table in the layout of its site."""
    layout = registry()[name].layout
    order = layout.order or table.columns
    back = {ours: theirs for theirs, ours in layout.recode}
    lines = ["header"] * layout.skip
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        cells["target"] = back.get(cells["target"], cells["target"])
        if layout.sparse:
            pairs = [f"{j + 1}:{cells[c]}" for j, c in enumerate(table.columns[:-1]) if float(cells[c]) != 0]
            lines.append(" ".join([cells["target"], *pairs]))
        else:
            lines.append(layout.separator.join(cells.get(column, '"extra"') or "?" for column in order))
    return "\n".join(lines).encode()


def test_sparse_files_count_columns_from_one():
    found = read_delimited(b"+1 1:0.5 3:2\n-1 2:1\n", "some", Layout(sparse=True), ("a", "b", "c", "target"))
    assert found.rows == [["0.5", "0", "2", "1"], ["0", "1", "0", "-1"]]


def test_lines_of_a_header_may_be_empty():
    found = read_delimited(b"Title\n\n\n1,?\n\n3,4\n", "some", Layout(skip=3), ("a", "target"))
    assert found.rows == [["1", ""], ["3", "4"]]


def test_labels_of_a_file_are_ours_and_its_features_stay():
    layout = Layout(recode=(("1", "good"), ("2", "bad")), order=("target", "left", "a", "b"))
    found = read_delimited(b"1,x,2,1\n2,x,1,?\n3,x,4,5\n", "some", layout, ("b", "a", "target"))
    assert found.rows == [["1", "2", "good"], ["", "1", "bad"], ["5", "4", "3"]]


WITH_ADDRESS = [name for name in SMALL if registry()[name].url]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", WITH_ADDRESS)
def test_downloads_in_the_published_layout(name, data_dir, folder, site):
    pytest.importorskip("pooch")
    table = original(data_dir, name)
    site(name, published(name, table))
    data = datasets.load(name)
    assert data.found == "download"
    again = datasets.load(name)
    assert again.found == "cache"
    np.testing.assert_array_equal(again.X, data.X)
    assert again.feature_names == data.feature_names
    assert len(Site.requests) == 1


def test_interrupted_downloads_go_on(data_dir, folder, site, monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setattr(finding.Resuming, "CHUNK", 2**10)
    content = published("sonar", original(data_dir, "sonar"))
    # the second half is cut too, when most of the file is there
    site("sonar", content).cuts = 2
    for _ in range(2):
        with pytest.raises(InputError, match="could not be downloaded"):
            datasets.load("sonar")
    assert datasets.load("sonar").X.shape == (208, 60)
    first, second, third = Site.requests
    # all but the chunk that was cut
    assert first == 0
    assert len(content) // 2 - 2**10 <= second <= len(content) // 2
    assert second + (len(content) - second) // 2 - 2**10 <= third <= second + (len(content) - second) // 2


@pytest.mark.filterwarnings("ignore::kernelweave.datasets.DataWarning")
def test_a_file_that_would_be_packed_is_stored_as_text(folder, site):
    pytest.importorskip("pooch")
    site("a9a", b"+1 1:1 3:1\n-1 2:1\n")
    found = [datasets.load("a9a") for _ in range(2)]
    assert [one.found for one in found] == ["download", "cache"]
    assert [path.name for path in finding.cache_folder().iterdir()] == ["a9a_train.csv"]
    for one in found:
        assert one.X.shape == (2, 123)
        assert [np.flatnonzero(row).tolist() for row in one.X] == [[0, 2], [1]]
        assert one.signs.tolist() == [1.0, -1.0]


def test_what_is_no_data_is_not_kept(folder, site):
    pytest.importorskip("pooch")
    site("sonar", b"<html>Moved.</html>")
    with pytest.raises(InputError, match="cut off, or have changed"):
        datasets.load("sonar")
    assert not list(finding.cache_folder().iterdir())


def test_offline(folder, site, monkeypatch):
    pytest.importorskip("pooch")
    site("sonar", b"")
    changed = datasets.info("sonar")
    nowhere = type(changed)(**{**vars(changed), "url": "http://127.0.0.1:9/sonar"})
    monkeypatch.setattr(datasets, "info", lambda name: nowhere)
    with pytest.raises(
        InputError, match=r"could not be downloaded.*sonar\.csv in the folder that KERNELWEAVE_DATA"
    ):
        datasets.load("sonar")


def test_downloads_can_be_forbidden_or_impossible(folder, monkeypatch):
    with pytest.raises(InputError, match="Allow its download"):
        datasets.load("sonar", download=False)
    with pytest.raises(InputError, match=r"no address.*mlbench"):
        datasets.load("pima")
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(InputError, match="pip install 'kernelweave"):
        datasets.load("sonar")


# ---- 14 cancers -----------------------------------------------------------------------------------


@pytest.fixture
def cancers(folder, rng, monkeypatch):
    """Files in the published format, with 30 genes of 9 and 4 patients in 3 classes."""
    monkeypatch.setattr(fourteen_cancers, "COUNTS", fourteen_cancers.Counts(30, 9, 4, 3))
    for half, size in (("train", 9), ("test", 4)):
        np.savetxt(folder / f"14cancer.x{half}", rng.normal(size=(30, size)), fmt="%.5f")
        (folder / f"14cancer.y{half}").write_text(" ".join(str(1 + k % 3) for k in range(size)) + "\n")
    return folder


def test_fourteen_cancers_in_the_published_format(cancers):
    data = datasets.load("14cancer", protocol="rls2")
    assert data.X.shape == (13, 30)
    assert data.train.sum() == 9
    assert data.target_names == ("1", "2", "3")
    np.testing.assert_allclose(data.X.mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(data.X.std(axis=1, ddof=1), 1.0)
    raw = np.loadtxt(cancers / "14cancer.xtrain")
    np.testing.assert_array_equal(datasets.load("14cancer").X[:9], raw.T)
    # test patients need not be of all classes, and labels are those of their rows
    (cancers / "14cancer.ytest").write_text("1 3\n3 1\n")
    assert datasets.load("14cancer").y.tolist() == [0, 1, 2] * 3 + [0, 2, 2, 0]


def test_fourteen_cancers_have_the_counts_of_the_paper():
    """144 training and 54 test patients in 14 classes with 16,063 genes (section 5.3)."""
    about = datasets.info("14cancer")
    assert (
        fourteen_cancers.COUNTS == (about.n_features, 144, about.n_samples - 144, 14) == (16063, 144, 54, 14)
    )


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("ytest", None, r"is not here: 14cancer\.ytest missing in .*Ramaswamy.*--data"),
        (
            "xtrain",
            np.transpose,
            r"30 lines \(genes\) of 9 numbers \(patients\), got 9 lines of 30.*transpose",
        ),
        ("xtrain", lambda X: X[:, :4], "got 30 lines of 4. Training and test files are exchanged"),
        ("xtest", lambda X: X[:29], "got 29 lines of 4. It is incomplete"),
        ("ytrain", lambda y: y[:, :3], "one label for each of 9 patients, got 3"),
        ("ytrain", lambda y: y + 0.5, "whole numbers from 1 to 3, one for each class, got 1.5"),
        ("ytest", lambda y: y - 1, "whole numbers from 1 to 3, one for each class, got 0"),
        ("ytrain", lambda y: np.minimum(y, 2), "rows of all 3 classes, got none of class 3"),
        ("ytrain", "1 2 a", "numbers separated by white space"),
    ],
)
def test_fourteen_cancers_that_do_not_fit(cancers, file, change, message):
    path = cancers / f"14cancer.{file}"
    if change is None:
        path.unlink()
    elif isinstance(change, str):
        path.write_text(change)
    else:
        np.savetxt(path, change(np.loadtxt(path, ndmin=2)), fmt="%g")
    with pytest.raises(InputError, match=message):
        datasets.load("14cancer")


def test_one_column_with_its_digits_is_no_rounded_copy():
    """The last feature counts as the others do; the target does not."""
    columns = ("A1", "A2", "target")
    assert "rounded" in find_fault("sonar", RawTable(columns, [["0.123", "1.200000", "0.1234"]]))
    for row in (["0.1234", "0.5", "1"], ["0.5", "0.1234", "1"]):
        assert find_fault("sonar", RawTable(columns, [["0.5", "0.5", "1"], row])) == ""


def test_faults_need_all_of_their_signs():
    def table(rows, columns=("a", "target")):
        return RawTable(columns, rows)

    complete = [["1", "x"], ["2", "y"]]
    assert "lymph" in find_fault("wpbc", table(complete))
    assert find_fault("wpbc", table([*complete, ["", "x"]])) == ""
    assert "rounded" in find_fault("sonar", table([["0.123", "R"], ["0.5000", "M"], ["", "M"]]))
    assert find_fault("sonar", table([["0.123", "R"], ["0.1234", "M"]])) == ""
    assert "ranks" in find_fault("servo", table([["1", "3"], ["1", "51.0"]]))
    assert find_fault("servo", table([["1", "3"], ["1", "0.5"]])) == ""
    assert "text instead" in find_fault("servo", table([["1", "a"]]))
    for year, wrong in (("81", False), ("82", True)):
        assert (
            bool(find_fault("autompg", table([["80", "1"], [year, "1"]], ("model_year", "target")))) is wrong
        )
    for value, wrong in (("6.5", False), ("6.6", True)):
        assert bool(find_fault("heart", table([["1", "0"], [value, "1"]], ("oldpeak", "target")))) is wrong
    # the third problem: a2 is not 3 and a5 not 4, or a4 is 1 and a5 is 3
    for cells, label in (
        (("1", "2", "1"), "1"),
        (("3", "1", "3"), "1"),
        (("3", "2", "3"), "0"),
        (("1", "1", "4"), "0"),
        (("3", "1", "1"), "0"),
    ):
        for given in "01":
            found = find_fault("monk3", table([[*cells, given]], ("a2", "a4", "a5", "target")))
            assert bool(found) is (given != label)


def test_what_is_here_and_how_it_is_said(folder, monkeypatch):
    assert datasets.is_here("wdbc")
    assert not datasets.is_here("sonar")
    assert not datasets.is_here("14cancer")
    with pytest.raises(InputError, match="Unknown data set"):
        datasets.is_here("none")
    data = datasets.load("wdbc")
    assert repr(data) == "Dataset('wdbc', 569 x 30, binary, classes B, M)"
    assert set(datasets.names()) == set(registry())
    for name, row in registry().items():
        assert info(name) is row
        assert row.name == name
        assert set(row.standardized) <= set(row.papers) <= {"rls2", "rkl", "mlmkl"}
        for value in vars(row).values():
            assert not isinstance(value, list)
        if row.layout is not None:
            hash(row.layout)
    name = next(name for name, row in registry().items() if "rkl" not in row.papers)
    with pytest.raises(InputError, match="not used by the protocol 'rkl'"):
        datasets.load(name, protocol="rkl")


def test_tables_become_numbers_by_their_descriptions(recorded):
    """Categories, missing cells, hidden columns, flags, views, steps and classes, of a table by hand."""
    columns = ("rna_1", "kind", "rna_2", "half", "code", "target")
    rows = [
        ["1", "b", "10", "train", "2", "10"],
        ["", "a", "100", "test", "1", "9"],
        ["4", "", "1000", "train", "2", "10"],
        ["2.5", "a", "1", "train", "10", "9"],
        ["3", "c", "10", "test", "1", "10"],
    ]
    whole = next(iter(registry().values()))
    row = replace(
        whole,
        name="made",
        task="binary",
        categorical=("kind", "code"),
        drop=("rna_2",),
        flag="half=train",
        views=("rna", "co"),
        steps=(),
        papers=("rls2",),
    )
    given = {
        "dropped": {},
        "kept": {"missing": "keep"},
        "standardised": {"standardize": True},
        "kept and standardised": {"missing": "keep", "standardize": True},
        "logarithms of rows": {
            "row": replace(
                row, drop=("kind", "code", "half"), flag="", steps=("log10", "rows"), categorical=()
            )
        },
        "numbers": {"row": replace(row, task="regression")},
        "several": {"row": replace(row, task="multiclass", drop=("rna_1",), views=())},
    }
    for name, options in given.items():
        data = encode(
            options.pop("row", row) if "row" in options else row,
            RawTable(columns, rows),
            found="here",
            **{"missing": "drop", "standardize": False, **options},
        )
        recorded(name, {key: value for key, value in vars(data).items() if key != "info"})
        recorded(f"{name}, text", [repr(data), outcome(lambda data=data: data.signs), data.frame()])
    wrong = {
        "no row": ([["", "a", "1", "x", "1", "9"]], row),
        "one class": ([rows[0]], row),
        "no numbers": ([["1", "a", "1", "x", "1", "y"]], replace(row, task="regression")),
    }
    refused = {
        name: outcome(encode, own, RawTable(columns, cells), found="", missing="drop", standardize=False)
        for name, (cells, own) in wrong.items()
    }
    recorded("refused", {name: str(one) for name, one in refused.items()})


def test_the_registry_is_whole(recorded):
    """Every row but its checksums, and what papers use."""
    kept = (
        "title",
        "task",
        "n_samples",
        "n_features",
        "file",
        "papers",
        "standardized",
        "categorical",
        "drop",
        "flag",
        "views",
        "steps",
        "bundled",
        "url",
    )
    recorded("rows", {name: [getattr(row, key) for key in kept] for name, row in registry().items()})
    recorded("names", {str(paper): datasets.names(paper) for paper in (None, "rls2", "rkl", "mlmkl")})
    wrong = {
        "name": lambda: datasets.load("sonr"),
        "paper": lambda: datasets.load("sonar", protocol="rlk"),
        "not of it": lambda: datasets.load("14cancer", protocol="rkl"),
        "missing": lambda: datasets.load("sonar", missing="fill"),
        "info": lambda: datasets.info("nothing"),
        "here": lambda: datasets.is_here("nothing"),
    }
    recorded("refused", {name: str(outcome(make)) for name, make in wrong.items()})


def test_folders_are_searched_in_their_order(folder, tmp_path, monkeypatch):
    row = registry()["sonar"]
    assert finding.find_local(row) == ("", None)
    assert finding.find_local(registry()["wdbc"])[0] == "scikit-learn"
    cache = tmp_path / "cache"
    cache.mkdir()
    plain, packed = row.file.removesuffix(".gz"), row.file.removesuffix(".gz") + ".gz"
    for place, root, name in (
        ("cache", cache, packed),
        ("cache", cache, plain),
        ("data folder", folder, packed),
        ("data folder", folder, plain),
    ):
        (root / name).write_text("")
        found, path = finding.find_local(row)
        assert found == place
        assert path.parent == root
    assert datasets.is_here("sonar")
    assert path.name == row.file
    # a packed file may be there unpacked, and the other way round
    (folder / "srbct.csv").write_text("")
    assert finding.find_local(registry()["srbct"]) == ("data folder", folder / "srbct.csv")
    monkeypatch.delenv("KERNELWEAVE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert finding.cache_folder() == tmp_path / "x" / "kernelweave" / "datasets"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert finding.cache_folder() == Path.home() / ".cache" / "kernelweave" / "datasets"
    monkeypatch.setenv("KERNELWEAVE_DATA", "")
    assert finding.data_folder() is None
    monkeypatch.setenv("KERNELWEAVE_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"KERNELWEAVE_DATA must name a folder, got '.*none'"):
        finding.data_folder()


def test_what_is_not_here_says_how_to_get_it(folder):
    with_address, without = (
        registry()["sonar"],
        next(
            row for row in registry().values() if not row.url and not row.bundled and row.name != "14cancer"
        ),
    )
    with pytest.raises(InputError) as error:
        finding.fetch(with_address, download=False)
    assert str(error.value) == (
        f"sonar is not here. Allow its download from {with_address.url}, or save it as {with_address.file} in the "
        "folder that KERNELWEAVE_DATA names."
    )
    with pytest.raises(InputError) as error:
        finding.fetch(without)
    assert str(error.value) == (
        f"{without.name} is not here and has no address to download it from. How to get it: {without.how} Save it as "
        f"{without.file} in the folder that "
        "KERNELWEAVE_DATA names."
    )
    write(folder, "sonar", ["a", "target"], [["1.12345", "R"], ["2.0", "M"]])
    with pytest.warns(
        datasets.DataWarning,
        match=r"sonar.* differs from the copy of sonar used for .* \(it has 2 rows where 208 are expected\)",
    ):
        table, place = finding.fetch(with_address)
    assert (table.columns, place) == (("a", "target"), "data folder")
    write(folder, "sonar", ["a", "target"], [["1.123", "R"], ["2.0", "M"]])
    with pytest.raises(
        InputError,
        match=r"a corrupted copy of sonar: it is the KEEL copy, rounded to three decimals\. Get .* as 'sonar_keel'\.",
    ):
        finding.fetch(with_address)


def test_checksums_and_rows_of_text(recorded):
    """Published layouts of every kind, tables with a header, and checksums of values in any order."""
    columns = ("u", "v", "target")
    layouts = {
        "commas": (b"1,?,a\n\n3, 4 ,b\n", Layout()),
        "spaces": (b'head\n1  "x y" a\n3 NA b\n', Layout(separator=" ", missing=("NA",), skip=1)),
        "another order": (
            b"a;9;1;2\nb;9;3;4\n",
            Layout(separator=";", order=("target", "id", "v", "u"), recode=(("a", "yes"),)),
        ),
        "sparse": (b"+1 2:0.5\n-1 1:3 2:4\n", Layout(sparse=True)),
        "cut off": (b"1,2,a\n3,4\n", Layout()),
    }
    read = {
        name: outcome(read_delimited, content, "a file", layout, columns)
        for name, (content, layout) in layouts.items()
    }
    recorded("layouts", {name: one if isinstance(one, str) else vars(one) for name, one in read.items()})
    texts = {
        "table": b"u,target\n 1 ,a\n\n2,b\n",
        "no rows": b"u,target\n",
        "no target": b"u,v\n1,2\n",
        "nothing": b"",
        "cells": b"u,target\n1,a\n1,2,b\n",
        "bytes": b"\xff\xfe,target\n1,2\n",
    }
    read = {name: outcome(read_table, content, "a file") for name, content in texts.items()}
    recorded(
        "tables",
        {
            name: one.partition(": 'utf")[0] if isinstance(one, str) else vars(one)
            for name, one in read.items()
        },
    )
    table = RawTable(columns, [["1.50", "", "b"], ["-0", "x", "a"]])
    assert table.column("v") == ["", "x"]
    assert str(table.numbers("u")) == "[1.5, -0.0]"
    same, other = [["0.0", "x", "a"], ["1.5", "", "b"]], [["0.0", "x", "b"], ["1.5", "", "a"]]
    assert (
        content_checksum(table)
        == content_checksum(RawTable(columns, same))
        != content_checksum(RawTable(columns, other))
    )
