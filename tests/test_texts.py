"""Kernels of texts, and kernels of one's own on texts, sets and sequences.

Modules: `kernels/text`, `estimators/texts`, `views/encoding`, `views/tables`.
"""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict

import kernelweave as kw
from kernelweave._checks import KernelWarning
from kernelweave.kernels import RBF, Categorical, CharNGrams, Custom, Linear, Tokens, parse
from kernelweave.persistence.states import from_state, to_state
from kernelweave.views import as_table, as_texts
from recording import outcome, told

#: What runs draw is looked at in other files.
pytestmark = pytest.mark.usefixtures("undrawn")

N = 60
SENTENCE = "pain fever cough mild strong none with without history of the patient reports left right"
WORDS = SENTENCE.split()


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(5)
    return [" ".join(rng.choice(WORDS, size=rng.integers(3, 12))) for _ in range(N)]


@pytest.fixture(scope="module")
def frame(texts):
    rng = np.random.default_rng(6)
    return pd.DataFrame({"age": rng.normal(size=N), "note": texts, "site": list("ABCD") * (N // 4)})


@pytest.fixture(scope="module")
def labels(texts):
    return np.array(["ill" if "fever" in text else "well" for text in texts])


def svm(kernels=None, **params):
    return kw.MKLClassifier(kernels, learner="simple", C=1.0, **params)


def by_hand(x, z, low, high):
    """Inner product of counts of character n-grams."""
    total = 0
    for n in range(low, high + 1):
        a = Counter(x[i : i + n] for i in range(len(x) - n + 1))
        b = Counter(z[i : i + n] for i in range(len(z) - n + 1))
        total += sum(count * b[gram] for gram, count in a.items())
    return total


@pytest.mark.parametrize("n", [(1, 1), (3, 3), (2, 4)])
@pytest.mark.parametrize("normalize", [False, True])
def test_character_n_grams_equal_their_definition(texts, n, normalize):
    X, Z = [*texts[:7], "xyz unseen Ω", ""], texts[5:20]
    K = np.array([[by_hand(x, z, *n) for z in Z] for x in X], dtype=float)
    left, right = (np.array([by_hand(x, x, *n) for x in rows], dtype=float) for rows in (X, Z))
    if normalize:
        K /= np.sqrt(np.where(left > 0, left, 1.0)[:, None] * right)
        left = (left > 0).astype(float)
    kernel = CharNGrams(n=n, lowercase=False, normalize=normalize)
    np.testing.assert_allclose(kernel({"t": X}, {"t": Z}), K, rtol=1e-12, atol=1e-12)
    # whichever rows it was fitted on
    for rows in (Z, texts[30:], ["nothing in common"]):
        fitted = kernel.fitted({"t": rows})
        np.testing.assert_allclose(fitted({"t": X}, {"t": Z}), K, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(fitted.diag({"t": X}), left, rtol=1e-12, atol=1e-12)
    assert CharNGrams(n=3) == CharNGrams((3, 3))


@pytest.mark.parametrize("sublinear", [False, True])
@pytest.mark.parametrize("n", [1, (1, 2)])
def test_words_equal_tf_idf_of_scikit_learn(texts, n, sublinear):
    low, high = (n, n) if isinstance(n, int) else n
    vectorizer = TfidfVectorizer(ngram_range=(low, high), sublinear_tf=sublinear)
    A = vectorizer.fit_transform(texts)
    kernel = Tokens(n=n, sublinear=sublinear).fitted({"t": texts})
    np.testing.assert_allclose(kernel({"t": texts}), (A @ A.T).toarray(), rtol=0, atol=1e-14)
    assert kernel.learnt.terms == tuple(vectorizer.get_feature_names_out())
    np.testing.assert_allclose(kernel.learnt.idf, vectorizer.idf_, rtol=1e-15)
    phi = kernel.features({"t": texts})
    assert sparse.issparse(phi)
    np.testing.assert_allclose((phi - A).toarray(), 0.0, atol=1e-15)


def test_words_that_no_training_row_has_lengthen_a_row():
    kernel = Tokens().fitted({"t": ["pain fever", "pain cough"]})
    known, more = kernel({"t": ["fever", "fever zebra"]}, {"t": ["pain fever", "pain cough"]})[:, 0]
    rare, unseen = np.log(3 / 2) + 1, np.log(3.0) + 1
    assert more / known == pytest.approx(rare / np.hypot(rare, unseen), rel=1e-12)
    np.testing.assert_allclose(kernel.diag({"t": ["fever zebra", "", "zebra"]}), [1.0, 0.0, 1.0])


def test_a_weight_equals_a_repetition(texts):
    weight = np.arange(N) % 3
    once = Tokens().fitted({"t": texts}, weight)
    repeated = Tokens().fitted({"t": list(np.repeat(texts, weight))})
    assert once.learnt.terms == repeated.learnt.terms
    np.testing.assert_allclose(once.learnt.idf, repeated.learnt.idf, rtol=1e-14)


BANK = [Linear(), CharNGrams().on("note"), Tokens().on("note"), Categorical().on("site")]


def test_kernels_put_on_a_column_declare_it(frame, labels):
    model = svm(BANK).fit(frame[:40], labels[:40])
    assert model.model_.source.raw.levels == (0, -1, 4)
    assert model.kernel_names_[2] == f"Tokens(n=1, {len(WORDS)} words) on note"
    # the linear kernel sees numbers and categories only
    by_columns = svm([Linear().on(["age", "site"]), *BANK[1:]]).fit(frame[:40], labels[:40])
    assert (model.decision_function(frame[40:]) == by_columns.decision_function(frame[40:])).all()
    parts = model.kernel_contributions(frame[40:]).sum(axis=1) + model.intercept_
    np.testing.assert_allclose(parts, model.decision_function(frame[40:]), atol=1e-12)
    # and nothing is taken from a table without texts
    plain = frame[["age", "site"]]
    assert (
        svm([Linear()]).fit(plain, labels).decision_function(plain)
        == svm([Linear()]).fit(plain.astype({"site": "category"}), labels).decision_function(plain)
    ).all()


def test_frames_of_all_kinds_and_lists_are_the_same(frame, labels):
    model = svm(BANK).fit(frame, labels)
    expected = model.decision_function(frame)
    other = pl.from_pandas(frame)
    np.testing.assert_array_equal(svm(BANK).fit(other, labels).decision_function(other), expected)
    array = frame.to_numpy(dtype=object)
    bank = [Linear(), CharNGrams().on(1), Tokens().on(1), Categorical().on(2)]
    np.testing.assert_array_equal(svm(bank).fit(array, labels).decision_function(array), expected)
    alone = svm([Tokens()]).fit(frame[["note"]], labels).decision_function(frame[["note"]])
    for text in (frame["note"].tolist(), frame["note"], frame["note"].to_numpy(str)):
        found = svm([Tokens()]).fit({"t": text}, labels)
        np.testing.assert_array_equal(found.decision_function({"t": text}), alone)


def test_a_list_puts_kernels_of_texts_on_views_of_texts(frame, labels):
    data = kw.Views({"table": frame[["age"]], "note": frame["note"].tolist()})
    assert repr(data) == "Views of 60 rows: 'table' (1 column), 'note' (1 column)"
    model = svm([Linear(), RBF(), CharNGrams(n=3)]).fit(data, labels)
    assert [name.partition("(")[0] for name in model.kernel_names_] == [
        "table: Linear",
        "table: RBF",
        "note: CharNGrams",
    ]
    named = svm({"table": [Linear(), RBF()], "note": [CharNGrams(n=3)]}).fit(data, labels)
    np.testing.assert_array_equal(named.decision_function(data), model.decision_function(data))
    assert set(kw.inspection.view_weights(model)) == {"table", "note"}
    groups = svm([Linear(), CharNGrams(n=3)], views={"table": ["age"], "note": "note"}).fit(frame, labels)
    assert groups.kernel_names_[1].startswith("note: CharNGrams(n=3")


def test_the_default_bank_reads_long_texts_and_not_names(frame, labels):
    model = kw.MKLClassifier(alpha=0.1).fit(frame, labels)
    assert [k for k in model.kernel_names_ if k.endswith(" on note")] == [
        k.label for k in model.kernels_[-2:]
    ]
    assert model.kernels_[-1].base.learnt is not None
    # names of sites are categories: indicator columns of the other kernels
    assert "1 of them categories, as 4 indicator columns" in model.explain_defaults()
    views = kw.MKLClassifier(alpha=0.1).fit({"a": frame[["age"]], "t": frame["note"].tolist()}, labels)
    assert [k.base.unit for k in views.kernels_[-2:]] == ["n-grams", "words"]
    with pytest.warns(KernelWarning, match=r"Column 'note' holds long texts.*CharNGrams\(\)\.on\('note'\)"):
        svm([Linear()]).fit(frame, labels)
    svm([Linear().on(["age", "site"])]).fit(frame, labels)  # says nothing
    assert kw.banks.texts() == [CharNGrams(), Tokens()]


def test_folds_learn_their_own_words(frame, labels):
    cv = KFold(3, shuffle=True, random_state=0)
    found = cross_val_predict(svm(BANK), frame, labels, cv=cv, method="decision_function")
    expected = np.empty(N)
    for train, test in cv.split(frame):
        model = svm(BANK).fit(frame.iloc[train], labels[train])
        expected[test] = model.decision_function(frame.iloc[test])
    np.testing.assert_array_equal(found, expected)
    ours = kw.MKLClassifierCV(BANK, learner="simple", Cs=[0.1, 1.0], cv=cv).fit(frame, labels)
    search = GridSearchCV(svm(BANK), {"C": [1.0, 0.1]}, cv=cv).fit(frame, labels)
    np.testing.assert_array_equal(
        ours.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"][::-1]
    )
    # automatic strengths do not depend on the order of rows
    order = np.random.default_rng(0).permutation(N)
    chosen = [
        kw.MKLClassifier([Tokens().on("note")]).fit(frame.iloc[rows], labels[rows]).alpha_
        for rows in (np.arange(N), order)
    ]
    assert chosen[0] == pytest.approx(chosen[1], rel=1e-9)


def test_model_files_and_text_hold_what_was_learnt(frame, labels, tmp_path):
    model = svm([*BANK, 2.0 * Tokens(n=(1, 2), idf=False).on("note")]).fit(frame[:40], labels[:40])
    kw.save(model, tmp_path / "m")
    again = kw.load(tmp_path / "m")
    np.testing.assert_allclose(again.decision_function(frame), model.decision_function(frame), rtol=1e-12)
    assert again.kernels_ == model.kernels_
    assert again.kernels_[1].base.learnt == model.kernels_[1].base.learnt
    for kernel in model.kernels_:
        assert from_state(to_state(kernel)) == kernel == pickle.loads(pickle.dumps(kernel))
        assert hash(from_state(to_state(kernel))) == hash(kernel)
    for kernel in (CharNGrams(), CharNGrams(3, idf=True), Tokens(pattern=r"\w+").on(["note"])):
        assert parse(repr(kernel)) == kernel
    assert parse("charngrams(n=(2, 4)) + 2 * words.on('a')") == CharNGrams() + 2.0 * Tokens().on("a")
    assert repr(CharNGrams(n=3, idf=True)) == "CharNGrams(n=3, idf=True)"


def test_texts_are_counted_once(frame, labels, monkeypatch):
    from sklearn.feature_extraction.text import CountVectorizer

    calls, plain = [], CountVectorizer.fit_transform
    monkeypatch.setattr(
        CountVectorizer, "fit_transform", lambda self, X: calls.append(len(X)) or plain(self, X)
    )
    bank = [Tokens().on("note"), Tokens(idf=False).on("note"), CharNGrams(n=3).on("note")]
    model = kw.MKLClassifierCV(bank, learner="simple", Cs=[1.0, 10.0], cv=3).fit(frame, labels)
    assert calls == [N, N]
    model.predict(frame[:10])
    assert calls == [N, N, 10, 10]


def test_kernels_of_ones_own_read_sets_and_sequences(frame, labels):
    rng = np.random.default_rng(1)
    tags = [set(rng.choice(list("abcdef"), 3).tolist()) for _ in range(N)]
    jaccard = Custom(lambda X, Z: [[len(x & z) / len(x | z) for z in Z] for x in X], name="jaccard")
    K = np.array([[len(x & z) / len(x | z) for z in tags] for x in tags])
    np.testing.assert_array_equal(jaccard({"tags": tags}), K)
    table = frame[["age"]].assign(tags=tags)
    model = svm([Linear(), jaccard.on("tags")]).fit(table[:40], labels[:40])
    same = svm({"a": [Linear()]}).fit(
        {"a": frame[["age"]][:40], "k": kw.precomputed(K[:40, :40])}, labels[:40]
    )
    np.testing.assert_allclose(
        model.decision_function(table[40:]),
        same.decision_function({"a": frame[["age"]][40:], "k": K[40:, :40]}),
        atol=1e-10,
    )
    # texts as they were given, sequences of other lengths
    seen = []
    lengths = Custom(lambda X, Z: seen.append(X) or [[min(len(x), len(z)) for z in Z] for x in X])
    svm([lengths.on("note")]).fit(frame, labels)
    assert seen[0].dtype == object
    assert set(seen[0]) <= set(frame["note"])
    several = Custom(lambda X, Z: [[float((x == z).mean()) for z in Z] for x in X])
    np.testing.assert_array_equal(several.on(["note", "site"])(frame)[0, 1], 0.0)
    table["walk"] = [list(range(k % 5)) for k in range(N)]
    svm([lengths.on("walk")]).fit(table[["walk"]], labels)
    # numbers stay numbers
    numbers = Custom(lambda X, Z: seen.append(X) or X @ Z.T)
    numbers.on("age")(frame)
    assert seen[-1].dtype == np.float64
    with pytest.raises(
        TypeError, match=r"got \{.* \(set\) in column 'tags'.*Pairwise\(function\)\.on\('tags'\)"
    ):
        svm([Linear()]).fit(table[["age", "tags"]], labels)


WRONG = [
    (lambda f: CharNGrams().on("age")(f), "reads text, but column 'age' holds numbers"),
    (lambda f: CharNGrams()(f), "reads one column of texts, got 3 columns"),
    (lambda f: Tokens()(f[["age"]]), "reads text, but column 'age' holds numbers"),
    (lambda f: Tokens()(sparse.eye_array(3)), "Tokens reads text, got sparse numbers"),
    (lambda f: Tokens()({"k": kw.precomputed(np.eye(3))}), "precomputed view has no columns"),
    (lambda f: Tokens().prepared("standardize"), "no columns to prepare"),
    (lambda f: Tokens().on("note").prepared("log1p"), "no columns to prepare"),
    (lambda f: CharNGrams(n=0), "`n` of CharNGrams must be a whole number from 1 to 50 or two of them"),
    (lambda f: CharNGrams(n=(4, 2)), "The least length comes first"),
    (lambda f: CharNGrams(n=(1, 2, 3)), "`n` of CharNGrams must be"),
    (lambda f: Tokens(idf="yes"), "`idf` of Tokens must be True or False"),
    (lambda f: Tokens(pattern="("), "`pattern` of Tokens must be a regular expression"),
    (lambda f: svm([Tokens()]).fit(f, list("ab") * 30), "reads one column of texts, got 3"),
    (lambda f: svm([Tokens().on("age")]).fit(f[["age", "site"]], list("ab") * 30), "holds numbers"),
    (lambda f: svm([Tokens()]).fit({"a": f[["age"]]}, list("ab") * 30), "none of the views 'a' holds texts"),
    (
        lambda f: svm([Linear().on("note"), Tokens().on("note")]).fit(f, list("ab") * 30),
        "reads numbers, got texts or objects in 'note'",
    ),
]


@pytest.mark.parametrize(("call", "words"), WRONG, ids=[words for _, words in WRONG])
def test_wrong_input_says_what_to_do(frame, call, words):
    with pytest.raises((kw.InputError, ValueError), match=words):
        call(frame)


def test_new_rows_must_hold_text(frame, labels):
    model = svm([Tokens().on("note")]).fit(frame[["age", "note"]], labels)
    new = frame[["age", "note"]].assign(note=1.5)
    with pytest.raises(kw.InputError, match="reads text, but column 'note' holds"):
        model.predict(new)
    with pytest.raises(kw.InputError, match=r"contains NaN.*'note' \(60 of 60 rows\)"):
        model.predict(new.assign(note=None))
    # texts without a word are similar to nothing
    odd = frame[["age", "note"]][:2].assign(note=["", "? !"])
    np.testing.assert_allclose(model.decision_function(odd), model.intercept_, atol=1e-12)


def test_tables_keep_rows_of_texts(texts):
    table = as_table({"t": texts})
    part = table.rows(np.array([3, 1])).rows(slice(1, 2))
    assert part.blocks["t"].cells[0].values.tolist() == [texts[1]]
    K = Tokens(idf=False)(table.rows(np.arange(9)), table)
    np.testing.assert_allclose(K, Tokens(idf=False)({"t": texts[:9]}, {"t": texts}), atol=1e-15)


def test_texts_that_are_missing(frame, labels):
    notes = [None if k % 5 == 0 else text for k, text in enumerate(frame["note"])]
    views = {"a": frame[["age"]], "t": notes}
    # a view of texts that some rows lack
    model = svm([Linear(), Tokens()]).fit(views, labels)
    assert model.missing_["views"] == {"t": N // 5}
    assert model.predict(views).shape == (N,)
    table = frame[["age"]].assign(note=notes)
    bank = [Linear(), Tokens().on("note")]
    with pytest.raises(kw.InputError, match=r"NaN.*'note' \(12 of 60 rows\).*missing='impute'"):
        svm(bank).fit(table, labels)
    with pytest.raises(kw.InputError, match=r"missing='skip' compares.*Use missing='impute'"):
        svm(bank, missing="skip").fit(table, labels)
    # an empty text stands for one that is missing
    filled = svm(bank, missing="impute").fit(table, labels)
    assert filled.missing_["cells"] == {"note": N // 5}
    empty = table.assign(note=[text or "" for text in notes])
    np.testing.assert_array_equal(
        filled.decision_function(table), svm(bank).fit(empty, labels).decision_function(empty)
    )


def test_a_run_of_the_command_line(frame, labels, tmp_path, capsys):
    pytest.importorskip("cyclopts")
    from kernelweave_app.cli.app import run

    frame.assign(y=labels).to_csv(tmp_path / "notes.csv", index=False)
    kernels = "linear; charngrams(n=3).on('note'); tokens(n=(1, 2)).on('note')"
    argv = ["fit", str(tmp_path / "notes.csv"), "--target", "y", "--kernels", kernels, "--method", "simple"]
    assert run([*argv, "--cs", "1,10", "--cv", "3", "--out", str(tmp_path / "run")]) == 0
    model = kw.load(tmp_path / "run" / "model.skops")
    assert model.kernel_names_[1].startswith("CharNGrams(n=3, ")
    assert model.kernel_names_[2] in (tmp_path / "run" / "report.html").read_text()
    argv = ["predict", str(tmp_path / "run"), str(tmp_path / "notes.csv"), "--out", str(tmp_path / "p.csv")]
    assert run(argv) == 0
    expected = model.decision_function(frame)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["decision"], expected, atol=1e-9)
    scope: dict = {}
    exec(compile((tmp_path / "run" / "script.py").read_text(), "script.py", "exec"), scope)
    capsys.readouterr()
    np.testing.assert_allclose(scope["model"].decision_function(frame), expected, atol=1e-9)


def test_weights_of_kernels_are_divided_equally_among_their_columns():
    """Of a kernel on all columns among those of numbers; a constant has none."""
    from kernelweave.estimators.texts import column_importances
    from kernelweave.kernels import Constant
    from kernelweave.views import Table

    kernels = [RBF().on([0]), Linear(), Constant(), RBF().on([0, 2]) + Linear().on([1]), Linear().on([1])]
    found = column_importances(kernels, [1.0, 3.0, 5.0, 6.0, 0.0], Table(np.eye(3)))
    # 1 + 3 / 3 + 6 / 3, and the same without the first
    np.testing.assert_allclose(found, [4.0, 3.0, 3.0], rtol=1e-14)


@pytest.mark.parametrize("kind", [pd.Series, pl.Series])
def test_a_series_of_texts_keeps_its_name_and_rows(kind):
    if kind is pl.Series:
        assert as_texts(pl.Series("code", [17, None])).tolist() == ["17", None]
        return
    found = as_texts(pd.Series([17, None, "x"], index=[5, 3, 9], name="code", dtype=object))
    assert (found.name, found.index.tolist(), found.tolist()) == ("code", [5, 3, 9], ["17", None, "x"])


def test_columns_of_texts_and_objects_as_they_are_read(recorded):
    """By kernels of texts, custom ones and the default bank, of one table and of views; objects that none reads."""
    from kernelweave.estimators.texts import check_objects, columns_read, long_texts

    notes = [f"note {k} about {'good' if k % 2 else 'bad'} things in many words" for k in range(12)]
    frame = pd.DataFrame({"size": np.arange(12.0), "note": notes, "kind": list("abcabcabcabc")})
    tables = {"table": frame, "views": {"one": frame[["size", "kind"]], "two": frame[["note"]]}}
    kernels = {
        "texts": [Tokens().on(["note"])],
        "numbers": [Linear()],
        "custom": [kw.kernels.Custom(min).on(["note", "kind"])],
        "custom of both": [kw.kernels.Custom(min)],
        "nothing": [],
        "a sum": [Linear().on(["size"]) + Tokens().on(["kind"])],
    }
    for name, table in tables.items():
        read = as_table(table)
        found = {
            "default": sorted(long_texts(read, None)),
            "by view": sorted(long_texts(read, {"one": [Linear()]})),
            "a list": sorted(long_texts(read, [Linear()])),
        }
        if name == "table":
            found |= {key: sorted(columns_read(own, read)) for key, own in kernels.items()}
        recorded(name, found)
        told_of = {
            key: told(outcome(check_objects, read, own, some))
            for key, own, some in (
                ("read", {1}, [Linear()]),
                ("as categories", set(), [Linear()]),
                ("on others", set(), [Linear().on([0])]),
            )
        }
        recorded(f"{name}, objects", told_of)
