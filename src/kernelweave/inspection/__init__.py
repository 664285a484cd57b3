"""Tables about fitted estimators, without drawing."""

from __future__ import annotations

from kernelweave.inspection import held_times as held_times
from kernelweave.inspection.curves import *
from kernelweave.inspection.held_times import *
from kernelweave.inspection.layers import *
from kernelweave.inspection.missing import *
from kernelweave.inspection.paired import *
from kernelweave.inspection.paths import *
from kernelweave.inspection.permutation import *
from kernelweave.inspection.registry import *
from kernelweave.inspection.scores import *
from kernelweave.inspection.sources import *
from kernelweave.inspection.stability import *
from kernelweave.inspection.weights import *

# names stand in the `__all__` of their modules only
__all__ = sorted(
    name for name, value in globals().items() if getattr(value, "__module__", "").startswith(f"{__name__}.")
)
