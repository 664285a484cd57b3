"""Columns and views by their weight: scikit-learn's selection, and `SelectViews`.

Modules: `estimators/selecting`, `persistence/states`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import kernelweave as kw
from kernelweave.kernels import RBF, Categorical, Linear, Tokens
from recording import outcome, told

N = 80


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(N, 6))


@pytest.fixture(scope="module")
def labels(X):
    return np.where(X[:, 1] - X[:, 4] > 0, "a", "b")


def svm(kernels=None, **params):
    return kw.MKLClassifier(kernels, learner="simple", C=1.0, **params)


def test_importances_share_weights_over_columns(X, labels):
    bank = [Linear(), RBF(0.5).on([1, 2]), 2.0 * RBF(0.5).on([4]) + Linear().on([1]), Linear().on([0]) + 1.0]
    model = svm(bank).fit(X, labels)
    w = model.weights_ / model.weights_.sum()
    expected = np.full(6, w[0] / 6)
    expected[[1, 2]] += w[1] / 2
    expected[[1, 4]] += w[2] / 2
    expected[0] += w[3]
    np.testing.assert_allclose(model.feature_importances_, expected, atol=1e-15)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    three = svm(bank).fit(X, np.repeat(list("abcd"), 20))
    assert three.feature_importances_.shape == (6,)
    assert three.feature_importances_.sum() == pytest.approx(1.0)
    assert not hasattr(svm(bank), "feature_importances_")
    gram = kw.MKLClassifier("precomputed", alpha=1.0).fit(Linear()(X)[:, :, None], labels)
    assert not hasattr(gram, "feature_importances_")


def test_texts_and_categories_have_importances(labels):
    frame = pd.DataFrame(
        {"x": np.arange(N) / N, "note": ["some text", "a note"] * 40, "site": list("AB") * 40}
    )
    model = svm([Linear(), Tokens().on("note"), Categorical().on("site")]).fit(frame, labels)
    w = model.weights_ / model.weights_.sum()
    np.testing.assert_allclose(model.feature_importances_, [w[0] / 2, w[1], w[0] / 2 + w[2]], atol=1e-15)


def test_select_from_model(X, labels):
    bank = [RBF(0.5).on([j]) for j in range(6)]
    chosen = SelectFromModel(svm(bank), max_features=2, threshold=-np.inf).fit(X, labels)
    np.testing.assert_array_equal(chosen.get_support(indices=True), [1, 4])
    linear = SelectFromModel(svm(kw.banks.linear_features(6)), max_features=2, threshold=-np.inf).fit(
        X, labels
    )
    assert hasattr(linear.estimator_, "coef_")
    np.testing.assert_array_equal(linear.get_support(indices=True), [1, 4])
    pipe = make_pipeline(chosen, svm([Linear(), RBF(gamma="median")]))
    assert cross_val_score(pipe, X, labels, cv=3).mean() > 0.8
    # the default bank follows the number of columns that is left
    assert RFE(svm(), n_features_to_select=4, step=2).fit(X[:40], labels[:40]).support_.sum() == 4


@pytest.fixture(scope="module")
def data(X):
    rng = np.random.default_rng(1)
    return kw.Views(
        {
            "noise": rng.normal(size=(N, 4)),
            "rna": X[:, :3],
            "words": sparse.csr_array(X[:, 3:] * (X[:, 3:] > 0)),
        }
    )


def test_views_are_chosen_by_their_share(data, labels):
    select = kw.SelectViews(svm([Linear(), RBF(gamma="median")]), threshold=0.2).fit(data, labels)
    assert select.shares_ == pytest.approx(kw.inspection.view_weights(select.estimator_), abs=1e-12)
    assert select.views_ == tuple(v for v in data.names if select.shares_[v] > 0.2)
    np.testing.assert_array_equal(select.get_support(), [v in select.views_ for v in data.names])
    one = kw.SelectViews(svm([Linear()]), max_views=1).fit(data, labels)
    best = max(one.shares_, key=one.shares_.get)
    assert one.views_ == (best,)
    assert one.transform(data).names == (best,)
    assert one.get_feature_names_out().tolist() == [best]
    # in the order of X, also where that is not the one of the shares
    rising = kw.Views({view: data[view] for view in sorted(one.shares_, key=one.shares_.get)})
    some = kw.SelectViews(svm([Linear()]), max_views=2).fit(rising, labels)
    assert some.views_ == some.transform(rising).names == rising.names[1:]
    with pytest.raises(
        kw.InputError, match=r"No view has more than 0\.99 of the weight; the largest share is"
    ):
        kw.SelectViews(svm([Linear()]), threshold=0.99).fit(data, labels)
    ready = svm([Linear()]).fit(data, labels)
    assert kw.SelectViews(ready, max_views=1, prefit=True).fit(data).views_ == (best,)


def test_groups_go_to_the_estimator(data, labels):
    groups = np.arange(N) // 4
    for estimator in (kw.MKLClassifier([Linear()]), kw.MKLClassifierCV([Linear()], cv=3)):
        select = kw.SelectViews(estimator).fit(data, labels, groups=groups)
        own = clone(estimator).fit(data, labels, groups=groups)
        np.testing.assert_array_equal(select.estimator_.weights_, own.weights_)
        np.testing.assert_array_equal(select.estimator_.model_.task.groups, own.model_.task.groups)


def test_in_pipelines_and_grid_searches(data, labels, tmp_path):
    final = svm([Linear(), RBF(gamma="median")])
    pipe = make_pipeline(kw.SelectViews(svm([Linear()]), max_views=2), final)
    scores = cross_val_score(pipe, data, labels, cv=3)
    folds = []
    from sklearn.model_selection import StratifiedKFold

    for train, test in StratifiedKFold(3).split(np.zeros(N), labels):
        select = kw.SelectViews(svm([Linear()]), max_views=2).fit(data[train], labels[train])
        model = clone(final).fit(select.transform(data[train]), labels[train])
        folds.append(model.score(select.transform(data[test]), labels[test]))
    np.testing.assert_allclose(scores, folds)
    search = GridSearchCV(pipe, {"selectviews__max_views": [1, 2], "mklclassifier__C": [1.0]}, cv=2)
    assert search.fit(data, labels).best_score_ > 0.6
    # new rows need the chosen views only
    fitted = pipe.fit(data, labels)
    kw.save(fitted, tmp_path / "m")
    np.testing.assert_array_equal(kw.load(tmp_path / "m").predict(data), fitted.predict(data))
    few = {view: data[view] for view in fitted[0].views_}
    np.testing.assert_array_equal(fitted.predict(few), fitted.predict(data))
    missing = dict(list(few.items())[1:])
    with pytest.raises(kw.InputError, match=r"must have the selected views.*but lacks"):
        fitted.predict(missing)
    with pytest.raises(kw.InputError, match=r"got one table\. Pass a dict"):
        fitted.predict(np.zeros((3, 3)))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, None])
def test_groups_of_columns_become_views(X, labels, kind):
    names = ["g_1", "g_2", "g_3", "p_1", "p_2", "p_3"]
    groups: dict = {"genes": "g_*", "proteins": ["p_1", "p_2", "p_3"], "one": ["g_2"]}
    frame = X
    if kind is None:
        groups = {"genes": slice(0, 3), "proteins": [3, 4, 5], "one": [1]}
    else:
        frame = pd.DataFrame(X, columns=names) if kind is pd.DataFrame else pl.DataFrame(X, schema=names)
    select = kw.SelectViews(svm([Linear()], views=groups), threshold=0.0).fit(frame, labels)
    assert select.shares_ == pytest.approx(kw.inspection.view_weights(select.estimator_), abs=1e-12)
    own = {"genes": [0, 1, 2], "proteins": [3, 4, 5], "one": [1]}
    for chosen in (select, kw.SelectViews(svm(kw.banks.views(groups)), threshold=0.0).fit(frame, labels)):
        assert chosen.shares_.keys() == own.keys()
        # an array has no names, and its columns are in the order of the fit
        for rows in (frame, X, sparse.csr_array(X)):
            found = chosen.transform(rows)
            for view in chosen.views_:
                values = found[view].toarray() if sparse.issparse(found[view]) else np.asarray(found[view])
                np.testing.assert_array_equal(values, X[:, own[view]])


def test_what_cannot_be_selected_from(X, labels):
    with pytest.raises(kw.InputError, match=r"X is one table.*SelectFromModel"):
        kw.SelectViews(svm([Linear()])).fit(X, labels)
    with pytest.raises(kw.InputError, match="`estimator` must be an MKLClassifier"):
        kw.SelectViews(make_pipeline("passthrough")).fit(X, labels)
    with pytest.raises(kw.InputError, match="`threshold` must be"):
        kw.SelectViews(svm(), threshold=1.5).fit({"a": X}, labels)
    with pytest.raises(ValueError, match="not fitted"):
        kw.SelectViews(svm()).transform({"a": X})
    views = kw.SelectViews().fit({"a": X, "b": X[:, :1]}, labels)
    assert views.shares_.keys() == {"a", "b"}
    assert clone(views).get_params()["threshold"] == 0.01


def test_selected_views_come_in_the_form_of_the_table(X, labels, recorded):
    """Frames of both kinds, arrays and sparse rows of one table, and views; what cannot be selected says why."""
    groups = {"one": [0, 1], "two": [1, 4], "rest": [2, 3, 5]}
    rule = svm([Linear()], views=groups)
    names = [f"c{j}" for j in range(6)]
    frame = pd.DataFrame(X, columns=names)
    named = svm([Linear()], views={view: [names[j] for j in own] for view, own in groups.items()})
    forms = {
        "array": (rule, X),
        "list": (rule, X.tolist()),
        "sparse": (rule, sparse.csr_array(X)),
        "frame": (named, frame),
        "polars": (named, pl.from_pandas(frame)),
    }
    kept = None
    for name, (estimator, table) in forms.items():
        select = kw.SelectViews(estimator, max_views=2).fit(table, labels)
        found = select.transform(table)
        assert isinstance(found, kw.Views)
        kept = kept or select.views_
        assert found.names == select.views_ == kept, name
        for view in kept:
            part = found[view]
            values = (
                part.toarray()
                if hasattr(part, "toarray")
                else part.to_numpy()
                if hasattr(part, "to_numpy")
                else part
            )
            np.testing.assert_allclose(values, X[:, groups[view]])
            assert type(part).__module__.partition(".")[0] == {
                "sparse": "scipy",
                "frame": "pandas",
                "polars": "polars",
            }.get(name, "numpy")
        np.testing.assert_array_equal(
            select.get_support(indices=True), [list(groups).index(view) for view in kept]
        )
    assert set(kept) != {"one", "rest"}
    default = kw.SelectViews(threshold=0.0).fit({"a": X[:, :2], "b": X[:, 2:]}, labels)
    assert repr(clone(default.estimator_)) == "MKLClassifier(C=10.0, learner='simple')"
    both = {"a": X[:, :2], "b": X[:, 2:]}
    calls = {
        "no estimator": lambda: kw.SelectViews(3).fit(both, labels),
        "one table": lambda: kw.SelectViews(svm([Linear()])).fit(X, labels),
        "not fitted": lambda: kw.SelectViews(svm([Linear()]), prefit=True).fit(both),
        "new table": lambda: default.transform(X),
        "lacking": lambda: (
            kw.SelectViews(svm([Linear()]), threshold=0.0).fit(both, labels).transform({"a": X[:, :2]})
        ),
        "before": lambda: kw.SelectViews().transform(both),
        "threshold": lambda: kw.SelectViews(threshold=1.0).fit(both, labels),
        "none": lambda: kw.SelectViews(max_views=0).fit(both, labels),
    }
    recorded("refused", {name: told(outcome(call)) for name, call in calls.items()})
