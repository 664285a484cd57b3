"""Formulas of docstrings as MathML, which browsers typeset without a script, a font or a request."""

from __future__ import annotations

import re
from functools import cache

#: What stands between two formulas of a line, and at its end.
_APART = re.compile(r"\s+[,.](?:\s+|$)")
_GREEK = ("alpha", "beta", "gamma", "epsilon", "lambda", "phi", "rho", "sigma", "xi")
_OPERATORS = {"sum": r"\sum", "max": r"\max", "min": r"\min", "exp": r"\exp", "log": r"\log"}
_TOKEN = re.compile(
    r"(?P<norm>\|\|)"
    r"|(?P<rel>>=|<=|!=)"
    r"|(?P<half>(?:\d+|[A-Za-z]+)/\d+)"
    r"|(?P<word>[A-Za-z]+(?:_[a-z]{2,})?)"
    r"|(?P<under>_[A-Za-z0-9])"
    r"|(?P<power>\^[A-Za-z0-9])"
    r"|(?P<prime>')"
    r"|(?P<other>.)"
)
_RELATIONS = {">=": r"\ge ", "<=": r"\le ", "!=": r"\ne "}


def to_latex(formula: str) -> str:
    r"""Rewrite a formula of a docstring, such as ``1/2 sum_i w_i (y_i - f_i)^2``, in LaTeX.

    Parameters
    ----------
    formula : str
        On one line: names of one letter, Greek letters and words spelt out, ``sum_m``, ``max_b``, ``||f||`` for
        norms, ``<a, b>`` for inner products, ``c'`` for a transpose.

    Returns
    -------
    str

    Examples
    --------
    >>> to_latex("alpha/2 c' K(d) c")
    '\\frac{\\alpha }{2} c^{\\top } K(d) c'
    """
    formula = re.sub(r"<(\w[^<>=]*,[^<>=]*)>", "\x01\\1\x02", formula)
    out: list[str] = []
    opened = False
    last = ""
    for found in _TOKEN.finditer(formula):
        kind, token = found.lastgroup, found[0]
        if kind == "norm":
            opened = not opened
            token = r"\lVert " if opened else r"\rVert "
        elif kind == "rel":
            token = _RELATIONS[token]
        elif kind == "half":
            above, _, below = token.partition("/")
            token = rf"\frac{{{_word(above)}}}{{{below}}}"
        elif kind == "word":
            token = _word(token)
        elif kind == "under" or kind == "power":
            token = f"{token[0]}{{{token[1]}}}"
        elif kind == "prime":
            # a capital letter with a prime is another kernel, a small one a transposed vector
            token = "'" if last.isupper() else r"^{\top }"
        elif token == "\x01":
            token = r"\langle "
        elif token == "\x02":
            token = r"\rangle "
        out.append(token)
        last = found[0]
    return "".join(out)


def _word(word: str) -> str:
    """A name in LaTeX."""
    if word.isdigit() or len(word) == 1:
        return word
    if word in _GREEK:
        return rf"\{word} "
    return _OPERATORS.get(word) or rf"\text{{{word.replace('_', ' ')}}}"


@cache
def to_mathml(formula: str, *, block: bool = False) -> str:
    """A formula of a docstring as MathML.

    Parameters
    ----------
    formula : str
        As `to_latex` takes it.
    block : bool
        In a line of its own.

    Returns
    -------
    str
    """
    from latex2mathml.converter import convert

    return convert(to_latex(formula), display="block" if block else "inline")


def parts(text: str) -> list[list[tuple[str, str]]]:
    """Divide the text of a docstring into paragraphs, and these into pieces of text and formulas.

    Parameters
    ----------
    text : str
        Paragraphs; formulas are indented lines, or stand between double backticks.

    Returns
    -------
    list of list of (kind, content)
        Kinds are "text", "inline" and "block".
    """
    found: list[list[tuple[str, str]]] = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if paragraph.startswith("    "):
            # formulas of one line are set below each other
            found += [
                [("block", piece) for piece in _APART.split(line.strip()) if piece]
                for line in paragraph.splitlines()
            ]
            continue
        joined = " ".join(paragraph.split())
        pieces = [
            ("inline" if k % 2 else "text", piece) for k, piece in enumerate(re.split(r"``([^`]*)``", joined))
        ]
        found.append([piece for piece in pieces if piece[1]])
    return found
