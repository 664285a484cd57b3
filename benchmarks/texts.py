"""A plain fit on texts and counts beside LinearSVC on tf-idf: ``python -m benchmarks.texts``.

Texts of installed packages: docstrings, error messages, source files, message catalogues, names of characters, colours
and Debian packages. Every table is divided five times, 70 % for training. The rival is
``LinearSVC`` on ``TfidfVectorizer`` with C of five folds. The default gets the texts as a column of a frame, and the
matrix of the same vectorizer. Of that matrix, and of counts of words and digits, predictions from a dense array, a
sparse one and a frame are compared. Processor seconds of one thread.
"""

from __future__ import annotations

import argparse
import ast
import colorsys
import gettext
import importlib
import inspect
import json
import pkgutil
import re
import sys
import time
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import kernelweave as kw

RESULTS = Path(__file__).parent / "results" / "texts.json"
#: Rows of a table and of a class, at most, and of a class, at least.
MOST_ROWS, MOST_OF_CLASS, FEWEST_ROWS = 1000, 300, 30
SPLITS = 5
COSTS = np.logspace(-2, 2, 9)

Texts = list[tuple[str, str]]


def docstrings(package: str) -> Iterator[tuple[str, str]]:
    """First paragraphs of the docstrings of the public functions of a package, with their subpackage."""
    root = importlib.import_module(package)
    names = [package]
    if hasattr(root, "__path__"):
        names += [f"{package}.{one.name}" for one in pkgutil.iter_modules(root.__path__)]
    for name in names:
        if any(part.startswith(("_", "test", "conf")) for part in name.split(".")):
            continue
        try:
            module = importlib.import_module(name)
        except Exception as error:  # optional dependencies, of any kind
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        for own, value in sorted(vars(module).items()):
            if own.startswith("_") or not (inspect.isclass(value) or inspect.isroutine(value)):
                continue
            text = inspect.getdoc(value) or ""
            lines = [part for part in re.split(r"\n\s*\n", text) if not part.startswith(own)]
            if lines and len(lines[0]) > 15:
                yield lines[0], name.partition(f"{package}.")[2]


def of_packages(packages: Iterable[str]) -> Texts:
    """Which package does a docstring belong to?"""
    return [(text, package) for package in packages for text, _ in docstrings(package)]


def trees(packages: Iterable[str]) -> Iterator[ast.AST]:
    """Syntax trees of the files of packages."""
    for package in packages:
        root = Path(importlib.import_module(package).__file__ or "").parent
        for path in sorted(root.rglob("*.py")):
            try:
                yield ast.parse(path.read_text("utf8"))
            except (SyntaxError, UnicodeDecodeError, ValueError):
                continue


def errors(packages: Iterable[str]) -> Texts:
    """Which exception has a message?"""
    found = []
    for tree in trees(packages):
        for node in ast.walk(tree):
            call = node.exc if isinstance(node, ast.Raise) else None
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not call.args:
                continue
            words = [
                one.value
                for one in ast.walk(call.args[0])
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
            if len(" ".join(words)) > 15:
                found.append((" ".join(words), call.func.id))
    return found


def parameters(packages: Iterable[str]) -> Texts:
    """Which type has a parameter, by its description in a docstring?"""
    found = []
    head = re.compile(
        r"^(\w+) ?: ?\{?'?(int|float|bool|str|array|callable|ndarray|dict)\b.*\n((?:    .*\n?)+)", re.M
    )
    for tree in trees(packages):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                for _, kind, about in head.findall(text):
                    first = re.split(r"\n\s*\n", inspect.cleandoc(about))[0]
                    if len(first) > 15:
                        found.append((first, "array" if kind == "ndarray" else kind))
    return found


def files(packages: Iterable[str]) -> Texts:
    """Which kind of file do three lines come from?"""
    found = []
    for package in packages:
        root = Path(importlib.import_module(package).__file__ or "").parent
        for path in sorted(root.rglob("*")):
            if path.suffix in (".py", ".pyi", ".js", ".css", ".html", ".h", ".rst", ".txt", ".pxd", ".json"):
                lines = [line for line in path.read_text("utf8", "replace").splitlines() if line.strip()]
                for k in range(10, min(len(lines), 400), 97):
                    text = "\n".join(line[:200] for line in lines[k : k + 3])
                    if len(text) > 15:
                        found.append((text, path.suffix[1:]))
    return found


def languages(names: Iterable[str]) -> Texts:
    """Which language is a message in?"""
    root = Path(importlib.import_module("sphinx").__file__ or "").parent / "locale"
    found = []
    for name in names:
        with (root / name / "LC_MESSAGES" / "sphinx.mo").open("rb") as file:
            catalogue = gettext.GNUTranslations(file)
        own = {str(value) for key, value in vars(catalogue)["_catalog"].items() if key}
        found += [(text, name) for text in sorted(own) if len(text) > 15]
    return found


def characters() -> Texts:
    """Which category has a character, by its name?"""
    found = ((unicodedata.name(chr(k), ""), unicodedata.category(chr(k))) for k in range(0x21, 0x3000))
    return [(name, kind) for name, kind in found if name]


def colours() -> Texts:
    """Which hue has a colour, by its name?"""
    from matplotlib.colors import XKCD_COLORS, to_rgb

    found = []
    for name, code in XKCD_COLORS.items():
        hue, light, depth = colorsys.rgb_to_hls(*to_rgb(code))
        said = "grey" if depth < 0.15 else "dark" if light < 0.2 else f"hue {int(hue * 6)}"
        found.append((name.removeprefix("xkcd:"), said))
    return found


def debian() -> Texts:
    """Which section has an installed package, by its description?"""
    found = []
    for part in Path("/var/lib/dpkg/status").read_text("utf8").split("\n\n"):
        cells = dict(re.findall(r"^(Section|Description): (.*(?:\n .*)*)", part, re.M))
        if len(cells) == 2:
            about = re.sub(r"\n \.?", " ", cells["Description"])
            found.append((about, cells["Section"].rpartition("/")[2]))
    return found


SCIENTIFIC = ("numpy", "scipy", "sklearn", "pandas", "matplotlib")
#: Tables by name.
TABLES: dict[str, Any] = {
    "packages of docstrings": lambda: of_packages(SCIENTIFIC),
    "modules of docstrings": lambda: list(docstrings("sklearn")),
    "modules of the standard library": lambda: of_packages(
        ("asyncio", "ast", "email", "inspect", "logging", "os", "statistics", "socket", "typing", "unittest")
    ),
    "exceptions of messages": lambda: errors(("sklearn", "numpy", "scipy")),
    "types of parameters": lambda: parameters(("scipy", "sklearn")),
    "kinds of files": lambda: files(("matplotlib", "numpy", "sphinx", "docutils", "sklearn", "pandas")),
    "languages": lambda: languages(("da", "de", "es", "fi", "fr", "hu", "it", "nl", "pl", "tr")),
    "neighbouring languages": lambda: languages(("da", "nb_NO", "sv", "cs", "sk", "ca", "es", "pt", "gl")),
    "categories of characters": characters,
    "hues of colours": colours,
    "sections of Debian": debian,
    # the recipe of texts was looked at with these alone
    "development: modules of scipy": lambda: list(docstrings("scipy")),
    "development: exceptions of pandas": lambda: errors(("pandas", "matplotlib")),
}


def table(name: str) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Texts, each once, and their classes, of 30 to 300 rows each; a sample of at most 1,000."""
    one = {}
    for text, kind in TABLES[name]():
        one.setdefault(" ".join(text.split())[:1000], kind)
    kinds = pd.Series(list(one.values())).value_counts()
    kept = [(text, kind) for text, kind in one.items() if kinds[kind] >= FEWEST_ROWS and kind]
    order = np.random.default_rng(0).permutation(len(kept))
    ranks = pd.Series([kept[i][1] for i in order]).groupby([kept[i][1] for i in order]).cumcount().to_numpy()
    order = order[ranks < MOST_OF_CLASS][:MOST_ROWS]
    texts, y = [kept[i][0] for i in order], np.array([kept[i][1] for i in order])
    counted = pd.Series(y).value_counts()
    some = [i for i, kind in enumerate(y) if counted[kind] >= 10]
    return [texts[i] for i in some], y[some]


def timed(call: Any, *given: Any) -> tuple[Any, float]:
    """What a call returns, and its processor seconds."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = call(*given)
    return found, time.process_time() - start


def predicted(model: Any, X: Any, y: Any, Z: Any) -> Any:
    """What a model predicts for new rows."""
    return model.fit(X, y).predict(Z)


def rival() -> GridSearchCV:
    """LinearSVC on tf-idf, with C of five folds."""
    return GridSearchCV(make_pipeline(TfidfVectorizer(), LinearSVC()), {"linearsvc__C": COSTS}, cv=5)


def accuracies(name: str, seeds: Iterable[int]) -> dict[str, Any]:
    """Mean accuracies and seconds of the rival, of the default on texts, and of the default on the rival's matrix."""
    texts, y = table(name)
    frame = pd.DataFrame({"text": texts})
    scores: dict[str, list[float]] = {"rival": [], "texts": [], "matrix": []}
    seconds: dict[str, list[float]] = {key: [] for key in scores}
    for seed in seeds:
        train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y)
        vectors = TfidfVectorizer().fit([texts[i] for i in train])
        words = vectors.transform(texts)
        column = frame["text"]
        calls = {
            "rival": (rival(), column.iloc[train], column.iloc[test]),
            "texts": (kw.MKLClassifier(), frame.iloc[train], frame.iloc[test]),
            "matrix": (kw.MKLClassifier(), words[train], words[test]),
        }
        for key, (model, X, Z) in calls.items():
            found, took = timed(predicted, model, X, y[train], Z)
            scores[key].append(float(np.mean(found == y[test])))
            seconds[key].append(took)
    return {
        "table": name,
        "rows": len(y),
        "classes": len(set(y.tolist())),
        **{f"accuracy {key}": round(float(np.mean(one)), 4) for key, one in scores.items()},
        **{f"seconds {key}": round(float(np.mean(one)), 2) for key, one in seconds.items()},
        "splits": {key: [round(one, 4) for one in own] for key, own in scores.items()},
    }


def equal(name: str) -> dict[str, Any]:
    """Largest differences of decision values between a dense array, a sparse one and a frame of one content."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        counts = sparse.csr_array(X[:600])
        kinds = {"counts": counts}
        y = y[:600]
    else:
        texts, y = table(name)
        some = slice(0, 500)
        texts, y = texts[some], y[some]
        kinds = {
            one.__name__: sparse.csr_array(one(max_features=1000).fit_transform(texts).astype(float))
            for one in (TfidfVectorizer, CountVectorizer)
        }
    found: dict[str, Any] = {"table": name}
    for kind, X in kinds.items():
        train, test = slice(0, len(y) * 2 // 3), slice(len(y) * 2 // 3, len(y))
        dense = X.toarray()
        frame = pd.DataFrame(dense, columns=[f"w{j}" for j in range(dense.shape[1])])
        values = []
        for rows, new in (
            (dense[train], dense[test]),
            (X[train], X[test]),
            (frame.iloc[train], frame.iloc[test]),
        ):
            model, _ = timed(kw.MKLClassifier().fit, rows, y[train])
            values.append(model.decision_function(new))
        size = float(np.abs(values[0]).max())
        found[kind] = {
            "sparse": float(np.abs(values[1] - values[0]).max()) / size,
            "frame": float(np.abs(values[2] - values[0]).max()) / size,
            "zeros": round(1.0 - X.nnz / (X.shape[0] * X.shape[1]), 3),
        }
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tables", nargs="*", default=[one for one in TABLES if not one.startswith("development")]
    )
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    found: dict[str, Any] = {"accuracies": [], "equal": []}
    for name in given.tables:
        row = accuracies(name, range(given.seed, given.seed + given.splits))
        print(json.dumps({key: value for key, value in row.items() if key != "splits"}), flush=True)
        found["accuracies"].append(row)
        given.results.write_text(json.dumps(found, indent=1) + "\n")
    for name in (*given.tables, "digits"):
        found["equal"].append(equal(name))
        print(json.dumps(found["equal"][-1]), flush=True)
        given.results.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
