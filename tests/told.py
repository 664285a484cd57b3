"""Tables and words for tests of runs and of the studio: what a call answers, and rows that are the same everywhere."""

import re

import numpy as np
import pandas as pd

from kernelweave._errors import InputError
from kernelweave_app.runs.spec import Spec


def answer(call, *arguments, **options):
    """What a call returns, or the error that it raises, in words."""
    try:
        return call(*arguments, **options)
    except InputError as error:
        # versions of pandas have dates of different units, and other tests register learners
        text = re.sub(r"64\[\w+\]", "64", f"error: {error}")
        return re.sub(r"(?<=Known: )('[\w-]+', ){8}.*", "...", text)


def cells(column):
    """The cells and the type of a column, in words."""
    kind = "category" if str(column.dtype) == "category" else column.dtype.kind
    told = (
        "-" if pd.isna(cell) else f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in column
    )
    return f"{kind}: {', '.join(told)}"


def a_table(n=30):
    """Numbers, categories, classes, labels, counts, times, weights and groups, the same on every machine."""
    k = np.arange(n)
    frame = pd.DataFrame(
        {"a": np.cos(k * 1.3), "b": np.sin(k * 2.1) * 5, "site": np.array(list("uvw"))[k * 7 % 3]}
    )
    frame["y"] = frame["a"] - 0.3 * frame["b"] + np.cos(k * 0.37)
    frame["z"] = frame["b"] ** 2
    frame["class"] = np.array(["low", "mid", "top"])[np.digitize(frame["y"], [-0.8, 1.0])]
    frame["p"], frame["q"] = (k * 5 % 7 < 3).astype(int), (k * 3 % 5 < 2).astype(int)
    frame["count"] = k * 3 % 4
    frame["days"], frame["died"] = np.round(10 + 9 * np.sin(k * 1.7), 1), (k % 3 > 0).astype(int)
    frame["w"], frame["g"] = 0.5 + k % 4, k * 11 % n // 3
    return frame


COLUMNS = {"drop": "y,z,class,p,q,count,days,died,w,g"}


def asked(target, **given):
    """A spec with some target of `a_table`, whose other columns are left out."""
    used = {*target.split(","), given.get("weights"), given.get("group"), given.get("strata")}
    used |= {given.get("time"), given.get("event"), given.get("holdout")}
    drop = ",".join(name for name in COLUMNS["drop"].split(",") if name not in used)
    return Spec(**{"target": target, "drop": drop, **given})
