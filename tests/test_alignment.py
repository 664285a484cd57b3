"""Alignment, alignment of the combination and EasyMKL: dense formulas, independent optima, invariances, refusals.

Modules: `learners/alignment`, `mkl/criteria/alignment`, `mkl/criteria/easy_mkl`, `mkl/frobenius`, `mkl/problems`.
"""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy.optimize import nnls

import kernelweave as kw
from journeys import NEAR, defaults_of, in_few_iterations, verdicts
from kernelweave.gram import FactorGram, PackedGram, as_gram, concatenate, gram_from_stack
from kernelweave.machines.rounding import sum_error
from kernelweave.mkl import frobenius
from kernelweave.mkl.criteria import alignment as module
from kernelweave.solvers import solve_align, solve_alignf, solve_easy_mkl
from oracles import conic_value, factor_of
from problems import compress, needs_long_double, rbf_stack
from test_gram import FORMS


def make_data(n, rng):
    """A stack of RBF kernels, features and a constant kernel, labels and targets."""
    X = rng.normal(size=(n, 3))
    gram = np.concatenate(
        [rbf_stack(X, [0.1, 1.0]), X[:, None, :] * X[None, :, :], np.full((n, n, 1), 0.7)], axis=2
    )
    score = X[:, 0] + np.square(X[:, 1]) + 0.5 * rng.normal(size=n)
    return gram, np.where(score > np.quantile(score, 0.6), 1.0, -1.0), score


def dense_parts(gram, y, w=None):
    """M and a by the definition, and the length of the target matrix."""
    n = len(y)
    w = np.ones(n) if w is None else np.asarray(w, dtype=float)
    p = w / w.sum()
    H = np.eye(n) - np.outer(np.ones(n), p)
    root = np.sqrt(w)
    centred = np.stack([np.outer(root, root) * (H @ K @ H.T) for K in np.moveaxis(gram, -1, 0)])
    target = np.outer(root, root) * (H @ np.outer(y, y) @ H.T)
    flat = centred.reshape(len(centred), -1)
    return flat @ flat.T, flat @ target.ravel(), np.linalg.norm(target)


def dense_alignments(gram, y, w=None):
    M, a, length = dense_parts(gram, y, w)
    norms = np.sqrt(np.diag(M))
    constant = norms < 1e-10
    return np.where(constant, 0.0, a / np.where(constant, 1.0, norms)) / length


def alignment_of(gram, y, weights, w=None):
    return dense_alignments((gram @ weights)[:, :, None], y, w)[0]


def test_errors_of_centred_kernels_are_those_of_their_formula(rng):
    """Through factors alone, and beside a triangle, where products are those of entries."""
    n = 40
    w = rng.integers(0, 4, size=n) * 1.0
    Z = [rng.normal(size=(r, n)) + 3.0 for r in (1, 3)]
    left, rounded = np.array([0.5, 0.0]), np.array([0.25, 2.0])
    low = FactorGram(np.concatenate(Z), np.array([0, 1, 4]), left, rounded)
    full = rng.normal(size=(n, n))
    full = gram_from_stack((full @ full.T)[:, :, None], reduce=False)
    traces = [np.square(one).sum(axis=0) @ w for one in Z]
    H = np.eye(n) - np.outer(np.ones(n), w / w.sum())
    centred = [np.sqrt(np.square(one @ H.T * np.sqrt(w)).sum()) for one in Z]
    unit = sum_error(n + 3)
    wrong = 2.0 * unit * np.sqrt(traces)
    found = frobenius.frobenius_products(low, w)[1]
    np.testing.assert_allclose(
        found, 2.0 * wrong * centred + np.square(wrong) + 3.0 * (left + rounded), rtol=1e-12
    )
    np.testing.assert_allclose(found - 3.0 * (left + rounded), 2.0 * wrong * centred, rtol=0.1, atol=1e-15)
    found = frobenius.frobenius_products(concatenate([full, low]), w)[1]
    every = np.r_[full.diagonal()[0] @ w, traces]
    np.testing.assert_allclose(found, 4.0 * unit * every + 3.0 * np.r_[0.0, left + rounded], rtol=1e-12)


def test_what_a_row_without_weight_holds_decides_nothing(rng):
    """Beside its entries all others would be rounding errors."""
    Z = rng.normal(size=(40, 30))
    Z[0] *= 1e9
    w = np.r_[0.0, rng.uniform(0.5, 2.0, 39)]
    for factors in (Z, Z[:, :2]):
        stack = np.stack([factors @ factors.T, Z[:, 3:] @ Z[:, 3:].T], axis=2)
        found = frobenius.frobenius_norms(gram_from_stack(stack), w)
        M = dense_parts(stack[1:, 1:], w[1:], w[1:])[0]
        np.testing.assert_allclose(found, np.sqrt(np.diag(M)), rtol=1e-9)


def easy_value(K, y, lam, w, gamma):
    b = y * gamma
    return (1 - lam) * b @ K @ b + lam * np.sum(np.square(gamma) / w)


def easy_by_conic(K, y, lam, w):
    """Optimal value and solution of EasyMKL's program by CVXPY, the value of a feasible point."""
    import cvxpy as cp

    F, gamma = factor_of(K), cp.Variable(len(y), nonneg=True)
    objective = (1 - lam) * cp.sum_squares((F * y) @ gamma) + lam * cp.sum_squares(gamma / np.sqrt(w))
    sides = [cp.sum(gamma[y > 0]) == 1, cp.sum(gamma[y < 0]) == 1]
    # of order one, so that the tolerance of the cone solver is relative
    size = easy_value(K, y, lam, w, np.where(y > 0, 1 / (y > 0).sum(), 1 / (y < 0).sum()))
    conic_value(cp.Problem(cp.Minimize(objective / size), sides))
    point = np.maximum(gamma.value, 0.0)
    for side in (y > 0, y < 0):
        point[side] /= point[side].sum()
    return easy_value(K, y, lam, w, point), point


METHODS = {
    "align": solve_align,
    "alignf": solve_alignf,
    "easy": lambda gram, y, **options: solve_easy_mkl(gram, y, 0.2, tol=1e-12, **options),
}


@pytest.fixture(params=METHODS, ids=str)
def method(request):
    return METHODS[request.param]


# ---- against definitions ----------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labels", [False, True])
def test_alignments_by_definition(weighted, labels, rng):
    gram, y, t = make_data(37, rng)
    w = rng.uniform(0.2, 3.0, size=37) if weighted else None
    target = y if labels else t
    expected = dense_alignments(gram, target, w)
    result = solve_align(gram, target, sample_weight=w)
    np.testing.assert_allclose(result.alignments, expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(result.weights, expected / expected.sum(), rtol=1e-10, atol=1e-14)
    assert result.alignments[-1] == result.weights[-1] == 0.0
    np.testing.assert_array_equal(solve_alignf(gram, target, sample_weight=w).alignments[-1], 0.0)
    # whatever the unit of each kernel
    units = 10.0 ** rng.permutation(np.linspace(-15, 15, gram.shape[2]))
    for solve in (solve_align, solve_alignf):
        other = solve(gram * units, target, sample_weight=w)
        np.testing.assert_allclose(other.alignments, expected, rtol=1e-9, atol=1e-14)
    shares = solve_align(gram, target, sample_weight=w, scale=1.0 / units)
    np.testing.assert_allclose(shares.alignments, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("panel", [1, 2**18])
def test_products_by_definition(panel, rng, monkeypatch):
    monkeypatch.setattr(frobenius, "PANEL", panel)
    gram, y, _ = make_data(41, rng)
    w = rng.uniform(0.2, 3.0, size=41)
    M = dense_parts(gram, y, w)[0]
    M[-1] = M[:, -1] = 0.0
    for form in FORMS:
        held = form(gram)
        products = frobenius.frobenius_products(held, w)[0]
        np.testing.assert_allclose(products, M, rtol=1e-10, atol=1e-12 * M.max())
        # a matrix product is symmetric to rounding only; measured: 1.3e-15
        np.testing.assert_allclose(products, products.T, rtol=1e-13, atol=1e-13 * np.abs(products).max())
        np.testing.assert_allclose(frobenius.frobenius_norms(held, w), np.sqrt(np.diag(M)), rtol=1e-10)
        assert not products[-1].any()


def test_many_factors(rng):
    # more rows than samples: several blocks, kernels of rank 0 to 3 among them
    n, ranks = 23, rng.integers(0, 4, size=60)
    Z = rng.normal(size=(ranks.sum(), n))
    held = FactorGram(Z, np.r_[0, np.cumsum(ranks)])
    gram = np.stack([held.combine(unit) for unit in np.eye(60)], axis=-1)
    w = rng.uniform(0.5, 2.0, size=n)
    M, _, _ = dense_parts(gram, Z[0], w)
    products, errors = frobenius.frobenius_products(held, w)
    np.testing.assert_allclose(products, M, rtol=1e-9, atol=1e-12 * M.max())
    # measured: up to 1.1e-14 of the largest norm
    assert (errors <= 1e-13 * np.sqrt(M.max())).all()
    assert (errors[ranks > 0] > 0).all()
    np.testing.assert_allclose(frobenius.frobenius_norms(held, w), np.sqrt(np.diag(M)), rtol=1e-10)
    assert (frobenius.frobenius_norms(held, w)[ranks == 0] == 0).all()


def test_centring_loses_no_digits_that_are_there(rng):
    gram, _, t = make_data(30, rng)
    shifted = gram[:, :, :4] + 1e5
    np.testing.assert_allclose(
        solve_align(shifted, t).alignments, dense_alignments(gram[:, :, :4], t), rtol=1e-9
    )


# ---- alignment of the combination -------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_alignf_is_the_solution_of_least_squares(weighted, scaled, rng):
    gram, y, t = make_data(45, rng)
    w = rng.uniform(0.2, 3.0, size=45) if weighted else None
    s = np.exp(rng.normal(size=gram.shape[2])) if scaled else None
    kernels = gram if s is None else gram * s
    for target in (y, t):
        result = solve_alignf(gram, target, sample_weight=w, scale=s)
        M, a, _ = dense_parts(kernels[:, :, :-1], target, w)
        factor = np.linalg.cholesky(M)
        v, _ = nnls(factor.T, np.linalg.solve(factor, a))
        np.testing.assert_allclose(result.weights[:-1], v / v.sum(), atol=1e-7)
        assert result.weights[-1] == 0.0
        assert result.status is kw.solvers.Status.CONVERGED
        assert result.rel_gap <= 1e-10
        assert result.alignment == pytest.approx(alignment_of(kernels, target, result.weights, w), rel=1e-10)
        # better than each kernel and than weights by single alignments
        assert result.alignment >= result.alignments.max() * (1 - 1e-12)
        single = solve_align(gram, target, sample_weight=w, scale=s).weights
        assert result.alignment >= alignment_of(kernels, target, single, w) * (1 - 1e-12)


def test_alignf_against_the_cone_solver(rng):
    import cvxpy as cp

    gram, _, t = make_data(40, rng)
    M, a, length = dense_parts(gram, t)
    F, v = factor_of(M / np.trace(M)), cp.Variable(len(a), nonneg=True)
    size = np.abs(a).max()
    # the largest alignment is one over the smallest length at <a, v> = 1
    norm = conic_value(cp.Problem(cp.Minimize(cp.norm(F @ v)), [v @ (a / size) == 1]))
    best = size / (norm * np.sqrt(np.trace(M))) / length
    assert solve_alignf(gram, t).alignment == pytest.approx(best, rel=1e-8)


def test_alignf_bounds_the_optimum_from_both_sides(rng):
    X = rng.normal(size=(60, 6))
    gram = np.concatenate([rbf_stack(X, [0.05, 0.5]), X[:, None, :] * X[None, :, :]], axis=2)
    t = X @ rng.normal(size=6) + np.sin(3 * X[:, 0])
    best = solve_alignf(gram, t)
    assert best.n_iter > 3
    for most in range(1, best.n_iter):
        early = solve_alignf(gram, t, max_iter=most)
        assert early.alignment <= best.alignment * (1 + 1e-12)
        assert early.alignment + early.gap >= best.alignment * (1 - 1e-12)
        assert early.alignment == pytest.approx(alignment_of(gram, t, early.weights), rel=1e-9)
        assert early.n_iter <= most
    assert solve_alignf(gram, t, max_iter=1).status is kw.solvers.Status.MAX_ITER


def raw_problem(number):
    """One to six kernels of columns far from zero: as matrices, as columns, or quadratic."""
    rng = np.random.default_rng(number)
    n, m = int(rng.integers(5, 60)), int(rng.integers(1, 7))
    offset = float(rng.choice([0.0, 1.0, 100.0, 2000.0, 2e4]))
    X = rng.normal(size=(n, m)) * np.exp(rng.uniform(0.0, 2.0) * rng.normal(size=m)) + offset
    matrices = X[:, None, :] * X[None]
    gram = [matrices, FactorGram.from_columns(X), (1.0 + matrices / max(offset, 1.0)) ** 2][number % 3]
    y = rng.normal(size=n) + (X[:, 0] - offset) * rng.choice([0.0, 1.0]) + rng.choice([0.0, 5.0])
    w = rng.uniform(0.2, 3.0, n) if rng.random() < 0.3 else None
    # products of columns are exact in extended precision
    exact = X.astype(np.longdouble)
    return gram, exact[:, None, :] * exact[None] if number % 3 == 1 else gram, y, w


def in_extended_precision(kernels, y, w):
    """Products of centred kernels, and with the target; differences to the first row lose no digits."""
    w = np.ones(len(y), np.longdouble) if w is None else w.astype(np.longdouble)
    p, root = w / w.sum(), np.sqrt(w)
    K = kernels.astype(np.longdouble)
    K = (K - K[:1]) - (K[:, :1] - K[:1, :1])
    K = K - np.einsum("i,ijm->jm", p, K)
    K = K - np.einsum("ijm,j->im", K, p)[:, None]
    F = (K * root[:, None, None] * root[None, :, None]).reshape(-1, K.shape[2])
    t = y.astype(np.longdouble) - np.longdouble(y[0])
    t = t - p @ t
    t = root * t / np.sqrt(w @ np.square(t))
    return F.T @ F, F.T @ np.outer(t, t).ravel()


def largest_alignment(M, a):
    """Over all supports; each of these values is attained."""
    best = np.longdouble(0)
    size = np.sqrt(np.diag(M))
    for support in itertools.product([False, True], repeat=len(a)):
        own = np.array(support)
        if not own.any():
            continue
        A, b = (M / np.outer(size, size))[np.ix_(own, own)], (a / size)[own]
        x = np.zeros(own.sum(), np.longdouble)
        for _ in range(6):
            x = x + np.linalg.lstsq(A.astype(float), (b - A @ x).astype(float), rcond=1e-12)[0]
        x = np.maximum(x, 0)
        if x.any():
            best = max(best, (x @ b) / np.sqrt(x @ A @ x))
    return best


@needs_long_double
@pytest.mark.parametrize("built", [False, True])
def test_alignf_bounds_the_optimum_of_columns_far_from_zero(built):
    """Half of these upper bounds were below the largest alignment, by up to 2e-7."""
    judged = 0
    # of matrices that were made a stack beforehand, these were wrong longer than those that the solver took itself
    for number in [*range(90), 114, 258, 267, 297, 336, 546]:
        gram, kernels, y, w = raw_problem(number)
        try:
            found = solve_alignf(as_gram(gram) if built else gram, y, sample_weight=w)
        except kw.InputError:  # columns that do not vary with y
            continue
        judged += 1
        M, a = in_extended_precision(kernels, y, w)
        best, v = largest_alignment(M, a), found.weights.astype(np.longdouble)
        assert best <= np.longdouble(found.dual) + 1e-18, number
        assert best - v @ a / np.sqrt(v @ M @ v) <= found.gap + 1e-18, number
        # and it says so where rounding decides
        assert found.status is (
            kw.solvers.Status.CONVERGED if found.rel_gap <= 1e-10 else kw.solvers.Status.ROUNDING
        )
    assert judged > 85


def test_alignf_of_orthogonal_features_is_the_square_of_the_coefficients():
    X = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    result = solve_alignf(X[:, None, :] * X[None, :, :], X @ [3.0, 1.0, 0.0] + 5.0)
    np.testing.assert_allclose(result.weights, [0.9, 0.1, 0.0], atol=1e-14)
    # (0.9 * 0.9 + 0.1 * 0.1) / |(0.9, 0.1)|
    assert result.alignment == pytest.approx(np.sqrt(0.82), rel=1e-13)


def test_alignf_survives_singular_products(rng):
    gram, _, t = make_data(40, rng)
    alone = solve_alignf(gram, t)
    doubled = solve_alignf(np.concatenate([gram, gram, 1e6 * gram[:, :, :2]], axis=2), t)
    assert doubled.status is kw.solvers.Status.CONVERGED
    assert doubled.alignment == pytest.approx(alone.alignment, rel=1e-10)
    # many nearly equal kernels
    X = rng.normal(size=(40, 1))
    close = rbf_stack(X, np.linspace(1.0, 1.01, 30))
    result = solve_alignf(close, t)
    assert result.rel_gap <= 1e-10
    assert result.weights.sum() == pytest.approx(1.0)


# ---- EasyMKL ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [1e-3, 0.1, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_easy_mkl_against_the_cone_solver(lam, weighted, rng):
    gram, y, _ = make_data(50, rng)
    w = rng.uniform(0.2, 3.0, size=50) if weighted else np.ones(50)
    s = np.exp(0.5 * rng.normal(size=gram.shape[2]))
    result = solve_easy_mkl(gram, y, lam, scale=s, sample_weight=w if weighted else None, tol=1e-10)
    K = gram @ s
    value, _ = easy_by_conic(K, y, lam, w)
    gamma = y * result.dual_coef
    assert (gamma >= 0).all()
    assert gamma[y > 0].sum() == pytest.approx(1.0, rel=1e-14)
    assert gamma[y < 0].sum() == pytest.approx(1.0, rel=1e-14)
    assert result.status is kw.solvers.Status.CONVERGED
    assert 0 <= result.rel_gap <= 1e-10
    assert result.intercept == 0.0
    assert result.primal == pytest.approx(easy_value(K, y, lam, w, gamma), rel=1e-12)
    assert result.primal == pytest.approx(value, rel=1e-7)
    assert result.dual <= value * (1 + 1e-12)
    quadratic_forms = s * np.einsum("ijm,i,j->m", gram, result.dual_coef, result.dual_coef)
    np.testing.assert_allclose(result.weights, quadratic_forms / quadratic_forms.sum(), rtol=1e-9, atol=1e-14)
    assert result.weights[-1] == 0.0
    if lam == 1.0:
        np.testing.assert_allclose(gamma, w / np.where(y > 0, w[y > 0].sum(), w[y < 0].sum()), rtol=1e-4)


def test_easy_mkl_without_a_ridge(rng):
    X = rng.normal(size=(60, 4))
    y = np.sign(X[:, 0] + 0.5 * X[:, 1])
    X[:, 0] += 0.3 * y
    for gram in (X[:, None, :] * X[None, :, :], rbf_stack(X, [0.3])):
        result = solve_easy_mkl(gram, y, 0.0)
        value, _ = easy_by_conic(gram.sum(axis=2), y, 0.0, np.ones(60))
        assert result.status is kw.solvers.Status.CONVERGED
        assert result.primal == pytest.approx(value, rel=1e-6)
        assert result.dual <= value * (1 + 1e-9)
        # the squared distance of the hulls: the machine without slack has a margin of half of it
        machine = kw.solve_svc(gram.sum(axis=2), y, 1e8, tol=1e-8)
        assert result.primal == pytest.approx(2.0 / machine.primal, rel=1e-6)


def test_easy_mkl_without_a_ridge_has_errors_in_the_unit_of_its_kernels(rng):
    X = rng.normal(size=(60, 4))
    X[:, 0] += 0.3 * np.sign(X[:, 0])
    gram, y = rbf_stack(X, [0.3]), np.sign(X[:, 0])
    one = solve_easy_mkl(gram, y, 0.0)
    assert 0.0 < one.rounding <= 1e-8 * one.primal
    for unit in (2.0**-20, 2.0**20):
        other = solve_easy_mkl(unit * gram, y, 0.0)
        np.testing.assert_allclose(other.rounding, unit * one.rounding, rtol=1e-3)
        np.testing.assert_allclose(other.primal, unit * one.primal, rtol=1e-6)


def test_easy_mkl_starts_from_another_solution(rng):
    gram, y, _ = make_data(80, rng)
    cold = solve_easy_mkl(gram, y, 0.1)
    near = solve_easy_mkl(gram, y, 0.11)
    for start in (cold, near):
        warm = solve_easy_mkl(gram, y, 0.1, start=start.dual_coef)
        assert warm.status is kw.solvers.Status.CONVERGED
        assert warm.n_iter < cold.n_iter
        np.testing.assert_allclose(warm.weights, cold.weights, rtol=1e-3)
    with pytest.raises(kw.InputError, match="`start`"):
        solve_easy_mkl(gram, y, 0.1, start=cold.dual_coef[1:])


def test_easy_mkl_says_when_the_classes_overlap(rng):
    X = rng.normal(size=(60, 2))
    y = np.sign(rng.normal(size=60))
    gram = X[:, None, :] * X[None, :, :]
    # stopped early there is only a status; solved, the mixtures meet and no weights are left
    early = solve_easy_mkl(gram, y, 0.0, max_iter=20)
    assert not early.status.ok
    assert -early.rounding - 4e-16 * early.primal <= early.dual <= 0.0
    with pytest.raises(kw.InputError, match="Raise lam"):
        solve_easy_mkl(gram, y, 0.0)
    # the mixtures are so near to each other that rounding errors are 9e-7 of what is left between them
    assert solve_easy_mkl(gram, y, 1e-6, tol=1e-5).status is kw.solvers.Status.CONVERGED
    assert solve_easy_mkl(gram, y, 1e-6).status is kw.solvers.Status.ROUNDING


def test_easy_mkl_bounds_the_optimum_from_both_sides(rng):
    gram, y, _ = make_data(80, rng)
    best = solve_easy_mkl(gram, y, 0.1, tol=1e-12)
    assert best.rel_gap <= 1e-10  # measured: 9e-12, rounding errors
    assert best.gap - best.rounding <= 1e-12 * best.primal
    for most in (1, 3, 10, 30):
        early = solve_easy_mkl(gram, y, 0.1, max_iter=most, tol=1e-12)
        assert early.dual <= best.primal * (1 + 1e-12)
        assert early.primal >= best.dual * (1 - 1e-12)
        assert early.primal - early.dual == pytest.approx(early.gap, rel=1e-12)
        assert early.dual >= -early.rounding - 4e-16 * early.primal
    assert solve_easy_mkl(gram, y, 0.1, max_iter=1).status is kw.solvers.Status.MAX_ITER


def test_easy_mkl_that_never_began_holds_the_means_of_the_classes():
    rng = np.random.default_rng(2)  # where a first step happens to help, it is kept
    gram, y, _ = make_data(80, rng)
    w = rng.uniform(0.5, 2.0, size=80)
    means = w / np.where(y > 0, w[y > 0].sum(), w[y < 0].sum())
    runs = [
        solve_easy_mkl(gram, y, lam, max_iter=k, sample_weight=w)
        for lam in (0.01, 0.1)
        for k in (1, 2, 3, 10)
    ]
    found = [y * run.dual_coef for run in runs if run.dual_coef.all()]
    assert found  # the coefficients of an unfinished run are few, or none
    for gamma in found:
        np.testing.assert_allclose(gamma, means, rtol=1e-12)


def test_easy_mkl_counts_what_truncated_factors_leave_out(rng):
    X = rng.normal(size=(40, 3))
    y = np.sign(X[:, 0])
    gram = rbf_stack(X, [0.3])
    rows, lost, sizes = [], [], []
    for m in range(gram.shape[2]):
        F = factor_of(gram[:, :, m])[::-1][:12]
        rows.append(F)
        sizes.append(len(F))
        lost.append(np.trace(gram[:, :, m]) - np.square(F).sum())
    held = FactorGram(np.concatenate(rows), np.r_[0, np.cumsum(sizes)], np.array(lost))
    result = solve_easy_mkl(held, y, 0.3)
    exact = solve_easy_mkl(gram, y, 0.3)
    assert result.status is kw.solvers.Status.TRUNCATED
    assert result.dual <= exact.primal
    assert exact.dual <= result.primal
    assert result.primal >= easy_value(gram.sum(axis=2), y, 0.3, 1.0, y * result.dual_coef)
    assert result.rel_gap < 1.0


# ---- all three --------------------------------------------------------------------------------------


def same(left, right, tol=1e-6):
    """Equal results, whatever fields they have."""
    np.testing.assert_allclose(left.weights, right.weights, atol=tol)
    for name in {"alignments", "alignment", "primal"} & {field.name for field in dataclasses.fields(left)}:
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_representation_gives_the_same_answer(form, method, rng):
    gram, y, _ = make_data(48, rng)
    w = rng.uniform(0.2, 3.0, size=48)
    held = form(gram)
    before = held.combine(np.arange(1.0, 1 + gram.shape[2]))
    same(method(held, y, sample_weight=w), method(gram, y, sample_weight=w))
    np.testing.assert_array_equal(held.combine(np.arange(1.0, 1 + gram.shape[2])), before)


def test_a_weight_is_a_repetition_and_zero_is_removal(method, rng):
    gram, y, _ = make_data(40, rng)
    w = rng.integers(0, 4, size=40)
    rows = np.repeat(np.arange(40), w)
    result = method(gram, y, sample_weight=w)
    same(result, method(gram[np.ix_(rows, rows)], y[rows]))
    kept = np.flatnonzero(w)
    same(result, method(gram[np.ix_(kept, kept)], y[kept], sample_weight=w[kept]))
    same(result, method(PackedGram(gram_from_stack(gram, reduce=False).packed, 40), y, sample_weight=w))
    # and it matters
    assert np.abs(result.weights - method(gram, y).weights).max() > 1e-3


def test_weights_of_rows_have_no_unit(method, rng):
    gram, y, _ = make_data(40, rng)
    w = rng.uniform(0.2, 3.0, size=40)
    a, b = method(gram, y, sample_weight=w), method(gram, y, sample_weight=100 * w)
    if method is METHODS["easy"]:  # there, as for the machines, they stand beside lam
        b = solve_easy_mkl(gram, y, 0.2 * 100 / (0.8 + 0.2 * 100), sample_weight=100 * w, tol=1e-12)
    np.testing.assert_allclose(a.weights, b.weights, atol=1e-6)


def test_permutations(method, rng):
    gram, y, _ = make_data(40, rng)
    w = rng.uniform(0.2, 3.0, size=40)
    rows, kernels = rng.permutation(40), rng.permutation(gram.shape[2])
    result = method(gram, y, sample_weight=w)
    moved = method(gram[np.ix_(rows, rows, kernels)], y[rows], sample_weight=w[rows])
    np.testing.assert_allclose(moved.weights, result.weights[kernels], atol=1e-6)
    np.testing.assert_allclose(method(gram, -y, sample_weight=w).weights, result.weights, atol=1e-6)


def test_scale_is_a_factor_of_the_kernels(method, rng):
    gram, y, _ = make_data(40, rng)
    s = np.exp(2 * rng.normal(size=gram.shape[2]))
    scaled = method(gram, y, scale=s)
    same(scaled, method(gram * s, y))
    plain = method(gram, y)
    if method is METHODS["align"]:
        np.testing.assert_allclose(scaled.weights, plain.weights, atol=1e-12)
    if method is METHODS["alignf"]:
        expected = plain.weights / s
        np.testing.assert_allclose(scaled.weights, expected / expected.sum(), atol=1e-9)


def test_targets_up_to_shift_and_factor(rng):
    gram, _, t = make_data(40, rng)
    for method in (solve_align, solve_alignf):
        result = method(gram, t)
        for moved in (1e8 * t, 1e-200 * t, -3 * t + 50):
            np.testing.assert_allclose(method(gram, moved).weights, result.weights, atol=1e-9)


def test_the_planted_kernel_is_found(method, rng):
    X = rng.normal(size=(200, 8))
    y = np.sign(X[:, 3] + 0.3 * rng.normal(size=200))
    weights = method(X[:, None, :] * X[None, :, :], y).weights
    assert int(np.argmax(weights)) == 3
    assert weights[3] > 0.5
    # a target that is a kernel's own function, in a bank where no other kernel sees it
    gram = rbf_stack(X[:, :3], [1.0])
    y = np.sign(np.sin(3 * X[:, 1]))
    assert int(np.argmax(solve_align(gram, y).weights)) == 2


def test_constant_kernels_get_nothing(method, rng):
    gram, y, _ = make_data(300, rng)
    for size in (1.0, 1e8, 1e-8):
        more = np.concatenate([np.full((300, 300, 1), size / 3), gram, np.zeros((300, 300, 1))], axis=2)
        for held in (gram_from_stack(more), gram_from_stack(more, reduce=False)):
            weights = method(held, y, sample_weight=rng.uniform(0.5, 2, size=300)).weights
            assert weights[0] == weights[-1] == weights[-2] == 0.0
            assert weights.sum() == pytest.approx(1.0, rel=1e-13)
            assert (weights >= 0).all()


def test_nothing_to_be_aligned_with(method, rng):
    _, y, _ = make_data(30, rng)
    for gram in (np.ones((30, 30, 2)), np.zeros((30, 30, 2))):
        with pytest.raises(kw.InputError, match=r"At least one kernel|must not all be zero"):
            method(gram, y)
    # varies, but not where the targets do
    odd = np.tile([1.0, -1.0], 4)
    even = np.repeat([1.0, -1.0], 4)
    with pytest.raises(kw.InputError, match="At least one kernel"):
        solve_align(np.outer(odd, odd), even)


def test_refusals(method, rng):
    gram, y, _ = make_data(30, rng)
    bad = y.copy()
    bad[3] = np.nan
    for arguments, message in (
        ((gram, y[:-1]), "`y` must have one"),
        ((gram, bad), "`y` must"),
        ((gram, np.ones(30)), "`y` must"),
        ((gram, np.zeros(30)), "`y` must"),
        ((gram, ["a"] * 30), "`y` must"),
        ((gram[:, :20], y), "Kernels must have shape"),
    ):
        with pytest.raises(kw.InputError, match=message):
            method(*arguments)
    for options, message in (
        ({"scale": np.ones(2)}, "`scale` must hold one factor"),
        ({"scale": np.zeros(gram.shape[2])}, "`scale` must be finite positive"),
        ({"sample_weight": np.ones(29)}, "`sample_weight` must have"),
        ({"sample_weight": -np.ones(30)}, "`sample_weight` must be finite nonnegative"),
        ({"sample_weight": np.zeros(30)}, "`sample_weight` must leave"),
        ({"sample_weight": (y > 0).astype(float)}, "`y` must"),
    ):
        with pytest.raises(kw.InputError, match=message):
            method(gram, y, **options)


def test_refusals_of_numbers(rng):
    gram, y, t = make_data(30, rng)
    for lam in (-0.1, 1.1, np.nan, "much"):
        with pytest.raises(kw.InputError, match="`lam` must"):
            solve_easy_mkl(gram, y, lam)
    for tol in (0.0, 2.0):
        with pytest.raises(kw.InputError, match="`tol`"):
            solve_easy_mkl(gram, y, 0.1, tol=tol)
        with pytest.raises(kw.InputError, match="`tol`"):
            solve_alignf(gram, y, tol=tol)
    for run in (solve_easy_mkl, solve_alignf):
        with pytest.raises(kw.InputError, match="`max_iter`"):
            run(gram, y, max_iter=0)
    with pytest.raises(kw.InputError, match=r"labels -1 and \+1"):
        solve_easy_mkl(gram, t)


def test_results_are_frozen(method, rng):
    gram, y, _ = make_data(30, rng)
    with pytest.raises(dataclasses.FrozenInstanceError):
        method(gram, y).weights = None


def test_one_kernel(method, rng):
    gram, y, _ = make_data(30, rng)
    np.testing.assert_array_equal(method(gram[:, :, 0], y).weights, [1.0])


def value_and_gap(A, target, u):
    """The cosine of A u with the target, and how much larger that of any other u >= 0 can be."""
    direction = A @ u / np.linalg.norm(A @ u)
    value = direction @ target
    return value, np.linalg.norm(np.maximum(A.T @ (target - value * direction), 0.0))


def test_near_dependence_keeps_nothing_busy():
    # bumps so wide that few differ: what rounding alone would let enter is refused, once
    places = np.linspace(0, 1, 60)[:, None] - np.linspace(0, 1, 200)
    A = np.exp(-0.5 * np.square(places / 3.0))
    A /= np.linalg.norm(A, axis=0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        target = A @ rng.uniform(size=200) + 0.1 * np.abs(rng.normal(size=60))
        target /= np.linalg.norm(target)
        u, n_iter = module._nonnegative_least_squares(A.T @ A, A.T @ target, 1e-16, 2000)
        value, gap = value_and_gap(A, target, u)
        assert gap <= 1e-9 * value
        assert n_iter < 300


@pytest.mark.parametrize("bank", ["random", "dependent", "narrow", "wide", "flat"])
def test_active_set_with_many_exchanges(bank, rng):
    # nonnegative vectors, as cosines of kernels are nonnegative
    if bank in ("random", "dependent"):
        A = np.square(rng.normal(size=(60 if bank == "random" else 8, 40))) + 0.3
    else:
        width = {"narrow": 0.02, "wide": 0.1, "flat": 0.4}[bank]
        places = np.linspace(0, 1, 60)[:, None] - np.linspace(0, 1, 40)
        A = np.exp(-0.5 * np.square(places / width))
    A /= np.linalg.norm(A, axis=0)
    target = A @ np.maximum(rng.normal(size=40), 0) + 0.5 * np.abs(rng.normal(size=len(A)))
    target /= np.linalg.norm(target)
    u, n_iter = module._nonnegative_least_squares(A.T @ A, A.T @ target, 1e-9, 300)
    value, gap = value_and_gap(A, target, u)
    v, distance = nnls(A, target)
    assert (u >= 0).all()
    assert gap <= 1e-9 * value
    # the squared distance of a vector of length 1 from a cone is 1 - value^2
    assert value == pytest.approx(np.sqrt(1 - distance**2), rel=1e-9)
    if bank in ("random", "narrow"):
        np.testing.assert_allclose(u / u.sum(), v / v.sum(), atol=1e-7)
    if bank == "wide":
        # kernels left the active set on the way
        assert n_iter > (u > 0).sum()


def test_weights_by_single_alignments_claim_no_optimum(rng):
    gram, y, _ = make_data(30, rng)
    found = solve_align(gram, y)
    assert np.isnan([found.primal, found.dual, found.gap, found.rel_gap]).all()


@needs_long_double
def test_errors_of_kernels_cover_what_centring_and_sums_round(rng):
    n = 30
    stack = rbf_stack(rng.normal(size=(n, 4)), (0.3,)) + 1e3  # centring subtracts what is large
    at = module.KernelTargets.of(as_gram(stack), rng.normal(size=n), np.ones(n))
    centre = np.eye(n, dtype=np.longdouble) - np.longdouble(1) / n
    exact = np.stack([(centre @ stack[:, :, k].astype(np.longdouble) @ centre).ravel() for k in at.used])
    exact /= np.sqrt(np.square(exact).sum(axis=1, keepdims=True))
    off = np.abs(at.cosines - exact @ exact.T).astype(float)
    assert (off <= at.errors[:, None] + at.errors).all()
    # a sum of n^2 products is off by about n roundings of its length, beside what centring leaves
    _, centring = frobenius.frobenius_products(as_gram(stack), np.ones(n))
    assert (at.errors >= centring[at.used] / at.lengths + n * np.finfo(float).eps).all()


def test_errors_of_kernels_cover_what_factors_leave_out_in_every_weight(rng):
    """In units of the weights and of the kernels; the norms are of what is stored."""
    Z, V, w = rng.normal(size=(6, 20)), rng.normal(size=(3, 2, 20)), rng.uniform(0.5, 9.0, 20)
    traces, E = np.square(V).sum(axis=(1, 2)), np.einsum("mri,mrj->mij", V, V)
    H = np.eye(20) - w / w.sum()
    for unit, times, first in itertools.product((1e-3, 1e3), (1.0, 100.0), (True, False)):
        bounds = [unit * traces, 0.0 * traces][:: 1 if first else -1]
        gram = FactorGram(np.sqrt(unit) * Z, np.array([0, 2, 4, 6]), *bounds)
        products, errors = frobenius.frobenius_products(gram, times * w)
        pairs = times * np.sqrt(np.outer(w, w))
        for m in range(3):
            left = H @ (unit * E[m]) @ H.T * pairs
            assert errors[m] >= np.linalg.norm(left) * (1.0 - 1e-9)
            assert errors[m] <= unit * traces[m] * times * w.max() * (1.0 + 1e-9)
            own = H @ (unit * Z[2 * m : 2 * m + 2].T @ Z[2 * m : 2 * m + 2]) @ H.T * pairs
            assert products[m, m] == pytest.approx(np.square(own).sum(), rel=1e-9)


@pytest.mark.parametrize("method", [solve_align, solve_alignf])
def test_targets_of_rows_that_do_not_count_may_be_anything(method, rng):
    gram, _, t = make_data(30, rng)
    weight = np.ones(30)
    weight[4] = 0.0
    wild = t.copy()
    wild[4] = 1e80
    found, wanted = method(gram, wild, sample_weight=weight), method(gram, t, sample_weight=weight)
    np.testing.assert_allclose(found.weights, wanted.weights, rtol=1e-9)
    np.testing.assert_allclose(found.alignments, wanted.alignments, rtol=1e-9)


@pytest.mark.parametrize("learner", ["align", "alignf", "easy"])
def test_learners_take_kernels_as_they_were_normalised(learner, rng):
    """A kernel in another unit has the same weight."""
    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] + 0.4 * X[:, 1] + 0.3 * rng.normal(size=40) > 0, 1, -1)
    stack = X[:, None, :] * X[None, :, :]
    weights = [
        kw.MKLClassifier(kernels="precomputed", learner=learner, C=1.0).fit(stack * unit, y).weights_
        for unit in ([1.0, 1.0, 1.0], [100.0, 1.0, 0.01])
    ]
    np.testing.assert_allclose(weights[1], weights[0], atol=1e-7)
    assert np.ptp(weights[0]) > 0.1


# ---- recorded -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["matrices", "factors", "truncated", "panels"])
def test_weights_before_a_machine(form, monkeypatch, recorded):
    gram, labels, score = make_data(24, np.random.default_rng(0))
    n, n_kernels = len(labels), gram.shape[2]
    if form == "panels":
        monkeypatch.setattr(frobenius, "PANEL", 7 * n_kernels * n)
    stack = gram_from_stack(gram)
    if form in ("factors", "truncated"):
        stack = compress(
            stack, tol=1e-12 if form == "factors" else 1e-7, max_rank=3 if form == "factors" else 20
        )
    given = {
        "sample_weight": np.where(np.arange(n) % 7 == 3, 0.0, 0.5 + np.arange(n) / n),
        "scale": np.linspace(0.4, 2.0, n_kernels)[::-1],
    }
    for name, target in (("labels", labels), ("numbers", score)):
        aligned = solve_align(stack, target, **given)
        recorded(f"align, {name}", [aligned.weights, aligned.alignments], **NEAR)
        found = solve_alignf(stack, target, **given)
        recorded(f"alignf, {name}", [found.primal, found.weights, found.alignments], rtol=1e-5, atol=1e-6)
        problem = kw.problems.alignf_problem(stack, target, **given)
        assert verdicts(problem, found) == [found.status.name]
        assert 1e-16 < found.rounding < (0.1 if form == "truncated" else 1e-11)
    in_few_iterations(found, 12)
    few = solve_alignf(stack, score, max_iter=2, **given)
    assert few.primal < found.primal < few.primal + few.gap
    for lam in (0.0, 0.3, 1.0):
        found = solve_easy_mkl(stack, labels, lam, **given)
        recorded(f"easy {lam}", [found.primal, found.weights], rtol=1e-4, atol=1e-6)
        problem = kw.problems.easy_mkl_problem(stack, labels, lam, **given)
        assert verdicts(problem, found) == [found.status.name]
    if form == "matrices":
        recorded("statement", vars(problem.statement(found)))
        of = (
            solve_align,
            solve_alignf,
            solve_easy_mkl,
            kw.problems.alignf_problem,
            kw.problems.easy_mkl_problem,
        )
        recorded("defaults", defaults_of(*of))
