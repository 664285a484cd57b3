"""Nodes of an ONNX graph with the operators of arrays, and columns of new rows made of them.

The module itself is a namespace like that of NumPy, with which kernels compute their formulas: functions take nodes and
NumPy arrays, which become constants of the graph; of arrays alone they return arrays. It has what kernels and models
need, in double precision where runtimes have it.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._sparse import sq_norms, to_dense
from kernelweave.kernels.pairs import FEW_COLUMNS
from kernelweave.kernels.steps import AffineStep, Log1p, NormalizeRows, Step, apply_steps
from kernelweave.views import Table

__all__ = ["Columns", "Graph", "Node"]

#: The first set of operators in which texts can be compared, and the format of files that goes with it.
OPERATORS, FILE_FORMAT = 19, 9

float64, float32, int64 = np.float64, np.float32, np.int64


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise InputError("ONNX files need the package onnx: pip install 'kernelweave[onnx]'.") from error
    return onnx


#: Before the functions of the namespace take these names.
_most = max


class Graph:
    """The nodes, constants and inputs of a graph, in the order in which they were made."""

    def __init__(self) -> None:
        self._onnx = _onnx()
        self._nodes: list[Any] = []
        self._constants: dict[tuple[object, ...], tuple[str, Any]] = {}
        self._inputs: list[Any] = []
        self._numbers: dict[tuple[object, ...], Node] = {}

    def input(self, name: str, n_columns: int, dtype: Any) -> Node:
        """A matrix of any number of rows."""
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, kind, ["n_rows", n_columns]))
        return Node(self, name, 2)

    def constant(self, value: Any) -> str:
        """The name of a constant; equal ones are stored once."""
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (array.dtype.str, array.shape, array.tobytes() if array.dtype != object else tuple(array.flat))
        if key not in self._constants:
            name = f"c{len(self._constants)}"
            texts = array.astype(object) if array.dtype.kind == "U" else array
            self._constants[key] = name, self._onnx.numpy_helper.from_array(texts, name)
        return self._constants[key][0]

    def node(self, operator: str, *args: Any, ndim: int, **attributes: Any) -> Node:
        """The result of an operator; the same operator on the same arguments is one node."""
        names = [a.name if isinstance(a, Node) else self.constant(a) for a in args]
        key = (operator, *names, *sorted(attributes.items()))
        if key not in self._numbers:
            name = f"n{len(self._nodes)}"
            self._nodes.append(self._onnx.helper.make_node(operator, names, [name], **attributes))
            self._numbers[key] = Node(self, name, ndim)
        return self._numbers[key]

    def built(self, outputs: dict[str, tuple[Node, Any]]) -> Any:
        """The model with some nodes as outputs, given with their types; `object` of texts."""
        helper, declared = self._onnx.helper, []
        for name, (node, dtype) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [node.name], [name]))
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            declared.append(
                helper.make_tensor_value_info(name, kind, ["n_rows", None] if node.ndim == 2 else ["n_rows"])
            )
        made = self._needed(set(outputs))
        read = {name for node in made for name in node.input}
        constants = [tensor for name, tensor in self._constants.values() if name in read]
        graph = helper.make_graph(made, "kernelweave", self._inputs, declared, constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPERATORS)], producer_name="kernelweave"
        )
        model.ir_version = FILE_FORMAT
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _needed(self, names: set[str]) -> list[Any]:
        """The nodes from which some results follow, in their order."""
        found = []
        for node in reversed(self._nodes):
            if node.output[0] in names:
                names.update(node.input)
                found.append(node)
        return found[::-1]


class Node:
    """A result in a graph, of one or two dimensions, or three on the way."""

    #: Operators between NumPy arrays and nodes are those of nodes.
    __array_ufunc__ = None

    def __init__(self, graph: Graph, name: str, ndim: int) -> None:
        self.graph, self.name, self.ndim = graph, name, ndim

    def __add__(self, other: object) -> Node:
        return _combined("Add", self, other)

    def __radd__(self, other: object) -> Node:
        return _combined("Add", other, self)

    def __sub__(self, other: object) -> Node:
        return _combined("Sub", self, other)

    def __rsub__(self, other: object) -> Node:
        return _combined("Sub", other, self)

    def __mul__(self, other: object) -> Node:
        return _combined("Mul", self, other)

    def __rmul__(self, other: object) -> Node:
        return _combined("Mul", other, self)

    def __truediv__(self, other: object) -> Node:
        return _combined("Div", self, other)

    def __rtruediv__(self, other: object) -> Node:
        return _combined("Div", other, self)

    def __pow__(self, other: object) -> Node:
        return _combined("Pow", self, other)

    def __gt__(self, other: object) -> Node:
        return _combined("Greater", self, other)

    def __ge__(self, other: object) -> Node:
        return _combined("GreaterOrEqual", self, other)

    def __lt__(self, other: object) -> Node:
        return _combined("Less", self, other)

    def __le__(self, other: object) -> Node:
        return _combined("LessOrEqual", self, other)

    def __neg__(self) -> Node:
        return self.graph.node("Neg", self, ndim=self.ndim)

    def __matmul__(self, other: Any) -> Node:
        return self.graph.node("MatMul", self, other, ndim=self.ndim + other.ndim - 2)

    def __getitem__(self, key: Any) -> Node:
        """Slices of columns, one column, or new axes."""
        node, axis, new = self, 0, []
        for place, part in enumerate(key):
            if part is None:
                new.append(place)
                continue
            if isinstance(part, int):
                node = self.graph.node("Gather", node, np.int64(part), axis=axis, ndim=node.ndim - 1)
                continue
            if part != slice(None):
                ends = [np.array([v], dtype=np.int64) for v in (part.start or 0, part.stop, axis)]
                node = self.graph.node("Slice", node, *ends, ndim=node.ndim)
            axis += 1
        if new:
            axes = np.array(new, dtype=np.int64)
            node = self.graph.node("Unsqueeze", node, axes, ndim=node.ndim + len(new))
        return node


def _combined(operator: str, *args: Any) -> Node:
    """An operator that broadcasts."""
    graph = next(a.graph for a in args if isinstance(a, Node))
    given = [
        a if isinstance(a, Node) else np.float64(a) if isinstance(a, int) else np.asarray(a) for a in args
    ]
    return graph.node(operator, *given, ndim=_most(a.ndim for a in given))


def _is_array(*args: object) -> bool:
    return not any(isinstance(a, Node) for a in args)


def _elementwise(operator: str, name: str) -> Any:
    def function(x: Any) -> Any:
        return getattr(np, name)(x) if _is_array(x) else _combined(operator, x)

    return function


abs = _elementwise("Abs", "abs")
exp = _elementwise("Exp", "exp")
log = _elementwise("Log", "log")
sign = _elementwise("Sign", "sign")
sin = _elementwise("Sin", "sin")
sqrt = _elementwise("Sqrt", "sqrt")


def log1p(x: Any) -> Any:
    """Logarithm of 1 + x."""
    return np.log1p(x) if _is_array(x) else _combined("Log", 1.0 + x)


def cos(x: Any) -> Any:
    """Cosine, by the sine of half of the angle: runtimes have no cosine of double precision."""
    if _is_array(x):
        return np.cos(x)
    half = sin(0.5 * x)
    return 1.0 - 2.0 * half * half


def acos(x: Any) -> Any:
    """The angle between 0 and pi: in single precision, which runtimes have, and one step of Newton's method."""
    if _is_array(x):
        return np.arccos(x)
    start = astype(_combined("Acos", astype(x, float32)), float64)
    sine = sqrt(maximum((1.0 - x) * (1.0 + x), 0.0))
    off = sine * cos(start) - x * sin(start)
    # the sine of what is missing: at most 1e-3, and its angle up to the fifth power
    return start + off * (1.0 + off * off * (1.0 / 6.0 + off * off * (3.0 / 40.0)))


def maximum(a: Any, b: Any) -> Any:
    """The larger of two numbers."""
    return np.maximum(a, b) if _is_array(a, b) else _combined("Max", a, b)


def clip(x: Any, least: float | None = None, most: float | None = None) -> Any:
    """The nearest number between two."""
    if _is_array(x):
        return np.clip(x, least, most)
    x = x if least is None else _combined("Max", x, least)
    return x if most is None else _combined("Min", x, most)


def equal(a: Any, b: Any) -> Any:
    """Whether cells are equal."""
    return np.equal(a, b) if _is_array(a, b) else _combined("Equal", a, b)


def where(condition: Any, a: Any, b: Any) -> Any:
    """One of two numbers."""
    return np.where(condition, a, b) if _is_array(condition, a, b) else _combined("Where", condition, a, b)


def full_like(x: Any, value: float) -> Any:
    """The same number in the shape of x."""
    if _is_array(x):
        return np.full_like(x, value)
    return x.graph.node("Expand", np.float64(value), x.graph.node("Shape", x, ndim=1), ndim=x.ndim)


def ones_like(x: Any) -> Any:
    """Ones in the shape of x."""
    return full_like(x, 1.0)


def zeros_like(x: Any) -> Any:
    """Zeros in the shape of x."""
    return full_like(x, 0.0)


def astype(x: Any, dtype: Any) -> Any:
    """Another type of numbers."""
    if _is_array(x):
        return np.asarray(x).astype(dtype)
    kind = _onnx().helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return x.graph.node("Cast", x, to=int(kind), ndim=x.ndim)


def _reduced(operator: str, x: Any, axis: int, keepdims: bool) -> Node:
    axes = np.array([axis], dtype=np.int64)
    return x.graph.node(operator, x, axes, keepdims=int(keepdims), ndim=x.ndim - (not keepdims))


def sum(x: Any, *, axis: int, keepdims: bool = False) -> Any:
    """Sum along an axis."""
    return (
        np.sum(x, axis=axis, keepdims=keepdims) if _is_array(x) else _reduced("ReduceSum", x, axis, keepdims)
    )


def max(x: Any, *, axis: int, keepdims: bool = False) -> Any:
    """Largest number along an axis."""
    return (
        np.max(x, axis=axis, keepdims=keepdims) if _is_array(x) else _reduced("ReduceMax", x, axis, keepdims)
    )


def total(parts: Iterable[Node]) -> Node:
    """The sum of nodes."""
    first, *others = parts
    return reduce(operator.add, others, first)


def argmax(x: Node, *, axis: int) -> Node:
    """Position of the largest number along an axis, the first of equal ones."""
    return x.graph.node("ArgMax", x, axis=axis, keepdims=0, ndim=x.ndim - 1)


def concat(parts: Sequence[Node], *, axis: int) -> Node:
    """One after another."""
    return parts[0].graph.node("Concat", *parts, axis=axis, ndim=parts[0].ndim)


def reshape(x: Node, shape: tuple[int, ...]) -> Node:
    """The same numbers in another shape."""
    return x.graph.node("Reshape", x, np.array(shape, dtype=np.int64), ndim=len(shape))


def take(x: Any, indices: Any, *, axis: int) -> Node:
    """Some rows or columns, or entries of an array at places that are nodes."""
    places = indices.ndim if isinstance(indices, Node) else np.ndim(indices)
    graph = x.graph if isinstance(x, Node) else indices.graph
    return graph.node("Gather", x, indices, axis=axis, ndim=x.ndim - 1 + places)


# ---- columns ------------------------------------------------------------------------------------------

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

    @property
    def xp(self) -> Any:
        """The namespace of nodes."""
        return sys.modules[__name__]

    def beside(self, training: Table) -> Columns:
        """The same new rows beside other training rows."""
        return Columns(self.values, training)

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
        return take(self.values, np.asarray(found, dtype=np.int64), axis=1)

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
            parts.append(astype(equal(column, known), float64) if level else column)
        return concat(parts, axis=1)

    @cached_property
    def norms(self) -> Node:
        """Squared lengths, shape (n_rows,)."""
        return sum(self.expanded * self.expanded, axis=1)

    @cached_property
    def training_rows(self) -> NDArray[np.float64]:
        """The training rows as numbers, categories as indicators."""
        return to_dense(self.training.take())

    @property
    def training_norms(self) -> NDArray[np.float64]:
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
            return total(
                sum(abs(A[:, None, j : j + BLOCK] - B[None, :, j : j + BLOCK]), axis=2) for j in blocks
            )
        if B.shape[1] <= FEW_COLUMNS:
            apart = (A[:, j : j + 1] - B[None, :, j] for j in range(B.shape[1]))
            return total(one * one for one in apart)
        centre = B.mean(axis=0)
        A, B = A - centre, B - centre
        S = sum(A * A, axis=1)[:, None] + sq_norms(B)[None, :] - 2.0 * (A @ B.T)
        return maximum(S, 0.0)

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
        moved = sign(values) * log1p(abs(values))
        numeric = np.asarray(columns.training.levels) == 0
        return moved if numeric.all() else where(numeric[None, :], moved, values)
    if isinstance(step, NormalizeRows):
        rows = columns.expanded
        largest = max(abs(rows), axis=1, keepdims=True)
        rows = rows / where(largest > 0, largest, ones_like(largest))
        length = sqrt(sum(rows * rows, axis=1, keepdims=True))
        return rows / where(length > 0, length, ones_like(length))
    raise InputError(
        f"The preparation {step.name!r} has no ONNX form: there are standardize, log1p and normalize-rows. Impute "
        "missing cells before the model, in a pipeline."
    )
