"""Kernel values of new rows, and features of kernels, as nodes of an ONNX graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import reduce, singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._sparse import to_dense
from kernelweave.functions import KernelFunction
from kernelweave.kernels import (
    RBF,
    Approximate,
    ArcCosine,
    Bins,
    Categorical,
    Constant,
    Cosines,
    Kernel,
    Laplacian,
    Linear,
    Nystroem,
    On,
    Polynomial,
    Prepared,
    Product,
    RandomFeatures,
    Scaled,
    Sum,
)
from kernelweave.persistence import graph_nodes as nodes
from kernelweave.persistence.graph_columns import Columns
from kernelweave.persistence.graph_nodes import Node
from kernelweave.views import as_table

Array = NDArray[np.float64]


def _refused(kernel: Kernel) -> InputError:
    return InputError(
        f"The kernel {kernel.label!r} has no ONNX form: there are Linear, Polynomial, RBF, Laplacian, ArcCosine, "
        "Categorical, Constant, Bins and Cosines, their sums, products and multiples, and Nystroem and random "
        "features. Save the model with kernelweave.save instead."
    )


def _functions(kernel: Kernel) -> Sequence[KernelFunction]:
    """Functions of the inner product, one after another."""
    if isinstance(kernel, ArcCosine):
        degrees = kernel.degree if isinstance(kernel.degree, tuple) else (kernel.degree,) * kernel.layers
        return [ArcCosine(degree).layer() for degree in degrees]
    return [kernel.layer()]


# ---- values ---------------------------------------------------------------------------------------


class Values(NamedTuple):
    """Kernel values of new rows.

    Attributes
    ----------
    training : node of shape (n_rows, n_samples)
        With training rows.
    own : node of shape (n_rows,)
        With themselves.
    """

    training: Node
    own: Node


@singledispatch
def values(kernel: Kernel, columns: Columns) -> Values:
    """Kernel values between new and training rows, and of new rows with themselves."""
    raise _refused(kernel)


@values.register
def _(kernel: On, columns: Columns) -> Values:
    return values(kernel.kernel, columns.select(kernel.columns))


@values.register
def _(kernel: Prepared, columns: Columns) -> Values:
    return values(kernel.kernel, columns.after(kernel.steps))


@values.register
def _(kernel: Scaled, columns: Columns) -> Values:
    K, own = values(kernel.kernel, columns)
    return Values(kernel.factor * K, kernel.factor * own)


@values.register
def _(kernel: Sum, columns: Columns) -> Values:
    K, own = zip(*(values(one, columns) for one in kernel.terms), strict=True)
    return Values(nodes.total(K), nodes.total(own))


@values.register
def _(kernel: Product, columns: Columns) -> Values:
    K, own = zip(*(values(one, columns) for one in kernel.terms), strict=True)
    return Values(reduce(operator.mul, K), reduce(operator.mul, own))


@values.register(Linear)
@values.register(Polynomial)
@values.register(ArcCosine)
def _(kernel: Kernel, columns: Columns) -> Values:
    K, left, right = columns.statistic("dot"), columns.norms, columns.training_norms
    for function in _functions(kernel):
        K = function.value(nodes, K, left[:, None], right[None, :])
        left, right = function.diagonal(nodes, left), function.diagonal(nodes, right)
    return Values(K, left)


@values.register(RBF)
@values.register(Laplacian)
def _(kernel: RBF | Laplacian, columns: Columns) -> Values:
    K = nodes.exp(-kernel.gamma * columns.statistic(kernel.statistic))
    return Values(K, nodes.ones_like(columns.norms))


@values.register
def _(kernel: Constant, columns: Columns) -> Values:
    K, own = nodes.ones_like(columns.statistic("dot")), nodes.ones_like(columns.norms)
    return Values(kernel.value * K, kernel.value * own)


@values.register
def _(kernel: Categorical, columns: Columns) -> Values:
    training = columns.training.joined()
    parts = []
    for j, level in enumerate(training.levels):
        new = columns.values[:, j : j + 1]
        same = nodes.astype(nodes.equal(new, training.values[None, :, j]), np.float64)
        # an unknown category is equal to nothing
        parts.append(same * nodes.astype(new >= 0.0, np.float64) if level else same)
    return Values(nodes.total(parts) / float(training.n_columns), nodes.ones_like(columns.norms))


@values.register(Approximate)
@values.register(Bins)
@values.register(Cosines)
def _(kernel: Kernel, columns: Columns) -> Values:
    phi, known = features(kernel, columns), kernel.features(columns.training)
    return Values(phi @ np.ascontiguousarray(to_dense(known).T), nodes.sum(phi * phi, axis=1))


# ---- explicit features ------------------------------------------------------------------------------


@singledispatch
def features(kernel: Kernel, columns: Columns) -> Node:
    """Explicit features of new rows, shape (n_rows, n_features)."""
    raise _refused(kernel)


@features.register
def _(kernel: On, columns: Columns) -> Node:
    return features(kernel.kernel, columns.select(kernel.columns))


@features.register
def _(kernel: Prepared, columns: Columns) -> Node:
    return features(kernel.kernel, columns.after(kernel.steps))


@features.register
def _(kernel: Scaled, columns: Columns) -> Node:
    return math.sqrt(kernel.factor) * features(kernel.kernel, columns)


@features.register
def _(kernel: Sum, columns: Columns) -> Node:
    return nodes.concat([features(one, columns) for one in kernel.terms], axis=1)


@features.register
def _(kernel: Product, columns: Columns) -> Node:
    first, *others = kernel.terms
    phi, width = features(first, columns), _width(first, columns)
    for term in others:
        width *= _width(term, columns)
        pairs = phi[:, :, None] * features(term, columns)[:, None, :]
        phi = nodes.reshape(pairs, (-1, width))
    return phi


def _width(kernel: Kernel, columns: Columns) -> int:
    known = kernel.features(columns.training.rows(slice(0, 1)))
    assert known is not None  # as for the training rows
    return int(known.shape[1])


@features.register
def _(kernel: Linear, columns: Columns) -> Node:
    return columns.expanded


@features.register
def _(kernel: Polynomial, columns: Columns) -> Node:
    # one column: the others have no explicit features
    x, q = columns.expanded, kernel.degree
    parts, power = [], nodes.ones_like(x)
    for k in range(q + 1):
        scale = math.sqrt(math.comb(q, k) * kernel.gamma**k * kernel.coef0 ** (q - k))
        if scale > 0:
            parts.append(scale * power)
        power = power * x
    return nodes.concat(parts, axis=1)


@features.register
def _(kernel: Constant, columns: Columns) -> Node:
    return math.sqrt(kernel.value) * nodes.ones_like(columns.expanded[:, :1])


@features.register
def _(kernel: Categorical, columns: Columns) -> Node:
    return columns.expanded / math.sqrt(columns.training.n_columns)


@features.register
def _(kernel: Approximate, columns: Columns) -> Node:
    return _features_of_map(kernel.map, kernel.kernel, columns)


@features.register
def _(kernel: Bins, columns: Columns) -> Node:
    parts = []
    for j, edges in enumerate(kernel.edges):
        x = columns.expanded[:, j : j + 1]
        place = nodes.sum(nodes.astype(x >= edges[None, :], nodes.float64), axis=1, keepdims=True)
        parts.append(
            nodes.astype(nodes.equal(place, np.arange(float(kernel.n_bins))[None, :]), nodes.float64)
        )
    return nodes.concat(parts, axis=1) / math.sqrt(len(parts))


@features.register
def _(kernel: Cosines, columns: Columns) -> Node:
    parts = []
    j = np.arange(1.0, kernel.n_terms + 1.0)
    factors = (math.sqrt(2.0) * j**-kernel.smoothness)[None, :]
    for column, (low, high) in enumerate(kernel.ranges):
        x = columns.expanded[:, column : column + 1]
        share = nodes.clip((x - low) / (high - low if high > low else 1.0), 0.0, 1.0)
        parts.append(factors * nodes.cos(share * np.pi * j[None, :]))
    return nodes.concat(parts, axis=1) / math.sqrt(len(parts))


@singledispatch
def _features_of_map(rule: object, kernel: Kernel, columns: Columns) -> Node:
    raise _refused(kernel)


@_features_of_map.register
def _(rule: Nystroem, kernel: Kernel, columns: Columns) -> Node:
    # rows of the inverse factor instead of a triangular solve, which graphs do not have
    pivots = Columns(columns.values, as_table(rule.landmarks))
    inverse = np.linalg.solve(rule.factor, np.eye(len(rule.factor)))
    return values(kernel, pivots).training @ np.ascontiguousarray(inverse.T)


@_features_of_map.register
def _(rule: RandomFeatures, kernel: Kernel, columns: Columns) -> Node:
    first, *others = rule.frequencies
    projected = columns.expanded @ np.ascontiguousarray(first.T)
    if not isinstance(kernel, ArcCosine):
        return nodes.concat([nodes.cos(projected), nodes.sin(projected)], axis=1) / math.sqrt(len(first))
    degrees = kernel.degree if isinstance(kernel.degree, tuple) else (kernel.degree,) * kernel.layers
    out = _layer(projected, degrees[0], len(first))
    for W, degree in zip(others, degrees[1:], strict=True):
        out = _layer(out @ np.ascontiguousarray(W.T), degree, len(W))
    return out


def _layer(projected: Node, degree: int, width: int) -> Node:
    """``sqrt(2 / n) max(w x, 0)^q``, with a step of 1/2 at 0."""
    if degree == 0:
        out = 0.5 * (
            nodes.astype(projected > 0.0, nodes.float64) + nodes.astype(projected >= 0.0, nodes.float64)
        )
    else:
        out = nodes.maximum(projected, 0.0)
        out = out if degree == 1 else out * out
    return math.sqrt(2.0 / width) * out
