"""Bounds of rounding errors that `kernelweave.machines` adds to every gap, by their formulas.

Modules: `machines/rounding`.
"""

import math

import numpy as np
import pytest

from kernelweave.machines.rounding import EPS, LONG_EPS, balanced, imbalance, of_machine, sum_error


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
    found = of_machine(b, f, error, low=low, high=high, dual_slope=slope, loss=3.0, gap=0.5, form=7.0)
    # residuals max(|-0.5|, |1|) and max(|0.25|, |0|), and half of |b|
    values = 1e-3 * (1.0 + 1.0) + 2e-3 * (0.25 + 0.5)
    # 1 is missing of b, half of its side, on which the dual slope differs from f by 1
    sums, side = EPS * (2.0 + math.sqrt(2.0)) * 10.5, 0.5 * 2.0 * 1.0
    assert found == pytest.approx(values + side + sums, rel=1e-14)
    exact = of_machine(b, f, 0.0 * error, low=low, high=high, dual_slope=f, loss=3.0, gap=0.5, form=7.0)
    assert exact == pytest.approx(sums, rel=1e-12, abs=0.0)
