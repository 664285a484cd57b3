"""The settings that a fit has used, for reports: nothing that was not asked for and did nothing."""

from __future__ import annotations

from kernelweave_app.runs.fitting import OF_PATHS, chosen, fits_plainly, path_setting
from kernelweave_app.runs.preparing import Prepared
from kernelweave_app.runs.spec import FitSpec

#: Settings of classes only.
OF_CLASSES = ("stratify", "balanced", "class_weights", "probabilities")
#: Settings whose default means that nothing is done.
SILENT = (
    "balanced",
    "dense",
    "transductive",
    "nested",
    "rank_tol",
    "n_features",
    "repeats",
    "probabilities",
    "drop",
)


def used_settings(spec: FitSpec, prepared: Prepared, *, n_missing: int = 0) -> dict[str, str]:
    """Settings by their labels, those that had an effect.

    Parameters
    ----------
    spec : FitSpec
        As it was asked for.
    prepared : Prepared
    n_missing : int, default=0
        Missing cells.

    Returns
    -------
    dict of str to str
    """
    now = chosen(spec, prepared.task)
    unused = {"learner_params", "Cs" if path_setting(now.method) == "alphas" else "alphas"}
    if prepared.task == "regression":
        unused |= set(OF_CLASSES)
    if fits_plainly(spec):
        unused |= set(OF_PATHS) | {"alphas", "Cs"}
    if spec.holdout:
        unused.add("test_size")
    else:
        unused.add("holdout_values")
    if not spec.join:
        unused |= {"rows", "key"} if not spec.key else {"rows"}
    if not n_missing:
        unused |= {"missing", "missing_views"}
    elif len(prepared.views) < 2:
        unused.add("missing_views")
    fields = FitSpec.model_fields
    unused |= {name for name in SILENT if getattr(now, name) == fields[name].default}
    if spec.group:
        unused.add("stratify")
    found = {}
    for name in fields:
        value = getattr(now, name)
        if name in unused or value in ("", [], {}):
            continue
        found[str(fields[name].title)] = said(value)
    return found


def said(value: object) -> str:
    """A value in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {said(part)}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
