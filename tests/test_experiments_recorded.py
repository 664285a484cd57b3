"""Experiments on made-up tables: their settings, the results of every cell, tables and figures, as they were read once.

Modules: `base`, `baselines`, `cardinality`, `margin_values`, `mlmkl`, `mlmkl_grid`, `mlmkl_posterior`, `mlmkl_tables`,
`ranks`, `rkl`, `rkl_convergence`, `rkl_klc`, `rkl_scales`, `rls2_microarray`, `rls2_nci60`, `rls2_prostate`,
`rls2_relax`, `rls2_second_layer`, `rls2_strings`, `rls2_uci`, `sizes`, `algorithms/alternating`,
`algorithms/reduced_gradient`, `algorithms/posterior_mlmkl`, `algorithms/published_mlmkl`.
"""

import warnings
import zlib
from dataclasses import replace

import numpy as np
import pytest

import kernelweave_papers as experiments
from kernelweave import InputError, datasets
from kernelweave.datasets.encoding import Dataset
from kernelweave_papers import (
    baselines,
    cardinality,
    mlmkl,
    mlmkl_grid,
    rkl,
    rkl_klc,
    rls2_microarray,
    rls2_nci60,
    rls2_second_layer,
    rls2_uci,
)

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

#: Rows, columns and classes (0: numbers) of the made-up tables; two classes and 28 x 4 for all others.
SHAPES = {
    "servo": (28, 4, 0), "prostate": (40, 8, 0), "srbct": (36, 12, 3), "nci60": (40, 12, 4), 
    "binarystrings": (24, 6, 0), "wpbc": (20, 3, 2),
}  # fmt: skip
#: What measures time.
TIMES = ("seconds", "seconds_std", "cpu", "inner_seconds", "all seconds")


def made_up(name, protocol=None, progress=False):
    """A table that is the same on every day."""
    n, p, n_classes = SHAPES.get(name, (28, 4, 2))
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    X = rng.normal(size=(n, p))
    value = X[:, 0] - X[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    if name == "binarystrings":
        X = (X > 0).astype(float)
        value = X[:, :3].sum(axis=1)
    y, train = value, None
    if n_classes:
        y = np.searchsorted(np.quantile(value, np.arange(1, n_classes) / n_classes), value).astype(np.int64)
    if name in ("prostate", "srbct", "binarystrings"):
        train = np.arange(n) % 3 > 0
    if name == "nci60":
        y[:4] = 4  # a class that is too small
    return Dataset(
        name, X, y, "regression" if not n_classes else "binary" if n_classes == 2 else "multiclass",
        tuple(f"c{j}" for j in range(p)), tuple("abcde"[: y.max() + 1]) if n_classes else (), train, {}, 0, False,
        "here", datasets.info(name),
    )  # fmt: skip


@pytest.fixture
def made(monkeypatch):
    """Made-up tables in place of all others, and few settings where there is no option for them."""
    monkeypatch.setattr(datasets, "load", made_up)
    monkeypatch.setattr(datasets, "is_here", lambda name: name != "14cancer")
    for name in mlmkl_grid.TRAINING:
        monkeypatch.setitem(mlmkl_grid.TRAINING, name, 14)
    for name, values in (("KS", (1, 2)), ("RIDGES", (0.01, 1.0)), ("CS", (5.0, 50.0))):
        monkeypatch.setattr(cardinality, name, values)
    monkeypatch.setattr(baselines, "WIDTHS", (0.3, 1.0))
    monkeypatch.setattr(rkl_klc, "STEPS", (0, 1, 10))
    some = ("C, steps doubled", "n C")
    monkeypatch.setattr(rkl_klc, "FACTORS", {name: rkl_klc.FACTORS[name] for name in some})
    longer = replace(rls2_nci60.CHANGES["longer"], n_alphas=6)
    monkeypatch.setitem(rls2_nci60.CHANGES, "longer", longer)
    monkeypatch.setattr(rkl_klc, "CS", (0.1, 10.0))
    cached = (
        rkl.problem, cardinality.table, mlmkl.table, mlmkl.load_split, rls2_microarray.table, rls2_uci.problem,
        rls2_uci._average_kernel, rls2_second_layer.load_split,
    )  # fmt: skip
    for one in cached:
        one.cache_clear()
    yield
    for one in cached:
        one.cache_clear()


#: Settings of every experiment in which each of its parts has something to do, in about a second.
SMALL = {
    "cardinality": {"datasets": ("heart",), "splits": 2, "folds": 2},
    "mlmkl": {
        "datasets": ("postoperative", "sonar"), "splits": 2, "etas": (1.0, 0.01), "Cs": (1.0, 10.0), "steps": 1,
        "methods": ("sksvm", "mlmkl-1", "mlmkl-2", "mlmkl-literal-2", "average", "rbf"),
    },
    "mlmkl-posterior": {"datasets": ("sonar",), "splits": 2, "etas": (1.0, 0.01), "steps": 1},
    "rkl": {
        "datasets": ("sonar", "colon-log"), "folds": 2, "methods": ("uniform", "mkl-l1", "rkl", "uniform-sum", "rbf"),
    },
    "rkl-convergence": {"datasets": ("sonar",), "max_iter": 6},
    "rkl-klc": {"datasets": ("wpbc", "sonar"), "folds": 2},
    "rkl-scales": {"datasets": ("heart",), "draws": 1, "splits": 2, "methods": ("rkl", "mkl-l1")},
    "rls2-microarray": {"splits": 2, "folds": 2, "n_alphas": 3, "methods": ("rls2", "svc")},
    "rls2-nci60": {"splits": 2, "folds": 2, "n_alphas": 3},
    "rls2-prostate": {"folds": 3, "n_alphas": 5},
    "rls2-relax": {"datasets": ("servo", "heart"), "splits": 2, "n_alphas": 3, "folds": 2},
    "rls2-second-layer": {
        "datasets": ("sonar",), "splits": 2, "Cs": (1.0, 10.0), "radii": (1.0, 3.0), "penalties": (0.1,), "steps": 1,
    },
    "rls2-strings": {"draws": 2, "sizes": 5, "n_alphas": 4},
    "rls2-uci": {
        "datasets": ("heart", "servo"), "splits": 2, "n_alphas": 3, "folds": 2, "ratios": (0.7,),
        "methods": ("rls2", "rls2-alternating", "average", "rbf"),
    },
    "sizes": {"datasets": ("heart", "servo", "sonar")},
}  # fmt: skip


def timeless(found):
    """A result or a table without times and without what the last digits of solutions decide."""
    if isinstance(found, dict):
        return {key: timeless(one) for key, one in found.items() if key not in (*TIMES, "gap")}
    if hasattr(found, "columns"):
        return found.drop(columns=[name for name in (*TIMES, "gap") if name in found])
    if isinstance(found, list) and len(found) > 12 and all(isinstance(one, int | float) for one in found):
        return np.array(found, dtype=float)
    return found


def drawn(figure):
    """What a figure shows."""
    found = []
    for ax in figure.axes:
        low, high = ax.get_xlim()
        legend = ax.get_legend()
        found.append(
            {
                "title": [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale(), ax.get_yscale()],
                "turned": [low > high, ax.yaxis_inverted(), ax.axison],
                "lines": [
                    [
                        one.get_label(),
                        str(one.get_color()),
                        one.get_marker(),
                        one.get_linestyle(),
                        numbers(one),
                    ]
                    for one in ax.lines
                ],
                "areas": [len(one.get_paths()) for one in ax.collections],
                "texts": [one.get_text() for one in ax.texts],
                "legend": [one.get_text() for one in legend.get_texts()] if legend else None,
                "ticks": [one.get_text() for one in ax.get_yticklabels() if one.get_text().isidentifier()],
            }
        )
    return found


def numbers(line):
    x, y = (np.ma.filled(np.ma.asarray(one, dtype=float), np.nan) for one in line.get_data())
    return {"x": x, "y": y}


@pytest.mark.parametrize("name", list(experiments.EXPERIMENTS))
def test_declared(name, recorded, made):
    one = experiments.get(name)
    cells = one.cells(one.defaults)
    recorded("settings", [one.title, one.defaults.as_dict(), one.quick.as_dict(), dict(one.with_data)])
    recorded("cells", [len(cells), cells[0], cells[len(cells) // 2], cells[-1], len(one.cells(one.quick))])
    kinds = dict.fromkeys(one.kind(cell) for cell in cells)
    recorded(
        "costs", [{kind: one.costs.get(kind) for kind in kinds}, one.rows(cells[0]), one.published, one.shown]
    )
    recorded("choices", {key: [sorted(known), what] for key, (known, what) in one.defaults.choices().items()})
    recorded("prepared", one.prepare(one.defaults.with_values(**SMALL[name])))
    wrong = {
        "splits": 0,
        "folds": 1,
        "n_alphas": 0,
        "datasets": ("nothing",),
        "methods": ("magic",),
        "protocols": (),
    }
    wrong |= {"draws": 0, "ratios": (1.5,), "smallest": -1.0, "seed": -1, "sizes": 0, "banks": ("x",)}
    said = []
    for key, value in wrong.items():
        try:
            one.defaults.with_values(**{key: value})
        except InputError as error:
            said.append(str(error))
    recorded("refused", said)


#: Experiments whose fits are not convex, or choose between equal values: their tables are made from numbers by hand.
BY_HAND = (
    "cardinality",
    "mlmkl",
    "mlmkl-posterior",
    "rkl-convergence",
    "rkl-klc",
    "rls2-second-layer",
    "rls2-strings",
)
#: What the last digits of solutions decide.
CHANGING = (
    "gap", "iterations", "iterations_std", "weights", "kernels", "kernels_std", "status", "nodes", "alpha", "relax",
    "machines", "objective", "active", "distance",
)  # fmt: skip


def by_hand(name, cell, options, rng):
    """A result as the cell of an experiment has it, of numbers far from each other."""
    if name == "cardinality":
        return {
            "accuracy": rng.uniform(50, 90), "C": 5.0, "k": 2, "ridge": 0.01, "kernels": int(rng.integers(1, 8)),
            "gap": rng.uniform(1e-7, 1e-6), "nodes": int(rng.integers(1, 90)), "seconds": 1.0,
            "status": ["CONVERGED", "TIME"][int(rng.integers(2))],
        }  # fmt: skip
    if name == "rls2-second-layer":
        keys = ("accuracy", "C", "other", "machines", "fall", "kernels", "cpu")
        return dict(zip(keys, rng.uniform(1, 50, len(keys)), strict=True))
    if name == "rls2-strings":
        # five sizes, as in `SMALL`
        keys = ("rmse", "d1", "d2", "d3", "others", "selected") if cell["method"] == "rls2" else ("rmse",)
        return {key: rng.uniform(0.1, 1, 5).tolist() for key in keys}
    if name == "rkl-convergence":
        return {
            "n_samples": 9, "status": "CONVERGED", "seconds": 1.25, "dual": 2.0, "all_machines": 40,
            "machines": [1, 4, 9],
            "objective": [3.0, 2.0 * (1 + rng.uniform(1e-3, 1e-2)), 2.0 + rng.uniform(0, 1e-5)], "active": [20, 7, 3],
        }  # fmt: skip
    if name == "rkl-klc":
        names = rkl_klc.DECISIONS if cell["dataset"] in rkl_klc.SEARCHED else rkl_klc.ELSEWHERE
        return {
            "readings": [
                [steps, decision, C, rng.uniform(40, 100), int(rng.integers(1, 20))]
                for steps in rkl_klc.STEPS
                for decision in names
                for C in ("by folds", "0.1")
            ]
        }
    method, literal = str(cell["method"]), cell["protocol"] == "literal"
    family, n_layers = mlmkl_grid.parts(method)
    stepped = literal and family in mlmkl_grid.STEPPED
    size = len(options.etas) if stepped else 1 if literal else len(options.Cs)
    chosen = int(rng.integers(size))
    tested = rng.uniform(50, 90, size)
    found = {"chosen": chosen, "test": tested.tolist(), "n_train": 14, "cpu": 1.0}
    if not literal:
        found["test"] = [value if k == chosen else np.nan for k, value in enumerate(tested)]
    if method != "rbf":
        found |= {"inner": rng.uniform(50, 90, size).tolist(), "loss": rng.uniform(1, 2, size).tolist()}
        found["weights"] = rng.uniform(0.1, 1, (n_layers, 4)).tolist()
    if stepped:
        found |= {"change": rng.normal(size=size).tolist(), "steps": rng.integers(1, 20, size).tolist()}
    return found


def shape(found):
    """Kinds and lengths of what a cell gives."""
    return {
        key: len(one) if hasattr(one, "__len__") else type(one).__name__ for key, one in sorted(found.items())
    }


def stable(found):
    """A result or a table without what the last digits of solutions decide."""
    found = timeless(found)
    if isinstance(found, dict):
        return {key: one for key, one in found.items() if key not in CHANGING}
    return found.drop(columns=[name for name in CHANGING if name in found])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", list(experiments.EXPERIMENTS))
def test_results_tables_and_figures(name, recorded, made):
    one = experiments.get(name)
    options = one.defaults.with_values(**SMALL[name])
    cells, rng = one.cells(options), np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ran = [(cell, one.run(cell, options)) for cell in (cells[::4] if name in BY_HAND else cells)]
    some = slice(None, None, 1 + len(ran) // 10)
    kinds = [
        [*cell.values(), shape({key: one for key, one in result.items() if key not in CHANGING})]
        for cell, result in ran[some]
    ]
    recorded("kinds", kinds)
    if name in BY_HAND:
        if name == "mlmkl":
            options = replace(options, methods=one.defaults.methods)
        rows = [(cell, by_hand(name, cell, options, rng)) for cell in one.cells(options)]
    else:
        rows = ran
        found = [[*cell.values(), stable(result)] for cell, result in ran[some]]
        recorded("results of cells", found, rtol=1e-2, atol=1e-6)
    tables = one.tables(rows, options)
    for key, frame in tables.items():
        if (name, key) == ("rls2-uci", "kernels"):
            continue  # kernels that are nearly the identity share their weight in any way
        small = timeless(frame) if name in BY_HAND else stable(frame)
        recorded(key, small if small.size < 200 else digest(small), rtol=1e-2, atol=1e-6)
    figures = [[key, drawn(figure)] for key, figure in one.figures(tables)]
    if name not in BY_HAND:
        for _, axes in figures:
            for ax in axes:
                ax["lines"] = [[*line[:4], len(line[4]["x"])] for line in ax["lines"]]
    recorded("figures", figures, rtol=1e-2, atol=1e-6)


def digest(frame):
    """Columns of numbers as arrays, which are recorded as sums, and texts by their number."""
    found = {}
    for key in frame:
        numbers = pd.api.types.is_numeric_dtype(frame[key])
        found[str(key)] = (
            frame[key].to_numpy(dtype=float)
            if numbers
            else dict(frame[key].astype(str).value_counts(sort=False).head(8))
        )
    return {"rows": len(frame), **found}


def settings(learner):
    """Name and parameters of a learner."""
    usual = type(learner)().get_params()
    given = {key: one for key, one in learner.get_params().items() if one != usual[key]}
    return {"learner": type(learner).__name__, **given}


def test_learners_of_all_methods(recorded):
    """What is passed to the learners of every method, and which grid belongs to it."""
    from kernelweave_papers import rkl_convergence, rkl_scales

    recorded("rkl", {name: settings(make()) for name, make in rkl.LEARNERS.items()})
    recorded("rkl-scales", {name: settings(make()) for name, make in rkl_scales.METHODS.items()})
    options = mlmkl_grid.MLMKLOptions(steps=7)
    posterior = experiments.get("mlmkl-posterior").defaults.methods
    names = [name for name in (*mlmkl_grid.LABELS, *posterior) if name != "rbf"]
    found = {
        f"{protocol}/{name}": settings(mlmkl.make_learner(name, protocol, 0.25, options, 40))
        for name in names
        for protocol in ("literal", "tuned")
    }
    recorded("mlmkl", found)
    second = experiments.get("rls2-second-layer").defaults
    found = {
        name: [settings(one) for one in rls2_second_layer.grid_of(name, second)]
        for name in rls2_second_layer.LABELS
        if name != "rbf"
    }
    recorded("rls2-second-layer", found)
    found = {
        name: [[given, settings(one)] for given, one in cardinality.candidates(name, 0.5, 9)]
        for name in ("simple", "uniform", "cardinality")
    }
    recorded("cardinality", found)
    grids = [
        rkl.GRIDS,
        cardinality.CS,
        rkl_scales.FACTORS,
        rkl_convergence.LEVELS,
        rkl.FACTORS,
        rkl.USED,
        rkl.INNER,
    ]
    recorded("grids", grids)
    factors = [rkl_scales.factors(6, k, 3).tolist() for k in range(3)]
    recorded("factors", [*factors, {name: one(30) for name, one in rkl_klc.FACTORS.items()}])


def test_kernels_of_uci_are_sorted_by_their_mean_weight():
    weights = [{"a": 0.5, "b": 0.25, "c": 0.25}, {"b": 1.0}]
    frame = pd.DataFrame(
        [{"dataset": "heart", "ratio": 0.7, "method": "rls2", "weights": one} for one in weights]
    )
    found = rls2_uci._kernels(frame)
    assert found[["kernel", "weight", "selected"]].to_numpy().tolist() == [
        ["b", 0.625, 1.0],
        ["a", 0.25, 0.5],
        ["c", 0.125, 0.5],
    ]
