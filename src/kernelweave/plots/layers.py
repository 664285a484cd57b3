"""Deep kernels: the descent of their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kernelweave import inspection
from kernelweave._parameters import Text, checked
from kernelweave._types import Array, Axes, Style
from kernelweave.inspection import arguments
from kernelweave.inspection.weights import fractions_of
from kernelweave.plots import drawing

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

__all__ = ["DescentDisplay"]


@dataclass(eq=False, repr=False)
class DescentDisplay(drawing.ListDisplay):
    """Criterion and validation loss over the iterations of a deep learner, and the weights of every layer below.

    Parameters
    ----------
    criterion : array of shape (n_steps,)
        Including the start.
    names : sequence of arrays of str
        Kernels of every layer.
    weights : sequence of arrays of shape (n_steps, n_kernels of the layer)
        Drawn as fractions of those of a layer.
    validation, validation_error : arrays of shape (n_steps,), optional
        Mean loss and error rate on validation rows, the error on an axis of its own.
    kept : int, optional
        The step whose weights were kept.
    error_label : str, default="error rate"
        Label of `validation_error`.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
        Criterion and validation loss.
    error_ax_ : matplotlib Axes or None
        Its twin for the validation error.
    layer_axes_ : list of matplotlib Axes
    criterion_line_, validation_line_, error_line_, kept_line_ : Line2D or None
    weight_lines_ : list of lists of Line2D
        One list per layer.
    """

    criterion: drawing.Line
    names: drawing.LayerNames
    weights: drawing.LayerTables
    validation: drawing.OptionalLine = None
    validation_error: drawing.OptionalLine = None
    kept: drawing.Place = None
    error_label: Annotated[str, Text()] = "error rate"

    def _belong(self) -> None:
        drawing.same_length({"names": self.names, "weights": self.weights})
        for own, layer in zip(self.names, self.weights, strict=True):
            drawing.same_length({"names": own, "columns of `weights`": layer.T})
            drawing.same_length({"criterion": self.criterion, "weights": layer})
        for name in ("validation", "validation_error"):
            if (values := getattr(self, name)) is not None:
                drawing.same_length({"criterion": self.criterion, name: values})
        drawing.check_place(self.kept, "kept", len(self.criterion))

    usual = 8

    def _draw(self, ax: Axes | None, most: int, name: str, style: Style) -> None:
        n_layers = len(self.weights)
        entries = min(most, max(w.shape[1] for w in self.weights))
        self.figure_, place = drawing.grid(ax, (max(6.0, 2.0 + 3.1 * n_layers), 5.2 + 0.2 * entries))
        rows = place.subgridspec(2, 1, height_ratios=(1.0, 1.15 + 0.12 * entries))
        self.ax_ = self.figure_.add_subplot(rows[0])
        cells = rows[1].subgridspec(1, n_layers)
        self.layer_axes_ = [self.figure_.add_subplot(cells[0, depth]) for depth in range(n_layers)]
        steps = np.arange(len(self.criterion))
        self.validation_line_ = self.error_line_ = self.kept_line_ = self.error_ax_ = None

        def draw(panel: Axes, values: Array, rank: int, label: str) -> Line2D:
            own: Style = {"color": drawing.COLORS[rank], "linestyle": drawing.STYLES[rank], "label": label}
            marker = {"marker": "o", "markersize": 3} if len(steps) <= 60 and panel is self.ax_ else {}
            return panel.plot(steps, values, **{**own, **marker, **style})[0]

        self.criterion_line_ = draw(self.ax_, self.criterion, 0, "criterion")
        if self.validation is not None:
            self.validation_line_ = draw(self.ax_, self.validation, 1, "validation loss")
        self.ax_.set_ylabel("criterion" if self.validation is None else "mean loss")
        if self.validation_error is not None:
            label, self.error_ax_ = f"validation {self.error_label}", self.ax_.twinx()
            self.error_line_ = draw(self.error_ax_, self.validation_error, 2, f"{label} (right)")
            self.error_ax_.set_ylabel(label, color=drawing.COLORS[2])
            self.error_ax_.spines[["top", "left"]].set_visible(False)
        if self.kept is not None:
            kept: Style = {"color": "0.3", "linestyle": ":", "linewidth": 1, "zorder": 0}
            self.kept_line_ = self.ax_.axvline(self.kept, label="kept", **kept)
            for panel in self.layer_axes_:
                panel.axvline(self.kept, **kept)
        for panel in [self.ax_, *self.layer_axes_]:
            panel.set_xlabel("iteration")
            panel.locator_params(axis="x", integer=True)
            drawing.plain(panel)
        lines = [self.criterion_line_, self.validation_line_, self.error_line_, self.kept_line_]
        handles = [line for line in lines if line is not None]
        above: Style = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": len(handles)}
        self.ax_.legend(handles=handles, frameon=False, fontsize="small", **above)
        drawing.titled(self.ax_, name)
        self.weight_lines_ = []
        for depth, panel in enumerate(self.layer_axes_):
            self.weight_lines_.append(self._draw_layer(panel, depth, most, style))
            drawing.titled(panel, drawing.layer_name(depth))
        self.layer_axes_[0].set_ylabel("kernel weight (fraction)")

    def _draw_layer(self, panel: Axes, depth: int, most: int, style: Style) -> list[Line2D]:
        from matplotlib.transforms import ScaledTranslation

        names, w = self.names[depth], fractions_of(self.weights[depth], axis=1)
        order = np.argsort(-w.max(axis=0), kind="stable").tolist()
        styles = [drawing.GREY] * len(order)
        for rank, m in enumerate(order[:most]):
            # with few kernels, colours are the same in all layers
            key = m if len(order) <= len(drawing.COLORS) else rank
            styles[m] = {
                "color": drawing.COLORS[key % len(drawing.COLORS)],
                "linestyle": drawing.STYLES[key % len(drawing.STYLES)],
                "label": drawing.short(names[m].removesuffix(" on all"), 26),
            }
        lines = [panel.plot(w[:, m], **{**own, **style})[0] for m, own in enumerate(styles)]
        panel.set_ylim(bottom=min(0.0, float(w.min())))
        # below the label of the axis, for any height of the panel
        below = panel.transAxes + ScaledTranslation(0.0, -36.0 / 72.0, panel.figure.dpi_scale_trans)
        panel.legend(
            handles=[lines[m] for m in order[:most]], frameon=False, fontsize="small", loc="upper center",
            bbox_to_anchor=(0.5, 0.0), bbox_transform=below,
        )  # fmt: skip
        return lines

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: arguments.Model,
        *,
        output: arguments.Output = None,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> DescentDisplay:
        """Draw the descent of a fitted estimator whose learner is deep.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        output : str or int, optional
            Class or output of a model with several; default the first.
        ax : matplotlib Axes of a grid, optional
            Replaced by several panels.
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        DescentDisplay

        Examples
        --------
        >>> import matplotlib; matplotlib.use("Agg")
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(40, 2))
        >>> learner = kw.learners.MLMKL(C=10.0, tol=1e-2)
        >>> model = kw.MKLClassifier(kw.banks.mlmkl(), learner, normalize="cosine").fit(X, X[:, 0] * X[:, 1] > 0)
        >>> len(kw.plots.DescentDisplay.from_estimator(model).layer_axes_)
        2
        """
        found = inspection.descent(estimator, output=output)
        error = "error rate" if hasattr(estimator, "classes_") else "RMSE"
        return cls(
            found.criterion,
            [list(own) for own in found.names],
            found.weights,
            found.validation,
            found.validation_error,
            found.kept,
            error,
        ).plot(ax, **plot_kwargs)
