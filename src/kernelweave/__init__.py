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
#: What the classes of results were called in 0.1; to be dropped after one version.
_OLD = {
    "AlignFResult": "AlignmentSolution",
    "AlignResult": "AlignmentSolution",
    "EasyMKLResult": "Solution",
    "MEBResult": "Ball",
    "MKLResult": "Solution",
    "PathResult": "Path",
    "RLS2Result": "Solution",
    "RadiusResult": "RadiusSolution",
    "SVMResult": "MachineSolution",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    value: Any
    if name in _PLACES:
        module = _PLACES[name]
        value = (
            getattr(import_module(f"kernelweave{module}"), name)
            if module
            else import_module(f"kernelweave.{name}")
        )
    elif name in _OLD:
        import warnings

        warnings.warn(
            f"kernelweave.{name} is now kernelweave.results.{_OLD[name]}; the old name goes with the next version.",
            FutureWarning,
            stacklevel=2,
        )
        return getattr(import_module("kernelweave.results"), _OLD[name])
    elif name == "__version__":
        from importlib.metadata import version

        value = version("kernelweave")
    else:
        raise AttributeError(f"module 'kernelweave' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
