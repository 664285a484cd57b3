"""The whole way of a solver in numbers, for `recorded`: an error that only makes it longer shows there as well."""

import inspect
from collections.abc import Iterable

import numpy as np

#: Errors of numbers that depend on the order of sums.
NEAR = {"rtol": 1e-4, "atol": 1e-6}
#: Relative error of bounds of rounding, which hold rounding errors themselves.
OF_ROUNDING = 0.45
#: Numbers of all kinds of solutions; those that a solution does not have are left out.
NAMES = (
    *(
        "n_iter",
        "n_machines",
        "n_nodes",
        "primal",
        "gap",
        "alpha",
        "intercept",
        "weights",
        "dual_coef",
        "feature_coef",
    ),
    *("proof", "stationarity", "value", "radius2", "alignments", "alphas", "log_dets"),
    *("relax", "ridge_primal", "ridge_gap", "ridge_log_det"),
)


def journey(found, *without: str) -> dict[str, object]:
    """Numbers of a solution, or of all on a path: statuses, counts, bounds, coefficients, traces; `without` some."""
    solutions = _all_of(found)
    names = dict.fromkeys(name for one in solutions for name in one.trace)
    out: dict[str, object] = {"status": " ".join(one.status.name for one in solutions)}
    out["kind"] = " ".join(dict.fromkeys(one.certificate.kind for one in solutions))
    for name in (one for one in NAMES if one not in without):
        given = [getattr(one, name, None) for one in solutions]
        values = np.concatenate(
            [np.asarray(one, dtype=float).ravel() for one in given if one is not None] or [[]]
        )
        if not np.isnan(values).all():
            out[name] = values
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


def defaults_of(*functions) -> dict[str, dict[str, str]]:
    """Defaults of functions and classes, by their names and those of their parameters."""
    return {
        one.__name__: {
            name: str(given.default)
            for name, given in inspect.signature(one).parameters.items()
            if given.default is not inspect.Parameter.empty
        }
        for one in functions
    }


def _all_of(found) -> list:
    if hasattr(found, "solutions"):
        return list(found.solutions)
    return list(found) if isinstance(found, Iterable) else [found]
