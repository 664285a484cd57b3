"""Models without their training rows, where coefficients of features say all that predictions need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._sparse import unit_rows
from kernelweave.fitting.missing import ViewPlaces, rows_with
from kernelweave.fitting.model import Model
from kernelweave.fitting.partial import PartialSource
from kernelweave.fitting.prediction import FeatureForm
from kernelweave.fitting.source import Correction, TableSource
from kernelweave.normalizers import FittedNormalizer
from kernelweave.views import Table

__all__ = ["RowlessSource", "needs_rows", "without_rows"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

REFUSAL = (
    "{what} needs the training rows, and this model was saved without them. Save it with "
    "kernelweave.save(model, path, training_rows=True) to keep them."
)


class RowlessSource(TableSource):
    """Fitted kernels and the columns that they read, without training rows.

    Parameters
    ----------
    kernels : sequence of Kernel
        Fitted kernels.
    table : Table
        The columns, with no rows.
    n_samples : int
        Number of training rows that there were.
    views : dict of str to tuple of int, or None
        The views that rows may not lack; see `PartialSource`.
    rules, statistics, imputer, fillers, standardize
        See `TableSource`.
    """

    def __init__(
        self, kernels: Any, table: Table, *, n_samples: int, views: ViewPlaces | None = None, **options: Any
    ) -> None:
        super().__init__(kernels, table, max_memory=np.inf, **options)
        self.n_samples, self.views = n_samples, None if views is None else dict(views)

    @classmethod
    def of(cls, source: TableSource) -> RowlessSource:
        """A source of a table without its rows."""
        return cls(
            source.kernels,
            source.raw.rows(slice(0, 0)),
            n_samples=source.n_samples,
            views=source.views if isinstance(source, PartialSource) else None,
            rules=source.rules,
            statistics=source.statistics,
            standardize=source.standardize,
            imputer=source.imputer,
            fillers=source.fillers,
        )

    def accepted(self, queries: Table) -> Table:
        """See `TableSource.accepted`; raises, too, for rows that lack a view."""
        if self.views is not None and not np.all(list(rows_with(queries, self.views).values())):
            raise InputError(REFUSAL.format(what="A row that lacks a view"))
        return super().accepted(queries)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raise: there are no training rows."""
        raise InputError(REFUSAL.format(what="This"))

    gram = take = queries = distinguish = cross = products = training_features = _refuse

    def correction(self, m: int) -> Correction | None:
        """None: kernels with features need no correction."""
        return None


def needs_rows(model: Model) -> str | None:
    """Why predictions of a model need its training rows; None if they do not."""
    source = model.source
    if not isinstance(source, TableSource):
        return "kernels are precomputed"
    if model.layers:
        return "it has layers of kernels"
    if not source.is_whole:
        return "some training rows lack a view"
    if model.features is None:
        used = (model.effective != 0).any(axis=0)
        for name, width, there in zip(source.names, source.feature_widths(), used, strict=True):
            if there and width is None:
                return f"the kernel {name!r} compares rows with training rows"
    return None


def without_rows(model: Model) -> Model:
    """A model that predicts the same without its training rows; `needs_rows` says whether there is one.

    Of the targets one typical row stays, see `Task.typical`.
    """
    source = model.source
    assert isinstance(source, TableSource)  # others need their rows
    held = vars(model).get("out_of_fold", model.held)
    none = slice(0, 0)
    task = replace(
        model.task,
        source=source if isinstance(source, RowlessSource) else RowlessSource.of(source),
        targets=model.task.typical,
        sample_weight=None,
        groups=None,
        extra=None,
    )
    return replace(
        model,
        task=task,
        normalizers=tuple(_without_rows(fitted) for fitted in model.normalizers),
        dual_coef=model.dual_coef[none],
        features=_of_features(model, source) if model.features is None else model.features,
        linear_form=model.linear,
        held=held and held.unlinked,
        constant=model.constant_outputs,
    )


def _without_rows(fitted: FittedNormalizer) -> FittedNormalizer:
    """Scales and totals; of numbers for each row only whether there were some."""
    none = slice(0, 0)
    return replace(
        fitted,
        cosine_scale=None if fitted.cosine_scale is None else fitted.cosine_scale[:, none],
        center_means=None if fitted.center_means is None else fitted.center_means[:, none],
        probability=None if fitted.probability is None else fitted.probability[none],
    )


def _of_features(model: Model, source: TableSource) -> FeatureForm:
    """Coefficients of the features of all kernels with a weight; others get none."""
    fitted = model.normalizers[0]
    blocks, means = [], []
    for m, weights in enumerate(model.effective.T):
        if not weights.any():
            blocks.append(np.zeros((0, model.n_outputs)))
            means.append(np.zeros(0))
            continue
        phi = source.kernels[m]._features(source.table)
        assert phi is not None  # by `needs_rows`
        if fitted.cosine_scale is not None:
            phi = unit_rows(phi)
        coef = np.asarray(phi.T @ model.dual_coef)
        if fitted.probability is not None:
            mean = np.asarray(fitted.probability @ phi).reshape(-1)
            coef = coef - mean[:, None] * model.dual_coef.sum(axis=0)
            means.append(mean)
        blocks.append(coef * weights)
    offsets = np.r_[0, np.cumsum([len(block) for block in blocks])].astype(np.int64)
    return FeatureForm(
        np.concatenate(blocks), offsets, None if fitted.probability is None else np.concatenate(means)
    )
