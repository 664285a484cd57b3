"""Common parts of all pictures: displays, rules of their arguments, colours and axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import Floats, InputError
from kernelweave._drawing import COLOURS
from kernelweave._parameters import (
    Each,
    ReadableSignature,
    Text,
    Texts,
    Whole,
    check_fields,
    checked,
)
from kernelweave._types import Array, Axes, Figure, Style, SubFigure, SubplotSpec
from kernelweave.inspection.arguments import OfRows

# ---- rules -----------------------------------------------------------------------------------------

#: Numbers to draw; values that are not finite are left out.
LINE = Floats(finite=False)
COLUMNS = Floats((1, 2), finite=False)
TABLE = Floats((2,), finite=False)
#: A title, or None.
Title = Annotated[str | None, Text() | None]
#: Number of items shown.
Most = Annotated[int, Whole(1)]
OptionalMost = Annotated[int | None, Whole(1) | None]
#: Names of the items drawn.
Names = Annotated[Sequence[str], Texts()]
#: One number for each item.
Line = Annotated[Array, LINE]
#: The same, or None.
OptionalLine = Annotated[Array | None, LINE | None]
#: Numbers for each kernel, and for each output if there are several.
Columns = Annotated[Array, COLUMNS]
#: Numbers for each item along rows.
Table = Annotated[Array, TABLE]
#: Names, lines or columns of every layer, the lowest first.
LayerNames = Annotated[Sequence[Sequence[str]], Each(Texts())]
LayerLines = Annotated[Sequence[Array], Each(LINE)]
LayerColumns = Annotated[Sequence[Array], Each(COLUMNS)]
LayerTables = Annotated[Sequence[Array], Each(TABLE)]
#: A position, or None.
Place = Annotated[int | None, Whole(0) | None]


def same_length(given: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
    """Raise unless all arguments have as many entries as the first."""
    (first, long), *others = [(name, len(value)) for name, value in given.items()]
    for name, own in others:
        if own != long:
            raise InputError(
                f"`{name}` must have as many entries as `{first}`, {long}, got {own}. Leave out the others."
            )


def check_place(place: int | None, name: str, count: int) -> None:
    """Raise unless a position is below a count."""
    if place is not None and place >= count:
        raise InputError(f"`{name}` must be a position from 0 to {count - 1}, got {place}.")


#: Classes or numbers by which rows are sorted.
Target = Annotated[NDArray[Any], OfRows()]


# ---- displays --------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Checked(ABC):
    """Numbers that are drawn: fields of a class with their rules, which are checked and converted."""

    __signature__ = ReadableSignature()

    def __post_init__(self) -> None:
        check_fields(self)
        self._belong()

    @abstractmethod
    def _belong(self) -> None:
        """Raise unless the numbers belong together."""


class Display(Checked):
    """A display of numbers."""

    @abstractmethod
    def _draw(self, ax: Axes | None, name: str, style: Style) -> None:
        """Draw, with the style of the artists."""

    @checked
    def plot(self, ax: Axes | None = None, *, name: Title = None, **style: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure. Several panels replace the axes in their grid.
        name : str, optional
            Title.
        **style : dict
            Passed to the method of `Axes` that draws: `plot`, `barh` or `imshow`.

        Returns
        -------
        self
        """
        self._draw(ax, name or "", style)
        return self


class ListDisplay(Checked):
    """A display of kernels, the largest first."""

    #: How many kernels are shown, or have a label.
    usual = 20

    @abstractmethod
    def _draw(self, ax: Axes | None, most: int, name: str, style: Style) -> None:
        """Draw that many, with the style of the artists."""

    @checked
    def plot(
        self, ax: Axes | None = None, *, most: OptionalMost = None, name: Title = None, **style: Any
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure. Several panels replace the axes in their grid.
        most : int, optional
            Largest number of kernels shown, default 20; the title sums up the rest. Of lines, default 8, those that
            grow largest have a label, and the others are thin and grey.
        name : str, optional
            Title.
        **style : dict
            Passed to the method of `Axes` that draws: `plot`, `barh` or `imshow`.

        Returns
        -------
        self
        """
        self._draw(ax, most or self.usual, name or "", style)
        return self


# ---- axes ------------------------------------------------------------------------------------------

#: Colours of lines and bars, also on the pages of the studio.
COLORS = COLOURS
STYLES = ("-", "--", ":", "-.")
#: Lines behind those with a label.
GREY: Style = {"color": "0.8", "linewidth": 0.8, "zorder": 1}
#: The line of the chosen value.
CHOSEN: Style = {"color": "0.3", "linestyle": ":", "label": "chosen"}


def axes(ax: Axes | None, size: tuple[float, float]) -> tuple[Figure | SubFigure, Axes]:
    """Figure and axes: those given, or new ones."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'kernelweave[plot]'.") from error
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax.figure, ax


def grid(ax: Axes | None, size: tuple[float, float]) -> tuple[Figure | SubFigure, SubplotSpec]:
    """The grid position of some axes, for several panels, in a new figure or instead of the given axes."""
    figure, frame = axes(ax, size)
    place = frame.get_subplotspec()
    if place is None:
        raise InputError(
            "`ax` must be of a grid, as made by plt.subplots: several panels replace it. Use None for a new "
            "figure."
        )
    # the given axes stay as an empty frame, as in scikit-learn's displays of several panels
    frame.set_axis_off()
    return figure, place


def plain(ax: Axes) -> None:
    """Axes without a box."""
    ax.spines[["top", "right"]].set_visible(False)


def titled(ax: Axes, name: str, **options: Any) -> None:
    """Axes with their title on the left."""
    ax.set_title(name, loc="left", fontsize="medium", **options)


def line_style(rank: int) -> Style:
    """A colour and, after all colours are used, another kind of line."""
    return {"color": COLORS[rank % len(COLORS)], "linestyle": STYLES[(rank // len(COLORS)) % len(STYLES)]}


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_text(value: float, place: object = None) -> str:
    """A number at a mark of a logarithmic axis, as the studio writes it: plain, or as a power of ten."""
    if value <= 0.0 or 1e-3 <= value <= 1e4:
        return f"{value:g}"
    mantissa, exponent = f"{value:.5e}".split("e")
    power = "10" + str(int(exponent)).translate(_RAISED)
    return power if float(mantissa) == 1.0 else f"{float(mantissa):g}×{power}"


def log_axis(ax: Axes, which: str) -> None:
    """Make the axis "x" or "y" logarithmic, with text at its marks: formulas take much longer to draw."""
    ax.set(**{f"{which}scale": "log"})
    getattr(ax, f"{which}axis").set_major_formatter(power_text)


def parameter_axis(ax: Axes, alphas: Array, parameter: str = "alpha") -> None:
    """An axis of regularisation parameters with the strongest on the left; infinity is not shown."""
    if np.isfinite(alphas).any():
        log_axis(ax, "x")
    if parameter == "alpha":
        ax.invert_xaxis()


def legend(ax: Axes, **options: Any) -> None:
    """A legend of labelled artists; none if there are none."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, **options)


def finish(ax: Axes, name: str, **options: Any) -> None:
    """A title, a legend on the right, and no box."""
    titled(ax, name)
    legend_beside(ax, **options)
    plain(ax)


#: Where a legend on the right of the axes begins, in the units of the axes.
BESIDE = (1.0, 0.5)


def legend_beside(ax: Axes, **options: Any) -> None:
    """A legend on the right of the axes, where it covers nothing; none if there are no labelled artists."""
    legend(ax, fontsize="small", loc="center left", bbox_to_anchor=BESIDE, **options)


def is_beside(found: Any, ax: Axes) -> bool:
    """Whether a legend was placed by `legend_beside`."""
    anchor = ax.transAxes.inverted().transform(found.get_bbox_to_anchor().p0)
    return bool(np.allclose(anchor, BESIDE))


def short(name: str, most: int = 44) -> str:
    """A name shortened to fit beside a picture."""
    return name if len(name) <= most else name[: most - 1] + "…"


def layer_name(depth: int) -> str:
    """Name of a layer; 0 is the first."""
    return f"layer {depth + 1}"
