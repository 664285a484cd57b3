"""The benchmark scripts stay alive: one tiny case, no statement about speed."""

import importlib
import json
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import kernelweave as kw

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def beside_the_benchmarks(monkeypatch):
    """Tests may lie elsewhere, as in a source distribution without benchmarks."""
    if not (ROOT / "benchmarks").is_dir():
        pytest.skip("needs the folder benchmarks, which is not beside the tests")
    monkeypatch.syspath_prepend(str(ROOT))


def test_paths_on_a_tiny_case(tmp_path):
    run = importlib.import_module("benchmarks.run")
    run.main(["paths", "--only", "tiny", "--repeat", "1", "--out", str(tmp_path)])
    (record,) = json.loads((tmp_path / "paths.json").read_text())["records"]
    solvers = record["solvers"]
    # the library and the rival Newton method reach the gap; the paper's loose rule does not promise it
    assert solvers["kernelweave"]["worst_gap_recomputed"] <= 1e-6 * (1 + 1e-6)
    assert solvers["numpy newton, gap 1e-6"]["worst_gap_recomputed"] <= 1e-6 * (1 + 1e-6)
    assert record["worst_gap_reported"] == pytest.approx(
        solvers["kernelweave"]["worst_gap_recomputed"], abs=1e-9
    )
    sys.modules.pop("benchmarks.run", None)


def test_deep_passes_on_few_rows():
    deep = importlib.import_module("benchmarks.deep")
    record = deep.measure_pass(40, 1)
    assert record["ratio_to_traffic"] == pytest.approx(record["pass"] / record["traffic"])
    assert record["pass"] > 0
    fit = deep.measure_fit(40)
    assert fit["training"]["n_iter"] == fit["out-of-fold"]["n_iter"] == 10


def test_seconds_of_tiny_cases(tmp_path):
    run = importlib.import_module("benchmarks.run")
    run.main(["seconds", "--only", "tiny", "--repeat", "1", "--out", str(tmp_path)])
    records = json.loads((tmp_path / "seconds.json").read_text())["records"]
    assert [record["case"] for record in records] == ["intake tiny", "filling 50", "wide polynomials"]
    for record in records:
        assert all(found["cpu"] >= 0 and found["wall"] > 0 for found in record["seconds"].values())
    sys.modules.pop("benchmarks.run", None)


def test_missing_values_on_few_rows():
    missing = importlib.import_module("benchmarks.missing")
    rng = np.random.default_rng(0)
    z = rng.normal(size=(60, 3))
    y = (z[:, 0] > 0).astype(int)
    views = {v: z @ rng.normal(size=(3, 4)) + 0.1 * rng.normal(size=(60, 4)) for v in "ab"}
    holes = missing.without_views(views, 0.5, rng)
    assert not np.all([np.isnan(X).all(axis=1) for X in holes.values()], axis=0).any()
    train, test = np.arange(30), np.arange(30, 60)
    found = missing.score_views(missing.some(holes, train), y[train], missing.some(holes, test), y[test], 0)
    assert set(found) == {"renormalize", "complete", "zero fill", "complete cases", "forest"}
    cells = missing.without_cells(z, 0.3, "large", rng)
    found = missing.score_cells(cells, y, train, test, 0)
    assert found["residual"] > 0
    assert {"impute", "skip", "boosting"} <= set(found)
    assert missing.without_nan({"a": [1], "b": {"c": float("nan")}}) == {"a": [1], "b": {"c": None}}


def test_coverages_of_one_division():
    uncertainty = importlib.import_module("benchmarks.uncertainty")
    found = uncertainty.numbers("normal, 60", 1, 1)["ours"]
    assert found["coverage"] == sorted(found["coverage"])
    assert found["times ours"] == [1.0] * 4
    held = uncertainty.sets("wine", 1)["ours"]
    assert np.shape(held["coverage"]) == (4, 3)
    assert held["size"] == sorted(held["size"])
    scores = importlib.import_module("benchmarks.scores")
    assert len(scores.tables()) == 30
    assert set(scores.of_ten_columns(30, False, 2)) == {"R^2", "RMSE", "MAE"}
    assert scores.reported("wine", 1)["score"] == "accuracy"


@pytest.mark.parametrize("kind", ["gaussian", "linear", "made"])
def test_streams_of_few_kernels(kind):
    streams = importlib.import_module("benchmarks.streams")
    record = streams.run(kind, 40, 1e-3, n=60, points=3)
    assert record["largest_gap"] <= 1e-3
    if kind != "linear":
        assert record["last_gap_by_kernels"] <= record["last_gap"] * 1.01
        assert record["passes"] >= 1


def test_devices_on_few_rows():
    pytest.importorskip("torch", reason="torch is not there")
    devices = importlib.import_module("benchmarks.devices")
    records = devices.run(
        {"path of features": (100, 200), "path of kernels": (50, 4), "sums over rows": (300, 20)}, 1
    )
    assert {one["place"] for one in records} >= {"NumPy", "torch, processor", "torch, processor, passes"}
    assert all(one["rel_gap"] is None or one["rel_gap"] <= 1e-4 for one in records)


def test_approximations_on_few_rows(monkeypatch, tmp_path):
    approximation = importlib.import_module("benchmarks.approximation")
    records: list[dict[str, object]] = []
    for way in ("kernels", "nystroem-40"):
        monkeypatch.setattr(approximation, "WAYS", ("kernels", "nystroem-40"))
        records = approximation.keep(records, approximation.fit(120, way), tmp_path / "records.json")
    exact, close = records
    assert exact["objective"] <= close["objective"]
    # of a function in the true problem
    assert close["true_gap"] == close["objective"] / (exact["objective"] * (1 - exact["rel_gap"])) - 1 >= 0
    assert json.loads((tmp_path / "records.json").read_text()) == records


def test_gene_sets_of_few_cells(monkeypatch):
    scripts = importlib.import_module("benchmarks.gene_sets")
    X, sets, labels = scripts.make(700)
    assert 0.15 < X.nnz / np.prod(X.shape) < 0.3
    monkeypatch.setattr(scripts, "PROJECTIONS", 5)
    monkeypatch.setattr(scripts, "make", lambda: (X, sets[:4], labels))
    table = {}
    scripts.ours(table, [0], lambda: None, 1e-4)
    record = table["kernelweave, gap 0.0001"]["0"]
    assert len(record["auc"]) == 10
    assert record["largest_gap"] <= 1e-4
    Z, _ = scripts.features(X.tocsc(), sets[:4], *scripts.split(labels, 0), 0)
    y = labels[scripts.split(labels, 0)[0]].astype(float)
    y -= y.mean()
    groups = np.arange(0, 41, 10)
    # the gap of zero coefficients is that of an alpha without end
    nothing = scripts.gaps(Z, groups, y, [1e12], np.zeros((1, 40)))
    np.testing.assert_allclose(nothing, 0.0, atol=1e-6)
    # none is left at a solution, and away from one at least what is missing to the optimum
    path = kw.rls2_path(kw.FeatureStack(Z, groups), y, [1.0, 0.1], tol=1e-10)
    assert max(scripts.gaps(Z, groups, y, path.alphas, path.feature_coef)) < 1e-9
    coefs = 0.5 * path.feature_coef
    found = scripts.gaps(Z, groups, y, path.alphas, coefs)
    for gap, alpha, w, best in zip(found, path.alphas, coefs, path.dual, strict=True):
        level = np.linalg.norm(w.reshape(-1, 10), axis=1).sum()
        primal = 0.5 * np.square(y - Z.astype(float) @ w).sum() + 0.5 * alpha * level**2
        assert 0.01 < 1 - best / primal <= gap


def test_rows_in_files_of_few_rows(monkeypatch, tmp_path):
    rows = importlib.import_module("benchmarks.rows")
    margins = importlib.import_module("benchmarks.margin_rows")
    monkeypatch.setattr(rows, "TEST", 400)
    rows.make(1500, tmp_path / "numbers")
    record = rows.fit("linear", 1500, tmp_path / "numbers")
    assert record["largest_gap"] <= 1e-4
    assert 0.3 < record["r2"] < 1
    rows.make(1500, tmp_path / "labels", margins.label)
    record = rows.fit("logistic", 1500, tmp_path / "labels", margins.FITS, margins.scores)
    assert record["largest_gap"] <= margins.TOL
    assert 0.6 < record["accuracy"] < record["auc"] + 0.1


def test_other_programs_agree_as_the_page_says():
    """Every block of the page that runs another program has a result, below the bound that stands there."""
    coming = importlib.import_module("benchmarks.coming_from")
    text = coming.PAGE.read_text()
    blocks = coming.blocks(text)
    assert len(blocks) == text.count("<!-- program: ") == 7
    results = json.loads(coming.OUT.read_text())
    assert {block["program"] for block in blocks} == set(results)
    for block in blocks:
        compile(block["code"], "page", "exec")
        assert results[block["program"]]["differences"][block["what"]] < float(block["bound"])
    assert "FeatureStack" in blocks[0]["code"]
    assert coming.value_of("2 * 0.5 + len(t) * 0", coming.data_of(text)) == 1.0


def test_gaps_of_the_benchopt_benchmark_are_those_of_the_library(monkeypatch):
    """Both forms of the problem, at a solution and away from it; and the page's seconds are in the results."""
    folder = ROOT / "benchmarks" / "benchopt"
    monkeypatch.syspath_prepend(str(folder / "group_lasso"))
    problem = importlib.import_module("benchmark_utils.problem")
    rng = np.random.default_rng(0)
    Z, groups = rng.normal(size=(40, 12)), np.arange(0, 13, 3)
    y = Z[:, :3].sum(axis=1) + rng.normal(size=40)
    found = kw.solve_rls2(kw.FeatureStack(Z, groups), y, alpha=3.0, tol=1e-12)
    multiplier = 3.0 * problem.norms(found.feature_coef, groups).sum()
    assert abs(problem.squared_gap(Z, groups, y, 3.0, found.feature_coef)) < 1e-11
    assert abs(problem.lasso_gap(Z, groups, y, multiplier, found.feature_coef)) < 1e-6
    rough = kw.solve_rls2(kw.FeatureStack(Z, groups), y, alpha=3.0, tol=1e-2)
    away = 1.1 * found.feature_coef

    def value(w, power):
        level = problem.norms(w, groups).sum()
        penalty = 1.5 * level**2 if power == 2 else multiplier * level
        return 0.5 * np.sum((y - Z @ w) ** 2) + penalty

    for w in (away, rough.feature_coef, np.zeros(12)):
        for power, gap in (
            (2, problem.squared_gap(Z, groups, y, 3.0, w)),
            (1, problem.lasso_gap(Z, groups, y, multiplier, w)),
        ):
            above = 1 - value(found.feature_coef, power) / value(w, power)
            assert above - 1e-9 <= gap <= 1
    for path in folder.rglob("*.py"):
        compile(path.read_text(), str(path), "exec")
    sys.modules.pop("benchmark_utils.problem")
    sys.modules.pop("benchmark_utils")


def test_the_page_of_benchmarks_has_the_seconds_of_the_results():
    points = json.loads((ROOT / "benchmarks" / "results" / "benchopt.json").read_text())["points"]
    rows = [line.strip("| ").split(" | ") for line in (ROOT / "docs/benchmarks.md").read_text().splitlines()]
    rows = [row for row in rows if row[0] in points]
    assert len(rows) == 4
    for title, *cells in rows:
        for solver, cell in zip(("kernelweave", "adelie", "celer", "skglm", "himalaya"), cells, strict=True):
            for gap, printed in zip((1e-4, 1e-6), cell.split(", "), strict=True):
                reached = [p["cpu_seconds"] for p in points[title][solver] if p["gap"] <= gap]
                assert printed == (f"{min(reached):.2g}" if reached else "–"), (title, solver, gap)


@pytest.mark.full
def test_a_watched_studio_says_its_memory_and_its_blocks(tmp_path, monkeypatch):
    pytest.importorskip("nicegui")
    studio = importlib.import_module("benchmarks.studio")
    monkeypatch.setattr(studio, "SHAPES", {"wide": (6, 40)})
    tables = studio.write_tables(tmp_path)
    server = studio.Server(tmp_path)
    try:
        with urllib.request.urlopen(server.login) as answer:
            assert answer.status == 200
        # what the libraries take alone
        assert server.memory() > 100
    finally:
        server.close()
    assert [p.name for p in tmp_path.glob("*.csv")] == ["6x40.csv"]
    assert list(tables) == ["wide"]
    server.blocks.write_text('[100.0, 0.3, "a.py:1 b.py:2"]\n[101.0, 0.2, "c.py:3"]\n')
    assert server.longest(99.0) == (0.3, "a.py:1 b.py:2")
    # a block that began before does not count
    assert server.longest(99.8) == (0.2, "c.py:3")
    assert server.longest(102.0) == (0.0, "")


def test_selection_on_a_table():
    selection = importlib.import_module("benchmarks.selection")
    fit, _ = selection.LEARNERS["RLS2, alpha chosen"]
    found = selection.rates(fit, 300, 6, 2, 1)
    # both columns that predict, at six standard errors and more, and three columns count in a half
    assert (found["right"], found["false"], found["largest"]) == (2, 0, 3)


def test_verdicts_of_few_draws():
    verdicts = importlib.import_module("benchmarks.verdicts")
    assert verdicts.better(5000, 0.1, 20)["yes"] == 1.0
    assert verdicts.uses(60, 2)["columns"][0]["yes"] == 1.0
    assert verdicts.needs(300, 1)[0]["yes"] == 1.0


def test_texts_on_few_rows(monkeypatch, tmp_path):
    texts = importlib.import_module("benchmarks.texts")
    words = ["".join(chr(97 + (k * j) % 26) for j in range(1, 5)) for k in range(1, 40)]
    rows = [
        (f"{words[k % 39]} {words[k % 7]} {'warm' if k % 2 else 'cold'} {k}", str(k % 2)) for k in range(80)
    ]
    monkeypatch.setattr(texts, "TABLES", {"tiny": lambda: rows})
    monkeypatch.setattr(texts, "COSTS", [1.0])
    row = texts.accuracies("tiny", [0])
    assert (row["rows"], row["classes"], row["accuracy texts"], row["accuracy matrix"]) == (80, 2, 1.0, 1.0)
    found = texts.equal("tiny")
    # counts of words are the same in every form
    assert (
        max(
            found[kind][form]
            for kind in ("TfidfVectorizer", "CountVectorizer")
            for form in ("sparse", "frame")
        )
        < 1e-9
    )
    sys.modules.pop("benchmarks.texts", None)
