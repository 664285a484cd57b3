"""Pictures of fitted estimators: Display classes in scikit-learn's manner; matplotlib is imported when drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from kernelweave import inspection
from kernelweave._checks import InputError, check_known

__all__ = [
    "CVCurveDisplay",
    "KernelContributionsDisplay",
    "KernelWeightsDisplay",
    "RegularizationPathDisplay",
]

Array = NDArray[np.float64]

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


def _plain(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def _short(name: str, most: int = 44) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


class _Bars:
    """Horizontal bars, one group per kernel."""

    _label = ""

    def __init__(self, names: ArrayLike, values: ArrayLike, outputs: Sequence[str] = ("",)) -> None:
        self.names = np.asarray(names, dtype=object)
        self.values = np.asarray(values, dtype=np.float64)
        self.outputs = tuple(outputs)

    def plot(self, ax: Any = None, *, most: int = 20, name: str | None = None, **bar_kwargs: Any) -> Any:
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
        values = self.values.reshape(len(self.values), -1)
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
            share = values[shown:].sum() / values.sum()
            title = f"{title}  ({len(values) - shown} more kernels hold {share:.0%})".strip()
        self.ax_.set_title(title, loc="left", fontsize="medium")
        if len(self.outputs) > 1:
            self.ax_.legend(frameon=False)
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
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **plot_kwargs: Any) -> KernelWeightsDisplay:
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
        return cls(found.names, found.weights, found.outputs).plot(ax, **plot_kwargs)


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
    def from_estimator(
        cls, estimator: Any, X: Any, *, ax: Any = None, **plot_kwargs: Any
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

    def plot(
        self, ax: Any = None, *, x: str = "alpha", most: int = 8, name: str | None = None, **line_kwargs: Any
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
        check_known(x, ("alpha", "df"), "x")
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
            self.ax_.set_xscale("log")
            self.ax_.invert_xaxis()
        self.ax_.set_xlabel("alpha" if x == "alpha" else "degrees of freedom")
        self.ax_.set_ylabel(self.ylabel)
        self.ax_.set_title(name or "", loc="left", fontsize="medium")
        self.ax_.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        _plain(self.ax_)
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        what: str = "weights",
        alphas: ArrayLike | None = None,
        output: str | int | None = None,
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
        check_known(what, ("weights", "coef"), "what")
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

    def plot(self, ax: Any = None, *, name: str | None = None, **line_kwargs: Any) -> CVCurveDisplay:
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
        self.ax_.set_xscale("log")
        self.ax_.invert_xaxis()
        self.ax_.set_xlabel("alpha")
        self.ax_.set_ylabel(self.ylabel)
        self.ax_.set_title(name or "", loc="left", fontsize="medium")
        self.ax_.legend(frameon=False, fontsize="small")
        _plain(self.ax_)
        return self

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **plot_kwargs: Any) -> CVCurveDisplay:
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
