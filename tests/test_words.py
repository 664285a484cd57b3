"""Home-made words that were replaced by standard terms stay away, in names and in sentences."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = sorted((ROOT / "src").rglob("*.py"))
CORE = [*sorted((ROOT / "src").rglob("*.cpp")), *sorted((ROOT / "src").rglob("*.hpp"))]
PAGES = [
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if not {"_build", "generated"} & set(page.parts)
    ),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")),
]
TEMPLATES = sorted((ROOT / "src").rglob("*.html"))

#: Names of variables, attributes and arguments, whole or as a part between underscores, and what they are called.
NAMES = {
    "strength": "regularization_parameter, alpha or C",
    "strengths": "alphas or Cs",
    "forms": "quadratic_forms",
    "bent": "curvature",
    "goal": "target, or tol",
    "watched": "working set",
    "lift": "jitter",
    "lifts": "jitter",
    "uppers": "upper layers",
    "reward": "linear term of the dual",
    "drive": "negative gradient",
    "dust": "rounding threshold",
    "remedies": "correction to a positive semidefinite matrix",
    "literal": "as_published",
    "noise": "inverse_weights",
}
#: Names that stand, and why.
KEPT = {
    "strength": "former name of a public one, which warns",
    "literal": "former name of a public one, which warns; the protocol of an experiment in published results",
    "run_literal": "the protocol of an experiment in published results",
    "cd_literal": "the same",
    "LITERAL_C": "the same",
    "Literal": "of typing",
    "_forms": "a module about the fields of forms",
    "NOISE": "the noise of simulated data",
    "literal_eval": "of the standard library",
    "literals": "of nanobind",
    "_read_literal": "a literal of Python",
    "forms": "fields of a form, in settings",
    "noise": "the noise of a Gaussian process",
    "noise_variance": "the same",
    "noise_variance_": "the same",
}
#: Where a kept name may stand.
PLACES = {
    "strength": {"learners/base.py", "plots/path.py"},
    "literal": {"learners/deep.py", "experiments/mlmkl.py", "experiments/cardinality.py"},
    "forms": {"runs/settings.py"},
    "noise": {"estimators/regressor.py"},
}

#: Sentences, and what to write.
PHRASES = {
    r"\bstrengths?\b(?! of the evidence)": "regularisation parameter",
    r"\b(?:of|largest|all|exact|which|these) forms\b(?! of)": "quadratic forms",
    r"(?i)\bwho is there\b": "sign in",
    r"\bstumbl": "fails",
    r"\bbends the wrong way\b": "has negative curvature",
    r"\bships? along\b": "built-in",
    r"\bgoes round\b|\bgo round\b": "in circulation",
    r"\bnobody'?s business\b|\bnone of a run's business\b": "not needed",
    r"\bhas the last word\b": "decides",
    r"\bto be had\b": "available",
    r"\bcrawls\b|\bcrept\b": "is slow",
    r"\bfor people\b": "as text",
    r"\bwhat becomes of\b": "summarise",
    r"\blooks? into\b|\blooked into\b": "searches",
    r"\bflatters?\b": "favours",
    r"\bis blamed\b|\bare blamed\b": "is assumed to limit",
}
#: Files in which a phrase stands for a reason.
EXCEPTED = {
    r"\bstrengths?\b(?! of the evidence)": {
        "learners/base.py", "plots/path.py", "studio/schema/results.py", "studio/schema/runs.py",
    },
}  # fmt: skip


def short(path: Path) -> str:
    """The path of a file as the lists above have it."""
    inside = path.relative_to(ROOT).as_posix()
    return inside.removeprefix("src/kernelweave/")


def names_of(path: Path) -> set[str]:
    """The names in a Python file, keyword arguments included."""
    text = path.read_text(encoding="utf8")
    return {t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NAME}


def retired(name: str) -> str:
    """The retired word in a name, or an empty text."""
    return next((word for word in name.lower().strip("_").split("_") if word in NAMES), "")


@pytest.mark.parametrize("path", PYTHON, ids=short)
def test_names_are_standard(path):
    wrong = {}
    for name in names_of(path):
        word = retired(name)
        # quadratic_forms is the standard name
        if word and "quadratic_form" not in name:
            places = PLACES.get(name)
            if name not in KEPT or (places is not None and short(path) not in places):
                wrong[name] = NAMES[word]
    assert not wrong, f"{short(path)}: {wrong}"


@pytest.mark.parametrize("path", CORE, ids=short)
def test_names_of_the_core_are_standard(path):
    names = set(re.findall(r"[A-Za-z_]\w*", path.read_text(encoding="utf8")))
    wrong = {
        name: NAMES[retired(name)] for name in names if retired(name) and name not in ("forms", "literals")
    }
    assert not {name for name in wrong if "quadratic_form" not in name}, wrong


@pytest.mark.parametrize("path", [*PYTHON, *CORE, *PAGES, *TEMPLATES], ids=short)
def test_sentences_are_plain(path):
    text = re.sub(r"\s+", " ", path.read_text(encoding="utf8"))
    wrong = {
        text[max(0, found.start() - 40) : found.end() + 40]: better
        for phrase, better in PHRASES.items()
        if short(path) not in EXCEPTED.get(phrase, ())
        for found in re.finditer(phrase, text)
    }
    assert not wrong, f"{short(path)}: {wrong}"


def test_retired_words_are_found(tmp_path):
    assert [retired(name) for name in ("a_strength", "bent", "_uppers", "forms", "quadratic", "goals")] == [
        "strength", "bent", "uppers", "forms", "", "",
    ]  # fmt: skip
    assert re.search(r"\bfor people\b", "the names for people")
    file = tmp_path / "one.py"
    file.write_text("def f(strength):\n    return strength\n")
    assert "strength" in names_of(file)
