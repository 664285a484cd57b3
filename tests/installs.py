"""What every command and optional function does where packages are missing: it runs, or says what to install.

``python tests/installs.py`` checks the interpreter at hand, for example that of a fresh environment with one extra;
``python tests/installs.py --as plot`` hides the packages that an installation of this extra does not have. Prints a
line for each, and ends with 1 if one showed a traceback.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

#: Modules that an extra installs, with what its packages need.
CLI = {"cyclopts", "jinja2", "matplotlib", "PIL", "pandas", "pooch", "pydantic", "rich", "skops", "tomli_w"}
STUDIO = {*CLI, "pyarrow", "fastapi", "starlette", "latex2mathml", "nicegui", "psutil", "uvicorn"}
EXTRAS = {
    "bare": set(),
    "plot": {"matplotlib", "PIL"},
    "save": {"skops"},
    "cli": CLI,
    "studio": STUDIO,
    "all": {*STUDIO, "dask", "distributed", "onnx"},
}
OTHERS = {"anndata", "rdkit", "mlflow", "torch", "array_api_compat"}

TABLE = "a_1,a_2,b_1,b_2,y\n" + "\n".join(
    f"{i % 7},{i * i % 11},{i % 5},{(3 * i) % 13},{'yes' if (i % 7) + (i % 3) > 4 else 'no'}"
    for i in range(40)
)
FIT = [
    "fit",
    "t.csv",
    "--target",
    "y",
    "--kernels",
    "linear",
    "--method",
    "uniform",
    "--cs",
    "1",
    "--cv",
    "2",
]
COMMANDS = {
    "kernelweave": [],
    "--help": ["--help"],
    "demo": ["demo", "--out", "demo", "--alphas", "3", "--cv", "2"],
    "fit --help": ["fit", "--help"],
    "fit": [*FIT, "--out", "run"],
    "fit --views auto": [*FIT, "--out", "views", "--views", "auto", "--budget", "0"],
    "fit --json": [*FIT, "--out", "json", "--json"],
    "fit, Parquet": ["fit", "t.parquet", "--target", "y", "--out", "parquet"],
    "fit, AnnData": ["fit", "t.h5ad", "--target", "y", "--out", "annotated"],
    "path": ["path", "t.csv", "--target", "y", "--alphas", "3", "--method", "rls2", "--out", "path"],
    "recommend": ["recommend", "t.csv", "--target", "y"],
    "predict": ["predict", "m.skops", "t.csv", "--out", "p.csv"],
    "evaluate": ["evaluate", "m.skops", "t.csv", "--target", "y"],
    "evidence": ["evidence", "run", "t.csv", "--what", "sources"],
    "export": ["export", "m.skops", "--out", "m.onnx"],
    "statistics": ["statistics", "n.csv", "--target", "y", "--out", "s.npz"],
    "margins": ["margins", "n.csv", "--target", "y", "--out", "margins", "--points", "2", "--folds", "2"],
    "reproduce": ["reproduce", "--help"],
    "scoreboard": ["scoreboard"],
    "datasets": ["datasets"],
    "studio": ["studio", "--list-projects"],
    "completion": ["completion", "bash"],
    "schema": ["schema"],
}
FUNCTIONS = {
    "MKLClassifier.fit": "kw.MKLClassifier().fit(X, y)",
    "plots": "kw.plots.KernelWeightsDisplay.from_estimator(model)",
    "plots, contributions": "kw.plots.KernelContributionsDisplay.from_estimator(model, X)",
    "save and load": "kw.save(model, 'a.skops'); kw.load('a.skops')",
    "save, pipeline": "kw.save(make_pipeline(StandardScaler(), kw.MKLClassifier()).fit(X, y), 'p.skops')",
    "to_onnx": "kw.to_onnx(model, 'b.onnx')",
    "rows, text": "kw.rows.block_statistics('n.csv', target='y')",
    "rows, Parquet": "kw.rows.block_statistics('t.parquet', target='y')",
    "datasets.load": "load_what_is_not_here()",
    "datasets, frame": "frame_of_a_data_set()",
    "molecules": "fit_molecules()",
    "device": "kw.MKLClassifier(learner=kw.learners.MLMKL(device='cpu', max_iter=1)).fit(X, y)",
    "findings, frame": "kw.inspection.findings(model)['kernels'].tables[0].frame()",
    "findings, LaTeX": "kw.inspection.findings(model)['kernels'].tables[0].latex()",
    "explain_defaults": "kw.MKLClassifier().fit(X, y).explain_defaults()",
}


class Hidden:
    """Finds no modules of these names."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def load_what_is_not_here():
    """Without the package that downloads; with it nothing, as tests have no network."""
    import kernelweave as kw

    try:
        import pooch  # noqa: F401
    except ImportError:
        os.environ["KERNELWEAVE_DATA"] = os.getcwd()
        kw.datasets.load("sonar")


def fit_molecules():
    """A kernel of molecules."""
    import numpy as np

    import kernelweave as kw

    kernel = kw.kernels.Tanimoto().prepared(kw.kernels.Fingerprints()).on(0)
    smiles = np.array([["CC"], ["CO"]] * 9, dtype=object)
    kw.MKLRegressor([kernel], alpha=1.0).fit(smiles, np.arange(18.0))


def frame_of_a_data_set():
    """The columns of a data set as a data frame."""
    from kernelweave.datasets.encoding import Dataset

    names = {"X": [[1.0]], "y": [0], "feature_names": ("a",), "target_names": ("n",)}
    made = object.__new__(Dataset)
    for name, value in names.items():
        object.__setattr__(made, name, value)
    made.frame()


def outcome(action):
    """What an action did: ("runs" | "says" | "refuses" | "fails", text)."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = action()
    except (ImportError, ValueError) as error:
        text = str(error)
        # a missing package is named with the line that installs it
        plain = "refuses" if type(error).__name__ == "InputError" else "fails"
        return ("says" if "pip install" in text else plain), f"{type(error).__name__}: {text}"
    except Exception:
        return "fails", traceback.format_exc()
    text = err.getvalue().strip()
    if "Traceback" in text:
        return "fails", text
    if status in (0, None) or not isinstance(status, int):
        return "runs", ""
    return ("says" if "pip install" in text else "refuses"), text.splitlines()[-1] if text else ""


def check_all():
    """The outcomes by the names of commands and functions."""
    import numpy as np
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import kernelweave as kw
    from kernelweave_app.cli import main

    Path("t.csv").write_text(TABLE)
    Path("n.csv").write_text(TABLE.replace("yes", "1").replace("no", "-1"))
    # nothing reads these before it misses its package
    for name in ("t.parquet", "t.h5ad"):
        Path(name).write_bytes(b"PAR1")
    rows = [line.split(",") for line in TABLE.splitlines()[1:]]
    X, y = np.array([row[:4] for row in rows], dtype=float), np.array([row[4] for row in rows])
    names = [f"{part}_{k}" for part in "ab" for k in (1, 2)]
    model = kw.MKLClassifier(learner="uniform").fit(X, y)
    model.feature_names_in_ = np.array(names, dtype=object)
    kw.save(model, "m.skops")
    known = {"kw": kw, "np": np, "X": X, "y": y, "model": model}
    known |= {"fit_molecules": fit_molecules}
    known |= {"load_what_is_not_here": load_what_is_not_here, "frame_of_a_data_set": frame_of_a_data_set}
    known |= {"make_pipeline": make_pipeline, "StandardScaler": StandardScaler}
    found = {f"kernelweave {name}": outcome(lambda a=argv: main(a)) for name, argv in COMMANDS.items()}
    return found | {name: outcome(lambda c=code: exec(c, known)) for name, code in FUNCTIONS.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--as", dest="extra", choices=EXTRAS, help="hide what this extra does not install")
    extra = parser.parse_args().extra
    warnings.simplefilter("ignore")
    os.environ["MPLBACKEND"] = "Agg"
    if extra:
        sys.meta_path.insert(0, Hidden((EXTRAS["all"] | OTHERS) - EXTRAS[extra]))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        found = check_all()
    for name, (kind, text) in found.items():
        print(f"{kind:8} {name:28} {text}")
    counts = {
        kind: sum(one == kind for one, _ in found.values()) for kind in ("runs", "says", "refuses", "fails")
    }
    print(", ".join(f"{kind} {count}" for kind, count in counts.items()))
    return int(counts["fails"] > 0)


if __name__ == "__main__":
    sys.exit(main())
