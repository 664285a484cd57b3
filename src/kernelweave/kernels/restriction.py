"""Kernels of some columns, and selections of columns as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import check_value
from kernelweave.kernels.algebra import Around, Scaled, Terms
from kernelweave.kernels.base import (
    VIEW_NAME,
    FloatArray,
    Kernel,
    check_keys,
    composite,
    from_dict,
    is_kernel,
    set_fields,
)
from kernelweave.kernels.other import Constant
from kernelweave.kernels.preparation import Step
from kernelweave.kernels.rows import TrainingRows
from kernelweave.views import ColumnMask, ColumnSlice, Table, ViewColumns, freeze_columns
from kernelweave.views.selection import Selection

__all__ = ["On"]


@composite
@dataclass(frozen=True)
class On(Around):
    """A kernel restricted to some columns, k(x[columns], z[columns]); usually written ``k.on(columns)``.

    Parameters
    ----------
    kernel : Kernel
        Not restricted itself.
    columns : see :meth:`Kernel.on`
        Stored as a hashable value.
    name : str or None
        Name of the view.

    Examples
    --------
    >>> from kernelweave.kernels import Linear
    >>> k = Linear().on([1])
    >>> k([[1.0, 2.0], [3.0, 4.0]])
    array([[ 4.,  8.],
           [ 8., 16.]])
    >>> k.columns, k.base
    ((1,), Linear())
    """

    columns: Selection = None
    name: str | None = None

    def __post_init__(self) -> None:
        kernel = is_kernel(self.kernel, "On")
        if kernel._restricted():
            raise InputError(
                f"A kernel can be restricted to columns once, got {kernel!r}, which is restricted already. "
                "Call `on` on the kernel inside, with these columns."
            )
        check_value(VIEW_NAME, "name", self.name, of="a view")
        set_fields(self, columns=freeze_columns(self.columns))

    def fitted_on(self, rows: TrainingRows) -> Kernel:
        """See :meth:`Kernel.fitted_on`."""
        if self.is_fitted:
            return self
        return On(self.kernel.fitted_on(rows.on(self.columns)), self.columns, self.name)

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return On(self.kernel.prepared(*steps), self.columns, self.name)

    @property
    def base(self) -> Kernel:
        """The kernel without its selection of columns."""
        return self.kernel

    @property
    def label(self) -> str:
        """A short name."""
        if isinstance(self.columns, ViewColumns):
            own = self.columns.columns
            if own is None:
                return f"{self.columns.view}: {self.kernel._short()}"
            where = self.name or _columns_label(own)
            return f"{self.columns.view}: {self.kernel._short(nested=True)} on {where}"
        if self.name:
            return f"{self.name}: {self.kernel._short()}"
        return f"{self.kernel._short(nested=True)} on {_columns_label(self.columns)}"

    @property
    def view(self) -> str:
        """The name of the view, or the columns."""
        if isinstance(self.columns, ViewColumns):
            return self.columns.view
        return self.name or _columns_label(self.columns)

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        return self.kernel._gram(
            left.select(self.columns), None if right is None else right.select(self.columns)
        )

    def _diag(self, table: Table) -> FloatArray:
        return self.kernel._diag(table.select(self.columns))

    def _features(self, table: Table) -> FloatArray | None:
        return self.kernel._features(table.select(self.columns))

    def _restricted(self) -> bool:
        return True

    def _times(self, factor: float) -> Kernel:
        return On(Scaled(self.kernel, factor), self.columns, self.name)

    def _short(self, nested: bool = False) -> str:
        return f"({self.label})" if nested else self.label

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, (Terms, Scaled)) else repr(self.kernel)
        name = "" if self.name is None else f", name={self.name!r}"
        return f"{inner}.on({_columns_repr(self.columns)}{name})"

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values for JSON."""
        columns = _columns_value(self.columns)
        return {"kernel": "on", "base": self.kernel.to_dict(), "columns": columns, "name": self.name}

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "base", "columns", "name")
        return cls(from_dict(values["base"]), _columns_of(values["columns"]), values["name"])


def put(kernel: Kernel, place: Callable[[Kernel, Selection, str | None], Kernel]) -> Kernel:
    """Put a kernel, or every restricted term of it, in a place: a view.

    Parameters
    ----------
    kernel : Kernel
        Terms that are on a view already stay there.
    place : callable
        ``place(base, columns, name)`` restricts a kernel to some columns of the place, None for all.
    """
    if isinstance(kernel, On):
        bound = isinstance(kernel.columns, ViewColumns)
        return kernel if bound else place(kernel.kernel, kernel.columns, kernel.name)
    if isinstance(kernel, Terms) and kernel._restricted():
        return type(kernel)(tuple(put(term, place) for term in kernel.terms))
    if isinstance(kernel, Scaled) and kernel._restricted():
        return Scaled(put(kernel.kernel, place), kernel.factor)
    return place(kernel, None, None)


def on_views(kernel: Kernel) -> bool:
    """Whether all columns of a kernel are those of views."""
    if isinstance(kernel, On):
        return isinstance(kernel.columns, ViewColumns)
    if isinstance(kernel, Terms):
        return all(on_views(term) or isinstance(term, Constant) for term in kernel.terms)
    return isinstance(kernel, Scaled) and on_views(kernel.kernel)


def _columns_value(columns: Selection) -> Any:
    """A selection as a plain value."""
    if isinstance(columns, ColumnSlice):
        return {"slice": [columns.start, columns.stop, columns.step]}
    if isinstance(columns, ColumnMask):
        return {"mask": list(columns.values)}
    if isinstance(columns, ViewColumns):
        return {"view": columns.view, "columns": _columns_value(columns.columns)}
    return columns if columns is None else list(columns)


def _columns_of(value: Any) -> Any:
    """The selection that a plain value describes."""
    if not isinstance(value, Mapping):
        return value
    if "view" in value:
        own: Any = freeze_columns(_columns_of(value["columns"]))
        return ViewColumns(value["view"], own)
    return slice(*value["slice"]) if "slice" in value else list(value["mask"])


def _columns_repr(columns: Selection) -> str:
    if isinstance(columns, ViewColumns):
        return repr(columns)
    if isinstance(columns, ColumnSlice):
        return f"slice({columns.start!r}, {columns.stop!r}, {columns.step!r})"
    if isinstance(columns, ColumnMask):
        return repr(list(columns.values))
    return repr(columns if columns is None else list(columns))


def _columns_label(columns: Selection) -> str:
    if columns is None:
        return "all"
    if isinstance(columns, ViewColumns):
        return columns.view
    if isinstance(columns, ColumnSlice):
        ends = ("" if end is None else str(end) for end in (columns.start, columns.stop))
        return "columns " + ":".join(ends) + ("" if columns.step is None else f":{columns.step}")
    if isinstance(columns, ColumnMask):
        columns = tuple(np.flatnonzero(columns.values).tolist())
    names = [c if isinstance(c, str) else f"x{c}" if c >= 0 else f"column {c}" for c in columns]
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]}, ... ({len(names)} columns)"
