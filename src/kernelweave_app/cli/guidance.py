"""What to begin with on a table, and how long it takes: the command `recommend`, and `fit --estimate`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from kernelweave._types import Console
    from kernelweave_app.runs.preparing import Prepared
    from kernelweave_app.runs.spec import Spec


def recommend(
    table: str,
    /,
    *,
    spec: Any = None,
    question: str = "predict",
    settings: Annotated[Path | None, Parameter(name="--spec")] = None,
    out: Path | None = None,
) -> None:
    """Recommend a learner and settings for a table, with reasons, and say how long they take.

    Nothing is kept but the settings, with --out; parts of the rows are fitted to measure the time.

    Example: kernelweave recommend patients.csv --target outcome --question sources --out settings.toml

    Parameters
    ----------
    table
        As for `fit`.
    question
        predict (how well can I predict?), sources (which sources matter?), few (which few kernels are enough?), columns
        (which columns matter inside one kernel?), deep (do combinations of kernels help?), closed (what is found
        without a search?), radius (what if kernels have no common scale?) or baseline (what do learnt weights add?).
    settings
        TOML file with settings; target, views, kernels, groups and weights are kept.
    out
        File for the recommended settings, to be used as `fit --spec`.
    """
    from kernelweave_app.cli.console import make_console
    from kernelweave_app.cli.options import final_spec
    from kernelweave_app.cli.runs import read_data
    from kernelweave_app.runs.folders import write_text, writing
    from kernelweave_app.runs.preparing import prepare
    from kernelweave_app.runs.recommending import recommend as find

    console = make_console()
    given = final_spec(spec, settings)
    data, _ = read_data(table, given)
    found = find(data, given, question)
    console.print(f"{found.question.title}", markup=False)
    for fact in found.facts:
        console.print(f"Found: {fact}.", markup=False)
    for one in found.advice:
        console.print(f"Setting {one.setting} = {_word(one.value)}: {one.why}.", markup=False)
    for line in found.warnings:
        console.print(line, markup=False)
    _say(console, found.spec, prepare(data, found.spec))
    if out is not None:
        import tomli_w

        with writing():
            write_text(out, tomli_w.dumps(found.spec.model_dump(exclude_unset=False)))
        console.print(
            f"Wrote {out}. Next: {shlex.join(['kernelweave', 'fit', table, '--spec', str(out), '--out', 'run'])}",
            markup=False,
        )


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _say(console: Console, spec: Spec, prepared: Prepared) -> None:
    """Measure, and print the time and the memory."""
    from kernelweave_app.runs.estimating import estimate_fit

    found = estimate_fit(spec, prepared)
    console.print(f"Time: {found.said()}. {found.sure()}", markup=False)
    console.print(
        f"Memory: up to {found.memory / 1e6:,.0f} MB for kernels and working matrices.", markup=False
    )


def run_estimate(path: str, spec: Spec) -> None:
    """What `fit --estimate` does."""
    from kernelweave_app.cli.console import make_console
    from kernelweave_app.cli.runs import read_data, say_found
    from kernelweave_app.runs.preparing import prepare

    console = make_console()
    data, _ = read_data(path, spec)
    prepared = prepare(data, spec)
    say_found(console, data, prepared, path, spec)
    _say(console, spec, prepared)
