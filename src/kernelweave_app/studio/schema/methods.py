"""Methods and their settings."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kernelweave_app.studio.schema.base import Record

SettingKind = Literal["text", "number", "whole number", "yes/no", "choice", "table"]


class Parameter(Record):
    """A parameter of a learner, as its docstring explains it."""

    name: str
    kind: str
    about: str
    default: str


class Setting(Record):
    """A setting of a fit."""

    name: str
    label: str
    group: str
    about: str
    kind: SettingKind
    unit: str = ""
    default: Any = Field(description="Null if there is nothing to set.")
    choices: list[str] = []
    least: float | None = None
    most: float | None = None


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
    fields: list[Setting] = Field(description="The same, with the values that this learner accepts.")
    reference: str
