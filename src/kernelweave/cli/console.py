"""What people see: lines, and a progress bar on a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def make_console() -> Console:
    """Console on standard output, made anew so that redirected output is seen."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True)


class FitProgress:
    """A scikit-learn callback: a bar on a terminal, a line now and then elsewhere.

    Parameters
    ----------
    label : str
    stop_after : float, optional
        Ask the fit to stop after so many seconds.
    """

    EVERY = 5.0

    def __init__(self, label: str) -> None:
        self.label = label
        self._bar: Progress | None = None

    def setup(self, estimator: Any, context: Any) -> None:
        """Start."""
        self._total = context.max_subtasks
        self._done = 0
        self._last = time.monotonic()
        console = make_console()
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self._total)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Stop the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None:
        """Nothing to show yet."""

    def on_fit_task_end(self, estimator: Any, context: Any, **kwargs: Any) -> bool:
        """Show one finished step."""
        if context.parent is None:
            return False
        self._done += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)
        elif time.monotonic() - self._last > self.EVERY:
            self._last = time.monotonic()
            print(f"{self.label}: {self._done} of {self._total} steps", flush=True)
        return False

    def __deepcopy__(self, memo: dict[int, Any]) -> FitProgress:
        # scikit-learn copies callbacks with the estimator; a bar belongs to one terminal
        return self
