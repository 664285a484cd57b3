"""What follows from a choice of tables and settings, said before a run starts, each with a change that mends it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelweave._errors import InputError
from kernelweave._forms import names_in, numbered
from kernelweave._types import DataFrame
from kernelweave.inspection.scores import FEWEST_ROWS
from kernelweave.views.levels import is_called
from kernelweave_app.runs.columns import date_format, read_types, with_types
from kernelweave_app.runs.division import seems_to_mark
from kernelweave_app.runs.doubts import find_giveaways
from kernelweave_app.runs.fitting import WITHOUT_PATH, survival_learners
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.lineage import checksum
from kernelweave_app.runs.preparing import Prepared, prepare, taken_columns
from kernelweave_app.runs.recommending import UNEQUAL
from kernelweave_app.runs.row_names import why_names
from kernelweave_app.runs.spec import DEFAULT, SURVIVAL, Spec, chosen, event_setting, label_of
from kernelweave_app.runs.survival import CENSORED, is_reversed, obvious_times
from kernelweave_app.studio.schema import Consequence, Marked, Target, Times

#: Names that a sentence lists, and columns of text that are looked at.
SHOWN, MOST_TEXTS = 3, 300
#: Fraction of the cells of a text column that are numbers, from which on the others are told.
MOSTLY_NUMBERS = 0.8
#: Rows of a table that are copies of others, as a fraction, and columns from which on that is no chance.
COPIES, COLUMNS_OF_COPIES = 0.05, 5
#: Events that a stratum has on average, at least.
EVENTS_OF_STRATUM = 5
#: Rows that a group has on average, at least, and how many groups.
ROWS_OF_GROUP, FEWEST_GROUPS = 2, 5
#: Names of columns whose rows may have a baseline hazard of their own.
_STRATA = re.compile(
    r"(?i:hospital|clinic|site|cent(?:er|re)|country|study|cohort|batch|ward|stratum|strata)s?"
)
_SUBJECTS = re.compile(r"(?i:patient|subject|participant|mouse|animal|donor|user|customer|person)s?")
_DAY_OR_MONTH = re.compile(r"\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}")
#: Settings without survival.
NO_TIMES = {"time": "", "event": "", "strata": "", "ties": "breslow"}
#: What each way to treat missing cells does.
DOES = {
    "error": "With this setting, runs fail if cells are missing.",
    "drop": "Rows with a missing cell are left out.",
    "impute": "Numbers are filled with the mean, categories with the most frequent one.",
    "impute-median": "Numbers are filled with the median, categories with the most frequent one, and columns of "
    "0 and 1 mark what was filled.",
    "impute-nearest": "Numbers are filled from the five nearest rows, categories with the most frequent one.",
    "skip": "Nothing is filled: rows are compared in the columns that both have.",
}


def consequences(
    joined: Joined,
    files: dict[str, str],
    spec: Spec,
    target: Target | Times | str | None,
    marked: Marked | str | None,
) -> list[Consequence]:
    """What a reader of a table has to know before a run starts.

    Parameters
    ----------
    joined : Joined
        The tables side by side.
    files : dict of str to str
        Paths of the chosen files by their ids.
    spec : Spec
    target : Target, Times, str or None
        What the target column implies, or those of time and event, or why nothing can be said.
    marked : Marked, str or None
        The same of the column of held-out rows.

    Returns
    -------
    list of Consequence
        Warnings first.
    """
    found = [*_same_files(files), *_lost_rows(joined, spec), *_held_out(marked)]
    table = with_types(joined.table, spec.types)
    if isinstance(target, Times):
        found += _of_times(target, spec)
    elif isinstance(target, Target):
        found += _of_target(target, spec)
    if not spec.survival and (times := obvious_times(table)):
        found.append(_survival(times, spec))
    leave = taken_columns(spec, list(table.columns), spec.key, joined.names)
    columns = [name for name in table.columns if name not in leave]
    if isinstance(target, Times):
        found += _of_strata(table, columns, spec, target)
    if not spec.holdout:
        found += _unread_marks(table, columns)
    found += [*_empty_columns(table, columns, spec), *_of_texts(table, columns, spec)]
    told = {name for one in found for name in (*one.settings.get("types", ()), *one.settings.get("drop", ()))}
    found += _of_prepared(joined, spec, told)
    return sorted(found, key=lambda one: one.kind != "warn")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(repr(name) for name in names[:SHOWN]) + more


def _without(spec: Spec, names: list[str], topic: str, text: str) -> Consequence:
    """A warning of columns, with a button that leaves them out."""
    drop = list(dict.fromkeys([*names_in(spec.drop), *names]))
    return Consequence(topic=topic, text=text, fix="Leave out", settings={"drop": drop})


def _same_files(files: dict[str, str]) -> Iterator[Consequence]:
    seen: dict[str, str] = {}
    for file, path in files.items():
        first = seen.setdefault(checksum(path), path)
        if first != path:
            one, other = (each.rpartition("/")[2] for each in (first, path))
            yield Consequence(
                topic="same file",
                text=f"{one} and {other} have the same contents. As two views they count twice.",
                fix=f"Leave out {other}",
                leave_out=file,
            )


def _lost_rows(joined: Joined, spec: Spec) -> Iterator[Consequence]:
    lost = {view: keys for view, keys in joined.missing.items() if keys}
    if not lost or joined.kinds:
        return
    keys = dict.fromkeys(str(key) for keys in lost.values() for key in keys)
    lacking = "; ".join(f"{len(keys)} not in {view}" for view, keys in lost.items())
    yield Consequence(
        topic="lost rows",
        text=f"{numbered(len(keys), 'row of the tables is', 'rows of the tables are')} lost by joining ({lacking}), "
        f"such as {_listed(list(keys))}. {numbered(len(joined.table), 'row remains', 'rows remain')}.",
        fix="Keep rows that lack a table",
        settings={"rows": "all"},
    )


def _held_out(marked: Marked | str | None) -> Iterator[Consequence]:
    if marked is None:
        return
    problem = marked if isinstance(marked, str) else marked.problem
    if isinstance(marked, str) or problem:
        yield Consequence(topic="held-out rows", text=problem)
        return
    more = marked.n_held > marked.n_training
    then = " More rows are held out than trained on: are the two sides swapped?" if more else ""
    yield Consequence(
        topic="held-out rows",
        kind="warn" if more else "",
        text=f"{marked.said}.{then}",
        fix="Swap held-out and training rows",
        settings={"holdout_values": marked.swapped or ""},
    )


def _unread_marks(table: DataFrame, columns: list[str]) -> Iterator[Consequence]:
    for name in columns:
        if (found := seems_to_mark(table[name])) is not None:
            yield Consequence(
                topic="marks of rows",
                text=f"Column {str(name)!r} is used as a feature, but seems to mark held-out rows: {found.said}.",
                fix="Hold out the rows that it marks",
                settings={"holdout": str(name), "holdout_values": ""},
            )


def _survival(times: dict[str, str], spec: Spec) -> Consequence:
    """Columns that look like times and events, but are not used as such."""
    time, event = times["time"], times["event"].partition("=")[0]
    both = f"{time!r} and {event!r} look like the time until an event and whether it was seen."
    used = {time, event} & {spec.target, *names_in(spec.drop)}
    return Consequence(
        topic="survival",
        kind="" if len(used) == 2 else "warn",
        text=f"{both} A feature that is known only afterwards makes scores too good.",
        fix="Predict the time until the event",
        settings={**times, "target": "", "task": "auto"},
    )


def _unusable(count: int, topic: str, what: str, spec: Spec, more: str = "") -> Iterator[Consequence]:
    """Rows of which the target cannot be used; `more` says what else would mend that."""
    dropped = spec.missing == "drop"
    if count:
        yield Consequence(
            topic=topic,
            kind="" if dropped else "warn",
            text=f"{numbered(count, 'row has', 'rows have')} {what}"
            + (" and will be left out." if dropped else f", and runs fail.{more}"),
            fix="" if dropped else "Leave out these rows, and others with a missing cell",
            settings={"missing": "drop"},
        )


def _of_times(times: Times, spec: Spec) -> Iterator[Consequence]:
    time, event = spec.time, times.event
    if times.swapped:
        yield Consequence(
            topic="swapped columns",
            text=f"{time!r} has two values and {event!r} has {times.n_values} numbers: are the two exchanged?",
            fix="Exchange time and event",
            settings={"time": event, "event": time},
        )
        return
    yield from _unusable(times.n_missing, "target missing", "no time or event", spec)
    if times.n_unread:
        yield Consequence(
            topic="time",
            text=f"{numbered(times.n_unread, 'cell')} of {time!r} {'is' if times.n_unread == 1 else 'are'} no number, "
            "and runs fail.",
            fix="Read it as numbers, and leave out other rows",
            settings={"types": {**read_types(spec.types), time: "number"}, "missing": "drop"},
        )
    mend = " Correct these cells, or leave the rows out."
    yield from _unusable(times.n_negative, "time", f"a negative time in {time!r}", spec, mend)
    if times.n_zero:
        yield Consequence(
            topic="time",
            kind="",
            text=f"{numbered(times.n_zero, 'row has', 'rows have')} a time of 0. An event there is the earliest of "
            "all; a row that was censored then says nothing.",
        )
    values = list(times.values)
    if times.problem:
        named: list[str] = []
        if times.unreadable and len(values) > 1 and all(value.isdecimal() for value in values):
            named = [max(values, key=int)]  # of numbers the largest is most often the event
        elif times.unreadable:
            # where some words say that there was none, the others are events
            rest = [value for value in values if value.lower() not in CENSORED]
            named = rest if len(rest) < len(values) == times.n_values else []
        yield Consequence(
            topic="event",
            text=times.problem,
            fix=f"Count {_listed(named)} as the event" if named else "",
            settings={"event": event_setting(event, named)} if named else {},
        )
        return
    if is_reversed(event) and spec.event == event and len(values) == 2:
        other = next((value for value in values if value not in times.events), "")
        yield Consequence(
            topic="event",
            text=f"{event!r} seems to say which rows are censored, but {times.events[0]!r} counts as the event.",
            fix=f"Count {other!r} as the event",
            settings={"event": event_setting(event, [other])},
        )
    if times.n_values > len(times.events) + 1:
        yield Consequence(
            topic="event",
            kind="",
            text=f"{event!r} has {times.n_values} values. Rows without {_listed(times.events)} count as censored, also "
            "those with an event of another kind: competing risks are not modelled.",
        )
    n = times.n_events
    if n < spec.cv:
        few = max(2, n)
        yield Consequence(
            topic="few events",
            text=f"{numbered(n, 'event')} for {spec.cv} folds: some folds have none, and no two of their rows can be "
            "compared.",
            fix=f"Use {few} folds" if few < spec.cv else "",
            settings={"cv": few},
        )
    elif n < FEWEST_ROWS:
        text = f"{numbered(n, 'event')}: the scores say little, whatever the number of rows."
        yield Consequence(topic="few events", text=text)
    if not times.n_censored:
        yield Consequence(
            topic="censoring",
            kind="",
            text=f"Every row has its event: {time!r} could be predicted as a number too.",
            fix="Predict the time as a number",
            settings={
                **NO_TIMES,
                "target": time,
                "task": "regression",
                "drop": [*names_in(spec.drop), event],
            },
        )
    usual = {name: Spec.model_fields[name].default for name in WITHOUT_PATH}
    if chosen(spec, SURVIVAL).method not in survival_learners():
        usual |= {"method": DEFAULT, "learner_params": {}, "Cs": Spec.model_fields["Cs"].default}
    if changed := {name: value for name, value in usual.items() if getattr(spec, name) != value}:
        unused = ", ".join(label_of(name) for name in changed if name != "learner_params")
        yield Consequence(
            topic="method",
            text=f"Survival has no use for: {unused}.",
            fix="Take the settings of a plain fit",
            settings=changed,
        )


def _of_strata(table: DataFrame, columns: list[str], spec: Spec, times: Times) -> Iterator[Consequence]:
    """Features that look like groups of rows with a risk of their own."""
    for name in columns if not spec.strata else ():
        n = table[name].nunique() if _STRATA.fullmatch(_plain(name)) else 0
        if 2 <= n <= times.n_events / EVENTS_OF_STRATUM:
            yield Consequence(
                topic="strata",
                kind="",
                text=f"Column {str(name)!r} with {n} values is used as a feature. As strata, the rows of each value "
                "have a baseline hazard of their own, and only they are compared with each other.",
                fix="Use it as strata",
                settings={"strata": str(name)},
            )


def _of_target(target: Target, spec: Spec) -> Iterator[Consequence]:
    if target.problem:
        yield Consequence(topic="target", text=target.problem)
    yield from _unusable(target.n_missing, "target missing", "no target", spec)
    if len(target.classes) < 2:
        return
    name, fewest = min(target.classes.items(), key=lambda pair: pair[1])
    most = max(target.classes.values())
    if fewest < spec.cv:
        yield Consequence(
            topic="rare class",
            text=f"Class {name!r} has {numbered(fewest, 'row')}, fewer than the {spec.cv} folds: "
            + ("nothing can be tested on it." if fewest == 1 else "some folds have none of it."),
        )
    if most >= UNEQUAL * fewest and not (spec.balanced or spec.class_weights):
        yield Consequence(
            topic="unequal classes",
            kind="",
            text=f"The largest class has {most} rows, class {name!r} {fewest}. A model may predict the largest class "
            "nearly always.",
            fix="Weight classes equally",
            settings={"balanced": True},
        )


def _empty_columns(table: DataFrame, columns: list[str], spec: Spec) -> Iterator[Consequence]:
    part = table[columns]
    known = part.notna().sum()
    empty = [str(name) for name in columns if known[name] == 0]
    numbers = part.select_dtypes("number")
    low, high = numbers.min(), numbers.max()
    constant = [str(name) for name in numbers.columns if known[name] and low[name] == high[name]]
    others = [name for name in columns if name not in numbers.columns][:MOST_TEXTS]
    constant += [str(name) for name in others if known[name] and part[name].nunique() == 1]
    for names, what in ((empty, "no value in any row"), (constant, "the same value in every row")):
        if names:
            topic = "empty column" if names is empty else "constant column"
            yield _without(spec, names, topic, f"{_named(names)} {what}.")


def _plain(name: str) -> str:
    """The name of a column in its own table."""
    return str(name).rpartition(".")[2]


def _named(names: list[str]) -> str:
    """Columns as the beginning of a sentence."""
    return f"Column {names[0]!r} has" if len(names) == 1 else f"Columns {_listed(names)} have"


def _of_texts(table: DataFrame, columns: list[str], spec: Spec) -> Iterator[Consequence]:
    import pandas as pd

    texts = (
        table[columns].select_dtypes(exclude=["number", "bool", "datetime", "category"]).columns[:MOST_TEXTS]
    )
    for name in texts:
        known = table[name].dropna().astype(str).str.strip()
        if not len(known) or date_format(table[name]):
            continue
        numbers = pd.to_numeric(known, errors="coerce").notna()
        if MOSTLY_NUMBERS <= numbers.mean() < 1.0:
            others = list(dict.fromkeys(known[~numbers]))
            types = {**read_types(spec.types), str(name): "number"}
            yield Consequence(
                topic="numbers as text",
                text=f"Column {str(name)!r} is text because of {_listed(others)} among {int(numbers.sum())} numbers.",
                fix="Read it as numbers; other cells are missing",
                settings={"types": types},
            )
        elif known.str.fullmatch(_DAY_OR_MONTH.pattern).mean() > MOSTLY_NUMBERS:
            text = (
                f"Column {str(name)!r} looks like dates in which day and month can be confused, such as "
                f"{known.iloc[0]!r}. It is read as text. Write dates as 2026-11-28, or leave the column out."
            )
            yield _without(spec, [str(name)], "ambiguous dates", text)
    for name in columns:
        last = _plain(name)
        if not (is_called(last) or _SUBJECTS.fullmatch(last)):
            continue
        n, known = table[name].nunique(), int(table[name].notna().sum())
        if (
            not spec.group
            and FEWEST_GROUPS <= n <= known / ROWS_OF_GROUP
            and not why_names(table[name], str(name))
        ):
            yield Consequence(
                topic="repeated names",
                text=f"Column {str(name)!r} has {n} values in {known} rows. Rows of one {name} in both training and "
                "held-out rows make scores too good.",
                fix="Keep its rows together",
                settings={"group": str(name)},
            )


def _of_prepared(joined: Joined, spec: Spec, told: set[str]) -> Iterator[Consequence]:
    try:
        filled = spec.model_copy(update={"missing": "impute", "holdout": ""})
        prepared = prepare(
            joined, filled.model_copy(update={"drop": [*names_in(spec.drop), *names_in(spec.holdout)]})
        )
    except InputError:
        return
    yield from _of_rows(prepared, spec, told)
    cells = prepared.frame.isna()
    if prepared.n_missing:
        rows, columns = int(cells.any(axis=1).sum()), int(cells.any().sum())
        is_refused = spec.missing == "error"
        yield Consequence(
            topic="missing cells",
            kind="warn" if is_refused else "",
            text=f"{numbered(prepared.n_missing, 'cell')} in {numbered(columns, 'column')} "
            f"{'is' if prepared.n_missing == 1 else 'are'} missing, in {numbered(rows, 'row')} of {len(cells)}. "
            f"{DOES[spec.missing]}",
            fix="Fill them" if is_refused else "",
            settings={"missing": "impute"},
        )


def _of_rows(prepared: Prepared, spec: Spec, told: set[str]) -> Iterator[Consequence]:
    names, read = prepared.row_names, prepared.row_names_read
    for name, why in names.items():
        if name in told:
            continue
        text = f"Column {name!r} looks like a row identifier ({why}), which says nothing about new rows. "
        if name in read:
            yield _without(spec, [name], "identifier", f"{text}It is used as a feature.")
        else:
            yield Consequence(topic="identifier", kind="", text=f"{text}It is left out.")
    copies = [name for name in find_giveaways(prepared) if name not in names]
    if copies:
        them = "it" if len(copies) == 1 else "them"
        text = f"{_named(copies)} the target in another form. If new rows will not have {them}, scores are too good."
        yield _without(spec, copies, "copy of the target", text)
    frame = prepared.frame
    same = int(frame.duplicated().sum()) if frame.shape[1] >= COLUMNS_OF_COPIES else 0
    if same > COPIES * len(frame):
        yield Consequence(
            topic="equal rows",
            text=f"{numbered(same, 'row')} of {len(frame)} {'is a copy' if same == 1 else 'are copies'} of other rows. "
            "Copies in both training and held-out rows make scores too good.",
        )
