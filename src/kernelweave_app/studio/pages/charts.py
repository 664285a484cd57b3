"""Charts: options of ECharts, made from results; names of users appear as text, never as keys or markup.

NiceGUI evaluates entries whose key begins with a colon. Here they are constants, with which charts adapt to light
and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from nicegui import ui

from kernelweave._drawing import COLOURS, GREY, clip_score, score_axis
from kernelweave_app.studio.pages.frame import DASHES, N_COLOURS
from kernelweave_app.studio.pages.pieces import text
from kernelweave_app.studio.schema import in_parameter

if TYPE_CHECKING:
    from kernelweave._types import Tree
    from kernelweave_app.studio.schema import Curve, PathPoint, Receiver


#: Lines with a colour of their own; the others are thin and grey.
MOST_LINES = 8
#: The rank of the grey, for totals.
TOTAL = COLOURS.index(GREY)
#: NiceGUI makes a chart a moment after its element; one that is removed in that moment has nothing to dispose of yet.
LATE = """(node) => {
    const owner = node.component.proxy;
    const late = {dispose: () => setTimeout(() => {
        if (owner.chart === late) return;
        owner.chart.dispose();
        owner.resizeObserver?.disconnect();
    }, 100)};
    owner.chart ??= late;
}"""


def figure(options: Tree, label: str, caption: str = "", height: str = "") -> ui.echart:
    """A chart with a description for screen readers.

    Parameters
    ----------
    options : dict
        Of ECharts.
    label : str
        What the chart shows.
    caption : str
        Text below.
    height : str
        CSS; by default that of the style sheet.

    Returns
    -------
    ui.echart
    """
    with ui.element("figure").classes("kw-figure").props("role=figure") as frame:
        frame.props["aria-label"] = label
        chart = ui.echart(options)
        chart.on("vnodeBeforeUnmount", js_handler=LATE)
        chart.props["role"] = "img"
        chart.props["aria-label"] = label
        if height:
            chart.style(f"height: {height}")
        if caption:
            text(caption, "figcaption")
    return chart


def base(**parts: Any) -> Tree:
    """Options of all charts."""
    options: dict[str, Any] = {
        "animation": False,
        ":color": f"[{', '.join(colour(k) for k in range(N_COLOURS))}]",
        "textStyle": {"fontFamily": "Roboto, Helvetica Neue, Arial, sans-serif", ":color": "kw('ink')"},
        "grid": {"left": 8, "right": 18, "top": 34, "bottom": 30, "containLabel": True},
        "tooltip": {
            "trigger": "item",
            # rich text is drawn, not interpreted, as names may contain anything
            "renderMode": "richText",
            "confine": True,
            ":backgroundColor": "kw('surface')",
            ":borderColor": "kw('line')",
            "textStyle": {":color": "kw('ink')", "fontSize": 12},
        },
        "aria": {"enabled": False},
    }
    options.update(parts)
    return options


def axis(name: str, *, log: bool = False, category: Sequence[str] | None = None, **more: Any) -> Tree:
    """An axis."""
    found: dict[str, Any] = {
        "type": "category" if category is not None else ("log" if log else "value"),
        "name": name,
        "nameLocation": "middle",
        "nameGap": 30,
        "nameTextStyle": {":color": "kw('soft')", "fontSize": 12},
        "axisLine": {"show": True, "lineStyle": {":color": "kw('faint')"}},
        "axisTick": {"show": False},
        "axisLabel": {":color": "kw('soft')", "fontSize": 11, "hideOverlap": True},
        "splitLine": {"lineStyle": {":color": "kw('line')", "width": 1}},
    }
    if category is not None:
        found["data"] = list(category)
        found["splitLine"] = {"show": False}
    if log:
        found["axisLabel"][":formatter"] = (
            "(v) => v >= 0.001 && v <= 10000 ? String(Number(v.toPrecision(3))) : v.toExponential(0).replace('e+', 'e')"
        )
        found["minorSplitLine"] = {"show": False}
    found.update(more)
    return found


def legend(names: Sequence[str], **more: Any) -> Tree:
    """A legend with pages."""
    return {
        "data": list(names),
        "type": "scroll",
        "top": 0,
        "left": 0,
        "itemWidth": 22,
        "itemHeight": 14,
        "textStyle": {":color": "kw('soft')", "fontSize": 11, "width": 190, "overflow": "truncate"},
        "pageTextStyle": {":color": "kw('soft')"},
        ":pageIconColor": "kw('accent')",
        **more,
    }


def colour(rank: int) -> str:
    """Expression for the colour of a rank in the browser."""
    return f"kw('c{rank % N_COLOURS + 1}')"


def line_style(rank: int) -> Tree:
    """Colour and dashes of a line by its rank."""
    return {":color": colour(rank), "type": DASHES[(rank // N_COLOURS) % len(DASHES)], "width": 2}


def marker(value: float, label: str) -> Tree:
    """A vertical line."""
    return {
        "silent": True,
        "symbol": "none",
        "data": [{"xAxis": value}],
        "lineStyle": {":color": "kw('soft')", "type": [4, 3], "width": 1.5},
        "label": {"formatter": label, ":color": "kw('soft')", "fontSize": 11, "position": "end", "rotate": 0},
    }


def path_chart(
    x: Sequence[float | None],
    names: Sequence[str],
    weights: Sequence[Sequence[float]],
    *,
    by: str,
    cursor: int,
    chosen: int,
) -> Tree:
    """Weights along a path, with a cursor."""
    values = np.asarray(weights, dtype=float)
    shown = [j for j in range(len(names)) if values[:, j].max() > 0]
    order = sorted(shown, key=lambda j: -values[:, j].max())
    series: list[dict[str, Any]] = []
    for rank, j in enumerate(order):
        ranked = rank < MOST_LINES
        points = [[a, round(float(v), 6)] for a, v in zip(x, values[:, j], strict=True) if a is not None]
        series.append({
            "name": names[j], "type": "line", "data": points, "showSymbol": False, "symbol": "circle", "symbolSize": 6,
            "lineStyle": line_style(rank) if ranked else {":color": "kw('faint')", "width": 0.8},
            "itemStyle": {":color": colour(rank)} if ranked else {":color": "kw('faint')"},
            "z": 3 if ranked else 2, "emphasis": {"focus": "series"},
        })  # fmt: skip
    at = x[cursor]
    if series and at is not None:
        series[0]["markLine"] = marker(at, "")
        where = x[chosen]
        if where is not None:
            series[0]["markPoint"] = {
                "silent": True, "symbol": "triangle", "symbolSize": 9, "symbolOffset": [0, 6],
                "data": [{"coord": [where, 0]}], "itemStyle": {":color": "kw('ink')"},
            }  # fmt: skip
    horizontal = axis("degrees of freedom") if by == "df" else parameter_axis(by)
    known = [a for a in x if a is not None]
    if known:
        horizontal["min"], horizontal["max"] = min(known), max(known)
    options = base(
        legend=legend([names[j] for j in order[:MOST_LINES]]),
        xAxis=horizontal,
        yAxis=axis("", min=0),
        series=series,
    )
    options["tooltip"]["trigger"] = "item"
    return options


def parameter_axis(parameter: str, **more: Any) -> Tree:
    """An axis of regularisation parameters on which the strongest regularisation is on the left."""
    return axis(f"{parameter}: strong to weak", log=True, inverse=parameter != "C", **more)


def live_chart(
    kernels: Sequence[str], points: Sequence[PathPoint], alphas: Sequence[float], parameter: str = "alpha"
) -> Tree:
    """The path of one stage while it is computed, over the range of all values so far."""
    largest: dict[int, float] = {}
    for point in points:
        for m, weight in point.weights.items():
            largest[m] = max(largest.get(m, 0.0), weight)
    order = sorted(largest, key=lambda m: -largest[m])[: 3 * MOST_LINES]
    x = in_parameter((p.alpha for p in points), parameter)
    series = []
    for rank, m in enumerate(order):
        ranked = rank < MOST_LINES
        series.append({
            "name": kernels[m] if m < len(kernels) else f"kernel {m}", "type": "line", "symbolSize": 4,
            "showSymbol": len(points) < 3,
            "data": [[a, p.weights.get(m, 0.0)] for a, p in zip(x, points, strict=True)],
            "lineStyle": line_style(rank) if ranked else {":color": "kw('faint')", "width": 0.8},
            "itemStyle": {":color": colour(rank)} if ranked else {":color": "kw('faint')"},
        })  # fmt: skip
    names = [str(s["name"]) for s in series[:MOST_LINES]]
    across = parameter_axis(parameter)
    ends = in_parameter(alphas, parameter)
    if ends and min(ends) < max(ends):
        across["min"], across["max"] = min(ends), max(ends)
    return base(
        legend=legend(names),
        xAxis=across,
        yAxis=axis("kernel weight", min=0, nameGap=38),
        series=series,
    )


def curve_chart(curves: Sequence[tuple[str, Curve]], *, score: str) -> Tree:
    """Mean scores over folds with a band of one standard error."""
    series: list[dict[str, Any]] = []
    reached: list[float] = []
    # learners with an alpha and with a C have one axis in common
    parameters = {curve.parameter for _, curve in curves}
    parameter = "C" if parameters == {"C"} else "alpha"
    for rank, (name, curve) in enumerate(curves):
        x = in_parameter(curve.alphas, parameter)
        points = [
            (a, m, e or 0.0) for a, m, e in zip(x, curve.mean, curve.error, strict=True) if m is not None
        ]
        # a standard error may reach further than a score can
        ends = [(clip_score(m - e, score), clip_score(m + e, score)) for _, m, e in points]
        reached += [end for pair in ends for end in pair]
        low = [[a, bottom] for (a, *_), (bottom, _) in zip(points, ends, strict=True)]
        band = [[a, top - bottom] for (a, *_), (bottom, top) in zip(points, ends, strict=True)]
        stack = f"band {rank}"
        hidden = {
            "type": "line",
            "stack": stack,
            "symbol": "none",
            "silent": True,
            "lineStyle": {"opacity": 0},
            "z": 1,
        }
        # the band is drawn on top of an invisible line; stacking needs both parts of one sign
        series.append(
            {**hidden, "name": f"low {rank}", "data": low, "stackStrategy": "all", "tooltip": {"show": False}}
        )
        series.append({
            **hidden, "name": f"band {rank}", "data": band, "stackStrategy": "all", "tooltip": {"show": False},
            "areaStyle": {":color": colour(rank), "opacity": 0.18},
        })  # fmt: skip
        series.append({
            "name": name, "type": "line", "data": [[a, m] for a, m, _ in points], "symbolSize": 5, "symbol": "circle",
            "lineStyle": line_style(rank), "itemStyle": {":color": colour(rank)}, "z": 4,
            "markLine": marker(x[curve.chosen], "chosen" if len(curves) == 1 else ""),
        })  # fmt: skip
    shown = [s["name"] for s in series if not str(s["name"]).startswith(("low ", "band "))]
    options = base(
        xAxis=parameter_axis(parameter if len(parameters) < 2 else "alpha, or 1 / C", scale=True),
        yAxis=axis(score, nameGap=44, **_ends(reached, score)),
        series=series,
    )
    if len(curves) > 1:
        options["legend"] = legend(shown)
    return options


def _ends(values: Sequence[float], score: str) -> Tree:
    """Ends of an axis of scores."""
    low, high, step = score_axis(list(values), score)
    return {"min": low, "max": high, "interval": step}


def bars_chart(
    names: Sequence[str], values: Sequence[Sequence[float]], outputs: Sequence[str], unit: str
) -> Tree:
    """Horizontal bars, one colour for each output."""
    series = [
        {
            "name": output, "type": "bar", "data": [round(row[k], 6) for row in values][::-1], "barMaxWidth": 16,
            "itemStyle": {":color": colour(k), "borderRadius": [0, 3, 3, 0]},
        }
        for k, output in enumerate(outputs)
    ]  # fmt: skip
    labels = axis("", category=list(names)[::-1])
    labels["axisLabel"] |= {"width": 230, "overflow": "truncate", "interval": 0}
    options = base(xAxis=axis(unit, min=0), yAxis=labels, series=series)
    options["grid"] |= {"top": 30 if len(outputs) > 1 else 8}
    if len(outputs) > 1:
        options["legend"] = legend(list(outputs))
    return options


def contributions_chart(kernels: Sequence[str], values: Sequence[float], intercept: float) -> Tree:
    """The contribution of each kernel to one decision value, and their sum."""
    names = ["intercept", *kernels, "sum"]
    numbers = [intercept, *values, intercept + sum(values)]
    labels = axis("", category=names[::-1])
    labels["axisLabel"] |= {"width": 220, "overflow": "truncate", "interval": 0}
    signed = ["kw('raises')" if v >= 0 else "kw('lowers')" for v in values]
    colours = [colour(TOTAL), *signed, colour(TOTAL)]
    data = [
        {"value": round(v, 6), "itemStyle": {":color": c, "borderRadius": 2}}
        for v, c in zip(numbers, colours, strict=True)
    ][::-1]
    options = base(
        xAxis=axis("decision value"), yAxis=labels, series=[{"type": "bar", "data": data, "barMaxWidth": 15}]
    )
    options["grid"]["top"] = 8
    return options


def receiver_chart(receivers: Sequence[Receiver], *, precision: bool, classes: Sequence[str] = ()) -> Tree:
    """Receiver operating characteristic, or precision and recall; classes have the colours of their positions."""
    series = []
    for place, receiver in enumerate(receivers[:MOST_LINES]):
        several = len(receivers) > 1 and receiver.output in classes
        rank = list(classes).index(receiver.output) if several else place
        points = (
            zip(receiver.recall, receiver.precision, strict=True)
            if precision
            else zip(receiver.fpr, receiver.tpr, strict=True)
        )
        area = receiver.average_precision if precision else receiver.auc
        series.append({
            "name": f"{receiver.output} ({area:.3f})", "type": "line", "step": False if precision else "end",
            "symbol": "none",
            "data": [[round(a, 5), round(b, 5)] for a, b in points], "lineStyle": line_style(rank),
            "itemStyle": {":color": colour(rank)},
        })  # fmt: skip
    if not precision:
        series.append({
            "name": "chance", "type": "line", "data": [[0, 0], [1, 1]], "symbol": "none", "silent": True,
            "lineStyle": {":color": "kw('faint')", "type": [3, 3], "width": 1},
        })  # fmt: skip
    across, up = ("recall", "precision") if precision else ("false positive rate", "true positive rate")
    return base(
        legend=legend([str(s["name"]) for s in series if s["name"] != "chance"]),
        xAxis=axis(across, min=0, max=1),
        yAxis=axis(up, min=0, max=1, nameGap=36),
        series=series,
    )


def residual_chart(truth: Sequence[float], predicted: Sequence[float], *, residuals: bool) -> Tree:
    """Truth against prediction, or residuals."""
    if residuals:
        points = [[p, t - p] for t, p in zip(truth, predicted, strict=True)]
        ends = [[min(predicted), 0.0], [max(predicted), 0.0]]
    else:
        points = [[p, t] for t, p in zip(truth, predicted, strict=True)]
        low, high = min(*truth, *predicted), max(*truth, *predicted)
        ends = [[low, low], [high, high]]
    series = [
        {"type": "scatter", "data": points, "symbolSize": 7, "itemStyle": {":color": colour(0), "opacity": 0.7}},
        {
            "type": "line", "data": ends, "symbol": "none", "silent": True,
            "lineStyle": {":color": "kw('soft')", "width": 1, "type": [4, 3]},
        },
    ]  # fmt: skip
    options = base(
        xAxis=axis("predicted", scale=True),
        yAxis=axis("true − predicted" if residuals else "true", scale=True, nameGap=42),
        series=series,
    )
    options["grid"]["top"] = 12
    return options


def convergence_chart(
    histories: Sequence[tuple[str, Mapping[str, Sequence[float | None]]]], key: str
) -> Tree:
    """A quantity at every iteration."""
    series = []
    positive = True
    for rank, (name, history) in enumerate(histories):
        values = history.get(key, [])
        points = [[k + 1, v] for k, v in enumerate(values) if v is not None and (v > 0 or key != "rel_gap")]
        positive &= all(v > 0 for _, v in points)
        series.append({
            "name": name or key, "type": "line", "data": points, "symbolSize": 4, "lineStyle": line_style(rank),
            "itemStyle": {":color": colour(rank)},
        })  # fmt: skip
    log = positive and key in ("rel_gap", "stationarity", "residual")
    options = base(
        xAxis=axis("iteration", minInterval=1, min=1),
        yAxis=axis(key.replace("_", " "), log=log, scale=True, nameGap=50),
        series=series,
    )
    if len(series) > 1:
        options["legend"] = legend([str(s["name"]) for s in series])
    return options


def heat_chart(rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]) -> Tree:
    """A heat map, such as weights by layer and kernel."""
    data = [[j, i, round(v, 5)] for i, row in enumerate(values) for j, v in enumerate(row)]
    most = max((v for row in values for v in row), default=1.0)
    across = axis("", category=columns)
    across["axisLabel"] |= {"rotate": 40, "width": 120, "overflow": "truncate"}
    options = base(
        xAxis=across,
        yAxis=axis("", category=rows),
        visualMap={
            "min": 0, "max": most or 1.0, "orient": "horizontal", "left": 0, "top": 0, "itemHeight": 110,
            "calculable": False, "text": [f"{most:.2g}", "0"],
            "inRange": {"color": ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"]},
            "textStyle": {":color": "kw('soft')"},
        },
        series=[{"type": "heatmap", "data": data, "itemStyle": {":borderColor": "kw('surface')", "borderWidth": 1}}],
    )  # fmt: skip
    options["grid"]["top"] = 44
    return options


def dots_chart(names: Sequence[str], values: Sequence[tuple[float | None, float | None]], unit: str) -> Tree:
    """Scores as dots with error bars of one spread to each side."""
    labels = axis("", category=list(names)[::-1])
    labels["axisLabel"] |= {"width": 200, "overflow": "truncate", "interval": 0}
    points, lines = [], []
    ends = [clip_score(v + sign * (s or 0.0), unit) for v, s in values if v is not None for sign in (-1, 1)]
    for k, (value, spread) in enumerate(list(values)[::-1]):
        if value is None:
            continue
        here = {":color": colour(len(values) - 1 - k)}
        points.append({"value": [value, k], "itemStyle": here})
        if spread:
            low, high = (clip_score(value + sign * spread, unit) for sign in (-1, 1))
            lines.append([{"coord": [low, k], "lineStyle": here}, {"coord": [high, k]}])
    series = [{
        "type": "scatter", "data": points, "symbolSize": 11,
        "markLine": {
            "silent": True, "symbol": "none", "lineStyle": {"width": 2.5, "type": "solid"}, "label": {"show": False},
            "data": lines,
        },
    }]  # fmt: skip
    options = base(
        xAxis=axis(unit, **_ends(ends, unit)),
        yAxis=labels,
        series=series,
    )
    options["grid"]["top"] = 8
    return options


MOST_KERNELS = 20
#: What stands below weights with intervals.
STABILITY = (
    "Bars: weights of the model. Lines: 95 % of the weights over random halves of the rows. Names: fraction of the "
    "halves in which a kernel has a weight."
)


def _segment(low: list[float], high: list[float], rank: int, name: str, *, strong: bool = False) -> Tree:
    """A line from one point to another."""
    ink = "kw('ink')" if strong else colour(rank)
    return {
        "name": name, "type": "line", "data": [low, high], "symbol": "none", "silent": True, "z": 5,
        "lineStyle": {":color": ink, "width": 2, "type": "solid"}, "tooltip": {"show": False},
    }  # fmt: skip


def stability(found: Tree) -> tuple[Tree, str]:
    """Weights as bars with the intervals over halves of the rows."""
    weights = np.array(found["weights"])
    order = np.argsort(-weights.sum(axis=1), kind="stable")[:MOST_KERNELS]
    n_outputs = weights.shape[1]
    often = np.array(found["frequency"])[order].mean(axis=1)
    names = [f"{found['names'][m]}  {share:.0%}" for m, share in zip(order, often, strict=True)]
    series: list[dict[str, Any]] = []
    height = 0.8 / n_outputs
    for k, output in enumerate(found["outputs"]):
        # points of a value axis beside the categories: bars at the same places, with room for lines
        for place, m in enumerate(order):
            y = len(order) - 1 - place - (k - 0.5 * (n_outputs - 1)) * height
            own = float(weights[m, k])
            low, high = float(found["low"][m][k]), float(found["high"][m][k])
            bar = _segment([0.0, y], [own, y], k, output)
            bar["lineStyle"] |= {"width": max(5.0, 15.0 * height), "opacity": 0.75}
            bar["z"] = 3
            series += [bar, _segment([min(low, own), y], [max(high, own), y], k, output, strong=True)]
    labels = axis("", category=names[::-1])
    labels["axisLabel"] |= {"width": 260, "overflow": "truncate", "interval": 0}
    hidden = axis("", min=-0.5, max=len(order) - 0.5, show=False)
    for one in series:
        one["yAxisIndex"] = 1
    options = base(xAxis=axis("kernel weight", min=0), yAxis=[labels, hidden], series=series)
    # a series on the axis of names, which would not be drawn without one
    series.append({"type": "bar", "data": [0] * len(order), "silent": True, "tooltip": {"show": False}})
    options["grid"]["top"] = 30 if n_outputs > 1 else 8
    if n_outputs > 1:
        series += [
            {"name": f"{output} ", "type": "bar", "data": [], "itemStyle": {":color": colour(k)}}
            for k, output in enumerate(found["outputs"])
        ]
        options["legend"] = legend([f"{output} " for output in found["outputs"]], selectedMode=False)
    return options, f"{5 + 1.45 * len(order) * (1 + 0.35 * (n_outputs - 1)):.1f}rem"


def learning(found: Tree) -> tuple[Tree, str]:
    """Scores by the number of training rows, with a band."""
    rows = [
        (n, mean, low, high)
        for n, mean, low, high in zip(found["sizes"], found["mean"], found["low"], found["high"], strict=True)
        if mean is not None
    ]
    known = [float(v) for row in rows for v in row[1:] if v is not None]
    bottom, top, step = score_axis(known, found["score"])
    hold: Tree = {"type": "line", "stack": "band", "symbol": "none", "silent": True, "stackStrategy": "all"}
    band = [(n, low, high) for n, _, low, high in rows if low is not None and high is not None]
    cut = [(n, max(bottom, low), min(top, high)) for n, low, high in band]
    series = [
        {**hold, "data": [[n, low] for n, low, _ in cut], "lineStyle": {"opacity": 0}, "tooltip": {"show": False}},
        {
            **hold, "data": [[n, high - low] for n, low, high in cut], "lineStyle": {"opacity": 0},
            "areaStyle": {":color": colour(0), "opacity": 0.18}, "tooltip": {"show": False},
        },
        {
            "name": "mean", "type": "line", "data": [[n, mean] for n, mean, *_ in rows], "symbolSize": 6,
            "symbol": "circle", "lineStyle": line_style(0), "itemStyle": {":color": colour(0)},
        },
    ]  # fmt: skip
    upward = axis(f"{found['score']} of test folds", nameGap=44, min=bottom, max=top, interval=step)
    return base(xAxis=axis("training rows", scale=True), yAxis=upward, series=series), ""


def calibration(found: Tree) -> tuple[Tree, str]:
    """Share of rows against probability; points grow with the rows of their bins."""
    series: list[dict[str, Any]] = [
        {
            "name": "true", "type": "line", "data": [[0, 0], [1, 1]], "symbol": "none", "silent": True,
            "lineStyle": {":color": "kw('faint')", "type": [3, 3], "width": 1},
        }
    ]  # fmt: skip
    shown = list(found.items())[:MOST_LINES]
    for k, (name, one) in enumerate(shown):
        most = max(one["counts"], default=1)
        data = [
            {"value": [p, share], "symbolSize": 5 + 9 * (count / most) ** 0.5, "name": f"{count} rows"}
            for p, share, count in zip(one["predicted"], one["observed"], one["counts"], strict=True)
        ]
        series.append({
            "name": f"{name} (Brier {one['brier']:.3f})", "type": "line", "data": data, "symbol": "circle",
            "lineStyle": line_style(k), "itemStyle": {":color": colour(k)},
        })  # fmt: skip
        for p, low, high in zip(one["predicted"], one["low"], one["high"], strict=True):
            series.append(_segment([p, low], [p, high], k, f"{name} interval"))
            series[-1]["lineStyle"]["width"] = 1
    options = base(
        legend=legend([f"{name} (Brier {one['brier']:.3f})" for name, one in shown]),
        xAxis=axis("probability", min=0, max=1),
        yAxis=axis("share of rows", min=0, max=1, nameGap=36),
        series=series,
    )
    return options, ""


def permutation(found: Tree) -> tuple[Tree, str]:
    """How often permuted targets gave which score."""
    permuted = np.array(found["permuted"])
    n_bins = min(30, max(5, len(permuted) // 4))
    counts, edges = np.histogram(permuted, bins=n_bins)
    width = edges[1] - edges[0]
    # columns as an area with steps, on an axis of numbers which holds the true score too
    corners = [[edges[0], 0]]
    for k, count in enumerate(counts):
        corners += [[edges[k], int(count)], [edges[k + 1], int(count)]]
    corners.append([edges[-1], 0])
    score = found["score"]
    series = [
        {
            "type": "line", "data": [[float(a), b] for a, b in corners], "symbol": "none", "silent": True,
            "lineStyle": {":color": colour(7), "width": 1}, "areaStyle": {":color": colour(7), "opacity": 0.5},
        },
        {
            "type": "line", "data": [[score, 0], [score, int(counts.max())]], "symbol": "none", "silent": True,
            "lineStyle": {":color": colour(1), "width": 3},
        },
    ]  # fmt: skip
    low, high = min(edges[0], score), max(edges[-1], score)
    across = axis("score", min=round(float(low - width), 3), max=round(float(high + width), 3))
    options = base(xAxis=across, yAxis=axis("permutations", min=0, minInterval=1, nameGap=36), series=series)
    options["grid"]["top"] = 12
    return options, "16rem"
