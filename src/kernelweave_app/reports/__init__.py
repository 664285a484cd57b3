"""Self-contained HTML reports of fitted models, with inline pictures and no external resources."""

from __future__ import annotations

import io
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kernelweave._drawing import score_text

if TYPE_CHECKING:
    from pathlib import Path

    from kernelweave._types import DataFrame, Figure, SubFigure
    from kernelweave.estimators import BaseMKL
    from kernelweave.inspection.held import HeldOut
    from kernelweave.inspection.held_times import HeldTimes
    from kernelweave.inspection.registry import Found, Table

__all__ = ["Picture", "close", "draw_pictures", "make_report", "svg"]

#: Rows of a table.
MOST_ROWS = 60


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
        # the places of axes and labels are found: finding them again would be half of the time
        figure.set_layout_engine(None)
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


def _inline(text: str, name: str) -> str:
    """The SVG element alone, an image with a name, without the header, which contains addresses of other hosts."""
    start = text.index("<svg")
    return f'<svg role="img" aria-label="{escape(name, quote=True)}"{text[start + len("<svg") :]}'


def close(figure: Figure | SubFigure) -> None:
    """Close a figure."""
    import matplotlib.pyplot as plt

    plt.close(_whole(figure))


def draw_pictures(
    model: BaseMKL,
    held: HeldOut | HeldTimes | None = None,
    X: DataFrame = None,
    path: Any = None,
    *,
    with_path: bool = True,
    only: str = "",
) -> list[Picture]:
    """Draw everything that a report shows.

    Parameters
    ----------
    model : fitted estimator
    held : HeldOut, optional
        Held-out rows.
    X : table, optional
        Rows for the contributions of kernels.
    path : Path, optional
        The path, if it has been solved already; by default it is solved again.
    with_path : bool, default=True
        Draw the path. Deep kernels have none, because its weights would be local solutions, each at the cost of a fit.
    only : str, default=""
        Draw the picture of this name alone.

    Returns
    -------
    list of Picture
        Their figures stay open: see `close`.
    """
    from kernelweave import inspection, plots
    from kernelweave.inspection.arguments import outputs_of, target_names, targets_of
    from kernelweave.inspection.held import HeldOut
    from kernelweave_app.reports.figures import (
        convergence_figure,
        held_figure,
        ranking_figure,
        residual_figure,
    )

    drawn: list[Picture] = []

    def add(name: str, title: str, draw: Callable[[], Any]) -> None:
        if only not in ("", name):
            return
        shown = draw()
        figure = getattr(shown, "figure_", shown)
        if figure is not None:
            drawn.append(Picture(name, title, figure))

    deep, classes = len(model.layer_kernel_names_) > 1, hasattr(model, "classes_")
    first = outputs_of(model)[0]
    rest = "" if target_names(model) else " against the rest"
    which = f" ({first}{rest})" if first else ""
    if deep:
        add("weights", "Weights of every layer", partial(plots.LayerWeightsDisplay.from_estimator, model))
    else:
        add("weights", "Kernel weights", partial(plots.KernelWeightsDisplay.from_estimator, model))
    if inspection.column_relevance(model):
        shown = partial(plots.ColumnRelevanceDisplay.from_estimator, model)
        add("relevance", "Columns in the learnt metric", shown)
    if getattr(model, "cv_results_", None) is not None:
        curve = partial(plots.CVCurveDisplay.from_estimator, model)
        add("choice", "Choice of the regularisation parameter", curve)
    if deep:
        if "criterion" in model.history_[0]:
            descent = partial(plots.DescentDisplay.from_estimator, model)
            add("descent", f"Descent of the criterion{which}", descent)
        matrices = partial(plots.KernelMatricesDisplay.from_estimator, model)
        add("matrices", f"Kernel matrices of every layer{which}", matrices)
        spectra = partial(plots.LayerSpectraDisplay.from_estimator, model)
        add("spectra", f"Eigenvalues of every layer{which}", spectra)
    elif with_path and (path is not None or len(targets_of(model, 0))):
        # a model file may be without training rows
        path = inspection.regularization_path(model) if path is None else path
        lines = path.alphas, path.df, path.fractions, list(path.names), path.chosen
        parameter = "C" if hasattr(model, "C_") else "alpha"
        display = plots.RegularizationPathDisplay(*lines, "kernel weight (fraction)", parameter)
        add("path", f"Regularisation path{which}", display.plot)
        if parameter == "alpha":
            add("path-df", f"Path against degrees of freedom{which}", partial(display.plot, x="df"))
        if path.criteria:
            criteria = plots.SelectionCriteriaDisplay(path.alphas, path.criteria, path.chosen).plot
            add("criteria", f"Selection criteria along the path{which}", criteria)
    if X is not None:
        parts = partial(plots.KernelContributionsDisplay.from_estimator, model, X)
        add("contributions", "Contribution of each kernel", parts)
    if isinstance(held, HeldOut):
        if held.classes or not classes:
            add("held-out", "Held-out rows", partial(held_figure, held))
        if classes:
            add("roc", "Receiver operating characteristic", partial(ranking_figure, held, "roc"))
            add("precision", "Precision and recall", partial(ranking_figure, held, "precision"))
        else:
            add("residuals", "Residuals of held-out rows", partial(residual_figure, held))
    histories = [history for history in model.history_ if len(history.get("rel_gap", ()))]
    if histories:
        add("convergence", "Convergence", partial(convergence_figure, model, histories))
    return drawn


#: Packages that numbers depend on.
PACKAGES = ("kernelweave", "numpy", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    from kernelweave._loops import HAS_EXTENSION

    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from its sources
            found[name] = "unknown"
    system = f"{platform.system()} {platform.machine()}"
    return {**found, "compiled core": "yes" if HAS_EXTENSION else "no", "system": system}


def make_report(
    model: BaseMKL,
    *,
    title: str,
    data: list[str],
    settings: Mapping[str, object],
    held: HeldOut | HeldTimes | None = None,
    X: DataFrame = None,
    pictures: list[Picture] | None = None,
    found: Found | None = None,
    lineage: Any = None,
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
    held : HeldOut, optional
        Held-out rows.
    X : table, optional
        Rows for the contributions of kernels.
    pictures : list of Picture, optional
        Default: those of `draw_pictures`.
    found : dict of str to Finding, optional
        Default: what can be said without further fits.
    lineage : optional
        Tables with checksums, versions, seed and command of a run, see `kernelweave_app.runs.lineage`.

    Returns
    -------
    str
    """
    from jinja2 import Environment, PackageLoader

    from kernelweave._docstrings import read_docstring
    from kernelweave._parameters import said
    from kernelweave.inspection.held import HeldOut
    from kernelweave.inspection.held_times import HeldTimes
    from kernelweave.inspection.registry import QUESTIONS, Basis, collect, only, sentences_of, tables_of
    from kernelweave_app.reports.figures import draw_findings

    learner = model.model_.learner
    given = learner.get_params(deep=False)
    if found is None:
        found = collect(Basis(model=model, held=only(HeldOut, held), held_times=only(HeldTimes, held)))
    sentences = sentences_of(found)
    answers = [
        (head, [one.text for _, one in sentences if one.topic == topic]) for topic, head in QUESTIONS.items()
    ]
    drawn = draw_pictures(model, held, X) if pictures is None else pictures
    more = draw_findings(found)
    figures = [(picture.title, _inline(picture.svg, picture.title)) for picture in (*drawn, *more)]
    for picture in (*(drawn if pictures is None else ()), *more):
        close(picture.figure)
    environment = Environment(
        loader=PackageLoader("kernelweave_app.reports"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html").render(
        title=title,
        model=model,
        name=type(model).__name__,
        data=data,
        settings=settings,
        answers=answers,
        tiles=_tiles(held, found),
        tables=[(table, table.shown(MOST_ROWS), _bars(table)) for table in tables_of(found)],
        defaults=model.explain_defaults() if model.defaults_ else "",
        certificate=learner.certificate,
        stationarity=", ".join(f"{v:.1e}" for v in np.atleast_1d(getattr(model, "stationarity_", ()))),
        held=held,
        figures=figures,
        environment=versions() if lineage is None else lineage.versions,
        lineage=lineage,
        learner=type(learner).__name__,
        summary=read_docstring(learner.__doc__).summary,
        words=[
            (
                f"{one.label}, {one.shown.unit}" if one.shown.unit else one.label,
                said(given[one.name]),
                one.about,
            )
            for one in learner.settings().values()
            if _matters(one.name, given, classes=hasattr(model, "classes_"))
        ],
        citation=learner.reference(),
    )


def _matters(name: str, given: Mapping[str, Any], *, classes: bool) -> bool:
    """Whether a parameter of a learner is worth a line: it has a value, and the loss at hand has it."""
    if given[name] is None:
        return False
    if name == "epsilon":
        loss = given.get("loss", "auto")
        return loss == "epsilon-insensitive" or (loss == "auto" and not classes)
    return True


def _tiles(held: HeldOut | HeldTimes | None, found: Found) -> list[tuple[str, str]]:
    """The scores at the top of a report with what they are."""
    from kernelweave.inspection.held_times import HeldTimes
    from kernelweave.inspection.registry import Finding, Interval

    made, of_times = [], isinstance(held, HeldTimes)
    for source in ("held out", "nested", "held-out times", "out-of-fold times", "folds"):
        of = found.get(source, Finding())
        scores = (
            held.scores
            if source == "held out" and held is not None and not of_times
            else {k: v.value for k, v in of.values.items()}
        )
        where = of.details.get("said", source.removesuffix(" times").replace("-", " "))
        for name, value in scores.items():
            one = of.values.get(name, Interval(value))
            n = of.rows or (one.n if held is None or isinstance(held, HeldTimes) else len(held.truth))
            said = "; ".join(filter(None, (f"{name}, {where}", one.in_words(name, n))))
            made.append((score_text(name, value, n), said))
    return made


def _bars(table: Table) -> list[float | None]:
    """Widths of bars beside the rows of a table of fractions with one column, as parts of the largest."""
    if len(table.heads) != 2 or not table.formats:
        return [None] * len(table.rows)
    fractions = [float(cast("float | None", row[1]) or 0.0) for row in table.rows]
    return [round(value / (max(fractions) or 1.0), 4) for value in fractions]
