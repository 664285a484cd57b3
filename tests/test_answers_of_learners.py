"""What every learner declares, refuses and answers on one small problem, as it was when somebody last read it.

Modules: `learners`, `learners/alignment`, `learners/base`, `learners/cardinality`, `learners/deep`, `learners/folds`,
`learners/margin`, `learners/metric`, `learners/on_features`, `learners/radius`, `learners/rls2`,
`learners/second_layer`, `learners/solving`.
"""

import copy
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

import kernelweave as kw
from kernelweave import InputError, learners
from kernelweave._declarations import declared
from kernelweave.gram import FeatureGram, as_gram
from kernelweave.kernels import RBF, Linear, Metric, Polynomial
from kernelweave.learners import LEARNERS, deep, folds, radius, rls2, solving
from kernelweave.learners import base as learners_base
from kernelweave.learners.base import Learner, TrainingSet
from kernelweave.results import Certificate, Solution, Status

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N = 26
FLAGS = (
    "question", "regularization_parameter", "own_intercept", "bayesian", "iterates", "validates", "begins",
    "one_kernel",
    "regression", "learnt", "certificate", "leading", "former", "any_loss", "any_way", "sparse", "on_features",
    "most_features", "has_probabilities", "scoring_loss", "loss", "epsilon", "solver", "max_iter",
)  # fmt: skip


def said(value):
    """What has no form of numbers and texts, as text."""
    return value if isinstance(value, str | bool | int | float | tuple | None) else repr(value)


def test_declarations(recorded):
    # those of other tests aside
    known = {name: cls for name, cls in LEARNERS.items() if cls.__module__.startswith("kernelweave.")}
    recorded("names", sorted(known))
    for name, cls in known.items():
        compare_declarations(cls, lambda what, value, name=name: recorded(f"{name}, {what}", value))


def compare_declarations(cls, recorded):
    learner = cls()
    flags = [flag for flag in FLAGS if flag != "scoring_loss" or cls.regression]
    recorded("class", {flag: said(getattr(learner, flag, "not there")) for flag in flags})
    recorded("reference", cls.reference())
    recorded("defaults", {key: said(value) for key, value in cls().get_params().items()})
    recorded("parameters", own_parameters(cls))
    recorded("settings", list(cls.settings()))
    recorded("layers", learner.layer_names())
    alphas = np.array([3.0, 0.5])
    grid = learner.relax_grid(alphas)
    recorded("alphas", [learner.requested(), learner.given_alphas(), learner.default_alphas(3), grid])
    near = [learner.relaxed_near(0.2), learner.relaxed_near(0.2, True)]
    recorded("near", [one.relax_grid(alphas) for one in near])
    # the learner itself is as before
    assert np.array_equal(learner.relax_grid(alphas), grid) or grid is None
    sizes = [(100, 20), (100, 25), (100, 26), (100, 100), (100, 101), (3000, 800), (3001, 3001), (9000, 6001)]
    recorded("features pay", [learner.features_pay(*size) for size in sizes])
    values = np.array([[-0.7, 0.0], [0.4, 2.0]])
    recorded("probability", learner.log_probability(values))
    if cls.regression:
        recorded(
            "prediction", [learner.prediction(values), learner.fold_classes(np.array([0.0, 1.0, 2.0, 0.0]))]
        )


def own_parameters(cls):
    """Parameters that a class does not inherit: their rules and texts."""
    names = vars(cls).get("__annotations__", {})
    found = {key: one for key, one in declared(cls).items() if key in names}
    # other tests define losses
    words = {key: "" if key == "loss" else one.rule.words() for key, one in found.items()}
    return {key: [words[key], one.label, one.help, one.setting] for key, one in found.items()}


def test_declarations_of_bases(recorded):
    bases = (Learner, solving.CostLearner, solving.MarginLearner, radius.RadiusLearner, radius.FamilyLearner)
    bases += (deep.DeepLearner, deep.LayeredLearner, deep.DescendingLearner)
    recorded("parameters", {cls.__name__: own_parameters(cls) for cls in bases})


@pytest.fixture(scope="module")
def problem():
    """Rows of unequal weights, kernels of unequal scales, some rows twice, and three outputs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    X[-3:] = X[:3]
    kernels = [
        (X[:, [0]] @ X[:, [0]].T),
        np.exp(-0.7 * np.square(X[:, None] - X[None]).sum(axis=2)),
        (X @ X.T + 1.0) ** 2 / 9.0,
        np.exp(-np.abs(X[:, [2]] - X[:, 2])),
    ]
    f = X[:, 0] + 0.8 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=N)
    return TrainingSet(
        as_gram(np.stack(kernels, axis=-1)),
        np.column_stack([f, 0.5 * np.sin(2 * X[:, 2]) - f]),
        np.array([0.5, 2.0, 1.0, 3.0]),
        rng.uniform(0.3, 1.7, N),
        content=np.r_[rng.permutation(N - 3), [0, 0, 0]],
    )


def of_classes(training):
    """The task with classes, an output of one class among them."""
    y = np.where(training.y > 0.1, 1.0, -1.0)
    content = training.content.copy()
    content[-3:] = content[:3]
    return replace(training, y=np.column_stack([y, np.ones(N)]), classification=True, content=content)


def of_numbers(training):
    content = training.content.copy()
    content[-3:] = content[:3]
    return replace(training, content=content)


#: What processors change, as differences from sums of other orders, was at most 4e-3 in all of these; coefficients are
#: not unique, and decision values are.
CLOSE = {"rtol": 1e-2, "atol": 1e-2}


def shapes(value):
    """Lengths in place of numbers that are not whole."""
    if isinstance(value, dict):
        return {key: shapes(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [shapes(one) for one in value]
    return "number" if isinstance(value, float) else value


def shown(found, training):
    """A solution without what rounding changes."""
    own = {
        "kind": type(found).__name__,
        "weights": found.weights,
        "shape": list(np.shape(found.dual_coef)),
        "intercepts": list(np.shape(found.intercept)),
        "certificate": [found.certificate.kind, found.certificate.primal],
        "kept of every step": sorted(found.trace),
        "alpha": found.alpha,
        "features": len(found.feature_coef),
    }
    for name in ("radius2", "layer_weights"):
        value = getattr(found, name, None)
        own[name] = value if value is None else value.tolist()
    if upper := getattr(found, "upper_layers", ()):
        own["upper"] = [None if one is None else [one.cosine, *one.weights] for one in upper]
    else:
        stack = training.gram
        weights = np.atleast_2d(found.weights)
        f = [
            stack.combine(training.scale * weights[k % len(weights)])
            @ np.asarray(found.dual_coef).reshape(len(training.y), -1)[:, k]
            for k in range(training.y.shape[1])
        ]
        own["values"] = [np.round(one, 4).tolist() for one in f]
    own["outputs"] = len(getattr(found, "outputs", ()))
    own["stationary"] = None if found.stationarity is None else np.asarray(found.stationarity) > 0.0
    return own


CASES = {
    "rls2": learners.RLS2(alpha=0.3),
    "rls2 relaxed": learners.RLS2(alpha=0.3, relax=0.01, shared_weights=False),
    "rls2 relaxed by itself": learners.RLS2(alpha=0.3, relax="auto"),
    "rls2 alternating": learners.RLS2(solver="alternating", delta=0.1, max_iter=3),
    "simple": learners.SimpleMKL(),
    "simple logistic": learners.SimpleMKL(loss="logistic"),
    "simple in one step": learners.SimpleMKL(solver="reduced-gradient", max_iter=1),
    "simple cut short": learners.SimpleMKL(max_iter=1),
    "silp": learners.SILP(max_iter=2),
    "lp": learners.LpMKL(p=1.3),
    "lp 1": learners.LpMKL(p=1),
    "lp in one step": learners.LpMKL(p=3, solver="closed-form", max_iter=1),
    "elastic net": learners.ElasticNetMKL(mix=0.3),
    "elastic net 0": learners.ElasticNetMKL(mix=0),
    "elastic net 1": learners.ElasticNetMKL(mix=1),
    "soft margin": learners.SoftMarginMKL(theta=0.4),
    "soft margin small": learners.SoftMarginMKL(theta=0.1),
    "uniform": learners.Uniform(),
    "uniform squared": learners.Uniform(loss="squared"),
    "best": learners.BestKernel(),
    "best logistic": learners.BestKernel(loss="logistic", n_folds=2),
    "cardinality": learners.CardinalityMKL(k=2),
    "cardinality ridge": learners.CardinalityMKL(k=9, ridge=3.0),
    "cardinality cut short": learners.CardinalityMKL(k=1, max_iter=1),
    "align": learners.Align(),
    "alignf": learners.AlignF(),
    "easy": learners.EasyMKL(lam=0.6),
    "rkl": learners.RKL(norm=2),
    "rkl by steps": learners.RKL(solver="spectral", max_iter=2),
    "kl-c": learners.ChapelleRadius(norm=2, max_iter=2),
    "kl-c-eq10": learners.ChapelleRadius(variant="eq10", max_iter=2, solver="armijo"),
    "do": learners.DoRadius(),
    "gaussian": learners.ARDGaussian(max_iter=2),
    "gaussian bounds": learners.ARDGaussian(
        max_iter=3, kind="margin", start=0.5, lower=0.4, upper=0.6, solver="armijo"
    ),
    "gaussian kl-c": learners.ARDGaussian(max_iter=2, kind="kl-c", start=0.5),
    "parametric": learners.ParametricKernel(degree=3, max_iter=2),
    "parametric rational": learners.ParametricKernel(family="rational-quadratic", kind="margin", max_iter=2),
    "mlmkl": learners.MLMKL(max_iter=2),
    "mlmkl three": learners.MLMKL(
        n_layers=3, kernels=[[Linear(), RBF(0.5)], [Polynomial(2)]], weight_set="simplex", normalize_layers=False,
        step="fixed", eta=0.1, max_iter=2,
    ),
    "mlmkl stopped": learners.MLMKL(max_iter=4, validation_fraction=0.3, n_iter_no_change=1, n_folds=2),
    "dmkl": learners.DMKL(max_iter=2, smoothing=0.5, step="adam", eta=0.05),
    "2lmkl": learners.TwoLayerMKL(max_iter=2, penalty=0.3),
    "2lmkl plain": learners.TwoLayerMKL(max_iter=2, normalize_layers=False, penalty=0.0),
    "deep uniform": learners.DeepUniform(n_layers=3, kernels=RBF(0.8)),
    "nonlinear": learners.NonlinearRLS2(max_iter=2),
    "nonlinear polynomial": learners.NonlinearRLS2(max_iter=1, second="polynomial", degree=3, radius=1.5),
    "nonlinear linear": learners.NonlinearRLS2(max_iter=2, second="linear", radius=2.0, loss="auto"),
}  # fmt: skip


#: The first words of names of cases that are tested together.
TOGETHER = {
    "least squares": "rls2",
    "margins": "simple silp lp elastic soft uniform best cardinality",
    "before": "align alignf easy",
    "radius": "rkl kl-c kl-c-eq10 do gaussian parametric",
    "deep": "mlmkl dmkl 2lmkl deep nonlinear",
}


@pytest.mark.parametrize("kind", TOGETHER)
def test_solutions(kind, problem, recorded):
    """A path of two points for classes, one output without a machine among them, and one of numbers."""
    for name in [name for name in CASES if name.split()[0] in TOGETHER[kind].split()]:
        compare_solutions(
            name, problem, lambda what, value, name=name, **tol: recorded(f"{name}, {what}", value, **tol)
        )


def test_every_case_is_looked_at():
    assert {name.split()[0] for name in CASES} == set(" ".join(TOGETHER.values()).split())


def compare_solutions(name, problem, recorded):
    learner = CASES[name]
    before, heard = copy.deepcopy(learner.get_params()), []
    for task in ("classes", "numbers") if learner.regression else ("classes",):
        training = of_classes(problem) if task == "classes" else of_numbers(problem)
        if task == "numbers" and ("kl-c" in name or "logistic" in name):
            continue
        if learner.own_intercept is False:
            training = replace(training, y=training.y[:, :2])
        elif task == "numbers":
            training = replace(training, y=training.y[:, :1])
        training = replace(training, report=lambda text: heard.append(text) and False)
        path = learner.path(training, np.array([1.0, 0.2]))
        assert len(path.solutions) == 2
        found = shown(path.solutions[-1], training)
        # steps of deep kernels enlarge the rounding errors of coefficients that are not unique
        recorded(task, shapes(found) if learner.iterates and "uniform" not in name else found, **CLOSE)
    assert str(learner.get_params()) == str(before)
    assert all(re.fullmatch(r"step \d+: criterion \d+(\.\d+)?(e-?\d+)?", text) for text in heard)
    # uniform layers have no steps, and a linear second layer may begin at its end
    assert bool(heard) == (learner.iterates and "uniform" not in name) or name == "nonlinear linear"
    recorded("layers", learner.layer_names())


@pytest.mark.parametrize("name", ["simple", "lp", "simple cut short", "soft margin", "uniform", "silp"])
def test_solutions_on_features(name, recorded):
    """Two outputs on features that are few, at three costs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    gram = FeatureGram(np.ascontiguousarray((X * [1.0, 1.0, 1.0, 2.0, 2.0]).T), np.array([0, 2, 3, 5]))
    f = np.column_stack([X[:, 0] + X[:, 3], X[:, 2] - 0.5]) + 0.3 * rng.normal(size=(60, 2))
    scale, weight = np.array([1.0, 3.0, 0.5]), rng.uniform(0.5, 1.5, 60)
    training = TrainingSet(gram, np.where(f > 0, 1.0, -1.0), scale, weight, True)
    path = CASES[name].path(training, np.array([3.0, 1.0, 0.3]))
    assert len(path.solutions) == 3
    recorded("last", shown(path.solutions[-1], training), **CLOSE)


def test_metrics_of_columns():
    learner = learners.MetricRLS2(by="rfm", form="full")
    assert learner.column_step == Metric(by="rfm", form="full")
    assert learners.MetricRLS2().column_step == Metric(by="ard", form="diagonal")
    with pytest.raises(InputError, match="A full metric is learnt by 'rfm', got by='ard'"):
        learners.MetricRLS2(form="full").check()
    kernel = RBF(0.3).on([0, 1])
    assert learner.prepared(kernel) == kernel.prepared(Metric(by="rfm", form="full"))
    for given in (kernel.prepared(Metric()), kw.kernels.Precomputed()):
        assert learner.prepared(given) is given


def test_what_solvers_are_asked(problem, monkeypatch):
    """Every argument of a learner reaches the solver."""
    asked, firsts = [], []

    def noted(function):
        def call(*args, **kwargs):
            asked.append((args, kwargs))
            if kwargs.get("warm") is not None and kwargs["warm"].found is None:
                firsts.append(kwargs["warm"].weights)
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(solving, "solve_problem", noted(solving.solve_problem))
    training = of_numbers(problem)
    start = np.array([0.4, 0.3, 0.2, 0.1])
    one = replace(training, y=training.y[:, :1], start=start)
    two = replace(training, start=start)
    for given, tol, learner in (
        (one, None, learners.SimpleMKL(tol=1e-5, max_iter=7)),
        (one, 1e-2, learners.SimpleMKL(tol=1e-5, solver="newton")),
        (one, 1e-9, learners.SimpleMKL(tol=1e-5, solver="newton")),
        (two, None, learners.LpMKL(p=1, solver="dual-newton")),
    ):
        asked.clear()
        learner.path(given, np.array([1.0, 0.5]), tol=tol)
        assert len(asked) == 2 * given.y.shape[1]
        for k, ((stated, _), kwargs) in enumerate(asked):
            assert (1.0, 2.0)[k // given.y.shape[1]] == stated.machine.C
            assert kwargs["tol"] == max(tol or 0.0, learner.tol)
            assert kwargs["max_iter"] == learner.max_iter
            assert kwargs["certified"] is (tol is None)
            assert set(kwargs) == {"warm", "tol", "max_iter", "certified"}
        if given is one:
            # the start remembers the solution at the last C
            warm = asked[0][1]["warm"]
            assert warm is asked[1][1]["warm"]
            assert firsts.pop(0).tolist() == start.tolist()
        else:
            assert asked[0][1]["warm"] is asked[1][1]["warm"] is None
            assert all(kwargs["warm"] is not None for _, kwargs in asked[2:])
    asked.clear()
    monkeypatch.setattr(rls2, "along_alphas", noted(rls2.along_alphas))
    learner = learners.RLS2(
        tol=1e-5, solver="alternating", shared_weights=False, max_iter=9, delta=0.2, relax=0.3, alpha=2.0
    )
    heard = []
    learner.path(two, np.array([1.0, 0.5]), callback=lambda k, found: heard.append(k))
    learner.path(one, np.array([1.0, 0.5]), tol=1e-2)
    (_, alphas), kwargs = asked[0]
    assert alphas.tolist() == [1.0, 0.5]
    assert heard == [0, 1]
    np.testing.assert_array_equal(kwargs.pop("weights0"), start)
    kwargs.pop("on_solution")
    kind = kwargs.pop("kind")
    assert kind is None or kind.xp is np
    assert kwargs == {
        "single": False,
        "tol": 1e-5,
        "solver": "alternating",
        "shared_weights": False,
        "max_iter": 9,
        "delta": 0.2,
        "relax": 0.3,
    }
    assert asked[1][1]["tol"] == 1e-2


def test_status_of_weights_before_the_machine():
    from kernelweave.learners.alignment import _machine_at

    def ended(status):
        certificate = Certificate("machine", 1.0, 1.0, 0.0, status=status)
        return Solution(np.ones(1), np.zeros(2), 0.0, certificate, 1)

    ok, most, stalled, late = Status.CONVERGED, Status.MAX_ITER, Status.STALLED, Status.MAX_TIME
    for weights, machine, wanted in (
        (ok, ok, ok),
        (most, ok, most),
        (stalled, ok, stalled),
        (late, ok, ok),
        (most, late, late),
        (stalled, most, most),
    ):
        seen = []
        output = SimpleNamespace(at=lambda w, machine=machine, seen=seen: seen.append(w) or ended(machine))
        found = ended(weights)
        assert _machine_at(found, output).status is wanted
        assert seen[0] is found.weights


class Plain(Learner):
    """A learner with nothing of its own.

    Parameters
    ----------
    loss
        A loss.
    """

    def requested(self):
        return 0.5

    def problem(self, kernels, y):
        raise NotImplementedError

    def path(self, training, alphas, *, tol=None, callback=None):
        from kernelweave.results import Path

        one = Solution(
            np.ones(1), np.zeros(2), 0.0, Certificate("joint", 1.0, 1.0, 0.0), 1, alpha=float(alphas[0])
        )
        return Path.of([one])


def test_what_a_learner_has_without_saying_so():
    values, plain = np.array([[0.3, -1.0]]), Plain()
    assert plain.prediction(values) is values
    nothing = (
        plain.log_probability(values), plain.fold_classes(values[0]), plain.scoring_loss, plain.most_features,
        plain.default_alphas(3), plain.given_alphas(), plain.relax_grid(values[0]), plain.column_step,
    )  # fmt: skip
    assert nothing == (None,) * 8
    assert plain.sparse is True
    assert plain.on_features is False
    assert plain.has_probabilities is False
    assert plain.features_pay(10, 5) is False
    assert plain.relaxed_near(0.1) is plain
    kernel = RBF(0.3)
    assert plain.prepared(kernel) is kernel
    assert plain.layer_names() == []
    assert plain.name not in LEARNERS
    plain.check_here()
    plain.check_task(True)
    plain.check_task(False)
    assert (
        plain.solve(TrainingSet(as_gram(np.eye(2)[:, :, None]), np.ones((2, 1)), np.ones(1)), 0.25).alpha
        == 0.25
    )
    assert Plain.reference() == ""

    class OnFeatures(Plain):
        on_features = True

    assert [OnFeatures().features_pay(10, k) for k in (9, 10, 11)] == [True, True, False]
    own = Plain()
    own._followed = True
    assert clone(own)._followed
    assert not clone(Plain())._followed


def test_names_of_learners():
    with pytest.raises(InputError, match=r"a learner 'simple' already, SimpleMKL\. Take another `name`"):
        type("Other", (Plain,), {"name": "simple"})
    with pytest.raises(InputError, match=r"must be a name \('rls2', .*\) or a learner, got 3\."):
        learners_base.resolve(3)
    learner = learners.SimpleMKL(C=-1.0)
    with pytest.raises(InputError, match="`C`"):
        learners_base.resolve(learner)
    assert learners_base.resolve(learner.set_params(C=2.0)) is learner
    assert isinstance(learners_base.resolve("lp"), learners.LpMKL)
    with pytest.raises(
        InputError, match=r"ChapelleRadius is for classification\. Use MKLClassifier, or another"
    ):
        learners.ChapelleRadius().check_task(False)
    learners.ChapelleRadius().check_task(True)
    with pytest.raises(
        InputError, match=r"The learner Nothing must define `problem\(kernels, y\)` or `learn"
    ):
        type("Nothing", (solving.CostLearner,), {})


def test_parameters_of_objects_in_parameters():
    learner = learners.SimpleMKL(loss=kw.losses.Huber(2.0))
    assert learner.set_params(loss__delta=0.7, C=3.0) is learner
    assert (learner.loss, learner.C) == (kw.losses.Huber(0.7), 3.0)
    # the object that is set at the same time
    learner.set_params(loss__q=0.8, loss=kw.losses.Quantile(0.1))
    assert learner.loss == kw.losses.Quantile(0.8)
    with pytest.raises(
        InputError, match=r"`loss__x` is a parameter of `loss`, and Quantile.*has q\. Set `loss`"
    ):
        learner.set_params(loss__x=1)
    with pytest.raises(InputError, match=r"and 'hinge' has none\. Set `loss` itself"):
        learners.SimpleMKL(loss="hinge").set_params(loss__delta=1.0)
    with pytest.raises(InputError, match="has none"):
        learners.SimpleMKL(loss=kw.losses.Huber).set_params(loss__delta=1.0)
    with pytest.raises(ValueError, match="other"):
        learner.set_params(other__delta=1.0)
    with pytest.warns(DeprecationWarning, match="`step` of RKL is now `solver`"):
        assert learners.RKL().set_params(step="armijo").solver == "armijo"


def test_folds_by_content(recorded):
    rng = np.random.default_rng(0)
    content = rng.integers(0, 9, 24)
    y = np.round(rng.normal(size=24), 1)[content]
    two = np.column_stack([y > 0, content % 3 == 0]).astype(float)
    groups = rng.integers(0, 6, 24)
    found = {
        "rows": folds.deal(content, y, 3, classes=None),
        "two outputs": folds.deal(content, two, 4, classes=None),
        "classes": folds.deal(content, y, 3, classes=two[:, 0]),
        "two classes": folds.deal(content, two, 5, classes=two),
        "few rows": folds.deal(content, y, 30, classes=None),
        "groups": folds.deal(content, y, 3, classes=None, groups=groups),
        "groups of classes": folds.deal(content, y, 2, classes=two[:, 0], groups=groups),
        "many groups": folds.deal(
            np.arange(24), y, 4, classes=(np.arange(24) % 5 == 0) * 1.0, groups=np.arange(24) // 2
        ),
        "one row": folds.deal(np.zeros(5, int), np.ones(5), 3, classes=None),
    }
    recorded("folds", {key: [fold.tolist() for fold in own] for key, own in found.items()})
    recorded("order", [folds.by_value(content, y), folds.by_value(content, two)])
    # rows of a rare class count more
    for seed in (5, 9, 10):
        some = np.random.default_rng(seed)
        n = int(some.integers(12, 40))
        rare = (some.random(n) < 0.2) * 1.0 + (some.random(n) < 0.1) * 1.0
        units = some.integers(0, max(3, n // 3), n)
        dealt = folds.deal(np.arange(n), rare, 3, classes=rare, groups=units)
        recorded(f"rare {seed}", [fold.tolist() for fold in dealt])
    order = rng.permutation(24)
    for fold, moved in zip(
        found["groups"],
        folds.deal(content[order], y[order], 3, classes=None, groups=groups[order]),
        strict=True,
    ):
        assert set(fold) == set(order[moved])
    with pytest.raises(InputError, match="`groups` must hold at least two groups, got one"):
        folds.deal(content, y, 3, classes=None, groups=np.ones(24, int))


class Given(solving.CostLearner):
    """Passes on what is in `rule`."""

    any_loss = True
    rule = staticmethod(lambda output: output.at(np.ones(4) / 4))
    stated = None

    def learn(self, output):
        return self.rule(output)

    def problem(self, kernels, y):
        problem = super().problem(kernels, y)
        return problem if self.stated is None else self.stated(problem)


@pytest.mark.parametrize(
    ("weights", "got"),
    [
        (np.ones(3), r"got \[1\.0, 1\.0, 1\.0\]|got an array|got array"),
        ([1.0, -0.25, np.nan, 0.0], "got -0.25 for kernel 1"),
        ([1.0, 0.0, np.inf, 0.0], "got inf for kernel 2"),
    ],
)
def test_weights_of_a_rule(weights, got, problem):
    learner = Given()
    learner.rule = lambda output: output.at(weights)
    with pytest.raises(
        InputError, match=r"of Given must pass a finite weight >= 0 for each of 4 kernels.*" + got
    ):
        learner.path(of_numbers(problem), np.array([1.0]))


def test_what_a_learner_states_and_returns(problem):
    training, learner = of_numbers(problem), Given()
    for wrong in (np.inf, -1.0, 0.0, np.nan):
        with pytest.raises(InputError, match=rf"positive finite .* got alpha = 1 / C = {wrong!r}"):
            learner.path(training, np.array([1.0, wrong]))
    learner.rule = lambda output: 7
    with pytest.raises(
        InputError, match=r"`learn\(output\)` of Given must be a Solution, such as output.at\(weights\)"
    ):
        learner.path(training, np.array([1.0]))
    learner.rule = Given.rule
    for change in ({"C": 7.0}, {"sample_weight": np.ones(N)}, {"scale": np.ones(4)}):
        learner.stated = lambda stated, change=change: replace(stated, **change)
        with pytest.raises(InputError, match="problem of Given must have the C of the learner, and leave"):
            learner.path(training, np.array([1.0]))
    learner.stated = lambda stated: 7
    with pytest.raises(InputError, match=r"`problem\(kernels, y\)` of Given must be a kw.Problem"):
        learner.path(training, np.array([1.0]))
    # a learner without a parameter `loss` may state another
    learner.stated = lambda stated: replace(stated, loss=kw.losses.Huber())
    huber = learner.path(training, np.array([0.5])).solutions[0]
    named = learners.Uniform(loss="huber").path(training, np.array([0.5])).solutions[0]
    np.testing.assert_allclose(huber.dual_coef, named.dual_coef, rtol=1e-9)


class Other(learners.SimpleMKL):
    """States another loss than its own."""

    def problem(self, kernels, y):
        return replace(super().problem(kernels, y), loss=kw.losses.Huber())


def test_a_learner_with_a_parameter_for_the_loss_states_it(problem):
    with pytest.raises(
        InputError, match=r"Other must have the loss of the learner, Eps.*, got Huber\(.*\)\. Return self"
    ):
        Other().path(of_numbers(problem), np.array([1.0]))
