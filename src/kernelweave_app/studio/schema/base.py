"""What all types of the API share: names, numbers, and no undeclared fields."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

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
