"""The settings of a run, declared once: `Spec`. Command line, studio, files of settings, scripts and reports use it.

How to draw a form or options from it::

    for field in spec_fields().values():            # or those of `learner_fields`
        if applies(field, spec, task):              # draw it only where it would do something
            draw(field.label, field.help, field.kind, field.choices, field.least, field.most, field.unit, field.default)

`kind` is "text", "number", "whole number", "yes/no", "choice" or "table" (a text, or a mapping or list of texts).
`group` is the card that it belongs to. A value is stored as ``Spec.<name>``, or where `learners` is not empty as
``Spec.learner_params[name]``. `check_spec` refuses a value in the words of files of settings; `in_words_of` says the
same with options or labels. Importing learners takes seconds, so `known_fields` keeps fields in a file of the
user's cache, and makes it again when a file of the package has changed.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

import kernelweave
from kernelweave._declarations import declared
from kernelweave._docstrings import read_docstring
from kernelweave._errors import InputError, check_known
from kernelweave._parameters import (
    Flag,
    Form,
    Number,
    OneOf,
    Rule,
    Shown,
    Whole,
    check_value,
    rules_of,
    with_present_names,
)
from kernelweave._types import Tree
from kernelweave_app.runs.columns import ColumnType
from kernelweave_app.runs.settings import (
    SpecField,
    learner_of,
    learner_settings,
    merged_field,
    schema_of,
    written,
)

#: Longest text of a setting, and the most names in a list.
LONGEST = 20_000
MOST_NAMES = 100_000

Text = Annotated[str, Field(max_length=LONGEST)]
Names = Annotated[list[Text], Field(max_length=MOST_NAMES)]
#: Columns of a view: names and patterns, also a single one.
Columns = Annotated[Names, BeforeValidator(lambda given: [given] if isinstance(given, str) else given)]
#: Finite numbers only: JSON and TOML can have larger ones than a double.
Real = Annotated[float, Field(allow_inf_nan=False)]

#: The learner that a plain fit chooses.
DEFAULT = "default"
#: The task of a run with columns of times and events.
SURVIVAL = "survival"


@dataclass(frozen=True)
class In(Shown):
    """How a setting is shown: label and so on, and the group of a form that it belongs to.

    Attributes
    ----------
    group : str
    brief : bool
        Whether a short help shows it.
    of_table : bool
        Whether it belongs to the tables at hand, such as names of columns: with other tables it is lost.
    """

    group: str = ""
    brief: bool = False
    of_table: bool = False


# the cards of a form
_data, _kernels, _model, _path, _validation, _computing, _learner = (
    partial(In, group=group)
    for group in ("Data", "Kernels", "Model", "Path", "Validation", "Computing", "Learner")
)
_column = partial(_data, of_table=True)


class Later(Rule):
    """A rule of the library that is looked up when it is needed: importing estimators takes seconds."""

    def __init__(self, make: Callable[[], Rule]) -> None:
        self.make = cache(make)

    def read(self, value: object) -> Any:
        """The value, converted."""
        return self.make().read(value)

    def words(self) -> str:
        """What is expected."""
        return self.make().words()

    def form(self) -> Form:
        """Its field in a form."""
        return self.make().form()


def _of_estimators(name: str) -> Later:
    """The rule that estimators have for a parameter."""

    def make() -> Rule:
        from kernelweave.estimators.cv import MKLClassifierCV, MKLRegressorCV

        return {**rules_of(MKLClassifierCV), **rules_of(MKLRegressorCV)}[name]

    return Later(make)


def _listed(module: str, names: str, *first: str) -> Later:
    """One of some names, or of those in a list of the library."""
    return Later(lambda: OneOf(*dict.fromkeys([*first, *getattr(import_module(module), names)])))


_MISSING = _listed("kernelweave.estimators.sources", "MISSING", "error", "drop")
_NORMALIZERS = _listed("kernelweave.normalizers", "NORMALIZERS", "auto")
_APPROXIMATIONS = _listed("kernelweave.kernels", "MAPS", "auto", "none")
_PROBABILITIES = _listed("kernelweave.fitting.calibration", "METHODS", "none")


class Learners(Rule):
    """Short names of learners; a name that none has is found when the learner is needed."""

    def read(self, value: object) -> Any:
        """The name."""
        return value

    def words(self) -> str:
        """What is expected."""
        return "the short name of a learner"

    def form(self) -> Form:
        """A choice."""
        from kernelweave.learners import LEARNERS

        return Form("choice", (DEFAULT, *LEARNERS))


def _describe(schema: Tree, kind: type[BaseModel]) -> None:
    """Labels, meanings and ranges in the JSON schema, those of learners as they are registered when it is made."""
    properties = schema["properties"]
    about = read_docstring(Spec.__doc__)
    schema["description"] = about.summary
    properties["learner_params"] |= {
        "title": label_of("learner_params"),
        "description": about.parameters["learner_params"].about,
        "properties": {name: schema_of(field) for name, field in _learner_fields().items()},
        "additionalProperties": False,
    }
    for name, field in own_fields().items():
        found = schema_of(field)
        del found["type"]
        properties[name] |= found


class Spec(BaseModel):
    """The settings of a run.

    Each is declared here: type, default, admissible values, label and group, and below what it means. What estimators
    or learners admit is looked up at their own parameters, and parameters of learners are in `learner_params`. Fields
    for a form or options are listed by `kernelweave_app.runs.settings.spec_fields`.

    Parameters
    ----------
    target
        Column to predict; or several columns with commas between them, all of labels (0 and 1, no and yes,
        false and true), of which a row may have several, or all of numbers.
    task
        Type of the target; "auto" treats text, yes/no and up to 10 distinct whole numbers as classes. Several
        targets are labels (classification) or numbers (regression).
    time
        Survival, in place of a target: column of times, until the event or until the row was last seen without one.
        Negative times are refused; where rows with missing cells are left out, those rows are too.
    event
        Survival: column that says whether the event was seen at the time: 1 and 0, true and false, yes and no, or
        dead and alive; of other values name that of an event, such as "status=2", or several with commas
        between them. A value with a comma stands in double quotes.
    strata
        Survival: column of groups of rows, such as hospitals, with a baseline hazard of their own. Rows are compared
        within them, and predictions of survival need the column too.
    ties
        Survival: how the likelihood treats events at equal times.
    method
        Learner: how the weights of kernels are found. default: as a plain fit in Python chooses. With the
        default kernels that is for classes lp with p = 2 and the best C of four by five folds, for numbers
        rls2 with relax=auto; other values of alphas, cs, cv, splits, repeats, stratify or rule ask for a path
        by those folds, with the same learner, or rls2 for alphas and lp for cs. With
        other kernels it is rls2, or lp for cs.
    kernels
        A bank (default, per_column, rls2, rkl, simplemkl, mlmkl, linear_features) or kernels separated by
        ";", such as "linear; rbf(gamma=0.1); poly(degree=2)", or, with numbers from the training rows,
        "rbf(gamma='median'); linear.prepared('standardize')". With views also a table of view names and their
        kernels.
    gamma
        A number, median or scale, or a multiple such as 4*median, in place of that of all Gaussian and
        Laplacian kernels; the default bank has a quarter of it, it and four times it.
    views
        TOML file with a table [views] of names and columns, such as genes = "gene_*", a GMT file of gene sets, or
        that table itself; kernels are put on every view. "auto" takes views from the names of the columns, or else
        from their types or from blocks of correlated columns.
    join
        Further tables, separated by commas, whose rows are matched by `key`; each table becomes a view.
    view
        Further views in sparse files, such as words=words.npz: SciPy's .npz, .mtx or .svmlight, with the same
        rows in the same order.
    dense
        Read a sparse file in place of a table as columns x0, x1, ... and, of svmlight files, target;
        otherwise its rows are a sparse view.
    gram
        Kernel matrices as further views, such as grams.npz or similarity=K.npy: square, with the rows of the
        table in the same order, or with an array of names that match `key` or a column of the table.
    key
        Column that identifies the rows of several tables; it is not a feature.
    rows
        Rows of tables that are joined: "shared" keeps those that every table has, "all" also those that lack
        some tables, and with them their views; see `missing_views`. "order" matches rows by their order,
        without a key.
    missing
        Missing cells: "error" refuses them, "drop" leaves out their rows, "impute" fills numbers with the
        mean of training rows and categories with the most frequent one, "impute-median" with the median,
        marked by columns of 0 and 1, "impute-nearest" with the mean of the nearest rows; "skip" compares rows
        in the columns that both have.
    missing_views
        Rows that lack all cells of a view: "complete" predicts its kernels from those of the other views,
        "renormalize" gives its weight to the views that are there, "error" takes them for missing cells like
        others.
    alphas
        Regularisation parameters of RLS2: a number of automatic values, "low:high:number", or a list
        "0.1,1,10".
    Cs
        The same for learners with a C: a number of automatic values, "low:high:number", or a list "0.1,1,10".
    cv
        Number of folds: each is scored by a model of the others, and the mean of these scores chooses the
        regularisation parameter.
    splits
        "k-fold", or "random" splits which hold out a share of 1 / cv each.
    repeats
        Repetitions of the folds in another order.
    stratify
        Keep the shares of classes in every fold.
    nested
        Outer folds that score the whole procedure on rows it has not seen; 0 for none.
    rule
        Best mean score, or the strongest regularisation within one standard error of it.
    scoring
        Score that chooses the regularisation parameter: a scorer of scikit-learn; accuracy, squared error or
        R^2 by default. With the learner of a plain fit a score of predicted classes, such as
        balanced_accuracy, also decides how probabilities become classes.
    normalize
        auto: center for the default kernels, mean-diagonal for others; mean-diagonal, trace or norm: divide
        every kernel by the mean or the sum of its diagonal on the training rows (norm is the sum, the squared
        length of a single column); cosine: make every diagonal 1; center: subtract the mean in feature space,
        then mean-diagonal; within-class: divide by the spread within the classes; or none.
    transductive
        Include the inputs of the held-out rows, not their targets, in the factors of mean-diagonal, trace,
        norm or center, as in the experiments of the RLS2 paper.
    standardize
        Scale numeric columns to mean 0 and variance 1 (statistics of the training rows).
    intercept
        Use the mean of the target as intercept.
    balanced
        Weight classes by the inverse of their frequency.
    class_weights
        Weights of classes, such as "ill=5, well=1"; classes that are not named have weight 1. Of several
        labels the weight of rows with the label, in its own problem.
    probabilities
        Learn probabilities from decision values of further fits on folds of the training rows: a temperature,
        Platt's sigmoid, or an isotonic step function, which needs about a thousand rows. The folds are `cv`,
        without repetitions. With "none" they are those of the logistic loss, or of a temperature from the folds
        that chose C or alpha.
    targets
        Of a regression of several targets by rls2: shared, one set of weights and one alpha for all; own, weights
        and alpha for each; or auto, what has the smaller out-of-fold error.
    test_size
        Share of the rows held out for the final score; 0 fits on all rows.
    holdout
        Column that marks held-out rows instead of `test_size`: train and test (also training, held-out,
        holdout, validation), true and false, T and F, yes and no, or 1 and 0. In a column called train,
        training or is_train, true marks the rows to train on; in others it marks the held-out rows.
    holdout_values
        Values of the column of held-out rows that hold a row out, separated by commas, such as F, where they
        are others than its name and words say; all other rows are for training.
    weights
        Column of sample weights.
    group
        Column of groups that must not be split between folds or between training and held-out rows.
    drop
        Columns to leave out, separated by commas.
    types
        Columns that are something else than they look like, such as site=category,dose=number,note=text:
        numbers that are codes, texts that are numbers, of which cells that are no number are missing,
        short texts, which the default kernels read by their letters and words, or dates.
    max_memory
        Memory for the training kernels, such as 2GB, or auto.
    rank_tol
        Share of its trace that a low-rank approximation of a kernel may omit.
    approximation
        Put features in place of kernels that have none: nystroem or random-features; none keeps kernels
        exact; auto keeps them for up to 5,000 rows, and for up to 20,000 where they fit `max_memory`; for
        more rows it takes nystroem with learners that solve on features.
    n_features
        Number of features of a kernel, with `approximation` nystroem or random-features; 0 for the usual
        number.
    seed
        Seed of the random numbers that divide the rows; the same seed gives the same division.
    jobs
        Number of folds computed in parallel; -1 for one on each core.
    learner_params
        Parameters of the learner other than the defaults, by name; those of other learners are kept and not
        used.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra=_describe)

    target: Annotated[Text, _column("Target", brief=True)] = ""
    task: Annotated[str, OneOf("auto", "regression", "classification"), _column("Task", brief=True)] = "auto"
    time: Annotated[Text, _column("Time", brief=True)] = ""
    event: Annotated[Text, _column("Event", brief=True)] = ""
    strata: Annotated[Text, _column("Strata", brief=True)] = ""
    ties: Annotated[str, OneOf("breslow", "efron"), _model("Events at equal times")] = "breslow"
    method: Annotated[Text, Learners(), _model("Learner", brief=True)] = DEFAULT
    kernels: Annotated[Text | dict[str, Text], _kernels("Kernels", of_table=True, brief=True)] = "default"
    gamma: Annotated[Text, _kernels("Width of Gaussian kernels")] = ""
    views: Annotated[Text | dict[str, Columns], _kernels("Views", of_table=True, brief=True)] = ""
    join: Annotated[Text | Names, _data("Further tables", brief=True)] = ""
    view: Annotated[Text | Names, _data("Sparse views")] = ""
    dense: Annotated[bool, Flag(), _data("Sparse file as columns")] = False
    gram: Annotated[Text | Names, _data("Precomputed kernels")] = ""
    key: Annotated[Text, _data("Key", brief=True)] = ""
    rows: Annotated[str, OneOf("shared", "all", "order"), _data("Rows of several tables")] = "shared"
    missing: Annotated[str, _MISSING, _data("Rows with missing values", brief=True)] = "error"
    missing_views: Annotated[str, _of_estimators("missing_views"), _data("Rows without a view")] = "complete"
    alphas: Annotated[Text, _path("Values of alpha")] = "30"
    Cs: Annotated[Text, _path("Values of C")] = "30"
    cv: Annotated[int, Whole(2, 1000), _validation("Folds", brief=True)] = 5
    splits: Annotated[str, OneOf("k-fold", "random"), _validation("Divide rows by")] = "k-fold"
    repeats: Annotated[int, Whole(1, 100), _validation("Repetitions")] = 1
    stratify: Annotated[bool, Flag(), _validation("Keep the shares of classes in every fold")] = True
    nested: Annotated[int, Whole(0, 100), _validation("Nested: outer folds")] = 0
    rule: Annotated[str, _of_estimators("rule"), _path("Choose")] = "min"
    scoring: Annotated[Text, _validation("Score", brief=True)] = ""
    normalize: Annotated[str, _NORMALIZERS, _kernels("Bring kernels to one scale by")] = "auto"
    transductive: Annotated[bool, Flag(), _kernels("Include held-out rows in the scale of kernels")] = False
    standardize: Annotated[bool, Flag(), _kernels("Standardise columns")] = True
    intercept: Annotated[bool, Flag(), _model("Use the mean of the target as intercept")] = True
    balanced: Annotated[bool, Flag(), _model("Weight classes by the inverse of their frequency")] = False
    class_weights: Annotated[Text, _model("Weights of classes")] = ""
    probabilities: Annotated[str, _PROBABILITIES, _model("Probabilities")] = "none"
    targets: Annotated[str, _of_estimators("targets"), _model("Weights of several targets")] = "auto"
    test_size: Annotated[
        Real, Number(least=0, below=1), _validation("Share of rows held out", brief=True)
    ] = 0.2
    holdout: Annotated[Text, _column("Column of held-out rows")] = ""
    holdout_values: Annotated[Text | Names, _column("Values of held-out rows")] = ""
    weights: Annotated[Text, _column("Column of weights")] = ""
    group: Annotated[Text, _column("Column of groups", brief=True)] = ""
    drop: Annotated[Text | Names, _column("Columns left out", brief=True)] = ""
    types: Annotated[Text | dict[str, ColumnType], _column("Types of columns", brief=True)] = ""
    max_memory: Annotated[Text, _computing("Memory for kernels")] = "auto"
    rank_tol: Annotated[
        Real, _of_estimators("rank_tol"), _computing("Share left out of low-rank kernels")
    ] = 0.0
    approximation: Annotated[str, _APPROXIMATIONS, _computing("Features in place of kernels")] = "auto"
    n_features: Annotated[int, Whole(0, 100_000), _computing("Features of a kernel")] = 0
    seed: Annotated[int, Whole(0, 2**32 - 1), _validation("Seed", brief=True)] = 0
    jobs: Annotated[int, Whole(-64, 64), _computing("Folds in parallel")] = 1
    learner_params: Annotated[
        dict[Text, bool | int | Real | Text | None],
        Field(max_length=1000),
        _learner("Parameters of the learner"),
    ] = {}

    @field_validator("target", mode="before")
    @classmethod
    def _read_names(cls, given: Any) -> Any:
        # a file may list several
        several = isinstance(given, list) and all(isinstance(name, str) for name in given)
        return ",".join(given) if several else given

    @field_validator("*")
    @classmethod
    def _check(cls, given: Any, info: Any) -> Any:
        one = declared(Spec)[info.field_name]
        if one.rule is None or given == one.default:
            return given
        try:
            return check_value(one.rule, info.field_name, given)
        except InputError as error:
            raise _refused(error) from None

    @field_validator("learner_params")
    @classmethod
    def _check_params(cls, given: Tree, info: ValidationInfo) -> Tree:
        if not given:
            return given
        known = learner_settings()
        given, method = dict(given), info.data.get("method")
        try:
            if method != DEFAULT and method is not None:
                with_present_names(given, learner_of(method).former, method)
            return {
                name: written(known[check_known(name, known, "setting")], value, method)
                for name, value in given.items()
            }
        except InputError as error:
            raise _refused(error) from None

    @property
    def survival(self) -> bool:
        """Whether times of events are predicted."""
        return bool(self.time.strip() or self.event.strip())

    @property
    def predicted(self) -> str:
        """What is predicted, in words."""
        if self.survival:
            event, values = divided_event(self.event)
            said = f"{event} is {' or '.join(values)}" if values else event
            return f"{self.time} until {said}" if self.time and event else ""
        return self.target

    def with_params(self, **values: Any) -> Spec:
        """These settings with some parameters of the learner changed, without a check."""
        return self.model_copy(update={"learner_params": {**self.learner_params, **values}})

    def differs(self, name: str) -> bool:
        """Whether a setting has another value than its default."""
        return bool(getattr(self, name) != type(self).model_fields[name].default)


def divided_event(event: str) -> tuple[str, list[str]]:
    """The column in the setting `event`, and the values of it that are events.

    Examples
    --------
    >>> divided_event('cause=stroke,"cancer, other"')
    ('cause', ['stroke', 'cancer, other'])
    """
    column, _, values = (part.strip() for part in event.partition("="))
    rows = csv.reader(io.StringIO(values, newline=""), skipinitialspace=True)
    return column, [value.strip() for row in rows for value in row if value.strip()]


def event_setting(column: str, values: Iterable[str]) -> str:
    """The setting `event` of a column and values of it that are events, which `divided_event` reads."""
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(values)
    return "=".join(filter(None, (column, written.getvalue())))


def _refused(error: InputError) -> PydanticCustomError:
    return PydanticCustomError("setting", "{said}", {"said": str(error)})


# ---- fields ---------------------------------------------------------------------------------------


def _of_classes(spec: Spec, task: str) -> bool:
    """For classes, or where the task is not known."""
    return task != "regression" and not spec.survival


def _uncensored(spec: Spec, task: str) -> bool:
    """Not for survival, which chooses C on folds of its own."""
    return not spec.survival


#: When a setting would do something; all others always.
APPLIES: dict[str, Callable[[Spec, str], bool]] = {
    "key": lambda spec, task: bool(spec.key or spec.join),
    "rows": lambda spec, task: bool(spec.join),
    "holdout_values": lambda spec, task: bool(spec.holdout),
    "test_size": lambda spec, task: not spec.holdout,
    "strata": lambda spec, task: spec.survival,
    "stratify": lambda spec, task: _of_classes(spec, task) and not spec.group,
    **dict.fromkeys(
        ("task", "alphas", "splits", "repeats", "rule", "nested", "intercept"),
        _uncensored,
    ),
    "ties": lambda spec, task: spec.survival,
    "balanced": _of_classes,
    "class_weights": _of_classes,
    "probabilities": _of_classes,
    "targets": lambda spec, task: task != "classification" and not spec.survival,
    "n_features": lambda spec, task: spec.approximation not in ("auto", "none"),
}


def applies(field: SpecField, spec: Spec, task: str = "") -> bool:
    """Whether a setting would do something beside the others; `task` is "", or what was found in the target."""
    if field.learners:
        return chosen(spec, task or "classification").method in field.learners
    return field.name not in APPLIES or APPLIES[field.name](spec, task)


def marked(what: str) -> list[str]:
    """Settings that are marked in their declaration, as "brief" or as "of_table"."""
    return [name for name, one in declared(Spec).items() if getattr(one.shown, what, False)]


def own_fields() -> Mapping[str, SpecField]:
    """The settings of every run, but for the table of the learner's parameters."""
    found = {}
    for name, one in declared(Spec).items():
        if name == "learner_params":
            continue
        parts = [
            get_args(part)[0] if get_origin(part) is Annotated else part
            for part in get_args(Spec.model_fields[name].annotation)
        ]
        kinds = [get_origin(part) for part in parts if get_origin(part) in (list, dict)]
        field = merged_field(name, {DEFAULT: one}, told=False)
        group = one.shown.group if isinstance(one.shown, In) else ""
        kind = "table" if kinds else field.kind
        found[name] = replace(field, group=group, kind=kind, learners=(), several=list in kinds)
    return found


def spec_fields() -> dict[str, SpecField]:
    """All fields in the order of a form: those of every run, then those of all learners that are registered now."""
    return {**own_fields(), **_learner_fields()}


def _learner_fields() -> dict[str, SpecField]:
    return {name: merged_field(name, of) for name, of in learner_settings().items()}


def known_fields() -> dict[str, SpecField]:
    """All fields; those that are kept for this state of the package, unless learners or losses are imported already."""
    if not sys.modules.keys().isdisjoint(("kernelweave.learners", "kernelweave.machines.losses")):
        return spec_fields()
    file, state = kept_fields(), _state_of_package()
    try:
        told = json.loads(file.read_text("utf8"))
        if told["state"] != state:
            raise ValueError
        tuples = ("choices", "learners")
        fields = [SpecField(**{**one, **{key: tuple(one[key]) for key in tuples}}) for one in told["fields"]]
        return {one.name: one for one in fields}
    except (OSError, ValueError, KeyError, TypeError):
        found = spec_fields()
        told = {"state": state, "fields": [asdict(field) for field in found.values()]}
        # a cache that cannot be written only costs time
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(told, ensure_ascii=False), "utf8")
            part.replace(file)
        return found


def kept_fields() -> Path:
    """The file in which fields are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kernelweave" / "fields.json"


def _state_of_package() -> list[object]:
    """What changes when a file of the library, or this one, does."""
    files = [*Path(kernelweave.__file__).parent.rglob("*.py"), Path(__file__)]
    told = [(file.name, (about := file.stat()).st_size, about.st_mtime_ns) for file in files]
    return [len(told), sum(size for _, size, _ in told), max(time for *_, time in told), kernelweave.__file__]


def label_of(name: str) -> str:
    """The label of a setting."""
    if name in Spec.model_fields:
        return declared(Spec)[name].label
    of = learner_settings().get(name)
    return merged_field(name, of).label if of else name.replace("_", " ").capitalize()


def in_words_of(place: str, message: str) -> str:
    """A message about settings with their options ("options"), or with their labels ("form").

    Examples
    --------
    >>> in_words_of("options", "Setting `jobs`: 0 folds at once is not possible.")
    '--jobs: 0 folds at once is not possible.'
    >>> in_words_of("form", "`test_size` must be a number >= 0 and < 1, got 2.0.")
    "'Share of rows held out' must be a number >= 0 and < 1, got 2.0."
    >>> in_words_of("form", "The kernel is not symmetric. Pass another with --gram K=FILE.")
    'The kernel is not symmetric.'
    """

    def said_there(found: re.Match[str]) -> str:
        field = known_fields().get(found[1])
        if field is None:
            return found[0]
        return field.flag if place == "options" else repr(field.label)

    if place == "form":
        sentences = re.split(r"(?<=\.) (?=[A-Z])", message)
        # what to type elsewhere is no help on a page
        message = " ".join(one for one in sentences if not _TYPED.search(one)) or message
    return message if place == "file" else re.sub(r"(?:Setting )?`(\w+)`", said_there, message)


#: Words of a command line, of Python, or of a file of settings.
_TYPED = re.compile(
    r"(?<![\w-])--[a-z]|\bkw\.|kernelweave\.[a-z]+_|kernelweave (?:fit|predict) |such as `\w+` '"
)


# ---- reading and checking ----------------------------------------------------------------------------


def plain_kernels(asked: object) -> bool:
    """Whether the setting `kernels` leaves all of them to a plain fit; None is that too."""
    texts = asked.values() if isinstance(asked, Mapping) else [asked or DEFAULT]
    return all(str(text).strip().lower() == DEFAULT for text in texts)


def chosen(spec: Spec, task: str) -> Spec:
    """A spec with the learner that a plain fit chooses by name and with its parameters; others are unchanged.

    Parameters
    ----------
    spec : Spec
    task : {"classification", "regression", "survival"}
    """
    if spec.method != DEFAULT:
        return spec
    from kernelweave import recipe
    from kernelweave.estimators.defaults import default_learner

    if spec.survival:
        name, params = recipe.CLASSIFICATION
    else:
        name, params = default_learner(
            plain=plain_kernels(spec.kernels),
            classes=task == "classification",
            has_alpha=spec.differs("alphas"),
            has_cost=spec.differs("Cs"),
        )
    known = learner_of(name).settings()
    params = {key: value for key, value in params.items() if key in known}
    return spec.model_copy(update={"method": name, "learner_params": {**params, **spec.learner_params}})


def parameter_of(method: object) -> str:
    """The regularisation parameter of a learner, "alpha" or "C"; empty for a name that no learner has."""
    from kernelweave.learners import LEARNERS

    return LEARNERS[method].regularization_parameter if isinstance(method, str) and method in LEARNERS else ""


def inverted(text: str) -> str:
    """C = 1 / alpha, or alpha = 1 / C, as text; other text is returned unchanged."""
    separator = ":" if ":" in text else ","
    *values, last = [part.strip() for part in text.split(separator)]
    if not values and last.isdigit():
        return text  # a number of automatic values
    try:
        numbers = [
            f"{1.0 / float(part):.15g}" for part in (values if ":" in text else [*values, last]) if part
        ]
    except (ValueError, ZeroDivisionError):
        return text
    if ":" in text:
        return ":".join([*reversed(numbers), last])
    return ",".join(numbers) if len(numbers) > 1 else f"{float(numbers[0])!r}" if numbers else text


def read_spec(path: Path) -> Tree:
    """Read the settings of a TOML file; unknown names and wrong types are one-line errors."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf8"))
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}.") from error
    content.pop("table", None)
    return check_spec(content).model_dump(exclude_unset=True)


def check_spec(values: Tree) -> Spec:
    """Build a `Spec`, turning pydantic's errors into one line."""
    try:
        return Spec(**values)
    except ValidationError as error:
        raise InputError(describe_error(error)) from None


def describe_error(error: ValidationError) -> str:
    """One line about the first invalid setting."""
    first = error.errors()[0]
    if first["type"] == "setting":
        return str(first["msg"])
    known = [name for part in first["loc"] if (name := str(part)) in Spec.model_fields]
    name = known[0] if known else ".".join(map(str, first["loc"]))
    if name == "learner_params" and len(first["loc"]) > 1:
        name = str(first["loc"][1])
    return f"Setting `{name}`: {first['msg']}, got {first.get('input')!r:.100}."
