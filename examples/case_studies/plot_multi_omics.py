"""
Can a tumour be classified without one of its measurements?
===========================================================

Yes: models of three molecular tables classify 70 new tumours that lack the proteins, and most of what they know is
in the messenger RNA.
"""

# %%
# 150 breast tumours of three subtypes with micro-RNA, messenger RNA and proteins (TCGA, the copy of mixOmics), and
# 70 new ones without proteins. ``kernelweave datasets breast_tcga`` says how to get the tables.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_predict

import kernelweave as kw
from kernelweave import datasets

VIEWS = {"mirna": "micro-RNA", "mrna": "messenger RNA", "protein": "proteins"}


def tables(name):
    """One frame for each view, and the subtypes."""
    data = datasets.load(name)
    frame = pd.DataFrame(data.X, columns=data.feature_names)
    blocks = {title: frame.filter(regex=f"^{view}_") for view, title in VIEWS.items()}
    return {title: block for title, block in blocks.items() if block.shape[1]}, np.array(data.target_names)[
        data.y
    ]


def made_up(n, views, rng):
    """Three subtypes, whose means differ in a few columns of each view."""
    subtype = rng.choice(["Basal", "Her2", "LumA"], size=n, p=[0.3, 0.2, 0.5])
    means = np.random.default_rng(0).normal(scale=0.7, size=(3, 10))[
        np.searchsorted(["Basal", "Her2", "LumA"], subtype)
    ]
    blocks = {}
    for title in views:
        blocks[title] = pd.DataFrame(rng.normal(size=(n, 150))).add_prefix(title)
        blocks[title].iloc[:, :10] += means
    return blocks, subtype


if datasets.is_here("breast_tcga") and datasets.is_here("breast_tcga_test"):
    (train, subtype), (new, truth) = tables("breast_tcga"), tables("breast_tcga_test")
    print("tumours of TCGA")
else:
    rng = np.random.default_rng(1)
    (train, subtype), (new, truth) = (
        made_up(150, list(VIEWS.values()), rng),
        made_up(70, list(VIEWS.values())[:2], rng),
    )
    print("made-up tumours")
print(
    {title: block.shape for title, block in train.items()},
    "new:",
    {title: block.shape for title, block in new.items()},
)

# %%
# A linear and a Gaussian kernel on each table. New rows without proteins get ``None`` for that view: their kernels
# are predicted from the other two tables.
bank = [kw.kernels.Linear().prepared("standardize"), kw.kernels.RBF(gamma="median").prepared("standardize")]


def model():
    return kw.MKLClassifier(bank, learner="simple", C=10.0)


full = model().fit(train, subtype)
print(
    f"new tumours, proteins missing: {np.mean(full.predict({**new, 'proteins': None}) == truth):.3f} correct"
)
print(f"largest relative gap of the three machines: {np.max(full.rel_gap_):.0e}")

# %%
# What each table can do alone, by cross-validation of the 150, and which subtypes are confused.
shares = {}
for title in train:
    found = cross_val_predict(model(), kw.Views({title: train[title]}), subtype, cv=5)
    shares[title] = np.mean(found == subtype)
found = cross_val_predict(model(), kw.Views(train), subtype, cv=5)
shares["all three"] = np.mean(found == subtype)
weights = kw.inspection.view_weights(full)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
colours = ["#0072B2", "#009E73", "#D55E00", "#555555"]
left.barh(list(shares), list(shares.values()), color=colours)
for row, share in enumerate(shares.values()):
    left.text(share - 0.005, row, f"{share:.2f}", ha="right", va="center", color="white")
left.set(xlim=(0.7, 1.0), xlabel="share of tumours classified correctly, five folds")
left.invert_yaxis()
right.bar(
    list(weights), list(weights.values()), color=[colours[list(train).index(title)] for title in weights]
)
right.set(ylabel="weight in the model of all three")
