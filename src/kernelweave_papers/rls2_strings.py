"""Binary strings, experiment 1 of section 5.1: the number of examples until the three relevant bits are found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelweave import datasets
from kernelweave.gram import FactorGram
from kernelweave.mkl.path import rls2_path
from kernelweave_papers.base import Cell, Choices, Experiment, Options, Result, frame_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]

N_TRAIN, N_TEST, N_BITS, RELEVANT, NOISE = 150, 100, 100, 3, 0.01
#: The paper does not give the width; 1 / 50 is one over the mean squared distance of random strings.
GAMMA = 0.02
#: Points between two breakpoints of the lasso path at which its error is computed.
BETWEEN = 5


@dataclass(frozen=True)
class StringsOptions(Options):
    """Settings.

    Attributes
    ----------
    draws : int
        New data sets in addition to the author's.
    sizes : int
        Largest number of training examples.
    n_alphas : int
        Number of alphas on the path of RLS2, from `largest` to `smallest`; ridge methods use four times as many.
    largest, smallest : float
    methods : tuple of str
        ``ideal``, ``linear``, ``rbf`` (ridge regression with one kernel), ``lasso``, ``rls2``.
    """

    draws: int = 20
    sizes: int = N_TRAIN
    n_alphas: int = 60
    largest: float = 1e3
    smallest: float = 1e-8
    methods: tuple[str, ...] = ("ideal", "linear", "rbf", "lasso", "rls2")

    @property
    def alphas(self) -> Array:
        """Regularisation parameters, descending."""
        return np.geomspace(self.largest, self.smallest, self.n_alphas)

    def choices(self) -> Choices:
        """Methods."""
        return {"methods": (METHODS, "method")}


def draw(number: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Training and test strings: 0 is the author's data, others are new draws."""
    if number == 0:
        data = datasets.load("binarystrings")
        assert data.train is not None
        y = data.y.astype(float)
        return data.X[data.train], y[data.train], data.X[~data.train], y[~data.train]
    rng = np.random.default_rng([seed, number])
    X = rng.integers(0, 2, size=(N_TRAIN + N_TEST, N_BITS)).astype(float)
    y = X[:, :RELEVANT].sum(axis=1) + NOISE * rng.standard_normal(len(X))
    return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]


def rmse(f: Array, y: Array) -> Array:
    """Root mean squared error over the last axis."""
    return np.sqrt(np.square(f - y).mean(axis=-1))


def _ridge(kernel: Any) -> Any:
    def run(X: Array, y: Array, X_test: Array, y_test: Array, o: StringsOptions) -> dict[str, float]:
        values, vectors = np.linalg.eigh(kernel(X, X))
        alphas = np.geomspace(o.largest, o.smallest, 4 * o.n_alphas)[:, None]
        coordinates = (y @ vectors) / (np.maximum(values, 0.0) + alphas)
        errors = rmse(coordinates @ (kernel(X_test, X) @ vectors).T, y_test)
        return {"rmse": float(errors.min())}

    return run


def distinct(X: Array) -> tuple[Array, Array]:
    """Distinct columns, and a matrix (n_distinct, n_columns) that divides each equally among its copies.

    With few strings some columns are equal. The division of weight among them is not determined, and has no effect
    on these strings; but on test strings the columns differ. Equal shares do not depend on the solver.
    """
    kept, which = np.unique(X, axis=1, return_inverse=True)
    shares = (np.arange(kept.shape[1])[:, None] == which.reshape(-1)).astype(float)
    return np.ascontiguousarray(kept), shares / shares.sum(axis=1, keepdims=True)


def _rls2(X: Array, y: Array, X_test: Array, y_test: Array, o: StringsOptions) -> dict[str, float]:
    columns, shares = distinct(X)
    # equation (16) without centring: columns of norm 1; a column of zeros is unchanged
    norms = np.square(columns).sum(axis=0)
    scale = 1.0 / np.where(norms > 0, norms, 1.0)
    path = rls2_path(FactorGram.from_columns(columns), y, o.alphas, scale=scale)
    w = path.weights * scale * (path.dual_coef @ columns) @ shares
    errors = rmse(w @ X_test.T, y_test)
    best = int(errors.argmin())
    d = path.weights[best] @ shares
    out = {"rmse": float(errors[best]), "alpha": float(path.alphas[best]), "gap": float(path.rel_gap.max())}
    out |= {f"d{j + 1}": float(d[j]) for j in range(RELEVANT)}
    return out | {"others": float(d[RELEVANT:].sum()), "selected": int((d > 0).sum())}


def _lasso(X: Array, y: Array, X_test: Array, y_test: Array, o: StringsOptions) -> dict[str, float]:
    from sklearn.linear_model import lars_path

    columns, shares = distinct(X)
    _, _, coefs = lars_path(columns, y, method="lasso")
    coefs = shares.T @ coefs
    left, right = coefs[:, :-1, None], coefs[:, 1:, None]
    steps = np.linspace(0.0, 1.0, BETWEEN + 1)
    every = (left + (right - left) * steps).reshape(len(coefs), -1) if coefs.shape[1] > 1 else coefs
    return {"rmse": float(rmse(every.T @ X_test.T, y_test).min())}


METHODS = {
    "ideal": _ridge(lambda A, B: A[:, :RELEVANT] @ B[:, :RELEVANT].T),
    "linear": _ridge(lambda A, B: A @ B.T),
    "rbf": _ridge(lambda A, B: np.exp(-GAMMA * (A.sum(1)[:, None] + B.sum(1) - 2.0 * A @ B.T))),
    "lasso": _lasso,
    "rls2": _rls2,
}
LABELS = {
    "ideal": "RLS, ideal kernel",
    "linear": "RLS, linear kernel",
    "rbf": "RLS, RBF kernel",
    "lasso": "lasso",
    "rls2": "linear RLS2",
}


#: See `Experiment.costs`.
COSTS = {"ideal": 0.5, "linear": 0.5, "rbf": 0.5, "lasso": 2.0, "rls2": 15.0}


class Strings(Experiment):
    """Experiment 1."""

    name = "rls2-strings"
    title = "Learning curves on binary strings"
    defaults = StringsOptions()
    quick = StringsOptions(draws=2, sizes=30, n_alphas=20)
    costs = COSTS
    published = ("learning_curves", "weights")

    def prepare(self, options: StringsOptions) -> list[str]:
        """The author's data are optional."""
        if datasets.is_here("binarystrings"):
            return [repr(datasets.load("binarystrings"))]
        return ["no file of the author's data (binarystrings): new draws only"]

    def cells(self, options: StringsOptions) -> list[Cell]:
        """Draws and methods; draw 0 is the author's data."""
        first = 0 if datasets.is_here("binarystrings") else 1
        return [
            {"draw": number, "method": method}
            for number in range(first, options.draws + 1)
            for method in options.methods
        ]

    def run(self, cell: Cell, options: StringsOptions) -> Result:
        """One method on one draw, for every number of training examples."""
        X, y, X_test, y_test = draw(int(cell["draw"]), options.seed)
        method = METHODS[str(cell["method"])]
        found = [
            method(X[:n], y[:n], X_test, y_test, options) for n in range(1, min(options.sizes, len(y)) + 1)
        ]
        return {key: [float(f"{row[key]:.6g}") for row in found] for key in found[0]}

    def tables(self, rows: list[tuple[Cell, Result]], options: StringsOptions) -> dict[str, DataFrame]:
        """``learning_curves``: the author's data, and mean and quartiles of the draws; ``weights`` of RLS2."""
        frame = frame_of(rows, "draw", "method", "rmse", *KEPT)
        curves = _by_size(frame[["draw", "method", "rmse"]])
        weights = _by_size(frame[frame["method"] == "rls2"].drop(columns=["method", "rmse"]))
        return {
            "learning_curves": _summary(curves, ["method", "n"], ["rmse"]),
            "weights": _summary(weights, ["n"], list(KEPT)) if len(weights) else weights,
        }

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Both plots of Figure 1, and the kernel weights."""
        curves, weights = tables["learning_curves"], tables["weights"]
        for name, author in (("author", True), ("draws", False)):
            if f"rmse_{name}" in curves:
                yield f"learning_curves_{name}", _curves(curves, author)
        if len(weights):
            yield "weights", _weights(weights)


KEPT = ("d1", "d2", "d3", "others", "selected")


def _by_size(frame: DataFrame) -> DataFrame:
    """One row for each number of training examples, n."""
    values = [name for name in frame if name not in ("draw", "method")]
    long = frame.explode(values)
    return long.astype(dict.fromkeys(values, float)).assign(n=long.groupby(level=0).cumcount() + 1)


def _summary(frame: DataFrame, keys: list[str], values: list[str]) -> DataFrame:
    """The author's data, with mean, standard deviation and quartiles of the draws."""
    import pandas as pd

    fresh = frame[frame["draw"] > 0].groupby(keys, sort=False)[values]
    parts = {}
    author = frame[frame["draw"] == 0].set_index(keys)
    for value in values:
        if len(author):
            parts[f"{value}_author"] = author[value]
        if len(frame[frame["draw"] > 0]):
            parts[f"{value}_draws"] = fresh.mean()[value]
            parts[f"{value}_std"] = fresh.std()[value]
            parts[f"{value}_low"] = fresh.quantile(0.25)[value]
            parts[f"{value}_high"] = fresh.quantile(0.75)[value]
    return pd.DataFrame(parts).reset_index()


def _curves(curves: DataFrame, author: bool) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 6.4), layout="constrained")
    axes = figure.subplots(2, 1)
    column = "rmse_author" if author else "rmse_draws"
    for k, method in enumerate(curves["method"].unique()):
        part = curves[curves["method"] == method]
        for ax, zoomed in zip(axes, (False, True), strict=True):
            if zoomed and method in ("linear", "rbf"):
                continue
            ax.plot(part["n"], part[column], color=f"C{k}", label=LABELS[method])
            if not author:
                ax.fill_between(
                    part["n"], part["rmse_low"], part["rmse_high"], color=f"C{k}", alpha=0.2, lw=0
                )
    for ax in axes:
        ax.axhline(NOISE, color="0.4", ls=":", lw=1.0)
        ax.set_yscale("log")
        ax.set_ylabel("best test RMSE")
    axes[0].set_title("author's data" if author else "new draws: mean, and quartiles as bands")
    axes[0].legend(loc="upper right")
    axes[1].set_xlim(1, 30)
    axes[1].set_xlabel("training examples")
    return figure


def _weights(weights: DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    ax = figure.subplots()
    which = "draws" if "d1_draws" in weights else "author"
    for k, key in enumerate(("d1", "d2", "d3", "others")):
        label = "all 97 others" if key == "others" else f"bit {key[1]}"
        ax.plot(
            weights["n"], weights[f"{key}_{which}"], color="0.5" if key == "others" else f"C{k}", label=label
        )
        if which == "draws":
            low, high = weights[f"{key}_low"], weights[f"{key}_high"]
            ax.fill_between(
                weights["n"], low, high, color="0.5" if key == "others" else f"C{k}", alpha=0.15, lw=0
            )
    ax.axhline(1 / 3, color="0.4", ls=":", lw=1.0)
    ax.set_xlabel("training examples")
    ax.set_ylabel("kernel weight d")
    ax.legend()
    return figure
