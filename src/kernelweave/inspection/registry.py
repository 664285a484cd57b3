"""Findings: numbers about a model with their intervals and sentences, declared once and shown everywhere.

A statistic becomes a finding by one declaration::

    @finding("gini", title="Concentration of the weights", needs=("model",))
    def _gini(basis):
        value = ...
        return Finding({"Gini index": Interval(value)}).says("which", "The Gini index is {v:.2f}.", v=at("Gini index"))

The terminal, reports, pages and files of evidence show all findings, without a word about any single one.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from typing import Annotated, Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from kernelweave._checks import InputError, check_known, warn_user
from kernelweave._drawing import OF_ROWS, percent, rounded, score_form, score_text
from kernelweave._errors import needed
from kernelweave._extensions import load_extensions
from kernelweave._parameters import InstanceOf, Texts, checked, renamed
from kernelweave._types import DataFrame, Features, Index, Splits, Tree
from kernelweave.estimators import BaseMKL
from kernelweave.inspection.arguments import Jobs, Model, OptionalTargets, Seed
from kernelweave.inspection.held import IN_FIT, HeldOut, rows_in_fit
from kernelweave.inspection.refitting import Rows

T = TypeVar("T")

__all__ = ["Basis", "Finding", "Interval", "Table", "finding", "findings"]

#: Questions that findings answer, in the order in which they are shown.
QUESTIONS = {
    "score": "How good are the predictions?",
    "baseline": "Better than simple rules?",
    "which": "Which sources matter?",
    "sure": "How sure is that?",
    "distrust": "What to distrust",
    "missing": "What was missing?",
}
#: p-values below which a difference is called one.
SMALL = 0.05
#: Gains of accuracy or R^2 that count as none.
MARGIN = 0.02
#: The fraction of samples inside an interval.
LEVEL = 0.95
#: The method of intervals of mean differences over folds.
CORRECTED = "corrected t"
#: Sources that are named one by one.
MOST_NAMED = 3

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Interval:
    """A number with its interval.

    Attributes
    ----------
    value : float
        The number itself, in its own unit.
    low, high : float
        Ends of the interval; NaN where there is none.
    method : str
        How the interval is made, for tables: here "Wilson" for fractions of rows, "Jeffreys" for means of recalls,
        "Newcombe" for areas under curves, "delta method" for other scores of rows and "corrected t" for differences
        between scores over folds.
    n : int
        Rows, or folds.
    """

    value: float
    low: float = float("nan")
    high: float = float("nan")
    method: str = ""
    n: int = 0

    @property
    def cells(self) -> list[float | int | None]:
        """Value and ends in a table."""
        return [number(self.value), number(self.low), number(self.high)]

    def in_words(self, name: str, n_rows: int) -> str:
        """The ends of a score of so many rows, "95 % interval 0.84 to 0.97"; empty where there are none.

        Parameters
        ----------
        name : str
            Name of the score, which decides how many digits are shown.
        n_rows : int
            Rows behind the score, likewise.
        """
        if not np.isfinite(self.low):
            return ""
        low, high = (score_text(name, end, n_rows) for end in (self.low, self.high))
        return f"{percent(LEVEL)} interval {low} to {high}"


@dataclass(frozen=True)
class Table:
    """A table of a finding.

    Attributes
    ----------
    name, title : str
        A name for files, and a heading.
    heads : list of str
        Headings of the columns.
    rows : list of lists of texts and numbers
        Cells of each row, one for each heading; None for an empty cell.
    note : str
        What a reader has to know.
    formats : dict of str to str
        Formats of the numbers of a column by its head; default four digits. "score@37" is one of
        `kernelweave._drawing.rounded` with the digits of 37 rows, "score@rows" with those of the number in the column
        "rows", and "name@rows" goes by the score that the first column names.
    brief : bool
        Whether it is for a terminal too.
    """

    name: str
    title: str
    heads: list[str]
    rows: Sequence[Sequence[object]]
    note: str = ""
    formats: Mapping[str, str] = field(default_factory=dict)
    brief: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        columns: Mapping[str, object],
        note: str = "",
        formats: Mapping[str, str] | None = None,
        *,
        brief: bool = False,
    ) -> Self:
        """A table from its columns.

        Parameters
        ----------
        name, title : str
            A name for files, and a heading.
        columns : dict of str to sequence
            The cells of each column by its heading, one for each row.
        note : str, optional
            What a reader has to know.
        formats : dict of str to str, optional
            Formats of the numbers of a column by its heading, as in the attribute `formats`.
        brief : bool, default=False
            Whether the table is for a terminal too.
        """
        rows = [list(row) for row in zip(*map(plain, columns.values()), strict=True)]
        return cls(name, title, list(columns), rows, note, formats or {}, brief)

    @classmethod
    def of_scores(cls, name: str, title: str, found: Mapping[str, Interval], note: str) -> Self:
        """A table of scores with their intervals.

        Parameters
        ----------
        name, title : str
            A name for files, and a heading.
        found : dict of str to Interval
            Scores with their intervals, by their names.
        note : str
            What a reader has to know.
        """
        rows = [[label, *one.cells, one.n, one.method] for label, one in found.items()]
        formats = dict.fromkeys(("value", "low", "high"), "name@rows")
        return cls(name, title, ["score", *formats, "rows", "interval by"], rows, note, formats)

    def shown(self, most: int | None = None) -> list[list[str]]:
        """Cells as texts.

        Parameters
        ----------
        most : int, optional
            The largest number of rows; all by default.
        """
        formats = [self.formats.get(head, ".4g").partition("@") for head in self.heads]

        def text(cell: object, form: str, rows: str, row: Sequence[object]) -> str:
            if not isinstance(cell, float):
                return "–" if cell is None else str(cell)
            n = cast(int, row[self.heads.index(rows)]) if rows in self.heads else int(rows or 0)
            return shown(cell, score_form(str(row[0])) if form == "name" else form, n)

        return [
            [text(cell, form, rows, row) for cell, (form, _, rows) in zip(row, formats, strict=True)]
            for row in self.rows[:most]
        ]

    def frame(self) -> DataFrame:
        """The table with all digits."""
        pd = needed("pandas", "Data frames", "cli")
        return pd.DataFrame(self.rows, columns=self.heads)

    def latex(self) -> str:
        r"""The table in LaTeX, with the rules of the package booktabs."""
        pd = needed("pandas", "Tables in LaTeX", "cli")
        needed("jinja2", "Tables in LaTeX", "cli")
        # a line break would end a row
        texts = [[" ".join(cell.split()) for cell in row] for row in self.shown()]
        numeric = [all(not isinstance(row[k], str) for row in self.rows) for k in range(len(self.heads))]
        shown = pd.DataFrame(texts, columns=self.heads).style.hide(axis="index")
        shown = shown.format(escape="latex").format_index(escape="latex", axis="columns")
        columns = "".join("r" if k and right else "l" for k, right in enumerate(numeric))
        text = shown.to_latex(hrules=True, column_format=columns)
        text = text.replace("<", r"\textless{}").replace(">", r"\textgreater{}")
        return f"% {self.title}. Needs \\usepackage{{booktabs}}.\n{text}"


def shown(value: float, form: str, n_rows: int) -> str:
    """A number as text, in a format of Python, or in one of `rounded` with the digits of so many rows."""
    if form in OF_ROWS:
        return rounded(value, n_rows, form)
    return percent(value, int(form[1:-1])) if form.endswith("%") else format(value, form)


@dataclass(frozen=True)
class Cited:
    """A number in a sentence.

    Attributes
    ----------
    source : tuple of str or int
        Keys in the JSON form of the finding, outermost first.
    value : float
    shown : str
        As in the sentence.
    """

    source: Path
    value: float
    shown: str


@dataclass(frozen=True)
class Sentence:
    """A sentence with its numbers, under one of `QUESTIONS`."""

    topic: str
    text: str
    numbers: tuple[Cited, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What a finding decides.

    Attributes
    ----------
    question : str
    answer : {"yes", "no", "inconclusive"}
    """

    question: str
    answer: str


def decided(p_value: float, gain: float, high: float, margin: float = MARGIN) -> str:
    """Whether there is a gain: "inconclusive" is neither a significant one nor one whose interval ends below a margin.

    Examples
    --------
    >>> decided(0.001, 0.1, 0.2), decided(0.6, 0.001, 0.01), decided(0.6, 0.001, 0.2)
    ('yes', 'no', 'inconclusive')
    """
    if p_value < SMALL:
        return "yes" if gain > 0 else "no"
    return "no" if high < margin else "inconclusive"


def gained(gain: Interval) -> str:
    """The same by the ends of the interval of a gain."""
    return "yes" if gain.low > 0.0 else "no" if gain.high < MARGIN else "inconclusive"


def unsure(answer: str, what: str) -> str:
    """What follows the numbers of an answer: that a gain, or a loss, is unlikely, or that `rows` rows cannot tell."""
    if answer == "inconclusive":
        return "; {rows:d} rows cannot tell"
    return f"; a {what} of {MARGIN} is unlikely" if answer == "no" else ""


@dataclass(frozen=True)
class Finding:
    """Numbers that answer one question about a model.

    Attributes
    ----------
    values : dict of str to Interval
        By their labels.
    meaning : str
        What the numbers are, for a reader who does not know them.
    n : int or None
        Size of the sample behind them.
    sampled : str
        What was sampled, such as "held-out rows".
    coverage : float or None
        Coverage of the intervals.
    form : str
        Format of the values, such as ".1%".
    details : dict
        Further numbers, as lists and dicts that JSON has.
    tables : tuple of Table
        Tables that are shown below the sentences.
    sentences : tuple of Sentence
        What is said about the numbers, in the order in which it is shown.
    verdicts : tuple of Verdict
        What was decided, if the finding decides something.
    rows : int
        Rows that the numbers rest on, which determine their digits; 0 for those of each value.
    name, title : str
        Name and heading that are declared for this kind of finding.
    """

    values: Mapping[str, Interval] = field(default_factory=dict)
    meaning: str = ""
    n: int | None = None
    sampled: str = ""
    coverage: float | None = None
    form: str = ".4g"
    details: Tree = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    sentences: tuple[Sentence, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    rows: int = 0
    name: str = ""
    title: str = ""

    @property
    def sentence(self) -> str:
        """All sentences as one text."""
        return " ".join(one.text for one in self.sentences)

    def says(self, topic: str, text: str, words: Mapping[str, str] | None = None, /, **sources: Path) -> Self:
        """The finding with another sentence, unless a number of the sentence is NaN.

        Parameters
        ----------
        topic : str
            One of `QUESTIONS`.
        text : str
            Numbers and words in braces, as in `str.format`, or with a format of `kernelweave._drawing.rounded`;
            ``{interval:.2f}`` stands for a blank and the ends `low` and `high` in brackets, where they are known.
        words : dict of str to str, optional
            Texts for words in braces that are no numbers.
        **sources : tuple of str or int
            Where the numbers are in the JSON form of this finding (`at`, `ends`).

        Returns
        -------
        Finding

        Raises
        ------
        InputError
            No such question, or no value of this label.
        """
        check_known(topic, QUESTIONS, "topic of a sentence")
        for place, *label in sources.values():
            if place == "values":
                check_known(str(label[0]), self.values, "label of a value")
        tree = {**vars(self), "values": {label: vars(one) for label, one in self.values.items()}}
        values = {name: look_up(tree, source) for name, source in sources.items()}
        known = all(number(values.get(end)) is not None for end in ("low", "high"))
        note = ", corrected for rows in common" if values.get("method") == CORRECTED else ""
        level = percent(LEVEL if self.coverage is None else self.coverage)
        interval = rf" ({level} interval {{low:\1}} to {{high:\1}}{note})" if known else ""
        text = re.sub(r"\{interval:(.*?)\}", interval, text)
        formats = {name: form or "" for _, name, form, _ in string.Formatter().parse(text) if name}
        used = {name: value for name, value in values.items() if name in formats}
        if any(number(value) is None for value in used.values()):
            return self
        texts = {
            name: shown(value, formats[name], self._rows_of(sources[name])) for name, value in used.items()
        }
        cited = tuple(Cited(sources[name], float(value), texts[name]) for name, value in used.items())
        plainly = re.sub(r"\{(\w+):[^{}]*\}", r"{\1}", text)
        said = Sentence(topic, plainly.format(**texts, **(words or {})), cited)
        return replace(self, sentences=(*self.sentences, said))

    def decides(
        self,
        topic: str,
        question: str,
        answer: str,
        text: str,
        words: Mapping[str, str] | None = None,
        /,
        **sources: Path,
    ) -> Self:
        """The finding with a verdict, and a sentence of question, answer and the numbers behind it.

        Without a change if a number of the sentence is NaN.

        Parameters
        ----------
        topic : str
            One of `QUESTIONS`.
        question : str
            The question, which may have `words` in braces.
        answer : {"yes", "no", "inconclusive"}
            The answer.
        text : str
            What follows the answer, with numbers and words in braces as in `says`.
        words : dict of str to str, optional
            Texts for words in braces that are no numbers.
        **sources : tuple of str or int
            Where the numbers are in the JSON form of this finding (`at`, `ends`).

        Returns
        -------
        Finding
        """
        made = self.says(topic, f"{question} {answer.capitalize()}: {text}", words, **sources)
        if made is self:
            return self
        verdict = Verdict(question.format(**(words or {})), answer)
        return replace(made, verdicts=(*self.verdicts, verdict))

    def _rows_of(self, source: Path) -> int:
        """Rows behind a number."""
        own = self.values[str(source[1])].n if source[0] == "values" else 0
        return self.rows or own or self.n or 0

    def warns(self, text: str, numbers: Mapping[str, float]) -> Self:
        """The finding with a reason for doubt and the numbers behind it.

        Parameters
        ----------
        text : str
            The reason, one sentence or more.
        numbers : dict of str to float
            The numbers in it by their names, under which they become details of the finding.
        """
        details = {**self.details, "doubt": {**self.details.get("doubt", {}), **numbers}}
        cited = tuple(
            Cited(("details", "doubt", name), float(value), f"{value:.3g}") for name, value in numbers.items()
        )
        said = Sentence("distrust", text, cited)
        return replace(self, details=details, sentences=(*self.sentences, said))

    def to_json(self) -> Tree:
        """The finding as dicts, lists, texts and numbers; NaN as None."""
        return plain(asdict(self))

    @classmethod
    def from_json(cls, tree: Tree) -> Self:
        """The finding that `to_json` gave.

        Parameters
        ----------
        tree : dict
            What `to_json` returned.
        """
        values = {
            label: Interval(**cast(Any, {k: float("nan") if v is None else v for k, v in one.items()}))
            for label, one in tree["values"].items()
        }
        sentences = tuple(
            Sentence(
                one["topic"],
                one["text"],
                tuple(Cited(**{**n, "source": tuple(n["source"])}) for n in one["numbers"]),
            )
            for one in tree["sentences"]
        )
        tables = tuple(Table(**one) for one in tree["tables"])
        verdicts = tuple(Verdict(**one) for one in tree.get("verdicts", ()))
        return cls(
            **{**tree, "values": values, "sentences": sentences, "tables": tables, "verdicts": verdicts}
        )


def at(label: str, part: str = "value") -> Path:
    """Where a value of a finding is in its JSON form, for `Finding.says`.

    Parameters
    ----------
    label : str
        Of the value.
    part : {"value", "low", "high", "n", "method"}, default="value"

    Examples
    --------
    >>> at("accuracy", "low")
    ('values', 'accuracy', 'low')
    """
    return "values", label, part


def ends(label: str) -> dict[str, Path]:
    """Where a value is, the ends of its interval, its number of rows and its method, for `Finding.says`.

    Parameters
    ----------
    label : str
        Of the value.

    Examples
    --------
    >>> list(ends("accuracy"))
    ['v', 'low', 'high', 'n', 'method']
    """
    return {"v": at(label), **{part: at(label, part) for part in ("low", "high", "n", "method")}}


def intervals_of(
    names: Sequence[str], value: Any, low: Any, high: Any, n: int = 0, method: str = ""
) -> dict[str, Interval]:
    """Numbers with their intervals by their labels."""
    columns = zip(names, value, low, high, strict=True)
    return {str(name): Interval(float(v), float(a), float(b), method, n) for name, v, a, b in columns}


def look_up(tree: Any, source: Sequence[str | int]) -> Any:
    """An entry of nested dicts and lists; None where there is none."""
    for key in source:
        if isinstance(tree, dict):
            tree = tree.get(key)
        elif isinstance(tree, list | tuple) and isinstance(key, int) and key < len(tree):
            tree = tree[key]
        else:
            return None
    return tree


def number(value: Any) -> float | int | None:
    """A number that JSON has; None for NaN and infinity."""
    if value is None or not np.isfinite(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def plain(tree: Any) -> Any:
    """Nested dicts and sequences as JSON has them."""
    if isinstance(tree, Mapping):
        return {str(key): plain(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple | np.ndarray):
        return [plain(value) for value in (tree.tolist() if isinstance(tree, np.ndarray) else tree)]
    return number(tree) if isinstance(tree, float | np.number) else tree


def named(source: str) -> str:
    """A source in a sentence; kernels without columns of their own have all of them."""
    return "the whole table" if source == "all" else source if len(source) <= 60 else f"{source[:59]}…"


def enumerated(parts: Sequence[str]) -> str:
    """Parts of a sentence one after another, with "and" before the last."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


# ---- what findings are computed from ---------------------------------------------------------------

#: The value of what is not there. A finding is computed only if what it needs is there, so that types do not name it.
ABSENT: Any = None


def only(kind: type[T], value: object) -> T:
    """The value if it is of this kind, and else `ABSENT`."""
    return value if isinstance(value, kind) else cast("T", ABSENT)


@dataclass(frozen=True, kw_only=True)
class Basis:
    """What findings are computed from, as far as it is there.

    Attributes
    ----------
    model : fitted estimator
        The model that is described.
    held : HeldOut
        Rows with targets that were not in the fit, and their predictions.
    nested : sequence of HeldOut
        Rows predicted by models of outer folds, one for each division of the rows.
    held_times, nested_times : HeldTimes
        Rows with censored times that were not fitted, and training rows predicted by models of outer folds.
    table : object
        What the rows were read from, for findings of an application about its tables.
    training, held_rows, rows : Rows
        The rows that were fitted, those that were not, and all rows.
    estimator : estimator
        Not fitted, as it is to be fitted again.
    folds, inner : callable
        Make folds of `rows` for scores, and folds of `training`: a number, a splitter or pairs of rows.
    divisions : callable
        Makes a number of random divisions of `rows`.
    others : dict of str to callable
        Fits of other models; each returns its predictions of the held-out rows.
    count : int
        Repetitions; 0 for the usual number of a finding.
    refit : bool
        Whether permutations repeat the whole fit.
    max_false : float
        False selections of sources that are tolerated, on average.
    random_state : int
        Number from which random numbers follow.
    n_jobs : int, optional
        Fits at the same time.
    report : callable, optional
        Called with a text after every step; a true value ends.
    """

    model: BaseMKL = ABSENT
    held: HeldOut = ABSENT
    nested: Sequence[HeldOut] = ABSENT
    held_times: Sized = ABSENT
    nested_times: Sized = ABSENT
    table: object = ABSENT
    training: Rows = ABSENT
    held_rows: Rows = ABSENT
    rows: Rows = ABSENT
    estimator: BaseMKL = ABSENT
    folds: Callable[[], Splits] = lambda: 5
    inner: Callable[[], Splits] = lambda: 5
    divisions: Callable[[int], Sequence[tuple[Index, Index]]] = ABSENT
    others: Mapping[str, Callable[[], NDArray[np.generic]]] = ABSENT
    count: int = 0
    refit: bool = True
    max_false: float = 1.0
    random_state: int = 0
    n_jobs: int | None = None
    report: Callable[[str], bool] | None = None

    @property
    def how(self) -> Tree:
        """How to repeat fits."""
        return {"n_jobs": self.n_jobs, "random_state": self.random_state, "report": self.report}


Found = dict[str, Finding]


#: Whose findings cannot be declared again.
PACKAGES = ("kernelweave", "kernelweave_app", "kernelweave_papers")
#: All findings by their names, in the order in which they are shown.
REGISTRY: dict[str, finding] = {}
#: What findings need, in words.
WORDS = {
    "held": "held-out rows with their predictions (hold out a fraction of the rows)",
    "held_rows": "held-out rows (hold out a fraction of the rows, or pass `X` and `y`)",
    "training": "the training rows (pass `training`)",
    "rows": "the rows to fit again (pass `training`)",
    "others": "held-out rows of one target and fits of simpler models",
    "nested": "outer folds",
}
#: Repetitions at most.
MOST_REPEATED = 10_000


@dataclass
class finding:
    """Declare a finding: the one place that makes its numbers, its sentences and its table.

    Parameters
    ----------
    name : str
        In files and settings.
    title : str
        A heading.
    needs : tuple of str
        Attributes of `Basis` without which it cannot be computed.
    about : str, default=""
        For a finding that takes time: the question, and how it is answered. Findings without it are computed with every
        fit.
    counted : str, default=""
        What is repeated, if the number of repetitions can be set.
    usual : int, default=0
        Number of repetitions as a rule; 0 if the function determines it.
    least : int, default=1
        Smallest number of repetitions.
    possible : callable, optional
        Given the other findings by name, whether this one can be computed for the model.

    Examples
    --------
    >>> from kernelweave.inspection.registry import REGISTRY
    >>> REGISTRY["stability"].title
    'Stability of weights'
    """

    name: str
    _: KW_ONLY
    title: str
    needs: tuple[str, ...]
    about: str = ""
    counted: str = ""
    usual: int = 0
    least: int = 1
    possible: Callable[[Found], bool] | None = None
    function: Callable[[Basis], Finding | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        known = [one.name for one in fields(Basis)]
        if isinstance(self.needs, str):
            raise InputError(
                f"`needs` must be a tuple of names, got {self.needs!r}. Use needs=({self.needs!r},)."
            )
        if unknown := [one for one in self.needs if one not in known]:
            raise InputError(
                f"`needs` must name attributes of a `Basis` ({', '.join(known)}), got {unknown[0]!r}."
            )

    def __call__(self, function: Callable[[Basis], Finding | None]) -> Callable[[Basis], Finding | None]:
        """Declare what computes the finding.

        Parameters
        ----------
        function : callable
            Takes a `Basis` and returns a `Finding`, or None where there is nothing to say.
        """
        there = str(REGISTRY[self.name].function.__module__) if self.name in REGISTRY else ""
        if there.partition(".")[0] in PACKAGES and there != function.__module__:
            raise InputError(
                f"There is a finding {self.name!r} already, of {there}. Give yours another name."
            )
        self.function = function
        REGISTRY[self.name] = self
        return function

    def compute(self, basis: Basis) -> Finding | None:
        """The finding; None where something that it needs is not there, or nothing is to be said.

        Parameters
        ----------
        basis : Basis
            What there is.
        """
        if any(getattr(basis, name) is None for name in self.needs):
            return None
        found = self.function(replace(basis, count=basis.count or self.usual))
        return None if found is None else replace(found, name=self.name, title=found.title or self.title)


def collect(basis: Basis) -> Found:
    """All findings that take no further fits; one that fails is left out with a warning, and takes nothing with it."""
    load_extensions()
    made: Found = {}
    for name, one in REGISTRY.items():
        if one.about:
            continue
        try:
            found = one.compute(basis)
        except Exception as error:
            warn_user(f"The finding {name!r} is left out, because it failed: {type(error).__name__}: {error}")
            continue
        if found is not None:
            made[name] = found
    return made


def repeated() -> dict[str, finding]:
    """Findings that take further fits or many permutations, and are computed one by one."""
    load_extensions()
    return {name: one for name, one in REGISTRY.items() if one.about}


def possible(found: Found) -> list[str]:
    """Names of the findings that take time and that a model can have, by its other findings."""
    names = []
    for name, one in repeated().items():
        # the findings by which that is seen may not be there
        with suppress(KeyError):
            names += [name] if one.possible is None or one.possible(found) else []
    return names


def compute(name: str, basis: Basis) -> Finding:
    """One finding that takes time.

    Raises
    ------
    InputError
        No such finding, a number of repetitions out of range, or something that it needs is not there.
    """
    known = repeated()
    one = known[check_known(name, known, "evidence")]
    if not 0 <= basis.count <= MOST_REPEATED:
        raise InputError(f"The number of {one.counted} must be from 1 to {MOST_REPEATED}, got {basis.count}.")
    if basis.count and basis.count < one.least:
        raise InputError(f"At least {one.least} {one.counted} are needed, got {basis.count}.")
    if lacking := [need for need in one.needs if getattr(basis, need) is None]:
        raise InputError(
            f"{one.title}: this needs {' and '.join(WORDS.get(need, need) for need in lacking)}, which "
            f"{'is' if len(lacking) == 1 else 'are'} not there."
        )
    found = one.compute(basis)
    if found is None:
        raise InputError(f"{one.title}: this model and these rows have nothing to compute it from.")
    return found


def sentences_of(found: Found) -> list[tuple[str, Sentence]]:
    """Sentences of findings with the names of these, in the order of `QUESTIONS`."""
    order = list(QUESTIONS)
    said = [(one.name, sentence) for one in found.values() for sentence in one.sentences]
    return sorted(said, key=lambda pair: order.index(pair[1].topic))


def tables_of(found: Found) -> list[Table]:
    """Tables of findings."""
    return [table for one in found.values() for table in one.tables]


@renamed(seed="random_state")
@checked
def findings(
    estimator: Model,
    X: Features = None,
    y: OptionalTargets = None,
    *,
    training: Annotated[Any, InstanceOf((tuple,), "a pair (X, y)") | None] = None,
    names: Annotated[Sequence[str], Texts()] = (),
    random_state: Seed = 0,
    n_jobs: Jobs = None,
) -> Found:
    """What can be said about a fitted model: numbers with their meaning, intervals, sample sizes and sentences.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Whose kernels and weights are looked at.
    X : array-like, frame, sparse matrix or views, optional
        Rows that were not fitted, as `predict` takes them.
    y : array-like, optional
        Their targets.
    training : tuple of (X, y), optional
        The rows of the fit, for findings that take further fits.
    names : sequence of str, optional
        Findings that take further fits: "permutation", "sources", "omission", "stability" and "learning curve".
    random_state : int, default=0
        Seed of the random numbers: the same one gives the same result.
    n_jobs : int, optional
        Fits at the same time.

    Returns
    -------
    dict of str to Finding

    Raises
    ------
    InputError
        All rows of `X` were fitted; an array without the other.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = kw.MKLRegressor(kw.banks.linear_features(2), alpha=0.1).fit(X, X[:, 0])
    >>> kw.inspection.findings(model)["kernels"].sentence
    '1 of 2 kernels has a weight.'
    """
    if (X is None) != (y is None):
        raise InputError("Pass `X` and `y` of the held-out rows together, or neither.")
    if training is not None and len(training) != 2:
        raise InputError(f"`training` must be a pair (X, y), got {len(training)} parts.")
    seen = None if X is None else rows_in_fit(estimator, X)
    if seen is not None and seen.all():
        raise InputError(
            f"`X` and `y` must be rows that were not fitted, and all {len(seen)} were. {IN_FIT} Leave them out, or "
            "pass other rows."
        )
    basis = Basis(
        model=estimator,
        held=ABSENT if X is None else HeldOut.of(estimator, X, y),
        held_rows=ABSENT if X is None else Rows(X, y),
        training=ABSENT if training is None else Rows(*training),
        rows=ABSENT if training is None else Rows(*training),
        estimator=clone(estimator),
        random_state=random_state,
        n_jobs=n_jobs,
    )
    known = repeated()
    return {
        **collect(basis),
        **{name: compute(check_known(name, known, "entry of `names`"), basis) for name in names},
    }
