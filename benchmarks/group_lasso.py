"""The group lasso beside adelie on cases that the other tables lack, at equal gaps of the group lasso itself.

    RIVALS/bin/python -m benchmarks.group_lasso table.json --case "squared 500x1000x10"

In one process, kernelweave and adelie in turn, five times, one thread; each at the largest of its tolerances with
which `gaps`, from the data, the multipliers and the coefficients only, finds every solution of the path within `AIM`.
Multipliers are evenly spaced in logarithm from the largest down to a share of it; the regularisation parameter of
kernelweave for each is that at which its solution has this multiplier. The first run of a case computes both.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
from scipy.optimize import brentq  # noqa: E402
from scipy.special import expit, xlogy  # noqa: E402

import kernelweave as kw  # noqa: E402

#: The gap that every solution has to reach, and rounds of both solvers.
AIM, ROUNDS = 1e-4, 5


@dataclass(frozen=True)
class Case:
    """Made-up columns, some groups with coefficients, and noise.

    Attributes
    ----------
    rows, groups, width : int
        Groups have 1 to 2 ``width`` - 1 columns where they are `unequal`.
    share : float
        The smallest multiplier, of the largest.
    correlation : float
        Of a column with the next.
    signal : float
        Variance of the signal, in units of that of the noise; labels are the signs of both together.
    true : int
        Groups with coefficients.
    """

    rows: int
    groups: int
    width: int
    share: float = 0.1
    correlation: float = 0.0
    signal: float = 1.0
    true: int = 20
    unequal: bool = False

    def make(self, loss: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Columns, where groups begin, and targets."""
        rng = np.random.default_rng(0)
        widths = np.full(self.groups, self.width)
        if self.unequal:
            widths = rng.integers(1, 2 * self.width, self.groups)
        groups = np.r_[0, np.cumsum(widths)]
        Zt = rng.standard_normal((groups[-1], self.rows))
        for j in range(1, len(Zt) if self.correlation else 0):
            Zt[j] *= np.sqrt(1.0 - self.correlation**2)
            Zt[j] += self.correlation * Zt[j - 1]
        f = np.zeros(self.rows)
        for m in rng.choice(self.groups, self.true, replace=False):
            f += rng.standard_normal(widths[m]) @ Zt[groups[m] : groups[m + 1]]
        y = f + rng.standard_normal(self.rows) * f.std() / np.sqrt(self.signal)
        return Zt.T, groups, np.where(y > 0, 1.0, -1.0) if loss == "logistic" else y


CASES = {
    "squared": {
        "500x1000x10": Case(500, 1000, 10, 0.05),
        "1000x5000x10": Case(1000, 5000, 10),
        "1000x50000x1": Case(1000, 50000, 1),
        "20000x50x40": Case(20000, 50, 40, 0.05),
        "500x500x5 signal .5": Case(500, 500, 5, signal=0.5),
        "500x500x5 correlated, signal 3, down to .01": Case(500, 500, 5, 0.01, 0.5, 3.0),
        "1000x500x5 unequal, 200 true, signal 3": Case(1000, 500, 5, 0.1, 0.0, 3.0, 200, True),
        "2000x200x10 correlated, 5 true": Case(2000, 200, 10, 0.01, 0.7, 1.0, 5),
    },
    "logistic": {
        "300x500x10": Case(300, 500, 10),
        "1000x100x10": Case(1000, 100, 10),
        "5000x50x10": Case(5000, 50, 10),
        "800x1000x5": Case(800, 1000, 5),
        "500x500x5 unequal, 100 true, signal 3": Case(500, 500, 5, 0.1, 0.0, 3.0, 100, True),
        "1000x300x5 correlated, 5 true, signal .5": Case(1000, 300, 5, 0.1, 0.7, 0.5, 5),
    },
}
POINTS = {"squared": 30, "logistic": 8}
TOLS = {
    "kernelweave": (1e-4, 7e-5, 5e-5, 3e-5, 2e-5, 1e-5),
    "adelie": (1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14),
}


def level(w: np.ndarray, groups: np.ndarray) -> float:
    """Sum of the norms of the groups."""
    return float(np.sqrt(np.add.reduceat(w * w, groups[:-1])).sum())


def gaps(loss: str, Z: Any, groups: Any, y: Any, multipliers: Any, coefs: Any) -> np.ndarray:
    """Relative gaps of the group lasso, with the best intercept for labels and none for numbers."""
    found = []
    for multiplier, w in zip(multipliers, coefs, strict=True):
        used = np.flatnonzero(w)
        f, norms = Z[:, used] @ w[used], multiplier * level(w, groups)
        if loss == "squared":
            r = y - f
            reach = np.sqrt(np.add.reduceat(np.square(Z.T @ r), groups[:-1]).max())
            b = r * np.clip(y @ r / (r @ r), -multiplier / reach, multiplier / reach)
            primal, dual = 0.5 * (r @ r) + norms, float(y @ b - 0.5 * (b @ b))
        else:
            t = brentq(lambda t, f=f: y @ expit(-y * (f + t)), -50.0, 50.0, xtol=1e-14)
            a = expit(-y * (f + t))
            a -= np.where(y == np.sign(y @ a), a, 0.0) * abs(y @ a) / max(a[y > 0].sum(), a[y < 0].sum())
            a *= min(1.0, multiplier / np.sqrt(np.add.reduceat(np.square(Z.T @ (y * a)), groups[:-1]).max()))
            primal = np.logaddexp(0.0, -y * (f + t)).sum() + norms
            dual = -float((xlogy(a, a) + xlogy(1.0 - a, 1.0 - a)).sum())
        found.append((primal - dual) / primal)
    return np.array(found)


def kernelweave(loss: str, Z: Any, groups: Any, y: Any, own: Any, tol: float) -> np.ndarray:
    """kernelweave at a relative gap of the problem of kernel weights."""
    stack = kw.FeatureStack(Z, groups)
    if loss == "squared":
        return kw.rls2_path(stack, y, own["parameters"], tol=tol).feature_coef
    return kw.solvers.svm_mkl_path(stack, y, own["parameters"], loss=loss, tol=tol).feature_coef


def adelie(loss: str, Z: Any, groups: Any, y: Any, own: Any, tol: float) -> np.ndarray:
    """The same multipliers by adelie."""
    import adelie as ad

    glm = ad.glm.gaussian(y=y, dtype=np.float64)
    if loss == "logistic":
        glm = ad.glm.binomial(y=(y > 0).astype(np.float64), dtype=np.float64)
    state = ad.grpnet(
        X=ad.matrix.dense(Z, method="naive", n_threads=1),
        glm=glm,
        groups=groups[:-1],
        penalty=np.ones(len(groups) - 1),
        lmda_path=np.array(own["multipliers"]) / len(y),
        intercept=loss == "logistic",
        early_exit=False,
        progress_bar=False,
        tol=tol,
        n_threads=1,
    )
    return state.betas.toarray()


SOLVERS = {"kernelweave": kernelweave, "adelie": adelie}


def strengths(loss: str, Z: Any, groups: Any, y: Any, share: float) -> dict[str, list[float]]:
    """Parameters of kernelweave about multipliers that are evenly spaced, and the multipliers at exact solutions."""
    centred = 0.5 * (y - y.mean()) if loss == "logistic" else y
    largest = np.sqrt(np.add.reduceat(np.square(Z.T @ centred), groups[:-1]).max())
    wanted = largest * np.geomspace(1.0, share, POINTS[loss] + 1)[1:]
    levels = np.array([level(w, groups) for w in adelie(loss, Z, groups, y, {"multipliers": wanted}, 1e-11)])
    used = levels > 0
    parameters = (wanted / levels if loss == "squared" else levels / wanted)[used]
    exact = kernelweave(loss, Z, groups, y, {"parameters": parameters}, 1e-7)
    levels = np.array([level(w, groups) for w in exact])
    multipliers = parameters * levels if loss == "squared" else levels / parameters
    return {"parameters": list(parameters), "multipliers": list(multipliers)}


def measured(loss: str, Z: Any, groups: Any, y: Any, own: Any) -> dict[str, Any]:
    """Tolerance, gap and least CPU seconds of both solvers, and the ratio of the seconds."""
    tols: dict[str, float] = {}
    found: dict[str, float] = {}
    seconds: dict[str, list[float]] = {name: [] for name in SOLVERS}
    for name, solve in SOLVERS.items():
        for tol in TOLS[name]:
            coefs = solve(loss, Z, groups, y, own, tol)
            tols[name], found[name] = tol, float(gaps(loss, Z, groups, y, own["multipliers"], coefs).max())
            if found[name] <= AIM:
                break
    for _ in range(ROUNDS):
        for name, solve in SOLVERS.items():
            start = time.process_time()
            solve(loss, Z, groups, y, own, tols[name])
            seconds[name].append(time.process_time() - start)
    record: dict[str, Any] = {
        name: {
            "tol": tols[name],
            "largest_gap": float(f"{found[name]:.2e}"),
            "cpu_seconds": round(min(seconds[name]), 3),
        }
        for name in SOLVERS
    }
    record["ratio"] = round(min(seconds["adelie"]) / min(seconds["kernelweave"]), 2)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    names = [f"{loss} {name}" for loss, cases in CASES.items() for name in cases]
    parser.add_argument("--case", choices=names, action="append")
    given = parser.parse_args()
    table = json.loads(given.table.read_text()) if given.table.exists() else {}
    for name in given.case or names:
        loss, short = name.split(" ", 1)
        case = CASES[loss][short]
        Z, groups, y = case.make(loss)
        cases = table.setdefault("cases", {})
        cases[name] = measured(loss, Z, groups, y, strengths(loss, Z, groups, y, case.share))
        print(name, cases[name], flush=True)
        given.table.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
