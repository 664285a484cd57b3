"""Pictures of fitted estimators: Display classes in scikit-learn's manner; matplotlib is imported when drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from kernelweave import inspection
from kernelweave._checks import InputError
from kernelweave._parameters import OneOf, Text, Whole, checked
from kernelweave.inspection import Model, Output

__all__ = [
    "CVCurveDisplay",
    "DescentDisplay",
    "KernelContributionsDisplay",
    "KernelMatricesDisplay",
    "KernelWeightsDisplay",
    "LayerSpectraDisplay",
    "LayerWeightsDisplay",
    "RegularizationPathDisplay",
]

Array = NDArray[np.float64]

#: A title, or None.
Title = Annotated[str | None, Text() | None]
#: How many are shown.
Most = Annotated[int, Whole(1)]

#: Okabe and Ito's palette, distinguishable with colour-blind vision.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#000000")
STYLES = ("-", "--", ":", "-.")


def _axes(ax: Any, size: tuple[float, float]) -> tuple[Any, Any]:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'kernelweave[plot]'.") from error
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax.figure, ax


def _grid(ax: Any, size: tuple[float, float]) -> tuple[Any, Any]:
    """The place of some axes, for several panels, in a new figure or instead of those given."""
    figure, frame = _axes(ax, size)
    place = frame.get_subplotspec()
    if place is None:
        raise InputError(
            "`ax` must be of a grid, as plt.subplots makes them: several panels take its place. Use None for a new "
            "figure."
        )
    # the given axes stay as an empty frame, as in scikit-learn's displays of several panels
    frame.set_axis_off()
    return figure, place


def _plain(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def _falling_alphas(ax: Any, alphas: Array) -> None:
    """An axis of strengths on which the strongest is on the left; an infinite one has no place on it."""
    if np.isfinite(alphas).any():
        ax.set_xscale("log")
    ax.invert_xaxis()


def _legend(ax: Any, **options: Any) -> None:
    """A legend of what has a label; none where nothing was drawn."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, **options)


def _short(name: str, most: int = 44) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


class _Bars:
    """Horizontal bars, one group per kernel."""

    _label = ""

    def __init__(self, names: ArrayLike, values: ArrayLike, outputs: Sequence[str] = ("",)) -> None:
        self.names = np.asarray(names, dtype=object)
        self.values = np.asarray(values, dtype=np.float64)
        self.outputs = tuple(outputs)

    @checked
    def plot(
        self,
        ax: Any = None,
        *,
        most: Most = 20,
        name: Title = None,
        **bar_kwargs: Any,
    ) -> Any:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        most : int, default=20
            Largest number of kernels shown; the rest is summed up in the title.
        name : str, optional
            Title.
        **bar_kwargs : dict
            Passed to `Axes.barh`.

        Returns
        -------
        self
        """
        values = self.values.reshape(len(self.values), len(self.outputs))
        shown = min(most, len(values))
        self.figure_, self.ax_ = _axes(
            ax, (7.0, 1.2 + 0.28 * max(shown, 1) * max(1.0, 0.6 * values.shape[1]))
        )
        height = 0.8 / values.shape[1]
        place = np.arange(shown)
        self.bars_ = []
        for k, output in enumerate(self.outputs):
            style = {"color": COLORS[k % len(COLORS)], **bar_kwargs}
            bars = self.ax_.barh(
                place + (k - 0.5 * (values.shape[1] - 1)) * height,
                values[:shown, k],
                height,
                label=output or None,
                **style,
            )
            self.bars_.append(bars)
        self.ax_.set_yticks(place, [_short(str(n)) for n in self.names[:shown]])
        self.ax_.invert_yaxis()
        self.ax_.set_xlabel(self._label)
        title = name or ""
        if len(values) > shown:
            total = values.sum()
            share = values[shown:].sum() / total if total > 0 else 0.0
            title = f"{title}  ({len(values) - shown} more kernels hold {share:.0%})".strip()
        self.ax_.set_title(title, loc="left", fontsize="medium")
        if len(self.outputs) > 1:
            # the longest bars are on top
            self.ax_.legend(frameon=False, loc="lower right")
        _plain(self.ax_)
        return self


class KernelWeightsDisplay(_Bars):
    """Kernel weights as bars, largest first.

    Parameters
    ----------
    names : array of str, shape (n_kernels,)
    values : array of shape (n_kernels,) or (n_kernels, n_outputs)
    outputs : sequence of str, default=("",)
        Names of the columns of `values`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : list of BarContainer
    """

    _label = "kernel weight"

    @classmethod
    @checked
    def from_estimator(cls, estimator: Model, *, ax: Any = None, **plot_kwargs: Any) -> KernelWeightsDisplay:
        """Draw the weights of a fitted estimator.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        ax : matplotlib Axes, optional
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
        display = cls(found.names, found.weights, found.outputs)
        if len(estimator.layer_kernel_names_) > 1:
            display._label = "kernel weight in the first layer"
        return display.plot(ax, **plot_kwargs)


class KernelContributionsDisplay(_Bars):
    """How much each kernel moves the decision values: standard deviation of its contribution over rows.

    Parameters
    ----------
    names : array of str, shape (n_kernels,)
    values : array of shape (n_kernels,) or (n_kernels, n_outputs)
        In units of the target.
    outputs : sequence of str, default=("",)

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : list of BarContainer
    """

    _label = "contribution (standard deviation over rows)"

    @classmethod
    @checked
    def from_estimator(
        cls, estimator: Model, X: Any, *, ax: Any = None, **plot_kwargs: Any
    ) -> KernelContributionsDisplay:
        """Draw the contributions on some rows.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        X : array-like of shape (n_rows, n_features)
        ax : matplotlib Axes, optional
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        KernelContributionsDisplay
        """
        found = inspection.contribution_sizes(estimator, X)
        return cls(found.names, found.weights, found.outputs).plot(ax, **plot_kwargs)


class RegularizationPathDisplay:
    """Weights (or coefficients) along the regularisation path, with the chosen point.

    Parameters
    ----------
    alphas, df : arrays of shape (n_alphas,)
    values : array of shape (n_alphas, n_lines)
    names : array of str, shape (n_lines,)
    chosen : int or None
        Position of the chosen strength, if one was chosen.
    ylabel : str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of Line2D
    chosen_line_ : Line2D
    """

    def __init__(
        self,
        alphas: ArrayLike,
        df: ArrayLike,
        values: ArrayLike,
        names: ArrayLike,
        chosen: int | None,
        ylabel: str,
    ) -> None:
        self.alphas = np.asarray(alphas, dtype=np.float64)
        self.df = np.asarray(df, dtype=np.float64)
        self.values = np.asarray(values, dtype=np.float64)
        self.names = np.asarray(names, dtype=object)
        self.chosen = chosen
        self.ylabel = ylabel

    @checked
    def plot(
        self,
        ax: Any = None,
        *,
        x: Annotated[str, OneOf("alpha", "df")] = "alpha",
        most: Most = 8,
        name: Title = None,
        **line_kwargs: Any,
    ) -> Any:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        x : {"alpha", "df"}, default="alpha"
            Strength of regularisation (falling to the right) or degrees of freedom.
        most : int, default=8
            Lines with a label: those that grow largest. The others are thin and grey.
        name : str, optional
            Title.
        **line_kwargs : dict
            Passed to `Axes.plot`.

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = _axes(ax, (7.5, 4.2))
        where = self.alphas if x == "alpha" else self.df
        used = np.flatnonzero(np.abs(self.values).max(axis=0) > 0)
        order = used[np.argsort(-np.abs(self.values[:, used]).max(axis=0), kind="stable")]
        self.lines_ = []
        for rank, m in enumerate(order):
            style: dict[str, Any] = {"color": "0.8", "linewidth": 0.8, "zorder": 1}
            if rank < most:
                style = {
                    "color": COLORS[rank % len(COLORS)],
                    "linestyle": STYLES[(rank // len(COLORS)) % len(STYLES)],
                    "label": _short(str(self.names[m]), 34),
                }
            self.lines_ += self.ax_.plot(where, self.values[:, m], **{**style, **line_kwargs})
        if self.chosen is not None:
            style = {"color": "0.3", "linestyle": ":", "label": "chosen"}
            self.chosen_line_ = self.ax_.axvline(where[self.chosen], **style)
        if x == "alpha":
            _falling_alphas(self.ax_, self.alphas)
        self.ax_.set_xlabel("alpha" if x == "alpha" else "degrees of freedom")
        self.ax_.set_ylabel(self.ylabel)
        self.ax_.set_title(name or "", loc="left", fontsize="medium")
        _legend(self.ax_, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        _plain(self.ax_)
        return self

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: Model,
        *,
        what: Annotated[str, OneOf("weights", "coef")] = "weights",
        alphas: ArrayLike | None = None,
        output: Output = None,
        ax: Any = None,
        **plot_kwargs: Any,
    ) -> RegularizationPathDisplay:
        """Solve the path again on the training rows and draw it.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        what : {"weights", "coef"}, default="weights"
            "coef" needs linear kernels.
        alphas : array-like, optional
            Default: the strengths the estimator tried, else an automatic path.
        output : str or int, optional
            Class or output of a model with several.
        ax : matplotlib Axes, optional
        **plot_kwargs : dict
            Passed to `plot`: ``x="df"`` draws against degrees of freedom.

        Returns
        -------
        RegularizationPathDisplay
        """
        path = inspection.regularization_path(estimator, alphas=alphas, output=output)
        if what == "coef":
            if path.coef is None:
                raise InputError(
                    "`what='coef'` needs linear kernels, such as kw.banks.linear_features(n_features)."
                )
            names = getattr(estimator, "feature_names_in_", None)
            if names is None:
                names = [f"x{j}" for j in range(path.coef.shape[1])]
            return cls(path.alphas, path.df, path.coef, names, path.chosen, "coefficient").plot(
                ax, **plot_kwargs
            )
        return cls(path.alphas, path.df, path.weights, path.names, path.chosen, "kernel weight").plot(
            ax, **plot_kwargs
        )


class CVCurveDisplay:
    """Mean score over folds along the path with a band of one standard error, and the chosen point.

    Parameters
    ----------
    alphas, mean, error : arrays of shape (n_alphas,)
    chosen : int
        Position of the chosen strength.
    ylabel : str, default="score"

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_, band_, chosen_line_ : artists
    """

    def __init__(
        self, alphas: ArrayLike, mean: ArrayLike, error: ArrayLike, chosen: int, ylabel: str = "score"
    ) -> None:
        self.alphas = np.asarray(alphas, dtype=np.float64)
        self.mean = np.asarray(mean, dtype=np.float64)
        self.error = np.asarray(error, dtype=np.float64)
        self.chosen = chosen
        self.ylabel = ylabel

    @checked
    def plot(self, ax: Any = None, *, name: Title = None, **line_kwargs: Any) -> CVCurveDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        name : str, optional
            Title.
        **line_kwargs : dict
            Passed to `Axes.plot`.

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = _axes(ax, (6.5, 3.8))
        style = {
            "color": COLORS[0],
            "marker": "o",
            "markersize": 3,
            "label": "mean over folds",
            **line_kwargs,
        }
        (self.line_,) = self.ax_.plot(self.alphas, self.mean, **style)
        self.band_ = self.ax_.fill_between(
            self.alphas,
            self.mean - self.error,
            self.mean + self.error,
            color=COLORS[0],
            alpha=0.2,
            label="± 1 standard error",
        )
        self.chosen_line_ = self.ax_.axvline(
            self.alphas[self.chosen], color="0.3", linestyle=":", label="chosen"
        )
        _falling_alphas(self.ax_, self.alphas)
        self.ax_.set_xlabel("alpha")
        self.ax_.set_ylabel(self.ylabel)
        self.ax_.set_title(name or "", loc="left", fontsize="medium")
        self.ax_.legend(frameon=False, fontsize="small", loc="lower center")
        _plain(self.ax_)
        return self

    @classmethod
    @checked
    def from_estimator(cls, estimator: Model, *, ax: Any = None, **plot_kwargs: Any) -> CVCurveDisplay:
        """Draw the curve of a fitted MKLRegressorCV or MKLClassifierCV, or of ``alpha="auto"``.

        Parameters
        ----------
        estimator : fitted estimator with `cv_results_`
        ax : matplotlib Axes, optional
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        CVCurveDisplay
        """
        check_is_fitted(estimator)
        results = getattr(estimator, "cv_results_", None)
        if results is None:
            raise InputError(
                f"{type(estimator).__name__} has no cross-validation curve: it was fitted at a fixed alpha. "
                "Use MKLRegressorCV, MKLClassifierCV or alpha='auto'."
            )
        return cls(
            results["alpha"],
            results["mean_test_score"],
            results["std_error_test_score"],
            estimator.best_index_,
            results.get("score_name", "score"),
        ).plot(ax, **plot_kwargs)


# ---- deep kernels ---------------------------------------------------------------------------------


def _layer(depth: int) -> str:
    return f"layer {depth + 1}"


class LayerWeightsDisplay:
    """Weights of the kernels of every layer as a heat map: a row for a kernel, a column for a layer.

    Cells hold the weights; their colour is the share of the layer, because the layers of a deep kernel have no common
    scale. A hatched cell says that the layer does not have this kernel.

    Parameters
    ----------
    names : sequence of arrays of str
        Kernels of every layer, the lowest first.
    weights : sequence of arrays of shape (n_kernels,) or (n_kernels, n_outputs)
    outputs : sequence of str, default=("",)
        Classes or outputs, drawn side by side.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    images_ : list of AxesImage
        One for each output, with masked cells where a layer lacks a kernel.
    texts_ : list of Text
        The numbers in the cells.
    """

    def __init__(
        self, names: Sequence[ArrayLike], weights: Sequence[ArrayLike], outputs: Sequence[str] = ("",)
    ) -> None:
        self.names = [np.asarray(layer, dtype=object) for layer in names]
        self.weights = [np.asarray(layer, dtype=np.float64) for layer in weights]
        self.outputs = tuple(outputs)

    def _table(self) -> tuple[list[str], Array, Array]:
        """Names, and weights and shares (n_names, n_layers, n_outputs), NaN where a layer lacks a kernel."""
        keys: dict[tuple[str, int], int] = {}
        places = []
        for layer in self.names:
            seen: dict[str, int] = {}
            own = []
            for name in layer:
                # the first layer's kernels are "on all" columns, those above have none; equal names stay apart
                short = str(name).removesuffix(" on all")
                seen[short] = seen.get(short, 0) + 1
                own.append(keys.setdefault((short, seen[short]), len(keys)))
            places.append(own)
        values = np.full((len(keys), len(self.names), len(self.outputs)), np.nan)
        shares = values.copy()
        for depth, (own, w) in enumerate(zip(places, self.weights, strict=True)):
            columns = w.reshape(len(w), -1)
            total = columns.sum(axis=0)
            values[own, depth] = columns
            shares[own, depth] = columns / np.where(total > 0, total, 1.0)
        return [name for name, _ in keys], values, shares

    @checked
    def plot(
        self,
        ax: Any = None,
        *,
        most: Most = 20,
        name: Title = None,
        **image_kwargs: Any,
    ) -> Any:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        most : int, default=20
            Largest number of kernels shown, those with the largest shares; the title says how many are not.
        name : str, optional
            Title.
        **image_kwargs : dict
            Passed to `Axes.imshow`.

        Returns
        -------
        self
        """
        labels, values, shares = self._table()
        n_layers, n_outputs = values.shape[1:]
        shown = np.arange(len(labels))
        if len(labels) > most:
            largest = np.nanmax(shares, axis=(1, 2))
            shown = np.sort(np.argsort(-largest, kind="stable")[:most])
        gap = 0.35
        width = n_outputs * n_layers + gap * (n_outputs - 1)
        self.figure_, self.ax_ = _axes(ax, (3.4 + 0.85 * width, 1.5 + 0.36 * len(shown)))
        largest_share = float(np.nanmax(shares, initial=0.0)) or 1.0
        style = {"cmap": "cividis", "vmin": 0.0, "vmax": largest_share, "aspect": "auto", **image_kwargs}
        self.images_: list[Any] = []
        self.texts_: list[Any] = []
        ticks: list[float] = []
        for k, output in enumerate(self.outputs):
            left = k * (n_layers + gap) - 0.5
            block = np.ma.masked_invalid(shares[shown, :, k])
            image = self.ax_.imshow(
                block,
                extent=(left, left + n_layers, len(shown) - 0.5, -0.5),
                interpolation="nearest",
                **style,
            )
            self.images_.append(image)
            ticks += [left + 0.5 + depth for depth in range(n_layers)]
            for row, m in enumerate(shown):
                for depth in range(n_layers):
                    self._cell(image, left + depth, row, values[m, depth, k], shares[m, depth, k])
            if n_outputs > 1:
                self.ax_.text(left + 0.5 * n_layers, -0.62, output, ha="center", va="bottom")
        self.ax_.set_xlim(-0.5, width - 0.5)
        self.ax_.set_ylim(len(shown) - 0.5, -0.5)
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if n_outputs > 1 else {}
        self.ax_.set_xticks(ticks, [_layer(d) for d in range(n_layers)] * n_outputs, **turned)
        self.ax_.set_yticks(range(len(shown)), [_short(labels[m], 34) for m in shown])
        self.ax_.tick_params(length=0)
        self.ax_.spines[:].set_visible(False)
        title = name or ""
        if len(labels) > len(shown):
            title = f"{title}  ({len(labels) - len(shown)} more kernels)".strip()
        self.ax_.set_title(title, loc="left", fontsize="medium", pad=20 if n_outputs > 1 else 6)
        bar = self.figure_.colorbar(self.images_[0], ax=self.ax_, fraction=0.05, pad=0.03)
        bar.set_label("share of the layer's weights")
        bar.outline.set_visible(False)
        return self

    def _cell(self, image: Any, left: float, row: int, value: float, share: float) -> None:
        from matplotlib.patches import Rectangle

        if np.isnan(value):
            frame = Rectangle(
                (left, row - 0.5), 1.0, 1.0, facecolor="none", edgecolor="0.8", hatch="///", linewidth=0
            )
            self.ax_.add_patch(frame)
            return
        red, green, blue, _ = image.cmap(image.norm(share))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        text = "0" if value == 0 else f"{value:.2g}" if value < 0.01 or value >= 1000 else f"{value:.2f}"
        self.texts_.append(
            self.ax_.text(
                left + 0.5,
                row,
                text,
                ha="center",
                va="center",
                fontsize="small",
                color="white" if dark else "black",
            )
        )

    @classmethod
    @checked
    def from_estimator(
        cls, estimator: Model, *, output: Output = None, ax: Any = None, **plot_kwargs: Any
    ) -> LayerWeightsDisplay:
        """Draw the weights of a fitted estimator.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        output : str or int, optional
            One class or output of a model with several; default all of them side by side.
        ax : matplotlib Axes, optional
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
        return cls(found.names, found.weights, outputs).plot(ax, **plot_kwargs)


class DescentDisplay:
    """Criterion and validation loss over the iterations of a deep learner, above the weights of every layer.

    Parameters
    ----------
    criterion : array of shape (n_steps,)
        The start included.
    names : sequence of arrays of str
        Kernels of every layer.
    weights : sequence of arrays of shape (n_steps, n_kernels of the layer)
    validation, validation_error : arrays of shape (n_steps,), optional
    kept : int, optional
        The step whose weights were kept.
    error_label : str, default="error rate"
        What `validation_error` is.

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

    def __init__(
        self,
        criterion: ArrayLike,
        names: Sequence[ArrayLike],
        weights: Sequence[ArrayLike],
        validation: ArrayLike | None = None,
        validation_error: ArrayLike | None = None,
        kept: int | None = None,
        error_label: str = "error rate",
    ) -> None:
        self.criterion = np.asarray(criterion, dtype=np.float64)
        self.names = [np.asarray(layer, dtype=object) for layer in names]
        self.weights = [np.asarray(layer, dtype=np.float64) for layer in weights]
        self.validation = None if validation is None else np.asarray(validation, dtype=np.float64)
        self.validation_error = (
            None if validation_error is None else np.asarray(validation_error, dtype=np.float64)
        )
        self.kept = kept
        self.error_label = error_label

    @checked
    def plot(
        self,
        ax: Any = None,
        *,
        most: Most = 8,
        name: Title = None,
        **line_kwargs: Any,
    ) -> DescentDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes of a grid, optional
            Its place is taken by several panels.
        most : int, default=8
            Kernels of a layer with a label: those with the largest weights. The others are thin and grey.
        name : str, optional
            Title.
        **line_kwargs : dict
            Passed to `Axes.plot`.

        Returns
        -------
        self
        """
        n_layers = len(self.weights)
        entries = min(most, max(w.shape[1] for w in self.weights))
        self.figure_, place = _grid(ax, (max(6.0, 2.0 + 3.1 * n_layers), 5.2 + 0.2 * entries))
        rows = place.subgridspec(2, 1, height_ratios=(1.0, 1.15 + 0.12 * entries))
        self.ax_ = self.figure_.add_subplot(rows[0])
        self.layer_axes_ = [self.figure_.add_subplot(cell) for cell in rows[1].subgridspec(1, n_layers)]
        steps = np.arange(len(self.criterion))
        marker = {"marker": "o", "markersize": 3} if len(steps) <= 60 else {}
        style = {"color": COLORS[0], "label": "criterion", **marker, **line_kwargs}
        (self.criterion_line_,) = self.ax_.plot(steps, self.criterion, **style)
        self.validation_line_ = self.error_line_ = self.kept_line_ = self.error_ax_ = None
        if self.validation is not None:
            style = {
                "color": COLORS[1],
                "linestyle": "--",
                "label": "validation loss",
                **marker,
                **line_kwargs,
            }
            (self.validation_line_,) = self.ax_.plot(steps, self.validation, **style)
        self.ax_.set_ylabel("mean loss" if self.validation is not None else "criterion")
        if self.validation_error is not None:
            self.error_ax_ = self.ax_.twinx()
            style = {"color": COLORS[2], "linestyle": ":", "label": f"validation {self.error_label} (right)"}
            (self.error_line_,) = self.error_ax_.plot(
                steps, self.validation_error, **{**style, **line_kwargs}
            )
            self.error_ax_.set_ylabel(f"validation {self.error_label}", color=COLORS[2])
            self.error_ax_.spines[["top", "left"]].set_visible(False)
        for panel in [self.ax_, *self.layer_axes_]:
            if self.kept is not None:
                line = panel.axvline(self.kept, color="0.3", linestyle=":", linewidth=1, zorder=0)
                if panel is self.ax_:
                    self.kept_line_ = line
                    line.set_label("kept")
            panel.set_xlabel("iteration")
            panel.xaxis.get_major_locator().set_params(integer=True)
            _plain(panel)
        lines = [self.criterion_line_, self.validation_line_, self.error_line_, self.kept_line_]
        handles = [line for line in lines if line is not None]
        place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": len(handles)}
        self.ax_.legend(handles=handles, frameon=False, fontsize="small", **place)
        self.ax_.set_title(name or "", loc="left", fontsize="medium")
        self.weight_lines_ = []
        for depth, (panel, names, w) in enumerate(
            zip(self.layer_axes_, self.names, self.weights, strict=True)
        ):
            self.weight_lines_.append(self._draw_layer(panel, steps, names, w, most, line_kwargs))
            panel.set_title(_layer(depth), loc="left", fontsize="medium")
        self.layer_axes_[0].set_ylabel("kernel weight")
        return self

    @staticmethod
    def _draw_layer(
        panel: Any, steps: NDArray[Any], names: NDArray[Any], w: Array, most: int, line_kwargs: dict[str, Any]
    ) -> list[Any]:
        from matplotlib.transforms import ScaledTranslation

        order = np.argsort(-w.max(axis=0), kind="stable")
        lines: list[Any] = [None] * len(order)
        for rank, m in enumerate(order):
            style: dict[str, Any] = {"color": "0.8", "linewidth": 0.8, "zorder": 1}
            if rank < most:
                # few kernels keep their colours from layer to layer
                key = int(m) if len(order) <= len(COLORS) else rank
                style = {
                    "color": COLORS[key % len(COLORS)],
                    "linestyle": STYLES[key % len(STYLES)],
                    "label": _short(str(names[m]).removesuffix(" on all"), 26),
                }
            (lines[m],) = panel.plot(steps, w[:, m], **{**style, **line_kwargs})
        panel.set_ylim(bottom=min(0.0, float(w.min())))
        # below the label of the axis, however high the panel is
        below = panel.transAxes + ScaledTranslation(0.0, -36.0 / 72.0, panel.figure.dpi_scale_trans)
        panel.legend(
            handles=[lines[m] for m in order[:most]], frameon=False, fontsize="small", loc="upper center",
            bbox_to_anchor=(0.5, 0.0), bbox_transform=below,
        )  # fmt: skip
        return lines

    @classmethod
    @checked
    def from_estimator(
        cls, estimator: Model, *, output: Output = None, ax: Any = None, **plot_kwargs: Any
    ) -> DescentDisplay:
        """Draw the descent of a fitted estimator whose learner is deep.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        output : str or int, optional
            Class or output of a model with several; default the first.
        ax : matplotlib Axes of a grid, optional
            Its place is taken by several panels.
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


class KernelMatricesDisplay:
    """Kernel matrices of every layer on training rows, with equal weights above and with learnt ones below.

    Matrices are divided by their mean diagonal. The two of a layer share their colours, which leave out the most
    extreme hundredth of the values off the diagonal.

    Parameters
    ----------
    before, after : sequences of arrays of shape (n_rows, n_rows)
        One matrix per layer.
    target : array of shape (n_rows,)
        Classes or numbers, by which rows are sorted.
    classes : bool, default=True
        Whether `target` holds classes, whose borders are drawn.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes, shape (2, n_layers)
    images_ : array of AxesImage, shape (2, n_layers)
    order_ : array of int, shape (n_rows,)
        How rows are sorted.
    """

    def __init__(
        self, before: Sequence[ArrayLike], after: Sequence[ArrayLike], target: ArrayLike, classes: bool = True
    ) -> None:
        self.before = [np.asarray(K, dtype=np.float64) for K in before]
        self.after = [np.asarray(K, dtype=np.float64) for K in after]
        self.target = np.asarray(target)
        self.classes = classes

    @checked
    def plot(self, ax: Any = None, *, name: Title = None, **image_kwargs: Any) -> KernelMatricesDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes of a grid, optional
            Its place is taken by several panels.
        name : str, optional
            Title.
        **image_kwargs : dict
            Passed to `Axes.imshow`.

        Returns
        -------
        self
        """
        n_layers = len(self.after)
        self.figure_, place = _grid(ax, (1.2 + 3.0 * n_layers, 5.4))
        grid = place.subgridspec(2, 2 * n_layers, width_ratios=(1.0, 0.06) * n_layers)
        self.axes_ = np.array(
            [[self.figure_.add_subplot(grid[r, 2 * depth]) for depth in range(n_layers)] for r in range(2)]
        )
        self.order_ = np.argsort(self.target, kind="stable")
        images: list[list[Any]] = [[], []]
        for r, matrices in enumerate((self.before, self.after)):
            for depth, K in enumerate(matrices):
                low, high = self._limits(depth)
                style = {"cmap": "cividis", "vmin": low, "vmax": high, "aspect": "auto", **image_kwargs}
                sorted_K = self._scaled(K)[np.ix_(self.order_, self.order_)]
                images[r].append(self.axes_[r, depth].imshow(sorted_K, **style))
        self.images_ = np.array(images)
        for depth in range(n_layers):
            beside = self.figure_.add_subplot(grid[:, 2 * depth + 1])
            bar = self.figure_.colorbar(self.images_[1, depth], cax=beside)
            if depth == n_layers - 1:
                bar.set_label("share of the mean diagonal")
            bar.outline.set_visible(False)
            self.axes_[0, depth].set_title(_layer(depth), loc="left", fontsize="medium")
        for r, label in enumerate(("equal weights", "learnt weights")):
            for depth in range(n_layers):
                self._frame(self.axes_[r, depth], named=depth == 0)
            self.axes_[r, 0].set_ylabel(label)
        if name:
            self.axes_[0, 0].set_title(f"{name}\n{_layer(0)}", loc="left", fontsize="medium")
        return self

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

    def _frame(self, panel: Any, *, named: bool) -> None:
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
        labels = [_short(str(label), 14) for label in names]
        panel.set_yticks(ends - 0.5 * counts - 0.5 if named else [], labels if named else [])

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: Model,
        *,
        output: Output = None,
        max_rows: int = 300,
        ax: Any = None,
        **plot_kwargs: Any,
    ) -> KernelMatricesDisplay:
        """Compute the matrices on the training rows of a fitted estimator and draw them.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        output : str or int, optional
            Class or output of a model with several; default the first.
        max_rows : int, default=300
            Of more training rows, as many as this are drawn at random (with a fixed seed): a picture has not many more
            pixels.
        ax : matplotlib Axes of a grid, optional
            Its place is taken by several panels.
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


class LayerSpectraDisplay:
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

    #: Shares below this are rounding.
    floor = 1e-10

    def __init__(
        self,
        before: Sequence[ArrayLike],
        after: Sequence[ArrayLike],
        rank_before: ArrayLike,
        rank_after: ArrayLike,
    ) -> None:
        self.before = [np.asarray(e, dtype=np.float64) for e in before]
        self.after = [np.asarray(e, dtype=np.float64) for e in after]
        self.rank_before = np.asarray(rank_before, dtype=np.float64)
        self.rank_after = np.asarray(rank_after, dtype=np.float64)

    @checked
    def plot(self, ax: Any = None, *, name: Title = None, **line_kwargs: Any) -> LayerSpectraDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        name : str, optional
            Title.
        **line_kwargs : dict
            Passed to `Axes.plot`.

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = _axes(ax, (8.0, 4.2))
        self.before_lines_: list[Any] = []
        self.after_lines_: list[Any] = []
        for depth in range(len(self.after)):
            color = COLORS[depth % len(COLORS)]
            for values, ranks, lines, label, style in (
                (self.before, self.rank_before, self.before_lines_, "equal weights", "--"),
                (self.after, self.rank_after, self.after_lines_, "learnt weights", "-"),
            ):
                e = values[depth]
                drawn = {
                    "color": color,
                    "linestyle": style,
                    "linewidth": 1.0 if style == "--" else 1.6,
                    "label": f"{_layer(depth)}, {label}: {ranks[depth]:.3g}",
                }
                lines += self.ax_.plot(
                    np.arange(1, len(e) + 1), np.where(e > self.floor, e, np.nan), **{**drawn, **line_kwargs}
                )
        self.ax_.set_xscale("log")
        if any((e > self.floor).any() for e in (*self.before, *self.after)):
            self.ax_.set_yscale("log")
        self.ax_.set_xlabel("number of the eigenvalue")
        self.ax_.set_ylabel("share of the trace")
        self.ax_.set_title(name or "", loc="left", fontsize="medium")
        self.ax_.legend(
            title="effective rank",
            frameon=False,
            fontsize="small",
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
        )
        _plain(self.ax_)
        return self

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: Model,
        *,
        output: Output = None,
        center: bool = False,
        max_rows: int = inspection.MAX_ROWS,
        ax: Any = None,
        **plot_kwargs: Any,
    ) -> LayerSpectraDisplay:
        """Compute the spectra on the training rows of a fitted estimator and draw them.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        output : str or int, optional
            Class or output of a model with several; default the first.
        center : bool, default=False
            Of the centred matrices, see `kernelweave.inspection.layer_spectra`.
        max_rows : int, default=1000
            Of more training rows, as many as this are drawn at random, with a fixed seed.
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
