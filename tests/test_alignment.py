"""Alignment and EasyMKL against dense formulas and a conic solver."""

import cvxpy as cp
import numpy as np
import pytest

from kernelweave import InputError
from kernelweave.gram import gram_from_stack
from kernelweave.solvers.alignment import align, easy_mkl, pair_products

N = 30


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(N, 4))
    squared = np.square(X[:, None] - X[None]).sum(axis=-1)
    smooth = np.stack([np.exp(-gamma * squared) for gamma in (0.05, 0.5)], axis=-1)
    y = np.where(X[:, 1] + 0.3 * rng.normal(size=N) > 0, 1.0, -1.0)
    return np.concatenate([smooth, X[:, None, :] * X[None, :, :]], axis=2), y


def centred(stack, w):
    H = np.eye(len(w)) - np.outer(np.ones(len(w)), w / w.sum())
    return np.einsum("ij,jkm,lk->ilm", H, stack, H)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduce", [False, True])
def test_alignments_are_the_dense_formula(problem, rng, weighted, reduce):
    stack, y = problem
    w = rng.uniform(0.5, 2.0, N) if weighted else np.ones(N)
    scale = rng.uniform(0.5, 2.0, stack.shape[2])
    K = centred(stack, w) * scale
    yc = y - w @ y / w.sum()
    W = np.outer(w, w)
    inner = np.einsum("ij,ijm,ij->m", W, K, np.outer(yc, yc))
    norms = np.sqrt(np.einsum("ij,ijm->m", W, K**2))
    expected = inner / norms / np.sqrt(np.sum(W * np.outer(yc, yc) ** 2))
    gram = gram_from_stack(stack, reduce=reduce)
    found = align(gram, y, scale=scale, sample_weight=w if weighted else None)
    np.testing.assert_allclose(found.alignments, expected, rtol=1e-9)
    np.testing.assert_allclose(
        found.weights, np.maximum(expected, 0) / np.maximum(expected, 0).sum(), rtol=1e-9
    )
    M = pair_products(gram, w) * np.outer(scale, scale)
    np.testing.assert_allclose(M, np.einsum("ij,ijk,ijl->kl", W, K, K), rtol=1e-9)


def test_alignf_is_the_conic_optimum(problem):
    stack, y = problem
    K = centred(stack, np.ones(N))
    a = np.einsum("ijm,i,j->m", K, y, y)
    M = np.einsum("ijk,ijl->kl", K, K)
    d = np.sqrt(np.diag(M))
    v = cp.Variable(len(a), nonneg=True)
    root = np.linalg.cholesky(M / np.outer(d, d) + 1e-13 * np.eye(len(a)))
    cp.Problem(cp.Minimize(cp.sum_squares(root.T @ v) - 2 * (a / d) @ v)).solve(solver=cp.CLARABEL)
    expected = v.value / d
    found = align(gram_from_stack(stack), y, scale=np.ones(len(a)), optimize=True)
    np.testing.assert_allclose(found.weights, expected / expected.sum(), atol=1e-5)
    assert found.residual < 1e-8

    def alignment(weights):
        return weights @ a / np.sqrt(weights @ M @ weights)

    simple = align(gram_from_stack(stack), y, scale=np.ones(len(a)))
    assert alignment(found.weights) >= alignment(simple.weights)


@pytest.mark.parametrize("lam", [0.05, 0.5, 1.0])
def test_easymkl_is_the_conic_optimum(problem, lam):
    stack, y = problem
    found = easy_mkl(gram_from_stack(stack), y, lam, scale=np.ones(stack.shape[2]), tol=1e-10)
    K = stack.sum(axis=2)
    values, vectors = np.linalg.eigh(K)
    root = (vectors * np.sqrt(np.maximum(values, 0))).T
    g = cp.Variable(N, nonneg=True)
    objective = (1 - lam) * cp.sum_squares((root * y) @ g) + lam * cp.sum_squares(g)
    task = cp.Problem(cp.Minimize(objective), [cp.sum(g[y > 0]) == 1, cp.sum(g[y < 0]) == 1])
    task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    b = y * found.gamma
    value = (1 - lam) * b @ K @ b + lam * b @ b
    assert value == pytest.approx(task.value, rel=1e-6)
    assert found.gamma[y > 0].sum() == pytest.approx(1.0)
    assert found.gamma[y < 0].sum() == pytest.approx(1.0)
    expected = np.einsum("i,ijm,j->m", b, stack, b)
    np.testing.assert_allclose(found.weights, expected / expected.sum(), rtol=1e-9)


def test_weights_are_repetitions(problem):
    stack, y = problem
    w = np.where(np.arange(N) % 3 == 0, 2.0, 1.0)
    copies = np.repeat(np.arange(N), w.astype(int))
    one, two = gram_from_stack(stack), gram_from_stack(stack[np.ix_(copies, copies)])
    ones = np.ones(stack.shape[2])
    for optimize in (False, True):
        a = align(one, y, scale=ones, sample_weight=w, optimize=optimize)
        b = align(two, y[copies], scale=ones, optimize=optimize)
        np.testing.assert_allclose(a.weights, b.weights, atol=1e-7)
    c = easy_mkl(one, y, scale=ones, sample_weight=w, tol=1e-10)
    d = easy_mkl(two, y[copies], scale=ones, tol=1e-10)
    np.testing.assert_allclose(c.weights, d.weights, atol=1e-6)


def test_align_does_not_see_scales_and_finds_the_planted_kernel(problem, rng):
    stack, y = problem
    gram = gram_from_stack(stack)
    plain = align(gram, y, scale=np.ones(stack.shape[2]))
    scaled = align(gram, y, scale=rng.uniform(0.01, 100.0, stack.shape[2]))
    np.testing.assert_allclose(plain.weights, scaled.weights, rtol=1e-9)
    assert int(np.argmax(plain.weights)) == 3  # the second column


def test_degenerate_input(problem):
    stack, y = problem
    constant = np.concatenate([np.ones((N, N, 1)), stack[:, :, 3:4]], axis=2)
    found = align(gram_from_stack(constant), y, scale=np.ones(2))
    np.testing.assert_allclose(found.weights, [0.0, 1.0], atol=1e-12)
    with pytest.raises(InputError, match="No kernel is aligned"):
        align(gram_from_stack(np.ones((N, N, 1))), y, scale=np.ones(1))
    with pytest.raises(InputError, match="above 0"):
        easy_mkl(gram_from_stack(stack), y, 0.0, scale=np.ones(stack.shape[2]))
