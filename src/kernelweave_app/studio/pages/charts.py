"""Charts: options of ECharts, made from results; names of users appear as text, never as keys or markup.

NiceGUI evaluates entries whose key begins with a colon. Here they are constants, with which charts adapt to light
and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from nicegui import ui

from kernelweave._drawing import COLOURS, GREY, SIGNED, clip_score, rounded, score_axis, score_text
from kernelweave._types import Tree
from kernelweave_app.studio.pages.frame import DASHES, N_COLOURS
from kernelweave_app.studio.pages.pieces import text
from kernelweave_app.studio.schema import Curve, HeldResult, PathPoint, in_parameter

#: Lines with a colour of their own; the others are thin and grey.
MOST_LINES = 8
#: The rank of the grey, for totals.
TOTAL = COLOURS.index(GREY)


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
        chart.on("vnodeBeforeUnmount", js_handler="kwLate")
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
        "grid": {"left": 16, "right": 18, "top": 34, "bottom": 30, "containLabel": True},
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


def line(name: str, points: Sequence[Any], rank: int = 0, *, ranked: bool = True, **more: Any) -> Tree:
    """A line in the colour of its rank, or thin and grey."""
    return {
        "name": name,
        "type": "line",
        "data": list(points),
        "lineStyle": line_style(rank) if ranked else {":color": "kw('faint')", "width": 0.8},
        "itemStyle": {":color": colour(rank) if ranked else "kw('faint')"},
        **more,
    }


def still(points: Sequence[Any], style: Tree, **more: Any) -> Tree:
    """A line that only shows where something is."""
    return {
        "type": "line",
        "data": list(points),
        "symbol": "none",
        "silent": True,
        "lineStyle": style,
        **more,
    }


def band(points: Sequence[tuple[Any, float, float]], rank: int, name: str, **more: Any) -> list[Tree]:
    """An area between two ends: drawn on top of an invisible line; stacking needs both parts of one sign."""
    hidden: Tree = {"stack": name, "stackStrategy": "all", "tooltip": {"show": False}, "z": 1, **more}
    none = {"opacity": 0}
    area = {":color": colour(rank), "opacity": 0.18}
    low, size = [[x, low] for x, low, _ in points], [[x, high - low] for x, low, high in points]
    return [
        still(low, none, name=f"low {name}", **hidden),
        still(size, none, name=f"band {name}", areaStyle=area, **hidden),
    ]


def names_axis(names: Sequence[str], width: int) -> Tree:
    """A vertical axis of names, the first on top."""
    found = axis("", category=list(names)[::-1])
    # names break on narrow screens, so that the chart keeps most of the width
    found["axisLabel"] |= {
        ":width": f"Math.min({width}, innerWidth * 0.3)",
        "overflow": "break",
        "lineHeight": 12,
        "interval": 0,
    }
    return found


def drawn(
    series: Sequence[Tree], across: Tree, up: Any, names: Sequence[str] = (), top: int = 0, **more: Any
) -> Tree:
    """A chart of series on two axes, with a legend of several names."""
    options = base(xAxis=across, yAxis=up, series=list(series), **more)
    if names:
        options["legend"] = legend(names)
    if top:
        options["grid"]["top"] = top
    if isinstance(up, dict) and up.get("name"):
        # labels are inside by themselves, and the name is left of them
        options["grid"]["left"] = 34
    return options


def marker(value: float, label: str) -> Tree:
    """A vertical line."""
    return {
        "silent": True,
        "symbol": "none",
        "data": [{"xAxis": value}],
        "lineStyle": {":color": "kw('soft')", "type": [4, 3], "width": 1.5},
        "label": {"formatter": label, ":color": "kw('soft')", "fontSize": 11, "position": "end", "rotate": 0},
    }


def parameter_axis(parameter: str, **more: Any) -> Tree:
    """An axis of regularisation parameters on which the strongest regularisation is on the left."""
    return axis(f"{parameter}: strong to weak", log=True, inverse=parameter != "C", **more)


def _between(found: Tree, ends: Sequence[float]) -> Tree:
    """An axis from the least to the largest of some values."""
    return {**found, "min": min(ends), "max": max(ends)} if ends else found


def _scores(values: Sequence[float], score: str) -> Tree:
    """Ends of an axis of scores."""
    low, high, step = score_axis(list(values), score)
    return {"min": low, "max": high, "interval": step}


# ---- paths ----------------------------------------------------------------------------------------


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
    largest = values.max(axis=0)
    order = sorted((j for j in range(len(names)) if largest[j] > 0), key=lambda j: -largest[j])
    series: list[Tree] = []
    for rank, j in enumerate(order):
        ranked = rank < MOST_LINES
        points = [[a, round(float(v), 6)] for a, v in zip(x, values[:, j], strict=True) if a is not None]
        how: Tree = {"showSymbol": False, "symbol": "circle", "symbolSize": 6, "z": 3 if ranked else 2}
        series.append(line(names[j], points, rank, ranked=ranked, emphasis={"focus": "series"}, **how))
    at, where = x[cursor], x[chosen]
    if series and at is not None:
        series[0]["markLine"] = marker(at, "")
        if where is not None:
            series[0]["markPoint"] = {
                "silent": True, "symbol": "triangle", "symbolSize": 9, "symbolOffset": [0, 6],
                "data": [{"coord": [where, 0]}], "itemStyle": {":color": "kw('ink')"},
            }  # fmt: skip
    across = axis("degrees of freedom") if by == "df" else parameter_axis(by)
    across = _between(across, [a for a in x if a is not None])
    return drawn(series, across, axis("", min=0), [names[j] for j in order[:MOST_LINES]])


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
        name = kernels[m] if m < len(kernels) else f"kernel {m}"
        values = [[a, p.weights.get(m, 0.0)] for a, p in zip(x, points, strict=True)]
        how: Tree = {"symbolSize": 4, "showSymbol": len(points) < 3}
        series.append(line(name, values, rank, ranked=rank < MOST_LINES, **how))
    ends = in_parameter(alphas, parameter)
    across = _between(parameter_axis(parameter), ends if ends and min(ends) < max(ends) else [])
    names = [str(one["name"]) for one in series[:MOST_LINES]]
    return drawn(series, across, axis("kernel weight (fraction)", min=0, nameGap=38), legend=legend(names))


def curve_chart(curves: Sequence[tuple[str, Curve]], *, score: str) -> Tree:
    """Scores over folds with a band of one standard error."""
    series: list[Tree] = []
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
        ends = [(a, clip_score(m - e, score), clip_score(m + e, score)) for a, m, e in points]
        reached += [end for _, *pair in ends for end in pair]
        mark = marker(x[curve.chosen], "chosen" if len(curves) == 1 else "")
        mean = [[a, m] for a, m, _ in points]
        series += band(ends, rank, str(rank))
        series.append(line(name, mean, rank, symbolSize=5, symbol="circle", z=4, markLine=mark))
    across = parameter_axis(parameter if len(parameters) < 2 else "alpha, or 1 / C", scale=True)
    up = axis(score, nameGap=44, **_scores(reached, score))
    return drawn(series, across, up, [name for name, _ in curves] if len(curves) > 1 else ())


def quantity_name(key: str) -> str:
    """The name of a quantity in the history of a solver."""
    return key.replace("_", " ").replace("rel gap", "relative gap")


def convergence_chart(
    histories: Sequence[tuple[str, Mapping[str, Sequence[float | None]]]], key: str
) -> Tree:
    """A quantity at every iteration."""
    series = []
    for rank, (name, history) in enumerate(histories):
        values = history.get(key, [])
        points = [[k + 1, v] for k, v in enumerate(values) if v is not None and (v > 0 or key != "rel_gap")]
        series.append(line(name or key, points, rank, symbolSize=4))
    positive = all(v > 0 for one in series for _, v in one["data"])
    log = positive and key in ("rel_gap", "stationarity", "residual")
    up = axis(quantity_name(key), log=log, scale=True, nameGap=50)
    names = [str(one["name"]) for one in series] if len(series) > 1 else ()
    return drawn(series, axis("iteration", minInterval=1, min=1), up, names)


# ---- weights and contributions --------------------------------------------------------------------


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
    several = outputs if len(outputs) > 1 else ()
    return drawn(series, axis(unit, min=0), names_axis(names, 230), several, top=30 if several else 8)


def contributions_chart(kernels: Sequence[str], values: Sequence[float], intercept: float) -> Tree:
    """The contribution of each kernel to one decision value, and their sum."""
    numbers = [intercept, *values, intercept + sum(values)]
    signed = ["kw('raises')" if v >= 0 else "kw('lowers')" for v in values]
    data = [
        {"value": round(v, 6), "itemStyle": {":color": c, "borderRadius": 2}}
        for v, c in zip(numbers, [colour(TOTAL), *signed, colour(TOTAL)], strict=True)
    ][::-1]
    bars = {"type": "bar", "data": data, "barMaxWidth": 15}
    return drawn([bars], axis("decision value"), names_axis(["intercept", *kernels, "sum"], 220), top=8)


def rows_chart(kernels: Sequence[str], rows: Sequence[str], values: Sequence[Sequence[float]]) -> Tree:
    """Contributions of kernels to all rows as a heat map, sorted by their sums."""
    order = sorted(range(len(values)), key=lambda i: sum(values[i]))
    most = max((abs(v) for row in values for v in row), default=1.0) or 1.0
    data = [[i, len(kernels) - 1 - j, v] for i, r in enumerate(order) for j, v in enumerate(values[r])]
    across = axis("rows by decision value", category=[rows[r] for r in order], nameGap=12)
    across["axisLabel"] |= {"show": False}
    scale = {"min": -most, "max": most, "show": False, "inRange": {"color": list(SIGNED)}}
    heat = {"type": "heatmap", "data": data, "progressive": 0}
    return drawn([heat], across, names_axis(kernels, 150), top=8, visualMap=scale)


def heat_chart(rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]) -> Tree:
    """A heat map, such as weights by layer and kernel."""
    data = [[j, i, round(v, 5)] for i, row in enumerate(values) for j, v in enumerate(row)]
    most = max((v for row in values for v in row), default=1.0)
    across = axis("", category=columns)
    across["axisLabel"] |= {"rotate": 40, "width": 120, "overflow": "truncate"}
    scale = {
        "min": 0, "max": most or 1.0, "orient": "horizontal", "left": 0, "top": 0, "itemHeight": 110,
        "calculable": False, "text": [f"{most:.2g}", "0"],
        "inRange": {"color": ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"]},
        "textStyle": {":color": "kw('soft')"},
    }  # fmt: skip
    edges = {":borderColor": "kw('surface')", "borderWidth": 1}
    heat = {"type": "heatmap", "data": data, "itemStyle": edges}
    return drawn([heat], across, axis("", category=rows), top=44, visualMap=scale)


# ---- held-out rows and scores ---------------------------------------------------------------------


def receiver_chart(held: HeldResult, *, precision: bool) -> Tree:
    """Receiver operating characteristic, or precision and recall; classes have the colours of their positions."""
    series = []
    for place, one in enumerate(held.receivers[:MOST_LINES]):
        several = len(held.receivers) > 1 and one.output in held.classes
        rank = held.classes.index(one.output) if several else place
        x, y = (one.recall, one.precision) if precision else (one.fpr, one.tpr)
        area = one.average_precision if precision else one.auc
        points = [[round(a, 5), round(b, 5)] for a, b in zip(x, y, strict=True)]
        # the area below is the number in the legend: equal values are a slope of one, and no step of the other
        step = "end" if precision else False
        named = f"{one.output} ({rounded(area, held.n_rows)})"
        series.append(line(named, points, rank, step=step, symbol="none"))
    names = [str(one["name"]) for one in series]
    if not precision:
        series.append(_diagonal("chance"))
    across, up = ("recall", "precision") if precision else ("false positive rate", "true positive rate")
    ends: Tree = {"min": 0, "max": 1}
    return drawn(series, axis(across, **ends), axis(up, nameGap=36, **ends), legend=legend(names))


def _diagonal(name: str) -> Tree:
    return still([[0, 0], [1, 1]], {":color": "kw('faint')", "type": [3, 3], "width": 1}, name=name)


def residual_chart(truth: Sequence[float], predicted: Sequence[float], *, residuals: bool) -> Tree:
    """Truth against prediction, or residuals."""
    if residuals:
        points = [[p, t - p] for t, p in zip(truth, predicted, strict=True)]
        ends = [[min(predicted), 0.0], [max(predicted), 0.0]]
    else:
        points = [[p, t] for t, p in zip(truth, predicted, strict=True)]
        ends = [[end, end] for end in (min(*truth, *predicted), max(*truth, *predicted))]
    dots = {"type": "scatter", "data": points, "symbolSize": 7}
    series = [
        {**dots, "itemStyle": {":color": colour(0), "opacity": 0.7}},
        still(ends, {":color": "kw('soft')", "width": 1, "type": [4, 3]}),
    ]
    up = axis("true − predicted" if residuals else "true", scale=True, nameGap=42)
    return drawn(series, axis("predicted", scale=True), up, top=12)


def dots_chart(
    names: Sequence[str], values: Sequence[tuple[float | None, float | None, float | None]], unit: str
) -> Tree:
    """Scores as dots with their intervals."""
    points, lines, ends = [], [], []
    for k, (value, low, high) in enumerate(list(values)[::-1]):
        if value is None:
            continue
        here = {":color": colour(len(values) - 1 - k)}
        points.append({"value": [value, k], "itemStyle": here})
        ends.append(value)
        if low is not None and high is not None:
            ends += [low, high]
            lines.append([{"coord": [low, k], "lineStyle": here}, {"coord": [high, k]}])
    bars = {
        "silent": True, "symbol": "none", "lineStyle": {"width": 2.5, "type": "solid"}, "label": {"show": False},
        "data": lines,
    }  # fmt: skip
    dots = {"type": "scatter", "data": points, "symbolSize": 11, "markLine": bars}
    return drawn([dots], axis(unit, **_scores(ends, unit)), names_axis(names, 200), top=8)


# ---- evidence: options, and a height --------------------------------------------------------------

MOST_KERNELS = 20
#: What stands below weights with intervals.
STABILITY = "Bars: weights of the model. Lines: 95 % of the weights over random halves of the rows."


def _segment(low: list[float], high: list[float], rank: int, name: str, **style: Any) -> Tree:
    """A line from one point to another."""
    ink = {":color": colour(rank), "width": 2, "type": "solid", **style}
    return still([low, high], ink, name=name, z=5, tooltip={"show": False})


def stability(found: Tree) -> tuple[Tree, str]:
    """Weights as bars with the intervals over halves of the rows."""
    weights = np.array(found["weights"])
    order = np.argsort(-weights.sum(axis=1), kind="stable")[:MOST_KERNELS]
    n_outputs = weights.shape[1]
    names = [found["names"][m] for m in order]
    series: list[Tree] = []
    height = 0.8 / n_outputs
    strong: Any = {":color": "kw('ink')"}
    for k, output in enumerate(found["outputs"]):
        # points of a value axis beside the categories: bars at the same places, with room for lines
        for place, m in enumerate(order):
            y = len(order) - 1 - place - (k - 0.5 * (n_outputs - 1)) * height
            own = float(weights[m, k])
            low, high = float(found["low"][m][k]), float(found["high"][m][k])
            bar = _segment([0.0, y], [own, y], k, output, width=max(5.0, 15.0 * height), opacity=0.75)
            ends = [min(low, own), y], [max(high, own), y]
            series += [{**bar, "z": 3}, _segment(*ends, k, output, **strong)]
    hidden = axis("", min=-0.5, max=len(order) - 0.5, show=False)
    series = [{**one, "yAxisIndex": 1} for one in series]
    # a series on the axis of names, which would not be drawn without one
    series.append({"type": "bar", "data": [0] * len(order), "silent": True, "tooltip": {"show": False}})
    names_of = [f"{output} " for output in found["outputs"]] if n_outputs > 1 else []
    series += [
        {"name": name, "type": "bar", "data": [], "itemStyle": {":color": colour(k)}}
        for k, name in enumerate(names_of)
    ]
    more: Any = {"legend": legend(names_of, selectedMode=False)} if names_of else {}
    up = [names_axis(names, 260), hidden]
    options = drawn(series, axis("kernel weight (fraction)", min=0), up, top=30 if names_of else 8, **more)
    return options, f"{5 + 1.45 * len(order) * (1 + 0.35 * (n_outputs - 1)):.1f}rem"


def learning(found: Tree) -> tuple[Tree, str]:
    """Scores by the number of training rows, with a band."""
    columns = (found[name] for name in ("sizes", "mean", "low", "high"))
    rows = [row for row in zip(*columns, strict=True) if row[1] is not None]
    ends = _scores([float(v) for row in rows for v in row[1:] if v is not None], found["score"])
    cut = [
        (n, max(ends["min"], low), min(ends["max"], high))
        for n, _, low, high in rows
        if low is not None and high is not None
    ]
    score = line("score", [[n, score] for n, score, *_ in rows], symbolSize=6, symbol="circle")
    up = axis(f"{found['score']} of test folds", nameGap=44, **ends)
    return drawn([*band(cut, 0, "interval"), score], axis("training rows", scale=True), up), ""


def calibration(found: Tree) -> tuple[Tree, str]:
    """Share of rows against probability; points grow with the rows of their bins."""
    series = [_diagonal("true")]
    names = []
    for k, (name, one) in enumerate(list(found.items())[:MOST_LINES]):
        most = max(one["counts"], default=1)
        data = [
            {"value": [p, share], "symbolSize": 5 + 9 * (count / most) ** 0.5, "name": f"{count} rows"}
            for p, share, count in zip(one["predicted"], one["observed"], one["counts"], strict=True)
        ]
        names.append(f"{name} (Brier {score_text('Brier score', one['brier'], sum(one['counts']))})")
        series.append(line(names[-1], data, k, symbol="circle"))
        for p, low, high in zip(one["predicted"], one["low"], one["high"], strict=True):
            series.append(_segment([p, low], [p, high], k, f"{name} interval", width=1))
    ends: Tree = {"min": 0, "max": 1}
    up = axis("share of rows", nameGap=36, **ends)
    return drawn(series, axis("probability", **ends), up, names), ""


def risk_groups(found: Tree) -> tuple[Tree, str]:
    """Curves of survival of groups of risk, with bands."""
    series, names = [], []
    for k, name in enumerate(found["names"]):
        parts = zip(*(found[key][k] for key in ("times", "survival", "low", "high")), strict=True)
        points = [(0.0, 1.0, 1.0, 1.0), *parts]
        names.append(f"{name} ({found['rows'][k]} rows)")
        series.append(line(names[-1], [[t, share] for t, share, *_ in points], k, step="end", symbol="none"))
        series += band([(t, low, high) for t, _, low, high in points], k, f"{name} interval", step="end")
    up = axis("share without an event", nameGap=36, min=0, max=1)
    return drawn(series, axis("time", min=0), up, names), ""


def survival_calibration(found: Tree) -> tuple[Tree, str]:
    """Observed survival at a time against predicted one."""
    points = [list(one) for one in zip(found["predicted"], found["observed"], strict=True)]
    series = [_diagonal("true"), line("groups of rows", points, 0, symbol="circle")]
    for p, low, high in zip(found["predicted"], found["low"], found["high"], strict=True):
        series.append(_segment([p, low], [p, high], 0, "interval", width=1))
    ends: Tree = {"min": 0, "max": 1}
    across = axis(f"predicted share without an event at time {found['time']:g}", **ends)
    return drawn(series, across, axis("observed share", nameGap=36, **ends), top=12), ""


def survival_error(found: Tree) -> tuple[Tree, str]:
    """Brier scores over time."""
    names = [name for name in found if name != "time"]
    series = [
        line(name, [list(one) for one in zip(found["time"], found[name], strict=True)], k, symbol="none")
        for k, name in enumerate(names)
    ]
    return drawn(series, axis("time", scale=True), axis("Brier score", nameGap=42, min=0), names), ""


def permutation(found: Tree) -> tuple[Tree, str]:
    """How often permuted targets gave which score."""
    permuted, score = np.array(found["permuted"]), found["score"]
    counts, edges = np.histogram(permuted, bins=min(30, max(5, len(permuted) // 4)))
    # columns as an area with steps, on an axis of numbers which holds the true score too
    corners = [[float(edges[0]), 0]]
    for k, count in enumerate(counts):
        corners += [[float(edges[k]), int(count)], [float(edges[k + 1]), int(count)]]
    corners.append([float(edges[-1]), 0])
    area = {":color": colour(7), "opacity": 0.5}
    series = [
        still(corners, {":color": colour(7), "width": 1}, areaStyle=area),
        still([[score, 0], [score, int(counts.max())]], {":color": colour(1), "width": 3}),
    ]
    width = edges[1] - edges[0]
    low, high = min(edges[0], score) - width, max(edges[-1], score) + width
    across = axis("score", min=round(float(low), 3), max=round(float(high), 3))
    return drawn(series, across, axis("permutations", min=0, minInterval=1, nameGap=36), top=12), "16rem"
