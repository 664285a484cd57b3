"""Machines on one kernel as functions of arrays: hinge, squared hinge and epsilon-insensitive loss."""

from __future__ import annotations

from numpy.typing import ArrayLike

from kernelweave._checks import Labels, RowWeights, Start, Targets, check_row_weights
from kernelweave._docstrings import texts_of
from kernelweave._parameters import Cost, MaxIter, MaxTime, Nonnegative, Switch, Tol, checked, renamed
from kernelweave._types import Array
from kernelweave.machines.box import OnIndefinite, as_kernel, check_start
from kernelweave.machines.loss import Loss
from kernelweave.machines.losses import EpsilonInsensitive, Hinge, Logistic, SquaredHinge
from kernelweave.machines.machine import Machine
from kernelweave.results import MachineSolution


@renamed(warm_start="start")
@checked
def solve_svc(
    K: ArrayLike,
    y: Labels,
    C: Cost,
    *,
    sample_weight: RowWeights = None,
    tol: Tol = 1e-6,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    start: Start = None,
    on_indefinite: OnIndefinite = "raise",
    check: Switch = True,
) -> MachineSolution:
    """Solve the support vector classifier with the hinge loss, and certify the solution.

    Minimises over f = <w, phi(x)> + intercept

        1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i f_i) ,     C_i = C * sample_weight_i ,

    through its dual, with signed coefficients b (b_i = a_i y_i for multipliers a_i),

        max_b  y'b - 1/2 b'K b     s.t.  0 <= y_i b_i <= C_i,  sum(b) = 0 .

    Parameters
    ----------
    K : array of shape (n_samples, n_samples)
        Symmetric positive semidefinite. Not modified, and not copied when it is C-contiguous float64.
    y : array of shape (n_samples,)
        Labels -1 and +1, both present.
    C : float
        Weight of the loss > 0, a sum over samples; in units of 1 / K.
    sample_weight : array of shape (n_samples,), optional
        Nonnegative. A weight is equivalent to a repetition, and a row of weight 0 is ignored. Weights of classes are
        weights of their rows.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``. With rounding, about 1e-12 is the smallest value that most problems reach.
    max_iter : int, optional
        Largest number of SMO steps. Default: 1000000 plus 100 for each row.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    start : array of shape (n_samples,), optional
        `dual_coef` of a similar problem, for example at another C or with another kernel. It is clipped and scaled
        to be feasible, and the best multiple of it is used.
    on_indefinite : {"raise", "clip", "shift"}, default="raise"
        If K has negative eigenvalues: raise when this is detected, or set them to zero, or add a multiple of the
        identity. The last two cost an eigendecomposition, and the result belongs to the changed matrix.
    check : bool, default=True
        Check all entries of K for NaN and asymmetry.

    Returns
    -------
    MachineSolution
        ``f = K @ dual_coef + intercept``. Non-convergence is reported in ``status``, never raised.

    Raises
    ------
    InputError
        Wrong shapes, NaN, an asymmetric matrix, C <= 0, labels other than -1 and +1, a single class.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    An SMO step reads two rows of K; Newton steps factorise the block of the support vectors inside the box, n_free^3
    / 3. Scaling K by a and C by 1 / a divides the coefficients by a and keeps f. Coefficients are unique when K is
    positive definite; f always is, up to an interval of intercepts.

    References
    ----------
    C. Cortes, V. Vapnik, Support-vector networks, Machine Learning 20 (1995). R.-E. Fan, P.-H. Chen, C.-J. Lin,
    Working set selection using second order information, JMLR 6 (2005).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_svc
    >>> x = np.array([-2.0, -1.0, 1.0, 3.0])
    >>> machine = solve_svc(np.outer(x, x), [-1, -1, 1, 1], C=10.0)
    >>> np.round(machine.dual_coef, 6), abs(round(machine.intercept, 6))
    (array([ 0. , -0.5,  0.5,  0. ]), 0.0)
    >>> machine.rel_gap <= 1e-6
    True
    """
    matrix = as_kernel(K, on_indefinite, check=check)
    return _solve(Hinge(), matrix, y, C, sample_weight, tol, max_iter, start)


@texts_of(solve_svc)
@renamed(warm_start="start")
@checked
def solve_l2svc(
    K: ArrayLike,
    y: Labels,
    C: Cost,
    *,
    sample_weight: RowWeights = None,
    tol: Tol = 1e-6,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    start: Start = None,
    on_indefinite: OnIndefinite = "raise",
    check: Switch = True,
) -> MachineSolution:
    """Solve the support vector classifier with the squared hinge loss, and certify the solution.

    Minimises over f = <w, phi(x)> + intercept

        1/2 ||w||^2 + 1/2 sum_i C_i max(0, 1 - y_i f_i)^2 ,     C_i = C * sample_weight_i ,

    which is the classifier without slack on ``K + diag(1 / C_i)``: its dual is

        max_b  y'b - 1/2 b'(K + diag(1 / C_i)) b     s.t.  y_i b_i >= 0,  sum(b) = 0 .

    Note the factor: adding I / C to the kernel corresponds to the loss ``C / 2 sum xi^2``, not ``C sum xi^2``.

    Parameters
    ----------
    K : array of shape (n_samples, n_samples)
        Symmetric positive semidefinite. Not modified, and not copied when it is C-contiguous float64.
    y : array of shape (n_samples,)
        Labels -1 and +1, both present.
    C : float
        Weight of the loss > 0, a sum over samples; in units of 1 / K.
    sample_weight : array of shape (n_samples,), optional
        Nonnegative. A weight is equivalent to a repetition, and a row of weight 0 is ignored.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``.
    max_iter : int, optional
        Largest number of SMO steps. Default: 1000000 plus 100 for each row.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    start : array of shape (n_samples,), optional
        `dual_coef` of a similar problem, see `solve_svc`.
    check : bool, default=True
        Check all entries of K for NaN and asymmetry.

    Returns
    -------
    MachineSolution
        ``f = K @ dual_coef + intercept``, with the K that was given. At the solution the multipliers are C_i times
        the slacks.

    Raises
    ------
    InputError
        Wrong shapes, NaN, an asymmetric matrix, C <= 0, labels other than -1 and +1, a single class.
    NotPSDError
        A matrix that cannot be a kernel.

    References
    ----------
    O. Chapelle, V. Vapnik, O. Bousquet, S. Mukherjee, Choosing multiple parameters for support vector machines,
    Machine Learning 46 (2002), section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.solvers import solve_l2svc
    >>> x = np.array([-1.0, 1.0])
    >>> solve_l2svc(np.outer(x, x), [-1, 1], C=2.0).dual_coef
    array([-0.4,  0.4])
    """
    matrix = as_kernel(K, on_indefinite, check=check)
    return _solve(SquaredHinge(), matrix, y, C, sample_weight, tol, max_iter, start)


@texts_of(solve_svc)
@renamed(warm_start="start")
@checked
def solve_svr(
    K: ArrayLike,
    y: Targets,
    C: Cost,
    epsilon: Nonnegative = 0.1,
    *,
    sample_weight: RowWeights = None,
    tol: Tol = 1e-6,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    start: Start = None,
    on_indefinite: OnIndefinite = "raise",
    check: Switch = True,
) -> MachineSolution:
    """Solve support vector regression with the epsilon-insensitive loss, and certify the solution.

    Minimises over f = <w, phi(x)> + intercept

        1/2 ||w||^2 + sum_i C_i max(0, abs(y_i - f_i) - epsilon) ,     C_i = C * sample_weight_i ,

    through its dual in n variables, where the two multipliers of a sample are the positive and negative part of b_i:

        max_b  y'b - epsilon ||b||_1 - 1/2 b'K b     s.t.  abs(b_i) <= C_i,  sum(b) = 0 .

    Parameters
    ----------
    K : array of shape (n_samples, n_samples)
        Symmetric positive semidefinite. Not modified, and not copied when it is C-contiguous float64.
    y : array of shape (n_samples,)
        Targets.
    C : float
        Weight of the loss > 0, a sum over samples; in units of y / K.
    epsilon : float, default=0.1
        Half width >= 0 of the tube without loss, in units of y.
    sample_weight : array of shape (n_samples,), optional
        Nonnegative. A weight is equivalent to a repetition, and a row of weight 0 is ignored.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``.
    max_iter : int, optional
        Largest number of SMO steps. Default: 1000000 plus 100 for each row.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    start : array of shape (n_samples,), optional
        `dual_coef` of a similar problem, see `solve_svc`.
    check : bool, default=True
        Check all entries of K for NaN and asymmetry.

    Returns
    -------
    MachineSolution
        ``f = K @ dual_coef + intercept``.

    Raises
    ------
    InputError
        Wrong shapes, NaN, an asymmetric matrix, C <= 0, epsilon < 0.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    Costs are those of `solve_svc`: the kink at b_i = 0 replaces a second copy of the variables.

    References
    ----------
    A. J. Smola, B. Schölkopf, A tutorial on support vector regression, Statistics and Computing 14 (2004), (10).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import solve_svr
    >>> x = np.array([-1.0, 0.0, 1.0])
    >>> machine = solve_svr(np.outer(x, x), 2.0 * x, C=10.0, epsilon=0.5)
    >>> np.outer(x, x) @ machine.dual_coef + machine.intercept
    array([-1.5,  0. ,  1.5])
    """
    matrix = as_kernel(K, on_indefinite, check=check)
    return _solve(EpsilonInsensitive(epsilon), matrix, y, C, sample_weight, tol, max_iter, start)


@texts_of(solve_svc)
@renamed(warm_start="start")
@checked
def solve_klr(
    K: ArrayLike,
    y: Labels,
    C: Cost,
    *,
    sample_weight: RowWeights = None,
    tol: Tol = 1e-6,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    start: Start = None,
    on_indefinite: OnIndefinite = "raise",
    check: Switch = True,
) -> MachineSolution:
    """Solve kernel logistic regression with an intercept, and certify the solution.

    Minimises over f = <w, phi(x)> + intercept

        1/2 ||w||^2 + sum_i C_i log(1 + exp(-y_i f_i)) ,     C_i = C * sample_weight_i ,

    whose dual is, with shares ``a_i = y_i b_i / C_i`` and the entropy H(a) = -a log a - (1 - a) log(1 - a),

        max_b  sum_i C_i H(a_i) - 1/2 b'K b     s.t.  0 <= y_i b_i <= C_i,  sum(b) = 0 .

    Parameters
    ----------
    K : array of shape (n_samples, n_samples)
        Symmetric positive semidefinite. Not modified, and not copied when it is C-contiguous float64.
    y : array of shape (n_samples,)
        Labels -1 and +1, both present.
    C : float
        Weight of the loss > 0, a sum over samples; in units of 1 / K.
    sample_weight : array of shape (n_samples,), optional
        Nonnegative. A weight is equivalent to a repetition, and a row of weight 0 is ignored.
    tol : float, default=1e-6
        Stop when ``gap <= tol * primal``.
    max_iter : int, optional
        Largest number of Newton systems. Default: 200.
    max_time : float, optional
        Seconds after which the solution so far is returned, with the status ``MAX_TIME`` and its gap.
    start : array of shape (n_samples,), optional
        `dual_coef` of a similar problem.
    check : bool, default=True
        Check all entries of K for NaN and asymmetry.

    Returns
    -------
    MachineSolution
        ``f = K @ dual_coef + intercept``; the probability of label +1 is ``1 / (1 + exp(-f))``.

    Raises
    ------
    InputError
        Wrong shapes, NaN, an asymmetric matrix, C <= 0, labels other than -1 and +1, a single class.
    NotPSDError
        A matrix that cannot be a kernel.

    Notes
    -----
    Newton's method on the decision values with a line search; every system costs n^3 / 3, and 5 to 10 are usual. No
    coefficient vanishes: every row is a support vector. The gap is the sum of C_i times the divergence of a_i from the
    probability that f_i gives to the other label.

    References
    ----------
    J. Zhu, T. Hastie, Kernel logistic regression and the import vector machine, Journal of Computational and Graphical
    Statistics 14 (2005). T. Jaakkola, D. Haussler, Probabilistic kernel regression models, AISTATS 1999: the dual.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.solvers import solve_klr
    >>> x = np.array([-2.0, -1.0, 1.0, 3.0])
    >>> machine = solve_klr(np.outer(x, x), [-1, 1, -1, 1], C=1.0)
    >>> machine.rel_gap <= 1e-6
    True
    """
    matrix = as_kernel(K, on_indefinite, check=check)
    return _solve(Logistic(), matrix, y, C, sample_weight, tol, max_iter, start)


def _solve(
    loss: Loss,
    K: Array,
    y: ArrayLike,
    C: float,
    sample_weight: ArrayLike | None,
    tol: float,
    max_iter: int | None,
    start: ArrayLike | None,
) -> MachineSolution:
    weights = check_row_weights(sample_weight, len(K))
    machine = Machine(loss.check(y, C * weights), C, loss, weights, max_iter)
    first = None if start is None else check_start(start, len(K))
    return machine.solve(K, tol=tol, warm_start=first)
