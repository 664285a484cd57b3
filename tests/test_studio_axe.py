"""Pages of the studio, reports, and all that opens on top of pages, checked by axe and by the keyboard.

Nothing serious or critical is found in a wide or a narrow window, with light or dark colours.
"""

import importlib.util
import json
import re
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

from kernelweave.inspection.registry import repeated
from kernelweave_app.studio.catalogue import file_id
from kernelweave_app.studio.schema import Data, Marks, RunRequest
from kernelweave_app.studio.service import Studio
from studio_journey import Keyboard
from studio_server import Command, evidence_here, needs_core, run_here, slow_request
from studio_visit import chromium, draft, needs_chromium, session, visit
from test_cli_survival import patients_of_hospitals

__all__ = ["chromium", "session", "visit"]  # fixtures

pytestmark = [pytest.mark.browser, needs_core, needs_chromium]

AXE = Path(importlib.util.find_spec("axe_playwright_python").origin).with_name("axe.min.js").read_text("utf8")
PAGES = ["/projects", "/", "/kernels", "/method", "/runs", "/understand", "/compare", "/use"]
#: Parts of pages that are there with evidence of the newest run, and with two runs to compare.
SHOWN = {
    "/understand": ["Learning curve", "Permutation test"],
    "/compare": ["Scores", "Are the differences real?", "Settings that differ"],
}
TABS = ("More computations", "Kernels", "Path", "Rows", "For a paper", "Solver")
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
#: Windows by width and colours: colours are the same at any width.
WINDOWS = ((1440, "light"), (390, "dark"))
RUN = """async ([inside, tags]) => {
  // what is still moving has colours between those of its states
  const frame = () => new Promise((wake) => requestAnimationFrame(wake));
  await frame(); await frame();
  document.getAnimations().filter((one) => one.effect.getComputedTiming().endTime < 5000)
    .forEach((one) => one.finish());
  await frame();
  const found = await axe.run(inside || document, {resultTypes: ['violations'], runOnly: tags, preload: false});
  const cut = [...document.querySelectorAll(`${inside || 'body'} .q-field__label`)]
    .filter((label) => label.checkVisibility() && label.scrollWidth > label.clientWidth + 1)
    .map((label) => `the name of a field is cut: ${label.innerText}`)
    .concat([...document.querySelectorAll('.q-tab-panel > *')]
      .filter((part) => part.checkVisibility() && part.offsetWidth > part.parentElement.clientWidth + 1)
      .map((part) => `what stands behind a tab is wider than the page: ${part.offsetWidth}`));
  return cut.concat(found.violations
    .filter((one) => ['serious', 'critical'].includes(one.impact))
    .flatMap((one) => one.nodes.map((node) =>
      `${one.id}: ${node.target.join(' ')} | ${node.html.slice(0, 160)} | ${node.any[0]?.message ?? ''}`)));
}"""
#: Same picture, other levels: axe takes what lies behind a dialog for the ground of the words of its buttons.
LEVEL = """.q-dialog__backdrop { z-index: 0 !important }
.q-dialog .q-btn__content { z-index: auto !important }"""
DIALOG, MENU, MESSAGE, TIP = ".q-dialog", ".q-menu", ".q-notification", ".q-tooltip"
GENES = "[views]\nacids = ['malic_acid', 'no_such_column']\n"


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """Two runs of three classes, one with all evidence, and one of a regression; made here, which is quicker."""
    folder = tmp_path_factory.mktemp("studio")
    patients_of_hospitals().to_csv(folder / "patients.csv", index=False)
    (folder / "more.csv").write_text("x\n" + "".join(f"{k}\n" for k in range(178)))
    inside = Studio(folder).inside("")
    spec = {"target": "target", "alphas": "3", "cv": 2, "test_size": 0.3, "kernels": "linear"}
    views = {"body": ["alcohol", "malic_acid", "ash"], "look": ["hue", "color_intensity"]}
    made = [
        run_here(
            inside,
            RunRequest(data=Data(tables=[table]), spec={**spec, **more}, name=name),
            figures=name != "wine",  # reports of the others are looked at
        )
        for table, more, name in (
            ("set-diabetes", {}, "diabetes"),
            ("set-wine", {}, "wine"),
            ("set-wine", {"views": views}, "wines"),
        )
    ]
    for kind in repeated():
        evidence_here(inside, made[-1], kind)
    inside.mark(made[0], Marks(pinned=True, note="A note.", tags=["first", "kept"]))
    inside.store.close()
    studio = Command(folder)
    studio.runs = made
    yield studio
    studio.close()


class Check:
    """Runs axe in all windows, and keeps what it finds.

    Parameters
    ----------
    visit : Visit
    """

    def __init__(self, visit):
        self.visit, self.page = visit, visit.page
        self.found = {}

    def open(self, path, name=""):
        """Open a page, and check it with all that is folded in it."""
        here, page = self.visit, self.page
        page.set_viewport_size({"width": 1280, "height": 900})
        here.open(path)
        here.settle()
        expect(page.locator(".kw-waiting")).to_have_count(0)
        page.evaluate(
            """() => {
              document.querySelectorAll('main details').forEach((fold) => { fold.open = true });
              document.querySelectorAll('main .q-expansion-item--collapsed > div > .q-item')
                .forEach((one) => one.click());
            }"""
        )
        self.look(name or path)

    def look(self, name, inside=None, windows=WINDOWS):
        """Check what is open: the page, or what stands on it."""
        if inside is not None:
            expect(self.page.locator(inside).last).to_be_visible()
        # a button is paler for a moment after it was pressed
        expect(self.page.locator("[data-pressed]")).to_have_count(0)
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE)
            self.page.add_style_tag(content=LEVEL)
        for width, scheme in windows:
            self.page.set_viewport_size({"width": width, "height": 900 if width > 600 else 844})
            self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert name not in self.found or (width, scheme) not in self.found[name], f"{name} twice"
            self.found.setdefault(name, {})[width, scheme] = self.page.evaluate(RUN, [inside, STANDARDS])
        self.page.set_viewport_size({"width": 1280, "height": 900})

    def over(self, name, button, inside=DIALOG):
        """Press a button, check what opens, and close it."""
        button.click()
        self.look(name, inside)
        self.close(inside)

    def close(self, inside=DIALOG):
        self.page.keyboard.press("Escape")
        expect(self.page.locator(inside)).to_have_count(0)

    def message(self, name):
        """Check a notification, and close it where it can be."""
        self.look(name, MESSAGE)
        for button in self.page.locator(MESSAGE).get_by_role("button", name="Close").all():
            button.click()
        expect(self.page.locator(MESSAGE)).to_have_count(0)

    def end(self):
        """Fail if anything was found; say how many states were looked at."""
        print(len(self.found), "states:", ", ".join(self.found))
        bad = {
            f"{name} {width} {scheme}": lines
            for name, windows in self.found.items()
            for (width, scheme), lines in windows.items()
            if lines
        }
        assert bad == {}, json.dumps(bad, indent=1)


def button(page, name, exact=True):
    return page.get_by_role("button", name=name, exact=exact).first


def upload(page, name, content):
    """Choose a file in the field that was made last: that of a dialog stands after that of the page."""
    page.locator("input[type=file]").last.set_input_files(
        {"name": name, "mimeType": "text/plain", "buffer": content.encode()}
    )


def test_axe_finds_nothing_serious_on_any_page(visit, studio):
    here = visit(bypass_csp=True, reduced_motion="reduce")
    page, check = here.page, Check(here)
    draft(page, {"target": "target"})
    diabetes, _, wines = studio.runs
    for path in PAGES:
        check.open(path)
        for name in TABS if path == "/understand" else ():
            here.tab(name)
            check.look(f"{path}, {name}")
        for words in SHOWN.get(path, ()):
            if path == "/understand":
                here.tab("More computations")
            expect(page.get_by_role("region", name=words, exact=True)).to_be_visible()
    for path in ("/understand", "/use", "/runs"):
        check.open(f"{path}?run={diabetes}", f"{path} of a regression")
    draft(page, {"time": "days", "event": "status", "strata": "hospital"}, file_id("patients.csv"))
    check.open("/", "times, events and strata")
    expect(page.get_by_label("Strata", exact=True).first).to_have_value("hospital")
    for run in (diabetes, wines):
        page.goto(f"{studio.inside}/p/first/api/runs/{run}/files/report.html?show=true")
        # of figures the paths are most elements of a report, with neither words nor roles to be checked
        assert page.locator("svg > g path").count() > 100
        assert page.locator("svg :is(text, a, [role], [tabindex])").count() == 0
        page.evaluate("document.querySelectorAll('svg > :not(title)').forEach((part) => part.remove())")
        check.look(f"report {run}")
    check.end()


@pytest.mark.nightly
def test_axe_finds_nothing_serious_in_what_opens_on_pages(visit, studio):
    here = visit(bypass_csp=True, reduced_motion="reduce")
    page, check = here.page, Check(here)
    draft(page, {"target": "target"})
    wines = studio.runs[-1]

    here.open("/projects")
    check.over("menu of projects", page.get_by_role("button", name=re.compile("^Project ")), MENU)
    check.over("new project", button(page, "Empty project"))
    for name in ("Rename", "Duplicate", "Delete"):
        check.over(f"{name} a project", button(page, name))
    check.over("delete a file", button(page, "Delete more.csv"))
    upload(page, "no.kernelweave.zip", "not a project")
    check.message("an error: a file that is no project")
    here.errors.clear()  # browsers log the status of refused uploads
    page.evaluate("() => { Quasar.Notify.create({message: 'Done', type: 'positive', closeBtn: 'Close'}) }")
    check.message("a success")
    button(page, "Tour in five steps").hover()
    # where the pointer is
    check.look("the words of a button", TIP, ((1280, "light"), (1280, "dark")))

    here.open("/")
    upload(page, "joins.csv", "y\n" + "".join(f"{k}\n" for k in range(178)))
    check.look("an upload that could join", DIALOG)
    page.get_by_role("radio", name="Replace").click()
    check.look("an upload that could replace", DIALOG)
    check.close()
    page.get_by_label("Column to predict", exact=True).first.click()
    check.look("a list of choices", MENU)
    check.close(MENU)

    here.open("/kernels")
    button(page, "New view").click()
    check.message("an error: no columns are selected")
    page.get_by_role("button", name="malic_acid", exact=True).click()
    button(page, "New view").click()
    check.look("new view", DIALOG)
    page.get_by_role("dialog").get_by_role("button", name="Make").click()
    check.look("new view without a name", DIALOG)
    check.close()
    check.over("views from a file", button(page, "From a file"))
    check.over("an explanation", page.get_by_role("button", name=re.compile("^About ")).first, MENU)
    button(page, "From a file").click()
    upload(page, "views.toml", GENES)
    check.message("a warning: names that are no columns")

    here.open("/runs")
    page.get_by_role("checkbox", name="Choose wine", exact=True).click()
    check.over("delete of chosen runs", button(page, "Delete"))
    here.open(f"/runs?run={wines}")
    check.over("delete of a run", button(page, "Delete"))
    here.open(f"/understand?run={wines}")
    here.tab("Kernels")
    check.over(
        "figures for print", page.get_by_role("button", name=re.compile("^Download figure")).first, MENU
    )

    run = page.evaluate(
        """async (body) => (await (await fetch('/api/runs', {method: 'POST', body: JSON.stringify(body),
            headers: {'Content-Type': 'application/json'}})).json()).id""",
        slow_request(),
    )
    here.open(f"/runs?run={run}")
    expect(page.get_by_text(re.compile(r"^[1-9]\d* of \d+ steps"))).to_be_visible()
    check.look("a run under way")
    button(page, "Stop").click()
    expect(page.get_by_text("stopped", exact=True)).to_be_visible()
    check.look("a run that was stopped")

    button(page, "Tour in five steps").click()
    check.look("the first step of the tour", ".kw-tour")
    here.open("/understand")
    check.look("the last step of the tour", ".kw-tour")
    button(page, "Finish the tour").click()
    expect(page.locator(".kw-tour")).to_have_count(0)
    check.end()


HOLDS = "(one) => one.contains(document.activeElement)"


@pytest.mark.nightly
def test_the_keyboard_stays_in_dialogs_and_returns_to_their_buttons(visit, studio):
    here = visit()
    page, hand = here.page, Keyboard(here)
    draft(page, {"target": "target"})

    def go_through(opener, name):
        """Open a dialog, walk round in it both ways, and leave it with Escape."""
        hand.press(opener)
        dialog = page.get_by_role("dialog", name=name)
        expect(dialog).to_be_visible()
        expect(dialog.locator(":focus")).to_have_count(1)
        stops = dialog.locator("button, input").count()
        for key in ("Tab", "Shift+Tab"):
            for _ in range(stops + 2):
                page.keyboard.press(key)
                assert dialog.evaluate(HOLDS), f"{key} leaves {name}"
        page.keyboard.press("Escape")
        expect(page.locator(DIALOG)).to_have_count(0)
        expect(opener).to_be_focused()

    here.open("/projects")
    expect(button(page, "Delete more.csv")).to_be_visible()
    for label, name in (
        ("Rename", "Rename"),
        ("Duplicate", "Duplicate"),
        ("Delete", "Delete this project?"),
        ("Delete more.csv", "Delete this file?"),
        ("Empty project", "New project"),
    ):
        go_through(button(page, label), name)
    here.open("/kernels")
    hand.press(page.get_by_role("button", name="malic_acid", exact=True))
    go_through(button(page, "New view"), "New view")
    go_through(button(page, "From a file"), "Views from a file")
    here.open("/")
    go_through(button(page, "Views from a file"), "Views from a file")
    here.open("/runs")
    page.get_by_role("checkbox", name="Choose wine", exact=True).click()
    go_through(button(page, "Delete"), "Delete 1 run?")
    here.open(f"/runs?run={studio.runs[-1]}")
    go_through(button(page, "Delete"), "Delete this run?")
