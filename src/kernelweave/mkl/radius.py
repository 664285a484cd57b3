"""Kernels learnt by margin and radius: one function for RKL, KL-C and the method of Do et al."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import (
    InputError,
    RowWeights,
    Scale,
    Targets,
    check_scale,
)
from kernelweave._parameters import (
    Cost,
    Function,
    MaxIter,
    MaxTime,
    Nonnegative,
    OneOf,
    Tol,
    checked,
    renamed,
)
from kernelweave._threads import blas_threads_for
from kernelweave._types import Array, Index
from kernelweave.gram import Gram, as_gram
from kernelweave.machines.losses import GivenLoss, SquaredHinge, as_loss
from kernelweave.machines.machine import Machine
from kernelweave.mkl.criteria.radius import (
    RadiusMargin,
    Stationarity,
    on_parameters,
    on_simplex,
    on_sphere,
    radii_of,
)
from kernelweave.mkl.families import Family, WeightedSum
from kernelweave.mkl.kernel_problem import KernelProblem, Session
from kernelweave.mkl.loop import Callback, minimise, most_work
from kernelweave.mkl.steps.descent import DescentSession, ProjectedGradient
from kernelweave.mkl.steps.newton import Newton
from kernelweave.mkl.steps.rkl import RadiusProblem, RKLSession, turns
from kernelweave.mkl.weight_sets import Orthant, Parameters, Region, Simplex, Sphere
from kernelweave.results import (
    Certificate,
    RadiusSolution,
    WarmStart,
    relative_gap,
)

#: Steps.
MOST = 200
STEPS = ("auto", "newton", "spectral", "armijo")
#: Criteria by name, with their sets of weights by the norm.
KINDS: dict[str, tuple[int | None, ...]] = {
    "rkl": (1, 2, None),
    "kl-c": (1, 2),
    "kl-c-eq10": (1, 2),
    "do": (1,),
    "margin": (1,),
}
#: Criteria that have the squared hinge only.
SQUARED = ("kl-c", "kl-c-eq10", "do")
#: Sets of weights, and their measures of stationarity.
NORMS: dict[int | None, tuple[Region, Stationarity]] = {
    1: (Simplex(), on_simplex),
    2: (Sphere(), on_sphere),
    None: (Orthant(), on_simplex),
}


@renamed(step="solver")
@checked
def solve_radius(
    gram: Gram | ArrayLike | Family,
    y: Targets,
    C: Cost,
    kind: Annotated[str, OneOf(*KINDS)] = "rkl",
    norm: Annotated[int | None, OneOf(1, 2, None)] = 1,
    *,
    loss: GivenLoss = "hinge",
    epsilon: Nonnegative = 0.1,
    sample_weight: RowWeights = None,
    scale: Scale = None,
    ridge: Nonnegative = 0.0,
    tol: Tol = 1e-4,
    solver: Annotated[str, OneOf(*STEPS)] = "auto",
    max_iter: MaxIter = None,
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
    loss : str or Loss, default="hinge"
        A loss of `kernelweave.losses`, which lists all, or its name: "hinge" for labels, "squared" for numbers.
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
    solver : {"auto", "newton", "spectral", "armijo"}, default="auto"
        "newton" is for "rkl" and "do" on sums of kernels, which are equivalent to convex problems. The others are
        projected gradients with Armijo's rule, the first step length guessed after Barzilai and Borwein, or the last
        one doubled. "auto": Newton where it applies, else "spectral"; with a ridge
        "do" takes "spectral" as well.
    max_iter : int, optional
        Largest number of steps; 200 by default.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    start : array of shape (n_parameters,), optional
        Default: equal weights; for Gaussians a mean exponent of 1, for a `KernelFamily` its own. Parameters outside
        their bounds start there.
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
    family = _family(gram, kind, norm, scale, ridge)
    if solver == "newton" and not _has_newton(family, kind):
        if kind == "do":
            raise InputError(
                f"`ridge` needs solver='spectral' or 'armijo' with kind={kind!r}, got ridge={ridge:g}."
            )
        raise InputError(
            f"solver='newton' is for kind='rkl' and kind='do' on sums of kernels, got kind={kind!r}. Use 'spectral'."
        )
    targets = np.asarray(y, dtype=np.float64)
    if targets.shape != (family.n_samples,):
        raise InputError(
            f"`y` must have one entry per row of the kernels ({family.n_samples}), got {np.shape(y)}."
        )
    given = as_loss(loss, epsilon)
    if kind in SQUARED:
        if not given.classifies:
            raise InputError(
                f"kind={kind!r} is for classification; with loss={given.name!r} use kind='rkl' or 'margin'."
            )
        given = SquaredHinge()
    own = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    machine = Machine(targets, C, given, own)
    first = None if start is None else np.array(start, dtype=np.float64)
    if first is not None and (
        first.shape != (family.n_parameters,) or not (first >= 0).all() or not first.any()
    ):
        raise InputError(f"`start` must hold {family.n_parameters} nonnegative numbers, not all zero.")
    return solve_radius_problem(
        family, replace(machine, y=given.check(targets, machine.costs)), kind, norm,
        tol=tol, step=solver, max_iter=max_iter or MOST, start=first, callback=callback,
    )  # fmt: skip


def _family(
    gram: Gram | ArrayLike | Family, kind: str, norm: int | None, scale: ArrayLike | None, ridge: float
) -> Family:
    """The family of kernels; raises for arguments that it does not have."""
    if not isinstance(gram, Family):
        if norm not in KINDS[kind]:
            raise InputError(
                f"kind={kind!r} needs norm={' or '.join(map(str, KINDS[kind]))}: its value depends on the scale of "
                f"the weights. Got {norm!r}."
            )
        stack = as_gram(gram)
        return WeightedSum(stack, check_scale(scale, stack.n_kernels), ridge)
    for name, given in (("scale", scale is not None), ("ridge", ridge != 0), ("norm", norm == 2)):
        if given:
            raise InputError(
                f"`{name}` is for sums of kernels; the parameters of a family are only nonnegative. Leave it out."
            )
    if kind == "do":
        raise InputError(
            f"kind={kind!r} is for sums of kernels: its radius is a sum of the radii of single kernels. Use kind='rkl'."
        )
    return gram


def _has_newton(family: Family, kind: str) -> bool:
    # the balls and machines of "do" are computed kernel by kernel, without a ridge
    return isinstance(family, WeightedSum) and (kind == "rkl" or (kind == "do" and family.ridge == 0.0))


def solve_radius_problem(
    family: Family,
    machine: Machine,
    kind: str,
    norm: int | None = 1,
    *,
    tol: float,
    step: str = "auto",
    max_iter: int = MOST,
    start: Array | None = None,
    callback: Callback | None = None,
) -> RadiusSolution:
    """`solve_radius` on a family of kernels and a machine, checked."""
    with blas_threads_for(family.n_samples):
        if _has_newton(family, kind) and step in ("auto", "newton"):
            assert isinstance(family, WeightedSum)
            if kind == "do":
                return _do_by_newton(family, machine, start, tol, max_iter, callback)
            rkl = RKLSession(family, machine, start, norm, tol)
            work = most_work(family.n_samples, family.n_parameters) if max_iter <= MOST else None
            found = minimise(rkl, turns(), max_iter=max_iter, callback=callback, work=work)
            assert isinstance(found, RadiusSolution)
            # the certificate of its own numbers, over all kernels and with an accurate ball
            old, new = found.certificate, RadiusProblem(family, machine).certify(found)
            if not new.gap < math.inf:
                return found
            certificate = Certificate.of(
                old.kind,
                new.primal,
                new.own_gap,
                new.rounding,
                old.status,
                tol=tol,
                stationarity=old.stationarity,
            )
            return replace(found, certificate=certificate)
        region, stationarity = NORMS[norm]
        if not isinstance(family, WeightedSum):
            region, stationarity = Parameters(*family.bounds), on_parameters(*family.bounds)
        first = family.start(machine.sample_weight) if start is None else start
        criterion = RadiusMargin(family, machine, kind)
        session = DescentSession(criterion, first, region.scaled, stationarity, tol)
        steps = [ProjectedGradient(spectral=step != "armijo", scaled=isinstance(region, Parameters))]
        descended = minimise(session, steps, max_iter=max_iter, callback=callback)
        assert isinstance(descended, RadiusSolution)
        return descended


@dataclass(frozen=True)
class DoProblem(KernelProblem):
    """The method of Do et al. as margin MKL: a squared-hinge machine whose C decreases with the radius of the weights.

    With ``rho(d) = sum_m d_m r_m^2`` the squared hinge with C / rho adds ``rho / C`` to the diagonal, so its optimal
    value is that of a machine without slack on ``sum_m d_m (K_m + r_m^2 / C I)``: convex in d, with the certificate of
    `svm_mkl`.

    Attributes
    ----------
    radii : array of shape (n_kernels,)
        Squared radius of every kernel, with its scale.
    """

    radii: Array
    varies: ClassVar[bool] = True

    def machine_at(self, weights: Array) -> Machine:
        """The machine with C divided by the radius."""
        return replace(self.machine, C=self.machine.C / float(weights @ self.radii))

    def quad(self, b: Array, kernels: Index | None = None) -> Array:
        """``b'(s_m K_m + r_m^2 / C I) b``."""
        radii = self.radii if kernels is None else self.radii[kernels]
        return super().quad(b, kernels) + radii * float(self.machine.ridge @ np.square(b))

    def products(self, b: Array, kernels: Index | None = None) -> Array:
        """``(s_m K_m + r_m^2 / C I) b``."""
        radii = self.radii if kernels is None else self.radii[kernels]
        return super().products(b, kernels) + radii[:, None] * (self.machine.ridge * b)


def _do_by_newton(
    family: WeightedSum,
    machine: Machine,
    start: Array | None,
    tol: float,
    max_iter: int,
    callback: Callback | None,
) -> RadiusSolution:
    plain = KernelProblem(family.gram, machine, family.scale, Simplex())
    radii = radii_of(plain.combine, plain.n_kernels, max(1e-2 * tol, 1e-10))
    problem = DoProblem(plain.gram, machine, plain.scale, plain.weight_set, radii)
    session = Session(problem, tol, WarmStart(start))
    work = most_work(family.n_samples, plain.n_kernels) if max_iter <= MOST else None
    found = minimise(session, [Newton()], max_iter=max_iter, callback=callback, work=work)
    return found.extended(
        RadiusSolution,
        certificate=replace(found.certificate, stationarity=relative_gap(found.primal, found.own_gap)),
        value=found.primal - found.own_gap,
        radius2=float(found.weights @ radii),
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
        Other parameters of `solve_radius` by name, but for `kind`.

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
