"""
Which frequencies tell a mine from a rock?
==========================================

All of them together: every one of twelve bands keeps a weight, and none has more than a seventh. One kernel on all
frequencies is a little more accurate.
"""

# %%
# Echoes of sonar signals from 111 metal cylinders ("mines") and 97 rocks: the energy in 60 bands of frequency
# (sonar of UCI). ``kernelweave datasets sonar`` says how to get the table. Every five neighbouring frequencies are
# a view.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelweave as kw
from kernelweave import datasets

if datasets.is_here("sonar"):
    data = datasets.load("sonar")
    X, y = data.X, np.where(data.y == data.target_names.index("M"), "mine", "rock")
    print("echoes of the sonar data set")
else:
    rng = np.random.default_rng(0)
    y = np.repeat(["mine", "rock"], [111, 97])
    shape = np.exp(-0.5 * ((np.arange(60) - 25) / 10) ** 2)
    X = shape + 0.2 * np.cumsum(rng.normal(size=(208, 60)), axis=1) / np.sqrt(np.arange(1, 61))
    X[y == "mine", 8:14] += 0.15
    print("made-up echoes")
width = 5
views = {f"{a + 1} to {a + width}": list(range(a, a + width)) for a in range(0, 60, width)}

# %%
# One Gaussian kernel on each band, weights on the simplex, which may be zero. As a yardstick, one support vector
# machine with a Gaussian kernel on all 60 columns.
model = kw.MKLClassifier(
    [kw.kernels.RBF(gamma="median").prepared("standardize")], learner="simple", C=10.0, views=views
)
folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)
single = make_pipeline(StandardScaler(), SVC(C=10.0))
for name, rule in (("bands", model), ("one kernel", single)):
    found = cross_val_score(rule, X, y, cv=folds)
    print(f"{name}: accuracy {found.mean():.3f}")
model.fit(X, y)
print(
    f"relative gap {model.rel_gap_:.0e}; bands with a weight: {np.sum(model.weights_ > 1e-6)} of {len(views)}"
)

# %%
# How steady are the weights? Their spread over random halves of the rows estimates that over other samples of as many
# echoes.
halves = kw.inspection.weight_stability(model, X, y, n_samples=20)
figure, (top, below) = plt.subplots(2, 1, figsize=(8, 5), layout="constrained", sharex=True)
for kind, colour in (("mine", "#D55E00"), ("rock", "#0072B2")):
    middle, spread = X[y == kind].mean(axis=0), X[y == kind].std(axis=0)
    top.plot(np.arange(1, 61), middle, color=colour, label=kind)
    top.fill_between(
        np.arange(1, 61), middle - spread, middle + spread, color=colour, alpha=0.15, linewidth=0
    )
top.set(ylabel="energy, mean and\nstandard deviation")
top.legend(frameon=False)
centres = np.arange(0, 60, width) + (width + 1) / 2
below.bar(centres, model.weights_, width=0.9 * width, color="#999999", label="all rows")
below.boxplot(halves.samples[:, :, 0], positions=centres, widths=1.5, manage_ticks=False, showfliers=False)
below.set(xlabel="band of frequency", ylabel="weight, and those\nof 20 halves")
