"""RLS2 on explicit features beside the solvers of the group lasso, whose problem it is.

    python -m benchmarks.features ours  table.json --case 500x1000x10
    RIVALS/bin/python benchmarks/features.py adelie table.json --case 500x1000x10

The first call makes the strengths: 30 multipliers of the group lasso from the largest down to a share of it, and for
each the alpha of RLS2 at its solution. Every solver gets the same data, strengths and one thread; all solutions are
judged by `gaps`, the relative gap of RLS2 at alpha. Rivals are run at several tolerances of their own, because these
are no gaps. Runs with a name in the file take the place of earlier ones.
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

#: Rows, groups, width, and the smallest multiplier as a share of the largest.
CASES = {
    "500x1000x10": (500, 1000, 10, 0.05),
    "1000x5000x10": (1000, 5000, 10, 0.1),
    "1000x50000x1": (1000, 50000, 1, 0.1),
    "20000x50x40": (20000, 50, 40, 0.05),
    "144x16063x1": (144, 16063, 1, 0.01),
    "144x100000x1": (144, 100000, 1, 0.01),
}
POINTS = 30


def make(case: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Columns with correlation 0.5 to the next, 20 groups with coefficients, three parts signal to one of noise."""
    n, count, width, share = CASES[case]
    rng = np.random.default_rng(0)
    Zt = rng.standard_normal((count * width, n))
    for j in range(1, len(Zt)):
        Zt[j] *= np.sqrt(0.75)
        Zt[j] += 0.5 * Zt[j - 1]
    signal = np.zeros(n)
    for m in rng.choice(count, 20, replace=False):
        signal += rng.standard_normal(width) @ Zt[m * width : (m + 1) * width]
    y = signal + rng.standard_normal(n) * signal.std() / np.sqrt(3.0)
    return Zt.T, np.arange(0, len(Zt) + 1, width), y, share


def gaps(
    Z: np.ndarray, groups: np.ndarray, y: np.ndarray, alphas: np.ndarray, coefs: np.ndarray
) -> np.ndarray:
    """Relative gaps of RLS2 at coefficients, one row for each alpha."""
    out = []
    for alpha, w in zip(alphas, coefs, strict=True):
        active = np.flatnonzero(w)
        r = y - Z[:, active] @ w[active]
        level = np.sqrt(np.add.reduceat(w * w, groups[:-1])).sum()
        primal = 0.5 * (r @ r) + 0.5 * alpha * level**2
        highest = np.add.reduceat(np.square(Z.T @ r), groups[:-1]).max()
        out.append(1.0 - 0.5 * (y @ r) ** 2 / (r @ r + highest / alpha) / primal)
    return np.array(out)


def ours(Z: Any, groups: Any, y: Any, strengths: dict[str, list[float]], tol: float) -> np.ndarray:
    """kernelweave at a relative gap."""
    import kernelweave as kw

    return kw.rls2_path(kw.FeatureStack(Z, groups), y, strengths["alphas"], tol=tol).feature_coef


def adelie(Z: Any, groups: Any, y: Any, strengths: dict[str, list[float]], tol: float) -> np.ndarray:
    """The same multipliers by adelie."""
    import adelie as ad

    state = ad.grpnet(
        X=ad.matrix.dense(Z, method="naive", n_threads=1),
        glm=ad.glm.gaussian(y=y, dtype=np.float64),
        groups=groups[:-1],
        penalty=np.ones(len(groups) - 1),
        lmda_path=np.array(strengths["multipliers"]) / len(y),
        intercept=False,
        early_exit=False,
        progress_bar=False,
        tol=tol,
        n_threads=1,
    )
    return state.betas.toarray()


def celer(Z: Any, groups: Any, y: Any, strengths: dict[str, list[float]], tol: float) -> np.ndarray:
    """The same multipliers by celer."""
    from celer import celer_path
    from celer.homotopy import celer_path as path

    width = int(groups[1])
    alphas = np.array(strengths["multipliers"]) / len(y)
    pb, more = ("lasso", {}) if width == 1 else ("grouplasso", {"groups": width})
    return (path or celer_path)(Z, y, pb, alphas=alphas, tol=tol, **more)[1].T


def skglm(Z: Any, groups: Any, y: Any, strengths: dict[str, list[float]], tol: float) -> np.ndarray:
    """The same multipliers by skglm, each from the solution before."""
    from skglm.datafits import Quadratic, QuadraticGroup
    from skglm.penalties import L1, WeightedGroupL2
    from skglm.solvers import AndersonCD, GroupBCD
    from skglm.utils.jit_compilation import compiled_clone

    index, starts = np.arange(Z.shape[1], dtype=np.int32), groups.astype(np.int32)
    lasso = len(groups) == Z.shape[1] + 1
    datafit = compiled_clone(Quadratic() if lasso else QuadraticGroup(starts, index))
    if lasso:
        solver = AndersonCD(tol=tol, fit_intercept=False, warm_start=True)
        penalty = compiled_clone(L1(1.0))
    else:
        solver = GroupBCD(tol=tol, fit_intercept=False, warm_start=True)
        penalty = compiled_clone(WeightedGroupL2(1.0, np.ones(len(groups) - 1), starts, index))
    w, fitted, out = np.zeros(Z.shape[1]), np.zeros(len(y)), []
    for multiplier in strengths["multipliers"]:
        penalty.alpha = multiplier / len(y)
        w, *_ = solver.solve(Z, y, datafit, penalty, w_init=w.copy(), Xw_init=fitted)
        fitted = Z @ w
        out.append(w)
    return np.array(out)


SOLVERS: dict[str, tuple[Callable[..., np.ndarray], tuple[float, ...]]] = {
    "ours": (ours, (1e-3, 1e-4, 1e-6)),
    "adelie": (adelie, (1e-7, 1e-9, 1e-11, 1e-13)),
    "celer": (celer, (1e-2, 1e-4, 1e-6)),
    "skglm": (skglm, (1e-3, 1e-5, 1e-7)),
}


def strengths_of(Z: Any, groups: Any, y: Any, share: float) -> dict[str, list[float]]:
    """Multipliers below the largest, and the alphas of RLS2 that belong to them."""
    import kernelweave as kw

    stack = kw.FeatureStack(Z, groups)
    largest = float(np.sqrt(np.add.reduceat(np.square(Z.T @ y), groups[:-1]).max()))
    wanted = largest * np.geomspace(1.0, share, POINTS + 1)[1:]
    # alpha rises with the multiplier: interpolate on a fine path, then take the multiplier of the exact solution
    grid = np.geomspace(1e4, 1e-6, 120) * float(stack.square_sums.max())
    path = kw.rls2_path(stack, y, grid, tol=1e-4, callback=lambda _, one: _level(one, groups) < wanted[-1])
    levels = np.array([_level(one, groups) for one in path.solutions])
    alphas = np.exp(np.interp(-np.log(wanted), -np.log(levels), np.log(path.alphas)))
    exact = kw.rls2_path(stack, y, alphas, tol=1e-8)
    return {"alphas": list(exact.alphas), "multipliers": [_level(one, groups) for one in exact.solutions]}


def _level(one: Any, groups: Any) -> float:
    w = np.asarray(one.feature_coef).reshape(-1)
    return float(one.alpha * np.sqrt(np.add.reduceat(w * w, groups[:-1])).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("solver", choices=SOLVERS)
    parser.add_argument("table", type=Path)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--tol", type=float, action="append")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    table = json.loads(given.table.read_text()) if given.table.exists() else {}
    solve, tols = SOLVERS[given.solver]
    for case in given.case or CASES:
        Z, groups, y, share = make(case)
        own = table.setdefault(case, {})
        if "strengths" not in own:
            own["strengths"] = strengths_of(Z, groups, y, share)
        alphas = np.array(own["strengths"]["alphas"])
        for tol in given.tol or tols:
            seconds, coefs = [], np.empty(0)
            for _ in range(given.repeats):
                start = time.process_time()
                coefs = solve(Z, groups, y, own["strengths"], tol)
                seconds.append(time.process_time() - start)
            found = gaps(Z, groups, y, alphas, coefs)
            record = {
                "cpu_seconds": round(min(seconds), 3),
                "largest_gap": float(f"{found.max():.2e}"),
                "median_gap": float(f"{np.median(found):.2e}"),
            }
            own[f"{given.solver} {tol:g}"] = record
            print(case, given.solver, tol, record, flush=True)
            given.table.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
