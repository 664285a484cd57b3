"""Runs: requests, summaries, paths, predictions."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.studio.schema.base import Name, Real, Record, RunId
from kernelweave_app.studio.schema.tables import Data


class Expected(Record):
    """Time and memory of a run before it began."""

    seconds: float = Field(ge=0, le=1e9)
    low: float = Field(ge=0, le=1e9)
    high: float = Field(ge=0, le=1e9, description="A run that takes longer says so, and offers to stop.")
    memory: int = Field(ge=0, le=2**60, description="Bytes of kernels and working matrices, at most.")
    sure: Annotated[str, Field(max_length=500)] = Field(
        description="Where the time comes from, and how sure it is."
    )


class RunRequest(Record):
    """A run to put into the queue."""

    name: Name = ""
    data: Data
    spec: FitSpec
    expected: Expected | None = None


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


#: Tags of a run, and characters of one; characters of its note.
MOST_TAGS = 10
LONGEST_TAG = 40
LONGEST_NOTE = 2000


def _clean(text: object) -> object:
    """Text without control characters and marks of direction, which would change how the text beside it reads."""
    if not isinstance(text, str):
        return text
    kept = (c for c in text if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))
    return "".join(kept).strip()


def _tags(given: object) -> object:
    """Different tags on one line each."""
    if not isinstance(given, list):
        return given
    cleaned = [_clean(" ".join(tag.split()) if isinstance(tag, str) else tag) for tag in given]
    return (
        list({tag: None for tag in cleaned if tag})
        if all(isinstance(tag, str) for tag in cleaned)
        else cleaned
    )


class Marks(Record):
    """What somebody wrote about a run."""

    pinned: bool = False
    note: Annotated[str, BeforeValidator(_clean), Field(max_length=LONGEST_NOTE)] = ""
    tags: Annotated[
        list[Annotated[str, Field(max_length=LONGEST_TAG)]],
        BeforeValidator(_tags),
        Field(max_length=MOST_TAGS),
    ] = []


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
    marks: Marks = Marks()
    method: str = Field(default="", description="The learner, also where a plain fit chose it.")


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
