"""Pages of the documentation: their examples run, and the names on them exist."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
#: Pages whose Python blocks are run in order, in one scope.
RUN = ["user_guide/two_layers.md", "papers/rkl_convex.md"]


@pytest.mark.parametrize("page", RUN)
def test_examples_of_pages_run(page, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.S | re.M)
    assert blocks
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), scope)
    capsys.readouterr()
