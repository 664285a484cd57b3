"""From a table and a `FitSpec` to a fitted model and its scores."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave import banks, kernels, learners
from kernelweave._checks import InputError, check_known
from kernelweave.runs.joining import Joined
from kernelweave.runs.spec import FitSpec, expand_views, names_in, read_views
from kernelweave.runs.tables import check_target, detect_task, need_column
from kernelweave.solvers.path import check_alphas

BANKS = ("default", "linear_features", "mlmkl", "rkl", "rls2", "simplemkl")
#: Strengths on a path.
MOST_ALPHAS = 1000
#: Parameters of learners that go by another name in a spec, where `kernels` and `cv` are those of all learners.
FIELDS = {"kernels": "layer_kernels", "n_folds": "criterion_folds"}
#: Fields whose default stands for that of the learner.
USUAL = ("tol", "solver", "step", "max_iter", "device")
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
        raise InputError("Which column is the target? Pass --target COLUMN.")
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
        need_column(table, name, "--drop")
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
    task, reason = detect_task(table[spec.target], spec.task)
    y = check_target(table[spec.target], task)
    weights = None
    if spec.weights:
        try:
            weights = table[spec.weights].to_numpy(dtype=float)
        except ValueError:
            raise InputError(
                f"Column {spec.weights!r} for the weights holds text; weights are numbers."
            ) from None
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
        return banks.get(name, prepared.X.shape[1])
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


def parse_layers(text: str) -> Any:
    """Kernels of the layers above the first: None, one list for all of them, or one list each."""
    if not text.strip():
        return None
    try:
        layers = [parse_kernels(part) for part in text.split("|")]
    except InputError as error:
        raise InputError(f"`layer_kernels`: {error}") from None
    return layers if len(layers) > 1 else layers[0]


def learner_fields(learner: type[learners.Learner]) -> dict[str, str]:
    """Parameters of a learner that a `FitSpec` can set, and the fields that do."""
    out = {}
    for name in inspect.signature(learner).parameters:
        field = FIELDS.get(name, name)
        # the strength is chosen on the path, not by the learner's own folds
        if field in FitSpec.model_fields and not (name == "n_folds" and learner is learners.RLS2):
            out[name] = field
    return out


def make_learner(spec: FitSpec) -> Any:
    """The learner of a spec."""
    chosen = learners.LEARNERS[check_known(spec.method, learners.LEARNERS, "method")]
    given = {}
    for name, field in learner_fields(chosen).items():
        value = getattr(spec, field)
        if field in USUAL and value == FitSpec.model_fields[field].default:
            continue
        if field == "norm":
            value = None if value == "none" else int(value)
        elif field == "layer_kernels":
            value = parse_layers(value)
        given[name] = value
    learner = chosen(**given)
    learner.check()
    return learner


def unused_settings(spec: FitSpec) -> list[str]:
    """Fields that were given for other learners than the chosen one."""
    used = set(
        learner_fields(learners.LEARNERS[check_known(spec.method, learners.LEARNERS, "method")]).values()
    )
    of_some = {field for learner in learners.LEARNERS.values() for field in learner_fields(learner).values()}
    return [
        name
        for name in FitSpec.model_fields
        if name in of_some - used and getattr(spec, name) != FitSpec.model_fields[name].default
    ]


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
    if progress is not None:
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
        "F1 (macro)": float(metrics.f1_score(y, predicted, average="macro", zero_division=0)),
    }
    if len(model.classes_) == 2 and len(set(y)) == 2:
        out["ROC AUC"] = float(metrics.roc_auc_score(y, model.decision_function(X)))
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
