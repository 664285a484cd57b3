"""The settings of a fit: one typed record shared by the command line, the studio, TOML files and scripts."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from kernelweave._errors import InputError, check_known
from kernelweave._types import Tree

#: Longest text of a setting, and the most names in a list.
LONGEST = 20_000
MOST_NAMES = 100_000

Text = Annotated[str, Field(max_length=LONGEST)]
Names = Annotated[list[Text], Field(max_length=MOST_NAMES)]
#: Finite numbers only: JSON and TOML can have larger ones than a double.
Number = Annotated[float, Field(allow_inf_nan=False)]


def setting(
    default: Any, label: str, group: str, about: str, *, choices: tuple[str, ...] = (), **bounds: Any
) -> Any:
    """Declare a setting: default, label, group in a form, explanation, choices, bounds."""
    shown: dict[str, Any] = {"x-group": group, **({"x-choices": list(choices)} if choices else {})}
    return Field(default=default, title=label, description=about, json_schema_extra=shown, **bounds)


class _OfLearners:
    """Describes the parameters of all learners in the schema, as registered when it is made."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Tree:
        from kernelweave_app.runs.settings import learner_settings

        kinds = {"number": "number", "whole number": "integer", "yes/no": "boolean"}
        properties = {}
        for name, one in learner_settings().items():
            form = one.form
            found: dict[str, Any] = {"title": one.label, "description": one.about}
            found["type"] = kinds.get(form.kind, "string")
            bounds = {"minimum": form.least, "maximum": form.most, "x-unit": one.unit or None}
            found |= {key: value for key, value in bounds.items() if value is not None}
            found |= {"enum": list(form.choices)} if form.choices else {}
            properties[name] = found
        return {"type": "object", "properties": properties, "additionalProperties": False}


#: The learner that a plain fit chooses.
DEFAULT = "default"


class FitSpec(BaseModel):
    """Settings of a fit.

    Every setting is declared once, here or, if it belongs to a learner, at the parameter of its constructor. Those of
    learners are in `learner_params`. Among the others, as in files of version 0.1, they are read too.
    """

    model_config = ConfigDict(extra="forbid")

    target: Text = setting(
        "",
        "Target",
        "Data",
        "Column to predict; or several columns with commas between them, all of labels (0 and 1, no and yes, false and "
        "true), of which a row may have several, or all of numbers.",
    )
    task: Literal["auto", "regression", "classification"] = setting(
        "auto",
        "Task",
        "Data",
        'Type of the target; "auto" treats text, yes/no and up to 10 distinct whole numbers as classes. Several '
        "targets are labels (classification) or numbers (regression).",
    )
    method: Text = setting(
        DEFAULT,
        "Learner",
        "Model",
        "Learner: how the weights of kernels are found. default: as a plain fit in Python chooses. With the default "
        "kernels that is for classes lp with p = 2 and the best C of four by five folds, for numbers rls2 with "
        "relax=auto; other values of alphas, cs, cv, splits, repeats, stratify, rule or scoring, or groups, ask for "
        "a path by those folds, with the same learner, or rls2 for alphas and lp for cs. With other kernels it is "
        "rls2.",
    )
    kernels: Text | dict[str, Text] = setting(
        "default",
        "Kernels",
        "Kernels",
        "A bank (default, per_column, rls2, rkl, simplemkl, mlmkl, linear_features) or kernels separated by "
        '";", such as "linear; rbf(gamma=0.1); poly(degree=2)", or, with numbers from the training rows, '
        "\"rbf(gamma='median'); linear.prepared('standardize')\". With views also a table of view names and their "
        "kernels.",
    )
    gamma: Text = setting(
        "",
        "Width of Gaussian kernels",
        "Kernels",
        "A number, median or scale, or a multiple such as 4*median, in place of that of all Gaussian and Laplacian "
        "kernels; the default bank has a quarter of it, it and four times it.",
    )
    views: Text | dict[str, Names] = setting(
        "",
        "Views",
        "Kernels",
        "TOML file with a table [views] of names and columns, a GMT file of gene sets, or that "
        "table itself; kernels are put on every view.",
    )
    join: Text | Names = setting(
        "",
        "Further tables",
        "Data",
        "Further tables, separated by commas, whose rows are matched by `key`; each table becomes a view.",
    )
    view: Text | Names = setting(
        "",
        "Sparse views",
        "Data",
        "Further views in sparse files, such as words=words.npz: SciPy's .npz, .mtx or .svmlight, with the same rows "
        "in the same order.",
    )
    dense: bool = setting(
        False,
        "Sparse file as columns",
        "Data",
        "Read a sparse file in place of a table as columns x0, x1, ... and, of svmlight files, target; otherwise its "
        "rows are a sparse view.",
    )
    gram: Text | Names = setting(
        "",
        "Precomputed kernels",
        "Data",
        "Kernel matrices as further views, such as grams.npz or similarity=K.npy: square, with the rows of the table "
        "in the same order, or with an array of names that match `key` or a column of the table.",
    )
    key: Text = setting(
        "", "Key", "Data", "Column that identifies the rows of several tables; it is not a feature."
    )
    rows: Literal["shared", "all", "order"] = setting(
        "shared",
        "Rows of several tables",
        "Data",
        'Rows of tables that are joined: "shared" keeps those that every table has, "all" also those that lack some '
        'tables, and with them their views; see `missing_views`. "order" matches rows by their order, without a key.',
    )
    missing: Literal["error", "drop", "impute", "impute-median", "impute-nearest", "skip"] = setting(
        "error",
        "Rows with missing values",
        "Data",
        'Missing cells: "error" refuses them, "drop" leaves out their rows, "impute" fills numbers with the mean of '
        'training rows and categories with the most frequent one, "impute-median" with the median, marked by columns '
        'of 0 and 1, "impute-nearest" with the mean of the nearest rows; "skip" compares rows in the columns that both '
        "have.",
    )
    missing_views: Literal["complete", "renormalize", "error"] = setting(
        "complete",
        "Rows without a view",
        "Data",
        'Rows that lack all cells of a view: "complete" predicts its kernels from those of the other views, '
        '"renormalize" gives its weight to the views that are there, "error" takes them for missing cells like others.',
    )
    alphas: Text = setting(
        "30",
        "Values of alpha",
        "Path",
        "Regularisation parameters of RLS2: a number of automatic values, "
        '"low:high:number", or a list "0.1,1,10".',
    )
    Cs: Text = setting(
        "30",
        "Values of C",
        "Path",
        "The same for learners with a C: a number of automatic values, "
        '"low:high:number", or a list "0.1,1,10".',
    )
    cv: int = setting(
        5,
        "Folds",
        "Validation",
        "Number of folds: each is scored by a model of the others, and the mean of "
        "these scores chooses the regularisation parameter.",
        ge=2,
        le=1000,
    )
    splits: Literal["k-fold", "random"] = setting(
        "k-fold",
        "Divide rows by",
        "Validation",
        '"k-fold", or "random" splits which hold out a share of 1 / cv each.',
    )
    repeats: int = setting(
        1,
        "Repetitions",
        "Validation",
        "Repetitions of the folds in another order.",
        ge=1,
        le=100,
    )
    stratify: bool = setting(
        True,
        "Keep the shares of classes in every fold",
        "Validation",
        "Keep the shares of classes in every fold.",
    )
    nested: int = setting(
        0,
        "Nested: outer folds",
        "Validation",
        "Outer folds that score the whole procedure on rows it has not seen; 0 for none.",
        ge=0,
        le=100,
    )
    rule: Literal["min", "1se"] = setting(
        "min",
        "Choose",
        "Path",
        "Best mean score, or the strongest regularisation within one standard error of it.",
    )
    scoring: Text = setting(
        "",
        "Score",
        "Validation",
        "Score that chooses the regularisation parameter: a scorer of scikit-learn; accuracy or R^2 by default.",
    )
    normalize: Text = setting(
        "auto",
        "Bring kernels to one scale by",
        "Kernels",
        "auto: center for the default kernels, mean-diagonal for others; mean-diagonal, trace or norm: "
        "divide every kernel by the mean or the sum of its diagonal "
        "on the training rows (norm is the sum, the squared length of a single column); cosine: "
        "make every diagonal 1; center: subtract the mean in feature space, then mean-diagonal; "
        "within-class: divide by the spread within the classes; or none.",
        choices=("auto", "mean-diagonal", "trace", "norm", "cosine", "center", "within-class", "none"),
    )
    transductive: bool = setting(
        False,
        "Include held-out rows in the scale of kernels",
        "Kernels",
        "Include the inputs of the held-out rows, not their targets, in the factors of mean-diagonal, "
        "trace, norm or center, as in the experiments of the RLS2 paper.",
    )
    standardize: bool = setting(
        True,
        "Standardise columns",
        "Kernels",
        "Scale numeric columns to mean 0 and variance 1 (statistics of the training rows).",
    )
    intercept: bool = setting(
        True,
        "Use the mean of the target as intercept",
        "Model",
        "Use the mean of the target as intercept.",
    )
    balanced: bool = setting(
        False,
        "Weight classes by the inverse of their frequency",
        "Model",
        "Weight classes by the inverse of their frequency.",
    )
    class_weights: Text = setting(
        "",
        "Weights of classes",
        "Model",
        'Weights of classes, such as "ill=5, well=1"; classes that are not named have weight 1. Of several labels the '
        "weight of rows with the label, in its own problem.",
    )
    probabilities: Literal["none", "platt", "isotonic"] = setting(
        "none",
        "Probabilities",
        "Model",
        "Learn probabilities from decision values of folds of the training rows: Platt's sigmoid, "
        "or an isotonic step function, which needs about a thousand rows. The folds are `cv`, "
        "without repetitions. With the logistic loss there are probabilities without it.",
    )
    test_size: Number = setting(
        0.2,
        "Share of rows held out",
        "Validation",
        "Share of the rows held out for the final score; 0 fits on all rows.",
        ge=0,
        lt=1,
    )
    holdout: Text = setting(
        "",
        "Column of held-out rows",
        "Data",
        "Column that marks held-out rows instead of `test_size`: train and test (also training, held-out, holdout, "
        "validation), true and false, T and F, yes and no, or 1 and 0. In a column called train, training or is_train, "
        "true marks the rows to train on; in others it marks the held-out rows.",
    )
    holdout_values: Text | Names = setting(
        "",
        "Values of held-out rows",
        "Data",
        "Values of the column of held-out rows that hold a row out, separated by commas, such as F, where they are "
        "others than its name and words say; all other rows are for training.",
    )
    weights: Text = setting("", "Column of weights", "Data", "Column of sample weights.")
    group: Text = setting(
        "",
        "Column of groups",
        "Data",
        "Column of groups that must not be split between folds or between training and held-out rows.",
    )
    drop: Text | Names = setting(
        "",
        "Columns left out",
        "Data",
        "Columns to leave out, separated by commas.",
    )
    types: Text | dict[str, Literal["number", "category", "text"]] = setting(
        "",
        "Types of columns",
        "Data",
        "Columns that are something else than they look like, such as site=category,dose=number,note=text: numbers "
        "that are codes, texts that are numbers, of which cells that are no number are missing, or short texts, which "
        "the default kernels read by their letters and words.",
    )
    max_memory: Text = setting(
        "auto",
        "Memory for kernels",
        "Computing",
        "Memory for the training kernels, such as 2GB, or auto.",
    )
    rank_tol: Number = setting(
        0.0,
        "Share left out of low-rank kernels",
        "Computing",
        "Share of its trace that a low-rank approximation of a kernel may omit.",
        ge=0,
        lt=1,
    )
    approximation: Literal["auto", "none", "nystroem", "random-features"] = setting(
        "auto",
        "Features in place of kernels",
        "Computing",
        "Put features in place of kernels that have none: nystroem or random-features; none keeps kernels exact; auto "
        "keeps them for up to 5,000 rows, and for up to 20,000 where they fit `max_memory`; for more rows it takes "
        "nystroem with learners that solve on features.",
    )
    n_features: int = setting(
        0,
        "Features of a kernel",
        "Computing",
        "Number of features of a kernel, with `approximation` nystroem or random-features; 0 for the usual number.",
        ge=0,
        le=100_000,
    )
    seed: int = setting(
        0,
        "Seed",
        "Validation",
        "Seed of the random numbers that divide the rows; the same seed gives the same division.",
        ge=0,
        le=2**32 - 1,
    )
    jobs: int = setting(
        1,
        "Folds in parallel",
        "Computing",
        "Number of folds computed in parallel; -1 for one on each core.",
        ge=-64,
        le=64,
    )
    learner_params: Annotated[
        dict[Text, bool | int | Number | Text | None], Field(max_length=1000), _OfLearners()
    ] = setting(
        {},
        "Parameters of the learner",
        "Learner",
        "Parameters of the learner other than the defaults, by name; those of other learners are kept and not used.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_alphas_of_C(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or "Cs" in values or not isinstance(values.get("alphas"), str):
            return values
        if parameter_of(values.get("method", cls.model_fields["method"].default)) != "C":
            return values
        # settings of version 0.1 give the regularisation parameters of all learners as alphas
        return {name: value for name, value in values.items() if name != "alphas"} | {
            "Cs": inverted(values["alphas"])
        }

    @model_validator(mode="before")
    @classmethod
    def _keep_division(cls, values: Any) -> Any:
        # runs and drafts of earlier versions have all settings but this one; files written by hand have few
        if (
            not isinstance(values, Mapping)
            or not values.get("holdout")
            or "holdout_values" in values
            or not {"test_size", "group", "weights", "cv", "seed"} <= values.keys()
        ):
            return values
        from kernelweave_app.runs.division import FORMER

        return {**values, "holdout_values": list(FORMER)}

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or not values.keys() - cls.model_fields.keys():
            return values
        from kernelweave_app.runs.settings import learner_settings, renamed

        known, values = learner_settings(), renamed(values)
        flat = {
            name: value for name, value in values.items() if name in known and name not in cls.model_fields
        }
        given = values.get("learner_params", {})
        if not flat or not isinstance(given, Mapping):
            return values
        method = str(values.get("method", cls.model_fields["method"].default))
        params = {name: value for name, value in given.items() if name not in flat}
        # files of version 0.1 name every parameter of every learner
        params |= {name: value for name, value in flat.items() if not known[name].is_usual(value, method)}
        return {name: value for name, value in values.items() if name not in flat} | {
            "learner_params": params
        }

    @field_validator("target", mode="before")
    @classmethod
    def _read_names(cls, given: Any) -> Any:
        # a file may list several
        several = isinstance(given, list) and all(isinstance(name, str) for name in given)
        return ",".join(given) if several else given

    @field_validator("learner_params")
    @classmethod
    def _check_params(cls, given: Tree) -> Tree:
        if given:
            from kernelweave_app.runs.settings import learner_settings, renamed

            known = learner_settings()
            try:
                return {
                    name: known[check_known(name, known, "setting")].written(value)
                    for name, value in renamed(given).items()
                }
            except InputError as error:
                raise PydanticCustomError("setting", "{said}", {"said": str(error)}) from None
        return given

    def with_params(self, **values: Any) -> FitSpec:
        """These settings with some parameters of the learner changed, without a check."""
        return self.model_copy(update={"learner_params": {**self.learner_params, **values}})


def plain_kernels(asked: object) -> bool:
    """Whether the setting `kernels` leaves all of them to a plain fit; None is that too."""
    texts = asked.values() if isinstance(asked, Mapping) else [asked or DEFAULT]
    return all(str(text).strip().lower() == DEFAULT for text in texts)


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


def check_spec(values: Tree) -> FitSpec:
    """Build a `FitSpec`, turning pydantic's errors into one line."""
    try:
        return FitSpec(**values)
    except ValidationError as error:
        raise InputError(describe_error(error)) from None


def describe_error(error: ValidationError) -> str:
    """One line about the first invalid setting."""
    first = error.errors()[0]
    if first["type"] == "setting":
        return str(first["msg"])
    known = [name for part in first["loc"] if (name := str(part)) in FitSpec.model_fields]
    name = known[0] if known else ".".join(map(str, first["loc"]))
    if name == "learner_params" and len(first["loc"]) > 1:
        name = str(first["loc"][1])
    return f"Setting `{name}`: {first['msg']}, got {first.get('input')!r:.100}."
