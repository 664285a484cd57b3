"""Exported certificates, judged by a file that imports nothing of kernelweave.

Modules: `judge`, `results/solution`, `machines/bordered`.
"""

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import xlog1py, xlogy

import kernelweave as kw
import raw_scales
import stress
from kernelweave import judge
from kernelweave.machines.losses import LOSSES, Cox, Huber, Quantile, as_loss
from kernelweave.results.solution import Statement
from known_sets import KNOWN
from problems import needs_long_double

SETS = {
    "simplex": kw.weight_sets.Simplex,
    "capped": kw.weight_sets.CappedSimplex,
    "lp": kw.weight_sets.LpBall,
    "net": kw.weight_sets.ElasticNet,
}
MACHINES = {
    "svc": "hinge",
    "l2svc": "squared-hinge",
    "svr": "epsilon-insensitive",
    "klr": "logistic",
}


#: Losses that are sums over rows and have formulas in the judge.
JUDGED = [name for name, kind in LOSSES.items() if kind.judged and kind.rowwise]


def fits(p):
    """Solutions of a problem of `stress`, their problems, and what they were given."""
    w, problems = p.weights, kw.problems
    data, tube = {"kernels": p.gram, "y": p.y}, {}
    if "epsilon" in p.options:
        tube = {"epsilon": p.options["epsilon"]}
    if p.solver in ("rls2", "rls2-alternating"):
        yield (
            kw.solve_rls2(p.gram, p.y, p.parameter, tol=p.tol, sample_weight=w),
            problems.rls2_problem(p.gram, p.y, sample_weight=w),
            data,
        )
    elif p.solver == "rls2-path":
        path = kw.rls2_path(p.gram, p.y, p.parameter * np.array([10.0, 1.0]), tol=p.tol, sample_weight=w)
        yield path.at(1), problems.rls2_problem(p.gram, p.y, sample_weight=w), data
    elif p.solver in MACHINES:
        K = p.gram[:, :, 0]
        solve = getattr(kw.solvers, f"solve_{p.solver}")
        found = solve(K, p.y, p.parameter, *tube.values(), sample_weight=w, tol=p.tol)
        problem = problems.machine_problem(K, p.y, p.parameter, MACHINES[p.solver], sample_weight=w, **tube)
        yield found, problem, {"kernels": K, "y": p.y}
    elif p.solver == "mkl":
        value, loss = p.options.get("value"), stress.loss_of(p)
        own = SETS[p.options["set"]](*(() if value is None else (value,)))
        options = {"loss": loss, "sample_weight": w}
        found = kw.solve_svm_mkl(
            p.gram, p.y, p.parameter, own, solver=p.options["method"], tol=p.tol, max_iter=20, **options
        )
        yield found, problems.margin_problem(p.gram, p.y, p.parameter, own, **options), data
    elif p.solver == "rkl":
        found = kw.solve_rkl(p.gram, p.y, p.parameter, tol=p.tol, sample_weight=w)
        yield found, problems.rkl_problem(p.gram, p.y, p.parameter, sample_weight=w), data


def exported(folder, found, problem, data):
    path = folder / "fit.kwcert"
    found.export_certificate(path, problem, **data)
    return json.loads(path.read_text(encoding="utf8"))


def resealed(content):
    return content | {"seal": judge.seal(content)}


# ---- its formulas -----------------------------------------------------------------------------------------


@needs_long_double
@pytest.mark.parametrize("name", JUDGED)
def test_losses_and_boxes_are_those_of_the_library(name):
    """From above at the worse end of an interval, also where a logistic loss is a line or nothing."""
    loss = as_loss(name, 0.25)
    p = {"loss": name, "epsilon": 0.25, **vars(loss)}
    far = judge.Q(10**100)
    ends = [(-3.0, -2.5), (-0.5, 0.5), (0.9, 1.2), (0.1, 0.1), (2.0, 2.0), (-2e4, -15e3), (15e3, 2e4)]
    if name == "poisson":
        # beyond these the library has the largest numbers for exponentials
        ends = [pair for pair in ends if pair[1] < 1e3]
    for y in (1.0, -1.0) if loss.classifies else (0.5, 2.0 if name == "poisson" else -2.0, 0.0):
        for low, high in ends:
            wanted = loss.value(np.full(2, y), np.array([low, high])).max()
            found = judge.loss_above(p, judge.Q(y), judge.Q(low), judge.Q(high))
            assert found >= judge.Q(wanted) * (1 - judge.Q(1e-15))
            assert float(found) == pytest.approx(wanted, rel=1e-14, abs=1e-300)
        for cost in (0.0, 1.5):
            limits = [end[0] for end in loss.bounds(np.array([y]), np.array([cost]))]
            found = [float(min(max(end, -far), far)) for end in judge.box(p, judge.Q(y), judge.Q(cost))]
            np.testing.assert_allclose(found, np.clip(limits, -float(far), float(far)), rtol=1e-15)


@needs_long_double
@pytest.mark.parametrize("name", JUDGED)
def test_the_objective_is_bounded_at_the_worse_end_of_every_decision_value(name):
    """With decision values known to some error, an intercept, costs of rows and half the quadratic form."""
    loss, costs = as_loss(name, 0.25), np.array([1.0, 0.5, 2.0])
    y = np.array([1.0, -1.0, 1.0]) if loss.classifies else np.array([0.5, 2.0, 0.0])
    f, error = np.array([0.25, -0.5, 1.0]), np.array([0.5, 0.25, 0.0])
    p = {
        "loss": name,
        "epsilon": 0.25,
        **vars(loss),
        "set": "CappedSimplex",
        "set_value": 1.0,
        "scale": [2.0],
    }
    p |= {"C": 3.0, "sample_weight": costs.tolist(), "regularization": 0.5, "intercept": True}
    fit = {"dual_coef": [[0.0] * 3], "weights": [1.0], "ball": [], "feature_coef": [], "intercept": [0.125]}
    exact = [[judge.Q(v) for v in values] for values in (f, error)]
    kernels = SimpleNamespace(
        combine=lambda d, c: (*exact, judge.Q(1.5)), quadratic_forms_above=lambda b: [judge.Q(0)]
    )
    upper, lower = judge.bounds(p, fit | {"proof": []}, kernels, [[judge.Q(v) for v in y]])
    ends = [loss.value(y, f + 0.125 + sign * error) for sign in (-1.0, 1.0)]
    wanted = 0.5 * 0.5 * 1.5 + 3.0 * costs @ np.maximum(*ends)
    assert float(upper) == pytest.approx(wanted, rel=1e-12)
    assert lower <= upper


@needs_long_double
@pytest.mark.parametrize(
    ("loss", "name", "values"),
    [(Huber(0.5), "delta", [None, "0.5", 0.0, -1.0]), (Quantile(0.3), "q", [None, "0.3", 0.0, 1.0])],
    ids=["huber", "quantile"],
)
def test_parameters_of_losses_out_of_range_are_refused(rng, tmp_path, loss, name, values):
    X = rng.normal(size=(12, 2))
    data = {"kernels": X[:, None, :] * X[None, :, :], "y": X[:, 0] + 0.1 * rng.normal(size=12)}
    problem = kw.Problem(data["kernels"], data["y"], loss=loss, C=1.0)
    content = exported(tmp_path, kw.solve(problem), problem, data)
    for value in values:
        other = resealed(content | {"problem": content["problem"] | {name: value}})
        assert f"needs a number `{name}`" in judge.judge(other, data)[0]
    less = {key: one for key, one in content["problem"].items() if key != name}
    assert f"needs a number `{name}`" in judge.judge(resealed(content | {"problem": less}), data)[0]


def test_the_judge_knows_the_losses_whose_certificates_are_exported():
    known = {
        name for name, kind in LOSSES.items() if kind.judged and kind.__module__.startswith("kernelweave.")
    }
    assert known == {*judge.LOSSES}


@needs_long_double
@pytest.mark.parametrize("value", ["foo", "Foo", "", None, 3, ["hinge"], {}], ids=str)
@pytest.mark.parametrize("name", ["format", "loss", "criterion", "set"])
def test_what_a_judge_does_not_know_is_refused(rng, tmp_path, name, value):
    """Also by an older judge than the file: an unknown loss would be judged as another one."""
    X = rng.normal(size=(12, 2))
    data = {"kernels": X[:, None, :] * X[None, :, :], "y": np.sign(X[:, 0])}
    problem = kw.Problem(data["kernels"], data["y"], loss="hinge", C=1.0)
    content = exported(tmp_path, kw.solve(problem), problem, data)
    assert judge.judge(content, data)[0] == ""
    part = {name: value} if name == "format" else {"problem": content["problem"] | {name: value}}
    wrong, *bounds = judge.judge(resealed(content | part), data)
    assert wrong.startswith(f"This judge knows no `{name}` {value!r}, only ")
    assert bounds == [judge.HUGE, 0]


@needs_long_double
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("CappedSimplex", [None, "0.6", 0.0, 1.5, float("nan")]),
        ("LpBall", [None, 1.0]),
        ("ElasticNet", [None, 1.0]),
    ],
)
def test_parameters_of_sets_out_of_range_are_refused(rng, tmp_path, kind, values):
    X = rng.normal(size=(12, 2))
    data = {"kernels": X[:, None, :] * X[None, :, :], "y": np.sign(X[:, 0])}
    own = getattr(kw.weight_sets, kind)(2.0 if kind == "LpBall" else 0.6)
    problem = kw.Problem(data["kernels"], data["y"], loss="hinge", C=1.0, weights=own)
    content = exported(tmp_path, kw.solve(problem), problem, data)
    assert judge.judge(content, data)[0] == ""
    for value in values:
        other = resealed(content | {"problem": content["problem"] | {"set_value": value}})
        assert "needs a number `set_value`" in judge.judge(other, data)[0]


@needs_long_double
@pytest.mark.parametrize("on_features", [False, True])
@pytest.mark.parametrize("loss", [Huber(0.5), Quantile(0.3), Cox(), "squared"], ids=str)
def test_every_key_of_a_certificate_is_needed(rng, tmp_path, loss, on_features):
    X = rng.normal(size=(12, 2))
    data = {"kernels": X[:, None, :] * X[None, :, :], "y": X[:, 0] + 0.1 * rng.normal(size=12)}
    if loss == Cox():
        data["y"] = Cox.targets(rng.exponential(size=12), np.arange(12) % 3 > 0)
    kernels = data["kernels"]
    if on_features:
        data = {"features": X, "groups": np.arange(3), "y": data["y"]}
        kernels = kw.FeatureStack(X, data["groups"])
    problem = kw.Problem(kernels, data["y"], loss=loss, C=1.0)
    content = exported(tmp_path, kw.solve(problem), problem, data)
    assert judge.judge(content, data)[0] == ""

    def without(table, name):
        return {key: value for key, value in table.items() if key != name}

    for name in content:
        wrong, *bounds = judge.judge(resealed(without(content, name)), data)
        # a new seal takes the place of the old one
        assert (wrong == "") if name == "seal" else (f"`{name}`" in wrong)
        assert name == "seal" or bounds == [judge.HUGE, 0]
    parts = [name for name, part in content.items() if isinstance(part, dict)]
    assert parts == ["problem", "fit", "claim", "hashes"]
    for part in parts:
        for name in content[part]:
            wrong, *bounds = judge.judge(resealed(content | {part: without(content[part], name)}), data)
            assert f"`{name}`" in wrong, (part, name)
            assert bounds == [judge.HUGE, 0]


@needs_long_double
def test_arrays_without_a_hash_are_not_read(rng, tmp_path):
    X = rng.normal(size=(12, 2))
    data = {"features": X, "groups": np.arange(3), "y": X[:, 0]}
    problem = kw.Problem(kw.FeatureStack(X, data["groups"]), data["y"], C=1.0)
    content = exported(tmp_path, kw.solve(problem), problem, data)
    wrong = judge.judge(content, {**data, "kernels": X[:, None, :] * X[None, :, :]})[0]
    assert wrong == "The certificate has no `kernels` in `hashes`."


@needs_long_double
def test_entropies_and_norms_are_bounded_from_their_side():
    for a in (0.0, 1e-300, 1e-9, 0.25, 0.5, 0.7, 1.0 - 2.0**-52, 1.0):
        wanted = -float(xlogy(a, a) + xlog1py(1.0 - a, -a))
        found = judge.entropy_below(judge.Q(a))
        assert found <= judge.Q(wanted) * (1 + judge.Q(1e-15))
        assert float(found) == pytest.approx(wanted, rel=1e-12)
    values = [judge.Q(x) for x in (3.0, 0.0, 4.0, 1e-9)]
    for order, wanted in ((1.0, 7.0 + 1e-9), (2.0, 5.0), (3.0, 91.0 ** (1.0 / 3.0)), (np.inf, 4.0)):
        found = float(judge.power_norm(values, order))
        assert wanted * (1.0 - 1e-15) <= found <= wanted * (1.0 + 1e-14)
    assert judge.power_norm([judge.Q(0)] * 2, 2.0) == 0


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_sets_of_weights_are_those_of_the_library(known, rng):
    """Support functions from above, and what takes weights into the set."""
    own = known.weight_set.in_statement(Statement("hinge", 1.0, np.ones(3), np.ones(6)))
    p = {"set": own.weight_set, "set_value": own.set_value}
    for q in (*rng.exponential(size=(5, 6)) ** 2, np.eye(6)[2], np.ones(6)):
        found = float(judge.support_above(p, [judge.Q(x) for x in q]))
        # the multiplier of an elastic net is a rounded one
        assert known.support(q) * (1.0 - 1e-14) <= found <= known.support(q) * (1.0 + 1e-9)
    for _ in range(5):
        d = known.sample(rng, 6)
        assert float(judge.outside(p, [judge.Q(x) for x in d])) <= 1.0 + 1e-12
        far = 1.5 * d
        factor = float(min(judge.outside(p, [judge.Q(x) for x in far]), judge.Q(10**100)))
        q = rng.exponential(size=6)
        assert far @ q / factor <= known.support(q) * (1.0 + 1e-12)
    border = 1.5 * known.weight_set.start(6)
    assert float(judge.outside(p, [judge.Q(x) for x in border])) >= 1.5 * (1.0 - 1e-12)


def test_infeasible_coefficients_are_moved_into_the_box_with_sum_zero(rng):
    p = {"loss": "hinge", "epsilon": 0.0, "intercept": True}
    y = [judge.Q(int(v)) for v in (1, 1, 1, -1, -1, 1, -1, -1)]
    costs = [judge.Q(c) for c in (1, 2, 0, 1, 0.5, 3, 1, 1)]
    for _ in range(10):
        b = [judge.Q(v) for v in 2.0 * rng.normal(size=8)]
        for intercept in (True, False):
            found = judge.feasible(p | {"intercept": intercept}, b, y, costs)
            assert all(0 <= v * own <= cost for v, own, cost in zip(found, y, costs, strict=True))
            clipped = [
                min(max(v * own, judge.Q(0)), cost) * own for v, own, cost in zip(b, y, costs, strict=True)
            ]
            if intercept:
                assert sum(found) == 0
                # nothing moves away from zero, and no more than the sum
                assert all(abs(v) <= abs(c) for v, c in zip(found, clipped, strict=True))
                assert sum(abs(c - v) for v, c in zip(found, clipped, strict=True)) == abs(sum(clipped))
            else:
                assert found == clipped


@pytest.mark.sampled(2)
@needs_long_double
@pytest.mark.parametrize("hostile", [False, True])
def test_certificates_over_all_scales_are_confirmed(hostile, tmp_path):
    judged = 0
    for number in range(70):
        p = stress.make(number, hostile)
        try:
            every = list(fits(p))
        except kw.InputError:  # a refusal, judged in `test_stress`
            continue
        for found, problem, data in every:
            wrong, upper, lower = judge.judge(exported(tmp_path, found, problem, data), data)
            assert wrong == "", (str(p), wrong)
            assert upper >= lower
            judged += 1
    assert judged > 50


@needs_long_double
@pytest.mark.parametrize("number", [200283, 203748])
def test_logistic_certificates_with_costs_far_above_the_coefficients_are_confirmed(number, tmp_path):
    """Two problems whose averaged cuts once gave a bound above the optimum."""
    p = stress.make(number, hostile=True)
    options = {"loss": "logistic", "sample_weight": p.weights}
    found = kw.solve_svm_mkl(p.gram, p.y, p.parameter, solver="cutting-plane", tol=p.tol, **options)
    problem = kw.problems.margin_problem(p.gram, p.y, p.parameter, **options)
    data = {"kernels": p.gram, "y": p.y}
    assert judge.judge(exported(tmp_path, found, problem, data), data)[0] == ""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loss", [None, "logistic", "squared-hinge"])
def test_certificates_of_features_are_confirmed(loss, tmp_path):
    for number in range(12):
        p = raw_scales.make(number)
        y = p.Y if loss is None else np.sign(p.Y[:, 0])
        if loss is not None and len(set(y)) == 1:
            continue
        stack, weights = kw.FeatureStack(p.Z, p.groups), {"sample_weight": p.sample_weight, "scale": p.scale}
        if loss is None:
            found = kw.solve_rls2(stack, y, p.alpha, tol=1e-6, **weights)
            problem = kw.problems.rls2_problem(stack, y, **weights)
        else:
            found = kw.solve_svm_mkl(stack, y, 0.1, loss=loss, **weights)
            problem = kw.problems.margin_problem(stack, y, 0.1, loss=loss, **weights)
        data = {"features": p.Z, "groups": p.groups, "y": y}
        assert judge.judge(exported(tmp_path, found, problem, data), data)[0] == "", number


@pytest.fixture(
    params=["rls2", "svc", "klr", "rkl", "mkl simplex auto", "mkl capped auto", "mkl lp auto", "mkl net auto"]
)
def certificate(request, tmp_path):
    """One of each kind, whose gap is far above rounding."""
    problems = (stress.make(number, False) for number in range(1500))
    for p in (p for p in problems if p.name == request.param):
        for found, problem, data in fits(p):
            if found.rounding < 1e-3 * found.gap and found.primal > 0:
                return exported(tmp_path, found, problem, data), data
    raise AssertionError("no such problem")


@pytest.mark.sampled(4)
@needs_long_double
def test_changed_numbers_are_refused(certificate, rng):
    content, data = certificate
    assert judge.judge(content, data)[0] == ""
    # a file that was changed by hand
    assert "was changed" in judge.judge(content | {"format": "?"}, data)[0]
    claim = content["claim"]
    gap = claim["gap"]

    def refused(**parts):
        return judge.judge(resealed({**content, **parts}), data)[0] != ""

    assert refused(claim={**claim, "primal": claim["primal"] - 2 * claim["rounding"] - 1e-3 * gap - 1e-14})
    assert refused(claim={**claim, "primal": claim["primal"] + 1.01 * gap + 1e-12 * claim["primal"]})
    assert refused(claim={**claim, "gap": 1e-3 * gap})
    fit, known = content["fit"], 0
    for _ in range(20):
        name = str(rng.choice(["weights", "dual_coef", "intercept"]))
        values = np.array(fit[name])
        place = tuple(rng.integers(values.shape))
        moved = values.copy()
        moved[place] += rng.choice([-1.0, 1.0]) * 10 ** rng.uniform(-3, 1) * (np.abs(values).max() + 1e-3)
        changed = resealed({**content, "fit": {**fit, name: moved.tolist()}})
        wrong, upper, _ = judge.judge(changed, data)
        # numbers that are as good by chance may be confirmed: only where both bounds agree with the claim
        assert wrong or abs(float(upper) - claim["primal"]) <= gap + 1e-15 * claim["primal"]
        known += bool(wrong)
    assert known >= 15
    other = {**data, "y": data["y"] + np.eye(1, len(data["y"]))[0]}
    assert judge.judge(content, other)[0] == "`y` is not what the fit was given."


@pytest.mark.sampled(3)
@needs_long_double
def test_bounds_in_extended_precision_contain_the_exact_ones(certificate, monkeypatch):
    content, data = certificate
    _, upper, lower = judge.judge(content, data)
    monkeypatch.setattr(judge, "EXACT_ROWS", 0)
    _, wider, below = judge.judge(content, data)
    assert wider >= upper
    assert below <= lower
    # at most 1.2e-14 in these problems
    assert float(wider - upper) <= 5e-14 * float(upper)
    assert float(lower - below) <= 5e-14 * float(upper)


def test_the_file_runs_alone(tmp_path, rng):
    """A copy of it on 120 rows, beyond exact numbers, in an interpreter that cannot see kernelweave."""
    X = rng.normal(size=(120, 4))
    gram, y = X[:, None, :] * X[None, :, :], np.sign(X[:, 0] - X[:, 2])
    found = kw.solve_svm_mkl(gram, y, C=1.0)
    found.export_certificate(
        tmp_path / "fit.kwcert", kw.problems.margin_problem(gram, y, C=1.0), kernels=gram, y=y
    )
    np.savez(tmp_path / "data.npz", kernels=gram, y=y)
    shutil.copy(judge.__file__, tmp_path / "judge.py")

    def run(*names):
        code = (
            "import sys, runpy; sys.modules['kernelweave'] = None; sys.argv = sys.argv[1:]; "
            "runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        return subprocess.run(
            [sys.executable, "-c", code, "judge.py", *names],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    done = run("fit.kwcert", "data.npz")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "CONFIRMED."), done.stderr
    np.savez(tmp_path / "data.npz", kernels=gram, y=-y)
    done = run("fit.kwcert", "data.npz")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        1,
        "REFUSED. `y` is not what the fit was given.",
    )
    assert run("fit.kwcert").returncode == 2


def test_what_cannot_be_exported_says_so(tmp_path, rng):
    X = rng.normal(size=(30, 3))
    gram = X[:, None, :] * X[None, :, :]
    found = kw.solve_rls2(gram, X[:, 0], 1.0)
    problem = kw.problems.rls2_problem(gram, X[:, 0])
    with pytest.raises(kw.InputError, match="`kernels` or `features`"):
        found.export_certificate(tmp_path / "a", problem, y=X[:, 0])
    cardinality = kw.problems.cardinality_problem(gram, np.sign(X[:, 0]), 1.0, 2)
    with pytest.raises(kw.InputError, match="one convex problem"):
        found.export_certificate(tmp_path / "a", cardinality, kernels=gram, y=X[:, 0])
    assert not (tmp_path / "a").exists()


# ---- kernels weighted by the targets ------------------------------------------------------------------


def weighted_by_targets(seed):
    """A solution of AlignF and one of EasyMKL, each with its problem and data."""
    rng = np.random.default_rng(seed)
    n, M = int(rng.integers(4, 30)) if seed % 10 else 110, int(rng.integers(1, 6))
    Z = rng.normal(size=(n, 2 * M)) * 10.0 ** rng.uniform(-2, 2, 2 * M)
    Z += rng.choice([0.0, 1.0, 2000.0]) * rng.random(2 * M)
    y = np.where(Z[:, 0] + 0.3 * Z[:, 0].std() * rng.normal(size=n) > np.median(Z[:, 0]), 1.0, -1.0)
    gram = np.stack([own @ own.T for own in np.split(Z, M, axis=1)], axis=-1)
    if seed % 3 == 0:
        gram[:, :, 0] *= 2.0 ** rng.integers(-300, 300)
    data = {"kernels": gram, "y": y}
    if seed % 3 == 1:
        data = {"features": Z, "groups": 2 * np.arange(M + 1), "y": y}
    options = {
        "sample_weight": rng.integers(1, 3, n) * rng.random(n) if seed % 2 else None,
        "scale": np.exp(rng.normal(size=M)),
    }
    stop = {"max_iter": [None, 1, 5][seed % 3]}
    lam = float(rng.choice([0.0, 0.01, 0.5, 1.0]))
    found = kw.solvers.solve_alignf(gram, y, **options, **stop)
    yield found, kw.problems.alignf_problem(gram, y, **options), data
    found = kw.solvers.solve_easy_mkl(gram, y, lam, **options, **stop)
    yield found, kw.problems.easy_mkl_problem(gram, y, lam, **options), data


@pytest.mark.sampled(4)
@needs_long_double
@pytest.mark.parametrize("seed", range(40))
def test_kernels_weighted_by_the_targets_are_confirmed(seed, tmp_path):
    try:
        every = list(weighted_by_targets(seed))
    except kw.InputError:  # nothing separates the classes
        every = []
    for found, problem, data in every:
        assert found.verify(problem).status is not kw.solvers.Status.REFUTED
        content = exported(tmp_path, found, problem, data)
        assert judge.judge(content, data)[0] == ""
        claim = content["claim"]
        far = 3 * claim["rounding"] + 1e-9 * abs(claim["primal"])
        for part in ({"primal": claim["primal"] - far}, {"gap": claim["gap"] / 2 - far}):
            worse = resealed({**content, "claim": {**claim, **part}})
            assert judge.judge(worse, data)[0] != ""
        weights = np.array(content["fit"]["weights"])
        # shares of kernels whose sizes differ by 1e90 are known to rounding errors only
        if content["problem"]["criterion"] == "margins" and (weights > 0.1).sum() > 1 and seed % 3:
            content["fit"]["weights"] = (weights * 2.0 ** -np.arange(len(weights))).tolist()
            assert "not the shares" in judge.judge(resealed(content), data)[0]


# ---- Cox's partial likelihood ---------------------------------------------------------------------------


def censored(seed):
    """A solution of censored times, its problem and its data."""
    rng = np.random.default_rng(seed)
    n, M = int(rng.integers(4, 30)) if seed % 40 else 105, int(rng.integers(1, 5))
    Z = rng.normal(size=(n, 2 * M)) * 10.0 ** rng.uniform(-1, 1, 2 * M)
    time = rng.exponential(np.exp(-Z[:, 0] / Z[:, 0].std()))
    if rng.random() < 0.7:
        time = np.ceil(time * rng.choice([1.0, 3.0, 10.0]))
    event = rng.random(n) < rng.choice([0.3, 0.7, 1.0])
    strata = rng.integers(0, 3, n) if rng.random() < 0.3 else None
    weight = rng.integers(0, 3, n) * rng.random(n) if rng.random() < 0.5 else None
    event[0] = True
    if weight is not None:
        weight[0] = 1.0
    y = Cox.targets(time, event, strata)
    sets = [kw.weight_sets.LpBall(1.5), kw.weight_sets.LpBall(2.0), kw.weight_sets.ElasticNet(0.5)]
    sets += [kw.weight_sets.Simplex(), kw.weight_sets.CappedSimplex(0.6)] if M > 1 else []
    how = {
        "loss": Cox(strata is not None, str(rng.choice(["breslow", "efron"]))),
        "weights": sets[int(rng.integers(len(sets)))],
        "C": float(10.0 ** rng.uniform(-2.0, 1.5)),
        "sample_weight": weight,
        "scale": np.exp(rng.normal(size=M)),
    }
    data = {"kernels": np.stack([own @ own.T for own in np.split(Z, M, axis=1)], axis=-1), "y": y}
    problem = kw.Problem(data["kernels"], y, **how)
    if rng.random() < 0.3:
        data = {"features": Z, "groups": 2 * np.arange(M + 1), "y": y}
        problem = kw.Problem(kw.FeatureStack(Z, data["groups"]), y, **how)
    return kw.solve(problem, tol=float(10.0 ** rng.uniform(-8, -2))), problem, data


@pytest.mark.sampled(5)
@needs_long_double
@pytest.mark.parametrize("seed", range(60))
def test_certificates_of_censored_times_are_confirmed_and_changed_ones_refused(seed, tmp_path):
    found, problem, data = censored(seed)
    content = exported(tmp_path, found, problem, data)
    wrong, upper, lower = judge.judge(content, data)
    assert wrong == ""
    claim = content["claim"]
    far = 3 * claim["rounding"] + 1e-9 * claim["primal"]
    for part in (
        {"primal": claim["primal"] - far},
        {"primal": claim["primal"] + 1.01 * claim["gap"] + far},
        {"gap": float(upper - lower) / 2 - far},
    ):
        assert judge.judge(resealed({**content, "claim": {**claim, **part}}), data)[0] != ""
    # another problem is another optimum
    for name, value in (("stratified", None), ("ties", "exact")):
        other = resealed({**content, "problem": {**content["problem"], name: value}})
        assert "needs `ties`" in judge.judge(other, data)[0]
    rng = np.random.default_rng(seed)
    fit, name = content["fit"], str(rng.choice(["weights", "dual_coef"]))
    values = np.array(fit[name])
    place = tuple(rng.integers(values.shape))
    values[place] += rng.choice([-1.0, 1.0]) * 10 ** rng.uniform(-2, 1) * (np.abs(values).max() + 1e-3)
    wrong, upper, _ = judge.judge(resealed({**content, "fit": {**fit, name: values.tolist()}}), data)
    assert wrong or abs(float(upper) - claim["primal"]) <= claim["gap"] + 1e-15 * claim["primal"]


@needs_long_double
@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("stratified", [False, True])
def test_the_judge_bounds_cox_and_his_conjugate_from_their_side(stratified, ties, rng):
    loss, costs = Cox(stratified, ties), rng.integers(0, 3, 30) * rng.uniform(0.5, 2.0, 30)
    p = {"loss": "cox", **vars(loss)}
    time, event = rng.integers(1, 8, 30), rng.random(30) < 0.7
    y = Cox.targets(time, event, rng.integers(0, 2, 30) if stratified else None)
    exact_y, exact_costs = judge.exact(y), judge.exact(costs)
    # beyond 10,000 below the largest, exponentials have a bound that is far above them
    for spread in (0.1, 3.0, 1e3):
        f = spread * rng.normal(size=30)
        wanted, values = loss.total(y, costs, f), judge.exact(f)
        found = judge.cox_above(p, exact_y, exact_costs, values, values)
        assert found >= judge.Q(wanted) * (1 - judge.Q(1e-14))
        assert float(found) == pytest.approx(wanted, rel=1e-13)
    f = rng.normal(size=30)
    b = judge.cox_feasible(p, judge.exact(-loss.gradient(y, costs, f)), exact_y, exact_costs)
    near = np.array([float(v) for v in b])
    np.testing.assert_allclose(near, -loss.gradient(y, costs, f), atol=1e-13)
    found = float(judge.cox_conjugate_above(p, b, exact_y, exact_costs))
    assert found == pytest.approx(-loss.dual_term(y, costs, near), rel=1e-11)
    # Young's inequality, in exact numbers, also at coefficients that are moved far
    for _ in range(20):
        any_b = judge.cox_feasible(p, judge.exact(rng.normal(size=30)), exact_y, exact_costs)
        values = judge.exact(2.0 * rng.normal(size=30))
        above = judge.cox_conjugate_above(p, any_b, exact_y, exact_costs)
        whole = judge.cox_above(p, exact_y, exact_costs, values, values) + above + judge.dot(any_b, values)
        assert whole >= 0
        assert loss.infeasibility(y, costs, np.array([float(v) for v in any_b])) < 1e-12
        best = -loss.dual_term(y, costs, np.array([float(v) for v in any_b]))
        assert float(above) == pytest.approx(best, rel=1e-9, abs=1e-9)


# ---- whole answers ----------------------------------------------------------------------------------------


def written(n=9, **problem):
    """A certificate of coefficients by hand, which nothing has solved, with kernels, features and targets."""
    rng = np.random.default_rng(0)
    Z = [rng.normal(size=(n, k)).round(2) for k in (1, 2, 3)]
    p = {
        "loss": "squared",
        "epsilon": 0.0,
        "C": 1.5,
        "sample_weight": rng.integers(0, 3, n).tolist(),
        "scale": [1.0, 0.5, 2.0],
        "regularization": 2.0,
        "set": "Simplex",
        "set_value": None,
        "intercept": True,
        "criterion": "machine",
    }
    fit = {
        "weights": [0.5, 0.0, 0.75],
        "dual_coef": [(0.03 * rng.normal(size=n)).round(4).tolist()],
        "intercept": [0.25],
        "proof": None,
        "feature_coef": None,
        "ball": None,
        "radius2": None,
    }
    return p | problem, fit, Z, rng


LOSSES_BY_HAND = {
    "hinge": {},
    "squared-hinge": {},
    "epsilon-insensitive": {"epsilon": 0.125},
    "squared": {},
    "huber": {"delta": 0.5},
    "quantile": {"q": 0.25},
    "poisson": {},
    "logistic": {},
    "cox": {"ties": "breslow", "stratified": False},
}


def targets_by_hand(loss, n, rng):
    if loss in ("hinge", "squared-hinge", "logistic"):
        return np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    if loss == "poisson":
        return np.arange(n) % 4.0
    if loss == "cox":
        return (1.0 + np.arange(n) // 2) * np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    return rng.normal(size=n).round(2)


def as_floats(pair):
    return [judge.to_float(q) for q in pair]


@needs_long_double
@pytest.mark.parametrize("loss", LOSSES_BY_HAND)
def test_bounds_of_coefficients_by_hand(loss, recorded, monkeypatch):
    """Exact and extended, of matrices and features: with a proof, a ball, other sets, no intercept, and of ties."""
    p, fit, Z, rng = written(loss=loss, **LOSSES_BY_HAND[loss])
    y = targets_by_hand(loss, 9, rng)
    matrices = {"kernels": np.stack([z @ z.T for z in Z], axis=-1)}
    features = {"features": np.concatenate(Z, axis=1), "groups": np.array([0, 1, 3, 6])}
    coef, proof = [0.5, 0.0, 0.0, *rng.normal(size=3).round(3)], (0.1 * rng.normal(size=9)).round(4).tolist()
    ball = np.abs(rng.normal(size=9)).round(3).tolist()
    if loss in ("squared", "huber", "quantile", "epsilon-insensitive"):
        # coefficients of the signs of the targets bound the objective from below
        fit["dual_coef"], proof = [(0.1 * y + fit["dual_coef"][0]).tolist()], (0.2 * y).tolist()
    found = {}
    for exact in (True, False):
        monkeypatch.setattr(judge, "EXACT_ROWS", 100 if exact else 5)
        for name, data in (("matrices", matrices), ("features", features)):
            kernels = judge.Kernels(data)

            def bounded(fit_more=(), kernels=kernels, **more):
                return as_floats(judge.bounds(p | more, fit | dict(fit_more), kernels, [judge.exact(y)]))

            own = {"plain": bounded(), "without an intercept": bounded(intercept=False)}
            own["with a proof"] = bounded({"proof": [proof]})
            own["in a ball"] = bounded({"ball": ball, "radius2": 3.0, "proof": [proof, ball]})
            own["negative"] = bounded({"weights": [0.5, -0.1, 0.2]})
            for kind, value in (
                ("LpBall", 2.0),
                ("LpBall", np.inf),
                ("ElasticNet", 0.5),
                ("CappedSimplex", 0.4),
            ):
                own[f"{kind} {value}"] = bounded(set=kind, set_value=value)
            if loss == "cox":
                own["efron"] = bounded(ties="efron")
                own["strata"] = bounded(ties="efron", stratified=True)
            if name == "features":
                own["of coefficients"] = bounded({"feature_coef": [coef]})
                own["without weights"] = bounded({"feature_coef": [[0.5, 0.25, *coef[2:]]]})
            found[f"{name}, {'exact' if exact else 'extended'}"] = own
    for name in ("matrices", "features"):
        for key, (upper, lower) in found[f"{name}, exact"].items():
            above, below = found[f"{name}, extended"][key]
            assert above >= upper * (1 - 1e-15)
            assert below <= lower * (1 + 1e-15) or below <= lower + 1e-15
    recorded("bounds", found["features, exact"])
    recorded("of matrices", found["matrices, extended"])


@needs_long_double
def test_bounds_of_alignments_and_margins_by_hand(recorded, monkeypatch):
    p, fit, Z, rng = written(set_value=0.25)
    y = judge.exact(targets_by_hand("hinge", 9, rng))
    p["sample_weight"][0] = 1
    data = {"kernels": np.stack([z @ z.T for z in Z], axis=-1)}
    found = {}
    for exact in (True, False):
        monkeypatch.setattr(judge, "EXACT_ROWS", 100 if exact else 5)
        for name, own in (
            ("matrices", data),
            ("features", {"features": np.concatenate(Z, axis=1), "groups": [0, 1, 3, 6]}),
        ):
            kernels = judge.Kernels(own)
            ends = {"alignment": as_floats(judge.alignment_bounds(p, fit, kernels, y))}
            ends["none"] = as_floats(
                judge.alignment_bounds(p, fit | {"weights": [-1.0, 0.0, 0.0]}, kernels, y)
            )
            for lam in (0.25, 0.0, 1.0):
                margins = p | {"set_value": lam}
                ends[f"margins {lam}"] = as_floats(
                    judge.easy_bounds(margins, fit | {"proof": [[1.0, -2.0]]}, kernels, y)
                )
            ends["shares"] = judge.shares_differ(p, fit, kernels)
            lengths = kernels.quadratic_forms_above(judge.exact(fit["dual_coef"][0]))
            shares = np.array([a * float(b) for a, b in zip(p["scale"], lengths, strict=True)])
            ends["same shares"] = judge.shares_differ(
                p, fit | {"weights": (shares / shares.sum()).tolist()}, kernels
            )
            found[f"{name}, {exact}"] = ends
    assert found["matrices, True"]["shares"]
    assert not found["features, False"]["same shares"]
    recorded("bounds", found)


def test_what_is_judged_and_why_it_is_refused(tmp_path, capsys, monkeypatch):
    """Each reason alone, and the last digit of a claim; as functions and as a program."""
    p, fit, Z, rng = written()
    y = targets_by_hand("squared", 9, rng)
    data = {"kernels": np.stack([z @ z.T for z in Z], axis=-1), "y": y}
    upper, lower = judge.bounds(p, fit, judge.Kernels(data), [judge.exact(y)])
    claim = {"primal": float(upper), "gap": float(upper - lower), "rounding": 0.0, "status": "CONVERGED"}
    hashes = {name: judge.digest(values) for name, values in data.items()}
    whole = {"format": judge.FORMATS[0], "problem": p, "fit": fit, "claim": claim, "hashes": hashes}

    def judged(given=data, *, sealed=True, **changes):
        content = json.loads(json.dumps(whole))
        for path, value in changes.items():
            part, _, name = path.partition("__")
            if name:
                content[part][name] = value
            else:
                content[part] = value
        return judge.judge(resealed(content) if sealed else content | {"seal": "x"}, given)[0]

    assert judged() == ""
    assert judged(sealed=False) == "The certificate was changed after it was written."
    assert judged({**data, "y": y + 1.0}) == "`y` is not what the fit was given."
    assert judged({"y": y, "features": y, "groups": y}) == "The certificate has no `features` in `hashes`."
    for name in ("primal", "gap", "rounding"):
        assert judged(**{f"claim__{name}": float("inf")}) == "The claim is not finite: nothing is certified."
    assert judged(claim__primal=claim["primal"] + claim["gap"] * 1.01).startswith("The objective is ")
    assert judged(claim__primal=claim["primal"] + claim["gap"] * 0.5).startswith("A gap of ")
    assert judged(claim__primal=claim["primal"] * 0.99).startswith("The objective is ")
    # the reported objective may be off by its rounding, or below by the gap
    assert judged(claim__primal=claim["primal"] * 0.99, claim__rounding=claim["primal"] * 0.011) == ""
    assert judged(claim__gap=claim["gap"] * (1 - 1e-6)).startswith(
        f"A gap of {claim['gap'] * (1 - 1e-6):.6g} is not confirmed, only "
    )
    assert judged(claim__gap=claim["gap"] * (1 - 1e-11), claim__rounding=1e-9) == ""
    assert judged(claim__gap=claim["gap"] * 1.5) == ""
    assert judged(problem__loss="poisson") == "Counts must not be negative."
    zero = np.where(np.arange(9) == 2, 0.0, 1.0)
    cox = {
        "problem": p | {"loss": "cox", "ties": "efron", "stratified": False},
        "hashes": hashes | {"y": judge.digest(zero)},
    }
    assert judged({**data, "y": zero}, **cox) == "Times must not be zero."
    margins = p | {"criterion": "margins", "loss": "hinge", "set_value": 0.25}
    labels = targets_by_hand("hinge", 9, rng)
    given = {"hashes": hashes | {"y": judge.digest(labels)}, "problem": margins}
    assert (
        judged({**data, "y": labels}, **given, fit__proof=[])
        == "The weights are not the shares of the kernels."
    )
    (tmp_path / "c.kwcert").write_text(json.dumps(resealed(whole)))
    np.savez(tmp_path / "d.npz", **data)
    monkeypatch.setattr(sys, "argv", ["judge.py", str(tmp_path / "c.kwcert"), str(tmp_path / "d.npz")])
    assert judge.main() == 0
    ends = f"objective at most {float(upper):.12g}, smallest at least {float(lower):.12g}\n"
    assert capsys.readouterr().out == ends + "CONFIRMED.\n"
    (tmp_path / "c.kwcert").write_text(json.dumps(resealed(whole | {"claim": claim | {"gap": 0.0}})))
    assert judge.main() == 1
    assert "REFUSED. A gap of 0 is not confirmed" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["judge.py"])
    assert judge.main() == 2
    told = capsys.readouterr()
    assert not told.out
    assert told.err.startswith("Judge a certificate without kernelweave")


@needs_long_double
def test_numbers_and_sums_of_the_judge_are_exact():
    Q = judge.Q
    third = Q(1, 3)
    assert abs(judge.to_fraction(judge.to_long(third)) / third - 1) <= judge.EPS
    assert judge.to_fraction(judge.to_long(Q(-5, 4))) == Q(-5, 4)
    for value in (Q(2), Q(10) ** 40 / 7, Q(1, 10**50), Q(9)):
        root = judge.root_below(value)
        assert root * root <= value < (root * (1 + Q(1, 10**29))) ** 2
    assert judge.root_below(Q(-1)) == judge.root_below(Q(0)) == 0
    assert judge.to_float(Q(10) ** 309) == np.inf
    assert judge.to_float(-Q(5, 2)) == -2.5
    values = np.array([[0.1, -3.0], [0.0, 2.0**-40]])
    integers, exponent = judge.as_ints(values)
    assert [[Q(int(v)) * Q(2) ** exponent for v in row] for row in integers] == [
        list(map(Q, row)) for row in values.tolist()
    ]
    low, high = judge.log_bounds(Q(10))
    assert low < Q(float(np.log(10.0))) * (1 + Q(1, 10**15))
    assert float(high - low) < 1e-17
    assert judge.a_log_a(Q(0)) == (0, 0)
    assert [float(x) for x in judge.a_log_a(Q(1, 2))] == pytest.approx([0.5 * np.log(0.5)] * 2)
    assert float(judge.exp_above(Q(3))) == pytest.approx(np.exp(3.0))
    assert judge.exp_above(Q(3)) > Q(float(np.exp(3.0))) * (1 - Q(1, 10**16))
    assert judge.exp_above(Q(20_000)) == judge.HUGE
    assert judge.exp_above(Q(-20_000)) == Q(1, 2**10000)
    assert judge.simplex([1.0, -1.0, 3.0]) == [Q(1, 4), 0, Q(3, 4)]
    assert sum(judge.simplex([0.1, 0.2, 0.7, 1e-30])) == 1
    assert float(judge.power_norm([Q(3), Q(4)], 2.0)) == pytest.approx(5.0)
    assert judge.power_norm([Q(3), Q(4)], 2.0) >= 5
    assert judge.power_norm([Q(3), Q(4)], np.inf) == 4
    assert judge.power_norm([Q(0)], 2.0) == 0
    K = np.arange(16.0).reshape(4, 4)
    K = K @ K.T / 7.0
    kernels = judge.Kernels({"kernels": K})
    v = [Q(1, 3), Q(-2), Q(0), Q(5)]
    product = [sum(Q(a) * b for a, b in zip(row, v, strict=True)) for row in K.tolist()]
    assert kernels.times(0, v) == (product, [0] * 4)
    f, e, form = kernels.combine([Q(2)], v)
    assert (f, e, form) == ([2 * x for x in product], [0] * 4, judge.dot(v, [2 * x for x in product]))
    assert kernels.quadratic_forms_above(v) == [judge.dot(v, product)]
    assert [float(x) for x in kernels.diagonals[0]] == np.diag(K).tolist()
    w = np.array([1.0, 2.0, 0.5, 1.0])
    integers, one, bound = kernels.centred(0, w)
    H = np.eye(4) - w / w.sum()
    assert bound == 0
    np.testing.assert_allclose((integers * one).astype(float), H @ K @ H.T, atol=1e-10)
