"""Self-contained HTML reports of fitted models, with inline pictures and no external resources."""

from __future__ import annotations

import io
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike

    from kernelweave._types import DataFrame, Figure, Labels, SubFigure
    from kernelweave.estimators.base import BaseMKL

__all__ = ["Held", "Picture", "close", "draw_pictures", "make_report", "svg"]

#: Rows of the weights table.
MOST_KERNELS = 60


@dataclass
class Held:
    """Held-out rows: scores, true targets, and the table of predictions."""

    scores: dict[str, float]
    truth: Labels
    predictions: DataFrame


@dataclass
class Picture:
    """A figure with a name for files and a title."""

    name: str
    title: str
    figure: Figure | SubFigure

    @cached_property
    def svg(self) -> str:
        """The figure as an SVG file."""
        return svg(self.figure)

    def write_pdf(self, path: Path) -> None:
        """Write the figure, once it is an SVG file, as a PDF file too."""
        figure = _whole(self.figure)
        # the places of axes and labels are found: finding them again is a third of the time
        figure.set_layout_engine("none")
        figure.savefig(path, metadata={"CreationDate": None})


def _whole(figure: Figure | SubFigure) -> Figure:
    from matplotlib.figure import Figure

    assert isinstance(figure, Figure)  # parts of figures are no files
    return figure


def svg(figure: Figure | SubFigure) -> str:
    """A matplotlib figure as an SVG element."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "kernelweave"}):
        _whole(figure).savefig(
            text, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    return text.getvalue()


def _inline(text: str) -> str:
    """The SVG element alone, without the XML header and document type, which contain addresses of other hosts."""
    return text[text.index("<svg") :]


def close(figure: Figure | SubFigure) -> None:
    """Close a figure."""
    import matplotlib.pyplot as plt

    plt.close(_whole(figure))


def draw_pictures(
    model: BaseMKL, held: Held | None = None, X: DataFrame = None, path: Any = None, *, with_path: bool = True
) -> list[Picture]:
    """Draw everything that a report shows.

    Parameters
    ----------
    model : fitted estimator
    held : Held, optional
        Held-out rows.
    X : table, optional
        Rows for the contributions of kernels.
    path : Path, optional
        The path, if it has been solved already; by default it is solved again.
    with_path : bool, default=True
        Draw the path. Deep kernels have none, because its weights would be local solutions, each at the cost of a fit.

    Returns
    -------
    list of Picture
        Their figures stay open: see `close`.
    """
    from kernelweave import inspection, plots
    from kernelweave.inspection.arguments import class_names

    deep = len(model.layer_kernel_names_) > 1
    several = hasattr(model, "classes_") and model.model_.n_outputs > 1
    rest = "" if hasattr(model, "label_names_") else " against the rest"
    which = f" ({class_names(model)[0]}{rest})" if several else ""
    if deep:
        shown = plots.LayerWeightsDisplay.from_estimator(model).figure_
        drawn = [Picture("weights", "Weights of every layer", shown)]
    else:
        shown = plots.KernelWeightsDisplay.from_estimator(model).figure_
        drawn = [Picture("weights", "Kernel weights", shown)]
    if getattr(model, "cv_results_", None) is not None:
        figure = plots.CVCurveDisplay.from_estimator(model).figure_
        drawn.append(Picture("choice", "Choice of the regularisation parameter", figure))
    if deep:
        if "criterion" in model.history_[0]:
            figure = plots.DescentDisplay.from_estimator(model).figure_
            drawn.append(Picture("descent", "Descent of the criterion" + which, figure))
        figure = plots.KernelMatricesDisplay.from_estimator(model).figure_
        drawn.append(Picture("matrices", "Kernel matrices of every layer" + which, figure))
        figure = plots.LayerSpectraDisplay.from_estimator(model).figure_
        drawn.append(Picture("spectra", "Eigenvalues of every layer" + which, figure))
    elif with_path:
        parameter = "C" if hasattr(model, "C_") else "alpha"
        axes = [(parameter, "path", "Regularisation path")]
        if parameter == "alpha":
            axes.append(("df", "path-df", "Path against degrees of freedom"))
        path = inspection.regularization_path(model) if path is None else path
        for x, name, title in axes:
            display = plots.RegularizationPathDisplay(
                path.alphas, path.df, path.weights, path.names, path.chosen, "kernel weight"
            )
            drawn.append(Picture(name, title + which, display.plot(x=x).figure_))
        if path.criteria:
            criteria = plots.SelectionCriteriaDisplay(path.alphas, path.criteria, path.chosen).plot()
            drawn.append(Picture("criteria", "Selection criteria along the path" + which, criteria.figure_))
    if X is not None:
        figure = plots.KernelContributionsDisplay.from_estimator(model, X).figure_
        drawn.append(Picture("contributions", "Contribution of each kernel", figure))
    if held is not None:
        drawn.append(Picture("held-out", "Held-out rows", _held_figure(model, held)))
        if not hasattr(model, "classes_"):
            drawn.append(Picture("residuals", "Residuals of held-out rows", _residual_figure(held)))
        else:
            for name, title in (
                ("roc", "Receiver operating characteristic"),
                ("precision", "Precision and recall"),
            ):
                ranking = _ranking_figure(model, held, name)
                if ranking is not None:
                    drawn.append(Picture(name, title, ranking))
    histories = [history for history in model.history_ if len(history.get("rel_gap", ()))]
    if histories:
        drawn.append(Picture("convergence", "Convergence", _convergence_figure(model, histories)))
    return drawn


def _residual_figure(held: Held) -> Figure:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.0, 4.2), layout="constrained")
    predicted = held.predictions["prediction"].to_numpy()
    ax.axhline(0.0, color="0.6", linewidth=1)
    ax.plot(predicted, np.asarray(held.truth, dtype=float) - predicted, ".", color="#0072B2")
    ax.set_xlabel("predicted")
    ax.set_ylabel("true − predicted")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def _ranking_figure(model: BaseMKL, held: Held, kind: str) -> Figure | None:
    """Curves of held-out rows for each class with rows inside and outside it; None without any."""
    import matplotlib.pyplot as plt
    from sklearn import metrics

    from kernelweave.plots.drawing import COLORS

    truth = np.asarray(held.truth).astype(str)
    table = held.predictions
    if "decision" in table:
        values = {str(model.classes_[1]): table["decision"].to_numpy()}
    else:
        named = {str(name): f"decision {name}" for name in model.classes_}
        values = {name: table[column].to_numpy() for name, column in named.items() if column in table}
    shown = {name: value for name, value in values.items() if 0 < (truth == name).sum() < len(truth)}
    if not shown:
        return None
    figure, ax = plt.subplots(figsize=(5.0, 4.2), layout="constrained")
    for k, (name, value) in enumerate(shown.items()):
        here = truth == name
        if kind == "roc":
            x, y, _ = metrics.roc_curve(here, value)
            area = metrics.auc(x, y)
        else:
            y, x, _ = metrics.precision_recall_curve(here, value)
            area = metrics.average_precision_score(here, value)
        drawn = "steps-post" if kind == "roc" else "default"
        ax.plot(x, y, label=f"{name} ({area:.3f})", color=COLORS[k % len(COLORS)], drawstyle=drawn)
    ax.set_xlabel("false positive rate" if kind == "roc" else "recall")
    ax.set_ylabel("true positive rate" if kind == "roc" else "precision")
    ax.legend(frameon=False, fontsize="small", loc="lower right" if kind == "roc" else "lower left")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def _convergence_figure(model: BaseMKL, histories: Sequence[Mapping[str, ArrayLike]]) -> Figure:
    import matplotlib.pyplot as plt

    from kernelweave.inspection.arguments import class_names
    from kernelweave.plots.drawing import COLORS

    figure, ax = plt.subplots(figsize=(5.0, 4.2), layout="constrained")
    classes = class_names(model)
    names = classes if len(classes) == len(histories) else [None] * len(histories)
    for k, (name, history) in enumerate(zip(names, histories, strict=True)):
        gaps = np.asarray(history["rel_gap"], dtype=float)
        steps = np.arange(1, len(gaps) + 1)
        ax.plot(steps[gaps > 0], gaps[gaps > 0], ".-", label=name, color=COLORS[k % len(COLORS)])
    ax.set_yscale("log")
    ax.set_xlabel("iteration")
    ax.set_ylabel("relative gap")
    if any(names):
        ax.legend(frameon=False, fontsize="small", loc="upper right")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def _held_figure(model: BaseMKL, held: Held) -> Figure:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.0, 4.2), layout="constrained")
    predicted = held.predictions["prediction"].to_numpy()
    if hasattr(model, "classes_"):
        classes = list(model.classes_)
        counts = np.zeros((len(classes), len(classes)), dtype=int)
        for truth, guess in zip(held.truth, predicted, strict=True):
            counts[classes.index(truth), classes.index(guess)] += 1
        ax.imshow(counts, cmap="Blues")
        for i, row in enumerate(counts):
            for j, value in enumerate(row):
                dark = value > counts.max() / 2
                ax.text(j, i, str(value), ha="center", va="center", color="white" if dark else "black")
        ax.set_xticks(range(len(classes)), [str(c) for c in classes])
        ax.set_yticks(range(len(classes)), [str(c) for c in classes])
        ax.set_xlabel("predicted")
        ax.set_ylabel("true")
        return figure
    truth = np.asarray(held.truth, dtype=float)
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    ax.plot(ends, ends, color="0.6", linewidth=1)
    ax.plot(predicted, truth, ".", color="#0072B2")
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def _environment() -> dict[str, str]:
    from importlib.metadata import version

    from kernelweave._loops import HAS_EXTENSION

    names = ("kernelweave", "numpy", "scipy", "scikit-learn", "matplotlib")
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **{name: version(name) for name in names},
        "compiled core": "yes" if HAS_EXTENSION else "no",
    }


def make_report(
    model: BaseMKL,
    *,
    title: str,
    data: list[str],
    settings: Mapping[str, object],
    held: Held | None = None,
    X: DataFrame = None,
    comparison: dict[str, float] | None = None,
    pictures: list[Picture] | None = None,
) -> str:
    """Return a report as one HTML page.

    Parameters
    ----------
    model : fitted estimator
    title : str
    data : list of str
        Lines about the data.
    settings : dict
        Settings of the run.
    held : Held, optional
        Held-out rows.
    X : table, optional
        Rows for the contributions of kernels.
    comparison : dict of str to float, optional
        Held-out accuracy of this model and others.
    pictures : list of Picture, optional
        Default: those of `draw_pictures`.

    Returns
    -------
    str
    """
    from jinja2 import Environment, PackageLoader

    from kernelweave._docstrings import read_docstring
    from kernelweave._parameters import said
    from kernelweave.inspection import kernel_weights, layer_weights, missing, uninformative, view_weights

    found = kernel_weights(model)
    weights = found.weights.reshape(len(found.weights), -1)
    learner = model.model_.learner
    given = learner.get_params(deep=False)
    layers = layer_weights(model)
    upper = [
        [(str(n), [float(v) for v in w]) for n, w in zip(names, table.reshape(len(table), -1), strict=True)]
        for names, table in zip(layers.names[1:], layers.weights[1:], strict=True)
    ]
    results = getattr(model, "cv_results_", None)
    chosen = None
    if results is not None:
        folds = [v for k, v in results.items() if k.startswith("split")]
        chosen = {
            "name": results["score_name"],
            "mean": float(results["mean_test_score"][model.best_index_]),
            "error": float(results["std_error_test_score"][model.best_index_]),
            "folds": [float(fold[model.best_index_]) for fold in folds],
        }
    views = view_weights(model)
    drawn = draw_pictures(model, held, X) if pictures is None else pictures
    figures = [(picture.title, _inline(picture.svg)) for picture in drawn]
    for picture in drawn if pictures is None else ():
        close(picture.figure)
    environment = Environment(
        loader=PackageLoader("kernelweave.reports"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html").render(
        title=title,
        model=model,
        name=type(model).__name__,
        data=data,
        settings=settings,
        outputs=[o or "weight" for o in found.outputs],
        rows=[(str(n), [float(v) for v in w]) for n, w in zip(found.names, weights, strict=True)][
            :MOST_KERNELS
        ],
        hidden=max(0, len(weights) - MOST_KERNELS),
        upper=upper,
        uninformative=uninformative(model, most=20),
        missing=missing(model, most=20),
        defaults=model.explain_defaults() if getattr(model, "defaults_", None) else "",
        certificate=learner.certificate,
        stationarity=", ".join(f"{v:.1e}" for v in np.atleast_1d(getattr(model, "stationarity_", ()))),
        views=views if 1 < len(views) < 60 else {},
        chosen=chosen,
        held=held,
        comparison=comparison,
        figures=figures,
        environment=_environment(),
        learner=type(learner).__name__,
        summary=read_docstring(learner.__doc__).summary,
        words=[
            (
                f"{one.label}, {one.shown.unit}" if one.shown.unit else one.label,
                said(given[one.name]),
                one.about,
            )
            for one in learner.settings().values()
        ],
        citation=learner.reference(),
    )
