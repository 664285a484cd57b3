"""Prostate cancer, experiment 2 of section 5.1: Table 1, the cross-validation curve and the coefficient profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelweave import datasets
from kernelweave._errors import InputError, check_known
from kernelweave.fitting.folds import choose
from kernelweave.gram import FactorGram
from kernelweave.mkl.path import rls2_path
from kernelweave.results import Path
from kernelweave_papers.base import Cell, Experiment, Options, Result
from kernelweave_papers.printed import RLS2_METHODS, RLS2_TABLE1

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
#: Coefficients and intercept.
Model = tuple[Array, float]
#: Models for a sequence of settings, the simplest first.
Fit = Callable[[Array, Array, Array], list[Model]]


@dataclass(frozen=True)
class ProstateOptions(Options):
    """Settings.

    Attributes
    ----------
    folds : int
        Folds of cross-validation; the paper does not give its own, so the choice depends on `seed`.
    n_alphas : int
        Number of alphas on the path, log-spaced from `largest` to `smallest`.
    largest, smallest : float
    """

    folds: int = 10
    n_alphas: int = 100
    largest: float = 1e2
    smallest: float = 1e-6

    @property
    def alphas(self) -> Array:
        """Regularisation parameters, descending."""
        return np.geomspace(self.largest, self.smallest, self.n_alphas)

    def check(self) -> None:
        """Raise for settings that make no sense."""
        super().check()
        if self.folds > 60:
            raise InputError(f"`folds` must be at most 60, got {self.folds}.")


# ---- the methods of Table 1 -----------------------------------------------------------------------


def rls2(X: Array, y: Array, alphas: Array) -> tuple[Path, Array]:
    """Linear RLS2 with the scaling (16) of the training rows: the path, and its coefficients."""
    scale = 1.0 / np.square(X).sum(axis=0)
    path = rls2_path(FactorGram.from_columns(X), y - y.mean(), alphas, scale=scale, tol=1e-10)
    return path, path.weights * scale * (path.dual_coef @ X)


def _rls2(X: Array, y: Array, alphas: Array) -> list[Model]:
    """The intercept is the mean target of the training rows."""
    return [(row, float(y.mean())) for row in rls2(X, y, alphas)[1]]


def _least_squares(X: Array, y: Array, columns: tuple[int, ...]) -> Model:
    A = np.column_stack([np.ones(len(X)), X[:, columns]])
    g = np.linalg.lstsq(A, y, rcond=None)[0]
    w = np.zeros(X.shape[1])
    w[list(columns)] = g[1:]
    return w, float(g[0])


def _subset(X: Array, y: Array, sizes: Array) -> list[Model]:
    """The best of all subsets of each size."""
    out = []
    for size in sizes.astype(int):
        models = [_least_squares(X, y, c) for c in combinations(range(X.shape[1]), size)]
        out.append(min(models, key=lambda m: float(np.square(y - X @ m[0] - m[1]).sum())))
    return out


def _full(X: Array, y: Array, _: Array) -> list[Model]:
    return [_least_squares(X, y, tuple(range(X.shape[1])))]


def _ridge(X: Array, y: Array, dfs: Array) -> list[Model]:
    """Ridge regression with given degrees of freedom; columns not centred on the training rows."""
    from scipy.optimize import brentq

    squares = np.square(np.linalg.svd(X, compute_uv=False))
    out = []
    for df in dfs:
        alpha = brentq(lambda a, df=df: (squares / (squares + a)).sum() - df, 1e-10, 1e10)
        w = np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T @ (y - y.mean()))
        out.append((w, float(y.mean())))
    return out


def _lasso(X: Array, y: Array, shares: Array) -> list[Model]:
    """Lasso on columns standardised over the training rows, by the share of the least-squares l1 norm."""
    from sklearn.linear_model import lars_path

    mean, spread = X.mean(axis=0), X.std(axis=0, ddof=1)
    _, _, coefs = lars_path((X - mean) / spread, y - y.mean(), method="lasso")
    norms = np.abs(coefs).sum(axis=0)
    out = []
    for share in shares:
        w = np.array([np.interp(share * norms[-1], norms, row) for row in coefs]) / spread
        out.append((w, float(y.mean() - mean @ w)))
    return out


def _pcr(X: Array, y: Array, counts: Array) -> list[Model]:
    """Least squares with an intercept on the leading right singular vectors of the training columns."""
    vectors = np.linalg.svd(X, full_matrices=False)[2]
    out = []
    for k in counts.astype(int):
        A = np.column_stack([np.ones(len(X)), X @ vectors[:k].T])
        g = np.linalg.lstsq(A, y, rcond=None)[0]
        out.append((vectors[:k].T @ g[1:], float(g[0])))
    return out


def _pls(X: Array, y: Array, counts: Array) -> list[Model]:
    """Partial least squares; columns not centred on the training rows."""
    Z, r = X.copy(), y - y.mean()
    weights, loadings, scores = [], [], []
    out = []
    for _ in range(int(counts.max())):
        w = Z.T @ r
        w /= np.linalg.norm(w)
        t = Z @ w
        p = Z.T @ t / (t @ t)
        scores.append(r @ t / (t @ t))
        Z, r = Z - np.outer(t, p), r - scores[-1] * t
        weights.append(w)
        loadings.append(p)
        W, P = np.array(weights).T, np.array(loadings).T
        out.append((W @ np.linalg.solve(P.T @ W, np.array(scores)), float(y.mean())))
    return [out[int(k) - 1] for k in counts]


@dataclass(frozen=True)
class Column:
    """A column of Table 1: how to fit, the settings to choose from, and the setting of the published table."""

    label: str
    fit: Fit
    settings: Array
    published: float
    meaning: str


def columns(options: ProstateOptions) -> dict[str, Column]:
    """All columns in the order of the paper."""
    return {
        "rls2": Column("RLS2", _rls2, options.alphas, 0.0881, "alpha"),
        "subset": Column("Best subset", _subset, np.arange(1.0, 9.0), 2, "features"),
        "ls": Column("LS", _full, np.zeros(1), 0, ""),
        "ridge": Column("Ridge", _ridge, np.linspace(0.25, 7.75, 31), 5, "df"),
        "lasso": Column("Lasso", _lasso, np.linspace(0.0, 1.0, 41), 0.3748, "share of the l1 norm"),
        "pcr": Column("PCR", _pcr, np.arange(1.0, 9.0), 7, "directions"),
        "pls": Column("PLS", _pls, np.arange(1.0, 9.0), 2, "directions"),
    }


#: Table 1 as printed (signs restored): intercept, eight coefficients, test error, standard error.
PRINTED = {m: tuple(row[m].value for row in RLS2_TABLE1.values()) for m in RLS2_METHODS}
ROWS = tuple(RLS2_TABLE1)


def _row(model: Model, X: Array, y: Array) -> list[float]:
    w, b = model
    squares = np.square(y - X @ w - b)
    error, spread = float(squares.mean()), float(squares.std(ddof=1) / np.sqrt(len(y)))
    return [float(b), *map(float, w), error, spread]


class Prostate(Experiment):
    """Experiment 2."""

    name = "rls2-prostate"
    title = "Prostate cancer, Table 1"
    defaults = ProstateOptions()
    quick = ProstateOptions(folds=5, n_alphas=30)
    published = ("table1", "chosen", "cv", "profile")

    def prepare(self, options: ProstateOptions) -> list[str]:
        """Load the data set once."""
        return [repr(datasets.load("prostate", protocol="rls2", progress=True))]

    def cells(self, options: ProstateOptions) -> list[Cell]:
        """One cell for each method."""
        return [{"method": name} for name in columns(options)]

    def run(self, cell: Cell, options: ProstateOptions) -> Result:
        """The published setting, and the one chosen by our folds with the one-standard-error rule."""
        from sklearn.model_selection import KFold

        method = columns(options)[check_known(str(cell["method"]), columns(options), "method")]
        data = datasets.load("prostate", protocol="rls2")
        assert data.train is not None
        targets = data.y.astype(float)
        X, y = data.X[data.train], targets[data.train]
        X_test, y_test = data.X[~data.train], targets[~data.train]
        published = method.fit(X, y, np.array([method.published]))[0]
        folds = KFold(options.folds, shuffle=True, random_state=options.seed)
        errors = np.array(
            [
                [
                    np.square(y[held] - X[held] @ w - b).mean()
                    for w, b in method.fit(X[fit], y[fit], method.settings)
                ]
                for fit, held in folds.split(X)
            ]
        )
        mean, spread = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(options.folds)
        chosen = choose(-mean, spread, "1se")
        own = method.fit(X, y, method.settings)[chosen]
        result: Result = {
            "published": _row(published, X_test, y_test),
            "own": _row(own, X_test, y_test),
            "setting": float(method.settings[chosen]),
            "settings": method.settings.tolist(),
            "cv": mean.tolist(),
            "cv_error": spread.tolist(),
        }
        if cell["method"] == "rls2":
            path, w = rls2(X, y, method.settings)
            result["profile"] = {
                "alpha": method.settings.tolist(),
                "df": path.df.tolist(),
                "df_total": path.criteria["df_total"].tolist(),
                "w": w.tolist(),
            }
        return result

    def tables(self, rows: list[tuple[Cell, Result]], options: ProstateOptions) -> dict[str, DataFrame]:
        """``table1`` (ours beside the printed values), ``chosen`` by our folds, ``cv`` and ``profile``."""
        import pandas as pd

        every = columns(options)
        table1: dict[str, Any] = {"row": list(ROWS)}
        chosen: dict[str, Any] = {"row": ["setting", *ROWS]}
        cv, profile = [], pd.DataFrame()
        for cell, result in rows:
            method = str(cell["method"])
            column = every[method]
            table1[column.label] = np.round(result["published"], 4) + 0.0
            table1[f"{column.label} printed"] = PRINTED[method]
            chosen[column.label] = np.round([result["setting"], *result["own"]], 4) + 0.0
            cv += [
                {"method": method, "setting": s, "mse": m, "error": e}
                for s, m, e in zip(result["settings"], result["cv"], result["cv_error"], strict=True)
            ]
            if "profile" in result:
                found = result["profile"]
                profile = pd.DataFrame(found["w"], columns=list(ROWS[1:9])).assign(
                    alpha=found["alpha"],
                    df=found["df"],
                    df_total=found["df_total"],
                    active=np.count_nonzero(found["w"], axis=1),
                    chosen=result["setting"],
                )
        return {
            "table1": pd.DataFrame(table1),
            "chosen": pd.DataFrame(chosen),
            "cv": pd.DataFrame(cv),
            "profile": profile,
        }

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Figure 2 (cross-validation), Figure 3 (coefficients against degrees of freedom), and (15) beside others."""
        cv = tables["cv"][tables["cv"]["method"] == "rls2"] if len(tables["cv"]) else tables["cv"]
        profile = tables["profile"]
        if len(cv) and len(profile):
            yield "cv", _cv_figure(cv, float(profile["chosen"].iloc[0]))
            yield "profile", _profile_figure(profile)
            yield "freedom", _freedom_figure(profile)


def _cv_figure(cv: DataFrame, chosen: float) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    ax = figure.subplots()
    ax.errorbar(cv["setting"], cv["mse"], yerr=cv["error"], color="C0", ecolor="0.75", lw=1.5)
    best = cv["mse"].argmin()
    ax.axhline(
        cv["mse"].iloc[best] + cv["error"].iloc[best], color="0.4", ls=":", lw=1.0, label="one standard error"
    )
    ax.axvline(chosen, color="C1", ls="--", lw=1.0, label=f"chosen here: {chosen:.3g}")
    ax.axvline(0.0881, color="C2", ls="--", lw=1.0, label="Table 1: 0.0881")
    ax.set_xscale("log")
    ax.invert_xaxis()
    ax.set_xlabel("regularisation parameter alpha")
    ax.set_ylabel("mean squared error in cross-validation")
    ax.legend()
    return figure


def _profile_figure(profile: DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = figure.subplots()
    for k, name in enumerate(ROWS[1:9]):
        ax.plot(profile["df"], profile[name], color=f"C{k}", label=name)
        ax.annotate(name, (profile["df"].iloc[-1], profile[name].iloc[-1]), xytext=(4, 0), textcoords="offset points",
                    fontsize=8, va="center")  # fmt: skip
    at = int((profile["alpha"] - 0.0881).abs().argmin())
    ax.axvline(profile["df"].iloc[at], color="0.4", ls=":", lw=1.0)
    ax.axhline(0.0, color="0.7", lw=0.8)
    ax.set_xlim(0.0, 8.9)
    ax.set_xlabel("degrees of freedom (dotted: the model of Table 1)")
    ax.set_ylabel("coefficient")
    return figure


def _freedom_figure(profile: DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    ax = figure.subplots()
    ax.step(
        profile["alpha"], profile["active"], where="mid", color="0.6", lw=1.2, label="active coefficients"
    )
    ax.plot(
        profile["alpha"], profile["df_total"], color="C1", lw=1.8, label="divergence, with the learnt weights"
    )
    ax.plot(profile["alpha"], profile["df"], color="C0", lw=1.8, label="equation (15)")
    ax.axvline(0.0881, color="C2", ls="--", lw=1.0, label="Table 1: 0.0881")
    ax.set_xscale("log")
    ax.invert_xaxis()
    ax.set_xlabel("regularisation parameter alpha")
    ax.set_ylabel("degrees of freedom")
    ax.legend()
    return figure
