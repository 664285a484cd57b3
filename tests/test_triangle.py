"""Symmetric matrices in blocks of columns: the same numbers as squares, whatever the width of the blocks.

Modules: `gram/triangle`, `gram/statistics`, `mkl/features/summaries`, `rows/validation`, `rows/collecting`.
"""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelweave as kw
from kernelweave.gram import triangle
from kernelweave.gram.triangle import Triangle
from kernelweave.rows import collecting


@pytest.fixture(params=[3, 8, 40])
def width(request, monkeypatch):
    monkeypatch.setattr(triangle, "WIDTH", request.param)
    return request.param


def test_sums_and_products_are_those_of_a_square(rng, width):
    B, v, other = rng.normal(size=(11, 13)), rng.normal(size=13), rng.normal(size=(5, 13))
    S = rng.normal(size=(13, 13))
    expected = B.T @ B + 0.5 * np.outer(v, v) + np.tril(S) + np.tril(S, -1).T
    held, more = Triangle(13), Triangle(13)
    held.add_products(B)
    held.add_outer(0.5, v)
    held.add_square(S)
    more.add_products(other)
    same = held.copy()
    same.add(more)
    same.subtract(more)
    for one in (held, same, Triangle.of_packed(held.packed(), 13)):
        assert_allclose(one.square(), expected, rtol=1e-12, atol=1e-12)
        assert_allclose(one.upper(), np.triu(expected), rtol=1e-12, atol=1e-12)
        assert_allclose(one.diagonal(), np.diag(expected), rtol=1e-12, atol=1e-12)
        assert_allclose(one.times(other.T), expected @ other.T, rtol=1e-12, atol=1e-12)
    assert_allclose(held.packed(), expected[np.tril_indices(13)], rtol=1e-12, atol=1e-12)
    held.raise_diagonal(1e3)
    assert (held.diagonal() >= 1e3).all()


def test_sums_from_the_memory_of_another_process_can_be_added_to(rng):
    """Ray hands arrays over that cannot be written to."""
    Z, y = rng.normal(size=(60, 13)), rng.normal(size=60)
    parts = [
        kw.rows.block_statistics(Z[rows], y[rows], groups=np.arange(0, 14, 13), folds=3)
        for rows in np.split(np.arange(60), 3)
    ]
    wanted = parts[0].copy().merge(parts[1]).merge(parts[2])
    handed = []
    for part in parts:
        buffers = []
        data = pickle.dumps(part, protocol=5, buffer_callback=buffers.append)
        handed.append(pickle.loads(data, buffers=[bytes(one.raw()) for one in buffers]))
    first, second, third = handed
    assert not first.parts[0]._scatter.tops[0].flags.writeable
    found = first.merge(second).merge(third)
    for a, b in zip(found.parts, wanted.parts, strict=True):
        assert_array_equal(a.products(centered=True), b.products(centered=True))
        assert a.n_rows == b.n_rows
    less = found.parts[0] - third.parts[0]
    assert_allclose(
        less.products(centered=True), (wanted.parts[0] - parts[2].parts[0]).products(centered=True)
    )
    third.parts[0]._scatter.raise_diagonal(1e3)
    assert (third.parts[0]._scatter.diagonal() >= 1e3).all()


def test_blocks_take_half_of_a_square():
    assert Triangle(1000, 50).nbytes <= 0.53 * 8 * 1000**2


def _found(Z, y, path):
    folds = kw.rows.block_statistics(Z, y, groups=np.arange(0, 25, 3), folds=3)
    folds.save(path)
    found = kw.rows.rls2_path_cv(kw.rows.FoldStatistics.load(path), n_alphas=4, tol=1e-10)
    left = folds.total - folds.parts[0]
    return left.ZtZ, left.Zty, found.mse, np.array([one.feature_coef for one in found.path.solutions])


@pytest.mark.parametrize("deficient", [False, True])
def test_statistics_paths_and_errors_do_not_depend_on_the_width(rng, monkeypatch, tmp_path, deficient):
    Z = 3.0 + rng.normal(size=(150, 24))
    if deficient:
        Z[:, 20:] = Z[:, :4]
    y = Z[:, 0] - Z[:, 9] + rng.normal(size=150)
    whole = _found(Z, y, tmp_path / "whole.npz")
    monkeypatch.setattr(triangle, "WIDTH", 7)
    for a, b in zip(_found(Z, y, tmp_path / "blocks.npz"), whole, strict=True):
        assert_allclose(
            a, b, rtol=1e-6, atol=1e-7
        )  # coefficients have about half the digits of the gap, 1e-10


def test_workers_add_several_files_in_the_same_sums(rng, tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    for k in range(11):
        pd.DataFrame(rng.normal(size=(20, 4)), columns=list("abcy")).to_csv(
            tmp_path / f"{k:02d}.csv", index=False
        )
    one = kw.rows.block_statistics(tmp_path, target="y")
    taken = []
    each = collecting.each

    def counted(function, arguments, n_jobs):
        arguments = list(arguments)
        taken.extend(len(pieces) for pieces, *_ in arguments)
        return each(function, arguments, n_jobs)

    monkeypatch.setattr(collecting, "each", counted)
    several = kw.rows.block_statistics(tmp_path, target="y", n_jobs=2)
    assert sum(taken) == 11
    assert len(taken) == 2 * collecting.SHARES
    assert several.taken == one.taken
    assert_allclose(several.ZtZ, one.ZtZ, rtol=1e-12)


def test_a_warning_says_what_sums_take_before_they_are_made(rng, monkeypatch):
    Z = rng.normal(size=(30, 12))
    monkeypatch.setattr(collecting, "memory_budget", lambda _: 100.0)
    with pytest.warns(kw.KernelWarning, match="Products of 13 columns"):
        kw.rows.block_statistics(Z, Z[:, 0])
