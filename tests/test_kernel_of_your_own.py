"""A kernel is one class in one file: what is defined here works in every learner, file, graph, text and list.

Modules: `kernels/base`, `kernels/pairs`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import kernelweave as kw
from kernelweave import kernels
from kernelweave._parameters import Number
from kernelweave.kernels import base
from kernelweave.persistence.states import from_state, to_state

X = np.random.default_rng(3).normal(size=(60, 4))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
LABELS = np.array(["low", "mid", "top"])[np.digitize(Y, [-0.4, 0.4])]
FRAME = pd.DataFrame(X, columns=["a", "b", "c", "d"])
NEW = FRAME.iloc[:7] + 0.1


@dataclass(frozen=True)
class Rough(kernels.Kernel):
    """A Matern kernel with nu = 3/2, k(x, z) = (1 + r) exp(-r), r = sqrt(3) ||x - z|| / length."""

    length: Annotated[float, Number(above=0)] = 1.0

    statistic: ClassVar[str] = "sqdist"
    aliases: ClassVar[tuple[str, ...]] = ("mtn", "uneven")

    def formula(self, xp, S, left, right):
        r = math.sqrt(3.0) / self.length * xp.sqrt(S)
        return (1.0 + r) * xp.exp(-r)

    def gradient(self, xp, S, value):
        return -1.5 / self.length**2 * xp.exp(-math.sqrt(3.0) / self.length * xp.sqrt(S))


@dataclass(frozen=True)
class Steps(kernels.Kernel):
    """A kernel of explicit features of one column, without a statistic."""

    width: float = 1.0

    def _features(self, table):
        x = table.take()
        return np.concatenate([np.floor(x / self.width), np.ones_like(x)], axis=1)


@dataclass(frozen=True)
class Tanhed(kernels.Kernel):
    """A formula of what graphs do not have, and without a derivative."""

    statistic: ClassVar[str] = "dot"

    def formula(self, xp, S, left, right):
        return xp.cosh(S)


@pytest.fixture(scope="module", autouse=True)
def others_do_not_see_these():
    own = {cls.__name__.lower(): cls for cls in (Rough, Steps, Tanhed)}
    # again where a worker comes back to this file
    base.KERNELS.update(own)
    yield
    for name in own:
        base.KERNELS.pop(name, None)


def values(A, B, length=1.0):
    r = math.sqrt(3.0) / length * np.sqrt(np.square(A[:, None] - B[None]).sum(axis=2))
    return (1.0 + r) * np.exp(-r)


BANK = [
    Rough(2.0),
    Rough(0.7).on(["a", "b"]),
    2.0 * Rough() + kernels.Linear(),
    Rough() * kernels.Linear().on(["c"]),
]


def test_values_diagonal_and_label():
    np.testing.assert_allclose(Rough(0.7)(X, X[:5]), values(X, X[:5], 0.7), rtol=1e-12)
    np.testing.assert_array_equal(Rough().diag(X), 1.0)
    assert Rough(0.5).on(["a"]).label == "Rough(length=0.5) on a"
    assert (2.0 * Rough() + 1.0).label == "(2 * Rough(length=1) + Constant(1)) on all"
    assert Steps(0.5)([[0.6], [1.2]]).tolist() == [[2.0, 3.0], [3.0, 5.0]]
    assert Steps(0.5).diag([[0.6], [1.2]]).tolist() == [2.0, 5.0]


@pytest.mark.parametrize("normalize", ["mean-diagonal", "cosine", "center", "trace"])
@pytest.mark.parametrize("learner", ["rls2", "simple", "rkl", "alignf"])
def test_estimators_with_every_normaliser(learner, normalize):
    """The same as of the matrices that the kernel stands for."""
    kind = kw.MKLRegressor if learner == "rls2" else kw.MKLClassifier
    y = Y if learner == "rls2" else Y > 0
    settings = {"normalize": normalize, **({"alpha": 0.3} if learner == "rls2" else {"C": 1.0})}
    model = kind([Rough(2.0), Rough(0.7)], learner, **settings).fit(X, y)
    cells = np.concatenate([X, NEW.to_numpy()])
    stack = np.stack([values(cells, cells, 2.0), values(cells, cells, 0.7)], axis=-1)
    other = kind(kw.KernelBank(stack, ["a", "b"]), learner, **settings).fit(np.arange(60)[:, None], y)
    np.testing.assert_allclose(model.weights_, other.weights_, atol=1e-6)
    ask = "predict" if learner == "rls2" else "decision_function"
    expected = getattr(other, ask)(np.arange(60, 67)[:, None])
    np.testing.assert_allclose(getattr(model, ask)(NEW.to_numpy()), expected, atol=1e-5)
    assert model.rel_gap_ < 1e-3


def test_cross_validation():
    model = kw.MKLClassifierCV(BANK, "simple", Cs=[0.1, 1.0], cv=3).fit(FRAME, LABELS)
    assert model.score(FRAME, LABELS) > 0.8
    assert kw.MKLRegressorCV(BANK, n_alphas=4, cv=3).fit(FRAME, Y).score(FRAME, Y) > 0.8


def test_layers_of_deep_kernels_take_its_derivative(rng):
    from kernelweave.mkl.layers import Layers

    Z = rng.normal(size=(12, 3))
    K, layers, w = Z @ Z.T, Layers(((Rough(1.3), kernels.Linear()),), cosine=True), [np.array([0.4, 0.6])]
    H, h = rng.normal(size=(12, 12)), 1e-6
    H, E = H + H.T, rng.normal(size=(12, 12))
    E = E + E.T

    def value(A):
        return float((layers.forward(A, A.diagonal().copy(), w).kernels[-1] * H).sum())

    _, back = layers.backward(layers.forward(K, K.diagonal().copy(), w), H.copy())
    numeric = (value(K + h * E) - value(K - h * E)) / (2.0 * h)
    assert (back * E).sum() == pytest.approx(numeric, rel=1e-5)
    deep = kw.MKLClassifier([kernels.RBF(0.5)], kw.learners.MLMKL(C=1.0, kernels=[Rough()], tol=0.1))
    assert deep.fit(X, Y > 0).score(X, Y > 0) > 0.8
    with pytest.raises(kw.InputError, match="cannot be a layer"):
        kw.learners.MLMKL(kernels=[Tanhed()]).check()


def test_parameters_are_checked_and_become_numbers_of_python():
    for given in (np.float64(2.0), np.array(2.0), 2):
        assert repr(Rough(given)) == "Rough(length=2.0)"
    # without a rule
    assert repr(Steps(np.float64(0.5))) == "Steps(width=0.5)"
    assert kernels.parse(repr(Steps(np.float64(0.5)))) == Steps(0.5)
    for wrong in (0.0, "wide", np.nan):
        with pytest.raises(kw.InputError, match="`length` of Rough must be a finite number > 0"):
            Rough(wrong)


def test_a_field_of_numbers_without_a_rule_takes_numbers():
    for wrong in ("wide", None, [1.0, 2.0]):
        with pytest.raises(kw.InputError, match="`width` of Steps must be a number, got"):
            Steps(wrong)
    with pytest.raises(kw.InputError, match="`width` of Steps must be a number, got 'wide'"):
        kernels.parse("steps(width='wide')")


class Bare(kernels.Kernel, described=False):
    """Without the decorator of a data class."""

    statistic: ClassVar[str] = "sqdist"

    def formula(self, xp, S, left, right):
        return xp.exp(-S)


def test_a_class_that_is_no_data_class_says_so(monkeypatch):
    monkeypatch.setitem(base.KERNELS, "bare", Bare)
    for use in (lambda: Bare().label, lambda: kernels.parse("bare"), lambda: fitted(Bare())):
        with pytest.raises(
            kw.InputError, match=r"kernel Bare must be a data class: write @dataclass\(frozen=True\)"
        ):
            use()


@dataclass(frozen=True)
class Ruled(kernels.Kernel, described=False):
    """A width by a rule, and no method that finds it."""

    width: float | str = "median"

    statistic: ClassVar[str] = "sqdist"

    @property
    def is_fitted(self):
        return not isinstance(self.width, str)

    def formula(self, xp, S, left, right):
        return xp.exp(-S / self.width**2)


def fitted(kernel, rows=X, **settings):
    return kw.MKLRegressor([kernel], alpha=1.0, **settings).fit(rows, Y)


def test_half_a_rule_for_training_rows_is_refused():
    for use in (lambda: fitted(Ruled()), lambda: Ruled()(X), lambda: Ruled().fitted(X)):
        with pytest.raises(
            kw.InputError, match=r"`_fit\(rows\)` of Ruled must return the kernel with its numbers"
        ):
            use()
    with pytest.raises(
        kw.InputError, match=r"'Ruled\(width=median\) on all' fails with TypeError.*call fitted\(X\)"
    ):
        Ruled().from_statistic(X)
    with pytest.raises(kw.InputError, match="Half has `_fit`, and no `is_fitted`"):
        type("Half", (kernels.Kernel,), {"_fit": lambda self, rows: self}, described=False)
    # without both the rule reaches the formula
    neither = dataclass(frozen=True)(type("Neither", (Ruled,), {"is_fitted": True}, described=False))
    with pytest.raises(kw.InputError, match=r"'Neither.*fails with TypeError.*need `_fit` and `is_fitted`"):
        fitted(neither())


@dataclass(frozen=True)
class Hill(Ruled, described=False):
    """A width by a rule."""

    def _fit(self, rows):
        return replace(self, width=rows.median("sqdist") ** 0.5)


def test_a_rule_for_training_rows(tmp_path, monkeypatch):
    monkeypatch.setitem(base.KERNELS, "hill", Hill)
    assert Hill().fitted([[0.0], [1.0], [3.0]]) == Hill(2.0)
    known = Hill().fitted(X)
    model = fitted(Hill().on(["a", "b"]), FRAME)
    again = kw.load(kw.save(model, tmp_path / "m"))
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    np.testing.assert_allclose(
        fitted(Hill()).predict(X[:5] + 0.1), fitted(known).predict(X[:5] + 0.1), rtol=1e-12
    )
    assert kernels.parse("hill(width=2.0)") == Hill(2.0)
    assert kw.MKLRegressorCV([Hill()], n_alphas=3, cv=2).fit(X, Y).score(X, Y) > 0.5


@dataclass(frozen=True)
class Cells(kernels.Kernel, described=False):
    """Of dense arrays of complete rows only."""

    def _gram(self, left, right):
        A = left.take()
        return (1.0 + np.einsum("ik,jk->ij", A, A if right is None else right.take())) ** 2

    def _diag(self, table):
        return (1.0 + np.square(table.take()).sum(axis=1)) ** 2


@pytest.mark.parametrize(
    "make", [Cells, lambda: 2.0 * Cells() + kernels.Linear(), lambda: Cells().on([0, 1]), lambda: Steps(0.5)]
)
def test_rows_that_a_kernel_does_not_take_are_told_with_its_name(make):
    assert fitted(make()).score(X, Y) > -1.0
    holes = np.where(X > 1.0, np.nan, X)
    for rows, settings in ((sparse.csr_array(X), {}), (holes, {"missing": "skip"})):
        with pytest.raises(
            kw.InputError, match=r"The kernel '.*(Cells|Steps).* fails with .*table\.take\(\) is a CSR"
        ):
            fitted(make(), rows, **settings)


@dataclass(frozen=True)
class Named(Cells, described=False):
    """Calls a method of its own by the names of its arguments, and has one without an instance."""

    def _gram(self, left, right):
        return super()._gram(left=left, right=right)

    @staticmethod
    def _diag(table):
        return (1.0 + np.square(table.take()).sum(axis=1)) ** 2


def test_methods_may_be_static_or_called_by_names():
    np.testing.assert_array_equal(Named()(X), Cells()(X))
    np.testing.assert_array_equal(Named().diag(X), Cells().diag(X))


def test_mistakes_of_this_package_stay_what_they_are(monkeypatch):
    monkeypatch.setattr(kernels.Linear, "_features", lambda self, table: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        kernels.Linear().features(X)


def test_a_field_may_follow_from_others():
    @dataclass(frozen=True)
    class Halved(kw.kernels.Kernel, described=False):
        """exp(-S / (length / 2))."""

        statistic = "sqdist"
        length: float = 2.0
        half: float = field(init=False)

        def __post_init__(self):
            super().__post_init__()
            object.__setattr__(self, "half", self.length / 2.0)

        def formula(self, xp, S, left, right):
            return xp.exp(-S / self.half)

    assert Halved(3.0)([[0.0], [1.0]])[0, 1] == pytest.approx(np.exp(-1.0 / 1.5))


def test_gamma_is_refused():
    with pytest.raises(kw.InputError, match="`gamma` is for Gaussian and Laplacian kernels"):
        kw.MKLRegressor([Rough()], gamma=0.5, alpha=1.0).fit(X, Y)


@pytest.mark.parametrize("missing", ["skip", "impute", "impute-median"])
def test_missing_cells(missing):
    holes = np.where(np.arange(X.size).reshape(X.shape) % 17 == 3, np.nan, X)
    model = kw.MKLRegressor([Rough(2.0)], alpha=0.1, missing=missing).fit(holes, Y)
    assert model.score(holes, Y) > 0.6
    with pytest.raises(kw.InputError, match="missing"):
        kw.MKLRegressor([Rough(2.0)], alpha=0.1, missing="error").fit(holes, Y)


def test_nystroem_takes_it_and_random_features_do_not():
    near = kernels.approximate(Rough(2.0), kernels.Nystroem(60)).fitted(X)
    assert abs(near(X) - Rough(2.0)(X)).max() < 1e-5
    with pytest.raises(kw.InputError, match="Random features are those of"):
        kernels.approximate(Rough(), kernels.RandomFeatures(10))


def test_files(tmp_path, monkeypatch):
    model = kw.MKLClassifier(BANK, "lp", C=1.0).fit(FRAME, LABELS)
    path = kw.save(model, tmp_path / "m")
    again = kw.load(path)
    np.testing.assert_array_equal(again.decision_function(NEW), model.decision_function(NEW))
    assert again.kernels == BANK
    lean = kw.MKLRegressor([Steps(0.5).on(["a"]), Steps(0.2).on(["b"])], alpha=0.1).fit(FRAME, Y)
    fitted = kw.load(kw.save(lean, tmp_path / "n", training_rows=False))
    np.testing.assert_allclose(fitted.predict(NEW), lean.predict(NEW), rtol=1e-12)
    monkeypatch.delitem(base.KERNELS, "rough")
    with pytest.raises(kw.InputError, match=r"kernel of another module, 'Rough'\. Import that module first"):
        kw.load(path)


def test_graphs(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model = kw.MKLRegressor(BANK, alpha=0.1, normalize="cosine").fit(FRAME, Y)
    session = runtime.InferenceSession(str(kw.to_onnx(model, tmp_path / "m.onnx")))
    (found,) = session.run(["prediction"], {"X": NEW.to_numpy()})
    np.testing.assert_allclose(found, model.predict(NEW), rtol=1e-11)
    with pytest.raises(
        kw.InputError, match=r"'Tanhed on all' has no ONNX form.*kernelweave\.save instead.*cosh"
    ):
        kw.to_onnx(kw.MKLRegressor([Tanhed()], alpha=1.0).fit(X, Y), tmp_path / "n.onnx")
    # features are written in what graphs have
    model = kw.MKLRegressor([Steps()], alpha=1.0).fit(X[:, :1], Y)
    session = runtime.InferenceSession(str(kw.to_onnx(model, tmp_path / "n.onnx")))
    (found,) = session.run(["prediction"], {"X": X[:, :1]})
    np.testing.assert_allclose(found, model.predict(X[:, :1]), rtol=1e-11)


def test_text_and_plain_values():
    for kernel in BANK:
        assert kernels.parse(repr(kernel)) == kernel
        assert from_state(to_state(kernel)) == kernel
    assert kernels.parse("uneven(length=0.5).on(['a'])") == Rough(0.5).on(["a"])
    assert kernels.parse("rough") == Rough()
    with pytest.raises(kw.InputError, match="width"):
        kernels.parse("rough(width=1)")
    with pytest.raises(kw.InputError, match="There is a kernel 'rbf' already"):
        type("RBF", (Rough,), {})


@pytest.mark.usefixtures("undrawn")
def test_command_line_and_the_lists_of_the_application(tmp_path, capsys):
    pytest.importorskip("cyclopts")
    pytest.importorskip("jinja2")
    from kernelweave_app.cli import main
    from kernelweave_app.runs.kernels_of import kernel_names

    assert {"rough", "uneven", "steps", "linear", "rbf", "poly", "polynomial"} <= set(kernel_names())
    table = tmp_path / "t.csv"
    FRAME.assign(y=Y).to_csv(table, index=False)
    asked = ["--kernels", "rough(length=2) ; rough.on(['a'])", "--alphas", "3", "--cv", "2"]
    assert main(["fit", str(table), "--target", "y", "--out", str(tmp_path / "run"), *asked]) == 0
    model = kw.load(tmp_path / "run" / "model.skops")
    assert list(model.kernel_names_) == ["Rough(length=2) on all", "Rough(length=1) on a"]
    assert (
        main(["fit", str(table), "--target", "y", "--out", str(tmp_path / "other"), "--kernels", "roug"]) != 0
    )
    assert "Did you mean 'rough'?" in capsys.readouterr().err
