"""Journeys in a real browser, from an empty project to an answer, on real data; clicks are counted."""

import io
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
from scipy import sparse

from studio_journey import Keyboard, Pointer, look
from studio_server import Command, needs_core
from studio_visit import WAIT, Visit, chromium, needs_chromium

__all__ = ["chromium"]  # fixtures

pytestmark = [pytest.mark.browser, needs_core, needs_chromium]


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    studio = Command(tmp_path_factory.mktemp("journeys"))
    yield studio
    studio.close()


@pytest.fixture(scope="module")
def session(chromium, studio):
    here = Visit(chromium, studio)
    here.log_in()
    kept = here.context.storage_state()
    here.close()
    return kept


@pytest.fixture
def start(chromium, studio, session):
    """A page in a project that holds nothing."""
    here = Visit(chromium, studio, storage_state=session, reduced_motion="reduce")
    here.open("/")

    def make(name):
        project = here.page.evaluate(
            """async (name) => (await (await fetch('/api/projects', {method: 'POST', body: JSON.stringify({name}),
                headers: {'Content-Type': 'application/json'}})).json()).id""",
            name,
        )
        here.base = f"/p/{project}"
        here.open(f"{here.base}/")
        expect(here.page.get_by_text("No table is chosen yet")).to_be_visible()
        return here

    yield make
    here.close()
    assert here.foreign == [], here.foreign
    assert here.errors == [], here.errors


@pytest.fixture(scope="module")
def patients(data_dir):
    """Real tumours: micro-RNA, messenger RNA and proteins of 150 patients, and their subtype."""
    frame = pd.read_csv(data_dir / "breast_tcga_train.csv.gz")
    patient = pd.Series([f"p{k:03d}" for k in range(len(frame))], name="patient")
    return pd.concat([patient, frame], axis=1)


def columns(frame, view):
    return [c for c in frame if c.startswith(view)]


def understand(hand):
    """From the page of runs to what the run found; the id of the run."""
    ready = hand.page.get_by_role("button", name="Understand").first
    expect(ready).to_be_visible(timeout=WAIT)
    hand.press(ready)
    hand.page.wait_for_url("**/understand?run=*")
    expect(hand.page.get_by_role("region", name="Answers", exact=True)).to_be_visible()
    return hand.page.url.rpartition("=")[2]


def begin(hand, preset="Quick"):
    """From any page to a run that has begun, with a preset."""
    hand.step("Method", "/method")
    if preset:
        hand.button(preset, exact=True)
    hand.button("Start the run")
    hand.page.wait_for_url("**/runs?run=*")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", [Pointer, Keyboard])
def test_two_tables_to_a_published_figure(start, patients, tmp_path, how):
    proteins = patients[["patient", *columns(patients, "protein"), "target"]].iloc[:140]
    genes = patients[["patient", *columns(patients, "mirna")[:60]]].sample(frac=1.0, random_state=0)
    proteins.to_csv(tmp_path / "proteins.csv", index=False)
    genes.to_csv(tmp_path / "genes.csv", index=False)
    here = start(f"Two tables, {how.__name__}")
    hand, page = how(here), here.page
    hand.upload(tmp_path / "proteins.csv")
    expect(page.get_by_text("Classification: the target is not numeric (3 classes).")).to_be_visible()
    hand.upload(tmp_path / "genes.csv")
    hand.press(page.get_by_role("dialog").get_by_role("button", name="Do that"))
    expect(page.get_by_text("140 rows are in every table.")).to_be_visible()
    begin(hand)
    run = understand(hand)
    answers = page.get_by_role("region", name="Answers", exact=True)
    expect(answers).to_contain_text(re.compile("protein", re.IGNORECASE))
    hand.press(page.get_by_role("tab", name="Kernels"))
    hand.button("Download figure: Weights of kernels")
    with page.expect_download() as found:
        hand.press(page.get_by_role("menuitem", name=re.compile("^PDF, one column")))
    found.value.save_as(tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    print(f"{how.__name__}: {hand.count} presses")
    assert hand.count <= 12
    if how is Pointer:
        look(here, "two-tables", *(f"{here.base}/{p}" for p in ("", "kernels", "method", "runs")))
        look(here, "two-tables", f"{here.base}/understand?run={run}", f"{here.base}/use?run={run}")


@pytest.mark.nightly
def test_an_expression_table_with_a_missing_view(start, patients, tmp_path):
    genes, proteins = columns(patients, "mrna")[:80], columns(patients, "protein")[:60]
    patients[["patient", *genes, "target"]].to_csv(tmp_path / "expression.csv", index=False)
    patients[["patient", *proteins]].iloc[30:].to_csv(tmp_path / "proteins.csv", index=False)
    here = start("A missing view")
    hand, page = Pointer(here), here.page
    hand.upload(tmp_path / "expression.csv")
    expect(page.get_by_text("Classification: the target is not numeric (3 classes).")).to_be_visible()
    hand.upload(tmp_path / "proteins.csv")
    hand.press(page.get_by_role("dialog").get_by_role("button", name="Do that"))
    expect(page.get_by_text("120 rows are in every table.")).to_be_visible()
    hand.choose("Rows of several tables", "all, also without some views")
    missing = page.get_by_role("region", name="Missing values")
    expect(missing).to_contain_text("30 rows lack all of view proteins")
    begin(hand)
    run = understand(hand)
    expect(page.get_by_role("list", name="Which sources matter")).to_contain_text("proteins")
    rows = page.evaluate(f"async () => (await (await fetch('/api/runs/{run}')).json()).summary")
    assert rows["n_training"] + rows["n_held"] == 150
    print(f"{hand.count} clicks")
    assert hand.count <= 11
    look(here, "missing-view", f"{here.base}/", f"{here.base}/understand?run={run}")


@pytest.mark.nightly
def test_three_grams(start, data_dir, tmp_path):
    digits = pd.read_csv(data_dir / "mfeat.csv.gz").iloc[::10].reset_index(drop=True)
    names = np.array([f"d{k:03d}" for k in range(len(digits))])
    pd.DataFrame({"id": names, "target": [f"digit {int(y)}" for y in digits["target"]]}).to_csv(
        tmp_path / "labels.csv", index=False
    )
    grams = {}
    for view in ("fou", "kar", "zer"):
        X = digits[columns(digits, f"{view}_")].to_numpy()
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        grams[view] = X @ X.T / X.shape[1]
    np.savez(tmp_path / "grams.npz", names=names, **grams)
    here = start("Three kernels")
    hand, page = Pointer(here), here.page
    hand.upload(tmp_path / "labels.csv")
    expect(page.get_by_text("(10 classes)")).to_be_visible()
    hand.upload(tmp_path / "grams.npz")
    further = page.get_by_role("region", name="Views from files")
    expect(further).to_contain_text("rows matched by id")
    for view in grams:
        expect(further).to_contain_text(view)
    begin(hand)
    run = understand(hand)
    weights = page.get_by_role("list", name="Which sources matter")
    expect(weights).to_contain_text("kar")
    print(f"{hand.count} clicks")
    assert hand.count <= 9
    look(here, "grams", f"{here.base}/", f"{here.base}/kernels", f"{here.base}/understand?run={run}")


@pytest.mark.nightly
def test_text_views(start, data_dir, tmp_path):
    with np.load(data_dir / "bbcsport.npz") as found:
        topics, views = found["y"][::3], [found[f"view_seg{k}"][::3] for k in (1, 2)]
    pd.DataFrame({"target": [f"topic {y}" for y in topics]}).to_csv(tmp_path / "topics.csv", index=False)
    for k, counts in enumerate(views):
        sparse.save_npz(tmp_path / f"segment{k + 1}.npz", sparse.csr_matrix(counts))
    here = start("Text")
    hand, page = Pointer(here), here.page
    hand.upload(tmp_path / "topics.csv")
    expect(page.get_by_text("(5 classes)")).to_be_visible()
    hand.upload(tmp_path / "segment1.npz", tmp_path / "segment2.npz")
    further = page.get_by_role("region", name="Views from files")
    expect(further).to_contain_text("segment1")
    expect(further).to_contain_text("segment2")
    begin(hand)
    run = understand(hand)
    expect(page.get_by_role("list", name="Which sources matter")).to_contain_text("segment1")
    held = page.evaluate(f"async () => (await (await fetch('/api/runs/{run}')).json()).metrics")
    score = next(one["value"] for one in held if one["name"] == "accuracy, held out")
    assert score > 0.8  # measured below; the largest class alone gives 0.36
    print(f"{hand.count} clicks, accuracy {score:.3f}")
    assert hand.count <= 9
    look(here, "text", f"{here.base}/", f"{here.base}/understand?run={run}")


@pytest.mark.nightly
def test_a_regression_with_its_path_and_a_permutation_test(start, data_dir):
    here = start("Houses")
    hand, page = Pointer(here), here.page
    hand.upload(data_dir / "housing.csv")
    expect(page.get_by_text("Regression: the target is numeric")).to_be_visible()
    begin(hand)
    run = understand(hand)
    hand.press(page.get_by_role("tab", name="Path"))
    expect(page.get_by_role("region", name="Regularisation path")).to_be_visible()
    hand.press(page.get_by_role("tab", name="More computations"))
    proof = page.get_by_role("group", name="Permutation test", exact=True)
    hand.press(proof.get_by_role("switch", name="Fit again"))
    hand.press(proof.get_by_role("button", name=re.compile("^Compute")))
    expect(page.get_by_role("region", name="Permutation test")).to_be_visible(timeout=WAIT)
    expect(page.get_by_role("region", name="Answers", exact=True)).to_contain_text("permut")
    known = page.evaluate(f"async () => (await (await fetch('/api/runs/{run}/evidence')).json()).numbers")
    assert known["permutation"]["values"]["p"]["value"] < 0.05
    print(f"{hand.count} clicks")
    assert hand.count <= 11
    look(here, "regression", f"{here.base}/understand?run={run}")


def test_the_prostate_template_ends_in_the_printed_coefficients(start, data_dir):
    from kernelweave_papers.printed import RLS2_TABLE1

    here = start("Prostate")
    hand, page = Pointer(here), here.page
    hand.button("Prostate, Table 1 (RLS2)")
    page.wait_for_url("**/method*")
    expect(page.get_by_text("30 rows held out, 67 to train on")).to_be_visible()
    hand.button("Start the run")
    page.wait_for_url("**/runs?run=*")
    understand(hand)
    table = page.get_by_role("table", name="Coefficients")
    for name, row in RLS2_TABLE1.items():
        cells = table.get_by_role("row").filter(has_text=name).get_by_role("cell").all_inner_texts()
        assert abs(float(cells[1])) == abs(float(row["rls2"].text.replace("–", "0"))), name
    print(f"{hand.count} clicks")
    assert hand.count <= 3


@pytest.mark.nightly
def test_a_new_file_is_predicted(start, data_dir, tmp_path):
    frame = pd.read_csv(data_dir / "wdbc.csv")
    old, new = frame.iloc[:400], frame.iloc[400:].drop(columns="target")
    old.to_csv(tmp_path / "tumours.csv", index=False)
    new.to_csv(tmp_path / "new.csv", index=False)
    here = start("Tumours")
    hand, page = Pointer(here), here.page
    hand.upload(tmp_path / "tumours.csv")
    expect(page.get_by_text(re.compile("^Classification"))).to_be_visible()
    begin(hand)
    run = understand(hand)
    hand.press(page.get_by_role("link", name="Model and files"))
    page.wait_for_url("**/use?run=*")
    hand.upload(tmp_path / "new.csv")
    expect(page.get_by_label("Table", exact=True).first).to_have_value("new.csv")
    hand.button("Predict", exact=True)
    result = page.get_by_role("region", name="New predictions")
    expect(result).to_contain_text("169")
    with page.expect_download() as found:
        hand.press(result.get_by_role("link", name="Download"))
    table = pd.read_csv(io.BytesIO(found.value.path().read_bytes()))
    guess = table[next(c for c in table if c.startswith("predict"))].to_numpy()
    right = np.mean(guess.astype(str) == frame["target"].iloc[400:].to_numpy().astype(str))
    assert len(table) == 169
    assert right > 0.9  # the larger class alone gives 0.77
    print(f"{hand.count} clicks, {right:.3f} of the new rows right")
    assert hand.count <= 11
    look(here, "new-file", f"{here.base}/use?run={run}")
