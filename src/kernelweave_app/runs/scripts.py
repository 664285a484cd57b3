"""A Python script that repeats a run with the public interface only."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelweave import banks
from kernelweave._drawing import digits_of
from kernelweave.estimators import BaseMKL
from kernelweave.kernels import FeatureMap, Kernel
from kernelweave.learners import Learner
from kernelweave.normalizers import Normalizer
from kernelweave_app.runs.columns import date_lines, target_lines, type_lines, with_types
from kernelweave_app.runs.fitting import calibration_cv, chosen, make_model
from kernelweave_app.runs.formats import format_of
from kernelweave_app.runs.further_views import TABLE, Tables, further_lines
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.kernels_of import BANKS, kernels_by_view, parse_kernels
from kernelweave_app.runs.preparing import (
    Prepared,
    kept_shares,
    lacking_keys,
    needed_columns,
    other_columns,
)
from kernelweave_app.runs.reading import Run
from kernelweave_app.runs.settings import learner_of
from kernelweave_app.runs.spec import SURVIVAL, Spec
from kernelweave_app.runs.survival import need_targets, time_lines, without_negative

#: First line of a script.
AGAIN = "this script makes the same model again."
STOPPED = "the run was stopped early; this script makes its model, with the regularisation chosen by then."


def script(run: Run, alpha: float | None = None) -> str:
    """Return a script that fits the model of a run again and prints its held-out score.

    Parameters
    ----------
    run : Run
    alpha : float, optional
        Regularisation parameter of a run that was stopped early; the script does not choose it again.

    Returns
    -------
    str
    """
    spec, prepared = run.spec, run.prepared
    sparse_lines, gram_lines = further_lines(run.data)
    model = make_model(spec, prepared, run.test, alpha)
    learner = "None  # as a plain fit chooses" if model.learner is None else code(model.learner)
    parameter = learner_of(chosen(spec, prepared.task).method).regularization_parameter
    some = ".iloc" if prepared.names else ""
    extra = ", sample_weight=weights[train]" if spec.weights else ""
    extra += ", groups=groups[train]" if spec.group else ""
    lines = [
        f"# Written by kernelweave: {AGAIN if alpha is None else STOPPED}",
        *(f"# {line}" for told in run.origin.lines() for line in told.splitlines()),
        "import numpy as np",
        "",
        "import pandas as pd",
        "from sklearn import model_selection",
        "",
        "import kernelweave as kw",
        "",
        *_reading_lines(run.data, run.paths, spec.key),
        *sparse_lines,
        "table.columns = [str(c) for c in table.columns]",
        *gram_lines,
        *type_lines(spec.types),
        *_row_lines(run),
        *_division_lines(run),
        "",
        *_kernel_lines(spec, prepared, model.kernels),
        f"learner = {learner}",
        f"model = kw.{type(model).__name__}(",
        "    kernels,",
        "    learner,",
        *(f"    {name}={code(value)}," for name, value in settings_of(model)),
        ")",
        f"model.fit(X.iloc[train], y{some}[train]{extra})",
    ]
    if spec.probabilities != "none" and alpha is None:
        known = "train[weights[train] > 0]" if spec.weights else "train"
        groups = f", groups=groups[{known}]" if spec.group else ""
        cv = code(calibration_cv(spec, several=bool(prepared.names)))
        lines.append(f"model.calibrate({spec.probabilities!r}, cv={cv}{groups})")
    lines += [
        f'print(f"{parameter} {{model.{parameter}_:.6g}}, relative gap {{model.rel_gap_:.1e}}")',
        "layers = kw.inspection.layer_weights(model)",
        "for names, fractions in zip(layers.names, layers.fractions, strict=True):",
        "    for name, weight in zip(names, fractions.reshape(len(names), -1).mean(axis=1), strict=True):",
        "        if weight > 0:",
        '            print(f"{100 * weight:.1f} %  {name}")',
        "if len(test):",
        f'    print(f"held-out score {{model.score(X.iloc[test], y{some}[test]):.{digits_of(len(run.test))}f}}")',
    ]
    text = "\n".join(lines) + "\n"
    # views are indexed by rows
    return text.replace("X.iloc[", "X[") if isinstance(prepared.X, Tables) else text


def _row_lines(run: Run) -> list[str]:
    """The rows and columns to learn from: X and y."""
    spec, data, prepared = run.spec, run.data, run.prepared
    columns, targets = list(prepared.X.columns), need_targets(data.table, spec)
    lines = []
    if data.kinds:
        needed = needed_columns(spec, targets)
        kinds = {name: str(data.kinds[name]) for name in needed if name in data.kinds}
        lines.append(f"table = table[~table[{spec.key!r}].isin({sorted(lacking_keys(data, needed))!r})]")
        lines.append(f"table = table.dropna(subset={columns!r}, how='all').astype({kinds!r})")
    others = other_columns(spec, targets)
    if without_negative(typed := with_types(data.table, spec.types), spec) is not typed:
        lines.append(f"table[{spec.time!r}] = table[{spec.time!r}].mask(table[{spec.time!r}] < 0)")
    if spec.missing == "drop" and (spec.missing_views == "error" or len(prepared.views) < 2):
        lines.append(f"table = table.dropna(subset={[*columns, *others]!r})")
    elif spec.missing == "drop":
        lines += [
            f"missing = table[{columns!r}].isna()",
            f"for view in {list(prepared.views.values())!r}:",
            "    missing.loc[missing[view].all(axis=1), view] = False  # rows without the view stay",
            f"table = table[~(missing.any(axis=1) | table[{others!r}].isna().any(axis=1))]",
        ]
    read = typed.loc[prepared.frame.index]
    lines += date_lines(read, columns)
    if prepared.task == SURVIVAL:
        lines += time_lines(spec, read)
    else:
        lines += target_lines(targets, classification=prepared.task == "classification")
    return [*lines, _columns_line(data, prepared, columns)]


def _division_lines(run: Run) -> list[str]:
    """Weights, groups, training and held-out rows."""
    spec, prepared = run.spec, run.prepared
    lines = [f"weights = table[{spec.weights!r}].to_numpy(dtype=float)"] if spec.weights else []
    lines += [f"groups = table[{spec.group!r}].to_numpy()"] if spec.group else []
    lines.append("rows = np.arange(len(y))")
    how = f"test_size={spec.test_size}, random_state={spec.seed}"
    if prepared.division is not None:
        return [*lines, *prepared.division.lines(), "train, test = rows[~held], rows[held]"]
    if spec.test_size == 0:
        return [*lines, "train, test = rows, rows[:0]"]
    if spec.group:
        splitter = f"splitter = model_selection.GroupShuffleSplit(1, {how})"
        return [*lines, splitter, "train, test = next(splitter.split(rows, groups=groups))"]
    stratify = "y[:, 0].astype(float)" if prepared.task == SURVIVAL else "y"
    stratify = "None" if kept_shares(prepared) is None else stratify
    return [
        *lines,
        f"train, test = model_selection.train_test_split(rows, {how}, stratify={stratify})",
        "train, test = np.sort(train), np.sort(test)",
    ]


def _columns_line(data: Joined, prepared: Prepared, columns: list[str]) -> str:
    X = prepared.X
    if not isinstance(X, Tables):
        return f"X = table[{columns!r}]"
    frames = [f"{view!r}: table[{names!r}]" for view, names in X.groups.items()]
    if not frames and columns:
        frames = [f"{TABLE!r}: table[{columns!r}]"]
    read = [name for name, some in (("sparse_views", data.sparse), ("grams", data.grams)) if some]
    rows = [f"**{{name: rows[table.index] for name, rows in {name}.items()}}" for name in read]
    return f"X = kw.Views({{{', '.join([*frames, *rows])}}})"


def _reading_lines(data: Joined, paths: Mapping[str, str], key: str) -> list[str]:
    if len(paths) == 1:
        [path] = paths.values()
        return format_of(path).lines("table", path, data)
    lines = ["tables = []"]
    for name, path in paths.items():
        lines += format_of(path).lines("part", path, data)
        if data.renamed[name]:
            lines.append(f"part = part.rename(columns={data.renamed[name]!r})")
        lines.append("tables.append(part)" if data.by_order else f"tables.append(part.set_index({key!r}))")
    if data.by_order:
        return [*lines, "table = pd.concat(tables, axis=1)"]
    how = "outer" if data.kinds else "inner"
    return [*lines, f"table = pd.concat(tables, axis=1, join={how!r}).rename_axis({key!r}).reset_index()"]


def settings_of(model: BaseMKL) -> list[tuple[str, Any]]:
    """Parameters of an estimator other than kernels and learner that are not as by default."""
    usual = inspect.signature(type(model)).parameters
    found = model.get_params(deep=False).items()
    return [
        (name, value)
        for name, value in found
        if name not in ("kernels", "learner")
        and not (type(value) is type(usual[name].default) and value == usual[name].default)
    ]


def code(value: Any) -> str:
    """A parameter of an estimator as Python text."""
    if isinstance(value, Kernel):
        return f"kw.kernels.parse({repr(value)!r})"
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    if isinstance(value, list) and any(isinstance(part, Kernel | list) for part in value):
        return f"[{', '.join(map(code, value))}]"
    if isinstance(value, Learner):
        told = ", ".join(f"{name}={code(part)}" for name, part in sorted(value.get_params().items()))
        return f"kw.learners.{type(value).__name__}({told})"
    if isinstance(value, FeatureMap):
        return f"kw.kernels.{value!r}"
    if isinstance(value, Normalizer):
        return f"kw.normalizers.{type(value).__name__}(extra=X.iloc[test])"
    splitter = type(value).__module__.startswith("sklearn.model_selection")
    return f"model_selection.{value!r}" if splitter else repr(value)


def _kernel_lines(spec: Spec, prepared: Prepared, bank: Any) -> list[str]:
    if bank is None:
        return ["kernels = None  # those of a plain fit"]
    if isinstance(bank, dict):
        return ["kernels = {", *(f"    {view!r}: {code(own)}," for view, own in bank.items()), "}"]
    texts = {text.strip() for text in kernels_by_view(spec, prepared.views).values()}
    if isinstance(bank, banks.DefaultViews):
        return [f"kernels = kw.banks.views({prepared.views!r})"]
    if len(texts) == 1:
        # every kernel on every view
        [text] = texts
        return [f"kernels = kw.banks.views({prepared.views!r}, kernels={code(parse_kernels(text))})"]
    name = str(spec.kernels).strip().lower().replace("-", "_")
    if not texts and name in BANKS:
        return [f"kernels = kw.banks.get({name!r}, list(X.columns))"]
    return ["kernels = [", *(f"    {code(kernel)}," for kernel in bank), "]"]
