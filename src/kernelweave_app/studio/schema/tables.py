"""Tables and targets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.studio.schema.base import Name, Real, Record, TableId

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
    taken_for: Literal["number", "category", "text", ""] = Field(
        default="", description="What a fit takes it for; empty where it cannot use it."
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


class TargetQuestion(Record):
    """A question: the task that a target implies."""

    data: Data
    target: Name
    task: Literal["auto", "regression", "classification"] = "auto"


class Target(Record):
    """The task that a target column implies."""

    task: Literal["regression", "classification"]
    reason: str
    n_missing: int
    classes: dict[str, int] = Field(description="Rows of each class; empty for regression.")
    low: Real = None
    high: Real = None
    problem: str = ""


class LookQuestion(Record):
    """A question about the columns to learn from."""

    data: Data
    spec: FitSpec = FitSpec()


class Marked(Record):
    """The rows that a column holds out."""

    n_held: int
    n_training: int
    said: str = Field(description="The division in words; empty where there is a problem.")
    problem: str = Field(description="Why the rows cannot be divided so.")
    values: dict[str, int] = Field(description="Rows of the most frequent values of the column.")
    held: list[str] = Field(description="Values of the held-out rows.")
    swapped: list[str] = Field(
        description="What `holdout_values` must be to swap held-out and training rows; empty if nothing."
    )


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
