"""Kernels, Nystroem features and random features through the plain estimator: seconds, R^2 and gaps.

    python -m benchmarks.approximation rows  [--rows 1000 2000] [--out FILE]
    python -m benchmarks.approximation budgets [--rows 20000] [--out FILE]
    python -m benchmarks.approximation exact [--rows 5000] [--out FILE]

Twelve Gaussian kernels on ten columns, one alpha, one thread, every fit in a process of its own. `rows` compares the
ways of holding kernels. The gap of Nystroem features to the optimum of the kernels themselves is known where these were
solved, up to `MOST_KERNELS` rows: `true_gap`, from the objective of the fit, which bounds that of the same function,
and the optimal value. `budgets` repeats one fit under several limits of memory, `exact` one on the kernels themselves,
which are stored where they fit and otherwise computed again. Growth is that of the peak resident size during the fit,
after a small one that imports everything. Records of equal names take the place of earlier ones.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

ROWS = (1000, 2000, 5000, 10_000, 20_000)
#: Rows up to which the kernels themselves are solved.
MOST_KERNELS = 5000
WAYS = ("kernels", "nystroem-100", "nystroem-256", "random-features-500", "auto")
BUDGETS = ("0.5GB", "2GB", "8GB")
ALPHA, N_TEST = 1.0, 2000
RESULTS = Path(__file__).with_name("results") / "approximation.json"


def make(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten columns, of which five matter, and as much noise as a third of the signal; the last rows are for tests."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + N_TEST, 10))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) - 0.5 * X[:, 4]
    return X, f + f.std() / np.sqrt(3.0) * rng.normal(size=len(f))


def fit(n: int, way: str, budget: str = "auto") -> dict[str, Any]:
    """One fit in this process."""
    import kernelweave as kw
    from kernelweave.kernels import RBF, Nystroem, RandomFeatures

    X, y = make(n)
    bank = [RBF(gamma=float(g)) for g in np.geomspace(0.002, 0.2, 12)]
    kind, _, number = way.rpartition("-")
    maps = {"nystroem": Nystroem, "random-features": RandomFeatures}
    rule = maps[kind](int(number)) if kind in maps else {"kernels": None}.get(way, way)
    model = kw.MKLRegressor(bank, learner="rls2", alpha=ALPHA, approximation=rule, max_memory=budget)
    # imports, and the buffers of BLAS
    kw.MKLRegressor(bank[:2], learner="rls2", alpha=ALPHA, approximation=rule).fit(X[:50], y[:50]).predict(
        X[:5]
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    started, cpu = time.perf_counter(), time.process_time()
    model.fit(X[:n], y[:n])
    record = {
        "rows": n,
        "way": way,
        "budget": budget,
        "wall_s": time.perf_counter() - started,
        "cpu_s": time.process_time() - cpu,
        "growth_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10 - before,
        "gram": model.gram_,
        "objective": model.objective_,
        "rel_gap": model.rel_gap_,
        "status": model.status_,
    }
    cpu = time.process_time()
    found = model.predict(X[n:])
    record["predict_cpu_s"] = time.process_time() - cpu
    record["r2"] = model.score(X[n:], y[n:])
    record["predictions"] = found[:20].tolist()
    said = getattr(model, "approximation_", None)
    if said is not None:
        record["left_out"] = max(said["left_out"].values())
    return record


def apart(*arguments: Any) -> dict[str, Any]:
    """One fit in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.approximation", "one", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def keep(records: list[dict[str, Any]], fresh: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    """The records with a fresh one, written to the file; gaps to the optimum where it is known."""
    name = ("rows", "way", "budget")
    records = [one for one in records if any(one[key] != fresh[key] for key in name)] + [fresh]
    best = {
        one["rows"]: one["objective"] * (1 - one["rel_gap"]) for one in records if one["way"] == "kernels"
    }
    for one in records:
        if one["rows"] in best and "Nystroem" in one["gram"]:
            one["true_gap"] = one["objective"] / best[one["rows"]] - 1.0
    records.sort(key=lambda one: (one["rows"], WAYS.index(one["way"]), one["budget"]))
    path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf8")
    return records


def main(arguments: list[str] | None = None) -> None:
    """See the text of this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("rows", "budgets", "exact", "one"))
    parser.add_argument("case", nargs="*")
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    if given.what == "one":
        n, way, budget = given.case
        print(json.dumps(fit(int(n), way, budget)))
        return
    records = json.loads(given.out.read_text(encoding="utf8")) if given.out.exists() else []
    if given.what in ("budgets", "exact"):
        usual, way = ((20_000,), "auto") if given.what == "budgets" else ((5000,), "kernels")
        cases = [(n, way, budget) for n in given.rows or usual for budget in BUDGETS]
    else:
        cases = [
            (n, way, "auto")
            for n in given.rows or ROWS
            for way in given.ways
            if n <= MOST_KERNELS or way != "kernels"
        ]
    for case in cases:
        fresh = apart(*case)
        print({k: v for k, v in fresh.items() if k != "predictions"}, flush=True)
        records = keep(records, fresh, given.out)


if __name__ == "__main__":
    main()
