"""What `--json` prints: one object on standard output, whose JSON schema is printed by ``kernelweave schema``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """A part of the object; other names than these are not in it."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class PrintedTable(Part):
    """A table as the terminal shows it."""

    title: str = ""
    heads: list[str]
    rows: list[list[str]]


class Score(Part):
    """A score with its interval, where it has one."""

    value: float
    low: float | None = None
    high: float | None = None


class Source(Part):
    """A source of the data: a view, or a set of columns."""

    name: str
    weight: float = Field(description="Fraction of all weights; the fractions of all sources sum to one.")
    low: float | None = Field(None, description="Lower end of the 95 % interval of the weight.")
    high: float | None = Field(None, description="Upper end of the 95 % interval of the weight.")
    needed: Literal["yes", "no", "inconclusive"] | None = Field(
        None, description="Whether a model without the source predicts worse; null where this was not tested."
    )
    loss: float | None = Field(None, description="Loss of the score by a fit without the source.")
    loss_low: float | None = Field(None, description="Lower end of the 95 % interval of the loss.")
    loss_high: float | None = Field(None, description="Upper end of the 95 % interval of the loss.")
    p_value: float | None = Field(None, description="Of the loss, corrected for the number of sources.")


class Certificate(Part):
    """How far the objective is from its optimum at most."""

    objective: float
    rel_gap: float
    status: str
    n_iter: int


class Result(Part):
    """The result of a command."""

    command: str
    version: str
    messages: list[str] = Field(description="Lines that the terminal shows without --json.")
    tables: list[PrintedTable] = []
    files: list[str] = Field([], description="Files that were written.")
    task: str | None = None
    learner: str | None = None
    n_training: int | None = None
    n_held_out: int | None = None
    scores: dict[str, Score] | None = Field(None, description="Of rows that were not in the fit.")
    scores_out_of_fold: dict[str, Score] | None = Field(
        None, description="Of training rows by models of the other folds: of nested folds, and of survival."
    )
    scores_in_fit: dict[str, Score] | None = Field(None, description="Of rows that were in the fit.")
    sources: list[Source] | None = Field(None, description="Largest weight first.")
    certificate: Certificate | None = None
    settings: dict[str, Any] | None = Field(None, description="Settings of the run, as in spec.toml.")
    datasets: list[dict[str, Any]] | None = None
