"""Runs: requests, summaries, paths, predictions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from kernelweave.runs.spec import FitSpec
from kernelweave.studio.schema.base import Name, Real, Record, RunId
from kernelweave.studio.schema.tables import Data


class RunRequest(Record):
    """A run to put into the queue."""

    name: Name = ""
    data: Data
    spec: FitSpec


class Checked(Record):
    """What a run would do."""

    task: str
    reason: str
    n_training: int
    n_held: int
    n_dropped: int
    n_columns: int
    n_steps: int | None
    splitter: str


class Metric(Record):
    """A score of a run."""

    name: str
    value: Real
    spread: Real = None


class Summary(Record):
    """Summary of a finished run."""

    task: str
    method: str
    n_kernels: int
    n_active: int
    regularization: str = Field(
        validation_alias=AliasChoices("regularization", "strength"),
        description="The regularisation parameter and its value.",
    )
    rel_gap: Real
    status: str
    n_training: int
    n_held: int
    seconds: float


class Run(Record):
    """A run."""

    id: RunId
    name: str
    state: Literal["queued", "starting", "running", "done", "cancelled", "failed"]
    created: float
    started: float | None
    finished: float | None
    cancelling: bool
    done: int
    total: int | None
    step: str
    seconds_left: float | None
    reason: str = Field(description="Why it failed or stopped; empty otherwise.")
    request: RunRequest
    metrics: list[Metric]
    summary: Summary | None


AlphaOrC = Annotated[
    Literal["alpha", "C"], Field(description="The learner's own regularisation parameter: C is 1 / alpha.")
]


def in_parameter(alphas: Iterable[float], parameter: str) -> list[float]:
    """Values of alpha in the learner's own parameter."""
    return [1.0 / alpha if parameter == "C" else alpha for alpha in alphas]


class PathPoint(Record):
    """A point of a path that is being computed."""

    number: int
    stage: str
    output: str = Field(default="", description="The class, if each has a path of its own.")
    alpha: float
    rel_gap: Real
    n_active: int
    weights: dict[int, float] = Field(description="Largest weights by kernel.")


class PathPoints(Record):
    """Points of a path that came after a number."""

    kernels: list[str]
    points: list[PathPoint]
    parameter: AlphaOrC = "alpha"


class Event(Record):
    """An event of a run."""

    time: float
    text: str


class Log(Record):
    """Events and output of a run."""

    events: list[Event]
    text: str


class Artifact(Record):
    """A file of a run."""

    name: str
    kind: str
    size: int


class PredictRequest(Record):
    """Predict the rows of a table, or of several with a key."""

    data: Data


class Predicted(Record):
    """Predictions that were made and written."""

    artifact: str
    n_rows: int
    columns: list[str]
    rows: list[list[str | float | int | None]] = Field(description="The first ones.")
    scores: dict[str, float] = Field(description="Where the table has the target.")
    stands_for: dict[str, str] = Field(
        default={}, description="For each of several tables of the run, the new table that replaces it."
    )
    n_missing: int = Field(default=0, description="Rows without a prediction, because a cell is missing.")
