"""Figures and tables for papers: in the width of a column, as PDF and SVG, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelweave._errors import InputError

if TYPE_CHECKING:
    from kernelweave.inspection.registry import Found
    from kernelweave_app.reports import Picture

#: Widths in millimetres of one column and of two, as most journals have them.
SINGLE, DOUBLE = 85.0, 174.0
LEAST, MOST, TALLEST = 40.0, 400.0, 230.0
#: Widths up to which legends on the right of the axes move above them.
NARROW = 120.0
INCH = 25.4
#: Points of letters; figures of pages have 10.
LETTERS = 7.0
_STYLE: Any = {
    "font.size": LETTERS,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    # letters as letters, which programs can change, in PDF
    "pdf.fonttype": 42,
}


def read_width(text: str) -> float:
    """A width in millimetres: single, double, or a number.

    Examples
    --------
    >>> read_width("single"), read_width("120")
    (85.0, 120.0)
    """
    known = {"single": SINGLE, "double": DOUBLE}
    try:
        width = known.get(text.strip().lower()) or float(text)
    except ValueError:
        width = 0.0
    if not LEAST <= width <= MOST:
        raise InputError(
            f"The width must be single, double, or {LEAST:g} to {MOST:g} millimetres, got {text!r:.30}."
        )
    return width


@contextmanager
def in_print() -> Iterator[None]:
    """Letters and lines of figures that are drawn inside have the size of papers."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        yield


def fit_to(picture: Picture, width: float) -> None:
    """Give a figure that was drawn in `in_print` a width in millimetres; its letters keep their size."""
    from matplotlib.figure import Figure

    from kernelweave.plots.drawing import is_beside, titled

    figure = picture.figure
    assert isinstance(figure, Figure)
    _, tall = figure.get_size_inches()
    # the height follows the letters, since most of it is lines of text
    tall = min(tall * max(LETTERS / 10.0, min(1.0, width / DOUBLE)), TALLEST / INCH)
    figure.set_size_inches(width / INCH, tall)
    for ax in figure.axes:
        found = ax.get_legend()
        if found is None or width > NARROW:
            continue
        title, box = ax.get_title(loc="left"), found.get_window_extent()
        if title and box.y0 > ax.bbox.y1 - 0.1 * ax.bbox.height:
            # over the legend, which it would cover in a narrow panel
            titled(ax, title, pad=box.height * 72.0 / figure.dpi + 0.7 * LETTERS)
        handles, labels = ax.get_legend_handles_labels()
        # beside the axes it would take half of a narrow column
        if handles and is_beside(found, ax):
            found.remove()
            ax.legend(
                handles,
                labels,
                frameon=False,
                fontsize="small",
                loc="lower left",
                bbox_to_anchor=(0.0, 1.0),
                ncols=2 if max(map(len, labels)) < 24 else 1,
                title=found.get_title().get_text() or None,
                alignment="left",
            )


def write_figures(
    draw: Callable[[], Sequence[Picture]], folder: Path, width: float, formats: Sequence[str] = ("pdf", "svg")
) -> list[str]:
    """Draw figures in a width in millimetres and write them.

    Parameters
    ----------
    draw : callable
        Draws the pictures.
    folder : Path
    width : float
        Millimetres.
    formats : sequence of {"pdf", "svg"}

    Returns
    -------
    list of str
        Names of the files.
    """
    from kernelweave_app.reports import close

    made = []
    with in_print():
        for picture in draw():
            fit_to(picture, width)
            if "svg" in formats:
                (folder / f"{picture.name}.svg").write_text(picture.svg, encoding="utf8")
                made.append(f"{picture.name}.svg")
            if "pdf" in formats:
                picture.write_pdf(folder / f"{picture.name}.pdf")
                made.append(f"{picture.name}.pdf")
            close(picture.figure)
    return made


def write_tables(found: Found, folder: Path, csv: Callable[..., str]) -> list[str]:
    """Write the tables of findings as CSV and LaTeX; `csv` makes a text of a data frame."""
    from kernelweave.inspection.registry import tables_of

    made = []
    for table in tables_of(found):
        for name, text in ((f"{table.name}.csv", csv(table.frame())), (f"{table.name}.tex", table.latex())):
            (folder / name).write_text(text, encoding="utf8")
            made.append(name)
    return made
