"""
Partial dependence
==================

The estimators follow the conventions of scikit-learn, so that its tools work: here, what a model predicts on average
when one or two inputs are set to a value.

``python examples/partial_dependence.py [--quick]``
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import make_friedman1
from sklearn.inspection import PartialDependenceDisplay

from joker import KernelRidge

n, points = (300, 8) if "--quick" in sys.argv else (2_000, 20)
X, y = make_friedman1(n, n_features=5, noise=0.5, random_state=0)
X_test, y_test = make_friedman1(2_000, n_features=5, noise=0.5, random_state=1)

model = KernelRidge(lam=[1e-5, 1e-4, 0.001, 0.01, 0.1], bandwidth=1.0, standardize=False, random_state=0).fit(X, y)
print(f"R² {model.score(X_test, y_test):.3f} with λ = {model.lam_:g}")

# %%
# The data are y = 10 sin(π x₀ x₁) + 20 (x₂ − ½)² + 10 x₃ + 5 x₄ and noise. The curves show the parabola and the two
# lines, the map shows the product. The marks on the axes are the deciles of the inputs.

plt.style.use("seaborn-v0_8-colorblind")
figure, axes = plt.subplots(2, 2, figsize=(8, 6.5), layout="constrained")
PartialDependenceDisplay.from_estimator(
    model,
    X[:100],
    features=[2, 3, 4, (0, 1)],
    feature_names=["x₀", "x₁", "x₂", "x₃", "x₄"],
    grid_resolution=points,
    ax=axes.ravel(),
    line_kw={"color": "C0"},
    contour_kw={"cmap": "cividis"},
)
axes[1, 1].set_title("mean prediction, a level for each line", fontsize=10)
for ax in axes.flat:
    if ax.get_ylabel() == "Partial dependence":
        ax.set_ylabel("mean prediction")
plt.show()
