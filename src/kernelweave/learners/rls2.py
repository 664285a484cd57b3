"""RLS2: the squared loss, with certified paths of the regularisation parameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Annotated, cast

import numpy as np

from kernelweave._allowance import allowed
from kernelweave._checks import InputError
from kernelweave._parameters import Flag, MaxIter, Number, OneOf, Shown, Whole
from kernelweave.gram import FeatureGram, FeatureStack, Gram, kind_of
from kernelweave.learners.base import Array, Learner, TrainingSet
from kernelweave.mkl.path import check_alphas
from kernelweave.mkl.problem import Problem, RidgeForm
from kernelweave.mkl.solve import SOLVERS, along_alphas
from kernelweave.results import Path, Solution

#: Regularisation parameters of the ridge for ``relax="auto"``, as shares of that of the weights, over four decades.
RELAX_SHARES = np.geomspace(1.0, 1e-4, 9)
#: Those near a share that fewer rows chose, as multiples of it; with more rows smaller ones become better.
NEAR = np.geomspace(10.0**0.5, 10.0**-1.5, 5)
#: The first of these are enough near a share that the same rows chose.
FEW = 3

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
    alpha
        Regularisation parameter > 0, in units of the normalised kernels. "auto" chooses on a path by
        `n_folds`-fold cross-validated squared error, on folds made from the content of the rows: equal rows share
        a fold, so that a sample weight is equivalent to a repetition and the order of the rows does not matter. With
        more than twelve candidates, only those around the best one are scored on all folds.
    relax
        A separate regularisation parameter for the function: weights d are those of `alpha`, coefficients those of
        ridge regression with K(d) at `relax`. "auto" chooses it together with `alpha` on the same folds, among nine
        shares from 1 to 1e-4 of it, at about twice the cost.
    max_iter
        Limit per regularisation parameter; default 200 (newton) or 50000 (alternating).
    max_time
        Seconds for every solution, or path of solutions of one fold. What was reached is used, and its gap is reported.
    solver
        Active-set Newton on Problem 6, or the paper's Algorithm 1.
    delta
        Residual rule of ``solver="alternating"``.
    shared_weights
        For several regression outputs: one set of weights for all, or a problem for each, at one alpha. `targets` of
        the estimator says which, and chooses weights and alpha of each; False here is for problems at one alpha.
    n_alphas
        Regularisation parameters tried by "auto".
    n_folds
        Folds of "auto".
    n_jobs
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

    name = "rls2"
    question = "sources"
    bayesian = True
    begins = True
    _shares = RELAX_SHARES

    alpha: Annotated[float | str, OneOf("auto") | Number(above=0, infinite=True)] = "auto"
    relax: Relax = None
    max_iter: MaxIter = None
    solver: Annotated[str, OneOf(*SOLVERS)] = "newton"
    delta: Delta = 1e-2
    shared_weights: Annotated[bool, Flag(), Shown(setting=None)] = True
    n_alphas: Annotated[int, Whole(1), Shown(setting=None)] = 30
    n_folds: Annotated[int, Whole(2), Shown(setting=None)] = 5
    n_jobs: Annotated[int | None, Whole(1) | Whole(None, -1) | None, Shown(setting=None)] = None

    @property
    def on_features(self) -> bool:
        """Whether it solves on explicit features: Newton does."""
        return self.solver == "newton"

    def requested(self) -> float | None:
        return None if "auto" in (self.alpha, self.relax) else float(self.alpha)

    def given_alphas(self) -> Array | None:
        return None if self.alpha == "auto" else np.array([float(self.alpha)])

    def relax_grid(self, alphas: Array) -> Array | None:
        return alphas[:, None] * self._shares if self.relax == "auto" else None

    def relaxed_near(self, share: float, few: bool = False) -> RLS2:
        near = copy(self)
        near._shares = share * (NEAR[:FEW] if few else NEAR)
        return near

    def problem(self, kernels: Gram | FeatureStack, y: Array) -> Problem:
        """Least squares on the simplex with ``C = 1 / alpha``.

        Parameters
        ----------
        kernels : Gram or FeatureStack
            Kernels of the training rows.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets; for classification -1 and 1.

        Raises
        ------
        InputError
            The learner has no finite `alpha`.
        """
        alpha = self.requested()
        if alpha is None or not math.isfinite(alpha):
            raise InputError(f"The problem of RLS2 needs a finite alpha, got {self.alpha!r}. Give a number.")
        return Problem(kernels, y, C=1.0 / alpha)

    def path(
        self,
        training: TrainingSet,
        alphas: Array,
        *,
        tol: float | None = None,
        callback: Callable[[int, Solution], object] | None = None,
    ) -> Path[Solution]:
        kernels: Gram | FeatureStack = training.gram
        # features that were prepared and are fewer than the rows
        if isinstance(kernels, FeatureGram) and self.on_features and kernels.ranks.sum() <= kernels.n_samples:
            kernels = kernels.stack()
        # alpha is that of the path
        stated = Problem(kernels, training.y, sample_weight=training.sample_weight, scale=training.scale)
        with allowed(seconds=self.max_time):
            return along_alphas(
                cast(RidgeForm, stated.form),
                check_alphas(alphas),
                single=stated.single,
                kind=kind_of(kernels),
                tol=self.tol if tol is None else tol,
                solver=self.solver,
                shared_weights=self.shared_weights,
                max_iter=self.max_iter,
                delta=self.delta,
                relax=self.relax_grid(alphas) if self.relax == "auto" else self.relax,
                weights0=training.start,
                on_solution=callback,
            )
