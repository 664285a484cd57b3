"""Deep kernels: the descent of their weights, the matrices of every layer, and their eigenvalues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from kernelweave import inspection
from kernelweave._checks import InputError
from kernelweave._parameters import Switch, Text, checked
from kernelweave._types import Axes, Style
from kernelweave.inspection.arguments import Model, MostRows, Output
from kernelweave.inspection.layers import MAX_ROWS
from kernelweave.plots.drawing import (
    COLORS,
    GREY,
    STYLES,
    Array,
    Checked,
    Display,
    LayerLines,
    LayerNames,
    LayerTables,
    Line,
    Most,
    OptionalLine,
    Place,
    Target,
    Title,
    axes,
    check_place,
    grid,
    layer_name,
    legend_beside,
    log_axis,
    plain,
    same_length,
    short,
    titled,
)


@dataclass(eq=False, repr=False)
class DescentDisplay(Checked):
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

    criterion: Line
    names: LayerNames
    weights: LayerTables
    validation: OptionalLine = None
    validation_error: OptionalLine = None
    kept: Place = None
    error_label: Annotated[str, Text()] = "error rate"

    def _belong(self) -> None:
        same_length({"names": self.names, "weights": self.weights})
        for own, layer in zip(self.names, self.weights, strict=True):
            same_length({"names": own, "columns of `weights`": layer.T})
            same_length({"criterion": self.criterion, "weights": layer})
        for name in ("validation", "validation_error"):
            if (values := getattr(self, name)) is not None:
                same_length({"criterion": self.criterion, name: values})
        check_place(self.kept, "kept", len(self.criterion))

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
        panel: Axes, steps: NDArray[Any], names: Sequence[str], w: Array, most: int, style: Style
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
                    "label": short(names[m].removesuffix(" on all"), 26),
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
            [list(own) for own in found.names],
            found.weights,
            found.validation,
            found.validation_error,
            found.kept,
            error,
        ).plot(ax, **plot_kwargs)


@dataclass(eq=False, repr=False)
class KernelMatricesDisplay(Display):
    """Kernel matrices of every layer on training rows, with equal weights above and with learnt ones below.

    Matrices are divided by their mean diagonal. The two of a layer share a colour scale, which leaves out the most
    extreme hundredth of the values off the diagonal.

    Parameters
    ----------
    before, after : sequences of arrays of shape (n_rows, n_rows)
        One matrix per layer.
    target : array of shape (n_rows,)
        Classes or numbers by which rows are sorted.
    classes : bool, default=True
        Whether `target` has classes, whose borders are drawn.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes, shape (2, n_layers)
    images_ : array of AxesImage, shape (2, n_layers)
    order_ : array of int, shape (n_rows,)
        Order of the rows.
    """

    before: LayerTables
    after: LayerTables
    target: Target
    classes: Switch = True

    def _belong(self) -> None:
        same_length({"before": self.before, "after": self.after})
        for name, K in [*(("before", K) for K in self.before), *(("after", K) for K in self.after)]:
            if K.shape != self.target.shape * 2:
                raise InputError(
                    f"`{name}` must hold a matrix of the rows of `target` for each layer, got shape {K.shape} and a "
                    f"target of shape {self.target.shape}."
                )

    def _draw(self, ax: Axes | None, name: str, style: Style) -> None:
        n_layers = len(self.after)
        self.figure_, place = grid(ax, (1.2 + 3.0 * n_layers, 5.4))
        cells = place.subgridspec(2, 2 * n_layers, width_ratios=(1.0, 0.06) * n_layers)
        self.axes_ = np.array(
            [[self.figure_.add_subplot(cells[r, 2 * depth]) for depth in range(n_layers)] for r in range(2)]
        )
        self.order_ = np.argsort(self.target, kind="stable")
        images: list[list[Any]] = [[], []]
        for r, matrices in enumerate((self.before, self.after)):
            for depth, K in enumerate(matrices):
                low, high = self._limits(depth)
                own = {"cmap": "cividis", "vmin": low, "vmax": high, "aspect": "auto", **style}
                sorted_K = self._scaled(K)[np.ix_(self.order_, self.order_)]
                images[r].append(self.axes_[r, depth].imshow(sorted_K, **own))
        self.images_ = np.array(images)
        for depth in range(n_layers):
            beside = self.figure_.add_subplot(cells[:, 2 * depth + 1])
            bar = self.figure_.colorbar(self.images_[1, depth], cax=beside)
            if depth == n_layers - 1:
                bar.set_label("share of the mean diagonal")
            bar.outline.set_visible(False)
            titled(self.axes_[0, depth], layer_name(depth))
        for r, label in enumerate(("equal weights", "learnt weights")):
            for depth in range(n_layers):
                self._frame(self.axes_[r, depth], named=depth == 0)
            self.axes_[r, 0].set_ylabel(label)
        if name:
            titled(self.axes_[0, 0], f"{name}\n{layer_name(0)}")

    @staticmethod
    def _scaled(K: Array) -> Array:
        mean = float(K.diagonal().mean())
        return K / mean if mean > 0 else K

    def _limits(self, depth: int) -> tuple[float, float]:
        n = len(self.target)
        off = ~np.eye(n, dtype=bool)
        values = np.concatenate([self._scaled(K[depth])[off] for K in (self.before, self.after)])
        low, high = np.quantile(values, [0.005, 0.995])
        return (float(low), float(high)) if high > low else (float(low) - 1e-12, float(low) + 1e-12)

    def _frame(self, panel: Axes, *, named: bool) -> None:
        panel.spines[:].set_visible(False)
        panel.tick_params(length=0)
        panel.set_xticks([])
        if not self.classes:
            n = len(self.target)
            panel.set_yticks([0, n - 1] if named else [], ["lowest", "highest"] if named else [])
            return
        names, counts = np.unique(self.target, return_counts=True)
        ends = np.cumsum(counts)
        for end in ends[:-1]:
            panel.axhline(end - 0.5, color="white", linewidth=0.8)
            panel.axvline(end - 0.5, color="white", linewidth=0.8)
        labels = [short(str(label), 14) for label in names]
        panel.set_yticks(ends - 0.5 * counts - 0.5 if named else [], labels if named else [])

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: Model,
        *,
        output: Output = None,
        max_rows: MostRows = 300,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> KernelMatricesDisplay:
        """Compute the matrices on the training rows of a fitted estimator and draw them.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        output : str or int, optional
            Class or output of a model with several; default the first.
        max_rows : int, default=300
            With more training rows, a random sample of this size is used (with a fixed seed), as a picture has few
            more pixels.
        ax : matplotlib Axes of a grid, optional
            Replaced by several panels.
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        KernelMatricesDisplay

        Examples
        --------
        >>> import matplotlib; matplotlib.use("Agg")
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(40, 2))
        >>> model = kw.MKLClassifier(kw.banks.mlmkl(), "deep-uniform", normalize="cosine").fit(X, X[:, 0] > 0)
        >>> kw.plots.KernelMatricesDisplay.from_estimator(model).images_.shape
        (2, 2)
        """
        before = inspection.layer_grams(estimator, output=output, weights="initial", max_rows=max_rows)
        after = inspection.layer_grams(estimator, output=output, max_rows=max_rows)
        return cls(before.kernels, after.kernels, after.target, hasattr(estimator, "classes_")).plot(
            ax, **plot_kwargs
        )


@dataclass(eq=False, repr=False)
class LayerSpectraDisplay(Display):
    """Eigenvalues of the kernel matrices of every layer, with equal weights (dashed) and with learnt ones.

    Parameters
    ----------
    before, after : sequences of arrays of shape (n_rows,)
        Eigenvalues of every layer, descending, as shares of the trace.
    rank_before, rank_after : arrays of shape (n_layers,)
        Effective ranks, for the legend.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    before_lines_, after_lines_ : lists of Line2D
        One line per layer.
    """

    before: LayerLines
    after: LayerLines
    rank_before: Line
    rank_after: Line

    #: Shares below this are rounding errors.
    floor = 1e-10

    def _belong(self) -> None:
        same_length(
            {
                "before": self.before,
                "after": self.after,
                "rank_before": self.rank_before,
                "rank_after": self.rank_after,
            }
        )

    def _draw(self, ax: Axes | None, name: str, style: Style) -> None:
        self.figure_, self.ax_ = axes(ax, (8.0, 4.2))
        self.before_lines_: list[Any] = []
        self.after_lines_: list[Any] = []
        for depth in range(len(self.after)):
            color = COLORS[depth % len(COLORS)]
            for values, ranks, lines, label, kind in (
                (self.before, self.rank_before, self.before_lines_, "equal weights", "--"),
                (self.after, self.rank_after, self.after_lines_, "learnt weights", "-"),
            ):
                e = values[depth]
                drawn = {
                    "color": color,
                    "linestyle": kind,
                    "linewidth": 1.0 if kind == "--" else 1.6,
                    "label": f"{layer_name(depth)}, {label}: {ranks[depth]:.3g}",
                }
                lines += self.ax_.plot(
                    np.arange(1, len(e) + 1), np.where(e > self.floor, e, np.nan), **{**drawn, **style}
                )
        log_axis(self.ax_, "x")
        if any((e > self.floor).any() for e in (*self.before, *self.after)):
            log_axis(self.ax_, "y")
        self.ax_.set(xlabel="number of the eigenvalue", ylabel="share of the trace")
        titled(self.ax_, name)
        legend_beside(self.ax_, title="effective rank")
        plain(self.ax_)

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: Model,
        *,
        output: Output = None,
        center: Switch = False,
        max_rows: MostRows = MAX_ROWS,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> LayerSpectraDisplay:
        """Compute the spectra on the training rows of a fitted estimator and draw them.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        output : str or int, optional
            Class or output of a model with several; default the first.
        center : bool, default=False
            Whether to centre the matrices, see `kernelweave.inspection.layer_spectra`.
        max_rows : int, default=1000
            With more training rows, a random sample of this size is used, with a fixed seed.
        ax : matplotlib Axes, optional
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        LayerSpectraDisplay

        Examples
        --------
        >>> import matplotlib; matplotlib.use("Agg")
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(40, 2))
        >>> model = kw.MKLClassifier(kw.banks.mlmkl(), "deep-uniform", normalize="cosine").fit(X, X[:, 0] > 0)
        >>> len(kw.plots.LayerSpectraDisplay.from_estimator(model).after_lines_)
        2
        """
        options: dict[str, Any] = {"output": output, "center": center, "max_rows": max_rows}
        before = inspection.layer_spectra(estimator, weights="initial", **options)
        after = inspection.layer_spectra(estimator, **options)
        return cls(before.eigenvalues, after.eigenvalues, before.effective_rank, after.effective_rank).plot(
            ax, **plot_kwargs
        )
