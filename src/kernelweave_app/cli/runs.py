"""The steps of the commands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave._checks import InputError
from kernelweave._types import Console
from kernelweave.inspection.arguments import target_names
from kernelweave.inspection.held import HeldOut
from kernelweave_app.cli.console import FitProgress, Steps, make_console, print_findings
from kernelweave_app.runs.fitting import (
    assemble,
    calibrate_model,
    chosen,
    fit_model,
    make_learner,
    make_model,
    parse_path,
    unused_settings,
)
from kernelweave_app.runs.folders import csv_text, whole_folder, write_text, writing
from kernelweave_app.runs.joining import Joined, files_in, name_tables
from kernelweave_app.runs.preparing import Prepared, prepare, split
from kernelweave_app.runs.reading import read_all, read_new
from kernelweave_app.runs.scoring import predictions, with_truth
from kernelweave_app.runs.spec import DEFAULT, Spec
from kernelweave_app.runs.table_doubts import doubts_of_table
from kernelweave_app.runs.tables import check_target, describe, need_column
from kernelweave_app.runs.targets import target_of_model

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL
    from kernelweave.inspection.registry import Found


def say_found(console: Console, data: Joined, prepared: Prepared, name: str, spec: Spec) -> None:
    """Print a description of the data."""
    console.print(f"Found {name}: {describe(data.table)}.")
    for view, lost in data.missing.items():
        if lost:
            then = "their view is missing" if data.kinds else "they are left out"
            console.print(f"Table {view} does not have {len(lost)} rows of other tables; {then}.")
    if prepared.n_dropped:
        console.print(f"Left out {prepared.n_dropped} rows with missing values.")
    for one in doubts_of_table(prepared).values():
        console.print(one.sentence, markup=False)
    console.print(
        f"Task: {prepared.said}, because {prepared.reason}."
        if prepared.reason != "as asked"
        else f"Task: {prepared.said}.",
        markup=False,
    )
    for view, columns in prepared.views.items():
        console.print(f"View {view}: {len(columns)} columns.")
    for view, rows in data.sparse.items():
        console.print(f"View {view}: {rows.shape[1]} sparse columns, {rows.nnz} entries.")
    for view, one in data.grams.items():
        by = f"by {one.column!r}" if one.column else "by position"
        console.print(f"View {view}: a precomputed kernel, rows matched {by}.", markup=False)
    now = chosen(spec, prepared.task)
    if now.method != spec.method:
        console.print(f"Learner: {now.method}, as a plain fit chooses.")
    if unused := unused_settings(now):
        console.print(f"Not used by {now.method}: {', '.join(unused)}.")


def summarize(console: Console, model: BaseMKL, found: Found) -> None:
    """Print what was found, the regularisation parameter and the certificate."""
    from kernelweave.learners import Learner

    print_findings(found)
    if model.defaults_:
        console.print(model.explain_defaults(), markup=False, highlight=False)
    console.print(
        f"{regularization(model)}; objective {model.objective_:.6g}, at most {model.rel_gap_:.1e} of it above the "
        f"optimum ({model.status_}, {model.n_iter_} iterations)."
    )
    learner = model.model_.learner
    if learner.certificate != Learner.certificate:
        console.print(learner.certificate)


def regularization(model: BaseMKL) -> str:
    """The regularisation parameter of a fitted model, as alpha or C."""
    if hasattr(model, "C_"):
        return f"C {model.C_:.4g}"
    ridge = f", ridge at {model.relax_:.4g}" if hasattr(model, "relax_") else ""
    return f"alpha {model.alpha_:.4g}{ridge}"


def read_data(path: str, spec: Spec) -> tuple[Joined, dict[str, str]]:
    """Read the table of a command and the tables joined to it."""
    paths = name_tables([path, *files_in(spec.join)])
    data = read_all(paths, spec, labelled=True)
    return data, {name: str(Path(file).resolve()) for name, file in paths.items()}


def run_fit(path: str, spec: Spec, out: str, *, overwrite: bool) -> None:
    """The `fit` command."""
    if not out:
        raise InputError("A folder for the results is needed: --out FOLDER.")
    from kernelweave_app.runs.evidence import gather
    from kernelweave_app.runs.lineage import trace
    from kernelweave_app.runs.nested import nested_scores, say_nested
    from kernelweave_app.runs.writing import FILES, score_held, write_report, write_run

    console = make_console()
    data, paths = read_data(path, spec)
    origin = trace(paths, spec)
    prepared = prepare(data, spec)
    train, test = split(prepared, spec)
    model = make_model(spec, prepared, test)
    with whole_folder(out, overwrite=overwrite, files=FILES) as folder:
        say_found(console, data, prepared, path, spec)
        if prepared.division is None:
            console.print(f"Fitting on {len(train)} rows, {len(test)} held out.")
        else:
            console.print(f"{prepared.division.said}.", markup=False)
        fit_model(model, prepared, train, FitProgress("path x folds"))
        calibrate_model(model, spec, prepared, train)
        if spec.probabilities != "none" and not hasattr(model, "predict_proba"):
            console.print("The fit was stopped: no probabilities were learnt.")
        held = score_held(model, prepared, test)
        if held is not None:
            console.print("Held-out: " + ", ".join(f"{k} {v:.4f}" for k, v in held.scores.items()))
        outer = nested_scores(spec, prepared, train, FitProgress("path x folds, outer fold"))
        nested = say_nested(outer) if outer else ""
        if nested:
            console.print(nested)
        found = gather(model, prepared, held, outer)
        summarize(console, model, found)
        write_run(folder, model, spec, data, prepared, paths, held, origin)
        write_report(
            folder,
            model,
            spec,
            data,
            prepared,
            paths,
            (train, test),
            held,
            nested,
            found=found,
            origin=origin,
        )
        made = [name for name in FILES if (folder / name).exists()]
    console.print(f"Wrote {out}: {', '.join(made)}")


def run_path(path: str, spec: Spec, out: str, *, overwrite: bool) -> None:
    """The `path` command."""
    console = make_console()
    data, _ = read_data(path, spec)
    prepared = prepare(data, spec)
    with whole_folder(out, overwrite=overwrite, files=("path.csv", "path.svg", "path-*.svg")) as folder:
        say_found(console, data, prepared, path, spec)
        n_outputs = _write_path(console, spec, prepared, folder)
    pictures = f"a picture for each {_what_differs(prepared)}" if n_outputs > 1 else "path.svg"
    console.print(f"Wrote {out}: path.csv and {pictures}")


def _what_differs(prepared: Prepared) -> str:
    """What each of several weights of kernels belongs to."""
    if prepared.task == "regression":
        return "target"
    return "label" if prepared.names else "class"


def _write_path(console: Console, spec: Spec, prepared: Prepared, folder: Path) -> int:
    """Solve the paths of all outputs and write them; return their number."""
    import pandas as pd

    from kernelweave.inspection import regularization_path
    from kernelweave.inspection.arguments import outputs_of
    from kernelweave.learners.solving import C_RANGE
    from kernelweave.plots import RegularizationPathDisplay
    from kernelweave.plots.path import CRITERIA
    from kernelweave_app.reports import close, svg

    if spec.method == DEFAULT:
        # a ridge of its own is chosen by folds, which a path has not
        given = {"relax": "none", **spec.learner_params}
        spec = chosen(spec, prepared.task)
        spec = spec.with_params(**given) if spec.method == "rls2" else spec
    learner = make_learner(spec)
    if getattr(learner, "relax", None) == "auto":
        raise InputError(
            "Setting `relax`: auto chooses by folds, and a path has none. Give a number, or none."
        )
    # the strongest regularisation costs least: this only sets up the kernels
    parameter = learner.regularization_parameter
    learner.set_params(**({"alpha": float("inf")} if parameter == "alpha" else {"C": C_RANGE[0]}))
    model: Any = assemble(spec, prepared, np.arange(0), learner)
    model.fit(prepared.X, prepared.target(), sample_weight=prepared.weights)
    console.print(f"{model.n_kernels_} kernels, held as: {model.gram_}.")
    values, n_alphas = parse_path(spec)
    outputs = [None] if model.model_.weights.ndim == 1 else outputs_of(model)
    pictures = _pictures(outputs)
    frames, wanted, done = [], 0, 0
    steps = Steps("path", n_alphas * len(outputs))
    for output, picture in zip(outputs, pictures, strict=True):
        found = regularization_path(model, **values, n_alphas=n_alphas, output=output, report=steps.advance)
        weights = pd.DataFrame(found.weights, columns=list(found.names))
        weights = weights.loc[:, (weights > 0).any()]
        columns = {"alpha": found.alphas, "df": found.df, "n_kernels": (found.weights > 0).sum(axis=1)}
        columns |= {name: found.criteria[name] for name in CRITERIA if name in found.criteria}
        head = pd.DataFrame({**({} if found.Cs is None else {"C": found.Cs}), **columns})
        if output is not None:
            head.insert(0, _what_differs(prepared), output)
        layers = [
            pd.DataFrame(w, columns=[f"layer {depth}: {name}" for name in names])
            for depth, (names, w) in enumerate(
                zip(model.layer_kernel_names_[1:], found.upper_weights, strict=True), start=2
            )
        ]
        frames.append(pd.concat([head, weights, *layers], axis=1))
        wanted, done = wanted + n_alphas, done + len(found.alphas)
        display = RegularizationPathDisplay(
            found.alphas,
            found.df,
            found.weights,
            found.names,
            None,
            "kernel weight",
            parameter,
        ).plot()
        with writing():
            write_text(folder / picture, svg(display.figure_))
        close(display.figure_)
        if len(found.alphas) < n_alphas:
            break
    steps.close()
    with writing():
        write_text(folder / "path.csv", csv_text(pd.concat(frames)))
    first, last = (
        frames[0][parameter].iloc[0],
        frames[-1][parameter].iloc[-1],
    )
    most = int(max(frame["n_kernels"].max() for frame in frames))
    console.print(f"{parameter} from {first:.3g} to {last:.3g}: up to {most} kernels.")
    if done < wanted:
        console.print(f"Interrupted: {done} of {wanted} regularisation parameters are done and written.")
    return len(outputs)


def _pictures(outputs: Sequence[str | None]) -> list[str]:
    """Names of the files of pictures, all different."""
    if outputs == [None]:
        return ["path.svg"]
    plain = [_plain(str(output)) for output in outputs]
    return [
        f"path-{name}.svg" if plain.count(name) == 1 else f"path-{name}-{k}.svg"
        for k, name in enumerate(plain, start=1)
    ]


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text)[:60]


def load_model(name: str) -> BaseMKL:
    """Read the model of a run folder or a file."""
    from kernelweave.persistence import load

    source = Path(name)
    if source.is_dir():
        source = source / "model.skops"
    if not source.exists():
        raise InputError(f"There is no model at {name}. Pass the folder of a run, or a .skops file.")
    return load(source)


def folder_of(model_path: str) -> Path:
    """The folder of a run, or of its model file."""
    source = Path(model_path)
    return source if source.is_dir() else source.parent


def run_predict(model_path: str, path: str, out: str, *, std: bool, **further: Any) -> None:
    """The `predict` command; `further` are arguments of `read_new`."""
    console = make_console()
    model = load_model(model_path)
    rows = read_new(model, folder_of(model_path), path, say=partial(console.print, markup=False), **further)
    classifier = hasattr(model, "classes_")
    if std and classifier:
        raise InputError("--std is for regression; this model is a classifier.")
    kind = "classifier" if classifier else "regression model"
    console.print(f"Found {path}: {describe(rows.table)}; a {kind}.")
    frame = predictions(model, rows.X, std=std, keys=rows.keys)
    with writing():
        write_text(Path(out), csv_text(frame))
    console.print(f"Wrote {len(frame)} predictions to {out}")


def run_export(model_path: str, out: str, *, single: bool) -> None:
    """The `export` command."""
    from kernelweave.persistence.onnx_file import to_onnx

    console = make_console()
    model = load_model(model_path)
    with writing():
        file = to_onnx(model, out, dtype="float32" if single else "float64")
    console.print(f"Found a {type(model).__name__} of {model.n_kernels_} kernels.")
    console.print(f"Wrote {file.stat().st_size / 1e6:.2f} MB to {out}")


def run_evaluate(model_path: str, path: str, target: str, out: str, **further: Any) -> None:
    """The `evaluate` command; `further` are arguments of `read_new`."""
    from kernelweave_app.runs.lineage import learnt_from

    console = make_console()
    model = load_model(model_path)
    rows = read_new(model, folder_of(model_path), path, say=partial(console.print, markup=False), **further)
    task = "classification" if hasattr(model, "classes_") else "regression"
    names = target_names(model)
    console.print(f"Found {path}: {describe(rows.table)}.")
    if names:
        y, stands_for = target_of_model(rows.table, target, names, task)
        for name, column in stands_for.items():
            console.print(f"Column {column} is the truth of {name}.", markup=False)
    else:
        y = check_target(need_column(rows.table, target, "the target"), task)
    if task == "classification" and not names:
        strangers = sorted(set(map(str, y)) - set(map(str, model.classes_)))
        if strangers:
            known = ", ".join(map(repr, model.classes_))
            raise InputError(
                f"Column {target!r} has labels that the model does not know: {strangers[:5]}. It knows {known}."
            )
    if learnt_from(Path(model_path), path):
        console.print(
            "The model was fitted on rows of this file: these are not scores of new rows. Those of rows that were "
            "held out are in the report of the run.",
            markup=False,
        )
    found = predictions(model, rows.X, keys=rows.keys)
    for name, value in HeldOut.of_columns(model, found, y).scores.items():
        console.print(f"{name}: {value:.4f}")
    if out:
        with writing():
            write_text(Path(out), csv_text(with_truth(found, y, names)))
        console.print(f"Wrote {out}")
