"""Models as states: dicts, lists, texts, numbers and arrays, without names of modules or classes of this package.

A state has a *kind*, a word of the table below, so that files do not depend on the place of the code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kernelweave import estimators, functions, kernels, normalizers
from kernelweave._checks import InputError
from kernelweave.banks import DefaultViews
from kernelweave.estimators.attributes import attributes_of, keep_model
from kernelweave.estimators.base import BaseMKL
from kernelweave.estimators.selecting import SelectViews
from kernelweave.fitting.calibration import Calibration
from kernelweave.fitting.model import Model
from kernelweave.fitting.partial import PartialSource
from kernelweave.fitting.prediction import FeatureForm
from kernelweave.fitting.source import TableSource
from kernelweave.fitting.stacks import BankSource, KernelBank, StackSource
from kernelweave.fitting.task import Task
from kernelweave.learners import LEARNERS
from kernelweave.mkl import layers
from kernelweave.normalizers import FittedNormalizer
from kernelweave.persistence.hints import check_parts
from kernelweave.views import (
    BlockTable,
    Cells,
    ColumnMask,
    ColumnSlice,
    GramEncoder,
    GramTable,
    SparseTable,
    Table,
    TableEncoder,
    ViewColumns,
    ViewsEncoder,
)

__all__ = ["ESTIMATORS", "KINDS", "State", "from_state", "make", "to_state"]

#: None, truth values, numbers, texts, arrays of numbers and texts, and lists and dicts of these.
State = Any

ESTIMATORS: dict[str, type[BaseMKL]] = {
    "MKLClassifier": estimators.MKLClassifier,
    "MKLClassifierCV": estimators.MKLClassifierCV,
    "MKLRegressor": estimators.MKLRegressor,
    "MKLRegressorCV": estimators.MKLRegressorCV,
}

#: Dataclasses that are made from their fields.
_DATACLASSES: tuple[type, ...] = (
    kernels.Approximate,
    kernels.ArcCosine,
    kernels.Bins,
    kernels.Categorical,
    kernels.CharNGrams,
    kernels.Constant,
    kernels.Cosines,
    kernels.Impute,
    kernels.Laplacian,
    kernels.LeftOut,
    kernels.Linear,
    kernels.Log1p,
    kernels.NormalizeRows,
    kernels.Nystroem,
    kernels.On,
    kernels.Polynomial,
    kernels.Precomputed,
    kernels.Prepared,
    kernels.Product,
    kernels.RBF,
    kernels.RandomFeatures,
    kernels.Scaled,
    kernels.Skip,
    kernels.Standardize,
    kernels.Sum,
    kernels.Tokens,
    normalizers.Center,
    normalizers.Cosine,
    normalizers.FeatureNorm,
    normalizers.MeanDiagonal,
    normalizers.NoNormalizer,
    normalizers.Trace,
    normalizers.WithinClass,
    functions.Angle,
    functions.Exponential,
    functions.Gaussian,
    functions.Identity,
    functions.Power,
    layers.TrainedLayers,
    Calibration,
    DefaultViews,
    FeatureForm,
    ColumnMask,
    ColumnSlice,
    FittedNormalizer,
    Model,
    Table,
    Task,
    ViewColumns,
)


@dataclass(frozen=True)
class Kind:
    """How objects of one class are converted to states and back.

    Attributes
    ----------
    parts : tuple of str
        Attributes in a state.
    make : callable
        Called with the attributes by name; older files may lack later ones.
    """

    parts: tuple[str, ...]
    make: Callable[..., Any]


def _encoder(
    owner: str = "model", reorder: bool = True, missing: bool = False, **learnt: Any
) -> TableEncoder:
    encoder = TableEncoder(owner, reorder, missing)
    for name in ("n_columns_", "names_", "categories_"):
        setattr(encoder, name, learnt[name])
    if len(learnt["categories_"]) != learnt["n_columns_"]:
        raise ValueError("its columns and their categories differ in number")
    encoder.sparse_ = bool(learnt.get("sparse_", False))
    # older files have none
    encoder.texts_, encoder.declared_ = tuple(learnt.get("texts_", ())), True
    return encoder


def _views_encoder(
    owner: str, encoders_: dict[str, TableEncoder | GramEncoder], missing: bool = False
) -> ViewsEncoder:
    encoder = ViewsEncoder(owner, missing)
    encoder.encoders_ = encoders_
    return encoder


def _gram_encoder(
    columns_: Any, n_columns_: int, digest_: str | None = None, missing: bool = False, there_: Any = None
) -> GramEncoder:
    encoder = GramEncoder(missing)
    encoder.there_ = there_
    encoder.columns_, encoder.n_columns_, encoder.digest_ = columns_, n_columns_, digest_
    return encoder


def _sparse_table(
    data: Any, indices: Any, indptr: Any, n_columns: int, names: tuple[str, ...] | None = None
) -> SparseTable:
    from scipy import sparse

    return SparseTable(sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_columns)), names)


def _table_source(raw: Table, **parts: Any) -> TableSource:
    return TableSource(table=raw, **parts)


def _partial_source(raw: Table, **parts: Any) -> PartialSource:
    return PartialSource(table=raw, **parts)


_SOURCE = (
    "kernels",
    "raw",
    "max_memory",
    "rank_tol",
    "standardize",
    "sample_weight",
    "statistics",
    "rules",
    "imputer",
    "fillers",
    "explicit",
)

KINDS: dict[str, Kind] = {
    cls.__name__: Kind(tuple(f.name for f in fields(cls)), cls) for cls in _DATACLASSES
} | {
    "TableEncoder": Kind(
        ("owner", "reorder", "missing", "n_columns_", "names_", "categories_", "sparse_", "texts_"), _encoder
    ),
    "SparseTable": Kind(("data", "indices", "indptr", "n_columns", "names"), _sparse_table),
    "Cells": Kind(("values",), Cells),
    "BlockTable": Kind(("blocks",), BlockTable),
    "GramTable": Kind(("matrix", "index", "diagonal"), GramTable),
    "ViewsEncoder": Kind(("owner", "encoders_", "missing"), _views_encoder),
    "GramEncoder": Kind(("columns_", "n_columns_", "digest_", "missing", "there_"), _gram_encoder),
    "TableSource": Kind(_SOURCE, _table_source),
    "PartialSource": Kind((*_SOURCE, "views", "how", "learnt"), _partial_source),
    "BankSource": Kind(("bank", "index"), BankSource),
    "StackSource": Kind(("stack", "names", "columns"), StackSource),
    "KernelBank": Kind(("stack", "names"), KernelBank),
    "Vocabulary": Kind(("terms", "idf", "unseen"), kernels.Vocabulary),
}

#: Kinds of classes.
_WORDS: dict[type, str] = {cls: cls.__name__ for cls in _DATACLASSES} | {
    cls: cls.__name__
    for cls in (
        Cells,
        TableEncoder,
        ViewsEncoder,
        GramEncoder,
        SparseTable,
        BlockTable,
        GramTable,
        TableSource,
        PartialSource,
        BankSource,
        StackSource,
        KernelBank,
        kernels.Vocabulary,
    )
}


def _is_learner(value: object) -> bool:
    """Whether a value is a learner that is known by a name."""
    return LEARNERS.get(getattr(type(value), "name", "")) is type(value)


def is_known(value: object) -> bool:
    """Whether an object of this package has a kind."""
    own = (*ESTIMATORS.values(), SelectViews)
    return type(value) in _WORDS or _is_learner(value) or type(value) in own


def to_state(value: Any, foreign: Callable[[Any], State] | None = None) -> State:
    """The state of a fitted estimator, or of a part of one.

    Parameters
    ----------
    value : estimator, learner, kernel, normaliser, source, model, or a plain value
    foreign : callable, optional
        Returns the state of objects of other packages; by default they are refused.

    Returns
    -------
    State
        Arrays are those of the value, not copies.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [to_state(item, foreign) for item in value]
    if type(value) is tuple:
        return {"kind": "tuple", "items": [to_state(item, foreign) for item in value]}
    if type(value) is dict:
        return {
            "kind": "dict",
            "items": [[to_state(k, foreign), to_state(v, foreign)] for k, v in value.items()],
        }
    if isinstance(value, np.generic) and value.dtype.kind != "O":
        return {"kind": "scalar", "value": np.asarray(value)}
    if type(value) is np.ndarray and value.dtype.hasobject:
        items = [to_state(item, foreign) for item in value.ravel().tolist()]
        return {"kind": "objects", "shape": list(value.shape), "items": items}
    if type(value) is np.ndarray:
        return value
    if _is_learner(value):
        params = value.get_params(deep=False)
        return {"kind": "learner", "name": value.name, "params": to_state(params, foreign)}
    if type(value) in ESTIMATORS.values():
        return _estimator_state(value, foreign)
    if type(value) is SelectViews:
        params = value.get_params(deep=False)
        found = {k: v for k, v in vars(value).items() if k not in params}
        return {
            "kind": "selection",
            "params": to_state(params, foreign),
            "found": to_state(found, foreign),
        }
    if type(value) in _WORDS:
        word = _WORDS[type(value)]
        return {"kind": word} | {part: to_state(getattr(value, part), foreign) for part in KINDS[word].parts}
    if foreign is None:
        raise InputError(f"This cannot be written as a state: it contains a {type(value).__qualname__}.")
    return foreign(value)


def _estimator_state(estimator: BaseMKL, foreign: Callable[[Any], State] | None) -> State:
    params = estimator.get_params(deep=False)
    state = {"kind": "estimator", "name": type(estimator).__name__, "params": to_state(params, foreign)}
    model = getattr(estimator, "model_", None)
    follows = {} if model is None else attributes_of(model)
    found = {k: v for k, v in vars(estimator).items() if k not in params and k not in follows}
    return state | {"found": to_state(found, foreign), "model": to_state(model, foreign)}


def from_state(state: State, foreign: Callable[[int], Any] | None = None) -> Any:
    """Make the object described by a state.

    Parameters
    ----------
    state : State
    foreign : callable, optional
        Returns the object of another package by its number; by default there are none.
    """
    if isinstance(state, list):
        return [from_state(item, foreign) for item in state]
    if not isinstance(state, dict):
        return state
    kind = state["kind"]
    if kind == "foreign" and foreign is not None:
        return foreign(state["index"])
    parts = {k: from_state(v, foreign) for k, v in state.items() if k != "kind"}
    if kind == "tuple":
        return tuple(parts["items"])
    if kind == "dict":
        return dict(parts["items"])
    if kind == "scalar":
        return parts["value"][()]
    if kind == "objects":
        out = np.empty(len(parts["items"]), dtype=object)
        out[:] = parts["items"]
        return out.reshape(parts["shape"])
    if kind == "learner":
        return LEARNERS[parts["name"]](**parts["params"])
    if kind == "estimator":
        return make_estimator(**parts)
    if kind == "selection":
        return _put(SelectViews(**parts["params"]), parts["found"])
    return make(kind, parts)


def make(kind: str, parts: dict[str, Any]) -> Any:
    """Make an object of a kind from its available parts; others in `parts` are ignored."""
    known = KINDS[kind]
    made = known.make(**{name: parts[name] for name in known.parts if name in parts})
    check_parts(made, known.parts)
    return made


def _put(estimator: Any, found: dict[str, Any]) -> Any:
    """An estimator with what a fit found."""
    for attribute, value in found.items():
        setattr(estimator, attribute, value)
    check_parts(estimator, found)
    return estimator


def make_estimator(
    name: str, params: dict[str, Any], found: dict[str, Any], model: Model | None = None
) -> BaseMKL:
    """Make an estimator from its parameters, its fitted attributes and its model."""
    estimator = _put(ESTIMATORS[name](**params), found)
    if model is None and any(attribute.endswith("_") for attribute in found):
        raise ValueError("it was fitted, and has no model")
    if model is not None and model.task.classification and not len(found.get("classes_", ())):
        raise ValueError("it has no classes")
    if model is not None:
        check_model(model)
        keep_model(estimator, model)
    return estimator


def check_model(model: Model) -> None:
    """Raise a `ValueError` if the arrays of a model have NaN or inconsistent shapes."""
    source, n_outputs = model.source, model.n_outputs
    n_rows, n_kernels = source.n_samples, source.n_kernels
    table = getattr(source, "table", None)
    scales = [n.scale for n in model.normalizers if n.scale is not None]
    fits = [
        model.dual_coef.shape == (n_rows, n_outputs),
        model.intercept.shape == model.owner.shape == (n_outputs,),
        model.weights.shape in ((n_kernels,), (n_outputs, n_kernels)),
        model.owner.dtype.kind == "i",
        len(model.layers) in (0, n_outputs),
        all(scale.shape == (n_kernels,) for scale in scales),
        len(model.normalizers) > int(model.owner.max()) >= 0 <= int(model.owner.min()),
        all(len(target) == n_rows for target in model.task.targets),
        model.task.sample_weight is None or model.task.sample_weight.shape == (n_rows,),
        table is None or table.n_rows == n_rows,
        not isinstance(model.encoder, TableEncoder)
        or not isinstance(table, Table)
        or all(level <= len(c) for level, c in zip(table.levels, model.encoder.categories_, strict=True)),
    ]
    held = [model.dual_coef, model.intercept, model.weights, *scales]
    cells = [] if table is None else table.arrays()
    # where cells may be missing, they are skipped
    wrong = np.isinf if getattr(source, "may_hold_nan", False) else _not_finite
    whole = all(np.isfinite(array).all() for array in held)
    if not all(fits) or not whole or any(wrong(array).any() for array in cells):
        raise ValueError("its arrays have NaN or inconsistent shapes")


def _not_finite(array: Any) -> Any:
    return ~np.isfinite(array)
