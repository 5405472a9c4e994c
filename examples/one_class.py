"""
Novelty detection
=================

``KernelOneClass`` is fitted to benign tumours only, and should notice malignant ones, of which it has seen none.
``nu`` is the share of usual rows that may count as novel.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import RocCurveDisplay, roc_auc_score
from sklearn.model_selection import train_test_split

from joker import KernelOneClass

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
benign, malignant = X[y == 1], X[y == 0]
train, usual = train_test_split(benign, test_size=0.5, random_state=0)

# With few rows of many columns a wide kernel generalises better than the default one.
model = KernelOneClass(nu=0.05, bandwidth=20, random_state=0).fit(train)
print(f"called novel: {np.mean(model.predict(usual) < 0):.1%} of new benign tumours (nu is 5%)")
print(f"              {np.mean(model.predict(malignant) < 0):.1%} of malignant tumours")
f = np.concatenate([model.score_samples(usual), model.score_samples(malignant)])
novel = np.concatenate([np.zeros(len(usual)), np.ones(len(malignant))])
print(f"AUC {roc_auc_score(novel, -f):.3f}, gap {model.gap_:.1e}")

# %%
# The score of a row is its similarity to the training rows. The line is the threshold that ``nu`` has chosen.

plt.style.use("seaborn-v0_8-colorblind")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
bins = np.linspace(f.min(), f.max(), 40)
left.hist(f[novel == 0], bins=bins, alpha=0.7, label="new benign")
left.hist(f[novel == 1], bins=bins, alpha=0.7, label="malignant")
left.axvline(model.offset_, color="0.2", linestyle="--", label="threshold")
left.set(xlabel="score", ylabel="rows")
left.legend()
RocCurveDisplay.from_predictions(novel, -f, ax=right, name="KernelOneClass")
right.set(xlabel="benign called novel", ylabel="malignant called novel")
plt.show()
