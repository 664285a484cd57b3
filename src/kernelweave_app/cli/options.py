"""Options of commands that take imports: those made from the fields of a `Spec`, and names in their help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter
from pydantic import BaseModel, Field, create_model

from kernelweave._errors import InputError, check_known
from kernelweave_app.runs.settings import SpecField, learner_of
from kernelweave_app.runs.spec import (
    DEFAULT,
    Spec,
    check_spec,
    inverted,
    known_fields,
    marked,
    parameter_of,
    plain_kernels,
    read_spec,
)

KINDS: dict[str, Any] = {"number": float, "whole number": int, "yes/no": bool}
OF_LEARNERS = Group("Parameters of learners")


def fit_options(*, brief: bool = False) -> type[BaseModel]:
    """A record of all options, for the learners registered now; those not given are not set."""
    fields, usual = known_fields(), marked("brief")
    return create_model(
        "Options", **{name: _option(of, hidden=brief and name not in usual) for name, of in fields.items()}
    )


def _option(field: SpecField, *, hidden: bool = False) -> Any:
    """Type, default and help text of an option."""
    kind: Any = Literal[field.choices] if field.choices else KINDS.get(field.kind, str)
    about, default = field.help, field.default
    if field.learners:
        kind, default = Annotated[KINDS.get(field.kind, str) | None, Parameter(group=OF_LEARNERS)], None
    elif field.name == "method":
        kind = Annotated[str, Parameter(alias="--learner")]
        about = f"{about} One of {', '.join(field.choices)}."
    elif field.several:
        # given once, a text with commas; given several times, a list
        kind, default = Annotated[list[str] | None, Parameter(negative=())], None
    if hidden:
        kind = Annotated[kind, Parameter(show=False)]
    return kind, Field(default=default, description=about)


def completed(
    command: Callable[..., object], *, brief: bool = False, helps: bool = False
) -> Callable[..., object]:
    """A command whose parameter `spec` is filled from options, and whose help names findings if it is to be shown."""

    @wraps(command)
    def call(*args: Any, **kwargs: Any) -> object:
        return command(*args, **kwargs)

    call.__annotations__ = dict(command.__annotations__)
    if "spec" in call.__annotations__:
        call.__annotations__["spec"] = Annotated[fit_options(brief=brief) | None, Parameter(name="*")]
    about = command.__doc__ or ""
    if helps and "Names of findings" in about:
        about = about.replace("Names of findings", ", ".join(evidence_names()))
    call.__doc__ = about
    return call


def evidence_names() -> dict[str, str]:
    """Findings that take time by their names on the command line, which have no blanks."""
    from kernelweave.inspection.registry import repeated

    return {kind.replace(" ", "-"): kind for kind in repeated()}


def final_spec(options: BaseModel | None, file: Path | None) -> Spec:
    """Settings of a file, overridden by those given on the command line."""
    given = {} if options is None else {name: getattr(options, name) for name in options.model_fields_set}
    # a list of one is a text, in which commas are between names
    given = {name: v[0] if isinstance(v, list) and len(v) == 1 else v for name, v in given.items()}
    values = {} if file is None else read_spec(file)
    if given.get("holdout", values.get("holdout")) != values.get("holdout"):
        values.pop("holdout_values", None)  # of another column
    method = str(given.get("method", values.get("method", DEFAULT)))
    survival = any(given.get(name, values.get(name)) for name in ("time", "event"))
    plain = plain_kernels(given.get("kernels", values.get("kernels")))
    if method == DEFAULT and not survival and ("alphas" in given or not plain):
        # as estimators choose
        method = "rls2" if "alphas" in given or "Cs" not in {*given, *values} else "lp"
        if "alphas" in given:
            given["method"] = method
    # what learners are called is kept, so that an unknown name is refused before they are imported
    fields = known_fields()
    check_known(method, fields["method"].choices, "method")
    parameter = parameter_of(method) if {"alphas", "Cs"} & given.keys() else ""
    if parameter == "C" and "alphas" in given:
        raise InputError(
            f"--alphas is for learners with an alpha, and {method} has a C, which is 1 / alpha. "
            f"Write --cs {inverted(given['alphas'])}."
        )
    if parameter == "alpha" and "Cs" in given:
        raise InputError(
            f"--cs is for learners with a C, and {method} has an alpha. Write --alphas, such as --alphas 0.1,1,10."
        )
    own = {name: given.pop(name) for name in list(given) if name not in Spec.model_fields}
    _check_own(method, own, fields)
    return check_spec({**values, **given, "learner_params": {**values.get("learner_params", {}), **own}})


def _check_own(method: str, own: dict[str, Any], fields: Mapping[str, SpecField]) -> None:
    """Raise for an option that the learner does not have, which would have no effect."""
    for name in own:
        learners = fields[name].learners
        # which learner a plain fit takes depends on the target
        if method != DEFAULT and method not in learners and name not in learner_of(method).former:
            has = [field.flag for field in fields.values() if method in field.learners]
            raise InputError(
                f"{fields[name].flag} is for {', '.join(learners)}, and {method} does not have it. Leave it out, or "
                f"name another learner with --method. Of its own {method} has {', '.join(has)}."
            )
