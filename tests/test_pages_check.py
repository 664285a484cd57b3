"""The checks of built pages (docs/_ext/check_pages.py, table_cards.py), each on a small page with one fault."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PIXEL = '<svg xmlns="http://www.w3.org/2000/svg"><path/><path/><path/></svg>'
SCROLLS = ".pst-scrollable-table-container{overflow-x:auto}"
WIDE = f"<table><tr><td>{'a' * 30}</td><td>{'b' * 30}</td></tr></table>"


def module(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


check = module("check_pages")


def complaints(folder, body, **files):
    (folder / "page.html").write_text(f"<html><body>{body}</body></html>")
    (folder / "style.css").write_text(SCROLLS)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return check.problems_of(folder)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("<p>&lt;kernelweave.plots.CVCurveDisplay object at 0x7f&gt;</p>", "without a representation"),
        ("<p>kernels (mean diagonal</p><ol><li><p>and lets C go</p></li></ol>", "middle of a sentence"),
        ("<p>the combined kernel, its</p>\n<ul><li>factorisation</li></ul>", "middle of a sentence"),
        ('<img src="missing.png">', "is missing"),
        ('<img src="nothing.svg">', "draws nothing"),
        ('<img src="void.svg">', "an empty file"),
        ("<figure><figcaption>Weights</figcaption></figure>", "holds nothing"),
        ('<a href="other.html">there</a>', "dead link"),
        ('<a href="#nowhere">there</a>', "dead link"),
        ('<a href="page.html#no">there</a>', "dead link"),
        (WIDE, "in nothing that scrolls"),
        (f'<div class="other">{WIDE}</div>', "in nothing that scrolls"),
        ("<p>" + "long " * 400_001 + "</p>", "2.0 MB"),
    ],
)
def test_every_fault_is_found(tmp_path, body, told):
    [found] = complaints(tmp_path, body, nothing_svg="<svg><defs><path/></defs><rect/></svg>", void_svg="")
    assert found.startswith("page.html: ")
    assert told in found


def test_pages_in_order_pass(tmp_path):
    body = f"""
      <h1 id="top">A page</h1><p>A <code>object at 0</code>, and three things (all of them):</p>
      <ul><li><a href="#top">top</a></li><li><a href="https://example.org/x#y">elsewhere</a></li></ul>
      <p class="rubric">References</p><ol><li><a href="page.html#top">a paper</a></li></ol>
      <p>A sentence that ends.</p><ol><li><a href="figure.svg">a picture</a></li></ol>
      <figure><img src="figure.svg"><figcaption>A path</figcaption></figure>
      <div class="pst-scrollable-table-container">{WIDE}</div>
      <table><tr><td>many short words that can be broken {"and again " * 20}</td></tr></table>
      <script>"object at 0x00"</script>"""
    assert complaints(tmp_path, body, figure_svg=PIXEL) == []


def test_a_wrapper_without_its_style_is_not_enough(tmp_path):
    body = f'<div class="pst-scrollable-table-container">{WIDE}</div>'
    assert complaints(tmp_path, body) == []
    (tmp_path / "style.css").write_text(".pst-scrollable-table-container{color:red}")
    assert len(check.problems_of(tmp_path)) == 1


def test_pictures_of_one_colour_are_found(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    for name, colours in (("blank", [255, 255]), ("drawn", [255, 0])):
        image = pillow.new("L", (2, 1))
        image.putdata(colours)
        image.save(tmp_path / f"{name}.png")
    [found] = complaints(tmp_path, '<img src="blank.png"><img src="drawn.png">')
    assert "'blank.png' is of one colour" in found


def test_pictures_count_towards_the_size_of_a_page(tmp_path):
    heavy = PIXEL + " " * 1_500_000
    assert complaints(tmp_path, '<img src="a.svg"><img src="a.svg">', a_svg=heavy) == []
    [found] = complaints(tmp_path, '<img src="a.svg"><img src="b.svg">', a_svg=heavy, b_svg=heavy)
    assert "3.0 MB" in found


def test_the_command_fails_and_says_where(tmp_path, capsys):
    assert check.main(str(tmp_path)) == 1
    complaints(tmp_path, '<a href="gone.html">x</a>')
    assert check.main(str(tmp_path)) == 1
    assert "gone.html" in capsys.readouterr().out
    complaints(tmp_path, "<p>fine.</p>")
    assert check.main(str(tmp_path)) == 0


def test_cells_of_cards_name_their_columns():
    table = "<thead><tr><th><code>a</code>=</th><th>b</th></tr></thead><tr><td>1</td><td>2</td></tr></table>"
    made = module("table_cards").labelled(table)
    assert '<td data-label="a=">1</td><td data-label="b">2</td>' in made


def test_smaller_pictures_keep_their_scales():
    """Two decimals in paths; a factor with two would shrink the glyphs of every label."""
    pytest.importorskip("pandas")
    page = module("experiment_page")
    mark = '<!-- a -->\n  <g id="xtick_1">\n   <use x="1.23456"/>\n  </g>\n'
    svg = mark + '<path transform="scale(0.015625)" d="M 1.23456 2"/>'
    small = page.shortened(svg)
    assert 'd="M 1.23 2"' in small
    assert 'scale(0.015625)"' in small
    assert 'x="1.23456"' in small
    assert "xtick" not in small
    assert page.printed("84 (3.28)") == "[84 (3.28)]{.printed}"
    assert page.printed("–") == "–"


EXAMPLES = sorted((DOCS.parent / "examples").rglob("plot_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_ask_answer_and_certify(path):
    """A question as the title, an answer below it, a figure, and how exact the fit is. `make docs` runs them."""
    tree = ast.parse(path.read_text())
    title, line, answer = ast.get_docstring(tree).split("\n", 2)
    assert title.endswith("?")
    assert line == "=" * len(title)
    assert answer.strip().endswith(".")
    code = path.read_text().split('"""', 2)[2]
    assert "plt." in code or "kw.plots." in code
    assert "plt.show" not in code, "figures are taken when a block ends"
    assert re.search(r"gap|status", code)


def test_there_are_enough_examples():
    assert len(EXAMPLES) >= 24
    assert sum(path.parent.name == "case_studies" for path in EXAMPLES) == 7
