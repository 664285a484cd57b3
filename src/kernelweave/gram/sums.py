"""Sums with their rounding errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and what it lacks (D. E. Knuth, The Art of Computer Programming 2, section 4.2.2)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)
