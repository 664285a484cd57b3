"""Tables and figures of the pages on experiments, made from the results in docs/results.

    python docs/_ext/experiment_page.py RUN_FOLDER ...

takes over the tables of finished runs (``kernelweave reproduce NAME --out RUN_FOLDER``); the next build of the
documentation shows them. Nothing on the pages is typed in by hand except what the
papers printed, which the tables mark.
"""

import json
import re
import shutil
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

import kernelweave_papers as experiments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parent.parent
RESULTS = DOCS / "results"
MADE = DOCS / "generated" / "experiments"

Tables = dict[str, pd.DataFrame]


def collect(run: Path) -> None:
    """Copy the published tables of a run."""
    name = json.loads((run / "run.json").read_text())["experiment"]
    target = RESULTS / name
    target.mkdir(parents=True, exist_ok=True)
    for table in experiments.get(name).published:
        shutil.copy(run / "tables" / f"{table}.csv", target / f"{table}.csv")
    shutil.copy(run / "run.json", target / "run.json")
    print(f"{name}: {sum(path.stat().st_size for path in target.iterdir()) / 1024:.0f} KiB in {target}")


def markdown(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    header = list(header)
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def printed(text: str) -> str:
    """Mark what a paper printed."""
    return f"[{text}]{{.printed}}" if text.strip(" –") else text


def spread(mean: float, std: float, digits: int) -> str:
    return f"{mean:.{digits}f} ({std:.{digits}f})"


# ---- RLS2 on UCI data -----------------------------------------------------------------------------

PROTOCOLS = {
    "rls2 (paper)": "RLS2, alpha by test score",
    "rls2": "RLS2, alpha by inner CV",
    "rls2-alternating (paper)": "Algorithm 1, alpha by test score",
    "average": "average kernel",
    "rbf": "tuned RBF",
    "forest": "random forest",
    "boosting": "boosting",
}


def uci(tables: Tables) -> dict[str, str]:
    from kernelweave_papers.printed import ONE, RLS2_TABLE3

    results = tables["results"]
    out = {}
    present = [p for p in PROTOCOLS if (results["protocol"] == p).any()]
    for ratio, part in results.groupby("ratio"):
        rows = []
        for name, group in part.groupby("dataset", sort=False):
            by = group.set_index("protocol")
            rmse = by["metric"].iloc[0] == "rmse"
            digits = 3 if rmse and by["mean"].min() < 10 else 1
            honest = [p for p in present if "(paper)" not in p and p in by.index]
            best = (
                (by.loc[honest, "mean"].idxmin() if rmse else by.loc[honest, "mean"].idxmax())
                if honest
                else ""
            )
            cells = []
            for p in present:
                text = spread(by.loc[p, "mean"], by.loc[p, "std"], digits) if p in by.index else ""
                cells.append(f"**{text}**" if p == best else text)
            # of heart the text has one number, and does not say of which ratio
            theirs = RLS2_TABLE3[name][ONE].cell if name == "heart" else "–"
            rows.append([name, "RMSE" if rmse else "acc. %", printed(theirs), *cells])
        out[f"scores-{round(100 * ratio)}"] = markdown(
            ["data set", "", printed("printed"), *(PROTOCOLS[p] for p in present)], rows
        )
    cost = []
    for (name, ratio), group in results.groupby(["dataset", "ratio"], sort=False):
        by = group.set_index("protocol")
        paper, own = by.loc["rls2 (paper)"], by.loc["rls2"]
        other = by.loc["rls2-alternating (paper)"] if "rls2-alternating (paper)" in by.index else None
        cost.append(
            [
                name,
                f"{ratio:g}",
                int(own["n_train"]),
                int(own["n_kernels"]),
                spread(paper["kernels"], paper["kernels_std"], 1),
                spread(own["kernels"], own["kernels_std"], 1),
                spread(own["iterations"], own["iterations_std"], 1),
                spread(own["seconds"], own["seconds_std"], 3),
                f"{own['gap']:.1e}",
                f"{int(own['certified'])} of {30 * int(own['splits'])}",
                "" if other is None else spread(other["iterations"], other["iterations_std"], 1),
                "" if other is None else spread(other["seconds"], other["seconds_std"], 3),
                "" if other is None else f"{other['gap']:.1e}",
            ]
        )
    out["cost"] = markdown(
        ["data set", "ratio", "rows", "kernels", "selected, by test score", "selected, by inner CV",
         "factorisations per path", "seconds per path", "largest gap", "certified",
         "rounds of Algorithm 1", "its seconds", "its largest gap"],
        cost,
    )  # fmt: skip
    top = tables["kernels"]
    rows = [
        [
            name,
            "; ".join(
                f"{r.kernel} {r.weight:.2f} ({100 * r.selected:.0f} %)" for r in group.head(4).itertuples()
            ),
        ]
        for name, group in top[top["ratio"] == 0.7].groupby("dataset", sort=False)
    ]
    out["kernels"] = markdown(
        ["data set", "largest average weights at 70/30 (selected in so many splits)"], rows
    )
    return out


# ---- the others -----------------------------------------------------------------------------------

SIZES = (5, 8, 10, 12, 15, 20, 30, 50, 100, 150)


def strings(tables: Tables) -> dict[str, str]:
    curves = tables["learning_curves"]
    out = {}
    for which in ("author", "draws"):
        if f"rmse_{which}" not in curves:
            continue
        rows = []
        for method, part in curves.groupby("method", sort=False):
            by = part.set_index("n")
            cells = [f"{by.loc[n, f'rmse_{which}']:.4f}" for n in SIZES]
            if which == "draws":
                cells = [
                    f"{by.loc[n, 'rmse_draws']:.3f} [{by.loc[n, 'rmse_low']:.3f}, {by.loc[n, 'rmse_high']:.3f}]"
                    for n in SIZES
                ]
            rows.append([method, *cells])
        out[which] = markdown(["method", *(f"n = {n}" for n in SIZES)], rows)
    weights = tables["weights"].set_index("n")
    which = "author" if "d1_author" in weights else "draws"
    rows = [
        [
            n,
            *(f"{weights.loc[n, f'{key}_{which}']:.3f}" for key in ("d1", "d2", "d3", "others")),
            f"{weights.loc[n, f'selected_{which}']:.0f}",
        ]
        for n in SIZES
    ]
    out["weights"] = markdown(["n", "bit 1", "bit 2", "bit 3", "all others", "selected"], rows)
    return out


def number(value: float) -> str:
    """Three decimals, and no minus before a zero."""
    return f"{value:.3f}".replace("-0.000", "0.000")


def prostate(tables: Tables) -> dict[str, str]:
    table, own = tables["table1"], tables["chosen"]
    names = [c for c in table.columns if c != "row" and not c.endswith("printed")]
    rows = [
        [r["row"], *(f"{number(r[n])} / {printed(number(r[n + ' printed']))}" for n in names)]
        for _, r in table.iterrows()
    ]
    chosen = [[r["row"], *(number(r[n]) for n in names)] for _, r in own.iterrows()]
    return {
        "table1": markdown([f"ours / {printed('printed')}", *names], rows),
        "chosen": markdown(["", *names], chosen),
    }


def microarray(tables: Tables) -> dict[str, str]:
    from kernelweave_papers.rls2_microarray import PRINTED_14CANCER

    rows = [
        [
            r.dataset, r.method, f"{r.errors:.2f}" + (f" ({r.errors_std:.2f})" if r.splits > 1 else ""),
            f"{r.errors_simplest:.2f}", f"{r.n_test:.0f}", f"{r.genes:.0f} of {r.n_genes:.0f}", int(r.splits),
            f"{100 * r.converged:.0f} %", f"{r.seconds:.1f}",
        ]
        for r in tables["results"].itertuples()
    ]  # fmt: skip
    header = [
        "data set",
        "method",
        "test errors",
        "simplest model",
        "of",
        "genes",
        "splits",
        "converged",
        "seconds",
    ]
    return {
        "results": markdown(header, rows),
        "printed": markdown(
            ["method", "test errors of 54", "genes"],
            [[name, *(printed(str(cell)) for cell in row)] for name, row in PRINTED_14CANCER.items()],
        ),
    }


def nci60(tables: Tables) -> dict[str, str]:
    from kernelweave_papers.rls2_nci60 import BEST, CHANGES

    labels = {name: change.label for name, change in CHANGES.items()} | {BEST: "linear SVC"}
    rows = [
        [
            labels[r.method], spread(r.errors, r.errors_std, 1), "" if r.method == "rls2" else f"{r.fewer} / {r.more}",
            "" if pd.isna(r.errors_least) else f"{r.errors_least:.1f}", f"{r.genes:.0f}", f"{r.seconds:.0f}",
        ]
        for r in tables["results"].itertuples()
    ]  # fmt: skip
    header = [
        "change",
        "test errors of 18",
        "fewer / more than in the paper",
        "least along the path",
        "genes",
        "seconds",
    ]
    return {"results": markdown(header, rows)}


def rkl(tables: Tables) -> dict[str, str]:
    from kernelweave_papers.rkl import ALSO_PRINTED, LABELS, PRINTED, SETS

    results, tests = tables["results"], tables["tests"].set_index(["protocol", "sets", "method"])
    names = list(dict.fromkeys(results["dataset"]))
    by = results.set_index(["dataset", "protocol", "method"])
    out = {}
    for protocol in ("literal", "fair"):
        rows = []
        columns = [m for m in LABELS if m == "rbf" or (protocol, m) in {(p, q) for _, p, q in by.index}]
        for name in names:
            found = {}
            for method in columns:
                where = protocol if method != "rbf" else results["protocol"].iloc[0]
                if (name, where, method) in by.index:
                    found[method] = by.loc[(name, where, method)]
            best = max(row["accuracy"] for row in found.values())
            cells = []
            for method in columns:
                row = found.get(method)
                if row is None:
                    cells.append("")
                    continue
                text = spread(row["accuracy"], row["std"], 1)
                text += "" if pd.isna(row["kernels"]) else f" / {row['kernels']:.1f}"
                cells.append(f"**{text}**" if row["accuracy"] >= best - 1e-9 else text)
            rows.append([name, *cells])
        for sets in SETS:
            means = [f"{tests.loc[(protocol, sets, m), 'mean']:.2f}" for m in columns]
            rows.append([f"mean, {_rkl_sets(sets)}", *means])
        out[protocol] = markdown(["data set", *(LABELS[m] for m in columns)], rows)
    theirs = [
        [name, *(printed(f"{a:g} ({s:g}) / {k:g}") for a, s, k in row.values())]
        for name, row in PRINTED.items()
    ]
    labels = {**LABELS, "rkl": "RKL L1", **ALSO_PRINTED}
    out["printed"] = markdown(["data set", *(labels[m] for m in next(iter(PRINTED.values())))], theirs)
    norms = []
    for name in names:
        ours = by.loc[(name, "literal", "rkl")]
        own = f"{spread(ours['accuracy'], ours['std'], 1)} / {ours['kernels']:.1f}"
        three = [PRINTED[name][m] for m in ("rkl", *ALSO_PRINTED)] if name in PRINTED else []
        norms.append([name, own, *(printed(f"{a:g} ({s:g}) / {k:g}") for a, s, k in three)])
    out["norms"] = markdown(
        ["data set", "ours, any norm", *(printed(label) for label in ("RKL L1", *ALSO_PRINTED.values()))],
        norms,
    )
    return out | _rkl_tests(tests) | _rkl_readings(by, names)


def _rkl_sets(sets: str) -> str:
    return sets if sets.startswith("without") else f"with {sets}"


def _rkl_tests(tests: pd.DataFrame) -> dict[str, str]:
    """RKL against the other columns, over data sets."""
    from kernelweave_papers.rkl import LABELS, SETS

    rows = []
    for protocol in ("literal", "fair"):
        for method in LABELS:
            if method == "rkl" or (protocol, SETS[0], method) not in tests.index:
                continue
            cells = []
            for sets in SETS:
                r = tests.loc[(protocol, sets, method)]
                cells.append(f"{r['difference']:+.2f} ({int(r['better'])}:{int(r['worse'])}, p {r['p']:.2g})")
            rows.append([protocol, LABELS[method], *cells])
    header = ["protocol", "RKL minus", *(_rkl_sets(sets) for sets in SETS)]
    return {"tests": markdown(header, rows)}


def _rkl_readings(by: pd.DataFrame, names: list[str]) -> dict[str, str]:
    """Columns that can be read in two ways, beside what was printed: literal protocol."""
    from kernelweave_papers.rkl import PRINTED, READINGS, VERSIONS

    pairs = {first: second for second, first in READINGS.items()}
    rows, off = [], {m: [] for m in (*pairs, *READINGS)}
    for name in names:
        line = PRINTED[VERSIONS.get(name, name)]
        cells = []
        for first, second in pairs.items():
            value = line[first][0]
            cells.append(printed(f"{value:g}"))
            for method in (first, second):
                own = by.loc[(name, "literal", method), "accuracy"]
                cells.append(f"{own:.1f}")
                if name != "colon":
                    off[method].append(abs(own - value))
        rows.append([name, *cells])
    last = [
        text
        for first, second in pairs.items()
        for text in ("", *(f"{sum(off[m]) / len(off[m]):.1f}" for m in (first, second)))
    ]
    rows.append(["mean distance from printed, without colon", *last])
    header = [
        "literal",
        *(printed("Unif printed"), "theta = 1/20", "theta = 1"),
        *(printed("KL-C L1 printed"), "radius of K + I/C", "radius of K"),
        *(printed("KL-C L2 printed"), "radius of K + I/C", "radius of K"),
    ]
    return {"readings": markdown(header, rows)}


def rkl_scales(tables: Tables) -> dict[str, str]:
    from kernelweave_papers.rkl_scales import METHODS, NAMES

    by = tables["results"].set_index(["dataset", "method"])
    names = list(dict.fromkeys(tables["results"]["dataset"]))
    rows = []
    for name in names:
        cells = []
        for method in METHODS:
            r = by.loc[(name, method)]
            cells.append(f"{r['as_is']:.1f}: {r['worst']:.1f} to {r['best']:.1f} ({r['flipped']:.1f})")
        rows.append([name, *cells])
    means = [by.xs(m, level="method")[["as_is", "worst", "best", "flipped"]].mean() for m in METHODS]
    rows.append(["mean", *(f"{r.as_is:.1f}: {r.worst:.1f} to {r.best:.1f} ({r.flipped:.1f})" for r in means)])
    change = [by.xs(m, level="method")["change"].max() for m in METHODS]
    rows.append(["largest change of a decision value", *(f"{value:.2g}" for value in change)])
    return {"ranges": markdown(["data set", *(NAMES[m] for m in METHODS)], rows)}


def rkl_klc(tables: Tables) -> dict[str, str]:
    from kernelweave_papers.rkl_klc import COLUMNS, DECISIONS, ELSEWHERE, NEAREST_STEPS, SEARCHED, STEPS

    search, results = tables["search"], tables["results"]
    pairs = [(name, norm) for name in SEARCHED for norm in COLUMNS]
    theirs = results.groupby(["dataset", "norm"], sort=False)[
        ["printed", "printed_std", "printed_kernels"]
    ].first()

    def told(r: pd.Series) -> list[str]:
        return [f"{r[f'accuracy {name} L{norm}']:.1f}" for name, norm in pairs]

    nearest = [[r["radius"], r["factor"], r["steps"], DECISIONS[r["decision"]], r["C"], *told(r),
                f"{r['farthest']:.2f}"] for _, r in search.head(8).iterrows()]  # fmt: skip
    first = search.loc[search.groupby("decision", sort=False)["farthest"].idxmin()]
    kinds = [
        [
            DECISIONS[r["decision"]], int((search["decision"] == r["decision"]).sum()),
            int(((search["decision"] == r["decision"]) & (search["farthest"] <= 1)).sum()), *told(r),
            f"{r['farthest']:.2f}",
        ]
        for _, r in first.iterrows()
    ]  # fmt: skip
    four = [printed(f"{p.printed:g} ({p.printed_std:g})") for p in (theirs.loc[pair] for pair in pairs)]
    names = [f"{name} L{norm}" for name, norm in pairs]
    columns = [(name, steps) for name in reversed(ELSEWHERE) for steps in (NEAREST_STEPS, STEPS[-1])]
    by = results.set_index(["dataset", "norm", "decision", "steps"])
    rows, near = [], dict.fromkeys(columns, 0)
    for name, norm in theirs.index:
        p, cells = theirs.loc[(name, norm)], []
        for column in columns:
            r = by.loc[(name, norm, *column)]
            near[column] += abs(r["distance"]) <= 1
            cells.append(f"{r['accuracy']:.1f} ({r['distance']:+.1f}) / {r['kernels']:.1f}")
        shown = printed(f"{p['printed']:g} ({p['printed_std']:g}) / {p['printed_kernels']:g}")
        rows.append([f"{name} L{norm}", shown, *cells])
    rows.append([f"within one printed deviation, of {len(theirs)}", "", *map(str, near.values())])
    heads = [
        f"{DECISIONS[name]}, {'converged' if steps == STEPS[-1] else f'{steps} steps'}"
        for name, steps in columns
    ]
    return {
        "nearest": markdown(["radius", "C", "steps", "decision values", "chosen C", *names, "largest distance"],
                            [[printed("printed"), "", "", "", "", *four, ""], *nearest]),
        "kinds": markdown(["decision values", "readings", "of them within 1", *names, "nearest"], kinds),
        "results": markdown(["", printed("printed"), *heads], rows),
    }  # fmt: skip


def relax(tables: Tables) -> dict[str, str]:
    from kernelweave_papers.rls2_relax import LABELS

    results, tests = tables["results"], tables["tests"]
    shown = ["one", "two", "one, squares", "two, squares", "alternating", "one, test", "two, test"]
    rows = []
    for _, r in results.iterrows():
        digits = 3 if r["metric"] == "rmse" and r["one"] < 10 else 1
        cells = []
        for key in shown:
            if pd.isna(r[key]):
                cells.append("")
            elif f"{key} std" in r:
                cells.append(spread(r[key], r[f"{key} std"], digits))
            else:
                cells.append(f"{r[key]:.{digits}f}")
        rows.append([r["dataset"], "RMSE" if r["metric"] == "rmse" else "acc. %", int(r["splits"]), *cells])
    header = ["data set", "", "splits", *(LABELS[key] for key in shown)]
    chosen = [
        [
            r["dataset"], f"{int(r['better'])}:{int(r['worse'])}", f"{r['alpha']:.1g}", f"{r['relax']:.1g}",
            f"{int(r['weaker'])} of {int(r['splits'])}", f"{r['kernels one']:.1f}", f"{r['kernels two']:.1f}",
            f"{r['gap']:.1e}", f"{r['seconds']:.1f}",
        ]
        for _, r in results.iterrows()
    ]  # fmt: skip
    frozen = [
        [
            r["dataset"], f"{r['nearest']:.2g}", f"{100 * r['distance']:.0f} %", f"{r['alternating end']:.3f}",
            f"{r['nearest end']:.3f}", f"{r['one end']:.3f}",
        ]
        for _, r in results.iterrows()
        if not pd.isna(r["nearest"])
    ]  # fmt: skip
    compared = [
        [
            f"{LABELS[r['left']]} / {LABELS[r['right']]}", r["sets"], int(r["n"]), f"{r['change']:+.1f}",
            f"{r['median']:+.1f}", f"{int(r['better'])}:{int(r['worse'])}", f"{r['p']:.2g}",
        ]
        for _, r in tests.iterrows()
    ]  # fmt: skip
    return {
        "scores": markdown(header, rows),
        "chosen": markdown(
            ["data set", "splits better:worse with two", "alpha of the weights (median)", "of the ridge",
             "ridge weaker in", "kernels, one", "kernels, two", "largest gap", "seconds a split"],
            chosen,
        ),
        "frozen": markdown(
            ["data set", "nearest exact weights are of alpha", "distance left", "score of Algorithm 1 at 1e-6",
             "of these weights, ridge at 1e-6", "of exact weights and ridge at 1e-6"],
            frozen,
        ),
        "tests": markdown(
            ["", "sets", "n", "mean change of the error in %", "median", "better:worse", "p"], compared
        ),
    }  # fmt: skip


SOURCES = {
    "printed": "printed",
    "literal": "literal, step by held-out rows",
    "literal, optimistic": "literal, step by test accuracy",
    "tuned": "tuned",
    "tuned, optimistic": "tuned, layers by test accuracy",
}
HEADS = [printed(label) if source == "printed" else label for source, label in SOURCES.items()]


def second_layer(tables: Tables) -> dict[str, str]:
    from kernelweave_papers.rls2_second_layer import BANKS, LABELS

    results, tests = tables["results"], tables["tests"]
    over = tables["means"].set_index(["bank", "method"])
    by, out = results.set_index(["bank", "method", "dataset"]).sort_index(), {}
    for bank in BANKS:
        methods = [m for m in LABELS if (bank, m) in by.index]
        names = list(dict.fromkeys(results["dataset"]))
        cells = [[by.loc[(bank, m, name)] for m in methods] for name in names]
        rows = [
            [name, *(spread(r["error"], r["std"], 1) for r in own)]
            for name, own in zip(names, cells, strict=True)
        ]
        means = results[results["bank"] == bank].groupby("method")[["machines", "cpu"]].mean()
        rows.append(["mean", *(spread(*over.loc[(bank, m), ["error", "std"]], 1) for m in methods)])
        for head, column, digits in (("machines", "machines", 0), ("seconds of a processor", "cpu", 1)):
            told = [means.loc[m, column] for m in methods]
            rows.append([head, *("" if pd.isna(value) else f"{value:.{digits}f}" for value in told)])
        out[bank] = markdown(["data set", *(LABELS[m] for m in methods)], rows)
    compared = [
        [
            {"mlmkl": "four on all columns", "columns": "one on each column"}[r["bank"]],
            f"{LABELS[r['left']]} - {LABELS[r['right']]}", int(r["n"]), f"{r['difference']:+.2f} ({r['std']:.2f})",
            f"{int(r['better'])}:{int(r['worse'])}", f"{r['p']:.2g}", f"{r['adjusted']:.2g}",
        ]
        for _, r in tests.iterrows()
    ]  # fmt: skip
    header = ["kernels", "difference of", "sets", "mean, points", "better:worse", "p", "p, corrected"]
    return out | {"tests": markdown(header, compared)}


def mlmkl(tables: Tables) -> dict[str, str]:
    from kernelweave_papers.mlmkl_grid import PAPER, TRAINING
    from kernelweave_papers.mlmkl_tables import NAMES, PRINTED, SELECTIONS

    results = tables["results"].set_index(["selection", "dataset", "method"])
    main = [name for name in TRAINING if name in set(tables["results"]["dataset"])]
    others = [name for name in dict.fromkeys(tables["results"]["dataset"]) if name not in TRAINING]
    out = {}
    own = [m for m in NAMES if m not in PAPER]
    for selection in SELECTIONS:
        here = set(results.loc[selection].index.get_level_values("method"))
        for part, columns in (("", list(PAPER)), ("-added", own)):
            columns = [m for m in columns if m in here]
            rows = []
            for name in [*main, *others]:
                found = [
                    results.loc[selection, name, m] if (selection, name, m) in results.index else None
                    for m in columns
                ]
                top = max(row["accuracy"] for row in found if row is not None)
                cells = [
                    "" if row is None else bold(spread(row["accuracy"], row["std"], 1), row["accuracy"], top)
                    for row in found
                ]
                rows.append([name, *cells])
            rows.append(["mean of twelve", *(f"{mean_of(results, selection, main, m):.2f}" for m in columns)])
            key = selection.replace(", ", "-") + part
            out[key] = markdown(["data set", *(NAMES[m] for m in columns)], rows)
    out["printed"] = markdown(
        ["data set", *(NAMES[m] for m in PAPER)],
        [
            *(
                [name, *(printed(f"{a:.1f} ({s:.1f})") for a, s in row.values())]
                for name, row in PRINTED.items()
            ),
            [
                "mean of twelve",
                *(printed(f"{sum(r[m][0] for r in PRINTED.values()) / len(PRINTED):.2f}") for m in PAPER),
            ],
        ],
    )
    out["means"] = _mlmkl_means(results, main)
    out["beside"] = _mlmkl_beside(results, main)
    out |= _mlmkl_ranks(tables["ranks"]) | _mlmkl_contrasts(tables["contrasts"])
    out |= _mlmkl_steps(tables["steps"]) | _mlmkl_copies(results)
    weights = tables["weights"]
    kinds = ["linear", "rbf", "polynomial 2", "polynomial 3"]
    out["weights"] = markdown(
        ["protocol", "method", "layer", *kinds],
        [
            [r["protocol"], NAMES[r["method"]], r["layer"], *(f"{r[k]:.2f}" for k in kinds)]
            for _, r in weights.iterrows()
        ],
    )
    return out


def bold(text: str, value: float, best: float) -> str:
    return f"**{text}**" if value >= best - 1e-9 else text


def mean_of(results: pd.DataFrame, selection: str, names: list[str], method: str) -> float:
    return float(results.loc[[(selection, name, method) for name in names], "accuracy"].mean())


def _mlmkl_means(results: pd.DataFrame, main: list[str]) -> str:
    """Mean accuracy over the paper's sets under every way of choosing."""
    from kernelweave_papers.mlmkl_tables import NAMES, PRINTED, SELECTIONS

    rows = []
    for method, label in NAMES.items():
        values = [PRINTED[name][method][0] for name in main if method in PRINTED[name]]
        cells = [printed(f"{sum(values) / len(values):.2f}") if values else ""]
        for selection in SELECTIONS:
            there = all((selection, name, method) in results.index for name in main)
            cells.append(f"{mean_of(results, selection, main, method):.2f}" if there else "")
        rows.append([label, *cells])
    return markdown(["mean accuracy of twelve sets", *HEADS], rows)


def _mlmkl_beside(results: pd.DataFrame, main: list[str]) -> str:
    """Ours beside the paper's, for the columns of its Table 2 and the single kernel."""
    from kernelweave_papers.mlmkl_tables import NAMES

    columns = ["sksvm", "l2mkl", "sm1mkl", "2lmkl", "dmkl-3", "mlmkl-1", "mlmkl-3"]
    rows = []
    for name in main:
        cells = []
        for method in columns:
            values = [
                results.loc[s, name, method]["accuracy"] for s in ("literal", "literal, optimistic", "tuned")
            ]
            theirs = results.loc["literal", name, method]["printed"]
            cells.append(f"{printed(f'{theirs:.1f}')} / " + " / ".join(f"{v:.1f}" for v in values))
        rows.append([name, *cells])
    return markdown(
        [f"{printed('printed')} / literal / optimistic / tuned", *(NAMES[m] for m in columns)], rows
    )


def _mlmkl_ranks(ranks: pd.DataFrame) -> dict[str, str]:
    from kernelweave_papers.mlmkl_tables import COLUMNS, NAMES

    parts = {key: part.set_index("method") for key, part in ranks.groupby(["source", "columns"], sort=False)}
    out = {}
    for group, columns in COLUMNS.items():
        rows = []
        for source, label in SOURCES.items():
            if source == "tuned, optimistic":
                # only columns that the paper does not have differ from "tuned"
                continue
            part = parts[source, group]
            first = part.iloc[0]
            cells = [
                label, *(f"{part.loc[m, 'rank']:.2f}" for m in columns), f"{first['critical']:.2f}",
                f"{first['statistic']:.1f}", f"{first['p']:.1g}",
            ]  # fmt: skip
            rows.append([printed(cell) for cell in cells] if source == "printed" else cells)
        header = ["average ranks", *(NAMES[m] for m in columns), "critical difference", "Friedman", "p"]
        out[f"ranks-{group.replace(' ', '')}"] = markdown(header, rows)
    own = [parts[source, "all"] for source in SOURCES if source != "printed"]
    rows = [
        [label, *(f"{part.loc[method, 'rank']:.2f}" if method in part.index else "" for part in own)]
        for method, label in NAMES.items()
    ]
    rows.append(["critical difference", *(f"{part['critical'].iloc[0]:.2f}" for part in own)])
    rows.append(["p (Friedman)", *(f"{part['p'].iloc[0]:.1g}" for part in own)])
    labels = [label for source, label in SOURCES.items() if source != "printed"]
    out["ranks-all"] = markdown(["average rank among all columns", *labels], rows)
    return out


def _mlmkl_contrasts(contrasts: pd.DataFrame) -> dict[str, str]:
    from kernelweave_papers.mlmkl_tables import NAMES, PAIRS

    by = contrasts.set_index(["source", "left", "right"])
    rows = []
    for left, right in PAIRS:
        cells = []
        for source in SOURCES:
            chosen = "-best" in left + right
            if (source, left, right) not in by.index or (source == "tuned, optimistic" and not chosen):
                cells.append("")
                continue
            r = by.loc[(source, left, right)]
            p = "" if pd.isna(r["p"]) else f", p {r['p']:.2g}"
            text = f"{r['difference']:+.2f} ({int(r['better'])}:{int(r['worse'])}{p})"
            cells.append(printed(text) if source == "printed" else text)
        rows.append([f"{NAMES[left]} – {NAMES[right]}", *cells])
    return {"contrasts": markdown(["mean difference (better:worse, p)", *HEADS], rows)}


def _mlmkl_steps(steps: pd.DataFrame) -> dict[str, str]:
    from kernelweave_papers.mlmkl_tables import NAMES

    etas = sorted(set(steps["eta"]), reverse=True)
    by = steps.set_index(["method", "eta"])
    methods = list(dict.fromkeys(steps["method"]))
    header = ["step", *(f"{eta:g}" for eta in etas)]
    return {
        "steps-accuracy": markdown(
            header, [[NAMES[m], *(f"{by.loc[(m, e), 'accuracy']:.1f}" for e in etas)] for m in methods]
        ),
        "steps-taken": markdown(
            header, [[NAMES[m], *(f"{by.loc[(m, e), 'steps']:.1f}" for e in etas)] for m in methods]
        ),
        "steps-fell": markdown(
            header,
            [
                [
                    NAMES[m],
                    *(
                        f"{100 * by.loc[(m, e), 'fell']:.0f} / {100 * by.loc[(m, e), 'rose']:.0f}"
                        for e in etas
                    ),
                ]
                for m in methods
                if m.startswith("mlmkl")
            ],
        ),
        "steps-chosen": markdown(
            header, [[NAMES[m], *(f"{100 * by.loc[(m, e), 'chosen']:.0f}" for e in etas)] for m in methods]
        ),
    }


def _mlmkl_copies(results: pd.DataFrame) -> dict[str, str]:
    """Versions of one data set beside each other."""
    from kernelweave_papers.mlmkl_grid import VERSIONS
    from kernelweave_papers.mlmkl_tables import NAMES, PRINTED

    columns = ["sksvm", "l2mkl", "sm1mkl", "dmkl-3", "mlmkl-3"]
    there = set(results.index.get_level_values("dataset"))
    rows = []
    for original in dict.fromkeys(VERSIONS.values()):
        theirs = [printed(f"{PRINTED[original][m][0]:.1f}") for m in columns]
        rows.append([printed(f"{original}, printed"), *theirs, ""])
        for name in [original, *(v for v, o in VERSIONS.items() if o == original)]:
            if name in there:
                own = [results.loc["literal", name, m]["accuracy"] for m in columns]
                best = results.loc["tuned", name, "rbf"]["accuracy"]
                rows.append([name, *(f"{v:.1f}" for v in own), f"{best:.1f}"])
    return {"copies": markdown(["literal protocol", *(NAMES[m] for m in columns), "tuned RBF"], rows)}


def mlmkl_posterior(tables: Tables) -> dict[str, str]:
    """Readings of equation (15): averages, and every set beside its printed cell."""
    from kernelweave_papers.mlmkl_grid import STEPPED
    from kernelweave_papers.mlmkl_posterior import LABELS

    readings, results = tables["readings"], tables["results"]
    # without a fixed step both selections are the same
    once = [label for reading, label in LABELS.items() if reading not in STEPPED]
    single = readings["criterion"].isin(once)
    readings = readings[
        (readings["layers"] == "all") & ~(single & (readings["selection"] != "held-out rows"))
    ]
    means = [
        [
            r["criterion"], "–" if r["criterion"] in once else r["selection"],
            spread(r["accuracy"], r["std"], 2), printed(f"{r['printed']:.2f}"),
            f"{r['difference']:+.2f}", f"{r['distance']:.2f}", f"{r['within']} of {r['cells']}", r["apart"],
        ]
        for _, r in readings.iterrows()
    ]  # fmt: skip
    header = [
        "criterion", "step by", "mean accuracy", printed("printed"), "mean difference",
        "mean distance in printed standard deviations", "cells within one", "cells two standard errors away",
    ]  # fmt: skip
    compared = [
        [
            f"{r['left']} – {r['right']}", r["selection"], f"{r['difference']:+.2f} ({r['std']:.2f})",
            f"{r['better']}:{r['worse']}", f"{r['p_cells']:.2g}", f"{r['p_sets']:.2g}",
            f"{r['nearer']}:{r['farther']}", f"{r['p_nearer']:.2g}",
        ]
        for _, r in tables["tests"].iterrows()
    ]  # fmt: skip
    told = [
        "difference of", "step by", "mean, points", "cells better:worse", "p, cells", "p, sets",
        "cells nearer to the printed one:farther", "p of that, sets",
    ]  # fmt: skip
    out = {"readings": markdown(header, means), "tests": markdown(told, compared)}
    for selection, part in results.groupby("selection", sort=False):
        criteria = list(dict.fromkeys(part["criterion"]))
        by = part.set_index(["dataset", "layers", "criterion"])
        rows = []
        for name in dict.fromkeys(part["dataset"]):
            for layers in sorted(set(part["layers"])):
                theirs = by.loc[(name, layers, criteria[0])]
                cells = [
                    f"{by.loc[(name, layers, c), 'accuracy']:.1f} ({by.loc[(name, layers, c), 'distance']:+.1f})"
                    for c in criteria
                ]
                value = printed(f"{theirs['printed']:.1f} ({theirs['printed_std']:.1f})")
                rows.append([name, layers, value, *cells])
        out[selection.replace(" ", "-")] = markdown(
            ["data set", "layers", printed("printed"), *criteria], rows
        )
    return out


def rkl_convergence(tables: Tables) -> dict[str, str]:
    from kernelweave_papers.rkl_convergence import LABELS

    shown = (0.01, 0.001, 0.0001)
    counts = tables["counts"].set_index(["dataset", "step"])
    steps = [step for step in LABELS if step in counts.index.get_level_values("step")]
    rows = []
    for name in counts.index.get_level_values("dataset").unique():
        cells = []
        for step in steps:
            row = counts.loc[(name, step)]
            cells += [
                "–"
                if pd.isna(row[f"machines {v:g}"])
                else f"{row[f'machines {v:g}']:.0f} / {row[f'kernels {v:g}']:.0f}"
                for v in shown
            ]
        rows.append([name, int(counts.loc[(name, steps[0]), "rows"]), *cells])
    header = ["machines / kernels", "rows", *(f"{LABELS[step]}, {v:g}" for step in steps for v in shown)]
    return {"counts": markdown(header, rows)}


def cardinality(tables: Tables) -> dict[str, str]:
    from kernelweave_papers.cardinality import METHODS, STORED

    results = tables["results"].fillna({"protocol": ""})
    by = results.set_index(["dataset", "method", "protocol"])
    names = list(dict.fromkeys(results["dataset"]))
    columns = [key for key in dict.fromkeys(zip(results["method"], results["protocol"], strict=True))]

    def cells(name: str) -> list[str]:
        found = [by.loc[(name, *column)] for column in columns]
        return [f"{r['accuracy']:.1f} ({r['kernels']:.1f})" for r in found]

    header = [METHODS[method] + (f", {protocol}" if protocol else "") for method, protocol in columns]
    rows = [[name, *cells(name), printed(f"{STORED[name][0]:.1f} ({STORED[name][1]})")] for name in names]
    grouped = results.groupby(["method", "protocol"], sort=False)[["accuracy", "kernels"]].mean()
    rows.append(["mean", *(f"{r.accuracy:.1f} ({r.kernels:.1f})" for r in grouped.itertuples()), ""])
    proofs = [
        [
            r["dataset"], r["protocol"], f"{r['gap']:.0e}", int(r["nodes"]),
            f"{int(r['unproven'])} of {int(r['splits'])}", f"{r['seconds']:.2f}",
        ]
        for _, r in results[results["method"] == "cardinality"].iterrows()
    ]  # fmt: skip
    told = ["data set", "kernels", "largest gap", "most nodes", "unproven", "seconds of a fit"]
    return {
        "accuracy": markdown(["data set", *header, printed("stored by the authors")], rows),
        "proofs": markdown(told, proofs),
    }


MAKERS: dict[str, Callable[[Tables], dict[str, str]]] = {
    "rls2-uci": uci,
    "rls2-strings": strings,
    "rls2-prostate": prostate,
    "rls2-microarray": microarray,
    "rls2-nci60": nci60,
    "rls2-relax": relax,
    "rls2-second-layer": second_layer,
    "rkl": rkl,
    "rkl-convergence": rkl_convergence,
    "rkl-scales": rkl_scales,
    "rkl-klc": rkl_klc,
    "mlmkl": mlmkl,
    "mlmkl-posterior": mlmkl_posterior,
    "cardinality": cardinality,
}


def save_small(figure: "Figure", path: Path) -> None:
    """Save a figure as SVG, its lines to a hundredth of a point: half the size, and no difference to the eye."""
    figure.savefig(path)
    path.write_text(shortened(path.read_text()))


def shortened(svg: str) -> str:
    """The same picture with two decimals in its paths, 256 colours in its images, and no indentation or empty groups.

    Factors of scale keep all of their decimals: glyphs are drawn with them.
    """
    svg = re.sub(r"\n\s*", "\n", re.sub(r"<!--.*?-->", "", svg, flags=re.S))
    for _ in range(3):  # a mark on an axis stands in a group of groups
        svg = re.sub(r'<g(?: id="\w+")?>\n(<use [^>]*/>)\n</g>', r"\1", svg)
    svg = re.sub(r'\bd="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    return re.sub(r"(?<=data:image/png;base64,)[^\"']+", lambda image: fewer_colours(image[0]), svg)


def fewer_colours(image: str) -> str:
    """A PNG in base64 with a palette, where that is smaller."""
    from PIL import Image

    small = BytesIO()
    Image.open(BytesIO(b64decode(image))).quantize(256).save(small, "png", optimize=True)
    return min(image, b64encode(small.getvalue()).decode(), key=len)


def build(_app: object = None) -> None:
    """Write snippets and pictures for the pages to include."""
    shutil.rmtree(MADE, ignore_errors=True)
    MADE.mkdir(parents=True)
    for name, make in MAKERS.items():
        experiment = experiments.get(name)
        tables = {table: pd.read_csv(RESULTS / name / f"{table}.csv") for table in experiment.published}
        for part, text in make(tables).items():
            (MADE / f"{name}-{part}.inc").write_text(text)
        for part, figure in experiment.figures(tables):
            save_small(figure, MADE / f"{name}-{part}.svg")
        run = json.loads((RESULTS / name / "run.json").read_text())
        told = ", ".join(
            f"{key} {run[key]}" for key in ("kernelweave", "numpy", "scipy", "scikit-learn", "python")
        )
        settings = "; ".join(
            f"{key}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
            for key, value in run["settings"].items()
        )
        took = f" It took {run['minutes']:g} minutes of one processor." if run.get("minutes") else ""
        (MADE / f"{name}-run.inc").write_text(
            f"Settings: {settings}. Computed with {told}; {run['cores']} cores.{took}\n"
        )


def setup(app):
    app.connect("builder-inited", build)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        collect(Path(folder))
