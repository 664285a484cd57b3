"""What is taken where the learner and the scale of kernels were left out; and how all defaults are said in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelweave import recipe
from kernelweave.fitting.model import Model
from kernelweave.fitting.task import NormalizedProblem

#: Kernels with weights that are told, at most.
TOLD = 12

NORMALIZERS_SAID = {
    "center": "'center', each kernel less its mean in feature space, then divided by the mean of its diagonal.",
    "mean-diagonal": "'mean-diagonal', each kernel divided by the mean of its diagonal.",
}
LEARNERS_SAID = {
    "LpMKL": "'lp' with p = 2, a support vector machine whose kernel weights have a 2-norm of at most 1: all kernels "
    "take part, good ones more.",
    "RLS2": "'rls2', least squares with kernel weights on the simplex: few kernels take part.",
}
REASONS = {
    "spread": "rows hardly resemble each other in them",
    "chance": "they agree with the target no more than chance",
}

#: What is said of an entry of `defaults_`, in this order.
SAID = {
    "normalize": "Scale of kernels: {}",
    "learner": "Learner: {}",
    "targets": "Targets: {}",
    "metric": "Metric: {}",
    "cells_done": "Missing cells: {}.",
    "views_done": "Missing views: {}.",
    "approximation": "Approximation: {}.",
    "choice": "Regularisation: {}",
    "costs": "Classes: {}",
    "decision": "Decision, for the score {}",
}
NO_DEFAULTS = "Nothing was left to a default: kernels, normalize and learner were all stated."
OTHERWISE = (
    "To choose otherwise, state it: kernels=, normalize=, learner=, C=, alpha=, missing= or missing_views=."
)


def default_learner(
    *, plain: bool, classes: bool, has_alpha: bool = False, has_cost: bool = False
) -> tuple[str, dict[str, Any]]:
    """The learner where none was named: that of the recipe; "rls2" for an alpha, or kernels of one's own without a C.

    Parameters
    ----------
    plain : bool
        Whether kernels were left to the recipe.
    classes : bool
        Whether classes are to be predicted.
    has_alpha, has_cost : bool
        Whether values of alpha, or of C, were given.

    Returns
    -------
    name : str
    params : dict
        Parameters other than the learner's own defaults.
    """
    if has_alpha or not (plain or has_cost):
        return "rls2", {}
    name, params = recipe.CLASSIFICATION if classes or has_cost else recipe.REGRESSION
    return name, dict(params)


def left_out(problem: NormalizedProblem, names: Sequence[str]) -> dict[str, list[str]]:
    """Names of kernels that were left out, by the reason."""
    found = {reason: problem.uninformative[kind] for kind, reason in REASONS.items()}
    return {reason: [str(names[m]) for m in some] for reason, some in found.items() if len(some)}


def explained(told: Mapping[str, Any], model: Model) -> str:
    """The text of `explain_defaults` for what an estimator keeps as `defaults_`."""
    lines = _kernel_lines(told, model) if "views" in told else []
    lines += [said.format(told[name]) for name, said in SAID.items() if told.get(name)]
    return "\n".join([*lines, OTHERWISE]) if lines else NO_DEFAULTS


def _kernel_lines(told: Mapping[str, Any], model: Model) -> list[str]:
    lines = [f"Kernels, chosen by what the {model.source.n_samples} training rows hold:"]
    levels = told.get("levels", {})
    # of a table that views divide, columns are told apart before they are divided
    for view, found in {**({} if "" in told["views"] else {"": ()}), **told["views"]}.items():
        lines += [f"  {f'{view}: ' if view else ''}{said}" for said in (*found, *levels.get(view, ()))]
    lines.append("  With their numbers:")
    names = list(model.source.names)
    lines += [f"    {name}" for name in names[:TOLD]]
    if len(names) > TOLD:
        lines.append(f"    and {len(names) - TOLD} more")
    for reason, left in told.get("left_out", {}).items():
        lines.append(f"  Left out before learning, because {reason}: {', '.join(left)}.")
    if not told.get("left_out"):
        lines.append("  None of them was left out as noise.")
    return lines
