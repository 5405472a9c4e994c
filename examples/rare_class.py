"""A rare class: unweighted probabilities, or equal weights for both classes.

python examples/rare_class.py [--quick]
"""

import sys

import numpy as np
from sklearn.metrics import balanced_accuracy_score, log_loss, precision_score, recall_score, roc_auc_score

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
