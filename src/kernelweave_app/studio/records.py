"""From rows of the database to the runs of the API."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence

from pydantic import ValidationError

from kernelweave_app.studio.schema import Marks, Metric, Run, RunRequest, Summary
from kernelweave_app.studio.store import FINAL

#: What records of runs hold beside the request.
OF_RECORDS = ("paths", "method", "files")


def describe_run(row: sqlite3.Row, metrics: Sequence[sqlite3.Row], mark: sqlite3.Row | None) -> Run:
    """A run.

    Parameters
    ----------
    row : Row
        Of the table of runs.
    metrics : sequence of Row
        Its scores.
    mark : Row or None
        What somebody wrote about it.
    """
    request = json.loads(row["request"])
    beside = {name: request.pop(name, None) for name in OF_RECORDS}
    left = None
    if row["state"] == "running" and row["done"] and row["total"] and row["started"]:
        left = (time.time() - row["started"]) / row["done"] * max(0, row["total"] - row["done"])
    return Run(
        id=row["id"],
        name=row["name"],
        state=row["state"],
        created=row["created"],
        started=row["started"],
        finished=row["finished"],
        cancelling=row["cancelled"] is not None and row["state"] not in FINAL,
        done=row["done"],
        total=row["total"],
        step=row["step"],
        seconds_left=left,
        reason=row["reason"],
        request=RunRequest.model_validate(request),
        metrics=[Metric(name=m["name"], value=m["value"], spread=m["spread"]) for m in metrics],
        summary=_read_summary(row["summary"]),
        marks=_read_marks(mark),
        method=beside["method"] or request["spec"].get("method", ""),
    )


def _read_marks(row: sqlite3.Row | None) -> Marks:
    if row is None:
        return Marks()
    return Marks(pinned=bool(row["pinned"]), note=row["note"], tags=json.loads(row["tags"]))


def _read_summary(text: str | None) -> Summary | None:
    """A summary, or None if another version of this package wrote it."""
    try:
        return Summary.model_validate_json(text, extra="ignore") if text else None
    except ValidationError:
        return None
