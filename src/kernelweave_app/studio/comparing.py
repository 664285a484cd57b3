"""Runs side by side: what their settings, scores and weights have in common, where they differ, and paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np

from kernelweave.inspection import (
    PairedTest,
    adjust_p_values,
    compare_classes,
    compare_folds,
    compare_numbers,
)
from kernelweave.inspection.held_times import compare_risks
from kernelweave_app.runs.fitting import chosen
from kernelweave_app.runs.settings import effective
from kernelweave_app.runs.spec import SURVIVAL, Spec
from kernelweave_app.runs.survival import TRUTH
from kernelweave_app.runs.writing import in_words
from kernelweave_app.studio.looking import shorten
from kernelweave_app.studio.schema import Comparison, Difference, PairedComparison, Results, Run

#: Settings that decide which rows are in which fold.
OF_FOLDS = (
    *(
        "target",
        "time",
        "event",
        "cv",
        "splits",
        "repeats",
        "stratify",
        "seed",
        "group",
        "test_size",
        "holdout",
        "weights",
    ),
    "holdout_values",
    *("rows", "missing", "missing_views", "key", "scoring"),
)


def paired_tests(runs: Sequence[Run], results: Sequence[Results | None]) -> list[PairedComparison]:
    """A test of every two runs with the same held-out rows, or else the same folds; p-values corrected by kind.

    Held-out rows of classes are compared by McNemar's exact test, of numbers by a paired permutation test, of survival
    by their concordance; scores over the same folds by the corrected resampled t-test.
    """
    found: list[PairedComparison] = []
    pairs = [
        (run, one, other, two)
        for (run, one), (other, two) in combinations(zip(runs, results, strict=True), 2)
        if one is not None and two is not None and one.task == two.task
    ]
    for make in (_held, _folds):
        made: list[tuple[str, str, str, PairedTest, int]] = []
        for run, one, other, two in pairs:
            compared = make(run, one, other, two)
            if compared is not None:
                made.append((run.id, other.id, *compared))
        if not made:
            continue
        adjusted = adjust_p_values([test.p_value for *_, test, _ in made])
        for (first, second, what, test, rows), p in zip(made, adjusted, strict=True):
            beside = {"first": first, "second": second, "what": what, "adjusted": p, "rows": rows}
            found.append(PairedComparison.model_validate(asdict(test) | beside, extra="ignore"))
    return found


Found = tuple[str, PairedTest, int] | None


def _held(run: Run, one: Results, other: Run, two: Results) -> Found:
    if one.held is None or two.held is None or run.request.data != other.request.data:
        return None
    # only the first rows are in the results
    if one.held.n_rows > len(one.held.rows):
        return None
    known = {"truth", *(f"truth {name}" for name in TRUTH)}
    truths, others = ({*held.columns} & known for held in (one.held, two.held))
    if not truths or truths != others or not one.held.rows:
        return None
    if any(_column(one, name) != _column(two, name) for name in ("row", *truths)):
        return None
    rows = one.held.rows
    groups = None if one.held.groups is None else np.array(one.held.groups)
    if one.task == SURVIVAL:
        time, event, risk, other_risk = (
            np.array(_column(each, name), dtype=float)
            for each, name in ((one, "truth time"), (one, "truth event"), (one, "risk"), (two, "risk"))
        )
        strata = np.array(_column(one, "truth stratum")) if "truth stratum" in truths else None
        found = compare_risks(time, event > 0, risk, other_risk, strata, groups)
        # without a pair of rows to compare there is nothing to test
        return ("concordance of held-out rows", found, len(rows)) if np.isfinite(found.difference) else None
    truth = _column(one, "truth")
    classes = one.task == "classification"
    columns = [truth, _column(one, "prediction"), _column(two, "prediction")]
    arrays = [
        np.array([str(v) if classes else np.nan if v is None else float(v) for v in c]) for c in columns
    ]
    if classes:
        return "accuracy of held-out rows", compare_classes(*arrays, groups=groups), len(rows)
    if not np.isfinite(arrays).all():
        return None
    return "mean squared error of held-out rows", compare_numbers(*arrays, groups=groups), len(rows)


def _column(results: Results, name: str) -> list[Any]:
    held = results.held
    assert held is not None
    place = held.columns.index(name)
    return [row[place] for row in held.rows]


def _folds(run: Run, one: Results, other: Run, two: Results) -> Found:
    # of survival folds have only the likelihood that chose C
    if one.task == SURVIVAL or one.curve is None or two.curve is None or one.curve.score != two.curve.score:
        return None
    mine, theirs = run.request, other.request
    alike = all(getattr(mine.spec, name) == getattr(theirs.spec, name) for name in OF_FOLDS)
    first, second = ([fold[curve.chosen] for fold in curve.folds] for curve in (one.curve, two.curve))
    if mine.data != theirs.data or not alike or len(first) != len(second) or len(first) < 2:
        return None
    if None in first or None in second:
        return None
    k = mine.spec.cv if len(first) == mine.spec.cv * mine.spec.repeats else len(first)
    test = compare_folds(np.array(first, dtype=float), np.array(second, dtype=float), 1 / max(1, k - 1))
    return f"{one.curve.score} over folds", test, one.curve.n_rows


#: Kernels of a comparison, and characters of a setting.
MOST_COMPARED, LONGEST = 25, 120


def compare_runs(runs: list[Run], results: Sequence[Results | None], tables: Mapping[str, str]) -> Comparison:
    """Runs side by side.

    Parameters
    ----------
    runs : list of Run
    results : sequence of Results or None
        One for each run; None for a run without results.
    tables : mapping
        Names of tables by their ids.
    """
    shares = [{} if one is None else _mean_weights(one) for one in results]
    largest: dict[str, float] = {}
    for name, value in (pair for share in shares for pair in share.items()):
        largest[name] = max(largest.get(name, 0.0), value)
    kernels = sorted(largest, key=lambda name: -largest[name])[:MOST_COMPARED]
    return Comparison(
        runs=runs,
        metrics=list(dict.fromkeys(metric.name for run in runs for metric in run.metrics)),
        kernels=kernels,
        weights=[[share.get(name, 0.0) for share in shares] for name in kernels],
        differences=_differences(runs, tables),
        curves=[None if one is None else one.curve for one in results],
        tests=paired_tests(runs, results),
    )


def _mean_weights(results: Results) -> dict[str, float]:
    """Weights of kernels, means over outputs."""
    values = results.weights.values
    return dict(zip(results.weights.names, [sum(row) / len(row) for row in values], strict=True))


def _differences(runs: list[Run], names: Mapping[str, str]) -> list[Difference]:
    found = []
    settings: list[dict[str, Any]] = []
    asked: dict[str, None] = {}
    for run in runs:
        tables = ", ".join(names.get(table, table) for table in run.request.data.tables)
        spec = run.request.spec
        if run.summary is not None:
            spec = chosen(spec, run.summary.task)
        own = effective(spec.method, spec.learner_params)
        settings.append({"tables": tables, **spec.model_dump(exclude={"learner_params"}), **own})
        asked |= dict.fromkeys((*Spec.model_fields, *spec.learner_params))
    for name in ("tables", *asked):
        values = [s.get(name, "") for s in settings]
        if any(value != values[0] for value in values):
            found.append(Difference(setting=name, values=[_short(value) for value in values]))
    return found


def _short(value: object) -> str:
    return shorten(in_words(value), LONGEST)
