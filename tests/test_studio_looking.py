"""What the studio says of a table before a fit: types, outliers, missing cells, and how alike views are.

Modules: `studio/looking`.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

pytest.importorskip("fastapi")

from kernelweave._errors import InputError
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.preparing import prepare
from kernelweave_app.runs.spec import Spec
from kernelweave_app.studio import looking
from kernelweave_app.studio.looking import (
    Looking,
    align_views,
    describe_column,
    describe_missing,
    describe_table,
    describe_target,
    find_outliers,
    histogram,
    role_of,
    with_role,
)
from kernelweave_app.studio.schema import Data


def test_distributions_count_all_cells():
    rng = np.random.default_rng(0)
    column = pd.Series([*rng.normal(size=50), np.nan])
    found = describe_column(column, "a")
    assert found.n_missing == 1
    assert found.counts == np.histogram(column.dropna(), bins=20)[0].tolist()
    assert found.median == pytest.approx(column.median())
    # few whole numbers have a bin each
    assert histogram(np.array([1.0, 1.0, 3.0, 4.0])) == [2, 0, 1, 1]
    assert histogram(np.array([2.0, 2.0])) == [2]
    assert histogram(np.array([-1e308, 1e308])) == []
    assert describe_column(pd.Series(["x", "y", "x"]), "b").levels == {"x": 2, "y": 1}
    dates = describe_column(pd.Series(["2024-01-31", None, "2024-02-01"]), "c")
    assert (dates.kind, dates.taken_for, dates.n_missing) == ("date", "date", 1)
    # columns that the default kernels leave out, or compare as texts
    codes = describe_column(pd.Series([f"p{k}" for k in range(20)]), "d")
    assert (codes.kind, codes.taken_for) == ("text", "")
    cars = describe_column(pd.Series([f"car {k // 2}" for k in range(60)]), "e")
    assert cars.taken_for == "text"
    assert describe_column(pd.Series([f"car {k // 3}" for k in range(90)]), "f").taken_for == "category"


def test_outliers_are_those_of_the_median_absolute_deviation():
    rng = np.random.default_rng(0)
    values = rng.normal(size=200)
    values[17], values[40] = 30.0, np.nan
    constant = np.r_[np.zeros(190), np.arange(10)]
    found = find_outliers(pd.DataFrame({"a": values, "text": ["x"] * 200, "constant": constant}))
    assert [(one.row, one.column) for one in found.outliers] == [(17, "a")]
    known = values[~np.isnan(values)]
    z = (30.0 - np.median(known)) / stats.median_abs_deviation(known, scale="normal")
    assert found.outliers[0].z == pytest.approx(z, rel=1e-4)
    assert found.columns == {"a": 1}


def test_roles_exclude_each_other():
    spec, data = Spec(target="y", drop=["z"], group="g"), Data(tables=["set-wine"])
    assert [role_of(name, spec, data) for name in ("y", "z", "g", "x")] == [
        "target",
        "ignored",
        "group",
        "feature",
    ]
    assert with_role("z", "feature", spec) == {"drop": []}
    assert with_role("g", "ignored", spec) == {"group": "", "drop": ["z", "g"]}
    assert with_role("x", "target", spec) == {"target": "x", "task": "auto"}
    assert with_role("y", "weights", spec) == {"target": "", "weights": "y"}


def test_rows_and_cells_that_are_missing_are_counted_apart():
    frame = pd.DataFrame(
        {"a": [1.0, np.nan, 3.0, 4.0], "b": [1.0, np.nan, 3.0, np.nan], "c": [1.0, np.nan, 3.0, 4.0]}
    )
    found = describe_table(frame, "file-t", "t")
    assert (found.n_rows, found.n_missing, found.rows_missing) == (4, 4, 2)


def test_medians_of_columns_leave_out_missing_cells(rng):
    values = rng.normal(size=(9, 5))
    values[rng.random((9, 5)) < 0.3] = np.nan
    values[:, 3] = [1.0, np.nan, 2.0, 4.0, 8.0, *[np.nan] * 4]
    np.testing.assert_allclose(looking._column_medians(values), np.nanmedian(values, axis=0), rtol=1e-14)


def test_outliers_come_with_the_farthest_first_and_stop_at_a_number(monkeypatch):
    frame = pd.DataFrame({"a": [*np.arange(-10.0, 11.0), 100.0, -90.0], "b": [*np.arange(21.0), 10.0, 1e4]})
    found = find_outliers(frame)
    assert [(one.row, one.column, one.value) for one in found.outliers] == [
        (22, "b", 1e4), (21, "a", 100.0), (22, "a", -90.0),
    ]  # fmt: skip
    # the median 0 is 6 away from half of the cells
    assert found.outliers[1].z == pytest.approx(100.0 / (1.4826 * 6.0))
    assert found.outliers[2].z < 0
    assert (found.n_outliers, found.columns, found.n_rows) == (3, {"a": 2, "b": 1}, 23)
    monkeypatch.setattr(looking, "MOST_OUTLIERS", 1)
    assert len(find_outliers(frame).outliers) == 1
    # of a large table every other row is looked at
    monkeypatch.setattr(looking, "MOST_CELLS", 23)
    thin = find_outliers(frame)
    assert (thin.n_rows, [one.row for one in thin.outliers]) == (12, [22])


def test_missing_cells_are_described_by_column_and_view():
    nan = np.nan
    frame = pd.DataFrame(
        {
            "a": [1.0, nan, 4.0, nan, 1.0], "b": ["u", "v", "v", None, "u"], "c": [nan, nan, nan, nan, nan],
            "d": [1.0, 2.0, 3.0, 4.0, 5.0],
        }
    )  # fmt: skip
    found = describe_missing(frame, list("abcd"), {"one": ["a", "b"], "two": ["d"]})
    assert (found.n_rows, found.n_columns, found.n_cells, found.n_incomplete) == (5, 3, 8, 5)
    assert [(gap.name, gap.n_missing, gap.mean, gap.median, gap.frequent) for gap in found.columns] == [
        ("c", 5, None, None, ""), ("a", 2, 2.0, 1.0, ""), ("b", 1, None, None, "u"),
    ]  # fmt: skip
    assert found.views == {"one": 1}


def test_missing_cells_are_those_of_the_columns_to_learn_from():
    """Neither the target nor what names the rows, nor columns that no view has."""
    nan = np.nan
    frame = pd.DataFrame(
        {"who": [None, "b"], "a": [nan, nan], "b": [nan, 1.0], "c": [nan, 1.0], "y": [nan, 0.0]}
    )
    eyes = Looking()
    eyes.catalogue = SimpleNamespace(join=lambda *_: Joined(frame), answer=lambda _, question, ask: ask())
    data = Data(tables=["set-x"], key="who")
    for views, gaps, of_views in (
        ({"one": ["who", "a", "y"], "two": ["b"]}, {"a": 2, "b": 1}, {"one": 2, "two": 1}),
        ("", {"a": 2, "b": 1, "c": 1}, {}),
    ):
        found = eyes.missing(data, Spec(target="y", views=views))
        assert {gap.name: gap.n_missing for gap in found.columns} == gaps
        assert (found.n_cells, found.n_columns, found.views) == (sum(gaps.values()), len(gaps), of_views)


def test_views_are_as_alike_as_their_centred_kernels(rng):
    """Standardised columns with the mean for missing cells, and indicators of categories."""
    frame = pd.DataFrame(rng.normal(1.0, [1.0, 30.0, 1.0], size=(15, 3)), columns=list("abc"))
    frame["kind"] = rng.choice(["u", "v", "w"], 15)
    frame.loc[4, "a"] = np.nan
    frame["y"] = frame["b"] / 30.0 + rng.normal(size=15)
    views = {"one": ["a", "b"], "two": ["c", "kind"]}
    spec = Spec(target="y", missing="impute", views=views)
    found = align_views(prepare(Joined(frame), spec))
    H = np.eye(15) - 1 / 15
    filled = frame[list("abc")].fillna(frame[list("abc")].mean()).to_numpy()
    Z = (filled - filled.mean(axis=0)) / filled.std(axis=0)
    kinds = (frame["kind"].to_numpy()[:, None] == frame["kind"].to_numpy()).astype(float)
    y = frame["y"].to_numpy()
    kernels = [H @ K @ H for K in (Z[:, :2] @ Z[:, :2].T, Z[:, 2:] @ Z[:, 2:].T + kinds, np.outer(y, y))]
    wanted = [[(K * L).sum() / np.sqrt((K * K).sum() * (L * L).sum()) for L in kernels] for K in kernels]
    assert (found.names, found.n_rows) == (["one", "two"], 15)
    np.testing.assert_allclose(found.values, np.array(wanted)[:2, :2], rtol=1e-9)
    np.testing.assert_allclose(found.target, wanted[2][:2], rtol=1e-9)


def test_targets_are_described_with_what_is_wrong_with_them():
    table = pd.DataFrame({"c": [*"aab", None], "n": [1.5, -2.0, 8.0, 3.0], "one": ["x"] * 4})
    found = describe_target(table, "c", "auto")
    assert (found.classes, found.n_missing, found.low) == ({"a": 2, "b": 1}, 1, None)
    assert "1 missing" in found.problem
    numbers = describe_target(table, "n", "auto")
    assert (numbers.task, numbers.low, numbers.high, numbers.problem, numbers.classes) == (
        "regression",
        -2.0,
        8.0,
        "",
        {},
    )
    assert "only one class" in describe_target(table, "one", "auto").problem
    for count, wrong in ((10, ""), (11, "11 classes for 20 rows")):
        texts = pd.DataFrame({"y": [f"k{min(k, count - 1)}" for k in range(20)]})
        assert describe_target(texts, "y", "auto").problem.startswith(wrong)
        assert bool(describe_target(texts, "y", "auto").problem) == bool(wrong)


def test_sparse_views_have_their_inner_products(rng):
    A = rng.normal(size=(5, 3)) * (rng.random((5, 3)) > 0.4)
    np.testing.assert_allclose(looking._linear(sparse.csr_array(A)), A @ A.T, rtol=1e-14, atol=1e-15)


def test_several_targets_are_labels_or_numbers():
    table = pd.DataFrame({"a": [1.5, 2.0, None], "b": [3.0, 1.0, 2.0], "l": [0, 1, 1], "m": [1, 1, 0]})
    found = describe_target(table, "a,b", "auto")
    assert (found.task, found.names, found.n_missing, found.classes) == ("regression", ["a", "b"], 1, {})
    labels = describe_target(table, "l,m", "auto")
    assert (labels.task, labels.names, labels.n_missing) == ("classification", ["l", "m"], 0)
    assert labels.reason != found.reason
    assert describe_target(table.assign(m=1), "l,m", "classification").problem


def test_kernels_are_shown_on_two_rows_or_more():
    from kernelweave_app.studio.previews import _complete

    X = pd.DataFrame({"a": [1.0, None, 3.0, 4.0], "b": [None, 2.0, 3.0, 4.0]})
    prepared = SimpleNamespace(X=X)
    assert _complete(np.array([0, 2, 3]), prepared).tolist() == [2, 3]
    for rows, words in (([0, 1, 2], "1 of 3 have none"), ([0, 1], "0 of 2 have none")):
        with pytest.raises(InputError, match=words):
            _complete(np.array(rows), prepared)


def test_centred_kernels_are_those_of_centred_features(rng):
    from kernelweave_app.studio.looking import centred

    A, B = rng.normal(size=(7, 3)) + 2.0, rng.normal(size=(7, 3)) - 1.0
    K = A @ A.T
    np.testing.assert_allclose(centred(K), (A - A.mean(axis=0)) @ (A - A.mean(axis=0)).T, atol=1e-12)
    # cells that are not known count as zero
    K[2, 3] = K[3, 2] = np.nan
    np.testing.assert_allclose(centred(K), centred(np.nan_to_num(K)))
    assert np.isfinite(centred(B @ B.T)).all()
