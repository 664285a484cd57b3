"""From a `Spec` and a prepared table to the kernels of a fit, by table and by view."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kernelweave import banks, kernels, recipe
from kernelweave._checks import InputError, check_known
from kernelweave._types import DataFrame
from kernelweave.estimators.texts import long_texts
from kernelweave.kernels import Kernel
from kernelweave.kernels.composed import cells_read
from kernelweave.views import PrecomputedView, as_table
from kernelweave_app.runs.further_views import Tables
from kernelweave_app.runs.preparing import Prepared
from kernelweave_app.runs.spec import Spec, plain_kernels

BANKS = ("default", "linear_features", "mlmkl", "per_column", "rkl", "rls2", "simplemkl")


def parse_kernels(text: str) -> list[Kernel]:
    """Kernels separated by semicolons."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not parts:
        raise InputError("No kernel is named. Give a bank, or kernels such as 'linear; rbf(gamma=0.1)'.")
    return [kernels.parse(part) for part in parts]


def kernel_names() -> list[str]:
    """Names that kernels have in text, also those of other modules that were imported."""
    return sorted(kernels.text_names())


def make_kernels(spec: Spec, prepared: Prepared) -> Any:
    """The kernels of a spec, by view where there are sparse ones; None or mere views stand for those of a plain fit."""
    X = prepared.X
    if isinstance(X, Tables):
        asked = kernels_by_view(spec, X.names)
        if plain_kernels(asked):
            return None
        return {view: _kernels_of_table(spec, view, text, X[view]) for view, text in asked.items()}
    if prepared.views:
        asked = kernels_by_view(spec, prepared.views)
        if plain_kernels(asked):
            return banks.DefaultViews(dict(prepared.views))
        return [
            kernel.on(columns, name=view)
            if kernel.columns is None or not plain_kernels(asked[view])
            else kernel
            for view, columns in prepared.views.items()
            for kernel in _kernels_of_columns(asked[view], prepared, columns)
        ]
    if not isinstance(spec.kernels, str):
        raise InputError("`kernels` for each view needs views.")
    name = _plain(spec.kernels)
    if name == "default":
        return None
    if name in BANKS:
        return banks.get(name, list(X.columns))
    if "(" not in name and ";" not in name and not _is_kernel(name):
        check_known(name, [*BANKS, *kernel_names()], "bank or kernel")
    return parse_kernels(spec.kernels)


def kernels_by_view(spec: Spec, views: Iterable[str]) -> dict[str, str]:
    """The kernels of each view as text; views without one have the default."""
    if isinstance(spec.kernels, str):
        return dict.fromkeys(views, spec.kernels)
    known = list(views)
    for name in spec.kernels:
        check_known(name, known, "view")
    return {view: spec.kernels.get(view, "default") for view in known}


def _plain(text: str) -> str:
    return text.strip().lower().replace("-", "_")


def _kernels_of_columns(text: str, prepared: Prepared, columns: list[str]) -> list[Kernel]:
    """The kernels of a view of columns: those named, or those of a plain fit where other views have their own."""
    if not plain_kernels(text):
        return _kernels_of_view(text)
    table = as_table(prepared.X[columns])
    return list(banks.default(table.declared(long_texts(table, None)), regression=False))


def _kernels_of_view(text: str) -> list[Kernel]:
    """The kernels that are named for a view, which has no banks."""
    if _plain(text) in BANKS:
        raise InputError(
            f"The bank {text.strip()!r} is for one table of columns, and there are views. Use default, or kernels such "
            "as \"linear; rbf(gamma='median')\", also for each view."
        )
    return parse_kernels(text)


def _kernels_of_table(spec: Spec, view: str, text: str, table: Any) -> list[Kernel] | None:
    """The kernels of a view beside sparse ones or kernels; None for those of a plain fit, and of a precomputed one."""
    if isinstance(table, PrecomputedView):
        if not isinstance(spec.kernels, str) and _plain(text) not in ("default", "precomputed"):
            raise InputError(
                f"View {view!r} is a precomputed kernel, and is taken as it is, got {text!r:.60}. Leave it out."
            )
        return None
    if plain_kernels(text):
        return None
    bank = _kernels_of_view(text)
    texts = [kernel for kernel in bank if cells_read(kernel)]
    numeric = [kernel for kernel in bank if kernel not in texts]
    if not hasattr(table, "columns"):
        return numeric
    # those of texts where all columns are text, others, on standardised columns, elsewhere
    if texts and all(table[name].dtype == object for name in table.columns):
        return texts
    on_columns = [kernel for kernel in texts if kernel.columns is not None]
    return [k.prepared("standardize") if spec.standardize else k for k in numeric] + on_columns


def is_plain(bank: object) -> bool:
    """Whether kernels are those of a plain fit, which bring their own preparation of columns."""
    return bank is None or isinstance(bank, banks.DefaultViews)


def known_kernels(bank: Any, X: DataFrame, task: str) -> list[Kernel]:
    """Kernels before a fit, those of a plain fit as the rows of a table ask for."""
    if bank is not None and not isinstance(bank, banks.DefaultViews | dict):
        return bank
    from kernelweave.estimators.sources import kernels_of_views, looked_at, places_of

    table = as_table(X, missing=True)
    table = looked_at(table) if table.missing().any() else table
    table = table.declared(long_texts(table, None))
    if isinstance(bank, dict):
        return kernels_of_views(bank, places_of(table, None) or {})
    places = places_of(table, None if bank is None else bank.columns)
    views = None if places is None else {view: (at.table, at.place) for view, at in places.items()}
    return recipe.choose(table, regression=task == "regression", views=views).kernels


def _is_kernel(name: str) -> bool:
    try:
        kernels.parse(name)
    except InputError:
        return False
    return True
