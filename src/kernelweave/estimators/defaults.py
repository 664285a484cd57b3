"""What estimators take where nothing was said: kernels, their scale, the learner and C; and how that is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from kernelweave import learners, recipe
from kernelweave._checks import InputError
from kernelweave.banks import DefaultViews
from kernelweave.estimators.routes import Route, approximation_of, described, fitted_maps
from kernelweave.fitting.base import Source
from kernelweave.fitting.costs import score_costs
from kernelweave.fitting.folds import negative_squared_error
from kernelweave.fitting.model import Model
from kernelweave.fitting.task import Setup, Solved, Task
from kernelweave.learners.folds import deal
from kernelweave.mkl.weight_sets import LpBall

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Kernels with weights that are told, at most.
TOLD = 12
#: Folds that choose C.
N_FOLDS = 5

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


def default_learner(
    *, plain: bool, classes: bool, has_alpha: bool = False, has_cost: bool = False
) -> tuple[str, dict[str, Any]]:
    """The learner where none was named: that of the recipe, or "rls2" for kernels of one's own or an alpha.

    Parameters
    ----------
    plain : bool
        Whether kernels were left to the recipe.
    classes : bool
        Whether classes are to be predicted.
    has_alpha, has_cost : bool
        Whether values of alpha, or of C, were given.

    Returns
    -------
    name : str
    params : dict
        Parameters other than the learner's own defaults.
    """
    if has_alpha or not plain:
        return "rls2", {}
    name, params = recipe.CLASSIFICATION if classes or has_cost else recipe.REGRESSION
    return name, dict(params)


class DefaultsMixin(BaseEstimator):
    """What is taken where `kernels`, `normalize`, `learner` or `C` were left out."""

    kernels: Any
    learner: Any
    normalize: Any
    C: float | str | None
    alpha: float | str | None
    model_: Model
    defaults_: dict[str, Any]
    gram_: str
    feature_coef_: Array
    approximation_: dict[str, Any]
    _recipe_found: dict[str, list[str]]
    _route: Route
    #: What `BaseMKL` does with a path.
    _search: Any
    _finish_path: Any

    @property
    def _is_plain(self) -> bool:
        """Whether kernels were left to the recipe."""
        return self.kernels is None or isinstance(self.kernels, DefaultViews)

    def _default_learner(self) -> learners.Learner:
        """The learner where none was named: that of the recipe, or "rls2" for kernels of one's own or an alpha."""
        name, params = default_learner(
            plain=self._is_plain,
            classes=isinstance(self, ClassifierMixin),
            has_alpha=self.alpha is not None or getattr(self, "alphas", None) is not None,
            has_cost=self.C is not None or getattr(self, "Cs", None) is not None,
        )
        return learners.LEARNERS[name](**params)

    def _named_learner(self) -> learners.Learner:
        """The learner by its name or as it was given, before `C` and `alpha`."""
        return self._default_learner() if self.learner is None else learners.resolve(self.learner)

    def _stated_learner(self) -> dict[str, Any]:
        """Parameters that state the learner, where none was named, and a C that is chosen for it."""
        if self.learner is not None:
            return {}
        learner = self._default_learner()
        chosen = self.C is None and self._chooses_cost(learner)
        return {"learner": learner, "C": "auto"} if chosen else {"learner": learner}

    def _learner_for(self, asked: Collection[str]) -> dict[str, Any]:
        """Parameters with which those of the learner can be set, and no other changes its meaning."""
        # an object is not checked: this may be the call that repairs it
        learner = self.learner if isinstance(self.learner, learners.Learner) else self._named_learner()
        kind, known = type(learner).__name__, learner.get_params(deep=False)
        unknown = [name for name in asked if name not in known]
        if unknown and self.learner is None:
            others = [
                name
                for name, other in learners.LEARNERS.items()
                if unknown[0] in other().get_params(deep=False)
            ]
            named = f" or name a learner that has it: {', '.join(map(repr, others))}" if others else ""
            raise InputError(
                f"Invalid parameter `learner__{unknown[0]}`: no learner was named, so it is {kind} here. Set one of "
                f"its parameters ({', '.join(known)}){named}."
            )
        parameter = learner.regularization_parameter
        if parameter in asked and hasattr(self, f"{parameter}s"):
            plain = "MKLClassifier" if isinstance(self, ClassifierMixin) else "MKLRegressor"
            raise InputError(
                f"`learner__{parameter}` would have no effect, because {type(self).__name__} chooses {parameter} by "
                f"cross-validation. Set {parameter}s=[...], the values to try, or use {plain}."
            )
        if parameter in asked and (value := getattr(self, parameter)) is not None:
            raise InputError(
                f"`learner__{parameter}` would have no effect, because {parameter}={value!r} of the estimator is taken "
                f"in place of it. Set {parameter} itself, or {parameter}=None in the same call."
            )
        if isinstance(self.learner, learners.Learner):
            return {}
        found = {"learner": learner, **self._stated_learner()}
        if parameter in asked:
            found.pop("C", None)
        return found

    def _default_normalizer(self) -> Any:
        """The normaliser that was asked for; "auto" is that of the recipe, or "mean-diagonal" for other kernels."""
        if not (isinstance(self.normalize, str) and self.normalize == "auto"):
            return self.normalize
        return recipe.NORMALIZER if self._is_plain else "mean-diagonal"

    def _chooses_cost(self, learner: learners.Learner) -> bool:
        """Whether C is chosen by folds."""
        if self.C is not None:
            return isinstance(self.C, str)
        plain = self.learner is None and self._is_plain and not hasattr(self, "Cs")
        return plain and learner.regularization_parameter == "C"

    def _tell_defaults(self, setups: list[Setup], source: Source[Any]) -> None:
        """Keep in plain values what was taken where nothing was stated."""
        told: dict[str, Any] = {}
        if self._is_plain:
            told["views"] = self._recipe_found
            told["left_out"] = left_out(setups[0], source.names)
            del self._recipe_found
        if isinstance(self.normalize, str) and self.normalize == "auto":
            told["normalize"] = NORMALIZERS_SAID[str(self._default_normalizer())]
        if self.learner is None:
            told["learner"] = LEARNERS_SAID[type(self._default_learner()).__name__]
        self.defaults_ = told

    def _tell_route(self, model: Model, solved: list[Solved]) -> None:
        """Say how kernels were held, and what was left out of them."""
        route = self._route
        del self._route
        said = [solved[0].setup.gram.describe(), described(model.source)]
        self.gram_ = ", ".join(part for part in said if part) + (f"; {route.said}" if route.said else "")
        if route.said:
            self.defaults_ = {**self.defaults_, "approximation": self.gram_}
        if fitted_maps(model.source):
            self.approximation_ = approximation_of(model.task, solved, model.learner)
        if model.features is not None:
            self.feature_coef_ = model.features.coef[:, 0] if model.flat else model.features.coef

    def _tell_choice(self, said: str) -> None:
        if self.C == "auto" or self.learner is None:
            self.defaults_ = {**self.defaults_, "choice": said}

    def _solve_with_cost(
        self, task: Task, setups: list[Setup], learner: learners.Learner, labels: Array, report: Any
    ) -> Any:
        """Choose C on folds of some of the rows, and solve on all of them."""
        alphas = 1.0 / np.array(recipe.COSTS)
        self.Cs_ = 1.0 / alphas
        rows = cost_rows(task, labels, recipe.COST_ROWS)
        folds = cost_folds(task, labels, rows)
        if len(folds) < 2:
            return self._finish_path(task, setups, learner, alphas, 0, report)
        name, score = cost_score(task, rows)
        settings: dict[str, Any] = {"name": name, "n_rows": len(rows)}
        if self._is_quick(task, learner):
            loss, ball = learner.loss_for(True), LpBall(float(learner.p))
            settings["scored"] = score_costs(
                task, setups, loss, ball, rows, folds, self.Cs_, score, report=report
            )
        else:
            settings["part"] = task if len(rows) == task.source.n_samples else task.take(rows)
            searcher = clone(learner)
            if getattr(searcher, "tol", recipe.COST_TOL) < recipe.COST_TOL:
                searcher.set_params(tol=recipe.COST_TOL)
            settings["searcher"] = searcher
        return self._search(task, setups, learner, folds, alphas, score, "min", report, **settings)

    def _is_quick(self, task: Task, learner: learners.Learner) -> bool:
        """Whether C is chosen with kernels and weights that stay as they are on all folds: for the recipe's learner.

        Its solver is only for losses whose dual is a quadratic program, as that choice needs.
        """
        kind, params = recipe.CLASSIFICATION
        recipes = isinstance(learner, learners.LEARNERS[kind]) and learner.solver == params["solver"]
        return self._is_plain and task.classification and recipes and learner.p > 1

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


def left_out(setup: Setup, names: Sequence[str]) -> dict[str, list[str]]:
    """Names of kernels that were left out, by the reason."""
    found = {SPREAD_REASON: setup.spread, CHANCE_REASON: setup.chance}
    return {reason: [str(names[m]) for m in some] for reason, some in found.items() if len(some)}


def cost_rows(task: Task, labels: Array, most: int) -> Rows:
    """Rows on which C is chosen: all, or some by what rows hold, with the shares of the classes."""
    distinct = int(task.content.max()) + 1
    if distinct <= most:
        return np.arange(task.source.n_samples)
    return deal(task.content, labels, -(-distinct // most), stratify=task.classification)[0]


def cost_score(task: Task, rows: Rows) -> tuple[str, Callable[[Array, Rows], float]]:
    """What C is chosen by on folds of some rows: the share of rows in their class, or minus the squared error."""
    weights = None if task.loss_weight is None else task.loss_weight[rows]
    if not task.classification:
        return "negative squared error", negative_squared_error(
            [target[rows] for target in task.targets], weights
        )
    if task.multilabel:
        labels = np.concatenate(task.targets, axis=1)[rows] > 0

        def share(values: Array, test: Rows) -> float:
            right = (values > 0) == labels[test]
            if weights is not None and weights.ndim == 2:
                return float(np.average(right, axis=0, weights=weights[test]).mean())
            return float(np.average(right.mean(axis=1), weights=None if weights is None else weights[test]))

        return "share of right labels", share
    codes = task.codes[rows]

    def score(values: Array, test: Rows) -> float:
        found = values[:, 0] > 0 if values.shape[1] == 1 else np.argmax(values, axis=1)
        right = found.astype(np.intp) == codes[test]
        return float(np.average(right, weights=None if weights is None else weights[test]))

    return "accuracy", score


def cost_folds(task: Task, labels: Array, rows: Rows) -> list[tuple[Rows, Rows]]:
    """Folds of some rows by what they hold, as positions among them."""
    tests = deal(task.content[rows], labels[rows], N_FOLDS, stratify=task.classification)
    every = np.arange(len(rows))
    return [(np.setdiff1d(every, test), test) for test in tests] if len(tests) > 1 else []


def said_choice(
    results: Mapping[str, Any],
    best: int,
    n_rows: int,
    n_all: int,
    parameter: str,
    *,
    n_candidates: int,
    held: bool = False,
) -> str:
    """How the regularisation parameter was chosen, in words; `held` if kernels and weights were not learnt anew."""
    values = 1.0 / results["alpha"] if parameter == "C" else results["alpha"]
    scores = results["mean_test_score"]
    n_folds = sum(name.startswith("split") for name in results)
    where = f"{n_folds} folds of {n_rows} rows" + (f" of {n_all}" if n_rows < n_all else "")
    if len(values) == 1 < n_candidates:
        # one fold, and fewer rows, chose it
        score = f"{results['score_name']} {scores[0]:.3g} by {where}"
        return f"{parameter} = {values[0]:.3g}, chosen among {n_candidates} values; {score}."
    which = [best] if len(values) > 8 else range(len(values))
    listed = ", ".join(f"{values[k]:.3g}: {scores[k]:.3g}" for k in which)
    among = f"{len(values)} values" if len(values) > 8 else "the values"
    return (
        f"{parameter} = {values[best]:.3g}, the best of {among} by {where}, {results['score_name']} {listed}"
        f"{'; kernels and weights there are those of all rows' if held else ''}."
    )
