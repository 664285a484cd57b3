"""Tables of the scoreboard, made from the results in docs/results for ``papers/index``."""

import math
import shutil
from collections.abc import Iterator

import pandas as pd
from experiment_page import DOCS, RESULTS, markdown, printed

from kernelweave_papers import mlmkl_grid, rkl, rls2_prostate, scoreboard
from kernelweave_papers.printed import DASH
from kernelweave_papers.scoreboard import DIFFERS, EQUAL, MISSING, MLMKL, RKL, RLS2, WITHIN

MADE = DOCS / "generated" / "papers"
SIGNS = {EQUAL: "=", WITHIN: "≈", DIFFERS: "**≠**", MISSING: "·"}
#: Columns under other names than in the paper.
LABELS = {
    **{
        f"{RLS2} {key}": one.label
        for key, one in rls2_prostate.columns(rls2_prostate.ProstateOptions()).items()
    },
    **{f"{RKL} {key}": label for key, label in {**rkl.LABELS, "rkl": "RKL L1", **rkl.ALSO_PRINTED}.items()},
    **{f"{MLMKL} {key}": label for key, label in mlmkl_grid.LABELS.items()},
}
#: Tables with a row in the summary for each column, as their columns are methods; others have one row.
BY_COLUMN = {(RKL, "Table 1, accuracy"), (MLMKL, "Tables 2 and 3")}


def label(paper: str, column: str) -> str:
    return LABELS.get(f"{paper} {column}", column)


def ours(one: pd.Series) -> str:
    """Our number with the decimals of the printed one, or a decimal more where that is whole and ours is not."""
    value, std = one["ours"], one["ours_std"]
    digits = len(one["printed"].partition(".")[2])
    if not digits and not float(value).is_integer():
        digits = 1 if abs(value) >= 10 else 2
    text = f"{value:.{digits}f}"
    # half a unit away: what rounds down here was rounded up there
    if one["verdict"] == EQUAL and one["printed"] not in (text, DASH) and "." in one["printed"]:
        text = f"{value:.{digits + 1}f}"
    return text + ("" if math.isnan(std) else f" ({std:.{digits}f})")


def cell(one: pd.Series) -> str:
    """Printed, ours, the sign of the verdict, and the distance in printed standard deviations."""
    theirs = printed(one["as_printed"]) if one["as_printed"] else "[not in our text]{.printed}"
    if math.isnan(one["ours"]):
        return f"{theirs} {SIGNS[one['verdict']]}"
    away = "" if math.isnan(one["deviations"]) else f" {one['deviations']:+.2f}".replace("-", "−")
    return f"{theirs} {ours(one)} {SIGNS[one['verdict']]}{away}"


def share(part: pd.DataFrame) -> str:
    found = scoreboard.counts(part)
    return f"{found[EQUAL] + found[WITHIN]} of {found['compared']}" if found["compared"] else "–"


def groups(board: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Paper, name and cells of each row of the summary."""
    for (paper, table), part in board.groupby(["paper", "table"], sort=False):
        if (paper, table) in BY_COLUMN:
            for column, own in part.groupby("column", sort=False):
                yield paper, f"{table}: {label(paper, column)}", own
        else:
            yield paper, table, part


def other_readings(part: pd.DataFrame) -> str:
    """Shares under readings of whole columns that do not count."""
    first = part.loc[part["first"], "reading"].str.split(", ").explode()
    others = part["reading"].str.split(", ").explode().value_counts()
    cells = int(part["first"].sum())
    names = [name for name, count in others.items() if count >= cells and name not in set(first) and name]
    texts = []
    for name in names:
        own = scoreboard.under(part, name)
        texts.append(f"{name}: {share(own[own['first']])}")
    return "; ".join(texts)


def summaries(board: pd.DataFrame) -> str:
    rows = []
    for paper, name, part in groups(board):
        own = part[part["first"]]
        found = scoreboard.counts(own)
        rows.append(
            [
                paper,
                name,
                found["cells"],
                *(found[v] or "" for v in scoreboard.VERDICTS),
                share(own),
                other_readings(part),
            ]
        )
    for paper, (good, scores, equal, others) in scoreboard.headline(board).items():
        found = scoreboard.counts(board[board["first"] & (board["paper"] == paper)])
        shares = f"{good} of {scores} scores, {equal} of {others} other numbers"
        rows.append(
            [f"**{paper}**", "all", found["cells"], *(found[v] for v in scoreboard.VERDICTS), shares, ""]
        )
    head = [
        "paper",
        "cells of",
        "cells",
        *scoreboard.VERDICTS,
        "equal or within one",
        "under another reading",
    ]
    return markdown(head, rows)


def full(part: pd.DataFrame) -> str:
    """A table of a paper in its own layout, with the command of each row."""
    paper = part["paper"].iloc[0]
    columns = list(dict.fromkeys(part["column"]))
    rows = []
    for row, own in part.groupby("row", sort=False):
        by = own.set_index("column")
        cells = [cell(by.loc[c]) if c in by.index else "" for c in columns]
        rows.append([row, *cells, f"`{own['command'].iloc[0]}`"])
    return markdown(["", *(label(paper, c) for c in columns), "command"], rows)


def reasons(board: pd.DataFrame) -> str:
    """What is known to differ, with the cells."""
    rows = []
    for (paper, table, reason), part in board.groupby(["paper", "table", "reason"], sort=False):
        by = part.groupby("column", sort=False)["row"]
        names = [f"{label(paper, column)}: {', '.join(own)}" for column, own in by]
        rows.append([paper, table, len(part), "; ".join(names), reason])
    return markdown(["paper", "table", "cells", "which", "what is known to differ"], rows)


def heart(board: pd.DataFrame) -> str:
    """The one number of Table 3 beside both ratios."""
    own = board[(board["table"] == "Table 3") & (board["row"] == "heart") & (board["printed"] != "")]
    rows = []
    for r in own.itertuples():
        ratio, _, how = r.reading.partition(", ")
        rows.append(
            [ratio, how or "exact solutions", printed(r.as_printed),
             f"{r.ours:.2f} ({r.ours_std:.2f})", f"{r.deviations:+.2f}", r.verdict]
        )  # fmt: skip
    return markdown(
        ["ratio", "RLS2 by", printed("printed"), "ours", "printed standard deviations", "verdict"], rows
    )


def freedom() -> str:
    """Degrees of freedom of the prostate path at some alphas."""
    path = pd.read_csv(RESULTS / "rls2-prostate" / "profile.csv")
    rows = [
        [f"{r.alpha:.2g}", f"{r.df:.2f}", f"{r.df_total:.2f}", int(r.active)]
        for r in path.iloc[[30, 33, 36, 38, 42, 48, 60, 99]].itertuples()
    ]
    return markdown(["alpha", "(15)", "divergence", "active coefficients"], rows)


def build(_app: object = None) -> None:
    """Write the snippets."""
    shutil.rmtree(MADE, ignore_errors=True)
    MADE.mkdir(parents=True)
    board = scoreboard.scoreboard(RESULTS)
    first = board[board["first"]]
    parts = {"summary": summaries(board), "reasons": reasons(first[first["verdict"] == DIFFERS])}
    for (paper, table), part in first.groupby(["paper", "table"], sort=False):
        parts[f"{paper} {table}".lower().replace(",", "").replace(" ", "-")] = full(part)
    parts |= {"heart": heart(board), "freedom": freedom()}
    for name, text in parts.items():
        (MADE / f"{name}.inc").write_text(text)


def setup(app):
    app.connect("builder-inited", build)
    return {"parallel_read_safe": True}
