"""Frobenius products of weighted, centred kernels, in panels of rows or through factors.

With sample weights w, ``p = w / sum(w)`` and ``K^c = (I - 1p') K (I - p1')``,

    <K_k, K_l> = sum_ij w_i w_j K^c_k[i, j] K^c_l[i, j] ,

as with rows repeated w times.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelweave._types import Array, Index
from kernelweave.gram import Gram
from kernelweave.gram.base import pieces
from kernelweave.gram.factors import sums_of_groups
from kernelweave.machines.rounding import sum_error

#: Fewest entries of a panel. Smaller ones cost more time for calls than they save memory.
PANEL = 2**18
#: Share of its uncentred size below which a centred kernel is only rounding error.
VANISHED = 1e-13


def frobenius_norms(gram: Gram, row_weight: Array) -> Array:
    """Frobenius norms of the centred kernels, shape (n_kernels,); exactly zero for constant kernels.

    Costs n^2 / 2 products for each kernel, or ``rank^2 n`` if it is stored as a factor of low rank.
    """
    low, full = _split(gram)
    squares = np.empty(gram.n_kernels)
    for m in low:
        Z = _factors(gram, [m], row_weight)
        # the products of the rows among themselves are fewer than those of the columns
        squares[m] = np.sum(np.square(Z @ Z.T))
    squares[full] = 0.0
    for flat in _panels(gram, full, row_weight):
        squares[full] += np.einsum("ml,ml->m", flat, flat)
    return _without_constants(gram, row_weight, np.sqrt(squares))


def frobenius_products(gram: Gram, row_weight: Array) -> tuple[Array, Array]:
    """Frobenius products of all pairs of centred kernels, and the error of each centred kernel.

    Pairs of kernels stored as factors of low rank cost ``rank_k rank_l n``, all others n^2 / 2. The additional
    memory is that of at most two matrices. Rows and columns of constant kernels are exactly zero.

    Returns
    -------
    products : array of shape (n_kernels, n_kernels)
    errors : array of shape (n_kernels,)
        Bounds of ``|computed K^c - K^c|``, in Frobenius norm, from rounding (centring subtracts numbers that are as
        large as the kernel before it) and from what factors leave out. Products are off by at most
        ``|K_k| errors_l + |K_l| errors_k`` and the rounding of a sum.
    """
    low, full = _split(gram)
    out = np.zeros((gram.n_kernels, gram.n_kernels))
    if len(low):
        out[np.ix_(low, low)] = _products_of_factors(gram, low, row_weight)
    if len(full):
        everything = np.concatenate([full, low])
        cross = np.zeros((len(full), len(everything)))
        for flat in _panels(gram, everything, row_weight):
            # without factors this is A A', half the work
            cross += flat[: len(full)] @ flat.T
        out[np.ix_(full, everything)] = cross
        out[np.ix_(everything, full)] = cross.T
    kept = _without_constants(gram, row_weight, np.sqrt(np.maximum(np.diag(out), 0.0))) > 0
    out[~kept] = 0.0
    out[:, ~kept] = 0.0
    return out, _errors(gram, row_weight, low if not len(full) else low[:0])


def _errors(gram: Gram, row_weight: Array, of_factors: Index) -> Array:
    """Bounds of the errors of centred kernels in Frobenius norm: of their entries, or through factors for some.

    With ``k_i = sqrt(K_ii)``, entries and means are off by a share of ``k_i k_j``, whose weighted norm is the weighted
    trace t. Factors are off by a share of ``sqrt(t)``, and their products by twice that times the centred factor.
    """
    unit = sum_error(gram.n_samples + int(max(gram.ranks.max(initial=0), 0)))
    traces = np.maximum(gram.diagonal() @ row_weight, 0.0)
    errors: Array = 4.0 * unit * traces
    for m in of_factors:
        centred = float(np.sum(np.square(_factors(gram, [m], row_weight))))
        wrong = 2.0 * unit * float(np.sqrt(traces[m]))
        errors[m] = 2.0 * wrong * float(np.sqrt(centred)) + wrong**2
    return errors + (gram.residual_trace + gram.rounding_trace) * row_weight.max()


def _without_constants(gram: Gram, row_weight: Array, norms: Array) -> Array:
    largest = gram.diagonal()[:, row_weight > 0].max(axis=1)
    norms[norms <= VANISHED * row_weight.sum() * largest] = 0.0
    return norms


def _split(gram: Gram) -> tuple[Index, Index]:
    """Kernels whose factors are cheaper than their entries, and the others."""
    ranks = gram.ranks
    low = (ranks >= 0) & (2 * np.square(ranks) <= gram.n_samples)
    return np.flatnonzero(low), np.flatnonzero(~low)


def _factors(gram: Gram, kernels: Index | list[int], row_weight: Array) -> Array:
    """Centred factor rows of some kernels one after another, columns times the roots of the weights."""
    parts = []
    chosen = np.zeros(gram.n_kernels)
    for m in kernels:
        chosen[m] = 1.0
        part = gram.factor(chosen)
        assert part is not None  # as found from the ranks
        parts.append(part)
        chosen[m] = 0.0
    Z = np.concatenate(parts)
    return (Z - (Z @ (row_weight / row_weight.sum()))[:, None]) * np.sqrt(row_weight)


def _products_of_factors(gram: Gram, low: Index, row_weight: Array) -> Array:
    """``|Z_k Z_l'|^2`` for pairs of factors, in blocks of about n_samples rows."""
    ranks = gram.ranks[low]
    block = np.cumsum(ranks) // max(gram.n_samples, 1)
    groups = [np.flatnonzero(block == b) for b in np.unique(block)]
    out = np.zeros((len(low), len(low)))
    for a, left in enumerate(groups):
        Z = _factors(gram, low[left], row_weight)
        for right in groups[a:]:
            other = Z if right is left else _factors(gram, low[right], row_weight)
            products = sums_of_groups(np.square(Z @ other.T), ranks[left])
            out[np.ix_(left, right)] = sums_of_groups(products.T, ranks[right]).T
            out[np.ix_(right, left)] = out[np.ix_(left, right)].T
    return out


def _panels(gram: Gram, kernels: Index, row_weight: Array) -> Iterator[Array]:
    """Yield flat panels (len(kernels), entries): over all panels, products of rows are the Frobenius products."""
    n = gram.n_samples
    if not len(kernels):
        return
    total = float(row_weight.sum())
    means = gram.matvecs(row_weight[None] / total, kernels)[:, 0]
    # half of the grand mean goes to the row and half to the column
    means -= 0.5 * (means @ row_weight)[:, None] / total
    root = np.sqrt(row_weight)
    chosen = None if np.array_equal(kernels, np.arange(gram.n_kernels)) else kernels
    for rows in pieces(n, max(PANEL, n * n // 2) // (len(kernels) * n)):
        first = rows.start
        panel = gram.panel(rows, chosen)
        panel -= means[:, rows, None]
        panel -= means[:, None, first:]
        # the square at the diagonal is complete, the part right of it counts for its mirror image too
        factor = np.outer(root[rows], root[first:])
        factor[:, rows.stop - first :] *= np.sqrt(2.0)
        panel *= factor
        yield panel.reshape(len(kernels), -1)
