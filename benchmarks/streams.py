"""RLS2 on very many kernels, made when they are needed: seconds and memory.

    python -m benchmarks.streams streams.json gaussian --kernels 100000

A path of 30 strengths on 2,000 rows, certified over all kernels. Every run is a process of its own, so that its peak of
memory is its own. Kinds: "gaussian", a kernel for each column of a table in single precision; "linear", the same table
as a stack of features; "made", the same linear kernels from a function that makes a column when it is asked for, with
no table. The gap of the last solution is computed once more, apart from the solver: for linear kernels over all of
them, for Gaussian ones from matrices of the kernels with weights and of some others.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import kernelweave as kw  # noqa: E402

ROWS, POINTS, SIGNALS, GAMMA = 2000, 30, 20, 0.5
#: Strengths, in units of kernels whose trace is about the number of rows.
LARGEST, SMALLEST = 3000.0, 3.0
#: Kernels without weight for which matrices are formed.
OTHERS = 200


def column(m: int, n: int = ROWS) -> np.ndarray:
    """The column of kernel m, always the same."""
    return np.random.default_rng([0, m]).standard_normal(n, dtype=np.float32)


def make(kind: str, n_kernels: int, n: int = ROWS) -> tuple[Any, np.ndarray]:
    """A stack or a stream, and targets of 20 kernels, three parts signal to one of noise."""
    rng = np.random.default_rng(1)
    chosen = rng.choice(n_kernels, SIGNALS, replace=False)
    X = np.array([column(m, n) for m in chosen], dtype=np.float64)
    parts = np.sin(2.0 * X + np.arange(SIGNALS)[:, None]) if kind == "gaussian" else X
    signal = rng.uniform(0.5, 1.5, size=SIGNALS) @ parts
    y = signal + rng.standard_normal(n) * signal.std() / np.sqrt(3.0)
    y -= y.mean()
    if kind == "made":
        return kw.KernelStream(lambda m: column(m, n), n_kernels), y
    table = np.empty((n_kernels, n), dtype=np.float32)
    for m in range(n_kernels):
        table[m] = column(m, n)
    return (kw.KernelStream.gaussians(table.T, GAMMA) if kind == "gaussian" else kw.FeatureStack(table.T)), y


def gap(kind: str, n_kernels: int, y: np.ndarray, one: Any) -> float:
    """Relative gap of weights and dual coefficients, by the kernels themselves."""
    n, c, d = len(y), one.dual_coef, one.weights
    active = np.flatnonzero(d)
    fitted, level, highest = np.zeros(n), 0.0, 0.0
    if kind == "gaussian":
        others = np.random.default_rng(2).choice(n_kernels, min(n_kernels, OTHERS), replace=False)
    else:
        others = np.arange(n_kernels)
    for m in np.union1d(active, others):
        x = column(int(m), n).astype(np.float64)
        product = np.exp(-GAMMA * np.square(x[:, None] - x)) @ c if kind == "gaussian" else x * (x @ c)
        form = float(c @ product)
        highest = max(highest, form)
        fitted += d[m] * product
        level += d[m] * form
    r = y - fitted - one.alpha * c
    primal = 0.5 * np.sum((y - fitted) ** 2) + 0.5 * one.alpha * level
    return float((0.5 * r @ r + 0.5 * one.alpha * (highest - level)) / primal)


def run(kind: str, n_kernels: int, tol: float, n: int = ROWS, points: int = POINTS) -> dict[str, Any]:
    """Measure one path."""
    given, y = make(kind, n_kernels, n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    alphas = np.geomspace(LARGEST, SMALLEST, points) * (n / ROWS)
    wall, cpu = time.perf_counter(), time.process_time()
    path = kw.rls2_path(given, y, alphas, tol=tol)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    last = path.solutions[-1]
    # features state the gap of their coefficients, which are not in `dual_coef`
    apart = {} if kind == "linear" else {"last_gap_by_kernels": float(f"{gap(kind, n_kernels, y, last):.2e}")}
    return {
        "rows": n,
        "kernels": n_kernels,
        "strengths": points,
        "tol": tol,
        "cpu_seconds": round(cpu, 2),
        "wall_seconds": round(wall, 2),
        "largest_gap": float(f"{path.rel_gap.max():.2e}"),
        "last_gap": float(f"{last.rel_gap:.2e}"),
        **apart,
        "active_at_the_end": int(np.count_nonzero(last.weights)),
        "passes": round(getattr(given, "passes", float("nan")), 2) if kind != "linear" else None,
        "peak_mib": round(peak / 1024),
        "mib_before": round(before / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("kind", choices=("gaussian", "linear", "made"))
    parser.add_argument("--kernels", type=int, default=100_000)
    parser.add_argument("--tol", type=float, default=1e-3)
    given = parser.parse_args()
    table = json.loads(given.table.read_text()) if given.table.exists() else {}
    record = run(given.kind, given.kernels, given.tol)
    table[f"{given.kind} {given.kernels} {given.tol:g}"] = record
    print(record, flush=True)
    given.table.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
