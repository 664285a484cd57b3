"""Learners by margin and radius."""

from __future__ import annotations

from kernelweave._checks import InputError, check_known
from kernelweave.learners.margin import MarginLearner, MarginProblem
from kernelweave.solvers.joint import WarmStart
from kernelweave.solvers.radius import NORMS, STEPS, solve_radius
from kernelweave.solvers.result import MKLResult


class _RadiusLearner(MarginLearner):
    """A criterion of `solve_radius`."""

    step: str

    def check(self) -> None:
        super().check()
        check_known(self.step, STEPS, "step")

    def _run(self, problem: MarginProblem, warm: WarmStart, kind: str, norm: int | None) -> MKLResult:
        m = problem.machine
        return solve_radius(
            problem.gram, m.y, m.C, kind, norm, loss=m.loss, epsilon=m.epsilon, sample_weight=m.sample_weight,
            scale=problem.scale, tol=problem.tol, step=self.step,
            max_iter=200 if self.max_iter is None else self.max_iter,
        )  # fmt: skip


class RKL(_RadiusLearner):
    """Radius-margin kernel learning: weights that minimise the optimal value of a machine on ``K / r^2(K)``.

    r^2 is the squared radius of the minimum enclosing ball. The criterion does not change when a kernel or the sum is
    multiplied, so it needs no norm on the weights. On sums of kernels it is a convex problem in disguise, solved with a
    global certificate.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinge loss > 0, on a kernel whose ball has radius 1.
    norm : {1, 2, None}, default=1
        Constraint on the weights, which does not change the kernel that is learnt.
    epsilon : float, default=0.1
        Half width of the tube of regression.
    step : {"auto", "newton", "spectral", "armijo"}, default="auto"
        Newton steps, or the published projected gradient with one of two guesses of the step length. "auto": Newton.
    tol : float, default=1e-9
        Relative gap (Newton) or stationarity at which to stop; see `kernelweave.solve_radius`.
    max_iter : int, optional
        Steps; default 200.

    References
    ----------
    K. Gai, G. Chen, C. Zhang, Learning kernels with radiuses of minimum enclosing balls, NIPS 2010.

    Examples
    --------
    >>> from kernelweave.learners import RKL
    >>> RKL(C=10.0, norm=2)
    RKL(C=10.0, norm=2)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        norm: int | None = 1,
        epsilon: float = 0.1,
        step: str = "auto",
        tol: float = 1e-9,
        max_iter: int | None = None,
    ) -> None:
        self.C = C
        self.norm = norm
        self.epsilon = epsilon
        self.step = step
        self.tol = tol
        self.max_iter = max_iter

    def check(self) -> None:  # noqa: D102
        super().check()
        if self.norm not in NORMS:
            raise InputError(f"`norm` must be 1, 2 or None, got {self.norm!r}.")

    def learn(self, problem, warm):  # noqa: D102
        return self._run(problem, warm, "rkl", self.norm)


class ChapelleRadius(_RadiusLearner):
    """Radius times margin with the squared hinge (KL-C): weights that minimise ``r^2 W^2 / 2``.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared hinge > 0.
    variant : {"chapelle", "eq10"}, default="chapelle"
        Radius of ``K + I / C``, as Chapelle et al. do, or of K alone, as equation (10) of the RKL paper prints it.
        They are not equivalent; the second goes to zero with the scale of the kernel.
    norm : {1, 2}, default=1
        Constraint on the weights, which matters here.
    step : {"auto", "spectral", "armijo"}, default="auto"
        Guess of the step length of the projected gradient.
    tol : float, default=1e-4
        Stationarity at which to stop.
    max_iter : int, optional
        Steps; default 200.

    References
    ----------
    O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee, Choosing multiple parameters for support vector machines,
    Machine Learning 46 (2002).

    Examples
    --------
    >>> from kernelweave.learners import ChapelleRadius
    >>> ChapelleRadius(C=10.0)
    ChapelleRadius(C=10.0)
    """

    regression = False
    loss = "squared-hinge"
    epsilon = 0.0
    certificate = (
        "The weights are a local solution: the criterion is not convex. Certified is the machine on the kernel that "
        "was found."
    )

    def __init__(
        self,
        C: float = 1.0,
        *,
        variant: str = "chapelle",
        norm: int = 1,
        step: str = "auto",
        tol: float = 1e-4,
        max_iter: int | None = None,
    ) -> None:
        self.C = C
        self.variant = variant
        self.norm = norm
        self.step = step
        self.tol = tol
        self.max_iter = max_iter

    def check(self) -> None:  # noqa: D102
        super().check()
        check_known(self.variant, ("chapelle", "eq10"), "variant")
        if self.norm not in (1, 2):
            raise InputError(f"`norm` must be 1 or 2, got {self.norm!r}: the criterion depends on the scale.")

    def learn(self, problem, warm):  # noqa: D102
        return self._run(problem, warm, "kl-c" if self.variant == "chapelle" else "kl-c-eq10", self.norm)


class DoRadius(_RadiusLearner):
    """Margin MKL with a bound of the radius (Do et al.): C is divided by ``sum_m d_m r_m^2``, d on the simplex.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared hinge > 0.
    step : {"auto", "spectral", "armijo"}, default="auto"
        "auto": Newton steps with a global certificate; otherwise a projected gradient.
    tol : float, default=1e-6
        Relative gap (Newton) or stationarity at which to stop.
    max_iter : int, optional
        Steps; default 200.

    References
    ----------
    H. Do, A. Kalousis, A. Woznica, M. Hilario, Margin and radius based multiple kernel learning, ECML PKDD 2009.

    Examples
    --------
    >>> from kernelweave.learners import DoRadius
    >>> DoRadius(C=10.0)
    DoRadius(C=10.0)
    """

    regression = False
    loss = "squared-hinge"
    epsilon = 0.0

    def __init__(
        self, C: float = 1.0, *, step: str = "auto", tol: float = 1e-6, max_iter: int | None = None
    ) -> None:
        self.C = C
        self.step = step
        self.tol = tol
        self.max_iter = max_iter

    def learn(self, problem, warm):  # noqa: D102
        return self._run(problem, warm, "do", 1)
