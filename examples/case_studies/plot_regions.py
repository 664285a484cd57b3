"""
Which regions of a picture tell the classes apart?
==================================================

For each pair of digits other ones, and about ten of the 49: the left side for 3 and 8, the upper edge and the
middle for 4 and 9. With a kernel for every region the weights are a map.
"""

# %%
# Regions of interest as kernels, as they are used on pictures of brains, here on handwritten digits of 8 x 8
# pixels: 49 regions of 2 x 2 pixels, overlapping, with a Gaussian kernel each.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import kernelweave as kw

X, digit = load_digits(return_X_y=True)
pixel = np.arange(64).reshape(8, 8)
regions = {f"{i},{j}": pixel[i : i + 2, j : j + 2].ravel().tolist() for i in range(7) for j in range(7)}
model = kw.MKLClassifier([kw.kernels.RBF(gamma="median")], learner="simple", C=1.0, views=regions)

# %%
# Each fit says how exact it is, and how many regions it needs.
pairs = [(3, 8), (4, 9), (1, 7), (5, 6)]
maps = []
for pair in pairs:
    rows = np.isin(digit, pair)
    train, test, y, truth = train_test_split(
        X[rows], digit[rows], test_size=0.5, random_state=0, stratify=digit[rows]
    )
    model.fit(train, y)
    shares = np.zeros((8, 8))
    for weight, columns in zip(model.weights_, regions.values(), strict=True):
        shares.flat[columns] += weight / 4
    maps.append(
        (pair, shares, X[rows & (digit == pair[0])].mean(axis=0) - X[rows & (digit == pair[1])].mean(axis=0))
    )
    print(
        f"{pair[0]} or {pair[1]}: accuracy {model.score(test, truth):.3f}, {np.sum(model.weights_ > 1e-6)} of "
        f"{len(regions)} regions, relative gap {model.rel_gap_:.0e}"
    )

# %%
# Above, the difference of the mean pictures (red: more ink in the first digit); below, the weight of every pixel,
# a quarter of the weights of the regions that it is in. A difference alone does not give a region a weight: others
# may say the same.
figure, axes = plt.subplots(2, 4, figsize=(9, 4.6), layout="constrained")
for (above, below), ((first, second), shares, difference) in zip(axes.T, maps, strict=True):
    above.imshow(difference.reshape(8, 8), cmap="RdBu_r", vmin=-16, vmax=16)
    above.set_title(f"{first} or {second}")
    below.imshow(shares, cmap="Greens", vmin=0)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("difference of means")
axes[1, 0].set_ylabel("weight")
