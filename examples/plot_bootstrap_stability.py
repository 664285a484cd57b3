"""
Would other patients give the same weights?
===========================================

The worst values have most of the weight in all bootstrap samples. The intervals of the other views begin at
zero.
"""

# %%
# Breast cancer with three views and ten columns of random numbers; 30 bootstrap samples of 190 rows.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import kernelweave as kw

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
views = {kind: X[[c for c in X if kind in c]] for kind in ("mean", "error", "worst")}
data = kw.Views({**views, "random numbers": rng.normal(size=(len(X), 10))})
kernels = [kw.kernels.Linear(), kw.kernels.RBF(gamma="median")]
svm = kw.MKLClassifier(kernels, learner="simple", C=0.3, standardize=True)
rows = np.arange(0, len(X), 3)
data, y = data[rows], y.iloc[rows]
svm.fit(data, y)
found = kw.inspection.weight_stability(svm, data, y, n_samples=30, sampling="bootstrap")
shares = {
    "share": found.view_weights,
    "low": found.view_low,
    "high": found.view_high,
}
print(pd.DataFrame(shares, index=found.views).round(2))
print(f"relative gap {svm.rel_gap_:.0e}: what varies is the sample, not the solver")

# %%
# Bars are the model of all rows, lines hold 95 % of the samples.
place = np.arange(len(found.views))
plt.figure(figsize=(6, 3.8))
plt.bar(place, found.view_weights, alpha=0.6)
plt.vlines(place, found.view_low, found.view_high, color="black")
plt.xticks(place, found.views)
plt.ylabel("weight of the view")
plt.tight_layout()
