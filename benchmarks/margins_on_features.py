"""Machines on explicit features: beside the same problem on factors of kernels, adelie's logistic group lasso, and a9a.

    python -m benchmarks.margins_on_features ours    table.json --case 2000x100x10
    python -m benchmarks.margins_on_features factors table.json --case 2000x100x10
    RIVALS/bin/python benchmarks/margins_on_features.py adelie table.json --case 2000x100x10
    KERNELWEAVE_DATA=FOLDER python -m benchmarks.margins_on_features a9a table.json

`ours` makes the strengths of adelie: the multipliers that the group lasso has at the solutions for ten C. All logistic
solutions are judged by `gaps`, the relative gap of the problem of kernel weights at C. Adelie is run at several
tolerances of its own, because these are no gaps. Runs with a name in the file take the place of earlier ones.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

#: Rows, groups, width, and the smallest and the largest C.
CASES = {
    "500x1000x10": (500, 1000, 10, 1e-3, 0.3),
    "2000x100x10": (2000, 100, 10, 1e-4, 0.1),
    "20000x50x20": (20000, 50, 20, 1e-5, 0.01),
}
POINTS = 10
LOSSES = ("logistic", "squared-hinge", "hinge")


def make(case: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns with correlation 0.5 to the next, ten groups with coefficients, one label in seven at random."""
    n, count, width, low, high = CASES[case]
    rng = np.random.default_rng(0)
    Zt = rng.standard_normal((count * width, n))
    for j in range(1, len(Zt)):
        Zt[j] *= np.sqrt(0.75)
        Zt[j] += 0.5 * Zt[j - 1]
    signal = np.zeros(n)
    for m in rng.choice(count, 10, replace=False):
        signal += rng.standard_normal(width) @ Zt[m * width : (m + 1) * width]
    y = np.where(signal + 0.5 * signal.std() * rng.standard_normal(n) > 0, 1.0, -1.0)
    return Zt.T, np.arange(0, len(Zt) + 1, width), y, np.geomspace(low, high, POINTS)


def gaps(Z: Any, groups: Any, y: Any, Cs: Any, coefs: Any, intercepts: Any) -> np.ndarray:
    """Relative gaps of logistic solutions, one row of coefficients for each C, at the best intercept and multiple."""
    from scipy.optimize import brentq, minimize_scalar
    from scipy.special import expit, xlogy

    out = []
    for C, w, start in zip(Cs, coefs, intercepts, strict=True):
        product = Z[:, np.flatnonzero(w)] @ w[np.flatnonzero(w)]

        def slope(t: float, product: Any = product) -> float:
            return float(y @ expit(-y * (product + t)))

        t = brentq(slope, start - 50.0, start + 50.0, xtol=1e-14, rtol=1e-14)
        f = product + t
        a = expit(-y * f)
        a -= np.where(y == np.sign(y @ a), a, 0.0) * abs(y @ a) / max(a[y > 0].sum(), a[y < 0].sum())
        level = np.sqrt(np.add.reduceat(w * w, groups[:-1])).sum()
        primal = C * np.logaddexp(0.0, -y * f).sum() + 0.5 * level**2
        highest = C * C * np.add.reduceat(np.square(Z.T @ (y * a)), groups[:-1]).max()

        def dual(m: float, a: Any = a, C: float = C, highest: float = highest) -> float:
            return float(
                -C * (xlogy(m * a, m * a) + xlogy(1 - m * a, 1 - m * a)).sum() - 0.5 * m * m * highest
            )

        best = minimize_scalar(
            lambda m: -dual(m), bounds=(0.0, 1.0 / a.max()), method="bounded", options={"xatol": 1e-9}
        )
        out.append(1.0 - max(dual(1.0), -best.fun) / primal)
    return np.array(out)


def ours(Z: Any, groups: Any, y: Any, own: dict[str, Any], loss: str, tol: float) -> tuple[Any, Any]:
    """kernelweave on features."""
    import kernelweave as kw

    path = kw.solvers.svm_mkl_path(kw.FeatureStack(Z, groups), y, own["Cs"], loss=loss, tol=tol)
    return path.feature_coef, path.intercept[:, 0]


def factors(Z: Any, groups: Any, y: Any, own: dict[str, Any], loss: str, tol: float) -> tuple[Any, Any]:
    """kernelweave on factors of the kernels."""
    import kernelweave as kw

    gram = kw.FeatureStack(Z, groups).gram()
    path = kw.solvers.svm_mkl_path(gram, y, own["Cs"], loss=loss, tol=tol)
    weights = np.repeat(path.weights, np.diff(groups), axis=1)
    return weights * (path.dual_coef @ Z), path.intercept[:, 0]


def adelie(Z: Any, groups: Any, y: Any, own: dict[str, Any], loss: str, tol: float) -> tuple[Any, Any]:
    """The same multipliers by adelie."""
    import adelie as ad

    state = ad.grpnet(
        X=ad.matrix.dense(Z, method="naive", n_threads=1),
        glm=ad.glm.binomial(y=(y > 0).astype(np.float64), dtype=np.float64),
        groups=groups[:-1],
        penalty=np.ones(len(groups) - 1),
        lmda_path=np.array(own["multipliers"]) / np.array(own["Cs"]) / len(y),
        intercept=True,
        early_exit=False,
        progress_bar=False,
        tol=tol,
        n_threads=1,
    )
    return state.betas.toarray(), state.intercepts


SOLVERS: dict[str, tuple[Callable[..., tuple[Any, Any]], tuple[str, ...], tuple[float, ...]]] = {
    "ours": (ours, LOSSES, (1e-3, 1e-5)),
    "factors": (factors, LOSSES, (1e-3,)),
    "adelie": (adelie, ("logistic",), (1e-7, 1e-9, 1e-11)),
}


def a9a(table: dict[str, Any]) -> None:
    """32,561 rows with the views of a9a's 14 attributes, and machines and boosting on all columns."""
    from scipy import sparse
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.svm import LinearSVC

    import kernelweave as kw
    from benchmarks.a9a import attributes, tables

    X, y, Xt, yt = tables()
    groups = attributes(X)
    S = sparse.csc_array(X)
    stack = kw.FeatureStack(S, groups)
    own = table.setdefault("a9a", {})

    def add(name: str, seconds: float, f: Any, **more: Any) -> None:
        own[name] = {
            "cpu_seconds": round(seconds, 2),
            "accuracy": round(float(np.mean(np.where(f > 0, 1, -1) == yt)), 4),
            "auc": round(float(roc_auc_score(yt, f)), 4),
            **more,
        }
        print(name, own[name], flush=True)

    for loss in LOSSES:
        for C in (0.01, 0.1, 1.0):
            start = time.process_time()
            r = kw.solve_svm_mkl(stack, y, C, loss=loss, tol=1e-4)
            seconds = time.process_time() - start
            f = Xt @ r.feature_coef + r.intercept
            add(
                f"kernelweave {loss} C={C:g}",
                seconds,
                f,
                rel_gap=float(f"{r.rel_gap:.1e}"),
                views=int((r.weights > 0).sum()),
            )
    rivals = {
        "LinearSVC squared hinge C=1": LinearSVC(C=1.0, dual=False),
        "LinearSVC hinge C=1": LinearSVC(C=1.0, loss="hinge", max_iter=20_000),
        "LogisticRegression C=1": LogisticRegression(C=1.0, max_iter=1000),
        "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
    }
    for name, model in rivals.items():
        data = X if name.startswith("Hist") else S.tocsr()
        start = time.process_time()
        model.fit(data, y)
        add(name, time.process_time() - start, model.decision_function(Xt))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("solver", choices=[*SOLVERS, "a9a"])
    parser.add_argument("table", type=Path)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--loss", choices=LOSSES, action="append")
    parser.add_argument("--tol", type=float, action="append")
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    table = json.loads(given.table.read_text()) if given.table.exists() else {}
    if given.solver == "a9a":
        a9a(table)
        given.table.write_text(json.dumps(table, indent=1) + "\n")
        return
    solve, losses, tols = SOLVERS[given.solver]
    for case in given.case or CASES:
        Z, groups, y, Cs = make(case)
        own = table.setdefault(case, {})
        own["Cs"] = list(Cs)
        if "multipliers" not in own:
            coefs, _ = ours(Z, groups, y, own, "logistic", 1e-8)
            own["multipliers"] = [float(np.sqrt(np.add.reduceat(w * w, groups[:-1])).sum()) for w in coefs]
        for loss in given.loss or losses:
            for tol in given.tol or tols:
                seconds = []
                for _ in range(given.repeats):
                    start = time.process_time()
                    coefs, intercepts = solve(Z, groups, y, own, loss, tol)
                    seconds.append(time.process_time() - start)
                record: dict[str, Any] = {"cpu_seconds": round(min(seconds), 3)}
                if loss == "logistic":
                    found = gaps(Z, groups, y, Cs, coefs, intercepts)
                    record["largest_gap"] = float(f"{found.max():.2e}")
                own[f"{given.solver} {loss} {tol:g}"] = record
                print(case, given.solver, loss, tol, record, flush=True)
                given.table.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
