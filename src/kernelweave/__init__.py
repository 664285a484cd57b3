"""kernelweave: multiple kernel learning with certificates.

Names are imported on first use, so that ``import kernelweave`` takes little more time than NumPy. They are listed only
in `__init__.pyi`, which is read by this module, by type checkers and by editors.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

#: Public names with their modules, relative to this package; modules are of the package itself.
_PLACES = {
    name: module
    for module, name in re.findall(
        r"^from kernelweave(\S*) import (\w+) as \2$",
        Path(__file__).with_suffix(".pyi").read_text(encoding="utf8"),
        re.MULTILINE,
    )
}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    value: Any
    if name in _PLACES:
        module = f"kernelweave{_PLACES[name]}"
        place = import_module(module)
        # a name is that of an object in a module, or of a module
        value = vars(place)[name] if name in vars(place) else import_module(f"{module}.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("kernelweave")
    else:
        raise AttributeError(f"module 'kernelweave' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
