"""Pages in a real browser: what a click does, what fits the screen, what can be read, and by whom."""

import os
import re
import time

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")
pytest.importorskip("nicegui")
pytest.importorskip("playwright", reason="needs playwright, of the dependency group test")

from playwright.sync_api import expect

from kernelweave._drawing import LOWERS, RAISES
from kernelweave_app.studio.catalogue import file_id
from kernelweave_app.studio.jobs import own_start
from kernelweave_app.studio.schema import Metric, PathPoint
from kernelweave_app.studio.store import Places, Store
from kernelweave_app.studio.worker import RESULTS
from studio_server import needs_core, until
from studio_visit import chromium, clear_tables, draft, needs_chromium, session, studio, visit
from test_studio_charts import many_classes

__all__ = ["chromium", "session", "studio", "visit"]  # fixtures

pytestmark = [pytest.mark.browser, needs_core, needs_chromium]

SPEC = {"target": "target", "kernels": "linear", "alphas": "2", "cv": 2}
SUMMARY = {
    "task": "classification", "method": "rls2", "n_kernels": 2, "n_active": 2, "regularization": "alpha = 1",
    "rel_gap": 0.0, "status": "optimal", "n_training": 90, "n_held": 40, "seconds": 1.0,
}  # fmt: skip


class Shelf:
    """Runs that are put into the studio's folder as if they had been there."""

    def __init__(self, studio):
        self.places = Places(studio.folder)
        self.store = Store(self.places.database)
        self.count = 0

    def add(self, name, results=None, **metrics):
        self.count += 1
        run = f"20250101-{self.count:06d}-abcdef"
        self.places.run(run).mkdir()
        spec = {**SPEC, "seed": self.count}
        self.store.add_run(
            run,
            name,
            {"name": name, "data": {"tables": ["set-wine"]}, "spec": spec, "paths": {}, "method": "rls2"},
        )
        # by a process that lives, since the studio ends runs without one
        own = {"pid": os.getpid(), "pid_started": own_start()}
        self.store.move(run, ("queued",), "running", started=time.time(), **own)
        for metric, (value, spread) in metrics.items():
            metric = metric.replace("__", ", ").replace("_", " ")
            low, high = (None, None) if spread is None else (value - spread, value + spread)
            self.store.write(run, Metric(name=metric, value=value, low=low, high=high))
        if results is not None:
            (self.places.run(run) / RESULTS).write_text(results.model_dump_json())
            self.store.finish(run, "done", "", SUMMARY)
        return run

    def finish(self, run):
        self.store.finish(run, "done", "", SUMMARY)


@pytest.fixture(scope="module")
def shelf(studio):
    shelf = Shelf(studio)
    yield shelf
    shelf.store.close()


@pytest.fixture(scope="module")
def several(shelf):
    """A finished run of seven classes, with a path."""
    from kernelweave.inspection import regularization_path
    from kernelweave_app.runs.evidence import gather, write_evidence
    from kernelweave_app.runs.fitting import fit_model, make_model
    from kernelweave_app.runs.joining import Joined
    from kernelweave_app.runs.preparing import prepare, split
    from kernelweave_app.runs.spec import Spec
    from kernelweave_app.runs.writing import score_held
    from kernelweave_app.studio.results import describe_model

    spec = Spec(target="target", alphas="12", cv=2, kernels="linear; rbf(gamma=0.1)", test_size=0.3)
    prepared = prepare(Joined(many_classes(7, 140), {}, {}, {}), spec)
    rows = split(prepared, spec)
    model = fit_model(make_model(spec, prepared, rows[1]), prepared, rows[0], None)
    held = score_held(model, prepared, rows[1])
    path = regularization_path(model, output="cell type number 00")
    results = describe_model(model, spec, prepared, rows, held, [path], [])
    run = shelf.add("seven classes", results, accuracy__held_out=(held.scores["accuracy"], 0.1))
    write_evidence(shelf.places.run(run), gather(model, spec, prepared, rows, held))
    return run


# ---- clicks ---------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_double_click_starts_one_run_and_is_heard_at_once(visit):
    here = visit()
    page = here.page
    draft(page, SPEC)
    here.open("/method")
    start = page.get_by_role("button", name="Start the run")
    expect(start).to_be_enabled()
    page.get_by_label("Name of the run").fill("pressed twice")
    page.get_by_label("Name of the run").blur()
    # before the server can have answered
    assert (
        start.evaluate(
            "(button) => { button.click(); const said = button.getAttribute('aria-busy'); button.click(); return said }"
        )
        == "true"
    )
    page.wait_for_url("**/runs?run=*")
    names = page.evaluate("async () => (await (await fetch('/api/runs')).json()).map((run) => run.name)")
    assert [name for name in names if name.startswith("pressed twice")] == ["pressed twice"]
    here.open("/method")
    expect(start).to_be_enabled()
    page.get_by_label("Name of the run").fill("clicked twice")
    start.dblclick()
    page.wait_for_url("**/runs?run=*")
    runs = page.evaluate("async () => (await (await fetch('/api/runs')).json())")
    mine = [run for run in runs if run["name"].startswith("clicked twice")]
    assert len(mine) == 1
    for run in runs:
        if run["state"] in ("queued", "starting", "running"):
            page.evaluate("(id) => fetch(`/api/runs/${id}/cancel`, {method: 'POST'})", run["id"])


def test_a_click_on_the_path_moves_the_cursor(visit, several):
    here = visit()
    page = here.page
    here.open(f"/understand?run={several}")
    here.tab("Path")
    status = page.get_by_role("status", name="At the cursor")
    chart = page.get_by_role("region", name="Regularisation path").get_by_role("img")
    expect(chart.locator("canvas").first).to_be_visible()
    here.settle()

    def alpha():
        """At the cursor; nothing while it is drawn anew."""
        found = re.match(r"alpha (\S+)", status.inner_text())
        return found and float(found[1])

    def alpha_at(share):
        before = alpha()
        box = chart.bounding_box()
        chart.click(position={"x": share * box["width"], "y": 0.6 * box["height"]})
        return until(lambda: (now := alpha()) and now != before and now)

    right, left, middle = alpha_at(0.93), alpha_at(0.12), alpha_at(0.5)
    assert left > middle > right
    page.get_by_role("button", name="df", exact=True).click()
    few, many = alpha_at(0.12), alpha_at(0.93)
    assert few > many


def test_the_live_path_has_a_choice_of_classes(visit, shelf):
    run = shelf.add("being fitted")
    shelf.store.move(run, ("running",), "running", done=3, total=90)
    points = [
        PathPoint(stage="fold 1", output=name, alpha=float(alpha), rel_gap=0.0, n_active=1, weights={0: 0.5})
        for name in ("kind 0", "kind 1")
        for alpha in np.geomspace(10, 0.1, 8)
    ]
    shelf.store.write(run, *points)
    try:
        here = visit()
        page = here.page
        here.open(f"/runs?run={run}")
        expect(page.get_by_role("heading", name="Kernel weights, fold 1, kind 1")).to_be_visible()

        def choose(name):
            # the text of the choice lies over its field
            page.locator(".q-field").filter(has=page.get_by_label("Class", exact=True)).click()
            page.get_by_role("option", name=name, exact=True).click()

        choose("kind 0")
        expect(page.get_by_role("heading", name="Kernel weights, fold 1, kind 0")).to_be_visible()
        choose("Mean of all classes")
        expect(
            page.get_by_role("heading", name="Kernel weights, fold 1, Mean of all classes")
        ).to_be_visible()
    finally:
        shelf.finish(run)


# ---- what fits ------------------------------------------------------------------------------------------------------

CUT = """(table) => {
  const frame = table.parentElement, end = frame.getBoundingClientRect().right;
  const cells = [...table.querySelectorAll('th, td')];
  return [frame.scrollWidth - frame.clientWidth, cells.filter((c) => c.getBoundingClientRect().right > end + 1).length,
    cells.filter((c) => c.scrollWidth > c.clientWidth + 1).length] }"""


def test_four_runs_fit_the_screen_side_by_side(visit, shelf):
    names = [f"wine and its origin by two views of measurements, number {k}" for k in range(5)]
    runs = [
        shelf.add(name, accuracy__nested=(0.9 + 0.01 * k, 0.01), accuracy__held_out=(0.95, None))
        for k, name in enumerate(names)
    ]
    for run in runs:
        shelf.finish(run)
    here = visit(width=1280)
    page = here.page
    here.open(f"/compare?runs={','.join(runs[:4])}")
    for name in ("Scores of the runs", "Settings that differ"):
        table = page.get_by_role("table", name=name)
        expect(table.get_by_role("columnheader", name=names[3])).to_be_visible()
        assert table.evaluate(CUT) == [0, 0, 0], name
    # other pages name a run as ?run=
    for query in (f"run={runs[4]}", f"run={runs[4]}&run={runs[0]}", f"runs={runs[4]}&run={runs[0]}"):
        here.open(f"/compare?{query}")
        heads = page.get_by_role("table", name="Scores of the runs").get_by_role("columnheader")
        expect(heads.nth(1)).to_have_text(names[4])
        expect(heads).to_have_count(2 + query.count("&"))


def test_confusion_matrices_of_many_classes_fit_the_screen(visit, several):
    here = visit(width=1280)
    page = here.page
    here.open(f"/understand?run={several}")
    here.tab("Rows")
    table = page.locator(".kw-confusion")
    expect(table).to_be_visible()
    assert table.locator("td").count() == 49
    assert table.evaluate(CUT) == [0, 0, 0]
    wide = [cell.bounding_box()["width"] for cell in table.locator("td").all()[:7]]
    assert min(wide) > 24
    page.set_viewport_size({"width": 390, "height": 844})
    expect(table).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_scores_say_how_sure_they_are_and_what_to_distrust(visit, several):
    here = visit()
    page = here.page
    here.open(f"/understand?run={several}")
    card = page.get_by_role("region", name="seven classes", exact=True)
    expect(card).to_contain_text(re.compile(r"0\.\d\d \(0\.\d\d to [01]\.\d\d\)\s*accuracy, held out"))
    expect(card).to_contain_text("In brackets 95 % intervals, over the rows.")
    expect(page.get_by_role("listitem").filter(has_text="fewer than 10 held-out rows").first).to_be_visible()


# ---- what can be read -----------------------------------------------------------------------------------------------


def rgb(colour):
    return f"rgb({', '.join(str(int(colour[k : k + 2], 16)) for k in (1, 3, 5))})"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_contributions_mean_one_thing(visit, several, scheme):
    here = visit(color_scheme=scheme)
    page = here.page
    here.open(f"/understand?run={several}")
    here.tab("Rows")
    card = page.get_by_role("region", name="Contributions to single rows")
    legend = card.get_by_role("note", name="Colours")
    expect(legend).to_contain_text("Blue raises the decision value")
    expect(legend).to_contain_text("Orange lowers the decision value")
    expect(card).to_contain_text("Blue raises the decision value, orange lowers it.")
    for kind, colour in (("raises", RAISES), ("lowers", LOWERS)):
        drawn = legend.locator(f".kw-{kind}").evaluate("(e) => getComputedStyle(e).backgroundColor")
        assert drawn == rgb(colour)
        assert page.evaluate(f"kw('{kind}')").upper() == colour


RATIOS = """() => {
  const light = (colour) => {
    const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((v) => v / 255);
    const [r, g, b] = parts.map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll('.q-notification')].map((toast) => {
    const ground = light(getComputedStyle(toast).backgroundColor);
    const written = [...toast.querySelectorAll('*')].filter((part) =>
      [...part.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
    return Math.min(...written.map((part) => {
      const [a, b] = [light(getComputedStyle(part).color), ground].sort((x, y) => x - y);
      return (b + 0.05) / (a + 0.05);
    }));
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_messages_can_be_read(visit, scheme):
    here = visit(color_scheme=scheme)
    page = here.page
    here.settle()
    page.evaluate(
        """() => { for (const type of ['negative', 'warning', 'positive', 'info']) Quasar.Notify.create({
            type, message: type, timeout: 0, closeBtn: 'Close', position: 'top' }) }"""
    )
    expect(page.locator(".q-notification")).to_have_count(4)
    page.wait_for_timeout(400)  # they fade in
    ratios = page.evaluate(RATIOS)
    assert len(ratios) == 4
    assert min(ratios) >= 4.5, ratios


NAMELESS = """() => [...document.querySelectorAll('input[type=file]')]
  .filter((e) => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')
    || [...e.labels].some((label) => label.innerText.trim())))
  .map((e) => e.outerHTML)"""
#: Controls inside of controls: a screen reader tells only the outer one.
NESTED = """() => {
  const roles = ['button', 'option', 'tab', 'radio', 'switch', 'checkbox'].map((role) => `[role=${role}]`);
  const outer = ['button', 'a[href]', ...roles].join(', ');
  return [...document.querySelectorAll(outer)]
    .filter((e) => [...e.querySelectorAll('button, a[href], input, select, textarea, [tabindex="0"]')]
      .some((inner) => inner.getClientRects().length))
    .map((e) => e.outerHTML.slice(0, 200)) }"""


@pytest.mark.nightly
def test_files_have_named_fields_and_no_control_is_inside_another(visit, several, tmp_path):
    here = visit()
    page = here.page
    clear_tables(here)
    assert page.locator("input[type=file]").count() == 1
    draft(page, SPEC)
    for path in ("/", "/kernels", "/method", "/runs", f"/understand?run={several}", "/compare", "/use"):
        here.open(path)
        here.settle()
        if path == "/kernels":
            page.get_by_role("button", name="From a file").click()
            expect(page.locator("input[type=file]")).to_have_count(1)
        assert page.evaluate(NAMELESS) == [], path
        assert page.evaluate(NESTED) == [], path
    # the button beside the field opens it, and so does the field's own text
    here.open("/")
    (tmp_path / "picked.csv").write_text("a,b\n" + "1,2\n" * 9)
    for opener in (
        page.get_by_role("button", name="Choose a file"),
        page.get_by_text("Drop a table here, or press +"),
    ):
        with page.expect_file_chooser() as chosen:
            opener.click()
    chosen.value.set_files(str(tmp_path / "picked.csv"))
    page.get_by_role("dialog").get_by_role("button", name="Do that").click()
    expect(page.get_by_role("button", name="Leave out picked.csv")).to_be_visible()


BLANK = """
window.blanks = [];  // of each time without a sign or an answer: its frames and its seconds
let since = null;
const look = (now) => {
  const main = document.querySelector('main');
  if (main && (window.begun || main.querySelector('[role=status]'))) {
    window.begun = true;
    const shown = main.querySelector('.kw-waiting, .nicegui-spinner, svg.q-spinner, section[aria-label=Target]');
    if (shown) since = null;
    else if (since === null) { since = now; window.blanks.push([1, 0]); }
    else {
      const last = window.blanks.at(-1);
      last[0] += 1;
      last[1] = (now - since) / 1000;
    }
  }
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""


def test_the_data_page_is_never_blank_while_it_reads(visit, studio):
    rows = "\n".join(f"{k % 7},{k % 11},{k % 13},{k % 5},{k % 3},{k % 2}" for k in range(400_000))
    (studio.folder / "long.csv").write_text("a,b,c,d,e,target\n" + rows)
    try:
        here = visit()
        page = here.page
        draft(page, SPEC, file_id("long.csv"))
        page.add_init_script(BLANK)
        here.open("/")
        expect(page.get_by_role("region", name="Target")).to_be_visible()
        assert page.evaluate("window.begun")
        blanks = page.evaluate("window.blanks")
        print(f"blank, in frames and seconds: {blanks}")
        # a single frame takes long where other tests have the processor
        assert [seconds for frames, seconds in blanks if frames > 3 and seconds > 0.2] == []
    finally:
        (studio.folder / "long.csv").unlink()
