"""Progress and cancelling: what is reported, and what is kept after a stop or Ctrl-C.

Modules: `_callbacks`, `_interrupts`, `estimators/choosing`, `estimators/estimator`.
"""

import importlib.util
import itertools
import signal
import sys
import threading

import numpy as np
import pytest
from sklearn.utils.validation import check_is_fitted

import kernelweave as kw
from kernelweave import _callbacks
from kernelweave._callbacks import CallbackSupportMixin
from kernelweave._interrupts import interrupts_deferred, interrupts_noticed
from kernelweave.estimators import choosing
from kernelweave.estimators.estimator import BaseMKL
from kernelweave.fitting.folds import FoldScores
from kernelweave.fitting.task import PathStep
from kernelweave.kernels import RBF, Linear
from kernelweave.learners import RLS2

KERNELS = (Linear().on([0]), RBF(gamma=0.3), RBF(gamma=2.0))
ALPHAS = np.geomspace(30.0, 0.01, 6)


class Recorder:
    """Counts steps; at step `at` asks to stop, or raises; with `on` every later step asks again."""

    def __init__(self, at=None, error=None, again=False):
        self.at, self.error, self.again = at, error, again
        self.steps = []
        self.begun = self.ended = 0
        self.closed = False
        self.announced = None

    def setup(self, estimator, context):
        self.closed = False

    def teardown(self, estimator, context):
        self.closed = True

    def on_fit_task_begin(self, estimator, context):
        if context.parent is None:
            self.begun += 1
            self.announced = context.max_subtasks

    def on_fit_task_end(self, estimator, context):
        if context.parent is None:
            self.ended += 1
            return False
        self.steps.append(context.task_name)
        reached = self.at is not None and (
            len(self.steps) >= self.at if self.again else len(self.steps) == self.at
        )
        if reached and self.error is not None:
            raise self.error
        return reached


def rows(rng, kind):
    X = rng.normal(size=(36, 3))
    f = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=36)
    y = {"regression": f, "binary": f > 0, "classes": np.digitize(f, [-0.5, 0.5])}[kind]
    return X, y


def estimator(kind, cv=True, **options):
    learner = options.pop("learner", RLS2(n_alphas=6, n_folds=3))
    if not cv:
        cls = kw.MKLRegressor if kind == "regression" else kw.MKLClassifier
        return cls(list(KERNELS), learner, **options)
    cls = kw.MKLRegressorCV if kind == "regression" else kw.MKLClassifierCV
    return cls(list(KERNELS), learner, **{"alphas": ALPHAS, "cv": 3, **options})


def fit(model, data, recorder):
    return model.set_callbacks(recorder).fit(*data)


PROBLEMS = {"regression": 1, "binary": 1, "classes": 3}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_every_alpha_of_every_fold_and_problem_is_one_step(rng, kind, n_jobs):
    if n_jobs == 2 and kind != "classes":
        n_jobs = 1
    recorder = Recorder()
    data = rows(rng, kind)
    model = fit(estimator(kind, n_jobs=n_jobs), data, recorder)
    done = PROBLEMS[kind] * (3 * 6 + model.best_index_ + 1)
    assert len(recorder.steps) == done
    # announced for a path on all rows down to the smallest alpha, which may end earlier
    assert recorder.announced == PROBLEMS[kind] * 6 * 4
    assert (recorder.begun, recorder.ended, recorder.closed) == (1, 1, True)
    assert sum(step.startswith("fold") for step in recorder.steps) == PROBLEMS[kind] * 18
    assert all("alpha" in step for step in recorder.steps)
    silent = estimator(kind).fit(*data)
    np.testing.assert_array_equal(silent.dual_coef_, model.dual_coef_)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_auto_and_fixed_report_their_steps(rng, kind):
    recorder = Recorder()
    model = fit(estimator(kind, cv=False), rows(rng, kind), recorder)
    assert len(recorder.steps) == PROBLEMS[kind] * (3 * 6 + model.best_index_ + 1)
    assert recorder.announced == PROBLEMS[kind] * 6 * 4
    recorder = Recorder()
    fit(estimator(kind, cv=False, learner=RLS2(alpha=0.5)), rows(rng, kind), recorder)
    assert recorder.announced == len(recorder.steps) == PROBLEMS[kind]
    assert all(step.startswith("all rows") and step.endswith(": alpha 0.5") for step in recorder.steps)


# ---- stopping --------------------------------------------------------------------------------------

STOPS = {
    "a callback": {},
    "a callback that keeps asking": {"again": True},
    "Ctrl-C": {"error": KeyboardInterrupt()},
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", PROBLEMS)
# inside the second fold, at its first and last alpha
@pytest.mark.parametrize("position", [1, 3, 6])
def test_a_stop_during_folds_keeps_the_folds_that_are_complete(rng, kind, stop, position):
    n_problems = PROBLEMS[kind]
    data = rows(rng, kind)
    at = 6 * n_problems + 6 * (n_problems - 1) + position
    recorder = Recorder(at, **STOPS[stop])
    complete = 2 if position == 6 else 1
    with pytest.warns(UserWarning, match=rf"interrupted: alpha was chosen on {complete} of 3 folds"):
        model = fit(estimator(kind), data, recorder)
    check_is_fitted(model)
    whole = estimator(kind).fit(*data)
    for k in range(complete):
        np.testing.assert_array_equal(
            model.cv_results_[f"split{k}_test_score"], whole.cv_results_[f"split{k}_test_score"]
        )
    assert f"split{complete}_test_score" not in model.cv_results_
    mean = np.mean([whole.cv_results_[f"split{k}_test_score"] for k in range(complete)], axis=0)
    assert model.best_index_ == np.argmax(mean)
    # the model is complete: the plain estimator at that alpha
    assert model.alpha_ == ALPHAS[model.best_index_]
    plain = estimator(kind, cv=False, learner=RLS2(alpha=model.alpha_)).fit(*data)
    np.testing.assert_allclose(model.dual_coef_, plain.dual_coef_, atol=1e-3)
    assert model.status_ == "converged"
    assert recorder.closed


@pytest.mark.parametrize("stop", STOPS)
def test_a_stop_before_the_first_fold_is_complete_keeps_nothing(rng, stop):
    recorder = Recorder(3, **STOPS[stop])
    model = estimator("regression")
    with pytest.raises(KeyboardInterrupt, match="before one fold was complete; nothing could be kept"):
        fit(model, rows(rng, "regression"), recorder)
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(model)
    assert recorder.closed
    # and the next fit works
    assert model.set_callbacks().fit(*rows(rng, "regression")).status_ == "converged"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_stop_on_the_way_down_keeps_the_last_alpha(rng, kind, stop):
    data = rows(rng, kind)
    # the first alphas leave nothing but the mean, so that the path on all rows is long enough to be cut
    alphas = np.array([1e6, 1e5, 1e4, 1.0, 0.1, 0.01])
    whole = estimator(kind, alphas=alphas).fit(*data)
    assert whole.best_index_ >= 3
    recorder = Recorder(PROBLEMS[kind] * 18 + 2, **STOPS[stop])
    message = rf"interrupted: the model is the one at alpha=1e\+05, the chosen one is {whole.alpha_:.3g}"
    with pytest.warns(UserWarning, match=message) as said:
        model = fit(estimator(kind, alphas=alphas), data, recorder)
    assert len(said) == 1
    assert model.alpha_ == 1e5
    assert model.best_index_ == whole.best_index_
    plain = estimator(kind, cv=False, learner=RLS2(alpha=1e5)).fit(*data)
    np.testing.assert_allclose(model.dual_coef_, plain.dual_coef_, rtol=1e-5)
    assert model.status_ == "interrupted"
    # the other problems went as far, and no further
    assert len(recorder.steps) == PROBLEMS[kind] * (18 + 2)
    assert model.predict(data[0][:5]).shape == (5,)


@pytest.mark.parametrize("stop", STOPS)
def test_a_stop_during_auto_is_said_too(rng, stop):
    data = rows(rng, "regression")
    with pytest.warns(UserWarning, match="interrupted: alpha was chosen on 1 of 3 folds"):
        model = fit(estimator("regression", cv=False), data, Recorder(8, **STOPS[stop]))
    assert "split1_test_score" not in model.cv_results_
    assert model.alpha_ == model.alphas_[model.best_index_]


@pytest.mark.parametrize(
    ("at", "said"),
    [(5, "C was chosen on 1 of 3 folds"), (11, "the model is the one at C=0.01, the chosen one is 0.1")],
)
def test_a_stop_names_the_parameter_of_the_learner(rng, at, said):
    X, y = rows(rng, "binary")
    model = kw.MKLClassifierCV(
        list(KERNELS),
        "simple",
        Cs=[0.001, 0.01, 0.1],
        cv=3,
        # decision values grow with C as long as it is small
        scoring=lambda model, rows, truth: np.ptp(model.decision_function(rows)),
    )
    with pytest.warns(UserWarning, match=f"interrupted: {said}"):
        fit(model, (X, y), Recorder(at))


def test_a_search_that_ends_between_candidates_says_how_many_there_were(rng, monkeypatch):
    # all folds are done at two of six values
    stopped = FoldScores(np.arange(2), np.array([[0.0, 1.0]] * 3), [(np.full((2, 3), 1 / 3),)] * 3, True)
    monkeypatch.setattr(choosing.Search, "scores", lambda *args, **options: stopped)
    monkeypatch.setattr(choosing, "can_search", lambda *args: True)
    with pytest.warns(UserWarning, match="interrupted: alpha was chosen from 2 of 6 values"):
        kw.MKLRegressor(list(KERNELS), RLS2(n_alphas=6, n_folds=3)).fit(*rows(rng, "regression"))


@pytest.mark.parametrize("relax", [None, "auto"])
@pytest.mark.parametrize("batch", [0, -1])
def test_a_stop_at_the_last_step_of_a_batch_ends_a_search(rng, relax, batch):
    data = rows(rng, "regression")
    model = estimator("regression", cv=False, learner=RLS2(n_alphas=20, n_folds=3, relax=relax))
    whole = Recorder()
    fit(model, data, whole)
    pairs = itertools.pairwise(step.split(":")[0] for step in whole.steps)
    ends = [k + 1 for k, pair in enumerate(pairs) if pair == ("fold 3 of 3", "fold 1 of 3")]
    # without a ridge of its own the first look is at one fold
    at = [*([6] if relax is None else []), *ends][batch]
    recorder = Recorder(at)
    with pytest.warns(
        UserWarning, match=r"interrupted: alpha was chosen (on 1 of 3 folds|from \d+ of 20 values)"
    ):
        fit(model, data, recorder)
    assert recorder.steps[:at] == whole.steps[:at]
    assert not any(step.startswith("fold") for step in recorder.steps[at:])
    # and at the last step of all there is nothing to end
    last = sum(step.startswith("fold") for step in whole.steps)
    assert fit(model, data, Recorder(last)).best_score_ == pytest.approx(fit(model, data, whole).best_score_)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_steps_name_the_parameter_of_the_learner(rng, n_jobs):
    X, y = rows(rng, "binary")
    recorder = Recorder()
    model = kw.MKLClassifierCV(list(KERNELS), "simple", Cs=[0.01, 0.1], cv=3, n_jobs=n_jobs)
    fit(model, (X, y), recorder)
    assert {step.split(": ")[1] for step in recorder.steps} == {"C 0.01", "C 0.1"}


def test_a_stop_with_folds_in_parallel(rng):
    data = rows(rng, "regression")
    with pytest.warns(UserWarning, match="interrupted: alpha was chosen on 1 of 3 folds"):
        model = fit(estimator("regression", n_jobs=2), data, Recorder(4))
    assert "split0_test_score" in model.cv_results_
    assert "split1_test_score" not in model.cv_results_
    assert model.status_ == "converged"


def test_a_step_of_a_path_tells_the_relative_gap(rng):
    found = kw.solve_rls2(
        np.stack([np.eye(9), np.ones((9, 9))], axis=-1), 50.0 * rng.normal(size=9), 0.1, tol=0.3, max_iter=1
    )
    step = PathStep.of("fold 1", 0, 1, kw.learners.RLS2(alpha=0.1), found)
    assert (step.rel_gap, step.alpha, step.problem) == (found.rel_gap, 0.1, 0)
    assert step.rel_gap != found.gap


def test_an_error_in_a_callback_is_not_swallowed(rng):
    recorder = Recorder(8, error=ZeroDivisionError("mine"))
    model = estimator("regression")
    with pytest.raises(ZeroDivisionError, match="mine"):
        fit(model, rows(rng, "regression"), recorder)
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(model)
    assert recorder.closed


def test_a_path_function_keeps_what_is_done(rng):
    X, y = rows(rng, "regression")
    stack = np.stack([kernel(X) for kernel in KERNELS], axis=-1)
    whole = kw.rls2_path(stack, y, ALPHAS)

    def stop(index, result):
        return index == 2

    def ctrl_c(index, result):
        if index == 2:
            raise KeyboardInterrupt

    for callback in (stop, ctrl_c):
        path = kw.rls2_path(stack, y, ALPHAS, callback=callback)
        assert len(path) == 3
        np.testing.assert_array_equal(path.weights, whole.weights[:3])
        assert [s.name for s in path.status] == ["CONVERGED", "CONVERGED", "INTERRUPTED"]
        assert "what was finished is returned" in path.status[-1].value


def test_ctrl_c_waits_for_the_end_of_a_block_that_belongs_together():
    done = []

    def together():
        with interrupts_deferred():
            signal.raise_signal(signal.SIGINT)
            done.append("inside")

    with pytest.raises(KeyboardInterrupt):
        together()
    assert done == ["inside"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with interrupts_deferred():
        done.append("quiet")
    with pytest.raises(ValueError, match="own"), interrupts_deferred():
        raise ValueError("own")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    got = []
    before = signal.signal(signal.SIGINT, lambda *given: got.append(given))
    try:
        with interrupts_deferred():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert not got
        assert [number for number, _ in got] == [signal.SIGINT]
        assert got[0][1].f_code.co_name == "test_ctrl_c_waits_for_the_end_of_a_block_that_belongs_together"
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with interrupts_deferred(), interrupts_noticed() as pressed:
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            assert pressed() is False
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_inside_is_noticed_where_it_was_caught():
    with interrupts_noticed() as pressed:
        assert pressed() is False
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert pressed() is True
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with interrupts_noticed() as other:
        assert other() is False
    with pytest.raises(KeyboardInterrupt), interrupts_noticed():
        raise KeyboardInterrupt
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    found = []

    def elsewhere():
        with interrupts_deferred(), interrupts_noticed() as pressed:
            found.append((signal.getsignal(signal.SIGINT) is signal.default_int_handler, pressed()))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [(True, False)]


@pytest.mark.parametrize("n_steps", [None, 3])
def test_steps_are_printed_and_told_to_those_who_listen(capsys, n_steps):
    class Fit(CallbackSupportMixin):
        verbose = True
        _reporter = BaseMKL._reporter

    quiet = Fit()
    quiet.verbose = False
    assert quiet._reporter(n_steps, None, None) is None
    quiet._callback_fit_ctx.call_on_fit_task_end(estimator=quiet)
    report = Fit()._reporter(n_steps, None, None)
    assert report("first") is False
    assert report("second") is False
    of = " of 3" if n_steps else ""
    found = capsys.readouterr()
    assert found.err == f"Fit: step 1{of}: first\nFit: step 2{of}: second\n"
    assert found.out == ""


def test_earlier_versions_of_scikit_learn_call_in_the_same_order(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = importlib.util.spec_from_file_location("earlier_callbacks", _callbacks.__file__)
    earlier = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "earlier_callbacks", earlier)
    spec.loader.exec_module(earlier)
    calls = []

    class Listener:
        def __init__(self, name, stop=False):
            self.name, self.stop = name, stop

        def setup(self, estimator, context):
            calls.append((self.name, "setup", context.task_name, context.max_subtasks))

        def on_fit_task_begin(self, estimator, context):
            calls.append((self.name, "begin", context.task_name, context.parent and context.parent.task_name))

        def on_fit_task_end(self, estimator, context):
            calls.append((self.name, "end", context.task_name, context.max_subtasks))
            return self.stop

        def teardown(self, estimator, context):
            calls.append((self.name, "teardown", context.task_name))

    class Fit(earlier.CallbackSupportMixin):
        verbose = False
        _reporter = BaseMKL._reporter

        @earlier.with_callbacks
        def fit(self, X, *, fail=False):
            """Documented."""
            report = self._reporter(2, X, None)
            found = report and report("step")
            if fail:
                raise ValueError("failed")
            self._callback_fit_ctx.call_on_fit_task_end(estimator=self)
            return found

    assert Fit.fit.__doc__ == "Documented."
    own = Fit()
    assert own.fit(1) is None
    assert own.set_callbacks(Listener("a"), Listener("b")) is own
    assert own.fit(1) is False
    each = [
        ("setup", "fit", 2),
        ("begin", "fit", None),
        ("begin", "step", "fit"),
        ("end", "step", 0),
        ("end", "fit", 2),
        ("teardown", "fit"),
    ]
    assert calls == [(name, *one) for one in each for name in "ab"]
    assert "_callback_fit_ctx" not in vars(own)
    # all are called, and one is enough to stop
    for order in (("a", True), ("b", False)), (("a", False), ("b", True)):
        calls.clear()
        assert own.set_callbacks(*(Listener(*one) for one in order)).fit(1) is True
        assert [call[0] for call in calls] == ["a", "b"] * 6
    calls.clear()
    with pytest.raises(ValueError, match="failed"):
        own.fit(1, fail=True)
    assert [call[1] for call in calls[-2:]] == ["teardown", "teardown"]
    assert calls[-3][1:3] == ("end", "step")
    # without a fit's own task there is nothing to end
    assert earlier.with_callbacks(lambda estimator: 5)(Fit()) == 5
