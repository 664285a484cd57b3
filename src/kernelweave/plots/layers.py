"""Deep kernels: the descent of their weights, the matrices of every layer, and their eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kernelweave import inspection
from kernelweave._checks import InputError
from kernelweave._parameters import Switch, Text, checked
from kernelweave._types import Array, Axes, Style
from kernelweave.inspection import arguments
from kernelweave.inspection.layers import MAX_ROWS
from kernelweave.inspection.weights import fractions_of
from kernelweave.plots import drawing

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

__all__ = ["DescentDisplay", "KernelMatricesDisplay", "LayerSpectraDisplay"]


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
            The model, with a deep learner.
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
class KernelMatricesDisplay(drawing.Display):
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

    before: drawing.LayerTables
    after: drawing.LayerTables
    target: drawing.Target
    classes: Switch = True

    def _belong(self) -> None:
        drawing.same_length({"before": self.before, "after": self.after})
        for name, K in [*(("before", K) for K in self.before), *(("after", K) for K in self.after)]:
            if K.shape != self.target.shape * 2:
                raise InputError(
                    f"`{name}` must hold a matrix of the rows of `target` for each layer, got shape {K.shape} and a "
                    f"target of shape {self.target.shape}."
                )
        try:
            self.order_ = np.argsort(self.target, kind="stable")
        except TypeError as error:
            raise InputError(
                "`target` must hold classes or numbers that can be sorted, got some that cannot, or are missing. Pass "
                "them as texts."
            ) from error

    def _draw(self, ax: Axes | None, name: str, style: Style) -> None:
        n_layers = len(self.after)
        self.figure_, place = drawing.grid(ax, (1.2 + 3.0 * n_layers, 5.4))
        cells = place.subgridspec(2, 2 * n_layers, width_ratios=(1.0, 0.06) * n_layers)
        self.axes_ = np.array(
            [[self.figure_.add_subplot(cells[r, 2 * depth]) for depth in range(n_layers)] for r in range(2)]
        )
        self.images_ = np.empty((2, n_layers), dtype=object)
        off = ~np.eye(len(self.target), dtype=bool)
        for depth, pair in enumerate(zip(self.before, self.after, strict=True)):
            scaled = [self._sorted(K) for K in pair]
            low, high = np.quantile(np.concatenate([K[off] for K in scaled]), [0.005, 0.995]).tolist()
            own = {"vmin": low, "vmax": high} if high > low else {"vmin": low - 1e-12, "vmax": low + 1e-12}
            for r, K in enumerate(scaled):
                shown: Style = {"cmap": "cividis", "aspect": "auto", **own, **style}
                self.images_[r, depth] = self.axes_[r, depth].imshow(K, **shown)
                self._frame(self.axes_[r, depth], named=depth == 0)
            beside = self.figure_.add_subplot(cells[:, 2 * depth + 1])
            bar = self.figure_.colorbar(self.images_[1, depth], cax=beside)
            bar.outline.set_visible(False)
            drawing.titled(self.axes_[0, depth], drawing.layer_name(depth))
        bar.set_label("share of the mean diagonal")
        for ax, label in zip(self.axes_[:, 0], ("equal weights", "learnt weights"), strict=True):
            ax.set_ylabel(label)
        if name:
            drawing.titled(self.axes_[0, 0], f"{name}\n{drawing.layer_name(0)}")

    def _sorted(self, K: Array) -> Array:
        mean = float(K.diagonal().mean())
        return K[np.ix_(self.order_, self.order_)] / (mean if mean > 0 else 1.0)

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
        labels = [drawing.short(str(label), 14) for label in names]
        panel.set_yticks(ends - 0.5 * counts - 0.5 if named else [], labels if named else [])

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: arguments.Model,
        *,
        output: arguments.Output = None,
        max_rows: arguments.MostRows = 300,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> KernelMatricesDisplay:
        """Compute the matrices on the training rows of a fitted estimator and draw them.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
            The model, with its training rows.
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
class LayerSpectraDisplay(drawing.Display):
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

    before: drawing.LayerLines
    after: drawing.LayerLines
    rank_before: drawing.Line
    rank_after: drawing.Line

    #: Shares below this are rounding errors.
    floor = 1e-10

    def _belong(self) -> None:
        names = ("before", "after", "rank_before", "rank_after")
        drawing.same_length({name: getattr(self, name) for name in names})

    def _draw(self, ax: Axes | None, name: str, style: Style) -> None:
        self.figure_, self.ax_ = drawing.axes(ax, (8.0, 4.2))
        self.before_lines_: list[Any] = []
        self.after_lines_: list[Any] = []
        for depth in range(len(self.after)):
            for values, ranks, lines, label, line, wide in (
                (self.before, self.rank_before, self.before_lines_, "equal weights", "--", 1.0),
                (self.after, self.rank_after, self.after_lines_, "learnt weights", "-", 1.6),
            ):
                told = f"{drawing.layer_name(depth)}, {label}: {ranks[depth]:.3g}"
                own: Style = {"color": drawing.COLORS[depth % len(drawing.COLORS)], "label": told}
                drawn = {"linestyle": line, "linewidth": wide, **own, **style}
                shares = np.where(values[depth] > self.floor, values[depth], np.nan)
                lines += self.ax_.plot(np.arange(1, len(shares) + 1), shares, **drawn)
        drawing.log_axis(self.ax_, "x")
        if any((e > self.floor).any() for e in (*self.before, *self.after)):
            drawing.log_axis(self.ax_, "y")
        self.ax_.set(xlabel="number of the eigenvalue", ylabel="share of the trace")
        drawing.finish(self.ax_, name, title="effective rank")

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: arguments.Model,
        *,
        output: arguments.Output = None,
        center: Switch = False,
        max_rows: arguments.MostRows = MAX_ROWS,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> LayerSpectraDisplay:
        """Compute the spectra on the training rows of a fitted estimator and draw them.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
            The model, with its training rows.
        output : str or int, optional
            Class or output of a model with several; default the first.
        center : bool, default=False
            Whether to centre the matrices, see `kernelweave.inspection.layer_spectra`.
        max_rows : int, default=1000
            With more training rows, a random sample of this size is used, with a fixed seed.
        ax : matplotlib Axes, optional
            Default: a new figure.
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
