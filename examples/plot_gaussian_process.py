"""
How sure is the curve?
======================

Read as a Gaussian process, a regression with learnt kernels has a standard deviation everywhere, which grows where
there are no data.
"""

# %%
# A slow trend, a fast wave, and a gap in the middle. Kernels: a line and Gaussians of four widths.
import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw

rng = np.random.default_rng(0)
x = np.sort(np.r_[rng.uniform(0, 4, 45), rng.uniform(6.5, 10, 35)])
y = 0.3 * x + np.sin(2.5 * x) + 0.3 * rng.normal(size=len(x))
bank = [kw.kernels.Linear(), *(kw.kernels.RBF(gamma=g) for g in (0.01, 0.3, 3.0, 30.0))]
model = kw.MKLRegressor(bank).fit(x[:, None], y)
grid = np.linspace(-0.5, 10.5, 300)
mean, std = model.predict(grid[:, None], return_std=True)
noise = float(np.ravel(model.noise_variance_)[0]) ** 0.5
print(f"relative gap {np.max(model.rel_gap_):.0e}; standard deviation of the noise {noise:.2f}, true 0.30")

# %%
plt.figure(figsize=(7.5, 3.8), layout="constrained")
plt.fill_between(
    grid, mean - 2 * std, mean + 2 * std, color="#0072B2", alpha=0.2, label="two standard deviations"
)
plt.plot(grid, mean, color="#0072B2", label="mean")
plt.plot(grid, 0.3 * grid + np.sin(2.5 * grid), color="#D55E00", linestyle="--", label="truth")
plt.plot(x, y, ".", color="0.3")
plt.legend(frameon=False, ncols=3)
plt.ylim(-2.5, 6)

# %%
# Weights of the kernels.
kw.plots.KernelWeightsDisplay.from_estimator(model)
