"""The questions that learners answer, each of which a class names, and what a careful or a quick run sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelweave._errors import check_known
from kernelweave.learners import LEARNERS
from kernelweave_app.runs.fitting import survival_learners
from kernelweave_app.runs.spec import DEFAULT, SURVIVAL


@dataclass(frozen=True)
class Question:
    """A question, which learners answer that have its name as their `question`.

    Attributes
    ----------
    name : str
    title : str
        The question.
    about : str
        What these learners have in common.
    usual : str
        Short name of the usual learner; `DEFAULT` stands for that of a plain fit.
    settings : mapping
        What the usual one needs beside its name.
    why : str
        Why it is the usual one.
    """

    name: str
    title: str
    about: str
    usual: str
    settings: Mapping[str, object]
    why: str


QUESTIONS = (
    Question(
        "predict",
        "How well can I predict?",
        "All kernels take part, good ones more.",
        DEFAULT,
        {},
        "the learner of a plain fit, which leaves out only kernels that agree with the target no more than chance",
    ),
    Question(
        "sources",
        "Which sources matter?",
        "Few kernels with a weight, and sources that resemble each other are treated alike.",
        "elastic-net",
        {},
        "weights are sparse, but sources that resemble each other share theirs, so that none is left out only because "
        "another one is like it",
    ),
    Question(
        "few",
        "Which few kernels are enough?",
        "As few kernels as the data allow, or as many as you say.",
        "simple",
        {},
        "weights on the simplex are zero for most kernels",
    ),
    Question(
        "columns",
        "Which columns matter inside one kernel?",
        "A width for each column or view inside one Gaussian kernel, so that interactions count too.",
        "gaussian",
        {"kernels": "linear_features"},
        "it learns a width for each column; a width of zero means that the column does not matter",
    ),
    Question(
        "deep",
        "Do combinations of kernels help?",
        "Kernels of kernels in several layers, or of what single kernels learn. Not convex: the solution is local.",
        "mlmkl",
        {"kernels": "mlmkl", "normalize": "cosine"},
        "two layers, with the kernels and the scale of its publication",
    ),
    Question(
        "closed",
        "What is found without a search?",
        "Weights by a formula or one program, then one machine: quick, and a start.",
        "alignf",
        {},
        "its weights make the combined kernel agree best with the target, in one program",
    ),
    Question(
        "radius",
        "What if kernels have no common scale?",
        "The radius of the data is part of the criterion.",
        "kl-c",
        {},
        "its criterion has the radius in it, so that a kernel gains nothing by being multiplied",
    ),
    Question(
        "baseline",
        "What do learnt weights add?",
        "Baselines: equal weights, or the best kernel alone.",
        "uniform",
        {},
        "equal weights; learnt ones have to do better than this",
    ),
)  # fmt: skip

#: Of learners that were registered by users.
OTHERS = Question("others", "Your own", "Learners that were registered here.", "", {}, "")


def question(name: str) -> Question:
    """A question by its name."""
    return {one.name: one for one in QUESTIONS}[
        check_known(name, [one.name for one in QUESTIONS], "question")
    ]


#: That of survival; its learners are those that take any loss.
OF_TIMES = Question(
    SURVIVAL,
    "When will the event happen?",
    "Cox's model with weights of kernels, or with equal ones.",
    DEFAULT,
    {},
    "the learner of a plain fit",
)


def grouped(survival: bool = False) -> list[tuple[Question, list[str]]]:
    """All learners that are registered now, each below one question; of survival those that have it."""
    if survival:
        return [(OF_TIMES, [DEFAULT, *survival_learners()])]
    # a class derived from another one does not answer its question
    asked = {name: vars(kind).get("question", "") for name, kind in LEARNERS.items()}
    found = [
        (one, list(dict.fromkeys([one.usual, *(name for name in asked if asked[name] == one.name)])))
        for one in QUESTIONS
    ]
    own = [name for name in asked if asked[name] not in {one.name for one in QUESTIONS}]
    return [*found, (OTHERS, own)] if own else found


@dataclass(frozen=True)
class Preset:
    """Settings of path and validation that belong together.

    Attributes
    ----------
    name, title, about : str
    settings : mapping
    """

    name: str
    title: str
    about: str
    settings: Mapping[str, object]


#: A plain fit chooses by 5 folds of its own; learners that are named have a path.
PRESETS = (
    Preset(
        "quick",
        "Quick",
        "A first look.",
        {"alphas": "8", "Cs": "8", "cv": 3, "repeats": 1, "nested": 0, "rule": "min", "splits": "k-fold"},
    ),
    Preset(
        "careful",
        "Careful",
        "The choice is assessed by outer folds that it has not seen.",
        {"alphas": "30", "Cs": "30", "cv": 5, "repeats": 1, "nested": 5, "rule": "min", "splits": "k-fold"},
    ),
    Preset(
        "paper",
        "Paper",
        "For numbers that are published: more folds, and the simplest model within one standard error.",
        {"alphas": "30", "Cs": "30", "cv": 10, "repeats": 1, "nested": 10, "rule": "1se", "splits": "k-fold"},
    ),
)  # fmt: skip
#: What belongs to a plain fit: with other values it would be a path.
PLAIN = {"alphas": "30", "Cs": "30", "cv": 5, "repeats": 1, "rule": "min", "splits": "k-fold"}


def preset_settings(name: str, method: str) -> dict[str, object]:
    """What a preset sets with a learner; quick and careful runs of a plain fit stay plain fits."""
    known = {one.name: one for one in PRESETS}
    found = dict(known[check_known(name, known, "preset")].settings)
    return {**found, **PLAIN} if method == DEFAULT and name != "paper" else found
