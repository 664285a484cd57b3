"""Model files: states and arrays, from which estimators are made without running code."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Annotated, Any

from sklearn.base import BaseEstimator

from kernelweave._checks import InputError
from kernelweave._parameters import Flag, InstanceOf, Text, checked, shown
from kernelweave._types import Fitted
from kernelweave.persistence import archive, foreign, states

__all__ = ["load", "save"]

#: The format that is written, and those that are read: the first is that of version 0.2.
FORMATS = ("kernelweave model 3", "kernelweave model 4")
FORMAT = FORMATS[-1]

#: A file.
FilePath = Annotated[str | os.PathLike[str], Text(path=True)]
#: Functions by their names.
Functions = Annotated[
    Mapping[str, Callable[..., Any]] | None, InstanceOf((Mapping,), "a dict from names to functions") | None
]


@checked
def save(
    model: Annotated[BaseEstimator, InstanceOf((BaseEstimator,), "an estimator or a pipeline")],
    path: FilePath,
    *,
    training_rows: Annotated[bool | None, Flag() | None] = None,
) -> Path:
    """Write a fitted estimator, or a scikit-learn pipeline around one, to a file.

    Parameters
    ----------
    model : estimator
        Of kernels of Python functions (`Custom`, `Pairwise`) the file has the name, and no code; see `load`.
    path : path
        Written under a temporary name first, so that a full disk leaves an older file untouched.
    training_rows : bool or None, default=None
        Whether the file contains the training rows and their targets. None: only if predictions need them. Those of
        linear kernels and of other kernels with explicit features (`Categorical`, `Nystroem`, kernels of texts, ...)
        follow from coefficients, unless new rows may lack a view.

    Returns
    -------
    Path
        The file.

    Notes
    -----
    A model that was saved without its training rows predicts the same, and has the same contributions of kernels and
    certificate. What needs the rows raises an error: `return_std`, `calibrate`, `dual_coef_`, and those functions of
    `kw.inspection` that are not given rows. If no folds chose the regularisation parameter, so do intervals, sets and
    probabilities that the loss does not give, unless one of them was computed before. Some rows are part of a model:
    the pivots of `Nystroem`, and those from which ``"impute-nearest"`` fills cells, which are all
    training rows without their targets.

    Raises
    ------
    InputError
        If `training_rows` is False and predictions need them; if kernels of different functions have one name, or a
        function has none; if the model has parts that could not be loaded without
        running code, or parts of other packages (such as a pipeline), and skops (the extra `save`) is missing.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, kernelweave as kw
    >>> X = np.arange(20.0)[:, None]
    >>> model = kw.MKLRegressor(kw.banks.linear_features(1)).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = kw.load(kw.save(model, pathlib.Path(folder) / "model.skops"))
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    target = archive.check_place(path)
    state, things = _take_apart(model, training_rows)
    with archive.whole_file(target) as name:
        archive.write(name, state, foreign.write(things) if things else None)
    return target


def _take_apart(model: Any, training_rows: bool | None) -> tuple[dict[str, Any], list[Any]]:
    """The state of a model, and its parts of other packages, in which numbers replace ours."""
    things: list[Any] = []
    held: list[states.State] = []
    functions: dict[str, Any] = {}

    def outside(value: Any) -> states.State:
        if isinstance(value, states.FUNCTIONS):
            return _reference(value, functions)
        index = len(things)
        things.append(None)
        things[index] = foreign.traded(value, inside)
        return {"kind": "foreign", "index": index}

    def inside(value: Any) -> Fitted:
        if not states.is_known(value):
            return value
        index = len(held)
        held.append(None)
        held[index] = states.to_state(value, outside, training_rows)
        return {"kernelweave": index}

    state = states.to_state(model, outside, training_rows)
    return {"format": FORMAT, "model": state, "held": held}, things


def _reference(kernel: Any, functions: dict[str, Any]) -> states.State:
    """The state of a kernel of a Python function, which refers to the function by the name of the kernel."""
    name = kernel._short()
    if name == "<lambda>":
        raise InputError(
            f"A model file refers to a function by name, and {kernel!r} has none. Name it: "
            f"{type(kernel).__name__}(function, name='overlap')."
        )
    own = kernel.function, kernel.diagonal
    if functions.setdefault(name, own) != own:
        raise InputError(
            f"A model file refers to functions by name, and two of them are called {name!r}. Name their kernels: "
            f"{type(kernel).__name__}(function, name='overlap')."
        )
    given = {"name": kernel.name, "repair": kernel.repair}
    return {"kind": "function", "of": type(kernel).__name__, "function": name, **given}


def _of_function(state: states.State, functions: Mapping[str, Any], used: set[str]) -> Any:
    """The kernel of a Python function that was handed over."""
    name = state["function"]
    if name not in functions:
        raise InputError(
            f"This model has a kernel of the Python function {name!r}, and model files contain no code. Hand it over: "
            f"kernelweave.load(path, functions={{{name!r}: function}})."
        )
    if not callable(functions[name]):
        raise InputError(f"`functions[{name!r}]` must be a function, got {shown(functions[name])}.")
    used.add(name)
    (kind,) = [one for one in states.FUNCTIONS if one.__name__ == state["of"]]
    given: Any = functions[name]
    options = {"name": state["name"] or name, "repair": state["repair"]}
    if isinstance(given, states.FUNCTIONS):
        # a kernel may have a function of the diagonal too
        options |= {} if given.diagonal is None else {"diag": given.diagonal}
        given = given.function
    return kind(given, **options)


def _put_together(content: dict[str, Any], things: list[Any], functions: Mapping[str, Any]) -> Any:
    """The model described by `_take_apart`."""
    used: set[str] = set()

    def outside(state: states.State) -> Any:
        if state["kind"] == "function":
            return _of_function(state, functions, used)
        return foreign.traded(things[state["index"]], inside)

    def inside(value: Any) -> Any:
        if type(value) is dict and value.keys() == {"kernelweave"}:
            part = content["held"][value["kernelweave"]]
            if not isinstance(part, dict):
                raise TypeError(f"it holds a {type(part).__name__} in place of a model")
            return states.from_state(part, outside)
        return value

    found = states.from_state(content["model"], outside)
    if not hasattr(found, "get_params"):
        raise TypeError(f"it holds a {type(found).__name__} in place of an estimator")
    if unknown := sorted(functions.keys() - used):
        raise InputError(
            f"`functions` has {unknown[0]!r}, and the model has "
            + (
                f"kernels of the functions {', '.join(map(repr, sorted(used)))}"
                if used
                else "none of functions"
            )
            + ". Leave it out."
        )
    return found


@checked
def load(path: FilePath, *, functions: Functions = None) -> Fitted:
    """Read a model written by `save`; nothing in the file is executed.

    Parameters
    ----------
    path : path
        The file.
    functions : dict of str to callable, or None, default=None
        The functions of `Custom` and `Pairwise` kernels by the names of these, which label them in `kernel_names_`: the
        function with which the model was fitted, or the kernel, which is needed where it has a `diag`. The values of a
        few training rows are compared with those of the file, unless some rows lack a view.

    Returns
    -------
    estimator

    Raises
    ------
    InputError
        If a function is missing, or has other values than when the model was saved; if the file is not a model of this
        package, contains types that are not allowed, or was changed: it ends with a
        digest of its content. Files of version 0.1 are no longer read: load them with version 0.2, and save them again.
    FileNotFoundError
        If there is no such file.
    """
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"There is no model file {source}.")
    if source.is_dir():
        raise InputError(f"{source} is a folder. Name the model file in it.")
    with source.open("rb") as file:
        sealed = archive.is_sealed(file, source)
        try:
            return _read(file, source, sealed, functions or {})
        except InputError:
            raise
        except Exception as error:
            # the parsers of archives, JSON and arrays may raise anything for what somebody else has made
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"{source} is not a model file written by kernelweave.save, or damaged ({reason})."
            ) from error


def _read(file: IO[bytes], source: Path, sealed: bool, functions: Mapping[str, Any]) -> Any:
    content, things = archive.read(file)
    if not isinstance(content, dict) or content.get("format") not in FORMATS:
        raise InputError(f"{source} is not a model file written by this version of kernelweave.save.")
    if not sealed:
        raise InputError(f"{source} is damaged: its digest is missing. Copy it from its source again.")
    return _put_together(content, [] if things is None else foreign.read(things, source), functions)
