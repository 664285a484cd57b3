"""Made-up problems with known structure, conditioning asserted where it matters."""

import numpy as np
import pytest

from kernelweave.gram.building import Builder

#: For tests whose judge needs more digits than those of the solver.
needs_long_double = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant <= np.finfo(float).nmant,
    reason="extended precision is double precision on this machine",
)


def unit_trace(gram):
    """Divide every kernel by its trace."""
    return gram / np.einsum("iim->m", gram)


def targets_for(loss, y):
    """Counts for the loss of that name which needs them; others take y as it is."""
    return np.floor(np.exp(y / y.std())) if loss == "poisson" else y


def rbf_stack(X, gammas):
    """RBF kernels on all columns and on each one, (n, n, len(gammas) * (n_columns + 1))."""
    stack = []
    for columns in [slice(None), *([j] for j in range(X.shape[1]))]:
        part = X[:, columns]
        distance = np.square(part[:, None, :] - part[None, :, :]).sum(axis=2)
        stack += [np.exp(-gamma * distance) for gamma in gammas]
    return np.stack(stack, axis=-1)


def make_problem(kind, rng):
    """Return (gram, y) of one of the named kinds."""
    n = 40
    X = rng.normal(size=(n, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)
    if kind == "dense":
        gram = rbf_stack(X, [0.1, 1.0, 10.0])
    elif kind == "low rank":
        gram = X[:, None, :] * X[None, :, :]
    elif kind == "duplicated":
        base = rbf_stack(X, [0.3, 3.0])
        gram = np.concatenate([base, base[:, :, :4]], axis=2)
    elif kind == "rank deficient":
        Z = rng.normal(size=(n, 3))
        gram = np.stack(
            [Z @ Z.T, np.ones((n, n)), np.outer(X[:, 0], X[:, 0]), np.zeros((n, n)) + 1e-3], axis=-1
        )
    elif kind == "mixed":
        gram = np.concatenate(
            [rbf_stack(X, [1.0]), X[:, None, :] * X[None, :, :], np.eye(n)[:, :, None]], axis=2
        )
    else:
        raise ValueError(kind)
    return unit_trace(gram), y


KINDS = ("dense", "low rank", "duplicated", "rank deficient", "mixed")


def compress(gram, *, tol, max_rank):
    """Packed triangles as factors with a bounded residual, where these are short enough."""
    builder = Builder(gram.n_samples, gram.n_kernels)
    builder.triangles(gram.n_kernels)[:] = gram.packed
    builder.keep_triangles(list(range(gram.n_kernels)), tol=tol, max_rank=max_rank)
    return builder.finish()
