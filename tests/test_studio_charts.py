"""What charts of the studio draw: one class at a time, one colour for one meaning, axes that end where scores end."""

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("nicegui")

from kernelweave.studio.pages.charts import live_chart
from kernelweave.studio.pages.live import MEAN, NEWEST, chosen_points, outputs_of
from kernelweave.studio.schema import PathPoint


def points_of(*paths):
    """Points of several paths (stage, output, alphas, weight of kernel 0), one path after another."""
    found = []
    for stage, output, alphas, weight in paths:
        for alpha in alphas:
            found.append(
                PathPoint(
                    number=len(found) + 1, stage=stage, output=output, alpha=alpha, rel_gap=0.0, n_active=1,
                    weights={0: weight} if output != "c" else {1: weight},
                )
            )  # fmt: skip
    return found


ALPHAS = [float(a) for a in np.geomspace(10, 0.1, 8)]


def x_of(chart):
    return [[x for x, _ in series["data"]] for series in chart["series"]]


def test_the_live_path_draws_one_class_at_a_time():
    points = points_of(
        ("fold 1", "a", ALPHAS, 0.2), ("fold 1", "b", ALPHAS, 0.4), ("fold 1", "c", ALPHAS[:3], 0.6)
    )
    assert outputs_of(points) == ["a", "b", "c"]
    # the newest has just begun, so that the one before it is shown
    assert {p.output for p in chosen_points(points, NEWEST)} == {"b"}
    assert [p.alpha for p in chosen_points(points, "a")] == ALPHAS
    mean = chosen_points(points, MEAN)
    assert [p.alpha for p in mean] == ALPHAS[:3]
    for point in mean:
        assert point.weights == pytest.approx({0: 0.2, 1: 0.2})
    for choice in (NEWEST, MEAN, "a", "b", "c"):
        for x in x_of(live_chart(["k", "l"], chosen_points(points, choice), ALPHAS)):
            assert x == sorted(x, reverse=True)  # no zigzag
            assert len(set(x)) == len(x)


def test_of_several_stages_the_newest_with_points_is_drawn():
    points = points_of(
        ("fold 1", "a", ALPHAS, 0.2), ("fold 1", "b", ALPHAS, 0.2), ("fold 2", "a", ALPHAS, 0.4)
    )
    assert {p.stage for p in chosen_points(points, "b")} == {"fold 1"}
    assert {p.stage for p in chosen_points(points, "a")} == {"fold 2"}
    assert {(p.stage, p.output) for p in chosen_points(points, NEWEST)} == {("fold 2", "a")}
    assert {p.stage for p in chosen_points(points, MEAN)} == {"fold 1"}
    assert chosen_points([], NEWEST) == []
    alone = points_of(("all rows", "", ALPHAS, 0.2))
    assert chosen_points(alone, NEWEST) == alone
