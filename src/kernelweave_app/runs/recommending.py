"""What to begin with on a table: learner and settings, each with the reason for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelweave._checks import memory_budget
from kernelweave._drawing import rounded
from kernelweave._errors import InputError
from kernelweave._forms import names_in, numbered
from kernelweave.estimators.sources import TOO_MANY_ROWS, TOO_MANY_TILES
from kernelweave.views.groups import AUTO
from kernelweave_app.runs.doubts import doubts_of_table
from kernelweave_app.runs.fitting import OF_PATHS, chosen, unused_settings
from kernelweave_app.runs.further_views import Tables
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.preparing import Prepared, Rows, prepare, split
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
    if spec.survival:
        raise InputError(
            "Learners are recommended for classes and numbers, not for survival. Fit with the learner of a plain fit, "
            "whose report has equal weights beside it."
        )
    asked = question(about)
    # the settings of the table and the kernels; those of learner and path at their defaults
    fresh = {name: Spec.model_fields[name].default for name in OF_PATHS if name != "group"}
    base = spec.model_copy(update={**fresh, "method": DEFAULT, "learner_params": {}, "nested": 0})
    tolerant = {"missing": "impute"} if base.missing == "error" else {}
    prepared = prepare(data, base.model_copy(update=tolerant))
    train, test = split(prepared, base)
    advice = _advise(asked, base, prepared, train, len(test))
    found = base.model_copy(update={one.setting: one.value for one in advice})
    now = chosen(found, prepared.task)
    if unused_settings(now):
        found = found.model_copy(update={"learner_params": {}})
    warnings = [one.sentence for one in doubts_of_table(prepare(data, found)).values()]
    if asked.name == "columns" and prepared.X.shape[1] > MANY_COLUMNS:
        many = f"{prepared.X.shape[1]} columns are many for one width each"
        warnings.insert(0, f"{many}: look at the time below, or choose columns.")
    return Recommendation(asked, _facts(prepared, len(train), len(test)), advice, found, now.method, warnings)


def _facts(prepared: Prepared, n_train: int, n_held: int) -> list[str]:
    n, columns = len(prepared.y), prepared.X.shape[1]
    found = [f"{numbered(n, 'row')}, {numbered(columns, 'column')}; {prepared.said}"]
    if prepared.views:
        found.append(f"{numbered(len(prepared.views), 'view')}: {', '.join(list(prepared.views)[:6])}")
    if prepared.n_missing:
        cells = prepared.frame.size
        share = rounded(prepared.n_missing / cells, cells, "percent")
        found.append(f"{numbered(prepared.n_missing, 'missing cell')} ({share})")
    counts = _class_counts(prepared, slice(None))
    if counts:
        low, high = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        shown = f"from {counts[low]} ({low}) to {counts[high]} ({high}) rows"
        shown = "equally frequent" if counts[low] == counts[high] else shown
        found.append(f"{len(counts)} classes, {shown}")
    return [*found, f"{numbered(n_train, 'row')} to learn from, {n_held} held out"]


def _class_counts(prepared: Prepared, rows: Any) -> dict[str, int]:
    """Rows of each class; none for numbers and for several labels."""
    if prepared.task == "regression" or prepared.names:
        return {}
    names, counts = np.unique(np.asarray(prepared.y)[rows].astype(str), return_counts=True)
    return {str(name): int(count) for name, count in zip(names, counts, strict=True)}


def _advise(asked: Question, spec: Spec, prepared: Prepared, train: Rows, n_held: int) -> list[Advice]:
    """The rules, in the order of a form."""
    plain = plain_kernels(spec.kernels)
    found: list[Advice] = []
    if asked.name == "predict":
        why = f"{asked.why}; here it is {chosen(spec, prepared.task).method}"
        why += _features(spec, prepared, len(train))
        found.append(Advice("method", DEFAULT, why if plain else "the usual learner for kernels of your own"))
    else:
        found.append(Advice("method", asked.usual, asked.why))
        if plain and not prepared.views:
            why = "the kernels that this learner is made for"
            found += [Advice(name, value, why) for name, value in asked.settings.items()]
    if asked.name == "sources" and prepared.suggested:
        listed = ", ".join(
            f"{view} ({numbered(len(of), 'column')})" for view, of in prepared.suggested.items()
        )
        found.append(Advice("views", AUTO, f"by their names the columns are of several sources: {listed}"))
    # views that were given name their columns themselves
    names = {} if spec.views else prepared.row_names
    if names and len(names) < prepared.X.shape[1]:
        listed = "; ".join(f"{name}: {why}" for name, why in names.items())
        why = f"row identifiers say nothing about new rows ({listed})"
        found.append(Advice("drop", [*names_in(spec.drop), *names], why))
    if spec.missing == "error" and prepared.n_missing:
        why = "keeps all rows: numbers become the mean of the training rows, categories the most frequent one"
        found.append(Advice("missing", "impute", why))
        if len(prepared.views) > 1 and spec.missing_views == "error":
            why = "kernels of a missing view are predicted from the others"
            found.append(Advice("missing_views", "complete", why))
    counts = _class_counts(prepared, train)
    fewest, most = (min(counts.values()), max(counts.values())) if counts else (len(train), len(train))
    if len(counts) > 1 and most >= UNEQUAL * fewest and not (spec.balanced or spec.class_weights):
        why = (
            f"the largest class has {most / fewest:.0f} times the rows of the smallest, which would hardly count "
            "otherwise; the accuracy over all rows may be lower"
        )
        found.append(Advice("balanced", True, why))
    if fewest < 2:
        raise InputError(
            "A class has one row only among those to learn from, and folds need two. Leave its rows out, or join it "
            "with another class."
        )
    if n_held < FEW_HELD and asked.name != "deep" and fewest >= OUTER:
        why = f"{n_held} held-out rows say little"
        if counts and n_held:
            why += f" (an accuracy is known to within {0.98 / np.sqrt(n_held):.2f} at worst)"
        found.append(Advice("nested", OUTER, f"{why}; outer folds score the whole choice on every row"))
    return found


def _features(spec: Spec, prepared: Prepared, n: int) -> str:
    """That features take the place of kernels, and why; empty where kernels stay."""
    if spec.approximation != "auto" or isinstance(prepared.X, Tables) or n <= TOO_MANY_TILES:
        return ""
    kernels = max(1, len(prepared.views)) * USUAL_KERNELS
    needed, budget = kernels * 4.0 * n * n, memory_budget(spec.max_memory)
    if needed <= budget and n <= TOO_MANY_ROWS:
        return ""
    why = f"kernels of {n} rows take long"
    if needed > budget:
        why = f"about {kernels} kernels of {n} rows need {needed / 1e9:.1f} GB, and {budget / 1e9:.1f} GB may be used"
    return f"; {why}: features take their place, and time grows with the rows and not their square"
