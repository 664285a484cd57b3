"""Pages of the documentation: their examples run, and the names on them exist."""

import contextlib
import doctest
import importlib
import inspect
import pathlib
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import kernelweave as kw
from kernelweave.experiments import EXPERIMENTS

DOCS = Path(__file__).resolve().parents[1] / "docs"
#: Pages whose Python blocks are run in order, in one scope.
RUN = [
    "user_guide/certificates.md",
    "user_guide/evidence.md",
    "user_guide/two_layers.md",
    "user_guide/fitted_kernels.md",
    "user_guide/missing_values.md",
    "user_guide/several_tables.md",
    "user_guide/texts.md",
    "papers/rkl_convex.md",
]


@pytest.mark.parametrize("page", RUN)
def test_examples_of_pages_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.S | re.M)
    assert blocks
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), scope)
    capsys.readouterr()


#: Pages for those who begin, without those that hold no code.
NEWCOMERS = ["index.md", "tour.md", "troubleshooting.md", "coming_from.md"]
NEW = [*NEWCOMERS, "choosing.md", "faq.md", "glossary.md"]
#: Pages whose results are compared, and the packages that they need.
COMPARED = {
    "user_guide/defaults.md": (),
    "user_guide/many_features.md": (),
    "user_guide/many_rows.md": (),
    "user_guide/rows_without_limit.md": ("pandas",),
    "user_guide/clusters.md": ("dask.array",),
    **dict.fromkeys(NEWCOMERS, ("pandas",)),
}


@pytest.mark.parametrize("page", COMPARED)
def test_results_on_pages_are_those_of_the_code(page, tmp_path, monkeypatch):
    for package in COMPARED[page]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, attempted = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=options)
    assert attempted
    assert not failed


def test_commands_of_the_tour_run(tmp_path, monkeypatch):
    """The tables that the page writes, and then its commands as they stand."""
    pytest.importorskip("cyclopts")
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "tour.md").read_text()
    blocks = [block for block in re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)]
    first, last = blocks[0], next(block for block in blocks if "to_csv" in block)
    source = "".join(e.source for block in (first, last) for e in doctest.DocTestParser().get_examples(block))
    exec(source, {"pathlib": pathlib})
    [commands] = re.findall(r"^```console\n(.*?)^```$", text, re.S | re.M)
    for line in commands.splitlines():
        program, *arguments = shlex.split(line.removeprefix("$ "))
        assert program == "kernelweave"
        command = [sys.executable, "-c", "from kernelweave.cli import main; main()", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "run" / "script.py").is_file()
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 143


@pytest.mark.parametrize("page", sorted(DOCS.glob("**/*.md")), ids=lambda page: page.stem)
def test_no_sentence_becomes_a_list_where_a_line_ends(page):
    """Of a line that begins with "1) " or "- " Markdown makes a list, though the paragraph goes on."""
    lines, fenced, wrong = page.read_text().splitlines(), False, []
    for before, line in zip(["", *lines], lines, strict=False):
        fenced ^= line.startswith(("```", ":::"))
        if not fenced and re.match(r"(1[.)]|[-+*]) ", line) and re.match(r"[^\s>#:`|*+\-\d]", before):
            wrong.append(line)
    assert wrong == []


# ---- from paper to code ---------------------------------------------------------------------------

PAPERS = {
    "rls2": {"": 19, "Problem": 8, "Theorem": 2, "Lemma": 6, "Algorithm": 1, "Figure": 9, "Table": 5},
    "rkl": {"": 23, "Proposition": 4, "Theorem": 1, "Table": 1},
    "mlmkl": {"": 21, "Algorithm": 1, "Figure": 3, "Table": 3},
}
PAGES = [f"papers/{name}.md" for name in (*PAPERS, "rkl_convex", "index")]
GUIDE = sorted(f"user_guide/{path.name}" for path in (DOCS / "user_guide").glob("*.md"))
#: A name, and the arguments of a call.
NAME = re.compile(r"`(kw(?:\.\w+)+)(?:\(([^`]*)\))?")


def names_on(text: str) -> list[tuple[str, str]]:
    """Public names in backticks, with the text between the brackets of a call."""
    return [(name, arguments) for name, arguments in NAME.findall(text)]


def resolve(name: str) -> object:
    """The object of a dotted name; fields of results count although classes do not hold them."""
    value: object = kw
    for part in name.split(".")[1:]:
        if inspect.isclass(value) and part in getattr(value, "__dataclass_fields__", {}):
            return None
        if value is kw and part in ("cli", "experiments"):
            raise AttributeError(name)
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("page", [*PAGES, *GUIDE, "README.md", "getting_started.md", "methods.md", *NEW])
def test_public_names_on_pages_exist(page):
    text = (DOCS.parent / page if page == "README.md" else DOCS / page).read_text()
    found = names_on(text)
    assert found or not page.startswith("papers/") or page == "papers/index.md"
    for name, arguments in found:
        value = resolve(name)
        for parameter in re.findall(r"(\w+)=", arguments):
            assert parameter in inspect.signature(value).parameters, f"{page}: {name}({parameter}=)"
        # with values it can be made, unless they stand for something
        if re.search(r"=[^,)]", arguments) and not re.search(r"\.\.\.|\b(stack|gram|X_\w+)\b", arguments):
            made = eval(f"{name}({arguments})", {"kw": kw})
            getattr(made, "check", lambda: None)()
    about = f"{kw.MKLRegressor.__doc__} {kw.MKLClassifier.__doc__}"
    for attribute in re.findall(r"`([a-z]\w*_)`", text):
        assert re.search(rf"\b{attribute}\b", about), f"{page}: {attribute}"
    for experiment in re.findall(r"kernelweave reproduce ([a-z0-9-]+)", text):
        assert experiment in EXPERIMENTS, f"{page}: {experiment}"


def parameters():
    """All parameters of functions, classes and methods of the package."""
    found = set()
    for info in pkgutil.walk_packages(kw.__path__, "kernelweave."):
        if ".studio" in info.name or info.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(info.name)).values():
            methods = vars(value).values() if inspect.isclass(value) else ()
            for each in (value, *methods):
                function = getattr(each, "__func__", each)
                own = str(getattr(function, "__module__", "")).startswith("kernelweave")
                if own and (inspect.isclass(function) or inspect.isfunction(function)):
                    with contextlib.suppress(TypeError, ValueError):
                        found |= set(inspect.signature(function).parameters)
    return found


def test_parameters_in_backticks_exist():
    """`verbose=` stood on a page, and nothing has such a parameter."""
    known, strange = parameters(), {}
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    for page in (page for page in pages if not {"_build", "generated"} & set(page.parts)):
        text = re.sub(r"^```.*?^```", "", page.read_text("utf8"), flags=re.S | re.M)
        for span in re.findall(r"`([^`\n]+)`", text):
            # options of the command line, and functions of scikit-learn and joblib
            if "--" in span or span.startswith(("CalibratedClassifierCV", "parallel_config")):
                continue
            for name in re.findall(r"(?<![\w.-])([a-z_][a-z_0-9]*)=(?!=)", span):
                if name.split("__")[-1] not in known:
                    strange.setdefault(name, []).append(f"{page.name}: {span}")
    assert strange == {}
    assert {"alpha", "normalize", "sample_weight"} <= known
    assert "verbose" not in known


def test_summaries_do_not_end_in_a_formula():
    """A first line is cut where a full stop and a space follow, as in "x . z"."""
    cut = []
    for info in pkgutil.walk_packages(kw.__path__, "kernelweave."):
        if ".studio" in info.name or info.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(info.name)).items():
            first = (inspect.getdoc(value) or "").split("\n\n")[0] if callable(value) else ""
            if re.search(r"[\w)] \. [\w(]", first):
                cut.append(name)
    assert cut == []


def test_names_that_do_not_exist_are_found():
    for wrong in ("`kw.solve_nothing`", "`kw.learners.RLS3`", "`kw.results.Solution.no_weights`"):
        [(name, _)] = names_on(wrong)
        with pytest.raises(AttributeError):
            resolve(name)
    assert names_on("`kw.learners.RLS2(delta=)`") == [("kw.learners.RLS2", "delta=")]


def numbers_after(kind: str, text: str) -> set[int]:
    """Numbers of items: "(3), (4)" without a kind, "Figure 4" and "Figures 4, 5 and 6" with one."""
    if not kind:
        return {int(k) for k in re.findall(r"\((\d+)\)", text)}
    lists = re.findall(rf"{kind}s? (\d+(?:(?:, | and )\d+)*)", text)
    return {int(k) for found in lists for k in re.findall(r"\d+", found)}


@pytest.mark.parametrize("paper", PAPERS)
def test_no_numbered_item_of_a_paper_is_missing(paper):
    text = (DOCS / "papers" / f"{paper}.md").read_text()
    for kind, last in PAPERS[paper].items():
        missing = set(range(1, last + 1)) - numbers_after(kind, text)
        assert not missing, f"{paper}: {kind} {sorted(missing)}"


def test_claims_about_the_printed_tables_of_mlmkl():
    """Layers, averages and ranks, recounted from the printed table."""
    from kernelweave.experiments.mlmkl_tables import PRINTED

    text = (DOCS / "papers" / "mlmkl.md").read_text()
    table = {name: {m: v[0] for m, v in row.items()} for name, row in PRINTED.items()}

    def gain(left, right):
        differences = [round(row[left] - row[right], 2) for row in table.values()]
        rises = [d for d in differences if d > 0]
        falls = sum(d < 0 for d in differences)
        return len(rises), falls, round(sum(rises) / len(rises), 2), max(rises), sum(differences) / 12

    rises, _, mean, most, over_all = gain("mlmkl-3", "mlmkl-2")
    assert (rises, mean, most) == (10, 0.89, 3.41)
    assert round(over_all + 1e-9, 2) == 0.70
    assert "ten sets, on average by 0.89, at most by 3.41; over all twelve sets 0.70" in text
    rises, _, mean, most, over_all = gain("dmkl-3", "dmkl-2")
    assert (rises, mean, most, round(over_all, 2)) == (10, 0.34, 1.36, 0.23)
    assert "on average by **0.34**; over all twelve 0.23" in text
    rises, falls, *_ = gain("mlmkl-2", "mlmkl-1")
    assert (rises, falls) == (8, 4)
    others = ("dmkl-1", "dmkl-2", "dmkl-3", "2lmkl")
    behind = [name for name, row in table.items() if row["mlmkl-3"] < max(row[m] for m in others)]
    assert behind == ["postoperative", "tictactoe", "sonar"]
    weaker = [name for name, row in table.items() if row["sm1mkl"] < row["sksvm"]]
    assert weaker == ["postoperative", "ilpd", "german_numeric"]
    assert (round((3.5 + 3 + 1.67) / 3, 2), round((6 + 4.5 + 3.5) / 3, 2)) == (2.72, 4.67)


def test_claims_about_the_printed_table_of_rkl():
    from kernelweave.experiments.rkl import PRINTED

    def compared(own, others):
        values = [(row[own][0], max(row[m][0] for m in others)) for row in PRINTED.values()]
        return sum(a > b for a, b in values), sum(a == b for a, b in values)

    assert compared("rkl", ("uniform", "mkl-l1", "klc-l1")) == (8, 3)
    assert compared("rkl-l2", ("mkl-l2", "klc-l2"))[0] == 10
    assert compared("rkl-l2", ("uniform", "mkl-l2", "klc-l2"))[0] == 9
    assert PRINTED["wpbc"]["rkl-l2"][0] == PRINTED["wpbc"]["uniform"][0] == 76.5
    counts = [row["mkl-l1"][2] for row in PRINTED.values()]
    assert (min(counts), max(counts)) == (1, 13)
    assert {row["mkl-l2"][2] for row in PRINTED.values()} == {20}
    many = {
        name for name, row in PRINTED.items() if max(row[m][2] for m in ("rkl", "rkl-l2", "rkl-none")) > 10
    }
    assert many == {"wpbc"}
