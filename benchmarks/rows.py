"""Regression on rows in files that exceed the memory they may take, beside rivals, and the same sums by other ways.

    python -m benchmarks.rows make 1000000 --folder data
    python -m benchmarks.rows fit linear 1000000 --folder data --out rows.json
    RIVALS/bin/python benchmarks/rows.py fit adelie 100000 --folder data --out rows.json
    python -m benchmarks.rows ways 100000 --folder data --out rows.json
    python -m benchmarks.rows workers 200000 --folder data --out rows.json
    python -m benchmarks.rows wide 100 20000 --folder data --out rows.json

The made-up table has 20 views of 10 columns, float32, in Parquet files of 50,000 rows; the target depends on five
views linearly and on two by the lengths of their rows. 20,000 further rows are for the test. Every fit is a process
of its own with one thread; recorded are seconds of the processor and by the clock, from files to test predictions,
the largest resident size, and R2 on the test rows. Those with a regularisation parameter choose it from 30 by five
folds (ridge on Nystroem features: by leaving one out), SGD and boosting have none. `ways` adds up the same rows in one
chunk, in chunks, in 64 files that are merged, and with Dask on two workers of which one is killed; `workers` times one
worker of Dask beside two. `wide` writes sums of many columns, here 20,000, over 1.2 rows for each, and measures a path
of 30 regularisation parameters on blocks of some width, here 100, from the sums in their file (Linux).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

VIEWS, WIDTH, PER_FILE, TEST = 20, 10, 50_000, 20_000
COLUMNS = [f"v{m:02d}_{j}" for m in range(VIEWS) for j in range(WIDTH)]
GROUPS = np.arange(0, VIEWS * WIDTH + 1, WIDTH)
#: Memory for chunks and sums.
BUDGET = "512MB"
#: Random features of each view beside its columns.
RANDOM = 20


def rows_of(first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Some rows, the same whatever is asked for at a time if `first` is a multiple of the rows of a file."""
    rng = np.random.default_rng([first, 7])
    Z = rng.standard_normal((count, VIEWS * WIDTH), dtype=np.float32)
    # columns of a view are correlated
    for m in range(VIEWS):
        Z[:, m * WIDTH : (m + 1) * WIDTH] += 0.7 * rng.standard_normal((count, 1), dtype=np.float32)
    truth = np.random.default_rng(0)
    w = np.zeros(VIEWS * WIDTH)
    w[: 5 * WIDTH] = truth.normal(size=5 * WIDTH) / np.sqrt(5 * WIDTH)
    f = Z @ w
    for m in (5, 6):
        f += np.square(Z[:, m * WIDTH : (m + 1) * WIDTH]).mean(axis=1)
    return Z, f + 0.7 * rng.standard_normal(count)


def make(n: int, folder: Path, target: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
    """Write Parquet files of training rows, and one of test rows; `target` makes targets of the numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    jobs = [(first, min(PER_FILE, n - first), folder / str(n)) for first in range(0, n, PER_FILE)]
    for first, count, where in [*jobs, (10**9, TEST, folder / "test")]:
        where.mkdir(exist_ok=True, parents=True)
        Z, y = rows_of(first, count)
        arrays = [pa.array(Z[:, j]) for j in range(Z.shape[1])]
        table = pa.table([*arrays, pa.array(y if target is None else target(y))], names=[*COLUMNS, "y"])
        pq.write_table(table, where / f"{first:010d}.parquet", row_group_size=10_000, compression=None)


def chunks(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of a folder in chunks, for rivals."""
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=10_000):
            yield np.column_stack([c.to_numpy() for c in batch.columns[:-1]]), batch.columns[-1].to_numpy()


def in_memory(folder: Path, dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a folder."""
    count = sum(len(y) for _, y in chunks(folder))
    Z, y, at = np.empty((count, len(COLUMNS)), dtype=dtype, order="F"), np.empty(count), 0
    for part, targets in chunks(folder):
        Z[at : at + len(targets)], y[at : at + len(targets)] = part, targets
        at += len(targets)
    return Z, y


# ---- fits: from folders to predictions of the test rows --------------------------------------------


class Random:
    """The columns of each view, and cosines of random projections of them."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.W = rng.normal(size=(VIEWS, WIDTH, RANDOM // 2)).astype(np.float32)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        parts = []
        for m in range(VIEWS):
            own = X[:, m * WIDTH : (m + 1) * WIDTH]
            angles = (own @ self.W[m]) * np.float32(0.25)
            parts += [own, np.cos(angles), np.sin(angles)]
        return np.hstack(parts)


def ours(train: Path, test: Path, features: Any, groups: Any) -> tuple[np.ndarray, dict[str, Any]]:
    import kernelweave as kw

    start = time.process_time()
    options = {"columns": COLUMNS, "features": features, "progress": False}
    folds = kw.rows.block_statistics(train, target="y", groups=groups, folds=5, max_memory=BUDGET, **options)
    middle = time.process_time()
    scale = 1.0 / folds.total.mean_diagonals(centered=True)
    found = kw.rows.rls2_path_cv(folds, n_alphas=30, scale=scale)
    more = {
        "cpu_seconds_of_sums": round(middle - start, 2),
        "cpu_seconds_of_path_and_folds": round(time.process_time() - middle, 2),
        "largest_gap": float(f"{found.path.rel_gap.max():.1e}"),
        "kernels": int(np.count_nonzero(found.best.weights > 1e-3)),
    }
    return kw.rows.predict_rows(found.best, test, max_memory=BUDGET, **options), more


def linear(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    return ours(train, test, None, GROUPS)


def random_features(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    # a block of columns and a block of random features for each view
    ends = np.cumsum([0, *[WIDTH, RANDOM] * VIEWS])
    return ours(train, test, Random(), ends)


def nystroem(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline

    Z, y = in_memory(train)
    model = make_pipeline(
        Nystroem(gamma=0.5 / Z.shape[1], n_components=300, random_state=0),
        RidgeCV(np.geomspace(1e-4, 1e4, 30), cv=None),
    )
    return model.fit(Z, y).predict(in_memory(test)[0]), {}


def sgd(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    from sklearn.linear_model import SGDRegressor

    features = Random()
    model = SGDRegressor(alpha=1e-5, learning_rate="invscaling", eta0=0.002, random_state=0)
    for _ in range(3):
        for Z, y in chunks(train):
            model.partial_fit(features(Z), y)
    return np.concatenate([model.predict(features(Z)) for Z, _ in chunks(test)]), {}


def boosting(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(random_state=0)
    return model.fit(*in_memory(train)).predict(in_memory(test)[0]), {}


def adelie(train: Path, test: Path) -> tuple[np.ndarray, dict[str, Any]]:
    import adelie as ad

    Z, y = in_memory(train, np.float64)
    scale = Z.std(axis=0)
    Z /= scale
    found = ad.cv_grpnet(
        X=Z,
        glm=ad.glm.gaussian(y=y, dtype=np.float64),
        groups=GROUPS[:-1],
        lmda_path_size=30,
        min_ratio=1e-3,
        n_folds=5,
        n_threads=1,
        progress_bar=False,
        seed=0,
    )
    best = found.fit(Z, ad.glm.gaussian(y=y, dtype=np.float64), groups=GROUPS[:-1], progress_bar=False)
    coef, intercept = best.betas[-1].toarray().ravel(), best.intercepts[-1]
    return (in_memory(test)[0] / scale) @ coef + intercept, {}


#: From folders of training and test rows to predictions of these, and further entries of the record.
Fit = Callable[[Path, Path], tuple[np.ndarray, dict[str, Any]]]

FITS: dict[str, Fit] = {
    "linear": linear,
    "random features": random_features,
    "nystroem + ridge": nystroem,
    "sgd": sgd,
    "boosting": boosting,
    "adelie": adelie,
}


def scores(y: np.ndarray, f: np.ndarray) -> dict[str, float]:
    """R2 of predictions."""
    return {"r2": round(1.0 - float(np.square(y - f).sum() / np.square(y - y.mean()).sum()), 4)}


def fit(
    name: str,
    n: int,
    folder: Path,
    fits: dict[str, Fit] = FITS,
    score: Callable[[np.ndarray, np.ndarray], dict[str, float]] = scores,
) -> dict[str, Any]:
    """One fit in this process."""
    before, start = time.process_time(), time.perf_counter()
    f, more = fits[name](folder / str(n), folder / "test")
    seconds, clock = time.process_time() - before, time.perf_counter() - start
    y = np.concatenate([y for _, y in chunks(folder / "test")])
    return {
        "fit": name,
        "rows": n,
        "cpu_seconds": round(seconds, 2),
        "seconds": round(clock, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **score(y, f),
        **more,
    }


def fits_apart(
    program: list[str], names: list[str], n: int, folder: Path, table: dict[str, Any]
) -> dict[str, Any]:
    """The table with records of some fits, each by ``program here NAME N`` in a process of its own."""
    for name in names:
        command = [sys.executable, *program, "here", name, str(n), "--folder", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            record = json.loads(done.stdout.splitlines()[-1])
        else:
            record = {"fit": name, "rows": n, "failed": done.stderr.strip().splitlines()[-1:]}
        print(record, flush=True)
        kept = [one for one in table["fits"] if (one["fit"], one["rows"]) != (name, n)]
        table["fits"] = [*kept, record]
    return table


# ---- the same sums by other ways ------------------------------------------------------------------


def ways(n: int, folder: Path) -> dict[str, Any]:
    """Objectives of the same path after one chunk, chunks, files that are merged, and Dask."""
    import kernelweave as kw

    Z, y = in_memory(folder / str(n))
    whole = kw.BlockStatistics(GROUPS).add(Z, y)
    alphas = np.geomspace(1e-1, 1e-4, 10) * n
    options = {"alphas": alphas, "tol": 1e-12, "fit_intercept": True}
    wanted = kw.rls2_path(whole, **options)
    out: dict[str, Any] = {"rows": n}

    def differ(name: str, found: Any) -> None:
        path = kw.rls2_path(found, **options)
        out[name] = float(f"{np.abs(path.primal / wanted.primal - 1.0).max():.1e}")
        print(name, out[name], flush=True)

    differ("chunks", kw.rows.block_statistics(folder / str(n), target="y", groups=GROUPS, columns=COLUMNS))
    parts = folder / "parts"
    parts.mkdir(exist_ok=True)
    for k in range(64):
        kw.BlockStatistics(GROUPS).add(Z[k::64], y[k::64]).save(parts / f"{k:02d}.npz")
    differ("64 files merged", kw.BlockStatistics.from_files(parts))
    short = kw.rls2_path(
        kw.FeatureStack(Z - Z.mean(axis=0, dtype=float), GROUPS), y - y.mean(), alphas[:3], tol=1e-8
    )
    gap = short.gap + wanted.gap[:3]
    out["rows in memory, in gaps"] = round(float(np.max(np.abs(short.primal - wanted.primal[:3]) / gap)), 3)
    out |= _with_dask(n, Z, y, differ)
    return out


def _heavy(Z: np.ndarray) -> np.ndarray:
    """Random features, so that sums take longer than their transport."""
    return Random()(Z)


def _with_dask(n: int, Z: np.ndarray, y: np.ndarray, differ: Callable[[str, Any], None]) -> dict[str, Any]:
    import dask.array as da
    from distributed import Client, LocalCluster

    import kernelweave as kw

    out: dict[str, Any] = {}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        rows = da.from_array(Z, chunks=(n // 40, -1))
        differ("dask, two workers", kw.rows.block_statistics(rows, y, groups=GROUPS))
        victim = next(iter(client.run(os.getpid).values()))
        threading.Timer(0.5, os.kill, (victim, signal.SIGKILL)).start()
        differ("dask, one of two killed", kw.rows.block_statistics(rows, y, groups=GROUPS, features=_slow))
        try:
            os.kill(victim, 0)
            out["killed"] = False
        except ProcessLookupError:
            out["killed"] = True
    return out


def workers(n: int, repeats: int = 2) -> dict[str, Any]:
    """Seconds of the sums of 600 columns on one worker and on two, in blocks of 10,000 rows that lie there."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    import kernelweave as kw

    ends = np.cumsum([0, *[WIDTH, RANDOM] * VIEWS])
    size = 10_000
    seconds: dict[int, list[float]] = {1: [], 2: []}
    busiest: dict[int, list[float]] = {1: [], 2: []}
    for count in (1, 2) * repeats:
        with (
            LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            blocks = [
                da.from_delayed(_block(k, size), (size, len(COLUMNS) + 1), np.float64)
                for k in range(n // size)
            ]
            rows = da.concatenate(blocks).persist()
            wait(rows)
            before = client.run(_warm)
            start = time.perf_counter()
            kw.rows.block_statistics(rows[:, :-1], rows[:, -1], groups=ends, features=_heavy)
            seconds[count].append(time.perf_counter() - start)
            after = client.run(time.process_time)
            busiest[count].append(max(after[worker] - before[worker] for worker in before))
    return {
        "rows": n,
        "seconds with 1 and 2 workers": [[round(s, 2) for s in v] for v in seconds.values()],
        "cpu seconds of the busiest worker": [[round(s, 2) for s in v] for v in busiest.values()],
        # of the clock where nothing else runs, of the processor elsewhere
        "times faster, by the clock": round(min(seconds[1]) / min(seconds[2]), 2),
        "times faster, by the processor": round(min(busiest[1]) / min(busiest[2]), 2),
    }


# ---- many columns: the memory of a path from sums in a file -----------------------------------------


def write_sums(p: int, path: Path) -> None:
    """Sums over rows of columns that are correlated by hundreds, of which a tenth have a part in the target."""
    import kernelweave as kw

    rng, sets = np.random.default_rng(0), p // 100
    w = rng.normal(size=p) * np.repeat(rng.random(sets) < 0.1, 100)
    found = kw.BlockStatistics([0, p])
    for first in range(0, p + p // 5, 1000):
        Z = rng.normal(size=(min(1000, p + p // 5 - first), p))
        Z += 0.5 * np.repeat(rng.normal(size=(len(Z), sets)), 100, axis=1)
        found.add(Z, Z @ w + rng.normal(size=len(Z)) * np.linalg.norm(w))
    found.save(path)


def _status() -> dict[str, float]:
    """Resident sizes of this process in GB."""
    lines = (line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(text.split()[0]) * 1024 / 1e9 for name, text in lines if name in ("VmHWM", "RssAnon")}


def wide(width: int, p: int, folder: Path) -> dict[str, Any]:
    """Memory and time of a path, from reading on, of this process."""
    import kernelweave as kw

    path = folder / f"sums-{p}.npz"
    kw.rls2_path(kw.BlockStatistics([0, 2]).add(np.eye(3)[:, :2], np.ones(3)), n_alphas=2)
    before, anonymous = _status(), [0.0]

    def watch() -> None:
        while True:
            anonymous[0] = max(anonymous[0], _status()["RssAnon"])
            time.sleep(0.01)

    threading.Thread(target=watch, daemon=True).start()
    start = time.process_time()
    sums = kw.BlockStatistics.load(path, mmap_mode="r")
    sums.groups = np.arange(0, p + 1, width)
    found = kw.rls2_path(sums, n_alphas=30, tol=1e-4, fit_intercept=True)
    peak, square = _status()["VmHWM"], 8 * p * p / 1e9
    return {
        "columns": p,
        "width": width,
        "alphas": len(found),
        "cpu_seconds": round(time.process_time() - start, 1),
        "peak_gb": round(peak, 2),
        "anonymous_gb": round(anonymous[0], 2),
        "beyond_imports_over_square": round((peak - before["VmHWM"]) / square, 2),
        "largest_gap": float(f"{found.rel_gap.max():.1e}"),
        "blocks_at_the_end": int(np.count_nonzero(found.weights[-1])),
    }


def _block(k: int, size: int) -> Any:
    import dask

    return dask.delayed(_made)(k, size)


def _made(k: int, size: int) -> np.ndarray:
    return np.column_stack(rows_of(PER_FILE * k, size))


def _warm() -> float:
    """Imports and first uses of the tasks, and the seconds of this process so far."""
    import kernelweave as kw
    from kernelweave._threads import one_blas_thread_each

    Z, y = rows_of(0, 1000)
    with one_blas_thread_each():
        kw.rows.block_statistics(Z, y, features=_heavy, progress=False)
    return time.process_time()


def _slow(Z: np.ndarray) -> np.ndarray:
    time.sleep(0.1)
    return Z


def arguments(about: str | None, *more: str) -> argparse.Namespace:
    """What the command line says: ``make``, ``fit``, ``here`` or more, names, and folders."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "fit", "here", *more])
    parser.add_argument("names", nargs="*", help="of fits, and a number of rows")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> None:
    given = arguments(__doc__, "ways", "workers", "wide")
    n = int(given.names[-1])
    if given.what == "make":
        make(n, given.folder)
        return
    if given.what == "here":
        print(json.dumps(fit(given.names[0], n, given.folder)))
        return
    if given.what == "wide" and given.out is None:
        print(json.dumps(wide(int(given.names[0]), n, given.folder)))
        return
    table = json.loads(given.out.read_text()) if given.out.exists() else {"fits": []}
    if given.what == "ways":
        table["ways"] = ways(n, given.folder)
    if given.what == "wide":
        if not (given.folder / f"sums-{n}.npz").exists():
            write_sums(n, given.folder / f"sums-{n}.npz")
        command = [sys.executable, __file__, "wide", *given.names, "--folder", str(given.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        table.setdefault("wide", []).append(json.loads(done.stdout))
    if given.what == "workers":
        table["workers"] = workers(n)
    if given.what == "fit":
        fits_apart([__file__], given.names[:-1], n, given.folder, table)
    given.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
