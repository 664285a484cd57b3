"""kernelweave: multiple kernel learning with certificates.

Names are imported on first use, so that ``import kernelweave`` costs little more than NumPy. They are listed in
`__init__.pyi`, once: this module reads that list, and so do type checkers and editors.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

#: Every public name with the module that it comes from, below this package; modules come from the package itself.
_PLACES = {
    name: module
    for module, name in re.findall(
        r"^from kernelweave(\S*) import (\w+) as \2$",
        Path(__file__).with_suffix(".pyi").read_text(encoding="utf8"),
        re.MULTILINE,
    )
}
#: Names of 0.1 and where they are now; to be dropped after one version.
_OLD = {
    "AlignFResult": "results.AlignmentSolution",
    "AlignResult": "results.AlignmentSolution",
    "CappedSimplex": "weight_sets.CappedSimplex",
    "EasyMKLResult": "results.Solution",
    "LpBall": "weight_sets.LpBall",
    "MEBResult": "results.Ball",
    "MKLResult": "results.Solution",
    "PathResult": "results.Path",
    "RLS2Result": "results.Solution",
    "RadiusResult": "results.RadiusSolution",
    "SVMResult": "results.MachineSolution",
    "Simplex": "weight_sets.Simplex",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    value: Any
    if name in _PLACES:
        module = f"kernelweave{_PLACES[name]}"
        place = import_module(module)
        # a name is that of something in a module, or of a module
        value = vars(place)[name] if name in vars(place) else import_module(f"{module}.{name}")
    elif name in _OLD:
        import warnings

        warnings.warn(
            f"kernelweave.{name} is now kernelweave.{_OLD[name]}; the old name goes with the next version.",
            FutureWarning,
            stacklevel=2,
        )
        module, _, new = _OLD[name].partition(".")
        return getattr(__getattr__(module), new)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("kernelweave")
    else:
        raise AttributeError(f"module 'kernelweave' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
