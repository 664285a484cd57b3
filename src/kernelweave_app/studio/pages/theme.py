"""Appearance of the studio: colours, type and space, for light and dark."""

from __future__ import annotations

from pathlib import Path

from kernelweave._drawing import COLOURS, LOWERS, RAISES

#: Colours of charts, --c1, --c2, ... in the style sheet, and those of contributions: the same in light and dark, and in
#: figures for papers.
N_COLOURS = len(COLOURS)
#: Dashes, which distinguish lines in addition to colour.
DASHES: tuple[str | list[int], ...] = ("solid", [6, 3], [2, 2], [8, 3, 2, 3])

_HERE = Path(__file__).parent
_NAMED = {**{f"c{k}": value for k, value in enumerate(COLOURS, start=1)}, "raises": RAISES, "lowers": LOWERS}
CSS = f"body {{ {' '.join(f'--{name}: {value};' for name, value in _NAMED.items())} }}\n" + (
    _HERE / "studio.css"
).read_text(encoding="utf8")
#: Script with which charts read their colours, so that they adapt to light and dark.
SCRIPT = (_HERE / "studio.js").read_text(encoding="utf8")

LOGO = """<svg width="30" height="30" viewBox="0 0 30 30" fill="none" aria-hidden="true">
<path d="M5 4c0 11 20 11 20 22" stroke="#0072B2" stroke-width="3.2" stroke-linecap="round"/>
<path d="M25 4c0 11-20 11-20 22" stroke="#E69F00" stroke-width="3.2" stroke-linecap="round"/>
<path d="M15 4v22" stroke="#009E73" stroke-width="3.2" stroke-linecap="round"/></svg>"""

FAVICON = LOGO.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ').replace(' aria-hidden="true"', "")
