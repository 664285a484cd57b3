"""Deep kernels: the descent of their criterion, with the weights of every layer."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave import inspection
from kernelweave._parameters import ReadableSignature, Text, checked
from kernelweave._types import Axes, Style
from kernelweave.inspection.arguments import Model, Output
from kernelweave.plots.drawing import (
    COLORS,
    GREY,
    LINE,
    STYLES,
    Array,
    LayerNames,
    LayerTables,
    Line,
    Most,
    Place,
    Title,
    check_place,
    grid,
    layer_name,
    plain,
    same_length,
    short,
    titled,
)


class DescentDisplay:
    """Criterion and validation loss over the iterations of a deep learner, and the weights of every layer below.

    Parameters
    ----------
    criterion : array of shape (n_steps,)
        Including the start.
    names : sequence of arrays of str
        Kernels of every layer.
    weights : sequence of arrays of shape (n_steps, n_kernels of the layer)
    validation, validation_error : arrays of shape (n_steps,), optional
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

    __signature__ = ReadableSignature()

    @checked
    def __init__(
        self,
        criterion: Line,
        names: LayerNames,
        weights: LayerTables,
        validation: Annotated[ArrayLike | None, LINE | None] = None,
        validation_error: Annotated[ArrayLike | None, LINE | None] = None,
        kept: Place = None,
        error_label: Annotated[str, Text()] = "error rate",
    ) -> None:
        self.criterion = np.asarray(criterion)
        self.names = [np.array(layer, dtype=object) for layer in names]
        self.weights = [np.asarray(layer) for layer in weights]
        self.validation = None if validation is None else np.asarray(validation)
        self.validation_error = None if validation_error is None else np.asarray(validation_error)
        self.kept = kept
        self.error_label = error_label
        same_length({"names": self.names, "weights": self.weights})
        for own, layer in zip(self.names, self.weights, strict=True):
            same_length({"names": own, "columns of `weights`": layer.T})
            same_length({"criterion": self.criterion, "weights": layer})
        for name in ("validation", "validation_error"):
            if (values := getattr(self, name)) is not None:
                same_length({"criterion": self.criterion, name: values})
        check_place(kept, "kept", len(self.criterion))

    @checked
    def plot(
        self,
        ax: Axes | None = None,
        *,
        most: Most = 8,
        name: Title = None,
        **style: Any,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes of a grid, optional
            Replaced by several panels.
        most : int, default=8
            Kernels of a layer with a label: those with the largest weights. The others are thin and grey.
        name : str, optional
            Title.
        **style : dict
            Passed to `Axes.plot`.

        Returns
        -------
        self
        """
        n_layers = len(self.weights)
        entries = min(most, max(w.shape[1] for w in self.weights))
        self.figure_, place = grid(ax, (max(6.0, 2.0 + 3.1 * n_layers), 5.2 + 0.2 * entries))
        rows = place.subgridspec(2, 1, height_ratios=(1.0, 1.15 + 0.12 * entries))
        self.ax_ = self.figure_.add_subplot(rows[0])
        cells = rows[1].subgridspec(1, n_layers)
        self.layer_axes_ = [self.figure_.add_subplot(cells[0, depth]) for depth in range(n_layers)]
        steps = np.arange(len(self.criterion))
        marker = {"marker": "o", "markersize": 3} if len(steps) <= 60 else {}
        own = {"color": COLORS[0], "label": "criterion", **marker, **style}
        (self.criterion_line_,) = self.ax_.plot(steps, self.criterion, **own)
        self.validation_line_ = self.error_line_ = self.kept_line_ = self.error_ax_ = None
        if self.validation is not None:
            own = {"color": COLORS[1], "linestyle": "--", "label": "validation loss", **marker, **style}
            (self.validation_line_,) = self.ax_.plot(steps, self.validation, **own)
        self.ax_.set_ylabel("mean loss" if self.validation is not None else "criterion")
        if self.validation_error is not None:
            self.error_ax_ = self.ax_.twinx()
            own = {"color": COLORS[2], "linestyle": ":", "label": f"validation {self.error_label} (right)"}
            (self.error_line_,) = self.error_ax_.plot(steps, self.validation_error, **{**own, **style})
            self.error_ax_.set_ylabel(f"validation {self.error_label}", color=COLORS[2])
            self.error_ax_.spines[["top", "left"]].set_visible(False)
        for panel in [self.ax_, *self.layer_axes_]:
            if self.kept is not None:
                line = panel.axvline(self.kept, color="0.3", linestyle=":", linewidth=1, zorder=0)
                if panel is self.ax_:
                    self.kept_line_ = line
                    line.set_label("kept")
            panel.set_xlabel("iteration")
            panel.locator_params(axis="x", integer=True)
            plain(panel)
        lines = [self.criterion_line_, self.validation_line_, self.error_line_, self.kept_line_]
        handles = [line for line in lines if line is not None]
        above: Style = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": len(handles)}
        self.ax_.legend(handles=handles, frameon=False, fontsize="small", **above)
        titled(self.ax_, name or "")
        self.weight_lines_ = []
        for depth, (panel, names, w) in enumerate(
            zip(self.layer_axes_, self.names, self.weights, strict=True)
        ):
            self.weight_lines_.append(self._draw_layer(panel, steps, names, w, most, style))
            titled(panel, layer_name(depth))
        self.layer_axes_[0].set_ylabel("kernel weight")
        return self

    @staticmethod
    def _draw_layer(
        panel: Axes, steps: NDArray[Any], names: NDArray[Any], w: Array, most: int, style: Style
    ) -> list[Any]:
        from matplotlib.transforms import ScaledTranslation

        order = np.argsort(-w.max(axis=0), kind="stable")
        lines: list[Any] = [None] * len(order)
        for rank, m in enumerate(order):
            own = GREY
            if rank < most:
                # with few kernels, colours are the same in all layers
                key = int(m) if len(order) <= len(COLORS) else rank
                own = {
                    "color": COLORS[key % len(COLORS)],
                    "linestyle": STYLES[key % len(STYLES)],
                    "label": short(str(names[m]).removesuffix(" on all"), 26),
                }
            (lines[m],) = panel.plot(steps, w[:, m], **{**own, **style})
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
        cls, estimator: Model, *, output: Output = None, ax: Axes | None = None, **plot_kwargs: Any
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
            found.names,
            found.weights,
            found.validation,
            found.validation_error,
            found.kept,
            error,
        ).plot(ax, **plot_kwargs)
