"""What a fitted estimator keeps for itself is read by nobody else."""

import ast
from pathlib import Path

import kernelweave

PACKAGE = Path(kernelweave.__file__).parent
SOURCES = [path for wing in PACKAGE.parent.glob("kernelweave*") for path in sorted(wing.rglob("*.py"))]
#: How fitted estimators and models are called in this package.
NAMES = {"auto", "clf", "estimator", "fitted", "model", "part", "reg"}


def privates_read(source):
    """(line, text) of attributes with a leading underscore that are read from something named like an estimator."""
    return [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and isinstance(node.value, ast.Name | ast.Attribute)
        and (node.value.id if isinstance(node.value, ast.Name) else node.value.attr).rstrip("_") in NAMES
    ]


def test_no_module_reads_privates_of_an_estimator():
    found = {}
    for path in SOURCES:
        # parts of a composite stack are of the same class family
        if path.is_relative_to(PACKAGE / "gram"):
            continue
        if read := privates_read(path.read_text(encoding="utf-8")):
            found[path.relative_to(PACKAGE.parent).as_posix()] = read
    assert not found


def test_such_a_read_would_be_seen():
    assert privates_read("model._dual + self.model_._x + estimator.model_.weights + model.__dict__") == [
        (1, "model._dual"),
        (1, "self.model_._x"),
    ]
