"""Ctrl-C between steps that belong together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the end of the block rather than in the middle of it.

    Only the main thread receives it; blocks in others are left as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is None or not callable(before):
        # set from outside of Python, or ignored
        yield
        return
    pending: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: pending.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pending:
            before(signal.SIGINT, pending[0])
