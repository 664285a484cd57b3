"""Tables and targets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kernelweave.studio.schema.base import Name, Real, Record, TableId

MOST_TABLES = 20

ColumnKind = Literal["number", "whole number", "yes/no", "text", "date"]


class TableRef(Record):
    """A table to choose."""

    id: TableId
    name: str
    source: Literal["built-in", "data folder"]
    size: int | None = Field(description="Bytes of the file; null for sets that are not written out yet.")
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
    examples: list[str] = []


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
    """The tables to learn from: one, or several with a key."""

    tables: Annotated[list[TableId], Field(min_length=1, max_length=MOST_TABLES)]
    key: Name = ""


class Side(Record):
    """One of several tables after joining."""

    id: TableId
    name: str
    n_rows: int
    n_missing: int = Field(description="Rows of other tables that this one does not have.")
    examples: list[str] = Field(description="Some of their keys.")


class Joining(Record):
    """The result of joining tables."""

    n_rows: int
    columns: list[str]
    numeric: list[str]
    sides: list[Side]
    views: dict[str, list[str]]
    keys: list[str] = Field(description="Columns that all tables have.")
    problem: str = Field(default="", description="Why they cannot be joined.")


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
