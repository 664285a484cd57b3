"""Cards of the page of tables: missing cells, outliers, views beside each other, and views from files of their own."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.studio.looks import FAR, MOST_OUTLIERS
from kernelweave_app.studio.pages import charts
from kernelweave_app.studio.pages.shell import (
    bar,
    big_table,
    card,
    note,
    number,
    plural,
    simple_table,
    stack,
    tag,
    text,
)
from kernelweave_app.studio.schema import Alignments, Further, Gap, Joining, Missing, Outliers

#: What may be done about missing cells, views and rows, by setting.
MISSING = {
    "missing": {
        "error": "refuse to run",
        "drop": "leave out those rows",
        "impute": "fill with means",
        "impute-median": "fill with medians, and mark",
        "impute-nearest": "fill from the nearest rows",
        "skip": "compare rows in shared columns",
    },
    "missing_views": {
        "complete": "predict kernels from other views",
        "renormalize": "give the weight to other views",
        "error": "as missing cells",
    },
    "rows": {"shared": "those that every table has", "all": "all, also without some views"},
}
#: What each value of `missing` does, in a sentence.
DOES = {
    "error": "As chosen, a run is refused while cells are missing: leave rows out, fill the cells, or skip them.",
    "drop": "As chosen, rows with a missing cell are left out.",
    "impute": "As chosen, numbers are filled with the mean, categories with the most frequent one.",
    "impute-median": "As chosen, numbers are filled with the median, categories with the most frequent one, and "
    "columns of 0 and 1 mark what was filled.",
    "impute-nearest": "As chosen, numbers are filled from the five nearest rows, categories with the most frequent "
    "one.",
    "skip": "As chosen, nothing is filled: rows are compared in the columns that both have.",
}
VIEWS = {
    "complete": "their kernels are predicted from those of the other views",
    "renormalize": "the weight of the view goes to the others",
    "error": "their cells are treated as missing cells",
}


def show_sides(joined: Joining) -> None:
    """How many rows tables have in common, and which are missing from each."""
    most = max(side.n_rows for side in joined.sides)
    are = "is" if joined.n_rows == 1 else "are"
    text(f"{plural(joined.n_rows, 'row')} {are} in every table.").style("font-weight: 500")
    for side in joined.sides:
        bar(side.name, side.n_rows / most, f"{side.n_rows}")
        if side.n_missing:
            few = ", ".join(side.examples)
            more = ", …" if side.n_missing > len(side.examples) else ""
            text(f"{plural(side.n_missing, 'row')} of other tables not in {side.name}: {few}{more}").classes(
                "kw-hint"
            )


def show_missing(found: Missing, spec: FitSpec) -> None:
    """Missing cells by column, and what would fill them."""
    if not found.n_cells:
        return
    with card("Missing values") as aside:
        with aside:
            tag(f"{plural(found.n_cells, 'cell')} in {plural(found.n_columns, 'column')}", "warn")
        whole = found.n_rows - found.n_incomplete
        text(
            f"{plural(found.n_incomplete, 'row')} of {found.n_rows} {lack(found.n_incomplete)} a cell, {whole} "
            f"{'is' if whole == 1 else 'are'} complete. {DOES[spec.missing]}"
        )
        for view, count in found.views.items():
            text(f"{plural(count, 'row')} {lack(count)} all of view {view}: {VIEWS[spec.missing_views]}.")
        simple_table(
            ["column", "missing", "share", "mean", "median", "most frequent", "from nearest rows"],
            [_gap(gap, found.n_rows) for gap in found.columns],
            numbers=(1, 2, 3, 4),
            label="Missing cells by column",
        )
        rest = found.n_columns - len(found.columns)
        more = f" {plural(rest, 'more column')} with fewer missing cells." if rest > 0 else ""
        text(f"Of all rows here; a run takes these numbers from its training rows.{more}").classes("kw-hint")


def lack(count: int) -> str:
    """The verb after so many."""
    return "lacks" if count == 1 else "lack"


def _gap(gap: Gap, n_rows: int) -> list[object]:
    low, high = (gap.nearest[0], gap.nearest[-1]) if gap.nearest else (None, None)
    near = number(low) if low == high else f"{number(low)} to {number(high)}"
    return [
        gap.name,
        gap.n_missing,
        f"{100 * gap.n_missing / n_rows:.0f} %",
        number(gap.mean),
        number(gap.median),
        gap.frequent or "–",
        near if low is not None else "–",
    ]


def show_outliers(found: Outliers, table: str, n_rows: int) -> None:
    """Numbers far from the median of their column, with their rows."""
    rule = (
        f"Numbers {FAR:g} or more robust standard deviations (1.4826 times the median absolute deviation) from the "
        "median."
    )
    if not found.n_outliers:
        text(f"None. {rule}").classes("kw-hint")
        return
    worst = sorted(found.columns.items(), key=lambda pair: -pair[1])[:5]
    text(
        f"{plural(found.n_outliers, 'number')} in {plural(len(found.columns), 'column')}, most of them in "
        f"{', '.join(f'{name} ({count})' for name, count in worst)}. {rule} Skewed columns have many."
    ).classes("kw-hint")
    rows = [
        [one.row + 1, one.column, f"{one.value:.6g}", f"{one.median:.6g}", f"{one.z:.1f}"]
        for one in found.outliers
    ]
    big_table(["row", "column", "value", "median", "robust z"], rows, label=f"Outliers of {table}")
    if found.n_outliers > MOST_OUTLIERS:
        text(f"The {MOST_OUTLIERS} farthest ones.").classes("kw-hint")
    if found.n_rows < n_rows:
        text(f"Of {plural(found.n_rows, 'row')}, evenly spread over all {n_rows}.").classes("kw-hint")


def show_alignments(found: Alignments) -> None:
    """How alike views are, as a heat map, and how alike the target."""
    if not found.names:
        text("There is no view with differing rows.").classes("kw-hint")
        return
    with stack("kw-two"):
        with stack():
            text("With the target", "h3")
            with stack("kw-stack tight"):
                for name, value in sorted(
                    zip(found.names, found.target, strict=True), key=lambda pair: -pair[1]
                ):
                    bar(name, value, f"{value:.2f}")
        if len(found.names) > 1:
            charts.figure(
                charts.heat_chart(found.names, found.names, found.values),
                "Alignment of views: " + _pairs(found.names, found.values),
                height=f"{9 + 1.6 * min(len(found.names), 20):.1f}rem",
            )
    text(
        f"Centred alignment of the linear kernels of the views on {plural(found.n_rows, 'row')}: 0 where views say "
        "different things about rows, 1 where they say the same. Missing cells count as the mean."
    ).classes("kw-hint")


def _pairs(names: Sequence[str], values: Sequence[Sequence[float]]) -> str:
    pairs = [(values[i][j], a, names[j]) for i, a in enumerate(names) for j in range(i)]
    pairs.sort(reverse=True)
    return "; ".join(f"{a} and {b} {value:.2f}" for value, a, b in pairs[:6])


def show_further(found: Sequence[Further]) -> None:
    """Views from files of their own."""
    if not found:
        return
    with card(
        "Views from files", "They are used beside the columns of the table, each with a weight of its own."
    ):
        for one in found:
            what = (
                f"a precomputed kernel, taken as it is ({plural(one.n_columns, 'row')} in the file)"
                if one.use == "kernels"
                else f"{plural(one.n_columns, 'sparse column')}"
            )
            by = f"rows matched by {one.by}" if one.by else "rows in the order of the table"
            with ui.element("div").classes("kw-file"), ui.element("div"):
                text(one.name, "b").style("font-weight: 500; overflow-wrap: anywhere")
                text(f"{what}; {by}. From {one.file}.", "small")
        if any(not one.by for one in found):
            note(
                "Rows that belong together by position must be the same rows in the same order as in the table."
            )
