"""Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernelweave._errors import InputError
from kernelweave._types import DataFrame
from kernelweave_app.runs.formats import FileLimits, Format, one_error
from kernelweave_app.runs.joining import Joined


class Parquet(Format):
    """Columns of numbers and text."""

    name = "parquet"
    suffixes = (".parquet", ".pq")
    start = b"PAR1"
    in_chunks = True

    def table(self, path: Path) -> DataFrame:
        """The table, after a check of the checksums and statistics of the file, if it has any."""
        import pandas as pd

        pq = _library()
        table = pd.read_parquet(path, engine="pyarrow", page_checksum_verification=True)
        with pq.ParquetFile(path) as file:
            _check_ranges(path, table, file.metadata)
        return table

    def check(self, path: Path, name: str, limits: FileLimits) -> None:
        """Raise for cells that are neither numbers nor text, and for too many of them."""
        pq = _library()
        import pyarrow as pa
        import pyarrow.compute as pc

        with one_error(name, "Parquet"):
            texts = []
            with pq.ParquetFile(path) as file:
                about, schema = file.metadata, file.schema_arrow
                sizes = (about.row_group(k).total_byte_size for k in range(about.num_row_groups))
                limits.check_bytes(name, sum(sizes))
                limits.check(name, about.num_rows, len(schema))
                for field in schema:
                    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
                    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                        texts.append(field.name)
                    elif (
                        pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
                    ):
                        raise InputError(
                            f"{name}: column {field.name!r} holds {kind}, neither numbers nor text."
                        )
            # one long text may stand for millions of cells: as a dictionary it is counted without being copied
            counted = 0
            with pq.ParquetFile(path, read_dictionary=texts) as file:
                for batch in file.iter_batches(batch_size=65536, columns=texts) if texts else ():
                    for column in batch.columns:
                        if hasattr(column, "dictionary"):
                            lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
                            counted += int(pc.sum(lengths).as_py() or 0)
                        else:
                            counted += int(column.nbytes)
                    limits.check_bytes(name, counted)

    def lines(self, variable: str, path: str, data: Joined) -> list[str]:
        """The call of pandas."""
        return [f"{variable} = pd.read_parquet({path!r})"]


def _library() -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install 'kernelweave[parquet]'.") from None
    return pq


def _check_ranges(path: Path, table: DataFrame, about: Any) -> None:
    """Raise if numbers are outside the range that the file states."""
    ranges: dict[str, list[Any]] = {}
    for g in range(about.num_row_groups):
        for j in range(about.num_columns):
            chunk = about.row_group(g).column(j)
            noted = chunk.statistics if chunk.is_stats_set else None
            known: tuple[Any, Any] | None = None
            if noted is not None and noted.has_min_max and noted.logical_type.type in ("NONE", "INT"):
                known = (noted.min, noted.max)
            if chunk.physical_type not in ("INT32", "INT64", "FLOAT", "DOUBLE"):
                known = None
            ranges.setdefault(chunk.path_in_schema, []).append(known)
    for name, ends in ranges.items():
        if None in ends or name not in table.columns or table[name].dtype.kind not in "iuf":
            continue
        least, most = min(end[0] for end in ends), max(end[1] for end in ends)
        low, high = table[name].min(), table[name].max()
        # comparisons with NaN, where there are no numbers, are false
        if low < least or high > most:
            raise InputError(
                f"{path} is damaged: column {name!r} has numbers from {low:g} to {high:g}, but was written with "
                f"{least:g} to {most:g}. Copy it from its source again."
            )
