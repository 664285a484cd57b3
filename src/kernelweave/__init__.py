"""kernelweave: multiple kernel learning with certificates.

Names are imported on first use, so that ``import kernelweave`` costs little more than NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelweave import banks, datasets, inspection, kernels, learners, normalizers, plots, views
    from kernelweave._checks import InputError, KernelWarning, NotPSDError
    from kernelweave.assembly import KernelBank
    from kernelweave.estimators import MKLClassifier, MKLRegressor
    from kernelweave.gram.repair import repair_gram
    from kernelweave.model_selection import MKLClassifierCV, MKLRegressorCV
    from kernelweave.persistence import load, save
    from kernelweave.solvers.alignment import solve_align, solve_alignf, solve_easy_mkl
    from kernelweave.solvers.families import KernelFamily
    from kernelweave.solvers.meb import solve_meb
    from kernelweave.solvers.path import rls2_path
    from kernelweave.solvers.radius import solve_radius, solve_rkl
    from kernelweave.solvers.radius_criteria import Gaussians
    from kernelweave.solvers.result import (
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
    from kernelweave.solvers.rls2 import solve_rls2
    from kernelweave.solvers.svm import solve_l2svc, solve_svc, solve_svr
    from kernelweave.solvers.svm_mkl import solve_svm_mkl
    from kernelweave.solvers.weight_sets import CappedSimplex, LpBall, Simplex

_MODULES = ("banks", "datasets", "inspection", "kernels", "learners", "normalizers", "plots", "views")
_NAMES = {
    "AlignFResult": "solvers.result",
    "AlignResult": "solvers.result",
    "CappedSimplex": "solvers.weight_sets",
    "EasyMKLResult": "solvers.result",
    "Gaussians": "solvers.radius_criteria",
    "KernelFamily": "solvers.families",
    "InputError": "_checks",
    "KernelBank": "assembly",
    "KernelWarning": "_checks",
    "LpBall": "solvers.weight_sets",
    "MEBResult": "solvers.result",
    "MKLClassifier": "estimators",
    "MKLClassifierCV": "model_selection",
    "MKLRegressor": "estimators",
    "MKLRegressorCV": "model_selection",
    "MKLResult": "solvers.result",
    "NotPSDError": "_checks",
    "PathResult": "solvers.result",
    "RLS2Result": "solvers.result",
    "RadiusResult": "solvers.result",
    "SVMResult": "solvers.result",
    "Simplex": "solvers.weight_sets",
    "Status": "solvers.result",
    "load": "persistence",
    "repair_gram": "gram.repair",
    "rls2_path": "solvers.path",
    "save": "persistence",
    "solve_align": "solvers.alignment",
    "solve_alignf": "solvers.alignment",
    "solve_easy_mkl": "solvers.alignment",
    "solve_l2svc": "solvers.svm",
    "solve_meb": "solvers.meb",
    "solve_radius": "solvers.radius",
    "solve_rkl": "solvers.radius",
    "solve_rls2": "solvers.rls2",
    "solve_svc": "solvers.svm",
    "solve_svm_mkl": "solvers.svm_mkl",
    "solve_svr": "solvers.svm",
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
