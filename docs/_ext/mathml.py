"""Formulas as MathML, made while building: no script, no font and no request is needed to show them."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def to_mathml(node: nodes.Element, display: str) -> str:
    try:
        return convert(node.astext().strip(), display=display)
    except Exception as error:  # any failure of the converter is a fault of the page
        logger.warning("cannot convert the formula %r: %r", node.astext(), error, location=node)
        return ""


def visit_inline(self, node: nodes.math) -> None:
    self.body.append(to_mathml(node, "inline"))
    raise nodes.SkipNode


def visit_block(self, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    if node.get("number"):
        self.body.append(f'<span class="eqno">({node["number"]})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append(to_mathml(node, "block"))
    self.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
