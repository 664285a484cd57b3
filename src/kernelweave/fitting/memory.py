"""Memory limits of training stacks."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import shown

#: Default share of the physical memory for a training stack.
MEMORY_SHARE = 0.25


def memory_budget(max_memory: float | str | None) -> float:
    """Memory limit of a training stack in bytes: a number, a text such as ``"2GB"``, or ``"auto"``."""
    if max_memory is None or (isinstance(max_memory, str) and max_memory == "auto"):
        try:
            return MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (ValueError, OSError, AttributeError):
            return 2.0 * 2**30
    if isinstance(max_memory, str):
        text = max_memory.strip().upper().removesuffix("B").removesuffix("I")
        units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
        factor = units.get(text[-1:])
        number: Any = text[:-1] if factor else text
    else:
        factor, number = None, max_memory
    try:
        value = (
            float(number) * (factor or 1)
            if np.ndim(number) == 0 and not isinstance(number, bool)
            else math.nan
        )
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if math.isnan(value):
        raise InputError(
            f"`max_memory` must be bytes, a text such as '2GB', or 'auto', got {shown(max_memory)}."
        )
    if not value > 0:
        raise InputError(
            f"`max_memory` must be positive, got {max_memory!r}. Use 'auto' or a text such as '2GB'."
        )
    return value
