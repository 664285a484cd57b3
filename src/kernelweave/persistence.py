"""Model files that load without running code (skops)."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

from kernelweave._checks import InputError

__all__ = ["load", "save"]

FORMAT = "kernelweave model 1"

#: The only types, beyond arrays and plain values, that a model file may hold. Everything else is refused by skops.
TRUSTED = (
    "kernelweave.assembly.BankSource",
    "kernelweave.assembly.KernelBank",
    "kernelweave.assembly.StackSource",
    "kernelweave.assembly.TableSource",
    "kernelweave.calibration.Calibration",
    "kernelweave.estimators.MKLClassifier",
    "kernelweave.estimators.MKLRegressor",
    "kernelweave.kernels.ArcCosine",
    "kernelweave.kernels.Categorical",
    "kernelweave.kernels.Constant",
    "kernelweave.kernels.Laplacian",
    "kernelweave.kernels.Linear",
    "kernelweave.kernels.On",
    "kernelweave.kernels.Polynomial",
    "kernelweave.kernels.Product",
    "kernelweave.kernels.RBF",
    "kernelweave.kernels.Scaled",
    "kernelweave.kernels.Sum",
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
    "kernelweave.learners.radius.GaussianWidths",
    "kernelweave.learners.radius.RKL",
    "kernelweave.learners.rls2.RLS2",
    "kernelweave.model_selection.MKLClassifierCV",
    "kernelweave.model_selection.MKLRegressorCV",
    "kernelweave.normalizers.Center",
    "kernelweave.normalizers.Cosine",
    "kernelweave.normalizers.FeatureNorm",
    "kernelweave.normalizers.FittedNormalizer",
    "kernelweave.normalizers.MeanDiagonal",
    "kernelweave.normalizers.NoNormalizer",
    "kernelweave.normalizers.Trace",
    "kernelweave.normalizers.WithinClass",
    "kernelweave.solvers.layers.Angle",
    "kernelweave.solvers.layers.Exponential",
    "kernelweave.solvers.layers.Gaussian",
    "kernelweave.solvers.layers.Identity",
    "kernelweave.solvers.layers.Power",
    "kernelweave.solvers.layers.TrainedLayers",
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


def save(model: Any, path: str | os.PathLike[str]) -> Path:
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
        If the model holds something that could not be loaded without running code.
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
    import skops.io

    target = Path(path)
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
        os.replace(name, target)
    finally:
        name.unlink(missing_ok=True)
    return target


def load(path: str | os.PathLike[str]) -> Any:
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
        If the file is no model of this package, or holds types that it should not.
    FileNotFoundError
        If there is no such file.
    """
    import zipfile

    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"There is no model file {source}.")
    try:
        content = skops.io.load(source, trusted=list(TRUSTED))
    except UntrustedTypesFoundException as error:
        raise InputError(f"{source} holds types that a model file must not hold: {error}") from error
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
        raise InputError(f"{source} is not a model file written by kernelweave.save ({error}).") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{source} is not a model file written by kernelweave.save.")
    return content["model"]
