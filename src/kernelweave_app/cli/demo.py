"""The demo: breast cancer with three views, against baselines that are tuned on the same training rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave import banks, kernels
from kernelweave._types import DataFrame
from kernelweave_app.cli.console import FitProgress, make_console
from kernelweave_app.cli.runs import summarize
from kernelweave_app.runs.folders import whole_folder, write_text, writing

VIEWS = ("mean", "error", "worst")


def baselines(bank: list[Any], X: DataFrame, y: Any, cv: Any) -> dict[str, Any]:
    """Fit the baselines; every setting is chosen by cross-validation on these rows."""
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    from kernelweave.estimators.cv import MKLClassifierCV

    # one kernel: the mean of all normalised kernels, which is kernel ridge with uniform weights
    average = average_kernel(bank, X)
    svc = make_pipeline(StandardScaler(), SVC())
    grid = {"svc__C": np.logspace(-1, 3, 5), "svc__gamma": np.logspace(-4, 0, 5) / 3}
    return {
        "average kernel": MKLClassifierCV([average], standardize=True, cv=cv).fit(X, y),
        "best single RBF (SVM)": GridSearchCV(svc, grid, cv=cv).fit(X, y),
        "ridge": make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-3, 4, 30), cv=cv)).fit(X, y),
    }


def average_kernel(bank: list[Any], X: DataFrame) -> Any:
    """The sum of all kernels, each divided by its mean diagonal on standardised training rows."""
    standard = (X - X.mean()) / X.std(ddof=0)
    total = None
    for kernel in bank:
        part = (1.0 / float(kernel.diag(standard).mean())) * kernel
        total = part if total is None else total + part
    return total


def run_demo(out: str, *, seed: int, cv: int, n_alphas: int) -> None:
    """The `demo` command."""
    with whole_folder(out, overwrite=True, files=("model.skops", "report.html")) as folder:
        _write_demo(folder, seed=seed, cv=cv, n_alphas=n_alphas)
    make_console().print(f"Wrote {out}: model.skops, report.html")


def _write_demo(folder: Path, *, seed: int, cv: int, n_alphas: int) -> None:
    from rich.table import Table
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import StratifiedKFold, train_test_split

    from kernelweave.estimators.cv import MKLClassifierCV
    from kernelweave.inspection.held import HeldOut
    from kernelweave.inspection.registry import Basis, collect
    from kernelweave.persistence import save
    from kernelweave_app.reports import make_report

    console = make_console()
    bunch = load_breast_cancer(as_frame=True)
    X, y = bunch.data, np.asarray(bunch.target_names)[bunch.target]
    views = {view: [c for c in X.columns if view in c] for view in VIEWS}
    console.print(f"Found breast cancer (a data set of scikit-learn): {len(X)} rows, {X.shape[1]} columns.")
    for view, columns in views.items():
        console.print(f"View {view}: {len(columns)} columns.")
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, test_size=0.3, random_state=seed)
    shapes = [kernels.Linear(), kernels.Polynomial(degree=2)]
    shapes += [kernels.RBF(gamma=float(f"{g / 10:.3g}")) for g in (0.03, 0.1, 0.3, 1.0, 3.0)]
    bank = banks.views(views, shapes)
    splitter = StratifiedKFold(cv, shuffle=True, random_state=seed)
    model = MKLClassifierCV(bank, "rls2", standardize=True, cv=splitter, n_alphas=n_alphas)
    model.set_callbacks(FitProgress("path x folds"))
    begin = time.perf_counter()
    try:
        model.fit(X_train, y_train)
    finally:
        model.set_callbacks()
    seconds = time.perf_counter() - begin
    n_fits = n_alphas * cv + model.best_index_ + 1
    console.print(
        f"{n_alphas} regularisation parameters x {cv} folds, and all rows: {n_fits} certified fits in {seconds:.1f} s."
    )
    held = HeldOut.of(model, X_test, y_test)
    found = collect(Basis(model=model, held=held))
    summarize(console, model, found)
    console.print("Tuning the baselines on the same training rows ...")
    rivals = baselines(bank, X_train, y_train, splitter)
    table = Table("model", "held-out accuracy", "errors", box=None, pad_edge=False)
    comparison = {}
    for name, rival in {"kernelweave (rls2)": model, **rivals}.items():
        right = rival.predict(X_test) == y_test
        comparison[name] = float(right.mean())
        table.add_row(name, f"{right.mean():.4f}", f"{int((~right).sum())} of {len(right)}")
    console.print(table)
    with writing():
        save(model, folder / "model.skops")
        report = make_report(
            model,
            title="Breast cancer, three views",
            data=[
                f"{len(X)} rows, {X.shape[1]} columns",
                f"{len(X_train)} training rows, {len(X_test)} held out",
            ],
            settings={
                "views": {v: len(c) for v, c in views.items()},
                "cv": cv,
                "seed": seed,
                "alphas": n_alphas,
            },
            held=held,
            X=X_train,
            comparison=comparison,
            found=found,
        )
        write_text(folder / "report.html", report)
