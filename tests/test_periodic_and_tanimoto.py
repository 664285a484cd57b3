"""The kernels of periodic columns and of counts.

Modules: `kernels/stationary`, `kernels/tanimoto`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import kernelweave as kw
from kernelweave._checks import InputError
from kernelweave.kernels import (
    RBF,
    Linear,
    Nystroem,
    Periodic,
    RandomFeatures,
    Tanimoto,
    approximate,
    parse,
    tanimoto,
)

RNG = np.random.default_rng(0)
HOURS = RNG.uniform(0.0, 200.0, size=(50, 2))
WAVES = np.sin(2.0 * np.pi * HOURS[:, 0] / 24.0) + np.cos(2.0 * np.pi * HOURS[:, 1] / 7.0)
COUNTS = RNG.poisson(0.6, size=(40, 12)).astype(float)
COUNTS[3] = COUNTS[11] = 0.0
SIZES = COUNTS[:, 0] + COUNTS[:, 1] - COUNTS[:, 2]


def by_hand(A, B):
    def one(x, z):
        larger = np.maximum(x, z).sum()
        return np.minimum(x, z).sum() / larger if larger else 1.0

    return np.array([[one(x, z) for z in B] for x in A])


def test_periods_of_columns():
    k = Periodic(0.3, (24.0, 7.0))
    apart = np.pi * (HOURS[:, None, :] - HOURS[None, :9, :]) / np.array([24.0, 7.0])
    np.testing.assert_allclose(
        k(HOURS, HOURS[:9]), np.exp(-1.2 * np.square(np.sin(apart)).sum(axis=2)), rtol=1e-11
    )
    np.testing.assert_allclose(k(HOURS + np.array([240.0, 70.0]), HOURS), k(HOURS), atol=1e-12)
    assert np.linalg.eigvalsh(k(HOURS)).min() > -1e-12
    on_circles = np.c_[np.cos(2 * np.pi * HOURS / [24.0, 7.0]), np.sin(2 * np.pi * HOURS / [24.0, 7.0])]
    for rule in ("median", ("scale", 2.0)):
        fitted = Periodic(rule, (24.0, 7.0)).fitted(HOURS)
        assert fitted.gamma == pytest.approx(RBF(rule).fitted(on_circles).gamma, rel=1e-12)
        assert parse(repr(Periodic(rule, (24.0, 7.0)))).fitted(HOURS) == fitted


def test_a_model_beyond_the_training_rows(tmp_path):
    model = kw.MKLRegressor([Periodic("median", 24.0).on([0]), Periodic("median", 7.0).on([1])], alpha=1e-4)
    model.fit(HOURS, WAVES)
    np.testing.assert_allclose(model.predict(HOURS + np.array([2400.0, 700.0])), WAVES, atol=0.05)
    again = kw.load(kw.save(model, tmp_path / "m"))
    np.testing.assert_array_equal(again.predict(HOURS), model.predict(HOURS))


def test_preparations_come_before_the_circles():
    k = Periodic(0.3).prepared("standardize").fitted(HOURS)
    standard = (HOURS - HOURS.mean(axis=0)) / HOURS.std(axis=0)
    np.testing.assert_allclose(k(HOURS), Periodic(0.3)(standard), rtol=1e-10)
    # a source takes the statistic of the kernel
    model = kw.MKLRegressor([Periodic(0.3).prepared("standardize")], alpha=0.1, normalize=None).fit(
        HOURS, WAVES
    )
    plain = kw.MKLRegressor([Periodic(0.3)], alpha=0.1, normalize=None).fit(standard, WAVES)
    np.testing.assert_allclose(model.predict(HOURS), plain.predict(standard), rtol=1e-8)


def test_refusals_of_periods():
    with pytest.raises(InputError, match=r"Periodic has 3 periods, got 2 columns"):
        Periodic(1.0, (1.0, 2.0, 3.0))(HOURS)
    for wrong in (0.0, (), (1.0, -2.0), "day"):
        with pytest.raises(InputError, match="`period` of Periodic must be"):
            Periodic(period=wrong)
    with pytest.raises(InputError, match=r"needs dense columns .* got sparse rows\. Pass X\.toarray"):
        Periodic()(sparse.csr_array(HOURS))
    holes = np.where(HOURS > 190.0, np.nan, HOURS)
    with pytest.raises(InputError, match="missing cells that are skipped"):
        kw.MKLRegressor([Periodic()], alpha=1.0, missing="skip").fit(holes, WAVES)
    assert kw.MKLRegressor([Periodic(period=24.0)], alpha=1.0, missing="impute").fit(holes, WAVES)
    with pytest.raises(InputError, match="cannot be a layer"):
        Periodic().layer()
    with pytest.raises(InputError, match="Random features are those of"):
        approximate(Periodic(), RandomFeatures(10))


@pytest.mark.parametrize("entries", [2**20, 7])
def test_tanimoto_by_its_definition(entries, monkeypatch):
    monkeypatch.setattr(tanimoto, "ENTRIES", entries)
    new = COUNTS[::3] * 1.5
    for A, B in ((COUNTS, new), (new, COUNTS), (COUNTS > 0, new > 0)):
        A, B = A.astype(float), B.astype(float)
        wanted = by_hand(A, B)
        np.testing.assert_allclose(Tanimoto()(A, B), wanted, rtol=1e-13)
        np.testing.assert_allclose(Tanimoto()(sparse.csr_array(A), sparse.csr_array(B)), wanted, rtol=1e-13)
        K = Tanimoto()(A)
        assert (K == K.T).all()
        assert (K.diagonal() == 1.0).all()
        assert np.linalg.eigvalsh(K).min() > -1e-12
        np.testing.assert_array_equal(Tanimoto().diag(A), K.diagonal())


def test_sparse_counts_are_never_dense(monkeypatch):
    rows = sparse.random_array((60, 5000), density=0.01, rng=np.random.default_rng(0), format="csr")
    monkeypatch.setattr(sparse.csr_array, "toarray", lambda self: pytest.fail("dense"))
    model = kw.MKLRegressor([Tanimoto(), Tanimoto().on([0, 1])], alpha=0.1).fit(
        rows, np.asarray(rows.sum(axis=1))
    )
    assert model.predict(rows[:5]).shape[0] == 5


def test_tanimoto_in_models(tmp_path):
    frame = pd.DataFrame(COUNTS, columns=[f"c{j}" for j in range(12)])
    bank = [Tanimoto(), Tanimoto().on(["c0", "c1", "c2"])]
    model = kw.MKLRegressorCV(bank, n_alphas=4, cv=3).fit(frame, SIZES)
    assert model.score(frame, SIZES) > 0.7
    again = kw.load(kw.save(model, tmp_path / "m"))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    classes = kw.MKLClassifier(bank, "simple", C=1.0).fit(frame, SIZES > 0)
    assert classes.score(frame, SIZES > 0) > 0.8
    near = approximate(Tanimoto(), Nystroem(40)).fitted(COUNTS)
    np.testing.assert_allclose(near(COUNTS), Tanimoto()(COUNTS), atol=1e-6)
    views = {"a": COUNTS[:, :6], "b": COUNTS[:, 6:]}
    assert kw.MKLRegressor({"a": [Tanimoto()], "b": [Linear()]}, alpha=0.1).fit(views, SIZES).predict(
        views
    ).shape == (40,)


def test_refusals_of_counts():
    for wrong in (-COUNTS, sparse.csr_array(-COUNTS)):
        with pytest.raises(InputError, match=r"counts, which are never negative, got -\d"):
            Tanimoto()(wrong)
    with pytest.raises(InputError, match="never negative"):
        kw.MKLRegressor([Tanimoto()], alpha=1.0, standardize=True).fit(COUNTS, SIZES)
    holes = np.where(COUNTS > 2, np.nan, COUNTS)
    with pytest.raises(InputError, match="cannot skip missing cells"):
        kw.MKLRegressor([Tanimoto()], alpha=1.0, missing="skip").fit(holes, SIZES)
    assert kw.MKLRegressor([Tanimoto()], alpha=1.0, missing="impute").fit(holes, SIZES)
    with pytest.raises(InputError, match="cannot be a layer"):
        Tanimoto().layer()


def test_whole_turns_are_the_same_row():
    turns = np.arange(50.0)[:, None]
    assert Periodic("median", 1.0).fitted(turns).gamma == RBF("median").fitted(np.zeros((50, 1))).gamma
