"""From the steps of a fit to the store: progress, time left, and the path so far."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave.fitting.task import PathStep
from kernelweave.studio.store import Store

if TYPE_CHECKING:
    from kernelweave._callbacks import CallbackContext
    from kernelweave.estimators.base import BaseMKL

#: Seconds between two writes; pages show a change within a second.
EVERY = 0.15
#: Number of weights stored for each point of the live chart.
MOST_WEIGHTS = 30


class Progress:
    """Counts steps, stores points of paths, and checks whether to stop.

    Parameters
    ----------
    store : Store
    run_id : str
    total : int
        Steps expected in all.
    """

    def __init__(self, store: Store, run_id: str, total: int | None) -> None:
        self.store, self.run_id, self.total = store, run_id, total
        self.done = 0
        self.stage = ""
        self.stopped = False
        self.draws = True
        self._points: list[tuple[str, float, float | None, int, str]] = []
        self._last = 0.0

    def report(self, text: str) -> bool:
        """Record a finished step; returns whether to stop."""
        self.done += 1
        if self.total is not None:
            self.total = max(self.total, self.done)
        if isinstance(text, PathStep) and self.draws:
            self._points.append(_point(text))
        if time.monotonic() - self._last > EVERY:
            self.flush(str(text))
        return self.stopped

    def flush(self, text: str) -> None:
        """Write the progress."""
        self._last = time.monotonic()
        if self._points:
            self.store.add_points(self.run_id, self._points)
            self._points = []
        said = f"{self.stage}: {text}" if self.stage else text
        self.stopped = self.store.progress(self.run_id, self.done, self.total, said) or self.stopped

    def end(self, text: str) -> None:
        """End a stage; paths that end early have fewer steps than expected."""
        self.stage, self.done = "", self.total or self.done
        self.flush(text)

    # ---- as a callback of scikit-learn --------------------------------------------------------------

    def setup(self, estimator: BaseMKL, context: CallbackContext) -> None:
        """Start; the estimator gives the number of steps."""

    def teardown(self, estimator: BaseMKL, context: CallbackContext) -> None:
        """Write the last steps."""
        self.flush("")

    def on_fit_task_begin(self, estimator: BaseMKL, context: CallbackContext, **kwargs: Any) -> None:
        """Nothing to record at the beginning of a step."""

    def on_fit_task_end(self, estimator: BaseMKL, context: CallbackContext, **kwargs: Any) -> bool:
        """Record a finished step."""
        return context.parent is not None and self.report(context.task_name)

    def __deepcopy__(self, memo: dict[int, object]) -> Progress:
        # scikit-learn copies callbacks with the estimator; there is one store
        return self


def _point(step: PathStep) -> tuple[str, float, float | None, int, str]:
    weights = np.atleast_2d(np.asarray(step.weights, dtype=float))
    weights = weights.reshape(-1, weights.shape[-1]).mean(axis=0)
    order = np.argsort(-weights, kind="stable")[:MOST_WEIGHTS]
    largest = {int(m): round(float(weights[m]), 6) for m in order if weights[m] > 0}
    stage = f"{step.label}, problem {step.problem + 1}" if step.problem else step.label
    gap = step.rel_gap if np.isfinite(step.rel_gap) else None
    return stage, step.alpha, gap, int(np.count_nonzero(weights)), json.dumps(largest)
