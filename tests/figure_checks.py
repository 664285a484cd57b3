"""What is wrong with a figure on paper: legends on top of data, labels on top of each other."""

from itertools import pairwise

import numpy as np
from matplotlib.collections import Collection
from matplotlib.text import Text
from matplotlib.transforms import Bbox

#: Pixels by which boxes may touch: boxes of text have room around the letters.
SLACK = 1.0


def overprinted(figure):
    """Pairs of visible texts whose boxes overlap, and texts that leave the figure."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    found = []
    texts = [
        (text.get_text(), text.get_window_extent(renderer))
        for text in _texts(figure)
        # boxes of slanted texts overlap where the texts do not
        if text.get_visible() and text.get_text().strip() and not text.get_rotation() % 90
    ]
    for i, (one, a) in enumerate(texts):
        if not _contains(figure.bbox, a):
            found.append(f"{one!r} leaves the figure")
        for other, b in texts[i + 1 :]:
            if _overlap(a, b):
                found.append(f"{one!r} on {other!r}")
    return found


def _texts(figure):
    """All texts that are drawn; axes keep further labels of ticks, which are not."""
    yield from figure.texts
    for ax in figure.axes:
        yield from ax.texts
        yield from (ax.title, ax._left_title, ax._right_title)
        if ax.get_legend() is not None:
            yield from ax.get_legend().findobj(Text)
        for axis in (ax.xaxis, ax.yaxis) if ax.axison else ():
            yield from (axis.label, axis.offsetText)
            yield from (label for tick in axis._update_ticks() for label in (tick.label1, tick.label2))


def legends_on_data(figure):
    """Legends that cover bars, lines or points."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    found = []
    for ax in figure.axes:
        legend = ax.get_legend()
        if legend is None:
            continue
        box = legend.get_window_extent(renderer)
        for other in figure.axes:
            for name, points in _marks(other):
                inside = (
                    (points[:, 0] > box.x0)
                    & (points[:, 0] < box.x1)
                    & (points[:, 1] > box.y0)
                    & (points[:, 1] < box.y1)
                )
                if inside.any():
                    found.append(f"legend of {ax.get_title(loc='left')!r} on {name}")
    return found


def _marks(ax):
    """Points of everything that is drawn, in pixels: lines and bars densely."""
    for line in ax.get_lines():
        points = line.get_transform().transform(np.asarray(line.get_xydata(), dtype=float))
        yield f"line {line.get_label()}", _dense(points)
    for patch in ax.patches:
        box = patch.get_window_extent()
        x, y = np.meshgrid(np.linspace(box.x0, box.x1, 60), np.linspace(box.y0, box.y1, 5))
        if box.width > 1:
            yield "a bar", np.column_stack([x.ravel(), y.ravel()])
    for part in ax.findobj(Collection):
        for path in part.get_paths():
            yield "a band", _dense(part.get_transform().transform(path.vertices))


def _dense(points):
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) < 2:
        return points.reshape(-1, 2)
    return np.concatenate([np.linspace(a, b, 40) for a, b in pairwise(points)])


def _overlap(a, b):
    both = Bbox.intersection(a, b)
    return both is not None and both.width > SLACK and both.height > SLACK


def _contains(outer, inner):
    return (
        inner.x0 >= outer.x0 - SLACK
        and inner.x1 <= outer.x1 + SLACK
        and inner.y0 >= outer.y0 - SLACK
        and inner.y1 <= outer.y1 + SLACK
    )
