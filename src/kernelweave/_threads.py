"""Threads: one for small matrices, where two BLAS threads are 30 to 50 times slower; otherwise unchanged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from operator import attrgetter

import threadpoolctl

#: Rows below which one BLAS thread is faster than several.
SMALL = 700


@lru_cache(maxsize=1)
def _controller() -> threadpoolctl.ThreadpoolController:
    import scipy.linalg  # noqa: F401  SciPy has its own BLAS, which must be loaded to be controlled

    return threadpoolctl.ThreadpoolController().select(user_api="blas")


#: BLAS threads outside of the limits that are set here; None without limits.
_outside: ContextVar[int | None] = ContextVar("_outside", default=None)


#: For blocks in which nothing changes: asking the libraries takes as long as the equations of twenty rows.
_UNCHANGED: AbstractContextManager[None] = nullcontext()


def one_blas_thread() -> AbstractContextManager[None]:
    """Use one BLAS thread inside the block, except for factorisations in `blas_threads_for`."""
    return _one_thread() if _outside.get() is None else _UNCHANGED


def blas_threads_for(n_samples: int) -> AbstractContextManager[None]:
    """Use one BLAS thread inside the block if matrices have fewer than `SMALL` rows, else as many as outside."""
    before = _outside.get()
    if n_samples < SMALL:
        return _one_thread() if before is None else _UNCHANGED
    return _UNCHANGED if before is None else _as_outside(before)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = _now()
    token = _outside.set(before)
    _at_first()
    try:
        # setting one thread where there is one takes as long as the equations of fifty rows
        with _controller().limit(limits=1) if before > 1 else _UNCHANGED:
            yield
    finally:
        _outside.reset(token)


@contextmanager
def _as_outside(before: int) -> Iterator[None]:
    token = _outside.set(None)
    try:
        with _controller().limit(limits=before):
            yield
    finally:
        _outside.reset(token)


class _Shared:
    """The limit of one thread that threads of Python share: the first sets it, the last removes it."""

    def __init__(self) -> None:
        self.lock, self.count = threading.Lock(), 0
        self.limit: AbstractContextManager[object] | None = None


_shared = _Shared()


@contextmanager
def one_blas_thread_each() -> Iterator[None]:
    """Use one BLAS thread inside the block, in every thread of Python that is in such a block.

    Limits that end in another order than they began would leave the wrong number of threads behind.
    """
    with _shared.lock:
        _shared.count += 1
        if _shared.count == 1:
            _shared.limit = _controller().limit(limits=1)
            _shared.limit.__enter__()
    try:
        yield
    finally:
        with _shared.lock:
            _shared.count -= 1
            if _shared.count == 0 and _shared.limit is not None:
                _shared.limit.__exit__(None, None, None)
                _shared.limit = None


def _now() -> int:
    return max(map(attrgetter("num_threads"), _controller().lib_controllers), default=1)


@lru_cache(maxsize=1)
def _at_first() -> int:
    return _now()


@lru_cache
def threads_for(n_samples: int) -> int:
    """Threads of the compiled loops: one below `SMALL` rows, else as many as BLAS had on the first call.

    This follows ``OMP_NUM_THREADS`` and similar variables, and joblib's limits for its workers, but not the limits for
    small matrices here, because idle threads of these loops use no processor time.
    """
    return 1 if n_samples < SMALL else _at_first()
