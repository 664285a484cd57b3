"""Whether several targets of a regression share weights and alpha, or each has its own, and how that is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, warn_user
from kernelweave.estimators.choosing import Candidates, Chosen, not_an_estimate, say_interrupted
from kernelweave.estimators.scoring import fold_score
from kernelweave.estimators.sources import fitted_maps
from kernelweave.fitting.folds import pooled_scores
from kernelweave.fitting.out_of_fold import OutOfFold
from kernelweave.fitting.source import TableSource
from kernelweave.fitting.task import NormalizedProblem, Report, SolvedProblem, Task
from kernelweave.learners import RLS2, Learner
from kernelweave.mkl.many_targets import ROUNDS, OwnTargets, bytes_needed, most_looks, solve_many

__all__ = ["TARGETS", "TargetsChoice", "chooses_for_targets", "refuse_own"]

Array = NDArray[np.float64]

#: How weights and alpha belong to several targets.
TARGETS = ("auto", "own", "shared")
#: Scores under which errors of squares choose as well.
SQUARES = (None, "r2", "neg_mean_squared_error", "neg_root_mean_squared_error")
#: Relative gap of ridge regressions whose weights have no bound: of targets without noise rounding errors alone are
#: above 1e-8, measured up to 2e-8.
RIDGE_TOL = 1e-6
#: Most rows for which it is looked up what stated sharing costs, and the R^2 from which that is told. For more rows,
#: weights of few targets are proposed once.
CHECK_ROWS, COSTS, MANY = 1000, 0.02, 50


def chooses_for_targets(task: Task, learner: Learner) -> bool:
    """Whether there are several targets, and alpha, and with it weights, is chosen for them."""
    if task.classification or len(task.targets) != 1 or task.n_outputs < 2 or not isinstance(learner, RLS2):
        return False
    free = learner.alpha == "auto" and (learner.relax is None or learner.relax == "auto")
    return free and learner.solver == "newton" and learner.shared_weights


def refuse_own(learner: Learner) -> None:
    """Raise `InputError` for learners whose targets cannot have weights and alpha of their own."""
    if not isinstance(learner, RLS2):
        raise InputError(
            f"`targets='own'` is for learner='rls2', got {type(learner).__name__}. Use 'auto', or a fit for each "
            "target."
        )
    if learner.requested() is None and (learner.relax not in (None, "auto") or learner.solver != "newton"):
        raise InputError(
            f"`targets='own'` chooses alpha for each target with relax=None or relax='auto' and solver='newton', got "
            f"relax={learner.relax!r} and solver={learner.solver!r}. Change them, or fit each target alone."
        )


@dataclass(frozen=True)
class TargetsChoice(Candidates):
    """Candidates that several targets share, or weights and alpha of each target: what has the smaller error on folds.

    Attributes
    ----------
    asked : {"auto", "own", "shared"}
    scoring : object
        The score that chooses alpha; None for squared errors.
    given : bool
        Whether regularisation parameters were given.
    """

    asked: str = "auto"
    scoring: object = None
    given: bool = False

    @property
    def n_steps(self) -> None:
        """Unknown: it depends on the folds."""
        return None

    def choose(
        self, task: Task, problems: list[NormalizedProblem], learner: Learner, report: Report
    ) -> Chosen:
        """Compare, choose, and solve on all rows."""
        reason = self._obstacle(task, problems[0])
        if self.asked == "own" and reason:
            raise InputError(f"`targets='own'` cannot be used: {reason}. Use targets='shared'.")
        if reason or (self.asked == "shared" and task.source.n_samples > CHECK_ROWS):
            said = f"they share weights and {learner.regularization_parameter}"
            said += "" if self.asked == "shared" else f", because {reason}"
            return replace(super().choose(task, problems, learner, report), targets=f"{said}.")
        problem, n, n_targets = problems[0], task.source.n_samples, task.n_outputs
        found = solve_many(
            problem.gram,
            problem.y,
            self.tests,
            scale=problem.scale,
            sample_weight=problem.sample_weight,
            alphas=self.alphas if self.given else None,
            fit_intercept=task.fit_intercept,
            tol=max(learner.tol, RIDGE_TOL),
            report=report,
            rounds=1 if self.asked == "shared" or (n > CHECK_ROWS and n_targets < MANY) else ROUNDS,
        )
        # a constant target has no share of a variance
        varied = np.ptp(task.targets[0], axis=0) > 0
        own, shared = (
            1.0 - float(errors[varied].mean()) if varied.any() else 0.0
            for errors in (found.own, found.shared)
        )
        compared = f"out-of-fold R^2 {own:.3g} with their own, {shared:.3g} shared"
        if self.asked == "shared" or (self.asked == "auto" and own <= shared and not found.interrupted):
            if self.asked == "shared" and own > shared + COSTS:
                warn_user(
                    f"The {n_targets} targets share weights and alpha, as targets='shared' says, and this costs: "
                    f"{compared}, on average over targets. Use targets='auto' or 'own'."
                )
            said = f"they share weights and alpha: {compared}, on average."
            return replace(super().choose(task, problems, learner, report), targets=said)
        if found.interrupted:
            n_all = most_looks(problem.gram.n_kernels)
            say_interrupted(f"weights of targets were chosen among {found.n_looks} of at most {n_all}")
        low, high = found.solution.alphas.min(), found.solution.alphas.max()
        said = (
            f"each of the {n_targets} has its own weights and alpha ({low:.3g} to {high:.3g}), chosen among "
            f"{found.n_looks} vectors of weights by squared errors on {len(self.tests)} folds, kernels there are "
            f"those of all rows: {compared}, on average, each fold at what the others chose."
        )
        return replace(_chosen(task, problem, learner, found, self.tests), targets=said)

    def _obstacle(self, task: Task, problem: NormalizedProblem) -> str:
        """Why targets cannot have their own, in words; empty if they can."""
        n, source = task.source.n_samples, task.source
        if len(self.tests) < 2:
            return "there are fewer than two folds"
        tested = np.concatenate(self.tests)
        if not self.complements or len(np.unique(tested)) < len(tested):
            return "the folds do not divide the rows, with all others as training rows"
        if not (self.scoring is None or self.scoring in SQUARES):
            return "the score that chooses is not one of squared errors"
        if self.rule != "min":
            return f"the rule is {self.rule!r}, which is for one regularisation parameter"
        if getattr(source, "targets", None) is not None:
            return (
                "a metric is learnt from the targets, and folds of one matrix would have seen their test rows"
            )
        if fitted_maps(source):
            return "kernels are approximated by features"
        needed = bytes_needed(n, task.n_outputs)
        room = source.max_memory if isinstance(source, TableSource) else np.inf
        if needed > room:
            return (
                f"matrices of {n} rows and {task.n_outputs} targets take {needed / 2**30:.3g} GiB, and max_memory is "
                f"{room / 2**30:.3g} GiB"
            )
        return ""


def _chosen(
    task: Task,
    problem: NormalizedProblem,
    learner: Learner,
    found: OwnTargets,
    tests: Sequence[NDArray[np.intp]],
) -> Chosen:
    """The solution of all targets as what was chosen, with one entry of results."""
    varied = np.ptp(task.targets[0], axis=0) > 0
    score = 1.0 - float(found.errors[varied].mean()) if varied.any() else 0.0
    values = task.targets[0] - found.residuals
    of_rows = fold_score(None, task.targets[0][:, varied], sample_weight=task.sample_weight)
    held = [values[test][:, varied] for test in tests] if varied.any() else []
    splits = [of_rows(own, test) for own, test in zip(held, tests, strict=False)] or [0.0]
    error = pooled_scores(of_rows, tests, held)[1] if held else np.zeros(())
    results: dict[str, Any] = {
        "alpha": np.array([found.solution.alpha]),
        "test_score": np.array([score]),
        "std_error_test_score": error[None],
        "mean_test_score": np.array([np.mean(splits)]),
        "score_name": "R^2, mean over targets",
        **{f"split{k}_test_score": np.array([one]) for k, one in enumerate(splits)},
    }
    return Chosen(
        found.solution.alpha,
        [SolvedProblem(problem, found.solution)],
        results,
        0,
        f"alpha of each target by {len(tests)} folds, R^2 {score:.3g}, mean over targets; this is "
        f"{not_an_estimate('alpha')}.",
        OutOfFold.of(task, learner, values),
        found.interrupted,
    )
