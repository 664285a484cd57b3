"""Slices of ``make stress``: two thousand random problems, ordinary and hostile, judged in extended precision."""

from dataclasses import replace

import numpy as np
import pytest

import kernelweave as kw
import stress
from problems import needs_long_double

#: Problems in one test.
MANY = 50

pytestmark = needs_long_double


@pytest.mark.full
@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("hostile", "first"),
    [(False, first) for first in range(0, 1600, MANY)] + [(True, first) for first in range(0, 400, MANY)],
)
def test_every_certificate_is_true(hostile, first):
    verdicts = [stress.run(number, hostile) for number in range(first, first + MANY)]
    assert [(v.problem, v.complaints) for v in verdicts if v.complaints] == []


def solved(solver):
    """The first ordinary problem of a solver, its answer, and the value of that."""
    number = next(k for k in range(1000) if stress.make(k, False).solver == solver)
    problem = stress.make(number, False)
    (found, value), *_ = stress.SOLVERS[solver](problem, problem.tol)
    return problem, found, value


def claiming(found, **changes):
    """The same numbers with another certificate."""
    return replace(found, certificate=replace(found.certificate, **changes))


@pytest.mark.parametrize("solver", ["rls2", "svc", "l2svc", "svr", "klr", "meb", "mkl", "rkl"])
def test_the_judge_rejects_what_is_wrong(solver):
    problem, found, value = solved(solver)
    assert stress.judge(problem, found, value, value.primal) == []
    off = 1e-3 * found.primal
    wrong = {
        "its own objective": claiming(found, primal=found.primal + off, dual=found.dual + off),
        "a gap that is no bound": claiming(found, gap=-1.0),
        "a bound above the optimum": claiming(found, dual=found.primal + off),
        "a gap above tol": claiming(found, status=kw.solvers.Status.CONVERGED, gap=2e-6 * found.primal),
        "nothing finite": claiming(found, gap=float("nan")),
    }
    for what, result in wrong.items():
        assert stress.judge(problem, result, value, value.primal), what
    # the same certificate, when a better solution or only a worse bound is known
    assert stress.judge(problem, found, value, value.primal - off)
    loose = stress.Value(value.primal, value.dual - off, value.own)
    assert stress.judge(problem, claiming(found, status=kw.solvers.Status.CONVERGED), loose, value.primal)


def test_kernels_of_the_problems_are_semidefinite_to_the_last_bit():
    for number in range(40):
        gram = stress.make(number, number % 2 == 1).gram
        assert (gram == gram.transpose(1, 0, 2)).all()
        for m in range(gram.shape[2]):
            # a Schur complement in exact arithmetic: the same numbers as integers of any size
            K = gram[:4, :4, m]
            if not K.any():
                continue
            unit = np.abs(K[K != 0]).min()
            size = 2.0 ** (np.floor(np.log2(unit)) - 52)
            whole = [[int(entry / size) for entry in row] for row in K]
            assert all(whole[i][j] * size == K[i, j] for i in range(4) for j in range(4))
            for i in range(4):
                for j in range(i):
                    assert whole[i][i] * whole[j][j] >= whole[i][j] ** 2


def problem_of(p):
    """The problem for verification."""
    given = {"sample_weight": p.weights}
    if p.solver.startswith("rls2"):
        return kw.problems.rls2_problem(p.gram, p.y, **given)
    if p.solver == "rkl":
        return kw.problems.rkl_problem(p.gram, p.y, p.parameter, **given)
    if p.solver == "mkl":
        return kw.problems.margin_problem(
            p.gram, p.y, p.parameter, stress.weight_set(p), loss=stress.loss_of(p), **given
        )
    given |= {"epsilon": p.options["epsilon"]} if "epsilon" in p.options else {}
    loss = {"svc": "hinge", "l2svc": "squared-hinge", "svr": "epsilon-insensitive", "klr": "logistic"}[
        p.solver
    ]
    return kw.problems.machine_problem(p.gram[:, :, 0], p.y, p.parameter, loss, **given)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("hostile", [False, True])
def test_a_second_opinion_agrees(hostile):
    """What solvers call solved is verified by code that they do not use; RKL was refuted in 3 of 180."""
    numbers = [*range(60), *((91, 469) if hostile else (243,))]
    for number in numbers:
        p = stress.make(number, hostile)
        if p.solver in ("meb", "easy", "alignf", "do", "rls2-alternating"):
            continue
        try:
            answers = stress.SOLVERS[p.solver](p, p.tol)
        except kw.InputError:
            # a kernel of zeros, for example
            continue
        for found, _ in answers:
            if found.status is kw.solvers.Status.CONVERGED:
                assert found.verify(problem_of(p)).status is kw.solvers.Status.CONVERGED, number
