"""The experiment on second layers in small: its decision values, its choices and its tables.

Modules: `rls2_second_layer`.
"""

import numpy as np
import pytest

import kernelweave as kw
import kernelweave_papers as experiments
from experiment_cells import need, options_of, results_of
from kernelweave.kernels import RBF
from kernelweave.learners import NonlinearRLS2
from kernelweave_papers.ranks import signed_rank

pd = pytest.importorskip("pandas")
module = pytest.importorskip("kernelweave_papers.rls2_second_layer")


def small_split(rng, test_from=None):
    X = rng.normal(size=(70, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=70) > 0, 1.0, -1.0)
    train, test = module.halves(y, 35, 0, 0)
    if test_from is not None:
        X[test], y[test] = 5.0 * test_from.normal(size=(35, 3)), -y[test]
    kernels = [RBF(gamma=0.5).on([j]) for j in range(3)]
    return module.make_split(X, y, train, test, 0, kernels), kernels


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_decision_values_are_those_of_the_estimator(rng):
    split, kernels = small_split(rng)
    part, learner = split.outer(), NonlinearRLS2(C=2.0, radius=2.0, max_iter=5)
    found = module.fit(learner, part, (2.0,))[0]
    model = kw.MKLClassifier(kernels, learner, normalize="cosine", standardize=False)
    model.fit(split.X[split.train], split.y[split.train])
    np.testing.assert_allclose(part.decision(found), model.decision_function(split.X[split.test]), atol=1e-6)


@pytest.mark.parametrize("method", ["rls2", "gaussian", "mlmkl", "2lmkl"])
def test_choices_never_see_test_rows(method):
    options = options_of("rls2-second-layer", Cs=(0.1, 10.0), steps=3)
    first, second = (
        module.run_method(method, small_split(np.random.default_rng(0), other)[0], options)
        for other in (None, np.random.default_rng(5))
    )
    assert first["accuracy"] != second["accuracy"]
    for key in ("C", "other", "machines", "fall", "kernels"):
        assert first[key] == second[key] or np.isnan(first[key])


def test_budgets_are_equal():
    """As many steps times machines times second parameters for every descent."""
    options = options_of("rls2-second-layer")
    spent = {
        method: sum(one.max_iter for one in module.grid_of(method, options))
        for method in ("gaussian", "polynomial", "2lmkl", "mlmkl")
    }
    assert spent == {"gaussian": 48, "polynomial": 48, "2lmkl": 48, "mlmkl": 48 // module.FOLDS}


def test_a_small_run(tmp_path):
    need("postoperative")
    methods = ("rls2", "linear", "gaussian")
    options = options_of(
        "rls2-second-layer", datasets=("postoperative",), methods=methods, splits=1, Cs=(1.0,), steps=2
    )
    experiment = experiments.get("rls2-second-layer")
    cells = experiment.cells(options)
    assert len(cells) == 2 * 3
    rows = [(cell, experiment.run(cell, options)) for cell in cells]
    by = {(cell["bank"], cell["method"]): result["accuracy"] for cell, result in rows}
    # the same problem by two solvers
    assert by["mlmkl", "linear"] == by["mlmkl", "rls2"]
    assert by["columns", "linear"] == by["columns", "rls2"]
    assert list(dict(experiment.figures(experiment.tables(rows, options)))) == ["differences"]


def test_tables(rng):
    options = options_of("rls2-second-layer", datasets=("liver", "sonar", "pima"), splits=4)
    draws = {name: lambda cell, rng: float(rng.uniform(60, 90)) for name in ("accuracy", "C", "other", "cpu")}
    draws |= {name: lambda cell, rng: float(rng.integers(1, 9)) for name in ("machines", "fall", "kernels")}
    rows = results_of(experiments.get("rls2-second-layer"), options, rng, **draws)
    tables = experiments.get("rls2-second-layer").tables(rows, options)
    own = [
        r["accuracy"]
        for c, r in rows
        if (c["bank"], c["dataset"], c["method"]) == ("columns", "pima", "gaussian")
    ]
    row = tables["results"].set_index(["bank", "dataset", "method"]).loc[("columns", "pima", "gaussian")]
    assert row["error"] == pytest.approx(100 - np.mean(own))
    assert row["std"] == pytest.approx(np.std(own, ddof=1))
    means = tables["results"].pivot_table(index="dataset", columns=["bank", "method"], values="error")
    change = means["columns", "gaussian"] - means["mlmkl", "rbf"]
    test = tables["tests"].set_index(["bank", "left", "right"]).loc[("columns", "gaussian", "rbf")]
    assert test["difference"] == pytest.approx(change.mean())
    assert test["p"] == pytest.approx(signed_rank(change))
    assert (test["better"], test["worse"]) == ((change < 0).sum(), (change > 0).sum())
    # Holm's correction multiplies the smallest of sixteen by their number
    by_p = tables["tests"].sort_values("p")
    assert len(by_p) == 16
    assert by_p["adjusted"].iloc[0] == pytest.approx(min(1.0, 16 * by_p["p"].iloc[0]))
    assert by_p["adjusted"].is_monotonic_increasing
    halves = [
        {
            key: np.mean(
                [
                    100 - r["accuracy"]
                    for c, r in rows
                    if c["split"] == split and key == (c["bank"], c["method"])
                ]
            )
            for key in (("columns", "gaussian"), ("mlmkl", "rbf"))
        }
        for split in range(4)
    ]
    own = [half["columns", "gaussian"] for half in halves]
    mean = tables["means"].set_index(["bank", "method"]).loc[("columns", "gaussian")]
    assert tuple(mean) == pytest.approx((np.mean(own), np.std(own, ddof=1), 4))
    spread = [half["columns", "gaussian"] - half["mlmkl", "rbf"] for half in halves]
    assert test["std"] == pytest.approx(np.std(spread, ddof=1))
