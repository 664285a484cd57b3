"""Annotated matrices, AnnData and MuData, recognised by their attributes: neither package is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from kernelweave._checks import InputError
from kernelweave._sparse import is_sparse
from kernelweave._types import AnnData
from kernelweave.views.messages import listing

__all__ = ["is_annotated", "is_annotated_views", "matrix_of", "views_of"]


def is_annotated(X: object) -> TypeGuard[AnnData]:
    """Whether something is like an AnnData: a matrix `X` with names of rows and columns."""
    return all(hasattr(X, name) for name in ("X", "obs_names", "var_names"))


def is_annotated_views(X: object) -> bool:
    """Whether something is like a MuData: several of these in a dict `mod`."""
    return isinstance(getattr(X, "mod", None), Mapping) and hasattr(X, "obs_names")


def matrix_of(X: Any) -> Any:
    """The matrix of an AnnData, sparse or as a frame with its names; raises for one without."""
    values = X.X
    if values is None:
        raise InputError(
            "This annotated matrix has no X. Set it to the required layer: data.X = data.layers[...]."
        )
    if is_sparse(values):
        return values
    import pandas as pd

    return pd.DataFrame(np.asarray(values), index=X.obs_names, columns=[str(name) for name in X.var_names])


def views_of(X: Any) -> dict[str, Any]:
    """The matrices of a MuData, rows in its order; rows that are missing in one of them are an error."""
    found = {}
    _check_unique(X, "")
    for name, one in X.mod.items():
        _check_unique(one, f"View {name!r}: ")
        places = one.obs_names.get_indexer(X.obs_names)
        if (places < 0).any():
            lacking = [str(label) for label in X.obs_names[places < 0]]
            raise InputError(
                f"All views must have the same rows. View {name!r} lacks {len(lacking)}: {listing(lacking, limit=5)}. "
                "Keep the rows that all views have."
            )
        matrix = matrix_of(one)
        found[name] = matrix.tocsr()[places] if is_sparse(matrix) else matrix.iloc[places]
    return found


def _check_unique(X: Any, where: str) -> None:
    """Raise for repeated names of rows, because rows are joined by them."""
    if not X.obs_names.is_unique:
        repeated = [str(label) for label in X.obs_names[X.obs_names.duplicated()].unique()]
        raise InputError(
            f"{where}Names of rows must be unique, got {listing(repeated, limit=5)} more than once. Call "
            "obs_names_make_unique() first."
        )
