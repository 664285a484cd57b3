"""Whether a model is fitted on kernel matrices or on features, exact ones or those of a map."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kernelweave._checks import InputError
from kernelweave._loops import packed_length
from kernelweave._parameters import InstanceOf, OneOf
from kernelweave.fitting.source import Source, TableSource
from kernelweave.gram.low_rank import highest_rank
from kernelweave.kernels import MAPS, FeatureMap, Nystroem, Precomputed, approximate, maps_of
from kernelweave.learners import Learner

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
