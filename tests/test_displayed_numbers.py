"""Every number that the terminal, the report and the studio display, beside the same number computed again.

One run of each kind; more of them, with other seeds and rows, at night. The truth is that of the run's own script, with
the public interface and scikit-learn alone (`displayed.py`).
"""

import contextlib
import io
import json

import pandas as pd
import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("fastapi")
pytest.importorskip("nicegui")
pytest.importorskip("psutil")

from nicegui import ui

from displayed import (
    FURTHER,
    KINDS,
    SHORT,
    Ledger,
    Truth,
    check_compare,
    check_findings,
    check_predictions,
    check_report,
    check_terminal,
    check_understand,
    check_use,
    snapshot,
)
from kernelweave_app.cli import main
from kernelweave_app.studio.catalogue import file_id
from kernelweave_app.studio.pages.understand import plainly
from kernelweave_app.studio.schema import Data, RunRequest
from kernelweave_app.studio.service import Studio
from studio_server import evidence_here, needs_core, run_here
from studio_user import named, until, visiting

pytestmark = [
    pytest.mark.full,
    needs_core,
    pytest.mark.usefixtures("undrawn"),
    # names of rows and narrow kernels get most of the weight of some samples; their numbers are compared all the same
    pytest.mark.filterwarnings("ignore:.*kernels that are the identity on the training rows"),
]

#: Seeds at night beside the first.
SEEDS = range(1, 10)
#: Kinds that the studio does not have.
ON_THE_COMMAND_LINE = ("targets",)
#: What further fits show in runs of the kind `evidence`.
COMPUTED = ("omission", "stability", "sources")


def arguments(kind, files, spec):
    """Settings as options of the command line."""
    first, *rest = files
    words = [first]
    for name, value in spec.items():
        if isinstance(value, dict):
            continue
        words += [f"--{name.replace('_', '-')}", str(value)]
    for file in rest:
        option = FURTHER.get(kind, "join")
        words += [f"--{option}", file if option != "view" else f"{file.partition('.')[0]}={file}"]
    return words


def command(*words):
    """The JSON object that a command prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main([*map(str, words), "--json"]) == 0, said.getvalue()
    return json.loads(said.getvalue())


def on_the_command_line(ledger, kind, folder, files, spec):
    """A run of the command `fit`, its report and its predictions; returns the truth."""
    import tomli_w

    (folder / "settings.toml").write_text(tomli_w.dumps(spec))
    words = [*arguments(kind, files, spec), "--spec", "settings.toml", "--out", "run", "--budget", "0"]
    said = command("fit", *words)
    run = folder / "run"
    truth = Truth(run / "script.py", spec)
    found = json.loads((run / "evidence.json").read_text())
    check_findings(ledger, "findings", found, truth)
    check_terminal(ledger, said, found, truth)
    check_report(ledger, (run / "report.html").read_text("utf8"), found, truth)
    held = pd.read_csv(run / "predictions.csv")
    names = truth.space["table"].iloc[:, 0].iloc[truth.test]
    check_predictions(ledger, "file", held, truth, names)
    beside = arguments(kind, files, {})
    every = Everything(truth)
    command("predict", "run", *beside, "--out", "new.csv")
    check_predictions(ledger, "new", pd.read_csv("new.csv"), every, every.names)
    target = ["--target", spec["target"]]
    known = command("evaluate", "run", *beside, *target)["scores_in_fit"] or {}
    for name, one in known.items():
        # all rows, or those of the fit where rows can be told apart
        own = Everything(truth, truth.train).held[name][0]
        ledger.number("new", f"{name} of rows in the fit", one["value"], own)
    if kind == "evidence":
        command(
            "evidence", "run", *files, "--divisions", truth.few, "--halves", truth.few, "--what", *COMPUTED
        )
        found = json.loads((run / "evidence.json").read_text())
        check_findings(ledger, "evidence", found, truth)
        check_report(ledger, (run / "report.html").read_text("utf8"), found, truth)
    return truth


def in_the_studio(ledger, kind, folder, files, spec, truth):
    """The same run in the studio, its pages, and new predictions."""
    studio = Studio(folder)
    studio.queue.stop()
    first, *rest = map(file_id, files)
    further = FURTHER.get(kind)
    places = {"gram": "kernels", "view": "sparse"}
    key = spec.get("key", "")
    data = {
        "tables": [first, *([] if further else rest)],
        "key": key if len(files) > 1 and not further else "",
    }
    data |= {places[further]: rest} if further else {}
    ids = [run_here(studio, RunRequest(data=Data(**data), spec=spec))]
    other = {**spec, "method": "uniform", "kernels": spec.get("kernels", "default"), "nested": 0}
    ids.append(run_here(studio, RunRequest(data=Data(**data), spec=other)))
    for one in ids:
        assert studio.run(one).state == "done", studio.run(one).reason
    if kind == "evidence":
        for what in COMPUTED:
            evidence_here(studio, ids[0], what, 0 if what == "sources" else truth.few)
    pages = {}

    async def visit(user):
        for name, address in (
            ("understand", f"/understand?run={ids[0]}"),
            ("compare", f"/compare?runs={','.join(ids)}"),
        ):
            await user.open(address)
            pages[name] = snapshot(user)
        await user.open(f"/use?run={ids[0]}")
        label = "Files of the new rows" if rest else "Table"
        [pick] = await until(lambda: [one for one in user.find(ui.select).elements if one.label == label])
        pick.set_value([file_id(name) for name in files] if rest else first)
        user.find(kind=ui.button, content="Predict").click()
        await until(lambda: named(user, "New predictions", ui.table), 60)
        pages["use"] = snapshot(user)

    visiting(studio, visit)
    found = json.loads((studio.places.run(ids[0]) / "evidence.json").read_text())
    check_findings(ledger, "studio", found, truth)
    check_understand(ledger, pages["understand"], found, truth, plainly(studio.results(ids[0]))[1])
    again = Truth(studio.places.run(ids[1]) / "script.py", other)
    check_compare(ledger, pages["compare"], ids, [truth, again])
    made = studio.predict(ids[0], Data(**data))
    frame = pd.DataFrame(made.rows, columns=made.columns)
    every = Everything(truth)
    check_predictions(ledger, "predict", frame, every, every.names.iloc[: len(frame)])
    folder = studio.places.run(ids[0])
    check_use(ledger, pages["use"], truth, every, every.names, folder)
    studio.store.close()


class Everything(Truth):
    """All rows of a table in place of the held-out ones."""

    def __init__(self, truth, rows=None):
        self.__dict__ |= {k: v for k, v in vars(truth).items() if k not in HELD}
        self.test = self.space["rows"] if rows is None else rows
        self.names = self.space["table"].iloc[:, 0]


#: What a truth keeps of its held-out rows.
HELD = ("truth", "prediction", "decision", "probability", "held", "simple")


def compare(kind, seed, folder, data):
    """All places of a run of a kind; returns what was compared."""
    files, spec = KINDS[kind](folder, data, seed)
    spec = {**SHORT, "seed": seed, **spec}
    ledger = Ledger()
    with contextlib.chdir(folder):
        truth = on_the_command_line(ledger, kind, folder, files, spec)
        if kind not in ON_THE_COMMAND_LINE:
            in_the_studio(ledger, kind, folder, files, spec, truth)
    return ledger


@pytest.mark.parametrize("kind", KINDS)
def test_displayed_numbers_are_those_computed_again(kind, tmp_path, data_dir):
    ledger = compare(kind, 0, tmp_path, data_dir)
    assert not ledger.problems, "\n".join(ledger.problems[:20])
    places = ["json", "terminal", "report", "file", "new"]
    places += [] if kind in ON_THE_COMMAND_LINE else ["understand", "compare", "predict", "use"]
    assert min(ledger.counts[place] for place in places) > 5


def test_differences_are_found():
    """By more than half a unit of the last digit that is shown, in texts with intervals, too."""
    ledger = Ledger()
    for shown, value in (
        *(("0.97", 36 / 37), ("97 %", 36 / 37), ("1.2e-05", 1.24e-5), ("3 of 4", 0.75), ("152", 152.4)),
        *(("–", None), ("1\u202f234", 1234), (0.5, 0.5)),
    ):
        ledger.number("a", "same", shown, value)
    assert not ledger.problems
    for shown, value in (
        *(("0.98", 36 / 37), ("96 %", 36 / 37), ("1.2e-05", 1.3e-5), ("2 of 4", 0.75), ("152", 152.6)),
        *(("–", 1.0), ("0.97", None), (0.5, 0.50001), ("word", 1.0)),
    ):
        ledger.number("a", "other", shown, value)
    ledger.score("a", "score", "0.97 (95 % interval 0.86 to 1.00)", (0.97, 0.84, 1.0))
    ledger.same("a", "text", "one", "two")
    assert len(ledger.problems) == 11
    assert ledger.counts["a"] == 21


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_displayed_numbers_of_other_rows(kind, seed, tmp_path, data_dir):
    ledger = compare(kind, seed, tmp_path, data_dir)
    assert not ledger.problems, "\n".join(ledger.problems[:20])
