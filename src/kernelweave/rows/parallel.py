"""Tasks at the same time: by joblib, or by the workers of Dask where joblib is configured for these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
    futures = []
    for one in arguments:
        held = client.scatter(list(one), hash=False)
        futures.append(client.submit(function, *held, pure=False, retries=RETRIES))
    try:
        for k, future in enumerate(futures):
            yield future.result()
            futures[k] = None
    finally:
        client.cancel([future for future in futures if future is not None])


def dask_client() -> Any:
    """The client of Dask in ``joblib.parallel_config(backend="dask")``, or None."""
    backend = joblib.parallel.get_active_backend()[0]
    return getattr(backend, "client", None) if type(backend).__name__ == "DaskDistributedBackend" else None
