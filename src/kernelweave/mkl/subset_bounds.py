"""Bounds of the values of all subsets of kernels, from the dual coefficients of some of them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kernelweave.mkl.certify import term_error
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.simplex_ridge import spread

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Multiples of coefficients that give bounds too. Small ones are best for subsets with larger quadratic forms.
MULTIPLES = np.array([1.0, 0.97, 0.93, 0.88, 0.8, 0.7, 0.55, 0.35])


class Pool:
    """A pool of dual coefficients, and their bounds of the values of subsets.

    Parameters
    ----------
    whole : KernelProblem
        The machine on all kernels.
    ridge : float
        Factor of the squared weights.
    """

    def __init__(self, whole: KernelProblem, ridge: float) -> None:
        self.whole, self.ridge = whole, ridge
        self.coefficients: list[Array] = []
        self._terms = np.empty((0, len(MULTIPLES)))
        self._quadratic_forms = np.empty((0, whole.n_kernels))

    def __len__(self) -> int:
        return len(self.coefficients)

    def add(self, b: Array) -> None:
        """Add dual feasible coefficients."""
        whole, machine = self.whole, self.whole.machine
        quadratic_forms = whole.quad(b)
        quadratic_forms = quadratic_forms + whole.quad_error(b, quadratic_forms)
        terms = np.array([machine.dual_term(t * b) for t in MULTIPLES]) - term_error(machine, b)
        self.coefficients.append(b)
        self._terms = np.vstack([self._terms, terms])
        self._quadratic_forms = np.vstack([self._quadratic_forms, quadratic_forms])

    def bound(self, inside: Index, free: Index, room: int) -> float:
        """The largest bound of the pool of all subsets of `inside` and at most `room` of `free`."""
        if not len(self):
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

    def needed(self, inside: Index, free: Index, room: int, target: float) -> Index | None:
        """The shortest list of kernels of which subsets below the target contain one, largest quadratic forms first."""
        own = self._quadratic_forms[:, inside]
        telling = np.flatnonzero(self._value(own) >= target) if len(inside) else np.arange(len(self))
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
