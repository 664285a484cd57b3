"""Figures of a run for papers, drawn in a process of their own from what its page shows.

``python -m kernelweave_app.studio.printing RUN_FOLDER NAME WIDTH FORMAT``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave_app.reports.printing import LEAST, MOST
from kernelweave_app.studio.processes import environment

if TYPE_CHECKING:
    from kernelweave_app.reports import Picture
    from kernelweave_app.studio.schema import Results

#: Figures by the names of files.
FIGURES = (
    *("weights", "contributions", "path", "choice", "roc", "precision", "confusion", "held-out", "residuals"),
    *("stability", "learning-curve", "calibration", "permutation"),
)
FORMATS = ("pdf", "svg")
#: Seconds that a drawing may take.
PATIENCE = 120.0
PRINTED = "printed"


def print_figure(folder: Path, name: str, width: float, kind: str) -> Path:
    """Draw a figure of a run in a width in millimetres, in another process; returns its file."""
    if name not in FIGURES or kind not in FORMATS:
        raise InputError(f"A figure must be one of {', '.join(FIGURES)}, as pdf or svg, got {name!r:.40}.")
    if not LEAST <= width <= MOST:
        raise InputError(f"The width must be from {LEAST:g} to {MOST:g} millimetres, got {width:g}.")
    command = [sys.executable, "-P", "-m", "kernelweave_app.studio.printing"]
    try:
        found = subprocess.run(
            [*command, str(folder), name, f"{width:g}", kind],
            env=environment(1),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            "The figure took too long to draw. Try again when fewer runs are under way."
        ) from None
    if found.returncode:
        said = found.stderr.strip().splitlines()
        raise InputError(f"This figure could not be drawn: {said[-1] if said else 'no reason given'}.")
    return folder / PRINTED / f"{name}-{width:g}mm.{kind}"


def draw(folder: Path, name: str) -> Picture:
    """Draw a figure from the files of a run."""
    from kernelweave_app.reports.figures import draw_findings
    from kernelweave_app.runs.evidence import read_evidence
    from kernelweave_app.studio.schema import Results
    from kernelweave_app.studio.worker import RESULTS

    for picture in draw_findings(read_evidence(folder)):
        if picture.name == name:
            return picture
    results = Results.model_validate_json((folder / RESULTS).read_bytes(), extra="ignore")
    made = _draw(results, name)
    if made is None:
        raise InputError(f"this run has no figure {name}")
    return made


def _draw(results: Results, name: str) -> Picture | None:
    from kernelweave import plots
    from kernelweave_app.reports import Picture
    from kernelweave_app.reports.figures import confusion_figure

    held = results.held
    if name == "weights" and results.weights.names:
        values = np.array(results.weights.values)
        one = values.shape[1] == 1
        display = plots.KernelWeightsDisplay(
            results.weights.names, values[:, 0] if one else values, ("",) if one else results.weights.outputs
        )
        return Picture(name, "Kernel weights", display.plot().figure_)
    if name == "contributions" and results.contributions is not None:
        parts = results.contributions
        # of every output and kernel over the rows of the page, the largest first
        sizes = np.array(parts.values).std(axis=1).T
        order = np.argsort(-sizes.sum(axis=1), kind="stable")
        order = order[sizes[order].sum(axis=1) > 0]
        one = sizes.shape[1] == 1
        shown = plots.KernelContributionsDisplay(
            [parts.kernels[m] for m in order],
            sizes[order, 0] if one else sizes[order],
            ("",) if one else parts.outputs,
        )
        return Picture(name, "Contribution of each kernel", shown.plot().figure_)
    if name == "path" and results.paths:
        path = results.paths[0]
        df = np.array([np.nan if v is None else v for v in path.df])
        drawn = plots.RegularizationPathDisplay(
            np.array(path.alphas),
            df,
            np.array(path.weights),
            path.names,
            path.chosen,
            "kernel weight",
            path.parameter,
        ).plot()
        return Picture(name, "Regularisation path", drawn.figure_)
    if name == "choice" and results.curve is not None:
        return Picture(name, "Choice of the regularisation parameter", _curve(results.curve))
    if held is None:
        return None
    truth, guess = (
        [row[held.columns.index(column)] for row in held.rows] for column in ("truth", "prediction")
    )
    if name == "confusion" and held.confusion:
        counts = np.array(held.confusion)
        i, j = np.repeat(np.indices(counts.shape).reshape(2, -1), counts.ravel(), axis=1)
        classes = np.array(held.classes)
        return Picture(name, "Confusion", confusion_figure(held.classes, classes[i], classes[j]))
    if name in ("roc", "precision") and held.receivers:
        return Picture(name, name, _receivers(held, precision=name == "precision"))
    if name in ("held-out", "residuals") and results.task == "regression":
        return Picture(name, "Held-out rows", _numbers(truth, guess, residuals=name == "residuals"))
    return None


def _axes(wide: float = 5.0, tall: float = 3.8) -> Any:
    import matplotlib.pyplot as plt

    from kernelweave.plots.drawing import plain

    figure, ax = plt.subplots(figsize=(wide, tall), layout="constrained")
    plain(ax)
    return figure, ax


def _curve(curve: Any) -> Any:
    from kernelweave._drawing import COLOURS, clip_score, score_axis
    from kernelweave.plots.drawing import parameter_axis

    figure, ax = _axes()
    x = np.array(curve.parameter_values)
    mean, error = (np.array([np.nan if v is None else v for v in part]) for part in (curve.mean, curve.error))
    low, high = (
        np.array([clip_score(v, curve.score) for v in ends]) for ends in (mean - error, mean + error)
    )
    ax.fill_between(x, low, high, color=COLOURS[0], alpha=0.2, linewidth=0)
    ax.plot(x, mean, ".-", color=COLOURS[0])
    ax.axvline(x[curve.chosen], color="0.3", linestyle=":")
    bottom, top, _ = score_axis([float(v) for v in (*low, *high) if np.isfinite(v)], curve.score)
    ax.set_ylim(bottom, top)
    parameter_axis(ax, x, curve.parameter)
    ax.set_xlabel(curve.parameter)
    ax.set_ylabel(f"{curve.score} over {len(curve.folds)} folds")
    return figure


def _receivers(held: Any, *, precision: bool) -> Any:
    from kernelweave.plots.drawing import legend_beside, line_style, short

    figure, ax = _axes(6.6, 4.2)
    for place, one in enumerate(held.receivers):
        # the colours of the page: those of the positions of classes
        several = len(held.receivers) > 1 and one.output in held.classes
        rank = held.classes.index(one.output) if several else place
        x, y = (one.recall, one.precision) if precision else (one.fpr, one.tpr)
        area = one.average_precision if precision else one.auc
        steps = "default" if precision else "steps-post"
        ax.plot(x, y, label=f"{short(one.output, 24)} ({area:.3f})", drawstyle=steps, **line_style(rank))
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.01)
    ax.set_xlabel("recall" if precision else "false positive rate")
    ax.set_ylabel("precision" if precision else "true positive rate")
    legend_beside(ax)
    return figure


def _numbers(truth: Any, guess: Any, *, residuals: bool) -> Any:
    from kernelweave._drawing import COLOURS, GREY

    figure, ax = _axes()
    pairs = [(float(t), float(p)) for t, p in zip(truth, guess, strict=True) if None not in (t, p)]
    y, x = np.array(pairs).T
    if residuals:
        ax.axhline(0.0, color=GREY, linewidth=1)
    else:
        ends = [min(x.min(), y.min()), max(x.max(), y.max())]
        ax.plot(ends, ends, color=GREY, linewidth=1)
    ax.plot(x, y - x if residuals else y, ".", color=COLOURS[0])
    ax.set_xlabel("predicted")
    ax.set_ylabel("true − predicted" if residuals else "true")
    return figure


def main(folder: str, name: str, width: str, kind: str) -> int:
    """Draw one figure and write it."""
    from kernelweave_app.reports.printing import write_figures

    out = Path(folder) / PRINTED
    out.mkdir(exist_ok=True)
    try:
        (made,) = write_figures(lambda: [draw(Path(folder), name)], out, float(width), (kind,))
    except (InputError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    (out / made).replace(out / f"{name}-{float(width):g}mm.{kind}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
