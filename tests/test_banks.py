"""Banks of kernels: what they make, and what they refuse.

Modules: `banks`.
"""

import numpy as np
import pandas as pd
import pytest

from kernelweave import banks
from kernelweave._checks import InputError
from kernelweave.kernels import (
    RBF,
    Categorical,
    CharNGrams,
    Descriptors,
    Fingerprints,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Metric,
    Polynomial,
    Tanimoto,
    Tokens,
)
from kernelweave.views import Table, as_table
from recording import outcome, told


@pytest.mark.parametrize(
    ("n_features", "size"),
    # Table 2 of the RLS2 paper: features and kernels of its ten data sets
    [(7, 104), (37, 494), (11, 156), (13, 182), (6, 91), (8, 117), (33, 442), (34, 455), (60, 793)],
)
def test_rls2_sizes(n_features, size):
    assert len(banks.rls2(n_features)) == len(set(banks.rls2(n_features))) == size
    assert len(banks.simplemkl(n_features)) == len(set(banks.simplemkl(n_features))) == size


def test_rls2_kernels():
    bank = banks.rls2(2)
    gammas = 10.0 ** np.linspace(-3, 3, 10)
    for block, columns in enumerate((None, (0,), (1,))):
        part = bank[13 * block : 13 * block + 13]
        assert {kernel.columns for kernel in part} == {columns}
        assert [kernel.base for kernel in part[:3]] == [
            Polynomial(q, coef0=1.0, gamma=1.0) for q in (1, 2, 3)
        ]
        np.testing.assert_allclose([kernel.base.gamma for kernel in part[3:]], gammas, rtol=1e-14)
        assert all(type(kernel.base) is RBF for kernel in part[3:])


def test_rkl_kernels():
    bank = banks.rkl()
    bandwidths = [0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20]
    assert len(bank) == 20
    X = np.array([[0.0, 1.0], [2.0, -1.0]])
    for kernel, s in zip(bank, bandwidths, strict=False):
        np.testing.assert_allclose(kernel(X)[0, 1], np.exp(-8 / (2 * s**2)), rtol=1e-14)
    for q, kernel in enumerate(bank[10:], start=1):
        np.testing.assert_allclose(kernel(X), (X @ X.T + (q > 1)) ** q, rtol=1e-13)
        assert kernel.columns is None
    assert bank[10].is_linear


def test_simplemkl_kernels():
    bank = banks.simplemkl(1)
    assert bank[:13] == [*banks.rkl()[:10], Linear(), Polynomial(2), Polynomial(3)]
    assert bank[13:] == [kernel.on([0]) for kernel in bank[:13]]


def test_mlmkl_kernels():
    X = np.array([[0.0, 1.0], [2.0, -1.0]])
    S = X @ X.T
    expected = [S, np.exp(-((X[:, None] - X) ** 2).sum(-1)), (S + 1) ** 2, (S + 1) ** 3]
    np.testing.assert_allclose([kernel(X) for kernel in banks.mlmkl()], expected, rtol=1e-14)


def test_linear_features():
    bank = banks.linear_features(3)
    X = np.arange(6.0).reshape(2, 3)
    assert all(kernel.is_linear and kernel.base == Linear() for kernel in bank)
    np.testing.assert_array_equal(sum(bank)(X), X @ X.T)
    for j, kernel in enumerate(bank):
        np.testing.assert_array_equal(kernel(X), np.outer(X[:, j], X[:, j]))


@pytest.mark.parametrize("n_features", [0, -1, 2.0, "3", None, True, np.zeros((3, 2)), [], [1, 2]])
@pytest.mark.parametrize("bank", [banks.rls2, banks.simplemkl, banks.linear_features])
def test_bad_number_of_features(bank, n_features):
    with pytest.raises(
        InputError, match=r"(?s)`n_features` must be a whole number from 1 to \d+, got .*Pass X\.shape\[1\]"
    ):
        bank(n_features)


def test_numpy_integers_count():
    assert banks.rls2(np.int64(2)) == banks.rls2(2)


def test_views():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 4)), columns=["g1", "g2", "age", "bmi"])
    bank = banks.views({"rna": slice("g1", "g2"), "clinical": ["age", "bmi"]}, kernels=[Linear(), RBF(0.5)])
    assert [kernel.label for kernel in bank] == [
        "rna: Linear",
        "rna: RBF(gamma=0.5)",
        "clinical: Linear",
        "clinical: RBF(gamma=0.5)",
    ]
    np.testing.assert_array_equal(bank[3](X), RBF(0.5)(X[["age", "bmi"]]))
    assert (
        banks.views({"a": [0]}, [Linear()])
        == [Linear().on([0], name="a")]
        == banks.views({"a": [0]}, Linear())
    )
    assert banks.views({"a": [0]}) == banks.DefaultViews({"a": [0]})


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (({},), "Views are a dict from names to columns, with at least one view, got {}"),
        ((["age"],), "Views are a dict"),
        (({"a": [0]}, []), "`kernels` must hold at least one kernel"),
        (({"a": [0]}, [RBF(), "rbf"]), "`kernels` must hold at least one kernel and nothing else, got"),
        (({"a": [0]}, ["rbf"]), "`kernels` must hold at least one kernel and nothing else, got"),
        (({"a": [0]}, [RBF().on([1])]), "restricted already"),
        (({"a": []},), "at least one column"),
    ],
)
def test_views_errors(args, message):
    with pytest.raises(InputError, match=message):
        banks.views(*args)


def test_per_column_few_columns():
    table = Table(np.zeros((3, 3)), names=("age", "bmi", "site"), levels=(0, 0, 4))
    bank = banks.per_column(table)
    assert len(bank) == len(set(bank)) == 10 + 2 * 6 + 1
    assert bank[:3] == [Linear(), Polynomial(2), Polynomial(3)]
    np.testing.assert_allclose([kernel.gamma for kernel in bank[3:10]], np.logspace(-2, 1, 7) / 6)
    assert {kernel.columns for kernel in bank[10:]} == {("age",), ("bmi",), ("site",)}
    assert [kernel for kernel in bank if kernel.base == Categorical()] == [Categorical().on(["site"])]
    assert [kernel(table).shape for kernel in bank] == [(3, 3)] * len(bank)


@pytest.mark.parametrize(("n_columns", "size"), [(2, 22), (40, 250), (41, 51), (2000, 2010), (2001, 10)])
def test_per_column_sizes(n_columns, size):
    bank = banks.per_column(np.zeros((1, n_columns)))
    assert len(bank) == size
    if n_columns > 40:
        assert all(kernel.base == Linear() for kernel in bank[10:])
    assert banks.get("per_column", n_columns) == bank


def test_per_column_one_column_has_no_repeats():
    table = as_table(np.random.default_rng(0).normal(size=(8, 1)))
    stack = np.array([kernel(table) for kernel in banks.per_column(table)])
    distance = np.abs(stack[:, None] - stack).max(axis=(2, 3)) + np.eye(len(stack))
    assert distance.min() > 1e-6


@pytest.mark.parametrize("name", ["per_column", "linear_features", "mlmkl", "rkl", "rls2", "simplemkl"])
def test_get(name):
    bank = banks.get(name, 4)
    assert bank
    assert all(isinstance(kernel, Kernel) for kernel in bank)
    assert banks.get(name.upper().replace("_", "-"), 4) == bank
    if name != "per_column":
        function = getattr(banks, name)
        assert bank == (function() if name in ("mlmkl", "rkl") else function(4))


@pytest.mark.parametrize("name", ["per_column", "linear_features", "rls2", "simplemkl"])
def test_banks_name_columns_where_names_are_given(name):
    """Names that look like positions are names nevertheless."""
    by_position, by_name = banks.get(name, 3), banks.get(name, ["x1", "x2", "x3"])
    assert len(by_position) == len(by_name)
    single = [(a, b) for a, b in zip(by_position, by_name, strict=True) if a.columns is not None]
    assert single
    for a, b in single:
        assert b.columns == (f"x{a.columns[0] + 1}",)
        assert b.base == a.base
        assert b.label.endswith(f" on {b.columns[0]}")


def test_get_unknown():
    with pytest.raises(
        InputError, match=r"Unknown bank 'rsl2'\. Did you mean 'rls2'\?.*'mlmkl', 'per_column', 'rkl', 'rls2'"
    ):
        banks.get("rsl2", 3)


def test_banks_of_single_columns_and_learnt_metrics():
    assert banks.texts() == [CharNGrams(n=(2, 4)), Tokens(n=1)]
    assert banks.texts("note") == [CharNGrams().on(["note"]), Tokens().on(["note"])]
    assert banks.texts(0) == [CharNGrams().on([0]), Tokens().on([0])]
    forms = ("morgan", "path", "pairs", "torsions", "maccs")
    shapes = [RBF(("median", 0.25)), Matern("median", nu=1.5), Matern(("median", 0.25), nu=2.5)]
    wanted = [
        *(Tanimoto().prepared(Fingerprints(form)) for form in forms),
        *(one.prepared(Descriptors(), "standardize") for one in shapes),
    ]
    assert sorted(map(repr, banks.molecules())) == sorted(map(repr, wanted))
    assert banks.molecules()[5:] == wanted[5:]
    assert banks.molecules("smiles") == [kernel.on(["smiles"]) for kernel in banks.molecules()]
    usual = [Linear(), RBF("median"), Laplacian("median")]
    learnt = [Linear(), RBF(1.0), Laplacian("median")]
    assert banks.metric() == [
        *(kernel.prepared("standardize") for kernel in usual),
        *(kernel.prepared("standardize", Metric(by="ard")) for kernel in learnt),
    ]
    widths = [("median", 0.25), "median", ("median", 4.0)]
    for form in ("diagonal", "full"):
        step = Metric(by="rfm", form=form)
        shapes = [Linear(), *map(RBF, widths), *map(Laplacian, widths)]
        assert banks.metric("rfm", form) == [kernel.prepared("standardize", step) for kernel in shapes]
    # what else a table holds
    table = pd.DataFrame({"a": [1.0, 2.0, 3.5, 5.0], "b": [0.5, 1.5, 0.25, 3.0]})
    assert len(banks.default(table)) == 8
    assert banks.default(table, regression=True)[8:] == [
        RBF("median").prepared("standardize").on([name]) for name in ("a", "b")
    ]
    words = Table(np.zeros((4, 2)), names=("note", "age"), levels=(-1, 0))
    found = banks.per_column(words)
    assert found[-2:] == banks.texts("note")
    assert {kernel.columns for kernel in found[10:-2]} == {("age",)}
    assert banks.per_column(Table(np.zeros((4, 1)), levels=(-1,))) == banks.texts()
    unnamed = Table(np.zeros((4, 2)), levels=(0, -1))
    assert banks.per_column(unnamed)[-2:] == banks.texts(1)


def test_every_bank_has_its_kernels(recorded):
    """All kernels as they are written, in their order."""
    mixed = pd.DataFrame({"u": [0.0, 1.0, 2.5, 4.0], "v": [1.0, 0.0, 0.0, 0.0], "kind": ["a", "b", "a", "b"]})
    given = {
        "rls2": banks.rls2(1),
        "rkl": banks.rkl(),
        "simplemkl": banks.simplemkl(["u"]),
        "mlmkl": banks.mlmkl(),
        "linear": banks.linear_features(["u", "v"]),
        "views": banks.views({"a": [0], "b": slice(1, 3)}, [Linear(), RBF(gamma=0.5)]),
        "texts": banks.texts(),
        "texts of a column": banks.texts(2),
        "molecules": banks.molecules("smiles"),
        "default": banks.default(mixed),
        "regression": banks.default(mixed, regression=True),
        "per column": banks.per_column(mixed),
        **{
            f"metric {by} {form}": banks.metric(by, form)
            for by, form in (("ard", "diagonal"), ("rfm", "diagonal"), ("rfm", "full"))
        },
    }
    recorded("kernels", {name: list(map(repr, own)) for name, own in given.items()})
    recorded("defaults", repr(banks.views({"a": [0], "b": ["u"]})))
    wrong = {
        "no columns": lambda: banks.views({"a": []}),
        "a list": lambda: banks.views(["a"]),
        "nothing": lambda: banks.views({}),
        "no kernels": lambda: banks.views({"a": [0]}, []),
        "a text": lambda: banks.views({"a": [0]}, "rbf"),
        "an unknown bank": lambda: banks.get("rls"),
        "features": lambda: banks.rls2(0),
        "many": lambda: banks.rls2(10**8),
        "another metric": lambda: banks.metric("full"),
        "a full ard": lambda: [*map(repr, banks.metric("ard", "full"))],
    }
    recorded("refused", {name: told(outcome(make)) for name, make in wrong.items()})
