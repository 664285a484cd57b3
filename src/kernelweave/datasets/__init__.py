"""The data sets of the papers in one encoding.

``load(name)`` searches the folder named by ``KERNELWEAVE_DATA``, a cache, and scikit-learn's data sets, and then
downloads (with the extra ``datasets``). Copies with known faults are refused with the reason.
"""

from __future__ import annotations

from typing import Annotated

from kernelweave._errors import InputError
from kernelweave._parameters import Flag, OneOf, Text, checked
from kernelweave.datasets import fourteen_cancers
from kernelweave.datasets.encoding import Dataset, encode
from kernelweave.datasets.finding import DataWarning, fetch, find_local
from kernelweave.datasets.registry import PROTOCOLS, DatasetInfo, info, registry

__all__ = ["DataWarning", "Dataset", "DatasetInfo", "info", "is_here", "load", "names"]


@checked
def names(protocol: Annotated[str | None, OneOf(*PROTOCOLS, None)] = None) -> tuple[str, ...]:
    """Names of the data sets, all or those of one paper.

    Parameters
    ----------
    protocol : {"rls2", "rkl", "mlmkl"}, optional
        The paper whose data sets are meant; by default all.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from kernelweave import datasets
    >>> "sonar" in datasets.names("rls2")
    True
    """
    if protocol is None:
        return tuple(registry())
    return tuple(name for name, row in registry().items() if protocol in row.papers)


@checked
def is_here(name: Annotated[str, Text()]) -> bool:
    """Whether a data set can be loaded without a network.

    Parameters
    ----------
    name : str
        Name of the data set.

    Returns
    -------
    bool

    Examples
    --------
    >>> from kernelweave import datasets
    >>> datasets.is_here("wdbc")
    True
    """
    if name == fourteen_cancers.NAME:
        return fourteen_cancers.folder() is not None
    return bool(find_local(info(name))[0])


@checked
def load(
    name: Annotated[str, Text()],
    *,
    protocol: Annotated[str | None, OneOf(*PROTOCOLS, None)] = None,
    missing: Annotated[str, OneOf("drop", "keep")] = "drop",
    download: Annotated[bool, Flag()] = True,
    progress: Annotated[bool, Flag()] = False,
) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    name : str
        One of `names()`. Some sets come in several versions, for example ``cpu`` and ``cpu_with_erp``.
    protocol : {"rls2", "rkl", "mlmkl"}, optional
        Prepare the columns as that paper did: standardised over all rows if the paper does so.
        By default nothing is standardised.
    missing : {"drop", "keep"}, default="drop"
        Leave out rows with missing cells, as all papers do, or keep them as NaN.
    download : bool, default=True
        Allow a download if the set is not on this computer.
    progress : bool, default=False
        Print lines during long downloads.

    Returns
    -------
    Dataset
        With `X`, `y`, `feature_names`, `target_names`, and the published split or views, if there are any.

    Raises
    ------
    InputError
        Unknown names, unavailable sets, corrupted copies.

    Warns
    -----
    DataWarning
        The copy differs from the one used for the published results.

    Notes
    -----
    Categories become one 0/1 column for each level that occurs. O(cells) time and memory.

    Examples
    --------
    >>> from kernelweave import datasets
    >>> data = datasets.load("wdbc")
    >>> data.X.shape, data.target_names
    ((569, 30), ('B', 'M'))
    """
    row = info(name)
    if protocol is not None and protocol not in row.papers:
        raise InputError(
            f"{name} is not used by the protocol {protocol!r}. Its sets: {', '.join(names(protocol))}."
        )
    standardize = protocol in row.standardized
    if name == fourteen_cancers.NAME:
        return fourteen_cancers.load_fourteen_cancers(row, standardize=standardize)
    table, found = fetch(row, download=download, progress=progress)
    return encode(row, table, found=found, missing=missing, standardize=standardize)
