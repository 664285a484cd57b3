"""A parameter is declared once: everything that people see of it follows from the constructor and its docstring.

Modules: `_declarations`, `_parameters`, `_docstrings`, `_errors`, `_forms`, `_lazy`, `learners/base`.
"""

import importlib
import inspect
import pickle
import pkgutil
import re
import sys
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

pytest.importorskip("cyclopts")
pytest.importorskip("pydantic")

import kernelweave as kw
from kernelweave import _allowance
from kernelweave._declarations import USUAL, Declared, declared
from kernelweave._docstrings import (
    InheritedTexts,
    inherits_attributes,
    inherits_parameters,
    read_docstring,
    texts_of,
)
from kernelweave._forms import ShortRepr, names_in, numbered, shown
from kernelweave._parameters import (
    Choice,
    Each,
    Flag,
    Function,
    InstanceOf,
    MaxTime,
    Number,
    OneOf,
    Shown,
    Switch,
    Text,
    Texts,
    Unfit,
    Whole,
    checked,
    renamed,
    rules_of,
    said,
    unchecked,
    with_present_names,
)
from kernelweave.kernels.base import KERNELS
from kernelweave.learners import LEARNERS, Uniform
from kernelweave.learners import base as learners_base
from kernelweave.learners.base import Registry
from kernelweave.learners.solving import CostLearner, MarginLearner
from kernelweave.machines.losses import EpsilonInsensitive, Hinge, Squared, SquaredHinge
from kernelweave.mkl.weight_sets import CappedSimplex
from kernelweave.normalizers import NORMALIZERS
from recording import outcome, told


@pytest.fixture
def tilted():
    """A learner more, as a user writes it."""

    class Tilted(Uniform):
        """Uniform weights with a tilt: a learner of this test.

        Minimises nothing beyond the machine.

        Parameters
        ----------
        tilt
            How far the plane leans.
        mood
            What it leans by.

        References
        ----------
        A. Tester, On tilted planes, Journal of Tests 7 (2031).
        """

        name = "tilted"

        tilt: Annotated[float, Number(least=0, most=3), Shown("Lean of the plane", unit="degrees")] = 0.25
        mood: Annotated[str, OneOf("calm", "bold")] = "calm"

    yield Tilted
    del LEARNERS["tilted"]


@pytest.fixture
def table(tmp_path, rng):
    X = rng.normal(size=(30, 2))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=np.where(X[:, 0] > 0, "u", "v"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    return str(tmp_path / "t.csv")


# ---- a new row is seen everywhere -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("tilted")
def test_the_command_line_offers_the_parameter_of_a_new_learner(capsys, monkeypatch):
    from kernelweave_app.cli import main

    monkeypatch.setenv("COLUMNS", "200")
    assert main(["fit", "--help-all"]) == 0
    text = " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    assert (
        "--tilt FLOAT tilted: How far the plane leans. [a number >= 0 and <= 3; in degrees; default 0.25]"
        in text
    )
    assert "--mood STR tilted: What it leans by. [calm | bold; default calm]" in text
    assert "deep-uniform, tilted." in text


@pytest.mark.full
@pytest.mark.usefixtures("tilted")
def test_a_run_of_a_new_learner_leaves_its_parameter_in_every_file(table, tmp_path, capsys, monkeypatch):
    from kernelweave import persistence
    from kernelweave_app.cli import main

    # model files hold classes of this package only
    monkeypatch.setattr(persistence, "save", lambda model, path, **_: path.write_bytes(b""))
    fit = ["fit", table, "--target", "y", "--kernels", "linear", "--cs", "2", "--cv", "2"]
    asked = ["--learner", "tilted", "--tilt", "0.75"]
    assert main([*fit, "--learner", "tilted", "--tilt", "7", "--out", str(tmp_path / "no")]) == 2
    assert "--tilt must be a number >= 0 and <= 3, got 7.0." in capsys.readouterr().err
    run = tmp_path / "run"
    assert main([*fit, *asked, "--out", str(run)]) == 0
    assert "[learner_params]\ntilt = 0.75\n" in (run / "spec.toml").read_text()
    assert (
        "learner = kw.learners.Tilted(C=1.0, epsilon=0.1, loss='auto', max_time=None, mood='calm', tilt=0.75, "
        "tol=1e-08)" in (run / "script.py").read_text()
    )
    report = (run / "report.html").read_text()
    assert "<td>Lean of the plane, degrees</td><td>0.75</td><td>How far the plane leans.</td>" in report
    assert "<td>Mood</td><td>calm</td>" in report
    assert "<p>A. Tester, On tilted planes, Journal of Tests 7 (2031).</p>" in report
    # the settings of a run make the same run again
    assert main(["fit", table, "--spec", str(run / "spec.toml"), "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "script.py").read_text() == (run / "script.py").read_text()


@pytest.mark.usefixtures("tilted")
def test_the_studio_has_a_field_for_a_new_learner():
    pytest.importorskip("fastapi")
    from kernelweave_app.runs.spec import label_of, spec_fields
    from kernelweave_app.studio.methods import methods

    method = next(m for m in methods() if m.name == "tilted")
    assert (method.title, method.summary) == ("Tilted", "Uniform weights with a tilt: a learner of this test")
    assert method.reference == "A. Tester, On tilted planes, Journal of Tests 7 (2031)."
    field = next(f for f in method.fields if f.name == "tilt")
    assert (field.label, field.unit, field.kind) == ("Lean of the plane", "degrees", "number")
    assert (field.least, field.most, field.default) == (0, 3, 0.25)
    assert field.help == "How far the plane leans."
    mood = next(f for f in method.fields if f.name == "mood")
    assert (mood.kind, mood.choices, mood.default) == ("choice", ("calm", "bold"), "calm")
    assert {"tilt", "mood"} <= set(spec_fields())
    assert label_of("tilt") == "Lean of the plane"


@pytest.mark.usefixtures("tilted")
def test_the_schema_of_the_api_knows_a_new_learner():
    from kernelweave_app.runs.spec import Spec

    known = Spec.model_json_schema()["properties"]["learner_params"]["properties"]
    assert known["tilt"]["title"] == "Lean of the plane"
    assert (known["tilt"]["type"], known["tilt"]["minimum"], known["tilt"]["maximum"]) == ("number", 0, 3)
    assert known["mood"]["enum"] == ["calm", "bold"]


def test_values_to_choose_from_are_listed_in_words():
    assert OneOf("a").words() == "'a'"
    assert OneOf("a", "b").words() == "'a' or 'b'"
    assert OneOf(1, "b", "c", None).words() == "1, 'b', 'c' or None"


@pytest.mark.usefixtures("tilted")
def test_a_page_keeps_what_the_next_learner_takes_in_the_same_way(tmp_path):
    pytest.importorskip("nicegui")
    from kernelweave_app.runs.settings import kept
    from kernelweave_app.studio.pages.desk import Desk
    from kernelweave_app.studio.service import Studio

    studio = Studio(tmp_path)
    try:
        desk = Desk(studio)
        desk.set(method="tilted")
        desk.set_param("tilt", 1.5)
        desk.set_param("tol", 1e-3)
        with pytest.raises(kw.InputError, match="`mood` must be 'calm' or 'bold'"):
            desk.set_param("mood", "sad")
        assert Desk(studio).spec.learner_params == {"tilt": 1.5, "tol": 1e-3}
        # two windows: each writes what it has changed
        other = Desk(studio)
        desk.set_param("tilt", None)
        other.set_param("mood", "bold")
        assert studio.draft().spec.learner_params == {"tol": 1e-3, "mood": "bold"}
    finally:
        studio.store.close()
    given = {"solver": "newton", "tol": 1e-3, "theta": 0.3, "norm": "none"}
    assert kept(given, "rls2", "simple") == {"tol": 1e-3, "theta": 0.3, "norm": "none"}
    assert kept(given, "rls2", "kl-c") == {"tol": 1e-3, "theta": 0.3}


# ---- declarations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classes",
    [
        LEARNERS,
        KERNELS,
        NORMALIZERS,
        {name: getattr(kw, name) for name in kw.__all__ if name.startswith("MKL")},
    ],
    ids=["learners", "kernels", "normalizers", "estimators"],
)
def test_defaults_are_what_their_rules_make_of_them(classes):
    # values that are defaults are not read by their rules again
    for name in classes:
        for own, rule in rules_of(classes[name]).items():
            default = getattr(classes[name], own, None)
            if hasattr(classes[name], own):
                found = rule.read(default)
                assert (type(found), found) == (type(default), default), (name, own)


def test_every_parameter_of_every_learner_is_explained():
    for name, learner in LEARNERS.items():
        for setting, one in learner.settings().items():
            assert one.rule is not None, (name, setting)
            assert len(one.about.split()) > 1, (name, setting)
            assert not one.about.startswith("See "), (name, setting)
            # what a form shows first is what the learner takes
            assert one.settle(said(one.default)) in (one.default, USUAL), (name, setting)
        needs_none = name in ("uniform", "best", "deep-uniform")
        assert bool(learner.reference()) != needs_none, name


@pytest.mark.parametrize(
    ("rule", "text", "value"),
    [
        (Number(least=0), "1e-3", 1e-3),
        (Whole(1), "7", 7),
        (Flag(), "yes", True),
        (Flag(), "False", False),
        (OneOf(1, 2, None), "2", 2),
        (OneOf(1, 2, None), "None", None),
        (Text(), "cuda", "cuda"),
        (OneOf("auto") | Number(above=0) | None, "auto", "auto"),
        (OneOf("auto") | Number(above=0) | None, "0.5", 0.5),
        (OneOf("auto") | Number(above=0) | None, "none", None),
    ],
)
def test_texts_are_read_as_people_write_them(rule, text, value):
    found = rule.parse(text)
    assert (found, type(found)) == (value, type(value))
    assert rule.parse(said(value)) == value


@pytest.mark.parametrize(("rule", "text"), [(Number(least=0), "many"), (Whole(1), "1.5"), (Flag(), "1")])
def test_other_texts_are_refused(rule, text):
    with pytest.raises(Unfit):
        rule.parse(text)


def test_a_field_takes_what_its_rule_takes():
    assert isinstance(Whole(1) | None, Choice)
    assert (Whole(1) | None).form() == Whole(1).form()
    assert (OneOf("auto") | Number(above=0)).form().kind == "text"
    assert OneOf(1, None).form().choices == ("1", "none")


def test_the_declaration_that_is_nearest_to_the_parameter_counts(tilted):
    own = declared(tilted)
    assert own["tol"].label == "Relative gap"
    assert own["C"].default == 1.0
    assert declared(LEARNERS["dmkl"])["kernels"].about == declared(LEARNERS["mlmkl"])["kernels"].about
    assert declared(LEARNERS["dmkl"])["smoothing"].label == "Smoothing of the span"


def test_docstrings_are_taken_apart():
    doc = read_docstring(
        """One line
        and a second.

        Then ``more``::

            a = 1

        Parameters
        ----------
        a, b : int or "x", default=3
            Of :class:`kernelweave.weight_sets.Simplex`, *both*.
        c
            See [1]_.

        References
        ----------
        .. [1] Someone.
        """
    )
    assert doc.summary == "One line and a second."
    assert doc.text.endswith("    a = 1")
    assert doc.parameters["b"].kind == 'int or "x"'
    assert doc.parameters["a"].about == "Of Simplex, both."
    assert (doc.parameters["c"].kind, doc.parameters["c"].about) == ("", "See .")
    assert read_docstring(None).parameters == {}


# ---- one file for a learner -----------------------------------------------------------------------------------------


@pytest.fixture
def ruled():
    """A learner with a problem of its own, and one with a rule for weights."""

    class Capped(MarginLearner):
        """No kernel has more than a share of the weights."""

        name = "capped"

        share: Annotated[float, Number(above=0, most=1)] = 0.5
        tol = 1e-7

        def problem(self, kernels, y):
            return self.joint(kernels, y, CappedSimplex(max(self.share, 1.0 / kernels.n_kernels)))

    class Stated(MarginLearner):
        """A problem of the library's public face."""

        name = "stated"

        def problem(self, kernels, y):
            return kw.Problem(
                kernels, y, loss=self.loss_for(True), weights=kw.weight_sets.LpBall(2.0), C=self.C
            )

    class First(MarginLearner):
        """The first kernel."""

        name = "first"

        def learn(self, output):
            return output.at(np.eye(output.gram.n_kernels)[0])

    yield Capped, First
    for name in ("capped", "first", "stated"):
        del LEARNERS[name]


def test_a_learner_of_one_class_fits_by_object_and_by_name(ruled, rng):
    capped, _ = ruled
    X = rng.normal(size=(40, 4))
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=40)
    bank = kw.banks.linear_features(4)
    for estimator, target in ((kw.MKLClassifier, y > 0), (kw.MKLRegressor, y)):
        by_name = estimator(bank, "capped").fit(X, target)
        by_object = estimator(bank, capped(share=0.5)).fit(X, target)
        known = estimator(bank, kw.learners.SoftMarginMKL(theta=0.5, tol=1e-7)).fit(X, target)
        assert by_name.weights_.max() <= 0.5 + 1e-9
        np.testing.assert_array_equal(by_name.weights_, by_object.weights_)
        np.testing.assert_allclose(by_name.weights_, known.weights_, atol=1e-6)
        np.testing.assert_array_equal(estimator(bank, "first").fit(X, target).weights_, [1.0, 0.0, 0.0, 0.0])
        assert by_name.set_params(learner__share=0.25).learner.share == 0.25
    stated = kw.MKLClassifier(bank, "stated", C=3.0).fit(X, y > 0)
    known = kw.MKLClassifier(bank, "lp", C=3.0).fit(X, y > 0)
    np.testing.assert_allclose(stated.weights_, known.weights_, atol=1e-7)
    path = kw.MKLClassifierCV(bank, "capped", Cs=[0.1, 1.0], cv=2).fit(X, y > 0)
    assert path.C_ in (0.1, 1.0)
    assert kw.learners.resolve("capped").tol == 1e-7


def test_a_learner_without_a_rule_for_its_weights_is_refused_where_it_is_defined():
    with pytest.raises(
        kw.InputError, match=r"Empty must define `problem\(kernels, y\)` or `learn\(output\)`"
    ):

        class Empty(MarginLearner):
            pass


def test_a_learner_may_have_a_path_of_its_own_and_leaves_weights_of_rows_to_the_fit(ruled, rng):
    class Along(MarginLearner):
        """Nothing but a path."""

        def path(self, training, alphas, **options):
            raise NotImplementedError

    class Weighted(MarginLearner):
        """States what the fit adds."""

        def problem(self, kernels, y):
            return replace(super().problem(kernels, y), sample_weight=np.ones(len(y)))

    class Dearer(MarginLearner):
        """Has a cost of its own."""

        def problem(self, kernels, y):
            return replace(super().problem(kernels, y), C=2.0 * self.C)

    for wrong in (Weighted(), Dearer()):
        with pytest.raises(kw.InputError, match="must have the C of the learner, and leave `sample_weight`"):
            kw.MKLClassifier(learner=wrong).fit(rng.normal(size=(20, 2)), np.arange(20) % 2)


def test_a_problem_has_the_loss_that_probabilities_follow(rng):
    def stated(self, kernels, y):
        return kw.Problem(kernels, y, loss="squared", C=self.C, fit_intercept=True)

    class Own(MarginLearner):
        """Least squares beside a parameter `loss`."""

        problem = stated

    class Fixed(CostLearner):
        """The logistic loss in its class, least squares in its problem."""

        loss = "logistic"
        problem = stated

    class Least(CostLearner):
        """Least squares without a parameter `loss`."""

        problem = stated

    X = rng.normal(size=(30, 2))
    y = X[:, 0] > 0
    for wrong in (Own(loss="logistic"), Own(), Fixed()):
        with pytest.raises(
            kw.InputError, match=r"must have the loss of the learner, .*or derive from CostLearner"
        ):
            kw.MKLClassifier(learner=wrong).fit(X, y)
    right = kw.MKLClassifier(learner=Least()).fit(X, y)
    known = kw.MKLClassifier(learner=Own(loss="squared")).fit(X, y)
    np.testing.assert_array_equal(right.decision_function(X), known.decision_function(X))
    assert not Least().has_probabilities
    assert not Own(loss="squared").has_probabilities


def test_what_a_learner_returns_is_checked(rng):
    class Weights(MarginLearner):
        """Weights without a machine."""

        def learn(self, output):
            return np.ones(output.gram.n_kernels)

    class Form(MarginLearner):
        """No problem."""

        def problem(self, kernels, y):
            return super().problem(kernels, y).form

    X = rng.normal(size=(20, 2))
    for wrong, message in (
        (Weights(), r"`learn\(output\)` of Weights must be a Solution, such as output.at\(weights\), got "),
        (Form(), r"`problem\(kernels, y\)` of Form must be a kw.Problem, got "),
    ):
        with pytest.raises(kw.InputError, match=message):
            kw.MKLClassifier(learner=wrong).fit(X, X[:, 0] > 0)


@pytest.mark.parametrize("bank", ["matrices", "features"])
@pytest.mark.parametrize(
    ("given", "got"),
    [
        ([np.nan, 1.0], "nan for kernel 0"),
        ([1.0, np.inf], "inf for kernel 1"),
        ([0.5, -1e-3], "-0.001 for kernel 1"),
        ([1.0], r"\[1.0\]"),
        (None, "None"),
    ],
)
def test_weights_of_a_rule_are_checked_before_they_are_used(bank, given, got, rng):
    """Machines on such kernels have no end."""

    class Rule(MarginLearner):
        def learn(self, output):
            return output.at(given)

    X = rng.normal(size=(20, 2))
    kernel = kw.kernels.RBF(1.0) if bank == "matrices" else kw.kernels.Linear()
    message = rf"`learn\(output\)` of Rule must pass a finite weight >= 0 for each of 2 kernels .*, got {got}"
    with pytest.raises(kw.InputError, match=message):
        kw.MKLClassifier([kernel.on([0]), kernel.on([1])], Rule(max_time=5.0)).fit(X, X[:, 0] > 0)


def test_weights_of_a_rule_may_be_a_list_of_whole_numbers(rng):
    class Rule(MarginLearner):
        def learn(self, output):
            return output.at([1, 0])

    X = rng.normal(size=(20, 2))
    model = kw.MKLClassifier(kw.banks.linear_features(2), Rule()).fit(X, X[:, 0] > 0)
    assert model.weights_.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("alpha", ["auto", np.inf])
def test_the_problem_of_rls2_needs_a_number(alpha, rng):
    gram = kw.banks.linear_features(2)
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    with pytest.raises(kw.InputError, match="needs a finite alpha"):
        kw.learners.RLS2(alpha=alpha).problem(gram, y)
    assert kw.MKLRegressor(gram, kw.learners.RLS2(alpha=alpha)).fit(X, y).score(X, y) >= 0.0


def test_learners_take_parameters_by_name_only(tilted):
    with pytest.raises(
        TypeError, match=r"SimpleMKL takes its parameters by name \(C, .*write SimpleMKL\(C=10.0\)"
    ):
        kw.learners.SimpleMKL(10.0)
    with pytest.raises(TypeError, match=r"'epsilom'.* Did you mean 'epsilon'"):
        kw.learners.SimpleMKL(epsilom=0.1)
    with pytest.raises(TypeError, match="has a constructor of its own"):

        class Old(Uniform):
            def __init__(self, C=1.0):
                self.C = C

    with pytest.raises(kw.InputError, match="There is a learner 'tilted' already"):

        class Tilted(Uniform):
            name = "tilted"

    assert LEARNERS["tilted"] is tilted
    with pytest.raises(kw.InputError, match="There is a learner 'rkl' already, RKL"):

        class Other(Uniform):
            name = "rkl"


def test_names_of_learners_stand_in_the_stub():
    for file in pkgutil.iter_modules(kw.learners.__path__):
        importlib.import_module(f"kernelweave.learners.{file.name}")
    own = Registry(kw.learners.__file__, "kernelweave.learners")
    found = {
        name: cls for name, cls in LEARNERS.items() if cls.__module__.startswith("kernelweave.learners.")
    }
    for name, cls in found.items():
        line = f"from {cls.__module__} import {cls.__name__} as {cls.__name__}  # {name}"
        assert own.place(name) == f"{cls.__module__}.{cls.__qualname__}", (
            f"learners/__init__.pyi needs: {line}"
        )
        assert cls.name == name
    assert list(own) == list(found)


def test_a_learner_in_a_new_file_of_the_folder_needs_no_line_elsewhere(tmp_path, monkeypatch):
    """Its file is imported when names are listed or an unknown one is asked for; files without learners are not."""
    stub = Path(kw.learners.__file__).with_name("__init__.pyi")
    tmp_path.joinpath("__init__.pyi").write_text(stub.read_text())
    tmp_path.joinpath("helping.py").write_text("raise AssertionError")
    lines = ["from kernelweave.learners import Uniform", "class Added(Uniform):", '    name = "added"']
    tmp_path.joinpath("adding.py").write_text("\n".join(lines))
    monkeypatch.setattr(kw.learners, "__path__", [*kw.learners.__path__, str(tmp_path)])
    module = "kernelweave.learners.adding"
    for ask in (lambda own: "added" in own, lambda own: list(own), lambda own: own["added"], len):
        own = Registry(str(tmp_path / "__init__.py"), "kernelweave.learners")
        assert "lp" in own
        assert module not in sys.modules
        with monkeypatch.context() as now:
            now.setattr(learners_base, "LEARNERS", own)
            assert ask(own)
            assert own["added"].__name__ == "Added"
            assert list(own)[-1] == "added"
        del sys.modules[module]
    with pytest.raises(KeyError):
        own["missing"]


def test_learners_are_cloned_pickled_and_set(ruled):
    own = kw.learners.LpMKL(p=3.0, C=2.0, max_time=5.0)
    for copy in (clone(own), pickle.loads(pickle.dumps(own))):
        assert copy.get_params() == own.get_params()
    assert own.get_params() == {
        "C": 2.0, "epsilon": 0.1, "loss": "auto", "max_iter": None, "max_time": 5.0, "p": 3.0, "solver": "auto",
        "tol": 1e-8,
    }  # fmt: skip
    assert repr(own.set_params(p=2.0)) == "LpMKL(C=2.0, max_time=5.0)"
    assert repr(clone(ruled[0](share=0.3))) == "Capped(share=0.3)"
    with pytest.raises(ValueError, match="Invalid parameter"):
        own.set_params(mix=0.5)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_docstring_of_a_learner_lists_every_parameter(name):
    learner = LEARNERS[name]
    entries = read_docstring(learner.__doc__).parameters
    assert list(entries) == list(inspect.signature(learner).parameters)
    assert all(entry.kind and entry.about for entry in entries.values())


def test_a_loss_is_a_name_or_an_object(rng):
    X = rng.normal(size=(30, 3))
    y = X[:, 0] + 0.2 * rng.normal(size=30)
    bank = kw.banks.linear_features(3)
    for loss, estimator, target in (
        (Squared(), kw.MKLRegressor, y),
        (EpsilonInsensitive(0.05), kw.MKLRegressor, y),
        (SquaredHinge(), kw.MKLClassifier, y > 0),
        (Squared(), kw.MKLClassifier, y > 0),
    ):
        for kind in (kw.learners.SimpleMKL, kw.learners.LpMKL, kw.learners.Uniform, kw.learners.RKL):
            by_object = estimator(bank, kind(loss=loss)).fit(X, target)
            by_name = estimator(bank, kind(loss=loss.name, epsilon=0.05)).fit(X, target)
            np.testing.assert_array_equal(by_object.weights_, by_name.weights_)
            assert by_object.rel_gap_ < 1e-3
    with pytest.raises(kw.InputError, match="is for classification"):
        kw.MKLRegressor(bank, kw.learners.SimpleMKL(loss=Hinge())).fit(X, y)
    with pytest.raises(kw.InputError, match="`loss` must be"):
        kw.MKLRegressor(bank, kw.learners.SimpleMKL(loss=3)).fit(X, y)


# ---- signatures -----------------------------------------------------------------------------------------------------


def every_public_callable():
    """Names and objects: public functions, classes and their methods."""
    for name in (*kw.__all__, "normalizers", "problems", "results", "views"):
        value = getattr(kw, name)
        inner = getattr(value, "__all__", ()) if inspect.ismodule(value) else ()
        for place, one in [(name, value), *((f"{name}.{part}", getattr(value, part)) for part in inner)]:
            if not callable(one):
                continue
            yield place, one
            for method, function in vars(one).items() if inspect.isclass(one) else ():
                function = getattr(function, "__func__", function)
                if not method.startswith("_") and callable(function):
                    yield f"{place}.{method}", function


def test_signatures_read_as_types():
    seen = 0
    for place, one in every_public_callable():
        try:
            text = str(inspect.signature(one))
        except (TypeError, ValueError):
            continue
        seen += 1
        # whoever makes an object gives no `self`
        assert not inspect.isclass(one) or "self" not in inspect.signature(one).parameters, place
        assert not re.search(r"Annotated|OneOf\(|Number\(|Whole\(|Flag\(", text), (place, text)
        if place in kw.__all__:
            # types as text: 'Array' in quotation marks
            assert not re.search(r": '|-> '", text), (place, text)
        if "." not in place or place.startswith(("learners.", "losses.", "weight_sets.")):
            assert not re.search(r"\bAny\b", re.sub(r"\*\*\w+: '?Any'?", "", text)), (place, text)
    assert seen > 400
    assert 'loss: "auto" | "hinge"' in str(inspect.signature(kw.learners.SimpleMKL))
    assert "alpha: \"auto\" | float = 'auto'" in str(inspect.signature(kw.learners.RLS2))
    assert "C: float, weight_set" in str(inspect.signature(kw.solve_svm_mkl))


def test_texts_of_values_have_at_most_sixty_characters():
    whole = "x" * 58
    assert shown(whole) == repr(whole)
    for longer in ("x" * 59, "x" * 60, list(range(100))):
        assert len(shown(longer)) == 60
        assert shown(longer).endswith("...")
        assert repr(longer).startswith(shown(longer)[:-3])


def test_numbers_end_where_products_would_overflow_or_underflow():
    rule = Number()
    for value in (1e100, 1e-100, -1e-100, 0.0):
        assert rule.read(value) == value
    for value, text in ((1.1e100, "above 1e\\+100 overflow"), (0.9e-100, "below 1e-100 underflow")):
        for sign in (1.0, -1.0):
            with pytest.raises(Unfit, match=text):
                rule.read(sign * value)


@pytest.mark.parametrize(
    ("rule", "kinds", "words", "good", "bad"),
    [
        (Number(above=0), ("float",), "a finite number > 0", [1e-9, 3], [0, -1, np.inf, np.nan, True, "1", None]),
        (Number(least=0, below=1), ("float",), "a number >= 0 and < 1", [0, 0.99], [-1e-9, 1, 2]),
        (Number(most=2), ("float",), "a finite number <= 2", [2, -5], [2.1]),
        (Number(infinite=True), ("float",), "a number (float('inf') is allowed)", [np.inf], [np.nan]),
        (Whole(2, 4), ("int",), "a whole number from 2 to 4", [2, 4, np.int32(3)], [1, 5, 2.0, True]),
        (Whole(), ("int",), "a whole number", [-(2**31) + 1, 2**31 - 1], [2**31, -(2**31)]),
        (Whole(most=-1), ("int",), "a whole number <= -1", [-1], [0]),
        (Flag(), ("bool",), "True or False", [True, np.False_], [0, 1, "yes", None]),
        (OneOf("a", 2, None, True), ('"a"', "2", "None", "True"), "'a', 2, None or True", ["a", 2, None], [1, "b"]),
        (OneOf("a"), ('"a"',), "'a'", ["a"], ["b", None]),
        (OneOf("a", known={"b": 0}), ('"a"', '"b"'), "'a' or 'b'", ["a", "b"], ["c"]),
        (Text(), ("str",), "text", ["", "x"], [Path("x"), 1, b"x"]),
        (Text(path=True), ("str", "PathLike"), "text or a path", [Path("x"), "x"], [1]),
        (Texts(), ("Sequence[str]",), "a list of texts", [["a"], []], ["a", {"a"}, [1], {"a": 1}, 3]),
        (Each(Whole(0)), ("Sequence[int]",),
         "a non-empty list, each entry a whole number >= 0", [[0, 1]], [[], [-1], {1}, 1]),
        (Each(Text(), empty=True), ("Sequence[str]",), "a list, each entry text", [[], ["a"]], ["a", [1]]),
        (Each(Text() | Whole(1)), ("Sequence[str | int]",),
         "a non-empty list, each entry text or a whole number >= 1", [["a", 1]], [[0]]),
        (Function(), ("Callable",), "a function", [len, lambda: 1], [1, "len"]),
        (InstanceOf((int, str), "a thing"), ("int", "str"), "a thing", [1, "a"], [1.5]),
        (Whole(1) | None, ("int", "None"), "a whole number >= 1 or None", [1, None], [0, "none"]),
    ],
)  # fmt: skip
def test_what_rules_take_and_say(rule, kinds, words, good, bad):
    assert rule.kinds() == kinds
    assert rule.words() == words
    for value in good:
        found = rule.read(value)
        assert found is value or found == value
    for value in bad:
        with pytest.raises(Unfit):
            rule.read(value)


def test_fields_have_the_bounds_of_their_rules():
    for rule, form in (
        (Number(above=1, most=3), ("number", (), 1, 3)),
        (Number(least=1, below=3), ("number", (), 1, 3)),
        (Number(above=0, least=1), ("number", (), 1, None)),
        (Number(below=5, most=3), ("number", (), None, 3)),
        (Whole(1, 7), ("whole number", (), 1, 7)),
        (Flag(), ("yes/no", (), None, None)),
        (OneOf(True, None, 0.5, "a"), ("choice", ("true", "none", "0.5", "a"), None, None)),
        (Text(), ("text", (), None, None)),
        (Number(least=1) | InstanceOf((set,), "a set") | None, ("number", (), 1, None)),
        (Number(least=1) | Whole(2), ("text", (), None, None)),
    ):
        found = rule.form()
        assert (found.kind, found.choices, found.least, found.most) == form
    assert (Text() | OneOf("auto", 3)).parse("3") == 3
    assert (Number(above=0, remedy="") | Number(above=0, remedy="More.")).remedy == "More."


def test_values_are_written_and_shown():
    assert said([1, None, True]) == "1; none; true"
    assert said(((1, 2), (3, 4))) == said([[1, 2], [3, 4]]) == "1; 2 | 3; 4"
    assert said(("a", [1])) == "a | 1"
    assert said("None") == "None"
    assert shown(10**5000) == "a very large number"
    assert repr(OneOf("a", known={"b": 0})) == "OneOf('a', 'b')"
    assert names_in(" a, b,,c ") == names_in(["a", "b", "c"]) == names_in(("a", "b", "c")) == ["a", "b", "c"]
    assert numbered(1, "class", "classes") == "1 class"
    assert numbered(3, "class", "classes") == "3 classes"

    class Place(Enum):
        HERE = 3

    @dataclass
    class Few(ShortRepr):
        a: object
        b: object = field(default=0, repr=False)

    for value, text in (
        (Place.HERE, "HERE"),
        (1.23456, "1.235"),
        (np.zeros(6), "[0, 0, 0, 0, 0, 0]"),
        (np.zeros(7), "<array 7>"),
        (np.zeros((2, 3)), "<array 2 x 3>"),
        (np.float64(0.5), "0.5"),
        ([0.5, (1, 2.25)], "[0.5, (1, 2.25)]"),
        (list(range(7)), "<list of 7>"),
        ({k: 0 for k in range(7)}, "<dict of 7>"),
        ("x" * 78, repr("x" * 78)),
        ("x" * 79, "<str>"),
        (Few("x" * 78), f"Few(a={'x' * 78!r})"),
        (None, "None"),
    ):
        assert repr(Few(value)) == f"Few(a={text})"


def test_former_names_of_parameters_are_taken_for_one_version():
    @renamed(old="new")
    @checked
    def twice(number: int, *, new: Annotated[int, Whole(1)] = 1) -> int:
        return number * new

    assert twice(2, new=3) == 6
    with pytest.warns(DeprecationWarning, match="`old` of twice is now `new`") as found:
        assert twice(2, old=3) == 6
    assert [Path(one.filename).name for one in found] == [Path(__file__).name]
    with pytest.raises(kw.InputError, match="former name"):
        twice(2, old=3, new=3)
    with pytest.raises(kw.InputError, match="`new` must be a whole number >= 1"):
        twice(2, new=0)
    inner = unchecked(twice)
    assert inner(2, new=-3) == -6
    given = {"old": 1, "other": 2}
    with pytest.warns(DeprecationWarning, match="of it is now"):
        with_present_names(given, {"old": "new", "past": "present"}, "it")
    assert given == {"new": 1, "other": 2}


def test_arguments_are_checked_by_place_and_by_name_and_the_time_counts_inside():
    @checked
    def used(
        a: Annotated[float, Number()], b: int = 2, *more: int, max_time: MaxTime = None, c: Switch = False
    ):
        return a, b, more, c, _allowance.used_up() or _allowance.LEFT.get().end

    a, b, more, c, left = used(np.float64(1), 3, 4, 5, c=np.True_)
    assert (type(a), a, b, more, c, left) == (float, 1.0, 3, (4, 5), True, np.inf)
    for call in (lambda: used("1"), lambda: used(a="1"), lambda: used(1, c=1), lambda: used(1, max_time=0)):
        with pytest.raises(kw.InputError, match="must be"):
            call()
    assert used(1, max_time=1e-9)[-1] == "seconds"
    assert used(1, max_time=100)[-1] < np.inf
    assert str(inspect.signature(used).parameters["c"]) == "c: bool = False"


def test_a_setting_that_is_none_or_its_usual_number_is_the_default():
    def settle(rule, value, **more):
        return Declared("alpha", rule, Shown(**more), "", "", 1.0).settle(value)

    assert settle(Number(above=0), "0.5") == 0.5
    for text in ("", "  ", "auto", " Auto ", None):
        assert settle(Number(above=0), text) is USUAL
    assert settle(Number(above=0), 0, usual=0) is USUAL
    assert settle(Number(above=0), 0.0, usual=0) is USUAL
    for value, more in ((0, {}), (0, {"usual": 1}), (False, {"usual": 0}), ("none", {}), (-1, {"usual": 0})):
        with pytest.raises(kw.InputError, match="`a` must be"):
            settle(Number(above=0), value, setting="a", **more)
    assert settle(None, [1]) == [1]
    assert repr(USUAL) == "USUAL"
    plain = Declared("n_rows", Whole(1), Shown(), "int", "How many.", 3)
    assert (plain.setting, plain.label, plain.help) == ("n_rows", "N rows", "How many.")
    said_ = replace(plain, shown=Shown(label="Rows", help="As text.", setting="rows"))
    assert (said_.setting, said_.label, said_.help) == ("rows", "Rows", "How many. As text.")
    assert replace(plain, shown=Shown(setting=None)).setting == ""
    assert replace(plain, rule=None).setting == ""
    assert replace(plain, rule=None).form.kind == "text"


def test_texts_of_parameters_come_from_where_they_are_described():
    def first(a, b, c):
        """One.

        Parameters
        ----------
        a : int
            First a.
        b : float, default=2.0
            First b.
        """

    def second(a, b, c):
        """Two.

        Parameters
        ----------
        b, c : str, optional
            Second.
        """

    @texts_of(first, second)
    def own(c, a, b):
        """Own.

        More.

        Parameters
        ----------
        a : set
            Own a.

        Returns
        -------
        None
        """

    found = read_docstring(own.__doc__)
    assert list(found.parameters) == ["c", "a", "b"]
    assert [one.about for one in found.parameters.values()] == ["Second.", "Own a.", "First b."]
    assert [one.kind for one in found.parameters.values()] == ["str", "set", "float"]
    assert found.parameters["b"].written == "float, default=2.0"
    assert (found.summary, found.text) == ("Own.", "More.")
    assert found.sections["Returns"] == "None"

    class Base:
        """Base.

        Parameters
        ----------
        x : int
            Of the base.

        Attributes
        ----------
        z : int
            Seen.
        """

        def __init__(self, x, y): ...

    class Made(Base):
        """Made.

        Parameters
        ----------
        y : int
            Of this.

        Attributes
        ----------
        w : int
            Own.
        """

    inherits_parameters(Made)
    inherits_attributes(Made)
    found = read_docstring(Made.__doc__)
    assert {name: one.about for name, one in found.parameters.items()} == {
        "x": "Of the base.",
        "y": "Of this.",
    }
    assert list(found.parameters) == ["x", "y"]
    assert list(found.entries("Attributes")) == ["w", "z"]
    assert found.fields.keys() == {"w", "z", "x", "y"}
    assert isinstance(vars(Made)["__doc__"], str)

    class Told(InheritedTexts):
        def call(self, a):
            """What it does.

            Parameters
            ----------
            a : int
                The number.
            """

        def other(self, a):
            """Other.

            Parameters
            ----------
            a : int
                Another.
            """

    class Retold(Told):
        def call(self, a):
            """In another way."""

        @classmethod
        def other(self, a):
            """Parameters of its own.

            Parameters
            ----------
            a : str
                Own.
            """

    assert read_docstring(Retold.call.__doc__).parameters["a"].about == "The number."
    assert read_docstring(Retold.call.__doc__).summary == "In another way."
    assert read_docstring(Retold.other.__doc__).parameters["a"].about == "Own."


# ---- rules, whole ------------------------------------------------------------------------------------


def of_rule(rule, values, texts=("1", "0.5", "inf", "nan", "Auto", "none", "true", "No", "", "x", "1e200")):
    """What a rule says of itself, and what it makes of values, and of texts as they are written."""
    from kernelweave._parameters import check_value

    read = [told(outcome(check_value, rule, "value", one)) for one in values]
    # other versions of NumPy write their numbers in another way
    read = [
        re.sub(r"got np\..*?\.( |$)", r"got one of NumPy.\1", one) if isinstance(one, str) else one
        for one in read
    ]
    written = {
        text: told(outcome(check_value, rule, "value", text, of="Thing", written=True)) for text in texts
    }
    return [rule.words(), list(rule.kinds()), vars(rule.form()), read, written]


def test_rules_say_take_and_refuse(recorded):
    """Every rule with values at its bounds, numbers of NumPy, texts and things that it does not take."""
    values = [
        0,
        1,
        -1,
        0.0,
        1.0,
        0.5,
        2,
        2.5,
        -0.5,
        True,
        False,
        None,
        np.float32(0.5),
        np.int64(3),
        np.bool_(True),
        np.array(2.0),
        np.array([1.0]),
        "auto",
        "1",
        "other",
        "",
        np.inf,
        np.nan,
        1e101,
        1e-101,
        10**400,
        2**31,
        2**31 - 1,
        [1, 2],
        [],
        (1.0,),
        {"a"},
        {"a": 1},
        ["a", "b"],
        b"a",
        len,
        1j,
    ]
    rules = {
        "any number": Number(),
        "bounds": Number(above=0, below=1, remedy="It is a share."),
        "closed": Number(least=0.0, most=1.0),
        "infinite": Number(above=0.0, infinite=True),
        "whole": Whole(),
        "from": Whole(1),
        "up to": Whole(None, 2),
        "between": Whole(0, 2, remedy="Count."),
        "flag": Flag(),
        "names": OneOf("auto", "other", 1, None),
        "one": OneOf("auto"),
        "truth": OneOf(True, 2.5),
        "text": Text(),
        "texts": Texts(),
        "path": Text(path=True),
        "each": Each(Number(least=0.0)),
        "each or none": Each(Whole(1), empty=True),
        "function": Function(),
        "object": InstanceOf((dict, list), "a container"),
        "choice": OneOf("auto") | Number(above=0) | None,
        "text or number": Text() | Number(least=1.0),
        "number or none": Whole(1) | None,
        "object or none": InstanceOf((dict,), "a dict") | None,
    }
    for name, rule in rules.items():
        recorded(name, of_rule(rule, values))


def test_values_as_texts_and_names(recorded):
    from kernelweave._errors import capital, check_known, meant

    class Kind(Enum):
        FIRST = 1

    @dataclass(frozen=True)
    class Small(ShortRepr):
        a: object
        hidden: object = field(default=1, repr=False)

    many = [1, 2, 3, 4, 5, 6]
    values = [
        1.23456,
        7,
        "text",
        None,
        Kind.FIRST,
        np.arange(6.0),
        np.arange(7.0),
        np.eye(2),
        np.array(2.5),
        many,
        [*many, 7],
        (1.0, 2.5),
        {k: k for k in many},
        {k: k for k in range(7)},
        "x" * 80,
        Small(2),
        "x" * 78,
    ]
    recorded("short", [repr(Small(value)) for value in values])
    recorded(
        "said", [said(one) for one in (None, True, [1, 2.5], [[1, 2], (3, None)], "Auto", 1e-5, ["a", False])]
    )
    recorded("shown", [shown(one) for one in ("a  b\nc", "x" * 58, "x" * 59, 10**5000, [1, 2])])
    recorded(
        "numbered", [numbered(count, "class", several) for count in (0, 1, 2) for several in ("", "classes")]
    )
    recorded("names", [names_in("a, b ,,c"), names_in(["a,b"]), names_in("")])
    recorded(
        "meant",
        [
            meant("colour", ["color", "size"]),
            meant("colour", ["size"]),
            meant(3, ["3"]),
            meant("ab", ["abc", "abx", "x"], n=2),
            capital("a b"),
            capital(""),
        ],
    )
    recorded(
        "known",
        [
            outcome(check_known, "size", ["size"], "word"),
            outcome(check_known, "sizes", ["size", "colour"], "word"),
            outcome(check_known, "q", {}, "word"),
        ],
    )


def test_a_declaration_is_its_fields(recorded):
    from typing import ClassVar

    from kernelweave._declarations import Declaration

    class Base(Declaration):
        """A base.

        Parameters
        ----------
        width : float
            How wide.
        rule : str
            Which rule.
        """

        other: ClassVar[int] = 3
        former: ClassVar[dict[str, str]] = {"breadth": "width"}
        width: Annotated[float, Number(above=0), Shown("Width", unit="m", help="In metres.", usual=0)] = 1.0
        rule: Annotated[str, OneOf("a", "b", 2)] = "a"
        free: object = None

    class Own(Base):
        """One below.

        Parameters
        ----------
        depth : int
            How deep.
        rule : {"a", "b"}
            Another text.
        """

        leading = ("depth",)
        rule = "b"
        depth: Annotated[int | None, Whole(1) | None, Shown(setting=None)]

    recorded("docstring", [Base.__doc__, Own.__doc__, str(inspect.signature(Own))])
    found = declared(Own)
    names = ("name", "setting", "label", "help", "kind", "about")
    recorded(
        "declared",
        {
            name: [getattr(one, part) for part in names] + [vars(one.form), repr(one.default)]
            for name, one in found.items()
        },
    )
    cases = [("width", text) for text in ("2.5", " ", "auto", "0", 0, 0.0, True, None, "x", -1)] + [
        ("rule", text) for text in ("b", "2", "AUTO", "c")
    ]
    settled = [(name, outcome(found[name].settle, text)) for name, text in cases]
    recorded("settled", [[name, "USUAL" if value is USUAL else told(value)] for name, value in settled])
    made = Own(depth=2)
    assert (made.depth, made.width, made.rule, made.free) == (2, 1.0, "b", None)
    recorded(
        "refused",
        [outcome(Own), outcome(Own, 3), outcome(Own, depth=1, wdth=2.0), outcome(Own, depth=1, zzz=2.0)],
    )
    with pytest.warns(
        DeprecationWarning,
        match=r"`breadth` of Own is now `width`; the former name will be removed in version 0\.4",
    ):
        assert Own(depth=1, breadth=3.0).width == 3.0
    with pytest.raises(kw.InputError, match=r"`breadth` is the former name of `width`\. Give `width` alone"):
        Own(depth=1, breadth=3.0, width=1.0)
    with pytest.raises(TypeError, match="Wrong has a constructor of its own"):

        class Wrong(Declaration):
            def __init__(self):
                pass

    @renamed(former="present")
    def called(*, present=1):
        return present

    with pytest.warns(DeprecationWarning, match="`former` of called is now `present`"):
        assert called(former=4) == 4
    assert called() == 1


def test_docstrings_are_read_joined_and_written(recorded):
    """Sections, shared entries, types with defaults, markup; parameters and attributes of bases and of others."""
    from kernelweave._docstrings import MadeText, plain, with_parameters

    text = """One line
    of two.

    More *words* of `code`, ``more`` and :class:`~kernelweave.Thing` [1]_.

    Parameters
    ----------
    a, b : int, default=1
        Both of them.
        In two lines.
    c : {"x", "y"}, optional
        The third.
    **more : dict
        The rest.
    d
        Without a type.

    Attributes
    ----------
    e : float
        An attribute.

    Notes
    -----
    A note.

    References
    ----------
    .. [1] A book.
    """
    found = read_docstring(text)
    recorded("read", [found, found.parameters, found.fields, read_docstring(None)])
    entries = {**found.parameters, "new": replace(found.parameters["c"], kind="text")}
    recorded(
        "written",
        [
            with_parameters(text, entries),
            with_parameters(text, {}),
            with_parameters(None, entries),
            with_parameters(text, found.fields, "Attributes"),
        ],
    )
    recorded("plain", [plain("See :func:`a.b` and :obj:`~x.y.z`, *u* ``v`` [2]_ `w`."), plain(".. [3] Book")])

    class Base:
        """Base.

        Parameters
        ----------
        first : int
            Of the base.
        second : int
            Of the base too.

        Attributes
        ----------
        later_ : int
            After a fit.
        """

        def __init__(self, second=1, first=2):
            pass

    @inherits_attributes
    @inherits_parameters
    class Below(Base):
        """Below.

        Parameters
        ----------
        second : float, default=3
            Of the one below.

        Attributes
        ----------
        own_ : int
            Its own.
        """

    @texts_of(Base)
    def function(first, other, second=2):
        """Do it.

        Parameters
        ----------
        other : int
            Another.
        """

    recorded("completed", [Below.__doc__, function.__doc__, Below.__doc__])
    made = []

    class Made:
        __doc__ = MadeText(lambda *of: made.append(of) or "made", 1, 2)

    assert (Made.__doc__, Made.__doc__, made) == ("made", "made", [(1, 2)])

    class Rows(InheritedTexts):
        def take(self, rows, more=1):
            """Take rows.

            Parameters
            ----------
            rows : list, default=None
                Which.
            more : int
                How many.
            """

        def _take(self, rows):
            """Take.

            Parameters
            ----------
            rows : list
                Which.
            """

    class Few(Rows):
        def take(self, rows, more=1):
            """Take few rows."""

        def _take(self, rows):
            """Take few."""

    class Own(Rows):
        def take(self, rows, more=1):
            """Take own rows.

            Parameters
            ----------
            rows : tuple
                Own.
            """

    recorded("inherited", [Few.take.__doc__, Few._take.__doc__, inspect.cleandoc(Own.take.__doc__)])
