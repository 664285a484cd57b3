"""Errors of kernels of molecules beside one kernel, a forest and boosting: ``python -m benchmarks.molecules``.

Hydration free energies (FreeSolv, 642 molecules) and the wavelengths at which photoswitches absorb (392), from
``freesolv.csv`` and ``photoswitch.csv`` in the folder that KERNELWEAVE_DATA names; four fifths of the rows are for
training, the same divisions for all methods. "bank" is a fit of ``banks.molecules`` with scale and learner of a fit
without `kernels` (centred kernels, relaxed RLS2), "bank, as given" with those of kernels that are given, and "one
kernel, centred" and "one kernel" are the same two with the Tanimoto kernel of Morgan counts alone (the posterior mean
of a Gaussian process whose noise folds choose). "forest" and "boosting" have the counts of Morgan as columns, of parts
that three molecules have, and "forest, all" those of all fingerprints, and the descriptors. Needs RDKit. Processor
seconds of one thread, once.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import kernelweave as kw
from kernelweave._sparse import to_dense
from kernelweave.kernels import Descriptors, Fingerprints, Linear
from kernelweave.kernels.molecules import FORMS

RESULTS = Path(__file__).parent / "results" / "molecules.json"
TABLES = {
    "freesolv": ("smiles", "expt"),
    "photoswitch": ("SMILES", "E isomer pi-pi* wavelength in nm"),
}


def load(name: str) -> tuple[pd.DataFrame, Any]:
    """A table of one column of SMILES, and the target."""
    smiles, target = TABLES[name]
    table = pd.read_csv(Path(os.environ["KERNELWEAVE_DATA"]) / f"{name}.csv")
    table = table[table[target].notna()]
    return pd.DataFrame({"smiles": table[smiles].to_numpy()}), table[target].to_numpy(dtype=float)


def columns(frame: pd.DataFrame, steps: list[Any]) -> Any:
    """Fingerprints and descriptors as columns, those that are not 0 in at least three molecules."""
    X = np.hstack([to_dense(Linear().prepared(step).on("smiles").features(frame)) for step in steps])
    return X[:, (X != 0).sum(axis=0) >= 3]


def kernels(
    bank: list[Any], frame: pd.DataFrame, y: Any, train: Any, test: Any, **more: Any
) -> tuple[Any, Any]:
    """Predictions of a fit, and its weights."""
    model = kw.MKLRegressor(bank, **more).fit(frame.iloc[train], y[train])
    return model.predict(frame.iloc[test]), model.weights_


def methods(frame: pd.DataFrame, y: Any, seed: int) -> dict[str, Any]:
    """Functions of training and test rows that return predictions and weights."""
    bank = kw.banks.molecules("smiles")
    X = columns(frame, [Fingerprints()])
    every = columns(frame, [*(Fingerprints(form) for form in FORMS), Descriptors()])

    def trees(model: Any, X: Any) -> Any:
        return lambda train, test: (model.fit(X[train], y[train]).predict(X[test]), None)

    centred = {"normalize": "center", "learner": kw.learners.RLS2(alpha="auto", relax="auto")}
    return {
        "bank": lambda train, test: kernels(bank, frame, y, train, test, **centred),
        "bank, as given": lambda train, test: kernels(bank, frame, y, train, test),
        "one kernel": lambda train, test: kernels(bank[:1], frame, y, train, test),
        "one kernel, centred": lambda train, test: kernels(bank[:1], frame, y, train, test, **centred),
        "forest": trees(RandomForestRegressor(200, max_features=1 / 3, random_state=seed), X),
        "forest, all": trees(RandomForestRegressor(200, max_features=1 / 3, random_state=seed), every),
        "boosting": trees(HistGradientBoostingRegressor(random_state=seed), X),
    }


def summary(name: str, runs: dict[str, list[Any]], labels: list[str]) -> dict[str, Any]:
    """Mean errors with their standard deviations over divisions, and mean weights."""
    row: dict[str, Any] = {"table": name, "divisions": len(runs["bank"])}
    for method, found in runs.items():
        errors = np.array([one[0] for one in found])
        row[method] = {
            "rmse": round(float(errors.mean()), 4),
            "deviation": round(float(errors.std(ddof=1)), 4) if len(errors) > 1 else 0.0,
            "seconds": round(float(np.median([one[1] for one in found])), 2),
        }
    single = min(row[method]["rmse"] for method in row if method.startswith("one kernel"))
    row["lower_by"] = round(1.0 - row["bank"]["rmse"] / single, 3)
    weights = np.mean([one[2] / one[2].sum() for one in runs["bank"]], axis=0)
    row["weights"] = {label: round(float(w), 3) for label, w in zip(labels, weights, strict=True)}
    return row


def main() -> None:
    """Measure, print and write after every division."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--divisions", type=int, default=20)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    data = {name: load(name) for name in TABLES}
    runs: dict[str, dict[str, list[Any]]] = {name: {} for name in TABLES}
    labels = [kernel.label for kernel in kw.banks.molecules("smiles")]
    for seed in range(given.divisions):
        for name, (frame, y) in data.items():
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = np.split(order, [round(0.8 * len(y))])
            for method, run in methods(frame, y, seed).items():
                start = time.process_time()
                found, weights = run(train, test)
                seconds = time.process_time() - start
                error = float(np.sqrt(np.mean(np.square(found - y[test]))))
                runs[name].setdefault(method, []).append((error, seconds, weights))
        rows = [summary(name, runs[name], labels) for name in TABLES]
        print(json.dumps(rows), flush=True)
        given.results.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
