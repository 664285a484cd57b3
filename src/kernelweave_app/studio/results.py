"""From a fitted model to the results that the studio shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._errors import InputError
from kernelweave.fitting.folds import first_good
from kernelweave.inspection import Path, column_relevance, kernel_weights, layer_weights, view_weights
from kernelweave.inspection.arguments import target_names
from kernelweave.inspection.held import HeldOut
from kernelweave.inspection.held_times import HeldTimes
from kernelweave_app.runs.fitting import chosen
from kernelweave_app.runs.preparing import Prepared, Rows
from kernelweave_app.runs.spec import Spec
from kernelweave_app.studio.schema import (
    AlphaOrC,
    Certificate,
    Contributions,
    Convergence,
    Curve,
    HeldResult,
    Layer,
    PathResult,
    Receiver,
    Results,
    Weights,
)

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL

Array = NDArray[np.float64]

#: Kernels with a line of their own on a path, rows and kernels of contributions, rows of the predictions table.
MOST_LINES = 40
MOST_ROWS = 200
MOST_PARTS = 12
MOST_PREDICTIONS = 2000
MOST_POINTS = 200


def describe_model(
    model: BaseMKL,
    spec: Spec,
    prepared: Prepared,
    rows: tuple[Rows, Rows],
    held: HeldOut | HeldTimes | None,
    paths: list[Path],
    remarks: list[str],
) -> Results:
    """Collect what the pages show.

    Parameters
    ----------
    model : fitted estimator
    spec : Spec
    prepared : Prepared
    rows : pair of arrays
        Training and held-out rows.
    held : HeldOut, HeldTimes or None
    paths : list of Path
        One for each output that has its own.
    remarks : list of str
        What the reader should know.

    Returns
    -------
    Results
    """
    train, test = rows
    shown = test if len(test) else train
    return Results(
        task=prepared.task,
        target=spec.predicted,
        method=chosen(spec, prepared.task).method,
        estimator=type(model).__name__,
        weights=describe_weights(model),
        curve=describe_curve(model, spec.rule),
        paths=[describe_path(path) for path in paths],
        contributions=describe_contributions(model, prepared, shown[:MOST_ROWS], held=bool(len(test))),
        held=None if held is None else describe_held(held),
        certificate=describe_certificate(model),
        convergence=[
            Convergence(output=name, history={key: _floats(v) for key, v in history.items() if len(v)})
            for name, history in zip(output_names(model, len(model.history_)), model.history_, strict=True)
        ],
        remarks=remarks,
        coefficients=describe_coefficients(model, prepared),
        squared_error=squared_error(held) if prepared.task == "regression" else [],
        defaults=model.explain_defaults().splitlines() if model.defaults_ else [],
    )


#: Columns of a model whose coefficients are shown.
MOST_COEFFICIENTS = 200


def describe_coefficients(model: BaseMKL, prepared: Prepared) -> dict[str, float]:
    """The intercept and the coefficients of a linear model of numbers; empty for others."""
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    some = prepared.X.iloc[: min(len(prepared.y), 10)]
    if not 0 < len(names) <= MOST_COEFFICIENTS or prepared.names or prepared.task != "regression":
        return {}
    try:
        slopes, start = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        made = start + some.to_numpy(dtype=float) @ slopes
    except (AttributeError, TypeError, ValueError, InputError):
        return {}
    # of columns that are prepared first the coefficients are not those of the table
    if not np.allclose(made, np.ravel(model.predict(some)), rtol=1e-6, atol=1e-9):
        return {}
    return {"intercept": start, **dict(zip(names, map(float, slopes), strict=True))}


def squared_error(held: HeldOut | HeldTimes | None) -> list[float]:
    """Mean squared error of held-out rows, and its standard error; empty for fewer than two rows."""
    squares = held.squared_errors if isinstance(held, HeldOut) else None
    if squares is None or len(squares) < 2:
        return []
    return [float(squares.mean()), float(squares.std(ddof=1) / np.sqrt(len(squares)))]


def _floats(values: ArrayLike) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in np.asarray(values, dtype=float).ravel()]


def output_names(model: BaseMKL, number: int) -> list[str]:
    """Names of the outputs: the classes if there are as many, the second class for two."""
    classes = list(target_names(model)) or [str(c) for c in getattr(model, "classes_", [])]
    if len(classes) == number:
        return classes
    if number == 1:
        return [classes[1] if len(classes) == 2 else ""]
    return [f"output {k + 1}" for k in range(number)]


def is_deep(model: BaseMKL) -> bool:
    """Whether the learner stacks layers of kernels."""
    return hasattr(model.model_.learner, "n_layers")


def describe_weights(model: BaseMKL) -> Weights:
    """Weights of kernels, by view, and by layer for deep models."""
    found, layers = kernel_weights(model), []
    if is_deep(model):
        every = layer_weights(model)
        layers = [
            _layer(names, every.outputs, fractions)
            for names, fractions in zip(every.names, every.fractions, strict=True)
        ]
    whole = _layer(found.names, found.outputs, found.fractions)
    relevance = column_relevance(model)
    return Weights(**whole.model_dump(), views=view_weights(model), layers=layers, relevance=relevance)


def _layer(names: Iterable[object], outputs: Sequence[str], fractions: Array) -> Layer:
    return Layer(
        names=[str(name) for name in names],
        outputs=[name or "weight" for name in outputs],
        values=fractions.reshape(len(fractions), -1).tolist(),
    )


def describe_curve(model: BaseMKL, rule: str) -> Curve | None:
    """Scores over folds along the path."""
    results = getattr(model, "cv_results_", None)
    if results is None:
        return None
    mean = np.asarray(results["test_score"])
    folds = [v for k, v in results.items() if k.startswith("split") and k.endswith("_test_score")]
    return Curve(
        alphas=results["alpha"].tolist(),
        mean=_floats(mean),
        error=_floats(results["std_error_test_score"]),
        folds=[_floats(fold) for fold in folds],
        chosen=int(model.best_index_),
        best=first_good(mean),
        rule=rule,
        score=str(results["score_name"]),
        n_rows=int(model.model_.task.source.n_samples),
        parameter=_parameter(model),
    )


def describe_path(path: Path) -> PathResult:
    """Weights along a path, as fractions: the kernels with the largest weights, and the number of kernels."""
    weights = path.fractions
    largest = np.abs(weights).max(axis=0)
    order = [int(m) for m in np.argsort(-largest, kind="stable")[:MOST_LINES] if largest[m] > 0]
    return PathResult(
        output=path.output,
        alphas=path.alphas.tolist(),
        df=_floats(path.df),
        n_active=(weights > 0).sum(axis=1).tolist(),
        names=[str(path.names[m]) for m in order],
        weights=np.round(weights[:, order], 8).tolist(),
        chosen=path.chosen,
        parameter="alpha" if path.Cs is None else "C",
    )


def describe_contributions(
    model: BaseMKL, prepared: Prepared, rows: Rows, *, held: bool
) -> Contributions | None:
    """Contributions to the decision values of single rows: those of the largest kernels, and the sum of the others."""
    part = prepared.some(rows)
    X, named = part.X, part.keys
    parts = np.asarray(model.kernel_contributions(X), dtype=float)
    parts = parts[:, :, None] if parts.ndim == 2 else parts
    sizes = parts.std(axis=0).sum(axis=1)
    order = [int(m) for m in np.argsort(-sizes, kind="stable")[:MOST_PARTS] if np.any(parts[:, m])]
    if not order:
        return None
    rest = parts.sum(axis=1) - parts[:, order].sum(axis=1)
    # of deep kernels those of the last layer add up to the decision value
    names = [str(model.layer_kernel_names_[-1][m]) for m in order]
    shown = parts[:, order]
    if np.count_nonzero(sizes) > len(order):
        names.append("all other kernels")
        shown = np.concatenate([shown, rest[:, None]], axis=1)
    return Contributions(
        rows=[str(label) for label in (X.index if named is None else named)],
        kernels=names,
        outputs=output_names(model, parts.shape[2]),
        values=np.round(shown.transpose(2, 0, 1), 6).tolist(),
        intercepts=np.atleast_1d(np.asarray(model.intercept_, dtype=float)).tolist(),
        held=held,
    )


def describe_held(held: HeldOut | HeldTimes) -> HeldResult:
    """Scores, predictions, confusion matrix and curves of the held-out rows."""
    from sklearn.metrics import confusion_matrix

    made = list(held.table.columns)
    truths = [name for name in made if str(name).partition(" ")[0] == "truth"]
    # names of the rows come first
    columns = [*made[: made.index("row") + 1], *truths]
    columns += [name for name in made if name not in columns]
    out = HeldResult(
        scores={**held.scores},
        columns=columns,
        rows=[
            [plain(value) for value in row]
            for row in held.table[columns].head(MOST_PREDICTIONS).itertuples(index=False, name=None)
        ],
        n_rows=len(held.table),
        groups=None if held.groups is None else list(map(str, held.groups[:MOST_PREDICTIONS])),
    )
    if isinstance(held, HeldTimes):
        return out
    out.targets = list(held.targets)
    if held.classes is not None:
        out.classes = held.classes
        out.confusion = confusion_matrix(held.truth, held.prediction, labels=held.classes).tolist()
        receivers = [_receiver(name, has, values) for name, (has, values) in held.rankings().items()]
        out.receivers = [one for one in receivers if one is not None]
    return out


def plain(value: object) -> str | float | int | None:
    """A cell that JSON can represent."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return round(value, 8) if np.isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _receiver(name: str, truth: NDArray[np.bool_], score: Array) -> Receiver | None:
    from sklearn import metrics

    if truth.all() or not truth.any():
        return None
    fpr, tpr, _ = metrics.roc_curve(truth, score)
    precision, recall, _ = metrics.precision_recall_curve(truth, score)
    thin, few = _thin(len(fpr)), _thin(len(recall))
    return Receiver(
        output=name,
        fpr=fpr[thin].tolist(),
        tpr=tpr[thin].tolist(),
        auc=float(metrics.auc(fpr, tpr)),
        precision=precision[few].tolist(),
        recall=recall[few].tolist(),
        average_precision=float(metrics.average_precision_score(truth, score)),
    )


def _thin(number: int) -> Rows:
    return np.unique(np.linspace(0, number - 1, min(number, MOST_POINTS)).round().astype(int))


def _parameter(model: BaseMKL) -> AlphaOrC:
    return "C" if hasattr(model, "C_") else "alpha"


def describe_certificate(model: BaseMKL) -> Certificate:
    """How the fit ended, and how far it may be from the optimum."""
    named = _parameter(model)
    return Certificate(
        objective=float(model.objective_),
        gap=float(model.gap_),
        rel_gap=float(model.rel_gap_),
        status=str(model.status_),
        n_iter=int(model.n_iter_),
        stationarity=_floats(np.atleast_1d(getattr(model, "stationarity_", []))),
        held_as=str(model.gram_),
        regularization=f"{named} = {getattr(model, f'{named}_'):.4g}",
        citation=model.model_.learner.reference(),
    )
