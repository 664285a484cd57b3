"""What solvers return: a `Solution` with its `Certificate`, or a `Path` of them along regularisation parameters.

All are frozen values. Some methods have further results and return a subclass.
"""

from __future__ import annotations

from kernelweave.results.certificate import REACHED, Certificate, Status, relative_gap
from kernelweave.results.path import Path
from kernelweave.results.solution import (
    AlignmentSolution,
    Ball,
    MachineSolution,
    RadiusSolution,
    RelaxedSolution,
    Solution,
    Statement,
    Verifier,
    WarmStart,
)

__all__ = [
    "REACHED",
    "AlignmentSolution",
    "Ball",
    "Certificate",
    "MachineSolution",
    "Path",
    "RadiusSolution",
    "RelaxedSolution",
    "Solution",
    "Statement",
    "Status",
    "Verifier",
    "WarmStart",
    "relative_gap",
]
