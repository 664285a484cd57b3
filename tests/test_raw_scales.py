"""A slice of ``tests/raw_scales.py``: RLS2 on columns of very different sizes, by every route, judged from outside."""

from dataclasses import replace

import numpy as np
import pytest

import kernelweave as kw
import raw_scales
from problems import needs_long_double

pytestmark = needs_long_double

#: Problems at which norms of blocks from an earlier point once passed for those of the last one, on some routes.
ONCE_WRONG = [75, 482, 736, 1034, 1055, 1976]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("route", raw_scales.ROUTES)
def test_no_certificate_is_wrong(route):
    numbers = [*range(60), *ONCE_WRONG]
    complaints = [raw_scales.complaint(raw_scales.make(number), route) for number in numbers]
    assert [said for said in complaints if said] == []


@pytest.mark.parametrize("route", raw_scales.ROUTES)
def test_the_judge_finds_what_is_wrong(monkeypatch, route):
    problem = raw_scales.make(3)
    found = raw_scales.ROUTES[route](problem)

    def claims(**changes):
        monkeypatch.setitem(raw_scales.ROUTES, route, lambda _: replace(found, **changes))
        return raw_scales.complaint(problem, route)

    assert claims() is None
    certificate = found.certificate
    assert "the objective" in claims(certificate=replace(certificate, primal=1.01 * found.primal))
    if found.feature_coef.size:
        off = found.feature_coef * 1.05
        primal, _ = raw_scales.bounds(problem, replace(found, feature_coef=off), route)
        assert "the gap" in claims(feature_coef=off, certificate=replace(certificate, primal=primal))
    uniform = np.full_like(found.weights, 1.0 / len(found.weights))
    primal, _ = raw_scales.bounds(problem, replace(found, weights=uniform), route)
    assert "the gap" in claims(weights=uniform, certificate=replace(certificate, primal=primal))
    loose = replace(certificate, gap=0.1 * found.primal, status=kw.solvers.Status.CONVERGED)
    assert "converged" in claims(weights=uniform, certificate=replace(loose, primal=primal, gap=primal))
