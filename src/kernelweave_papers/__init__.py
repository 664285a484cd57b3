"""The experiments of the papers, on one small runner.

An experiment is a grid of cells, a function that computes one cell, and tables and figures of the results. Its name
here is the name for ``kernelweave reproduce``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kernelweave._errors import check_known

if TYPE_CHECKING:
    from kernelweave_papers.base import Experiment

#: name -> (module, class)
EXPERIMENTS = {
    "rls2-strings": ("rls2_strings", "Strings"),
    "rls2-prostate": ("rls2_prostate", "Prostate"),
    "rls2-uci": ("rls2_uci", "UCI"),
    "rls2-microarray": ("rls2_microarray", "Microarray"),
    "rls2-nci60": ("rls2_nci60", "NCI60"),
    "rls2-relax": ("rls2_relax", "Relax"),
    "rls2-second-layer": ("rls2_second_layer", "SecondLayers"),
    "rkl": ("rkl", "RKLTable"),
    "rkl-convergence": ("rkl_convergence", "RKLConvergence"),
    "rkl-scales": ("rkl_scales", "Scales"),
    "rkl-klc": ("rkl_klc", "KLC"),
    "mlmkl": ("mlmkl", "MLMKLTables"),
    "mlmkl-posterior": ("mlmkl_posterior", "Posterior"),
    "cardinality": ("cardinality", "Cardinality"),
    "sizes": ("sizes", "Sizes"),
}


def get(name: str) -> Experiment:
    """Return an experiment by its name; unknown names list the known ones."""
    module, cls = EXPERIMENTS[check_known(name, EXPERIMENTS, "experiment")]
    return getattr(import_module(f"kernelweave_papers.{module}"), cls)()
