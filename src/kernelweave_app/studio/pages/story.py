"""What a finished run found, as one story on one screen: how good, which sources, what to distrust, how sure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nicegui import ui

from kernelweave._drawing import percent, score_text
from kernelweave._errors import capital
from kernelweave._types import Tree
from kernelweave.inspection.held_times import CONCORDANCE, EQUAL
from kernelweave.inspection.registry import Finding, Interval, repeated
from kernelweave_app.runs.estimating import span
from kernelweave_app.runs.spec import in_words_of
from kernelweave_app.studio.pages.pieces import (
    card,
    hint,
    plural,
    simple_table,
    stack,
    stat,
    tag,
    text,
    word_button,
)
from kernelweave_app.studio.schema import Evidence, Run

#: Sources of the chart, sentences of a part, and characters of a sentence that are shown at once.
MOST_SOURCES, MOST_SENTENCES = 7, 3
#: Scores of each of several targets that fit the screen.
SCORES_OF_TARGETS = 3
#: Words for the answers of findings, and how they are marked.
WORDS = {
    "yes": ("yes", "good"),
    "no": ("no", ""),
    "inconclusive": ("cannot tell", "warn"),
    "": ("not tested", ""),
}
#: What to compute next, the most useful first.
NEXT = ("omission", "stability", "permutation", "learning curve", "baselines", "sources")
#: Fraction of a metric below which a column is not shown.
LEAST = 0.005
#: Sources that are left out one by one, at most.
MOST_OMITTED = 10


@dataclass(frozen=True)
class SourceRow:
    """A source in the chart.

    Attributes
    ----------
    name, value : str
    at, low, high : float
        The number and its interval, low and high NaN where there is none.
    answer : {"yes", "no", "inconclusive", ""}
        Whether it matters; empty where that was not tested.
    """

    name: str
    value: str
    at: float
    low: float
    high: float
    answer: str


def finding_of(numbers: Tree, name: str) -> Finding | None:
    """A finding of the evidence of a run."""
    return Finding.from_json(numbers[name]) if numbers.get(name) else None


def sources_of(numbers: Tree) -> tuple[list[SourceRow], str]:
    """Sources with what is known of them, and what the numbers are."""
    for name, what in (
        ("omission", "Loss of {score} when the model is fitted without the source"),
        ("sources", "Loss of {score} when the source is exchanged between held-out rows"),
    ):
        tested = finding_of(numbers, name)
        if tested is None:
            continue
        (table,) = tested.tables
        answers = {row[0]: str(row[-1]) for row in table.rows}
        score = tested.details.get("name of score", "score")
        rows = [
            SourceRow(
                source,
                score_text(score, one.value, tested.rows),
                *(one.value, one.low, one.high),
                answers[source],
            )
            for source, one in tested.values.items()
        ]
        return rows, f"{what.format(score=score)}, with 95 % intervals."
    weights = finding_of(numbers, "stability") or finding_of(numbers, "views")
    if weights is None:
        return [], ""
    relevance = finding_of(numbers, "relevance")
    if len(weights.values) < 2 and relevance is not None:
        rows = [_weight(name, one) for name, one in relevance.values.items() if one.value >= LEAST]
        return rows, "Fractions of the learnt metric: how fast predictions change along each column."
    rows = [_weight(name, one) for name, one in weights.values.items() if one.value > 0]
    lines = ", with 95 % of the weights over random halves of the rows" if weights.name == "stability" else ""
    return rows, f"Weights, as fractions{lines}. A weight alone does not say whether a source is needed."


def _weight(name: str, one: Interval) -> SourceRow:
    return SourceRow(
        "all columns" if name == "all" else name, percent(one.value), one.value, one.low, one.high, ""
    )


def verdict(numbers: Tree, target: str) -> str:
    """Whether the model is better than the best simple rule, in a sentence."""
    times = scores_of_times(numbers)
    if times is not None and times.verdicts:
        return OF_TIMES[times.verdicts[0].answer].format(target=target)
    several = finding_of(numbers, "targets")
    if several is not None and several.sentences:
        return several.sentences[0].text
    simplest = finding_of(numbers, "simplest")
    answer = simplest.verdicts[0].answer if simplest is not None and simplest.verdicts else ""
    target = "the target" if target == "target" else repr(target)
    said = {
        "yes": f"The model predicts {target} better than the best simple rule does.",
        "no": f"The model predicts {target} no better than a simple rule does.",
        "inconclusive": f"These rows cannot tell whether the model predicts {target} better than a simple rule does.",
    }
    if answer not in said and (nested := finding_of(numbers, "nested")) is not None:
        return nested.sentence
    return said.get(
        answer, f"How well the model predicts {target} for new rows is not known: no rows were held out."
    )


#: Verdicts of survival, by whether the concordance is that of any order of the rows.
OF_TIMES = {
    "yes": "The model orders rows by {target} better than chance does.",
    "no": "The model orders rows by {target} worse than chance does.",
    "inconclusive": "These rows cannot tell whether the model orders rows by {target} better than chance does.",
}


def scores_of_times(numbers: Tree) -> Finding | None:
    """Scores of survival: out of fold, or else of held-out rows."""
    return finding_of(numbers, "out-of-fold times") or finding_of(numbers, "held-out times")


def _pair(found: Mapping[str, Interval], score: str, rows: str) -> None:
    """Values of one score with their intervals, each below a name of its own."""
    with stack("kw-stats kw-pair"):
        for name, one in found.items():
            low, high = (score_text(score, end, one.n) for end in (one.low, one.high))
            stat(
                score_text(score, one.value, one.n), name, f"({low} to {high})" if one.low == one.low else ""
            )
    hint(f"{capital(score)}, {rows}; 95 % intervals.")


def show_scores(numbers: Tree) -> None:
    """One score with its interval beside that of the best simple rule."""
    times, several = scores_of_times(numbers), finding_of(numbers, "targets")
    if times is not None:
        named = {"this model": CONCORDANCE, "equal weights": EQUAL}
        found = {name: times.values[key] for name, key in named.items() if key in times.values}
        _pair(found, CONCORDANCE, f"{times.n} {times.sampled} with {times.details['events']} events")
        return
    if several is not None:
        show_targets(several)
        return
    simplest = finding_of(numbers, "simplest")
    if simplest is None:
        folds = finding_of(numbers, "folds")
        if folds is not None:
            for name, one in folds.values.items():
                hint(
                    f"{name} over folds: {score_text(name, one.value, folds.rows)}, {folds.details['said']}."
                )
        return
    score = simplest.details.get("score", "score")
    _pair(dict(list(simplest.values.items())[:2]), score, plural(int(simplest.n or 0), "held-out row"))


def show_targets(found: Finding) -> None:
    """Scores of several targets, a row for each."""
    (table,) = found.tables
    with stack("kw-scroll kw-targets").props("tabindex=0").style("max-height: 24rem"):
        heads = table.heads[: 1 + SCORES_OF_TARGETS]
        rows = [row[: len(heads)] for row in table.shown()]
        simple_table(heads, rows, numbers=range(1, len(heads)), label=table.title)
    hint(f"Scores of {plural(int(found.n or 0), 'held-out row')}.")


def show_sources(numbers: Tree) -> None:
    """The large chart: sources with bars, intervals and words."""
    rows, about = sources_of(numbers)
    if len(rows) < 2:
        hint(
            "All columns are one source here. Name groups of columns as views, or give each column a kernel, to see "
            "which of them matter."
        )
        word_button("Views and kernels", "arrow_forward", "/kernels", "outline dense")
        return
    draw_sources(rows[:MOST_SOURCES])
    rest = len(rows) - MOST_SOURCES
    hint(about + (f" And {plural(rest, 'more source')} with less." if rest > 0 else ""))


def draw_sources(shown: Sequence[SourceRow]) -> None:
    """Bars with intervals and words; no name is cut off."""
    ends = [end for row in shown for end in (row.at, row.low, row.high, 0.0) if math.isfinite(end)]
    low, high = min(ends), max(ends)
    scale = 100.0 / ((high - low) or 1.0)
    with ui.element("ul").classes("kw-sources").props('aria-label="Which sources matter"'):
        for row in shown:
            word, kind = WORDS.get(row.answer, WORDS[""])
            with ui.element("li"):
                text(row.name, "b")
                with ui.element("div").classes("kw-track").props("aria-hidden=true"):
                    left, right = sorted((0.0, row.at))
                    _span("kw-fill", (left - low) * scale, (right - left) * scale)
                    if math.isfinite(row.low):
                        _span("kw-whisker", (row.low - low) * scale, (row.high - row.low) * scale)
                text(row.value, "span").classes("kw-number")
                tag(word, kind)


def _span(kind: str, left: float, width: float) -> None:
    ui.element("i").classes(kind).style(f"left: {left:.1f}%; width: {width:.1f}%")


def next_kind(found: Evidence) -> str:
    """The most useful computation that has not been done; empty where all are."""
    open_ = [kind for kind in found.kinds if not found.numbers.get(kind)]
    going = [kind for kind in open_ if kind in found.progress]
    return next(iter(going), next((kind for kind in NEXT if kind in open_), ""))


def announced(run: Run, found: Evidence, kind: str, count: int, refit: bool = True) -> str:
    """How many fits a computation takes, and about how long."""
    assert run.summary is not None
    spec = run.request.spec
    folds = 1 if run.summary.n_held else spec.cv * spec.repeats
    weighted = sum(one["value"] > 0 for one in found.numbers.get("views", {}).get("values", {}).values())
    count = count or repeated()[kind].usual
    fits = {
        "omission": count * (min(weighted, MOST_OMITTED) + 1),
        "permutation": (count + 1) * folds if refit else 0,
        "stability": count,
        "learning curve": count * spec.cv,
        "baselines": 3,
    }.get(kind, 0)
    if not fits:
        return "No fits; seconds."
    seconds = run.summary.fit_seconds
    # halves of the rows take less, and are not counted as whole
    return f"{plural(fits, 'fit')}" + (f", about {span(fits * seconds)}." if seconds else ".")


def show_story(run: Run, found: Evidence, place_next: Callable[[str], None]) -> None:
    """The whole story.

    Parameters
    ----------
    run : Run
    found : Evidence
    place_next : callable
        Draws the button and the progress of a computation.
    """
    numbers = found.numbers
    said: dict[str, list[str]] = {}
    for one in found.statements:
        said.setdefault(one.topic, []).append(in_words_of("form", one.text))
    with card("Answers"), stack("kw-story"):
        with ui.element("section").classes("kw-verdict"):
            text(verdict(numbers, run.request.spec.predicted), "p").classes("kw-said")
            show_scores(numbers)
        with ui.element("section").classes("kw-matter"):
            text("Which sources matter?", "h3")
            show_sources(numbers)
            _sentences([one for one in said.get("which", []) if "permut" in one or "selected" in one][:1])
        with ui.element("section").classes("kw-distrust"):
            text("What to distrust", "h3")
            doubts = said.get("distrust", [])
            _sentences(
                doubts or ["Nothing was found: no rare class, no copy of the target, no name of rows."]
            )
        with ui.element("section").classes("kw-sure"):
            text("How sure?", "h3")
            tested = [one for one in said.get("sure", []) if "permut" in one.lower()]
            # of survival whether learnt weights are worth more than equal ones
            equal = [one for one in said.get("baseline", []) if "equal weights" in one]
            _sentences((tested or equal)[:1])
            if kind := next_kind(found):
                place_next(kind)
            else:
                hint("Everything that can be computed has been.")


def _sentences(said: list[str]) -> None:
    if not said:
        return
    with ui.element("ul"):
        for one in said[:MOST_SENTENCES]:
            text(one, "li")
    if len(said) > MOST_SENTENCES:
        hint(f"and {len(said) - MOST_SENTENCES} more, under All answers")
