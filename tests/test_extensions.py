"""Learners, kernels and losses that another package names as entry points, in processes of their own."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import kernelweave as kw

#: The package that CONTRIBUTING.md shows, a loss, and a finding.
PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text().split("## Outside of this repository")[1]
ABOUT, SHOWN = (re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[1] for kind in ("toml", "python"))
((NAMED, NAME),) = tomllib.loads(ABOUT)["project"]["entry-points"]["kernelweave.extensions"].items()
MODULE = (
    SHOWN
    + """
import numpy as np


@dataclass(frozen=True)
class WideMargin(kw.losses.Loss):
    '''max(0, margin - y f)^2 / 2.'''

    name = "wide-margin"
    classifies = True
    margin: float = 1.0

    def value(self, y, f):
        return 0.5 * np.maximum(self.margin - y * f, 0.0) ** 2

    def slope(self, y, f):
        return -y * np.maximum(self.margin - y * f, 0.0)

    def conjugate(self, y, b):
        return np.where(y * b >= 0.0, 0.5 * b**2 - self.margin * y * b, np.inf)


@kw.inspection.finding("rows of a package", title="Rows", needs=("model",))
def rows(basis):
    n = kw.inspection.Interval(float(basis.model.model_.source.n_samples))
    made = kw.inspection.Finding({"rows": n}, meaning="Rows of the fit.")
    return made.says("sure", "A package counts {v:.0f} rows.", v=("values", "rows", "value"))
"""
)


@pytest.fixture
def elsewhere(tmp_path):
    """A folder with an installed package that brings a learner, a kernel and a loss; the environment that finds it."""
    (tmp_path / f"{NAME}.py").write_text(MODULE)
    about = tmp_path / f"{NAME}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-methods\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[kernelweave.extensions]\n{NAMED} = {NAME}\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    # a cache of options of its own, but not of fonts, which take seconds to find
    caches = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "MPLCONFIGDIR": mpl.get_cachedir()}
    return {**os.environ, "PYTHONPATH": path, **caches}


# every step in a copy of a process that has imported the packages, and no extension yet: as if it were the first
STEPS = """
import multiprocessing, runpy
import matplotlib.pyplot, skops.io
import kernelweave as kw
import kernelweave.estimators, kernelweave.persistence
from kernelweave._extensions import load_extensions
from kernelweave_app import reports
from kernelweave_app.cli import app, learning, main, options, using

assert load_extensions.cache_info().currsize == 0
reports.svg = lambda figure: "<svg></svg>"

def fit():
    given = ["--target", "y", "--learner", "widely", "--kernels", "cauchy", "--cs", "1,10", "--cv", "2"]
    assert main(["fit", "t.csv", *given, "--loss", "wide-margin", "--out", "run"]) == 0

def settings():
    from kernelweave_app.runs.spec import known_fields
    load_extensions()
    print(*known_fields()["loss"].choices)

def save():
    import my_methods as own, pandas as pd
    t = pd.read_csv("t.csv")
    learner = kw.learners.SimpleMKL(loss=own.WideMargin(2.0))
    kw.save(kw.MKLClassifier(learner=learner).fit(t[["a", "b"]], t["y"]), "own.skops")

def loss():
    print(kw.load("own.skops").model_.learner.loss)

def load():
    print(kw.load("run/model.skops").model_.learner)

def predict():
    assert main(["predict", "run", "t.csv", "--out", "p.csv"]) == 0

def script():
    runpy.run_path("run/script.py")

def by_name():
    print(kw.learners.resolve("widely"), kw.kernels.parse("cauchy"), kw.losses.as_loss("wide-margin"))

for step in (fit, load, predict, script, by_name, settings, save, loss):
    print("====", step.__name__, flush=True)
    process = multiprocessing.get_context("fork").Process(target=step)
    process.start()
    process.join()
    assert process.exitcode == 0, step.__name__
"""


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="copies processes")
def test_command_line_files_and_scripts_know_what_a_package_brings(elsewhere, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    frame["y"] = np.where(frame["a"] + frame["b"] ** 2 > 0.5, "yes", "no")
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = subprocess.run(
        [sys.executable, "-c", STEPS], env=elsewhere, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(part.split("\n", 1) for part in done.stdout.split("==== ")[1:])
    assert "A package counts 48 rows." in said["fit"]
    assert "Widely(" in said["load"]
    assert "loss='wide-margin'" in said["load"]
    assert (
        said["settings"].strip()
        == "auto hinge squared-hinge epsilon-insensitive squared huber quantile poisson logistic cox wide-margin"
    )
    assert said["loss"].strip() == "WideMargin(margin=2.0)"
    assert "WideMargin(margin=1.0)" in said["by_name"]
    assert "Widely(" in said["by_name"]


TAKEN = "import kernelweave as kw\nkw.inspection.finding('views', title='Mine', needs=())(lambda basis: None)"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such_module_here'. Mend or"),
        (TAKEN, "Give yours another name. Mend or"),
    ],
)
def test_an_extension_that_cannot_be_imported_is_named(text, said, elsewhere, tmp_path):
    (tmp_path / f"{NAME}.py").write_text(text)
    code = "import kernelweave as kw; kw.learners.resolve('widely')"
    done = subprocess.run([sys.executable, "-c", code], env=elsewhere, capture_output=True, text=True)
    assert f"The extension {NAMED!r} ({NAME}) cannot be imported, " in done.stderr
    assert said in done.stderr


def test_a_statistic_that_no_kernel_has_is_refused_where_the_class_stands():
    with pytest.raises(
        kw.InputError, match="`statistic` of Wrong must be one of 'sqdist', 'dot', 'l1', got 'l2'"
    ):

        class Wrong(kw.kernels.Kernel):
            statistic = "l2"


def test_a_set_without_a_step_says_what_to_derive_from():
    from kernelweave.mkl.weight_sets import WeightSet

    class Corner(WeightSet):
        def support(self, q):
            return float(q[0])

        def best(self, q):
            return np.eye(len(q))[0]

        def project(self, v):
            return np.eye(len(v))[0]

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), np.where(rng.normal(size=30) > 0, 1.0, -1.0)
    problem = kw.Problem(X[:, None, :] * X[None, :, :], y, loss="hinge", weights=Corner())
    with pytest.raises(kw.InputError, match=r"derives from `ShareSet` \(Newton\) or `AlternatingSet`"):
        kw.solve(problem)
