"""Tables with all further views of their rows: sparse ones, and precomputed kernels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kernelweave_app.runs.gram_views import with_grams
from kernelweave_app.runs.joining import Joined, read_tables
from kernelweave_app.runs.sparse_files import is_sparse_file
from kernelweave_app.runs.sparse_views import read_labelled, with_views
from kernelweave_app.runs.spec import Spec


def read_all(paths: Mapping[str, str], spec: Spec, *, labelled: bool = False) -> Joined:
    """Read the tables of a run, and what its settings `view` and `gram` name.

    Parameters
    ----------
    paths : mapping of str to str
        Table files by name.
    spec : Spec
    labelled : bool, default=False
        Take a sparse file in place of a table for labels and a sparse view, unless the setting `dense` asks for
        columns; otherwise it is a table of columns.

    Returns
    -------
    Joined
    """
    first = next(iter(paths.values()))
    several = len(paths) > 1
    if labelled and not spec.dense and not several and is_sparse_file(first):
        [name] = paths
        data = read_labelled(str(Path(first).resolve()), name)
    else:
        data = read_tables(paths, spec.key, spec.rows)
    data = with_views(data, spec.view, first, joined=several)
    return with_grams(data, spec.gram, spec.key, joined=several)
