"""Branch and bound over subsets of limited size: the search, independent of the kind of members.

It finds the subset of at most `most` members with the smallest value, where a value never rises when a member
is added. Bounds come from a growing pool: every computed value also bounds all other subsets, so that most of
the tree is pruned without further computation.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Subsets(ABC):
    """The interface of subsets for the search.

    Attributes
    ----------
    n_members : int
        Number of members.
    most : int
        Largest number of members of a subset.
    """

    n_members: int
    most: int

    @property
    @abstractmethod
    def target(self) -> float:
        """Subsets with at least this value need not be examined: the best value so far, less the tolerance."""

    @abstractmethod
    def bound(self, inside: Index, free: Index, room: int) -> float:
        """Lower bound of all subsets that hold `inside` and at most `room` of `free`."""

    @abstractmethod
    def bounds_with(self, inside: Index, free: Index) -> Array:
        """Lower bounds of `inside` with one of `free`, for each of them."""

    @abstractmethod
    def needed(self, inside: Index, free: Index, room: int) -> Index | None:
        """Members of `free` of which every subset below the target contains one, the most promising first.

        None if no bound in the pool excludes `inside` alone.
        """

    @abstractmethod
    def compute(self, members: Index, near: Any = None) -> Any:
        """Compute the value of these members, of any number, and add its bound to the pool.

        Parameters
        ----------
        members : array of int
        near : object, optional
            The result for similar members, as a warm start.
        """


@dataclass(order=True)
class Node:
    """Subsets that contain `inside`, and otherwise only members of `free`.

    Attributes
    ----------
    key : tuple
        Order in which nodes are examined: the smallest bound first, then the largest `inside`, then the oldest.
    near : object
        The result for the parent node.
    relaxed : bool
        Whether the value without a limit is known already.
    """

    key: tuple[float, int, int]
    inside: Index = field(compare=False)
    free: Index = field(compare=False)
    near: Any = field(compare=False, default=None)
    relaxed: bool = field(compare=False, default=False)

    @property
    def bound(self) -> float:
        """Lower bound of the subsets."""
        return self.key[0]


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
    _count: Any = field(default_factory=count)
    _current: float = -math.inf

    @property
    def bound(self) -> float:
        """No subset has a smaller value."""
        return min(self._open[0].bound if self._open else math.inf, self._current, self.closed)

    @property
    def n_open(self) -> int:
        """Open nodes."""
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
        self, inside: Index, free: Index, least: float, near: Any = None, *, relaxed: bool = False
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
            key = (bound, -len(inside), next(self._count))
            heapq.heappush(self._open, Node(key, inside, free, near, relaxed))

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
