"""
What if two kernels say the same?
=================================

SimpleMKL chooses one of two kernels that are nearly equal. An elastic net gives both nearly the same weight, and little
to noise.
"""

# %%
# Six kernels: two nearly equal ones that matter, one more, and three of noise. ``mix`` goes from equal weights (0) to
# SimpleMKL (1).
import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw

rng = np.random.default_rng(1)
n = 150
signal, other = rng.normal(size=(2, n))
columns = [signal, signal + 0.05 * rng.normal(size=n), other, *rng.normal(size=(3, n))]
names = ["signal", "nearly the same", "another signal", "noise 1", "noise 2", "noise 3"]
X = np.column_stack(columns)
y = np.where(signal + 0.6 * other + 0.3 * rng.normal(size=n) > 0, 1, 0)
bank = [kw.kernels.RBF(gamma=0.5).on([k]) for k in range(6)]
mixes = np.linspace(0.0, 1.0, 11)
weights, gaps = [], []
for mix in mixes:
    model = kw.MKLClassifier(bank, kw.learners.ElasticNetMKL(C=1.0, mix=mix)).fit(X, y)
    weights.append(model.weights_ / model.weights_.sum())
    gaps.append(model.rel_gap_)
print(f"largest relative gap {max(gaps):.0e}")

# %%
for k, name in enumerate(names):
    style = {"color": "0.6", "linestyle": ":"} if "noise" in name else {"linewidth": 2}
    plt.plot(mixes, np.array(weights)[:, k], label=name, **style)
plt.xlabel("mix: 0 equal weights, 1 SimpleMKL")
plt.ylabel("share of the weight")
plt.legend(frameon=False, ncols=2)
