"""All that the pages of tables and of kernels show, and what each press changes, compared with what was read once.

Modules: `studio/pages/data`, `studio/pages/kernels`, `studio/pages/form`, `studio/pages/pieces`, `studio/pages/desk`.
"""

import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("nicegui")
pytest.importorskip("psutil")

from nicegui import ui

from kernelweave_app.studio.catalogue import file_id
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.service import Studio
from studio_dump import GRAM, MORE, PLAIN, ROWS, seen

pytestmark = pytest.mark.full


def test_page_of_tables_from_the_first_press_on(studio, recorded):
    async def visit(page):
        await page.open("/", "nothing chosen")
        await page.then("a table", lambda: page.choose("Choose a table", ROWS))
        await page.then("another one", lambda: page.choose("Add another table, joined by a key", MORE))
        await page.then("a kernel", lambda: page.choose("Add another table, joined by a key", GRAM))
        await page.then("left out", lambda: page.press("Leave out gram.npz"))
        await page.then("by another key", lambda: page.choose("Key: the column that names the rows", "age"))
        await page.then("the first left out", lambda: page.press("Leave out rows.csv"))

    seen(studio, recorded, visit)


def test_page_of_tables_with_roles_types_and_columns(studio, recorded):
    desk = Desk(studio)
    desk.set_tables([ROWS])

    async def visit(page):
        await page.open("/", "one table")
        for name, label, value in (
            ("marks", "Role of part", "holdout"),
            ("no feature", "Role of far", "ignored"),
            ("a type", "Type of site", "text"),
            ("a number as a category", "Type of age", "category"),
            ("other numbers", "What the target is", "regression"),
        ):
            await page.then(name, lambda label=label, value=value: page.choose(label, value))
        await page.then("swapped", lambda: page.press("Swap held-out and training rows"))
        await page.then("further columns", lambda: page.press("Further columns"))
        await page.then("found", lambda: page.choose("Find columns of rows.csv", " OUT "))
        await page.then("a target more", lambda: page.choose("Role of out_1", "target"))
        await page.then("not found", lambda: page.choose("Find columns of rows.csv", "zebra"))
        await page.then("mended", lambda: page.press("Fill them: missing cells"))

    seen(studio, recorded, visit)


def test_page_of_tables_with_several_targets_and_with_times(studio, recorded):
    Desk(studio).set_tables([ROWS])
    Desk(studio).set(target="age", drop=["begun", "far"])

    async def visit(page):
        await page.open("/")
        await page.then("several", lambda: page.choose("What is predicted", "several"))
        await page.then("two", lambda: page.choose("Columns to predict", ["out_2", "age"]))
        await page.then("times", lambda: page.choose("What is predicted", "survival"))
        await page.then("the time", lambda: page.choose("Time", "months"))
        await page.then("the event", lambda: page.choose("Event", "died"))
        await page.then("other events", lambda: page.choose("Values that are the event", ["False"]))
        await page.then("strata", lambda: page.choose("Strata", "site"))
        await page.then("one", lambda: page.choose("What is predicted", "one"))

    seen(studio, recorded, visit)


def test_columns_with_such_names_are_predicted_together(studio, recorded):
    frame = pd.DataFrame(
        {f"{name}_{k}": [(i // k) % 2 for i in range(12)] for name in "gh" for k in (1, 2, 3)}
    )
    frame.assign(y=range(12)).to_csv(studio.places.files / "many.csv", index=False)
    Desk(studio).set_tables([file_id("many.csv")])
    Desk(studio).set(target="g_1,g_2")

    async def visit(page):
        await page.open("/", "two targets")
        await page.then("three", lambda: page.press("All 3 columns with such a name"))
        await page.then("shared", lambda: page.choose("Weights of several targets", "shared"))
        assert Desk(studio).spec.target == "g_1,g_2,g_3"
        assert Desk(studio).spec.targets == "shared"

    seen(studio, recorded, visit)


def test_page_of_tables_with_gaps_and_what_is_gone(studio, recorded):
    desk = Desk(studio)
    desk.set_tables([ROWS, MORE, GRAM], "who", {ROWS: "table", MORE: "table", GRAM: "kernels"})
    desk.set(target="y", drop=["begun", "died", "months"], rows="all", missing_views="renormalize")

    async def visit(page):
        await page.open("/", "three files")
        (studio.places.root / "more.csv").unlink()
        await page.open("/", "one is gone")
        await page.then("leave it out", lambda: page.press("Leave out A removed table"))
        await page.then("in order", lambda: Desk(studio).set_tables([ROWS, PLAIN], by_order=True))
        await page.then("elsewhere", lambda: page.choose("Role of site", "group"))
        await page.open("/", "by order")

    seen(studio, recorded, visit)


def test_new_tables_are_asked_for_their_use(studio, recorded):
    Desk(studio).set_tables([ROWS])
    Desk(studio).set(target="y")

    async def visit(page):
        await page.open("/")
        await page.then("arrived", lambda: up(page, MORE))
        await page.then("by order, says", lambda: page.choose("Use of the table", "replace"))
        await page.then("replaced", lambda: page.press("Do that"))
        await page.then("kernels", lambda: up(page, GRAM))
        await page.then("plain", lambda: up(page, PLAIN))
        await page.then("only stored", lambda: page.choose("Use of the table", "later"))
        await page.then("stored", lambda: page.press("Do that"))

    def up(page, table):
        from nicegui.testing.user_interaction import UserInteraction

        [zone] = page.user.find(ui.upload).elements
        UserInteraction(page.user, {zone}, "upload").trigger("uploaded", table)

    seen(studio, recorded, visit)


def test_page_of_views_and_kernels(studio, recorded, monkeypatch):
    desk = Desk(studio)
    desk.set_tables([ROWS])
    desk.set(target="y", drop=["who", "begun", "died", "months", "site", "part", "blood"], missing="impute")
    asked, real = [], Studio.kernels

    def kernels(self, data, spec, most):
        asked.append((spec.views, spec.kernels, spec.gamma, spec.normalize, spec.standardize, most))
        found = real(self, data, spec.model_copy(update={"views": "", "kernels": "linear_features"}), 2)
        return found.model_copy(
            update={
                "kernels": found.kernels * (13 if spec.views else 1),
                "n_looked": 30,
                "n_kernels": 40 if spec.views else 30,
            }
            | ({"memory": 3_000_000, "budget": 2_000_000} if spec.views else {})
        )

    monkeypatch.setattr(Studio, "kernels", kernels)

    async def visit(page):
        await page.open("/kernels", "no views")
        await page.then("a bank", lambda: page.choose("Kernels", "rls2"))
        await page.then("own kernels", lambda: page.choose("Kernels", "own"))
        await page.then(
            "typed",
            lambda: (
                page.choose("Kernels, separated by ;", "lin"),
                page.tell("Kernels, separated by ;", "blur"),
            )[0],
        )
        await page.then(
            "typed well",
            lambda: (
                page.choose("Kernels, separated by ;", "linear; rbf(gamma=2)"),
                page.tell("Kernels, separated by ;", "keydown.enter"),
            )[0],
        )
        await page.then("nothing selected", lambda: page.press("New view"))
        await page.then("found", lambda: page.choose("Find columns", "OUT"))
        await page.then("selected", lambda: page.press("Select all found"))
        await page.then("not selected", lambda: page.press("Select all found"))
        await page.then("one of them", lambda: page.press("out_2"))
        await page.then("another", lambda: page.press("out_1"))
        await page.then("a name is asked", lambda: page.press("New view of the selection"))
        await page.then("a wrong name", lambda: (page.choose("Name", "a:b"), page.press("Make"))[0])
        await page.then("a name", lambda: (page.choose("Name", "outs"), page.press("Make"))[0])
        await page.then("kernels of a view", lambda: page.choose("Kernels of outs", "linear; rbf(gamma=0.1)"))
        await page.then("columns of a view", lambda: page.press("Show columns of outs"))
        await page.then("nothing to take out", lambda: page.press("Take out"))
        await page.then("all would go", lambda: (page.press("Select all found"), page.press("Take out"))[0])
        await page.then("dragged", lambda: page.tell("out_1", "dragstart"))
        await page.then("dropped", lambda: page.tell("Columns in no view", "drop.prevent"))
        await page.then("by name", lambda: page.press("By name"))
        await page.then("removed", lambda: page.press("Remove the view out"))
        await page.then("no views again", lambda: page.press("No views"))
        await page.then("a width", lambda: page.choose("Width of Gaussian kernels", "2*median"))
        await page.then("a wrong width", lambda: page.choose("Width of Gaussian kernels", "wide"))
        await page.then("a scale", lambda: page.choose("Bring kernels to one scale by", "trace"))
        await page.then("as they are", lambda: page.choose("Standardise columns", False))
        recorded("asked", asked)

    seen(studio, recorded, visit)


def test_page_of_views_of_two_tables(studio, recorded):
    desk = Desk(studio)
    desk.set_tables([ROWS, MORE, GRAM], "who", {ROWS: "table", MORE: "table", GRAM: "kernels"})
    drop = ["begun", "died", "months", "site", "part", "blood", "dose", "far"]
    desk.set(target="y", drop=drop, missing="impute")

    async def visit(page):
        await page.open("/kernels", "tables as views")
        await page.then("shown", lambda: page.press("Show columns of more"))
        await page.then("pressed", lambda: page.press("rna_1"))
        await page.then("moved", lambda: page.press("Add the selected columns to rows"))
        await page.then("hidden", lambda: page.press("Hide columns of more"))
        await page.then("from a file", lambda: page.press("From a file"))
        await page.then("cancelled", lambda: page.press("Cancel"))
        await page.then("without a table", lambda: page.press("Remove the view rows"))
        await page.then("tables again", lambda: page.press("Tables as views"))

    seen(studio, recorded, visit)
