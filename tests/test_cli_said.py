"""All that commands say, report as JSON and write, on small tables, compared with what was read once.

Modules: `cli`, `cli/app`, `cli/arguments`, `cli/console`, `cli/helping`, `cli/learning`, `cli/options`, `cli/papers`,
`cli/paths`, `cli/rows`, `cli/using`.
"""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("jinja2")

from kernelweave_app.cli import main

pytestmark = pytest.mark.usefixtures("undrawn")

#: What a machine, a version or the last digits of a solution change.
CHANGES = (
    (re.compile(r"(relative gap|within|at most) \d\S*e-\d+"), r"\1 GAP"),
    (re.compile(r"in \d+ iterations?"), "in some iterations"),
    (re.compile(r"\d+\.\d+ MB"), "SIZE"),
    (re.compile(r"; \d+\.\d s for"), "; TIME for"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two tables with a key in common, a weight, a group, marks of held-out rows, and views."""
    folder = tmp_path_factory.mktemp("said")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(48, 5)).round(3)
    frame = pd.DataFrame(X, columns=["mean u", "mean v", "error u", "error v", "code"])
    frame["code"] = ["p", "q", "r"] * 16
    frame["who"] = [f"n{k:02d}" for k in range(48)]
    frame["weight"], frame["clinic"] = 1.0 + np.arange(48) % 3, np.arange(48) // 4
    frame["part"] = ["train", "train", "train", "test"] * 12
    frame["y"] = (X[:, 0] - 2 * X[:, 2] + 0.3 * rng.normal(size=48)).round(3)
    frame["ill"] = np.where(frame["y"] > 0, "yes", "no")
    frame.to_csv(folder / "rows.csv", index=False)
    pd.DataFrame({"who": frame["who"][::-1], "extra": np.arange(48) % 5}).to_csv(
        folder / "more.csv", index=False
    )
    (folder / "views.toml").write_text('[views]\nmeans = "mean *"\nerrors = "error *"\ncodes = ["code"]\n')
    (folder / "rows").mkdir()
    for k in range(3):
        part = frame.iloc[16 * k : 16 * k + 16].assign(z=lambda one: (one["y"] > 0).astype(int))
        part.drop(columns=["code", "who", "part", "ill", "clinic"]).to_csv(
            folder / "rows" / f"{k}.csv", index=False
        )
    return folder


def said(capsys, folder, *words):
    """Status, output and errors of a command, one text for each line."""
    status = main([str(word) for word in words])
    found = capsys.readouterr()
    lines = [status, *found.out.splitlines(), *(f"error: {line}" for line in found.err.splitlines())]
    return [changed(one, folder) for one in lines]


def changed(line, folder):
    if isinstance(line, str):
        line = line.replace(str(folder), "FOLDER").rstrip()
        for old, new in CHANGES:
            line = old.sub(new, line)
    return line


def table(path):
    """A file of numbers, without what solvers decide."""
    found = pd.read_csv(path)
    return found.drop(columns=[name for name in found if "gap" in name])


def reported(capsys, folder, *words):
    """The JSON object of a command, without what solvers decide."""
    status, *lines = said(capsys, folder, *words, "--json")
    found = json.loads("\n".join(lines))
    assert status == 0
    found.pop("version")
    for name in ("rel_gap", "n_iter"):
        found.get("certificate", {}).pop(name, None)
    return found


FIT = (
    "--target",
    "y",
    "--views",
    "VIEWS",
    "--drop",
    "who,ill,part",
    "--weights",
    "weight",
    "--group",
    "clinic",
)
QUICK = ("--kernels", "linear", "--method", "rls2", "--alphas", "1,0.1", "--cv", "3", "--test-size", "0.25")


def fit(folder, out, *more):
    words = [str(folder / "views.toml") if word == "VIEWS" else word for word in FIT]
    return ("fit", folder / "rows.csv", *words, *QUICK, "--budget", "0", "--out", folder / out, *more)


@pytest.fixture(scope="module")
def run(folder, no_drawing):
    with no_drawing():
        assert main([str(word) for word in fit(folder, "run", "--quiet")]) == 0
    return folder / "run"


def test_a_fit_says_and_reports_all(folder, recorded, capsys):
    recorded("text", said(capsys, folder, *fit(folder, "text", "--normalize", "trace")))
    recorded("there", said(capsys, folder, *fit(folder, "text")))
    recorded(
        "json", reported(capsys, folder, *fit(folder, "text", "--overwrite", "--nested", "2")), rtol=1e-4
    )
    recorded("predictions", table(folder / "text" / "predictions.csv"), rtol=1e-4)
    again = (
        "--spec",
        folder / "text" / "spec.toml",
        "--seed",
        "3",
        "--out",
        folder / "again",
        "--budget",
        "0",
    )
    recorded("quiet", said(capsys, folder, "fit", folder / "rows.csv", *again, "--quiet"))
    settings = (folder / "again" / "spec.toml").read_text().replace(str(folder), "FOLDER")
    recorded("settings", settings.splitlines())


def test_a_fit_of_classes_as_a_plain_fit_chooses(folder, recorded, capsys):
    words = ("--target", "ill", "--drop", "who,y,code,weight,clinic", "--holdout", "part", "--budget", "0")
    recorded("text", said(capsys, folder, "fit", folder / "rows.csv", *words, "--out", folder / "classes"))


def test_the_time_of_a_fit_is_shared_out(monkeypatch, capsys):
    """Each kind has an equal part of what is left; what is too late is named."""
    from kernelweave._errors import InputError
    from kernelweave_app.cli import learning

    now, asked = [100.0], []
    monkeypatch.setattr(learning.time, "monotonic", lambda: now[0])

    def add(kind, told):
        asked.append((kind, told("fit 1 of 3")))
        now[0] += {"omission": 4.0, "stability": 7.0}[kind]
        asked.append((kind, told("fit 2 of 3")))
        if kind == "stability":
            raise KeyboardInterrupt

    learning._add_until(110.0, ["omission", "stability", "sources"], add)
    assert asked == [("omission", False), ("omission", True), ("stability", False), ("stability", True)]
    assert capsys.readouterr().out.splitlines() == [
        "stability of weights: 2 of 3 steps, about 4 s left",
        "The time was not enough for stability. Later: kernelweave evidence.",
        "The time is over; not computed: sources. Later: kernelweave evidence.",
    ]
    now[0] = 100.0

    def refuse(kind, told):
        raise InputError("Too few rows.") if kind == "omission" else KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learning._add_until(110.0, ["omission", "stability"], refuse)
    assert capsys.readouterr().out == "Not computed: omission. Too few rows.\n"


def test_an_estimate_and_a_recommendation_are_said(folder, recorded, capsys, monkeypatch):
    from kernelweave_app.runs import estimating

    asked = []
    found = SimpleNamespace(said=lambda: "2 s to 5 s", sure=lambda: "Rough.", memory=3_456_000)
    monkeypatch.setattr(estimating, "estimate_fit", lambda spec, _: asked.append(spec.method) or found)
    recorded("estimate", said(capsys, folder, *fit(folder, "none", "--estimate")))
    assert not (folder / "none").exists()
    words = ("recommend", folder / "rows.csv", "--target", "ill", "--question", "sources", "--drop", "y,part")
    recorded("recommend", said(capsys, folder, *words, "--out", folder / "settings.toml"))
    settings = (folder / "settings.toml").read_text().splitlines()
    recorded("settings", [line for line in settings if not line.startswith(("jobs", "memory"))])
    recorded("asked", asked)


def test_predictions_and_scores_of_new_rows(folder, run, recorded, capsys):
    new, out = folder / "new.csv", folder / "predictions.csv"
    rows = pd.read_csv(folder / "rows.csv")
    pd.concat([rows[:30], rows[30:].assign(**{"mean u": rows["mean u"][30:] + 3})]).rename(
        columns={"y": "truth"}
    ).to_csv(new, index=False)
    words = ("predict", run, new, "--out", out)
    recorded("predict", said(capsys, folder, *words, "--std", "--coverage", "0.8"))
    recorded("predictions", table(out), rtol=1e-4)
    recorded("predict as JSON", reported(capsys, folder, *words))
    for more in (("--times", "1"), ("--strata", "clinic"), ("--coverage", "1.5")):
        recorded(f"refused {more[0]}", said(capsys, folder, *words, *more))
    recorded("no CSV", said(capsys, folder, "predict", run, new, "--out", folder / "x.parquet"))
    recorded("evaluate", said(capsys, folder, "evaluate", run, new, "--target", "truth", "--out", out))
    recorded("with the truth", table(out), rtol=1e-4)
    recorded("evaluate as JSON", reported(capsys, folder, "evaluate", run, folder / "rows.csv"), rtol=1e-4)
    recorded("no times", said(capsys, folder, "evaluate", run, new, "--time", "y"))
    recorded("no truth", said(capsys, folder, "evaluate", run, new))


def test_evidence_says_what_it_found(folder, run, recorded, capsys, monkeypatch):
    from kernelweave_app.reports import printing

    sizes = []
    monkeypatch.setattr(
        printing, "write_figures", lambda figures, folder, size: sizes.append(size) or ["one"]
    )
    words = ("evidence", run, folder / "rows.csv", "--width", "double")
    more = ("--divisions", "3", "--halves", "4", "--max-false", "2", "--permutations", "9", "--fixed")
    recorded("text", said(capsys, folder, *words, *more, "--what", "omission", "stability", "permutation"))
    assert sizes == [174.0]
    recorded("files", sorted(one.name for one in (run / "evidence-tables").iterdir()))
    recorded("unknown", said(capsys, folder, *words, "--what", "magic"))
    rows = pd.read_csv(folder / "rows.csv")
    rows[:40].to_csv(folder / "fewer.csv", index=False)
    recorded("other rows", said(capsys, folder, "evidence", run, folder / "fewer.csv"))


def test_paths_of_tables(folder, recorded, capsys):
    words = ("--target", "y", "--drop", "who,ill,part,weight,clinic", "--views", folder / "views.toml")
    out = folder / "path"
    given = ("path", folder / "rows.csv", *words, "--alphas", "3", "--kernels", "linear", "--out", out)
    recorded("numbers", said(capsys, folder, *given))
    recorded("numbers, table", table(out / "path.csv"), rtol=1e-4, atol=1e-6)
    words = (
        "--target",
        "code",
        "--drop",
        "who,ill,part,weight,clinic,y",
        "--kernels",
        "linear; rbf(gamma=0.1)",
    )
    given = (
        "path",
        folder / "rows.csv",
        *words,
        "--method",
        "uniform",
        "--cs",
        "4,1",
        "--out",
        folder / "path3",
    )
    recorded("classes", said(capsys, folder, *given))
    recorded("classes, table", table(folder / "path3" / "path.csv"), rtol=1e-4, atol=1e-6)
    recorded("pictures", sorted(one.name for one in (folder / "path3").iterdir()))
    plain = ("path", folder / "rows.csv", "--target", "y", "--out", out, "--overwrite")
    recorded("by folds", said(capsys, folder, *plain, "--method", "rls2", "--relax", "auto"))
    recorded(
        "times",
        said(capsys, folder, "path", folder / "rows.csv", "--time", "y", "--event", "ill", "--out", out),
    )


def test_statistics_of_tables_and_paths_of_them(folder, recorded, capsys):
    rows, all_, out = folder / "rows", folder / "all.npz", folder / "path-of"
    words = ("--target", "y", "--drop", "z", "--groups", "0,2,4", "--weight", "weight")
    recorded(
        "folds",
        said(capsys, folder, "statistics", rows, *words, "--folds", "3", "--seed", "5", "--out", all_),
    )
    recorded("there", said(capsys, folder, "statistics", rows, *words, "--out", all_))
    recorded("path", said(capsys, folder, "path", all_, "--alphas", "3", "--rule", "1se", "--out", out))
    recorded("path, table", table(out / "path.csv"), rtol=1e-4, atol=1e-6)
    recorded("coefficients", table(out / "coefficients.csv"), rtol=1e-4, atol=1e-6)
    for name, more in (
        ("a learner", ("--method", "lp")),
        ("folds", ("--cv", "4")),
        ("a parameter", ("--solver", "newton")),
        ("a scale", ("--normalize", "trace")),
    ):
        recorded(f"refused: {name}", said(capsys, folder, "path", all_, *more, "--out", out, "--overwrite"))
    parts = []
    for k in range(3):
        parts.append(folder / f"part{k}.npz")
        status, *_ = said(capsys, folder, "statistics", rows / f"{k}.csv", *words, "--out", parts[-1])
        assert status == 0
    merged = folder / "merged.npz"
    recorded("merged", said(capsys, folder, "statistics", *parts, merged, "--merge", "--out", merged))
    given = (
        "path",
        merged,
        "--alphas",
        "1,0.1",
        "--normalize",
        "none",
        "--no-intercept",
        "--out",
        out,
        "--overwrite",
    )
    recorded("path of all rows", said(capsys, folder, *given))
    recorded("path of all rows, table", table(out / "path.csv"), rtol=1e-4, atol=1e-6)
    recorded(
        "differ", said(capsys, folder, "statistics", parts[0], all_, "--merge", "--out", folder / "x.npz")
    )
    recorded("nothing", said(capsys, folder, "statistics", "--merge", "--out", folder / "x.npz"))
    recorded("no target", said(capsys, folder, "statistics", rows, "--out", folder / "x.npz"))
    recorded("no rows", said(capsys, folder, "statistics", "--target", "y", "--out", folder / "x.npz"))
    recorded("no file", said(capsys, folder, "statistics", rows, "--target", "y", "--out", folder / "x.csv"))


def test_margins_of_tables(folder, recorded, capsys):
    rows, out = folder / "rows", folder / "margins"
    words = (
        "margins",
        rows,
        "--drop",
        "y",
        "--groups",
        "0,2,4",
        "--weight",
        "weight",
        "--out",
        out,
        "--overwrite",
    )
    labels = ("--target", "z", "--loss", "logistic", "--points", "3", "--tol", "1e-8")
    recorded("labels", said(capsys, folder, *words, *labels, "--folds", "3", "--rule", "1se", "--seed", "2"))
    recorded("labels, path", table(out / "path.csv"), rtol=1e-4, atol=1e-6)
    recorded("labels, coefficients", table(out / "coefficients.csv"), rtol=1e-3, atol=1e-5)
    words = ("margins", rows, "--target", "y", "--drop", "z", "--out", out, "--overwrite", "--tol", "1e-9")
    numbers = ("--loss", "epsilon-insensitive", "--epsilon", "0.3", "--cs", "0.01,0.1", "--folds", "2")
    given = ("--scoring", "loss", "--fold-by", "file", "--normalize", "none")
    recorded("numbers", said(capsys, folder, *words, *numbers, *given))
    recorded("numbers, path", table(out / "path.csv"), rtol=1e-4, atol=1e-6)
    recorded(
        "without folds", said(capsys, folder, *words, "--loss", "squared", "--points", "1", "--folds", "0")
    )
    recorded("without folds, path", table(out / "path.csv"), rtol=1e-4, atol=1e-6)
    for name, more in (
        ("one fold", ("--folds", "1")),
        ("no point", ("--points", "0")),
        ("a scale", ("--normalize", "x")),
    ):
        recorded(name, said(capsys, folder, *words, *more))


def test_settings_of_learners_are_those_of_their_options():
    """Which learner, which parameters, and what is refused, by the options alone."""
    from kernelweave._errors import InputError
    from kernelweave_app.cli.options import final_spec, fit_options

    Options = fit_options()

    def spec(**given):
        found = final_spec(Options(**given), None)
        return found.method, found.learner_params, found.alphas, found.Cs

    usual = spec()[2:]
    assert spec() == ("default", {}, *usual)
    assert spec(alphas="3") == ("rls2", {}, "3", usual[1])
    assert spec(Cs="3") == ("default", {}, usual[0], "3")
    assert spec(kernels="linear") == ("default", {}, *usual)
    assert spec(method="lp", p=1.5, Cs="1,2") == ("lp", {"p": 1.5}, usual[0], "1,2")
    assert spec(method="rls2", relax="0.5") == ("rls2", {"relax": "0.5"}, *usual)
    for given, words in (
        (
            {"method": "lp", "alphas": "1,4"},
            "--alphas is for learners with an alpha, and lp has a C, which is 1 / alpha. Write --cs 1,0.25.",
        ),
        (
            {"method": "rls2", "Cs": "2"},
            "--cs is for learners with a C, and rls2 has an alpha. Write --alphas",
        ),
        (
            {"method": "rls2", "p": 1.5},
            "--p is for lp, and rls2 does not have it. Leave it out, or name another learner with --method.",
        ),
    ):
        with pytest.raises(InputError) as caught:
            spec(**given)
        assert str(caught.value).startswith(words), str(caught.value)


def test_help_is_for_what_is_asked(capsys, recorded):
    for name, words in (
        ("fit", ("fit", "--help")),
        ("a learner with a C", ("fit", "--help-learner", "lp")),
        ("a learner with an alpha", ("fit", "--help-learner=rls2")),
        ("no learner", ("fit", "--help-learner")),
        ("another learner", ("fit", "--help-learner", "magic")),
        ("an unknown option", ("predict", "a", "b", "--out", "x", "--covrage", "1")),
        ("an unlike option", ("fit", "a", "--zzz", "x")),
        ("an unlike option of predict", ("predict", "a", "b", "--out", "x", "--zzz", "x")),
        ("a port", ("studio", "--port", "70000")),
        ("a list", ("margins", "rows", "--cs", "1,x", "--out", "x")),
        ("a budget", ("fit", "rows.csv", "--target", "y", "--budget", "-1", "--out", "x")),
    ):
        recorded(name, said(capsys, "/nowhere", *words))


def test_the_studio_is_given_its_options(monkeypatch, tmp_path):
    from kernelweave_app.studio import server

    asked = []
    monkeypatch.setattr(server, "serve", lambda *given, **more: asked.append((*map(str, given), more)))
    monkeypatch.setattr(server, "list_projects", lambda *given: asked.append(given))
    words = ["--port", "80", "--data-dir", str(tmp_path), "--host", "0.0.0.0", "--no-browser", "--expose"]
    words += ["--max-upload", "3", "--at-once", "2", "--mlflow", str(tmp_path / "m"), "--project", "P"]
    assert main(["studio", *words]) == 0
    assert main(["studio", "--list-projects", "--data-dir", str(tmp_path)]) == 0
    more = {
        "host": "0.0.0.0",
        "port": 80,
        "browser": False,
        "exposed": True,
        "upload": 3_000_000,
        "at_once": 2,
        "mlflow": tmp_path / "m",
        "project": "P",
    }
    assert asked == [(str(tmp_path), more), (tmp_path,)]
    for words in (["--max-upload", "0"], ["--at-once", "65"], ["--port", "-1"], ["--max-upload", "100001"]):
        assert main(["studio", *words]) == 2
    assert len(asked) == 2


def test_a_missing_package_is_named_with_its_extra(monkeypatch, capsys):
    from kernelweave_app.cli import _extra_of, app

    def missing(name):
        def run(given):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        return run

    lines = []
    for name, command in (
        ("jinja2.ext", "fit"),
        ("fastapi", "studio"),
        ("onnx", "export"),
        ("nowhere", "fit"),
    ):
        monkeypatch.setattr(app, "run", missing(name))
        assert main([command]) == 2
        lines.append(capsys.readouterr().err)
    assert [re.search(r"package (\S+) is .*\[(\w+)\]", line).groups() for line in lines] == [
        ("jinja2", "cli"),
        ("fastapi", "studio"),
        ("onnx", "onnx"),
        ("nowhere", "cli"),
    ]
    assert [_extra_of(name) for name in ("skl2onnx", "PIL", "rich")] == [
        _extra_of("skl2onnx"),
        _extra_of("pillow"),
        "cli",
    ]
    monkeypatch.setattr(app, "run", missing("kernelweave.core"))
    with pytest.raises(ModuleNotFoundError):
        main([])


def test_errors_of_the_system_end_commands(monkeypatch, capsys):
    from kernelweave_app.cli import app

    for error, status, words in (
        (FileNotFoundError(2, "No such file", "a.csv"), 2, "kernelweave: No such file: a.csv\n"),
        (OSError("the cable is loose"), 2, "kernelweave: the cable is loose\n"),
        (KeyboardInterrupt(), 130, "Interrupted; nothing was finished.\n"),
    ):

        def fail(error=error):
            raise error

        monkeypatch.setattr(app, "load_extensions", fail)
        assert main(["datasets"]) == status
        assert capsys.readouterr().err == words
