"""A line on the terminal for work that takes more than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernelweave._errors import InputError
from kernelweave._parameters import shown

#: ``progress(n_rows, total)`` after every chunk; the total is None where it is not known.
Report = Callable[[int, int | None], object]

#: Seconds before the first line, and between two.
AFTER, EVERY = 2.0, 0.5


class Line:
    """Rows so far, rewritten in place on standard error; nothing where that is not a terminal."""

    def __init__(self) -> None:
        self.begun = self.last = time.monotonic()
        self.shown = False

    def __call__(self, n_rows: int, total: int | None) -> None:
        """Show the number of rows if it is time."""
        now = time.monotonic()
        if now - self.begun < AFTER or now - self.last < EVERY or not sys.stderr.isatty():
            return
        self.last, self.shown = now, True
        of = f" of {total:,}" if total else ""
        left = (
            f", about {(now - self.begun) * (total - n_rows) / n_rows:.0f} s left" if total and n_rows else ""
        )
        sys.stderr.write(f"\r{n_rows:,}{of} rows{left}\x1b[K")
        sys.stderr.flush()

    def close(self) -> None:
        """Remove the line."""
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def reporting(progress: Report | bool | None) -> Iterator[Report]:
    """What is called after every chunk."""
    if progress is None or progress is True:
        line = Line()
        try:
            yield line
        finally:
            line.close()
    elif progress is False:
        yield lambda n_rows, total: None
    elif callable(progress):
        yield progress
    else:
        raise InputError(
            f"`progress` must be a function of rows and total, True, False or None, got {shown(progress)}."
        )
