"""Models as ONNX graphs, run by onnxruntime and compared with `predict`.

Modules: `persistence/onnx_file`, `persistence/graph`, `kernels/pairs`, `kernels/learnt`, `kernels/tanimoto`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import kernelweave as kw
from kernelweave.kernels import (
    RBF,
    ArcCosine,
    Bins,
    Categorical,
    Constant,
    Cosines,
    Laplacian,
    Linear,
    Matern,
    Nystroem,
    Periodic,
    Polynomial,
    RandomFeatures,
    RationalQuadratic,
    Tanimoto,
    approximate,
)
from kernelweave.persistence import graph as graphs
from kernelweave.persistence.graph import Graph, Node

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 6))
NEW = rng.normal(size=(17, 6))
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
THREE = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)]


def ran(model, path, inputs):
    file = kw.to_onnx(model, path / "model.onnx")
    session = runtime.InferenceSession(str(file))
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def error(found, wanted):
    assert found.shape == wanted.shape
    return abs(found - wanted).max() / max(1.0, abs(wanted).max())


KERNELS = {
    "linear": Linear(),
    "linear of one column": Linear().on([2]),
    "polynomial": Polynomial(degree=3, gamma=0.5),
    "polynomial of one column": Polynomial(degree=2).on([1]),
    "gaussian": RBF(gamma=0.2),
    "gaussian of few columns": RBF(gamma=0.7).on([0, 3]),
    "median": RBF(gamma="median"),
    "laplacian": Laplacian(gamma=0.3),
    "matern 0.5": Matern(gamma=0.2, nu=0.5),
    "matern 2.5": Matern(gamma="median", nu=2.5),
    "rational quadratic": RationalQuadratic(gamma=0.2, power=0.7),
    "periodic": Periodic(gamma=0.2, period=(1.0, 2.0, 3.0)).on([0, 1, 5]),
    "arc-cosine 0": ArcCosine(degree=0),
    "arc-cosine 1": ArcCosine(degree=1),
    "arc-cosine 2": ArcCosine(degree=2),
    "arc-cosine layers": ArcCosine(degree=(1, 0)),
    "sum": RBF(gamma=0.2) + Linear().on([0, 1]) + 2.0,
    "product": RBF(gamma=0.2).on([0, 1]) * Polynomial(degree=2).on([2]),
    "multiple": 3.0 * RBF(gamma=0.2),
    "constant": Constant(2.0) + RBF(),
    "standardised": RBF(gamma=0.1).prepared("standardize"),
    "log1p": Linear().prepared("log1p", "normalize-rows"),
    "bins": Bins(4),
    "cosines": Cosines(4),
    "nystroem": approximate(RBF(gamma=0.2), Nystroem(20)),
    "random features": approximate(RBF(gamma=0.2), RandomFeatures(32)),
    "random layers": approximate(ArcCosine(degree=(1, 2)), RandomFeatures(32)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name, tmp_path):
    model = kw.MKLRegressor([KERNELS[name], RBF(gamma=0.05)], "uniform", C=5.0).fit(X, Y)
    assert error(ran(model, tmp_path, {"X": NEW})["prediction"], model.predict(NEW)) < 1e-12


def test_counts(tmp_path):
    counts, new = np.floor(2.0 * abs(X)), np.floor(2.0 * abs(NEW))
    new[0] = 0.0
    model = kw.MKLRegressor([Tanimoto(), Tanimoto().on([0, 1])], "uniform", C=5.0).fit(counts, Y)
    assert error(ran(model, tmp_path, {"X": new})["prediction"], model.predict(new)) < 1e-12


@pytest.mark.parametrize("kernel", [RBF(gamma=0.2), Laplacian(gamma=0.2), RBF(gamma=0.2).on([0, 1])], ids=str)
def test_training_rows_that_are_sparse(kernel, tmp_path):
    from scipy import sparse

    rows = np.where(abs(X) > 0.7, X, 0.0)
    model = kw.MKLRegressor([kernel, Linear()], "uniform", C=5.0).fit(sparse.csr_array(rows), Y)
    assert error(ran(model, tmp_path, {"X": NEW})["prediction"], model.predict(NEW)) < 1e-11


@pytest.mark.parametrize("normalize", [None, "mean-diagonal", "cosine", "center"])
@pytest.mark.parametrize(
    "kernels", [[Linear(), Linear().on([0])], [RBF(gamma=0.2), Polynomial(degree=2), Linear()]]
)
def test_normalisers(normalize, kernels, tmp_path):
    for standardize in (False, True):
        model = kw.MKLRegressor(kernels, alpha=0.1, normalize=normalize, standardize=standardize).fit(
            3.0 * X + 1.0, Y
        )
        found = ran(model, tmp_path, {"X": NEW})["prediction"]
        assert error(found, model.predict(NEW)) < 1e-12


@pytest.mark.parametrize("learner", ["simple", "rls2", "lp", "rkl"])
def test_classes(learner, tmp_path):
    for y in (X[:, 0] > 0, THREE, (X[:, 0] > 0).astype(int) + 4):
        model = kw.MKLClassifier([RBF(gamma=0.2), Linear()], learner).fit(X, y)
        found = ran(model, tmp_path, {"X": NEW})
        assert error(found["decision"], model.decision_function(NEW)) < 1e-12
        assert found["label"].tolist() == model.predict(NEW).tolist()
        # folds chose the parameter of the first learner only
        assert ("probabilities" in found) == (learner == "rls2")
        if learner == "rls2":
            assert error(found["probabilities"], model.predict_proba(NEW)) < 1e-12


def test_risks_of_survival_models(tmp_path):
    time = np.exp(-X[:, 0])
    model = kw.MKLSurvival([RBF(gamma=0.2), Linear()], C=1.0).fit(X, np.column_stack([X[:, 1] > -0.5, time]))
    assert error(ran(model, tmp_path, {"X": NEW})["prediction"], model.predict(NEW)) < 1e-12


def test_probabilities(tmp_path):
    logistic = kw.learners.SimpleMKL(C=3.0, loss="logistic")
    several = np.column_stack([X[:, 0] > 0, X[:, 1] > 0.2, X[:, 2] > 0]).astype(int)
    for learner, y in [(logistic, THREE), ("simple", THREE), ("simple", X[:, 1] > 0), (logistic, several)]:
        model = kw.MKLClassifier([RBF(gamma=0.2), Linear()], learner).fit(X, y)
        if learner == "simple":
            model.calibrate("platt", cv=3)
        found = ran(model, tmp_path, {"X": NEW})
        assert error(found["probabilities"], model.predict_proba(NEW)) < 1e-12
        assert (found["label"] == model.predict(NEW)).all()
    # a score that decides otherwise than probabilities do
    model = kw.MKLClassifier(scoring="balanced_accuracy").fit(X, X[:, 1] > 0.8)
    found = ran(model, tmp_path, {"X": NEW})
    assert abs(model.model_.shift[0]) > 0.1
    assert error(found["probabilities"], model.predict_proba(NEW)) < 1e-12
    assert (found["label"] == model.predict(NEW)).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("learner", ["mlmkl", "2lmkl", "dmkl", "rls2-nonlinear"])
def test_layers(learner, tmp_path):
    for normalize in ("mean-diagonal", "center", "cosine"):
        model = kw.MKLClassifier(
            [RBF(gamma=0.2), Linear(), Polynomial(degree=2)], learner, normalize=normalize
        )
        model.fit(X, THREE)
        found = ran(model, tmp_path, {"X": NEW})
        assert error(found["decision"], model.decision_function(NEW)) < 1e-12


def test_centred_kernels_without_an_intercept(tmp_path):
    """Coefficients do not add up to zero, so that the mean of all kernel values counts."""
    model = kw.MKLRegressor([RBF(gamma=0.2)], alpha=0.1, normalize="center", fit_intercept=False)
    model.fit(X, Y + 3.0)
    assert abs(model.dual_coef_.sum()) > 0.1
    assert error(ran(model, tmp_path, {"X": NEW})["prediction"], model.predict(NEW)) < 1e-12


def test_several_targets_and_features(tmp_path):
    two = np.column_stack([Y, X[:, 3]])
    for kernels in ([Linear().on([j]) for j in range(6)], [RBF(gamma=0.2), Laplacian(gamma=0.1)]):
        for approximation in (None, Nystroem(15)):
            model = kw.MKLRegressor(kernels, approximation=approximation, alpha=0.1).fit(X, two)
            found = ran(model, tmp_path, {"X": NEW})["prediction"]
            assert error(found, model.predict(NEW)) < 1e-12


def test_frames_and_views(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": X[:, 0], "sex": THREE, "level": (X[:, 1] > 0) * 2.0, "old": X[:, 2] > 0})
    new = pandas.DataFrame({"age": NEW[:4, 0], "sex": ["b", "z", "a", "c"], "level": [0.0, 2.0, 1.0, 0.0]})
    new["old"] = [True, False, False, True]
    inputs = {name: new[[name]].to_numpy() for name in new}
    inputs["old"] = np.array([["True"], ["False"], ["False"], ["True"]])
    inputs["sex"] = inputs["sex"].astype(str)
    for kernels in (
        [Categorical(), RBF(gamma=0.3)],
        [Linear().on(["sex", "age"]), Categorical().on(["sex", "old"])],
    ):
        model = kw.MKLRegressor(kernels, alpha=0.1).fit(frame, Y)
        assert error(ran(model, tmp_path, inputs)["prediction"], model.predict(new)) < 1e-12

    views = {"rna": X[:, :4], "clinical": frame}
    model = kw.MKLRegressor(alpha=0.1).fit(views, Y)
    given = {"rna": NEW[:4, :4]} | {f"clinical/{name}": cells for name, cells in inputs.items()}
    found = ran(model, tmp_path, given)["prediction"]
    assert error(found, model.predict({"rna": NEW[:4, :4], "clinical": new})) < 1e-12


def test_plain_models_in_single_precision(tmp_path):
    model = kw.MKLClassifier().fit(X, THREE)
    file = kw.to_onnx(model, tmp_path / "model.onnx", dtype="float32")
    new = NEW.astype(np.float32)
    found = runtime.InferenceSession(str(file)).run(["decision"], {"X": new})[0]
    assert error(found, model.decision_function(new.astype(float))) < 1e-12


def test_only_rows_with_coefficients_are_stored(tmp_path):
    far = np.concatenate([X, X + 9.0 * np.sign(X)])
    labels = far[:, 0] > 0
    model = kw.MKLClassifier([RBF(gamma=0.05)], "simple", C=100.0, standardize=False).fit(far, labels)
    share = (model.dual_coef_ != 0).mean()
    assert share < 0.7
    size = kw.to_onnx(model, tmp_path / "model.onnx").stat().st_size
    assert size < 8 * far.size * share + 8 * len(far) + 4000


def test_a_graph_holds_what_its_results_need_and_nothing_else(tmp_path):
    onnx = pytest.importorskip("onnx")
    kernels = [RBF(gamma=0.2), Polynomial(degree=2) * Linear().on([0])]
    graph = onnx.load(
        kw.to_onnx(kw.MKLRegressor(kernels, "uniform").fit(X, Y), tmp_path / "model.onnx")
    ).graph
    read = {name for node in graph.node for name in node.input}
    made = {name for node in graph.node for name in node.output}
    assert made - read == {one.name for one in graph.output}
    assert {constant.name for constant in graph.initializer} <= read


def test_what_has_no_form(tmp_path):
    path = tmp_path / "model.onnx"
    stack = np.stack([x[:, None] * x for x in X.T], axis=-1)
    cases = [
        (kw.MKLRegressor("precomputed").fit(stack, Y), "precomputed"),
        (kw.MKLRegressor([kw.kernels.Custom(lambda a, b: a @ b.T), RBF()]).fit(X, Y), "no ONNX form"),
        (kw.MKLRegressor(missing="impute").fit(np.where(X > 2, np.nan, X), Y), "missing cells"),
        (kw.MKLRegressor(), "fitted"),
    ]
    for model, words in cases:
        with pytest.raises(kw.InputError, match=words):
            kw.to_onnx(model, path)
    isotonic = kw.MKLClassifier([RBF()], "simple").fit(X, THREE).calibrate("isotonic", cv=3)
    with pytest.raises(kw.InputError, match="platt"):
        kw.to_onnx(isotonic, path)
    assert not path.exists()


def test_too_many_rows_for_a_file(tmp_path, monkeypatch):
    from kernelweave.persistence import onnx_file

    monkeypatch.setattr(onnx_file, "LARGEST_FILE", 1000)
    with pytest.raises(kw.InputError, match="nystroem"):
        kw.to_onnx(kw.MKLRegressor([RBF()]).fit(X, Y), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("undrawn")
def test_command(tmp_path, capsys):
    from kernelweave_app.cli import main

    model = kw.MKLRegressor([RBF(gamma=0.2)], alpha=0.1).fit(X, Y)
    kw.save(model, tmp_path / "model.skops")
    out = tmp_path / "model.onnx"
    assert main(["export", str(tmp_path / "model.skops"), "--out", str(out)]) == 0
    assert "MB" in capsys.readouterr().out
    found = runtime.InferenceSession(str(out)).run(None, {"X": NEW})[0]
    assert error(found, model.predict(NEW)) < 1e-12
    assert main(["export", str(tmp_path / "none"), "--out", str(out)]) == 2
    assert "no model" in capsys.readouterr().err


@pytest.mark.parametrize("normalize", ["mean-diagonal", "cosine", "center"])
def test_models_that_were_saved_without_rows_have_the_same_graph(normalize, rng, tmp_path):
    X = rng.normal(size=(30, 3))
    bank = [Linear(), Polynomial(2).on([1]), Linear().on([0]).prepared("standardize")]
    model = kw.MKLRegressor(bank, alpha=0.1, normalize=normalize).fit(X, X[:, 0] + X[:, 1] ** 2)
    lean = kw.load(kw.save(model, tmp_path / "m", training_rows=False))
    found, wanted = (ran(one, tmp_path, {"X": X[:5]})["prediction"] for one in (lean, model))
    assert error(found, wanted) < 1e-12
    assert error(found, model.predict(X[:5])) < 1e-12


# ---- features of one's own: NumPy's functions of nodes are those of arrays -------------------------


def of_features(name, formula):
    """A kernel of a user's own, an inner product of features."""

    def features(self, table):
        return formula(table.take())

    made = dataclass(frozen=True)(type(name, (kw.kernels.Kernel,), {"_features": features}, described=False))
    return made()


SAME = {
    "truth times half": lambda T: (T > 0.2) * 0.5,
    "whole numbers times half": lambda T: (T > 0.2).astype(int) * 0.5,
    "truth chosen": lambda T: np.where(T > 0, T > 1.0, 0.25),
    "sums over the last axis": lambda T: T / (1.0 + np.sum(np.square(T), axis=-1)[:, None]),
    "largest, kept": lambda T: T / (1.0 + np.max(np.abs(T), axis=-1, keepdims=True)),
    "side by side": lambda T: np.concatenate([T[:, 1:3], T[:, -2:]], axis=-1),
    "reshaped truth": lambda T: np.reshape(T > 0, (-1, 6)) * T,
}


@pytest.mark.parametrize("name", SAME)
def test_functions_of_nodes_are_those_of_arrays(name, tmp_path):
    kernel = of_features("Own" + name.title().replace(" ", "").replace(",", ""), SAME[name])
    model = kw.MKLRegressor([kernel, Linear()], alpha=0.1).fit(X, Y)
    found = ran(model, tmp_path, {"X": NEW})["prediction"]
    assert error(found, model.predict(NEW)) < 1e-12


@pytest.mark.parametrize(
    "formula",
    [lambda T: T[:, ::2], lambda T: T[1:, :], lambda T: T * np.sum(T), lambda T: np.cumsum(T, axis=1)],
    ids=["steps", "slices of rows", "no axis", "an unknown function"],
)
def test_what_nodes_do_not_have_is_refused(formula, tmp_path):
    kernel = of_features("OwnRefused", lambda T: formula(T) if isinstance(T, Node) else T)
    model = kw.MKLRegressor([kernel, Linear()], alpha=0.1).fit(X, Y)
    with pytest.raises(kw.InputError, match="graphs do not have"):
        kw.to_onnx(model, tmp_path / "model.onnx")


def test_every_function_of_graphs_is_that_of_numpy():
    # some numbers of both are equal
    A, B = rng.uniform(0.1, 0.9, size=(2, 40, 3)).round(1)
    W = rng.normal(size=(3, 2))
    calls = {f: (lambda a, b, f=f: f(a, b) if f.nin == 2 else f(a)) for f in graphs._ELEMENTWISE} | {
        np.arccos: lambda a, b: np.arccos(a - b),
        np.argmax: lambda a, b: np.argmax(a, axis=1),
        np.clip: lambda a, b: np.clip(a, 0.3, 0.6),
        np.concatenate: lambda a, b: np.concatenate([a, b], axis=1),
        np.cos: lambda a, b: np.cos(9.0 * a - b),
        np.full_like: lambda a, b: np.full_like(a, 2.5),
        np.log1p: lambda a, b: np.log1p(a),
        np.matmul: lambda a, b: np.matmul(a, W),
        np.max: lambda a, b: np.max(a, axis=1, keepdims=True),
        np.ones_like: lambda a, b: np.ones_like(a),
        np.reshape: lambda a, b: np.reshape(a, (-1, 1)),
        np.square: lambda a, b: np.square(a),
        np.sum: lambda a, b: np.sum(a, axis=1),
        np.where: lambda a, b: np.where(a > b, a, b),
        np.zeros_like: lambda a, b: np.zeros_like(a),
    }
    assert calls.keys() == graphs._ELEMENTWISE.keys() | graphs._FUNCTIONS.keys()
    wanted = {f.__name__: call(A, B) for f, call in calls.items()}
    graph = Graph()
    a, b = (graph.input(name, 3, np.float64) for name in "ab")
    outputs = {f.__name__: (call(a, b), wanted[f.__name__].dtype) for f, call in calls.items()}
    session = runtime.InferenceSession(graph.built(outputs).SerializeToString())
    found = session.run(list(outputs), {"a": A, "b": B})
    for name, one in zip(outputs, found, strict=True):
        # measured 6e-16
        np.testing.assert_allclose(one, wanted[name], rtol=1e-14, atol=1e-14, err_msg=name)
