"""Least squares for many targets, each with kernel weights and a ridge of its own, from factorisations that all share.

For weights d one eigendecomposition of ``K(d)`` serves all targets and all alphas, and validation too: with
``G = (K(d) + alpha N)^-1`` and ``c = G y`` the residuals of the rows of a fold by the model of all other rows are
``e_F = (G_FF)^-1 c_F``, exactly, so that no fold is factorised on its own. Kernels and their scale are those of all
rows, coefficients and the intercept those of the rows outside of the fold.

Weights that are looked at are equal ones first. At the weights that are best for it so far, each of some targets
proposes others: the minimum over the simplex of the quadratic model of RLS2's objective, ``-q'd + 1/2 d'Hd`` with
``q_m = c' K_m c`` and ``H_ml = 2 c' K_m G K_l c``, at several multiples of its alpha. Proposals of all targets are
grouped, and the means of the groups are looked at next. Each target takes the weights and the alpha with the smallest
out-of-fold error. Coefficients are those of ridge regression at these, with its duality gap; the weights have no
certificate: held-out error chose them.

Errors that compare ways of choosing are cross-fitted: those of a fold at what the other folds would choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from kernelweave._checks import InputError
from kernelweave.gram import Gram
from kernelweave.mkl.ridge_problem import SAFETY
from kernelweave.results import Certificate, Solution, Status

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Rounds of proposals, and weights that are looked at in each.
ROUNDS, EACH = 3, 8
#: Multiples of a target's alpha at which it proposes: weights of RLS2 need more regularisation than its function.
MULTIPLES = (1.0, 10.0, 100.0, 1000.0)
#: Steps of the automatic grid of alphas, as a factor, and its lowest value as a share of the mean diagonal.
STEP, LOWEST = 10.0**0.5, 1e-5
#: How many alphas on either side of its best one a target is asked about at further weights.
NEAR = 2
#: Targets that propose, times kernels, at most; and at least so many targets.
PROPOSING, FEWEST = 1024, 16
#: Bytes of the arrays of a batch of targets.
BATCH_BYTES = 2**26
#: Matrices of rows by rows, and arrays of rows by targets, that are held at once.
MATRICES, OF_TARGETS = 6, 4
#: Relative difference of errors that are equal up to rounding.
TIE = 1e-8
#: Steps of the accelerated projected gradient that minimises a quadratic model over the simplex.
MODEL_STEPS = 300


@dataclass(frozen=True)
class OwnSolution(Solution):
    """Ridge regressions of many targets, each at weights and an alpha of its own that validation chose.

    `weights` of a target sum to ``alpha / alphas[t]``: so all targets have the same `alpha`. The certificate is that of
    the ridge regressions at these weights.

    Attributes
    ----------
    alphas : array of shape (n_outputs,)
        The regularisation parameter of each target for weights with sum 1.
    log_dets : array of shape (n_outputs,)
        ``log det(I + W^1/2 K(d) W^1/2 / alpha)``.
    """

    alphas: Array = field(default_factory=lambda: np.empty(0))
    log_dets: Array = field(default_factory=lambda: np.empty(0), repr=False)


@dataclass(frozen=True)
class OwnTargets:
    """What `solve_many` found.

    Attributes
    ----------
    solution : OwnSolution
    residuals : array of shape (n_samples, n_outputs)
        Of each row by the model of the rows outside of its fold; NaN for rows outside of all folds.
    errors : array of shape (n_outputs,)
        Squared error of all folds at the choice, as a share of that of the mean.
    own, shared : array of shape (n_outputs,)
        Cross-fitted errors, as shares: of one choice for each target, and of one for all targets, by the sum of their
        squared errors.
    n_looks : int
        Weights that were looked at.
    interrupted : bool
    """

    solution: OwnSolution
    residuals: Array
    errors: Array
    own: Array
    shared: Array
    n_looks: int
    interrupted: bool


def bytes_needed(n_samples: int, n_targets: int) -> float:
    """Memory of `solve_many`, beside the kernels."""
    return 8.0 * (MATRICES * float(n_samples) ** 2 + OF_TARGETS * float(n_samples) * n_targets) + BATCH_BYTES


def most_looks(n_kernels: int, rounds: int = ROUNDS) -> int:
    """How many weights are looked at, at most."""
    return 1 + rounds * EACH if n_kernels > 1 else 1


def solve_many(
    gram: Gram,
    y: Array,
    tests: Sequence[Rows],
    *,
    scale: Array,
    sample_weight: Array | None = None,
    alphas: Array | None = None,
    fit_intercept: bool = True,
    tol: float = 1e-8,
    rounds: int = ROUNDS,
    report: Callable[[str], bool] = lambda _: False,
) -> OwnTargets:
    """Choose weights and alpha of each target by out-of-fold error, and solve its ridge regression.

    Minimises for every target t, at weights d on the simplex and an alpha that folds choose,

        1/2 sum_i w_i (y_it - f_it)^2 + alpha/2 c' K(d) c ,   f = K(d) c ,   K(d) = sum_m d_m s_m K_m .

    Parameters
    ----------
    gram : Gram
    y : array of shape (n_samples, n_targets)
        Targets less their intercepts.
    tests : sequence of arrays of int
        Rows of the folds, disjoint. The training rows of a fold are all others.
    scale : array of shape (n_kernels,)
        Factors s_m of the kernels.
    sample_weight : array of shape (n_samples,), optional
        Weights > 0.
    alphas : array, optional
        Regularisation parameters to choose from. Default: steps of half a decade, from ``n_samples`` times the mean
        diagonal of the kernels to 1e-5 of it.
    fit_intercept : bool
        Whether targets of a fold are reduced by the mean of its training rows.
    tol : float
        Relative gap of each ridge regression.
    rounds : int
        Of proposals of weights.
    report : callable
        Called with a text after each of the weights; a true value stops, and what was found is kept.

    Returns
    -------
    OwnTargets

    Raises
    ------
    InputError
        Fewer than two folds, or kernels that are zero.
    KeyboardInterrupt
        Before the first weights were done.

    Notes
    -----
    Each of the weights costs one eigendecomposition, about ``n^3 / n_folds`` for each alpha, and ``2 n^2`` for each
    target and alpha: O(n^3 + n^2 T), where T separate fits cost O(T n^3). Memory: see `bytes_needed`.

    References
    ----------
    The residuals: P. J. Green and B. W. Silverman, Nonparametric Regression and Generalized Linear Models (1994),
    section 3.2, for folds in place of rows. Weights for each target by validation: T. Dupré la Tour et al.,
    Feature-space selection with banded ridge regression, NeuroImage 264 (2022).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.gram import as_gram
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(60, 2))
    >>> y = Z + 0.1 * rng.normal(size=(60, 2))
    >>> stack = as_gram(Z[:, None, :] * Z[None, :, :])
    >>> found = solve_many(stack, y - y.mean(axis=0), np.array_split(np.arange(60), 5), scale=np.ones(2))
    >>> d = found.solution.weights / found.solution.weights.sum(axis=1, keepdims=True)
    >>> bool(d[0, 0] > 0.8 and d[1, 1] > 0.8 and found.solution.rel_gap < 1e-8)
    True
    """
    if len(tests) < 2:
        raise InputError(f"Choosing by folds needs at least two of them, got {len(tests)}.")
    search = _Search(gram, y, tests, scale, sample_weight, alphas, fit_intercept)
    interrupted = False
    n_looks, total = 0, most_looks(gram.n_kernels, rounds)
    pending = [np.full(gram.n_kernels, 1.0 / gram.n_kernels)]
    try:
        for _ in range(rounds + 1):
            for weights in pending:
                search.look(weights)
                n_looks += 1
                if report(f"weights {n_looks} of at most {total}"):
                    interrupted = True
                    break
            if interrupted or gram.n_kernels == 1:
                break
            pending = search.next_weights()
            if not pending:
                break
    except KeyboardInterrupt:
        if not n_looks:
            raise
        interrupted = True
    return search.result(tol, n_looks, interrupted)


class _Search:
    """The best of each target so far, and what it proposes."""

    def __init__(
        self,
        gram: Gram,
        y: Array,
        tests: Sequence[Rows],
        scale: Array,
        sample_weight: Array | None,
        alphas: Array | None,
        fit_intercept: bool,
    ) -> None:
        self.gram, self.y, self.tests, self.scale = gram, y, list(tests), scale
        n, n_targets = y.shape
        self.w = np.ones(n) if sample_weight is None else sample_weight
        self.root = np.sqrt(self.w)
        # means of the training rows of each fold
        self.means = np.zeros((len(tests), n_targets))
        if fit_intercept:
            total, mass = self.w @ y, self.w.sum()
            for k, test in enumerate(tests):
                own = self.w[test]
                self.means[k] = (total - own @ y[test]) / max(mass - own.sum(), np.finfo(float).tiny)
        sizes = self.w @ np.square(y)
        self.sizes = np.where(sizes > 0, sizes, 1.0)
        self.units = self.sizes / self.sizes.mean()
        diagonal = float((self.w @ gram.diagonal().T) @ scale) / (n * gram.n_kernels)
        if not diagonal > 0:
            raise InputError("All kernels are zero on these rows. Leave them out.")
        if alphas is None:
            steps = math.ceil(math.log(n / LOWEST) / math.log(STEP))
            alphas = diagonal * n * STEP ** -np.arange(steps + 1.0)
        self.alphas = np.sort(np.asarray(alphas, dtype=float))[::-1]
        self.looked: list[Array] = []
        self.batch = max(1, BATCH_BYTES // (8 * 6 * n))
        # of each target: the errors of its choice, that choice, and the solution
        self.best = np.full(n_targets, np.inf)
        self.at, self.which = np.zeros(n_targets, dtype=int), np.zeros(n_targets, dtype=int)
        self.coef, self.residuals = np.zeros((n, n_targets)), np.full((n, n_targets), np.nan)
        self.log_dets = np.zeros(n_targets)
        # of each fold: errors of the others at what they choose, and its own there
        folds = (len(tests), n_targets)
        self.rest, self.fold = np.full(folds, np.inf), np.zeros(folds)
        # the same of one choice for all
        self.best_shared, self.which_shared = np.inf, 0
        self.rest_shared, self.fold_shared = np.full(len(tests), np.inf), np.zeros(folds)
        most = max(FEWEST, PROPOSING // gram.n_kernels)
        every = max(1, -(-n_targets // most))
        self.proposing = np.arange(0, n_targets, every)
        self.proposed: dict[int, Array] = {}

    def look(self, weights: Array) -> None:
        """Ask all targets about weights, near the alphas that are best for them."""
        K = self.gram.combine(weights * self.scale)
        K *= self.root[:, None]
        K *= self.root
        values, Q = eigh(K, overwrite_a=True, check_finite=False, driver="evd")
        del K
        values = np.maximum(values, 0.0)
        Z = Q.T @ (self.root[:, None] * self.y)
        ones = Q.T @ self.root
        n_targets = self.y.shape[1]
        first = not self.looked
        centre, shared = self.which.copy(), self.which_shared
        improved = np.zeros(n_targets, dtype=bool)
        better_for_all = False
        for a, alpha in enumerate(self.alphas):
            everyone = first or abs(a - shared) <= 1
            some = np.arange(n_targets) if everyone else np.flatnonzero(np.abs(a - centre) <= NEAR)
            if not len(some):
                continue
            g = 1.0 / (values + alpha)
            unit = Q @ (g * ones)
            try:
                blocks = [_factor(Q[test], g) for test in self.tests]
            except LinAlgError:
                # infinite, or below the rounding errors of the kernels
                continue
            log_det = float(np.log1p(values / alpha).sum())
            errors = np.empty((len(self.tests), n_targets)) if everyone else None
            for begin in range(0, len(some), self.batch):
                part = some[begin : begin + self.batch]
                coef = Q @ (g[:, None] * Z[:, part])
                own = np.empty((len(self.tests), len(part)))
                e = np.full(coef.shape, np.nan)
                for k, (test, block) in enumerate(zip(self.tests, blocks, strict=True)):
                    left = coef[test] - np.outer(unit[test], self.means[k, part])
                    e[test] = cho_solve(block, left, overwrite_b=True, check_finite=False)
                    own[k] = np.square(e[test]).sum(axis=0) / self.sizes[part]
                if errors is not None:
                    errors[:, part] = own
                total = own.sum(axis=0)
                won = np.flatnonzero(total < self.best[part] * (1.0 - TIE))
                here = part[won]
                self.best[here], self.at[here], self.which[here] = total[won], len(self.looked), a
                self.coef[:, here] = self.root[:, None] * coef[:, won]
                self.residuals[:, here] = e[:, won] / self.root[:, None]
                self.log_dets[here] = log_det
                improved[here] = True
                rest = total - own
                lower = rest < self.rest[:, part] * (1.0 - TIE)
                self.rest[:, part] = np.where(lower, rest, self.rest[:, part])
                self.fold[:, part] = np.where(lower, own, self.fold[:, part])
            if errors is not None:
                total = errors.sum()
                if total < self.best_shared * (1.0 - TIE):
                    self.best_shared, self.which_shared, better_for_all = total, a, True
                # a fit that all share minimises squared errors in the units of the targets
                sums = errors @ self.units
                for k, rest in enumerate(sums.sum() - sums):
                    if rest < self.rest_shared[k] * (1.0 - TIE):
                        self.rest_shared[k], self.fold_shared[k] = rest, errors[k]
        if not np.isfinite(self.best).all():
            raise InputError(
                f"`alphas` from {self.alphas[-1]:.3g} to {self.alphas[0]:.3g} are all infinite, or below the rounding "
                "errors of these kernels. Give other values."
            )
        self.looked.append(weights)
        if self.gram.n_kernels > 1:
            self._propose(weights, values, Q, Z, np.flatnonzero(improved), better_for_all)

    def _propose(
        self, weights: Array, values: Array, Q: Array, Z: Array, improved: Rows, for_all: bool
    ) -> None:
        """Weights that targets propose from these, and those that all of them propose together (key -1)."""
        some = np.intersect1d(self.proposing, improved)
        for part in self._batches(some):
            alphas = self.alphas[self.which[part]]
            models = [self._model(values, Q, Z[:, part], factor * alphas) for factor in MULTIPLES]
            found = np.stack([_minimum(q, H, weights) for q, H in models], axis=1)
            self.proposed |= dict(zip(part.tolist(), found, strict=True))
        if not for_all:
            return
        sums = [(np.zeros(len(weights)), np.zeros((len(weights), len(weights)))) for _ in MULTIPLES]
        for part in self._batches(self.proposing):
            alphas = np.full(len(part), self.alphas[self.which_shared])
            for (q_all, H_all), factor in zip(sums, MULTIPLES, strict=True):
                q, H = self._model(values, Q, Z[:, part], factor * alphas)
                q_all += (1.0 / self.sizes[part]) @ q
                H_all += np.tensordot(1.0 / self.sizes[part], H, 1)
        q_sums, H_sums = (np.array(parts) for parts in zip(*sums, strict=True))
        self.proposed[-1] = _minimum(q_sums, H_sums, weights)

    def _batches(self, some: Rows) -> list[Rows]:
        """Parts of some targets whose products with all kernels fit the memory of a batch."""
        n, n_kernels = self.y.shape[0], self.gram.n_kernels
        step = max(1, BATCH_BYTES // (8 * 3 * n * n_kernels))
        return [some[begin : begin + step] for begin in range(0, len(some), step)]

    def _model(self, values: Array, Q: Array, Z: Array, alphas: Array) -> tuple[Array, Array]:
        """``q`` (n_targets, n_kernels) and ``H`` (n_targets, n_kernels, n_kernels) of some targets."""
        g = 1.0 / (values[:, None] + alphas)
        coef = self.root[:, None] * (Q @ (g * Z))
        products = self.gram.matvecs(np.ascontiguousarray(coef.T)) * self.scale[:, None, None]
        q = np.einsum("mti,it->tm", products, coef)
        turned = (products * self.root) @ Q
        H = 2.0 * np.einsum("mti,it,lti->tml", turned, g, turned, optimize=True)
        return q, H

    def next_weights(self) -> list[Array]:
        """Means of groups of what targets propose, far from what was looked at."""
        points = np.concatenate(list(self.proposed.values()))
        return list(_centres(points, np.array(self.looked), EACH))

    def result(self, tol: float, n_looks: int, interrupted: bool) -> OwnTargets:
        """Solutions at what was chosen."""
        weights, alphas = np.array(self.looked)[self.at], self.alphas[self.which]
        certificate = self._certificate(weights, alphas, tol)
        alpha = float(np.exp(np.log(alphas).mean()))
        factors = alpha / alphas
        if interrupted:
            certificate = replace(certificate, status=Status.INTERRUPTED)
        solution = OwnSolution(
            weights * factors[:, None],
            self.coef / factors,
            0.0,
            certificate,
            n_looks,
            alpha=alpha,
            n_machines=n_looks,
            alphas=alphas,
            log_dets=self.log_dets,
        )
        own, shared = self.fold.sum(axis=0), self.fold_shared.sum(axis=0)
        return OwnTargets(solution, self.residuals, self.best, own, shared, n_looks, interrupted)

    def _certificate(self, weights: Array, alphas: Array, tol: float) -> Certificate:
        """Of the sum of all ridge regressions, from products with the kernels; see `RidgeProblem.rounding_bound`."""
        n, n_kernels = self.y.shape[0], self.gram.n_kernels
        roots = np.sqrt(np.maximum(self.gram.diagonal(), 0.0) * self.scale[:, None])
        unit = np.finfo(float).eps / 2 * SAFETY * math.sqrt(n + n_kernels + 8)
        sums = np.zeros(3)
        step = max(1, BATCH_BYTES // (8 * 4 * n * n_kernels))
        for begin in range(0, len(alphas), step):
            part = slice(begin, begin + step)
            C, d, alpha, y = self.coef[:, part], weights[part], alphas[part], self.y[:, part]
            products = self.gram.matvecs(np.ascontiguousarray(C.T)) * self.scale[:, None, None]
            quad = np.maximum(np.einsum("mti,it->tm", products, C), 0.0)
            fitted = np.einsum("tm,mti->it", d, products)
            level = np.einsum("tm,tm->t", d, quad)
            r = y - fitted - alpha * (C / self.w[:, None])
            gap = 0.5 * (self.w @ np.square(r))
            primal = 0.5 * (self.w @ np.square(y - fitted)) + 0.5 * alpha * level
            sizes, spread = roots @ np.abs(C), np.sqrt(np.square(roots) @ np.square(C))
            forms = (unit * sizes * (np.sqrt(quad.T) + spread)).T
            error = unit * np.sqrt(self.w @ np.square(roots.T @ (d.T * sizes)))
            error += np.finfo(float).eps * np.sqrt(8.0 * primal)
            rounding = alpha * np.einsum("tm,tm->t", d, forms)
            rounding += 2.0 * np.sqrt(2.0 * gap) * error + np.square(error) + 2.0 * unit * primal
            sums += primal.sum(), gap.sum(), rounding.sum()
        value, distance, errors = (float(one) for one in sums)
        return Certificate.of("machine", value, distance, errors, Status.CONVERGED, tol=tol)


def _factor(Q: Array, g: Array) -> tuple[Array, bool]:
    """Cholesky factor of ``Q diag(g) Q'``."""
    found: tuple[Array, bool] = cho_factor((Q * g) @ Q.T, lower=True, overwrite_a=True, check_finite=False)
    return found


def _minimum(q: Array, H: Array, start: Array) -> Array:
    """Minima over the simplex of ``-q'(d - start) + 1/2 (d - start)'H(d - start)``, a row for each model."""
    linear = q + H @ start
    bound = np.abs(H).sum(axis=2).max(axis=1)[:, None]
    step = 1.0 / np.where(bound > 0, bound, 1.0)
    d = z = np.tile(start, (len(q), 1))
    pace = 1.0
    for _ in range(MODEL_STEPS):
        new = _on_simplex(z - step * ((H @ z[:, :, None])[:, :, 0] - linear))
        following = (1.0 + math.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
        z = new + (pace - 1.0) / following * (new - d)
        d, pace = new, following
    return d


def _on_simplex(V: Array) -> Array:
    """Rows projected onto the simplex."""
    ordered = -np.sort(-V, axis=1)
    sums = np.cumsum(ordered, axis=1) - 1.0
    count = np.arange(1, V.shape[1] + 1)
    last = (ordered - sums / count > 0).sum(axis=1)
    shift = sums[np.arange(len(V)), last - 1] / last
    return np.maximum(V - shift[:, None], 0.0)


def _centres(points: Array, fixed: Array, most: int, rounds: int = 15) -> Array:
    """Centres of groups of points beside fixed centres, begun at the points that are farthest from all."""
    centres, n_fixed = fixed.copy(), len(fixed)
    nearest = np.square(points[:, None] - centres).sum(axis=2).min(axis=1)
    while len(centres) < n_fixed + most and nearest.max() > 1e-6:
        new = points[[int(nearest.argmax())]]
        centres = np.concatenate([centres, new])
        nearest = np.minimum(nearest, np.square(points - new).sum(axis=1))
    for _ in range(rounds):
        group = np.square(points[:, None] - centres).sum(axis=2).argmin(axis=1)
        for k in range(n_fixed, len(centres)):
            if (group == k).any():
                centres[k] = points[group == k].mean(axis=0)
    return centres[n_fixed:]
