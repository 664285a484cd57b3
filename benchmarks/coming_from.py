"""Run what docs/coming_from.md does with other programs, and write the differences that it finds.

    RIVALS/bin/python benchmarks/coming_from.py [adelie celer ...] [--out benchmarks/results/coming_from.json]

An interpreter that has the other programs and kernelweave runs the first block of the page, which makes the data, and
then each block below `<!-- program: NAME -->`. The last line of such a block is a largest difference, and the page
states the bound that must hold. Programs that cannot be imported are left out, and keep the record that they have.
"""

from __future__ import annotations

import argparse
import ast
import doctest
import importlib
import json
import re
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coming_from.md"
OUT = Path(__file__).resolve().parent / "results" / "coming_from.json"
#: A marked block, what it finds, and the bound that the page states after it.
BLOCK = re.compile(
    r"<!-- program: (?P<program>\w+) -->\n```python\n(?P<code>.*?)\n```\n+"
    r"Largest difference (?P<what>.*?): below (?P<bound>\d+e-?\d+)\.",
    re.S,
)


def blocks(text: str) -> list[dict[str, str]]:
    """The marked blocks of the page, in order."""
    return [found.groupdict() for found in BLOCK.finditer(text)]


def data_of(text: str) -> dict[str, Any]:
    """The names that the first block of the page makes."""
    first = re.search(r"^```python\n(.*?)^```", text, re.S | re.M)
    assert first is not None
    scope: dict[str, Any] = {}
    exec("".join(example.source for example in doctest.DocTestParser().get_examples(first[1])), scope)
    return scope


def value_of(code: str, scope: dict[str, Any]) -> float:
    """Run a block, and return its last expression."""
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), "the last line of a block is the difference"
    exec(compile(tree, str(PAGE), "exec"), scope)
    return float(eval(compile(ast.Expression(last.value), str(PAGE), "eval"), scope))


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    text = PAGE.read_text()
    results: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    fresh: set[str] = set()
    for block in blocks(text):
        name = block["program"]
        if given.programs and name not in given.programs:
            continue
        try:
            importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed here")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = value_of(block["code"], data_of(text))
        if name not in fresh:
            results[name] = {"version": version(name), "numpy": version("numpy"), "differences": {}}
            fresh.add(name)
        results[name]["differences"][block["what"]] = float(f"{found:.2e}")
        kept = "" if found < float(block["bound"]) else "  NOT BELOW " + block["bound"]
        print(f"{name} {version(name)}: {block['what']} {found:.1e}{kept}", flush=True)
        given.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return results


if __name__ == "__main__":
    main()
