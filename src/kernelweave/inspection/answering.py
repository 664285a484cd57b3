"""One answer from several findings: which sources matter, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from kernelweave._drawing import percent
from kernelweave._parameters import InstanceOf, checked
from kernelweave.inspection.registry import MOST_NAMED, Finding, Found, Interval, Table, enumerated, named

__all__ = ["source_answer"]


@checked
def source_answer(
    found: Annotated[Found, InstanceOf((Mapping,), "a dict of findings by name, as `findings` returns it")],
) -> Finding | None:
    """The sources with their weights, intervals, and what a model loses without them.

    Parameters
    ----------
    found : dict of str to Finding
        With "views", and as far as they were computed "stability" and "omission".

    Returns
    -------
    Finding or None
        None for fewer than two sources. ``details["sources"]`` has, by name, "needed" ("yes", "no", "inconclusive" or
        None), "loss", "low", "high" and "p" of fits without the source.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = kw.MKLRegressor(kw.banks.linear_features(2), alpha=0.1).fit(X, X[:, 0])
    >>> found = kw.inspection.findings(model, training=(X, X[:, 0]), names=["omission"])
    >>> kw.inspection.source_answer(found).sentence
    'The only source with a weight is x0. x0 matters: a model without it predicts worse (p = 0.0005).'
    """
    views, omission = found.get("views"), found.get("omission")
    stable = found.get("stability", views)
    if views is None or stable is None or len(views.values) < 2:
        return None
    tested = _tested(omission)
    values = {
        name: Interval(one.value, *_ends(stable.values.get(name)), n=one.n)
        for name, one in views.values.items()
    }
    columns: dict[str, Any] = {
        "source": list(values),
        "weight": [one.value for one in values.values()],
        "low": [one.low for one in values.values()],
        "high": [one.high for one in values.values()],
    }
    formats = {"weight": ".1%", "low": ".1%", "high": ".1%"}
    notes = []
    if stable is not views:
        notes.append(f"low and high: 95 % interval of the weight over {stable.n} random halves of the rows.")
    else:
        del columns["low"], columns["high"]
    if omission is not None and tested:
        columns["loss without it"] = [tested.get(name, {}).get("loss") for name in values]
        columns["needed"] = [
            tested.get(name, {}).get("needed") or ("not tested" if one.value else "no weight")
            for name, one in values.items()
        ]
        formats["loss without it"] = f"score@{omission.rows}"
        notes.append(
            f"loss without it: of the score, in {omission.n} divisions of the rows, each time fitted again."
        )
    made = Finding(
        values,
        "Weights of the sources as fractions of all weights, with what a model loses without each.",
        stable.n,
        stable.sampled,
        stable.coverage,
        form=".1%",
        details={"sources": {name: tested.get(name, {"needed": None}) for name in values}},
        tables=(Table.of("answer", "Sources", columns, " ".join(notes), formats, brief=True),),
        name="answer",
        title="Sources",
    )
    # names of sources may have braces
    return made.says("which", "{answer}", {"answer": _sentence(values, tested)})


def _ends(one: Interval | None) -> tuple[float, float]:
    return (math.nan, math.nan) if one is None else (one.low, one.high)


def _tested(omission: Finding | None) -> dict[str, dict[str, Any]]:
    """What fits without each source say, by its name."""
    if omission is None:
        return {}
    # verdicts are those of the first sources, the table has all
    [table] = omission.tables
    rows = [dict(zip(table.heads, row, strict=True)) for row in table.rows]
    return {
        str(row["left out"]): {
            "needed": row["verdict"],
            "loss": row["loss"],
            "low": row["low"],
            "high": row["high"],
            "p": row["p, corrected"],
        }
        for row in rows
    }


def _sentence(values: dict[str, Interval], tested: dict[str, dict[str, Any]]) -> str:
    """The answer, in a sentence or two."""
    weighted = [name for name, one in values.items() if one.value > 0]
    only = f"The only source with a weight is {named(weighted[0])}." if len(weighted) == 1 else ""
    if only and not tested:
        return only
    if not tested:
        largest = next(iter(values))
        return (
            f"{named(largest)} has the largest weight, {percent(values[largest].value, 1)}. Whether a model needs it "
            "was not tested."
        )
    parts = [only] if only else []
    for answer, one, several in (
        (
            "yes",
            "matters: a model without it predicts worse",
            "matter: a model without one of them predicts worse",
        ),
        ("no", "can be left out", "can be left out, each of them alone"),
        (
            "inconclusive",
            "may matter or not: these rows cannot tell",
            "may matter or not: these rows cannot tell",
        ),
    ):
        names = [name for name in weighted if tested.get(name, {}).get("needed") == answer]
        shown = [named(name) for name in names[:MOST_NAMED]]
        if len(names) > MOST_NAMED:
            shown.append(f"{len(names) - MOST_NAMED} more")
        if shown:
            surest = min(tested[name]["p"] for name in names)
            sure = f" (p = {surest:.2g})" if answer == "yes" and len(names) == 1 else ""
            parts.append(f"{enumerated(shown)} {one if len(names) == 1 else several}{sure}.")
    return " ".join(parts)
