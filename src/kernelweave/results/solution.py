"""Solutions: weights, coefficients and a certificate."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError
from kernelweave._devices import Kind, hosted
from kernelweave._docstrings import inherits_attributes
from kernelweave._forms import ShortRepr
from kernelweave._types import Array
from kernelweave.judge import FORMATS, SETS, digest, seal
from kernelweave.results.certificate import Certificate, Status, relative_gap


class Verifier(Protocol):
    """A problem that can compute the certificate of any weights and coefficients."""

    def certify(self, solution: Solution) -> Certificate:
        """The certificate of the numbers of a solution, independent of the reported one.

        Parameters
        ----------
        solution : Solution
            Weights and coefficients. Its certificate is not used.
        """


@dataclass(frozen=True)
class Statement:
    """A convex problem in numbers, as an exported certificate states it.

    Attributes
    ----------
    loss : str
        The name of the loss, such as "hinge"; empty for the alignment, which has none.
    C : float
        Weight of the loss.
    sample_weight : array of shape (n_samples,)
        Factor of the loss of each row, 1 for equal rows.
    scale : array of shape (n_kernels,)
        Factor of each kernel before it is weighted.
    regularization : float
        Factor of the squared norm.
    weight_set : str
        The class of the set of weights, such as "Simplex".
    set_value : float or None
        Parameter of the set.
    intercept : bool
        Whether decision values have a constant term that is not penalised.
    parameters : dict
        Those of the loss, by name.
    ball : array of shape (n_samples,)
        Coefficients of the centre of an enclosing ball, if its radius divides the kernels; else empty.
    criterion : {"machine", "alignment", "margins"}
        What is minimised: that of a machine; the alignment, which is maximised; or EasyMKL's, whose lam is `set_value`.
    """

    loss: str
    C: float
    sample_weight: Array
    scale: Array
    regularization: float = 1.0
    weight_set: str = "Simplex"
    set_value: float | None = None
    intercept: bool = True
    parameters: Mapping[str, float | str] = field(default_factory=dict)
    ball: Array = field(default_factory=lambda: np.empty(0))
    criterion: str = "machine"


class Stated(Verifier, Protocol):
    """A convex problem that can be stated in numbers."""

    def statement(self, solution: Solution) -> Statement:
        """The problem that a solution belongs to."""


S = TypeVar("S", bound="Solution")

#: Arrays that are of the library of the kernels or features.
GIVEN = ("weights", "dual_coef", "feature_coef")


@dataclass(frozen=True, repr=False, eq=False)
class Solution(ShortRepr):
    """Weights of kernels and the machine on their sum, with a certificate.

    `weights`, `dual_coef` and `feature_coef` are arrays of the library of the kernels or features, on their device if
    it has float64: tensors for tensors. Everything else is plain numbers and NumPy arrays.

    Attributes
    ----------
    weights : array of shape (n_kernels,) or (n_outputs, n_kernels)
        Kernel weights d. Two-dimensional if every output has its own.
    dual_coef : array of shape (n_samples,) or (n_samples, n_outputs)
        Coefficients, signed: ``f = K(weights) @ dual_coef + intercept``. Empty if weights are found without a machine,
        and for statistics, which do not hold the rows.
    intercept : float or array of shape (n_outputs,)
        The constant term of the decision values; 0 for problems without one.
    certificate : Certificate
        Of weights and machine together if the problem is convex in the weights; otherwise of the machine at these
        weights.
    n_iter : int
        Outer iterations: factorisations, steps of the weights, rounds.
    trace : mapping of str to array
        ``objective``, ``rel_gap`` (without rounding errors) and ``n_active`` after every iteration, and further
        records of the solver.
    alpha : float
        The regularisation parameter; 1 / C for machines with a C along a path, NaN without one.
    n_machines : int
        Number of machines that were solved.
    proof : array of shape (n_bounds, n_samples)
        Coefficients whose bound is `dual`, if they differ from `dual_coef`; else empty. For statistics those of the
        rows of the Cholesky factor, one row for each output.
    feature_coef : array of shape (n_features,) or (n_features, n_outputs)
        For kernels given as features Z: ``f = Z @ feature_coef + intercept``; else empty.
    """

    weights: Array
    dual_coef: Array
    intercept: float | Array
    certificate: Certificate
    n_iter: int
    trace: Mapping[str, Array] = field(default_factory=dict, repr=False, compare=False)
    alpha: float = math.nan
    n_machines: int = 0
    proof: Array = field(default_factory=partial(np.empty, (0, 0)), repr=False, compare=False)
    feature_coef: Array = field(default_factory=partial(np.empty, 0), repr=False)

    @property
    def primal(self) -> float:
        """Upper bound of the optimal value: the value of this solution."""
        return self.certificate.primal

    @property
    def dual(self) -> float:
        """Lower bound of the optimal value."""
        return self.certificate.dual

    @property
    def gap(self) -> float:
        """``primal - dual`` >= 0, rounding errors included."""
        return self.certificate.gap

    @property
    def rel_gap(self) -> float:
        """``gap / |primal|``."""
        return self.certificate.rel_gap

    @property
    def own_gap(self) -> float:
        """The gap without the rounding errors."""
        return self.certificate.own_gap

    @property
    def rounding(self) -> float:
        """The part of `gap` that bounds rounding errors, to first order."""
        return self.certificate.rounding

    @property
    def status(self) -> Status:
        """How the solver ended."""
        return self.certificate.status

    @property
    def stationarity(self) -> float | Array | None:
        """Distance of the weights from a stationary point, if the criterion is not convex; else None."""
        return self.certificate.stationarity

    @property
    def history(self) -> Mapping[str, Array]:
        """The name of `trace` in 0.1."""
        return self.trace

    def verify(self, problem: Verifier) -> Certificate:
        """Compute the certificate again from the numbers of this solution.

        Parameters
        ----------
        problem : object with a method ``certify(solution)``
            The problem that was solved, made by a function of `kernelweave.problems`.

        Returns
        -------
        Certificate
            Its status is that of the solution if primal value and gap are those that were reported, up to their
            rounding errors, and ``REFUTED`` otherwise.
        """
        return self.certificate.checked_by(problem.certify(self.on_host()))

    def export_certificate(self, path: str | os.PathLike[str], problem: Stated, **data: ArrayLike) -> None:
        """Write what somebody needs who does not trust kernelweave: ``python judge.py fit.kwcert data.npz``.

        The file `kernelweave/judge.py` imports nothing of kernelweave. It evaluates the objective and the lower bound
        in exact rational numbers up to 100 rows, and in extended precision with bounds of all rounding errors above.

        Parameters
        ----------
        path : path-like
            The file to write, as JSON.
        problem : problem of `kernelweave.problems`
            The problem that was solved: a machine, a machine or least squares on a convex set of weights, RKL, AlignF
            or EasyMKL.
        **data : arrays
            What the problem was made of: ``y``, and ``kernels`` of shape (n_samples, n_samples, n_kernels) or
            ``features`` and ``groups``. Their hashes are written, and not the arrays: `numpy.savez` keeps these.

        Raises
        ------
        InputError
            No `y` or kernels, weights for each output, or a problem that is not convex.

        Examples
        --------
        >>> import numpy as np, kernelweave as kw, tempfile, pathlib
        >>> X = np.random.default_rng(0).normal(size=(40, 4))
        >>> gram, y = X[:, None, :] * X[None, :, :], np.sign(X[:, 0] - X[:, 2])
        >>> problem = kw.problems.margin_problem(gram, y, C=1.0)
        >>> found, folder = kw.solve_svm_mkl(gram, y, C=1.0), pathlib.Path(tempfile.mkdtemp())
        >>> found.export_certificate(folder / "fit.kwcert", problem, kernels=gram, y=y)
        >>> np.savez(folder / "data.npz", kernels=gram, y=y)
        """
        host = self.on_host()
        if "y" not in data or not ({"kernels"} <= set(data) or {"features", "groups"} <= set(data)):
            raise InputError(
                f"`y`, and `kernels` or `features` and `groups` are needed, got {', '.join(data) or 'nothing'}."
            )
        stated = problem.statement(host) if hasattr(problem, "statement") and host.weights.ndim == 1 else None
        if stated is None or (stated.criterion != "alignment" and not host.dual_coef.size):
            raise InputError(
                "A certificate can be exported of one convex problem with coefficients of rows, got "
                f"{type(problem).__name__} and weights of shape {host.weights.shape}. Export one for each output."
            )
        if stated.criterion != "alignment" and stated.weight_set not in SETS:
            raise InputError(
                f"A certificate can be exported for weights in {', '.join(SETS)}, got {stated.weight_set}: "
                "others have no judge. `verify` works for each."
            )
        radius = float(getattr(host, "radius2", math.nan))
        content = {
            "format": FORMATS[-1],
            "problem": {
                "loss": stated.loss,
                "epsilon": 0.0,
                **stated.parameters,
                "C": stated.C,
                "sample_weight": stated.sample_weight.tolist(),
                "scale": stated.scale.tolist(),
                "regularization": stated.regularization,
                "set": stated.weight_set,
                "set_value": stated.set_value,
                "intercept": stated.intercept,
                "criterion": stated.criterion,
            },
            "fit": {
                "weights": host.weights.tolist(),
                "dual_coef": host.dual_coef.reshape(
                    len(host.dual_coef), math.prod(host.dual_coef.shape[1:])
                ).T.tolist(),
                "intercept": np.broadcast_to(host.intercept, host.dual_coef.shape[1:] or 1).ravel().tolist(),
                "proof": host.proof.tolist(),
                "feature_coef": host.feature_coef.reshape(len(host.feature_coef), -1).T.tolist()
                if host.feature_coef.size
                else [],
                "ball": stated.ball.tolist(),
                "radius2": radius if stated.ball.size else 1.0,
            },
            "claim": {
                "primal": -self.primal if stated.criterion == "alignment" else self.primal,
                "gap": self.gap,
                "rounding": self.rounding,
                "status": self.status.name,
            },
            "hashes": {name: digest(values) for name, values in data.items()},
        }
        text = json.dumps(content | {"seal": seal(content)}, indent=1)
        Path(path).write_text(text, encoding="utf8")

    def of_kind(self: S, kind: Kind | None) -> S:
        """The solution with arrays of another library; itself for None.

        Parameters
        ----------
        kind : Kind or None
            The library and the device of the arrays.
        """
        if kind is None:
            return self
        return replace(self, **{name: kind.give_back(getattr(self, name)) for name in GIVEN})

    def on_host(self: S) -> S:
        """The solution with NumPy arrays."""
        return replace(self, **{name: hosted(getattr(self, name)) for name in GIVEN})

    def ended(self: S, status: Status) -> S:
        """The solution with another status.

        Parameters
        ----------
        status : Status
            The status.
        """
        return replace(self, certificate=replace(self.certificate, status=status))

    def extended(self, kind: type[S], **more: object) -> S:
        """The solution as an object of a subclass with further fields.

        Parameters
        ----------
        kind : type
            A subclass of `Solution`.
        **more : dict
            Values of the fields that the subclass has, and of others to replace.
        """
        return kind(**{f.name: getattr(self, f.name) for f in fields(Solution)} | more)


@inherits_attributes
@dataclass(frozen=True, repr=False, eq=False)
class MachineSolution(Solution):
    """A machine on one kernel.

    Its ``weights`` are the single 1, ``n_iter`` counts SMO steps plus Newton systems. The gap requires a positive
    semidefinite kernel. The intercept is the best one for the coefficients; if it is not unique, the middle one.

    Attributes
    ----------
    infeasibility : float
        Largest violation of a constraint of the dual problem: the box, and the sum of the coefficients.
    """

    intercept: float
    infeasibility: float = 0.0

    @cached_property
    def support(self) -> NDArray[np.int64]:
        """Rows with a nonzero coefficient."""
        return np.flatnonzero(self.dual_coef)


@inherits_attributes
@dataclass(frozen=True, repr=False, eq=False)
class Ball(MachineSolution):
    """The minimum enclosing ball of the rows in the feature space of one kernel.

    `dual_coef` are the coefficients of the centre, nonnegative with sum 1: ``center = sum_i dual_coef[i] phi(x_i)``.
    `primal` is the squared radius of the ball around this centre that contains all rows.

    Attributes
    ----------
    radius2 : float
        Squared radius r^2, the dual value ``b'diag(K) - b'Kb``. It converges twice as fast as `primal`, and its
        derivative in K at fixed b is exact.
    center_norm2 : float
        ``b'Kb``: a point lies at the squared distance ``k(x, x) - 2 k(x, X) @ dual_coef + center_norm2``.
    """

    radius2: float = math.nan
    center_norm2: float = math.nan


@inherits_attributes
@dataclass(frozen=True, repr=False, eq=False)
class RadiusSolution(Solution):
    """A kernel learnt by margin and radius.

    A `proof` holds two rows, both for a kernel of radius 1: coefficients of the machine, and of a ball.

    Of RKL, the method of Do et al. and the margin on sums of kernels the gap certifies weights and machine together.
    Otherwise it is that of the machine at these weights, and `stationarity` measures the distance of the weights from a
    stationary point.

    Attributes
    ----------
    value : float
        The criterion.
    radius2 : float
        Squared radius of the minimum enclosing ball of the learnt kernel; NaN where the criterion uses none.
    """

    value: float = math.nan
    radius2: float = math.nan

    @property
    def stationarity(self) -> float:
        """Decrease predicted by the linear model of the criterion over the simplex, as a share of `value`."""
        found = self.certificate.stationarity
        return math.nan if found is None else found


@inherits_attributes
@dataclass(frozen=True, repr=False, eq=False)
class AlignmentSolution(Solution):
    """Weights from the alignment of kernels with the targets, nonnegative with sum 1.

    `primal` is the alignment of the combination ``sum_m weights[m] s_m K_m``, and no combination has more than `dual`.
    For weights proportional to each kernel's own alignment both are NaN, as is the gap, because these
    weights do not solve an optimisation problem.

    Attributes
    ----------
    alignments : array of shape (n_kernels,)
        Centred alignment of each kernel with the targets, from 0 to 1; 0 for constant kernels.
    """

    alignments: Array = field(kw_only=True)

    @property
    def alignment(self) -> float:
        """Alignment of the combination."""
        return self.certificate.primal


@inherits_attributes
@dataclass(frozen=True, repr=False, eq=False)
class RelaxedSolution(Solution):
    """RLS2 with weights of one regularisation parameter and the coefficients of others.

    `weights` and the certificate are those of RLS2 at `alpha`. `dual_coef` is that of ridge
    regression at the regularisation parameters `relax`; with several it has their axis first, and the fields below are
    arrays.

    Attributes
    ----------
    relax : float or array of shape (n_relax,)
        Regularisation parameter of the ridge.
    ridge_primal : float or array of shape (n_relax,)
        ``1/2 ||y - K(d) c||^2 + relax/2 c'K(d)c`` at these weights, summed over outputs.
    ridge_gap : float or array of shape (n_relax,)
        An upper bound of the distance of `ridge_primal` from its minimum at these weights, rounding included.
    ridge_log_det : float or array of shape (n_relax,)
        ``log det(K(d) + relax N)``, summed over groups of outputs with weights of their own; NaN where the solution
        took no factor of this matrix.
    """

    relax: float | Array = math.nan
    ridge_primal: float | Array = math.nan
    ridge_gap: float | Array = math.nan
    ridge_log_det: float | Array = math.nan

    @property
    def ridge_rel_gap(self) -> float:
        """``ridge_gap / ridge_primal``, of a single regularisation parameter."""
        return relative_gap(float(self.ridge_primal), float(self.ridge_gap))

    def at(self, which: int) -> Self:
        """The solution at one of several regularisation parameters of the ridge.

        Parameters
        ----------
        which : int
            Position among the values of `relax`.
        """
        names = ("relax", "ridge_primal", "ridge_gap")
        relax, primal, gap = (np.asarray(getattr(self, name))[which] for name in names)
        logs = self.ridge_log_det
        intercept = self.intercept
        if 1 <= np.ndim(intercept) == self.feature_coef.ndim - 1:
            # centred statistics have one for each of them
            intercept = np.asarray(intercept)[which]
            intercept = float(intercept) if np.ndim(intercept) == 0 else intercept
        return replace(
            self,
            intercept=intercept,
            dual_coef=_one_of(self.dual_coef, which),
            relax=float(relax),
            ridge_primal=float(primal),
            ridge_gap=float(gap),
            ridge_log_det=float(logs[which] if isinstance(logs, np.ndarray) else logs),
            feature_coef=_one_of(self.feature_coef, which),
        )


def _one_of(coef: Array, which: int) -> Array:
    """A part of coefficients, of any library, or none."""
    return coef[which] if math.prod(coef.shape) else coef


@dataclass(eq=False)
class WarmStart:
    """A warm start: the weights and coefficients of a similar problem.

    Attributes
    ----------
    weights : array of shape (n_kernels,) or None
        Kernel weights from which the first step starts; None for the usual ones.
    dual_coef : array of shape (n_samples,) or None
        Signed coefficients of the machine. Neither need be feasible.
    feature_coef : array of shape (n_features,) or None
        For features, with the `intercept`; taken before those of the machine.
    intercept : float
        The constant term that belongs to `feature_coef`.
    """

    weights: Array | None = None
    dual_coef: Array | None = None
    feature_coef: Array | None = None
    intercept: float = 0.0
