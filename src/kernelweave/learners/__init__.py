"""Learners: how kernel weights are found. Each is a named choice of criterion, weight set and step.

A learner is a class of parameters with `get_params` and `set_params`, so that ``learner__C`` can be searched. To add
one, write its class in a file of this folder, or in your own program: with a `name` it is known to ``learner=``. Where
a package names the module in the entry-point group `kernelweave.extensions`, command line, studio and other processes
know it too.

Names of `__init__.pyi` are imported on first use; other files that define learners, when learners are listed.
"""

from kernelweave._extensions import load_extensions
from kernelweave._lazy import names_in, value_at

_PLACES = names_in(__file__)
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> object:
    """Names of the stub, and learners of extensions by the names of their classes."""
    if name not in _PLACES and not name.startswith("_"):
        load_extensions()
        from kernelweave.learners.base import LEARNERS

        for learner in LEARNERS.values():
            if learner.__name__ == name:
                return learner
    return value_at(_PLACES, name, globals())


def __dir__() -> list[str]:
    return __all__
