"""Output: lines, and a progress bar on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

if TYPE_CHECKING:
    from kernelweave._callbacks import CallbackContext
    from kernelweave.estimators import BaseMKL
    from kernelweave.inspection.registry import Found


def make_console() -> Console:
    """Console on standard output; a new one each time, so that redirected output is respected."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Aligned columns; whole lines if the output is not a terminal."""
    table = Table(*headers, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else escape(str(cell)) for cell in row))
    console = make_console()
    if not console.is_terminal:
        console = Console(file=sys.stdout, highlight=False, width=WIDE)
    console.print(table)


#: Width at which no line is cut.
WIDE = 1000
#: Rows of a table of a finding.
MOST_ROWS = 12


def print_findings(found: Found) -> None:
    """Sentences by question, and the tables that are for terminals too."""
    from kernelweave.inspection.registry import QUESTIONS, sentences_of, tables_of

    console = make_console()
    for table in tables_of(found):
        if table.brief:
            console.print(table.title, style="bold")
            print_table(table.heads, table.shown(MOST_ROWS))
            if len(table.rows) > MOST_ROWS:
                console.print(f"... and {len(table.rows) - MOST_ROWS} more rows, in the report.")
            if table.note:
                console.print(table.note, markup=False)
    for topic, head in QUESTIONS.items():
        said = [one.text for _, one in sentences_of(found) if one.topic == topic]
        if said:
            console.print(head, style="bold")
            for text in said:
                console.print(f"  {text}", markup=False)


class Steps:
    """A progress bar on a terminal, occasional lines elsewhere."""

    EVERY = 5.0

    def __init__(self, label: str, total: int | None) -> None:
        self.label, self.total, self.done = label, total, 0
        self._start = self._last = time.monotonic()
        self._bar: Progress | None = None
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
            self._task = self._bar.add_task(label, total=total)

    def advance(self, text: str = "") -> bool:
        """Show one finished step; returns False, as nothing requests a stop."""
        self.done += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, total=self.total)
        elif time.monotonic() - self._last > self.EVERY:
            self._last = time.monotonic()
            print(f"{self.label}: {self.done} of {self.total or 'some'} steps{self._left()}", flush=True)
        return False

    def _left(self) -> str:
        if not self.total or self.done >= self.total:
            return ""
        seconds = (self._last - self._start) / self.done * (self.total - self.done)
        return f", about {seconds / 60:.0f} min left" if seconds > 90 else f", about {seconds:.0f} s left"

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class FitProgress:
    """A scikit-learn callback that shows the steps of a fit.

    Parameters
    ----------
    label : str
    """

    def __init__(self, label: str) -> None:
        self.label = label

    def setup(self, estimator: BaseMKL, context: CallbackContext) -> None:
        """Start."""
        self._steps = Steps(self.label, context.max_subtasks)

    def teardown(self, estimator: BaseMKL, context: CallbackContext) -> None:
        """Stop the bar."""
        self._steps.close()

    def on_fit_task_begin(self, estimator: BaseMKL, context: CallbackContext, **kwargs: Any) -> None:
        """Nothing to show at the beginning of a step."""

    def on_fit_task_end(self, estimator: BaseMKL, context: CallbackContext, **kwargs: Any) -> bool:
        """Show one finished step."""
        return context.parent is not None and self._steps.advance()

    def __deepcopy__(self, memo: dict[int, object]) -> FitProgress:
        # scikit-learn copies callbacks with the estimator; a bar belongs to one terminal
        return self


class RowProgress:
    """Progress in rows."""

    def __init__(self) -> None:
        self.steps: Steps | None = None

    def __call__(self, n_rows: int, total: int | None) -> None:
        """Show the number of rows so far."""
        if self.steps is None:
            self.steps = Steps("rows", total)
        self.steps.done = n_rows - 1
        self.steps.advance()

    def close(self) -> None:
        """Remove the bar."""
        if self.steps is not None:
            self.steps.close()
