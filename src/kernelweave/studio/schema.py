"""What goes over the wire: the types of the API."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from kernelweave.runs.spec import FitSpec

MOST_TABLES = 20

TableId = Annotated[str, Field(pattern=r"^(set|file)-[a-z0-9_-]{1,60}$", examples=["set-wine"])]
RunId = Annotated[str, Field(pattern=r"^[0-9]{8}-[0-9]{6}-[0-9a-f]{6}$", examples=["20260102-030405-abcdef"])]
Name = Annotated[str, Field(max_length=200)]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


#: A number, null where it is not defined: JSON has no NaN.
Real = Annotated[float | None, BeforeValidator(_finite)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


# ---- tables ---------------------------------------------------------------------------------------


class TableRef(_Model):
    """A table that can be picked."""

    id: TableId
    name: str
    source: Literal["built-in", "data folder"]
    size: int | None = Field(description="Bytes of the file; null for sets that are not written out yet.")
    about: str = ""
    target: str = Field(default="", description="The usual target of a built-in set.")


class Column(_Model):
    """A column of a table."""

    name: str
    kind: Literal["number", "whole number", "yes/no", "text", "date"]
    n_missing: int
    n_distinct: int | None = Field(description="Null where there are too many columns to count.")
    low: Real = None
    high: Real = None
    mean: Real = None
    examples: list[str] = []


class Table(_Model):
    """A table that was read."""

    id: TableId
    name: str
    n_rows: int
    n_columns: int
    n_numeric: int
    n_missing: int = Field(description="Missing cells.")
    rows_missing: int = Field(description="Rows with a missing cell.")
    memory: int = Field(description="Bytes once read.")


class Columns(_Model):
    """Some of the columns of a table."""

    total: int
    columns: list[Column]


class Rows(_Model):
    """Some of the rows of a table, as text."""

    total: int
    columns: list[str]
    rows: list[list[str | None]]


class Data(_Model):
    """The tables to learn from: one, or several with a key."""

    tables: Annotated[list[TableId], Field(min_length=1, max_length=MOST_TABLES)]
    key: Name = ""


class Side(_Model):
    """One of several tables after joining."""

    id: TableId
    name: str
    n_rows: int
    n_missing: int = Field(description="Rows that other tables have, and this one has not.")
    examples: list[str] = Field(description="Some of their keys.")


class Joining(_Model):
    """What comes out when tables are joined."""

    n_rows: int
    columns: list[str]
    numeric: list[str]
    sides: list[Side]
    views: dict[str, list[str]]
    keys: list[str] = Field(description="Columns that all tables have.")
    problem: str = Field(default="", description="Why they cannot be joined.")


class TargetQuestion(_Model):
    """A question: which task would it be."""

    data: Data
    target: Name
    task: Literal["auto", "regression", "classification"] = "auto"


class Target(_Model):
    """What a target column is taken for."""

    task: Literal["regression", "classification"]
    reason: str
    n_missing: int
    classes: dict[str, int] = Field(description="Rows of each class; empty for regression.")
    low: Real = None
    high: Real = None
    problem: str = ""


# ---- views and kernels ----------------------------------------------------------------------------


class ViewsText(_Model):
    """The text of a TOML or GMT file with views."""

    data: Data
    text: Annotated[str, Field(max_length=4_000_000)]
    format: Literal["toml", "gmt"]


class Views(_Model):
    """Views that were read."""

    views: dict[str, list[str]]
    n_unknown: int = Field(description="Columns that were named, and that the tables have not.")


class KernelQuestion(_Model):
    """A question: which kernels would it be."""

    data: Data
    spec: FitSpec
    most: Annotated[int, Field(ge=0, le=200)] = Field(default=40, description="Thumbnails.")


class KernelPreview(_Model):
    """One kernel before learning."""

    name: str
    view: str
    alignment: Real = Field(description="Centred alignment with the target, from -1 to 1.")
    rank: int | None = Field(description="Rank where the kernel is held as a factor.")
    thumbnail: str = Field(description="The Gram matrix sorted by class or target, as a PNG data address.")


class KernelPreviews(_Model):
    """Kernels before learning, best aligned first."""

    n_kernels: int
    n_looked: int = Field(
        description="Kernels that alignments were computed of, spread evenly over all of them."
    )
    memory: int = Field(description="Bytes for the training kernels.")
    budget: int = Field(description="Bytes that they may take before they are recomputed by tiles.")
    n_rows: int = Field(description="Rows to learn from.")
    n_sampled: int = Field(description="Rows that thumbnails and alignments were computed on.")
    kernels: list[KernelPreview]


# ---- methods --------------------------------------------------------------------------------------


class Parameter(_Model):
    """A parameter of a learner, as its docstring explains it."""

    name: str
    kind: str
    about: str
    default: str


class Setting(_Model):
    """A setting of a fit."""

    name: str
    label: str
    group: str
    about: str
    kind: Literal["text", "number", "whole number", "yes/no", "choice", "table"]
    unit: str = ""
    default: Any = Field(description="Null where nobody needs to say anything.")
    choices: list[str] = []
    least: float | None = None
    most: float | None = None


class Method(_Model):
    """A learner."""

    name: str
    title: str
    summary: str
    objective: str
    strength: str
    regression: bool
    parameters: list[Parameter]
    settings: list[str] = Field(description="Names in `learner_params` that this learner reads.")
    fields: list[Setting] = Field(description="The same with what this learner takes for each.")
    reference: str


# ---- runs -----------------------------------------------------------------------------------------


class RunRequest(_Model):
    """A run to put into the queue."""

    name: Name = ""
    data: Data
    spec: FitSpec


class Checked(_Model):
    """What a run would do."""

    task: str
    reason: str
    n_training: int
    n_held: int
    n_dropped: int
    n_columns: int
    n_steps: int | None
    splitter: str


class Metric(_Model):
    """A score of a run."""

    name: str
    value: Real
    spread: Real = None


class Summary(_Model):
    """What a finished run found, in short."""

    task: str
    method: str
    n_kernels: int
    n_active: int
    strength: str
    rel_gap: Real
    status: str
    n_training: int
    n_held: int
    seconds: float


class Run(_Model):
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
    Literal["alpha", "C"], Field(description="The learner's own parameter of regularisation: C is 1 / alpha.")
]


def in_parameter(alphas: Iterable[float], parameter: str) -> list[float]:
    """Values of alpha in the learner's own parameter."""
    return [1.0 / alpha if parameter == "C" else alpha for alpha in alphas]


class PathPoint(_Model):
    """A point of a path while it grows."""

    number: int
    stage: str
    alpha: float
    rel_gap: Real
    n_active: int
    weights: dict[int, float] = Field(description="Largest weights by kernel.")


class PathPoints(_Model):
    """Points of a path that came after a number."""

    kernels: list[str]
    points: list[PathPoint]
    parameter: AlphaOrC = "alpha"


class Event(_Model):
    """Something that happened to a run."""

    time: float
    text: str


class Log(_Model):
    """What a run wrote."""

    events: list[Event]
    text: str


class Artifact(_Model):
    """A file of a run."""

    name: str
    kind: str
    size: int


class PredictRequest(_Model):
    """Predict the rows of a table, or of several with a key."""

    data: Data


class Predicted(_Model):
    """Predictions that were made and written."""

    artifact: str
    n_rows: int
    columns: list[str]
    rows: list[list[str | float | int | None]] = Field(description="The first ones.")
    scores: dict[str, float] = Field(description="Where the table has the target.")
    stands_for: dict[str, str] = Field(
        default={}, description="For each of several tables of the run, the new one that was taken for it."
    )
    n_missing: int = Field(default=0, description="Rows without a prediction, because a cell is missing.")


# ---- results --------------------------------------------------------------------------------------


class Layer(_Model):
    """Weights of one layer of a deep model, in the order of its kernels."""

    names: list[str]
    outputs: list[str]
    values: list[list[float]] = Field(description="One row for each kernel, one number for each output.")


class Weights(_Model):
    """Kernel weights, largest first."""

    names: list[str]
    outputs: list[str]
    values: list[list[float]] = Field(description="One row for each kernel, one number for each output.")
    views: dict[str, float]
    layers: list[Layer] = Field(default=[], description="Of deep models, the lowest first.")


class _Strengths(_Model):
    """Values of the regularisation parameter, from strong to weak."""

    alphas: list[float]
    parameter: AlphaOrC = "alpha"

    @property
    def strengths(self) -> list[float]:
        """The same values in the learner's own parameter."""
        return in_parameter(self.alphas, self.parameter)


class PathResult(_Strengths):
    """The regularisation path on all training rows."""

    output: str
    df: list[Real]
    n_active: list[int]
    names: list[str]
    weights: list[list[float]] = Field(description="One row for each strength, one number for each name.")
    chosen: int


class Curve(_Strengths):
    """Cross-validated scores along the path."""

    mean: list[Real]
    error: list[Real]
    folds: list[list[Real]]
    chosen: int
    best: int
    rule: str
    score: str


class Contributions(_Model):
    """What kernels add to the decision values of single rows."""

    rows: list[str]
    kernels: list[str]
    outputs: list[str]
    values: list[list[list[float]]] = Field(description="By output, row, kernel.")
    intercepts: list[float]
    held: bool


class Receiver(_Model):
    """Receiver operating characteristic and precision-recall of one class."""

    output: str
    fpr: list[float]
    tpr: list[float]
    auc: Real
    precision: list[float]
    recall: list[float]
    average_precision: Real


class HeldOut(_Model):
    """Rows that were held out."""

    scores: dict[str, Real]
    columns: list[str]
    rows: list[list[str | float | int | None]] = Field(description="The first ones.")
    n_rows: int = Field(default=0, description="All of them.")
    classes: list[str] = []
    confusion: list[list[int]] = []
    receivers: list[Receiver] = []


class Convergence(_Model):
    """How one problem was solved."""

    output: str
    history: dict[str, list[Real]]


class Certificate(_Model):
    """How far the objective may be from the optimum."""

    objective: Real
    gap: Real
    rel_gap: Real
    status: str
    n_iter: int
    stationarity: list[Real] = []
    held_as: str
    strength: str
    citation: str


class Results(_Model):
    """Everything that the studio shows about a finished run."""

    task: str
    target: str
    method: str
    estimator: str
    weights: Weights
    curve: Curve | None
    paths: list[PathResult]
    contributions: Contributions | None
    held: HeldOut | None
    nested: list[dict[str, Real]]
    certificate: Certificate
    convergence: list[Convergence]
    remarks: list[str]


class Difference(_Model):
    """A setting in which runs differ."""

    setting: str
    values: list[str]


class Comparison(_Model):
    """Runs side by side."""

    runs: list[Run]
    metrics: list[str]
    kernels: list[str]
    weights: list[list[float]] = Field(description="One row for each kernel, one number for each run.")
    differences: list[Difference]
    curves: list[Curve | None]


class Draft(_Model):
    """What is being put together in the browser, kept so that nothing is lost on the way."""

    data: Data | None = None
    spec: FitSpec = FitSpec()
    name: Name = ""


class About(_Model):
    """The studio itself."""

    version: str
    data_folder: str
    upload: int = Field(description="Largest upload in bytes.")
    suffixes: list[str]
