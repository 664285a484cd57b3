"""Learners: how kernel weights are found. Each is a named choice of criterion, weight set and step.

A learner is a class of parameters with `get_params` and `set_params`, so that ``learner__C`` can be searched. To add
one, write its class in a file of this folder, or in your own program: with a `name` it is known to ``learner=``. Where
a package names the module in the entry-point group `kernelweave.extensions`, command line, studio and other processes
know it too.
"""

# ruff: noqa: I001 (in the order in which forms and messages list them)

from __future__ import annotations

import importlib
import pkgutil

from kernelweave._checks import InputError, check_known
from kernelweave._extensions import load_extensions
from kernelweave.learners.base import LEARNERS, Learner
from kernelweave.learners.rls2 import RLS2
from kernelweave.learners.metric import MetricRLS2
from kernelweave.learners.second_layer import NonlinearRLS2
from kernelweave.learners.margin import (
    BestKernel,
    ElasticNetMKL,
    LpMKL,
    SILP,
    SimpleMKL,
    SoftMarginMKL,
    Uniform,
)
from kernelweave.learners.cardinality import CardinalityMKL
from kernelweave.learners.alignment import Align, AlignF, EasyMKL
from kernelweave.learners.radius import ARDGaussian, ChapelleRadius, DoRadius, ParametricKernel, RKL
from kernelweave.learners.deep import DMKL, DeepUniform, MLMKL, TwoLayerMKL

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
    "MetricRLS2",
    "NonlinearRLS2",
    "ParametricKernel",
    "SimpleMKL",
    "SoftMarginMKL",
    "TwoLayerMKL",
    "Uniform",
    "resolve",
]

# learners in other files of this folder need no line above
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
for _learner in LEARNERS.values():
    if _learner.__name__ not in __all__:
        globals()[_learner.__name__] = _learner
        __all__ += [_learner.__name__]


def __getattr__(name: str) -> type[Learner]:
    """Learners of extensions by the names of their classes."""
    if not name.startswith("_"):
        load_extensions()
        for learner in LEARNERS.values():
            if learner.__name__ == name:
                return learner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def resolve(learner: str | Learner) -> Learner:
    """Turn a short name or an object into a learner.

    Parameters
    ----------
    learner : str or Learner
        What estimators take as `learner`. A name gives the learner with its defaults; an unknown one is an error that
        lists the known ones.

    Returns
    -------
    Learner
    """
    if isinstance(learner, Learner):
        chosen = learner
    elif isinstance(learner, str):
        if learner not in LEARNERS:
            load_extensions()
        chosen = LEARNERS[check_known(learner, LEARNERS, "learner")]()
    else:
        raise InputError(
            f"`learner` must be a name ({', '.join(map(repr, LEARNERS))}) or a learner, got {learner!r}."
        )
    chosen.check()
    return chosen
