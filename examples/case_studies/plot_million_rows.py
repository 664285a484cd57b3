"""
How do the neighbours of a pixel predict it?
============================================

Almost perfectly, and by what is next to it: on a million and a half pixels the nearest ring in the same colour has
half of the weight, and all other rings and colours have the rest.
"""

# %%
# The rows are the pixels of two photographs in each of three colours, which come with scikit-learn. A row has its
# value, and as features its neighbours: three rings around it in the same colour, and two rings in each of the
# other two (green and blue for red, blue and red for green, and so on). A Dask array makes them where they are
# needed, a strip of the picture at a time.
import time

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

import kernelweave as kw

RINGS = [
    [(i, j) for i in range(-r, r + 1) for j in range(-r, r + 1) if max(abs(i), abs(j)) == r]
    for r in (1, 2, 3)
]
pictures = load_sample_images().images
PARTS = [("same colour", 0, ring) for ring in (0, 1, 2)]
PARTS += [(title, k, ring) for k, title in ((1, "second colour"), (2, "third colour")) for ring in (0, 1)]
names = [f"{colour}, ring {ring + 1}" for colour, _, ring in PARTS]
groups = np.cumsum([0, *(len(RINGS[ring]) for _, _, ring in PARTS)])


def strip(picture, colour, top, height):
    """Features and target, the last column, of the pixels in some lines of a picture."""
    rows, columns = slice(top, top + height), slice(3, picture.shape[1] - 3)

    def moved(k, i, j):
        part = picture[rows.start + i : rows.stop + i, columns.start + j : columns.stop + j, (colour + k) % 3]
        return part.ravel().astype(np.float32) / 255

    features = [moved(k, i, j) for _, k, ring in PARTS for i, j in RINGS[ring]]
    return np.column_stack([*features, moved(0, 0, 0)])


# %%
# The arrays of Dask are promises: no strip is made before it is summed, and then it is forgotten.
strips = []
for picture in pictures:
    lines, width = picture.shape[0] - 6, picture.shape[1] - 6
    for colour in range(3):
        for top in range(3, 3 + lines, 60):
            height = min(60, 3 + lines - top)
            block = da.from_delayed(
                dask.delayed(strip)(picture, colour, top, height),
                shape=(height * width, groups[-1] + 1),
                dtype=np.float32,
            )
            strips.append(block)
table = da.concatenate(strips)
print(f"{table.shape[0]:,} rows, {table.shape[1] - 1} features in {len(names)} groups, {len(strips)} strips")

# %%
# One pass over the rows gives the sums, apart for five folds. The whole path, its errors and its certificates
# follow from them without the rows.
start = time.process_time()
folds = kw.rows.block_statistics(table[:, :-1], table[:, -1], groups=groups, folds=5)
summed = time.process_time() - start
path = kw.rows.rls2_path_cv(folds, n_alphas=30)
print(
    f"sums {summed:.1f} s, path and five folds {time.process_time() - start - summed:.1f} s of the processor"
)
best = path.best
variance = folds.total.products(centered=True)[-1, -1] / folds.total.n_rows
print(f"R² on left-out folds {1 - path.mean_mse.min() / variance:.4f}")
print(f"largest relative gap on the path {path.path.rel_gap.max():.0e}")

# %%
# Weights of the rings at the chosen alpha, and the coefficients of the neighbours in the same colour as a picture
# of what predicts the middle.
filters = np.zeros((7, 7))
for part, (_, k, ring) in enumerate(PARTS):
    if k == 0:
        for (i, j), coefficient in zip(
            RINGS[ring], best.feature_coef[groups[part] : groups[part + 1]], strict=True
        ):
            filters[i + 3, j + 3] = coefficient
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.barh(names, best.weights)
left.invert_yaxis()
left.set(xlabel="weight")
image = right.imshow(filters, cmap="RdBu_r", vmin=-0.6, vmax=0.6)
right.set(xticks=[], yticks=[], title="coefficients, same colour")
figure.colorbar(image)
