"""
Probabilities that can be trusted
=================================

``KernelLogistic`` predicts probabilities. Of the rows to which it gives 30 %, about 30 % should belong to the class.
A sigmoid of the decision function of a support vector machine does not have this property.

``python examples/calibration_curve.py [--quick]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from joker import KernelLogistic, KernelSVC

n = 1_500 if "--quick" in sys.argv else 20_000
rng = np.random.default_rng(0)


def sample(n):
    """Draw rows whose probability of the class is known."""
    X = rng.uniform(-2, 2, (n, 2))
    p = 1 / (1 + np.exp(-3 * np.sin(2 * X[:, 0]) - 2 * X[:, 1] * X[:, 0]))
    return X, rng.random(n) < p


X, y = sample(n)
X_test, y_test = sample(30_000)
settings = dict(lam=1.0, bandwidth=0.7, n_features=400, random_state=0)
logistic = KernelLogistic(**settings).fit(X, y)
svc = KernelSVC(loss="hinge", **settings).fit(X, y)
predicted = {
    "KernelLogistic": logistic.predict_proba(X_test)[:, 1],
    "sigmoid of KernelSVC": 1 / (1 + np.exp(-svc.decision_function(X_test))),
}
for name, p in predicted.items():
    print(f"{name:22} Brier score {brier_score_loss(y_test, p):.4f}")

# %%
# Above: the share of the class in bins of the predicted probability. Below: the number of rows in each bin.

plt.style.use("seaborn-v0_8-colorblind")
figure, (top, bottom) = plt.subplots(2, 1, figsize=(6, 6.5), sharex=True, height_ratios=[3, 1], layout="constrained")
top.plot([0, 100], [0, 100], "--", color="0.5", label="perfect")
for (name, p), style in zip(predicted.items(), ("C0o-", "C2s-"), strict=True):
    share, mean = calibration_curve(y_test, p, n_bins=12)
    top.plot(100 * mean, 100 * share, style, markersize=5, label=name)
    bottom.hist(100 * p, bins=np.linspace(0, 100, 25), histtype="step", color=style[:2], linewidth=1.5)
top.set(ylabel="share of the class, %", xlim=(0, 100), ylim=(0, 100))
top.legend(loc="upper left")
bottom.set(xlabel="predicted probability, %", ylabel="new rows")
plt.show()
