"""Attributes of fitted estimators, which follow from their model."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelweave.fitting.model import Model
from kernelweave.fitting.rowless import REFUSAL, RowlessSource
from kernelweave.fitting.source import TableSource

#: Attributes with a number for each training row.
OF_ROWS = ("dual_coef_", "support_")


def refused(model: object, name: str) -> str | None:
    """What to say of an attribute that a model without training rows does not have; None for others."""
    rowless = isinstance(model, Model) and isinstance(model.source, RowlessSource)
    return REFUSAL.format(what=f"`{name}`") if rowless and name in OF_ROWS else None


def keep_model(estimator: object, model: Model) -> None:
    """Set the model of an estimator, and the attributes that follow from it."""
    for name, value in attributes_of(model).items():
        setattr(estimator, name, value)


def attributes_of(model: Model) -> dict[str, Any]:
    """Attributes of a fitted estimator in scikit-learn's conventions, by name."""
    names = np.array(model.source.names, dtype=object)
    upper = [np.array(layer, dtype=object) for layer in model.learner.layer_names()]
    found: dict[str, Any] = {
        "alpha_": model.alpha,
        "kernel_names_": names,
        "layer_kernel_names_": [names, *upper],
        "normalizers_": list(model.normalizers),
        "weights_": model.table_of_weights(),
        "intercept_": float(model.intercept[0]) if model.flat else model.intercept,
        "model_": model,
    }
    if not isinstance(model.source, RowlessSource):
        found["dual_coef_"] = model.dual_coef[:, 0] if model.flat else model.dual_coef
        found["support_"] = np.flatnonzero((model.dual_coef != 0).any(axis=1))
    if isinstance(model.source, TableSource):
        found["kernels_"] = list(model.source.kernels)
    if model.learner.regularization_parameter == "C":
        found["C_"] = 1.0 / model.alpha
    if (linear := model.linear) is not None:
        # for classes scikit-learn has a row even if there is only one
        flat = model.flat and not model.task.classification
        found["coef_"] = linear.coef[0] if flat else linear.coef
        found["linear_intercept_"] = float(linear.intercept[0]) if flat else linear.intercept
    return found
