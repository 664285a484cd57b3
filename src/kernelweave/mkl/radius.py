"""Kernels learnt by margin and radius: one function for RKL, KL-C and the method of Do et al."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import (
    InputError,
    RowWeights,
    Scale,
    Targets,
    check_scale,
)
from kernelweave._parameters import Cost, Function, MaxIter, MaxTime, Nonnegative, OneOf, Tol, checked
from kernelweave._threads import blas_threads_for
from kernelweave.gram import Gram, as_gram
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import GivenLoss, SquaredHinge, as_loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.certify import certify_radius
from kernelweave.mkl.criteria.gaussians import GaussianOfSum, Gaussians
from kernelweave.mkl.criteria.radius import (
    Family,
    RadiusMargin,
    Stationarity,
    WeightedSum,
    on_parameters,
    on_simplex,
    on_sphere,
    radii_of,
)
from kernelweave.mkl.do_radius import DoProblem
from kernelweave.mkl.families import KernelFamily
from kernelweave.mkl.kernel_problem import KernelProblem, Session
from kernelweave.mkl.loop import Callback, minimise
from kernelweave.mkl.steps.descent import DescentSession, ProjectedGradient
from kernelweave.mkl.steps.newton import Newton
from kernelweave.mkl.steps.rkl import RKLSession, turns
from kernelweave.mkl.weight_sets import Orthant, Parameters, Region, Simplex, Sphere
from kernelweave.results import Certificate, RadiusSolution, WarmStart, relative_gap

Array = NDArray[np.float64]

#: Steps.
MOST = 200
#: Families with parameters instead of weights.
FAMILIES = (Gaussians, GaussianOfSum, KernelFamily)
STEPS = ("auto", "newton", "spectral", "armijo")


@dataclass(frozen=True)
class _Place:
    """The set of weights or parameters, their measure of stationarity, and whether each has its own unit."""

    region: Region
    stationarity: Stationarity
    units: bool = False


NORMS: dict[int | None, _Place] = {
    1: _Place(Simplex(), on_simplex),
    2: _Place(Sphere(), on_sphere),
    None: _Place(Orthant(), on_simplex),
}
PARAMETERS = _Place(Parameters(), on_parameters, units=True)


@dataclass(frozen=True)
class _Asked:
    """Arguments of a solver with a global certificate."""

    family: WeightedSum
    machine: Machine
    start: Array | None
    norm: int | None
    tol: float
    max_iter: int
    callback: Callback | None


def _do_by_newton(asked: _Asked) -> RadiusSolution:
    family, machine = asked.family, asked.machine
    plain = KernelProblem(family.gram, machine, family.scale, Simplex())
    radii = radii_of(plain.combine, plain.n_kernels, max(1e-2 * asked.tol, 1e-10))
    problem = DoProblem(plain.gram, machine, plain.scale, plain.weight_set, radii)
    session = Session(problem, asked.tol, WarmStart(asked.start))
    most = asked.max_iter
    found = minimise(session, [Newton()], max_iter=most, callback=asked.callback, limited=most <= MOST)
    return found.extended(
        RadiusSolution,
        certificate=replace(found.certificate, stationarity=relative_gap(found.primal, found.own_gap)),
        value=found.primal - found.own_gap,
        radius2=float(found.weights @ radii),
    )


def _rkl_by_newton(asked: _Asked) -> RadiusSolution:
    session = RKLSession(asked.family, asked.machine, asked.start, asked.norm, asked.tol)
    most = asked.max_iter
    found = minimise(session, turns(), max_iter=most, callback=asked.callback, limited=most <= MOST)
    assert isinstance(found, RadiusSolution)
    return found


@dataclass(frozen=True)
class _Kind:
    """Properties of a criterion.

    `norms` are its admissible sets of weights, `squared` means that it has the squared hinge only, `newton` solves it
    on sums of kernels, and `ridge` says whether also with a ridge.
    """

    norms: tuple[int | None, ...]
    squared: bool = False
    families: bool = True
    newton: Callable[[_Asked], RadiusSolution] | None = None
    ridge: bool = True

    def loss(self, kind: str, asked: Loss) -> Loss:
        """The loss of the machine."""
        if self.squared and not asked.classifies:
            raise InputError(
                f"kind={kind!r} is for classification; with loss={asked.name!r} use kind='rkl' or 'margin'."
            )
        return SquaredHinge() if self.squared else asked


#: Criteria by name.
ROWS = {
    "rkl": _Kind((1, 2, None), newton=_rkl_by_newton),
    "kl-c": _Kind((1, 2), squared=True),
    "kl-c-eq10": _Kind((1, 2), squared=True),
    # its balls and machines are computed kernel by kernel, without a ridge
    "do": _Kind((1,), squared=True, families=False, newton=_do_by_newton, ridge=False),
    "margin": _Kind((1,)),
}


@checked
def solve_radius(
    gram: Gram | ArrayLike | Family,
    y: Targets,
    C: Cost,
    kind: Annotated[str, OneOf(*ROWS)] = "rkl",
    norm: Annotated[int | None, OneOf(1, 2, None)] = 1,
    *,
    loss: GivenLoss = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
    ridge: Nonnegative = 0.0,
    tol: Tol = 1e-4,
    step: Annotated[str, OneOf(*STEPS)] = "auto",
    max_iter: MaxIter = MOST,
    max_time: MaxTime = None,
    start: RowWeights = None,
    callback: Annotated[Callback | None, Function() | None] = None,
) -> RadiusSolution:
    """Learn a kernel by margin and radius.

    With r^2(t) the squared radius of the minimum enclosing ball and b the signed coefficients of the machine:

    - ``"rkl"``: ``g(t) = max_b dual_term(b) - b'K(t)b / (2 r^2(t))``, the machine on ``K(t) / r^2(t)``. It does not
      change when K(t) is multiplied, so the norm of the weights does not matter.
    - ``"kl-c"``: ``r^2 W^2 / 2`` with the squared hinge, both of ``K(t) + I / C`` (Chapelle et al. 2002).
    - ``"kl-c-eq10"``: the same with the radius of K(t) alone, as equation (10) of the paper prints it.
    - ``"do"``: the squared hinge with C divided by ``sum_m t_m r_m^2``, r_m the radius of each kernel (Do et al. 2009);
      on sums of kernels only.
    - ``"margin"``: the optimal value of the machine on K(t), without a radius: margin MKL on sums of kernels, and a
      criterion of the widths of Gaussians.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels), Gram or Family
        Kernels, kernels last; or a family of kernels whose parameters >= 0 are learnt: `Gaussians`, or a
        `KernelFamily`.
    y : array of shape (n_samples,)
        Labels -1 and 1, or targets for ``loss="epsilon-insensitive"`` ("rkl" and "margin" only).
    C : float
        Weight of the loss > 0.
    kind : {"rkl", "kl-c", "kl-c-eq10", "do", "margin"}, default="rkl"
        The criterion, as above.
    norm : {1, 2, None}, default=1
        Weights on the simplex, on the unit sphere, or only nonnegative ("rkl" only, whose value does not depend on
        the scale). Parameters of a family are always only nonnegative.
    loss : {"hinge", "squared-hinge", "epsilon-insensitive", "squared", "logistic"} or Loss, default="hinge"
        For "rkl" and "margin"; the others use the squared hinge.
    epsilon : float, default=0.1
        Half width of the tube of the epsilon-insensitive loss, in units of y.
    sample_weight : array of shape (n_samples,), optional
        Weights of the losses. A weight is equivalent to a repetition, but rows of weight 0 still
        affect the radius: leave them out.
    scale : array of shape (n_kernels,), optional
        Factors of the kernels. "rkl" gives the same kernel for all of them when the start is scaled alike.
    ridge : float, default=0.0
        Added to the diagonal of every kernel, as a share of its largest entry: makes coefficients unique, hence the
        criterion differentiable, if rows repeat. With it a weight is not exactly equivalent to a repetition.
    tol : float, default=1e-4
        Largest relative gap of "rkl", "do" and "margin" on sums of kernels. Otherwise: `stationarity` of the weights.
    step : {"auto", "newton", "spectral", "armijo"}, default="auto"
        "newton" is for "rkl" and "do" on sums of kernels, which are equivalent to convex problems. The others are
        projected gradients with Armijo's rule, the first step length guessed after Barzilai and Borwein, or the last
        one doubled. "auto": Newton where it applies, else "spectral"; with a ridge
        "do" takes "spectral" as well.
    max_iter : int, default=200
        Largest number of steps.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    start : array of shape (n_parameters,), optional
        Default: equal weights; for Gaussians a mean exponent of 1, for a `KernelFamily` its own.
    callback : callable, optional
        ``callback(iteration, value, stationarity)``; a true value stops.

    Returns
    -------
    RadiusSolution
        ``f = K(weights) @ dual_coef + intercept``. Of "rkl", "do" and "margin" on sums of kernels ``gap`` bounds the
        distance from the optimum over weights and machine, with every step and status. Otherwise the solution is
        local, and ``gap`` is that of the machine.

    Raises
    ------
    InputError
        Wrong shapes, NaN, one class, unknown names, kernels whose rows all coincide.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    A step costs about one machine and one ball, both started from the last, and a pass over all kernels for the
    gradient, O(n_kernels n_samples^2).

    References
    ----------
    K. Gai, G. Chen, C. Zhang, Learning kernels with radiuses of minimum enclosing balls, NIPS 2010: (9), (10), (15) to
    (17), (21), (22); (17) with K_ii where the paper prints K_ij. O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee,
    Choosing multiple parameters for support vector machines, Machine Learning 46 (2002). H. Do, A. Kalousis, A.
    Woznica, M. Hilario, Margin and radius based multiple kernel learning, ECML PKDD 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_rkl
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> gram = X[:, None, :] * X[None, :, :]
    >>> result = solve_rkl(gram, np.sign(X[:, 0] + 0.1), C=10.0)
    >>> int(np.argmax(result.weights)), result.stationarity <= 1e-4
    (0, True)
    """
    family: Family
    if isinstance(gram, FAMILIES):
        family = gram
        _check_family(kind, unused={"scale": scale is None, "ridge": ridge == 0, "norm": norm != 2})
    else:
        stack = as_gram(gram)  # type: ignore[arg-type]
        family = WeightedSum(stack, check_scale(scale, stack.n_kernels), ridge)
    targets = np.asarray(y, dtype=np.float64)
    if targets.shape != (family.n_samples,):
        raise InputError(
            f"`y` must have one entry per row of the kernels ({family.n_samples}), got {np.shape(y)}."
        )
    own = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    machine = Machine(targets, C, as_loss(loss, epsilon), own)
    return solve_radius_problem(
        family,
        machine,
        kind,
        norm,
        tol=tol,
        step=step,
        max_iter=max_iter or MOST,
        start=start,
        callback=callback,
    )


def solve_radius_problem(
    family: Family,
    machine: Machine,
    kind: str,
    norm: int | None = 1,
    *,
    tol: float,
    step: str = "auto",
    max_iter: int = MOST,
    start: ArrayLike | None = None,
    callback: Callback | None = None,
) -> RadiusSolution:
    """`solve_radius` on a family of kernels and a machine; criteria with the squared hinge allow no other loss."""
    row = ROWS[kind]
    place = PARAMETERS
    ridge = 0.0
    if isinstance(family, WeightedSum):
        ridge = family.ridge
        if norm not in row.norms:
            raise InputError(
                f"kind={kind!r} needs norm={' or '.join(map(str, row.norms))}: its value depends on the scale of the "
                f"weights. Got {norm!r}."
            )
        place = NORMS[norm]
    machine = replace(machine, loss=row.loss(kind, machine.loss))
    first = _first(family, machine.sample_weight) if start is None else np.array(start, dtype=float)
    if first.shape != (family.n_parameters,) or not (first >= 0).all() or not first.any():
        raise InputError(f"`start` must hold {family.n_parameters} nonnegative numbers, not all zero.")
    newton = row.newton if isinstance(family, WeightedSum) and (row.ridge or ridge == 0) else None
    if step == "newton" and row.newton is not None and not row.ridge and ridge > 0:
        raise InputError(
            f"`ridge` needs step='spectral' or 'armijo' with kind={kind!r}, got ridge={ridge:g}."
        )
    if step == "newton" and newton is None:
        raise InputError(
            f"step='newton' is for kind='rkl' and kind='do' on sums of kernels, got kind={kind!r}. Use 'spectral'."
        )
    with blas_threads_for(family.n_samples):
        if newton is not None and step in ("auto", "newton"):
            assert isinstance(family, WeightedSum)
            begin = None if start is None else first
            found = newton(_Asked(family, machine, begin, norm, tol, max_iter, callback))
        else:
            criterion = RadiusMargin(family, machine, kind)
            session = DescentSession(criterion, first, place.region.scaled, place.stationarity, tol)
            steps = [ProjectedGradient(spectral=step != "armijo", scaled=place.units)]
            descended = minimise(session, steps, max_iter=max_iter, callback=callback)
            assert isinstance(descended, RadiusSolution)
            found = descended
        if (
            kind != "rkl"
            or not isinstance(family, WeightedSum)
            or ridge > 0.0
            or family.gram.residual_trace.any()
        ):
            return found
        return _recertified(family, machine, found, tol)


def _recertified(family: WeightedSum, machine: Machine, found: RadiusSolution, tol: float) -> RadiusSolution:
    """The solution with the certificate of its own numbers, over all kernels and with an accurate ball."""
    old = found.certificate
    new = certify_radius(family.gram, machine, family.scale, found)
    if not new.gap < math.inf:
        return found
    certificate = Certificate.of(
        old.kind, new.primal, new.own_gap, new.rounding, old.status, tol=tol, stationarity=old.stationarity
    )
    return replace(found, certificate=certificate)


def _first(family: Family, sample_weight: Array | None) -> Array:
    if isinstance(family, FAMILIES):
        return family.start(sample_weight)
    return np.full(family.n_parameters, 1.0 / family.n_parameters)


def _check_family(kind: str, unused: dict[str, bool]) -> None:
    """Raise for arguments that do not apply to the parameters of a family."""
    for name in (name for name, left_out in unused.items() if not left_out):
        raise InputError(
            f"`{name}` is for sums of kernels; the parameters of a family are only nonnegative. Leave it out."
        )
    if not ROWS[kind].families:
        raise InputError(
            f"kind={kind!r} is for sums of kernels: its radius is a sum of the radii of single kernels. Use kind='rkl'."
        )


@checked
def solve_rkl(
    gram: Gram | ArrayLike | Family,
    y: Targets,
    C: Cost,
    norm: Annotated[int | None, OneOf(1, 2, None)] = 1,
    **settings: object,
) -> RadiusSolution:
    """Learn kernel weights by RKL, margin over radius: `solve_radius` with ``kind="rkl"``.

    Parameters
    ----------
    gram : array of shape (n_samples, n_samples, n_kernels), Gram or Family
        Kernels, kernels last.
    y : array of shape (n_samples,)
        Labels -1 and 1.
    C : float
        Weight of the hinge loss on ``K / r^2``.
    norm : {1, 2, None}, default=1
        Constraint on the weights, which does not change the solution.
    **settings
        See `solve_radius`.

    Returns
    -------
    RadiusSolution
        On sums of kernels ``gap`` is global.

    Raises
    ------
    InputError
        Wrong shapes, NaN, one class, kernels whose rows all coincide.
    NotPSDError
        A matrix that cannot be a kernel.

    References
    ----------
    K. Gai, G. Chen, C. Zhang, Learning kernels with radiuses of minimum enclosing balls, NIPS 2010, (9) and (10).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_rkl
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> result = solve_rkl(X[:, None, :] * X[None, :, :], np.sign(X[:, 0] + 0.1), C=10.0, tol=1e-6)
    >>> result.rel_gap <= 1e-6, result.certificate.kind
    (True, 'joint')
    """
    return solve_radius(gram, y, C, "rkl", norm, **settings)  # type: ignore[arg-type]
