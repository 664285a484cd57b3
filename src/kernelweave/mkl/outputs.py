"""Solutions of several outputs, and of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kernelweave.results import Certificate, Solution

Array = NDArray[np.float64]


def _first(coef: Array) -> Array:
    return np.ascontiguousarray(coef[:, 0]) if coef.ndim == 2 else coef


def squeeze(result: Solution) -> Solution:
    """The result of a single output, with coefficients in one dimension."""
    return replace(
        result, dual_coef=_first(result.dual_coef), feature_coef=_first(np.asarray(result.feature_coef))
    )


def join_outputs(parts: Sequence[Solution]) -> Solution:
    """One result from one solution per output; certificates add up."""
    return Solution(
        weights=np.stack([part.weights for part in parts]),
        dual_coef=np.hstack([part.dual_coef for part in parts]),
        intercept=0.0,
        certificate=Certificate.total([part.certificate for part in parts]),
        n_iter=sum(part.n_iter for part in parts),
        alpha=parts[0].alpha,
        feature_coef=np.hstack([part.feature_coef for part in parts]),
    )
