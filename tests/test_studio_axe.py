"""Every page of the studio and a report, checked by axe: no serious and no critical violation at any width."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")
pytest.importorskip("nicegui")
pytest.importorskip("playwright", reason="needs playwright, of the dependency group test")
pytest.importorskip(
    "axe_playwright_python", reason="needs axe-playwright-python, of the dependency group test"
)

from playwright.sync_api import expect

from studio_server import needs_core
from studio_visit import chromium, draft, needs_chromium, session, studio, visit

__all__ = ["chromium", "session", "studio", "visit"]  # fixtures

pytestmark = [pytest.mark.browser, needs_core, needs_chromium]

AXE = Path(importlib.util.find_spec("axe_playwright_python").origin).with_name("axe.min.js").read_text("utf8")
PAGES = ["/projects", "/", "/kernels", "/method", "/runs", "/understand", "/compare", "/use"]
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """async (standards) => {
  const found = await axe.run(document, {resultTypes: ['violations'], runOnly: standards});
  return found.violations
    .filter((one) => ['serious', 'critical'].includes(one.impact))
    .flatMap((one) => one.nodes.map((node) =>
      `${one.id}: ${node.target.join(' ')} | ${node.html.slice(0, 160)}`));
}"""
FIT = """async ([data, spec, name]) => {
  const send = (method, body) => ({method, body: JSON.stringify(body),
    headers: {'Content-Type': 'application/json'}});
  const rest = () => new Promise((wake) => setTimeout(wake, 300));
  let run = await (await fetch('/api/runs', send('POST', {data, spec, name}))).json();
  while (['queued', 'starting', 'running'].includes(run.state)) {
    await rest();
    run = await (await fetch(`/api/runs/${run.id}`)).json();
  }
  if (run.state !== 'done') throw new Error(JSON.stringify(run));
  return run;
}"""


def violations(page):
    """What axe finds on the page that is open."""
    page.evaluate(AXE)
    return page.evaluate(RUN, STANDARDS)


@pytest.fixture(scope="module")
def runs(chromium, studio, session):
    """A run of three classes and one of a regression, through the API that pages use."""
    from studio_visit import Visit

    here = Visit(chromium, studio, storage_state=session)
    here.open("/")
    spec = {"target": "target", "kernels": "linear; rbf(gamma=0.1)", "alphas": "4", "cv": 2, "test_size": 0.3}
    made = [
        here.page.evaluate(FIT, [{"tables": [f"set-{table}"]}, spec, table]) for table in ("wine", "diabetes")
    ]
    here.close()
    return [run["id"] for run in made]


def open_all(page):
    """Unfold what is folded: it is part of the page."""
    page.evaluate(
        """() => {
          document.querySelectorAll('main details').forEach((fold) => { fold.open = true });
          document.querySelectorAll('main .q-expansion-item--collapsed > div > .q-item').forEach((e) => e.click());
        }"""
    )


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_serious_on_any_page(visit, runs, width, scheme):
    here = visit(width=width, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True)
    page = here.page
    draft(page, {"target": "target"})
    found = {}
    for path in [*PAGES, *(f"/{name}?run={runs[1]}" for name in ("understand", "use", "runs"))]:
        here.open(path)
        here.settle()
        expect(page.locator(".kw-waiting")).to_have_count(0)
        open_all(page)
        page.wait_for_timeout(400)
        found[path] = violations(page)
        print(path, found[path])
    for run in runs:
        page.goto(f"{here.studio.inside}/p/first/api/runs/{run}/files/report.html?show=true")
        found[f"report {run}"] = violations(page)
    assert {path: lines for path, lines in found.items() if lines} == {}
