"""Pages of the documentation: their examples run, and the names on them exist."""

import ast
import collections
import contextlib
import doctest
import functools
import importlib
import importlib.util
import inspect
import pathlib
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kernelweave as kw
from kernelweave._parameters import check_value, rules_of
from kernelweave_papers import EXPERIMENTS

DOCS = Path(__file__).resolve().parents[1] / "docs"
#: All pages with Python blocks. What `.ci` and `make docs` write is left out.
WITH_CODE = sorted(
    str(page.relative_to(DOCS.parent))
    for page in (*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md")
    if not {"_build", "generated", "gallery"} & set(page.parts)
    and re.search(r"^```python$", page.read_text("utf8"), re.M)
)
#: A Python block, with the comment before it that names packages (`needs:`) or another environment (`program:`).
BLOCK = re.compile(r"(?:^<!-- (needs|program): (.*?) -->\n)?^```python\n(.*?)^```$", re.S | re.M)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("page", WITH_CODE)
def test_every_block_runs_as_copied(page, capsys, tmp_path, monkeypatch):
    """In order, in one scope and an empty folder; results after `>>>` are compared.

    `.ci/run` runs them by themselves, as pages register kernels, losses and findings for good.

    Blocks of `program:` are those of `benchmarks/coming_from.py`. Without a package that a block needs, the blocks
    before it have run, and the rest of the page is skipped.
    """
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "__main__"}
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    missing: set[str] = set()
    for kind, names, block in BLOCK.findall((DOCS.parent / page).read_text("utf8")):
        if kind == "program":
            continue
        missing |= {name for name in names.split() if importlib.util.find_spec(name) is None}
        if missing:
            continue
        examples = doctest.DocTestParser().get_doctest(block, scope, page, page, 0)
        if examples.examples:
            wrong: list[str] = []
            runner = doctest.DocTestRunner(optionflags=options, verbose=False)
            runner.run(examples, out=wrong.append, clear_globs=False)
            assert not runner.failures, "".join(wrong)
            scope = examples.globs
        else:
            exec(compile(block, page, "exec"), scope)
    capsys.readouterr()
    if missing:
        pytest.skip(f"needs {', '.join(sorted(missing))}")


#: Pages for those who begin, without those that hold no code.
NEWCOMERS = ["index.md", "tour.md", "troubleshooting.md", "coming_from.md"]
NEW = [*NEWCOMERS, "choosing.md", "faq.md", "glossary.md", "understand.md"]


@pytest.mark.nightly
def test_commands_of_the_tour_run(tmp_path, monkeypatch):
    """The tables that the page writes, and then its commands as they stand; by day `.ci/newcomer` runs them."""
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
        command = [sys.executable, "-c", "from kernelweave_app.cli import main; main()", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "run" / "script.py").is_file()
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 143


# ---- commands on pages --------------------------------------------------------------------------------

#: Pages with commands; lists of changes name what is gone.
COMMANDED = {
    str(page.relative_to(DOCS.parent)): page
    for page in (*sorted(DOCS.rglob("*.md")), *sorted(DOCS.parent.glob("*.md")))
    if not {"_build", "generated", "changes"} & set(page.parts) and page.name != "CHANGELOG.md"
}


def command_lines(text):
    """Commands of the blocks of a page, as lists of words."""
    for block in re.findall(r"^```(?:console|bash|sh)\n(.*?)^```$", text, re.S | re.M):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            for one in line.removeprefix("$ ").split(" && "):
                yield shlex.split(one, comments=True)


@functools.cache
def parser(command):
    from kernelweave_app.cli.app import make_app

    return make_app(command)


@functools.cache
def extras():
    """Names between the brackets of an installation."""
    return tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf8"))["project"][
        "optional-dependencies"
    ]


def wrong_command(words, *, whole=True):
    """What is wrong with a command that a page shows; a part of one need not have all arguments."""
    from cyclopts import CycloptsError, MissingArgumentError

    root = DOCS.parent
    match words:
        case ["kernelweave", command, *_]:
            try:
                parser(command).parse_args(words[1:], exit_on_error=False, print_error=False)
            except MissingArgumentError as error:
                return str(error) if whole else ""
            except CycloptsError as error:
                return str(error)
        case ["make", *targets]:
            done = subprocess.run(["make", "-n", *targets], cwd=root, capture_output=True, text=True)
            return done.stderr if done.returncode else ""
        case ["python", "-m", "pip", "install", *given]:
            asked = {name for one in given for name in re.findall(r"\.\[(.*)\]", one)}
            return str(asked - set(extras()) or "")
        case ["python", "-m", "venv", _] | [".", _]:
            return ""
        case ["python", "-c", code]:
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            return done.stderr if done.returncode else ""
        case ["python", script, *_]:
            return "" if any(root.glob(f"*/**/{script}")) else f"There is no {script}."
        case ["cd", folder]:
            return "" if folder == "kernelweave" or (root / folder).is_dir() else f"There is no {folder}."
        case ["benchopt", "run", name, *_]:
            return "" if (root / "benchmarks" / "benchopt" / name).is_dir() else f"There is no {name}."
        case ["git", "clone", *_] | ["sbatch", *_]:
            return ""
        case _:
            return f"Nobody checks {words}."


def test_commands_on_pages_are_those_of_the_program():
    """By its own parser: commands, options, the number and the kinds of their arguments."""
    pytest.importorskip("cyclopts")
    wrong = []
    for page, path in COMMANDED.items():
        text = path.read_text("utf8")
        spans = re.findall(r"`(kernelweave [^`]*)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
        shown = [(words, True) for words in command_lines(text) if words]
        shown += [(shlex.split(span), False) for span in spans]
        wrong += [
            (page, words, said) for words, whole in shown if (said := wrong_command(words, whole=whole))
        ]
    assert wrong == []


@pytest.mark.parametrize(
    "wrong",
    [
        "kernelweave fiit table.csv --target y",
        "kernelweave fit table.csv --targets y",
        "kernelweave fit --target y",
        "kernelweave fit table.csv --cv many --target y",
        "make testing",
        "python -m pip install '.[clii]'",
        "python -c 'import kernelwave'",
        "python judges.py",
        "cd benchmark",
        "cargo install kernelweave",
    ],
)
def test_commands_that_do_not_exist_are_found(wrong):
    pytest.importorskip("cyclopts")
    assert wrong_command(shlex.split(wrong))


def write_tables(folder):
    """The tables that commands on pages name, 60 rows each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    frame = pd.DataFrame(X, columns=[*(f"gene_{k}" for k in range(3)), *(f"lipid_{k}" for k in range(3))])
    ill = np.where(X[:, 0] + X[:, 3] + 0.3 * rng.normal(size=60) > 0, "ill", "well")
    several = {name: (X[:, k] > 0.3) * 1 for k, name in enumerate(("asthma", "copd", "pneumonia"))}
    frame.assign(outcome=ill).to_csv(folder / "table.csv", index=False)
    for name in ("patients", "new"):
        frame.assign(**several).to_csv(folder / f"{name}.csv", index=False)
    rows = frame.assign(id=[f"p{k}" for k in range(60)], ill=ill)
    rows.iloc[:55, [0, 1, 2, 6, 7]].mask(rng.random((55, 5)) < [0.1, 0.1, 0.1, 0, 0]).to_csv(
        folder / "rna.csv", index=False
    )
    rows.iloc[5:, 3:7].to_csv(folder / "protein.csv", index=False)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "page",
    [
        "getting_started.md",
        "reference/learners.md",
        "user_guide/deep_kernels.md",
        "user_guide/missing_values.md",
    ],
)
def test_commands_on_pages_run(page, tmp_path, monkeypatch):
    """As copied, one after the other, in a folder with the tables that they name."""
    pytest.importorskip("cyclopts")
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    commands = [words for words in command_lines((DOCS / page).read_text("utf8")) if words]
    assert commands
    for program, *arguments in commands:
        assert program == "kernelweave"
        command = [sys.executable, "-c", "from kernelweave_app.cli import main; exit(main())", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, (arguments, done.stdout + done.stderr)


def test_no_sentence_becomes_a_list_where_a_line_ends():
    """Of a line that begins with "1) " or "- " Markdown makes a list, though the paragraph goes on."""
    wrong = []
    for page in sorted(DOCS.glob("**/*.md")):
        lines, fenced = page.read_text().splitlines(), False
        for before, line in zip(["", *lines], lines, strict=False):
            fenced ^= line.startswith(("```", ":::"))
            if not fenced and re.match(r"(1[.)]|[-+*]) ", line) and re.match(r"[^\s>#:`|*+\-\d]", before):
                wrong.append((page.name, line))
    assert wrong == []


# ---- from paper to code ---------------------------------------------------------------------------

PAPERS = {
    "rls2": {"": 19, "Problem": 8, "Theorem": 2, "Lemma": 6, "Algorithm": 1, "Figure": 9, "Table": 5},
    "rkl": {"": 23, "Proposition": 4, "Theorem": 1, "Table": 1},
    "mlmkl": {"": 21, "Algorithm": 1, "Figure": 3, "Table": 3},
}
PAGES = [f"papers/{name}.md" for name in (*PAPERS, "rkl_convex", "index")]
GUIDE = sorted(
    f"{folder}/{path.name}"
    for folder in ("user_guide", "reference", "tutorials")
    for path in (DOCS / folder).glob("*.md")
)
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
        if re.search(r"=[^,)]", arguments) and not re.search(
            r"\.\.\.|\b(stack|gram|model|X_\w+)\b", arguments
        ):
            made = eval(f"{name}({arguments})", {"kw": kw})
            getattr(made, "check", lambda: None)()
    about = f"{kw.MKLRegressor.__doc__} {kw.MKLClassifier.__doc__}"
    for attribute in re.findall(r"`([a-z]\w*_)`", text):
        assert re.search(rf"\b{attribute}\b", about), f"{page}: {attribute}"
    for experiment in re.findall(r"kernelweave reproduce ([a-z0-9-]+)", text):
        assert experiment in EXPERIMENTS, f"{page}: {experiment}"


def modules():
    """All modules of the package but those of the studio."""
    for info in pkgutil.walk_packages(kw.__path__, "kernelweave."):
        if ".studio" not in info.name and not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def members(kind):
    """What a class and its bases define, without calling it."""
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


@functools.cache
def public():
    """Public functions, classes and methods by their last name."""
    found = collections.defaultdict(set)

    def add(name, value):
        function = getattr(value, "__func__", value)
        if inspect.isclass(function) or inspect.isfunction(function):
            found[name].add(function)
        if inspect.isclass(function):
            for own, member in members(function).items():
                add(own, member)

    for name in (*kw.__all__, "normalizers", "problems", "results", "views"):
        value = getattr(kw, name)
        inside = [(name, value)]
        if inspect.ismodule(value):
            # names of a module that are not its own are of other packages
            inside = [(own, getattr(value, own)) for own in {*vars(value), *value.__all__}]
        for own, each in inside:
            if not own.startswith("_") and str(getattr(each, "__module__", "")).startswith("kernelweave"):
                add(own, each)
    return found


def parameters_of(function):
    with contextlib.suppress(TypeError, ValueError):
        return inspect.signature(function).parameters
    return {}


@functools.cache
def owners(parameter):
    """Public functions, classes and methods with a parameter."""
    return {each for several in public().values() for each in several if parameter in parameters_of(each)}


def admits(function, parameter, node):
    """Whether a parameter may have a value, if it is written out; True and False only where the type says so."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return True
    rule = rules_of(function).get(parameter)
    if rule is not None and value is not ...:
        try:
            check_value(rule, parameter, value)
        except kw.InputError:
            return False
    kind = str(parameters_of(function)[parameter].annotation)
    return rule is not None or not isinstance(value, bool) or bool(re.search("bool|Any|empty", kind))


def wrong_keywords(source, foreign=frozenset()):
    """Keywords of calls that no public function of that name has, or not with such a value."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            theirs = [
                one for one in node.names if "kernelweave" not in (getattr(node, "module", ""), one.name)
            ]
            foreign |= {one.asname or one.name.partition(".")[0] for one in theirs}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            foreign |= {node.name}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name not in public() or foreign & {name, ast.unparse(call.func).partition(".")[0]}:
            continue
        known = [one for each in public()[name] for one in parameters_of(each).values()]
        # settings of any name are passed on
        if any(one.kind is one.VAR_KEYWORD for one in known) and name != "set_params":
            continue
        for keyword in (each for each in call.keywords if each.arg):
            # parameters of parts, as in `learner__tol=`
            part = keyword.arg.rpartition("__")[2]
            own = owners(part)
            if part == keyword.arg and name != "set_params":
                own = own & public()[name]
            if not any(admits(one, part, keyword.value) for one in own):
                yield f"{name}({ast.unparse(keyword)})"


def wrong_settings(text):
    """Parameters with their values, in backticks and in blocks of code, that nothing public has."""
    for language, block in re.findall(r"^```(\S*)\n(.*?)^```$", text, re.S | re.M):
        examples = [each.source for each in doctest.DocTestParser().get_examples(block)]
        if examples or language == "python":
            # a data frame, which has `sample` too
            yield from wrong_keywords("".join(examples) or block, frozenset({"clinical"}))
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)):
        if span.startswith("-"):  # an option of the command line
            continue
        filled = re.sub(r"=(?=[,)]|$)", "=...", span)
        setting = re.fullmatch(r"([A-Z]|[A-Z]?[a-z]\w*)=([^=].*)", filled)
        try:
            if not setting:
                yield from wrong_keywords(filled)
            elif not any(
                admits(one, setting[1], ast.parse(setting[2], mode="eval").body) for one in owners(setting[1])
            ):
                yield span
        except SyntaxError:  # other code, such as a command
            continue


def test_parameters_on_pages_exist():
    """`verbose=` stood on a page, and nothing has such a parameter."""
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    # lists of changes name what is gone
    pages = [page for page in pages if not {"_build", "generated", "changes"} & set(page.parts)]
    strange = {page.name: list(wrong_settings(page.read_text("utf8"))) for page in pages}
    assert {name: found for name, found in strange.items() if found} == {}


@pytest.mark.parametrize(
    "wrong",
    [
        "`verbosity=`",
        "`verbosity=True`",
        # solvers have one, for coefficients
        "`warm_start=True`",
        "`RLS2(warm_start=True)`",
        "`kw.learners.SimpleMKL(warm_start=None)`",
        "`Css=[1.0]`",
        "`set_params(learner__verbosity=1)`",
        "```python\nmodel = kw.MKLClassifier(warm_start=True)\n```",
        "```python\n>>> kw.solve_rls2(gram, y, lam=0.1)\n```",
        "```\n>>> model.predict(X, std=True)\n```",
    ],
)
def test_parameters_that_do_not_exist_are_found(wrong):
    assert list(wrong_settings(wrong)) != []


def test_summaries_do_not_end_in_a_formula():
    """A first line is cut where a full stop and a space follow, as in "x . z"."""
    cut = set()
    for module in modules():
        for value in [each for each in vars(module).values() if callable(each)]:
            for each in [value, *(members(value).values() if inspect.isclass(value) else ())]:
                first = (inspect.getdoc(each) or "").split("\n\n")[0]
                if re.search(r"[\w)] \. [\w(]", first):
                    cut.add(first)
    assert cut == set()


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


def rows_of(text: str) -> list[list[str]]:
    """Cells of the tables that go from paper to code."""
    lines = [
        line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| in the paper")
    ]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_item_of_a_paper_has_a_verdict(paper):
    rows = [cells for cells in rows_of((DOCS / "papers" / f"{paper}.md").read_text()) if len(cells) == 4]
    assert len(rows) > 35
    # (10) of RKL: its variants have verdicts in the rows beside it
    assert [item for item, *_, found in rows if not found and not item.startswith("(10) Chapelle")] == []


@pytest.mark.parametrize(
    ("paper", "headings"),
    [
        ("rls2", ("## Section 1: introduction", "## Section 6: conclusions, and the appendix")),
        ("rkl", ("## Introduction (section 1) and conclusions (section 7)",)),
        ("mlmkl", ("## Abstract and conclusions (section 8)",)),
    ],
)
def test_claims_of_abstracts_and_conclusions_have_rows(paper, headings):
    text = (DOCS / "papers" / f"{paper}.md").read_text()
    for heading in headings:
        assert len(rows_of(text.partition(f"\n{heading}\n")[2].partition("\n## ")[0])) >= 4


def test_tests_that_pages_name_exist():
    """As `tests/test_path.py` and `test_df_four_forms_agree`."""
    folder = DOCS.parent / "tests"
    defined = {
        name
        for file in folder.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    for page in PAGES:
        text = (DOCS / page).read_text()
        for name in re.findall(r"`tests/(\w+\.py)`", text):
            assert (folder / name).is_file(), f"{page}: {name}"
        named = set(re.findall(r"`(test_\w+)`", text))
        assert named <= defined, f"{page}: {named - defined}"


def test_no_page_calls_something_not_recoverable():
    """Each place says from what a formula was derived, or what the text does not state."""
    pages = [path for path in DOCS.rglob("*.md") if not {"_build", "generated"} & set(path.parts)]
    found = [page.name for page in pages if re.search(r"not\s+(be )?recover", page.read_text("utf8"), re.I)]
    assert found == []


def test_claims_about_the_printed_tables_of_mlmkl():
    """Layers, averages and ranks, recounted from the printed table."""
    from kernelweave_papers.mlmkl_tables import PRINTED

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
    from kernelweave_papers.rkl import PRINTED

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


def test_the_page_of_numbers_has_every_finding_with_its_module():
    import kernelweave_app.runs.doubts  # noqa: F401
    from kernelweave.inspection.registry import PACKAGES, REGISTRY

    text = (DOCS / "reference" / "numbers.md").read_text("utf8")
    rows = re.findall(r"^\| (`.*?) \| .*? \| (`[^|]*) \|", text, re.M)
    made = {name: places for names, places in rows for name in re.findall(r"`([^`]+)`", names)}
    declared = {name: str(one.function.__module__) for name, one in REGISTRY.items()}
    own = {name: module for name, module in declared.items() if module.partition(".")[0] in PACKAGES}
    assert set(made) == set(own)
    for name, module in own.items():
        assert f"`{'/'.join(module.split('.')[1:])}.py`" in made[name]
