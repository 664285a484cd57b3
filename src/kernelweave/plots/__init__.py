"""Pictures of fitted estimators: display classes as in scikit-learn; matplotlib is imported when drawing."""

from kernelweave.plots.layers import *
from kernelweave.plots.path import *
from kernelweave.plots.survival import *
from kernelweave.plots.weights import *

# names stand in the `__all__` of their modules only
__all__ = sorted(
    name for name, value in globals().items() if getattr(value, "__module__", "").startswith(f"{__name__}.")
)
