"""Limits of what the studio accepts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of uploads and requests.

    Attributes
    ----------
    upload : int
        Bytes of a table that is uploaded.
    unpacked : int
        Bytes of a table after decompression.
    cells : int
        Rows times columns of a table.
    columns : int
        Columns of a table.
    views : int
        Bytes of a file of views.
    project, project_unpacked : int
        Bytes of the file of a project, and of what is in it.
    body : int
        Bytes of any other request.
    """

    upload: int = 200_000_000
    unpacked: int = 2**30
    cells: int = 100_000_000
    columns: int = 100_000
    views: int = 32_000_000
    project: int = 2_000_000_000
    project_unpacked: int = 2**33
    body: int = 4 * 2**20
