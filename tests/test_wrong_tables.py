"""Wrong tables and views: what was expected, what came, and what to do, for every shape of input.

Modules: `_checks`, `views/container`, `views/columns`, `kernels/counts`.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import kernelweave as kw
from kernelweave._checks import check_row_weights, of_given_rows
from kernelweave.kernels import RBF, Categorical, CharNGrams, Linear, Precomputed, Tokens

N = 20
rng = np.random.default_rng(0)
A = rng.normal(size=(N, 3))
B = A[:, :1]
Y = ["a", "b"] * (N // 2)
TEXTS = ["some text", "other words"] * (N // 2)
FRAME = pd.DataFrame(A, columns=["p", "q", "r"])
MIXED = FRAME.assign(s=list("xy") * (N // 2))
K = A @ A.T
BANK = kw.KernelBank(K[:, :, None])
THIN = sparse.csr_array(A)


def svm(kernels=None, **params):
    return kw.MKLClassifier(kernels, learner="simple", C=1.0, **params)


def named(prefix, start=0, step=1):
    return FRAME.set_axis([f"{prefix}{start + step * i}" for i in range(N)])


def holes():
    X = A.copy()
    X[3, 1] = np.nan
    return X


#: What `fit` refuses: kernels, parameters, X, and words of the message.
FIT = {
    "unequal numbers of rows": (
        None,
        {},
        {"a": A, "b": A[:9]},
        r"equally many rows, got 'a' 20, 'b' 9\. Pass the same",
    ),
    "an empty dict": (None, {}, {}, r"with at least one; got \{\}\. Pass for example"),
    "an empty list": (None, {}, [], r"`X` is an empty list\. Pass rows, or tables"),
    "a name that is no text": (None, {}, {1: A}, r"named by texts, got 1\. Rename it"),
    "an empty name": (None, {}, {"": A}, r"named by texts, got ''\. Rename it"),
    "one dimension": (
        None,
        {},
        {"a": A[:, 0]},
        r"View 'a' .*shape \(20,\)\. Reshape one column with x\.reshape",
    ),
    "three dimensions": (
        None,
        {},
        {"a": A[None]},
        r"View 'a' .*shape \(1, 20, 3\)\. Reshape it .*kw\.precomputed",
    ),
    "a number as a view": (
        None,
        {},
        {"a": 3.0},
        r"View 'a' must be a table .*got 3\.0\. Pass a two-dimensional array",
    ),
    "a dict in a dict": (None, {}, {"a": {"b": A}}, "holds no further dicts"),
    "None as a view": (
        None,
        {},
        {"a": None, "b": A},
        r"View 'a' is missing in all training rows.*Leave it out",
    ),
    "rows of different lengths": (
        None,
        {},
        {"a": [[1, 2], [1]] * 10},
        r"View 'a' .*different lengths\. Pad or drop",
    ),
    "one dimension of numbers": (
        [Linear()],
        {},
        A[:, 0],
        r"Expected 2D array, got 1D.*Reshape your data using",
    ),
    "one dimension of texts": ([Tokens()], {}, TEXTS, r"Expected 2D array.*texts are a view, \{'text': X\}"),
    "three dimensions alone": ([Linear()], {}, A[None], r"Expected 2D array, got 3D array.*Reshape"),
    "columns of one name": (
        None,
        {},
        {"a": FRAME.set_axis(["p", "p", "q"], axis=1)},
        "View 'a': .*unique, got 'p'",
    ),
    "names of two kinds": (None, {}, {"a": FRAME.rename(columns={"p": 1})}, r"View 'a': .*Use X\.columns"),
    "dates and text": (
        None,
        {},
        {"a": pd.DataFrame({"d": [*pd.date_range("2020", periods=N - 1), "soon"]})},
        r"View 'a': Column 'd' must hold dates only, got 'soon'.*Convert",
    ),
    "complex numbers": (None, {}, {"a": A + 1j}, r"View 'a': Complex data not supported.*Pass real"),
    "infinite cells": (
        None,
        {},
        {"a": A, "b": np.full((N, 1), np.inf)},
        r"View 'b': .*infinity in column 0 \(20 of 20",
    ),
    "missing cells": (None, {}, {"a": holes(), "b": B}, r"NaN .*missing='impute'"),
    "no columns": (None, {}, {"a": A[:, :0]}, r"View 'a': .*0 feature\(s\).*Pass at least one"),
    "no rows": (None, {}, {"a": A[:0]}, r"View 'a': .*0 sample\(s\).*Pass at least one"),
    "a lazy frame": (
        None,
        {},
        {"a": pl.DataFrame({"p": [1.0] * N}).lazy()},
        r"View 'a' is a lazy frame\. Call",
    ),
    "sets of objects": (
        None,
        {},
        {"a": [{1}, {2}] * 10},
        r"got \{1\} \(set\) in column 'x0' of view 'a'\. Put a kernel on it that reads objects",
    ),
    "objects in an array": (
        None,
        {},
        {"a": np.array([[{"x": 1}]] * N, dtype=object)},
        r"\(dict\) in column .*of view 'a'",
    ),
    "another index": (
        None,
        {"missing_views": "error"},
        {"a": named("r"), "b": named("r", 1)},
        r"View 'b' lacks 1 of view 'a': 'r0'\. Keep the rows",
    ),
    "an index with repeats": (
        None,
        {},
        {"a": FRAME.set_axis(["r"] * N), "b": named("r")},
        "share theirs. Make it unique",
    ),
    "an index beside an array": (
        None,
        {},
        {"a": named("r"), "b": named("r", 19, -1), "c": A},
        r"no index to join by\. Bring",
    ),
    "numbers of rows that y has not": (None, {}, {"a": A[:5]}, r"inconsistent numbers of samples: \[5, 20\]"),
    # sparse
    "categories of sparse columns": (
        [Categorical()],
        {},
        {"a": THIN},
        r"sparse columns must be dense\. Pass X\.toarray",
    ),
    "standardised sparse columns": (
        [Linear().prepared("standardize")],
        {},
        {"a": THIN},
        "Sparse columns cannot be standard",
    ),
    "standardize of a sparse view": (
        [Linear()],
        {"standardize": True},
        {"a": THIN},
        "View 'a' is sparse and cannot be stand",
    ),
    "complex sparse cells": (None, {}, {"a": THIN.astype(complex)}, "View 'a': Complex data not supported"),
    "sparse rows of another number": (None, {}, {"a": A, "b": THIN[:7]}, "'a' 20, 'b' 7"),
    # texts
    "a kernel of texts on numbers": (
        {"a": [Tokens()]},
        {},
        {"a": B},
        r"reads text, but column 'x0' holds numbers.*Put it",
    ),
    "a kernel of texts on sparse rows": (
        {"a": [Tokens()]},
        {},
        {"a": THIN},
        "reads text, got sparse numbers. Put it",
    ),
    "a kernel of texts on a table": (
        [CharNGrams()],
        {},
        MIXED,
        "reads one column of texts, got 4 columns. Put it on one",
    ),
    "a kernel of texts without texts": (
        [Tokens()],
        {},
        {"a": A},
        r"none of the views 'a' holds texts\. Leave it out",
    ),
    "a kernel of numbers on texts": (
        [RBF().on("s"), Tokens().on("s")],
        {},
        MIXED,
        "reads numbers, got texts or objects in 's'",
    ),
    # precomputed
    "a kernel that is not square": (
        None,
        {},
        {"k": kw.precomputed(K[:, :5])},
        r"View 'k': .*square .*\(20, 5\)\. Pass K",
    ),
    "a kernel that is not symmetric": (
        None,
        {},
        {"k": kw.precomputed(K + np.triu(K))},
        r"symmetric, got max.*Use \(K \+ K",
    ),
    "distances for a kernel": (
        None,
        {},
        {"k": kw.precomputed(K - 9 * np.eye(N))},
        "View 'k': .*not positive semidef.*Check",
    ),
    "kernels of columns on a kernel": (
        [Linear()],
        {},
        {"k": kw.precomputed(K)},
        "no view has columns: 'k'.*Leave `kernels`",
    ),
    "kernels of kernels on columns": ([Precomputed()], {}, {"a": A}, r"all views have columns\. Make views"),
    "views beside a bank": (BANK, {}, {"a": A}, r"With a KernelBank.*got views\. Make views of its matrices"),
    "views as a stack": (
        "precomputed",
        {},
        {"a": K},
        r"must be a kernel matrix or a stack of them, got views\. Leave",
    ),
    # kernels of views
    "kernels of an unknown view": (
        {"a": [Linear()], "z": [Linear()]},
        {},
        {"a": A},
        "Unknown view 'z'. Known: 'a'",
    ),
    "a view without kernels": (
        {"a": [Linear()]},
        {},
        {"a": A, "b": B},
        r"none for 'b'\. Add 'b': \[\.\.\.\]",
    ),
    "kernels by view of one table": ({"a": [Linear()]}, {}, A, r"by view need views: pass X as a dict"),
    # groups of columns
    "groups in several tables": (
        None,
        {"views": {"g": ["p"]}},
        {"a": FRAME},
        r"`views` groups columns of one.*Leave `views`",
    ),
    "a column that is not there": (
        None,
        {"views": {"g": ["pp"]}},
        FRAME,
        "View 'g': no column matches 'pp'. Did you mean 'p'",
    ),
    "a pattern without a match": (
        None,
        {"views": {"g": "z_*"}},
        FRAME,
        "matches 'z_\\*'. Columns: 'p', 'q', 'r'",
    ),
    "names of columns of an array": (None, {"views": {"g": "z_*"}}, A, "X has no names. Pass a data frame"),
    "no groups": (None, {"views": {}}, FRAME, r"`views` must be a dict .*got \{\}\. Pass"),
    "groups of a stack": (
        "precomputed",
        {"views": {"g": [0]}},
        K[:, :, None],
        "`views` groups columns.*Leave `views` out",
    ),
}


def words_of(error):
    """The message in one line."""
    return " ".join(str(error.value).split())


@pytest.mark.parametrize("case", FIT)
def test_fit_refuses(case):
    kernels, params, X, words = FIT[case]
    learner = {} if kernels is not BANK else {"learner": "rls2", "C": None, "alpha": 1.0}
    model = svm(kernels, **params).set_params(**learner)
    with pytest.raises((kw.InputError, TypeError)) as error:
        model.fit(X, Y)
    assert re.search(words, words_of(error)), words_of(error)
    assert not hasattr(model, "model_")


@pytest.fixture(scope="module")
def fitted():
    return {
        "arrays": svm([Linear()]).fit({"a": A, "b": B}, Y),
        "frames": svm([Linear()]).fit({"a": FRAME, "b": B}, Y),
        "one": svm([Linear()]).fit(FRAME, Y),
        "gram": svm([Linear()]).fit({"a": A, "k": kw.precomputed(K)}, Y),
        "texts": svm([Linear(), Tokens()]).fit({"a": A, "t": TEXTS}, Y),
        "sparse": svm([Linear()]).fit({"a": THIN, "b": B}, Y),
    }


#: What `predict` refuses: which model, X, and words of the message.
PREDICT = {
    "a missing view": ("arrays", {"a": A}, "the views of fit, 'a', 'b', but lacks 'b'. Pass all of them"),
    "an unknown view": (
        "arrays",
        {"a": A, "b": B, "c": A},
        "has the unknown 'c'. Pass all of them and no others",
    ),
    "a misspelt view": ("arrays", {"a": A, "bb": B}, "lacks 'b' and has the unknown 'bb'. Did you mean 'b'"),
    "one table": ("arrays", A, "fitted on the views 'a', 'b', got one table. Pass a dict"),
    "views for one table": ("one", {"a": FRAME}, "fitted on one table, got views. Pass a table"),
    "fewer columns": (
        "arrays",
        {"a": A[:, :2], "b": B},
        "View 'a': X has 2 features.*expecting 3.*Pass the columns",
    ),
    "other names": (
        "frames",
        {"a": FRAME.rename(columns={"p": "P"}), "b": B},
        "View 'a': .*unseen at fit time: - P",
    ),
    "another order": ("one", FRAME[["q", "p", "r"]], "same order as they were in fit"),
    "no rows": ("arrays", {"a": A[:0], "b": B[:0]}, r"View 'a': .*0 sample\(s\).*Pass at least one"),
    "unequal rows": ("arrays", {"a": A[:3], "b": B[:2]}, "'a' 3, 'b' 2"),
    "one dimension": ("arrays", {"a": A, "b": A[:, 0]}, "View 'b' .*Reshape one column"),
    "texts for numbers": (
        "frames",
        {"a": FRAME.astype(object).assign(p="old"), "b": B},
        "'p' was numeric when fitted, got 'old'",
    ),
    "numbers for texts": (
        "texts",
        {"a": A, "t": np.arange(float(N))[:, None]},
        "reads text, but column .* holds other objects",
    ),
    "two columns for texts": (
        "texts",
        {"a": A, "t": pd.DataFrame({"x": TEXTS, "z": TEXTS})},
        "View 't': .*expecting 1 feature",
    ),
    "kernel values of other rows": (
        "gram",
        {"a": A[:2], "k": K[:2, :5]},
        "column for each of the 20 training rows, got 5. Pass K",
    ),
    "sparse rows of other columns": ("sparse", {"a": THIN[:, :2], "b": B}, "View 'a': X has 2 features"),
    "missing cells": ("arrays", {"a": holes(), "b": B}, "NaN"),
}


@pytest.mark.parametrize("case", PREDICT)
def test_predict_refuses(fitted, case):
    which, X, words = PREDICT[case]
    with pytest.raises((kw.InputError, TypeError)) as error:
        fitted[which].predict(X)
    assert re.search(words, words_of(error)), words_of(error)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kw.Views({"a": A})[1.5], "selected by integers, a mask or a slice, got 1.5. Pass those"),
        (lambda: kw.Views({"a": A})["b"], "Unknown view 'b'. Known: 'a'"),
        (lambda: kw.Views({"a": A})[[[0]]], r"got an array of shape \(1, 1\)"),
        (lambda: np.asarray(kw.Views({"a": A})), "this needs one array. Pass one of them"),
        (lambda: kw.Views(3), "dict from names to tables.*got 3. Pass"),
        (lambda: kw.precomputed(K[None]), r"must be a matrix .*\(1, 20, 20\)\. Make a view of each"),
        (lambda: kw.precomputed([["a"]]), "array of real numbers, got text. Encode"),
    ],
)
def test_containers_refuse(call, words):
    with pytest.raises(kw.InputError, match=words):
        call()


def test_every_message_says_what_to_do():
    remedies = re.compile(
        r"\b(Pass|Use|Rename|Leave|Reshape|Drop|Make|Add|Keep|Pad|Put|Call|Check|Convert|Bring|Impute|Known|Columns"
        r"|Did you mean|pass X|make columns|must have equally|Flatten|texts are a view)\b"
    )
    for case, (kernels, params, X, _) in FIT.items():
        learner = {} if kernels is not BANK else {"learner": "rls2", "C": None, "alpha": 1.0}
        with pytest.raises((kw.InputError, TypeError)) as error:
            svm(kernels, **params).set_params(**learner).fit(X, Y)
        assert remedies.search(words_of(error)), (case, words_of(error))


def test_numbers_of_rows_with_a_weight_stand_at_their_rows():
    rows = np.array([True, False, True, False])
    for values in (np.array([2.0, 3.0]), np.array([[2.0, 1.0], [3.0, 4.0]])):
        found = of_given_rows(values, rows)
        np.testing.assert_array_equal(found[rows], values)
        assert not found[~rows].any()
        assert of_given_rows(values, None) is values
    weights = check_row_weights([0.0, 2.0, 0.5], 3)
    np.testing.assert_array_equal(weights, [0.0, 2.0, 0.5])
    np.testing.assert_array_equal(check_row_weights(None, 3), np.ones(3))
    for wrong, said in (
        ([0.0] * 3, "only zeros"),
        ([1.0] * 2, "one entry per row"),
        ([-1.0, 1.0, 1.0], "sample_weight"),
    ):
        with pytest.raises(kw.InputError, match=said):
            check_row_weights(wrong, 3)
