"""Survival on the command line: whole runs, predictions, scores, evidence, and errors that name rows.

Modules: `runs/survival`, `runs/writing`, `cli/learning`, `cli/using`, `runs/fitting`, `runs/reading`,
`runs/preparing`.
"""

import json
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("jinja2")

import kernelweave as kw
from kernelweave._errors import InputError
from kernelweave_app.cli import main
from kernelweave_app.cli.output import Result
from kernelweave_app.runs.doubts import find_giveaways
from kernelweave_app.runs.evidence import read_evidence
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.preparing import prepare
from kernelweave_app.runs.spec import Spec
from kernelweave_app.runs.survival import columns_of_times, read_events, read_times, said, without_negative

#: Of the runs here few are looked at: those with the mark `drawn`.
pytestmark = pytest.mark.usefixtures("undrawn")

TIMES = ["--time", "days", "--event", "status"]
FAST = ["--kernels", "linear; rbf(gamma=0.2)", "--cv", "3"]
#: The same with a C that is given.
FIXED = [*FAST, "--cs", "0.3,"]


def patients(n=110, seed=0):
    """Simulated times of death, of which the columns gene_0 and lab_1 say something."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 4)).round(3), columns=["gene_0", "gene_1", "lab_0", "lab_1"])
    death = rng.exponential(400.0 * np.exp(-1.2 * table["gene_0"] - 0.5 * table["lab_1"]))
    end = rng.uniform(100.0, 1500.0, n)
    days = np.ceil(np.minimum(death, end)).astype(int)
    return table.assign(days=days, status=np.where(death <= end, "dead", "alive"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with a table, a run and what the command printed as JSON."""
    folder = tmp_path_factory.mktemp("survival")
    patients().to_csv(folder / "patients.csv", index=False)
    fit = ["fit", str(folder / "patients.csv"), *TIMES, *FAST, "--views", "auto", "--budget", "0"]
    with open(folder / "told.json", "w", encoding="utf8") as told, redirect_stdout(told):
        assert main([*fit, "--out", str(folder / "run"), "--json"]) == 0
    return folder


def test_a_run_has_scores_out_of_fold_beside_equal_weights(run):
    told = json.loads((run / "told.json").read_text())
    Result(**told)
    assert told["task"] == "survival"
    assert told["n_training"] == 88
    assert told["n_held_out"] == 22
    outer = told["scores_out_of_fold"]
    one = outer["concordance"]
    assert 0.6 < one["low"] < one["value"] < one["high"] < 1.0
    assert (
        outer["integrated Brier score"]["value"]
        < outer["integrated Brier score of one curve for all"]["value"]
    )
    gain = outer["gain over equal weights"]
    other = outer["concordance of equal weights"]["value"]
    assert gain["value"] == pytest.approx(one["value"] - other, abs=1e-12)
    assert sum(source["weight"] for source in told["sources"]) == pytest.approx(1.0)
    assert {source["name"] for source in told["sources"]} == {"gene", "lab"}
    assert any("110 rows" in line and "events" in line for line in told["messages"])


def test_its_model_is_that_of_python(run):
    table, model = patients(), kw.load(run / "run" / "model.skops")
    held = pd.read_csv(run / "run" / "predictions.csv")
    X = table.loc[held["row"], model.feature_names_in_]
    assert model.predict(X) == pytest.approx(held["risk"].to_numpy(), abs=1e-12)
    event = (table["status"] == "dead").to_numpy()[held["row"]]
    assert (held["truth event"].to_numpy() == event).all()
    assert (held["truth time"].to_numpy() == table["days"].to_numpy()[held["row"]]).all()
    told = json.loads((run / "told.json").read_text())["scores"]["concordance"]["value"]
    assert told == pytest.approx(model.score(X, held[["truth event", "truth time"]].to_numpy()), abs=1e-12)


def test_scores_out_of_fold_are_those_of_fits_in_python(run):
    """Folds, fits and scores again, by hand."""
    from sklearn.model_selection import StratifiedKFold, train_test_split

    table, model = patients(), kw.load(run / "run" / "model.skops")
    X = table[["gene_0", "gene_1", "lab_0", "lab_1"]]
    y = np.column_stack([table["status"] == "dead", table["days"]]).astype(float)
    train, _ = train_test_split(np.arange(110), test_size=0.2, random_state=0, stratify=y[:, 0])
    train = np.sort(train)
    right = total = 0.0
    folds = StratifiedKFold(3, shuffle=True, random_state=0).split(train, y[train, 0])
    for inside, outside in folds:
        seen, new = train[inside], train[outside]
        fold = kw.MKLSurvival(**model.get_params(deep=False)).fit(X.iloc[seen], y[seen])
        time, event = y[new, 1], y[new, 0] > 0
        n = sum(((time > one) | ((time == one) & ~event)).sum() for one in time[event])
        right += n * fold.score(X.iloc[new], y[new])
        total += n
    told = json.loads((run / "told.json").read_text())["scores_out_of_fold"]["concordance"]["value"]
    # the score that is computed from sums of counts
    assert told == pytest.approx(right / total, abs=1e-12)


def said_by_script(folder, capsys):
    """What the script of a run prints."""
    path = folder / "script.py"
    capsys.readouterr()
    exec(compile(path.read_text("utf8"), str(path), "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out


def test_its_script_makes_the_model_again(run, capsys):
    made = said_by_script(run / "run", capsys)
    model = kw.load(run / "run" / "model.skops")
    assert f"C {model.C_:.6g}," in made
    told = json.loads((run / "told.json").read_text())["scores"]["concordance"]["value"]
    assert f"held-out score {told:.2f}" in made


def test_its_report_shows_curves_and_calibration(run):
    page = (run / "run" / "report.html").read_text("utf8")
    # tables have the same titles as figures
    for name in ("Survival by risk out of fold", "Calibration of survival"):
        assert f'<svg role="img" aria-label="{name}"' in page
    assert 'aria-label="Scores of training rows out of fold"' in page
    assert "prefers-color-scheme: dark" in page
    found = read_evidence(run / "run")
    assert found["out-of-fold times"].sentence.split(". ")[0] in re.sub(r"\s+", " ", page)
    groups = found["risk groups"]
    survival = [one.value for one in groups.values.values()]
    assert survival == sorted(survival, reverse=True)
    assert sum(groups.details["rows"]) == 88


def test_predictions_at_times(run, capsys):
    table, out = str(run / "patients.csv"), run / "p.csv"
    predict = ["predict", str(run / "run"), table, "--out", str(out)]
    assert main([*predict, "--times", "100,365"]) == 0
    found = pd.read_csv(out)
    assert list(found) == ["row", "risk", "survival at 100", "survival at 365"]
    model = kw.load(run / "run" / "model.skops")
    X = patients()[model.feature_names_in_]
    assert found.iloc[:, 2:].to_numpy() == pytest.approx(model.predict_survival_function(X, [100, 365]))
    capsys.readouterr()
    assert main([*predict, "--times", "soon"]) == 2
    assert main([*predict, "--std"]) == 2
    assert main([*predict, "--coverage", "0.9"]) == 2
    said_ = capsys.readouterr().err
    assert "--times must be numbers" in said_
    assert "this model is a survival model" in said_


def test_evaluate_takes_the_columns_of_the_run(run, tmp_path, capsys):
    new = patients(60, seed=1)
    new.to_csv(tmp_path / "new.csv", index=False)
    assert main(["evaluate", str(run / "run"), str(tmp_path / "new.csv")]) == 0
    text = capsys.readouterr().out
    model = kw.load(run / "run" / "model.skops")
    y = np.column_stack([new["status"] == "dead", new["days"]]).astype(float)
    value = model.score(new[model.feature_names_in_], y)
    assert f"concordance: {value:.2f} (95 % interval" in text
    other = new.rename(columns={"days": "weeks"}).assign(status=(new["status"] == "dead") + 1)
    other.to_csv(tmp_path / "other.csv", index=False)
    named = ["evaluate", str(run / "run"), str(tmp_path / "other.csv"), "--time", "weeks"]
    assert main([*named, "--event", "status=2"]) == 0
    assert f"concordance: {value:.2f} (95 % interval" in capsys.readouterr().out
    assert main([*named, "--target", "status"]) == 2
    # a run on its own rows
    assert main(["evaluate", str(run / "run"), str(run / "patients.csv")]) == 0
    assert "88 of these 110 rows were in the fit." in capsys.readouterr().out
    # the others are those that it held out, with the scores that it gave them
    assert main(["evaluate", str(run / "run"), str(run / "patients.csv"), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    said = read_evidence(run / "run")["held-out times"].values
    assert "integrated Brier score of one curve for all" in said
    assert {name: scores[name]["value"] for name in said} == pytest.approx(
        {name: one.value for name, one in said.items()}, rel=1e-9
    )


def test_evidence_of_sources(run, tmp_path, capsys):
    table, made = str(run / "patients.csv"), str(tmp_path / "run")
    assert main(["fit", table, *TIMES, *FIXED, "--views", "auto", "--budget", "0", "--out", made]) == 0
    command = ["evidence", made, table, "--what", "sources", "stability", "omission"]
    assert main([*command, "--halves", "2", "--divisions", "2"]) == 0
    text = capsys.readouterr().out
    assert (
        "Does the model use gene? Yes: where it is exchanged between held-out rows, the mean loss of" in text
    )
    assert "has a mean concordance of" in text
    assert "R^2" not in text
    assert "accuracy" not in text
    assert "Concordance of 88 training rows out of fold" in text  # is kept
    assert main([*command[:3], "--what", "learning-curve"]) == 2


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["dead", "alive"], True),
        (["Yes", "no"], True),
        (["TRUE", "FALSE"], True),
        ([1, 0], True),
        ([1.0, 0.0], True),
        ([True, False], True),
        ([2, 1], False),
        (["relapse", "none"], False),
    ],
)
def test_events_are_read_by_words_or_by_a_value(values, words):
    column = pd.Series(values, name="status")
    if words:
        assert read_events(column).tolist() == [True, False]
    else:
        with pytest.raises(InputError, match=r"does not say which rows have the event.*status="):
            read_events(column)
    assert read_events(column, [str(values[0])]).tolist() == [True, False]
    with pytest.raises(InputError, match="has no value 'gone'"):
        read_events(column, ["gone"])


def test_names_of_columns_may_hold_the_sign():
    assert columns_of_times(Spec(time="t", event="a=b"), ["t", "a=b"]) == ("t", "a=b", [])
    assert columns_of_times(Spec(time="t", event="a=b=2,3"), ["t", "a"]) == ("t", "a", ["b=2", "3"])


@pytest.mark.parametrize(
    ("rows", "column", "value", "words"),
    [
        ([3, 7], "days", -5, r"negative values, in rows 3 \(-5\), 7 \(-5\)"),
        ([4], "days", None, "missing values, in row 4"),
        ([4], "status", None, "of the event has missing values, in row 4"),
        ([5], "days", "soon", r"must hold numbers, in row 5 \(soon\)"),
        (range(12), "status", "alive", "No row has an event"),
    ],
)
def test_wrong_rows_are_named(rows, column, value, words):
    table = patients(12).astype({column: object})
    table.loc[list(rows), column] = value
    with pytest.raises(InputError, match=words):
        read_times(table, Spec(time="days", event="status"))


def test_an_event_may_be_at_once():
    table = patients(12).astype({"days": float})
    table.loc[[3, 7], "days"] = 0.0
    assert read_times(table, Spec(time="days", event="status"))[[3, 7], 1].tolist() == [0.0, 0.0]


def test_rows_without_a_time_are_left_out_where_that_is_asked_for(tmp_path, capsys):
    table = patients(60).astype({"days": float})
    table.loc[[2, 9], "days"] = None
    table.to_csv(tmp_path / "p.csv", index=False)
    fit = ["fit", str(tmp_path / "p.csv"), *TIMES, *FAST, "--cs", "0.1,", "--budget", "0"]
    assert main([*fit, "--out", str(tmp_path / "run")]) == 2
    assert "--missing drop" in capsys.readouterr().err
    assert main([*fit, "--out", str(tmp_path / "run"), "--missing", "drop", "--test-size", "0"]) == 0
    text = capsys.readouterr().out
    kept = table.dropna()
    y = np.column_stack([kept["status"] == "dead", kept["days"]])
    assert "Left out 2 rows with missing values or negative times." in text
    assert said(y) in text
    assert kw.load(tmp_path / "run" / "model.skops").C_ == 0.1
    assert "rows were held out" not in text  # those out of fold played no part


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--time", "days"], "--event is needed beside --time"),
        (["--event", "status"], "--time is needed beside --event"),
        (["--time", "day", "--event", "status"], "Did you mean 'days'?"),
        ([*TIMES, "--target", "lab_0"], "take the place of --target"),
        ([*TIMES, "--task", "regression"], "are for survival"),
        (["--time", "days", "--event", "days"], "must be two columns"),
        ([*TIMES, "--method", "rls2"], "needs a learner that takes any loss"),
        ([*TIMES, "--cs", "0.1,1"], "chooses C itself"),
        ([*TIMES, "--balanced"], "but this is survival"),
        ([*TIMES, "--scoring", "roc_auc"], "'likelihood' or 'concordance'"),
        ([*TIMES, "--loss", "hinge", "--method", "lp"], "that of Cox's model"),
        ([*TIMES, "--alphas", "0.1"], "--alphas has no meaning for survival"),
        ([*TIMES, "--nested", "3"], "--nested has no meaning for survival"),
        ([*TIMES, "--rule", "1se"], "--rule has no meaning for survival"),
        ([*TIMES, "--no-intercept"], "intercept has no meaning for survival"),
    ],
)
def test_settings_that_do_not_belong_to_survival(more, words, tmp_path, capsys):
    patients(30).to_csv(tmp_path / "p.csv", index=False)
    assert main(["fit", str(tmp_path / "p.csv"), *more, "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run" / "model.skops").exists()


def test_repeated_folds_are_no_more_rows(tmp_path):
    patients(60).to_csv(tmp_path / "p.csv", index=False)
    more = ["--kernels", "linear", "--budget", "0", "--cv", "2", "--repeats", "2", "--splits", "random"]
    assert main(["fit", str(tmp_path / "p.csv"), *TIMES, *more, "--out", str(tmp_path / "run")]) == 0
    found = json.loads((tmp_path / "run" / "evidence.json").read_text())
    assert found["out-of-fold times"]["n"] == 48


@pytest.mark.parametrize("command", ["path", "recommend"])
def test_commands_without_survival_say_so(command, tmp_path, capsys):
    patients(30).to_csv(tmp_path / "p.csv", index=False)
    out = str(tmp_path / "out")
    assert main([command, str(tmp_path / "p.csv"), *TIMES, "--out", out]) == 2
    assert "survival" in capsys.readouterr().err


def test_columns_that_give_times_away_are_named():
    table = patients(60)
    table["weeks"] = table["days"] / 7.0
    table["state"] = table["status"].map({"dead": "d", "alive": "a"})
    prepared = prepare(Joined(table), Spec(time="days", event="status"))
    assert find_giveaways(prepared).keys() == {"weeks", "state"}


def test_the_time_of_a_run_is_estimated(tmp_path, capsys):
    patients(60).to_csv(tmp_path / "p.csv", index=False)
    assert main(["fit", str(tmp_path / "p.csv"), *TIMES, *FAST, "--estimate"]) == 0
    assert "Time:" in capsys.readouterr().out


def test_the_commands_of_the_guide_run(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parents[1] / "docs" / "user_guide" / "survival.md").read_text("utf8")
    [commands] = re.findall(r"^```console\n(.*?)^```$", text, re.S | re.M)
    monkeypatch.chdir(tmp_path)
    patients(60).to_csv("patients.csv", index=False)
    patients(20, seed=1).to_csv("new.csv", index=False)
    for line in commands.splitlines():
        program, *arguments = shlex.split(line.removeprefix("$ "))
        assert program == "kernelweave"
        # a quick fit in place of the usual one
        assert main([*arguments, *([*FIXED, "--budget", "0"] if arguments[0] == "fit" else [])]) == 0
    assert list(pd.read_csv("risks.csv"))[2:] == ["survival at 365", "survival at 730"]


# ---- strata -----------------------------------------------------------------------------------------


def patients_of_hospitals(n=120, seed=0):
    """The same of three hospitals, named by numbers, whose times are of other sizes."""
    table = patients(n, seed)
    hospital = np.arange(n) % 3 + 1
    return table.assign(days=table["days"] * 10 ** (hospital - 1), hospital=hospital)


@pytest.fixture(scope="module")
def stratified(tmp_path_factory, no_drawing):
    """A folder with a table, a run with strata and what the command printed as JSON."""
    folder = tmp_path_factory.mktemp("strata")
    patients_of_hospitals().to_csv(folder / "patients.csv", index=False)
    fit = ["fit", str(folder / "patients.csv"), *TIMES, "--strata", "hospital", *FIXED, "--views", "auto"]
    fit += ["--budget", "0", "--out", str(folder / "run"), "--json"]
    with no_drawing(), open(folder / "told.json", "w", encoding="utf8") as told, redirect_stdout(told):
        assert main(fit) == 0
    return folder


def test_a_run_with_strata_is_that_of_python(stratified, capsys):
    told = json.loads((stratified / "told.json").read_text())
    Result(**told)
    assert any("120 rows" in line and "3 strata" in line for line in told["messages"])
    model = kw.load(stratified / "run" / "model.skops")
    assert model.strata_.tolist() == ["1", "2", "3"]
    assert "hospital" not in model.feature_names_in_
    table, held = patients_of_hospitals(), pd.read_csv(stratified / "run" / "predictions.csv")
    assert (held["truth stratum"].to_numpy() == table["hospital"].to_numpy()[held["row"]]).all()
    X = table[model.feature_names_in_]
    y = pd.DataFrame(
        {"event": table["status"] == "dead", "time": table["days"], "stratum": table["hospital"].astype(str)}
    )
    train = np.setdiff1d(np.arange(120), held["row"])
    again = kw.MKLSurvival(**model.get_params(deep=False)).fit(X.iloc[train], y.iloc[train])
    assert again.predict(X) == pytest.approx(model.predict(X), abs=1e-9)
    value = model.score(X.iloc[held["row"]], y.iloc[held["row"]])
    assert told["scores"]["concordance"]["value"] == pytest.approx(value, abs=1e-12)
    # pairs of hospitals apart would be the order of their sizes
    assert told["scores_out_of_fold"]["concordance"]["value"] > 0.6
    made = said_by_script(stratified / "run", capsys)
    assert f"held-out score {value:.2f}" in made
    assert "same stratum" in (stratified / "run" / "report.html").read_text("utf8")


def test_new_rows_have_their_strata(stratified, tmp_path, capsys):
    model, new = kw.load(stratified / "run" / "model.skops"), patients_of_hospitals(60, seed=1)
    new.to_csv(tmp_path / "new.csv", index=False)
    new.rename(columns={"hospital": "clinic"}).to_csv(tmp_path / "other.csv", index=False)
    X, strata = new[model.feature_names_in_], new["hospital"].astype(str).to_numpy()
    wanted = model.predict_survival_function(X, [365], strata=strata)[:, 0]
    out = tmp_path / "risks.csv"
    for file, more in (("new.csv", []), ("other.csv", ["--strata", "clinic"])):
        command = [str(stratified / "run"), str(tmp_path / file), *more]
        assert main(["predict", *command, "--times", "365", "--out", str(out)]) == 0
        assert pd.read_csv(out)["survival at 365"].to_numpy() == pytest.approx(wanted)
        capsys.readouterr()
        assert main(["evaluate", *command, "--out", str(tmp_path / "scored.csv")]) == 0
        y = np.column_stack([(new["status"] == "dead").astype(object), new["days"], strata])
        assert f"concordance: {model.score(X, y):.2f} (95 % interval" in capsys.readouterr().out
        assert list(pd.read_csv(tmp_path / "scored.csv"))[-3:] == [
            "truth event",
            "truth time",
            "truth stratum",
        ]
    command = [str(stratified / "run"), str(tmp_path / "other.csv")]
    assert main(["predict", *command, "--out", str(out)]) == 2
    assert "hospital" in capsys.readouterr().err
    new.assign(hospital=4).to_csv(tmp_path / "fourth.csv", index=False)
    assert main(["predict", command[0], str(tmp_path / "fourth.csv"), "--out", str(out)]) == 0
    assert f"{len(new)} rows of strata that are not in the fit (4)" in capsys.readouterr().out
    assert pd.read_csv(out).filter(like="survival at").isna().all(axis=None)
    # a file without its run does not name the column
    (tmp_path / "alone.skops").write_bytes((stratified / "run" / "model.skops").read_bytes())
    for verb in (["predict", "--out", str(out)], ["evaluate", *TIMES]):
        alone = [verb[0], str(tmp_path / "alone.skops"), str(tmp_path / "new.csv"), *verb[1:]]
        assert main(alone) == 2
        assert "name their column with --strata" in capsys.readouterr().err
        assert main([*alone, "--strata", "hospital"]) == 0


def test_evidence_of_strata_compares_rows_within_them(stratified, capsys):
    table = str(stratified / "patients.csv")
    assert main(["evidence", str(stratified / "run"), table, "--what", "sources"]) == 0
    assert "Does the model use gene? Yes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([*TIMES, "--strata", "ward"], "Did you mean"),
        ([*TIMES, "--strata", "days"], "must be a column beside"),
        (["--target", "lab_0", "--strata", "hospital"], "is for survival"),
    ],
)
def test_wrong_strata_are_named(more, words, tmp_path, capsys):
    table = patients_of_hospitals(30).assign(wards=1)
    table.to_csv(tmp_path / "p.csv", index=False)
    assert main(["fit", str(tmp_path / "p.csv"), *more, "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err


def test_rows_without_a_stratum_are_named():
    table = patients_of_hospitals(12).astype({"hospital": object})
    table.loc[4, "hospital"] = None
    with pytest.raises(InputError, match="of the strata has missing values, in row 4"):
        read_times(table, Spec(time="days", event="status", strata="hospital"))


def test_strata_of_another_model_are_refused(run, tmp_path, capsys):
    command = ["predict", str(run / "run"), str(run / "patients.csv"), "--out", str(tmp_path / "p.csv")]
    assert main([*command, "--strata", "status"]) == 2
    assert "for models that were fitted with strata" in capsys.readouterr().err


def test_rows_of_a_stratum_without_training_rows_have_a_risk_and_no_survival(stratified, tmp_path, capsys):
    table = patients_of_hospitals(60)
    # one row, which is held out of a fold, so that its fold's model has not seen its stratum
    table.loc[7, "hospital"] = 9
    table.to_csv(tmp_path / "patients.csv", index=False)
    fit = ["fit", str(tmp_path / "patients.csv"), *TIMES, "--strata", "hospital", *FIXED, "--budget", "0"]
    assert main([*fit, "--out", str(tmp_path / "run")]) == 0
    found = read_evidence(tmp_path / "run")
    assert "1 row of strata without training rows" in found["out-of-fold times"].tables[0].note
    assert found["out-of-fold times"].values["integrated Brier score"].value > 0
    # new rows: survival is left empty, and the others have theirs
    new = patients_of_hospitals(10, seed=2)
    new.loc[3, "hospital"] = 7
    new.to_csv(tmp_path / "new.csv", index=False)
    command = ["predict", str(stratified / "run"), str(tmp_path / "new.csv"), "--times", "100"]
    assert main([*command, "--out", str(tmp_path / "out.csv")]) == 0
    out = pd.read_csv(tmp_path / "out.csv")
    assert out["risk"].notna().all()
    assert np.flatnonzero(out["survival at 100"].isna()).tolist() == [3]
    model = kw.load(stratified / "run" / "model.skops")
    with pytest.raises(InputError, match="got 7 in row 3: a stratum without training rows"):
        model.predict_survival_function(
            new[model.feature_names_in_], strata=new["hospital"].astype(str).to_numpy()
        )


def test_negative_times_are_missing_only_where_such_rows_are_left_out():
    table, spec = patients(6), Spec(time="days", event="status", missing="drop")
    # a script has a line for it only where the table changed
    assert without_negative(table, spec) is table
    table.loc[2, "days"] *= -1
    assert without_negative(table, spec)["days"].isna().tolist() == [k == 2 for k in range(6)]
    for other in (spec.model_copy(update={"missing": "error"}), Spec(target="days", missing="drop")):
        assert without_negative(table, other) is table


def test_the_choice_of_a_run_is_said_in_words():
    from kernelweave_app.runs.fitting import count_alphas, describe_choice

    own = {"target": "y", "method": "rls2", "kernels": "linear", "cv": 4}
    for spec, task, words in (
        (Spec(time="t", event="e"), "survival", "lp, with C by 5 folds"),
        (Spec(target="y"), "classification", "lp, as a plain fit chooses, with C by 5 folds"),
        (
            Spec(target="y", group="who"),
            "regression",
            "rls2, as a plain fit chooses, with alpha by 5 folds that keep rows of one who together",
        ),
        (Spec(**own), "regression", "is chosen by 4 folds"),
        (Spec(**own), "classification", "is chosen by 4 folds with the same fractions of classes"),
        (Spec(**own, stratify=False), "classification", "is chosen by 4 folds"),
        (
            Spec(**own, group="who", splits="random", repeats=3),
            "classification",
            "is chosen by 4 random divisions, repeated 3 times, that keep rows of one who together",
        ),
    ):
        assert describe_choice(spec, task).endswith(words), (describe_choice(spec, task), words)
    assert count_alphas(Spec(**own, alphas="7", repeats=3), "regression") == (7, 12)
    assert count_alphas(Spec(time="t", event="e", Cs="0.5,"), "survival") == (1, 0)
    assert count_alphas(Spec(time="t", event="e"), "survival")[1] == 5
