"""Settings, cells and results of the experiments, for their tests."""

from dataclasses import replace

import pytest

import kernelweave_papers as experiments
from kernelweave import datasets

#: Columns that hold durations.
TIMES = ("seconds", "seconds_std")


def need(*names):
    for name in names:
        if not datasets.is_here(name):
            pytest.skip(f"needs the data set {name}")


def without_times(frame):
    return frame.drop(columns=[c for c in TIMES if c in frame])


def results_of(experiment, options, rng, **draws):
    """A result of random numbers for every cell of an experiment."""
    cells = experiment.cells(options)
    return [(cell, {name: draw(cell, rng) for name, draw in draws.items()}) for cell in cells]


def where(rows, **values):
    """Results of the cells with some values."""
    return [result for cell, result in rows if all(cell[key] == value for key, value in values.items())]


def options_of(name, **values):
    return replace(experiments.get(name).defaults, **values)
