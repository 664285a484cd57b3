"""
Where does the model hesitate?
==============================

With the logistic loss every place of the plane has a probability: near the border of the two moons and far from all
points it is close to one half.
"""

# %%
# Gaussian kernels of five widths; the logistic loss learns their weights together with the probabilities.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import kernelweave as kw

X, y = make_moons(200, noise=0.25, random_state=0)
kernels = [kw.kernels.RBF(gamma=g) for g in (0.1, 0.5, 2.0, 8.0, 32.0)]
model = kw.MKLClassifier(kernels, kw.learners.SimpleMKL(C=5.0, loss="logistic")).fit(X, y)
print(f"relative gap {model.rel_gap_:.0e}, status {model.status_}")

# %%
a, b = np.meshgrid(np.linspace(-2, 3, 90), np.linspace(-1.6, 2.1, 70))
p = model.predict_proba(np.column_stack([a.ravel(), b.ravel()]))[:, 1].reshape(a.shape)
plt.contourf(a, b, p, levels=np.linspace(0, 1, 11), cmap="coolwarm", alpha=0.7)
plt.colorbar(label="probability of the red moon")
plt.contour(a, b, p, levels=[0.5], colors="0.2")
plt.scatter(*X.T, c=y, cmap="coolwarm", edgecolors="white", s=26)

# %%
# Two widths are enough.
kw.plots.KernelWeightsDisplay.from_estimator(model)
