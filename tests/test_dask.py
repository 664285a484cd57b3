"""Dask: the same sums, paths and predictions on workers, of which one may be lost.

Modules: `rows/dask_rows`, `rows/parallel`, `rows/collecting`, `rows/predicting`, `rows/sources`.
"""

import os
import signal
import threading
import time

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kernelweave as kw
from kernelweave import InputError
from kernelweave.rows.parallel import dask_client, each

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


def cluster(**options):
    return distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50, memory_limit=0, **options
    )


@pytest.fixture(scope="module")
def client():
    """Two workers in this process."""
    with cluster(processes=False) as workers, distributed.Client(workers) as client:
        yield client


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(600, 12)) + 3.0
    return Z, np.arange(0, 13, 3), Z[:, 0] - Z[:, 4] + rng.normal(size=600), rng.uniform(0.5, 2.0, size=600)


def products(found):
    return found.products(centered=False)


def _process():
    """Number of the process, after the imports of its tasks."""
    import kernelweave.rows.validation

    return os.getpid() if kernelweave else 0


def slow(Z):
    """Features that take their time, so that a worker can be lost meanwhile."""
    time.sleep(0.05)
    return Z


def test_without_a_cluster(data):
    Z, groups, y, w = data
    wanted = kw.rows.FoldStatistics(3, groups).add(Z, y, w)
    rows = da.from_array(Z, chunks=(170, 5))
    found = kw.rows.block_statistics(
        rows, y, groups=groups, sample_weight=da.from_array(w, chunks=100), folds=3
    )
    for a, b in zip(found.parts, wanted.parts, strict=True):
        # folds are those of the rows in memory
        assert a.n_rows == b.n_rows
        assert_allclose(products(a), products(b), rtol=1e-12)
    again = kw.rows.block_statistics(
        rows, y, groups=groups, sample_weight=w, into=kw.BlockStatistics(groups).add(Z, y, w)
    )
    assert again.n_rows == 1200
    unknown = rows[rows[:, 0] > 3.0]
    target = da.from_array(y, chunks=170)[rows[:, 0] > 3.0]
    assert kw.rows.block_statistics(unknown, target, groups=groups).n_rows == (Z[:, 0] > 3.0).sum()
    for given, options, words in [
        (rows, {}, "`y` must hold"),
        (rows, {"y": y[:5]}, "one row per row"),
        (unknown, {"y": y}, "as many blocks"),
        (rows[:, 0], {"y": y}, "`rows` must have shape"),
        (rows, {"y": y, "target": "y"}, "`target` must be None"),
    ]:
        with pytest.raises(InputError, match=words):
            kw.rows.block_statistics(given, **options)


def test_frames(data):
    dd = pytest.importorskip("dask.dataframe")
    Z, groups, y, w = data
    names = [f"x{j}" for j in range(12)]
    frame = pd.DataFrame(Z, columns=names).assign(y=y, w=w)
    rows = dd.from_pandas(frame, npartitions=4)
    found = kw.rows.block_statistics(rows, target="y", weight="w", groups=groups, columns=names)
    assert_allclose(products(found), products(kw.BlockStatistics(groups).add(Z, y, w)), rtol=1e-12)
    result = kw.solve_rls2(found, alpha=1.0, fit_intercept=True)
    wanted = Z @ result.feature_coef + result.intercept
    assert_allclose(kw.rows.predict_rows(result, rows, columns=names).compute(), wanted)


def test_folds_files_and_predictions_on_workers(client, data, tmp_path, monkeypatch):
    Z, groups, y, _ = data
    monkeypatch.setattr("kernelweave.rows.sources.MOST", 12 * 100)
    folds = kw.rows.block_statistics(Z, y, groups=groups, folds=3)
    wanted = kw.rows.rls2_path_cv(folds, n_alphas=5)
    names = [f"x{j}" for j in range(12)]
    for k in range(3):
        part = pd.DataFrame(Z[200 * k : 200 * k + 200], columns=names).assign(y=y[200 * k : 200 * k + 200])
        part.to_csv(tmp_path / f"{k}.csv", index=False)
    with joblib.parallel_config(backend="dask"):
        assert dask_client() is not None
        found = kw.rows.rls2_path_cv(folds, n_alphas=5)
        files = kw.rows.block_statistics(tmp_path, target="y", groups=groups)
        f = kw.rows.predict_rows(found.best, tmp_path, columns=names)
        parts = kw.rows.block_statistics(Z, y, groups=groups, folds=3)
        again = kw.rows.predict_rows(found.best, Z)
    assert dask_client() is None
    assert_allclose(found.mse, wanted.mse, rtol=1e-12)
    assert_allclose(products(files), products(folds.total), rtol=1e-9)
    assert parts.taken == {"": 600}
    assert_allclose(products(parts.total), products(folds.total), rtol=1e-12)
    assert_allclose(again, f)
    assert_allclose(f, Z @ found.best.feature_coef + found.best.intercept)
    lazy = kw.rows.predict_rows(found.path, da.from_array(Z, chunks=(170, 5)))
    assert lazy.shape == (600, 5)
    assert_allclose(lazy[:, found.best_index].compute(), f, rtol=1e-12)


def test_estimators_on_workers(client, data):
    X, _, y, _ = data
    model = kw.MKLRegressorCV(kw.banks.linear_features(12), alphas=[1.0, 0.1], cv=3)
    wanted = model.fit(X, y).alpha_
    with joblib.parallel_config(backend="dask"):
        found = model.set_params(n_jobs=2).fit(X, y)
    assert found.alpha_ == wanted


@pytest.mark.nightly
@pytest.mark.slow
def test_a_lost_worker_loses_nothing(data):
    Z, groups, y, w = data
    rows = da.from_array(Z, chunks=(20, 12))
    with cluster() as workers, distributed.Client(workers) as client:
        victim = next(iter(client.run(_process).values()))
        threading.Timer(0.4, os.kill, (victim, signal.SIGKILL)).start()
        found = kw.rows.block_statistics(rows, y, groups=groups, sample_weight=w, folds=3, features=slow)
    with pytest.raises(ProcessLookupError):
        os.kill(victim, 0)
    memory = kw.rows.FoldStatistics(3, groups).add(Z, y, w)
    alphas = [100.0, 10.0, 1.0]
    a, b = (kw.rls2_path(one.total, alphas=alphas, tol=1e-11, fit_intercept=True) for one in (found, memory))
    # largest difference 3e-15
    assert_allclose(a.primal, b.primal, rtol=1e-10)
    assert_allclose(products(found.total), products(memory.total), rtol=1e-12)


class Cancelled:
    """A client whose tasks are cancelled so many times, as by a restart of its workers."""

    status = "running"

    def __init__(self, times, error):
        self.times, self.error, self.sent, self.stopped = times, error, 0, []

    def scatter(self, values, hash):
        return values

    def submit(self, function, *held, **options):
        self.sent += 1
        return Waiting(self, function(*held))

    def cancel(self, futures):
        self.stopped = futures


class Waiting:
    def __init__(self, client, value):
        self.client, self.value = client, value

    def result(self):
        if self.client.times:
            self.client.times -= 1
            raise self.client.error
        return self.value


def test_tasks_that_a_restart_cancelled_are_sent_again(monkeypatch):
    from concurrent.futures import CancelledError

    for times, sent in [(0, 4), (2, 6)]:
        client = Cancelled(times, CancelledError())
        monkeypatch.setattr("kernelweave.rows.parallel.dask_client", lambda c=client: c)
        assert list(each(pow, [(k, 2) for k in range(4)], None)) == [0, 1, 4, 9]
        assert client.sent == sent
        assert not client.stopped
    for times, status, sent in [(9, "running", 7), (1, "closed", 4)]:
        client = Cancelled(times, CancelledError())
        client.status = status
        monkeypatch.setattr("kernelweave.rows.parallel.dask_client", lambda c=client: c)
        with pytest.raises(RuntimeError, match="cluster of Dask ended"):
            list(each(pow, [(k, 2) for k in range(4)], None))
        assert client.sent == sent
        assert len(client.stopped) == (4 if status == "running" else 0)
    client = Cancelled(1, distributed.scheduler.KilledWorker("part", None, 3))
    monkeypatch.setattr("kernelweave.rows.parallel.dask_client", lambda c=client: c)
    with pytest.raises(RuntimeError, match="given to 4 workers of Dask"):
        list(each(pow, [(2, 2)], None))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_restart_loses_nothing_and_a_closed_client_says_what_to_do(data):
    Z, groups, y, w = data
    rows = da.from_array(Z, chunks=(20, 12))
    with cluster() as workers, distributed.Client(workers) as client:
        client.run(_process)
        restart = threading.Timer(0.4, client.restart)
        restart.start()
        found = kw.rows.block_statistics(rows, y, groups=groups, sample_weight=w, features=slow)
        restart.join()
        assert_allclose(products(found), products(kw.BlockStatistics(groups).add(Z, y, w)), rtol=1e-12)
        close = threading.Timer(0.4, client.close)
        close.start()
        with pytest.raises(RuntimeError, match="continue by `into=`"):
            kw.rows.block_statistics(rows, y, groups=groups, sample_weight=w, features=slow)
        close.join()
