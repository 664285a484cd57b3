"""Finished runs: the list, their names, and the choice of one."""

from __future__ import annotations

import re
import time

from nicegui import ui

from kernelweave_app.studio.schema import Run
from kernelweave_app.studio.service import Studio


def finished(studio: Studio) -> list[Run]:
    """Runs that have a model."""
    return [run for run in studio.runs() if run.summary is not None]


def when(run: Run) -> str:
    """Day and time of a run."""
    return time.strftime("%d %b %H:%M", time.localtime(run.created))


def titles(runs: list[Run]) -> dict[str, str]:
    """Distinct names of runs: equal names get a number."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for run in sorted(runs, key=lambda run: run.created):
        title, number = run.name, 2
        while title in taken:
            title, number = f"{run.name} {number}", number + 1
        taken.add(title)
        found[run.id] = title
    return {run.id: found[run.id] for run in runs}


def dated(runs: list[Run]) -> dict[str, str]:
    """Choices of a select: names of runs, and when they were started."""
    named = titles(runs)
    return {run.id: f"{named[run.id]} · {when(run)}" for run in runs}


def choose_run(runs: list[Run], chosen: str, path: str) -> None:
    """A select that goes to another run."""
    found = ui.select(
        dated(runs),
        value=chosen,
        label="Run",
        on_change=lambda event: ui.navigate.to(f"{path}?run={event.value}"),
    )
    found.props("outlined dense options-dense").style("width: min(26rem, 80vw)")


def short(name: str) -> str:
    """A short name of a kernel."""
    name = re.sub(r"RBF\(gamma=([^()]*)\)", r"RBF \1", name)
    return re.sub(r"Polynomial\(degree=(\d+)\)", r"degree \1", name)


def round_off(value: object) -> object:
    """A cell with a readable number of digits."""
    return float(f"{value:.4g}") if isinstance(value, float) else value
