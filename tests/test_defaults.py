"""What a plain fit takes: the rule on made-up tables, noise, C, words, files, and that all ways in agree.

Modules: `estimators/defaults`, `estimators/choosing`, `recipe`, `gram/uninformative`, `normalizers`.
"""

from __future__ import annotations

import re
import types

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import metrics
from sklearn.base import clone
from sklearn.svm import SVC

import kernelweave as kw
from kernelweave import InputError, banks, recipe
from kernelweave.estimators.choosing import cost_score
from kernelweave.fitting.folds import score_costs
from kernelweave.fitting.stacks import gram_from_stack
from kernelweave.fitting.task import problems_of
from kernelweave.gram import spread_and_alignment
from kernelweave.kernels import RBF, Laplacian, Linear, Precomputed
from kernelweave.machines.losses import Hinge
from kernelweave.mkl.weight_sets import LpBall
from kernelweave.views import GramTable, as_table

RNG = np.random.default_rng(5)
N = 60
X = RNG.normal(size=(N, 4))
Y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, "a", "b")

WIDTHS = [("median", 0.25), ("median", 1.0), ("median", 4.0)]
DENSE = [
    Linear().prepared("standardize"),
    *(RBF(gamma=width).prepared("standardize") for width in WIDTHS),
    *(Laplacian(gamma=width).prepared("standardize") for width in WIDTHS),
    Linear().prepared("normalize-rows"),
]


def kernels_of(table, **options):
    return recipe.choose(as_table(table), **options).kernels


def said(table, **options):
    return " ".join(s for some in recipe.choose(as_table(table), **options).found.values() for s in some)


# ---- the rule -----------------------------------------------------------------------------------------


def test_dense_columns():
    assert kernels_of(X) == DENSE == banks.default(X)
    assert said(X).startswith(
        "4 columns, 0 % of the numeric cells zero: standardised; Linear, and RBF at 1/4, 1 and 4"
    )


def test_one_column_has_no_cosine():
    assert kernels_of(X[:, :1]) == DENSE[:-1]


def test_numbers_to_predict_get_gaussians_of_single_columns():
    single = RBF(gamma="median").prepared("standardize")
    assert kernels_of(X, regression=True) == [*DENSE, *(single.on([j]) for j in range(4))]
    assert banks.default(X, regression=True) == kernels_of(X, regression=True)
    wide = np.random.default_rng(0).normal(size=(5, 41))
    assert kernels_of(wide, regression=True) == DENSE


def test_counts_get_logarithms_as_well():
    counts = RNG.poisson(0.4, size=(N, 6)).astype(float)
    counts[0] = 3.0
    logged = [k for k in kernels_of(counts) if [s.name for s in k.preparation][:1] == ["log1p"]]
    assert [type(getattr(k, "kernel", k)) for k in logged] == [Linear, RBF, Laplacian]
    assert "as with counts" in said(counts)
    # neither signs nor columns of zeros and ones are counts
    assert kernels_of(np.where(counts > 1, -counts, counts)) == DENSE
    assert kernels_of((counts > 0).astype(float)) == DENSE


def test_single_columns_are_called_what_they_are():
    """Of numbers to predict: each column of numbers or dates has a Gaussian of its own, and categories have none."""
    day = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(N), unit="D")
    kind = pd.Categorical(["u", "v"] * (N // 2))
    numbers = pd.DataFrame(X[:, :2], columns=["a", "b"])
    for table, single, words in (
        (numbers, ["a", "b"], "numeric column alone"),
        (numbers.assign(kind=kind), ["a", "b"], "numeric column alone"),
        (numbers.assign(day=day), ["a", "b", "day"], "column of numbers or dates alone"),
    ):
        assert f"A Gaussian of each {words}" in said(table, regression=True)
        assert "alone" not in said(table)
        more = kernels_of(table, regression=True)[len(kernels_of(table)) :]
        assert more == [RBF(gamma="median").prepared("standardize").on([name]) for name in single]


def test_zeros_count_as_often_as_their_rows_weigh():
    table = np.array([[0.0, 0.0], [2.0, 1.0], [3.0, 4.0]])
    assert kernels_of(table) == DENSE
    assert len(kernels_of(table, sample_weight=np.array([3.0, 1.0, 1.0]))) == len(DENSE) + 3
    assert len(kernels_of(table[[0, 0, 0, 1, 2]])) == len(DENSE) + 3
    views = {"a": table, "b": table}
    assert len(kernels_of(views)) == 2 * len(DENSE)
    assert len(kernels_of(views, sample_weight=np.array([3.0, 1.0, 1.0]))) == 2 * (len(DENSE) + 3)


def test_sparse_rows_are_never_standardised():
    counts = sparse.random_array((N, 500), density=0.02, rng=1, format="csr")
    cosine = [Linear(), *(RBF(gamma=width) for width in WIDTHS)]
    assert kernels_of(counts) == [k.prepared("normalize-rows") for k in cosine]
    assert said(counts).startswith("500 columns, 98 % of the cells zero: rows of length 1")
    # sparse rows of any content, as nothing else is possible with them
    assert kernels_of(-counts[:, :50]) == kernels_of(counts)


def texts(n_rows=90):
    """Counts of 400 words, of which twenty are more frequent in texts of each class."""
    rng = np.random.default_rng(2)
    y = np.arange(n_rows) % 2
    rates = np.full((2, 400), 0.03)
    rates[0, :20] = rates[1, 20:40] = 0.2
    return rng.poisson(rates[y]).astype(float), y


def forms(counts):
    names = [f"w{j}" for j in range(counts.shape[1])]
    return {
        "array": counts,
        "sparse": sparse.csr_array(counts),
        "frame": pd.DataFrame(counts, columns=names),
        "integers": pd.DataFrame(counts.astype(int), columns=names),
        "sparse frame": pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(counts), columns=names),
    }


def test_counts_of_words_are_known_by_their_content():
    counts, _ = texts()
    cosine = [k.prepared("normalize-rows") for k in [Linear(), *(RBF(gamma=width) for width in WIDTHS)]]
    for table in forms(counts).values():
        assert kernels_of(table) == cosine
        assert said(table) == said(counts)
    # few columns, many cells that are not zero, and signs
    few, full, signed = counts[:, :99], np.where(RNG.random(counts.shape) < 0.1, 1.0, counts), counts.copy()
    signed[0, 0] = -1.0
    assert len(kernels_of(few)) == len(kernels_of(full)) == len(DENSE) + 3
    assert kernels_of(signed) == DENSE


def test_words_weigh_as_often_as_they_are_repeated():
    counts, _ = texts()
    counts[0] = 1.0
    weights = np.where(np.arange(len(counts)) == 0, 20.0, 1.0)
    assert len(kernels_of(counts)) == 4
    assert len(kernels_of(counts, sample_weight=weights)) == len(DENSE) + 3
    assert len(kernels_of(np.repeat(counts, weights.astype(int), axis=0))) == len(DENSE) + 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("estimator", [kw.MKLClassifier, kw.MKLRegressor])
def test_counts_of_words_have_one_model_in_every_form(estimator):
    counts, y = texts()
    train, new = forms(counts[:60]), forms(counts[60:])
    models = {name: estimator().fit(table, y[:60]) for name, table in train.items()}
    first = models["sparse"]
    decide = "decision_function" if estimator is kw.MKLClassifier else "predict"
    for name, own in models.items():
        assert own.kernels_ == first.kernels_
        assert own.explain_defaults() == first.explain_defaults()
        # every form is stored as sparse rows
        np.testing.assert_array_equal(getattr(own, decide)(new[name]), getattr(first, decide)(new["sparse"]))


def test_counts_of_words_beside_another_view():
    counts, y = texts()
    other = RNG.normal(size=(90, 3))
    dense = kw.MKLClassifier().fit({"words": counts, "other": other}, y)
    same = kw.MKLClassifier().fit({"words": sparse.csr_array(counts), "other": other}, y)
    groups = {"words": list(range(400)), "other": [400, 401, 402]}
    joined = np.hstack([counts, other])
    grouped = kw.MKLClassifier(views=groups).fit(joined, y)
    values = same.decision_function({"words": sparse.csr_array(counts), "other": other})
    np.testing.assert_array_equal(dense.decision_function({"words": counts, "other": other}), values)
    # groups of columns of one table stay dense: measured 2e-14
    np.testing.assert_allclose(grouped.decision_function(joined), values, atol=1e-10)
    assert dense.explain_defaults() == same.explain_defaults() == grouped.explain_defaults()


def test_what_sparse_rows_cannot_have_still_works_with_counts_of_words():
    counts, y = texts()
    counts[3, 5] = np.nan
    model = kw.MKLClassifier(missing="impute-median").fit(counts, y)
    assert len(model.kernels_) == 4
    counts[3, 5] = 0.0
    assert len(kw.MKLClassifier(standardize=True).fit(counts, y).kernels_) == 4


def test_categories_and_constant_columns():
    frame = pd.DataFrame({"site": list("ABC") * 20, "age": X[:, 0], "same": 1.0})
    model = kw.MKLClassifier().fit(frame, Y)
    assert (
        "3 columns, 1 of them categories, as 3 indicator columns, 0 % of the numeric cells zero, 1 constant"
        in (model.explain_defaults())
    )
    assert len(model.kernels_) == len(DENSE)


def test_wide_tables_and_many_rows_cost_no_more(monkeypatch):
    assert kernels_of(np.ones((3001, 2)) * np.arange(2)) == [DENSE[0], DENSE[2], DENSE[5], DENSE[7]]
    assert "3001 rows, more than 3000" in said(np.ones((3001, 2)) * np.arange(2))
    monkeypatch.setattr(recipe, "MOST_DIFFERENCES", 100.0)
    assert kernels_of(X) == [*DENSE[:4], DENSE[-1]]
    assert "No Laplacian: 60 rows squared times 4 columns" in said(X)


def test_many_views_get_two_kernels_each():
    views = {f"v{k}": X[:, :2] for k in range(9)}
    model = kw.MKLClassifier(C=1.0).fit(views, Y)
    assert len(model.kernels_) == 3 * 9
    assert "One of 9 views, more than 8" in model.explain_defaults()


def test_views_by_every_way_in():
    groups = {"one": [0, 1], "two": [2, 3]}
    frame = pd.DataFrame(X, columns=list("abcd"))
    plain = kw.MKLClassifier().fit({"one": X[:, :2], "two": X[:, 2:]}, Y)
    by_groups = kw.MKLClassifier(views=groups).fit(X, Y)
    by_bank = kw.MKLClassifier(kw.banks.views(groups)).fit(X, Y)
    by_names = kw.MKLClassifier(banks.views({"one": ["a", "b"], "two": ["c", "d"]})).fit(frame, Y)
    values = plain.decision_function({"one": X[:, :2], "two": X[:, 2:]})
    for other, Z in ((by_groups, X), (by_bank, X), (by_names, frame)):
        np.testing.assert_allclose(other.decision_function(Z), values, rtol=1e-9, atol=1e-12)
        assert other.kernel_names_.tolist() == plain.kernel_names_.tolist()
        assert other.explain_defaults() == plain.explain_defaults()
    assert clone(kw.MKLClassifier(kw.banks.views(groups))).kernels == banks.views(groups)
    with pytest.raises(InputError, match=r"`views` and banks\.views\(\.\.\.\) both group columns"):
        kw.MKLClassifier(banks.views(groups), views=groups).fit(X, Y)


# ---- noise ----------------------------------------------------------------------------------------------


def test_spread_and_alignment_are_those_of_turned_targets():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 3))
    y = np.sign(Z[:, :1] + rng.normal(size=(40, 1)))
    stack = np.stack([RBF(0.3)(Z), Linear()(Z), np.eye(40), np.ones((40, 40))], axis=-1)
    gram = gram_from_stack(stack)
    spread, beyond = spread_and_alignment(gram, y)
    H = np.eye(40) - 1 / 40
    for m in range(2):
        K = H @ stack[:, :, m] @ H
        assert spread[m] == pytest.approx(np.trace(K) ** 2 / (39 * (K**2).sum()), rel=1e-10)
        v = rng.normal(size=(40000, 40)) @ H
        v *= np.linalg.norm(H @ y) / np.linalg.norm(v, axis=1, keepdims=True)
        turned = np.einsum("ij,ij->i", v @ K, v)
        # 40,000 draws: the mean within 0.02 deviations, the deviation within 2 %
        assert beyond[m] == pytest.approx(((y.T @ K @ y).item() - turned.mean()) / turned.std(), rel=0.04)
    assert spread[2] == pytest.approx(1.0)
    assert (spread[3], beyond[3]) == (0.0, 0.0)
    # a weight equals a repetition
    weight = rng.integers(1, 4, 40).astype(float)
    rows = np.repeat(np.arange(40), weight.astype(int))
    again = spread_and_alignment(gram_from_stack(stack[np.ix_(rows, rows)]), y[rows])
    np.testing.assert_allclose(spread_and_alignment(gram, y, weight), again, rtol=1e-9, atol=1e-9)


def test_a_view_of_noise_is_left_out():
    rng = np.random.default_rng(1)
    views = {"rows": X, "noise": rng.normal(size=(N, 300))}
    model = kw.MKLClassifier().fit(views, Y)
    of_noise = np.array([name.startswith("noise") for name in model.kernel_names_])
    assert (model.weights_[of_noise] == 0).all()
    assert model.weights_[~of_noise].max() > 0
    assert "agree with the target no more than chance: noise: " in model.explain_defaults()
    contributions = model.kernel_contributions(views)
    assert (contributions[:, of_noise] == 0).all()
    alone = kw.MKLClassifier().fit({"rows": X}, Y)
    # measured: 4e-7
    np.testing.assert_allclose(
        model.decision_function(views), alone.decision_function({"rows": X}), rtol=0, atol=2e-6
    )


def test_something_stays_where_all_is_noise():
    rng = np.random.default_rng(3)
    y = rng.permutation(np.repeat([0, 1], N // 2))
    for Z in (rng.normal(size=(N, 5)), rng.normal(size=(N, 2000)), np.eye(N), np.ones((N, 2))):
        model = kw.MKLClassifier().fit(Z, y)
        assert np.isfinite(model.decision_function(Z)).all()
    assert kw.MKLClassifier().fit(rng.normal(size=(N, 2000)), y).weights_.max() > 0


# ---- C, learners and scales -----------------------------------------------------------------------------


def test_C_is_chosen_on_folds_by_what_rows_hold():
    model = kw.MKLClassifier().fit(X, Y)
    assert model.C_ in recipe.COSTS
    assert list(model.Cs_) == list(recipe.COSTS)
    assert model.best_score_ == model.cv_results_["mean_test_score"].max()
    stated = kw.MKLClassifier(C=model.C_).fit(X, Y)
    np.testing.assert_allclose(stated.decision_function(X), model.decision_function(X), rtol=1e-5, atol=1e-6)
    assert not hasattr(stated, "Cs_")


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_C_are_those_of_machines_on_parts_of_one_matrix(n_classes, weighted, rng):
    X = rng.normal(size=(90, 4))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * rng.normal(size=90), [0.0, 0.9][: n_classes - 1])
    weight = rng.integers(1, 4, size=90).astype(float) if weighted else None
    task = kw.MKLClassifier().fit(X, y, weight).model_.task
    setups, rows, costs = (
        problems_of(task),
        np.sort(rng.permutation(90)[:70]),
        np.array([0.1, 1.0, 10.0, 1e4]),
    )
    folds = [(np.arange(20, 70), np.arange(20)), (np.arange(50), np.arange(50, 70))]
    name, score = cost_score(task, rows)
    found = score_costs(task, setups, Hinge(), LpBall(2.0), rows, folds, costs, score)
    assert name == "accuracy"
    weights = found.mean_weights(0)
    wanted = np.empty((2, 4))
    for k, (train, test) in enumerate(folds):
        for c, C in enumerate(costs):
            values = []
            for setup, target, w in zip(setups, task.targets, weights, strict=True):
                K, own = setup.gram.restrict(rows).combine(w * setup.normalizer.scale), target[rows, 0]
                svc = SVC(C=C, kernel="precomputed", tol=1e-8)
                svc.fit(K[np.ix_(train, train)], own[train], None if weight is None else weight[rows[train]])
                values.append(svc.decision_function(K[np.ix_(test, train)]))
            wanted[k, c] = score(np.column_stack(values), test)
    # machines are solved to 1e-3: a row at the border may fall on the other side
    np.testing.assert_allclose(found.scores, wanted, atol=0.06)
    assert np.mean(found.scores == wanted) >= 0.75
    joint = kw.solve_svm_mkl(setups[0].gram.restrict(rows), task.targets[0][rows, 0], 1.0, LpBall(2.0),
                             scale=setups[0].normalizer.scale,
                             sample_weight=None if weight is None else weight[rows])  # fmt: skip
    # weights of a gap of 1e-2; measured: at most 0.05 away
    np.testing.assert_allclose(weights[0], joint.weights, atol=0.15)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["numbers", "two numbers", "binary", "classes", "labels"])
def test_what_chooses_C_is_a_score_of_scikit_learn_with_weights(kind, weighted, rng):
    """On test rows, which are positions among some rows."""
    X, weight = rng.normal(size=(60, 3)), rng.uniform(0.2, 3.0, 60)
    y = {
        "numbers": X[:, 0],
        "two numbers": X[:, :2],
        "binary": X[:, 0] > 0,
        "classes": np.digitize(X[:, 0], [-0.5, 0.5]),
        "labels": (X > 0.3).astype(int),
    }[kind]
    cls = kw.MKLRegressor if "numbers" in kind else kw.MKLClassifier
    model = (
        cls([kw.kernels.Linear()], kw.learners.SimpleMKL(C=1.0))
        if kind != "two numbers"
        else cls([kw.kernels.Linear()], kw.learners.RLS2(alpha=1.0))
    )
    task = model.fit(X, y, sample_weight=weight if weighted else None).model_.task
    rows, test = np.sort(rng.permutation(60)[:40]), np.arange(5, 25)
    name, score = cost_score(task, rows)
    truth, own = np.asarray(y)[rows[test]], weight[rows[test]] if weighted else None
    values = rng.normal(
        size=(20, 1 if kind in ("numbers", "binary") else (np.ndim(y) > 1 and y.shape[1]) or 3)
    )
    if "numbers" in kind:
        found = -metrics.mean_squared_error(truth, values.reshape(truth.shape), sample_weight=own)
    elif kind == "labels":
        found = np.mean(
            [metrics.accuracy_score(truth[:, k], values[:, k] > 0, sample_weight=own) for k in range(3)]
        )
    else:
        decided = values[:, 0] > 0 if kind == "binary" else values.argmax(axis=1)
        found = metrics.accuracy_score(truth, decided, sample_weight=own)
    assert score(values, test) == pytest.approx(found, rel=1e-12)
    assert ("accuracy" in name) == ("numbers" not in kind)


def test_weights_of_labels_count_in_what_chooses_C(rng):
    X, weight = rng.normal(size=(40, 3)), rng.uniform(0.2, 3.0, 40)
    y, factors = (X > 0.3).astype(int), [{0: 1.0, 1: 3.0}, {0: 2.0, 1: 1.0}, {0: 1.0, 1: 1.0}]
    model = kw.MKLClassifier([kw.kernels.Linear()], kw.learners.SimpleMKL(C=1.0), class_weight=factors)
    task = model.fit(X, y, sample_weight=weight).model_.task
    _, score = cost_score(task, np.arange(40))
    values, test = rng.normal(size=(15, 3)), np.arange(10, 25)
    own = np.array([[factors[k][v] for k, v in enumerate(row)] for row in y[test]]) * weight[test, None]
    wanted = [metrics.accuracy_score(y[test, k], values[:, k] > 0, sample_weight=own[:, k]) for k in range(3)]
    assert score(values, test) == pytest.approx(np.mean(wanted), rel=1e-12)


def test_a_stop_while_C_is_chosen_keeps_the_folds_that_are_done(rng):
    task = kw.MKLClassifier().fit(X, Y).model_.task
    _, score = cost_score(task, np.arange(N))
    folds = [(np.arange(20, N), np.arange(20)), (np.arange(40), np.arange(40, N))]
    told = []

    def report(text):
        told.append(text)
        return True

    found = score_costs(
        task,
        problems_of(task),
        Hinge(),
        LpBall(2.0),
        np.arange(N),
        folds,
        np.array([1.0, 10.0]),
        score,
        report=report,
    )
    assert found.interrupted
    assert found.scores.shape == (1, 2)
    assert told == ["fold 1 of 2: C 1", "fold 1 of 2: C 10"]


def test_C_auto_of_other_learners_and_of_regression():
    bank = [Linear(), RBF(gamma="median")]
    model = kw.MKLClassifier(bank, "simple", C="auto").fit(X, Y)
    assert model.C_ in recipe.COSTS
    assert "Regularisation: C = " in model.explain_defaults()
    numbers = kw.MKLRegressor(bank, "simple", C="auto").fit(X, X[:, 0])
    assert numbers.C_ in recipe.COSTS
    with pytest.raises(InputError, match="`C` is for learners that have it, and RLS2 has alpha"):
        kw.MKLClassifier(bank, "rls2", C="auto").fit(X, Y)


def test_C_of_many_rows_is_chosen_on_some(monkeypatch):
    monkeypatch.setattr(recipe, "COST_ROWS", 30)
    model = kw.MKLClassifier().fit(X, Y)
    assert "5 folds of 30 rows of 60" in model.explain_defaults()
    assert len(model.support_) > 0
    # more of them have decision values by the other folds
    monkeypatch.setattr(recipe, "COST_ROWS", 20)
    for most, held in ((60, 60), (35, 30)):
        monkeypatch.setattr(recipe, "HELD_ROWS", most)
        assert len(kw.MKLClassifier().fit(X, Y).model_.held.values) == held


@pytest.mark.parametrize(
    ("params", "learner", "normalizer"),
    [
        ({}, "LpMKL", True),
        ({"alpha": 0.1}, "RLS2", True),
        ({"C": 2.0}, "LpMKL", True),
        ({"learner": "simple"}, "SimpleMKL", True),
        ({"normalize": "mean-diagonal"}, "LpMKL", False),
        ({"kernels": [Linear()]}, "RLS2", False),
        ({"kernels": [Linear()], "C": 2.0}, "LpMKL", False),
        ({"kernels": [Linear()], "C": "auto"}, "LpMKL", False),
        ({"kernels": [Linear()], "alpha": 2.0}, "RLS2", False),
    ],
)
def test_what_is_stated_is_taken(params, learner, normalizer):
    model = kw.MKLClassifier(**params).fit(X, Y)
    assert type(model.model_.learner).__name__ == learner
    assert (model.normalizers_[0].probability is not None) == normalizer
    told = model.explain_defaults()
    assert ("Learner:" in told) == ("learner" not in params)
    assert ("Scale of kernels:" in told) == ("normalize" not in params)
    assert ("Kernels, chosen" in told) == ("kernels" not in params)
    assert "Missing" not in told
    if "learner" not in params:
        assert f"Learner: '{'lp' if learner == 'LpMKL' else 'rls2'}'" in told


def test_what_was_done_about_missing_cells_and_views_is_said():
    holes = np.where(np.arange(X.size).reshape(X.shape) % 7 == 3, np.nan, X)
    told = kw.MKLClassifier(missing="impute").fit(holes, Y).explain_defaults()
    assert "Missing cells: numbers are filled with the mean of their column" in told
    lost = {"a": X, "b": np.where(np.arange(N)[:, None] < 3, np.nan, X)}
    told = kw.MKLClassifier([Linear()], "simple").fit(lost, Y).explain_defaults()
    assert (
        "Missing views: kernels of a view that rows lack are completed from those of the other views." in told
    )


def test_kernels_of_ones_own_with_a_C_have_the_margin_learner_of_the_recipe():
    """A C was refused, because the learner was "rls2"."""
    kind, params = recipe.CLASSIFICATION
    stated = kw.learners.resolve(kind).set_params(**params)
    for make, y in ((kw.MKLClassifier, Y), (kw.MKLRegressor, X[:, 0])):
        found, own = make([Linear()], C=2.0).fit(X, y), make([Linear()], stated, C=2.0).fit(X, y)
        np.testing.assert_array_equal(found.dual_coef_, own.dual_coef_)
    assert type(kw.MKLClassifierCV([Linear()], Cs=[1.0, 2.0]).fit(X, Y).model_.learner) is type(stated)


def test_nothing_to_explain():
    model = kw.MKLClassifier([Linear()], "simple", normalize="trace").fit(X, Y)
    assert (
        model.explain_defaults()
        == "Nothing was left to a default: kernels, normalize and learner were all stated."
    )


def test_regression_and_grids():
    y = np.sin(X[:, 0]) + X[:, 1]
    model = kw.MKLRegressor().fit(X, y)
    assert type(model.model_.learner).__name__ == "RLS2"
    assert "Learner: 'rls2'" in model.explain_defaults()
    assert "alpha = " in model.explain_defaults()
    grid = kw.MKLClassifierCV(n_alphas=3, cv=3).fit(X, Y)
    assert type(grid.model_.learner).__name__ == "LpMKL"
    assert "the best of the values by 3 folds" in grid.explain_defaults()
    path = kw.MKLClassifierCV(alphas=[0.1, 1.0], cv=3).fit(X, Y)
    assert type(path.model_.learner).__name__ == "RLS2"
    assert kw.MKLClassifier().set_params(learner__C=3.0).learner.C == 3.0


# ---- what every fit keeps to ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [kw.MKLClassifier, kw.MKLRegressor])
def test_the_order_of_rows_does_not_matter(make):
    y = Y if make is kw.MKLClassifier else np.sin(X[:, 0])
    order = np.random.default_rng(0).permutation(N)
    one, other = make().fit(X, y), make().fit(X[order], y[order])
    assert one.explain_defaults() == other.explain_defaults()
    how = "decision_function" if make is kw.MKLClassifier else "predict"
    np.testing.assert_allclose(getattr(other, how)(X), getattr(one, how)(X), rtol=1e-6, atol=1e-7)


def test_folds_take_numbers_of_their_own_rows():
    rows = np.arange(30)
    part = kw.MKLClassifier().fit(X[rows], Y[rows])
    more = kw.MKLClassifier().fit(X, Y)
    inner = more.model_.task.take(rows)
    assert inner.screen
    assert [str(k) for k in inner.source.kernels] == [str(k) for k in part.kernels_]


def test_files_keep_what_was_chosen(tmp_path):
    model = kw.MKLClassifier().fit({"rows": X, "noise": np.random.default_rng(1).normal(size=(N, 40))}, Y)
    kw.save(model, tmp_path / "m.kw")
    again = kw.load(tmp_path / "m.kw")
    assert again.explain_defaults() == model.explain_defaults()
    Z = {"rows": X, "noise": np.zeros((N, 40))}
    np.testing.assert_array_equal(again.decision_function(Z), model.decision_function(Z))


def test_per_column_is_the_bank_of_before():
    bank = banks.per_column(np.zeros((5, 3)))
    assert len(bank) == 28
    with pytest.raises(InputError, match="one dense table"):
        banks.per_column({"a": X, "b": X})


def test_a_view_of_kernel_values_has_its_own_kernel():
    table = GramTable(np.eye(3), np.arange(3), np.ones(3))
    kernels, said = recipe.of_view(table)
    assert [type(one) for one in kernels] == [Precomputed]
    assert said == ["Kernel values, taken as they are."]


def test_what_is_said_of_dates_and_where_learnt_metrics_go():
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(N), unit="D")
    later = days + pd.to_timedelta(np.arange(N) % 7 + 3, unit="D")
    frame = pd.DataFrame({"begun": days, "a": X[:, 0], "seen": later})
    text = said(frame)
    assert "'begun': dates from 2024-01-01 to 2024-02-29" in text
    assert "Elapsed days from 'begun' to 'seen'." in text
    assert "Elapsed" not in said(frame[["begun", "a"]])
    step = kw.kernels.Metric(by="rfm")
    in_metric = banks.metric("rfm")
    assert kernels_of(frame[["begun"]], step=step) == in_metric
    assert kernels_of(X, step=step, regression=True) == in_metric
    assert (
        kernels_of(frame.assign(kind=pd.Categorical(["u", "v"] * (N // 2)))[["kind"]], step=step) == in_metric
    )
    assert kernels_of(X, step=kw.kernels.Metric(by="ard")) == banks.metric("ard")
    assert "RBF at its own width" in said(X, step=kw.kernels.Metric(by="ard"))
    assert said(X, step=step).startswith(
        "4 columns: standardised; in a learnt metric, Linear, and RBF at 1/4, 1 and 4"
    )
    views = {"one": X[:, :2], "two": X[:, 2:]}
    assert kernels_of(views, step=step)[:7] == [
        kw.kernels.On(kernel, kw.views.ViewColumns("one")) for kernel in in_metric
    ]
    # no Gaussians of single columns of views
    assert len(kernels_of(views, regression=True)) == len(kernels_of(views)) == 2 * len(DENSE)


# ---- whole answers ---------------------------------------------------------------------------------


def test_the_recipe_says_all_that_it_does(recorded, monkeypatch):
    """Kernels and what is said of them, of columns of every kind, of few and many rows, columns and views."""
    rng = np.random.default_rng(0)
    numbers, counts = rng.normal(size=(12, 3)), rng.poisson(0.3, size=(12, 4)).astype(float)
    frame = pd.DataFrame(numbers, columns=["u", "v", "w"])
    kinds = frame.assign(kind=list("abca") * 3, same=1.0, flag=[0, 1] * 6)
    days = pd.DataFrame(
        {
            "from": pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(12) ** 2, unit="D"),
            "size": np.arange(12.0),
        }
    )
    days["to"] = days["from"] + pd.to_timedelta(3 + np.arange(12) % 5, unit="D")
    words = np.where(rng.random((12, 120)) < 0.05, 1.0, 0.0)
    views = {"one": frame[["u", "v"]], "two": kinds[["kind"]], "k": kw.precomputed(np.eye(12))}
    tables = {
        "numbers": numbers,
        "one column": numbers[:, :1],
        "counts": counts,
        "negative counts": -counts,
        "kinds": kinds,
        "days": days,
        "words": words,
        "few words": words[:, :99],
        "sparse": sparse.csr_array(words),
        "signs": np.sign(numbers),
        "views": views,
        "kinds alone": kinds[["kind"]],
        "many views": {f"v{k}": numbers for k in range(9)},
        "few views": {f"v{k}": numbers for k in range(8)},
    }
    for name, table in tables.items():
        for regression in (False, True):
            chosen = recipe.choose(as_table(table), regression=regression)
            kernels = [repr(kernel) for kernel in chosen.kernels]
            recorded(
                f"{name}, {'numbers' if regression else 'classes'}",
                [kernels[:16], len(kernels), dict(list(chosen.found.items())[:3])],
            )
    weighted = recipe.choose(as_table(counts), sample_weight=np.where(counts[:, 0] > 0, 9.0, 0.0))
    recorded("weights", [len(weighted.kernels), weighted.found])
    step = kw.kernels.Metric(by="rfm")
    for by in ("ard", "rfm"):
        step = kw.kernels.Metric(by=by)
        recorded(
            f"metric {by}",
            [
                [*map(repr, one.kernels), one.found]
                for one in (
                    recipe.choose(as_table(kinds), regression=True, step=step),
                    recipe.choose(as_table(views), step=step),
                )
            ],
        )
    monkeypatch.setattr(recipe, "FEW_ROWS", 11)
    monkeypatch.setattr(recipe, "MOST_DIFFERENCES", 12 * 12 * 3 - 1.0)
    monkeypatch.setattr(recipe, "SINGLE_COLUMNS", 2)
    for name in ("numbers", "counts", "sparse", "one column"):
        chosen = recipe.choose(as_table(tables[name]), regression=True)
        recorded(f"limits, {name}", [[*map(repr, chosen.kernels)], chosen.found])
    limited = recipe.choose(as_table(kinds), step=kw.kernels.Metric(by="rfm"))
    recorded("limits, metric", [[*map(repr, limited.kernels)], limited.found])


def test_defaults_are_told_as_they_were_taken(recorded):
    """Of learners, normalisers, choices, costs, decisions, metrics and kernels that were left out."""
    from kernelweave.estimators.defaults import default_learner, explained

    options = [
        (plain, classes, alpha, cost)
        for plain in (True, False)
        for classes in (True, False)
        for alpha in (True, False)
        for cost in (True, False)
    ]
    found = {
        str(one): list(default_learner(plain=one[0], classes=one[1], has_alpha=one[2], has_cost=one[3]))
        for one in options
    }
    recorded("learners", found)
    assert default_learner(plain=True, classes=True)[1] is not recipe.CLASSIFICATION[1]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    noise = {"a": X, "b": rng.normal(size=(24, 2))}
    y = np.where(X[:, 0] > 0.2, "yes", "no")
    X[3, 1] = np.nan
    told_of = {
        "classes": kw.MKLClassifier(missing="impute").fit(X, y),
        "views": kw.MKLClassifier(C=1.0, missing="impute").fit(noise, y),
        "balanced": kw.MKLClassifier(scoring="balanced_accuracy", missing="impute-median").fit(X, y),
        "numbers": kw.MKLRegressor(missing="impute").fit(X, X[:, 0]),
        "given": kw.MKLRegressor([Linear()], alpha=1.0, normalize="trace").fit(X[:, :1], X[:, 0]),
        "own": kw.MKLRegressor([Linear()]).fit(X[:, :1], X[:, 0]),
    }
    recorded(
        "explained",
        {
            name: re.sub(r"0?\.\d+(e-\d+)?|\b\d{3,}\b", "#", model.explain_defaults())
            for name, model in told_of.items()
        },
    )
    source = types.SimpleNamespace(n_samples=9, names=np.array([f"k{j}" for j in range(14)]))
    every = {
        "views": {"one": ["two columns."], "two": ["none."]},
        "levels": {"": ["x is a date."], "two": ["y is left out."]},
        "left_out": {"chance": ["k", "l"], "spread": ["m"]},
        "decision": "f1: most.",
        "costs": "alike.",
        "choice": "C = 1.",
        "approximation": "yes",
        "views_done": "filled",
        "cells_done": "means",
        "metric": "none.",
        "targets": "shared.",
        "learner": "lp.",
        "normalize": "center.",
    }
    model = types.SimpleNamespace(source=source)
    recorded(
        "lines",
        [
            explained(every, model),
            explained({"views": {"": ["two columns."]}}, model),
            explained({}, model),
            explained({"metric": ""}, model),
        ],
    )
