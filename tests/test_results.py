"""Solutions and certificates as values, and the names that they had.

Modules: `results`, `results/certificate`, `results/solution`, `mkl/problems`.
"""

import inspect
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import kernelweave as kw
from kernelweave._allowance import allowed, used_up
from kernelweave.gram import as_gram
from kernelweave.kernels import Linear, Polynomial
from kernelweave.machines.losses import Hinge, as_loss
from kernelweave.machines.machine import Machine, OnKernel
from kernelweave.mkl.criteria.deep import DualValue
from kernelweave.mkl.deep import DeepKernel, Descent, solve_deep
from kernelweave.mkl.layers import Layers
from kernelweave.results import (
    REACHED,
    AlignmentSolution,
    Certificate,
    MachineSolution,
    RadiusSolution,
    RelaxedSolution,
    Solution,
    Status,
    relative_gap,
)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(40, 4))
    gram = X[:, None, :] * X[None, :, :]
    return gram, np.sign(X[:, 0] + 0.3 * rng.normal(size=40))


#: Gap of the solver, its rounding errors and how it says that it ended, for a primal value of 1 and tol = 1e-6.
ENDS = [
    (1e-7, 1e-8, Status.CONVERGED, Status.CONVERGED),
    (1e-7, 1e-5, Status.CONVERGED, Status.ROUNDING),
    (1e-7, 1e-8, Status.STALLED, Status.CONVERGED),
    (1e-7, 1e-5, Status.STALLED, Status.ROUNDING),
    (2e-6, 1.5e-6, Status.CONVERGED, Status.ROUNDING),
    (2e-6, 1e-7, Status.CONVERGED, Status.STALLED),
    (2e-6, 1e-7, Status.STALLED, Status.STALLED),
    (2e-6, 1e-5, Status.STALLED, Status.ROUNDING),
    (1e-7, 1e-8, Status.MAX_ITER, Status.CONVERGED),
    (1e-7, 1e-5, Status.MAX_TIME, Status.ROUNDING),
    (2e-6, 1e-7, Status.MAX_ITER, Status.MAX_ITER),
    (2e-6, 1e-7, Status.MAX_TIME, Status.MAX_TIME),
    (1e-7, 1e-8, Status.INTERRUPTED, Status.INTERRUPTED),
]


@pytest.mark.parametrize(("own", "rounding", "ended", "status"), ENDS)
def test_the_whole_gap_has_the_last_word(own, rounding, ended, status):
    found = Certificate.of("joint", 1.0, own, rounding, ended, tol=1e-6)
    assert found.status is status
    assert found.gap == own + rounding == pytest.approx(found.primal - found.dual)
    assert found.own_gap == pytest.approx(own)
    assert Certificate.of("joint", 1.0, own, rounding, ended).status is ended
    # shares are of sizes: in any unit, and for objectives below 0
    for unit in (-1.0, 2.0**20):
        other = Certificate.of("joint", unit, own * abs(unit), rounding * abs(unit), ended, tol=1e-6)
        assert (other.status, other.rel_gap) == (status, pytest.approx(found.rel_gap))
        times = found.times(unit) if unit > 0 else found
        assert (times.primal, times.gap) == pytest.approx((unit, other.gap) if unit > 0 else (1.0, found.gap))
        assert times.own_gap == pytest.approx(own * abs(unit) if unit > 0 else own)
        assert times.dual == pytest.approx(times.primal - times.gap)


def test_what_statuses_say_of_themselves():
    """Which are successes, which replaced by a small gap, which of a descent; no gap is a share of infinity."""
    ok = {Status.CONVERGED, Status.RESIDUAL_RULE}
    replaced = {Status.CONVERGED, Status.STALLED, Status.MAX_ITER, Status.MAX_TIME, Status.ROUNDING}
    descent = {Status.UNFINISHED, Status.EMPTIED, Status.NOT_STATIONARY}
    for status in Status:
        assert status.ok == (status in ok)
        assert status.is_of_descent == (status in descent)
        small = Certificate.of("joint", 1.0, 1e-9, 0.0, status, tol=1e-6)
        assert small.status is (Status.CONVERGED if status in replaced else status)
        for tol in (None, 1e-6):
            lost = Certificate.of("joint", np.inf, 1e-9, 1.0, status, tol=tol, stationarity=0.5)
            reached = status in (Status.CONVERGED, Status.ROUNDING)
            assert lost.status is (Status.STALLED if reached else status)
            assert (lost.dual, lost.gap, lost.rounding, lost.stationarity) == (-np.inf, np.inf, 1.0, 0.5)
        # what users can do whatever parameters they have, and what only some can
        for remedy in status.remedies:
            without, named = status.advice(()).lower(), status.advice((remedy.parameter,)).lower()
            text = remedy.text.lower()
            assert text in named
            assert (text in without) == (remedy.parameter is None)
        assert ("max_iter" in status.advice(("max_iter",))) == ("max_iter" in status.value)
        assert "max_iter" not in status.advice(())


def test_limits_name_what_was_used_up():
    assert REACHED[used_up()] is None
    with allowed(seconds=-1.0):
        assert REACHED[used_up()] is Status.MAX_TIME
    with allowed(work=-1.0):
        assert REACHED[used_up()] is Status.STALLED
    with allowed(seconds=1e6, work=1.0):
        assert REACHED[used_up()] is None


# ---- certificates computed again --------------------------------------------------------------------


def solved(kind, gram, y, weight):
    """A solution of each kind, and the problem that it is verified on."""
    scale = np.array([1.0, 0.5, 2.0, 1.0])
    more = {"scale": scale, "sample_weight": weight}
    if kind.startswith("rls2"):
        Y = np.column_stack([y, gram[:, 0, 1]]) if kind == "rls2 outputs" else y
        problem = kw.problems.rls2_problem(gram, Y, **more)
        alpha = np.inf if kind == "rls2 inf" else 0.3
        return kw.solve_rls2(gram, Y, alpha, shared_weights=kind != "rls2 outputs", **more), problem
    if kind == "rkl":
        return kw.solve_rkl(gram, y, 2.0, tol=1e-6, **more), kw.problems.rkl_problem(gram, y, 2.0, **more)
    if kind in ("svc", "deep"):
        K = gram @ scale
        machine = Machine(y, 2.0, Hinge(), weight)
        if kind == "svc":
            return kw.solve_svc(K, y, 2.0, sample_weight=weight), kw.problems.machine_problem(
                K, y, 2.0, sample_weight=weight
            )
        kernel = DeepKernel(as_gram(gram), scale, Layers([[Linear(), Polynomial(2)]]))
        found = solve_deep(
            kernel, machine, DualValue(machine, np.arange(len(y))), Descent(tol=1e-2),
            lambda weights: [np.maximum(w, 0.0) / np.maximum(w, 0.0).sum() for w in weights],
        )  # fmt: skip
        K = kernel.forward([found.weights, *found.upper.weights]).copy()
        return found, OnKernel(K, machine)
    weight_set, loss, method = MARGINS[kind]
    target = y if as_loss(loss).classifies else gram[:, 0, 1] + 0.1 * y
    problem = kw.problems.margin_problem(gram, target, 2.0, weight_set, loss=loss, **more)
    return kw.solve_svm_mkl(
        gram, target, 2.0, weight_set, loss=loss, solver=method, tol=1e-7, **more
    ), problem


MARGINS = {
    "simplex": ("simplex", "hinge", "auto"),
    "squares": ("simplex", "squared-hinge", "auto"),
    "tube": ("simplex", "epsilon-insensitive", "auto"),
    "capped": (kw.weight_sets.CappedSimplex(0.4), "hinge", "auto"),
    "logistic": ("simplex", "logistic", "auto"),
    "logistic cuts": ("simplex", "logistic", "cutting-plane"),
    "lp": (kw.weight_sets.LpBall(2.0), "hinge", "auto"),
    "net": (kw.weight_sets.ElasticNet(0.5), "hinge", "auto"),
    "cuts": ("simplex", "hinge", "cutting-plane"),
}
KINDS = ["rls2", "rls2 outputs", "rls2 inf", *MARGINS, "rkl", "svc", "deep"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_verification_finds_the_certificate_again(data, rng, kind, weighted):
    gram, y = data
    weight = np.r_[0.0, rng.uniform(0.5, 2.0, len(y) - 1)] if weighted and kind != "rkl" else None
    found, problem = solved(kind, gram, y, weight)
    again = found.verify(problem)
    assert again.status is found.status
    assert again.primal == pytest.approx(found.primal, rel=1e-12, abs=2 * (found.rounding + again.rounding))
    assert found.status.ok
    assert again.own_gap == pytest.approx(found.own_gap, abs=2 * (found.rounding + again.rounding))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rls2 inf"])
def test_verification_notices_what_was_spoilt(data, kind):
    gram, y = data
    found, problem = solved(kind, gram, y, None)
    coef, weights = np.array(found.dual_coef), np.array(found.weights)
    one = coef.copy()
    one.flat[np.argmax(np.abs(coef))] *= 1.01
    spoilt = {"a coefficient": replace(found, dual_coef=one)}
    spoilt["all coefficients"] = replace(found, dual_coef=1.001 * coef)
    if weights.size > 1 and kind != "deep":
        moved = weights + 1e-2 * (weights == weights.max())
        spoilt["a weight"] = replace(found, weights=moved)
        spoilt["weights on the set"] = replace(found, weights=np.roll(weights, 1, axis=-1))
    if not kind.startswith("rls2"):
        spoilt["the intercept"] = replace(found, intercept=found.intercept + 0.01)
    if len(found.proof):
        proof = np.array(found.proof)
        proof[0, np.argmax(np.abs(proof[0]))] *= 1.01
        spoilt["a coefficient of the proof"] = replace(found, proof=proof)
    for what, wrong in spoilt.items():
        assert wrong.verify(problem).status is Status.REFUTED, what


#: Change of the primal value, the gap found, both of rounding, and whether the certificate holds; its own are 1e-3.
AGAIN = [
    (0.0, 1e-3, 0.0, 0.0, True),
    (1e-9, 1e-3, 0.0, 0.0, False),
    (-1e-9, 1e-3, 0.0, 0.0, False),
    (1e-9, 1e-3, 2e-9, 0.0, True),
    (1e-9, 1e-3, 0.0, 2e-9, True),
    (1e-15, 1e-3, 0.0, 0.0, True),
    (0.0, 1.1e-3, 0.0, 0.0, False),
    (0.0, 1.1e-3, 0.6e-4, 0.0, True),
    (0.0, 1.1e-3, 0.4e-4, 0.0, False),
    (0.0, 1.1e-3, 0.0, 1e-3, False),
    (0.0, -1e-9, 0.0, 0.0, False),
    (0.0, -1e-9, 0.0, 2e-9, True),
    (0.0, np.inf, 0.0, 0.0, False),
]


@pytest.mark.parametrize(("moved", "gap", "own", "of_the_other", "holds"), AGAIN)
@pytest.mark.parametrize("unit", [1.0, 2.0**30])
def test_a_certificate_holds_up_to_the_rounding_errors_of_both(moved, gap, own, of_the_other, holds, unit):
    def certificate(primal, gap, rounding):
        return Certificate(
            "joint",
            unit * primal,
            unit * (primal - gap),
            unit * gap,
            unit * rounding,
            status=Status.CONVERGED,
        )

    given, found = certificate(1.0, 1e-3, own), certificate(1.0 + moved, gap, of_the_other)
    again = replace(given, stationarity=0.5).checked_by(replace(found, kind="machine"))
    assert again.status is (Status.CONVERGED if holds else Status.REFUTED)
    assert (again.kind, again.stationarity, again.gap) == ("joint", 0.5, unit * gap)


def test_a_sum_says_what_is_bounded_of_all_its_parts():
    def part(kind, status=Status.CONVERGED):
        return Certificate(kind, 2.0, 1.0, 1.0, 0.5, 0.25, status=status)

    for kinds, of_all in (
        (["joint", "joint"], "joint"),
        (["joint", "machine"], "machine"),
        (["joint", "cuts"], "cuts"),
        (["cuts", "machine"], "machine"),
        (["machine", "cuts"], "machine"),
        (["alignment"], "alignment"),
    ):
        found = Certificate.total([part(kind) for kind in kinds])
        assert found.kind == of_all
        assert (found.primal, found.dual, found.rounding) == tuple(len(kinds) * v for v in (2.0, 1.0, 0.5))
        assert (found.gap, found.stationarity) == (found.primal - found.dual, None)
    more = Certificate.total([part("joint"), replace(part("joint"), rounding=0.125, dual=0.5, gap=1.5)])
    assert (more.dual, more.gap, more.rounding) == (1.5, 2.5, 0.625)
    assert Certificate.total([part("joint"), part("joint", Status.STALLED)]).status is Status.STALLED


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(("on_features", "own_intercepts"), [(True, True), (True, False), (False, False)])
def test_one_of_several_ridges_has_its_part_of_everything(rng, outputs, on_features, own_intercepts):
    """Some solutions took no factor, and have no determinant; centred statistics have an intercept of each ridge."""
    shape = (3, 5) if outputs == 1 else (3, 5, outputs)
    coef, none = rng.normal(size=shape), np.empty(0)
    intercept = rng.normal(size=shape[:1] + shape[2:]) if own_intercepts else 0.25
    whole = RelaxedSolution(
        weights=np.ones(2), dual_coef=none if on_features else coef, intercept=intercept,
        certificate=Certificate("ridge", 2.0, 1.0, 1.0), n_iter=4, feature_coef=coef if on_features else none,
        relax=np.array([3.0, 2.0, 1.0]), ridge_primal=np.array([4.0, 5.0, 8.0]), ridge_gap=np.array([1.0, 2.0, 2.0]),
    )  # fmt: skip
    for logs in (np.nan, np.array([0.5, 0.25, 0.125])):
        for k in range(3):
            one = replace(whole, ridge_log_det=logs).at(k)
            assert (one.relax, one.ridge_rel_gap) == (3.0 - k, [0.25, 0.4, 0.25][k])
            assert one.ridge_log_det == [0.5, 0.25, 0.125][k] or np.isnan(logs).all()
            held, empty = (
                (one.feature_coef, one.dual_coef) if on_features else (one.dual_coef, one.feature_coef)
            )
            np.testing.assert_array_equal(held, coef[k])
            assert empty.size == 0
            np.testing.assert_array_equal(one.intercept, intercept[k] if own_intercepts else intercept)
            assert isinstance(one.intercept, float) or np.ndim(one.intercept)


def test_a_solution_of_another_kind_keeps_all_but_what_is_replaced(rng):
    own = {
        "weights": rng.normal(size=2), "dual_coef": rng.normal(size=5), "intercept": 0.5,
        "certificate": Certificate("joint", 2.0, 1.0, 1.0, 0.5, 0.25, Status.STALLED), "n_iter": 7,
        "trace": {"objective": rng.normal(size=7)}, "alpha": 3.0, "n_machines": 4,
        "proof": rng.normal(size=(1, 5)), "feature_coef": rng.normal(size=3),
    }  # fmt: skip
    found = Solution(**own)
    other = found.extended(RelaxedSolution, relax=2.0, n_iter=8)
    assert (type(other), other.relax, other.n_iter) == (RelaxedSolution, 2.0, 8)
    ended = other.ended(Status.INTERRUPTED)
    for name, value in own.items():
        for one in (found, other, ended, found.on_host(), found.of_kind(None)):
            if (name, one) not in (("n_iter", other), ("n_iter", ended), ("certificate", ended)):
                assert getattr(one, name) is value or name in ("weights", "dual_coef", "feature_coef")
                np.testing.assert_array_equal(getattr(one, name), value)
    assert ended.certificate == replace(own["certificate"], status=Status.INTERRUPTED)
    for name in ("primal", "dual", "gap", "rel_gap", "own_gap", "rounding", "status", "stationarity"):
        assert getattr(found, name) == getattr(own["certificate"], name)
    assert found.history is found.trace


def test_a_machine_has_its_support_and_its_infeasibility():
    b = np.array([0.0, -1.0, 0.0, 2.0])
    found = MachineSolution(np.ones(1), b, 0.5, Certificate("machine", 2.0, 1.0, 1.0), 7, infeasibility=0.25)
    assert (found.weights.tolist(), found.support.tolist(), found.intercept) == ([1.0], [1, 3], 0.5)
    assert (found.n_iter, found.infeasibility, found.proof.shape) == (7, 0.25, (0, 0))
    assert (found.dual_coef is b, found.feature_coef.shape) == (True, (0,))


WEIGHT, FACTORS = np.linspace(0.5, 1.5, 40), np.array([1.0, 0.5, 2.0, 1.5])
#: Options of problems and their solvers, with another value of each, which is another problem.
OPTIONS = {
    "rls2": ("rls2", {"alpha": 0.3}, {"sample_weight": WEIGHT, "scale": FACTORS}),
    "margin": ("svm_mkl", {"C": 2.0}, {
        "weight_set": kw.weight_sets.LpBall(2.0), "loss": "epsilon-insensitive", "epsilon": 0.3,
        "sample_weight": WEIGHT, "scale": FACTORS,
    }),
    "cardinality": ("cardinality_mkl", {"C": 2.0}, {
        "k": 2, "ridge": 0.5, "loss": "epsilon-insensitive", "epsilon": 0.3, "sample_weight": WEIGHT, "scale": FACTORS,
    }),
    "rkl": ("rkl", {"C": 2.0}, {"loss": "squared-hinge", "sample_weight": WEIGHT, "scale": FACTORS}),
    "easy_mkl": ("easy_mkl", {}, {"lam": 0.4, "sample_weight": WEIGHT, "scale": FACTORS}),
    "alignf": ("alignf", {}, {"sample_weight": WEIGHT, "scale": FACTORS}),
}  # fmt: skip
OTHER = {
    "weight_set": "simplex", "loss": "hinge", "epsilon": 0.2, "k": 1, "ridge": 0.4, "lam": 0.3, "C": 3.0,
    "sample_weight": None, "scale": None,
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_part_of_the_problem(name):
    """With all of them the problem confirms its solution, and with one of them less it does not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    gram, y = X[:, None, :] * X[None, :, :], np.sign(X[:, 0] + 0.3 * rng.normal(size=40))
    solver, first, more = OPTIONS[name]
    found = getattr(kw.solvers, f"solve_{solver}")(gram, y, **first, **more)
    assert found.status.ok
    make = getattr(kw.problems, f"{name}_problem")
    own = {} if name == "rls2" else first
    assert found.verify(make(gram, y, **own, **more)).status is Status.CONVERGED
    for option in (*own, *more):
        other = make(gram, y, **(own | more | {option: OTHER[option]}))
        assert found.verify(other).status is Status.REFUTED, option


SOLVERS = {
    "rls2_problem": "solve_rls2",
    "margin_problem": "solve_svm_mkl",
    "rkl_problem": "solve_rkl",
    "cardinality_problem": "solve_cardinality_mkl",
    "machine_problem": "solve_svc",
}


@pytest.mark.parametrize("problem", SOLVERS)
def test_a_problem_has_the_defaults_of_its_solver_and_of_its_text(problem):
    own, other = (
        {name: one.default for name, one in inspect.signature(function).parameters.items()}
        for function in (getattr(kw.problems, problem), getattr(kw.solvers, SOLVERS[problem]))
    )
    shared = (
        (own.keys() & other.keys()) - {"loss"} if problem == "machine_problem" else own.keys() & other.keys()
    )
    assert len(shared) > 2
    assert {name: own[name] for name in shared} == {name: other[name] for name in shared}
    said = re.findall(r"^    (\w+) : .*default=(\S+)$", getattr(kw.problems, problem).__doc__, re.M)
    assert {name: repr(own[name]) for name, _ in said} == {
        name: text.replace('"', "'") for name, text in said
    }


# ---- as values ---------------------------------------------------------------------------------------


def made(k, **more):
    """A solution with numbers of its own."""
    certificate = Certificate.of("joint", 3.0 + k, 0.5, 0.25 * k, Status.MAX_ITER, stationarity=0.1 * k)
    own = {"alpha": 2.0**-k, "n_machines": k + 1, "feature_coef": np.full((3, 2), 1.0 * k)}
    return Solution(
        np.arange(4.0) * (k + 1),
        np.full((5, 2), 0.5 * k),
        np.array([k, -k]),
        certificate,
        7 * k,
        **{**own, **more},
    )


def test_texts_of_statuses_are_what_they_were(recorded):
    recorded("texts", {one.name: [one.value, one.advice(("max_iter", "C")), repr(one)] for one in Status})
    assert [relative_gap(2.0, 1.0), relative_gap(-4.0, 1.0), relative_gap(0.0, 0.0)] == [0.5, 0.25, 0.0]
    assert relative_gap(0.0, 1.0) == np.inf


def test_a_solution_tells_the_numbers_of_its_certificate():
    one = made(2)
    assert (one.primal, one.gap, one.own_gap, one.rounding, one.dual, one.rel_gap) == (
        5.0,
        1.0,
        0.5,
        0.5,
        4.0,
        0.2,
    )
    assert (one.status, one.stationarity, one.history is one.trace) == (Status.MAX_ITER, 0.2, True)
    assert one.ended(Status.INTERRUPTED).status is Status.INTERRUPTED
    assert one.ended(Status.INTERRUPTED).gap == 1.0
    assert one.of_kind(None) is one
    host = one.on_host()
    np.testing.assert_array_equal(host.feature_coef, one.feature_coef)
    found = one.extended(MachineSolution, intercept=0.5, infeasibility=0.25, n_iter=9)
    assert (found.intercept, found.infeasibility, found.n_iter, found.alpha) == (0.5, 0.25, 9, 0.25)
    np.testing.assert_array_equal(found.dual_coef, one.dual_coef)
    radius = one.extended(RadiusSolution, value=3.0, radius2=2.0)
    assert (radius.value, radius.radius2, radius.stationarity) == (3.0, 2.0, 0.2)
    bare = replace(radius, certificate=replace(radius.certificate, stationarity=None))
    assert np.isnan(bare.stationarity)
    assert one.extended(AlignmentSolution, alignments=np.ones(2)).alignment == 5.0
    of = replace(found, dual_coef=np.array([0.0, 2.0, 0.0, -1.0]))
    assert of.support.tolist() == [1, 3]


def test_parts_of_relaxed_solutions_by_hand():
    """Of each ridge its own numbers; the intercept is shared, unless every ridge has one."""
    ridges = np.array([1.0, 2.0, 4.0])
    more = {
        "relax": ridges,
        "ridge_primal": 10.0 * ridges,
        "ridge_gap": ridges / 4.0,
        "ridge_log_det": -ridges,
    }
    many = made(1).extended(
        RelaxedSolution,
        dual_coef=np.arange(30.0).reshape(3, 5, 2),
        feature_coef=np.empty(0),
        intercept=0.5,
        **more,
    )
    one = many.at(2)
    assert (one.relax, one.ridge_primal, one.ridge_gap, one.ridge_log_det) == (4.0, 40.0, 1.0, -4.0)
    assert (one.intercept, one.dual_coef[0].tolist(), one.ridge_rel_gap) == (0.5, [20.0, 21.0], 0.025)
    assert many.at(0).dual_coef[0].tolist() == [0.0, 1.0]
    shared = replace(many, ridge_log_det=7.0)
    assert shared.at(1).ridge_log_det == 7.0
    centred = replace(many, feature_coef=np.arange(12.0).reshape(3, 4), intercept=np.array([1.0, 2.0, 3.0]))
    assert (centred.at(1).intercept, centred.at(1).feature_coef.tolist()) == (2.0, [4.0, 5.0, 6.0, 7.0])
    outputs = replace(
        many, feature_coef=np.ones((3, 4, 2)), intercept=np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    )
    assert outputs.at(1).intercept.tolist() == [3.0, 4.0]
    fixed = replace(outputs, intercept=np.array([1.0, 2.0]))
    assert fixed.at(1).intercept.tolist() == [1.0, 2.0]


def test_exported_certificates_are_what_they_were(tmp_path, recorded):
    """Every number of the file, but for hashes and the seal, which follow from the numbers; and what has none."""
    gram = np.arange(18.0).reshape(3, 3, 2)
    stated = kw.results.Statement(
        "huber",
        2.0,
        np.array([1.0, 0.5, 0.0]),
        np.array([2.0, 3.0]),
        0.5,
        "LpBall",
        1.5,
        False,
        {"delta": 0.3},
    )
    problem = SimpleNamespace(statement=lambda solution: stated)
    own = {
        "weights": np.array([0.25, 0.75]),
        "dual_coef": np.array([1.0, 0.0, -1.0]),
        "feature_coef": np.ones(2),
    }
    one = replace(made(1), intercept=0.5, proof=np.array([[1.0, 2.0, 3.0]]), **own)
    contents = {}
    for name, own, what in (
        ("machine", one, stated),
        ("alignment", one, replace(stated, criterion="alignment", weight_set="none")),
        ("ball", one.extended(RadiusSolution, radius2=4.0), replace(stated, ball=np.array([0.5, 0.5, 0.0]))),
        ("outputs", replace(one, dual_coef=np.ones((3, 2)), feature_coef=np.empty(0)), stated),
    ):
        problem.statement = lambda solution, what=what: what
        own.export_certificate(tmp_path / "x.kwcert", problem, kernels=gram, y=np.ones(3))
        contents[name] = json.loads((tmp_path / "x.kwcert").read_text("utf8"))
        assert list(contents[name].pop("hashes")) == ["kernels", "y"]
        assert len(contents[name].pop("seal")) > 10
    problem_in_numbers = {
        "loss": "huber", "epsilon": 0.0, "delta": 0.3, "C": 2.0, "sample_weight": [1.0, 0.5, 0.0], "scale": [2.0, 3.0],
        "regularization": 0.5, "set": "LpBall", "set_value": 1.5, "intercept": False, "criterion": "machine",
    }  # fmt: skip
    fit = {
        "weights": [0.25, 0.75], "dual_coef": [[1.0, 0.0, -1.0]], "intercept": [0.5], "proof": [[1.0, 2.0, 3.0]],
        "feature_coef": [[1.0, 1.0]], "ball": [], "radius2": 1.0,
    }  # fmt: skip
    claim = {"primal": 4.0, "gap": 0.75, "rounding": 0.25, "status": "MAX_ITER"}
    whole = {
        "format": contents["machine"]["format"],
        "problem": problem_in_numbers,
        "fit": fit,
        "claim": claim,
    }
    assert whole["format"].startswith("kernelweave certificate ")
    aligned = whole | {
        "problem": problem_in_numbers | {"set": "none", "criterion": "alignment"},
        "claim": claim | {"primal": -4.0},
    }
    each = {"dual_coef": [[1.0] * 3] * 2, "intercept": [0.5, 0.5], "feature_coef": []}
    assert contents == {
        "machine": whole,
        "alignment": aligned,
        "ball": whole | {"fit": fit | {"ball": [0.5, 0.5, 0.0], "radius2": 4.0}},
        "outputs": whole | {"fit": fit | each},
    }
    problem.statement = lambda solution: stated
    said = []
    for own, given, data in (
        (one, problem, {"y": np.ones(3)}),
        (one, problem, {"kernels": gram}),
        (one, problem, {"features": gram, "y": np.ones(3)}),
        (replace(one, weights=np.ones((2, 2))), problem, {"y": np.ones(3), "kernels": gram}),
        (replace(one, dual_coef=np.empty(0)), problem, {"y": np.ones(3), "kernels": gram}),
        (one, SimpleNamespace(), {"y": np.ones(3), "kernels": gram}),
        (
            one,
            SimpleNamespace(statement=lambda s: replace(stated, weight_set="Other")),
            {"y": [1], "kernels": gram},
        ),
    ):
        with pytest.raises(kw.InputError) as error:
            own.export_certificate(tmp_path / "y.kwcert", given, **data)
        said.append(str(error.value))
    recorded("refused", said)
    assert not (tmp_path / "y.kwcert").exists()
