"""Pages with a simulated user: what handlers say when they fail, and what can be reached without a browser.

Modules: `studio/pages`, `studio/pages/compare`, `studio/pages/data`, `studio/pages/form`,
`studio/pages/kernels`, `studio/pages/method`, `studio/pages/pieces`, `studio/pages/projects`,
`studio/pages/runs`, `studio/pages/understand`, `studio/pages/use`, `studio/pages/frame`,
`studio/pages/story`, `studio/service`.
"""

import hashlib
import threading

import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("nicegui")
pytest.importorskip("psutil")

from nicegui import ElementFilter, ui
from nicegui.testing.user_interaction import UserInteraction

from kernelweave._errors import InputError
from kernelweave_app.studio import worker
from kernelweave_app.studio.catalogue import Catalogue, file_id
from kernelweave_app.studio.jobs import write_status
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.kernels import NOT_YET, group_by_name
from kernelweave_app.studio.pages.projects import ProjectsPage
from kernelweave_app.studio.projects import Projects
from kernelweave_app.studio.schema import Metric, PairedComparison, RunRequest
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.worker import Job
from studio_server import run_here
from studio_user import named, press, until, visiting


@pytest.fixture
def studio(tmp_path):
    frame = pd.DataFrame(
        {"a": range(40), "b": [k % 7 for k in range(40)], "code": [f"c{k % 9}" for k in range(40)]}
    )
    frame.assign(y=frame["a"] * 1.5).to_csv(tmp_path / "rows.csv", index=False)
    studio = Studio(tmp_path)
    Desk(studio).set_tables([file_id("rows.csv")])
    yield studio
    studio.store.close()


def test_errors_behind_buttons_are_shown(studio, monkeypatch):
    """Of a button that is pressed once, and of any other one: wrong input, and mistakes of the studio."""

    def fail(*_, **__):
        raise errors.pop(0)

    errors = [ZeroDivisionError("a mistake"), InputError("Choose other columns.")]
    monkeypatch.setattr(Studio, "recommend", fail)
    monkeypatch.setattr(Studio, "set_draft", fail)

    async def visit(user):
        await user.open("/method")
        await user.should_see("Recommend", retries=100)
        for said in ("by a mistake of the studio: ZeroDivisionError: a mistake", "Choose other columns."):
            user.find("Recommend").click()
            await until(lambda said=said: any(said in one for one in user.notify.messages))
        # a field that stores what was chosen
        errors.append(OSError("the cable is loose"))
        user.find("Quick").click()
        await until(lambda: any("OSError: the cable is loose" in one for one in user.notify.messages))

    visiting(studio, visit)


#: What reads tables, many runs, or files.
SLOW = (
    (Catalogue, "join"),
    (Catalogue, "read_file"),
    (Projects, "all"),
    (Studio, "artifact"),
    (Studio, "log"),
    (Studio, "points"),
    (Studio, "results"),
    (Studio, "runs"),
)


@pytest.mark.full
def test_pages_read_nothing_in_the_loop_of_the_server(studio, monkeypatch):
    """While one window waits for a large table the others go on: what takes time is done in threads."""
    monkeypatch.setattr(Job, "_pictures", lambda *_: [])
    desk = Desk(studio)
    desk.set(target="y", drop=["code"], alphas="0.1,1", cv=2, method="rls2", kernels="linear")
    run_id = run_here(studio, RunRequest(data=desk.data, spec=desk.spec))
    here, loop = [], threading.get_ident()
    for owner, name in SLOW:
        real = getattr(owner, name)

        def watched(self, *args, real=real, what=f"{owner.__name__}.{name}", **kwargs):
            if threading.get_ident() == loop:
                here.append(what)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, watched)

    async def visit(user):
        for path, seen in (
            ("/", "Views from a file"),
            ("/kernels", "Gram matrices of"),
            ("/method", "fits at most"),
            ("/runs", "rows.csv"),
            (f"/runs?run={run_id}", "Where these numbers come from"),
            (f"/understand?run={run_id}", "Certificate"),
            (f"/compare?runs={run_id}", "Settings that differ"),
            (f"/use?run={run_id}", "The same on the command line"),
            ("/projects", "The version is the beginning"),
        ):
            await user.open(path)
            await user.should_see(seen, retries=200)
            assert not here, f"{path}: {here}"
        # a key is chosen among the columns of all tables
        await user.open("/")
        [role] = await until(lambda: named(user, "Role of b", ui.select))
        role.set_value("group")
        await until(lambda: Desk(studio).spec.group == "b")
        assert not here, here

    visiting(studio, visit)


def test_what_fits_without_a_source_lose_is_answered_on_the_page(studio, monkeypatch):
    """Computed as by the process that the button starts; the sources are the two columns."""
    monkeypatch.setattr(Job, "_pictures", lambda *_: [])
    desk = Desk(studio)
    desk.set(target="y", drop=["code"], alphas="0.1,1", cv=2, method="rls2", kernels="linear_features")
    run_id = run_here(studio, RunRequest(data=desk.data, spec=desk.spec))
    folder = studio.places.run(run_id)
    assert {"omission", "sources", "baselines"} <= set(studio.evidence.read(run_id).kinds)
    (folder / "evidence").mkdir()
    asked = {"refit": True, "max_false": 0.1, "state": "running", "created": 0.0}
    write_status(folder, "omission", count=3, **asked)
    worker.Proving(studio.places, run_id, "omission").do()
    write_status(folder, "omission", state="done")
    found = studio.evidence.read(run_id)
    tree = found.numbers["omission"]
    assert tree["n"] == 3
    # the target is a multiple of the first column
    assert next(iter(tree["values"])) == "a"
    assert tree["values"]["a"]["value"] > 0.5
    assert "omission" in found.tables

    async def visit(user):
        await user.open(f"/understand?run={run_id}")
        await user.should_see("Does the model need a?", retries=200)
        # of one target there is nothing to average
        await user.should_not_see("the mean over classes or targets")
        assert named(user, "Compute: Fit without each source", ui.button)
        # numbers can be set, also where as many as needed are taken; baselines have none
        fields = {one.label: one for one in user.find(ui.number).elements}
        assert {"Permutations", "Divisions of the rows"} <= fields.keys()
        assert "Baselines" not in fields
        permutations = [one for one in user.find(ui.number).elements if one.label == "Permutations"]
        assert sorted((one.value or 0, one.props.get("placeholder")) for one in permutations) == [
            (0, "automatic"),
            (99, None),
        ]

    visiting(studio, visit)


def test_scores_of_the_table_of_a_run_are_no_estimate(studio, monkeypatch):
    monkeypatch.setattr(Job, "_pictures", lambda *_: [])
    desk = Desk(studio)
    desk.set(target="y", drop=["code"], alphas="0.1,1", cv=2, method="rls2", kernels="linear_features")
    run_id = run_here(studio, RunRequest(data=desk.data, spec=desk.spec))

    async def visit(user):
        await user.open(f"/use?run={run_id}")
        await user.should_see("The same on the command line", retries=200)
        [table] = [one for one in user.find(ui.select).elements if one.props.get("label") == "Table"]
        table.set_value(file_id("rows.csv"))
        user.find(kind=ui.button, content="Predict").click()
        await user.should_see(
            "32 of these 40 rows were in the fit. Scores of rows that were in the fit", retries=200
        )
        await user.should_see("8 other rows")
        await user.should_see("32 rows in the fit")

    visiting(studio, visit)


def test_a_single_column_is_not_called_all_of_them(studio):
    Desk(studio).set(target="y", drop=["a", "code"])

    async def visit(user):
        await user.open("/kernels")
        await user.should_see("No views: kernels see the only column", retries=200)

    visiting(studio, visit)


def test_views_from_a_file_begin_on_the_page_of_tables(studio):
    Desk(studio).set(target="y")

    async def visit(user):
        await user.open("/")
        await user.should_see("Views from a file", retries=200)
        user.find("Views from a file").click()

        def asked():
            return [one for one in user.find(ui.upload).elements if ".gmt" in str(one.props.get("accept"))]

        [upload] = await until(asked)
        content = b'[views]\nnumbers = ["a", "b"]\nnames = ["code", "gone"]\n'
        await upload.handle_uploads([ui.upload.SmallFileUpload("views.toml", "text/plain", content)])
        await until(lambda: Desk(studio).views() == {"numbers": ["a", "b"], "names": ["code"]})
        await until(lambda: user.back_history[-1] == "/kernels")
        assert any("1 name is not a column" in one for one in user.notify.messages)

    visiting(studio, visit)


@pytest.mark.full
def test_a_column_of_names_can_be_read_as_text(studio):
    Desk(studio).set(target="y")

    async def visit(user):
        await user.open("/")
        [pick] = await until(lambda: named(user, "Type of code", ui.select))
        assert pick.options == {
            "": "text: a category", "number": "number", "category": "category", "text": "text to read", "date": "date"
        }  # fmt: skip
        pick.set_value("text")
        await until(lambda: Desk(studio).spec.types == {"code": "text"})
        assert "CharNGrams" in studio.kernels(Desk(studio).data, Desk(studio).spec, 0).model_dump_json()

    visiting(studio, visit)


def test_the_order_of_runs_can_be_turned_without_headings(studio):
    for number, name in enumerate(("beta", "alpha", "gamma")):
        run = f"20260101-00000{number}-abcdef"
        request = {
            "data": {"tables": [file_id("rows.csv")]},
            "spec": {"target": "y"},
            "paths": {},
            "method": "rls2",
        }
        studio.store.add_run(run, name, request)
        studio.store.finish(run, "failed", "as a test")

    async def visit(user):
        await user.open("/runs")

        def names():
            found = [one for one in user.find(ui.link).elements if "kw-runlink" in one.classes]
            return [one.text for one in sorted(found, key=lambda one: one.id)]

        await user.should_see("gamma", retries=100)
        assert names() == ["gamma", "alpha", "beta"]
        [pick] = [one for one in user.find(ui.select).elements if one.props.get("label") == "Sort by"]
        pick.set_value("name")
        # names begin with A, as pressing their heading does
        await until(lambda: names() == ["alpha", "beta", "gamma"])
        press(user, "Sort the other way round, now ascending")
        await until(lambda: names() == ["gamma", "beta", "alpha"])
        press(user, "Sort the other way round, now descending")
        await until(lambda: names() == ["alpha", "beta", "gamma"])

    visiting(studio, visit)


@pytest.mark.full
def test_names_of_rows_are_marked_and_left_out(studio):
    Desk(studio).set(target="y")

    async def visit(user):
        await user.open("/")
        await user.should_see("40 values, names of rows?", retries=100)
        await user.open("/method")
        await user.should_see("Recommend", retries=100)
        user.find("Recommend").click()
        await until(lambda: Desk(studio).spec.drop == ["a"])
        await user.should_see("whole numbers that count the rows", retries=200)

    visiting(studio, visit)


@pytest.mark.full
def test_held_out_rows_are_counted_where_they_are_chosen_and_can_be_swapped(studio):
    frame = pd.DataFrame(
        {"a": range(40), "y": range(40), "train": ["T", "T", "F", "T"] * 10, "part": ["u", "v"] * 20}
    )
    frame.to_csv(studio.places.files / "marked.csv", index=False)
    Desk(studio).set_tables([file_id("marked.csv")])
    Desk(studio).set(target="y", holdout="train")

    async def visit(user):
        await user.open("/")
        await user.should_see("10 rows held out, 30 to train on", retries=200)
        user.find("Swap held-out and training rows").click()
        await user.should_see("30 rows held out, 10 to train on", retries=200)
        assert Desk(studio).spec.holdout_values == ["T"]
        user.find("Swap held-out and training rows").click()
        await user.should_see("10 rows held out, 30 to train on", retries=200)
        assert Desk(studio).spec.holdout_values == ""
        # the values of one column are not those of another
        user.find("Swap held-out and training rows").click()
        await until(lambda: Desk(studio).spec.holdout_values == ["T"])
        Desk(studio).set(holdout="part")
        assert Desk(studio).spec.holdout_values == ""
        await user.open("/")
        await user.should_see("does not say which rows are held out", retries=200)

        def asked():
            return [
                one
                for one in user.find(ui.select).elements
                if one.props.get("label") == "Values of held-out rows"
            ]

        [pick] = await until(asked)
        pick.set_value(["v"])
        await user.should_see("20 rows held out, 20 to train on", retries=200)
        assert Desk(studio).spec.holdout_values == ["v"]

    visiting(studio, visit)


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["gene_1", "gene_2", "age"], {"gene": ["gene_1", "gene_2"], "other": ["age"]}),
        (["mean area", "worst area", "mean size", "worst size", "mean x"], {"mean": 3, "worst": 2}),
        (["age", "size"], {}),
        (["x1", "x2"], {"x": ["x1", "x2"]}),
    ],
)
def test_columns_are_grouped_by_words_that_they_share(names, groups):
    found = group_by_name(names)
    if groups.get("mean") == 3:
        found = {key: len(members) for key, members in found.items()}
    assert found == groups


def test_kernels_are_chosen_once_there_is_a_target(studio):
    async def visit(user):
        Desk(studio).set(target="")
        await user.open("/kernels")
        await user.should_see(NOT_YET, retries=100)
        Desk(studio).set(target="y")
        await user.open("/kernels")
        await user.should_see("Kernels before learning", retries=200)

    visiting(studio, visit)


def test_fields_of_a_learner_show_what_is_stored(studio):
    async def visit(user):
        Desk(studio).set(target="y", method="lp", learner_params={"p": 1.75}, kernels="linear")
        await user.open("/method")

        def shown():
            with user:
                return any(getattr(one, "value", None) in (1.75, "1.75") for one in ElementFilter())

        await until(shown)

    visiting(studio, visit)


def texts(user, kind, name=""):
    """What stands in the cells of the table with a name, or in all elements of a class, from top to bottom."""
    with user:
        if not name:
            return [one._text for one in sorted(ElementFilter(kind=kind), key=lambda one: one.id)]
        [table] = [
            one for one in ElementFilter() if one.props.get("aria-label") == name and one.tag == "table"
        ]
        return [
            [
                " ".join(part._text for part in [cell, *cell.descendants()] if getattr(part, "_text", None))
                for cell in row
            ]
            for row in sorted((one for one in table.descendants() if one.tag == "tr"), key=lambda one: one.id)
        ]


SCORE, ERROR = "R^2, held out", "RMSE, held out"


def put_run(studio, number, name, *, state="done", method="rls2", **scores):
    """A run in the database as if it had been there, with scores by their names."""
    run = f"20260101-{number:06d}-abcdef"
    spec = {"target": "y", "method": method, "cv": 3 + number}
    request = {"name": name, "data": {"tables": [file_id("rows.csv")]}, "spec": spec}
    paths = {"rows": str(studio.places.files / "rows.csv")}
    studio.store.add_run(run, name, {**request, "paths": paths, "method": method})
    studio.places.run(run).mkdir()
    studio.store.move(run, ("queued",), "running", started=1000.0 + number)
    for metric, value in scores.items():
        ends = {"low": value - 0.1, "high": value + 0.1}
        studio.store.write(run, Metric(name={"r2": SCORE, "rmse": ERROR}[metric], value=value, n=30, **ends))
    summary = {
        "task": "regression", "method": method, "n_kernels": 9, "n_active": 2 + number, "regularization": "alpha = 1",
        "rel_gap": 1e-7, "status": "optimal", "n_training": 32, "n_held": 8, "seconds": 3.0 + number,
    }  # fmt: skip
    studio.store.finish(run, state, "", summary if state == "done" else None)
    return run


def test_the_list_of_runs_is_searched_sorted_and_chosen_from(studio):
    good, bad, other = (
        put_run(studio, 1, "alpha", r2=0.9, rmse=1.0),
        put_run(studio, 2, "beta", r2=0.5, rmse=3.0, method="lp"),
        put_run(studio, 3, "gamma", state="failed"),
    )

    async def visit(user):
        await user.open("/runs")
        await user.should_see("gamma", retries=100)

        def board():
            return texts(user, ui.element, "Runs")[1:]

        def names():
            return [next(word for word in ("alpha", "beta", "gamma") if word in row[1]) for row in board()]

        def field(label, kind=ui.select):
            [one] = [one for one in user.find(kind).elements if one.props.get("label") == label]
            return one

        assert names() == ["gamma", "beta", "alpha"]
        rows = {name: row for name, row in zip(names(), board(), strict=True)}
        assert [rows[name][2] for name in ("alpha", "beta", "gamma")] == [
            "0.90 (0.80 to 1.00)", "0.50 (0.40 to 0.60)", "–",
        ]  # fmt: skip
        assert [rows[name][3] for name in ("alpha", "beta")] == ["rls2", "lp"]
        assert rows["alpha"][4] == "rows.csv: y"
        # scores: the best first; of errors that is the smallest
        field("Sort by").set_value("score")
        await until(lambda: names() == ["alpha", "beta", "gamma"])
        field("Score").set_value(ERROR)
        await until(lambda: [row[2][:4] for row in board()] == ["1.0 ", "3.0 ", "–"])
        field("Sort by").set_value("name")
        await until(lambda: names() == ["alpha", "beta", "gamma"])
        field("Sort by").set_value("score")
        await until(lambda: [row[2][:4] for row in board()] == ["1.0 ", "3.0 ", "–"])
        field("Limit", ui.number).set_value(2.0)
        await until(lambda: names() == ["alpha"])
        await user.should_see("1 of 3 runs")
        field("Limit", ui.number).set_value(None)
        await until(lambda: len(names()) == 3)
        for label, value, left in (("Learner", "lp", ["beta"]), ("State", "failed", ["gamma"])):
            field(label).set_value(value)
            await until(lambda left=left: names() == left)
            field(label).set_value("")
            await until(lambda: len(names()) == 3)
        field("Search", ui.input).set_value("alpha")
        await until(lambda: names() == ["alpha"])
        field("Search", ui.input).set_value(None)
        await until(lambda: len(names()) == 3)
        # what is chosen
        [box] = named(user, "Choose gamma", ui.checkbox)
        box.set_value(True)
        await user.should_see("3 runs; 1 chosen", retries=100)
        user.find(kind=ui.button, content="Compare").click()
        await until(
            lambda: any("None of these runs has a model to compare" in m for m in user.notify.messages)
        )
        [every] = named(user, "Choose all 3 runs", ui.checkbox)
        every.set_value(True)
        await user.should_see("3 runs; 3 chosen", retries=100)
        press(user, "Pin alpha")
        await until(lambda: names()[0] == "alpha" and named(user, "Unpin alpha", ui.button))
        assert studio.run(good).marks.pinned
        [box] = named(user, "Choose alpha", ui.checkbox)
        box.set_value(False)
        await user.should_see("3 runs; 2 chosen", retries=100)
        user.find(kind=ui.button, content="Delete").click()
        await user.should_see("Delete 2 runs?", retries=100)
        await user.should_see("with their models and files.")
        [dialog] = user.find(ui.dialog).elements
        [sure] = [one for one in dialog.descendants() if isinstance(one, ui.button) and one.text == "Delete"]
        UserInteraction(user, {sure}, "Delete").click()
        await until(lambda: [run.id for run in studio.runs()] == [good])
        await until(lambda: names() == ["alpha"])
        assert not {bad, other} & {run.id for run in studio.runs()}

    visiting(studio, visit)


def test_runs_side_by_side_have_the_numbers_of_each(studio, monkeypatch):
    first = put_run(studio, 1, "one", r2=0.9, rmse=1.0)
    second = put_run(studio, 2, "two", r2=0.5)
    put_run(studio, 3, "gone", state="failed")
    third = put_run(studio, 4, "three", r2=0.25, method="lp")
    asked, plain = [], Studio.compare
    test = {
        "test": "permutation", "why": "The same rows", "what": SCORE, "difference": 0.4, "low": 0.1, "high": 0.7,
        "p_value": 0.012, "adjusted": 0.024, "n": 30, "rows": 30,
    }  # fmt: skip

    def compare(self, runs):
        asked.append(runs)
        found = plain(self, runs)
        pair = PairedComparison(first=runs[0], second=runs[1], **test)
        return found.model_copy(update={"tests": [pair]} if len(runs) > 1 else {})

    monkeypatch.setattr(Studio, "compare", compare)

    async def visit(user):
        await user.open(f"/compare?runs={first},{second},{first},nothing")
        await user.should_see("Settings that differ", retries=200)
        assert asked == [[first, second]]
        scores = {row[0]: row[1:] for row in texts(user, ui.element, "Scores of the runs")}
        assert [part.split()[0] for part in scores[SCORE]] == ["0.90", "0.50"]
        assert [part.split()[0] for part in scores[ERROR]] == ["1.0", "–"]
        assert scores["kernels with a weight"] == ["3", "4"]
        assert scores["seconds"] == ["4.0", "5.0"]
        [_, pair] = texts(user, ui.element, "Paired tests of runs")
        assert pair == [pair[0], SCORE, "0.40", "0.10 to 0.70", "0.012", "0.024", "permutation"]
        assert pair[0].index("one") < pair[0].index(" minus ") < pair[0].index("two")
        assert [row[1:] for row in texts(user, ui.element, "Settings that differ")[1:]] == [["4", "5"]]
        # without any that are named: the newest of the same column and tables
        await user.open("/compare")
        await user.should_see("Settings that differ", retries=200)
        assert asked[1:] == [[third, second, first]]

    visiting(studio, visit)


def test_a_project_is_shown_renamed_and_copied(studio, monkeypatch):
    put_run(studio, 1, "one", r2=0.9)
    [mine] = Projects(studio).all()
    gone = []
    monkeypatch.setattr(ProjectsPage, "go", lambda _, *where: gone.append(where))

    async def visit(user):
        await user.open("/projects")
        await user.should_see("The version is the beginning", retries=200)
        [heads, row] = texts(user, ui.element, "Tables of this project")
        assert [heads[0], heads[6], *row[:3]] == ["name", "runs", "rows.csv", "40", "4"]
        assert row[6] == "1"
        content = (studio.places.files / "rows.csv").read_bytes()
        assert row[4] == hashlib.sha256(content).hexdigest()[:10]

        async def ask(word, name, again=None):
            user.find(kind=ui.button, content=word).click()
            [dialog] = await until(lambda: [one for one in user.find(ui.dialog).elements if one.value])
            inside = list(dialog.descendants())
            [field] = [one for one in inside if isinstance(one, ui.input)]
            before = field.value
            field.set_value(name)
            [sure] = [one for one in inside if isinstance(one, ui.button) and one.text == (again or word)]
            UserInteraction(user, {sure}, word).click()
            return before

        assert await ask("Rename", "Other") == mine.name
        await until(lambda: gone)
        assert [one.name for one in Projects(studio).all()] == ["Other"]
        assert gone == [(mine.id, "projects")]
        await user.open("/projects")
        await user.should_see("The version is the beginning", retries=200)
        assert await ask("Duplicate", "Copy") == "Other copy"
        await until(lambda: len(gone) == 2)
        [copy] = [one for one in Projects(studio).all() if one.name == "Copy"]
        assert (copy.n_tables, copy.n_runs) == (1, 1)
        assert gone[1] == (copy.id, "")

    visiting(studio, visit)
