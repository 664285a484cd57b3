"""
Does every label need the same sources?
=======================================

No: each label has kernel weights of its own, and gives most weight to the view that it was made from.
"""

# %%
# Simulated rows with three views and four labels. The first three labels depend on one view each, the last on two.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kernelweave as kw

rng = np.random.default_rng(0)
n = 200
views = {name: rng.normal(size=(n, 6)) for name in ("sound", "colour", "shape")}
scores = {
    "loud": views["sound"] @ rng.normal(size=6),
    "bright": views["colour"] @ rng.normal(size=6),
    "round": np.sum(views["shape"] ** 2, axis=1) - 5.3,
    "striking": 2 * views["sound"][:, 0] + 2 * views["colour"][:, 0],
}
Y = pd.DataFrame({name: (s + rng.normal(size=n) > 0).astype(int) for name, s in scores.items()})
data = kw.Views(views)
kernels = [kw.kernels.Linear(), kw.kernels.RBF(gamma="median")]
model = kw.MKLClassifier(kernels, learner="simple", C=1.0).fit(data[:150], Y[:150])
print(f"subset accuracy: {model.score(data[150:], Y[150:]):.2f}; largest gap {np.max(model.rel_gap_):.0e}")

# %%
of = [str(name).partition(": ")[0] for name in model.kernel_names_]
shares = np.array([[row[np.array(of) == view].sum() for view in views] for row in model.weights_])
figure, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
ax.set_xticks(range(3), list(views))
ax.set_yticks(range(4), model.label_names_)
for (i, j), share in np.ndenumerate(shares):
    ax.text(j, i, f"{share:.2f}", ha="center", va="center", color="white" if share > 0.5 else "black")
figure.colorbar(image, label="weight of the view")
