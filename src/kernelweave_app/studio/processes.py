"""The environment of processes that compute for the studio."""

from __future__ import annotations

import os

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def environment(threads: int) -> dict[str, str]:
    """Environment variables for a process.

    Parameters
    ----------
    threads : int
        Threads of linear algebra, where the user has not set them.

    Returns
    -------
    dict of str to str
        Without the server's token, which such processes do not need; figures open no window.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KERNELWEAVE_STUDIO_")}
    return {**dict.fromkeys(THREAD_VARIABLES, str(max(1, threads))), **kept, "MPLBACKEND": "Agg"}
