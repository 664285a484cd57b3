"""Why RLS2 makes more errors than others on NCI60: changes of one part of the method at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave.gram import FactorGram
from kernelweave.mkl.path import make_alphas, rls2_path
from kernelweave.mkl.ridge_problem import make_problem
from kernelweave.normalizers import FeatureNorm, WithinClass
from kernelweave_papers.base import Cell, Choices, Result, frame_of
from kernelweave_papers.rls2_microarray import (
    METHODS,
    Array,
    Microarray,
    MicroarrayOptions,
    Path,
    of_path,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

#: Ridge parameters of `relaxed`, in place of that of the weights.
N_RELAX = 4


@dataclass(frozen=True)
class Change:
    """One-against-all RLS2 with one part changed.

    Attributes
    ----------
    label : str
    rule : {"within-class", "feature-norm", ""}
        Factors of genes: (17), (16) or none.
    balanced : bool
        Rows weighted by the inverse size of their side, in every problem.
    shared : bool
        One selection of genes for all classes, with the variance within all classes in (17).
    relaxed : bool
        Coefficients by ridge regression at the selected weights, with a parameter of its own.
    selects : bool
        False: equal weights of all genes, a ridge.
    n_alphas : int or None
        Instead of those of the settings, and down to 1e-8 of the largest.
    """

    label: str
    rule: str = "within-class"
    balanced: bool = False
    shared: bool = False
    relaxed: bool = False
    selects: bool = True
    n_alphas: int | None = None


CHANGES = {
    "rls2": Change("as in the paper"),
    "balanced": Change("rows weighted by class", balanced=True),
    "feature-norm": Change("scaling (16) instead of (17)", rule="feature-norm"),
    "unscaled": Change("no scaling", rule=""),
    "longer": Change("100 alphas, down to 1e-8", n_alphas=100),
    "relaxed": Change("ridge with a parameter of its own (relax)", relaxed=True),
    "shared": Change("one selection of genes for all classes", shared=True),
    "all-genes": Change("no selection: ridge on all genes", selects=False),
}
#: The best method of the published table.
BEST = "svc"


@dataclass(frozen=True)
class NCI60Options(MicroarrayOptions):
    """Settings: those of `rls2-microarray`, with the changes as methods."""

    datasets: tuple[str, ...] = ("nci60",)
    methods: tuple[str, ...] = (*CHANGES, BEST)

    def choices(self) -> Choices:
        """Data sets as there."""
        return super().choices() | {"methods": ((*CHANGES, BEST), "method")}


def solve(
    X: Array,
    y: NDArray[np.int64],
    alphas: Array | None,
    options: MicroarrayOptions,
    tol: float,
    change: Change,
) -> Path:
    """The models of one change along a path; see `rls2_one_vs_all` for the original."""
    gram, n_classes = FactorGram.from_columns(X), int(y.max()) + 1
    signs = np.array([np.where(y == c, 1.0, -1.0) for c in range(n_classes)])
    counts = np.bincount(y, minlength=n_classes)
    sides = [
        np.where(s > 0, 0.5 / counts[c], 0.5 / (len(y) - counts[c])) * len(y) for c, s in enumerate(signs)
    ]
    weights = sides if change.balanced else [None] * n_classes
    if change.shared:
        within = sum(counts[c] * X[y == c].var(axis=0) for c in range(n_classes)) / len(y)
        scales = [1.0 / np.maximum(within, 1e-3 * within.mean())] * n_classes
    elif change.rule:
        rule = WithinClass() if change.rule == "within-class" else FeatureNorm()
        scales = [
            rule.fit(gram, target=s, sample_weight=w, extra_diagonal=None).scale
            for s, w in zip(signs, weights, strict=True)
        ]
    else:
        scales = [np.ones(X.shape[1])] * n_classes
    if alphas is None:
        firsts = [
            make_alphas(make_problem(gram, s, w, q)[0], 2)[0]
            for s, w, q in zip(signs, weights, scales, strict=True)
        ]
        depth, number = (
            (options.depth, options.n_alphas) if change.n_alphas is None else (1e-8, change.n_alphas)
        )
        alphas = np.geomspace(max(firsts), depth * max(firsts), number)
    ridges = np.geomspace(alphas[0], alphas[-1], N_RELAX) if change.relaxed else None
    n_steps = len(alphas) * (1 if ridges is None else N_RELAX)
    coef = np.empty((n_steps, n_classes, X.shape[1]))
    if change.shared:
        paths = [rls2_path(gram, signs.T, alphas, scale=scales[0], tol=tol)]
    elif change.selects:
        paths = [
            rls2_path(gram, s, alphas, scale=q, sample_weight=w, tol=tol)
            for s, w, q in zip(signs, weights, scales, strict=True)
        ]
    else:
        paths = []
    gap = max((float(path.rel_gap.max()) for path in paths), default=0.0)
    for c, (sign, scale) in enumerate(zip(signs, scales, strict=True)):
        if not change.selects:
            own = np.broadcast_to(scale / len(scale), (len(alphas), len(scale)))
            coef[:, c] = np.array([_ridge(X, sign, d, alpha) for d, alpha in zip(own, alphas, strict=True)])
            continue
        path = paths[0] if change.shared else paths[c]
        own = path.weights * scale
        if ridges is not None:
            coef[:, c] = np.array([_ridge(X, sign, d, ridge) for d in own for ridge in ridges])
        else:
            dual = path.dual_coef[:, :, c] if change.shared else path.dual_coef
            coef[:, c] = own * (dual @ X)
    return Path(alphas, coef, gap)


def _ridge(X: Array, target: Array, factors: Array, ridge: float) -> Array:
    K = (X * factors) @ X.T
    return factors * (X.T @ np.linalg.solve(K + ridge * np.eye(len(K)), target))


class NCI60(Microarray):
    """Changes of RLS2 on NCI60."""

    name = "rls2-nci60"
    title = "RLS2 on NCI60 with one part changed"
    defaults = NCI60Options()
    quick = NCI60Options(methods=("rls2", "all-genes"), splits=1, folds=2, n_alphas=20)
    costs: ClassVar[dict[str, float]] = {}
    published: ClassVar[tuple[str, ...]] = ("results",)
    with_data: ClassVar[Mapping[str, Any]] = {}

    def cells(self, options: MicroarrayOptions) -> list[Cell]:
        """Splits outermost: a run that is stopped has whole splits."""
        return sorted(super().cells(options), key=lambda cell: cell["split"])

    def run(self, cell: Cell, options: MicroarrayOptions) -> Result:
        """One change on one split."""
        name, data = str(cell["method"]), (*self.divided(cell, options), options)
        n_test = len(data[3])
        started = time.perf_counter()
        if name == BEST:
            result = METHODS[BEST](*data)
        else:
            result = of_path(*data, partial(solve, change=CHANGES[name]))
            # what the choice of alpha costs, by test rows: not a score
            result["errors_least"] = float(np.round((1.0 - np.max(result["test"])) * n_test, 6))
        kept = {
            key: result[key]
            for key in ("errors", "errors_simplest", "genes", "errors_least")
            if key in result
        }
        return kept | {"n_test": n_test, "seconds": time.perf_counter() - started}

    def tables(self, rows: list[tuple[Cell, Result]], options: MicroarrayOptions) -> dict[str, DataFrame]:
        """``results``: means over splits, and in how many of them a change has fewer or more errors."""
        import pandas as pd

        long = frame_of(
            rows,
            "dataset",
            "split",
            "method",
            "errors",
            "errors_simplest",
            "errors_least",
            "genes",
            "n_test",
            "seconds",
        )
        out = []
        for name, part in long.groupby("dataset", sort=False):
            errors = part.pivot_table(index="split", columns="method", values="errors", sort=False)
            for method in errors.columns:
                own = part[part["method"] == method]
                difference = errors[method] - errors["rls2"] if "rls2" in errors else errors[method] * np.nan
                out.append(
                    {
                        "dataset": name,
                        "method": method,
                        **own[["errors", "errors_simplest", "errors_least", "genes", "n_test", "seconds"]]
                        .mean()
                        .round(3),
                        "errors_std": round(float(own["errors"].std()), 3),
                        "fewer": int((difference < 0).sum()),
                        "more": int((difference > 0).sum()),
                        "splits": len(own),
                    }
                )
        return {"results": pd.DataFrame(out)}

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """None."""
        return iter(())
