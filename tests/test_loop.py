"""The loop of steps: trace, best point, callback, and when a step ends or gives way.

Modules: `mkl/loop`.
"""

from dataclasses import replace

import numpy as np
import pytest

import kernelweave as kw
from kernelweave._allowance import LEFT, allowed
from kernelweave.mkl.loop import WORK, WORK_EACH, Limits, Look, Loop, Step, minimise, most_work
from kernelweave.results import Certificate, Solution, Status


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


def test_a_limit_of_iterations_is_one_of_a_step():
    loop = Loop(10)
    for reached in (2, 4):
        loop.run(looks([0.5, 0.4, 0.3, 0.2]), Limits(most=2))
        assert loop.n_iter == reached


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
    loop.run(looks([0.5] * 60, objective=objective), Limits(idle=4))
    assert loop.n_iter == n_iter


@pytest.mark.parametrize(("rate", "n_iter"), [(0.9, 11), (0.5, 50)])
def test_a_slow_step_gives_way(rate, n_iter):
    loop = Loop(50)
    loop.run(looks(rate ** np.arange(60.0)), Limits(slow=10))
    assert loop.n_iter == n_iter


def test_a_point_from_which_a_step_sets_out_is_no_iteration():
    seen = []
    loop = Loop(10, lambda n, *_: seen.append(n) and False)

    def moves():
        yield Look(0, 3.0, 1.0, counts=False)
        yield Look(1, 2.0, 0.5)
        return Status.STALLED

    loop.run(moves())
    assert (loop.n_iter, seen) == (1, [1])
    assert loop.trace["objective"] == [3.0, 2.0]


def test_gaps_of_something_else_do_not_count():
    """A look at more than before is the best so far, however large its gap."""
    loop = Loop(10)

    def moves():
        yield Look("few", 1.0, 0.1)
        yield Look("all", 1.0, 0.5, anew=True)
        yield Look("all", 1.0, 0.6)
        return Status.STALLED

    loop.run(moves())
    assert (loop.best.point, loop.best.gap, loop.here.gap, loop.idle) == ("all", 0.5, 0.6, 1)


@pytest.mark.parametrize(("change", "n_iter"), [(0.0, 4), (0.01, 50), (-0.01, 50)])
def test_an_objective_that_moves_is_progress_where_a_step_says_so(change, n_iter):
    loop = Loop(50)
    objectives = looks([0.5] * 60, objective=lambda k: 10.0 + change * k)
    loop.run(objectives, Limits(idle=2, moved=1e-4))
    assert loop.n_iter == n_iter


@pytest.mark.parametrize(
    "limits",
    [Limits(idle=3), Limits(idle=3, moved=0.2), Limits(idle=3, smaller=0.9, lower=0.05), Limits(slow=6)],
)
def test_units_of_the_objective_change_nothing(limits, rng):
    """Every rule is one of shares, also with objectives below 0: walks end after as many iterations in any unit."""
    for shift in (2.0, 0.0, -2.0):
        walk = shift + 0.1 * rng.normal(size=60).cumsum()
        gaps = np.abs(walk) * 0.97 ** np.arange(60.0)
        ends = []
        for unit in (1.0, 1e-9, 1e9):
            loop = Loop(60)
            objective = unit * walk
            status = loop.run(looks(unit * gaps, objective=objective.__getitem__), limits)
            ends.append((status, loop.n_iter, loop.idle, loop.best.point))
        assert ends[0] == ends[1] == ends[2]
        assert ends[0][1] < 60


def test_iterations_since_the_best_point():
    loop = Loop(50)
    loop.run(looks([5.0, 4.0, *np.linspace(3.0, 3.9, 20)], objective=lambda k: -k), Limits(unbeaten=6))
    assert (loop.n_iter, loop.best.gap) == (9, 3.0)


def test_the_trace_has_the_names_of_the_step_and_what_else_it_tells():
    loop = Loop(5)
    loop.run(
        (look for look in [Look(0, 2.0, 1.0, 3, left=0.25, more={"machines": 7})]),
        Limits(names=("value", "residual", "")),
    )
    assert loop.trace == {"value": [2.0], "residual": [0.25], "machines": [7]}


class Pieces(Step):
    """Looks at given gaps, then the end."""

    def __init__(self, gaps, end):
        self.gaps, self.end = gaps, end

    def moves(self, session, loop):
        return looks(self.gaps, end=self.end)


class Counted:
    """A session whose solutions tell their gap."""

    n_machines = 4

    def __init__(self):
        self.begun = []

    def result(self, at, status, loop):
        certificate = Certificate("joint", 1.0, 1.0 - loop.best.gap, loop.best.gap, status=status)
        return Solution(np.ones(1), np.ones(1), 0.0, certificate, loop.n_iter, loop.arrays(), n_machines=4)

    def begin_at(self, found):
        self.begun.append(found.gap)


def test_steps_follow_each_other_and_the_smaller_gap_stays():
    session = Counted()
    steps = [
        Pieces([0.5, 0.2], Status.STALLED),
        Pieces([0.4], Status.STALLED),
        Pieces([0.3], Status.CONVERGED),
    ]
    found = minimise(session, steps, max_iter=10)
    assert session.begun == [0.2, 0.2]
    assert (found.gap, found.status, found.n_iter, found.n_machines) == (0.2, Status.CONVERGED, 4, 4)
    np.testing.assert_array_equal(found.trace["rel_gap"], [0.5, 0.2, 0.4, 0.3])


def test_a_solution_that_stays_has_the_counts_of_all_steps():
    """An earlier one is kept for its smaller gap, with what was counted since."""
    session = Counted()
    solved = iter([3, 5])

    def result(at, status, loop):
        session.n_machines = next(solved)
        return replace(Counted.result(session, at, status, loop), n_machines=session.n_machines)

    session.result = result
    found = minimise(
        session, [Pieces([0.2], Status.STALLED), Pieces([0.4, None], Status.STALLED)], max_iter=10
    )
    assert (found.gap, found.n_iter, found.n_machines) == (0.2, 3, 5)
    assert len(found.trace["objective"]) == 3


def test_work_that_is_used_up_ends_the_steps():
    class Works(Pieces):
        def moves(self, session, loop):
            for look in looks(self.gaps, end=self.end):
                LEFT.get().work -= 1.0
                yield look
            return self.end

    for work, n_iter in ((None, 9), (2.5, 3), (100.0, 9)):
        steps = [Works([0.5 - 0.01 * k for k in range(8)], Status.STALLED), Works([0.1], Status.CONVERGED)]
        found = minimise(Counted(), steps, max_iter=20, work=work)
        assert (found.n_iter, found.status) == (n_iter, Status.STALLED if n_iter == 3 else Status.CONVERGED)
    # the limit outside counts where there is none of its own
    with allowed(work=0.5):
        assert minimise(Counted(), [Works([0.5] * 8, Status.STALLED)], max_iter=20).n_iter == 1
    assert most_work(10, 5) == WORK + 15 * WORK_EACH


def test_steps_end_with_the_iterations_or_without_progress():
    steps = [Pieces([0.5] * 9, Status.STALLED), Pieces([0.4], Status.CONVERGED)]
    found = minimise(Counted(), steps, max_iter=3)
    assert (found.status, found.n_iter) == (Status.MAX_ITER, 3)
    # the last step used up its own iterations, not all of them
    found = minimise(Counted(), [Pieces([0.5], Status.MAX_ITER)], max_iter=3)
    assert (found.status, found.n_iter) == (Status.STALLED, 1)


def test_ctrl_c_keeps_what_is_there_only_where_a_step_says_so():
    class Interrupted(Pieces):
        def moves(self, session, loop):
            loop.limits = Limits(keeps=self.end)
            yield from (Look(0, 1.0, gap) for gap in self.gaps)
            raise KeyboardInterrupt

    found = minimise(Counted(), [Interrupted([0.5], True)], max_iter=5)
    assert (found.status, found.gap) == (Status.INTERRUPTED, 0.5)
    for gaps, keeps in (([0.5], False), ([], True)):
        with pytest.raises(KeyboardInterrupt):
            minimise(Counted(), [Interrupted(gaps, keeps)], max_iter=5)


# ---- the solvers ---------------------------------------------------------------------------------------

LABELLED = {
    "Newton": lambda *a, **o: kw.solve_svm_mkl(*a, 10.0, solver="newton", **o),
    "interior point": lambda *a, **o: kw.solve_svm_mkl(*a, 10.0, solver="interior-point", **o),
    "reduced gradient": lambda *a, **o: kw.solve_svm_mkl(*a, 10.0, solver="reduced-gradient", **o),
    "cutting planes": lambda *a, **o: kw.solve_svm_mkl(*a, 10.0, solver="cutting-plane", **o),
    "closed form": lambda *a, **o: kw.solve_svm_mkl(*a, 10.0, kw.weight_sets.LpBall(1.2), **o),
    "RLS2": lambda *a, **o: kw.solve_rls2(*a, 1e-3, **o),
    "Algorithm 1": lambda *a, **o: kw.solve_rls2(*a, 1e-3, solver="alternating", delta=1e-9, **o),
    "RKL": lambda *a, **o: kw.solvers.solve_radius(*a, 10.0, "rkl", **o),
    "Do": lambda *a, **o: kw.solvers.solve_radius(*a, 10.0, "do", **o),
    "KL-C": lambda *a, **o: kw.solvers.solve_radius(*a, 10.0, "kl-c", **o),
}


@pytest.mark.parametrize("name", LABELLED)
def test_every_solver_counts_from_one_and_stops_where_it_is_asked(name, rng):
    X = rng.normal(size=(40, 6))
    stack = X[:, None, :] * X[None, :, :] + np.exp(-np.square(X[:, None] - X[None]))
    y = np.sign(X[:, 0] - X[:, 1] * X[:, 2])
    seen = []
    whole = LABELLED[name](
        stack,
        y,
        tol=1e-6,
        max_iter=12,
        callback=lambda n, value, left: seen.append((n, value, left)) and False,
    )
    numbers = [n for n, *_ in seen]
    assert numbers[0] == 1
    assert numbers == sorted(set(numbers))
    # the last iteration may be one that nobody is asked about
    assert whole.n_iter - 1 <= numbers[-1] <= whole.n_iter
    assert whole.trace["objective"][-1] <= whole.trace["objective"][0]
    stopped = LABELLED[name](stack, y, tol=1e-6, callback=lambda n, *_: n == numbers[1])
    assert (stopped.status, stopped.n_iter) == (Status.INTERRUPTED, numbers[1])


def test_a_table_of_ways_and_limits(recorded):
    """What becomes of scripted iterations under every kind of limit."""
    ways = {
        "falling": [(10.0 - k, 4.0 * 0.7**k) for k in range(12)],
        "standing": [(10.0, 4.0)] * 12,
        "up and down": [(10.0 + (-1) ** k, 4.0 - (-0.5) ** k) for k in range(12)],
        "slowly": [(10.0 - 1e-11 * k, 4.0 * 0.97**k) for k in range(12)],
        "negative": [(-10.0 - 0.1 * k, 4.0 / (k + 1)) for k in range(12)],
    }
    limits = {
        "none": Limits(),
        "most": Limits(most=3),
        "idle": Limits(idle=2),
        "unbeaten": Limits(unbeaten=3),
        "slow": Limits(slow=4),
        "smaller": Limits(idle=2, smaller=0.5, lower=0.2),
        "moved": Limits(idle=1, moved=0.05),
        "names": Limits(names=("value", "", "n"), repeats=False),
    }
    found = {}
    for way, limit in ((way, limit) for way in ways for limit in limits):

        def moves(rows=ways[way]):
            for k, (value, gap) in enumerate(rows):
                if k == 4:
                    yield None
                yield Look(k, value, gap, n_active=k, counts=k > 0, anew=k == 6, more={"own": 2 * k})
            return Status.CONVERGED

        told = []
        loop = Loop(9, lambda *now, told=told: told.append(now))
        status = loop.run(moves(), limits[limit])
        numbers = [loop.n_iter, loop.idle, loop.best.point, loop.here.point, len(told), told[-1]]
        found[f"{way}, {limit}"] = [status.name, *numbers, list(loop.arrays().values())]
    recorded("found", found)
