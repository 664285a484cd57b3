"""Survival and several targets in the studio: what is said before a run, what a run shows, and a journey in a browser.

Modules: `runs/survival`, `studio/consequences`, `studio/looking`, `studio/comparing`, `studio/predicting`,
`runs/spec`.
"""

import re

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")
pytest.importorskip("nicegui")
pytest.importorskip("playwright", reason="needs playwright, of the dependency group test")

from playwright.sync_api import expect

import kernelweave as kw
from kernelweave import inspection
from kernelweave.inspection.held_times import compare_risks, concordance_of_rows
from kernelweave_app.runs.spec import Spec, event_setting, in_words_of
from kernelweave_app.runs.survival import obvious_times
from kernelweave_app.studio.catalogue import file_id
from kernelweave_app.studio.looking import role_of, target_kernel, with_role
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.story import sources_of, verdict
from kernelweave_app.studio.schema import Data, RunRequest
from kernelweave_app.studio.service import Studio
from studio_server import needs_core, run_here
from studio_visit import chromium, clear_tables, needs_chromium, session, studio, visit
from test_cli_survival import patients, patients_of_hospitals

__all__ = ["chromium", "session", "studio", "visit"]  # fixtures

pytestmark = needs_core
FAST = {"kernels": "linear; rbf(gamma=0.2)", "cv": 3}
VIEWS = {"gene": ["gene_*"], "lab": ["lab_*"]}
SURVIVAL = {"time": "days", "event": "status"}


def plots(n=60, n_targets=20):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(n, 4)), columns=["x0", "x1", "x2", "x3"])
    for k in range(n_targets):
        table[f"yield {k}"] = table[f"x{k % 4}"] + rng.normal(size=n) * (0.2 + 0.1 * k)
    return table


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A studio without pages, and a way to look at a table."""
    studio = Studio(tmp_path_factory.mktemp("desk"))

    def put(table, name="patients.csv"):
        table.to_csv(studio.places.files / name, index=False)
        return Data(tables=[next(ref.id for ref in studio.tables() if ref.name == name)])

    studio.put = put
    yield studio
    studio.store.close()


def told(studio, data, **settings):
    return {one.topic: one for one in studio.consequences(data, Spec(**settings))}


# ---- before a run ------------------------------------------------------------------------------------


def test_times_and_events_are_counted_and_proposed(desk):
    data = desk.put(patients())
    found = desk.times(data, Spec(**SURVIVAL))
    assert (found.n_events, found.n_censored) == (78, 32)
    assert (found.low, found.high) == (3.0, 1399.0)
    assert found.events == ["dead"]
    assert told(desk, data, **SURVIVAL) == {}
    proposed = told(desk, data, target="gene_0")["survival"]
    assert proposed.kind == "warn"
    assert proposed.settings == {**SURVIVAL, "target": "", "task": "auto"}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"age": [1, 2, 3], "time": [1.0, 2.0, 3.0], "event": [0, 1, 1]}, {"time": "time", "event": "event"}),
        ({"time": [1.0, 2.0, 3.0], "censored": [0, 1, 1]}, {"time": "time", "event": "censored=0"}),
        ({"time": [1.0, -2.0, 3.0], "event": [0, 1, 1]}, {}),
        ({"time": [1.0, 2.0, 3.0], "event": [0, 1, 2]}, {}),
        ({"time": [1.0, 2.0, 3.0], "days": [1.0, 2.0, 3.0], "event": [0, 1, 1]}, {}),
        ({"x": [1.0, 2.0, 3.0], "event": [0, 1, 1]}, {}),
        # zero is a time, and two values of many rows are none
        ({"time": [0, 2, 3], "event": [0, 1, 1]}, {"time": "time", "event": "event"}),
        ({"time": [1, 2, 2], "event": [0, 1, 1]}, {}),
        ({"time": [1, 2], "event": [0, 1]}, {"time": "time", "event": "event"}),
        ({"time": ["1", "2", "3"], "event": [0, 1, 1]}, {}),
        ({"time": [1.0, 2.0, 3.0], "event": [1, 1, 1]}, {}),
        ({"time": [1.0, 2.0, 3.0], "event": [None, None, None]}, {}),
    ],
)
def test_obvious_times(columns, expected):
    assert obvious_times(pd.DataFrame(columns)) == expected


def test_a_column_has_one_role_of_a_survival():
    data = Data(tables=["set-wine"])
    spec = Spec(time="days", event="status=2")
    assert [role_of(name, spec, data) for name in ("days", "status", "x")] == ["time", "event", "feature"]
    assert with_role("x", "time", Spec(target="y")) == {"time": "x", "task": "auto", "target": ""}
    assert with_role("status", "time", spec) == {"event": "", "time": "status", "task": "auto", "target": ""}
    assert with_role("days", "feature", spec) == {"time": ""}
    changed = {"target": "x", "task": "auto", "time": "", "event": "", "strata": "", "ties": "breslow"}
    assert with_role("x", "target", spec) == changed
    assert role_of("x", Spec(time="days", event="status", strata="x"), data) == "strata"
    assert with_role("x", "feature", Spec(time="days", event="status", strata="x")) == {"strata": ""}
    several = Spec(target="a,b, c")
    columns = ["a", "b, c", "d"]
    assert role_of("b, c", several, data, columns) == "target"
    assert with_role("d", "target", several, columns)["target"] == "a,b, c,d"
    assert with_role("a", "ignored", several, columns) == {"target": "b, c", "drop": ["a"]}


def test_every_fault_of_times_is_said_and_most_are_mended_by_their_button(desk):
    table = patients()
    swapped = told(
        desk, desk.put(table.assign(status=(table["status"] == "dead") * 1)), time="status", event="days"
    )
    assert swapped["swapped columns"].settings == {"time": "days", "event": "status"}

    bad = table.astype({"days": object})
    bad.loc[0, "days"], bad.loc[1, "days"], bad.loc[2, "status"], bad.loc[3, "days"] = "unknown", -1, None, 0
    data = desk.put(bad, "bad.csv")
    found = desk.times(data, Spec(**SURVIVAL))
    assert (found.n_unread, found.n_negative, found.n_missing, found.n_zero) == (1, 1, 1, 1)
    texts = [one.text for one in desk.consequences(data, Spec(**SURVIVAL)) if one.topic == "time"]
    assert len(texts) == 3
    assert any("negative time" in text for text in texts)
    mend = next(
        one for one in desk.consequences(data, Spec(**SURVIVAL)) if one.fix.startswith("Read it as numbers")
    )
    assert mend.settings == {"types": {"days": "number"}, "missing": "drop"}
    mended = desk.times(data, Spec(**SURVIVAL, **mend.settings))
    assert (mended.n_unread, mended.n_missing) == (0, 2)
    assert told(desk, data, **SURVIVAL)["target missing"].settings == {"missing": "drop"}


def test_rows_with_negative_times_are_left_out_by_a_button(desk):
    table = patients()
    table.loc[[1, 4], "days"] *= -1
    data = desk.put(table, "negative.csv")
    mend = told(desk, data, **SURVIVAL)["time"]
    assert mend.text.startswith("2 rows have a negative time")
    assert (mend.kind, mend.settings) == ("warn", {"missing": "drop"})
    with pytest.raises(kw.InputError, match=r"negative values, in rows 1 .*, 4 .* with `missing` drop"):
        desk.check(data, Spec(**SURVIVAL))
    after = Spec(**SURVIVAL, **FAST, Cs="0.3,", **mend.settings)
    found = desk.check(data, after)
    assert (found.n_dropped, found.n_training + found.n_held) == (2, 108)
    assert told(desk, data, **SURVIVAL, **mend.settings)["time"].kind == ""
    # the script of the run leaves out the same rows
    folder = desk.places.run(run_here(desk, RunRequest(data=data, spec=after)))
    space = {}
    exec((folder / "script.py").read_text("utf8"), space)
    held = pd.read_csv(folder / "predictions.csv")
    assert len(space["y"]) == 108
    assert not {1, 4} & {*held["row"]}
    assert space["model"].predict(space["X"].iloc[space["test"]]) == pytest.approx(held["risk"].to_numpy())


def test_values_of_events_may_hold_commas(desk):
    table = patients()
    causes = np.where(table["status"] == "dead", "stroke, fatal", "alive").astype(object)
    causes[:3] = 'the "other", unknown'
    data = desk.put(table.assign(status=causes), "causes.csv")
    setting = event_setting("status", ["stroke, fatal", 'the "other", unknown'])
    found = desk.times(data, Spec(time="days", event=setting))
    assert sorted(found.events) == ["stroke, fatal", 'the "other", unknown']
    # where one of the words says that there was no event, a button takes the others
    mend = told(desk, data, **SURVIVAL)["event"]
    assert f"'stroke, fatal' ({(causes == 'stroke, fatal').sum()} rows)" in mend.text
    assert desk.times(data, Spec(time="days", **mend.settings)).events == found.events
    assert in_words_of("form", mend.text).endswith("'the \"other\", unknown' (3 rows).")
    spec = Spec(time="days", event='status="stroke, fatal"')
    assert desk.times(data, spec).n_events == (causes == "stroke, fatal").sum()
    assert spec.predicted == "days until status is stroke, fatal"
    assert Spec(time="days", event="status=2,3").predicted == "days until status is 2 or 3"
    # other tables keep them
    draft = Desk(desk)
    draft.set_tables(data.tables)
    draft.set(time="days", event=setting, target="")
    table.assign(status=causes).to_csv(desk.places.files / "again.csv", index=False)
    draft.set_tables([file_id("again.csv")], instead={data.tables[0]: file_id("again.csv")})
    assert draft.spec.event == setting


def test_strata_are_those_of_python(desk):
    table = patients_of_hospitals()
    data = desk.put(table, "hospitals.csv")
    spec = Spec(**SURVIVAL, strata="hospital", **FAST, Cs="0.3,")
    assert "3 strata" in desk.check(data, spec).reason
    mend = told(desk, data, **SURVIVAL)["strata"]
    assert mend.settings == {"strata": "hospital"}
    assert "'hospital' with 3 values is used as a feature" in mend.text
    assert not [one for one in desk.consequences(data, spec) if one.kind == "warn"]
    assert desk.alignments(data, spec).names
    assert desk.kernels(data, spec).kernels
    runs = [
        run_here(desk, RunRequest(data=data, spec=one))
        for one in (spec, spec.model_copy(update={"Cs": "10,"}))
    ]
    model = kw.load(desk.places.run(runs[0]) / "model.skops")
    assert model.strata_.tolist() == ["1", "2", "3"]
    assert "hospital" not in model.feature_names_in_
    found = desk.predict(runs[0], data, [100.0])
    frame = pd.DataFrame(found.rows, columns=found.columns)
    own = model.predict_survival_function(
        table[model.feature_names_in_], [100.0], strata=table["hospital"].astype(str).to_numpy()
    )
    assert frame["survival at 100"].to_numpy() == pytest.approx(own[:, 0], abs=1e-7)
    assert found.apart.n_fitted == 96
    # pairs of rows are those of one hospital
    [test] = desk.compare(runs).tests
    shown = [
        next(m.value for m in desk.run(run).metrics if m.name == "concordance, held out") for run in runs
    ]
    assert test.difference == pytest.approx(shown[0] - shown[1])
    with pytest.raises(kw.InputError, match="strata"):
        desk.predict(runs[0], desk.put(table.drop(columns="hospital"), "none.csv"))


def test_events_of_other_values_are_named_by_a_button(desk):
    table = patients()
    codes = table.assign(status=np.where(table["status"] == "dead", 2, 1))
    codes.loc[:4, "status"] = 0
    data = desk.put(codes, "codes.csv")
    found = told(desk, data, **SURVIVAL)["event"]
    assert found.fix == "Count '2' as the event"
    after = {**SURVIVAL, **found.settings}
    assert desk.times(data, Spec(**after)).n_events == (codes["status"] == 2).sum()
    assert "competing risks" in told(desk, data, **after)["event"].text
    censored = table.assign(censored=(table["status"] == "alive") * 1).drop(columns="status")
    data = desk.put(censored, "censored.csv")
    mend = told(desk, data, time="days", event="censored")["event"]
    assert mend.settings == {"event": "censored=0"}
    assert desk.times(data, Spec(time="days", **mend.settings)).n_events == 78


def test_few_events_no_censored_rows_and_settings_of_other_tasks(desk):
    table = patients()
    few = table.assign(status=np.where(np.arange(len(table)) < 3, "dead", "alive"))
    assert told(desk, desk.put(few, "few.csv"), **SURVIVAL)["few events"].settings == {"cv": 3}
    every = told(desk, desk.put(table.assign(status="dead"), "all.csv"), **SURVIVAL)
    assert every["censoring"].settings["target"] == "days"
    data = desk.put(table)
    method = told(desk, data, **SURVIVAL, method="rls2", nested=5)["method"]
    after = Spec(**{**SURVIVAL, "method": "rls2", "nested": 5, **method.settings})
    assert desk.check(data, after).task == "survival"


def test_events_in_excess_of_a_common_risk_are_aligned_with():
    rng = np.random.default_rng(0)
    time, event = rng.exponential(size=40), rng.random(40) < 0.7
    order = np.argsort(time)
    at_risk = len(time) - np.arange(len(time))
    hazard = np.empty(len(time))
    hazard[order] = np.cumsum(event[order] / at_risk)  # Nelson and Aalen
    rest = event - hazard
    rest = (rest - rest.mean()) / rest.std()
    assert target_kernel(np.column_stack([event, time]), "survival") == pytest.approx(
        np.outer(rest, rest), abs=1e-9
    )


# ---- runs --------------------------------------------------------------------------------------------


def test_runs_are_compared_by_their_concordance(desk):
    data = desk.put(patients())
    spec = Spec(**SURVIVAL, **FAST, views=VIEWS, Cs="0.3")
    one, two = (
        run_here(desk, RunRequest(data=data, spec=spec.model_copy(update=more)))
        for more in ({}, {"kernels": "linear"})
    )
    found = desk.compare([one, two])
    assert not any("accuracy" in name for name in found.metrics)
    [test] = found.tests
    assert test.what == "concordance of held-out rows"
    values = [{m.name: m.value for m in run.metrics}["concordance, held out"] for run in found.runs]
    assert test.difference == pytest.approx(values[0] - values[1], abs=1e-12)
    assert test.low < test.difference < test.high
    numbers = desk.evidence.read(one).numbers
    assert verdict(numbers, "days until status").startswith(
        "The model orders rows by days until status better"
    )
    assert len(numbers["survival error"]["details"]["time"]) == 30
    sources, about = sources_of({**numbers, "omission": None})
    assert {row.name for row in sources} == {"gene", "lab"}
    assert about.startswith("Weights")


def test_predictions_at_times_are_those_of_the_model(desk):
    data, spec = desk.put(patients()), Spec(**SURVIVAL, **FAST, Cs="0.3", ties="efron")
    run = run_here(desk, RunRequest(data=data, spec=spec))
    found = desk.predict(run, data, [100.0, 365.0])
    frame = pd.DataFrame(found.rows, columns=found.columns)
    model = kw.load(desk.places.run(run) / "model.skops")
    assert model.ties == "efron"
    X = patients()[model.feature_names_in_]
    survival = model.predict_survival_function(X, [100.0, 365.0])
    assert frame["risk"].to_numpy() == pytest.approx(model.predict(X), abs=1e-7)
    assert frame[["survival at 100", "survival at 365"]].to_numpy() == pytest.approx(survival, abs=1e-7)
    assert found.apart.n_fitted == 88
    other = run_here(desk, RunRequest(data=data, spec=Spec(target="gene_0", drop=["days", "status"], **FAST)))
    with pytest.raises(kw.InputError, match="survival"):
        desk.predict(other, data, [1.0])


def test_equal_risks_do_not_differ_and_shuffled_ones_do():
    rng = np.random.default_rng(0)
    time, event = rng.exponential(size=200), rng.random(200) < 0.8
    same = compare_risks(time, event, -time, -time)
    assert (same.difference, same.p_value) == (0.0, 1.0)
    other = rng.permutation(time)
    found = compare_risks(time, event, -time, other)
    values = [concordance_of_rows(time, event, risk).value for risk in (-time, other)]
    assert found.difference == pytest.approx(values[0] - values[1])
    assert found.p_value < 1e-6
    assert found.low > 0.2
    # the interval of 95 % leaves out 0 where the p-value is below 5 %, also at the border and with few rows
    for n in (6, 12, 30):
        for _ in range(200):
            time, risks = rng.exponential(size=n), rng.normal(size=(2, n))
            found = compare_risks(time, np.arange(n) % 3 > 0, *risks)
            assert (found.p_value < 0.05) == (found.low > 0.0 or found.high < 0.0)


def test_twenty_targets_have_a_row_each(desk):
    table = plots()
    names = [name for name in table if name.startswith("yield")]
    data, spec = desk.put(table, "plots.csv"), Spec(target=",".join(names), **FAST, targets="shared")
    run = run_here(desk, RunRequest(data=data, spec=spec))
    results, numbers = desk.results(run), desk.evidence.read(run).numbers
    assert results.held.targets == names
    model = kw.load(desk.places.run(run) / "model.skops")
    rows = [int(row[0]) for row in results.held.rows]
    truth, guess = table.loc[rows, names].to_numpy(), model.predict(table.loc[rows, model.feature_names_in_])
    r2 = 1 - ((truth - guess) ** 2).sum(axis=0) / ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)
    shown = [numbers["targets"]["values"][name]["value"] for name in names]
    assert shown == pytest.approx(r2, abs=1e-6)
    assert f"20 targets is {r2.mean():.2f}" in verdict(numbers, "")
    found = desk.predict(run, data)
    assert found.targets == names
    assert {f"prediction {name}" for name in names} <= set(found.columns)
    assert found.scores


# ---- pages -------------------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.full
@needs_chromium
@pytest.mark.usefixtures("undrawn")
def test_from_upload_to_survival_at_times(visit, tmp_path):
    patients().to_csv(tmp_path / "patients.csv", index=False)
    here = visit(width=390)
    page = here.page
    clear_tables(here)
    page.locator("input[type=file]").first.set_input_files(tmp_path / "patients.csv")
    # columns that are called so need no press
    expect(page.get_by_role("button", name="Time until an event")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text("censored", exact=True)).to_be_visible()
    expect(page.get_by_text("Times from 3 to 1399.")).to_be_visible()
    here.open("/method")
    expect(page.get_by_text("Survival: 110 rows, 78 events, 32 censored")).to_be_visible()
    expect(page.get_by_role("button", name="Recommend")).to_have_count(0)
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url("**/runs?run=*")
    run = page.url.rpartition("=")[2]
    expect(page.get_by_role("button", name="Understand").first).to_be_visible()
    here.open(f"/understand?run={run}")
    expect(page.get_by_text("orders rows by days until status better than chance")).to_be_visible()
    folder = next(here.studio.folder.glob(f"**/{run}"))
    model = kw.load(folder / "model.skops")
    held = pd.read_csv(folder / "predictions.csv")
    y = held[["truth event", "truth time"]].to_numpy()
    value = inspection.concordance(y, model.predict(patients().loc[held["row"], model.feature_names_in_]))
    region = page.get_by_role("tabpanel")
    expect(region.get_by_text(re.compile(rf"^{value:.2f} \("))).to_be_visible()
    assert page.get_by_text("accuracy").count() == 0
    here.tab("Survival")
    for name in ("Survival by risk", "Calibration of survival", "Error of survival over time"):
        expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()
    here.open(f"/use?run={run}")
    page.get_by_label("Times, separated by commas").fill("100, 365")
    here.choose("Table", "patients.csv", exact=False)
    page.get_by_role("button", name="Predict", exact=True).click()
    card = page.get_by_role("region", name="New predictions", exact=True)
    first = card.get_by_role("table").last.locator("tbody tr").first
    row = patients().loc[[0], model.feature_names_in_]
    at = model.predict_survival_function(row, [100.0, 365.0])[0]
    for number in (model.predict(row)[0], *at):
        expect(first.get_by_text(f"{number:.4g}", exact=True).first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
