"""What was missing among training rows, and what was done about it, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from kernelweave._drawing import percent
from kernelweave._parameters import Whole, checked
from kernelweave.inspection.arguments import Model
from kernelweave.inspection.registry import Basis, Finding, Interval, Sentence, finding

__all__ = ["missing"]


@checked
def missing(estimator: Model, *, most: Annotated[int, Whole(1)] = 5) -> list[str]:
    """Sentences about missing cells and missing views of the training rows, and about what was done.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Whose kernels and weights are looked at.
    most : int, default=5
        Names in a sentence; of more it says how many.

    Returns
    -------
    list of str
        None where nothing was missing.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.array([[0.0, 1.0], [1.0, np.nan], [2.0, 0.0], [3.0, 1.0]])
    >>> model = kw.MKLRegressor([kw.kernels.Linear()], alpha=1.0, missing="impute").fit(X, [0.0, 1.0, 2.0, 3.0])
    >>> print(missing(model)[0].split(":")[0])
    1 missing cell among 4 training rows, in column 1 (1)
    """
    found = getattr(estimator, "missing_", None)
    if found is None:
        return []
    out, n = [], found["n_rows"]
    if found["cells"]:
        total = sum(found["cells"].values())
        out.append(
            f"{total} missing cell{'s' if total > 1 else ''} among {n} training rows, in "
            f"{_most(found['cells'], most)}: {found['cells_done']}."
        )
    if found["views"]:
        out.append(
            f"Of {n} training rows some lack views, {_most(found['views'], most)}: {found['views_done']}."
        )
    residuals = found.get("residuals", {})
    if residuals:
        worst = max(residuals, key=residuals.__getitem__)
        kernels = "1 kernel" if len(residuals) == 1 else f"{len(residuals)} kernels"
        out.append(
            f"Negative eigenvalues of {kernels} were set to zero, which took away at most "
            f"{percent(residuals[worst], 2)} of a matrix (in the Frobenius norm; {worst})."
        )
    return out


def _most(counts: Mapping[str, int], most: int) -> str:
    order = sorted(counts, key=lambda name: -counts[name])
    named = ", ".join(f"{name} ({counts[name]})" for name in order[:most])
    return named + (f" and {len(order) - most} more" if len(order) > most else "")


@finding("missing", title="Missing cells and views", needs=("model",))
def _missing(basis: Basis) -> Finding | None:
    said = missing(basis.model, most=20)
    if not said:
        return None
    counts = {**basis.model.missing_["cells"], **basis.model.missing_["views"]}
    return Finding(
        {str(name): Interval(float(count)) for name, count in counts.items()},
        "Missing cells of columns, and rows that lack a view.",
        n=basis.model.missing_["n_rows"],
        sampled="training rows",
        sentences=tuple(Sentence("missing", text) for text in said),
    )
