"""Views and kernels."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.studio.schema.base import Real, Record
from kernelweave_app.studio.schema.tables import Data


class ViewsText(Record):
    """The text of a TOML or GMT file with views."""

    data: Data
    text: Annotated[str, Field(max_length=4_000_000)]
    format: Literal["toml", "gmt"]


class Views(Record):
    """Views that were read."""

    views: dict[str, list[str]]
    n_unknown: int = Field(description="Named columns that the tables do not have.")


class KernelQuestion(Record):
    """A question: the kernels that some settings give."""

    data: Data
    spec: FitSpec
    most: Annotated[int, Field(ge=0, le=200)] = Field(default=40, description="Thumbnails.")


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
