"""What a fit needs to know: one typed record that the command line, the studio, TOML files and scripts share."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernelweave._errors import InputError

#: Longest text of a setting, and the most names in a list.
LONGEST = 20_000
MOST_NAMES = 100_000

Text = Annotated[str, Field(max_length=LONGEST)]
Names = Annotated[list[Text], Field(max_length=MOST_NAMES)]
#: Finite numbers only: JSON and TOML know larger ones than a double holds.
Number = Annotated[float, Field(allow_inf_nan=False)]


class FitSpec(BaseModel):
    """Settings of a fit.

    Parameters
    ----------
    target
        Column to predict.
    task
        What the target is; "auto" takes text, yes/no and up to 10 distinct whole numbers for classes.
    method
        Learner: rls2, simple, silp, lp, soft-margin, uniform, best, align, alignf, easy, rkl,
        kl-c, do; gaussian learns the widths of a Gaussian kernel; mlmkl, dmkl, 2lmkl and deep-uniform put layers of
        kernels on kernels.
    kernels
        A bank (default, rls2, rkl, simplemkl, mlmkl, linear_features) or kernels separated by ";", such as
        "linear; rbf(gamma=0.1); poly(degree=2)". With views also a table of view names and their kernels.
    views
        TOML file with a table [views] of names and columns, a GMT file of gene sets, or that table itself; kernels are
        put on every view.
    join
        Further tables, separated by commas, whose rows are matched by `key`; each table becomes a view.
    key
        Column that names the rows of several tables; it is not learnt from.
    missing
        Rows with missing values: "error" refuses them, "drop" leaves them out.
    alphas
        Strengths: a number of automatic ones, "low:high:number", or a list "0.1,1,10". For learners with a C, alpha is
        1 / C.
    relax
        For rls2: a strength of its own for the function, where `alphas` are those of the weights: none, a number, or
        auto, which chooses it on the same folds.
    p
        Norm of the weights of lp: near 1 few kernels are used, larger values spread the weights over more.
    theta
        Largest weight of soft-margin.
    norm
        Constraint on the weights of rkl and kl-c: 1, 2 or none.
    variant
        Radius of kl-c: chapelle or eq10.
    kind
        What the widths of gaussian minimise: margin over radius, radius times margin (two variants), or the margin.
    lam
        Regularisation of easy.
    epsilon
        Half width of the tube of regression with a margin.
    n_layers
        Layers of mlmkl, dmkl and deep-uniform, the first, of `kernels`, included.
    layer_kernels
        Kernels of the layers above, separated by ";", and "|" between layers that differ, such as
        "arc_cosine(degree=0) | linear; rbf(gamma=1)". By default linear, rbf(gamma=1) and polynomials of degree 2
        and 3.
    normalize_layers
        Give every kernel of these layers a diagonal of 1; without it values explode with depth.
    criterion
        What mlmkl minimises: the squared or (for classes) logistic loss on rows that a machine has not seen, or the
        paper's error on its own training rows.
    criterion_folds
        Folds of the criterion of mlmkl and of best, inside every fit; `cv` are those that choose the strength.
    loss
        Machine of mlmkl and deep-uniform: auto for hinge or epsilon-insensitive, or squared.
    step
        auto stands for the learner's default. Weights of layers (mlmkl, 2lmkl, dmkl) move by backtracking, which never
        raises the criterion, by the paper's fixed steps, or by adam; rkl and do by newton, spectral or armijo, kl-c and
        gaussian by one of the last two.
    eta
        Size of fixed and adaptive steps.
    weight_set
        Weights of mlmkl: without an upper bound, or with sum 1 in every layer.
    validation_fraction
        Rows that mlmkl sets aside to say which weights are the best and when to stop; at most 0.5.
    n_iter_no_change
        Steps without a better validation loss that end mlmkl.
    literal
        The update of mlmkl as it is printed, which goes uphill; for study only.
    penalty
        Weight of the sum of weights in 2lmkl.
    smoothing
        Of the span bound of dmkl.
    device
        Torch device for the layers, such as cuda; empty computes them here.
    cv
        Parts of the rows, the folds: each is scored by a model of the others, and the mean of these scores chooses the
        strength.
    splits
        "k-fold", or "random" splits that hold out a share of 1 / cv each.
    repeats
        Repetitions of the folds in another order.
    stratify
        Keep the shares of classes in every fold.
    nested
        Outer folds that score the whole choice again on rows it has not seen; 0 for none.
    rule
        Best mean score, or the strongest regularisation within one standard error of it.
    scoring
        What the strength is chosen by: a scorer of scikit-learn; accuracy or R^2 by default.
    normalize
        mean-diagonal, trace or norm: divide every kernel by the mean or the sum of its diagonal on the training rows
        (norm is the sum, the squared length of a single column); cosine: make every diagonal 1; center: take the mean
        in feature space away, then mean-diagonal; within-class: divide by the spread within the classes; or none.
    transductive
        Let the inputs of the held-out rows, not their targets, enter the factors of mean-diagonal, trace, norm or
        center, as in the experiments of the RLS2 paper.
    standardize
        Bring numeric columns to mean 0 and variance 1 (statistics of the training rows).
    intercept
        Use the mean of the target as intercept.
    balanced
        Weight classes by the inverse of their frequency.
    class_weights
        Weights of classes instead, such as "ill=5, well=1"; classes that are not named have weight 1.
    probabilities
        Learn probabilities from decision values of folds of the training rows: Platt's sigmoid, or an isotonic step
        function, which needs about a thousand rows. The folds are `cv`, without repetitions.
    test_size
        Share of the rows held out for the final score; 0 fits on all rows.
    holdout
        Column that says which rows are held out (test, held-out, holdout, true, yes, 1) instead of `test_size`.
    weights
        Column of sample weights.
    group
        Column of groups that must not be split between folds or between training and held-out rows.
    drop
        Columns to leave out, separated by commas.
    solver
        auto stands for the learner's default; else newton or alternating (the paper's Algorithm 1) for rls2, newton,
        interior-point, reduced-gradient or cutting-plane for simple, newton, interior-point or closed-form for
        soft-margin.
    tol
        Relative duality gap; 0 for the learner's default.
    delta
        The alternating solver stops when the residual falls below this share of the targets.
    max_iter
        Limit of iterations for each strength; 0 for the default.
    max_memory
        Memory for the training kernels, such as 2GB, or auto.
    rank_tol
        Share of its trace that a low-rank kernel may leave out.
    seed
        Beginning of the random numbers that divide the rows; the same seed divides them in the same way.
    jobs
        Folds that are computed at the same time; -1 for one on each core.
    """

    model_config = ConfigDict(extra="forbid")

    target: Text = ""
    task: Literal["auto", "regression", "classification"] = "auto"
    method: Text = "rls2"
    kernels: Text | dict[str, Text] = "default"
    views: Text | dict[str, Names] = ""
    join: Text = ""
    key: Text = ""
    missing: Literal["error", "drop"] = "error"
    alphas: Text = "30"
    cv: int = Field(default=5, ge=2, le=1000)
    splits: Literal["k-fold", "random"] = "k-fold"
    repeats: int = Field(default=1, ge=1, le=100)
    stratify: bool = True
    nested: int = Field(default=0, ge=0, le=100)
    rule: Literal["min", "1se"] = "min"
    scoring: Text = ""
    normalize: Text = "mean-diagonal"
    transductive: bool = False
    standardize: bool = True
    intercept: bool = True
    balanced: bool = False
    class_weights: Text = ""
    probabilities: Literal["none", "platt", "isotonic"] = "none"
    test_size: Number = Field(default=0.2, ge=0, lt=1)
    holdout: Text = ""
    weights: Text = ""
    group: Text = ""
    drop: Text | Names = ""
    relax: Text = "none"
    p: Number = Field(default=2.0, ge=1, le=1e6)
    theta: Number = Field(default=0.5, gt=0, le=1)
    norm: Literal["1", "2", "none"] = "1"
    variant: Literal["chapelle", "eq10"] = "chapelle"
    kind: Literal["rkl", "kl-c", "kl-c-eq10", "margin"] = "rkl"
    lam: Number = Field(default=0.1, gt=0, le=1)
    epsilon: Number = Field(default=0.1, ge=0, le=1e100)
    n_layers: int = Field(default=2, ge=1, le=100)
    layer_kernels: Text = ""
    normalize_layers: bool = True
    criterion: Literal["out-of-fold", "logistic", "training"] = "out-of-fold"
    criterion_folds: int = Field(default=3, ge=2, le=1000)
    loss: Literal["auto", "squared"] = "auto"
    step: Text = "auto"
    eta: Number = Field(default=0.1, gt=0, le=1e100)
    weight_set: Literal["orthant", "simplex"] = "orthant"
    validation_fraction: Number = Field(default=0.0, ge=0, le=1)
    n_iter_no_change: int = Field(default=10, ge=1, le=1_000_000_000)
    literal: bool = False
    penalty: Number = Field(default=1.0, ge=0, le=1e100)
    smoothing: Number = Field(default=1.0, gt=0, le=1e100)
    device: Text = ""
    solver: Text = "auto"
    tol: Number = Field(default=0.0, ge=0, lt=1)
    delta: Number = Field(default=1e-2, gt=0, lt=1)
    max_iter: int = Field(default=0, ge=0, le=1_000_000_000)
    max_memory: Text = "auto"
    rank_tol: Number = Field(default=0.0, ge=0, lt=1)
    seed: int = Field(default=0, ge=0, le=2**32 - 1)
    jobs: int = Field(default=1, ge=-64, le=64)


def read_spec(path: Path) -> dict[str, Any]:
    """Read the settings of a TOML file; unknown names and wrong types are one-line errors."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf8"))
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}.") from error
    content.pop("table", None)
    return check_spec(content).model_dump(exclude_unset=True)


def check_spec(values: dict[str, Any]) -> FitSpec:
    """Build a `FitSpec`, turning pydantic's errors into one line."""
    try:
        return FitSpec(**values)
    except ValidationError as error:
        raise InputError(describe_error(error)) from None


def describe_error(error: ValidationError) -> str:
    """One line about the first setting that cannot be."""
    first = error.errors()[0]
    known = [name for part in first["loc"] if (name := str(part)) in FitSpec.model_fields]
    name = known[0] if known else ".".join(map(str, first["loc"]))
    return f"Setting `{name}`: {first['msg']}, got {first.get('input')!r:.100}."


def read_views(views: str | dict[str, list[str]]) -> dict[str, list[str]]:
    """Views as a table, or from a TOML or GMT file: names to column names, in which ``*`` and ``?`` match any text."""
    if not isinstance(views, str):
        return check_views(views, "views")
    path = Path(views)
    try:
        text = path.read_text(encoding="utf8")
    except FileNotFoundError:
        raise InputError(f"There is no views file {views}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{views} cannot be read as text: {error}.") from error
    return parse_views(text, views, gmt=path.suffix.lower() == ".gmt")


def parse_views(text: str, name: str, *, gmt: bool) -> dict[str, list[str]]:
    """Views from the text of a TOML file with a table [views], or of a GMT file (name, description, columns)."""
    if gmt:
        rows = [line.rstrip("\r").split("\t") for line in text.split("\n") if line.strip()]
        short = [k for k, row in enumerate(rows, start=1) if len(row) < 3]
        if short or not rows:
            where = f"line {short[0]} of {name}" if short else name
            raise InputError(
                f"A GMT file has a name, a description and columns between tabs; {where} has not."
            )
        return check_views({row[0]: [c for c in row[2:] if c] for row in rows}, name)
    try:
        views = tomllib.loads(text).get("views")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{name} cannot be read as TOML: {error}.") from error
    if not isinstance(views, dict) or not views:
        raise InputError(f"{name} must hold a table [views], such as: rna = ['gene_*'].")
    return check_views(views, name)


def check_views(views: dict[str, Any], name: str) -> dict[str, list[str]]:
    """Raise if a view is not a non-empty list of column names."""
    for view, columns in views.items():
        if not isinstance(columns, list) or not all(isinstance(c, str) for c in columns) or not columns:
            raise InputError(f"{name}: view {view!r} must be a non-empty list of column names.")
    return views


def names_in(value: str | list[str]) -> list[str]:
    """Names in a list, or in a text with commas between them."""
    if isinstance(value, str):
        return [name for part in value.split(",") if (name := part.strip())]
    return value


def expand_views(
    views: dict[str, list[str]], columns: list[str], *, partial: bool = False
) -> dict[str, list[str]]:
    """Replace patterns by the columns they match; one without a match is an error, or left out with `partial`."""
    import difflib
    from fnmatch import fnmatchcase

    out: dict[str, list[str]] = {}
    known = set(columns)
    for name, patterns in views.items():
        chosen: dict[str, None] = {}
        for pattern in patterns:
            found = [pattern] if pattern in known else [c for c in columns if fnmatchcase(c, pattern)]
            if not found and not partial:
                close = difflib.get_close_matches(pattern, columns, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise InputError(f"View {name!r}: no column matches {pattern!r}.{hint}")
            chosen |= dict.fromkeys(found)
        if chosen:
            out[name] = list(chosen)
    if not out:
        raise InputError(f"None of the {len(views)} views names a column of the table.")
    return out
