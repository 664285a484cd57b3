"""The studio in a real browser, for tests: a page, and everything that a browser would complain about."""

import contextlib
import os
import re
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

from studio_server import Command, two_tables

# the shell without windows needs a third less of the processor
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: install the package chromium, or set CHROMIUM"
)

#: Milliseconds; patience costs nothing where nothing is wrong.
WAIT = 120_000
IN_PROJECT = """const plain = window.fetch; window.fetch = (url, ...more) =>
    plain(typeof url === 'string' && url.startsWith('/api/') ? (window.path_prefix ?? '') + url : url, ...more)"""
expect.set_options(timeout=WAIT)


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        # a container has no user namespaces for the sandbox; what is loaded is our own
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    two_tables(folder)
    studio = Command(folder)
    studio.folder = folder
    yield studio
    studio.close()


class Visit:
    """A page, and everything that a browser would complain about."""

    def __init__(self, chromium, studio, width=1280, **options):
        self.studio = studio
        self.context = chromium.new_context(
            viewport={"width": width, "height": 900 if width > 600 else 844}, accept_downloads=True, **options
        )
        self.context.set_default_timeout(WAIT)
        # addresses in scripts of tests begin at the project that is open, as in those of pages
        self.context.add_init_script(IN_PROJECT)
        self.page = self.context.new_page()
        self.foreign, self.errors, self.sockets = [], [], []
        self.context.on("request", lambda request: self.note(request.url))
        self.page.on("websocket", lambda socket: (self.note(socket.url), self.sockets.append(socket.url)))
        self.page.on("console", self.hear)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def note(self, url):
        if not re.match(r"(https?|wss?)://127\.0\.0\.1[:/]|data:|blob:", url):
            self.foreign.append(url)

    def hear(self, message):
        if message.type == "error":
            self.errors.append(f"{message.text} at {message.location.get('url', '')}")

    def log_in(self, login=None):
        self.page.goto(login or self.studio.login)
        self.page.wait_for_url(lambda url: "/login" not in url)
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()

    def open(self, path):
        self.page.goto(self.studio.inside + path)
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()
        if "/method" in path:
            self.unfold()

    def unfold(self):
        """Open all settings of the page of methods."""
        self.page.locator("details.kw-all").first.wait_for(state="attached")
        self.page.evaluate("document.querySelectorAll('details.kw-all').forEach((fold) => fold.open = true)")

    def tab(self, name):
        """Look behind a tab of the page Understand."""
        self.page.get_by_role("tab", name=name, exact=True).click()

    def choose(self, label, option, exact=True):
        """Pick an option of a select by its label."""
        self.page.get_by_label(label, exact=True).first.click()
        self.page.get_by_role("option", name=option, exact=exact).first.click()

    @contextlib.contextmanager
    def renewed(self, found):
        """Do something after which an element is drawn anew, and wait for that."""
        old = found.element_handle()
        yield
        self.page.wait_for_function("(e) => !e.isConnected", arg=old)
        expect(found).to_be_visible()

    def choose_learner(self, title):
        """Pick a learner, and wait until the fields of the path, which are drawn anew for it, are there."""
        self.unfold()
        self.page.locator(".kw-pick details").first.wait_for(state="attached")
        self.page.evaluate(
            "document.querySelectorAll('.kw-pick details').forEach((fold) => fold.open = true)"
        )
        with self.renewed(self.page.get_by_label("How many", exact=True)):
            self.page.get_by_role("radio", name=re.compile(f"^{title}")).click()

    def settle(self):
        """Wait until the page talks to the server and nothing more is on its way."""
        self.page.wait_for_function("window.socket?.connected && document.fonts.status === 'loaded'")
        self.page.wait_for_load_state("networkidle")

    def close(self):
        self.context.close()


@pytest.fixture(scope="module")
def session(chromium, studio):
    """What a browser keeps after it has logged in."""
    here = Visit(chromium, studio)
    here.log_in()
    kept = here.context.storage_state()
    here.close()
    return kept


@pytest.fixture
def visit(chromium, studio, session):
    visits = []

    def make(**options):
        visit = Visit(chromium, studio, storage_state=session, **options)
        visits.append(visit)
        visit.open("/")
        return visit

    yield make
    for visit in visits:
        visit.close()
        assert visit.foreign == [], visit.foreign
        assert visit.errors == [], visit.errors


def clear_tables(visit):
    """Begin with no table chosen."""
    page = visit.page
    visit.open("/")
    # each removal draws the list anew
    while page.get_by_role("button", name=re.compile("^Leave out")).count():
        before = page.get_by_role("button", name=re.compile("^Leave out")).count()
        page.get_by_role("button", name=re.compile("^Leave out")).first.click()
        expect(page.get_by_role("button", name=re.compile("^Leave out"))).to_have_count(before - 1)
    expect(page.get_by_text("No table is chosen yet")).to_be_visible()


def draft(page, spec, table="set-wine"):
    """Put settings in place, as another window would."""
    page.evaluate(
        """async (draft) => { await fetch('/api/draft', {method: 'PUT', body: JSON.stringify(draft),
            headers: {'Content-Type': 'application/json'}}) }""",
        {"data": {"tables": [table]}, "spec": spec},
    )
