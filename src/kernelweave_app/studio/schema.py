"""The types of the API: what is asked, what is answered, and what of it is stored."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from kernelweave.inspection.registry import Sentence, repeated
from kernelweave_app.runs.evidence import ScoresApart
from kernelweave_app.runs.settings import SpecField
from kernelweave_app.runs.spec import Spec

TableId = Annotated[str, Field(pattern=r"^(set|file)-[a-z0-9_-]{1,60}$", examples=["set-wine"])]

RunId = Annotated[str, Field(pattern=r"^[0-9]{8}-[0-9]{6}-[0-9a-f]{6}$", examples=["20260102-030405-abcdef"])]

Name = Annotated[str, Field(max_length=200)]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


#: A number, null where it is not defined: JSON has no NaN.
Real = Annotated[float | None, BeforeValidator(_finite)]


class Record(BaseModel):
    """A type of the API, which rejects undeclared fields."""

    model_config = ConfigDict(extra="forbid")


MOST_TABLES = 20

#: What a file is to a run: a table, precomputed kernels, or a sparse view.
Use = Literal["table", "kernels", "sparse"]

ColumnKind = Literal["number", "whole number", "yes/no", "text", "date"]


class TableRef(Record):
    """A table to choose."""

    id: TableId
    name: str
    source: Literal["built-in", "data folder"]
    size: int | None = Field(description="Bytes of the file; null for sets that are not written out yet.")
    uses: list[Use] = Field(default=["table"], description="What the file can be, the usual first.")
    about: str = ""
    target: str = Field(default="", description="The usual target of a built-in set.")


class Column(Record):
    """A column of a table."""

    name: str
    kind: ColumnKind
    n_missing: int
    n_distinct: int | None = Field(description="Null where there are too many columns to count.")
    low: Real = None
    high: Real = None
    mean: Real = None
    median: Real = None
    counts: list[int] = Field(
        default=[], description="Numbers in bins of one width from the lowest to the highest."
    )
    levels: dict[str, int] = Field(
        default={}, description="Rows of the most frequent values that are no numbers."
    )
    examples: list[str] = []
    taken_for: Literal["number", "category", "text", "date", ""] = Field(
        default="", description="What a fit takes it for; empty where it leaves it out."
    )
    names_rows: str = Field(
        default="", description="Why it looks like names of the rows; empty where it does not."
    )


class Table(Record):
    """A table that was read."""

    id: TableId
    name: str
    n_rows: int
    n_columns: int
    n_numeric: int
    n_missing: int = Field(description="Missing cells.")
    rows_missing: int = Field(description="Rows with a missing cell.")
    memory: int = Field(description="Bytes once read.")


class Columns(Record):
    """Some of the columns of a table."""

    total: int
    columns: list[Column]


class Rows(Record):
    """Some of the rows of a table, as text."""

    total: int
    columns: list[str]
    rows: list[list[str | None]]


class Data(Record):
    """The tables to learn from: one, or several with a key; and files with further views of their rows."""

    tables: Annotated[list[TableId], Field(max_length=MOST_TABLES)]
    key: Name = ""
    by_order: bool = Field(
        default=False, description="Rows of the same number belong together; there is no key."
    )
    kernels: Annotated[list[TableId], Field(max_length=MOST_TABLES)] = Field(
        default=[], description="Files of precomputed kernels."
    )
    sparse: Annotated[list[TableId], Field(max_length=MOST_TABLES)] = Field(
        default=[], description="Files of sparse views, with the rows of the table in its order."
    )

    @model_validator(mode="after")
    def _not_empty(self) -> Data:
        if not self.files:
            raise ValueError("at least one file is needed")
        return self

    @property
    def files(self) -> list[TableId]:
        """All files."""
        return [*self.tables, *self.kernels, *self.sparse]

    @property
    def uses(self) -> dict[str, Use]:
        """What each file is used as."""
        files: dict[Use, list[str]] = {"table": self.tables, "kernels": self.kernels, "sparse": self.sparse}
        return {file: use for use, several in files.items() for file in several}


class Side(Record):
    """One of several tables after joining."""

    id: TableId
    name: str
    n_rows: int
    n_missing: int = Field(description="Rows of other tables that this one does not have.")
    examples: list[str] = Field(description="Some of their keys.")


class Further(Record):
    """A view of the rows from a file of its own."""

    name: str
    use: Use
    file: str
    n_columns: int
    by: str = Field(description="Column that names the rows; empty where they belong together by position.")


class Joining(Record):
    """The result of joining tables."""

    n_rows: int
    columns: list[str]
    numeric: list[str]
    sides: list[Side]
    views: dict[str, list[str]]
    keys: list[str] = Field(description="Columns that all tables have.")
    problem: str = Field(default="", description="Why they cannot be joined.")
    further: list[Further] = Field(default=[], description="Views from files of their own.")


class Target(Record):
    """The task that a target column implies."""

    task: Literal["regression", "classification"]
    reason: str
    n_missing: int
    classes: dict[str, int] = Field(description="Rows of each class; empty for regression.")
    low: Real = None
    high: Real = None
    problem: str = ""
    names: list[str] = Field(default=[], description="Of several targets.")


class Times(Record):
    """What columns of times and events hold."""

    n_events: int = 0
    n_censored: int = 0
    low: Real = Field(default=None, description="The shortest time.")
    high: Real = None
    n_zero: int = Field(default=0, description="Rows with a time of 0.")
    n_missing: int = Field(default=0, description="Rows without a time or an event.")
    n_negative: int = 0
    n_unread: int = Field(default=0, description="Cells of the time that are no number.")
    event: str = Field(default="", description="The column of the event.")
    values: dict[str, int] = Field(default={}, description="Rows of the most frequent values of that column.")
    n_values: int = Field(default=0, description="How many values that column has.")
    events: list[str] = Field(default=[], description="Those that are events.")
    swapped: bool = Field(default=False, description="Whether the two columns look exchanged.")
    problem: str = ""
    unreadable: bool = Field(default=False, description="Whether the problem is which value is the event.")


class Marked(Record):
    """The rows that a column holds out."""

    n_held: int = 0
    n_training: int = 0
    said: str = Field(default="", description="The division in words; empty where there is a problem.")
    problem: str = Field(description="Why the rows cannot be divided so.")
    values: dict[str, int] = Field(description="Rows of the most frequent values of the column.")
    held: list[str] = Field(default=[], description="Values of the held-out rows.")
    swapped: list[str] = Field(
        default=[],
        description="What `holdout_values` must be to swap held-out and training rows; empty if nothing.",
    )


class Consequence(Record):
    """What follows from the chosen tables and settings, and what mends it."""

    topic: str
    text: str
    kind: Literal["", "warn"] = Field(default="warn", description="Whether it is likely a mistake.")
    fix: str = Field(default="", description="What a button says that mends it; empty where nothing does.")
    settings: dict[str, Any] = Field(default={}, description="Settings that the button changes.")
    leave_out: TableId | None = Field(default=None, description="The file that the button leaves out.")


class Gap(Record):
    """Missing cells of a column, and what would fill them."""

    name: str
    n_missing: int
    mean: Real = Field(description="What impute fills numbers with.")
    median: Real = Field(description="What impute-median fills numbers with.")
    frequent: str = Field(description="What categories are filled with.")
    nearest: list[float] = Field(description="The least and the largest number from nearest rows.")


class Missing(Record):
    """Missing cells of the columns to learn from."""

    n_rows: int
    n_columns: int = Field(description="Columns with missing cells.")
    n_cells: int
    n_incomplete: int = Field(description="Rows with a missing cell.")
    columns: list[Gap] = Field(description="Those with most missing cells.")
    views: dict[str, int] = Field(description="Rows that lack all cells of a view, by view.")


class Outlier(Record):
    """A number far from the median of its column."""

    row: int
    column: str
    value: float
    median: float
    z: float = Field(description="Distance from the median in robust standard deviations.")


class Outliers(Record):
    """Numbers far from the median of their column."""

    n_outliers: int
    n_rows: int = Field(description="Rows that were looked at.")
    columns: dict[str, int] = Field(default={}, description="Outliers by column.")
    outliers: list[Outlier] = Field(description="The farthest ones.")


class Alignments(Record):
    """How alike views are on some rows, and how alike the target."""

    names: list[str]
    values: list[list[float]]
    target: list[float]
    n_rows: int


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
    spec: Spec
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
    low: Real = None
    high: Real = None
    n: int = Field(default=0, description="Rows behind the score, which determine its digits.")


class Summary(Record):
    """Summary of a finished run."""

    task: str
    method: str
    n_kernels: int
    n_active: int
    regularization: str = Field(description="The regularisation parameter and its value.")
    rel_gap: Real
    status: str
    n_training: int
    n_held: int
    seconds: float
    fit_seconds: Real = Field(default=None, description="Of the fit alone; null in runs of older versions.")


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
    seconds_left: float | None = None
    reason: str = Field(description="Why it failed or stopped; empty otherwise.")
    request: RunRequest
    metrics: list[Metric]
    summary: Summary | None
    marks: Marks = Marks()
    method: str = Field(default="", description="The learner, also where a plain fit chose it.")


AlphaOrC = Annotated[
    Literal["alpha", "C"], Field(description="The learner's own regularisation parameter: C is 1 / alpha.")
]
#: What scores that chose it call it, so that those of learners with either are one score.
EITHER = "alpha or C"


def in_parameter(alphas: Iterable[float], parameter: str) -> list[float]:
    """Values of alpha in the learner's own parameter."""
    return [1.0 / alpha if parameter == "C" else alpha for alpha in alphas]


class PathPoint(Record):
    """A point of a path that is being computed."""

    number: int = 0
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


class Predicted(Record):
    """Predictions that were made and written."""

    artifact: str
    n_rows: int
    columns: list[str]
    rows: list[list[str | float | int | None]] = Field(description="The first ones.")
    scores: dict[str, float] = Field(
        description="Of rows that were not in the fit, where the table has the target."
    )
    apart: ScoresApart | None = Field(
        default=None, description="Where rows were in the fit: scores of these too."
    )
    stands_for: dict[str, str] = Field(
        default={}, description="For each of several tables of the run, the new table that replaces it."
    )
    n_missing: int = Field(default=0, description="Rows without a prediction, because a cell is missing.")
    n_flagged: int = Field(default=0, description="Rows with a remark in the column `mind`.")
    compared: bool = Field(default=True, description="Whether new rows were compared with the training rows.")
    targets: list[str] = Field(default=[], description="Names of several targets.")


def _known(kind: str) -> str:
    if kind not in repeated():
        raise ValueError(f"must be one of {', '.join(repeated())}")
    return kind


#: A finding that takes time.
Kind = Annotated[str, AfterValidator(_known)]


class EvidenceProgress(Record):
    """How far the computation of a kind of evidence is."""

    state: Literal["starting", "waiting", "running", "done", "cancelled", "failed"]
    done: int = 0
    total: int = 0
    seconds_left: Real = None
    stopping: bool = False
    reason: str = ""


class Evidence(Record):
    """What is known about a run: numbers, sentences that are made of them, and what is being computed."""

    numbers: dict[str, Any]
    statements: list[Sentence]
    kinds: list[str] = Field(description="Kinds of evidence that this run can have.")
    progress: dict[str, EvidenceProgress]
    figures: list[str]
    tables: list[str]


class PairedComparison(Record):
    """A paired test of two runs on the same rows."""

    first: RunId
    second: RunId
    test: str
    why: str
    what: str = Field(description="Of what the difference is.")
    difference: Real
    low: Real
    high: Real
    p_value: Real
    adjusted: Real = Field(description="Corrected for the number of pairs (Holm).")
    n: int = Field(description="Rows, or folds.")
    rows: int = Field(description="Rows that were scored, which determine the digits.")


class Views(Record):
    """Views that were read."""

    views: dict[str, list[str]]
    n_unknown: int = Field(description="Named columns that the tables do not have.")


class KernelPreview(Record):
    """One kernel before learning."""

    name: str
    view: str
    alignment: Real = Field(description="Centred alignment with the target, from -1 to 1.")
    rank: int | None = Field(description="Rank where the kernel is held as a factor.")
    thumbnail: str = Field(description="The Gram matrix sorted by class or target, as a PNG data address.")


class KernelPreviews(Record):
    """Kernels before learning, best aligned first."""

    n_kernels: int
    n_looked: int = Field(description="Number of kernels with an alignment, spread evenly over all of them.")
    memory: int = Field(description="Bytes for the training kernels.")
    budget: int = Field(description="Bytes that they may take before they are recomputed by tiles.")
    n_rows: int = Field(description="Rows to learn from.")
    n_sampled: int = Field(description="Rows that thumbnails and alignments were computed on.")
    kernels: list[KernelPreview]


class Parameter(Record):
    """A parameter of a learner, as its docstring explains it."""

    name: str
    kind: str
    about: str
    default: str


class Method(Record):
    """A learner."""

    name: str
    title: str
    summary: str
    objective: str
    regularization_parameter: str
    regression: bool
    parameters: list[Parameter]
    settings: list[str] = Field(description="Names in `learner_params` that this learner reads.")
    fields: list[SpecField] = Field(description="The same, with the values that this learner accepts.")
    reference: str


class Layer(Record):
    """Weights of kernels, such as those of one layer of a deep model in the order of its kernels."""

    names: list[str]
    outputs: list[str]
    values: list[list[float]] = Field(description="One row for each kernel, one number for each output.")


class Weights(Layer):
    """Weights of all kernels, largest first."""

    views: dict[str, float]
    layers: list[Layer] = Field(default=[], description="Of deep models, the lowest first.")
    relevance: dict[str, float] = Field(
        default={}, description="Of columns in a learnt metric, largest first."
    )


class _AlongPath(Record):
    """Values of the regularisation parameter, from strong to weak."""

    alphas: list[float]
    parameter: AlphaOrC = "alpha"

    @property
    def parameter_values(self) -> list[float]:
        """The same values in the learner's own parameter."""
        return in_parameter(self.alphas, self.parameter)


class PathResult(_AlongPath):
    """The regularisation path on all training rows."""

    output: str
    df: list[Real]
    n_active: list[int]
    names: list[str]
    weights: list[list[float]] = Field(description="One row for each alpha, one number for each name.")
    chosen: int


class Curve(_AlongPath):
    """Cross-validated scores along the path."""

    mean: list[Real]
    error: list[Real]
    folds: list[list[Real]]
    chosen: int
    best: int
    rule: str
    score: str
    n_rows: int = 0


class Contributions(Record):
    """What kernels add to the decision values of single rows."""

    rows: list[str]
    kernels: list[str]
    outputs: list[str]
    values: list[list[list[float]]] = Field(description="By output, row, kernel.")
    intercepts: list[float]
    held: bool


class Receiver(Record):
    """Receiver operating characteristic and precision-recall of one class."""

    output: str
    fpr: list[float]
    tpr: list[float]
    auc: float
    precision: list[float]
    recall: list[float]
    average_precision: float


class HeldResult(Record):
    """Rows that were held out."""

    scores: dict[str, Real]
    columns: list[str]
    rows: list[list[str | float | int | None]] = Field(description="The first ones.")
    n_rows: int = Field(default=0, description="All of them.")
    groups: list[str] | None = Field(default=None, description="Of these rows, which stay together in folds.")
    targets: list[str] = Field(default=[], description="Names of several targets.")
    classes: list[str] = []
    confusion: list[list[int]] = []
    receivers: list[Receiver] = []


class Convergence(Record):
    """How one problem was solved."""

    output: str
    history: dict[str, list[Real]]


class Certificate(Record):
    """A bound on the distance of the objective from its optimum."""

    objective: Real
    gap: Real
    rel_gap: Real
    status: str
    n_iter: int
    stationarity: list[Real] = []
    held_as: str
    regularization: str = Field(description="The regularisation parameter and its value.")
    citation: str


class Results(Record):
    """Everything that the studio shows about a finished run."""

    task: str
    target: str
    method: str
    estimator: str
    weights: Weights
    curve: Curve | None
    paths: list[PathResult]
    contributions: Contributions | None
    held: HeldResult | None
    certificate: Certificate
    convergence: list[Convergence]
    remarks: list[str]
    defaults: list[str] = []
    coefficients: dict[str, float] = Field(
        default={},
        description="The intercept and the coefficient of each column, of linear models of few columns.",
    )
    squared_error: list[float] = Field(
        default=[], description="Mean squared error of the held-out rows, and its standard error."
    )


class Difference(Record):
    """A setting in which runs differ."""

    setting: str
    values: list[str]


class Comparison(Record):
    """Runs side by side."""

    runs: list[Run]
    metrics: list[str]
    kernels: list[str]
    weights: list[list[float]] = Field(description="One row for each kernel, one number for each run.")
    differences: list[Difference]
    curves: list[Curve | None]
    tests: list[PairedComparison] = Field(default=[], description="Paired tests of runs on the same rows.")


class Draft(Record):
    """Table, target and settings that are being edited in the browser; stored after every change."""

    data: Data | None = None
    spec: Spec = Spec()
    name: Name = ""


class About(Record):
    """The studio itself."""

    version: str
    data_folder: str
    upload: int = Field(description="Largest upload in bytes.")
    suffixes: list[str]


ProjectId = Annotated[str, Field(pattern=r"^(first|[0-9a-f]{12})$", examples=["first"])]
#: Checked in full where it is used; see `kernelweave_app.studio.projects.check_name`.
ProjectName = Annotated[str, Field(max_length=200, examples=["Tumours"])]


class Project(Record):
    """A project: tables, a draft and runs."""

    id: ProjectId
    name: str
    created: float
    n_tables: int
    n_runs: int
    size: int = Field(description="Bytes of its tables.")
    folder: str = Field(description="Where its tables are.")


class TableFile(Record):
    """A table file of a project, as it is now."""

    id: TableId
    name: str
    size: int
    n_rows: int | None = Field(description="Null where it is no table, or cannot be read.")
    n_columns: int | None
    checksum: str = Field(description="SHA-256 of the content: equal for equal files.")
    since: float = Field(description="When this version came, in seconds since 1970.")
    n_runs: int = Field(description="Runs of the project that were made from it.")
    problem: str = Field(default="", description="Why it cannot be read.")


# ---- in a file --------------------------------------------------------------------------------------


def _short(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        if not isinstance(value, str | int | float | None) or len(str(value)) > 100_000:
            raise ValueError(f"{name} is no short value")
    return values


_KINDS: dict[str, type[Record]] = {"event": Event, "metric": Metric, "artifact": Artifact}
#: What further columns of a table hold.
Plain = Annotated[dict[str, Any], AfterValidator(_short)]


class Beside(Record):
    """What the record of a run holds beside its request and its tables."""

    method: str = ""
    files: dict[str, list[str]] = {}


class StoredRun(Record):
    """A run in the file of a project."""

    id: RunId
    name: Name
    state: Literal["done", "cancelled", "failed"]
    created: Real
    started: Real = None
    finished: Real = None
    done: int = 0
    total: int | None = None
    step: str = ""
    reason: str = ""
    summary: str | None = None
    request: RunRequest
    #: Files of its tables by their names, without their folder.
    paths: dict[str, str]
    record: Beside = Beside()
    #: Further columns of the run, and rows of other tables about it, by table.
    more: Plain = {}
    rows: dict[str, list[Plain]] = {}

    @field_validator("rows")
    @classmethod
    def _as_shown(cls, rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        """What the pages make of these rows must be possible."""
        for table, kind in _KINDS.items():
            for row in rows.get(table, ()):
                kind.model_validate(row, extra="ignore")
        for row in rows.get("point", ()):
            PathPoint.model_validate(
                {**row, "number": 0, "weights": json.loads(str(row.get("weights")))}, extra="ignore"
            )
        for row in rows.get("mark", ()):
            tags = json.loads(str(row.get("tags")))
            if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
                raise ValueError("tags are no list of texts")
        return rows


class StoredProject(Record):
    """The contents of ``project.json``."""

    format: Literal["kernelweave project"]
    version: Literal[1]
    name: str
    folder: str = Field(default="", description="Where the tables were, which scripts of its runs name.")
    draft: Draft = Draft()
    runs: list[StoredRun] = []
    checksums: dict[str, str] = Field(
        default={}, description="SHA-256 of the files in the archive, by their names."
    )
