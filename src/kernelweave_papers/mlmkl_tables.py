"""Tables and pictures of the MLMKL experiment, with the numbers of the paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from kernelweave_papers.base import Cell, Result, frame_of
from kernelweave_papers.mlmkl_grid import (
    LABELS,
    PAPER,
    STEPPED,
    TRAINING,
    VERSIONS,
    MLMKLOptions,
    best,
    parts,
)
from kernelweave_papers.printed import MLMKL_RANKS, MLMKL_TABLES23
from kernelweave_papers.ranks import average_ranks, critical_difference_figure, rank, signed_rank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = list[tuple[Cell, Result]]

#: Tables 2 and 3 of the paper, merged: accuracy and standard deviation.
PRINTED = {name: {m: (one.value, one.std) for m, one in row.items()} for name, row in MLMKL_TABLES23.items()}
#: Columns of the paper's two tables, whose average ranks it prints, with these ranks.
COLUMNS = {**{group.lower(): tuple(row) for group, row in MLMKL_RANKS.items()}, "paper": PAPER}
PRINTED_RANKS = {
    group.lower(): tuple(one.value for one in row.values()) for group, row in MLMKL_RANKS.items()
}

#: How parameters are chosen. Optimistic: step size and number of layers by test accuracy, one for each data set.
SELECTIONS = ("literal", "literal, optimistic", "tuned", "tuned, optimistic")
#: Families whose number of layers is chosen too, with their columns.
DEPTHS = {
    "dmkl-best": ("dmkl-1", "dmkl-2", "dmkl-3"),
    "mlmkl-best": ("mlmkl-1", "mlmkl-2", "mlmkl-3"),
    "uniform-best": ("average", "uniform-2", "uniform-3"),
}
NAMES = LABELS | {"dmkl-best": "DMKL-best", "mlmkl-best": "MLMKL-best", "uniform-best": "uniform-best"}

#: Pairs whose differences over data sets are tested.
PAIRS = (
    ("mlmkl-2", "mlmkl-1"), ("mlmkl-3", "mlmkl-1"), ("mlmkl-best", "mlmkl-1"),
    ("dmkl-2", "dmkl-1"), ("dmkl-3", "dmkl-1"), ("dmkl-best", "dmkl-1"),
    ("uniform-2", "average"), ("uniform-3", "average"), ("uniform-best", "average"),
    ("mlmkl-1", "average"), ("mlmkl-2", "uniform-2"), ("mlmkl-3", "uniform-3"), ("mlmkl-best", "uniform-best"),
    ("mlmkl-1", "mlmkl-literal-1"), ("mlmkl-2", "mlmkl-literal-2"), ("mlmkl-3", "mlmkl-literal-3"),
    ("mlmkl-3", "dmkl-3"), ("mlmkl-3", "l2mkl"), ("mlmkl-3", "sm1mkl"),
    ("mlmkl-best", "l2mkl"), ("mlmkl-best", "sm1mkl"), ("mlmkl-best", "dmkl-best"), ("mlmkl-best", "rbf"),
    ("average", "rbf"), ("uniform-best", "rbf"), ("sksvm", "rbf"),
)  # fmt: skip


def picked(frame: pd.DataFrame, options: MLMKLOptions) -> pd.DataFrame:
    """Test accuracy of every split under each way of choosing; only the optimistic ones use other test accuracies."""
    out = []
    for (protocol, name, method), part in frame.groupby(["protocol", "dataset", "method"], sort=False):
        grid, tested = (
            np.array(_grid(protocol, method, options)),
            np.array(list(part["test"]), dtype=np.float64),
        )
        every, own = np.arange(len(part)), part["chosen"].to_numpy(dtype=np.intp)
        optimistic = own
        if protocol == "literal" and len(grid) > 1:
            mean = np.where(np.isnan(tested).any(axis=0), -1.0, tested.mean(axis=0))
            optimistic = np.full(len(part), int(np.argmax(mean)))
        # a tuned machine is tuned beside literal methods too
        for selection in SELECTIONS if method == "rbf" else (protocol, f"{protocol}, optimistic"):
            at = optimistic if "optimistic" in selection else own
            values = {"selection": selection, "dataset": name, "method": method, "split": part["split"]}
            values |= {"accuracy": tested[every, at], "chosen": grid[at]}
            if method != "rbf":
                held = [np.array(list(part[key]), dtype=np.float64)[every, own] for key in ("inner", "loss")]
                values |= dict(zip(("inner", "loss"), held, strict=True))
            out.append(pd.DataFrame(values))
    found = pd.concat(out, ignore_index=True)
    for (selection, name), part in found.groupby(["selection", "dataset"], sort=False):
        for column, depths in DEPTHS.items():
            members = [part[part["method"] == method].set_index("split") for method in depths]
            if any(not len(m) or set(m.index) != set(members[0].index) for m in members):
                continue
            splits = members[0].index
            if "optimistic" in selection:
                tops = [int(np.argmax([m["accuracy"].mean() for m in members]))] * len(splits)
            else:
                tops = [
                    best(*np.array([m.loc[split, ["inner", "loss"]] for m in members]).T) for split in splits
                ]
            right = [members[top].loc[split, "accuracy"] for top, split in zip(tops, splits, strict=True)]
            values = {"selection": selection, "dataset": name, "method": column, "split": splits}
            out.append(pd.DataFrame(values | {"accuracy": right, "chosen": np.array(tops) + 1.0}))
    return pd.concat(out, ignore_index=True)


def _grid(protocol: str, method: str, options: MLMKLOptions) -> tuple[float, ...]:
    if protocol == "tuned":
        return options.Cs
    return options.etas if parts(method)[0] in STEPPED else (math.nan,)


def tables(rows: Rows, options: MLMKLOptions) -> dict[str, pd.DataFrame]:
    """All tables of the experiment."""
    frame = frame_of(rows)
    results = _results(frame, options)
    return {
        "results": results,
        "ranks": _ranks(results),
        "contrasts": _contrasts(results),
        "steps": _steps(frame, options),
        "weights": _weights(frame),
    }


def _results(frame: pd.DataFrame, options: MLMKLOptions) -> pd.DataFrame:
    """One row for each selection, data set and method; means and standard deviations (ddof 1) over halves."""
    keys = ["selection", "dataset", "method"]
    found = picked(frame, options)
    cost = frame.groupby(["protocol", "dataset", "method"])["cpu"].mean()
    sizes = frame.groupby("dataset", sort=False)["n_train"].last()
    order = {"selection": SELECTIONS, "dataset": tuple(sizes.index), "method": tuple(NAMES)}
    found = found.sort_values(keys, key=lambda column: column.map(order[column.name].index), kind="stable")
    out = []
    for (selection, name, method), part in found.groupby(keys, sort=False):
        source = "tuned" if method == "rbf" else selection.partition(",")[0]
        printed = PRINTED[VERSIONS.get(name, name)].get(method, (np.nan, np.nan))
        out.append(
            {
                "dataset": name,
                "selection": selection,
                "method": method,
                "accuracy": round(float(part["accuracy"].mean()), 3),
                "std": round(float(part["accuracy"].std()), 3),
                "chosen": "" if part["chosen"].isna().any() else " ".join(f"{v:g}" for v in part["chosen"]),
                "seconds": round(float(cost.get((source, name, method), np.nan)), 3),
                "printed": printed[0],
                "printed_std": printed[1],
                "n_train": sizes[name],
                "splits": len(part),
            }
        )
    return pd.DataFrame(out)


def _wide(results: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Accuracies on the paper's twelve sets, data sets by methods, of every selection and of the paper."""
    own = results[results["dataset"].isin(list(TRAINING))]
    out = {"printed": pd.DataFrame(PRINTED).T.map(lambda pair: pair[0])}
    for selection, part in own.groupby("selection", sort=False):
        out[str(selection)] = part.pivot_table(
            index="dataset", columns="method", values="accuracy", sort=False
        )
    return out


def _ranks(results: pd.DataFrame) -> pd.DataFrame:
    """Average ranks on the paper's twelve sets, in the groups of columns that it compares, and of all columns."""
    out = []
    for source, wide in _wide(results).items():
        for group, columns in {**COLUMNS, "all": tuple(NAMES)}.items():
            methods = [m for m in columns if m in wide]
            table = wide[methods].dropna()
            if len(methods) < 3 or len(table) < 2 or (source, group) == ("printed", "all"):
                continue
            found = rank(table.to_numpy())
            printed = (
                dict(zip(columns, PRINTED_RANKS.get(group, ()), strict=False)) if source == "printed" else {}
            )
            part = pd.DataFrame({"source": source, "columns": group, "method": methods, "rank": found.ranks})
            out.append(
                part.assign(
                    rank_min=average_ranks(table.to_numpy(), "min"),
                    printed=[printed.get(method, np.nan) for method in methods],
                    accuracy=table.mean().to_numpy(),
                    sets=found.n_sets,
                    statistic=found.statistic,
                    p=found.p,
                    critical=found.critical,
                )
            )
    header = [
        "source", "columns", "method", "rank", "rank_min", "printed", "accuracy", "sets", "statistic", "p", "critical",
    ]  # fmt: skip
    return pd.concat(out, ignore_index=True) if out else pd.DataFrame(columns=header)


def _contrasts(results: pd.DataFrame) -> pd.DataFrame:
    """Paired differences over the paper's twelve sets; Wilcoxon's p-values are not corrected for their number."""
    out = []
    for source, wide in _wide(results).items():
        for left, right in PAIRS:
            if left not in wide or right not in wide:
                continue
            d = (wide[left] - wide[right]).dropna().to_numpy()
            out.append(
                {
                    "source": source,
                    "left": left,
                    "right": right,
                    "difference": float(d.mean()) if len(d) else np.nan,
                    "largest": float(d.max()) if len(d) else np.nan,
                    "smallest": float(d.min()) if len(d) else np.nan,
                    "better": int((d > 0).sum()),
                    "worse": int((d < 0).sum()),
                    "p": signed_rank(d),
                }
            )
    columns = ["source", "left", "right", "difference", "largest", "smallest", "better", "worse", "p"]
    return pd.DataFrame(out, columns=columns)


def _steps(frame: pd.DataFrame, options: MLMKLOptions) -> pd.DataFrame:
    """Results of each fixed step on the paper's twelve sets: accuracy, and whether the criterion fell."""
    out = []
    frame = frame.reindex(columns=["dataset", "method", "test", "change", "steps", "chosen"]).dropna()
    for method, part in frame[frame["dataset"].isin(list(TRAINING))].groupby("method", sort=False):
        changes, tested, steps = (
            np.array(list(part[key]), dtype=np.float64) for key in ("change", "test", "steps")
        )
        for k, eta in enumerate(options.etas):
            change = changes[:, k]
            done = ~np.isnan(change)
            # a set counts if all of its halves have a result
            right = (
                pd.Series(tested[:, k]).groupby(part["dataset"].to_numpy()).agg(lambda v: v.to_numpy().mean())
            )
            out.append(
                {
                    "method": method,
                    "eta": eta,
                    "accuracy": right.mean(),
                    "fell": float(np.mean(change[done] < 0)) if done.any() else np.nan,
                    "rose": float(np.mean(change[done] > 0)) if done.any() else np.nan,
                    "steps": steps[:, k].mean(),
                    "chosen": float((part["chosen"] == k).mean()),
                    "failed": int((~done).sum()),
                }
            )
    columns = ["method", "eta", "accuracy", "fell", "rose", "steps", "chosen", "failed"]
    return pd.DataFrame(out, columns=columns)


def _weights(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean share of each kernel in its layer, over the paper's twelve sets and all halves, for the chosen settings."""
    kernels = ["linear", "rbf", "polynomial 2", "polynomial 3"]
    out = []
    frame = frame.reindex(columns=["protocol", "dataset", "method", "weights"]).dropna()
    family = frame["method"].map(lambda method: parts(method)[0])
    kept = frame["dataset"].isin(list(TRAINING)) & family.isin(["dmkl", "mlmkl", "l2mkl", "sm1mkl", "2lmkl"])
    for (protocol, method), part in frame[kept].groupby(["protocol", "method"], sort=False):
        w = np.array(list(part["weights"]))
        size = w.sum(axis=2, keepdims=True)
        # 2LMKL may drop all kernels, which leaves a constant
        shares = np.divide(w, size, out=np.full_like(w, np.nan), where=size > 0)
        for layer, block in enumerate(np.moveaxis(shares, 1, 0)):
            row = {"protocol": protocol, "method": method, "layer": layer + 1}
            out.append(row | pd.DataFrame(block, columns=kernels).mean().to_dict())
    return pd.DataFrame(out, columns=["protocol", "method", "layer", *kernels])


# ---- pictures -------------------------------------------------------------------------------------

#: Pictures of ranks: name -> (source, columns, title).
PICTURES = {
    "cd_printed": ("printed", "paper", "As printed: ten columns, twelve sets"),
    "cd_literal": ("literal", "paper", "Literal protocol, step by held-out rows"),
    "cd_literal_optimistic": ("literal, optimistic", "paper", "Literal protocol, step by test accuracy (optimistic)"),
    "cd_tuned": ("tuned", "all", "All parameters tuned on training rows"),
}  # fmt: skip


def figures(tables: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, Figure]]:
    """Critical differences of printed and measured results, and accuracy against the fixed step."""
    ranks = tables["ranks"]
    for name, (source, group, title) in PICTURES.items():
        part = ranks[(ranks["source"] == source) & (ranks["columns"] == group)]
        if len(part):
            labelled = {NAMES[m]: float(v) for m, v in zip(part["method"], part["rank"], strict=True)}
            yield name, critical_difference_figure(labelled, float(part["critical"].iloc[0]), title)
    if len(tables["steps"]):
        yield "steps", _steps_figure(tables["steps"])


#: Mean number of steps below which a fit has hardly changed.
FEW = 5.0


def _steps_figure(steps: pd.DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    styles = {"dmkl": ("C1", "-"), "2lmkl": ("C2", "-"), "mlmkl": ("C0", "-"), "mlmkl-literal": ("C3", "--")}
    ax = figure.subplots()
    for method, part in steps.groupby("method", sort=False):
        family, n_layers = parts(str(method))
        colour, dashes = styles[family]
        marker = "os^"[n_layers - 1]
        label = LABELS[str(method)]
        ax.plot(part["eta"], part["accuracy"], dashes, marker=marker, ms=4, color=colour, label=label, lw=1)
        # stopped by the rule of three small changes, so the weights are those of the start
        short = part[part["steps"] < FEW]
        ax.plot(short["eta"], short["accuracy"], ls="", marker=marker, ms=4, color=colour, mfc="white")
    ax.set_xscale("log")
    ax.set_xlabel("fixed step size")
    ax.set_ylabel("mean test accuracy in %")
    ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
