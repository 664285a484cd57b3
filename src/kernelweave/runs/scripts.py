"""The Python script that does what a run did, with the public interface alone."""

from __future__ import annotations

from typing import Any

from kernelweave.runs.fitting import Prepared, default_views, parse_alphas, parse_kernels
from kernelweave.runs.spec import FitSpec


def script(spec: FitSpec, prepared: Prepared, table_path: str) -> str:
    """Return a script that fits the model of a run again and prints its held-out score."""
    classification = prepared.task == "classification"
    estimator = "MKLClassifierCV" if classification else "MKLRegressorCV"
    splitter = "GroupKFold" if spec.group else ("StratifiedKFold" if classification else "KFold")
    imports = [splitter]
    lines = [
        "# Written by kernelweave fit: this script makes the same model again.",
        "import numpy as np",
        "",
    ]
    reader = "read_parquet" if ".parquet" in table_path or ".pq" in table_path else "read_csv"
    tabs = ', sep="\\t"' if reader == "read_csv" and (".tsv" in table_path or ".tab" in table_path) else ""
    body = [
        f"table = pd.{reader}({table_path!r}{tabs})",
        "table.columns = [str(c) for c in table.columns]",
        f"y = table[{spec.target!r}].to_numpy({'' if classification else 'dtype=float'})",
        f"X = table[{list(prepared.X.columns)!r}]",
    ]
    if spec.weights:
        body.append(f"weights = table[{spec.weights!r}].to_numpy(dtype=float)")
    if spec.group:
        body.append(f"groups = table[{spec.group!r}].to_numpy()")
    body.append("rows = np.arange(len(y))")
    if spec.test_size == 0:
        body.append("train, test = rows, rows[:0]")
    elif spec.group:
        imports.append("GroupShuffleSplit")
        body.append(
            f"train, test = next(GroupShuffleSplit(1, test_size={spec.test_size}, random_state={spec.seed})"
            ".split(rows, groups=groups))"
        )
    else:
        imports.append("train_test_split")
        stratify = "y" if classification else "None"
        body.append(
            f"train, test = train_test_split(rows, test_size={spec.test_size}, random_state={spec.seed}, "
            f"stratify={stratify})"
        )
        body.append("train, test = np.sort(train), np.sort(test)")
    body.append("")
    body += _kernel_lines(spec, prepared)
    alphas, n_alphas = parse_alphas(spec.alphas)
    body.append(f"learner = kw.learners.{_learner(spec)}")
    cv = (
        f"GroupKFold({spec.cv})"
        if spec.group
        else f"{splitter}({spec.cv}, shuffle=True, random_state={spec.seed})"
    )
    settings = {
        "alphas": "None" if alphas is None else repr([float(a) for a in alphas]),
        "n_alphas": repr(n_alphas),
        "cv": cv,
        "scoring": repr(spec.scoring or None),
        "rule": repr(spec.rule),
        "n_jobs": repr(spec.jobs),
        "normalize": repr(None if spec.normalize.lower() == "none" else spec.normalize),
        "standardize": repr(spec.standardize),
        "fit_intercept": repr(spec.intercept),
        "max_memory": repr(spec.max_memory),
        "rank_tol": repr(spec.rank_tol),
    }
    if classification:
        settings["class_weight"] = repr("balanced" if spec.balanced else None)
    body.append(f"model = kw.{estimator}(")
    body.append("    kernels,")
    body.append("    learner,")
    body += [f"    {name}={value}," for name, value in settings.items()]
    body.append(")")
    extra = ", sample_weight=weights[train]" if spec.weights else ""
    extra += ", groups=groups[train]" if spec.group else ""
    body.append(f"model.fit(X.iloc[train], y[train]{extra})")
    body += [
        'print(f"alpha {model.alpha_:.6g}, relative gap {model.rel_gap_:.1e}")',
        "for name, weight in zip(model.kernel_names_, np.atleast_2d(model.weights_).mean(axis=0), strict=True):",
        "    if weight > 0:",
        '        print(f"{weight:.4f}  {name}")',
        "if len(test):",
        '    print(f"held-out score {model.score(X.iloc[test], y[test]):.4f}")',
    ]
    lines += [
        "import pandas as pd",
        f"from sklearn.model_selection import {', '.join(sorted(imports))}",
        "",
        "import kernelweave as kw",
        "",
    ]
    return "\n".join([*lines, *body]) + "\n"


def _learner(spec: FitSpec) -> str:
    from kernelweave.runs.fitting import make_learner

    learner = make_learner(spec)
    values = ", ".join(f"{name}={value!r}" for name, value in sorted(learner.get_params().items()))
    return f"{type(learner).__name__}({values})"


def _kernel_lines(spec: FitSpec, prepared: Prepared) -> list[str]:
    name = spec.kernels.strip().lower().replace("-", "_")
    if prepared.views:
        bank: list[Any] = default_views(prepared.views) if name == "default" else []
        if bank:
            return ["kernels = [", *(f"    kw.kernels.parse({repr(k)!r})," for k in bank), "]"]
        shapes = ", ".join(f"kw.kernels.parse({repr(k)!r})" for k in parse_kernels(spec.kernels))
        return [f"kernels = kw.banks.views({prepared.views!r}, kernels=[{shapes}])"]
    if name == "default":
        return ["kernels = None  # the default bank"]
    from kernelweave.runs.fitting import BANKS

    if name in BANKS:
        return [f"kernels = kw.banks.get({name!r}, X.shape[1])"]
    return ["kernels = [", *(f"    kw.kernels.parse({repr(k)!r})," for k in parse_kernels(spec.kernels)), "]"]
