"""Every public function with one argument exchanged for something else, as a table.

``python tests/wrong_arguments.py 6000 --seed 1`` tries that many of them and prints how each ended; the tests run a
part.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import datetime
import re
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import kernelweave as kw
from kernelweave import InputError, banks, inspection, kernels, learners, normalizers, plots

N = 12
SECONDS = 20


@dataclass(frozen=True)
class Call:
    """A function that can be called, with arguments that it takes."""

    name: str
    function: Callable[..., Any]
    good: dict[str, Any]


_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, 3))
LABELS = np.where(X[:, 0] + 0.3 * _rng.normal(size=N) > 0, 1.0, -1.0)
TARGETS = X[:, 0] - 0.5 * X[:, 1]
GRAM = np.stack([X @ X.T, np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))], axis=2)
K = GRAM[..., 1]
ONES = np.ones(N)
KERNELS = [kernels.Linear(), kernels.RBF(gamma=0.5)]


def _solvers() -> list[Call]:
    machine = {
        "K": K,
        "y": LABELS,
        "C": 1.0,
        "sample_weight": ONES,
        "tol": 1e-4,
        "max_iter": 100,
        "start": np.zeros(N),
        "on_indefinite": "raise",
        "check": True,
    }
    ball = {key: value for key, value in machine.items() if key not in ("y", "C")}
    stack = {"gram": GRAM, "y": LABELS, "sample_weight": ONES, "scale": np.ones(2)}
    rls2 = {**stack, "tol": 1e-4, "solver": "newton", "shared_weights": True, "max_iter": 20, "delta": 0.1}
    start = np.array([0.5, 0.5])
    radius = {
        **stack,
        "C": 1.0,
        "norm": 1,
        "loss": "hinge",
        "epsilon": 0.1,
        "ridge": 0.0,
        "tol": 1e-2,
        "solver": "auto",
        "max_iter": 5,
        "start": start,
        "callback": None,
    }
    return [
        Call("solve_svc", kw.solve_svc, machine),
        Call("solve_l2svc", kw.solvers.solve_l2svc, machine),
        Call("solve_klr", kw.solvers.solve_klr, machine),
        Call("solve_svr", kw.solve_svr, {**machine, "y": TARGETS, "epsilon": 0.1}),
        Call("solve_meb", kw.solve_meb, {**ball, "ridge": 0.0}),
        Call(
            "solve_rls2",
            kw.solve_rls2,
            {**rls2, "alpha": 0.5, "start": start, "linear_solver": "auto", "callback": None},
        ),
        Call(
            "solve_rls2 alternating",
            kw.solve_rls2,
            {**rls2, "alpha": 0.5, "solver": "alternating", "linear_solver": "auto"},
        ),
        Call("rls2_path", kw.rls2_path, {**rls2, "alphas": [1.0, 0.1], "callback": None}),
        Call("rls2_path auto", kw.rls2_path, {**rls2, "n_alphas": 3}),
        Call(
            "svm_mkl_path",
            kw.solvers.svm_mkl_path,
            {
                **stack,
                "Cs": [0.1, 1.0],
                "weight_set": "simplex",
                "loss": "hinge",
                "epsilon": 0.1,
                "tol": 1e-3,
                "solver": "auto",
                "max_iter": 20,
                "callback": None,
            },
        ),
        Call(
            "solve_svm_mkl",
            kw.solve_svm_mkl,
            {
                **stack,
                "C": 1.0,
                "weight_set": "simplex",
                "loss": "hinge",
                "epsilon": 0.1,
                "tol": 1e-3,
                "solver": "auto",
                "max_iter": 20,
                "start": None,
                "callback": None,
            },
        ),
        Call("solve_rkl", kw.solve_rkl, {"gram": GRAM, "y": LABELS, "C": 1.0, "norm": 1}),
        *[
            Call(f"solve_radius {kind}", kw.solvers.solve_radius, {**radius, "kind": kind})
            for kind in ("rkl", "do", "kl-c")
        ],
        Call("solve_align", kw.solvers.solve_align, stack),
        Call("solve_alignf", kw.solvers.solve_alignf, {**stack, "tol": 1e-6, "max_iter": 100}),
        Call(
            "solve_easy_mkl",
            kw.solvers.solve_easy_mkl,
            {**stack, "lam": 0.1, "tol": 1e-4, "max_iter": 100, "start": None},
        ),
        Call("repair_gram", kw.solvers.repair_gram, {"gram": GRAM, "how": "clip"}),
        Call("FeatureStack", kw.FeatureStack, {"Z": np.eye(4), "groups": [0, 1, 4]}),
        Call("KernelStream.gaussians", kw.KernelStream.gaussians, {"X": np.eye(4), "gamma": 1.0}),
        Call(
            "KernelStream",
            kw.KernelStream,
            {"kernel": [np.eye(4)] * 3, "n_kernels": 3, "kind": "features", "progress": None},
        ),
        Call("KernelBank", kw.KernelBank, {"stack": GRAM, "names": ["a", "b"], "on_indefinite": "raise"}),
        Call("Gaussians", _family, {"distances": np.square(X.T[:, :, None] - X.T[:, None])}),
        Call("LpBall", _with_set(kw.weight_sets.LpBall), {"p": 2.0}),
        Call("ElasticNet", _with_set(kw.weight_sets.ElasticNet), {"mix": 0.75}),
        Call("CappedSimplex", _with_set(kw.weight_sets.CappedSimplex), {"cap": 0.75}),
    ]


def _rows() -> list[Call]:
    Z, groups = np.c_[X, X[:, :1] ** 2], [0, 2, 4]
    rows = kw.RowFeatures(Z, LABELS, groups=groups)
    folds = kw.rows.block_statistics(Z, TARGETS, groups=groups, folds=2)
    path = kw.rls2_path(folds.total, alphas=[1.0, 0.1], fit_intercept=True)
    reading = {
        "rows": Z,
        "y": LABELS,
        "groups": groups,
        "sample_weight": ONES,
        "features": None,
        "max_memory": None,
        "n_jobs": None,
        "progress": False,
    }
    cut = {"fold_by": "row", "seed": 0}
    return [
        Call("BlockStatistics", kw.BlockStatistics, {"groups": groups, "names": ["a", "b"], "columns": None}),
        Call(
            "FoldStatistics", kw.rows.FoldStatistics, {"n_folds": 3, "groups": groups, "by": "row", "seed": 0}
        ),
        Call(
            "BlockStatistics.add",
            lambda **given: kw.BlockStatistics(groups).add(**given),
            {"Z": Z, "y": TARGETS, "sample_weight": ONES},
        ),
        Call(
            "FoldStatistics.add",
            lambda **given: kw.rows.FoldStatistics(3, groups).add(**given),
            {"Z": Z, "y": TARGETS, "sample_weight": ONES},
        ),
        Call("block_statistics", kw.rows.block_statistics, {**reading, **cut, "folds": 2}),
        Call("RowFeatures", kw.RowFeatures, {**reading, "cache": None}),
        Call("RowFeatures.folds", rows.folds, {"n_folds": 3, "by": "row", "seed": 0}),
        Call(
            "svm_mkl_path_cv",
            kw.rows.svm_mkl_path_cv,
            {
                **cut,
                "rows": rows,
                "Cs": [0.1, 1.0],
                "weight_set": "simplex",
                "loss": "hinge",
                "epsilon": 0.1,
                "scale": np.ones(2),
                "folds": 2,
                "scoring": "auto",
                "rule": "min",
                "tol": 1e-2,
                "max_iter": 20,
                "callback": None,
            },
        ),
        Call("rls2_path_cv", kw.rows.rls2_path_cv, {"folds": folds, "alphas": [1.0, 0.1], "rule": "min"}),
        Call(
            "predict_rows",
            kw.rows.predict_rows,
            {"solution": path, "rows": Z, "features": None, "n_jobs": None, "progress": False},
        ),
    ]


def _family(distances: Any) -> Any:
    return kw.solvers.solve_radius(kw.solvers.Gaussians(distances), LABELS, 1.0, max_iter=2)


def _with_set(weight_set: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **values: kw.solve_svm_mkl(GRAM, LABELS, 1.0, weight_set(**values), tol=1e-3)


def _kernels_and_banks() -> list[Call]:
    def use(kernel: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **values: kernel(**values)(X)

    return [
        Call("RBF", use(kernels.RBF), {"gamma": 0.5}),
        Call("Laplacian", use(kernels.Laplacian), {"gamma": 0.5}),
        Call("Matern", use(kernels.Matern), {"gamma": 0.5, "nu": 2.5}),
        Call("RationalQuadratic", use(kernels.RationalQuadratic), {"gamma": 0.5, "power": 2.0}),
        Call("Periodic", use(kernels.Periodic), {"gamma": 0.5, "period": (1.0, 2.0, 3.0)}),
        Call("Polynomial", use(kernels.Polynomial), {"degree": 2, "coef0": 1.0, "gamma": 1.0}),
        Call("ArcCosine", use(kernels.ArcCosine), {"degree": 1, "layers": 2}),
        Call("Constant", use(kernels.Constant), {"value": 1.0}),
        Call("Scaled", use(kernels.Scaled), {"kernel": KERNELS[0], "factor": 2.0}),
        Call("Sum", use(kernels.Sum), {"terms": tuple(KERNELS)}),
        Call("Product", use(kernels.Product), {"terms": tuple(KERNELS)}),
        Call("On", use(kernels.On), {"kernel": KERNELS[0], "columns": [0, 1], "name": "view"}),
        Call("Custom", use(kernels.Custom), {"function": lambda A, B: A @ B.T, "diag": None, "name": "dot"}),
        Call("Pairwise", use(kernels.Pairwise), {"function": np.dot, "name": "dot", "repair": True}),
        Call("Spectrum", kernels.Spectrum, {"k": 2, "normalize": True}),
        Call("Mismatch", kernels.Mismatch, {"k": 2, "m": 1, "alphabet": "ACGT", "normalize": True}),
        Call("Gapped", kernels.Gapped, {"k": 2, "g": 1, "normalize": True}),
        Call("WeisfeilerLehman", kernels.WeisfeilerLehman, {"iterations": 2, "normalize": True}),
        Call("Elementwise", kernels.Elementwise, {"function": np.exp, "derivative": np.exp, "name": "exp"}),
        Call("Kernel.on", KERNELS[0].on, {"columns": [0], "name": "view"}),
        Call("Kernel()", KERNELS[1], {"X": X, "Z": X[:3]}),
        Call("Kernel.diag", KERNELS[1].diag, {"X": X}),
        Call("Kernel.features", KERNELS[0].features, {"X": X}),
        Call("pairwise_statistic", kernels.pairwise_statistic, {"kind": "sqdist", "A": X, "B": X}),
        Call("parse", kernels.parse, {"text": "RBF(gamma=0.5)"}),
        *[
            Call(f"banks.{name}", getattr(banks, name), {"n_features": 3})
            for name in ("rls2", "simplemkl", "linear_features")
        ],
        Call("banks.get", banks.get, {"name": "rls2", "n_features": 3}),
        Call("banks.views", banks.views, {"columns": {"a": [0], "b": [1, 2]}, "kernels": KERNELS}),
        Call("banks.default", banks.default, {"table": X}),
        Call("as_table", kw.views.as_table, {"X": X}),
        Call("freeze_columns", kw.views.freeze_columns, {"columns": [0, 1]}),
        Call("Table", kw.views.Table, {"values": X, "names": ("a", "b", "c"), "levels": (0, 0, 0)}),
    ]


def _normalizers() -> list[Call]:
    def use(rule: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **values: kw.MKLClassifier(
            KERNELS, learners.RLS2(alpha=1.0), normalize=rule(**values)
        ).fit(X, LABELS)

    return [
        Call("WithinClass", use(normalizers.WithinClass), {"ddof": 0, "floor": 1e-6}),
        Call("MeanDiagonal", use(normalizers.MeanDiagonal), {"extra": X}),
        Call("Trace", use(normalizers.Trace), {"extra": X}),
        Call("normalizers.resolve", normalizers.resolve, {"normalize": "trace"}),
    ]


def _learners() -> list[Call]:
    calls = []
    for name, learner in learners.LEARNERS.items():
        given = learner().get_params(deep=False)
        quick = {"max_iter": 3, "tol": 1e-2, "n_alphas": 2, "n_folds": 2}
        good = {key: quick.get(key, value) for key, value in given.items() if key != "alpha"}
        if name == "rls2":
            good["alpha"] = 1.0

        def fit(learner: type = learner, **values: Any) -> Any:
            return kw.MKLClassifier(KERNELS, learner(**values)).fit(X, LABELS)

        calls.append(Call(name, fit, good))
    calls.append(Call("learners.resolve", learners.resolve, {"learner": "simple"}))
    return calls


def _estimators() -> list[Call]:
    common = {
        "kernels": KERNELS,
        "learner": "rls2",
        "normalize": "trace",
        "standardize": False,
        "fit_intercept": True,
        "max_memory": "auto",
        "rank_tol": 0.0,
        "approximation": "auto",
    }
    path = {"alphas": [1.0, 0.1], "cv": 2, "scoring": None, "rule": "min", "n_jobs": None}

    def fit(estimator: type, y: Any) -> Callable[..., Any]:
        return lambda **values: estimator(**values).fit(X, y)

    classifier, regressor = (
        estimator(KERNELS, learners.RLS2(alpha=1.0)).fit(X, y)
        for estimator, y in ((kw.MKLClassifier, LABELS), (kw.MKLRegressor, TARGETS))
    )
    rows = {"X": X, "y": LABELS, "sample_weight": ONES}
    simple = kw.MKLClassifier(KERNELS, learners.SimpleMKL(tol=1e-2))
    stack = kw.MKLClassifier("precomputed", learners.RLS2(alpha=1.0))
    bank = kw.MKLRegressor(kw.KernelBank(GRAM), learners.RLS2(alpha=1.0))
    return [
        Call(
            "MKLClassifier",
            fit(kw.MKLClassifier, LABELS),
            {**common, "alpha": 1.0, "class_weight": None},
        ),
        Call("MKLClassifier C", fit(kw.MKLClassifier, LABELS), {"learner": "uniform", "C": 1.0}),
        Call("MKLRegressor", fit(kw.MKLRegressor, TARGETS), {**common, "alpha": 1.0}),
        Call("MKLClassifierCV", fit(kw.MKLClassifierCV, LABELS), {**common, **path, "class_weight": None}),
        Call("MKLRegressorCV", fit(kw.MKLRegressorCV, TARGETS), {**common, **path}),
        Call(
            "MKLClassifierCV Cs",
            fit(kw.MKLClassifierCV, LABELS),
            {"kernels": KERNELS, "learner": learners.Uniform(), "Cs": [1.0, 10.0], "cv": 2},
        ),
        Call(
            "MKLRegressorCV auto",
            fit(kw.MKLRegressorCV, TARGETS),
            {"kernels": KERNELS, "n_alphas": 2, "cv": 2},
        ),
        Call("MKLClassifier.fit", simple.fit, rows),
        Call("MKLRegressor.fit", copy.copy(regressor).fit, {**rows, "y": TARGETS}),
        Call("precomputed.fit", stack.fit, {**rows, "X": GRAM}),
        Call("KernelBank.fit", bank.fit, {**rows, "X": np.arange(N)[:, None]}),
        Call("predict", classifier.predict, {"X": X}),
        Call("predict std", regressor.predict, {"X": X, "return_std": True}),
        Call("decision_function", classifier.decision_function, {"X": X}),
        Call("kernel_contributions", classifier.kernel_contributions, {"X": X}),
        Call("calibrate", classifier.calibrate, {"method": "platt", "cv": 2, "groups": None}),
    ]


def _constructors() -> list[Call]:
    def draw(display: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **values: display(**values).plot()

    bars = {"names": ["a", "b"], "values": np.array([0.7, 0.3]), "outputs": ("",)}
    layers = {"names": [["a", "b"], ["c"]], "weights": [np.array([0.7, 0.3]), np.ones(1)], "outputs": ("",)}
    line = np.array([4.0, 2.0, 1.0])
    path = {
        "alphas": line,
        "df": line,
        "values": np.ones((3, 2)),
        "names": ["a", "b"],
        "chosen": 1,
        "ylabel": "w",
    }
    descent = {
        "criterion": line,
        "names": [["a", "b"], ["c"]],
        "weights": [np.ones((3, 2)), np.ones((3, 1))],
        "validation": line,
        "validation_error": line,
        "kept": 1,
        "error_label": "error",
    }
    spectra = {
        "before": [line, line],
        "after": [line, line],
        "rank_before": np.ones(2),
        "rank_after": np.ones(2),
    }
    return [
        Call("KernelWeightsDisplay()", draw(plots.KernelWeightsDisplay), bars),
        Call("KernelContributionsDisplay()", draw(plots.KernelContributionsDisplay), bars),
        Call("LayerWeightsDisplay()", draw(plots.LayerWeightsDisplay), layers),
        Call("RegularizationPathDisplay()", draw(plots.RegularizationPathDisplay), path),
        Call(
            "CVCurveDisplay()",
            draw(plots.CVCurveDisplay),
            {"alphas": line, "mean": line, "error": line, "chosen": 1, "ylabel": "score"},
        ),
        Call(
            "SelectionCriteriaDisplay()",
            draw(plots.SelectionCriteriaDisplay),
            {"alphas": line, "criteria": {"gcv": line, "cp": line}, "chosen": None},
        ),
        Call("DescentDisplay()", draw(plots.DescentDisplay), descent),
        Call(
            "KernelMatricesDisplay()",
            draw(plots.KernelMatricesDisplay),
            {"before": [K, K], "after": [K, K], "target": LABELS, "classes": True},
        ),
        Call("LayerSpectraDisplay()", draw(plots.LayerSpectraDisplay), spectra),
    ]


def _files() -> list[Call]:
    model = kw.MKLRegressor(KERNELS, learners.RLS2(alpha=1.0)).fit(X, TARGETS)

    def save(**values: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            return kw.save(**values)

    def load(path: Any, functions: Any = None) -> Any:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            kw.save(model, "model")
            return kw.load(path, functions=functions)

    return [
        Call("save", save, {"model": model, "path": "model"}),
        Call("load", load, {"path": "model", "functions": {}}),
    ]


def _evidence(model: Any) -> list[Call]:
    fitting = {"estimator": model, "X": X, "y": LABELS, "n_jobs": 1, "random_state": 0, "report": None}
    rows = {"y_true": LABELS, "first": LABELS, "second": -LABELS, "level": 0.95}
    folds = {"first": [0.5, 0.6], "second": [0.4, 0.6], "test_share": 0.5, "level": 0.95}
    return [
        Call("share_interval", inspection.share_interval, {"hits": 3, "n": 4, "level": 0.9}),
        Call(
            "score_intervals",
            inspection.score_intervals,
            {"y_true": LABELS, "y_pred": -LABELS, "classes": [-1, 1], "random_state": 1},
        ),
        Call("compare_classes", inspection.compare_classes, rows),
        Call("compare_numbers", inspection.compare_numbers, {**rows, "random_state": 0}),
        Call("compare_folds", inspection.compare_folds, folds),
        Call("adjust_p_values", inspection.adjust_p_values, {"p_values": [0.1, 0.2]}),
        Call("permutation_test", inspection.permutation_test, {**fitting, "n_permutations": 2, "cv": 2}),
        Call(
            "source_test",
            inspection.source_test,
            {"estimator": model, "X": X, "y": LABELS, "n_permutations": 2, "random_state": 0},
        ),
        Call(
            "source_refit_test",
            inspection.source_refit_test,
            {
                "estimator": kw.MKLClassifier(banks.linear_features(3), learners.RLS2(alpha=1.0)).fit(
                    X, LABELS
                ),
                "X": X,
                "y": LABELS,
                "sources": ["x0"],
                "cv": 2,
                "choose_again": True,
                "level": 0.9,
            },
        ),
        Call(
            "weight_stability",
            inspection.weight_stability,
            {**fitting, "n_samples": 2, "max_false": 1.0, "level": 0.9},
        ),
        Call("out_of_fold_scores", inspection.out_of_fold_scores, {**fitting, "cv": 2}),
        Call("learning_curve", inspection.learning_curve, {**fitting, "sizes": [0.9], "cv": 2}),
        Call(
            "calibration",
            inspection.calibration,
            {"is_class": (LABELS > 0) * 1.0, "probability": np.full(N, 0.5), "n_bins": 2},
        ),
    ]


def _pictures() -> list[Call]:
    model = kw.MKLClassifier(KERNELS, learners.RLS2(alpha=1.0)).fit(X, LABELS)
    path = kw.MKLClassifierCV(KERNELS, alphas=[1.0, 0.1], cv=2).fit(X, LABELS)
    deep = kw.MKLClassifier(KERNELS, learners.MLMKL(tol=0.5), normalize="cosine").fit(X, LABELS)
    layer = {"estimator": deep, "output": None, "weights": "learnt", "max_rows": 10, "random_state": 0}
    return [
        *_constructors(),
        Call("kernel_weights", inspection.kernel_weights, {"estimator": model, "nonzero": True}),
        Call(
            "findings", inspection.findings, {"estimator": model, "y": None, "names": [], "random_state": 0}
        ),
        Call("view_weights", inspection.view_weights, {"estimator": model}),
        Call("contribution_sizes", inspection.contribution_sizes, {"estimator": model, "X": X}),
        *_evidence(model),
        Call("layer_weights", inspection.layer_weights, {"estimator": deep, "output": None}),
        Call("descent", inspection.descent, {"estimator": deep, "output": None}),
        Call("layer_grams", inspection.layer_grams, layer),
        Call("layer_spectra", inspection.layer_spectra, {**layer, "center": True}),
        Call(
            "regularization_path",
            inspection.regularization_path,
            {"estimator": model, "alphas": [1.0], "n_alphas": 2, "output": None},
        ),
        Call(
            "KernelWeightsDisplay", plots.KernelWeightsDisplay.from_estimator, {"estimator": model, "most": 3}
        ),
        Call("CVCurveDisplay", plots.CVCurveDisplay.from_estimator, {"estimator": path, "name": "curve"}),
        Call(
            "RegularizationPathDisplay",
            plots.RegularizationPathDisplay.from_estimator,
            {
                "estimator": model,
                "what": "weights",
                "alphas": [1.0, 0.1],
                "output": None,
                "x": "alpha",
                "most": 3,
            },
        ),
        Call(
            "KernelContributionsDisplay",
            plots.KernelContributionsDisplay.from_estimator,
            {"estimator": model, "X": X},
        ),
        Call("LayerWeightsDisplay", plots.LayerWeightsDisplay.from_estimator, {"estimator": deep}),
        Call("DescentDisplay", plots.DescentDisplay.from_estimator, {"estimator": deep, "output": None}),
        Call(
            "LayerSpectraDisplay",
            plots.LayerSpectraDisplay.from_estimator,
            {"estimator": deep, "output": None},
        ),
        Call(
            "KernelMatricesDisplay",
            plots.KernelMatricesDisplay.from_estimator,
            {"estimator": deep, "output": None},
        ),
    ]


def _data() -> list[Call]:
    return [
        Call(
            "datasets.load",
            kw.datasets.load,
            {"name": "wdbc", "protocol": None, "missing": "drop", "download": False},
        ),
        Call("datasets.names", kw.datasets.names, {"protocol": None}),
        Call("datasets.info", kw.datasets.info, {"name": "heart"}),
        Call("datasets.is_here", kw.datasets.is_here, {"name": "heart"}),
    ]


def calls() -> list[Call]:
    """The table."""
    return [
        *_solvers(),
        *_rows(),
        *_kernels_and_banks(),
        *_normalizers(),
        *_learners(),
        *_estimators(),
        *_pictures(),
        *_data(),
        *_files(),
    ]


#: What nobody means, by a name for people.
WRONG: dict[str, Any] = {
    "None": None,
    "NaN": np.nan,
    "inf": np.inf,
    "-inf": -np.inf,
    "-1": -1,
    "-2.5": -2.5,
    "0": 0,
    "2.5": 2.5,
    "10**400": 10**400,
    "-10**30": -(10**30),
    "1e308": 1e308,
    "1e-320": 1e-320,
    "True": True,
    "text": "abc",
    "empty text": "",
    "number as text": "1.0",
    "bytes": b"abc",
    "empty list": [],
    "ragged": [[1.0, 2.0], [3.0]],
    "words": ["a", "b"],
    "Nones": [None, None],
    "object": object(),
    "empty dict": {},
    "dict": {"a": 1},
    "set": {1},
    "complex": 1 + 2j,
    "array of NaN": np.full(N, np.nan),
    "seven ones": np.ones(7),
    "3D": np.ones((2, 3, 4)),
    "matrix": np.ones((2, 2)),
    "complex array": np.ones(N) * 1j,
    "0D": np.array(1.0),
    "no rows": np.empty((0, 3)),
    "type": list,
    "function": len,
    "date": datetime.date(2020, 1, 1),
    "dates": np.arange(N).astype("datetime64[D]"),
    "records": np.zeros(N, dtype=[("a", float)]),
    "generator": range(0),
    "huge ints": [10**400] * N,
    "ellipsis": ...,
}


def exchanged(value: Any) -> dict[str, Any]:
    """An array with what may be wrong with it."""
    if not isinstance(value, np.ndarray) or value.size == 0:
        return {}
    one = {"NaN inside": np.nan, "inf inside": np.inf, "-1e308 inside": -1e308}
    out: dict[str, Any] = {}
    for name, bad in one.items():
        out[name] = value.astype(float)
        out[name].flat[1] = bad
    out["None inside"] = value.astype(object)
    out["None inside"].flat[1] = None
    out["text inside"] = value.astype(object)
    out["text inside"].flat[1] = "abc"
    return out | {
        "times 1e300": value * 1e300,
        "times 1e-320": value * 1e-320,
        "negative": -np.abs(value),
        "a row less": value[:-1],
        "as text": value.astype(str),
        "as complex": value.astype(complex),
        "as objects": value.astype(object),
        "as bool": value.astype(bool),
        "as int8": value.astype(np.int8),
        "one dimension more": value[..., None],
        "as float16": value.astype(np.float16),
        "zeros": value * 0.0,
        "flat": value.ravel()[: value.size - 1],
        "twice": np.concatenate([value, value]),
    }


def variations() -> Iterator[tuple[Call, str, str, Any]]:
    """Every call with every argument exchanged: call, parameter, what came, and its value."""
    for call in calls():
        for parameter, value in call.good.items():
            for what, wrong in {**WRONG, **exchanged(value)}.items():
                if callable(wrong) and parameter in FUNCTIONS:
                    continue  # what escapes from a function of the caller is the caller's
                yield call, parameter, what, wrong


#: Parameters that are functions of the caller.
FUNCTIONS = ("callback", "scoring", "function", "derivative", "diag", "features", "progress")

#: Words by which messages call what is given as rows, kernels or labels.
ALIASES = {
    "X": r"X|[Tt]able|[Cc]olumns?|[Rr]ows?|[Gg]ram|[Kk]ernels?|2D|sample|[Dd]ata ?frame|text|features?",
    "Z": r"Z|X|[Tt]able|[Cc]olumns?|[Rr]ows?|text|2D|sample",
    "kernel": r"kernels?",
    "sample_weight": r"sample_weight|[Ss]ample weights",
    "alphas": r"alphas?",
    "Cs": r"Cs",
    "A": r"[Rr]ows?|X",
    "B": r"[Rr]ows?|X",
    "table": r"X|[Cc]olumns?|[Rr]ows?|2D",
    "extra": r"X|[Cc]olumns?|[Rr]ows?|[Tt]able|features?|2D|sample",
    "y": r"y|[Cc]lass(es)?|label type",
    "gram": r"gram|[Kk]ernels?",
    "stack": r"gram|[Kk]ernels?|stack",
    "estimator": r"estimator|fit|fitted",
    "columns": r"[Cc]olumns?",
    "terms": r"terms?|kernels?",
    "path": r"path|file|folder",
    "rows": r"rows?|y|[Ff]iles?|folder|target|[Cc]olumns?",
    "kind": r"kind|pairwise statistic",
    "cv": r"cv|fold|splits?",
    "description": r"description|kernel",
    "text": r"text|kernel",
    "name": r"name|label|data set|bank",
    "missing": r"missing",
    "class_weight": r"class_weight|class",
    "normalize": r"normalize|normalizer",
    "rule": r"rule",
    "scoring": r"scoring",
    "names": r"names?",
    "levels": r"levels?|columns?",
    "values": r"values?|2D|columns?|table",
}


def names_it(message: str, parameter: str) -> bool:
    """Whether a message tells which argument is meant."""
    return re.search(rf"(?<!\w)({ALIASES.get(parameter, re.escape(parameter))})(?!\w)", message) is not None


class _Slow(BaseException):
    """A call that does not come back."""


def outcome(call: Call, parameter: str, wrong: Any) -> tuple[str, str]:
    """How a call ends: "accepted", "refused", "not named", "hangs", or the name of what escaped; and its words."""

    def stop(*_: Any) -> None:
        raise _Slow

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    # the table is not worn by calls that keep what they are given
    values = {key: value if callable(value) else copy.deepcopy(value) for key, value in call.good.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            call.function(**{**values, parameter: wrong})
    except (InputError, NotFittedError, FileNotFoundError) as error:
        return ("refused" if names_it(str(error), parameter) else "not named"), str(error)
    except _Slow:
        return "hangs", ""
    except (Exception, SystemExit) as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return type(error).__name__, f"{error} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return "accepted", ""


def chosen(count: int, seed: int) -> list[tuple[Call, str, str, Any]]:
    """Some of all variations, each once."""
    everything = list(variations())
    order = np.random.default_rng(seed).permutation(len(everything))[:count]
    return [everything[i] for i in order]


def main() -> None:
    """Try some and say how they ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--accepted", action="store_true", help="list what was accepted, too")
    given = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    for call, parameter, what, wrong in chosen(given.count, given.seed):
        how, words = outcome(call, parameter, wrong)
        counts[how] += 1
        if how not in ("accepted", "refused") or (how == "accepted" and given.accepted):
            print(f"{how:20} {call.name}({parameter}={what}): {words:.160}")
            sys.stdout.flush()
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
    print(dict(counts.most_common()))


if __name__ == "__main__":
    main()
