"""Limits of seconds and of work, for everything that is solved inside of a block, and the memory of the machine.

Solvers ask `used_up` after every iteration, however deep they are nested, and end with what they have. Machines
subtract their rounds and systems from the work that is `LEFT`.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import cache
from typing import Literal


@dataclass(slots=True, eq=False)
class Allowance:
    """The end, as `time.monotonic` counts, and rounds and systems of machines."""

    end: float = math.inf
    work: float = math.inf


#: What the innermost block allows.
LEFT: ContextVar[Allowance] = ContextVar("kernelweave_allowance", default=Allowance())  # noqa: B039 infinity stays


@contextmanager
def allowed(seconds: float | None = None, work: float | None = None) -> Iterator[None]:
    """Limit what is solved inside of the block.

    Parameters
    ----------
    seconds : float, optional
        From now on; never longer than the limit outside.
    work : float, optional
        In place of the limit outside.
    """
    token = limited(seconds, work)
    try:
        yield
    finally:
        LEFT.reset(token)


def limited(seconds: float | None, work: float | None) -> Token[Allowance]:
    """Limit what is solved from now on, until ``LEFT.reset(token)``: `allowed` without a block."""
    outside = LEFT.get()
    if seconds is None and work is None:
        return LEFT.set(outside)
    end = outside.end if seconds is None else min(outside.end, time.monotonic() + seconds)
    return LEFT.set(Allowance(end, outside.work if work is None else work))


def used_up() -> Literal["seconds", "work"] | None:
    """Which limit has been reached."""
    left = LEFT.get()
    if left.end < math.inf and time.monotonic() > left.end:
        return "seconds"
    return "work" if left.work < 0.0 else None


@cache
def machine_memory() -> float | None:
    """Bytes of physical memory; None where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
