"""Fixtures for all tests: one seed by default, and the folder of real data sets where there is one."""

import gc
import os
import signal
import sys
import threading
import zlib
from collections import Counter
from contextlib import contextmanager, nullcontext
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
# A shell starts what it runs in the background with Ctrl-C ignored, and so would be what tests of Ctrl-C send.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)

import hypothesis
import numpy as np
import pytest

# Thousands of tests are collected and all of them stay: looking among them for garbage takes a fifth of that time.
gc.disable()

# The same examples on every run: a test that fails today fails tomorrow. Searching is for KERNELWEAVE_TEST_SEED.
for profile, examples in (("core", 25), ("rest", 50), ("nightly", 250), ("all", 50)):
    hypothesis.settings.register_profile(
        profile, deadline=None, derandomize=True, database=None, max_examples=examples
    )

SEED_VARIABLE = "KERNELWEAVE_TEST_SEED"


def read_seeds(text: str) -> list[int]:
    """Read "7", "1,5", "1-20" or "all" (ten seeds)."""
    if text == "all":
        return list(range(10))
    try:
        bounds = [[int(end) for end in part.split("-")] for part in text.split(",")]
        seeds = [seed for ends in bounds for seed in range(ends[0], ends[-1] + 1)]
    except ValueError:
        seeds = []
    if not seeds:
        raise pytest.UsageError(f"{SEED_VARIABLE} must be a number, a list, a range or 'all', got {text!r}.")
    return seeds


SEEDS = read_seeds(os.environ.get(SEED_VARIABLE) or "0")


def pytest_report_header() -> list[str]:
    from kernelweave._loops import HAS_EXTENSION

    return [
        f"kernelweave: compiled core {'on' if HAS_EXTENSION else 'off'}, seeds {SEEDS}, "
        f"data {os.environ.get('KERNELWEAVE_DATA') or 'not given'}"
    ]


#: Files with the longest tests, which run first: no worker of xdist ends alone with one of them.
LONG = (
    "test_stress",
    "test_studio_browser",
    "test_experiment_rls2",
    "test_experiment_mlmkl",
    "test_studio_jobs",
    "test_scikit_learn",
    "test_cli_fit",
)


PARTS = ("core", "rest", "nightly")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        choices=(*PARTS, "all"),
        default="all",
        help="core: what `make test` runs; rest: what `.ci/run` runs besides: tests marked full or browser, and more "
        "combinations of those marked sampled; nightly: what only `make test-all` runs; all (default): everything",
    )


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile(config.getoption("--part"))


def parts_of(items: list[pytest.Item]) -> dict[pytest.Item, str]:
    """The part that every test belongs to, by its marks `full`, `browser`, `nightly` and `sampled`."""
    found, places = {}, {}
    combinations = Counter(item.nodeid.partition("[")[0] for item in items)
    for item in items:
        part = 1 if item.get_closest_marker("full") or item.get_closest_marker("browser") else 0
        sampled = item.get_closest_marker("sampled")
        if item.get_closest_marker("nightly"):
            part = 2
        elif sampled is not None:
            name, (step,) = item.nodeid.partition("[")[0], sampled.args
            if name not in places:
                # functions with the same combinations begin with different ones, and so share them out
                places[name] = -(zlib.crc32(name.encode()) % max(1, min(step, combinations[name] - 1)))
            # one in the first part, its neighbour in the next, and all others at night
            part = min(part + places[name] % step, 2)
            places[name] += 1
        found[item] = PARTS[part]
    return found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part = config.getoption("--part")
    if part != "all":
        found = parts_of(items)
        # properties are tested with more examples at night
        kept = {
            item
            for item in items
            if found[item] == part
            or (part == "nightly" and getattr(getattr(item, "obj", None), "is_hypothesis_test", False))
        }
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]
    places = {name: place for place, name in enumerate(LONG)}
    # Within a file quick tests first: with -x an error is met in seconds.
    files = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
    items.sort(
        key=lambda item: (
            places.get(item.path.stem, len(LONG)),
            files[item.path],
            item.get_closest_marker("slow") is not None,
        )
    )


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def no_open_figures():
    """What a test has drawn is not there for the next one."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@contextmanager
def undrawn_figures():
    """Figures are made but not drawn, which is most of the time of a small run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernelweave_app.reports.svg", lambda figure: "<svg></svg>")
        patch.setattr("kernelweave_app.reports.Picture.write_pdf", lambda picture, path: path.touch())
        yield


@pytest.fixture(scope="session")
def no_drawing():
    """What fixtures of modules do in ``with no_drawing():`` draws no figure."""
    return undrawn_figures


@pytest.fixture
def undrawn(request):
    """No figures are drawn, but with the mark `drawn`."""
    with nullcontext() if request.node.get_closest_marker("drawn") else undrawn_figures():
        yield


JSON_LINES = """
import struct

import pandas as pd
from kernelweave_app.runs.formats import Format


class JsonLines(Format):
    name = "json lines"
    suffixes = (".jsonl",)

    def table(self, path):
        if path.read_bytes().startswith(b"damaged"):
            raise struct.error("unpack requires a buffer of 4 bytes")
        return pd.read_json(path, lines=True)

    def lines(self, variable, path, data):
        return [f"{variable} = pd.read_json({path!r}, lines=True)"]
"""


@pytest.fixture
def json_lines(tmp_path, monkeypatch):
    """A format of tables in a module of its own, as a contributor writes it."""
    from kernelweave_app.runs import formats

    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "json_lines.py").write_text(JSON_LINES)
    with monkeypatch.context() as patch:
        patch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "formats")])
        formats.formats.cache_clear()
        yield
    formats.formats.cache_clear()
    sys.modules.pop(f"{formats.__name__}.json_lines", None)


@pytest.fixture(params=SEEDS, ids=lambda seed: f"seed{seed}")
def seed(request) -> int:
    """Seed of this run, 0 unless KERNELWEAVE_TEST_SEED says otherwise."""
    return request.param


@pytest.fixture
def rng(seed) -> np.random.Generator:
    """Random numbers that are the same on every run with the same seed."""
    return np.random.default_rng(seed)


@pytest.fixture
def own_kernels(monkeypatch):
    """Only the package's own kernels are known, none that another test has made."""
    from kernelweave.kernels.base import KERNELS

    for name in [name for name, kind in KERNELS.items() if not kind.__module__.startswith("kernelweave.")]:
        monkeypatch.delitem(KERNELS, name)


@pytest.fixture
def studio(tmp_path, monkeypatch, own_kernels):
    """A studio whose pages are read without a browser."""
    from studio_dump import a_studio

    with a_studio(tmp_path, monkeypatch) as studio:
        yield studio


@pytest.fixture
def recorded(request):
    """Compare values with what was recorded: ``recorded("name", value)``."""
    from recording import Recorder

    return Recorder(request.path, request.node.name)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets, named by KERNELWEAVE_DATA; tests that need it are skipped without it."""
    value = os.environ.get("KERNELWEAVE_DATA")
    if not value:
        pytest.skip("needs the real data sets: set KERNELWEAVE_DATA to their folder")
    folder = Path(value)
    if not folder.is_dir():
        pytest.skip(f"needs the real data sets: KERNELWEAVE_DATA={value} is not a folder")
    return folder


@pytest.fixture
def wine(tmp_path) -> Path:
    """A table of three classes, with a column of texts."""
    from sklearn.datasets import load_wine

    frame = load_wine(as_frame=True).frame.sample(90, random_state=0)
    frame["target"] = frame["target"].map({0: "barolo", 1: "grignolino", 2: "barbera"})
    frame["cellar"] = np.where(np.arange(len(frame)) % 3 == 0, "north", "south")
    path = tmp_path / "wine.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def diabetes(tmp_path) -> Path:
    """A table of numbers, with weights of rows and groups."""
    from sklearn.datasets import load_diabetes

    frame = load_diabetes(as_frame=True).frame.iloc[:120].copy()
    frame["weight"] = np.linspace(0.5, 2.0, len(frame))
    frame["clinic"] = np.arange(len(frame)) // 6
    path = tmp_path / "diabetes.tsv.gz"
    frame.to_csv(path, sep="\t", index=False)
    return path


@pytest.fixture
def two_tables(diabetes, tmp_path) -> tuple[Path, Path]:
    """Halves of the columns, in another order, with rows and a cell that only one of them has."""
    import pandas as pd

    frame = pd.read_csv(diabetes, sep="\t").assign(patient=[f"p{k:03d}" for k in range(120)])
    frame["held"] = np.where(np.arange(120) % 5 == 0, "Test", "train")
    body = frame[["patient", "age", "sex", "bmi", "bp", "weight"]].sample(frac=1, random_state=0)
    body.iloc[3, 3] = np.nan
    body.iloc[:110].to_csv(tmp_path / "body.csv", index=False)
    serum = frame[["s1", "s2", "s3", "weight", "patient", "held", "target"]]
    serum.iloc[8:].to_parquet(tmp_path / "serum.parquet", index=False)
    return tmp_path / "body.csv", tmp_path / "serum.parquet"
