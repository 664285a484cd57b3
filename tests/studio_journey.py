"""Hands that walk through the studio and count: one with a pointer, one with the keyboard alone."""

import os
import re
from pathlib import Path

from playwright.sync_api import expect

#: Folder for pictures of the last pages of journeys, to be looked at; none are made without it.
PICTURES = os.environ.get("KERNELWEAVE_PICTURES")
#: Stops of the Tab key between two presses; the columns of a table are many.
MOST_STOPS = 250


class Pointer:
    """Clicks, counted.

    Parameters
    ----------
    visit : Visit
    """

    def __init__(self, visit):
        self.visit, self.page = visit, visit.page
        self.count = 0

    def press(self, found):
        """Press what was found."""
        expect(found).to_be_enabled()
        found.click()
        self.count += 1

    def button(self, name, **options):
        self.press(self.page.get_by_role("button", name=name, **options).first)

    def step(self, name, path):
        """Go to another page by the list of steps."""
        self.press(self.page.get_by_role("navigation").get_by_role("link", name=name, exact=True))
        self.page.wait_for_url(re.compile(re.escape(path)))
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()

    def choose(self, label, option):
        """Pick an option of a select: one click opens it, one picks."""
        self.press(self.page.get_by_label(label, exact=True).first)
        self.press(self.page.get_by_role("option", name=option, exact=True).first)

    def upload(self, *paths):
        """Choose files: the click that opens the dialog of the system, and the one there."""
        with self.page.expect_file_chooser() as asked:
            self.button("Choose a file")
        asked.value.set_files([str(path) for path in paths])
        self.count += 1

    def fill(self, label, value):
        """Write into a field, by one click and the keyboard."""
        field = self.page.get_by_label(label, exact=True).first
        self.press(field)
        field.fill(value)


class Keyboard(Pointer):
    """The keyboard alone: Tab until the element has the focus, then Enter."""

    def press(self, found):
        """Go to what was found by Tab, and press it."""
        expect(found).to_be_enabled()
        # of a list of tabs Tab reaches one; arrows lead to the others
        is_tab = found.get_attribute("role") == "tab"
        for _ in range(MOST_STOPS):
            if is_tab and self.page.evaluate("document.activeElement.getAttribute('role') === 'tab'"):
                self.to_tab(found)
                break
            if found.evaluate("(e) => e === document.activeElement"):
                break
            self.page.keyboard.press("Tab")
        else:
            raise AssertionError(f"{MOST_STOPS} stops do not reach {found}")
        self.page.keyboard.press("Enter")
        self.count += 1

    def to_tab(self, found):
        """From one tab to another, by arrows."""
        for _ in range(20):
            if found.evaluate("(e) => e === document.activeElement"):
                return
            self.page.keyboard.press("ArrowRight")
        raise AssertionError(f"no arrow leads to {found}")


def look(visit, name, *paths):
    """Check that pages fit both widths; draw them in both and in both schemes where a folder is given."""
    page = visit.page
    for path in paths:
        for width, scheme in ((390, "light"), (390, "dark"), (1280, "dark"), (1280, "light")):
            if not PICTURES and scheme == "dark":
                continue
            page.set_viewport_size({"width": width, "height": 900 if width > 600 else 844})
            page.emulate_media(color_scheme=scheme)
            if PICTURES or width == 390:
                # charts take their colours and widths when they are drawn
                visit.open(path)
                visit.settle()
                expect(page.locator(".kw-waiting")).to_have_count(0)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is too wide"
            if PICTURES:
                page.wait_for_timeout(600)
                stem = re.sub(r"\W+", "-", f"{name} {path.rpartition('/')[2].partition('?')[0] or 'data'}")
                page.screenshot(path=Path(PICTURES) / f"{stem}-{width}-{scheme}.png", full_page=True)
