"""A run: from a table and settings to a fitted model and its files. The command line and the studio share it.

Its modules are imported on first use, as ``runs.fitting``: most of them take seconds, and the help of a command needs
none. `__init__.pyi` lists those that are used so.
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
