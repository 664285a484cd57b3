"""Tables 2 and 3 of the MLMKL paper, in a protocol that follows its text, and with all parameters tuned.

Halves, kernels and fits of the data sets and methods in `mlmkl_grid`; `mlmkl_tables` summarises the results.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave import banks, datasets, learners
from kernelweave._errors import InputError
from kernelweave.datasets import Dataset
from kernelweave.fitting.source import TableSource
from kernelweave.gram import Gram
from kernelweave.kernels import Kernel
from kernelweave.learners.base import TrainingSet
from kernelweave.learners.solving import MarginLearner, MarginSolution
from kernelweave.normalizers import Cosine
from kernelweave.views import as_table
from kernelweave_papers import baselines
from kernelweave_papers.algorithms.posterior_mlmkl import PosteriorMLMKL
from kernelweave_papers.algorithms.published_mlmkl import PublishedMLMKL
from kernelweave_papers.base import Cell, Experiment, Result
from kernelweave_papers.mlmkl_grid import (
    COSTS,
    STEPPED,
    TRAINING,
    VERSIONS,
    MLMKLOptions,
    belongs,
    best,
    parts,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: C of all methods in the literal protocol.
LITERAL_C = 10.0
#: Caps of SM1MKL; the paper gives none. 1 is 1 / (M - 3), as in the demonstration of its author's code, for M = 4
#: kernels: plain L1 MKL. A half lies between that and the average kernel.
THETAS = {"sm1mkl": 1.0, "sm1mkl-half": 0.5}
#: Learners of the methods with a step: their solutions depend on where they start.
NOT_CONVEX = (learners.DMKL, learners.TwoLayerMKL, learners.MLMKL)
#: Inner folds; the literal protocol holds out the first of them.
INNER = 3


# ---- data -----------------------------------------------------------------------------------------


def codes(data: Dataset) -> Array:
    """Categories as the position of their level in alphabetical order, one column each."""
    groups: dict[str, list[int]] = {}
    for j, name in enumerate(data.feature_names):
        groups.setdefault(name.partition("=")[0], []).append(j)
    columns = [
        data.X[:, own].argmax(axis=1) if "=" in data.feature_names[own[0]] else data.X[:, own[0]]
        for own in groups.values()
    ]
    return np.column_stack(columns).astype(np.float64)


@lru_cache(maxsize=4)
def table(name: str) -> tuple[Array, Array]:
    """Columns and labels -1 and 1 of a data set or version; complete rows only."""
    source = name.removesuffix("_indicators")
    data = datasets.load(source, protocol="mlmkl")
    X = data.X if source != name else codes(data)
    if data.task == "binary":
        return X, data.signs
    # three classes of patients after surgery: the ward (A), against home and intensive care
    return X, np.where(data.y == data.target_names.index("A"), 1.0, -1.0)


def halves(y: Array, n_train: int, seed: int, split: int) -> tuple[Rows, Rows]:
    """Random training and test rows with both classes in each."""
    rng = np.random.default_rng([seed, split])
    while True:
        order = rng.permutation(len(y))
        train, test = order[:n_train], order[n_train:]
        if all(len(np.unique(y[rows])) == 2 for rows in (train, test)):
            return train, test


@dataclass(frozen=True, eq=False)
class Part:
    """Kernels of rows to fit on, and between them and rows that are held out."""

    gram: Gram
    y: Array
    block: Array
    diagonal: Array
    y_held: Array

    def take(self, kernel: int) -> Part:
        """The part with a single kernel."""
        own = slice(kernel, kernel + 1)
        return Part(
            self.gram.take(np.array([kernel])), self.y, self.block[own], self.diagonal[own], self.y_held
        )

    def decision(self, result: MarginSolution) -> Array:
        """Decision values on the held-out rows."""
        K = np.tensordot(result.weights, self.block, 1)
        upper = result.upper_layers[0] if result.upper_layers else None
        if upper is not None and upper.first is not None:
            outputs = np.einsum("mij,jm->im", self.block, upper.first.coef)
            K = upper.cross(*upper.first.inner(outputs))
        elif upper is not None:
            K = upper.cross(K, result.weights @ self.diagonal)
        return K @ result.dual_coef[:, 0] + result.intercept[0]

    def score(self, result: MarginSolution) -> tuple[float, float]:
        """Accuracy in percent and mean hinge loss on the held-out rows."""
        f = self.decision(result)
        right = float(100 * np.mean((f > 0) == (self.y_held > 0)))
        return right, float(np.mean(np.maximum(0.0, 1.0 - self.y_held * f)))


@dataclass(frozen=True, eq=False)
class Split:
    """One half for training and one for testing, with the four kernels of all rows."""

    X: Array
    y: Array
    train: Rows
    test: Rows
    gram: Gram
    folds: list[tuple[Rows, Rows]]
    _parts: dict[int, Part] = field(default_factory=dict, repr=False)

    def inner(self, fold: int) -> Part:
        """Two thirds of the training rows against the third of one inner fold."""
        fit, held = self.folds[fold]
        return self._part(fold, self.train[fit], self.train[held])

    def outer(self) -> Part:
        """The training rows against the test rows."""
        return self._part(-1, self.train, self.test)

    def _part(self, key: int, fit: Rows, held: Rows) -> Part:
        if key not in self._parts:
            own = self.gram.restrict(np.r_[fit, held])
            block = np.stack([own.combine(unit)[len(fit) :, : len(fit)] for unit in np.eye(own.n_kernels)])
            self._parts[key] = Part(
                self.gram.restrict(fit), self.y[fit], block, self.gram.diagonal()[:, held], self.y[held]
            )
        return self._parts[key]


def make_split(
    X: Array, y: Array, train: Rows, test: Rows, seed: int, kernels: list[Kernel] | None = None
) -> Split:
    """Columns standardised with the training rows, cosine-normalised kernels, stratified inner folds."""
    from sklearn.model_selection import StratifiedKFold

    spread = X[train].std(axis=0, ddof=1)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    raw = TableSource(kernels or banks.mlmkl(), as_table(X), max_memory=float("inf")).gram()
    gram = Cosine().fit(raw).prepare(raw)
    folds = StratifiedKFold(INNER, shuffle=True, random_state=seed).split(X[train], y[train])
    return Split(X, y, train, test, gram, list(folds))


@lru_cache(maxsize=1)
def load_split(name: str, split: int, seed: int) -> Split:
    """One split of a data set. The latest is cached, because methods on the same split follow each other."""
    X, y = table(name)
    n_train = TRAINING[VERSIONS.get(name, name)]
    train, test = halves(y, n_train, seed, split)
    return make_split(X, y, train, test, seed)


# ---- methods --------------------------------------------------------------------------------------


def make_learner(method: str, protocol: str, eta: float, options: MLMKLOptions, n_rows: int) -> MarginLearner:
    """A column of the tables."""
    family, n_layers = parts(method)
    if family in ("sksvm", "average"):
        return learners.Uniform(tol=1e-6)
    if family == "l2mkl":
        return learners.LpMKL(p=2.0, tol=1e-4)
    if family in THETAS:
        return learners.SoftMarginMKL(theta=THETAS[family], tol=1e-4)
    if family in ("uniform", "mlmkl-equal"):
        return learners.DeepUniform(n_layers=n_layers)
    literal = protocol == "literal"
    step, most = ("fixed", options.steps) if literal else ("backtracking", None)
    if family == "dmkl":
        # the bound of its author's code is a sum over rows, the library's is a mean
        return learners.DMKL(n_layers=n_layers, step=step, eta=eta * n_rows, max_iter=most)
    if family == "2lmkl":
        return learners.TwoLayerMKL(step=step, eta=eta, max_iter=most)
    if family == "mlmkl-literal":
        return PublishedMLMKL(n_layers=n_layers, eta=eta, max_iter=most)
    if family in ("mlmkl-platt", "mlmkl-logistic"):
        link = family.removeprefix("mlmkl-")
        return PosteriorMLMKL(n_layers=n_layers, link=link, eta=eta, max_iter=most)
    if family == "mlmkl-default":
        return learners.MLMKL(n_layers=n_layers)
    criterion = "training" if literal else "out-of-fold"
    return learners.MLMKL(n_layers=n_layers, criterion=criterion, step=step, eta=eta, max_iter=most)


def fit(learner: MarginLearner, part: Part, Cs: tuple[float, ...]) -> list[MarginSolution]:
    """Solutions along ascending C, with warm starts if the weights do not depend on the start."""
    if isinstance(learner, NOT_CONVEX) and len(Cs) > 1:
        # these are not convex: weights for a small C may lead to a poor local solution for a larger one
        return [found for C in Cs for found in fit(learner, part, (C,))]
    content = _content(part) if learner.validates else None
    info = TrainingSet(
        part.gram, part.y[:, None], np.ones(part.gram.n_kernels), classification=True, content=content
    )
    return list(learner.path(info, 1.0 / np.array(Cs)).solutions)


def _content(part: Part) -> NDArray[np.intp]:
    """Order in which rows are assigned to inner folds: that of the published tables, by values of the summed kernels.

    Estimators use the values of the table. Here there are only matrices, always in the same order of rows.
    """
    scale = np.ones(part.gram.n_kernels)
    _, first = np.unique(
        np.column_stack([part.y, np.round(part.gram.diagonal().T @ scale, 9)]), axis=0, return_index=True
    )
    mask = np.zeros(len(part.y))
    mask[first] = np.where(part.y[first] > np.median(np.unique(part.y)), 1.0, -1.0)
    values = part.gram.matvec(scale, mask)
    size = float(np.abs(values).max())
    _, rank = np.unique(np.round(values / size, 9) if size > 0 else values, return_inverse=True)
    return rank.reshape(-1)


def run_literal(method: str, split: Split, options: MLMKLOptions) -> Result:
    """C = 10; each step size is fitted on two thirds of the half for the choice, and on all of it.

    The test accuracies of all step sizes are kept, for the choice that is labelled optimistic.
    """
    stepped = parts(method)[0] in STEPPED
    etas = options.etas if stepped else (1.0,)
    inner, outer = _of(method, split.inner(0)), _of(method, split.outer())
    held, tested = np.full((2, len(etas)), np.nan), np.full(len(etas), np.nan)
    found: list[MarginSolution | None] = [None] * len(etas)
    for k, eta in enumerate(etas):
        try:
            one = fit(make_learner(method, "literal", eta, options, len(inner.y)), inner, (LITERAL_C,))[0]
            held[:, k] = inner.score(one)
            two = fit(make_learner(method, "literal", eta, options, len(outer.y)), outer, (LITERAL_C,))[0]
            tested[k] = outer.score(two)[0]
            found[k] = two
        except InputError:
            # a step that leads to overflow is never chosen
            continue
    chosen = best(held[0], held[1])
    result = {
        "inner": held[0].tolist(), "loss": held[1].tolist(), "chosen": chosen, "test": tested.tolist(),
        "n_train": len(split.train),
    }  # fmt: skip
    if stepped:
        change = [
            np.nan if r is None else float(r.history["criterion"][-1] - r.history["criterion"][0])
            for r in found
        ]
        steps = [0 if r is None else len(r.history["criterion"]) - 1 for r in found]
        result |= {"change": change, "steps": steps}
    return result | _told(found[chosen])


def run_tuned(method: str, split: Split, options: MLMKLOptions) -> Result:
    """C by three inner folds; the final path of the convex methods ends at the chosen C."""
    learner = make_learner(method, "tuned", 0.1, options, len(split.train))
    held = np.zeros((2, len(options.Cs)))
    for k in range(INNER):
        part = _of(method, split.inner(k))
        scores = np.array([part.score(r) for r in fit(learner, part, options.Cs)]).T
        held += scores * len(part.y_held) / len(split.train)
    chosen = best(held[0], held[1])
    outer = _of(method, split.outer())
    stepped = parts(method)[0] in STEPPED
    found = fit(learner, outer, options.Cs[chosen if stepped else 0 : chosen + 1])[-1]
    tested = [np.nan] * len(options.Cs)
    tested[chosen] = outer.score(found)[0]
    return {
        "inner": held[0].tolist(), "loss": held[1].tolist(), "chosen": chosen, "test": tested,
        "n_train": len(split.train),
    } | _told(found)  # fmt: skip


def run_rbf(split: Split, options: MLMKLOptions) -> Result:
    """The tuned RBF machine, with its own grid for the width."""
    train, test = split.train, split.test
    f, chosen = baselines.tuned_rbf(
        split.X[train], split.y[train], split.X[test], split.folds, options.seed, False, options.Cs
    )
    right = float(100 * np.mean((f > 0) == (split.y[test] > 0)))
    tested = [right if chosen["C"] == C else np.nan for C in options.Cs]
    return {"chosen": options.Cs.index(chosen["C"]), "test": tested, "n_train": len(train)} | chosen


def _of(method: str, part: Part) -> Part:
    # the second kernel of the bank is the Gaussian with gamma 1
    return part.take(1) if method == "sksvm" else part


def _told(result: MarginSolution | None) -> Result:
    if result is None:
        return {}
    layers = result.layer_weights
    weights = result.weights[None] if layers is None else np.atleast_2d(layers)
    return {"gap": float(result.rel_gap), "status": result.status.name, "weights": weights.tolist()}


# ---- the experiment -------------------------------------------------------------------------------


class MLMKLTables(Experiment):
    """Tables 2 and 3."""

    name = "mlmkl"
    title = "MLMKL and its competitors, Tables 2 and 3"
    defaults = MLMKLOptions()
    quick = MLMKLOptions(
        datasets=("postoperative", "sonar"), splits=1, etas=(1.0, 0.01), Cs=(1.0, 10.0), steps=10
    )
    costs = COSTS
    published: ClassVar[tuple[str, ...]] = ("results", "ranks", "contrasts", "steps", "weights")
    shown: ClassVar[tuple[str, ...]] = (
        "dataset",
        "selection",
        "method",
        "accuracy",
        "std",
        "printed",
        "splits",
    )

    def prepare(self, options: MLMKLOptions) -> list[str]:
        """Load every data set once."""
        sources = dict.fromkeys(name.removesuffix("_indicators") for name in options.datasets)
        return [repr(datasets.load(name, protocol="mlmkl", progress=True)) for name in sources]

    def rows(self, cell: Cell) -> int:
        """Rows of the data set, of which versions have as many."""
        name = str(cell["dataset"])
        return super().rows(cell | {"dataset": VERSIONS.get(name, name)})

    def cells(self, options: MLMKLOptions) -> list[Cell]:
        """Methods innermost, so that they share the kernels of a split."""
        return [
            {"dataset": name, "split": split, "protocol": protocol, "method": method}
            for name in options.datasets
            for split in range(options.splits)
            for protocol in options.protocols
            for method in options.methods
            if belongs(method, protocol)
        ]

    def run(self, cell: Cell, options: MLMKLOptions) -> Result:
        """One method on one split in one protocol."""
        split = load_split(str(cell["dataset"]), int(cell["split"]), options.seed)
        method = str(cell["method"])
        started, cpu = time.perf_counter(), time.process_time()
        if method == "rbf":
            result = run_rbf(split, options)
        else:
            result = (run_literal if cell["protocol"] == "literal" else run_tuned)(method, split, options)
        return result | {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu}

    def tables(self, rows: list[tuple[Cell, Result]], options: MLMKLOptions) -> dict[str, DataFrame]:
        """Accuracies, ranks, paired differences, step sizes and weights."""
        from kernelweave_papers import mlmkl_tables

        return mlmkl_tables.tables(rows, options)

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Critical differences, and accuracy against the step size."""
        from kernelweave_papers import mlmkl_tables

        yield from mlmkl_tables.figures(tables)
