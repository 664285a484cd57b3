"""The commands, and how they end."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter
from cyclopts.exceptions import UnknownOptionError

from kernelweave._errors import InputError
from kernelweave._extensions import load_extensions
from kernelweave_app import runs
from kernelweave_app.cli.arguments import with_output
from kernelweave_app.cli.console import Output, Terminal, printing
from kernelweave_app.cli.learning import demo, evidence, fit, recommend
from kernelweave_app.cli.papers import list_datasets, reproduce, scoreboard
from kernelweave_app.cli.paths import path
from kernelweave_app.cli.rows import margins, statistics
from kernelweave_app.cli.using import evaluate, export, predict


def make_app(asked: str = "", *, brief: bool = False, helps: bool = False) -> App:
    """The command line; of the command that is asked for with all options and names, which have to be imported.

    Parameters
    ----------
    asked : str
        The name of a command, or "all".
    brief : bool
        Show only the usual settings in the help of a command that fits.
    helps : bool
        Whether help is to be shown, which names what takes long to import.
    """
    app = App(
        name="kernelweave",
        help="Multiple kernel learning: which data sources and which kernels matter, and how well can I "
        "predict?",
        version=lambda: __import__("kernelweave").__version__,
        result_action="return_value",
        console=Terminal(),
        # `run` reports what is left after Ctrl-C
        suppress_keyboard_interrupt=False,
    )
    for command in COMMANDS:
        if asked in (command.__name__, "all"):
            from kernelweave_app.cli.options import completed

            command = completed(command, brief=brief, helps=helps)
        app.command(with_output(command))
    app.command(with_output(list_datasets), name="datasets")
    app.command(completion)
    app.command(schema)
    return app


def run(argv: list[str]) -> int:
    """Run the command line; user errors end with one line on standard error."""
    output = Output()
    try:
        load_extensions()
        if HELP_LEARNER in argv or any(word.startswith(f"{HELP_LEARNER}=") for word in argv):
            from kernelweave_app.cli.helping import print_learner

            return print_learner(argv)
        brief = not {"--help", "-h"}.isdisjoint(argv) and HELP_ALL not in argv
        argv = ["--help" if word == HELP_ALL else word for word in argv]
        if brief and argv[0] == "fit":
            from kernelweave_app.cli.helping import print_fit

            return print_fit()
        app = make_app(*argv[:1], brief=brief, helps=not {"--help", "-h"}.isdisjoint(argv))
        with printing(output):
            status = app(argv, exit_on_error=False, print_error=False)
            if output.json:
                _print_json(argv[0], output)
        sys.stdout.flush()
    except CycloptsError as error:
        return _fail(_describe(error, *argv[:1]))
    except InputError as error:
        return _fail(_with_options(" ".join(str(error).split()), *argv[:1]))
    except BrokenPipeError:
        # the reader has all that it wants; what is left to flush goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except OSError as error:
        return _fail(f"{error.strerror or error}{': ' + str(error.filename) if error.filename else ''}")
    except KeyboardInterrupt:
        print("Interrupted; nothing was finished.", file=sys.stderr)
        return 130
    return status if isinstance(status, int) else 0


def _print_json(command: str, output: Output) -> None:
    """Print what a command has said and reported as one JSON object."""
    from kernelweave import __version__
    from kernelweave_app.cli.output import PrintedTable, Result

    messages = [line for line in output.messages if line]
    found: dict[str, Any] = {"command": command, "version": __version__, "messages": messages}
    result = Result(**found, **output.result, tables=[PrintedTable(**one) for one in output.tables])
    print(result.model_dump_json(indent=1, exclude_none=True))


def _describe(error: CycloptsError, asked: str = "") -> str:
    from pydantic import ValidationError

    if isinstance(error, UnknownOptionError):
        # as cyclopts compares names, the hyphens alone make them alike
        name = str(error.token.keyword or error.token.value).partition("=")[0]
        known = [one for part in error.argument_collection for one in part.names if one.startswith("--")]
        close = difflib.get_close_matches(name.lstrip("-"), [one[2:] for one in known], n=1, cutoff=0.7)
        more = f"{asked} {HELP_ALL}" if asked in WITH_SETTINGS else f"{asked} --help".strip()
        hint = f"Did you mean --{close[0]}?" if close else f"For all options: kernelweave {more}"
        return f"Unknown option: {name}. {hint}"

    if isinstance(error.__cause__, ValidationError):
        return runs.spec.describe_error(error.__cause__)
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
    seed: Annotated[int, Parameter(help="Not used: each run has its own. Every command accepts --seed.")] = 0,
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


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes commands and options, for the shell to read.

    Example: kernelweave completion bash > ~/.local/share/bash-completion/completions/kernelweave

    Parameters
    ----------
    shell
        For bash the file of the example, for zsh a file _kernelweave in a folder of $fpath, for fish
        ~/.config/fish/completions/kernelweave.fish.
    """
    print(make_app("all").generate_completion(prog_name="kernelweave", shell=shell))


def schema() -> None:
    """Print the JSON schema of what commands print with --json.

    Example: kernelweave schema
    """
    import json

    from kernelweave_app.cli.output import Result

    print(json.dumps(Result.model_json_schema(), indent=1))


#: Exit status where the reader of the output has gone, as that of a program that the signal SIGPIPE ends.
CLOSED = 141
#: Options of help for commands that have settings, and these commands.
HELP_ALL, HELP_LEARNER = "--help-all", "--help-learner"
WITH_SETTINGS = ("fit", "path", "recommend")
COMMANDS: tuple[Callable[..., object], ...] = (
    *(demo, fit, path, recommend, predict, evaluate),
    *(evidence, export, statistics, margins, reproduce, scoreboard, studio),
)
