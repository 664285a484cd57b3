"""Columns of new rows in an ONNX graph, beside the training rows that have the same ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._sparse import sq_norms, to_dense
from kernelweave.kernels.preparation import AffineStep, Log1p, NormalizeRows, Step, apply_steps
from kernelweave.kernels.statistics import FEW_COLUMNS
from kernelweave.persistence import graph_nodes as nodes
from kernelweave.persistence.graph_nodes import Node
from kernelweave.views import Table

Array = NDArray[np.float64]

#: Columns whose absolute differences are taken at a time.
BLOCK = 16


@dataclass(frozen=True, eq=False)
class Columns:
    """New rows as nodes, with training rows that have the same columns.

    Attributes
    ----------
    values : node of shape (n_rows, n_columns)
        As in the table: numbers, and codes of categories.
    training : Table
    """

    values: Node
    training: Table
    _selected: dict[object, Columns] = field(default_factory=dict, repr=False)
    _statistics: dict[str, Node] = field(default_factory=dict, repr=False)

    def select(self, columns: Any) -> Columns:
        """Some columns; nodes of the same selection are made once."""
        if columns is None:
            return self
        if columns not in self._selected:
            found = self.training.resolve(columns)
            self._selected[columns] = Columns(self._taken(found), self.training.select(columns))
        return self._selected[columns]

    def _taken(self, found: NDArray[np.intp]) -> Node:
        if np.array_equal(found, np.arange(self.training.n_columns)):
            return self.values
        return nodes.take(self.values, np.asarray(found, dtype=np.int64), axis=1)

    @cached_property
    def expanded(self) -> Node:
        """All columns as numbers, categories as indicators."""
        levels = self.training.levels
        if not any(levels):
            return self.values
        parts = []
        for j, level in enumerate(levels):
            column = self.values[:, j : j + 1]
            known = np.arange(float(level))[None, :]
            parts.append(nodes.astype(nodes.equal(column, known), nodes.float64) if level else column)
        return nodes.concat(parts, axis=1)

    @cached_property
    def norms(self) -> Node:
        """Squared lengths, shape (n_rows,)."""
        return nodes.sum(self.expanded * self.expanded, axis=1)

    @cached_property
    def training_rows(self) -> Array:
        """The training rows as numbers, categories as indicators."""
        return to_dense(self.training.take())

    @property
    def training_norms(self) -> Array:
        """Their squared lengths."""
        return sq_norms(self.training_rows)

    def statistic(self, kind: str) -> Node:
        """Inner products or distances between new and training rows, made once; see `pairwise_statistic`."""
        if kind not in self._statistics:
            self._statistics[kind] = self._pairs(kind)
        return self._statistics[kind]

    def _pairs(self, kind: str) -> Node:
        A, B = self.expanded, self.training_rows
        if kind == "dot":
            return A @ B.T
        if kind == "l1":
            blocks = range(0, B.shape[1], BLOCK)
            return nodes.total(
                nodes.sum(nodes.abs(A[:, None, j : j + BLOCK] - B[None, :, j : j + BLOCK]), axis=2)
                for j in blocks
            )
        if B.shape[1] <= FEW_COLUMNS:
            apart = (A[:, j : j + 1] - B[None, :, j] for j in range(B.shape[1]))
            return nodes.total(one * one for one in apart)
        centre = B.mean(axis=0)
        A, B = A - centre, B - centre
        S = nodes.sum(A * A, axis=1)[:, None] + sq_norms(B)[None, :] - 2.0 * (A @ B.T)
        return nodes.maximum(S, 0.0)

    def after(self, steps: tuple[Step, ...]) -> Columns:
        """The columns after a preparation."""
        if steps not in self._selected:
            values, training = self.values, self.training.joined()
            for one in steps:
                values = _applied(one, Columns(values, training))
                training = apply_steps((one,), training)
            self._selected[steps] = Columns(values, training)
        return self._selected[steps]


def _applied(step: Step, columns: Columns) -> Node:
    values = columns.values
    if isinstance(step, AffineStep):
        shift, scale = step.affine()
        return (values - shift) / scale
    if isinstance(step, Log1p):
        moved = nodes.sign(values) * nodes.log1p(nodes.abs(values))
        numeric = np.asarray(columns.training.levels) == 0
        return moved if numeric.all() else nodes.where(numeric[None, :], moved, values)
    if isinstance(step, NormalizeRows):
        rows = columns.expanded
        largest = nodes.max(nodes.abs(rows), axis=1, keepdims=True)
        rows = rows / nodes.where(largest > 0, largest, nodes.ones_like(largest))
        length = nodes.sqrt(nodes.sum(rows * rows, axis=1, keepdims=True))
        return rows / nodes.where(length > 0, length, nodes.ones_like(length))
    raise InputError(
        f"The preparation {step.name!r} has no ONNX form: there are standardize, log1p and normalize-rows. Impute "
        "missing cells before the model, in a pipeline."
    )
