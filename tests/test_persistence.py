"""Model files: the same outputs after a round trip, and nothing that could run code."""

import pickle

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import normalizers
from kernelweave.kernels import RBF, ArcCosine, Categorical, Constant, Custom, Laplacian, Linear, Polynomial
from kernelweave.learners import RLS2

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = X[:, 0] + np.sin(2 * X[:, 1])
LABELS = np.array(["low", "mid", "top"])[np.digitize(Y, [-0.5, 0.5])]
FRAME = pd.DataFrame(X, columns=["age", "bmi", "dose"]).assign(
    city=np.array(["Oslo", "Rome"])[(X[:, 2] > 0) * 1]
)
STACK = np.stack([RBF(gamma=g)(X) for g in (0.1, 1.0)], axis=-1)
INDEX = np.arange(30)[:, None]
EVERY = [
    Linear().on([0]),
    Polynomial(degree=3, coef0=0.5).on([1]),
    RBF(gamma=0.5),
    Laplacian(gamma=0.3),
    ArcCosine(degree=1, layers=2),
    RBF(gamma=1.0).on(slice(0, 2)) * Linear(),
    2.0 * RBF(gamma=2.0) + Constant(0.5),
    RBF(gamma=1.0).on(np.array([True, False, True])),
]
FIXED = RLS2(alpha=0.1)
CV = {"n_alphas": 5, "cv": 3}

MODELS = {
    "regression": (kw.MKLRegressor(EVERY, FIXED), X, Y),
    "default bank": (kw.MKLRegressor(learner=FIXED), X, Y),
    "auto": (kw.MKLRegressor(EVERY, RLS2(n_alphas=5)), X, Y),
    "outputs": (kw.MKLRegressor(EVERY, RLS2(alpha=0.1, shared_weights=False)), X, np.c_[Y, X[:, 2]]),
    "regression, folds": (kw.MKLRegressorCV(EVERY, **CV, scoring="neg_mean_squared_error"), X, Y),
    "binary": (kw.MKLClassifier(EVERY, FIXED, class_weight="balanced"), X, Y > 0),
    "classes": (kw.MKLClassifier(EVERY, FIXED), X, LABELS),
    "object labels": (kw.MKLClassifier(EVERY, FIXED), X, LABELS.astype(object)),
    "classification, folds": (kw.MKLClassifierCV(EVERY, **CV, rule="1se"), X, LABELS),
    "frame": (
        kw.MKLRegressor([RBF(gamma=1.0).on(["age", "bmi"]), Categorical().on("city")], FIXED),
        FRAME,
        Y,
    ),
    "default bank of a frame": (kw.MKLClassifierCV(**CV), FRAME, LABELS),
    "stack": (kw.MKLRegressor("precomputed", FIXED), STACK, Y),
    "bank": (kw.MKLClassifier(kw.KernelBank(STACK, ["wide", "narrow"]), FIXED), INDEX, LABELS),
    "linear": (kw.MKLClassifier(kw.banks.linear_features(3), FIXED), X, LABELS),
    "center": (kw.MKLRegressor(EVERY, FIXED, normalize="center", standardize=True), X, Y),
    "cosine": (kw.MKLRegressor(EVERY, FIXED, normalize="cosine"), X, Y),
    "within-class": (kw.MKLClassifier(EVERY, FIXED, normalize=normalizers.WithinClass(ddof=1)), X, LABELS),
    "transductive": (kw.MKLRegressor(EVERY, FIXED, normalize=normalizers.Trace(extra=X[:5] + 1)), X, Y),
    "norm": (kw.MKLRegressor(EVERY, FIXED, normalize="norm"), X, Y),
    "no normaliser": (kw.MKLRegressor(EVERY, FIXED, normalize=None, max_memory="1MB"), X, Y),
    "pipeline": (make_pipeline(StandardScaler(), kw.MKLRegressor(EVERY, FIXED)), X, Y),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_round_trip_changes_no_output(name, tmp_path):
    model, rows, y = MODELS[name]
    model.fit(rows, y)
    path = kw.save(model, tmp_path / "model.skops")
    assert path == tmp_path / "model.skops"
    assert [p.name for p in tmp_path.iterdir()] == ["model.skops"]
    again = kw.load(str(path))
    assert type(again) is type(model)
    before, after = model.predict(rows), again.predict(rows)
    np.testing.assert_array_equal(after, before)
    assert after.dtype == before.dtype
    assert len(np.unique(before)) > 1
    if hasattr(model, "decision_function"):
        np.testing.assert_array_equal(again.decision_function(rows), model.decision_function(rows))
    if hasattr(model, "kernel_contributions"):
        np.testing.assert_array_equal(again.kernel_contributions(rows), model.kernel_contributions(rows))
    if isinstance(model, kw.MKLRegressor) and name != "stack":
        np.testing.assert_array_equal(
            again.predict(rows, return_std=True)[1], model.predict(rows, return_std=True)[1]
        )
    if name != "pipeline":
        assert sorted(vars(again)) == sorted(vars(model))
        assert repr(again) == repr(model)
    # what was loaded is a whole estimator: it can be fitted again and stored again
    np.testing.assert_array_equal(kw.load(kw.save(again, path)).predict(rows), before)
    np.testing.assert_allclose(again.fit(rows, y).score(rows, y), model.score(rows, y), rtol=1e-9)


def sine(a, b):
    return np.outer(np.sin(a[:, 0]), np.sin(b[:, 0]))


@pytest.mark.parametrize(
    "kernel", [Custom(sine), Custom(lambda a, b: a @ b.T), RBF(gamma=1.0) + Custom(sine)]
)
def test_functions_are_refused_and_the_older_file_stays(kernel, tmp_path):
    path = kw.save(kw.MKLRegressor(EVERY, FIXED).fit(X, Y), tmp_path / "model.skops")
    older = path.read_bytes()
    model = kw.MKLRegressor([RBF(gamma=1.0), kernel], FIXED).fit(X, Y)
    with pytest.raises(kw.InputError, match="cannot be stored without code"):
        kw.save(model, path)
    assert path.read_bytes() == older
    assert [p.name for p in tmp_path.iterdir()] == ["model.skops"]
    with pytest.raises(kw.InputError, match="cannot be stored"):
        kw.save(model, tmp_path / "new.skops")
    assert not (tmp_path / "new.skops").exists()


def own_score(model, rows, y):
    return float(np.mean(model.predict(rows) == y))


def test_a_score_given_as_a_function_is_refused(tmp_path):
    model = kw.MKLClassifierCV(EVERY, **CV, scoring=own_score).fit(X, LABELS)
    with pytest.raises(kw.InputError, match=r"cannot be stored.*own_score.*replaced by named ones"):
        kw.save(model, tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path):
    model = kw.MKLRegressor(EVERY, FIXED).fit(X, Y)
    with pytest.raises(OSError, match="missing"):
        kw.save(model, tmp_path / "missing" / "model.skops")


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_a_pickle_is_not_opened(tmp_path):
    mark = tmp_path / "mark"
    path = tmp_path / "model.skops"
    path.write_bytes(pickle.dumps(Trap(str(mark))))
    with pytest.raises(kw.InputError, match="not a model file written by kernelweave"):
        kw.load(path)
    assert not mark.exists()
    pickle.loads(path.read_bytes()).close()
    assert mark.exists()  # the trap works


def foreign():
    return {"a number": 3, "a dict": {"format": "other", "model": 1}, "a model alone": Ridge().fit(X, Y)}


@pytest.mark.parametrize("what", foreign())
def test_foreign_skops_files_are_refused(what, tmp_path):
    path = tmp_path / "model.skops"
    skops.io.dump(foreign()[what], path)
    with pytest.raises(kw.InputError, match="not a model file written by kernelweave"):
        kw.load(path)


def test_types_that_a_model_does_not_need_are_refused(tmp_path):
    path = tmp_path / "model.skops"
    skops.io.dump({"format": "kernelweave model 1", "model": Custom(sine)}, path)
    with pytest.raises(kw.InputError, match=r"types that a model file must not hold.*"):
        kw.load(path)


@pytest.mark.parametrize("content", [b"", b"age,bmi\n1,2\n", b"PK\x03\x04 broken"])
def test_files_that_are_no_models(content, tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(content)
    with pytest.raises(kw.InputError, match="not a model file written by kernelweave"):
        kw.load(path)


def test_a_broken_off_file_is_refused(tmp_path):
    path = kw.save(kw.MKLRegressor(EVERY, FIXED).fit(X, Y), tmp_path / "model.skops")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(kw.InputError, match="not a model file"):
        kw.load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no model file"):
        kw.load(tmp_path / "model.skops")


def test_a_model_is_as_readable_as_any_new_file(tmp_path):
    # files made by tempfile are private
    other = tmp_path / "other"
    other.write_text("")
    path = kw.save(kw.MKLRegressor(EVERY, FIXED).fit(X, Y), tmp_path / "model.skops")
    assert path.stat().st_mode == other.stat().st_mode
