"""Branch and bound over subsets of limited size: bounds of all subsets from the coefficients of some, and the search.

It finds the subset of at most `most` kernels with the smallest value, where a value never rises when a kernel
is added. Bounds come from a growing pool: every computed value also bounds all other subsets, so that most of
the tree is pruned without further computation.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kernelweave._types import Array, Index
from kernelweave.mkl.certify import term_error
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.simplex_ridge import spread
from kernelweave.results import Solution

#: Multiples of coefficients that give bounds too. Small ones are best for subsets with larger quadratic forms.
MULTIPLES = np.array([1.0, 0.97, 0.93, 0.88, 0.8, 0.7, 0.55, 0.35])


class Subsets:
    """Subsets of kernels, and bounds of their values from a pool of dual coefficients.

    Parameters
    ----------
    whole : KernelProblem
        The machine on all kernels.
    ridge : float
        Factor of the squared weights.
    most : int
        Largest number of kernels of a subset.
    target : float
        Subsets with at least this value need not be examined.
    """

    def __init__(self, whole: KernelProblem, ridge: float, most: int, target: float = math.inf) -> None:
        self.whole, self.ridge, self.most, self.target = whole, ridge, most, target
        self.n_members = whole.n_kernels
        self.coefficients: list[Array] = []
        self._terms = np.empty((0, len(MULTIPLES)))
        self._quadratic_forms = np.empty((0, whole.n_kernels))

    def compute(self, members: Index, near: Solution | None = None) -> Solution | None:
        """Compute the value of these members, of any number, and add its bound to the pool.

        By default nothing: the pool stays as it is.

        Parameters
        ----------
        members : array of int
        near : Solution, optional
            The result for similar members, as a warm start.
        """
        return None

    def add(self, b: Array) -> None:
        """Add dual feasible coefficients to the pool."""
        whole, machine = self.whole, self.whole.machine
        quadratic_forms = whole.quad(b)
        quadratic_forms = quadratic_forms + whole.quad_error(b, quadratic_forms)
        terms = np.array([machine.dual_term(t * b) for t in MULTIPLES]) - term_error(machine, b)
        self.coefficients.append(b)
        self._terms = np.vstack([self._terms, terms])
        self._quadratic_forms = np.vstack([self._quadratic_forms, quadratic_forms])

    def bound(self, inside: Index, free: Index, room: int) -> float:
        """The largest bound of the pool of all subsets of `inside` and at most `room` of `free`."""
        if not self.coefficients:
            return -math.inf
        values = self._quadratic_forms[:, free]
        if 0 < room < len(free):
            values = -np.partition(-values, room - 1, axis=1)[:, :room]
        elif room == 0:
            values = values[:, :0]
        return float(self._value(np.hstack([self._quadratic_forms[:, inside], values])).max())

    def bounds_with(self, inside: Index, free: Index) -> Array:
        """The largest bound of `inside` with one of `free`, for each of them."""
        own = self._quadratic_forms[:, inside]
        if self.ridge > 0.0:
            return np.array(
                [self._value(np.hstack([own, self._quadratic_forms[:, [j]]])).max() for j in free]
            )
        tops = np.maximum(own.max(axis=1, initial=0.0)[:, None], self._quadratic_forms[:, free])
        out = np.full(len(free), -np.inf)
        for t, terms in zip(MULTIPLES, self._terms.T, strict=True):
            np.maximum(out, (terms[:, None] - 0.5 * t**2 * tops).max(axis=0), out=out)
        return out

    def needed(self, inside: Index, free: Index, room: int) -> Index | None:
        """The shortest list of kernels of which subsets below the target contain one, largest quadratic forms first.

        None if no bound in the pool excludes `inside` alone.
        """
        target = self.target
        own = self._quadratic_forms[:, inside]
        telling = np.flatnonzero(self._value(own) >= target) if len(inside) else np.arange(len(own))
        if not len(telling):
            return None
        own, values = own[telling], self._quadratic_forms[np.ix_(telling, free)]
        order = np.argsort(-values, axis=1, kind="stable")
        ranked = np.hstack([np.take_along_axis(values, order, 1), np.full((len(telling), room), -np.inf)])
        # number of the first ones that are needed: bounds rise without them
        low, high = np.zeros(len(telling), np.int64), np.full(len(telling), len(free))
        while (low < high).any():
            middle = (low + high) // 2
            rest = np.take_along_axis(ranked, middle[:, None] + np.arange(room), 1)
            enough = self._value(np.hstack([own, rest]), telling) >= target
            high, low = np.where(enough, middle, high), np.where(enough, low, np.minimum(middle + 1, high))
        best = int(np.argmin(high))
        return free[order[best, : high[best]]]

    def _value(self, quadratic_forms: Array, rows: Index | slice = slice(None)) -> Array:
        """Bounds of subsets with these quadratic forms, one row for each entry of the pool."""
        if not quadratic_forms.shape[1]:
            return np.full(len(quadratic_forms), np.inf)
        ridge, out = self.ridge, np.full(len(quadratic_forms), -np.inf)
        quadratic_forms = quadratic_forms if ridge == 0.0 else -np.sort(-quadratic_forms, axis=1)
        top = quadratic_forms.max(axis=1)
        empty = np.isneginf(top)
        quadratic_forms, top = np.where(empty[:, None], 0.0, quadratic_forms), np.where(empty, 0.0, top)
        for t, terms in zip(MULTIPLES, self._terms[rows].T, strict=True):
            least = -0.5 * t**2 * top
            if ridge > 0.0:
                least = least + spread(t**2 * (quadratic_forms - top[:, None]), ridge)
            np.maximum(out, terms + least, out=out)
        return np.where(empty, np.inf, out)


class Node(NamedTuple):
    """Subsets that contain `inside`, and otherwise only members of `free`.

    The first three fields are the order in which nodes are examined.

    Attributes
    ----------
    bound : float
        Lower bound of the subsets.
    rank, number : int
        The largest `inside` first, then the oldest.
    near : Solution or None
        The result for the parent node.
    relaxed : bool
        Whether the value without a limit is known already.
    """

    bound: float
    rank: int
    number: int
    inside: Index
    free: Index
    near: Solution | None
    relaxed: bool


@dataclass
class Search:
    """The tree during the search.

    Attributes
    ----------
    subsets : Subsets
    n_nodes : int
        Number of examined nodes.
    closed : float
        Smallest bound of the closed nodes.
    """

    subsets: Subsets
    n_nodes: int = 0
    closed: float = math.inf
    _open: list[Node] = field(default_factory=list)
    _pushed: int = 0
    _current: float = -math.inf

    @property
    def bound(self) -> float:
        """No subset has a smaller value."""
        return min(self._open[0].bound if self._open else math.inf, self._current, self.closed)

    @property
    def n_open(self) -> int:
        """Number of open nodes."""
        return len(self._open)

    def run(self, max_nodes: int, stop: Callable[[], bool]) -> bool:
        """Search until no node is below the target; False if the limit of nodes or `stop` ended it before.

        `stop` is called before every node. After a KeyboardInterrupt the tree is still valid.
        """
        self._push(np.empty(0, np.int64), np.arange(self.subsets.n_members), -math.inf)
        self._current = math.inf
        while self._open:
            if self._open[0].bound >= self.subsets.target:
                self._close(self._open[0].bound)
                self._open.clear()
                break
            if self.n_nodes >= max_nodes or stop():
                return False
            self.n_nodes += 1
            # a node stays open until its parts are in the tree
            self._current = self._open[0].bound
            self._expand(heapq.heappop(self._open))
            self._current = math.inf
        return True

    def _push(
        self, inside: Index, free: Index, least: float, near: Solution | None = None, *, relaxed: bool = False
    ) -> None:
        """Add a node, unless its bound is not below the target."""
        room = self.subsets.most - len(inside)
        if len(free) < room:
            # smaller subsets are no better than those that contain them, which are in other nodes
            return
        bound = max(least, self.subsets.bound(inside, free, room))
        if bound >= self.subsets.target:
            self._close(bound)
        else:
            self._pushed += 1
            heapq.heappush(self._open, Node(bound, -len(inside), self._pushed, inside, free, near, relaxed))

    def _close(self, bound: float) -> None:
        self.closed = min(self.closed, bound)

    def _done(self, node: Node, room: int) -> bool:
        """Whether the pool, which has grown since, closes a node."""
        bound = max(node.bound, self.subsets.bound(node.inside, node.free, room))
        self._current = bound
        if bound < self.subsets.target:
            return False
        self._close(bound)
        return True

    def _expand(self, node: Node) -> None:
        subsets = self.subsets
        inside, free, near = node.inside, node.free, node.near
        room = subsets.most - len(inside)
        if self._done(node, room):
            return
        if room == 1:
            self._finish(node)
            return
        if not node.relaxed:
            near = subsets.compute(np.union1d(inside, free), near)
            if self._done(node, room):
                return
        needed = subsets.needed(inside, free, room)
        if needed is None and len(inside):
            # no bound excludes these members alone
            near = subsets.compute(inside, near)
            needed = subsets.needed(inside, free, room)
        if needed is None:
            # their value is not accurate enough to decide
            if len(inside):
                self._close(subsets.bound(inside, free[:0], 0))
            needed = free
        elif len(needed) < len(free):
            self._close(subsets.target)
        least = self._current
        for position, member in enumerate(needed):
            rest = free[~np.isin(free, needed[: position + 1])]
            # the first branch excludes nothing
            self._push(np.append(inside, member), rest, least, near, relaxed=position == 0)

    def _finish(self, node: Node) -> None:
        """One more member: compute the most promising one, whose value also bounds the others."""
        subsets = self.subsets
        inside, free = node.inside, node.free
        while True:
            bounds = subsets.bounds_with(inside, free)
            wanted = bounds < subsets.target
            if not wanted.all():
                self._close(float(bounds[~wanted].min()))
            free, bounds = free[wanted], bounds[wanted]
            if not len(free):
                return
            best = int(np.argmin(bounds))
            self._current = max(node.bound, float(bounds[best]))
            members = np.append(inside, free[best])
            subsets.compute(members, node.near)
            self._close(subsets.bound(members, free[:0], 0))
            free = np.delete(free, best)
