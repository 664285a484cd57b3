"""Functions of two objects as kernels: on every kind of cell, computed once, checked, repaired, in folds and files.

Modules: `kernels/given`, `views/columns`, `views/container`, `estimators/texts`, `views/tables`.
"""

from __future__ import annotations

import uuid

import numpy as np
import pandas as pd
import pytest

import kernelweave as kw
from kernelweave._checks import InputError, NotPSDError
from kernelweave.kernels import RBF, Custom, Linear, Pairwise, Precomputed
from kernelweave.views import as_table

#: What runs draw is looked at in other files.
pytestmark = pytest.mark.usefixtures("undrawn")

RNG = np.random.default_rng(11)
N = 40


class Walk:
    """An object without length, order or text."""

    def __init__(self, steps):
        self.steps = steps


WALKS = [Walk(RNG.normal(size=RNG.integers(2, 6)).cumsum()) for _ in range(N)]
Y = np.array([walk.steps[-1] for walk in WALKS])
AGE = RNG.normal(size=(N, 1))


def near(x, z):
    return float(np.exp(-((x.steps[-1] - z.steps[-1]) ** 2)))


def counting(function):
    calls = []

    def counted(x, z):
        calls.append((x, z))
        return function(x, z)

    return counted, calls


def matrix(function, X, Z):
    return np.array([[function(x, z) for z in Z] for x in X])


@pytest.mark.parametrize(
    "form",
    [
        lambda walks: {"walk": walks},
        lambda walks: {"walk": tuple(walks)},
        lambda walks: {"walk": pd.Series(walks)},
        lambda walks: pd.DataFrame({"walk": walks}),
        lambda walks: np.array([[walk] for walk in walks], dtype=object),
    ],
    ids=["list", "tuple", "series", "frame", "array"],
)
def test_every_form_of_a_column(form):
    K = matrix(near, WALKS, WALKS)
    kernel = Pairwise(near)
    np.testing.assert_array_equal(kernel(form(WALKS)), K)
    np.testing.assert_array_equal(kernel(form(WALKS[:5]), form(WALKS)), K[:5])
    np.testing.assert_array_equal(kernel.diag(form(WALKS)), K.diagonal())
    model = kw.MKLRegressor([kernel], alpha=0.1).fit(form(WALKS[:30]), Y[:30])
    same = kw.MKLRegressor([Precomputed()], alpha=0.1).fit({"walk": kw.precomputed(K[:30, :30])}, Y[:30])
    np.testing.assert_allclose(
        model.predict(form(WALKS[30:])), same.predict({"walk": kw.precomputed(K[30:, :30])}), rtol=1e-10
    )
    assert model.kernel_names_[0].endswith("near") or model.kernel_names_[0] == "near on all"


@pytest.mark.parametrize(
    "objects",
    [
        [{"a": k % 5} for k in range(N)],
        [(k % 5, "b") for k in range(N)],
        [[k % 5] * (k % 3 + 1) for k in range(N)],
        [frozenset([k % 5]) for k in range(N)],
        [([(0, 1)], [k % 5]) for k in range(N)],
        [uuid.UUID(int=k % 5) for k in range(N)],
        [np.full(2, k % 5) for k in range(N)],
    ],
    ids=lambda objects: type(objects[0]).__name__,
)
def test_cells_of_every_kind(objects):
    def equal(x, z):
        assert type(x) is type(z) is type(objects[0])
        return float(repr(x) == repr(z))

    column = pd.DataFrame({"cell": pd.Series(objects)})
    model = kw.MKLRegressor([Pairwise(equal).on("cell")], alpha=0.1).fit(column, Y)
    np.testing.assert_array_equal(Pairwise(equal)(column), [[equal(x, z) for z in objects] for x in objects])
    assert len(np.unique(model.model_.source.content())) == len({repr(one) for one in objects})


def test_each_pair_is_computed_once():
    function, calls = counting(near)
    model = kw.MKLRegressorCV({"walk": [Pairwise(function)], "age": [Linear()]}, n_alphas=4, cv=3)
    model.fit({"walk": WALKS, "age": AGE}, Y)
    triangle = N * (N + 1) // 2
    # those beyond are in both orders
    assert triangle < len(calls) <= triangle + 40
    assert len({(id(x), id(z)) for x, z in calls}) == len(calls)
    del calls[:]
    model.predict({"walk": WALKS[:3], "age": AGE[:3]})
    assert len(calls) == 3 * N
    table = as_table({"walk": WALKS}).declared([0])
    del calls[:]
    rows = [table.rows(np.arange(10)).select([0]), table.rows(np.arange(5, 20)).select([0])]
    K = Pairwise(function)(*rows)
    np.testing.assert_array_equal(K, matrix(near, WALKS[:10], WALKS[5:20]))
    # 5 objects are on both sides: 150 pairs are 140, and some are computed in both orders
    assert 140 <= len(calls) <= 180
    del calls[:]
    np.testing.assert_array_equal(Pairwise(function)(rows[1], rows[0]), K.T)
    np.testing.assert_array_equal(Pairwise(function).diag(rows[0])[5:], K[5:, :5].diagonal())
    assert len(calls) == 5  # of rows with themselves that were on one side only


def test_rows_of_numbers_and_of_several_columns():
    A = RNG.normal(size=(9, 3))
    np.testing.assert_allclose(Pairwise(np.dot)(A), A @ A.T, rtol=1e-12)
    np.testing.assert_allclose(Pairwise(np.dot)(A[:4], A), A[:4] @ A.T, rtol=1e-12)
    np.testing.assert_allclose(Pairwise(np.dot).diag(A), (A * A).sum(axis=1), rtol=1e-12)
    two = {"a": [{1}, {2}], "b": [{3}, {3}]}
    same = Pairwise(lambda x, z: float((x == z).sum()))
    frame = pd.DataFrame(two)
    np.testing.assert_array_equal(same(frame), [[2.0, 1.0], [1.0, 2.0]])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, z: x.steps[0] + 2.0 * z.steps[0], "must be symmetric, got values that differ by"),
        (lambda x, z: np.inf, "must return finite values, got inf for"),
        (lambda x, z: [1.0, 2.0], "must return a number for two objects, got \\[1.0, 2.0\\].*take Custom"),
    ],
)
def test_wrong_functions(function, message):
    with pytest.raises(InputError, match=message):
        kw.MKLRegressor({"walk": [Pairwise(function, name="mine")]}, alpha=1.0).fit({"walk": WALKS}, Y)
    with pytest.raises(
        InputError, match=r"`function` of Pairwise must be callable, got 3\. Pass a function of two obj"
    ):
        Pairwise(3)


def distance(x, z):
    return abs(x.steps[-1] - z.steps[-1])


@pytest.mark.parametrize("kind", ["Pairwise", "Custom", "product"])
def test_indefinite_functions(kind):
    def of(repair):
        if kind == "Custom":
            return Custom(lambda X, Z: matrix(distance, X, Z), name="distance", repair=repair)
        own = Pairwise(distance, repair=repair)
        return own if kind == "Pairwise" else 2.0 * own

    X, new = {"walk": WALKS[:30]}, {"walk": WALKS[30:]}
    with pytest.raises(NotPSDError, match=r"must be positive semidefinite.*Pairwise\(\.\.\., repair=True\)"):
        kw.MKLRegressor({"walk": [of(False)]}, alpha=0.1).fit(X, Y[:30])
    model = kw.MKLRegressor({"walk": [of(True)]}, alpha=0.1, normalize=None).fit(X, Y[:30])
    # the nearest positive semidefinite matrix, and new rows projected on its eigenvectors
    factor = 2.0 if kind == "product" else 1.0
    K = factor * matrix(distance, WALKS, WALKS)
    values, vectors = np.linalg.eigh(K[:30, :30])
    kept = vectors[:, values > 1e-10]
    fixed, cross = (kept * values[values > 1e-10]) @ kept.T, (K[30:, :30] @ kept) @ kept.T
    same = kw.MKLRegressor([Precomputed()], alpha=0.1, normalize=None).fit(
        {"k": kw.precomputed(fixed)}, Y[:30]
    )
    np.testing.assert_allclose(
        model.predict(new), same.predict({"k": kw.precomputed(cross)}), rtol=1e-6, atol=1e-8
    )
    taken = np.linalg.norm(values[values < 0]) / np.linalg.norm(values)
    (residual,) = model.missing_["residuals"].values()
    assert residual == pytest.approx(taken, rel=1e-8)
    (said,) = kw.inspection.missing(model)
    assert "Negative eigenvalues of 1 kernel were set to zero" in said
    assert "missing" in kw.inspection.findings(model, new, Y[30:])


def test_missing_objects():
    views = {"walk": [None, *WALKS[1:]], "age": AGE}
    bank = {"walk": [Pairwise(near)], "age": [RBF()]}
    model = kw.MKLRegressor(bank, alpha=0.1).fit(views, Y)
    assert model.missing_["views"] == {"walk": 1}
    assert np.isfinite(model.predict(views)).all()
    frame = pd.DataFrame({"walk": views["walk"], "age": AGE[:, 0]})
    with pytest.raises(
        InputError, match=r"compares objects, and 1 of 40 are missing, the first in row 0.*missing_view"
    ):
        kw.MKLRegressor([Pairwise(near).on("walk"), RBF().on("age")], alpha=0.1, missing="impute").fit(
            frame, Y
        )


def test_objects_that_no_kernel_reads():
    with pytest.raises(
        TypeError, match=r"got <.*Walk.*in column 'x0' of view 'walk'.*Pairwise\(function\) on the view"
    ):
        kw.MKLRegressor().fit({"walk": WALKS, "age": AGE}, Y)
    # in a frame, objects that are no containers are names of categories
    codes = pd.DataFrame({"code": [uuid.UUID(int=k % 3) for k in range(N)]})
    model = kw.MKLRegressor([Linear()], alpha=0.1).fit(codes, Y)
    assert model.model_.source.raw.levels == (3,)
    assert kw.MKLRegressor([Pairwise(lambda x, z: float(x == z))], alpha=0.1).fit(codes, Y).predict(
        codes
    ) == pytest.approx(kw.MKLRegressor([Linear()], alpha=0.1).fit(codes, Y).predict(codes))
    # lists of equally many numbers are rows
    assert kw.MKLRegressor([Linear()], alpha=0.1).fit({"a": AGE.tolist()}, Y).n_features_in_ == 1


def test_files(tmp_path):
    tags = [set("abcdef"[k % 4 : k % 4 + 2]) for k in range(N)]

    def overlap(x, z):
        return len(x & z) / len(x | z)

    model = kw.MKLRegressor([Pairwise(overlap)], alpha=0.1).fit({"tags": tags}, Y)
    path = kw.save(model, tmp_path / "m")
    again = kw.load(path, functions={"overlap": overlap})
    np.testing.assert_array_equal(again.predict({"tags": tags}), model.predict({"tags": tags}))
    with pytest.raises(InputError, match="'tags: overlap' has other values of training rows"):
        kw.load(path, functions={"overlap": lambda x, z: float(len(x & z))})
    with pytest.raises(InputError, match="no ONNX form"):
        kw.to_onnx(model, tmp_path / "m.onnx")
    # training objects of classes of one's own would need code
    own = kw.MKLRegressor([Pairwise(near)], alpha=0.1).fit({"walk": WALKS}, Y)
    with pytest.raises(InputError, match=r"cannot be stored without code: .*Walk"):
        kw.save(own, tmp_path / "walks")


def test_texts_of_rows_of_a_matrix_say_how_many_there_are():
    view = kw.precomputed(np.eye(8))
    assert repr(view) == "precomputed(K), 8 of 8 rows"
    assert repr(view[:3]) == "precomputed(K), 3 of 8 rows"
    later = kw.precomputed(np.ones((2, 8)))
    assert repr(later) == "precomputed(K), 2 of 2 rows"


def test_pairs_are_compared_in_one_order_and_new_rows_with_those_of_training():
    calls = []

    def overlap(x, z):
        calls.append((x, z))
        return float(len(set(x) & set(z)))

    kernel = Pairwise(overlap)
    column = np.array(["ab", "bc", "cd", "abcd"], dtype=object)
    hand = np.array([[len(set(x) & set(z)) for z in column] for x in column], dtype=float)
    np.testing.assert_array_equal(kernel({"t": column}), hand)
    place = {text: i for i, text in enumerate(column)}
    ordered = {(place[x], place[z]) for x, z in calls}
    assert {(i, j) for i in range(4) for j in range(i, 4)} <= ordered
    calls.clear()
    new = np.array(["ad", "b"], dtype=object)
    np.testing.assert_array_equal(kernel({"t": new}, {"t": column}), [[1, 0, 1, 2], [1, 1, 0, 1]])
    assert calls == [(x, z) for x in new for z in column]
    np.testing.assert_array_equal(kernel.diag({"t": column}), [2, 2, 2, 4])
    # rows of numbers, each an array, and no rows of a table
    table = as_table(np.arange(140.0).reshape(70, 2))
    custom = Custom(lambda A, B: A @ B.T)
    np.testing.assert_allclose(custom.diag(table), np.square(table.values).sum(axis=1))
    assert custom._diag(table.rows(slice(0, 0))).shape == (0,)
    np.testing.assert_allclose(Pairwise(lambda x, z: float(x @ z))(table), table.values @ table.values.T)
    with pytest.raises(InputError, match=r"differ by 4 when X and Z"):
        Custom(lambda A, B: A[:, :1] - B[:, 0] + 10.0)(np.array([[0.0], [2.0]]))
    lower = {("ab", "bc"): 1.0, ("bc", "ab"): 3.0}
    with pytest.raises(InputError, match=r"symmetric, got values that differ by 2"):
        Pairwise(lambda x, z: lower.get((x, z), 5.0))({"t": column[:2]})
