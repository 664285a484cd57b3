"""Margin MKL: problems of SimpleMKL's size, C-paths with warm starts, scaling, and MKLpy where it is installed.

MKLpy needs cvxopt and torch, so it runs in an environment of its own: set ``MKLPY_PYTHON`` to its interpreter.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC

import kernelweave as kw
from benchmarks.cases import Array
from kernelweave.fitting.source import TableSource
from kernelweave.gram import PackedGram
from kernelweave.mkl.kernel_problem import Point, Session, WarmStart
from kernelweave.mkl.loop import Limits, Loop, Moves, minimise
from kernelweave.mkl.steps.closed_form import ClosedForm
from kernelweave.mkl.steps.interior_point import InteriorPoint
from kernelweave.mkl.steps.newton import Newton
from kernelweave.mkl.svm_mkl import solve_svm_mkl
from kernelweave.views import as_table

#: Rows, and seconds and objective of the SimpleMKL toolbox under Octave at a 1 % gap on another machine and other rows.
SIZES = {"heart": (189, 3.1, 55.26), "sonar": (145, 10.3, 45.24), "pima": (537, 21.2, 202.89)}
TOL = 1e-3
#: What the plain rivals are asked for.
RIVAL_TOL = 1e-2


def case(name: str, n: int, seed: int = 0) -> tuple[Any, Array, Array]:
    """Kernels of trace n on standardised rows."""
    data = kw.datasets.load(name)
    rows = np.sort(np.random.default_rng(seed).permutation(len(data.X))[:n])
    X, y = data.X[rows], data.signs[rows]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    gram = TableSource(kw.banks.simplemkl(X.shape[1]), as_table(X), max_memory=1e10).gram()
    return gram, y, n / gram.trace()


def median_seconds(run: Any, repeat: int) -> tuple[float, Any]:
    """Median over repetitions, after one that is not counted."""
    found = run()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        found = run()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), found


def libsvm_reduced_gradient(kernels: Array, y: Array, C: float, tol: float) -> tuple[float, float]:
    """A plain SimpleMKL: scikit-learn's SVC on the combined kernel, reduced gradient with backtracking, NumPy."""
    d = np.full(len(kernels), 1.0 / len(kernels))

    def value(d: Array) -> tuple[float, Array]:
        K = np.tensordot(d, kernels, 1)
        machine = SVC(kernel="precomputed", C=C, tol=1e-5).fit(K, y)
        b = np.zeros(len(y))
        b[machine.support_] = machine.dual_coef_[0] * (1 if machine.classes_[1] > 0 else -1)
        q = np.einsum("i,mij,j->m", b, kernels, b, optimize=True)
        return float(np.abs(b).sum() - 0.5 * d @ q), q

    J, q = value(d)
    for _ in range(1000):
        if 0.5 * (q.max() - d @ q) <= tol * J:
            break
        base = int(np.argmax(d))
        D = np.where((d > 0) | (q > q[base]), 0.5 * (q - q[base]), 0.0)
        D[base] = 0.0
        D[base] = -D.sum()
        falling = D < 0
        step = float((-d[falling] / D[falling]).min())
        while True:
            ahead = np.maximum(d + step * D, 0.0)
            ahead /= ahead.sum()
            there, q_there = value(ahead)
            if there < J or step < 1e-12:
                break
            step *= 0.5
        d, J, q = ahead, there, q_there
    return J, 0.5 * (q.max() - d @ q) / J


def measure_case(name: str, repeat: int) -> dict[str, Any]:
    """One of SimpleMKL's problems, C = 100, gap 0.1 %."""
    n, toolbox_seconds, toolbox_objective = SIZES[name]
    gram, y, scale = case(name, n)

    def solve(tol: float, method: str = "auto", max_iter: int = 100) -> Any:
        return solve_svm_mkl(gram, y, 100.0, scale=scale, tol=tol, solver=method, max_iter=max_iter)

    seconds, found = median_seconds(lambda: solve(TOL), repeat)
    tight, other = median_seconds(lambda: solve(1e-6), repeat)
    start = time.perf_counter()
    published = solve(RIVAL_TOL, "reduced-gradient", 1000)
    published_seconds = time.perf_counter() - start
    kernels = np.stack([gram.combine(row * scale) for row in np.eye(gram.n_kernels)])
    start = time.perf_counter()
    plain_J, plain_gap = libsvm_reduced_gradient(kernels, y, 100.0, RIVAL_TOL)
    plain_seconds = time.perf_counter() - start
    rkl_seconds, rkl = median_seconds(lambda: kw.solve_rkl(gram, y, 100.0, scale=scale, tol=TOL), repeat)
    return {
        "case": name,
        "n": n,
        "n_kernels": gram.n_kernels,
        "seconds": seconds,
        "rel_gap": found.rel_gap,
        "objective": found.primal,
        "n_machines": found.n_machines,
        "seconds_1e-6": tight,
        "rel_gap_1e-6": other.rel_gap,
        "published_algorithm_1e-2": {"seconds": published_seconds, "rel_gap": published.rel_gap},
        "numpy_libsvm_1e-2": {"seconds": plain_seconds, "rel_gap": plain_gap, "objective": plain_J},
        # no ratio to a rival that stopped before its own gap
        "ratio_to_numpy_libsvm": plain_seconds / seconds if plain_gap <= RIVAL_TOL else None,
        "ratio_to_published_algorithm": published_seconds / seconds
        if published.rel_gap <= RIVAL_TOL
        else None,
        "toolbox": {"seconds": toolbox_seconds, "objective": toolbox_objective},
        "ratio_to_toolbox": toolbox_seconds / seconds,
        "rkl": {"seconds": rkl_seconds, "rel_gap": rkl.rel_gap, "n_machines": rkl.n_machines},
    }


def measure_margin(repeat: int) -> list[dict[str, Any]]:
    """Everything in this file."""
    records = []
    for name in SIZES:
        records.append(measure_case(name, repeat))
        print(json.dumps(records[-1]), flush=True)
    records.append(measure_c_path(repeat))
    records.append(measure_elastic_net(repeat))
    records += measure_scaling()
    found = measure_mklpy(repeat)
    return [*records, found] if found else records


def measure_c_path(repeat: int) -> dict[str, Any]:
    """Twelve C on heart, and three folds at C = 10, with and without warm starts."""
    gram, y, scale = case("heart", 189)
    Cs = np.geomspace(1e-2, 1e3, 12)

    def run(warm: bool) -> int:
        last, machines = None, 0
        for C in Cs:
            last = solve_svm_mkl(gram, y, C, scale=scale, tol=1e-4, start=last if warm else None)
            machines += last.n_machines
        return machines

    cold, cold_machines = median_seconds(lambda: run(False), repeat)
    warm, warm_machines = median_seconds(lambda: run(True), repeat)
    whole = solve_svm_mkl(gram, y, 10.0, scale=scale, tol=1e-4)
    folds = np.array_split(np.random.default_rng(0).permutation(len(y)), 5)

    def over_folds(warm: bool) -> int:
        machines = 0
        for held in folds:
            rows = np.setdiff1d(np.arange(len(y)), held)
            start = WarmStart(whole.weights, whole.dual_coef[rows]) if warm else None
            found = solve_svm_mkl(gram.restrict(rows), y[rows], 10.0, scale=scale, tol=1e-4, start=start)
            machines += found.n_machines
        return machines

    cold_folds, _ = median_seconds(lambda: over_folds(False), repeat)
    warm_folds, _ = median_seconds(lambda: over_folds(True), repeat)
    record = {
        "case": "warm starts, heart",
        "C_path": {
            "cold": cold,
            "warm": warm,
            "factor": cold / warm,
            "machines": [cold_machines, warm_machines],
        },
        "folds": {"cold": cold_folds, "warm": warm_folds, "factor": cold_folds / warm_folds},
    }
    print(json.dumps(record), flush=True)
    return record


class _Alternation(ClosedForm):
    """The published alternation, which never gives way."""

    def moves(self, session: Session, loop: Loop[Point]) -> Moves[Point]:
        rounds = super().moves(session, loop)
        first = next(rounds)
        loop.limits = Limits()
        yield first
        return (yield from rounds)


def measure_elastic_net(repeat: int) -> dict[str, Any]:
    """Elastic nets of 50 Gaussian kernels on 500 rows, C = 1: Newton on the shares beside the alternation.

    Seconds are those of the processor: a hundredfold does not need a quiet machine.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 8))
    y = np.sign(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=500))
    kernels = [
        kw.kernels.RBF(gamma=float(g)).on(sorted(int(j) for j in rng.permutation(8)[: 1 + k % 3]))
        for k, g in enumerate(np.geomspace(0.03, 5.0, 50))
    ]
    gram = TableSource(kernels, as_table(X), max_memory=1e10).gram()
    record: dict[str, Any] = {"case": "elastic net, 500 rows, 50 Gaussian kernels"}
    for mix in (0.1, 0.5, 0.9):
        problem = kw.Problem(gram, y, "hinge", kw.weight_sets.ElasticNet(mix), 1.0).form
        for tol in (1e-6, 1e-8):
            row: dict[str, Any] = {}
            ways: dict[str, Any] = {
                "newton": Newton, "interior-point": InteriorPoint, "alternation": _Alternation,
            }  # fmt: skip
            for name, make in ways.items():
                seconds = []
                # the alternation takes a hundred times as long: once
                for _ in range(1 if name == "alternation" else repeat):
                    start = time.process_time()
                    found = minimise(Session(problem, tol, WarmStart()), [make()], max_iter=200)
                    seconds.append(time.process_time() - start)
                row[name] = {
                    "cpu_seconds": float(np.median(seconds)),
                    "n_iter": found.n_iter,
                    "rel_gap": found.rel_gap,
                }
            record[f"mix {mix}, tol {tol:g}"] = row | {"n_active": int(np.count_nonzero(found.weights))}
    print(json.dumps(record), flush=True)
    return record


def scaling_child(n: int, m: int, C: float) -> None:
    """One size in a process of its own: made-up Gaussian kernels, or linear features when there are many."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    y = np.sign(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=n))
    if m > 100:
        kernels: Any = kw.banks.linear_features(m)
        X = np.column_stack([X, rng.normal(size=(n, m - 20))])
        y = np.sign(X[:, :5].sum(axis=1) + 0.5 * rng.normal(size=n))
    else:
        kernels = [
            kw.kernels.RBF(gamma=float(g)).on([j % 20, (j + 1) % 20])
            for j, g in enumerate(np.geomspace(0.05, 2, m))
        ]
    start = time.perf_counter()
    gram = TableSource(kernels, as_table(X), max_memory=1.2e10).gram()
    build = time.perf_counter() - start
    scale = n / gram.trace()
    start = time.perf_counter()
    found = solve_svm_mkl(gram, y, C, scale=scale, tol=TOL)
    seconds = time.perf_counter() - start
    # not ru_maxrss, which starts at what the parent process held
    status = Path("/proc/self/status")
    line = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    peak = (int(line.group(1)) if line else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024
    print(json.dumps({"n": n, "n_kernels": m, "C": C, "build": build, "seconds": seconds, "rel_gap": found.rel_gap,
                      "status": found.status.name, "machines": found.n_machines, "peak_MiB": peak}))  # fmt: skip


def measure_scaling() -> list[dict[str, Any]]:
    """Rows 250 to 8,000 at 10 kernels, kernels 10 to 10,000 at 500 rows.

    Among 1,000 features and more, five of which count, C = 0.01 chooses 5; at C = 1 the rows are all but separable,
    some 200 kernels are active, and the interior point takes over from Newton.
    """
    records = []
    sizes = [(250, 10, 1.0), (1000, 10, 1.0), (4000, 10, 1.0), (8000, 10, 1.0), (500, 100, 1.0)]
    for n, m, C in [*sizes, *((500, m, C) for m in (1000, 10_000) for C in (0.01, 1.0))]:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.margin", str(n), str(m), str(C)],
            capture_output=True,
            text=True,
            check=True,
        )
        records.append({"case": "scaling"} | json.loads(done.stdout))
        print(done.stdout.strip(), flush=True)
    return records


_MKLPY = """
import sys, json, time, numpy as np, warnings
warnings.simplefilter("ignore")
import torch
torch.set_num_threads(1)
from MKLpy.algorithms import EasyMKL, GRAM, RMKL, CKA
data = np.load(sys.argv[1])
K = [torch.tensor(k) for k in data["kernels"]]
y = torch.tensor(data["y"])
out = {}
rivals = {"EasyMKL": lambda: EasyMKL(lam=0.1), "GRAM": GRAM, "RMKL": RMKL, "CKA": CKA}
for name, make in rivals.items():
    try:
        start = time.perf_counter()
        model = make().fit(K, y)
        seconds = time.perf_counter() - start
        solution = model.solution
        w = (solution if hasattr(solution, "weights") else next(iter(solution.values()))).weights
        out[name] = {"seconds": seconds, "weights": np.asarray(w, dtype=float).tolist()}
    except Exception as error:
        out[name] = {"error": repr(error)[:200]}
print(json.dumps(out))
"""


def margin_over_radius(K: Array, y: Array) -> float:
    """Squared hard margin over squared radius of the ball (the larger the better), C = 1e6."""
    machine = kw.solve_svc(K, y, 1e6, tol=1e-8)
    return 1.0 / (float(machine.dual_coef @ K @ machine.dual_coef) * kw.solve_meb(K, tol=1e-8).radius2)


def measure_mklpy(repeat: int) -> dict[str, Any] | None:
    """Breast cancer, 569 rows, 10 RBF kernels."""
    interpreter = os.environ.get("MKLPY_PYTHON")
    if not interpreter:
        print("MKLPY_PYTHON is not set: no comparison with MKLpy.")
        return None
    data = kw.datasets.load("wdbc")
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    squared = np.square(X).sum(1)[:, None] + np.square(X).sum(1) - 2 * X @ X.T
    kernels = np.stack([np.exp(-g * np.maximum(squared, 0.0)) for g in np.geomspace(1e-4, 1.0, 10)])
    y = data.signs
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.npz"
        np.savez(path, kernels=kernels, y=y)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [interpreter, "-c", _MKLPY, str(path)],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
    rivals = json.loads(done.stdout.strip().splitlines()[-1])
    stack = np.moveaxis(kernels, 0, -1)
    gram = PackedGram(np.stack([k[np.triu_indices(len(y))] for k in kernels]), len(y))
    easy, found = median_seconds(lambda: kw.solvers.solve_easy_mkl(gram, y, 0.1, tol=1e-8), repeat)
    rkl, best = median_seconds(lambda: kw.solve_rkl(gram, y, 1e6, tol=1e-3), repeat)
    record: dict[str, Any] = {
        "case": "MKLpy, breast cancer",
        "ours": {"easy": easy, "rkl": rkl, "rkl_gap": best.rel_gap},
    }
    record["ours"]["margin_over_radius"] = margin_over_radius(
        np.tensordot(stack, best.weights, ([2], [0])), y
    )
    for name, rival in rivals.items():
        if "weights" in rival:
            w = np.maximum(np.array(rival.pop("weights")), 0.0)
            w = w / w.sum()
            rival["margin_over_radius"] = margin_over_radius(np.tensordot(stack, w, ([2], [0])), y)
            if name == "EasyMKL":
                rival["largest_difference_of_weights"] = float(np.abs(w - found.weights).max())
            rival["ratio"] = rival["seconds"] / (easy if name == "EasyMKL" else rkl)
        record[name] = rival
    print(json.dumps(record), flush=True)
    return record


if __name__ == "__main__":
    scaling_child(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
