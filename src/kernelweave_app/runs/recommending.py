"""What to begin with on a table: learner and settings, each with the reason for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave.estimators.routes import TOO_MANY_ROWS, TOO_MANY_TILES
from kernelweave.fitting.memory import memory_budget
from kernelweave.views.groups import names_in
from kernelweave_app.runs.doubts import doubts_of_table, row_names_in
from kernelweave_app.runs.fitting import OF_PATHS, chosen, unused_settings
from kernelweave_app.runs.further_views import Tables
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.preparing import Prepared, prepare, split
from kernelweave_app.runs.questions import Question, question
from kernelweave_app.runs.spec import DEFAULT, Spec, plain_kernels

#: Kernels of a plain fit on one view: linear, and Gaussian and Laplacian with three widths each, see `recipe`.
USUAL_KERNELS = 7
#: Held-out rows below which outer folds are worth their time, see `_validation`.
FEW_HELD = 100
OUTER = 5
#: Rows of the largest class for each of the smallest, from which classes are weighted.
UNEQUAL = 3.0
#: Columns above which one width for each takes long.
MANY_COLUMNS = 200


@dataclass(frozen=True)
class Advice:
    """A setting, its value, and why."""

    setting: str
    value: object
    why: str


@dataclass(frozen=True)
class Recommendation:
    """What to begin with on a table.

    Attributes
    ----------
    question : Question
    facts : list of str
        What was found in the table.
    advice : list of Advice
        Settings in the order of a form.
    spec : Spec
        The settings that were given, with those of the advice.
    method : str
        The learner by its short name.
    """

    question: Question
    facts: list[str]
    advice: list[Advice]
    spec: Spec
    method: str
    warnings: list[str] = field(default_factory=list)


def recommend(data: Joined, spec: Spec, about: str = "predict") -> Recommendation:
    """Recommend a learner and settings for a table.

    Parameters
    ----------
    data : Joined
        The tables that were read.
    spec : Spec
        Target, views, kernels, groups and weights are kept; learner, validation and what is done about missing cells
        are recommended.
    about : {"predict", "sources", "few", "columns", "deep", "closed", "radius", "baseline"}
        The question.

    Returns
    -------
    Recommendation

    Notes
    -----
    The rules are those of the guide: a plain fit unless the question asks for another learner; weights where one class
    has a third of the rows of another; outer folds where few rows are held out; columns that name the rows are left
    out. Nothing is fitted.
    """
    asked = question(about)
    base = _without_choices(spec)
    tolerant = {"missing": "impute"} if base.missing == "error" else {}
    prepared = prepare(data, base.model_copy(update=tolerant))
    train, test = split(prepared, base)
    facts = _facts(prepared, len(train), len(test))
    advice = [
        *_learner(asked, base, prepared, len(train)),
        *_names(prepared, base),
        *_missing(prepared, base),
    ]
    advice += [*_classes(prepared, base, train), *_validation(prepared, base, train, len(test), asked)]
    given = {one.setting: one.value for one in advice}
    found = base.model_copy(update=given)
    now = chosen(found, prepared.task)
    if unused_settings(now):
        found = found.model_copy(update={"learner_params": {}})
    warnings = []
    if asked.name == "columns" and prepared.X.shape[1] > MANY_COLUMNS:
        warnings.append(
            f"{prepared.X.shape[1]} columns are many for one width each: look at the time below, or choose columns."
        )
    warnings += [one.sentence for one in doubts_of_table(prepare(data, found)).values()]
    return Recommendation(asked, facts, advice, found, now.method, warnings)


def _without_choices(spec: Spec) -> Spec:
    """The settings of the table and the kernels; those of learner and path at their defaults."""
    fresh = {name: spec.__class__.model_fields[name].default for name in OF_PATHS if name != "group"}
    fresh |= {"method": DEFAULT, "learner_params": {}, "nested": 0}
    return spec.model_copy(update=fresh)


def _facts(prepared: Prepared, n_train: int, n_held: int) -> list[str]:
    n, columns = len(prepared.y), prepared.X.shape[1]
    found = [f"{numbered(n, 'row')}, {numbered(columns, 'column')}; {prepared.said}"]
    if prepared.views:
        found.append(f"{numbered(len(prepared.views), 'view')}: {', '.join(list(prepared.views)[:6])}")
    cells = missing_share(prepared)
    if cells:
        found.append(f"{100 * cells:.2g} % of the cells are missing")
    counts = class_counts(prepared, slice(None))
    if counts:
        low, high = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        shown = (
            "equally frequent"
            if counts[low] == counts[high]
            else f"from {counts[low]} ({low}) to {counts[high]} ({high}) rows"
        )
        found.append(f"{len(counts)} classes, {shown}")
    found.append(f"{numbered(n_train, 'row')} to learn from, {n_held} held out")
    return found


def missing_share(prepared: Prepared) -> float:
    """Share of the cells that are missing; 0 for sparse views, which have none."""
    if isinstance(prepared.X, Tables) or not prepared.X.size:
        return 0.0
    return float(prepared.X.isna().to_numpy().mean())


def class_counts(prepared: Prepared, rows: Any) -> dict[str, int]:
    """Rows of each class; none for numbers and for several labels."""
    if prepared.task == "regression" or prepared.names:
        return {}
    names, counts = np.unique(np.asarray(prepared.y)[rows].astype(str), return_counts=True)
    return {str(name): int(count) for name, count in zip(names, counts, strict=True)}


def _learner(asked: Question, spec: Spec, prepared: Prepared, n: int) -> list[Advice]:
    plain = plain_kernels(spec.kernels)
    usual = asked.learners[0]
    if asked.name == "predict":
        now = chosen(spec, prepared.task).method
        what = f"{asked.why}; here it is {now}" if plain else "the usual learner for kernels of your own"
        return [Advice("method", DEFAULT, what + (_features(spec, prepared, n) if plain else ""))]
    found = [Advice("method", usual, asked.why)]
    if plain and not prepared.views:
        why = "the kernels that this learner is made for"
        found += [Advice(name, value, why) for name, value in asked.settings.items()]
    return found


def _features(spec: Spec, prepared: Prepared, n: int) -> str:
    """That features take the place of kernels, and why; empty where kernels stay."""
    if spec.approximation != "auto" or isinstance(prepared.X, Tables) or n <= TOO_MANY_TILES:
        return ""
    kernels = max(1, len(prepared.views)) * USUAL_KERNELS
    needed, budget = kernels * 4.0 * n * n, memory_budget(spec.max_memory)
    if needed > budget:
        why = f"about {kernels} kernels of {n} rows need {needed / 1e9:.1f} GB, and {budget / 1e9:.1f} GB may be used"
    elif n > TOO_MANY_ROWS:
        why = f"kernels of {n} rows take long"
    else:
        return ""
    return f"; {why}: features take their place, and time grows with the rows and not their square"


def _missing(prepared: Prepared, spec: Spec) -> list[Advice]:
    if spec.missing != "error" or not missing_share(prepared):
        return []
    why = "keeps all rows: numbers become the mean of the training rows, categories the most frequent one"
    found = [Advice("missing", "impute", why)]
    if len(prepared.views) > 1 and spec.missing_views == "error":
        found.append(
            Advice("missing_views", "complete", "kernels of a missing view are predicted from the others")
        )
    return found


def _names(prepared: Prepared, spec: Spec) -> list[Advice]:
    """That names of rows are left out; views that were given name their columns themselves."""
    found = {} if spec.views else row_names_in(prepared)
    if not found or len(found) == prepared.X.shape[1]:
        return []
    listed = "; ".join(f"{name}: {why}" for name, why in found.items())
    why = f"names of rows say nothing about new rows ({listed})"
    return [Advice("drop", [*names_in(spec.drop), *found], why)]


def _classes(prepared: Prepared, spec: Spec, train: Any) -> list[Advice]:
    counts = class_counts(prepared, train)
    if len(counts) < 2 or spec.balanced or spec.class_weights:
        return []
    share = max(counts.values()) / max(min(counts.values()), 1)
    if share < UNEQUAL:
        return []
    why = (
        f"the largest class has {share:.0f} times the rows of the smallest, which would hardly count otherwise; "
        "the accuracy over all rows may be lower"
    )
    return [Advice("balanced", True, why)]


def _validation(prepared: Prepared, spec: Spec, train: Any, n_held: int, asked: Question) -> list[Advice]:
    counts = class_counts(prepared, train)
    fewest = min(counts.values()) if counts else len(train)
    if fewest < 2:
        raise InputError(
            "A class has one row only among those to learn from, and folds need two. Leave its rows out, or join it "
            "with another class."
        )
    found: list[Advice] = []
    if n_held < FEW_HELD and asked.name != "deep" and fewest >= OUTER:
        why = f"{n_held} held-out rows say little"
        if counts and n_held:
            why += f" (an accuracy is known to about ± {0.98 / np.sqrt(n_held):.2f} at worst)"
        found.append(Advice("nested", OUTER, f"{why}; outer folds score the whole choice on every row"))
    return found
