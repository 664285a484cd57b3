"""Kernels that say nothing about new rows: found, kept on the model, and told of where they matter.

Modules: `gram/uninformative`.
"""

import warnings

import numpy as np
import pytest
from scipy.stats import ortho_group

import kernelweave as kw
from kernelweave.fitting.source import TableSource
from kernelweave.gram import FactorGram, PackedGram, gram_from_stack, identities_and_constants
from kernelweave.gram.uninformative import ALONE, spread_and_alignment
from kernelweave.kernels import RBF, Constant, Linear
from kernelweave.learners import RLS2, Uniform
from kernelweave.views import as_table


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 300))
    return X, np.where(X[:, :3].sum(axis=1) > 0, 1, -1)


def looks(gram):
    return [list(found) for found in identities_and_constants(gram)]


def test_a_gaussian_that_is_too_narrow_is_named(wide):
    X, y = wide
    model = kw.MKLClassifier([RBF(gamma=0.1)], RLS2(alpha=1.0), standardize=True)
    with pytest.warns(
        kw.KernelWarning,
        match=r"All kernels are the identity.*'RBF\(gamma=0.1\) on all'.*larger length.*smaller gamma",
    ):
        model.fit(X, y)
    assert model.uninformative_kernels_ == [("RBF(gamma=0.1) on all", "identity")]


def test_a_gaussian_of_the_right_width_is_not(wide):
    X, y = wide
    model = kw.MKLClassifier([RBF(gamma=1 / 300), Linear()], RLS2(alpha=1.0), standardize=True).fit(X, y)
    assert model.uninformative_kernels_ == []


def test_most_of_the_weight_decides_whether_to_warn(wide):
    X, y = wide
    narrow = [RBF(gamma=g) for g in (0.1, 0.2, 0.3, 0.4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = kw.MKLClassifier([*narrow[:1], Linear(), RBF(gamma=1 / 300)], Uniform(), standardize=True)
        few.fit(X, y)
    assert few.uninformative_kernels_ == [("RBF(gamma=0.1) on all", "identity")]
    with pytest.warns(kw.KernelWarning, match=r"80 % of the weight is on.*0.1.*0.2.*0.3.* and 1 more\."):
        kw.MKLClassifier([*narrow, Linear()], Uniform(), standardize=True).fit(X, y)


@pytest.mark.parametrize("normalize", ["mean-diagonal", "center", None])
def test_a_constant_is_named_without_a_warning(wide, normalize):
    X, y = wide
    kernels = [Constant(2.0), Linear(), RBF(gamma=1e-16)]
    model = kw.MKLClassifier(kernels, RLS2(alpha=1.0), normalize=normalize).fit(X, y)
    assert [(name.split(" on")[0], kind) for name, kind in model.uninformative_kernels_] == [
        (kernels[0].label.split(" on")[0], "constant"),
        ("RBF(gamma=1e-16)", "constant"),
    ]


def test_every_form_gives_the_same_answer(rng):
    n = 70  # more than the rows that are looked at together
    B = rng.normal(size=(n, n))
    far = np.eye(n)
    far[60, 65] = far[65, 60] = 0.5  # beyond the rows that are looked at first
    scale = np.diag(rng.uniform(0.1, 10.0, n))
    near = np.ones((n, n)) + 1e-5 * B @ B.T
    stack = np.stack([np.eye(n), far, scale, np.ones((n, n)), near, B @ B.T, 0.0 * B], axis=2)
    expected = [[0, 2], [3, 6]]
    assert looks(gram_from_stack(stack)) == expected
    upper = np.triu_indices(n)
    packed = PackedGram(np.ascontiguousarray(stack[upper].T), n)
    assert looks(packed) == expected
    assert looks(packed.take(np.array([6, 0, 1]))) == [[1], [0]]


def test_factors_and_tiles(rng):
    n = 30
    rows = np.vstack([np.eye(n), np.ones((2, n)), rng.normal(size=(1, n))])
    assert looks(FactorGram(rows, np.r_[0, n, n + 1, n + 2, n + 3])) == [[0], [1, 2]]
    X = as_table(rng.normal(size=(40, 300)))
    tiles = TableSource([RBF(gamma=0.1), RBF(gamma=1 / 300), Constant()], X, max_memory=1.0).gram()
    assert "tiles" in tiles.describe()
    assert looks(tiles) == [[0], [2]]


def test_one_row_tells_nothing():
    assert looks(gram_from_stack(np.ones((1, 1, 2)))) == [[], []]


@pytest.mark.parametrize("even", [True, False])
def test_an_identity_has_small_squared_cosines_in_sum(even, rng):
    """Up to a share of the number of rows; whether the values on the diagonal are equal or not."""
    n = 12
    signs = np.triu(rng.choice([-1.0, 1.0], size=(n, n)), 1)
    signs += signs.T
    lengths = np.full(n, 2.0) if even else rng.uniform(0.5, 3.0, n)
    for part, wanted in ((0.9, [0]), (1.1, [])):
        cosine = np.sqrt(part * ALONE / (n - 1))
        K = (np.eye(n) + cosine * signs) * np.outer(lengths, lengths)
        alone, _ = identities_and_constants(gram_from_stack(K[:, :, None], psd=False))
        assert alone.tolist() == wanted


def test_spread_and_alignment_by_their_formulas_with_weights_as_repetitions(rng):
    X, Y = rng.normal(size=(9, 2)), rng.normal(size=(9, 2))
    stack = np.stack([X @ X.T, np.eye(9), np.ones((9, 9)), RBF(gamma=0.5)(X, X)], axis=2)
    count = rng.integers(1, 4, 9)
    rows = np.repeat(np.arange(9), count)
    total = len(rows)
    N, H = total - 1, np.eye(total) - 1 / total
    spread, beyond = spread_and_alignment(gram_from_stack(stack), Y, count.astype(float))
    L = H @ Y[rows] @ Y[rows].T @ H
    for m in (0, 1, 3):
        K = H @ stack[np.ix_(rows, rows)][:, :, m] @ H
        size, square = np.trace(K), (K * K).sum()
        assert spread[m] == pytest.approx(size**2 / (N * square), rel=1e-10)
        room = (square - size**2 / N) * ((L * L).sum() - np.trace(L) ** 2 / N)
        deviation = np.sqrt(2.0 * room / ((N - 1) * (N + 2)))
        assert beyond[m] == pytest.approx(((K * L).sum() - size * np.trace(L) / N) / deviation, rel=1e-9)
    assert (spread[2], beyond[2]) == (0.0, 0.0)
    # mean and deviation are those over turned targets: about 1 % off with 4000 of them
    K = (np.eye(9) - 1 / 9) @ stack[:, :, 3] @ (np.eye(9) - 1 / 9)
    basis = np.linalg.qr(np.column_stack([np.ones(9), rng.normal(size=(9, 8))]))[0][:, 1:]
    y = basis.T @ Y
    turned = [
        np.trace(K @ basis @ Q @ y @ y.T @ Q.T @ basis.T) for Q in ortho_group.rvs(8, 4000, random_state=0)
    ]
    aligned = np.trace(K @ basis @ y @ y.T @ basis.T)
    expected = (aligned - np.mean(turned)) / np.std(turned)
    assert spread_and_alignment(gram_from_stack(stack), Y)[1][3] == pytest.approx(expected, abs=0.1)


def test_looks_at_kernels_are_what_they_were(recorded, monkeypatch):
    """With weights of rows, of kernels in every form; a few numbers at a time the same."""
    rng = np.random.default_rng(0)
    X, Y, weight = rng.normal(size=(14, 3)), rng.normal(size=(14, 2)), rng.uniform(0.3, 3.0, 14)
    far = np.eye(14)
    far[9, 12] = far[12, 9] = 0.4
    lengths = np.diag(np.linspace(0.5, 2.0, 14))
    stack = np.stack(
        [
            X @ X.T,
            np.eye(14),
            far,
            3.0 * np.ones((14, 14)),
            lengths,
            lengths @ far @ lengths,
            RBF(gamma=9.0)(X),
            0.0 * far,
        ],
        axis=2,
    )
    found = []
    for piece in (2**16, 30):
        monkeypatch.setattr("kernelweave.gram.uninformative.PIECE", piece)
        monkeypatch.setattr("kernelweave.gram.base.PIECE", piece)
        for gram in (gram_from_stack(stack, reduce=False), gram_from_stack(stack)):
            numbers = [spread_and_alignment(gram, Y, weight), spread_and_alignment(gram, Y[:, :1])]
            found += [[*looks(gram), *numbers[0], *numbers[1]]]
    for one in found:
        assert one[:2] == [[1, 4], [3, 7]]
        # a quotient of rounding errors, of an identity
        one[5][1] = 0.0
        for a, b in zip(one, found[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    recorded("found", found[0])
    # two rows have one direction, and one row none
    two = gram_from_stack(stack[:2, :2])
    assert spread_and_alignment(two, Y[:2])[0].tolist() == [0.0] * 8
    assert spread_and_alignment(two, Y[:2])[1].tolist() == [0.0] * 8
