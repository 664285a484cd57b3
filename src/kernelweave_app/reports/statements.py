"""What was found in plain sentences, each with the numbers behind it and where they stand in the file of evidence."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelweave.inspection.stability import STABLE
from kernelweave_app.reports.evidence import FEWEST_ROWS, FEWEST_TRAINING, MEAN, MOST_FREQUENT

if TYPE_CHECKING:
    from kernelweave._types import Tree

#: Questions in the order of a page.
TOPICS = {
    "score": "How good are the predictions?",
    "baseline": "Better than simple rules?",
    "which": "Which sources matter?",
    "sure": "How sure is that?",
    "distrust": "What to distrust",
}
#: The interval of a mean over folds.
CORRECTED = " (95 % interval {low:.3f} to {high:.3f}, corrected for rows in common)"
#: Sources that are named one by one.
MOST_SOURCES = 3
#: Held-out rows below which all intervals are wide: that of an accuracy of 80 % is 0.28 wide for 30 rows.
FEWEST_HELD = 30
#: p-values below which a difference is called one.
SMALL = 0.05

Source = tuple[str | int, ...]


@dataclass(frozen=True)
class Cited:
    """A number in a sentence.

    Attributes
    ----------
    source : tuple of str or int
        Keys in the file of evidence, outermost first.
    value : float
        As in the file.
    shown : str
        As in the sentence.
    """

    source: Source
    value: float
    shown: str


@dataclass(frozen=True)
class Statement:
    """A sentence with its numbers.

    Attributes
    ----------
    topic : str
        One of `TOPICS`.
    sentence : str
    numbers : tuple of Cited
    """

    topic: str
    sentence: str
    numbers: tuple[Cited, ...]


def look_up(tree: Any, source: Source) -> Any:
    """An entry of the evidence; None where there is none."""
    for key in source:
        if isinstance(tree, dict):
            tree = tree.get(key)
        elif isinstance(tree, list) and isinstance(key, int) and key < len(tree):
            tree = tree[key]
        else:
            return None
    return tree


class _Writer:
    """Collects sentences whose numbers are looked up."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.said: list[Statement] = []

    def say(
        self,
        topic: str,
        text: str,
        words: dict[str, str] | None = None,
        interval: str = "",
        /,
        **sources: Source,
    ) -> None:
        """Add a sentence, unless a number that it needs is missing; without an interval `interval` is left out."""
        if any(look_up(self.tree, sources[end]) is None for end in ("low", "high") if end in sources):
            interval = ""
            sources = {name: source for name, source in sources.items() if name not in ("low", "high")}
        text = text.replace("{interval}", interval)
        values = {name: look_up(self.tree, source) for name, source in sources.items()}
        if any(value is None for value in values.values()):
            return
        formats = {name: form for _, name, form, _ in string.Formatter().parse(text) if name}
        cited = tuple(
            Cited(source, float(values[name]), format(values[name], formats[name] or ""))
            for name, source in sources.items()
            if name in formats
        )
        self.said.append(Statement(topic, text.format(**values, **(words or {})), cited))


def statements(tree: Tree) -> list[Statement]:
    """Sentences about a fitted model: how good, against what, which sources, how sure, what to distrust.

    Parameters
    ----------
    tree : dict
        Of `gather`, with what was computed later: "permutation", "sources", "omission", "stability", further
        "baselines".

    Returns
    -------
    list of Statement
    """
    out = _Writer(tree)
    _score(out)
    _baselines(out)
    _sources(out)
    _sure(out)
    _distrust(out)
    order = list(TOPICS)
    return sorted(out.said, key=lambda one: order.index(one.topic))


def _score(out: _Writer) -> None:
    tree = out.tree
    held: Source = ("held out",)
    if tree.get("held out"):
        if tree["task"] == "classification":
            own = (*held, "accuracy")
            out.say(
                "score",
                "Of {n:d} held-out rows, which the model had not seen, {v:.1%} are predicted right{interval}.",
                None,
                " (95 % interval {low:.1%} to {high:.1%})",
                **_ends(own),
            )
            area = (*held, "ROC AUC")
            out.say(
                "score",
                "Of two rows of different classes the model ranks the right one higher with a chance of {v:.3f} "
                "(ROC AUC{interval}).",
                None,
                ", 95 % interval {low:.3f} to {high:.3f}",
                **{k: v for k, v in _ends(area).items() if k != "n"},
            )
            found = [
                name for name, one in tree.get("classes", {}).items() if one["recall"]["value"] is not None
            ]
            if found:
                worst = min(found, key=lambda name: tree["classes"][name]["recall"]["value"])
                out.say(
                    "score",
                    "Least often found is class {name}: {v:.1%} of its {n:d} held-out rows{interval}.",
                    {"name": worst},
                    " ({low:.1%} to {high:.1%})",
                    **_ends(("classes", worst, "recall")),
                )
        else:
            out.say(
                "score",
                "On {n:d} held-out rows, which the model had not seen, R^2 is {v:.3f}{interval}: the share of the "
                "variance of the target that the predictions explain.",
                None,
                " (95 % interval {low:.3f} to {high:.3f})",
                **_ends((*held, "R^2")),
            )
            out.say(
                "score",
                "Predictions are off by {v:.4g} on average{interval}, in units of the target.",
                None,
                " (95 % interval {low:.4g} to {high:.4g})",
                **{k: v for k, v in _ends((*held, "MAE")).items() if k != "n"},
            )
    for name in tree.get("nested", {}):
        if name in ("accuracy", "R^2"):
            out.say(
                "score",
                "Nested cross-validation, which repeats the whole fit on {n:d} parts of the rows, gives a mean {name} "
                "of {v:.3f}{interval}.",
                {"name": name},
                CORRECTED,
                **_ends(("nested", name)),
            )
    if "folds" in tree:
        out.say(
            "score",
            "The mean {name} over {n:d} folds is {v:.3f}{interval}; it chose the regularisation parameter, so it is "
            "somewhat too good.",
            {"name": tree["folds"]["score"]},
            CORRECTED,
            **_ends(("folds",)),
        )


def _ends(source: Source) -> dict[str, Source]:
    return {"v": (*source, "value"), "low": (*source, "low"), "high": (*source, "high"), "n": (*source, "n")}


def _baselines(out: _Writer) -> None:
    classes = out.tree["task"] == "classification"
    for name, one in out.tree.get("baselines", {}).items():
        source: Source = ("baselines", name)
        p = look_up(one, ("test", "p_value"))
        difference = look_up(one, ("test", "difference"))
        if p is None or difference is None:
            continue
        # of errors less is better
        better = difference > 0 if classes else difference < 0
        verdict = ("is better" if better else "is worse") if p < SMALL else "may be no different"
        words = {"name": name, "verdict": verdict, "test": str(one["test"]["test"])}
        numbers: dict[str, Source] = {"p": (*source, "test", "p_value")}
        if classes:
            always = name.startswith(MOST_FREQUENT)
            out.say(
                "baseline",
                "{name} is right in {v:.1%} of the held-out rows; the model {verdict} (p = {p:.2g}, {test}).",
                {**words, "name": f"The rule of always predicting {name}," if always else name.capitalize()},
                v=(*source, "scores", "accuracy", "value"),
                **numbers,
            )
        else:
            out.say(
                "baseline",
                "{name} has a root mean squared error of {v:.4g}, the model {own:.4g}; the model {verdict} "
                "(p = {p:.2g}, {test}).",
                {**words, "name": f"Predicting {name}" if name == MEAN else name.capitalize()},
                v=(*source, "scores", "RMSE", "value"),
                own=("held out", "RMSE", "value"),
                **numbers,
            )


def _sources(out: _Writer) -> None:
    tree = out.tree
    views = [name for name, share in tree.get("views", {}).items() if share > 0]
    stability = tree.get("stability", {}).get("views", {})
    for name in views[:MOST_SOURCES]:
        if len(tree["views"]) < 2:
            break
        text = "The kernels of {name} have {v:.1%} of the weight"
        sources: dict[str, Source] = {"v": ("views", name)}
        if name in stability:
            text += " ({low:.0%} to {high:.0%} in 95 % of {n:d} random halves of the rows)"
            sources |= {
                "low": ("stability", "views", name, "low"),
                "high": ("stability", "views", name, "high"),
            }
            sources["n"] = ("stability", "n")
        out.say("which", text + ".", {"name": _source(name)}, **sources)
    if len(views) > MOST_SOURCES:
        rest = len(views) - MOST_SOURCES
        out.said.append(
            Statement("which", f"{rest} more {'source has' if rest == 1 else 'sources have'} a weight.", ())
        )
    one = look_up(tree, ("kernels", "with a weight")) == 1
    out.say(
        "which",
        f"{{v:d}} of {{n:d}} kernels {'has' if one else 'have'} a weight.",
        v=("kernels", "with a weight"),
        n=("kernels", "all"),
    )
    losses = tree.get("sources", {}).get("views", {})
    score = "accuracy" if tree["task"] == "classification" else "R^2"
    for name in list(losses)[:MOST_SOURCES]:
        clear = losses[name]["adjusted"] < SMALL
        out.say(
            "which",
            "Where {name} is exchanged between held-out rows, {score} falls by {v:.3f} on average"
            + (
                " (p = {p:.2g}, corrected for the number of sources)."
                if clear
                else "; that may be chance (p = {p:.2g})."
            ),
            {"name": _source(name), "score": score},
            v=("sources", "views", name, "loss"),
            p=("sources", "views", name, "adjusted"),
        )

    omitted = tree.get("omission", {}).get("views", {})
    for name in list(omitted)[:MOST_SOURCES]:
        clear = omitted[name]["adjusted"] < SMALL
        own: Source = ("omission", "views", name)
        out.say(
            "which",
            "Fitted without {name}, the model has a mean {score} of {w:.3f} in place of {s:.3f} over {n:d} divisions "
            "of the rows: a loss of {v:.3f}{interval}, p = {p:.2g}"
            + ("." if clear else ": the other sources may be enough."),
            {"name": _source(name), "score": score},
            CORRECTED,
            w=(*own, "without"),
            s=("omission", "score"),
            n=("omission", "n"),
            v=(*own, "loss"),
            low=(*own, "low"),
            high=(*own, "high"),
            p=(*own, "adjusted"),
        )


def _source(name: str) -> str:
    """A source in a sentence; kernels without columns of their own have all of them."""
    return "the whole table" if name == "all" else _shown(name)


def _shown(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:59]}…"


def _sure(out: _Writer) -> None:
    tree = out.tree
    out.say(
        "sure",
        "With permuted targets {b:d} of {m:d} "
        + ("fits of everything" if look_up(tree, ("permutation", "refit")) else "permutations")
        + " score as well as the model: p = {p:.2g}.",
        b=("permutation", "as large"),
        m=("permutation", "n"),
        p=("permutation", "p_value"),
    )
    views = tree.get("stability", {}).get("views", {})
    for name in list(views)[:MOST_SOURCES]:
        if len(views) > 1:
            out.say(
                "sure",
                "A kernel of {name} has a weight in {v:.0%} of {n:d} random halves of the rows.",
                {"name": _source(name)},
                v=("stability", "views", name, "frequency"),
                n=("stability", "n"),
            )
    curve = tree.get("learning curve", {})
    sizes = curve.get("sizes", [])
    last = [curve[name][-1] for name in ("mean", "low", "high")] if curve else []
    if len(sizes) > 1 and None not in (curve["mean"][-2], *last):
        mean, low, high = last
        # a quarter of a 95 % interval is about one standard error
        clear = mean - curve["mean"][-2] > (high - low) / 4
        more = "more rows would probably help" if clear else "more rows would help little"
        out.say(
            "sure",
            "From {a:d} to {b:d} training rows the score goes from {v:.3f} to {w:.3f}: {more}.",
            {"more": more},
            a=("learning curve", "sizes", len(sizes) - 2),
            b=("learning curve", "sizes", len(sizes) - 1),
            v=("learning curve", "mean", len(sizes) - 2),
            w=("learning curve", "mean", len(sizes) - 1),
        )
    for name in tree.get("calibration", {}):
        out.say(
            "sure",
            "The Brier score of the probability of {name} is {v:.3f}; that of its share in all rows is {w:.3f}.",
            {"name": name},
            v=("calibration", name, "brier"),
            w=("calibration", name, "brier_of_share"),
        )


def _distrust(out: _Writer) -> None:
    tree = out.tree
    for k, one in enumerate(tree.get("doubts", [])):
        cited = tuple(
            Cited(("doubts", k, "numbers", name), float(value), f"{value:.3g}")
            for name, value in one["numbers"].items()
        )
        out.said.append(Statement("distrust", one["sentence"], cited))
    if tree["rows"]["training"] < FEWEST_TRAINING:
        out.say(
            "distrust",
            f"The model was learnt from {{n:d}} rows, fewer than {FEWEST_TRAINING}: another sample may give quite "
            "another one.",
            n=("rows", "training"),
        )
    if not tree["rows"]["held out"] and not tree.get("nested"):
        out.say(
            "distrust",
            "{n:d} rows were held out: there is no score of rows that played no part in the choice. Hold out a share "
            "of the rows, or use nested folds.",
            n=("rows", "held out"),
        )
    p = look_up(tree, ("permutation", "p_value"))
    if p is not None and p >= SMALL:
        none = not look_up(tree, ("permutation", "as large"))
        out.say(
            "distrust",
            "{m:d} permutations are too few: p cannot be below {p:.2g}."
            if none
            else "The score may be chance: p = {p:.2g} of the permutation test with {m:d} permutations.",
            p=("permutation", "p_value"),
            m=("permutation", "n"),
        )
    for name, one in tree.get("baselines", {}).items():
        value = look_up(one, ("test", "p_value"))
        if value is not None and value >= SMALL and name.startswith((MOST_FREQUENT, MEAN)):
            out.say(
                "distrust",
                "It is not shown that the model predicts better than {name}: p = {p:.2g}.",
                {"name": name},
                p=("baselines", name, "test", "p_value"),
            )
    if tree.get("stability", {}).get("unstable"):
        out.say(
            "distrust",
            f"{{k:d}} of the kernels with a weight {'has' if tree['stability']['unstable'] == 1 else 'have'} one in "
            f"fewer than {STABLE:.0%} of {{n:d}} random halves of the rows: other rows would select others.",
            k=("stability", "unstable"),
            n=("stability", "n"),
        )
    few = [name for name, one in tree.get("classes", {}).items() if one["recall"]["n"] < FEWEST_ROWS]
    n_held = look_up(tree, ("held out", "accuracy", "n"))
    if n_held is not None and n_held < FEWEST_HELD and not few:
        out.say(
            "distrust",
            "There are {n:d} held-out rows: intervals of scores are wide.",
            n=("rows", "held out"),
        )
