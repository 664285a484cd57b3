"""Evidence about finished runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from kernelweave.inspection.findings import repeated
from kernelweave_app.studio.schema.base import Real, Record, RunId


def _known(kind: str) -> str:
    if kind not in repeated():
        raise ValueError(f"must be one of {', '.join(repeated())}")
    return kind


#: A finding that takes time.
Kind = Annotated[str, AfterValidator(_known)]


class EvidenceRequest(Record):
    """Evidence to compute."""

    kind: Kind
    count: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Permutations, divisions or halves of the rows, or sizes; 0 for the usual number.",
    )
    refit: bool = Field(
        default=True,
        description="Of permutations: repeat the whole fit. Otherwise only the targets of held-out rows are permuted.",
    )


class EvidenceStop(Record):
    """Evidence whose computation should stop."""

    kind: Kind


class EvidenceProgress(Record):
    """How far the computation of a kind of evidence is."""

    state: Literal["starting", "waiting", "running", "done", "cancelled", "failed"]
    done: int = 0
    total: int = 0
    seconds_left: Real = None
    stopping: bool = False
    reason: str = ""


class CitedNumber(Record):
    """A number in a sentence, and where it stands in the evidence."""

    source: list[str | int]
    value: float
    shown: str


class Sentence(Record):
    """A sentence with the numbers behind it."""

    topic: str
    sentence: str
    numbers: list[CitedNumber]


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
    n: int
