"""Tables that are uploaded: counted while they arrive, checked by their content, then stored."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

from kernelweave._errors import InputError
from kernelweave_app.studio.catalogue import describe_file, try_reading
from kernelweave_app.studio.checking import check_table_file
from kernelweave_app.studio.disk import room
from kernelweave_app.studio.limits import Limits
from kernelweave_app.studio.places import Places, free_path, safe_name
from kernelweave_app.studio.schema import TableRef


async def receive_table(name: str, stream: AsyncIterator[bytes], places: Places, limits: Limits) -> TableRef:
    """Receive a table as a stream of bytes: checked in size and content, then moved to the project's folder.

    Parameters
    ----------
    name : str
    stream : iterator of bytes
    places : Places
        Of the project.
    limits : Limits

    Returns
    -------
    TableRef
    """
    from starlette.concurrency import run_in_threadpool

    name = safe_name(name)
    part = places.uploads / f"{time.time_ns():x}.part"
    count = 0
    try:
        with room(places.root):
            with part.open("wb") as file:
                async for chunk in stream:
                    count += len(chunk)
                    if count > limits.upload:
                        raise InputError(f"{name} is larger than the limit of {limits.upload} bytes.")
                    await run_in_threadpool(file.write, chunk)
            if not count:
                raise InputError(f"{name} is empty.")
            return await run_in_threadpool(take_in, part, name, places, limits)
    finally:
        part.unlink(missing_ok=True)


def take_in(part: Path, name: str, places: Places, limits: Limits) -> TableRef:
    """Check a file and move it to the tables of a project, under a name that is free there."""
    check_table_file(part, name, limits)
    # read under its own suffix, so that a file that cannot be parsed is refused before it is stored
    trial = part.with_name(f"{part.stem}-{name}")
    part.rename(trial)
    try:
        try_reading(trial)
        if not places.files.is_dir():
            raise InputError("There is no project for this table any more. It may have been deleted.")
        path = free_path(places.files, name)
        try:
            trial.replace(path)
        except OSError:
            path.unlink(missing_ok=True)
            raise
    except InputError as error:
        raise InputError(str(error).replace(str(trial), name)) from None
    finally:
        trial.unlink(missing_ok=True)
    return describe_file(path)
