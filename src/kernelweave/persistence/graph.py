"""Nodes of an ONNX graph as arrays: NumPy's functions and operators of nodes are nodes, in double precision.

A table of nodes in place of numbers is thus all that kernels and models need to become a graph. What the tables below
do not have raises a `TypeError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kernelweave._checks import InputError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

__all__ = ["Graph", "Node", "Values", "taken"]

#: The first set of operators in which texts can be compared, and the format of files that goes with it.
OPERATORS, FILE_FORMAT = 19, 9

#: Lengths along axes, None of that of the rows.
Shape: TypeAlias = tuple[int | None, ...]
Part: TypeAlias = "Node | ArrayLike"
#: What NumPy's functions take and return: to type checkers, nodes are arrays.
Values: TypeAlias = NDArray[Any]


class Graph:
    """The nodes, constants and inputs of a graph, in the order in which they were made."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise InputError("ONNX files need the package onnx: pip install 'kernelweave[onnx]'.") from error
        self.onnx = onnx
        self._nodes: list[NodeProto] = []
        self._constants: dict[tuple[object, ...], tuple[str, Any]] = {}
        self._inputs: list[Any] = []
        self._known: dict[tuple[object, ...], Node] = {}

    def input(self, name: str, n_columns: int, dtype: DTypeLike) -> Values:
        """A matrix of any number of rows."""
        self._inputs.append(self._declared(name, dtype, ["n_rows", n_columns]))
        return cast(Values, Node(self, name, (None, n_columns), np.dtype(dtype)))

    def _declared(self, name: str, dtype: DTypeLike, shape: Sequence[object]) -> Any:
        helper = self.onnx.helper
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    def _constant(self, value: object) -> str:
        """The name of a constant; equal ones are stored once."""
        array = np.ascontiguousarray(value).reshape(np.shape(value))  # type: ignore[call-overload]
        key = (array.dtype.str, array.shape, array.tobytes() if array.dtype != object else tuple(array.flat))
        if key not in self._constants:
            name = f"c{len(self._constants)}"
            texts = array.astype(object) if array.dtype.kind == "U" else array
            self._constants[key] = name, self.onnx.numpy_helper.from_array(texts, name)
        return self._constants[key][0]

    def node(
        self, operator: str, *args: object, shape: Shape, dtype: DTypeLike = np.float64, **attributes: int
    ) -> Node:
        """The result of an operator; the same operator on the same arguments is one node."""
        names = [one.name if isinstance(one, Node) else self._constant(one) for one in args]
        key = (operator, *names, *sorted(attributes.items()))
        if key not in self._known:
            name = f"n{len(self._nodes)}"
            self._nodes.append(self.onnx.helper.make_node(operator, names, [name], **attributes))  # type: ignore[arg-type]
            self._known[key] = Node(self, name, shape, np.dtype(dtype))
        return self._known[key]

    def built(self, outputs: Mapping[str, tuple[Values, DTypeLike]]) -> ModelProto:
        """The model with some nodes as outputs, given with their types; `object` of texts."""
        helper, declared = self.onnx.helper, []
        for name, (found, dtype) in outputs.items():
            node = cast(Node, found)
            self._nodes.append(helper.make_node("Identity", [node.name], [name]))
            declared.append(self._declared(name, dtype, ["n_rows", None][: node.ndim]))
        # only the nodes from which the outputs follow
        read, made = set(outputs), []
        for node in reversed(self._nodes):
            if node.output[0] in read:
                read.update(node.input)
                made.append(node)
        constants = [tensor for name, tensor in self._constants.values() if name in read]
        graph = helper.make_graph(made[::-1], "kernelweave", self._inputs, declared, constants)
        model: ModelProto = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPERATORS)], producer_name="kernelweave"
        )
        model.ir_version = FILE_FORMAT
        self.onnx.checker.check_model(model, full_check=True)
        return model


class Node(NDArrayOperatorsMixin):
    """A result in a graph, with an array's shape, type and operators."""

    def __init__(self, graph: Graph, name: str, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.graph, self.name, self.shape, self.dtype = graph, name, shape, dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        raise TypeError("the number of rows, which graphs do not know")

    def __array__(self, *args: object, **options: object) -> NDArray[Any]:
        raise TypeError("the numbers themselves, which graphs do not have")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **options: object) -> Node:
        if method != "__call__" or not options.keys() <= {"out"}:
            raise TypeError(f"{ufunc.__name__} with {', '.join(options) or method}")
        # results in place are new nodes
        if ufunc in _ELEMENTWISE:
            return _elementwise(_ELEMENTWISE[ufunc], *args, logical=ufunc in _COMPARISONS)
        return self.__array_function__(ufunc, (), args, {})

    def __array_function__(
        self, function: Any, types: object, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Node:
        if function not in _FUNCTIONS:
            raise TypeError(function.__name__)
        return _FUNCTIONS[function](*args, **options)

    def __getitem__(self, key: Any) -> Node:
        """Slices, one column or some, or new axes."""
        node, axis = self, 0
        for part in key:
            shape = node.shape
            if part is None:
                axes = np.array([axis], dtype=np.int64)
                node = self.graph.node(
                    "Unsqueeze", node, axes, shape=(*shape[:axis], 1, *shape[axis:]), dtype=self.dtype
                )
            elif not isinstance(part, slice):
                node = taken(node, part, axis=axis)
                axis -= np.ndim(part) == 0  # an axis less
            elif part != slice(None):
                length = shape[axis]
                if length is None or part.step not in (None, 1):
                    raise TypeError("slices of rows, and slices with a step")
                first, last, _ = part.indices(length)
                last = max(first, last)
                ends = [np.array([v], dtype=np.int64) for v in (first, last, axis)]
                rest = (*shape[:axis], last - first, *shape[axis + 1 :])
                node = self.graph.node("Slice", node, *ends, shape=rest, dtype=self.dtype)
            axis += 1
        return node

    def astype(self, dtype: DTypeLike) -> Node:
        """Another type of numbers."""
        kind = int(self.graph.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        return self.graph.node("Cast", self, to=kind, shape=self.shape, dtype=dtype)

    def reshape(self, *shape: int) -> Node:
        """The same numbers in another shape; -1 is the number of rows."""
        known = tuple(None if n < 0 else n for n in shape)
        return self.graph.node(
            "Reshape", self, np.array(shape, dtype=np.int64), shape=known, dtype=self.dtype
        )

    def max(self, axis: int, keepdims: bool = False) -> Node:
        """Largest number along an axis."""
        return self._reduced("ReduceMax", axis, keepdims)

    def sum(self, axis: int, keepdims: bool = False) -> Node:
        """Sum along an axis."""
        return self._reduced("ReduceSum", axis, keepdims)

    def _reduced(self, operator: str, axis: int, keepdims: bool) -> Node:
        axis %= self.ndim
        rest = (*self.shape[:axis], *((1,) if keepdims else ()), *self.shape[axis + 1 :])
        axes = np.array([axis], dtype=np.int64)
        return self.graph.node(operator, _as_type(self), axes, keepdims=int(keepdims), shape=rest)

    def sq_norms(self) -> Node:
        """Squared lengths of the rows."""
        return (self * self).sum(axis=1)


def _elementwise(operator: str, *args: Part, logical: bool = False) -> Node:
    """An operator that broadcasts: truth values are numbers for it, and constants have the type of the nodes."""
    nodes = [one for one in args if isinstance(one, Node)]
    # texts are compared with texts, and whole numbers with whole numbers
    kinds = {np.dtype(np.float64) if one.dtype == bool else one.dtype for one in nodes}
    whole = all(isinstance(one, Node) or np.asarray(one).dtype.kind in "iuUOS" for one in args)
    dtype = kinds.pop() if len(kinds) == 1 else np.dtype(np.float64)
    dtype = dtype if dtype.kind not in "iu" or whole else np.dtype(np.float64)
    given = [_as_type(one, dtype) for one in args]
    shape = _broadcast([one.shape for one in given])
    return nodes[0].graph.node(operator, *given, shape=shape, dtype=bool if logical else dtype)


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    n = max(map(len, shapes))
    lengths = zip(*((1,) * (n - len(shape)) + tuple(shape) for shape in shapes), strict=True)
    return tuple(None if None in length else max(length) for length in lengths)


def _as_type(x: Part, dtype: DTypeLike = np.float64) -> Node | NDArray[Any]:
    """A node or a constant of this type; where none is named, truth values and whole numbers in double precision."""
    if not isinstance(x, Node):
        return np.asarray(x, dtype)
    return x if x.dtype == np.dtype(dtype) else x.astype(dtype)


def _graph_of(*args: object) -> Graph:
    return next(one.graph for one in args if isinstance(one, Node))


def _matmul(a: Node | NDArray[Any], b: Node | NDArray[Any]) -> Node:
    shape = (*a.shape[:-1], *b.shape[1:])
    return _graph_of(a, b).node("MatMul", _as_type(a), _as_type(b), shape=shape)


def _where(condition: Node | NDArray[np.bool_], a: Part, b: Part) -> Node:
    parts = [_as_type(one) for one in (a, b)]
    shape = _broadcast([one.shape for one in (condition, *parts)])
    return _graph_of(condition, *parts).node("Where", condition, *parts, shape=shape)


def _full_like(x: Node, value: float) -> Node:
    shape = x.graph.node("Shape", x, shape=(x.ndim,), dtype=np.int64)
    return x.graph.node("Expand", np.float64(value), shape, shape=x.shape)


def _concatenate(parts: Sequence[Node], axis: int = 0, dtype: DTypeLike = np.float64) -> Node:
    axis %= parts[0].ndim
    whole = [_as_type(one, dtype) for one in parts]
    lengths = [one.shape[axis] for one in parts]
    total = None if None in lengths else sum(lengths)  # type: ignore[arg-type]
    shape = (*parts[0].shape[:axis], total, *parts[0].shape[axis + 1 :])
    return parts[0].graph.node("Concat", *whole, axis=axis, shape=shape, dtype=dtype)


def taken(values: Node | NDArray[Any], places: Node | int | NDArray[np.integer], *, axis: int = 0) -> Node:
    """Entries along an axis, of nodes or at places that are nodes."""
    at = places if isinstance(places, Node) else np.asarray(places, dtype=np.int64)
    axis %= values.ndim
    shape = (*values.shape[:axis], *at.shape, *values.shape[axis + 1 :])
    return _graph_of(values, at).node("Gather", values, at, axis=axis, shape=shape, dtype=values.dtype)


def _argmax(x: Node, axis: int) -> Node:
    axis %= x.ndim
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    return x.graph.node("ArgMax", x, axis=axis, keepdims=0, shape=rest, dtype=np.int64)


def _clip(x: Node, least: float | None = None, most: float | None = None) -> Node:
    x = x if least is None else _elementwise("Max", x, least)
    return x if most is None else _elementwise("Min", x, most)


def _cos(x: Node) -> Node:
    """By the sine of half of the angle: runtimes have no cosine of double precision."""
    half = np.sin(0.5 * x)
    return 1.0 - 2.0 * half * half


def _arccos(x: Node) -> Node:
    """In single precision, which runtimes have, and one step of Newton's method."""
    single = x.astype(np.float32)
    start = x.graph.node("Acos", single, shape=x.shape, dtype=np.float32).astype(np.float64)
    sine = np.sqrt(np.maximum((1.0 - x) * (1.0 + x), 0.0))
    off = sine * np.cos(start) - x * np.sin(start)
    # the sine of what is missing: at most 1e-3, and its angle up to the fifth power
    return start + off * (1.0 + off * off * (1.0 / 6.0 + off * off * (3.0 / 40.0)))


#: Operators of the same name and meaning.
_ELEMENTWISE: dict[np.ufunc, str] = {
    np.absolute: "Abs",
    np.add: "Add",
    np.divide: "Div",
    np.equal: "Equal",
    np.exp: "Exp",
    np.floor: "Floor",
    np.greater: "Greater",
    np.greater_equal: "GreaterOrEqual",
    np.less: "Less",
    np.less_equal: "LessOrEqual",
    np.log: "Log",
    np.maximum: "Max",
    np.minimum: "Min",
    np.multiply: "Mul",
    np.negative: "Neg",
    np.power: "Pow",
    np.sign: "Sign",
    np.sin: "Sin",
    np.sqrt: "Sqrt",
    np.subtract: "Sub",
}
_COMPARISONS = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal)
#: All others.
_FUNCTIONS: dict[Any, Callable[..., Node]] = {
    np.arccos: _arccos,
    np.argmax: _argmax,
    np.clip: _clip,
    np.concatenate: _concatenate,
    np.cos: _cos,
    np.full_like: _full_like,
    np.log1p: lambda x: np.log(1.0 + x),
    np.matmul: _matmul,
    np.max: Node.max,
    np.ones_like: lambda x: _full_like(x, 1.0),
    np.reshape: lambda x, shape: x.reshape(*shape),
    np.square: lambda x: x * x,
    np.sum: Node.sum,
    np.where: _where,
    np.zeros_like: lambda x: _full_like(x, 0.0),
}
