"""Commands that fit: `fit`, `demo`, `recommend` and `evidence`. Imports happen inside, so that ``--help`` is quick."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave_app import runs
from kernelweave_app.cli.arguments import Names, Settings
from kernelweave_app.cli.console import Steps, known, print_findings, report, say, scores_of
from kernelweave_app.runs.folders import csv_text, whole_folder, write_text, writing

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL
    from kernelweave.inspection.held import HeldOut
    from kernelweave.inspection.held_times import HeldTimes
    from kernelweave.inspection.registry import Found
    from kernelweave_app.runs.joining import Joined
    from kernelweave_app.runs.preparing import Prepared
    from kernelweave_app.runs.reading import Run
    from kernelweave_app.runs.spec import Spec

#: Seconds for a fit and what shows how sure its sources are; and the findings that show it.
BUDGET = 60.0
OF_BUDGET = ("omission", "stability")
#: Fits of other models, which return their predictions of the held-out rows.
Rivals = Callable[["Run", "BaseMKL"], dict[str, Callable[[], Any]]]


def fit(
    table: str,
    /,
    *,
    spec: Any = None,
    out: str = "",
    settings: Settings = None,
    overwrite: bool = False,
    estimate: bool = False,
    budget: float = BUDGET,
) -> None:
    """Fit a model on a table, choose the regularisation parameter by cross-validation, and write a report.

    The folder holds the model (model.skops), report.html, predictions.csv of the held-out rows, spec.toml, and
    script.py, which makes the same model with Python.

    Example: kernelweave fit patients.csv --target outcome --views auto --out run

    Several labels of 0 and 1, or no and yes: --target asthma,copd,pneumonia

    Survival: --time days --event died, or --event status=2

    Parameters
    ----------
    table
        A table file: CSV, TSV (also .gz), Parquet or another known format; the labels of an svmlight file are the
        column "target".
    out
        Folder for the results.
    settings
        TOML file with settings, such as the spec.toml of another run; options given here come first.
    overwrite
        Replace the results of an earlier run.
    estimate
        Fit parts of the rows only, and say how long the whole would take and how much memory it needs.
    budget
        Seconds for the fit with what follows: where there are several sources, further fits show how sure their weights
        are, until the time is over. The fit itself is finished. 0 for none.
    """
    from kernelweave_app.cli.early import check_run
    from kernelweave_app.cli.options import final_spec

    if not 0 <= budget < float("inf"):
        raise InputError(f"--budget must be a number of seconds, 0 or more, got {budget}.")
    given = final_spec(spec, settings)
    check_run(table, given, None if estimate else out, overwrite=overwrite, made="model.skops")
    if estimate:
        data = runs.reading.read_all(runs.reading.files_of(table, given), given, labelled=True)
        prepared = runs.preparing.prepare(data, given)
        say_found(data, prepared, table, given)
        say_estimate(given, prepared)
    else:
        fit_table(table, given, out, overwrite=overwrite, budget=budget)


def fit_table(
    table: str, spec: Spec, out: str, *, overwrite: bool, rivals: Rivals | None = None, budget: float = 0.0
) -> None:
    """Fit a model on a table, and write the files of the run; it is compared with `rivals`.

    Within the `budget` of seconds further fits show how sure the weights of its sources are.
    """
    from kernelweave.inspection.held import HeldOut
    from kernelweave.inspection.registry import Basis, compute, only, possible
    from kernelweave.inspection.sources import source_answer

    end = time.monotonic() + budget
    run = runs.reading.read_run(runs.reading.files_of(table, spec), spec, labelled=True)
    prepared = run.prepared
    model = runs.fitting.make_model(spec, prepared, run.test)
    with whole_folder(out, overwrite=overwrite, files=runs.writing.FILES) as folder:
        said = say_found(run.data, prepared, table, spec)
        if prepared.division is None:
            say(f"Fitting on {len(run.train)} rows, {len(run.test)} held out.")
        else:
            say(f"{prepared.division.said}.")
        if budget and prepared.n_sources > 1:
            say(
                f"Time: the fit, and until {budget:g} s are over further fits that show how sure the weights of the "
                "sources are (--budget)."
            )
        runs.fitting.fit_model(model, prepared, run.train, Steps("path x folds"))
        runs.fitting.calibrate_model(model, spec, prepared, run.train)
        if spec.probabilities != "none" and not hasattr(model, "calibration_"):
            say("The fit was stopped: no probabilities were learnt.")
        held = runs.writing.score_held(model, prepared, run.test)
        if held is not None:
            texts = runs.evidence.texts_of(held)
            say("Held-out: " + ", ".join(f"{name} {text}" for name, text in texts.items()))
        outer = runs.nested.nested_predictions(spec, prepared, run.train, Steps("path x folds, outer fold"))
        rows = (run.train, run.test)
        found = runs.evidence.gather(model, spec, prepared, rows, held, outer)
        if budget and prepared.n_sources > 1:

            def add(kind: str, report: Callable[[str], bool]) -> None:
                basis = runs.evidence.basis_of(
                    model, spec, prepared, rows, held, report=report, jobs=spec.jobs
                )
                found[kind] = compute(kind, basis)

            _add_until(end, [kind for kind in OF_BUDGET if kind in possible(found)], add)
        if (answer := source_answer(found)) is not None:
            found = {"answer": answer, **found}
        if rivals is not None:
            found["baselines"] = compute(
                "baselines", Basis(held=only(HeldOut, held), others=rivals(run, model))
            )
        say_model(model, {name: one for name, one in found.items() if name not in said})
        runs.writing.write_run(folder, run, model, held)
        runs.writing.write_report(folder, run, model, held, found)
        made = [name for name in runs.writing.FILES if (folder / name).exists()]
        _report_fit(run, model, held, outer, found)
    report(files=[str(Path(out) / name) for name in made])
    say(f"Wrote {out}: {', '.join(made)}")


def _add_until(end: float, kinds: list[str], add: Callable[[str, Callable[[str], bool]], None]) -> None:
    """Compute findings that take further fits until the time is over; each has an equal part of what is left."""
    from kernelweave.inspection.registry import repeated

    for k, kind in enumerate(kinds):
        stop = time.monotonic() + (end - time.monotonic()) / (len(kinds) - k)
        if time.monotonic() >= stop:
            say(f"The time is over; not computed: {', '.join(kinds[k:])}. Later: kernelweave evidence.")
            return
        with Steps(repeated()[kind].title.lower()) as steps:

            def told(text: str, steps: Steps = steps, stop: float = stop) -> bool:
                return steps.told(text) or time.monotonic() > stop

            try:
                add(kind, told)
            except KeyboardInterrupt:
                if time.monotonic() < stop:
                    raise
                say(f"The time was not enough for {kind}. Later: kernelweave evidence.")
            except InputError as error:
                # the fit is there, whatever cannot be said of it
                say(f"Not computed: {kind}. {error}")


def _report_fit(
    run: Run,
    model: BaseMKL,
    held: HeldOut | HeldTimes | None,
    outer: list[HeldOut] | HeldTimes,
    found: Found,
) -> None:
    """What `--json` says of a fit."""
    every = [] if held is None else [held]
    if not isinstance(outer, list):
        report(scores_out_of_fold=scores_of(outer.intervals, outer.scores))
    elif "nested" in found:
        own = found["nested"].values
        report(scores_out_of_fold=scores_of(own, {name: one.value for name, one in own.items()}))
    answer = found.get("answer", found["views"])
    tested, named = (
        answer.details.get("sources", {}),
        {"low": "loss_low", "high": "loss_high", "p": "p_value"},
    )
    sources = [
        {"name": name, "weight": one.value, "low": known(one.low), "high": known(one.high)}
        | {named.get(key, key): value for key, value in tested.get(name, {}).items()}
        for name, one in answer.values.items()
    ]
    report(
        task=run.prepared.task,
        learner=type(model.model_.learner).__name__,
        n_training=len(run.train),
        n_held_out=len(run.test),
        scores=scores_of(runs.evidence.intervals_of(*every), {} if held is None else held.scores),
        sources=sources,
        certificate={
            "objective": float(model.objective_),
            "rel_gap": float(model.rel_gap_),
            "status": str(model.status_),
            "n_iter": int(model.n_iter_),
        },
        settings=run.spec.model_dump(),
    )


def say_found(data: Joined, prepared: Prepared, name: str, spec: Spec) -> Found:
    """Print a description of the data; returns the doubts that were printed."""
    say(f"Found {name}: {runs.columns.describe(data.table)}.")
    doubts = runs.doubts.doubts_of_table(prepared)
    for sentence in (*prepared.facts(data), *(one.sentence for one in doubts.values())):
        say(sentence)
    if prepared.suggested:
        listed = ", ".join(f"{view} ({len(names)})" for view, names in prepared.suggested.items())
        say(
            f"By their names the columns are of several sources: {listed}. To weigh sources, add --views auto."
        )
    now = runs.fitting.chosen(spec, prepared.task)
    if now.method != spec.method:
        say(f"Learner: {now.method}, as a plain fit chooses.")
    if unused := runs.fitting.unused_settings(now):
        say(f"Not used by {now.method}: {', '.join(unused)}.")
    return doubts


def say_model(model: BaseMKL, found: Found) -> None:
    """Print what was found, the regularisation parameter and the certificate."""
    from kernelweave.learners import Learner

    print_findings({name: one for name, one in found.items() if name != "kernels" or "answer" not in found})
    learner = model.model_.learner
    ridge = f", ridge at {model.relax_:.4g}" if hasattr(model, "relax_") else ""
    parameter = f"C {model.C_:.4g}" if hasattr(model, "C_") else f"alpha {model.alpha_:.4g}{ridge}"
    if model.defaults_:
        say("What was not stated was chosen from the training data; the report says how.")
    say(
        f"{type(learner).__name__}, {parameter}: {model.status_} in {numbered(model.n_iter_, 'iteration')}; objective "
        f"{model.objective_:.6g}, within {model.rel_gap_:.1e} (relative) of the optimum."
    )
    if learner.certificate != Learner.certificate:
        say(learner.certificate)
    if "answer" in found:
        say("Answer", style="bold")
        say(f"  {found['answer'].sentence}")


def say_estimate(spec: Spec, prepared: Prepared) -> None:
    """Measure, and print the time and the memory."""
    found = runs.estimating.estimate_fit(spec, prepared)
    say(f"Time: {found.said()}. {found.sure()}")
    say(f"Memory: up to {found.memory / 1e6:,.0f} MB for kernels and working matrices.")


# ---- the demonstration ------------------------------------------------------------------------------


def demo(*, out: str = "kernelweave-demo", seed: int = 0, cv: int = 5, alphas: int = 30) -> None:
    """Fit a model on a data set of scikit-learn, and compare it with baselines.

    Breast cancer: ten measurements as mean, error and worst value; these three groups are the views. A path with
    cross-validation, a held-out score beside baselines, and a report.

    Example: kernelweave demo --out my-demo

    Parameters
    ----------
    out
        Folder for the results; an earlier demo there is overwritten.
    seed
        Random split.
    cv
        Folds.
    alphas
        Number of regularisation parameters on the path.
    """
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer(as_frame=True)
    table = Path(out) / "breast-cancer.csv"
    with writing():
        table.parent.mkdir(parents=True, exist_ok=True)
        write_text(table, csv_text(bunch.data.assign(diagnosis=bunch.target_names[bunch.target])))
    views = {view: [c for c in bunch.data.columns if view in c] for view in ("mean", "error", "worst")}
    widths = (0.003, 0.01, 0.03, 0.1, 0.3)
    settings = {
        "target": "diagnosis",
        "views": views,
        "kernels": "; ".join(["linear", "poly(degree=2)", *(f"rbf(gamma={gamma})" for gamma in widths)]),
        "method": "rls2",
        "alphas": str(alphas),
        "cv": cv,
        "test_size": 0.3,
        "seed": seed,
    }
    fit_table(str(table), runs.spec.check_spec(settings), out, overwrite=True, rivals=_rivals)


def _rivals(run: Run, model: BaseMKL) -> dict[str, Callable[[], Any]]:
    """Baselines with settings chosen by cross-validation on the rows of the fit, as they predict the others."""
    import numpy as np
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    from kernelweave.estimators.cv import MKLClassifierCV

    say("Tuning the baselines on the same training rows ...")
    seen, new = run.prepared.some(run.train), run.prepared.some(run.test)
    cv = runs.fitting.make_cv(run.spec, run.prepared.task)
    # the mean of all normalised kernels: kernel ridge with uniform weights
    standard = (seen.X - seen.X.mean()) / seen.X.std(ddof=0)
    first, *others = [(1.0 / float(kernel.diag(standard).mean())) * kernel for kernel in model.kernels]
    average = sum(others, first)
    svc = make_pipeline(StandardScaler(), SVC())
    grid = {"svc__C": np.logspace(-1, 3, 5), "svc__gamma": np.logspace(-4, 0, 5) / 3}
    rivals: dict[str, Any] = {
        "the average kernel": MKLClassifierCV([average], standardize=True, cv=cv),
        "the best single RBF (SVM)": GridSearchCV(svc, grid, cv=cv),
        "ridge": make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-3, 4, 30), cv=cv)),
    }

    def predictions(rival: Any) -> Any:
        return rival.fit(seen.X, seen.y).predict(new.X)

    return {name: partial(predictions, rival) for name, rival in rivals.items()}


# ---- before and after a fit ---------------------------------------------------------------------------


def recommend(
    table: str,
    /,
    *,
    spec: Any = None,
    question: str = "predict",
    settings: Settings = None,
    out: Path | None = None,
) -> None:
    """Recommend a learner and settings for a table, with reasons, and say how long they take.

    Nothing is kept but the settings, with --out; parts of the rows are fitted to measure the time.

    Example: kernelweave recommend patients.csv --target outcome --question sources --out settings.toml

    Parameters
    ----------
    table
        As for `fit`.
    question
        predict (how well can I predict?), sources (which sources matter?), few (which few kernels are enough?), columns
        (which columns matter inside one kernel?), deep (do combinations of kernels help?), closed (what is found
        without a search?), radius (what if kernels have no common scale?) or baseline (what do learnt weights add?).
    settings
        TOML file with settings; target, views, kernels, groups and weights are kept.
    out
        File for the recommended settings, to be used as `fit --spec`.
    """
    from kernelweave_app.cli.early import check_run
    from kernelweave_app.cli.options import final_spec

    given = final_spec(spec, settings)
    check_run(table, given)
    data = runs.reading.read_all(runs.reading.files_of(table, given), given, labelled=True)
    found = runs.recommending.recommend(data, given, question)
    say(found.question.title)
    for fact in found.facts:
        say(f"Found: {fact}.")
    for one in found.advice:
        value = str(one.value).lower() if isinstance(one.value, bool) else str(one.value)
        say(f"Setting {one.setting} = {value}: {one.why}.")
    for line in found.warnings:
        say(line)
    say_estimate(found.spec, runs.preparing.prepare(data, found.spec))
    if out is not None:
        import tomli_w

        with writing():
            write_text(out, tomli_w.dumps(found.spec.model_dump()))
        again = shlex.join(["kernelweave", "fit", table, "--spec", str(out), "--out", "run"])
        say(f"Wrote {out}. Next: {again}")


def evidence(
    run: str,
    table: str,
    /,
    *,
    what: Names = None,
    permutations: int = 99,
    fixed: bool = False,
    divisions: int = 10,
    halves: int = 50,
    max_false: float = 1.0,
    sizes: int = 5,
    width: str = "single",
    jobs: int = 1,
    seed: Annotated[
        int, Parameter(help="Not used: the seed of the run is used. Every command accepts --seed.")
    ] = 0,
) -> int:
    """How sure the answers of a run are: permutations, fits without a source, stability, learning curve, baselines.

    Computed on the table of the run with its settings, and added to its report, which begins with the answers in
    sentences. Figures in the width of a column (PDF, SVG) and tables (CSV, LaTeX) are written to its folders
    evidence-figures and evidence-tables. Ctrl-C keeps what is done.

    Example: kernelweave evidence run patients.csv --permutations 199 --width double

    Parameters
    ----------
    run
        Folder of a run of the command fit.
    table
        The table from which it was learnt.
    what
        Names of findings; default all that the run can have.
    permutations
        Permutations of the targets, each a whole fit.
    fixed
        Do not fit again for permutations: permute only the targets of held-out rows.
    divisions
        Random divisions into training and held-out rows, on each of which the model is fitted without every source.
    halves
        Random halves of the training rows, for intervals of the weights and the selection of sources.
    max_false
        Sources that predict nothing and may be selected, on average.
    sizes
        Numbers of training rows of the learning curve.
    width
        Of figures: single (85 mm), double (174 mm), or millimetres.
    jobs
        Fits at the same time; -1 for one on each core.
    """
    from kernelweave_app.cli.early import check_model

    check_model(run, [table])
    from kernelweave.inspection.registry import compute, possible, repeated
    from kernelweave.inspection.sources import source_answer
    from kernelweave_app.cli.options import evidence_names
    from kernelweave_app.reports import draw_pictures
    from kernelweave_app.reports.figures import draw_findings
    from kernelweave_app.reports.printing import read_width, write_figures, write_tables

    folder, size = Path(run), read_width(width)
    spec = runs.writing.spec_of(folder)
    known = evidence_names()
    what = [name.replace(" ", "-") for name in what or ()]
    for name in what:
        if name not in known:
            raise InputError(f"--what must be one of {', '.join(known)}, got {name!r:.40}.")
    counts = {
        "permutation": permutations,
        "omission": divisions,
        "stability": halves,
        "learning curve": sizes,
    }
    model = runs.reading.load_model(run)
    asked = runs.reading.read_run(
        runs.reading.files_of(table, spec), spec, labelled=True, origin=runs.lineage.read_lineage(folder)
    )
    prepared, train = asked.prepared, asked.train
    held = runs.writing.score_held(model, prepared, asked.test)
    # numbers of the model itself are computed again, what took time is kept
    known_before = runs.evidence.read_evidence(folder)
    found = {**known_before, **runs.evidence.gather(model, spec, prepared, (train, asked.test), held)}
    if known_before.keys() & {"nested", "out-of-fold times"}:
        # models of outer folds were not kept, and these rows were scored by them
        found |= {name: known_before[name] for name in ("rows", "held out") if name in known_before}
    n_training = int(found["rows"].values["training"].value)
    n_here = len(train) if prepared.weights is None else int((prepared.weights[train] > 0).sum())
    if n_training != n_here:
        raise InputError(
            f"The model in {run} was learnt from {n_training} rows, and {table} gives {n_here}. Name the table of "
            "the run."
        )
    interrupted = False
    for kind in [known[name] for name in what] or possible(found):
        with Steps(repeated()[kind].title.lower(), counts.get(kind) or None) as steps:
            how: Any = {"refit": not fixed, "max_false": max_false, "jobs": jobs, "report": steps.told}
            try:
                rows, count = (train, asked.test), counts.get(kind, 0)
                basis = runs.evidence.basis_of(model, spec, prepared, rows, held, count=count, **how)
                found[kind] = compute(kind, basis)
            except KeyboardInterrupt:
                interrupted = True
                break
        runs.evidence.write_evidence(folder, found)
        interrupted = bool(found[kind].details.get("interrupted"))
        if interrupted:
            break
    if interrupted:
        say("Interrupted; what is done is kept.")
    if (answer := source_answer(found)) is not None:
        found = {"answer": answer, **{name: one for name, one in found.items() if name != "answer"}}
    with writing():
        runs.writing.write_report(folder, asked, model, held, found)
        for name in (runs.writing.FIGURES, runs.writing.TABLES):
            (folder / name).mkdir(exist_ok=True)
        X = prepared.X.iloc[train]
        figures = write_figures(
            lambda: [*draw_pictures(model, held, X), *draw_findings(found)],
            folder / runs.writing.FIGURES,
            size,
        )
        tables = write_tables(found, folder / runs.writing.TABLES, csv_text)
    print_findings(found)
    say(
        f"Wrote {run}: evidence.json, report.html, {len(figures)} figures of {size:g} mm in {runs.writing.FIGURES}, "
        f"{len(tables)} tables in {runs.writing.TABLES}"
    )
    return 130 if interrupted else 0
