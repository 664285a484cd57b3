"""From a table and a `FitSpec` to a fitted model and its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave import banks, kernels, learners
from kernelweave._checks import InputError, check_known
from kernelweave.runs.spec import FitSpec, expand_views, read_views
from kernelweave.runs.tables import check_target, detect_task, need_column

BANKS = ("default", "linear_features", "mlmkl", "rkl", "rls2", "simplemkl")


@dataclass
class Prepared:
    """A table split into what a fit needs."""

    X: Any
    y: Any
    task: str
    reason: str
    weights: Any
    groups: Any
    views: dict[str, list[str]]


def prepare(table: Any, spec: FitSpec) -> Prepared:
    """Take the target, weights and groups out of a table and detect the task."""
    if not spec.target:
        raise InputError("Which column is the target? Pass --target COLUMN.")
    target = need_column(table, spec.target, "the target")
    task, reason = detect_task(target, spec.task)
    y = check_target(target, task)
    leave = {spec.target}
    for name, what in ((spec.weights, "the weights"), (spec.group, "the groups")):
        if name:
            need_column(table, name, what)
            leave.add(name)
    for name in filter(None, (part.strip() for part in spec.drop.split(","))):
        need_column(table, name, "--drop")
        leave.add(name)
    X = table[[c for c in table.columns if c not in leave]]
    if X.shape[1] == 0:
        raise InputError("There is no column left to learn from.")
    weights = None
    if spec.weights:
        try:
            weights = table[spec.weights].to_numpy(dtype=float)
        except ValueError:
            raise InputError(
                f"Column {spec.weights!r} for the weights holds text; weights are numbers."
            ) from None
    views = expand_views(read_views(spec.views), list(X.columns)) if spec.views else {}
    return Prepared(X, y, task, reason, weights, table[spec.group].to_numpy() if spec.group else None, views)


def split(prepared: Prepared, spec: FitSpec) -> tuple[Any, Any]:
    """Row numbers for training and for the held-out score."""
    from sklearn.model_selection import GroupShuffleSplit, train_test_split

    rows = np.arange(len(prepared.y))
    if spec.test_size == 0:
        return rows, rows[:0]
    if prepared.groups is not None:
        splitter = GroupShuffleSplit(1, test_size=spec.test_size, random_state=spec.seed)
        train, test = next(splitter.split(rows, groups=prepared.groups))
        return train, test
    try:
        train, test = train_test_split(
            rows,
            test_size=spec.test_size,
            random_state=spec.seed,
            stratify=prepared.y if prepared.task == "classification" else None,
        )
    except ValueError as error:
        raise InputError(
            f"The rows cannot be split: {error} Use --test-size 0 or merge rare classes."
        ) from error
    return np.sort(train), np.sort(test)


def parse_kernels(text: str) -> list[Any]:
    """Kernels separated by semicolons."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not parts:
        raise InputError("`kernels` is empty. Name a bank, or kernels such as 'linear; rbf(gamma=0.1)'.")
    return [kernels.parse(part) for part in parts]


def make_kernels(spec: FitSpec, prepared: Prepared) -> list[Any] | None:
    """The kernels of a spec; None stands for the default bank."""
    name = spec.kernels.strip().lower().replace("-", "_")
    n_features = prepared.X.shape[1]
    if prepared.views:
        shapes = parse_kernels("linear; rbf(gamma=1)" if name == "default" else spec.kernels)
        if name == "default":
            return default_views(prepared.views)
        return banks.views(prepared.views, kernels=shapes)
    if name == "default":
        return None
    if name in BANKS:
        return banks.get(name, n_features)
    if "(" not in name and ";" not in name and not _is_kernel(name):
        check_known(
            name,
            [*BANKS, "linear", "poly", "rbf", "laplacian", "arc_cosine", "categorical"],
            "bank or kernel",
        )
    return parse_kernels(spec.kernels)


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
    text = text.strip()
    try:
        if ":" in text:
            low, high, number = text.split(":")
            return np.geomspace(float(high), float(low), int(number)), int(number)
        if "," in text or "." in text or "e" in text.lower():
            values = np.array([float(part) for part in text.split(",") if part.strip()])
            return values, len(values)
        return None, int(text)
    except ValueError:
        raise InputError(
            f"`alphas` must be a number of strengths, 'low:high:number' or a list such as '0.1,1,10', got {text!r}."
        ) from None


def make_learner(spec: FitSpec) -> Any:
    """The learner of a spec."""
    chosen = learners.LEARNERS[check_known(spec.method, learners.LEARNERS, "method")]
    known = chosen().get_params()
    given = {
        "tol": spec.tol or known["tol"],
        "solver": spec.solver,
        "delta": spec.delta,
        "max_iter": spec.max_iter or None,
        "p": spec.p,
        "theta": spec.theta,
        "norm": None if spec.norm == "none" else int(spec.norm),
        "variant": spec.variant,
        "epsilon": spec.epsilon,
        "lam": spec.lam,
    }
    return chosen(**{name: value for name, value in given.items() if name in known})


def make_cv(spec: FitSpec, task: str) -> Any:
    """The splitter for choosing the strength."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    if spec.group:
        return GroupKFold(spec.cv)
    kind = StratifiedKFold if task == "classification" else KFold
    return kind(spec.cv, shuffle=True, random_state=spec.seed)


def make_model(spec: FitSpec, prepared: Prepared) -> Any:
    """The estimator of a spec, not yet fitted."""
    from kernelweave.model_selection import MKLClassifierCV, MKLRegressorCV

    alphas, n_alphas = parse_alphas(spec.alphas)
    options: dict[str, Any] = {
        "alphas": alphas,
        "n_alphas": n_alphas,
        "cv": make_cv(spec, prepared.task),
        "scoring": spec.scoring or None,
        "rule": spec.rule,
        "n_jobs": spec.jobs,
        "normalize": None if spec.normalize.lower() == "none" else spec.normalize,
        "standardize": spec.standardize,
        "fit_intercept": spec.intercept,
        "max_memory": spec.max_memory,
        "rank_tol": spec.rank_tol,
    }
    bank, learner = make_kernels(spec, prepared), make_learner(spec)
    if prepared.task == "classification":
        return MKLClassifierCV(bank, learner, class_weight="balanced" if spec.balanced else None, **options)
    if spec.balanced:
        raise InputError("--balanced weights classes, but this is a regression.")
    return MKLRegressorCV(bank, learner, **options)


def fit_model(model: Any, prepared: Prepared, rows: Any, progress: Any) -> Any:
    """Fit on some rows with a progress display."""
    model.set_callbacks(progress)
    groups = {} if prepared.groups is None else {"groups": prepared.groups[rows]}
    weights = None if prepared.weights is None else prepared.weights[rows]
    try:
        return model.fit(prepared.X.iloc[rows], prepared.y[rows], sample_weight=weights, **groups)
    finally:
        # the display is no part of the model
        model.set_callbacks()


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
    }
    if len(model.classes_) == 2 and len(set(y)) == 2:
        out["ROC AUC"] = float(metrics.roc_auc_score(y, model.decision_function(X)))
    return out


def predictions(model: Any, X: Any, task: str, *, std: bool = False) -> Any:
    """A table of predictions, decision values and standard deviations."""
    import pandas as pd

    table = pd.DataFrame({"row": X.index})
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
    return table


def features_of(model: Any, table: Any) -> Any:
    """The columns that a model was fitted on, in their order."""
    names = [str(n) for n in getattr(model, "feature_names_in_", [])]
    if not names:
        raise InputError("This model was not fitted on a table with column names; predict with it in Python.")
    missing = [n for n in names if n not in table.columns]
    if missing:
        need_column(table, missing[0], f"the model, which lacks {len(missing)} of its {len(names)} columns")
    return table[names]
