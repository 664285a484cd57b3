"""What a source is made of: kernels of views, the treatment of missing cells, and kernel matrices or features."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave import banks
from kernelweave._checks import InputError, check_known
from kernelweave._loops import packed_length
from kernelweave._parameters import InstanceOf, OneOf, listed, shown
from kernelweave._types import Features
from kernelweave.fitting.missing import fill, fit_fillers, missing_cells, refuse_empty, refuse_missing
from kernelweave.fitting.partial import PartialSource
from kernelweave.fitting.source import Source, TableSource
from kernelweave.gram.building import highest_rank
from kernelweave.kernels import (
    MAPS,
    FeatureMap,
    Impute,
    Kernel,
    Nystroem,
    On,
    Precomputed,
    approximate,
    maps_of,
)
from kernelweave.kernels.composed import cells_read, on_views, parts_of, put
from kernelweave.kernels.steps import SHORT
from kernelweave.learners import Learner
from kernelweave.recipe import on_view
from kernelweave.views import BlockTable, GramTable, Table, ViewColumns
from kernelweave.views.groups import expand_views, read_views
from kernelweave.views.selection import listing

# ---- which kernels go to which view --------------------------------------------------------------


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


# ---- missing cells and views ----------------------------------------------------------------------

#: Values of `missing` that are texts.
MISSING = ("error", "impute", *SHORT, "skip")
#: Admissible values of `missing`.
CELLS = OneOf(*MISSING) | InstanceOf((Impute,), "a kw.kernels.Impute")
#: Values of `missing_views`.
MISSING_VIEWS = ("renormalize", "complete", "error")

_FILLED = {
    "mean": "numbers are filled with the mean of their column, categories with the most frequent one",
    "median": "numbers are filled with the median of their column, categories with the most frequent one",
    "nearest": "numbers are filled with the mean over the {k} nearest training rows, categories with the most frequent "
    "one",
}
_VIEWS = {
    "renormalize": "if one of two rows lacks a view, its kernels have the mean of those of the views that both have",
    "complete": "kernels of a view that rows lack are completed from those of the other views",
}


def takes_missing(missing: object, kernels: Any) -> bool:
    """Whether missing cells are allowed: by `missing`, or by the steps of all kernels."""
    if not isinstance(missing, str) or missing != "error":
        return True
    if isinstance(kernels, Kernel):
        kernels = [kernels]
    if isinstance(kernels, Mapping):
        kernels = [k for own in kernels.values() for k in (own if isinstance(own, Sequence) else [own])]
    if not isinstance(kernels, Sequence) or isinstance(kernels, str) or not len(kernels):
        return False
    return all(isinstance(kernel, Kernel) and kernel.takes_missing for kernel in kernels)


def skipping(kernel: Kernel) -> Kernel:
    """The kernel after the step that skips missing cells; unchanged if its steps fill them."""
    if kernel.takes_missing:
        return kernel
    if cells_read(kernel):
        raise InputError(
            f"missing='skip' compares rows in the columns that both have, and {kernel!r} reads one column, whose "
            "cells are no numbers. Use missing='impute': a missing cell is then an empty text or graph, similar to "
            "nothing."
        )
    return kernel.prepared("skip")


def looked_at(table: Table) -> Table:
    """A table with missing cells as one without, for the inspection of columns."""
    return fill(fit_fillers(Impute(), table, None), table)


def check_cells(
    kernels: Sequence[Kernel], table: Table, views: Mapping[str, Any], imputer: Impute | None
) -> dict[str, int]:
    """Numbers of missing cells by column; raises for such without a treatment, and for columns without a known cell."""
    cells = missing_cells(table, views)
    if cells and imputer is None and not all(kernel.takes_missing for kernel in kernels):
        refuse_missing({name: lost for name, (lost, _) in cells.items()}, table.n_rows)
    refuse_empty([name for name, (lost, rows) in cells.items() if lost == rows], table.n_rows)
    return {name: lost for name, (lost, _) in cells.items()}


def missing_of(
    source: TableSource, cells: Mapping[str, int], missing: object, missing_views: str
) -> dict[str, Any]:
    """Missing cells of the training rows and their treatment as plain values; see `MKLRegressor.missing_`."""
    lost: dict[str, int] = {}
    if isinstance(source, PartialSource):
        lost = {view: int((~there).sum()) for view, there in source.present.items() if not there.all()}
    found: dict[str, Any] = {"n_rows": source.n_samples, "cells": dict(cells), "views": lost}
    imputer = source.imputer
    if cells and imputer is not None:
        done = _FILLED[imputer.rule].format(k=imputer.n_neighbors)
        marks = "; columns of 0 and 1 mark missing cells" if imputer.indicator else ""
        found["cells_done"] = f"{done}{marks}"
    elif cells:
        skip = isinstance(missing, str) and missing == "skip"
        found["cells_done"] = (
            "kernels compare rows in the columns that both have" if skip else "as in the steps of the kernels"
        )
    if lost:
        found["views_done"] = _VIEWS[missing_views]
    return found


def in_order(X: Features, given: Mapping[str, Any], missing_views: str) -> dict[str, Any]:
    """Values of rows, by name, in the order of the rows of views, if frames joined by index have different rows.

    A series is matched by its index if the first view lacks rows. Anything else belongs to the rows of the first view,
    which must have all rows then.
    """
    found = dict(given)
    if missing_views == "error" or not isinstance(X, Mapping):
        return found
    tables = list(X.values())
    if not tables or not all(hasattr(table, "iloc") and hasattr(table, "index") for table in tables):
        return found
    first, *others = [table.index for table in tables]
    if not all(index.is_unique for index in (first, *others)):
        return found
    every = first
    for index in others:
        if not len(every.intersection(index)):
            # which has its own error
            return found
        every = every.append(index.difference(every, sort=False))
    if len(every) == len(first):
        return found
    for name, values in given.items():
        if values is None or np.isscalar(values):
            continue
        labels = getattr(values, "index", None)
        known = labels is not None and hasattr(values, "loc") and labels.is_unique
        if not known or len(every.difference(labels)):
            raise InputError(
                f"The first view has {len(first)} of {len(every)} rows, so the rows of the values of `{name}` are "
                f"unknown. Pass `{name}` as a pandas series with the index of all rows, or put a view that has all "
                "rows first."
            )
        found[name] = values.loc[every]
    return found


def refuse_absent_views(X: Features) -> None:
    """Raise for a view that is None in `fit`."""
    if not isinstance(X, Mapping):
        return
    absent = [view for view, table in X.items() if table is None]
    if absent:
        raise InputError(
            f"View {absent[0]!r} is missing in all training rows: it is None. Leave it out, or pass a table with the "
            "rows that have it."
        )


# ---- kernel matrices or features ------------------------------------------------------------------

#: Rows from which features take the place of kernels; with fewer, both take well under a second.
MANY_ROWS = 1000
#: Rows above which kernels that do not fit the memory are approximated by "auto", and not computed again and again.
TOO_MANY_TILES = 5000
#: Rows above which "auto" approximates kernels although they fit the memory: a solution on them takes many minutes.
TOO_MANY_ROWS = 20_000
#: Features of a kernel for "auto", at most and at least.
MOST, LEAST = 256, 16


#: A way to approximate kernels: a name, or a map of features.
APPROXIMATION = OneOf("auto", *MAPS) | InstanceOf((FeatureMap,), "a map such as kernels.Nystroem(200)") | None


def choose_form(
    source: Source[Any], asked: str | FeatureMap | None, learner: Learner, random_state: int | None = None
) -> tuple[Source[Any], str]:
    """The source with its kernels as they are, or approximated, and on matrices or on features; and why, in words.

    Parameters
    ----------
    source : Source
        With fitted kernels.
    asked : None, str or FeatureMap
        The parameter `approximation`.
    learner : Learner
    random_state : int, optional
        Of a map that is not given itself.

    Returns
    -------
    source : Source
    why : str
        Empty for kernels as they were given.

    Raises
    ------
    InputError
        If the kernels cannot be approximated as was asked.
    """
    seed: dict[str, Any] = {} if random_state is None else {"random_state": random_state}
    rule = MAPS[asked](**seed) if isinstance(asked, str) and asked in MAPS else None
    if isinstance(asked, FeatureMap):
        rule = asked
    if not isinstance(source, TableSource) or not source.is_whole:
        if rule is not None:
            lacking = isinstance(source, TableSource)
            what = "views that rows lack" if lacking else "precomputed kernels"
            raise InputError(
                f"`approximation` needs kernels that are computed from rows, got {what}. Leave it out"
                + (", or drop rows that lack a view." if lacking else ".")
            )
        return source, ""
    if rule is None and source.n_samples < min(MANY_ROWS, TOO_MANY_TILES):
        # few rows: neither of the two questions below
        return source, ""
    widths = source.feature_widths()
    if rule is None and not (asked == "auto" and _too_large(source, widths, learner)):
        source.explicit = _cheaper(source, widths, learner)
        return source, ""
    room = _room(source.max_memory, source.n_samples) // source.n_kernels
    if learner.most_features is not None:
        room = min(room, learner.most_features // source.n_kernels)
    chosen = rule or Nystroem(max(LEAST, min(MOST, room)), tol=0.0, **seed)
    # features that kernels have by themselves are kept, unless they are far more than those of the map
    most = max(chosen.width, min(room, source.n_samples))
    kept = [width is not None and width <= most for width in widths]
    if all(kept):
        source.explicit = learner.on_features
        return source, ""
    why = "" if rule is not None else _why(source, widths)
    source = source.with_kernels(
        [
            kernel if keep else approximate(kernel, chosen)
            for kernel, keep in zip(source.given_kernels, kept, strict=True)
        ]
    )
    source.explicit = True
    return source, why


def _room(max_memory: float, n: int) -> int:
    """Most features p of all kernels that fit the memory beside four matrices (p, p) of the solver."""
    return int((math.sqrt(64.0 * n * n + 128.0 * max_memory) - 8.0 * n) / 64.0)


def _cheaper(source: TableSource, widths: list[int | None], learner: Learner) -> bool:
    """Whether all kernels have features, and rows are so many that these are the cheaper way."""
    if not learner.on_features or any(width is None for width in widths):
        return False
    total = sum(width for width in widths if width is not None)
    n = source.n_samples
    return n >= MANY_ROWS and learner.features_pay(n, total) and 8.0 * total * n <= source.max_memory


def _too_large(source: TableSource, widths: list[int | None], learner: Learner) -> bool:
    """Whether the kernels exceed the memory, have too many rows to be computed again and again, and can be replaced."""
    n = source.n_samples
    if not learner.on_features or n <= TOO_MANY_TILES:
        return False
    if any(kernel.is_corrected or kernel.needs_psd_check for kernel in source.kernels):
        return False
    if any(isinstance(kernel.base, Precomputed) for kernel in source.kernels):
        return False
    if n > TOO_MANY_ROWS and any(width is None for width in widths):
        return True
    return _needed(source, widths) > source.max_memory


def _needed(source: TableSource, widths: list[int | None]) -> float:
    """Bytes of the kernels as they are."""
    n = source.n_samples
    triangle = packed_length(n)
    return 8.0 * sum(
        n * width if width is not None and width <= highest_rank(n) else triangle for width in widths
    )


def _why(source: TableSource, widths: list[int | None]) -> str:
    n, m = source.n_samples, source.n_kernels
    if _needed(source, widths) <= source.max_memory:
        return f"with {n:,} rows, more than {TOO_MANY_ROWS:,}, a solution on the kernels themselves would take long"
    needed = 8.0 * packed_length(n) * m / 2**30
    return f"the kernels themselves would take {needed:.3g} GiB, and max_memory is {source.max_memory / 2**30:.3g} GiB"


def fitted_maps(source: Source[Any]) -> dict[str, FeatureMap]:
    """The maps of approximate kernels by the kernels' names; of several in one kernel the one that leaves out most."""
    found: dict[str, FeatureMap] = {}
    for name, kernel in zip(source.names, getattr(source, "kernels", ()), strict=False):
        if kernel.is_approximate:
            found[str(name)] = max(maps_of(kernel), key=_share)
    return found


def _share(one: FeatureMap) -> float:
    return 0.0 if one.left_out is None else one.left_out.share


def approximation_of(maps: Mapping[str, FeatureMap]) -> dict[str, Any]:
    """What approximate kernels leave out, in plain values; see `MKLRegressor`."""
    left = {name: one.left_out for name, one in maps.items() if one.left_out is not None}
    return {
        "maps": {name: repr(one) for name, one in maps.items()},
        "left_out": {name: one.share for name, one in left.items()},
        "left_out_bound": {name: one.bound for name, one in left.items()},
    }


def described(maps: Mapping[str, FeatureMap]) -> str:
    """What maps leave out, in words for `gram_`."""
    worst = max(maps.values(), key=_share)
    left = worst.left_out
    kind = "Nystroem features" if isinstance(worst, Nystroem) else "random features"
    if left is None:
        return kind
    if isinstance(worst, Nystroem):
        return f"{kind} that leave out at most {left.share:.2g} of the trace of a kernel"
    return f"{kind} with errors of at most {left.share:.2g} of the diagonal (root mean square)"
