"""Curves over the regularisation parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kernelweave import inspection
from kernelweave._checks import InputError
from kernelweave._drawing import clip_score
from kernelweave._parameters import InstanceOf, OneOf, Text, Whole, check_value, checked
from kernelweave._types import Array, Axes, Style
from kernelweave.fitting.task import named_values
from kernelweave.inspection import arguments
from kernelweave.plots import drawing

__all__ = ["CVCurveDisplay", "RegularizationPathDisplay", "SelectionCriteriaDisplay"]

#: The name of a learner's regularisation parameter.
Parameter = Annotated[str, OneOf("alpha", "C")]


@dataclass(eq=False, repr=False)
class RegularizationPathDisplay(drawing.Checked):
    """Weights (or coefficients) along the regularisation path, with the chosen point.

    Parameters
    ----------
    alphas, df : arrays of shape (n_alphas,)
        Regularisation parameters.
    values : array of shape (n_alphas, n_lines)
        A row for each name.
    names : array of str, shape (n_lines,)
        In the order of the values.
    chosen : int or None
        Position of the chosen regularisation parameter, if one was chosen.
    ylabel : str
        What the vertical axis is called.
    parameter : {"alpha", "C"}, default="alpha"
        Regularisation parameter to draw against; C is 1 / alpha.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of Line2D
    chosen_line_ : Line2D
    """

    alphas: drawing.Line
    df: drawing.Line
    values: drawing.Table
    names: drawing.Names
    chosen: drawing.Place
    ylabel: Annotated[str, Text()]
    parameter: Parameter = "alpha"

    def _belong(self) -> None:
        drawing.same_length({"alphas": self.alphas, "df": self.df, "values": self.values})
        drawing.same_length({"columns of `values`": self.values.T, "names": self.names})
        drawing.check_place(self.chosen, "chosen", len(self.alphas))

    @checked
    def plot(
        self,
        ax: Axes | None = None,
        *,
        x: Annotated[str | None, OneOf("alpha", "C", "df", None)] = None,
        most: drawing.Most = 8,
        name: drawing.Title = None,
        **style: Any,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.
        x : {"alpha", "C", "df"}, optional
            Regularisation parameter (falling to the right) or degrees of freedom. Default: the
            regularisation parameter, as alpha or C.
        most : int, default=8
            Lines with a label: those that grow largest. The others are thin and grey.
        name : str, optional
            Title.
        **style : dict
            Passed to `Axes.plot`.

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = drawing.axes(ax, (7.5, 4.2))
        x = x or self.parameter
        where = self.df if x == "df" else named_values(x, self.alphas)
        used = np.flatnonzero(np.abs(self.values).max(axis=0) > 0)
        order = used[np.argsort(-np.abs(self.values[:, used]).max(axis=0), kind="stable")]
        self.lines_ = []
        for rank, m in enumerate(order):
            own = drawing.GREY
            if rank < most:
                own = {**drawing.line_style(rank), "label": drawing.short(self.names[m], 34)}
            self.lines_ += self.ax_.plot(where, self.values[:, m], **{**own, **style})
        if self.chosen is not None:
            self.chosen_line_ = self.ax_.axvline(where[self.chosen], **drawing.CHOSEN)
        if x != "df":
            drawing.parameter_axis(self.ax_, self.alphas, x)
        self.ax_.set(xlabel="degrees of freedom" if x == "df" else x, ylabel=self.ylabel)
        drawing.finish(self.ax_, name or "")
        return self

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: arguments.Model,
        *,
        what: Annotated[str, OneOf("weights", "coef")] = "weights",
        alphas: ArrayLike | None = None,
        Cs: ArrayLike | None = None,
        output: arguments.Output = None,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> RegularizationPathDisplay:
        """Solve the path again on the training rows and draw it.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
            The model, with its training rows.
        what : {"weights", "coef"}, default="weights"
            "coef" needs linear kernels.
        alphas : array-like, optional
            For RLS2. Default: the regularisation parameters the estimator tried, else an automatic path.
        Cs : array-like, optional
            The same for learners with a C, which are drawn against C.
        output : str or int, optional
            Class or output of a model with several.
        ax : matplotlib Axes, optional
            Default: a new figure.
        **plot_kwargs : dict
            Passed to `plot`: ``x="df"`` draws against degrees of freedom.

        Returns
        -------
        RegularizationPathDisplay
        """
        path = inspection.regularization_path(estimator, alphas=alphas, Cs=Cs, output=output)
        parameter = "alpha" if path.Cs is None else "C"
        values, names, label = path.fractions, list(path.names), "kernel weight (fraction)"
        if what == "coef":
            if path.coef is None:
                raise InputError(
                    "`what='coef'` needs linear kernels, such as kw.banks.linear_features(n_features)."
                )
            columns = range(path.coef.shape[1])
            names = list(getattr(estimator, "feature_names_in_", [f"x{j}" for j in columns]))
            values, label = path.coef, "coefficient"
        return cls(path.alphas, path.df, values, names, path.chosen, label, parameter).plot(ax, **plot_kwargs)


@dataclass(eq=False, repr=False)
class CVCurveDisplay(drawing.Display):
    """Score over folds along the path with a band of one standard error, and the chosen point.

    The score at the chosen point has chosen it, and is not an estimate for new rows: see
    `kernelweave.inspection.out_of_fold_scores`.

    Parameters
    ----------
    alphas, mean, error : arrays of shape (n_alphas,)
        Regularisation parameters.
    chosen : int
        Position of the chosen regularisation parameter.
    ylabel : str, default="score"
        What the vertical axis is called.
    parameter : {"alpha", "C"}, default="alpha"
        Regularisation parameter to draw against; C is 1 / alpha.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_, band_, chosen_line_ : artists
    """

    alphas: drawing.Line
    mean: drawing.Line
    error: drawing.Line
    chosen: Annotated[int, Whole(0)]
    ylabel: Annotated[str, Text()] = "score"
    parameter: Parameter = "alpha"

    def _belong(self) -> None:
        drawing.same_length({"alphas": self.alphas, "mean": self.mean, "error": self.error})
        drawing.check_place(self.chosen, "chosen", len(self.alphas))

    def _draw(self, ax: Axes | None, name: str, style: Style) -> None:
        self.figure_, self.ax_ = drawing.axes(ax, (6.5, 3.8))
        where = named_values(self.parameter, self.alphas)
        own = {
            "color": drawing.COLORS[0],
            "marker": "o",
            "markersize": 3,
            "label": "score over folds, which chooses",
        }
        (self.line_,) = self.ax_.plot(where, self.mean, **{**own, **style})
        self.band_ = self.ax_.fill_between(
            where,
            [clip_score(float(low), self.ylabel) for low in self.mean - self.error],
            [clip_score(float(high), self.ylabel) for high in self.mean + self.error],
            color=drawing.COLORS[0],
            alpha=0.2,
            label="one standard error to each side",
        )
        self.chosen_line_ = self.ax_.axvline(where[self.chosen], **drawing.CHOSEN)
        drawing.parameter_axis(self.ax_, self.alphas, self.parameter)
        self.ax_.set(xlabel=self.parameter, ylabel=self.ylabel)
        low, high = (clip_score(float(end), self.ylabel) for end in self.ax_.get_ylim())
        self.ax_.set_ylim(low, high)
        drawing.finish(self.ax_, name)

    @classmethod
    @checked
    def from_estimator(
        cls, estimator: arguments.Model, *, ax: Axes | None = None, **plot_kwargs: Any
    ) -> CVCurveDisplay:
        """Draw the curve of a fitted MKLRegressorCV or MKLClassifierCV, or of ``alpha="auto"``.

        Parameters
        ----------
        estimator : fitted estimator with `cv_results_`
            The model whose regularisation parameter was chosen by cross-validation.
        ax : matplotlib Axes, optional
            Default: a new figure.
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        CVCurveDisplay
        """
        results = getattr(estimator, "cv_results_", None)
        if results is None:
            raise InputError(
                f"{type(estimator).__name__} has no cross-validation curve: it was fitted at a fixed alpha. "
                "Use MKLRegressorCV, MKLClassifierCV or alpha='auto'."
            )
        return cls(
            results["alpha"],
            results["test_score"],
            results["std_error_test_score"],
            estimator.best_index_,
            results.get("score_name", "score"),
            "C" if hasattr(estimator, "C_") else "alpha",
        ).plot(ax, **plot_kwargs)


Criteria = Annotated[dict[str, Array], InstanceOf((Mapping,), "a dict of arrays")]
#: Criteria of `kernelweave.inspection.Path.criteria` that are drawn, with their labels.
CRITERIA = {"gcv": "generalised cross-validation", "aic": "AIC", "bic": "BIC", "cp": "Mallows' Cp"}


@dataclass(eq=False, repr=False)
class SelectionCriteriaDisplay(drawing.Display):
    """Criteria for the choice of the regularisation parameter along the path, each with its smallest value marked.

    Parameters
    ----------
    alphas : array of shape (n_alphas,)
        Regularisation parameters.
    criteria : dict of str to array of shape (n_alphas,)
        ``gcv``, ``aic``, ``bic`` and ``cp`` are drawn; others are left out.
    chosen : int or None
        Position of the chosen regularisation parameter, if one was chosen.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
        The first panel.
    axes_ : dict of str to matplotlib Axes
    lines_ : dict of str to Line2D
    best_ : dict of str to int
        Position of the smallest finite value; left out if there is none.
    """

    alphas: drawing.Line
    criteria: Criteria
    chosen: drawing.Place = None

    def _belong(self) -> None:
        given, self.criteria = self.criteria, {}
        for name in (name for name in CRITERIA if name in given):
            self.criteria[name] = check_value(drawing.LINE, f"criteria[{name!r}]", given[name])
            drawing.same_length({"alphas": self.alphas, f"criteria[{name!r}]": self.criteria[name]})
        if not self.criteria:
            raise InputError(f"`criteria` must hold some of {', '.join(CRITERIA)}, got {', '.join(given)}.")
        drawing.check_place(self.chosen, "chosen", len(self.alphas))

    def _draw(self, ax: Axes | None, name: str, style: Style) -> None:
        self.figure_, place = drawing.grid(ax, (8.0, 5.0))
        cells = place.subgridspec(2, 2)
        self.axes_, self.lines_, self.best_ = {}, {}, {}
        for k, (key, values) in enumerate(self.criteria.items()):
            panel = self.axes_[key] = self.figure_.add_subplot(cells[divmod(k, 2)])
            finite = np.where(np.isfinite(values), values, np.nan)
            own = {"color": drawing.COLORS[0], "marker": "o", "markersize": 3}
            (self.lines_[key],) = panel.plot(self.alphas, finite, **{**own, **style})
            if not np.isnan(finite).all():
                self.best_[key] = best = int(np.nanargmin(finite))
                panel.plot(
                    self.alphas[best],
                    finite[best],
                    "o",
                    color=drawing.COLORS[1],
                    label=f"{self.alphas[best]:.3g}",
                )
            if self.chosen is not None:
                panel.axvline(self.alphas[self.chosen], **{**drawing.CHOSEN, "zorder": 0})
            drawing.parameter_axis(panel, self.alphas)
            if k >= 2:
                panel.set_xlabel("alpha")
            drawing.titled(panel, CRITERIA[key])
            # beside the title: inside there is no place that no curve may cross
            drawing.legend(
                panel, fontsize="small", loc="lower right", bbox_to_anchor=(1.0, 0.98), borderpad=0.1
            )
            drawing.plain(panel)
        if name:
            self.figure_.suptitle(name, fontsize="medium")
        self.ax_ = next(iter(self.axes_.values()))

    @classmethod
    @checked
    def from_estimator(
        cls,
        estimator: arguments.Model,
        *,
        alphas: ArrayLike | None = None,
        output: arguments.Output = None,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> SelectionCriteriaDisplay:
        """Solve the path again on the training rows and draw its criteria.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
            With the learner RLS2.
        alphas : array-like, optional
            Default: the regularisation parameters the estimator tried, else an automatic path.
        output : str or int, optional
            Class or output of a model with several.
        ax : matplotlib Axes of a grid, optional
            Replaced by several panels.
        **plot_kwargs : dict
            Passed to `plot`.

        Returns
        -------
        SelectionCriteriaDisplay

        Examples
        --------
        >>> import matplotlib; matplotlib.use("Agg")
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(40, 3))
        >>> model = kw.MKLRegressor(kw.banks.linear_features(3), kw.learners.RLS2(alpha=1.0)).fit(X, X[:, 0] - X[:, 2])
        >>> list(kw.plots.SelectionCriteriaDisplay.from_estimator(model, alphas=[10.0, 1.0, 0.1]).best_)
        ['gcv', 'aic', 'bic', 'cp']
        """
        path = inspection.regularization_path(estimator, alphas=alphas, output=output)
        if not path.criteria:
            raise InputError(
                "`estimator` must have the learner RLS2: others have no selection criteria in closed form. "
                "Use CVCurveDisplay for scores over folds."
            )
        return cls(path.alphas, dict(path.criteria), path.chosen).plot(ax, **plot_kwargs)
