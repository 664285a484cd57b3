"""Arrays of other libraries and devices: answers are those of NumPy arrays, in the library of the arguments.

array-api-strict has a second device, whose memory NumPy cannot read, and one without float64.

Modules: `_devices`, `gram/device_gram`, `gram/stack`, `gram/row_checks`, `rows/predicting`, `gram/statistics`,
`rows/folds`.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelweave as kw
from kernelweave import InputError, _devices
from kernelweave._devices import hosted, moved
from kernelweave.gram import as_gram

xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not there")
ELSEWHERE, SINGLE = xp.Device("device1"), xp.Device("no_float64")


def strict(values, device=ELSEWHERE):
    return xp.asarray(np.ascontiguousarray(values), device=device)


def make_kernels(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)
    gram = np.exp(-0.5 * np.square(X[:, None] - X))
    gram[:, :, 4] = np.outer(X[:, 1], X[:, 1])
    return gram, y


def make_features(n=60, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 20)).astype(np.float32)
    return Z, np.arange(0, 21, 4), Z[:, :3] @ rng.normal(size=3) + rng.normal(size=n)


# ---- kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [7, 2**26])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_passes_over_kernels_on_a_device(monkeypatch, rng, piece, dtype):
    monkeypatch.setattr("kernelweave.gram.device_gram.PIECE", piece)
    gram = make_kernels(13)[0].astype(dtype)
    there, here = as_gram(strict(gram)), as_gram(gram)
    assert type(there).__name__ == "DeviceGram"
    assert "device1" in there.describe()
    assert there.nbytes == gram.nbytes
    C, weights, H = rng.normal(size=(2, 13)), np.array([0.2, 0.0, 0.0, 0.3, 0.0]), rng.normal(size=(13, 13))
    some, rows, p = np.array([3, 1]), np.array([5, 2, 9]), np.full(13, 1 / 13)
    scale = rng.uniform(0.5, 2.0, size=(5, 13))
    pairs = [
        (there, here),
        (there.take(some), here.take(some)),
        (there.restrict(rows), here.restrict(rows)),
        (there.center(p), here.center(p)),
        (there.rescale(scale), here.rescale(scale)),
    ]
    for a, b in pairs:
        own, n = np.arange(a.n_kernels)[-1:], a.n_samples
        near = {"rtol": 1e-12, "atol": 1e-12}
        assert_allclose(a.diagonal(), b.diagonal(), **near)
        assert_allclose(a.quadratic_forms(C[:, :n]), b.quadratic_forms(C[:, :n]), **near)
        assert_allclose(a.matvecs(C[:, :n]), b.matvecs(C[:, :n]), **near)
        assert_allclose(a.matvecs(C[:, :n], own), b.matvecs(C[:, :n], own), **near)
        assert_allclose(a.inner(H[:n, :n]), b.inner(H[:n, :n]), **near)
        for w in (weights[: a.n_kernels], np.ones(a.n_kernels), np.zeros(a.n_kernels)):
            assert_allclose(a.combine(w), b.combine(w), **near)
            out = np.ones((n, n))
            a.add_combination(w, out, empty=False)
            assert_allclose(np.triu(out), np.triu(1.0 + b.combine(w)), **near)
        assert_allclose(a.panel(slice(1, 3)), b.panel(slice(1, 3)), **near)


def test_solvers_of_kernels_on_a_device():
    gram, y = make_kernels()
    there, targets = strict(gram), strict(y)
    labels = np.sign(y)
    for a, b, problem in (
        (
            kw.solve_rls2(there, targets, 0.5),
            kw.solve_rls2(gram, y, 0.5),
            kw.problems.rls2_problem(there, targets),
        ),
        (
            kw.solve_svm_mkl(there, strict(labels), 1.0),
            kw.solve_svm_mkl(gram, labels, 1.0),
            kw.problems.margin_problem(there, labels, 1.0),
        ),
    ):
        assert a.weights.device == a.dual_coef.device == ELSEWHERE
        assert abs(a.primal - b.primal) <= a.gap + b.gap
        assert a.verify(problem).status is kw.solvers.Status.CONVERGED
    seen = []
    path = kw.rls2_path(
        there, y, [1.0, 0.1], callback=lambda k, one: seen.append(one.weights.device), relax=0.05
    )
    want = kw.rls2_path(gram, y, [1.0, 0.1], relax=0.05)
    assert seen == [ELSEWHERE] * 2
    assert path.weights.shape == (2, 5)
    # measured: 5e-14, and 2e-15 of the degrees of freedom
    assert_allclose(hosted(path.dual_coef), want.dual_coef, atol=1e-11)
    assert (path.n_active == want.n_active).all()
    assert_allclose(path.df, want.df, rtol=1e-11)
    warm = kw.solve_svm_mkl(there, labels, 1.1, start=kw.solve_svm_mkl(there, labels, 1.0))
    assert warm.status is kw.solvers.Status.CONVERGED


def test_kernels_on_a_device_are_checked():
    gram, y = make_kernels(12)
    crooked = gram.copy()
    crooked[0, 1, 2] += 0.1
    distances = np.abs(np.subtract.outer(y, y))[:, :, None]
    broken = gram.copy()
    broken[3, 4, 1] = broken[4, 3, 1] = np.nan
    negative = gram - 0.5 * np.eye(12)[:, :, None]
    for wrong, words in (
        (crooked, "Kernel 2 must be symmetric"),
        (broken, "kernel 1 holds NaN"),
        (distances, "no diagonal entry"),
        (negative, "positive semidefinite"),
        (gram[:5], "shape"),
        (gram + 0j, "real numbers"),
    ):
        with pytest.raises(InputError, match=words):
            kw.solve_rls2(strict(wrong), y, 1.0)
    # numbers of single precision may differ by their rounding: halves are averaged
    rounded = gram.astype(np.float32)
    rounded[0, 1, 0] = np.nextafter(rounded[0, 1, 0], np.float32(2))
    stack = as_gram(strict(rounded))
    whole = hosted(stack.stack)
    assert (whole == whole.transpose(1, 0, 2)).all()
    assert as_gram(strict(gram.astype(np.float32), SINGLE)).kind is None


# ---- features -------------------------------------------------------------------------------------


def test_features_are_moved_to_a_device_and_results_are_of_the_kind_that_was_given():
    Z, groups, y = make_features()
    here = kw.solve_rls2(kw.FeatureStack(Z, groups), y, 1.0)
    there = kw.FeatureStack(Z, groups, device=ELSEWHERE)
    assert "device1" in repr(there)
    found = kw.solve_rls2(there, y, 1.0)
    assert isinstance(found.feature_coef, np.ndarray)
    # measured: 0
    assert_allclose(found.feature_coef, here.feature_coef, atol=1e-11)
    given = kw.FeatureStack(strict(Z), groups, device=xp.Device("CPU_DEVICE"))
    assert given.Z.dtype == np.float32
    found = kw.solve_rls2(given, strict(y), 1.0, sample_weight=strict(np.r_[0.0, np.ones(59)]))
    assert found.feature_coef.device == ELSEWHERE
    assert found.feature_coef.dtype == xp.float64
    path = kw.solvers.svm_mkl_path(given, strict(np.sign(y)), [0.1, 1.0], loss="logistic")
    assert path.feature_coef.shape == (2, 20)
    assert path.feature_coef.device == ELSEWHERE


def test_a_device_without_float64_says_what_its_sums_certify():
    Z, groups, y = make_features()
    stack, exact = kw.FeatureStack(Z, groups, device=SINGLE), kw.FeatureStack(Z, groups)
    assert stack.precision == np.finfo(np.float32).eps
    assert exact.precision == np.finfo(np.float64).eps
    for alpha in (30.0, 0.3):
        best = kw.solve_rls2(exact, y, alpha, tol=1e-12)
        rough = kw.solve_rls2(stack, y, alpha, tol=1e-3)
        assert rough.status is kw.solvers.Status.CONVERGED
        assert abs(rough.primal - best.primal) <= rough.gap <= 1e-3 * rough.primal
        # less than 1e-4 is not certified, and said; the solution is as good as in float64
        fine = kw.solve_rls2(stack, y, alpha, tol=1e-6)
        assert fine.status is kw.solvers.Status.ROUNDING
        assert 1e-6 < fine.rel_gap < 1e-3
        assert abs(fine.primal - best.primal) <= 1e-6 * best.primal
        problem = kw.problems.rls2_problem(stack, y)
        assert rough.verify(problem).status is kw.solvers.Status.CONVERGED
    labels = np.sign(y)
    found = kw.solve_svm_mkl(stack, labels, 0.1, loss="logistic", tol=1e-3)
    assert found.status is kw.solvers.Status.CONVERGED
    assert found.rounding > 1e7 * kw.solve_svm_mkl(exact, labels, 0.1, loss="logistic", tol=1e-3).rounding
    # results of arrays there come back where all of their digits fit
    own = kw.solve_rls2(kw.FeatureStack(strict(Z, SINGLE), groups), y, 1.0, tol=1e-3)
    assert own.weights.dtype == xp.float64


def test_wrong_devices():
    Z, groups, _ = make_features()
    for device, words in (
        ("no-such-device", r"needs torch|cannot be used"),
        (3, "must be a text"),
    ):
        with pytest.raises(InputError, match=words):
            kw.FeatureStack(Z, groups, device=device)
    with pytest.raises(InputError, match="holds float64"):
        kw.FeatureStack(Z.astype(float), groups, device=SINGLE)
    from scipy import sparse

    with pytest.raises(InputError, match="sparse"):
        kw.FeatureStack(sparse.csr_array(Z), groups, device=ELSEWHERE)
    assert (hosted(moved(Z[::-1], ELSEWHERE, "Z")) == Z[::-1]).all()
    wide = moved(Z.astype(np.float64), ELSEWHERE, "Z")
    assert (wide.dtype, wide.device) == (xp.float64, ELSEWHERE)
    assert moved(wide, ELSEWHERE, "Z") is wide


# ---- sums over rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("piece", [1, 2**25])
def test_sums_over_rows_of_a_device(monkeypatch, piece, weighted):
    monkeypatch.setattr("kernelweave.gram.statistics.PIECE_THERE", piece)
    Z, groups, y = make_features(900)
    Z = Z + np.float32(100.0)
    weights = np.linspace(0.0, 2.0, 900) if weighted else None
    want = kw.rows.block_statistics(Z, y, groups=groups, sample_weight=weights)
    there = strict(Z)
    given = None if weights is None else strict(weights)
    found = kw.rows.block_statistics(there, strict(y), groups=groups, sample_weight=given)
    part = slice(0, 400)
    own = None if weights is None else weights[part]
    mixed = kw.BlockStatistics(groups).add(there[part, :], y[part], own)
    mixed.add(Z[400:600], y[400:600], None if weights is None else weights[400:600])
    rest = strict(Z[600:], xp.Device("device2"))
    mixed.add(rest, y[600:], None if weights is None else weights[600:])
    moved_there = kw.BlockStatistics(groups, device=ELSEWHERE).add(Z, y, weights)
    for one in (found, mixed, moved_there, mixed.copy(), kw.BlockStatistics(groups).merge(moved_there)):
        assert one.n_rows == want.n_rows
        for centered in (False, True):
            size = np.abs(want.products(centered=centered)).max()
            assert_allclose(
                one.products(centered=centered), want.products(centered=centered), atol=1e-13 * size
            )
            assert_allclose(one.reach(centered=centered), want.reach(centered=centered), rtol=1e-10)
    result = kw.solve_rls2(found, alpha=1.0, fit_intercept=True)
    same = kw.solve_rls2(want, alpha=1.0, fit_intercept=True)
    assert abs(result.primal - same.primal) <= result.gap + same.gap
    assert isinstance(result.feature_coef, np.ndarray)


def test_folds_chunks_and_predictions_of_a_device():
    import pickle

    Z, groups, y = make_features(300)
    there = strict(Z)
    folds = kw.rows.block_statistics(there, y, groups=groups, folds=3)
    want = kw.rows.block_statistics(Z, y, groups=groups, folds=3)
    moved_there = kw.rows.block_statistics(Z, y, groups=groups, folds=3, device=ELSEWHERE)
    chunks = kw.rows.block_statistics(
        ((there[k : k + 50, :], y[k : k + 50]) for k in range(0, 300, 50)), folds=3
    )
    for other in (folds, moved_there, pickle.loads(pickle.dumps(moved_there)), chunks):
        for a, b in zip(other.parts, want.parts, strict=True):
            assert_allclose(a.ZtZ, b.ZtZ, rtol=1e-10, atol=1e-10)
    single = kw.rows.block_statistics(strict(Z, SINGLE), y, groups=groups)
    assert_allclose(single.ZtZ, want.total.ZtZ, rtol=1e-10, atol=1e-10)
    path = kw.rls2_path(want.total, alphas=[1.0, 0.1], fit_intercept=True)
    expected = kw.rows.predict_rows(path, Z)
    for rows, device in ((there, ELSEWHERE), (strict(Z, SINGLE), xp.Device("CPU_DEVICE"))):
        got = kw.rows.predict_rows(path, rows)
        assert got.device == device
        assert_allclose(hosted(got), expected, rtol=1e-10, atol=1e-10)
    own = kw.solve_rls2(kw.FeatureStack(there, groups), y, 1.0)
    assert_allclose(kw.rows.predict_rows(own, Z), Z @ hosted(own.feature_coef))
    broken = Z.copy()
    broken[3, 2] = np.inf
    for wrong, words in ((broken, "1 infinity"), (Z[:, :4], "20 columns"), (Z + 0j, "real numbers")):
        with pytest.raises(InputError, match=words):
            kw.BlockStatistics(groups).add(strict(wrong), y)


@pytest.mark.parametrize("folds", [None, 3])
def test_errors_of_a_device_leave_statistics_as_they_were(monkeypatch, folds):
    from kernelweave.gram.statistics import DeviceSums

    monkeypatch.setattr("kernelweave.gram.statistics.PIECE_THERE", 1)
    Z, groups, y = make_features(1800)
    options = {"groups": groups, "folds": folds}
    want = kw.rows.block_statistics(Z, y, **options)
    found = kw.rows.block_statistics(strict(Z[:900]), y[:900], **options)
    calls, real = [], DeviceSums.add_rows

    def add_rows(self, *args):
        calls.append(1)
        part = real(self, *args)
        # products of these rows are in when the memory is full; of folds, those of the first are complete
        if len(calls) == 3:
            raise RuntimeError("out of memory")
        return part

    with monkeypatch.context() as context:
        context.setattr(DeviceSums, "add_rows", add_rows)
        with pytest.raises(RuntimeError, match="out of memory"):
            found.add(strict(Z[900:]), y[900:])
    found.add(strict(Z[900:]), y[900:])
    parts = zip(found.parts, want.parts, strict=True) if folds else [(found, want)]
    for a, b in parts:
        assert a.n_rows == b.n_rows
        assert_allclose(a.products(centered=True), b.products(centered=True), rtol=1e-9, atol=1e-9)
    # statistics without rows stay so
    empty = kw.BlockStatistics()
    calls.clear()
    with monkeypatch.context() as context:
        context.setattr(DeviceSums, "add_rows", add_rows)
        with pytest.raises(RuntimeError, match="out of memory"):
            empty.add(strict(Z[:900]), y[:900])
    assert empty.add(Z[:, :4], y).n_features == 4


def test_libraries_with_functions_of_their_own_are_wrapped(monkeypatch):
    monkeypatch.setattr(_devices, "_compat", lambda: SimpleNamespace(array_namespace=lambda _: "wrapped"))
    for library, found in (("torch", "wrapped"), ("cupy", "wrapped"), ("another", "its own")):
        kind = type(
            "Tensor", (), {"__module__": f"{library}.arrays", "__array_namespace__": lambda _: "its own"}
        )
        assert _devices.namespace_of(kind()) == found
