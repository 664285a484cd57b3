"""Evidence, formulas and the tour in the studio: computed in a process, shown in sentences, printed."""

import re

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")
pytest.importorskip("nicegui")
pytest.importorskip("playwright", reason="needs playwright, of the dependency group test")

from playwright.sync_api import expect

from kernelweave.inspection.registry import look_up
from studio_server import needs_core, until
from studio_visit import chromium, needs_chromium, session, studio, visit

__all__ = ["chromium", "session", "studio", "visit"]  # fixtures

pytestmark = [pytest.mark.browser, needs_core, needs_chromium]

SPEC = {
    "target": "target",
    "kernels": "linear_features",
    "method": "rls2",
    "alphas": "0.1,1",
    "cv": 2,
    "test_size": 0.4,
}


def ask(page, address, body=None):
    """Ask the API as the page does; returns the status and the answer."""
    return page.evaluate(
        """async ([address, body]) => {
          const found = await fetch(address, body && {
            method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify(body)});
          const text = await found.text();
          try { return [found.status, JSON.parse(text)]; } catch { return [found.status, text]; }
        }""",
        [address, body],
    )


@pytest.mark.nightly
def test_evidence_is_computed_shown_and_printed(visit):
    here = visit()
    page = here.page
    data = {"tables": ["set-wine"]}
    _, run = ask(page, "/api/runs", {"name": "sure", "data": data, "spec": SPEC})
    _, second = ask(page, "/api/runs", {"name": "plain", "data": data, "spec": {**SPEC, "method": "uniform"}})
    for one in (run, second):
        until(lambda one=one: ask(page, f"/api/runs/{one['id']}")[1]["state"] == "done", 240)
    place = f"/api/runs/{run['id']}"
    here.open(f"/understand?run={run['id']}")
    expect(page.get_by_role("heading", name="Which sources matter?").first).to_be_visible()
    status, found = ask(page, f"{place}/evidence")
    assert status == 200
    for one in found["statements"]:
        for number in one["numbers"]:
            assert look_up(found["numbers"], number["source"]) == number["value"]
    expect(page.get_by_text(found["statements"][0]["text"]).first).to_be_visible()
    lines = page.get_by_text(re.compile("^Bars: weights of the model. Lines: 95 %"))
    expect(lines).to_have_count(0)

    here.tab("More computations")
    # a button, progress, and sentences and intervals that were not there
    page.get_by_label("Halves of the rows").fill("6")
    page.get_by_label("False selections").fill("0.5")
    page.get_by_role("button", name="Compute: Stability of weights").click()
    expect(page.get_by_role("button", name="Stop: Stability of weights")).to_have_count(0, timeout=90_000)
    here.tab("Kernels")
    weights = page.get_by_role("region", name="Weights of kernels")
    expect(weights.get_by_text(re.compile("^Bars: weights of the model. Lines: 95 %"))).to_be_visible(
        timeout=90_000
    )
    halves = ask(page, f"{place}/evidence")[1]["numbers"]["stability"]
    assert (halves["n"], halves["details"]["tolerated"]) == (6, 0.5)
    for tab, title in (
        ("Kernels", "Weights of kernels with intervals"),
        ("Path", "Regularisation path"),
        ("Rows", "Contribution of each kernel"),
    ):
        here.tab(tab)
        expect(page.get_by_role("button", name=f"Download figure: {title}", exact=True)).to_be_visible()

    # many permutations are stopped, and those that are done are kept
    _, found = ask(page, f"{place}/evidence", {"kind": "permutation", "count": 10_000})
    assert found["progress"]["permutation"]["total"] == 10_000
    until(lambda: ask(page, f"{place}/evidence")[1]["progress"]["permutation"]["done"] > 1, 90)
    ask(page, f"{place}/evidence/stop", {"kind": "permutation"})
    until(lambda: ask(page, f"{place}/evidence")[1]["progress"]["permutation"]["state"] == "done", 60)
    _, found = ask(page, f"{place}/evidence")
    n, test = found["numbers"]["permutation"]["n"], found["numbers"]["permutation"]["details"]
    assert test["interrupted"]
    assert 1 <= n == len(test["permuted"]) < 10_000
    assert test["p_value"] == (test["as large"] + 1) / (n + 1)

    # figures in the width that was asked for, tables, and refusals
    status, picture = ask(page, f"{place}/printed/contributions?kind=svg&width=85")
    assert status == 200
    points = float(re.search(r'width="([\d.]+)pt"', picture)[1])
    assert points == pytest.approx(85 / 25.4 * 72, abs=0.01)
    status, text = ask(page, f"{place}/tables/scores?kind=tex")
    assert status == 200
    assert r"\begin{tabular}" in text
    assert ask(page, f"{place}/tables/nothing")[0] == 404
    assert ask(page, f"{place}/printed/nothing")[0] == 422
    assert ask(page, f"{place}/evidence", {"kind": "permutation", "count": -1})[0] == 422

    # two runs on the same rows are compared by McNemar's test
    here.open(f"/compare?runs={run['id']},{second['id']}")
    expect(page.get_by_role("heading", name="Are the differences real?")).to_be_visible()
    expect(page.get_by_text("McNemar's exact test").first).to_be_visible()
    expect(page.get_by_text("corrected resampled t-test").first).to_be_visible()
    here.errors[:] = [said for said in here.errors if "status of 4" not in said]


@pytest.mark.nightly
def test_formulas_are_typeset_and_the_tour_leads_by_keyboard(visit):
    here = visit()
    page = here.page
    tour = page.get_by_role("region", name="Tour")
    expect(tour).to_have_count(0)
    before = page.evaluate("fetch('/api/draft').then(found => found.json())")

    def press(role, name):
        """Press Enter on what is reached with the Tab key."""
        wanted = page.get_by_role(role, name=name, exact=True).first
        expect(wanted).to_be_visible()
        for _ in range(60):
            if wanted.evaluate("it => it === document.activeElement"):
                break
            page.keyboard.press("Tab")
        expect(wanted).to_be_focused()
        page.keyboard.press("Enter")

    here.settle()
    press("button", "Tour in five steps")
    for k, title in enumerate(["The table", "Views and kernels", "Method", "Runs", "Understand"], start=1):
        expect(tour.get_by_role("heading", name=f"Tour, step {k} of 5: {title}")).to_be_visible()
        if title == "Method":
            chosen = page.get_by_role("group", name="Objective")
            here.choose_learner("SimpleMKL")
            expect(chosen.locator("math").first).to_be_visible()
            assert chosen.locator("mo", has_text="∑").count() >= 2
            said = chosen.inner_text()
            assert not any(sign in said for sign in ("\\", "sum_", "_m", "||"))
            # the keyboard begins at the head of a page
            here.open("/method")
        if k < 5:
            here.settle()
            following = ["Views and kernels", "Method", "Runs", "Understand"][k - 1]
            press("link", f"Next: {following}")
    expect(tour.get_by_role("button", name="Finish the tour")).to_be_visible()

    # it can be started again in the middle, and left
    here.open("/kernels")
    here.settle()
    press("button", "Tour in five steps")
    expect(tour.get_by_role("heading", name="Tour, step 1 of 5: The table")).to_be_visible()
    here.settle()
    press("button", "Leave the tour")
    expect(tour).to_have_count(0)
    if before["data"]:
        after = page.evaluate("fetch('/api/draft').then(found => found.json())")
        assert after == before
