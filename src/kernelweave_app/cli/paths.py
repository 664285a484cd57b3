"""The command `path`, on a table or on statistics of one, and the files that every path is written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelweave._drawing import percent, score_text
from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave_app import runs
from kernelweave_app.cli.arguments import Settings
from kernelweave_app.cli.console import Steps, print_table, say
from kernelweave_app.cli.learning import say_found
from kernelweave_app.runs.folders import csv_text, whole_folder, write_text, writing

if TYPE_CHECKING:
    from kernelweave._types import DataFrame
    from kernelweave.gram import BlockStatistics
    from kernelweave.results import Path as SolutionPath
    from kernelweave.rows.folds import FoldStatistics
    from kernelweave.rows.row_features import RowFeatures
    from kernelweave_app.runs.preparing import Prepared
    from kernelweave_app.runs.spec import Spec

#: Files of a path over blocks of features.
FILES = ("path.csv", "path.svg", "coefficients.csv")
#: Kernels that are printed.
MOST_KERNELS = 12
#: Settings of a path that statistics can have, and parameters of RLS2.
USED = {
    "method",
    "alphas",
    "rule",
    "normalize",
    "intercept",
    "seed",
    "jobs",
    "learner_params",
    "target",
    "task",
}
PARAMETERS = {"tol", "max_iter"}


def path(
    table: str,
    /,
    *,
    spec: Any = None,
    out: str,
    settings: Settings = None,
    overwrite: bool = False,
) -> None:
    """Solve the whole regularisation path on all rows, and write a table and a picture of the weights along it.

    Ctrl-C ends the path; what is done is written.

    Example: kernelweave path patients.csv --target outcome --alphas 50 --out path

    Parameters
    ----------
    table
        A table file: CSV, TSV (also .gz), Parquet or another known format; the labels of an svmlight file are the
        column "target". Or a file of the command
        statistics: then the folds in it, if it has any, choose the regularisation parameter.
    out
        Folder for the results.
    settings
        TOML file with settings; options given here come first.
    overwrite
        Replace the results of an earlier run.
    """
    from kernelweave_app.cli.early import check_run
    from kernelweave_app.cli.options import final_spec

    given = final_spec(spec, settings)
    if given.survival:
        raise InputError("Paths of survival are not written here. The report of the command fit shows one.")
    check_run(table, given, out, overwrite=overwrite, made=FILES[0])
    from kernelweave.gram.statistics_files import kind_of

    of_statistics = Path(table).suffix == ".npz" and kind_of(table)
    (_path_of_statistics if of_statistics else _path_of_table)(table, given, out, overwrite)


def draw_path(
    file: Path, alphas: Any, df: Any, weights: Any, names: Any, chosen: int | None, parameter: str
) -> None:
    """Write the figure of a path."""
    from kernelweave.plots import RegularizationPathDisplay
    from kernelweave_app.reports import close, svg

    display = RegularizationPathDisplay(
        alphas, df, weights, names, chosen, "kernel weight (fraction)", parameter
    ).plot()
    with writing():
        write_text(file, svg(display.figure_))
    close(display.figure_)


def path_table(head: Mapping[str, Any], weights: Any, names: Any) -> DataFrame:
    """A row for each solution: `head`, and the weights of kernels that have some anywhere, as fractions."""
    import pandas as pd

    shown = pd.DataFrame(weights, columns=list(names))
    return pd.concat([pd.DataFrame(dict(head)), shown.loc[:, (shown > 0).any()]], axis=1)


# ---- a table ----------------------------------------------------------------------------------------


def _path_of_table(table: str, spec: Spec, out: str, overwrite: bool) -> None:
    data = runs.reading.read_all(runs.reading.files_of(table, spec), spec, labelled=True)
    prepared = runs.preparing.prepare(data, spec)
    # what each of several weights of kernels belongs to
    each = "target" if prepared.task == "regression" else "label" if prepared.names else "class"
    with whole_folder(out, overwrite=overwrite, files=("path.csv", "path.svg", "path-*.svg")) as folder:
        say_found(data, prepared, table, spec)
        pictures, n_outputs = _solve(spec, prepared, folder, each)
    said = f"a picture for each {each}" if len(pictures) == n_outputs > 1 else ", ".join(pictures)
    say(f"Wrote {out}: path.csv and {said}")


def _solve(spec: Spec, prepared: Prepared, folder: Path, each: str) -> tuple[list[str], int]:
    """Solve the paths of all outputs and write them; return the pictures that are there, and the number of outputs."""
    import numpy as np
    import pandas as pd

    from kernelweave.inspection import regularization_path
    from kernelweave.inspection.arguments import outputs_of
    from kernelweave.inspection.weights import fractions_of
    from kernelweave.learners.solving import C_RANGE
    from kernelweave.plots.path import CRITERIA

    if spec.method == runs.spec.DEFAULT:
        # a ridge of its own is chosen by folds, which a path has not
        given = {"relax": "none", **spec.learner_params}
        spec = runs.fitting.chosen(spec, prepared.task)
        spec = spec.with_params(**given) if spec.method == "rls2" else spec
    learner = runs.fitting.make_learner(spec)
    if getattr(learner, "relax", None) == "auto":
        raise InputError(
            "Setting `relax`: auto chooses by folds, and a path has none. Give a number, or none."
        )
    # the strongest regularisation costs least: this only sets up the kernels
    parameter = learner.regularization_parameter
    learner.set_params(**({"alpha": float("inf")} if parameter == "alpha" else {"C": C_RANGE[0]}))
    model: Any = runs.fitting.assemble(spec, prepared, np.arange(0), learner)
    model.fit(prepared.X, prepared.target(), sample_weight=prepared.weights)
    say(f"{numbered(model.n_kernels_, 'kernel')}, stored as: {model.gram_}.")
    values, n_alphas = runs.fitting.parse_path(spec)
    outputs = [None] if model.model_.weights.ndim == 1 else outputs_of(model)
    frames: list[DataFrame] = []
    with Steps("path", n_alphas * len(outputs)) as steps:
        for output, picture in zip(outputs, _pictures(outputs), strict=True):
            found = regularization_path(
                model, **values, n_alphas=n_alphas, output=output, report=steps.advance
            )
            head: dict[str, Any] = {} if output is None else {each: [output] * len(found.alphas)}
            head |= {} if found.Cs is None else {"C": found.Cs}
            head |= {"alpha": found.alphas, "df": found.df}
            head |= {name: found.criteria[name] for name in ("df_total",) if name in found.criteria}
            head |= {"n_kernels": (found.weights > 0).sum(axis=1)}
            head |= {name: found.criteria[name] for name in CRITERIA if name in found.criteria}
            layers = [
                pd.DataFrame(fractions_of(w, axis=1), columns=[f"layer {depth}: {name}" for name in names])
                for depth, (names, w) in enumerate(
                    zip(model.layer_kernel_names_[1:], found.upper_weights, strict=True), start=2
                )
            ]
            frames.append(pd.concat([path_table(head, found.fractions, found.names), *layers], axis=1))
            draw_path(folder / picture, found.alphas, found.df, found.fractions, found.names, None, parameter)
            if len(found.alphas) < n_alphas:
                break
    table = pd.concat(frames)
    with writing():
        write_text(folder / "path.csv", csv_text(table))
    first, last = table[parameter].iloc[0], table[parameter].iloc[-1]
    most = numbered(int(table["n_kernels"].max()), "kernel")
    say(f"{parameter} from {first:.3g} to {last:.3g}: up to {most}.")
    wanted = n_alphas * len(outputs)
    if len(table) < wanted:
        say(f"Interrupted: {len(table)} of {wanted} regularisation parameters are done and written.")
    return _pictures(outputs)[: len(frames)], len(outputs)


def _pictures(outputs: Sequence[str | None]) -> list[str]:
    """Names of the files of pictures, all different."""
    if None in outputs:
        return ["path.svg"]
    plain = ["".join(c if c.isalnum() or c in "-_." else "_" for c in str(output))[:60] for output in outputs]
    return [
        f"path-{name}.svg" if plain.count(name) == 1 else f"path-{name}-{k}.svg"
        for k, name in enumerate(plain, start=1)
    ]


# ---- blocks of features -----------------------------------------------------------------------------


def _path_of_statistics(file: str, spec: Spec, out: str, overwrite: bool) -> None:
    import numpy as np

    from kernelweave.mkl.path import rls2_path
    from kernelweave.rows.folds import FoldStatistics
    from kernelweave.rows.validation import rls2_path_cv

    found = read_statistics(file)
    total = found.total if isinstance(found, FoldStatistics) else found
    say(f"Found {file}: {describe_statistics(found)}.")
    _check_spec(spec)
    values, n_alphas = runs.fitting.parse_path(spec.model_copy(update={"method": "rls2"}))
    options: dict[str, Any] = {"n_alphas": n_alphas, "tol": 1e-6, "fit_intercept": spec.intercept}
    options |= spec.learner_params
    if spec.normalize != "none":
        diagonals = total.mean_diagonals(centered=spec.intercept)
        options["scale"] = 1.0 / np.where(diagonals > 0, diagonals, 1.0)
    with whole_folder(out, overwrite=overwrite, files=FILES) as folder:
        validated = None
        with Steps("path", n_alphas) as steps:
            options["callback"] = lambda index, result: steps.advance()
            if isinstance(found, FoldStatistics):
                validated = rls2_path_cv(found, values["alphas"], rule=spec.rule, n_jobs=spec.jobs, **options)
                solved: SolutionPath[Any] = validated.path
            else:
                solved = rls2_path(found, None, values["alphas"], **options)
        head: dict[str, Any] = {"df": solved.df, "n_kernels": solved.n_active, "rel_gap": solved.rel_gap}
        best, scores = None, {}
        if validated is not None:
            best = validated.best_index
            head |= {"mse": validated.mean_mse, "mse_se": validated.se_mse, "r2": validated.pooled_r2}
            scores = {"mean squared error": validated.mean_mse[best], "R^2": validated.pooled_r2[best]}
        write_block_path(folder, total, solved, "alpha", head, best, scores, total.n_rows)
    say(f"Wrote {out}: {', '.join(FILES)}")


def _check_spec(spec: Spec) -> None:
    """Raise for settings that statistics cannot have."""
    if spec.method not in (runs.spec.DEFAULT, "rls2"):
        raise InputError(
            f"--learner must be rls2 for statistics, which hold sums for the squared loss, got {spec.method}."
        )
    for name in type(spec).model_fields:
        if name not in USED and spec.differs(name):
            raise InputError(
                f"Setting `{name}` does not apply to statistics, which have no rows. Leave it out."
            )
    if strange := [name for name in spec.learner_params if name not in PARAMETERS]:
        raise InputError(f"Setting `{strange[0]}` does not apply to statistics. Leave it out.")
    # with an intercept all sums are those of centred features
    if spec.normalize not in ("auto", "mean-diagonal", "none", *["center"] * spec.intercept):
        raise InputError(
            f"--normalize must be mean-diagonal or none for statistics, or center with an intercept, got "
            f"{spec.normalize}."
        )


def read_statistics(path: str | Path) -> BlockStatistics | FoldStatistics:
    """Statistics of all rows or of folds."""
    from kernelweave.gram import BlockStatistics
    from kernelweave.gram.statistics_files import kind_of
    from kernelweave.rows.folds import FoldStatistics

    return FoldStatistics.load(path) if kind_of(path) == FoldStatistics.KIND else BlockStatistics.load(path)


def describe_statistics(found: BlockStatistics | FoldStatistics) -> str:
    """Numbers of rows, features, blocks and folds in words."""
    from kernelweave.gram import BlockStatistics

    one = found if isinstance(found, BlockStatistics) else found.total
    folds = "" if isinstance(found, BlockStatistics) else f", {found.n_folds} folds"
    blocks = numbered(one.n_kernels, "block")
    return f"{one.n_rows:,} rows, {numbered(one.n_features, 'feature')} in {blocks}{folds}"


def write_block_path(
    folder: Path,
    blocks: BlockStatistics | RowFeatures,
    solved: SolutionPath[Any],
    parameter: str,
    head: Mapping[str, Any],
    chosen: int | None,
    scores: Mapping[str, float],
    n_rows: int,
) -> None:
    """Write the tables and the figure of a path over blocks of features, and print one of its solutions.

    Parameters
    ----------
    folder : Path
    blocks : BlockStatistics or RowFeatures
    solved : Path
    parameter : {"alpha", "C"}
    head : mapping of str to array
        Further columns of the path, with an entry for each solution.
    chosen : int or None
        Position of the chosen solution; None for the last.
    scores : dict of str to float
        Of the chosen solution, over folds.
    n_rows : int
    """
    import numpy as np

    from kernelweave.estimators.choosing import not_an_estimate
    from kernelweave.inspection.weights import fractions_of

    fractions = fractions_of(np.asarray(solved.weights), axis=1)
    names = [f"block {m}" for m in range(blocks.n_kernels)]
    if blocks.names:
        names = list(blocks.names)
    elif blocks.columns and blocks.n_kernels == blocks.n_features:
        names = list(blocks.columns)
    columns = list(blocks.columns or (f"x{j}" for j in range(blocks.n_features)))
    if len(set(columns)) < len(columns):
        # a column is in several blocks
        owners = np.repeat(names, np.diff(np.asarray(blocks.groups)))
        columns = [f"{owner}: {column}" for owner, column in zip(owners, columns, strict=True)]
    values = 1.0 / np.asarray(solved.alphas) if parameter == "C" else np.asarray(solved.alphas)
    table = path_table({parameter: values, **head}, fractions, names)
    with writing():
        write_text(folder / "path.csv", csv_text(table))
        write_text(folder / "coefficients.csv", csv_text(_coefficients(columns, solved, parameter, values)))
    draw_path(folder / "path.svg", solved.alphas, solved.df, fractions, names, chosen, parameter)
    at = len(solved) - 1 if chosen is None else chosen
    one, own = solved.at(at), fractions[at]
    order = np.argsort(-own)[:MOST_KERNELS]
    print_table(("weight", "kernel"), [(percent(own[m], 1), names[m]) for m in order if own[m] > 0])
    if scores:
        each = (f"{name} {score_text(name, value, n_rows)}" for name, value in scores.items())
        say(f"Cross-validated: {', '.join(each)}; this is {not_an_estimate(parameter)}.")
    say(
        f"{parameter} {values[at]:.4g}; objective {one.primal:.6g}, at most {one.rel_gap:.1e} of it above the "
        f"optimum ({one.status.name.lower()})."
    )


def _coefficients(columns: list[str], solved: SolutionPath[Any], parameter: str, values: Any) -> DataFrame:
    """A row for each solution and output: the intercept and the coefficients of the features."""
    import numpy as np
    import pandas as pd

    frames = []
    for one, value in zip(solved.solutions, values, strict=True):
        coef = one.feature_coef.reshape(len(columns), -1).T
        frame = pd.DataFrame(coef, columns=columns)
        frame.insert(0, "intercept", np.broadcast_to(np.reshape(one.intercept, -1), len(coef)))
        if one.feature_coef.ndim > 1:
            frame.insert(0, "output", range(len(coef)))
        frame.insert(0, parameter, value)
        frames.append(frame)
    return pd.concat(frames)
