"""Seconds of paths and of cross-validation with every loss: ``python -m benchmarks.losses``.

One simulated table of 1,000 rows, 10 Gaussian kernels of one column each and weights on the simplex: a path over four
C to a relative gap of 1e-3, and `MKLRegressorCV` or `MKLClassifierCV` with the same C and three folds. Seconds of the
process on one thread, the least of some repetitions.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kernelweave as kw
from kernelweave.machines.losses import LOSSES

RESULTS = Path(__file__).parent / "results" / "losses.json"
N_ROWS, N_KERNELS, N_FOLDS = 1000, 10, 3
COSTS = (0.1, 1.0, 10.0, 100.0)


def least(run: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """What a call returns, and its least seconds."""
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        found = run()
        seconds.append(time.process_time() - begin)
    return found, round(min(seconds), 3)


def measured(name: str, repeats: int) -> dict[str, Any]:
    """Path and cross-validation of a loss."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_KERNELS))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - 0.5
    kind = LOSSES[name]
    y = np.sign(f + rng.normal(size=N_ROWS)) if kind.classifies else f + rng.normal(size=N_ROWS)
    if kind.linked:
        y = rng.poisson(np.exp(f)).astype(float)
    kernels = [kw.kernels.RBF(0.5).on([k]) for k in range(N_KERNELS)]
    gram = np.stack([kernel(X) for kernel in kernels], axis=-1)
    path, seconds = least(lambda: kw.solvers.svm_mkl_path(gram, y, COSTS, loss=name, tol=1e-3), repeats)
    estimator = kw.MKLClassifierCV if kind.classifies else kw.MKLRegressorCV
    learner = kw.learners.SimpleMKL(loss=name, tol=1e-3)
    model, of_folds = least(
        lambda: estimator(kernels, learner, Cs=list(COSTS), cv=N_FOLDS).fit(X, y), repeats
    )
    return {
        "path": seconds,
        "folds": of_folds,
        "worst gap": float(path.rel_gap.max()),
        "C": float(1.0 / model.alpha_),
        "kernels": int(np.count_nonzero(model.weights_)),
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--losses", nargs="*", default=list(LOSSES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    found = {}
    for name in chosen.losses:
        found[name] = measured(name, chosen.repeats)
        print(name, found[name], flush=True)
        chosen.out.write_text(
            json.dumps({"repeats": chosen.repeats, "losses": found}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
