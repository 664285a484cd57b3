"""Files of the first two formats, which name classes: read as parts, which are converted to present objects."""

from __future__ import annotations

import inspect
import io
import json
import zipfile
from typing import IO, Any

from kernelweave.fitting.model import Model
from kernelweave.fitting.task import Task
from kernelweave.learners import LEARNERS
from kernelweave.learners import resolve as resolve_learner
from kernelweave.normalizers import resolve as resolve_normalizer
from kernelweave.persistence import foreign, states

#: The format of version 0.1, whose files end without a digest.
UNSEALED = "kernelweave model 1"
FORMATS = (UNSEALED, "kernelweave model 2")


class Former:
    """An object of this package in an older file: the name of its class, and its attributes."""


#: Short names of learners by their classes, including former ones.
_LEARNERS = {cls.__name__: name for name, cls in LEARNERS.items()} | {"GaussianWidths": "gaussian"}

#: Classes allowed in older files. skops looks them up here by name, whatever their former module.
_CLASSES = {
    name: type(name, (Former,), {"__module__": __name__})
    for name in (*states.KINDS, *states.ESTIMATORS, *_LEARNERS)
    if name not in ("Model", "Task")
}
globals().update(_CLASSES)


def read(file: IO[bytes], source: object) -> Any:
    """The content of an older file; `source` is its name for messages."""
    trusted = [f"{__name__}.{name}" for name in _CLASSES]
    return foreign.traded(foreign.read(_with_parts(file), source, trusted), _present)


def _with_parts(file: IO[bytes]) -> bytes:
    """The file, with the classes of this package replaced by parts."""

    def rename(node: dict[str, Any]) -> dict[str, Any]:
        module, name = node.get("__module__"), node.get("__class__")
        if isinstance(module, str) and module.partition(".")[0] == "kernelweave" and name in _CLASSES:
            node["__module__"] = __name__
        return node

    file.seek(0)
    out = io.BytesIO()
    with zipfile.ZipFile(file) as given, zipfile.ZipFile(out, "w") as written:
        for name in given.namelist():
            content = given.read(name)
            if name == "schema.json":
                content = json.dumps(json.loads(content, object_hook=rename)).encode()
            written.writestr(name, content)
    return out.getvalue()


def _present(value: Any) -> Any:
    """The present object of a part, inner parts first; other values unchanged."""
    if not isinstance(value, Former):
        return value
    name = type(value).__name__
    parts = {k: foreign.traded(v, _present) for k, v in vars(value).items()}
    if name in states.ESTIMATORS:
        return _estimator(name, parts)
    if name in _LEARNERS:
        cls = LEARNERS[_LEARNERS[name]]
        return cls(**_accepted(cls, parts))
    return states.make(name, parts)


def _accepted(cls: type, parts: dict[str, Any]) -> dict[str, Any]:
    """The parts that are parameters."""
    return {k: v for k, v in parts.items() if k in inspect.signature(cls).parameters}


def _estimator(name: str, parts: dict[str, Any]) -> Any:
    params = _accepted(states.ESTIMATORS[name], parts)
    found = {k: v for k, v in parts.items() if k not in params and k not in _REPLACED}
    return states.make_estimator(name, params, found, _model(parts) if "_source" in parts else None)


#: Former attributes of fitted estimators that are in the model now, and those that scikit-learn adds to files.
_REPLACED = frozenset(
    {
        "_source", "_training", "_base_weights", "_uppers", "_dual", "_intercepts", "_effective", "_owner",
        "_kept_columns", "_encoder", "_y_flat", "_per_class", "_noise", "_sklearn_version",
    }
)  # fmt: skip


def _model(parts: dict[str, Any]) -> Model:
    """The model of the private attributes that fitted estimators had."""
    kept, source = parts["_training"], parts["_source"]
    # version 0.1 did not store its parameters
    learner = kept.get("learner") or resolve_learner(parts["learner"])
    given_intercept = bool(parts["fit_intercept"]) and not learner.own_intercept
    if parts.get("_kept_columns") is not None:
        source.columns = parts["_kept_columns"]
    task = Task(
        source=source,
        targets=tuple(kept["targets"]),
        sample_weight=kept["sample_weight"],
        normalizer=kept.get("normalizer") or resolve_normalizer(parts["normalize"]),
        extra=kept["extra"],
        fit_intercept=kept.get("fit_intercept", given_intercept),
        classification="classes_" in parts,
        flat=bool(parts.get("_y_flat", True)),
        class_weight=parts.get("_per_class"),
    )
    weights = parts["_base_weights"]
    return Model(
        task=task,
        learner=learner,
        alpha=float(parts["alpha_"]),
        ridge=float(parts.get("relax_", parts["alpha_"])),
        normalizers=tuple(parts["normalizers_"]),
        weights=weights,
        dual_coef=parts["_dual"],
        intercept=parts["_intercepts"],
        owner=parts["_owner"],
        layers=tuple(parts.get("_uppers") or ()),
        layered=parts["weights_"].ndim > weights.ndim,
        encoder=parts.get("_encoder"),
    )
