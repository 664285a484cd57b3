"""Every normaliser against its formula, written out on small matrices, and against explicit feature maps.

Modules: `normalizers`, `fitting/task`.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score

import kernelweave as kw
from kernelweave.gram import FactorGram, TileGram, gram_from_stack
from kernelweave.kernels import RBF, Linear, Polynomial
from kernelweave.learners import RLS2
from kernelweave.normalizers import Center, Cosine, FeatureNorm, MeanDiagonal, Trace, WithinClass, resolve

KERNELS = (Linear(), Polynomial(degree=2), RBF(gamma=0.5), Linear().on([1]))


@pytest.fixture
def rows(rng):
    return rng.normal(size=(12, 3)) + 0.5


@pytest.fixture
def stack(rows):
    return np.stack([k(rows) for k in KERNELS], axis=-1)


@pytest.fixture
def weight(rng):
    return rng.integers(1, 4, 12).astype(float)


def repeated(stack, weight):
    index = np.repeat(np.arange(len(weight)), weight.astype(int))
    return stack[np.ix_(index, index)], index


def phi(X):
    """Explicit features of ``(x'z + 1)^2`` for three columns."""
    pairs = [np.sqrt(2) * X[:, i] * X[:, j] for i in range(3) for j in range(i)]
    return np.column_stack([np.ones(len(X)), np.sqrt(2) * X, X**2, *pairs])


def test_the_explicit_features_are_those_of_the_polynomial(rows):
    np.testing.assert_allclose(phi(rows) @ phi(rows).T, Polynomial(degree=2)(rows), rtol=1e-12)


# ---- factors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("transductive", [False, True])
@pytest.mark.parametrize("rule", [MeanDiagonal, Trace, FeatureNorm])
def test_diagonal_rules(rng, stack, weight, weighted, transductive, rule):
    extra = rng.uniform(0.5, 2.0, size=(len(KERNELS), 5)) if transductive else None
    fitted = rule().fit(
        gram_from_stack(stack), sample_weight=weight if weighted else None, extra_diagonal=extra
    )
    w = weight if weighted else np.ones(12)
    for m in range(len(KERNELS)):
        total, count = sum(w[i] * stack[i, i, m] for i in range(12)), w.sum()
        if transductive:
            total, count = total + extra[m].sum(), count + 5
        expected = count / total if rule is MeanDiagonal else 1 / total
        assert fitted.scale[m] == pytest.approx(expected, rel=1e-13)
    assert fitted.cosine_scale is None
    assert fitted.center_means is None


def test_feature_norm_is_one_over_the_squared_norm_of_the_feature(rows):
    gram = FactorGram.from_columns(rows)
    np.testing.assert_allclose(FeatureNorm().fit(gram).scale, 1 / np.square(rows).sum(axis=0), rtol=1e-14)


def test_first_kernel_under_the_feature_norm_is_the_most_correlated_feature(rng):
    # P1, section 4: with rule (16) Lemma 5's A_m is the squared cosine between feature and target
    X, y = rng.normal(size=(30, 6)), rng.normal(size=30)
    gram = FactorGram.from_columns(X)
    scale = FeatureNorm().fit(gram).scale
    A = scale * gram.quadratic_forms(y[None]) / (y @ y)
    cosine = [X[:, j] @ y / (np.linalg.norm(X[:, j]) * np.linalg.norm(y)) for j in range(6)]
    np.testing.assert_allclose(A, np.square(cosine), rtol=1e-12)
    infinite = kw.MKLRegressor(
        kw.banks.linear_features(6), RLS2(alpha=np.inf), normalize="norm", fit_intercept=False
    ).fit(X, y)
    assert np.argmax(infinite.weights_) == np.argmax(np.abs(cosine))


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_within_class_of_single_features_is_the_sum_of_class_variances(rows, weight, ddof, weighted):
    target = np.where(np.arange(12) % 3 == 0, 1.0, -1.0)
    counts = weight.astype(int) if weighted else np.ones(12, dtype=int)
    fitted = WithinClass(ddof=ddof).fit(
        FactorGram.from_columns(rows), target=target, sample_weight=weight if weighted else None
    )
    for j in range(3):
        variance = sum(
            np.var(np.repeat(rows[target == sign, j], counts[target == sign]), ddof=ddof) for sign in (1, -1)
        )
        assert fitted.scale[j] == pytest.approx(1 / variance, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_within_class_of_any_kernel_is_the_variance_in_feature_space(rows, stack, weight, weighted):
    target = np.where(np.arange(12) < 5, 1.0, -1.0)
    counts = weight.astype(int) if weighted else np.ones(12, dtype=int)
    fitted = WithinClass().fit(
        gram_from_stack(stack), target=target, sample_weight=weight if weighted else None
    )
    expected = 0.0
    by_matrix = np.zeros(len(KERNELS))
    for sign in (1, -1):
        index = np.repeat(np.flatnonzero(target == sign), counts[target == sign])
        features = phi(rows)[index]
        expected += np.square(features - features.mean(axis=0)).sum() / len(index)
        block = stack[np.ix_(index, index)]
        by_matrix += np.einsum("iim->m", block) / len(index) - block.sum(axis=(0, 1)) / len(index) ** 2
    assert fitted.scale[1] == pytest.approx(1 / expected, rel=1e-11)
    np.testing.assert_allclose(fitted.scale, 1 / by_matrix, rtol=1e-11)


def test_within_class_scaling_gives_the_fisher_criterion_to_balanced_classes(rows):
    # P1, after (17): A_i = (l^2 / 4) (m_+ - m_-)^2 / (var_+ + var_-)
    target = np.where(np.arange(12) % 2 == 0, 1.0, -1.0)
    gram = FactorGram.from_columns(rows)
    A = WithinClass().fit(gram, target=target).scale * gram.quadratic_forms(target[None])
    plus, minus = rows[::2], rows[1::2]
    fisher = np.square(plus.mean(axis=0) - minus.mean(axis=0)) / (plus.var(axis=0) + minus.var(axis=0))
    np.testing.assert_allclose(A, 36.0 * fisher, rtol=1e-11)


def test_within_class_has_a_floor_for_features_that_are_constant_in_both_classes(rows):
    target = np.where(np.arange(12) < 5, 1.0, -1.0)
    X = np.column_stack([rows[:, 0], target])
    plain = WithinClass().fit(FactorGram.from_columns(X), target=target)
    assert plain.scale[1] == pytest.approx(1 / 1e-6, rel=1e-9)
    assert WithinClass(floor=0.5).fit(FactorGram.from_columns(X), target=target).scale[1] == pytest.approx(
        2.0
    )
    assert plain.scale[0] == pytest.approx(1 / (X[:5, 0].var() + X[5:, 0].var()), rel=1e-12)


def test_within_class_has_its_own_factors_for_every_class(rng):
    X = rng.normal(size=(30, 3)) * [1.0, 5.0, 0.2]
    y = np.repeat(["a", "b", "c"], 10)
    model = kw.MKLClassifier(kw.banks.linear_features(3), RLS2(alpha=0.1), normalize="within-class").fit(X, y)
    for k, name in enumerate("abc"):
        expected = 1 / (X[y == name].var(axis=0) + X[y != name].var(axis=0))
        np.testing.assert_allclose(model.normalizers_[k].scale, expected, rtol=1e-10)


@pytest.mark.parametrize("target", [None, np.ones(12), np.arange(12.0) - 5.5])
def test_within_class_needs_two_classes(stack, target):
    with pytest.raises(kw.InputError, match=r"two classes.*Use 'mean-diagonal'"):
        WithinClass().fit(gram_from_stack(stack), target=target)


@pytest.mark.parametrize("rule", [MeanDiagonal, Trace, FeatureNorm, WithinClass, Center, Cosine])
def test_a_kernel_of_zeros_gets_the_factor_one(stack, rule):
    with_zero = np.concatenate([stack, np.zeros((12, 12, 1))], axis=2)
    target = np.where(np.arange(12) < 5, 1.0, -1.0)
    fitted = rule().fit(FactorGram.from_columns(np.zeros((12, 1))), target=target)
    assert fitted.scale.tolist() == [1.0]
    # beside others too, where it never gets a weight
    factors = np.linalg.cholesky(np.moveaxis(with_zero, 2, 0) + 1e-9 * np.eye(12))
    held = FactorGram(np.concatenate([*(f.T for f in factors[:-1]), np.zeros((1, 12))]), np.r_[0:49:12, 49])
    normal = rule().fit(held, target=target)
    assert normal.scale[-1] == 1.0
    result = kw.solve_rls2(normal.prepare(held), target, 0.1, scale=normal.scale)
    assert result.weights[-1] == 0.0
    assert result.status is kw.solvers.Status.CONVERGED


# ---- changes of the kernel -------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", ["packed", "factors", "tiles"])
def test_centring_by_explicit_features(rng, rows, weight, weighted, form):
    new = rng.normal(size=(4, 3))
    polynomial = Polynomial(degree=2)
    K = polynomial(rows)
    gram = {
        "packed": lambda: gram_from_stack(K, reduce=False),
        "factors": lambda: FactorGram(np.ascontiguousarray(phi(rows).T), np.array([0, 10])),
        "tiles": lambda: TileGram(lambda m, r, c: K[r, c], np.diag(K)[None], 5),
    }[form]()
    p = (weight if weighted else np.ones(12)) / (weight.sum() if weighted else 12)
    fitted = Center().fit(gram, sample_weight=weight if weighted else None)
    centre = p @ phi(rows)
    train, test = phi(rows) - centre, phi(new) - centre
    np.testing.assert_allclose(fitted.prepare(gram).combine(np.ones(1)), train @ train.T, atol=1e-10)
    cross = fitted.cross(0, polynomial(new, rows), lambda: polynomial.diag(new))
    np.testing.assert_allclose(cross, test @ train.T, atol=1e-10)
    diagonal = fitted.cross_diagonal(0, polynomial(new, rows), polynomial.diag(new))
    np.testing.assert_allclose(diagonal, np.square(test).sum(axis=1), rtol=1e-10)
    # then mean diagonal one, in the same weights
    assert fitted.scale[0] * (p @ np.square(train).sum(axis=1)) == pytest.approx(1.0, rel=1e-12)
    assert np.abs(centre).max() > 0.1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", ["table", "bank"])
def test_transductive_centring_adds_the_distances_of_further_rows_from_the_centre(
    rng, rows, weight, weighted, form
):
    y, more = rng.normal(size=12), 3 * rng.normal(size=(5, 3))
    both = np.r_[rows, more]
    # one kernel with an explicit feature map in the source, and one without
    kernels = [Linear(), Polynomial(degree=2), Linear().on([1])]
    w = weight if weighted else np.ones(12)
    if form == "table":
        model = kw.MKLRegressor(kernels, RLS2(alpha=0.1), normalize=Center(extra=more))
        model.fit(rows, y, sample_weight=w)
    else:
        bank = kw.KernelBank(np.stack([k(both) for k in kernels], axis=-1))
        model = kw.MKLRegressor(bank, RLS2(alpha=0.1), normalize=Center(extra=np.arange(12, 17)[:, None]))
        model.fit(np.arange(12)[:, None], y, sample_weight=w)
    fitted = model.normalizers_[0]
    for m, features in enumerate((both, phi(both), both[:, 1:2])):
        distance = np.square(features - w @ features[:12] / w.sum()).sum(axis=1)
        mean = (w @ distance[:12] + distance[12:].sum()) / (w.sum() + 5)
        assert fitted.scale[m] * mean == pytest.approx(1.0, rel=1e-12)
        # the centre itself is that of the training rows
        np.testing.assert_allclose(
            fitted.center_means[m], features[:12] @ (w @ features[:12]) / w.sum(), rtol=1e-10
        )


def test_cosine_by_explicit_features(rng, rows):
    new = rng.normal(size=(4, 3))
    polynomial = Polynomial(degree=2)
    gram = gram_from_stack(polynomial(rows))
    fitted = Cosine().fit(gram)
    train, test = (phi(X) / np.linalg.norm(phi(X), axis=1, keepdims=True) for X in (rows, new))
    np.testing.assert_allclose(
        fitted.prepare(gram).combine(np.ones(1)), train @ train.T, rtol=1e-12, atol=1e-14
    )
    cross = fitted.cross(0, polynomial(new, rows), lambda: polynomial.diag(new))
    np.testing.assert_allclose(cross, test @ train.T, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(
        fitted.cross_diagonal(0, polynomial(new, rows), polynomial.diag(new)), np.ones(4)
    )
    assert fitted.scale.tolist() == [1.0]


def test_the_cosine_of_a_row_without_length_is_zero(rng):
    X = rng.normal(size=(8, 2))
    X[3] = 0.0
    gram = gram_from_stack(X @ X.T)
    fitted = Cosine().fit(gram)
    K = fitted.prepare(gram).combine(np.ones(1))
    assert not K[3].any()
    np.testing.assert_allclose(np.delete(np.diag(K), 3), 1.0, rtol=1e-14)
    new = np.zeros((1, 2))
    assert not fitted.cross(0, new @ X.T, lambda: np.zeros(1)).any()
    assert fitted.cross_diagonal(0, new @ X.T, np.zeros(1)).tolist() == [0.0]
    # of others no length matters
    small = 1e-9 * X
    np.testing.assert_allclose(
        fitted.cross(0, small @ X.T, lambda: np.square(small).sum(axis=1)), K, rtol=1e-12, atol=1e-14
    )
    ones = fitted.cross_diagonal(0, small @ X.T, np.square(small).sum(axis=1))
    assert ones.tolist() == [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]


def test_centring_a_constant_kernel_leaves_nothing(rng):
    X = np.c_[rng.normal(size=15), np.full(15, 0.1)]
    gram = FactorGram.from_columns(X)
    fitted = Center().fit(gram, sample_weight=rng.uniform(0.5, 1.5, 15))
    np.testing.assert_array_equal(fitted.constant, [False, True])
    prepared = fitted.prepare(gram)
    assert not prepared.combine(np.array([0.0, 1.0])).any()
    assert prepared.combine(np.array([1.0, 0.0])).any()
    assert not fitted.cross(1, np.full((3, 15), 0.5), lambda: np.ones(3)).any()
    assert not fitted.cross_diagonal(1, np.full((3, 15), 0.5), np.ones(3)).any()


@pytest.mark.parametrize("rule", [MeanDiagonal, Trace, FeatureNorm, WithinClass, Center, Cosine])
def test_statistics_take_a_weight_as_repetition(stack, weight, rule):
    target = np.where(np.arange(12) < 5, 1.0, -1.0)
    more, index = repeated(stack, weight)
    weighted = rule().fit(gram_from_stack(stack), target=target, sample_weight=weight)
    plain = rule().fit(gram_from_stack(more), target=target[index])
    np.testing.assert_allclose(weighted.scale, plain.scale, rtol=1e-11)
    w = np.ones(len(KERNELS))
    np.testing.assert_allclose(
        weighted.prepare(gram_from_stack(stack)).combine(w)[np.ix_(index, index)],
        plain.prepare(gram_from_stack(more)).combine(w),
        atol=1e-11,
    )


# ---- in the estimators -----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [MeanDiagonal, Trace, FeatureNorm])
@pytest.mark.parametrize("form", ["table", "bank"])
def test_transductive_rules_see_further_inputs(rng, rows, rule, form):
    y = rng.normal(size=12)
    more = rng.normal(size=(5, 3)) * 3
    both = np.r_[rows, more]
    diagonal = np.stack([k.diag(both) for k in KERNELS], axis=-1)
    if form == "table":
        model = kw.MKLRegressor(list(KERNELS), RLS2(alpha=0.1), normalize=rule(extra=more)).fit(rows, y)
    else:
        bank = kw.KernelBank(np.stack([k(both) for k in KERNELS], axis=-1))
        extra = np.arange(12, 17)[:, None]
        model = kw.MKLRegressor(bank, RLS2(alpha=0.1), normalize=rule(extra=extra)).fit(
            np.arange(12)[:, None], y
        )
    expected = 1 / (diagonal.mean(axis=0) if rule is MeanDiagonal else diagonal.sum(axis=0))
    np.testing.assert_allclose(model.normalizers_[0].scale, expected, rtol=1e-12)


def test_transductive_rules_need_diagonals(stack):
    model = kw.MKLRegressor("precomputed", RLS2(alpha=0.1), normalize=Trace(extra=np.ones((2, 3))))
    with pytest.raises(kw.InputError, match=r"Transductive.*kernels as objects or a KernelBank"):
        model.fit(stack, np.arange(12.0))


def test_alpha_keeps_its_meaning_when_rows_are_repeated_under_the_mean_diagonal(rng, rows):
    y = rng.normal(size=12)
    mean = kw.MKLRegressor(list(KERNELS), RLS2(alpha=0.1, tol=1e-10))
    twice = np.r_[rows, rows], np.r_[y, y]
    # twice the rows is twice the loss: the same as half the alpha
    half = kw.MKLRegressor(list(KERNELS), RLS2(alpha=0.05, tol=1e-10)).fit(rows, y)
    np.testing.assert_allclose(mean.fit(*twice).predict(rows), half.predict(rows), atol=1e-4)
    # under the unit trace the kernels shrink as well, and nothing changes
    trace = {"normalize": "trace"}
    one = kw.MKLRegressor(list(KERNELS), RLS2(alpha=0.1, tol=1e-10), **trace).fit(rows, y)
    two = kw.MKLRegressor(list(KERNELS), RLS2(alpha=0.1, tol=1e-10), **trace).fit(*twice)
    np.testing.assert_allclose(two.predict(rows), one.predict(rows), atol=1e-4)
    assert np.abs(half.predict(rows) - one.predict(rows)).max() > 1e-3


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        (None, "NoNormalizer"),
        ("none", "NoNormalizer"),
        ("mean-diagonal", "MeanDiagonal"),
        ("trace", "Trace"),
        ("norm", "FeatureNorm"),
        ("within-class", "WithinClass"),
        ("center", "Center"),
        ("cosine", "Cosine"),
    ],
)
def test_names(name, rule):
    assert type(resolve(name)).__name__ == rule


def test_objects_pass_and_show_their_settings():
    rule = WithinClass(ddof=1)
    assert resolve(rule) is rule
    assert rule.get_params() == {"ddof": 1, "floor": 1e-6}
    with pytest.raises(AttributeError):
        rule.ddof = 0


@pytest.mark.parametrize("name", ["mean-diagonal", "trace", "norm", "cosine", "center", "within-class"])
def test_objects_are_cloned_and_go_through_cross_validation(name):
    X, y = load_iris(return_X_y=True)
    model = kw.MKLClassifier([kw.kernels.Linear()], "uniform", normalize=type(resolve(name))())
    assert type(clone(model).normalize) is type(model.normalize)
    scores = cross_val_score(model, X, y, cv=2)
    np.testing.assert_allclose(scores, cross_val_score(clone(model).set_params(normalize=name), X, y, cv=2))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["none", "cosine", "center", "both"])
def test_products_with_new_rows_have_every_other_form(rng, rows, weight, name, weighted):
    """Through features of rows, dense or sparse, and through coefficients of the raw kernel."""
    m, new, C = 1, rng.normal(size=(5, 3)), rng.normal(size=(12, 2))
    raw = np.stack([Linear()(rows), Polynomial(degree=2)(rows)], axis=-1)
    w = weight if weighted else None
    fitted = resolve("cosine" if name == "both" else name).fit(gram_from_stack(raw), sample_weight=w)
    if name == "both":
        middle = fitted.prepare(gram_from_stack(raw))
        centred = Center().fit(middle, sample_weight=w)
        fitted = replace(centred, cosine_scale=fitted.cosine_scale)
    own = np.square(phi(new)).sum(axis=1)
    wanted = fitted.cross(m, phi(new) @ phi(rows).T, lambda: own) @ C
    # by hand: features of length one, less their weighted mean
    short = (
        (lambda A: A / np.linalg.norm(A, axis=1, keepdims=True))
        if fitted.cosine_scale is not None
        else np.array
    )
    p = (weight / weight.sum()) if weighted else np.full(12, 1 / 12)
    mean = p @ short(phi(rows)) if name in ("center", "both") else np.zeros(10)
    hand = (short(phi(new)) - mean) @ (short(phi(rows)) - mean).T @ C
    np.testing.assert_allclose(wanted, hand, atol=1e-10 * np.abs(hand).max())
    for form in (np.asarray, sparse.csr_array):
        coef, found = fitted.through_features(m, form(phi(rows)), C)
        assert (found is None) == (name in ("none", "cosine"))
        np.testing.assert_allclose(
            (short(phi(new)) - (0 if found is None else found)) @ coef, hand, atol=1e-10 * np.abs(hand).max()
        )
    D, t = fitted.raw_coefficients(m, C)
    r = fitted.row_factors(own)
    np.testing.assert_allclose(
        r[:, None] * (phi(new) @ phi(rows).T @ D) + t, hand, atol=1e-9 * np.abs(hand).max()
    )
    # of coefficients that add up to zero no other row gets one
    D, t = fitted.raw_coefficients(m, np.eye(12)[:, :1] - np.eye(12)[:, 1:2] + 0.0)
    assert np.count_nonzero(D) == 2


def test_kernels_that_are_left_out_are_zero_beside_those_that_were(rng, rows, stack):
    gram = gram_from_stack(stack)
    for rule in (MeanDiagonal(), Cosine(), Center()):
        fitted = rule.fit(gram)
        first = fitted.without(np.array([True, False, False, False]))
        both = first.without(np.array([False, False, True, False]))
        np.testing.assert_array_equal(first.constant, [True, False, False, False])
        np.testing.assert_array_equal(both.constant, [True, False, True, False])
        assert fitted.constant is None or not fitted.constant.any()
        K = both.prepare(gram)
        kept = fitted.prepare(gram)
        for m in range(4):
            zero = m in (0, 2)
            np.testing.assert_array_equal(
                K.combine(np.eye(4)[m]), 0.0 if zero else kept.combine(np.eye(4)[m])
            )
            cross, own = stack[:3, :, m], np.diag(stack[:, :, m])[:3]
            for found, wanted in (
                (both.cross(m, cross, lambda own=own: own), fitted.cross(m, cross, lambda own=own: own)),
                (both.cross_diagonal(m, cross, own), fitted.cross_diagonal(m, cross, own)),
            ):
                np.testing.assert_array_equal(found, 0.0 * wanted if zero else wanted)


def test_rules_without_further_inputs_and_the_original_rows_stay_as_they_are(rng, stack):
    for rule in (Trace(np.ones((2, 3))), MeanDiagonal(np.ones((2, 3))), Center(np.ones((2, 3)))):
        assert rule.transductive is rule.extra
        assert rule.without_extra().extra is None
        assert type(rule.without_extra()) is type(rule)
    assert WithinClass(ddof=1, floor=0.1).get_params() == {"ddof": 1, "floor": 0.1}
    assert WithinClass.per_target
    assert not Trace.per_target
    for rule in ("cosine", "center"):
        gram = gram_from_stack(stack)
        before = np.stack([gram.combine(one) for one in np.eye(4)])
        resolve(rule).fit(gram).prepare(gram)
        np.testing.assert_array_equal(np.stack([gram.combine(one) for one in np.eye(4)]), before)


@pytest.mark.parametrize(
    "rule",
    [
        kw.normalizers.NoNormalizer(),
        MeanDiagonal(),
        Trace(),
        FeatureNorm(),
        WithinClass(ddof=1, floor=0.3),
        Center(),
        Cosine(),
    ],
    ids=lambda one: one.name,
)
def test_all_that_a_rule_makes_of_kernels(rule, recorded):
    """Statistics and every product with new rows, of weights that are not equal and of a kernel that vanishes."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(7, 2)), np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0])
    stack = np.stack([X @ X.T, (X @ X.T + 1.0) ** 2, np.zeros((7, 7))], axis=-1)
    gram, target = gram_from_stack(stack), np.array([-1.0, 1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
    extra = {
        "extra_diagonal": np.array([[1.0, 2.0], [0.5, 0.25], [0.0, 0.0]]),
        "extra_means": lambda p: np.outer([0.1, 0.2, 0.0], [1.0, p[0]]),
    }
    fits = {
        "plain": rule.fit(gram, target=target),
        "weights": rule.fit(gram, target=target, sample_weight=weight),
        "extra": rule.fit(gram, target=target, sample_weight=weight, **extra),
    }
    new, C = rng.normal(size=(3, 2)), rng.normal(size=(7, 2))
    cross = [new @ X.T, (new @ X.T + 1.0) ** 2, np.zeros((3, 7))]
    own = [np.sum(new * new, axis=1), (np.sum(new * new, axis=1) + 1.0) ** 2, np.zeros(3)]
    for name, fitted in fits.items():
        found = {
            key: value
            for key, value in vars(fitted).items()
            if value is None or isinstance(value, np.ndarray)
        }
        prepared = fitted.prepare(gram_from_stack(stack))
        found["prepared"] = [prepared.combine(np.eye(3)[m]) for m in range(3)]
        for m in range(3):
            found[f"cross {m}"] = fitted.cross(m, cross[m].copy(), lambda m=m: own[m])
            found[f"diagonal {m}"] = fitted.cross_diagonal(m, cross[m].copy(), own[m].copy())
            found[f"coefficients {m}"] = list(fitted.raw_coefficients(m, C.copy()))
            found[f"factors {m}"] = fitted.row_factors(own[m])
        found["features"] = list(fitted.through_features(0, X, C))
        found["without"] = fitted.without(np.array([True, False, False])).scale
        recorded(name, found)
    recorded("settings", {name: repr(value) for name, value in rule.get_params().items()})
    assert rule.transductive is None


def test_names_of_rules_and_what_they_refuse():
    assert resolve(None).name == "none"
    assert [resolve(name).name for name in kw.normalizers.NORMALIZERS] == [
        "none",
        "mean-diagonal",
        "trace",
        "norm",
        "within-class",
        "center",
        "cosine",
    ]
    for wrong, said in (
        (3, "must be a name, None or a Normalizer, got 3"),
        ("centre", "Unknown normalizer 'centre'. Did you mean 'center'"),
    ):
        with pytest.raises(kw.InputError, match=said):
            resolve(wrong)
    for options, said in (
        ({"ddof": 2}, "`ddof` of WithinClass must be 0 or 1, got 2"),
        ({"floor": 1.0}, "`floor` of WithinClass must be a number >= 0 and < 1"),
    ):
        with pytest.raises(kw.InputError, match=said):
            WithinClass(**options)
    assert Center(extra=np.eye(2)).transductive.shape == (2, 2)
    assert Center(extra=np.eye(2)).without_extra().transductive is None
    assert (WithinClass.per_target, Center.per_target, MeanDiagonal.mean, Trace.mean) == (
        True,
        False,
        True,
        False,
    )
