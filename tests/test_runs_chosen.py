"""Everything that settings of runs lead to, compared with what was read and recorded.

Modules: `runs/fitting`, `runs/kernels_of`, `runs/settings`, `runs/spec`, `runs/estimating`, `runs/recommending`,
`runs/questions`, `runs/writing`.
"""

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import kernelweave as kw
from kernelweave._declarations import Declared
from kernelweave._parameters import Flag, Number, OneOf, Shown, Whole
from kernelweave_app.runs import (
    estimating,
    fitting,
    recommending,
    settings,
)
from kernelweave_app.runs.joining import (
    Joined,
)
from kernelweave_app.runs.kernels_of import is_plain, known_kernels, make_kernels, parse_kernels
from kernelweave_app.runs.preparing import (
    prepare,
    split,
)
from kernelweave_app.runs.questions import grouped, preset_settings, question
from kernelweave_app.runs.recommending import recommend
from kernelweave_app.runs.scripts import code, settings_of
from kernelweave_app.runs.settings import merged_field, schema_of
from kernelweave_app.runs.spec import (
    Spec,
    applies,
    check_spec,
    chosen,
    divided_event,
    event_setting,
    in_words_of,
    inverted,
    label_of,
    marked,
    own_fields,
    parameter_of,
    read_spec,
)
from kernelweave_app.runs.writing import used_settings
from told import a_table, answer, asked

# ---- what is chosen ---------------------------------------------------------------------------------


def described(model):
    """An estimator with its parameters that are not the defaults."""
    return {
        "class": type(model).__name__,
        "kernels": f"{code(model.kernels):.200}",
        "learner": repr(model.learner),
        **{name: code(value) for name, value in settings_of(model)},
    }


def test_estimators_have_what_settings_ask_for(recorded):
    """Class, learner and all parameters of the estimators of runs."""
    answers = {}
    frame = a_table()
    survival = {"time": "days", "event": "died"}
    cases = {
        "plain classes": asked("class", seed=3),
        "plain numbers": asked("y", jobs=2, scoring="r2", gamma="4*median", intercept=False, rank_tol=0.1),
        "plain with params": asked("class", learner_params={"p": 3.0, "max_iter": 7}, balanced=True),
        "path of C": asked("class", Cs="0.1:10:3", cv=4, repeats=2, seed=5, rule="1se", jobs=3),
        "path of alpha": asked("y", method="rls2", alphas="0.5,2", splits="random", cv=4, standardize=False),
        "named": asked(
            "class", method="simple", Cs="7", normalize="none", class_weights="low=3", stratify=False
        ),
        "kernels": asked("y", kernels="linear; rbf(gamma=0.5)", normalize="cosine", max_memory="2GB"),
        "groups": asked("y", method="rls2", group="g", cv=3, missing="impute", missing_views="error"),
        "labels": asked("p,q", class_weights="p=2", kernels="linear", alphas="3"),
        "two numbers": asked(
            "y,z", targets="own", alphas="3", approximation="nystroem", n_features=9, seed=4
        ),
        "transductive": asked("y", kernels="linear", normalize="trace", transductive=True, missing="drop"),
        "within": asked("class", normalize="within-class", approximation="none"),
        "bank": asked("y", kernels="per-column", alphas="2", approximation="random-features"),
        "survival": asked("", **survival, ties="efron", Cs="0.5", scoring="concordance"),
        "survival of its own": asked("", **survival, method="uniform"),
        "survival with params": asked("", **survival, learner_params={"p": 1.5}),
    }
    for name, spec in cases.items():
        prepared = prepare(Joined(frame), spec)
        _, test = split(prepared, spec)
        found = described(fitting.make_model(spec, prepared, test))
        answers[name] = found
        alpha = 0.25
        stopped = described(fitting.make_model(spec, prepared, test, alpha))
        answers[f"{name}, stopped"] = {
            key: value for key, value in stopped.items() if value != found.get(key)
        }
        answers[f"{name}, in words"] = [
            fitting.describe_choice(spec, prepared.task),
            fitting.count_alphas(spec, prepared.task),
            fitting.fits_plainly(spec),
            fitting.unused_settings(chosen(spec, prepared.task)),
            fitting.path_setting(chosen(spec, prepared.task).method),
            ", ".join(used_settings(spec, prepared)),
            repr(fitting.calibration_cv(spec, several=bool(prepared.names))),
            prepared.said,
        ]
    recorded("answers", answers)


def test_settings_that_contradict_each_other_or_the_task(recorded):
    answers = {}
    frame = a_table()
    survival = {"time": "days", "event": "died"}
    cases = [
        asked("class", targets="own"),
        asked("y", balanced=True),
        asked("y", class_weights="a=1"),
        asked("y", probabilities="platt"),
        asked("y", ties="efron"),
        asked("y", jobs=0),
        asked("y", n_features=5),
        asked("y", transductive=True, normalize="cosine"),
        asked("y", transductive=True, normalize="trace", test_size=0),
        asked("y", method="rls2", alphas="x"),
        asked("class", balanced=True, class_weights="low=2"),
        asked("class", class_weights="low"),
        asked("class", class_weights="low=-1"),
        asked("class", class_weights="loww=1"),
        asked("p,q", class_weights="z=1"),
        asked("y", kernels="linnear"),
        asked("y", kernels=" ; "),
        asked("y", kernels={"one": "linear"}),
        asked("y", method="nothing"),
        asked("", **survival, method="rls2"),
        asked("", **survival, balanced=True),
        asked("", **survival, learner_params={"loss": "hinge"}, method="lp"),
        asked("", **survival, alphas="3"),
        asked("", **survival, nested=3),
        asked("", **survival, rule="1se"),
        asked("", **survival, intercept=False),
        asked("", **survival, Cs="1,2"),
        asked("", **survival, Cs="12"),
        asked("", **survival, probabilities="platt"),
        asked("y", group="g", method="rls2", repeats=2),
    ]
    for k, spec in enumerate(cases):
        prepared = prepare(Joined(frame), spec)
        _, test = split(prepared, spec)
        found = answer(fitting.make_model, spec, prepared, test)
        assert isinstance(found, str), spec
        answers[f"{k:02d}"] = re.sub(r"(?<=any loss, ).*(?=, got)", "...", found)
    texts = (
        "0",
        "1001",
        "1:2",
        "x",
        "0:1:3",
        "1:inf:3",
        "1,nan",
        "-1,2",
        "1e3",
        "2.5",
        " 7 ",
        "3:1:2",
        "5,,1",
    )
    for name in ("alphas", "Cs"):
        for text in texts:
            answers[f"{name}={text}"] = answer(fitting.parse_values, name, text)
    for text in ("0.5", "scale", "median", "2*scale", "2*1", "half", "x*median", "0", "median*2", ""):
        answers[f"gamma={text}"] = answer(fitting.parse_gamma, text)
    recorded("answers", answers)


def test_scores_that_cannot_be_computed_are_refused_before_a_fit(recorded):
    answers = {}
    frame = a_table()
    frame["rare"] = np.where(np.arange(30) < 4, "few", np.where(np.arange(30) % 2, "u", "v"))
    frame["seldom"] = (np.arange(30) < 2).astype(int)
    drop = ["y", "z", "class", "p", "q", "count", "days", "died", "w", "g", "rare", "seldom"]
    for target, scoring, more in (
        ("y", "accuracy", {}),
        ("y", "nothing", {}),
        ("y", "r3", {}),
        ("class", "roc_auc", {}),
        ("class", "average_precision", {}),
        ("class", "r2", {}),
        ("class", "neg_log_loss", {}),
        ("class", "accuracy", {}),
        ("rare", "roc_auc_ovr", {"method": "simple", "Cs": "3"}),
        ("rare", "neg_log_loss", {"method": "simple", "Cs": "3", "cv": 6, "stratify": False}),
        ("p,q", "roc_auc", {"alphas": "2"}),
        ("p,seldom", "roc_auc", {"alphas": "2", "method": "rls2"}),
        ("p,q", "balanced_accuracy", {"alphas": "2"}),
        ("y,z", "max_error", {"alphas": "2"}),
    ):
        spec = Spec(
            target=target, scoring=scoring, drop=[n for n in drop if n not in target.split(",")], **more
        )
        prepared = prepare(Joined(frame), spec)
        train, test = split(prepared, spec)
        model = fitting.make_model(spec, prepared, test)
        found = answer(fitting.check_scoring, model, prepared, train)
        # what scikit-learn says is its own
        answers[f"{target}, {scoring}"] = found and re.sub(r": [^:]*\. (?=Choose another,)", ": ... ", found)
    recorded("answers", answers)


def test_a_fit_gets_rows_weights_and_groups_of_its_part(monkeypatch):
    frame = a_table().assign(key=[f"p{k}" for k in range(30)])
    spec = asked("y", weights="w", group="g", kernels="linear", alphas="2", key="key")
    prepared = prepare(Joined(frame), spec)
    rows = np.array([4, 2, 9, 11, 20, 6, 1])
    seen = {}

    class Fake:
        scoring = None
        normalize = "center"

        def set_callbacks(self, *given):
            seen.setdefault("callbacks", []).append(given)

        def fit(self, X, y, **more):
            seen.update(X=X, y=y, **more)
            return self

    fake = Fake()
    assert fitting.fit_model(fake, prepared, rows, "bar") is fake
    pd.testing.assert_frame_equal(seen["X"], frame[["a", "b", "site"]].iloc[rows])
    np.testing.assert_array_equal(seen["y"], frame["y"].iloc[rows])
    np.testing.assert_array_equal(seen["sample_weight"], frame["w"].iloc[rows])
    np.testing.assert_array_equal(seen["groups"], frame["g"].iloc[rows])
    assert seen["callbacks"] == [("bar",), ()]
    seen.clear()
    bare = asked("y,z", kernels="linear", alphas="2")
    fitting.fit_model(Fake(), prepare(Joined(frame.drop(columns="key")), bare), rows, None)
    assert (seen["sample_weight"], "groups" in seen, list(seen["y"])) == (None, False, ["y", "z"])
    assert seen["callbacks"] == [()]
    # probabilities are learnt with the groups of the rows that have a weight
    zero = prepared.weights.copy()
    zero[[2, 20]] = 0.0

    class Calibrated:
        def calibrate(self, method, *, cv, groups):
            seen.update(method=method, cv=cv, own=groups)

    likely = asked("class", probabilities="isotonic", group="g", cv=3)
    fitting.calibrate_model(Calibrated(), likely, dataclasses.replace(prepared, weights=zero), rows)
    assert (seen["method"], seen["cv"]) == ("isotonic", 3)
    assert seen["own"].tolist() == frame["g"][[4, 9, 11, 6, 1]].tolist()
    seen.clear()
    fitting.calibrate_model(Calibrated(), asked("class"), prepared, rows)
    stopped = Calibrated()
    stopped._interrupted, stopped.alpha_ = True, 2
    assert fitting.stopped_at(stopped) == 2.0
    fitting.calibrate_model(stopped, likely, prepared, rows)
    assert seen == {}


def test_kernels_of_a_spec(recorded):
    answers = {}
    from scipy import sparse

    frame = a_table()
    frame["note"] = [
        f"a patient with {word} and more words of no use" for word in ("pain", "fever", "rest") * 10
    ]
    drop = ["y", "z", "class", "p", "q", "count", "days", "died", "w", "g"]
    words = sparse.csr_array(np.eye(30)[:, :4])
    alone, typed = {}, {"types": "note=text"}
    beside = {"sparse": {"words": words}}
    cases = {
        "plain": (alone, {}),
        "bank": (alone, {"kernels": "Linear-Features"}),
        "named": (alone, {"kernels": "rbf"}),
        "several": (alone, {"kernels": "linear; rbf(gamma=0.5) ;poly(degree=2)"}),
        "views": (alone, {"views": {"one": ["a", "site"], "two": "b"}, "kernels": "linear"}),
        "plain views": (alone, {"views": {"one": ["a"], "two": ["b", "note"]}, **typed}),
        "some views": (
            alone,
            {"views": {"one": ["a"], "two": ["b", "note"]}, "kernels": {"one": "rbf"}, **typed},
        ),
        "beside sparse rows": (beside, {"kernels": {"words": "linear", "table": "linear; chars"}, **typed}),
        "plain beside them": (beside, {}),
        "all beside them": (beside, {"kernels": "linear; rbf(gamma=0.5)", "standardize": False}),
        "unknown view": (alone, {"views": {"one": ["a"]}, "kernels": {"two": "rbf"}}),
        "bank of views": (alone, {"views": {"one": ["a"]}, "kernels": "rkl"}),
        "text view": (
            beside,
            {"views": {"notes": "note", "rest": ["a", "b"]}, "kernels": "linear; words", **typed},
        ),
    }
    for name, (more, given) in cases.items():
        spec = Spec(target="y", drop=drop[1:], **given)
        prepared = prepare(Joined(frame, **more), spec)
        found = answer(make_kernels, spec, prepared)
        told = found if isinstance(found, str | None) else None
        if isinstance(found, list):
            told = [[repr(one), one.columns, one.view] for one in found]
        elif isinstance(found, dict):
            told = {view: None if own is None else [repr(one) for one in own] for view, own in found.items()}
        elif not isinstance(found, str | None):
            told = [type(found).__name__, found.columns]
        answers[name] = told
        if not isinstance(found, str):
            answers[f"{name}, known"] = [one.label for one in known_kernels(found, prepared.X, "regression")][
                -4:
            ]
            assert is_plain(found) == name.startswith("plain")
    assert parse_kernels("linear;;rbf")[1] == kw.kernels.parse("rbf")
    # cells that are missing do not keep kernels from being known
    holes = frame[["a", "b"]].assign(a=frame["a"].where(frame.index > 3))
    answers["holes"] = [one.label for one in known_kernels(None, holes, "regression")]
    recorded("answers", answers)


# ---- settings ---------------------------------------------------------------------------------------


def test_fields_of_every_run(recorded):
    answers = {}
    for name, one in own_fields().items():
        answers[name] = [one.label, one.group, one.kind, one.several]
        assert (one.flag, one.learners, one.unit) == (f"--{name.lower().replace('_', '-')}", (), "")
        assert one.default == Spec.model_fields[name].default
        told = {"title": one.label, "description": one.help, "minimum": one.least, "maximum": one.most}
        told["enum"] = list(one.choices) if name != "method" and one.choices else None
        types = {"number": "number", "whole number": "integer", "yes/no": "boolean"}
        told["type"] = types.get(one.kind, "string")
        assert schema_of(one) == {key: value for key, value in told.items() if value is not None}
    answers["brief"] = marked("brief")
    assert {"target", "views", "kernels", "types"} < set(marked("of_table"))
    assert not {"cv", "method", "join", "seed"} & set(marked("of_table"))
    assert marked("nothing") == []
    recorded("answers", answers)


def test_the_schema_of_settings_has_their_fields():
    schema = Spec.model_json_schema()
    properties = schema["properties"]
    assert list(properties) == list(Spec.model_fields)
    assert schema["description"].startswith("The settings of a run")
    assert schema["additionalProperties"] is False
    for name, one in own_fields().items():
        own = properties[name]
        assert (own["title"], own["description"]) == (one.label, one.help)
        assert (own.get("minimum"), own.get("maximum")) == (one.least, one.most)
    params = properties["learner_params"]
    assert params["title"] == "Parameters of the learner"
    assert params["description"].startswith("Parameters of the learner other than the defaults")
    assert params["additionalProperties"] is False
    assert params["properties"].keys() == settings.learner_settings().keys()
    one = merged_field("p", settings.learner_settings()["p"])
    assert params["properties"]["p"] == schema_of(one)


def test_a_field_of_several_learners_says_what_each_admits(recorded):
    """Ranges hold what any of them takes; meanings and limits stand beside the learners that have them."""

    answers = {}

    def one(rule, default, *, about="Meaning.", unit="", label="", help=""):
        return Declared("tau", rule, Shown(label, help=help, unit=unit), "float", about, default)

    number, whole = Number(least=0.0, most=2.0), Whole(1, 9)
    choices = OneOf("fast", "safe", None)
    sets = {
        "alike": {"lp": one(number, 1.0), "simple": one(number, 1.0)},
        "wider": {"lp": one(number, 1.0, unit="s"), "simple": one(Number(least=0.5, most=4.0), 0.5)},
        "open": {"lp": one(number, 1.0), "simple": one(Number(above=0.0), 3.0)},
        "two meanings": {"lp": one(number, 1.0), "simple": one(number, 1.0, about="Another.", help="Or so.")},
        "two limits": {"lp": one(number, 1.0), "simple": one(number, 2.0)},
        "kinds": {"lp": one(number, 1.0, label="Tau"), "simple": one(choices, "fast")},
        "choice": {"lp": one(choices, None), "simple": one(OneOf("fast", "best"), "best")},
        "whole": {"lp": one(whole, 3), "simple": one(Whole(2, 30), 3)},
        "no rule": {"lp": one(None, None)},
        "flag": {"lp": one(Flag(), True)},
    }
    for name, of in sets.items():
        field = merged_field("tau", of)
        answers[name] = field
        answers[f"{name}, alone"] = merged_field("tau", {"lp": of["lp"]}, told=False)
        assert schema_of(field)["description"] == field.help
        answers[f"{name}, limits"] = [settings.limit(each) for each in of.values()]
    values = (1, 2.5, "fast", "", None, True)
    for name in ("wider", "choice", "whole", "flag", "no rule", "kinds"):
        for value in values:
            found = [
                answer(settings.written, sets[name], value),
                answer(settings.written, sets[name], value, "simple"),
            ]
            answers[f"{name}={value!r}"] = [
                *found,
                *(settings.takes(each, value) for each in sets[name].values()),
            ]
    assert settings.alike(one(number, 1.0), one(Number(least=0.0, most=2.0), 0.3))
    assert not settings.alike(one(number, 1.0), one(Number(least=0.0, most=3.0), 1.0))
    assert not settings.alike(one(None, 1.0), one(None, 1.0))
    assert not settings.alike(one(number, 1.0), one(None, 1.0))
    recorded("answers", answers)


def test_settings_that_another_learner_keeps(recorded):
    answers = {}
    given = {"p": 1.5, "max_iter": 40, "relax": "auto", "unknown": 3, "tol": 1e-5, "eta": 0.5, "C": 2.0}
    for old, new in (
        ("lp", "simple"),
        ("simple", "rls2"),
        ("rls2", "lp"),
        ("gone", "lp"),
        ("lp", "elastic-net"),
    ):
        answers[f"{old} to {new}"] = [settings.kept(given, old, new), answer(settings.settled, new, given)]
    answers["effective"] = settings.effective("lp", {"p": 1.5, "max_iter": None})
    assert list(settings.learner_fields("lp")) == list(settings.learner_of("lp").settings())
    one = settings.learner_fields("lp")["p"]
    assert (one.learners, one.group) == (("lp",), "Learner")
    for name, of in settings.learner_settings().items():
        assert all(learner in kw.learners.LEARNERS and one.setting == name for learner, one in of.items())
    recorded("answers", answers)


def test_settings_are_read_and_refused_in_words(recorded, tmp_path):
    answers = {}
    wrong = [
        {"cv": 1},
        {"cv": "five"},
        {"nothing": 1},
        {"target": 3},
        {"target": ["a", 3]},
        {"test_size": 1.0},
        {"test_size": float("nan")},
        {"seed": -1},
        {"missing": "forget"},
        {"views": {"one": [1]}},
        {"kernels": {"one": 1}},
        {"types": {"a": "numbers"}},
        {"learner_params": {"p": "x"}},
        {"learner_params": {"nothing": 1}},
        {"learner_params": {"p": [1]}},
        {"method": "simple", "learner_params": {"p": 0.5}},
        {"method": "elastic-net", "learner_params": {"tol": -1.0}},
        {"ties": "exact"},
        {"alphas": "x" * 20_001},
        {"n_features": 1.5},
    ]
    for k, values in enumerate(wrong):
        found = answer(check_spec, values)
        assert isinstance(found, str), values
        # what pydantic says is its own
        found = re.sub(r"(Setting `\S+`: ).*(?=, got)", r"\1...", found)
        answers[f"{k:02d}"] = [in_words_of(place, found)[7:110] for place in ("file", "options", "form")]
    words = "Setting `Cs` is `wrong`. Pass --cs 3. Or `seed`."
    answers["form"] = in_words_of("form", words)
    answers["only typed"] = in_words_of("form", "Pass --cs 3.")
    answers["python"] = in_words_of("form", "Too many rows. Call kw.load first. See kernelweave.learners_of.")
    read = check_spec({"target": ["a", "b"], "views": {"one": "a*"}, "holdout_values": ["", "x"]})
    assert (read.target, read.views, read.holdout_values) == ("a,b", {"one": ["a*"]}, ["", "x"])
    path = tmp_path / "spec.toml"
    path.write_text('table = "t.csv"\ntarget = "y"\ncv = 3\n')
    assert read_spec(path) == {"target": "y", "cv": 3}
    path.write_text("cv = ")
    assert re.fullmatch(r"error: .*spec\.toml cannot be read as TOML: .+\.", answer(read_spec, path))
    assert answer(read_spec, tmp_path / "gone.toml") == f"error: There is no file {tmp_path / 'gone.toml'}."
    for text in ("status", "status=2", 'cause=stroke, "a, b",', " x = 1 ", "=3", "a=b=c"):
        answers[f"event {text}"] = divided_event(text)
    for values in ([], ["2"], ["a, b", "c"], ['"x"']):
        answers[f"event of {values}"] = event_setting("cause", values)
        assert divided_event(event_setting("cause", values)) == ("cause", values)
    for text in ("0.01:10:7", "1,0.1", "0.1", "12", "4.0", "0,1", "x", "", " 2 , 4,", "1:2", "5,"):
        answers[f"inverse of {text}"] = inverted(text)
    assert [parameter_of(name) for name in ("lp", "rls2", "default", 3)] == ["C", "alpha", "", ""]
    for spec in (
        Spec(time="days"),
        Spec(event="died"),
        Spec(time="d", event="e=1,2"),
        Spec(target="y"),
        Spec(time=" "),
    ):
        answers[f"{spec.time}/{spec.event}"] = [spec.survival, spec.predicted]
    for name in ("cv", "Cs", "learner_params", "p", "not_there"):
        answers[f"label of {name}"] = label_of(name)
    recorded("answers", answers)


def test_fields_that_do_something(recorded):
    answers = {}
    specs = {
        "plain": Spec(target="y"),
        "joined": Spec(target="y", join="b.csv", holdout="part", group="g"),
        "key": Spec(target="y", key="k", approximation="nystroem"),
        "survival": Spec(time="t", event="e"),
        "features": Spec(target="y", approximation="random-features", method="lp"),
    }
    fields = {**own_fields(), "p": merged_field("p", settings.learner_settings()["p"])}
    for name, spec in specs.items():
        for task in ("", "classification", "regression"):
            answers[f"{name}, {task}"] = [
                key for key, field in fields.items() if not applies(field, spec, task)
            ]
    recorded("answers", answers)


def test_kept_fields_are_those_that_are_made(tmp_path, monkeypatch):
    from kernelweave_app.runs import spec as module

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert module.kept_fields() == tmp_path / "kernelweave" / "fields.json"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert module.kept_fields() == tmp_path / "home" / ".cache" / "kernelweave" / "fields.json"
    count, size, latest, _ = module._state_of_package()
    files = [*Path(kw.__file__).parent.rglob("*.py"), Path(module.__file__)]
    stats = [file.stat() for file in files]
    assert (count, size) == (len(files), sum(one.st_size for one in stats))
    assert latest == max(one.st_mtime_ns for one in stats)


# ---- before a fit -----------------------------------------------------------------------------------


class Work:
    """A model whose fit takes a time of its own, in steps that are reported; the clock is here."""

    def __init__(self, power, unit, steps, kernels=5, fails=0):
        self.power, self.unit, self.steps, self.kernels, self.fails = power, unit, steps, kernels, fails
        self.now, self.fits = 0.0, []

    def __call__(self):
        return self.now

    def fit(self, model, prepared, rows, watch):
        self.fits.append(len(rows))
        if len(self.fits) <= self.fails:
            raise kw.InputError("too few rows")
        watch.setup(None, SimpleNamespace(max_subtasks=self.steps or None))
        for k in range(self.steps or 1):
            self.now += self.unit * len(rows) ** self.power / (self.steps or 1)
            if watch.on_fit_task_end(None, SimpleNamespace(parent=None if k == 0 else 1)):
                raise KeyboardInterrupt
        watch.teardown(None, None)
        return SimpleNamespace(n_kernels_=self.kernels)


def test_time_before_a_fit_in_full(recorded, monkeypatch):
    answers = {}
    n = 4000
    frame = pd.DataFrame({"a": np.cos(np.arange(n)), "y": ["u", "v", "v"] * (n // 3) + ["u"]})
    cases = {
        "quick": (Work(1.5, 1e-7, 0), {}, 6.0),
        "grows": (Work(2.5, 1e-8, 0), {}, 6.0),
        "steps": (Work(2.0, 2e-5, 40), {"nested": 3}, 6.0),
        "too slow": (Work(1.0, 0.1, 20), {"probabilities": "platt"}, 2.0),
        "flat": (Work(0.0, 0.05, 5), {}, 6.0),
        # what all fits took counts: one more would not fit in
        "together": (Work(1.0, 0.001724, 0), {}, 6.0),
        "fails": (Work(1.5, 1e-6, 4, fails=2), {"cv": 20}, 6.0),
        "memory": (Work(1.5, 1e-7, 0, kernels=9), {"max_memory": "1e6"}, 6.0),
    }
    for name, (work, given, budget) in cases.items():
        monkeypatch.setattr(estimating, "fit_model", work.fit)
        spec = Spec(target="y", test_size=0.25, **given)
        found = estimating.estimate_fit(spec, prepare(Joined(frame), spec), budget=budget, clock=work)
        answers[name] = [found, work.fits, found.said(), found.sure()]
    small = Work(1.0, 1e-2, 4)
    monkeypatch.setattr(estimating, "fit_model", small.fit)
    spec = Spec(target="y", test_size=0)
    for size in (50, 61, 181):
        found = estimating.estimate_fit(spec, prepare(Joined(frame[:size]), spec), clock=small)
        answers[f"{size} rows"] = [found, small.fits, found.said(), found.sure()]
    never = Work(1.0, 1e-2, 4, fails=99)
    monkeypatch.setattr(estimating, "fit_model", never.fit)
    with pytest.raises(kw.InputError, match=r"^too few rows$"):
        estimating.estimate_fit(spec, prepare(Joined(frame[:100]), spec), clock=never)
    assert never.fits == [60, 100]

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(estimating, "fit_model", stopped)
    with pytest.raises(KeyboardInterrupt):
        estimating.estimate_fit(spec, prepare(Joined(frame[:100]), spec), clock=never)
    likely = Spec(probabilities="platt")
    assert estimating.fits_of(likely, "regression", 1.0) == estimating.fits_of(Spec(), "regression", 1.0)
    assert estimating.fits_of(likely, "classification", 1.0) > estimating.fits_of(
        Spec(), "classification", 1.0
    )
    times = asked("", time="days", event="died", cv=4)
    for spec, task in (
        (times, "survival"),
        (Spec(nested=3, method="rls2"), "regression"),
        (Spec(), "classification"),
    ):
        answers[f"fits of {task}"] = [estimating.fits_of(spec, task, power) for power in (0.5, 2.0)]
    recorded("answers", answers)


def test_recommendations_in_full(recorded):
    answers = {}
    frame = a_table(40)
    rare = frame.assign(
        kind=np.where(np.arange(40) % 10 == 0, "rare", "usual"), patient=[f"p{k}" for k in range(40)]
    )
    named = pd.DataFrame(
        {
            f"{view}_{k}": np.cos(np.arange(40) * (k + i))
            for i, view in enumerate(("gene", "site"), 2)
            for k in (1, 2)
        }
    )
    drop = ["y", "z", "class", "p", "q", "count", "days", "died", "w", "g"]
    cases = {
        "classes": (Joined(frame), asked("class"), "predict"),
        "numbers": (Joined(frame), asked("y", test_size=0, method="lp", Cs="3", nested=4), "predict"),
        "holes": (
            Joined(rare.assign(a=rare["a"].where(rare.index > 2))),
            Spec(target="kind", drop=drop),
            "predict",
        ),
        "given": (
            Joined(rare),
            Spec(target="kind", drop=drop, class_weights="rare=2", kernels="linear"),
            "predict",
        ),
        "three times": (
            Joined(rare.assign(kind=["a"] * 10 + ["b"] * 30)),
            Spec(target="kind", drop=[*drop, "patient"], test_size=0),
            "predict",
        ),
        "labels": (Joined(frame), asked("p,q"), "predict"),
        "sources": (Joined(named.assign(y=frame["y"])), Spec(target="y"), "sources"),
        "views": (
            Joined(named.assign(y=frame["y"])),
            Spec(target="y", views={"one": "gene*", "two": "site*"}),
            "columns",
        ),
        "columns": (Joined(frame), asked("class"), "columns"),
        "deep": (Joined(frame), asked("y"), "deep"),
        "few": (Joined(frame), asked("y", kernels="linear; rbf"), "few"),
        "closed": (Joined(frame), asked("class", balanced=True), "closed"),
        "many columns": (
            Joined(
                pd.DataFrame(np.cos(np.outer(np.arange(12), np.arange(1, 202))))
                .rename(columns="c{}".format)
                .assign(y=frame["y"][:12])
            ),
            Spec(target="y", test_size=0),
            "columns",
        ),
        "lacking views": (
            Joined(
                named.assign(
                    y=frame["y"],
                    gene_1=named["gene_1"].where(frame.index > 0),
                    gene_2=named["gene_2"].where(frame.index > 0),
                ),
                {"gene": ["gene_1", "gene_2"], "site": ["site_1", "site_2"]},
            ),
            Spec(target="y", missing_views="error"),
            "predict",
        ),
        "survival": (Joined(frame), asked("", time="days", event="died"), "predict"),
        "one row": (
            Joined(frame.assign(kind=["a"] * 39 + ["b"])),
            Spec(target="kind", drop=drop, test_size=0),
            "predict",
        ),
        "unknown": (Joined(frame), asked("y"), "predictt"),
    }
    for name, (data, spec, about) in cases.items():
        found = answer(recommend, data, spec, about)
        if isinstance(found, str):
            answers[name] = found
            continue
        changed = {
            key: value for key, value in found.spec.model_dump().items() if getattr(spec, key) != value
        }
        advice = [[one.setting, one.value, one.why] for one in found.advice]
        answers[name] = [found.question.name, found.facts, advice, changed, found.method, found.warnings]
    limits = SimpleNamespace(
        rows=recommending.TOO_MANY_ROWS,
        tiles=recommending.TOO_MANY_TILES,
        few=Spec(),
        some=prepare(Joined(frame), asked("y")),
    )
    for n in (limits.tiles, limits.tiles + 1, limits.rows + 1):
        for memory in ("1GB", "9e13"):
            answers[f"{n} rows, {memory}"] = recommending._features(Spec(max_memory=memory), limits.some, n)
    assert (
        recommending._features(Spec(approximation="none", max_memory="1GB"), limits.some, limits.rows + 1)
        == ""
    )
    # a plain fit stays one, but for papers
    for preset in ("quick", "careful"):
        plain = Spec(**preset_settings(preset, "default"))
        assert fitting.fits_plainly(plain)
        assert (
            plain.nested == Spec(**preset_settings(preset, "lp")).nested == (5 if preset == "careful" else 0)
        )
    assert preset_settings("paper", "default") == preset_settings("paper", "lp")
    assert "Unknown preset" in answer(preset_settings, "slow", "lp")
    assert [name for one, names in grouped(survival=True) for name in names][:2] == ["default", "simple"]
    for one, names in grouped():
        assert question(one.name) is one if one.name != "others" else True
        assert names[0] == one.usual or one.name == "others"
    recorded("answers", answers)
