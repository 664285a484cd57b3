"""Everything that the studio says of tables, runs and new rows, compared with what was read and recorded.

Modules: `studio/consequences`, `studio/looking`, `studio/results`, `studio/comparing`, `studio/predicting`,
`studio/methods`, `studio/previews`, `studio/templates`, `studio/schema`, `studio/service`.
"""

import base64
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from told import COLUMNS, a_table, answer, asked

pytest.importorskip("fastapi")
pytest.importorskip("psutil")

import kernelweave as kw
from kernelweave.inspection import regularization_path
from kernelweave_app.runs.fitting import fit_model, make_model
from kernelweave_app.runs.joining import Joined, join_tables
from kernelweave_app.runs.preparing import prepare, split
from kernelweave_app.runs.spec import Spec
from kernelweave_app.runs.writing import score_held
from kernelweave_app.studio import comparing, looking, methods, predicting, previews, results
from kernelweave_app.studio.catalogue import file_id
from kernelweave_app.studio.consequences import consequences
from kernelweave_app.studio.schema import Data, Marks, Run, RunRequest, Target
from kernelweave_app.studio.service import Studio

DROP = COLUMNS["drop"].split(",")


def short(tree):
    """The same with arrays in place of long lists of numbers, of which sums are recorded, and ends of other lists."""
    if isinstance(tree, dict):
        return {key: short(one) for key, one in tree.items()}
    if not isinstance(tree, list | tuple):
        return tree
    if len(tree) > 8:
        try:
            return np.asarray(tree, dtype=float)
        except (TypeError, ValueError):
            tree = [f"{len(tree)} of them", *tree[:2], tree[-1]]
    return [short(one) for one in tree]


# ---- what follows from tables and settings ----------------------------------------------------------


def traps(frame, spec, files=None, joined=None):
    """Consequences of a table and settings, as the studio finds them."""
    joined = joined or Joined(frame)
    target = marked = None
    if spec.survival:
        target = looking.or_problem(lambda: looking.describe_times(joined.table, spec))
    elif spec.target:
        target = looking.or_problem(lambda: looking.describe_target(joined.table, spec.target, spec.task))
    if spec.holdout:
        marked = looking.or_problem(
            lambda: looking.describe_division(joined.table[spec.holdout], spec.holdout_values)
        )
    found = consequences(joined, files or {}, spec, target, marked)
    return [
        {name: value for name, value in one.model_dump().items() if value not in ("", None, {})}
        for one in found
    ]


def test_what_follows_from_tables(recorded, tmp_path):
    answers = {}
    n = 40
    k = np.arange(n)
    base = pd.DataFrame(
        {"a": np.cos(k), "b": np.sin(k * 2), "c": np.cos(k * 3), "d": np.sin(k * 5), "e": np.cos(k * 7)}
    )
    base["y"] = np.where(base["a"] > 0.2, "ill", "well")
    numbers = [f"{j / 7:.2f}" for j in k]
    days = [f"{1 + j % 12:02d}/{1 + j % 11:02d}/2024" for j in k]
    spec = Spec(target="y")
    tables = {
        "nothing": (base, spec),
        "no target": (base, Spec()),
        "unknown target": (base, Spec(target="yy")),
        "empty": (base.assign(u=np.nan, v=None, w=1.0, x="same", z=True), spec),
        "five empty": (
            base.assign(**{f"u{j}": np.nan for j in range(5)}),
            spec.model_copy(update={"drop": "a"}),
        ),
        "numbers as text": (
            base.assign(
                dose=["n/d"] * 8 + numbers[8:],
                less=["n/d"] * 9 + numbers[9:],
                code=numbers,
                site=list("uv") * 20,
            ),
            spec.model_copy(update={"types": "site=category"}),
        ),
        "many words": (base.assign(dose=["a", "b", "c", "d", "a", *numbers[5:]]), spec),
        "ambiguous dates": (
            base.assign(day=[*days[:33], *["x"] * 7], less=[*days[:32], *["x"] * 8], iso="2024-01-31"),
            spec,
        ),
        "names": (
            base.assign(patient=[f"p{j}" for j in k], row=k, subjects=[f"s{j // 4}" for j in k], id=k // 2),
            spec,
        ),
        "grouped": (
            base.assign(subjects=[f"s{j // 4}" for j in k]),
            spec.model_copy(update={"group": "subjects"}),
        ),
        "few groups": (
            base.assign(patient=[f"s{j // 10}" for j in k], donor=[f"s{j * 3 // 4}" for j in k]),
            spec,
        ),
        "five groups": (
            base.assign(**{"t.mouse": [f"s{j // 8}" for j in k]}),
            spec.model_copy(update={"kernels": "linear"}),
        ),
        "names read": (
            base.assign(patient=[f"p{j}" for j in k]),
            spec.model_copy(update={"kernels": "linear"}),
        ),
        "copies": (
            base.assign(u=np.where(base["y"] == "ill", 3.5, 1), v=np.where(base["y"] == "ill", "i", "w")),
            spec,
        ),
        "equal rows": (pd.concat([base[:37], base[:3]]), spec),
        "two equal rows": (pd.concat([base[:38], base[:2]]), spec),
        "equal rows of four": (pd.concat([base[:37], base[:3]]).drop(columns="e"), spec),
        "marks": (base.assign(is_train=k > 9, part=np.where(k > 29, "test", "train")), spec),
        "held out": (
            base.assign(part=np.where(k > 29, "test", "train")),
            spec.model_copy(update={"holdout": "part"}),
        ),
        "more held out": (
            base.assign(part=np.where(k > 9, "test", "train")),
            spec.model_copy(update={"holdout": "part"}),
        ),
        "half": (
            base.assign(part=np.where(k > 19, "test", "train")),
            spec.model_copy(update={"holdout": "part"}),
        ),
        "no marks": (base.assign(part="x"), spec.model_copy(update={"holdout": "part"})),
        "all marked": (base.assign(part="test"), spec.model_copy(update={"holdout": "part"})),
        "swapped": (
            base.assign(part=np.where(k > 29, "test", "train")),
            spec.model_copy(update={"holdout": "part", "holdout_values": "train"}),
        ),
        "times": (base.assign(days=k + 1.0, died=k % 2), spec),
        "times left out": (
            base.assign(days=k + 1.0, died=k % 2),
            spec.model_copy(update={"drop": "days,died"}),
        ),
        "time as target": (base.assign(days=k + 0.5, died=k % 2), Spec(target="days")),
        "target missing": (base.assign(y=base["y"].where(k > 1)), spec),
        "target dropped": (
            base.assign(y=base["y"].where(k > 0)),
            spec.model_copy(update={"missing": "drop"}),
        ),
        "rare": (base.assign(y=["odd", *base["y"][1:]]), spec),
        "four": (
            base.assign(y=["odd"] * 4 + ["ill"] * 12 + ["well"] * 24),
            spec.model_copy(update={"cv": 4}),
        ),
        "unequal": (base.assign(y=["ill"] * 10 + ["well"] * 30), spec),
        "weighted": (base.assign(y=["ill"] * 10 + ["well"] * 30), spec.model_copy(update={"balanced": True})),
        "identifier as target": (base.assign(y=[f"p{j}" for j in k]), spec),
    }
    for how in ("error", "drop", "impute", "impute-median", "impute-nearest", "skip"):
        holes = base.assign(a=base["a"].where(k > 1), b=base["b"].where(k != 5))
        tables[f"missing, {how}"] = (holes, spec.model_copy(update={"missing": how}))
    tables["one missing"] = (base.assign(a=base["a"].where(k > 0)), spec)
    for name, (frame, own) in tables.items():
        answers[name] = traps(frame, own)
    first = base.assign(who=[f"p{j}" for j in k])[:30]
    second = pd.DataFrame({"who": [f"p{j}" for j in range(5, 37)], "m": np.sin(np.arange(32.0) * 4)})
    shared = join_tables({"one": first, "two": second}, "who")
    keyed = spec.model_copy(update={"key": "who"})
    answers["joined"] = traps(None, keyed, joined=shared)
    every = join_tables({"one": first, "two": second}, "who", "all")
    answers["all rows"] = traps(None, keyed.model_copy(update={"rows": "all"}), joined=every)
    files = {}
    for name, text in {"file-a": "x", "file-b": "y", "file-c": "x", "file-d": "x"}.items():
        (tmp_path / f"{name}.csv").write_text(text)
        files[name] = str(tmp_path / f"{name}.csv")
    answers["files"] = traps(base, spec, files)
    recorded("answers", answers)


def test_what_follows_from_times(recorded):
    answers = {}
    n = 40
    k = np.arange(n)
    base = pd.DataFrame({"a": np.cos(k), "b": np.sin(k * 2), "days": k % 11 + 1.0, "died": k % 2})
    spec = Spec(time="days", event="died")
    own = {
        "nothing": (base, {}),
        "missing": (base.assign(days=base["days"].where(k > 2)), {}),
        "missing, dropped": (base.assign(days=base["days"].where(k > 0)), {"missing": "drop"}),
        "unread": (base.assign(days=["soon", "late", *map(str, k[2:])]), {}),
        "one unread": (base.assign(days=["soon", *map(str, k[1:])]), {"types": "a=number"}),
        "negative": (base.assign(days=base["days"] - 2), {}),
        "zero": (base.assign(days=base["days"] - 1), {}),
        "numbers": (base.assign(died=k % 3), {}),
        "words": (base.assign(died=np.where(k % 2, "stroke", "alive")), {}),
        "all words": (base.assign(died=np.where(k % 2, "stroke", "cancer")), {}),
        "reversed": (base.rename(columns={"died": "censored"}), {"event": "censored"}),
        "reversed and said": (base.rename(columns={"died": "censored"}), {"event": "censored=0"}),
        "competing": (base.assign(died=k % 3), {"event": "died=2"}),
        "competing, two": (base.assign(died=k % 4), {"event": "died=2,3"}),
        "few events": (base.assign(died=(k < 3).astype(int)), {}),
        "one event": (base.assign(died=(k < 1).astype(int)), {"cv": 2}),
        "some events": (base.assign(died=(k < 7).astype(int)), {}),
        "all events": (base.assign(died=1, more=k), {"drop": "more"}),
        "no event": (base.assign(died=0), {}),
        "swapped": (base.rename(columns={"days": "died", "died": "days"}), {}),
        "strata": (base.assign(hospital=k % 4, site=k % 5, **{"x.clinics": k % 2}, patients=k % 3), {}),
        "with strata": (base.assign(hospital=k % 4, site=k % 3), {"strata": "hospital"}),
        "unknown": (base, {"event": "dead"}),
        "same": (base, {"event": "days"}),
        "no time": (base, {"time": ""}),
        "settings": (base, {"nested": 3, "rule": "1se", "intercept": False, "alphas": "3"}),
        "learner": (base, {"method": "rls2", "Cs": "3", "learner_params": {"max_iter": 3}}),
        "types": (base.assign(days=list(map(str, k))), {"types": "days=number"}),
    }
    for name, (frame, given) in own.items():
        changed = spec.model_copy(update=given)
        answers[name] = traps(frame, changed)
        times = looking.describe_times(frame, changed)
        if name == "nothing" or times != looking.describe_times(base, spec):
            answers[f"{name}, times"] = times.model_dump(exclude_defaults=True)
    recorded("answers", answers)


# ---- what is said of tables -------------------------------------------------------------------------


def test_tables_columns_and_targets_are_described(recorded):
    answers = {}
    n = 24
    k = np.arange(n)
    table = pd.DataFrame(
        {
            "real": np.cos(k).round(6),
            "whole": k % 5,
            "wide": k * 3,
            "holes": np.where(k % 4 == 0, np.nan, k / 8),
            "flag": k > 3,
            "word": np.array(list("uvw"))[k % 3],
            "levels": [f"v{j % 10}" for j in k],
            "rare": [f"x{j % 20}" for j in k],
            "long": [
                f"a long text about the patient in bed {j % 6} and what there is to be told about this one"
                for j in k
            ],
            "day": pd.date_range("2024-01-31", periods=n).strftime("%Y-%m-%d"),
            "when": pd.date_range("2024-01-31", periods=n),
            "kind": pd.Categorical(np.array(list("ab"))[k % 2]),
            "code": pd.Categorical(k % 3),
            "patient": [f"p{j}" for j in k],
            "id": 100 + k,
            "same": 2.5,
            "none": np.nan,
            "huge": k * 1e300,
            "mixed": pd.Series([None, "yes", "no"] * 8, dtype=object),
        }
    )
    for name in table:
        answers[name] = looking.describe_column(table[name], name).model_dump(exclude_defaults=True)
        for task in ("auto", "classification", "regression"):
            found = answer(looking.describe_target, table, name, task)
            if isinstance(found, str):
                assert "Convert it, for example to days" in found
                continue
            if found.task == "classification":
                assert found.classes == {str(value): n for value, n in table[name].value_counts().items()}
            elif not found.problem:
                assert (found.low, found.high) == (table[name].min(), table[name].max())
            assert found.n_missing == table[name].isna().sum()
            answers[f"{name} as {task}"] = [found.task, found.reason, found.problem]
    for several in ("real,wide", "flag,word", "flag,mixed", "holes,real", "real,nothing"):
        found = answer(looking.describe_target, table, several, "auto")
        answers[several] = found if isinstance(found, str) else found.model_dump()
    about = looking.describe_table(
        table.drop(columns=["word", "levels", "rare", "long", "day", "patient", "mixed"]), "set-x", "x"
    ).model_dump()
    assert about.pop("memory") > n * 60
    answers["table"] = about
    ids = pd.DataFrame({"y": [f"p{j // 2}" for j in range(40)], "z": [f"p{j}" for j in range(40)]})
    answers["classes"] = [looking.describe_target(ids, name, "auto").problem for name in "yz"]
    for values in (
        [],
        [1.0],
        [1.0, 1.0],
        [np.nan, np.inf],
        [0.0, 19.0, 3.0],
        [0.0, 20.0],
        [0.0, 0.5, 1.0],
        [-1e308, 1e308],
    ):
        answers[f"histogram of {values}"] = looking.histogram(np.array(values, dtype=float))
    answers["cells"] = [
        looking.cell(one)
        for one in (None, np.nan, 1 / 3, 7, "x" * 81, "x" * 80, True, pd.Timestamp("2024-01-31"))
    ]
    assert looking.shorten("abcdef", 4) == "abc…"
    for name, asked_for in (
        ("word", ""),
        ("word", "u"),
        ("flag", ""),
        ("flag", "False"),
        ("whole", ["0", "1"]),
        ("word", ["u", "v", "w"]),
    ):
        answers[f"marks {name}, {asked_for}"] = looking.describe_division(table[name], asked_for).model_dump()
    recorded("answers", answers)


def test_roles_of_columns():
    """A column gets its role; others keep theirs, but for what had the role before and what the task excludes."""
    specs = {
        "plain": Spec(target="y", drop=["d", "e"], weights="w", group="g", holdout="h"),
        "several": Spec(target="y,z"),
        "times": Spec(time="t", event="e=1", strata="s", drop="d", ties="efron"),
    }
    told = {
        "plain": {
            "y": "target",
            "d": "ignored",
            "e": "ignored",
            "w": "weights",
            "g": "group",
            "h": "holdout",
        },
        "several": {"y": "target", "z": "target"},
        "times": {"t": "time", "e": "event", "s": "strata", "d": "ignored"},
    }
    columns = list("ydewghztsx")
    data = Data(tables=["set-x"], key="k")
    assert looking.role_of("k", Spec(target="k"), data) == "key"
    for name, spec in specs.items():
        before = {c: looking.role_of(c, spec, data, columns) for c in columns}
        assert before == {c: told[name].get(c, "feature") for c in columns}
        for role in looking.ROLES:
            gone = {"target": {"time", "event", "strata"}, "time": {"target"}, "event": {"target"}}.get(
                role, set()
            )
            gone = gone | ({role} if role not in ("ignored", "feature", "key") else set())
            if role == "target" and name == "several":
                gone -= {"target"}
            for c in columns:
                changed = looking.with_role(c, role, spec, columns)
                after = spec.model_copy(update=changed)
                assert looking.role_of(c, after, data, columns) == ("feature" if role == "key" else role)
                for other in set(columns) - {c}:
                    kept = "feature" if before[other] in gone else before[other]
                    assert looking.role_of(other, after, data, columns) == kept, (name, role, c, other)
                assert changed.keys() <= {*Spec.model_fields}
                assert ("task" in changed) == (role in ("target", "time", "event"))
                assert changed.get("task", "auto") == "auto"
                assert after.ties == ("breslow" if role == "target" else spec.ties)
                # what stays is not said again
                unchanged = [key for key, value in changed.items() if getattr(spec, key) == value]
                assert set(unchanged) <= {"task", "target", role, "strata", "ties"}


def test_gaps_outliers_and_likenesses(recorded):
    answers = {}
    n = 30
    k = np.arange(n)
    table = pd.DataFrame(
        {"a": np.cos(k), "b": np.sin(k * 2.0), "c": np.array(list("uv"))[k % 2], "d": (k % 3).astype(float)}
    )
    table.loc[[3, 7, 9], "a"] = np.nan
    table.loc[[7, 11], "b"] = np.nan
    table.loc[[7, 9, 20], "c"] = None
    table["e"], table["none"] = k**1.3, np.nan
    views = {"one": ["a", "b"], "two": ["c"], "three": ["d", "e"], "four": []}
    for name, columns, own in (
        ("all", list(table), views),
        ("some", ["b", "e", "a"], {}),
        ("whole", ["d", "e"], {"one": ["d"]}),
        ("texts", ["c", "e"], {"one": ["c"], "two": ["e"]}),
    ):
        answers[name] = looking.describe_missing(table, columns, own).model_dump()
    # of many rows those with missing cells are filled from some of the others
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking, "MOST_NEAREST", (8, 3))
        answers["some rows and columns"] = looking.describe_missing(
            table, ["a", "d", "b", "e"][::-1], {}
        ).model_dump()
    far = pd.DataFrame(
        {"a": np.cos(k), "b": np.sin(k), "same": 1.0, "mostly": np.where(k < 20, 0.0, k), "word": "x"}
    )
    far.loc[4, "a"], far.loc[9, "b"], far.loc[12, "b"], far.loc[3, "a"] = 30.0, -20.0, 9.0, np.nan
    far.loc[29, "b"] = np.inf
    answers["outliers"] = looking.find_outliers(far).model_dump()
    assert looking.find_outliers(far[["word"]]).model_dump() == {
        "n_outliers": 0,
        "n_rows": 30,
        "columns": {},
        "outliers": [],
    }
    assert looking.find_outliers(far[:2]).n_rows == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking, "MOST_CELLS", 60)
        answers["of every other row"] = looking.find_outliers(far).model_dump()
    frame = a_table(24).assign(when=pd.date_range("2024-01-01", periods=24))
    for name, spec in {
        "numbers": asked("y", views={"one": ["a", "b"], "two": ["site"], "three": ["when"]}),
        "classes": asked("class"),
        "labels": asked("p,q", views={"one": ["a"], "two": ["b"]}),
        "times": asked("", time="days", event="died", strata="site"),
    }.items():
        answers[f"alike, {name}"] = looking.align_views(prepare(Joined(frame), spec)).model_dump()
    words = sparse.csr_array(np.where(np.arange(96).reshape(24, 4) % 3 == 0, 1.0, 0.0))
    beside = prepare(Joined(frame, sparse={"words": words}), asked("y"))
    answers["alike, beside"] = looking.align_views(beside).model_dump()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking, "MOST_ROWS", 10)
        patch.setattr(looking, "MOST_VIEWS", 1)
        answers["alike, few"] = looking.align_views(beside).model_dump()
    recorded("answers", answers)


# ---- a studio ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    frame = (
        a_table(36).assign(who=[f"p{k:02d}" for k in range(36)], part=["test"] * 6 + ["train"] * 30).round(4)
    )
    frame.to_csv(folder / "one.csv", index=False)
    frame.assign(a=frame["a"].where(frame.index > 2)).to_csv(folder / "holes.csv", index=False)
    other = pd.DataFrame(
        {"who": [f"p{k:02d}" for k in range(3, 39)], "m": np.arange(36.0) % 5, "a": np.arange(36)}
    )
    other.to_csv(folder / "two.csv", index=False)
    sparse.save_npz(folder / "words.npz", sparse.csr_array(np.eye(36)[:, :5] + np.eye(36, 5, k=-7)))
    Z = frame[["a", "b"]].to_numpy()
    np.savez(folder / "K.npz", K=Z @ Z.T, names=frame["who"].to_numpy(str))
    found = Studio(folder)
    yield found
    found.store.close()


ONE, TWO, HOLES, WORDS, KERNEL = (
    file_id(name) for name in ("one.csv", "two.csv", "holes.csv", "words.npz", "K.npz")
)
WHOLE = Data(tables=[ONE])


def test_questions_about_tables(studio, recorded):
    answers = {}
    both = Data(tables=[ONE, TWO], key="who")
    answers["table"] = studio.table(HOLES).model_dump(exclude={"memory"})
    for given in (
        {},
        {"start": 2, "number": 2},
        {"search": "A", "number": 3},
        {"search": "zz"},
        {"types": {"a": "category", "x": "text"}, "number": 2},
    ):
        found = studio.columns(ONE, **given)
        answers[f"columns, {given}"] = [found.total, [[c.name, c.kind, c.taken_for] for c in found.columns]]
    for given in ({"number": 2}, {"start": 34}, {"number": 1, "first_column": 9, "n_columns": 3}):
        answers[f"rows, {given}"] = studio.rows(HOLES, **given).model_dump()
    joins = {
        "one": WHOLE,
        "both": both,
        "no key": Data(tables=[ONE, TWO]),
        "order": Data(tables=[ONE, TWO], by_order=True),
        "beside": Data(tables=[ONE], sparse=[WORDS], kernels=[KERNEL]),
        "twice": Data(tables=[ONE, ONE]),
        "no table": Data(tables=[], sparse=[WORDS]),
    }
    for name, data in joins.items():
        answers[f"join, {name}"] = short(studio.join(data).model_dump())
    answers["target"] = studio.target(WHOLE, "class").model_dump()
    answers["outliers"] = studio.outliers(ONE).model_dump()
    times = Spec(time="days", event="died", types="b=category")
    answers["times"] = [studio.times(data, times).model_dump() for data in (WHOLE, both)]
    every = both.model_copy(update={"key": "who"})
    answers["times, all"] = studio.times(every, times.model_copy(update={"rows": "all"})).model_dump()
    for name, data, spec in (
        ("holes", Data(tables=[HOLES]), Spec(target="y", drop="z")),
        ("views", Data(tables=[HOLES]), Spec(target="y", views={"one": ["a", "b"], "two": ["z"]})),
        ("types", WHOLE, Spec(target="y", types="site=category")),
        ("all", both, Spec(target="y", rows="all")),
        ("kernels", Data(tables=[HOLES], kernels=[KERNEL]), Spec(target="y")),
    ):
        answers[f"missing, {name}"] = studio.missing(data, spec).model_dump()
    marks = Spec(holdout="part")
    answers["marked"] = studio.marked(WHOLE, marks).model_dump()
    answers["marked, all"] = studio.marked(both, marks.model_copy(update={"rows": "all"})).model_dump()
    answers["marked, none"] = answer(studio.marked, WHOLE, Spec(holdout="parts"))
    answers["alignments"] = studio.alignments(
        both, Spec(target="y", drop=DROP[1:], missing="skip")
    ).model_dump()
    for name, spec in (
        ("target", Spec(target="class", holdout="part", drop=[c for c in DROP if c != "class"])),
        ("wrong target", Spec(target="clas")),
        ("times", Spec(time="days", event="died", drop=DROP[:6])),
    ):
        found = [one.model_dump(exclude_defaults=True) for one in studio.consequences(both, spec)]
        answers[f"consequences, {name}"] = short(
            [[one["topic"], one["text"], one.get("fix")] for one in found]
        )
    # asked again, the answer is the same object, until the file changes
    assert studio.missing(WHOLE, Spec(target="y")) is studio.missing(WHOLE, Spec(target="y"))
    assert studio.missing(WHOLE, Spec(target="y")) is not studio.missing(WHOLE, Spec(target="z"))
    recorded("answers", answers)


def test_checks_before_a_run(studio, recorded):
    answers = {}
    both = Data(tables=[ONE, TWO], key="who")
    drop = {
        name: [c for c in DROP if c not in name.split(",")] for name in ("y", "class", "p,q", "days,died")
    }

    def of(target, **given):
        return Spec(target=target, drop=drop[target], **given)

    cases = {
        "plain": (WHOLE, of("class", test_size=0.25)),
        "path": (WHOLE, of("y", method="rls2", alphas="0.1:1:4", cv=3, nested=2)),
        "labels": (WHOLE, of("p,q", kernels="linear", alphas="2", holdout="part")),
        "joined": (both, of("y", rows="all", missing="drop", seed=3)),
        "order": (Data(tables=[ONE, TWO], by_order=True), of("y", kernels="linear", alphas="2")),
        "times": (WHOLE, Spec(time="days", event="died", drop=drop["days,died"], cv=3)),
        "beside": (Data(tables=[ONE], sparse=[WORDS], kernels=[KERNEL]), of("y", method="simple", Cs="2")),
        "no join": (WHOLE, of("y", join="x.csv")),
        "no view": (WHOLE, of("y", view="a=x.npz")),
        "no gram": (WHOLE, of("y", gram="x.npz")),
        "no files of views": (WHOLE, of("y", views="auto")),
        "no order": (WHOLE, of("y", rows="order")),
        "memory": (WHOLE, of("y", max_memory="inf")),
        "nested": (WHOLE, of("y", nested=1)),
        "too many folds": (WHOLE, of("y", method="rls2", cv=40, alphas="2")),
        "too many outer folds": (WHOLE, of("y", nested=40)),
        "overflow": (WHOLE, of("y", kernels="poly(degree=900)", alphas="2")),
        "score": (WHOLE, of("class", scoring="r2")),
        "learner": (WHOLE, of("y", method="easy")),
        "missing": (Data(tables=[HOLES]), of("y")),
        "impute": (Data(tables=[HOLES]), of("y", missing="impute", kernels="linear", alphas="3")),
    }
    for name, (data, spec) in cases.items():
        found = answer(studio.check, data, spec)
        answers[name] = found.split(": The number")[0] if isinstance(found, str) else found.model_dump()
    answers["about"] = {
        k: v for k, v in studio.about().model_dump().items() if k not in ("data_folder", "version")
    }
    assert studio.about().data_folder == str(studio.places.root)
    assert studio.about().version == kw.__version__
    views = {"one": "[views]\nu = ['a', 'x']\nv = 'm*'\n", "two": "set\tabout\ta\tx\tz\n"}
    for name, kind in (("one", "toml"), ("two", "gmt")):
        answers[f"views, {kind}"] = studio.views(both, views[name], kind).model_dump()
    recommended = studio.recommend(WHOLE, of("class"), "sources")
    assert (recommended.method, recommended.question.name) == ("elastic-net", "sources")
    answers["tables"] = [[ref.name, ref.source, ref.uses] for ref in studio.tables()][:5]
    recorded("answers", answers)


def test_kernels_before_a_run(studio, recorded):
    answers = {}
    from PIL import Image

    drop = [c for c in DROP if c != "class"]
    cases = {
        "plain": (WHOLE, Spec(target="class", drop=drop)),
        "named": (
            WHOLE,
            Spec(target="y", drop=DROP[1:], kernels="linear; rbf(gamma=0.5)", standardize=False),
        ),
        "standardised": (WHOLE, Spec(target="y", drop=DROP[1:], kernels="linear; poly(degree=2)")),
        "beside": (Data(tables=[ONE], sparse=[WORDS]), Spec(target="y", drop=DROP[1:], kernels="linear")),
        "labels": (
            WHOLE,
            Spec(target="p,q", drop=[c for c in DROP if c not in "pq"], kernels="linear", test_size=0),
        ),
        "times": (WHOLE, Spec(time="days", event="died", drop=DROP[:6], kernels="linear; rbf")),
        "holes": (Data(tables=[HOLES]), Spec(target="y", drop=DROP[1:], missing="impute", kernels="linear")),
        "overflow": (WHOLE, Spec(target="y", drop=DROP[1:], kernels="poly(degree=900)")),
    }
    for name, (data, spec) in cases.items():
        found = answer(studio.kernels, data, spec, 2)
        if isinstance(found, str):
            answers[name] = found
            continue
        told = found.model_dump(exclude={"budget", "kernels"})
        told["kernels"] = [[one.name, one.view, one.alignment, one.rank] for one in found.kernels[:4]]
        answers[name] = told
        pictures = [one.thumbnail for one in found.kernels if one.thumbnail]
        assert len(pictures) == min(2, found.n_kernels)
        assert all(one.thumbnail for one in found.kernels[:2])
    assert studio.kernels(*cases["named"], 0).kernels[0].thumbnail == ""
    K = np.add.outer(np.arange(60.0), np.arange(60.0))
    picture = previews.thumbnail(K)
    with Image.open(__import__("io").BytesIO(base64.b64decode(picture.partition(",")[2]))) as image:
        assert image.size == (previews.PIXELS, previews.PIXELS)
        pixels = np.asarray(image.convert("RGB"), dtype=int)
    # it grows lighter along rows and columns alike, and ends are those of the scale
    light = pixels.sum(axis=2)
    assert (np.diff(light, axis=0) >= 0).mean() > 0.95
    np.testing.assert_array_equal(light, light.T)
    answers["colours"] = [pixels[0, 0].tolist(), pixels[28, 28].tolist(), pixels[-1, -1].tolist()]
    assert previews.thumbnail(np.ones((3, 3))) == previews.thumbnail(np.zeros((3, 3)))
    recorded("answers", answers, rtol=1e-05)


# ---- results ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    frame = a_table(45)
    specs = {
        "classes": asked("class", kernels="linear; rbf(gamma=0.5)", alphas="0.1,1", cv=3, test_size=0.3),
        "numbers": asked("y", kernels="linear", alphas="0.1,1", cv=3, group="g", rule="1se"),
        "two": asked("p", method="simple", Cs="0.5,2", cv=2, kernels="linear; rbf(gamma=0.5)", weights="w"),
        "labels": asked("p,q", kernels="linear", alphas="0.5", cv=3),
        "times": asked("", time="days", event="died", Cs="0.5", kernels="linear; rbf(gamma=0.5)"),
        "deep": asked(
            "p", method="mlmkl", kernels="linear; rbf(gamma=0.5)", normalize="cosine", Cs="1", cv=2,
            learner_params={"max_iter": 2},
        ),
        "plain": asked("y", standardize=False, test_size=0),
    }  # fmt: skip
    found = {}
    for name, spec in specs.items():
        prepared = prepare(
            Joined(frame.assign(who=[f"p{k}" for k in range(45)])), spec.model_copy(update={"key": "who"})
        )
        rows = split(prepared, spec)
        model = make_model(spec, prepared, rows[1])
        with pytest.warns() if name == "deep" else pytest.MonkeyPatch.context():
            model = fit_model(model, prepared, rows[0], None)
        held = score_held(model, prepared, rows[1])
        paths = [regularization_path(model)] if name == "numbers" else []
        told = results.describe_model(model, spec, prepared, rows, held, paths, ["Mind this."])
        found[name] = SimpleNamespace(
            spec=spec, prepared=prepared, rows=rows, model=model, held=held, told=told
        )
    return found


def test_results_in_full(fitted, recorded):
    answers = {}
    for name, one in fitted.items():
        told = one.told.model_dump(exclude={"convergence", "certificate", "paths"})
        certificate = one.told.certificate.model_dump(
            exclude={"gap", "rel_gap", "n_iter", "citation", "stationarity", "status"}
        )
        if name != "deep":  # not convex: elsewhere it may end elsewhere
            answers[name] = short({**told, "certificate": certificate})
        assert one.told.certificate.n_iter == one.model.n_iter_
        assert one.told.certificate.gap == pytest.approx(float(one.model.gap_))
        assert one.told.certificate.rel_gap == pytest.approx(float(one.model.rel_gap_))
        assert one.told.certificate.citation == one.model.model_.learner.reference()
        assert [line.output for line in one.told.convergence] == results.output_names(
            one.model, len(one.model.history_)
        )
        for line, history in zip(one.told.convergence, one.model.history_, strict=True):
            assert list(line.history) == [key for key, values in history.items() if len(values)]
        answers[f"{name}, outputs"] = [line.output for line in one.told.convergence]
    [path] = fitted["numbers"].told.paths
    answers["path"] = short(path.model_dump())
    assert [results.plain(v) for v in (np.float64(1 / 3), np.inf, True, 3, np.int64(4), "x", None)] == [
        round(1 / 3, 8), None, "True", 3, 4, "x", "None",
    ]  # fmt: skip
    two = SimpleNamespace(classes_=np.array(["u", "v"]))
    assert [results.output_names(two, n) for n in (1, 2, 3)] == [
        ["v"],
        ["u", "v"],
        ["output 1", "output 2", "output 3"],
    ]
    assert results.output_names(SimpleNamespace(), 1) == [""]
    recorded("answers", answers, atol=1e-06, rtol=0.0001)


def a_run(name, number, one, **more):
    return Run(
        id=f"20240131-00000{number}-abcdef",
        name=name,
        state="done",
        created=float(number),
        started=None,
        finished=None,
        cancelling=False,
        done=1,
        total=1,
        step="",
        reason="",
        request=RunRequest(data=Data(tables=["set-wine"]), spec=one.spec),
        metrics=[{"name": f"score {number // 2}", "value": 0.5}],
        summary=None,
        marks=Marks(),
        **more,
    )


def test_runs_side_by_side(fitted, recorded):
    answers = {}
    frame = a_table(45)
    first = fitted["numbers"]
    changed = first.spec.model_copy(update={"kernels": "rbf(gamma=0.5)", "seed": 0, "alphas": "0.2,2"})
    prepared = prepare(
        Joined(frame.assign(who=[f"p{k}" for k in range(45)])), changed.model_copy(update={"key": "who"})
    )
    model = fit_model(make_model(changed, prepared, first.rows[1]), prepared, first.rows[0], None)
    held = score_held(model, prepared, first.rows[1])
    told = results.describe_model(model, changed, prepared, first.rows, held, [], [])
    second = SimpleNamespace(spec=changed, told=told)
    names = ["numbers", "classes", "times"]
    runs = [
        a_run("a", 1, first),
        a_run("b", 2, second),
        *(a_run(n, 3 + k, fitted[n]) for k, n in enumerate(names[1:])),
    ]
    found = comparing.compare_runs(
        runs, [first.told, told, fitted["classes"].told, None], {"set-wine": "wine"}
    )
    answers["all"] = short(found.model_dump(exclude={"runs", "curves"}))
    assert [curve is None for curve in found.curves] == [False, False, False, True]
    assert [run.name for run in found.runs] == ["a", "b", "classes", "times"]
    for name in ("classes", "times", "two"):
        one = fitted[name]
        pair = [a_run("a", 1, one), a_run("b", 2, one)]
        answers[name] = [test.model_dump() for test in comparing.paired_tests(pair, [one.told, one.told])]
    answers["lengths"] = [comparing._short("x" * 121), comparing._short(["a", "b"]), comparing._short(True)]
    recorded("answers", answers, atol=1e-07, rtol=0.0001)


# ---- new rows ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(studio, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    frame = pd.read_csv(studio.places.root / "one.csv")
    made = {}
    for name, spec in {
        "classes": asked("class", kernels="linear", alphas="0.5", cv=3, group="g"),
        "numbers": asked("y", kernels="linear", alphas="0.5", cv=3, missing="impute"),
        "dropped": asked("y", kernels="linear", alphas="0.5", cv=3, missing="drop"),
        "times": asked("", time="days", event="died", strata="site", Cs="0.5", kernels="linear"),
    }.items():
        own = spec.model_copy(update={"drop": [*spec.drop.split(","), "who", "part"]})
        prepared = prepare(Joined(frame), own)
        rows = split(prepared, own)
        model = fit_model(make_model(own, prepared, rows[1]), prepared, rows[0], None)
        (folder / name).mkdir()
        kw.save(model, folder / name / "model.skops", training_rows=True)
        made[name] = SimpleNamespace(
            spec=own, folder=folder / name, training=prepared.frame.iloc[rows[0]], model=model
        )
    return made


def test_predictions_in_full(studio, saved, recorded):
    answers = {}
    folder = studio.places.root
    frame = pd.read_csv(folder / "one.csv")
    new = frame.iloc[[30, 31, 2, 3, 35]].reset_index(drop=True)
    new.loc[1, "site"], new.loc[2, "b"], new.loc[4, "a"] = "new", 500.0, np.nan
    new.to_csv(folder / "new rows.csv", index=False)
    new.drop(columns=["y", "class", "died"]).iloc[:4].to_csv(folder / "untold.csv", index=False)
    frame.iloc[[30, 31, 2]].to_csv(folder / "whole.csv", index=False)
    ids = {name: Data(tables=[file_id(name)]) for name in ("new rows.csv", "untold.csv", "whole.csv")}
    cases = [
        ("numbers", "new rows.csv"),
        ("dropped", "new rows.csv"),
        ("classes", "untold.csv"),
        ("classes", "whole.csv"),
    ]
    cases += [("times", "whole.csv"), ("times", "untold.csv"), ("classes", "new rows.csv")]
    for kind, name in cases:
        one = saved[kind]
        times = [2.0, 8.0] if kind == "times" else None
        given = (
            one.folder / "model.skops",
            one.spec,
            one.folder,
            studio.catalogue,
            ids[name],
            one.training,
            times,
        )
        found = answer(predicting.predict_table, *given)
        if isinstance(found, str):
            answers[f"{kind}, {name}"] = found
            continue
        told, path = found
        answers[f"{kind}, {name}"] = json.loads(told.model_dump_json())
        text = pd.read_csv(path)
        assert list(text) == told.columns
        assert len(text) == told.n_rows
        assert path == one.folder / told.artifact
    one = saved["numbers"]
    bare = predicting.predict_table(
        one.folder / "model.skops", one.spec, one.folder, studio.catalogue, ids["whole.csv"]
    )[0]
    assert (bare.compared, bare.n_flagged, bare.apart) == (False, 0, None) or bare.apart is not None
    wrong = answer(
        predicting.predict_table,
        one.folder / "model.skops",
        one.spec,
        one.folder,
        studio.catalogue,
        ids["whole.csv"],
        None,
        [1.0],
    )
    assert wrong == "error: Setting `times` is for survival, and this run predicts no times. Leave it out."
    empty = new.assign(a=np.nan)
    empty.to_csv(folder / "empty.csv", index=False)
    dropped = saved["dropped"]
    lost = answer(
        predicting.predict_table,
        dropped.folder / "model.skops",
        dropped.spec,
        dropped.folder,
        studio.catalogue,
        Data(tables=[file_id("empty.csv")]),
    )
    assert lost == "error: Every row has a missing value among the columns that the model needs."
    keyed = Data(tables=[file_id("whole.csv")], key="who")
    (one.folder / "tables.json").write_text('{"key": "who", "tables": {"one": {}}, "rows": "shared"}')
    named = predicting.predict_table(
        one.folder / "model.skops", one.spec, one.folder, studio.catalogue, keyed
    )[0]
    answers["named"] = [named.columns, [row[:2] for row in named.rows]]
    recorded("answers", answers, atol=1e-06, rtol=0.0001)


def test_rows_without_a_prediction_keep_their_names_and_groups(studio, saved, monkeypatch):
    folder, one, seen = studio.places.root, saved["dropped"], []
    new = pd.read_csv(folder / "one.csv").iloc[[3, 5, 7, 9]].reset_index(drop=True)
    new.loc[1, "a"] = np.nan
    new.to_csv(folder / "some.csv", index=False)
    scores = predicting.scores_apart
    monkeypatch.setattr(predicting, "scores_apart", lambda *given: seen.append(given) or scores(*given))
    own = one.spec.model_copy(update={"group": "g"})
    (one.folder / "tables.json").write_text('{"key": "who", "tables": {"one": {}}, "rows": "shared"}')
    data = Data(tables=[file_id("some.csv")])
    found, path = predicting.predict_table(
        one.folder / "model.skops", own, one.folder, studio.catalogue, data
    )
    [(model, file, table, known, made, truth, groups)] = seen
    assert (file, table) == (one.folder / "model.skops", str(folder / "some.csv"))
    assert (truth.tolist(), groups.tolist()) == (new["y"][[0, 2, 3]].tolist(), new["g"][[0, 2, 3]].tolist())
    assert (known.index.tolist(), made["row"].tolist(), made["who"].tolist()) == (
        [0, 2, 3],
        [0, 2, 3],
        ["p03", "p07", "p09"],
    )
    text = pd.read_csv(path)
    assert text["who"].tolist() == ["p03", "p05", "p07", "p09"]
    assert text["prediction"].isna().tolist() == [False, True, False, False]
    np.testing.assert_allclose(
        text["prediction"][[0, 2, 3]], model.predict(new[["a", "b", "site"]].iloc[[0, 2, 3]])
    )
    assert (found.n_missing, found.n_rows) == (1, 4)


def test_remarks_on_new_rows(recorded):
    answers = {}
    k = np.arange(40)
    training = pd.DataFrame(
        {"a": np.cos(k), "b": np.sin(k * 2), "word": np.array(list("uvw"))[k % 3], "flag": k % 2 == 0}
    )
    training["name"] = [f"p{j}" for j in k]
    training["half"] = [f"h{j // 2}" for j in k]
    training["more"] = [f"m{j * 21 // 40}" for j in k]
    training["when"] = pd.date_range("2024-01-01", periods=40)
    training["hole"] = np.where(k % 5 == 0, np.nan, k % 2)
    training.loc[3, "word"] = None
    new = training.iloc[[0, 1, 2, 3, 4, 5]].reset_index(drop=True)
    new.loc[0, ["word", "half"]] = ["x" * 50, "h99"]
    new.loc[1, "a"], new.loc[2, "b"], new.loc[5, "b"] = 90.0, np.nan, -50.0
    new.loc[4, ["name", "more"]] = ["p99", "m99"]
    new.loc[5, "word"] = None
    missing = np.array([False, False, True, False, False, False])
    answers["filled"] = predicting.flags(new, training, Spec(missing="impute"), missing)
    answers["skipped"] = predicting.flags(new, training, Spec(missing="skip"), missing)
    answers["alone"] = predicting.flags(new, None, Spec(), missing)
    far = predicting._far(new[["a", "b"]], training[["a", "b"]])
    assert far.tolist() == [False, True, False, False, False, True]
    # numbers of the training rows count, not their order, and not rows that return
    again = pd.concat([training] * 3)
    assert predicting._far(new[["a", "b"]], again[["a", "b"]]).tolist() == far.tolist()
    assert not predicting._far(new[["word"]], training[["word"]]).any()
    assert not predicting._far(new[["a"]], training[["a"]][:2]).any()
    assert not predicting._far(new[["a"]], training[["a"]].assign(a=1.0)).any()
    scaled = predicting._far(new[["a", "b"]] * [1e3, 1], training[["a", "b"]] * [1e3, 1])
    assert scaled.tolist() == far.tolist()
    # the quantile of the distances to the nearest other row, twice
    line = pd.DataFrame({"a": np.arange(100.0)})
    edge = pd.DataFrame({"a": [99.0 + 1.99, 99.0 + 2.01, -1.99, -2.01]})
    assert predicting._far(edge, line).tolist() == [False, True, False, True]
    names = [f"c{j}" for j in range(35)]
    table = pd.DataFrame(np.arange(70).reshape(2, 35), columns=names)
    made = predicting.beside_inputs(pd.DataFrame({"row": [0, 1], "c1": [5, 6]}), table, [*names, "gone"])
    assert list(made) == ["row", "c1", "c0", "input c1", *names[2:30]]
    assert made["input c1"].tolist() == [1, 36]
    recorded("answers", answers)


# ---- learners, templates, types ---------------------------------------------------------------------


def test_learners_and_scores_on_offer():
    for task, names in methods.SCORERS.items():
        assert methods.scorers(task, 2) == names
        assert methods.scorers(task, 3) == [name for name in names if name != "roc_auc"]
    for name, one in {method.name: method for method in methods.methods()}.items():
        kind = kw.learners.LEARNERS[name]
        if not kind.__module__.startswith("kernelweave."):
            continue  # of another test
        assert (one.title, one.regression) == (kind.__name__, kind.regression)
        assert one.regularization_parameter == kind.regularization_parameter
        assert one.reference == kind.reference()
        assert one.settings == [field.name for field in one.fields] == list(kind.settings())
        assert [p.name for p in one.parameters] == list(kind().get_params()) or {
            p.name for p in one.parameters
        } == set(kind().get_params())
        defaults = kind().get_params()
        assert all(p.default == repr(defaults[p.name]) for p in one.parameters)
        assert one.summary
        assert not one.summary.endswith(".")
        assert "``" not in one.objective
    plain = methods.make_learner(methods.chosen(Spec(), "classification"))
    assert methods.has_probabilities(Spec()) == plain.has_probabilities
    given = ({"method": "lp", "learner_params": {"loss": "logistic"}}, {"method": "rls2"}, {"method": "gone"})
    assert [methods.has_probabilities(Spec(**one)) for one in given] == [True, False, False]


def test_templates_in_full():
    from kernelweave_app.studio.templates import EXAMPLE, PAPERS, example_views

    for one in (EXAMPLE, *PAPERS):
        assert {**Spec().model_dump(), **one.settings, "views": {}} == {
            **one.draft.spec.model_dump(),
            "views": {},
        }
        assert one.draft.data.tables == [f"set-{one.data}"]
        assert one.draft.name == one.title
    draft = EXAMPLE.draft
    assert EXAMPLE.is_here
    assert (draft.data.tables, draft.name, draft.spec.target) == (
        ["set-breast-cancer"],
        EXAMPLE.title,
        "target",
    )
    assert {view: len(names) for view, names in draft.spec.views.items()} == {
        "mean": 10,
        "error": 10,
        "worst": 10,
    }
    assert PAPERS[0].draft.spec.alphas == "0.0881,"
    assert example_views(["mean a", "b error", "c"]) == {"mean": ["mean a"], "error": ["b error"]}


def test_what_is_sent_is_cleaned_and_limited(recorded):
    answers = {}
    from pydantic import ValidationError

    from kernelweave_app.studio import schema

    def made(record, given):
        try:
            return record(**given).model_dump(exclude_defaults=True)
        except ValidationError as error:
            first = error.errors()[0]
            return [".".join(map(str, first["loc"])), first["type"]]

    cases = {
        "note": (schema.Marks, {"note": " a\u202eb\x07\nc ", "tags": [" u  v ", "u v", "\u202e", "w"]}),
        "ten tags": (schema.Marks, {"tags": [str(k) for k in range(10)]}),
        "eleven tags": (schema.Marks, {"tags": [str(k) for k in range(11)]}),
        "long tag": (schema.Marks, {"tags": ["x" * 41]}),
        "tags": (schema.Marks, {"tags": "x"}),
        "tag": (schema.Marks, {"tags": [3]}),
        "long note": (schema.Marks, {"note": "x" * 2001}),
        "more": (schema.Marks, {"nothing": 1}),
        "no file": (schema.Data, {"tables": []}),
        "kernel": (schema.Data, {"tables": [], "kernels": ["set-a"]}),
        "id": (schema.Data, {"tables": ["../x"]}),
        "tables": (schema.Data, {"tables": ["set-a"] * 21}),
        "nan": (schema.Metric, {"name": "a", "value": float("nan"), "low": float("inf")}),
        "kind": (schema.Consequence, {"topic": "a", "text": "b", "kind": "x"}),
    }
    for name, (kind, given) in cases.items():
        answers[name] = made(kind, given)
    data = Data(tables=["set-a"], kernels=["file-k"], sparse=["file-s"])
    assert data.files == ["set-a", "file-k", "file-s"]
    assert data.uses == {"set-a": "table", "file-k": "kernels", "file-s": "sparse"}
    assert schema.in_parameter([4.0, 0.5], "C") == [0.25, 2.0]
    assert schema.in_parameter([4.0, 0.5], "alpha") == [4.0, 0.5]
    assert schema.Curve(
        alphas=[4.0], parameter="C", mean=[], error=[], folds=[], chosen=0, best=0, rule="", score=""
    ).parameter_values == [0.25]
    assert Target(task="regression", reason="", n_missing=0, classes={}).low is None
    recorded("answers", answers)
