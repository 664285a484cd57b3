"""Output: lines, tables, findings, and a progress bar on a terminal; or one JSON object, or nothing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from kernelweave._forms import numbered
from kernelweave_app import runs

if TYPE_CHECKING:
    from kernelweave._callbacks import CallbackContext
    from kernelweave.estimators import BaseMKL
    from kernelweave.inspection.registry import Found

#: Width at which no line is cut.
WIDE = 1000
#: Rows of a table of a finding.
MOST_ROWS = 12
#: Seconds between two lines about progress.
EVERY = 5.0


@dataclass
class Output:
    """How a command prints, and what it has said where that becomes one JSON object.

    Attributes
    ----------
    json, quiet : bool
    messages : list of str
    tables : list of dict
        "title", "heads" and "rows" of texts.
    result : dict
        What a command reports beside its messages, by the fields of `kernelweave_app.cli.output.Result`.
    """

    json: bool = False
    quiet: bool = False
    messages: list[str] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def shown(self) -> bool:
        """Whether lines are printed as they are said."""
        return not (self.json or self.quiet)


_outputs = [Output()]


@contextmanager
def printing(output: Output) -> Iterator[Output]:
    """Print as `output` says."""
    _outputs.append(output)
    try:
        yield output
    finally:
        _outputs.pop()


def output() -> Output:
    """How the command at hand prints."""
    return _outputs[-1]


class Terminal(Console):
    """A console that leaves it to the command line to end where nobody reads its output."""

    def on_broken_pipe(self) -> None:
        """Raise."""
        raise BrokenPipeError


def make_console() -> Console:
    """Console on standard output; a new one each time, so that redirected output is respected."""
    return Terminal(file=sys.stdout, highlight=False, soft_wrap=True)


def say(text: str, style: str = "") -> None:
    """Print a line, as it is."""
    output().messages.append(text)
    if output().shown:
        make_console().print(text, markup=False, style=style or None)


def report(**values: Any) -> None:
    """Fields of the JSON object of the command at hand."""
    output().result |= values


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Aligned columns; whole lines if the output is not a terminal."""
    if title and output().shown:
        make_console().print(title, style="bold", markup=False)
    cells = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    output().tables.append({"title": title, "heads": [str(head) for head in headers], "rows": cells})
    if not output().shown:
        return
    table = Table(*headers, box=None, pad_edge=False)
    for row in cells:
        table.add_row(*map(escape, row))
    console = make_console()
    if not console.is_terminal:
        console = Terminal(file=sys.stdout, highlight=False, width=WIDE)
    console.print(table)


def known(value: Any) -> float | None:
    """A number as JSON has it: None where it is not finite."""
    return float(value) if value is not None and math.isfinite(value) else None


def scores_of(intervals: Any, values: Any) -> dict[str, Any]:
    """Scores with the ends of their intervals, for JSON."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if known(value) is not None:
            one = intervals.get(name)
            ends = {} if one is None else {"low": known(one.low), "high": known(one.high)}
            found[name] = {"value": float(value), **ends}
    return found


def print_findings(found: Found) -> None:
    """Sentences by question, and the tables that are for terminals too."""
    from kernelweave.inspection.registry import QUESTIONS, sentences_of, tables_of

    for table in tables_of(found):
        if table.brief:
            print_table(table.heads, table.shown(MOST_ROWS), table.title)
            if len(table.rows) > MOST_ROWS:
                say(f"... and {numbered(len(table.rows) - MOST_ROWS, 'more row')}, in the report.")
            if table.note:
                say(table.note)
    for topic, head in QUESTIONS.items():
        said = [one.text for _, one in sentences_of(found) if one.topic == topic]
        if said:
            say(head, style="bold")
            for text in said:
                say(f"  {text}")


def duration(seconds: float) -> str:
    """A length of time, rounded as estimates are."""
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"


class Steps:
    """A progress bar on a terminal, occasional lines elsewhere; also a callback of scikit-learn.

    Parameters
    ----------
    label : str
    total : int, optional
        Steps expected; a fit brings its own number.
    unit : str
        What a step is called.
    """

    def __init__(self, label: str, total: int | None = None, unit: str = "steps") -> None:
        self.label, self.total, self.unit = label, total, unit
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        self.done = 0
        self._start = self._last = time.monotonic()
        console = make_console()
        if console.is_terminal and output().shown:
            columns = (
                *Progress.get_default_columns()[:-1],
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]}"),
            )
            self._bar = Progress(*columns, console=console, transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total, left=self.unit)
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def advance(self, text: str = "") -> bool:
        """Show one finished step; returns False, as nothing requests a stop."""
        self.show(self.done + 1, self.total)
        return False

    def told(self, text: str) -> bool:
        """The same of a text such as "fit 3 of 40", which may say how many there are."""
        self.total = runs.evidence.total_of(text) or self.total
        return self.advance(text)

    def show(self, done: int, total: int | None, left: float | None = None) -> None:
        """Show how many steps are done, and how many seconds are left; None: in proportion to the steps."""
        self.done, self.total = done, total
        now = time.monotonic()
        if left is None and total:
            left = (now - self._start) / max(done, 1) * (total - done)
        text = self.unit if left is None or done == total else f"{self.unit}, about {duration(left)} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, left=text)
        elif output().shown and now - self._last > EVERY:
            self._last = now
            print(f"{self.label}: {done} of {total or 'some'} {text}", flush=True)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    # ---- as a callback of scikit-learn ----------------------------------------------------------------

    def setup(self, estimator: BaseMKL, context: CallbackContext) -> None:
        """Start."""
        self.total = context.max_subtasks
        self.__enter__()

    def teardown(self, estimator: BaseMKL, context: CallbackContext) -> None:
        """Stop the bar."""
        self.close()

    def on_fit_task_begin(self, estimator: BaseMKL, context: CallbackContext, **kwargs: Any) -> None:
        """Nothing to show at the beginning of a step."""

    def on_fit_task_end(self, estimator: BaseMKL, context: CallbackContext, **kwargs: Any) -> bool:
        """Show one finished step."""
        return context.parent is not None and self.advance()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        # scikit-learn copies callbacks with the estimator; a bar belongs to one terminal
        return self
