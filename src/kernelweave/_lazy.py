"""Names that are imported on first use, listed once: in the stub of their package, which type checkers read too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def lines_of(file: str) -> list[tuple[str, str, str]]:
    """Module, name and comment of each line of the stub in the folder of a module, in their order."""
    text = Path(file).with_name("__init__.pyi").read_text(encoding="utf8")
    return re.findall(r"^from kernelweave(\S*) import (\w+) as \2(?:  # (\S+))?$", text, re.MULTILINE)


def names_in(file: str) -> dict[str, str]:
    """The names in the stub of a package with their modules, relative to kernelweave, in their order."""
    return {name: module for module, name, _ in lines_of(file)}


def value_at(places: Mapping[str, str], name: str, known: dict[str, Any] | None = None) -> Any:
    """The object, or the module, of a name; it is kept in `known`."""
    if name not in places:
        of = "" if known is None else known["__name__"]
        raise AttributeError(f"module {of!r} has no attribute {name!r}")
    module = f"kernelweave{places[name]}"
    place = import_module(module)
    # a name is that of an object in a module, or of a module
    value = vars(place)[name] if name in vars(place) else import_module(f"{module}.{name}")
    if known is not None:
        known[name] = value
    return value
