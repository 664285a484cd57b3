"""What of solutions is the same on every processor, for `recorded`, and the defaults of public functions."""

import inspect
from collections.abc import Iterable

import numpy as np

#: Errors of formulas, of optimal values at tolerances up to 1e-8, and of weights and coefficients there.
NEAR = {"rtol": 1e-5, "atol": 1e-7}
OF_WEIGHTS = {"rtol": 1e-3, "atol": 1e-3}


def record_solved(recorded, name: str, found, *more: str) -> None:
    """Record optimal values and weights, and `more` numbers, of solutions that have converged."""
    solutions = list(found.solutions) if hasattr(found, "solutions") else [found]
    solutions = list(found) if isinstance(found, Iterable) else solutions
    assert all(one.status.ok for one in solutions), [one.status for one in solutions]
    for key in ("primal", "weights", *more):
        values = np.concatenate([np.ravel(np.asarray(getattr(one, key), dtype=float)) for one in solutions])
        recorded(f"{name}, {key}", values, **({"rtol": 1e-6} if key == "primal" else OF_WEIGHTS))


def in_few_iterations(found, most: int) -> None:
    """Bound the iterations of solutions: an error may only make the way longer."""
    solutions = list(getattr(found, "solutions", [found]))
    assert sum(one.n_iter for one in solutions) <= most, [one.n_iter for one in solutions]


def verdicts(problem, found) -> list[str]:
    """What a problem says of solutions."""
    solutions = list(getattr(found, "solutions", [found]))
    return [one.verify(problem).status.name for one in solutions]


def defaults_of(*functions) -> dict[str, dict[str, str]]:
    """Defaults of public functions, by their names and those of their parameters."""
    found: dict[str, dict[str, str]] = {}
    for one in functions:
        given = {key: what.default for key, what in inspect.signature(one).parameters.items()}
        known = {key: value for key, value in given.items() if value is not inspect.Parameter.empty}
        found[one.__name__] = {key: getattr(value, "__name__", str(value)) for key, value in known.items()}
    return found
