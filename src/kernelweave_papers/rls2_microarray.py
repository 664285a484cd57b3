"""Microarray data, section 5.3: one-vs-all linear RLS2 that selects genes, and other classifiers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave import datasets
from kernelweave.gram import FactorGram
from kernelweave.mkl.path import make_alphas, rls2_path
from kernelweave.mkl.ridge_problem import make_problem
from kernelweave.normalizers import WithinClass
from kernelweave_papers.base import DATA_SET, Cell, Choices, Experiment, Options, Result, frame_of
from kernelweave_papers.margin_values import make_folds as stratified
from kernelweave_papers.printed import RLS2_TABLE5, RLS2_TABLE5_OURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Classes with fewer samples are left out if there is no published split.
FEWEST = 5
#: Share of the rows for training if there is no published split.
TRAINING = 0.7
INNER_TOL = 1e-4


@dataclass(frozen=True)
class MicroarrayOptions(Options):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
        ``srbct`` and ``14cancer`` have a published split; ``nci60`` has none and is split at random.
    splits : int
        Random splits of data sets without a published one.
    methods : tuple of str
    folds : int
        Stratified folds, fewer if the largest class has fewer samples.
    n_alphas : int
        Number of alphas, from the point where one gene is left down to `depth` of it.
    depth : float
    tol : float
    """

    datasets: tuple[str, ...] = ("srbct", "nci60")
    splits: int = 10
    methods: tuple[str, ...] = ("rls2", "l1", "elastic-net", "svc", "centroids")
    folds: int = 8
    n_alphas: int = 50
    depth: float = 1e-5
    tol: float = 1e-6

    def choices(self) -> Choices:
        """The three tables, and methods."""
        return {"datasets": (("srbct", "nci60", "14cancer"), DATA_SET), "methods": (METHODS, "method")}


@lru_cache(maxsize=1)
def table(name: str) -> tuple[Array, NDArray[np.int64], NDArray[np.bool_] | None]:
    """Genes, with each sample (row) standardised, classes, and the published split."""
    data = datasets.load(name)
    X, y, train = data.X, data.y.astype(np.int64), data.train
    if train is None:
        counts = np.bincount(y)
        keep = counts[y] >= FEWEST
        X, y = X[keep], np.unique(y[keep], return_inverse=True)[1].reshape(-1)
    X = X - X.mean(axis=1, keepdims=True)
    return X / X.std(axis=1, ddof=1, keepdims=True), y, train


def split_rows(y: NDArray[np.int64], split: int, seed: int) -> tuple[Rows, Rows]:
    """A random split with the shares of the classes kept."""
    from sklearn.model_selection import train_test_split

    state = int(np.random.default_rng([seed, split]).integers(2**31))
    train, test = train_test_split(np.arange(len(y)), train_size=TRAINING, stratify=y, random_state=state)
    return np.sort(train), np.sort(test)


def make_folds(y: NDArray[np.int64], n_folds: int, seed: int) -> list[tuple[Rows, Rows]]:
    """Stratified folds, at most as many as samples in the largest class; small classes are absent from some."""
    return stratified(y, max(2, min(n_folds, int(np.bincount(y).max()))), seed)


# ---- RLS2, one against all ------------------------------------------------------------------------


@dataclass(frozen=True)
class Path:
    """Linear models along a path.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
    coef : array of shape (n_alphas, n_classes, n_genes)
    gap : float
        Largest relative gap.
    """

    alphas: Array
    coef: Array
    gap: float

    def predict(self, X: Array) -> NDArray[np.int64]:
        """Class with the largest value, shape (n_alphas, n_rows)."""
        return np.argmax(np.einsum("acg,ng->anc", self.coef, X, optimize=True), axis=2)

    @property
    def genes(self) -> NDArray[np.int64]:
        """Number of genes in the union over classes, at each alpha."""
        return np.any(self.coef != 0, axis=1).sum(axis=1)


def rls2_one_vs_all(
    X: Array, y: NDArray[np.int64], alphas: Array | None, options: MicroarrayOptions, tol: float
) -> Path:
    """Solve one path for each class with the scaling rule (17) of these rows; targets -1 and 1, no intercept."""
    gram = FactorGram.from_columns(X)
    signs = [np.where(y == c, 1.0, -1.0) for c in range(int(y.max()) + 1)]
    scales = [WithinClass().fit(gram, target=s, sample_weight=None, extra_diagonal=None).scale for s in signs]
    if alphas is None:
        top = max(
            float(make_alphas(make_problem(gram, sign, None, scale)[0], 2)[0])
            for sign, scale in zip(signs, scales, strict=True)
        )
        alphas = np.geomspace(top, options.depth * top, options.n_alphas)
    coef = np.empty((len(alphas), len(signs), X.shape[1]))
    gap = 0.0
    for c, (sign, scale) in enumerate(zip(signs, scales, strict=True)):
        path = rls2_path(gram, sign, alphas, scale=scale, tol=tol)
        coef[:, c] = path.weights * scale * (path.dual_coef @ X)
        gap = max(gap, float(path.rel_gap.max()))
    return Path(alphas, coef, gap)


def _rls2(X: Array, y: Any, X_test: Array, y_test: Any, folds: Any, o: MicroarrayOptions) -> Result:
    return of_path(X, y, X_test, y_test, folds, o, rls2_one_vs_all)


def of_path(
    X: Array, y: Any, X_test: Array, y_test: Any, folds: Any, o: MicroarrayOptions, solve: Callable[..., Path]
) -> Result:
    """The models of a path that are right most often in the folds, and their errors; `solve` as `rls2_one_vs_all`."""
    path = solve(X, y, None, o, o.tol)
    right = np.zeros((len(folds), len(path.coef)))
    for k, (fit, held) in enumerate(folds):
        fold = solve(X[fit], y[fit], path.alphas, o, INNER_TOL)
        right[k] = (fold.predict(X[held]) == y[held]).mean(axis=1)
    cv = np.average(right, axis=0, weights=[len(held) for _, held in folds])
    wrong = (path.predict(X_test) != y_test).sum(axis=1)
    best = np.flatnonzero(cv >= cv.max() - 1e-12)
    return {
        "errors": float(wrong[best].mean()),
        "errors_simplest": int(wrong[best[0]]),
        "genes": int(path.genes[best[0]]),
        "gap": path.gap,
        "alpha": path.alphas.tolist(),
        "cv": cv.tolist(),
        "cv_error": (right.std(axis=0, ddof=1) / np.sqrt(len(folds))).tolist(),
        "train": (path.predict(X) == y).mean(axis=1).tolist(),
        "test": (1.0 - wrong / len(y_test)).tolist(),
        "genes_path": path.genes.tolist(),
    }


# ---- other methods ---------------------------------------------------------------------------------

#: Fit on rows and labels with one setting; return predictions of the test rows, the number of genes used, and
#: whether the solver converged.
Fitted = Callable[[Array, Any, Array, float], tuple[NDArray[np.int64], int, bool]]
#: Passes of the stochastic solver over the rows; fits that have not converged by then are counted.
PASSES = 200


def _logistic(l1_ratio: float) -> Fitted:
    def fit(X: Array, y: Array, X_test: Array, C: float) -> tuple[NDArray[np.int64], int, bool]:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(
            C=C, l1_ratio=l1_ratio, solver="saga", tol=1e-3, max_iter=PASSES, random_state=0
        ).fit(X, y)
        genes = int(np.any(model.coef_ != 0, axis=0).sum())
        return model.predict(X_test), genes, bool(model.n_iter_.max() < PASSES)

    return fit


def _svc(X: Array, y: Array, X_test: Array, C: float) -> tuple[NDArray[np.int64], int, bool]:
    from sklearn.svm import LinearSVC

    model = LinearSVC(C=C, max_iter=5000, random_state=0).fit(X, y)
    return model.predict(X_test), X.shape[1], bool(np.max(model.n_iter_) < 5000)


def _centroids(X: Array, y: Array, X_test: Array, threshold: float) -> tuple[NDArray[np.int64], int, bool]:
    from sklearn.neighbors import NearestCentroid

    model = NearestCentroid(shrink_threshold=threshold or None).fit(X, y)
    moved = np.abs(model.centroids_ - X.mean(axis=0)) > 1e-9
    return model.predict(X_test), int(moved.any(axis=0).sum()), True


def _tuned(fit: Fitted, settings: Sequence[float]) -> Callable[..., Result]:
    """Choose a setting by the rule for alpha of RLS2: the simplest of all settings with the best accuracy."""

    def run(X: Array, y: Array, X_test: Array, y_test: Array, folds: Any, o: MicroarrayOptions) -> Result:
        cv = [
            sum(int((fit(X[a], y[a], X[b], s)[0] == y[b]).sum()) for a, b in folds) / len(y) for s in settings
        ]
        best = [k for k, value in enumerate(cv) if value >= max(cv) - 1e-12]
        found = [fit(X, y, X_test, settings[k]) for k in best]
        wrong = [int((predicted != y_test).sum()) for predicted, _, _ in found]
        return {
            "errors": float(np.mean(wrong)),
            "errors_simplest": wrong[0],
            "genes": found[0][1],
            "setting": settings[best[0]],
            "converged": float(np.mean([done for _, _, done in found])),
        }

    return run


#: Simplest settings first.
METHODS: dict[str, Callable[..., Result]] = {
    "rls2": _rls2,
    "l1": _tuned(_logistic(1.0), np.geomspace(0.05, 20.0, 6).tolist()),
    "elastic-net": _tuned(_logistic(0.5), np.geomspace(0.05, 20.0, 6).tolist()),
    "svc": _tuned(_svc, np.geomspace(1e-5, 1.0, 6).tolist()),
    "centroids": _tuned(_centroids, [*np.linspace(6.0, 0.3, 20).tolist(), 0.0]),
}
LABELS = {
    "rls2": "linear RLS2, one against all",
    "l1": "L1 multinomial",
    "elastic-net": "elastic-net multinomial",
    "svc": "linear SVC",
    "centroids": "nearest shrunken centroids",
}
#: Table 5: test errors of 54, and genes.
PRINTED_14CANCER = {
    RLS2_TABLE5_OURS.get(name, name): (row["errors"].value, int(row["genes"].value))
    for name, row in RLS2_TABLE5.items()
}


COUNTED = ("errors", "errors_simplest", "genes", "n_test", "n_genes", "folds", "seconds")


#: See `Experiment.costs`.
COSTS = {"rls2": 5.0, "l1": 50.0, "elastic-net": 50.0, "svc": 2.0, "centroids": 0.4}


class Microarray(Experiment):
    """Section 5.3."""

    name = "rls2-microarray"
    title = "Microarray data"
    defaults = MicroarrayOptions()
    quick = MicroarrayOptions(datasets=("srbct",), folds=2, n_alphas=20)
    costs = COSTS
    with_data: ClassVar[Mapping[str, Any]] = {"datasets": ("14cancer",)}
    published: ClassVar[tuple[str, ...]] = ("results", "path")

    def prepare(self, options: MicroarrayOptions) -> list[str]:
        """Load every data set once."""
        found = [repr(datasets.load(name, progress=True)) for name in options.datasets]
        if "14cancer" not in options.datasets and datasets.is_here("14cancer"):
            found.append("14cancer too: add it with --datasets")
        return found

    def cells(self, options: MicroarrayOptions) -> list[Cell]:
        """Data sets, splits and methods."""
        return [
            {"dataset": name, "split": split, "method": method}
            for name in options.datasets
            for split in range(options.splits if name == "nci60" else 1)
            for method in options.methods
        ]

    def divided(
        self, cell: Cell, options: MicroarrayOptions
    ) -> tuple[Array, NDArray[np.int64], Array, NDArray[np.int64], list[tuple[Rows, Rows]]]:
        """Training rows and classes, test rows and classes, and folds of the training rows of a split."""
        X, y, published = table(str(cell["dataset"]))
        split = int(cell["split"])
        if published is None:
            train, test = split_rows(y, split, options.seed)
        else:
            train, test = np.flatnonzero(published), np.flatnonzero(~published)
        folds = make_folds(y[train], options.folds, options.seed + split)
        return X[train], y[train], X[test], y[test], folds

    def run(self, cell: Cell, options: MicroarrayOptions) -> Result:
        """One method on one split."""
        data = self.divided(cell, options)
        started = time.perf_counter()
        result = METHODS[str(cell["method"])](*data, options)
        common = {"n_test": len(data[3]), "n_genes": data[0].shape[1], "folds": len(data[4])}
        return result | common | {"seconds": time.perf_counter() - started}

    def tables(self, rows: list[tuple[Cell, Result]], options: MicroarrayOptions) -> dict[str, DataFrame]:
        """``results`` in the layout of Table 5, averaged over splits; ``path`` of RLS2 on the first split."""
        import pandas as pd

        long = frame_of(rows, "dataset", "method", *COUNTED, "converged").fillna({"converged": 1.0})
        grouped = long.replace({"method": LABELS}).groupby(["dataset", "method"], sort=False)
        results = (
            grouped.mean().round(4).assign(errors_std=grouped["errors"].std().round(4), splits=grouped.size())
        )
        theirs = [
            PRINTED_14CANCER.get(method, (np.nan, np.nan)) if name == "14cancer" else (np.nan, np.nan)
            for name, method in results.index
        ]
        if any(name == "14cancer" for name in results.index.get_level_values(0)):
            results["printed"], results["printed_genes"] = zip(*theirs, strict=True)
        path = [
            {"dataset": cell["dataset"], "alpha": float(f"{result['alpha'][k]:.6g}")}
            | {key: round(result[key][k], 5) for key in ("train", "cv", "cv_error", "test", "genes_path")}
            for cell, result in rows
            if cell["method"] == "rls2" and cell["split"] == 0
            for k in range(len(result["alpha"]))
        ]
        return {"results": results.reset_index(), "path": pd.DataFrame(path)}

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Figure 9: accuracy along the path, one picture for each data set."""
        path = tables["path"]
        for name in path["dataset"].unique() if len(path) else ():
            yield f"path_{name}", _figure(str(name), path[path["dataset"] == name])


def _figure(name: str, part: DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.0), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    top.plot(part["alpha"], part["train"], color="C2", label="training")
    top.errorbar(
        part["alpha"], part["cv"], yerr=part["cv_error"], color="C0", ecolor="0.75", label="cross-validation"
    )
    top.plot(part["alpha"], part["test"], color="C1", label="test")
    chosen = part["alpha"].iloc[int(np.argmax(part["cv"] >= part["cv"].max() - 1e-12))]
    for ax in (top, bottom):
        ax.axvline(chosen, color="0.3", ls=":", lw=1.0)
    top.set_ylabel("accuracy")
    top.set_title(name)
    top.legend()
    bottom.plot(part["alpha"], part["genes_path"], color="C0")
    bottom.set_ylabel("selected genes")
    bottom.set_xscale("log")
    bottom.invert_xaxis()
    bottom.set_xlabel("regularisation parameter alpha")
    return figure
