"""Solutions along regularisation parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._devices import Kind, hosted, is_foreign, namespace_of
from kernelweave._forms import ShortRepr
from kernelweave._types import Array
from kernelweave.results.certificate import Status
from kernelweave.results.solution import RelaxedSolution, Solution

S_co = TypeVar("S_co", bound=Solution, covariant=True)

#: Computes ``df`` (False) or all selection criteria (True) along a path.
Measure = Callable[[bool], Mapping[str, Array]]


@dataclass(frozen=True, repr=False, eq=False)
class Path(ShortRepr, Generic[S_co]):
    """Solutions along regularisation parameters, and their numbers as arrays.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        Regularisation parameters, in the order in which they were solved: descending for RLS2.
    solutions : tuple of Solution
        After an interruption the last one has the status ``INTERRUPTED``.
    measure : callable or None
        Computes `df` and `criteria` on first access; it holds a reference to the Gram matrices.
    """

    alphas: Array
    solutions: tuple[S_co, ...] = field(repr=False)
    measure: Measure | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls, solutions: Iterable[S_co], *, interrupted: bool = False, measure: Measure | None = None
    ) -> Path[S_co]:
        """The path of these solutions.

        Parameters
        ----------
        solutions : iterable of Solution
            Solutions in the order of their regularisation parameters, at least one.
        interrupted : bool, default=False
            Whether more solutions were requested; then the last one has the status ``INTERRUPTED``.
        measure : callable, optional
            Computes `df` and `criteria` when they are first read.
        """
        found = list(solutions)
        if interrupted:
            found[-1] = found[-1].ended(Status.INTERRUPTED)
        return cls(np.array([one.alpha for one in found]), tuple(found), measure)

    @classmethod
    def collect(
        cls,
        solutions: Iterable[S_co],
        count: int,
        callback: Callable[[int, S_co], object] | None = None,
        measure: Measure | None = None,
    ) -> Path[S_co]:
        """The path of solutions that are made one after another.

        It ends early, with what is finished, at a true value of ``callback(index, solution)`` and at Ctrl-C.

        Parameters
        ----------
        solutions : iterable of Solution
            Solutions in the order of their regularisation parameters; each is solved when it is asked for.
        count : int
            How many are expected.
        callback : callable, optional
            ``callback(index, solution)``, called after each solution.
        measure : callable, optional
            Computes `df` and `criteria` when they are first read.
        """
        done: list[S_co] = []
        interrupted = False
        try:
            for one in solutions:
                done.append(one)
                if callback is not None and callback(len(done) - 1, one):
                    break
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
        return cls.of(done, interrupted=interrupted or len(done) < count, measure=measure)

    def __len__(self) -> int:
        return len(self.solutions)

    def at(self, index: int, which: int | None = None) -> S_co:
        """The solution at one position of the path.

        Parameters
        ----------
        index : int
            The position.
        which : int, optional
            The position among several values of `relax`; the first by default.
        """
        found = self.solutions[index]
        if isinstance(found, RelaxedSolution) and np.ndim(found.relax) == 1:
            return found.at(0 if which is None else which)
        return found

    def _stack(self, name: str) -> Array:
        parts = [getattr(one, name) for one in self.solutions]
        return namespace_of(parts[0]).stack(parts) if parts and is_foreign(parts[0]) else np.array(parts)

    def of_kind(self, kind: Kind | None) -> Path[S_co]:
        """The path with arrays of another library; itself for None.

        Parameters
        ----------
        kind : Kind or None
            The library and the device of the arrays.
        """
        if kind is None:
            return self
        return replace(self, solutions=tuple(one.of_kind(kind) for one in self.solutions))

    def on_host(self) -> Path[S_co]:
        """The path with NumPy arrays."""
        return replace(self, solutions=tuple(one.on_host() for one in self.solutions))

    @cached_property
    def weights(self) -> Array:
        """Weights, shape (n_alphas, n_kernels) or (n_alphas, n_outputs, n_kernels)."""
        return self._stack("weights")

    @cached_property
    def dual_coef(self) -> Array:
        """Coefficients, shape (n_alphas, [n_relax,] n_samples, [n_outputs])."""
        return self._stack("dual_coef")

    @cached_property
    def feature_coef(self) -> Array:
        """Coefficients of features, shape (n_alphas, [n_relax,] n_features, [n_outputs]); empty for kernels."""
        return self._stack("feature_coef")

    @cached_property
    def intercept(self) -> Array:
        """Intercepts, shape (n_alphas, n_outputs), or (n_alphas, 1) if all outputs share one."""
        return self._stack("intercept").reshape(len(self), -1)

    @property
    def upper_layers(self) -> list[tuple[object, ...]]:
        """Layers above the sum of kernels, for every alpha and output; empty tuples if there are none."""
        return [getattr(one, "upper_layers", ()) for one in self.solutions]

    @property
    def primal(self) -> Array:
        """Values of the solutions, shape (n_alphas,)."""
        return self._stack("primal")

    @property
    def dual(self) -> Array:
        """Lower bounds of the optimal values, shape (n_alphas,)."""
        return self._stack("dual")

    @property
    def gap(self) -> Array:
        """Gaps, shape (n_alphas,)."""
        return self._stack("gap")

    @property
    def rel_gap(self) -> Array:
        """Relative gaps, shape (n_alphas,)."""
        return self._stack("rel_gap")

    @property
    def rounding(self) -> Array:
        """Bounds of rounding errors, shape (n_alphas,)."""
        return self._stack("rounding")

    @property
    def status(self) -> tuple[Status, ...]:
        """Status of each solution."""
        return tuple(one.status for one in self.solutions)

    @property
    def n_iter(self) -> NDArray[np.int64]:
        """Iterations, shape (n_alphas,)."""
        return np.array([one.n_iter for one in self.solutions])

    @property
    def n_active(self) -> NDArray[np.int64]:
        """Number of kernels with a nonzero weight at each regularisation parameter (in any output)."""
        used = hosted(self.weights) > 0
        return (used if used.ndim == 2 else np.any(used, axis=1)).sum(axis=1)

    @property
    def relax(self) -> Array:
        """Regularisation parameters of the ridge, shape (n_alphas,) or (n_alphas, n_relax)."""
        return self._stack("relax")

    @property
    def ridge_primal(self) -> Array:
        """See `RelaxedSolution`; an array like `relax`."""
        return self._stack("ridge_primal")

    @property
    def ridge_gap(self) -> Array:
        """See `RelaxedSolution`; an array like `relax`."""
        return self._stack("ridge_gap")

    @cached_property
    def df(self) -> Array:
        """Degrees of freedom at fixed weights, shape (n_alphas,) or that of `relax`; NaN for margins.

        Equation (15) of RLS2, and its kernel form ``tr(K(d) (K(d) + alpha I)^-1)``. Computed on first use: about two
        factorisations per alpha.
        """
        return np.full(len(self), np.nan) if self.measure is None else self.measure(False)["df"]

    @cached_property
    def criteria(self) -> Mapping[str, Array]:
        """Selection criteria, arrays like `df`; for margins there are none.

        ``gcv``, ``aic``, ``bic``, ``cp`` (smaller is better; Mallows' Cp takes the noise from the smallest
        regularisation parameter of the path), ``rss``, ``evidence`` (log marginal likelihood), ``noise_variance``,
        ``df`` and ``df_total``, which counts the learnt weights, as the first four do. For a relaxed path they are
        those of the ridge with ``df``, and ``df_total`` and ``cp`` are NaN, as the contribution of the weights is not
        known. Computed on first use.
        """
        return {} if self.measure is None else self.measure(True)
