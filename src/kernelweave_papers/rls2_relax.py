"""Does Algorithm 1 regularise by stopping early, or by having two alphas? Weights at one, ridge at another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelweave import datasets
from kernelweave.mkl.path import rls2_path
from kernelweave.mkl.regularization import ridge_path
from kernelweave.mkl.ridge_problem import make_problem
from kernelweave.results import Path
from kernelweave_papers.base import Cell, Experiment, Result
from kernelweave_papers.rls2_relax_grid import RelaxOptions
from kernelweave_papers.rls2_uci import (
    INNER_TOL,
    Problem,
    Rows,
    decision_values,
    inner_folds,
    problem,
    split_rows,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]


def exact_path(p: Problem, rows: Rows, alphas: Array, tol: float) -> Path:
    """Certified weights along the path of the training rows."""
    target = p.y[rows] - p.intercept(rows)
    return rls2_path(p.gram.restrict(rows), target, alphas, scale=p.scale, tol=tol)


def surface(p: Problem, path: Path, train: Rows, test: Rows) -> Array:
    """Decision values with the weights of every alpha and the ridge at every alpha, (a, a, n_test)."""
    b = p.intercept(train)
    reduced, _ = make_problem(p.gram.restrict(train), p.y[train] - b, None, p.scale)
    out = np.empty((len(path), len(path), len(test)))
    for k, weights in enumerate(path.weights):
        C = ridge_path(reduced, weights, path.alphas)[0][:, 0]
        K = p.gram.combine(weights * p.scale)[np.ix_(test, train)]
        out[k] = C @ K.T + b
    return out


def losses(p: Problem, f: Array, rows: Rows) -> tuple[Array, Array]:
    """Mean error of the data set's own kind (squared error, or share of wrong signs), and mean squared error."""
    squares = np.square(f - p.y[rows]).mean(axis=-1)
    return (squares if p.regression else 1.0 - p.score(f, rows) / 100.0), squares


def chosen(loss: Array, allowed: NDArray[np.bool_]) -> tuple[int, int]:
    """Position of the smallest loss; among equals the largest alpha of the weights, then of the ridge."""
    found = np.unravel_index(int(np.argmin(np.where(allowed, loss, np.inf))), loss.shape)
    return int(found[0]), int(found[1])


def run_exact(p: Problem, train: Rows, test: Rows, split: int, o: RelaxOptions) -> Result:
    """Scores of all pairs of alphas, and of those that inner folds choose."""
    path = exact_path(p, train, o.alphas, o.tol)
    score = p.score(surface(p, path, train, test), test)
    inner = np.zeros((2, o.n_alphas, o.n_alphas))
    for fit, held in inner_folds(p.y[train], o.folds, split, o.seed, p.regression):
        own = exact_path(p, train[fit], o.alphas, INNER_TOL)
        inner += np.array(losses(p, surface(p, own, train[fit], train[held]), train[held])) * len(held)
    out: Result = {"surface": _short(score), "gap": float(path.rel_gap.max())}
    square, diagonal = np.ones_like(score, dtype=bool), np.eye(len(score), dtype=bool)
    for kind, loss in zip(("", ", squares"), inner, strict=True):
        for name, allowed in (("one", diagonal), ("two", square)):
            where = chosen(loss, allowed)
            out[name + kind] = float(score[where])
            out[f"at {name}{kind}"] = list(where)
            out[f"kernels {name}{kind}"] = int(path.n_active[where[0]])
    return out


def run_alternating(p: Problem, train: Rows, test: Rows, split: int, o: RelaxOptions) -> Result:
    """Algorithm 1 along the path, its alpha by inner folds, and the exact solution nearest to its last one.

    Its function at the smallest alpha is compared with exact weights of every alpha, all with the ridge of the
    smallest: ``nearest`` is the alpha whose function is nearest on test rows, ``distance`` the remaining
    share of the distance to the exact solution.
    """

    def solve(rows: Rows) -> Path:
        target = p.y[rows] - p.intercept(rows)
        return rls2_path(p.gram.restrict(rows), target, o.alphas, scale=p.scale, solver="alternating")

    path = solve(train)
    score = p.score(decision_values(p, path, train, test), test)
    inner = np.zeros(o.n_alphas)
    for fit, held in inner_folds(p.y[train], o.folds, split, o.seed, p.regression):
        f = decision_values(p, solve(train[fit]), train[fit], train[held])
        inner += losses(p, f, train[held])[0] * len(held)
    where = int(np.argmin(inner))
    b = p.intercept(train)
    reduced, _ = make_problem(p.gram.restrict(train), p.y[train] - b, None, p.scale)
    last = decision_values(p, path, train, test)[-1]
    exact = exact_path(p, train, o.alphas, o.tol)
    others = np.array(
        [
            ridge_path(reduced, weights, path.alphas[-1:])[0][0, 0] @ own.T + b
            for weights in exact.weights
            for own in [p.gram.combine(weights * p.scale)[np.ix_(test, train)]]
        ]
    )
    apart = np.sqrt(np.square(others - last).mean(axis=1))
    nearest = int(np.argmin(apart))
    return {
        "path": _short(score),
        "alternating": float(score[where]),
        "at": where,
        "kernels": int(path.n_active[where]),
        "rounds": path.n_iter.tolist(),
        "nearest": nearest,
        "distance": float(apart[nearest] / apart[-1]) if apart[-1] > 0 else 0.0,
        "nearest score": float(p.score(others[nearest], test)),
    }


def _short(values: Array) -> Any:
    return [float(f"{v:.6g}") for v in values] if values.ndim == 1 else [_short(row) for row in values]


class Relax(Experiment):
    """Two regularisation parameters instead of one."""

    name = "rls2-relax"
    title = "RLS2 with the weights of one alpha and the ridge of another"
    defaults = RelaxOptions()
    published = ("results", "tests", "surface")

    def cells(self, options: RelaxOptions) -> list[Cell]:
        """Data sets outermost, so that their kernels are computed once."""
        return [
            {"dataset": name, "method": method, "ratio": ratio, "split": split}
            for name in options.datasets
            for method in options.methods
            if method == "exact" or datasets.info(name).task == "regression"
            for ratio in options.ratios
            for split in range(options.splits)
        ]

    def run(self, cell: Cell, options: RelaxOptions) -> Result:
        """One method on one split."""
        p = problem(str(cell["dataset"]))
        split = int(cell["split"])
        train, test = split_rows(len(p.y), float(cell["ratio"]), split, options.seed)
        run = run_exact if cell["method"] == "exact" else run_alternating
        started = time.process_time()
        result = run(p, train, test, split, options)
        return result | {"metric": p.metric, "seconds": time.process_time() - started}

    def tables(self, rows: list[tuple[Cell, Result]], options: RelaxOptions) -> dict[str, DataFrame]:
        """``results``: one row for each set and ratio; ``tests``: over sets; ``surface``: mean scores of all pairs."""
        from kernelweave_papers import rls2_relax_tables as made

        return made.tables(rows, options)

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Effect of the second alpha, set by set, and the mean test score over both."""
        from kernelweave_papers import rls2_relax_tables as made

        yield from made.figures(tables)
