"""From given views to tables of blocks, with the views and columns of `fit`."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, check_finite, check_gram_stack
from kernelweave._types import Features
from kernelweave.views.blocks import BlockTable, GramTable
from kernelweave.views.container import PrecomputedView, Views, holds_views, precomputed
from kernelweave.views.encoder import TableEncoder
from kernelweave.views.messages import listing
from kernelweave.views.table import Table

__all__ = ["GramEncoder", "ViewsEncoder"]


class GramEncoder:
    """Turn precomputed views into tables of kernel values with the training rows.

    Attributes
    ----------
    columns_ : array of int, shape (n_train,)
        Columns of the training rows in the matrix of `fit`.
    n_columns_ : int
        Columns of that matrix.
    digest_ : str or None
        Of the kernel values of the training rows with each other, which identifies their matrix. None: of a
        file without it.
    there_ : array of bool, shape (n_train,), or None
        Training rows with the view.
    """

    columns_: NDArray[np.intp]
    n_columns_: int
    digest_: str | None = None
    #: Training rows with the view; None: all.
    there_: NDArray[np.bool_] | None = None
    #: Whether rows may lack all values.
    missing: bool = False

    def __init__(self, missing: bool = False) -> None:
        self.missing = missing

    def fit(self, view: PrecomputedView) -> GramEncoder:
        """Store the training rows."""
        if not view.is_square:
            raise InputError(
                f"A precomputed view must be square for training, got shape {view.matrix.shape}. Pass "
                "K(X_train, X_train)."
            )
        _refuse_empty(view)
        self.columns_, self.n_columns_ = view.rows, view.matrix.shape[1]
        self.digest_ = self._digest(view.matrix)
        return self

    def _digest(self, matrix: NDArray[np.float64]) -> str:
        """Of the training rows in a square matrix."""
        block = matrix[np.ix_(self.columns_, self.columns_)] + 0.0  # a negative zero is a zero
        return hashlib.sha256(block.tobytes()).hexdigest()

    def _is_known(self, view: PrecomputedView) -> bool:
        """Whether these are rows of the matrix of `fit`: its training rows have the same values there."""
        same_shape = view.is_square and view.matrix.shape[1] == self.n_columns_
        return same_shape and self.digest_ is not None and self._digest(view.matrix) == self.digest_

    def training(self, view: PrecomputedView) -> GramTable:
        """The training rows as a table."""
        K = view.matrix[np.ix_(view.rows, view.rows)]
        there = np.asarray(~np.isnan(K).all(axis=1) | (not self.missing))
        self.there_ = there
        inner = K[np.ix_(there, there)]
        if inner.size:
            check_gram_stack(inner)
        check_finite(inner, "K")
        if inner.size and (apart := float(np.abs(inner - inner.T).max())) > 1e-8 * float(np.abs(inner).max()):
            raise InputError(
                f"A precomputed kernel must be symmetric, got max |K - K'| = {apart:.3g}. Use (K + K.T) / 2, or "
                "kw.repair_gram."
            )
        return GramTable(K, np.arange(len(K)), np.diag(K).copy())

    def transform(self, view: Any) -> GramTable:
        """New rows as a table."""
        if not isinstance(view, PrecomputedView):
            view = precomputed(view)
        _refuse_empty(view)
        n_columns, n_train = view.matrix.shape[1], len(self.columns_)
        # the shape does not distinguish the matrix of fit from values of as many new rows with the training rows
        known = self._is_known(view)
        whole = known or n_columns == self.n_columns_ != n_train
        if not whole and n_columns != n_train:
            raise InputError(
                f"A precomputed view of new rows must have a column for each of the {n_train} training rows, got "
                f"{n_columns}. Pass K(X_new, X_train), or rows of the square view that fit was given rows of."
            )
        K = view.matrix[np.ix_(view.rows, self.columns_)] if whole else view.matrix[view.rows]
        there = np.asarray(~np.isnan(K).all(axis=1) | (not self.missing))
        # values with training rows without the view are missing too
        check_finite(K[there] if self.there_ is None else K[np.ix_(there, self.there_)], "K")
        diagonal = view.matrix[view.rows, view.rows] if known else np.full(len(K), np.nan)
        return GramTable(np.asarray(K, dtype=np.float64), np.full(len(K), -1), diagonal)

    def empty(self, n_rows: int) -> GramTable:
        """A table of rows without any kernel value."""
        K = np.full((n_rows, len(self.columns_)), np.nan)
        return GramTable(K, np.full(n_rows, -1), np.full(n_rows, np.nan))


def _refuse_empty(view: PrecomputedView) -> None:
    if not len(view):
        raise InputError(
            f"Found array with 0 sample(s) (shape={view.shape}) while a minimum of 1 is required. Pass at least one."
        )


class ViewsEncoder:
    """Turn views into tables of blocks, the same way for training and new rows.

    Parameters
    ----------
    owner : str, default="model"
        Name of the fitted object in error messages.
    missing : bool, default=False
        Keep missing cells, as NaN; all cells of rows without a view are missing. False: they are an error.

    Attributes
    ----------
    encoders_ : dict of str to TableEncoder or GramEncoder
        By view, in the order of `fit`.

    Examples
    --------
    >>> encoder = ViewsEncoder().fit({"a": [[1.0, 2.0]], "b": [["red"]]})
    >>> encoder.transform({"b": [["blue"]], "a": [[0.0, 0.0]]}).values
    array([[ 0.,  0., -1.]])
    """

    encoders_: dict[str, TableEncoder | GramEncoder]

    #: Also for encoders that were pickled before it was a parameter.
    missing: bool = False

    def __init__(self, owner: str = "model", missing: bool = False) -> None:
        self.owner = owner
        self.missing = missing

    def fit(self, X: Features) -> ViewsEncoder:
        """Learn views, their columns and categories; return self."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Features) -> BlockTable:
        """Fit the encoder, and return the training rows as a table."""
        views = Views(X, rows="all" if self.missing else "same").views
        self.encoders_ = {}
        blocks: dict[str, Table] = {}
        for name, view in views.items():
            encoder = self._encoder_of(view)
            self.encoders_[name] = encoder
            blocks[name] = _of_view(name, _training, encoder, view)
        return BlockTable(blocks)

    def declare(self, table: BlockTable, texts: Collection[int]) -> BlockTable:
        """See `TableEncoder.declare`; positions are those of all columns."""
        for view, encoder in self.encoders_.items():
            if isinstance(encoder, TableEncoder):
                encoder.declare(table.blocks[view], table.own(view, texts))
        return table.declared(texts)

    def transform(self, X: Features) -> BlockTable:
        """Return `X` as a table with the views and columns of `fit`, whatever their order.

        Raises
        ------
        InputError
            For missing and unknown views (the known ones are listed), and for columns as `TableEncoder`, with the name
            of the view.
        """
        if not holds_views(X):
            raise InputError(
                f"{self.owner} was fitted on the views {listing(list(self.encoders_))}, got one "
                "table. Pass a dict with the same views."
            )
        if isinstance(X, Mapping):
            # frames are sorted like the rows of the first view, as in fit
            X = {view: X[view] for view in self.encoders_ if view in X} | dict(X)
        if self.missing and isinstance(X, Mapping):
            lacking = {view for view, table in X.items() if table is None}
            X = {view: table for view, table in X.items() if view not in lacking}
        else:
            lacking = set()
        views = Views(X, rows="all" if self.missing else "same").views
        known, given = list(self.encoders_), list(views)
        missing, unknown = [v for v in known if v not in views], [v for v in given if v not in self.encoders_]
        missing = [view for view in missing if view not in lacking]
        if missing or unknown:
            close = difflib.get_close_matches(unknown[0], known, n=1) if unknown else []
            hint = f" Did you mean {close[0]!r}?" if close else ""
            said = [f"lacks {listing(missing)}"] if missing else []
            said += [f"has the unknown {listing(unknown)}"] if unknown else []
            raise InputError(
                f"X must have the views of fit, {listing(known)}, but {' and '.join(said)}.{hint} Pass all of them "
                f"and no others{_LACK if self.missing and missing else ''}."
            )
        n_rows = int(next(iter(views.values())).shape[0])
        blocks = {
            name: e.empty(n_rows) if name in lacking else _of_view(name, e.transform, views[name])
            for name, e in self.encoders_.items()
        }
        return BlockTable(blocks)

    def _encoder_of(self, view: Any) -> TableEncoder | GramEncoder:
        if isinstance(view, PrecomputedView):
            return GramEncoder(self.missing)
        return TableEncoder(self.owner, missing=self.missing)


#: Advice for a view without rows.
_LACK = ", or None for a view that these rows lack"


def _training(encoder: TableEncoder | GramEncoder, view: Any) -> Table:
    """Fit the encoder of a view, and return the training rows as a table."""
    if isinstance(encoder, GramEncoder):
        return encoder.fit(view).training(view)
    return encoder.fit(view).transform(view)


def _of_view(name: str, make: Callable[..., Table], *args: Any) -> Table:
    """Make a table of a view, with its name in errors."""
    try:
        return make(*args)
    except InputError as error:
        raise InputError(f"View {name!r}: {error}") from None
    except TypeError as error:
        raise TypeError(f"View {name!r}: {error}") from None
