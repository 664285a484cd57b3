"""From a table and a `FitSpec` to a fitted model and its scores."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from kernelweave import banks, kernels, normalizers
from kernelweave._checks import InputError, check_known
from kernelweave.mkl.path import check_alphas
from kernelweave.runs.joining import Joined
from kernelweave.runs.settings import learner_of, learner_settings, settled
from kernelweave.runs.spec import FitSpec
from kernelweave.runs.tables import check_cells, check_target, detect_task, need_column
from kernelweave.runs.views import expand_views, names_in, read_views

BANKS = ("default", "linear_features", "mlmkl", "rkl", "rls2", "simplemkl")
#: Rules of `normalize` that can look at further rows.
TRANSDUCTIVE = ("mean-diagonal", "trace", "norm", "center")
#: Strengths on a path.
MOST_ALPHAS = 1000
#: Folds that a score is tried on.
MOST_FOLDS = 200
#: Numbers whose squares can be added up.
LARGEST = 1e140
#: What a column of held-out rows says about them.
HELD_OUT = ("test", "held-out", "heldout", "holdout", "hold-out", "true", "yes", "1", "1.0")


@dataclass
class Prepared:
    """A table split into what a fit needs.

    Attributes
    ----------
    X : DataFrame
    y : array
    task, reason : str
        What the target is taken for, and why.
    weights, groups : array or None
    held : array of bool or None
        Held-out rows, where a column says so.
    views : dict of str to list of str
    n_dropped : int
        Rows left out because of missing values.
    keys : Series or None
        What the key calls the rows.
    """

    X: Any
    y: Any
    task: str
    reason: str
    weights: Any
    groups: Any
    held: Any
    views: dict[str, list[str]]
    n_dropped: int
    keys: Any = None


def prepare(data: Joined, spec: FitSpec) -> Prepared:
    """Take the target, weights and groups out of a table and detect the task."""
    table = data.table
    if not spec.target:
        raise InputError("Which column is the target? Name the column to predict as `target`.")
    need_column(table, spec.target, "the target")
    leave = {spec.target}
    for name, what in (
        (spec.weights, "the weights"),
        (spec.group, "the groups"),
        (spec.holdout, "the held-out rows"),
        (spec.key, "the key"),
    ):
        if name:
            need_column(table, name, what)
            leave.add(name)
    for name in names_in(spec.drop):
        need_column(table, name, "`drop`, the columns to leave out")
        leave.add(name)
    columns = [c for c in table.columns if c not in leave]
    if not columns:
        raise InputError("There is no column left to learn from.")
    views = _views(data, spec, columns)
    if views:
        # columns that no view names are not learnt from, so their missing values do no harm
        used = {c for view in views.values() for c in view}
        columns = [c for c in columns if c in used]
    n_rows = len(table)
    if spec.missing == "drop":
        table = table.dropna(subset=needed_columns(spec, columns))
        if table.empty:
            raise InputError("Every row has a missing value. Leave out the columns that lack most of them.")
    check_cells(table, [spec.target, *columns])
    _check_infinite(table, [spec.target], "The target must be finite")
    task, reason = detect_task(table[spec.target], spec.task)
    y = check_target(table[spec.target], task)
    if task == "classification" and len(set(y.tolist())) < 2:
        raise InputError(
            f"Column {spec.target!r} holds one class only, {y.tolist()[0]!r}: there is nothing to learn. Choose "
            "another target."
        )
    _check_cells(table, columns)
    weights = _read_weights(table[spec.weights]) if spec.weights else None
    return Prepared(
        X=table[columns],
        y=y,
        task=task,
        reason=reason,
        weights=weights,
        groups=table[spec.group].to_numpy() if spec.group else None,
        held=table[spec.holdout].astype(str).str.lower().isin(HELD_OUT).to_numpy() if spec.holdout else None,
        views=views,
        n_dropped=n_rows - len(table),
        keys=table[spec.key] if spec.key else None,
    )


def _check_cells(table: Any, columns: list[str]) -> None:
    """Raise if a row, held out or not, has cells that nothing can be learnt from or predicted with."""
    missing = table[columns].isna()
    rows = int(missing.any(axis=1).sum())
    if rows:
        worst = missing.sum().nlargest(3)
        named = ", ".join(f"{name!r} ({count})" for name, count in worst.items() if count)
        raise InputError(
            f"Features must be known, got {rows} rows with missing values (NaN), most of them in {named}. Leave these "
            "rows out (`missing` = drop), or drop the columns."
        )
    _check_infinite(table, columns, "Features must be finite")


def _check_infinite(table: Any, columns: list[str], what: str) -> None:
    values = table[columns].select_dtypes(include=["floating"])
    numbers = values.to_numpy(dtype=float, na_value=np.nan)
    large = np.isfinite(numbers) & (np.abs(numbers) > LARGEST)
    if large.any():
        j = int(np.argmax(large.any(axis=0)))
        raise InputError(
            f"{what}, and so must be sums of squares: column {values.columns[j]!r} holds numbers beyond {LARGEST:g}. "
            "Write it in another unit, or leave it out."
        )
    count = np.isinf(numbers).sum(axis=0)
    if count.any():
        j = int(np.argmax(count > 0))
        raise InputError(
            f"{what}, got {int(count.sum())} infinite values (infinity), the first in column {values.columns[j]!r}. "
            "Correct these cells, or leave out their rows or columns."
        )


def _read_weights(column: Any) -> Any:
    """Weights of rows as numbers, checked."""
    name = f"Column {column.name!r} for the weights"
    try:
        weights = column.to_numpy(dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} holds text; weights are numbers.") from None
    bad = ~np.isfinite(weights)
    if bad.any():
        raise InputError(
            f"{name} must hold finite numbers, got {int(bad.sum())} that are missing or infinite. Fill them in, or "
            "leave these rows out."
        )
    if (weights < 0).any():
        raise InputError(
            f"{name} must not be negative, got {int((weights < 0).sum())} of these. A weight of 0 leaves out a row."
        )
    if not weights.any():
        raise InputError(f"{name} holds zeros only. At least one row needs a positive weight.")
    return weights


def needed_columns(spec: FitSpec, columns: list[str]) -> list[str]:
    """Columns whose missing values matter: those to learn from, the target, weights and groups."""
    return [*columns, *(name for name in (spec.target, spec.weights, spec.group) if name)]


def _views(data: Joined, spec: FitSpec, columns: list[str]) -> dict[str, list[str]]:
    if spec.views:
        partial = isinstance(spec.views, str) and spec.views.lower().endswith(".gmt")
        return expand_views(read_views(spec.views), columns, partial=partial)
    known = set(columns)
    views = {name: [c for c in found if c in known] for name, found in data.views.items()}
    return {name: found for name, found in views.items() if found}


def split(prepared: Prepared, spec: FitSpec) -> tuple[Any, Any]:
    """Row numbers for training and for the held-out score."""
    train, test = _split(prepared, spec)
    counted = train if prepared.weights is None else train[prepared.weights[train] > 0]
    if not len(counted):
        raise InputError(
            f"No row that is learnt from has a positive weight in column {spec.weights!r}. Hold out other rows."
        )
    if prepared.task == "classification" and len(set(prepared.y[counted].tolist())) < 2:
        raise InputError(
            f"The {len(counted)} rows to learn from are all of class {prepared.y[counted][0]!r}; at least two classes "
            "are needed. Hold out other rows."
        )
    return train, test


def _split(prepared: Prepared, spec: FitSpec) -> tuple[Any, Any]:
    from sklearn.model_selection import GroupShuffleSplit, train_test_split

    rows = np.arange(len(prepared.y))
    if prepared.held is not None:
        if prepared.held.all() or not prepared.held.any():
            which = "all" if prepared.held.all() else "no"
            raise InputError(
                f"Column {spec.holdout!r} holds out {which} rows. Held-out rows say one of {', '.join(HELD_OUT[:6])}."
            )
        return rows[~prepared.held], rows[prepared.held]
    if spec.test_size == 0:
        return rows, rows[:0]
    if prepared.groups is not None:
        splitter = GroupShuffleSplit(1, test_size=spec.test_size, random_state=spec.seed)
        try:
            train, test = next(splitter.split(rows, groups=prepared.groups))
        except ValueError as error:
            raise _cannot_split(error) from error
        return train, test
    try:
        train, test = train_test_split(
            rows,
            test_size=spec.test_size,
            random_state=spec.seed,
            stratify=prepared.y if prepared.task == "classification" else None,
        )
    except ValueError as error:
        raise _cannot_split(error) from error
    return np.sort(train), np.sort(test)


def _cannot_split(error: ValueError) -> InputError:
    return InputError(
        f"No rows can be held out: {error} Hold out more or fewer (`test_size`), or none (0); or use more rows."
    )


def parse_kernels(text: str) -> list[Any]:
    """Kernels separated by semicolons."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not parts:
        raise InputError("No kernel is named. Give a bank, or kernels such as 'linear; rbf(gamma=0.1)'.")
    return [kernels.parse(part) for part in parts]


def make_kernels(spec: FitSpec, prepared: Prepared) -> list[Any] | None:
    """The kernels of a spec; None stands for the default bank."""
    if prepared.views:
        asked = kernels_by_view(spec, prepared.views)
        bank: list[Any] = []
        for view, columns in prepared.views.items():
            name = asked[view].strip().lower()
            if name == "default":
                bank += default_views({view: columns})
            else:
                bank += banks.views({view: columns}, kernels=parse_kernels(asked[view]))
        return bank
    if not isinstance(spec.kernels, str):
        raise InputError("`kernels` for each view needs views.")
    name = spec.kernels.strip().lower().replace("-", "_")
    if name == "default":
        return None
    if name in BANKS:
        return banks.get(name, list(prepared.X.columns))
    if "(" not in name and ";" not in name and not _is_kernel(name):
        check_known(
            name,
            [*BANKS, "linear", "poly", "rbf", "laplacian", "arc_cosine", "categorical"],
            "bank or kernel",
        )
    return parse_kernels(spec.kernels)


def kernels_by_view(spec: FitSpec, views: dict[str, list[str]]) -> dict[str, str]:
    """The text that names the kernels of every view; views without one get the default."""
    if isinstance(spec.kernels, str):
        return dict.fromkeys(views, spec.kernels)
    for name in spec.kernels:
        check_known(name, views, "view")
    return {view: spec.kernels.get(view, "default") for view in views}


def _is_kernel(name: str) -> bool:
    try:
        kernels.parse(name)
    except InputError:
        return False
    return True


def default_views(views: dict[str, list[str]]) -> list[Any]:
    """For each view a linear kernel, a quadratic one, and Gaussians whose width suits its number of columns."""
    bank: list[Any] = []
    for name, columns in views.items():
        shapes = [kernels.Linear(), kernels.Polynomial(degree=2)]
        shapes += [kernels.RBF(gamma=float(f"{g / len(columns):.3g}")) for g in (0.03, 0.1, 0.3, 1.0, 3.0)]
        bank += [shape.on(columns, name=name) for shape in shapes]
    return bank


def parse_alphas(text: str) -> tuple[Any, int]:
    """Return (explicit strengths or None, number of automatic ones)."""
    alphas, number = _read_alphas(text.strip())
    return None if alphas is None else check_alphas(alphas), number


def strengths_of(learner: Any, alphas: Any) -> dict[str, Any]:
    """The parameter of a CV estimator that holds these alphas: the learner's own."""
    if learner.strength == "C" and alphas is not None:
        return {"Cs": 1.0 / alphas}
    return {"alphas": alphas}


def _read_alphas(text: str) -> tuple[Any, int]:
    try:
        if ":" in text:
            low, high, number = text.split(":")
            return np.geomspace(float(high), float(low), _count(number)), int(number)
        if "," in text or "." in text or "e" in text.lower():
            values = np.array([float(part) for part in text.split(",") if part.strip()])
            _count(len(values))
            return values, len(values)
        return None, _count(text)
    except InputError:
        raise
    except ValueError:
        raise InputError(
            f"`alphas` must be a number of strengths, 'low:high:number' or a list such as '0.1,1,10', got {text!r}."
        ) from None


def _count(number: str | int) -> int:
    count = int(number)
    if not 1 <= count <= MOST_ALPHAS:
        raise InputError(f"`alphas` must ask for 1 to {MOST_ALPHAS} strengths, got {number!s:.20}.")
    return count


def make_learner(spec: FitSpec) -> Any:
    """The learner of a spec."""
    learner = learner_of(spec.method)(**settled(spec.method, spec.learner_params))
    learner.check()
    learner.check_here()
    return learner


def unused_settings(spec: FitSpec) -> list[str]:
    """Parameters that were given for other learners than the chosen one."""
    known = learner_of(spec.method).settings()
    return [name for name in learner_settings() if name in spec.learner_params and name not in known]


def describe_cv(spec: FitSpec, task: str) -> tuple[str, dict[str, Any]]:
    """Name and arguments of the splitter of scikit-learn that chooses the strength."""
    if spec.repeats > 1 and spec.group:
        raise InputError(
            "Repeated folds would be the same groups again. Use one repetition, or random splits."
        )
    if spec.splits == "random":
        kind = "GroupShuffleSplit" if spec.group else "ShuffleSplit"
        if task == "classification" and spec.stratify and not spec.group:
            kind = "StratifiedShuffleSplit"
        number = {"n_splits": spec.cv * spec.repeats, "test_size": round(1 / spec.cv, 6)}
        return kind, {**number, "random_state": spec.seed}
    if spec.group:
        return "GroupKFold", {"n_splits": spec.cv}
    kind = "StratifiedKFold" if task == "classification" and spec.stratify else "KFold"
    if spec.repeats > 1:
        return f"Repeated{kind}", {
            "n_splits": spec.cv,
            "n_repeats": spec.repeats,
            "random_state": spec.seed,
        }
    return kind, {"n_splits": spec.cv, "shuffle": True, "random_state": spec.seed}


def make_cv(spec: FitSpec, task: str) -> Any:
    """The splitter for choosing the strength."""
    from sklearn import model_selection

    name, arguments = describe_cv(spec, task)
    return getattr(model_selection, name)(**arguments)


def make_normalizer(spec: FitSpec, prepared: Prepared, held: Any) -> Any:
    """The normaliser of a spec: a name, or with `transductive` a rule that knows the inputs of held-out rows."""
    name = None if spec.normalize.lower() == "none" else spec.normalize
    if not spec.transductive:
        return name
    rule = normalizers.resolve(name)
    if not hasattr(rule, "extra"):
        raise InputError(
            f"Setting `transductive` is for {', '.join(TRANSDUCTIVE)}, got normalize={spec.normalize!r}: other rules "
            "take nothing from further rows. Leave it out."
        )
    if not len(held):
        raise InputError("Setting `transductive` needs held-out rows, and there are none. Leave it out.")
    return type(rule)(**{**rule.get_params(), "extra": prepared.X.iloc[held]})


def make_model(spec: FitSpec, prepared: Prepared, held: Any) -> Any:
    """The estimator of a spec, not yet fitted.

    Parameters
    ----------
    spec : FitSpec
    prepared : Prepared
    held : array of int
        Rows that are not learnt from; `transductive` looks at their inputs.
    """
    from kernelweave.estimators.cv import MKLClassifierCV, MKLRegressorCV

    alphas, n_alphas = parse_alphas(spec.alphas)
    if spec.jobs == 0:
        raise InputError("Setting `jobs`: 0 folds at once are none. Use 1, or -1 for one on each core.")
    options: dict[str, Any] = {
        "n_alphas": n_alphas,
        "cv": make_cv(spec, prepared.task),
        "scoring": spec.scoring or None,
        "rule": spec.rule,
        "n_jobs": spec.jobs,
        "normalize": make_normalizer(spec, prepared, held),
        "standardize": spec.standardize,
        "fit_intercept": spec.intercept,
        "max_memory": spec.max_memory,
        "rank_tol": spec.rank_tol,
    }
    bank, learner = make_kernels(spec, prepared), make_learner(spec)
    options |= strengths_of(learner, alphas)
    if prepared.task == "classification":
        return MKLClassifierCV(bank, learner, class_weight=class_weight(spec, prepared), **options)
    for name in ("balanced", "class_weights", "probabilities"):
        if getattr(spec, name) != FitSpec.model_fields[name].default:
            raise InputError(f"Setting `{name}` is for classes, but this is a regression.")
    return MKLRegressorCV(bank, learner, **options)


def class_weight(spec: FitSpec, prepared: Prepared) -> Any:
    """Weights of classes in scikit-learn's form: "balanced", a dict, or None."""
    if not spec.class_weights.strip():
        return "balanced" if spec.balanced else None
    if spec.balanced:
        raise InputError("Settings `balanced` and `class_weights` exclude each other. Give one of them.")
    labels = {str(label): label for label in np.unique(prepared.y).tolist()}
    out: dict[Any, float] = dict.fromkeys(labels.values(), 1.0)
    for part in names_in(spec.class_weights):
        name, _, number = (text.strip() for text in part.rpartition("="))
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if not name or not 0 < weight < float("inf"):
            raise InputError(
                f"Setting `class_weights` must be like 'ill=5, well=1' with weights > 0, got {part!r}."
            )
        out[labels[check_known(name, labels, "class")]] = weight
    return out


def describe_calibration_cv(spec: FitSpec) -> tuple[str, dict[str, Any]]:
    """Name and arguments of the splitter on whose folds probabilities are learnt."""
    once = spec.model_copy(update={"splits": "k-fold", "repeats": 1, "stratify": True})
    return describe_cv(once, "classification")


def stopped_at(model: Any, spec: FitSpec) -> float | None:
    """The alpha of a model whose fit was stopped before all folds, or the chosen strength, were reached; else None."""
    results = getattr(model, "cv_results_", None)
    if results is None:
        return None
    n_done = sum(name.startswith("split") and name.endswith("_test_score") for name in results)
    if n_done == spec.cv * spec.repeats and model.alpha_ == model.alphas_[model.best_index_]:
        return None
    return float(model.alpha_)


def calibrate_model(model: Any, spec: FitSpec, prepared: Prepared, rows: Any) -> None:
    """Learn probabilities on the training rows, where the spec asks for them and the fit was not stopped."""
    if spec.probabilities == "none" or stopped_at(model, spec) is not None:
        return
    from sklearn import model_selection

    name, arguments = describe_calibration_cv(spec)
    if prepared.weights is not None:
        rows = rows[prepared.weights[rows] > 0]  # the model knows of no others
    groups = None if prepared.groups is None else prepared.groups[rows]
    model.calibrate(spec.probabilities, cv=getattr(model_selection, name)(**arguments), groups=groups)


def check_scoring(model: Any, prepared: Prepared, rows: Any) -> None:
    """Raise if the score of the folds cannot be computed for these rows, before anything is trained."""
    from sklearn.metrics import get_scorer_names

    from kernelweave.estimators.cv import try_score

    if not model.scoring:
        return
    check_known(model.scoring, get_scorer_names(), "scoring")
    y = prepared.y[rows]
    classes = np.unique(y) if prepared.task == "classification" else None
    _try_score(model.scoring, y, classes, f"{prepared.task} with {_count_of(classes)}", try_score)
    if classes is None:
        return
    groups = None if prepared.groups is None else prepared.groups[rows]
    seen = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rare classes are for the run to mention
        try:
            folds = [test for _, test in islice(model.cv.split(np.zeros((len(y), 1)), y, groups), MOST_FOLDS)]
        except ValueError:
            return  # for the model to say
    for k, test in enumerate(folds):
        here = tuple(np.unique(y[test]).tolist())
        if here not in seen:
            seen.add(here)
            lacks = f"fold {k + 1}, which has {len(here)} of {len(classes)} classes"
            _try_score(model.scoring, y[test], classes, lacks, try_score)


def _count_of(classes: Any) -> str:
    return "numbers" if classes is None else f"{len(classes)} classes"


def _try_score(scoring: str, y: Any, classes: Any, where: str, attempt: Callable[..., float]) -> None:
    reason = "it is not defined there"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if np.isfinite(attempt(scoring, y, classes)):
                return
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        # what stands for the model on a fold is nobody's business
        reason = re.sub(r"_\w+Fold", "the model", reason)
    usual = "r2" if classes is None else "accuracy or balanced_accuracy"
    raise InputError(
        f"Score {scoring!r} does not work for {where}: {reason:.200}. Choose another, such as {usual}."
    )


def fit_model(model: Any, prepared: Prepared, rows: Any, progress: Any) -> Any:
    """Fit on some rows with a progress display."""
    check_scoring(model, prepared, rows)
    if progress is not None:
        model.set_callbacks(progress)
    groups = {} if prepared.groups is None else {"groups": prepared.groups[rows]}
    weights = None if prepared.weights is None else prepared.weights[rows]
    try:
        return model.fit(prepared.X.iloc[rows], prepared.y[rows], sample_weight=weights, **groups)
    finally:
        # the display is no part of the model
        model.set_callbacks()
        if normalizers.resolve(model.normalize).transductive is not None:
            # nor is the table of further rows, which a model file could not hold: the fit has taken what it needs
            model.set_params(normalize=model.normalize.name)


def scores(model: Any, X: Any, y: Any, task: str) -> dict[str, float]:
    """Scores on rows with a known target."""
    from sklearn import metrics

    predicted = model.predict(X)
    if task == "regression":
        return {
            "R^2": float(metrics.r2_score(y, predicted)) if len(y) > 1 else float("nan"),
            "RMSE": float(metrics.root_mean_squared_error(y, predicted)),
            "MAE": float(metrics.mean_absolute_error(y, predicted)),
        }
    out = {
        "accuracy": float(metrics.accuracy_score(y, predicted)),
        "balanced accuracy": float(metrics.balanced_accuracy_score(y, predicted)),
        "F1 (macro)": float(metrics.f1_score(y, predicted, average="macro", zero_division=0)),
    }
    if len(model.classes_) == 2 and len(set(y)) == 2:
        out["ROC AUC"] = float(metrics.roc_auc_score(y, model.decision_function(X)))
    if hasattr(model, "predict_proba"):
        share = model.predict_proba(X)
        out["log loss"] = float(metrics.log_loss(y, share, labels=model.classes_))
        right = np.asarray(y)[:, None] == model.classes_
        out["Brier score"] = float(np.square(share - right).sum(axis=1).mean()) / (
            2 if len(model.classes_) == 2 else 1
        )
    return out


def predictions(model: Any, X: Any, task: str, *, std: bool = False, keys: Any = None) -> Any:
    """A table of predictions, decision values and standard deviations; `keys`, a series, names the rows."""
    import pandas as pd

    table = pd.DataFrame({"row": X.index})
    if keys is not None:
        taken = keys.name in ("row", "prediction", "std", "decision", "truth")
        taken = taken or str(keys.name).startswith("decision ")
        table[f"key {keys.name}" if taken else keys.name] = keys.to_numpy()
    if task == "regression":
        if std:
            mean, deviation = model.predict(X, return_std=True)
            table["prediction"], table["std"] = mean, deviation
        else:
            table["prediction"] = model.predict(X)
        return table
    table["prediction"] = model.predict(X)
    values = model.decision_function(X)
    if values.ndim == 1:
        table["decision"] = values
    else:
        for name, column in zip(model.classes_, values.T, strict=True):
            table[f"decision {name}"] = column
    if hasattr(model, "predict_proba"):
        for name, column in zip(model.classes_, model.predict_proba(X).T, strict=True):
            table[f"probability {name}"] = column
    return table


def features_of(model: Any, table: Any) -> Any:
    """The columns that a model was fitted on, in their order."""
    names = [str(n) for n in getattr(model, "feature_names_in_", [])]
    if not names:
        raise InputError("This model was not fitted on a table with column names; predict with it in Python.")
    missing = [n for n in names if n not in table.columns]
    if missing:
        need_column(table, missing[0], f"the model, which lacks {len(missing)} of its {len(names)} columns")
    check_cells(table, names)
    return table[names]
