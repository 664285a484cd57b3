"""Search for files: a data folder, the cache, the data sets of scikit-learn, and the public sites."""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path
from typing import Any

from kernelweave._errors import InputError
from kernelweave.datasets.faults import find_fault
from kernelweave.datasets.reading import RawTable, content_checksum, read_bytes, read_delimited, read_table
from kernelweave.datasets.registry import DatasetInfo

#: Environment variable with the folder of the user's copies.
FOLDER_VARIABLE = "KERNELWEAVE_DATA"
#: Environment variable with the folder for downloads.
CACHE_VARIABLE = "KERNELWEAVE_CACHE"
#: Seconds without a response after which a site counts as unreachable.
TIMEOUT = 20


class DataWarning(UserWarning):
    """A copy of a data set differs from the one used for the published results."""


def data_folder() -> Path | None:
    """The folder named by ``KERNELWEAVE_DATA``, if it is set."""
    value = os.environ.get(FOLDER_VARIABLE)
    if not value:
        return None
    folder = Path(value)
    if not folder.is_dir():
        raise InputError(f"{FOLDER_VARIABLE} must name a folder, got {value!r}.")
    return folder


def cache_folder() -> Path:
    """The folder for downloads: ``KERNELWEAVE_CACHE``, or a place in the user's cache."""
    value = os.environ.get(CACHE_VARIABLE)
    if value:
        return Path(value)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kernelweave" / "datasets"


def find_local(info: DatasetInfo) -> tuple[str, Path | None]:
    """Return where a set is available without a network: ("data folder" | "cache" | "scikit-learn" | "", path)."""
    folder = data_folder()
    names = [info.file, info.file.removesuffix(".gz"), f"{info.file}.gz"]
    for place, root in (("data folder", folder), ("cache", cache_folder())):
        for name in dict.fromkeys(names):
            if root is not None and (root / name).is_file():
                return place, root / name
    if info.bundled:
        return "scikit-learn", None
    return "", None


def fetch(info: DatasetInfo, *, download: bool = True, progress: bool = False) -> tuple[RawTable, str]:
    """Return the raw table of a data set, checked, and where it was found."""
    place, path = find_local(info)
    if path is not None:
        content = read_bytes(path)
        table = read_table(content, path.name)
        if hashlib.sha256(content).hexdigest() != info.bytes_sha256:
            _check(info, table, str(path))
        needed = [*info.drop, *info.categorical, *([info.flag.partition("=")[0]] if info.flag else [])]
        if missing := [column for column in needed if column not in table.columns]:
            raise InputError(f"{path.name} must have the columns {missing}, got {list(table.columns)[:50]}.")
        return table, place
    if place == "scikit-learn":
        table = _bundled(info)
        _check(info, table, "scikit-learn")
        return table, place
    if not info.url:
        raise InputError(
            f"{info.name} is not here and has no address to download it from. How to get it: {info.how} "
            f"Save it as {info.file} in the folder that {FOLDER_VARIABLE} names."
        )
    if not download:
        raise InputError(
            f"{info.name} is not here. Allow its download from {info.url}, or save it as {info.file} in the folder "
            f"that {FOLDER_VARIABLE} names."
        )
    return _download(info, progress), "download"


def _check(info: DatasetInfo, table: RawTable, origin: str) -> None:
    """Compare a table with its registered checksum; refuse copies with known faults."""
    if content_checksum(table) == info.content_sha256:
        return
    reason = find_fault(info.name, table)
    if reason:
        raise InputError(
            f"{origin} is a corrupted copy of {info.name}: {reason} Get a sound one ({info.how})"
            + (f", or load the corrupted one on purpose as '{info.name}_keel'." if "KEEL" in reason else ".")
        )
    warnings.warn(
        f"{origin} differs from the copy of {info.name} used for the published results "
        f"(it has {len(table.rows)} rows where {info.n_samples} are expected).",
        DataWarning,
        stacklevel=5,
    )


def _bundled(info: DatasetInfo) -> RawTable:
    import sklearn.datasets

    bunch: Any = getattr(sklearn.datasets, info.bundled)()
    names = [*map(str, bunch.feature_names), "target"]
    classes = [str(label) for label in getattr(bunch, "target_names", ())]
    columns = info.columns or tuple(name.replace(" ", "_") for name in names[:-1])
    recode = dict(info.layout.recode) if info.layout else {}
    rows = []
    for row, target in zip(bunch.data.tolist(), bunch.target.tolist(), strict=True):
        label = classes[int(target)] if classes and info.task != "regression" else repr(target)
        rows.append([*map(repr, row), recode.get(label, label)])
    return RawTable((*columns, "target"), rows)


# ---- downloads ------------------------------------------------------------------------------------


def _download(info: DatasetInfo, progress: bool) -> RawTable:
    """Download the published file, check its content, and store it in the cache in our layout."""
    try:
        import pooch
    except ImportError:
        raise InputError(
            f"{info.name} is not here, and downloading it needs the package pooch: pip install 'kernelweave[datasets]'."
        ) from None
    folder = cache_folder()
    name = f"{info.name}.download"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pooch.get_logger().setLevel("WARNING")
        saved = Path(pooch.retrieve(info.url, None, name, folder, downloader=Resuming(progress)))
    except OSError as error:  # exceptions of requests are OSErrors too
        raise InputError(
            f"{info.name} is not here and could not be downloaded from {info.url}: {_short(error)}. Connect and try "
            f"again (a partial download is continued), or save it as {info.file} in the folder that "
            f"{FOLDER_VARIABLE} names."
        ) from None
    content = saved.read_bytes()
    try:
        if info.layout is None:
            table = read_table(content, info.file)
        else:
            table = read_delimited(content, saved.name, info.layout, (*info.columns, "target"))
        _check(info, table, info.url)
    except (InputError, IndexError, ValueError) as error:
        saved.unlink(missing_ok=True)
        if isinstance(error, InputError):
            raise
        raise InputError(f"The file from {info.url} is not the expected one: {error}.") from None
    _save(table, folder / info.file.removesuffix(".gz"))
    saved.unlink(missing_ok=True)
    return table


def _short(error: BaseException) -> str:
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    return str(cause) or type(cause).__name__


def _save(table: RawTable, path: Path) -> None:
    import csv

    partial = path.with_name(path.name + ".part")
    with partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([table.columns, *table.rows])
    partial.replace(path)


class Resuming:
    """A downloader for pooch that resumes interrupted transfers.

    Parameters
    ----------
    progress : bool
        Print a line occasionally.
    """

    CHUNK = 2**16
    EVERY = 16 * 2**20

    def __init__(self, progress: bool = False) -> None:
        self.progress = progress

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        """Download to `output_file`, with a partial file beside the cache until it is complete."""
        import requests

        # pooch writes to a temporary name and deletes it when a transfer fails; this file is kept
        kept = Path(output_file).parent / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.part"
        done = kept.stat().st_size if kept.exists() else 0
        headers = {"Range": f"bytes={done}-"} if done else {}
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
            if answer.status_code == 416:
                kept.unlink()
                raise OSError("the earlier partial download does not match the file; try again")
            answer.raise_for_status()
            fresh = answer.status_code != 206
            told = done = 0 if fresh else done
            with kept.open("wb" if fresh else "ab") as file:
                for chunk in answer.iter_content(self.CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    if self.progress and done - told > self.EVERY:
                        told = done
                        print(f"{url}: {done / 2**20:.0f} MiB", flush=True)
            expected = answer.headers.get("Content-Length")
            start = 0 if fresh else int(headers["Range"][6:-1])
            if expected is not None and done - start < int(expected):
                raise OSError(f"the connection ended after {done} bytes")
        kept.replace(output_file)
