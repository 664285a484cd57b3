"""Projects in a real browser: made, opened, renamed, deleted; two windows do not mix; uploads replace or join."""

import re

import pytest

pytest.importorskip("playwright")
pytest.importorskip("nicegui")

from playwright.sync_api import expect

from studio_server import needs_core
from studio_visit import chromium, needs_chromium, session, studio, visit  # noqa: F401

pytestmark = [pytest.mark.browser, needs_core, needs_chromium]


def make(page, name):
    page.get_by_role("button", name="Empty project").click()
    page.get_by_label("Name of the project").fill(name)
    page.get_by_role("button", name="Make it").click()
    page.wait_for_url(re.compile(r"/p/[0-9a-f]{12}/$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Data")
    return re.search(r"/p/([0-9a-f]{12})/", page.url)[1]


def upload(page, path):
    page.locator("input[type=file]").first.set_input_files(str(path))


def test_a_project_from_an_empty_name_to_its_end(visit, tmp_path):  # noqa: F811
    here = visit()
    page = here.page
    assert "/p/first/" in page.url
    page.get_by_role("button", name=re.compile("^Project ")).click()
    page.get_by_role("link", name="All projects").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Projects")
    expect(page.get_by_role("cell", name="means.csv", exact=True)).to_be_visible()
    project = make(page, "<b>Tumours</b>")
    expect(page.get_by_label("Project <b>Tumours</b>. Open another one.")).to_be_visible()
    expect(page.get_by_text("No table is chosen yet")).to_be_visible()

    # a second window stays in the first project, whatever is done here
    other = here.context.new_page()
    other.goto(here.studio.inside + "/p/first/")
    other.get_by_label("Choose a table", exact=True).first.click()
    other.get_by_role("option", name=re.compile("^wine ")).first.click()
    expect(other.get_by_text("3 classes")).to_be_visible()
    # browsers let a window behind another one draw once a second
    page.bring_to_front()

    first, second, third = (tmp_path / name for name in ("one.csv", "two.csv", "three.csv"))
    first.write_text("id,a,target\n" + "".join(f"p{k},{k},{'xy'[k % 2]}\n" for k in range(12)))
    second.write_text("id,b\n" + "".join(f"p{k},{-k}\n" for k in range(2, 14)))
    third.write_text("c\n" + "".join(f"{k}\n" for k in range(12)))
    upload(page, first)
    expect(page.get_by_text("Classification")).to_be_visible()
    upload(page, second)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="How should two.csv be used?")).to_be_visible()
    dialog.get_by_role("button", name="Do that").click()
    expect(page.get_by_text("10 rows are in every table.")).to_be_visible()
    assert page.evaluate("async () => (await (await fetch('/api/draft')).json()).data.key") == "id"
    expect(dialog).to_have_count(0)
    # a table of other rows cannot be joined by a key: only stored, or in place of another
    upload(page, third)
    expect(dialog.get_by_role("heading", name="How should three.csv be used?")).to_be_visible()
    dialog.get_by_text("Only store it in the project").click()
    dialog.get_by_role("button", name="Do that").click()
    expect(dialog).to_have_count(0)
    # a new version of the first: the target stays, and so does the name
    first.write_text("id,a,target\n" + "".join(f"p{k},{3 * k},{'xy'[k % 2]}\n" for k in range(9)))
    upload(page, first)
    dialog.get_by_text("Replace a table that is chosen").click()
    dialog.get_by_text("Delete its file").click()
    dialog.get_by_role("button", name="Do that").click()
    expect(page.get_by_text("7 rows are in every table.")).to_be_visible()
    draft = page.evaluate("async () => (await (await fetch('/api/draft')).json())")
    assert draft["spec"]["target"] == "target"
    files = page.evaluate("async () => (await (await fetch('/api/files')).json())")
    assert {f["name"]: f["n_rows"] for f in files} == {"one.csv": 9, "two.csv": 12, "three.csv": 12}

    other.reload()
    expect(other.get_by_text("3 classes")).to_be_visible()
    assert "/p/first/" in other.url
    page.bring_to_front()
    here.open(f"/p/{project}/projects")
    expect(page.get_by_role("cell", name="three.csv", exact=True)).to_be_visible()
    page.get_by_role("button", name="Delete three.csv").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("cell", name="three.csv", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Name of the project").fill("Tumours")
    dialog.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", name="Tumours", exact=True)).to_be_visible()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Export").click()
    assert waiting.value.suggested_filename == "Tumours.kernelweave.zip"
    waiting.value.save_as(tmp_path / "project.zip")
    upload(page, tmp_path / "project.zip")
    page.wait_for_url(lambda url: f"/p/{project}/" not in url)
    expect(page.get_by_label("Project Tumours 2. Open another one.")).to_be_visible()
    expect(page.get_by_text("7 rows are in every table.")).to_be_visible()
    here.open(f"/p/{project}/projects")
    page.get_by_role("button", name="Delete", exact=True).first.click()
    dialog.get_by_role("button", name="Delete").click()
    page.wait_for_url(lambda url: f"/p/{project}/" not in url)
    # its address says so, and leads back
    page.goto(f"{here.studio.inside}/p/{project}/")
    expect(page.get_by_role("heading", name="No such project")).to_be_visible()
    page.get_by_role("link", name="Go to the studio").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Data")
    here.errors.clear()  # browsers log the status of lost pages
    other.close()


@pytest.mark.nightly
def test_a_file_on_its_way_arrives_while_another_is_answered(visit, tmp_path):  # noqa: F811
    here = visit()
    page = here.page
    page.get_by_role("button", name=re.compile("^Project ")).click()
    page.get_by_role("link", name="All projects").click()
    make(page, "Uploads")
    first, second, third = (tmp_path / name for name in ("one.csv", "two.csv", "three.csv"))
    for n_rows, path in enumerate((first, second, third), start=10):
        path.write_text("a,target\n" + "".join(f"{k},{k % 2}\n" for k in range(n_rows)))
    upload(page, first)
    expect(page.get_by_text("Classification")).to_be_visible()
    upload(page, second)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="How should two.csv be used?")).to_be_visible()
    held = []
    page.route(re.compile(r"/api/tables\?name=three\.csv"), lambda route: held.append(route))
    with page.expect_request(re.compile(r"name=three\.csv")):
        upload(page, third)
    dialog.get_by_text("Only store it in the project").click()
    dialog.get_by_role("button", name="Do that").click()
    expect(dialog).to_have_count(0)
    page.wait_for_timeout(500)  # what the server has to say about the second file
    held[0].continue_()
    expect(dialog.get_by_role("heading", name="How should three.csv be used?")).to_be_visible()
    dialog.get_by_role("button", name="Do that").click()
    expect(dialog).to_have_count(0)
    files = page.evaluate("async () => (await (await fetch('/api/files')).json())")
    assert {f["name"] for f in files} == {"one.csv", "two.csv", "three.csv"}


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_projects_fits_the_screen(visit, scheme):  # noqa: F811
    for width in (1280, 390):
        here = visit(width=width, color_scheme=scheme)
        here.open("/p/first/projects")
        expect(here.page.get_by_role("cell", name="means.csv", exact=True)).to_be_visible()
        here.settle()
        assert here.page.evaluate("document.documentElement.scrollWidth") <= width
