"""What code answered when somebody last read it, for tests of answers that have no formula to compare with.

``recorded("name", value)`` compares a value with the one in ``data/recorded/<name of the test file>.json``. A wanted
change is recorded again with ``KERNELWEAVE_RECORD=1 pytest tests/test_x.py``; then read the difference of that file.
"""

import dataclasses
import json
import math
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "data" / "recorded"
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
#: Arrays with more entries are recorded as weighted sums: a change of one entry, or an exchange of two, changes them.
MANY = 30
#: What another processor, another BLAS or the loops in Python change: a test bounds it instead.
CHANGES = {
    "n_iter",
    "n_machines",
    "n_nodes",
    "gap",
    "rel_gap",
    "rounding",
    "roundings",
    "trace",
    "history",
    "proof",
}

#: What other packages say, which other versions of them may say in other words.
OTHERS = re.compile(
    r"(: (The classes, |The 'class_weight'|Found array|setting an array|multi_class|'<' not)| instance is not fitted|"
    r"A column-vector| Valid parameters are|Known: ).*",
    re.S,
)


def plain(value: object) -> object:
    """Write a value with what JSON has; every number is a float, an integer or a text such as "nan"."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else str(value)
    if hasattr(value, "toarray"):
        return plain(value.toarray())
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return _array(value)
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return {
            "index": plain(list(value.index)),
            **{str(name): plain(value[name].tolist()) for name in value.columns},
        }
    if isinstance(value, np.ndarray):
        return [plain(one) for one in value.tolist()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value) if one.compare}
    if isinstance(value, Mapping):
        if changing := CHANGES & set(map(str, value)):
            raise TypeError(
                f"Not the same on every processor: {sorted(changing)}. Bound these; do not record them."
            )
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(one) for one in value), key=str)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    raise TypeError(f"Turn this into numbers, texts, arrays or tables before it is recorded: {type(value)}.")


def _array(values: np.ndarray) -> object:
    if values.size <= MANY:
        return plain(values.tolist())
    flat = np.nan_to_num(np.asarray(values, dtype=np.float64).ravel(), nan=0.7, posinf=1e3, neginf=-1e3)
    places = np.arange(flat.size)
    sums = [float(flat @ np.cos(turn * places + turn)) for turn in (0.0, 0.9, 2.3)]
    return {"shape": list(values.shape), "sums": plain(sums), "norm": plain(float(np.linalg.norm(flat)))}


def brief(tree: object) -> object:
    """JSON with weighted sums in place of long lists of numbers, and the ends of long tables."""
    if isinstance(tree, Mapping):
        return {key: brief(one) for key, one in tree.items()}
    if isinstance(tree, list) and len(tree) > 12 and all(isinstance(one, int | float) for one in tree):
        return [len(tree), *(np.cos(np.outer([0.0, 0.9, 2.3], 1 + np.arange(len(tree)))) @ tree)]
    if isinstance(tree, list) and len(tree) > 12 and all(isinstance(one, list) for one in tree):
        return [brief(one) for one in (*tree[:3], *tree[-2:])]
    return [brief(one) for one in tree] if isinstance(tree, list) else tree


def told(value):
    """What can be recorded as it is, and anything else as text."""
    if isinstance(value, dict):
        return {str(key): told(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [told(one) for one in value]
    known = value is None or isinstance(value, str | bool | int | float | np.generic)
    return (
        value if known or (isinstance(value, np.ndarray) and value.dtype.kind in "biufOSU") else repr(value)
    )


def outcome(function, *arguments, **options):
    """What a call returns, or the text of its error, with its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = function(*arguments, **options)
        except (ValueError, TypeError, AttributeError) as error:
            found = f"{type(error).__name__}: {OTHERS.sub('', str(error))}"
    said = [OTHERS.sub("", str(one.message)) for one in caught]
    return [found, *said] if said else found


def differences(old: object, new: object, rtol: float, atol: float, where: str = "") -> list[str]:
    """Say where two plain values differ; numbers within texts are compared as numbers."""
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            return [f"{where}: expected the names {list(old)}, got {list(new)}"]
        # sums may cancel: what they are compared with is the size of the entries
        size = atol + rtol * abs(old["norm"]) if set(old) == {"shape", "sums", "norm"} else atol
        return [d for key in old for d in differences(old[key], new[key], rtol, size, f"{where}.{key}")]
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return [f"{where}: expected {len(old)} values, got {len(new)}: {new}"]
        return [
            d
            for k, pair in enumerate(zip(old, new, strict=True))
            for d in differences(*pair, rtol, atol, f"{where}[{k}]")
        ]
    if isinstance(old, str) and isinstance(new, str):
        a, b = ([float(n.replace(",", "")) for n in NUMBER.findall(one)] for one in (old, new))
        same = NUMBER.sub("#", old) == NUMBER.sub("#", new) and np.allclose(
            a, b, rtol=max(rtol, 1e-3), atol=atol
        )
        return [] if same else [f"{where}: expected {old!r}, got {new!r}"]
    if type(old) in (int, float) and type(new) in (int, float):
        return [] if abs(old - new) <= atol + rtol * abs(old) else [f"{where}: expected {old!r}, got {new!r}"]
    return [] if old == new and type(old) is type(new) else [f"{where}: expected {old!r}, got {new!r}"]


class Recorder:
    """The recorded answers of one test: call it with a name and a value."""

    def __init__(self, file: Path, test: str):
        self.path, self.test = FOLDER / f"{file.stem.removeprefix('test_')}.json", test

    def __call__(self, name: str, value: object, rtol: float = 1e-6, atol: float = 1e-9) -> None:
        known = json.loads(self.path.read_text("utf-8")) if self.path.exists() else {}
        key, found = f"{self.test}: {name}", plain(value)
        if os.environ.get("KERNELWEAVE_RECORD"):
            if key not in known or differences(known[key], found, rtol, atol):
                known[key] = found
                self.path.parent.mkdir(exist_ok=True)
                lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(known.items()))
                self.path.write_text("{\n" + lines + "\n}\n", "utf-8")
            return
        assert key in known, (
            f"Nothing recorded as {key!r}: run this test once with KERNELWEAVE_RECORD=1 and read it."
        )
        found = differences(known[key], found, rtol, atol)
        assert not found, "\n".join(found[:12])
