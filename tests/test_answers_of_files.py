"""States, archives and graphs of models, as they were when somebody last read them, and what files are refused for.

Modules: `persistence`, `persistence/archive`, `persistence/foreign`, `persistence/graph`, `persistence/onnx_file`,
`persistence/states`.
"""

import hashlib
import io
import json
import typing
import zipfile
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import InputError, learners
from kernelweave.kernels import RBF, Categorical, Linear, Nystroem, Polynomial
from kernelweave.persistence import archive, foreign, states
from kernelweave.persistence import graph as graphs
from kernelweave.persistence.states import check_model, check_types, fits, from_state, to_state

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4))
NEW = RNG.normal(size=(5, 4))
Y = X[:, 0] + X[:, 1] * X[:, 2]
THREE = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)]
FRAME = pd.DataFrame(
    {"age": X[:, 0], "city": np.array(["Oslo", "Rome"])[(X[:, 1] > 0) * 1], "n": np.arange(24) % 3}
)


NOTHING = {"kind": "dict", "items": []}


def shape_of(state):
    """A state with types and shapes in place of arrays, and without its numbers."""
    if isinstance(state, np.ndarray):
        return f"{state.dtype.kind} {list(state.shape)}"
    if isinstance(state, dict):
        return {key: shape_of(one) for key, one in state.items()}
    if isinstance(state, list):
        own = [shape_of(one) for one in state]
        return own if len(own) < 5 or isinstance(own[0], dict) else f"{len(own)} of {type(state[0]).__name__}"
    return "number" if isinstance(state, float) else state


def fitted():
    """Models that differ in the parts of their states."""
    return {
        "regressor": kw.MKLRegressor([RBF(0.3), Linear().on([1])], "uniform", C=2.0).fit(X, Y),
        "classes": kw.MKLClassifier(
            [RBF(0.3) * Linear().on([0]), 2.0 * Polynomial(2)],
            learners.SimpleMKL(C=0.5, loss=kw.losses.Logistic()),
        ).fit(X, THREE, sample_weight=np.arange(1, 25.0)),
        "features": kw.MKLRegressor([Linear().on([0]), Linear().on([1, 2])], alpha=0.1).fit(X, Y),
        "frame": kw.MKLRegressor([Categorical().on(["city"]), RBF(0.2).on(["age", "n"])], alpha=0.1).fit(
            FRAME, Y
        ),
        "layers": kw.MKLClassifier([RBF(0.3), Linear()], learners.MLMKL(max_iter=1)).fit(X, Y > 0),
        "stack": kw.MKLRegressor("precomputed", alpha=0.1).fit(
            np.stack([X @ X.T, np.exp(X @ X.T)], axis=-1), Y
        ),
        "sparse": kw.MKLRegressor([Linear(), RBF(0.1)], alpha=0.1).fit(sparse.csr_array(X * (X > 0.5)), Y),
        "nystroem": kw.MKLRegressor([RBF(0.4)], "uniform", approximation=Nystroem(5)).fit(X, Y),
    }


@pytest.fixture(scope="module")
def models():
    return fitted()


def test_states_of_models(models, recorded):
    for name, model in models.items():
        state = to_state(model, training_rows=True)
        recorded(name, shape_of(state["model"]))
        recorded(
            f"{name}, attributes",
            [shape_of(state["params"]), sorted(key for key, _ in state["found"]["items"])],
        )
        again = from_state(state)
        assert to_state(again, training_rows=True).keys() == state.keys()
        assert type(again) is type(model)
        lean = to_state(model)
        recorded(
            f"{name}, lean",
            [lean["model"]["task"]["source"]["kind"], str(shape_of(lean["model"]["dual_coef"]))],
        )


def test_states_of_values():
    values = [
        None, True, 3, 2.5, "text", [1, [2.0]], (1, ("a",)), {1, 2}, frozenset({"x"}), {("a", 1): {"b": None}},
        np.float32(0.5), np.bool_(True), np.datetime64("2020-01-02"), np.arange(6.0).reshape(2, 3),
        np.array(["a", "bc"]),
        learners.LpMKL(p=3.0), learners.SimpleMKL(loss=kw.losses.Quantile(0.2)), kw.losses.Huber(0.3),
        kw.losses.Hinge(),
        RBF(0.3).on([1, 2]) * Linear() + 2.0, kw.normalizers.WithinClass(ddof=1),
        kw.SelectViews(),
    ]  # fmt: skip
    for value in values:
        state = to_state(value)
        json.dumps(state, default=str)
        again = from_state(state)
        assert type(again) is type(value)
        assert repr(again) == repr(value)
    cells = np.empty((2, 2), dtype=object)
    cells[:] = [[(1, 2), "a"], [None, [3]]]
    again = from_state(to_state(cells))
    assert again.shape == (2, 2)
    assert again.tolist() == cells.tolist()
    rows = sparse.coo_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]))
    np.testing.assert_array_equal(from_state(to_state(rows)).toarray(), rows.toarray())
    assert to_state(np.arange(3.0)) is not None
    array = np.arange(3.0)
    assert to_state(array) is array
    # subclasses of plain values are no plain values
    with pytest.raises(InputError, match=r"cannot be written as a state: it contains a Counter"):
        to_state(Counter("a"))
    with pytest.raises(InputError, match=r"contains a KFold"):
        to_state([KFold()])
    assert to_state([KFold()], lambda one: type(one).__name__) == ["KFold"]
    assert from_state({"kind": "foreign", "index": 3}, lambda state: state["index"]) == 3
    assert from_state([{"kind": "function", "of": "x"}], lambda state: state["of"]) == ["x"]
    for known in (
        RBF(),
        learners.SimpleMKL(),
        kw.losses.Hinge(),
        kw.MKLRegressor(),
        kw.SelectViews(),
        kw.kernels.Custom(min),
    ):
        assert states.is_known(known)
    for other in (KFold(), 3, "RBF", RBF, object()):
        assert not states.is_known(other)


def test_states_of_others():
    for state, words in (
        ({"kind": "learner", "name": "nobody", "params": NOTHING}, "a learner of another module, 'nobody'"),
        ({"kind": "loss", "name": "nothing", "params": NOTHING}, "a loss of another module, 'nothing'"),
        ({"kind": "Unheard"}, "a kernel of another module, 'Unheard'"),
    ):
        with pytest.raises(InputError, match=rf"{words}.*Import that module first, or install the package"):
            from_state(state)
    # former names of parameters and of functions
    former = from_state(
        {"kind": "learner", "name": "rkl", "params": {"kind": "dict", "items": [["step", "armijo"]]}}
    )
    assert former.solver == "armijo"
    former = {"kind": "dict", "items": [["as_published", True], ["literal", False], ["C", 3.0]]}
    assert from_state({"kind": "learner", "name": "mlmkl", "params": former}).C == 3.0
    for word, kernel in (
        ("Gaussian", RBF),
        ("Identity", Linear),
        ("Power", Polynomial),
        ("Angle", kw.kernels.ArcCosine),
    ):
        assert type(from_state({"kind": word})) is kernel


def test_types_of_annotations():
    class Protocol(typing.Protocol):
        pass

    @dataclass
    class Pair:
        first: int
        second: str | None = None

    right = [
        (int, 3), (int, np.int64(3)), (float, 3), (float, 2.5), (float, np.float32(2)), (float, np.int8(1)), (str, "a"),
        (None, None), (type(None), None), (Any, object()), (int | None, None), (int | str, "a"),
        (typing.Optional[int], 3),  # noqa: UP045
        (Literal["a", 1], 1), (tuple[int, ...], ()), (tuple[int, ...], (1, 2, 3)), (tuple[int, str], (1, "a")),
        (tuple[()], ()), (list[int], [1, 2]), (dict[str, int], {"a": 1}), (np.ndarray, np.ones(1)), (Protocol, 3),
        (typing.TypeVar("T"), 3), (bool, True), (list, [1]), (dict[str, int | None], {"a": None}),
    ]  # fmt: skip
    wrong = [
        (int, 3.0), (int, True), (int, "3"), (float, True), (float, "a"), (str, 3), (None, 3), (int | None, "a"),
        (Literal["a", 1], 2), (tuple[int, ...], (1, "a")), (tuple[int, ...], ("a", 1)), (tuple[int, ...], [1]),
        (tuple[int, str], (1,)), (tuple[int, str], ("a", 1)), (tuple[int], (1, 2)), (list[int], [1, "a"]),
        (list[int], (1,)), (dict[str, int], {"a": "b"}), (dict[str, int], {1: 1}), (dict[str, int], [1]),
        (np.ndarray, [1.0]), (bool, 1), (tuple[int, Any], (1,)),
    ]  # fmt: skip
    for hint, value in right:
        assert fits(hint, value), (hint, value)
    for hint, value in wrong:
        assert not fits(hint, value), (hint, value)
    check_types(Pair("x"), ["second", "third"])
    with pytest.raises(TypeError, match=r"`first` of Pair is a str"):
        check_types(Pair("x"), ["second", "first"])


def test_models_of_files_are_checked(models):
    """One part of a model at a time is of another shape or type."""
    model = models["classes"].model_
    check_model(model)
    n, m, o = 24, 2, 3
    changes: list[dict[str, Any]] = [
        {"dual_coef": np.ones((n, o - 1))}, {"dual_coef": np.ones((n - 1, o))}, {"intercept": np.ones(o + 1)},
        {"owner": np.zeros(o + 1, int)}, {"owner": np.zeros(o)}, {"owner": np.array([0, 0, -1])},
        {"owner": np.array([0, 0, len(model.normalizers)])}, {"weights": np.ones((o, m + 1))},
        {"weights": np.ones((m, o))},
        {"layers": (None,)}, {"shift": np.ones(o + 1)}, {"offset": np.ones(1)}, {"constant": np.ones(o)},
        {"constant": np.ones(o + 1, bool)}, {"shift": np.array([0.0, np.nan, 0.0])}, {"offset": np.full(o, np.inf)},
        {"intercept": np.array([0.0, np.nan, 0.0])}, {"weights": np.full((o, m), np.inf)},
        {"dual_coef": np.full((n, o), np.nan)}, {"encoder": None},
        {"normalizers": (replace(model.normalizers[0], scale=np.ones(m + 1)), *model.normalizers[1:])},
        {"normalizers": (replace(model.normalizers[0], scale=np.full(m, np.nan)), *model.normalizers[1:])},
        {"task": replace(model.task, sample_weight=np.ones(n + 1))},
        {"task": replace(model.task, targets=tuple(one[1:] for one in model.task.targets))},
    ]  # fmt: skip
    good: list[dict[str, Any]] = [
        {"shift": np.ones(o)}, {"constant": np.ones(o, bool)}, {"weights": np.ones(m)}, {"layers": (None,) * o},
    ]  # fmt: skip
    for change in good:
        check_model(replace(model, **change))
    for change in changes:
        with pytest.raises(ValueError, match=r"its arrays have NaN or inconsistent shapes"):
            check_model(replace(model, **change))
    linear = to_state(models["features"])
    features = from_state(linear).model_
    check_model(features)
    form = features.features
    for wrong in (
        {"offsets": form.offsets[:-1]}, {"offsets": form.offsets + 1}, {"offsets": np.array([0, 4, 3])},
        {"coef": form.coef[1:]}, {"coef": np.c_[form.coef, form.coef]}, {"coef": form.coef * np.nan},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"inconsistent shapes"):
            check_model(replace(features, features=replace(form, **wrong)))
    with pytest.raises(ValueError, match=r"inconsistent shapes"):
        check_model(replace(features, features=None))


def test_archives(tmp_path):
    """Members, arrays that are stored once, and the digest at the end."""
    array, other = np.arange(3.0), np.array([["a", "bb"]])
    state = {"a": array, "b": [array, {"c": other, "kind": "x"}], "d": None}
    path = tmp_path / "m"
    archive.write(path, state, b"others")
    with zipfile.ZipFile(path) as found:
        assert found.namelist() == ["state.json", "arrays/0.npy", "arrays/1.npy", "foreign.skops"]
        place = {"kind": "array", "index": 0}
        assert json.loads(found.read("state.json")) == {
            "a": place, "b": [place, {"c": {"kind": "array", "index": 1}, "kind": "x"}], "d": None,
        }  # fmt: skip
        assert found.read("foreign.skops") == b"others"
        np.testing.assert_array_equal(np.load(io.BytesIO(found.read("arrays/1.npy"))), other)
        assert len(found.comment) == len(b"kernelweave sha256 ") + 64
    content = path.read_bytes()
    assert content.endswith(hashlib.sha256(content[:-83]).hexdigest().encode())
    with path.open("rb") as file:
        assert archive.is_sealed(file, path)
        again, things = archive.read(file)
    assert things == b"others"
    assert again["a"] is again["b"][0]
    np.testing.assert_array_equal(again["b"][1]["c"], other)
    archive.write(path, {}, None)
    with path.open("rb") as file:
        assert archive.read(file) == ({}, None)
    for at in (0, 40, -1):
        wrong = bytearray(content)
        wrong[at] ^= 1
        with pytest.raises(
            InputError, match=r"file is damaged: its content does not match its digest. Copy it"
        ):
            archive.is_sealed(io.BytesIO(bytes(wrong)), "file")
    assert not archive.is_sealed(io.BytesIO(content[:-1]), "file")
    assert not archive.is_sealed(io.BytesIO(b""), "file")
    large = b"x" * (2**20 + 7)
    sealed = large + b"kernelweave sha256 " + hashlib.sha256(large).hexdigest().encode()
    assert archive.is_sealed(io.BytesIO(sealed), "file")
    with pytest.raises(TypeError, match=r"set is not part of a state"):
        archive.write(path, {"a": {1}}, None)
    # an array of objects would be a pickle
    with pytest.raises(ValueError, match=r"allow_pickle|pickle"):
        archive.write(path, {"a": np.array([object()])}, None)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("state.json", '{"kind": "array", "index": "0"}')
        pickled = io.BytesIO()
        np.save(pickled, np.array([None]), allow_pickle=True)
        made.writestr("arrays/0.npy", pickled.getvalue())
    with pytest.raises(ValueError, match=r"pickle"):
        archive.read(buffer)
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("schema.json", "{}")
    with pytest.raises(
        InputError, match=r"one of version 0\.1, which is no longer read\. Load it with version 0\.2"
    ):
        archive.read(buffer)
    with pytest.raises(InputError, match=r"`path` must name a file, got the folder .* Add a name to it"):
        archive.check_place(tmp_path)
    with pytest.raises(InputError, match=r"got the folder '.'"):
        archive.check_place("")
    assert archive.check_place(str(path)) == path


def test_a_file_is_whole_or_the_former_one(tmp_path):
    path = tmp_path / "m"
    path.write_text("old")

    def broken_off():
        with archive.whole_file(path) as name:
            assert name.parent == tmp_path
            assert name.name.startswith("m.")
            assert name.name.endswith(".part")
            name.write_text("new")
            raise KeyError

    with pytest.raises(KeyError):
        broken_off()
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["m"]
    with archive.whole_file(path) as name:
        name.write_text("new")
    assert path.read_text() == "new"


def test_parts_are_traded_at_any_depth():
    class Thing:
        def __init__(self, **parts):
            vars(self).update(parts)

    def trade(value):
        return value * 10 if type(value) is int else value

    inner, plain = Thing(a=1, b=["x"]), Thing(a="x")
    whole = Thing(inner=inner, plain=plain, items=(1, [2, "y"], {"k": 3, "l": "z"}), again=inner)
    found = foreign.traded(whole, trade)
    assert found is not whole
    assert type(found) is Thing
    assert found.items == (10, [20, "y"], {"k": 30, "l": "z"})
    assert vars(found.inner) == {"a": 10, "b": ["x"]}
    assert found.inner.b is inner.b
    assert found.again is found.inner
    assert found.plain is plain
    assert inner.a == 1
    for same in ([plain, "x"], {"a": plain}, plain, Thing, trade, np):
        assert foreign.traded(same, trade) is same
    ring = Thing(a="x")
    ring.own = ring
    assert foreign.traded(ring, trade) is ring
    assert foreign.traded((1,), trade) == (10,)


def test_parts_of_other_packages():
    pytest.importorskip("skops")
    content = foreign.write([KFold(3), StandardScaler()])
    again = foreign.read(content, "file")
    assert [type(one) for one in again] == [KFold, StandardScaler]
    assert again[0].n_splits == 3
    with pytest.raises(
        InputError, match=r"cannot be stored without code: it has parts of type .*Own.*give scorers by name"
    ):
        foreign.write([Own()])
    import skops.io

    with pytest.raises(InputError, match=r"file has types that are not allowed in a model file"):
        foreign.read(skops.io.dumps([Own()]), "file")


class Own:
    """A class that files do not know."""

    def __init__(self):
        self.a = 1


def overlap(a, b):
    return a @ b.T


def other(a, b):
    return 2.0 * (a @ b.T)


def test_functions_of_kernels(tmp_path):
    path = tmp_path / "m.kw"
    kernel = kw.kernels.Custom(overlap, repair=True, diag=lambda a: np.square(a).sum(axis=1))
    model = kw.MKLRegressor([kernel, 2.0 * RBF(0.1)], alpha=0.1).fit(X, Y)
    state, things = kw.persistence._take_apart(model, None)
    assert state["format"] == "kernelweave model 4"
    assert things == []
    reference = state["model"]["params"]["items"]
    own = dict(reference)["kernels"][0]
    assert own == {
        "kind": "function",
        "of": "Custom",
        "function": "overlap",
        "name": kernel.name,
        "repair": True,
    }
    kw.save(model, path)
    again = kw.load(path, functions={"overlap": kernel})
    np.testing.assert_allclose(again.predict(NEW), model.predict(NEW), rtol=1e-9)
    assert again.kernels[0].repair is True
    assert again.kernels[0].diagonal is kernel.diagonal
    plain = kw.load(path, functions={"overlap": overlap})
    assert plain.kernels[0].diagonal is None
    for functions, words in (
        (
            None,
            r"the Python function 'overlap', and model files contain no code. Hand it over: .*functions=\{'overlap'",
        ),
        ({"overlap": 3}, r"`functions\['overlap'\]` must be a function, got 3"),
        (
            {"overlap": overlap, "more": other},
            r"`functions` has 'more', and the model has kernels of the functions 'ov",
        ),
        (
            {"overlap": other},
            "The function of the kernel .*overlap.* has other values of training rows than when",
        ),
    ):
        with pytest.raises(InputError, match=words):
            kw.load(path, functions=functions)
    kw.save(kw.MKLRegressor([RBF(0.1)], alpha=0.1).fit(X, Y), path)
    with pytest.raises(
        InputError, match=r"has 'overlap', and the model has none of functions\. Leave it out"
    ):
        kw.load(path, functions={"overlap": overlap})
    unnamed = kw.kernels.Custom(lambda a, b: a @ b.T)
    with pytest.raises(
        InputError, match=r"refers to a function by name, and .* has none\. Name it: Custom\(function, n"
    ):
        kw.save(kw.MKLRegressor([unnamed], alpha=0.1).fit(X, Y), path)
    two = [kw.kernels.Custom(overlap, name="k"), kw.kernels.Custom(other, name="k")]
    # a function of the diagonal is a part of the kernel, and would be lost
    also = [kw.kernels.Custom(overlap).on([0]), kw.kernels.Custom(overlap, diag=kernel.diagonal)]
    for kernels, name in ((two, "k"), (also, "overlap"), (also[::-1], "overlap")):
        with pytest.raises(
            InputError, match=rf"and two of them are called '{name}'. Name their kernels: Custom"
        ):
            kw.save(kw.MKLRegressor(kernels, alpha=0.1).fit(X, Y), path)


def test_files_and_what_is_said_of_wrong_ones(tmp_path):
    path = tmp_path / "m.kw"
    model = kw.MKLRegressor([RBF(0.3)], alpha=0.1).fit(X, Y)
    assert kw.save(model, str(path)) == path
    with pytest.raises(FileNotFoundError, match=r"There is no model file .*none\.kw"):
        kw.load(tmp_path / "none.kw")
    with pytest.raises(InputError, match=r"is a folder\. Name the model file in it"):
        kw.load(tmp_path)
    state = kw.persistence._take_apart(model, None)[0]

    def written(state, foreign=None):
        archive.write(path, state, foreign)
        return path

    assert type(kw.load(written(state))) is kw.MKLRegressor
    assert kw.load(written({**state, "format": "kernelweave model 3"})).predict(X).shape == (24,)
    for wrong, words in (
        (
            {**state, "format": "kernelweave model 5"},
            "not a model file written by this version of kernelweave.save",
        ),
        ([1], "not a model file written by this version"),
        ({**state, "model": RBF(0.3).gamma}, "damaged .it holds a float in place of an estimator"),
        ({**state, "model": {"kind": "nothing"}}, "a kernel of another module, 'nothing'"),
    ):
        with pytest.raises(InputError, match=words):
            kw.load(written(wrong))
    written(state)
    with zipfile.ZipFile(path, "a") as found:
        found.comment = b""
    with pytest.raises(
        InputError, match=r"is damaged: its digest is missing\. Copy it from its source again"
    ):
        kw.load(path)
    path.write_bytes(b"no zip")
    with pytest.raises(
        InputError, match=r"not a model file written by kernelweave.save, or damaged \(File is not a zip"
    ):
        kw.load(path)
    with pytest.raises(InputError, match=r"it was fitted, and has no model"):
        kw.load(written({**state, "model": {**state["model"], "model": None}}))


def test_models_in_pipelines_and_splitters(tmp_path):
    pytest.importorskip("skops")
    inner = kw.MKLRegressorCV([RBF(0.3), Linear()], "uniform", cv=KFold(3), Cs=[1.0, 10.0])
    model = make_pipeline(StandardScaler(), inner).fit(X, Y)
    state, things = kw.persistence._take_apart(model, None)
    assert state["model"] == {"kind": "foreign", "index": 0}
    assert [one["kind"] for one in state["held"]] == ["estimator"]
    assert dict(state["held"][0]["params"]["items"])["cv"] == {"kind": "foreign", "index": 1}
    assert things[0].steps[1][1] == {"kernelweave": 0}
    assert type(things[1]) is KFold
    again = kw.load(kw.save(model, tmp_path / "m.kw"))
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    assert again[1].cv.n_splits == 3
    content = foreign.write(things)
    archive.write(tmp_path / "n.kw", {**state, "held": [3]}, content)
    with pytest.raises(InputError, match=r"it holds a int in place of a model"):
        kw.load(tmp_path / "n.kw")


def test_rows_of_a_model_in_a_pipeline_are_kept_as_asked(tmp_path):
    made = make_pipeline(StandardScaler(), kw.MKLRegressor(kw.banks.linear_features(X.shape[1]), alpha=0.1))
    made.fit(X, Y)
    for asked in (True, None, False):
        again = kw.load(kw.save(made, tmp_path / "m.kw", training_rows=asked))
        np.testing.assert_allclose(again.predict(NEW), made.predict(NEW), rtol=1e-12)
        if asked:
            np.testing.assert_allclose(
                again.predict(NEW, return_std=True)[1], made.predict(NEW, return_std=True)[1]
            )
        else:
            with pytest.raises(InputError, match="training rows"):
                again.predict(NEW, return_std=True)


def test_rows_that_are_needed(models):
    with pytest.raises(
        InputError, match=r"cannot be saved without its training rows: .*\. Leave `training_rows` out"
    ):
        to_state(models["regressor"], training_rows=False)
    rowless = from_state(to_state(models["features"]))
    with pytest.raises(InputError, match=r"no training rows: it was saved without them before. Fit it again"):
        to_state(rowless, training_rows=True)
    assert (
        to_state(models["features"], training_rows=True)["model"]["task"]["source"]["kind"] == "TableSource"
    )
    assert to_state(models["features"])["model"]["task"]["source"]["kind"] == "RowlessSource"
    assert states.probed(models["regressor"].model_) == []


def test_estimators_of_changed_states(models):
    state = to_state(models["classes"])

    def changed(remove):
        items = [[key, value] for key, value in state["found"]["items"] if key != remove]
        return from_state({**state, "found": {"kind": "dict", "items": items}})

    with pytest.raises(ValueError, match=r"it has no classes"):
        changed("classes_")
    with pytest.raises(ValueError, match=r"does not say how many columns it has"):
        changed("n_features_in_")
    assert changed("nothing").predict(X).shape == (24,)
    unfitted = from_state(to_state(kw.MKLClassifier(C=3.0, learner="simple")))
    assert unfitted.C == 3.0
    assert not hasattr(unfitted, "model_")


# ---- graphs -----------------------------------------------------------------------------------------


def described(model):
    """Nodes with their arguments, and constants with their shapes and sums."""
    onnx = pytest.importorskip("onnx")
    graph = model.graph
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}

    def cell(name):
        if name not in constants:
            return name
        value = constants[name]
        if value.size < 4 or value.dtype.kind not in "fi":
            return str(value.tolist())
        return f"{value.dtype} {value.shape} {float(value.ravel() @ np.cos(np.arange(value.size))):.5g}"

    def sizes(one):
        kind = one.type.tensor_type
        return [one.name, kind.elem_type, [d.dim_param or d.dim_value for d in kind.shape.dim]]

    nodes = [
        f"{', '.join(node.output)} = {node.op_type}({', '.join(map(cell, node.input))}"
        f"{''.join(f'; {one.name} {one.i}' for one in node.attribute)})"
        for node in graph.node
    ]
    header = [model.ir_version, [one.version for one in model.opset_import], model.producer_name, graph.name]
    return [header, [sizes(one) for one in graph.input], [sizes(one) for one in graph.output], nodes]


def test_graphs_of_models(models, recorded, tmp_path):
    onnx = pytest.importorskip("onnx")
    kinds = {
        **{name: models[name] for name in ("regressor", "classes", "features", "frame", "layers", "nystroem")},
        "layers of classes": kw.MKLClassifier([RBF(0.3), Linear()], learners.DeepUniform()).fit(X, THREE),
        "two layers": kw.MKLClassifier(
            [RBF(0.3), Linear(), Polynomial(2)], learners.NonlinearRLS2(max_iter=1), normalize="cosine"
        ).fit(X, Y > 0),
        "cosine": kw.MKLClassifier([RBF(0.3), Linear()], "uniform", normalize="cosine").fit(X, THREE),
        "platt": kw.MKLClassifier([RBF(0.3)], "uniform").fit(X, Y > 0).calibrate("platt", cv=2),
        "temperature": kw.MKLClassifier([RBF(0.3)], "uniform").fit(X, THREE).calibrate("temperature", cv=2),
        "views": kw.MKLRegressor(learner="uniform").fit({"a": X[:, :2], "b": FRAME[["age", "n"]]}, Y),
        "poisson": kw.MKLRegressor([RBF(0.2)], learners.Uniform(loss="poisson")).fit(X, np.floor(np.exp(0.3 * Y))),
    }  # fmt: skip
    for name, model in kinds.items():
        file = kw.to_onnx(model, tmp_path / "m.onnx", dtype="float32" if name == "regressor" else "float64")
        recorded(name, described(onnx.load(file)), rtol=1e-3)


def calls():
    """Functions of two matrices (n_rows, 3), whole numbers (n_rows, 3) and a constant, as nodes and as arrays."""
    C = np.array([[0.5, -1.0], [2.0, 0.25], [-0.3, 1.5]])
    return {
        "operators": lambda a, b, k: (a + 2.0) * b - a / (1.0 + abs(b)),
        "from the left": lambda a, b, k: 2.0 - (1.0 / (b + 3.0)) + 0.5 * a,
        "products": lambda a, b, k: a @ C + np.matmul(b, C),
        "of vectors": lambda a, b, k: a @ C[:, 0],
        "truth": lambda a, b, k: (a > b) * 3.0 + (a <= 0.0) - (b == b),
        "whole numbers": lambda a, b, k: k * 2 + (k == 1),
        "of whole numbers": lambda a, b, k: k * 2 - k,
        "whole and real": lambda a, b, k: k * 0.5 + a,
        "two of them": lambda a, b, k: k - a,
        "minima": lambda a, b, k: np.minimum(a, b) + np.maximum(a, 0.25),
        "sums": lambda a, b, k: np.sum(a, axis=1) + b.sum(axis=-1),
        "sums, kept": lambda a, b, k: a / np.sum(abs(b), axis=1, keepdims=True),
        "sums of truth": lambda a, b, k: np.sum(a > b, axis=1),
        "largest": lambda a, b, k: np.max(a, axis=1) - b.max(axis=1, keepdims=True)[:, 0],
        "a column": lambda a, b, k: a[:, 1] * b[:, 2],
        "columns": lambda a, b, k: a[:, [2, 0]] + b[:, 1:],
        "new axes": lambda a, b, k: a[:, None, :] - b[:, :, None],
        "last columns": lambda a, b, k: a[:, -2:] * b[:, :2],
        "no columns": lambda a, b, k: np.concatenate([a[:, 2:1], b], axis=1),
        "side by side": lambda a, b, k: np.concatenate([a, b > 0, k], axis=1),
        "below each other": lambda a, b, k: np.concatenate([a, b]),
        "shapes": lambda a, b, k: np.reshape(a * b, (-1, 1, 3)),
        "choices": lambda a, b, k: np.where(a > b, a, 0.5),
        "choices of columns": lambda a, b, k: np.where(a[:, :1] > 0, b, 2),
        "places": lambda a, b, k: np.argmax(a, axis=1),
        "places of rows": lambda a, b, k: np.argmax(a[:, None, :] * b[:, :, None], axis=1),
        "bounds": lambda a, b, k: np.clip(a, -0.2, None) + np.clip(b, None, 0.3) + np.clip(a, -1.0, 1.0),
        "filled": lambda a, b, k: np.full_like(a, 2.5) + np.ones_like(b) + np.zeros_like(a),
        "logarithms": lambda a, b, k: np.log1p(a * a) + np.log(b * b + 0.1) + np.exp(-a) + np.sqrt(abs(b)),
        "angles": lambda a, b, k: np.cos(7.0 * a) + np.sin(b) + np.arccos(np.sin(3.0 * a)),
        "powers": lambda a, b, k: abs(a) ** 1.5 + b**2 + np.square(a) + np.sign(b) * np.floor(5 * a) + -a,
    }


def test_nodes_have_the_values_shapes_and_types_of_arrays():
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 11, 3))
    k = rng.integers(0, 3, (11, 3))
    b[0] = a[0]
    graph = graphs.Graph()
    inputs = graph.input("a", 3, np.float64), graph.input("b", 3, np.float64), graph.input("k", 3, np.int64)
    nodes = {name: call(*inputs) for name, call in calls().items()}
    # outputs have at most two axes
    flat = [one.reshape(-1, int(np.prod(one.shape[1:]))) if one.ndim > 2 else one for one in nodes.values()]
    outputs = {f"o{i}": (one, one.dtype) for i, one in enumerate(flat)}
    session = runtime.InferenceSession(graph.built(outputs).SerializeToString())
    found = dict(zip(nodes, session.run(None, {"a": a, "b": b, "k": k}), strict=True))
    for name, call in calls().items():
        wanted = call(a, b, k)
        np.testing.assert_allclose(
            found[name].reshape(wanted.shape), wanted, rtol=1e-9, atol=1e-9, err_msg=name
        )
        assert nodes[name].shape == (None, *wanted.shape[1:]), name
        assert nodes[name].ndim == wanted.ndim
        whole = name in ("places", "places of rows", "of whole numbers")
        assert nodes[name].dtype == (np.int64 if whole else np.float64), name


def test_equal_nodes_and_constants_are_one():
    pytest.importorskip("onnx")
    graph = graphs.Graph()
    a = graph.input("a", 2, np.float64)
    assert (a + 1.0) is (a + 1.0)
    assert (a + 1.0) is not (a + 2.0)
    assert (a + 1.0) is not (a * 1.0)
    assert a.sum(axis=1) is not a.sum(axis=1, keepdims=True)
    assert a[:, :1].name != a[:, 1:].name
    for refused, words in (
        (lambda: len(a), "the number of rows"),
        (lambda: np.asarray(a), "the numbers themselves"),
        (lambda: np.add.reduce(a), "add with reduce"),
        (lambda: np.add(a, 1.0, where=True), "add with where"),
        (lambda: np.tan(a), "tan"),
        (lambda: np.median(a), "median"),
        (lambda: a[:2, :], "slices of rows, and slices with a step"),
        (lambda: a[:, ::2], "slices of rows, and slices with a step"),
    ):
        with pytest.raises(TypeError, match=words):
            refused()
    np.testing.assert_equal(np.add(a, 1.0, out=a).name, (a + 1.0).name)
    assert a[:, :].name == a.name
    assert a.astype(np.float32).dtype == np.float32
    assert a.sq_norms().shape == (None,)


def test_what_is_said_of_models_without_a_graph(models, tmp_path):
    pytest.importorskip("onnx")
    path = tmp_path / "m.onnx"
    mixed = pd.DataFrame({"a": X[:, 0], "c": pd.Series(["x", 1] * 12, dtype=object).astype("category")})
    for model, words in (
        (
            kw.MKLRegressor([RBF()], alpha=0.1),
            r"must be a fitted estimator of kernelweave, got MKLRegressor\. Call fit",
        ),
        (StandardScaler(), r"`model` must be a fitted estimator of kernelweave, got StandardScaler\."),
        (models["stack"], r"Models of precomputed kernels have no ONNX form: new rows have no columns there"),
        (
            kw.MKLRegressor([RBF(), Categorical()], alpha=0.1).fit(mixed, Y),
            "'c' has numbers and texts as categories",
        ),
        (
            kw.MKLClassifier([RBF()], "uniform").fit(X, THREE).calibrate("isotonic", cv=2),
            r"Isotonic calibration has no ONNX form\. Use calibrate\('temperature'\) or calibrate\('platt'\)",
        ),
        (
            kw.MKLRegressor([kw.kernels.Custom(overlap)], alpha=0.1).fit(X, Y),
            r"The kernel '.*' has no ONNX form\. Save the model with kernelweave\.save instead\. It uses what graphs",
        ),
    ):
        with pytest.raises(InputError, match=words):
            kw.to_onnx(model, path)
    with pytest.raises(InputError, match="must name a file"):
        kw.to_onnx(models["regressor"], tmp_path)
    assert not path.exists()
    assert kw.to_onnx(models["regressor"], path) == path
