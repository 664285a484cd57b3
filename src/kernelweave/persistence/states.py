"""Models as states: dicts, lists, texts, numbers and arrays, without names of modules of this package.

A state has a *kind*, a word of the tables below, so that files do not depend on the place of the code. Kernels, steps
and other values are their fields; kernels of other modules have a kind once their module was imported.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

from kernelweave import estimators, functions, kernels, normalizers
from kernelweave._checks import InputError
from kernelweave._extensions import load_extensions
from kernelweave._sparse import is_sparse
from kernelweave.banks import DefaultViews
from kernelweave.estimators import BaseMKL
from kernelweave.estimators.estimator import attributes_of
from kernelweave.estimators.selecting import SelectViews
from kernelweave.fitting.calibration import Calibration
from kernelweave.fitting.model import LinearForm, Model
from kernelweave.fitting.out_of_fold import OutOfFold
from kernelweave.fitting.partial import PartialSource
from kernelweave.fitting.prediction import FeatureForm
from kernelweave.fitting.rowless import RowlessSource, needs_rows, without_rows
from kernelweave.fitting.source import TableSource
from kernelweave.fitting.stacks import BankSource, KernelBank, StackSource
from kernelweave.fitting.task import Task
from kernelweave.kernels.base import known_kernels
from kernelweave.kernels.composed import parts_of
from kernelweave.kernels.steps import STEPS
from kernelweave.learners import LEARNERS
from kernelweave.machines.loss import LOSSES
from kernelweave.mkl import layers
from kernelweave.normalizers import FittedNormalizer
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
from kernelweave.views.dates import DateForm

__all__ = ["State", "from_state", "is_known", "to_state"]

#: None, truth values, numbers, texts, arrays of numbers and texts, and lists and dicts of these.
State = Any

ESTIMATORS: dict[str, type[BaseMKL]] = {
    "MKLClassifier": estimators.MKLClassifier,
    "MKLClassifierCV": estimators.MKLClassifierCV,
    "MKLRegressor": estimators.MKLRegressor,
    "MKLRegressorCV": estimators.MKLRegressorCV,
    "MKLSurvival": estimators.MKLSurvival,
}

#: What to do about a class that is not known here.
BRING_IT = "Import that module first, or install the package that has it."
#: Dataclasses beside kernels, which are made from their fields.
_VALUES: tuple[type, ...] = (
    *STEPS.values(),
    kernels.LeftOut,
    kernels.Nystroem,
    kernels.RandomFeatures,
    normalizers.Center,
    normalizers.Cosine,
    normalizers.FeatureNorm,
    normalizers.MeanDiagonal,
    normalizers.NoNormalizer,
    normalizers.Trace,
    normalizers.WithinClass,
    functions.Exponential,
    layers.FirstLayer,
    layers.TrainedLayers,
    Calibration,
    DefaultViews,
    FeatureForm,
    LinearForm,
    ColumnMask,
    ColumnSlice,
    DateForm,
    FittedNormalizer,
    Model,
    OutOfFold,
    Table,
    Task,
    ViewColumns,
)


@dataclass(frozen=True)
class Kind:
    """How objects of one class are converted to states and back.

    Attributes
    ----------
    cls : type
    parts : tuple of str
        Attributes in a state.
    make : callable
        Called with the attributes by name; older files may lack later ones.
    """

    cls: type
    parts: tuple[str, ...]
    make: Callable[..., Any]

    @classmethod
    def of(cls, made: type) -> Kind:
        """Of a dataclass, by its fields."""
        return cls(made, tuple(one.name for one in fields(made)), made)


def _restored(cls: type) -> Callable[..., Any]:
    """What makes an object with these attributes; those that older files lack have the values of the class."""

    def make(**attributes: Any) -> Any:
        made: Any = object.__new__(cls)
        vars(made).update(attributes)
        return made

    return make


def _sparse_table(data: Any, indices: Any, indptr: Any, n_columns: int, names: Any) -> SparseTable:
    from scipy import sparse

    values = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_columns))
    # a model without training rows has columns only
    return SparseTable(values, names) if values.shape[0] else SparseTable.of_checked(values, names)


def _source(cls: type) -> Callable[..., Any]:
    return lambda raw, **parts: cls(table=raw, **parts)


_LEARNT = ("kernels", "raw", "standardize", "statistics", "rules", "imputer", "fillers")
_TRAINED = (*_LEARNT, "max_memory", "rank_tol", "sample_weight", "explicit", "targets")
_ENCODED = (
    "owner",
    "reorder",
    "missing",
    "n_columns_",
    "names_",
    "categories_",
    "sparse_",
    "texts_",
    "dates_",
    "left_out_",
)
_KINDS: dict[str, Kind] = {cls.__name__: Kind.of(cls) for cls in _VALUES} | {
    kind.cls.__name__: kind
    for kind in (
        Kind(TableEncoder, _ENCODED, _restored(TableEncoder)),
        Kind(ViewsEncoder, ("owner", "encoders_", "missing"), _restored(ViewsEncoder)),
        Kind(GramEncoder, ("columns_", "n_columns_", "digest_", "missing", "there_"), _restored(GramEncoder)),
        Kind(SparseTable, ("data", "indices", "indptr", "n_columns", "names"), _sparse_table),
        Kind(Cells, ("values",), Cells),
        Kind(BlockTable, ("blocks",), BlockTable),
        Kind(GramTable, ("matrix", "index", "diagonal"), GramTable),
        Kind(TableSource, _TRAINED, _source(TableSource)),
        Kind(PartialSource, (*_TRAINED, "views", "how", "learnt"), _source(PartialSource)),
        Kind(RowlessSource, (*_LEARNT, "n_samples", "views"), _source(RowlessSource)),
        Kind(BankSource, ("bank", "index"), BankSource),
        Kind(StackSource, ("stack", "names", "columns"), StackSource),
        Kind(KernelBank, ("stack", "names"), KernelBank),
        Kind(kernels.Vocabulary, ("terms", "idf", "unseen"), kernels.Vocabulary),
    )
}


def _is_learner(value: object) -> bool:
    """Whether a value is a learner that is known by a name."""
    return LEARNERS.get(getattr(type(value), "name", "")) is type(value)


def _is_loss(value: object) -> bool:
    """Whether a value is a loss that is known by a name, and made from its fields."""
    known = LOSSES.get(getattr(type(value), "name", "")) is type(value)
    return known and (is_dataclass(value) or not vars(value))


#: Kernels of Python functions, to which files refer by the name of the kernel.
FUNCTIONS = (kernels.Custom, kernels.Pairwise)
#: Training rows whose values say whether a function is that of `save`.
PROBES = 4

#: Functions of layers in files of version 0.2, which are kernels now.
_LAYERS = {"Angle": "ArcCosine", "Gaussian": "RBF", "Identity": "Linear", "Power": "Polynomial"}


def _kind(word: str) -> Kind | None:
    """The kind with a name."""
    kernel = known_kernels().get(_LAYERS.get(word, word))
    return _KINDS.get(word) if kernel is None else Kind.of(kernel)


def _kind_of(value: object) -> Kind | None:
    """The kind of an object; None for objects of other packages."""
    kind = _kind(type(value).__name__)
    return kind if kind is not None and kind.cls is type(value) else None


def is_known(value: object) -> bool:
    """Whether an object of this package has a kind."""
    own = (*ESTIMATORS.values(), SelectViews, *FUNCTIONS)
    return _kind_of(value) is not None or _is_learner(value) or _is_loss(value) or type(value) in own


# ---- to states ----------------------------------------------------------------------------------------


def to_state(
    value: Any, outside: Callable[[Any], State] | None = None, training_rows: bool | None = None
) -> State:
    """The state of a fitted estimator, or of a part of one.

    Parameters
    ----------
    value : estimator, learner, kernel, normaliser, source, model, or a plain value
    outside : callable, optional
        Returns the state of kernels of Python functions, and of objects of other packages; by default they are refused.
    training_rows : bool, optional
        See `kernelweave.save`.

    Returns
    -------
    State
        Arrays are those of the value, not copies.
    """

    def state(one: Any) -> State:
        return to_state(one, outside, training_rows)

    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [state(item) for item in value]
    if type(value) in (tuple, set, frozenset):
        return {"kind": type(value).__name__, "items": [state(item) for item in value]}
    if type(value) is dict:
        return {"kind": "dict", "items": [[state(k), state(v)] for k, v in value.items()]}
    if isinstance(value, np.generic) and value.dtype.kind != "O":
        return {"kind": "scalar", "value": np.asarray(value)}
    if is_sparse(value):
        rows: Any = value.tocsr()
        parts = {name: getattr(rows, name) for name in ("data", "indices", "indptr")}
        return {"kind": "sparse", "n_columns": int(rows.shape[1]), **parts}
    if type(value) is np.ndarray:
        if not value.dtype.hasobject:
            return value
        items = [state(item) for item in value.ravel().tolist()]
        return {"kind": "objects", "shape": list(value.shape), "items": items}
    if _is_learner(value):
        params = state(value.get_params(deep=False))
        return {"kind": "learner", "name": value.name, "params": params}
    if _is_loss(value):
        names = [one.name for one in fields(value)] if is_dataclass(value) else []
        params = {name: getattr(value, name) for name in names}
        return {"kind": "loss", "name": value.name, "params": state(params)}
    if type(value) is SelectViews:
        params = value.get_params(deep=False)
        found = {k: v for k, v in vars(value).items() if k not in params}
        return {"kind": "selection", "params": state(params), "found": state(found)}
    if type(value) in ESTIMATORS.values():
        params, model = value.get_params(deep=False), getattr(value, "model_", None)
        follows = {} if model is None else attributes_of(model)
        found = {k: v for k, v in vars(value).items() if k not in params and k not in follows}
        parts = {"params": params, "found": found, "model": model and _lean(model, training_rows)}
        if model is not None and (values := probed(model)):
            parts["probes"] = values
        return {"kind": "estimator", "name": type(value).__name__, **{k: state(v) for k, v in parts.items()}}
    if (kind := _kind_of(value)) is not None:
        return {"kind": kind.cls.__name__} | {part: state(getattr(value, part)) for part in kind.parts}
    if outside is None:
        raise InputError(f"This cannot be written as a state: it contains a {type(value).__qualname__}.")
    return outside(value)


def _lean(model: Model, training_rows: bool | None) -> Model:
    """The model as it is written: with its training rows, or without them."""
    needed = needs_rows(model)
    if training_rows is False and needed is not None:
        raise InputError(
            f"This model cannot be saved without its training rows: {needed}. Leave `training_rows` out."
        )
    # rows that lack a view are compared with training rows
    kept = training_rows or (training_rows is None and isinstance(model.source, PartialSource))
    if training_rows and isinstance(model.source, RowlessSource):
        raise InputError("This model has no training rows: it was saved without them before. Fit it again.")
    return model if kept or needed is not None else without_rows(model)


def probed(model: Model) -> list[Any]:
    """Positions of kernels of Python functions, each with its values of some training rows."""
    source = model.source
    if not isinstance(source, TableSource) or isinstance(source, RowlessSource) or not source.is_whole:
        return []
    table = source.table.rows(slice(0, PROBES))
    given = (any(isinstance(leaf, FUNCTIONS) for leaf, *_ in parts_of(kernel)) for kernel in source.kernels)
    return [(m, source.kernels[m](table)) for m, one in enumerate(given) if one]


# ---- from states --------------------------------------------------------------------------------------


def from_state(state: State, outside: Callable[[State], Any] | None = None) -> Any:
    """Make the object described by a state.

    Parameters
    ----------
    state : State
    outside : callable, optional
        Returns kernels of Python functions, and objects of other packages, by their states; by default there are none.
    """
    if isinstance(state, list):
        return [from_state(item, outside) for item in state]
    if not isinstance(state, dict):
        return state
    word = state["kind"]
    if word in ("foreign", "function") and outside is not None:
        return outside(state)
    parts = {k: from_state(v, outside) for k, v in state.items() if k != "kind"}
    if word in ("tuple", "set", "frozenset"):
        kinds: dict[str, Callable[..., Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
        return kinds[word](parts["items"])
    if word == "sparse":
        return _sparse_table(**parts, names=None).values
    if word == "dict":
        return dict(parts["items"])
    if word == "scalar":
        return parts["value"][()]
    if word == "objects":
        out = np.empty(len(parts["items"]), dtype=object)
        for i, item in enumerate(parts["items"]):
            # not all at once: they may be sequences
            out[i] = item
        return out.reshape(parts["shape"])
    if word in ("learner", "loss"):
        params, known = parts["params"], LEARNERS if word == "learner" else LOSSES
        for former in ("literal", "as_published"):
            # of MLMKL: the published update was a parameter
            params.pop(former, None)
        name = parts["name"]
        if name not in known:
            load_extensions()
        if name not in known:
            raise InputError(
                f"This is not a model file, or it has a {word} of another module, {name!r:.40}. {BRING_IT}"
            )
        for former, present in getattr(known[name], "former", {}).items():
            if former in params:
                params[present] = params.pop(former)
        made = known[name](**params)
        if word == "loss":
            check_types(made, params)
        return made
    if word == "estimator":
        return _estimator(**parts)
    if word == "selection":
        return _put(SelectViews(**parts["params"]), parts["found"])
    kind = _kind(word)
    if kind is None:
        load_extensions()
        kind = _kind(word)
    if kind is None:
        raise InputError(
            f"This is not a model file, or it has a kernel of another module, {word!r}. {BRING_IT}"
        )
    made = kind.make(**{name: parts[name] for name in kind.parts if name in parts})
    check_types(made, kind.parts)
    return made


def _put(estimator: Any, found: dict[str, Any]) -> Any:
    """An estimator with what a fit found."""
    for attribute, value in found.items():
        setattr(estimator, attribute, value)
    check_types(estimator, found)
    return estimator


def _estimator(
    name: str,
    params: dict[str, Any],
    found: dict[str, Any],
    model: Model | None = None,
    probes: Iterable[Any] = (),
) -> BaseMKL:
    """Make an estimator from its parameters, its fitted attributes and its model."""
    estimator = _put(ESTIMATORS[name](**params), found)
    if model is None:
        if any(attribute.endswith("_") for attribute in found):
            raise ValueError("it was fitted, and has no model")
        return estimator
    if model.task.classification and not len(found.get("classes_", ())):
        raise ValueError("it has no classes")
    if "n_features_in_" not in found:
        raise ValueError("it does not say how many columns it has")
    check_model(model)
    check_functions(model, probes)
    vars(estimator).update(attributes_of(model))
    return estimator


# ---- checks: files may be made by anybody -------------------------------------------------------------


def check_model(model: Model) -> None:
    """Raise a `ValueError` if the arrays of a model have NaN or inconsistent shapes."""
    source, n_outputs = model.source, model.n_outputs
    table, n_kernels = getattr(source, "table", None), source.n_kernels
    n_rows = source.n_samples if table is None else table.n_rows
    scales = [n.scale for n in model.normalizers if n.scale is not None]
    first = [one.first for one in model.layers if one is not None and one.first is not None]
    outputs = [array for one in first for array in (one.coef, one.values)]
    forms = [form.coef for form in (model.features, model.linear_form) if form is not None]
    rowless = isinstance(source, RowlessSource)
    fits = [
        rowless or source.n_samples == n_rows,
        model.encoder is not None or not isinstance(source, TableSource),
        not rowless or model.features is not None,
        model.dual_coef.shape == (n_rows, n_outputs),
        model.intercept.shape == model.owner.shape == (n_outputs,),
        model.weights.shape in ((n_kernels,), (n_outputs, n_kernels)),
        model.owner.dtype.kind == "i",
        len(model.layers) in (0, n_outputs),
        all(array.shape == (n_rows, n_kernels) for array in outputs),
        all(one is None or one.shape == (n_outputs,) for one in (model.shift, model.offset, model.constant)),
        model.constant is None or model.constant.dtype.kind == "b",
        all(scale.shape == (n_kernels,) for scale in scales),
        len(model.normalizers) > int(model.owner.max()) >= 0 <= int(model.owner.min()),
        all(len(target) == (1 if rowless else n_rows) for target in model.task.targets),
        model.task.sample_weight is None or model.task.sample_weight.shape == (n_rows,),
        not isinstance(model.encoder, TableEncoder)
        or not isinstance(table, Table)
        or all(level <= len(c) for level, c in zip(table.levels, model.encoder.categories_, strict=True)),
    ]
    if (known := model.held) is not None:
        fits.append(known.values.shape == (len(known.weights), n_outputs) and len(known.values) > 0)
        fits.append(known.truth.shape in (known.values.shape, known.weights.shape))
        scales += [known.values, known.truth.astype(float), known.weights]
    if model.features is not None:
        ends = model.features.offsets
        fits.append(len(ends) == n_kernels + 1 and ends[0] == 0 and bool((np.diff(ends) >= 0).all()))
        fits.append(model.features.coef.shape == (ends[-1], n_outputs))
    encoders = [model.encoder, *getattr(model.encoder, "encoders_", {}).values()]
    for one in (e for e in encoders if isinstance(e, TableEncoder)):
        n = one.n_columns_
        fits.append(len(one.categories_) == n and (one.names_ is None or len(one.names_) == n))
        fits.append(all(0 <= form.place < n and form.scale > 0 for form in one.dates_))
    shifts = [one for one in (model.shift, model.offset) if one is not None]
    held = [model.dual_coef, model.intercept, model.weights, *shifts, *scales, *forms, *outputs]
    cells = [] if table is None else table.arrays()
    # where cells may be missing, they are skipped
    skipped = getattr(source, "may_hold_nan", False)
    whole = all(np.isfinite(array).all() for array in held)
    right = all((~np.isinf(array) if skipped else np.isfinite(array)).all() for array in cells)
    if not (all(fits) and whole and right):
        raise ValueError("its arrays have NaN or inconsistent shapes")


def check_functions(model: Model, probes: Iterable[Any]) -> None:
    """Raise if kernels of Python functions have other values than those of `probed` when the model was saved."""
    now = dict(probed(model))
    for m, values in probes:
        if m in now and not np.allclose(
            now[m], values, rtol=1e-6, atol=1e-9 * float(np.abs(values).max(initial=0.0))
        ):
            raise InputError(
                f"The function of the kernel {model.source.names[m]!r} has other values of training rows than when the "
                "model was saved. Hand over the function that it was fitted with."
            )


def check_types(value: object, names: Iterable[str]) -> None:
    """Raise a `TypeError` for attributes of another type than that in the annotations of the class."""
    owner: Any = type(value)
    hints = _hints(owner)
    for name in names:
        if name in hints and hasattr(value, name) and not fits(hints[name], found := getattr(value, name)):
            raise TypeError(f"`{name}` of {owner.__name__} is a {type(found).__name__}")


@cache
def _hints(owner: Any) -> dict[str, Any]:
    return typing.get_type_hints(owner)


def fits(hint: Any, value: object) -> bool:
    """Whether a value has the type of an annotation, where this can be told."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(one, value) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple and isinstance(value, tuple):
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(fits(arguments[0], one) for one in value)
        return len(arguments) == len(value) and all(map(fits, arguments, value))
    if origin is list and isinstance(value, list):
        return all(fits(arguments[0], one) for one in value)
    if origin is dict and isinstance(value, dict):
        return all(fits(arguments[0], k) and fits(arguments[1], v) for k, v in value.items())
    expected = origin or hint
    if expected in (None, types.NoneType):
        return value is None
    if expected in (int, float):
        numbers = (int, np.integer) if expected is int else (int, float, np.integer, np.floating)
        return isinstance(value, numbers) and not isinstance(value, bool)
    if expected is str:
        return isinstance(value, str)
    if expected is Any or not isinstance(expected, type) or getattr(expected, "_is_protocol", False):
        # anything, variables of types, protocols
        return True
    return isinstance(value, expected)
