"""One problem for all kernels, losses and sets of weights, as a value; `kernelweave.mkl.solve.solve` solves it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import (
    InputError,
    as_floats,
    check_positive,
    check_scale,
    need_targets,
)
from kernelweave._parameters import ReadableSignature
from kernelweave.gram import BlockStatistics, ChunkedFeatures, FeatureStack, Gram, KernelStream, as_gram
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import as_loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.features.problem import FeatureProblem, make_feature_problem
from kernelweave.mkl.kernel_problem import KernelProblem
from kernelweave.mkl.ridge_problem import RidgeProblem
from kernelweave.mkl.ridge_problem import make_problem as make_ridge_problem
from kernelweave.mkl.weight_sets import Simplex, WeightSet, as_weight_set
from kernelweave.results import Certificate, Solution, Statement

#: Kernels in any form: each knows products and quadratic forms of all kernels, and how to add them up.
Operator: TypeAlias = Gram | FeatureStack | ChunkedFeatures | BlockStatistics | KernelStream | ArrayLike
RidgeForm: TypeAlias = RidgeProblem | FeatureProblem
MarginForm: TypeAlias = KernelProblem | FeatureProblem


@dataclass(frozen=True, eq=False)
class Problem:
    """Learning kernel weights d in a convex set together with a function f of the kernel ``sum_m d_m s_m K_m``.

    Minimises over d and f = <w, phi_d(x)> + intercept

        1/2 ||w||^2 + C sum_i sample_weight_i loss(y_i, f_i) .

    With `Squared` on the simplex this is RLS2 with ``alpha = 1 / C``, its objective divided by alpha.

    Parameters
    ----------
    kernels : array of shape (n_samples, n_samples, n_kernels), Gram, FeatureStack, KernelStream, BlockStatistics or \
RowFeatures
        Symmetric PSD matrices, kernels last; or features in blocks; or kernels that are made when needed; or sums over
        rows of features and targets; or rows of features that are read in chunks. Not modified. The third and fourth
        are for `Squared` on the simplex.
    y : array of shape (n_samples,) or (n_samples, n_outputs)
        Labels -1 and 1, or targets. None for `RowFeatures` and `BlockStatistics`, which have them. Several outputs,
        which share their weights, are for `Squared` on the simplex without an intercept.
    loss : Loss or str, default="squared"
        A loss of `kernelweave.losses`, which lists all, or its name: "hinge" for labels, "squared" for numbers.
    weights : WeightSet or str, default="simplex"
        The set in which the weights of the kernels lie, from `kernelweave.weight_sets`. "simplex": they are at least 0
        and sum to 1.
    C : float, default=1.0
        Weight of the loss > 0, a sum over samples.
    sample_weight : array of shape (n_samples,), optional
        A weight is equivalent to a repetition; rows of weight 0 are ignored.
    scale : array of shape (n_kernels,), optional
        Factors s_m > 0. Default: 1.
    fit_intercept : bool, optional
        Whether f has an intercept, which is not penalised. Default: that of the loss, False for `Squared`.

    Attributes
    ----------
    form : object
        The problem as solvers see it, on the kernels in the form that was given.

    Raises
    ------
    InputError
        Wrong shapes, NaN, asymmetric matrices, C <= 0, targets that the loss does not allow, a combination that is not
        possible.

    Notes
    -----
    Making it costs one pass over the kernels, which checks them; it holds them as they are given, without a copy
    where their form allows it. See `solve` for the cost of its solution, and for references.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> gram, y = X[:, None, :] * X[None, :, :], np.sign(X[:, 0] - X[:, 2])
    >>> problem = kw.Problem(gram, y, loss=kw.losses.Logistic(), weights=kw.weight_sets.Simplex(), C=1.0)
    >>> solution = kw.solve(problem, tol=1e-6)
    >>> bool(problem.certify(solution).rel_gap <= 1e-6)
    True
    """

    __signature__ = ReadableSignature()

    kernels: Operator
    y: ArrayLike | None = None
    loss: Loss | str = "squared"
    weights: WeightSet | str = "simplex"
    C: float = 1.0
    sample_weight: ArrayLike | None = None
    scale: ArrayLike | None = None
    fit_intercept: bool | None = None
    form: RidgeForm | MarginForm = field(init=False, repr=False)
    #: Whether y had one dimension.
    single: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        kernels, loss = self.kernels, as_loss(self.loss)
        weights = as_weight_set(
            self.weights, getattr(kernels, "n_kernels", None) or (np.shape(cast("Any", kernels)) or (1,))[-1]
        )
        intercept = loss.fits_intercept if self.fit_intercept is None else bool(self.fit_intercept)
        # it is frozen
        own = vars(self)
        own.update(loss=loss, weights=weights, C=check_positive(self.C, "C"), fit_intercept=intercept)
        squares = loss.squares and isinstance(weights, Simplex)
        more: dict[str, Any] = {
            "sample_weight": self.sample_weight,
            "scale": self.scale,
            "fit_intercept": intercept,
        }
        form: RidgeForm | MarginForm
        if isinstance(kernels, BlockStatistics) or (
            squares and not intercept and not isinstance(kernels, ChunkedFeatures)
        ):
            if not squares:
                raise InputError(
                    f"`BlockStatistics` are for Squared() on the simplex, got {loss!r} and {weights!r}: other "
                    "losses and sets need the rows. Pass FeatureStack or RowFeatures."
                )
            form, own["single"] = make_ridge_form(kernels, self.y, **more)
        elif isinstance(kernels, FeatureStack | ChunkedFeatures):
            given = self.y if isinstance(kernels, ChunkedFeatures) else need_targets(self.y)
            form, _ = make_feature_problem(kernels, given, loss=loss, weights=weights, C=self.C, **more)
        else:
            stack, y = as_gram(cast(ArrayLike, kernels)), as_floats(need_targets(self.y), "y")
            if y.shape != (stack.n_samples,):
                raise InputError(
                    f"`y` must have one entry per row of the kernels, shape ({stack.n_samples},), got {y.shape}."
                )
            factors = check_scale(self.scale, stack.n_kernels)
            counts = None if self.sample_weight is None else as_floats(self.sample_weight, "sample_weight")
            machine = Machine(y, self.C, loss, counts, fit_intercept=intercept)
            machine = replace(machine, y=loss.check(y, machine.costs))
            form = KernelProblem(stack, machine, factors, weights)
        own["form"] = form

    @property
    def certifies_itself(self) -> bool:
        """Whether the certificates of its solutions are its own already."""
        return bool(getattr(self.form, "certifies_itself", False))

    def certify(self, solution: Solution) -> Certificate:
        """Both bounds of the optimal value, from the numbers of a solution alone, over all kernels.

        Parameters
        ----------
        solution : Solution
            With the weights, coefficients and intercept of a solution, or any others.

        Returns
        -------
        Certificate
        """
        host = solution.on_host()
        if not self.form.least_squares:
            return self.form.certify(host)
        return self.form.certify(replace(host, alpha=1.0 / self.C)).times(self.C)

    def statement(self, solution: Solution) -> Statement:
        """The problem in numbers, for an exported certificate.

        Parameters
        ----------
        solution : Solution
            A solution of this problem, whose regularisation parameter is stated for least squares.
        """
        stated = self.form.statement(solution)
        return replace(stated, C=self.C, regularization=1.0) if self.form.least_squares else stated


def make_ridge_form(
    kernels: Operator,
    y: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    *,
    fit_intercept: bool = False,
) -> tuple[RidgeForm, bool]:
    """Least squares on the simplex on kernels, features, streams or statistics, and whether y had one dimension."""
    if isinstance(kernels, BlockStatistics):
        return make_feature_problem(kernels, y, sample_weight, scale, fit_intercept=fit_intercept)
    if fit_intercept:
        raise InputError(
            "`fit_intercept` must be False for kernels and features, got True. Centre the columns of features and the "
            "targets beforehand; statistics do it themselves."
        )
    if y is None:
        raise InputError("`y` must be an array of targets, got None. Only statistics include them.")
    if isinstance(kernels, FeatureStack | KernelStream):
        return make_feature_problem(kernels, y, sample_weight, scale)
    return make_ridge_problem(cast(ArrayLike, kernels), y, sample_weight, scale)
