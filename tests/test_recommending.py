"""What is recommended for a table, and time and memory before a fit.

Modules: `runs/recommending`, `runs/estimating`, `runs/questions`.
"""

import hashlib

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from kernelweave._errors import InputError
from kernelweave.learners import LEARNERS
from kernelweave_app.runs.estimating import Estimate, estimate_fit, fits_of, span
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.lineage import learnt_from, read_lineage, trace
from kernelweave_app.runs.preparing import prepare
from kernelweave_app.runs.questions import PRESETS, QUESTIONS, grouped, preset_settings
from kernelweave_app.runs.recommending import recommend
from kernelweave_app.runs.spec import DEFAULT, Spec, check_spec
from kernelweave_app.runs.writing import used_settings


def table(n=120, share=0.5, missing=0, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    frame["y"] = np.where(np.arange(n) < share * n, "ill", "well")
    frame.iloc[:missing, 0] = np.nan
    return frame


def advised(frame, question="predict", **settings):
    found = recommend(Joined(frame), check_spec({"target": "y", **settings}), question)
    return found, {one.setting: one.value for one in found.advice}


def test_every_learner_answers_one_question():
    known = [one.name for one in QUESTIONS]
    for kind in LEARNERS.values():
        if not kind.__module__.startswith("kernelweave."):
            continue  # of another test
        assert vars(kind).get("question") in known, (
            f"{kind.__name__} needs `question` in its class, one of {known}"
        )
    listed = [name for _, names in grouped() for name in names if name != DEFAULT]
    assert sorted(listed) == sorted(LEARNERS)
    assert {one.usual for one in QUESTIONS} <= {*LEARNERS, DEFAULT}


def test_a_learner_of_ones_own_is_listed_below_its_question(monkeypatch):
    monkeypatch.setattr(LEARNERS, "_places", dict(LEARNERS._places))
    monkeypatch.setattr(LEARNERS, "_classes", dict(LEARNERS._classes))

    class Derived(LEARNERS["simple"]):
        name = "derived"

    class Asked(LEARNERS["simple"]):
        name = "asked"
        question = "sources"

    found = {one.name: names for one, names in grouped()}
    assert "derived" in found["others"]
    assert "asked" not in found["others"]
    assert found["sources"] == ["elastic-net", "rls2", "rkl", "asked"]
    assert found["predict"][0] == DEFAULT


def test_the_table_decides():
    found, advice = advised(table())
    assert advice == {"method": DEFAULT, "nested": 5}  # few rows are held out
    assert found.method == "lp"
    _, advice = advised(table(n=1000))
    assert advice == {"method": DEFAULT}
    _, advice = advised(table(n=1000, share=0.1, missing=3))
    assert advice == {"method": DEFAULT, "missing": "impute", "balanced": True}
    # weights of classes that are given stay
    _, advice = advised(table(n=1000, share=0.1, missing=3), class_weights="ill=2")
    assert "balanced" not in advice
    # classes are those of the rows to learn from: 500 and 100 of 500 each
    some = table(n=1000)
    some["part"] = np.where((np.arange(1000) >= 600), "test", "train")
    found, advice = advised(some, holdout="part", holdout_values="test")
    assert advice["balanced"] is True
    assert any("5 times the rows" in one.why for one in found.advice)
    found, advice = advised(table(n=1000), "few", method="rls2", learner_params={"relax": "auto"}, group="d")
    assert found.spec.method == "simple"
    assert found.spec.group == "d"  # columns that have a role keep it
    assert found.spec.learner_params == {}
    assert all(one.why for one in found.advice)
    # settings of the path begin anew; folds around it are advised for few rows only
    again, _ = advised(table(n=1000), nested=7)
    assert again.spec.nested == 0
    with pytest.raises(InputError, match="question"):
        advised(table(), "nothing")
    frame = table()
    frame.loc[0, "y"] = "rare"
    with pytest.raises(InputError, match="one row only"):
        advised(frame, test_size=0)


def test_missing_cells_are_counted_beside_sparse_views():
    frame = table(n=1000, missing=3)
    found = recommend(Joined(frame, sparse={"counts": csr_array(np.eye(1000))}), check_spec({"target": "y"}))
    assert "3 missing cells (0.07 %)" in found.facts
    assert ("missing", "impute") in [(one.setting, one.value) for one in found.advice]


def test_that_features_take_the_place_of_kernels_is_said():
    def said(n, **settings):
        found, advice = advised(table(n=n), **settings)
        assert advice["method"] == DEFAULT
        return found.advice[0].why

    assert "7 kernels of 6400 rows need 1.1 GB, and 0.1 GB may be used: features" in said(
        8000, max_memory="100MB"
    )
    assert "features" not in said(8000, max_memory="8GB")
    assert "features" not in said(8000, max_memory="100MB", approximation="none")
    assert "kernels of 24000 rows take long: features" in said(30000, max_memory="100GB")


def test_recommended_settings_can_be_fitted():
    from kernelweave_app.runs.fitting import make_model

    frame = table(missing=2)
    for one in QUESTIONS:
        found, _ = advised(frame, one.name)
        prepared = prepare(Joined(frame), found.spec)
        make_model(found.spec, prepared, np.arange(0)).get_params()
    for preset in PRESETS:
        check_spec({"target": "y", **preset_settings(preset.name, "simple")})
        assert preset_settings(preset.name, "simple") == preset.settings
    # quick and careful ones stay plain fits
    assert [preset_settings(one.name, DEFAULT)["cv"] for one in PRESETS] == [5, 5, 10]
    assert preset_settings("careful", DEFAULT)["nested"] == 5


class Clock:
    """Fits that take a time of their own: each look at the clock after a fit adds what it costs."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def estimated(monkeypatch, power, n, budget=6.0, constant=1e-4):
    from kernelweave_app.runs import estimating

    clock, fitted = Clock(), []

    def fit(spec, prepared, rows, watch):
        fitted.append(len(rows))
        clock.now += constant * len(rows) ** power
        return 7

    monkeypatch.setattr(estimating, "_fit", fit)
    spec = Spec(target="y", test_size=0)
    return estimate_fit(spec, prepare(Joined(table(n)), spec), budget=budget, clock=clock), fitted


@pytest.mark.parametrize("power", [1.0, 2.0, 2.8])
def test_times_that_are_a_power_of_the_rows_are_found(monkeypatch, power):
    n, constant = 20000, 1e-5
    found, fitted = estimated(monkeypatch, power, n, constant=constant)
    true = constant * n**power * fits_of(Spec(target="y"), "classification", power)
    assert max(fitted) < n or power == 1.0
    assert found.seconds == pytest.approx(true, rel=1e-6)
    assert found.low < true < found.high
    assert found.exponent == pytest.approx(power)
    # these fits cannot be cut short: all but the last are within the budget
    assert sum(constant * rows**power for rows in fitted[:-1]) < 6.0
    assert found.memory >= 3 * 8 * n * n


def test_small_tables_are_measured_whole(monkeypatch):
    found, fitted = estimated(monkeypatch, 1.0, 100)
    assert fitted[-1] == 100
    assert found.sure().startswith("Sure")
    assert span(found.low).startswith("under")


def test_an_estimate_of_a_real_fit():
    spec = Spec(target="y")
    prepared = prepare(Joined(table(90)), spec)
    found = estimate_fit(spec, prepared, budget=1.0)
    assert isinstance(found, Estimate)
    assert 0 <= found.low <= found.seconds <= found.high
    assert found.n_rows == 72
    with pytest.raises(InputError, match="scor"):
        estimate_fit(Spec(target="y", scoring="r3"), prepared)


def test_reports_list_what_was_used():
    frame = table()
    spec = Spec(target="y")
    used = used_settings(spec, prepare(Joined(frame), spec))
    assert used["Target"] == "y"
    assert not {"Values of alpha", "Folds", "Key", "Rows with missing values", "Sparse views"} & set(used)
    spec = Spec(target="y", method="simple", repeats=2, missing="drop", Cs="7")
    used = used_settings(spec, prepare(Joined(table(missing=3)), spec))
    assert used["Values of C"] == "7"
    assert "Values of alpha" not in used
    assert used["Repetitions"] == "2"
    assert used["Rows with missing values"] == "drop"
    assert used["Standardise columns"] == "yes"


def test_a_changed_table_is_noticed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    told = trace({"t": str(path)}, Spec(seed=3))
    told.write(tmp_path)
    found = read_lineage(tmp_path)
    assert found.tables[0].sha256 == hashlib.sha256(b"a,b\n1,2\n").hexdigest()
    assert found.changed == []
    assert found.seed == 3
    assert "--spec spec.toml" in found.command
    path.write_text("a,b\n1,3\n")
    assert "has changed since" in read_lineage(tmp_path).changed[0]
    path.unlink()
    assert "not there any more" in read_lineage(tmp_path).changed[0]
    assert read_lineage(tmp_path / "elsewhere") is None


def test_a_table_is_known_by_its_content(tmp_path):
    """The model file and the folder of its run know it; another name of the file does not matter."""
    for name, text in {"t.csv": "a,b\n1,2\n", "copy.csv": "a,b\n1,2\n", "other.csv": "a,b\n1,3\n"}.items():
        (tmp_path / name).write_text(text)
    run = tmp_path / "run"
    run.mkdir()
    assert not learnt_from(run, tmp_path / "t.csv")
    trace({"t": str(tmp_path / "t.csv")}, Spec()).write(run)
    for model in (run, run / "model.kw"):
        assert learnt_from(model, tmp_path / "copy.csv")
        assert not learnt_from(model, tmp_path / "other.csv")
        assert not learnt_from(model, tmp_path / "missing.csv")
    # a table that could not be read has no checksum, as has none that is missing
    trace({"gone": str(tmp_path / "gone.csv")}, Spec()).write(run)
    assert not learnt_from(run, tmp_path / "missing.csv")
    # what `read_lineage` refuses tells nothing, and is no reason to refuse scores
    known = hashlib.sha256(b"a,b\n1,2\n").hexdigest()
    for damaged in ("{", "[]", f'{{"tables": [{{"sha256": "{known}"}}]}}'):
        (run / "lineage.json").write_text(damaged)
        assert not learnt_from(run, tmp_path / "t.csv")
        with pytest.raises(InputError, match=r"lineage\.json cannot be read"):
            read_lineage(run)


@pytest.mark.parametrize(
    ("missing", "share", "wanted"),
    [
        (0, 0.5, ["120 rows, 4 columns", "2 classes, equally frequent"]),
        (1, 0.25, ["120 rows, 4 columns", "1 missing cell (", "2 classes, from 30 (ill) to 90 (well) rows"]),
    ],
)
def test_facts_of_a_table(missing, share, wanted):
    facts = advised(table(missing=missing, share=share))[0].facts
    assert len(facts) == len(wanted) + 1
    for fact, beginning in zip(facts, wanted, strict=False):
        assert fact.startswith(beginning)
    assert facts[-1] == "96 rows to learn from, 24 held out"
