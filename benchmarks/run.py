"""Measure and write JSON: ``python -m benchmarks.run paths|linear|himalaya|auto|margin|deep|seconds|imports|all``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import kernelweave as kw
from benchmarks import cases, rivals
from benchmarks.deep import measure_deep
from benchmarks.margin import measure_margin
from benchmarks.seconds import measure_seconds

HERE = Path(__file__).resolve().parent
TOL = 1e-6
#: For orientation: seconds of the paper's author's toolbox under Octave, and of a 70-line NumPy Newton method, on
#: the machine where the target of twenty times was set.
REFERENCE = {
    "heart": (1.7, 0.13),
    "pima": (5.6, 1.26),
    "housing": (5.7, 0.88),
    "ionosphere": (4.7, 0.56),
    "sonar": (4.0, 0.36),
}


def environment() -> dict[str, Any]:
    from importlib.metadata import version

    from kernelweave._loops import HAS_EXTENSION

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE)
    names = ("kernelweave", "numpy", "scipy", "scikit-learn")
    return {
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "compiled_core": HAS_EXTENSION,
        "versions": {name: version(name) for name in names},
    }


def spread(seconds: list[float]) -> dict[str, float]:
    return {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}


def interleaved(
    functions: dict[str, Callable[[], Any]], repeat: int
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Time functions in turn, so that a slow spell of the machine meets all; the first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    last: dict[str, Any] = {}
    for k in range(repeat + 1):
        for name, function in functions.items():
            begin = time.perf_counter()
            last[name] = function()
            if k:
                seconds[name].append(time.perf_counter() - begin)
    return seconds, last


def measure_paths(names: list[str], repeat: int) -> list[dict[str, Any]]:
    """30 alphas on precomputed kernels: the library, the paper's Algorithm 1, and a NumPy Newton method."""
    from threadpoolctl import threadpool_limits

    from kernelweave.gram import gram_from_stack

    out = []
    for name in names:
        case = cases.tiny_case() if name == "tiny" else cases.path_case(name)
        stack = np.moveaxis(case.kernels, 0, -1)
        begin = time.perf_counter()
        gram = gram_from_stack(stack)
        build = time.perf_counter() - begin
        problem = (case.kernels, case.y, case.alphas)
        with threadpool_limits(1, "blas"):
            seconds, last = interleaved(
                {
                    "kernelweave": partial(kw.rls2_path, gram, case.y, case.alphas, tol=TOL),
                    "numpy newton, gap 1e-6": partial(rivals.newton, *problem, tol=TOL),
                    "numpy algorithm 1, residual 1e-2": partial(rivals.algorithm1, *problem),
                },
                repeat,
            )
        path = last["kernelweave"]
        record: dict[str, Any] = {
            "case": name,
            "n_samples": len(case.y),
            "n_kernels": len(case.kernels),
            "held": gram.describe(),
            "build_seconds": build,
            "solvers": {},
        }
        for solver, result in last.items():
            _, gap = rivals.certificates(case.kernels, case.y, case.alphas, result.weights, result.dual_coef)
            record["solvers"][solver] = {
                "seconds": spread(seconds[solver]),
                "worst_gap_recomputed": float(gap.max()),
                "iterations": int(np.sum(result.n_iter)),
            }
        record["worst_gap_reported"] = float(path.rel_gap.max())
        ours = record["solvers"]["kernelweave"]["seconds"]["median"]
        newton = record["solvers"]["numpy newton, gap 1e-6"]["seconds"]["median"]
        slow = record["solvers"]["numpy algorithm 1, residual 1e-2"]["seconds"]["median"]
        record["ratio_to_algorithm_1"] = slow / ours
        record["ratio_to_numpy_newton"] = newton / ours
        if name in REFERENCE:
            toolbox, reference = REFERENCE[name]
            record["estimate"] = {
                "note": "toolbox seconds x (NumPy Newton here / NumPy Newton where the toolbox was timed); an estimate",
                "toolbox_seconds_there": toolbox,
                "numpy_newton_seconds_there": reference,
                "ratio_to_toolbox": toolbox * newton / reference / ours,
                "ratio_to_toolbox_unscaled": toolbox / ours,
            }
        print(
            f"{name:11s} n={record['n_samples']} m={record['n_kernels']}: {ours:.3f} s (gap {path.rel_gap.max():.0e}, "
            f"{path.n_iter.sum()} factorisations), Algorithm 1 {slow / ours:.1f}x, NumPy Newton {newton / ours:.1f}x"
            + (f", toolbox ~{record['estimate']['ratio_to_toolbox']:.0f}x" if "estimate" in record else "")
        )
        out.append(record)
    return out


def linear_child(name: str) -> None:
    """One linear case in its own process, so that its peak memory is its own."""
    from kernelweave.gram import FactorGram

    rows, y = cases.linear_case(name)
    # the first touch of memory and of the BLAS is no part of the measurement
    small = FactorGram(rows[:1000], np.arange(1001))
    kw.rls2_path(small, y, n_alphas=3)
    gram = FactorGram(rows, np.arange(len(rows) + 1))
    scale = 1.0 / np.einsum("pn,pn->p", rows, rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    path = kw.rls2_path(gram, y, n_alphas=50, tol=TOL, scale=scale)
    seconds = time.perf_counter() - begin
    record = {
        "seconds": seconds,
        "worst_gap": float(path.rel_gap.max()),
        "iterations": int(path.n_iter.sum()),
        "features_at_the_end": int(path.n_active[-1]),
        "table_mib": rows.nbytes / 2**20,
        "peak_mib_before": before / 1024,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(record))


def measure_linear(names: list[str], repeat: int) -> list[dict[str, Any]]:
    out = []
    for name in names:
        runs = []
        for _ in range(repeat):
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.run", "linear-child", "--only", name],
                capture_output=True,
                text=True,
                cwd=HERE.parent,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                check=True,
            )
            runs.append(json.loads(done.stdout.strip().splitlines()[-1]))
        record = {**runs[-1], "case": name, "seconds": spread([run["seconds"] for run in runs])}
        median, peak, gap = record["seconds"]["median"], record["peak_mib"], record["worst_gap"]
        print(f"{name}: {median:.2f} s, peak {peak:.0f} MiB, gap {gap:.0e}")
        out.append(record)
    return out


def measure_himalaya(repeat: int) -> list[dict[str, Any]]:
    """One target, 200 + 200 rows, groups of ten features: time and test R^2, every method with five folds."""
    from threadpoolctl import threadpool_limits

    try:
        from himalaya.kernel_ridge import MultipleKernelRidgeCV
    except ImportError:
        print("himalaya is not installed: pip install himalaya")
        return [{"missing": "himalaya"}]

    def r2(y: Any, f: Any) -> float:
        return float(1.0 - np.sum((y - f) ** 2) / np.sum((y - y.mean()) ** 2))

    out = []
    for kind in ("linear", "rbf"):
        for n_views in (5, 20, 50):
            case = cases.views_case(n_views, kind, seed=0)
            stack, cross = np.moveaxis(case.train, 0, -1), np.moveaxis(case.cross, 0, -1)

            def ours(stack: Any = stack, case: Any = case) -> Any:
                return kw.MKLRegressorCV("precomputed", normalize=None).fit(stack, case.y)

            def auto(stack: Any = stack, case: Any = case) -> Any:
                return kw.MKLRegressor("precomputed", kw.learners.RLS2(), normalize=None).fit(stack, case.y)

            def theirs(solver: str, case: Any = case) -> Any:
                params = {"progress_bar": False}
                if solver == "random_search":
                    params |= {"n_iter": 100, "alphas": np.logspace(-5, 5, 21)}
                model = MultipleKernelRidgeCV(
                    kernels="precomputed", solver=solver, solver_params=params, cv=5, random_state=0
                )
                return model.fit(case.train, case.y)

            with threadpool_limits(1, "blas"):
                seconds, last = interleaved(
                    {
                        "kernelweave": ours,
                        "kernelweave auto": auto,
                        "himalaya hyper-gradient": lambda: theirs("hyper_gradient"),
                        "himalaya random search": lambda: theirs("random_search"),
                    },
                    repeat,
                )
            record: dict[str, Any] = {"kind": kind, "n_kernels": n_views, "methods": {}}
            for name, model in last.items():
                f = model.predict(cross if name.startswith("kernelweave") else case.cross)
                record["methods"][name] = {
                    "seconds": spread(seconds[name]),
                    "test_r2": r2(case.y_test, np.ravel(f)),
                }
            print(
                kind,
                n_views,
                "; ".join(
                    f"{k} {v['seconds']['median']:.2f} s R2 {v['test_r2']:.3f}"
                    for k, v in record["methods"].items()
                ),
            )
            out.append(record)
    return out


def measure_auto(names: list[str], most: int = 400) -> list[dict[str, Any]]:
    """What alpha="auto" chooses beside cross-validation, and what the closed-form criteria would choose."""
    from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

    from kernelweave.fitting.task import problems_of
    from kernelweave.mkl.path import rls2_path

    out = []
    for name in names:
        X, y = cases.load(name)
        regression = name in cases.REGRESSION
        rows = np.random.default_rng(0).permutation(len(y))[: int(most / 0.7)]
        X, y = X[rows], y[rows]
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=0.3, random_state=0, stratify=None if regression else y
        )
        bank = kw.banks.rls2(X.shape[1]) if X.shape[1] <= 40 else None
        estimator = kw.MKLRegressor if regression else kw.MKLClassifier
        begin = time.perf_counter()
        auto = estimator(bank, standardize=True).fit(X, y)
        auto_seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        estimator(bank, kw.learners.RLS2(alpha=auto.alpha_), standardize=True).fit(X, y)
        fixed_seconds = time.perf_counter() - begin
        splitter = (KFold if regression else StratifiedKFold)(5, shuffle=True, random_state=0)
        searched = kw.MKLRegressorCV if regression else kw.MKLClassifierCV
        begin = time.perf_counter()
        cv = searched(bank, alphas=auto.alphas_, cv=splitter, standardize=True).fit(X, y)
        cv_seconds = time.perf_counter() - begin
        task = auto.model_.task
        setup = problems_of(task)[0]
        path = rls2_path(setup.gram, setup.y, auto.alphas_, scale=setup.normalizer.scale, tol=1e-5)
        criteria = path.criteria
        n = len(y)
        total = n * np.square(setup.y - 0).sum() / n
        rss = np.array(
            [
                float(np.sum(np.square(a * c)))
                for a, c in zip(path.alphas, path.dual_coef[:, :, 0], strict=True)
            ]
        )
        choices = {
            "auto": auto.best_index_,
            "cv": cv.best_index_,
            "gcv": int(np.argmin(rss / np.maximum(n - criteria["df"], 1e-9) ** 2)),
            "gcv, df_total": int(np.argmin(criteria["gcv"])),
            "aic": int(np.argmin(criteria["aic"])),
            "bic": int(np.argmin(criteria["bic"])),
            "evidence": int(np.argmax(criteria["evidence"])),
        }
        mean, error = cv.cv_results_["mean_test_score"], cv.cv_results_["std_error_test_score"]
        best = int(np.argmax(mean))
        record = {
            "case": name,
            "n_samples": n,
            "n_kernels": auto.n_kernels_,
            "score": cv.cv_results_["score_name"],
            "choices": {
                key: {
                    "alpha": float(auto.alphas_[k]),
                    "df": float(criteria["df"][k]),
                    "cv_score": float(mean[k]),
                    "standard_errors_below_best": float((mean[best] - mean[k]) / max(error[best], 1e-12)),
                }
                for key, k in choices.items()
            },
            "held_out": {"auto": float(auto.score(X_test, y_test)), "cv": float(cv.score(X_test, y_test))},
            "seconds": {"auto": auto_seconds, "cv": cv_seconds, "fixed alpha": fixed_seconds},
            "share_explained_at_auto": float(1 - rss[auto.best_index_] / total),
        }
        print(
            f"{name:15s} "
            + " ".join(
                f"{k} {v['standard_errors_below_best']:.2f}(df {v['df']:.0f})"
                for k, v in record["choices"].items()
            )
            + f" | held out auto {record['held_out']['auto']:.3f} cv {record['held_out']['cv']:.3f}"
            + f" | auto {auto_seconds:.1f} s, fixed {fixed_seconds:.2f} s"
        )
        out.append(record)
    return out


def measure_imports(repeat: int) -> list[dict[str, Any]]:
    """Seconds of fresh processes."""
    code = (
        "import time; t=time.perf_counter(); import numpy, scipy; u=time.perf_counter(); import kernelweave; "
        "v=time.perf_counter(); kernelweave.solve_rls2; w=time.perf_counter(); kernelweave.MKLClassifier; "
        "print(u-t, v-u, w-v, time.perf_counter()-w)"
    )
    rows = []
    for _ in range(repeat):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        rows.append([float(x) for x in done.stdout.split()])
    names = ("numpy and scipy", "import kernelweave", "first solver", "first estimator (scikit-learn)")
    record: dict[str, Any] = {n: spread(list(c)) for n, c in zip(names, zip(*rows, strict=True), strict=True)}
    helps = []
    for _ in range(repeat):
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "kernelweave_app.cli", "--help"], capture_output=True, check=True
        )
        helps.append(time.perf_counter() - begin)
    record["kernelweave --help"] = spread(helps)
    for name, value in record.items():
        print(f"{name}: {value['median']:.3f} s")
    return [record]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what",
        choices=[
            "paths",
            "linear",
            "himalaya",
            "auto",
            "margin",
            "deep",
            "seconds",
            "imports",
            "all",
            "linear-child",
        ],
        default="all",
        nargs="?",
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", action="append", help="a case; may be given more than once")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    arguments = parser.parse_args(argv)
    if arguments.what == "linear-child":
        linear_child(arguments.only[0])
        return
    jobs: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "paths": lambda: measure_paths(arguments.only or list(cases.PATH_CASES), arguments.repeat),
        "linear": lambda: measure_linear(
            arguments.only or list(cases.LINEAR_CASES), min(3, arguments.repeat)
        ),
        "himalaya": lambda: measure_himalaya(min(3, arguments.repeat)),
        "auto": lambda: measure_auto(arguments.only or list(cases.AUTO_CASES)),
        "margin": lambda: measure_margin(arguments.repeat),
        "deep": lambda: measure_deep(arguments.repeat),
        "seconds": lambda: measure_seconds(min(3, arguments.repeat), arguments.only),
        "imports": lambda: measure_imports(arguments.repeat),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, job in jobs.items():
        if arguments.what in (name, "all"):
            print(f"== {name}", flush=True)
            text = json.dumps({"environment": environment(), "records": job()}, indent=1)
            (arguments.out / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
