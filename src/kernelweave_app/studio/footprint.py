"""What a server that runs for days holds on to: memory that was used once, and objects that never go."""

from __future__ import annotations

import contextlib
import gc
import os
import sys

#: Settings of the GNU C library, from its malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
#: Bytes from which arrays have pages of their own, which go back to the system when they are freed.
LARGE = 2**20
ARENAS = 2


def give_back_memory() -> None:
    """Let freed memory go back to the system, where that can be asked for: on Linux with the GNU C library.

    Otherwise each of up to forty threads keeps what the largest question on it took.
    """
    if sys.platform != "linux":
        return
    # Arrow, which pandas holds texts in, would keep pages of its own: read when it is imported
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, ARENAS)
        mallopt(_MMAP_THRESHOLD, LARGE)
        mallopt(_TRIM_THRESHOLD, LARGE)


def keep_imports() -> None:
    """Take what has been imported out of later searches for unreachable objects, in which nothing else is answered."""
    gc.collect()
    gc.freeze()
