"""Kernels, steps and maps: values by independent formulas, texts and refusals, and recorded answers of the rest.

Modules: `kernels`, `kernels/additive`, `kernels/base`, `kernels/categorical`, `kernels/composed`, `kernels/counts`,
`kernels/dot`, `kernels/given`, `kernels/graphs`, `kernels/learnt`, `kernels/maps`, `kernels/molecules`,
`kernels/pairs`, `kernels/parsing`, `kernels/sequences`, `kernels/stationary`, `kernels/steps`, `kernels/tanimoto`,
`kernels/text`, `kernels/training_rows`.
"""

import math
import pickle
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import ndtri
from scipy.stats import qmc
from sklearn.impute import KNNImputer

import kernelweave as kw
from kernelweave import InputError, kernels
from kernelweave.kernels import (
    RBF,
    ArcCosine,
    Bins,
    Categorical,
    CharNGrams,
    Constant,
    Cosines,
    Custom,
    Elementwise,
    Gapped,
    Impute,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Metric,
    Mismatch,
    Nystroem,
    Pairwise,
    Periodic,
    Polynomial,
    RandomFeatures,
    RationalQuadratic,
    Skip,
    Spectrum,
    Standardize,
    Tanimoto,
    Tokens,
    WeisfeilerLehman,
    approximate,
    composed,
    counts,
    given,
    learnt,
    maps,
    pairs,
    parse,
    steps,
    training_rows,
)
from kernelweave.kernels import graphs as graph_kernels
from kernelweave.kernels.base import build
from kernelweave.kernels.training_rows import TrainingRows
from kernelweave.views import Table, ViewColumns, as_table

RNG = np.random.default_rng(0)
X = RNG.normal(size=(9, 3)).round(2)
Z = RNG.normal(size=(4, 3)).round(2)
COUNTS = RNG.integers(0, 4, (9, 3)).astype(float)


def distances(A, B, power=2):
    return (np.abs(A[:, None] - B[None]) ** power).sum(axis=2)


def angle(degree, S, left, right):
    """One layer of the arc-cosine kernel by its formula."""
    t = np.arccos(np.clip(S / np.sqrt(left * right), -1, 1))
    J = {
        0: np.pi - t,
        1: np.sin(t) + (np.pi - t) * np.cos(t),
        2: 3 * np.sin(t) * np.cos(t) + (np.pi - t) * (1 + 2 * np.cos(t) ** 2),
    }[degree]
    return (left * right) ** (degree / 2) * J / np.pi


def two_layers(A, B):
    left, right = np.square(A).sum(axis=1)[:, None], np.square(B).sum(axis=1)
    first = angle(2, A @ B.T, left, right)
    return angle(0, first, 3 * left**2, 3 * right**2)


def cosine_terms(A, B, terms=3, s=2.0):
    low, high = X.min(axis=0), X.max(axis=0)
    u, v = (
        np.clip((one - low) / (high - low), 0, 1)[..., None] * np.pi * np.arange(1, terms + 1)
        for one in (A, B)
    )
    weight = np.arange(1, terms + 1) ** (-2.0 * s)
    return 2 * (np.cos(u)[:, None] * np.cos(v)[None] * weight).sum(axis=3).mean(axis=2)


MEAN, SCALE = X.mean(axis=0), X.std(axis=0)
#: Kernels and their formulas on rows of numbers.
FORMULAS = {
    Linear(): lambda A, B: A @ B.T,
    Polynomial(2, 0.5, 0.7): lambda A, B: (0.7 * A @ B.T + 0.5) ** 2,
    Polynomial(3, 0.0): lambda A, B: (A @ B.T) ** 3,
    RBF(0.3): lambda A, B: np.exp(-0.3 * distances(A, B)),
    Laplacian(0.3): lambda A, B: np.exp(-0.3 * distances(A, B, 1)),
    Matern(0.3, 0.5): lambda A, B: np.exp(-np.sqrt(2 * 0.3 * distances(A, B))),
    Matern(0.3): lambda A, B: (lambda r: (1 + r) * np.exp(-r))(np.sqrt(6 * 0.3 * distances(A, B))),
    Matern(0.3, 2.5): lambda A, B: (lambda r: (1 + r + r**2 / 3) * np.exp(-r))(
        np.sqrt(10 * 0.3 * distances(A, B))
    ),
    RationalQuadratic(0.3, 2.0): lambda A, B: (1 + 0.15 * distances(A, B)) ** -2.0,
    Periodic(0.3, (1.0, 2.0, 0.5)): lambda A, B: np.exp(
        -4 * 0.3 * (np.sin(np.pi * (A[:, None] - B[None]) / np.array([1.0, 2.0, 0.5])) ** 2).sum(axis=2)
    ),
    ArcCosine(0): lambda A, B: angle(0, A @ B.T, np.square(A).sum(axis=1)[:, None], np.square(B).sum(axis=1)),
    ArcCosine(1): lambda A, B: angle(1, A @ B.T, np.square(A).sum(axis=1)[:, None], np.square(B).sum(axis=1)),
    ArcCosine((2, 0)): two_layers,
    Elementwise(np.cosh, np.sinh): lambda A, B: np.cosh(A @ B.T),
    Constant(2.5): lambda A, B: np.full((len(A), len(B)), 2.5),
    RBF(0.3) + Linear().on([1]) + 2.0: lambda A, B: (
        np.exp(-0.3 * distances(A, B)) + np.outer(A[:, 1], B[:, 1]) + 2
    ),
    RBF(0.3).on([0]) * Polynomial(2).on([2, 1]): lambda A, B: (
        np.exp(-0.3 * distances(A[:, :1], B[:, :1])) * (A[:, 1:] @ B[:, 1:].T + 1) ** 2
    ),
    3.0 * (Linear() * Linear()): lambda A, B: 3 * (A @ B.T) ** 2,
    Linear().prepared("standardize"): lambda A, B: ((A - MEAN) / SCALE) @ ((B - MEAN) / SCALE).T,
    RBF(0.3).prepared("normalize-rows"): lambda A, B: np.exp(
        -0.3 * distances(A / np.linalg.norm(A, axis=1)[:, None], B / np.linalg.norm(B, axis=1)[:, None])
    ),
    Linear().prepared("log1p"): lambda A, B: (
        (np.sign(A) * np.log1p(abs(A))) @ (np.sign(B) * np.log1p(abs(B))).T
    ),
    Bins(3): lambda A, B: np.mean(
        [
            np.searchsorted(e, A[:, j], side="right")[:, None] == np.searchsorted(e, B[:, j], side="right")
            for j, e in enumerate(np.sort(X, axis=0)[[2, 5]].T * 0.5 + np.sort(X, axis=0)[[3, 6]].T * 0.5)
        ],
        axis=0,
    ),
    Cosines(3, 2.0): cosine_terms,
    Categorical(): lambda A, B: (A[:, None] == B[None]).mean(axis=2),
    Custom(lambda A, B: A @ B.T + 1.0, name="shifted"): lambda A, B: A @ B.T + 1.0,
    Pairwise(lambda x, z: float(x @ z) ** 2, name="squared"): lambda A, B: (A @ B.T) ** 2,
}


def test_formulas(recorded):
    """Values, diagonals, features, sparse rows, and what kernels say of themselves."""
    said = {}
    for kernel, formula in FORMULAS.items():
        name = kernel.label
        fitted = kernel.fitted(X)
        assert fitted.is_fitted
        np.testing.assert_allclose(fitted(X, Z), formula(X, Z), rtol=1e-9, atol=1e-9, err_msg=name)
        K = fitted(X)
        # the angle of a row with itself has the root of the rounding error
        np.testing.assert_allclose(K, formula(X, X), rtol=1e-9, atol=1e-7, err_msg=name)
        np.testing.assert_array_equal(K, K.T)
        np.testing.assert_allclose(
            fitted.diag(Z), formula(Z, Z).diagonal(), rtol=1e-9, atol=1e-7, err_msg=name
        )
        np.testing.assert_allclose(kernel(Z, X), fitted(Z, X), rtol=1e-12)
        phi = fitted.features(Z)
        if phi is not None:
            np.testing.assert_allclose(
                fitted.transform(Z) @ fitted.transform(X).T, fitted(Z, X), rtol=1e-9, atol=1e-9
            )
        if (
            not isinstance(kernel, (Categorical, Pairwise, Periodic))
            and "standard" not in name
            and "shifted" not in name
        ):
            rows = sparse.csr_array(np.where(abs(X) > 0.5, X, 0.0))
            np.testing.assert_allclose(
                fitted(rows), fitted(rows.toarray()), rtol=1e-7, atol=1e-7, err_msg=name
            )
            np.testing.assert_allclose(
                fitted(rows, Z), fitted(rows.toarray(), Z), rtol=1e-7, atol=1e-7, err_msg=name
            )
        said[name] = [
            "" if isinstance(kernel, (Custom, Elementwise)) else repr(kernel),
            kernel.view,
            kernel.statistic,
            kernel.is_fitted,
            kernel.is_linear,
            kernel.needs_norms,
            kernel.needs_psd_check,
            kernel.takes_missing,
            kernel.is_corrected,
            kernel.is_approximate,
            None if phi is None else list(np.shape(phi)),
            kernel.decay,
            len(kernel.inner),
            [one.word for one in kernel.preparation],
            fitted.label,
            repr(kernel.base == kernel),
        ]
    recorded("said", said)


def test_declarations(recorded, own_kernels):
    """Parameters, their defaults, and what classes say of themselves."""
    flags = (
        "statistic",
        "aliases",
        "needs_norms",
        "is_linear",
        "needs_psd_check",
        "takes_missing",
        "is_corrected",
        "is_approximate",
        "layer_code",
        "learnt",
        "unit",
        "what",
        "example",
        "word",
        "name",
        "skips",
        "from_targets",
        "most_rows",
        "goes_inside",
        "symbol",
    )
    classes = [getattr(kernels, name) for name in kernels.__all__ if isinstance(getattr(kernels, name), type)]
    for cls in sorted(classes, key=lambda one: one.__name__):
        if is_dataclass(cls):
            own = {one.name: [default_of(one), one.repr, one.compare, one.kw_only] for one in fields(cls)}
            known = {flag: getattr(cls, flag, None) for flag in flags}
            plain = {key: value for key, value in known.items() if type(value) in (str, bool, int, tuple)}
            recorded(cls.__name__, [own, plain])
    known = kernels.parsing.text_names().items()
    recorded("names", sorted(name for name, cls in known if cls in classes))
    recorded("steps", sorted(steps.STEPS))


def default_of(field):
    return "needed" if field.default is MISSING else repr(field.default)


def test_graphs_of_kernels():
    """Kernels of nodes have the values of kernels of arrays."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from kernelweave.persistence.graph import Graph

    graph = Graph()
    node = graph.input("Z", 3, np.float64)
    outputs, wanted = {}, {}
    every = [one for one in FORMULAS if not isinstance(one, (Custom, Elementwise))]
    every += [
        approximate(RBF(0.3), RandomFeatures(6)),
        approximate(ArcCosine((0, 2)), RandomFeatures(6)),
        approximate(RBF(0.3), Nystroem(4)),
    ]
    for k, kernel in enumerate(every):
        fitted = kernel.fitted(X)
        new, rows = Table.of_checked(node, None), as_table(X)
        outputs[f"K{k}"] = fitted._gram(new, rows), np.float64
        outputs[f"d{k}"] = fitted._diag(new), np.float64
        wanted[f"K{k}"], wanted[f"d{k}"] = fitted(Z, X), fitted.diag(Z)
    session = runtime.InferenceSession(graph.built(outputs).SerializeToString())
    found = dict(zip(outputs, session.run(None, {"Z": Z}), strict=True))
    for name, values in wanted.items():
        np.testing.assert_allclose(
            found[name], values, rtol=1e-9, atol=1e-7, err_msg=f"{name} {every[int(name[1:])]}"
        )


def test_tables_whose_cells_are_skipped():
    hole = np.where(X > 1, np.nan, X)
    table = Skip().fitted(Table(hole)).apply(Table(hole))
    assert table.select(None) is table
    np.testing.assert_array_equal(table.select([1]).values, hole[:, [1]])
    np.testing.assert_array_equal(table.rows([2, 0]).values, hole[[2, 0]])
    assert table.rows([0]).spread is table.spread
    assert table.n_expanded_columns == 3
    assert isinstance(table.take(), pairs.IncompleteRows)
    part = table.take()[[1, 0]]
    assert (part.shape, len(part)) == ((2, 3), 2)
    np.testing.assert_array_equal(np.sort(table.take().entries()), np.sort(hole[~np.isnan(hole)]))


def test_derivatives_and_layers():
    S = np.linspace(-0.4, 1.7, 9)
    left, right = np.full(9, 2.1), np.full(9, 1.8)
    step = 1e-6
    for kernel in (
        Linear(),
        Polynomial(1, 0.3, 0.7),
        Polynomial(3, 0.5, 0.7),
        RBF(0.3),
        Matern(0.3, 0.5),
        Matern(0.3, 1.5),
        Matern(0.3, 2.5),
        RationalQuadratic(0.3, 2.0),
        Elementwise(np.cosh, np.sinh),
    ):
        values = S if kernel.statistic == "dot" else S + 0.5
        assert kernel.layer() is kernel
        slope = kernel.gradient(np, values, kernel.formula(np, values, None, None))
        wanted = (
            kernel.formula(np, values + step, None, None) - kernel.formula(np, values - step, None, None)
        ) / (2 * step)
        np.testing.assert_allclose(slope, wanted, rtol=1e-6, atol=1e-8)
    assert Matern(0.3, 0.5).gradient(np, np.zeros(2), np.ones(2)).tolist() == [0.0, 0.0]
    quadratic = RationalQuadratic(0.3, 2.0)
    by_power = [
        replace(quadratic, power=2.0 + sign * step).formula(np, S + 0.5, None, None) for sign in (1, -1)
    ]
    np.testing.assert_allclose(
        quadratic.by_power(S + 0.5), (by_power[0] - by_power[1]) / (2 * step), rtol=1e-5
    )
    for degree in (0, 1, 2):
        kernel = ArcCosine(degree)
        value = kernel.formula(np, S, left, right)
        by_product, by_norm = kernel.layer_partials(np, S, left, right, value)
        up, down = (kernel.formula(np, S + sign * step, left, right) for sign in (1, -1))
        np.testing.assert_allclose(by_product, (up - down) / (2 * step), rtol=1e-5)
        up, down = (kernel.formula(np, S, left + sign * step, right) for sign in (1, -1))
        np.testing.assert_allclose(by_norm, (up - down) / (2 * step), rtol=1e-5, atol=1e-8)
        up, down = (kernel.own_value(np, left + sign * step) for sign in (1, -1))
        np.testing.assert_allclose(kernel.own_slope(np, left), (up - down) / (2 * step), rtol=1e-6, atol=1e-8)
        zero = kernel.layer_partials(np, np.zeros(1), np.zeros(1), np.ones(1), np.ones(1))
        assert [part.tolist() for part in zero] == [[0.0], [0.0]]
    assert ArcCosine(0).own_value(np, np.array([0.0, 2.0])).tolist() == [0.5, 1.0]
    assert [ArcCosine(n).own_value(np, np.array([2.0])).tolist() for n in (1, 2)] == [[2.0], [12.0]]
    codes = [
        (one.layer_code, tuple(one.layer_numbers())) for one in (Polynomial(3, 0.5), RBF(0.3), ArcCosine(2))
    ]
    assert codes == [(1, (3.0, 0.5)), (2, (0.3, 0.0)), (3, (2.0, 0.0))]
    assert (Linear().layer_code, Polynomial(2, gamma=0.5).layer_code, ArcCosine((1, 0)).layer_code) == (
        0,
        None,
        None,
    )
    assert ArcCosine((1, 0)).own_value(np, np.array([0.0])).tolist() == [0.5]
    zero = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert ArcCosine(0)(zero).tolist() == [[0.5, 0.5], [0.5, 1.0]]
    assert ArcCosine(1)(zero).tolist() == [[0.0, 0.0], [0.0, 1.0]]
    for kernel, words in (
        (Laplacian(0.3), "has inner products only. Use Linear, Polynomial, RBF, ArcCosine of one layer"),
        (Linear().on([0]), "has inner products only"),
        (RBF("median"), "has no rows to take parameters from. Pass numbers"),
        (ArcCosine((1, 0)), "ArcCosine of 2 layers cannot be one layer of a deep kernel. Use one layer each"),
        (Periodic(), "needs the derivative of every layer|has inner products only"),
    ):
        with pytest.raises(InputError, match=words):
            kernel.layer()


def test_values_from_a_statistic():
    S = distances(X, Z)
    kernel = RBF(0.3)
    wanted = np.exp(-0.3 * S)
    out = np.empty_like(S)
    assert kernel.from_statistic(S, out=out) is out
    np.testing.assert_allclose(out, wanted)
    assert kernel.from_statistic(S) is not S
    own = Linear().from_statistic(S)
    assert own is not S
    np.testing.assert_array_equal(own, S)
    products = X @ Z.T
    left, right = np.square(X).sum(axis=1)[:, None], np.square(Z).sum(axis=1)[None, :]
    arc = ArcCosine(1)
    plain = arc.from_statistic(products, left, right)
    np.testing.assert_allclose(plain, arc(X, Z), rtol=1e-9)
    large = np.tile(products, (700, 30))
    found = arc.from_statistic(large, np.tile(left, (700, 1)), np.tile(right, (1, 30)), out=large)
    assert found is large
    np.testing.assert_allclose(found, np.tile(plain, (700, 30)), rtol=1e-12)
    with pytest.raises(
        InputError, match=r"ArcCosine needs the squared norms of the rows\. Pass `sq_left` and `sq_right`"
    ):
        arc.from_statistic(products)


def test_texts_of_kernels(recorded):
    """Labels, `repr`, and what is read back from it."""
    every = [
        Linear().on(["age", 2], name="n"),
        RBF("median").prepared("standardize").on(slice("a", "c")),
        2.0 * RBF(0.123456),
        3.0 * Linear().on([0]),
        (Linear() + RBF(0.5)) * Constant(2.0),
        Linear().on([-1]) + 1.0,
        RBF(("median", 4.0)),
        Laplacian(("scale", 0.25)),
        Matern(("median", 2.0), 2.5),
        ArcCosine((0, 1)),
        ArcCosine(2, 3),
        Polynomial(2, 0.5, 0.1),
        Linear().on([True, False, True]),
        Linear().on(range(6)),
        Linear().on(slice(0, 8, 2)),
        Categorical().on("x"),
        Tanimoto(),
        RBF(0.5).prepared("log1p", "impute-median"),
        RBF(0.5).prepared("skip"),
        kernels.Sum((Linear(),)),
        Periodic(0.5, (1.0, 2.0)),
        Spectrum(4),
        CharNGrams(2),
        Tokens((1, 2)),
        Bins(4),
        Cosines(3, 0.5),
        RBF(1.0).on(ViewColumns("rna")),
        RBF(1.0).on(ViewColumns("rna", (0, 1))),
        1.0 + Linear(),
        RBF(1.0).on(ViewColumns("rna", ("g",)), name="genes"),
        Gapped(2, 2),
        Mismatch(3, 2, "ba"),
        WeisfeilerLehman(2, False),
    ]
    recorded(
        "texts", {f"{k}": [repr(one), one.label, one.view, repr(one.base)] for k, one in enumerate(every)}
    )
    recorded(
        "approximate",
        [
            repr(approximate(one, rule))
            for one in (RBF(0.5), 2.0 * RBF(0.5).on([0]), Linear() + RBF(0.5))
            for rule in (Nystroem(5), RandomFeatures(6, "plain"))
        ],
    )
    for kernel in (
        one
        for one in every
        if "ViewColumns" not in repr(one) and "slice" not in repr(one) and "Sum" not in repr(one)
    ):
        again = parse(repr(kernel))
        assert again == kernel, repr(kernel)
        assert hash(again) == hash(kernel)
        assert pickle.loads(pickle.dumps(kernel)) == kernel
    for text, kernel in (
        ("gaussian(0.5)", RBF(0.5)),
        ("POLY(degree=2)", Polynomial(2)),
        ("arc_cosine(degree=0)", ArcCosine(0)),
        ("words", Tokens()),
        ("2*linear + 1", 2.0 * Linear() + 1.0),
        ("rbf(gamma=median)", RBF("median")),
        ("rbf(gamma=('scale', 2))", RBF(("scale", 2.0))),
        ("linear.on(['a'], name='n')", Linear().on(["a"], name="n")),
        ("linear.on(columns=0)", Linear().on(0)),
        ("linear.on(slice('a', 'c'))", Linear().on(slice("a", "c"))),
        ("linear.prepared('log1p').on([1])", Linear().prepared("log1p").on([1])),
        (
            "linear.prepared(Standardize(mean=[1.0], scale=[2.0]))",
            Linear().prepared(Standardize([1.0], [2.0])),
        ),
        (" linear ", Linear()),
        ("linear.on(None)", Linear().on(None)),
        ("linear.on([-1])", Linear().on([-1])),
    ):
        assert parse(text) == kernel
    for text, words in (
        ("", "A kernel is given as text of 1 to 10000 characters, got ''. Try"),
        (3, "got 3"),
        ("x" * 10001, "10000 characters"),
        ("rbf(", r"Cannot read the kernel 'rbf\('\. Write it like"),
        ("3.0", r"'3\.0' is a number, not a kernel\. Write for example"),
        ("nothing(1)", "Unknown kernel 'nothing'"),
        ("rbf(0.5).fit()", r"Cannot read 'rbf\(0\.5\)\.fit\(\)' in the kernel"),
        ("linear - linear", "Cannot read 'linear - linear'"),
        ("rbf(gamma=f(1))", r"Cannot read the value 'f\(1\)' in the kernel"),
        ("linear.on()", "Cannot read"),
        ("linear.on([0], columns=[1])", "Cannot read"),
        ("linear.on([0], 'n', 3)", "Cannot read"),
        ("linear.on([0], size=3)", "Cannot read"),
        ("True", "Cannot read 'True'"),
        ("linear(**a)", "Cannot read"),
        ("sum(linear)", "Cannot read the value 'linear'"),
        ("rbf(size=1)", "Unknown parameter of kernel 'rbf' 'size'"),
        ("linear(1)", r"takes the parameters \[\] once each|has no parameters"),
        (
            "rbf(0.5, gamma=1)",
            r"Kernel 'rbf' takes the parameters \['gamma'\] once each, got \(0\.5,\) and \{'gamma': 1\}",
        ),
        ("linear(a=1)", r"Kernel 'linear' has no parameters, got 'a'\. Leave it out"),
        ("slice(1)", "Unknown kernel"),
    ):
        with pytest.raises(InputError, match=words):
            parse(text)
    with pytest.raises(
        InputError, match=r"Kernel 'elementwise' needs derivative, got \['name'\]\. Complete it"
    ):
        build(Elementwise, (np.cosh,), {"name": "x"})
    with pytest.raises(InputError, match=r"needs function, derivative, got \[\]"):
        build(Elementwise, (), {})


def test_algebra_and_selections():
    a, b, c = Linear(), RBF(0.5), Categorical()
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a + 0 is a
    assert 0 + a is a
    assert sum([a, b]) == a + b
    assert 2 * (3.0 * a) == 6.0 * a
    assert np.float64(2.0) * a == 2.0 * a
    assert 2.0 * Constant(3.0) == Constant(6.0)
    assert (2.0 * a.on([0])) == (2.0 * a).on([0])
    assert (a + b).prepared("log1p") == kernels.Prepared(a + b, ("log1p",))
    assert (a.on([0]) + b).prepared("log1p") == a.prepared("log1p").on([0]) + b.prepared("log1p")
    assert (2.0 * a).prepared("log1p") == 2.0 * a.prepared("log1p")
    assert a.prepared("log1p").prepared("standardize") == a.prepared("log1p", "standardize")
    assert a.prepared(None) is a
    assert a.prepared("skip").prepared("log1p") == a.prepared("log1p", "skip")
    assert (
        (a + 1.0).prepared("standardize").terms
        if hasattr((a + 1.0).prepared("standardize"), "terms")
        else True
    )
    assert a.on([0]).base is a
    for refused, words in (
        (
            lambda: a.on([0]).on([1]),
            r"A kernel can be restricted to columns once, got Linear\(\)\.on\(\[0\]\), which is",
        ),
        (
            lambda: kernels.Prepared(a.on([0]), ("log1p",)),
            r"Prepared is made of a kernel without columns and steps of its own",
        ),
        (
            lambda: kernels.Prepared(a, ()),
            r"Prepared must have at least one step, got none\. Use the kernel itself",
        ),
        (lambda: kernels.Sum(()), r"Sum must have a tuple of at least one term, got \(\)\. Pass for example"),
        (lambda: kernels.Sum((3,)), r"Sum is made of kernels, got 3\. Pass for example RBF\(gamma=0\.5\)"),
        (
            lambda: a.prepared("log1p", "log1p"),
            r"A preparation takes every step once, got 'log1p' twice\. Leave one out",
        ),
        (lambda: a.prepared("nothing"), "Unknown preparation 'nothing'"),
        (
            lambda: a.prepared(3),
            r"A preparation must be 'standardize', .*'impute-median', 'impute-nearest' or None, got 3",
        ),
        (
            lambda: a.prepared({"step": "log1p", "size": 3}),
            r"The preparation 'log1p' has no such numbers: \['size'\]\. Leave",
        ),
        (lambda: -1.0 * a, "factor"),
        (lambda: 0.0 * Constant(), "factor"),
        (lambda: kernels.Scaled(a, -1.0), "factor"),
        (lambda: a.on([0], name=3), "name"),
        (lambda: Constant(-1.0), "value"),
        (lambda: RBF(-1.0), "gamma"),
        (lambda: RBF(("median",)), "a rule and its factor"),
        (lambda: RBF("mean"), "gamma"),
        (lambda: Periodic(period=()), "Give a period for each column"),
        (lambda: Matern(nu=1.0), "nu"),
        (lambda: ArcCosine(3), "degree"),
        (
            lambda: ArcCosine((1, 0), 3),
            r"must have one entry per layer \(layers=3\), got \(1, 0\)\. Leave out",
        ),
        (lambda: ArcCosine(()), "one entry per layer"),
        (lambda: Polynomial(0), "degree"),
        (lambda: Polynomial(2, -0.1), "coef0"),
        (lambda: CharNGrams((3, 2)), "The least length comes first"),
        (lambda: CharNGrams((1, 2, 3)), "n"),
        (lambda: Spectrum(0), "k"),
        (
            lambda: Mismatch(2, 2),
            r"`m` of Mismatch must be less than k = 2, got 2\. All strings would be alike",
        ),
        (lambda: Tokens(pattern="("), r"`pattern` of Tokens must be a regular expression, got '\(': "),
        (
            lambda: Linear().prepared("standardize")(sparse.csr_array(X)),
            r"Sparse columns cannot be standardised: without their zeros",
        ),
    ):
        with pytest.raises(InputError, match=words):
            refused()
    assert RBF(("median", 1.0)) == RBF("median")
    assert ArcCosine((1, 1)) == ArcCosine(1, 2)
    assert ArcCosine(1, 3).degrees == (1, 1, 1)
    assert composed.with_gamma([a, RBF(0.1).on([0]), RBF(2.0).on([0])], 0.5, spread=True) == [
        a,
        RBF(0.125).on([0]),
        RBF(0.5).on([0]),
        RBF(2.0).on([0]),
    ]
    assert composed.with_gamma([Laplacian(1.0)], ("median", 2.0), spread=True) == [
        Laplacian(("median", f)) for f in (0.5, 2.0, 8.0)
    ]
    assert composed.with_gamma([Laplacian(1.0)], "median") == [Laplacian("median")]
    composed.check_gamma([a, RBF(1.0).on([0])])
    with pytest.raises(
        InputError,
        match=r"`gamma` is for Gaussian and Laplacian kernels and others of a distance, and `kernels`",
    ):
        composed.check_gamma([a, c + a])
    found = list(composed.parts_of((a.on([0], name="n") + 2.0 * b) * c))
    assert found == [(a, (0,), "n"), (b, None, None), (c, None, None)]
    assert composed.cells_read(a + Tokens().on("x")) is str
    assert composed.cells_read(WeisfeilerLehman()) is object
    assert composed.cells_read(a * b) is None
    on = a.on(ViewColumns("v"))
    assert composed.on_views(on)
    assert composed.on_views(on + 1.0)
    assert not composed.on_views(on + a)
    assert not composed.on_views(a.on([0]))
    placed = composed.put(
        on + a.on([0], name="n") + b,
        lambda base, columns, name: base.on(ViewColumns("w", columns), name=name),
    )
    assert placed == on + a.on(ViewColumns("w", (0,)), name="n") + b.on(ViewColumns("w"))
    assert composed.put(a + b, lambda base, columns, name: base.on(ViewColumns("w"))) == (a + b).on(
        ViewColumns("w")
    )
    assert [
        one.name for one in composed.steps_of(a.prepared("log1p").on([0]) + b.prepared("standardize"))
    ] == ["log1p", "standardize"]


def test_steps_by_formulas():
    weight = RNG.uniform(0.5, 2.0, 9)
    table = Table(np.c_[X, np.arange(9) % 3, np.full(9, 4.0)], levels=(0, 0, 0, 3, 0))
    standard = Standardize().fitted(table, weight)
    mean = weight @ X / weight.sum()
    np.testing.assert_allclose(standard.mean, [*mean, 0, 0])
    np.testing.assert_allclose(standard.scale, [*np.sqrt(weight @ np.square(X - mean) / weight.sum()), 1, 1])
    np.testing.assert_allclose(standard.apply(table).values[:, :3], (X - mean) / standard.scale[:3])
    assert [one.tolist() for one in standard.affine()] == [standard.mean.tolist(), standard.scale.tolist()]
    hole = X.copy()
    hole[[0, 3, 5], [0, 1, 0]] = np.nan
    hole[:, 2] = np.nan
    lost = Standardize().fitted(Table(hole), weight)
    for j in (0, 1):
        known = ~np.isnan(hole[:, j])
        own = np.average(hole[known, j], weights=weight[known])
        np.testing.assert_allclose(lost.mean[j], own)
        np.testing.assert_allclose(
            lost.scale[j] ** 2, np.average((hole[known, j] - own) ** 2, weights=weight[known])
        )
    assert (lost.mean[2], lost.scale[2]) == (0.0, 1.0)
    mixed = Table(np.c_[hole[:, :2], [0, 1, 1, 2, np.nan, 2, 2, 1, 0]], levels=(0, 0, 3))
    first = Impute().fitted(mixed, weight)
    np.testing.assert_allclose(first.fill[:2], lost.mean[:2])
    counted = [weight[mixed.values[:, 2] == k].sum() for k in range(3)]
    assert first.fill[2] == np.argmax(counted)
    np.testing.assert_array_equal(first.apply(mixed).values[0], [first.fill[0], hole[0, 1], 0])
    assert (first.marked, first.donors) == (None, None)
    median = Impute("median", True).fitted(mixed, np.ones(9))
    np.testing.assert_allclose(median.fill[:2], np.nanmedian(hole[:, :2], axis=0))
    assert median.marked.tolist() == [True, True, True]
    np.testing.assert_array_equal(median.apply(mixed).take()[:, -3:], np.isnan(mixed.values))
    nearest = Impute("nearest", n_neighbors=2).fitted(mixed)
    scale = np.nanstd(hole[:, :2], axis=0)
    wanted = KNNImputer(n_neighbors=2).fit(hole[:, :2] / scale).transform(hole[:, :2] / scale) * scale
    np.testing.assert_allclose(nearest.apply(mixed).values[:, :2], wanted)
    assert nearest.donors is not None
    rows = sparse.csr_array(np.array([[0.0, np.nan], [3.0, 0.0], [np.nan, 0.0]]))
    filled = Impute().fitted(as_table(rows, missing=True), np.array([1.0, 3.0, 2.0]))
    np.testing.assert_allclose(filled.fill, [9.0 / 4.0, 0.0])
    np.testing.assert_allclose(
        filled.apply(as_table(rows, missing=True)).values.toarray(), [[0, 0], [3, 0], [2.25, 0]]
    )
    for step in (Impute("median"), Impute(indicator=True), Impute("nearest")):
        with pytest.raises(
            InputError,
            match=r"Missing cells of sparse rows are filled with the mean of their column, without",
        ):
            step.fitted(as_table(rows, missing=True))
    unit = steps.NormalizeRows().apply(Table([[3.0, 4.0], [0.0, 0.0], [np.nan, 2.0], [1e300, 1e300]])).values
    np.testing.assert_allclose(
        unit, [[0.6, 0.8], [0, 0], [np.nan, 2 / np.sqrt(8)], [np.sqrt(0.5), np.sqrt(0.5)]]
    )
    np.testing.assert_allclose(
        steps.NormalizeRows().apply(as_table(sparse.csr_array([[3.0, 4.0], [0.0, 0.0]]))).values.toarray(),
        [[0.6, 0.8], [0, 0]],
    )
    assert steps.NormalizeRows().apply(Table([[3.0, 4.0]], names=("a", "b"))).names == ("a", "b")
    log = steps.Log1p().apply(table).values
    np.testing.assert_allclose(log[:, :3], np.sign(X) * np.log1p(abs(X)))
    np.testing.assert_array_equal(log[:, 3], table.values[:, 3])
    twice = steps.Log1p().apply(as_table(sparse.csr_array([[-1.0, 0.0], [0.0, 3.0]])))
    np.testing.assert_allclose(twice.values.toarray(), [[-np.log(2), 0], [0, np.log(4)]])
    for make, words in (
        (
            lambda: Standardize([1.0]),
            r"`mean` and `scale` of Standardize must be equally long, got lengths 1, None\. Give one",
        ),
        (
            lambda: Standardize([1.0], [0.0]),
            r"`scale` of Standardize must hold one number for each column, scales above 0",
        ),
        (
            lambda: Standardize([[1.0]], [1.0]),
            r"`mean` of Standardize must hold one number for each column, got \[\[1\.0\]\]\. Leave it",
        ),
        (lambda: Standardize(3, 3), "must hold one number"),
        (lambda: Standardize([np.nan], [1.0]), "must hold one number"),
        (
            lambda: standard.apply(Table(X)),
            r"Standardize was fitted on 5 columns, got 3\. Pass the columns of the training rows",
        ),
        (
            lambda: Impute(fill=[1.0], indicator=True),
            r"`fill` and `marked` of .* must be given together, got no marked\. Give both",
        ),
        (lambda: Impute("nearest", fill=[1.0]), "`fill` and `donors`"),
        (lambda: Impute("nearest", fill=[1.0], donors=[[1.0, 2.0]]), "`donors`"),
        (lambda: Impute("mode"), "rule"),
        (lambda: Impute(n_neighbors=0), "n_neighbors"),
        (lambda: median.apply(Table(X[:, :1])), "fitted on 3 columns, got 1"),
        (lambda: Metric(form="full"), r"A full metric is learnt by 'rfm', got by='ard'\. Use by='rfm'"),
        (
            lambda: Metric(matrix=[[1.0]]),
            r"`matrix` and `relevance` of Metric must be given together\. Give both, or neither",
        ),
        (lambda: Metric(matrix=[[1.0]], relevance=[1.0, 0.0]), "`relevance`"),
        (lambda: Metric().fitted(Table(X)), r"A metric is learnt from targets"),
        (
            lambda: Metric().fitted_to(Table(hole), X[:, :1]),
            r"A metric needs all cells, got missing ones\. Fill them",
        ),
        (
            lambda: Metric().fitted_to(as_table(rows, missing=True), X[:3, :1]),
            r"A metric is learnt on dense columns, got sparse rows",
        ),
        (
            lambda: Metric(matrix=[[1.0, 0.0]], relevance=[1.0, 0.0]).apply(Table(X)),
            "fitted on 2 columns, got 3",
        ),
    ):
        with pytest.raises(InputError, match=words):
            make()
    mapped = Metric(matrix=[[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]], relevance=[0.2, 0.3, 0.5]).apply(Table(X))
    np.testing.assert_allclose(mapped.values, np.c_[X[:, 0] + 2 * X[:, 1], 3 * X[:, 2]])
    assert Impute("median", True).to_value() == "impute-median"
    assert Impute("nearest").to_value() == "impute-nearest"
    assert Impute("nearest", n_neighbors=3).to_value() == {
        "step": "impute",
        "rule": "nearest",
        "n_neighbors": 3,
    }
    assert Standardize().to_value() == "standardize"
    assert Standardize([1.0], [2.0]).to_value() == {"step": "standardize", "mean": [1.0], "scale": [2.0]}
    assert [one.name for one in steps.as_steps(["skip", None, "log1p", {"step": "standardize"}])] == [
        "log1p",
        "standardize",
        "skip",
    ]


def shared(kind, x, z, unit, alone):
    """A statistic over the columns that two rows have, scaled to all."""
    both = ~np.isnan(x) & ~np.isnan(z)
    terms = {"dot": x * z, "sqdist": (x - z) ** 2, "l1": abs(x - z)}[kind]
    if not both.any():
        return alone
    return terms[both].sum() * unit.sum() / unit[both].sum()


def test_missing_cells_that_are_skipped():
    weight = RNG.uniform(0.5, 2.0, 9)
    hole = X.copy()
    hole[[0, 3, 5, 1], [0, 1, 0, 2]] = np.nan
    hole[7, :2] = np.nan
    hole[8, 2] = hole[8, 0] = np.nan
    other = Z.copy()
    other[0, 1] = other[1, 2] = np.nan
    skip = Skip().fitted(Table(hole), weight)
    mean, variance, difference, square = np.zeros((4, 3))
    for j in range(3):
        known = ~np.isnan(hole[:, j])
        x, own = hole[known, j], weight[known] / weight[known].sum()
        mean[j] = own @ x
        variance[j], square[j] = own @ (x - mean[j]) ** 2, own @ x**2
        difference[j] = own @ abs(x[:, None] - x) @ own
    np.testing.assert_allclose([skip.mean, skip.variance, skip.difference], [mean, variance, difference])
    units = {"dot": square, "sqdist": variance, "l1": difference}
    alone = {"dot": (mean**2).sum(), "sqdist": 2 * variance.sum(), "l1": difference.sum()}
    made = {"dot": Linear(), "sqdist": RBF(0.3), "l1": Laplacian(0.3)}
    for kind, kernel in made.items():
        fitted = kernels.Prepared(kernel, (skip,))
        for A, B in ((hole, other), (hole, hole), (other, hole)):
            S = np.array([[shared(kind, x, z, units[kind], alone[kind]) for z in B] for x in A])
            if A is B and kind != "dot":
                np.fill_diagonal(S, 0.0)
            wanted = S if kind == "dot" else np.exp(-0.3 * S)
            found = fitted(A) if A is B else fitted(A, B)
            np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9, err_msg=kind)
            np.testing.assert_allclose(
                fitted(sparse.csr_array(A), sparse.csr_array(B)),
                S if kind == "dot" else np.exp(-0.3 * S if A is not B else fitted_log(fitted, A, B)),
                rtol=1e-6,
                atol=1e-8,
            )
        np.testing.assert_allclose(fitted.diag(hole), fitted(hole).diagonal(), rtol=1e-9)
        assert fitted.features(hole) is None
        assert fitted.is_corrected
        assert fitted.takes_missing
    complete = kernels.Prepared(RBF(0.3), (skip,))
    np.testing.assert_allclose(complete(X), RBF(0.3)(X))
    rows = TrainingRows(skip.apply(Table(hole)), weight)
    known = ~np.isnan(hole)
    all_weights = np.repeat(weight[:, None], 3, axis=1)[known]
    values = hole[known]
    center = all_weights @ values / all_weights.sum()
    np.testing.assert_allclose(rows.variance, all_weights @ (values - center) ** 2 / all_weights.sum())


def fitted_log(fitted, A, B):
    """Logarithms of the values between two tables of the same rows."""
    return np.log(fitted(A, B.copy()))


def test_statistics_of_training_rows(monkeypatch):
    weight = np.array([1.0, 2.0, 3.0, 1.0, 0.0, 2.0, 1.0, 1.0, 4.0])
    repeated = np.repeat(np.arange(9), weight.astype(int))
    for kind, power in (("sqdist", 2), ("l1", 1)):
        for A in (X, X[:, :1]):
            own = distances(A[repeated], A[repeated], power)[np.triu_indices(len(repeated), 1)]
            np.testing.assert_allclose(TrainingRows(Table(A), weight).median(kind), np.median(own[own > 0]))
            plain = distances(A, A, power)[np.triu_indices(9, 1)]
            np.testing.assert_allclose(TrainingRows(Table(A)).median(kind), np.median(plain))
    rows = TrainingRows(Table(X), weight, targets=np.arange(9.0)[:, None])
    assert rows.table.n_rows == 8
    assert rows.targets.ravel().tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
    cells = np.repeat(X, weight.astype(int), axis=0)
    np.testing.assert_allclose(rows.variance, cells.var())
    np.testing.assert_allclose(TrainingRows(as_table(sparse.csr_array(X)), weight).variance, cells.var())
    np.testing.assert_allclose(RBF("scale").fitted(X, weight).gamma, 1 / (3 * cells.var()))
    np.testing.assert_allclose(Laplacian("scale").fitted(X, weight).gamma, 1 / (3 * cells.std()))
    np.testing.assert_allclose(
        RBF(("median", 4.0)).fitted(X).gamma, 4 / np.median(distances(X, X)[np.triu_indices(9, 1)])
    )
    equal = TrainingRows(Table(np.ones((4, 2))))
    assert (equal.median("sqdist"), equal.variance) == (1.0, 1.0)
    assert TrainingRows(Table(np.ones((4, 1)))).median("l1") == 1.0
    assert TrainingRows(Table(np.array([[1.0, 2.0]]))).median("sqdist") == 1.0
    assert rows.on(None) is rows
    assert rows.on([0]) is rows.on([0])
    assert rows.on([1, 0]).table.values.tolist() == X[weight > 0][:, [1, 0]].tolist()
    first, after = rows.after((Standardize(),))
    assert rows.after((Standardize(),))[1] is after
    assert first[0].is_fitted
    assert after.distinct[0] is rows.distinct[0]
    assert rows.after(()) == ((), rows)
    double = np.concatenate([X, X[[2, 5, 2]], -0.0 * X[:1] + X[:1]])
    order, sums = TrainingRows(Table(double), np.arange(1.0, 14.0)).distinct
    assert len(order) == 9
    for place, total in zip(order, sums, strict=True):
        assert total == np.arange(1.0, 14.0)[(double == double[place]).all(axis=1)].sum()
    order, sums = TrainingRows(as_table(sparse.csr_array(double))).distinct
    assert sorted(sums) == [1, 1, 1, 1, 1, 1, 2, 2, 3]
    assert TrainingRows(Table(X)).some(20).tolist() == list(range(9))
    few = TrainingRows(Table(double)).some(4)
    assert len(np.unique(double[few], axis=0)) == 4
    moved = np.random.default_rng(1).permutation(13)
    again = TrainingRows(Table(double[moved])).some(4)
    assert sorted(map(tuple, double[moved][again])) == sorted(map(tuple, double[few]))
    monkeypatch.setattr(training_rows, "MEDIAN_ROWS", 4)
    taken, counted = TrainingRows(Table(double), np.arange(1.0, 14.0)).sample
    distinct, sums = TrainingRows(Table(double), np.arange(1.0, 14.0)).distinct
    reached = np.cumsum(sums)
    wanted = [int(np.flatnonzero(reached >= at)[0]) for at in (np.arange(4) + 0.5) / 4 * reached[-1]]
    assert taken.tolist() == distinct[np.unique(wanted)].tolist()
    assert counted is None or counted.tolist() == np.unique(wanted, return_counts=True)[1].tolist()
    assert sorted(TrainingRows(Table(double[[0, 1, 0, 1, 0]])).sample[1]) == [2.0, 3.0]
    assert training_rows._unless_equal(np.array([2.0, 2.0])) is None
    assert training_rows._unless_equal(np.array([2.0, 3.0])).tolist() == [2.0, 3.0]
    for table, words in (
        (
            Table(np.full((3, 1), 1.0) * np.array([[0.0], [1e-170], [2e-170]])),
            "median distance of the training rows is .*unusable as a scale",
        ),
        (
            Table(np.array([[1e200], [0.0]])),
            r"Rows must not hold numbers above .*, got 1e\+200, whose square overflows",
        ),
    ):
        with pytest.raises(InputError, match=words):
            TrainingRows(table).median("sqdist")
    with pytest.raises(
        InputError, match=r"A kernel is fitted on rows with a positive weight, got none\. Pass some"
    ):
        TrainingRows(Table(X), np.zeros(9))
    rng = np.random.default_rng(0)
    for n in (2, 3, 4, 7, 50, 51):
        values = rng.integers(0, 9, n).astype(float) if n % 2 else rng.normal(size=n)
        gaps = np.sort(abs(values[:, None] - values)[np.triu_indices(n, 1)])
        gaps = gaps[gaps > 0]
        low, high = training_rows._middle_on_line(values, 1e-12)
        if len(gaps):
            assert (low, high) == (gaps[(len(gaps) - 1) // 2], gaps[len(gaps) // 2])
    monkeypatch.setattr(training_rows, "_TOGETHER", 0)
    for _ in range(60):
        values = rng.integers(0, 30, rng.integers(3, 9)) + 0.1 * rng.integers(0, 9)
        gaps = np.sort(abs(values[:, None] - values)[np.triu_indices(len(values), 1)])
        gaps = gaps[gaps > 1e-9]
        if len(gaps):
            found = training_rows._middle_on_line(values, 1e-12)
            np.testing.assert_allclose(found, (gaps[(len(gaps) - 1) // 2], gaps[len(gaps) // 2]))
    for n in (1, 2, 7, 8, 20_000, 20_001):
        values = rng.normal(size=n)
        assert training_rows._middle(values.copy()) == pytest.approx(np.median(values), rel=1e-15)


def test_pairs_of_rows():
    wide = RNG.normal(size=(6, 7)) + 100.0
    for A, B in ((X, Z), (wide, wide[:2] + 1.0)):
        for kind, wanted in (("sqdist", distances(A, B)), ("l1", distances(A, B, 1)), ("dot", A @ B.T)):
            own = {"sqdist": distances(A, A), "l1": distances(A, A, 1), "dot": A @ A.T}[kind]
            for left, right in (
                (A, B),
                (sparse.csr_array(A), sparse.csr_array(B)),
                (sparse.csr_array(A), B),
                (A, sparse.csr_array(B)),
            ):
                np.testing.assert_allclose(
                    pairs.pairwise_statistic(kind, left, right), wanted, rtol=1e-9, atol=1e-8
                )
            for left in (A, sparse.csr_array(A)):
                S = pairs.pairwise_statistic(kind, left)
                np.testing.assert_allclose(S, own, rtol=1e-9, atol=1e-8)
                np.testing.assert_array_equal(S, S.T)
                assert kind == "dot" or not S.diagonal().any()
                for entries in (1, 20, 10**6):
                    whole = np.zeros_like(own)
                    for rows, part in pairs.statistic_panels(kind, left, entries):
                        assert part.shape == (rows.stop - rows.start, len(own) - rows.start)
                        whole[rows, rows.start :] = part
                    np.testing.assert_allclose(np.triu(whole), np.triu(own), rtol=1e-9, atol=1e-8)
            others = pairs.Others.of(kind, B)
            np.testing.assert_allclose(others.values(A), wanted, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(others.values(sparse.csr_array(A)), wanted, rtol=1e-9, atol=1e-8)
    for A, B in ((X, Z[:, :2]), (X[0], Z), (X, Z[0])):
        with pytest.raises(
            InputError,
            match=r"Rows must be 2D arrays with equally many columns, got .*\. Select the same columns",
        ):
            pairs.pairwise_statistic("dot", A, B)
    with pytest.raises(InputError, match="Unknown pairwise statistic 'max'"):
        pairs.pairwise_statistic("max", X)
    weights = np.array([1.0, 3.0, 2.0, 2.0])
    values = np.array([5.0, 1.0, 7.0, 3.0])
    assert pairs.weighted_median(values, weights) == np.median(np.repeat(values, weights.astype(int)))
    assert pairs.weighted_median(values, np.array([1.0, 1.0, 1.0, 4.0])) == 3.0
    assert pairs.weighted_median(values, np.ones(4)) == 4.0


def test_kernels_of_counts(recorded):
    texts = ["Mild pain, no fever", "no pain", "fever and mild pain pain", "", "Pain"]
    new = ["severe pain", "no fever at all", "xyz"]

    def column(cells):
        return pd.DataFrame({"note": cells})

    for kernel in (
        Tokens(),
        Tokens((1, 2), False, True, False, False),
        CharNGrams(),
        CharNGrams(3, True, False, True, True, False),
        Tokens(pattern="[a-z]+"),
        CharNGrams((1, 2), idf=True),
    ):
        on = kernel.on("note").fitted(column(texts), np.array([1.0, 2.0, 1.0, 3.0, 1.0]))
        phi = on.features(column(texts)).toarray()
        K = on(column(texts))
        np.testing.assert_allclose(phi @ phi.T, K, atol=1e-12)
        np.testing.assert_allclose(on.diag(column(texts)), K.diagonal())
        seen = {
            repr(kernel): [
                list(on.base.learnt.terms)[:6],
                len(on.base.learnt),
                on.base.learnt.idf,
                on.base.learnt.unseen,
            ]
        }
        recorded(repr(kernel), [seen, K, on(column(new), column(texts)), on.label])
        np.testing.assert_allclose(
            on(column(new), column(texts)), on.features(column(new)).toarray() @ phi.T, atol=1e-12
        )
    words = [text.lower().replace(",", "").split() for text in texts]
    plain = Tokens(idf=False, normalize=False)
    wanted = [[sum(a.count(t) * b.count(t) for t in set(a)) for b in words] for a in words]
    np.testing.assert_allclose(plain({"note": texts}), wanted)
    tfidf = Tokens(normalize=False).on("note").fitted(column(texts)).base.learnt
    count = {term: sum(term in own for own in words) for term in tfidf.terms}
    np.testing.assert_allclose(tfidf.idf, [np.log(6 / (1 + count[t])) + 1 for t in tfidf.terms])
    assert tfidf.unseen == pytest.approx(np.log(6) + 1)
    assert tfidf.places(["pain", "other"]).tolist() == [tfidf.terms.index("pain"), -1]
    assert repr(tfidf) == f"<{len(count)} terms>"
    with pytest.raises(InputError, match="A vocabulary has one weight for each of its 2 terms, got 1"):
        kernels.Vocabulary(("a", "b"), [1.0])
    dna = ["ACACGT", "ACG", "GGTTA", "AC", "TACGA"]

    def spectrum(text, k):
        return [text[i : i + k] for i in range(len(text) - k + 1)]

    def by_count(terms):
        return [[float(sum(a.count(t) * b.count(t) for t in set(a))) for b in terms] for a in terms]

    np.testing.assert_allclose(Spectrum(2, False)({"dna": dna}), by_count([spectrum(t, 2) for t in dna]))
    gaps = [
        ["".join(s) for piece in spectrum(t, 3) for s in sorted(set(combinations(piece, 2)))] for t in dna
    ]
    np.testing.assert_allclose(Gapped(2, 1, False)({"dna": dna}), by_count(gaps))
    every = ["".join(s) for s in product("ACGT", repeat=3)]
    for m in (0, 1, 2):
        close = [
            [
                s
                for piece in spectrum(t, 3)
                for s in every
                if sum(a != b for a, b in zip(s, piece, strict=True)) <= m
            ]
            for t in dna
        ]
        np.testing.assert_allclose(Mismatch(3, m, normalize=False)({"dna": dna}), by_count(close))
    K = np.array(by_count([spectrum(t, 2) for t in dna]))
    length = np.sqrt(K.diagonal())
    np.testing.assert_allclose(Spectrum(2)({"dna": dna}), K / np.outer(length, length))
    assert Spectrum(3)({"dna": ["AC", "ACG"]}).tolist() == [[0.0, 0.0], [0.0, 1.0]]
    fitted = Mismatch(3, 1).on("dna").fitted(pd.DataFrame({"dna": dna})).base
    assert fitted.alphabet == "ACGT"
    assert (fitted._n_terms, Gapped(3, 2)._n_terms, Mismatch(4, 2, "abc")._n_terms) == (10, 10, 33)
    assert Mismatch(3, 1, "baab").alphabet == "ab"
    with pytest.raises(
        InputError,
        match=r"Mismatch\(k=12, m=6, .* counts 2 different pieces for up to .* terms each, more than 20000000",
    ):
        Mismatch(12, 6, alphabet="abcdefghijklmnopqrst", normalize=False)({"dna": ["abcdefghijklmn"[:13]]})
    one = pd.DataFrame({"note": texts, "more": texts, "n": range(5)})
    for kernel, table, words_ in (
        (
            Tokens(),
            one,
            r"Tokens reads one column of texts, got 3 columns\. Put it on one, kernels\.Tokens\(\)\.on\('note'\)",
        ),
        (
            Tokens().on("n"),
            one,
            r"Tokens reads text, but column 'n' holds numbers or categories\. .*astype\(str\)",
        ),
        (
            WeisfeilerLehman().on("note"),
            one,
            r"WeisfeilerLehman reads graphs, but column 'note' holds text\. Put it on a column of graphs",
        ),
        (
            Tokens(),
            sparse.csr_array(X),
            r"Tokens reads text, got sparse numbers\. Put it on a column of texts",
        ),
        (Spectrum(), {"a": kw.precomputed(np.eye(3))}, "A precomputed view has no columns, and 'a' is one"),
    ):
        with pytest.raises(InputError, match=words_):
            kernel(table)
    with pytest.raises(
        InputError, match=r"Tokens reads text, which has no columns to prepare\. Leave `prepared` out"
    ):
        Tokens().prepared("log1p")
    with pytest.raises(InputError, match=r"takes numbers from training rows\. Call fitted\(X\) first"):
        Tokens().transform({"a": texts})
    rows, terms = counts.rows_of([["b", "a"], [], ["b"]], [2.0, 3.0, 4.0])
    assert terms == ["a", "b"]
    assert rows.toarray().tolist() == [[3, 2], [0, 0], [0, 4]]
    assert counts.rows_of([["b"], ["b", "c"]])[0].toarray().tolist() == [[1, 0], [1, 1]]


def test_graphs_of_every_form(recorded):
    triangle = ([(0, 1), (1, 2), (2, 0)], ["C", "C", "O"])
    path = ([(0, 1), (1, 2), (1, 0)], ["C", "O", "C"])
    bond = ([(0, 1, "=")], ["C", "C"])

    def labels(graph, rounds):
        edges, own = graph
        near = [{} for _ in own]
        for i, j, *name in edges:
            near[i][j] = near[j][i] = name[0] if name else ""
        found, now = [*own], list(own)
        for _ in range(rounds):
            now = [
                f"({a}|{sorted((e, now[j]) for j, e in n.items())})" for a, n in zip(now, near, strict=True)
            ]
            found += now
        return found

    graphs = np.empty(4, dtype=object)
    graphs[:] = triangle, path, bond, ([], ["C"])
    for rounds in (0, 1, 3):
        own = [labels(graph, rounds) for graph in graphs]
        wanted = [[sum(a.count(s) * b.count(s) for s in set(a)) for b in own] for a in own]
        np.testing.assert_allclose(WeisfeilerLehman(rounds, False)({"g": graphs}), wanted)
    forms = np.empty(4, dtype=object)
    adjacency = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    network = SimpleNamespace(
        nodes=lambda data: [("x", {"label": ""}), ("y", {}), ("z", {})],
        edges=lambda data: [("x", "y", {}), ("y", "z", {"label": ""})],
    )
    forms[:] = adjacency, sparse.csr_array(adjacency), network, ([(0, 1), (1, 2)], ["", "", ""])
    np.testing.assert_allclose(WeisfeilerLehman(2)({"g": forms}), np.ones((4, 4)))
    named = SimpleNamespace(
        nodes=lambda data: [(5, {"label": np.int64(3)}), (7, {"label": 4})],
        edges=lambda data: [(7, 5, {"label": 1.5})],
    )
    assert graph_kernels._of_networkx(named) == (["3", "4"], [{1: "1.5"}, {0: "1.5"}])
    assert graph_kernels._read(None, 0) == ([], [])
    for wrong, words in (
        (
            np.ones((2, 3)),
            r"The graph of row 1, counted from 0, cannot be read: its adjacency matrix must be square, got",
        ),
        (([(0, 2)], ["C", "C"]), r"its edge \(0, 2\) names nodes other than 0 to 1"),
        (([(-1, 0)], ["C", "C"]), "names nodes other"),
        (([(0.0, 1)], ["C", "C"]), "names nodes other"),
        (({1, 2, 3}), "cannot be read"),
        (([(0,)], ["C"]), "cannot be read"),
    ):
        bad = np.empty(2, dtype=object)
        bad[:] = triangle, wrong
        with pytest.raises(InputError, match=words):
            WeisfeilerLehman(1)({"g": bad})
    assert graph_kernels._digest((0, "C"), {}) == graph_kernels._digest((0, "C"), {})
    # files hold the terms
    one = np.empty(1, dtype=object)
    one[:] = [([(0, 1, "="), (1, 2)], ["C", "C", "O"])]
    recorded("terms", WeisfeilerLehman(2)._count(one)[1])


def test_tanimoto_and_categories():
    wanted = [
        [
            np.minimum(a, b).sum() / max(np.maximum(a, b).sum(), 1e-9) if (a + b).any() else 1.0
            for b in COUNTS[:4]
        ]
        for a in COUNTS
    ]
    np.testing.assert_allclose(Tanimoto()(COUNTS, COUNTS[:4]), wanted)
    np.testing.assert_allclose(Tanimoto()(sparse.csr_array(COUNTS), COUNTS[:4]), wanted, atol=1e-12)
    assert Tanimoto().diag(COUNTS).tolist() == [1.0] * 9
    assert Tanimoto()([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    with pytest.raises(
        InputError, match=r"Tanimoto compares counts, which are never negative, got -1\. Pass columns"
    ):
        Tanimoto()([[-1.0, 2.0]])
    with pytest.raises(
        InputError, match=r"Tanimoto cannot skip missing cells\. Fill them with missing='impute'"
    ):
        Tanimoto().prepared("skip")([[np.nan, 2.0]])
    table = Table([[0, 1.5], [1, 1.5], [-1, 2.0], [-1, 2.0]], levels=(2, 0))
    np.testing.assert_allclose(
        Categorical()(table), [[1, 0.5, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0.5, 1]]
    )
    hole = Table([[0, 1.5], [np.nan, 1.5], [0, np.nan], [np.nan, np.nan]], levels=(2, 0))
    np.testing.assert_allclose(Categorical()(hole), [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]])
    assert Categorical().features(table) is None
    own = Table([[0, 1], [1, -1]], levels=(2, 2))
    np.testing.assert_allclose(
        Categorical().features(own), np.array([[1, 0, 0, 1], [0, 1, 0, 0]]) / np.sqrt(2)
    )
    with pytest.raises(
        InputError,
        match=r"Categorical compares cells, for which sparse columns must be dense\. Pass X\.toarray",
    ):
        Categorical()(sparse.csr_array(X))
    with pytest.raises(
        InputError, match=r"Periodic has 2 periods, got 3 columns \(categories are several\)\. Give one"
    ):
        Periodic(period=(1.0, 2.0))(X)
    with pytest.raises(
        InputError,
        match=r"Periodic needs dense columns with all their cells, got sparse rows\. Pass X\.toarray",
    ):
        Periodic()(sparse.csr_array(X))
    with pytest.raises(
        InputError, match=r"got missing cells that are skipped\. Fill them with missing='impute'"
    ):
        Periodic().prepared("skip")(np.where(X > 1, np.nan, X))


def test_basis_kernels_and_weights():
    weight = np.array([3.0, 1.0, 2.0, 1.0, 1.0, 4.0, 1.0, 1.0, 2.0])
    repeated = np.repeat(X, weight.astype(int), axis=0)
    np.testing.assert_allclose(Bins(4).fitted(X, weight).edges, Bins(4).fitted(repeated).edges)
    assert Bins(2).fitted(np.ones((3, 1))).edges.tolist() == [[1.0]]
    assert Cosines(2).fitted(X).ranges.tolist() == np.c_[X.min(axis=0), X.max(axis=0)].tolist()
    assert Cosines(2).fitted(np.ones((3, 1)))([[1.0], [5.0]]).shape == (2, 2)
    assert Bins(3).fitted(X).label == "Bins(3) on all"
    assert repr(Cosines(2, 0.5)) == "Cosines(n_terms=2, smoothness=0.5)"
    for make, words in (
        (
            lambda: Bins(3, edges=[[1.0]]),
            r"`edges` of Bins must hold a row of 2 numbers for every column, got",
        ),
        (lambda: Bins(1), "n_bins"),
        (lambda: Cosines(0), "n_terms"),
        (lambda: Cosines(2, 0.0), "smoothness"),
        (lambda: Bins(3).fitted(X)(X[:, :2]), r"Bins was fitted on 3 columns, got 2"),
    ):
        with pytest.raises(InputError, match=words):
            make()


def test_given_functions():
    cells = pd.DataFrame({"tags": [{"a", "b"}, {"b"}, {"c"}, {"a", "c"}]})
    asked = []

    def overlap(x, z):
        asked.append((x, z))
        return len(x & z) / len(x | z)

    wanted = [[len(x & z) / len(x | z) for z in cells["tags"]] for x in cells["tags"]]
    kernel = Pairwise(overlap)
    table = as_table(cells)
    np.testing.assert_allclose(kernel(table), wanted)
    # every pair once, but for those that are compared in both orders
    assert len(asked) == 10 + 6
    again = len(asked)
    np.testing.assert_allclose(kernel(table.rows([0, 2])), np.array(wanted)[np.ix_([0, 2], [0, 2])])
    np.testing.assert_allclose(kernel.diag(table), 1.0)
    assert len(asked) == again
    np.testing.assert_allclose(kernel(table.rows([1]), table), np.array(wanted)[[1]])
    # the order of a pair is that of the column, whoever asks
    asked.clear()
    new = as_table(pd.DataFrame({"tags": [{"a", "b"}, {"b"}, {"c"}, {"a", "c"}, {"d"}]}))
    Pairwise(overlap)(new.rows([4, 2, 3, 1, 0]))
    first = {}
    every = list(new.cells[0].values)
    for x, z in asked:
        pair = tuple(next(k for k, one in enumerate(every) if one is cell) for cell in (x, z))
        first.setdefault(frozenset(pair), pair)
    assert len(first) == 15
    assert all(i <= j for i, j in first.values())
    own = Pairwise(lambda x, z: float(x[0] * z[0] + x[1] * z[1]), name="two")
    np.testing.assert_allclose(own(X[:, :2], Z[:, :2]), X[:, :2] @ Z[:, :2].T)
    many = Custom(
        lambda A, B: [[len(x & z) for z in B] for x in A],
        diag=lambda A: [len(x) for x in A],
        name="sizes",
        repair=True,
    )
    np.testing.assert_allclose(many(cells), [[len(x & z) for z in cells["tags"]] for x in cells["tags"]])
    assert many.diag(cells).tolist() == [2, 1, 1, 2]
    assert many.is_corrected
    assert repr(many).startswith("Custom(<function")
    assert repr(many).endswith("name='sizes', repair=True)")
    long = np.arange(70.0)[:, None]
    np.testing.assert_allclose(Custom(lambda A, B: A @ B.T).diag(long), long[:, 0] ** 2)
    assert Custom(lambda A, B: A @ B.T).diag(Table(long).rows(slice(0, 0))).shape == (0,)
    two = pd.DataFrame({"a": [{1}, {2}], "b": [{3}, {4}]})
    seen = []
    Custom(lambda A, B: seen.append(A.shape) or np.eye(len(A)))(two)
    assert seen == [(2, 2)]

    def uneven(A, B):
        return A @ B.T + np.triu(np.ones((len(A), len(B))), 1)

    for refused, words in (
        (lambda: Custom(3), r"`function` of Custom must be callable, got 3\. Pass a function of arrays"),
        (lambda: Custom(max, 3), r"`diag` of Custom must be callable, got 3"),
        (
            lambda: Pairwise(None),
            r"`function` of Pairwise must be callable, got None\. Pass a function of two objects",
        ),
        (lambda: Custom(max, name=3), "name"),
        (lambda: Custom(max, repair=3), "repair"),
        (
            lambda: Custom(lambda A, B: A)(X),
            r"The function of <lambda> must return shape \(X\.shape\[0\], Z\.shape\[0\]\) = \(9, 9\), got \(9, 3\)",
        ),
        (
            lambda: Custom(lambda A, B: A @ B.T, lambda A: A).diag(X),
            r"must return shape \(X\.shape\[0\],\) = \(9,\), got \(9, 3\)",
        ),
        (
            lambda: Custom(lambda A, B: A @ B.T * np.nan)(X),
            r"must return finite values, got NaN or infinity\. Fix it",
        ),
        (
            lambda: Custom(uneven, name="uneven")(X),
            r"The function of uneven must be symmetric, got values that differ by 1 when X and Z",
        ),
        (
            lambda: Custom(lambda A, B: A @ B.T - np.triu(np.ones((9, 9)), 1))(X),
            "values that differ by 1 when",
        ),
        (
            lambda: Pairwise(lambda x, z: "a")(X),
            r"must return a number for two objects, got 'a'\. For a function of two arrays of rows take Custom",
        ),
        (lambda: Pairwise(lambda x, z: np.nan)(X), r"must return finite values, got nan for .*\. Fix it"),
        (
            lambda: Pairwise(lambda x, z: len(x - z) + 1.0)(cells),
            r"must be symmetric, got values that differ by 1 when",
        ),
        (
            lambda: Pairwise(overlap)(pd.DataFrame({"t": [None, {1}]})),
            r"overlap compares objects, and 1 of 2 are missing, the first in row 0|complete and",
        ),
        (
            lambda: kernels.Precomputed()(X),
            r"Precomputed is for views that kw\.precomputed\(K\) makes, got columns\. Use Linear",
        ),
        (
            lambda: kernels.Precomputed().prepared("log1p"),
            r"A precomputed view has no columns to prepare\. Use Precomputed\(\) without",
        ),
    ):
        with pytest.raises(InputError, match=words):
            refused()
    same = given._Same(overlap)
    assert same == given._Same(overlap)
    assert same != given._Same(max)
    assert hash(same) == hash(given._Same(overlap))
    K = X @ X.T
    view = {"k": kw.precomputed(K)}
    np.testing.assert_allclose(kernels.Precomputed().on(ViewColumns("k"))(view), K)


def sums_of(data):
    """Probabilities of distinct rows."""
    sums = TrainingRows(Table(data)).distinct[1]
    return sums / sums.sum()


def test_maps(recorded, monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 3)).round(3)
    weight = rng.integers(1, 4, 40).astype(float)
    kernel = RBF(0.4)
    for rule in (
        Nystroem(8),
        Nystroem(8, "uniform", random_state=3),
        Nystroem(pivots=A[:5]),
        Nystroem(40, tol=0.2),
    ):
        fitted = approximate(kernel, rule).fitted(A, weight)
        own = fitted.map
        P = own.landmarks.values
        L = np.linalg.cholesky(kernel(P))
        np.testing.assert_allclose(own.factor @ own.factor.T, kernel(P), atol=1e-9)
        np.testing.assert_allclose(
            fitted(A, A[:3]),
            kernel(A, P) @ np.linalg.solve(kernel(P), kernel(P, A[:3])),
            rtol=1e-6,
            atol=1e-8,
        )
        residual = 1.0 - np.square(np.linalg.solve(L, kernel(P, A))).sum(axis=0)
        np.testing.assert_allclose(
            own.left_out.share, np.average(residual, weights=weight), rtol=1e-5, atol=1e-9
        )
        assert own.left_out.exact
        assert own.width == len(P) == fitted.transform(A).shape[1]
        if rule.tol == 0.2:
            assert own.left_out.share <= 0.2
            assert len(P) < 30
        recorded(
            repr(rule) if not isinstance(rule.pivots, Table) else "rows",
            [P, own.left_out.share, own.left_out.bound, own.left_out.n_measured, repr(rule)[:40]],
        )
    assert Nystroem(8).width == 8
    assert Nystroem(pivots=A[:5]).width == 5
    monkeypatch.setattr(maps, "SEARCHED", 20)
    monkeypatch.setattr(maps, "MEASURED", 25)
    few = approximate(kernel, Nystroem(6)).fitted(A, weight).map
    recorded(
        "few",
        [
            few.landmarks.values,
            few.left_out.share,
            few.left_out.bound,
            few.left_out.n_measured,
            few.left_out.exact,
        ],
    )
    monkeypatch.undo()
    zero = approximate(Linear(), Nystroem(3)).fitted(np.zeros((4, 2)))
    assert zero(np.zeros((2, 2))).tolist() == [[0, 0], [0, 0]]
    assert zero.map.left_out.share == 0.0
    many = rng.normal(size=(60, 12))
    for base, rule, data in (
        (RBF(0.4), RandomFeatures(16), A),
        (RBF(0.02), RandomFeatures(16), many),
        (RBF(0.4), RandomFeatures(16, "halton", 2), A),
        (RBF(0.4), RandomFeatures(17, "plain"), A),
        (Laplacian(0.3), RandomFeatures(16), A),
        (Laplacian(0.3), RandomFeatures(10, "orthogonal"), A),
        (ArcCosine(1), RandomFeatures(12), A),
        (ArcCosine((0, 2)), RandomFeatures(12), A),
        (ArcCosine((1, 2)), RandomFeatures(6, "plain"), A),
    ):
        fitted = approximate(base, rule).fitted(data)
        own = fitted.map
        W = own.frequencies[0]
        phi = fitted.transform(data[:5])
        if isinstance(base, ArcCosine):
            now = data[:5]
            for degree, V in zip(base.degrees, own.frequencies, strict=True):
                now = now @ V.T
                now = (np.heaviside(now, 0.5) if degree == 0 else np.maximum(now, 0) ** degree) * np.sqrt(
                    2 / len(V)
                )
            np.testing.assert_allclose(phi, now)
            assert own.left_out.bound == np.inf
        else:
            t = data[:5] @ W.T
            np.testing.assert_allclose(phi, np.concatenate([np.cos(t), np.sin(t)], axis=1) / np.sqrt(len(W)))
            assert len(W) == rule.n_features // 2
            assert own.left_out.bound > own.left_out.share
        # what is left out, on pairs drawn with the same numbers
        left, right = np.random.default_rng([rule.random_state, 1]).choice(
            len(data), (2, 2000), p=sums_of(data)
        )
        places = TrainingRows(Table(data)).distinct[0]
        P, Q = data[places[left]], data[places[right]]
        wanted = np.array([base(x[None], z[None])[0, 0] for x, z in zip(P[:200], Q[:200], strict=True)])
        found = np.einsum("ij,ij->i", fitted.transform(P), fitted.transform(Q))
        exact = np.concatenate([base(P[k : k + 100], Q[k : k + 100]).diagonal() for k in range(0, 2000, 100)])
        np.testing.assert_allclose(exact[:200], wanted, atol=1e-7)
        share = np.sqrt(np.square(found - exact).mean()) / base.diag(P).mean()
        np.testing.assert_allclose(own.left_out.share, share, rtol=1e-5)
        assert (own.left_out.n_measured, own.left_out.exact, len(own.frequencies)) == (
            2000,
            False,
            getattr(base, "layers", 1),
        )
        if not isinstance(base, ArcCosine):
            squares = np.square(found - exact)
            bound = math.sqrt(squares.mean() + maps.excess(squares, 4.0))
            np.testing.assert_allclose(own.left_out.bound, bound, rtol=1e-5)
    draws = {
        "sobol": lambda: qmc.Sobol(3, seed=np.random.default_rng(3)).random(8),
        "halton": lambda: qmc.Halton(3, seed=np.random.default_rng(3)).random(8),
        "plain": lambda: np.random.default_rng(3).random((8, 3)),
    }
    for name, draw in draws.items():
        W = approximate(Laplacian(0.3), RandomFeatures(16, name, 3)).fitted(A).map.frequencies[0]
        np.testing.assert_allclose(W, 0.3 * np.tan(np.pi * (draw() - 0.5)))
        W = approximate(RBF(0.4), RandomFeatures(16, name, 3)).fitted(A).map.frequencies[0]
        normal = np.random.default_rng(3).normal(size=(8, 3)) if name == "plain" else ndtri(draw())
        np.testing.assert_allclose(W, np.sqrt(0.8) * normal)
    kinds = [
        (RBF(1.0), 10),
        (RBF(1.0), 11),
        (Laplacian(1.0), 1000),
        (Laplacian(1.0), 1001),
        (ArcCosine(1), 1001),
    ]
    ways = [RandomFeatures(4)._like(one, n).sampling for one, n in kinds]
    assert ways == ["sobol", "orthogonal", "sobol", "plain", "orthogonal"]
    assert RandomFeatures(4, "orthogonal")._like(Laplacian(1.0), 3).sampling == "sobol"
    later = approximate(ArcCosine((1, 2)), RandomFeatures(6)).fitted(A).map.frequencies[1]
    np.testing.assert_allclose(later @ later.T, np.diag((later @ later.T).diagonal()), atol=1e-10)
    values = rng.uniform(size=50)
    log = math.log(2 / 0.01)
    assert maps.excess(values, 2.0) == pytest.approx(
        math.sqrt(2 * values.var(ddof=1) * log / 50) + 7 * 2.0 * log / (3 * 49)
    )
    orthogonal = RandomFeatures(12, "orthogonal")._normal(5, 12)
    for block in (orthogonal[:5], orthogonal[5:10], orthogonal[10:]):
        G = block @ block.T
        np.testing.assert_allclose(G, np.diag(G.diagonal()), atol=1e-12)
    assert (
        approximate(2.0 * RBF(0.5).on([0]) + Linear() + 1.0, RandomFeatures(4))
        == 2.0 * approximate(RBF(0.5), RandomFeatures(4)).on([0]) + Linear() + 1.0
    )
    assert approximate(RBF(0.5) + Linear(), Nystroem(4)) == maps.Approximate(RBF(0.5) + Linear(), Nystroem(4))
    assert approximate(RBF(0.5).prepared("log1p"), RandomFeatures(4)) == maps.Approximate(
        RBF(0.5), RandomFeatures(4)
    ).prepared("log1p")
    assert maps.exact_kernel(2.0 * approximate(RBF(0.5), Nystroem(4)).on([0])) == 2.0 * RBF(0.5).on([0])
    assert maps.exact_kernel(Linear()) == Linear()
    assert maps.maps_of(approximate(RBF(0.5), Nystroem(4)) + Linear()) == [Nystroem(4)]
    assert maps.maps_of(Linear()) == []
    assert approximate(RBF(0.5), Nystroem(4)).label == "Nystroem RBF(gamma=0.5) on all"
    assert approximate(RBF(0.5), RandomFeatures(4)).is_approximate
    assert approximate(Elementwise(np.cosh, np.sinh), Nystroem(4)).needs_psd_check is False
    for refused, words in (
        (
            lambda: maps.Approximate(RBF(), 3),
            r"Approximate takes a map of features, got 3\. Pass for example kernels\.Nystroem\(200\)",
        ),
        (
            lambda: approximate(Polynomial(2), RandomFeatures(4)),
            r"Random features are those of RBF, Laplacian and ArcCosine kernels",
        ),
        (
            lambda: approximate(RBF().prepared("skip"), Nystroem(4)),
            r"skips missing cells, and such kernels have no features\. Fill",
        ),
        (lambda: approximate(3, Nystroem(4)), "approximate is made of kernels, got 3"),
        (lambda: Nystroem(0), "n_features"),
        (
            lambda: Nystroem(pivots="all"),
            r"`pivots` of Nystroem must be one of \['cholesky', 'uniform'\], or rows, got 'all'",
        ),
        (lambda: Nystroem(tol=1.0), "tol"),
        (lambda: RandomFeatures(1), "n_features"),
        (lambda: RandomFeatures(4, "all"), "sampling"),
        (
            lambda: approximate(RBF(), Nystroem(pivots=A[:, :2])).fitted(A),
            r"`pivots` of Nystroem must have the 3 columns of the kernel, got 2",
        ),
        (
            lambda: RBF(0.5).transform(A),
            r"RBF\(gamma=0\.5\) has no small feature map\. Use kernels\.approximate\(kernel, kernels",
        ),
        (lambda: Nystroem(4, random_state=-1), "random_state"),
    ):
        with pytest.raises(InputError, match=words):
            refused()


def test_frozen_values_with_numbers():
    one = Standardize([1.0, 2.0], [3.0, 4.0])
    assert one == Standardize(np.array([1.0, 2.0]), (3, 4))
    assert one != Standardize([1.0, 2.0], [3.0, 5.0])
    assert hash(one) == hash(Standardize([1.0, 2.0], [3.0, 4.0]))
    assert one != Skip()
    assert not one.mean.flags.writeable
    own = np.array([1.0, 2.0])
    kept = Standardize(own, [3.0, 4.0])
    own[0] = 9.0
    assert kept.mean.tolist() == [1.0, 2.0]
    assert one.given() == {"mean": [1.0, 2.0], "scale": [3.0, 4.0]}
    assert Standardize().given() == {}
    assert one.settings() == {}
    assert Bins(4).settings() == {"n_bins": 4}
    fitted = Bins(2).fitted(X)
    assert "edges" in fitted.given()
    assert "edges" not in fitted.given(shown=True)
    assert repr(Standardize(np.arange(30.0), np.ones(30))).count("...") == 2
    assert repr(Standardize(np.arange(20.0), np.ones(20))).count("...") == 0
    assert learnt.plain((np.arange(2), [Table([[1.0]])])) == [[0, 1], [[[1.0]]]]
    assert learnt._comparable([np.arange(2), "a"]) == (np.arange(2).tobytes(), "a")


def test_kernels_of_ones_own():
    @dataclass(frozen=True)
    class Rise(Kernel, described=False):
        width: float = 1.0
        statistic = "sqdist"

        def formula(self, xp, S, left, right):
            return 1.0 / (self.width - S / 0)

    with (
        pytest.raises(
            InputError,
            match=r"The kernel 'Rise\(width=1\) on all' fails with FloatingPointError: .* Correct its `formula`",
        ),
        np.errstate(all="raise"),
    ):
        Rise()(X)
    with pytest.raises(InputError, match=r"`width` of Rise must be a number, got 'a'"):
        Rise("a")
    for body, words in (
        ({"statistic": "max"}, r"`statistic` of Own must be one of 'sqdist', 'dot', 'l1', got 'max'"),
        (
            {"_fit": lambda self, rows: self},
            r"Own has `_fit`, and no `is_fitted` says when it is needed\. Define the property",
        ),
    ):
        with pytest.raises(InputError, match=words):
            type("Own", (Kernel,), body, described=False)
    with pytest.raises(
        InputError, match=r"There is a kernel 'rbf' already\. Give the class RBF another name"
    ):
        type("RBF", (Kernel,), {})
    plain = type("Bare", (Kernel,), {}, described=False)
    with pytest.raises(
        InputError,
        match=r"The class of the kernel Bare must be a data class: write @dataclass\(frozen=True\)",
    ):
        kernels.base.parameters_of(plain)

    @dataclass(frozen=True)
    class Empty(Kernel, described=False):
        pass

    with pytest.raises(
        InputError, match=r"Empty must have a statistic and a formula, or features\. Define them in the class"
    ):
        Empty()(X)

    @dataclass(frozen=True)
    class Unready(Kernel, described=False):
        is_fitted = False

        def _fit(self, rows):
            return self

    with pytest.raises(
        InputError,
        match=r"`_fit\(rows\)` of Unready must return the kernel with its numbers, for which `is_fitted`",
    ):
        Unready().fitted(X)

    @dataclass(frozen=True)
    class Mapped(Kernel, described=False):
        def _features(self, table):
            return np.c_[table.take(), np.ones(table.n_rows)]

    np.testing.assert_allclose(Mapped()(X, Z), X @ Z.T + 1)
    np.testing.assert_allclose(Mapped()(X), X @ X.T + 1)
    np.testing.assert_allclose(Mapped().diag(X), np.square(X).sum(axis=1) + 1)


def test_molecules(recorded):
    pytest.importorskip("rdkit")
    smiles = pd.DataFrame({"smiles": ["CCO", "c1ccccc1O", "CC(=O)N", ""]})
    from kernelweave.kernels.molecules import Descriptors, Fingerprints

    for form in ("morgan", "path", "pairs", "torsions", "maccs"):
        for count in (True, False):
            step = Fingerprints(form, count, size=64)
            found = step.apply(as_table(smiles).declared([0])).values.toarray()
            assert found.shape == (4, 167 if form == "maccs" else 64)
            assert not found[3].any()
            assert count or set(found.ravel()) <= {0.0, 1.0}
    found = Descriptors().apply(as_table(smiles).declared([0])).values
    assert found.shape == (4, 100) or found.shape[0] == 4
    assert np.isfinite(found).all()
    bad = pd.DataFrame({"smiles": ["CCO", *[f"C{k}(" for k in range(7)]]})
    with pytest.raises(
        InputError,
        match=r"cannot read the molecules of these rows, counted from 0: 1 \('C0\('\), .* and 2 more\. Correct",
    ):
        Fingerprints().apply(as_table(bad).declared([0]))
    assert Fingerprints("path").word == "path fingerprints,"
