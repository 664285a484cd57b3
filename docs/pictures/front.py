"""Draw the picture of the front page.

``python docs/pictures/front.py`` writes front.svg and front-dark.svg beside this file. Breast cancer with four views:
the means, errors and worst values of ten measurements, and ten columns of random numbers. RLS2 with a linear and a
Gaussian kernel on each view; the weights of a view are added up.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_breast_cancer

import kernelweave as kw

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "_ext"))

from experiment_page import shortened  # noqa: E402

INK = {"front": "#1d2733", "front-dark": "#ced6dd"}


def fitted():
    """The model of the picture."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    views = {kind: X[[c for c in X if kind in c]] for kind in ("mean", "error", "worst")}
    views["random numbers"] = np.random.default_rng(0).normal(size=(len(X), 10))
    kernels = [kw.kernels.Linear(), kw.kernels.RBF(gamma="median")]
    model = kw.MKLClassifierCV(kernels, standardize=True, rule="1se", cv=5)
    return model.fit(kw.Views(views), y), list(views)


def draw(model, views, ink):
    """The path of the weights of views, and those of the chosen model."""
    path = kw.inspection.regularization_path(model)
    of = np.array([str(name).partition(": ")[0] for name in path.names])
    weights = np.column_stack([path.weights[:, of == view].sum(axis=1) for view in views])
    settings = dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), ink
    )
    settings |= {"font.size": 11, "svg.hashsalt": "front"}
    with mpl.rc_context(settings):
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(
            1, 2, figsize=(10, 3.6), width_ratios=(1.5, 1), layout="constrained"
        )
        kw.plots.RegularizationPathDisplay(
            path.alphas, path.df, weights, views, path.chosen, "weight of the view"
        ).plot(left, name="Weights along the path, from strong to weak regularisation", linewidth=2.2)
        left.get_legend().remove()
        colours = {line.get_label(): line.get_color() for line in left.lines}
        chosen = weights[path.chosen]
        kw.plots.KernelWeightsDisplay(views, chosen).plot(right, name="Chosen by cross-validation")
        for bar, label in zip(right.patches, right.get_yticklabels(), strict=True):
            bar.set_color(colours[label.get_text()])
        return figure


def main() -> int:
    model, views = fitted()
    print(f"relative gap {model.rel_gap_:.0e}", kw.inspection.view_weights(model))
    for name, ink in INK.items():
        path = HERE / f"{name}.svg"
        draw(model, views, ink).savefig(path, transparent=True, metadata={"Date": None})
        path.write_text(shortened(path.read_text()))
        print(path, f"{path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
