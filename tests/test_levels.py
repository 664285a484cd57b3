"""Columns that name the rows, and columns with many levels, in plain fits.

Modules: `views/levels`, `persistence/onnx_file`, `recipe`, `views/encoding`, `views/tables`, `_sparse`.
"""

import numpy as np
import pandas as pd
import pytest

import kernelweave as kw
from kernelweave.views import TableEncoder, as_texts
from kernelweave.views.levels import identifier, is_called, levels_of, mostly_rare

N = 60
MAKERS = {"Toyota": 0.0, "Volvo": 1.0, "Honda": 0.2, "Skoda": 0.6}


@pytest.fixture
def frame(rng):
    """Cars of many models, with a number plate."""
    makers = rng.choice(list(MAKERS), N)
    return pd.DataFrame(
        {
            "plate": [f"KA-{k:04d}" for k in rng.permutation(N)],
            "power": rng.normal(size=N),
            "model": [f"{maker} {chr(97 + k % 17)}{k % 13}" for k, maker in enumerate(makers)],
            "colour": rng.choice(["red", "blue", "green"], N),
        }
    )


@pytest.fixture
def y(frame):
    return frame["power"].to_numpy() + 2.0 * frame["model"].str.split().str[0].map(MAKERS).to_numpy()


def found_in(frame):
    """By names of columns what the levels of a table are."""
    table = TableEncoder(missing=True).fit_transform(frame)
    found = levels_of(table)
    names = table.column_names
    return (
        [names[j] for j in found.identifiers],
        [names[j] for j in found.texts],
    )


# ---- the rules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "name", "is_identifier"),
    [
        ([f"p{k}" for k in range(20)], "patient", True),
        ([f"sub-{k:03d}" for k in range(20)], "x", True),
        ([f"{k:04d}3fab" for k in range(20)], "checksum", True),
        ([f"{k:08x}-1b2c-4d5e-8f90-a1b2c3d4e5f6" for k in range(20)], "x", True),
        ([f"2f{k:04d}-ab" for k in range(20)], "x", False),
        ([f"decade{a}{b}" for a in "abcde" for b in "bcd1"], "x", False),  # letters alone in most
        ([f"2020-01-{k:02d}" for k in range(10, 30)], "day", False),
        ([f"2020-01-{k:02d}" for k in range(10, 30)], "Unnamed: 0", False),
        ([f"202001{k:02d}" for k in range(10, 30)], "day", False),
        ([f"{k}e10000" for k in range(10, 30)], "x", False),
        ([f"Fe{k}O3" for k in range(20)], "formula", False),
        ([f"{100 + k}/80" for k in range(20)], "pressure", False),
        ([f"{k}-{k + 5}" for k in range(20)], "range", False),
        ([f"V{k}E" for k in range(20)], "mutation", False),
        ([f"{k}mmol/l" for k in range(20)], "glucose", False),
        ([f"{k}e5" for k in range(20)], "count", False),
        ([f"{chr(97 + k)}{k}" for k in range(20)], "residue", False),  # no beginning in common
        ([f"p{max(k, 2)}" for k in range(20)], "patient", True),  # 18 of 20 differ
        ([f"p{max(k, 3)}" for k in range(20)], "patient", False),
        ([f"p{k}" for k in range(9)], "patient", False),
        ([chr(97 + k) * 3 for k in range(20)], "surname", False),
        ([chr(97 + k) * 3 for k in range(20)], "user id", True),
        ([f"model {k}" for k in range(20)], "car", False),
        ([f"{k}.5mg" for k in range(20)], "dose", False),
        ([f"12:{k:02d}:30" for k in range(20)], "clock", False),
        ([f"10.0.{k}.1" for k in range(20)], "address", False),
        ([f"C{k}(=O)O" for k in range(20)], "molecule", False),
        (np.arange(5000.0, 5020.0), "SampleID", True),
        (np.arange(20.0) ** 2, "SampleID", True),
        (np.arange(20.0), "Unnamed: 0", True),
        (np.arange(20.0) * 2, "Unnamed: 0", True),  # of some rows
        (np.arange(20.0) + 7, "dose_no", True),
        *((np.arange(20.0) ** 2, name, False) for name in ("index", "number", "no", "Nr", "row", "dose_no")),
        (np.arange(20.0), "year", False),
        (np.arange(20.0) + 0.5, "patient_id", False),
        (np.arange(20.0) // 2, "patient_id", False),
    ],
)
def test_identifiers_are_told_from_measurements(values, name, is_identifier):
    assert bool(identifier(values, name, len(values))) == is_identifier


def test_names_of_identifiers():
    assert all(map(is_called, ["id", "patient_id", "sample no", "PatientID", "", "index", "row.names"]))
    assert not any(map(is_called, ["paid", "width", "growth", "piano", "indexed", "rows"]))


def test_levels_are_rare_below_three_rows():
    assert not mostly_rare(np.full(20, 1))
    assert mostly_rare(np.full(21, 2))
    assert not mostly_rare(np.full(21, 3))
    # half of the rows
    assert mostly_rare(np.r_[np.full(20, 1), 10, 10])
    assert not mostly_rare(np.r_[np.full(20, 1), 10, 11])
    # of rows, and not of levels, at least half are in rare ones
    assert mostly_rare(np.array([2] * 20 + [40]))
    assert not mostly_rare(np.array([2] * 20 + [41]))
    assert not mostly_rare(np.array([1] * 21 + [22]))


def test_columns_of_a_table(frame, rng):
    towns = np.r_[np.repeat([f"town {k}" for k in range(5)], 9), [f"place {k}" for k in range(N - 45)]]
    assert found_in(frame.assign(town=towns)) == (["plate"], ["model"])
    many = np.r_[np.repeat([f"town {k}" for k in range(16)], 3), [f"place {k}" for k in range(N - 48)]]
    assert found_in(frame.assign(town=many)) == (["plate"], ["model"])
    # few levels, numbers and categories that the frame declares are as before
    for column in (np.arange(N) % 20, rng.normal(size=N), pd.Categorical(frame["model"])):
        assert found_in(pd.DataFrame({"a": column, "b": frame["power"]})) == ([], [])
    # a table of identifiers alone keeps them
    assert found_in(frame[["plate"]])[0] == []


def test_repeated_rows_and_their_order_change_nothing(frame, rng):
    towns = np.r_[np.repeat([f"town {k}" for k in range(16)], 3), [f"place {k}" for k in range(N - 48)]]
    frame = frame.assign(town=towns)
    once = found_in(frame)
    assert found_in(frame.iloc[np.repeat(np.arange(N), rng.integers(1, 4, N))]) == once
    assert found_in(frame.iloc[rng.permutation(N)]) == once
    # visits of patients are no repetitions: their number is no identifier, and may mean something
    visits = pd.concat([frame, frame.assign(power=rng.normal(size=N))])
    assert found_in(visits)[0] == []


# ---- fits ---------------------------------------------------------------------------------------------------


def test_identifiers_change_no_prediction(frame, y):
    model = kw.MKLRegressor().fit(frame[:40], y[:40])
    without = kw.MKLRegressor().fit(frame[:40].drop(columns="plate"), y[:40])
    expected = without.predict(frame[40:].drop(columns="plate"))
    np.testing.assert_allclose(model.predict(frame[40:]), expected, atol=1e-12)  # 0
    # whatever they hold
    for other in ("unknown", None, 3.0):
        np.testing.assert_allclose(model.predict(frame[40:].assign(plate=other)), expected, atol=1e-12)
    assert (
        "'plate' is left out: it looks like a row identifier (40 distinct values in 40 rows)."
        in model.explain_defaults()
    )
    assert model.feature_importances_[0] == 0.0
    assert model.n_features_in_ == 4


def test_numbers_that_name_rows_are_left_out_too(frame, y, rng):
    numbered = frame.assign(plate=rng.permutation(N) + 5000).rename(columns={"plate": "plate_id"})
    model = kw.MKLRegressor(missing="impute").fit(numbered[:40], y[:40])
    without = kw.MKLRegressor(missing="impute").fit(numbered[:40].drop(columns="plate_id"), y[:40])
    new = numbered[40:].assign(plate_id=np.nan)
    np.testing.assert_allclose(
        model.predict(new), without.predict(new.drop(columns="plate_id")), atol=1e-12
    )  # 0
    assert "'plate_id' is left out" in model.explain_defaults()
    # by those who name kernels, nothing is left out
    own = kw.MKLRegressor([kw.kernels.Linear()]).fit(numbered[["plate_id", "power"]], y)
    assert own.coef_.shape == (2,)
    views = kw.MKLRegressor(views={"a": ["plate_id", "power"]}).fit(numbered[["plate_id", "power"]], y)
    assert "'plate_id' is left out: it looks like a row identifier" in views.explain_defaults()
    # arrays have no names
    assert "row identifier" not in kw.MKLRegressor().fit(np.c_[np.arange(N), y], y).explain_defaults()


def test_names_that_resemble_each_other_are_compared_as_texts(frame, y):
    model = kw.MKLRegressor().fit(frame[:40], y[:40])
    said = model.explain_defaults()
    assert "'model' has 40 levels, most rows with a rare one: compared as texts." in said
    assert "CharNGrams" in said
    # of makers that were seen, though no model was
    assert model.score(frame[40:], y[40:]) > 0.5  # 0.83 to 0.97 with ten seeds
    declared = kw.MKLRegressor().fit(frame[:40].assign(model=as_texts(frame["model"][:40])), y[:40])
    again = declared.predict(frame[40:].assign(model=as_texts(frame["model"][40:])))
    np.testing.assert_allclose(model.predict(frame[40:]), again, atol=1e-12)  # 0


def test_dates_as_texts_are_no_identifiers(frame, y):
    day = pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d").to_numpy()
    said = kw.MKLRegressor().fit(frame.assign(day=day), y).explain_defaults()
    assert (
        "'day' has 60 levels, most rows with a rare one: compared as texts. These are dates: convert" in said
    )
    assert "'day' is left out" not in said
    assert said.count("pandas.to_datetime") == 1


def test_columns_that_are_left_out_do_not_count(frame, y):
    assert found_in(frame) == (["plate"], ["model"])
    model = kw.MKLClassifier().fit(frame, y > 1)
    assert "3 columns, 1 of them categories" in model.explain_defaults()
    metric = kw.MKLRegressor(learner="metric").fit(frame[["plate", "power", "colour"]], y)
    assert "2 columns: standardised" in metric.explain_defaults()


def test_many_levels_stay_categories_where_missing_cells_are_skipped(frame, y):
    gaps = frame.assign(power=frame["power"].where(np.arange(N) % 7 > 0))
    model = kw.MKLRegressor(missing="skip").fit(gaps, y)
    said = model.explain_defaults()
    assert "compared as texts" not in said
    assert "'plate' is left out" in said
    assert "2 of them categories, as 63 indicator columns" in said
    declared = gaps.assign(model=gaps["model"].astype("category"))
    again = kw.MKLRegressor(missing="skip").fit(declared, y)
    np.testing.assert_allclose(model.predict(gaps), again.predict(declared), atol=1e-12)  # 0


def test_views_and_classes(frame, y):
    X = {"car": frame[["plate", "model"]], "rest": frame[["power", "colour"]], "names": frame[["plate"]]}
    model = kw.MKLClassifier().fit({view: own[:40] for view, own in X.items()}, y[:40] > 1)
    said = model.explain_defaults()
    assert "car: 'plate' is left out: it looks like a row identifier" in said
    assert "car: 'model' has 40 levels" in said
    # a view of identifiers alone keeps them
    assert "names: 'plate' is left out" not in said
    found = model.predict({view: own[40:] for view, own in X.items()})
    assert found.shape == (N - 40,)


def test_views_of_one_table(frame, y):
    groups = {"car": ["plate", "model"], "rest": ["power", "colour"], "names": ["plate"]}
    told = {}
    for views in (groups, {view: own for view, own in groups.items() if view != "names"}):
        one = kw.MKLClassifier(views=views).fit(frame, y > 1)
        other = kw.MKLClassifier(kw.banks.views(views)).fit(frame, y > 1)
        told["names" in views] = one.explain_defaults()
        assert told["names" in views] == other.explain_defaults()
        np.testing.assert_allclose(
            one.decision_function(frame), other.decision_function(frame), atol=1e-12
        )  # 0
    assert "  'plate' is left out: it looks like a row identifier" in told[False]
    assert "car: 1 column" in told[False]
    # a view of identifiers alone keeps them
    assert "'plate' is left out" not in told[True]


@pytest.mark.parametrize("training_rows", [None, True])
def test_model_files_leave_out_the_same(frame, y, tmp_path, training_rows):
    pytest.importorskip("skops")
    model = kw.MKLRegressor().fit(frame, y)
    kw.save(model, tmp_path / "m.skops", training_rows=training_rows)
    again = kw.load(tmp_path / "m.skops")
    np.testing.assert_allclose(
        again.predict(frame.assign(plate="x")), model.predict(frame), atol=1e-9
    )  # 3e-14


def test_graphs_have_no_input_for_them(frame, y, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X = frame[["plate", "power", "colour"]]
    kw.to_onnx(kw.MKLRegressor().fit(X, y), tmp_path / "m.onnx")
    session = ort.InferenceSession((tmp_path / "m.onnx").read_bytes())
    assert [one.name for one in session.get_inputs()] == ["power", "colour"]
