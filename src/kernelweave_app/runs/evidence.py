"""Evidence about a run that takes time: permutations, fits without a source, on samples of the rows, baselines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave._drawing import clip_score
from kernelweave._errors import InputError
from kernelweave._types import Tree
from kernelweave.views import PrecomputedView
from kernelweave_app.reports.evidence import against, number
from kernelweave_app.runs.fitting import chosen, fit_model, make_cv, make_model
from kernelweave_app.runs.folders import write_text, writing
from kernelweave_app.runs.preparing import split
from kernelweave_app.runs.scoring import predictions
from kernelweave_app.runs.sparse_views import Tables
from kernelweave_app.runs.spec import Spec

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL
    from kernelweave_app.reports import Held
    from kernelweave_app.runs.preparing import Prepared, Rows

#: File of a run with everything that sentences are made of.
EVIDENCE = "evidence.json"
#: Kinds with their titles, and what their number counts.
KINDS = {
    "permutation": ("Permutation test", "permutations"),
    "sources": ("Test of every source", "permutations"),
    "omission": ("Fit without each source", "divisions of the rows"),
    "stability": ("Stability of weights", "halves of the rows"),
    "learning curve": ("Learning curve", "sizes"),
    "baselines": ("Baselines", ""),
}
#: Usual numbers.
USUAL = {
    "permutation": 99,
    "sources": 999,
    "omission": 10,
    "stability": 50,
    "learning curve": 5,
    "baselines": 0,
}
MOST = 10_000
#: Sources without which a model is fitted, those with the largest weights: each takes as many fits as there are
#: divisions.
MOST_SOURCES = 10
#: Baselines that are fits: settings in place of those of a run.
OTHERS: dict[str, dict[str, Any]] = {
    "the average of all kernels": {"method": "uniform"},
    "the best single kernel": {"method": "best"},
    "a linear model": {"method": "uniform", "kernels": "linear"},
}
Report = Callable[[str], bool]


def read_evidence(folder: Path) -> Tree:
    """The evidence of a run; empty for a run of an older version."""
    try:
        found = json.loads((folder / EVIDENCE).read_text("utf8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise InputError(
            f"{folder / EVIDENCE} is not JSON. Delete it, and compute the evidence again."
        ) from None
    return found if isinstance(found, dict) else {}


def write_evidence(folder: Path, tree: Tree) -> None:
    """Write the evidence of a run."""
    with writing():
        write_text(folder / EVIDENCE, json.dumps(tree, indent=1))


def add_evidence(tree: Tree, kind: str, found: Tree) -> Tree:
    """The evidence with another part; baselines join those that are there."""
    if kind == "baselines":
        return {**tree, "baselines": {**tree.get("baselines", {}), **found}}
    return {**tree, kind: found}


def total_of(text: str) -> int | None:
    """The number of steps in what `compute` reports, such as "fit 3 of 40"; None where it is not said.

    Examples
    --------
    >>> total_of("fit 3 of 40")
    40
    """
    _, _, total = text.rpartition(" of ")
    return int(total) if total.isdigit() else None


def compute(
    kind: str,
    model: BaseMKL,
    spec: Spec,
    prepared: Prepared,
    rows: tuple[Rows, Rows],
    held: Held | None,
    *,
    count: int = 0,
    refit: bool = True,
    jobs: int = 1,
    report: Report = lambda _: False,
) -> Tree:
    """One kind of evidence about a fitted model, for `add_evidence`.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    model : fitted estimator
    spec : Spec
    prepared : Prepared
    rows : pair of arrays
        Training and held-out rows.
    held : Held or None
    count : int, default=0
        Permutations, divisions, samples or sizes; 0 for the usual number.
    refit : bool, default=True
        Of a permutation test: repeat the whole fit, the choice of the regularisation parameter too. Otherwise
        only the targets of test rows are permuted.
    jobs : int, default=1
        Fits at the same time.
    report : callable
        Called after every step; a true value ends, and what is done is kept.

    Returns
    -------
    dict
    """
    if kind not in KINDS:
        raise InputError(f"Evidence must be one of {', '.join(KINDS)}, got {kind!r:.40}.")
    count = count or USUAL[kind]
    if not 0 <= count <= MOST:
        raise InputError(f"The number of {KINDS[kind][1]} must be from 1 to {MOST}, got {count}.")
    if kind == "permutation":
        return _permutation(spec, prepared, rows, count, refit, jobs, report)
    if kind == "sources":
        return _sources(model, prepared, rows, count, spec.seed, report)
    if kind == "omission":
        return _omission(model, spec, prepared, rows, count, jobs, report)
    if kind == "stability":
        return _stability(model, spec, prepared, rows[0], count, jobs, report)
    if kind == "learning curve":
        return _curve(spec, prepared, rows, count, jobs, report)
    return _baselines(model, spec, prepared, rows, held, report)


def _params(prepared: Prepared, *, fit: bool = True) -> dict[str, Any]:
    """Arguments of `fit` that belong to rows."""
    found = {"sample_weight": prepared.weights, **({"groups": prepared.groups} if fit else {})}
    return {name: value for name, value in found.items() if value is not None}


def _folds(spec: Spec, prepared: Prepared, rows: tuple[Rows, Rows]) -> list[tuple[Rows, Rows]]:
    """The division into training and held-out rows, or folds of the training rows where none are held out."""
    train, test = rows
    if len(test):
        return [(train, test)]
    splitter = make_cv(spec, prepared.task, several=bool(prepared.names))
    groups = None if prepared.groups is None else prepared.groups[train]
    parts = splitter.split(np.zeros((len(train), 1)), prepared.y[train], groups)
    return [(train[inside], train[outside]) for inside, outside in parts]


def _permutation(
    spec: Spec,
    prepared: Prepared,
    rows: tuple[Rows, Rows],
    count: int,
    refit: bool,
    jobs: int,
    report: Report,
) -> Tree:
    from kernelweave.inspection import permutation_test

    found = permutation_test(
        _single(spec, prepared, rows[1]),
        prepared.X,
        prepared.target(),
        n_permutations=count,
        cv=_folds(spec, prepared, rows),
        refit=refit,
        groups=prepared.groups,
        params=_params(prepared),
        n_jobs=jobs,
        seed=spec.seed,
        report=report,
    )
    m = len(found.permuted)
    return {
        "score": found.score,
        "p_value": found.p_value,
        "n": m,
        "as large": round(found.p_value * (m + 1)) - 1,
        "refit": found.refit,
        "interrupted": found.interrupted,
        "permuted": np.round(found.permuted, 6).tolist(),
        "where": "held-out rows" if len(rows[1]) else "folds",
    }


def _single(spec: Spec, prepared: Prepared, test: Rows) -> BaseMKL:
    """The estimator of a spec; processes are used for repetitions, not inside of them."""
    return make_model(spec.model_copy(update={"jobs": 1}), prepared, test)


def _sources(
    model: BaseMKL, prepared: Prepared, rows: tuple[Rows, Rows], count: int, seed: int, report: Report
) -> Tree:
    from kernelweave.inspection import source_test

    test = rows[1]
    if not len(test):
        raise InputError("This test needs held-out rows, and there are none. Hold out a share of the rows.")
    found = source_test(
        model, prepared.X.iloc[test], prepared.y[test], n_permutations=count, seed=seed, report=report
    )
    keys = ("loss", "low", "high", "p_values", "adjusted")
    columns = {key: getattr(found, key) for key in keys}
    return {
        "score": found.score,
        "n": found.n_permutations,
        "interrupted": found.interrupted,
        "views": {
            name: {key.removesuffix("_values"): float(columns[key][k]) for key in keys}
            for k, name in enumerate(found.names)
        },
    }


def _omission(
    model: BaseMKL,
    spec: Spec,
    prepared: Prepared,
    rows: tuple[Rows, Rows],
    count: int,
    jobs: int,
    report: Report,
) -> Tree:
    from kernelweave.inspection import source_refit_test, view_weights

    if count < 2:
        raise InputError(f"At least 2 divisions of the rows are needed, got {count}.")
    named = [name for name, share in view_weights(model).items() if share > 0]
    found = source_refit_test(
        model,
        prepared.X,
        prepared.target(),
        sources=named[:MOST_SOURCES],
        cv=_divisions(spec, prepared, rows[0], count),
        groups=prepared.groups,
        params=_params(prepared, fit=False),
        n_jobs=jobs,
        report=report,
    )
    columns = {name: getattr(found, name) for name in ("without", "loss", "low", "high", "adjusted")}
    return {
        "score": found.score,
        "n": len(found.scores),
        "interrupted": found.interrupted,
        "sources": len(named),
        "views": {
            name: {
                **{key: number(values[k]) for key, values in columns.items()},
                "p": float(found.p_values[k]),
            }
            for k, name in enumerate(found.names)
        },
    }


def _divisions(spec: Spec, prepared: Prepared, train: Rows, count: int) -> list[tuple[Rows, Rows]]:
    """Random divisions of the rows like that of the run, which is the first.

    Of training rows alone where a column names those that are held out: they may be of another kind.
    """
    among = train if spec.holdout else np.arange(len(prepared.y))
    part = replace(
        prepared,
        y=prepared.y[among],
        weights=None if prepared.weights is None else prepared.weights[among],
        groups=None if prepared.groups is None else prepared.groups[among],
        held=None,
    )
    share = spec.test_size or 1.0 / spec.cv
    parts = [
        split(part, spec.model_copy(update={"holdout": "", "test_size": share, "seed": spec.seed + k}))
        for k in range(count)
    ]
    return [(among[inside], among[outside]) for inside, outside in parts]


def _stability(
    model: BaseMKL, spec: Spec, prepared: Prepared, train: Rows, count: int, jobs: int, report: Report
) -> Tree:
    from kernelweave.inspection import weight_stability

    if count < 2:
        raise InputError(f"At least 2 samples of the rows are needed, got {count}.")
    weights = None if prepared.weights is None else prepared.weights[train]
    found = weight_stability(
        model,
        prepared.X.iloc[train],
        prepared.target(train),
        n_samples=count,
        groups=None if prepared.groups is None else prepared.groups[train],
        params=None if weights is None else {"sample_weight": weights},
        n_jobs=jobs,
        seed=spec.seed,
        report=report,
    )
    # kernels that never have a weight would fill the file
    kept = np.flatnonzero(np.any(found.weights > 0, axis=1) | np.any(found.frequency > 0, axis=1))
    return {
        "n": len(found.samples),
        "interrupted": found.interrupted,
        "unstable": len(found.unstable()),
        "outputs": [name or "weight" for name in found.outputs],
        "names": [found.names[k] for k in kept],
        **{
            key: np.round(getattr(found, key)[kept], 8).tolist()
            for key in ("weights", "low", "high", "frequency")
        },
        "views": {
            name: {
                "share": float(found.view_weights[k]),
                "low": float(found.view_low[k]),
                "high": float(found.view_high[k]),
                "frequency": float(found.view_frequency[k]),
            }
            for k, name in enumerate(found.views)
        },
    }


def _curve(
    spec: Spec, prepared: Prepared, rows: tuple[Rows, Rows], count: int, jobs: int, report: Report
) -> Tree:
    from kernelweave.inspection import learning_curve

    train = rows[0]
    splitter = make_cv(spec.model_copy(update={"repeats": 1}), prepared.task, several=bool(prepared.names))
    groups = None if prepared.groups is None else prepared.groups[train]
    y = prepared.target(train)
    parts = list(splitter.split(np.zeros((len(train), 1)), prepared.y[train], groups))
    found = learning_curve(
        _single(spec, prepared, rows[1]),
        prepared.X.iloc[train],
        y,
        sizes=np.linspace(1.0 / count, 1.0, count),
        cv=parts,
        params={name: value[train] for name, value in _params(prepared).items()},
        n_jobs=jobs,
        seed=spec.seed,
        report=report,
    )
    score = "accuracy" if prepared.task == "classification" else "R^2"
    return {
        "interrupted": found.interrupted,
        "n": found.scores.shape[1],
        "sizes": found.sizes.tolist(),
        "score": score,
        **{
            name: [number(clip_score(v, score)) for v in getattr(found, name)]
            for name in ("mean", "low", "high")
        },
    }


def _baselines(
    model: BaseMKL,
    spec: Spec,
    prepared: Prepared,
    rows: tuple[Rows, Rows],
    held: Held | None,
    report: Report,
) -> Tree:
    train, test = rows
    if held is None or prepared.names:
        raise InputError("Baselines need held-out rows of one target. Hold out a share of the rows.")
    found: Tree = {}
    # a model with precomputed kernels is not linear
    others = {name: of for name, of in OTHERS.items() if "kernels" not in of or not _has_kernels(prepared.X)}
    for k, (name, changes) in enumerate(others.items()):
        other = fit_model(_other(spec, prepared, test, changes), prepared, train, None)
        guess = predictions(other, prepared.X.iloc[test], prepared.task)["prediction"].to_numpy()
        found[name] = against(model, held, guess)
        if report(f"baseline {k + 1} of {len(others)}"):
            break
    return found


def _has_kernels(X: Any) -> bool:
    return isinstance(X, Tables) and any(isinstance(view, PrecomputedView) for view in X.views.values())


def _other(spec: Spec, prepared: Prepared, test: Rows, changes: dict[str, Any]) -> BaseMKL:
    same = chosen(spec, prepared.task).method == changes["method"] and "kernels" not in changes
    changes = {**changes, "learner_params": spec.learner_params if same else {}}
    return make_model(spec.model_copy(update=changes), prepared, test)


def kinds_for(tree: Tree) -> list[str]:
    """Kinds of evidence that a run can have, by what `gather` found."""
    # held-out rows of one target are compared with a baseline
    held, several = "baselines" in tree, len(tree.get("views", {})) > 1
    out_of_reach = {
        "baselines": not held,
        "sources": not held or not several or tree["kernels"].get("in layers", False),
        "omission": not several,
    }
    return [kind for kind in KINDS if not out_of_reach.get(kind)]
