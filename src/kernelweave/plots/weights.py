"""Weights and contributions of kernels: bars, and a heat map of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave import inspection
from kernelweave._checks import InputError
from kernelweave._drawing import percent
from kernelweave._forms import numbered
from kernelweave._parameters import checked
from kernelweave._types import Array, Axes, Features, Style
from kernelweave.inspection import arguments
from kernelweave.inspection.weights import fractions_of
from kernelweave.plots import drawing

if TYPE_CHECKING:
    from matplotlib.image import AxesImage

__all__ = [
    "ColumnRelevanceDisplay",
    "KernelContributionsDisplay",
    "KernelWeightsDisplay",
    "LayerWeightsDisplay",
]


def _check_outputs(outputs: Sequence[str], values: Array) -> None:
    """Raise unless there is a name for every column."""
    columns = 1 if values.ndim == 1 else values.shape[1]
    if len(outputs) != columns:
        raise InputError(
            f"`outputs` must have one name for each column ({columns}), got {len(outputs)}. Pass outputs= with the "
            "classes or outputs."
        )


@dataclass(eq=False, repr=False)
class _Bars(drawing.ListDisplay):
    """Horizontal bars, one group per kernel, or column."""

    names: drawing.Names
    values: drawing.Columns
    outputs: drawing.Names = ("",)

    def _belong(self) -> None:
        drawing.same_length({"names": self.names, "values": self.values})
        _check_outputs(self.outputs, self.values)

    _label = ""
    _item = "kernel"

    def _draw(self, ax: Axes | None, most: int, name: str, style: Style) -> None:
        n_outputs = len(self.outputs)
        values = self.values.reshape(len(self.values), n_outputs)
        values = np.where(np.isinf(values), np.nan, values)
        shown = min(most, len(values))
        self.figure_, self.ax_ = drawing.axes(
            ax, (7.0, 1.2 + 0.28 * max(shown, 1) * max(1.0, 0.6 * n_outputs))
        )
        height, place = 0.8 / n_outputs, np.arange(shown)
        self.bars_ = []
        for k, output in enumerate(self.outputs):
            own = {"color": drawing.COLORS[k % len(drawing.COLORS)], "label": output or None, **style}
            beside = place + (k - 0.5 * (n_outputs - 1)) * height
            self.bars_.append(self.ax_.barh(beside, values[:shown, k], height, **own))
        self.ax_.set_yticks(place, [drawing.short(name) for name in self.names[:shown]])
        self.ax_.invert_yaxis()
        self.ax_.set_xlabel(self._label)
        title = name
        if len(values) > shown:
            total = values.sum()
            share = values[shown:].sum() / total if total > 0 else 0.0
            more = numbered(len(values) - shown, f"more {self._item} has", f"more {self._item}s have")
            title = f"{title}  ({more} {percent(share)})".strip()
        drawing.titled(self.ax_, title)
        if n_outputs > 1:
            drawing.legend_beside(self.ax_)
        drawing.plain(self.ax_)


class KernelWeightsDisplay(_Bars):
    """Kernel weights as bars, largest first.

    Parameters
    ----------
    names : array of str, shape (n_kernels,)
        In the order of the values.
    values : array of shape (n_kernels,) or (n_kernels, n_outputs)
        A row for each name.
    outputs : sequence of str, default=("",)
        Names of the columns of `values`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : list of BarContainer
    """

    _label = "kernel weight (fraction)"

    @classmethod
    @checked
    def from_estimator(
        cls, estimator: arguments.Model, *, ax: Axes | None = None, **plot_kwargs: Any
    ) -> KernelWeightsDisplay:
        """Draw the weights of a fitted estimator, as fractions that sum to one.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
            The model whose weights are drawn.
        ax : matplotlib Axes, optional
            Default: a new figure.
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        KernelWeightsDisplay

        Examples
        --------
        >>> import matplotlib; matplotlib.use("Agg")
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(40, 3))
        >>> model = kw.MKLRegressor(kw.banks.linear_features(3)).fit(X, X[:, 0] - X[:, 2])
        >>> len(kw.plots.KernelWeightsDisplay.from_estimator(model).ax_.patches) >= 2
        True
        """
        found = inspection.kernel_weights(estimator)
        display = cls(list(found.names), found.fractions, found.outputs)
        if len(estimator.layer_kernel_names_) > 1:
            display._label = "kernel weight in the first layer (fraction)"
        return display.plot(ax, **plot_kwargs)


class ColumnRelevanceDisplay(_Bars):
    """Relevance of columns in a learnt metric as bars, largest first.

    Parameters
    ----------
    names : array of str, shape (n_columns,)
        In the order of the values.
    values : array of shape (n_columns,)
        Fractions of the trace of the metric.
    outputs : sequence of str, default=("",)
        Classes or outputs, in the order of the columns.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : list of BarContainer
    """

    _label = "relevance (fraction of the trace of the metric)"
    _item = "column"

    @classmethod
    @checked
    def from_estimator(
        cls, estimator: arguments.Model, *, ax: Axes | None = None, **plot_kwargs: Any
    ) -> ColumnRelevanceDisplay:
        """Draw `kernelweave.inspection.column_relevance` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
            With kernels in a learnt metric; `InputError` for others.
        ax : matplotlib Axes, optional
            Default: a new figure.
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        ColumnRelevanceDisplay

        Examples
        --------
        >>> import matplotlib; matplotlib.use("Agg")
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(60, 3))
        >>> model = kw.MKLRegressor(learner="metric").fit(X, np.sin(2 * X[:, 1]))
        >>> kw.plots.ColumnRelevanceDisplay.from_estimator(model).names[0]
        'x1'
        """
        found = inspection.column_relevance(estimator)
        if not found:
            raise InputError(
                "Relevance is drawn for models with kernels in a learnt metric, got one without. Fit with "
                "learner='metric'."
            )
        return cls(list(found), np.array(list(found.values()))).plot(ax, **plot_kwargs)


class KernelContributionsDisplay(_Bars):
    """Effect of each kernel on the decision values: standard deviation of its contribution over rows.

    Parameters
    ----------
    names : array of str, shape (n_kernels,)
        In the order of the values.
    values : array of shape (n_kernels,) or (n_kernels, n_outputs)
        In units of the target.
    outputs : sequence of str, default=("",)
        Classes or outputs, in the order of the columns.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : list of BarContainer
    """

    _label = "contribution (standard deviation over rows)"

    @classmethod
    @checked
    def from_estimator(
        cls, estimator: arguments.Model, X: Features, *, ax: Axes | None = None, **plot_kwargs: Any
    ) -> KernelContributionsDisplay:
        """Draw the contributions on some rows.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
            The model that predicts the rows.
        X : array-like, frame, sparse matrix or views
            Rows in the form that `fit` took: an array, a data frame or views with the same columns.
        ax : matplotlib Axes, optional
            Default: a new figure.
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        KernelContributionsDisplay
        """
        found = inspection.contribution_sizes(estimator, X)
        return cls(list(found.names), found.weights, found.outputs).plot(ax, **plot_kwargs)


@dataclass(eq=False, repr=False)
class LayerWeightsDisplay(drawing.ListDisplay):
    """Weights of the kernels of every layer as a heat map: a row for a kernel, a column for a layer.

    Weights are shown as fractions of those of a layer, because the layers of a deep kernel have no common scale. A
    hatched cell means that the layer does not have this kernel.

    Parameters
    ----------
    names : sequence of arrays of str
        Kernels of every layer, the lowest first.
    weights : sequence of arrays of shape (n_kernels,) or (n_kernels, n_outputs)
        Weights of the kernels of every layer.
    outputs : sequence of str, default=("",)
        Classes or outputs, drawn side by side.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    images_ : list of AxesImage
        One for each output, with masked cells if a layer does not have a kernel.
    texts_ : list of Text
        The numbers in the cells.
    """

    names: drawing.LayerNames
    weights: drawing.LayerColumns
    outputs: drawing.Names = ("",)

    def _belong(self) -> None:
        drawing.same_length({"names": self.names, "weights": self.weights})
        for own, layer in zip(self.names, self.weights, strict=True):
            drawing.same_length({"names": own, "weights": layer})
            _check_outputs(self.outputs, layer)

    def _table(self) -> tuple[list[str], Array]:
        """Names, and fractions (n_names, n_layers, n_outputs), NaN if a layer does not have a kernel."""
        layers = []
        for layer in self.names:
            # only kernels of the first layer are "on all" columns, so that equal names of other layers differ
            names = [name.removesuffix(" on all") for name in layer]
            layers.append([(name, names[:m].count(name)) for m, name in enumerate(names)])
        keys = list(dict.fromkeys(key for layer in layers for key in layer))
        shares = np.full((len(keys), len(layers), len(self.outputs)), np.nan)
        for depth, (own, w) in enumerate(zip(layers, self.weights, strict=True)):
            shares[[keys.index(key) for key in own], depth] = fractions_of(w).reshape(len(w), -1)
        return [name for name, _ in keys], shares

    def _draw(self, ax: Axes | None, most: int, name: str, style: Style) -> None:
        labels, shares = self._table()
        shown = np.sort(np.argsort(-np.nanmax(shares, axis=(1, 2)), kind="stable")[:most])
        title = name
        if len(labels) > len(shown):
            title = f"{title}  ({numbered(len(labels) - len(shown), 'more kernel')})".strip()
        shares = shares[shown]
        n_rows, n_layers, n_outputs = shares.shape
        gap, several = 0.35, n_outputs > 1
        width = n_outputs * n_layers + gap * (n_outputs - 1)
        self.figure_, self.ax_ = drawing.axes(ax, (3.4 + 0.85 * width, 1.5 + 0.36 * n_rows))
        largest = float(np.nanmax(shares, initial=0.0)) or 1.0
        style = {"cmap": "cividis", "vmin": 0.0, "vmax": largest, "aspect": "auto", **style}
        self.images_: list[Any] = []
        self.texts_: list[Any] = []
        ticks: list[float] = []
        for k, output in enumerate(self.outputs):
            left = k * (n_layers + gap)
            place = (left - 0.5, left + n_layers - 0.5, n_rows - 0.5, -0.5)
            block = np.ma.masked_invalid(shares[:, :, k])
            image = self.ax_.imshow(block, extent=place, interpolation="nearest", **style)
            self.images_.append(image)
            ticks += [left + depth for depth in range(n_layers)]
            for (row, depth), value in np.ndenumerate(shares[:, :, k]):
                self._cell(image, left + depth, row, value)
            if several:
                self.ax_.text(left + 0.5 * (n_layers - 1), -0.62, output, ha="center", va="bottom")
        self.ax_.set(xlim=(-0.5, width - 0.5), ylim=(n_rows - 0.5, -0.5))
        turned: Style = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if several else {}
        self.ax_.set_xticks(ticks, [drawing.layer_name(d) for d in range(n_layers)] * n_outputs, **turned)
        self.ax_.set_yticks(range(n_rows), [drawing.short(labels[m], 34) for m in shown])
        self.ax_.tick_params(length=0)
        self.ax_.spines[:].set_visible(False)
        drawing.titled(self.ax_, title, pad=20 if several else 6)
        bar = self.figure_.colorbar(self.images_[0], ax=self.ax_, fraction=0.05, pad=0.03)
        bar.set_label("fraction of the layer's weights")
        bar.outline.set_visible(False)

    def _cell(self, image: AxesImage, column: float, row: int, value: float) -> None:
        from matplotlib.patches import Rectangle

        if np.isnan(value):
            empty: Style = {"facecolor": "none", "edgecolor": "0.8", "hatch": "///", "linewidth": 0}
            self.ax_.add_patch(Rectangle((column - 0.5, row - 0.5), 1.0, 1.0, **empty))
            return
        red, green, blue, _ = image.to_rgba(np.array([value]))[0]
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        text = "0" if value == 0 else f"{value:.2g}" if value < 0.01 else f"{value:.2f}"
        style: Style = {"ha": "center", "va": "center", "fontsize": "small"}
        self.texts_.append(self.ax_.text(column, row, text, color="white" if dark else "black", **style))

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: arguments.Model,
        *,
        output: arguments.Output = None,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> LayerWeightsDisplay:
        """Draw the weights of a fitted estimator.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
            The model whose weights are drawn.
        output : str or int, optional
            One class or output of a model with several; default all of them side by side.
        ax : matplotlib Axes, optional
            Default: a new figure.
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        LayerWeightsDisplay

        Examples
        --------
        >>> import matplotlib; matplotlib.use("Agg")
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(40, 2))
        >>> model = kw.MKLClassifier(kw.banks.mlmkl(), "deep-uniform", normalize="cosine").fit(X, X[:, 0] > 0)
        >>> display = kw.plots.LayerWeightsDisplay.from_estimator(model)
        >>> [text.get_text() for text in display.texts_[:2]]
        ['0.25', '0.25']
        """
        found = inspection.layer_weights(estimator, output=output)
        outputs = found.outputs if len(found.outputs) > 1 else ("",)
        return cls([list(own) for own in found.names], found.weights, outputs).plot(ax, **plot_kwargs)
