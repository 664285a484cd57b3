"""Files for those who cite, package or judge the project agree with it; claims on pages are those of the results."""

import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from benchmarks import claims

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
yaml = pytest.importorskip("yaml")


def requirement(text):
    name, _, version = text.partition(">=")
    return name.strip(), version.partition(",")[0].strip()


def test_citation_agrees_with_the_project():
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["cff-version"] == "1.2.0"
    assert (found["title"], found["version"]) == (PROJECT["project"]["name"], PROJECT["project"]["version"])
    assert found["license"] == PROJECT["project"]["license"]
    assert {"message", "authors"} <= set(found)
    assert [r["year"] for r in found["references"]] == [2010, 2010, 2015]
    for author in (a for r in found["references"] for a in r["authors"]):
        assert {"family-names", "given-names"} <= set(author)


def test_recipe_agrees_with_the_project():
    text = (ROOT / "conda" / "meta.yaml").read_text()
    [version] = re.findall(r'set version = "(.*?)"', text)
    assert version == PROJECT["project"]["version"]
    text = re.sub(r"\{%.*?%\}", "", text).replace('{{ compiler("cxx") }}', "cxx")
    recipe = yaml.safe_load(re.sub(r"\{\{ (\w+) \}\}", r"\1", text))
    run = {requirement(line) for line in recipe["requirements"]["run"]}
    python = ("python", PROJECT["project"]["requires-python"].removeprefix(">="))
    assert run == {python, *map(requirement, PROJECT["project"]["dependencies"])}
    renamed = {"matplotlib": "matplotlib-base"}
    wanted = map(requirement, PROJECT["project"]["optional-dependencies"]["cli"])
    optional = {(renamed.get(name, name), version) for name, version in wanted}
    assert {requirement(line) for line in recipe["requirements"]["run_constrained"]} == optional
    host = {requirement(line) for line in recipe["requirements"]["host"]}
    assert {requirement(line) for line in PROJECT["build-system"]["requires"]} <= host
    entry = [f"{name} = {place}" for name, place in PROJECT["project"]["scripts"].items()]
    assert recipe["build"]["entry_points"] == entry


def test_the_test_of_wheels_runs_here():
    from kernelweave._loops import HAS_EXTENSION

    wheels = PROJECT["tool"]["cibuildwheel"]
    assert wheels["build"] == ["cp311-*", "cp312-*"]
    python, *arguments = shlex.split(wheels["test-command"])
    assert python == "python"
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert (done.returncode == 0) == HAS_EXTENSION, done.stderr


def test_the_paper_has_its_parts_and_references():
    text = (ROOT / "paper.md").read_text()
    head, body = text.split("---\n", 2)[1:]
    settings = yaml.safe_load(head)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(settings)
    parts = (
        "Summary",
        "Statement of need",
        "State of the field",
        "Research impact",
        "How it was written",
        "References",
    )
    for heading in parts:
        assert f"\n# {heading}\n" in body
    known = set(re.findall(r"^@\w+\{(\w+),", (ROOT / settings["bibliography"]).read_text(), re.M))
    assert set(re.findall(r"@(\w+)", body)) == known
    assert len(body.split()) < 1000


def test_one_command_fills_in_the_address_of_the_project(tmp_path, capsys):
    address = runpy.run_path(str(ROOT / ".ci" / "address"))
    for name in address["FILES"]:
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((ROOT / name).read_text())
    tracked = [path for path in ROOT.glob("*.*") if path.is_file()] + [*(ROOT / "docs").glob("*.md")]
    with_it = {
        str(path.relative_to(ROOT)) for path in tracked if address["PLACEHOLDER"] in path.read_text("utf8")
    }
    assert with_it <= set(address["FILES"])
    assert address["main"]([], tmp_path) == (1 if with_it else 0)
    assert address["main"](["git@host:owner/name"], tmp_path) == 2
    assert address["main"](["https://host.org/owner/name.git"], tmp_path) == 0
    assert address["main"]([], tmp_path) == 0
    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["urls"]
    if with_it:
        assert urls["Issues"] == "https://host.org/owner/name/issues"
    capsys.readouterr()


def test_stored_claims_are_those_of_the_results():
    stored = [claim for claim in claims.CLAIMS if claim.source != "computed"]
    assert stored
    assert [failure for claim in stored for failure in claims.failures(claim)] == []


def test_every_number_among_measurements_is_a_claim():
    assert list(claims.uncovered()) == []


def test_wrong_claims_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text("It takes 0.32 s\nfor [16,063\ncolumns](there).\n")
    pattern = r"takes ([\d.]+) s for ([\d,]+) columns"

    def wrong(*values, **options):
        return list(claims.failures(claims.Claim(("page.md",), pattern, lambda: values, **options)))

    assert wrong(0.3249, 16063.0) == []
    assert "0.32 in" in wrong(0.33, 16063.0)[0]
    assert wrong(0.33, 16063.0, relative=0.05) == []
    assert wrong(0.01, 1.0, bound=True) == []
    assert wrong(0.40, 1.0, bound=True)
    assert "3 computed" in wrong(0.32, 16063.0, 1.0)[0]
    missing = claims.Claim(("page.md",), "nothing like it", tuple)
    assert "no sentence" in next(claims.failures(missing))
    monkeypatch.setattr(claims, "COMPLETE", {"page.md": ("# M",)})
    monkeypatch.setattr(claims, "SETTINGS", {"page.md": {"2"}})
    (tmp_path / "page.md").write_text("# M\n\nIt has 2 parts and 17 cells.\n\n# Next\n\n18 others.\n")
    assert [text.split(" in ")[0] for text in claims.uncovered()] == ["page.md: 17"]


def cells(row):
    return [cell.strip() for cell in row.strip("| ").split("|")]


def test_ranks_on_the_page_of_choices_are_those_of_the_comparison():
    note = (ROOT / "docs" / "design_notes" / "defaults.md").read_text()
    page = (ROOT / "docs" / "understand.md").read_text()
    for there, here in (("mean rank, all", "mean rank on"), ("median seconds", "median seconds")):
        [measured] = re.findall(rf"^\| {there} .*$", note, re.M)
        [told] = re.findall(rf"^\| {here} .*$", page, re.M)
        assert cells(told)[1:] == cells(measured)[2:]


def test_means_on_the_page_of_choices_are_those_of_the_experiments():
    pd = pytest.importorskip("pandas")
    results = ROOT / "docs" / "results"
    rkl = pd.read_csv(results / "rkl" / "tests.csv")
    rkl = rkl[(rkl["protocol"] == "fair") & (rkl["sets"] == "without colon")].set_index("method")["mean"]
    wanted = [f"{rkl[name]:.1f}" for name in ("mkl-l1", "rkl", "mkl-l2", "uniform", "rbf")]
    page = (ROOT / "docs" / "understand.md").read_text()
    number = r"\b\d\d\.\d\b"
    assert re.findall(number, next(row for row in page.splitlines() if "RKL paper" in row)) == wanted
    sets = pd.read_csv(results / "cardinality" / "results.csv").fillna({"protocol": ""})
    mean = sets.groupby(["method", "protocol"])["accuracy"].mean()
    keys = [("simple", "fair"), ("cardinality", "fair"), ("uniform", "fair"), ("rbf", "")]
    assert re.findall(
        number, next(row for row in page.splitlines() if "(experiments/cardinality)" in row)
    ) == [f"{mean[key]:.1f}" for key in keys]
    from kernelweave_papers.mlmkl_grid import TRAINING

    twelve = pd.read_csv(results / "mlmkl" / "results.csv")
    twelve = twelve[(twelve["selection"] == "tuned") & twelve["dataset"].isin(list(TRAINING))]
    mean = twelve.groupby("method")["accuracy"].mean()
    names = ("l2mkl", "mlmkl-3", "average", "rbf")
    assert re.findall(number, next(row for row in page.splitlines() if "MLMKL paper" in row)) == [
        f"{mean[name]:.1f}" for name in names
    ]


def test_himalaya_finds_the_coefficients_of_the_learnt_kernel():
    """As the page on other tools says: kernels first there, last here, and alpha the same."""
    pytest.importorskip("himalaya")
    import numpy as np
    from himalaya.kernel_ridge import WeightedKernelRidge

    import kernelweave as kw

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    y = X[:, 0] + 0.5 * X[:, 3] + 0.1 * rng.normal(size=40)
    gram = np.stack([X[:, k : k + 2] @ X[:, k : k + 2].T for k in (0, 2, 4)], axis=-1)
    ours = kw.solve_rls2(gram, y, alpha=0.5, tol=1e-10)
    used = ours.weights > 0  # its weights are exponentials
    deltas = np.log(ours.weights[used])
    options = {"solver_params": {"tol": 1e-12, "max_iter": 10_000}}
    theirs = WeightedKernelRidge(alpha=0.5, deltas=deltas[:, None], kernels="precomputed", **options)
    theirs.fit(np.moveaxis(gram[:, :, used], -1, 0), y[:, None])
    # its conjugate gradients end about 1e-7 away
    np.testing.assert_allclose(
        theirs.dual_coef_.ravel(), ours.dual_coef, atol=1e-5 * np.abs(ours.dual_coef).max()
    )


def test_the_picture_of_the_front_page_is_small():
    for name in ("front", "front-dark"):
        assert (ROOT / "docs" / "pictures" / f"{name}.svg").stat().st_size < 200_000
    assert callable(runpy.run_path(str(ROOT / "docs" / "pictures" / "front.py"))["fitted"])
