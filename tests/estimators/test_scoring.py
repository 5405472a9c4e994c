"""A copy of an estimator that has the predictions of some rows, for scorers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import get_scorer

import joker
from joker.estimators.scoring import with_predictions

X = np.random.default_rng(0).normal(size=(120, 3))
Y = np.sin(2 * X[:, 0])
LABELS = np.digitize(Y, [-0.5, 0.5])


@pytest.mark.parametrize("name", ["accuracy", "neg_log_loss", "roc_auc_ovr", "roc_auc"])
def test_scorers_take_predictions_that_are_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scorer gets the same score from an estimator that has predictions, without computing any."""
    y = (LABELS > 0).astype(int) if name == "roc_auc" else LABELS
    model = joker.KernelLogistic(random_state=0).fit(X, y)
    ready, score = with_predictions(model, X), get_scorer(name)
    expected, other = score(model, X, y), model.predict_proba(X[:5])
    assert_array_equal(ready.predict_proba(X[:5]), other)  # other rows are computed
    monkeypatch.setattr(type(model), "_check_rows", lambda *_, **__: pytest.fail("predictions were computed"))
    assert score(ready, X, y) == expected
    assert score(ready, X, y) == expected  # the first has not changed them
    assert ready._predicted is not None
    assert model._predicted is None


def test_a_new_fit_forgets_the_predictions() -> None:
    ready = with_predictions(joker.KernelRidge(random_state=0).fit(X, Y), X)
    ready.fit(X, -Y)
    assert_allclose(ready.predict(X), joker.KernelRidge(random_state=0).fit(X, -Y).predict(X))
