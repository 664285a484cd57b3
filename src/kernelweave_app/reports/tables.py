"""Tables of evidence, for pages, and as CSV and LaTeX for papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelweave._types import DataFrame, Tree

Cell = str | float | int | None

#: What stands in the place of characters that LaTeX reads as commands.
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


@dataclass(frozen=True)
class Table:
    """A table with a name for files.

    Attributes
    ----------
    name, title : str
    heads : list of str
    rows : list of lists of texts and numbers
    note : str
        What a reader has to know.
    """

    name: str
    title: str
    heads: list[str]
    rows: list[list[Cell]]
    note: str = ""

    def shown(self, most: int | None = None) -> list[list[str]]:
        """Cells as texts, numbers with four digits."""
        return [[_shown(cell) for cell in row] for row in self.rows[:most]]

    def frame(self) -> DataFrame:
        """The table with all digits."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=self.heads)

    def latex(self) -> str:
        r"""The table in LaTeX, with the rules of the package booktabs."""
        columns = "".join("r" if k and self._is_numeric(k) else "l" for k in range(len(self.heads)))
        lines = [
            f"% {_escaped(self.title)}. Needs \\usepackage{{booktabs}}.",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(map(_escaped, self.heads)) + r" \\",
            r"\midrule",
            *(" & ".join(_escaped(cell) for cell in row) + r" \\" for row in self.shown()),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"

    def _is_numeric(self, column: int) -> bool:
        return all(not isinstance(row[column], str) for row in self.rows)


def _shown(cell: Cell) -> str:
    if cell is None:
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _escaped(text: str) -> str:
    # a line break would end a row
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


ENDS = ["value", "low", "high"]
OF_95 = "Low and high are the ends of 95 % intervals"


def _interval(one: Tree) -> list[Cell]:
    return [one[name] for name in ENDS]


def evidence_tables(tree: Tree) -> list[Table]:
    """All tables of the evidence of a run.

    Parameters
    ----------
    tree : dict
        Of `kernelweave_app.reports.evidence.gather`, and what was computed later.

    Returns
    -------
    list of Table
    """
    made = [_scores(tree), _classes(tree), _baselines(tree), _sources(tree)]
    made += [_omission(tree), *_stability(tree), _curve(tree), *_calibration(tree)]
    return [table for table in made if table is not None]


def _scores(tree: Tree) -> Table | None:
    rows: list[list[Cell]] = []
    for name, one in tree.get("held out", {}).items():
        rows.append([f"{name}, held out", *_interval(one), one["n"], one["method"]])
    folds = tree.get("folds")
    if folds:
        rows.append([f"{folds['score']}, folds", *_interval(folds), folds["n"], folds["method"]])
    for name, one in tree.get("nested", {}).items():
        rows.append([f"{name}, nested", *_interval(one), one["n"], one["method"]])
    heads = ["score", *ENDS, "rows or folds", "interval by"]
    return Table("scores", "Scores", heads, rows, f"{OF_95}.") if rows else None


def _classes(tree: Tree) -> Table | None:
    rows: list[list[Cell]] = []
    for name, one in tree.get("classes", {}).items():
        rows.append([name, one["recall"]["n"], *_interval(one["recall"]), *_interval(one["precision"])])
    heads = ["class", "rows", "recall", "low", "high", "precision", "low of precision", "high of precision"]
    note = f"{OF_95} (Wilson)."
    return Table("classes", "Held-out rows by class", heads, rows, note) if rows else None


def _baselines(tree: Tree) -> Table | None:
    score = "accuracy" if tree.get("task") == "classification" else "R^2"
    rows: list[list[Cell]] = []
    own = tree.get("held out", {}).get(score)
    if own:
        rows.append(["this model", *_interval(own), None, None, None, None])
    tests = set()
    for name, one in tree.get("baselines", {}).items():
        found, test = one["scores"].get(score), one["test"]
        tests.add(test["test"])
        if found:
            rows.append(
                [name, *_interval(found), test["difference"], test["low"], test["high"], test["p_value"]]
            )
    if len(rows) < 2:
        return None
    what = "accuracy" if score == "accuracy" else "mean squared error"
    heads = ["predictions by", score, "low", "high", "difference", "from", "to", "p"]
    note = f"{OF_95}. Difference: of {what}, this model minus the other ({', '.join(sorted(tests))})."
    return Table("baselines", "Against baselines on the same held-out rows", heads, rows, note)


def _sources(tree: Tree) -> Table | None:
    found = tree.get("sources", {})
    rows: list[list[Cell]] = [
        [name, one["loss"], one["low"], one["high"], one["p"], one["adjusted"]]
        for name, one in found.get("views", {}).items()
    ]
    heads = ["source", "loss", "low", "high", "p", "p, corrected"]
    note = (
        f"Loss of the score where the source is exchanged between held-out rows, its 2.5 and 97.5 % points over "
        f"{found.get('n', 0)} permutations; corrected for the number of sources (Holm)."
    )
    return Table("sources", "Sources exchanged between held-out rows", heads, rows, note) if rows else None


def _omission(tree: Tree) -> Table | None:
    found = tree.get("omission", {})
    keys = ("without", "loss", "low", "high", "p", "adjusted")
    rows: list[list[Cell]] = [
        [name, *(one[key] for key in keys)] for name, one in found.get("views", {}).items()
    ]
    if not rows:
        return None
    heads = ["left out", "score", "loss", "low", "high", "p", "p, corrected"]
    note = (
        f"Mean score over {found['n']} divisions of the rows when the model is fitted without the source; with all it "
        f"is {found['score']:.4g}. {OF_95} of the loss, of the t-test corrected for rows in common; p-values corrected "
        "for the number of sources (Holm)."
    )
    return Table("omission", "Fits without each source", heads, rows, note)


def _stability(tree: Tree) -> list[Table]:
    found = tree.get("stability")
    if not found:
        return []
    note = f"Over {found['n']} random halves of the training rows, 2.5 and 97.5 % points."
    views: list[list[Cell]] = [
        [name, one["share"], one["low"], one["high"], one["frequency"]]
        for name, one in found["views"].items()
    ]
    of = ["class"] if len(found["outputs"]) > 1 else []
    kernels: list[list[Cell]] = []
    places = [(m, k) for m in range(len(found["names"])) for k in range(len(found["outputs"]))]
    for m, k in sorted(places, key=lambda at: -found["weights"][at[0]][at[1]]):
        values = [found[key][m][k] for key in ("weights", "low", "high", "frequency")]
        kernels.append([found["names"][m], *([found["outputs"][k]] if of else []), *values])
    ends = ["low", "high", "selected in"]
    return [
        Table("stability-sources", "Stability of sources", ["source", "share", *ends], views, note),
        Table("stability", "Stability of kernel weights", ["kernel", *of, "weight", *ends], kernels, note),
    ]


def _curve(tree: Tree) -> Table | None:
    found = tree.get("learning curve")
    if not found:
        return None
    rows: list[list[Cell]] = [list(row) for row in _columns(found, ("sizes", "mean", "low", "high"))]
    note = f"Means over {found['n']} folds; intervals corrected for rows in common."
    heads = ["training rows", str(found["score"]), "low", "high"]
    return Table("learning-curve", "Learning curve", heads, rows, note)


def _columns(found: Tree, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(found[name] for name in names), strict=True))


def _calibration(tree: Tree) -> list[Table]:
    made = []
    for k, (name, found) in enumerate(tree.get("calibration", {}).items()):
        rows: list[list[Cell]] = [
            list(row) for row in _columns(found, ("predicted", "observed", "low", "high", "counts"))
        ]
        note = f"Brier score {found['brier']:.4g}; of the share of the class {found['brier_of_share']:.4g}."
        title = f"Probability of {name} and share of rows"
        heads = ["probability", "share", "low", "high", "rows"]
        file = "calibration" if not k else f"calibration-{k + 1}"
        made.append(Table(file, title, heads, rows, note))
    return made
