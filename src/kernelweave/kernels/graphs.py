"""Kernels of graphs: counts of labels that are refined by those of the neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, is_missing
from kernelweave._parameters import Flag, Whole
from kernelweave._sparse import is_sparse
from kernelweave._types import FittedPart
from kernelweave.kernels.counts import CountKernel, rows_of

__all__ = ["WeisfeilerLehman"]

FORMS = "Pass graphs as pairs (edges, labels), square adjacency matrices of SciPy or NumPy, or graphs of networkx."


@dataclass(frozen=True, repr=False)
class WeisfeilerLehman(CountKernel):
    """The Weisfeiler-Lehman subtree kernel of graphs: k(x, z) = sum_s c_s(x) c_s(z) over labels s of nodes.

    Labels are refined: the next label of a node stands for its own one and the multiset of those of its neighbours.
    c_s(x) is the number of nodes of x with label s; the given labels and those of all iterations count. By default rows
    have length 1, so that k is the cosine of the angle between counts.

    Parameters
    ----------
    iterations : int, default=3
        Number of refinements. 0 compares the given labels only.
    normalize : bool, default=True
        Divide by the lengths of both rows, ``sqrt(k(x, x) k(z, z))``. A graph without nodes has similarity zero to all
        others.
    learnt : Vocabulary or None, default=None
        The labels of training rows, as digests; set by `fitted`.

    Notes
    -----
    Put it on one column, or on a view, of graphs. A graph is one of these:

    - a pair ``(edges, labels)``: pairs ``(i, j)`` of numbers of nodes from 0, or triples ``(i, j, label)`` whose edges
      have labels too, and a label for each node;
    - a square adjacency matrix of SciPy or NumPy, whose nonzero entries are edges and whose nodes have no labels;
    - a graph of networkx, whose labels are the attributes ``"label"`` of nodes and edges, if they have some.

    Edges have no direction, and one that is given twice counts once. Labels are compared as text. A label of a new row
    that no training row has matches nothing, and counts towards the length of that row. Counts are sparse, take
    O(iterations * edges) operations, and are computed once for all kernels with equal iterations and all folds.

    References
    ----------
    N. Shervashidze, P. Schweitzer, E. J. van Leeuwen, K. Mehlhorn, K. M. Borgwardt, Weisfeiler-Lehman graph kernels,
    JMLR 12, 2011.

    Examples
    --------
    >>> triangle = ([(0, 1), (1, 2), (2, 0)], ["C", "C", "O"])
    >>> path = ([(0, 1), (1, 2)], ["C", "O", "C"])
    >>> graphs = np.empty(2, dtype=object)
    >>> graphs[:] = triangle, path
    >>> WeisfeilerLehman(1, normalize=False)({"molecule": graphs})
    array([[10.,  6.],
           [ 6., 10.]])
    """

    iterations: Annotated[int, Whole(0, 100)] = 3
    normalize: Annotated[bool, Flag()] = True
    learnt: FittedPart = field(default=None, repr=False)

    unit: ClassVar[str] = "labels"
    reads: ClassVar[type] = object
    what: ClassVar[str] = "graphs"
    example: ClassVar[str] = "graph"

    def _count(self, cells: NDArray[Any]) -> tuple[Any, list[str]]:
        digests: dict[Hashable, str] = {}
        counted = [self._labels(_read(graph, i), digests) for i, graph in enumerate(cells)]
        return rows_of(counted, [n for one in counted for n in one.values()])

    def _labels(self, graph: Graph, digests: dict[Hashable, str]) -> Counter[str]:
        """How many nodes have each label, over all iterations; digests are those of all graphs."""
        labels, neighbours = graph
        labels = [_digest((0, label), digests) for label in labels]
        found = Counter(labels)
        for iteration in range(1, self.iterations + 1):
            labels = [
                _digest(
                    (iteration, own, tuple(sorted((edge, labels[j]) for j, edge in near.items()))), digests
                )
                for own, near in zip(labels, neighbours, strict=True)
            ]
            found.update(labels)
        return found


#: The label of each node, and its neighbours with the labels of the edges to them.
Graph = tuple[list[str], list[dict[int, str]]]


def _digest(content: Hashable, known: dict[Hashable, str]) -> str:
    """Sixteen hexadecimal digits, the same in every process."""
    if content not in known:
        known[content] = blake2b(repr(content).encode(), digest_size=8).hexdigest()
    return known[content]


def _read(graph: Any, row: int) -> Graph:
    """The labels and neighbours of a graph; raises for what is none, naming the row."""
    try:
        if is_missing(graph):
            return [], []
        if hasattr(graph, "nodes") and hasattr(graph, "edges"):
            return _of_networkx(graph)
        if is_sparse(graph) or (isinstance(graph, np.ndarray) and graph.dtype.kind in "biuf"):
            return _of_matrix(graph)
        edges, labels = graph
        return _joined([str(_plain(label)) for label in labels], edges)
    except (TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"The graph of row {row}, counted from 0, cannot be read: {error}. {FORMS}"
        ) from None


def _joined(labels: list[str], edges: Any) -> Graph:
    neighbours: list[dict[int, str]] = [{} for _ in labels]
    for edge in edges:
        i, j, *named = edge
        for end in (i, j):
            if not isinstance(end, int | np.integer) or not 0 <= end < len(labels):
                raise ValueError(f"its edge {tuple(edge)} names nodes other than 0 to {len(labels) - 1}")
        label = str(_plain(named[0])) if named else ""
        neighbours[i][int(j)] = neighbours[j][int(i)] = label
    return labels, neighbours


def _of_matrix(matrix: Any) -> Graph:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"its adjacency matrix must be square, got shape {matrix.shape}")
    rows, columns = matrix.nonzero()
    return _joined([""] * matrix.shape[0], zip(rows.tolist(), columns.tolist(), strict=True))


def _of_networkx(graph: Any) -> Graph:
    nodes = list(graph.nodes(data=True))
    place = {node: i for i, (node, _) in enumerate(nodes)}
    edges = [(place[i], place[j], own.get("label", "")) for i, j, own in graph.edges(data=True)]
    return _joined([str(_plain(own.get("label", ""))) for _, own in nodes], edges)


def _plain(label: Any) -> Any:
    """A label without the type of NumPy, whose text is that of Python's numbers."""
    return label.item() if isinstance(label, np.generic) else label
