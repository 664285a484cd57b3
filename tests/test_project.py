"""The project about itself: layers, cost of importing, public names, docstrings, README."""

import ast
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import tomllib
import types
import warnings
from pathlib import Path

import pytest

import kernelweave as kw

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ["torch", "dask", "matplotlib", "sklearn", "rich", "pandas", "polars", "cyclopts", "pydantic"]
HEAVY += ["fastapi", "nicegui", "psutil", "starlette", "uvicorn"]


#: Public modules that are not on the front page.
OTHERS = ("normalizers", "problems", "results", "views")


def public_modules() -> list[types.ModuleType]:
    return [
        value for name in (*kw.__all__, *OTHERS) if isinstance(value := getattr(kw, name), types.ModuleType)
    ]


def public_objects() -> dict[str, object]:
    """Return public functions and classes by their full names."""
    found = {f"kernelweave.{name}": getattr(kw, name) for name in kw.__all__}
    found |= {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in public_modules()
        for name in module.__all__
    }
    return {
        name: value for name, value in found.items() if inspect.isfunction(value) or inspect.isclass(value)
    }


# ---- layers and imports ---------------------------------------------------------------------------------------------


def test_layers():
    command = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", command, "--no-cache"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_loads_nothing_heavy():
    code = f"import sys, kernelweave; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_only_pictures_and_what_is_above_them_load_matplotlib():
    # Everything that a model needs, in one process; learners by name. Not rich: scikit-learn's callbacks load it where
    # it is installed.
    names = [n for n in kw.__all__ if n != "plots"]
    unused = ["matplotlib", "torch", "dask", "cyclopts", "kernelweave.learners.deep"]
    code = (
        "import sys, kernelweave as kw\n"
        f"for name in {names!r}: getattr(kw, name)\n"
        "assert 'mlmkl' in kw.learners.LEARNERS and 'dmkl' in list(kw.learners.LEARNERS)\n"
        f"print(*[name for name in {unused!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# ---- public names ---------------------------------------------------------------------------------------------------


def test_all_is_sorted_complete_and_importable():
    assert len(set(kw.__all__)) == len(kw.__all__)
    assert {name for name in dir(kw) if not name.startswith("_")} == set(kw.__all__)
    for name in kw.__all__:
        assert getattr(kw, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        kw.no_such_name  # noqa: B018


def test_type_checkers_see_what_is_imported():
    # one list serves both: what it says to type checkers must be what comes out at run time
    tree = ast.parse(Path(kw.__file__).with_suffix(".pyi").read_text())
    own = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module.split(".")[0] == "kernelweave"]
    seen = {alias.asname: (node.module, alias.name) for node in own for alias in node.names}
    assert set(seen) > set(kw.__all__)
    for name, (module, original) in seen.items():
        assert original == name
        with warnings.catch_warnings():
            # of former names
            warnings.simplefilter("ignore", DeprecationWarning)
            value = getattr(kw, name)
        if isinstance(value, types.ModuleType):
            assert value.__name__ == f"{module}.{name}"
        else:
            assert value is getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("module", public_modules(), ids=lambda module: module.__name__)
def test_modules_list_their_public_names(module):
    own = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    }
    assert own <= set(module.__all__), "public, but not in __all__"
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert missing == []


# ---- docstrings -----------------------------------------------------------------------------------------------------


def parameter_entries(doc: str) -> list[tuple[list[str], str]]:
    """Return the names and the type line of each entry of a numpydoc section "Parameters"."""
    match = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", inspect.cleandoc(doc), re.S | re.M)
    if not match:
        return []
    heads = [line for line in match[1].splitlines() if line and not line[0].isspace()]
    entries = []
    for head in heads:
        names, _, kind = head.partition(" : ")
        entries.append(([name.strip().lstrip("*") for name in names.split(",")], kind))
    return entries


def documented_default(kind: str) -> object:
    """Return the value after "default=" of a type line, or `inspect.Parameter.empty`."""
    match = re.search(r"default[=:]\s*(.+?)\s*$", kind)
    if not match:
        return inspect.Parameter.empty
    try:
        return ast.literal_eval(match[1])
    except (SyntaxError, ValueError):
        return match[1]


def complaints(value: object) -> list[str]:
    """Compare the section "Parameters" with the signature."""
    try:
        parameters = inspect.signature(value).parameters
    except ValueError:  # a class that Python cannot describe
        return []
    found, seen = [], set()
    for names, kind in parameter_entries(value.__doc__ or ""):
        for name in names:
            seen.add(name)
            if name not in parameters:
                found.append(f"{name} is documented, but not a parameter")
                continue
            default, said = parameters[name].default, documented_default(kind)
            empty = inspect.Parameter.empty
            if said is not empty and (default is empty or (said != default and said != repr(default))):
                found.append(f"{name}: the text says {said!r}, the signature {default!r}")
            elif said is empty and kind and default not in (empty, None) and "optional" not in kind:
                found.append(f"{name}: the text does not say default={default!r}")
    if seen:
        required = {name for name in parameters if not name.startswith("_")}
        found += [f"{name} is not documented" for name in sorted(required - seen)]
    return found


def test_the_comparison_of_docstrings_can_fail():
    def good(a, b=1, *, c="x", d=None):
        """Do.

        Parameters
        ----------
        a, b : int, default=1
            Both.
        c : {"x", "y"}, default="x"
            Text.
        d : int, optional
            Text.

        Returns
        -------
        e : int
        """

    def bad(a, b=1, c=2, d=3):
        """Do.

        Parameters
        ----------
        a : int
        b : int, default=2
        c : int
        e : int
        """

    assert complaints(good) == ["a: the text says 1, the signature <class 'inspect._empty'>"]
    assert complaints(bad) == [
        "b: the text says 2, the signature 1",
        "c: the text does not say default=2",
        "e is documented, but not a parameter",
        "d is not documented",
    ]


def test_docstrings_state_the_defaults_of_the_signature():
    objects = public_objects()
    assert [name for name, value in objects.items() if not value.__doc__] == []
    found = {name: complaints(value) for name, value in objects.items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


# ---- README ---------------------------------------------------------------------------------------------------------


def test_readme_example_runs(capsys):
    text = (ROOT / "README.md").read_text()
    code = re.search(r"^```python\n(.*?)^```$", text, re.S | re.M)[1]
    assert len(code.strip().splitlines()) <= 12, "a quick example is short"
    scope: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), scope)
    model = scope["model"]
    assert model.score(scope["X"][1::2], scope["y"][1::2]) > 0.93
    assert 0.0 <= model.rel_gap_ <= 1e-6
    # the printed result, but for the digits of the gap and the last one of weights
    printed = re.search(r"^```text\n(.*?)^```$", text, re.S | re.M)[1]
    found = capsys.readouterr().out
    number = r"\d\.\d+(?!e)"
    assert re.sub(r"[\d.e-]+", "#", found) == re.sub(r"[\d.e-]+", "#", printed)
    said, got = ([float(v) for v in re.findall(number, t)] for t in (printed, found))
    assert got == pytest.approx(said, abs=0.011)


def test_readme_links_to_pages_that_exist():
    text = (ROOT / "README.md").read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_version_is_stated_once():
    import tomllib

    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert kw.__version__ == stated
    assert not (ROOT / "src" / "kernelweave" / "_version.py").exists()


@pytest.mark.parametrize(
    "name",
    [
        "demo",
        "fit",
        "recommend",
        "predict",
        "path",
        "evaluate",
        "evidence",
        "export",
        "statistics",
        "margins",
    ],
)
def test_commands_have_help(name, capsys):
    pytest.importorskip("cyclopts")
    from kernelweave_app.cli import main

    assert main([name, "--help"]) == 0
    assert f"kernelweave {name}" in capsys.readouterr().out


def test_groups_ask_for_what_extras_ask_for():
    # a dependency group cannot include an extra of its own project, so requirements stand twice
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    name = re.compile(r"[A-Za-z0-9_.-]+")
    extras = [r for lines in project["project"]["optional-dependencies"].values() for r in lines]
    known = {name.match(r)[0]: r for r in extras if "[" not in r}
    groups = [r for lines in project["dependency-groups"].values() for r in lines if isinstance(r, str)]
    twice = [r for r in groups if name.match(r)[0] in known]
    assert len(twice) > 6
    assert [r for r in twice if known[name.match(r)[0]] != r] == []
    studio = {r for r in project["project"]["optional-dependencies"]["studio"] if "[" not in r}
    assert studio <= set(project["dependency-groups"]["studio"])
