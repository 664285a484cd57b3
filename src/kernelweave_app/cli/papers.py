"""The commands ``reproduce``, ``scoreboard`` and ``datasets``. Imports happen inside, so that ``--help`` is quick."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave_app.cli.arguments import SEVERAL, NoSeed
from kernelweave_app.cli.console import Steps, duration, output, print_table, report, say
from kernelweave_app.runs.folders import write_text, writing

#: Rows of a table that are printed, and failures.
SHOWN_ROWS = 60
SHOWN_FAILURES = 5
#: Printed fields of a data set.
SAID = (
    "name",
    "title",
    "task",
    "n_samples",
    "n_features",
    "papers",
    "source",
    "licence",
    "how",
    "note",
    "url",
)


@dataclasses.dataclass(frozen=True)
class Changes:
    """Settings that are not those of a paper; None for those that are.

    Parameters
    ----------
    datasets
        Data sets.
    methods
        Methods.
    banks
        Sets of kernels: mlmkl and columns (rls2-second-layer).
    protocols
        Protocols: literal and fair (rkl, cardinality), literal and tuned (mlmkl).
    ratios
        Shares of the rows for training.
    splits
        Random splits of each data set.
    draws
        Number of simulated data sets.
    n_alphas
        Number of regularisation parameters on a path.
    largest
        Largest regularisation parameter.
    smallest
        Smallest regularisation parameter.
    folds
        Folds of cross-validation.
    sizes
        Largest number of training examples.
    tol
        Relative gap of every solution.
    """

    datasets: Annotated[tuple[str, ...] | None, SEVERAL] = None
    methods: Annotated[tuple[str, ...] | None, SEVERAL] = None
    banks: Annotated[tuple[str, ...] | None, SEVERAL] = None
    protocols: Annotated[tuple[str, ...] | None, SEVERAL] = None
    ratios: Annotated[tuple[float, ...] | None, SEVERAL] = None
    splits: int | None = None
    draws: int | None = None
    n_alphas: int | None = None
    largest: float | None = None
    smallest: float | None = None
    folds: int | None = None
    sizes: int | None = None
    tol: float | None = None


UNCHANGED = Changes()


def reproduce(
    experiment: str,
    /,
    *,
    out: str = "",
    jobs: int = -1,
    quick: bool = False,
    data: str = "",
    changes: Annotated[Changes, Parameter(name="*")] = UNCHANGED,
    seed: int = 0,
) -> int:
    """Run an experiment of a paper, compare with it, and write tables and figures.

    Every finished fit (one method on one division of one data set, with its choice of parameters) is stored at once:
    after Ctrl-C or a crash, the same command goes on with the rest. Without options all settings are those of the
    paper. An option that an experiment does not have is an error.

    Experiments: rls2-strings, rls2-prostate, rls2-uci, rls2-microarray, rls2-nci60, rls2-relax, rls2-second-layer,
    rkl, rkl-klc, rkl-convergence, rkl-scales, mlmkl, mlmkl-posterior, cardinality, sizes.

    Example: kernelweave reproduce rls2-uci --quick
    Example: kernelweave reproduce rls2-uci --datasets heart sonar --splits 10 --out uci

    Example: kernelweave reproduce rls2-microarray --data folder-of-14cancer

    Parameters
    ----------
    experiment
        Name of the experiment.
    out
        Folder for the results; by default kernelweave-NAME, with --quick kernelweave-NAME-quick.
    jobs
        Processes, each with one thread; -1 for one per core.
    quick
        Few data sets, divisions and parameters: every part of the experiment in less than a minute, to see what it
        does. Other options change these settings.
    data
        Folder with the files of the data sets; by default the one that KERNELWEAVE_DATA names. rls2-microarray then
        takes the 14 cancers, if no other data sets are named. With it --quick reduces folds and parameters only.
    seed
        Of all random numbers.
    """
    import kernelweave_papers
    from kernelweave.datasets.finding import FOLDER_VARIABLE
    from kernelweave_papers.runner import Estimate, environment, open_cells, run_cells
    from kernelweave_papers.store import Store

    one = kernelweave_papers.get(experiment)
    if jobs == 0 or jobs < -1:
        raise InputError(f"--jobs must be a number of processes, or -1 for all cores, got {jobs}.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    n_jobs = jobs if jobs > 0 else cores
    options = one.quick if quick else one.defaults
    if data:
        if not Path(data).is_dir():
            raise InputError(f"--data must name a folder, got {data!r}.")
        # processes of the run inherit it
        os.environ[FOLDER_VARIABLE] = str(Path(data).resolve())
        options = options.with_values(**one.with_data)
    options = options.with_values(**vars(changes), seed=seed)
    folder = Path(out or f"kernelweave-{experiment}{'-quick' if quick else ''}")
    with writing():
        folder.mkdir(parents=True, exist_ok=True)
    say(f"{one.title}. Settings: {_shown(options)}.")
    for line in one.prepare(options):
        say(f"Found {line}.")
    with Store(folder) as store:
        store.settle(options.as_dict())
        cells = one.cells(options)
        waiting = len(open_cells(one, options, store))
        finished = store.seconds(cells)
        if finished:
            say(
                f"{folder} has {len(finished)} finished fits, which are kept. To start again, choose another --out."
            )
        # declared costs are those of the full settings
        guess = (
            ""
            if quick
            else f", at a first guess {duration(Estimate(one, cells, finished, n_jobs).left(0.0))}"
        )
        say(f"{waiting} of {len(cells)} fits to come{guess}. Jobs: {n_jobs}. Ctrl-C keeps what is finished.")
        with Steps(experiment, waiting, "fits") as steps:
            outcome = run_cells(
                one,
                options,
                store,
                n_jobs=n_jobs,
                report=lambda ended, left: steps.show(ended, waiting, left),
            )
        rows, failures = store.rows(cells), store.failures()
        minutes = round(sum(seconds for _, seconds in store.seconds(cells)) / 60.0, 1)
    say(
        f"{outcome.n_done} of {outcome.n_cells} fits are finished; {outcome.seconds:.1f} s for {outcome.n_new}."
    )
    if rows:
        about = {"experiment": experiment, "settings": options.as_dict(), "minutes": minutes}
        with writing():
            _write(one, options, rows, folder)
            write_text(folder / "run.json", json.dumps({**about, **environment()}, indent=1) + "\n")
    for cell, reason in failures[:SHOWN_FAILURES]:
        say(f"No result for {json.dumps(cell)}: {reason}")
    if len(failures) > SHOWN_FAILURES:
        more = len(failures) - SHOWN_FAILURES
        say(f"... and {more} more; the file {folder / 'results.sqlite'} holds all reasons.")
    if outcome.interrupted:
        say("Interrupted. The finished fits are kept, and the same command goes on with the rest.")
    if rows:
        say(f"Wrote {folder}.")
    return 130 if outcome.interrupted else 1 if outcome.n_failed else 0


def scoreboard(results: Path = Path(), /, *, out: Path | None = None, seed: NoSeed = 0) -> None:
    """Compare finished runs of ``reproduce`` with every printed number of the papers' tables.

    Prints for each column of each table how many cells are equal at the printed digits, within one printed standard
    deviation, different, or not to be had.

    Example: kernelweave scoreboard --out scoreboard.csv

    Parameters
    ----------
    results
        Folder with the runs: kernelweave-NAME as `reproduce` writes them, or docs/results of the project.
    out
        File (CSV) for all cells: printed, ours, difference, verdict, reason and the command that makes the row.
    """
    from kernelweave_app.cli.early import check_csv
    from kernelweave_papers import scoreboard as boards

    check_csv(out)
    board = boards.scoreboard(results)
    found = boards.summary(board, "paper", "table", "column")
    heads = ["paper", "table", "column", "cells", *boards.VERDICTS]
    print_table(heads, found[heads].itertuples(index=False))
    for paper, (good, scores, equal, others) in boards.headline(board).items():
        say(
            f"{paper}: {good} of {scores} scores within one printed standard deviation; "
            f"{equal} of {others} other numbers equal."
        )
    for name, other in boards.other_settings(results).items():
        listed = ", ".join(f"{key} {value}" for key, value in other.items())
        say(
            f"{name} was run with other settings ({listed}): its numbers are not those of the paper's protocol."
        )
    if out is not None:
        with writing():
            write_text(out, board.to_csv(index=False, float_format="%.6g"))
        say(f"Wrote {out}.")


def _shown(options: Any) -> str:
    values = {name: value if isinstance(value, tuple) else (value,) for name, value in vars(options).items()}
    return "; ".join(f"{name} {', '.join(map(str, value))}" for name, value in values.items())


def _write(experiment: Any, options: Any, rows: Any, folder: Path) -> None:
    """Tables as CSV (and Parquet where pyarrow is installed), figures as SVG."""
    from importlib.util import find_spec

    tables = experiment.tables(rows, options)
    for kind in ("tables", "figures"):
        (folder / kind).mkdir(exist_ok=True)
    for name, frame in tables.items():
        write_text(folder / "tables" / f"{name}.csv", frame.to_csv(index=False, float_format="%.6g"))
        if find_spec("pyarrow"):
            frame.to_parquet(folder / "tables" / f"{name}.parquet", index=False)
    for name, figure in experiment.figures(tables):
        figure.savefig(folder / "figures" / f"{name}.svg", format="svg")
    first = next(iter(tables.values()))
    shown = first[[column for column in experiment.shown or first.columns if column in first]]
    print_table(list(map(str, shown.columns)), shown.head(SHOWN_ROWS).itertuples(index=False))
    if len(first) > SHOWN_ROWS:
        say(f"... and {numbered(len(first) - SHOWN_ROWS, 'more row')}.")


def list_datasets(
    *names: str,
    download: bool = False,
    seed: NoSeed = 0,
) -> None:
    """List the data sets of the papers: size, task, source, licence, whether they are here, and how to get them.

    Example: kernelweave datasets heart sonar

    Parameters
    ----------
    names
        Data sets to describe; all of them as a table by default.
    download
        Download those that are not available here and have an address.
    """
    from kernelweave import datasets
    from kernelweave.datasets.finding import find_local

    infos = [datasets.info(name) for name in names or datasets.names()]
    if download:
        for row in infos:
            say(f"{datasets.load(row.name, progress=True)!r}")
    places = {row.name: find_local(row)[0] for row in infos if row.name != "14cancer"}
    if any(row.name == "14cancer" for row in infos):
        places["14cancer"] = "yes" if datasets.is_here("14cancer") else ""
    if output().json:
        keep = [f.name for f in dataclasses.fields(infos[0]) if f.name in SAID]
        values = [{key: getattr(row, key) for key in keep} | {"here": places[row.name]} for row in infos]
        report(datasets=values)
    elif not names:
        heads = ("name", "rows", "columns", "task", "papers", "here", "licence", "source")
        rows = [
            (r.name, r.n_samples, r.n_features, r.task, papers, places[r.name] or "no", r.licence, r.source)
            for r, papers in ((row, " ".join(row.papers)) for row in infos)
        ]
        print_table(heads, rows)
        say("To get one: kernelweave datasets NAME says how; --download fetches those with an address.")
    else:
        for row in infos:
            say(f"{row.name}: {row.title}. {row.n_samples} rows, {row.n_features} columns, {row.task}.")
            for key in ("source", "licence", "how", "note", "url"):
                if getattr(row, key):
                    say(f"  {key}: {getattr(row, key)}")
            say(f"  papers: {', '.join(row.papers) or 'none'}; here: {places[row.name] or 'no'}")
