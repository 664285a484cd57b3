"""Banks and kernels to choose from on the page of kernels."""

from __future__ import annotations

import re
from collections import Counter

from kernelweave.banks import FEW_COLUMNS, MANY_COLUMNS

BANKS = {
    "default": "Default: linear, Gaussian, Laplacian and cosine, by what the rows hold",
    "per_column": "By column: linear, quadratic, cubic and Gaussian, on all columns",
    "rls2": "RLS2 paper: polynomial 1 to 3 and 10 Gaussian, on all and on each",
    "simplemkl": "SimpleMKL paper: Gaussian and polynomial, on all and on each",
    "rkl": "RKL paper: 10 Gaussian widths, polynomial 1 to 10, on all columns",
    "mlmkl": "MLMKL paper: four kernels on all columns",
    "linear_features": "Linear, one kernel for each column",
}

SHAPES = {
    "default": "Default: linear, Gaussian, Laplacian and cosine, by what the rows hold",
    "linear": "Linear",
    "rbf(gamma=0.01); rbf(gamma=0.1); rbf(gamma=1)": "Gaussian, 3 widths",
    "rbf(gamma=('median', 0.25)); rbf(gamma='median'); rbf(gamma=('median', 4))": "Gaussian, 3 widths from the data",
    "linear; rbf(gamma=0.1)": "Linear and Gaussian",
    "linear; poly(degree=2); poly(degree=3)": "Polynomial of degree 1 to 3",
    "categorical": "Categories",
}


def banks_for(n_columns: int) -> dict[str, str]:
    """Banks and their contents; the bank by column has fewer kernels on single columns if there are many columns.

    Parameters
    ----------
    n_columns : int

    Returns
    -------
    dict of str to str
    """
    if n_columns <= FEW_COLUMNS:
        singles = " and on each"
    elif n_columns <= MANY_COLUMNS:
        singles = ", and linear on each"
    else:
        singles = f" together; with more than {MANY_COLUMNS} columns none on each"
    return {**BANKS, "per_column": BANKS["per_column"] + singles}


def group_by_name(names: list[str]) -> dict[str, list[str]]:
    """Groups of columns by the first or the last word of their names, whichever is shared by more of them.

    Parameters
    ----------
    names : list of str

    Returns
    -------
    dict of str to list of str
        Groups of at least two columns; all other columns are in "other".
    """
    ends = {}
    for name in names:
        words = [w for w in re.split(r"[\s._\-:/]+|(?<=[a-z])(?=\d)", name) if w]
        # a number only counts columns, it does not name their kind
        ends[name] = tuple(w for w in (words[0], words[-1]) if not w.isdigit()) if len(words) > 1 else ()
    counts = Counter(word for pair in ends.values() for word in dict.fromkeys(pair))
    groups: dict[str, list[str]] = {}
    for name, pair in ends.items():
        word = max(pair, key=lambda w: counts[w], default="")
        groups.setdefault(word if counts[word] > 1 else "other", []).append(name)
    alone = {
        name for key, members in groups.items() if len(members) < 2 or key == "other" for name in members
    }
    found = {key: members for key, members in groups.items() if len(members) > 1 and key != "other"}
    if alone and found:
        found["other"] = [name for name in names if name in alone]
    return found
