"""Who asks: the project in the address of a request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from kernelweave_app.studio.addresses import project_of
from kernelweave_app.studio.service import Studio


def here(request: Request) -> Studio:
    """The studio as seen from the project in the address of a request, or from the oldest."""
    studio: Studio = request.app.state.studio
    return studio.inside(project_of(request.scope))


def everywhere(request: Request) -> Studio:
    """The studio with all its projects."""
    studio: Studio = request.app.state.studio
    return studio


Here = Annotated[Studio, Depends(here)]
Everywhere = Annotated[Studio, Depends(everywhere)]
