"""The whole way of a solver in numbers, for `recorded`: an error that only makes it longer shows there as well."""

import inspect
from collections.abc import Iterable
from importlib import import_module

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


def of_certificates(problem, found) -> list[float]:
    """Bounds of rounding errors, in the same units, that a problem finds for solutions."""
    return roundings([problem.certify(one) for one in _all_of(found)])


def verdicts(problem, found) -> list[list[object]]:
    """What a problem says of its solutions."""
    checked = [one.verify(problem) for one in _all_of(found)]
    return [[one.primal, one.gap, one.status.name] for one in checked]


def settings_of(*names: str) -> dict[str, object]:
    """Limits and tolerances of modules, and defaults of what they define: they were measured, and change on purpose."""
    found: dict[str, object] = {}
    for module in (import_module(f"kernelweave.mkl.{name}") for name in names):
        for name, value in sorted(vars(module).items()):
            key = f"{module.__name__.removeprefix('kernelweave.mkl.')}.{name}"
            if name.isupper() and isinstance(value, int | float | tuple | np.ndarray):
                found[key] = value if not isinstance(value, tuple) else [str(one) for one in value]
            if getattr(value, "__module__", "") != module.__name__:
                continue
            if inspect.isfunction(value):
                found[key] = _defaults(value)
            elif inspect.isclass(value):
                own = {
                    one: str(what)
                    for one, what in vars(value).items()
                    if isinstance(what, bool | int | float)
                }
                methods = {
                    one: _defaults(what) for one, what in vars(value).items() if inspect.isfunction(what)
                }
                found[key] = own | {one: what for one, what in methods.items() if what}
    return {key: value for key, value in found.items() if not isinstance(value, dict) or value}


def _defaults(function) -> dict[str, str]:
    found = {name: one.default for name, one in inspect.signature(function).parameters.items()}
    return {
        name: getattr(value, "__name__", str(value))
        for name, value in found.items()
        if value is not inspect.Parameter.empty
    }


def _all_of(found) -> list:
    if hasattr(found, "solutions"):
        return list(found.solutions)
    return list(found) if isinstance(found, Iterable) else [found]
