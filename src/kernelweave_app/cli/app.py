"""The commands, and how they end."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from kernelweave._errors import InputError
from kernelweave._extensions import load_extensions
from kernelweave_app import runs
from kernelweave_app.cli.learning import demo, evidence, fit, recommend
from kernelweave_app.cli.papers import list_datasets, reproduce, scoreboard
from kernelweave_app.cli.paths import path
from kernelweave_app.cli.rows import margins, statistics
from kernelweave_app.cli.using import evaluate, export, predict


def make_app(asked: str = "") -> App:
    """The command line; of the command that is asked for with all options and names, which have to be imported."""
    app = App(
        name="kernelweave",
        help="Multiple kernel learning: which data sources and which kernels matter, and how well can I "
        "predict?",
        version=lambda: __import__("kernelweave").__version__,
        result_action="return_value",
        # `run` reports what is left after Ctrl-C
        suppress_keyboard_interrupt=False,
    )
    for command in COMMANDS:
        if command.__name__ == asked:
            from kernelweave_app.cli.options import completed

            command = completed(command)
        app.command(command)
    app.command(list_datasets, name="datasets")
    return app


def run(argv: list[str]) -> int:
    """Run the command line; user errors end with one line on standard error."""
    try:
        load_extensions()
        app = make_app(*argv[:1])
        status = app(argv, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        return _fail(_describe(error))
    except InputError as error:
        return _fail(_with_options(" ".join(str(error).split()), *argv[:1]))
    except OSError as error:
        return _fail(f"{error.strerror or error}{': ' + str(error.filename) if error.filename else ''}")
    except KeyboardInterrupt:
        print("Interrupted; nothing was finished.", file=sys.stderr)
        return 130
    return status if isinstance(status, int) else 0


def _describe(error: CycloptsError) -> str:
    from pydantic import ValidationError

    cause = error.__cause__ or error.__context__
    if isinstance(cause, ValidationError):
        return runs.spec.describe_error(cause)
    return " ".join(str(error).split())


def _with_options(message: str, asked: str = "") -> str:
    """A message about the parameters of a command with its options."""
    app = make_app(asked)
    arguments = app[asked].assemble_argument_collection() if asked in app else ()
    known = {name for one in arguments for name in one.names}

    def said_there(found: re.Match[str]) -> str:
        option = f"--{found[1].replace('_', '-')}"
        return option if option in known else found[0]

    return re.sub(r"(?:Setting )?`(\w+)`", said_there, message)


def _fail(message: str) -> int:
    print(f"kernelweave: {runs.spec.in_words_of('options', message)}", file=sys.stderr)
    return 2


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
    seed: Annotated[int, Parameter(help="Every command takes it; here it is a setting of each run.")] = 0,
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


COMMANDS: tuple[Callable[..., object], ...] = (
    *(demo, fit, path, recommend, predict, evaluate),
    *(evidence, export, statistics, margins, reproduce, scoreboard, studio),
)
