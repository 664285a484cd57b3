"""Errors that are found before anything slow is imported: files that are not there, a target that no column has.

What is not found here is found later, with the same words.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernelweave._errors import InputError
from kernelweave_app.runs.folders import check_free, model_file

if TYPE_CHECKING:
    from kernelweave_app.runs.spec import Spec

#: Endings of files, other than those of formats that are read, which hold something else than CSV text.
NOT_CSV = (
    *(".arrow", ".bz2", ".db", ".dta", ".feather", ".gz", ".hdf5", ".h5", ".html", ".json", ".ods", ".onnx"),
    *(".pickle", ".pkl", ".rds", ".sas7bdat", ".sav", ".skops", ".xls", ".xlsx", ".xz", ".zip", ".zst"),
)


def check_run(
    table: str, spec: Spec, out: str | None = None, *, overwrite: bool = False, made: str = ""
) -> None:
    """Raise for a table without the target, a file of the settings that is not there, and a folder that is taken.

    Parameters
    ----------
    table : str
    spec : Spec
    out : str, optional
        Folder for the results; an empty text is an error.
    overwrite : bool
    made : str
        The file that makes a folder one of results.
    """
    from kernelweave_app.runs.formats import there
    from kernelweave_app.runs.joining import files_in

    if out == "":
        raise InputError("A folder for the results is needed: --out FOLDER.")
    if out and made:
        check_free(Path(os.path.realpath(out)), overwrite, made)
    for file in (table, *files_in(spec.join)):
        there(file)
    if isinstance(spec.views, str) and spec.views:
        from kernelweave.views.groups import AUTO, read_views

        if spec.views != AUTO:
            read_views(spec.views)
    if spec.join:
        return
    if not spec.target.count(","):
        check_column(table, spec.target, "the target")
    check_column(table, spec.time, "the time")
    if "=" not in spec.event:
        check_column(table, spec.event, "the event")
    check_column(table, spec.strata, "the strata")


def check_column(table: str, name: str, what: str) -> None:
    """Raise for a text table without a column of this name."""
    from kernelweave_app.runs.columns import no_column
    from kernelweave_app.runs.formats.text import header_of

    header = header_of(Path(table))
    if name and header and name not in header:
        raise no_column(name, what, header)


def check_model(model: str, tables: Sequence[str] = ()) -> None:
    """Raise for a model or a table that is not there."""
    model_file(model)
    if tables:
        from kernelweave_app.runs.formats import there

        for file in filter(None, tables):
            there(file)


def check_csv(out: str | Path | None) -> None:
    """Raise for a file to be written as CSV whose name says that it holds something else."""
    name = str(out or "").lower()
    if not name or name.endswith(".csv"):
        return
    from kernelweave_app.runs.formats import formats

    ends = (*NOT_CSV, *(end for one in formats() for end in one.suffixes))
    if found := max((end for end in ends if name.endswith(end)), key=len, default=""):
        raise InputError(
            f"--out is written as CSV text, got {out}, a name of another format ({found}). End it in .csv."
        )
