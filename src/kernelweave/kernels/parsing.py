"""Kernels read from text."""

from __future__ import annotations

import ast
from typing import Any

from kernelweave._checks import InputError, check_known
from kernelweave._extensions import load_extensions
from kernelweave.kernels.base import KERNELS, Kernel, build
from kernelweave.kernels.composed import Composed
from kernelweave.kernels.stationary import RULES
from kernelweave.kernels.steps import STEPS

__all__ = ["parse", "text_names"]


def parse(text: str) -> Kernel:
    """Read a kernel from text, for the command line and configuration files.

    Parameters
    ----------
    text : str
        Names in any case, with parameters other than the defaults in parentheses; sums, products and
        positive factors; ``.on([...])``; and ``.prepared('standardize')``. What ``repr`` of a built-in kernel prints
        can be read back, unless it leaves out numbers of many columns. The text is parsed, never executed.

    Raises
    ------
    InputError
        For anything else, with the part that was not understood.

    Examples
    --------
    >>> parse("rbf(gamma=0.5)"), parse("poly(degree=2)"), parse("linear")
    (RBF(gamma=0.5), Polynomial(degree=2, coef0=1.0, gamma=1.0), Linear())
    >>> parse("linear + 2.0 * rbf(0.5).on(['age', 'bmi'])").label
    'Linear on all + 2 * RBF(gamma=0.5) on age, bmi'
    >>> parse("rbf(gamma=('median', 4)).prepared('standardize')")
    RBF(gamma=('median', 4.0)).prepared('standardize')
    """
    if not isinstance(text, str) or not text.strip() or len(text) > 10_000:
        raise InputError(
            f"A kernel is given as text of 1 to 10000 characters, got {text!r:.60}. Try 'rbf(gamma=0.5)'."
        )
    try:
        tree = ast.parse(text.strip(), mode="eval")
        kernel = _read_node(tree.body, text)
    except InputError:
        raise
    except (SyntaxError, RecursionError, MemoryError, OverflowError, ValueError, TypeError):
        raise InputError(
            f"Cannot read the kernel {text!r:.200}. Write it like 'rbf(gamma=0.5)' or 'linear'."
        ) from None
    if not isinstance(kernel, Kernel):
        raise InputError(f"{text!r:.200} is a number, not a kernel. Write for example 'constant({kernel})'.")
    return kernel


def _read_node(node: ast.expr, text: str) -> Kernel | float:
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _read_node(node.left, text), _read_node(node.right, text)
        return left + right if isinstance(node.op, ast.Add) else left * right
    if isinstance(node, ast.Name):
        return build(_named(node.id), (), {})
    if isinstance(node, ast.Call) and all(keyword.arg for keyword in node.keywords):
        args = tuple(_read_literal(arg, text) for arg in node.args)
        kwargs = {str(keyword.arg): _read_literal(keyword.value, text) for keyword in node.keywords}
        if isinstance(node.func, ast.Name):
            return build(_named(node.func.id), args, kwargs)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "prepared" and not kwargs:
            inner = _read_node(node.func.value, text)
            if isinstance(inner, Kernel):
                return inner.prepared(*args)
        columns_once = bool(args) != ("columns" in kwargs)
        readable = columns_once and len(args) + len(kwargs) <= 2 and set(kwargs) <= {"columns", "name"}
        if isinstance(node.func, ast.Attribute) and node.func.attr == "on" and readable:
            inner = _read_node(node.func.value, text)
            if isinstance(inner, Kernel):
                return inner.on(*args, **kwargs)
    raise InputError(
        f"Cannot read {ast.unparse(node)!r:.100} in the kernel {text!r:.200}. Write it like "
        "'rbf(gamma=0.5)', '2.0 * linear + poly(degree=2)' or \"linear.on(['age'])\"."
    )


def _named(name: str) -> type[Kernel]:
    lower, known = name.lower(), text_names()
    if lower not in known:
        load_extensions()
        known = text_names()
    return known[check_known(lower, sorted(known), "kernel")]


def text_names() -> dict[str, type[Kernel]]:
    """Kernels by the names that they have in text; others are made of them by operators and methods.

    Examples
    --------
    >>> [name for name, kernel in text_names().items() if kernel.__name__ == "RBF"]
    ['rbf', 'gaussian']
    """
    leaves = {name: cls for name, cls in KERNELS.items() if not issubclass(cls, Composed)}
    return leaves | {alias: cls for cls in leaves.values() for alias in cls.aliases}


def _read_literal(node: ast.expr, text: str) -> Any:
    """Read a number, string, None, or list of these; slice(a, b, c); a rule for gamma; and a step with its numbers."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "slice" and not node.keywords:
        ends = [_read_literal(arg, text) for arg in node.args]
        if 1 <= len(ends) <= 3:
            return slice(*ends)
    if isinstance(node, ast.Name) and node.id in RULES:
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        known: dict[str, Any] = {cls.__name__: cls for cls in STEPS.values()}
        if (step := known.get(node.func.id)) is not None:
            return step(**{str(k.arg): _read_literal(k.value, text) for k in node.keywords})
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise InputError(
            f"Cannot read the value {ast.unparse(node)!r:.100} in the kernel {text!r:.200}. Values are "
            "numbers, quoted strings and lists of them."
        ) from None
