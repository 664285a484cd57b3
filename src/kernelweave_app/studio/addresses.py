"""Addresses of the studio: the part that only its pages know, and the project.

Browsers send a cookie to every port of a computer, but only with addresses below its path. The path of a session is
therefore a secret of the data folder, as in ``/s/SECRET/p/PROJECT/runs``: other services here never get the cookie,
and the cookie alone opens nothing.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import Scope

#: What comes before the path that the application sees.
_BEFORE = re.compile(r"(?:/s/(?P<secret>[A-Za-z0-9_-]{1,100}))?(?:/p/(?P<project>[a-z0-9]{1,20}))?(?=/|$)")


def enter(scope: Scope, secret: str) -> bool:
    """Divide the address of a request into what comes before the path of the application, and that path.

    Parameters
    ----------
    scope : dict
        Of the request; `root_path` and the project are put into it.
    secret : str
        The secret part of addresses with a session.

    Returns
    -------
    bool
        Whether the address has the secret part.
    """
    found = _BEFORE.match(scope["path"])
    given = (found["secret"] or "") if found else ""
    inside = bool(given) and hmac.compare_digest(given.encode(), secret.encode())
    # another secret part is an address like any that does not exist
    before = found[0] if found and (inside or not given) else ""
    project = found["project"] if before and found else None
    if before == scope["path"]:
        scope["path"] += "/"
    scope["root_path"] = before
    scope.setdefault("state", {}).update(project=project or "", base=base_of(secret) if inside else "")
    return inside


def base_of(secret: str) -> str:
    """The path of a session's cookie."""
    return f"/s/{secret}"


def path_of(scope: Mapping[str, Any]) -> str:
    """The path that the application sees."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def project_of(scope: Mapping[str, Any]) -> str:
    """The project in the address of a request, empty for none."""
    return str(scope.get("state", {}).get("project", ""))


def base_in(scope: Mapping[str, Any]) -> str:
    """The path of the session's cookie if the address of a request begins with it, else empty."""
    return str(scope.get("state", {}).get("base", ""))


def address_of(scope: Mapping[str, Any], project: str, path: str = "/") -> str:
    """The address of a page of a project, for one who has a request with an address."""
    return f"{base_in(scope)}/p/{project}{path}"
