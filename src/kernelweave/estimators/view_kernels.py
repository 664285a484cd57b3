"""Assignment of kernels to views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelweave import banks
from kernelweave._checks import InputError, check_known
from kernelweave._parameters import listed, shown
from kernelweave.kernels import Kernel, On, Precomputed
from kernelweave.kernels.composed import cells_read, on_views, parts_of, put
from kernelweave.recipe import on_view
from kernelweave.views import BlockTable, GramTable, Table, ViewColumns
from kernelweave.views.groups import expand_views, read_views
from kernelweave.views.selection import listing

__all__ = ["ViewPlace", "check_kernels", "kernels_of_views", "places_of"]


@dataclass(frozen=True, eq=False)
class ViewPlace:
    """A view for kernels.

    Attributes
    ----------
    table : Table
        Its columns.
    place : callable
        ``place(base, columns, name)`` restricts a kernel to some of its columns, None for all.
    columns : array of int, optional
        For a group, its columns among those of the whole table.
    """

    table: Table
    place: Callable[[Kernel, Any, str | None], Kernel]
    columns: Any = None


def places_of(table: Table, views: object, kernels: object = None) -> dict[str, ViewPlace] | None:
    """The views of a table: its blocks, or groups of its columns; None for one table without views.

    Groups are those of the parameter `views`, or of `kernelweave.banks.views` as the parameter `kernels`.

    Raises
    ------
    InputError
        For views that name no columns of the table.
    """
    if isinstance(kernels, banks.DefaultViews):
        views = kernels.columns
    if isinstance(table, BlockTable):
        if views is not None:
            raise InputError(
                "`views` groups columns of one table, and X holds several views already. Leave `views` out."
            )
        return {view: ViewPlace(block, on_view(view)) for view, block in table.blocks.items()}
    if views is None:
        return None
    return {
        view: ViewPlace(table.select(columns), _on_group(view, columns, table), table.resolve(columns))
        for view, columns in _groups(table, views).items()
    }


def _on_group(view: str, group: Any, table: Table) -> Callable[[Kernel, Any, str | None], Kernel]:
    def place(base: Kernel, columns: Any, name: str | None) -> Kernel:
        if columns is None:
            return On(base, group, view)
        own = table.resolve(group)[table.select(group).resolve(columns)]
        labels: tuple[int | str, ...] = (
            tuple(own.tolist()) if table.names is None else tuple(table.names[j] for j in own)
        )
        return On(base, ViewColumns(view, labels), name)

    return place


def _groups(table: Table, views: Any) -> dict[str, Any]:
    """Columns of every view, patterns and files of gene sets replaced by the names that the table has."""
    names = list(table.names or ())
    if isinstance(views, (str, Path)):
        # gene sets name more genes than tables have
        return expand_views(read_views(str(views)), names, partial=True)
    if not isinstance(views, Mapping) or not views:
        raise InputError(
            f"`views` must be a dict from names to columns, or the path of a GMT or TOML file, got {shown(views)}. "
            "Pass for example {'rna': 'g_*', 'clinical': ['age', 'bmi']}."
        )
    found: dict[str, Any] = {}
    for view, columns in views.items():
        if not isinstance(view, str) or not view:
            raise InputError(f"Views are named by texts, got {shown(view)}. Rename it, for example 'rna'.")
        patterns = [columns] if isinstance(columns, str) else listed(columns)
        if patterns and all(isinstance(pattern, str) for pattern in patterns):
            if not names:
                raise InputError(
                    f"View {view!r} names columns, but X has no names. Pass a data frame (transformers before this "
                    "step: `.set_output(transform='pandas')`), or select by position, such as slice(0, 5)."
                )
            found |= expand_views({view: patterns}, names)
            continue
        try:
            table.resolve(columns)
        except InputError as error:
            raise InputError(f"View {view!r}: {error}") from None
        if columns is None:
            columns = slice(None)
        found[view] = columns
    return found


#: Kernels by the names that other libraries have for them.
NAMES_OF_KERNELS = {
    **dict.fromkeys(("rbf", "gaussian"), "RBF(gamma='median')"),
    **dict.fromkeys(("poly", "polynomial"), "Polynomial(degree=2)"),
    "linear": "Linear()",
    "laplacian": "Laplacian(gamma='median')",
}


def check_kernels(asked: Any, what: str = "`kernels`") -> list[Kernel]:
    """A list of kernels; raise for anything else."""
    if isinstance(asked, Kernel):
        return [asked]
    given = None if isinstance(asked, str) else listed(asked)
    if given is None:
        got = repr(asked) if isinstance(asked, str) else shown(asked)
        hint = ""
        if isinstance(asked, str):
            name = NAMES_OF_KERNELS.get(asked.strip().lower())
            hint = (
                f" For that kernel: kernels=[kw.kernels.{name}]."
                if name
                else " For a named bank call it, for example kernels=kw.banks.rkl()."
            )
        raise InputError(
            f"{what} must be a list of kernels, a KernelBank, 'precomputed' or None, got {got}.{hint}"
        )
    if not given:
        raise InputError(f"{what} must hold at least one kernel, got an empty list. Use None for a default.")
    for m, kernel in enumerate(given):
        if not isinstance(kernel, Kernel):
            raise InputError(
                f"`{what.strip('`')}[{m}]` must be a kernel such as kw.kernels.RBF(gamma=0.1), got {kernel!r}. "
                "Wrap a function as kw.kernels.Custom(function)."
            )
    return given


def kernels_of_views(asked: Any, places: Mapping[str, ViewPlace]) -> list[Kernel]:
    """The kernels of all views, view by view.

    Parameters
    ----------
    asked : list of kernels, dict of str to lists of kernels, or None
        A list is used for every view with columns, except that Precomputed, and combinations of it, are for precomputed
        views, and kernels of texts for views of texts, which have no others;
        kernels with a view are not changed. None, also in a dict, is the default bank of the view's columns.
    places : dict of str to ViewPlace

    Raises
    ------
    InputError
        For kernels that no view can take.
    """
    if isinstance(asked, Mapping):
        return _by_view(asked, places)
    kernels = check_kernels(asked)
    bound = [kernel for kernel in kernels if on_views(kernel)]
    free = [kernel for kernel in kernels if not on_views(kernel)]
    if not free:
        return bound
    of_grams = [kernel for kernel in free if _is_precomputed(kernel)]
    of_cells = [kernel for kernel in free if cells_read(kernel)]
    of_columns = [kernel for kernel in free if not _is_precomputed(kernel) and not cells_read(kernel)]
    readers = {
        view: [kernel for kernel in of_cells if _reads(kernel, place.table)] for view, place in places.items()
    }
    for kernel in of_cells:
        if not any(kernel in own for own in readers.values()):
            texts = cells_read(kernel) is str
            reads, holds, name = ("text", "texts", "text") if texts else ("objects", "objects", "graph")
            raise InputError(
                f"`kernels` has {kernel!r}, which reads {reads}, but none of the views {listing(list(places))} holds "
                f"{holds}. Leave it out, or pass the {holds} as a view: {{{name!r}: list_of_{holds}}}."
            )
    grams = [view for view, place in places.items() if isinstance(place.table, GramTable)]
    if of_columns and len(grams) == len(places):
        raise InputError(
            f"`kernels` has {of_columns[0]!r}, but no view has columns: {listing(grams)} are precomputed. Leave "
            "`kernels` out, or pass [kw.kernels.Precomputed()]."
        )
    if of_grams and not grams:
        raise InputError(
            f"`kernels` has {of_grams[0]!r}, but all views have columns. Make views of kernel matrices with "
            "kw.precomputed(K), or leave it out."
        )
    silent = [view for view in places if view not in grams and not readers[view]]
    if silent and not of_columns and not bound:
        raise InputError(
            f"`kernels` has none for the columns of {listing(silent)}. Add kernels such as kw.kernels.Linear()."
        )
    found = []
    for view in places:
        own = readers[view] or of_columns
        found += _on(view, places, (of_grams or [Precomputed()]) if view in grams else own)
    return found + bound


def _reads(kernel: Kernel, table: Table) -> bool:
    """Whether all columns of a view have cells of the type that a kernel reads."""
    texts = cells_read(kernel) is str
    return table.cells is not None and all(
        cells is not None and cells.are(str) == texts for cells in table.cells
    )


def _is_precomputed(kernel: Kernel) -> bool:
    """Whether a kernel, or a term of it, is the one of precomputed views."""
    return any(isinstance(leaf, Precomputed) for leaf, *_ in parts_of(kernel))


def _by_view(asked: Mapping[str, Any], places: Mapping[str, ViewPlace]) -> list[Kernel]:
    for view in asked:
        check_known(view, list(places), "view")
    silent = [v for v, p in places.items() if v not in asked and not isinstance(p.table, GramTable)]
    if silent:
        raise InputError(
            f"`kernels` must have kernels for every view, but has none for {listing(silent)}. Add "
            f"{silent[0]!r}: [...], or None for its default."
        )
    found: list[Kernel] = []
    for view, place in places.items():
        wanted = asked.get(view)
        named = f"kernels[{view!r}]"
        kernels = banks.default(place.table) if wanted is None else check_kernels(wanted, named)
        found += _on(view, places, kernels)
    return found


def _on(view: str, places: Mapping[str, ViewPlace], kernels: list[Kernel]) -> list[Kernel]:
    try:
        return [put(kernel, places[view].place) for kernel in kernels]
    except InputError as error:
        raise InputError(f"View {view!r}: {error}") from None
