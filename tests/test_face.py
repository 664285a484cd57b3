"""The first fifteen minutes: installations, help, JSON, views from names, the front page of names, former spellings.

Modules: `_lazy`, `runs/proposing`, `inspection/sources`, `cli/early`, `cli/helping`, `cli/output`, `cli/app`.
"""

import ast
import enum
import inspect
import json
import math
import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kernelweave as kw
from kernelweave import InputError
from kernelweave._docstrings import read_docstring, texts_of
from kernelweave._forms import ShortRepr
from kernelweave.functions import KernelFunction
from kernelweave.gram.base import Gram
from kernelweave.machines.loss import BoxLoss, Loss
from kernelweave.mkl.weight_sets import AlternatingSet, Region, ShareSet, WeightSet
from kernelweave.persistence.states import from_state, to_state
from kernelweave_app.runs.proposing import by_names, propose_views

pytest.importorskip("cyclopts")
pytest.importorskip("jinja2")

from kernelweave_app.cli import main

pytestmark = pytest.mark.usefixtures("undrawn")

INSTALLS = Path(__file__).with_name("installs.py")


@pytest.fixture
def mice(tmp_path):
    """Forty rows of two sources, of which the genes tell the outcome."""
    rng = np.random.default_rng(0)
    genes, lipids = rng.normal(size=(40, 6)), rng.normal(size=(40, 4))
    frame = pd.DataFrame(
        {**{f"gene_{k}": genes[:, k] for k in range(6)}, **{f"lipid_{k}": lipids[:, k] for k in range(4)}}
    )
    frame["outcome"] = np.where(genes.sum(axis=1) + 0.3 * rng.normal(size=40) > 0, "ill", "well")
    frame.to_csv(tmp_path / "mice.csv", index=False)
    return tmp_path / "mice.csv"


def fit(mice, *more):
    return ["fit", str(mice), "--target", "outcome", "--out", str(mice.parent / "run"), *more]


QUICK = ("--kernels", "linear", "--method", "uniform", "--cs", "0.1,1", "--cv", "2")


# ---- installations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "extra",
    [
        "bare",
        *(pytest.param(one, marks=pytest.mark.full) for one in ("cli", "all")),
        *(pytest.param(one, marks=pytest.mark.nightly) for one in ("plot", "save", "studio")),
    ],
)
def test_commands_and_functions_run_or_say_what_to_install(extra):
    done = subprocess.run(
        [sys.executable, str(INSTALLS), "--as", extra], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("says") for line in lines) >= (30 if extra == "bare" else 2)
    assert all("pip install" in line for line in lines if line.startswith("says"))


def test_a_missing_compiled_core_is_said_once():
    code = (
        "import sys; sys.modules['kernelweave._loops._core'] = None\n"
        "import warnings; warnings.simplefilter('always')\n"
        "import kernelweave as kw, numpy as np\n"
        "for _ in range(2): kw.solve_svc(np.eye(4), [1, -1, 1, -1], 1.0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("The compiled part of kernelweave is not there") == 1


# ---- the command line -------------------------------------------------------------------------------


def test_help_of_fit_is_one_screen_and_names_options_that_exist(capsys):
    from kernelweave_app.cli.app import make_app

    assert main(["fit", "--help"]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) <= 45
    assert max(map(len, said.splitlines())) <= 80
    assert "Example" in said
    app = make_app("fit")
    known = {name for one in app["fit"].assemble_argument_collection() for name in one.names}
    options = set(re.findall(r"--[a-z-]+", said)) - {"--help-learner", "--help-all"}
    assert options <= known
    assert main(["fit", "--help-all"]) == 0
    assert "--rank-tol" in capsys.readouterr().out


def test_help_of_a_learner_has_its_parameters_only(capsys):
    assert main(["fit", "--help-learner", "lp"]) == 0
    said = capsys.readouterr().out
    assert "--p " in said
    assert "--theta" not in said
    assert main(["fit", "--help-learner=lq"]) == 2
    assert "Known: rls2" in capsys.readouterr().err


def test_options_that_would_do_nothing_or_do_not_exist_are_refused(mice, capsys):
    assert main(fit(mice, "--method", "simple", "--p", "3")) == 2
    assert "--p is for lp, and simple does not have it." in capsys.readouterr().err
    assert main(fit(mice, "--bogus", "3")) == 2
    said = capsys.readouterr().err
    assert "Unknown option: --bogus." in said
    assert "Did you mean" not in said
    assert main(["fit", str(mice), "--traget", "outcome"]) == 2
    assert "Did you mean --target?" in capsys.readouterr().err


FIRST = {
    "table": ["fit", "no.csv", "--target", "outcome", "--out", "x"],
    "target": ["fit", "mice.csv", "--target", "outcom", "--out", "x"],
    "folder": ["fit", "mice.csv", "--target", "outcome"],
    "views": ["fit", "mice.csv", "--target", "outcome", "--views", "no.toml", "--out", "x"],
    "method": ["fit", "mice.csv", "--target", "outcome", "--method", "simpel", "--out", "x"],
    "model": ["predict", "no", "mice.csv", "--out", "p.csv"],
    "rows": ["evaluate", "no", "mice.csv", "--target", "outcome"],
    "run": ["evidence", "no", "mice.csv"],
    "export": ["export", "no", "--out", "m.onnx"],
}


def test_first_errors_need_no_heavy_package(mice):
    """That is what makes them quick: importing scikit-learn alone takes two seconds of the processor."""
    # what options learners have is kept in a file, which the first command after an installation makes
    subprocess.run(
        [sys.executable, "-m", "kernelweave_app.cli", "path", "--help"], capture_output=True, check=True
    )
    code = (
        "import sys\nfrom kernelweave_app.cli import main\n"
        f"for argv in {list(FIRST.values())!r}:\n"
        "    assert main(argv) == 2, argv\n"
        "    heavy = {'sklearn', 'scipy.stats', 'pandas', 'matplotlib'} & sys.modules.keys()\n"
        "    assert not heavy, (argv, heavy)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=mice.parent, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == len(FIRST)


def test_json_is_one_object_of_the_schema_and_quiet_says_nothing(mice, capsys):
    from kernelweave_app.cli.output import Result

    assert main(fit(mice, *QUICK, "--views", "auto", "--json")) == 0
    text = capsys.readouterr().out
    found = Result.model_validate_json(text, strict=True)
    assert (found.command, found.task, found.n_training, found.n_held_out) == ("fit", "classification", 32, 8)
    assert sum(one.weight for one in found.sources) == pytest.approx(1.0)
    assert {one.name for one in found.sources} == {"gene", "lipid"}
    for one in found.sources:
        assert 0 <= one.low <= one.weight <= one.high <= 1
        assert one.loss_low <= one.loss <= one.loss_high
    assert found.certificate.rel_gap < 1e-3
    assert all(Path(name).exists() for name in found.files)
    assert main(["evaluate", str(mice.parent / "run"), str(mice), "--target", "outcome", "--json"]) == 0
    again = Result.model_validate_json(capsys.readouterr().out, strict=True)
    # training rows are told apart from the others
    assert set(again.scores_in_fit) == set(again.scores)
    assert again.scores["accuracy"].value == found.scores["accuracy"].value
    assert (
        main(["predict", str(mice.parent / "run"), str(mice), "--out", str(mice.parent / "p.csv"), "--quiet"])
        == 0
    )
    assert capsys.readouterr().out == ""
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["additionalProperties"] is False
    assert set(json.loads(text)) <= set(schema["properties"])
    if find_spec("jsonschema"):
        import jsonschema

        jsonschema.validate(json.loads(text), schema)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(shell, capsys):
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    assert "evaluate" in said
    assert "test-size" in said


def test_fit_answers_which_source_matters_and_how_sure(mice, capsys):
    assert main(fit(mice, *QUICK, "--budget", "0")) == 0
    assert "gene (6), lipid (4). To weigh sources, add --views auto." in capsys.readouterr().out
    assert main(fit(mice, "--overwrite", "--views", "auto", *QUICK, "--budget", "600")) == 0
    said = capsys.readouterr().out
    first, last = said.index("Time: the fit, and until 600 s"), said.index("Answer\n")
    assert first < said.index("Held-out") < last
    assert "gene matters: a model without it predicts worse" in said[last:]
    table = said[said.index("Sources\n") :].splitlines()[1:4]
    assert table[0].split()[:4] == ["source", "weight", "low", "high"]
    assert [line.split()[0] for line in table[1:]] == ["gene", "lipid"]
    model = kw.load(mice.parent / "run" / "model.skops")
    shown = float(table[1].split()[1])
    assert shown == pytest.approx(100 * kw.inspection.view_weights(model)["gene"], abs=0.05)
    assert f"gene {shown:.1f} %" in repr(model)
    kept = json.loads((mice.parent / "run" / "evidence.json").read_text())
    assert kept["answer"]["details"]["sources"]["gene"]["needed"] == "yes"
    assert "gene matters" in (mice.parent / "run" / "report.html").read_text()


def test_recommended_settings_weigh_sources_that_names_suggest(mice, capsys):
    assert main(["recommend", str(mice), "--target", "outcome", "--question", "sources"]) == 0
    assert (
        "Setting views = auto: by their names the columns are of several sources" in capsys.readouterr().out
    )


REFUSED = {
    "pipes": ("a|b|y\n" + "1|2|x\n2|3|z\n" * 9, "no column 'q' for the target. Columns: 'a', 'b', 'y'"),
    "empty": ("", "is empty. A table needs a line with the names of its columns"),
    "latin": ("a,b,n\xe4me\n1,2,x\n", "not text in UTF-8: byte 5 is 0xe4, as in files of Latin-1"),
    # files are read in pieces of 1 MiB: here the wrong character begins with the last byte of the first
    "a piece": ("q\n" + "x" * (2**20 - 3) + "\xc3(\n", "not text in UTF-8: byte 1048575 is 0xc3"),
    "cut": ("q,b\n1,\xc3", "not text in UTF-8: byte 6 is 0xc3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_text_files_that_are_not_usual_say_what_to_do(case, tmp_path, capsys):
    text, words = REFUSED[case]
    (tmp_path / "t.csv").write_text(text, encoding="latin-1")
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "q", "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err


# ---- views of a table -------------------------------------------------------------------------------


def test_views_are_proposed_from_names_types_and_correlations():
    assert by_names([f"{part}.{k}" for part in ("cg", "rs") for k in range(3)]) == {
        "cg": ["cg.0", "cg.1", "cg.2"], "rs": ["rs.0", "rs.1", "rs.2"],
    }  # fmt: skip
    assert by_names(["mean radius", "mean area", "worst radius", "worst area", "age"]) == {
        "mean": ["mean radius", "mean area"], "worst": ["worst radius", "worst area"], "other": ["age"],
    }  # fmt: skip
    for names in (["age", "bmi"], ["x1", "x2", "x3"], ["gene_a", "gene_b", "age", "bmi", "sex"], ["a_1"], []):
        assert by_names(names) == {}
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, 50, 1))
    values = np.hstack([first + 0.2 * rng.normal(size=(50, 3)), second + 0.2 * rng.normal(size=(50, 2))])
    found = propose_views(pd.DataFrame(values, columns=list("abcde")))
    assert found.reason == "correlations"
    assert sorted(found.views.values()) == [["a", "b", "c"], ["d", "e"]]
    noise = pd.DataFrame(rng.normal(size=(50, 5)), columns=list("abcde"))
    assert propose_views(noise).views == {}
    mixed = propose_views(noise.assign(site=["n", "s"] * 25))
    assert (mixed.reason, mixed.views["categories"]) == ("types", ["site"])


# ---- names ------------------------------------------------------------------------------------------

#: Names of the public contract, wherever they are listed.
CONTRACT = [
    "kernels",
    "banks",
    "learners",
    "losses",
    "weight_sets",
    "inspection",
    "plots",
    "datasets",
    "normalizers",
    "problems",
    "results",
    "views",
    "MKLClassifier",
    "MKLRegressor",
    "MKLClassifierCV",
    "MKLRegressorCV",
    "SelectViews",
    "KernelBank",
    "Views",
    "precomputed",
    "FeatureStack",
    "BlockStatistics",
    "KernelStream",
    "RowFeatures",
    "Problem",
    "solve",
    "solve_rls2",
    "solve_svm_mkl",
    "solve_rkl",
    "solve_svc",
    "solve_svr",
    "solve_meb",
    "rls2_path",
    "save",
    "load",
    "to_onnx",
    "InputError",
    "NotPSDError",
    "KernelWarning",
]
FORMER = [
    "block_statistics",
    "FoldStatistics",
    "predict_rows",
    "rls2_path_cv",
    "svm_mkl_path_cv",
    "repair_gram",
    "solve_klr",
    "solve_l2svc",
    "solve_cardinality_mkl",
    "solve_align",
    "solve_alignf",
    "solve_easy_mkl",
    "solve_radius",
    "svm_mkl_path",
    "Gaussians",
    "KernelFamily",
    "Status",
]


def test_the_front_page_is_short_and_the_contract_stays():
    assert len(kw.__all__) <= 26
    assert all(getattr(kw, name) is not None for name in CONTRACT)
    assert {*kw.solvers.__all__, *kw.rows.__all__} >= {*FORMER}


@pytest.mark.parametrize("name", FORMER)
def test_former_names_warn_for_one_version(name):
    place = kw.rows if name in kw.rows.__all__ else kw.solvers
    with pytest.warns(
        DeprecationWarning, match=rf"kernelweave\.{name} is now kernelweave\.(rows|solvers)\.{name}"
    ):
        assert getattr(kw, name) is getattr(place, name)


X = np.random.default_rng(2).normal(size=(20, 3))
GRAM = np.stack([np.outer(column, column) for column in X.T], axis=-1)
LABELS = np.sign(X[:, 0])
EVEN = np.full(3, 1 / 3)
SPELLINGS = {
    "solve_svm_mkl": (lambda **o: kw.solve_svm_mkl(GRAM, LABELS, 1.0, **o), "method", "solver", "newton"),
    "svm_mkl_path": (lambda **o: kw.solvers.svm_mkl_path(GRAM, LABELS, [1.0], **o), "method", "solver", "newton"),
    "solve_radius": (lambda **o: kw.solvers.solve_radius(GRAM, LABELS, 1.0, **o), "step", "solver", "newton"),
    "solve_rls2": (lambda **o: kw.solve_rls2(GRAM, X[:, 0], 1.0, **o), "weights0", "start", EVEN),
    "rls2_path": (lambda **o: kw.rls2_path(GRAM, X[:, 0], [1.0], **o), "weights0", "start", EVEN),
    "solve_svc": (lambda **o: kw.solve_svc(np.eye(20), LABELS, 1.0, **o), "warm_start", "start", np.zeros(20)),
    "solve_svr": (lambda **o: kw.solve_svr(np.eye(20), LABELS, 1.0, **o), "warm_start", "start", np.zeros(20)),
    "compare_numbers": (lambda **o: kw.inspection.compare_numbers(*X.T, **o), "seed", "random_state", 3),
    "solve_meb": (lambda **o: kw.solve_meb(np.eye(20), **o), "warm_start", "start", np.full(20, 0.05)),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_one_word_for_each_idea_and_former_ones_warn(name):
    call, former, present, value = SPELLINGS[name]
    now = call(**{present: value})
    with pytest.warns(DeprecationWarning, match=f"`{former}` of {name} is now `{present}`"):
        before = call(**{former: value})
    np.testing.assert_array_equal(getattr(now, "weights", now), getattr(before, "weights", before))
    with pytest.raises(InputError, match="Give"):
        call(**{former: value, present: value})


def test_former_names_of_settings_of_learners(tmp_path):
    from kernelweave_app.runs.spec import check_spec

    now = kw.learners.RKL(solver="armijo")
    with pytest.warns(DeprecationWarning, match="`step` of RKL is now `solver`; .* version 0.4"):
        assert repr(kw.learners.RKL(step="armijo")) == repr(now)
    with pytest.warns(DeprecationWarning, match="`step` of RKL"):
        assert repr(kw.learners.RKL().set_params(step="armijo")) == repr(now)
    model = kw.MKLClassifier([kw.kernels.Linear()], kw.learners.RKL())
    with pytest.warns(DeprecationWarning, match="`step` of RKL"):
        assert model.set_params(learner__step="armijo").learner.solver == "armijo"
    with pytest.raises(InputError, match="Give `solver` alone"):
        kw.learners.RKL(step="armijo", solver="newton")
    # in files of settings, and beside the steps of deep learners
    with pytest.warns(DeprecationWarning, match="`step` of rkl is now `solver`"):
        found = check_spec({"target": "y", "method": "rkl", "learner_params": {"step": "armijo"}})
    assert found.learner_params == {"solver": "armijo"}
    assert check_spec(
        {"target": "y", "method": "mlmkl", "learner_params": {"step": "adam"}}
    ).learner_params == {"step": "adam"}
    # model files are read without a word
    state = json.loads(json.dumps(to_state(now)).replace('"solver"', '"step"'))
    assert repr(from_state(state)) == repr(now)


# ---- estimators -------------------------------------------------------------------------------------


def test_usual_controls_reach_the_solver(capsys):
    y = X[:, 0] > 0
    model = kw.MKLClassifier(
        [kw.kernels.Linear()], "simple", tol=0.03, max_iter=7, n_jobs=1, verbose=True
    ).fit(X, y)
    assert (model.model_.learner.tol, model.model_.learner.max_iter) == (0.03, 7)
    assert "MKLClassifier: step 1" in capsys.readouterr().err
    assert kw.MKLRegressor(alpha="auto", n_jobs=2)._checked_learner().n_jobs == 2
    with pytest.raises(InputError, match="`max_iter` is for learners that have it, and Align does not"):
        kw.MKLClassifier(learner="align", max_iter=3).fit(X, y)
    one, other, same = (
        kw.MKLRegressor(
            [kw.kernels.RBF(1.0)], alpha=1.0, approximation="random-features", random_state=seed
        ).fit(X, X[:, 1])
        for seed in (1, 2, 1)
    )
    assert np.abs(one.predict(X) - other.predict(X)).max() > 1e-6
    np.testing.assert_array_equal(one.predict(X), same.predict(X))


def test_wrong_uses_say_what_was_meant():
    with pytest.raises(
        TypeError, match=r"'kernel'\. Did you mean 'kernels'\? For a Gaussian kernel: kernels=\[kw"
    ):
        kw.MKLClassifier(kernel="rbf")
    with pytest.raises(InputError, match=r"For that kernel: kernels=\[kw\.kernels\.RBF"):
        kw.MKLClassifier("rbf").fit(X, LABELS)
    with pytest.raises(InputError, match=r"got continuous numbers such as .* For numbers use MKLRegressor"):
        kw.MKLClassifier().fit(X, X[:, 0])
    with pytest.raises(AttributeError, match=r"it predicts numbers\. For intervals use predict_interval"):
        kw.MKLRegressor().predict_proba(X)
    assert not hasattr(kw.MKLRegressor(), "predict_proba")


def test_texts_of_results_and_models_are_short():
    found = kw.solve_rls2(GRAM, X[:, 0], 0.1)
    assert len(repr(found)) < 400
    assert "dual_coef=<array 20>" in repr(found)
    assert "status=CONVERGED" in repr(found)
    model = kw.MKLRegressor([kw.kernels.Linear()], alpha=1.0).fit({"a": X[:, :1], "b": X[:, 1:]}, X[:, 0])
    shown = repr(model).partition("  # fitted: ")
    largest, part = next(iter(kw.inspection.view_weights(model).items()))
    assert shown[2].startswith(f"{largest} {100 * part:.1f} %")
    assert eval(shown[0], {"MKLRegressor": kw.MKLRegressor, "Linear": kw.kernels.Linear}).alpha == 1.0


def test_long_texts_in_results_are_named_but_results_in_results_are_shown():
    @dataclass(frozen=True)
    class Part(ShortRepr):
        text: str

    @dataclass(frozen=True)
    class Whole(ShortRepr):
        part: Part
        several: list[str]

    short, long = "a" * 10, "a" * 500
    assert repr(Whole(Part(short), [short])) == f"Whole(part=Part(text='{short}'), several=['{short}'])"
    assert repr(Whole(Part(long), [long])) == "Whole(part=Part(text=<str>), several=[<str>])"
    # a result is shown whole, however long its parts make it
    many = [Part("b" * 70)] * 2
    assert repr(Whole(many[0], many)).count("b" * 70) == 3


ESTIMATORS = (kw.MKLClassifier, kw.MKLRegressor, kw.MKLClassifierCV, kw.MKLRegressorCV, kw.SelectViews)


@pytest.mark.parametrize("owner", ESTIMATORS, ids=lambda one: one.__name__)
def test_parameters_of_estimators_are_explained_where_they_stand(owner):
    for name, entry in read_docstring(owner.__doc__).parameters.items():
        assert len(entry.about.split()) >= 4, name
        assert not re.match(r"[Ss]ee\b", entry.about), name
    assert not re.search(r"see `?MKL(Regressor|Classifier)`?\b(?!CV)", owner.__doc__)


MODULES = ("normalizers", "problems", "results", "views")


def public_signatures():
    """Names, parameters and docstrings of public functions, classes, and methods of estimators."""
    found = {}
    for name in (*kw.__all__, *MODULES):
        value = getattr(kw, name)
        inside = value.__all__ if inspect.ismodule(value) else ()
        found |= {f"{name}.{own}": getattr(value, own) for own in inside} or {name: value}
    found |= {
        f"{owner.__name__}.{name}": getattr(owner, name)
        for owner in (*ESTIMATORS, kw.MKLSurvival)
        for name in dir(owner)
        if not name.startswith("_")
        and getattr(inspect.getattr_static(owner, name), "__module__", "").startswith("kernelweave.")
    }
    for name, value in found.items():
        # enumerations, errors and protocols have the constructors of Python
        if callable(value) and not (
            inspect.isclass(value)
            and (issubclass(value, enum.Enum | Exception) or getattr(value, "_is_protocol", False))
        ):
            parameters = dict(inspect.signature(value).parameters)
            parameters.pop("self", None)
            # abstract classes that declare no constructor
            if [str(one) for one in parameters.values()] != ["*args", "**kwargs"]:
                yield name, parameters, inspect.getdoc(value)


def unexplained(parameters, text):
    """Parameters without a text where they stand, or of any type."""
    entries = read_docstring(text).fields
    return [
        name
        for name, one in parameters.items()
        if name not in entries
        or not entries[name].about
        or (re.search(r"\bAny\b", str(one.annotation)) and one.kind is not one.VAR_KEYWORD)
    ]


def test_every_public_parameter_has_a_text_and_a_type():
    found = list(public_signatures())
    assert sum(len(parameters) for _, parameters, _ in found) > 1400
    assert {name: lacking for name, *parts in found if (lacking := unexplained(*parts))} == {}


#: Base classes whose methods state what their parameters are, also for those that replace them without a docstring.
BASES = (KernelFunction, kw.kernels.Kernel, Gram, Loss, BoxLoss, Region, WeightSet, AlternatingSet, ShareSet)


@pytest.mark.parametrize("base", BASES, ids=lambda one: one.__name__)
def test_methods_of_base_classes_explain_their_parameters(base):
    methods = {
        name: getattr(base, name)
        for name, own in vars(base).items()
        if not name.startswith("_") and inspect.isfunction(own)
    }
    assert methods
    lacking = {}
    for name, method in methods.items():
        entries = read_docstring(inspect.getdoc(method)).fields
        parameters = [one for one in inspect.signature(method).parameters if one != "self"]
        lacking[name] = [one for one in parameters if one not in entries or not entries[one].about]
    assert {name: found for name, found in lacking.items() if found} == {}


def public_objects():
    """Public functions and classes, and the methods and properties of these, by name."""
    places = {"kernelweave": kw} | {
        name: getattr(kw, name) for name in (*kw.__all__, *MODULES) if inspect.ismodule(getattr(kw, name))
    }
    for name, place in places.items():
        for own in place.__all__:
            if callable(value := getattr(place, own)):
                yield f"{name}.{own}", value
            if not inspect.isclass(value):
                continue
            for part in dir(value):
                static = inspect.getattr_static(value, part)
                method = static.fget if isinstance(static, property) else getattr(value, part)
                if (
                    not part.startswith("_")
                    and (inspect.isfunction(method) or inspect.ismethod(method))
                    and method.__module__.startswith("kernelweave")
                ):
                    yield f"{name}.{own}.{part}", method


def public_methods():
    """Public methods of all public classes: their names, parameters and docstrings."""
    for name, method in public_objects():
        if not inspect.isclass(method) and name.count(".") == 2:
            parameters = [one for one in inspect.signature(method).parameters if one != "self"]
            yield name, parameters, inspect.getdoc(method)


def of_any_type(owner):
    """Parameters of any type, but for keywords that are passed on, and "return"."""
    try:
        signature = inspect.signature(owner)
    except ValueError:  # classes with a constructor of Python
        return []
    kinds = {
        name: one.annotation for name, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD
    } | {"return": signature.return_annotation}
    return [name for name, kind in kinds.items() if re.search(r"\bAny\b", str(kind))]


def test_every_default_is_the_one_of_the_text():
    n_said = 0
    for name, parameters, text in public_signatures():
        for own, said in re.findall(r"^(\w+) : .*?default=(\"[^\"]*\"|\S+?)[,.]?$", text or "", re.M):
            value = math.inf if said == "inf" else ast.literal_eval(said)
            assert value == parameters[own].default, (name, own)
            n_said += 1
    assert n_said > 400


def test_no_public_signature_takes_or_returns_anything():
    found = dict(public_objects())
    assert len(found) > 1000
    assert {name: any_type for name, value in found.items() if (any_type := of_any_type(value))} == {}

    def some(a: "Any", b: int, **others: "Any") -> "list[Any]": ...  # noqa: F821

    assert of_any_type(some) == ["a", "return"]


#: A text that sends to another object in place of an explanation: "See `solve`." or "As for `solve`, without ...".
ELSEWHERE = re.compile(
    r"\s*(?:As|See|Like|The same as|With the meaning)\b(?:[^.;:`]|:\w+:)*(?:`|\bfor regression)"
)


def sent_elsewhere(text):
    """Entries of a docstring that begin with a reference in place of an explanation."""
    sections = read_docstring(text)
    return [
        name
        for heading in ("Parameters", "Attributes", "Returns", "Yields", "Raises")
        for name, entry in sections.entries(heading).items()
        if ELSEWHERE.match(entry.lines)
    ]


def test_texts_explain_where_they_stand():
    found = {
        name: bare for name, value in public_objects() if (bare := sent_elsewhere(inspect.getdoc(value)))
    }
    assert found == {}
    head = "Do.\n\nParameters\n----------\n"
    assert sent_elsewhere(f"{head}a, b : int\n    As for `solve`.\nc : int\n    As given.\n") == ["a", "b"]
    assert sent_elsewhere(f"{head}a : int\n    See :func:`solve`; also 0.\nb\n    Rows, see `solve`.\n") == [
        "a"
    ]


def test_texts_of_others_are_taken_in_the_order_of_the_signature():
    def first(a, b, c):
        """First.

        Parameters
        ----------
        a, c : int
            Shared.
        b : str
            Text.
        """

    @texts_of(first)
    def second(b, c, d, a):
        """Second.

        Parameters
        ----------
        d : float
            Own.
        c : bool
            Own.

        Notes
        -----
        None.
        """

    found = read_docstring(second.__doc__)
    assert {name: (one.kind, one.about) for name, one in found.parameters.items()} == {
        "b": ("str", "Text."), "c": ("bool", "Own."), "d": ("float", "Own."), "a": ("int", "Shared."),
    }  # fmt: skip
    assert list(found.parameters) == ["b", "c", "d", "a"]
    assert found.sections["Notes"] == "None."
    # attributes of bases, with those of the class itself first; names that share a text share a line
    attributes = read_docstring(kw.MKLRegressorCV.__doc__).entries("Attributes")
    assert attributes["alphas_"].about.startswith("The regularisation parameters that were tried")
    assert "\nobjective_, gap_, rel_gap_ : float\n" in kw.MKLRegressorCV.__doc__


def without_text(parameters, text):
    entries = read_docstring(text).fields
    return [name for name in parameters if name not in entries or not entries[name].about]


def test_every_parameter_of_public_methods_has_a_text():
    found = list(public_methods())
    assert sum(len(parameters) for _, parameters, _ in found) > 1000
    assert {name: lacking for name, *parts in found if (lacking := without_text(*parts))} == {}
    assert without_text(["a", "b"], "Do.\n\nParameters\n----------\na : int\n    One.\nb : int\n") == ["b"]


def test_methods_that_replace_others_have_their_texts():
    assert read_docstring(inspect.getdoc(kw.losses.Logistic.value)).fields["f"].about


def test_parameters_without_a_text_or_a_type_are_found():
    def some(a: int, b: int, c: "Any", d: int):  # noqa: F821
        """Do.

        Parameters
        ----------
        a : int
            One.
        b : int
        c : object
            Three.
        """

    assert unexplained(inspect.signature(some).parameters, some.__doc__) == ["b", "c", "d"]


def test_reports_have_a_dark_mode_names_of_figures_and_only_what_applies(mice):
    assert (
        main(fit(mice, *QUICK[:2], "--method", "simple", "--cs", "0.1,1", "--cv", "2", "--budget", "0")) == 0
    )
    text = (mice.parent / "run" / "report.html").read_text()
    assert "prefers-color-scheme: dark" in text
    images = re.findall(r"<svg[^>]*>", text)
    assert images
    assert all('role="img" aria-label="' in one for one in images)
    words = text[text.index("<h2>Learner</h2>") : text.index("<h2>Settings</h2>")]
    assert "tube" not in words
    assert "<td>none</td>" not in words


@pytest.mark.parametrize(
    ("out", "wrong"),
    [
        (None, ""), ("", ""), ("new.csv", ""), ("NEW.CSV", ""), ("new", ""), ("new.txt.csv", ""),
        ("new.json", ".json"), ("new.csv.gz", ".csv.gz"), ("new.parquet", ".parquet"),
    ],
)  # fmt: skip
def test_predictions_are_written_as_csv_alone(out, wrong):
    from kernelweave_app.cli.early import check_csv

    with (
        pytest.raises(InputError, match=rf"another format \({re.escape(wrong)}\)") if wrong else nullcontext()
    ):
        check_csv(out)
