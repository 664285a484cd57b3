"""Curves of survival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from kernelweave import inspection
from kernelweave._checks import InputError
from kernelweave._parameters import InstanceOf, checked
from kernelweave._types import Axes, Features, Style
from kernelweave.inspection.held_times import GivenTimes, Groups, SurvivalModel
from kernelweave.plots import drawing

__all__ = ["RiskGroupsDisplay"]


@dataclass(eq=False, repr=False)
class RiskGroupsDisplay(drawing.Display):
    """Kaplan-Meier curves of groups of predicted risk, with 95 % bands.

    Parameters
    ----------
    groups : RiskGroups
        The groups and their curves, from `kernelweave.inspection.risk_groups`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of Line2D
    """

    groups: Annotated[inspection.RiskGroups, InstanceOf((inspection.RiskGroups,), "a RiskGroups")]

    def _belong(self) -> None:
        if not self.groups.names:
            raise InputError("`groups` must have at least one group.")

    def _draw(self, ax: Axes | None, name: str, style: Style) -> None:
        self.figure_, self.ax_ = drawing.axes(ax, (6.5, 4.2))
        found, self.lines_ = self.groups, []
        parts = zip(found.names, found.rows, found.times, found.survival, found.bands, strict=True)
        for rank, (label, rows, times, survival, (low, high)) in enumerate(parts):
            own = {**drawing.line_style(rank), "label": f"{label} ({len(rows)} rows)", "where": "post"}
            when = [0.0, *times]
            (line,) = self.ax_.step(when, [1.0, *survival], **{**own, **style})
            self.lines_.append(line)
            self.ax_.fill_between(
                *(when, [1.0, *low], [1.0, *high]),
                step="post",
                alpha=0.15,
                color=line.get_color(),
                linewidth=0,
            )
        self.ax_.set(xlabel="time", ylabel="share without an event", ylim=(0.0, 1.02))
        drawing.finish(self.ax_, name)

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: SurvivalModel,
        X: Features,
        y: GivenTimes,
        *,
        n_groups: Groups = 3,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> RiskGroupsDisplay:
        """Divide rows by their predicted risk, and draw.

        Parameters
        ----------
        estimator : fitted MKLSurvival
            The model that predicts the risks.
        X, y
            Rows that were not in the fit.
        n_groups : int, default=3
            Number of groups, of about the same size.
        ax : matplotlib Axes, optional
            Default: a new figure.
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        RiskGroupsDisplay
        """
        return cls(inspection.risk_groups(estimator, X, y, n_groups=n_groups)).plot(ax, **plot_kwargs)
