"""Models as ONNX graphs, for predictions without Python."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from kernelweave._checks import InputError
from kernelweave._parameters import InstanceOf, OneOf, Text, checked
from kernelweave._sparse import unit_rows
from kernelweave.estimators.classifier import curve_of, knows_probabilities
from kernelweave.estimators.targets import Classes
from kernelweave.fitting.calibration import Calibration
from kernelweave.fitting.model import Model
from kernelweave.fitting.source import TableSource
from kernelweave.kernels import Kernel
from kernelweave.mkl.layers import FirstLayer
from kernelweave.normalizers import FittedNormalizer
from kernelweave.persistence.archive import check_place, whole_file
from kernelweave.persistence.graph import Graph, Values, taken
from kernelweave.views import Table, TableEncoder

__all__ = ["to_onnx"]

FloatType = np.dtype[Any]
#: Bytes that the format can hold.
LARGEST_FILE = 2**31
FLOATS = ("float64", "float32")


@checked
def to_onnx(
    model: Annotated[BaseEstimator, InstanceOf((BaseEstimator,), "an estimator of kernelweave")],
    path: Annotated[str | os.PathLike[str], Text(path=True)],
    *,
    dtype: Annotated[str, OneOf(*FLOATS)] = "float64",
) -> Path:
    """Write a fitted estimator as an ONNX graph, which other languages and servers can run.

    The graph reads cells of new rows and returns what `predict` returns, with decision values and, where the estimator
    has them, probabilities. It computes in double precision.

    Parameters
    ----------
    model : estimator
        Fitted on a table or on views of tables.
    path : path
        Written under a temporary name first, so that a full disk leaves an older file untouched.
    dtype : {"float64", "float32"}, default="float64"
        Type of numeric inputs.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        For models of precomputed kernels and views, of texts, with missing cells or views, for kernels that are
        Python functions, and for isotonic calibration; and if the package onnx (the extra `onnx`) is missing.

    Notes
    -----
    Inputs: ``X`` of shape (n_rows, n_columns) if all columns are numeric, otherwise one of shape (n_rows, 1) for each
    column, under its name; of several views one for each view, or one for each column as ``view/column``. Categories
    are strings, truth values the strings ``"False"`` and ``"True"``; categories that were not seen in `fit` count as
    unknown. Outputs: of regressors ``prediction``; of classifiers ``label``, ``decision`` and ``probabilities``.

    The file holds the training rows that have a coefficient, unless the model is linear or one of features.
    Predictions differ from those of `predict` by rounding: the tests allow 1e-12 of the largest decision value.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = kw.MKLClassifier(kw.banks.rls2(2), "simple").fit(X, X[:, 0] > 0)
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     kw.to_onnx(model, pathlib.Path(folder) / "model.onnx").name
    'model.onnx'
    """
    target = check_place(path)
    made = _graph(model, dtype)
    if made.ByteSize() >= LARGEST_FILE:
        raise InputError(
            f"An ONNX file holds at most 2 GiB, and the training rows take {made.ByteSize() / 2**30:.1f}. Fit the "
            "model with approximation='nystroem', whose file does not grow with the rows."
        )
    with whole_file(target) as name:
        name.write_bytes(made.SerializeToString())
    return target


def _graph(estimator: Any, dtype: str) -> Any:
    model = getattr(estimator, "model_", None)
    if not isinstance(model, Model):
        raise InputError(
            f"`model` must be a fitted estimator of kernelweave, got {type(estimator).__name__}. Call fit first; of a "
            "pipeline pass the last step."
        )
    source, graph = _source_of(model), Graph()
    decision = _decision(model, source, _cells_of(graph, model, np.dtype(dtype)))
    own = decision[:, 0] if model.n_outputs == 1 else decision
    if not is_classifier(estimator):
        try:
            mean = model.learner.prediction(own if model.flat else decision)
        except TypeError as error:
            raise InputError(
                f"The predictions of the loss {model.learner.loss_for(False)!r} have no ONNX form: {error}."
            ) from None
        return graph.built({"prediction": (mean, np.float64)})
    outputs = {"label": _labels(estimator.classes_, decision), "decision": (own, np.float64)}
    if knows_probabilities(estimator):
        odds = decision if model.shift is None else decision - model.shift
        outputs["probabilities"] = _probabilities(model, odds, curve_of(estimator)), np.float64
    return graph.built(outputs)


def _source_of(model: Model) -> TableSource:
    source = model.source
    if not isinstance(source, TableSource):
        raise InputError("Models of precomputed kernels have no ONNX form: new rows have no columns there.")
    if not source.is_whole or source.takes_missing:
        raise InputError(
            "Models that take missing cells, or whose training rows lack views, have no ONNX form. Impute before "
            "the model, and fit it with missing='error'."
        )
    return source


# ---- inputs ---------------------------------------------------------------------------------------


def _cells_of(graph: Graph, model: Model, dtype: FloatType) -> Values:
    """The inputs of the graph as numbers and codes, shape (n_rows, n_columns)."""
    encoder = model.encoder
    if isinstance(encoder, TableEncoder):
        return _cells(graph, encoder, dtype)
    assert encoder is not None  # sources of tables have one
    parts = []
    for view, own in encoder.encoders_.items():
        if not isinstance(own, TableEncoder):
            raise InputError(f"The view {view!r} is precomputed, which has no ONNX form.")
        parts.append(_cells(graph, own, dtype, view))
    return np.concat(parts, axis=1)


def _cells(graph: Graph, encoder: TableEncoder, dtype: FloatType, view: str | None = None) -> Values:
    """Columns of one table."""
    if encoder.texts_:
        raise InputError("Models of texts and other objects have no ONNX form.")
    dated = {form.place for form in encoder.dates_}
    if not dated and not any(encoder.categories_):
        name = "X" if view is None else view
        return graph.input(name, encoder.n_columns_, dtype).astype(np.float64)
    parts: list[Any] = []
    for j, categories in enumerate(encoder.categories_):
        if j in encoder.left_out_:
            parts.append(None)
            continue
        own = f"x{j}" if encoder.names_ is None else encoder.names_[j]
        name = own if view is None else f"{view}/{own}"
        words = [one for one in categories if isinstance(one, str)]
        if words and len(words) < len(categories):
            raise InputError(
                f"The column {name!r} has numbers and texts as categories, and an input of ONNX has one type. Make all "
                "of them texts before fit."
            )
        # dates are days since 1970, of which single precision keeps three minutes
        kind = np.dtype(object) if words else np.dtype(np.float64) if j in dated else dtype
        column = graph.input(name, 1, kind)
        if categories:
            # positions among the categories, -1 for others
            found = (column == np.array(categories, column.dtype)).astype(np.float64)
            column = found @ np.arange(1.0, len(categories) + 1.0)[:, None] - 1.0
        parts.append(column.astype(np.float64))
    # columns that are left out are no inputs
    nothing = np.zeros_like(next(part for part in parts if part is not None))
    return np.concat([nothing if part is None else part for part in parts], axis=1)


# ---- decision values --------------------------------------------------------------------------------


def _decision(model: Model, source: TableSource, cells: Values) -> Values:
    """Decision values of new rows, shape (n_rows, n_outputs)."""
    linear = model.linear
    if linear is not None:
        return cells @ np.ascontiguousarray(linear.coef.T) + linear.intercept
    new = source.encode(source.table.like(cells))
    total = np.zeros_like(cells[:, :1]) + model.intercept
    if model.layers:
        return _of_layers(model, source, new, total)
    fitted = model.normalizers[0]
    if model.features is not None:
        return _of_features(model, source, new, total)
    kept = np.flatnonzero(model.dual_coef.any(axis=1))
    if fitted.probability is not None or not len(kept):
        kept = np.arange(source.n_samples)
    elif fitted.cosine_scale is not None:
        fitted = replace(fitted, cosine_scale=fitted.cosine_scale[:, kept])
    training = source.table.rows(kept)
    for m in np.flatnonzero((model.effective != 0).any(axis=0)):
        K, _ = _values(source.kernels[m], fitted, int(m), new, training)
        total = total + K @ model.dual_coef[kept] * model.effective[:, m]
    return total


def _values(
    kernel: Kernel, fitted: FittedNormalizer, m: int, new: Table, training: Table
) -> tuple[Values, Values]:
    """Normalised values between new and training rows (n_rows, n_training), and of new rows with themselves."""
    with _as_graph(kernel):
        K, own = kernel._gram(new, training), kernel._diag(new)
    return fitted.cross(m, K, lambda: own), fitted.cross_diagonal(m, K, own)


@contextmanager
def _as_graph(kernel: Kernel) -> Iterator[None]:
    """Says which kernel it is that has no graph."""
    try:
        yield
    except (AttributeError, TypeError, InputError) as error:
        # kernels of others have their own words for what they do not take
        cause = error.__cause__ if isinstance(error, InputError) else error
        if not isinstance(cause, AttributeError | TypeError):
            raise
        raise InputError(
            f"The kernel {kernel.label!r} has no ONNX form. Save the model with kernelweave.save instead. It uses what "
            f"graphs do not have: {cause}."
        ) from None


def _of_features(model: Model, source: TableSource, new: Table, total: Values) -> Values:
    form, fitted = model.features, model.normalizers[0]
    assert form is not None
    for m, kernel in enumerate(source.kernels):
        own = slice(form.offsets[m], form.offsets[m + 1])
        if not form.coef[own].any() or (fitted.constant is not None and fitted.constant[m]):
            continue
        with _as_graph(kernel):
            phi = kernel._own_features(new)
        phi = phi if fitted.cosine_scale is None else unit_rows(phi)
        total = total + phi @ np.ascontiguousarray(form.coef[own])
        if form.means is not None:
            total = total - form.means[own] @ form.coef[own]
    return total


def _of_layers(model: Model, source: TableSource, new: Table, total: Values) -> Values:
    outputs = []
    for k, (layers, effective) in enumerate(zip(model.layers, model.effective, strict=True)):
        own, places = total[:, k : k + 1], np.flatnonzero(effective)
        if layers is not None and len(places):
            K = kappa = 0.0
            heads, first = [], layers.first
            for m in places:
                part, diagonal = _values(source.kernels[m], model.normalizers[0], int(m), new, source.table)
                if first is not None:
                    heads.append(part @ np.ascontiguousarray(first.coef[:, m : m + 1]))
                else:
                    K, kappa = K + effective[m] * part, kappa + effective[m] * diagonal
            if first is not None:
                K, kappa = FirstLayer(first.coef, first.values[:, places]).inner(np.concat(heads, axis=1))
            own = own + layers.cross(K, kappa, np) @ model.dual_coef[:, k : k + 1]
        outputs.append(own)
    return np.concat(outputs, axis=1)


# ---- labels and probabilities -----------------------------------------------------------------------


def _labels(classes: Classes, decision: Values) -> tuple[Values, type]:
    """Labels of decision values, and their type."""
    if isinstance(classes, list):
        return (decision > 0.0).astype(np.int64), np.int64
    place = (decision[:, 0] > 0.0).astype(np.int64) if len(classes) <= 2 else np.argmax(decision, axis=1)
    # texts of any length are objects for ONNX
    dtype = {"b": bool, "i": np.int64, "u": np.int64, "f": np.float64}.get(classes.dtype.kind, object)
    return cast(Values, taken(classes.astype(dtype), place)), dtype


def _probabilities(model: Model, decision: Values, calibration: Calibration | None) -> Values:
    """Probabilities of the classes, or of each of several labels; see `predict_proba`."""
    if calibration is not None and calibration.method == "isotonic":
        raise InputError(
            "Isotonic calibration has no ONNX form. Use calibrate('temperature') or calibrate('platt')."
        )
    if calibration is not None and calibration.method == "temperature":
        decision = decision * np.concatenate(calibration.curves)
        if not model.task.multilabel and model.n_outputs > 1:
            shares = np.exp(decision - np.max(decision, axis=1, keepdims=True))
            return shares / np.sum(shares, axis=1, keepdims=True)
    elif calibration is not None:
        slopes, offsets = np.array(calibration.curves).T
        decision = decision * slopes + offsets
    out = _sigmoid(decision)
    if model.task.multilabel:
        return out
    if model.n_outputs == 1:
        return np.concat([_sigmoid(-decision), out], axis=1)
    total = np.sum(out, axis=1, keepdims=True)
    shares = out / np.where(total > 0, total, 1.0)
    return np.where(total > 0, shares, 1.0 / model.n_outputs)


def _sigmoid(f: Values) -> Values:
    """``1 / (1 + exp(-f))`` without overflow."""
    small = np.exp(-np.abs(f))
    return np.where(f >= 0, 1.0, small) / (1.0 + small)
