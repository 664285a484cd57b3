"""From the steps of a fit to the store: progress, time left, and the path so far."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave.fitting.task import PathStep
from kernelweave_app.studio.disk import DiskFull
from kernelweave_app.studio.store import Point, Store

if TYPE_CHECKING:
    from kernelweave._callbacks import CallbackContext
    from kernelweave.estimators import BaseMKL

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
    outputs : sequence of str, default=()
        Classes, if each has a problem of its own.
    heard : callable, optional
        Called once when the run is found to be asked to stop.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        total: int | None,
        outputs: Sequence[str] = (),
        heard: Callable[[], None] | None = None,
    ) -> None:
        self.store, self.run_id, self.total, self.outputs = store, run_id, total, tuple(outputs)
        self.heard = heard or (lambda: None)
        self.done = 0
        self.stage = ""
        #: The class of all steps, where they are those of one class.
        self.output = ""
        self.stopped = False
        self.draws = True
        self._points: list[Point] = []
        self._last = 0.0

    def report(self, text: str) -> bool:
        """Record a finished step; returns whether to stop."""
        self.done += 1
        if self.total is not None:
            self.total = max(self.total, self.done)
        if isinstance(text, PathStep) and self.draws:
            self._points.append(self._point(text))
        if time.monotonic() - self._last > EVERY:
            self.flush(str(text))
        return self.stopped

    def flush(self, text: str) -> None:
        """Write the progress."""
        self._last, before = time.monotonic(), self.stopped
        said = f"{self.stage}: {text}" if self.stage else text
        try:
            if self._points:
                self.store.add_points(self.run_id, self._points)
                self._points = []
            self.stopped = self.store.progress(self.run_id, self.done, self.total, said) or self.stopped
        except DiskFull:
            # a fit need not fail because its progress cannot be shown: the points wait for room
            self.stopped = self.store.is_cancelled(self.run_id) or self.stopped
        if self.stopped and not before:
            self.heard()

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

    def _point(self, step: PathStep) -> Point:
        weights = np.atleast_2d(np.asarray(step.weights, dtype=float))
        weights = weights.reshape(-1, weights.shape[-1]).mean(axis=0)
        order = np.argsort(-weights, kind="stable")[:MOST_WEIGHTS]
        largest = {int(m): round(float(weights[m]), 6) for m in order if weights[m] > 0}
        output = self.output
        if not output and step.problem < len(self.outputs):
            output = self.outputs[step.problem]
        elif not output and step.problem:
            output = f"problem {step.problem + 1}"
        gap = step.rel_gap if np.isfinite(step.rel_gap) else None
        return step.label, output, step.alpha, gap, int(np.count_nonzero(weights)), json.dumps(largest)
