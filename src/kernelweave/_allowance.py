"""Limits of seconds and of work, for everything that is solved inside of a block, and the memory of the machine.

Solvers ask `used_up` after every iteration, however deep they are nested, and end with what they have.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal


@dataclass(slots=True, eq=False)
class _Allowance:
    end: float = math.inf
    work: float = math.inf


_NOW: ContextVar[_Allowance | None] = ContextVar("kernelweave_allowance", default=None)


def allowed(seconds: float | None = None, work: float | None = None) -> AbstractContextManager[None]:
    """Limit what is solved inside of the block.

    Parameters
    ----------
    seconds : float, optional
        From now on; never longer than the limit outside.
    work : float, optional
        What `spend` may add up to, in place of the limit outside.
    """
    return nullcontext() if seconds is None and work is None else _limited(seconds, work)


@contextmanager
def _limited(seconds: float | None, work: float | None) -> Iterator[None]:
    outside = _NOW.get() or _Allowance()
    end = outside.end if seconds is None else min(outside.end, time.monotonic() + seconds)
    token = _NOW.set(_Allowance(end, outside.work if work is None else work))
    try:
        yield
    finally:
        _NOW.reset(token)


def spend(work: float) -> None:
    """Subtract from the work that is left."""
    now = _NOW.get()
    if now is not None:
        now.work -= work


def is_timed() -> bool:
    """Whether there is a limit of seconds."""
    now = _NOW.get()
    return now is not None and now.end < math.inf


def used_up() -> Literal["seconds", "work"] | None:
    """Which limit has been reached."""
    now = _NOW.get()
    if now is None:
        return None
    if now.end < math.inf and time.monotonic() > now.end:
        return "seconds"
    return "work" if now.work < 0.0 else None


def machine_memory() -> float | None:
    """Bytes of physical memory; None where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
