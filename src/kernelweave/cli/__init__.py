"""The command line. Commands are thin: they read, call the public interface, and write."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status: 0, 2 for input that cannot be used, 130 after Ctrl-C.

    Parameters
    ----------
    argv : sequence of str, optional
        Default: the arguments of the process.

    Returns
    -------
    int
    """
    from kernelweave.cli.app import run

    return run(list(sys.argv[1:] if argv is None else argv))
