"""Bad input: the exception, and a message that says what was expected, what came and what to do.

Modules: `_checks`.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import kernelweave as kw
from kernelweave.kernels import RBF, Linear, parse
from kernelweave.learners import RLS2
from recording import outcome, told

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = X[:, 0] + np.sin(X[:, 1])
SIGNS = Y > 0
INDEX = np.arange(20)[:, None]
FRAME = pd.DataFrame(X, columns=["age", "bmi", "dose"])
STACK = np.stack([RBF(gamma=1.0)(X), X @ X.T], axis=-1)
DISTANCE = np.sqrt(np.square(X[:, None] - X[None]).sum(axis=2))
CROOKED = STACK + 0.1 * np.triu(np.ones((20, 20)))[:, :, None]
# unit diagonal, entries below one, and yet negative eigenvalues
INDEFINITE = np.where(np.eye(20) > 0, 1.0, 0.8 * np.sign(np.add.outer(X[:, 0], X[:, 0])))


def put(array, value, *where):
    changed = np.array(array, dtype=float)
    changed[where] = value
    return changed


def reg(**options):
    return kw.MKLRegressor(**options)


def cls(**options):
    return kw.MKLClassifier(**options)


def cv(**options):
    return kw.MKLRegressorCV(**{"n_alphas": 4, "cv": 3, **options})


def pre():
    return kw.MKLRegressor("precomputed", RLS2(alpha=0.1))


def bank(stack=STACK):
    return kw.MKLRegressor(kw.KernelBank(stack), RLS2(alpha=0.1))


def rls2(**options):
    return reg(learner=RLS2(**options))


#: name: (estimator, X, y, fit parameters, exception, words of the message in their order)
FITS = {
    # values
    "NaN": (reg(), put(X, np.nan, 3, 1), Y, {}, kw.InputError, "finite.*NaN.*column 1.*1 of 20.*[Ii]mpute"),
    "NaN in a frame": (reg(), FRAME.where(X < 1), Y, {}, kw.InputError, "NaN.*'age'.*Impute"),
    "infinity": (reg(), put(X, np.inf, 2, 0), Y, {}, kw.InputError, "finite.*infinity in column 0.*Impute"),
    "NaN in y": (reg(), X, put(Y, np.nan, 4), {}, kw.InputError, "`y`.*finite.*1 NaN.*drop"),
    "NaN in labels": (cls(), X, put(SIGNS, np.nan, 4), {}, kw.InputError, "`y`.*finite.*1 NaN.*drop"),
    "infinity in y": (cv(), X, put(Y, -np.inf, 4), {}, kw.InputError, "`y`.*1 infinity.*drop"),
    "missing label": (cls(), X, np.array(["a", "b"] * 9 + ["a", None], dtype=object), {}, kw.InputError,
        "label for every row.*1 missing.*row 19.*[Dd]rop"),
    "text in y": (reg(), X, np.array(["a", "b"] * 10), {}, kw.InputError, "`y`.*numeric.*text.*MKLClassifier"),
    "text objects in y": (cv(), X, np.array(["a", "b"] * 10, dtype=object), {}, kw.InputError, "numbers.*got text"),
    "numbers for classes": (cls(), X, Y, {}, ValueError, "continuous"),
    "complex": (reg(), X * 1j, Y, {}, ValueError, "Complex data not supported"),
    "sparse": (
        reg(kernels=[RBF()], standardize=True), sparse.csr_array(X), Y, {}, kw.InputError, 
        "Sparse.*standardised.*toarray"
    ),
    "NaN in sparse rows": (
        reg(), sparse.csr_array(put(X, np.nan, 3, 1)), Y, {}, kw.InputError, "NaN.*column 1.*1 of 20 rows.*Impute"
    ),
    "dates and text": (reg(), FRAME.assign(day=[*pd.date_range("2020", periods=19), "soon"]), Y, {}, kw.InputError,
        "'day'.*dates only, got 'soon'.*Convert"),
    # shapes
    "one class": (cls(), X, np.zeros(20), {}, kw.InputError, r"at least two classes, got one class: 0\.0\. Check"),
    "one class by weight": (cls(), X, SIGNS, {"sample_weight": SIGNS}, kw.InputError, "one class: True.*weights"),
    "one row": (cls(), X[:1], SIGNS[:1], {}, kw.InputError, "at least two classes"),
    "one row, folds": (cv(), X[:1], Y[:1], {}, kw.InputError, "`cv` cannot split these 1 rows"),
    "no rows": (reg(), X[:0], Y[:0], {}, kw.InputError, "0 sample.*minimum of 1.*Pass"),
    "no columns": (reg(), X[:, :0], Y, {}, kw.InputError, "0 feature.*minimum of 1.*Pass"),
    "one dimension": (reg(), Y, Y, {}, kw.InputError, r"2D array, got 1D.*reshape\(-1, 1\)"),
    "nothing": (reg(), None, Y, {}, ValueError, "2D"),
    "no target": (reg(), X, None, {}, ValueError, "requires y.*None"),
    "short target": (reg(), X, Y[:5], {}, kw.InputError, r"inconsistent.*\[20, 5\]"),
    "short labels": (cls(), X, SIGNS[:5], {}, kw.InputError, r"inconsistent.*\[20, 5\]"),
    "deep target": (reg(), X, np.zeros((20, 1, 1)), {}, ValueError, "dim 3.*<= 2"),
    "two columns of labels": (cls(), X, np.c_[SIGNS, 3 * SIGNS], {}, ValueError, "0 and 1 in each.*1d array"),
    # names
    "unknown column": (reg(kernels=[RBF(gamma=1.0).on(["agee"])]), FRAME, Y, {}, kw.InputError,
        "Unknown column 'agee'.*Did you mean 'age'.*Known.*'bmi'"),
    "name without names": (reg(kernels=[Linear().on(["age"])]), X, Y, {}, kw.InputError, "no names.*data frame"),
    "column out of range": (reg(kernels=[Linear().on([5])]), X, Y, {}, kw.InputError, "Column 5.*3 columns.*Use"),
    "kernels by name": (reg(kernels="rbf"), X, Y, {}, kw.InputError, "list of kernels.*'rbf'.*kw.kernels.RBF"),
    "kernel by name": (reg(kernels=["rbf"]), X, Y, {}, kw.InputError, r"`kernels\[0\]`.*RBF.*'rbf'.*Custom"),
    "kernel class": (reg(kernels=[RBF]), X, Y, {}, kw.InputError, r"`kernels\[0\]` must be a kernel.*RBF\(gamma"),
    "kernels a number": (reg(kernels=5), X, Y, {}, kw.InputError, "list of kernels.*got 5"),
    "no views": (reg(), {}, Y, {}, kw.InputError, "with at least one; got {}"),
    "empty kernel list": (reg(kernels=[]), X, Y, {}, kw.InputError, "at least one kernel.*empty.*None"),
    "unknown learner": (reg(learner="rsl2"), X, Y, {}, kw.InputError, "Unknown learner.*mean 'rls2'.*Known"),
    "learner class": (reg(learner=RLS2), X, Y, {}, kw.InputError, "`learner`.*'rls2'.*or a learner, got"),
    "unknown normaliser": (reg(normalize="trce"), X, Y, {}, kw.InputError, "normalizer 'trce'.*mean 'trace'.*Known"),
    "normaliser a number": (reg(normalize=3), X, Y, {}, kw.InputError, "`normalize`.*name.*got 3"),
    "classes of numbers": (reg(normalize="within-class"), X, Y, {}, kw.InputError, "two classes.*regression.*Use"),
    "classes of outputs": (reg(normalize="within-class"), X, np.c_[Y, Y], {}, kw.InputError, "two classes.*Use"),
    "unknown solver": (rls2(solver="newtn"), X, Y, {}, kw.InputError, "`solver` must.*'newtn'. Did you mean 'newton'"),
    # numbers
    "alpha zero": (rls2(alpha=0), X, Y, {}, kw.InputError, "`alpha` must be .*> 0.*inf.*got 0"),
    "alpha negative": (rls2(alpha=-1.5), X, Y, {}, kw.InputError, "`alpha` must be .*> 0.*got -1.5"),
    "alpha NaN": (rls2(alpha=np.nan), X, Y, {}, kw.InputError, "`alpha` must be .*> 0.*got nan"),
    "alpha text": (rls2(alpha="small"), X, Y, {}, kw.InputError, "'auto' or a number > 0.*, got 'small'"),
    "alpha None": (rls2(alpha=None), X, Y, {}, kw.InputError, "`alpha`.*number > 0.*None"),
    "alpha tiny": (rls2(alpha=1e-30), X, Y, {}, kw.InputError, "1e-30 is too small.*trace.*Raise alpha"),
    "tol zero": (rls2(tol=0), X, Y, {}, kw.InputError, "`tol` must.*> 0 and < 1, got 0. It is a relative gap"),
    "tol text": (rls2(tol="fine"), X, Y, {}, kw.InputError, "`tol`.*< 1, got 'fine'"),
    "max_iter zero": (rls2(alpha=1.0, max_iter=0), X, Y, {}, kw.InputError, "`max_iter`.*>= 1 or None, got 0"),
    "one fold": (rls2(n_folds=1), X, Y, {}, kw.InputError, "`n_folds`.*>= 2, got 1"),
    "half an alpha": (rls2(n_alphas=2.5), X, Y, {}, kw.InputError, "`n_alphas`.*whole number.*2.5"),
    "delta": (rls2(alpha=1.0, solver="alternating", delta=-1), X, Y, {}, kw.InputError, "`delta`.*got -1.*residual"),
    "standardize": (reg(standardize="yes"), X, Y, {}, kw.InputError, "True or False or 'auto', got 'yes'"),
    "fit_intercept": (reg(fit_intercept="no"), X, Y, {}, kw.InputError, "True or False, got 'no'"),
    "memory in words": (reg(max_memory="lots"), X, Y, {}, kw.InputError, "bytes.*'2GB'.*got 'lots'"),
    "no memory": (reg(max_memory=0), X, Y, {}, kw.InputError, "positive.*got 0"),
    "negative memory": (reg(max_memory="-1GB"), X, Y, {}, kw.InputError, "positive.*got '-1GB'"),
    "list of memories": (reg(max_memory=[1]), X, Y, {}, kw.InputError, r"bytes.*got \[1\]"),
    # weights
    "few weights": (reg(), X, Y, {"sample_weight": np.ones(3)}, kw.InputError, r"\(20,\), got \(3,\)"),
    "column of weights": (reg(), X, Y, {"sample_weight": np.ones((20, 1))}, kw.InputError, r"1D.*\(20, 1\)"),
    "negative weight": (reg(), X, Y, {"sample_weight": -np.ones(20)}, kw.InputError, "negative.*weight 0"),
    "zero weights": (reg(), X, Y, {"sample_weight": np.zeros(20)}, kw.InputError, "leave at least one row.*zeros"),
    "NaN weights": (reg(), X, Y, {"sample_weight": np.full(20, np.nan)}, kw.InputError, "`sample_weight`.*20 NaN"),
    "text weights": (reg(), X, Y, {"sample_weight": ["a"] * 20}, kw.InputError, "`sample_weight`.*numbers, got text"),
    "class_weight": (cls(class_weight="bal"), X, SIGNS, {}, ValueError, "class_weight.*'balanced'.*'bal'"),
    "foreign class": (cls(class_weight={"q": 1}), X, SIGNS, {}, ValueError, "not in class_weight"),
    "negative class": (cls(class_weight={False: -1, True: 1}), X, SIGNS, {}, kw.InputError, "> 0.*-1.*drop"),
    "class of weight 0": (cls(class_weight={False: 0, True: 1}), X, SIGNS, {}, kw.InputError, "> 0.*drop its rows"),
    "class of weight NaN": (cls(class_weight={False: np.nan, True: 1}), X, SIGNS, {}, kw.InputError, "finite"),
    # cross-validation
    "alphas with zero": (cv(alphas=[1.0, 0.0]), X, Y, {}, kw.InputError, "`alphas`.*> 0.*got 0.0"),
    "no alphas": (cv(alphas=[]), X, Y, {}, kw.InputError, "`alphas`.*non-empty"),
    "no n_alphas": (cv(n_alphas=0), X, Y, {}, kw.InputError, "`n_alphas`.*>= 1, got 0"),
    "unknown rule": (cv(rule="max"), X, Y, {}, kw.InputError, "`rule` must be 'min' or '1se', got 'max'"),
    "unknown score": (cv(scoring="r3"), X, Y, {}, kw.InputError, "Unknown scoring 'r3'.*Known.*'accuracy'"),
    "one split": (cv(cv=1), X, Y, {}, ValueError, "`cv` must be a whole number >= 2, got 1"),
    "many splits": (cv(cv=50), X, Y, {}, kw.InputError, "`cv` cannot split these 20 rows"),
    "no splitter": (cv(cv="five"), X, Y, {}, ValueError, "`cv` must be a whole number >= 2, got 'five'"),
    "rows that are not there": (cv(cv=[([0, 1], [100])]), X, Y, {}, kw.InputError, "`cv`.*there are 20.*100"),
    "unknown metadata": (cv(), X, Y, {"group": 1}, TypeError, "unexpected keyword argument 'group'"),
    # precomputed kernels
    "not symmetric": (pre(), CROOKED, Y, {}, kw.InputError, "Kernel 0 must be symmetric.*0.1.*K\\(X_train"),
    "indefinite": (pre(), INDEFINITE, Y, {}, kw.NotPSDError, "positive semidefinite.*eigenvalues from -.*repair_gram"),
    "indefinite, auto": (kw.MKLRegressor("precomputed"), INDEFINITE, Y, {}, kw.NotPSDError, "semidefinite.*repair"),
    "distances": (pre(), DISTANCE, Y, {}, kw.NotPSDError, r"distance matrix.*similarities.*np\.exp"),
    "minus squared distances": (pre(), -(DISTANCE**2), Y, {}, kw.NotPSDError, "distance matrix.*convert"),
    "negative diagonal": (pre(), STACK - 3 * np.eye(20)[:, :, None], Y, {}, kw.NotPSDError, "negative diagonal.*Check"),
    "entry above the diagonal": (pre(), put(np.eye(20), 2.0, [3, 5], [5, 3]), Y, {}, kw.NotPSDError,
        "entry of size 2.*diagonal.*Check"),
    "NaN in a kernel": (pre(), put(STACK, np.nan, [3, 5], [5, 3]), Y, {}, kw.InputError, "finite.*NaN.*Check"),
    "text in a kernel": (pre(), STACK.astype(object) + 1j, Y, {}, kw.InputError, "must be an array of real numbers"),
    "kernels first": (pre(), np.moveaxis(STACK, 2, 0), Y, {}, kw.InputError, r"kernels last.*\(2, 20, 20\).*moveaxis"),
    "cross-Gram in fit": (pre(), STACK[:, :10], Y, {}, kw.InputError, r"\(20, 10, 2\).*belongs in predict"),
    "flat cross-Gram in fit": (pre(), STACK[:, :10, 0], Y, {}, kw.InputError, r"square.*\(20, 10\).*X_train"),
    "rows of a bank": (bank(), X, Y, {}, kw.InputError, r"one column of sample indices.*\(20, 3\).*arange"),
    "index too large": (bank(), INDEX + 1, Y, {}, kw.InputError, "from 0 to 19, got.*20"),
    "negative index": (bank(), INDEX - 1, Y, {}, kw.InputError, "from 0 to 19, got.*-1"),
    "half an index": (bank(), INDEX + 0.5, Y, {}, kw.InputError, "whole numbers from 0 to 19"),
    "text index": (bank(), [["a"]] * 20, Y, {}, kw.InputError, "`X` must be.*, got text"),
    "no index": (bank(), INDEX[:0], Y, {}, kw.InputError, "at least one sample index"),
    "crooked bank": (bank(CROOKED), INDEX, Y, {}, kw.InputError, "must be symmetric"),
    "distances in a bank": (bank(DISTANCE[:, :, None]), INDEX, Y, {}, kw.NotPSDError, "distance matrix"),
    "overflow": (kw.MKLRegressor(RBF(gamma=1.0) * Linear(), RLS2(alpha=1.0)), X * 1e160, Y, {}, kw.InputError,
        "`X` must not exceed 1e.100 in size, got .*Divide"),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_fit_refuses(name):
    model, rows, y, params, error, words = FITS[name]
    with pytest.raises(error, match=f"(?s){words}") as caught:
        model.fit(rows, y, **params)
    assert len(str(caught.value)) < 3000
    # nothing is half fitted
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError):
        model.predict(rows)


FITTED = {
    "array": reg(learner=RLS2(alpha=0.1)).fit(X, Y),
    "frame": reg(learner=RLS2(alpha=0.1)).fit(FRAME, Y),
    "stack": pre().fit(STACK, Y),
    "bank": bank().fit(INDEX, Y),
    "linear": reg(kernels=kw.banks.linear_features(3), learner=RLS2(alpha=0.1)).fit(X, Y),
}

#: name: (fitted model, rows to predict, exception, words)
PREDICTIONS = {
    "few columns": ("array", X[:, :2], ValueError, "2 features.*expecting 3"),
    "few columns, linear": ("linear", X[:, :2], ValueError, "2 features.*expecting 3"),
    "missing column": ("frame", FRAME[["age", "bmi"]], ValueError, "now missing:.*dose"),
    "renamed column": (
        "frame",
        FRAME.rename(columns={"age": "years"}),
        ValueError,
        "unseen.*years.*missing.*age",
    ),
    "other order": ("frame", FRAME[["bmi", "age", "dose"]], ValueError, "same order"),
    "text in a number": (
        "frame",
        FRAME.assign(age="old"),
        kw.InputError,
        "'age' was numeric.*'old' in row 0.*Pass",
    ),
    "NaN": ("array", put(X, np.nan, 0, 0), kw.InputError, "finite.*column 0.*Impute"),
    "infinity, linear": ("linear", put(X, np.inf, 0, 0), kw.InputError, "infinity in column 0"),
    "one row flat": ("array", X[0], ValueError, r"2D.*reshape\(1, -1\)"),
    "no rows": ("array", X[:0], ValueError, "0 sample"),
    "few training columns": (
        "stack",
        STACK[:3, :5],
        kw.InputError,
        r"n_train=20, n_kernels=2\), got \(3, 5, 2\)",
    ),
    "few kernels": ("stack", STACK[:3, :, :1], kw.InputError, r"n_kernels=2\), got \(3, 20, 1\)"),
    "flat stack": (
        "stack",
        STACK[:3, :, 0],
        kw.InputError,
        r"n_kernels=2\), got \(3, 20\).*training samples",
    ),
    "NaN in a cross-Gram": ("stack", put(STACK, np.nan, 0, 0), kw.InputError, "finite, got 2 NaN"),
    "text in a cross-Gram": ("stack", [["a"]], kw.InputError, "real numbers"),
    "empty cross-Gram": ("stack", STACK[:0], kw.InputError, "at least one"),
    "index outside": ("bank", [[99]], kw.InputError, "0 to 19, got values from 99"),
    "no index": ("bank", INDEX[:0], kw.InputError, "at least one"),
}


@pytest.mark.parametrize("name", PREDICTIONS)
@pytest.mark.parametrize("method", ["predict", "kernel_contributions"])
def test_predict_refuses_and_the_model_survives(name, method):
    which, rows, error, words = PREDICTIONS[name]
    model = FITTED[which]
    good = {"array": X, "frame": FRAME, "stack": STACK, "bank": INDEX, "linear": X}[which]
    before = model.predict(good)
    with pytest.raises(error, match=f"(?s){words}"):
        getattr(model, method)(rows)
    np.testing.assert_array_equal(model.predict(good), before)
    assert np.ptp(before) > 0


def test_names_that_are_missing_at_predict_time_are_remarked():
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        FITTED["frame"].predict(X)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: kw.KernelBank(STACK[:, :, 0]), kw.InputError, r"kernels last, got \(20, 20\)"),
        (lambda: kw.KernelBank(STACK[:, :5]), kw.InputError, r"kernels last, got \(20, 5, 2\)"),
        (lambda: kw.KernelBank("text"), kw.InputError, "must be an array of real numbers"),
        (lambda: kw.KernelBank(STACK, names=["a"]), kw.InputError, "n_kernels=2.*got 1"),
        (lambda: RBF(gamma=-1), kw.InputError, "`gamma` of RBF.*> 0, .*, got -1"),
        (lambda: parse("rbff(gamma=1)"), kw.InputError, "Unknown kernel 'rbff'.*mean 'rbf'.*Known"),
        (lambda: kw.banks.get("rls3", 3), kw.InputError, "Unknown bank 'rls3'.*mean 'rls2'.*Known"),
        (lambda: kw.solve_rls2(STACK, Y, 0.0), kw.InputError, "`alpha` must be .*> 0.*got 0.0"),
        (lambda: kw.solve_rls2(DISTANCE, Y, 1.0), kw.NotPSDError, "distance matrix"),
        (lambda: kw.solve_rls2(CROOKED, Y, 1.0), kw.InputError, "symmetric"),
        (lambda: kw.solve_rls2(INDEFINITE, Y, 0.1), kw.NotPSDError, "semidefinite.*eigenvalues"),
        (lambda: kw.rls2_path(STACK, Y[:3]), kw.InputError, "n_samples=20.*got 3 rows"),
        (lambda: kw.rls2_path(STACK, Y, [1.0, -1.0]), kw.InputError, "`alphas`.*> 0.*-1"),
        (lambda: kw.rls2_path(STACK, SIGNS.astype(str)), kw.InputError, "`y` must be .*numbers.*got text"),
        (lambda: kw.load("no/such/file.skops"), FileNotFoundError, "no model file.*file.skops"),
    ],
)
def test_functions_refuse(call, error, words):
    with pytest.raises(error, match=f"(?s){words}"):
        call()


def test_the_test_matrix_is_really_indefinite():
    assert np.linalg.eigvalsh(INDEFINITE)[0] < -1
    assert np.abs(INDEFINITE).max() == 1.0


# ---- strange, but meaningful -----------------------------------------------------------------------


@pytest.mark.parametrize("model", [reg(), cv()], ids=["auto", "folds"])
def test_a_constant_target_is_predicted(model):
    fitted = model.fit(X, np.full(20, 3.0))
    np.testing.assert_array_equal(fitted.predict(X + 1), np.full(20, 3.0))
    assert fitted.objective_ == fitted.gap_ == 0.0
    assert not fitted.predict(X, return_std=True)[1].any()


def test_one_row_is_its_own_mean():
    assert reg().fit(X[:1], [2.5]).predict(X[:3]) == pytest.approx([2.5] * 3)


@pytest.mark.parametrize("kernels", [None, kw.banks.linear_features(4)], ids=["default", "linear"])
@pytest.mark.parametrize("normalize", ["mean-diagonal", "center", "cosine", "trace"])
def test_a_constant_column_changes_nothing_it_should_not(kernels, normalize):
    with_constant = np.c_[X, np.full(20, 7.0)]
    options = {"learner": RLS2(alpha=0.1), "normalize": normalize, "standardize": True}
    model = reg(kernels=kernels, **options).fit(with_constant, Y)
    plain = reg(kernels=None if kernels is None else kernels[:3], **options).fit(X, Y)
    assert np.isfinite(model.predict(with_constant)).all()
    # under the cosine a constant column is a kernel of ones, which is a bias
    if kernels is not None and normalize != "cosine":
        np.testing.assert_allclose(model.predict(with_constant), plain.predict(X), atol=1e-9)
        assert model.weights_[3] == 0.0


@pytest.mark.parametrize("kernels", [None, kw.banks.linear_features(2)], ids=["default", "linear"])
@pytest.mark.parametrize("alpha", [0.1, "auto"])
@pytest.mark.parametrize("normalize", ["mean-diagonal", "center", "cosine", "trace", "norm"])
def test_only_constant_columns_predict_the_mean(normalize, alpha, kernels):
    constant = np.full((20, 2), 4.0)
    model = reg(kernels=kernels, normalize=normalize, learner=RLS2(alpha=alpha)).fit(constant, Y)
    # a kernel that is constant on all rows can only add a constant, which is zero by symmetry
    np.testing.assert_allclose(model.predict(constant), np.full(20, Y.mean()), atol=1e-9)


def test_duplicate_columns_share_a_weight():
    twice = np.c_[X, X]
    options = {"learner": RLS2(alpha=0.1, tol=1e-12)}
    model = reg(kernels=kw.banks.linear_features(6), **options).fit(twice, Y)
    plain = reg(kernels=kw.banks.linear_features(3), **options).fit(X, Y)
    np.testing.assert_allclose(model.weights_[:3] + model.weights_[3:], plain.weights_, atol=1e-6)
    np.testing.assert_allclose(model.predict(twice), plain.predict(X), atol=1e-6)
    assert model.objective_ == pytest.approx(plain.objective_, rel=1e-10)


def test_arrays_are_read_as_their_rules_say(recorded):
    from kernelweave import _checks

    values = [
        [1.0, 2.0],
        [0.0, 1.0],
        [-1.0, 1.0],
        2.0,
        [[1.0, 2.0]],
        [[[1.0]]],
        [],
        [np.nan, 1.0],
        [np.inf, 1.0],
        [1e101],
        [1e-101, 1.0],
        ["1", "2"],
        ["a"],
        None,
        [True, False],
        [1 + 0j],
        [None, 1.0],
        [[1.0], [1.0, 2.0]],
        [0.0],
        "1.5",
        {"a": 1},
        range(3),
        [1e-60],
        [-np.inf],
    ]
    rules = {
        "floats": _checks.Floats(),
        "columns": _checks.Floats((1, 2)),
        "at least": _checks.Floats(least=0.0),
        "above": _checks.Floats(above=0.0),
        "smallest": _checks.Floats(smallest=1e-50, remedy="Do."),
        "not finite": _checks.Floats(finite=False),
        "any size": _checks.Floats(finite=False, largest=np.inf),
        "named": _checks.Floats(least=1.0, what="counts"),
        "alphas": _checks.Alphas(),
        "costs": _checks.COSTS,
        "table": _checks.Alphas(table=True),
    }
    for name, rule in rules.items():
        recorded(
            name, [rule.words(), [told(outcome(_checks.check_value, rule, "values", one)) for one in values]]
        )
    K = np.array([[2.0, 1.0], [1.0, 2.0]])
    stacks = {
        "matrix": K,
        "stack": np.dstack([K, K]),
        "first": np.array([K, K, K]),
        "cross": K[:, :1],
        "empty": np.zeros((0, 0, 1)),
        "nan": np.dstack([K, K * np.nan]),
        "distance": 1.0 - np.eye(2),
        "negative": -K,
        "large": K * 1e200,
        "small": K * 1e-200,
        "zero": K * 0,
        "vector": K[0],
        "text": [["a"]],
        "infinite": np.where(np.eye(2) > 0, 1.0, np.inf),
        "rounded": K - 2.0 * np.eye(2) + 1e-9,
    }
    recorded("stacks", {name: told(outcome(_checks.check_gram_stack, one)) for name, one in stacks.items()})
    recorded(
        "kernels", {name: told(outcome(_checks.check_kernel_matrix, one)) for name, one in stacks.items()}
    )
    recorded(
        "definite",
        {
            name: told(outcome(_checks.check_psd, one, "It"))
            for name, one in stacks.items()
            if name in ("matrix", "negative", "distance", "zero")
        },
    )
    calls = {
        "targets": lambda: _checks.check_targets([1.0, 2.0], 2),
        "columns": lambda: _checks.check_targets([[1.0], [2.0]], 2),
        "short": lambda: _checks.check_targets([1.0], 2),
        "none": lambda: _checks.need_targets(None),
        "vector": lambda: _checks.check_vector([1.0], "c", 2),
        "weights": lambda: _checks.check_row_weights(None, 2),
        "zeros": lambda: _checks.check_row_weights([0.0, 0.0], 2),
        "negative": lambda: _checks.check_row_weights([0.0, -1.0], 2),
        "scale": lambda: _checks.check_scale(None, 2),
        "short scale": lambda: _checks.check_scale([1.0], 2),
        "zero scale": lambda: _checks.check_scale([0.0, 1.0], 2),
        "finite": lambda: _checks.check_finite(np.array([1.0, np.nan, np.inf, np.nan]), "a"),
        "size": lambda: _checks.check_size(np.array([1.0, -1e101]), "a"),
        "size of few": lambda: _checks.check_size(np.array([1.0, -1e100]), "a"),
        "positive": lambda: _checks.check_positive(0.0, "a"),
        "names": lambda: _checks.as_names(None, 2),
        "columns named": lambda: _checks.as_names(["u", 1], 2, "column"),
        "few names": lambda: _checks.as_names(["u"], 2),
        "a text": lambda: _checks.as_names("uv", 2),
        "names in rows": lambda: _checks.as_names([["u"], ["v"]], 2),
        "rows": lambda: _checks.of_given_rows(np.array([1.0, 2.0]), np.array([True, False, True])),
        "all rows": lambda: _checks.of_given_rows(np.array([1.0, 2.0]), None),
        "missing": lambda: [
            _checks.is_missing(one)
            for one in (
                None,
                np.nan,
                np.datetime64("NaT"),
                np.datetime64("2020-01-01"),
                "",
                0,
                pd.NA,
                pd.NaT,
                np.inf,
            )
        ],
        "digits": lambda: [
            _checks.rounding_tol(one)
            for one in (
                np.ones(3),
                np.array([1 / 3]),
                np.array([1 / 3], np.float32),
                np.float64(np.float32(1 / 3)),
                np.array([1], int),
                np.array([0.1], np.float16),
            )
        ],
    }
    recorded("calls", {name: told(outcome(call)) for name, call in calls.items()})
