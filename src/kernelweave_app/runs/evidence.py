"""Findings about a run: those of every fit, and those that take further fits, with the file that keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelweave._drawing import score_text
from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave._types import DataFrame, Labels, Tree
from kernelweave.estimators import BaseMKL
from kernelweave.fitting.folds import split_rows
from kernelweave.inspection.held import IN_FIT, HeldOut, rows_in_fit
from kernelweave.inspection.held_times import HeldTimes, is_survival
from kernelweave.inspection.registry import (
    ABSENT,
    Basis,
    Finding,
    Found,
    Interval,
    Rows,
    collect,
    only,
)
from kernelweave.inspection.scores import held_intervals, score_texts
from kernelweave.views import PrecomputedView
from kernelweave_app.runs.doubts import doubts_of_table
from kernelweave_app.runs.fitting import chosen, fit_model, make_cv, make_model
from kernelweave_app.runs.folders import write_text, writing
from kernelweave_app.runs.further_views import Tables
from kernelweave_app.runs.lineage import learnt_from
from kernelweave_app.runs.preparing import Prepared, split
from kernelweave_app.runs.preparing import Rows as Positions
from kernelweave_app.runs.spec import Spec

#: File of a run with everything that is said about it.
EVIDENCE = "evidence.json"
#: Baselines that are fits: settings in place of those of a run.
OTHERS: dict[str, Tree] = {
    "the average of all kernels": {"method": "uniform"},
    "the best single kernel": {"method": "best"},
    "a linear model": {"method": "uniform", "kernels": "linear"},
}
#: Findings with scores of rows that were not in the fit that predicted them.
OUT_OF_FIT = ("held out", "nested", "held-out times", "out-of-fold times", "folds")
Report = Callable[[str], bool]


def gather(
    model: BaseMKL,
    spec: Spec,
    prepared: Prepared,
    rows: tuple[Positions, Positions],
    held: HeldOut | HeldTimes | None = None,
    nested: list[HeldOut] | HeldTimes | None = None,
) -> Found:
    """What can be said about a fitted model and its table without further fits; `rows` as in `basis_of`."""
    basis = basis_of(model, spec, prepared, rows, held)
    basis = replace(basis, nested=only(list, nested or None), nested_times=only(HeldTimes, nested))
    return {**collect(basis), **doubts_of_table(prepared)}


def texts_of(held: HeldOut | HeldTimes) -> dict[str, str]:
    """Scores of held-out rows as texts."""
    return held.texts if isinstance(held, HeldTimes) else score_texts(held)


def intervals_of(*held: HeldOut | HeldTimes) -> dict[str, Interval]:
    """Scores of held-out rows with their intervals, of all divisions of the rows together; none without any."""
    for one in held:
        if isinstance(one, HeldTimes):
            return one.intervals
    return held_intervals(*(only(HeldOut, one) for one in held)) if held else {}


def read_evidence(folder: Path) -> Found:
    """The findings of a run; empty for a run of an older version."""
    try:
        tree = json.loads((folder / EVIDENCE).read_text("utf8"))
        return {name: Finding.from_json(one) for name, one in tree.items()}
    except (FileNotFoundError, KeyError, TypeError, AttributeError):
        return {}
    except ValueError:
        raise InputError(
            f"{folder / EVIDENCE} is not JSON. Delete it, and compute the evidence again."
        ) from None


def write_evidence(folder: Path, found: Found) -> None:
    """Write the findings of a run."""
    with writing():
        tree = {name: one.to_json() for name, one in found.items()}
        write_text(folder / EVIDENCE, json.dumps(tree, indent=1))


@dataclass(frozen=True)
class ScoresApart:
    """Scores of rows, those that were in the fit apart from the others.

    Attributes
    ----------
    n_rows, n_fitted : int
        All rows, and those that were in the fit.
    others, fitted : dict of str to float
        Scores of rows that were not in the fit, and of those that were.
    known : dict of str to dict of str to str
        By the title of a finding of the run scores of rows that were not in the fit, where no row here is one of these.
    texts : dict of str to str
        `others` as texts, the headline with its interval.
    intervals : dict of str to Interval
        Those of `others` with an interval.
    """

    n_rows: int
    n_fitted: int
    others: dict[str, float]
    fitted: dict[str, float]
    known: dict[str, dict[str, str]]
    texts: dict[str, str] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What has to be known of these scores."""
        which = f"{self.n_fitted} of these" if self.n_fitted < self.n_rows else "All"
        return f"{which} {self.n_rows} rows were in the fit. {IN_FIT}"

    def table(self) -> list[list[str]]:
        """Heads, and a row for each score."""
        n = self.n_rows - self.n_fitted
        parts = {
            **({numbered(n, "other row"): self.texts} if self.others else {}),
            f"{numbered(self.n_fitted, 'row')} in the fit": {
                name: score_text(name, value, self.n_fitted) for name, value in self.fitted.items()
            },
            **self.known,
        }
        names = dict.fromkeys(name for own in parts.values() for name in own)
        return [
            ["score", *parts],
            *([name, *(own.get(name, "–") for own in parts.values())] for name in names),
        ]


def scores_apart(
    model: BaseMKL,
    place: Path,
    table: str | Path,
    X: DataFrame,
    found: DataFrame,
    y: Labels,
    groups: Labels | None = None,
) -> ScoresApart:
    """Scores of predictions `found` for rows of a file, by a model whose file or folder of the run is `place`.

    Rows of one of `groups` depend on each other.
    """
    inside = rows_in_fit(model, X)
    if inside is None:
        inside = _learnt_rows(place, table, found)
    y, frame = np.asarray(y), found.reset_index(drop=True)

    def scores(rows: NDArray[np.bool_]) -> tuple[dict[str, float], dict[str, str], dict[str, Interval]]:
        if not rows.any():
            return {}, {}, {}
        own = None if groups is None else groups[rows]
        held: HeldOut | HeldTimes
        if is_survival(model):
            # weighted against censoring as in the fit, where its rows are known
            training = y[inside] if inside.any() else None
            held = HeldTimes.of(model, X.iloc[np.flatnonzero(rows)], y[rows], training)
        else:
            held = HeldOut.of_columns(model, frame[rows], y[rows])
        held = replace(held, groups=own)
        made, said = {name: value for name, value in held.scores.items() if value == value}, texts_of(held)
        ends = {name: one for name, one in intervals_of(held).items() if np.isfinite(one.low)}
        return made, {name: said[name] for name in made}, ends

    (others, texts, intervals), known = scores(~inside), {}
    if inside.any() and not others:
        said = read_evidence(place if place.is_dir() else place.parent)
        known = {
            said[name].title: {
                score: score_text(score, one.value, said[name].rows or one.n)
                for score, one in said[name].values.items()
            }
            for name in OUT_OF_FIT
            if name in said
        }
    return ScoresApart(len(found), int(inside.sum()), others, scores(inside)[0], known, texts, intervals)


def groups_of(spec: Spec, table: DataFrame) -> Labels | None:
    """The groups of the rows of a table by the column of a run; None where it is not there, or has empty cells."""
    known = spec.group in table.columns and not table[spec.group].isna().any()
    return table[spec.group].to_numpy() if known else None


def _learnt_rows(place: Path, table: str | Path, found: DataFrame) -> NDArray[np.bool_]:
    """Rows of the table of a run that were not held out; all of a table that is none of the run are new."""
    import pandas as pd

    if not learnt_from(place, table):
        return np.zeros(len(found), dtype=bool)
    held = (place if place.is_dir() else place.parent) / "predictions.csv"
    rows = pd.read_csv(held, usecols=["row"])["row"] if held.is_file() else []
    return ~found["row"].isin(rows).to_numpy()


def total_of(text: str) -> int | None:
    """The number of steps in what `compute` reports, such as "fit 3 of 40"; None where it is not said.

    Examples
    --------
    >>> total_of("fit 3 of 40")
    40
    """
    _, _, total = text.rpartition(" of ")
    return int(total) if total.isdigit() else None


def basis_of(
    model: BaseMKL,
    spec: Spec,
    prepared: Prepared,
    rows: tuple[Positions, Positions],
    held: HeldOut | HeldTimes | None,
    *,
    count: int = 0,
    refit: bool = True,
    max_false: float = 1.0,
    jobs: int = 1,
    report: Report = lambda _: False,
) -> Basis:
    """What findings of a run are computed from, as `kernelweave.inspection.registry.compute` takes it.

    Parameters
    ----------
    model : fitted estimator
    spec : Spec
    prepared : Prepared
    rows : pair of arrays
        Training and held-out rows.
    held : HeldOut, HeldTimes or None
    count : int, default=0
        Permutations, divisions, samples or sizes; 0 for the usual number.
    refit : bool, default=True
        Of a permutation test: repeat the whole fit, the choice of the regularisation parameter too. Otherwise
        only the targets of test rows are permuted.
    max_false : float, default=1.0
        Of the stability of weights: tolerated expected number of false selections.
    jobs : int, default=1
        Fits at the same time.
    report : callable
        Called after every step; a true value ends, and what is done is kept.
    """
    train, test = rows
    once = spec.model_copy(update={"repeats": 1})
    return Basis(
        model=model,
        held=only(HeldOut, held),
        held_times=only(HeldTimes, held),
        held_rows=Rows(prepared.X.iloc[test], prepared.y[test], groups=prepared.some(test).groups)
        if len(test)
        else ABSENT,
        training=_rows_of(prepared.some(train)),
        rows=_rows_of(prepared),
        # processes are used for repetitions, not inside of them
        estimator=make_model(spec.model_copy(update={"jobs": 1}), prepared, test),
        folds=lambda: [(train, test)] if len(test) else _folds(spec, prepared, train, train),
        inner=lambda: _folds(once, prepared, train, np.arange(len(train))),
        divisions=lambda k: _divisions(spec, prepared, train, k),
        others=_others(spec, prepared, rows) if isinstance(held, HeldOut) and not prepared.names else ABSENT,
        count=count,
        refit=refit,
        max_false=max_false,
        random_state=spec.seed,
        n_jobs=jobs,
        report=report,
    )


def _rows_of(prepared: Prepared) -> Rows:
    """Rows as findings take them."""
    weights = {} if prepared.weights is None else {"sample_weight": prepared.weights}
    return Rows(prepared.X, prepared.target(), weights, prepared.groups)


def _folds(
    spec: Spec, prepared: Prepared, train: Positions, names: Positions
) -> list[tuple[Positions, Positions]]:
    """Folds of the training rows, as positions in `names`."""
    part = prepared.some(train)
    if part.groups is not None and spec.splits != "random":
        # as a plain fit and probabilities divide few groups
        spec = spec.model_copy(update={"cv": max(2, min(spec.cv, len(set(part.groups))))})
    splitter = make_cv(spec, prepared.task, several=bool(prepared.names))
    parts = split_rows(splitter, part.y, groups=part.groups)
    return [(names[inside], names[outside]) for inside, outside in parts]


def _divisions(
    spec: Spec, prepared: Prepared, train: Positions, count: int
) -> list[tuple[Positions, Positions]]:
    """Random divisions of the rows like that of the run, which is the first.

    Of training rows alone where a column names those that are held out: they may be of another kind.
    """
    among = train if spec.holdout else np.arange(len(prepared.y))
    part = prepared.some(among)
    share = spec.test_size or 1.0 / spec.cv
    parts = [
        split(part, spec.model_copy(update={"holdout": "", "test_size": share, "seed": spec.seed + k}))
        for k in range(count)
    ]
    return [(among[inside], among[outside]) for inside, outside in parts]


def _others(
    spec: Spec, prepared: Prepared, rows: tuple[Positions, Positions]
) -> Mapping[str, Callable[[], Labels]]:
    """Fits of baselines, which return their predictions of the held-out rows."""
    train, test = rows

    def predict(changes: Tree) -> Labels:
        same = chosen(spec, prepared.task).method == changes["method"] and "kernels" not in changes
        own = spec.model_copy(update={**changes, "learner_params": spec.learner_params if same else {}})
        other = fit_model(make_model(own, prepared, test), prepared, train, None)
        return other.predict(prepared.X.iloc[test])

    views = prepared.X.views.values() if isinstance(prepared.X, Tables) else ()
    # a model with precomputed kernels is not linear
    given = any(isinstance(view, PrecomputedView) for view in views)
    return {name: partial(predict, of) for name, of in OTHERS.items() if not given or "kernels" not in of}
