"""Tasks at the same time: by joblib, or by the workers of Dask where joblib is configured for these."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Annotated, Any

import joblib

from kernelweave._parameters import Whole

#: Tasks at the same time, as joblib counts them.
Jobs = Annotated[int | None, Whole(1) | Whole(None, -1) | None]
#: How often a task is tried again whose worker was lost.
RETRIES = 3


def each(
    function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], n_jobs: int | None
) -> Iterator[Any]:
    """Results of a function for some arguments, in their order.

    joblib passes arguments to Dask within its task graph, or copies them to all workers; here each is sent once, to one
    worker.
    """
    client = dask_client()
    if client is None:
        yield from joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
            joblib.delayed(function)(*one) for one in arguments
        )
        return

    def submit(one: tuple[Any, ...]) -> Any:
        held = client.scatter(list(one), hash=False)
        return client.submit(function, *held, pure=False, retries=RETRIES)

    waiting = deque((submit(one), one) for one in arguments)
    try:
        while waiting:
            future, one = waiting[0]
            found = completed(client, future, partial(submit, one))
            waiting.popleft()
            del future
            yield found
    finally:
        if client.status == "running":
            client.cancel([future for future, _ in waiting])


def completed(client: Any, future: Any, submit: Callable[[], Any]) -> Any:
    """The result of a task of Dask, which is submitted again if a restart of the workers cancelled it."""
    from distributed.scheduler import KilledWorker

    for attempt in range(RETRIES + 1):
        try:
            return future.result()
        except CancelledError as error:
            if attempt == RETRIES or client.status != "running":
                raise RuntimeError(
                    "The cluster of Dask ended, or its client was closed, before the work was done. Connect to a "
                    "cluster again and repeat the call; sums of earlier rows that were saved continue by `into=`."
                ) from error
            future = submit()
        except KilledWorker as error:
            raise RuntimeError(
                f"A part of the rows was given to {RETRIES + 1} workers of Dask, and all of them ended, most likely "
                "for lack of memory. Give workers more memory, or make chunks, partitions or `max_memory` smaller."
            ) from error
    raise AssertionError


def dask_client() -> Any:
    """The client of Dask in ``joblib.parallel_config(backend="dask")``, or None."""
    backend = joblib.parallel.get_active_backend()[0]
    return getattr(backend, "client", None) if type(backend).__name__ == "DaskDistributedBackend" else None
