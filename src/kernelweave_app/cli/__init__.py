"""The command line. Commands are thin: they read, call the public interface, and write."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status.

    It is 0, 2 for input that cannot be used, 130 after Ctrl-C, and 141 where nobody reads the output any more.

    Parameters
    ----------
    argv : sequence of str, optional
        Default: the arguments of the process.

    Returns
    -------
    int
    """
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        from kernelweave_app.cli.app import run

        return run(given)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module in ("", "kernelweave"):
            raise
        extra = "studio" if given[:1] == ["studio"] else _extra_of(module)
        print(
            f"kernelweave: the package {module} is missing. Install it with: pip install 'kernelweave[{extra}]'",
            file=sys.stderr,
        )
        return 2


def _extra_of(module: str) -> str:
    """The extra that installs a module, by the metadata of this package; that of the command line for all others."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("kernelweave") or []
    except PackageNotFoundError:  # a copy of the sources
        lines = []
    name = {"PIL": "pillow"}.get(module, module).replace("_", "-").lower()
    pattern = re.compile(rf"{re.escape(name)}\b(?!-).*extra == [\"']([\w-]+)")
    extras = [found[1] for line in lines if (found := pattern.match(line.lower()))]
    return extras[0] if extras and "cli" not in extras else "cli"
