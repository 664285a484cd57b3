"""Names that are imported on first use, listed once: in the stub of their package, which type checkers read too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

#: What a class with a short name has.
_NAMED = re.compile(r"^    name\b.*=\s*[\"']", re.MULTILINE)


def _lines_of(file: str) -> list[tuple[str, str, str]]:
    """Module, name and comment of each line of the stub in the folder of a module, in their order."""
    text = Path(file).with_name("__init__.pyi").read_text(encoding="utf8")
    return re.findall(r"^from kernelweave(\S*) import (\w+) as \2(?:  # (\S+))?$", text, re.MULTILINE)


def names_in(file: str) -> dict[str, str]:
    """The names in the stub of a package with their modules, relative to kernelweave, in their order."""
    return {name: module for module, name, _ in _lines_of(file)}


class Registry(MutableMapping[str, type[T]]):
    """Classes by short names; those in a stub, which has their short names as comments, are imported on first use.

    A class enters, also in the place of its line in the stub, when it is defined. To look for names and to list them
    imports nothing but files of the folder that define classes with a `name` and are not in the stub.
    """

    def __init__(self, file: str, package: str) -> None:
        lines = _lines_of(file)
        self._places = {short: f"kernelweave{place}.{name}" for place, name, short in lines if short}
        self._classes: dict[str, type[T]] = {}
        listed = {place.rpartition(".")[2] for place, _, _ in lines}
        self._others = [
            f"{package}.{own.stem}"
            for own in sorted(Path(file).parent.glob("*.py"))
            if own.stem not in listed and _NAMED.search(own.read_text(encoding="utf8"))
        ]

    def _all(self) -> dict[str, str]:
        while self._others:
            import_module(self._others.pop())
        return self._places

    def place(self, name: str) -> str:
        """Module and name of a class, which need not be imported; empty for an unknown short name."""
        return self._places.get(name, "")

    def __getitem__(self, name: str) -> type[T]:
        if name not in self._classes:
            place = self._places.get(name) or self._all()[name]
            import_module(place.rpartition(".")[0])
        return self._classes[name]

    def __setitem__(self, name: str, value: type[T]) -> None:
        self._places[name], self._classes[name] = f"{value.__module__}.{value.__qualname__}", value

    def __delitem__(self, name: str) -> None:
        del self._places[name], self._classes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places or name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


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
