"""Learners: how kernel weights are found. Each is a named choice of criterion, weight set and step.

A learner is a configuration with `get_params` and `set_params`, so that ``learner__C`` can be searched. To add one,
write its class and add a row to `LEARNERS`.
"""

from __future__ import annotations

import warnings
from typing import Any

from kernelweave._checks import InputError, check_known
from kernelweave.learners.alignment import Align, AlignF, EasyMKL
from kernelweave.learners.base import Learner
from kernelweave.learners.cardinality import CardinalityMKL
from kernelweave.learners.deep import DMKL, MLMKL, DeepUniform, TwoLayerMKL
from kernelweave.learners.margin import (
    SILP,
    BestKernel,
    ElasticNetMKL,
    LpMKL,
    SimpleMKL,
    SoftMarginMKL,
    Uniform,
)
from kernelweave.learners.radius import RKL, ARDGaussian, ChapelleRadius, DoRadius
from kernelweave.learners.rls2 import RLS2

__all__ = [
    "DMKL",
    "LEARNERS",
    "MLMKL",
    "RKL",
    "RLS2",
    "SILP",
    "ARDGaussian",
    "Align",
    "AlignF",
    "BestKernel",
    "CardinalityMKL",
    "ChapelleRadius",
    "DeepUniform",
    "DoRadius",
    "EasyMKL",
    "ElasticNetMKL",
    "Learner",
    "LpMKL",
    "SimpleMKL",
    "SoftMarginMKL",
    "TwoLayerMKL",
    "Uniform",
    "resolve",
]

#: Short names accepted by ``learner=``.
LEARNERS: dict[str, type[Learner]] = {
    "rls2": RLS2,
    "simple": SimpleMKL,
    "silp": SILP,
    "lp": LpMKL,
    "elastic-net": ElasticNetMKL,
    "soft-margin": SoftMarginMKL,
    "cardinality": CardinalityMKL,
    "uniform": Uniform,
    "best": BestKernel,
    "align": Align,
    "alignf": AlignF,
    "easy": EasyMKL,
    "rkl": RKL,
    "kl-c": ChapelleRadius,
    "do": DoRadius,
    "gaussian": ARDGaussian,
    "mlmkl": MLMKL,
    "2lmkl": TwoLayerMKL,
    "dmkl": DMKL,
    "deep-uniform": DeepUniform,
}


def __getattr__(name: str) -> Any:
    """The former name of a learner."""
    if name == "GaussianWidths":
        warnings.warn(
            "`GaussianWidths` is now `ARDGaussian`; the old name goes with the next version.",
            FutureWarning,
            stacklevel=2,
        )
        return ARDGaussian
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def resolve(learner: str | Learner) -> Learner:
    """Turn a short name or an object into a learner; unknown names list the known ones."""
    if isinstance(learner, Learner):
        chosen = learner
    elif isinstance(learner, str):
        chosen = LEARNERS[check_known(learner, LEARNERS, "learner")]()
    else:
        raise InputError(
            f"`learner` must be a name ({', '.join(map(repr, LEARNERS))}) or a learner, got {learner!r}."
        )
    chosen.check()
    return chosen
