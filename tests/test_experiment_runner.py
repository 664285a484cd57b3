"""The runner of experiments: cells are stored at once, resumed, the same with any number of jobs; the command.

Modules: `base`, `runner`, `store`, `cli/papers`.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from typing import ClassVar

import pytest

import kernelweave_papers as experiments
from experiment_cells import need, without_times
from kernelweave import InputError, datasets
from kernelweave_papers.base import Experiment, Options
from kernelweave_papers.runner import Estimate, open_cells, run_cells
from kernelweave_papers.store import Store

pd = pytest.importorskip("pandas")


class Squares(Experiment):
    """Squares of numbers; some cells fail."""

    name = "squares"
    title = "Squares"
    defaults = Options()
    broken: tuple[int, ...] = ()
    stop_at = None
    computed: list[int]

    def __init__(self):
        self.computed = []

    def cells(self, options):
        return [{"number": k} for k in range(6)]

    def run(self, cell, options):
        number = cell["number"]
        if number == self.stop_at:
            raise KeyboardInterrupt
        if number in self.broken:
            raise ZeroDivisionError("no such square")
        self.computed.append(number)
        return {"square": number**2 + options.seed}

    def tables(self, rows, options):
        return {"squares": pd.DataFrame({**cell, **result} for cell, result in rows)}

    def figures(self, tables):
        yield from ()


def test_cells_are_stored_and_resumed(tmp_path):
    experiment = Squares()
    options = experiment.defaults
    with Store(tmp_path) as store:
        store.settle(options.as_dict())
        experiment.stop_at = 3
        ended = run_cells(experiment, options, store)
        assert (ended.interrupted, ended.n_done, ended.n_cells) == (True, 3, 6)
    experiment.stop_at = None
    with Store(tmp_path) as store:
        store.settle(options.as_dict())
        assert [cell["number"] for cell in open_cells(experiment, options, store)] == [3, 4, 5]
        ended = run_cells(experiment, options, store)
        assert (ended.interrupted, ended.n_done, ended.n_new) == (False, 6, 3)
        assert [r["square"] for _, r in store.rows(experiment.cells(options))] == [0, 1, 4, 9, 16, 25]
    assert experiment.computed == [0, 1, 2, 3, 4, 5]


def test_a_fit_that_swallows_an_interrupt_is_not_stored(tmp_path):
    """Descents keep their present weights after Ctrl-C, and would be results of too few steps."""
    experiment = Squares()

    def run(cell, options):
        if cell["number"] == 2:
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        return {"square": cell["number"] ** 2}

    experiment.run = run
    # tests that run in the background of a shell ignore the signal
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Store(tmp_path) as store:
            ended = run_cells(experiment, experiment.defaults, store)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ended.interrupted, ended.n_done) == (True, 2)


class Slow(Experiment):
    """Cells of two kinds on two data sets, without a computation."""

    name = "slow"
    costs: ClassVar = {"slow": 4.0, "fast": 1.0}

    def cells(self, options):
        return [
            {"dataset": name, "method": method, "split": split}
            for name in ("small", "large")
            for split in range(5)
            for method in ("slow", "fast")
        ]

    def rows(self, cell):
        return {"small": 500, "large": 1000}[cell["dataset"]]

    run = tables = figures = None


Slow.__abstractmethods__ = frozenset()


def test_estimates_follow_the_measured_seconds_of_each_kind():
    """Declared: 4 and 1 s on 500 rows; really 10 times and 100 times as long. All cells take 1800 s."""
    cells = Slow().cells(None)
    took = {"slow": 40.0, "fast": 100.0}
    fresh = Estimate(Slow(), cells, [], 2)
    # 75 s as declared, on two processes
    assert fresh.left(0.0) == pytest.approx(37.5)
    done = [(cell, took[cell["method"]]) for cell in cells[:10]]
    again = Estimate(Slow(), cells, done, 1)
    really = 5 * 2 * (40.0 + 100.0)
    assert 0.8 * really < again.left(0.0) < 1.1 * really
    # time that passes without work counts
    again.add(cells[10], 80.0)
    assert again.left(160.0) == pytest.approx(2.0 * again.left(80.0), rel=0.02)
    for cell in cells[11:]:
        again.add(cell, 1.0)
    assert again.left(1.0) == pytest.approx(0.0, abs=1e-9)


def test_failures_are_kept_with_the_reason_and_tried_again(tmp_path):
    experiment = Squares()
    experiment.broken = (1, 4)
    with Store(tmp_path) as store:
        reports = []
        ended = run_cells(
            experiment, experiment.defaults, store, report=lambda *report: reports.append(report)
        )
        assert (ended.n_failed, ended.n_done) == (2, 4)
        assert [ended for ended, _ in reports] == [1, 2, 3, 4, 5, 6]
        assert reports[0][1] > reports[-1][1] == pytest.approx(0.0, abs=1e-9)
        assert [(c["number"], reason) for c, reason in store.failures()] == [
            (1, "ZeroDivisionError: no such square"),
            (4, "ZeroDivisionError: no such square"),
        ]
        experiment.broken = ()
        ended = run_cells(experiment, experiment.defaults, store)
        assert (ended.n_failed, ended.n_done, store.failures()) == (0, 6, [])


def test_other_settings_are_not_mixed(tmp_path):
    experiment = Squares()
    with Store(tmp_path) as store:
        store.settle({"seed": 0, "splits": 2})
        store.settle({"seed": 1, "splits": 2})  # nothing is finished yet
        store.settle({"seed": 0, "splits": 2})
        run_cells(experiment, experiment.defaults, store)
        store.settle({"seed": 0, "splits": 2})
        with pytest.raises(InputError, match="seed: 0 there, 1 here"):
            store.settle({"seed": 1, "splits": 2})
        store.settle({"seed": 0, "splits": 4})  # more cells of the same kind


def test_stores_that_cannot_be_used(tmp_path):
    (tmp_path / "results.sqlite").write_text("this is no database" * 100)
    with pytest.raises(InputError, match="cannot be used as a store"):
        Store(tmp_path)


def test_full_disk_keeps_what_is_done(tmp_path):
    experiment = Squares()
    with Store(tmp_path) as store:
        store.settle({})
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")

        def fill():
            for k in range(2000):
                store.add({"number": k}, {"square": "x" * 500}, 0.0)

        with pytest.raises(OSError, match=r"full.*the same command goes on"):
            fill()
        kept = store.n_done()
        store._db.execute("PRAGMA max_page_count = 100000")
        assert run_cells(experiment, experiment.defaults, store).n_done == 6
        assert store.n_done() >= kept


def test_unknown_names_and_settings():
    with pytest.raises(InputError, match="Did you mean 'rls2-uci'"):
        experiments.get("rls2-uic")
    uci = experiments.get("rls2-uci").defaults
    with pytest.raises(InputError, match="Unknown option of this experiment 'draws'"):
        uci.with_values(draws=3)
    for given, message in [
        ({"datasets": ("heart", "wine")}, "Unknown data set of this experiment 'wine'"),
        ({"datasets": ()}, "at least one"),
        ({"methods": ("svm",)}, "Unknown method 'svm'"),
        ({"splits": 0}, "`splits` must be at least 1"),
        ({"ratios": (1.5,)}, "between 0 and 1"),
        ({"folds": 1}, "at least 2"),
        ({"largest": 1e-9}, "above `smallest`"),
    ]:
        with pytest.raises(InputError, match=message):
            uci.with_values(**given)


@pytest.mark.parametrize("name", list(experiments.EXPERIMENTS))
def test_quick_settings_are_few_and_costs_have_names(name):
    experiment = experiments.get(name)
    experiment.quick.check()
    if name == "rls2-strings" or datasets.is_here("prostate"):
        few, every = (len(experiment.cells(o)) for o in (experiment.quick, experiment.defaults))
        assert few <= every
        kinds = {experiment.kind(cell) for cell in experiment.cells(experiment.defaults)}
        assert set(experiment.costs) <= kinds
        assert not experiment.costs or kinds <= set(experiment.costs)


@pytest.mark.parametrize("name", list(experiments.EXPERIMENTS))
def test_every_setting_that_names_things_knows_them(name):
    options = experiments.get(name).defaults
    options.check()
    named = [key for key, value in options.as_dict().items() if value and isinstance(value, list)]
    for key in [k for k in named if isinstance(options.as_dict()[k][0], str)]:
        with pytest.raises(InputError, match=r"Unknown .* 'nothing'"):
            options.with_values(**{key: (*getattr(options, key), "nothing")})
    if hasattr(options, "folds"):
        with pytest.raises(InputError, match="`folds` must be at least 2"):
            options.with_values(folds=1)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_killed_runs_resume_to_the_same_table(tmp_path):
    pytest.importorskip("cyclopts")
    from kernelweave_app.cli import main

    need("sonar")
    arguments = [
        "reproduce",
        "rls2-uci",
        "--datasets",
        "sonar",
        "--splits",
        "3",
        "--methods",
        "rls2",
        "average",
    ]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert main([*arguments, "--jobs", "1", "--out", str(whole)]) == 0
    for at_least in (1, 5):
        running = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "kernelweave_app.cli",
                *arguments,
                "--jobs",
                "2",
                "--out",
                cut,
            ],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while _stored(cut) < at_least and time.monotonic() < deadline and running.poll() is None:
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        assert at_least <= _stored(cut) < 12
    assert main([*arguments, "--jobs", "1", "--out", str(cut)]) == 0
    for name in ("results", "profiles", "scores", "kernels"):
        one, two = (pd.read_csv(folder / "tables" / f"{name}.csv") for folder in (whole, cut))
        pd.testing.assert_frame_equal(without_times(one), without_times(two), check_exact=True)


def _stored(folder):
    path = folder / "results.sqlite"
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            return db.execute("SELECT count(*) FROM cell").fetchone()[0]
    except sqlite3.Error:
        return 0


def run_command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "kernelweave_app.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.mark.nightly
def test_reproduce_writes_tables_figures_and_says_where(tmp_path):
    need("prostate")
    done = run_command("reproduce", "rls2-prostate", "--n-alphas", 10, "--jobs", 1, "--out", tmp_path / "p")
    assert done.returncode == 0, done.stderr
    assert "Found Dataset('prostate'" in done.stdout
    assert done.stdout.strip().endswith(f"Wrote {tmp_path / 'p'}.")
    files = {path.name for path in (tmp_path / "p").rglob("*") if path.is_file()}
    assert {"table1.csv", "cv.svg", "profile.svg", "run.json", "results.sqlite"} <= files
    again = run_command("reproduce", "rls2-prostate", "--n-alphas", 10, "--out", tmp_path / "p")
    assert again.returncode == 0
    assert "has 7 finished fits, which are kept" in again.stdout
    assert "0 of 7 fits to come" in again.stdout
    other = run_command("reproduce", "rls2-prostate", "--n-alphas", 11, "--out", tmp_path / "p")
    assert other.returncode == 2
    assert "n_alphas: 10 there, 11 here" in other.stderr
    assert len(other.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(("arguments", "message"), [
    (["rls2"], "Unknown experiment 'rls2'"),
    (["rls2-strings", "--splits", "3"], "Unknown option of this experiment 'splits'"),
    (["rls2-uci", "--jobs", "0"], "--jobs must be"),
])  # fmt: skip
def test_reproduce_refuses_in_one_line(arguments, message, tmp_path, capsys):
    main = pytest.importorskip("kernelweave_app.cli.app").run
    assert main(["reproduce", *arguments, "--out", str(tmp_path / "x")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "x" / "results.sqlite").exists()


def test_datasets_command(capsys):
    import json

    main = pytest.importorskip("kernelweave_app.cli.app").run
    done = run_command("datasets", "heart", "sonar")
    assert done.returncode == 0
    assert "heart: Heart disease" in done.stdout
    assert "licence:" in done.stdout
    assert main(["datasets", "--json"]) == 0
    every = json.loads(capsys.readouterr().out)["datasets"]
    assert {row["name"] for row in every} == set(datasets.names())
    assert main(["datasets", "hart"]) == 2
    assert "Did you mean 'heart'" in capsys.readouterr().err
    assert main(["datasets"]) == 0
    assert "german_numeric" in capsys.readouterr().out
