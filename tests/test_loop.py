"""The loop of steps: trace, best point, callback, and when a step ends or gives way."""

import numpy as np
import pytest

from kernelweave.mkl.loop import Look, Loop
from kernelweave.results import Status


def looks(gaps, *, end=Status.STALLED, objective=lambda k: 1.0):
    for k, gap in enumerate(gaps):
        yield None if gap is None else Look(k, objective(k), gap, 3)
    return end


def test_the_trace_has_every_iteration_and_the_best_point_stays():
    loop = Loop(10)
    assert loop.run(looks([0.5, None, 0.1, 0.3])) is Status.STALLED
    assert loop.trace["rel_gap"] == [0.5, 0.5, 0.1, 0.3]
    assert loop.trace["n_active"] == [3.0] * 4
    assert (loop.best.point, loop.n_iter) == (2, 4)


def test_iterations_and_callbacks_are_counted_over_all_steps():
    seen = []
    loop = Loop(5, lambda n, objective, gap: seen.append((n, objective, gap)) and False)
    loop.run(looks([0.5, 0.4]))
    assert loop.run(looks(np.geomspace(0.3, 1e-3, 9))) is Status.MAX_ITER
    assert [n for n, *_ in seen] == [1, 2, 3, 4, 5]
    # the best point is that of the present step
    assert loop.best.gap < 0.3


def test_a_callback_stops():
    assert Loop(10, lambda n, *_: n == 2).run(looks([0.3, 0.2, 0.1])) is Status.INTERRUPTED


def test_a_step_that_has_arrived_is_not_asked_to_go_on():
    def moves():
        yield Look(0, 1.0, 0.0, 1, Status.CONVERGED)
        pytest.fail("asked for more")

    assert Loop(10, lambda *_: pytest.fail("told after the end")).run(moves()) is Status.CONVERGED


@pytest.mark.parametrize(("objective", "n_iter"), [(lambda k: 1.0, 6), (lambda k: 1.0 - 0.01 * k, 50)])
def test_patience_ends_without_a_smaller_gap_or_objective(objective, n_iter):
    loop = Loop(50)
    loop.run(looks([0.5] * 60, objective=objective), patience=4)
    assert loop.n_iter == n_iter


@pytest.mark.parametrize(("rate", "n_iter"), [(0.9, 11), (0.5, 50)])
def test_a_slow_step_gives_way(rate, n_iter):
    loop = Loop(50)
    loop.run(looks(rate ** np.arange(60.0)), slow=10)
    assert loop.n_iter == n_iter
