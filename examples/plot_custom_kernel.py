"""
Can it learn from sets?
=======================

Yes: any symmetric function without negative eigenvalues is a kernel. Here shopping baskets are compared by the share of
goods that they have in common, beside the age of the customer.
"""

# %%
# A custom kernel gets the rows as they are, here Python sets in a column of a data frame. It is checked for symmetry
# and negative eigenvalues when the model is fitted.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kernelweave as kw
from kernelweave.kernels import RBF, Custom, Linear

rng = np.random.default_rng(0)
goods = np.array(["bread", "milk", "tea", "nails", "paint", "seeds", "soap", "rice"])
baskets = [set(rng.choice(goods, rng.integers(2, 6), replace=False)) for _ in range(160)]
customers = pd.DataFrame({"age": rng.uniform(20, 80, 160), "basket": baskets})
builds = np.array([len(b & {"nails", "paint", "seeds"}) for b in baskets])
y = np.where(builds + 0.03 * (customers["age"] - 50) + 0.3 * rng.normal(size=160) > 1.0, "builds", "does not")

jaccard = Custom(lambda X, Z: [[len(a & b) / len(a | b) for b in Z] for a in X], name="goods in common")
bank = [Linear().on("age"), RBF(gamma="median").on("age"), jaccard.on("basket")]
model = kw.MKLClassifier(bank, learner="simple", C=3.0, standardize=True).fit(customers[:110], y[:110])
print(
    f"accuracy on other customers {model.score(customers[110:], y[110:]):.2f}, relative gap {model.rel_gap_:.0e}"
)

# %%
# What each kernel adds to the decision about each new customer.
parts = model.kernel_contributions(customers[110:])
order = np.argsort(model.decision_function(customers[110:]))
figure, ax = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
image = ax.imshow(parts[order].T, aspect="auto", cmap="coolwarm", vmin=-2, vmax=2)
ax.set_yticks(range(3), model.kernel_names_)
ax.set_xlabel(f"new customers, from {model.classes_[0]} to {model.classes_[1]}")
figure.colorbar(image, label="contribution")
