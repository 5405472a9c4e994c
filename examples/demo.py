"""Three real tables that scikit-learn bundles: joker, two other models and a linear one on the same test rows.

    python examples/demo.py

A quarter of the rows is held out for the test. Every model has its default settings; joker searches its settings with
the smallest effort. Seconds are those of ``fit``. Nothing is downloaded.
"""

import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from joker import JokerClassifier, JokerRegressor

TABLES = {"breast cancer": load_breast_cancer, "digits": load_digits, "diabetes": load_diabetes}


def models(classes):
    """Return the models for classes or for numbers."""
    if classes:
        return [
            JokerClassifier(effort=1, random_state=0),
            make_pipeline(StandardScaler(), SVC()),
            HistGradientBoostingClassifier(random_state=0),
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        ]
    return [
        JokerRegressor(effort=1, random_state=0),
        make_pipeline(StandardScaler(), SVR()),
        HistGradientBoostingRegressor(random_state=0),
        make_pipeline(StandardScaler(), RidgeCV()),
    ]


def error_of(model, X, y, classes):
    """Return the standard error of the score over the test rows; that of R² is to first order."""
    if classes:
        return np.std(model.predict(X) == y) / len(y) ** 0.5
    squares = (model.predict(X) - y) ** 2
    return np.std(squares) / np.var(y) / len(y) ** 0.5


print(f"{'table':15}{'rows':>6}  {'model':31}{'score on test rows':24}{'fit':>8}")
for name, load in TABLES.items():
    X, y = load(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    classes = name != "diabetes"
    for model in models(classes):
        start = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        score, error = model.score(X_test, y_test), error_of(model, X_test, y_test, classes)
        shown = f"{'accuracy' if classes else 'R²':8} {score:.3f} ± {error:.3f}"
        kind = type(model[-1] if hasattr(model, "steps") else model).__name__
        print(f"{name:15}{len(X_train):6}  {kind:31}{shown:24}{seconds:6.1f} s", flush=True)
print("\n± is one standard error over the test rows: smaller differences are noise.")
