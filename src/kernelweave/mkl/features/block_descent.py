"""RLS2 on features along regularisation parameters: blocks of coefficients descend in turn.

Several regularisation parameters are solved on working blocks, rotated so that the columns of each are orthogonal, and
all blocks are then evaluated once for these together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._allowance import used_up
from kernelweave._checks import InputError
from kernelweave._loops import core
from kernelweave._types import Array, Index
from kernelweave.gram.factors import FactorGram
from kernelweave.machines.rounding import EPS
from kernelweave.mkl.features.problem import Candidate, FeatureProblem, Values
from kernelweave.mkl.ridge_problem import RidgeProblem
from kernelweave.mkl.steps.ridge_newton import RidgeStart, newton_result
from kernelweave.results import REACHED, Certificate, Solution, Status

#: WorkingBlocks blocks descend to this multiple of tol: their own measure of the gap is from before the last sweep.
INSIDE = 1.2
#: Most points that are evaluated together.
TOGETHER = 16
#: Rows from which products of columns replace rows, and those where columns are fewer than rows.
MANY_ROWS, ROWS_OF_FEW = 3000, 2000
#: Columns above which there are none of these for rows that stand for others.
MOST_PRODUCTS = 6000
#: Numbers of columns that are turned together.
PIECE = 2**23
#: Tolerances from which products are taken, and rows are held, in single precision.
SINGLE, SINGLE_ROWS = 1e-5, 3e-5
#: Sweeps at a time.
SWEEPS = 40
#: Most evaluations of all blocks for one point.
ATTEMPTS = 30
#: Most sweeps of one point, by default.
MOST = 20_000


#: Sweeps after which Newton on the weights continues, and a share of the smaller side of the working columns.
POLISH_AFTER = 60
#: Sweeps before Newton, once it took at most so many steps at the last point, where sweeps were slow.
FEW_SWEEPS, FEW_STEPS = 10, 15
#: Most rows of a system that Newton factorises.
LARGEST_SYSTEM = 6000
#: Evaluations without a smaller gap.
PATIENCE = 6
#: Share of the expected level of active blocks from which a block enters the working set.
MARGIN = 1.0
#: Size of the working blocks for points that are evaluated together, as a multiple of that of the active ones.
MORE = 3.0
#: Share of the level of active blocks from which blocks enter the working set together with others.
NEAR = 0.97


class WorkingBlocks:
    """Some blocks of a problem, which grow in number, with coefficients that descend.

    On rows the residual is updated and columns are read; on products the gradient is updated, and ``Z'Z`` is read, at a
    cost of the square of the number of columns, for any number of rows.

    Attributes
    ----------
    kernels : array of int, shape (n_blocks,)
    place : array of int, shape (n_kernels,)
        Position of a kernel among them, -1 for others.
    offsets : array of int, shape (n_blocks + 1,)
    h : array of shape (n_columns,)
        Squared norms of the rotated columns.
    W : array of shape (n_outputs, n_columns)
        Coefficients of the rotated columns, in the solver's units.
    norms : array of shape (n_blocks,)
    single : bool
        Whether products are taken, and they or rows are held, in float32: enough where the gap need not be small, in
        half the time.
    """

    def __init__(self, problem: FeatureProblem, on_products: bool, *, single: bool = False) -> None:
        self.problem = problem
        self.on_products = on_products
        self.single = single
        self.kernels = np.empty(0, dtype=np.int64)
        self.place = np.full(problem.n_kernels, -1, dtype=np.int64)
        self.offsets = np.zeros(1, dtype=np.int64)
        self.h = np.empty(0)
        self.turns: list[Array | None] = []
        self.turned = False  # whether a block has several columns
        self.W = np.empty((problem.n_outputs, 0))
        self.norms = np.empty(0)
        kind = np.float32 if single else np.float64
        self.rows = np.empty((0, problem.Y.shape[1]), dtype=kind)  # rotated columns, without products
        self._C = np.empty((0, 0), dtype=kind)
        self._Q = np.empty((problem.n_outputs, 0))
        self.R = problem.Y.copy()

    # ---- growth -----------------------------------------------------------------------------------

    @property
    def n_columns(self) -> int:
        """Columns of all blocks together."""
        return int(self.offsets[-1])

    def add(self, kernels: Index) -> int:
        """Add blocks that are not in the set yet; returns their number."""
        fresh = np.unique(kernels[self.place[kernels] < 0])
        if not len(fresh):
            return 0
        before = self.n_columns
        more = self._more_products if self.on_products else self._more_rows
        turned, h, widths = more(fresh)
        self.turns.extend(turned)
        self.turned |= any(turn is not None for turn in turned)
        self.place[fresh] = len(self.kernels) + np.arange(len(fresh))
        self.kernels = np.r_[self.kernels, fresh]
        self.offsets = np.r_[self.offsets, before + np.cumsum(widths)]
        self.h = np.r_[self.h, h]
        self.W = np.ascontiguousarray(np.c_[self.W, np.zeros((len(self.W), len(h)))])
        self.norms = np.r_[self.norms, np.zeros(len(fresh))]
        return len(fresh)

    def _more_rows(self, kernels: Index) -> tuple[list[Array | None], Array, Index]:
        n, given = self.rows.shape[1], self.problem.stack.widths[kernels]
        widths = np.minimum(given, n)
        before, more = self.n_columns, int(widths.sum())
        # the allocator moves pages: nothing is copied
        self.rows.resize((before + more, n), refcheck=False)
        turns: list[Array | None] = []
        parts, at = [np.empty(0)], before
        # the columns as they were, of some blocks at a time, are a copy
        for few in np.split(
            np.arange(len(kernels)), np.flatnonzero(np.diff(np.cumsum(given) * n // PIECE)) + 1
        ):
            stop = at + int(widths[few].sum())
            more_turns, h = turn_blocks(self.problem.columns(kernels[few]), given[few], self.rows[at:stop])
            turns.extend(more_turns)
            parts.append(h)
            at = stop
        return turns, np.concatenate(parts), widths

    def _more_products(self, kernels: Index) -> tuple[list[Array | None], Array, Index]:
        problem, stack, before = self.problem, self.problem.stack, self.n_columns
        widths = stack.widths[kernels]
        ends = np.r_[0, np.cumsum(widths)]
        fresh, old = stack.owned(kernels), stack.owned(self.kernels)
        strip = np.empty((len(fresh), before + len(fresh)))
        strip[:, before:] = self._products(fresh, fresh)
        if before:
            strip[:, :before] = self._products(fresh, old)
        turns: list[Array | None] = []
        for first, last in pairwise(ends):
            block = strip[first:last, before + first : before + last]
            turns.append(np.linalg.eigh(0.5 * (block + block.T))[1] if last - first > 1 else None)
        Q = problem.gradient_of_targets[:, fresh]
        _turn_rows(strip, ends, turns)
        _turn_rows(Q.T, ends, turns)
        _turn_rows(strip.T, np.r_[self.offsets[:-1], before + ends], [*self.turns, *turns])
        corner = strip[:, before:]
        corner += corner.T.copy()
        corner *= 0.5
        C = np.empty((strip.shape[1], strip.shape[1]), dtype=self._C.dtype)
        C[:before, :before] = self._C
        C[before:] = strip
        C[:before, before:] = strip[:, :before].T
        self._C, self._Q = C, np.ascontiguousarray(np.c_[self._Q, Q])
        return turns, np.maximum(np.diag(corner), 0.0), widths

    def _products(self, left: Index, right: Index) -> Array:
        """Products of some columns in the solver's units, before they are turned."""
        factors = self.problem.factors
        found = self.problem.stack.cross(left, right, self.problem.root, single=self.single)
        return np.asarray(found * factors[left][:, None] * factors[right])

    def sharpen(self) -> None:
        """Take all products or rows once more, in float64, in the coordinates in which the blocks are."""
        self.single = False
        if not self.on_products:
            self.rows = np.empty(self.rows.shape)
            for m, turn in enumerate(self.turns):
                given = self.problem.columns(self.kernels[m : m + 1])
                self.rows[self.offsets[m] : self.offsets[m + 1]] = given if turn is None else turn.T @ given
            self.h = np.einsum("ij,ij->i", self.rows, self.rows)
            return
        index = self.problem.stack.owned(self.kernels)
        self._C = self._products(index, index)
        _turn_rows(self._C, self.offsets, self.turns)
        _turn_rows(self._C.T, self.offsets, self.turns)
        self.h = np.maximum(np.diag(self._C), 0.0)

    # ---- descent ----------------------------------------------------------------------------------

    def gradient(self) -> Array:
        """``Z'R`` for these columns, shape (n_outputs, n_columns)."""
        out = np.empty_like(self.W)
        if not self.on_products:
            core.column_products(self.rows, self.R, out)
            return out
        used = np.flatnonzero(self.W.any(axis=0))
        core.column_sums(self._C, used, self.W[:, used], out)
        return self._Q - out

    def quadratic_forms(self, G: Array) -> Array:
        """Squared norms of the blocks of a gradient."""
        return np.add.reduceat(np.square(G).sum(axis=0), self.offsets[:-1])

    def descend(self, a: float, aim: float, most: int) -> tuple[int, float]:
        """Sweeps until the gap is at most `aim` as a share of the objective; returns their number and that share."""
        Y, blocks = self.problem.Y, (self.offsets, np.arange(len(self.kernels)), self.h)
        if not self.on_products:
            return core.blocks_on_rows(self.rows, *blocks, Y, self.W, self.norms, self.R, a, aim, most)
        total, G = float(np.vdot(Y, Y)), self.gradient()
        return core.blocks_on_products(self._C, *blocks, self._Q, total, self.W, self.norms, G, a, aim, most)

    def residual_sums(self, G: Array) -> tuple[float, float]:
        """``<Y, R>`` and ``||R||^2``, given the gradient."""
        Y = self.problem.Y
        if not self.on_products:
            return float(np.vdot(Y, self.R)), float(np.vdot(self.R, self.R))
        inside, left = float(np.vdot(self._Q, self.W)), float(np.vdot(G, self.W))
        inner = float(np.vdot(Y, Y)) - inside
        return inner, max(0.0, inner - left)

    def refresh(self) -> None:
        """The residual and the norms from the coefficients."""
        self.norms = np.sqrt(np.add.reduceat(np.square(self.W).sum(axis=0), self.offsets[:-1]))
        if not self.on_products:
            chosen = np.flatnonzero(self.norms)
            core.blocks_residual(self.rows, self.offsets, chosen, self.problem.Y, self.W, self.R)

    def factors(self, chosen: Index, *, on_rows: bool) -> tuple[Array, Array]:
        """Columns of some blocks as rows, and targets, on all rows or on an equivalent smaller set.

        On products the latter are ``F`` with ``F'F = Z'Z`` and targets with ``F't = Z'Y``.
        """
        columns = np.concatenate([np.arange(self.offsets[m], self.offsets[m + 1]) for m in chosen])
        if not self.on_products:
            return self.rows[columns].astype(np.float64), self.problem.Y
        if on_rows:
            kernels = self.kernels[chosen]
            given = self.problem.columns(kernels)
            ends = np.r_[0, np.cumsum(self.problem.stack.widths[kernels])]
            _turn_rows(given, ends, [self.turns[m] for m in chosen])
            return given, self.problem.Y
        values, vectors = np.linalg.eigh(self._C[np.ix_(columns, columns)].astype(np.float64))
        root = np.sqrt(np.maximum(values, 0.0))
        root[root <= EPS * len(root) * root[-1]] = 0.0
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        return vectors * root, (self._Q[:, columns] @ vectors) * inverse

    def put(self, W: Array) -> None:
        """Other coefficients; those of columns that came later are zero."""
        self.W = np.zeros((len(W), self.n_columns))
        self.W[:, : W.shape[1]] = W
        self.refresh()


class BlocksInPlace(WorkingBlocks):
    """Working blocks of rows that stand for others: they descend where the rows lie, and nothing is copied.

    All blocks have their place from the beginning; those of the working set are turned, and only these descend.

    Attributes
    ----------
    chosen : array of int
        The working set.
    """

    def __init__(self, problem: FeatureProblem) -> None:
        super().__init__(problem, False)
        stack = self.problem.stack
        self.kernels, self.offsets, self.rows = np.arange(problem.n_kernels), stack.groups, stack.rows
        self.chosen = np.empty(0, dtype=np.int64)
        self.turns = [None] * problem.n_kernels
        self.turned = bool((stack.widths > 1).any())
        self.h, self.W = np.zeros(stack.n_features), np.zeros((problem.n_outputs, stack.n_features))
        self.norms = np.zeros(problem.n_kernels)

    def add(self, kernels: Index) -> int:
        """Add blocks that are not in the set yet; returns their number."""
        fresh = np.unique(kernels[self.place[kernels] < 0])
        stack, factors = self.problem.stack, self.problem.kernel_factors
        for m in map(int, fresh):
            self.h[self.offsets[m] : self.offsets[m + 1]] = stack.turn(m, float(factors[m]))
            self.turns[m] = stack.turns.get(m)
        self.place[fresh] = fresh
        self.chosen = np.union1d(self.chosen, fresh)
        return len(fresh)

    def gradient(self) -> Array:
        """``Z'R`` for the blocks of the working set, and zero for others."""
        G = self.R @ self.rows.T
        G[:, np.repeat(self.place < 0, np.diff(self.offsets))] = 0.0
        return G

    def descend(self, a: float, aim: float, most: int) -> tuple[int, float]:
        """Sweeps until the gap is at most `aim` as a share of the objective; returns their number and that share."""
        blocks = (self.offsets, self.chosen, self.h)
        return core.blocks_on_rows(
            self.rows, *blocks, self.problem.Y, self.W, self.norms, self.R, a, aim, most
        )


def _turn_rows(A: Array, offsets: Index, turns: Sequence[Array | None]) -> None:
    """Turn blocks of rows of an array in place."""
    for first, turn in zip(offsets, turns, strict=False):
        if turn is not None:
            own = slice(int(first), int(first) + len(turn))
            A[own] = turn.T @ A[own]


def turn_blocks(columns: Array, widths: Index, out: Array) -> tuple[list[Array | None], Array]:
    """Turn blocks of columns, as rows, so that they are orthogonal within blocks.

    Parameters
    ----------
    columns : array of shape (sum of widths, n_samples)
    widths : array of int, shape (n_blocks,)
    out : array of shape (n_rows, n_samples)
        Receives the turned blocks; of those with more columns than rows, as many as there are rows.

    Returns
    -------
    turns : list of array of shape (width, n_kept) or None
        What coefficients of turned columns are multiplied by; None for the identity.
    h : array of shape (n_rows,)
        Squared norms of the turned columns.
    """
    n = columns.shape[1]
    turns: list[Array | None] = []
    first = at = 0
    # neighbours of one width together
    for run in np.split(widths, np.flatnonzero(np.diff(widths)) + 1):
        count, width = len(run), int(run[0])
        kept = min(width, n)
        blocks = columns[first : first + count * width].reshape(count, width, n)
        target = out[at : at + count * kept].reshape(count, kept, n)
        if width == 1:
            target[:] = blocks
            turns.extend([None] * count)
        elif width <= n:
            _, turn = np.linalg.eigh(blocks @ blocks.transpose(0, 2, 1))
            np.matmul(turn.transpose(0, 2, 1), blocks, out=target)
            turns.extend(turn)
        else:
            values, vectors = np.linalg.eigh(blocks.transpose(0, 2, 1) @ blocks)
            root = np.sqrt(np.maximum(values, 0.0))
            # directions that are rounding errors have no coefficients
            root[root <= EPS * width * root[:, -1:]] = 0.0
            inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
            target[:] = root[:, :, None] * vectors.transpose(0, 2, 1)
            turns.extend((blocks @ vectors) * inverse[:, None, :])
        first, at = first + count * width, at + count * kept
    return turns, np.einsum("ij,ij->i", out, out, dtype=np.float64)


@dataclass(eq=False)
class Point:
    """A solution on the working blocks, before all blocks are evaluated; in the solver's units."""

    a: float
    W: Array
    norms: Array
    R: Array | None
    theta: Array | None  # a dual point that is better than the residual
    n_iter: int = 0
    trace: list[tuple[float, float, int]] = field(default_factory=list)
    stalled: bool = False

    @property
    def level(self) -> float:
        """Sum of the norms."""
        return float(self.norms.sum())


@dataclass(eq=False)
class Evaluated:
    """A dual point, the squared norms of all blocks of its gradient, and values with the best multiple of it.

    The problem is the one at the point's regularisation parameter.
    """

    problem: FeatureProblem
    theta: Array
    quadratic_forms: Array
    values: Values
    multiple: float = 1.0


class FeatureDescent:
    """One problem during its solution for successive regularisation parameters.

    Parameters
    ----------
    problem : FeatureProblem
    tol : float
    max_iter : int
        Sweeps for one regularisation parameter.
    callback : callable, optional
        ``callback(n_iter, objective, rel_gap)``.
    """

    #: Size of the working blocks that is always allowed for points that are evaluated together.
    room = 400

    def __init__(
        self,
        problem: FeatureProblem,
        *,
        tol: float,
        max_iter: int | None = None,
        callback: Callable[[int, float, float], object] | None = None,
    ) -> None:
        self.problem, self.tol, self.callback = problem, tol, callback
        self.max_iter = MOST if max_iter is None else max_iter
        self.work = self._start()
        self.quadratic_forms = problem.forms_of_targets()  # at the last evaluated point
        self.level = math.sqrt(float(self.quadratic_forms.max()))  # level of active blocks there
        self.rough = False  # on the way to another point: no solutions, and no certificates
        self.before: tuple[float, Array] | None = None  # level and quadratic_forms one point earlier
        self.told = False
        self.slope = 0.5  # of log(level) in log(alpha)
        self.last: list[tuple[float, float, Array]] = []  # alpha, level, W of the last two points
        self.together = 1
        self.steep = False  # whether sweeps were slow at the last point, and few Newton steps did
        self.least = 0  # sweeps of a point, at least
        self.interrupted = False

    def _start(self) -> WorkingBlocks:
        n = self.problem.Y.shape[1]
        narrow = int(self.problem.stack.widths.max()) <= n
        # rows that stand for others are hardly more than the columns: products take as much memory again, and
        # sweeps are about a third faster on them
        large = self.problem.summary is not None and self.problem.stack.n_features > MOST_PRODUCTS
        if large and narrow:
            return BlocksInPlace(self.problem)
        many = n >= MANY_ROWS or (n >= ROWS_OF_FEW and self.problem.stack.n_features < n)
        on_products = many and not large and narrow
        return WorkingBlocks(
            self.problem, on_products, single=self.tol >= (SINGLE if on_products else SINGLE_ROWS)
        )

    def prepare(self, alphas: Sequence[float]) -> None:
        """Learn which alphas are to come, before blocks are taken."""

    # ---- a path -----------------------------------------------------------------------------------

    def solve(self, alphas: Sequence[float]) -> Iterator[Solution]:
        """Solutions for alphas in descending order."""
        todo = list(alphas)
        while todo:
            if math.isinf(todo[0]) or not self.problem.targets.any():
                yield self._nothing(todo.pop(0))
                continue
            for found in self._batch(todo[: self._how_many(todo)]):
                todo.pop(0)
                yield found
                if self.interrupted:
                    return

    def on_the_way(self, alphas: ArrayLike, tol: float) -> None:
        """Solve for larger alphas to a coarse tolerance, as a start, without callbacks and certificates."""
        given, callback = self.tol, self.callback
        self.tol, self.callback, self.rough = max(given, tol), None, True
        for _ in self.solve([float(alpha) for alpha in np.asarray(alphas)]):
            pass
        self.tol, self.callback, self.rough = given, callback, False

    def _batch(self, alphas: list[float]) -> Iterator[Solution]:
        """Solutions for some alphas, each certified by all blocks."""
        problem, work = self.problem, self.work
        units = [problem.in_units(alpha) for alpha in alphas]
        work.add(self._expected(units[-1]))
        start, attempts, aim, failed = 0, 0, INSIDE * self.tol, False
        # points after one that is refined, which stay as they are
        later: list[tuple[Point, Evaluated]] = []
        while start < len(units):
            points = []
            for a in units[start : len(units) - len(later)]:
                self.least = 0 if aim == INSIDE * self.tol else 2**attempts
                points.append(self._point(a, aim))
                if self.interrupted:
                    break
            evaluated = [*self._evaluate(points), *(known for _, known in later)]
            points += [point for point, _ in later]
            values = [one.values for one in evaluated]
            fine = [own.gap + own.rounding <= self.tol * own.primal for own in values]
            k = len(points) if self.interrupted or all(fine) else fine.index(False)
            found = self._solutions(alphas[start : start + k], points[:k], evaluated[:k])
            for j, one in enumerate(found):
                if one.gap > self.tol * one.primal and not (self.interrupted or self.rough):
                    # the bounds of the turned blocks are better than those of the solution
                    k = j
                    break
                self._move(points[j], evaluated[j].quadratic_forms)
                yield one
            if k == len(points):
                if not failed:
                    self.together = min(2 * self.together, TOGETHER)
                if later:
                    self._go_on_from(points)
                return
            failed = True
            attempts = attempts + 1 if k == 0 else 0
            if k:
                aim = INSIDE * self.tol
            start += k
            point, last = points[k], evaluated[k]
            later = []
            grown = work.add(self._outside(points[k:], [one.quadratic_forms for one in evaluated[k:]]))
            own = last.values.gap <= self.tol * last.values.primal
            if (
                attempts >= ATTEMPTS
                or used_up()
                or (not grown and (own or point.stalled or aim < 1e-3 * self.tol))
            ):
                self._move(point, last.quadratic_forms)
                yield from self._solutions([alphas[start]], [point], [last])
                start, attempts, aim = start + 1, 0, INSIDE * self.tol
            elif not grown and work.single and aim < self.tol:
                # descending further did not help: single precision is too coarse
                work.sharpen()
            elif not grown:
                aim *= 0.3
                later = list(zip(points[k + 1 :], evaluated[k + 1 :], strict=True))
            else:
                aim = INSIDE * self.tol
            work.put(point.W)

    def _evaluate(self, points: list[Point]) -> list[Evaluated]:
        """Dual points, squared norms of all blocks of their gradients, and both bounds."""
        problem, work = self.problem, self.work
        residuals = self._residuals(points)
        duals = [R if p.theta is None else p.theta for p, R in zip(points, residuals, strict=True)]
        found = []
        for point, R, theta, q in zip(points, residuals, duals, problem.forms(duals), strict=True):
            own, b = self._at(point.a), theta / point.a
            inside = q / point.a / point.a
            share = own.multiple(b, float(inside.max()), 0.0, worth=0.0)
            size = float(point.norms @ problem.kernel_sizes[work.kernels[: len(point.norms)]])
            values = own.values(
                point.level**2, problem.Y - R, 0.0, share * b, share**2 * inside, size, point.W.shape[1]
            )
            found.append(Evaluated(own, theta, q, values, share))
        return found

    def _at(self, a: float) -> FeatureProblem:
        """The problem at a regularisation parameter in the solver's units."""
        return self.problem.at(1.0 / (a * self.problem.unit * self.problem.unit))

    def _how_many(self, alphas: list[float]) -> int:
        """Points to evaluate together: at most as many as the working blocks can be chosen for."""
        most = MORE * self._size(self.work.kernels[self.work.norms > 0]) + self.room
        for k in range(1, min(self.together, len(alphas))):
            if self._size(self._expected(self.problem.in_units(alphas[k]))) > most:
                return k
        return min(self.together, len(alphas))

    def _size(self, kernels: Index) -> int:
        """What some working blocks count for: their columns."""
        return int(self.problem.stack.widths[kernels].sum())

    def _expected(self, a: float) -> Index:
        """Blocks that are active at `a` if their gradients go on as between the last two evaluated points."""
        if not self.last:
            return np.flatnonzero(self.quadratic_forms >= np.square(0.9 * self.level))
        level = self.level * min(1.0, (a / self.last[-1][0]) ** self.slope)
        reach = np.sqrt(self.quadratic_forms)
        if self.before is not None and self.before[0] > self.level:
            ahead = (self.level - level) / (self.before[0] - self.level)
            reach = reach + ahead * (reach - np.sqrt(self.before[1]))
        return np.flatnonzero(reach >= MARGIN * level)

    def _outside(self, points: list[Point], quadratic_forms: list[Array]) -> Index:
        """Blocks that could gain at some points."""
        gains = [
            q > np.square(NEAR * point.a * point.level)
            for point, q in zip(points, quadratic_forms, strict=True)
        ]
        return np.flatnonzero(np.any(gains, axis=0))

    def _go_on_from(self, points: list[Point]) -> None:
        """Take the last of some points as the one that was solved last, after another was refined."""
        self.last = [(point.a, point.a * point.level, point.W) for point in points[-2:]]
        self.work.put(points[-1].W)

    # ---- one point --------------------------------------------------------------------------------

    def _point(self, a: float, aim: float) -> Point:
        """Descend until the gap over the working blocks is at most `aim`, relative to the objective."""
        self._extrapolate(a)
        n_iter, trace, theta, stalled = self._descend(a, aim)
        return self._taken(a, n_iter, trace, theta, stalled)

    def _descend(
        self, a: float, aim: float
    ) -> tuple[int, list[tuple[float, float, int]], Array | None, bool]:
        """Sweeps, records of them, a dual point from Newton if there is one, and whether there was no progress."""
        work = self.work
        n_iter, polished = 0, 0
        trace: list[tuple[float, float, int]] = []
        theta: Array | None = None
        stalled = False
        budget = POLISH_AFTER + 0.75 * min(work.R.shape[1], self._size(np.flatnonzero(work.place >= 0)))
        if least := min(self.least, self.max_iter - 1):
            # the measure of a sweep is from before it, and may be zero too early
            n_iter, _ = work.descend(a, -1.0, least)
        # where sweeps were slow before: a few for the blocks that are active, then Newton, and then as always
        early = self.steep and self.max_iter > FEW_SWEEPS
        some = FEW_SWEEPS if early else SWEEPS
        while True:
            sweeps, left = work.descend(a, aim, max(1, min(some, self.max_iter - n_iter)))
            n_iter += sweeps
            primal = self._objective(a)
            trace.append((primal, left, int(np.count_nonzero(work.norms))))
            if self.callback is not None:
                self.interrupted = bool(self.callback(n_iter, primal * self.problem.length**2, left))
            if left <= aim or n_iter >= self.max_iter or self.interrupted or used_up():
                break
            slow = len(trace) > PATIENCE and left > 0.5 * trace[-1 - PATIENCE][1]
            if slow and polished == 2:
                stalled = True
                break
            if early:
                early, some = False, SWEEPS
                steps, _ = self._polish(a, aim, on_rows=not work.on_products)
                n_iter += steps
                trace = trace[-1:]
                self.steep = 0 < steps <= FEW_STEPS
                continue
            if slow or (n_iter > budget and not polished):
                steps, theta = self._polish(a, aim, on_rows=polished == 1 or not work.on_products)
                polished = 2 if polished or not work.on_products else 1
                n_iter += steps
                self.steep = 0 < steps <= FEW_STEPS
                if theta is not None:
                    break
                trace = trace[-1:]
        return n_iter, trace, theta, stalled

    def _taken(
        self,
        a: float,
        n_iter: int,
        trace: list[tuple[float, float, int]],
        theta: Array | None,
        stalled: bool,
    ) -> Point:
        """The working blocks' coefficients as a point."""
        work = self.work
        work.refresh()
        residual = None if work.on_products else work.R.copy()
        found = Point(a, work.W.copy(), work.norms.copy(), residual, theta, n_iter, trace, stalled)
        self.last = [*self.last[-1:], (a, a * found.level, found.W)]
        return found

    def _extrapolate(self, a: float) -> None:
        """Coefficients along the line through the last two points, if the objective is lower there."""
        work = self.work
        if len(self.last) < 2:
            return
        (a1, level1, W1), (a2, level2, _) = self.last
        if not (a < a2 < a1 and level1 > level2 > 0):
            return
        self.slope = math.log(level1 / level2) / math.log(a1 / a2)
        ahead = (level2 - level2 * (a / a2) ** self.slope) / (level1 - level2)
        before = work.W.copy()
        value = self._objective(a)
        wide = np.zeros_like(before)
        wide[:, : W1.shape[1]] = W1
        on = np.repeat(work.norms > 0, np.diff(work.offsets))
        work.put(np.where(on, before + ahead * (before - wide), 0.0))
        if not self._objective(a) < value:
            work.put(before)

    def _objective(self, a: float) -> float:
        work = self.work
        G = work.gradient() if work.on_products else np.empty(0)
        return 0.5 * work.residual_sums(G)[1] + 0.5 * a * float(work.norms.sum()) ** 2

    def _polish(self, a: float, aim: float, *, on_rows: bool) -> tuple[int, Array | None]:
        """Newton on the weights of the blocks that are active or nearly so, on rows or on an equivalent smaller set.

        Returns the number of its steps, and on rows its dual point if that is accurate enough: with hardly any
        regularisation it is more accurate than the residual.
        """
        work = self.work
        quadratic_forms = work.quadratic_forms(work.gradient())
        level = float(work.norms.sum())
        chosen = np.flatnonzero((work.norms > 0) | (quadratic_forms > np.square(0.9 * a * level)))
        widths = np.diff(work.offsets)[chosen]
        n = work.R.shape[1]
        size = int(widths.sum())
        if level == 0 or (min(n, 2 * size) if on_rows else size) > LARGEST_SYSTEM:
            return 0, None
        rows, targets = work.factors(chosen, on_rows=on_rows)
        part = RidgeProblem(
            FactorGram(rows, np.r_[0, np.cumsum(widths)]),
            targets,
            np.ones(targets.shape[1]),
            np.ones(len(chosen)),
        )
        before, value = work.W.copy(), self._objective(a)
        warm = RidgeStart(weights=work.norms[chosen] / level)
        try:
            found = newton_result(part, a, tol=aim, max_iter=200, warm=warm, screen=False)
        except InputError:
            # lost in the rounding errors of the kernels
            return 0, None
        W = np.zeros_like(work.W)
        columns = np.concatenate([np.arange(work.offsets[m], work.offsets[m + 1]) for m in chosen])
        W[:, columns] = np.repeat(found.weights, widths) * (rows @ found.dual_coef).T
        work.put(W)
        if not self._objective(a) <= value * (1 + aim):
            work.put(before)
            return found.n_iter, None
        good = on_rows and found.status in (Status.CONVERGED, Status.ROUNDING)
        return found.n_iter, a * found.dual_coef.T if good else None

    def _residuals(self, points: list[Point]) -> list[Array]:
        """Residuals of some points, in one pass over the columns of their blocks."""
        if not self.work.on_products:
            return [point.R for point in points if point.R is not None]
        index, coef = self._features(points)
        fitted = self.problem.combine(index, coef.reshape(-1, len(index)))
        return list(self.problem.Y - fitted.reshape(len(coef), self.problem.n_outputs, -1))

    def _features(self, points: list[Point]) -> tuple[Index, Array]:
        """Columns of the active kernels of some points, and coefficients (n_points, n_outputs, n_columns)."""
        work = self.work
        active = np.zeros(len(work.kernels), dtype=bool)
        for point in points:
            active[: len(point.norms)] |= point.norms > 0
        kernels = np.sort(work.kernels[active])
        shape = (len(points), self.problem.n_outputs)
        W = np.zeros((*shape, work.n_columns))
        for k, point in enumerate(points):
            # blocks that came later have no coefficients
            W[k, :, : point.W.shape[1]] = point.W
        rows, places = W.reshape(-1, work.n_columns), work.place[kernels]
        if work.turned:
            ends, parts = work.offsets, [np.empty((len(rows), 0))]
            for m in places:
                own, turn = rows[:, ends[m] : ends[m + 1]], work.turns[m]
                parts.append(own if turn is None else own @ turn.T)
            coef = np.concatenate(parts, axis=1)
        else:
            # every block is one column
            coef = rows[:, places]
        return self.problem.stack.owned(kernels), coef.reshape(*shape, -1)

    # ---- solutions --------------------------------------------------------------------------------

    def _move(self, point: Point, quadratic_forms: Array) -> None:
        """Take a point as the last one that was evaluated."""
        self.before = (self.level, self.quadratic_forms) if self.told else None
        self.quadratic_forms, self.level, self.told = quadratic_forms, point.a * point.level, True

    def _solutions(
        self, alphas: list[float], points: list[Point], evaluated: list[Evaluated]
    ) -> list[Solution]:
        """Points as solutions, in the units of the problem.

        Their certificates are computed from their own numbers, over all blocks.
        """
        problem, found = self.problem, []
        for alpha, point, known, features in zip(
            alphas, points, evaluated, self._feature_coef(points), strict=True
        ):
            weights = self._weights_of(point, features)
            if not weights.any():
                weights[int(np.argmax(known.quadratic_forms))] = 1.0
            found.append(
                self._solution(
                    alpha,
                    weights / weights.sum(),
                    known.theta * (known.multiple / point.a),
                    known.problem.certificate(known.values, Status.STALLED),
                    features=features,
                    n_iter=point.n_iter,
                    trace=problem.trace(point.trace),
                )
            )
        if self.rough or not found:
            return found
        candidates = [
            Candidate(
                1.0 / one.alpha,
                one.weights,
                np.ascontiguousarray(one.feature_coef.T),
                np.ascontiguousarray(one.dual_coef.T),
                quadratic_forms=known.quadratic_forms * (known.multiple / point.a) ** 2,
            )
            for one, known, point in zip(found, evaluated, points, strict=True)
        ]
        certificates = problem.certificates(candidates)
        return [
            replace(one, certificate=self._ended(point, certificate))
            for one, point, certificate in zip(found, points, certificates, strict=True)
        ]

    def _ended(self, point: Point, found: Certificate) -> Certificate:
        """A certificate with the status that follows from it."""
        status = Status.CONVERGED
        if self.interrupted:
            status = Status.INTERRUPTED
        elif found.gap > self.tol * found.primal:
            status = (
                Status.MAX_ITER if point.n_iter >= self.max_iter else REACHED[used_up()] or Status.STALLED
            )
        return Certificate.of("joint", found.primal, found.own_gap, found.rounding, status, tol=self.tol)

    def _solution(
        self,
        alpha: float,
        weights: Array,
        b: Array,
        certificate: Certificate,
        *,
        features: Array | None = None,
        n_iter: int = 1,
        trace: dict[str, Array] | None = None,
    ) -> Solution:
        """Weights, and coefficients of the rows in the solver's units, as a solution."""
        problem = self.problem
        C = b * (problem.length / problem.unit / problem.unit)
        return Solution(
            weights=weights,
            dual_coef=(C if problem.root is None else C * problem.root).T,
            intercept=0.0,
            certificate=certificate,
            n_iter=n_iter,
            alpha=alpha,
            trace={} if trace is None else trace,
            feature_coef=self._no_features() if features is None else features,
        )

    def _weights_of(self, point: Point, features: Array) -> Array:
        """Norms of the blocks of coefficients, shape (n_kernels,): those of the features, not of the turned columns."""
        problem = self.problem
        return problem.norms(features.T / problem.factors / problem.length)

    def _no_features(self) -> Array:
        """Coefficients of the features that are zero, shape (n_features, n_outputs)."""
        return np.zeros((self.problem.n_outputs, self.problem.stack.n_features)).T

    def _feature_coef(self, points: list[Point]) -> list[Array]:
        """Coefficients of the features at some points, each of shape (n_features, n_outputs)."""
        problem, found = self.problem, list[Array]()
        if not points:
            return found
        index, coef = self._features(points)
        for own in coef * problem.factors[index] * problem.length:
            features = self._no_features()
            features[index] = own.T
            found.append(features)
        return found

    def _nothing(self, alpha: float) -> Solution:
        """F = 0, for infinite alpha and for targets that are zero."""
        problem = self.problem
        weights = np.zeros(problem.n_kernels)
        weights[int(np.argmax(self.quadratic_forms))] = 1.0
        value = problem.null_value()
        rounding = EPS * math.sqrt(problem.targets.size + 8) * value
        certificate = Certificate.of("joint", value, 0.0, rounding, Status.CONVERGED, tol=self.tol)
        return self._solution(alpha, weights, np.zeros(problem.targets.shape), certificate)
