"""The page of the architecture: its trees, types and signatures are those of the code."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "kernelweave"
PAGE = (ROOT / "docs" / "architecture.md").read_text()

#: A name in backticks; of a call, with the brackets and what is between them.
CODE = re.compile(r"`(\w+)(\([^`]*\))?`")


def rows_of(head):
    """The cells of the table below a heading row."""
    lines = PAGE[PAGE.index(head) :].splitlines()[2:]
    table = lines[: lines.index("")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def arguments(text):
    return [name.strip() for name in text.strip("()").split(",") if name.strip() not in ("", "*")]


def complaint(function, text, *, bound):
    """What is wrong with the arguments that the page gives: all that are needed, by their names, in order."""
    known = list(inspect.signature(function).parameters.values())[bound:]
    names, given = [p.name for p in known], arguments(text)
    if [name for name in names if name in given] != given:
        return f"{given} are not among {names}"
    needed = [p.name for p in known if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    return "" if set(needed) <= set(given) else f"{needed} are needed, got {given}"


def below(kind):
    """A class of the package and all that derive from it, by name."""
    found = {kind.__name__: kind}
    for child in kind.__subclasses__():
        # other files of tests have losses of their own with the same names
        found |= below(child) if child.__module__.startswith("kernelweave.") else {}
    return found


TYPES = rows_of("| type | what it is | methods |")


@pytest.mark.parametrize("row", TYPES, ids=lambda row: row[0].split("`")[1].split("(")[0])
def test_types_and_signatures_are_those_of_the_code(row):
    head, what, answers = row
    (name, parameters), *_ = CODE.findall(head)
    path = re.search(r"\(`([\w/]+)\.py`", head)[1]
    kind = getattr(importlib.import_module(f"kernelweave.{path.replace('/', '.')}"), name)
    # the losses that derive from it are made beside it
    importlib.import_module("kernelweave.machines.losses")
    known, wrong = below(kind), []
    if parameters:
        wrong.append(complaint(kind, parameters, bound=0))
    for other, given in re.findall(r"`([A-Z]\w+)\(([^`]*)\)`", what):
        wrong.append(complaint(known[other], given, bound=0))
    calls = CODE.findall(answers)
    assert calls
    for method, given in calls:
        if method in known:
            kind = known[method]
        elif not given:
            assert not callable(getattr(kind, method)), method
        else:
            wrong.append(complaint(getattr(kind, method), given, bound=1))
    assert [text for text in wrong if text] == []


def test_the_loop_is_called_as_the_page_says():
    from kernelweave.mkl.loop import minimise

    given = re.search(r"`minimise\(([^`]*)\)`", PAGE)[1]
    assert arguments(given) == list(inspect.signature(minimise).parameters)


def test_the_tree_is_that_of_the_layers():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    order = [name for line in layers for name in re.findall(r"\w+", line)]
    table = rows_of("| package | contents | works on |")
    assert [name for row in table for name in re.findall(r"`(\w+)`", row[0])] == order
    for head, what, _ in table:
        package, parts = re.search(r"`(\w+)`", head)[1], re.findall(r"`(\w+)`", what)
        missing = [part for part in parts if not list((SOURCE / package).glob(f"{part}*"))]
        assert missing == [], package


def test_files_on_the_page_exist():
    paths = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", PAGE)
    assert len(paths) > 15
    wings = [ROOT / "src" / name for name in ("kernelweave", "kernelweave_app", "kernelweave_papers")]
    assert [path for path in paths if not any((wing / path).exists() for wing in wings)] == []


def test_wrong_signatures_are_found():
    def solve(self, K, y, *, tol, warm_start=None):
        pass

    assert complaint(solve, "K, y, tol", bound=1) == ""
    assert complaint(solve, "K, y, tol, warm_start", bound=1) == ""
    assert complaint(solve, "K, y", bound=1)
    assert complaint(solve, "y, K, tol", bound=1)
    assert complaint(solve, "K, y, tol, C", bound=1)


def sources():
    return sorted((ROOT / "src").rglob("*.py"))


def test_what_a_class_leaves_to_others_is_abstract():
    """A method that raises NotImplementedError is found when it is called, an abstract one when an object is made."""
    assert [path for path in sources() if "raise NotImplementedError" in path.read_text("utf8")] == []


def test_imports_go_in_no_circle():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    circles = [contract for contract in contracts if contract["type"] == "acyclic_siblings"]
    # of the whole package, at every depth, without exceptions
    assert [set(contract) - {"id", "name"} for contract in circles] == [{"type", "ancestors"}]
    assert circles[0]["ancestors"] == ["kernelweave", "kernelweave_app", "kernelweave_papers"]


def test_every_module_has_a_file_of_tests():
    """By its name, that of a package around it, or by the first lines of a file, which name only what is there."""
    tests = {path.stem.removeprefix("test_"): path for path in (ROOT / "tests").glob("test_*.py")}
    said = set()
    for path in tests.values():
        head = re.match(r'(?:"""(.*?)""")?', path.read_text("utf8"), re.S)[1] or ""
        head = head.partition("Modules:")[2]
        said |= set(re.findall(r"`([\w/]+)`", head))
    found = {}
    for package in ("kernelweave", "kernelweave_app", "kernelweave_papers"):
        for path in (ROOT / "src" / package).rglob("*.py"):
            parts = path.relative_to(ROOT / "src" / package).with_suffix("").parts
            found["/".join(parts[:-1] if parts[-1] == "__init__" else parts)] = parts
    assert sorted(said - set(found)) == []
    # constants and names of types, ways in, and what is tested where it is used
    elsewhere = {"_types", "_errors", "_drawing", "_threads", "__init__", "__main__"}
    lacking = [
        name
        for name, parts in found.items()
        if name not in said
        and parts[-1] not in elsewhere
        and not any(f"{test}_".startswith(f"{part.lstrip('_')}_") for part in parts for test in tests)
    ]
    assert lacking == []
