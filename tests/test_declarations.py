"""A parameter is declared once: everything that people see of it follows from the constructor and its docstring."""

import re
from typing import Annotated

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("pydantic")

import kernelweave as kw
from kernelweave._declarations import USUAL, declared
from kernelweave._docstrings import read_docstring
from kernelweave._parameters import Choice, Flag, Number, OneOf, Shown, Text, Whole, said
from kernelweave.learners import LEARNERS, Uniform


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
    assert main(["fit", "--help"]) == 0
    text = " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    assert (
        "--tilt FLOAT tilted: How far the plane leans. [a number >= 0 and <= 3; in degrees; default 0.25]"
        in text
    )
    assert "--mood STR tilted: What it leans by. [calm | bold; default calm]" in text
    assert "deep-uniform, tilted." in text


@pytest.mark.usefixtures("tilted")
def test_a_run_of_a_new_learner_leaves_its_parameter_in_every_file(table, tmp_path, capsys, monkeypatch):
    from kernelweave import persistence
    from kernelweave_app.cli import main

    # model files hold classes of this package only
    monkeypatch.setattr(persistence, "save", lambda model, path: path.write_bytes(b""))
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
    from kernelweave_app.runs.spec import label_of
    from kernelweave_app.studio.methods import methods, settings

    method = next(m for m in methods() if m.name == "tilted")
    assert (method.title, method.summary) == ("Tilted", "Uniform weights with a tilt: a learner of this test")
    assert method.reference == "A. Tester, On tilted planes, Journal of Tests 7 (2031)."
    field = next(f for f in method.fields if f.name == "tilt")
    assert (field.label, field.unit, field.kind) == ("Lean of the plane", "degrees", "number")
    assert (field.least, field.most, field.default) == (0, 3, 0.25)
    assert field.about == "How far the plane leans."
    mood = next(f for f in method.fields if f.name == "mood")
    assert (mood.kind, mood.choices, mood.default) == ("choice", ["calm", "bold"], "calm")
    assert {"tilt", "mood"} <= {s.name for s in settings()}
    assert label_of("tilt") == "Lean of the plane"


@pytest.mark.usefixtures("tilted")
def test_the_schema_of_the_api_knows_a_new_learner():
    from kernelweave_app.runs.spec import FitSpec

    known = FitSpec.model_json_schema()["properties"]["learner_params"]["properties"]
    assert known["tilt"]["title"] == "Lean of the plane"
    assert (known["tilt"]["type"], known["tilt"]["minimum"], known["tilt"]["maximum"]) == ("number", 0, 3)
    assert known["mood"]["enum"] == ["calm", "bold"]


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
    assert kept(given, "rls2", "kl-c") == {"solver": "newton", "tol": 1e-3, "theta": 0.3}


# ---- declarations ---------------------------------------------------------------------------------------------------


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
    from kernelweave._parameters import Unfit

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
