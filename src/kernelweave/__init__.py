"""kernelweave: multiple kernel learning with certificates.

Names are imported on first use, so that ``import kernelweave`` costs little more than NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelweave import banks, datasets, inspection, kernels, learners, normalizers, plots, views
    from kernelweave._checks import InputError, KernelWarning, NotPSDError
    from kernelweave.estimators.base import MKLClassifier, MKLRegressor
    from kernelweave.estimators.cv import MKLClassifierCV, MKLRegressorCV
    from kernelweave.fitting.source import KernelBank
    from kernelweave.gram.repair import repair_gram
    from kernelweave.machines.ball import solve_meb
    from kernelweave.machines.svm import solve_l2svc, solve_svc, solve_svr
    from kernelweave.mkl.criteria.alignment import solve_align, solve_alignf, solve_easy_mkl
    from kernelweave.mkl.criteria.radius import Gaussians
    from kernelweave.mkl.families import KernelFamily
    from kernelweave.mkl.path import rls2_path
    from kernelweave.mkl.radius import solve_radius, solve_rkl
    from kernelweave.mkl.rls2 import solve_rls2
    from kernelweave.mkl.svm_mkl import solve_svm_mkl
    from kernelweave.mkl.weight_sets import CappedSimplex, LpBall, Simplex
    from kernelweave.persistence import load, save
    from kernelweave.results import (
        AlignFResult,
        AlignResult,
        EasyMKLResult,
        MEBResult,
        MKLResult,
        PathResult,
        RadiusResult,
        RLS2Result,
        Status,
        SVMResult,
    )

_MODULES = ("banks", "datasets", "inspection", "kernels", "learners", "normalizers", "plots", "views")
_NAMES = {
    "AlignFResult": "results",
    "AlignResult": "results",
    "CappedSimplex": "mkl.weight_sets",
    "EasyMKLResult": "results",
    "Gaussians": "mkl.criteria.radius",
    "KernelFamily": "mkl.families",
    "InputError": "_checks",
    "KernelBank": "fitting.source",
    "KernelWarning": "_checks",
    "LpBall": "mkl.weight_sets",
    "MEBResult": "results",
    "MKLClassifier": "estimators.base",
    "MKLClassifierCV": "estimators.cv",
    "MKLRegressor": "estimators.base",
    "MKLRegressorCV": "estimators.cv",
    "MKLResult": "results",
    "NotPSDError": "_checks",
    "PathResult": "results",
    "RLS2Result": "results",
    "RadiusResult": "results",
    "SVMResult": "results",
    "Simplex": "mkl.weight_sets",
    "Status": "results",
    "load": "persistence",
    "repair_gram": "gram.repair",
    "rls2_path": "mkl.path",
    "save": "persistence",
    "solve_align": "mkl.criteria.alignment",
    "solve_alignf": "mkl.criteria.alignment",
    "solve_easy_mkl": "mkl.criteria.alignment",
    "solve_l2svc": "machines.svm",
    "solve_meb": "machines.ball",
    "solve_radius": "mkl.radius",
    "solve_rkl": "mkl.radius",
    "solve_rls2": "mkl.rls2",
    "solve_svc": "machines.svm",
    "solve_svm_mkl": "mkl.svm_mkl",
    "solve_svr": "machines.svm",
}

__all__ = [
    "AlignFResult",
    "AlignResult",
    "CappedSimplex",
    "EasyMKLResult",
    "Gaussians",
    "InputError",
    "KernelBank",
    "KernelFamily",
    "KernelWarning",
    "LpBall",
    "MEBResult",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLRegressor",
    "MKLRegressorCV",
    "MKLResult",
    "NotPSDError",
    "PathResult",
    "RLS2Result",
    "RadiusResult",
    "SVMResult",
    "Simplex",
    "Status",
    "banks",
    "datasets",
    "inspection",
    "kernels",
    "learners",
    "load",
    "normalizers",
    "plots",
    "repair_gram",
    "rls2_path",
    "save",
    "solve_align",
    "solve_alignf",
    "solve_easy_mkl",
    "solve_l2svc",
    "solve_meb",
    "solve_radius",
    "solve_rkl",
    "solve_rls2",
    "solve_svc",
    "solve_svm_mkl",
    "solve_svr",
    "views",
]


def __getattr__(name: str) -> Any:
    value: Any
    if name in _MODULES:
        value = import_module(f"kernelweave.{name}")
    elif name in _NAMES:
        value = getattr(import_module(f"kernelweave.{_NAMES[name]}"), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("kernelweave")
    else:
        raise AttributeError(f"module 'kernelweave' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
