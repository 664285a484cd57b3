"""From a `Spec` and a prepared table to the kernels of a fit, by table and by view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelweave import banks, kernels, recipe
from kernelweave._checks import InputError, check_known
from kernelweave.estimators.texts import long_texts, reads_text
from kernelweave.views import PrecomputedView, as_table
from kernelweave_app.runs.further_views import Tables
from kernelweave_app.runs.preparing import Prepared
from kernelweave_app.runs.spec import Spec

if TYPE_CHECKING:
    from kernelweave._types import DataFrame
    from kernelweave.kernels import Kernel

BANKS = ("default", "linear_features", "mlmkl", "per_column", "rkl", "rls2", "simplemkl")


def parse_kernels(text: str) -> list[Kernel]:
    """Kernels separated by semicolons."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not parts:
        raise InputError("No kernel is named. Give a bank, or kernels such as 'linear; rbf(gamma=0.1)'.")
    return [kernels.parse(part) for part in parts]


def kernel_names() -> list[str]:
    """Names that kernels have in text, also those of other modules that were imported; of several the shortest."""
    shortest: dict[object, str] = {}
    for name, cls in kernels.text_names().items():
        shortest[cls] = min(shortest.get(cls, name), name, key=len)
    return sorted(shortest.values())


def make_kernels(spec: Spec, prepared: Prepared) -> Any:
    """The kernels of a spec, by view where there are sparse ones; None or mere views stand for those of a plain fit."""
    if isinstance(prepared.X, Tables):
        return _kernels_of_tables(spec, prepared.X)
    if prepared.views:
        asked = kernels_by_view(spec, prepared.views)
        if all(text.strip().lower() == "default" for text in asked.values()):
            return banks.DefaultViews(dict(prepared.views))
        bank: list[Any] = []
        for view, columns in prepared.views.items():
            name = asked[view].strip().lower()
            if name == "default":
                bank += default_view(prepared, view)
            else:
                bank += listed_views({view: columns}, parse_kernels(asked[view]))
        return bank
    if not isinstance(spec.kernels, str):
        raise InputError("`kernels` for each view needs views.")
    name = spec.kernels.strip().lower().replace("-", "_")
    if name == "default":
        return None
    if name in BANKS:
        return banks.get(name, list(prepared.X.columns))
    if "(" not in name and ";" not in name and not _is_kernel(name):
        check_known(name, [*BANKS, *kernel_names()], "bank or kernel")
    return parse_kernels(spec.kernels)


def _kernels_of_tables(spec: Spec, tables: Tables) -> dict[str, list[Kernel] | None] | None:
    if isinstance(spec.kernels, str):
        asked = dict.fromkeys(tables.names, spec.kernels)
    else:
        for name in spec.kernels:
            check_known(name, tables.names, "view")
        asked = {view: spec.kernels.get(view, "default") for view in tables.names}
    if all(map(_is_default, asked.values())):
        return None
    found: dict[str, list[Kernel] | None] = {}
    for view, text in asked.items():
        if isinstance(tables[view], PrecomputedView):
            if not isinstance(spec.kernels, str) and text.strip().lower() not in ("default", "precomputed"):
                raise InputError(
                    f"View {view!r} is a precomputed kernel, and is taken as it is, got {text!r:.60}. Leave it out."
                )
            found[view] = None
        else:
            found[view] = (
                None if _is_default(text) else _of_view(_parse_plain(text), tables[view], spec.standardize)
            )
    return found


def _of_view(bank: list[Kernel], table: Any, standardize: bool) -> list[Kernel]:
    """Kernels for a view: those of texts where all columns are text, others, on standardised columns, elsewhere."""
    texts = [kernel for kernel in bank if reads_text(kernel)]
    if not hasattr(table, "columns"):
        return [kernel for kernel in bank if kernel not in texts]
    if texts and all(table[name].dtype == object for name in table.columns):
        return texts
    numeric = [kernel for kernel in bank if kernel not in texts]
    on_columns = [kernel for kernel in texts if kernel.columns is not None]
    return [k.prepared("standardize") if standardize else k for k in numeric] + on_columns


def _is_default(text: str) -> bool:
    return text.strip().lower() == "default"


def _parse_plain(text: str) -> list[Kernel]:
    if text.strip().lower().replace("-", "_") in BANKS:
        raise InputError(
            f"The bank {text.strip()!r} is for one table of columns, and there are views of files. Use default, or "
            "kernels such as \"linear; rbf(gamma='median')\", also for each view."
        )
    return parse_kernels(text)


def listed_views(views: dict[str, list[str]], bank: list[Any]) -> list[Any]:
    """Every kernel on every view."""
    return [kernel.on(columns, name=name) for name, columns in views.items() for kernel in bank]


def default_view(prepared: Prepared, view: str) -> list[Any]:
    """The kernels of a plain fit for one view, where others have kernels of their own."""
    columns = prepared.views[view]
    table = as_table(prepared.X[columns])
    found = banks.default(table.declared(long_texts(table, None)), regression=False)
    return [kernel.on(columns, name=view) if kernel.columns is None else kernel for kernel in found]


def is_plain(bank: object) -> bool:
    """Whether kernels are those of a plain fit, which bring their own preparation of columns."""
    return bank is None or isinstance(bank, banks.DefaultViews)


def standardize_of(spec: Spec, prepared: Prepared, bank: object) -> bool | str:
    """Whether the estimator standardises columns: kernels of a plain fit do so themselves, and so do sparse views."""
    return "auto" if isinstance(prepared.X, Tables) or is_plain(bank) else spec.standardize


def known_kernels(bank: Any, X: DataFrame, task: str) -> list[Kernel]:
    """Kernels before a fit, those of a plain fit as the rows of a table ask for."""
    if bank is not None and not isinstance(bank, banks.DefaultViews | dict):
        return bank
    from kernelweave.estimators.missing import looked_at
    from kernelweave.estimators.view_kernels import kernels_of_views, places_of

    table = looked_at(as_table(X, missing=True))
    table = table.declared(long_texts(table, None))
    if isinstance(bank, dict):
        return kernels_of_views(bank, places_of(table, None) or {})
    places = places_of(table, None if bank is None else bank.columns)
    views = None if places is None else {view: (at.table, at.place) for view, at in places.items()}
    return recipe.choose(table, regression=task == "regression", views=views).kernels


def kernels_by_view(spec: Spec, views: dict[str, list[str]]) -> dict[str, str]:
    """The kernels of each view as text; views without one have the default."""
    if isinstance(spec.kernels, str):
        return dict.fromkeys(views, spec.kernels)
    for name in spec.kernels:
        check_known(name, views, "view")
    return {view: spec.kernels.get(view, "default") for view in views}


def _is_kernel(name: str) -> bool:
    try:
        kernels.parse(name)
    except InputError:
        return False
    return True
