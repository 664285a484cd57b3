"""Named cases: real tables with precomputed kernels, made-up linear problems, made-up groups of features."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kernelweave as kw

Array = NDArray[np.float64]

VARIABLE = "KERNELWEAVE_DATA"
#: 30 alphas from 1e2 to 1e-6, as in the paper's experiments with unit-trace kernels.
ALPHAS = np.logspace(2, -6, 30)
TRAIN_SHARE = 0.7

#: name -> whether columns are standardised
PATH_CASES = {"heart": True, "pima": True, "housing": True, "ionosphere": True, "sonar": False}
LINEAR_CASES = {"linear-16063": (144, 16_063), "linear-100000": (144, 100_000)}
REGRESSION = {"housing", "autompg"}
AUTO_CASES = (
    "heart", "sonar", "liver", "wdbc", "pima", "ionosphere", "housing", "autompg", "german_numeric", "australian",
)  # fmt: skip


class MissingData(RuntimeError):
    """A real data set is not there."""


def data_folder() -> Path:
    value = os.environ.get(VARIABLE)
    if not value:
        raise MissingData(
            f"The real data sets are needed: set {VARIABLE} to the folder that holds heart.csv."
        )
    folder = Path(value)
    if not folder.is_dir():
        raise MissingData(f"{VARIABLE} does not name a folder.")
    return folder


def load(name: str) -> tuple[Array, Array]:
    """Read columns and target; rows with missing cells and constant columns are dropped, classes are -1 and 1."""
    path = data_folder() / f"{name}.csv"
    if not path.is_file():
        raise MissingData(f"There is no {name}.csv in the folder that {VARIABLE} names.")
    with path.open(newline="") as file:
        rows = [row for row in list(csv.reader(file))[1:] if all(cell.strip() for cell in row)]
    X = np.array([[float(cell) for cell in row[:-1]] for row in rows])
    labels = np.array([row[-1] for row in rows])
    if name in REGRESSION:
        y = labels.astype(float)
    else:
        classes = np.unique(labels)
        if len(classes) != 2:
            raise ValueError(f"{name} must have two classes, has {len(classes)}.")
        y = np.where(labels == classes[1], 1.0, -1.0)
    return X[:, X.std(axis=0) > 0], y


@dataclass(frozen=True)
class PathCase:
    """Unit-trace kernels (n_kernels, n, n) of the training rows, and their targets."""

    name: str
    kernels: Array
    y: Array
    alphas: Array

    @property
    def stack(self) -> Array:
        """Kernels last, the layout that the library takes (a copy, contiguous)."""
        return np.ascontiguousarray(np.moveaxis(self.kernels, 0, -1))


def path_case(name: str, seed: int = 0) -> PathCase:
    X, y = load(name)
    if PATH_CASES[name]:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    rows = np.random.default_rng(seed).permutation(len(y))[: int(TRAIN_SHARE * len(y))]
    X, y = X[rows], y[rows]
    if name in REGRESSION:
        y = y - y.mean()
    return PathCase(name, unit_trace([k(X) for k in kw.banks.rls2(X.shape[1])]), y, ALPHAS)


def tiny_case(n: int = 30, p: int = 3, seed: int = 0) -> PathCase:
    """A case of no size, to see that everything runs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
    return PathCase("tiny", unit_trace([k(X) for k in kw.banks.rls2(p)]), y - y.mean(), np.logspace(1, -3, 5))


def unit_trace(kernels: list[Array]) -> Array:
    stack = np.stack(kernels)
    stack /= np.einsum("mii->m", stack)[:, None, None]
    return stack


def linear_case(name: str, seed: int = 0) -> tuple[Array, Array]:
    """Features as rows (n_features, n), standardised, and +-1 targets that depend on five of them."""
    n, p = LINEAR_CASES[name] if name in LINEAR_CASES else tuple(int(part) for part in name.split("x"))
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((p, n))
    y = np.sign(rows[:5].sum(axis=0) + rng.standard_normal(n))
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= np.sqrt(np.einsum("pn,pn->p", rows, rows) / n)[:, None]
    return rows, y - y.mean()


@dataclass(frozen=True)
class ViewsCase:
    """Kernels of groups of features: training (m, n, n) and cross (m, n_test, n), mean diagonal 1."""

    train: Array
    cross: Array
    y: Array
    y_test: Array


def views_case(
    n_views: int, kind: str, seed: int, n: int = 200, width: int = 10, signal: int = 3
) -> ViewsCase:
    """Groups of 10 Gaussian features; three of them carry signal, which explains 80 % of the variance.

    Linear kernels with a linear signal, Gaussian kernels with a smooth nonlinear one.
    """
    rng = np.random.default_rng([seed, n_views])
    X = rng.standard_normal((2 * n, n_views, width))
    directions = rng.standard_normal((signal, width)) / np.sqrt(width)
    f = np.einsum("ivw,vw->iv", X[:, :signal], directions)
    f = f if kind == "linear" else np.sin(2.0 * f)
    f = (f / f.std(axis=0)) @ np.linspace(1.0, 0.5, signal)
    y = f / f.std() + 0.5 * rng.standard_normal(2 * n)
    y -= y[:n].mean()
    kernel = kw.kernels.Linear() if kind == "linear" else kw.kernels.RBF(gamma=0.5 / width)
    train = np.stack([kernel(X[:n, v]) for v in range(n_views)])
    cross = np.stack([kernel(X[n:, v], X[:n, v]) for v in range(n_views)])
    scale = np.einsum("mii->m", train) / n
    return ViewsCase(train / scale[:, None, None], cross / scale[:, None, None], y[:n], y[n:])
