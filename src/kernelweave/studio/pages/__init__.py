"""The pages, on NiceGUI: views of what the service knows."""

from __future__ import annotations

from fastapi import FastAPI

from kernelweave.studio.service import Studio

__all__ = ["add_pages"]


def add_pages(app: FastAPI, studio: Studio) -> None:
    """Add the user interface to an application.

    Parameters
    ----------
    app : FastAPI
    studio : Studio
    """
