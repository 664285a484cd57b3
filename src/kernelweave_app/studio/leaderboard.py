"""Runs as a leaderboard: those that are looked for, in the order that is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernelweave_app.studio.schema import Run

#: Scores of which the smallest is best, by the first word of their names.
SMALLEST_BEST = ("RMSE", "MAE", "log loss", "Brier")
#: Columns by which runs can be sorted, and whether the largest comes first at the beginning.
ORDERS = {"name": False, "score": True, "method": False, "table": False, "seconds": False, "created": True}


@dataclass(frozen=True)
class Wanted:
    """What is looked for.

    Attributes
    ----------
    text : str
        Part of the name, the tags, the note, the learner or the table.
    method, table, state, tag : str
        Empty for all.
    least : float or None
        Of runs that are at least so good; of errors at most so large.
    score : str
        The score that is shown; empty for the most frequent one.
    order : str
        One of `ORDERS`.
    backwards : bool
    """

    text: str = ""
    method: str = ""
    table: str = ""
    state: str = ""
    tag: str = ""
    least: float | None = None
    score: str = ""
    order: str = "created"
    backwards: bool = True

    @property
    def narrow(self) -> bool:
        """Whether anything is left out."""
        return (
            bool(self.text or self.method or self.table or self.state or self.tag) or self.least is not None
        )


def scores_of(runs: Iterable[Run]) -> list[str]:
    """Names of the scores of runs, the most frequent first."""
    counts = Counter(metric.name for run in runs for metric in run.metrics)
    # of equally frequent ones the first, which chose the regularisation parameter
    return [name for name, _ in counts.most_common()]


def value_of(run: Run, score: str) -> float | None:
    """A score of a run, None if it has no such score."""
    return next((metric.value for metric in run.metrics if metric.name == score), None)


def small_is_good(score: str) -> bool:
    """Whether the smallest value of a score is the best one."""
    return score.startswith(SMALLEST_BEST)


def table_of(run: Run, names: Mapping[str, str]) -> str:
    """Names of the tables of a run."""
    return ", ".join(names.get(table, "deleted table") for table in run.request.data.tables)


def seconds_of(run: Run) -> float | None:
    """Seconds that a run took."""
    return None if run.started is None or run.finished is None else run.finished - run.started


def select(runs: Sequence[Run], wanted: Wanted, names: Mapping[str, str]) -> list[Run]:
    """Runs that are looked for, pinned ones first.

    Parameters
    ----------
    runs : sequence of Run
    wanted : Wanted
    names : mapping
        Names of tables by their ids.

    Returns
    -------
    list of Run
        Those without the value that they are sorted by are last, whatever the direction.
    """
    found = [run for run in runs if _fits(run, wanted, names)]
    known = [run for run in found if _key(run, wanted, names) is not None]
    known.sort(key=lambda run: _key(run, wanted, names), reverse=wanted.backwards)  # type: ignore[arg-type,return-value]
    unknown = [run for run in found if _key(run, wanted, names) is None]
    return sorted([*known, *unknown], key=lambda run: not run.marks.pinned)


def _key(run: Run, wanted: Wanted, names: Mapping[str, str]) -> float | str | None:
    if wanted.order == "score":
        return value_of(run, wanted.score)
    if wanted.order == "seconds":
        return seconds_of(run)
    if wanted.order == "created":
        return run.created
    found = {"name": run.name, "method": run.method, "table": table_of(run, names)}
    return found[wanted.order].casefold()


def _fits(run: Run, wanted: Wanted, names: Mapping[str, str]) -> bool:
    table = table_of(run, names)
    if wanted.method and run.method != wanted.method:
        return False
    if wanted.table and table != wanted.table:
        return False
    if wanted.state and run.state != wanted.state:
        return False
    if wanted.tag and wanted.tag not in run.marks.tags:
        return False
    if wanted.least is not None:
        value = value_of(run, wanted.score)
        if value is None or (value > wanted.least if small_is_good(wanted.score) else value < wanted.least):
            return False
    words = " ".join([run.name, *run.marks.tags, run.marks.note, run.method, table, run.request.spec.target])
    return all(part in words.casefold() for part in wanted.text.casefold().split())
