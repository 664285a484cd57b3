"""The choice of columns from a list, which is searched where it is long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

from kernelweave_app.studio.pages.shell import plural

#: Columns that a list shows at once; of longer lists, those that match the typed text.
MOST_OPTIONS = 200


def pick_column(
    names: Sequence[str],
    value: Any,
    label: str,
    on_change: Callable[[Any], Any],
    *,
    multiple: bool = False,
    clearable: bool = False,
    hint: str = "",
) -> Any:
    """A list of columns; a long one is searched here, so that the browser is not sent all of it.

    Parameters
    ----------
    names : sequence of str
    value : str, list of str or None
        Chosen; what is not among the names is left out.
    label : str
    on_change : callable
    multiple, clearable : bool, default=False
    hint : str, default=""

    Returns
    -------
    Select
    """
    known = set(names)
    if multiple:
        value = [name for name in value or [] if name in known]
    elif value not in known:
        value = None
    long = len(names) > MOST_OPTIONS

    def offered(text: str, chosen: Any) -> list[str]:
        kept = [chosen] if isinstance(chosen, str) else list(chosen or [])
        if text == chosen:  # the field shows what is chosen, and nothing has been typed
            text = ""
        return list(dict.fromkeys([*find_columns(names, text), *kept]))

    pick = ui.select(
        offered("", value) if long else list(names),
        value=value,
        label=label,
        multiple=multiple,
        with_input=len(names) > 12,
        on_change=on_change,
    )
    pick.props(
        "outlined dense options-dense"
        + (" clearable" if clearable else "")
        + (" use-chips" if multiple else "")
    )
    if long:
        count = f"{plural(len(names), 'column')}: type a part of the name"
        hint = f"{hint}. {count}" if hint else count
        pick.on(
            "input-value",
            lambda event: pick.set_options(
                offered(event.args if isinstance(event.args, str) else "", pick.value)
            ),
            throttle=0.2,
            leading_events=False,
        )
    if hint:
        pick.props["hint"] = hint
    return pick


def find_columns(names: Sequence[str], text: str, most: int = MOST_OPTIONS) -> list[str]:
    """Columns whose names hold a text, those that begin with it first.

    Parameters
    ----------
    names : sequence of str
    text : str
    most : int, default=200

    Returns
    -------
    list of str
    """
    part = text.lower()
    if not part:
        return list(names[:most])
    found = [name for name in names if part in name.lower()]
    # sorting keeps the order of the table within both halves
    return sorted(found, key=lambda name: not name.lower().startswith(part))[:most]
