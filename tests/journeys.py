"""The whole way of a solver in numbers, for `recorded`: an error that only makes it longer shows there as well."""

from collections.abc import Iterable

import numpy as np

#: Errors of numbers that depend on the order of sums.
NEAR = {"rtol": 1e-4, "atol": 1e-6}
#: Relative error of bounds of rounding, which hold rounding errors themselves.
OF_ROUNDING = 0.45

#: Numbers of all kinds of solutions; those that a solution does not have are left out.
NAMES = (
    *("n_iter", "n_machines", "n_nodes", "primal", "gap", "alpha", "intercept", "weights", "dual_coef", "feature_coef"),
    *("proof", "stationarity", "value", "radius2", "alignments", "alphas", "log_dets", "support", "infeasibility"),
    *("relax", "ridge_primal", "ridge_gap", "ridge_log_det"),
)


def journey(found) -> dict[str, object]:
    """Numbers of a solution, or of all on a path: statuses, counts, bounds, coefficients, and the trace of them all."""
    solutions = _all_of(found)
    names = dict.fromkeys(name for one in solutions for name in one.trace)
    out: dict[str, object] = {"status": " ".join(one.status.name for one in solutions)}
    for name in (
        "n_iter",
        "n_machines",
        "primal",
        "gap",
        "alpha",
        "intercept",
        "weights",
        "dual_coef",
        "feature_coef",
    ):
        values = [np.asarray(getattr(one, name), dtype=float) for one in solutions]
        if not all(np.isnan(v).all() for v in values):
            out[name] = np.concatenate([v.ravel() for v in values])
    for name in names:
        out[f"trace of {name}"] = np.concatenate(
            [np.asarray(one.trace[name], dtype=float) for one in solutions if name in one.trace]
        )
    return out


def roundings(found) -> list[float]:
    """Bounds of rounding errors, in units of 1e-12 of the objective."""
    solutions = _all_of(found)
    return [1e12 * one.rounding / abs(one.primal) for one in solutions]


def verdicts(problem, found) -> list[list[object]]:
    """What a problem says of its solutions."""
    checked = [one.verify(problem) for one in _all_of(found)]
    return [[one.primal, one.gap, one.status.name] for one in checked]


def _all_of(found) -> list:
    if hasattr(found, "solutions"):
        return list(found.solutions)
    return list(found) if isinstance(found, Iterable) else [found]
