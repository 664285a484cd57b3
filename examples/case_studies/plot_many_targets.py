"""
Do 240 targets need the same tables?
====================================

Nearly: the profiles have most of the weight for almost every pixel, so that one set of weights for all predicts as
well as a set for each; only at the upper and lower edges other tables help.
"""

# %%
# 2,000 handwritten digits are described by four tables: Fourier coefficients, correlations of profiles, Zernike
# moments and six morphological numbers (multiple features of UCI; ``kernelweave datasets mfeat`` says how to get
# them). The targets are the 240 pixels of the same characters.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import datasets

VIEWS = {"fou": "Fourier", "fac": "profiles", "zer": "Zernike", "mor": "morphology"}
if datasets.is_here("mfeat"):
    data = datasets.load("mfeat")
    prefix = np.array([name[:3] for name in data.feature_names])
    tables = {title: data.X[::4, prefix == short] for short, title in VIEWS.items()}
    pixels = data.X[::4, prefix == "pix"]
    print("digits of the multiple features data set")
else:
    rng = np.random.default_rng(0)
    tables = {
        title: rng.normal(size=(500, p)) for title, p in zip(VIEWS.values(), (76, 216, 47, 6), strict=True)
    }
    across, down = np.meshgrid(np.linspace(0, 1, 15), np.linspace(0, 1, 16))
    amounts = [(1 - across) * (1 - down), across * (1 - down), (1 - across) * down, across * down]
    pixels = sum(
        amount.ravel() * (table[:, :5] @ rng.normal(size=(5, 240)))
        for amount, table in zip(amounts, tables.values(), strict=True)
    ) + rng.normal(size=(500, 240))
    print("made-up digits")
keep = pixels.std(axis=0) > 0

# %%
# A linear and a Gaussian kernel on each table, computed once for all targets, with kernels last.
gram, new = [], []
for table in tables.values():
    scaler = StandardScaler().fit(table[::2])
    old, fresh = scaler.transform(table[::2]), scaler.transform(table[1::2])
    for kernel in (kw.kernels.Linear(), kw.kernels.RBF(gamma=1 / table.shape[1])):
        mean = kernel.diag(old).mean()
        gram.append(kernel(old) / mean)
        new.append(kernel(fresh, old) / mean)
gram, new = np.stack(gram, axis=-1), np.stack(new, axis=-1)
known, truth = pixels[::2][:, keep], pixels[1::2][:, keep]
means = known.mean(axis=0)


def explained(weights, dual_coef):
    """Share of the variance of targets on characters that are new; weights in one column, or in one for each target."""
    predicted = means[np.arange(dual_coef.shape[1])] + np.einsum(
        "ijm,jt,mt->it", new, dual_coef, weights, optimize=True
    )
    return 1 - np.sum((truth - predicted) ** 2, axis=0) / np.sum((truth - truth.mean(axis=0)) ** 2, axis=0)


# %%
# RLS2 fitted to all targets at once has one set of weights for them; fitted to each target, a set for each.
start = time.process_time()
common = kw.solve_rls2(gram, known - means, alpha=3.0)
seconds = time.process_time() - start
print(f"one set of weights for {len(means)} targets: {seconds:.1f} s, relative gap {common.rel_gap:.0e}")

start = time.process_time()
alone = [kw.solve_rls2(gram, target, alpha=3.0) for target in (known - means).T]
gap = max(one.rel_gap for one in alone)
print(f"a set for each: {time.process_time() - start:.1f} s, largest relative gap {gap:.0e}")
own = np.stack([one.weights for one in alone], axis=1)
shares = {
    "one set of weights": explained(np.tile(common.weights[:, None], len(means)), common.dual_coef),
    "a set for each": explained(own, np.stack([one.dual_coef for one in alone], axis=1)),
}
print({name: f"median of explained variance {np.median(share):.3f}" for name, share in shares.items()})

# %%
# For each pixel the weight of each table, from the fit to this pixel alone, and what is explained of it; last the mean
# of the characters.
weights = {title: own[2 * k : 2 * k + 2].sum(axis=0) for k, title in enumerate(tables)}
figure, axes = plt.subplots(2, 3, figsize=(8, 5.6), layout="constrained")
panels = {f"weight of {title}": found for title, found in weights.items()}
panels |= {"explained variance": shares["a set for each"], "mean character": means / means.max()}
for ax, (title, found) in zip(axes.T.flat, panels.items(), strict=True):
    values = np.full(240, np.nan)
    values[keep] = found
    colours = {"explained variance": "viridis", "mean character": "Greys"}.get(title, "Blues")
    image = ax.imshow(values.reshape(16, 15), cmap=colours, vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[], title=title)
    figure.colorbar(image, ax=ax, shrink=0.8)
