"""What pages keep between visits: tables, target and settings, without a browser.

Modules: `studio/pages/desk`, `studio/pages/pieces`.
"""

import pandas as pd
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("nicegui")
pytest.importorskip("psutil")

from nicegui import Client
from nicegui.page import page

from kernelweave._errors import InputError
from kernelweave_app.studio.catalogue import file_id
from kernelweave_app.studio.pages.desk import Desk, kernels_for
from kernelweave_app.studio.pages.pieces import big_table, find_columns
from kernelweave_app.studio.service import Studio

FIRST, SECOND = file_id("first.csv"), file_id("second.csv")


@pytest.fixture
def studio(tmp_path):
    first = pd.DataFrame({"who": list("abcdef"), "age": range(6), "size": range(6), "site": [0, 1] * 3})
    first.assign(outcome=list("xyxyxy"), y=range(6)).to_csv(tmp_path / "first.csv", index=False)
    pd.DataFrame({"who": list("abcdef"), "age": range(6), "rna": range(6)}).to_csv(
        tmp_path / "second.csv", index=False
    )
    studio = Studio(tmp_path)
    yield studio
    studio.store.close()


@pytest.fixture
def desk(studio):
    desk = Desk(studio)
    desk.set_tables([FIRST])
    desk.set(target="size", task="regression", group="site", drop=["who", "age", "y"], cv=7)
    return desk


def test_settings_stay_when_a_table_is_added_and_left_out(desk):
    desk.set(
        views={"body": ["outcome"]}, kernels={"body": "linear"}, types={"site": "category", "age": "number"}
    )
    assert desk.set_tables([FIRST, SECOND], "who") == []
    assert desk.spec.types == {"site": "category", "first.age": "number"}
    spec = desk.spec
    assert (spec.target, spec.task, spec.group, spec.cv) == ("size", "regression", "site", 7)
    # a column that both tables have is called after its table
    assert spec.drop == ["first.age", "y"]
    assert spec.views == {"body": ["outcome"], "second": ["second.age", "rna"]}
    assert spec.kernels == {"body": "linear"}
    assert desk.set_tables([FIRST]) == ["views 'second'"]
    assert desk.spec.drop == ["age", "y"]
    assert desk.spec.views == {"body": ["outcome"]}
    assert Desk(desk.studio).draft == desk.draft


def test_what_other_tables_lack_is_said(desk):
    desk.set(kernels="rls2")
    assert desk.set_tables([FIRST, SECOND], "who") == ["kernels"]
    assert desk.spec.kernels == "default"
    desk.set(target="first.age", kernels={"first": "linear", "second": "default"})
    lost = desk.set_tables([SECOND])
    gone = "columns left out 'first.age', 'y'"
    assert lost == ["target 'first.age'", "column of groups 'site'", gone, "kernels"]
    assert (desk.spec.target, desk.spec.group, desk.spec.drop, desk.spec.kernels) == ("", "", [], "default")
    # nothing in common with what was there: no table, no message
    assert desk.set_tables([FIRST]) == []
    assert desk.spec.target == "outcome"


def test_a_target_that_is_the_key_is_chosen_anew(desk):
    desk.set(target="who", drop=[])
    assert desk.set_tables([FIRST, SECOND], "who") == ["target 'who'"]
    assert (desk.spec.target, desk.spec.task) == ("outcome", "auto")


def test_a_column_that_gets_another_role_leaves_its_view(desk):
    desk.set(target="outcome", task="auto", group="", drop=["who"], cv=2, test_size=0)
    desk.set(views={"body": ["age", "size"], "place": ["site"]}, kernels={"body": "linear", "place": "rbf"})
    desk.set(group="site")
    assert (desk.spec.views, desk.spec.kernels) == ({"body": ["age", "size"]}, {"body": "linear"})
    desk.set(drop=["who", "size"])
    assert desk.spec.views == {"body": ["age"]}
    assert desk.studio.check(desk.data, desk.spec).n_columns == 1
    desk.set(drop=["who", "size", "age"])
    assert (desk.spec.views, desk.spec.kernels) == ("", "default")


def test_a_window_writes_what_it_has_changed(desk):
    old = Desk(desk.studio)
    desk.set_tables([FIRST, SECOND], "who")
    desk.set(alphas="9")
    old.set(cv=3)
    old.draft.name = "mine"
    old.keep()
    now = desk.studio.draft()
    assert now.data.tables == [FIRST, SECOND]
    assert (now.spec.cv, now.spec.alphas, now.name) == (3, "9", "mine")
    assert now.spec.drop == ["first.age", "y"]
    with pytest.raises(InputError, match="changed in another window"):
        old.set(target="y")
    assert desk.studio.draft().spec.target == "size"


def test_a_table_that_was_removed_can_be_left_out(desk):
    desk.set_tables([FIRST, SECOND], "who")
    (desk.studio.places.root / "second.csv").unlink()
    again = Desk(desk.studio)
    assert again.found() == ([FIRST], [SECOND])
    assert "no table" in again.joined().problem
    again.set_tables(again.found()[0], "who")
    assert again.joined().problem == ""
    assert again.spec.target == "size"


def test_kernels_are_kept_where_they_fit():
    assert kernels_for("rkl", []) == "rkl"
    assert kernels_for("linear-features", ["a"]) == "default"
    assert kernels_for("linear; rbf(gamma=1)", ["a"]) == "linear; rbf(gamma=1)"
    assert kernels_for({"a": "linear", "b": "linear"}, ["b"]) == {"b": "linear"}
    assert kernels_for({"a": "linear"}, []) == "default"


def test_long_lists_of_columns_are_searched():
    names = [f"gene_{k}" for k in range(30_000)] + ["Age", "page"]
    assert find_columns(names, "") == names[:200]
    assert find_columns(names, "AGE") == ["Age", "page"]
    assert len(find_columns(names, "gene")) == 200


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        ((1.5, 2), True),
        (("0.123", "12"), True),
        (("0.1", ""), True),
        ((None, 3), True),
        (("0.1", "a"), False),
        (("a", "0.1"), False),
        (("nan", "1"), False),
        (([1], "1"), False),
    ],
)
def test_columns_of_numbers_alone_are_sorted_as_numbers(cells, numbers):
    with Client(page("")):
        table = big_table(["name", "value"], [["x", cells[0]], ["y", cells[1]]], label="a table")
    name, value = table.columns
    assert (name["align"], ":sort" in name) == ("left", False)
    assert (value["align"], ":sort" in value) == (("right", True) if numbers else ("left", False))
    assert [row[value["field"]] for row in table.rows] == list(cells)
