"""Checks of given rows, and their conversion to sources and queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kernelweave import banks, recipe
from kernelweave._checks import InputError, check_gram_stack, check_size, count_dimensions, memory_budget
from kernelweave._sparse import to_dense
from kernelweave._types import Features
from kernelweave.estimators.parameters import Parameters
from kernelweave.estimators.sources import (
    check_cells,
    check_kernels,
    choose_form,
    kernels_of_views,
    looked_at,
    missing_of,
    places_of,
    refuse_absent_views,
    skipping,
    takes_missing,
)
from kernelweave.estimators.texts import check_objects, columns_read, long_texts
from kernelweave.fitting.missing import blocks_of, views_of
from kernelweave.fitting.model import Model
from kernelweave.fitting.partial import PartialSource
from kernelweave.fitting.source import Source, TableSource
from kernelweave.fitting.stacks import BankSource, GivenSource, KernelBank, StackSource
from kernelweave.kernels import Kernel
from kernelweave.kernels.composed import check_gamma, has_gamma, steps_of, with_gamma
from kernelweave.kernels.steps import as_steps
from kernelweave.learners import Learner
from kernelweave.views import (
    BlockTable,
    SparseTable,
    Table,
    TableEncoder,
    Views,
    ViewsEncoder,
    holds_views,
)
from kernelweave.views.container import is_annotated, matrix_of
from kernelweave.views.levels import levels_of
from kernelweave.views.tables import as_sparse

Array = NDArray[np.float64]
Encoder = TableEncoder | ViewsEncoder


class ReadingMixin(Parameters):
    """Checks rows in the three formats of estimators: tables (one or several), indices of a bank, kernel stacks."""

    model_: Model
    defaults_: dict[str, Any]
    missing_: dict[str, Any]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        tags.input_tags.three_d_array = self._is_precomputed
        tags.input_tags.categorical = not self._is_precomputed
        tags.input_tags.string = False
        tags.input_tags.sparse = not self._is_precomputed
        tags.input_tags.allow_nan = takes_missing(self.missing, self.kernels)
        return tags

    def _read_training(self, X: Any) -> tuple[Table | GivenSource[Any], Encoder | None]:
        """Check training rows: a table with its encoder, or the source of given kernels."""
        if isinstance(X, list) and not X:
            raise InputError("`X` is an empty list. Pass rows, or tables, at least one.")
        if self._is_precomputed or isinstance(self.kernels, KernelBank):
            return self._read_given(X), None
        encoder: Encoder
        plain = type(X) is np.ndarray
        if not plain and holds_views(X):
            refuse_absent_views(X)
            keeps = self.missing_views != "error" or takes_missing(self.missing, self.kernels)
            encoder = ViewsEncoder(type(self).__name__, missing=keeps)
        else:
            if not plain:
                X = matrix_of(X) if is_annotated(X) else X
                self._look_at(X, reset=True)
            encoder = TableEncoder(type(self).__name__, reorder=False, missing=True)
        table: Any = encoder.fit_transform(X)
        if self._is_plain or table.cells is not None:
            table = self._declare_texts(table, encoder)
        for array in table.arrays():
            check_size(array, "X")
        self.n_features_in_ = table.n_columns
        return table, encoder

    def _read_given(self, X: Any) -> GivenSource[Any]:
        """Check indices of a bank, or a kernel stack."""
        got = "a KernelBank" if isinstance(self.kernels, KernelBank) else "'precomputed'"
        if self.views is not None:
            raise InputError(
                f"`views` groups columns of X, and with kernels={got} there are none. Leave `views` out, or pass a "
                "list of kernels."
            )
        if self.gamma is not None:
            raise InputError(
                "`gamma` is for Gaussian and Laplacian kernels of columns, and with precomputed kernels there are "
                "none. Leave `gamma` out, or pass a list of kernels."
            )
        if isinstance(self.kernels, KernelBank):
            if holds_views(X):
                raise InputError(
                    "With a KernelBank, `X` must be one column of sample indices, got views. Make views of its "
                    "matrices with kw.precomputed(K), and leave `kernels` out."
                )
            self.n_features_in_ = 1
            return BankSource(self.kernels, BankSource.check_index(self.kernels, X))
        if isinstance(X, Views | Mapping):
            raise InputError(
                "With kernels='precomputed', `X` must be a kernel matrix or a stack of them, got views. Leave "
                "`kernels` out, and pass each matrix as a view: {'name': kw.precomputed(K)}."
            )
        if count_dimensions(X) == 2:
            X = np.asarray(X)
            if X.shape[0] != X.shape[1]:
                raise InputError(
                    f"Precomputed kernels must be square for training, got shape {X.shape}. "
                    "Pass K(X_train, X_train), kernels last."
                )
        stack = check_gram_stack(X)
        self.n_features_in_ = stack.shape[1]
        return StackSource(stack)

    def _declare_texts(self, table: Any, encoder: TableEncoder | ViewsEncoder) -> Any:
        """Declare as texts the columns that are read by kernels of texts, custom kernels or the default bank."""
        read = set() if table.cells is None else long_texts(table, None if self._is_plain else self.kernels)
        kernels: list[Kernel] = []
        if self._is_plain:
            table = self._group_levels(table, encoder, read)
        if table.cells is None:
            return table
        if not self._is_plain:
            kernels = self._kernel_list(table.declared(read, forget=False))
            read |= columns_read(kernels, table)
        check_objects(table, read, kernels)
        return encoder.declare(table, read)

    def _group_levels(self, table: Any, encoder: TableEncoder | ViewsEncoder, read: set[int]) -> Any:
        """Leave out identifiers, and add columns to `read` as texts; see `views.levels`."""
        blocks = blocks_of(table)
        starts = {v: table.places[v].start if isinstance(table, BlockTable) else 0 for v in blocks}
        # no kernel of texts can skip missing cells, and one of indicators can
        compares = not (isinstance(self.missing, str) and self.missing == "skip")
        found = {
            view: levels_of(b, {j - starts[view] for j in read}, compares=compares)
            for view, b in blocks.items()
        }
        if not isinstance(encoder, ViewsEncoder):
            groups = places_of(table, self.views, self.kernels) or {}
            for group in groups.values():
                found[""] = found[""].of_view(group.columns)
        for view, own in found.items():
            read.update(j + starts[view] for j in own.texts)
            said = own.describe(blocks[view])
            if said:
                self.defaults_.setdefault("levels", {})[view] = said
        return encoder.group(table, found)

    def _look_at(self, X: Features, *, reset: bool) -> None:
        """Store or compare the names and the number of columns."""
        try:
            validate_data(self, X=X, skip_check_array=True, reset=reset)
        except (TypeError, ValueError, LookupError) as error:
            raise InputError(f"`X` must be a table of rows with the columns of `fit`: {error}") from error

    def _read_queries(self, X: Any) -> Any:
        """Check new rows; return queries of the fitted source."""
        if not hasattr(self, "model_"):
            check_is_fitted(self)
        # as needed by the fitted model, independent of later changes of parameters
        model = self.model_
        if model.encoder is None:
            return cast(GivenSource[Any], model.source).read_queries(X, self.n_features_in_)
        if isinstance(model.encoder, ViewsEncoder):
            return model.encode(X)
        if type(X) is not np.ndarray:
            if holds_views(X):
                raise InputError(
                    f"This {type(self).__name__} was fitted on one table, got views. Pass a table with the columns of "
                    "fit."
                )
            X = matrix_of(X) if is_annotated(X) else X
        if getattr(X, "ndim", 2) != 2:
            raise InputError(
                f"Expected a 2D table of rows, got an array of {X.ndim} dimensions. Reshape your data with "
                "X.reshape(1, -1) if it is one row, or X.reshape(-1, 1) if it is one column."
            )
        # without names there is a number to compare, which the encoder does
        if type(X) is not np.ndarray or "feature_names_in_" in vars(self):
            self._look_at(X, reset=False)
        return model.encode(X)

    def _extra_queries(self, extra: Features, encoder: Encoder | None, source: Source[Any]) -> Any:
        """Further inputs of a transductive normaliser."""
        if self._is_precomputed:
            raise InputError("Transductive normalisers need kernels as objects or a KernelBank.")
        if isinstance(source, TableSource) and encoder is not None:
            return source.accepted(encoder.transform(extra))
        return BankSource.check_index(self.kernels, cast(ArrayLike, extra))

    def _kernel_list(
        self, table: Any, sample_weight: Array | None = None, learner: Learner | None = None
    ) -> list[Kernel]:
        """The kernels for a table, with the width that the parameter `gamma` gives them."""
        asked, plain = self.kernels, self._is_plain
        if isinstance(asked, banks.DefaultViews) and self.views is not None:
            raise InputError("`views` and banks.views(...) both group columns. Leave one of them out.")
        places = places_of(table, self.views, asked)
        if plain:
            chosen = recipe.choose(
                table,
                regression=isinstance(self, RegressorMixin),
                sample_weight=sample_weight,
                views=None if places is None else {view: (p.table, p.place) for view, p in places.items()},
                step=None if learner is None else learner.column_step,
            )
            self.defaults_["views"] = chosen.found
            kernels = chosen.kernels
        elif places is not None:
            kernels = kernels_of_views(asked, places)
        elif isinstance(asked, Mapping):
            raise InputError(
                "`kernels` by view need views: pass X as a dict of tables, or views={'rna': 'g_*', ...}."
            )
        else:
            kernels = check_kernels(asked)
        if learner is not None and not plain:
            kernels = list(map(learner.prepared, kernels))
        if self.gamma is None:
            return kernels
        check_gamma(kernels)
        found: list[Kernel] = []
        for kernel in kernels:
            default = plain or (isinstance(asked, Mapping) and asked.get(kernel.view) is None)
            found += with_gamma([kernel], self.gamma, spread=default and has_gamma(kernel))
        return list(dict.fromkeys(found))

    def _stored_by_content(
        self, table: Table, encoder: Encoder, kept: NDArray[np.intp], weights: Array | None
    ) -> Table:
        """Tables as their content asks for, in whichever form they came; new rows follow through the encoder.

        Counts of words become sparse rows, whose kernels cost less. Sparse rows with few columns, or with few zeros,
        become dense ones.
        """
        compressed = self.missing == "error" and self.standardize is not True
        counted = np.ones(len(kept)) if weights is None else weights

        def done(block: Table, own: Any) -> Table:
            some = block if len(kept) == block.n_rows else block.rows(kept)
            if isinstance(block, SparseTable):
                if recipe.is_sparse_content(some, counted):
                    return block
                own.sparse_ = False
                return Table.of_checked(to_dense(block.values), block.names)
            if not compressed or not recipe.holds_words(some, counted):
                return block
            own.sparse_ = True
            return as_sparse(block)

        if isinstance(encoder, ViewsEncoder) and isinstance(table, BlockTable):
            return BlockTable({v: done(block, encoder.encoders_[v]) for v, block in table.blocks.items()})
        return done(table, encoder)

    def _make_source(
        self,
        rows: Table | GivenSource[Any],
        encoder: Encoder | None,
        kept: NDArray[np.intp],
        sample_weight: Array | None,
        targets: Array,
        learner: Learner,
    ) -> tuple[Source[Any], str]:
        """The source of some rows, and why its kernels were approximated; see `choose_form`.

        `targets` (n_rows, n_outputs) are for kernels that learn from them.
        """
        if isinstance(rows, GivenSource):
            if learner.column_step is not None:
                raise InputError(
                    f"learner={learner.name!r} learns a metric of columns, which precomputed kernels do not have. Pass "
                    "a table and kernels=None, or take another learner, such as 'rls2'."
                )
            source = rows if len(kept) == rows.n_samples else rows.take(kept)
            return choose_form(source, self.approximation, learner, self.random_state)
        assert encoder is not None
        if sample_weight is not None or len(kept) < rows.n_rows:
            rows = encoder.date(rows, kept, sample_weight)
        if self.kernels is None and self.views is None:
            rows = self._stored_by_content(rows, encoder, kept, sample_weight)
        table = rows if len(kept) == rows.n_rows else rows.rows(kept)
        if self.standardize is True and isinstance(table, BlockTable):
            for view, block in table.blocks.items():
                if isinstance(block, SparseTable):
                    raise InputError(
                        f"View {view!r} is sparse and cannot be standardised. Use standardize='auto', or kernels of "
                        "dense views with prepared('standardize')."
                    )
        skips = isinstance(self.missing, str) and self.missing == "skip"
        imputer: Any = None if skips or self.missing == "error" else as_steps([self.missing])[0]
        lost = table.missing().any()
        kernels = self._kernel_list(looked_at(table) if lost else table, sample_weight, learner)
        learns = any(
            step.from_targets and not step.is_fitted
            for kernel in kernels
            if not kernel.is_fitted
            for step in steps_of(kernel)
        )
        if learner.column_step is not None and not learns:
            raise InputError(
                f"learner={learner.name!r} learns a metric of dense columns, and there are none: sparse rows, counts "
                "of words, texts and given matrices have no metric. Take another learner, such as 'rls2'."
            )
        if skips:
            kernels = [skipping(kernel) for kernel in kernels]
        options: dict[str, Any] = {
            "max_memory": memory_budget(self.max_memory),
            "rank_tol": self.rank_tol,
            "standardize": self.standardize != "auto" and bool(self.standardize),
            "sample_weight": sample_weight,
            "imputer": imputer,
            "targets": targets if learns else None,
        }
        several = isinstance(table, BlockTable) or any(kernel.view != "all" for kernel in kernels)
        views = views_of(kernels, table) if several and self.missing_views != "error" else {}
        some = len(views) >= 2
        cells = check_cells(kernels, table, views if some else {}, imputer) if lost else {}
        made: TableSource
        if some:
            made = PartialSource(kernels, table, views=views, how=self.missing_views, **options)
        else:
            made = TableSource(kernels, table, **options)
        self.missing_ = missing_of(made, cells, self.missing, self.missing_views)
        for name in ("cells_done", "views_done"):
            if name in self.missing_:
                self.defaults_[name] = self.missing_[name]
        return choose_form(made, self.approximation, learner, self.random_state)
