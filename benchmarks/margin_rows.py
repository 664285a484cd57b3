"""Logistic loss and hinge on rows in files that exceed the memory they may take, beside rivals.

    python -m benchmarks.margin_rows make 1000000 --folder data
    python -m benchmarks.margin_rows fit logistic hinge sgd-log sgd-hinge boosting 100000 --folder data --out rows.json
    KERNELWEAVE_DATA=FOLDER python -m benchmarks.margin_rows a9a --folder data --out rows.json

The table of `benchmarks.rows`, 20 views of 10 columns, whose target becomes a label at its middle; 20,000 further rows
are for the test. `logistic`, `squared-hinge` and `hinge` are paths of ten C to a gap of 1e-4, of which the last stage
takes the one with the most right test rows; `cv` chooses it by five folds instead. Every fit is a process of its own
with one thread; recorded are seconds of the processor and by the clock, from files to test predictions, the largest
resident size, accuracy and AUC. `a9a` solves a9a in chunks and in memory.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from benchmarks.a9a import attributes, tables  # noqa: E402
from benchmarks.rows import (  # noqa: E402
    BUDGET,
    COLUMNS,
    GROUPS,
    Fit,
    arguments,
    chunks,
    fit,
    fits_apart,
    in_memory,
    make,
)

#: The target above which labels are 1: about the mean.
MIDDLE = 3.0
#: C times the number of rows.
STRENGTHS = np.geomspace(0.1, 1000.0, 10)
TOL = 1e-4


def label(y: np.ndarray) -> np.ndarray:
    """Labels of targets."""
    return np.where(y > MIDDLE, 1.0, -1.0)


def auc(y: np.ndarray, f: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(y, f))


def labels(folder: Path) -> np.ndarray:
    return np.concatenate([y for _, y in chunks(folder)])


def path_of(loss: str, train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    import kernelweave as kw

    start = time.process_time()
    rows = kw.RowFeatures(
        train, target="y", groups=GROUPS, columns=COLUMNS, max_memory=BUDGET, progress=False
    )
    first = time.process_time() - start
    path = kw.solvers.svm_mkl_path(rows, None, STRENGTHS / rows.n_samples, loss=loss, tol=TOL)
    f = kw.rows.predict_rows(path, test, columns=COLUMNS, max_memory=BUDGET, progress=False)
    y = labels(test)
    right = [float(np.mean((own > 0) == (y > 0))) for own in f.T]
    best = int(np.argmax(right))
    return f[:, best], {
        "cpu_seconds_of_first_pass": round(first, 2),
        "largest_gap": float(f"{path.rel_gap.max():.1e}"),
        "passes": int(path.n_iter.max()) + 1,
        "C_times_rows": round(float(rows.n_samples / path.alphas[best]), 3),
        "kernels": int(np.count_nonzero(path.at(best).weights > 1e-3)),
    }


def logistic(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    return path_of("logistic", train, test)


def squared_hinge(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    return path_of("squared-hinge", train, test)


def hinge(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    return path_of("hinge", train, test)


def cv(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    import kernelweave as kw

    rows = kw.RowFeatures(train, target="y", groups=GROUPS, columns=COLUMNS, max_memory="2GB", progress=False)
    found = kw.rows.svm_mkl_path_cv(rows, STRENGTHS / rows.n_samples, loss="logistic", folds=5, tol=1e-3)
    f = kw.rows.predict_rows(found.best, test, columns=COLUMNS, max_memory=BUDGET, progress=False)
    return f, {
        "largest_gap": float(f"{found.path.rel_gap.max():.1e}"),
        "accuracy_of_folds": round(float(found.mean_accuracy[found.best_index]), 4),
        "C_times_rows": round(float(rows.n_samples * found.C), 3),
    }


def _sgd(loss: str, train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(loss=loss, alpha=1e-5, average=True, random_state=0)
    for _ in range(5):
        for Z, y in chunks(train):
            model.partial_fit(Z, y, classes=[-1.0, 1.0])
    return np.concatenate([model.decision_function(Z) for Z, _ in chunks(test)]), {}


def sgd_log(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    return _sgd("log_loss", train, test)


def sgd_hinge(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    return _sgd("hinge", train, test)


def boosting(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0).fit(*in_memory(train))
    return model.decision_function(in_memory(test)[0]), {}


FITS: dict[str, Fit] = {
    "logistic": logistic,
    "squared-hinge": squared_hinge,
    "hinge": hinge,
    "cv": cv,
    "sgd-log": sgd_log,
    "sgd-hinge": sgd_hinge,
    "boosting": boosting,
}


def scores(y: np.ndarray, f: np.ndarray) -> dict[str, float]:
    """Accuracy and AUC."""
    return {"accuracy": round(float(np.mean((f > 0) == (y > 0))), 4), "auc": round(auc(y, f), 4)}


# ---- a9a ------------------------------------------------------------------------------------------


def a9a() -> list[dict[str, Any]]:
    """All rows of a9a in chunks of 2,000, beside the same rows in memory."""
    import kernelweave as kw

    X, y, Xt, yt = tables()
    groups = attributes(X)

    def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for first in range(0, len(y), 2000):
            yield X[first : first + 2000], y[first : first + 2000]

    out = []
    Cs = np.geomspace(1e-3, 1.0, 10)
    for loss in ("logistic", "squared-hinge", "hinge"):
        start = time.process_time()
        rows = kw.RowFeatures(parts, groups=groups, max_memory="64MB", progress=False)
        path = kw.solvers.svm_mkl_path(rows, None, Cs, loss=loss, tol=TOL)
        seconds = time.process_time() - start
        start = time.process_time()
        held = kw.solvers.svm_mkl_path(kw.FeatureStack(X, groups), y, Cs, loss=loss, tol=TOL)
        within = np.abs(path.primal - held.primal) / (path.gap + held.gap)
        f = Xt @ path.feature_coef[-1] + path.intercept[-1, 0]
        out.append(
            {
                "loss": loss,
                "cpu_seconds": round(seconds, 2),
                "cpu_seconds_in_memory": round(time.process_time() - start, 2),
                "passes": int(path.n_iter.max()) + 1,
                "largest_gap": float(f"{path.rel_gap.max():.1e}"),
                "objectives_differ_by_gaps": round(float(within.max()), 3),
                **scores(yt, f),
            }
        )
        print(out[-1], flush=True)
    return out


def main() -> None:
    given = arguments(__doc__, "a9a")
    if given.what == "make":
        make(int(given.names[-1]), given.folder, label)
        return
    if given.what == "here":
        print(json.dumps(fit(given.names[0], int(given.names[-1]), given.folder, FITS, scores)))
        return
    table = json.loads(given.out.read_text()) if given.out.exists() else {"fits": []}
    if given.what == "a9a":
        table["a9a"] = a9a()
    else:
        n = int(given.names[-1])
        fits_apart(["-m", "benchmarks.margin_rows"], given.names[:-1], n, given.folder, table)
    given.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
