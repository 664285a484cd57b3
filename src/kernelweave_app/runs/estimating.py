"""How long a fit would take and how much memory it needs, from fits on few of its rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._callbacks import CallbackContext
from kernelweave._checks import memory_budget
from kernelweave._errors import InputError
from kernelweave.estimators import BaseMKL
from kernelweave_app.runs.fitting import count_alphas, fit_model, make_model
from kernelweave_app.runs.preparing import Prepared, Rows, classes_of, sample_rows, split
from kernelweave_app.runs.spec import SURVIVAL, Spec

#: Rows of the first fit, and by how much the next ones are larger.
FIRST = 60
GROWTH = 3.0
#: Seconds for all of these fits, the share of what is left that one of them may take, and below which none begins.
BUDGET = 6.0
SHARE = 0.4
ENOUGH = 0.15
#: Exponents of the cost in the number of rows: kernels are its square, machines up to its cube.
LEAST, USUAL, MOST = 0.5, 1.5, 3.0
#: By how much the exponent may be lower and higher on more rows, where fixed costs no longer matter.
LOWER, HIGHER = 0.3, 0.8
#: Factor by which times differ with other work of the machine, and by which the steps of a path differ.
NOISE, UNEVEN = 1.5, 2.0
#: Seconds by which short fits differ, however often they are repeated.
SHORT = 0.5
#: Steps of a fit that has to be worth beginning.
FEWEST_STEPS = 3
#: Time of fits with equal weights beside those of learnt ones.
EQUAL = 0.1
#: Matrices of rows by rows that a fit holds beside its kernels.
WORKING = 3


@dataclass(frozen=True)
class Estimate:
    """Time and memory of a fit before it begins.

    Attributes
    ----------
    seconds, low, high : float
        Of all fits: folds, path, nested folds and probabilities; and the range in which to expect them.
    memory : int
        Bytes of kernels and working matrices, at most.
    n_rows : int
        Rows to learn from.
    measured : tuple of pair
        Rows and seconds of the fits that were measured.
    exponent : float
        Time grows as this power of the number of rows.
    stopped : bool
        Whether the last of them was cut short and its time follows from its steps.
    """

    seconds: float
    low: float
    high: float
    memory: int
    n_rows: int
    measured: tuple[tuple[int, float], ...]
    exponent: float
    stopped: bool

    def said(self) -> str:
        """The time in words."""
        return f"{span(self.low)} to {span(self.high)}, most likely {span(self.seconds)}"

    def sure(self) -> str:
        """Where the time comes from, and how sure it is."""
        rows, seconds = self.measured[-1]
        took = f"a fit on {rows} of {self.n_rows} rows took {seconds:.2g} s"
        if self.stopped:
            took = (
                f"of a fit on {rows} of {self.n_rows} rows, some steps were measured, {seconds:.2g} s in all"
            )
        if rows == self.n_rows and not self.stopped:
            return f"Sure: {took}."
        if rows == self.n_rows:
            return f"Fairly sure: {took}."
        grows = f"time grows with the number of rows to the power {self.exponent:.1f}"
        how = "measured" if len(self.measured) > 1 else "usual for kernels"
        word = "Fairly sure" if self.high < 4 * self.low else "Rough"
        return f"{word}: {took}; {grows} ({how})."


class _Watch:
    """A callback that counts steps, and stops a fit that takes too long."""

    def __init__(self, most: float, clock: Callable[[], float]) -> None:
        self.most, self.clock = most, clock
        self.begin = clock()
        self.done, self.total, self.stopped = 0, 0, False

    def setup(self, estimator: BaseMKL, context: CallbackContext) -> None:
        """Begin."""
        self.total = context.max_subtasks or 0

    def teardown(self, estimator: BaseMKL, context: CallbackContext) -> None:
        """Nothing is left to do."""

    def on_fit_task_begin(self, estimator: BaseMKL, context: CallbackContext, **kwargs: Any) -> None:
        """Nothing to count at the beginning of a step."""

    def on_fit_task_end(self, estimator: BaseMKL, context: CallbackContext, **kwargs: Any) -> bool:
        """Count a step; true stops the fit."""
        self.done += context.parent is not None
        self.stopped = self.stopped or self.clock() - self.begin > self.most
        return self.stopped

    def __deepcopy__(self, memo: dict[int, object]) -> _Watch:
        return self

    def seconds(self) -> float:
        """Time of the whole fit; of one that was stopped by the share of its steps."""
        passed = self.clock() - self.begin
        return passed * max(1.0, self.total / max(self.done, 1)) if self.stopped else passed


def estimate_fit(
    spec: Spec,
    prepared: Prepared,
    *,
    budget: float = BUDGET,
    clock: Callable[[], float] = time.perf_counter,
) -> Estimate:
    """Estimate time and memory of a fit with all its folds.

    Parameters
    ----------
    spec : Spec
    prepared : Prepared
        The whole table.
    budget : float, default=6.0
        Seconds for measuring, about.
    clock : callable
        Seconds.

    Returns
    -------
    Estimate

    Raises
    ------
    InputError
        If no part of the rows can be fitted: what the whole fit would say.

    Notes
    -----
    Parts of 60, 180, 540, ... rows are fitted with the same settings, each for a part of the budget; of a fit that is
    cut short, time follows from the share of its steps. Between the last two, time grows as a power of the number of
    rows, and so on to all rows. The range allows for a higher power on more rows, for steps that differ, and for other
    work of the machine. Kernels that are replaced by features from some number of rows on (`approximation`) make the
    fit cheaper than the estimate says.

    Cost: about the budget, or one step of a fit of 60 rows.
    """
    train, _ = split(prepared, spec)
    n, classes = len(train), classes_of(prepared, train)
    size = min(n, max(FIRST, 4 * spec.cv * len(set(classes.tolist()))))
    measured: list[tuple[int, float]] = []
    left, n_kernels, uneven, problem = budget, 0, False, None
    warm = False
    while True:
        rows = sample_rows(train, classes, size, spec.seed)
        watch = _Watch(left if len(rows) >= n else SHARE * left, clock)
        try:
            n_kernels = _fit(spec, prepared, rows, watch) or n_kernels
        except InputError as error:
            problem = error  # too few rows for these folds or groups
        else:
            passed = clock() - watch.begin
            left -= passed
            if not warm and passed < ENOUGH * budget:
                warm = True  # the first fit of a process loads and prepares code
                continue
            measured.append((len(rows), max(watch.seconds(), 1e-4)))
            uneven = watch.stopped
            step = passed / max(watch.done, 1)
            ahead = (
                FEWEST_STEPS * step * GROWTH**MOST
                if watch.total
                else passed * GROWTH ** max(USUAL, _exponent(measured))
            )
            if len(rows) >= n or left < max(ahead, ENOUGH * budget):
                break
        if size >= n:
            break
        size = min(n, int(size * GROWTH))
    if not measured:
        raise problem or InputError("No part of these rows can be fitted.")
    power, reach = _exponent(measured), n / measured[-1][0]
    base = measured[-1][1] * (UNEVEN if uneven else 1.0) ** 0.5
    seconds = fits_of(spec, prepared.task, power) * base * reach**power
    factor = NOISE * (UNEVEN if uneven else 1.0)
    return Estimate(
        seconds=seconds,
        low=min(seconds / (factor * reach**LOWER), max(seconds - SHORT, 0.0)),
        high=max(seconds * factor * reach ** min(HIGHER, MOST - power), seconds + SHORT),
        memory=_memory(spec, n, n_kernels),
        n_rows=n,
        measured=tuple(measured),
        exponent=power,
        stopped=uneven,
    )


def _fit(spec: Spec, prepared: Prepared, rows: Rows, watch: _Watch) -> int:
    """Fit some rows; the number of kernels, 0 where the fit was stopped before anything was complete."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return int(fit_model(make_model(spec, prepared, rows[:1]), prepared, rows, watch).n_kernels_)
        except KeyboardInterrupt:
            if not watch.stopped:
                raise
            return 0


def fits_of(spec: Spec, task: str, power: float) -> float:
    """Time of a whole run in units of one fit with its folds: that fit, its path, nested folds, probabilities."""
    n_alphas, n_folds = count_alphas(spec, task)
    # a path is one fold more
    found = 1.0 + 1.0 / (n_folds + 1)
    if task == SURVIVAL:
        found += (1.0 + EQUAL) * spec.cv * (1.0 - 1.0 / spec.cv) ** power
    elif spec.nested:
        found += spec.nested * (1.0 - 1.0 / spec.nested) ** power
    if task == "classification" and spec.probabilities != "none":
        found += spec.cv / (n_alphas * (n_folds + 1))
    return found


def _exponent(measured: list[tuple[int, float]]) -> float:
    """The power of the number of rows by which time grew last; the first fits have costs that do not grow."""
    if len(measured) < 2:
        return USUAL
    (few, short), (many, long) = measured[-2:]
    return float(np.clip(np.log(long / short) / np.log(many / few), LEAST, MOST))


def _memory(spec: Spec, n: int, n_kernels: int) -> int:
    """Bytes of the triangles of all kernels, as far as they may be held, and of working matrices."""
    kernels = 4.0 * n * (n + 1) * max(n_kernels, 1)
    return int(min(kernels, memory_budget(spec.max_memory)) + WORKING * 8.0 * n * n)


def span(seconds: float) -> str:
    """A duration in words.

    Examples
    --------
    >>> span(0.2), span(95.0), span(8000.0)
    ('under 1 s', '2 min', '2.2 h')
    """
    if seconds < 1:
        return "under 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
