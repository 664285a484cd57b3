"""Numbers on the front page, in README, in paper.md and in tables of rates, computed again: ``make claims``.

A claim is a sentence on a page, found by a pattern whose groups are its numbers, and a function that returns these
numbers. Cheap ones are computed from the library ("computed"); what takes long, or other programs, is read from the
results that are kept with the project ("stored", with the command that makes them). A number that differs by more than
its tolerance, a sentence that is not on its page, and a number in the parts of `COMPLETE` that no claim covers are
failures.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
NUMBER = re.compile(r"(?<![\w.,/-])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w])")


@dataclass(frozen=True)
class Claim:
    """Numbers on pages, and where they come from.

    `relative` and `absolute` bound the difference between a printed number and the one computed; half a unit of the
    last printed digit is always allowed. With `bound` the printed number is one that must not be exceeded.
    """

    pages: tuple[str, ...]
    pattern: str
    values: Callable[[], tuple[float, ...]]
    source: str = "computed"
    relative: float = 0.0
    absolute: float = 0.0
    bound: bool = False


def stored(name: str) -> Any:
    """The kept results of a benchmark."""
    return json.loads((RESULTS / f"{name}.json").read_text())


# ---- computed ----------------------------------------------------------------------------------------------


@cache
def readme() -> tuple[float, ...]:
    """Accuracy and weights of the example in README."""
    import kernelweave as kw

    [code] = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    scope: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, "README.md", "exec"), scope)
    model = scope["model"]
    accuracy = model.score(scope["X"][1::2], scope["y"][1::2])
    return (accuracy, *kw.inspection.view_weights(model).values())


@cache
def six_lines() -> tuple[float, ...]:
    """Accuracy and weights of the example on the front page."""
    import kernelweave as kw

    lines = re.findall(r"^>>> (.*)$", (ROOT / "docs" / "index.md").read_text(), re.M)
    scope: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec("\n".join(lines), scope)
    model, X, y = (scope[name] for name in ("model", "X", "y"))
    shares = kw.inspection.view_weights(model)
    # what is printed is cut off, not rounded
    cut = [math.floor(100 * shares[view]) / 100 for view in ("worst", "mean", "error")]
    return (model.score(X[1::2], y[1::2]), *cut)


@cache
def picture() -> tuple[float, ...]:
    """The weight of random numbers in the picture of the front page."""
    import runpy

    import kernelweave as kw

    model, _ = runpy.run_path(str(ROOT / "docs" / "pictures" / "front.py"))["fitted"]()
    return (kw.inspection.view_weights(model)["random numbers"],)


@cache
def as_svc() -> tuple[float, ...]:
    """Largest difference of decision values from scikit-learn's support vector machine."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.svm import SVC

    import kernelweave as kw

    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    theirs = SVC(C=1.0, gamma=0.05, tol=1e-8).fit(X[::2], y[::2])
    learner = kw.learners.Uniform(C=1.0, tol=1e-8)
    ours = kw.MKLClassifier([kw.kernels.RBF(gamma=0.05)], learner, normalize=None).fit(X[::2], y[::2])
    return (float(np.abs(theirs.decision_function(X[1::2]) - ours.decision_function(X[1::2])).max()),)


# ---- stored ------------------------------------------------------------------------------------------------


def simple() -> dict[str, tuple[float, ...]]:
    """Sizes, seconds and ratios of SimpleMKL."""
    cases = [r for r in stored("margin")["records"] if "published_algorithm_1e-2" in r]
    assert len(cases) == 3
    ours = [r["seconds"] for r in cases]
    theirs = [r["published_algorithm_1e-2"]["seconds"] for r in cases]
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    assert max(r["rel_gap"] for r in cases) <= 1e-3
    assert max(r["published_algorithm_1e-2"]["rel_gap"] for r in cases) <= 1e-2
    rows, kernels = [r["n"] for r in cases], [r["n_kernels"] for r in cases]
    return {
        "sizes": (min(rows), max(rows), min(kernels), max(kernels)),
        "seconds": (min(ours), max(ours), 0.1),
        "published": (min(theirs), max(theirs), 1.0, min(ratios), max(ratios)),
    }


def group_lasso_ratios() -> tuple[list[float], list[list[int]]]:
    """Seconds of adelie in units of ours at gaps of RLS2, and sizes of the cases."""
    records, ratios, sizes = stored("features")["records"], [], []
    for case in dict.fromkeys(r["case"] for r in records):
        own = next(r for r in records if r["case"] == case and r["solver"] == "ours" and r["tol"] == 1e-4)
        runs = [r for r in records if r["case"] == case and r["solver"] == "adelie"]
        enough = [r["cpu_seconds"] for r in runs if r["largest_gap"] <= 1e-4]
        most_exact = min(runs, key=lambda r: r["largest_gap"])["cpu_seconds"]
        ratios.append((min(enough) if enough else most_exact) / own["cpu_seconds"])
        sizes.append([int(part) for part in case.split("x")])
    return ratios, sizes


def geometric_mean(values: list[float]) -> float:
    """Of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def group_lasso() -> tuple[float, ...]:
    """Alphas, gap, geometric mean of the ratios, cases, most groups, most rows."""
    ratios, sizes = group_lasso_ratios()
    rows, groups, _ = zip(*sizes, strict=True)
    return 30, 1e-4, geometric_mean(ratios), len(ratios), max(groups), max(rows)


def group_lasso_elsewhere() -> tuple[float, ...]:
    """Geometric means of the ratios of the others with numbers, of all, and of those with labels, with their ends."""
    cases = stored("group_lasso")["cases"]
    assert (
        max(one[name]["largest_gap"] for one in cases.values() for name in ("kernelweave", "adelie")) <= 1e-4
    )
    numbers = [one["ratio"] for name, one in cases.items() if name.startswith("squared")]
    labels = [one["ratio"] for name, one in cases.items() if name.startswith("logistic")]
    assert (len(numbers), len(labels)) == (8, 6)
    every = [*group_lasso_ratios()[0], *numbers]
    return (
        geometric_mean(numbers),
        len(every),
        geometric_mean(every),
        geometric_mean(labels),
        min(labels),
        max(labels),
    )


def missing_views() -> tuple[float, ...]:
    """Share removed, accuracy with completed kernels and of the forest."""
    found = stored("missing")["mfeat"]["0.6"]
    return 60, found["complete"], found["forest"]


def columns() -> tuple[float, ...]:
    """Linear kernels, alphas, seconds, and the largest gap."""
    found = next(r for r in stored("linear")["records"] if r["case"] == "linear-16063")
    assert found["worst_gap"] <= 1e-6
    return 16063, 50, found["seconds"]["median"], 1e-6


def data_sets() -> tuple[float, ...]:
    """How many data sets have scores of all six methods in the comparison of plain fits."""
    text = (ROOT / "docs" / "design_notes" / "defaults.md").read_text()
    return (len(re.findall(r"^\| [\w-]+(?: \*)? \| \d+ (?:\| [\d.]+ ){6}\|$", text, re.M)),)


def scales() -> tuple[float, ...]:
    """Largest share of rows that change their class when kernels are scaled, of RKL and of the others."""
    import csv

    with (ROOT / "docs" / "results" / "rkl-scales" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    own = max(float(r["change"]) for r in rows if r["method"] == "rkl")
    assert own <= 1e-7
    assert all(float(r["flipped"]) == 0.0 for r in rows if r["method"] == "rkl")
    others = max(float(r["flipped"]) for r in rows if r["method"] != "rkl")
    return len({r["dataset"] for r in rows}), 1e-7, others


def selection(n: int, columns: int, planted: int) -> tuple[float, ...]:
    """q, the bound, false sources by learner, and right ones, or those with a weight in 80 % of the halves."""
    found = [one[f"{n} rows, {columns} columns, {planted} predict"] for one in stored("selection").values()]
    last = "right" if planted else "a weight in 80 % of the halves, false"
    return found[0]["largest"], found[0]["bound"], *(one[key] for key in ("false", last) for one in found)


def answers(part: str, n: int) -> tuple[float, ...]:
    """Percentages of yes and no by gain, or by column."""
    found = stored("verdicts")[part][str(n)]
    cells = found["columns"] if part == "uses" else found.values() if part == "better" else found
    return tuple(100.0 * cell[answer] for cell in cells for answer in ("yes", "no"))


def tables(part: str, key: str, *names: str) -> tuple[float, ...]:
    """Rates over tables in percent, with their standard errors, and other numbers as they are."""
    found = stored("verdicts")[part][key]
    values = {name: found[name] if isinstance(found[name], list) else [found[name]] for name in names}
    return tuple(
        value * (1.0 if name in ("tables", "gain") else 100.0) for name in names for value in values[name]
    )


def wrong_verdicts(part: str) -> tuple[float, ...]:
    """Most wrong answers in percent: yes where there is no gain, no where there is one of 0.02 or more."""
    found = stored("verdicts")[part]
    if part == "better":
        cells = [
            (float(gain), cell["yes"], cell["no"]) for one in found.values() for gain, cell in one.items()
        ]
    else:
        gains = (0.0 if name.endswith("noise") else one["gain"][0] for name, one in found.items())
        cells = [(gain, one["yes"][0], one["no"][0]) for gain, one in zip(gains, found.values(), strict=True)]
    yes, no = [y for gain, y, _ in cells if gain == 0], [n for gain, _, n in cells if gain >= 0.02]
    return 100.0 * max(yes), 100.0 * max(no)


def intervals(k: int) -> tuple[float, ...]:
    """Percentages: mean, least and largest coverage of ours, then of each rival mean coverage, and width by ours."""
    tables = stored("uncertainty")["numbers"].values()
    found = [[100 * one[way]["coverage"][k] for one in tables] for way in ("ours", *MAPIE)]
    widths = [[math.log(one[way]["times ours"][k]) for one in tables] for way in MAPIE]
    rivals = ((fmean(held), math.exp(fmean(width))) for held, width in zip(found[1:], widths, strict=True))
    return fmean(found[0]), min(found[0]), max(found[0]), *(value for pair in rivals for value in pair)


def sets(k: int) -> tuple[float, ...]:
    """Mean, least and largest percentage of covered rows of a class, and classes in a set, of ours and of MAPIE."""
    tables, values = stored("uncertainty")["sets"].values(), []
    for way in ("ours", "MAPIE"):
        held = [100 * share for one in tables for share in one[way]["coverage"][k]]
        values += [fmean(held), min(held), max(held), fmean(one[way]["size"][k] for one in tables)]
    return tuple(values)


def interval_seconds() -> tuple[float, ...]:
    """Least and most seconds of a fit, milliseconds of its intervals, and the largest percentage of these."""
    seconds = [one["ours"]["seconds"] for one in stored("uncertainty")["numbers"].values()]
    fits, asked = ([one[what] for one in seconds] for what in ("fit", "intervals"))
    most = max(b / a for a, b in zip(fits, asked, strict=True))
    return min(fits), max(fits), 1000 * min(asked), 1000 * max(asked), 100 * most


def rival_seconds() -> tuple[float, ...]:
    """Sums of seconds of MAPIE, with intervals, by sums of those of our fits."""
    tables = stored("uncertainty")["numbers"].values()
    ours = sum(one["ours"]["seconds"]["fit"] for one in tables)
    return tuple(sum(sum(one[way]["seconds"].values()) for one in tables) / ours for way in MAPIE)


def reported(score: str) -> tuple[float, ...]:
    """Points below and above the score of test rows, with standard errors, out of fold and at the choice."""
    found = stored("scores")["reported"][score]
    (low, error), (high, further) = found["out of fold"], found["score that chose"]
    return tuple(100 * value for value in (-low, error, high, further))


def ten_columns(n: int) -> tuple[float, ...]:
    """Percentages of intervals out of fold that hold."""
    found = stored("scores")["ten columns"]
    held = found["numbers"][str(n)] | found["classes"][str(n)]
    return tuple(
        100 * held[one]
        for one in ("R^2", "RMSE", "MAE", "accuracy", "balanced accuracy", "ROC AUC", "log loss")
    )


@cache
def board() -> Any:
    """Printed numbers of the papers beside the stored results of their experiments."""
    from kernelweave_papers.scoreboard import scoreboard

    return scoreboard(ROOT / "docs" / "results")


def shares(paper: str) -> tuple[float, ...]:
    """Scores within one printed standard deviation, scores compared, other numbers that are equal, and compared."""
    from kernelweave_papers.scoreboard import headline

    return headline(board())[paper]


def absent() -> tuple[float, ...]:
    """Numbers that cannot be compared: all, those that our text lacks, and those whose data cannot be passed on."""
    from kernelweave_papers.scoreboard import LOST_REASON

    missing = board().query("first and verdict == 'not to be had'")
    lost = int((missing["reason"] == LOST_REASON).sum())
    return len(missing), lost, len(missing) - lost


def other_reading(paper: str, reading: str, columns: str = ".*") -> tuple[float, ...]:
    """Scores within one printed standard deviation, and compared, under another reading of a paper."""
    from kernelweave_papers.scoreboard import headline, under

    return headline(under(board(), reading).query("column.str.fullmatch(@columns)"))[paper][:2]


def of_table(paper: str, table: str, columns: str = ".*") -> tuple[float, ...]:
    """Numbers of a table that are equal or within one printed standard deviation, and those compared."""
    from kernelweave_papers.scoreboard import counts

    cells = board().query("first and paper == @paper and table == @table and column.str.fullmatch(@columns)")
    found = counts(cells)
    return found["equal"] + found["within one"], found["compared"]


def heart() -> tuple[float, ...]:
    """The most printed standard deviations of any reading of the one number of Table 3."""
    cells = board().query("table == 'Table 3' and verdict == 'within one'")
    assert len(cells) == 4
    return (float(cells["deviations"].abs().max()),)


def freedom() -> tuple[float, ...]:
    """The largest difference of divergence and (15) on the prostate path, both there, and alpha."""
    import pandas as pd

    path = pd.read_csv(ROOT / "docs" / "results" / "rls2-prostate" / "profile.csv")
    more = path["df_total"] - path["df"]
    assert (more[path["active"] == 1].abs() < 1e-6).all()
    assert (more[path["active"] > 1] > 0).all()
    assert (path["df_total"] <= path["active"]).all()
    most = path.loc[more.idxmax()]
    return float(more.max()), most["df_total"], most["df"], most["alpha"]


MAPIE = ("MAPIE, same model", "MAPIE, kernel ridge")
FRONT, README, PAPER = "docs/index.md", "README.md", "paper.md"
EVIDENCE = NUMBERS = "docs/design_notes/evidence.md"
UNCERTAINTY = "docs/design_notes/uncertainty.md"
PAPERS = "docs/papers/index.md"
N = r"([\d.,e-]*\d)"
RATE = f"{N} ± {N}"
OF_UNCERTAINTY = "uncertainty.json: python -m benchmarks.uncertainty"
OF_PAPERS = "docs/results: kernelweave reproduce, kernelweave scoreboard docs/results"
CLAIMS = [
    Claim((README,), rf"accuracy {N}, relative gap", lambda: readme()[:1], absolute=0.01),
    Claim((README,), rf"\{{'worst': {N}, 'mean': {N}, 'error': {N}\}}", lambda: readme()[1:], absolute=0.01),
    Claim(
        (FRONT,),
        rf"accuracy {N} \{{'worst': {N}\.\.\., 'mean': {N}\.\.\., 'error': {N}",
        six_lines,
        absolute=0.01,
    ),
    Claim((FRONT,), rf"random numbers {N};", picture, absolute=0.01),
    Claim((FRONT, README), rf"random numbers have a weight of {N}\b", picture, absolute=0.01),
    Claim(
        (FRONT, PAPER),
        rf"three data sets \({N} to {N} rows, {N} to {N} kernels\)",
        lambda: simple()["sizes"],
        "margin.json: python -m benchmarks.run margin",
    ),
    Claim(
        (FRONT, PAPER),
        rf"{N} to {N} s to a relative gap of {N} %",
        lambda: simple()["seconds"],
        "margin.json: python -m benchmarks.run margin",
    ),
    Claim(
        (FRONT, PAPER),
        rf"{N} to {N} s to reach a gap of {N} %: {N} to {N} times as long",
        lambda: simple()["published"],
        "margin.json: python -m benchmarks.run margin",
        relative=0.02,
    ),
    Claim(
        (FRONT, PAPER),
        rf"{N} regularisation parameters to a relative gap of {N}: {N} times as fast as adelie, as a geometric mean "
        rf"of (four|five|six) cases with up to {N} groups or {N} rows",
        group_lasso,
        "features.json: python -m benchmarks.features",
        relative=0.02,
    ),
    Claim(
        (FRONT, PAPER),
        rf"Eight others, judged by the gap of the group lasso, gave {N}, and all {N} together {N}\. With the logistic "
        rf"loss six cases gave {N}, from {N} to {N}",
        group_lasso_elsewhere,
        "group_lasso.json: python -m benchmarks.group_lasso",
        relative=0.03,
    ),
    Claim(
        (FRONT, PAPER),
        rf"missing for {N} % of the rows: {N} % correct with predicted kernels, {N} % with a random forest",
        missing_views,
        "missing.json: python -m benchmarks.missing",
    ),
    Claim(
        (FRONT, PAPER),
        rf"comparison on {N} data sets",
        data_sets,
        "docs/design_notes/defaults.md: python -m benchmarks.defaults",
    ),
    Claim(
        (PAPER,),
        rf"{N} linear kernels and {N} regularisation parameters take {N} s to a relative gap of {N}",
        columns,
        "linear.json: python -m benchmarks.run linear",
        relative=0.02,
    ),
    Claim((PAPER,), rf"equal those of its support vector machine to {N}", as_svc, bound=True),
    Claim(
        (PAPER,),
        rf"{N} data sets its decision values change by less than {N}, while other methods change the class of up to "
        rf"{N} %",
        scales,
        "docs/results/rkl-scales: kernelweave reproduce rkl-scales",
        absolute=0.5,
    ),
    *(
        Claim(
            (EVIDENCE,),
            rf"\| {n} × {columns}, {planted} \| {N} \| {N} \| {N} / {N} / {N} \| {N} / {N} / {N} \|",
            partial(selection, n, columns, planted),
            "selection.json: python -m benchmarks.selection",
        )
        for n in (80, 150)
        for columns, planted in ((10, 0), (30, 0), (100, 0), (30, 3), (60, 3))
    ),
    *(
        Claim((NUMBERS,), rf"\| {pattern} \|", values, "verdicts.json: python -m benchmarks.verdicts")
        for pattern, values in (
            *(
                (" \\| ".join([f"{label}{n:,}{after}", *[f"{N} / {N}"] * k]), partial(answers, part, n))
                for part, label, after, k, sizes in (
                    ("better", "", "", 4, (20, 50, 200, 1000, 5000)),
                    ("uses", r"uses \| ", " held out", 5, (30, 100, 300, 1000)),
                    ("needs", r"needs \| ", " in ten divisions", 5, (60, 200)),
                )
                for n in sizes
            ),
            *(
                (
                    rf"{n:,} \| {learner} \| {N} \| {RATE} \| {RATE}",
                    partial(tables, "noise", f"{n}, {kind}", "tables", "a source", "better"),
                )
                for n, kind, learner in (
                    (10, "numbers", "RLS2"),
                    (100, "numbers", "RLS2"),
                    (1000, "numbers", "RLS2"),
                    (20, "classes", "SimpleMKL"),
                )
            ),
            *(
                (
                    rf"{k} of 100 \| {N} \| {RATE} \| {RATE} \| {RATE}",
                    partial(tables, "planted", str(k), "tables", "power", "a wrong source", "better"),
                )
                for k in (1, 3, 5)
            ),
            *(
                (
                    rf"{n:,} \| {kind} \| {RATE} \| {RATE} \| {RATE} \| {RATE}",
                    partial(tables, "more rows", f"{n}, {kind}", "gain", "interval holds it", "yes", "no"),
                )
                for n, kind in (
                    *((n, "numbers") for n in (60, 100, 300, 1000)),
                    *((n, "classes") for n in (40, 100, 300, 1000)),
                )
            ),
            *(
                (
                    rf"{n:,} \| classes, nothing predicts \| 0 \| {RATE} \| {RATE} \| {RATE}",
                    partial(tables, "more rows", f"{n}, classes, noise", "interval holds it", "yes", "no"),
                )
                for n in (100, 300)
            ),
        )
    ),
    *(
        Claim(
            (NUMBERS,),
            rf"{sentence} is at most {N} %, a wrong \*no\* \(a gain of 0\.02 or more\) at most {N} %\.",
            partial(wrong_verdicts, part),
            "verdicts.json: python -m benchmarks.verdicts",
        )
        for part, sentence in (
            ("better", r"A wrong \*yes\* \(no gain\)"),
            ("more rows", r"A wrong \*yes\* to more rows \(nothing predicts\)"),
        )
    ),
    *(
        Claim(
            (EVIDENCE,),
            rf"\| {head} \| {count} \| −{N} ± {N} \| \+{N} ± {N} \|",
            partial(reported, score),
            "scores.json: python -m benchmarks.scores reported",
        )
        for head, score, count in (
            (r"\$R\^2\$", "R^2", 15),
            ("accuracy", "accuracy", 15),
            ("both", "both", 30),
        )
    ),
    *(
        Claim(
            (EVIDENCE,),
            rf"\| {n} \|" + rf" {N} % \|" * 7,
            partial(ten_columns, n),
            "scores.json: python -m benchmarks.scores 'ten columns'",
        )
        for n in (30, 60, 100, 300)
    ),
    *(
        Claim((UNCERTAINTY,), rf"\| {level} % \|{cells}", partial(function, k), OF_UNCERTAINTY)
        for k, level in enumerate((50, 80, 90, 95))
        for function, cells in (
            (intervals, rf" {N} % \| {N} to {N} % \| {N} % \| {N} \| {N} % \| {N} \|"),
            (sets, rf" {N} % \| {N} to {N} % \| {N} \| {N} % \| {N} to {N} % \| {N} \|"),
        )
    ),
    Claim(
        (UNCERTAINTY,),
        rf"fits took {N} to {N} s, their intervals of all four coverages {N} to {N} ms, at most {N} % of the fit",
        interval_seconds,
        OF_UNCERTAINTY,
    ),
    Claim((UNCERTAINTY,), rf"takes {N} and {N} times the seconds", rival_seconds, OF_UNCERTAINTY),
    *(
        Claim((PAPERS,), pattern, values, OF_PAPERS)
        for pattern, values in (
            (
                rf"\*\*RLS2:\*\* {N} of {N} scores are within one printed standard deviation, and {N} of {N} other",
                partial(shares, "RLS2"),
            ),
            (
                rf"{N} numbers cannot be compared: {N} are missing in our text of the paper, {N} are of data",
                absent,
            ),
            (rf"\*\*RKL:\*\* {N} of {N} scores are within", lambda: shares("RKL")[:2]),
            (
                rf"Without the two columns of KL-C it is {N} of {N}\.",
                partial(other_reading, "RKL", "", "(?!klc).*"),
            ),
            (rf"Of the numbers of kernels, {N} of {N} are equal", lambda: shares("RKL")[2:]),
            (
                rf"by a search against four of its numbers and so does not count, it is {N} of {N}\.",
                partial(other_reading, "RKL", "without the intercept (rkl-klc)"),
            ),
            (
                rf"\*\*MLMKL:\*\* {N} of {N} scores are within one printed standard deviation, and {N} of {N} other",
                partial(shares, "MLMKL"),
            ),
            (
                rf"the other {N} include all {N} average ranks",
                lambda: (shares("MLMKL")[3] - shares("MLMKL")[2], 11),
            ),
            (
                rf"steps chosen by test accuracy, {N} of the {N} scores of MLMKL",
                partial(other_reading, "MLMKL", "step by test accuracy"),
            ),
            (
                rf"raw intensities of colon, {N} of the {N} of RKL",
                partial(other_reading, "RKL", "raw intensities"),
            ),
            (rf"Both of ours are within {N} printed standard deviations", heart),
            (rf"by up to {N} \({N} instead of {N} at alpha = {N}\)", freedom),
        )
    ),
    *(
        Claim((f"docs/papers/{page}.md",), pattern, values, OF_PAPERS)
        for page, pattern, values in (
            ("rls2", rf"{N} of {N} numbers are equal", partial(of_table, "RLS2", "Table 2")),
            ("mlmkl", rf"{N} of {N} numbers are equal", partial(of_table, "MLMKL", "Table 1")),
            (
                "rkl",
                rf"LpMKL\(p=2\)` \| \| {N} of {N} accuracies are within",
                partial(of_table, "RKL", "Table 1, accuracy", "mkl-l[12]"),
            ),
            (
                "rkl",
                rf"columns RKL \| `kw\.learners\.RKL` \| \| {N} of {N} accuracies are within",
                partial(of_table, "RKL", "Table 1, accuracy", "rkl.*"),
            ),
            (
                "mlmkl",
                rf"{N} of {N} accuracies are within one printed standard deviation of ours",
                lambda: shares("MLMKL")[:2],
            ),
        )
    ),
]
#: Parts of pages, from a heading to the next one, whose numbers are all claims.
COMPLETE = {FRONT: ("## Measured",), PAPER: ("# Measurements",)}
#: Numbers that are no results: a value of a parameter, C = 100.
SETTINGS = {FRONT: {"100"}, PAPER: {"100"}}
WORDS = {"four": 4.0, "five": 5.0, "six": 6.0}


def value_of(text: str) -> float:
    return WORDS.get(text) or float(text.replace(",", ""))


def unit(text: str) -> float:
    """Half a unit of the last digit of a printed number."""
    if text in WORDS:
        return 0.0
    digits, _, power = text.replace(",", "").partition("e")
    return 0.5 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def flat(text: str) -> str:
    """A text without line breaks and links, so that sentences may be broken and linked anywhere."""
    return re.sub(r"\s+", " ", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text))


def page(name: str) -> str:
    return flat((ROOT / name).read_text())


def part(name: str, heading: str) -> str:
    """A page from a heading to the next one of its level."""
    text = "\n" + (ROOT / name).read_text()
    rest = text[text.index(f"\n{heading}\n") + len(heading) + 2 :]
    return flat(re.split(rf"^{heading.partition(' ')[0]} |^```", rest, maxsplit=1, flags=re.M)[0])


def failures(claim: Claim) -> Iterator[str]:
    """What is wrong with a claim on its pages."""
    values = claim.values()
    for name in claim.pages:
        found = list(re.finditer(claim.pattern, page(name)))
        if not found:
            yield f"{name}: no sentence like {claim.pattern!r}"
        for match in found:
            if len(match.groups()) != len(values):
                yield f"{name}: {len(match.groups())} numbers in {match[0]!r}, {len(values)} computed"
                continue
            for text, value in zip(match.groups(), values, strict=True):
                told = value_of(text)
                if claim.bound:
                    wrong = value > told
                else:
                    allowed = max(1.001 * unit(text), claim.absolute, claim.relative * abs(value))
                    wrong = abs(told - value) > allowed
                if wrong:
                    yield f"{name}: {text} in {match[0]!r}, but it is {value:.4g}"


def uncovered() -> Iterator[str]:
    """Numbers in the complete parts that no claim has."""
    for name, headings in COMPLETE.items():
        for heading in headings:
            text = part(name, heading)
            found = [m for c in CLAIMS if name in c.pages for m in re.finditer(c.pattern, text)]
            spans = [m.span(k) for m in found for k in range(1, len(m.groups()) + 1)]
            for number in NUMBER.finditer(text):
                inside = any(a <= number.start() and number.end() <= b for a, b in spans)
                if not inside and number[0] not in SETTINGS[name]:
                    place = text[max(0, number.start() - 40) : number.end() + 20]
                    yield f"{name}: {number[0]} in {place!r} is no claim"


def main() -> int:
    count = 0
    for claim in CLAIMS:
        start = time.perf_counter()
        wrong = list(failures(claim))
        count += len(wrong)
        how = claim.source if claim.source == "computed" else f"stored in {claim.source}"
        print(
            f"{'no ' if wrong else 'yes'}  {time.perf_counter() - start:5.1f} s  {', '.join(claim.pages)}: {how}"
        )
        print("".join(f"       {text}\n" for text in wrong), end="")
    missing = list(uncovered())
    print(*missing, sep="\n", end="\n" if missing else "")
    print(f"{len(CLAIMS)} claims, {count + len(missing)} failures.")
    return 1 if count or missing else 0


if __name__ == "__main__":
    sys.exit(main())
