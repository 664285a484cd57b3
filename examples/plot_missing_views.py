"""
What if patients lack a whole source?
=====================================

They can be kept: with a third of each view removed, models that predict the missing kernels lose little, while
leaving out incomplete rows loses more.
"""

# %%
# Breast cancer with three views. In training and test rows every view is removed with a certain probability; one of
# each row is left. ``"complete"`` predicts missing kernels from the other views, ``"renormalize"`` gives their weight
# to the others, and the third model learns from rows that have everything, and has means in the place of missing cells.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import kernelweave as kw

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
names = ("mean", "error", "worst")
train, test = np.arange(0, 569, 4), np.arange(1, 569, 4)
kernels = [kw.kernels.Linear(), kw.kernels.RBF(gamma="median")]


def with_holes(share, rng):
    """The views, each of them missing in that share of the rows."""
    lost = rng.uniform(size=(len(X), 3)) < share
    lost[np.arange(len(X)), rng.integers(3, size=len(X))] = False
    views = {}
    for k, name in enumerate(names):
        views[name] = X[[c for c in X if name in c]].copy()
        views[name].iloc[lost[:, k]] = np.nan
    return kw.Views(views), lost


def model(how):
    options = {"learner": "simple", "C": 1.0, "standardize": True}
    return kw.MKLClassifier(kernels, missing="impute", missing_views=how, **options)


shares = [0.0, 0.15, 0.3, 0.45, 0.6]
accuracy = {"complete": [], "renormalize": [], "complete rows only": []}
for share in shares:
    data, lost = with_holes(share, np.random.default_rng(0))
    for how in ("complete", "renormalize"):
        last = model(how).fit(data[train], y[train])
        accuracy[how].append(last.score(data[test], y[test]))
    whole = train[~lost[train].any(axis=1)]
    accuracy["complete rows only"].append(
        model("error").fit(data[whole], y[whole]).score(data[test], y[test])
    )
print(f"the last fit is certified to a relative gap of {last.rel_gap_:.0e}")

# %%
# The more is missing, the more it matters what is done about it.
for (name, values), style in zip(accuracy.items(), ("o-", "s--", "^:"), strict=True):
    plt.plot(shares, values, style, label=name)
plt.xlabel("probability that a view is missing")
plt.ylabel("accuracy")
plt.legend(frameon=False)
