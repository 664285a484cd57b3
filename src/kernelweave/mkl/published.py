"""Published algorithms that another package brings: entry points of the group `kernelweave.steps`, by name.

`MARGIN` are steps over the weights of a machine, subclasses of `kernelweave.mkl.kernel_problem.MarginStep` for the
simplex; `RIDGE` are functions like `kernelweave.mkl.steps.ridge_newton.newton_result`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from kernelweave._checks import InputError

GROUP = "kernelweave.steps"
MARGIN = ("reduced-gradient", "cutting-plane")
RIDGE = ("alternating",)


@cache
def published(name: str) -> Any:
    """The algorithm of this name.

    Raises
    ------
    InputError
        No installed package brings it.
    """
    for point in entry_points(group=GROUP, name=name):
        return point.load()
    raise InputError(
        f"{name!r} is a published algorithm that is not part of this installation. Use the default, which is "
        "faster and has the same solution, or install the package that brings it."
    )
