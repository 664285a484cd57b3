"""Write generated/api.rst, the list of public names, from the package itself.

To extend it: give a new name of ``kernelweave.__all__`` a place in `SECTIONS`. A public name without a place, and a
place without a name, are warnings, hence errors of `make docs`. Modules are listed by their own ``__all__``.
"""

import importlib
import re
import types
from operator import attrgetter
from pathlib import Path

import numpy as np
from sphinx.application import Sphinx
from sphinx.util import logging

import kernelweave

FOREIGN_REFERENCE = re.compile(r":(?:ref|term|doc):`(?:([^`<]*?)\s*<[^`>]*>|([^`]*))`")

#: Modules whose names stand one by one in `SECTIONS`, as ``rows.predict_rows`` where they have no shorter name.
LISTED = ("solvers", "rows")

logger = logging.getLogger(__name__)

#: Heading, introduction, and names of ``kernelweave``.
SECTIONS = [
    (
        "Estimators",
        "scikit-learn's contract in full. The CV variants choose the regularisation parameter on a path.",
        ["MKLRegressor", "MKLClassifier", "MKLSurvival", "MKLRegressorCV", "MKLClassifierCV"],
    ),
    ("Kernels", "Immutable kernel objects, which can be added, multiplied and transformed.", ["kernels"]),
    ("Banks", "Lists of kernels, those of the papers and a default.", ["banks"]),
    (
        "Views",
        "Columns of tables, by name, and several tables of the same rows.",
        ["views", "Views", "precomputed", "SelectViews"],
    ),
    ("Normalisers", "Scaling of the base kernels.", ["normalizers"]),
    ("Learners", "Methods for the kernel weights: the values of `learner=`.", ["learners"]),
    (
        "Functions of arrays",
        "Functions of precomputed Gram matrices: stacks of shape (n, n, n_kernels), kernels last.",
        [
            "solve_rls2",
            "rls2_path",
            "FeatureStack",
            "KernelStream",
            "solvers.Status",
            "KernelBank",
            "solvers.repair_gram",
        ],
    ),
    (
        "Rows beyond memory",
        "Sums over any number of rows, read in chunks, and what follows from them.",
        [
            "rows.block_statistics",
            "BlockStatistics",
            "rows.FoldStatistics",
            "rows.rls2_path_cv",
            "RowFeatures",
            "rows.svm_mkl_path_cv",
            "rows.predict_rows",
        ],
    ),
    (
        "Machines on one kernel",
        "Support vector machines, logistic regression and the minimum enclosing ball of one Gram matrix, shape (n, n).",
        ["solve_svc", "solve_svr", "solvers.solve_l2svc", "solvers.solve_klr", "solve_meb"],
    ),
    (
        "One problem",
        "Kernels in any form, a loss and a set of weights; `solve` chooses how, and `certify` how good an answer is. "
        "The functions below are calls of it.",
        ["Problem", "solve"],
    ),
    (
        "Losses",
        "The losses of problems and learners; one of your own is a subclass of `Loss` with three formulas.",
        ["losses"],
    ),
    (
        "Margin multiple kernel learning",
        "Kernel weights with a support vector machine, over convex sets of weights or by margin and radius.",
        [
            "solve_svm_mkl",
            "solvers.svm_mkl_path",
            "solvers.solve_cardinality_mkl",
            "solve_rkl",
            "solvers.solve_radius",
            "solvers.Gaussians",
            "solvers.KernelFamily",
        ],
    ),
    (
        "Sets of weights",
        "The convex sets of kernel weights of `solve_svm_mkl` and its learners.",
        ["weight_sets"],
    ),
    (
        "Weights before the machine",
        "Kernel weights from centred alignment with the targets, or from the margin that each kernel gives (EasyMKL).",
        [
            "solvers.solve_align",
            "solvers.solve_alignf",
            "solvers.solve_easy_mkl",
        ],
    ),
    (
        "Results",
        "What these functions return: a frozen solution with its certificate, or a path of them.",
        ["results"],
    ),
    (
        "Problems",
        "What the functions of arrays minimise, as values with which `Solution.verify` computes a certificate again.",
        ["problems"],
    ),
    ("Inspection", "Numerical summaries of a fitted model, without figures.", ["inspection"]),
    ("Pictures", "Drawn with matplotlib.", ["plots"]),
    ("Saving and loading", "", ["save", "load", "to_onnx"]),
    ("Data", "The data sets of the papers, in one documented encoding.", ["datasets"]),
    ("Errors and warnings", "", ["InputError", "NotPSDError", "KernelWarning"]),
]


def summary(names: list[str]) -> list[str]:
    return [
        ".. autosummary::",
        "   :toctree:",
        "   :nosignatures:",
        "",
        *(f"   {name}" for name in names),
        "",
    ]


def documented(module: types.ModuleType) -> list[str]:
    """Return the functions and classes of a module that are not public names of the package itself.

    Constants are described by the module's own docstring.
    """
    places = {name.split(".")[-1]: name for _, _, names in SECTIONS for name in names}
    own = [
        name
        for name in module.__all__
        if name not in places or getattr(module, name) is not attrgetter(places[name])(kernelweave)
    ]
    return [f"{module.__name__}.{name}" for name in own if callable(getattr(module, name))]


def public(name: str) -> object:
    """A name of the package, or its module of that name."""
    found = getattr(kernelweave, name, None)
    return importlib.import_module(f"kernelweave.{name}") if found is None else found


def lines() -> list[str]:
    out = [
        "API",
        "===",
        "",
        "All names below are available as ``kw.<name>`` after ``import kernelweave as kw``.",
        "",
    ]
    placed = set()
    for title, text, names in SECTIONS:
        found: list[str] = []
        for name in names:
            placed.add(name)
            try:
                value = attrgetter(name)(kernelweave) if "." in name else public(name)
            except ImportError as error:
                logger.warning("api_page: kernelweave.%s cannot be imported: %s", name, error)
                continue
            found += documented(value) if isinstance(value, types.ModuleType) else [f"kernelweave.{name}"]
        if found:
            out += [title, "-" * len(title), "", text, "", *summary(found)]
    # of `solvers` and `rows` every name has a place of its own
    modules = [f"{module}.{name}" for module in LISTED for name in getattr(kernelweave, module).__all__]
    unknown = {
        name for name in modules if name.partition(".")[2] not in {one.split(".")[-1] for one in placed}
    }
    for name in sorted({*kernelweave.__all__, *unknown} - placed - {*LISTED}):
        logger.warning("api_page: kernelweave.%s has no place in SECTIONS of docs/_ext/api_page.py", name)
    return out


def write(app: Sphinx, config: object) -> None:
    path = Path(app.srcdir) / "generated" / "api.rst"
    path.parent.mkdir(exist_ok=True)
    text = "\n".join(lines())
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def flatten_references(app, what, name, obj, options, lines) -> None:
    """Turn references of docstrings inherited from scikit-learn into text: their targets are in its documentation."""
    if not (getattr(obj, "__module__", None) or "").startswith("kernelweave"):
        lines[:] = [FOREIGN_REFERENCE.sub(lambda m: m[1] or m[2], line) for line in lines]


def skip_ufuncs(app, what, name, obj, skip, options) -> bool | None:
    """Leave out class attributes that are NumPy functions: their signatures cannot be read, and they are not ours."""
    return True if isinstance(obj, np.ufunc) else None


def setup(app: Sphinx) -> dict:
    app.connect("config-inited", write)  # before Sphinx lists the source files
    app.connect("autodoc-skip-member", skip_ufuncs)
    app.connect("autodoc-process-docstring", flatten_references)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
