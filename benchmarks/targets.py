"""Several targets with weights and alpha of their own, beside shared ones and beside himalaya.

Run ``python -m benchmarks.targets himalaya 600 50``, with rows and targets of himalaya's made-up table of three
kernels of 1,000 columns each, or ``python -m benchmarks.targets tables`` for what ``targets="auto"`` decides on small
tables over 20 splits. Results are added to ``benchmarks/results/targets.json``. Threads of BLAS are those of the
environment.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_linnerud, make_friedman1, make_friedman2, make_friedman3
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

import kernelweave as kw
from kernelweave.kernels import RBF, Laplacian, Linear

RESULTS = Path(__file__).parent / "results" / "targets.json"
SPLITS = 20
#: Kernels of the small tables.
SMALL = [
    shape.prepared("standardize") for shape in (Linear(), RBF(gamma="median"), Laplacian(gamma="median"))
]


def ours(
    X: Any, Y: np.ndarray, X_new: Any, Y_new: np.ndarray, *, linear: bool, targets: str
) -> dict[str, Any]:
    """One fit: R^2 of new rows, CPU seconds, and whether targets have their own weights."""
    start = time.process_time()
    model = kw.MKLRegressor([Linear()] if linear else SMALL, "rls2", normalize="center", targets=targets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, Y)
    seconds = time.process_time() - start
    return {
        "way": f"kernelweave, {targets}",
        "r2": float(r2_score(Y_new, model.predict(X_new))),
        "seconds": seconds,
        "own": hasattr(model, "target_alphas_"),
        "gap": model.rel_gap_,
    }


def theirs(X: np.ndarray, Y: np.ndarray, X_new: np.ndarray, Y_new: np.ndarray, ends: Any, seed: int) -> Any:
    """himalaya as in its gallery: a random search of 20 weights, 41 alphas, five folds, on NumPy."""
    from himalaya.kernel_ridge import ColumnKernelizer, Kernelizer, MultipleKernelRidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    columns = ColumnKernelizer(
        [
            (
                f"v{m}",
                make_pipeline(StandardScaler(with_std=False), Kernelizer()),
                slice(ends[m], ends[m + 1]),
            )
            for m in range(len(ends) - 1)
        ]
    )
    params = {
        "n_iter": 20,
        "alphas": np.logspace(-10, 10, 41),
        "n_targets_batch": 200,
        "n_alphas_batch": 20,
        "n_targets_batch_refit": 200,
        "progress_bar": False,
    }
    search = MultipleKernelRidgeCV(
        kernels="precomputed", solver="random_search", solver_params=params, cv=5, random_state=seed
    )
    start = time.process_time()
    model = make_pipeline(columns, search).fit(X, Y)
    seconds = time.process_time() - start
    return {"way": "himalaya", "r2": float(r2_score(Y_new, model.predict(X_new))), "seconds": seconds}


def beside_himalaya(n_rows: int, n_targets: int, seed: int, ways: list[str]) -> Iterator[dict[str, Any]]:
    """Fits on himalaya's made-up table."""
    from himalaya.utils import generate_multikernel_dataset

    X, X_new, Y, Y_new, _, widths = generate_multikernel_dataset(
        n_kernels=3, n_targets=n_targets, n_samples_train=n_rows, n_samples_test=300, random_state=seed
    )
    ends = np.r_[0, np.cumsum(widths)]

    def views(rows: np.ndarray) -> dict[str, np.ndarray]:
        return {f"v{m}": rows[:, ends[m] : ends[m + 1]].astype(float) for m in range(3)}

    for way in ways:
        if way == "himalaya":
            # in single precision, as the table is made, some of its searches fail
            record = theirs(*(one.astype(float) for one in (X, Y, X_new, Y_new)), ends, 1)
        else:
            record = ours(views(X), Y.astype(float), views(X_new), Y_new, linear=True, targets=way)
        yield {"table": "himalaya", "n_rows": n_rows, "n_targets": n_targets, "seed": seed, **record}


def small_tables(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Real and made-up tables of several targets."""
    rng = np.random.default_rng(seed)
    one, y1 = make_friedman1(150, n_features=8, noise=1.0, random_state=seed)
    four, y3 = make_friedman3(150, noise=0.1, random_state=seed)
    _, y4 = make_friedman2(150, noise=100.0, random_state=seed)
    return {
        "linnerud": load_linnerud(return_X_y=True),
        # targets of different columns
        "friedman 1 beside friedman 3": (np.column_stack([one, four]), np.column_stack([y1, y3])),
        # targets of the same columns
        "friedman 2 and 3": (four, np.column_stack([y4, y3])),
        # the same target with different noise
        "friedman 1 repeated": (one, y1[:, None] + rng.normal(size=(150, 4))),
    }


def on_tables() -> Iterator[dict[str, Any]]:
    """What every way reaches on 20 splits."""
    for seed in range(SPLITS):
        for name, (X, Y) in small_tables(seed).items():
            X_train, X_test, Y_train, Y_test = train_test_split(X, Y, test_size=0.3, random_state=seed)
            for way in ("auto", "own", "shared"):
                record = ours(X_train, Y_train, X_test, Y_test, linear=False, targets=way)
                yield {"table": name, "seed": seed, **record}


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["himalaya", "tables"])
    parser.add_argument("n_rows", type=int, nargs="?", default=600)
    parser.add_argument("n_targets", type=int, nargs="?", default=50)
    parser.add_argument("--seeds", type=int, nargs="*", default=[42])
    parser.add_argument("--ways", nargs="*", default=["auto", "himalaya"])
    given = parser.parse_args()
    parts = [on_tables()] if given.what == "tables" else []
    if given.what == "himalaya":
        parts = [beside_himalaya(given.n_rows, given.n_targets, seed, given.ways) for seed in given.seeds]
    for part in parts:
        for record in part:
            print(record, flush=True)
            before = json.loads(RESULTS.read_text())["records"] if RESULTS.exists() else []
            RESULTS.write_text(json.dumps({"records": [*before, record]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
