"""Ctrl-C between steps that belong together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
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


@contextmanager
def interrupts_noticed() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C came inside the block, also where what ran there kept what it had and went on.

    Only the main thread receives it; in others the answer is always no.
    """
    pressed: list[bool] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: False
        return

    def notice(number: int, frame: FrameType | None) -> None:
        pressed.append(True)
        before(number, frame)

    signal.signal(signal.SIGINT, notice)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
