"""Estimators: scikit-learn's interface for sources, learners and normalisers.

Names are imported on first use, and listed only in `__init__.pyi`.
"""

from kernelweave._lazy import names_in, value_at

_PLACES = names_in(__file__)
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> object:
    return value_at(_PLACES, name, globals())
