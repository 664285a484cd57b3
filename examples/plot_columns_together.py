"""
What if columns matter only together?
=====================================

A sum of kernels on single columns cannot see a checkerboard; one Gaussian kernel with a learnt width for every column
can, and finds the two columns among eight.
"""

# %%
# The class is the product of the signs of two columns; six more columns are noise.
import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (300, 8))
y = np.where(X[:, 0] * X[:, 1] > 0, 1, 0)
columns = [kw.kernels.RBF(gamma=2.0).on([k]) for k in range(8)]
added = kw.MKLClassifier(columns, learner="simple", C=10.0).fit(X[:200], y[:200])
one = kw.MKLClassifier(kw.banks.linear_features(8), kw.learners.ARDGaussian(C=1.0)).fit(X[:200], y[:200])
print(
    f"sum of kernels {added.score(X[200:], y[200:]):.2f}, one kernel with widths {one.score(X[200:], y[200:]):.2f}"
)
print(
    f"gap of the sum {added.rel_gap_:.0e}; widths are a local minimum, stationary to {np.max(one.stationarity_):.0e}"
)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.bar(range(8), one.weights_, color=["#D55E00"] * 2 + ["0.6"] * 6)
left.set(xlabel="column", ylabel="relevance")
a, b = np.meshgrid(np.linspace(-1, 1, 60), np.linspace(-1, 1, 60))
plane = np.zeros((a.size, 8))
plane[:, 0], plane[:, 1] = a.ravel(), b.ravel()
right.contourf(a, b, one.decision_function(plane).reshape(a.shape), levels=12, cmap="coolwarm", alpha=0.7)
right.scatter(X[:200, 0], X[:200, 1], c=y[:200], cmap="coolwarm", edgecolors="white", s=24)
right.set(xlabel="column 0", ylabel="column 1")
