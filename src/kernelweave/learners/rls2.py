"""RLS2: the squared loss, with certified paths of the regularisation parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np

from kernelweave._parameters import Flag, MaxIter, MaxTime, Number, OneOf, Shown, Tol, Whole
from kernelweave.gram import FeatureGram, FeatureStack, Gram
from kernelweave.learners.base import Array, Info, Learner
from kernelweave.mkl.path import rls2_path
from kernelweave.mkl.rls2 import solve_rls2
from kernelweave.mkl.solve import SOLVERS
from kernelweave.results import Path, Solution

#: Regularisation parameters of the ridge for ``relax="auto"``, as shares of that of the weights, over four decades.
RELAX_SHARES = np.geomspace(1.0, 1e-4, 9)


Relax = Annotated[
    float | str | None,
    OneOf("auto") | Number(above=0, infinite=True) | None,
    Shown("Alpha of the ridge", help="none, a number or auto."),
]
Delta = Annotated[
    float,
    Number(above=0, below=1, remedy="It is a relative residual."),
    Shown("Residual rule (delta)"),
]


class RLS2(Learner):
    """Two-layer regularised least squares: squared loss, kernel weights on the simplex.

    Minimises over weights ``d`` on the simplex and coefficients ``c``

        1/2 sum_i w_i (y_i - b - f_i)^2 + alpha/2 c' K(d) c ,   f = K(d) c ,   K(d) = sum_m d_m s_m K_m ,

    with ``s_m`` from the estimator's normaliser and ``b`` fixed beforehand.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularisation parameter > 0, in units of the normalised kernels. "auto" chooses on a path by
        `n_folds`-fold cross-validated squared error, on folds made from the content of the rows: equal rows share
        a fold, so that a sample weight is equivalent to a repetition and the order of the rows does not matter. With
        more than twelve candidates, only those around the best one are scored on all folds.
    relax : float, "auto" or None, default=None
        A separate regularisation parameter for the function: weights d are those of `alpha`, coefficients those of
        ridge regression with K(d) at `relax`. "auto" chooses it together with `alpha` on the same folds, among nine
        shares from 1 to 1e-4 of it, at about twice the cost.
    tol : float, default=1e-8
        Relative duality gap at which the solver stops.
    max_iter : int, optional
        Limit per regularisation parameter; default 200 (newton) or 50000 (alternating).
    max_time : float, optional
        Seconds for every solution, or path of solutions of one fold. What was reached is used, and its gap is reported.
    solver : {"newton", "alternating"}, default="newton"
        Active-set Newton on Problem 6, or the paper's Algorithm 1.
    delta : float, default=1e-2
        Residual rule of ``solver="alternating"``.
    shared_weights : bool, default=True
        For several regression outputs: one set of weights for all, or one for each.
    n_alphas : int, default=30
        Regularisation parameters tried by "auto".
    n_folds : int, default=5
        Folds of "auto".
    n_jobs : int, optional
        Processes of "auto", through joblib: folds in parallel, and of several classes also these; -1 for as many as
        there are processors.

    References
    ----------
    F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv 1001.2709 (2010), Problem 5.

    Examples
    --------
    >>> from kernelweave.learners import RLS2
    >>> RLS2(alpha=0.1)
    RLS2(alpha=0.1)
    """

    bayesian = True
    begins = True

    def __init__(
        self,
        alpha: Annotated[float | str, OneOf("auto") | Number(above=0, infinite=True)] = "auto",
        *,
        relax: Relax = None,
        tol: Tol = 1e-8,
        max_iter: MaxIter = None,
        max_time: MaxTime = None,
        solver: Annotated[str, OneOf(*SOLVERS)] = "newton",
        delta: Delta = 1e-2,
        shared_weights: Annotated[bool, Flag(), Shown(setting=None)] = True,
        n_alphas: Annotated[int, Whole(1), Shown(setting=None)] = 30,
        n_folds: Annotated[int, Whole(2), Shown(setting=None)] = 5,
        n_jobs: Annotated[int | None, Whole(1) | Whole(None, -1) | None, Shown(setting=None)] = None,
    ) -> None:
        self.alpha = alpha
        self.relax = relax
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.delta = delta
        self.shared_weights = shared_weights
        self.n_alphas = n_alphas
        self.n_folds = n_folds
        self.n_jobs = n_jobs

    @property
    def on_features(self) -> bool:
        """Whether it solves on explicit features: Newton does."""
        return self.solver == "newton"

    def requested(self) -> float | None:
        return None if "auto" in (self.alpha, self.relax) else float(self.alpha)

    def given_alphas(self) -> Array | None:
        return None if self.alpha == "auto" else np.array([float(self.alpha)])

    def relax_grid(self, alphas: Array) -> Array | None:
        return alphas[:, None] * RELAX_SHARES if self.relax == "auto" else None

    def _given(self, info: Info) -> Gram | FeatureStack:
        """The kernels, or their features where they were prepared and are fewer than the rows."""
        gram = info.gram
        if not isinstance(gram, FeatureGram) or not self.on_features or gram.ranks.sum() > gram.n_samples:
            return gram
        return gram.stack()

    def solve(self, info: Info, alpha: float) -> Solution:
        return solve_rls2(
            self._given(info),
            info.y,
            alpha,
            tol=self.tol,
            solver=self.solver,
            sample_weight=info.sample_weight,
            scale=info.scale,
            shared_weights=self.shared_weights,
            max_iter=self.max_iter,
            max_time=self.max_time,
            delta=self.delta,
            relax=None if self.relax is None else float(self.relax),
        )

    def path(
        self,
        info: Info,
        alphas: Array,
        *,
        tol: float | None = None,
        callback: Callable[[int, Solution], object] | None = None,
    ) -> Path[Solution]:
        return rls2_path(
            self._given(info),
            info.y,
            alphas,
            tol=self.tol if tol is None else tol,
            solver=self.solver,
            sample_weight=info.sample_weight,
            scale=info.scale,
            shared_weights=self.shared_weights,
            max_iter=self.max_iter,
            max_time=self.max_time,
            delta=self.delta,
            relax=self.relax_grid(alphas) if self.relax == "auto" else self.relax,
            weights0=info.start,
            callback=callback,
        )
