"""What a fit needs to know: one typed record that the command line, TOML files and scripts share."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernelweave._errors import InputError


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
        kl-c, do.
    kernels
        A bank (default, rls2, rkl, simplemkl, mlmkl, linear_features) or kernels separated by ";", such as
        "linear; rbf(gamma=0.1); poly(degree=2)".
    views
        TOML file with a table [views] of names and columns; every kernel is put on every view.
    alphas
        Strengths: a number of automatic ones, "low:high:number", or a list "0.1,1,10". For learners with a C, alpha is
        1 / C.
    p
        Norm of lp.
    theta
        Largest weight of soft-margin.
    norm
        Constraint on the weights of rkl and kl-c: 1, 2 or none.
    variant
        Radius of kl-c: chapelle or eq10.
    lam
        Regularisation of easy.
    epsilon
        Half width of the tube of regression with a margin.
    cv
        Folds.
    rule
        Best mean score, or the strongest regularisation within one standard error of it.
    scoring
        A scikit-learn scorer; accuracy or R^2 by default.
    normalize
        mean-diagonal, trace, norm, cosine, center, within-class, or none.
    standardize
        Bring numeric columns to mean 0 and variance 1 (statistics of the training rows).
    intercept
        Use the mean of the target as intercept.
    balanced
        Weight classes by the inverse of their frequency.
    test_size
        Share of the rows held out for the final score; 0 fits on all rows.
    weights
        Column of sample weights.
    group
        Column of groups that must not be split between folds or between training and held-out rows.
    drop
        Columns to leave out, separated by commas.
    solver
        newton or alternating (the paper's Algorithm 1) for rls2; see the learners for others.
    tol
        Relative duality gap; 0 for the learner's default.
    delta
        Residual rule of the alternating solver.
    max_iter
        Limit of iterations for each strength; 0 for the default.
    max_memory
        Memory for the training kernels, such as 2GB, or auto.
    rank_tol
        Share of its trace that a low-rank kernel may leave out.
    seed
        Random splits.
    jobs
        Folds in parallel.
    """

    model_config = ConfigDict(extra="forbid")

    target: str = ""
    task: Literal["auto", "regression", "classification"] = "auto"
    method: str = "rls2"
    kernels: str = "default"
    views: str = ""
    alphas: str = "30"
    cv: int = Field(default=5, ge=2)
    rule: Literal["min", "1se"] = "min"
    scoring: str = ""
    normalize: str = "mean-diagonal"
    standardize: bool = True
    intercept: bool = True
    balanced: bool = False
    test_size: float = Field(default=0.2, ge=0, lt=1)
    weights: str = ""
    group: str = ""
    drop: str = ""
    p: float = Field(default=2.0, ge=1)
    theta: float = Field(default=0.5, gt=0, le=1)
    norm: Literal["1", "2", "none"] = "1"
    variant: Literal["chapelle", "eq10"] = "chapelle"
    lam: float = Field(default=0.1, gt=0, le=1)
    epsilon: float = Field(default=0.1, ge=0)
    solver: str = "newton"
    tol: float = Field(default=0.0, ge=0, lt=1)
    delta: float = Field(default=1e-2, gt=0, lt=1)
    max_iter: int = Field(default=0, ge=0)
    max_memory: str = "auto"
    rank_tol: float = Field(default=0.0, ge=0, lt=1)
    seed: int = Field(default=0, ge=0)
    jobs: int = 1


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
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InputError(f"Setting `{name}`: {first['msg']}, got {first.get('input')!r}.") from None


def read_views(path: str) -> dict[str, list[str]]:
    """Read a views file: names to lists of column names, in which ``*`` and ``?`` stand for any text."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf8"))
    except FileNotFoundError:
        raise InputError(f"There is no views file {path}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}.") from error
    views = content.get("views")
    if not isinstance(views, dict) or not views:
        raise InputError(f"{path} must hold a table [views], such as: rna = ['gene_*'].")
    for name, columns in views.items():
        if not isinstance(columns, list) or not all(isinstance(c, str) for c in columns) or not columns:
            raise InputError(f"{path}: view {name!r} must be a non-empty list of column names.")
    return views


def expand_views(views: dict[str, list[str]], columns: list[str]) -> dict[str, list[str]]:
    """Replace patterns by the columns they match; a pattern without a match is an error."""
    import difflib
    from fnmatch import fnmatchcase

    out: dict[str, list[str]] = {}
    for name, patterns in views.items():
        chosen: list[str] = []
        for pattern in patterns:
            found = [pattern] if pattern in columns else [c for c in columns if fnmatchcase(c, pattern)]
            if not found:
                close = difflib.get_close_matches(pattern, columns, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise InputError(f"View {name!r}: no column matches {pattern!r}.{hint}")
            chosen += [c for c in found if c not in chosen]
        out[name] = chosen
    return out
