"""Classifiers on features: learners and losses on many rows, and a plain fit beside linear machines and boosting.

    python -m benchmarks.learners_on_features rows [--rows 20000] [--learner simple-hinge] [--out FILE]
    KERNELWEAVE_DATA=FOLDER python -m benchmarks.learners_on_features a9a [--rows 32561] [--out FILE]

`rows`: made-up data of ten columns, of which five matter, with noise, and the best accuracy that a rule could have
(`best_accuracy`); twelve Gaussian kernels, each as features of a map, C = 1 or alpha = 1, gap 1e-4; bins and cosines of
single columns. `a9a`: `MKLClassifier()` with no parameter but the memory, on some or all of its rows, 16,281 test rows.
One thread, every fit in a process of its own. Records of equal names take the place of earlier ones.
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

ROWS = (20_000, 50_000)
LEARNERS = ("simple-squared-hinge", "simple-logistic", "simple-hinge", "lp-hinge", "rls2")
WAYS = ("nystroem-100", "random-features-100", "bins-10", "cosines-10")
A9A = (2000, 8000, 32_561)
N_TEST, TOL = 10_000, 1e-4
RESULTS = Path(__file__).with_name("results") / "learners_on_features.json"


def make(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels with noise as much as a third of the signal, and labels without; the last rows are for tests."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + N_TEST, 10))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) - 0.5 * X[:, 4]
    f -= np.median(f)
    return X, f + f.std() / np.sqrt(3.0) * rng.normal(size=len(f)) > 0, f > 0


def measured(model: Any, X: Any, y: Any, Xt: Any, yt: Any) -> dict[str, Any]:
    """Seconds, memory and accuracy of one fit in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    started, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    record = {
        "wall_s": round(time.perf_counter() - started, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "growth_MiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10 - before),
    }
    cpu = time.process_time()
    record["accuracy"] = round(float(np.mean(model.predict(Xt) == yt)), 4)
    record["predict_cpu_s"] = round(time.process_time() - cpu, 2)
    if hasattr(model, "gram_"):
        record |= {"gram": model.gram_, "rel_gap": float(f"{model.rel_gap_:.1e}"), "status": model.status_}
        record["n_kernels_used"] = int((np.atleast_2d(model.weights_).max(axis=0) > 0).sum())
    return record


def on_rows(n: int, learner: str, way: str) -> dict[str, Any]:
    """One learner on made-up rows."""
    import kernelweave as kw
    from kernelweave import kernels, learners

    kind, _, number = way.rpartition("-")
    bank: list[Any] = [kernels.RBF(gamma=float(g)) for g in np.geomspace(0.002, 0.2, 12)]
    rule: Any = None
    if kind in ("bins", "cosines"):
        one = {"bins": kernels.Bins, "cosines": kernels.Cosines}[kind](int(number))
        bank = [one.on([j]) for j in range(10)]
    else:
        rule = {"nystroem": kernels.Nystroem, "random-features": kernels.RandomFeatures}[kind](int(number))
    name, _, loss = learner.partition("-")
    types = {"simple": learners.SimpleMKL, "lp": learners.LpMKL}
    own = learners.RLS2(alpha=1.0, tol=TOL) if name == "rls2" else types[name](loss=loss, tol=TOL)
    X, y, signal = make(n)
    found = measured(kw.MKLClassifier(bank, own, approximation=rule), X[:n], y[:n], X[n:], y[n:])
    return {**found, "best_accuracy": round(float(np.mean(signal[n:] == y[n:])), 4)}


def on_a9a(n: int, name: str, _: str) -> dict[str, Any]:
    """A plain fit, or another method, on rows of a9a."""
    from scipy import sparse
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.svm import LinearSVC

    import kernelweave as kw
    from benchmarks.a9a import tables

    X, y, Xt, yt = tables()
    X, y = X[:n], y[:n]
    if name == "LinearSVC":
        return measured(LinearSVC(dual=False), sparse.csr_array(X), y, sparse.csr_array(Xt), yt)
    if name == "HistGradientBoosting":
        return measured(HistGradientBoostingClassifier(random_state=0), X, y, Xt, yt)
    model = kw.MKLClassifier(max_memory=name.partition(" ")[2] or "auto")
    found = measured(model, X, y, Xt, yt)
    return {**found, "choice": model.defaults_.get("choice", "")}


def main(arguments: list[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["rows", "a9a", "one"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rows", type=int, action="append")
    parser.add_argument("--learner", choices=LEARNERS, action="append")
    parser.add_argument("--way", choices=WAYS, action="append")
    parser.add_argument("--method", action="append")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    if given.what == "one":
        task, n, name, way = given.names
        print(json.dumps({"rows": on_rows, "a9a": on_a9a}[task](int(n), name, way)))
        return
    if given.what == "rows":
        names, ways = given.learner or LEARNERS, given.way or WAYS
        cases = [(n, name, way) for n in given.rows or ROWS for way in ways for name in names]
    else:
        methods = given.method or ["LinearSVC", "HistGradientBoosting", "MKLClassifier"]
        cases = [(n, name, "a9a") for n in given.rows or A9A for name in methods]
    for n, name, way in cases:
        command = [
            sys.executable,
            "-m",
            "benchmarks.learners_on_features",
            "one",
            given.what,
            str(n),
            name,
            way,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        fresh = {"rows": n, "method": name, "way": way, **json.loads(done.stdout.splitlines()[-1])}
        print(fresh, flush=True)
        records = json.loads(given.out.read_text(encoding="utf8")) if given.out.exists() else []
        same = ("rows", "method", "way")
        records = [one for one in records if any(one[key] != fresh[key] for key in same)] + [fresh]
        records.sort(key=lambda one: (one["way"], one["rows"], one["method"]))
        given.out.write_text(json.dumps(records, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
