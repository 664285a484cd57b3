"""Parts of the pages of the studio by themselves, and what pages read in threads, here in this one.

Modules: `studio/pages/data`, `studio/pages/kernels`, `studio/pages/method`, `studio/pages/pieces`,
`studio/pages/charts`, `studio/pages/naming`, `studio/pages/runs`, `studio/pages/understand`,
`studio/pages/story`, `studio/pages/form`, `studio/pages/desk`, `studio/pages/use`.
"""

import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("nicegui")
pytest.importorskip("psutil")

from nicegui import Client
from nicegui.page import page

from kernelweave._errors import InputError
from kernelweave_app.runs.spec import Spec
from kernelweave_app.studio import schema
from kernelweave_app.studio.catalogue import file_id
from kernelweave_app.studio.pages import (
    charts,
    data,
    form,
    kernels,
    method,
    naming,
    pieces,
    runs,
    story,
    understand,
    use,
)
from kernelweave_app.studio.pages.desk import Desk
from studio_dump import GRAM, MORE, PLAIN, ROWS, drawn


def told(found):
    """Records as what JSON has."""
    if hasattr(found, "model_dump"):
        return found.model_dump(exclude_defaults=True)
    if isinstance(found, list | tuple):
        return [told(one) for one in found]
    return {key: told(one) for key, one in found.items()} if isinstance(found, dict) else found


def test_what_the_page_of_tables_reads(studio, recorded):
    desk = Desk(studio)
    desk.set_tables([ROWS, MORE, GRAM], "who", {ROWS: "table", MORE: "table", GRAM: "kernels"})
    desk.set(target="y", holdout="part", types={"site": "text"}, missing="impute", drop=["begun"])
    with Client(page("")):
        found = data.DataPage(studio)
        joined, looks = found.read()
        recorded("joined", told(joined))
        recorded("looks", [told(one) for one in looks[:4]])
        for table, rows, far, names in looks[4]:
            recorded(
                table.name,
                [
                    told(table) | {"memory": 0},
                    rows.columns,
                    rows.total,
                    len(rows.rows),
                    rows.rows[:2],
                    told(far),
                    names,
                ],
            )
            columns = data.ColumnList(found, table, names)
            columns.search, columns.start = "o", 1
            recorded(f"columns of {table.name}", told(columns.read()))
        # without a target, and of times
        Desk(studio).set(target="", holdout="")
        recorded("no target", [told(one) for one in data.DataPage(studio).read()[1][:4]])
        Desk(studio).set(time="months", event="died")
        recorded("times", told(data.DataPage(studio).read()[1][0]))
        Desk(studio).set_tables([])
        assert data.DataPage(studio).read() == (None, (None, None, None, [], []))
    recorded("ways to join", [data.look(studio, [ROWS], new) for new in (MORE, PLAIN)])
    other = pd.DataFrame({"who": ["p00", "p00"], "z": [1, 2]})
    other.to_csv(studio.places.root / "twice.csv", index=False)
    recorded("no way to join", data.look(studio, [ROWS], file_id("twice.csv")))
    assert data.look(studio, ["file-0000000000000000"], ROWS) == ([], False)


def test_what_other_pages_read(studio, recorded, monkeypatch):
    desk = Desk(studio)
    desk.set_tables([ROWS])
    desk.set(target="y", missing="drop", drop=["who", "begun"], cv=3)
    with Client(page("")):
        found = method.MethodPage(studio)
        assert found.read_target() == ("classification", 3)
        checked, consequences = found.start.check()
        recorded("ready", [told(checked), told(consequences)])
        found.guide.measured = (found.desk.spec.model_copy(), "measured")
        assert found.guide.expected() == "measured"
        found.desk.set(cv=4)
        assert found.guide.expected() is None
        Desk(studio).set(target="age", task="auto")
        assert method.MethodPage(studio).read_target() == ("regression", 0)
        Desk(studio).set(target="", time="months", event="died")
        assert method.MethodPage(studio).read_target() == ("survival", 1)
        Desk(studio).set(time="", event="", target="nothing")
        assert method.MethodPage(studio).read_target() == ("classification", 2)
        recorded("not ready", told(method.MethodPage(studio).start.check()[0]))
        Desk(studio).set(target="y", kernels="linear")
        previews = kernels.KernelsPage(studio).read_kernels()
        recorded("kernels", [[one.name, one.alignment, one.rank] for one in previews.kernels])
        assert len(previews.kernels) <= kernels.THUMBNAILS
        # a run without a script has none to show
        assert use.UsePage(studio, "").again(type("Run", (), {"id": "20260101-000001-abcdef"})) == ("", "")


def test_pieces(recorded):
    def several():
        pieces.stat("1", "one", "of 2")
        for count in (0, 1, 1234567):
            pieces.counted("row", count, several="")
        pieces.counted("row held out", 2, several="rows held out")
        pieces.tag("state", "good", "check")
        pieces.tag("plain")
        for kind in ("", "warn", "bad", "good"):
            pieces.note("Setting `drop`: text", kind)
        pieces.note("timed", "good", "timer")
        pieces.bars([("a", 2.0), ("b", 0.0), ("c", -1.0)], str)
        pieces.bars([("a", 0.25)], "{:.2f}".format, 1.0)
        pieces.bars([], str)
        pieces.bar("x", 1.5, "y")
        pieces.simple_table(
            ["a", "b"], [["x", None], [1, lambda: pieces.text("drawn")]], numbers=(1,), label="T"
        )
        pieces.verbatim("code", "Code")
        pieces.nothing("icon", "Nothing.", "Data", "/")
        pieces.nothing("icon", "Nothing.")
        pieces.link("a", "/b", new_tab=True)
        pieces.link("a", "/b", download="Download b")
        pieces.own_width("20260101-000001-abcdef", ["one", "two"])
        pieces.tables("20260101-000001-abcdef", ["a b"])
        pieces.typeset("Text with :math:`a_1`.\n\n.. math:: b = c")
        pieces.tabbed({"one": lambda: pieces.text("1"), "two": lambda: pieces.text("2")})
        for first in (0, 10, 20):
            pieces.turner(first, 10, 25, "row", print)
        with pieces.thumb("/a.png", "A picture"):
            pieces.text("below")
        with pieces.card("Title", "About") as aside, aside:
            pieces.text("beside")
        with pieces.card() as aside:
            assert aside is None
        with pieces.explained("Field", "What it is."):
            pieces.text("field")

    recorded("drawn", drawn(several))
    numbers = [None, 0.0, 1e-5, 0.00123, 0.5, 1.25, 99999.0, 123456.7, -2e10, 12.3456]
    recorded("numbers", [[pieces.number(one), pieces.number(one, 3)] for one in numbers])
    recorded("sizes", [pieces.size(one) for one in (None, 0, 999, 1000, 99_950, 123_456, 5e9, 2e15)])
    metric = schema.Metric(name="accuracy", value=0.875, low=0.75, high=None, n=40)
    scores = [
        None,
        metric,
        metric.model_copy(update={"value": None}),
        metric.model_copy(update={"low": None}),
    ]
    recorded("scores", [pieces.score(one) for one in scores])
    assert pieces.error_words(InputError("Setting `drop`: no.")).endswith("no.")
    recorded("errors", [pieces.error_words(one) for one in (InputError("No."), KeyError("x" * 400))])
    cells = (None, "", "1", 2.5, float("nan"), "x", [1], True)
    assert [pieces._is_number(one) for one in cells] == [True, True, True, True, False, False, False, True]
    recorded("address", pieces._address("20260101-000001-abcdef", "a b", "pdf", 85.5))


def test_lists_of_columns_hand_on_what_is_chosen():
    taken, made = [], []
    names = [f"gene_{k}" for k in range(250)] + ["Age"]

    def lists():
        made.append(pieces.pick_column(["a", "b"], ["a", "gone"], "Several", taken.append))
        made.append(pieces.pick_column(["a", "b"], "gone", "One", taken.append, clearable=False, hint="Why"))
        made.append(pieces.pick_column(names, "gene_249", "Long", taken.append, hint="Why"))

    drawn(lists)
    several, one, long = made
    assert (several.value, one.value, long.value) == (["a"], None, "gene_249")
    assert ("clearable" in several.props, "clearable" in one.props) == (True, False)
    assert long.options == [*names[:200], "gene_249"]
    assert long.props["hint"] == "Why. 251 columns: type a part of the name"
    for pick, value in ((several, None), (several, ["b"]), (one, "b"), (one, None)):
        pick.set_value(value)
    assert taken == [[], ["b"], "b", ""]


def test_a_part_that_is_renewed_quietly_stays_until_then():
    def draw():
        part = pieces.Part("Reading", lambda: None).build()
        assert [child.classes for child in part.place.default_slot.children] == [["kw-waiting"]]
        part.show(lambda: pieces.text("found"))
        part.renew(quietly=True)
        [child] = part.place.default_slot.children
        assert child.text == "found"
        part.renew()
        assert [child.classes for child in part.place.default_slot.children] == [["kw-waiting"]]
        number = part._number
        part.place.delete()
        part.renew()
        assert part._number == number

    drawn(draw)


def test_parts_of_the_page_of_tables(recorded):
    table = schema.Table(
        id=ROWS, name="t", n_rows=60, n_columns=4, n_numeric=2, n_missing=0, rows_missing=0, memory=1
    )
    rows = schema.Rows(total=60, columns=["a"], rows=[["1"], [None]])
    wide = table.model_copy(update={"n_rows": 10, "n_columns": 40})
    far = schema.Outliers(
        n_outliers=700,
        n_rows=50,
        columns={"a": 3, "b": 5},
        outliers=[schema.Outlier(row=3, column="a", value=1e6, median=0.5, z=33.333)],
    )
    sides = [
        schema.Side(id=ROWS, name="one", n_rows=10, n_missing=0, examples=[]),
        schema.Side(id=MORE, name="two", n_rows=4, n_missing=6, examples=["p1", "p2"]),
    ]
    joined = schema.Joining(n_rows=1, columns=[], numeric=[], sides=sides, views={}, keys=[])
    gaps = [
        schema.Gap(name="a", n_missing=2, mean=1.5, median=1.0, frequent="", nearest=[1.0, 1.0]),
        schema.Gap(name="b", n_missing=1, mean=None, median=None, frequent="x", nearest=[]),
    ]
    missing = schema.Missing(n_rows=8, n_columns=5, n_cells=7, n_incomplete=7, columns=gaps, views={"v": 1})
    further = [
        schema.Further(name="k", use="kernels", file="k.npz", n_columns=1, by=""),
        schema.Further(name="s", use="sparse", file="s.mtx", n_columns=2, by="who"),
    ]
    alike = schema.Alignments(
        names=["a", "b", "c"],
        values=[[1, 0.25, 0.5], [0.25, 1, 0.75], [0.5, 0.75, 1]],
        target=[0.1, 0.6, 0.3],
        n_rows=9,
    )

    def several():
        data.show_rows(rows, table)
        data.show_rows(rows, wide)
        data.show_rows(rows, table.model_copy(update={"n_rows": 9}))
        data.show_outliers(far, "t", 60)
        data.show_outliers(far.model_copy(update={"n_outliers": 0}), "t", 60)
        data.show_sides(joined)
        data.show_missing(missing, Spec())
        data.show_missing(missing.model_copy(update={"n_cells": 0}), Spec())
        data.show_further(further)
        data.show_further([])
        data.show_alignments(alike)
        data.show_alignments(alike.model_copy(update={"names": ["a"], "target": [0.5], "values": [[1.0]]}))
        data.show_alignments(alike.model_copy(update={"names": []}))
        runs.targets_card(
            ["row", "prediction u", "truth u", "prediction v", "truth v"],
            [["r", 1.0, 2.0, 3.0, None]],
            ["u", "v"],
        )
        form.show_consequences([], print)
        told = [
            schema.Consequence(topic="t", text="Text.", kind="", fix="Fix", settings={"cv": 2}),
            schema.Consequence(topic="u", text="Other.", fix="Leave out", leave_out=ROWS),
        ]
        form.show_consequences(told, print)

    recorded("drawn", drawn(several))
    column = {
        "name": "a",
        "kind": "number",
        "n_missing": 1,
        "n_distinct": 4,
        "low": 1.0,
        "high": 2.5,
        "median": 2.0,
        "counts": [1, 0, 4],
    }
    texts = {
        "name": "b",
        "kind": "text",
        "n_missing": 0,
        "n_distinct": 5,
        "levels": {"x": 3, "y": 2, "z": 1, "w": 1},
        "names_rows": "why",
    }
    for name, given in (
        ("number", column),
        ("text", texts),
        ("taken", {**texts, "taken_for": "category", "n_distinct": 3}),
        ("none", {"name": "c", "kind": "text", "n_missing": 2, "n_distinct": None}),
    ):
        one = schema.Column(**given)
        types = [data.type_options(one, kind) for kind in ("", "date")]
        recorded(name, [data.said_of(one), data.spread_of(one), data.drawing(one), *types])


def test_names_values_and_charts(recorded):
    # exactly four digits, which a comparison of texts would not see
    assert [runs.round_off(one) for one in (0.123456, 12345.6, 3, "x", None)] == [
        0.1235,
        12350.0,
        3,
        "x",
        None,
    ]
    labels = [
        "RBF(gamma=1)",
        "standardised RBF(gamma=1)",
        "a: Linear",
        "Matern(nu=1.5) on x",
        "in a window Linear on all",
        "odd label!",
    ]
    recorded("plain", naming.plain_names(labels))
    recorded("widths", list(naming.plain_names([f"RBF(gamma={k})" for k in (4, 1, 3, 2)]).values()))
    tiny = naming.plain_names(["RBF(gamma=0.001)", "RBF(gamma=1e-05)", "RBF(gamma=2e+1)"])
    assert list(tiny.values()) == [f"all columns, smooth, {width}" for width in ("medium", "wide", "narrow")]
    # only a linear kernel of rows of length one is the cosine; equal names are none
    alike = ["row-normalised Linear", "row-normalised RBF(gamma=1)", "Matern(nu=1.5)", "Matern(nu=2.5)"]
    assert list(naming.plain_names(alike).values()) == [
        "all columns, cosine", "all columns, smooth, row-normalised", *alike[2:],
    ]  # fmt: skip
    line = charts.line("a", [[0, 1]])
    assert (line["lineStyle"][":color"], line["lineStyle"]["type"]) == ("kw('c1')", "solid")
    recorded("styles", [charts.line_style(k) for k in (0, 7, 8, 9, 17, 40)])
    recorded(
        "base",
        [charts.base(), charts.axis("x", log=True), charts.axis("x", category=["a"]), charts.legend(["a"])],
    )
    recorded(
        "pieces",
        [charts.band([(1, 2.0, 5.0)], 1, "b"), charts.marker(2.0, "here"), charts.names_axis(["a", "b"], 9)],
    )
    path = charts.path_chart(
        [1.0, 2.0, None],
        ["a", "b", "c"],
        [[0.5, 0.1, 0.0], [0.25, 0.7, 0.0], [1, 1, 0]],
        by="df",
        cursor=0,
        chosen=1,
    )
    recorded("path", path)
    recorded("no path", charts.path_chart([None, 2.0], ["a"], [[0.5], [0.25]], by="C", cursor=0, chosen=1))
    names = [f"k{k}" for k in range(11)]
    grey = charts.path_chart(
        [1.0, 2.0], names, [[0.1 * k for k in range(11)]] * 2, by="alpha", cursor=1, chosen=0
    )
    recorded("many lines", [[one["name"], one["lineStyle"], one["z"]] for one in grey["series"]])
    recorded(
        "zeros",
        [
            charts.heat_chart(["a"], ["b"], [[0.0]])["visualMap"],
            charts.rows_chart(["a"], ["r"], [[0.0]])["visualMap"],
        ],
    )
    recorded(
        "residuals",
        [charts.residual_chart([1.0, 2.0, -1.0], [1.5, 1.0, -3.0], residuals=one) for one in (False, True)],
    )
    history = [("", {"rel_gap": [1.0, 0.0, 0.1], "dual_value": [1.0, -2.0]})]
    recorded("convergence", [charts.convergence_chart(history, key) for key in ("rel_gap", "dual_value")])
    dots = charts.dots_chart(
        ["a", "b", "c"], [(0.5, 0.25, 0.75), (None, None, None), (0.75, None, 1.0)], "accuracy"
    )
    recorded("dots", dots)
    recorded("size of confusion", [understand._size(one) for one in (2, 4, 5, 14, 15)])


def test_fields_of_numbers_and_lists():
    assert (form.a_number(2.0), form.a_number(2.0, whole=True), form.a_list(" 5 "), form.a_list("1,2")) == (
        2.0,
        2,
        "5.0",
        "1,2",
    )
    assert type(form.a_number(2.0, whole=True)) is int
    for given, words in (
        (lambda: form.a_number(None), "A number is needed, this is empty."),
        (lambda: form.a_number(1.5, whole=True), "A whole number is needed, got 1.5."),
        (lambda: form.a_list(" "), "At least one value is needed, this is empty."),
    ):
        with pytest.raises(InputError) as caught:
            given()
        assert str(caught.value) == words
    assert use.read_times(None) is None
    assert use.address("r", "a b", show=True) == "/api/runs/r/files/a%20b?show=true"
    assert use.address("r", "a/b.svg") == "/api/runs/r/files/a/b.svg"


def test_which_computation_is_next_and_how_long_it_takes(recorded):
    from types import SimpleNamespace

    def evidence(**numbers):
        return schema.Evidence(
            numbers=numbers,
            statements=[],
            kinds=["baselines", "sources", "omission", "stability"],
            progress={},
            figures=[],
            tables=[],
        )

    assert story.next_kind(evidence()) == "omission"
    assert story.next_kind(evidence(omission={"n": 1}, stability={"n": 1})) == "baselines"
    assert story.next_kind(evidence(omission=1, stability=1, baselines=1, sources=1)) == ""
    going = evidence().model_copy(update={"progress": {"sources": schema.EvidenceProgress(state="running")}})
    assert story.next_kind(going) == "sources"
    spec = SimpleNamespace(cv=4, repeats=3)
    views = {"values": {"a": {"value": 0.5}, "b": {"value": 0.5}, "c": {"value": 0.0}}}
    lines = []
    for held, seconds in ((8, 2.0), (0, None)):
        run = SimpleNamespace(
            summary=SimpleNamespace(n_held=held, fit_seconds=seconds), request=SimpleNamespace(spec=spec)
        )
        for kind in ("omission", "permutation", "stability", "learning curve", "baselines", "sources"):
            for count in (0, 7):
                line = (
                    story.announced(run, evidence(views=views), kind, count, refit) for refit in (True, False)
                )
                lines += [[kind, count, *line]]
    recorded("announced", lines)


def test_a_line_of_evidence_is_drawn_anew_only_where_it_says_something_else():
    """While a bar moves, the button beside it stays; a stop, an end and a finding change the line."""
    from types import SimpleNamespace

    def evidence(numbers, **going):
        progress = {kind: schema.EvidenceProgress(**one) for kind, one in going.items()}
        found = {"kinds": ["sources", "omission"], "numbers": numbers, "progress": progress}
        return schema.Evidence(**found, statements=[], figures=[], tables=[])

    place = "sources", False
    renewed, done = [], []
    card = understand.EvidenceCard(None, SimpleNamespace(id="a run"), evidence({}), renewed.append)
    card.timer = SimpleNamespace(is_deleted=False, active=False)

    def draw():
        done.append("line")
        # only a line of what is being computed has a bar
        card.bars = {place: None} if card.found.progress["sources"].state == "running" else {}

    card.lines[place] = draw
    card.advance = lambda kind, new, brief: done.append(new.done)
    card.parts = SimpleNamespace(refresh=lambda: done.append("charts"))
    card.paper = SimpleNamespace(refresh=lambda: done.append("paper"))
    going, stopped, charts_too = {"state": "running"}, {"state": "cancelled", "done": 4}, ["charts", "paper"]
    for numbers, progress, changes, busy in (
        ({}, {"sources": going}, ["line"], True),
        ({}, {"sources": {**going, "done": 2}}, [2], True),
        ({}, {"sources": {**going, "done": 2}, "omission": {"state": "waiting"}}, [], True),
        ({}, {"sources": {**going, "done": 3, "stopping": True}}, ["line"], True),
        ({}, {"sources": {**going, "done": 4, "stopping": True}}, [4], True),
        ({}, {"sources": stopped}, ["line"], False),
        ({"omission": 1}, {"sources": stopped}, charts_too, False),
        ({"omission": 2}, {"sources": stopped}, charts_too, False),
        ({"omission": 2, "sources": 1}, {"sources": stopped}, ["line", *charts_too], False),
    ):
        done.clear()
        card.take(evidence(numbers, **progress))
        assert (done, card.timer.active) == (changes, busy)
    assert [len(one.numbers) for one in renewed] == [1, 1, 2]


def test_classes_are_right_where_their_names_are_the_same():
    """A class that looks like a number may be read as one."""
    from types import SimpleNamespace

    rows = [["r", "1", 1], ["s", "2", "1"], ["t", "ab", "".join(["a", "b"])]]
    more = {"scores": {}, "n_rows": 3, "receivers": [], "classes": ["1", "2"], "confusion": [[4, 1], [2, 3]]}
    held = schema.HeldResult(columns=["row", "truth", "prediction"], rows=rows, **more)
    seen = understand.UnderstandPage(None, "20260101-000001-abcdef")
    lines = drawn(lambda: seen.held(SimpleNamespace(held=held, task="classification")))
    [table] = [one for one in lines if "table Predictions" in one]
    assert "[[0, yes, r, 1, 1], [1, no, s, 2, 1], [2, yes, t, ab, ab]]" in table
    assert [one for one in lines if "Of 10 rows, 3 are misclassified." in one]


def test_the_list_of_runs_shows_how_far_they_are():
    """Nothing moves in a run whose number of steps is not known yet."""
    import asyncio
    from types import SimpleNamespace

    def run(name, done, total):
        request = schema.RunRequest(data={"tables": [ROWS]}, spec={"target": "y"})
        given = {"state": "running", "created": 1.0, "started": 1.0, "finished": None, "cancelling": False}
        more = {"step": "", "reason": "", "request": request, "metrics": [], "summary": None}
        more |= {"id": f"20260101-{name:06d}-abcdef", "name": str(name), "done": done, "total": total}
        return schema.Run(**given, **more)

    going = [run(1, 0, None), run(2, 3, 12), run(3, 1, 4)]
    board = runs.Board(SimpleNamespace(runs=lambda: going))
    board.take(going)
    told = {}
    for one in going[:2]:
        note = lambda said, name=one.name: told.setdefault(name, []).append(said)  # noqa: E731
        board.going[one.id] = SimpleNamespace(style=note), SimpleNamespace(set_text=note)
    asyncio.run(board.look())
    assert told == {"2": ["width: 25.0%", "3 of 12 steps"]}
    # runs were deleted in another window, and with them the second page
    board.runs, board.first = [run(k, k, 40) for k in range(10, 10 + runs.PAGE)], runs.PAGE
    board.studio = SimpleNamespace(mlflow_folder=None)
    lines = drawn(board.board)
    assert (board.first, len(board.going)) == (0, runs.PAGE)
    assert [one for one in lines if "25 runs" in one]


def test_runs_are_late_named_and_meant_as_their_numbers_say(monkeypatch):
    from types import SimpleNamespace

    def run(number, name, started=None, expected=None, **chosen):
        summary = SimpleNamespace(regularization=chosen["by"]) if chosen else None
        return SimpleNamespace(
            id=number, name=name, created=number, started=started, summary=summary,
            request=SimpleNamespace(expected=expected and SimpleNamespace(low=5.0, high=expected)),
        )  # fmt: skip

    monkeypatch.setattr(runs.time, "time", lambda: 1000.0)
    ends = 20.0 + runs.SLACK
    begun = ((999 - ends, 20.0), (1001 - ends, 20.0), (None, 20.0), (1.0, None))
    assert [runs.is_late(run(1, "a", *given)) for given in begun] == [True, False, False, False]
    # of equal names the older one has no number, wherever it stands
    assert runs.titles([run(3, "a"), run(1, "a"), run(2, "b")]) == {3: "a 2", 1: "a", 2: "b"}
    by = {"alpha": run(1, "a", by="alpha = 2"), "C": run(2, "b", by="C = 0.5"), "none": run(3, "c")}
    told = naming.not_an_estimate
    for of, parameter in (("alpha none", "alpha"), ("C", "C"), ("C alpha", "alpha or C"), ("", "alpha or C")):
        found = naming.score_name(f"accuracy, {told('alpha or C')}", [by[one] for one in of.split()])
        assert found == f"accuracy, {told(parameter)}"
