"""Views that a table itself suggests: by the names of its columns, by their types, by blocks of correlated columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelweave._types import DataFrame

__all__ = ["Proposal", "by_names", "propose_views"]

#: Characters that separate the parts of a name.
SEPARATORS = r"[_.:/|\- ]+"
#: Columns of the smallest view, and the most views.
FEWEST, MOST_VIEWS = 2, 24
#: Part of the columns that belongs to a view before names count as a pattern.
COVERED = 0.8
#: The name of the view of all other columns.
OTHERS = "other"
#: Columns among which blocks of correlation are looked for, and their rows.
MOST_COLUMNS, MOST_ROWS = 500, 5000
#: Mean absolute correlation inside of a block, at least, and between blocks as a part of it, at most.
INSIDE, BETWEEN = 0.5, 0.5


@dataclass(frozen=True)
class Proposal:
    """Views of a table, and why.

    Attributes
    ----------
    views : dict of str to list of str
        Columns by the name of the view; none where the table suggests nothing.
    reason : str
        "names", "types" or "correlations" of the columns.
    """

    views: Mapping[str, list[str]]
    reason: str


def propose_views(table: DataFrame) -> Proposal:
    """Views of the columns of a table: by their names, or else by their types, or else by their correlations.

    Parameters
    ----------
    table : DataFrame
        The columns to learn from, without the target.

    Returns
    -------
    Proposal

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame([[1.0] * 5], columns=["gene_a", "gene_b", "lipid_a", "lipid_b", "age"])
    >>> propose_views(table).views
    {'gene': ['gene_a', 'gene_b'], 'lipid': ['lipid_a', 'lipid_b'], 'other': ['age']}
    """
    names = [str(name) for name in table.columns]
    if len(set(names)) < len(names):
        return Proposal({}, "")
    if found := by_names(names):
        return Proposal(found, "names")
    if found := _by_types(table, names):
        return Proposal(found, "types")
    if found := _by_correlation(table, names):
        return Proposal(found, "correlations")
    return Proposal({}, "")


def by_names(names: Sequence[str]) -> dict[str, list[str]]:
    """Groups of names that begin alike, or end alike; none where they do not.

    Examples
    --------
    >>> by_names(["gene1", "gene2", "lipid1", "lipid2"])
    {'gene': ['gene1', 'gene2'], 'lipid': ['lipid1', 'lipid2']}
    >>> by_names(["age", "height", "weight"])
    {}
    """
    keys = (
        lambda name: re.split(SEPARATORS, name)[0] if re.search(rf".{SEPARATORS}.", name) else "",
        lambda name: found[1] if (found := re.fullmatch(r"(\D+?)[_.\- ]*\d+", name)) else "",
        lambda name: re.split(SEPARATORS, name)[-1] if re.search(rf".{SEPARATORS}.", name) else "",
    )
    best: dict[str, list[str]] = {}
    for key in keys:
        groups: dict[str, list[str]] = {}
        for name in names:
            groups.setdefault(key(name), []).append(name)
        views = {name: group for name, group in groups.items() if name and len(group) >= FEWEST}
        covered = sum(map(len, views.values()))
        if not 2 <= len(views) <= MOST_VIEWS or covered < COVERED * len(names):
            continue
        if not best or covered > sum(map(len, best.values())):
            best = views
    return _with_others(best, names)


def _with_others(views: dict[str, list[str]], names: Sequence[str]) -> dict[str, list[str]]:
    inside = {name for group in views.values() for name in group}
    rest = [name for name in names if name not in inside]
    return {**views, OTHERS: [*views.get(OTHERS, []), *rest]} if views and rest else views


def _by_types(table: DataFrame, names: Sequence[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, kind in zip(names, table.dtypes, strict=True):
        code = getattr(kind, "kind", "O")
        what = "numbers" if code in "fiu" else "dates" if code in "mM" else "categories"
        groups.setdefault(what, []).append(name)
    return groups if len(groups) > 1 else {}


def _by_correlation(table: DataFrame, names: Sequence[str]) -> dict[str, list[str]]:
    """Blocks of columns that are correlated with each other and not with those of other blocks."""
    if not 4 <= len(names) <= MOST_COLUMNS or len(table) < 10:
        return {}
    from scipy.cluster.hierarchy import cut_tree, linkage
    from scipy.spatial.distance import squareform

    try:
        values = np.asarray(table[:MOST_ROWS].to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        return {}  # not all columns are numbers
    values = np.where(np.isnan(values), np.nanmean(values, axis=0, keepdims=True), values)
    scale = values.std(axis=0)
    if not np.all(np.isfinite(values)) or np.any(scale == 0):
        return {}
    size = np.abs(np.corrcoef(values.T))
    tree = linkage(squareform(1.0 - np.minimum(size, 1.0), checks=False), "average")
    best: dict[str, list[str]] = {}
    for number in range(2, min(8, len(names) // FEWEST) + 1):
        blocks = cut_tree(tree, number)[:, 0]
        counts = np.bincount(blocks)
        if counts.min() < FEWEST:
            continue
        same = blocks[:, None] == blocks
        inside = np.array(
            [
                (size[np.ix_(blocks == k, blocks == k)].sum() - counts[k]) / (counts[k] ** 2 - counts[k])
                for k in range(number)
            ]
        )
        if inside.min() >= INSIDE and size[~same].mean() <= BETWEEN * inside.min():
            best = {
                f"block {k + 1} ({names[np.flatnonzero(blocks == k)[0]]} ...)": [
                    name for name, block in zip(names, blocks, strict=True) if block == k
                ]
                for k in range(number)
            }
    return best
