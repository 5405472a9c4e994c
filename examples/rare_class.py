"""
A rare class and its precision–recall curve
===========================================

Unweighted probabilities with a lower threshold, or equal weights for both classes: which finds more of the faults?

``python examples/rare_class.py [--quick]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    log_loss,
    precision_recall_curve,
    precision_score,
    recall_score,
    roc_auc_score,
)

from joker import KernelLogistic

n = 3_000 if "--quick" in sys.argv else 30_000
rng = np.random.default_rng(0)


def sample(n):
    """Draw rows with faults, which are likely on a ring around the origin and rare elsewhere."""
    X = rng.normal(size=(n, 2))
    chance = 0.6 * np.exp(-50 * (np.linalg.norm(X, axis=1) - 2.2) ** 2)
    return X, rng.random(n) < chance


X, y = sample(n)
X_test, y_test = sample(n)
print(f"{n:,} rows, {y.mean():.1%} of them faults")

settings = dict(lam=0.1, bandwidth=0.5, n_features=300, random_state=0)
plain = KernelLogistic(**settings).fit(X, y)
balanced = KernelLogistic(class_weight="balanced", **settings).fit(X, y)

print(f"{'':10}{'faults found':>14}{'alarms right':>14}{'both classes':>14}{'AUC':>8}{'log loss':>10}")
for name, model in [("plain", plain), ("balanced", balanced)]:
    found, chance = model.predict(X_test), model.predict_proba(X_test)[:, 1]
    print(
        f"{name:10}{recall_score(y_test, found):14.1%}{precision_score(y_test, found, zero_division=0):14.1%}"
        f"{balanced_accuracy_score(y_test, found):14.1%}{roc_auc_score(y_test, chance):8.3f}"
        f"{log_loss(y_test, chance):10.3f}"
    )

# The plain model ranks rows as well, and its probabilities are those of the data: choose a lower threshold instead.
alarm = plain.predict_proba(X_test)[:, 1] > y.mean()
print(f"plain, alarm above {y.mean():.1%}: finds {recall_score(y_test, alarm):.1%} of the faults")

# %%
# Both models rank the rows alike. Weights only move the threshold of one half along the curve, and the probabilities
# are no longer those of the data.

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
for name, model, style in (("plain", plain, "C0-"), ("balanced", balanced, "C2--")):
    chance = model.predict_proba(X_test)[:, 1]
    precision, recall, _ = precision_recall_curve(y_test, chance)
    average = average_precision_score(y_test, chance)
    ax.plot(100 * recall, 100 * precision, style, label=f"{name}, average precision {average:.2f}")
    found = model.predict(X_test)
    point = 100 * recall_score(y_test, found), 100 * precision_score(y_test, found, zero_division=0)
    mark = dict(marker="o" if name == "plain" else "s", color=style[:2], markersize=9, markeredgecolor="white")
    ax.plot(*point, linestyle="none", label=f"{name}, threshold ½", **mark)
ax.axhline(100 * y_test.mean(), color="0.5", linestyle=":", label="alarms at random")
ax.set(xlabel="faults found (recall), %", ylabel="alarms that are right (precision), %", xlim=(0, 102), ylim=(0, 105))
ax.legend(fontsize=9)
plt.show()
