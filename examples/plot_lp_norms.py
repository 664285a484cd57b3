"""
How sparse should weights be?
=============================

The norm p sets it: p = 1 selects, p = 2 lets all kernels take part, large p approaches equal weights. On these data
accuracy hardly depends on it, the number of kernels does.
"""

# %%
# Breast cancer with a Gaussian kernel on every column.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import kernelweave as kw

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
bank = [kw.kernels.RBF(gamma="median").on([c]) for c in X]
norms = [1.0, 1.1, 1.33, 2.0, 4.0, 16.0]
weights, scores = [], []
for p in norms:
    model = kw.MKLClassifier(bank, kw.learners.LpMKL(p=p, C=1.0)).fit(X[::2], y[::2])
    weights.append(np.sort(model.weights_ / model.weights_.max())[::-1])
    scores.append(model.score(X[1::2], y[1::2]))
    print(f"p = {p:g}: accuracy {scores[-1]:.3f}, relative gap {model.rel_gap_:.0e}")

# %%
figure, panels = plt.subplots(2, 3, figsize=(8.5, 4.2), sharex=True, sharey=True, layout="constrained")
for ax, p, w, score in zip(panels.flat, norms, weights, scores, strict=True):
    ax.bar(range(len(w)), w, color="#0072B2")
    ax.set_title(f"p = {p:g}, accuracy {score:.3f}", fontsize="medium")
figure.supxlabel("kernels, largest weight first")
figure.supylabel("weight / largest weight")
