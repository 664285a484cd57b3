"""Results of finished runs."""

from __future__ import annotations

from pydantic import AliasChoices, Field

from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.studio.schema.base import Name, Real, Record
from kernelweave_app.studio.schema.evidence import PairedComparison
from kernelweave_app.studio.schema.runs import AlphaOrC, Run, in_parameter
from kernelweave_app.studio.schema.tables import Data


class Layer(Record):
    """Weights of one layer of a deep model, in the order of its kernels."""

    names: list[str]
    outputs: list[str]
    values: list[list[float]] = Field(description="One row for each kernel, one number for each output.")


class Weights(Record):
    """Kernel weights, largest first."""

    names: list[str]
    outputs: list[str]
    values: list[list[float]] = Field(description="One row for each kernel, one number for each output.")
    views: dict[str, float]
    layers: list[Layer] = Field(default=[], description="Of deep models, the lowest first.")


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
    auc: Real
    precision: list[float]
    recall: list[float]
    average_precision: Real


class HeldOut(Record):
    """Rows that were held out."""

    scores: dict[str, Real]
    columns: list[str]
    rows: list[list[str | float | int | None]] = Field(description="The first ones.")
    n_rows: int = Field(default=0, description="All of them.")
    intervals: dict[str, tuple[float, float]] = Field(
        default={}, description="95 % intervals of scores, over samples of these rows."
    )
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
    regularization: str = Field(
        validation_alias=AliasChoices("regularization", "strength"),
        description="The regularisation parameter and its value.",
    )
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
    held: HeldOut | None
    nested: list[dict[str, Real]]
    certificate: Certificate
    convergence: list[Convergence]
    remarks: list[str]
    defaults: list[str] = []
    doubts: list[str] = Field(default=[], description="Reasons for doubt in the model.")


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
    spec: FitSpec = FitSpec()
    name: Name = ""


class About(Record):
    """The studio itself."""

    version: str
    data_folder: str
    upload: int = Field(description="Largest upload in bytes.")
    suffixes: list[str]
