"""Random features of gene sets: the protocol of scMKL, beside scMKL itself.

    RIVALS/bin/python benchmarks/gene_sets.py theirs table.json --splits 0 1 --folder FOLDER
    python -m benchmarks.gene_sets ours   table.json
    python -m benchmarks.gene_sets solver table.json --folder FOLDER

20,000 cells with counts of 4,000 genes, 50 overlapping gene sets, two classes; 10 splits into 80 and 20 %, 10
sparsities, and for every set the cosines and sines of 100 random projections. The counts are made up,
because no table of single cells can be had where this was run: what they show is time and accuracy of two programs on
the same problem, and nothing about biology.

`theirs` runs scMKL as its documentation says (`create_adata`, `estimate_sigma`, `calculate_z`, `run`) with its own
sparsities, and writes the multipliers of its group lasso and the alphas of RLS2 that belong to its solutions; of the
first split it also keeps features and coefficients in FOLDER. `ours` makes features of its own, as many, and solves the
path of those alphas, on the same splits; a split that scMKL was not run on has the geometric means of the alphas.
`solver` solves on the features of scMKL, and judges both solutions by one function, `gaps`. Every run has one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402

CELLS, GENES, SETS, SPLITS = 20_000, 4000, 50, 10
#: Random projections of a set, whose cosines and sines are the features: the least that scMKL takes by itself. Its rule
#: for so many cells gives 324.
PROJECTIONS = 100
#: Alphas of RLS2 whose multipliers are near scMKL's sparsities, where scMKL was not run.
ALPHAS = (25.07, 17.96, 13.34, 9.512, 6.473, 3.975, 2.054, 0.871, 0.28, 0.0103)


def make(n: int = CELLS) -> tuple[sparse.csr_array, list[np.ndarray], np.ndarray]:
    """Log counts (cells, genes), the genes of every set, and labels that five sets decide, two of them by a product.

    Sets have 32 to 200 genes, as many have 200, and a third of a set's genes follow its activity, which differs from
    cell to cell. Counts are Poisson about a gamma mean with the depth of the cell; about one in four is not zero.
    """
    rng = np.random.default_rng(0)
    sizes = np.minimum(rng.integers(32, 280, size=SETS), 200)
    sets = [np.sort(rng.choice(GENES, size, replace=False)) for size in sizes]
    loadings = np.zeros((SETS, GENES))
    for m, genes in enumerate(sets):
        own = rng.choice(genes, len(genes) // 3, replace=False)
        loadings[m, own] = rng.normal(scale=0.4, size=len(own))
    level = rng.normal(-1.8, 1.2, size=GENES)
    activity = rng.standard_normal((n, SETS)) + 0.5 * rng.standard_normal((n, 1))
    parts = []
    for first in range(0, n, 1000):
        some = activity[first : first + 1000]
        mean = np.exp(level + some @ loadings + 0.3 * rng.standard_normal((len(some), 1)))
        counts = rng.poisson(mean * rng.gamma(2.0, 0.5, size=mean.shape))
        parts.append(sparse.csr_array(np.log1p(counts.astype(np.float32))))
    a = activity
    score = a[:, 0] - a[:, 1] + 0.7 * a[:, 2] + 1.2 * a[:, 3] * a[:, 4]
    labels = np.where(score + 0.5 * rng.standard_normal(n) > np.median(score), 1, -1)
    return sparse.csr_array(sparse.vstack(parts)), sets, labels


def split(labels: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows, four to one within the classes."""
    rng = np.random.default_rng([k, 1])
    train = np.zeros(len(labels), dtype=bool)
    for label in (-1, 1):
        own = np.flatnonzero(labels == label)
        train[rng.choice(own, int(0.8 * len(own)), replace=False)] = True
    return np.flatnonzero(train), np.flatnonzero(~train)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def theirs(own: dict[str, Any], splits: list[int], folder: Path, write: Any) -> None:
    """scMKL as it is documented."""
    import scmkl

    X, sets, labels = make()
    X = sparse.csc_matrix(X)
    names = np.array([f"g{j}" for j in range(GENES)])
    own["n_projections"] = PROJECTIONS
    for k in splits:
        train, _ = split(labels, k)
        where = np.full(CELLS, "test", dtype="U5")
        where[train] = "train"
        groups = {f"set {m:02d}": names[genes] for m, genes in enumerate(sets)}
        times, clock = [time.process_time()], time.perf_counter()
        adata = scmkl.create_adata(
            X,
            names,
            np.where(labels > 0, "a", "b"),
            groups,
            split_data=where,
            D=PROJECTIONS,
            random_state=k + 1,
        )
        adata = scmkl.estimate_sigma(adata)
        times.append(time.process_time())
        adata = scmkl.calculate_z(adata)
        times.append(time.process_time())
        print(k, "features", np.diff(times), _peak(), flush=True)
        alphas = np.round(np.linspace(1.9, 0.05, 10), 2)
        found: dict[str, dict[float, Any]] = {"Models": {}, "Metrics": {}, "Selected_groups": {}}
        seconds = []
        for alpha in alphas:
            # `run` fits one sparsity after another and returns at the end: one call each loses nothing
            start = time.process_time()
            one = scmkl.run(adata, np.array([alpha]), metrics=["AUROC"])
            seconds.append(round(time.process_time() - start, 1))
            for key, values in found.items():
                values.update(one[key])
            print(k, alpha, seconds[-1], one["Metrics"], _peak(), flush=True)
        times.append(time.process_time())
        Z = adata.uns["Z_train"]
        y = np.where(adata.obs["labels"].iloc[adata.uns["train_indices"]] == "a", 1.0, -1.0)
        largest = float(np.abs(Z.T @ y).max())
        width = 2 * own["n_projections"]
        coefs = [np.asarray(found["Models"][a].coef_).ravel() for a in alphas]
        sums = [float(np.linalg.norm(w.reshape(-1, width), axis=1).sum()) for w in coefs]
        record = {
            "cpu_seconds": round(times[-1] - times[0], 1),
            "seconds": round(time.perf_counter() - clock, 1),
            "cpu_seconds_of_widths": round(times[1] - times[0], 1),
            "cpu_seconds_of_features": round(times[2] - times[1], 1),
            "cpu_seconds_of_ten_fits": round(times[3] - times[2], 1),
            "cpu_seconds_of_each_fit": seconds,
            "auc": [round(float(found["Metrics"][a]["AUROC"]), 4) for a in alphas],
            "groups": [len(found["Selected_groups"][a]) for a in alphas],
            "sparsities": alphas.tolist(),
            "multipliers": [float(a * largest) for a in alphas],
            "alphas": [float(a * largest / s) if s else None for a, s in zip(alphas, sums, strict=True)],
            "peak_mib": _peak(),
        }
        own.setdefault("splits", {})[str(k)] = record
        write()
        print(k, record, flush=True)
        if k == 0:
            np.savez(folder / "theirs.npz", y=y, coefs=np.array(coefs, dtype=np.float64))
            np.save(folder / "theirs-train.npy", Z)


def features(
    X: sparse.csc_array, sets: list[np.ndarray], train: np.ndarray, test: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Centred random features (cells, features) of training and test rows, all numbers from training rows.

    Kernels have the widths of scMKL: with the mean distance s of cells ``exp(-d^2 / (8 s^2))``, on standardised genes.
    """
    from scipy.spatial.distance import pdist

    from kernelweave.kernels import RBF, RandomFeatures, approximate

    width = 2 * PROJECTIONS
    out = [np.empty((len(rows), width * len(sets)), np.float32, order="F") for rows in (train, test)]
    for m, genes in enumerate(sets):
        own = X[:, genes].toarray().astype(np.float64)
        rows = own[train]
        drawn = np.random.default_rng([seed, m]).choice(len(train), 500, replace=False)
        spread = rows.std(axis=0)
        distance = pdist((rows[drawn] - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)).mean()
        rule = RandomFeatures(width, random_state=100 * seed + m)
        kernel = approximate(RBF(gamma=0.125 / distance**2).prepared("standardize"), rule).fitted(rows)
        mean = None
        for part, Z in zip((rows, own[test]), out, strict=True):
            phi = kernel.transform(part)
            mean = phi.mean(axis=0) if mean is None else mean
            Z[:, m * width : (m + 1) * width] = phi - mean
    return out[0], out[1]


def alphas_of(table: dict[str, Any], k: int) -> np.ndarray:
    """The alphas of RLS2 at the solutions of scMKL for a split; of one it was not run on, geometric means."""
    known = table.get("scMKL", {}).get("splits")
    if not known:
        return np.array(ALPHAS)
    chosen = [known[str(k)]] if str(k) in known else list(known.values())
    return np.exp(np.mean([np.log(one["alphas"]) for one in chosen], axis=0))


def ours(table: dict[str, Any], splits: list[int], write: Any, tol: float) -> None:
    """The same protocol with kernelweave."""
    from sklearn.metrics import roc_auc_score

    import kernelweave as kw

    X, sets, labels = make()
    X = sparse.csc_array(X)
    own = table.setdefault(f"kernelweave, gap {tol:g}", {})
    for k in splits:
        train, test = split(labels, k)
        clock, times = time.perf_counter(), [time.process_time()]
        Z, Z_test = features(X, sets, train, test, k)
        times.append(time.process_time())
        y = labels[train] - labels[train].mean()
        groups = np.arange(0, Z.shape[1] + 1, 2 * PROJECTIONS)
        path = kw.rls2_path(kw.FeatureStack(Z, groups), y, alphas_of(table, k), tol=tol)
        largest = float(np.abs(Z.T @ y.astype(np.float32)).max())
        norms = [np.sqrt(np.add.reduceat(np.square(w), groups[:-1])).sum() for w in path.feature_coef]
        f = Z_test @ path.feature_coef.T.astype(np.float32)
        auc = [float(roc_auc_score(labels[test], one)) for one in f.T]
        times.append(time.process_time())
        record = {
            "cpu_seconds": round(times[-1] - times[0], 1),
            "seconds": round(time.perf_counter() - clock, 1),
            "cpu_seconds_of_features": round(times[1] - times[0], 1),
            "cpu_seconds_of_the_path": round(times[2] - times[1], 1),
            "auc": [round(one, 4) for one in auc],
            "groups": [int(np.count_nonzero(one)) for one in path.weights],
            "sparsities": [round(float(a * b / largest), 3) for a, b in zip(path.alphas, norms, strict=True)],
            "largest_gap": float(f"{path.rel_gap.max():.1e}"),
            "peak_mib": _peak(),
        }
        own[str(k)] = record
        write()
        print(k, record, flush=True)


def gaps(Z: np.ndarray, groups: np.ndarray, y: np.ndarray, alphas: Any, coefs: Any) -> list[float]:
    """Relative gaps of RLS2 at coefficients of centred features, one row for each alpha; in double precision."""
    step, out = 1000, []
    for alpha, w in zip(alphas, coefs, strict=True):
        r = np.array(y, dtype=np.float64)
        for first in range(0, len(w), step):
            part = slice(first, first + step)
            if w[part].any():
                r -= Z[:, part].astype(np.float64) @ w[part]
        G = np.concatenate(
            [Z[:, first : first + step].astype(np.float64).T @ r for first in range(0, len(w), step)]
        )
        level = np.sqrt(np.add.reduceat(w * w, groups[:-1])).sum()
        primal = 0.5 * (r @ r) + 0.5 * alpha * level**2
        highest = np.add.reduceat(np.square(G), groups[:-1]).max()
        out.append(float(1.0 - 0.5 * (y @ r) ** 2 / (r @ r + highest / alpha) / primal))
    return out


def solver(table: dict[str, Any], folder: Path, tol: float) -> None:
    """Paths on the features that scMKL made of the first split: its solutions, and those of kernelweave."""
    import kernelweave as kw

    given = np.load(folder / "theirs.npz")
    Z = np.asfortranarray(np.load(folder / "theirs-train.npy").astype(np.float32))
    for first in range(0, Z.shape[1], 500):
        part = slice(first, first + 500)
        Z[:, part] -= Z[:, part].mean(axis=0, dtype=np.float64).astype(np.float32)
    y = given["y"] - given["y"].mean()
    groups = np.arange(0, Z.shape[1] + 1, 2 * PROJECTIONS)
    theirs = table["scMKL"]["splits"]["0"]
    start = time.process_time()
    path = kw.rls2_path(kw.FeatureStack(Z, groups), y, theirs["alphas"], tol=tol)
    seconds = time.process_time() - start
    own = table.setdefault("the same features, split 0", {})
    own["scMKL, celer"] = {
        "cpu_seconds": theirs["cpu_seconds_of_ten_fits"],
        "gaps": [float(f"{g:.1e}") for g in gaps(Z, groups, y, theirs["alphas"], given["coefs"])],
    }
    own[f"kernelweave, gap {tol:g}"] = {
        "cpu_seconds": round(seconds, 1),
        "gaps": [float(f"{g:.1e}") for g in gaps(Z, groups, y, theirs["alphas"], path.feature_coef)],
    }
    print(table["the same features, split 0"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["theirs", "ours", "solver"])
    parser.add_argument("table", type=Path)
    parser.add_argument("--splits", type=int, nargs="+", default=list(range(SPLITS)))
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--tol", type=float, default=1e-3)
    given = parser.parse_args()
    table = json.loads(given.table.read_text()) if given.table.exists() else {}

    def write() -> None:
        given.table.write_text(json.dumps(table, indent=1) + "\n")

    if given.what == "theirs":
        theirs(table.setdefault("scMKL", {}), given.splits, given.folder, write)
    elif given.what == "ours":
        ours(table, given.splits, write, given.tol)
    else:
        solver(table, given.folder, given.tol)
    write()


if __name__ == "__main__":
    main()
