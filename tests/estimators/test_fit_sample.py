"""A fit on given rows, of which none are held out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import joker
from joker.errors import InvalidParameter, UnknownName

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=120)
LABELS = np.digitize(Y, [-0.5, 0.5])


@pytest.mark.parametrize("n_features", [None, 60])
def test_a_path_without_scores_keeps_every_model(n_features: int | None) -> None:
    """The models are those of a fit with any rows to score on; no row is held out."""
    model = joker.KernelSVC(lam=[0.1, 10.0, 1.0], n_features=n_features, block_size=40, random_state=0)
    scored = joker.KernelSVC(lam=[0.1, 10.0, 1.0], n_features=n_features, block_size=40, random_state=0)
    w = RNG.uniform(size=120)
    model.fit_sample((X, LABELS, w))
    scored.fit(X, LABELS, sample_weight=w, eval_set=(X[:1], LABELS[:1]))
    assert np.isnan(model.path_.scores).all()
    assert model.lam_ == 10.0  # of equal scores, the largest
    assert "validation_score" not in model.history_[0]
    for one, other in zip(model.path_.models, scored.path_.models, strict=True):
        assert_array_equal(one.decision_function(X), other.decision_function(X))
    assert model.plan_.total == scored.plan_.total


def test_rows_that_are_given_are_scored_on() -> None:
    held, w = (X[80:], Y[80:]), RNG.uniform(size=40)
    model = joker.KernelRidge(lam=[0.1, 1.0], random_state=0).fit_sample((X[:80], Y[:80], None), (*held, None))
    same = joker.KernelRidge(lam=[0.1, 1.0], random_state=0).fit(X[:80], Y[:80], eval_set=held)
    assert_array_equal(model.path_.scores, same.path_.scores)
    weighted = joker.KernelRidge(lam=[0.1, 1.0], random_state=0).fit_sample((X[:80], Y[:80], None), (*held, w))
    by_hand = [-np.average((held[1] - f) ** 2, weights=w) / 2 for f in weighted.path_.predict(held[0])]
    assert_allclose(weighted.path_.scores * weighted.target_scale_**2, by_hand)


def test_one_penalty_without_rows_to_score_on_is_a_plain_fit() -> None:
    model = joker.KernelQuantile(quantile=[0.1, 0.9], random_state=0).fit_sample((X, Y, None))
    assert_array_equal(model.predict(X), joker.KernelQuantile(quantile=[0.1, 0.9], random_state=0).fit(X, Y).predict(X))
    assert not hasattr(model, "path_")


def test_a_fit_that_stops_early_needs_rows_to_score_on() -> None:
    with pytest.raises(InvalidParameter, match="needs scores on held-out rows"):
        joker.KernelRidge(early_stopping=True).fit_sample((X, Y, None))
    with pytest.raises(UnknownName, match="Did you mean 'gaussian'"):
        joker.KernelRidge(kernel="gausian").fit_sample((X, Y, None))
