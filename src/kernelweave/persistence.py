"""Model files that load without running code (skops)."""

from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
import zipfile
from pathlib import Path
from typing import IO, Annotated, Any

from sklearn.base import BaseEstimator

from kernelweave._checks import InputError
from kernelweave._parameters import InstanceOf, Text, checked

__all__ = ["load", "save"]

FORMAT = "kernelweave model 2"
#: The format of version 0.1, whose files end without a digest.
FORMER = "kernelweave model 1"
#: Before the digest of a whole file, in the comment at the end of the archive.
SEAL = b"kernelweave sha256 "
SEAL_LENGTH = len(SEAL) + 64

#: Modules that have another name than in the files of version 0.1.
MOVED = {
    "kernelweave.assembly": "kernelweave.fitting.source",
    "kernelweave.calibration": "kernelweave.fitting.calibration",
    "kernelweave.estimators": "kernelweave.estimators.base",
    "kernelweave.model_selection": "kernelweave.estimators.cv",
    "kernelweave.solvers.layers": "kernelweave.mkl.layers",
}
#: Classes whose modules were divided since, or that have another name.
MOVED_CLASSES = {
    "kernelweave.kernels.ArcCosine": "kernelweave.kernels.dot.ArcCosine",
    "kernelweave.kernels.Categorical": "kernelweave.kernels.other.Categorical",
    "kernelweave.kernels.Constant": "kernelweave.kernels.other.Constant",
    "kernelweave.kernels.Laplacian": "kernelweave.kernels.stationary.Laplacian",
    "kernelweave.kernels.Linear": "kernelweave.kernels.dot.Linear",
    "kernelweave.kernels.On": "kernelweave.kernels.algebra.On",
    "kernelweave.kernels.Polynomial": "kernelweave.kernels.dot.Polynomial",
    "kernelweave.kernels.Product": "kernelweave.kernels.algebra.Product",
    "kernelweave.kernels.RBF": "kernelweave.kernels.stationary.RBF",
    "kernelweave.kernels.Scaled": "kernelweave.kernels.algebra.Scaled",
    "kernelweave.kernels.Sum": "kernelweave.kernels.algebra.Sum",
    "kernelweave.learners.radius.GaussianWidths": "kernelweave.learners.radius.ARDGaussian",
    "kernelweave.solvers.layers.Angle": "kernelweave.functions.Angle",
    "kernelweave.solvers.layers.Exponential": "kernelweave.functions.Exponential",
    "kernelweave.solvers.layers.Gaussian": "kernelweave.functions.Gaussian",
    "kernelweave.solvers.layers.Identity": "kernelweave.functions.Identity",
    "kernelweave.solvers.layers.Power": "kernelweave.functions.Power",
}

#: The only types, beyond arrays and plain values, that a model file may hold. Everything else is refused by skops.
TRUSTED = (
    "kernelweave.fitting.source.BankSource",
    "kernelweave.fitting.source.KernelBank",
    "kernelweave.fitting.source.StackSource",
    "kernelweave.fitting.source.TableSource",
    "kernelweave.fitting.calibration.Calibration",
    "kernelweave.estimators.base.MKLClassifier",
    "kernelweave.estimators.base.MKLRegressor",
    "kernelweave.kernels.dot.ArcCosine",
    "kernelweave.kernels.other.Categorical",
    "kernelweave.kernels.other.Constant",
    "kernelweave.kernels.stationary.Laplacian",
    "kernelweave.kernels.dot.Linear",
    "kernelweave.kernels.algebra.On",
    "kernelweave.kernels.dot.Polynomial",
    "kernelweave.kernels.algebra.Product",
    "kernelweave.kernels.stationary.RBF",
    "kernelweave.kernels.algebra.Scaled",
    "kernelweave.kernels.algebra.Sum",
    "kernelweave.learners.alignment.Align",
    "kernelweave.learners.alignment.AlignF",
    "kernelweave.learners.alignment.EasyMKL",
    "kernelweave.learners.deep.DMKL",
    "kernelweave.learners.deep.DeepUniform",
    "kernelweave.learners.deep.MLMKL",
    "kernelweave.learners.deep.TwoLayerMKL",
    "kernelweave.learners.margin.BestKernel",
    "kernelweave.learners.margin.LpMKL",
    "kernelweave.learners.margin.SILP",
    "kernelweave.learners.margin.SimpleMKL",
    "kernelweave.learners.margin.SoftMarginMKL",
    "kernelweave.learners.margin.Uniform",
    "kernelweave.learners.radius.ChapelleRadius",
    "kernelweave.learners.radius.DoRadius",
    "kernelweave.learners.radius.ARDGaussian",
    "kernelweave.learners.radius.RKL",
    "kernelweave.learners.rls2.RLS2",
    "kernelweave.estimators.cv.MKLClassifierCV",
    "kernelweave.estimators.cv.MKLRegressorCV",
    "kernelweave.normalizers.Center",
    "kernelweave.normalizers.Cosine",
    "kernelweave.normalizers.FeatureNorm",
    "kernelweave.normalizers.FittedNormalizer",
    "kernelweave.normalizers.MeanDiagonal",
    "kernelweave.normalizers.NoNormalizer",
    "kernelweave.normalizers.Trace",
    "kernelweave.normalizers.WithinClass",
    "kernelweave.functions.Angle",
    "kernelweave.functions.Exponential",
    "kernelweave.functions.Gaussian",
    "kernelweave.functions.Identity",
    "kernelweave.functions.Power",
    "kernelweave.mkl.layers.TrainedLayers",
    "kernelweave.views.ColumnMask",
    "kernelweave.views.ColumnSlice",
    "kernelweave.views.Table",
    "kernelweave.views.TableEncoder",
    # splitters that `cv` may hold
    "sklearn.model_selection._split.GroupKFold",
    "sklearn.model_selection._split.GroupShuffleSplit",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.LeaveOneGroupOut",
    "sklearn.model_selection._split.LeaveOneOut",
    "sklearn.model_selection._split.PredefinedSplit",
    "sklearn.model_selection._split.RepeatedKFold",
    "sklearn.model_selection._split.RepeatedStratifiedKFold",
    "sklearn.model_selection._split.ShuffleSplit",
    "sklearn.model_selection._split.StratifiedGroupKFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.model_selection._split.StratifiedShuffleSplit",
    "sklearn.model_selection._split.TimeSeriesSplit",
)


#: A file.
FilePath = Annotated[str | os.PathLike[str], Text(path=True)]


@checked
def save(
    model: Annotated[Any, InstanceOf((BaseEstimator,), "an estimator or a pipeline")], path: FilePath
) -> Path:
    """Write a fitted estimator, or a scikit-learn pipeline around one, to a file.

    Parameters
    ----------
    model : estimator
        Kernels given by a Python function (`Custom`) cannot be stored.
    path : path
        Written under a temporary name first, so that a full disk leaves an older file untouched.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If the model holds something that could not be loaded without running code, or skops (the extra `save`) is
        missing.
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
    skops = _skops()
    target = Path(path)
    if not target.name or target.is_dir():
        raise InputError(f"`path` must name a file, got the folder {str(target)!r}. Add a name to it.")
    # not by tempfile, whose files nobody else may read
    name = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        try:
            skops.io.dump({"format": FORMAT, "model": model}, name)
            strangers = sorted(set(skops.io.get_untrusted_types(file=name)) - set(TRUSTED))
        except (TypeError, AttributeError) as error:
            raise InputError(f"This model cannot be stored without code: {error}.") from error
        if strangers:
            raise InputError(
                f"This model cannot be stored without code: it holds {', '.join(strangers)}. "
                "Kernels and scorers given as Python functions have to be replaced by named ones."
            )
        _seal(name)
        os.replace(name, target)
    finally:
        name.unlink(missing_ok=True)
    return target


def _skops() -> Any:
    """The package that writes and reads model files."""
    try:
        import skops.io.exceptions
    except ImportError:
        raise InputError("Model files need skops: pip install 'kernelweave[save]'.") from None
    return skops


def _seal(path: Path) -> None:
    """Put the digest of everything before it at the end of a file, where archives have their comment."""
    with path.open("r+b") as file:
        file.seek(-2, os.SEEK_END)
        if file.read(2) != bytes(2):
            raise InputError(
                f"{path} cannot be sealed: skops has left a comment in it. Use another version of skops."
            )
        # an archive says how long its comment is
        file.seek(-2, os.SEEK_END)
        file.write(SEAL_LENGTH.to_bytes(2, "little"))
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.write(SEAL + digest.encode())


@checked
def load(path: FilePath) -> Any:
    """Read a model written by `save`; nothing in the file is executed.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator

    Raises
    ------
    InputError
        If the file is no model of this package, holds types that it should not, or is not what was written: its end
        holds a digest of everything before. Files of version 0.1 have none; what can be seen in their numbers is
        checked.
    FileNotFoundError
        If there is no such file.
    """
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"There is no model file {source}.")
    if source.is_dir():
        raise InputError(f"{source} is a folder. Name the model file in it.")
    with source.open("rb") as file:
        sealed = _is_sealed(file, source)
        content = _read(file, source)
    if not isinstance(content, dict) or content.get("format") not in (FORMAT, FORMER):
        raise InputError(f"{source} is not a model file written by kernelweave.save.")
    if content["format"] == FORMAT and not sealed:
        raise InputError(f"{source} is damaged: its digest is missing. Take it from its source again.")
    if "model" not in content:
        raise InputError(f"{source} is not a model file written by kernelweave.save: it holds no model.")
    if not sealed:
        _check_former(content["model"], source)
    return content["model"]


def _is_sealed(file: IO[bytes], source: Path) -> bool:
    """Whether a file ends with its digest; one of something else is an error."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - SEAL_LENGTH))
    end = file.read()
    if not end.startswith(SEAL):
        return False
    digest, left = hashlib.sha256(), size - SEAL_LENGTH
    file.seek(0)
    while left > 0 and (chunk := file.read(min(left, 2**20))):
        digest.update(chunk)
        left -= len(chunk)
    if end[len(SEAL) :] != digest.hexdigest().encode():
        raise InputError(
            f"{source} is damaged: it is not what its digest says. Take it from its source again."
        )
    return True


def _read(file: IO[bytes], source: Path) -> Any:
    skops = _skops()
    try:
        return skops.io.loads(_with_present_names(file), trusted=list(TRUSTED))
    except skops.io.exceptions.UntrustedTypesFoundException as error:
        raise InputError(f"{source} holds types that a model file must not hold: {error}") from error
    except _broken() as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{source} is not a model file written by kernelweave.save ({reason}).") from error


def _with_present_names(file: IO[bytes]) -> bytes:
    """The content of a model file, in which modules and classes have the names that they have now."""
    file.seek(0)
    out = io.BytesIO()
    with zipfile.ZipFile(file) as given, zipfile.ZipFile(out, "w") as written:
        for name in given.namelist():
            content = given.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                _rename(schema)
                content = json.dumps(schema).encode()
            written.writestr(name, content)
    return out.getvalue()


def _rename(node: Any) -> None:
    """Give every class in a part of a schema the name that it has now."""
    if isinstance(node, dict):
        module, name = node.get("__module__"), node.get("__class__")
        if isinstance(module, str) and isinstance(name, str):
            now = MOVED_CLASSES.get(f"{module}.{name}", f"{MOVED.get(module, module)}.{name}")
            node["__module__"], node["__class__"] = now.rsplit(".", 1)
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _rename(part)


def _check_former(model: Any, source: Path) -> None:
    """Raise if the arrays of a model without a digest hold NaN, or do not belong together."""
    import numpy as np

    for part in [step for _, step in getattr(model, "steps", ())] or [model]:
        if not hasattr(part, "_dual"):
            continue
        try:
            n_rows, n_kernels, n_outputs = (
                part._source.n_samples,
                len(part._source.names),
                part._dual.shape[1],
            )
            table = getattr(part._source, "table", None)
            scales = [n.scale for n in part.normalizers_ if getattr(n, "scale", None) is not None]
            deep = any(part._uppers or ())
            fits = [
                part._dual.shape == (n_rows, n_outputs),
                part.dual_coef_.size == part._dual.size,
                part._intercepts.shape == (n_outputs,),
                part._base_weights.shape[-1] == len(part.kernel_names_) == n_kernels,
                deep or part._effective.shape == (n_outputs, n_kernels),
                deep or part.weights_.shape == part._base_weights.shape,
                deep or all(scale.shape == (n_kernels,) for scale in scales),
                table is None or table.values.shape == (n_rows, part.n_features_in_),
            ]
            held = [part._dual, part._intercepts, part._effective, part._base_weights, part.dual_coef_]
            held += [*scales, *([] if table is None else [table.values])]
            # of deep kernels padded with NaN
            held += [] if deep else [part.weights_]
            fits += [bool(np.isfinite(array).all()) for array in held]
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise InputError(f"{source} is damaged: {error}. Take it from its source again.") from error
        if not all(fits):
            raise InputError(
                f"{source} is damaged: its arrays hold NaN or do not belong together. Take it from its source again."
            )


def _broken() -> tuple[type[BaseException], ...]:
    """What parsers of archives, of JSON and of arrays raise where these are damaged."""
    import struct
    import tokenize
    import zlib

    return (
        ArithmeticError,
        AttributeError,
        EOFError,
        ImportError,
        LookupError,
        MemoryError,
        OSError,
        RuntimeError,
        SyntaxError,
        TypeError,
        ValueError,
        struct.error,
        tokenize.TokenError,
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        zlib.error,
    )
