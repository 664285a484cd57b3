"""kernelweave: multiple kernel learning with certificates.

Names are imported on first use, so that ``import kernelweave`` takes little more time than NumPy. They are listed only
in `__init__.pyi`, which is read by this module, by type checkers and by editors: those of the front page in `__all__`,
the others in the modules `solvers` and `rows`.
"""

import warnings
from pathlib import Path
from typing import Any

from kernelweave._lazy import names_in, value_at

#: Public names with their modules, relative to this package; modules are of the package itself.
_PLACES = names_in(__file__)


def _listed(*headings: str) -> list[str]:
    """Names in the stub below headings that begin so."""
    parts = Path(__file__).with_suffix(".pyi").read_text(encoding="utf8").split("\n# ")
    lines = [line for part in parts if part.startswith(headings) for line in part.splitlines()]
    return [line.rpartition(" as ")[2] for line in lines if line.startswith("from ")]


__all__ = sorted(_listed("The names"))
_FORMER = frozenset(_listed("Former"))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("kernelweave")
        return globals()[name]
    if name not in _FORMER:
        return value_at(_PLACES, name, globals())
    from kernelweave import rows

    place = "rows" if name in rows.__all__ else "solvers"
    warnings.warn(
        f"kernelweave.{name} is now kernelweave.{place}.{name}; the former name will be removed in version 0.4.",
        DeprecationWarning,
        stacklevel=2,
    )
    return value_at(_PLACES, name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
