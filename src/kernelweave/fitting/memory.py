"""Memory limits of training stacks."""

from __future__ import annotations

from kernelweave._allowance import machine_memory
from kernelweave._checks import InputError
from kernelweave._parameters import Number, Unfit, shown

#: Default share of the physical memory for a training stack.
MEMORY_SHARE = 0.25

UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def memory_budget(max_memory: float | str | None) -> float:
    """Memory limit of a training stack in bytes: a number, a text such as ``"2GB"``, or ``"auto"``."""
    if max_memory is None or (isinstance(max_memory, str) and max_memory == "auto"):
        there = machine_memory()
        return 2.0 * 2**30 if there is None else MEMORY_SHARE * there
    rule = Number(above=0, infinite=True)
    try:
        if not isinstance(max_memory, str):
            return rule.read(max_memory)
        text = max_memory.strip().upper().removesuffix("B").removesuffix("I")
        return UNITS[text[-1]] * rule.parse(text[:-1]) if text[-1:] in UNITS else rule.parse(text)
    except Unfit:
        raise InputError(
            f"`max_memory` must be positive: bytes, a text such as '2GB', or 'auto', got {shown(max_memory)}."
        ) from None
