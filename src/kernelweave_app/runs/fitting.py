"""From a `Spec` and a prepared table to a fitted model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np

from kernelweave import normalizers, recipe
from kernelweave._checks import COSTS, InputError, check_known
from kernelweave._forms import names_in
from kernelweave._parameters import check_value
from kernelweave._types import BaseCrossValidator, Labels
from kernelweave.estimators import BaseMKL
from kernelweave.estimators.choosing import N_FOLDS
from kernelweave.estimators.survival import COSTS as SURVIVAL_COSTS
from kernelweave.kernels import MAPS, FeatureMap
from kernelweave.kernels.stationary import Width
from kernelweave.learners import LEARNERS, Learner
from kernelweave.mkl.path import check_alphas
from kernelweave.normalizers import Normalizer
from kernelweave_app.runs.further_views import Tables
from kernelweave_app.runs.kernels_of import is_plain, make_kernels
from kernelweave_app.runs.preparing import Array, Prepared, Rows
from kernelweave_app.runs.settings import learner_of, learner_settings, settled
from kernelweave_app.runs.spec import DEFAULT, SURVIVAL, Spec, chosen, plain_kernels

#: Rules of `normalize` that can use further rows.
TRANSDUCTIVE = ("mean-diagonal", "trace", "norm", "center")
#: Settings whose other values ask for a path, or for folds other than those of a plain fit.
OF_PATHS = ("alphas", "Cs", "cv", "splits", "repeats", "stratify", "rule")
#: Regularisation parameters on a path.
MOST_ALPHAS = 1000
#: Folds on which a score is tried.
MOST_FOLDS = 200


def path_setting(method: str) -> str:
    """The setting that holds the path of a learner: `Cs` if it has a C, else `alphas`."""
    return "Cs" if learner_of(method).regularization_parameter == "C" else "alphas"


def parse_path(spec: Spec) -> tuple[dict[str, Array | None], int]:
    """Regularisation parameters of a spec for CV estimators and paths (None: automatic), and their number."""
    name = path_setting(spec.method)
    values, number = parse_values(name, getattr(spec, name))
    return {name: values}, number


def parse_values(name: str, text: str) -> tuple[Array | None, int]:
    """Values of the setting `alphas` or `Cs`, from strong to weak regularisation, or None, and their number."""
    text = text.strip()
    ends, listed = text.split(":"), "," in text or "." in text or "e" in text.lower()
    values: Array | None = None
    try:
        if len(ends) == 1 and listed:
            values = np.array([float(part) for part in text.split(",") if part.strip()])
        number = int(ends[-1]) if values is None else len(values)
        if not 1 <= number <= MOST_ALPHAS:
            raise InputError(f"`{name}` must ask for 1 to {MOST_ALPHAS} values, got {number!s:.20}.")
        if len(ends) > 1:
            low, high, _ = ends
            with np.errstate(all="ignore"):  # numbers that are not finite are refused afterwards
                values = np.geomspace(float(high), float(low), number)
    except InputError:
        raise
    except ValueError:
        raise InputError(
            f"`{name}` must be a number of values, 'low:high:number' or a list such as '0.1,1,10', got {text!r}."
        ) from None
    if values is None:
        return None, number
    if not np.isfinite(values).all():
        raise InputError(f"`{name}` must hold finite numbers, got {text!r:.60}.")
    if name == "alphas":
        return check_alphas(values), number
    return np.unique(check_value(COSTS, name, values)), number


def parse_gamma(text: str) -> float | str | tuple[str, float] | None:
    """The setting `gamma`: a number, a rule, or a multiple of one; None for none."""
    if not text.strip():
        return None
    factor, _, rule = (part.strip() for part in text.rpartition("*"))
    try:
        value: Any = rule if factor or rule in ("median", "scale") else float(rule)
        return check_value(Width(), "gamma", (rule, float(factor)) if factor else value)
    except InputError:
        raise
    except ValueError:
        raise InputError(
            f"Setting `gamma` must be a number, median, scale, or a multiple such as 4*median, got {text!r:.60}."
        ) from None


def fits_plainly(spec: Spec) -> bool:
    """Whether the learner and its regularisation parameter are left to a plain fit, without a path of one's own."""
    return spec.survival or (
        spec.method == DEFAULT
        and plain_kernels(spec.kernels)
        and not any(spec.differs(name) for name in OF_PATHS)
    )


def plain_learner(spec: Spec, task: str) -> tuple[Learner | None, dict[str, str]]:
    """The learner of a plain fit, None for that of the estimator, and what chooses C with parameters of one's own."""
    now = chosen(spec, task)
    cost = learner_of(now.method).regularization_parameter == "C"
    parallel = not cost and spec.jobs != 1
    if not settled(now.method, spec.learner_params) and not parallel:
        return None, {}
    learner = make_learner(now)
    if parallel:
        learner.set_params(n_jobs=spec.jobs)
    return learner, {"C": "auto"} if cost else {}


def describe_choice(spec: Spec, task: str) -> str:
    """How the regularisation parameter is chosen, in words."""
    if spec.survival:
        return f"{chosen(spec, task).method}, with C by {N_FOLDS} folds"
    if fits_plainly(spec):
        now = chosen(spec, task)
        what = "C" if path_setting(now.method) == "Cs" else "alpha"
        folds = f"{N_FOLDS} folds" + (f" that keep rows of one {spec.group} together" if spec.group else "")
        return f"{now.method}, as a plain fit chooses, with {what} by {folds}"
    what = f"{spec.cv} random divisions" if spec.splits == "random" else f"{spec.cv} folds"
    what += f", repeated {spec.repeats} times" if spec.repeats > 1 else ""
    if spec.group:
        what += f", that keep rows of one {spec.group} together"
    elif task == "classification" and spec.stratify:
        what += " with the same fractions of classes"
    return f"The regularisation parameter is chosen by {what}"


def count_alphas(spec: Spec, task: str) -> tuple[int, int]:
    """Number of regularisation parameters of a fit, and of the folds that choose among them."""
    now = chosen(spec, task)
    if not fits_plainly(spec):
        return parse_path(now)[1], spec.cv * spec.repeats
    if spec.survival:
        return (1, 0) if spec.differs("Cs") else (len(SURVIVAL_COSTS), N_FOLDS)
    learner = make_learner(now)
    if learner.regularization_parameter == "C":
        return len(recipe.COSTS), N_FOLDS
    return learner.n_alphas, learner.n_folds


def make_learner(spec: Spec) -> Learner:
    """The learner of a spec that names one, see `chosen`."""
    params: Any = settled(spec.method, spec.learner_params)
    learner: Learner = learner_of(spec.method)(**params)
    learner.check()
    learner.check_here()
    return learner


def unused_settings(spec: Spec) -> list[str]:
    """Settings given for other learners than that of a spec, which names one, see `chosen`."""
    known = learner_of(spec.method).settings()
    other = "alphas" if path_setting(spec.method) == "Cs" else "Cs"
    unused = [other] if spec.differs(other) else []
    return unused + [name for name in learner_settings() if name in spec.learner_params and name not in known]


def make_cv(spec: Spec, task: str, *, several: bool = False) -> BaseCrossValidator:
    """The splitter of scikit-learn that chooses the regularisation parameter.

    With `several` targets folds do not keep shares of classes.
    """
    from sklearn import model_selection

    stratify = task == "classification" and spec.stratify and not several and not spec.group
    if spec.repeats > 1 and spec.group and spec.splits != "random":
        raise InputError(
            "Repeated folds would be the same groups again. Use one repetition, or random splits."
        )
    seed: dict[str, Any] = {"random_state": spec.seed}
    kind = "Group" if spec.group else "Stratified" if stratify else ""
    if spec.splits == "random":
        options = {"n_splits": spec.cv * spec.repeats, "test_size": round(1 / spec.cv, 6), **seed}
        return getattr(model_selection, f"{kind}ShuffleSplit")(**options)
    if spec.group:
        return model_selection.GroupKFold(spec.cv)
    if spec.repeats > 1:
        repeated = getattr(model_selection, f"Repeated{kind}KFold")
        return repeated(n_splits=spec.cv, n_repeats=spec.repeats, **seed)
    return getattr(model_selection, f"{kind}KFold")(spec.cv, shuffle=True, **seed)


def calibration_cv(spec: Spec, *, several: bool = False) -> BaseCrossValidator | int:
    """What divides the rows into the folds on which probabilities are learnt: with few groups they are fewer."""
    if spec.group:
        return spec.cv
    once = spec.model_copy(update={"splits": "k-fold", "repeats": 1, "stratify": True})
    return make_cv(once, "classification", several=several)


def make_normalizer(spec: Spec, prepared: Prepared, held: Rows) -> str | Normalizer | None:
    """The normaliser of a spec: a name, or with `transductive` a rule with the inputs of held-out rows.

    Without another one it is that of a plain fit.
    """
    name = None if spec.normalize.lower() == "none" else spec.normalize
    if spec.normalize.lower() == "auto":
        name = recipe.NORMALIZER if plain_kernels(spec.kernels) else "mean-diagonal"
    if not spec.transductive:
        return name
    rule = normalizers.resolve(name)
    if not hasattr(rule, "extra"):
        raise InputError(
            f"Setting `transductive` is for {', '.join(TRANSDUCTIVE)}, got normalize={spec.normalize!r}: other rules "
            "do not use further rows. Leave it out."
        )
    if not len(held):
        raise InputError("Setting `transductive` needs held-out rows, and there are none. Leave it out.")
    return type(rule)(**{**rule.get_params(), "extra": prepared.X.iloc[held]})


def make_model(spec: Spec, prepared: Prepared, held: Rows, alpha: float | None = None) -> BaseMKL:
    """The estimator of a spec, not yet fitted.

    Parameters
    ----------
    spec : Spec
    prepared : Prepared
    held : array of int
        Held-out rows; `transductive` uses their inputs.
    alpha : float, optional
        The regularisation parameter of a run that was stopped early, which is not chosen again.
    """
    now = chosen(spec, prepared.task)
    if spec.jobs == 0:
        raise InputError(
            "Setting `jobs`: 0 folds at once is not possible. Use 1, or -1 for one on each core."
        )
    if prepared.task == SURVIVAL:
        return _survival_model(spec, prepared, held, alpha)
    path, n_alphas = parse_path(now)
    if alpha is not None:
        learner = make_learner(now)
        name = learner.regularization_parameter
        learner.set_params(**{name: alpha if name == "alpha" else 1.0 / alpha})
        return assemble(spec, prepared, held, learner)
    if fits_plainly(spec):
        own, choice = plain_learner(spec, prepared.task)
        return assemble(spec, prepared, held, own, choice)
    options = {
        **path,
        "n_alphas": n_alphas,
        "cv": make_cv(spec, prepared.task, several=bool(prepared.names)),
        "rule": spec.rule,
        "n_jobs": spec.jobs,
    }
    return assemble(spec, prepared, held, make_learner(now), options, over_path=True)


#: Settings that survival refuses, and why.
WITHOUT_PATH = {
    "alphas": ", whose regularisation parameter is `Cs`",
    "nested": ": its rows are scored out of fold anyway",
    "rule": ": C is the best of its folds",
    "intercept": ": a constant cancels in the partial likelihood",
}


def survival_learners() -> list[str]:
    """Learners of survival: those that take any loss."""
    return [name for name, kind in LEARNERS.items() if getattr(kind, "any_loss", False)]


def _survival_model(spec: Spec, prepared: Prepared, held: Rows, alpha: float | None) -> BaseMKL:
    """The estimator of a run of survival: C by its own folds, or the one that is named."""
    now = chosen(spec, SURVIVAL)
    known = survival_learners()
    if now.method not in known:
        raise InputError(
            f"Survival needs a learner that takes any loss, {', '.join(known)}, got `method` {now.method}. Choose one "
            "of these."
        )
    if "loss" in spec.learner_params:
        raise InputError("The loss of survival is that of Cox's model, got another `loss`. Leave it out.")
    for name, said in WITHOUT_PATH.items():
        if spec.differs(name):
            raise InputError(f"Setting `{name}` has no meaning for survival{said}. Leave it out.")
    cost: float | str = "auto"
    if alpha is not None:
        cost = 1.0 / alpha
    elif spec.differs("Cs"):
        values, number = parse_values("Cs", spec.Cs)
        if values is None or number != 1:
            raise InputError(
                f"Survival chooses C itself, or takes one number such as 0.5, got `Cs` {spec.Cs}. Leave it out."
            )
        cost = float(values[0])
    plain = spec.method == DEFAULT and not settled(now.method, spec.learner_params)
    return assemble(spec, prepared, held, None if plain else make_learner(now), {"C": cost})


def assemble(
    spec: Spec,
    prepared: Prepared,
    held: Rows,
    learner: Learner | None,
    choice: Mapping[str, Any] = MappingProxyType({}),
    *,
    over_path: bool = False,
) -> BaseMKL:
    """An estimator with the kernels and the data handling of a spec, this learner, and what chooses its parameter."""
    from kernelweave.estimators import MKLClassifier, MKLRegressor, MKLSurvival
    from kernelweave.estimators.cv import MKLClassifierCV, MKLRegressorCV

    bank = make_kernels(spec, prepared)
    options: dict[str, Any] = {
        **choice,
        "scoring": spec.scoring or None,
        "gamma": parse_gamma(spec.gamma),
        "normalize": make_normalizer(spec, prepared, held),
        # kernels of a plain fit standardise columns themselves, and so do sparse views
        "standardize": "auto" if isinstance(prepared.X, Tables) or is_plain(bank) else spec.standardize,
        "fit_intercept": spec.intercept,
        "max_memory": spec.max_memory,
        "rank_tol": spec.rank_tol,
        "approximation": approximation_option(spec),
        # rows that are left out are so before
        "missing": "error" if spec.missing == "drop" else spec.missing,
        "missing_views": spec.missing_views,
    }
    if prepared.task == "classification":
        if spec.differs("targets"):
            raise InputError("Setting `targets` is for regression, but this is a classification.")
        classifier = MKLClassifierCV if over_path else MKLClassifier
        return classifier(bank, learner, class_weight=class_weight(spec, prepared), **options)
    article = "" if prepared.task == SURVIVAL else "a "
    for name in ("balanced", "class_weights", "probabilities"):
        if spec.differs(name):
            raise InputError(f"Setting `{name}` is for classes, but this is {article}{prepared.task}.")
    if prepared.task == SURVIVAL:
        del options["fit_intercept"]
        options |= {"scoring": spec.scoring or "likelihood", "ties": spec.ties}
        return MKLSurvival(bank, learner, **options)
    if spec.differs("ties"):
        raise InputError(f"Setting `ties` is for survival, but this is a {prepared.task}.")
    return (MKLRegressorCV if over_path else MKLRegressor)(bank, learner, targets=spec.targets, **options)


def approximation_option(spec: Spec) -> FeatureMap | str | None:
    """What estimators do about many rows: a name, or a map with a number of features, drawn with the seed."""
    if spec.approximation == "none":
        return None
    if spec.approximation == "auto":
        if spec.n_features:
            raise InputError(
                "Setting `n_features` is for approximation nystroem or random-features, got auto."
            )
        return "auto"
    kind: Any = MAPS[spec.approximation]
    seed = {"random_state": spec.seed} if spec.seed else {}
    return kind(spec.n_features, **seed) if spec.n_features else kind(**seed)


def class_weight(spec: Spec, prepared: Prepared) -> Any:
    """Weights of classes in scikit-learn's form: "balanced", a dict, for several labels a list of dicts, or None."""
    if not spec.class_weights.strip():
        return "balanced" if spec.balanced else None
    if spec.balanced:
        raise InputError("Settings `balanced` and `class_weights` exclude each other. Give one of them.")
    several = bool(prepared.names)
    labels: list[Any] = list(prepared.names) if several else np.unique(prepared.y).tolist()
    known = {str(label): label for label in labels}
    weights: dict[Any, float] = dict.fromkeys(labels, 1.0)
    parts: list[str] = []
    for part in names_in(spec.class_weights):
        # a name may itself hold commas
        if parts and "=" not in parts[-1] and any(f"{name}=".startswith(f"{parts[-1]},") for name in known):
            parts[-1] = f"{parts[-1]},{part}"
        else:
            parts.append(part)
    for part in parts:
        name, _, number = (text.strip() for text in part.rpartition("="))
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if not name or not 0 < weight < float("inf"):
            raise InputError(
                f"Setting `class_weights` must be like 'ill=5, well=1' with weights > 0, got {part!r}."
            )
        weights[known[check_known(name, known, "label" if several else "class")]] = weight
    return [{1: one} if one != 1.0 else {} for one in weights.values()] if several else weights


def stopped_at(model: BaseMKL) -> float | None:
    """The alpha of a model whose fit was stopped before all folds, or its own alpha, were reached; else None."""
    return float(model.alpha_) if getattr(model, "_interrupted", False) else None


def calibrate_model(model: BaseMKL, spec: Spec, prepared: Prepared, rows: Rows) -> None:
    """Learn probabilities on the training rows, if the spec requests them and the fit was not stopped."""
    if spec.probabilities == "none" or stopped_at(model) is not None:
        return
    cv = calibration_cv(spec, several=bool(prepared.names))
    if prepared.weights is not None:
        rows = rows[prepared.weights[rows] > 0]  # the model has no others
    model.calibrate(spec.probabilities, cv=cv, groups=prepared.some(rows).groups)


def check_scoring(model: BaseMKL, prepared: Prepared, rows: Rows) -> None:
    """Raise if the score of the folds cannot be computed for these rows, before anything is trained."""
    from sklearn.metrics import get_scorer_names

    from kernelweave.estimators.scoring import is_pooled, reason_against

    if not isinstance(model.scoring, str) or prepared.task == SURVIVAL:
        return
    check_known(model.scoring, get_scorer_names(), "scoring")
    y = prepared.y[rows]
    classes: Any = None
    if prepared.task == "classification":
        classes = [np.arange(2) for _ in prepared.names] if prepared.names else np.unique(y)
    kind = "numbers" if classes is None else f"{len(classes)} classes"
    # all rows, and one fold of each kind where folds have scores of their own
    parts: dict[object, tuple[str, Labels]] = {
        None: (prepared.said if prepared.names else f"{prepared.task} with {kind}", y)
    }
    # a plain fit leaves out folds without a score
    alone = classes is not None and not is_pooled(model.scoring) and hasattr(model, "cv")
    for k, test in enumerate(_folds(model, prepared, rows) if alone else ()):
        if prepared.names:
            here = tuple((y[test].min(axis=0) == y[test].max(axis=0)).tolist())
            lacks = f"fold {k + 1}, whose rows say the same of {sum(here)} of {len(here)} labels"
        else:
            here = tuple(np.unique(y[test]).tolist())
            lacks = f"fold {k + 1}, which has {len(here)} of {len(classes)} classes"
        parts.setdefault(here, (lacks, y[test]))
    for where, truth in parts.values():
        reason = reason_against(model.scoring, truth, classes)
        if reason is None:
            continue
        usual = "accuracy or f1_macro" if y.ndim == 2 else "accuracy or balanced_accuracy"
        usual = "r2" if classes is None else usual
        raise InputError(
            f"Score {model.scoring!r} does not work for {where}: {reason:.200}. Choose another, such as {usual}."
        )


def _folds(model: Any, prepared: Prepared, rows: Rows) -> list[Rows]:
    """The first folds of some rows; none where the model will refuse them in its own words."""
    part = prepared.some(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself warns of rare classes
        try:
            return [test for _, test in islice(model.cv.split(part.frame, part.y, part.groups), MOST_FOLDS)]
        except ValueError:
            return []


def fit_model(model: BaseMKL, prepared: Prepared, rows: Rows, progress: object) -> BaseMKL:
    """Fit on some rows with a progress display."""
    check_scoring(model, prepared, rows)
    if progress is not None:
        model.set_callbacks(progress)
    part = prepared.some(rows)
    groups = {} if part.groups is None else {"groups": part.groups}
    try:
        return model.fit(part.X, part.target(), sample_weight=part.weights, **groups)
    finally:
        # the display is not part of the model
        model.set_callbacks()
        normalizer: Any = model.normalize
        if not isinstance(normalizer, str) and normalizers.resolve(normalizer).transductive is not None:
            # nor is the table of further rows, which a model file cannot contain and which the fit has already used
            model.set_params(normalize=normalizer.name)
