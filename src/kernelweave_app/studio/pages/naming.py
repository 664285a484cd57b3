"""Kernels named as people think of them: what they are computed from, their shape, and how wide they are."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from kernelweave.estimators.choosing import not_an_estimate
from kernelweave_app.studio.schema import EITHER, Run


def score_name(name: str, runs: Iterable[Run]) -> str:
    """The name of a score of runs, with the regularisation parameter that it chose in them."""
    chosen = {run.summary.regularization.partition(" = ")[0] for run in runs if run.summary is not None}
    parameter = " or ".join(one for one in EITHER.split(" or ") if one in chosen)
    return name.replace(not_an_estimate(EITHER), not_an_estimate(parameter or EITHER))


_LABEL = re.compile(
    r"(?:(?P<view>.+?): )?(?P<steps>[a-z][^A-Z()]*?,? )?(?P<kind>[A-Z]\w*)(?:\((?P<given>[^()]*)\))?"
    r"(?: on (?P<columns>.+))?"
)
#: Shapes by the names of kernels.
SHAPES = {
    "Linear": "linear",
    "RBF": "smooth",
    "Laplacian": "rough",
    "Matern": "smooth (Matérn)",
    "RationalQuadratic": "smooth at all widths",
    "Periodic": "periodic",
    "Polynomial": "polynomial",
    "Categorical": "same category",
    "Precomputed": "as given",
    "Tanimoto": "shared features",
    "ArcCosine": "like a network",
}
_WIDTHS = {1: [""], 2: ["wide", "narrow"], 3: ["wide", "medium", "narrow"]}


def plain_names(labels: Sequence[str]) -> dict[str, str]:
    """Names of kernels for people, by their labels; each occurs once.

    Examples
    --------
    >>> names = ["standardised RBF(gamma=0.5)", "standardised RBF(gamma=2)", "row-normalised Linear"]
    >>> list(plain_names([f"lipids: {name}" for name in names]).values())
    ['lipids, smooth, wide', 'lipids, smooth, narrow', 'lipids, cosine']
    >>> plain_names(["RBF(gamma=1) on all", "Polynomial(degree=2) on age"])["Polynomial(degree=2) on age"]
    'age, polynomial of degree 2'
    """
    found: dict[str, tuple[str, float | None]] = {}
    widths: dict[str, set[float]] = defaultdict(set)
    for label in labels:
        parts = _LABEL.fullmatch(label)
        if parts is None:
            found[label] = label, None
            continue
        where = parts["view"] or ("all columns" if parts["columns"] in (None, "all") else parts["columns"])
        steps, kind, given = (parts["steps"] or "").strip(" ,"), parts["kind"], parts["given"] or ""
        shape = SHAPES.get(kind, kind)
        if steps == "row-normalised" and kind == "Linear":
            steps, shape = "", "cosine"
        steps = ", ".join(one for one in steps.split(", ") if one not in ("", "standardised"))
        if degree := re.search(r"degree=(\d+)", given):
            shape = f"{shape} of degree {degree[1]}"
        name = ", ".join(filter(None, (where, shape, steps.removeprefix("in a "))))
        gamma = re.search(r"gamma=([\d.e+-]+)", given)
        found[label] = name, float(gamma[1]) if gamma else None
        if gamma:
            widths[name].add(float(gamma[1]))
    names = {label: _with_width(name, gamma, sorted(widths[name])) for label, (name, gamma) in found.items()}
    several = {name for name in names.values() if list(names.values()).count(name) > 1}
    return {label: label if name in several else name for label, name in names.items()}


def _with_width(name: str, gamma: float | None, widths: list[float]) -> str:
    if gamma is None:
        return name
    place, known = widths.index(gamma), _WIDTHS.get(len(widths))
    width = known[place] if known else f"width {place + 1} of {len(widths)}"
    return f"{name}, {width}" if width else name
