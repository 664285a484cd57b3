"""The settings that a fit has used, for reports: nothing that was not asked for and did nothing."""

from __future__ import annotations

from kernelweave_app.runs.fitting import OF_PATHS, chosen, fits_plainly, path_setting
from kernelweave_app.runs.preparing import Prepared
from kernelweave_app.runs.spec import Spec, applies, own_fields

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


def used_settings(spec: Spec, prepared: Prepared, *, n_missing: int = 0) -> dict[str, str]:
    """Settings by their labels, those that had an effect.

    Parameters
    ----------
    spec : Spec
        As it was asked for.
    prepared : Prepared
    n_missing : int, default=0
        Missing cells.

    Returns
    -------
    dict of str to str
    """
    now = chosen(spec, prepared.task)
    unused = {"Cs" if path_setting(now.method) == "alphas" else "alphas"}
    if fits_plainly(spec):
        unused |= {*OF_PATHS}
    if not n_missing:
        unused |= {"missing", "missing_views"}
    elif len(prepared.views) < 2:
        unused.add("missing_views")
    unused |= {name for name in SILENT if not now.differs(name)}
    found = {}
    for name, field in own_fields().items():
        value = getattr(now, name)
        if name not in unused and value not in ("", [], {}) and applies(field, spec, prepared.task):
            found[field.label] = said(value)
    return found


def said(value: object) -> str:
    """A value in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {said(part)}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
