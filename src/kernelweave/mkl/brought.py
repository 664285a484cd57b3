"""Algorithms that another package brings: entry points of the group `kernelweave.steps`, by name.

`MARGIN` are steps over the weights of a machine, subclasses of `kernelweave.mkl.kernel_problem.MarginStep` for the
simplex; `RIDGE` are functions like `kernelweave.mkl.steps.ridge_newton.newton_result`.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from kernelweave._checks import InputError

GROUP = "kernelweave.steps"
MARGIN = ("reduced-gradient", "cutting-plane")
RIDGE = ("alternating",)


@cache
def _points() -> dict[str, EntryPoint]:
    """Entry points of installed packages, or of the tree of an editable installation that is older than these."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    tree = Path(__file__).parents[3] / "pyproject.toml"
    if not found and tree.is_file():
        declared = tomllib.loads(tree.read_text(encoding="utf8"))["project"].get("entry-points", {})
        found = {name: EntryPoint(name, value, GROUP) for name, value in declared.get(GROUP, {}).items()}
    return found


def brought(name: str) -> Any:
    """The algorithm of this name.

    Raises
    ------
    InputError
        No installed package brings it.
    """
    try:
        return _points()[name].load()
    except (KeyError, ModuleNotFoundError) as error:
        raise InputError(
            f"{name!r} is a published algorithm that is not part of this installation. Use the default, which is "
            "faster and has the same solution, or install the package that brings it."
        ) from error
