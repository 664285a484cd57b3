"""A Python script that repeats a run with the public interface only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelweave.kernels import FeatureMap, Kernel
from kernelweave.normalizers import resolve
from kernelweave_app.runs.columns import type_lines
from kernelweave_app.runs.fitting import (
    approximation_option,
    chosen,
    class_weight,
    describe_calibration_cv,
    describe_cv,
    fits_plainly,
    make_learner,
    missing_options,
    normalizer_name,
    parse_gamma,
    parse_path,
    plain_learner,
)
from kernelweave_app.runs.formats import format_of
from kernelweave_app.runs.gram_views import gram_reading
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.kernels_of import (
    BANKS,
    default_view,
    kernels_by_view,
    make_kernels,
    parse_kernels,
    standardize_of,
)
from kernelweave_app.runs.preparing import Prepared, other_columns
from kernelweave_app.runs.sparse_views import TABLE, Tables, sparse_reading
from kernelweave_app.runs.spec import Spec
from kernelweave_app.runs.targets import need_target, target_lines

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
    estimator = "MKLClassifier" if classification else "MKLRegressor"
    several = bool(prepared.names)
    splitter, arguments = describe_cv(spec, prepared.task, several=several)
    plain = fits_plainly(spec)
    imports = set() if alpha is not None or plain else {splitter}
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
        imports.add("GroupShuffleSplit")
        body.append(
            f"train, test = next(GroupShuffleSplit(1, test_size={spec.test_size}, random_state={spec.seed})"
            ".split(rows, groups=groups))"
        )
    else:
        imports.add("train_test_split")
        stratify = "y" if classification and not several else "None"
        body.append(
            f"train, test = train_test_split(rows, test_size={spec.test_size}, random_state={spec.seed}, "
            f"stratify={stratify})"
        )
        body.append("train, test = np.sort(train), np.sort(test)")
    body.append("")
    body += _kernel_lines(spec, prepared)
    now = chosen(spec, prepared.task)
    path, n_alphas = parse_path(now)
    own = plain_learner(spec, prepared.task) if plain and alpha is None else None
    if own is None or own[0] is not None:
        body.append(f"learner = kw.learners.{_learner(now, alpha)}")
    else:
        body.append(f"learner = None  # as a plain fit chooses: {now.method}")
    cv = f"{splitter}({_arguments(arguments)})"
    choice = {
        **{
            name: "None" if values is None else repr([float(v) for v in values])
            for name, values in path.items()
        },
        "n_alphas": repr(n_alphas),
        "cv": cv,
        "scoring": repr(spec.scoring or None),
        "rule": repr(spec.rule),
        "n_jobs": repr(spec.jobs),
    }
    if own is not None:
        choice = {name: repr(value) for name, value in own[1].items()}
    settings = {
        **(choice if alpha is None else {}),
        "gamma": repr(parse_gamma(spec.gamma)),
        "normalize": _normalize(spec),
        "standardize": repr(standardize_of(spec, prepared, make_kernels(spec, prepared))),
        "fit_intercept": repr(spec.intercept),
        "max_memory": repr(spec.max_memory),
        "rank_tol": repr(spec.rank_tol),
        "approximation": _approximation(spec),
        **{name: repr(value) for name, value in missing_options(spec).items()},
    }
    if classification:
        settings["class_weight"] = repr(class_weight(spec, prepared))
    body.append(f"model = kw.{estimator}{'CV' if alpha is None and not plain else ''}(")
    body.append("    kernels,")
    body.append("    learner,")
    body += [f"    {name}={value}," for name, value in settings.items()]
    body.append(")")
    some = ".iloc" if several else ""
    extra = ", sample_weight=weights[train]" if spec.weights else ""
    extra += ", groups=groups[train]" if spec.group and alpha is None else ""
    body.append(f"model.fit(X.iloc[train], y{some}[train]{extra})")
    if spec.probabilities != "none" and alpha is None:
        name, values = describe_calibration_cv(spec, several=several)
        imports.add(name)
        known = "train[weights[train] > 0]" if spec.weights else "train"
        body.append(
            f"model.calibrate({spec.probabilities!r}, cv={name}({_arguments(values)})"
            f"{f', groups=groups[{known}]' if spec.group else ''})"
        )
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
        *([f"from sklearn.model_selection import {', '.join(sorted(imports))}"] if imports else []),
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


def _arguments(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


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


def _normalize(spec: Spec) -> str:
    if spec.transductive:
        return f"kw.normalizers.{type(resolve(normalizer_name(spec))).__name__}(extra=X.iloc[test])"
    return repr(normalizer_name(spec))


def _learner(spec: Spec, alpha: float | None) -> str:
    learner = make_learner(spec)
    if alpha is not None:
        name = learner.regularization_parameter
        learner.set_params(**{name: alpha if name == "alpha" else 1.0 / alpha})
    values = ", ".join(f"{name}={_value(value)}" for name, value in sorted(learner.get_params().items()))
    return f"{type(learner).__name__}({values})"


def _value(value: object) -> str:
    """A parameter as Python text; kernels are read from theirs."""
    if isinstance(value, Kernel):
        return f"kw.kernels.parse({repr(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def _kernel_lines(spec: Spec, prepared: Prepared) -> list[str]:
    if isinstance(prepared.X, Tables):
        bank = make_kernels(spec, prepared)
        if bank is None:
            return ["kernels = None  # the default bank of every view"]
        lines = ["kernels = {"]
        for view, own in bank.items():
            text = (
                "None"
                if own is None
                else f"[{', '.join(f'kw.kernels.parse({k!r})' for k in map(repr, own))}]"
            )
            lines.append(f"    {view!r}: {text},")
        return [*lines, "}"]
    if prepared.views:
        asked = kernels_by_view(spec, prepared.views)
        texts = list(dict.fromkeys(text.strip() for text in asked.values()))
        if [text.lower() for text in texts] == ["default"]:
            return [f"kernels = kw.banks.views({prepared.views!r})"]
        if len(texts) == 1:
            return [f"kernels = kw.banks.views({prepared.views!r}, kernels=[{_parsed(texts[0])}])"]
        lines = ["kernels = ["]
        for view, columns in prepared.views.items():
            if asked[view].strip().lower() == "default":
                lines += [f"    kw.kernels.parse({repr(k)!r})," for k in default_view(prepared, view)]
            else:
                lines.append(
                    f"    *kw.banks.views({ ({view: columns})!r}, kernels=[{_parsed(asked[view])}]),"
                )
        return [*lines, "]"]
    text = str(spec.kernels)
    name = text.strip().lower().replace("-", "_")
    if name == "default":
        return ["kernels = None  # those of a plain fit"]
    if name in BANKS:
        return [f"kernels = kw.banks.get({name!r}, list(X.columns))"]
    return ["kernels = [", *(f"    kw.kernels.parse({repr(k)!r})," for k in parse_kernels(text)), "]"]


def _parsed(text: str) -> str:
    return ", ".join(f"kw.kernels.parse({repr(k)!r})" for k in parse_kernels(text))


def _approximation(spec: Spec) -> str:
    """The parameter `approximation` in code."""
    found = approximation_option(spec)
    return f"kw.kernels.{found!r}" if isinstance(found, FeatureMap) else repr(found)
