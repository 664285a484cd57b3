"""Help of `fit` on one screen, and of one learner; all options are in ``kernelweave fit --help-all``."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from kernelweave._errors import InputError
from kernelweave_app.runs.settings import SpecField
from kernelweave_app.runs.spec import known_fields

#: Columns of a line.
WIDTH = 80
FIT = """\
Usage: kernelweave fit TABLE --target NAME --out FOLDER [OPTIONS]

Fits a model to a table (CSV, TSV, Parquet ...): which sources matter, how sure
is that, and how well are rows predicted that the model has not seen? All other
settings are chosen from the training data. The folder receives the model, a
report, predictions, and a Python script that makes the same model.

Example:
  kernelweave fit patients.csv --target outcome --views auto --out run

What to fit
  --target NAME       column to predict; several with commas between them
  --task KIND         regression or classification; default: seen in the target
  --time, --event     survival: columns of times and of events (status=2)
  --strata NAME       survival: column of groups with baselines of their own
  --views FILE        sources: "auto" (by the names of columns), or a TOML file:
                      [views] and lines such as genes = "gene_*"
  --join FILES        further tables, each a source; rows matched by --key NAME
  --drop NAMES        columns to leave out
  --types NAMES       types of columns, such as site=category,note=text
  --missing HOW       error, drop, impute, impute-median, impute-nearest, skip
  --group NAME        column whose rows stay together (patients, batches)
How to fit
  --method NAME       learner; its parameters: --help-learner NAME
  --kernels NAMES     a bank, or kernels such as "linear; rbf(gamma='median')"
  --scoring NAME      score that chooses the regularisation, such as roc_auc
  --cv N              folds for that choice
  --test-size X       fraction of the rows held out for the final score (0.2)
  --budget SECONDS    further fits for intervals of the sources (60; 0: none)
  --seed N            other numbers divide the rows in another way
  --spec FILE         settings of another run; options given here come first
Output
  --out FOLDER        for the results; --overwrite replaces earlier ones
  --estimate          only say how long the fit would take
  --json, --quiet     one JSON object (kernelweave schema), or only errors

All options: kernelweave fit --help-all"""


def print_fit() -> int:
    """Print the short help of `fit`."""
    print(FIT)
    return 0


def print_learner(argv: Sequence[str]) -> int:
    """Print what can be set of the learner that `--help-learner NAME` names."""
    words = [part for word in argv for part in word.split("=", 1)]
    name = words[words.index("--help-learner") + 1] if words[-1] != "--help-learner" else ""
    fields = known_fields()
    known = [one for one in fields["method"].choices if one != "default"]
    if name not in known:
        raise InputError(
            f"--help-learner needs the name of a learner, got {name!r}. Known: {', '.join(known)}."
        )
    from kernelweave._docstrings import read_docstring
    from kernelweave_app.runs.settings import learner_fields, learner_of

    kind = learner_of(name)
    print(f"{name}: {read_docstring(kind.__doc__).summary}")
    reference = kind().reference()
    if reference:
        print("\n".join(wrap(f"Reference: {reference}", WIDTH)))
    print(f"\nExample: kernelweave fit patients.csv --target outcome --method {name} --out run\n")
    path = "--cs" if kind.regularization_parameter == "C" else "--alphas"
    print(f"  {path:<22}Regularisation: values to try, such as 0.1,1,10.")
    for field in learner_fields(name).values():
        _print_option(field)
    return 0


def _print_option(field: SpecField) -> None:
    range_ = " to ".join(f"{end:g}" for end in (field.least, field.most) if end is not None)
    allowed = ", ".join(field.choices) or (f"from {range_}" if range_ else "")
    parts = [allowed, "" if field.default is None else f"default {field.default}"]
    told = f"{field.help} [{'; '.join(filter(None, parts))}]".replace(" []", "")
    lines = wrap(told, WIDTH - 24)
    print(f"  {field.flag:<22}{lines[0]}")
    for line in lines[1:]:
        print(" " * 24 + line)
