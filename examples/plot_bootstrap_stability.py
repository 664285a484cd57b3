"""
Would other patients give the same weights?
===========================================

That the worst values count most is stable over bootstrap samples. The weights of the other views are not: in many
samples they are zero.
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
draws, gaps = [], []
for _ in range(30):
    rows = rng.choice(np.arange(0, len(X), 3), 190)
    draws.append(kw.inspection.view_weights(svm.fit(data[rows], y.iloc[rows])))
    gaps.append(svm.rel_gap_)
shares = pd.DataFrame(draws)
print(shares.quantile([0.05, 0.5, 0.95]).round(2))
print(f"largest relative gap {max(gaps):.0e}: what varies is the sample, not the solver")

# %%
order = shares.median().sort_values().index
plt.figure(figsize=(6, 3.8))
plt.boxplot([shares[view] for view in order], tick_labels=order)
plt.ylabel("weight of the view")
plt.tight_layout()
