"""Runs side by side: what their settings, scores and weights have in common and where they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelweave_app.runs.fitting import chosen
from kernelweave_app.runs.settings import effective
from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.studio.pairing import paired_tests
from kernelweave_app.studio.schema import Comparison, Curve, Difference, Results, Run

#: Kernels of a comparison.
MOST_COMPARED = 25


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
    metrics: dict[str, None] = {}
    shares: list[dict[str, float]] = []
    curves: list[Curve | None] = []
    for run, found in zip(runs, results, strict=True):
        metrics |= dict.fromkeys(metric.name for metric in run.metrics)
        curves.append(None if found is None else found.curve)
        if found is None:
            shares.append({})
            continue
        values = [sum(row) / len(row) for row in found.weights.values]
        shares.append(dict(zip(found.weights.names, values, strict=True)))
    total: dict[str, float] = {}
    for share in shares:
        for name, value in share.items():
            total[name] = max(total.get(name, 0.0), value)
    kernels = sorted(total, key=lambda name: -total[name])[:MOST_COMPARED]
    return Comparison(
        runs=runs,
        metrics=list(metrics),
        kernels=kernels,
        weights=[[share.get(name, 0.0) for share in shares] for name in kernels],
        differences=_differences(runs, tables),
        curves=curves,
        tests=paired_tests(runs, results),
    )


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
        asked |= dict.fromkeys((*FitSpec.model_fields, *spec.learner_params))
    for name in ("tables", *asked):
        values = [s.get(name, "") for s in settings]
        if any(value != values[0] for value in values):
            found.append(Difference(setting=name, values=[_short(value) for value in values]))
    return found


def _short(value: object) -> str:
    if isinstance(value, dict):
        parts = (f"{name}: {', '.join(v) if isinstance(v, list) else v}" for name, v in value.items())
        text = "; ".join(parts)
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    else:
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 120 else f"{text[:119]}…"
