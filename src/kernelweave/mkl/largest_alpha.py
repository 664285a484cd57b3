"""Where an automatic path of RLS2 begins: the smallest alpha at which a single kernel is optimal."""

from __future__ import annotations

import math
from collections.abc import Callable

#: If one kernel is optimal down to this share of its trace, the range starts at the trace itself.
ALWAYS_ONE = 1e-3
#: Rows above which the largest alpha is searched to 50 % instead of 5 %.
EIGEN_ROWS = 1500


def smallest_single(single: Callable[[float], bool], top: float, n_samples: int) -> float:
    """Search the smallest alpha at which a single kernel is optimal.

    Parameters
    ----------
    single : callable
        Whether it is at an alpha.
    top : float
        Largest trace of a kernel.
    n_samples : int
        Above `EIGEN_ROWS` it is found to 50 %, else to 5 %.
    """
    high = 1e3 * top
    if not single(high):
        return high
    low = high
    while single(low):
        low /= 10.0
        if low < ALWAYS_ONE * top:
            return top
    while high > (1.5 if n_samples > EIGEN_ROWS else 1.05) * low:
        middle = math.sqrt(high * low)
        high, low = (middle, low) if single(middle) else (high, middle)
    return high
