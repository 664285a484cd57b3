"""A Python script that repeats a run with the public interface only."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave import banks
from kernelweave.kernels import FeatureMap, Kernel
from kernelweave.learners import Learner
from kernelweave.normalizers import Normalizer
from kernelweave_app.runs.columns import type_lines
from kernelweave_app.runs.fitting import calibration_cv, make_model
from kernelweave_app.runs.formats import format_of
from kernelweave_app.runs.gram_views import gram_reading
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.kernels_of import BANKS, kernels_by_view, parse_kernels
from kernelweave_app.runs.preparing import Prepared, other_columns, split
from kernelweave_app.runs.sparse_views import TABLE, Tables, sparse_reading
from kernelweave_app.runs.spec import Spec
from kernelweave_app.runs.targets import need_target, target_lines

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL

#: First line of a script.
AGAIN = "this script makes the same model again."
STOPPED = "the run was stopped early; this script makes its model, with the regularisation chosen by then."


def script(
    spec: Spec,
    data: Joined,
    prepared: Prepared,
    paths: Mapping[str, str],
    alpha: float | None = None,
    lineage: Sequence[str] = (),
) -> str:
    """Return a script that fits the model of a run again and prints its held-out score.

    Parameters
    ----------
    spec : Spec
    data : Joined
        The tables that were read.
    prepared : Prepared
        The prepared data.
    paths : mapping of str to str
        The table files by name.
    alpha : float, optional
        Regularisation parameter of a run that was stopped early; the script does not choose it again.
    lineage : sequence of str
        Lines on what the run read and used.

    Returns
    -------
    str
    """
    classification = prepared.task == "classification"
    several = bool(prepared.names)
    lines = [
        f"# Written by kernelweave: {AGAIN if alpha is None else STOPPED}",
        *(f"# {line}" for told in lineage for line in told.splitlines()),
        "import numpy as np",
        "",
    ]
    body = [
        *_reading_lines(data, paths, spec.key),
        *sparse_reading(data.files),
        "table.columns = [str(c) for c in table.columns]",
        *gram_reading(data.grams),
        *type_lines(spec.types),
    ]
    columns = list(prepared.X.columns)
    targets = need_target(data.table, spec.target)
    others = other_columns(spec, targets)
    if data.kinds:
        needed = [name for name in (*targets, spec.weights, spec.group, spec.holdout) if name]
        kinds = {name: str(data.kinds[name]) for name in needed if name in data.kinds}
        lacking = {k for name in needed for k in data.missing.get(data.table_of(name) or "", ())}
        body.append(f"table = table[~table[{spec.key!r}].isin({sorted(lacking)!r})]")
        body.append(f"table = table.dropna(subset={columns!r}, how='all').astype({kinds!r})")
    if spec.missing == "drop" and (spec.missing_views == "error" or len(prepared.views) < 2):
        body.append(f"table = table.dropna(subset={[*columns, *others]!r})")
    elif spec.missing == "drop":
        body += [
            f"missing = table[{columns!r}].isna()",
            f"for view in {list(prepared.views.values())!r}:",
            "    missing.loc[missing[view].all(axis=1), view] = False  # rows without the view stay",
            f"table = table[~(missing.any(axis=1) | table[{others!r}].isna().any(axis=1))]",
        ]
    body += [
        *target_lines(targets, classification=classification),
        _columns_line(data, prepared, columns),
    ]
    if spec.weights:
        body.append(f"weights = table[{spec.weights!r}].to_numpy(dtype=float)")
    if spec.group:
        body.append(f"groups = table[{spec.group!r}].to_numpy()")
    body.append("rows = np.arange(len(y))")
    if prepared.division is not None:
        body += prepared.division.lines()
        body.append("train, test = rows[~held], rows[held]")
    elif spec.test_size == 0:
        body.append("train, test = rows, rows[:0]")
    elif spec.group:
        body.append(
            f"splitter = model_selection.GroupShuffleSplit(1, test_size={spec.test_size}, random_state={spec.seed})"
        )
        body.append("train, test = next(splitter.split(rows, groups=groups))")
    else:
        stratify = "y" if classification and not several else "None"
        body.append(
            f"train, test = model_selection.train_test_split(rows, test_size={spec.test_size}, "
            f"random_state={spec.seed}, stratify={stratify})"
        )
        body.append("train, test = np.sort(train), np.sort(test)")
    body.append("")
    _, test = split(prepared, spec)
    model = make_model(spec, prepared, test, alpha)
    body += _kernel_lines(spec, prepared, model.kernels)
    learner = "None  # as a plain fit chooses" if model.learner is None else code(model.learner)
    body += [f"learner = {learner}", f"model = kw.{type(model).__name__}("]
    body += [
        "    kernels,",
        "    learner,",
        *(f"    {name}={code(value)}," for name, value in settings_of(model)),
        ")",
    ]
    some = ".iloc" if several else ""
    extra = ", sample_weight=weights[train]" if spec.weights else ""
    extra += ", groups=groups[train]" if spec.group and alpha is None else ""
    body.append(f"model.fit(X.iloc[train], y{some}[train]{extra})")
    if spec.probabilities != "none" and alpha is None:
        known = "train[weights[train] > 0]" if spec.weights else "train"
        cv = calibration_cv(spec, several=several)
        groups = f", groups=groups[{known}]" if spec.group else ""
        body.append(f"model.calibrate({spec.probabilities!r}, cv={code(cv)}{groups})")
    body += [
        'print(f"alpha {model.alpha_:.6g}, relative gap {model.rel_gap_:.1e}")',
        "layers = kw.inspection.layer_weights(model)",
        "for names, weights in zip(layers.names, layers.weights, strict=True):",
        "    for name, weight in zip(names, weights.reshape(len(names), -1).mean(axis=1), strict=True):",
        "        if weight > 0:",
        '            print(f"{weight:.4f}  {name}")',
        "if len(test):",
        f'    print(f"held-out score {{model.score(X.iloc[test], y{some}[test]):.4f}}")',
    ]
    lines += [
        "import pandas as pd",
        "from sklearn import model_selection",
        "",
        "import kernelweave as kw",
        "",
    ]
    text = "\n".join([*lines, *body]) + "\n"
    # views are indexed by rows
    return text.replace("X.iloc[", "X[") if isinstance(prepared.X, Tables) else text


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
