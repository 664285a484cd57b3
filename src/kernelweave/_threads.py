"""BLAS threads: one around small matrices, where two are 30 to 50 times slower; untouched elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import threadpoolctl

#: Rows below which one BLAS thread is faster than several.
SMALL = 700


@lru_cache(maxsize=1)
def _controller() -> threadpoolctl.ThreadpoolController:
    import scipy.linalg  # noqa: F401  SciPy brings a BLAS of its own, which must be loaded to be controlled

    return threadpoolctl.ThreadpoolController().select(user_api="blas")


@contextmanager
def blas_threads_for(n_samples: int) -> Iterator[None]:
    """Use one BLAS thread inside the block when matrices have fewer than `SMALL` rows."""
    if n_samples >= SMALL:
        yield
        return
    with _controller().limit(limits=1):
        yield
