"""Paths: each point is a certified solution, and the range, order and criteria are what they say.

Modules: `mkl/path`, `mkl/solve`, `results/path`.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import kernelweave as kw
from kernelweave.gram import FactorGram
from kernelweave.mkl.regularization import compute_criteria, smallest_single
from kernelweave.mkl.ridge_problem import make_problem as solver_problem
from kernelweave.results import Certificate, Path, RelaxedSolution, Solution, Status
from oracles import central_difference
from problems import KINDS, make_problem


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_is_a_sequence_of_solutions(kind):
    gram, y = make_problem(kind, np.random.default_rng(0))
    path = kw.rls2_path(gram, y, n_alphas=12, tol=1e-8)
    assert (np.diff(path.alphas) < 0).all()
    assert path.rel_gap.max() <= 1e-8
    for k in (0, 5, 11):
        single = kw.solve_rls2(gram, y, path.alphas[k], tol=1e-8)
        assert path.primal[k] == pytest.approx(single.primal, rel=3e-8)
        assert path.at(k).alpha == path.alphas[k]
        for name in ("primal", "dual", "gap", "rel_gap", "rounding", "n_iter", "weights", "dual_coef"):
            values = getattr(path, name)
            assert isinstance(values, np.ndarray)
            np.testing.assert_array_equal(values[k], getattr(path.at(k), name))
        assert path.status[k] is path.at(k).status
        assert path.n_active[k] == (path.at(k).weights > 0).sum()
    assert len(path) == len(path.n_iter) == len(path.status) == 12
    # the optimal value of Problem 5 falls with alpha
    assert (np.diff(path.primal) <= 0).all()


def relaxed(k):
    """The k-th of some solutions of two outputs, three kernels and two ridges, whose numbers are all different."""
    return RelaxedSolution(
        weights=np.array([[k % 2, 0.0, 1.0], [1.0, 0.0, 0.0]]), dual_coef=k + np.arange(20.0).reshape(2, 5, 2),
        intercept=np.array([k, k + 0.5]), certificate=Certificate("joint", 9.0 + k, 7.0 + k, 2.0, 0.5 + k),
        n_iter=30 + k, alpha=4.0 - k, feature_coef=k - np.arange(12.0).reshape(2, 3, 2),
        relax=np.array([10.0, 20.0]) + k, ridge_primal=np.array([30.0, 40.0]) + k, ridge_gap=np.array([50.0, 60.0]) + k,
        ridge_log_det=np.array([70.0, 80.0]) + k,
    )  # fmt: skip


def test_numbers_of_a_path_are_those_of_its_solutions():
    asked = []

    def measure(everything):
        asked.append(everything)
        return {"df": np.arange(3.0) + 10.0 * everything}

    path = Path.of([relaxed(k) for k in range(3)], measure=measure)
    for name in (
        "weights", "dual_coef", "feature_coef", "intercept", "primal", "dual", "gap", "rel_gap", "rounding",
        "n_iter", "relax", "ridge_primal", "ridge_gap", "status",
    ):  # fmt: skip
        for k in range(3):
            np.testing.assert_array_equal(getattr(path, name)[k], getattr(relaxed(k), name), name)
    assert (path.alphas.tolist(), len(path)) == ([4.0, 3.0, 2.0], 3)
    # of any output
    assert path.n_active.tolist() == [2, 2, 2]
    for which in (None, 0, 1):
        one, k = path.at(2, which), which or 0
        assert (one.relax, one.ridge_primal, one.ridge_gap) == (12.0 + 10 * k, 32.0 + 10 * k, 52.0 + 10 * k)
        np.testing.assert_array_equal(one.dual_coef, relaxed(2).dual_coef[k])
        np.testing.assert_array_equal(one.feature_coef, relaxed(2).feature_coef[k])
    # the criteria cost more, and only who reads them pays
    assert path.df.tolist() == [0.0, 1.0, 2.0]
    assert asked == [False]
    assert path.criteria["df"].tolist() == [10.0, 11.0, 12.0]
    path = Path.of([relaxed(0)])
    assert np.isnan(path.df).all()
    assert path.criteria == {}


def test_only_the_last_of_a_path_that_ended_early_is_interrupted():
    def some(count, error=None):
        for k in range(count):
            yield relaxed(k)
        if error is not None:
            raise error

    for count, stop, error, kept in (
        (3, None, None, 3),
        (2, None, None, 2),
        (3, 2, None, 3),
        (3, 1, None, 2),
        (2, None, KeyboardInterrupt(), 2),
    ):
        seen = []

        def callback(index, one, stop=stop, seen=seen):
            seen.append((index, one.alpha))
            return index == stop

        path = Path.collect(some(count, error), 3, callback, measure=lambda _: {"df": 5.0})
        assert seen == [(k, 4.0 - k) for k in range(kept)]
        assert path.df == 5.0
        last = Status.CONVERGED if kept == 3 else Status.INTERRUPTED
        assert path.status == (*[Status.CONVERGED] * (kept - 1), last)
    for error in (KeyboardInterrupt(), ValueError()):
        # without a solution there is no path, and what is no interruption is never lost
        for count in (0, 1) if isinstance(error, ValueError) else (0,):
            with pytest.raises(type(error)):
                Path.collect(some(count, error), 3)


@pytest.mark.parametrize("kind", ["dense", "low rank", "mixed"])
def test_the_automatic_range_starts_where_one_kernel_is_left(kind):
    gram, y = make_problem(kind, np.random.default_rng(1))
    path = kw.rls2_path(gram, y, n_alphas=5)
    first, top = int(np.argmax(path.weights[0])), path.alphas[0]
    assert path.n_active[0] == 1
    # 5 % is the precision of the search: a little below, a second kernel enters
    assert (kw.solve_rls2(gram, y, 0.9 * top, tol=1e-10).weights > 0).sum() > 1
    assert first == np.argmax(np.einsum("i,ijm,j->m", y, gram, y))
    assert path.alphas[-1] == pytest.approx(1e-6)  # times the largest trace, 1 here
    assert len(kw.rls2_path(gram, y, tol=1e-2)) == 30


def test_order_of_alphas_and_infinity():
    gram, y = make_problem("dense", np.random.default_rng(2))
    path = kw.rls2_path(gram, y, [1e-2, np.inf, 1.0])
    assert path.alphas.tolist() == [np.inf, 1.0, 1e-2]
    assert path.df[0] == 0.0
    assert path.n_iter[0] == 1
    assert not path.dual_coef[0].any()
    assert path.criteria["gcv"][0] == pytest.approx(np.mean(y**2))


@pytest.mark.parametrize("form", ["kernels", "features", "newton on features", "chunks"])
def test_a_margin_path_is_a_sequence_of_solutions(form, rng):
    Z, groups, weight = rng.normal(size=(40, 6)), [0, 2, 4, 6], rng.uniform(0.5, 2.0, 40)
    y = np.where(Z[:, 0] - Z[:, 3] + rng.normal(size=40) > 0, 1.0, -1.0)
    stack, scale = kw.FeatureStack(Z, groups), rng.uniform(0.5, 2.0, 3)
    kernels = {"kernels": stack.gram(), "chunks": kw.RowFeatures(Z, y, sample_weight=weight, groups=groups)}
    more = {"tol": 1e-7, "loss": "logistic", "scale": scale}
    own = {} if form == "chunks" else {"sample_weight": weight}
    own |= {"solver": "newton"} if form == "newton on features" else {}
    labels = None if form == "chunks" else y
    path = kw.solvers.svm_mkl_path(kernels.get(form, stack), labels, [2.0, 0.05, 0.4], **more, **own)
    np.testing.assert_allclose(path.alphas, [20.0, 2.5, 0.5], rtol=1e-15)
    for k, C in enumerate((0.05, 0.4, 2.0)):
        one = kw.solve_svm_mkl(stack.gram(), y, C, sample_weight=weight, **more)
        assert path.at(k).primal == pytest.approx(one.primal, rel=3e-7)
        # coefficients are known to the root of the gap
        np.testing.assert_allclose(path.at(k).weights, one.weights, atol=2e-3)


@pytest.mark.parametrize("method", ["newton", "alternating", "hinge", "hinge on features", "lp ball"])
def test_each_solution_of_a_path_starts_from_the_one_before(method):
    """Along values that hardly differ there is little to do after the first."""
    rng = np.random.default_rng(0)
    gram, y = make_problem("dense", rng)
    near = np.linspace(1.0, 1.02, 5)
    if method in ("newton", "alternating"):
        more = {"solver": method} | ({"delta": 1e-4} if method == "alternating" else {})
        path = kw.rls2_path(gram, y, 1e-2 * near, **more)
    else:
        loss = {"loss": "hinge", "tol": 1e-5, "solver": "newton" if method == "hinge on features" else "auto"}
        labels, weight_set = (
            np.where(y > 0, 1.0, -1.0),
            kw.weight_sets.LpBall(1.5) if method == "lp ball" else "simplex",
        )
        Z = rng.normal(size=(len(y), 12))
        kernels = kw.FeatureStack(Z, [0, 3, 6, 9, 12]) if method == "hinge on features" else gram
        path = kw.solvers.svm_mkl_path(kernels, labels, 10.0 * near, weight_set, **loss)
    assert path.n_iter[1:].mean() < path.n_iter[0], path.n_iter


W, S = np.linspace(0.5, 1.5, 30), np.array([0.5, 2.0, 1.0, 3.0])
#: Options of a path and of the solver of one point, with values that are not the defaults.
RIDGE = {"sample_weight": W, "scale": S, "tol": 1e-9, "max_iter": 4}
TUBE = {
    "loss": "epsilon-insensitive",
    "epsilon": 0.4,
    "sample_weight": W,
    "scale": S,
    "tol": 1e-7,
    "max_iter": 90,
}


def test_every_option_of_a_path_is_one_of_its_solutions():
    """With all of them a path of one value is the solution there; without any one it is another."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    gram, Y = X[:, None, :] * X[None, :, :] + np.eye(30)[:, :, None], X[:, :2] + rng.normal(size=(30, 2))
    y = Y[:, 0]

    def ridge(**more):
        return kw.rls2_path(gram, more.pop("y", y), [0.3], **more)

    ball = kw.weight_sets.LpBall(2.0)

    def tube(weight_set=ball, **more):
        return kw.solvers.svm_mkl_path(gram, y, [0.7], weight_set, **more)

    whole, one = ridge(**RIDGE), kw.solve_rls2(gram, y, 0.3, **RIDGE)
    np.testing.assert_allclose(whole.dual_coef[0], one.dual_coef, rtol=1e-9, atol=1e-12)
    assert (whole.n_iter[0], whole.gap[0]) == (one.n_iter, pytest.approx(one.gap, rel=1e-6, abs=1e-15))
    for option in ("sample_weight", "scale"):
        other = ridge(**{name: value for name, value in RIDGE.items() if name != option})
        assert abs(other.primal[0] - whole.primal[0]) > 1e-3, option
    assert ridge(**RIDGE | {"max_iter": 1}).n_iter[0] < ridge(**RIDGE).n_iter[0]
    assert ridge(tol=1e-1).n_iter[0] < ridge(tol=1e-12).n_iter[0]
    assert ridge(y=Y, shared_weights=False).weights.shape == (1, 2, 4)
    assert ridge(relax=[0.5, 0.1]).relax.tolist() == [[0.5, 0.1]]
    whole = tube(**TUBE)
    one = kw.solve_svm_mkl(gram, y, 0.7, ball, **TUBE)
    np.testing.assert_allclose(whole.weights[0], one.weights, atol=1e-6)
    assert whole.primal[0] == pytest.approx(one.primal, rel=3e-7)
    for option in ("loss", "epsilon", "sample_weight", "scale"):
        more = {name: value for name, value in TUBE.items() if name != option}
        other = tube(**more | ({"loss": "squared"} if option == "loss" else {}))
        assert abs(other.primal[0] - whole.primal[0]) > 1e-3, option
    assert abs(tube("simplex", **TUBE).primal[0] - whole.primal[0]) > 1e-3
    assert tube(**TUBE | {"tol": 1e-14, "max_iter": 1}).status[0] is Status.MAX_ITER
    assert tube(**TUBE | {"max_time": 1e-9}).status[0] is Status.MAX_TIME
    assert ridge(**RIDGE | {"max_time": 1e-9}).status[0] is Status.MAX_TIME


def test_alternating_path_uses_the_papers_rule():
    gram, y = make_problem("dense", np.random.default_rng(3))
    alphas = np.geomspace(1.0, 1e-3, 6)
    path = kw.rls2_path(gram, y, alphas, solver="alternating", delta=1e-2)
    assert all(status is kw.solvers.Status.RESIDUAL_RULE for status in path.status)
    for alpha, d, c in zip(path.alphas, path.weights, path.dual_coef, strict=True):
        residual = (gram @ d) @ c + alpha * c - y
        assert np.linalg.norm(residual) <= 1e-2 * np.linalg.norm(y)


def test_df_four_forms_agree():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(30, 8)), rng.normal(size=30)
    alphas = [10.0, 0.5, 1e-2]
    path = kw.rls2_path(FactorGram.from_columns(X), y, alphas)
    for alpha, d, df in zip(path.alphas, path.weights, path.df, strict=True):
        A = X[:, d > 0] * np.sqrt(d[d > 0])
        inner, outer, m = A.T @ A, A @ A.T, (d > 0).sum()
        singular = np.square(np.linalg.svd(A, compute_uv=False))
        forms = [
            np.trace(A @ np.linalg.solve(inner + alpha * np.eye(m), A.T)),
            m - alpha * np.trace(np.linalg.inv(inner + alpha * np.eye(m))),
            30 - alpha * np.trace(np.linalg.inv(outer + alpha * np.eye(30))),
            np.sum(singular / (singular + alpha)),
        ]
        np.testing.assert_allclose(df, forms, rtol=1e-10)
        assert 0 <= df <= min(m, 30)


@pytest.mark.parametrize("kind", ["dense", "mixed"])
def test_total_df_is_the_divergence(kind):
    """df_total against central differences of every fitted value in its own target, weights learnt anew."""
    gram, y = make_problem(kind, np.random.default_rng(5))
    alpha = 0.05
    path = kw.rls2_path(gram, y, [alpha], tol=1e-13)

    def fitted(target, i):
        r = kw.solve_rls2(gram, target, alpha, tol=1e-13)
        return ((gram @ r.weights) @ r.dual_coef)[i]

    step, divergence = 1e-4, 0.0
    for i in range(len(y)):
        e = np.eye(len(y))[i] * step
        divergence += (fitted(y + e, i) - fitted(y - e, i)) / (2 * step)
    assert path.criteria["df_total"][0] == pytest.approx(divergence, rel=1e-4)
    assert path.criteria["df_total"][0] > path.df[0]


def test_criteria_count_the_learnt_weights():
    """Their definitions; and of 40 columns of noise few are kept, where (15) alone keeps 18 (measured, GCV: 4.5)."""
    kept = {name: [] for name in ("gcv", "aic", "bic", "cp", "gcv by (15)")}
    n = 80
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(n, 40)), rng.normal(size=n)
        path = kw.rls2_path(FactorGram.from_columns(X), y, n_alphas=15)
        rss, free = path.criteria["rss"], path.criteria["df_total"]
        np.testing.assert_allclose(path.criteria["gcv"], n * rss / (n - free) ** 2, rtol=1e-9)
        corrected = np.where(n - free > 2, 2 * (free + 1) * n / (n - free - 2), np.inf)
        np.testing.assert_allclose(path.criteria["aic"], n * np.log(rss / n) + corrected, rtol=1e-9)
        np.testing.assert_allclose(path.criteria["bic"], n * np.log(rss / n) + np.log(n) * free, rtol=1e-9)
        noise = rss[-1] / (n - free[-1])
        np.testing.assert_allclose(path.criteria["cp"], rss / noise - n + 2 * free, rtol=1e-9)
        found = {**path.criteria, "gcv by (15)": n * rss / (n - path.df) ** 2}
        for name, own in kept.items():
            own.append((path.weights[np.argmin(found[name])] > 0).sum())
    assert max(np.mean(kept[name]) for name in ("gcv", "aic", "bic", "cp")) <= 7
    assert np.mean(kept["gcv by (15)"]) >= 12


def test_evidence_is_the_gaussian_likelihood_at_its_best_scale():
    gram, y = make_problem("dense", np.random.default_rng(6))
    alpha = 0.1
    path = kw.rls2_path(gram, y, [alpha], tol=1e-12)
    K, n = gram @ path.weights[0], len(y)

    def likelihood(tau2):
        return multivariate_normal(np.zeros(n), tau2[0] * (K + alpha * np.eye(n))).logpdf(y)

    tau2 = np.array([path.criteria["noise_variance"][0] / alpha])
    assert path.criteria["evidence"][0] == pytest.approx(likelihood(tau2), rel=1e-10)
    assert abs(central_difference(likelihood, tau2, 1e-4 * tau2[0])[0]) < 1e-4


def test_criteria_count_a_weight_as_a_repetition():
    gram, y = make_problem("dense", np.random.default_rng(7))
    times = np.random.default_rng(0).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), times)
    weighted, _ = solver_problem(gram, y, times)
    repeated, _ = solver_problem(gram[np.ix_(rows, rows)], y[rows])
    r = kw.solve_rls2(gram, y, 0.05, tol=1e-12, sample_weight=times)
    d = r.weights
    c = kw.solve_rls2(gram[np.ix_(rows, rows)], y[rows], 0.05, tol=1e-12).dual_coef
    one = compute_criteria(weighted, 0.05, d, r.dual_coef[None])
    two = compute_criteria(repeated, 0.05, d, c[None])
    for name in ("df", "df_total", "gcv", "aic", "bic", "rss", "evidence", "noise_variance"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-6), name


def sparse_problem():
    """Eight columns, three of which matter, and noise of standard deviation 1: what the lasso is made for."""
    rng = np.random.default_rng(21)
    X = rng.normal(size=(60, 8))
    signal = X @ np.array([3.0, 1.5, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0])
    return X, signal, signal + rng.normal(size=60)


def test_mallows_cp_is_its_formula():
    """Against smoothing matrices written out, with sample weights; least squares is the reference."""
    X, _, y = sparse_problem()
    w = np.random.default_rng(0).integers(1, 4, 60).astype(float)
    alphas = np.geomspace(1e3, 1e-7, 9)
    path = kw.rls2_path(FactorGram.from_columns(X), y, alphas, sample_weight=w, tol=1e-10)
    hats = []
    for alpha, d in zip(path.alphas, path.weights, strict=True):
        # in the features: K + alpha N in the rows has a condition of 1e10 here
        A = X * np.sqrt(d)
        hats.append(A @ np.linalg.solve(A.T @ (w[:, None] * A) + alpha * np.eye(8), A.T * w))
    rss = np.array([w @ np.square(y - H @ y) for H in hats])
    df = np.array([np.trace(H) for H in hats])
    # the inverses written out lose digits at the smallest alpha; measured up to 3e-8, on another processor
    np.testing.assert_allclose(path.criteria["rss"], rss, rtol=1e-6)
    np.testing.assert_allclose(path.df, df, rtol=1e-6)
    cp, free = path.criteria["cp"], path.criteria["df_total"]
    np.testing.assert_allclose(cp, rss / (rss[-1] / (w.sum() - free[-1])) - w.sum() + 2 * free, rtol=2e-6)
    # the smallest alpha is least squares on all columns, whose Cp is the number of columns
    full = w @ np.square(y - X @ np.linalg.lstsq(X * np.sqrt(w)[:, None], y * np.sqrt(w), rcond=None)[0])
    assert path.criteria["rss"][-1] == pytest.approx(full, rel=1e-6)
    assert cp[-1] == pytest.approx(8.0, rel=1e-6)


def test_mallows_cp_finds_the_columns_that_matter():
    """Up to a constant, Cp times the noise estimates the error that the fit makes on the signal."""
    X, signal, y = sparse_problem()
    path = kw.rls2_path(FactorGram.from_columns(X), y, np.geomspace(1e3, 1e-4, 40), tol=1e-9)
    error = [
        np.square(signal - (X * d) @ (X.T @ c)).sum()
        for d, c in zip(path.weights, path.dual_coef, strict=True)
    ]
    best = int(np.argmin(path.criteria["cp"]))
    assert set(np.argsort(-path.weights[best])[:3]) == {0, 1, 4}
    assert path.weights[best][[2, 3, 5, 6, 7]].sum() < 0.1
    assert error[best] <= 1.5 * min(error)
    assert max(error[0], error[-1]) > 2 * min(error)


def test_mallows_cp_of_several_outputs_is_a_sum():
    gram, y = make_problem("dense", np.random.default_rng(22))
    Y = np.column_stack([y, 3.0 * np.sin(y)])
    alphas = [1.0, 0.1, 0.01]
    both = kw.rls2_path(gram, Y, alphas, shared_weights=False, tol=1e-10).criteria["cp"]
    each = [kw.rls2_path(gram, t, alphas, tol=1e-10).criteria["cp"] for t in Y.T]
    np.testing.assert_allclose(both, sum(each), rtol=1e-6)
    assert np.isnan(kw.rls2_path(gram, np.zeros(len(y)), n_alphas=3).criteria["cp"]).all()


def test_several_outputs():
    gram, y = make_problem("dense", np.random.default_rng(8))
    Y = np.column_stack([y, y**2])
    shared = kw.rls2_path(gram, Y, n_alphas=4)
    own = kw.rls2_path(gram, Y, shared.alphas, shared_weights=False)
    n, m = gram.shape[0], gram.shape[2]
    assert shared.weights.shape == (4, m)
    assert own.weights.shape == (4, 2, m)
    assert shared.dual_coef.shape == own.dual_coef.shape == (4, n, 2)
    assert (own.primal <= shared.primal * (1 + 1e-6)).all()
    np.testing.assert_allclose(
        own.df, [sum(kw.rls2_path(gram, t, [a], tol=1e-6).df[0] for t in Y.T) for a in own.alphas], rtol=1e-3
    )


def test_a_callback_ends_the_path_and_keeps_it():
    gram, y = make_problem("dense", np.random.default_rng(9))
    seen = []

    def stop(index, result):
        seen.append(result.alpha)
        return index == 3

    path = kw.rls2_path(gram, y, n_alphas=10, callback=stop)
    assert len(path) == len(seen) == 4
    assert path.status[-1] is kw.solvers.Status.INTERRUPTED
    assert path.rel_gap.max() <= 1e-6


def test_ctrl_c_keeps_what_is_done():
    gram, y = make_problem("dense", np.random.default_rng(10))

    def interrupt(index, result):
        if index == 2:
            raise KeyboardInterrupt

    path = kw.rls2_path(gram, y, n_alphas=10, callback=interrupt)
    assert len(path) == 3
    assert path.status[-1] is kw.solvers.Status.INTERRUPTED

    def at_once(index, result):
        raise KeyboardInterrupt

    # the first solution is finished when the callback runs, so it is kept
    assert len(kw.rls2_path(gram, y, n_alphas=10, callback=at_once)) == 1


@pytest.mark.parametrize("alphas", ["many", [], [1.0, -1.0], [np.nan], [[1.0]]])
def test_alphas_that_cannot_be_used(alphas):
    gram, y = make_problem("dense", np.random.default_rng(12))
    with pytest.raises(kw.InputError, match="alphas"):
        kw.rls2_path(gram, y, alphas)


def test_targets_of_zero():
    gram, _ = make_problem("dense", np.random.default_rng(11))
    path = kw.rls2_path(gram, np.zeros(len(gram)), n_alphas=3)
    assert not path.primal.any()
    assert not path.rel_gap.any()


def test_coefficients_along_a_path_are_those_of_the_model():
    """Columns of very different size, so that the factors of the normaliser matter."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(50, 3)) * [1.0, 10.0, 0.1]
    y = X @ [1.0, 0.2, -5.0] + 0.1 * rng.normal(size=50)
    kernels = [kw.kernels.Linear().on([j]) for j in range(3)]
    model = kw.MKLRegressor(kernels, kw.learners.RLS2(alpha=0.5)).fit(X, y)
    assert np.ptp(np.log(model.normalizers_[0].scale)) > 5
    path = kw.inspection.regularization_path(model, alphas=[0.5])
    np.testing.assert_allclose(path.coef[0], model.coef_, rtol=1e-6)


@pytest.mark.parametrize("share", [8.4e-3, 3e-4])
def test_the_end_of_an_automatic_range_does_not_depend_on_rounding(rng, share):
    """A thousandth of the trace, down to where one kernel may be optimal, is one of the alphas that are tried."""
    tops = 10.0 ** rng.uniform(-3, 4, size=200)
    found = [smallest_single(lambda alpha, top=top: alpha > share * top, top, 90) / top for top in tops]
    np.testing.assert_allclose(found, share if share > 1e-3 else 1.0, rtol=0.05)
    assert np.ptp(found) < 1e-9


@pytest.mark.parametrize("kind", ["rls2", "rls2 alternating", "svm"])
def test_a_path_has_the_limits_of_one_solution(kind, rng):
    """Steps, tolerance and solver of a path are those of the same solution alone."""
    X = rng.normal(size=(30, 6))
    stack, y = X[:, None, :] * X[None, :, :], np.sign(X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=30))
    if kind == "svm":
        path, one = kw.solvers.svm_mkl_path, kw.solvers.solve_svm_mkl
        options, value = {"sample_weight": rng.uniform(0.5, 2.0, 30), "scale": np.linspace(0.5, 2.0, 6)}, 3.0
    else:
        path, one, value = kw.rls2_path, kw.solve_rls2, 0.5
        options = {"solver": "alternating"} if "alternating" in kind else {}
        options |= {"sample_weight": rng.uniform(0.5, 2.0, 30), "scale": np.linspace(0.5, 2.0, 6)}
    for max_iter in (1, 2, None):
        limit = {"tol": 1e-9, "max_iter": max_iter}
        found, alone = path(stack, y, [value], **options, **limit), one(stack, y, value, **options, **limit)
        np.testing.assert_allclose(found.weights[0], alone.weights, rtol=1e-9, atol=1e-12)
        assert found.at(0).n_iter == alone.n_iter
        assert found.at(0).status == alone.status
        if max_iter == 1:
            assert alone.rel_gap > 1e-9  # so that the limit was met


def test_arrays_of_a_path_by_hand():
    """Of solutions made by hand: all that they have, one after another."""
    status = kw.solvers.Status

    def made(k, **more):
        certificate = Certificate.of("joint", 3.0 + k, 0.5, 0.25 * k, status.CONVERGED)
        own = {"alpha": 2.0**-k, "feature_coef": np.full(3, 1.0 * k)}
        return Solution(
            np.array([0.0, k, 1.0]), np.full(5, 0.5 * k), float(k), certificate, 7 * k, **{**own, **more}
        )

    measured = []

    def measure(everything):
        measured.append(everything)
        return {"df": np.array([1.0, 2.0]), "gcv": np.ones(2)}

    path = Path.of([made(0), made(1)], measure=measure)
    assert path.alphas.tolist() == [1.0, 0.5]
    assert (len(path), path.at(1).n_iter, path.at(-1).n_iter) == (2, 7, 7)
    assert path.weights.tolist() == [[0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
    assert (path.dual_coef.shape, path.feature_coef.tolist()) == ((2, 5), [[0.0] * 3, [1.0] * 3])
    assert path.intercept.tolist() == [[0.0], [1.0]]
    assert (path.primal.tolist(), path.dual.tolist(), path.gap.tolist()) == (
        [3.0, 4.0],
        [2.5, 3.25],
        [0.5, 0.75],
    )
    assert (path.rel_gap.tolist(), path.rounding.tolist()) == ([0.5 / 3.0, 0.1875], [0.0, 0.25])
    assert (path.status, path.n_iter.tolist()) == ((status.CONVERGED,) * 2, [0, 7])
    assert path.n_active.tolist() == [1, 2]
    assert path.upper_layers == [(), ()]
    assert path.df.tolist() == [1.0, 2.0]
    assert path.criteria["gcv"].tolist() == [1.0, 1.0]
    assert measured == [False, True]
    bare = Path.of([made(0), made(1)], interrupted=True)
    assert bare.status == (status.CONVERGED, status.INTERRUPTED)
    assert np.isnan(bare.df).tolist() == [True, True]
    assert bare.criteria == {}
    assert bare.of_kind(None) is bare
    assert bare.on_host().weights.tolist() == path.weights.tolist()
    each = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 2.0]])
    outputs = Path.of([replace(made(k), weights=own) for k, own in enumerate(each)])
    assert outputs.n_active.tolist() == [2, 1]
    ridges = {
        "relax": np.array([1.0, 2.0]),
        "ridge_primal": np.array([3.0, 4.0]),
        "ridge_gap": np.array([0.1, 0.2]),
    }
    ridges |= {"dual_coef": np.ones((2, 5)), "feature_coef": np.empty(0)}
    relaxed = Path.of([made(k).extended(RelaxedSolution, **ridges) for k in range(2)])
    assert relaxed.relax.tolist() == [[1.0, 2.0]] * 2
    assert (relaxed.ridge_primal.tolist(), relaxed.ridge_gap.tolist()) == ([[3.0, 4.0]] * 2, [[0.1, 0.2]] * 2)
    assert (relaxed.at(0).relax, relaxed.at(0, 1).relax, relaxed.at(1, 1).ridge_primal) == (1.0, 2.0, 4.0)


def test_solutions_are_collected_until_one_is_the_last():
    status = kw.solvers.Status
    certificate = Certificate.of("joint", 1.0, 0.5, 0.0, status.CONVERGED)
    seen = []

    def solutions(stop=None):
        for k in range(4):
            if k == stop:
                raise KeyboardInterrupt
            yield Solution(np.ones(1), np.ones(1), 0.0, certificate, k, alpha=float(k))

    def ended(path):
        return len(path), path.status[-1] is status.INTERRUPTED

    assert ended(Path.collect(solutions(), 4, lambda k, one: seen.append((k, one.n_iter)))) == (4, False)
    assert seen == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert ended(Path.collect(solutions(), 4)) == (4, False)
    assert ended(Path.collect(solutions(), 5)) == (4, True)
    assert ended(Path.collect(solutions(), 4, lambda k, one: k == 1)) == (2, True)
    assert ended(Path.collect(solutions(), 4, lambda k, one: k == 3)) == (4, False)
    assert ended(Path.collect(solutions(3), 4)) == (3, True)
    with pytest.raises(KeyboardInterrupt):
        Path.collect(solutions(0), 4)

    def measure(everything):
        return {"df": np.zeros(4)}

    assert Path.collect(solutions(), 4, measure=measure).df.tolist() == [0.0] * 4
