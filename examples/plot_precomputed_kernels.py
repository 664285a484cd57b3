"""
Which of several similarities tells digits apart?
=================================================

Pixels: alone they are as accurate as all three together, and they have most of the weight. Similarities that others
have computed are kernels, too.
"""

# %%
# Three matrices over all rows: pixels, sums of rows and columns, and the parts of the picture that have ink. A
# ``kw.KernelBank`` holds them; X is then a column of row numbers, which cross-validation divides without copies.
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score

import kernelweave as kw

X, y = load_digits(n_class=5, return_X_y=True)
X, y = X[:400], y[:400]
images = X.reshape(-1, 8, 8)
profiles = np.hstack([images.sum(axis=1), images.sum(axis=2)])
ink = (X > 4).astype(float)
shared, sizes = ink @ ink.T, ink.sum(axis=1)
stack = np.stack(
    [rbf_kernel(X, gamma=1e-3), rbf_kernel(profiles, gamma=3e-4), shared / (sizes[:, None] + sizes - shared)],
    axis=-1,
)
bank = kw.KernelBank(stack, ["pixels", "profiles", "shared ink"])
rows = np.arange(len(y))[:, None]

# %%
# The model, its cross-validated accuracy beside that of single kernels, and the weights of each digit against the rest.
model = kw.MKLClassifier(bank, learner="lp", C=10.0)
for k, name in enumerate(("pixels", "profiles", "shared ink")):
    single = kw.MKLClassifier(kw.KernelBank(stack[:, :, [k]], [name]), learner="uniform", C=10.0)
    print(f"{name}: {cross_val_score(single, rows, y, cv=3).mean():.3f}")
print(f"all, weights learnt: {cross_val_score(model, rows, y, cv=3).mean():.3f}")
model.fit(rows, y)
print(f"largest relative gap of five problems: {np.max(model.rel_gap_):.0e}")
kw.plots.KernelWeightsDisplay.from_estimator(model)
