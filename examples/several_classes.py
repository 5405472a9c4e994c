"""
Several classes as one problem
==============================

One problem for all classes or one-vs-rest, probabilities, and whether these can be trusted.

``python examples/several_classes.py [--quick]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import accuracy_score, log_loss

from joker import KernelLogistic, KernelSVC

n = 1_500 if "--quick" in sys.argv else 10_000
rng = np.random.default_rng(0)


def sample(n):
    """Draw rows of four classes: the arms of a spiral, which overlap."""
    label = rng.integers(4, size=n)
    radius = rng.uniform(0.3, 3, n)
    angle = label * np.pi / 2 + radius + 0.6 * rng.normal(size=n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), np.array(list("ABCD"))[label]


X, y = sample(n)
X_test, y_test = sample(n)
settings = dict(lam=0.1, bandwidth=0.7, n_features=300, random_state=0)
models = {
    "softmax": KernelLogistic(**settings),
    "one-vs-rest": KernelLogistic(multi_class="ovr", **settings),
    "Crammer–Singer, calibrated": KernelSVC(multi_class="crammer_singer", calibrate=True, **settings),
    "squared hinge, calibrated": KernelSVC(calibrate=True, **settings),
}
print(f"{'':28}{'accuracy':>10}{'log loss':>10}")
for name, model in models.items():
    model.fit(X, y)
    scores = accuracy_score(y_test, model.predict(X_test)), log_loss(y_test, model.predict_proba(X_test))
    print(f"{name:28}{scores[0]:10.3f}{scores[1]:10.3f}")

# %%
# Reliability: of the rows that get a class with probability p, a share p should have it.
p = models["softmax"].predict_proba(X_test)
for low, high in ((0.0, 0.1), (0.45, 0.55), (0.9, 1.01)):
    given = (p >= low) & (p < high)
    right = (y_test[:, None] == models["softmax"].classes_)[given].mean()
    print(f"mean probability {p[given].mean():.2f}: {right:.2f} of the rows have the class")

# %%
# A curve on the diagonal is a model whose probabilities are shares of rows.

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
for marker, (name, model) in zip("osD^", models.items(), strict=True):
    CalibrationDisplay.from_predictions(
        y_test == "A", model.predict_proba(X_test)[:, 0], n_bins=10, name=name, ax=ax, marker=marker
    )
ax.set(xlabel="predicted probability of class A", ylabel="share of the rows that have class A")
ax.legend(loc="upper left")
plt.show()
