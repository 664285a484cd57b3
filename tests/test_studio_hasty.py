"""Pages with a simulated user who is quicker than the server, and with two windows at once."""

import asyncio
import gc
import inspect
import threading
import time

import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("nicegui")
pytest.importorskip("psutil")

from nicegui import ElementFilter, ui

from kernelweave._errors import InputError
from kernelweave_app.studio import jobs as evidence_jobs
from kernelweave_app.studio.catalogue import Catalogue, file_id
from kernelweave_app.studio.jobs import EvidenceDesk
from kernelweave_app.studio.pages import projects as projects_page
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.schema import Expected, Marks, Metric, RunRequest
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.worker import Job
from studio_server import run_here
from studio_user import named, press, until, visiting
from test_studio_leaderboard import ACCURACY, put

# Pages themselves are in files of their own; what only happens to hurried users takes a minute.
pytestmark = pytest.mark.full

ROWS, MORE, OTHER = (file_id(name) for name in ("rows.csv", "more.csv", "other.csv"))


@pytest.fixture
def studio(tmp_path):
    frame = pd.DataFrame(
        {"who": [f"p{k}" for k in range(40)], "a": range(40), "b": [k % 7 for k in range(40)]}
    )
    frame.assign(y=frame["a"] * 1.5).to_csv(tmp_path / "rows.csv", index=False)
    for name, column in (("more", "c"), ("other", "d")):
        frame[["who"]].assign(**{column: frame["b"] ** 2}).to_csv(tmp_path / f"{name}.csv", index=False)
    studio = Studio(tmp_path)
    Desk(studio).set_tables([ROWS])
    yield studio
    studio.store.close()


@pytest.fixture
def held(monkeypatch):
    """Methods that wait in their thread until they are let go."""
    gates = []

    def hold(owner, name, only=lambda *args, **kwargs: True):
        real, gate, asked = getattr(owner, name), threading.Event(), []

        def waits(*args, **kwargs):
            found = real(*args, **kwargs)
            if only(*args, **kwargs):
                asked.append(args)
                assert gate.wait(20.0)
            return found

        monkeypatch.setattr(owner, name, waits)
        gate.asked = asked
        gates.append(gate)
        return gate

    yield hold
    for gate in gates:
        gate.set()


def labelled(user, label, kind):
    """The elements of a kind with a label."""
    return [one for one in user.find(kind).elements if one.props.get("label") == label]


def dialogs(user):
    """Those that are open."""
    with user:
        return [one for one in ElementFilter(kind=ui.dialog) if one.value]


def tables(studio):
    return Desk(studio).data.tables


# ---- tables ---------------------------------------------------------------------------------------


def test_a_window_that_opens_while_another_one_is_read_shows_its_own_tables(studio, monkeypatch):
    """The first one is read late, once the second one, without tables, is there; then a table is chosen in that one."""
    real, read = ui.timer, []

    def late_timer(_, callback, **more):
        async def noted():
            answer = callback()
            if inspect.isawaitable(answer):
                await answer
            read.append(callback)

        return real(1.0, noted, **more)

    async def visit(user):
        with monkeypatch.context() as late:
            late.setattr(ui, "timer", late_timer)
            await user.open("/")
            Desk(studio).set_tables([])
            await user.open("/")
        await user.should_see("No table is chosen yet", retries=200)
        await until(lambda: read)
        [pick] = labelled(user, "Choose a table", ui.select)
        pick.set_value(MORE)
        await user.should_see("Views from a file", retries=100)

    visiting(studio, visit)


def test_two_tables_that_are_chosen_at_once_are_both_chosen(studio, held):
    reading = held(Catalogue, "read", lambda _, table_id, **__: table_id == MORE)

    async def visit(user):
        await user.open("/")
        await user.should_see("Views from a file", retries=200)
        [pick] = labelled(user, "Add another table, joined by a key", ui.select)
        pick.set_value(MORE)
        await until(lambda: reading.asked)
        pick.set_value(OTHER)
        await asyncio.sleep(0.2)
        reading.set()
        await until(lambda: len(tables(studio)) == 3)
        assert tables(studio) == [ROWS, MORE, OTHER]

    visiting(studio, visit)


def test_two_tables_that_are_left_out_at_once_are_both_left_out(studio, held):
    Desk(studio).set_tables([ROWS, MORE, OTHER], "who")
    reading = held(Catalogue, "read", lambda _, table_id, **__: table_id == ROWS)

    async def visit(user):
        await user.open("/")
        reading.set()
        await user.should_see("Views from a file", retries=200)
        reading.clear()
        for name in ("more.csv", "other.csv"):
            press(user, f"Leave out {name}")
        await asyncio.sleep(0.2)
        reading.set()
        await until(lambda: len(tables(studio)) < 3)
        await until(lambda: tables(studio) == [ROWS], 5.0)

    visiting(studio, visit)


def test_a_table_that_is_only_stored_leaves_the_key_of_others(studio, tmp_path):
    Desk(studio).set_tables([ROWS, MORE], "who")

    async def visit(user):
        await user.open("/")
        await user.should_see("Key: the column that names the rows", retries=200)
        await uploaded(user, OTHER)
        await user.should_see("How should other.csv be used?", retries=100)
        choose_way(user, "later")
        await asyncio.sleep(0.3)
        await user.should_see("Key: the column that names the rows", retries=100)

    visiting(studio, visit)


async def uploaded(user, table_id):
    """Say that a file has arrived."""
    [upload] = [one for one in user.find(ui.upload).elements if one.props.get("multiple")]
    [listener] = [one for one in upload._event_listeners.values() if one.type == "uploaded"]
    upload._handle_event({"listener_id": listener.id, "args": table_id})


def choose_way(user, way):
    [radio] = user.find(ui.radio).elements
    radio.set_value(way)
    user.find("Do that").click()


def test_an_upload_joins_the_tables_of_now(studio):
    """Another window may choose others while the question stands."""

    async def visit(user):
        await user.open("/")
        await user.should_see("Views from a file", retries=200)
        await uploaded(user, OTHER)
        await user.should_see("How should other.csv be used?", retries=100)
        Desk(studio).set_tables([ROWS, MORE], "who")
        choose_way(user, "key")
        await until(lambda: OTHER in tables(studio))
        assert tables(studio) == [ROWS, MORE, OTHER]

    visiting(studio, visit)


def test_the_list_of_columns_ends_with_the_last_one(studio, tmp_path, held):
    pd.DataFrame({f"x{k:02d}": range(9) for k in range(20)}).to_csv(tmp_path / "wide.csv", index=False)
    Desk(studio).set_tables([file_id("wide.csv")])

    async def visit(user):
        await user.open("/")
        await user.should_see("1 to 12 of 20 columns", retries=200)
        press(user, "Further columns")
        press(user, "Further columns")
        await asyncio.sleep(0.5)
        await user.should_see("13 to 20 of 20 columns")

    visiting(studio, visit)


def test_views_of_a_dialog_that_was_left_are_not_made(studio, held):
    Desk(studio).set(target="y")
    reading = held(Studio, "views")

    async def visit(user):
        await user.open("/kernels")
        await user.should_see("From a file", retries=200)
        user.find("From a file").click()
        [upload] = await until(lambda: [one for one in user.find(ui.upload).elements])
        content = b'[views]\nnumbers = ["a", "b"]\n'
        coming = asyncio.create_task(
            upload.handle_uploads([ui.upload.SmallFileUpload("views.toml", "text/plain", content)])
        )
        await until(lambda: reading.asked)
        user.find("Cancel").click()
        reading.set()
        await coming
        await asyncio.sleep(0.3)
        assert Desk(studio).views() == {}

    visiting(studio, visit)


def test_views_of_two_windows_are_not_lost(studio):
    """One that was made in another window, after this one was opened, is not silently taken away."""
    Desk(studio).set(target="y")
    here, there = Desk(studio), Desk(studio)
    there.set(views={"one": ["a"]})
    for values in ({"views": {"two": ["b"]}}, {"views": ""}):
        with pytest.raises(InputError, match="'Views' has been changed in another window"):
            here.set(**values)
    assert Desk(studio).views() == {"one": ["a"]}
    here.set(drop=["who"])
    with pytest.raises(InputError, match="'Columns left out' has been changed in another window"):
        there.set(drop=["a"])
    # what has one part is that of the last change, and what both want is no conflict
    there.set(cv=4, normalize="trace", drop=["who"])
    here.set(cv=7)
    assert (Desk(studio).spec.cv, Desk(studio).spec.drop) == (7, ["who"])
    assert here.spec.views == ""


# ---- method ---------------------------------------------------------------------------------------


def test_a_wrong_field_that_is_drawn_anew_is_no_longer_wrong(studio):
    Desk(studio).set(target="y", kernels="linear")

    async def visit(user):
        await user.open("/method")
        await user.should_see("fits at most", retries=200)
        [cv] = [one for one in user.find(ui.number).elements if one.props.get("label") == "Folds"]
        cv.set_value(2.5)
        await user.should_see("First correct the fields marked above", retries=100)
        user.find("Quick").click()
        await user.should_see("fits at most", retries=100)
        await user.should_not_see("First correct the fields marked above", retries=100)

    visiting(studio, visit)


@pytest.mark.full
def test_a_setting_that_is_changed_while_a_recommendation_is_made_stays(studio, held):
    Desk(studio).set(target="y", kernels="linear")
    asked = held(Studio, "recommend")
    measured = held(Studio, "estimate")

    async def visit(user):
        await user.open("/method")
        await user.should_see("fits at most", retries=200)
        user.find("Recommend").click()
        await until(lambda: asked.asked)
        other = Desk(studio).spec.missing_views
        assert other != "renormalize"
        [number] = labelled(user, "How many", ui.number)
        number.set_value(7)
        assert Desk(studio).spec.alphas == "7"
        asked.set()
        await until(lambda: measured.asked)
        assert Desk(studio).spec.alphas == "7"

    visiting(studio, visit)


# ---- runs -----------------------------------------------------------------------------------------


def test_the_first_score_is_shown_once_it_is_there(studio):
    run = put(studio, 1, state="done")
    studio.store._change("UPDATE run SET state = 'running'")

    async def visit(user):
        await user.open("/runs")
        await user.should_see("run 1", retries=100)
        studio.store.write(run, Metric(name=ACCURACY, value=0.75))
        studio.store._change("UPDATE run SET state = 'done'")
        await user.should_see("0.75", retries=100)
        # what is chosen from follows
        [state] = labelled(user, "State", ui.select)
        assert set(state.options) == {"", "done"}
        assert [one.visible for one in labelled(user, "Score", ui.select)] == [True]

    visiting(studio, visit)


def test_a_list_that_was_empty_is_left_once_for_its_first_run(studio, monkeypatch, caplog):
    """Until the page is there again, the run goes on."""

    async def visit(user):
        await user.open("/runs")
        await user.should_see("No runs yet", retries=100)
        opened = []
        monkeypatch.setattr(ui.navigate, "to", opened.append)
        put(studio, 1, state="done")
        await until(lambda: opened)
        studio.store._change("UPDATE run SET state = 'failed'")
        await asyncio.sleep(1.5)
        assert opened == ["/runs"]

    visiting(studio, visit)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_run_that_is_gone_is_left_once(studio, monkeypatch):
    """A page that takes its time would be asked for again and again, and never come."""
    run = put(studio, 1, score=0.5)

    async def visit(user):
        await user.open(f"/runs?run={run}")
        await user.should_see("Tags and note", retries=100)
        opened = []
        monkeypatch.setattr(ui.navigate, "to", opened.append)
        studio.delete(run)
        await until(lambda: opened)
        await asyncio.sleep(1.5)
        assert opened == ["/runs"]

    visiting(studio, visit)


def test_a_question_stays_while_the_list_is_renewed(studio):
    first, second = put(studio, 1, score=0.5), put(studio, 2, score=0.6)

    async def visit(user):
        await user.open("/runs")
        await user.should_see("run 2", retries=100)
        [box] = named(user, "Choose run 1", ui.checkbox)
        box.set_value(True)
        await user.should_see("1 chosen", retries=100)
        user.find("Delete").click()
        await user.should_see("Delete 1 run?", retries=100)
        studio.mark(second, Marks(pinned=True))
        await until(lambda: named(user, "Unpin run 2", ui.button))
        gc.collect()
        await user.should_see("Delete 1 run?")
        [dialog] = user.find(ui.dialog).elements
        assert dialog.value
        sure = [
            one
            for one in user.find(ui.button).elements
            if one.text == "Delete" and "negative" in str(one.props)
        ]
        with dialog.client:
            inside = [one for one in dialog.descendants() if one in sure]
        [button] = inside
        hit(button)
        hit(button)  # as in a double click
        await until(lambda: [run.id for run in studio.runs()] == [second])
        await asyncio.sleep(0.3)
        assert user.notify.messages == []
        assert first != second

    visiting(studio, visit)


def hit(element, event="click"):
    """What the server hears of a press, also if the element is already gone for the user."""
    for listener in list(element._event_listeners.values()):
        if listener.type == event:
            element.client.handle_event({"id": element.id, "listener_id": listener.id, "args": []})


def test_marks_that_are_changed_at_once_are_all_kept(studio, held):
    """On one page, and on another one in between."""
    run = put(studio, 1, score=0.5)
    real = Studio.mark

    async def visit(user):
        await user.open(f"/runs?run={run}")
        await user.should_see("Tags and note", retries=100)
        real(studio, run, Marks(pinned=True))  # in another window
        [note] = user.find(ui.textarea).elements
        note.set_value("a note")
        slow = held(Studio, "mark")
        hit(note, "blur")
        await until(lambda: slow.asked)
        [tags] = [one for one in user.find(ui.input).elements if "Tags" in str(one.props.get("label"))]
        tags.set_value("one, two")
        hit(tags, "blur")
        await asyncio.sleep(0.2)
        slow.set()
        await until(lambda: studio.run(run).marks.tags == ["one", "two"])
        assert studio.run(run).marks == Marks(pinned=True, note="a note", tags=["one", "two"])

    visiting(studio, visit)


# ---- evidence -------------------------------------------------------------------------------------


@pytest.fixture
def finished(studio, monkeypatch):
    """A run with results."""
    monkeypatch.setattr(Job, "_pictures", lambda *_: [])
    desk = Desk(studio)
    desk.set(target="y", drop=["who"], alphas="0.1,1", cv=2, method="rls2", kernels="linear_features")
    return run_here(studio, RunRequest(data=desk.data, spec=desk.spec))


def test_evidence_that_is_asked_for_twice_is_computed_once(studio, finished, monkeypatch):
    begun = []

    class Child:
        def __init__(self, command, **_):
            begun.append(command[-1])

        def poll(self):
            return None

    real = evidence_jobs.write_status

    def slowly(*args, **values):
        time.sleep(0.1)
        real(*args, **values)

    monkeypatch.setattr(evidence_jobs.subprocess, "Popen", Child)
    monkeypatch.setattr(evidence_jobs, "write_status", slowly)
    threads = [
        threading.Thread(
            target=studio.evidence.start, args=(finished, "stability", 3), kwargs={"refit": True}
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert begun == ["stability"]


class Computing:
    """Evidence as processes would report it."""

    def __init__(self, monkeypatch):
        self.now = {}
        monkeypatch.setattr(EvidenceDesk, "status", lambda _, run: {k: dict(v) for k, v in self.now.items()})
        monkeypatch.setattr(EvidenceDesk, "_begin", lambda _, folder, kind, *how, **more: self.go(kind, 0))

    def go(self, kind, done, state="running"):
        self.now[kind] = {"state": state, "done": done, "total": 9, "stopping": False}


def test_buttons_and_fields_stay_while_other_evidence_goes_on(studio, finished, monkeypatch):
    """A press or a letter that falls on the moment of drawing would be lost."""
    computing = Computing(monkeypatch)
    computing.go("stability", 1)

    async def visit(user):
        await user.open(f"/understand?run={finished}")
        await user.should_see("1 of 9", retries=100)

        def parts():
            [group] = [
                one
                for one in user.find(ui.element).elements
                if one.props.get("aria-label") == "Learning curve"
            ]
            stop, *_ = [
                b
                for b in user.find(ui.button).elements
                if str(b.props.get("aria-label")).startswith("Stop: ")
            ]
            return group.id, stop.id

        before = parts()
        computing.go("stability", 2)
        await user.should_see("2 of 9", retries=100)
        assert parts() == before
        computing.go("stability", 9, "done")
        await until(lambda: not [b for b in user.find(ui.button).elements if b.text == "Stop"])

    visiting(studio, visit)


def test_evidence_that_begins_while_other_evidence_ends_is_followed(studio, finished, monkeypatch, held):
    computing = Computing(monkeypatch)
    computing.go("stability", 8)

    async def visit(user):
        await user.open(f"/understand?run={finished}")
        await user.should_see("8 of 9", retries=100)
        computing.go("stability", 9, "done")
        reading = held(EvidenceDesk, "read")
        await until(lambda: reading.asked)
        [button] = [
            b for b in user.find(ui.button).elements if b.props.get("aria-label") == "Compute: Learning curve"
        ]
        hit(button)
        await asyncio.sleep(0.2)
        reading.set()
        await user.should_see("0 of 9", retries=100)
        await asyncio.sleep(1.2)
        computing.go("learning curve", 5)
        await user.should_see("5 of 9", retries=100)

    visiting(studio, visit)


# ---- parts that are pressed next ------------------------------------------------------------------


def test_what_is_pressed_after_typing_kernels_is_still_there(studio):
    """The press takes the focus from the field, which stores what was typed before the press is done."""
    Desk(studio).set(
        target="y", drop=["who"], views={"one": ["a"], "two": ["b"]}, kernels={"one": "poly(degree=4)"}
    )

    async def visit(user):
        await user.open("/kernels")
        await user.should_see("Gram matrices of", retries=200)
        [own] = [one for one in user.find(ui.input).elements if one.value == "poly(degree=4)"]
        buttons = {one.id for one in user.find(ui.button).elements}
        own.set_value("poly(degree=3)")
        hit(own, "blur")
        await until(lambda: Desk(studio).spec.kernels == {"one": "poly(degree=3)"})
        await asyncio.sleep(0.3)
        assert buttons <= {one.id for one in user.find(ui.button).elements}

    visiting(studio, visit)


def test_files_of_a_project_are_those_of_the_last_look(studio, monkeypatch):
    """Two are deleted one after the other, and the first look takes longer."""
    real, gates = projects_page.describe_files, []

    def slowly(inside):
        found, gate = real(inside), threading.Event()
        gates.append(gate)
        assert gate.wait(20.0)
        return found

    async def visit(user):
        await user.open("/projects")
        await user.should_see("The version is the beginning", retries=200)
        monkeypatch.setattr(projects_page, "describe_files", slowly)
        for number, name in enumerate(("more.csv", "other.csv"), start=1):
            press(user, f"Delete {name}")
            [dialog] = await until(lambda: dialogs(user))
            [sure] = [
                one for one in dialog.descendants() if isinstance(one, ui.button) and one.text == "Delete"
            ]
            hit(sure)
            await until(lambda number=number: len(gates) == number)
        gates[1].set()
        await until(lambda: not named(user, "Delete other.csv", ui.button))
        gates[0].set()
        await asyncio.sleep(0.3)
        assert [len(named(user, f"Delete {name}.csv", ui.button)) for name in ("rows", "more", "other")] == [
            1,
            0,
            0,
        ]

    visiting(studio, visit)


def test_a_file_that_goes_while_files_are_listed_is_left_out(studio, monkeypatch):
    from kernelweave_app.studio.projects import describe_files

    listed = studio.places.tables()
    monkeypatch.setattr(type(studio.places), "tables", lambda _: listed)
    (studio.places.root / "more.csv").unlink()
    assert [one.name for one in describe_files(studio)] == ["other.csv", "rows.csv"]


def test_a_run_of_other_settings_is_another_one(studio, monkeypatch):
    """The same page starts the same run once, and after a change a new one; the next page may take its time."""
    studio.queue.at_once = 0
    Desk(studio).set(target="y", drop=["who"], kernels="linear")
    monkeypatch.setattr(ui.navigate, "to", lambda _: None)

    async def visit(user):
        await user.open("/method")
        await user.should_see("fits at most", retries=200)
        monkeypatch.setattr(ui.navigate, "to", lambda _: None)
        for number in (1, 1):
            user.find("Start the run").click()
            await until(lambda number=number: len(studio.runs()) == number)
            await asyncio.sleep(0.3)
        [seed] = labelled(user, "Seed", ui.number)
        seed.set_value(5)
        user.find("Start the run").click()
        await until(lambda: len(studio.runs()) == 2)
        assert {run.request.spec.seed for run in studio.runs()} == {0, 5}

    visiting(studio, visit)


def test_the_time_of_the_settings_that_were_measured_last_is_told(studio, monkeypatch):
    Desk(studio).set(target="y", drop=["who"], kernels="linear")
    gates = []

    def estimate(self, data, spec):
        gate, number = threading.Event(), len(gates)
        gates.append(gate)
        assert gate.wait(20.0)
        return Expected(low=1.0, seconds=2.0, high=1000.0 * (1 + number), sure="", memory=0)

    monkeypatch.setattr(Studio, "estimate", estimate)

    async def visit(user):
        await user.open("/method")
        await user.should_see("fits at most", retries=200)
        user.find("How long will it take?").click()
        await until(lambda: len(gates) == 1)
        user.find("Recommend").click()
        await until(lambda: len(gates) == 2)
        gates[1].set()
        await user.should_see("Time: ", retries=100)
        [shown] = [one.text for one in user.find("Time: ").elements]
        gates[0].set()
        await asyncio.sleep(0.3)
        assert [one.text for one in user.find("Time: ").elements] == [shown]

    visiting(studio, visit)


# ---- windows that are closed ----------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("path", "seen", "hold", "act"),
    [
        ("/", "Views from a file", (Catalogue, "read"), "choose"),
        ("/", "Views from a file", (Studio, "tables"), "upload"),
        ("/", "Views from a file", None, "upload"),
        ("/", "Views from a file", (Studio, "join"), "target"),
        ("/kernels", "Gram matrices of", (Studio, "kernels"), "Look again"),
        ("/method", "fits at most", (Studio, "check"), "Quick"),
        ("/projects", "The version is the beginning", None, "Delete more.csv"),
    ],
)
def test_a_window_that_is_closed_leaves_no_error(studio, held, caplog, path, seen, hold, act):
    """While its handlers wait for tables, or for an answer."""
    Desk(studio).set(target="y", drop=["who"], kernels="linear")

    async def visit(user):
        await user.open(path)
        await user.should_see(seen, retries=200)
        gate = held(*hold) if hold else None
        if act == "choose":
            [pick] = labelled(user, "Add another table, joined by a key", ui.select)
            pick.set_value(MORE)
        elif act == "target":
            [pick] = labelled(user, "Column to predict", ui.select)
            pick.set_value("a")
        elif act == "upload":
            await uploaded(user, OTHER)
            await uploaded(user, MORE)
        elif named(user, act, ui.button):
            press(user, act)
        else:
            user.find(act).click()
        await until(lambda: gate.asked if gate else dialogs(user))
        user.client.delete()
        gc.collect()
        if gate:
            gate.set()
        await asyncio.sleep(0.5)
        assert [
            record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")
        ] == []
        # what was asked for is done all the same
        if act == "choose":
            assert tables(studio) == [ROWS, MORE]

    visiting(studio, visit)


def test_scores_over_folds_have_the_digits_of_their_rows(studio, finished):
    async def visit(user):
        await user.open(f"/understand?run={finished}")
        await user.should_see("Choice of the regularisation parameter", retries=100)
        elements = user.find(ui.element).elements
        [table] = [one for one in elements if one.props.get("aria-label") == "Scores over folds"]
        cells = [one.text for one in table.descendants() if one.tag == "td"]
        curve = studio.results(finished).curve
        assert curve.n_rows < 100
        expected = [f"{value:.2f}" for pair in zip(curve.mean, curve.error, strict=True) for value in pair]
        assert [cell for k, cell in enumerate(cells) if k % 4 in (1, 2)] == expected

    visiting(studio, visit)
