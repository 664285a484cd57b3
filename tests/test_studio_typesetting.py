"""Formulas of docstrings as MathML.

Modules: `studio/typesetting`.
"""

import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("latex2mathml", reason="needs latex2mathml, of the extra studio")

from kernelweave._docstrings import read_docstring
from kernelweave.learners import LEARNERS
from kernelweave_app.studio.typesetting import parts, to_latex, to_mathml

MATH = "{http://www.w3.org/1998/Math/MathML}"


@pytest.mark.parametrize(
    ("formula", "latex"),
    [
        ("sum_m d_m", r"\sum_{m} d_{m}"),
        ("||w||^2", r"\lVert w\rVert ^{2}"),
        ("<w, phi_d(x)> + b", r"\langle w, \phi _{d}(x)\rangle  + b"),
        ("w >= 0", r"w \ge  0"),
        ("K'(x, z)", "K'(x, z)"),
        ("1/2 c' K c", r"\frac{1}{2} c^{\top } K c"),
        ("dual_term(b)", r"\text{dual term}(b)"),
    ],
)
def test_formulas_in_latex(formula, latex):
    assert to_latex(formula) == latex


def test_every_formula_of_a_learner_is_typeset():
    seen = 0
    for learner in LEARNERS.values():
        for paragraph in parts(read_docstring(learner.__doc__).text):
            for kind, piece in paragraph:
                if kind == "text":
                    assert "sum_" not in piece
                    continue
                seen += 1
                tree = ET.fromstring(to_mathml(piece, block=kind == "block"))
                assert tree.tag == f"{MATH}math"
                words = [part.text or "" for part in tree.iter()]
                # no sign of LaTeX or of the docstring is left
                assert not any(sign in "".join(words) for sign in ("\\", "_", "sum", "phi", "|"))
                assert piece.count("sum_") == sum(word == "\u2211" for word in words)
    assert seen >= 20


def test_text_and_formulas_are_told_apart():
    text = "Over ``d``, minimises\n\n    1/2 a ,   f = b .\n\nwith words\nof two lines."
    assert parts(text) == [
        [("text", "Over "), ("inline", "d"), ("text", ", minimises")],
        [("block", "1/2 a"), ("block", "f = b")],
        [("text", "with words of two lines.")],
    ]
