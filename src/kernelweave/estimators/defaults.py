"""What estimators take where nothing was said: kernels, their scale, the learner and C; and how that is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kernelweave import recipe
from kernelweave.estimators.parameters import Parameters
from kernelweave.estimators.routes import Route, approximation_of, described, fitted_maps
from kernelweave.fitting.model import Model
from kernelweave.fitting.source import Source
from kernelweave.fitting.task import NormalizedProblem, SolvedProblem

Array = NDArray[np.float64]

#: Kernels with weights that are told, at most.
TOLD = 12

NORMALIZERS_SAID = {
    "center": "'center', each kernel less its mean in feature space, then divided by the mean of its diagonal.",
    "mean-diagonal": "'mean-diagonal', each kernel divided by the mean of its diagonal.",
}
LEARNERS_SAID = {
    "LpMKL": "'lp' with p = 2, a support vector machine whose kernel weights have a 2-norm of at most 1: all kernels "
    "take part, good ones more.",
    "RLS2": "'rls2', least squares with kernel weights on the simplex: few kernels take part.",
}

NO_DEFAULTS = "Nothing was left to a default: kernels, normalize and learner were all stated."
OTHERWISE = "To choose otherwise, state it: kernels=, normalize=, learner=, C= or alpha=."


class DefaultsMixin(Parameters):
    """What is taken where `kernels`, `normalize`, `learner` or `C` were left out."""

    model_: Model
    defaults_: dict[str, Any]
    gram_: str
    feature_coef_: Array
    approximation_: dict[str, Any]
    _recipe_found: dict[str, list[str]]
    _route: Route

    def _default_normalizer(self) -> Any:
        """The normaliser that was asked for; "auto" is that of the recipe, or "mean-diagonal" for other kernels."""
        if not (isinstance(self.normalize, str) and self.normalize == "auto"):
            return self.normalize
        return recipe.NORMALIZER if self._is_plain else "mean-diagonal"

    def _tell_defaults(self, problems: list[NormalizedProblem], source: Source[Any]) -> None:
        """Keep in plain values what was taken where nothing was stated."""
        told: dict[str, Any] = {}
        if self._is_plain:
            told["views"] = self._recipe_found
            told["left_out"] = left_out(problems[0], source.names)
            del self._recipe_found
        if isinstance(self.normalize, str) and self.normalize == "auto":
            told["normalize"] = NORMALIZERS_SAID[str(self._default_normalizer())]
        if self.learner is None:
            told["learner"] = LEARNERS_SAID[type(self._default_learner()).__name__]
        self.defaults_ = told

    def _tell_route(self, model: Model, solved: list[SolvedProblem]) -> None:
        """Say how kernels were held, and what was left out of them."""
        route = self._route
        del self._route
        said = [solved[0].problem.gram.describe(), described(model.source)]
        self.gram_ = ", ".join(part for part in said if part) + (f"; {route.said}" if route.said else "")
        if route.said:
            self.defaults_ = {**self.defaults_, "approximation": self.gram_}
        if fitted_maps(model.source):
            self.approximation_ = approximation_of(model.task, solved, model.learner)
        if model.features is not None:
            self.feature_coef_ = model.features.coef[:, 0] if model.flat else model.features.coef

    def explain_defaults(self) -> str:
        """Say in words what was taken where nothing was stated, and why.

        Returns
        -------
        str
            Several lines: what every table or view holds and which kernels follow, their widths, kernels left out as
            noise, how kernels are brought to one scale, the learner, and how C or alpha was chosen.

        Examples
        --------
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(40, 3))
        >>> model = kw.MKLClassifier().fit(X, X[:, 0] > 0)
        >>> print(model.explain_defaults().splitlines()[0])
        Kernels, chosen by what the 40 training rows hold:
        """
        check_is_fitted(self)
        told = getattr(self, "defaults_", None) or {}
        lines = _kernel_lines(told, self.model_) if "views" in told else []
        if "normalize" in told:
            lines.append(f"Scale of kernels: {told['normalize']}")
        if "learner" in told:
            lines.append(f"Learner: {told['learner']}")
        if "approximation" in told:
            lines.append(f"Approximation: {told['approximation']}.")
        lines += [f"Regularisation: {text}" for text in [told.get("choice")] if text]
        return "\n".join([*lines, OTHERWISE]) if lines else NO_DEFAULTS


def stated(defaults: DefaultsMixin) -> dict[str, Any]:
    """Parameters that an estimator takes where they were left out, for one whose kernels are stated."""
    return {"normalize": defaults._default_normalizer(), **defaults._stated_learner()}


def _kernel_lines(told: Mapping[str, Any], model: Model) -> list[str]:
    n = model.source.n_samples
    lines = [f"Kernels, chosen by what the {n} training rows hold:"]
    for view, found in told["views"].items():
        lines += [f"  {f'{view}: ' if view else ''}{sentence}" for sentence in found]
    lines.append("  With their numbers:")
    names = list(model.source.names)
    lines += [f"    {name}" for name in names[:TOLD]]
    if len(names) > TOLD:
        lines.append(f"    and {len(names) - TOLD} more")
    for reason, left in told.get("left_out", {}).items():
        lines.append(f"  Left out before learning, because {reason}: {', '.join(left)}.")
    if not told.get("left_out"):
        lines.append("  None of them was left out as noise.")
    return lines


SPREAD_REASON = "rows hardly resemble each other in them"
CHANCE_REASON = "they agree with the target no more than chance"


def left_out(problem: NormalizedProblem, names: Sequence[str]) -> dict[str, list[str]]:
    """Names of kernels that were left out, by the reason."""
    found = {SPREAD_REASON: problem.spread, CHANCE_REASON: problem.chance}
    return {reason: [str(names[m]) for m in some] for reason, some in found.items() if len(some)}
