"""The commands. Heavy imports happen inside them, so that ``--help`` is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from kernelweave._errors import InputError
from kernelweave_app.cli.arguments import Names
from kernelweave_app.cli.evidence import evidence
from kernelweave_app.cli.guidance import recommend
from kernelweave_app.cli.rows import margins, statistics
from kernelweave_app.cli.using import evaluate, export, predict


def make_app(*, fitting: bool = True) -> App:
    """The command line; with `fitting`, options include the parameters of learners, which have to be imported."""
    app = App(
        name="kernelweave",
        help="Multiple kernel learning: which data sources and which kernels matter, and how well can I "
        "predict?",
        version=lambda: __import__("kernelweave").__version__,
        result_action="return_value",
        # `run` reports what is left after Ctrl-C
        suppress_keyboard_interrupt=False,
    )
    commands: list[Callable[..., object]] = [fit, path, recommend]
    if fitting:
        from kernelweave_app.cli.options import with_options

        commands = [with_options(command) for command in commands]
    simple: list[Callable[..., object]] = [
        predict,
        evaluate,
        evidence,
        export,
        statistics,
        margins,
        reproduce,
        studio,
    ]
    for command in [demo, *commands, *simple]:
        app.command(command)
    app.command(list_datasets, name="datasets")
    return app


def run(argv: list[str]) -> int:
    """Run the command line; user errors end with one line on standard error."""
    try:
        app = make_app(fitting=bool(argv) and argv[0] in ("fit", "path", "recommend"))
        status = app(argv, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        return _fail(_say(error))
    except InputError as error:
        return _fail(" ".join(str(error).split()))
    except OSError as error:
        return _fail(f"{error.strerror or error}{': ' + str(error.filename) if error.filename else ''}")
    except KeyboardInterrupt:
        print("Interrupted; nothing was finished.", file=sys.stderr)
        return 130
    return status if isinstance(status, int) else 0


def _say(error: CycloptsError) -> str:
    from pydantic import ValidationError

    from kernelweave_app.runs.spec import describe_error

    cause = error.__cause__ or error.__context__
    return describe_error(cause) if isinstance(cause, ValidationError) else " ".join(str(error).split())


def _fail(message: str) -> int:
    from kernelweave_app.runs.spec import in_words_of

    print(f"kernelweave: {in_words_of('options', message)}", file=sys.stderr)
    return 2


def demo(*, out: str = "kernelweave-demo", seed: int = 0, cv: int = 5, alphas: int = 30) -> None:
    """Fit a model on a data set of scikit-learn, and compare it with baselines.

    Breast cancer: ten measurements as mean, error and worst value; these three groups are the views. A path with
    cross-validation, a held-out score beside baselines, and a report.

    Example: kernelweave demo --out my-demo

    Parameters
    ----------
    out
        Folder for the results; an earlier demo there is overwritten.
    seed
        Random split.
    cv
        Folds.
    alphas
        Number of regularisation parameters on the path.
    """
    from kernelweave_app.cli.demo import run_demo

    run_demo(out, seed=seed, cv=cv, n_alphas=alphas)


def fit(
    table: str,
    /,
    *,
    spec: Any = None,
    out: str = "",
    settings: Annotated[Path | None, Parameter(name="--spec")] = None,
    overwrite: bool = False,
    estimate: bool = False,
) -> None:
    """Fit a model on a table, choose the regularisation parameter by cross-validation, and write a report.

    The folder holds the model (model.skops), report.html, predictions.csv of the held-out rows, spec.toml, and
    script.py, which makes the same model with Python.

    Example: kernelweave fit patients.csv --target outcome --views views.toml --out run

    Several labels of 0 and 1, or no and yes: --target asthma,copd,pneumonia

    Parameters
    ----------
    table
        CSV, TSV (also .gz) or Parquet; or an svmlight file, whose labels are the column "target".
    out
        Folder for the results.
    settings
        TOML file with settings, such as the spec.toml of another run; options given here come first.
    overwrite
        Replace the results of an earlier run.
    estimate
        Fit parts of the rows only, and say how long the whole would take and how much memory it needs.
    """
    from kernelweave_app.cli.options import final_spec
    from kernelweave_app.cli.runs import run_fit

    if estimate:
        from kernelweave_app.cli.guidance import run_estimate

        run_estimate(table, final_spec(spec, settings))
    else:
        run_fit(table, final_spec(spec, settings), out, overwrite=overwrite)


def path(
    table: str,
    /,
    *,
    spec: Any = None,
    out: str,
    settings: Annotated[Path | None, Parameter(name="--spec")] = None,
    overwrite: bool = False,
) -> None:
    """Solve the whole regularisation path on all rows, and write the weights along it as a table and a picture.

    Ctrl-C ends the path; what is done is written.

    Example: kernelweave path patients.csv --target outcome --alphas 50 --out path

    Parameters
    ----------
    table
        CSV, TSV (also .gz) or Parquet; or an svmlight file, whose labels are the column "target"; or a file of the
        command statistics: then the folds in it, if it has any, choose the regularisation parameter.
    out
        Folder for the results.
    settings
        TOML file with settings; options given here come first.
    overwrite
        Replace the results of an earlier run.
    """
    from kernelweave_app.cli.options import final_spec
    from kernelweave_app.cli.runs import run_path
    from kernelweave_app.cli.statistics import is_statistics, run_statistics_path

    if is_statistics(table):
        run_statistics_path(table, final_spec(spec, settings), out, overwrite=overwrite)
        return
    run_path(table, final_spec(spec, settings), out, overwrite=overwrite)


def reproduce(
    experiment: str,
    /,
    *,
    out: str = "",
    jobs: int = -1,
    resume: bool = False,
    datasets: Names = None,
    methods: Names = None,
    protocols: Names = None,
    ratios: Annotated[list[float] | None, Parameter(consume_multiple=True)] = None,
    splits: int | None = None,
    draws: int | None = None,
    n_alphas: int | None = None,
    largest: float | None = None,
    smallest: float | None = None,
    folds: int | None = None,
    sizes: int | None = None,
    tol: float | None = None,
    seed: int = 0,
) -> int:
    """Run an experiment of a paper, compare with it, and write tables and figures.

    Finished parts are stored at once: after Ctrl-C or a crash, the same command with --resume continues. Without
    options all settings are those of the paper. An option that an experiment does not have is an error.

    Experiments: rls2-strings, rls2-prostate, rls2-uci, rls2-microarray, rls2-relax, rkl, rkl-convergence, rkl-scales,
    mlmkl, cardinality.

    Example: kernelweave reproduce rls2-uci --datasets heart sonar --splits 10 --out uci

    Parameters
    ----------
    experiment
        Name of the experiment.
    out
        Folder for the results; by default kernelweave-NAME.
    jobs
        Processes, each with one thread; -1 for one per core.
    resume
        Continue the run in this folder.
    datasets
        Data sets.
    methods
        Methods.
    protocols
        Protocols: literal and fair (rkl, cardinality), literal and tuned (mlmkl).
    ratios
        Shares of the rows for training.
    splits
        Random splits of each data set.
    draws
        Number of simulated data sets.
    n_alphas
        Number of regularisation parameters on a path.
    largest
        Largest regularisation parameter.
    smallest
        Smallest regularisation parameter.
    folds
        Folds of cross-validation.
    sizes
        Largest number of training examples.
    tol
        Relative gap of every solution.
    seed
        Of all random numbers.
    """
    from kernelweave_app.cli.reproducing import run_reproduce

    lists = {"datasets": datasets, "methods": methods, "protocols": protocols, "ratios": ratios}
    given: dict[str, Any] = {name: None if value is None else tuple(value) for name, value in lists.items()}
    given |= {
        "splits": splits,
        "draws": draws,
        "n_alphas": n_alphas,
        "largest": largest,
        "smallest": smallest,
        "folds": folds,
        "sizes": sizes,
        "tol": tol,
        "seed": seed,
    }
    return run_reproduce(experiment, out, jobs=jobs, resume=resume, given=given)


def list_datasets(
    *names: str,
    download: bool = False,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    seed: int = 0,
) -> None:
    """List the data sets of the papers: size, task, source, licence, whether they are here, and how to get them.

    Example: kernelweave datasets heart sonar

    Parameters
    ----------
    names
        Data sets to describe; all of them as a table by default.
    download
        Download those that are not available here and have an address.
    as_json
        Machine-readable.
    seed
        Every command takes it; here no random numbers are drawn.
    """
    from kernelweave_app.cli.reproducing import run_datasets

    run_datasets(list(names), download=download, as_json=as_json)


def studio(
    *,
    port: int = 0,
    data_dir: Path = Path("kernelweave-studio"),
    host: str = "127.0.0.1",
    browser: bool = True,
    expose: bool = False,
    max_upload: int = 200,
    at_once: int = 1,
    mlflow: Path | None = None,
    project: str = "",
    list_projects: bool = False,
    seed: int = 0,
) -> None:
    """Train, validate and understand models in the browser, without a network.

    It is accessible from this computer only, with the address that is printed. Runs continue when the page or the
    studio is closed.

    Example: kernelweave studio --data-dir tables

    Parameters
    ----------
    port
        Port to listen on; 0 for a free one.
    data_dir
        Folder with tables; the studio writes to its subfolder "studio".
    host
        Address to listen on.
    browser
        Open the browser.
    expose
        Allow a host that other computers can reach; a token must be set in KERNELWEAVE_STUDIO_TOKEN.
    max_upload
        Largest upload in megabytes.
    at_once
        Runs at the same time.
    mlflow
        Folder of an MLflow file store to which finished runs can be written; needs mlflow-skinny.
    project
        Name of the project to open; by default the one that was opened last.
    list_projects
        List the projects of the folder, and end.
    seed
        Every command takes it; here it is a setting of each run.
    """
    if not 1 <= max_upload <= 100_000 or not 1 <= at_once <= 64 or not 0 <= port <= 65535:
        raise InputError(
            "--max-upload must be from 1 to 100000, --at-once from 1 to 64, --port from 0 to 65535."
        )
    from kernelweave_app.studio import server

    if list_projects:
        server.list_projects(data_dir)
        return
    server.serve(
        data_dir,
        host=host,
        port=port,
        browser=browser,
        exposed=expose,
        upload=max_upload * 1_000_000,
        at_once=at_once,
        mlflow=mlflow,
        project=project,
    )
