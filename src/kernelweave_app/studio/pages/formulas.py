"""Texts with formulas, typeset."""

from __future__ import annotations

from nicegui import ui

from kernelweave_app.studio.pages.shell import stack, text
from kernelweave_app.studio.typesetting import parts, to_mathml


def typeset(content: str) -> None:
    """Paragraphs of a docstring; formulas as MathML, below each other where they have lines of their own."""
    with stack("kw-formulas").props('role=group aria-label="Objective"'):
        for paragraph in parts(content):
            if all(kind == "block" for kind, _ in paragraph):
                with stack("kw-formula").props("tabindex=0"):
                    for _, formula in paragraph:
                        # made of docstrings of this package, so that nothing of a user is in it
                        ui.html(to_mathml(formula, block=True), sanitize=False)
                continue
            with ui.element("p"):
                for kind, piece in paragraph:
                    if kind == "text":
                        text(piece, "span")
                    else:
                        ui.html(to_mathml(piece), sanitize=False, tag="span")
