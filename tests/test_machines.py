"""Bounds of rounding errors that `kernelweave.machines` adds to every gap, by their formulas.

Modules: `machines/rounding`, `machines/bordered`.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from kernelweave._checks import NotPSDError
from kernelweave.machines.bordered import Bordered, Coupled, Weighted
from kernelweave.machines.box import Values
from kernelweave.machines.loss import Loss
from kernelweave.machines.rounding import EPS, LONG_EPS, balanced, imbalance, sum_error


def test_sums_are_off_by_their_number_of_terms():
    """Twice 2 + sqrt(k) halves of the distance of numbers near 1."""
    assert sum_error(9) == 5.0 * np.finfo(float).eps
    assert sum_error(16, long=True) == 6.0 * LONG_EPS
    terms = np.full(10_000, 0.1)
    naive = 0.0
    for term in terms:
        naive += term
    exact = math.fsum(terms)
    assert abs(float(terms.sum()) - exact) <= sum_error(len(terms)) * exact
    # a plain chain is the worst case that no loop here is
    assert abs(naive - exact) <= EPS * len(terms) * exact


def test_the_heavier_side_pays_for_what_is_missing():
    b = np.array([2.0, -1.0, 4.0, 0.0])
    share, side = imbalance(b)
    assert (share, side.tolist()) == (5.0 / 6.0, [2.0, 0.0, 4.0, 0.0])
    np.testing.assert_allclose(balanced(b), [2.0 / 6.0, -1.0, 4.0 / 6.0, 0.0], rtol=1e-15)
    np.testing.assert_allclose(balanced(-b), [-2.0 / 6.0, 1.0, -4.0 / 6.0, 0.0], rtol=1e-15)
    even = np.array([1.5, -1.5])
    assert balanced(even) is even
    assert imbalance(np.zeros(2))[0] == 0.0


def test_errors_of_values_reach_the_gap_by_its_derivatives():
    b, f, error = np.array([2.0, -1.0]), np.array([0.5, -0.25]), np.array([1e-3, 2e-3])
    low, high, slope = np.array([-2.5, 1.25]), np.array([-1.0, 1.0]), np.array([1.5, 0.75])
    machine = SimpleNamespace(y=f, costs=np.ones(2), fit_intercept=True)

    def rounding(error, slope):
        loss = SimpleNamespace(
            linked=True,
            gradient_within=lambda *_: (low, high),
            gap_error=lambda *_: 0.0,
            dual_slope=lambda *_: slope,
        )
        return Loss.rounding(loss, machine, b, f, Values(3.0, 0.5, 0.0), error)

    # residuals max(|-0.5|, |1|) and max(|0.25|, |0|), and half of |b|
    values = 1e-3 * (1.0 + 1.0) + 2e-3 * (0.25 + 0.5)
    # 1 is missing of b, half of its side, on which the dual slope differs from f by 1
    sums, side = EPS * (2.0 + math.sqrt(2.0)) * (3.5 + 1.25), 0.5 * 2.0 * 1.0
    assert rounding(error, slope) == pytest.approx(values + side + sums, rel=1e-14)
    # with an exact product f itself is rounded
    exact = EPS * (0.5 * (1.0 + 1.0) + 0.25 * (0.25 + 0.5)) + sums
    assert rounding(0.0 * error, f) == pytest.approx(exact, rel=1e-12, abs=0.0)


def bordered_solution(A, g, s, fit_intercept):
    """Of the whole system, by a dense solution."""
    if not fit_intercept:
        return np.linalg.solve(A, g), 0.0
    n = len(A)
    whole = np.block([[A, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    found = np.linalg.solve(whole, np.r_[g, s])
    return found[:-1], found[-1]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", ["bordered", "weighted"])
def test_bordered_systems_are_those_of_the_whole_matrix(kind, fit_intercept, rng):
    Z = rng.normal(size=(7, 9))
    K, W = Z @ Z.T, np.exp(4.0 * rng.normal(size=7))
    make = (
        Bordered(K, fit_intercept=fit_intercept)
        if kind == "bordered"
        else Weighted(K, W, fit_intercept=fit_intercept)
    )
    A = K if kind == "bordered" else K + np.diag(1.0 / W)
    g, U = rng.normal(size=7), rng.normal(size=(3, 7))
    x, t = make.solve(g, 0.3)
    other, level = bordered_solution(A, g, 0.3, fit_intercept)
    np.testing.assert_allclose(x, other, rtol=1e-6, atol=1e-8)
    assert t == pytest.approx(level, rel=1e-6, abs=1e-9)
    P = np.stack([bordered_solution(A, e, 0.0, fit_intercept)[0] for e in np.eye(7)])
    np.testing.assert_allclose(make.quadratic_forms(U), U @ P @ U.T, rtol=1e-6, atol=1e-8)
    if kind == "bordered":
        np.testing.assert_allclose(make.inverse(), P, rtol=1e-6, atol=1e-8)


def test_a_matrix_that_is_not_definite_gets_the_first_multiple_that_makes_it_so():
    # 1e-10, 1e-8, 1e-6 and 1e-4 of the mean size of 1 on the diagonal: the third is above 3e-7
    A = np.diag([1.0, 1.0 - 1e-7, -3e-7, 1.0, 1.9999996])
    added = 1e-6 * np.abs(A.diagonal()).mean()
    x, _ = Bordered(A, fit_intercept=False).solve(np.ones(5))
    np.testing.assert_allclose(x, 1.0 / (A.diagonal() + added), rtol=1e-6)
    np.testing.assert_allclose(
        Bordered(np.zeros((2, 2)), fit_intercept=False).solve(np.ones(2))[0], [1e110] * 2
    )
    with pytest.raises(FloatingPointError, match="no multiple"):
        Bordered(np.array([[0.0, 1.7e308], [1.7e308, 0.0]]))


def test_second_derivatives_that_lose_to_a_negative_kernel_are_refused():
    Weighted(np.diag([1.0, -0.5]), np.array([1.0, 1.0]))
    with pytest.raises(NotPSDError):
        Weighted(np.diag([1.0, -2.0]), np.array([1.0, 1.0]))

    class Identity:
        transposed = times = staticmethod(lambda z: z)

    np.testing.assert_allclose(Coupled(np.diag([1.0, 3.0]), Identity()).solve(np.ones(2)), [0.5, 0.25])
    with pytest.raises(NotPSDError):
        Coupled(np.diag([1.0, -2.0]), Identity())
