"""What a fit takes beside its solver: taking kernels in, filling them, wide tables, alpha="auto" on several classes.

Least seconds of interleaved rounds, of the wall clock and of the processor: the least is what the others on the machine
disturb least. The name of an interpreter in ``KERNELWEAVE_BEFORE`` adds an older version of the library to the fits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kernelweave as kw
from benchmarks import cases
from kernelweave.kernels import RBF, Polynomial

Array = NDArray[np.float64]

BEFORE, YEAST = "KERNELWEAVE_BEFORE", "KERNELWEAVE_YEAST"

#: Fits of classes with alpha="auto", in a process of their own, so that another version can make them. The kernels are
#: given, so that other defaults do not change the comparison.
FIT = """
import json, sys, time, warnings
import numpy as np
import kernelweave as kw
from kernelweave.kernels import RBF, Linear
warnings.simplefilter("ignore")
folder, n_jobs = sys.argv[1], int(sys.argv[2])
data = np.load(folder)
X, y, new, truth = (data[key] for key in ("X", "y", "new", "truth"))
bank = [Linear().prepared("standardize"), Linear()]
bank += [RBF(gamma=("median", f)).prepared("standardize") for f in (0.25, 1.0, 4.0)]
learner = kw.learners.RLS2(**({"n_jobs": n_jobs} if n_jobs > 1 else {}))
kw.MKLClassifier(bank, kw.learners.RLS2(alpha=1.0)).fit(X[:40], y[:40])
wall, cpu = time.perf_counter(), time.process_time()
model = kw.MKLClassifier(bank, learner).fit(X, y)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
mean = model.cv_results_["mean_test_score"]
alpha = float(model.alphas_[model.best_index_])
print(json.dumps({"wall": wall, "cpu": cpu, "accuracy": model.score(new, truth), "cv_score": float(model.best_score_),
    "alpha": alpha, "candidates_on_all_folds": len(mean), "worst_gap": model.rel_gap_}))
"""

#: A Gaussian support vector machine by grid search, 16 settings and five folds.
SVM = """
import json, sys, time
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
import warnings
warnings.simplefilter("ignore")
data = np.load(sys.argv[1])
X, y, new, truth = (data[key] for key in ("X", "y", "new", "truth"))
grid = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": list(np.array([0.1, 0.3, 1.0, 3.0]) / X.shape[1])}
search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=5)
wall, cpu = time.perf_counter(), time.process_time()
search.fit(X, y)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps({"wall": wall, "cpu": cpu, "accuracy": search.score(new, truth)}))
"""


def least(functions: dict[str, Callable[[], Any]], repeat: int) -> dict[str, dict[str, float]]:
    """Least seconds of each, in turn, after a round that is not counted."""
    found = {name: {"wall": np.inf, "cpu": np.inf} for name in functions}
    for k in range(repeat + 1):
        for name, function in functions.items():
            wall, cpu = time.perf_counter(), time.process_time()
            kept = function()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            del kept
            if k:
                own = found[name]
                own["wall"], own["cpu"] = min(own["wall"], wall), min(own["cpu"], cpu)
    return found


def intake(name: str, repeat: int) -> dict[str, Any]:
    """A stack of kernels, kernels last, against copying it twice."""
    from kernelweave.gram import gram_from_stack

    case = cases.tiny_case() if name == "tiny" else cases.path_case(name)
    stack = np.ascontiguousarray(np.moveaxis(case.kernels, 0, -1))
    seconds = least(
        {
            "taken in": partial(gram_from_stack, stack),
            "two copies": lambda: (stack.copy(), stack.copy()),
            "path": partial(kw.rls2_path, gram_from_stack(stack), case.y, case.alphas, tol=1e-6),
        },
        repeat,
    )
    ratio = seconds["taken in"]["cpu"] / seconds["two copies"]["cpu"]
    return {"case": f"intake {name}", "shape": stack.shape, "seconds": seconds, "ratio": ratio, "aim": 1.0}


def filling(n: int, repeat: int) -> dict[str, Any]:
    """Twelve Gaussians of 20 columns, against products of the rows and twelve exponentials of a triangle."""
    from kernelweave.fitting.source import TableSource
    from kernelweave.views import as_table

    X = np.random.default_rng(0).normal(size=(n, 20))
    bank = [RBF(gamma=g) for g in np.geomspace(0.001, 1.0, 12)]
    triangle = np.random.default_rng(1).uniform(size=n * (n + 1) // 2)
    out = np.empty((12, len(triangle)))

    def alone() -> None:
        X @ X.T
        for k in range(12):
            np.multiply(triangle, -0.1 * (k + 1), out=out[k])
            np.exp(out[k], out=out[k])

    seconds = least(
        {
            "filled": lambda: TableSource(bank, as_table(X), max_memory=1e12).gram(),
            "exponentials and products": alone,
        },
        repeat,
    )
    ratio = seconds["filled"]["cpu"] / seconds["exponentials and products"]["cpu"]
    return {"case": f"filling {n}", "seconds": seconds, "ratio": ratio, "aim": 3.0}


def wide(name: str, n: int, n_columns: int, repeat: int) -> dict[str, Any]:
    """One kernel on each column: a fit against its solver, at one alpha and with alpha="auto"."""
    from kernelweave.fitting.task import problems_of

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, n_columns))
    y = X[:, :5].sum(axis=1) + rng.normal(size=n)
    kernel = RBF(gamma=1.0) if name == "gaussians" else Polynomial(degree=4)
    bank = [kernel.on([j]) for j in range(n_columns)]
    fixed, auto = kw.learners.RLS2(alpha=5.0), kw.learners.RLS2()
    setup = problems_of(kw.MKLRegressor(bank, fixed).fit(X, y).model_.task)[0]
    problem = (setup.gram, setup.y)
    scale = setup.normalizer.scale
    seconds = least(
        {
            "fit, one alpha": lambda: kw.MKLRegressor(bank, fixed).fit(X, y),
            "solver, one alpha": lambda: kw.solve_rls2(*problem, 5.0, tol=1e-8, scale=scale),
        },
        repeat,
    )
    seconds |= least(
        {
            "fit, auto": lambda: kw.MKLRegressor(bank, auto).fit(X, y),
            "solver, path of 30": lambda: kw.rls2_path(*problem, tol=1e-6, scale=scale),
        },
        0 if repeat == 0 else 1,
    )
    pairs = (("fit, one alpha", "solver, one alpha"), ("fit, auto", "solver, path of 30"))
    ratios = {fit: seconds[fit]["cpu"] / seconds[solver]["cpu"] for fit, solver in pairs}
    return {
        "case": f"wide {name}",
        "held": setup.gram.describe(),
        "seconds": seconds,
        "ratios": ratios,
        "aim": "fit at most twice its solver",
    }


def halves(name: str, folder: Path) -> Path | None:
    """Random halves of a table of several classes, as a file; None where the table is not there."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
    else:
        path = os.environ.get(YEAST)
        if not path:
            return None
        rows = [line.split() for line in Path(path).read_text().splitlines() if line.strip()]
        X = np.array([[float(cell) for cell in row[1:9]] for row in rows])
        y = np.unique([row[9] for row in rows], return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(y))
    first, second = order[: len(y) // 2], order[len(y) // 2 :]
    out = folder / f"{name}.npz"
    np.savez(out, X=X[first], y=y[first], new=X[second], truth=y[second])
    return out


def several_classes(name: str, folder: Path, repeat: int) -> dict[str, Any]:
    """alpha="auto" on ten classes, now and before, beside a tuned support vector machine."""
    data = halves(name, folder)
    if data is None:
        return {"case": f"auto {name}", "missing": f"{YEAST}, the file yeast.data"}
    runs = {
        "now": (sys.executable, FIT, "1"),
        "now, two processes": (sys.executable, FIT, "2"),
        "tuned support vector machine": (sys.executable, SVM, "1"),
    }
    if os.environ.get(BEFORE):
        runs["before"] = (os.environ[BEFORE], FIT, "1")
    found: dict[str, dict[str, Any]] = {}
    for _ in range(max(repeat, 1)):
        for label, (python, code, n_jobs) in runs.items():
            done = subprocess.run(
                [python, "-c", code, str(data), n_jobs],
                capture_output=True,
                text=True,
                check=True,
                cwd=folder,
            )
            record = json.loads(done.stdout.strip().splitlines()[-1])
            old = found.setdefault(label, record)
            for clock in ("wall", "cpu"):
                old[clock] = min(old[clock], record[clock])
    # the processor's seconds of other processes are not counted
    found["now, two processes"]["cpu"] = None
    return {"case": f"auto {name}", "methods": found}


def measure_seconds(repeat: int, only: list[str] | None = None) -> list[dict[str, Any]]:
    """All of them, or those whose names begin with one of `only`."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs: dict[str, Callable[[], dict[str, Any]]] = {
            "intake heart": partial(intake, "heart", repeat),
            "intake pima": partial(intake, "pima", repeat),
            "filling 2000": partial(filling, 2000, repeat),
            "wide gaussians": partial(wide, "gaussians", 500, 1000, repeat),
            "wide polynomials": partial(wide, "polynomials", 500, 10_000, repeat),
            "auto yeast": partial(several_classes, "yeast", folder, repeat),
            "auto digits": partial(several_classes, "digits", folder, repeat),
        }
        if only and "tiny" in only:
            jobs = {
                "tiny intake": partial(intake, "tiny", repeat),
                "tiny filling": partial(filling, 50, repeat),
                "tiny wide": partial(wide, "polynomials", 40, 10, repeat),
            }
        out = []
        for label, job in jobs.items():
            if only and not any(label.startswith(one) for one in only):
                continue
            record = job()
            print(json.dumps(record, default=float))
            out.append(json.loads(json.dumps(record, default=float)))
    return out
