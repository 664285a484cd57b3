"""All that the pages of method and projects and the frame show, and what each press changes, compared with what was
read once.

Modules: `studio/pages`, `studio/pages/method`, `studio/pages/form`, `studio/pages/pieces`, `studio/pages/projects`,
`studio/pages/frame`.
"""

from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("nicegui")
pytest.importorskip("psutil")

from kernelweave._errors import InputError
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.projects import ProjectsPage
from kernelweave_app.studio.projects import Projects
from kernelweave_app.studio.schema import Expected
from kernelweave_app.studio.service import Studio
from studio_dump import ROWS, seen

pytestmark = pytest.mark.full


def test_page_of_method_for_classes(studio, recorded, monkeypatch):
    desk = Desk(studio)
    desk.set_tables([ROWS])
    desk.set(target="y", group="clinic", holdout="part", drop=["who", "begun"], missing="drop")
    made, measured = [], []

    def add_run(self, request, key):
        made.append((request, len(key)))
        return SimpleNamespace(id="20260101-000001-abcdef")

    def estimate(self, data, spec):
        measured.append(spec.method)
        if spec.method == "simple":
            raise InputError("Too few rows to measure.")
        return Expected(seconds=12.0, low=7.0, high=40.0, memory=3_000_000, sure="Rough.")

    monkeypatch.setattr(Studio, "add_run", add_run)
    monkeypatch.setattr(Studio, "estimate", estimate)

    async def visit(page):
        await page.open("/method", "classes")
        await page.then("another question", lambda: page.choose("Question", "sources"))
        await page.then("a learner", lambda: page.choose("Learner for this question", "rls2"))
        await page.then("another learner", lambda: page.press("SimpleMKL"))
        await page.then("not measured", lambda: page.press("How long will it take?"))
        await page.then("of one loss", lambda: page.press("LpMKL"))
        await page.then("a parameter", lambda: page.choose("Norm p", 1.5))
        await page.then("a wrong one", lambda: page.choose("Norm p", 0.5))
        await page.then("right again", lambda: page.choose("Norm p", 1.25))
        await page.then("another loss", lambda: page.choose("Loss of the machine", "logistic"))
        await page.then("measured", lambda: page.press("How long will it take?"))
        await page.then("a range", lambda: page.choose("How regularisation parameters are chosen", "range"))
        await page.then("its end", lambda: page.choose("Largest C", 10.0))
        await page.then("no end", lambda: page.choose("Smallest C", None))
        await page.then("an end again", lambda: page.choose("Smallest C", 0.01))
        await page.then("a list", lambda: page.choose("How regularisation parameters are chosen", "list"))
        await page.then("an empty one", lambda: page.choose("Values of C, separated by commas", ""))
        await page.then("not started", lambda: page.press("Start the run"))
        await page.then("one value", lambda: page.choose("Values of C, separated by commas", "3"))
        await page.then(
            "automatic", lambda: page.choose("How regularisation parameters are chosen", "automatic")
        )
        await page.then("fewer", lambda: page.choose("How many", 7))
        await page.then("a score", lambda: page.choose("Score", "balanced_accuracy"))
        await page.then("careful", lambda: page.press("Careful"))
        await page.then(
            "a name",
            lambda: (page.choose("Name of the run", "mine"), page.tell("Name of the run", "blur"))[0],
        )
        await page.then("started", lambda: page.press("Start the run"))
        await page.then("again", lambda: page.press("Start the run"))
        recorded("asked for", [[one.model_dump(exclude_defaults=True), size] for one, size in made])
        assert measured == ["simple", "lp"]
        recorded("draft", studio.draft().model_dump(exclude_defaults=True))

    seen(studio, recorded, visit)


def test_page_of_method_for_numbers_and_for_times(studio, recorded, monkeypatch):
    desk = Desk(studio)
    desk.set_tables([ROWS])
    desk.set(target="age", drop=["begun", "far"], missing="impute", kernels="linear", nested=4, alphas="5")
    found = Expected(seconds=300.0, low=100.0, high=900.0, memory=3_000, sure="")
    monkeypatch.setattr(Studio, "estimate", lambda *_: found)

    async def visit(page):
        await page.open("/method", "numbers")
        await page.then("recommended", lambda: page.press("Recommend"))
        recorded("draft", studio.draft().model_dump(exclude_defaults=True))
        await page.then("a loss", lambda: page.press("ElasticNetMKL"))
        desk = Desk(studio)
        desk.set(time="months", event="died", target="", task="auto", drop=["who", "begun"])
        await page.open("/method", "times")
        await page.then("a cost", lambda: page.choose("C", 0.5))
        await page.then("the usual", lambda: page.choose("C", None))
        await page.then("a learner", lambda: page.choose("Learner for this question", "rls2"))
        await page.then("folds", lambda: page.choose("Folds", 3))
        desk = Desk(studio)
        desk.set(time="months", event="site", target="", drop=[])
        await page.open("/method", "no event")

    seen(studio, recorded, visit)


def test_page_of_projects(studio, recorded, monkeypatch):
    Desk(studio).set_tables([ROWS])
    (studio.places.root / "more.csv").unlink()
    (studio.places.root / "bad.csv").write_bytes(b"\x00\x01,\xff")
    projects, gone = Projects(studio), []
    other = projects.make("Other")
    monkeypatch.setattr(
        ProjectsPage, "go", lambda page, project, path="": gone.append((project == other.id, path))
    )

    async def visit(page):
        page.places = (*page.places, studio.store.project, other.id)
        await page.open("/projects", "projects")
        await page.then("rename", lambda: page.press("Rename"))
        await page.then(
            "a name that is taken",
            lambda: (page.choose("Name of the project", "Other"), page.press("Rename", -1))[0],
        )
        await page.then("cancelled", lambda: page.press("Cancel"))
        await page.then("duplicate", lambda: page.press("Duplicate"))
        await page.then("without runs", lambda: page.choose("With its runs that have ended", False))
        await page.then("copied", lambda: page.press("Duplicate", -1))
        await page.then("empty", lambda: page.press("Empty project"))
        await page.then(
            "made", lambda: (page.choose("Name of the project", "Third"), page.press("Make it"))[0]
        )
        await page.then("a file", lambda: page.press("Delete rows.csv"))
        await page.then("is gone", lambda: page.press("Delete", -1))
        await page.then("this one", lambda: page.press("Delete"))
        await page.then("is kept", lambda: page.press("Keep it"))
        recorded("gone", gone)
        recorded("all", [(one.name, one.n_tables, one.n_runs) for one in projects.all()])

    seen(studio, recorded, visit)


def test_frame_of_pages_and_the_tour(studio, recorded):
    Desk(studio).set_tables([ROWS])
    Projects(studio).make("Other")

    async def visit(page):
        page.places = (*page.places, *(row["id"] for row in studio.store.projects()))
        await page.open("/kernels", "frame")
        await page.then("light", lambda: page.press("Colours follow the system. Change."))
        assert studio.store.inside(None).draft("appearance") == "light"
        await page.open("/method", "method in light")
        await page.then("dark", lambda: page.press("Light colours. Change."))
        await page.open("/projects", "projects in the dark")
        await page.then("tour", lambda: page.press("Tour in five steps"))
        assert Desk(studio).data.tables == ["set-wine"]
        await page.open("/method")
        page.inside = "kw-tour"
        await page.open("/", "first step")
        await page.open("/method", "third step")
        await page.open("/understand", "last step")
        await page.then("left", lambda: page.press("Finish the tour"))
        assert Desk(studio).data.tables == [ROWS]

    seen(studio, recorded, visit, inside="kw-edge")
