"""Learners, kernels and findings of other packages: modules that these name as entry points."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from kernelweave._errors import InputError

GROUP = "kernelweave.extensions"


@cache
def load_extensions() -> None:
    """Import the modules of the group `kernelweave.extensions`, which makes what they define known by its names.

    Raises
    ------
    InputError
        One of them cannot be imported.
    """
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            raise InputError(
                f"The extension {point.name!r} ({point.value}) cannot be imported, {type(error).__name__}: "
                f"{str(error).rstrip('.')}. "
                "Mend or uninstall the package that names it."
            ) from error
