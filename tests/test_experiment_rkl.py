"""The experiments of the second paper in small, and their tables from results by hand.

Modules: `cardinality`, `margin_values`, `rkl`, `rkl_convergence`, `rkl_klc`, `rkl_scales`.
"""

import numpy as np
import pytest

import kernelweave_papers as experiments
from experiment_cells import need, options_of, results_of, where
from kernelweave import InputError
from kernelweave.gram import as_gram
from kernelweave.solvers import solve_radius
from kernelweave_papers.runner import run_cells
from kernelweave_papers.store import Store

pd = pytest.importorskip("pandas")


@pytest.mark.nightly
def test_table_1_of_rkl_in_small(tmp_path):
    need("heart", "colon")
    from kernelweave_papers.rkl import PRINTED

    experiment = experiments.get("rkl")
    # all methods but two local ones that take longest
    methods = tuple(m for m in experiment.defaults.methods if m not in ("klc-l1", "eq10-l1"))
    options = experiment.defaults.with_values(datasets=("heart", "colon"), folds=2, methods=methods)
    with Store(tmp_path) as store:
        ended = run_cells(experiment, options, store)
        assert ended.n_failed == 0, store.failures()
        tables = experiment.tables(store.rows(experiment.cells(options)), options)
    results = tables["results"].set_index(["dataset", "protocol", "method"])
    # seven columns of the literal protocol, five on a fair scale, the tuned RBF once
    assert len(results) == 2 * (7 + 5 + 1)
    convex = results[results.index.get_level_values("method").isin(["uniform", "mkl-l1", "rkl", "mkl-l2"])]
    assert (convex["gap"] <= 1e-4).all()
    # the majority class has 55.6 %
    assert (results.loc["heart"]["accuracy"] > 70).all()
    # with kernels of trace 1 and C up to 100, the average kernel of 31 rows stays near the majority class; with a fair
    # scale it does not
    assert results.loc[("heart", "fair", "uniform")]["accuracy"] > 75
    assert results.loc[("heart", "literal", "rkl")]["printed"] == PRINTED["heart"]["rkl"][0] == 84.1
    assert results.loc[("heart", "literal", "eq10-l2")]["printed"] == PRINTED["heart"]["klc-l2"][0] == 83.3
    tests = tables["tests"].set_index(["protocol", "sets", "method"])
    own = results.xs("literal", level="protocol")["accuracy"]
    assert tests.loc[("literal", "without colon", "rkl")]["mean"] == own["heart", "rkl"]
    both = own.unstack()["rkl"] - own.unstack()["mkl-l1"]
    assert tests.loc[("literal", "colon", "mkl-l1")]["difference"] == pytest.approx(both.mean(), abs=1e-3)
    assert tests.loc[("literal", "colon-log", "mkl-l1")]["n"] == 1
    assert [name for name, _ in experiment.figures(tables)] == ["rkl_against_mkl"]


def test_machines_of_rkl_are_counted_until_the_value_is_near(data_dir):
    experiment = experiments.get("rkl-convergence")
    options = experiment.defaults.with_values(datasets=("sonar",), max_iter=40)
    cells = experiment.cells(options)
    tables = experiment.tables([(cell, experiment.run(cell, options)) for cell in cells], options)
    counts = tables["counts"].set_index("step")
    assert list(counts.index) == ["newton", "armijo", "spectral"]
    # measured: 4, 20 and 11 machines to within 1 %, with 3, 8 and 2 kernels
    assert (
        counts.loc["newton", "machines 0.01"]
        < counts.loc["armijo", "machines 0.01"]
        <= counts.loc["armijo", "machines"]
    )
    assert counts.loc["newton", "excess"] <= 1e-8
    curves = tables["curves"]
    for step, part in curves.groupby("step"):
        assert (np.diff(part["machines"]) > 0).all()
        assert part["excess"].iloc[-1] <= part["excess"].iloc[0]
        assert (part["kernels"] >= 1).all(), step
    assert [name for name, _ in experiment.figures(tables)] == ["convergence"]


def test_the_descent_of_klc_is_that_of_the_learner(rng):
    """Where it ends, and one step before: the points that a limit of steps gives."""
    from kernelweave_papers.rkl_klc import RADII, STEPS, descend

    X = rng.normal(size=(40, 4))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=40) > 0, 1.0, -1.0)
    stack = X[:, None, :] * X[None, :, :]
    for kind in RADII.values():
        for norm in (1, 2):
            found = descend(as_gram(stack), y, 2.0, kind, norm, np.ones(4), doubled=True)
            assert tuple(found) == STEPS
            for steps in (1, 2, STEPS[-1]):
                own = solve_radius(stack, y, 2.0, kind, norm, tol=1e-3, solver="armijo", max_iter=steps)
                # measured: 3.9e-7, the tolerance of warm machines along the way
                np.testing.assert_allclose(found[steps].t, own.weights, atol=1e-5)
                assert found[steps].machine.intercept == pytest.approx(own.intercept, abs=1e-4)


@pytest.mark.parametrize("C", [2.0, 1e-10])
def test_decisions_of_klc_by_definition(C, rng):
    """Of the same machine: its decision values, without the intercept, and with one between the support vectors."""
    from kernelweave_papers.rkl_klc import DECISIONS, ELSEWHERE, _decisions, descend

    X, train, test = rng.normal(size=(50, 3)), np.arange(40), np.arange(40, 50)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=50) > 0, 1.0, -1.0)
    stack, scale = X[:, None, :] * X[None, :, :], np.array([0.5, 1.0, 2.0])
    own = as_gram(stack[:40, :40])
    at = descend(own, y[train], C, "kl-c", 1, scale, doubled=False)[2]
    given = as_gram(stack), y[train], train, test, at, scale, C
    f = (stack @ (at.t * scale))[:, :40] @ at.dual_coef
    support = at.dual_coef != 0
    ends = f[:40][support & (y[train] > 0)].min() + f[:40][support & (y[train] < 0)].max()
    expected = {
        "machine": f[40:] + at.machine.intercept,
        "no intercept": f[40:],
        "midpoint": f[40:] - 0.5 * ends,
    }
    found = _decisions(*given, True)
    assert found.keys() == DECISIONS.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-12 * np.abs(f).max())
    assert _decisions(*given, False).keys() == set(ELSEWHERE)


def test_distances_of_klc_are_in_printed_deviations(rng):
    """Of random accuracies: the table is sorted by the largest distance of the four."""
    from kernelweave_papers.rkl import PRINTED
    from kernelweave_papers.rkl_klc import ELSEWHERE

    experiment, options = experiments.get("rkl-klc"), options_of("rkl-klc", folds=2)

    def readings(cell, rng):
        return [
            [steps, decision, "by folds", float(rng.uniform(40, 100)), 3]
            for steps in (2, 200)
            for decision in ELSEWHERE
        ]

    rows = results_of(experiment, options, rng, readings=readings)
    tables = experiment.tables(rows, options)
    search = tables["search"]
    # two radii, five factors of C, two numbers of steps, two decisions
    assert len(search) == 2 * 5 * 2 * 2
    first = search.iloc[0]
    assert search["farthest"].is_monotonic_increasing
    ends = []
    for name in ("wpbc", "ionosphere"):
        for norm in (1, 2):
            mean, std, _ = PRINTED[name][f"klc-l{norm}"]
            own = where(rows, dataset=name, norm=norm, radius=first["radius"], factor=first["factor"])
            values = [
                a
                for result in own
                for k, d, _, a, _ in result["readings"]
                if (k, d) == (first["steps"], first["decision"])
            ]
            ends.append(abs(np.mean(values) - mean) / std)
    assert first["farthest"] == pytest.approx(max(ends), abs=1e-3)
    assert set(tables["results"]["dataset"]) == set(options.datasets)
    assert set(tables["results"]["decision"]) == set(ELSEWHERE)
    # without a searched set there is no search
    elsewhere = options_of("rkl-klc", folds=2, datasets=("sonar",))
    tables = experiment.tables(results_of(experiment, elsewhere, rng, readings=readings), elsewhere)
    assert len(tables["search"]) == 0 < len(tables["results"])
    assert not list(experiment.figures(tables))


def test_printed_table_of_rkl_is_the_one_of_the_paper():
    """Column means as audited: 74.05, 82.47, 77.95, 85.59, 83.42, 76.17, 85.67, 85.69."""
    from kernelweave_papers.rkl import PRINTED

    means = [
        np.mean([row[m][0] for row in PRINTED.values()])
        for m in ("uniform", "mkl-l1", "klc-l1", "rkl", "mkl-l2", "klc-l2", "rkl-l2", "rkl-none")
    ]
    np.testing.assert_allclose(means, [74.05, 82.47, 77.95, 85.59, 83.42, 76.17, 85.67, 85.69], atol=0.006)


def test_the_sum_of_the_kernels_is_their_mean_with_a_larger_C():
    need("heart")
    from kernelweave_papers import rkl

    _, y, gram = rkl.problem("heart")
    train, test = rkl.make_folds(y, 3, 0)[0]
    learner = rkl.LEARNERS["uniform-sum"]()
    fixed = learner, gram, y, train, test
    one, _ = rkl.decision_values(*fixed, (1.0, 10.0), rkl.scale_of("uniform-sum", "literal"))
    two, _ = rkl.decision_values(*fixed, (20.0, 200.0), rkl.scale_of("uniform", "literal"))
    # measured 2e-15, of values up to 2; the solvers' gaps are 1e-8
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_scales_change_others_and_not_rkl(tmp_path):
    """Kernels times 100 or 1/100: RKL says the same, SimpleMKL does not."""
    need("heart")
    experiment = experiments.get("rkl-scales")
    options = experiment.defaults.with_values(datasets=("heart",), methods=("rkl", "mkl-l1"), draws=2)
    with Store(tmp_path) as store:
        ended = run_cells(experiment, options, store)
        assert ended.n_failed == 0, store.failures()
        tables = experiment.tables(store.rows(experiment.cells(options)), options)
    results = tables["results"].set_index("method")
    assert results.loc["rkl", "flipped"] == 0
    # measured 0 to the seven digits that are kept; the tolerance of RKL here is 1e-7
    assert results.loc["rkl", "change"] < 1e-3
    assert results.loc["mkl-l1", "change"] > 0.05
    assert len(tables["draws"]) == 2 * 3
    assert [name for name, _ in experiment.figures(tables)] == ["ranges"]
    with pytest.raises(InputError, match="test fold"):
        options.with_values(splits=6)


def test_rkl_does_not_depend_on_the_protocol_at_equal_C():
    """The scale of the kernels does not matter to RKL: both protocols are the same for it, up to the grid of C."""
    need("heart")
    from kernelweave_papers import rkl

    _, y, gram = rkl.problem("heart")
    train, test = rkl.make_folds(y, 3, 0)[0]
    learner = rkl.learners.RKL(tol=1e-8)
    one, two = (
        rkl.decision_values(learner, gram, y, train, test, (1.0, 10.0), rkl.scale_of("rkl", protocol))[0]
        for protocol in rkl.GRIDS
    )
    # measured 2e-15, of values up to 2; the solvers' gaps are 1e-8
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_at_most_k_kernels_beside_others(tmp_path, monkeypatch):
    """Every method on one split of iris: few kernels, proven, as exact as the others."""
    from kernelweave_papers import cardinality

    monkeypatch.setattr(cardinality, "KS", (1, 2))
    monkeypatch.setattr(cardinality, "RIDGES", (0.01, 1.0))
    experiment = experiments.get("cardinality")
    options = experiment.defaults.with_values(datasets=("iris",), splits=1, folds=2)
    assert experiment.prepare(options) == ["iris: 150 rows"]
    with Store(tmp_path) as store:
        ended = run_cells(experiment, options, store)
        assert ended.n_failed == 0, store.failures()
        tables = experiment.tables(store.rows(experiment.cells(options)), options)
    results = tables["results"].set_index(["method", "protocol"])
    assert len(results) == 7
    assert (results["accuracy"] > 95).all()
    limited = results.loc["cardinality"]
    assert (limited["kernels"] <= 2).all()
    assert (limited["unproven"] == 0).all()
    assert (limited["gap"] <= 1e-6).all()
    assert (results.loc["uniform", "kernels"] == 8).all()
    assert [name for name, _ in experiment.figures(tables)] == ["kernels"]


def test_splits_of_the_limit_are_those_that_the_paper_says():
    from kernelweave_papers import cardinality

    X, y = cardinality.table("iris")
    assert X.shape == (150, 2)
    assert (y > 0).sum() == 50
    train, test = cardinality.split_rows(y, 0, 0)
    assert (len(train), len(test)) == (120, 30)
    assert len(np.union1d(train, test)) == 150
    own = cardinality.standardised(X, train)
    np.testing.assert_allclose(own[train].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(own[train].std(axis=0, ddof=1), 1)
    # all kernels are positive semidefinite: measured -2e-15 of the largest eigenvalue
    for kernel in cardinality.KERNELS:
        values = np.linalg.eigvalsh(kernel(own))
        assert values[0] >= -1e-12 * values[-1]


def test_tables_of_rkl_compare_set_by_set(rng):
    from kernelweave_papers.rkl import PRINTED

    names = ("sonar", "wpbc", "colon")
    options = options_of("rkl", datasets=names, methods=("rkl", "mkl-l1", "rbf"), folds=3, splits=2)
    experiment = experiments.get("rkl")
    rows = results_of(
        experiment, options, rng, accuracy=lambda cell, rng: rng.uniform(50, 90),
        kernels=lambda cell, rng: int(rng.integers(1, 20)), C=lambda cell, rng: 10.0 ** rng.integers(3),
        gap=lambda cell, rng: rng.random(), seconds=lambda cell, rng: rng.random(),
    )  # fmt: skip
    assert {cell["protocol"] for cell, _ in rows if cell["method"] == "rbf"} == {"literal"}
    tables = experiment.tables(rows, options)
    results = tables["results"].set_index(["dataset", "protocol", "method"])
    mean = {}
    for (name, protocol, method), row in results.iterrows():
        own = where(rows, dataset=name, protocol=protocol, method=method)
        values = [one["accuracy"] for one in own]
        mean[name, protocol, method] = round(np.mean(values), 3)
        assert row["accuracy"] == mean[name, protocol, method]
        assert row["std"] == pytest.approx(np.std(values, ddof=1), abs=6e-4)
        assert row["kernels"] == pytest.approx(np.mean([one["kernels"] for one in own]))
        assert (row["gap"], row["folds"]) == (max(one["gap"] for one in own), 6)
        if method != "rbf":
            assert tuple(row[["printed", "printed_std", "printed_kernels"]]) == PRINTED[name][method]
    tests = tables["tests"].set_index(["protocol", "sets", "method"])
    for protocol, sets, method in tests.index:
        here = [n for n in names if n == sets or not n.startswith("colon")]
        of = "literal" if method == "rbf" else protocol
        row = tests.loc[(protocol, sets, method)]
        assert row["mean"] == pytest.approx(np.mean([mean[n, of, method] for n in here]), abs=6e-4)
        if method != "rkl":
            d = [mean[n, protocol, "rkl"] - mean[n, of, method] for n in here]
            assert row["difference"] == pytest.approx(np.mean(d), abs=6e-4)
            assert (row["n"], row["better"], row["worse"]) == (
                len(here),
                sum(x > 0 for x in d),
                sum(x < 0 for x in d),
            )


def test_tables_of_scales_compare_with_unscaled_kernels(rng):
    options = options_of("rkl-scales", datasets=("sonar", "wpbc"), draws=3, splits=2)
    experiment = experiments.get("rkl-scales")
    rows = results_of(
        experiment, options, rng, accuracy=lambda cell, rng: rng.uniform(50, 90),
        C=lambda cell, rng: float(1 + (cell["dataset"] == "wpbc" and cell["draw"] == 2 and cell["split"] == 1)),
        values=lambda cell, rng: rng.normal(size=5).tolist(), seconds=lambda cell, rng: rng.random(),
    )  # fmt: skip
    tables = experiment.tables(rows, options)
    for _, row in tables["results"].iterrows():
        key = {"dataset": row["dataset"], "method": row["method"]}
        draws = [np.mean([one["accuracy"] for one in where(rows, draw=k, **key)]) for k in range(4)]
        np.testing.assert_allclose(
            [row["as_is"], row["worst"], row["best"]], [draws[0], min(draws[1:]), max(draws[1:])], atol=6e-4
        )
        flips, change = [], []
        for split in range(2):
            [base] = [np.array(one["values"]) for one in where(rows, draw=0, split=split, **key)]
            for k in range(1, 4):
                [f] = [np.array(one["values"]) for one in where(rows, draw=k, split=split, **key)]
                flips += (f * base < 0).tolist()
                change.append(abs(f - base).max() / abs(base).max())
        assert row["flipped"] == pytest.approx(100 * np.mean(flips))
        assert row["change"] == pytest.approx(max(change))
        assert (row["same_C"], row["draws"], row["folds"]) == (row["dataset"] == "sonar", 3, 2)


def test_machines_are_counted_until_the_excess_is_small():
    options = options_of("rkl-convergence", datasets=("sonar",))
    common = {"n_samples": 9, "status": "CONVERGED", "seconds": 1.25, "dual": 2.0, "all_machines": 40}
    exact = {**common, "machines": [1, 4, 9], "objective": [3.0, 2.0 * (1 + 1e-3), 2.0], "active": [20, 7, 3]}
    slow = {**common, "machines": [1, 30], "objective": [3.0, 2.5], "active": [20, 15], "dual": 1.0}
    rows = [({"dataset": "sonar", "step": "newton"}, exact), ({"dataset": "sonar", "step": "armijo"}, slow)]
    tables = experiments.get("rkl-convergence").tables(rows, options)
    first, second = tables["counts"].to_dict("records")
    from kernelweave_papers.rkl_convergence import LEVELS

    for level in LEVELS:
        k = next(k for k, value in enumerate(exact["objective"]) if value / 2.0 - 1.0 <= level)
        assert (first[f"machines {level:g}"], first[f"kernels {level:g}"]) == (
            exact["machines"][k],
            exact["active"][k],
        )
        assert np.isnan(second[f"machines {level:g}"])
    assert (first["machines"], first["kernels"], first["excess"], second["excess"]) == (40, 3, 0.0, 0.25)
    curve = tables["curves"].query("step == 'newton'")
    assert curve[["machines", "excess", "kernels"]].to_numpy().tolist() == [
        [1, 0.5, 20],
        [4, 1e-3, 7],
        [9, 0.0, 3],
    ]
