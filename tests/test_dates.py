"""Columns of dates: trend, season and elapsed time, from every kind of frame, in fits, files and graphs.

Modules: `views/dates`, `views/tables`, `views/columns`, `views/encoding`.
"""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kernelweave as kw
from kernelweave.views import Table, TableEncoder, as_table
from kernelweave.views.dates import DateForm, at_zone, date_forms, read_dates
from kernelweave.views.tables import DATE

N = 60


@pytest.fixture
def frame(rng):
    """Stays of patients over three years, with times."""
    admitted = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.uniform(0, 1100, N).round(2), unit="D")
    stay = pd.to_timedelta(rng.integers(1, 30, N), unit="D")
    return pd.DataFrame({"age": rng.normal(size=N), "admitted": admitted, "discharged": admitted + stay})


@pytest.fixture
def y(frame):
    season = np.sin(2 * np.pi * frame["admitted"].dt.day_of_year / 365.25)
    return (season + 0.1 * (frame["discharged"] - frame["admitted"]).dt.days).to_numpy()


def taken(X):
    return as_table(X).take()


# ---- what is read of a column -------------------------------------------------------------------------------


def test_trend_and_season_are_those_of_the_calendar(frame):
    column = frame["admitted"]
    found = taken(frame[["admitted"]])
    assert found.shape == (N, 7)
    days = (column - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    np.testing.assert_allclose(found[:, 0], (days - days.mean()) / days.std(ddof=0), atol=1e-9)  # 6e-13
    year = np.arctan2(found[:, 1], found[:, 2]) % (2 * np.pi) / (2 * np.pi)
    own = (column.dt.day_of_year - 1 + column.dt.hour / 24) / 365.2425
    apart = np.abs(year - own)
    # leap days move it by at most a day
    assert np.minimum(apart, 1 - apart).max() < 1.1 / 365  # 0.0027
    # one point of the circle for each weekday, equally far from each other
    week = np.arctan2(found[:, 3], found[:, 4])
    steps = np.round((week - week[0]) / (2 * np.pi / 7)) % 7
    assert (steps == (column.dt.day_of_week - column.dt.day_of_week[0]) % 7).all()
    clock = (column - column.dt.normalize()) / pd.Timedelta(days=1)
    np.testing.assert_allclose(found[:, 5], np.sin(2 * np.pi * clock), atol=1e-9)  # 1e-11
    np.testing.assert_allclose(found[:, 6], np.cos(2 * np.pi * clock), atol=1e-9)


@pytest.mark.parametrize(
    ("dates", "periods"),
    [
        (pd.date_range("2020-01-01", periods=40, freq="h"), ("day",)),
        (pd.date_range("2020-01-01", periods=40), ("week",)),
        (pd.date_range("2020-01-01", periods=400), ("year", "week")),
        (pd.date_range("2020-01-01", periods=400, freq="3h"), ("week", "day")),
        (pd.date_range("2010-01-01", periods=40, freq="MS"), ("year",)),
        (pd.date_range("1990-01-01", periods=30, freq="YS"), ()),
        (pd.date_range("2020-01-01", periods=3), ()),
        (pd.DatetimeIndex(["2020-01-01"] * 5), ()),
    ],
)
def test_only_periods_that_are_covered_are_read(dates, periods):
    [form] = TableEncoder().fit(pd.DataFrame({"when": dates})).dates_
    assert form.periods == periods
    assert as_table(pd.DataFrame({"when": dates})).n_expanded_columns == form.width == 1 + 2 * len(periods)


def test_names_and_sentences_can_be_read(frame):
    form, _ = TableEncoder().fit(frame).dates_
    first = f"{frame['admitted'].min():%Y-%m-%d}"
    assert form.names("admitted")[:3] == [
        f"admitted: days since {first}",
        "admitted: day of the year (sine)",
        "admitted: day of the year (cosine)",
    ]
    assert len(form.names("admitted")) == form.width
    last = f"{frame['admitted'].max():%Y-%m-%d}"
    assert (
        form.describe() == f"dates from {first} to {last}, as trend, day of the year, weekday and time of day"
    )
    assert date_forms({0: np.full(3, -1.5)})[0].describe() == "dates from 1969-12-30 to 1969-12-30, as trend"


def test_elapsed_times_stand_beside_the_columns(frame):
    table = as_table(frame)
    stay = (frame["discharged"] - frame["admitted"]) / pd.Timedelta(days=1)
    np.testing.assert_allclose(
        table.take()[:, -1], (stay - stay.mean()) / stay.std(ddof=0), atol=1e-9
    )  # 3e-12
    # of one of the columns there is none, in any order of both
    assert table.select(["discharged"]).take().shape[1] == 7
    order = table.select(["discharged", "admitted"]).take()
    np.testing.assert_array_equal(order[:, -1], table.take()[:, -1])
    assert table.n_expanded_columns == table.take().shape[1] == 1 + 7 + 7 + 1
    many = pd.DataFrame(
        {f"d{k}": frame["admitted"] + pd.to_timedelta(np.arange(N) % (k + 2), unit="D") for k in range(6)}
    )
    forms = TableEncoder().fit(many).dates_
    assert [[place for place, *_ in form.since] for form in forms] == [[], [0], [1], [2], [3], [4]]
    few = TableEncoder().fit(many.iloc[:, :4]).dates_
    assert sum(len(form.since) for form in few) == 6
    # equal columns are no time apart
    twice = TableEncoder().fit(frame.assign(discharged=frame["admitted"])).dates_
    assert [form.since for form in twice] == [(), ()]


# ---- every way in which dates are given ---------------------------------------------------------------------


def test_frames_of_all_kinds_hold_the_same_dates(frame):
    days = frame[["admitted"]].apply(lambda column: column.dt.normalize())
    expected = taken(days)
    column = days["admitted"]
    same = {
        "nanoseconds": days.astype("datetime64[ns]"),
        "seconds": days.astype("datetime64[s]"),
        "dates of Python": pd.DataFrame({"admitted": column.dt.date}),
        "times of Python": pd.DataFrame({"admitted": [one.to_pydatetime() for one in column]}, dtype=object),
        "timestamps as objects": days.astype(object),
        "periods": pd.DataFrame({"admitted": column.dt.to_period("D")}),
        "polars": pl.from_pandas(days),
        "dates of polars": pl.DataFrame({"admitted": column.dt.date.tolist()}),
        "an array": days.to_numpy().astype("datetime64[D]"),
        "an array of objects": np.array(column.dt.date.tolist(), dtype=object)[:, None],
    }
    pa = pytest.importorskip("pyarrow")
    arrow = pd.DataFrame({"admitted": pd.array(column.dt.date, dtype=pd.ArrowDtype(pa.date32()))})
    same["arrow in pandas"] = arrow
    same["arrow"] = pa.table({"admitted": pa.array(column.dt.date.tolist())})
    for name, X in same.items():
        np.testing.assert_allclose(taken(X), expected, atol=1e-9, err_msg=name)  # 0


def test_durations_are_numbers_of_days(frame):
    stay = frame["discharged"] - frame["admitted"]
    for column in (stay, stay.astype(object), stay.tolist(), pl.Series(stay)):
        table = as_table(
            pl.DataFrame({"stay": column})
            if isinstance(column, pl.Series)
            else pd.DataFrame({"stay": column})
        )
        assert table.levels == (0,)
        np.testing.assert_allclose(table.values[:, 0], stay / pd.Timedelta(days=1), rtol=1e-12)


def test_time_zones_are_those_of_the_fit(frame):
    berlin = frame[["admitted"]].apply(
        lambda column: column.dt.tz_localize("Europe/Berlin", ambiguous=True, nonexistent="shift_forward")
    )
    encoder = TableEncoder().fit(berlin)
    assert encoder.dates_[0].zone == "Europe/Berlin"
    own = encoder.transform(berlin)
    # the clock of Berlin
    local = berlin["admitted"].dt.tz_localize(None)
    np.testing.assert_allclose(own.values, taken_days(local), rtol=1e-12)
    for zone in ("UTC", "America/New_York", datetime.timezone(datetime.timedelta(hours=5, minutes=30))):
        moved = berlin.apply(lambda column, zone=zone: column.dt.tz_convert(zone))
        for X in (moved, moved.astype(object), pl.from_pandas(moved) if isinstance(zone, str) else moved):
            np.testing.assert_allclose(encoder.transform(X).values, own.values, rtol=1e-12)
    # a zone that is an offset
    fixed = berlin["admitted"].dt.tz_convert("+05:30").to_frame()
    [form] = TableEncoder().fit(fixed).dates_
    np.testing.assert_allclose(at_zone(np.zeros(1), form.zone), 5.5 / 24)
    with pytest.raises(
        kw.InputError,
        match=r"'admitted' was in the time zone Europe/Berlin when fitted, got dates without.*tz_localize",
    ):
        encoder.transform(frame[["admitted"]])
    with pytest.raises(
        kw.InputError,
        match=r"had no time zone when fitted, got dates in the time zone Europe/Berlin.*tz_localize\(None\)",
    ):
        TableEncoder().fit(frame[["admitted"]]).transform(berlin)


@pytest.mark.parametrize(
    ("days", "has_week"),
    [
        (pd.date_range("2020-01-31", periods=40, freq="ME"), False),
        (pd.date_range("2020-03-31", periods=12, freq="QE"), False),
        ([pd.Timestamp("2020-01-30") + pd.DateOffset(months=k) for k in range(40)], False),
        (pd.date_range("2020-01-01", periods=40, freq="MS"), False),
        # of business months, and one month with another day
        (pd.date_range("2020-01-31", periods=40, freq="BME"), True),
        ([*pd.date_range("2020-01-31", periods=40, freq="ME"), pd.Timestamp("2021-05-30")], True),
    ],
)
def test_monthly_records_have_no_weekday(days, has_week):
    [form] = TableEncoder().fit(pd.DataFrame({"when": days})).dates_
    assert ("week" in form.periods) == has_week


def taken_days(column):
    return ((column - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)).to_numpy()[:, None]


def test_zones_and_offsets_are_known_by_name():
    summer, winter = 18444.5, 18628.5  # noon of July 1, 2020 and of January 1, 2021
    days = np.array([summer, np.nan, winter])
    np.testing.assert_allclose(at_zone(days, "Europe/Berlin") - days, [2 / 24, np.nan, 1 / 24], atol=1e-9)
    np.testing.assert_allclose(at_zone(days, "UTC-03:30") - days, [-3.5 / 24, np.nan, -3.5 / 24], atol=1e-9)
    for name in ("", "UTC", "no such zone"):
        np.testing.assert_array_equal(at_zone(days, name), days)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([datetime.date(2020, 1, 1), "soon"], "must hold dates only, got 'soon'"),
        ([datetime.date(2020, 1, 1), 3.0], "must hold dates only, got 3.0"),
        ([datetime.timedelta(1), datetime.date(2020, 1, 1)], "must hold dates only"),
        ([pd.Timestamp("2020"), pd.Timestamp("2020", tz="UTC")], "with and without a time zone"),
    ],
)
def test_columns_that_mix_dates_with_others_are_refused(cells, message):
    with pytest.raises(kw.InputError, match=message):
        read_dates(np.array(cells, dtype=object), "column 'day'")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["2020-01-01", "soon"],
            r"'admitted' held dates when fitted, got '2020-01-01' in row 0.*to_datetime",
        ),
        ([18000.0, 2.0], "held dates when fitted, got 18000.0"),
    ],
)
def test_new_rows_must_have_dates_where_there_were_some(frame, cells, message):
    encoder = TableEncoder().fit(frame[["admitted"]])
    with pytest.raises(kw.InputError, match=message):
        encoder.transform(pd.DataFrame({"admitted": cells}))
    with pytest.raises(kw.InputError, match="'age' was numeric when fitted, got dates"):
        TableEncoder().fit(frame[["age"]]).transform(frame[["admitted"]].set_axis(["age"], axis=1))


# ---- fits ---------------------------------------------------------------------------------------------------


def test_a_fit_learns_season_and_elapsed_time(frame, y):
    model = kw.MKLRegressor(learner=kw.learners.RLS2(alpha="auto", relax="auto")).fit(frame[:40], y[:40])
    assert model.score(frame[40:], y[40:]) > 0.8  # 0.90 to 0.98 with ten seeds
    assert (
        model.score(
            frame[40:][["age"]].assign(admitted=frame["admitted"].min(), discharged=frame["admitted"].min()),
            y[40:],
        )
        < 0.3
    )
    said = model.explain_defaults()
    assert "2 columns of dates" in said
    assert "'admitted': dates from" in said
    assert "as trend, day of the year, weekday and time of day." in said
    assert "Elapsed days from 'admitted' to 'discharged'." in said
    # one share for each column that the user knows
    assert model.feature_importances_.shape == (3,)
    assert model.n_features_in_ == 3


@pytest.mark.parametrize("missing", ["impute", "impute-median", "impute-nearest", "skip"])
def test_missing_dates_follow_the_setting(frame, y, missing):
    gaps = frame.copy()
    gaps.loc[[3, 50], "admitted"] = pd.NaT
    gaps.loc[5, "discharged"] = pd.NaT
    model = kw.MKLRegressor(missing=missing).fit(gaps[:40], y[:40])
    assert model.missing_["cells"] == {"admitted": 1, "discharged": 1}
    assert np.isfinite(model.predict(gaps[40:])).all()
    none = gaps[40:].assign(admitted=None)
    assert np.isfinite(model.predict(none)).all()
    assert "Missing cells:" in model.explain_defaults()


def test_missing_dates_are_an_error_otherwise(frame, y):
    gaps = frame.copy()
    gaps.loc[3, "admitted"] = pd.NaT
    with pytest.raises(kw.InputError, match=r"NaN.*'admitted' \(1 of 60 rows\)"):
        kw.MKLRegressor().fit(gaps, y)


def test_filled_dates_are_means():
    X = pd.DataFrame({"when": pd.to_datetime(["2020-01-01", "2020-01-05", None])})
    table = TableEncoder(missing=True).fit_transform(X)
    filled = kw.kernels.Impute().fitted(table).apply(table)
    assert filled.values[2, 0] == filled.values[:2, 0].mean()
    assert np.isnan(table.take()[2]).all()


def test_weights_are_repetitions(frame, y):
    weights = np.arange(N) % 3
    model = kw.MKLRegressor(alpha=1.0).fit(frame, y, sample_weight=weights)
    index = np.repeat(np.arange(N), weights)
    again = kw.MKLRegressor(alpha=1.0).fit(frame.iloc[index], y[index])
    np.testing.assert_allclose(model.predict(frame), again.predict(frame), atol=1e-5)  # 2e-8
    one, other = model.model_.encoder.dates_[0], again.model_.encoder.dates_[0]
    np.testing.assert_allclose([one.mean, one.scale], [other.mean, other.scale], rtol=1e-12)


def test_the_order_of_rows_and_columns_does_not_matter(frame, y, rng):
    model = kw.MKLRegressor(alpha=1.0).fit(frame, y)
    order = rng.permutation(N)
    moved = kw.MKLRegressor(alpha=1.0).fit(frame.iloc[order], y[order])
    np.testing.assert_allclose(moved.predict(frame), model.predict(frame), atol=1e-5)  # 3e-9


def test_kernels_of_your_own_read_dates(frame, y):
    kernels = [
        kw.kernels.RBF(gamma="median").on(["admitted"]),
        kw.kernels.Linear().on(["admitted", "discharged"]),
    ]
    model = kw.MKLRegressor(kernels).fit(frame[:40], y[:40])
    assert model.score(frame[40:], y[40:]) > 0.5  # 0.86 to 0.98 with ten seeds
    np.testing.assert_allclose(model.feature_importances_[0], 0.0)
    bank = kw.MKLRegressor(kw.banks.per_column(frame), standardize=True).fit(frame[:40], y[:40])
    assert np.isfinite(bank.predict(frame)).all()
    assert kw.kernels.Categorical()(frame[["admitted"]])[0, 0] == 1.0
    # a logarithm is one of numbers
    table = as_table(frame)
    logged = kw.kernels.Log1p().apply(table)
    np.testing.assert_array_equal(logged.values[:, 1:], table.values[:, 1:])


def test_views_have_dates(frame, y):
    X = {"a": frame[["age", "admitted"]], "b": frame[["discharged", "admitted"]]}
    model = kw.MKLRegressor().fit({view: own[:40] for view, own in X.items()}, y[:40])
    assert model.score({view: own[40:] for view, own in X.items()}, y[40:]) > 0.5  # 0.85 to 0.98
    assert "b: Elapsed days from 'discharged' to 'admitted'." in model.explain_defaults()
    joined = model.model_.source.table.joined()
    assert joined.levels == (0, DATE, DATE, DATE)
    # elapsed times are those inside of a view
    assert joined.n_expanded_columns == 1 + 7 + 14 + 1 == joined.take().shape[1]


# ---- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("training_rows", [None, True])
def test_model_files_keep_dates(frame, y, tmp_path, training_rows):
    pytest.importorskip("skops")
    zoned = frame.assign(admitted=frame["admitted"].dt.tz_localize("UTC"))
    model = kw.MKLRegressor().fit(zoned, y)
    kw.save(model, tmp_path / "m.skops", training_rows=training_rows)
    again = kw.load(tmp_path / "m.skops")
    np.testing.assert_allclose(again.predict(zoned), model.predict(zoned), atol=1e-9)  # 2e-13
    moved = zoned.assign(admitted=zoned["admitted"].dt.tz_convert("Asia/Tokyo"))
    np.testing.assert_allclose(again.predict(moved), model.predict(zoned), rtol=1e-9)
    with pytest.raises(
        kw.InputError,
        match=r"in the time zone UTC when fitted.*tz_localize\('UTC'\); in a file write offsets",
    ):
        again.predict(frame)


def test_graphs_take_days_since_1970(frame, y, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    model = kw.MKLRegressor().fit(frame, y)
    path = tmp_path / "m.onnx"
    kw.to_onnx(model, path)
    session = ort.InferenceSession(path.read_bytes())
    assert {one.name: one.type for one in session.get_inputs()}["admitted"] == "tensor(double)"
    cells = {"age": frame["age"].to_numpy(np.float64)[:, None]}
    cells |= {name: taken_days(frame[name]) for name in ("admitted", "discharged")}
    kinds = {
        one.name: np.float32 if one.type == "tensor(float)" else np.float64 for one in session.get_inputs()
    }
    [found] = session.run(None, {name: column.astype(kinds[name]) for name, column in cells.items()})
    np.testing.assert_allclose(
        found.ravel(), model.predict(frame), atol=1e-4
    )  # 1e-6, ages in single precision


def test_tables_are_made_of_forms():
    table = Table(
        [[0.0], [400.0]], names=("when",), levels=(DATE,), dates=(DateForm(0, 0.0, 400.0, 200.0, 200.0),)
    )
    np.testing.assert_array_equal(table.take(), [[-1.0], [1.0]])
    np.testing.assert_array_equal(table.like(np.array([[200.0]])).take(), [[0.0]])
    with pytest.raises(kw.InputError, match="a form of dates"):
        Table([[0.0]], levels=(DATE,), dates=("when",))


def test_two_dates_of_every_year_are_no_season_though_some_years_are_longer():
    found = [pd.Timestamp(year, *day) for year in range(2019, 2026) for day in ((3, 2), (11, 1))]
    assert "year" not in taken_form(found).periods
    assert "year" in taken_form([*found, pd.Timestamp(2020, 7, 9)]).periods


def taken_form(days):
    values, _ = read_dates(np.array(days, dtype="datetime64[D]"), "column 0")
    return date_forms({0: values})[0]
